//! Machine-readable results of the benchmarks, for `scripts/bench`.

use std::io::Write;

use serde_json::json;

/// One measured case of a benchmark. `scripts/bench` finds its last record by all fields except the figures,
/// so these texts must not contain measurements.
pub struct Case<'a> {
    /// The quantity that is computed.
    pub case: &'a str,
    /// Numbers of rows, columns and others that determine the work.
    pub sizes: String,
    pub threads: usize,
    /// Unit of both figures, such as `ms/row`.
    pub unit: &'a str,
    /// The figure of riesz; less is better.
    pub riesz: f64,
    /// The program that riesz is compared with, and its figure.
    pub reference: Option<(&'a str, f64)>,
}

/// Appends a case to the file that `RIESZ_BENCH_RESULTS` names, as one line of JSON; does nothing without
/// this variable.
pub fn record(case: &Case<'_>) {
    let Ok(path) = std::env::var("RIESZ_BENCH_RESULTS") else { return };
    let line = json!({
        "case": case.case,
        "sizes": case.sizes,
        "threads": case.threads,
        "reference": case.reference.map(|(name, _)| name),
        "unit": case.unit,
        "riesz": case.riesz,
        "reference_figure": case.reference.map(|(_, figure)| figure),
        "instruction_set": riesz::Isa::detect().name(),
    });
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("a writable file");
    writeln!(file, "{line}").expect("a writable file");
}

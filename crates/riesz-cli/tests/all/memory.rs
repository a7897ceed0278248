//! The memory of `explain`, which streams, does not grow with the number of rows.
#![cfg(target_os = "linux")]

use std::fmt::Write;
use std::process::Command;

use crate::common::Place;

#[test]
fn two_hundred_thousand_rows_in_little_memory() {
    let place = Place::new();
    let mut text = String::from("a,b,c,d,y\n");
    for i in 0..200_000u32 {
        let v = |k: u32| f64::from(i.wrapping_mul(2_654_435_761).wrapping_add(k * 7919) % 1000) / 100.0;
        writeln!(text, "{},{},{},{},{}", v(1), v(2), v(3), v(4), v(5)).unwrap();
    }
    place.write("rows.csv", &text);
    place.write("train.csv", text.lines().take(40).collect::<Vec<_>>().join("\n"));
    place.good("fit train.csv --target y --ridge 1 -o m.riesz");
    for output in ["out.csv", "out.parquet"] {
        let line = format!(
            "ulimit -v 400000; exec \"$RIESZ\" explain m.riesz rows.csv --threads 2 --quiet -o {output}"
        );
        let status = Command::new("bash")
            .args(["-c", &line])
            .current_dir(place.path(""))
            .env("RIESZ", assert_cmd::cargo::cargo_bin!("riesz"))
            .status()
            .unwrap();
        assert!(status.success(), "{output}");
    }
    assert_eq!(place.read("out.csv").lines().count(), 200_001);
    // An explanation that needs more memory is refused with a remedy.
    place.bad(
        "explain m.riesz train.csv --game observational --conditional-ridge 0.1 --background rows.csv",
        "the observational game on 200000 reference rows needs",
    );
    let shorter: String = text.lines().take(50_001).map(|l| l.to_string() + "\n").collect();
    place.write("few.csv", shorter);
    let (small, large) = (resident(&place, "few.csv"), resident(&place, "rows.csv"));
    assert!(large < small + 8_000, "50,000 rows: {small} kB, 200,000 rows: {large} kB");
}

/// Returns the peak resident memory of an explanation in kB, as last observed while it ran.
fn resident(place: &Place, rows: &str) -> u64 {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("riesz"))
        .args(["explain", "m.riesz", rows, "--threads", "2", "--quiet", "-o", "/dev/null"])
        .current_dir(place.path(""))
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak_line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        if let Some(kb) = peak_line.and_then(|v| v.split_whitespace().next()?.parse().ok()) {
            peak = kb;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    peak
}

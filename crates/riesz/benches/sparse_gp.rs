//! Benchmark of the evidence lower bound of a sparse Gaussian process and its gradient against GPflow's SGPR.
//!
//! `cargo bench --bench sparse_gp` prints a table. The reference runs in the Python that `RIESZ_PYTHON`
//! names, or in `python3`, and needs GPflow. Both sides use 100,000 rows of 18 columns (10,000 with
//! `-- --quick`), 500 inducing points, a Gaussian kernel with a length scale for each column, and one thread.
//! Runs of the two alternate. Times are CPU seconds, and the ratio is the ratio of medians. Bounds must agree
//! to 1e-9, gradients to 1e-5.

mod record;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use riesz::fit::{InducingPoints, SparseGaussianProcess, inducing_points};
use riesz::{Isa, Kernel, Matrix, Table};

use crate::record::{Case, record};

const D: usize = 18;
const M: usize = 500;
const RUNS: usize = 3;

/// The running reference process, which evaluates once for each line of its input.
struct Reference {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Reference {
    fn start(n: usize, numbers: &[f64]) -> Option<Self> {
        let python = std::env::var("RIESZ_PYTHON").unwrap_or_else(|_| "python3".into());
        let mut child = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/sparse_gp_reference.py"))
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut stdin = child.stdin.take()?;
        let stdout = BufReader::new(child.stdout.take()?);
        stdin.write_all(format!("{n} {D} {M}\n").as_bytes()).ok()?;
        stdin.write_all(&numbers.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).ok()?;
        Some(Self { child, stdin, stdout })
    }

    fn run(&mut self) -> Option<f64> {
        self.stdin.write_all(b"run\n").ok()?;
        self.stdin.flush().ok()?;
        Some(line(&mut self.stdout)?[0])
    }

    /// Ends the input, so that the reference prints its peak memory, the bound and the gradient, and returns
    /// them.
    fn numbers(self) -> Option<Vec<f64>> {
        let Self { mut child, stdin, mut stdout } = self;
        drop(stdin);
        let values = line(&mut stdout);
        child.wait().ok()?;
        values
    }
}

/// Reads one line of numbers.
fn line(from: &mut impl BufRead) -> Option<Vec<f64>> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let numbers: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    (!numbers.is_empty()).then_some(numbers)
}

fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

/// CPU seconds of this process so far; Linux only.
fn seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Peak memory of this process so far, in bytes; Linux only.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1024.0
}

fn main() {
    let n = if std::env::args().any(|a| a == "--quick") { 10_000 } else { 100_000 };
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    // Columns are correlated, like columns of real data.
    let rows: Vec<Vec<f64>> = (0..n)
        .map(|_| {
            let common = normal();
            (0..D).map(|_| 0.6 * common + 0.8 * normal()).collect()
        })
        .collect();
    let y: Vec<f64> =
        rows.iter().map(|r| r[0].sin() + r[1] * r[2] + (r[3] + r[4]).cos() + 0.5 * normal()).collect();
    let x = Table::from_rows(&rows).expect("finite numbers");
    let points = inducing_points(&x, M, 0).expect("points");
    let kernel = Kernel::gaussian(&[(D as f64).sqrt(); D]);
    let process = SparseGaussianProcess {
        inducing: InducingPoints::Points(points.clone()),
        normalize_y: false,
        ..SparseGaussianProcess::new(kernel, 0.25, M)
    };
    let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
    let numbers: Vec<f64> = rows
        .into_iter()
        .flatten()
        .chain(y.clone())
        .chain((0..M).flat_map(|i| points.row(i)))
        .chain(theta.clone())
        .collect();
    let mut reference = Reference::start(n, &numbers);
    drop(numbers);
    let targets = Matrix::column_vector(y);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread pool");
    let (mut own, mut peer, mut found) = (Vec::new(), Vec::new(), (0.0, Vec::new()));
    for _ in 0..RUNS {
        let start = seconds();
        found = pool.install(|| process.evidence_lower_bound(&x, &targets, &theta)).expect("a bound");
        own.push(seconds() - start);
        match reference.as_mut().and_then(Reference::run) {
            Some(seconds) => peer.push(seconds),
            None => reference = None,
        }
    }
    let (own, memory) = (median(own), peak());
    println!(
        "evidence lower bound and gradient, {}, n = {n}, d = {D}, m = {M}, one thread",
        Isa::detect().name()
    );
    println!("{:<8} {:>12} {:>12} {:>16}", "", "CPU seconds", "peak MB", "bound");
    println!("{:<8} {own:>12.2} {:>12.0} {:>16.6}", "riesz", memory / 1e6, found.0);
    let Some(values) = reference.and_then(Reference::numbers) else {
        println!("no reference: set RIESZ_PYTHON to a Python that has GPflow");
        return;
    };
    let peer = median(peer);
    println!("{:<8} {peer:>12.2} {:>12.0} {:>16.6}", "GPflow", values[0] / 1e6, values[1]);
    println!("{:<8} {:>12.3} {:>12.3}", "ratio", own / peer, memory / values[0]);
    let gap = (found.0 / values[1] - 1.0).abs();
    let largest = values[2..].iter().fold(0.0_f64, |a, v| a.max(v.abs()));
    let slopes = found.1.iter().zip(&values[2..]).fold(0.0_f64, |a, (u, v)| a.max((u - v).abs())) / largest;
    println!("bounds differ by {gap:.1e}, gradients by {slopes:.1e}");
    assert!(gap < 1e-9 && slopes < 1e-5, "they differ");
    for (case, unit, riesz, other) in [
        ("bound and gradient", "CPU s", own, peer),
        ("bound and gradient, peak memory", "MB", memory / 1e6, values[0] / 1e6),
    ] {
        let sizes = format!("n = {n}, d = {D}, m = {M}");
        record(&Case { case, sizes, threads: 1, unit, riesz, reference: Some(("GPflow", other)) });
    }
}

//! Benchmark of kernel ridge and Gaussian process regression with fixed parameters against numpy and scipy.
//!
//! `cargo bench --bench fit` prints a table. The reference runs in the Python that `RIESZ_PYTHON` names, or
//! in `python3`, and needs numpy and scipy. Both sides use 10 features and a Gaussian kernel, and compute the
//! gram matrix, its Cholesky factor and the solution. Runs of the two alternate, and the ratio is the ratio
//! of medians. Coefficients must agree to 1e-8. `-- --quick` runs small sizes only.

mod record;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use riesz::fit::{GaussianProcess, KernelRidge, TunedParameters};
use riesz::{Isa, Kernel, Matrix, Table};

use crate::record::{Case, record};

const D: usize = 10;
const RUNS: usize = 9;

/// The running reference process, which fits once for each line of its input.
struct Reference {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Reference {
    fn start(threads: usize, x: &[f64], y: &[f64]) -> Option<Self> {
        let python = std::env::var("RIESZ_PYTHON").unwrap_or_else(|_| "python3".into());
        let threads = threads.to_string();
        let mut child = Command::new(python)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/fit_reference.py"))
            .envs(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"].map(|n| (n, &threads)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut stdin = child.stdin.take()?;
        let stdout = BufReader::new(child.stdout.take()?);
        stdin.write_all(format!("{} {D}\n", y.len()).as_bytes()).ok()?;
        stdin.write_all(&x.iter().chain(y).flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).ok()?;
        Some(Self { child, stdin, stdout })
    }

    fn run(&mut self) -> Option<f64> {
        self.stdin.write_all(b"run\n").ok()?;
        self.stdin.flush().ok()?;
        Some(line(&mut self.stdout)?[0])
    }

    /// Ends the input, so that the reference prints its coefficients, and returns them.
    fn coefficients(self) -> Option<Vec<f64>> {
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

fn main() {
    println!("fits, {}, d = {D}; milliseconds per fit, median of {RUNS}", Isa::detect().name());
    println!(
        "{:<18} {:>6} {:>8} {:>10} {:>10} {:>8} {:>12}",
        "model", "n", "threads", "riesz", "scipy", "ratio", "difference"
    );
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0) * 3_f64.sqrt()
    };
    let quick = std::env::args().any(|a| a == "--quick");
    let mut missing = false;
    let sizes: &[usize] = if quick { &[2000] } else { &[2000, 4000] };
    for &n in sizes {
        let rows: Vec<Vec<f64>> = (0..n).map(|_| (0..D).map(|_| draw()).collect()).collect();
        let y: Vec<f64> = rows.iter().map(|r| r[0].sin() + r[1] * r[2] + 0.3 * draw()).collect();
        let x = Table::from_rows(&rows).expect("finite numbers");
        let targets = Matrix::column_vector(y.clone());
        let mut gp = GaussianProcess::new(Kernel::gaussian(&[(D as f64).sqrt(); D]), 0.1);
        (gp.tune, gp.normalize_y) = (TunedParameters::Nothing, false);
        let mut ridge = KernelRidge::new(gp.kernel.clone(), gp.noise);
        ridge.center = false;
        for (name, threads) in [("ridge", 1), ("ridge", 2), ("Gaussian process", 1), ("Gaussian process", 2)]
        {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
            let mut reference = Reference::start(threads, &rows.concat(), &y);
            let (mut milliseconds, mut peer, mut coef) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..RUNS {
                let start = Instant::now();
                let model = match name {
                    "ridge" => pool.install(|| ridge.fit(&x, &targets)).expect("a fit").model,
                    _ => pool.install(|| gp.fit(&x, &targets)).expect("a fit").model,
                };
                milliseconds.push(1e3 * start.elapsed().as_secs_f64());
                coef = model.coef.data().to_vec();
                match reference.as_mut().and_then(Reference::run) {
                    Some(seconds) => peer.push(1e3 * seconds),
                    None => reference = None,
                }
            }
            let milliseconds = median(milliseconds);
            match reference.and_then(Reference::coefficients) {
                Some(values) => {
                    let largest = values.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
                    let gap =
                        coef.iter().zip(&values).fold(0.0_f64, |a, (u, v)| a.max((u - v).abs())) / largest;
                    assert!(gap < 1e-8, "coefficients differ by {gap:e}");
                    let peer = median(peer);
                    println!(
                        "{name:<18} {n:>6} {threads:>8} {milliseconds:>10.1} {peer:>10.1} {:>8.2} {gap:>12.1e}",
                        peer / milliseconds
                    );
                    let (sizes, reference) = (format!("n = {n}, d = {D}"), Some(("scipy", peer)));
                    record(&Case { case: name, sizes, threads, unit: "ms", riesz: milliseconds, reference });
                }
                None => {
                    missing = true;
                    println!(
                        "{name:<18} {n:>6} {threads:>8} {milliseconds:>10.1} {:>10} {:>8} {:>12}",
                        "-", "-", "-"
                    );
                }
            }
        }
    }
    if missing {
        println!("no reference: set RIESZ_PYTHON to a Python that has numpy and scipy");
    }
}

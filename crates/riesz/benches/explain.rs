//! Benchmark of exact Shapley values against the best published form, a numpy quadrature in log space.
//!
//! `cargo bench --bench explain` prints a table. The reference runs in the Python that `RIESZ_PYTHON` names,
//! or in `python3`, and needs numpy. Both sides use one thread, 1000 support points, standard normal data and
//! length scales √d, and both include the kernel evaluation. Values must agree to 1e-12. `-- --quick` runs
//! small sizes only.

mod record;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use riesz::fit::GaussianProcess;
use riesz::index::Interaction;
use riesz::kernel::Polynomial;
use riesz::{Explainer, Game, Isa, Kernel, KernelExpansion, Matrix, Question, Table, ValueIndex};

use crate::record::{Case, record};

const N: usize = 1000;
const BACKGROUND: usize = 100;

/// A fixed stream of standard normal numbers, by the Box-Muller method.
struct Normal(u64);
impl Normal {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
    fn matrix(&mut self, n: usize, d: usize) -> Vec<Vec<f64>> {
        let mut draw =
            |_| (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos();
        (0..n).map(|_| (0..d).map(&mut draw).collect()).collect()
    }
}

/// Median seconds of a run of `f`, over at least 7 runs and half a second.
fn time(mut f: impl FnMut()) -> f64 {
    f();
    let begin = Instant::now();
    let mut runs = Vec::new();
    while runs.len() < 7 || begin.elapsed().as_secs_f64() < 0.5 {
        let start = Instant::now();
        f();
        runs.push(start.elapsed().as_secs_f64());
    }
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

/// Runs the numpy reference, and returns its milliseconds per row and the values of `row`; `None` without
/// numpy.
fn numpy(points: &[Vec<f64>], coef: &[f64], row: &[f64], background: &[Vec<f64>]) -> Option<(f64, Vec<f64>)> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/explain_reference.py");
    let python = std::env::var("RIESZ_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut child = Command::new(python)
        .arg(script)
        .envs(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, "1")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let header = format!("{} {} {}\n", points.len(), row.len(), background.len());
    let numbers = points.iter().flatten().chain(coef).chain(row).chain(background.iter().flatten());
    let mut stdin = child.stdin.take()?;
    stdin.write_all(header.as_bytes()).ok()?;
    stdin.write_all(&numbers.flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()).ok()?;
    drop(stdin);
    let output = String::from_utf8(child.wait_with_output().ok()?.stdout).ok()?;
    let mut fields = output.split_whitespace().map(|f| f.parse::<f64>());
    Some((fields.next()?.ok()?, fields.collect::<Result<_, _>>().ok()?))
}

/// Records milliseconds per row on one thread, beside those of a reference.
fn record_row(case: &str, sizes: String, riesz: f64, reference: Option<(&str, f64)>) {
    record(&Case { case, sizes, threads: 1, unit: "ms/row", riesz, reference });
}

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread pool");
    let quick = std::env::args().any(|a| a == "--quick");
    println!("one thread, {}, n = {N}, length scales √d; milliseconds per row", Isa::detect().name());
    println!(
        "{:<16} {:>4} {:>6} {:>10} {:>10} {:>8} {:>10}",
        "game", "d", "rows", "riesz", "numpy", "ratio", "difference"
    );
    let mut missing = false;
    for (interventional, d, rows) in [
        (false, 5, 100),
        (false, 10, 100),
        (false, 10, 1),
        (false, 20, 100),
        (false, 50, 100),
        (false, 100, 100),
        (false, 200, 100),
        (false, 500, 100),
        (true, 10, 20),
        (true, 20, 20),
        (true, 50, 20),
        (true, 50, 1),
    ] {
        if !quick || d <= 20 {
            missing |= !compare(&pool, interventional, d, rows);
        }
    }
    if missing {
        println!("no reference: set RIESZ_PYTHON to a Python that has numpy");
    }
    if quick {
        return;
    }
    if let Some(peak) = peak_memory() {
        println!("peak memory of riesz so far: {peak} MB");
        let sizes = format!("n = {N}, d up to 500");
        let riesz = peak as f64;
        record(&Case { case: "peak memory", sizes, threads: 1, unit: "MB", riesz, reference: None });
    }
    pairs(&pool);
    powers(&pool);
    covariances(&pool);
    sparse(&pool);
    threads();
}

/// Times the values of one game beside the reference, and compares the values of the first row. Returns
/// whether the reference ran.
fn compare(pool: &rayon::ThreadPool, interventional: bool, d: usize, rows: usize) -> bool {
    let mut normal = Normal(d as u64);
    let (points, x) = (normal.matrix(N, d), normal.matrix(rows, d));
    let background = if interventional { normal.matrix(BACKGROUND, d) } else { Vec::new() };
    let coef: Vec<f64> = normal.matrix(1, N).remove(0);
    let table = |rows: &[Vec<f64>]| Table::from_rows(rows).expect("finite numbers");
    let kernel = Kernel::gaussian(&vec![(d as f64).sqrt(); d]);
    let model = KernelExpansion::new(kernel, table(&points), Matrix::column_vector(coef.clone()), vec![0.0]);
    let model = model.expect("a valid model");
    let game = match interventional {
        true => Game::Interventional { background: table(&background).into() },
        false => Game::Functional,
    };
    let explainer = Explainer::new(&model, game).expect("a product kernel");
    let x_table = table(&x);
    let mut explanation = None;
    let seconds = pool.install(|| time(|| explanation = explainer.explain(&x_table).ok()));
    let ms = seconds * 1e3 / rows as f64;
    let name = if interventional { "interventional" } else { "functional" };
    let explanation = explanation.expect("an explanation");
    let Some((peer, values)) = numpy(&points, &coef, &x[0], &background) else {
        println!("{name:<16} {d:>4} {rows:>6} {ms:>10.4} {:>10} {:>8} {:>10}", "-", "-", "-");
        return false;
    };
    let actual = explanation.row_values(0, 0);
    let largest = values.iter().fold(0.0_f64, |a, v| a.max(v.abs()));
    let gap = actual.iter().zip(&values).fold(0.0_f64, |a, (u, v)| a.max((u - v).abs())) / largest;
    assert!(gap < 1e-12, "values differ by {gap:e}");
    println!("{name:<16} {d:>4} {rows:>6} {ms:>10.4} {peer:>10.2} {:>8.0} {gap:>10.1e}", peer / ms);
    record_row(name, sizes(interventional, d, rows), ms, Some(("numpy quadrature", peer)));
    true
}

/// The sizes of a case as text.
fn sizes(interventional: bool, d: usize, rows: usize) -> String {
    let background = if interventional { format!(", background {BACKGROUND}") } else { String::new() };
    format!("n = {N}, d = {d}{background}, rows {rows}")
}

/// Times the values of all pairs and triples of features, beside the values of single features.
fn pairs(pool: &rayon::ThreadPool) {
    println!("all pairs and triples, functional, one thread, n = {N}; milliseconds per row");
    for (d, rows) in [(10, 20), (50, 4), (100, 2)] {
        let mut normal = Normal(d as u64);
        let mut table = |n: usize| Table::from_rows(&normal.matrix(n, d)).expect("finite numbers");
        let (points, x) = (table(N), table(rows));
        let kernel = Kernel::gaussian(&vec![(d as f64).sqrt(); d]);
        let coef = Matrix::column_vector(normal.matrix(1, N).remove(0));
        let model = KernelExpansion::new(kernel, points, coef, vec![0.0]).expect("a valid model");
        let sets = [2, 3].map(|order| ValueIndex::Interaction { kind: Interaction::KSii, order });
        let [alone, pairs, triples] = [ValueIndex::Shapley, sets[0], sets[1]].map(|index| {
            let question = Question::from(Game::Functional).with_index(index);
            let explainer = Explainer::new(&model, question).expect("a product kernel");
            let seconds = pool.install(|| time(|| drop(explainer.explain(&x))));
            seconds * 1e3 / rows as f64
        });
        println!("d = {d}: {pairs:.3}, triples {triples:.2}, single features {alone:.4}");
        for (case, ms) in [("functional, pairs", pairs), ("functional, triples", triples)] {
            record_row(case, sizes(false, d, rows), ms, None);
        }
    }
}

/// Times polynomial kernels, which are not products of one factor for each feature.
fn powers(pool: &rayon::ThreadPool) {
    println!(
        "polynomial kernels, interventional, 50 background rows, one thread, n = {N}; milliseconds per row"
    );
    for (d, degree, rows) in [(10, 2, 20), (10, 3, 20), (10, 5, 10), (10, 10, 4), (100, 3, 4)] {
        let mut normal = Normal(d as u64);
        let mut table = |n: usize| Table::from_rows(&normal.matrix(n, d)).expect("finite numbers");
        let (points, reference, x) = (table(N), table(50), table(rows));
        let (columns, center, scale) = ((0..d).collect(), vec![0.0; d], vec![1.0; d]);
        let kernel = Polynomial { columns, center, scale, gamma: 1.0 / d as f64, coef0: 1.0, degree };
        let coef = Matrix::column_vector(normal.matrix(1, N).remove(0));
        let model = KernelExpansion::new(kernel.into(), points, coef, vec![0.0]).expect("a valid model");
        let sets = ValueIndex::Interaction { kind: Interaction::KSii, order: 2 };
        let [alone, pairs] = [ValueIndex::Shapley, sets].map(|index| {
            let game = Game::Interventional { background: reference.clone().into() };
            let explainer = Explainer::new(&model, Question::from(game).with_index(index)).expect("a power");
            let seconds = pool.install(|| time(|| drop(explainer.explain(&x))));
            seconds * 1e3 / rows as f64
        });
        println!("d = {d}, degree {degree}: {alone:.3}, with pairs {pairs:.3}");
        let sizes = format!("n = {N}, d = {d}, degree {degree}, background 50");
        record_row("interventional, polynomial kernel", sizes.clone(), alone, None);
        record_row("interventional, polynomial kernel, pairs", sizes, pairs, None);
    }
}

/// Times the covariance of values under a Gaussian process.
fn covariances(pool: &rayon::ThreadPool) {
    let (n, background, d) = (500, 50, 10);
    let mut normal = Normal(1);
    let mut table = |n: usize| Table::from_rows(&normal.matrix(n, d)).expect("finite numbers");
    let (points, reference, x) = (table(n), table(background), table(1));
    let target = Matrix::column_vector(normal.matrix(1, n).remove(0));
    let process = GaussianProcess::new(Kernel::gaussian(&vec![(d as f64).sqrt(); d]), 0.5);
    let fit = process.fit(&points, &target).expect("a positive definite kernel");
    let explainer = Explainer::interventional(&fit.model, &reference).expect("a product kernel");
    let posterior = fit.posterior();
    let seconds = pool.install(|| {
        time(|| drop(explainer.posterior_functionals(&x).map(|values| posterior.covariance(&values))))
    });
    println!(
        "covariance of values, n = {n}, d = {d}, {background} background rows: {:.2} ms per row",
        seconds * 1e3
    );
    record_row(
        "covariance of values",
        format!("n = {n}, d = {d}, background {background}"),
        seconds * 1e3,
        None,
    );
}

/// Peak memory of this process so far, in megabytes; Linux only.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

/// Compares the time of two threads with the time of one.
fn threads() {
    for (interventional, d, rows) in [(false, 50, 1000), (true, 20, 64)] {
        let mut normal = Normal(d as u64);
        let mut table = |n: usize| Table::from_rows(&normal.matrix(n, d)).expect("finite numbers");
        let (points, x, background) = (table(N), table(rows), table(BACKGROUND));
        let kernel = Kernel::gaussian(&vec![(d as f64).sqrt(); d]);
        let model = KernelExpansion::new(kernel, points, Matrix::column_vector(vec![1.0; N]), vec![0.0]);
        let model = model.expect("a valid model");
        let game = if interventional {
            Game::Interventional { background: background.into() }
        } else {
            Game::Functional
        };
        let explainer = Explainer::new(&model, game).expect("a product kernel");
        let seconds = [1, 2].map(|count| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().expect("a thread pool");
            pool.install(|| time(|| drop(explainer.explain(&x).expect("an explanation"))))
        });
        let name = if interventional { "interventional" } else { "functional" };
        println!(
            "{name}, d = {d}, {rows} rows: two threads are {:.2} times as fast as one",
            seconds[0] / seconds[1]
        );
        let [one_thread, two_threads] = seconds.map(|s| s * 1e3 / rows as f64);
        record(&Case {
            case: name,
            sizes: sizes(interventional, d, rows),
            threads: 2,
            unit: "ms/row",
            riesz: two_threads,
            reference: Some(("one thread", one_thread)),
        });
    }
}

/// Times rows with 50 non-zeros against a baseline of zeros, to show the cost of 10,000 columns.
fn sparse(pool: &rayon::ThreadPool) {
    const ROWS: usize = 16;
    for (d, filled) in [(50, 50), (10_000, 50), (10_000, 10_000)] {
        let mut normal = Normal(d as u64);
        let mut rows = |n: usize| {
            let mut rows = vec![vec![0.0; d]; n];
            for (i, row) in rows.iter_mut().enumerate() {
                let values = normal.matrix(1, filled).remove(0);
                values.iter().enumerate().for_each(|(k, v)| row[(k * (d / filled) + i) % d] = *v);
            }
            Table::from_rows(&rows).expect("finite numbers")
        };
        let (points, x) = (rows(N), rows(ROWS));
        let kernel = Kernel::gaussian(&vec![(filled as f64).sqrt(); d]);
        let model = KernelExpansion::new(kernel, points, Matrix::column_vector(vec![1.0; N]), vec![0.0]);
        let model = model.expect("a valid model");
        let point = Table::from_rows(&[vec![0.0; d]]).expect("zeros");
        let explainer = Explainer::new(&model, Game::Baseline { point }).expect("a product kernel");
        let seconds = pool.install(|| time(|| drop(explainer.explain(&x).expect("an explanation"))));
        let ms = seconds * 1e3 / ROWS as f64;
        println!("baseline, {filled:>5} of {d:>5} columns differ: {ms:.3} ms per row");
        record_row("baseline", format!("n = {N}, {filled} of {d} columns differ"), ms, None);
    }
}

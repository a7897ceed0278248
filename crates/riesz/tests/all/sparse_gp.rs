//! Sparse Gaussian processes against GPflow (a fixture made by `scripts/oracles/sparse_gp.py`), against their
//! definition in dense algebra, and against properties that hold for any data.

use riesz::fit::{
    FitTask, GaussianProcess, InducingPoints, KernelSums, ModelKind, SparseGaussianProcess, Target,
    TunedParameters, inducing_points,
};
use riesz::kernel::{Categorical, Linear, Periodic, Profile, Stationary};
use riesz::linalg::{lu_solve, symmetric_eigen};
use riesz::{Error, Kernel, Matrix, Table};

use crate::common::{Stream, fixture, largest_difference, lists, matrix, numbers, stationary, with_threads};

fn joint(profile: Profile, columns: Vec<usize>, ard: bool) -> Kernel {
    let length_scale = columns.iter().map(|j| 0.9 + 0.3 * *j as f64).collect();
    Stationary { profile, columns, length_scale, ard, isotropic: true }.into()
}

/// Returns kernels of all kinds: products, joint distances, sums of products, a varying diagonal; the last
/// column has levels.
fn kernels() -> Vec<(&'static str, Kernel)> {
    let level = || Kernel::from(Categorical::on_column(2));
    let linear: Kernel =
        Linear { columns: vec![0, 1], center: vec![0.1, -0.2], scale: vec![1.0, 2.0] }.into();
    let periodic: Kernel = Periodic { columns: [0], period: 1.7, length_scale: 1.1 }.into();
    vec![
        ("Gaussian, a length scale a column", 1.2 * Kernel::gaussian(&[0.8, 1.3])),
        ("Gaussian, one length scale", 0.7 * joint(Profile::Gaussian, vec![0, 1, 2], false)),
        ("Matérn, joint", 0.7 * joint(Profile::Matern32, vec![0, 1], true)),
        (
            "Matérn, by column, with levels",
            1.1 * Kernel::stationary(Profile::Matern52, &[0.8, 1.2]) * level(),
        ),
        (
            "sum of products",
            0.4 * stationary(Profile::RationalQuadratic { alpha: 0.8 }, 0, 0.9)
                * stationary(Profile::Gaussian, 1, 1.1)
                + 0.3 * periodic
                + 0.2 * linear * level()
                + Kernel::constant(0.1),
        ),
    ]
}

/// Returns rows, two targets, and a noise variance for each row.
fn problem(n: usize, seed: u64) -> (Table, Matrix, Vec<f64>) {
    let mut stream = Stream(seed);
    let x = stream.normals_and_levels(n, 3);
    let y = (0..n).flat_map(|i| {
        let (a, b, level) = (x.get(i, 0), x.get(i, 1), x.get(i, 2));
        [2.0 * (1.5 * a).sin() + 0.3 * level + 0.2 * stream.normal(), a * b + 0.3 * stream.normal()]
    });
    let y = Matrix::from_row_major(n, 2, y.collect());
    let row_noise = (0..n).map(|_| 0.4 * stream.uniform()).collect();
    (x, y, row_noise)
}

fn process(kernel: &Kernel, points: &Table) -> SparseGaussianProcess {
    SparseGaussianProcess {
        inducing: InducingPoints::Points(points.clone()),
        normalize_y: false,
        tune: TunedParameters::Nothing,
        ..SparseGaussianProcess::new(kernel.clone(), 0.15, 1)
    }
}

fn start(process: &SparseGaussianProcess) -> Vec<f64> {
    process.parameters().iter().map(|p| p.log_value).collect()
}

fn identity(n: usize, value: impl Fn(usize) -> f64) -> Matrix {
    let mut out = Matrix::zeros(n, n);
    out.add_diagonal(value);
    out
}

fn plus(a: &Matrix, times: f64, b: &Matrix) -> Matrix {
    let sums = a.data().iter().zip(b.data()).map(|(a, b)| a + times * b);
    Matrix::from_row_major(a.rows(), a.cols(), sums.collect())
}

fn inverse(a: &Matrix) -> Matrix {
    let n = a.rows();
    let unit = |j: usize| (0..n).map(|i| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    Matrix::from_row_major(n, n, (0..n).flat_map(|j| lu_solve(a, &unit(j))).collect()).transpose()
}

fn log_det(a: &Matrix) -> f64 {
    symmetric_eigen(a).unwrap().0.iter().map(|v| v.ln()).sum()
}

fn trace(a: &Matrix) -> f64 {
    (0..a.rows()).map(|i| a[(i, i)]).sum()
}

/// Returns `log N(y; 0, a)`, except that the quadratic form of the residuals uses `b`.
fn log_density(y: &[f64], a: &Matrix, b: &Matrix) -> f64 {
    let square: f64 = y.iter().zip(lu_solve(b, y)).map(|(y, v)| y * v).sum();
    -0.5 * (square + log_det(a) + y.len() as f64 * std::f64::consts::TAU.ln())
}

/// The posterior and bounds by definition, with n × n matrices.
struct Dense {
    /// `K_ZZ` with its jitter, `K_XZ`, `K_XX`, and variances of the noise.
    points: Matrix,
    cross: Matrix,
    gram: Matrix,
    noise: Matrix,
}

impl Dense {
    fn new(
        kernel: &Kernel,
        (x, points): (&Table, &Table),
        jitter: f64,
        noise: impl Fn(usize) -> f64,
    ) -> Self {
        Self {
            points: plus(&kernel.gram(points), 1.0, &identity(points.rows(), |_| jitter)),
            cross: kernel.cross_gram(x, points),
            gram: kernel.gram(x),
            noise: identity(x.rows(), noise),
        }
    }

    fn explained(&self) -> Matrix {
        self.cross.matmul(&inverse(&self.points)).matmul(&self.cross.transpose())
    }

    /// Returns the lower bound, the evidence and the upper bound.
    fn bounds(&self, y: &Matrix) -> [f64; 3] {
        let explained = self.explained();
        let missed = trace(&inverse(&self.noise).matmul(&plus(&self.gram, -1.0, &explained)));
        let sum = plus(&explained, 1.0, &self.noise);
        let larger = plus(&explained, 1.0 + missed, &self.noise);
        let exact = plus(&self.gram, 1.0, &self.noise);
        (0..y.cols()).map(|o| y.column(o)).fold([0.0; 3], |[lower, evidence, upper], y| {
            [
                lower + log_density(&y, &sum, &sum) - 0.5 * missed,
                evidence + log_density(&y, &exact, &exact),
                upper + log_density(&y, &sum, &larger),
            ]
        })
    }

    /// Returns the mean and the covariance at rows with these kernels, by `K_ZZ⁻¹ - (K_ZZ + K_ZX N⁻¹
    /// K_XZ)⁻¹`.
    fn posterior(&self, y: &Matrix, with: &Matrix, prior: &Matrix) -> (Matrix, Matrix) {
        let by_noise = self.cross.transpose().matmul(&inverse(&self.noise));
        let precision = inverse(&plus(&self.points, 1.0, &by_noise.matmul(&self.cross)));
        let mean = with.matmul(&precision).matmul(&by_noise.matmul(y));
        let known = plus(&inverse(&self.points), -1.0, &precision);
        (mean, plus(prior, -1.0, &with.matmul(&known).matmul(&with.transpose())))
    }
}

#[test]
fn bounds_and_posterior_are_those_of_dense_algebra() {
    for (k, (name, kernel)) in kernels().into_iter().enumerate() {
        for has_row_noise in [false, true] {
            let (x, y, noise_variances) = problem(50, 3 + k as u64);
            let points = inducing_points(&x, 14, 1).unwrap();
            let new = Stream(77).normals_and_levels(7, 3);
            let process = SparseGaussianProcess {
                row_noise: has_row_noise.then(|| noise_variances.clone()),
                ..process(&kernel, &points)
            };
            let fit = process.fit(&x, &y).unwrap();
            let noise = |i: usize| 0.15 + if has_row_noise { noise_variances[i] } else { 0.0 };
            let dense = Dense::new(&kernel, (&x, &points), fit.jitter, noise);
            let [lower, evidence, upper] = dense.bounds(&y);
            assert!((fit.lower - lower).abs() < 1e-7 * lower.abs(), "{name}: {} {lower}", fit.lower);
            assert!((fit.upper - upper).abs() < 1e-7 * upper.abs(), "{name}: {} {upper}", fit.upper);
            assert!(lower < evidence && evidence < upper, "{name}: {lower} {evidence} {upper}");
            assert!(fit.jitter > 0.0 && fit.jitter < 1e-9, "{name}: {}", fit.jitter);
            let (mean, covariance) =
                dense.posterior(&y, &kernel.cross_gram(&new, &points), &kernel.gram(&new));
            assert!(
                largest_difference(fit.model.predict(&new).unwrap().data(), mean.data()) < 1e-6,
                "{name}"
            );
            let posterior = fit.posterior();
            let covariances = posterior.covariance(&posterior.functionals_at(&new).unwrap());
            assert!(largest_difference(covariances[0].data(), covariance.data()) < 1e-6, "{name}");
            assert_eq!(covariances[0], covariances[1]);
        }
    }
}

#[test]
fn gradients_match_finite_differences() {
    for (k, (name, kernel)) in kernels().into_iter().enumerate() {
        let (x, y, noise_variances) = problem(45, 20 + k as u64);
        let points = inducing_points(&x, 8, 1).unwrap();
        let single_target = Matrix::column_vector(y.column(0));
        for (y, row_noise, normalize_y) in [
            (&y, None, true),
            (&y, Some(noise_variances.clone()), false),
            (&single_target, Some(noise_variances), true),
        ] {
            let process = SparseGaussianProcess { row_noise, normalize_y, ..process(&kernel, &points) };
            let bound_and_gradient = |theta: &[f64]| process.evidence_lower_bound(&x, y, theta).unwrap();
            let theta = start(&process);
            let (value, gradient) = bound_and_gradient(&theta);
            assert!((value - process.fit(&x, y).unwrap().lower).abs() < 1e-9 * value.abs(), "{name}");
            assert_eq!(gradient.len(), theta.len());
            for p in 0..theta.len() {
                let moved = |delta: f64| {
                    let mut theta = theta.clone();
                    theta[p] += delta;
                    bound_and_gradient(&theta).0
                };
                // Differences of fourth order.
                let step = 1e-3;
                let slope = (8.0 * (moved(step) - moved(-step)) - moved(2.0 * step) + moved(-2.0 * step))
                    / (12.0 * step);
                let parameter = &process.parameters()[p].name;
                assert!(
                    (gradient[p] - slope).abs() < 1e-5 * (1.0 + slope.abs()),
                    "{name}, {parameter}: {} {slope}",
                    gradient[p]
                );
            }
        }
    }
}

#[test]
fn all_rows_as_points_match_the_exact_process() {
    for (name, kernel) in kernels() {
        let (x, y, noise_variances) = problem(40, 8);
        let exact = GaussianProcess {
            tune: TunedParameters::Nothing,
            row_noise: Some(noise_variances.clone()),
            normalize_y: false,
            ..GaussianProcess::new(kernel.clone(), 0.15)
        };
        let exact = exact.fit(&x, &y).unwrap();
        let sparse = SparseGaussianProcess { row_noise: Some(noise_variances), ..process(&kernel, &x) }
            .fit(&x, &y)
            .unwrap();
        let value = exact.log_marginal_likelihood;
        assert!((sparse.lower - value).abs() < 1e-6 * value.abs(), "{name}: {} {value}", sparse.lower);
        assert!((sparse.upper - value).abs() < 1e-6 * value.abs(), "{name}: {} {value}", sparse.upper);
        let new = Stream(5).normals_and_levels(9, 3);
        let means = [&sparse.model, &exact.model].map(|model| model.predict(&new).unwrap());
        let sds = [sparse.posterior(), exact.posterior()].map(|posterior| posterior.sd(&new).unwrap());
        assert!(largest_difference(means[0].data(), means[1].data()) < 1e-6, "{name}");
        assert!(largest_difference(sds[0].data(), sds[1].data()) < 1e-6, "{name}");
    }
}

#[test]
fn it_agrees_with_gpflow() {
    let reference = fixture("gp/gpflow.json");
    let [x, points, new] =
        ["x", "points", "new"].map(|name| Table::from_rows(&lists(&reference[name])).unwrap());
    for case in reference["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let profile = if case["profile"] == "gaussian" { Profile::Gaussian } else { Profile::Matern32 };
        let (columns, length_scale) = (vec![0, 1, 2], numbers(&case["lengthscale"]));
        let kernel: Kernel = Stationary { profile, columns, length_scale, ard: true, isotropic: true }.into();
        let (mean, targets) = (matrix(&case["mean"]), matrix(&reference["y"]));
        let y = Matrix::from_row_major(
            60,
            mean.cols(),
            (0..60).flat_map(|i| targets.row(i)[..mean.cols()].to_vec()).collect(),
        );
        let process = process(&(case["scale"].as_f64().unwrap() * kernel), &points);
        let fit = process.fit(&x, &y).unwrap();
        let value = |name: &str| case[name].as_f64().unwrap();
        assert!((fit.lower - value("lower")).abs() < 1e-7, "{name}: {} {}", fit.lower, value("lower"));
        assert!((fit.upper - value("upper")).abs() < 1e-6, "{name}: {} {}", fit.upper, value("upper"));
        let (_, gradient) = process.evidence_lower_bound(&x, &y, &start(&process)).unwrap();
        assert!(largest_difference(&gradient, &numbers(&case["gradient"])) < 1e-6, "{name}: {gradient:?}");
        assert!(largest_difference(fit.model.predict(&new).unwrap().data(), mean.data()) < 1e-8, "{name}");
        let sd = fit.posterior().sd(&new).unwrap();
        assert!(largest_difference(sd.data(), matrix(&case["sd"]).data()) < 1e-8, "{name}");
    }
}

/// Returns kernel sums over rows, accumulated block by block.
fn sums(kernel: &Kernel, points: &Table, x: &Table, y: &Matrix, rounded: impl Fn(f64) -> f64) -> KernelSums {
    let mut sums = KernelSums::zeros(points.rows(), y.cols());
    let add = |to: &mut Matrix, term: &Matrix| *to = plus(to, 1.0, term);
    for start in (0..x.rows()).step_by(17) {
        let rows: Vec<usize> = (start..x.rows().min(start + 17)).collect();
        let (x, y) = (x.select_rows(&rows), rows.iter().flat_map(|&i| y.row(i).to_vec()).collect());
        let y = Matrix::from_row_major(rows.len(), sums.targets.cols(), y);
        let mut cross = kernel.cross_gram(&x, points);
        cross.data_mut().iter_mut().for_each(|v| *v = rounded(*v));
        add(&mut sums.gram, &cross.transpose().matmul(&cross));
        add(&mut sums.targets, &cross.transpose().matmul(&y));
        sums.squares += y.data().iter().map(|v| v * v).sum::<f64>();
        sums.prior += kernel.diagonal(&x).iter().sum::<f64>();
        sums.rows += rows.len();
    }
    sums
}

#[test]
fn the_posterior_needs_only_sums_over_rows() {
    for (name, kernel) in kernels() {
        let (x, y, _) = problem(60, 31);
        let points = inducing_points(&x, 12, 1).unwrap();
        let fit = process(&kernel, &points).fit(&x, &y).unwrap();
        let from_sums = sums(&kernel, &points, &x, &y, |v| v).posterior(&kernel, &points, 0.15).unwrap();
        assert!(
            (from_sums.lower - fit.lower).abs() < 1e-6 * fit.lower.abs(),
            "{name}: {} {}",
            from_sums.lower,
            fit.lower
        );
        assert!(
            (from_sums.upper - fit.upper).abs() < 1e-6 * fit.upper.abs(),
            "{name}: {} {}",
            from_sums.upper,
            fit.upper
        );
        let model =
            riesz::KernelExpansion::new(kernel.clone(), points, from_sums.coef, vec![0.0; 2]).unwrap();
        let posterior = riesz::Posterior::new(&model, &from_sums.covariance).unwrap();
        assert!(
            largest_difference(model.predict(&x).unwrap().data(), fit.model.predict(&x).unwrap().data())
                < 1e-6
        );
        let sds = [posterior, fit.posterior()].map(|posterior| posterior.sd(&x).unwrap());
        assert!(largest_difference(sds[0].data(), sds[1].data()) < 1e-6, "{name}");
    }
}

/// With a smooth kernel, whose matrix between points is numerically singular, rounded sums may not give a
/// covariance.
#[test]
fn rounded_sums_are_repaired_by_reported_jitter() {
    let (x, y, _) = problem(3000, 4);
    let kernel = Kernel::gaussian(&[6.0, 6.0]);
    let points = inducing_points(&x, 80, 1).unwrap();
    let precise = process(&kernel, &points).fit(&x, &y).unwrap();
    let step = 2.0_f64.powi(-21);
    for (rounded, rounding) in [(false, 0.0), (true, 0.5 * step)] {
        let round = |v: f64| if rounded { (v / step).round() * step } else { v };
        let sums = KernelSums { rounding, ..sums(&kernel, &points, &x, &y, round) };
        let from_sums = sums.posterior(&kernel, &points, 0.15).unwrap();
        assert!(from_sums.jitter > precise.jitter && from_sums.jitter < 1e-4, "{}", from_sums.jitter);
        // The lower bound is some thousand: it decreases only slightly, and increases by rounding at most.
        let lost = precise.lower - from_sums.lower;
        assert!(lost > -1.0 && lost < 20.0, "{lost}");
        // The points explain everything, and the bounds agree up to rounding.
        assert!(from_sums.lower < from_sums.upper + 1e-6 * from_sums.upper.abs());
        let model = riesz::KernelExpansion::new(kernel.clone(), points.clone(), from_sums.coef, vec![0.0; 2])
            .unwrap();
        let means = [&model, &precise.model].map(|model| model.predict(&x).unwrap());
        assert!(largest_difference(means[0].data(), means[1].data()) < 0.05);
    }
}

#[test]
fn results_depend_on_the_seed_alone() {
    let (x, y, _) = problem(700, 2);
    let run = |threads: usize, seed: u64| {
        with_threads(threads, || {
            let kernel = 1.1 * Kernel::gaussian(&[0.8, 1.3]) + Kernel::from(Categorical::on_column(2));
            let process = SparseGaussianProcess {
                tuning_rows: Some(400),
                restarts: 1,
                seed,
                ..SparseGaussianProcess::new(kernel, 0.15, 20)
            };
            let fit = process.fit(&x, &y).unwrap();
            let sd = fit.posterior().sd(&x).unwrap();
            (fit.theta, fit.lower, fit.upper, fit.evaluations, fit.model.predict(&x).unwrap(), sd)
        })
    };
    let first = run(1, 5);
    assert_eq!(first, run(2, 5));
    assert_eq!(first, run(3, 5));
    assert_ne!(first.0, run(1, 6).0);
}

/// Tuning recovers the kernel and the noise, from all rows and from a sample; with more points the bounds
/// approach each other.
#[test]
fn tuning_finds_kernel_and_noise() {
    let mut stream = Stream(9);
    let x = stream.normals(1500, 2);
    let y = (0..1500).map(|i| 50.0 + 7.0 * ((2.0 * x.get(i, 0)).sin() + 0.3 * stream.normal()));
    let y = Matrix::column_vector(y.collect());
    let fit = |count: usize, rows: Option<usize>| {
        let process = SparseGaussianProcess {
            tuning_rows: rows,
            ..SparseGaussianProcess::new(Kernel::gaussian(&[1.0, 1.0]), 0.5, count)
        };
        process.fit(&x, &y).unwrap()
    };
    let (few_points, many_points, sampled_rows) = (fit(10, None), fit(60, None), fit(60, Some(500)));
    for fit in [&many_points, &sampled_rows] {
        assert!((fit.noise / 4.41 - 1.0).abs() < 0.15, "{}", fit.noise);
        // The second column is uninformative.
        assert!(fit.theta[2] - fit.theta[1] > 1.5, "{:?}", fit.theta);
        let truth = |i: usize| 50.0 + 7.0 * (2.0 * x.get(i, 0)).sin();
        let prediction = fit.model.predict(&x).unwrap();
        let error: f64 = (0..1500).map(|i| (prediction[(i, 0)] - truth(i)).powi(2)).sum();
        assert!((error / 1500.0).sqrt() < 0.5, "{error}");
        assert!(fit.lower < fit.upper, "{} {}", fit.lower, fit.upper);
    }
    assert!(
        many_points.upper - many_points.lower < 40.0
            && many_points.upper - many_points.lower < few_points.upper - few_points.lower
    );
    assert!(
        few_points.lower < many_points.lower
            && sampled_rows.lower <= many_points.lower + 1e-6 * many_points.lower.abs()
    );
    assert!(sampled_rows.model.model_card.iter().any(|fact| fact.name.contains("used for tuning")));
    assert!(many_points.model.model_card.iter().all(|fact| !fact.name.contains("used for tuning")));
}

#[test]
fn it_is_a_setting_of_the_gaussian_process() {
    let (x, y, noise_variances) = problem(120, 6);
    let gp = ModelKind::named("gp").unwrap();
    let mut task = FitTask::new(&x, Target::Numbers(y.clone()), Kernel::gaussian(&[1.0, 1.0]));
    task.settings =
        gp.values([("n_landmarks".to_string(), 15.into()), ("noise".to_string(), 0.1.into())]).unwrap();
    task.seed = 3;
    let fitted = gp.fit(&task).unwrap();
    assert_eq!(fitted.model.support_points, inducing_points(&x, 15, 3).unwrap());
    let process = SparseGaussianProcess {
        tune: TunedParameters::Kernel,
        seed: 3,
        ..SparseGaussianProcess::new(Kernel::gaussian(&[1.0, 1.0]), 0.1, 15)
    };
    let own_fit = process.fit(&x, &y).unwrap();
    assert_eq!((fitted.log_marginal_likelihood, fitted.noise), (Some(own_fit.lower), Some(own_fit.noise)));
    assert_eq!(fitted.model, own_fit.model);
    task.target = Target::Numbers(Matrix::column_vector(y.column(0)));
    task.row_noise = Some(noise_variances);
    assert!(gp.fit(&task).unwrap().model.model_card.iter().any(|fact| fact.name == "noise of single rows"));
    let refused = ModelKind::named("svr").unwrap().values([("n_landmarks".to_string(), 15.into())]);
    assert!(matches!(refused, Err(Error::Unused { .. })));
}

#[test]
fn invalid_settings_are_refused() {
    let (x, y, _) = problem(30, 1);
    let kernel = Kernel::gaussian(&[1.0, 1.0]);
    let new = |inducing: InducingPoints| SparseGaussianProcess {
        inducing,
        ..SparseGaussianProcess::new(kernel.clone(), 0.1, 5)
    };
    let refusal = |process: &SparseGaussianProcess| process.fit(&x, &y).unwrap_err().to_string();
    assert!(refusal(&new(InducingPoints::Count(0))).contains("inducing points"));
    assert!(refusal(&new(InducingPoints::Points(x.select_rows(&[])))).contains("landmarks"));
    assert!(refusal(&new(InducingPoints::Points(Stream(1).normals(4, 2)))).contains("column"));
    assert!(
        refusal(&SparseGaussianProcess { noise: 0.0, ..new(InducingPoints::Count(5)) }).contains("noise")
    );
    assert!(
        refusal(&SparseGaussianProcess { tuning_rows: Some(1), ..new(InducingPoints::Count(5)) })
            .contains("tuning_rows")
    );
    let row_noise = Some(vec![0.1; 30]);
    assert!(
        refusal(&SparseGaussianProcess { row_noise, ..new(InducingPoints::Count(5)) }).contains("one by one")
    );
    let row_noise = Some(vec![0.1; 29]);
    assert!(
        refusal(&SparseGaussianProcess { row_noise, ..new(InducingPoints::Count(5)) }).contains("row_noise")
    );
    let sums = KernelSums::zeros(4, 1);
    assert!(matches!(sums.posterior(&kernel, &x, 0.1), Err(Error::Shape { .. })));
    assert!(matches!(
        sums.posterior(&kernel, &x.select_rows(&[0, 1, 2, 3]), -0.1),
        Err(Error::Parameter { .. })
    ));
}

/// Problems too large for the memory are refused before anything is allocated.
#[test]
fn refusals_for_lack_of_memory_name_landmarks() {
    let n = 3_000_000;
    let x = Table::from_rows(&(0..n).map(|i| [f64::from(i)]).collect::<Vec<_>>()).unwrap();
    let y = Matrix::column_vector((0..n).map(|i| f64::from(i % 7)).collect());
    let message = GaussianProcess::new(Kernel::gaussian(&[1.0]), 0.1).fit(&x, &y).unwrap_err().to_string();
    assert!(message.contains("landmarks") && message.contains("3000000"), "{message}");
}

//! Fits through landmarks against dense formulas in double-double or exact arithmetic, and against the same
//! fits in other orders.

mod gradients;

use proptest::prelude::*;

use super::*;
use crate::kernel::{ColumnScaling, Kernel, KernelExpression};
use crate::linalg::{Cholesky, Matrix};
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, StandardNormal};
use crate::table::Table;
use riesz_core::{KernelExpansion, Posterior, PosteriorCovariance, Prediction};

fn rows(n: usize, d: usize, t: usize, weighted: bool, seed: u64) -> LabelledRows {
    let mut random = Random::seed_from_u64(seed);
    let x: Vec<Vec<f64>> = (0..n).map(|_| (0..d).map(|_| random.sample(StandardNormal)).collect()).collect();
    let mut y = Vec::new();
    for row in &x {
        for o in 0..t {
            let noise: f64 = random.sample(StandardNormal);
            y.push(1000.0 * o as f64 + (row[0] * (o + 1) as f64).sin() + row[d - 1] + 0.3 * noise);
        }
    }
    let weights = weighted.then(|| (0..n).map(|_| 0.1 + 5.0 * random.random::<f64>()).collect());
    LabelledRows::new(Table::from_rows(&x).unwrap(), Matrix::from_row_major(n, t, y), weights).unwrap()
}

fn written(kernel: &str, x: &Table) -> Kernel {
    KernelExpression::parse(kernel).unwrap().resolve(x, &ColumnScaling::raw(x.width())).unwrap()
}

fn select(data: &LabelledRows, indices: impl IntoIterator<Item = usize>) -> LabelledRows {
    let indices = &Vec::from_iter(indices);
    let weights = data.weights.as_ref().map(|w| indices.iter().map(|&i| w[i]).collect());
    LabelledRows::new(data.x.select_rows(indices), data.y.select_rows(indices), weights).unwrap()
}

/// The pass over the rows in units of these sizes, whose results pass through the bytes of files.
fn pass_in_parts(
    plan: &FitPlan,
    coefficients: &Coefficients,
    data: &LabelledRows,
    parts: &[usize],
) -> DataPass {
    let mut total = DataPass::empty(plan, coefficients);
    let mut from = 0;
    for (unit, part) in parts.iter().enumerate() {
        let part_rows = select(data, from..from + part);
        let bytes = DataPass::from_rows(plan, coefficients, &part_rows, unit as u64).unwrap().to_bytes();
        total.merge(&DataPass::from_bytes(plan, coefficients, &bytes).unwrap()).unwrap();
        from += part;
    }
    total
}

fn surveyed(data: &LabelledRows, limit: usize) -> DataSurvey {
    let mut survey = DataSurvey::new(data.x.columns(), data.y.cols(), data.weights.is_some(), limit, 7);
    survey.add(data).unwrap();
    survey
}

fn planned(data: &LabelledRows, kernel: &Kernel, landmarks: usize, folds: usize) -> FitPlan {
    let choice = LandmarkChoice { landmarks, folds, centered: true, seed: 3 };
    FitPlan::new(&surveyed(data, choice.candidates()), kernel.clone(), Model::Ridge, choice).unwrap()
}

fn fitted(
    plan: &FitPlan,
    data: &LabelledRows,
    ridge: f64,
    intercept: bool,
    corrections: usize,
) -> RidgeSolution {
    let statistics = Statistics::from_rows(plan, data, 0).unwrap();
    let mut solution =
        RidgeSolution::new(plan, statistics, &RidgeSpec { ridges: vec![ridge], intercept }).unwrap();
    for _ in 0..corrections {
        solution.correct(&residual(plan, &solution, data)).unwrap();
    }
    solution
}

/// The residual of all rows at the coefficients of a solution.
fn residual(plan: &FitPlan, solution: &RidgeSolution, data: &LabelledRows) -> ResidualPass {
    let mut residual = ResidualPass::empty(plan, solution.coefficients());
    residual.add(plan, solution.coefficients(), data).unwrap();
    residual
}

/// Takes a step of Newton's method with the gradient of all rows.
fn newton_step(newton: &mut StreamingNewton, plan: &FitPlan, data: &LabelledRows) {
    let coefficients = newton.coefficients.clone();
    let mut builder = LogisticGradientBuilder::new(plan, &coefficients);
    builder.add(data).unwrap();
    newton.step(&builder.finish(0)).unwrap();
}

/// Predictions at `x` of the exact fit with the landmarks, by least squares in double-double arithmetic.
fn exact(
    plan: &FitPlan,
    data: &LabelledRows,
    ridge: f64,
    intercept: bool,
    new_rows: &Table,
) -> Vec<Vec<f64>> {
    use twofloat::TwoFloat as Two;
    let (m, t) = (plan.landmarks.rows(), data.y.cols());
    let p = m + usize::from(intercept);
    let k = plan.kernel.cross_gram(&data.x, &plan.landmarks);
    let gram = plan.kernel.gram(&plan.landmarks);
    let entry = |i: usize, j: usize| if j < m { k[(i, j)] } else { 1.0 };
    let weight = |i: usize| data.weights.as_ref().map_or(1.0, |w| w[i]);
    let two = |v: f64| Two::from(v);
    let mut a = vec![vec![two(0.0); p + t]; p];
    for i in 0..data.len() {
        for r in 0..p {
            let weighted = two(entry(i, r)) * two(weight(i));
            for c in 0..p {
                a[r][c] += weighted * two(entry(i, c));
            }
            for o in 0..t {
                a[r][p + o] += weighted * two(data.y[(i, o)]);
            }
        }
    }
    for r in 0..m {
        for c in 0..m {
            a[r][c] += two(ridge) * two(gram[(r, c)]);
        }
    }
    // Gaussian elimination with pivoting.
    for c in 0..p {
        let pivot =
            (c..p).max_by(|&i, &j| f64::from(a[i][c]).abs().total_cmp(&f64::from(a[j][c]).abs())).unwrap();
        a.swap(c, pivot);
        for r in 0..p {
            if r != c {
                let factor = a[r][c] / a[c][c];
                for k in c..p + t {
                    let pivot_entry = a[c][k];
                    a[r][k] -= factor * pivot_entry;
                }
            }
        }
    }
    let prediction = |x: &[f64], o: usize| {
        let mut sum = two(0.0);
        for r in 0..p {
            let k = if r < m { plan.kernel.eval(x, &plan.landmarks.row(r)) } else { 1.0 };
            sum += a[r][p + o] / a[r][r] * two(k);
        }
        f64::from(sum)
    };
    (0..new_rows.rows()).map(|i| (0..t).map(|o| prediction(&new_rows.row(i), o)).collect()).collect()
}

/// Corrected fits agree with double-double arithmetic within their certificates, with and without weights,
/// intercept, a second slice and several targets.
#[test]
fn fits_are_those_of_exact_arithmetic() {
    for (case, (weighted, intercept, ridge)) in
        [(false, true, 0.1), (true, true, 1e-3), (true, false, 0.5), (false, false, 1e-6)]
            .into_iter()
            .enumerate()
    {
        let data = rows(700, 3, 2, weighted, case as u64);
        let kernel = if case == 2 {
            written("matern32(length_scale=1.4)", &data.x)
        } else {
            2.0 * Kernel::gaussian(&[1.0, 1.5, 2.0])
        };
        let plan = planned(&data, &kernel, 60, 1);
        let new = rows(40, 3, 2, weighted, 99).x;
        let truth = exact(&plan, &data, ridge, intercept, &new);
        let distances = |solution: &RidgeSolution| -> Vec<f64> {
            let predictions = solution.model().unwrap().predict(&new).unwrap();
            (0..80).map(|k| (predictions.data()[k] - truth[k / 2][k % 2]).abs()).collect()
        };
        let largest = |v: &[f64]| v.iter().fold(0.0, |m: f64, v| m.max(*v));
        let raw = largest(&distances(&fitted(&plan, &data, ridge, intercept, 0)));
        let corrected = fitted(&plan, &data, ridge, intercept, 1);
        let after = distances(&corrected);
        let bounds = corrected.bounds(&new).unwrap().expect("a certificate");
        println!(
            "{case} raw {raw:.1e} corrected {:.1e} bound {:.1e}",
            largest(&after),
            largest(bounds.data())
        );
        assert!(
            largest(&after) < 1e-6 && (raw < 1e-6 || largest(&after) < 0.05 * raw),
            "{case}: {raw} {}",
            largest(&after)
        );
        // Predictions have rounding errors of their own.
        let rounding = |k: usize| 1e-13 * (1000.0 + truth[k / 2][k % 2].abs());
        assert!((0..80).all(|k| after[k] <= bounds.data()[k] + rounding(k)), "{case}");
        assert!(largest(bounds.data()) < 1e-3, "{case}: {}", largest(bounds.data()));
    }
}

/// Plan, statistics and residuals have the same bytes for any order, division and number of threads.
#[test]
fn statistics_are_the_same_however_the_work_is_divided() {
    let data = rows(5000, 4, 2, true, 5);
    let kernel = Kernel::gaussian(&[1.5; 4]);
    let choice = LandmarkChoice { landmarks: 30, folds: 3, centered: true, seed: 3 };
    let make = |order: &[usize], parts: &[usize], chunk: usize| {
        let mut survey = DataSurvey::new(data.x.columns(), 2, true, 300, 7);
        let mut pieces = Vec::new();
        let mut from = 0;
        for part in parts {
            pieces.push(select(&data, order[from..from + part].iter().copied()));
            from += part;
        }
        for piece in pieces.iter().rev() {
            let mut piece_survey = DataSurvey::new(data.x.columns(), 2, true, 300, 7);
            piece_survey.add(piece).unwrap();
            survey.merge(piece_survey).unwrap();
        }
        let plan = FitPlan::new(&survey, kernel.clone(), Model::Ridge, choice).unwrap();
        let mut total = Statistics::empty(&plan);
        for (unit, piece) in pieces.iter().enumerate() {
            let mut accumulator = Accumulator::new(&plan);
            for start in (0..piece.len()).step_by(chunk) {
                let end = piece.len().min(start + chunk);
                accumulator.add(&select(piece, start..end)).unwrap();
            }
            let statistics = accumulator.finish(unit as u64);
            // The statistics pass through the bytes of a file.
            total.merge(&Statistics::from_bytes(&plan, &statistics.to_bytes()).unwrap()).unwrap();
        }
        let solution =
            RidgeSolution::new(&plan, total.clone(), &RidgeSpec { ridges: vec![0.1], intercept: true })
                .unwrap();
        let coefficients = solution.coefficients().clone();
        let mut residual = DataPass::empty(&plan, &coefficients);
        for (unit, piece) in pieces.iter().enumerate() {
            let mut part = ResidualPass::empty(&plan, &coefficients);
            part.add(&plan, &coefficients, piece).unwrap();
            let bytes = DataPass::Residual(part.of_unit(unit as u64)).to_bytes();
            residual.merge(&DataPass::from_bytes(&plan, &coefficients, &bytes).unwrap()).unwrap();
        }
        let residual_sums = (residual.rows(), residual.sums().lists.clone());
        (plan.to_bytes(), total.folds, coefficients, residual_sums)
    };
    let mut order: Vec<usize> = (0..5000).collect();
    let in_order = make(&order, &[5000], 5000);
    let mut random = Random::seed_from_u64(1);
    for parts in [vec![2500, 2500], vec![1, 4000, 999]] {
        order.shuffle(&mut random);
        for (threads, chunk) in [(1, 700), (3, 4999)] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| make(&order, &parts, chunk)) == in_order);
        }
    }
}

/// Removing a unit restores the statistics, and a unit is counted once.
#[test]
fn units_are_added_and_taken_away() {
    let data = rows(900, 2, 1, false, 8);
    let plan = planned(&data, &Kernel::gaussian(&[1.0, 1.0]), 20, 2);
    let part = |from: usize, to: usize, unit: u64| {
        Statistics::from_rows(&plan, &select(&data, from..to), unit).unwrap()
    };
    let (a, b) = (part(0, 400, 0), part(400, 900, 1));
    let mut sum = a.clone();
    sum.merge(&b).unwrap();
    assert!(sum.merge(&b).unwrap_err().to_string().contains("unit 1"));
    assert_eq!(sum.rows(), 900);
    sum.remove(&b).unwrap();
    assert!(sum == a && sum.to_bytes() == a.to_bytes());
    assert!(sum.remove(&b).is_err());
    let other = planned(&data, &Kernel::gaussian(&[1.0, 2.0]), 20, 2);
    assert!(
        sum.merge(&Statistics::from_rows(&other, &data, 5).unwrap())
            .unwrap_err()
            .to_string()
            .contains("another plan")
    );
}

/// Errors on held-out folds agree with fits to the other rows, and the chosen ridge is the best.
#[test]
fn folds_are_held_out() {
    let data = rows(600, 2, 2, true, 11);
    let plan = planned(&data, &Kernel::gaussian(&[1.0, 1.0]), 24, 4);
    let statistics = Statistics::from_rows(&plan, &data, 0).unwrap();
    let ridges = vec![10.0, 0.1, 1e-3];
    let chosen =
        RidgeSolution::new(&plan, statistics.clone(), &RidgeSpec { ridges: ridges.clone(), intercept: true })
            .unwrap();
    let labels = plan.folds_of(&data);
    assert!((0..4).all(|k| labels.iter().filter(|l| **l == k).count() > 100));
    let mut single_fold = plan.clone();
    single_fold.folds = 1;
    for ridge in &ridges {
        let (mut error, mut weight) = (0.0, 0.0);
        for k in 0..4 {
            let which =
                |is_held_out: bool| (0..600).filter(|&i| (labels[i] == k) == is_held_out).collect::<Vec<_>>();
            let held_out = select(&data, which(true));
            let predictions = fitted(&single_fold, &select(&data, which(false)), *ridge, true, 2)
                .model()
                .unwrap()
                .predict(&held_out.x)
                .unwrap();
            for i in 0..held_out.len() {
                let w = held_out.weights.as_ref().unwrap()[i];
                weight += 2.0 * w;
                error += (0..2).map(|o| w * (held_out.y[(i, o)] - predictions[(i, o)]).powi(2)).sum::<f64>();
            }
        }
        let error_of_folds =
            chosen.tried.iter().find(|t| t.landmarks == 24 && t.ridge == *ridge).unwrap().error;
        assert!(
            (error_of_folds - error / weight).abs() < 1e-4 * error_of_folds,
            "{error_of_folds} {}",
            error / weight
        );
    }
    let best =
        chosen.tried.iter().filter(|t| t.landmarks == 24).min_by(|a, b| a.error.total_cmp(&b.error)).unwrap();
    assert_eq!(best.ridge, chosen.ridge);
    assert_eq!(chosen.tried.len(), 9);
}

/// The fit with every row as a landmark is kernel ridge regression.
#[test]
fn with_all_rows_it_is_the_dense_fit() {
    let data = rows(80, 3, 1, true, 21);
    let kernel = written("laplacian(length_scale=1)", &data.x);
    let plan = planned(&data, &kernel, 80, 1);
    assert_eq!(plan.landmarks.rows(), 80);
    let solution = fitted(&plan, &data, 0.3, false, 2);
    let mut dense = crate::fit::KernelRidge::new(kernel, 0.3);
    (dense.center, dense.sample_weight) = (false, data.weights.clone());
    let truth = dense.fit(&data.x, &data.y).unwrap().model.predict(&data.x).unwrap();
    let predictions = solution.model().unwrap().predict(&data.x).unwrap();
    assert!(predictions.data().iter().zip(truth.data()).all(|(a, b)| (a - b).abs() < 1e-7));
}

/// Kernels without a bound need a survey. Rows outside the surveyed ranges are refused, and categories are
/// matched by name.
#[test]
fn rows_outside_the_plan_are_refused() {
    let data = rows(300, 2, 1, false, 31);
    let kernel = KernelExpression::parse("linear + rbf")
        .unwrap()
        .resolve(&data.x, &ColumnScaling::standardised(&data.x))
        .unwrap();
    let choice = LandmarkChoice { landmarks: 20, folds: 1, centered: true, seed: 0 };
    let mut survey = surveyed(&data, 300);
    assert!(
        FitPlan::new(&survey, kernel.clone(), Model::Ridge, choice)
            .unwrap_err()
            .to_string()
            .contains("look at all of them")
    );
    survey.add_kernel(&kernel, &data.x);
    let plan = FitPlan::new(&survey, kernel, Model::Ridge, choice).unwrap();
    assert!(Statistics::from_rows(&plan, &data, 0).is_ok());
    let outlier_row = |x: f64, y: f64| {
        LabelledRows::new(Table::from_rows(&[[x, 0.0]]).unwrap(), Matrix::column_vector(vec![y]), None)
            .unwrap()
    };
    for bad in [outlier_row(1e6, 0.0), outlier_row(0.0, 1e9)] {
        assert!(Statistics::from_rows(&plan, &bad, 0).unwrap_err().to_string().contains("outside the range"));
    }
    let weighted = LabelledRows { weights: Some(vec![1.0]), ..outlier_row(0.0, 0.0) };
    assert!(Statistics::from_rows(&plan, &weighted, 0).is_err());
}

/// Damaged files and files of other plans are refused.
#[test]
fn files_are_checked() {
    let data = rows(200, 2, 1, false, 41);
    let plan = planned(&data, &Kernel::gaussian(&[1.0, 1.0]), 10, 1);
    let bytes = Statistics::from_rows(&plan, &data, 3).unwrap().to_bytes();
    for position in [0, bytes.len() / 2, bytes.len() - 1] {
        let mut bad = bytes.clone();
        bad[position] ^= 1;
        assert!(Statistics::from_bytes(&plan, &bad).unwrap_err().to_string().contains("checksum"));
    }
    for cut in [0, 10, 40, bytes.len() - 1] {
        assert!(Statistics::from_bytes(&plan, &bytes[..cut]).is_err());
    }
    let other = planned(&data, &Kernel::gaussian(&[1.0, 2.0]), 10, 1);
    assert!(Statistics::from_bytes(&other, &bytes).unwrap_err().to_string().contains("another plan"));
    assert_eq!(FitPlan::from_bytes(&plan.to_bytes()).unwrap(), plan);
    assert_eq!(FitPlan::from_bytes(&plan.to_bytes()).unwrap().digest(), plan.digest());
    for bad in ["{}", "x", ""] {
        assert!(
            FitPlan::from_bytes(bad.as_bytes()).is_err() && DataSurvey::from_bytes(bad.as_bytes()).is_err()
        );
    }
    let survey = surveyed(&rows(200, 2, 2, true, 42), 70);
    assert_eq!(DataSurvey::from_bytes(&survey.to_bytes()).unwrap(), survey);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// No fit of a random problem is farther from exact arithmetic than its certificate states.
    #[test]
    fn certificates_hold(seed: u64, n in 30usize..200, d in 1usize..4, m in 2usize..25, log_ridge in -5.0..2.0, length in 0.3..3.0, weighted: bool, intercept: bool, corrections in 1usize..3, uniform: bool) {
        let data = rows(n, d, 1, weighted, seed);
        let ridge = 10.0_f64.powf(log_ridge);
        let plan = planned(&data, &Kernel::gaussian(&vec![length; d]), m, 1);
        let mut solution = fitted(&plan, &data, ridge, intercept, corrections);
        if uniform {
            solution.prove(&residual(&plan, &solution, &data)).unwrap();
        }
        let new = rows(20, d, 1, false, seed ^ 1).x;
        if let Some(bounds) = solution.bounds(&new).unwrap() {
            let truth = exact(&plan, &data, ridge, intercept, &new);
            // The coefficients themselves, without the rounding of predictions.
            let values = &solution.coefficients().values;
            for i in 0..20 {
                let mut prediction = twofloat::TwoFloat::from(0.0);
                for j in 0..plan.landmarks.rows() {
                    prediction += twofloat::TwoFloat::from(values[(j, 0)]) * twofloat::TwoFloat::from(plan.kernel.eval(&new.row(i), &plan.landmarks.row(j)));
                }
                let constant = if intercept { values[(plan.landmarks.rows(), 0)] + plan.targets[0].center } else { 0.0 };
                let distance = (f64::from(prediction + twofloat::TwoFloat::from(constant)) - truth[i][0]).abs();
                // Error of the oracle, which solves its systems in 106 bits.
                let allowed = bounds[(i, 0)] + 1e-15 * (1.0 + truth[i][0].abs());
                prop_assert!(distance <= allowed, "{} {}", distance, bounds[(i, 0)]);
            }
        }
    }
}

/// Statistics are sums of rounded kernel values: `K̂ᵀK̂` in integers.
#[test]
fn statistics_are_sums_of_rounded_kernels() {
    let data = rows(500, 3, 1, false, 51);
    {
        let plan = planned(&data, &Kernel::gaussian(&[1.0; 3]), 12, 1);
        let sums = Statistics::from_rows(&plan, &data, 0).unwrap().sums(&plan, |_| true);
        let k = plan.kernel.cross_gram(&data.x, &plan.landmarks);
        let step = 0.5_f64.powi(21);
        let rounded = |i: usize, j: usize| (k[(i, j)] / step).round_ties_even() as i128;
        let y = |i: usize| {
            let v = plan.targets[0].to_unit(data.y[(i, 0)]) / 0.5_f64.powi(42);
            v.round_ties_even() as i128
        };
        for a in 0..12 {
            for b in 0..12 {
                let sum: i128 = (0..500).map(|i| rounded(i, a) * rounded(i, b)).sum();
                assert_eq!(sums.gram[(a, b)], sum as f64 * step * step);
            }
            let sum: i128 = (0..500).map(|i| rounded(i, a) * y(i)).sum();
            let unit_sum = sums.cross[(a, 0)] / plan.targets[0].unit;
            assert!((unit_sum - sum as f64 * step * 0.5_f64.powi(42)).abs() < 1e-9 * unit_sum.abs().max(1.0));
        }
        assert!((sums.diagonal - 500.0).abs() < 1e-9);
        let _ = Cholesky::new(sums.gram, "sums").unwrap();
    }
}

/// A plan for two classes.
fn of_classes(mut plan: FitPlan, latent_function: LatentFunction) -> FitPlan {
    plan.model =
        Model::Classes { names: vec!["no".into(), "yes".into()], latent_function, start: Vec::new() };
    plan
}

/// With all rows as landmarks, a Gaussian process has the mode, variances, evidence and probabilities of the
/// dense process. With fewer landmarks it equals the process with the prior that the landmarks span, in any
/// order of the rows.
#[test]
fn classes_of_a_process_are_those_of_the_dense_one() {
    let mut data = rows(150, 2, 1, false, 62);
    data.y.data_mut().iter_mut().for_each(|y| *y = f64::from(u8::from(*y > 0.3)));
    let labels = super::job::labels(&data);
    let kernel = written("3*matern32(length_scale=1.2)", &data.x);
    let classes = ["no".to_string(), "yes".to_string()];
    let mut dense = crate::fit::GaussianProcessClassifier::new(kernel.clone());
    dense.tune = false;
    let dense = dense.fit(&data.x, &labels, &classes).unwrap();
    let new = rows(40, 2, 1, false, 63).x;
    let job = |landmarks: usize| Job {
        kind: Kind::Classes { names: classes.to_vec(), classifier: Classifier::Process { restarts: 0 } },
        fixed_kernel: true,
        intercept: false,
        corrections: 0,
        ..Job::new(landmarks)
    };
    let fit_with = |landmarks: usize, data: LabelledRows| {
        let fitted = fit_rows(data, kernel.clone(), &job(landmarks), &FitControl::default()).unwrap();
        let covariance = fitted.covariance.clone().unwrap();
        let variance = Posterior::new(&fitted.model, &covariance).unwrap().variance(&new).unwrap();
        (fitted.model.predict(&new).unwrap(), variance, fitted.log_marginal_likelihood.unwrap(), fitted.model)
    };
    let assert_close = |a: &Matrix, b: &Matrix, tolerance: f64| {
        a.data().iter().zip(b.data()).for_each(|(a, b)| assert!((a - b).abs() < tolerance, "{a} {b}"));
    };
    let (mean, variance, evidence, model) = fit_with(150, data.clone());
    let truth = dense.posterior().variance(&new).unwrap();
    assert_close(&mean, &dense.model.predict(&new).unwrap(), 1e-5);
    assert_close(&variance, &truth, 1e-4);
    assert!((evidence - dense.log_marginal_likelihood).abs() < 1e-4, "{evidence}");
    let probability = |model: &KernelExpansion, covariance: &PosteriorCovariance| {
        Prediction::new(model, Some(covariance), &new).unwrap().probabilities.unwrap()
    };
    let fitted = fit_rows(data.clone(), kernel.clone(), &job(150), &FitControl::default()).unwrap();
    assert_close(
        &probability(&model, &fitted.covariance.unwrap()),
        &probability(&dense.model, &dense.covariance),
        1e-5,
    );
    let (small, wider, evidence, model) = fit_with(40, data.clone());
    let (repeated, _, _, _) = fit_with(40, select(&data, (0..150).rev()));
    assert_eq!(small, repeated);
    // With 40 landmarks: the mode where the gradient vanishes, with the curvature at this point.
    let (k, gram) = (kernel.cross_gram(&model.support_points, &data.x), kernel.gram(&model.support_points));
    let (f, theta) = (model.predict(&data.x).unwrap().column(0), model.coef.column(0));
    let p: Vec<f64> = f.iter().map(|f| 1.0 / (1.0 + (-f).exp())).collect();
    let error: Vec<f64> = p.iter().zip(data.y.data()).map(|(p, y)| y - p).collect();
    let slopes = k.matvec(&error).into_iter().zip(gram.matvec(&theta)).map(|(a, b)| a - b);
    assert!(slopes.fold(0.0, |maximum: f64, v| maximum.max(v.abs())) < 1e-4);
    let mut root = k.clone();
    for j in 0..40 {
        root.row_mut(j).iter_mut().zip(&p).for_each(|(k, p)| *k *= (p * (1.0 - p)).sqrt());
    }
    let mut matrix = root.matmul(&root.transpose());
    matrix.data_mut().iter_mut().zip(gram.data()).for_each(|(v, k)| *v += k);
    let penalty_norm = crate::linalg::dot(&theta, &gram.matvec(&theta));
    let factors = [gram, matrix].map(|matrix| Cholesky::new(matrix, "matrix").unwrap());
    let kernel_values = kernel.cross_gram(&model.support_points, &new);
    let variances = (0..40).map(|i| {
        let k = kernel_values.column(i);
        let [prior, posterior] = [0, 1].map(|which| crate::linalg::dot(&k, &factors[which].solve_vector(&k)));
        3.0 - prior + posterior
    });
    assert_close(&wider, &Matrix::column_vector(variances.collect()), 1e-4);
    let likelihood = |(p, y): (&f64, &f64)| if *y > 0.0 { p.ln() } else { (1.0 - p).ln() };
    let likelihood: f64 = p.iter().zip(data.y.data()).map(likelihood).sum();
    let volume = factors[1].log_det() - factors[0].log_det();
    assert!((evidence - (likelihood - 0.5 * penalty_norm - 0.5 * volume)).abs() < 1e-4, "{evidence}");
    let single_class = select(&data, (0..150).filter(|&i| labels[i] == 1));
    let tuned = Job { fixed_kernel: false, ..job(20) };
    let error_text =
        fit_rows(single_class, kernel.clone(), &tuned, &FitControl::default()).unwrap_err().to_string();
    assert!(error_text.contains("is 'yes' in all 62 rows on which"), "{error_text}");
}

/// The gradient vanishes at the optimum for all rows. The optimum agrees with the dense fit if all rows are
/// landmarks, and the gradient with finite differences otherwise. Parts and order have no effect.
#[test]
fn logistic_regression_finds_its_optimum() {
    for (weighted, intercept) in [(false, true), (true, true), (false, false)] {
        let mut data = rows(60, 2, 1, weighted, 61);
        data.y
            .data_mut()
            .iter_mut()
            .enumerate()
            .for_each(|(i, y)| *y = f64::from(u8::from(*y > 0.0 || i % 9 == 0)));
        let kernel = written("laplacian(length_scale=1.5)", &data.x);
        let classes = ["no".to_string(), "yes".to_string()];
        let converge = |plan: &FitPlan, data: &LabelledRows, parts: &[usize]| {
            let mut newton = StreamingNewton::new(plan, intercept).unwrap();
            while !newton.converged {
                let coefficients = newton.coefficients.clone();
                match pass_in_parts(plan, &coefficients, data, parts) {
                    DataPass::Slope(gradient) => newton.step(&gradient).unwrap(),
                    DataPass::Residual(_) => unreachable!("the plan is for classes"),
                }
            }
            newton
        };
        let plan = of_classes(planned(&data, &kernel, 60, 1), LatentFunction::Penalised(0.2));
        assert_eq!(plan.landmarks.rows(), 60);
        let newton = converge(&plan, &data, &[60]);
        assert!(newton.passes < 15, "{}", newton.passes);
        assert_eq!(converge(&plan, &data, &[7, 53]).coefficients, newton.coefficients);
        let labels = super::job::labels(&data);
        let mut dense = crate::fit::KernelLogisticRegression::new(kernel.clone(), 0.2);
        (dense.sample_weight, dense.fit_intercept) = (data.weights.clone(), intercept);
        let truth = dense.fit(&data.x, &labels, &classes).unwrap().model.predict(&data.x).unwrap();
        let predictions = newton.fitted().unwrap().model.predict(&data.x).unwrap();
        assert!(
            predictions.data().iter().zip(truth.data()).all(|(a, b)| (a - b).abs() < 1e-6),
            "{weighted} {intercept}"
        );
        // With fewer landmarks the objective increases from the optimum in every direction.
        let small = of_classes(planned(&data, &kernel, 10, 1), LatentFunction::Penalised(0.2));
        let end = converge(&small, &data, &[30, 30]);
        let objective = |theta: &Matrix| {
            let k = small.kernel.cross_gram(&data.x, &small.landmarks);
            let gram = small.kernel.gram(&small.landmarks);
            let (coef, constant) = (&theta.data()[..10], theta.data()[10]);
            let mut sum = 0.1 * crate::linalg::dot(coef, &gram.matvec(coef));
            for i in 0..60 {
                let f = crate::linalg::dot(k.row(i), coef) + constant;
                let s = if data.y.data()[i] > 0.0 { f } else { -f };
                sum += data.weights.as_ref().map_or(1.0, |w| w[i]) * (-s).exp().ln_1p();
            }
            sum
        };
        let best = &end.coefficients.values;
        for j in 0..10 + usize::from(intercept) {
            for h in [1e-4, -1e-4] {
                let mut shifted = best.clone();
                shifted.data_mut()[j] += h;
                assert!(objective(&shifted) > objective(best) - 1e-12, "{j}");
            }
        }
    }
}

/// Starting values from a sample save gram matrices, and lead to the same optimum as a start at 0, for
/// regressions and Gaussian processes. A sample with few rows of one class gives no starting values.
#[test]
fn starts_from_a_sample_reach_the_same_optimum() {
    let names = ["no".to_string(), "yes".to_string()];
    for (weighted, classifier) in
        [(true, Classifier::Regression), (false, Classifier::Process { restarts: 0 })]
    {
        let mut data = rows(6000, 2, 1, weighted, 77);
        data.y.data_mut().iter_mut().for_each(|y| *y = f64::from(u8::from(*y > 0.3)));
        let ridge = (classifier == Classifier::Regression).then_some(0.5);
        let kind = Kind::Classes { names: names.to_vec(), classifier };
        let intercept = ridge.is_some();
        let job = Job { kind, ridge, intercept, fixed_kernel: true, ..Job::new(20) };
        let planned = |data: &LabelledRows| {
            let mut survey = job.survey(data.x.columns(), 1, weighted);
            survey.add(data).unwrap();
            let tuned = job.tuned(&survey, written("2*rbf(length_scale=1.5)", &data.x)).unwrap();
            job.plan(&survey, tuned).unwrap()
        };
        let started = |plan: &FitPlan| match &plan.model {
            Model::Classes { start, .. } => start.clone(),
            other => panic!("{other:?}"),
        };
        let converge = |plan: &FitPlan| {
            let (mut newton, mut grams) = (StreamingNewton::new(plan, intercept).unwrap(), 0);
            while !newton.converged {
                grams += usize::from(newton.coefficients.curvature);
                newton_step(&mut newton, plan, &data);
            }
            (grams, newton.fitted().unwrap().model.predict(&data.x).unwrap())
        };
        let plan = planned(&data);
        assert_eq!(started(&plan).len(), plan.size());
        let mut cold = plan.clone();
        if let Model::Classes { start, .. } = &mut cold.model {
            start.clear();
        }
        let ((grams, warm), (cold_grams, cold)) = (converge(&plan), converge(&cold));
        assert!(grams < cold_grams, "{grams} {cold_grams}");
        let max_difference =
            warm.data().iter().zip(cold.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(max_difference < 1e-5, "{max_difference}");
        // One class has fewer than fifty rows.
        let mut rare = data.clone();
        rare.y.data_mut().iter_mut().enumerate().for_each(|(i, y)| *y = f64::from(u8::from(i % 200 == 0)));
        assert!(started(&planned(&rare)).is_empty());
    }
}

/// Newton's method converges for separable classes, even with a tiny ridge.
#[test]
fn separable_classes_converge() {
    let mut data = rows(200, 2, 1, false, 71);
    for i in 0..200 {
        data.y.data_mut()[i] = f64::from(u8::from(data.x.get(i, 0) > 0.0));
    }
    let plan =
        of_classes(planned(&data, &Kernel::gaussian(&[2.0, 2.0]), 30, 1), LatentFunction::Penalised(1e-6));
    let mut newton = StreamingNewton::new(&plan, true).unwrap();
    while !newton.converged {
        newton_step(&mut newton, &plan, &data);
    }
    let model = newton.fitted().unwrap().model;
    let predictions = model.predict(&data.x).unwrap();
    assert!((0..200).all(|i| (predictions[(i, 0)] > 0.0) == (data.y.data()[i] > 0.0)));
    let mut bad = data.clone();
    bad.y.data_mut()[3] = 0.5;
    let coefficients = newton.coefficients.clone();
    assert!(
        LogisticGradientBuilder::new(&plan, &coefficients).add(&bad).unwrap_err().to_string().contains("0.5")
    );
}

/// The posterior of all rows equals the process in memory with the same kernel, points and noise. Kernel and
/// noise are learnt on the sample.
#[test]
fn posteriors_equal_those_of_the_process_in_memory() {
    let data = rows(1500, 2, 1, false, 81);
    let learning = GpTuning {
        noise: 0.1,
        tune: crate::fit::TunedParameters::KernelAndNoise,
        normalize_y: true,
        restarts: 0,
    };
    let job = Job { kind: Kind::Process(learning), ..Job::new(60) };
    let fitted = fit_rows(data.clone(), Kernel::gaussian(&[1.0, 1.0]), &job, &FitControl::default()).unwrap();
    let (model, noise) = (&fitted.model, fitted.noise.unwrap());
    // With two columns and a smooth kernel, fewer than 60 landmarks explain the whole kernel.
    let m = model.support_points.rows();
    assert!((10..=60).contains(&m));
    assert!((noise - 0.09).abs() < 0.03, "{noise}");
    let n = data.len();
    let k = model.kernel.cross_gram(&data.x, &model.support_points);
    let y: Vec<f64> = data.y.data().iter().map(|y| y - model.intercept[0]).collect();
    let mut sums = crate::fit::KernelSums::zeros(m, 1);
    sums.gram = k.gram_of_columns();
    sums.targets = Matrix::column_vector((0..m).map(|j| (0..n).map(|i| k[(i, j)] * y[i]).sum()).collect());
    sums.squares = crate::linalg::dot(&y, &y);
    sums.prior = model.kernel.diagonal(&data.x).iter().sum();
    sums.rows = n;
    // Rough kernels need more jitter, which increases the uncertainty where the points explain almost
    // everything.
    sums.rounding = 0.5_f64.powi(22) * 2.0_f64.powi(model.kernel.max_value().unwrap().log2().ceil() as i32);
    let truth = sums.posterior(&model.kernel, &model.support_points, noise).unwrap();
    let new = rows(30, 2, 1, false, 82).x;
    let mut other = model.clone();
    other.coef = truth.coef;
    let (predictions, expected) = (model.predict(&new).unwrap(), other.predict(&new).unwrap());
    let distance =
        predictions.data().iter().zip(expected.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(distance < 0.01 * noise.sqrt(), "{distance}");
    let covariance = fitted.covariance.unwrap();
    let sd = |c: &PosteriorCovariance| Posterior::new(model, c).unwrap().sd(&new).unwrap();
    let (deviations, dense) = (sd(&covariance), sd(&truth.covariance));
    assert!(deviations.data().iter().zip(dense.data()).all(|(a, b)| (a - b).abs() < 0.03 * b));
    let bound = fitted.log_marginal_likelihood.unwrap();
    assert!((bound - truth.lower).abs() < 1e-3 * truth.lower.abs(), "{bound} {}", truth.lower);
}

/// The solution after all useful passes, and the largest bound at a landmark after each pass.
fn passes(plan: &FitPlan, data: &LabelledRows, ridge: f64) -> (RidgeSolution, Vec<f64>) {
    let mut solution = fitted(plan, data, ridge, true, 0);
    let mut bounds = Vec::new();
    while solution.wants_pass(1, bounds.len()) {
        solution.apply_residual(&residual(plan, &solution, data), 1, bounds.len()).unwrap();
        let bound_matrix = solution.bounds(&plan.landmarks).unwrap();
        bounds.push(
            bound_matrix.map_or(f64::INFINITY, |entries| entries.data().iter().copied().fold(0.0, f64::max)),
        );
    }
    (solution, bounds)
}

/// The number of passes depends on the ridge. One correction is enough for a strong ridge; a second one
/// narrows the bound for a weaker ridge. If rounding dominates, a further pass bounds the error. A target
/// that is fitted to its last digit needs no further passes.
#[test]
fn passes_end_where_further_ones_gain_nothing() {
    let data = rows(900, 2, 1, false, 21);
    let mut kinds = Vec::new();
    for (length_scale, power) in [0.8, 1.5, 2.5].into_iter().flat_map(|l| (-1..10).map(move |p| (l, p))) {
        let plan = planned(&data, &Kernel::gaussian(&[length_scale; 2]), 60, 1);
        let (solution, bounds) = passes(&plan, &data, 0.1_f64.powi(power));
        let proved = solution.certificate().is_none_or(|c| c.radius.is_none());
        match bounds[..] {
            [only] => assert!(only.is_finite() && !proved),
            [first, second] => assert!(if proved { first.is_infinite() } else { second < 0.6 * first }),
            _ => panic!("{bounds:?}"),
        }
        kinds.push((bounds.len(), proved));
    }
    assert!([(1, false), (2, false), (2, true)].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    let flat = Matrix::from_row_major(900, 1, vec![3.0; 900]);
    let flat = LabelledRows::new(data.x.clone(), flat, None).unwrap();
    let plan = planned(&flat, &Kernel::gaussian(&[0.8; 2]), 60, 1);
    assert_eq!(passes(&plan, &flat, 1e-3).1.len(), 1);
}

/// The estimated distance is 0 if the landmarks explain the kernel, and is not given for few rows.
#[test]
fn nothing_is_missing_where_landmarks_explain_the_kernel() {
    let data = rows(600, 3, 1, false, 22);
    for kernel in ["linear()", "polynomial(degree=2)"] {
        let choice = LandmarkChoice { landmarks: 100, folds: 1, centered: true, seed: 3 };
        let (mut survey, kernel) = (surveyed(&data, choice.candidates()), written(kernel, &data.x));
        survey.add_kernel(&kernel, &data.x);
        let plan = FitPlan::new(&survey, kernel, Model::Ridge, choice).unwrap();
        assert!(plan.landmarks.rows() < 20);
        let solution = fitted(&plan, &data, 0.1, true, 0);
        if let Some(missing) = solution.missing() {
            assert_eq!(missing.distances[..], [0.0]);
        }
    }
    let plan = planned(&data, &Kernel::gaussian(&[0.5; 3]), 100, 1);
    assert!(fitted(&plan, &data, 0.1, true, 0).missing().unwrap().distances[0] > 0.01);
    let first_rows = select(&data, 0..80);
    assert!(fitted(&plan, &first_rows, 0.1, true, 0).missing().is_none());
}

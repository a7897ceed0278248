//! Fits through landmarks against dense formulas in double-double or exact arithmetic, and against themselves
//! in other orders.

mod gradients;

use proptest::prelude::*;

use super::*;
use crate::kernel::{ColumnScaling, Kernel, KernelExpression};
use crate::linalg::{Cholesky, Matrix};
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, StandardNormal};
use crate::table::Table;
use crate::{KernelExpansion, Posterior, PosteriorCovariance};

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

fn some(all: &LabelledRows, which: &[usize]) -> LabelledRows {
    let weights = all.weights.as_ref().map(|w| which.iter().map(|&i| w[i]).collect());
    LabelledRows::new(all.x.select_rows(which), all.y.select_rows(which), weights).unwrap()
}

fn surveyed(all: &LabelledRows, limit: usize) -> DataSurvey {
    let mut survey = DataSurvey::new(all.x.columns(), all.y.cols(), all.weights.is_some(), limit, 7);
    survey.add(all).unwrap();
    survey
}

fn planned(all: &LabelledRows, kernel: &Kernel, landmarks: usize, folds: usize) -> FitPlan {
    let choice = LandmarkChoice { landmarks, folds, centered: true, seed: 3 };
    FitPlan::new(&surveyed(all, choice.candidates()), kernel.clone(), Model::Ridge, choice).unwrap()
}

fn fitted(
    plan: &FitPlan,
    all: &LabelledRows,
    ridge: f64,
    intercept: bool,
    corrections: usize,
) -> RidgeSolution {
    let statistics = Statistics::of(plan, all, 0).unwrap();
    let mut solution =
        RidgeSolution::new(plan, statistics, &RidgeSpec { ridges: vec![ridge], intercept }).unwrap();
    for _ in 0..corrections {
        let mut residual = ResidualPass::empty(plan, solution.coefficients());
        residual.add(plan, solution.coefficients(), all).unwrap();
        solution.correct(&residual).unwrap();
    }
    solution
}

/// The exact fit with the landmarks, by least squares in double-double arithmetic: predictions at `at`.
fn exact(plan: &FitPlan, all: &LabelledRows, ridge: f64, intercept: bool, at: &Table) -> Vec<Vec<f64>> {
    use twofloat::TwoFloat as Two;
    let (m, t) = (plan.landmarks.rows(), all.y.cols());
    let p = m + usize::from(intercept);
    let k = plan.kernel.cross_gram(&all.x, &plan.landmarks);
    let gram = plan.kernel.gram(&plan.landmarks);
    let entry = |i: usize, j: usize| if j < m { k[(i, j)] } else { 1.0 };
    let weight = |i: usize| all.weights.as_ref().map_or(1.0, |w| w[i]);
    let two = |v: f64| Two::from(v);
    let mut a = vec![vec![two(0.0); p + t]; p];
    for i in 0..all.len() {
        for r in 0..p {
            let own = two(entry(i, r)) * two(weight(i));
            for c in 0..p {
                a[r][c] += own * two(entry(i, c));
            }
            for o in 0..t {
                a[r][p + o] += own * two(all.y[(i, o)]);
            }
        }
    }
    for r in 0..m {
        for c in 0..m {
            a[r][c] += two(ridge) * two(gram[(r, c)]);
        }
    }
    // Gauss with pivots.
    for c in 0..p {
        let pivot =
            (c..p).max_by(|&i, &j| f64::from(a[i][c]).abs().total_cmp(&f64::from(a[j][c]).abs())).unwrap();
        a.swap(c, pivot);
        for r in 0..p {
            if r != c {
                let factor = a[r][c] / a[c][c];
                for k in c..p + t {
                    let own = a[c][k];
                    a[r][k] -= factor * own;
                }
            }
        }
    }
    let of = |x: &[f64], o: usize| {
        let mut sum = two(0.0);
        for r in 0..p {
            let k = if r < m { plan.kernel.eval(x, &plan.landmarks.row(r)) } else { 1.0 };
            sum += a[r][p + o] / a[r][r] * two(k);
        }
        f64::from(sum)
    };
    (0..at.rows()).map(|i| (0..t).map(|o| of(&at.row(i), o)).collect()).collect()
}

/// Corrected fits are those of double-double arithmetic, and never farther off than their certificate says;
/// with and without weights, intercept, a second slice and several targets.
#[test]
fn fits_are_those_of_exact_arithmetic() {
    for (case, (weighted, intercept, ridge)) in
        [(false, true, 0.1), (true, true, 1e-3), (true, false, 0.5), (false, false, 1e-6)]
            .into_iter()
            .enumerate()
    {
        let all = rows(700, 3, 2, weighted, case as u64);
        let kernel = if case == 2 {
            written("matern32(lengthscale=1.4)", &all.x)
        } else {
            2.0 * Kernel::gaussian(&[1.0, 1.5, 2.0])
        };
        let plan = planned(&all, &kernel, 60, 1);
        let new = rows(40, 3, 2, weighted, 99).x;
        let truth = exact(&plan, &all, ridge, intercept, &new);
        let off = |solution: &RidgeSolution| -> Vec<f64> {
            let said = solution.model().unwrap().predict(&new).unwrap();
            (0..80).map(|k| (said.data()[k] - truth[k / 2][k % 2]).abs()).collect()
        };
        let most = |v: &[f64]| v.iter().fold(0.0, |m: f64, v| m.max(*v));
        let raw = most(&off(&fitted(&plan, &all, ridge, intercept, 0)));
        let corrected = fitted(&plan, &all, ridge, intercept, 1);
        let after = off(&corrected);
        let bounds = corrected.bounds(&new).unwrap().expect("a certificate");
        println!("{case} raw {raw:.1e} corrected {:.1e} bound {:.1e}", most(&after), most(bounds.data()));
        assert!(
            most(&after) < 1e-6 && (raw < 1e-6 || most(&after) < 0.05 * raw),
            "{case}: {raw} {}",
            most(&after)
        );
        // Predictions have a rounding of their own.
        let rounding = |k: usize| 1e-13 * (1000.0 + truth[k / 2][k % 2].abs());
        assert!((0..80).all(|k| after[k] <= bounds.data()[k] + rounding(k)), "{case}");
        assert!(most(bounds.data()) < 1e-3, "{case}: {}", most(bounds.data()));
    }
}

/// In any order, in any parts, by any number of threads: equal bytes, plan and all; and folds are the same.
#[test]
fn statistics_are_the_same_however_the_work_is_divided() {
    let all = rows(5000, 4, 2, true, 5);
    let kernel = Kernel::gaussian(&[1.5; 4]);
    let choice = LandmarkChoice { landmarks: 30, folds: 3, centered: true, seed: 3 };
    let make = |order: &[usize], parts: &[usize], chunk: usize| {
        let mut survey = DataSurvey::new(all.x.columns(), 2, true, 300, 7);
        let mut pieces = Vec::new();
        let mut from = 0;
        for part in parts {
            pieces.push(some(&all, &order[from..from + part]));
            from += part;
        }
        for piece in pieces.iter().rev() {
            let mut own = DataSurvey::new(all.x.columns(), 2, true, 300, 7);
            own.add(piece).unwrap();
            survey.merge(own).unwrap();
        }
        let plan = FitPlan::new(&survey, kernel.clone(), Model::Ridge, choice).unwrap();
        let mut total = Statistics::empty(&plan);
        for (unit, piece) in pieces.iter().enumerate() {
            let mut accumulator = Accumulator::new(&plan);
            for start in (0..piece.len()).step_by(chunk) {
                let end = piece.len().min(start + chunk);
                accumulator.add(&some(piece, &(start..end).collect::<Vec<_>>())).unwrap();
            }
            let own = accumulator.finish(unit as u64);
            // As if it came from a file.
            total.merge(&Statistics::from_bytes(&plan, &own.to_bytes()).unwrap()).unwrap();
        }
        let solution =
            RidgeSolution::new(&plan, total.clone(), &RidgeSpec { ridges: vec![0.1], intercept: true })
                .unwrap();
        let coefficients = solution.coefficients().clone();
        let mut residual = ResidualPass::empty(&plan, &coefficients);
        for (unit, piece) in pieces.iter().enumerate() {
            let mut own = ResidualPass::empty(&plan, &coefficients);
            own.add(&plan, &coefficients, piece).unwrap();
            let own = own.of_unit(unit as u64);
            residual
                .merge(&ResidualPass::from_bytes(&plan, &coefficients, &own.to_bytes()).unwrap())
                .unwrap();
        }
        (plan.to_bytes(), total.folds_bytes(), coefficients, residual.sums_bytes())
    };
    let mut order: Vec<usize> = (0..5000).collect();
    let straight = make(&order, &[5000], 5000);
    let mut random = Random::seed_from_u64(1);
    for parts in [vec![2500, 2500], vec![1, 4000, 999]] {
        order.shuffle(&mut random);
        for (threads, chunk) in [(1, 700), (3, 4999)] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| make(&order, &parts, chunk)) == straight);
        }
    }
}

/// What is taken away was never there, and units count once.
#[test]
fn units_are_added_and_taken_away() {
    let all = rows(900, 2, 1, false, 8);
    let plan = planned(&all, &Kernel::gaussian(&[1.0, 1.0]), 20, 2);
    let part = |from: usize, to: usize, unit: u64| {
        Statistics::of(&plan, &some(&all, &(from..to).collect::<Vec<_>>()), unit).unwrap()
    };
    let (a, b) = (part(0, 400, 0), part(400, 900, 1));
    let mut both = a.clone();
    both.merge(&b).unwrap();
    assert!(both.merge(&b).unwrap_err().to_string().contains("unit 1"));
    assert_eq!(both.rows(), 900);
    both.remove(&b).unwrap();
    assert!(both == a && both.to_bytes() == a.to_bytes());
    assert!(both.remove(&b).is_err());
    let other = planned(&all, &Kernel::gaussian(&[1.0, 2.0]), 20, 2);
    assert!(
        both.merge(&Statistics::of(&other, &all, 5).unwrap())
            .unwrap_err()
            .to_string()
            .contains("another plan")
    );
}

/// Errors on held-out folds are those of fits to the other rows, and the ridge is the best.
#[test]
fn folds_are_held_out() {
    let all = rows(600, 2, 2, true, 11);
    let plan = planned(&all, &Kernel::gaussian(&[1.0, 1.0]), 24, 4);
    let statistics = Statistics::of(&plan, &all, 0).unwrap();
    let ridges = vec![10.0, 0.1, 1e-3];
    let chosen =
        RidgeSolution::new(&plan, statistics.clone(), &RidgeSpec { ridges: ridges.clone(), intercept: true })
            .unwrap();
    let labels = plan.folds_of(&all);
    assert!((0..4).all(|k| labels.iter().filter(|l| **l == k).count() > 100));
    let mut one = plan.clone();
    one.folds = 1;
    for ridge in &ridges {
        let (mut error, mut weight) = (0.0, 0.0);
        for k in 0..4 {
            let which = |held: bool| (0..600).filter(|&i| (labels[i] == k) == held).collect::<Vec<_>>();
            let own = some(&all, &which(true));
            let said = fitted(&one, &some(&all, &which(false)), *ridge, true, 2)
                .model()
                .unwrap()
                .predict(&own.x)
                .unwrap();
            for i in 0..own.len() {
                let w = own.weights.as_ref().unwrap()[i];
                weight += 2.0 * w;
                error += (0..2).map(|o| w * (own.y[(i, o)] - said[(i, o)]).powi(2)).sum::<f64>();
            }
        }
        let told = chosen.tried.iter().find(|t| t.landmarks == 24 && t.ridge == *ridge).unwrap().error;
        assert!((told - error / weight).abs() < 1e-4 * told, "{told} {}", error / weight);
    }
    let best =
        chosen.tried.iter().filter(|t| t.landmarks == 24).min_by(|a, b| a.error.total_cmp(&b.error)).unwrap();
    assert_eq!(best.ridge, chosen.ridge);
    assert_eq!(chosen.tried.len(), 9);
}

/// With every row a landmark it is kernel ridge regression.
#[test]
fn with_all_rows_it_is_the_dense_fit() {
    let all = rows(80, 3, 1, true, 21);
    let kernel = written("laplacian(lengthscale=1)", &all.x);
    let plan = planned(&all, &kernel, 80, 1);
    assert_eq!(plan.landmarks.rows(), 80);
    let solution = fitted(&plan, &all, 0.3, false, 2);
    let mut dense = crate::fit::KernelRidge::new(kernel, 0.3);
    (dense.center, dense.sample_weight) = (false, all.weights.clone());
    let truth = dense.fit(&all.x, &all.y).unwrap().model.predict(&all.x).unwrap();
    let said = solution.model().unwrap().predict(&all.x).unwrap();
    assert!(said.data().iter().zip(truth.data()).all(|(a, b)| (a - b).abs() < 1e-7));
}

/// Kernels without a bound of their own are looked at first; rows beyond what was seen are refused, and
/// categories count by their names.
#[test]
fn rows_outside_the_plan_are_refused() {
    let all = rows(300, 2, 1, false, 31);
    let kernel = KernelExpression::parse("linear + rbf")
        .unwrap()
        .resolve(&all.x, &ColumnScaling::standardised(&all.x))
        .unwrap();
    let choice = LandmarkChoice { landmarks: 20, folds: 1, centered: true, seed: 0 };
    let mut survey = surveyed(&all, 300);
    assert!(
        FitPlan::new(&survey, kernel.clone(), Model::Ridge, choice)
            .unwrap_err()
            .to_string()
            .contains("look at all of them")
    );
    survey.add_kernel(&kernel, &all.x);
    let plan = FitPlan::new(&survey, kernel, Model::Ridge, choice).unwrap();
    assert!(Statistics::of(&plan, &all, 0).is_ok());
    let far = |x: f64, y: f64| {
        LabelledRows::new(Table::from_rows(&[[x, 0.0]]).unwrap(), Matrix::column_vector(vec![y]), None)
            .unwrap()
    };
    for bad in [far(1e6, 0.0), far(0.0, 1e9)] {
        assert!(Statistics::of(&plan, &bad, 0).unwrap_err().to_string().contains("outside the range"));
    }
    let weighted = LabelledRows { weights: Some(vec![1.0]), ..far(0.0, 0.0) };
    assert!(Statistics::of(&plan, &weighted, 0).is_err());
}

/// Damaged and foreign files are refused, by name.
#[test]
fn files_are_checked() {
    let all = rows(200, 2, 1, false, 41);
    let plan = planned(&all, &Kernel::gaussian(&[1.0, 1.0]), 10, 1);
    let bytes = Statistics::of(&plan, &all, 3).unwrap().to_bytes();
    for at in [0, bytes.len() / 2, bytes.len() - 1] {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        assert!(Statistics::from_bytes(&plan, &bad).unwrap_err().to_string().contains("checksum"));
    }
    for cut in [0, 10, 40, bytes.len() - 1] {
        assert!(Statistics::from_bytes(&plan, &bytes[..cut]).is_err());
    }
    let other = planned(&all, &Kernel::gaussian(&[1.0, 2.0]), 10, 1);
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
    /// Over random problems no fit is farther from the one of exact arithmetic than its certificate says.
    #[test]
    fn certificates_hold(seed: u64, n in 30usize..200, d in 1usize..4, m in 2usize..25, log_ridge in -5.0..2.0, length in 0.3..3.0, weighted: bool, intercept: bool, corrections in 1usize..3, uniform: bool) {
        let all = rows(n, d, 1, weighted, seed);
        let ridge = 10.0_f64.powf(log_ridge);
        let plan = planned(&all, &Kernel::gaussian(&vec![length; d]), m, 1);
        let mut solution = fitted(&plan, &all, ridge, intercept, corrections);
        if uniform {
            let mut residual = ResidualPass::empty(&plan, solution.coefficients());
            residual.add(&plan, solution.coefficients(), &all).unwrap();
            solution.prove(&residual).unwrap();
        }
        let new = rows(20, d, 1, false, seed ^ 1).x;
        if let Some(bounds) = solution.bounds(&new).unwrap() {
            let truth = exact(&plan, &all, ridge, intercept, &new);
            // The coefficients themselves, without the rounding of predictions.
            let values = &solution.coefficients().values;
            for i in 0..20 {
                let mut said = twofloat::TwoFloat::from(0.0);
                for j in 0..plan.landmarks.rows() {
                    said += twofloat::TwoFloat::from(values[(j, 0)]) * twofloat::TwoFloat::from(plan.kernel.eval(&new.row(i), &plan.landmarks.row(j)));
                }
                let constant = if intercept { values[(plan.landmarks.rows(), 0)] + plan.targets[0].center } else { 0.0 };
                let off = (f64::from(said + twofloat::TwoFloat::from(constant)) - truth[i][0]).abs();
                // What the oracle itself is off: its systems are solved in 106 bits.
                prop_assert!(off <= bounds[(i, 0)] + 1e-15 * (1.0 + truth[i][0].abs()), "{} {}", off, bounds[(i, 0)]);
            }
        }
    }
}

/// Rounded in one slice, as it is, against `K̂ᵀK̂` by whole numbers.
#[test]
fn statistics_are_sums_of_rounded_kernels() {
    let all = rows(500, 3, 1, false, 51);
    {
        let plan = planned(&all, &Kernel::gaussian(&[1.0; 3]), 12, 1);
        let sums = Statistics::of(&plan, &all, 0).unwrap().sums(&plan, |_| true);
        let k = plan.kernel.cross_gram(&all.x, &plan.landmarks);
        let step = 0.5_f64.powi(21);
        let rounded = |i: usize, j: usize| (k[(i, j)] / step).round_ties_even() as i128;
        let y = |i: usize| {
            let v = plan.targets[0].of(all.y[(i, 0)]) / 0.5_f64.powi(42);
            v.round_ties_even() as i128
        };
        for a in 0..12 {
            for b in 0..12 {
                let sum: i128 = (0..500).map(|i| rounded(i, a) * rounded(i, b)).sum();
                assert_eq!(sums.gram[(a, b)], sum as f64 * step * step);
            }
            let sum: i128 = (0..500).map(|i| rounded(i, a) * y(i)).sum();
            let told = sums.cross[(a, 0)] / plan.targets[0].unit;
            assert!((told - sum as f64 * step * 0.5_f64.powi(42)).abs() < 1e-9 * told.abs().max(1.0));
        }
        assert!((sums.diagonal - 500.0).abs() < 1e-9);
        let _ = Cholesky::new(sums.gram, "sums").unwrap();
    }
}

/// A plan that tells two classes apart.
fn of_classes(mut plan: FitPlan, by: LatentFunction) -> FitPlan {
    plan.model = Model::Classes { names: vec!["no".into(), "yes".into()], by, start: Vec::new() };
    plan
}

/// Where all rows are landmarks the process is the dense one: mode, variances, evidence, probabilities. With
/// fewer they are those of the prior that landmarks span, in any order of the rows.
#[test]
fn classes_of_a_process_are_those_of_the_dense_one() {
    let mut all = rows(150, 2, 1, false, 62);
    all.y.data_mut().iter_mut().for_each(|y| *y = f64::from(u8::from(*y > 0.3)));
    let labels: Vec<usize> = all.y.data().iter().map(|y| *y as usize).collect();
    let kernel = written("3*matern32(lengthscale=1.2)", &all.x);
    let classes = ["no".to_string(), "yes".to_string()];
    let mut dense = crate::fit::GaussianProcessClassifier::new(kernel.clone());
    dense.tune = false;
    let dense = dense.fit(&all.x, &labels, &classes).unwrap();
    let new = rows(40, 2, 1, false, 63).x;
    let job = |landmarks: usize| Job {
        kind: Kind::Classes { names: classes.to_vec(), by: Classifier::Process { restarts: 0 } },
        fixed_kernel: true,
        intercept: false,
        corrections: 0,
        ..Job::new(landmarks)
    };
    let found = |landmarks: usize, all: LabelledRows| {
        let fitted = fit_rows(all, kernel.clone(), &job(landmarks), &FitControl::default()).unwrap();
        let covariance = fitted.covariance.clone().unwrap();
        let variance = Posterior::new(&fitted.model, &covariance).unwrap().variance(&new).unwrap();
        (fitted.model.predict(&new).unwrap(), variance, fitted.log_marginal_likelihood.unwrap(), fitted.model)
    };
    let near = |a: &Matrix, b: &Matrix, within: f64| {
        a.data().iter().zip(b.data()).for_each(|(a, b)| assert!((a - b).abs() < within, "{a} {b}"));
    };
    let (mean, variance, evidence, model) = found(150, all.clone());
    let truth = dense.posterior().variance(&new).unwrap();
    near(&mean, &dense.model.predict(&new).unwrap(), 1e-5);
    near(&variance, &truth, 1e-4);
    assert!((evidence - dense.log_marginal_likelihood).abs() < 1e-4, "{evidence}");
    let probability = |model: &KernelExpansion, covariance: &PosteriorCovariance| {
        crate::Prediction::of(model, Some(covariance), &new).unwrap().probabilities.unwrap()
    };
    let fitted = fit_rows(all.clone(), kernel.clone(), &job(150), &FitControl::default()).unwrap();
    near(
        &probability(&model, &fitted.covariance.unwrap()),
        &probability(&dense.model, &dense.covariance),
        1e-5,
    );
    let (few, wider, evidence, model) = found(40, all.clone());
    let (again, _, _, _) = found(40, some(&all, &(0..150).rev().collect::<Vec<_>>()));
    assert_eq!(few, again);
    // Of 40 landmarks: where slopes are nothing, by the curvature there.
    let (k, gram) = (kernel.cross_gram(&model.support_points, &all.x), kernel.gram(&model.support_points));
    let (f, theta) = (model.predict(&all.x).unwrap().column(0), model.coef.column(0));
    let p: Vec<f64> = f.iter().map(|f| 1.0 / (1.0 + (-f).exp())).collect();
    let error: Vec<f64> = p.iter().zip(all.y.data()).map(|(p, y)| y - p).collect();
    let slopes = k.matvec(&error).into_iter().zip(gram.matvec(&theta)).map(|(a, b)| a - b);
    assert!(slopes.fold(0.0, |most: f64, v| most.max(v.abs())) < 1e-4);
    let mut root = k.clone();
    for j in 0..40 {
        root.row_mut(j).iter_mut().zip(&p).for_each(|(k, p)| *k *= (p * (1.0 - p)).sqrt());
    }
    let mut matrix = root.matmul(&root.transpose());
    matrix.data_mut().iter_mut().zip(gram.data()).for_each(|(v, k)| *v += k);
    let pull = crate::linalg::dot(&theta, &gram.matvec(&theta));
    let factors = [gram, matrix].map(|matrix| Cholesky::new(matrix, "matrix").unwrap());
    let at = kernel.cross_gram(&model.support_points, &new);
    let variances = (0..40).map(|i| {
        let k = at.column(i);
        let [prior, known] = [0, 1].map(|which| crate::linalg::dot(&k, &factors[which].solve_vector(&k)));
        3.0 - prior + known
    });
    near(&wider, &Matrix::column_vector(variances.collect()), 1e-4);
    let likelihood = |(p, y): (&f64, &f64)| if *y > 0.0 { p.ln() } else { (1.0 - p).ln() };
    let likelihood: f64 = p.iter().zip(all.y.data()).map(likelihood).sum();
    let volume = factors[1].log_det() - factors[0].log_det();
    assert!((evidence - (likelihood - 0.5 * pull - 0.5 * volume)).abs() < 1e-4, "{evidence}");
    let alone = some(&all, &(0..150).filter(|&i| labels[i] == 1).collect::<Vec<_>>());
    let tuned = Job { fixed_kernel: false, ..job(20) };
    let said = fit_rows(alone, kernel.clone(), &tuned, &FitControl::default()).unwrap_err().to_string();
    assert!(said.contains("'yes' in all of the"), "{said}");
}

/// At the optimum of all rows the gradient is nothing: against the dense fit where all rows are landmarks,
/// against finite differences elsewhere; parts and order do not matter.
#[test]
fn logistic_regression_finds_its_optimum() {
    for (weighted, intercept) in [(false, true), (true, true), (false, false)] {
        let mut all = rows(60, 2, 1, weighted, 61);
        all.y
            .data_mut()
            .iter_mut()
            .enumerate()
            .for_each(|(i, y)| *y = f64::from(u8::from(*y > 0.0 || i % 9 == 0)));
        let kernel = written("laplacian(lengthscale=1.5)", &all.x);
        let classes = ["no".to_string(), "yes".to_string()];
        let found = |plan: &FitPlan, all: &LabelledRows, parts: &[usize]| {
            let mut newton = StreamingNewton::new(plan, intercept).unwrap();
            while !newton.converged {
                let coefficients = newton.coefficients.clone();
                let mut total = LogisticGradient::empty(plan, &coefficients);
                let mut from = 0;
                for (unit, part) in parts.iter().enumerate() {
                    let mut own = LogisticGradientBuilder::new(plan, &coefficients);
                    own.add(&some(all, &(from..from + part).collect::<Vec<_>>())).unwrap();
                    let bytes = own.finish(unit as u64).to_bytes();
                    total.merge(&LogisticGradient::from_bytes(plan, &coefficients, &bytes).unwrap()).unwrap();
                    from += part;
                }
                newton.step(&total).unwrap();
            }
            newton
        };
        let plan = of_classes(planned(&all, &kernel, 60, 1), LatentFunction::Penalised(0.2));
        assert_eq!(plan.landmarks.rows(), 60);
        let newton = found(&plan, &all, &[60]);
        assert!(newton.passes < 15, "{}", newton.passes);
        assert_eq!(found(&plan, &all, &[7, 53]).coefficients, newton.coefficients);
        let labels: Vec<usize> = all.y.data().iter().map(|y| *y as usize).collect();
        let mut dense = crate::fit::KernelLogisticRegression::new(kernel.clone(), 0.2);
        (dense.sample_weight, dense.fit_intercept) = (all.weights.clone(), intercept);
        let truth = dense.fit(&all.x, &labels, &classes).unwrap().model.predict(&all.x).unwrap();
        let said = newton.fitted().unwrap().model.predict(&all.x).unwrap();
        assert!(
            said.data().iter().zip(truth.data()).all(|(a, b)| (a - b).abs() < 1e-6),
            "{weighted} {intercept}"
        );
        // With fewer landmarks the objective is least: it grows in every direction.
        let few = of_classes(planned(&all, &kernel, 10, 1), LatentFunction::Penalised(0.2));
        let end = found(&few, &all, &[30, 30]);
        let objective = |theta: &Matrix| {
            let k = few.kernel.cross_gram(&all.x, &few.landmarks);
            let gram = few.kernel.gram(&few.landmarks);
            let (coef, constant) = (&theta.data()[..10], theta.data()[10]);
            let mut sum = 0.1 * crate::linalg::dot(coef, &gram.matvec(coef));
            for i in 0..60 {
                let f = crate::linalg::dot(k.row(i), coef) + constant;
                let s = if all.y.data()[i] > 0.0 { f } else { -f };
                sum += all.weights.as_ref().map_or(1.0, |w| w[i]) * (-s).exp().ln_1p();
            }
            sum
        };
        let best = &end.coefficients.values;
        for j in 0..10 + usize::from(intercept) {
            for h in [1e-4, -1e-4] {
                let mut moved = best.clone();
                moved.data_mut()[j] += h;
                assert!(objective(&moved) > objective(best) - 1e-12, "{j}");
            }
        }
    }
}

/// Where there are many more rows than landmarks the way begins where a sample would end: it sums up fewer
/// gram matrices, and ends where the one from 0 does, for regressions and processes; a sample with hardly any
/// row of a class says nothing.
#[test]
fn a_start_from_the_sample_ends_where_any_does() {
    let names = ["no".to_string(), "yes".to_string()];
    for (weighted, by) in [(true, Classifier::Regression), (false, Classifier::Process { restarts: 0 })] {
        let mut all = rows(6000, 2, 1, weighted, 77);
        all.y.data_mut().iter_mut().for_each(|y| *y = f64::from(u8::from(*y > 0.3)));
        let ridge = (by == Classifier::Regression).then_some(0.5);
        let kind = Kind::Classes { names: names.to_vec(), by };
        let intercept = ridge.is_some();
        let job = Job { kind, ridge, intercept, fixed_kernel: true, ..Job::new(20) };
        let planned = |all: &LabelledRows| {
            let mut survey = job.survey(all.x.columns(), 1, weighted);
            survey.add(all).unwrap();
            let tuned = job.tuned(&survey, written("2*rbf(lengthscale=1.5)", &all.x)).unwrap();
            job.plan(&survey, tuned).unwrap()
        };
        let started = |plan: &FitPlan| match &plan.model {
            Model::Classes { start, .. } => start.clone(),
            other => panic!("{other:?}"),
        };
        let found = |plan: &FitPlan| {
            let (mut newton, mut grams) = (StreamingNewton::new(plan, intercept).unwrap(), 0);
            while !newton.converged {
                let coefficients = newton.coefficients.clone();
                let mut own = LogisticGradientBuilder::new(plan, &coefficients);
                own.add(&all).unwrap();
                newton.step(&own.finish(0)).unwrap();
                grams += usize::from(coefficients.curvature);
            }
            (grams, newton.fitted().unwrap().model.predict(&all.x).unwrap())
        };
        let plan = planned(&all);
        assert_eq!(started(&plan).len(), plan.size());
        let mut cold = plan.clone();
        if let Model::Classes { start, .. } = &mut cold.model {
            start.clear();
        }
        let ((grams, warm), (more, cold)) = (found(&plan), found(&cold));
        assert!(grams < more, "{grams} {more}");
        let apart = warm.data().iter().zip(cold.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-5, "{apart}");
        // Of one class there are fewer than fifty rows.
        let mut rare = all.clone();
        rare.y.data_mut().iter_mut().enumerate().for_each(|(i, y)| *y = f64::from(u8::from(i % 200 == 0)));
        assert!(started(&planned(&rare)).is_empty());
    }
}

/// Rows that a line separates: steps are halved where they must be, and a tiny ridge still ends.
#[test]
fn separable_classes_converge() {
    let mut all = rows(200, 2, 1, false, 71);
    for i in 0..200 {
        all.y.data_mut()[i] = f64::from(u8::from(all.x.get(i, 0) > 0.0));
    }
    let plan =
        of_classes(planned(&all, &Kernel::gaussian(&[2.0, 2.0]), 30, 1), LatentFunction::Penalised(1e-6));
    let mut newton = StreamingNewton::new(&plan, true).unwrap();
    while !newton.converged {
        let coefficients = newton.coefficients.clone();
        let mut own = LogisticGradientBuilder::new(&plan, &coefficients);
        own.add(&all).unwrap();
        newton.step(&own.finish(0)).unwrap();
    }
    let model = newton.fitted().unwrap().model;
    let said = model.predict(&all.x).unwrap();
    assert!((0..200).all(|i| (said[(i, 0)] > 0.0) == (all.y.data()[i] > 0.0)));
    let mut bad = all.clone();
    bad.y.data_mut()[3] = 0.5;
    let coefficients = newton.coefficients.clone();
    assert!(
        LogisticGradientBuilder::new(&plan, &coefficients).add(&bad).unwrap_err().to_string().contains("0.5")
    );
}

/// The process of all rows is that of the same kernel, points and noise in memory, and kernel and noise come
/// from the sample.
#[test]
fn processes_are_those_of_their_points() {
    let all = rows(1500, 2, 1, false, 81);
    let learning = GpTuning {
        noise: 0.1,
        tune: crate::fit::TunedParameters::KernelAndNoise,
        normalize_y: true,
        restarts: 0,
    };
    let job = Job { kind: Kind::Process(learning), ..Job::new(60) };
    let found = fit_rows(all.clone(), Kernel::gaussian(&[1.0, 1.0]), &job, &FitControl::default()).unwrap();
    let (model, noise) = (&found.model, found.noise.unwrap());
    // Two columns, and a smooth kernel: fewer than 60 explain all of it.
    let m = model.support_points.rows();
    assert!((10..=60).contains(&m));
    assert!((noise - 0.09).abs() < 0.03, "{noise}");
    let n = all.len();
    let k = model.kernel.cross_gram(&all.x, &model.support_points);
    let y: Vec<f64> = all.y.data().iter().map(|y| y - model.intercept[0]).collect();
    let mut sums = crate::fit::KernelSums::zeros(m, 1);
    sums.gram = k.gram_of_columns();
    sums.targets = Matrix::column_vector((0..m).map(|j| (0..n).map(|i| k[(i, j)] * y[i]).sum()).collect());
    sums.squares = crate::linalg::dot(&y, &y);
    sums.prior = model.kernel.diagonal(&all.x).iter().sum();
    sums.rows = n;
    // Rough kernels take more jitter, which makes a process less sure where its points say all but nothing.
    sums.rounding = 0.5_f64.powi(22) * 2.0_f64.powi(model.kernel.max_value().unwrap().log2().ceil() as i32);
    let truth = sums.posterior(&model.kernel, &model.support_points, noise).unwrap();
    let new = rows(30, 2, 1, false, 82).x;
    let mut other = model.clone();
    other.coef = truth.coef;
    let (said, told) = (model.predict(&new).unwrap(), other.predict(&new).unwrap());
    let off = said.data().iter().zip(told.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off < 0.01 * noise.sqrt(), "{off}");
    let covariance = found.covariance.unwrap();
    let sd = |c: &crate::PosteriorCovariance| crate::Posterior::new(model, c).unwrap().sd(&new).unwrap();
    let (own, dense) = (sd(&covariance), sd(&truth.covariance));
    assert!(own.data().iter().zip(dense.data()).all(|(a, b)| (a - b).abs() < 0.03 * b));
    let bound = found.log_marginal_likelihood.unwrap();
    assert!((bound - truth.lower).abs() < 1e-3 * truth.lower.abs(), "{bound} {}", truth.lower);
}

/// As many passes as have something to do, and the largest bound at a landmark after each.
fn passes(plan: &FitPlan, all: &LabelledRows, ridge: f64) -> (RidgeSolution, Vec<f64>) {
    let statistics = Statistics::of(plan, all, 0).unwrap();
    let penalties = RidgeSpec { ridges: vec![ridge], intercept: true };
    let mut solution = RidgeSolution::new(plan, statistics, &penalties).unwrap();
    let mut bounds = Vec::new();
    while solution.wants_pass(1, bounds.len()) {
        let mut residual = ResidualPass::empty(plan, solution.coefficients());
        residual.add(plan, solution.coefficients(), all).unwrap();
        solution.apply_residual(&residual, 1, bounds.len()).unwrap();
        let own = solution.bounds(&plan.landmarks).unwrap();
        bounds.push(own.map_or(f64::INFINITY, |own| own.data().iter().copied().fold(0.0, f64::max)));
    }
    (solution, bounds)
}

/// From strong ridges to weak ones: a correction is enough; a second narrows the bound; rounding may decide,
/// and another pass proves what it can. A target that is fitted to its last digit takes no more than was
/// asked for.
#[test]
fn passes_are_made_while_they_have_something_to_do() {
    let all = rows(900, 2, 1, false, 21);
    let mut kinds = Vec::new();
    for (lengthscale, power) in [0.8, 1.5, 2.5].into_iter().flat_map(|l| (-1..10).map(move |p| (l, p))) {
        let plan = planned(&all, &Kernel::gaussian(&[lengthscale; 2]), 60, 1);
        let (solution, bounds) = passes(&plan, &all, 0.1_f64.powi(power));
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
    let flat = LabelledRows::new(all.x.clone(), flat, None).unwrap();
    let plan = planned(&flat, &Kernel::gaussian(&[0.8; 2]), 60, 1);
    assert_eq!(passes(&plan, &flat, 1e-3).1.len(), 1);
}

/// Where landmarks explain the kernel nothing is missing, and a few rows do not tell what many would add.
#[test]
fn nothing_is_missing_where_landmarks_explain_the_kernel() {
    let all = rows(600, 3, 1, false, 22);
    for kernel in ["linear()", "polynomial(degree=2)"] {
        let choice = LandmarkChoice { landmarks: 100, folds: 1, centered: true, seed: 3 };
        let (mut survey, kernel) = (surveyed(&all, choice.candidates()), written(kernel, &all.x));
        survey.add_kernel(&kernel, &all.x);
        let plan = FitPlan::new(&survey, kernel, Model::Ridge, choice).unwrap();
        assert!(plan.landmarks.rows() < 20);
        let solution = fitted(&plan, &all, 0.1, true, 0);
        if let Some(missing) = solution.missing() {
            assert_eq!(missing.distances[..], [0.0]);
        }
    }
    let plan = planned(&all, &Kernel::gaussian(&[0.5; 3]), 100, 1);
    assert!(fitted(&plan, &all, 0.1, true, 0).missing().unwrap().distances[0] > 0.01);
    let few = some(&all, &(0..80).collect::<Vec<_>>());
    assert!(fitted(&plan, &few, 0.1, true, 0).missing().is_none());
}

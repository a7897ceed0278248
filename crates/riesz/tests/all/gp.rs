//! Gaussian processes against scikit-learn (fixtures made by `scripts/oracles/gp.py`), and properties that
//! hold without an oracle.

use riesz::fit::{GaussianProcess, GaussianProcessClassifier, KernelRidge, TunedParameters};
use riesz::kernel::{Periodic, Polynomial, Profile, Stationary};
use riesz::linalg::Sparse;
use riesz::{Error, Kernel, Matrix, Posterior, Prediction, Table};
use serde_json::Value;

use crate::common::{fixture, lists, matrix, number, numbers, with_threads};

/// A fixture's data: training table, test table (its last ten rows), training targets.
fn data(oracle: &Value, case: &Value) -> (Table, Table, Matrix) {
    let set = &oracle["datasets"][case["dataset"].as_str().unwrap()];
    let (x, y) = (Table::from_rows(&lists(&set["x"])).unwrap(), matrix(&set["y"]));
    let n = x.rows() - 10;
    let (train, test): (Vec<usize>, Vec<usize>) = (0..x.rows()).partition(|&i| i < n);
    let targets = Matrix::from_row_major(n, y.cols(), y.data()[..n * y.cols()].to_vec());
    (x.select_rows(&train), x.select_rows(&test), targets)
}

fn factor(value: &Value, width: usize) -> Kernel {
    let number = |name: &str| value[name].as_f64().unwrap();
    let columns: Vec<usize> = (0..width).collect();
    let profile = match value["factor"].as_str().unwrap() {
        "rbf" => Profile::Gaussian,
        "laplacian" => Profile::Exponential,
        "matern32" => Profile::Matern32,
        "matern52" => Profile::Matern52,
        "rq" => Profile::RationalQuadratic { alpha: number("alpha") },
        "periodic" => {
            return Periodic { columns: [0], period: number("period"), length_scale: number("lengthscale") }
                .into();
        }
        "polynomial" => {
            return Polynomial {
                columns,
                center: vec![0.0; width],
                scale: vec![1.0; width],
                gamma: 1.0,
                coef0: number("coef0"),
                degree: number("degree") as u32,
            }
            .into();
        }
        other => panic!("factor {other}"),
    };
    let mut length_scale = numbers(&value["lengthscale"]);
    let ard = value["ard"] == true;
    length_scale.resize(width, length_scale[0]);
    Stationary { profile, columns, length_scale, ard, isotropic: true }.into()
}

fn kernel(value: &Value, width: usize) -> Kernel {
    let term = |term: &Value| {
        let factors = term["factors"].as_array().unwrap().iter().map(|f| factor(f, width));
        factors.fold(Kernel::constant(term["scale"].as_f64().unwrap()), |product, f| product * f)
    };
    value.as_array().unwrap().iter().map(term).reduce(|a, b| a + b).unwrap()
}

/// Returns the largest difference relative to the largest expected number.
fn gap(actual: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let largest = expected.iter().fold(1e-300, |a: f64, v| a.max(v.abs()));
    actual.iter().zip(expected).fold(0.0, |a: f64, (f, e)| a.max((f - e).abs())) / largest
}

/// Returns the gap of two gradients over the entries that scikit-learn provides.
fn gradient_gap(actual: &[f64], expected: &Value) -> f64 {
    let expected = expected.as_array().unwrap();
    assert_eq!(actual.len(), expected.len());
    let known = actual.iter().zip(expected).filter(|(_, e)| !e.is_null());
    let (actual, expected): (Vec<f64>, Vec<f64>) = known.map(|(f, e)| (*f, e.as_f64().unwrap())).unzip();
    gap(&actual, &expected)
}

/// Returns the joint covariance of f at the rows, one matrix per output.
fn covariance(posterior: Posterior<'_>, rows: &Table) -> Vec<Matrix> {
    posterior.covariance(&posterior.functionals_at(rows).unwrap())
}

#[test]
fn regression_agrees_with_scikit_learn() {
    let oracle = fixture("gp/scikit_learn.json");
    for case in oracle["regression"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let (x, test, y) = data(&oracle, case);
        let mut gp =
            GaussianProcess::new(kernel(&case["kernel"], x.width()), case["noise"].as_f64().unwrap());
        gp.tune = TunedParameters::Nothing;
        gp.normalize_y = case["normalize_y"] == true;
        gp.row_noise = case["row_noise"].as_array().map(|_| numbers(&case["row_noise"]));
        let fit = gp.fit(&x, &y).unwrap();
        let (mean, sd) = (fit.model.predict(&test).unwrap(), fit.posterior().sd(&test).unwrap());
        let covariance = covariance(fit.posterior(), &test);
        let scale = fit.covariance.scale[0].powi(2);
        let expected_covariance = matrix(&case["covariance"]);
        let expected_covariance: Vec<f64> = match y.cols() {
            1 => expected_covariance.data().to_vec(),
            _ => expected_covariance.data().iter().map(|c| c * scale).collect(),
        };
        assert!(gap(fit.model.coef.data(), matrix(&case["coef"]).data()) < 1e-9, "{name}: coefficients");
        assert!(gap(mean.data(), matrix(&case["mean"]).data()) < 1e-10, "{name}: means");
        for o in 0..y.cols() {
            let (actual, expected) = (sd.column(o), matrix(&case["sd"]).column(o));
            assert!(gap(&actual, &expected) < 1e-9, "{name}: standard deviations of target {o}");
        }
        assert!(gap(covariance[0].data(), &expected_covariance) < 1e-9, "{name}: covariance");
        let expected = case["value"].as_f64().unwrap();
        let theta: Vec<f64> = gp.parameters().iter().map(|p| p.log_value).collect();
        let (value, gradient) = gp.log_marginal_likelihood(&x, &y, &theta).unwrap();
        assert!((fit.log_marginal_likelihood - expected).abs() < 1e-9 * expected.abs(), "{name}: evidence");
        assert!((value - expected).abs() < 1e-9 * expected.abs(), "{name}: evidence at theta");
        assert!(
            gradient_gap(&gradient, &case["gradient"]) < 1e-8,
            "{name}: {gradient:?} {}",
            case["gradient"]
        );
        assert_eq!(fit.jitter, 0.0, "{name}");
    }
}

/// Returns the bundled data with standardised columns.
fn diabetes() -> (Table, Matrix) {
    let text = include_str!("../../../riesz-cli/data/diabetes.csv");
    let rows: Vec<Vec<f64>> =
        text.lines().skip(1).map(|l| l.split(',').map(|v| v.parse().unwrap()).collect()).collect();
    let n = rows.len();
    let mut x = Matrix::from_row_major(n, 10, rows.iter().flat_map(|r| r[..10].to_vec()).collect());
    for j in 0..10 {
        let column = x.column(j);
        let mean = column.iter().sum::<f64>() / n as f64;
        let sd = (column.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
        (0..n).for_each(|i| x[(i, j)] = (x[(i, j)] - mean) / sd);
    }
    (
        Table::from_rows(&(0..n).map(|i| x.row(i)).collect::<Vec<_>>()).unwrap(),
        Matrix::column_vector(rows.iter().map(|r| r[10]).collect()),
    )
}

fn stationary(profile: Profile, ard: bool) -> Kernel {
    Stationary { profile, columns: (0..10).collect(), length_scale: vec![3.0; 10], ard, isotropic: true }
        .into()
}

#[test]
fn tuning_reaches_the_optimum_of_scikit_learn() {
    let (x, y) = diabetes();
    for case in fixture("gp/scikit_learn.json")["tuning"].as_array().unwrap() {
        let name = case["kernel"].as_str().unwrap();
        let kernel = match name {
            "rbf" => stationary(Profile::Gaussian, false),
            "rbf ard" => stationary(Profile::Gaussian, true),
            _ => stationary(Profile::Matern52, false),
        };
        let mut gp = GaussianProcess::new(kernel, 0.5);
        gp.restarts = case["restarts"].as_u64().unwrap() as usize;
        let bound = 1e3_f64.ln();
        gp.bounds = Some(vec![(-bound, bound); gp.parameters().len()]);
        let fit = gp.fit(&x, &y).unwrap();
        let (actual, expected) = (fit.log_marginal_likelihood, case["value"].as_f64().unwrap());
        assert!(actual > expected - 1e-3, "{name}: {actual} against {expected}");
        assert!(actual < expected + 1.0, "{name}: {actual} against {expected}: is the value right?");
        assert!(fit.evaluations < 150 * (1 + gp.restarts), "{name}: {} evaluations", fit.evaluations);
    }
}

/// A length scale of a noise column reaches its upper bound, which gives a warning; fixed parameters stay.
#[test]
fn active_bounds_are_reported_and_fixed_ones_are_kept() {
    let (x, y) = diabetes();
    let rows: Vec<usize> = (0..80).collect();
    let x = x.select_rows(&rows);
    let y = Matrix::column_vector(y.data()[..80].to_vec());
    let mut gp = GaussianProcess::new(stationary(Profile::Gaussian, true), 0.5);
    let fixed = |v: f64| (v.ln(), v.ln());
    gp.bounds = Some([vec![fixed(1.0)], vec![(0.0, 1e2_f64.ln()); 10], vec![(-7.0, 2.0)]].concat());
    let fit = gp.fit(&x, &y).unwrap();
    let is_expected = |w: &String| w.contains("upper bound") && w.contains("hardly changes");
    assert!(fit.warnings.iter().any(is_expected), "{:?}", fit.warnings);
    assert_eq!(fit.theta[0], 0.0);
    assert!(fit.model.model_card.iter().any(|f| f.name == "warning"));
    gp.tune = TunedParameters::Kernel;
    assert_eq!(gp.fit(&x, &y).unwrap().theta[11], 0.5_f64.ln());
    gp.bounds = Some(vec![(1.0, 2.0); 12]);
    assert!(matches!(gp.fit(&x, &y), Err(Error::Parameter { .. })));
    gp.bounds = Some(vec![(1.0, 2.0); 3]);
    assert!(matches!(gp.fit(&x, &y), Err(Error::Shape { expected: 12, actual: 3, .. })));
}

/// Values, restarts and parallel sums are the same in every run and for any number of threads; another seed
/// has other starts.
#[test]
fn results_depend_on_the_seed_alone() {
    let (x, y) = diabetes();
    let rows: Vec<usize> = (0..150).collect();
    let (x, y) = (x.select_rows(&rows), Matrix::column_vector(y.data()[..150].to_vec()));
    let labels: Vec<usize> = y.data().iter().map(|v| usize::from(*v > 140.0)).collect();
    let classes = ["low".to_string(), "high".to_string()];
    let run = |threads: usize, seed: u64| {
        with_threads(threads, || {
            let mut gp = GaussianProcess::new(stationary(Profile::Gaussian, true), 0.5);
            (gp.restarts, gp.seed) = (2, seed);
            let fit = gp.fit(&x, &y).unwrap();
            let mut gpc = GaussianProcessClassifier::new(stationary(Profile::Matern52, false));
            (gpc.restarts, gpc.seed) = (1, seed);
            let gpc = gpc.fit(&x, &labels, &classes).unwrap();
            let probability = Prediction::new(&gpc.model, Some(&gpc.covariance), &x).unwrap();
            let (mean, sd) = (fit.model.predict(&x).unwrap(), fit.posterior().sd(&x).unwrap());
            (fit.theta, fit.evaluations, mean, sd, gpc.theta, gpc.evaluations, probability)
        })
    };
    let first = run(1, 5);
    assert_eq!(first, run(2, 5));
    assert_eq!(first, run(3, 5));
    let other = run(1, 6);
    assert_ne!((first.1, first.5), (other.1, other.5));
}

/// The evidence of two targets is the sum of their evidences, in their own units.
#[test]
fn evidence_is_in_the_targets_units() {
    let (x, y) = diabetes();
    let rows: Vec<usize> = (0..60).collect();
    let x = x.select_rows(&rows);
    let first = Matrix::column_vector(y.data()[..60].to_vec());
    let two = Matrix::from_row_major(60, 2, first.data().iter().flat_map(|v| [*v, 3.0 * v * v]).collect());
    let mut gp = GaussianProcess::new(stationary(Profile::Gaussian, false), 0.5);
    gp.tune = TunedParameters::Nothing;
    let second = Matrix::column_vector(two.column(1));
    let (a, b, joint) =
        (gp.fit(&x, &first).unwrap(), gp.fit(&x, &second).unwrap(), gp.fit(&x, &two).unwrap());
    let sum = a.log_marginal_likelihood + b.log_marginal_likelihood;
    assert!((joint.log_marginal_likelihood - sum).abs() < 1e-9 * sum.abs());
    let (mean, sd) = (joint.model.predict(&x).unwrap(), joint.posterior().sd(&x).unwrap());
    let (mean_a, sd_a) = (a.model.predict(&x).unwrap(), a.posterior().sd(&x).unwrap());
    assert!(gap(&mean.column(0), mean_a.data()) < 1e-12 && gap(&sd.column(0), sd_a.data()) < 1e-11);
    // A fit of the unscaled target with the reported kernel and noise is the same fit.
    let centered: Vec<f64> = first.data().iter().map(|v| v - a.model.intercept[0]).collect();
    let mut again = GaussianProcess::new(a.model.kernel.clone(), a.noise);
    (again.tune, again.normalize_y) = (TunedParameters::Nothing, false);
    let again = again.fit(&x, &Matrix::column_vector(centered)).unwrap();
    assert!(gap(again.model.coef.data(), a.model.coef.data()) < 1e-11);
    assert!((again.log_marginal_likelihood - a.log_marginal_likelihood).abs() < 1e-9);
}

/// The posterior mean is ridge regression, and another observation at a row reduces its variance by the
/// update formula.
#[test]
fn mean_is_ridge_and_variance_is_its_update() {
    let (x, y) = diabetes();
    let rows: Vec<usize> = (0..70).collect();
    let (x, y) = (x.select_rows(&rows), Matrix::column_vector(y.data()[..70].to_vec()));
    let mut gp = GaussianProcess::new(stationary(Profile::Matern32, false), 0.3);
    (gp.tune, gp.normalize_y) = (TunedParameters::Nothing, false);
    let mut ridge = KernelRidge::new(gp.kernel.clone(), 0.3);
    ridge.center = false;
    let (fit, ridge) = (gp.fit(&x, &y).unwrap(), ridge.fit(&x, &y).unwrap());
    assert!(gap(fit.model.coef.data(), ridge.model.coef.data()) < 1e-12);
    // With another observation of row 0, its variance v becomes 1/(1/v + 1/noise).
    let twice: Vec<usize> = std::iter::once(0).chain(rows).collect();
    let again = Matrix::column_vector([&y.data()[..1], y.data()].concat());
    let first = x.select_rows(&[0]);
    let v = fit.posterior().variance(&first).unwrap()[(0, 0)];
    let w = gp.fit(&x.select_rows(&twice), &again).unwrap().posterior().variance(&first).unwrap()[(0, 0)];
    assert!((w - 1.0 / (1.0 / v + 1.0 / 0.3)).abs() < 1e-12, "{v} {w}");
    assert!((covariance(fit.posterior(), &first)[0][(0, 0)] - v).abs() < 1e-14);
    // Rows in blocks give the same result as single rows.
    let (full_data, _) = diabetes();
    let (sd, covariance) = (fit.posterior().sd(&full_data).unwrap(), covariance(fit.posterior(), &full_data));
    assert!((0..442).all(|i| (sd[(i, 0)].powi(2) - covariance[0][(i, i)]).abs() < 1e-12));
    // Zero extra noise changes nothing; very large noise removes the row from the fit.
    gp.row_noise = Some((0..70).map(|i| if i == 3 { 1e12 } else { 0.0 }).collect());
    let kept: Vec<usize> = (0..70).filter(|i| *i != 3).collect();
    let silent = gp.fit(&x, &y).unwrap().model.predict(&x).unwrap();
    gp.row_noise = None;
    let left_out = Matrix::column_vector(kept.iter().map(|&i| y.data()[i]).collect());
    let left_out = gp.fit(&x.select_rows(&kept), &left_out).unwrap().model.predict(&x).unwrap();
    assert!(gap(silent.data(), left_out.data()) < 1e-9);
}

#[test]
fn classification_agrees_with_scikit_learn() {
    let oracle = fixture("gp/scikit_learn.json");
    let classes = ["no".to_string(), "yes".to_string()];
    let mut furthest = 0.0_f64;
    for case in oracle["classification"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let (x, test, y) = data(&oracle, case);
        let labels: Vec<usize> = y.data().iter().map(|v| *v as usize).collect();
        let mut gpc = GaussianProcessClassifier::new(kernel(&case["kernel"], x.width()));
        gpc.tune = false;
        let fit = gpc.fit(&x, &labels, &classes).unwrap();
        let theta: Vec<f64> = gpc.kernel.parameters().iter().map(|p| p.log_value).collect();
        let (value, gradient) = gpc.log_marginal_likelihood(&x, &labels, &classes, &theta).unwrap();
        let expected = case["value"].as_f64().unwrap();
        assert!((value - expected).abs() < 1e-9 * expected.abs(), "{name}: evidence {value} {expected}");
        assert!((fit.log_marginal_likelihood - expected).abs() < 1e-9 * expected.abs());
        assert!(gradient_gap(&gradient, &case["gradient"]) < 1e-7, "{name}: {gradient:?}");
        assert!(gap(fit.model.coef.data(), &numbers(&case["coef"])) < 1e-8, "{name}: coefficients");
        assert!(gap(fit.model.predict(&x).unwrap().data(), &numbers(&case["f"])) < 1e-8, "{name}: mode");
        let (mean, variance) = (fit.model.predict(&test).unwrap(), fit.posterior().variance(&test).unwrap());
        assert!(gap(mean.data(), &numbers(&case["mean"])) < 1e-8, "{name}: means");
        assert!(gap(variance.data(), &numbers(&case["variance"])) < 1e-8, "{name}: variances");
        let prediction = Prediction::new(&fit.model, Some(&fit.covariance), &test).unwrap();
        let probability = prediction.probabilities.unwrap().column(1);
        assert!(gap(&probability, &numbers(&case["probability"])) < 1e-9, "{name}: probabilities");
        furthest = furthest.max(gap(&probability, &numbers(&case["scikit_learn_probability"])));
        // The evidence of a period has many maxima, and it is random which one is found.
        if !name.contains("periodic") {
            gpc.tune = true;
            let actual = gpc.fit(&x, &labels, &classes).unwrap().log_marginal_likelihood;
            let expected = case["tuned_value"].as_f64().unwrap();
            assert!((actual - expected).abs() < 1e-3, "{name}: tuned to {actual}, not {expected}");
        }
    }
    // scikit-learn's probabilities are approximations to 5e-4.
    assert!(furthest < 5e-4, "{furthest:e}");
}

/// Three classes are three binary problems with one kernel, as in scikit-learn.
#[test]
fn several_classes_are_one_against_the_rest() {
    let oracle = fixture("gp/scikit_learn.json");
    let case = &oracle["several_classes"];
    let (x, test, y) = data(&oracle, case);
    let labels: Vec<usize> = y.data().iter().map(|v| *v as usize).collect();
    let classes = ["a", "b", "c"].map(String::from);
    let mut gpc = GaussianProcessClassifier::new(kernel(&case["kernel"], x.width()));
    gpc.tune = false;
    let fit = gpc.fit(&x, &labels, &classes).unwrap();
    let expected = case["value"].as_f64().unwrap();
    assert!((fit.log_marginal_likelihood - expected).abs() < 1e-7 * expected.abs());
    let prediction = Prediction::new(&fit.model, Some(&fit.covariance), &test).unwrap();
    let (probability, class) = (prediction.probabilities.unwrap(), prediction.classes.unwrap());
    assert!(gap(probability.data(), matrix(&case["probability"]).data()) < 1e-3);
    let (mean, variance) = (fit.model.predict(&test).unwrap(), fit.posterior().variance(&test).unwrap());
    let theta: Vec<f64> = gpc.kernel.parameters().iter().map(|p| p.log_value).collect();
    let mut slope = vec![0.0; theta.len()];
    for (c, class) in classes.iter().enumerate() {
        let against: Vec<usize> = labels.iter().map(|&l| usize::from(l == c)).collect();
        let two = ["rest".to_string(), class.clone()];
        let binary = gpc.fit(&x, &against, &two).unwrap();
        let (m, v) = (binary.model.predict(&test).unwrap(), binary.posterior().variance(&test).unwrap());
        assert!(gap(&mean.column(c), m.data()) < 1e-12 && gap(&variance.column(c), v.data()) < 1e-12);
        let (_, gradient) = gpc.log_marginal_likelihood(&x, &against, &two, &theta).unwrap();
        slope.iter_mut().zip(gradient).for_each(|(s, g)| *s += g);
    }
    let (_, gradient) = gpc.log_marginal_likelihood(&x, &labels, &classes, &theta).unwrap();
    assert!(gap(&gradient, &slope) < 1e-12);
    for r in 0..test.rows() {
        // The class is the most probable one; without the posterior there is none.
        assert!(probability.row(r).iter().all(|p| *p <= probability[(r, class[r])]));
        assert_eq!(
            (fit.model.predicted_class(mean.row(r)), fit.model.probabilities(mean.row(r))),
            (None, None)
        );
        assert!((probability.row(r).iter().sum::<f64>() - 1.0).abs() < 1e-14);
    }
    // Rows in blocks give the same result as single rows.
    let row_indices: Vec<usize> = (0..300).map(|r| r % 10).collect();
    let repeated = fit.posterior().variance(&test.select_rows(&row_indices)).unwrap();
    assert!(row_indices.iter().enumerate().all(|(r, &i)| (0..3).all(|c| {
        let (actual, expected): (f64, f64) = (repeated[(r, c)], variance[(i, c)]);
        (actual - expected).abs() < 1e-12
    })));
    gpc.tune = true;
    assert!(gpc.fit(&x, &labels, &classes).unwrap().log_marginal_likelihood > fit.log_marginal_likelihood);
}

/// Gradients in every parameter against central differences, including those that scikit-learn lacks.
#[test]
fn gradients_are_differences() {
    let oracle = fixture("gp/scikit_learn.json");
    let classes = ["no".to_string(), "yes".to_string()];
    let differences = |theta: &[f64], f: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        let shifted = |i: usize, h: f64| {
            let mut theta = theta.to_vec();
            theta[i] += h;
            f(&theta)
        };
        // Two step lengths, combined so that the error is of fourth order.
        let slope = |i: usize, h: f64| (shifted(i, h) - shifted(i, -h)) / (2.0 * h);
        (0..theta.len()).map(|i| (4.0 * slope(i, 1e-4) - slope(i, 2e-4)) / 3.0).collect()
    };
    for case in oracle["regression"].as_array().unwrap() {
        let (x, _, y) = data(&oracle, case);
        let mut gp =
            GaussianProcess::new(kernel(&case["kernel"], x.width()), case["noise"].as_f64().unwrap());
        gp.normalize_y = case["normalize_y"] == true;
        gp.row_noise = case["row_noise"].as_array().map(|_| numbers(&case["row_noise"]));
        let theta: Vec<f64> = gp.parameters().iter().map(|p| p.log_value).collect();
        let (_, gradient) = gp.log_marginal_likelihood(&x, &y, &theta).unwrap();
        let expected = differences(&theta, &|theta| gp.log_marginal_likelihood(&x, &y, theta).unwrap().0);
        assert!(gap(&gradient, &expected) < 1e-7, "{}: {gradient:?} {expected:?}", case["name"]);
    }
    for case in oracle["classification"].as_array().unwrap() {
        let (x, _, y) = data(&oracle, case);
        let labels: Vec<usize> = y.data().iter().map(|v| *v as usize).collect();
        let gpc = GaussianProcessClassifier::new(kernel(&case["kernel"], x.width()));
        let theta: Vec<f64> = gpc.kernel.parameters().iter().map(|p| p.log_value).collect();
        let value = |theta: &[f64]| gpc.log_marginal_likelihood(&x, &labels, &classes, theta).unwrap();
        let (expected, gradient) = (differences(&theta, &|theta| value(theta).0), value(&theta).1);
        assert!(gap(&gradient, &expected) < 1e-6, "{}: {gradient:?} {expected:?}", case["name"]);
    }
}

#[test]
fn what_cannot_be_fitted_is_refused_with_a_sentence() {
    let x = Table::from_rows(&[[0.0], [1.0], [2.0]]).unwrap();
    let y = Matrix::column_vector(vec![1.0, 2.0, 4.0]);
    let gp = GaussianProcess::new(Kernel::gaussian(&[1.0]), 0.1);
    let message = |gp: &GaussianProcess, x: &Table, y: &[f64]| {
        gp.fit(x, &Matrix::column_vector(y.to_vec())).unwrap_err().to_string()
    };
    assert!(message(&gp, &x, &[1.0, f64::NAN, 2.0]).starts_with("row 2 of column 'target' is NaN"));
    assert!(message(&gp, &x, &[1.0, 2.0]).contains("the target has 2 numbers, but 3 are expected"));
    assert!(message(&gp, &x, &[5.0; 3]).contains("there is nothing to learn, or set normalize_y to false"));
    assert!(message(&gp, &x.select_rows(&[0]), &[5.0]).contains("at least 2 rows are needed"));
    for noise in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let bad = GaussianProcess { noise, ..gp.clone() };
        assert!(message(&bad, &x, y.data()).contains("noise = "), "{}", message(&bad, &x, y.data()));
    }
    let bad = GaussianProcess { row_noise: Some(vec![0.0, -1.0, 0.0]), ..gp.clone() };
    assert!(message(&bad, &x, y.data()).contains("variances are not negative"));
    let bad = GaussianProcess { row_noise: Some(vec![0.0]), ..gp.clone() };
    assert!(message(&bad, &x, y.data()).contains("row_noise has 1 numbers, but 3 are expected"));
    let several = Matrix::from_row_major(3, 2, vec![1.0, 2.0, 3.0, 5.0, 4.0, 4.0]);
    let bad = GaussianProcess { row_noise: Some(vec![0.0; 3]), ..gp.clone() };
    assert!(bad.fit(&x, &several).unwrap_err().to_string().contains("fit them one by one"));
    let large = Table::from_rows(&[[1e200], [-1e200]]).unwrap();
    let kernel = riesz::kernel::Linear { columns: vec![0], center: vec![0.0], scale: vec![1.0] };
    for tune in [TunedParameters::Nothing, TunedParameters::KernelAndNoise] {
        let bad = GaussianProcess { tune, ..GaussianProcess::new(kernel.clone().into(), 1.0) };
        assert!(message(&bad, &large, &[1.0, 2.0]).contains("the kernel at row 1 overflowed"));
    }
    // Equal rows with almost no noise: the jitter is reported; without a constant diagonal there is an error.
    let equal = Table::from_rows(&[[1.0], [1.0], [1.0]]).unwrap();
    let fit =
        GaussianProcess { noise: 1e-300, tune: TunedParameters::Nothing, ..gp }.fit(&equal, &y).unwrap();
    assert!(fit.jitter > 0.0 && fit.model.model_card.iter().any(|f| f.name == "jitter" && f.value != "0e0"));
}

/// Difficult data are fitted with finite numbers or refused with an error, tuned or not; nothing panics.
#[test]
fn awkward_data_give_numbers_or_errors() {
    let wave = |n: usize| -> Vec<[f64; 3]> {
        (0..n).map(|i| [(i as f64).sin(), (i / 3) as f64, 7.0 * (i as f64 * 0.3).cos()]).collect()
    };
    let scaled = |scale: f64| -> Vec<[f64; 3]> { wave(20).iter().map(|r| r.map(|v| v * scale)).collect() };
    let tables: Vec<Vec<[f64; 3]>> = vec![
        wave(2),
        vec![[1.0, 2.0, 3.0]; 12],
        [wave(10), wave(10)].concat(),
        scaled(1e8),
        scaled(1e-8),
        scaled(1e150),
        scaled(1e-150),
        scaled(0.0),
    ];
    let polynomial = Polynomial {
        columns: vec![0, 1, 2],
        center: vec![0.0; 3],
        scale: vec![1.0; 3],
        gamma: 1.0,
        coef0: 1.0,
        degree: 3,
    };
    let kernels = [
        Kernel::gaussian(&[1.0; 3]),
        Kernel::stationary(Profile::RationalQuadratic { alpha: 1.0 }, &[1.0; 3])
            + Periodic { columns: [1], period: 2.0, length_scale: 1.0 }.into(),
        polynomial.into(),
        Kernel::constant(3.0),
    ];
    let classes = ["no".to_string(), "yes".to_string()];
    let (mut fitted, mut refused) = (0, 0);
    for rows in &tables {
        let x = Table::from_rows(rows).unwrap();
        for kernel in &kernels {
            for (scale, tune) in [(1.0, true), (1e120, true), (1e-120, true), (1.0, false)] {
                let y: Vec<f64> = (0..rows.len()).map(|i| scale * ((i * i) as f64 * 0.7).sin()).collect();
                let mut gp = GaussianProcess::new(kernel.clone(), 1e-3);
                gp.tune = if tune { TunedParameters::KernelAndNoise } else { TunedParameters::Nothing };
                gp.restarts = usize::from(tune);
                match gp.fit(&x, &Matrix::column_vector(y)) {
                    Ok(fit) => {
                        let (mean, sd) = (fit.model.predict(&x).unwrap(), fit.posterior().sd(&x).unwrap());
                        assert!(mean.data().iter().chain(sd.data()).all(|v| v.is_finite()));
                        assert!(fit.log_marginal_likelihood.is_finite());
                        fitted += 1;
                    }
                    Err(error) => {
                        assert!(error.to_string().len() > 20);
                        refused += 1;
                    }
                }
            }
            let labels: Vec<usize> = (0..rows.len()).map(|i| i % 2).collect();
            let mut gpc = GaussianProcessClassifier::new(kernel.clone());
            gpc.restarts = 1;
            match gpc.fit(&x, &labels, &classes) {
                Ok(fit) => {
                    let prediction = Prediction::new(&fit.model, Some(&fit.covariance), &x).unwrap();
                    assert!(prediction.probabilities.unwrap().data().iter().all(|p| (0.0..=1.0).contains(p)));
                    fitted += 1;
                }
                Err(error) => {
                    assert!(error.to_string().len() > 20);
                    refused += 1;
                }
            }
        }
    }
    println!("{fitted} fitted, {refused} refused");
    assert!(fitted > 5 * refused, "{fitted} fitted, {refused} refused");
}

/// Predictions of left-out observations equal those of fits without them, with and without an operator. Fits
/// to normalised targets leave observations out as fits to centered targets do, in the targets' units.
#[test]
fn left_out_observations_are_predicted_by_the_others() {
    let x = Table::from_rows(&(0..9).map(|i| [number(i, 0), number(i, 1)]).collect::<Vec<_>>()).unwrap();
    let y = Matrix::column_vector((0..9).map(|i| 3.0 + number(i, 2)).collect());
    let fixed = |kernel: Kernel, noise: f64| GaussianProcess {
        normalize_y: false,
        tune: TunedParameters::Nothing,
        ..GaussianProcess::new(kernel, noise)
    };
    let process = fixed(1.3 * Kernel::gaussian(&[0.8, 1.1]), 0.2);
    let sums = |kept: &[usize]| {
        let columns = kept.iter().map(|&j| vec![(j, 1.0), ((j + 3) % 9, 0.5 + 0.1 * j as f64)]);
        Sparse::from_columns(9, columns).unwrap()
    };
    let every_row: Vec<usize> = (0..9).collect();
    for with_operator in [false, true] {
        let fit_to = |kept: &[usize]| {
            let operator = with_operator.then(|| sums(kept));
            let rows = if with_operator { x.clone() } else { x.select_rows(kept) };
            GaussianProcess { operator, ..process.clone() }.fit(&rows, &y.select_rows(kept)).unwrap()
        };
        let left_out = fit_to(&every_row).leave_one_out(&y).unwrap().remove(0);
        for i in 0..9 {
            let kept: Vec<usize> = every_row.iter().copied().filter(|j| *j != i).collect();
            let fit = fit_to(&kept);
            let observed =
                if with_operator { sums(&[i]) } else { Sparse::from_columns(9, [[(i, 1.0)]]).unwrap() };
            let posterior = fit.posterior();
            let functional = posterior.weighted_sum_functionals(&x, &observed).unwrap();
            let mean = posterior.mean_of(&functional)[(0, 0)];
            let variance = posterior.covariance(&functional)[0][(0, 0)] + process.noise;
            assert!((left_out.mean[i] - mean).abs() < 1e-10, "{i}: {} {mean}", left_out.mean[i]);
            assert!((left_out.variance[i] - variance).abs() < 1e-10, "{i}: {}", left_out.variance[i]);
            let log_density =
                -0.5 * ((y[(i, 0)] - mean).powi(2) / variance + (std::f64::consts::TAU * variance).ln());
            assert!((left_out.log_density[i] - log_density).abs() < 1e-10);
        }
    }
    let two = Matrix::from_row_major(9, 2, (0..18).map(|k| 10.0 * number(k / 2, 3 + k % 2) - 4.0).collect());
    let fit = GaussianProcess::new(Kernel::gaussian(&[0.8, 1.1]), 0.2).fit(&x, &two).unwrap();
    for (o, left_out) in fit.leave_one_out(&two).unwrap().into_iter().enumerate() {
        let square = fit.covariance.scale[o].powi(2);
        let centered = two.column(o).iter().map(|y| y - fit.model.intercept[o]).collect();
        let centered = Matrix::column_vector(centered);
        let unscaled =
            fixed(square * fit.model.kernel.clone(), square * fit.noise).fit(&x, &centered).unwrap();
        let expected = unscaled.leave_one_out(&centered).unwrap().remove(0);
        for i in 0..9 {
            let mean = expected.mean[i] + fit.model.intercept[o];
            assert!((left_out.mean[i] - mean).abs() < 1e-9 * (1.0 + mean.abs()));
            assert!((left_out.variance[i] / expected.variance[i] - 1.0).abs() < 1e-9);
        }
    }
    assert!(fit.leave_one_out(&y).unwrap_err().to_string().contains("one per target of the fit"));
}

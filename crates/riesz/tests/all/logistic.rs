//! Kernel logistic regression against scikit-learn and scipy (fixtures made by
//! `scripts/oracles/logistic.py`), and against its own optimality conditions.

use proptest::prelude::*;
use riesz::fit::{ClassWeight, KernelLogisticRegression, KlrFit};
use riesz::kernel::{Linear, Profile};
use riesz::{Error, Kernel, KernelExpansion, Link, Table};
use serde_json::Value;

use crate::common::{fixture, kernel, largest_difference, lists, names, numbers, points, with_threads};

#[test]
fn agrees_with_scikit_learn_and_scipy() {
    let oracle = fixture("logistic/scikit_learn.json");
    assert_eq!(oracle["cases"].as_array().unwrap().len(), 10);
    for case in oracle["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let data = &oracle["datasets"][case["dataset"].as_str().unwrap()];
        let x = Table::from_rows(&lists(&data["x"])).unwrap();
        let labels: Vec<usize> = numbers(&data["y"]).iter().map(|l| *l as usize).collect();
        let k = labels.iter().max().unwrap() + 1;
        let kernel = kernel(&case["kernel"], x.width());
        let mut estimator = KernelLogisticRegression::new(kernel, case["ridge"].as_f64().unwrap());
        estimator.class_weight = match &case["class_weight"] {
            Value::Null => ClassWeight::None,
            Value::String(_) => ClassWeight::Balanced,
            map => ClassWeight::PerClass((0..k).map(|c| map[c.to_string()].as_f64().unwrap()).collect()),
        };
        estimator.sample_weight = case["sample_weight"].as_array().map(|_| numbers(&case["sample_weight"]));
        estimator.fit_intercept = case["fit_intercept"].as_bool().unwrap();
        let fit = estimator.fit(&x, &labels, &names(k)).unwrap();
        println!("{name}: {} steps, violation {:e}", fit.iterations, fit.violation);
        let objective = case["objective"].as_f64().unwrap();
        assert!(
            (fit.objective - objective).abs() < 1e-11 * objective,
            "{name}: {} {objective}",
            fit.objective
        );
        let worst = largest_difference(&fit.model.intercept, &numbers(&case["intercept"]));
        assert!(worst < 1e-9, "{name}: intercepts differ by {worst:e}");
        let new = Table::from_rows(&lists(&case["new"])).unwrap();
        for (x, expected) in [(&x, &case["values"]), (&new, &case["values_new"])] {
            let (ours, expected) = (fit.model.predict(x).unwrap(), lists(expected));
            let worst = largest_difference(ours.data(), &expected.concat());
            println!("    values differ by {worst:e}");
            assert!(worst < 1e-9, "{name}: values differ by {worst:e}");
        }
    }
}

/// Returns the largest violation of `ridge · α = w ([row is of the class] - p)` and of `Σ α = 0`, with p from
/// the model's own predictions and probabilities, relative to the largest `ridge · |α|`.
fn violation(fit: &KlrFit, x: &Table, labels: &[usize], weight: &[f64], ridge: f64, intercept: bool) -> f64 {
    let model = &fit.model;
    let outputs = model.predict(x).unwrap();
    let (mut worst, mut scale): (f64, f64) = (0.0, 0.0);
    for (r, &label) in labels.iter().enumerate() {
        let p = model.probabilities(outputs.row(r)).unwrap();
        for o in 0..model.outputs() {
            let class = if model.outputs() == 1 { 1 } else { o };
            let right = weight[r] * (f64::from(u8::from(label == class)) - p[class]);
            worst = worst.max((ridge * model.coef[(r, o)] - right).abs());
            scale = scale.max(right.abs());
        }
    }
    for o in 0..model.outputs() {
        let sum: f64 = (0..labels.len()).map(|r| model.coef[(r, o)]).sum();
        worst = worst.max(if intercept { ridge * sum.abs() / labels.len() as f64 } else { 0.0 });
    }
    worst / scale
}

/// Computes the objective from predictions, probabilities and `αᵀKα`.
fn objective(model: &KernelExpansion, x: &Table, labels: &[usize], weight: &[f64], ridge: f64) -> f64 {
    let outputs = model.predict(x).unwrap();
    let loss = |r: usize| -weight[r] * model.probabilities(outputs.row(r)).unwrap()[labels[r]].ln();
    let smooth = model.kernel.gram(x).matmul(&model.coef);
    let norm: f64 = smooth.data().iter().zip(model.coef.data()).map(|(f, a)| f * a).sum();
    (0..labels.len()).map(loss).sum::<f64>() + ridge / 2.0 * norm
}

fn some_kernel(which: usize) -> Kernel {
    let linear: Kernel = Linear { columns: vec![0, 1], center: vec![0.1, 0.0], scale: vec![1.0, 2.0] }.into();
    match which {
        0 => Kernel::gaussian(&[0.8, 1.1]),
        1 => linear,
        _ => Kernel::stationary(Profile::Exponential, &[1.0, 0.5]) + 0.3 * linear,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The necessary and sufficient optimality condition, over 9 decades of ridges, with duplicate rows and
    /// any labels.
    #[test]
    fn the_optimality_condition_holds(
        rows in points(40),
        seed in any::<u64>(),
        which in 0..3_usize,
        k in 2..5_usize,
        log_ridge in -6.0..3.0_f64,
        intercept in any::<bool>(),
    ) {
        let n = rows.len();
        let x = Table::from_rows(&rows).unwrap();
        let labels: Vec<usize> =
            (0..n).map(|r| if r < k { r } else { (seed >> (r % 60)) as usize % k }).collect();
        let weight: Vec<f64> = (0..n).map(|r| f64::from((r % 4) as u32 + 1) / 2.0).collect();
        let mut estimator = KernelLogisticRegression::new(some_kernel(which), 10_f64.powf(log_ridge));
        estimator.sample_weight = Some(weight.clone());
        estimator.fit_intercept = intercept;
        let fit = estimator.fit(&x, &labels, &names(k)).unwrap();
        let measured = violation(&fit, &x, &labels, &weight, estimator.ridge, intercept);
        prop_assert!(measured < 2e-8, "violation {measured:e}, reported {:e}", fit.violation);
        if log_ridge > -2.0 {
            prop_assert!(measured < 1e-10, "violation {measured:e}, reported {:e}", fit.violation);
        }
        prop_assert!(fit.iterations <= 40, "{} steps", fit.iterations);
    }
}

/// Central differences of the objective, computed from predictions, vanish in every coefficient and
/// intercept. Away from the optimum they are `-K (w(y - p) - ridge α)`.
#[test]
fn finite_differences_of_the_objective_vanish() {
    let rows: Vec<[f64; 2]> = (0..14).map(|i| [(i as f64).sin(), (i as f64 * 0.7).cos()]).collect();
    let x = Table::from_rows(&rows).unwrap();
    for k in [2, 3] {
        let labels: Vec<usize> = (0..14).map(|i| (i * i + i / 3) % k).collect();
        let weight: Vec<f64> = (0..14).map(|i| 0.5 + 0.1 * i as f64).collect();
        let mut estimator = KernelLogisticRegression::new(Kernel::gaussian(&[0.6, 0.9]), 0.3);
        estimator.sample_weight = Some(weight.clone());
        let fit = estimator.fit(&x, &labels, &names(k)).unwrap();
        let at_optimum = objective(&fit.model, &x, &labels, &weight, 0.3);
        assert!((at_optimum - fit.objective).abs() < 1e-12 * at_optimum);
        let h = 1e-5;
        for o in 0..fit.model.outputs() {
            for place in 0..=14 {
                let moved = |step: f64| {
                    let mut model = fit.model.clone();
                    if place < 14 {
                        model.coef[(place, o)] += step
                    } else {
                        model.intercept[o] += step
                    }
                    objective(&model, &x, &labels, &weight, 0.3)
                };
                let (up, down) = (moved(h), moved(-h));
                assert!(((up - down) / (2.0 * h)).abs() < 1e-8, "output {o}, place {place}: {}", up - down);
                assert!(up > at_optimum && down > at_optimum, "output {o}, place {place}: no minimum");
            }
        }
    }
}

/// Classes are far apart, and the ridge is so small that probabilities are within 1e-9 of the labels.
#[test]
fn separable_classes_converge() {
    for k in [2, 3, 5] {
        let rows: Vec<[f64; 2]> = (0..60)
            .map(|i| [(i % k) as f64 * 3.0 + (i as f64).sin() * 0.3, (i as f64).cos() * 0.3])
            .collect();
        let x = Table::from_rows(&rows).unwrap();
        let labels: Vec<usize> = (0..60).map(|i| i % k).collect();
        for (kernel, min_ridge) in [(Kernel::gaussian(&[1.0, 1.0]), 1e-10), (some_kernel(1), 1e-8)] {
            for ridge in [1.0, 1e-4, min_ridge] {
                let estimator = KernelLogisticRegression::new(kernel.clone(), ridge);
                let fit = estimator.fit(&x, &labels, &names(k)).unwrap();
                println!("{k} classes, ridge {ridge:e}: {} steps, {:e}", fit.iterations, fit.violation);
                assert!(fit.iterations < 60, "{} steps", fit.iterations);
                let outputs = fit.model.predict(&x).unwrap();
                for (r, &label) in labels.iter().enumerate() {
                    assert_eq!(fit.model.predicted_class(outputs.row(r)), Some(label));
                    if ridge == 1e-10 {
                        let p = fit.model.probabilities(outputs.row(r)).unwrap();
                        assert!(p[label] > 1.0 - 1e-7, "{}", p[label]);
                    }
                }
            }
        }
    }
}

/// Few rows with very different weights and an outlier: Newton's method without damping diverges on some of
/// these.
#[test]
fn damped_newton_converges_on_extreme_data() {
    for seed in 0..400_usize {
        let noise = |r: usize, j: usize| {
            let hash = (seed * 31_337 + r * 7919 + j * 104_729) as f64;
            (hash * 0.618_033_988_749_895).fract() * 4.0 - 2.0
        };
        let (n, k) = (4 + seed % 7, 2 + seed % 2);
        let far = 10_f64.powi((seed % 4) as i32);
        let rows: Vec<[f64; 1]> = (0..n).map(|r| [noise(r, 1) * if r == 0 { far } else { 1.0 }]).collect();
        let labels: Vec<usize> =
            (0..n).map(|r| if r < k { r } else { usize::from(noise(r, 3) > 0.0) }).collect();
        let kernel = match seed % 3 {
            0 => Linear { columns: vec![0], center: vec![0.0], scale: vec![1.0] }.into(),
            _ => Kernel::gaussian(&[2.0]),
        };
        let mut estimator = KernelLogisticRegression::new(kernel, 10_f64.powi(-((seed / 7 % 5) as i32)));
        estimator.sample_weight = Some((0..n).map(|r| 10_f64.powf(noise(r, 5))).collect());
        let fit = estimator.fit(&Table::from_rows(&rows).unwrap(), &labels, &names(k));
        assert!(fit.is_ok(), "seed {seed}: {}", fit.unwrap_err());
    }
}

fn wave(n: usize) -> (Table, Vec<usize>) {
    let noise =
        |r: usize, j: usize| ((r * 7919 + j * 104_729) as f64 * 0.618_033_988_749_895).fract() * 4.0 - 2.0;
    let rows: Vec<[f64; 3]> = (0..n).map(|r| [noise(r, 1), noise(r, 2), noise(r, 3)]).collect();
    let truth = |p: &[f64; 3]| (2.0 * p[0]).sin() + p[1] * p[2];
    let labels = (0..n).map(|r| match truth(&rows[r]) + 0.5 * noise(r, 9) {
        v if v < -0.6 => 2,
        v if v < 0.6 => 0,
        _ => 1,
    });
    (Table::from_rows(&rows).unwrap(), labels.collect())
}

#[test]
fn integer_weights_are_repeated_rows_and_zero_leaves_out() {
    let (x, labels) = wave(60);
    for k in [2, 3] {
        let labels: Vec<usize> = labels.iter().map(|l| l % k).collect();
        let mut estimator = KernelLogisticRegression::new(Kernel::gaussian(&[1.0, 1.5, 0.8]), 0.05);
        let times = |r: usize| [1_usize, 2, 0, 3][r % 4];
        let repeated: Vec<usize> = (0..60).flat_map(|r| std::iter::repeat_n(r, times(r))).collect();
        let again: Vec<usize> = repeated.iter().map(|&r| labels[r]).collect();
        let plain = estimator.fit(&x.select_rows(&repeated), &again, &names(k)).unwrap();
        estimator.sample_weight = Some((0..60).map(|r| times(r) as f64).collect());
        let weighted = estimator.fit(&x, &labels, &names(k)).unwrap();
        assert_eq!(weighted.model.support_points.rows(), 45);
        assert!((plain.objective - weighted.objective).abs() < 1e-11 * plain.objective);
        let (a, b) = (plain.model.predict(&x).unwrap(), weighted.model.predict(&x).unwrap());
        assert!(largest_difference(a.data(), b.data()) < 1e-9);
    }
}

#[test]
fn permuting_labels_permutes_outputs() {
    let (x, labels) = wave(50);
    let estimator = KernelLogisticRegression::new(Kernel::gaussian(&[1.0, 1.5, 0.8]), 0.05);
    let classes: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
    let model = estimator.fit(&x, &labels, &classes).unwrap().model;
    let rotated: Vec<usize> = labels.iter().map(|l| (l + 1) % 3).collect();
    let other = estimator.fit(&x, &rotated, &["c", "a", "b"].map(String::from)).unwrap().model;
    assert_eq!((model.link, &model.output_names), (Link::Softmax, &classes));
    let (a, b) = (model.predict(&x).unwrap(), other.predict(&x).unwrap());
    for r in 0..50 {
        assert!((0..3).all(|o| (a[(r, o)] - b[(r, (o + 1) % 3)]).abs() < 1e-10));
        assert!(a.row(r).iter().sum::<f64>().abs() < 1e-12);
    }
    let two: Vec<usize> = labels.iter().map(|l| l % 2).collect();
    let flipped: Vec<usize> = two.iter().map(|l| 1 - l).collect();
    let model = estimator.fit(&x, &two, &["no".into(), "yes".into()]).unwrap().model;
    let other = estimator.fit(&x, &flipped, &["yes".into(), "no".into()]).unwrap().model;
    assert_eq!((model.link, model.output_names[0].as_str()), (Link::Logistic, "yes vs no"));
    assert_eq!(other.output_names, ["no vs yes"]);
    let (a, b) = (model.predict(&x).unwrap(), other.predict(&x).unwrap());
    assert!(a.data().iter().zip(b.data()).all(|(a, b)| (a + b).abs() < 1e-10));
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let (x, labels) = wave(300);
    for k in [2, 3] {
        let labels: Vec<usize> = labels.iter().map(|l| l % k).collect();
        let estimator = KernelLogisticRegression::new(Kernel::gaussian(&[1.0, 1.5, 0.8]), 0.01);
        let fit = || estimator.fit(&x, &labels, &names(k)).unwrap().model;
        assert_eq!(with_threads(1, fit), with_threads(3, fit));
    }
}

#[test]
fn scaling_weights_and_ridge_together_changes_nothing() {
    let (x, labels) = wave(50);
    for k in [2, 3] {
        let labels: Vec<usize> = labels.iter().map(|l| l % k).collect();
        let mut estimator = KernelLogisticRegression::new(Kernel::gaussian(&[1.0, 1.5, 0.8]), 0.05);
        let unscaled = estimator.fit(&x, &labels, &names(k)).unwrap();
        for scale in [1e-200, 1e-3, 1e200] {
            estimator.ridge = 0.05 * scale;
            estimator.sample_weight = Some(vec![scale; 50]);
            let other = estimator.fit(&x, &labels, &names(k)).unwrap();
            let worst = largest_difference(unscaled.model.coef.data(), other.model.coef.data());
            assert!(worst < 1e-9, "scale {scale:e}: {worst:e}");
        }
    }
}

#[test]
fn bad_input_is_refused_with_a_sentence() {
    let x = Table::from_rows(&[[0.0], [1.0], [2.0]]).unwrap();
    let ab = ["a".to_string(), "b".to_string()];
    let estimator = |ridge: f64| KernelLogisticRegression::new(Kernel::gaussian(&[1.0]), ridge);
    let say = |e: &KernelLogisticRegression, labels: &[usize], classes: &[String]| {
        e.fit(&x, labels, classes).unwrap_err().to_string()
    };
    assert_eq!(say(&estimator(0.0), &[0, 1, 1], &ab), "ridge = 0 is not allowed: it is a positive number");
    assert!(matches!(estimator(f64::NAN).fit(&x, &[0, 1, 1], &ab), Err(Error::Parameter { .. })));
    assert_eq!(
        say(&estimator(1.0), &[1, 1, 1], &ab),
        "the target 'labels' is 'b' in every row: a classifier needs rows of at least two classes"
    );
    assert!(say(&estimator(1.0), &[0, 1, 1], &names(3)).contains("for the class '2'"));
    assert!(say(&estimator(1.0), &[0, 1, 2], &ab).contains("there are 2 classes"));
    assert!(matches!(estimator(1.0).fit(&x, &[0, 1], &ab), Err(Error::Shape { .. })));
    assert!(matches!(estimator(1.0).fit(&x.select_rows(&[0]), &[0], &ab), Err(Error::TooFew { .. })));
    let duplicates = ["a".to_string(), "a".to_string()];
    assert!(matches!(estimator(1.0).fit(&x, &[0, 1, 1], &duplicates), Err(Error::DuplicateName { .. })));
    let mut weighted = estimator(1.0);
    weighted.sample_weight = Some(vec![1.0, f64::NAN, 1.0]);
    assert!(matches!(weighted.fit(&x, &[0, 1, 1], &ab), Err(Error::Parameter { .. })));
    weighted.sample_weight = Some(vec![0.0, 1.0, 1.0]);
    assert!(say(&weighted, &[0, 1, 1], &ab).contains("for the class 'a'"));
    let mut hasty = estimator(1e-3);
    hasty.max_iterations = 2;
    assert_eq!(
        say(&hasty, &[0, 1, 1], &ab).split(" (").next(),
        Some("Newton's method for logistic regression did not converge in 2 iterations")
    );
    let far = Table::from_rows(&[[1e200], [-1e200]]).unwrap();
    let linear: Kernel = Linear { columns: vec![0], center: vec![0.0], scale: vec![1.0] }.into();
    let error = KernelLogisticRegression::new(linear, 1.0).fit(&far, &[0, 1], &ab).unwrap_err();
    assert!(matches!(error, Error::Overflow { .. }), "{error}");
}

#[test]
fn unfinished_fits_are_errors_or_kept() {
    let rows: Vec<[f64; 2]> = (0..40).map(|i| [(i as f64 * 0.7).sin(), (i as f64 * 0.3).cos()]).collect();
    let labels: Vec<usize> = rows.iter().map(|r| usize::from(r[0] + r[1] > 0.0)).collect();
    let x = Table::from_rows(&rows).unwrap();
    let mut estimator = KernelLogisticRegression::new(Kernel::gaussian(&[1.0, 1.0]), 1e-3);
    estimator.max_iterations = 2;
    assert!(matches!(estimator.fit(&x, &labels, &names(2)), Err(Error::NotConverged { iterations: 2, .. })));
    estimator.keep_unfinished = true;
    let early = estimator.fit(&x, &labels, &names(2)).unwrap();
    assert!(!early.converged && early.iterations == 2 && early.violation > 1e-6);
    // Its solution can start a later fit.
    estimator.max_iterations = 100;
    let cold = estimator.fit(&x, &labels, &names(2)).unwrap();
    estimator.start = Some(early.end);
    let warm = estimator.fit(&x, &labels, &names(2)).unwrap();
    assert!(cold.converged && warm.converged && warm.iterations + 2 == cold.iterations);
    assert!(cold.objective < early.objective && (warm.objective - cold.objective).abs() < 1e-10);
}

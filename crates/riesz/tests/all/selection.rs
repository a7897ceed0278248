//! Selection of settings, against scikit-learn's GridSearchCV and cross_val_score on the same folds (fixtures
//! made by `scripts/oracles/logistic.py`) and against refits.

use riesz::fit::cross_validation::{
    ClassScore, CrossValidation, DEFAULT_MULTIPLIERS, GridAxis, cross_validate, cross_validate_classes,
    default_ridges, folds, select_ridge, stratified_folds,
};
use riesz::fit::{KernelLogisticRegression, KernelRidge, SupportVectorClassifier};
use riesz::kernel::{Linear, Profile, Stationary};
use riesz::{Error, Kernel, Matrix, Result, Table};
use serde_json::Value;

use crate::common::{fixture, lists, names, numbers, with_threads};

fn indices(value: &Value) -> Vec<usize> {
    numbers(value).iter().map(|v| *v as usize).collect()
}

fn rbf(length_scale: f64, width: usize) -> Kernel {
    let columns = (0..width).collect();
    let length_scale = vec![length_scale; width];
    Stationary { profile: Profile::Gaussian, columns, length_scale, ard: false, isotropic: true }.into()
}

fn linear(width: usize) -> Kernel {
    Linear { columns: (0..width).collect(), center: vec![0.0; width], scale: vec![1.0; width] }.into()
}

fn close(ours: &[f64], theirs: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(theirs) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1e-3), "{a}, not {b}");
    }
}

#[test]
fn leave_one_out_agrees_with_scikit_learn() {
    let reference = fixture("logistic/selection.json");
    let x = Table::from_rows(&lists(&reference["x"])).unwrap();
    let y = Matrix::column_vector(numbers(&reference["y"]));
    let (ridges, multipliers) = (numbers(&reference["ridges"]), numbers(&reference["multipliers"]));
    let mut estimator = KernelRidge::new(rbf(reference["lengthscale"].as_f64().unwrap(), 3), 1.0);
    estimator.center = false;
    let selection = select_ridge(&estimator, &x, &y, &ridges, &multipliers).unwrap();
    let expected: Vec<f64> = lists(&reference["loo"]).concat();
    close(selection.errors.data(), &expected, 1e-9);
    let argmin = (0..12).min_by(|a, b| expected[*a].total_cmp(&expected[*b])).unwrap();
    assert_eq!(selection.chosen, (argmin / 4, argmin % 4));
    assert_eq!(selection.best.ridge, ridges[argmin % 4]);
    assert!(!selection.best.center);
    // The best estimator has, when fitted, the error in the table.
    let fit = selection.best.fit(&x, &y).unwrap();
    close(&[fit.loo_error()], &[expected[argmin]], 1e-9);
}

#[test]
fn cross_validation_of_ridge_agrees_with_scikit_learn() {
    let reference = fixture("logistic/selection.json");
    let x = Table::from_rows(&lists(&reference["x"])).unwrap();
    let y = Matrix::column_vector(numbers(&reference["y"]));
    let axes = [
        GridAxis::new("multiplier", &numbers(&reference["multipliers"])),
        GridAxis::new("ridge", &numbers(&reference["ridges"])),
    ];
    let grid = GridAxis::grid(&axes);
    let kernel = rbf(reference["lengthscale"].as_f64().unwrap(), 3);
    let validation = cross_validate(&grid, &x, &y, &indices(&reference["fold"]), |point, x, y, _| {
        let mut ridge = KernelRidge::new(kernel.with_length_scales_times(point[0]).unwrap(), point[1]);
        ridge.center = false;
        Ok(ridge.fit(x, y)?.model)
    })
    .unwrap();
    let expected: Vec<Vec<f64>> =
        reference["ridge_folds"].as_array().unwrap().iter().flat_map(lists).collect();
    check(&validation, &expected, 1e-9, false);
}

/// Checks scores by fold, means, standard errors and both choices against the reference's scores.
fn check(actual: &CrossValidation, expected: &[Vec<f64>], tolerance: f64, larger_is_better: bool) {
    assert_eq!(actual.scores.len(), expected.len());
    let (mut means, mut errors) = (Vec::new(), Vec::new());
    for (ours, theirs) in actual.scores.iter().zip(expected) {
        close(&ours.folds, theirs, tolerance);
        let k = theirs.len() as f64;
        let mean = theirs.iter().sum::<f64>() / k;
        let error = (theirs.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (k - 1.0) / k).sqrt();
        close(&[ours.mean, ours.std_error], &[mean, error], 10.0 * tolerance);
        means.push(if larger_is_better { -mean } else { mean });
        errors.push(error);
    }
    let lowest = means.iter().copied().fold(f64::INFINITY, f64::min);
    let best = means.iter().position(|m| *m == lowest).unwrap();
    assert_eq!(actual.best, best);
    let first_within = means.iter().position(|m| *m <= lowest + errors[best]).unwrap();
    assert_eq!(actual.first_within_error, first_within);
}

#[test]
fn cross_validation_of_classifiers_agrees_with_scikit_learn() {
    let reference = fixture("logistic/selection.json");
    let x = Table::from_rows(&lists(&reference["iris"])).unwrap();
    let (labels, fold, classes) = (indices(&reference["labels"]), indices(&reference["fold"]), names(3));
    let ridges = numbers(&reference["ridges"]);
    let log_loss = |ridges: &[f64]| {
        let fit = |r: &f64, x: &Table, labels: &[usize], _: &[usize]| {
            Ok(KernelLogisticRegression::new(linear(4), *r).fit(x, labels, &classes)?.model)
        };
        cross_validate_classes(ridges, &x, &labels, &classes, &fold, ClassScore::LogLoss, fit).unwrap()
    };
    let expected = lists(&reference["logistic_log_loss"]);
    check(&log_loss(&ridges), &expected, 1e-7, false);
    // In the reversed order, a candidate that is not clearly worse comes before the best.
    let reversed = log_loss(&ridges.iter().rev().copied().collect::<Vec<_>>());
    check(&reversed, &expected.into_iter().rev().collect::<Vec<_>>(), 1e-7, false);
    assert_eq!((reversed.first_within_error, reversed.best), (0, 1));

    let kernel = rbf(reference["lengthscale"].as_f64().unwrap(), 4);
    let axes = [
        GridAxis::new("multiplier", &numbers(&reference["multipliers"])),
        GridAxis::new("c", &numbers(&reference["costs"])),
    ];
    let svc = |point: &Vec<f64>, x: &Table, labels: &[usize]| -> Result<riesz::KernelExpansion> {
        let kernel = kernel.with_length_scales_times(point[0]).unwrap();
        let mut svc = SupportVectorClassifier::new(kernel, point[1]);
        svc.tolerance = 1e-7;
        Ok(svc.fit(x, labels, &classes)?.model)
    };
    let grid = GridAxis::grid(&axes);
    let score =
        |score| cross_validate_classes(&grid, &x, &labels, &classes, &fold, score, |p, x, l, _| svc(p, x, l));
    let expected: Vec<Vec<f64>> =
        reference["svc_accuracy"].as_array().unwrap().iter().flat_map(lists).collect();
    check(&score(ClassScore::Accuracy).unwrap(), &expected, 1e-12, true);
    // Votes are not probabilities.
    assert!(matches!(score(ClassScore::LogLoss), Err(Error::Parameter { .. })));
}

#[test]
fn cross_validation_is_refitting_for_any_number_of_threads() {
    let reference = fixture("logistic/selection.json");
    let x = Table::from_rows(&lists(&reference["iris"])).unwrap();
    let (classes, labels) =
        (names(2), indices(&reference["labels"]).iter().map(|l| l % 2).collect::<Vec<_>>());
    let fold = stratified_folds(&labels, &classes, 7, 3).unwrap();
    let ridges = [1.0, 0.1];
    // Weights are selected with their rows.
    let weight: Vec<f64> = (0..50).map(|r| 1.0 + (r % 3) as f64).collect();
    let fit = |ridge: &f64, x: &Table, labels: &[usize], rows: &[usize]| {
        let mut estimator = KernelLogisticRegression::new(Kernel::gaussian(&[1.0; 4]), *ridge);
        estimator.sample_weight = Some(rows.iter().map(|&r| weight[r]).collect());
        Ok(estimator.fit(x, labels, &classes)?.model)
    };
    let score =
        || cross_validate_classes(&ridges, &x, &labels, &classes, &fold, ClassScore::LogLoss, fit).unwrap();
    let validation = score();
    for (c, ridge) in ridges.iter().enumerate() {
        for k in 0..7 {
            let rows: Vec<usize> = (0..50).filter(|&r| fold[r] != k).collect();
            let held_out: Vec<usize> = (0..50).filter(|&r| fold[r] == k).collect();
            let train: Vec<usize> = rows.iter().map(|&r| labels[r]).collect();
            let model = fit(ridge, &x.select_rows(&rows), &train, &rows).unwrap();
            let outputs = model.predict(&x.select_rows(&held_out)).unwrap();
            let loss: f64 = held_out
                .iter()
                .enumerate()
                .map(|(i, &r)| -model.probabilities(outputs.row(i)).unwrap()[labels[r]].ln())
                .sum();
            close(&[validation.scores[c].folds[k]], &[loss / held_out.len() as f64], 1e-12);
        }
    }
    for threads in [1, 2, 3] {
        assert_eq!(with_threads(threads, score), validation);
    }
}

#[test]
fn folds_are_balanced_seeded_and_stratified() {
    for (n, k) in [(10, 3), (7, 7), (101, 5)] {
        let fold = folds(n, k, 1).unwrap();
        assert_eq!(fold, folds(n, k, 1).unwrap());
        let count = |c: usize| fold.iter().filter(|f| **f == c).count();
        assert!((0..k).all(|c| count(c) == n / k || count(c) == n / k + 1));
    }
    assert_ne!(folds(101, 5, 1).unwrap(), folds(101, 5, 2).unwrap());
    let labels: Vec<usize> = (0..103)
        .map(|r| {
            if r < 50 {
                0
            } else if r < 96 {
                1
            } else {
                2
            }
        })
        .collect();
    let fold = stratified_folds(&labels, &names(3), 5, 9).unwrap();
    assert_eq!(fold, stratified_folds(&labels, &names(3), 5, 9).unwrap());
    assert_ne!(fold, stratified_folds(&labels, &names(3), 5, 10).unwrap());
    for f in 0..5 {
        let class_count = |c: usize| (0..103).filter(|&r| fold[r] == f && labels[r] == c).count();
        assert_eq!(class_count(0), 10);
        assert!((9..=10).contains(&class_count(1)) && (1..=2).contains(&class_count(2)));
        assert!((20..=21).contains(&(class_count(0) + class_count(1) + class_count(2))));
    }
    // Every row has the same probability in every fold: over seeds, row 0 is in all folds about equally
    // often.
    let mut visits = [0; 5];
    (0..1000).for_each(|seed| visits[folds(20, 5, seed).unwrap()[0]] += 1);
    assert!(visits.iter().all(|v| (140..260).contains(v)), "{visits:?}");
}

#[test]
fn ties_go_to_the_smoother_model_and_ends_are_reported() {
    let x = Table::from_rows(&[[0.0], [1.0], [2.0], [3.0]]).unwrap();
    let estimator = KernelRidge::new(Kernel::gaussian(&[1.0]), 1.0);
    // All candidates fit a constant target exactly.
    let flat = Matrix::column_vector(vec![3.0; 4]);
    let selection = select_ridge(&estimator, &x, &flat, &[0.1, 10.0, 1.0], &[0.5, 2.0, 1.0]).unwrap();
    assert_eq!(selection.chosen, (1, 1));
    assert_eq!(
        selection.at_grid_edge,
        [
            "the best length-scale multiplier, 2, is the largest value tried",
            "the best ridge, 10, is the largest value tried"
        ]
    );
    let Some(Kernel { terms }) = selection.best.kernel.with_length_scales_times(1.0) else { panic!() };
    assert!((terms[0].factors[0].parameters()[0].log_value - 2.0_f64.ln()).abs() < 1e-15);
    // A kernel without length scales has one row in the table, and is at no edge of the grid.
    let selection =
        select_ridge(&KernelRidge::new(linear(1), 1.0), &x, &flat, &[1.0], &DEFAULT_MULTIPLIERS).unwrap();
    assert_eq!((selection.errors.rows(), selection.at_grid_edge.len()), (1, 0));
    assert!(default_ridges().windows(2).all(|pair| pair[0] > pair[1]));
    let y = Matrix::column_vector(vec![0.0, 1.0, 0.0, 1.0]);
    let fit = |ridge: &f64, x: &Table, y: &Matrix, _: &[usize]| {
        Ok(KernelRidge::new(Kernel::gaussian(&[1.0]), *ridge).fit(x, y)?.model)
    };
    // A candidate that fails is kept with its reason, and ties go to the first candidate.
    let validation = cross_validate(&[-1.0, 1.0, 1.0], &x, &y, &[0, 0, 1, 1], fit).unwrap();
    assert!(
        matches!(validation.scores[0].failure, Some(Error::Parameter { .. }))
            && validation.scores[0].mean.is_nan()
    );
    assert_eq!((validation.best, validation.first_within_error), (1, 1));
    assert!(matches!(cross_validate(&[-1.0], &x, &y, &[0, 0, 1, 1], fit), Err(Error::Parameter { .. })));
    let axes =
        [GridAxis::new("a", &[1.0, 2.0, 3.0]), GridAxis::new("b", &[5.0]), GridAxis::new("c", &[8.0, 7.0])];
    assert_eq!(GridAxis::grid(&axes).len(), 6);
    assert_eq!(GridAxis::grid(&axes)[3], [2.0, 5.0, 7.0]);
    assert_eq!(GridAxis::at_grid_edge(&axes, 3), ["the best c, 7, is the smallest value tried"]);
}

#[test]
fn bad_input_is_refused_with_a_sentence() {
    let x = Table::from_rows(&[[0.0], [1.0], [2.0], [3.0]]).unwrap();
    let say = |e: Error| e.to_string();
    assert_eq!(
        say(folds(4, 5, 0).unwrap_err()),
        "number of folds = 5 is not allowed: it must be between 2 and the number of rows, 4"
    );
    assert!(folds(4, 1, 0).is_err() && folds(1, 2, 0).is_err() && folds(0, 0, 0).is_err());
    assert!(say(stratified_folds(&[0, 1, 1, 1], &names(2), 2, 0).unwrap_err()).contains("class '0' in fold"));
    assert!(matches!(stratified_folds(&[1, 1, 1], &names(2), 2, 0), Err(Error::Target { .. })));
    let classify = |labels: &[usize], classes: &[String], folds: &[usize]| {
        let fit = |r: &f64, x: &Table, l: &[usize], _: &[usize]| {
            Ok(KernelLogisticRegression::new(Kernel::gaussian(&[1.0]), *r).fit(x, l, classes)?.model)
        };
        cross_validate_classes(&[1.0], &x, labels, classes, folds, ClassScore::LogLoss, fit).map_err(say)
    };
    assert!(classify(&[0, 1, 0, 1], &names(2), &[0, 0, 1, 1]).is_ok());
    assert!(classify(&[0, 0, 1, 1], &names(2), &[0, 0, 1, 1]).unwrap_err().contains("is trained without it"));
    assert!(classify(&[0, 1, 0, 1], &names(3), &[0, 0, 1, 1]).unwrap_err().contains("for the class '2'"));
    assert!(classify(&[0, 1, 0, 1], &names(2), &[0, 0, 1]).unwrap_err().contains("list of folds"));
    assert!(classify(&[0, 1, 0, 1], &names(2), &[0, 0, 2, 2]).unwrap_err().contains("no row in fold 1"));
    assert!(classify(&[0, 1, 0, 1], &names(2), &[0, 0, usize::MAX, 0]).is_err());
    let fit = |r: &f64, x: &Table, y: &Matrix, _: &[usize]| {
        Ok(KernelRidge::new(Kernel::gaussian(&[1.0]), *r).fit(x, y)?.model)
    };
    let y = Matrix::column_vector(vec![0.0, f64::NAN, 0.0, 1.0]);
    let error = cross_validate(&[1.0], &x, &y, &[0, 0, 1, 1], fit).unwrap_err();
    assert!(matches!(error, Error::NotFinite { row: 1, .. }));
    let fine = Matrix::column_vector(vec![0.0, 2.0, 0.0, 1.0]);
    assert!(matches!(cross_validate(&[], &x, &fine, &[0, 0, 1, 1], fit), Err(Error::TooFew { .. })));
    let single_row = x.select_rows(&[0]);
    let single = Matrix::column_vector(vec![1.0]);
    assert!(matches!(cross_validate(&[1.0], &single_row, &single, &[0], fit), Err(Error::TooFew { .. })));
    let estimator = KernelRidge::new(Kernel::gaussian(&[1.0]), 1.0);
    assert!(matches!(select_ridge(&estimator, &x, &y, &[1.0], &[1.0]), Err(Error::NotFinite { .. })));
    assert!(matches!(select_ridge(&estimator, &x, &fine, &[], &[1.0]), Err(Error::TooFew { .. })));
    assert!(matches!(select_ridge(&estimator, &x, &fine, &[1.0, 0.0], &[1.0]), Err(Error::Parameter { .. })));
    assert!(matches!(select_ridge(&estimator, &x, &fine, &[1.0], &[-1.0]), Err(Error::Parameter { .. })));
}

//! Contrasts and slopes of effects, against sums over a joint posterior written by hand.

use std::sync::atomic::AtomicBool;

use riesz::causal::{
    Domain, Effect, EffectEstimate, Estimand, IdentificationRoute, OutcomeGpParameters, Parameters, Studies,
    Study, StudyParameters, TargetPopulation, UncertaintyCause,
};
use riesz::{Column, ColumnKind, Error, Kernel, Matrix, Table};

use crate::common::Stream;

fn table(names: &[&str], columns: &[Vec<f64>]) -> Table {
    let headers = names.iter().map(|name| Column::numeric(*name)).collect();
    Table::from_column_major(headers, columns[0].len(), columns.concat()).unwrap()
}

/// Returns the effect of two treatments through the mediator y, with one covariate.
fn effect() -> Effect {
    let mut s = Stream(11);
    let [a, b, z]: [Vec<f64>; 3] = std::array::from_fn(|_| (0..30).map(|_| 2.0 * s.signed()).collect());
    let y = (0..30).map(|i| a[i] - 0.5 * b[i] + 0.3 * z[i] + 0.1 * s.normal()).collect();
    let points: Vec<f64> = (0..25).map(|i| -3.0 + 0.25 * f64::from(i)).collect();
    let outcome = points.iter().map(|y| y.sin()).collect();
    let study = Study {
        treatments: table(&["a", "b"], &[a, b]),
        route: IdentificationRoute::BackDoor(table(&["z"], &[z])),
        mediators: table(&["y"], &[y]),
        shared: None,
    };
    let studies = Studies { studies: vec![study], points: table(&["y"], &[points]), outcome };
    let study_parameters = StudyParameters {
        treatments: Kernel::gaussian(&[1.0, 1.5]),
        covariates: Some(Kernel::gaussian(&[1.0])),
        ridge: 0.05,
        intercepting: None,
    };
    let outcome =
        OutcomeGpParameters { kernel: Kernel::gaussian(&[1.0]), noise: 0.01, intercept_variance: 1.0 };
    studies
        .effect(&Parameters { studies: vec![study_parameters], outcome, adjustment: true, landmarks: None })
        .unwrap()
}

fn estimate_of(effect: &Effect, estimand: &Estimand, treatments: &Table) -> EffectEstimate {
    let sums = estimand.weights_at(treatments, effect.treatments()).unwrap();
    sums.estimate(effect.evaluate(&sums.treatments).unwrap())
}

#[test]
fn slopes_and_contrasts_are_sums_over_the_joint_posterior() {
    let effect = effect();
    // Columns are found by name.
    let treatments = table(&["b", "a"], &[vec![0.5, -1.0], vec![0.2, 0.9]]);
    let step = 0.05;
    let slope = Estimand::slope(effect.treatments(), Some("b"), Some(step)).unwrap();
    let baseline = table(&["a", "b"], &[vec![-0.4], vec![0.1]]);
    let (a, b) = ([0.2, 0.9], [0.5, -1.0]);
    let shifted_b = |shift: f64| [b[0] + shift, b[1] + shift];
    let shifted = [shifted_b(step), shifted_b(-step)].concat();
    let shifted_treatments = table(&["a", "b"], &[[a, a].concat(), shifted]);
    let (slope_estimate, joint) =
        (estimate_of(&effect, &slope, &treatments), effect.evaluate(&shifted_treatments).unwrap());
    let weight = 0.5 / step;
    let with_base = table(&["a", "b"], &[vec![a[0], a[1], -0.4], vec![b[0], b[1], 0.1]]);
    let (contrast_estimate, level) = (
        estimate_of(&effect, &Estimand::Contrast(baseline.clone()), &treatments),
        effect.evaluate(&with_base).unwrap(),
    );
    for i in 0..2 {
        assert!((slope_estimate.mean[i] - weight * (joint.mean[i] - joint.mean[2 + i])).abs() < 1e-12);
        assert!((contrast_estimate.mean[i] - (level.mean[i] - level.mean[2])).abs() < 1e-12);
        for k in 0..2 {
            let c = &joint.covariance;
            let expected = c[(i, k)] - c[(i, 2 + k)] - c[(2 + i, k)] + c[(2 + i, 2 + k)];
            assert!((slope_estimate.covariance[(i, k)] - weight * weight * expected).abs() < 1e-9, "{i} {k}");
            let c = &level.covariance;
            let expected = c[(i, k)] - c[(i, 2)] - c[(2, k)] + c[(2, 2)];
            assert!((contrast_estimate.covariance[(i, k)] - expected).abs() < 1e-12, "{i} {k}");
        }
        for estimate in [&slope_estimate, &contrast_estimate] {
            let sum: f64 = estimate.causes.iter().map(|(_, part)| part[(i, i)]).sum();
            assert!((sum - estimate.covariance[(i, i)]).abs() < 1e-9);
        }
        let smallest = joint.support[i].effective_rows.min(joint.support[2 + i].effective_rows);
        assert_eq!(slope_estimate.support[i].effective_rows, smallest);
    }
    let causes: Vec<UncertaintyCause> = slope_estimate.causes.iter().map(|entry| entry.0).collect();
    assert!(causes.is_sorted() && causes.contains(&UncertaintyCause::Adjustment));
    // Row-by-row estimates are the same, and so are draws and the value of another row.
    for (estimand, estimate) in
        [(&slope, &slope_estimate), (&Estimand::Contrast(baseline), &contrast_estimate)]
    {
        let pointwise = effect.pointwise(&treatments, estimand).unwrap();
        assert_eq!(pointwise.mean, estimate.mean);
        let sums = estimand.weights_at(&treatments, effect.treatments()).unwrap();
        let drawn = effect.sample(&sums.treatments, 50, 3).unwrap();
        let actual = sums.rows(&drawn);
        let expected_draw = |i: usize, d: usize| {
            sums.terms[i].iter().map(|(index, weight)| weight * drawn[(*index, d)]).sum::<f64>()
        };
        assert!((0..2).all(|i| (0..50).all(|d| (actual[(i, d)] - expected_draw(i, d)).abs() < 1e-9)));
        let row = table(&["y"], &[vec![0.4, -1.0]]);
        let shares = effect.share_taken(&sums, 1, &row).unwrap();
        let variance = estimate.covariance[(0, 0)] + estimate.covariance[(1, 1)];
        for (j, share) in shares.iter().enumerate() {
            let reduction = |i: usize| {
                let mut weights = Matrix::zeros(1, sums.treatments.rows());
                sums.terms[i].iter().for_each(|(index, weight)| weights.row_mut(0)[*index] = *weight);
                effect.variance_reduction_per_row(&sums.treatments, &weights, 1, &row).unwrap()[(0, j)]
            };
            assert!((share - (reduction(0) + reduction(1)) / variance).abs() < 1e-12);
        }
    }
}

/// The slope with a small step is the derivative of the mean, which is a sum of Gaussian functions.
#[test]
fn default_step_approximates_the_derivative() {
    let effect = effect();
    let treatments = table(&["a", "b"], &[vec![0.3], vec![-0.2]]);
    let default_slope =
        estimate_of(&effect, &Estimand::slope(effect.treatments(), Some("a"), None).unwrap(), &treatments);
    let (_, model, _) = effect.posteriors().unwrap().remove(0);
    let value = |x: f64| model.predict(&table(&["a", "b"], &[vec![x], vec![-0.2]])).unwrap().data()[0];
    let step = 1e-5;
    let derivative = (value(0.3 + step) - value(0.3 - step)) / (2.0 * step);
    assert!(
        (default_slope.mean[0] - derivative).abs() < 1e-3 * derivative.abs(),
        "{} {derivative}",
        default_slope.mean[0]
    );
    assert!(default_slope.mean[0] != derivative);
}

#[test]
fn invalid_estimands_are_refused() {
    let effect = effect();
    let studied = effect.treatments();
    let refused = |result: riesz::Result<Estimand>| result.unwrap_err().to_string();
    assert!(refused(Estimand::slope(studied, None, None)).contains("it is by one of the treatments, a, b"));
    assert!(refused(Estimand::slope(studied, Some("c"), None)).contains("slope = c"));
    assert!(refused(Estimand::slope(studied, Some("a"), Some(0.0))).contains("step of a slope = 0"));
    let levels = ColumnKind::Categorical { levels: vec!["x".into(), "y".into()] };
    let kind = vec![Column { name: "kind".into(), kind: levels }];
    let kind = Table::from_column_major(kind, 2, vec![0.0, 1.0]).unwrap();
    assert!(refused(Estimand::slope(&kind, None, None)).contains("categorical"));
    let two = Estimand::Contrast(studied.select_rows(&[0, 1]));
    assert!(matches!(two.weights_at(studied, studied), Err(Error::Shape { .. })));
    let bounds = |table: &Table, name: &str| Domain::from_bounds(table, &[(name.into(), (0.0, 1.0))]);
    assert!(bounds(&kind, "kind").unwrap_err().to_string().contains("all its levels are tried"));
    assert!(bounds(studied, "c").unwrap_err().to_string().contains("the treatments are a, b"));
    let Domain::Between(pairs) = bounds(studied, "b").unwrap() else { panic!("bounds") };
    let low = studied.column(0).iter().copied().fold(f64::MAX, f64::min);
    assert_eq!((pairs[0].0, pairs[1]), (low, (0.0, 1.0)));
}

#[test]
fn members_are_weighted_by_their_share() {
    let effect = effect();
    let members = table(&["z"], &[vec![0.5, -1.0]]);
    let treatments = table(&["a", "b"], &[vec![0.3], vec![-0.2]]);
    let effect_on = |population: TargetPopulation| {
        effect
            .on_population(&population, &AtomicBool::new(false))
            .unwrap()
            .evaluate(&treatments)
            .unwrap()
            .mean[0]
    };
    let member_effect =
        |i: usize| effect_on(TargetPopulation::members(members.select_rows(&[i]), &[7.0]).unwrap());
    let mixture = effect_on(TargetPopulation::members(members.clone(), &[2.0, 6.0]).unwrap());
    assert!((mixture - 0.25 * member_effect(0) - 0.75 * member_effect(1)).abs() < 1e-12);
    for (counts, message) in [
        (vec![1.0], "list of weights"),
        (vec![-1.0, 2.0], "weights of members = -1"),
        (vec![f64::NAN, 2.0], "NaN"),
        (vec![0.0, 0.0], "a sum of 0"),
    ] {
        let refused = TargetPopulation::members(members.clone(), &counts).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    }
}

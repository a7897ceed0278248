//! Variance reductions by added rows, against refits with those rows; and effects as sums over mediators.

use std::sync::atomic::AtomicBool;

use riesz::causal::{
    Effect, Estimand, IdentificationRoute, OutcomeGpParameters, Parameters, Studies, Study, StudyParameters,
    TargetPopulation, UncertaintyCause,
};
use riesz::{Column, Kernel, Matrix, Table};

use crate::common::Stream;

static NEVER_STOP: AtomicBool = AtomicBool::new(false);
const N: usize = 12;

fn named(columns: &[(&str, &[f64])]) -> Table {
    let kinds = columns.iter().map(|(name, _)| Column::numeric(*name)).collect();
    let values: Vec<f64> = columns.iter().flat_map(|(_, column)| column.to_vec()).collect();
    Table::from_column_major(kinds, columns[0].1.len(), values).unwrap()
}

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut s = Stream(seed);
    (0..n).map(|_| s.normal()).collect()
}

fn study_parameters(has_covariate: bool) -> StudyParameters {
    let covariates = has_covariate.then(|| Kernel::gaussian(&[1.1]));
    StudyParameters { treatments: Kernel::gaussian(&[0.9]), covariates, ridge: 0.3, intercepting: None }
}

fn outcome() -> OutcomeGpParameters {
    OutcomeGpParameters { kernel: 1.4 * Kernel::gaussian(&[0.8]), noise: 0.2, intercept_variance: 0.6 }
}

/// Returns an effect of two studies, the first with or without adjustment for its covariate, with optional
/// additional rows.
fn two_study_effect(has_covariate: bool, added_row: Option<(f64, f64)>, added_point: Option<f64>) -> Effect {
    let (mut x, mut z, mut y) = (normals(1, N), normals(2, N), normals(3, N));
    let (mut y2, mut t) = (normals(4, N), normals(5, N));
    if let Some((dose, covariate)) = added_row {
        x.push(dose);
        z.push(covariate);
        y.push(0.3);
    }
    if let Some(point) = added_point {
        y2.push(point);
        t.push(-0.4);
    }
    let z = named(&[("z", &z)]);
    let route = if has_covariate { IdentificationRoute::BackDoor(z) } else { IdentificationRoute::Direct };
    let first =
        Study { treatments: named(&[("x", &x)]), route, mediators: named(&[("y", &y)]), shared: None };
    let studies = Studies { studies: vec![first], points: named(&[("y", &y2)]), outcome: t };
    let parameters = Parameters {
        studies: vec![study_parameters(has_covariate)],
        outcome: outcome(),
        adjustment: false,
        landmarks: None,
    };
    let effect = studies.effect(&parameters).unwrap();
    if !has_covariate {
        return effect;
    }
    // Averaged over the same people, whichever rows the study has.
    let population_covariates = normals(2, N);
    let population =
        TargetPopulation::Population(named(&[("z", &population_covariates)]), vec![1.0 / N as f64; N]);
    effect.on_population(&population, &NEVER_STOP).unwrap()
}

fn part(effect: &Effect, x: &[f64], contrast: &[f64], cause: UncertaintyCause) -> f64 {
    let estimate = effect.evaluate(&named(&[("x", x)])).unwrap();
    let Some((_, part)) = estimate.causes.iter().find(|(candidate, _)| *candidate == cause) else {
        return 0.0;
    };
    (0..x.len())
        .flat_map(|i| (0..x.len()).map(move |j| (i, j)))
        .map(|(i, j)| contrast[i] * contrast[j] * part[(i, j)])
        .sum()
}

/// Variance reductions of one contrast by each row.
fn variance_reductions(
    effect: &Effect,
    x: &Table,
    contrast: &[f64],
    study: usize,
    rows: &Table,
) -> riesz::Result<Vec<f64>> {
    let contrasts = Matrix::from_row_major(1, contrast.len(), contrast.to_vec());
    Ok(effect.variance_reduction_per_row(x, &contrasts, study, rows)?.row(0).to_vec())
}

#[test]
fn last_study_row_reductions_equal_those_of_refits() {
    for has_covariate in [false, true] {
        let effect = two_study_effect(has_covariate, None, None);
        for (x, contrast) in [(&[0.4][..], &[1.0][..]), (&[1.2, -0.6], &[1.0, -1.0])] {
            let rows = [-1.5, 0.2, 4.0];
            let reductions =
                variance_reductions(&effect, &named(&[("x", x)]), contrast, 1, &named(&[("y", &rows)]))
                    .unwrap();
            let before = part(&effect, x, contrast, UncertaintyCause::Study(1));
            for (row, reduction) in rows.into_iter().zip(reductions) {
                let after = part(
                    &two_study_effect(has_covariate, None, Some(row)),
                    x,
                    contrast,
                    UncertaintyCause::Study(1),
                );
                assert!(
                    (before - after - reduction).abs() < 1e-10 * before,
                    "{row}: {reduction} {}",
                    before - after
                );
            }
        }
    }
}

/// Shares of the variance before and after a refit are compared, since a refit changes ν and so the scale.
#[test]
fn first_study_row_reductions_equal_those_of_refits() {
    for has_covariate in [false, true] {
        let effect = two_study_effect(has_covariate, None, None);
        for (x, contrast) in [(&[0.4][..], &[1.0][..]), (&[1.2, -0.6], &[1.0, -1.0])] {
            let rows = ([0.5, -1.0, 5.0], [0.1, 1.4, 0.0]);
            let candidates = named(&[("x", &rows.0), ("z", &rows.1)]);
            let reductions =
                variance_reductions(&effect, &named(&[("x", x)]), contrast, 0, &candidates).unwrap();
            let study_variance = |fitted: &Effect, x: &[f64], contrast: &[f64]| {
                part(fitted, x, contrast, UncertaintyCause::Study(0))
            };
            let total_variance = |fitted: &Effect, x: &[f64], contrast: &[f64]| {
                part(fitted, x, contrast, UncertaintyCause::Study(0))
                    + part(fitted, x, contrast, UncertaintyCause::Interaction)
            };
            for i in 0..3 {
                let refit = two_study_effect(has_covariate, Some((rows.0[i], rows.1[i])), None);
                // Far from all rows nothing is explained, also with an additional row.
                let scale =
                    study_variance(&refit, &[60.0], &[1.0]) / study_variance(&effect, &[60.0], &[1.0]);
                let refit_variance = study_variance(&refit, x, contrast) / scale;
                let share = 1.0 - refit_variance / study_variance(&effect, x, contrast);
                let expected = share * total_variance(&effect, x, contrast);
                assert!(
                    (reductions[i] - expected).abs() < 1e-9 * total_variance(&effect, x, contrast),
                    "{} {expected}",
                    reductions[i]
                );
            }
            assert!(reductions[0] > 1e-6);
        }
    }
}

fn three_studies() -> (Studies, Parameters) {
    let (x, y, y2, v2) = (normals(1, N), normals(3, N), normals(6, N), normals(7, N));
    let (v3, t) = (normals(4, N), normals(5, N));
    let direct = |a: Table, b: Table| Study {
        treatments: a,
        route: IdentificationRoute::Direct,
        mediators: b,
        shared: None,
    };
    let studies = vec![
        direct(named(&[("x", &x)]), named(&[("y", &y)])),
        direct(named(&[("y", &y2)]), named(&[("v", &v2)])),
    ];
    let parameters = Parameters {
        studies: vec![study_parameters(false), study_parameters(false)],
        outcome: outcome(),
        adjustment: false,
        landmarks: None,
    };
    (Studies { studies, points: named(&[("v", &v3)]), outcome: t }, parameters)
}

/// Reductions by rows of the middle study equal those of the chain without the first study; reductions by
/// rows of the last study equal those of a refit.
#[test]
fn chain_row_reductions_follow_from_later_studies() {
    let (studies, parameters) = three_studies();
    let effect = studies.effect(&parameters).unwrap();
    let x = named(&[("x", &[0.7])]);
    let mediator_sum = effect.as_mediator_sums(&x).unwrap().remove(0).1;
    let rows = [0.4, -1.2];
    let middle_reductions = variance_reductions(&effect, &x, &[1.0], 1, &named(&[("y", &rows)])).unwrap();
    let later_studies = Studies { studies: vec![studies.studies[1].clone()], ..studies.clone() };
    let later_effect = later_studies
        .effect(&Parameters { studies: vec![study_parameters(false)], ..parameters.clone() })
        .unwrap();
    let mediators: Vec<f64> = mediator_sum.mediators.column(0).iter().chain(&rows).copied().collect();
    let estimate = later_effect.evaluate(&named(&[("y", &mediators)])).unwrap();
    let mut residual = Matrix::zeros(mediators.len(), mediators.len());
    for (cause, part) in &estimate.causes {
        if matches!(cause, UncertaintyCause::Study(0) | UncertaintyCause::Interaction) {
            residual.data_mut().iter_mut().zip(part.data()).for_each(|(total, value)| *total += value);
        }
    }
    // Far away nothing is explained, and the kernel is 1.
    let distant_causes = later_effect.evaluate(&named(&[("y", &[80.0])])).unwrap().causes;
    let scale: f64 = distant_causes
        .iter()
        .filter(|(cause, _)| matches!(cause, UncertaintyCause::Study(0) | UncertaintyCause::Interaction))
        .map(|(_, part)| part[(0, 0)])
        .sum();
    for (p, reduction) in middle_reductions.iter().enumerate() {
        let row = N + p;
        let covariance: f64 = (0..N).map(|i| mediator_sum.weights[(0, i)] * residual[(i, row)]).sum();
        let expected = covariance * covariance / (residual[(row, row)] + 0.3 * scale);
        assert!((reduction - expected).abs() < 1e-10 * expected.max(1e-3), "{reduction} {expected}");
    }
    let before = part(&effect, &[0.7], &[1.0], UncertaintyCause::Study(2));
    let reductions = variance_reductions(&effect, &x, &[1.0], 2, &named(&[("v", &[0.9])])).unwrap();
    let mut extended = studies.clone();
    extended.points = extended.points.stack(&named(&[("v", &[0.9])])).unwrap();
    extended.outcome.push(1.0);
    let after = part(&extended.effect(&parameters).unwrap(), &[0.7], &[1.0], UncertaintyCause::Study(2));
    assert!((before - after - reductions[0]).abs() < 1e-10 * before, "{} {}", reductions[0], before - after);
}

#[test]
fn effects_are_sums_over_mediators() {
    let (studies, parameters) = three_studies();
    for effect in [
        two_study_effect(false, None, None),
        two_study_effect(true, None, None),
        studies.effect(&parameters).unwrap(),
    ] {
        let x = named(&[("x", &[-0.3, 1.1])]);
        let (weight, mediator_sum) = effect.as_mediator_sums(&x).unwrap().remove(0);
        assert_eq!(weight, 1.0);
        let estimate = effect.evaluate(&x).unwrap();
        let f = mediator_sum.outcome.predict(&mediator_sum.mediators).unwrap();
        let constant = mediator_sum.outcome.intercept[0];
        for q in 0..2 {
            let row = mediator_sum.weights.row(q);
            let sum: f64 = row.iter().enumerate().map(|(i, w)| w * (f[(i, 0)] - constant)).sum();
            assert!((constant + sum - estimate.mean[q]).abs() < 1e-12);
            assert!((row.iter().sum::<f64>() - estimate.support[q].weight_sum).abs() < 1e-12);
        }
    }
}

#[test]
fn values_of_mediators_add_up_to_the_contrast() {
    let (studies, parameters) = three_studies();
    let effect = studies.effect(&parameters).unwrap();
    let (x, baseline) = (named(&[("x", &[-0.3, 1.1])]), named(&[("x", &[0.2])]));
    let (_, sum) = effect.as_mediator_sums(&x).unwrap().remove(0);
    let background = sum.mediators.select_rows(&[0, 2, 5]);
    let contrast = Estimand::Contrast(baseline.clone());
    let level = effect.mediator_values(&x, &Estimand::Level, &background).unwrap();
    let of_baseline = effect.mediator_values(&baseline, &Estimand::Level, &background).unwrap();
    let values = effect.mediator_values(&x, &contrast, &background).unwrap();
    // An empty coalition has the mean outcome of the background, times the sum of the weights of the rows.
    let base = sum.outcome.predict(&background).unwrap().column(0).iter().sum::<f64>() / 3.0;
    let constant = sum.outcome.intercept[0];
    let (mean, support) = (effect.evaluate(&x).unwrap().mean, effect.evaluate(&x).unwrap().support);
    for q in 0..2 {
        let expected = mean[q] - constant - support[q].weight_sum * (base - constant);
        assert!((level.row(q).iter().sum::<f64>() - expected).abs() < 1e-12);
        for j in 0..values.cols() {
            assert!((values[(q, j)] - (level[(q, j)] - of_baseline[(0, j)])).abs() < 1e-12);
        }
    }
}

#[test]
fn invalid_variance_reduction_requests_are_named() {
    let effect = two_study_effect(true, None, None);
    let x = named(&[("x", &[0.0])]);
    let message = |study: usize, rows: Table, contrast: &[f64]| {
        variance_reductions(&effect, &x, contrast, study, &rows).unwrap_err().to_string()
    };
    let y = || named(&[("y", &[0.0])]);
    assert!(
        message(2, y(), &[1.0]).contains("study = 2 is not allowed: it is a number from 0 to 1"),
        "{}",
        message(2, y(), &[1.0])
    );
    assert!(message(0, y(), &[1.0]).contains('x'));
    assert!(message(1, y(), &[1.0, 2.0]).contains("one per row of treatments"));
}

//! Effects of studies of many rows through landmarks, against the effects from all rows.

use std::sync::atomic::AtomicBool;

use riesz::causal::{
    CausalFusion, Effect, EffectEstimate, IdentificationRoute, OutcomeGpParameters, Parameters, Studies,
    Study, StudyParameters, TargetPopulation,
};
use riesz::{Column, Kernel, Matrix, Table};

use crate::common::Stream;

static NEVER_STOP: AtomicBool = AtomicBool::new(false);

fn named(columns: &[(&str, &[f64])]) -> Table {
    let kinds = columns.iter().map(|(name, _)| Column::numeric(*name)).collect();
    let values: Vec<f64> = columns.iter().flat_map(|(_, column)| column.to_vec()).collect();
    Table::from_column_major(kinds, columns[0].1.len(), values).unwrap()
}

/// Columns x, z and y of the first study, and y and t of the last study. They have so few distinct rows that
/// a few landmarks cover all of them.
fn discrete_studies(n: usize) -> Studies {
    let mut s = Stream(7);
    let mut level = |count: f64| (s.uniform() * count).floor() / 2.0;
    let (x, z): (Vec<f64>, Vec<f64>) = (0..n).map(|_| (level(4.0), level(3.0))).unzip();
    let y: Vec<f64> = (0..n).map(|i| x[i] - z[i] + level(2.0)).collect();
    let y2: Vec<f64> = (0..n).map(|_| level(5.0) - 0.5).collect();
    let t: Vec<f64> = y2.iter().map(|y| y * y + 0.3 * s.normal()).collect();
    let route = IdentificationRoute::BackDoor(named(&[("z", &z)]));
    let study =
        Study { treatments: named(&[("x", &x)]), route, mediators: named(&[("y", &y)]), shared: None };
    Studies { studies: vec![study], points: named(&[("y", &y2)]), outcome: t }
}

fn study_parameters_for(route: &IdentificationRoute) -> StudyParameters {
    let covariates = (!matches!(route, IdentificationRoute::Direct)).then(|| Kernel::gaussian(&[0.8]));
    let intercepting =
        matches!(route, IdentificationRoute::FrontDoor(_)).then(|| (Kernel::gaussian(&[0.7]), 0.25));
    StudyParameters { treatments: Kernel::gaussian(&[0.9]), covariates, ridge: 0.3, intercepting }
}

fn parameters(studies: &Studies, landmarks: Option<usize>) -> Parameters {
    let outcome =
        OutcomeGpParameters { kernel: 1.4 * Kernel::gaussian(&[0.8]), noise: 0.2, intercept_variance: 0.6 };
    let study_parameters = studies.studies.iter().map(|study| study_parameters_for(&study.route));
    Parameters { studies: study_parameters.collect(), outcome, adjustment: true, landmarks }
}

fn exact_and_landmark(studies: &Studies, landmarks: usize) -> [Effect; 2] {
    [None, Some(landmarks)].map(|n_landmarks| studies.effect(&parameters(studies, n_landmarks)).unwrap())
}

fn assert_close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < tolerance * (1.0 + b.abs()), "{a} {b}");
    }
}

fn assert_estimates_agree(a: &EffectEstimate, b: &EffectEstimate, tolerance: f64) {
    assert_close(&a.mean, &b.mean, tolerance);
    assert_close(a.covariance.data(), b.covariance.data(), tolerance);
    assert_eq!(a.causes.len(), b.causes.len());
    for ((cause, a), (other, b)) in a.causes.iter().zip(&b.causes) {
        assert_eq!(cause, other);
        assert_close(a.data(), b.data(), tolerance);
    }
    for (a, b) in a.support.iter().zip(&b.support) {
        let fields = |support: &riesz::causal::DataSupport| {
            [
                support.variance_explained_by_first,
                support.resolved_by_rest,
                support.effective_rows,
                support.weight_sum,
                support.population_explained,
                support.overlap,
            ]
        };
        assert_close(&fields(a), &fields(b), 10.0 * tolerance);
    }
}

fn queries() -> Table {
    named(&[("x", &[-0.4, 0.3, 1.1, 6.0])])
}

/// With a landmark at every distinct row, effects equal those from all rows up to the landmarks' jitter.
#[test]
fn landmarks_at_all_rows_are_exact() {
    let studies = discrete_studies(90);
    let [exact, approximate] = exact_and_landmark(&studies, 40);
    assert_eq!(exact.unexplained(), []);
    let unexplained_shares = approximate.unexplained();
    assert_eq!(unexplained_shares.iter().map(|(study, _)| *study).collect::<Vec<_>>(), [0, 1]);
    assert!(unexplained_shares.iter().all(|(_, share)| *share < 1e-8), "{unexplained_shares:?}");
    assert_estimates_agree(
        &approximate.evaluate(&queries()).unwrap(),
        &exact.evaluate(&queries()).unwrap(),
        1e-6,
    );
    let population = TargetPopulation::Population(named(&[("z", &[0.2, 0.9, 1.4])]), vec![0.2, 0.5, 0.3]);
    for target in [
        population,
        TargetPopulation::ConditionalOn(named(&[("z", &[0.5])])),
        TargetPopulation::Treated(named(&[("x", &[0.5])])),
    ] {
        let [approximate, exact] = [&approximate, &exact]
            .map(|effect| effect.on_population(&target, &NEVER_STOP).unwrap().evaluate(&queries()).unwrap());
        assert_estimates_agree(&approximate, &exact, 1e-6);
    }

    // The front door.
    let mut front = discrete_studies(90);
    let x = front.studies[0].treatments.column(0).iter();
    let m: Vec<f64> = x.enumerate().map(|(i, x)| x + [0.0, 0.5, -0.5][i % 3]).collect();
    front.studies[0].route = IdentificationRoute::FrontDoor(named(&[("m", &m)]));
    let [exact, approximate] = exact_and_landmark(&front, 40);
    assert_estimates_agree(
        &approximate.evaluate(&queries()).unwrap(),
        &exact.evaluate(&queries()).unwrap(),
        1e-6,
    );

    // A second study in between, from y to v.
    let mut s = Stream(11);
    let mut level = |t: &f64| (t + 0.2 * s.normal()).clamp(-2.0, 3.0).round() / 2.0;
    let v: Vec<f64> = studies.outcome.iter().map(&mut level).collect();
    let second = Study {
        treatments: studies.points.clone(),
        route: IdentificationRoute::Direct,
        mediators: named(&[("v", &v)]),
        shared: None,
    };
    let outcome: Vec<f64> = v.iter().map(|v| v.sin() + 0.1 * s.normal()).collect();
    let chain =
        Studies { studies: vec![studies.studies[0].clone(), second], points: named(&[("v", &v)]), outcome };
    let [exact, approximate] = exact_and_landmark(&chain, 40);
    assert_estimates_agree(
        &approximate.evaluate(&queries()).unwrap(),
        &exact.evaluate(&queries()).unwrap(),
        1e-6,
    );
    // The models to explain agree too, except for the constant, which does not affect Shapley values.
    let mean_and_scale = |effect: &Effect| {
        let (_, model, covariance) = effect.posteriors().unwrap().remove(0);
        (model.predict(&queries()).unwrap(), covariance.prior_scale)
    };
    let ((mean, prior), (approximate_mean, other_prior)) =
        (mean_and_scale(&exact), mean_and_scale(&approximate));
    assert_close(mean.data(), approximate_mean.data(), 1e-6);
    assert!((prior - other_prior).abs() < 1e-6);
}

/// Variance reductions by further rows, and sums over mediators, equal those of all rows.
#[test]
fn variance_reductions_and_mediator_sums_equal_those_of_all_rows() {
    let [exact, approximate] = exact_and_landmark(&discrete_studies(90), 40);
    let weights = Matrix::from_row_major(2, 4, vec![1.0, 0.0, 0.0, 0.0, 0.0, -1.0, 1.0, 0.0]);
    // New rows at landmarks, because only there such rows are represented exactly.
    let new_rows = [named(&[("x", &[0.5, 1.5]), ("z", &[0.5, 1.0])]), named(&[("y", &[-0.5, 1.0])])];
    for (study, rows) in new_rows.iter().enumerate() {
        let [approximate, exact] = [&approximate, &exact]
            .map(|effect| effect.variance_reduction_per_row(&queries(), &weights, study, rows).unwrap());
        assert_close(approximate.data(), exact.data(), 1e-6);
        assert!(exact.data().iter().all(|v| *v > 0.0));
    }
    let [approximate, exact] =
        [&approximate, &exact].map(|effect| effect.as_mediator_sums(&queries()).unwrap().remove(0).1);
    assert_close(approximate.weights.data(), exact.weights.data(), 1e-6);
    let [approximate_outcome, exact_outcome] = [&approximate, &exact]
        .map(|mediator_sum| mediator_sum.outcome.predict(&mediator_sum.mediators).unwrap());
    assert_close(approximate_outcome.data(), exact_outcome.data(), 1e-6);
}

/// The moments of 4,000 draws are within five standard errors.
#[test]
fn draws_have_the_estimated_moments() {
    let [_, effect] = exact_and_landmark(&discrete_studies(90), 40);
    let draws = 4000;
    let estimate = effect.evaluate(&queries()).unwrap();
    let drawn = effect.sample(&queries(), draws, 3).unwrap();
    for q in 0..4 {
        let row = drawn.row(q);
        let mean = row.iter().sum::<f64>() / draws as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (draws as f64 - 1.0);
        let expected = estimate.covariance[(q, q)];
        assert!((mean - estimate.mean[q]).abs() < 5.0 * (expected / draws as f64).sqrt());
        let fourth = row.iter().map(|v| (v - mean).powi(4)).sum::<f64>() / draws as f64;
        let error = ((fourth - variance * variance) / draws as f64).sqrt();
        assert!((variance - expected).abs() < 5.0 * error, "{variance} {expected} {error}");
    }
}

fn smooth_studies(n: usize) -> Studies {
    let mut s = Stream(19);
    let z: Vec<f64> = (0..n).map(|_| s.normal()).collect();
    let x: Vec<f64> = z.iter().map(|z| 0.6 * z + s.normal()).collect();
    let y: Vec<f64> = (0..n).map(|i| x[i].sin() + 0.4 * z[i] + 0.2 * s.normal()).collect();
    let y2: Vec<f64> = (0..n).map(|_| 1.2 * s.normal()).collect();
    let t: Vec<f64> = y2.iter().map(|y| y - 0.3 * y * y + 0.3 * s.normal()).collect();
    let route = IdentificationRoute::BackDoor(named(&[("z", &z)]));
    let study =
        Study { treatments: named(&[("x", &x)]), route, mediators: named(&[("y", &y)]), shared: None };
    Studies { studies: vec![study], points: named(&[("y", &y2)]), outcome: t }
}

/// More landmarks come nearer to all rows, and the share that they leave unexplained shows how near.
#[test]
fn more_landmarks_approximate_all_rows_better() {
    let studies = smooth_studies(300);
    let exact = studies.effect(&parameters(&studies, None)).unwrap().evaluate(&queries()).unwrap();
    let errors: Vec<[f64; 3]> = [6, 20, 80]
        .iter()
        .map(|count| {
            let effect = studies.effect(&parameters(&studies, Some(*count))).unwrap();
            let unexplained_share = effect.unexplained().iter().map(|(_, share)| *share).fold(0.0, f64::max);
            let estimate = effect.evaluate(&queries()).unwrap();
            let mean_error = |q: usize| (estimate.mean[q] - exact.mean[q]).abs();
            let variance_error =
                |q: usize| (estimate.covariance[(q, q)] / exact.covariance[(q, q)] - 1.0).abs();
            [
                unexplained_share,
                (0..3).map(mean_error).fold(0.0, f64::max),
                (0..4).map(variance_error).fold(0.0, f64::max),
            ]
        })
        .collect();
    for k in 0..3 {
        assert!(errors[2][k] < errors[1][k] && errors[1][k] < errors[0][k], "{errors:?}");
    }
    assert!(errors[2][0] < 1e-2 && errors[2][1] < 1e-3 && errors[2][2] < 0.02, "{errors:?}");
    // Far from the rows of all studies the support is zero.
    let estimate = studies.effect(&parameters(&studies, Some(20))).unwrap().evaluate(&queries()).unwrap();
    assert!(estimate.support[3].variance_explained_by_first < 1e-3 && !estimate.support[3].is_supported());
}

/// A fit of more rows than are used for tuning, with the default landmarks, has the true effect within its
/// band.
#[test]
fn a_fit_of_many_rows_finds_the_truth() {
    let studies = smooth_studies(3100);
    let fusion = CausalFusion { draws: 3, ..CausalFusion::default() };
    let effect = fusion.fit(&studies).unwrap();
    assert_eq!(effect.unexplained().len(), 2);
    let x = named(&[("x", &[-1.0, 0.0, 0.8])]);
    let estimate = effect.evaluate(&x).unwrap();
    // E[y - .3 y²] with y = sin x + .4 z + .2 e.
    for (q, x) in [-1.0_f64, 0.0, 0.8].iter().enumerate() {
        let truth = x.sin() - 0.3 * (x.sin().powi(2) + 0.16 + 0.04);
        let sd = estimate.covariance[(q, q)].sqrt();
        assert!((estimate.mean[q] - truth).abs() < 3.5 * sd && sd < 0.1, "{} {truth} {sd}", estimate.mean[q]);
        assert!(estimate.support[q].is_supported());
    }
}

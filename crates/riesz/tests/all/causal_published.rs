//! Published posteriors against regressions in coordinates, and their known failures.

use riesz::causal::{
    Effect, IdentificationRoute, IntegralForm, MediatorMeasure, OutcomeGpParameters, Parameters,
    PublishedPosterior, Studies, Study, StudyParameters, UncertaintyCause,
};
use riesz::linalg::lu_solve;
use riesz::{Column, Kernel, Matrix, Table};

use crate::common::Stream;

fn named(name: &str, v: &[f64]) -> Table {
    Table::from_column_major(vec![Column::numeric(name)], v.len(), v.to_vec()).unwrap()
}

const X: [f64; 5] = [-1.4, -0.5, 0.1, 0.8, 1.9];
const Y: [f64; 5] = [-1.6, -0.4, 0.5, 0.2, 1.3];
const Y2: [f64; 4] = [-1.1, -0.1, 0.9, 2.0];
const T: [f64; 4] = [1.4, 0.3, -0.6, 0.5];
const TREATMENTS: [f64; 2] = [0.4, -1.0];
const RIDGE: f64 = 0.3;
const NOISE: f64 = 0.2;

fn treatment_kernel() -> Kernel {
    Kernel::gaussian(&[0.9])
}

fn mediator_kernel() -> Kernel {
    1.3 * Kernel::gaussian(&[0.5])
}

fn effect(level: f64) -> Effect {
    let first = Study {
        treatments: named("x", &X),
        route: IdentificationRoute::Direct,
        mediators: named("y", &Y),
        shared: None,
    };
    let studies = Studies { studies: vec![first], points: named("y", &Y2), outcome: T.to_vec() };
    let study_parameters = StudyParameters {
        treatments: treatment_kernel(),
        covariates: None,
        ridge: RIDGE,
        intercepting: None,
    };
    let outcome = OutcomeGpParameters { kernel: mediator_kernel(), noise: NOISE, intercept_variance: level };
    studies
        .effect(&Parameters { studies: vec![study_parameters], outcome, adjustment: false, landmarks: None })
        .unwrap()
}

fn plus_diagonal(mut m: Matrix, v: f64) -> Matrix {
    m.add_diagonal(|_| v);
    m
}

/// Returns the solution `m⁻¹ b`.
fn solved(m: &Matrix, b: &Matrix) -> Matrix {
    let columns: Vec<Vec<f64>> = (0..b.cols()).map(|j| lu_solve(m, &b.column(j))).collect();
    let values = (0..b.rows()).flat_map(|i| columns.iter().map(move |column| column[i])).collect();
    Matrix::from_row_major(b.rows(), b.cols(), values)
}

fn minus(a: &Matrix, b: &Matrix) -> Matrix {
    let values = a.data().iter().zip(b.data()).map(|(a, b)| a - b).collect();
    Matrix::from_row_major(a.rows(), a.cols(), values)
}

fn times(a: &Matrix, factor: f64) -> Matrix {
    Matrix::from_row_major(a.rows(), a.cols(), a.data().iter().map(|v| factor * v).collect())
}

/// In coordinates, f is `Σ_u k(·, u) √w ξ_u` and μ(x) is `Σ_u k(·, u) √w ζ_u(x)`. The ξ_u are standard
/// normal, and the ζ_u independent processes with the kernel of x. The outcome t is f with noise. Row i
/// observes `k(y_i, y_·)` as μ(x_i) at the mediators, with noise of covariance λ r. The effect is `Σ_uv ξ_u
/// M_uv ζ_v(x)`.
#[test]
fn both_forms_are_regressions_in_coordinates() {
    let landmarks = named("y", &[&Y[..], &Y2].concat());
    let root = (1.0 / landmarks.rows() as f64).sqrt();
    let mediator_features = times(&mediator_kernel().cross_gram(&named("y", &Y), &landmarks), root);
    let outcome_features = times(&mediator_kernel().cross_gram(&named("y", &Y2), &landmarks), root);
    let m = times(&mediator_kernel().gram(&landmarks), root * root);
    let mean_t = T.iter().sum::<f64>() / 4.0;
    let t = Matrix::column_vector(T.iter().map(|t| t - mean_t).collect());
    let outcome_gram = plus_diagonal(outcome_features.matmul(&outcome_features.transpose()), NOISE);
    let xi = outcome_features.transpose().matmul(&solved(&outcome_gram, &t));
    let identity = plus_diagonal(Matrix::zeros(9, 9), 1.0);
    let cov_xi =
        minus(&identity, &outcome_features.transpose().matmul(&solved(&outcome_gram, &outcome_features)));
    let r = mediator_features.matmul(&mediator_features.transpose());
    let projection = mediator_features.transpose().matmul(&solved(&r, &mediator_features));
    // The regression on x.
    let (x, queries) = (named("x", &X), named("x", &TREATMENTS));
    let phi = treatment_kernel().cross_gram(&x, &queries);
    let weights = solved(&plus_diagonal(treatment_kernel().gram(&x), RIDGE), &phi);
    let (f, g) = (treatment_kernel().gram(&queries), phi.transpose().matmul(&weights));
    let zeta = mediator_features
        .transpose()
        .matmul(&solved(&r, &mediator_kernel().gram(&named("y", &Y)).matmul(&weights)));
    let (to_zeta, to_xi) = (m.matmul(&zeta), m.matmul(&xi));
    let transformed_cov = m.matmul(&cov_xi).matmul(&m);
    let trace = |m: &Matrix| (0..m.rows()).map(|i| m[(i, i)]).sum::<f64>();
    let (total, explained) =
        (to_xi.transpose().matmul(&to_xi), to_xi.transpose().matmul(&projection.matmul(&to_xi)));
    let (prior_trace, explained_trace) =
        (trace(&transformed_cov), trace(&transformed_cov.matmul(&projection)));
    let outcome = zeta.transpose().matmul(&transformed_cov.matmul(&zeta));
    for level in [0.0, 0.7] {
        for form in [IntegralForm::Landmarks, IntegralForm::Integrals] {
            let options = PublishedPosterior { form, jitter: 0.0, ..PublishedPosterior::default() };
            let estimate = effect(level).published(&options, &queries).unwrap();
            let part = |cause: UncertaintyCause| {
                estimate.causes.iter().find(|(candidate, _)| *candidate == cause).unwrap().1.clone()
            };
            for i in 0..2 {
                let mean = mean_t + (0..9).map(|u| xi[(u, 0)] * to_zeta[(u, i)]).sum::<f64>();
                assert!((estimate.mean[i] - mean).abs() < 1e-8, "{form:?} {} {mean}", estimate.mean[i]);
                for j in 0..2 {
                    let first = total[(0, 0)] * f[(i, j)] - explained[(0, 0)] * g[(i, j)];
                    let interaction = prior_trace * f[(i, j)] - explained_trace * g[(i, j)];
                    for (cause, expected) in [
                        (UncertaintyCause::Study(1), outcome[(i, j)]),
                        (UncertaintyCause::Study(0), first),
                        (UncertaintyCause::Interaction, interaction),
                    ] {
                        let actual = part(cause)[(i, j)];
                        assert!((actual - expected).abs() < 1e-7, "{form:?} {cause:?} {actual} {expected}");
                    }
                }
            }
        }
    }
}

/// Y = 1.5 X on ±4 and T = sin 2Y, with an outcome measured for |y| < 1.5 only. Outside this range the
/// published band narrows again, riesz's band does not.
#[test]
fn published_bands_collapse_away_from_the_measure() {
    let mut s = Stream(3);
    let x: Vec<f64> = (0..60).map(|i| -4.0 + 8.0 * f64::from(i) / 59.0).collect();
    let y: Vec<f64> = x.iter().map(|x| 1.5 * x + 0.1 * s.normal()).collect();
    let y2: Vec<f64> = (0..40).map(|i| -1.5 + 3.0 * f64::from(i) / 39.0).collect();
    let t: Vec<f64> = y2.iter().map(|y| (2.0 * y).sin() + 0.1 * s.normal()).collect();
    let first = Study {
        treatments: named("x", &x),
        route: IdentificationRoute::Direct,
        mediators: named("y", &y),
        shared: None,
    };
    let studies = Studies { studies: vec![first], points: named("y", &y2), outcome: t };
    let study_parameters = StudyParameters {
        treatments: Kernel::gaussian(&[1.0]),
        covariates: None,
        ridge: 0.01,
        intercepting: None,
    };
    let outcome =
        OutcomeGpParameters { kernel: 0.6 * Kernel::gaussian(&[0.8]), noise: 0.01, intercept_variance: 0.0 };
    let effect = studies
        .effect(&Parameters { studies: vec![study_parameters], outcome, adjustment: false, landmarks: None })
        .unwrap();
    let queries = named("x", &[0.4, 3.5]);
    let options = PublishedPosterior {
        measure: MediatorMeasure::Normal { mass: 1.0 },
        form: IntegralForm::Integrals,
        jitter: 1e-6,
    };
    let (ours, theirs) = (effect.evaluate(&queries).unwrap(), effect.published(&options, &queries).unwrap());
    let sd = |m: &Matrix, i: usize| m[(i, i)].sqrt();
    // There y = 5.25, and the true outcome is sin 10.5.
    let error = |mean: f64| (mean - (10.5_f64).sin()).abs();
    assert!(sd(&ours.covariance, 1) > 0.6 && !ours.support[1].is_supported());
    assert!(error(ours.mean[1]) < 3.0 * sd(&ours.covariance, 1));
    assert!(sd(&theirs.covariance, 1) < 0.5 * sd(&ours.covariance, 1), "{}", sd(&theirs.covariance, 1));
    // The mass of ν scales the band.
    let heavier = PublishedPosterior { measure: MediatorMeasure::Normal { mass: 4.0 }, ..options };
    let heavier = effect.published(&heavier, &queries).unwrap();
    let first = |estimate: &riesz::causal::EffectEstimate| {
        estimate.causes.iter().find(|(cause, _)| *cause == UncertaintyCause::Interaction).unwrap().1[(1, 1)]
    };
    assert!((first(&heavier) / first(&theirs) - 1.0).abs() > 0.5);
}

#[test]
fn chains_of_studies_have_no_published_posterior() {
    let first = |a: &str, b: &str| Study {
        treatments: named(a, &X),
        route: IdentificationRoute::Direct,
        mediators: named(b, &Y),
        shared: None,
    };
    let studies = Studies {
        studies: vec![first("x", "v"), first("v", "y")],
        points: named("y", &Y2),
        outcome: T.to_vec(),
    };
    let study_parameters = || StudyParameters {
        treatments: treatment_kernel(),
        covariates: None,
        ridge: RIDGE,
        intercepting: None,
    };
    let outcome = OutcomeGpParameters { kernel: mediator_kernel(), noise: NOISE, intercept_variance: 0.0 };
    let effect = studies
        .effect(&Parameters {
            studies: vec![study_parameters(), study_parameters()],
            outcome,
            adjustment: false,
            landmarks: None,
        })
        .unwrap();
    let message =
        effect.published(&PublishedPosterior::default(), &named("x", &[0.0])).unwrap_err().to_string();
    assert!(message.contains("two studies"), "{message}");
}

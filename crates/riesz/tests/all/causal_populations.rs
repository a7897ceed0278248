//! Uncertainty from a study's population, against ridge regressions on the features of linear kernels and the
//! Bayesian bootstrap, in which `Var(Σ_j w_j H_j) = var(H)/(n + 1)`.

use riesz::causal::{
    Effect, IdentificationRoute, OutcomeGpParameters, Parameters, Studies, Study, StudyParameters,
    UncertaintyCause,
};
use riesz::kernel::Linear;
use riesz::linalg::lu_solve;
use riesz::{Column, Kernel, Matrix, Table};

use crate::common::Stream;

const TREATMENTS: [f64; 3] = [-0.8, 0.4, 1.7];
const RIDGE: f64 = 0.35;
const NOISE: f64 = 0.2;

fn named(columns: &[(&str, &[f64])]) -> Table {
    let kinds = columns.iter().map(|(name, _)| Column::numeric(*name)).collect();
    let values: Vec<f64> = columns.iter().flat_map(|(_, column)| column.to_vec()).collect();
    Table::from_column_major(kinds, columns[0].1.len(), values).unwrap()
}

/// The kernel `1 + u v` of a column.
fn linear_kernel(column: usize) -> Kernel {
    Kernel::constant(1.0) + Linear { columns: vec![column], center: vec![0.0], scale: vec![1.0] }.into()
}

fn features(v: f64) -> Vec<f64> {
    vec![1.0, v]
}

fn outer(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().flat_map(|a| b.iter().map(move |b| a * b)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the coefficients of ridge regression on features.
fn ridge(rows: &[Vec<f64>], y: &[f64], ridge: f64) -> Vec<f64> {
    let d = rows[0].len();
    let mut gram = Matrix::zeros(d, d);
    for row in rows {
        (0..d).for_each(|i| (0..d).for_each(|j| gram[(i, j)] += row[i] * row[j]));
    }
    gram.add_diagonal(|_| ridge);
    let right: Vec<f64> = (0..d).map(|i| rows.iter().zip(y).map(|(row, y)| row[i] * y).sum()).collect();
    lu_solve(&gram, &right)
}

/// Returns the coefficients of the last study's regression of the centered outcome on the features, without a
/// constant.
fn outcome_coefficients(rows: &[Vec<f64>], t: &[f64]) -> Vec<f64> {
    let mean = t.iter().sum::<f64>() / t.len() as f64;
    ridge(rows, &t.iter().map(|t| t - mean).collect::<Vec<_>>(), NOISE)
}

fn parameters(study: StudyParameters, kernel: Kernel) -> Parameters {
    let outcome = OutcomeGpParameters { kernel, noise: NOISE, intercept_variance: 0.0 };
    Parameters { studies: vec![study], outcome, adjustment: true, landmarks: None }
}

fn linear_parameters() -> StudyParameters {
    StudyParameters {
        treatments: linear_kernel(0),
        covariates: Some(linear_kernel(0)),
        ridge: RIDGE,
        intercepting: None,
    }
}

fn adjustment(effect: &Effect) -> Matrix {
    let estimate = effect.evaluate(&named(&[("x", &TREATMENTS)])).unwrap();
    estimate.causes.into_iter().find(|(cause, _)| *cause == UncertaintyCause::Adjustment).unwrap().1
}

/// Returns the Bayesian-bootstrap covariance of the population means of queries i and j, from effects by
/// query and person.
fn bootstrap(unit_effects: &[Vec<f64>], i: usize, j: usize) -> f64 {
    let n = unit_effects[i].len() as f64;
    let mean = |q: usize| unit_effects[q].iter().sum::<f64>() / n;
    (dot(&unit_effects[i], &unit_effects[j]) / n - mean(i) * mean(j)) / (n + 1.0)
}

struct Data {
    x: Vec<f64>,
    other: Vec<f64>,
    y: Vec<f64>,
    y2: Vec<f64>,
    w2: Vec<f64>,
    t: Vec<f64>,
}

fn data() -> Data {
    let mut s = Stream(41);
    let mut normals = |n: usize| (0..n).map(|_| s.normal()).collect::<Vec<f64>>();
    let (x, other, e) = (normals(10), normals(10), normals(10));
    let y = (0..10).map(|i| 0.7 * x[i] - 0.6 * other[i] + 0.4 * x[i] * other[i] + 0.4 * e[i]).collect();
    let (y2, w2, e) = (normals(8), normals(8), normals(8));
    let t = (0..8).map(|i| 1.0 + 1.3 * y2[i] + 0.5 * y2[i] * w2[i] - 0.4 * w2[i] + 0.3 * e[i]).collect();
    Data { x, other, y, y2, w2, t }
}

/// The front door's adjustment variance has two parts. The first is the bootstrap over observed treatments.
/// The second is the residual variance of the regression of the mediator on treatments, weighted by the mean
/// square of the mediator's effect. This effect is identified by a back door through the treatments.
#[test]
fn front_door_variance_counts_treatments_and_mediators() {
    let Data { x, other: m, y, y2, t, .. } = data();
    let (treatment_scale, covariate_scale, mediator_ridge) = (0.7, 1.3, 0.25);
    let study = |treatments: (&str, &[f64]), route: IdentificationRoute| Studies {
        studies: vec![Study {
            treatments: named(&[treatments]),
            route,
            mediators: named(&[("y", &y)]),
            shared: None,
        }],
        points: named(&[("y", &y2)]),
        outcome: t.clone(),
    };
    let front_door = study(("x", &x), IdentificationRoute::FrontDoor(named(&[("m", &m)])));
    let study_parameters = StudyParameters {
        covariates: Some(covariate_scale * linear_kernel(0)),
        intercepting: Some((treatment_scale * linear_kernel(0), mediator_ridge)),
        ..linear_parameters()
    };
    let part = adjustment(&front_door.effect(&parameters(study_parameters, linear_kernel(0))).unwrap());

    let b = outcome_coefficients(&y2.iter().map(|y| features(*y)).collect::<Vec<_>>(), &t);
    let h: Vec<f64> = y.iter().map(|y| dot(&b, &features(*y))).collect();
    let root = covariate_scale.sqrt();
    let psi = |m: f64| -> Vec<f64> { features(m).iter().map(|v| root * v).collect() };
    let rows: Vec<Vec<f64>> = x.iter().zip(&m).map(|(x, m)| outer(&features(*x), &psi(*m))).collect();
    let joint_coefficients = ridge(&rows, &h, RIDGE);
    // Features of the mediator, regressed on the treatment.
    let scaled = |x: f64| -> Vec<f64> { features(x).iter().map(|v| treatment_scale.sqrt() * v).collect() };
    let treated: Vec<Vec<f64>> = x.iter().map(|x| scaled(*x)).collect();
    let mediator_coefficients: Vec<Vec<f64>> = (0..2)
        .map(|k| ridge(&treated, &m.iter().map(|m| psi(*m)[k]).collect::<Vec<_>>(), mediator_ridge))
        .collect();
    let unit_effects: Vec<Vec<f64>> = TREATMENTS
        .iter()
        .map(|a| {
            let mediator_features: Vec<f64> =
                mediator_coefficients.iter().map(|linear_kernel| dot(linear_kernel, &scaled(*a))).collect();
            x.iter().map(|x| dot(&joint_coefficients, &outer(&features(*x), &mediator_features))).collect()
        })
        .collect();
    // The effect of the mediator, adjusted for treatments, has the uncertainty of the studies only.
    let back_door = study(("m", &m), IdentificationRoute::BackDoor(named(&[("x", &x)])));
    let study_parameters =
        StudyParameters { treatments: covariate_scale * linear_kernel(0), ..linear_parameters() };
    let estimate = back_door
        .effect(&parameters(study_parameters, linear_kernel(0)))
        .unwrap()
        .evaluate(&named(&[("m", &m)]))
        .unwrap();
    let mean = t.iter().sum::<f64>() / t.len() as f64;
    let variance = |q: usize| -> f64 {
        let parts = estimate.causes.iter().filter(|(cause, _)| *cause != UncertaintyCause::Adjustment);
        parts.map(|(_, part)| part[(q, q)]).sum()
    };
    let mean_square = (0..10).map(|q| (estimate.mean[q] - mean).powi(2) + variance(q)).sum::<f64>() / 10.0;
    // `k(x, x') - k(x, X)(K + λ)⁻¹k(X, x')` is λ φ(x)ᵀ(ΦᵀΦ + λ)⁻¹φ(x').
    let mut gram = Matrix::zeros(2, 2);
    for row in &treated {
        (0..2).for_each(|i| (0..2).for_each(|j| gram[(i, j)] += row[i] * row[j]));
    }
    gram.add_diagonal(|_| mediator_ridge);
    for (i, a) in TREATMENTS.iter().enumerate() {
        for (j, b) in TREATMENTS.iter().enumerate() {
            let residual = mediator_ridge * dot(&scaled(*a), &lu_solve(&gram, &scaled(*b)));
            let expected = bootstrap(&unit_effects, i, j) + mean_square * residual;
            let actual = part[(i, j)];
            assert!((actual - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{actual} {expected}");
        }
    }
}

/// Shared covariates of a study: each person's effect is evaluated at that person's own covariates.
#[test]
fn shared_covariates_count_the_study_population() {
    let Data { x, other: w, y, y2, w2, t } = data();
    let study = Study {
        treatments: named(&[("x", &x)]),
        route: IdentificationRoute::BackDoor(named(&[("w", &w)])),
        mediators: named(&[("y", &y)]),
        shared: Some(named(&[("w", &w)])),
    };
    let studies =
        Studies { studies: vec![study], points: named(&[("y", &y2), ("w", &w2)]), outcome: t.clone() };
    let part = adjustment(
        &studies.effect(&parameters(linear_parameters(), linear_kernel(0) * linear_kernel(1))).unwrap(),
    );

    let joint_features = |y: f64, w: f64| outer(&features(y), &features(w));
    let b = outcome_coefficients(&(0..8).map(|i| joint_features(y2[i], w2[i])).collect::<Vec<_>>(), &t);
    let rows: Vec<Vec<f64>> = x.iter().zip(&w).map(|(x, w)| outer(&features(*x), &features(*w))).collect();
    let mediator_coefficients: Vec<Vec<f64>> =
        (0..2).map(|k| ridge(&rows, &y.iter().map(|y| features(*y)[k]).collect::<Vec<_>>(), RIDGE)).collect();
    let unit_effect = |a: f64, w: f64| -> f64 {
        let mediator_features: Vec<f64> = mediator_coefficients
            .iter()
            .map(|linear_kernel| dot(linear_kernel, &outer(&features(a), &features(w))))
            .collect();
        dot(&b, &outer(&mediator_features, &features(w)))
    };
    let unit_effects: Vec<Vec<f64>> =
        TREATMENTS.iter().map(|a| w.iter().map(|w| unit_effect(*a, *w)).collect()).collect();
    for i in 0..3 {
        for j in 0..3 {
            let (actual, expected) = (part[(i, j)], bootstrap(&unit_effects, i, j));
            assert!((actual - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{actual} {expected}");
        }
    }
}

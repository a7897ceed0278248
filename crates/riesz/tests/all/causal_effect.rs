//! Effects across studies, against Monte Carlo draws of all unknowns in finite-dimensional feature spaces.

use riesz::causal::{
    CausalFusion, IdentificationRoute, OutcomeGpParameters, Parameters, Studies, Study, StudyParameters,
    TargetPopulation, UncertaintyCause,
};
use riesz::kernel::Linear;
use riesz::linalg::lu_solve;
use riesz::{Kernel, Matrix, Table};

use crate::common::{Stream, with_threads};

/// A stop flag that is never set.
static NEVER_STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// The kernel `1 + u v`, with features 1 and u.
fn kernel() -> Kernel {
    Kernel::constant(1.0) + Linear { columns: vec![0], center: vec![0.0], scale: vec![1.0] }.into()
}

fn features(v: f64) -> Vec<f64> {
    vec![1.0, v]
}

fn column(v: &[f64]) -> Table {
    Table::from_rows(&v.iter().map(|v| [*v]).collect::<Vec<_>>()).unwrap()
}

fn outer(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().flat_map(|a| b.iter().map(move |b| a * b)).collect()
}

fn mean_of(rows: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let (mut sum, mut count) = (Vec::new(), 0.0);
    for row in rows {
        sum.resize(row.len(), 0.0);
        sum.iter_mut().zip(&row).for_each(|(s, v)| *s += v);
        count += 1.0;
    }
    sum.iter().map(|s| s / count).collect()
}

/// Returns the mean and the covariance of `b` in `y = X b + e`, with b standard normal and e of variance
/// `noise`.
fn regression(x: &[Vec<f64>], y: &[f64], noise: f64) -> (Vec<f64>, Matrix) {
    let d = x[0].len();
    let mut precision = Matrix::zeros(d, d);
    let mut right = vec![0.0; d];
    for (row, y) in x.iter().zip(y) {
        for i in 0..d {
            right[i] += row[i] * y / noise;
            (0..d).for_each(|j| precision[(i, j)] += row[i] * row[j] / noise);
        }
    }
    precision.add_diagonal(|_| 1.0);
    let mut covariance = Matrix::zeros(d, d);
    for j in 0..d {
        let unit: Vec<f64> = (0..d).map(|i| f64::from(u8::from(i == j))).collect();
        lu_solve(&precision, &unit).iter().enumerate().for_each(|(i, v)| covariance[(i, j)] = *v);
    }
    (lu_solve(&precision, &right), covariance)
}

/// Returns a root of a covariance.
fn root(c: &Matrix) -> Matrix {
    let n = c.rows();
    let mut l = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let explained: f64 = (0..j).map(|k| l[(i, k)] * l[(j, k)]).sum();
            let residual = c[(i, j)] - explained;
            l[(i, j)] = if i == j {
                residual.max(0.0).sqrt()
            } else if l[(j, j)] > 0.0 {
                residual / l[(j, j)]
            } else {
                0.0
            };
        }
    }
    l
}

fn draw(mean: &[f64], root: &Matrix, stream: &mut Stream) -> Vec<f64> {
    let z: Vec<f64> = mean.iter().map(|_| stream.normal()).collect();
    mean.iter().zip(root.matvec(&z)).map(|(m, v)| m + v).collect()
}

/// The distribution of mediators in a study as a matrix `A` (query features × mediator features). The study
/// observes `Aᵀφ_i + noise`; both have covariance C over the mediator features.
struct MediatorDistribution {
    /// Posterior mean per mediator feature, in coordinates in which C is the identity.
    means: Vec<Vec<f64>>,
    root: Matrix,
    /// Root of C.
    unit: Matrix,
}

impl MediatorDistribution {
    fn new(rows: &[Vec<f64>], mediators: &[Vec<f64>], measure: &[Vec<f64>], ridge: f64) -> Self {
        let p = mediators[0].len();
        let second_moment = mean_of(measure.iter().map(|u| outer(u, u)));
        let unit = root(&Matrix::from_row_major(p, p, second_moment));
        // With ψ = unit v, the covariance of v is the identity.
        let whitened: Vec<Vec<f64>> = mediators.iter().map(|psi| lu_solve(&unit, psi)).collect();
        let regress = |k: usize| regression(rows, &whitened.iter().map(|v| v[k]).collect::<Vec<_>>(), ridge);
        let means = (0..p).map(|k| regress(k).0).collect();
        Self { means, root: root(&regress(0).1), unit }
    }

    /// Returns the products `φᵀ A` for all query features φ, with one draw of A.
    fn draw_mediator_features(&self, queries: &[Vec<f64>], stream: &mut Stream) -> Vec<Vec<f64>> {
        let columns: Vec<Vec<f64>> = self.means.iter().map(|m| draw(m, &self.root, stream)).collect();
        let product = |phi: &Vec<f64>| {
            let v: Vec<f64> = columns.iter().map(|c| phi.iter().zip(c).map(|(a, b)| a * b).sum()).collect();
            self.unit.matvec(&v)
        };
        queries.iter().map(product).collect()
    }
}

struct SampleMoments {
    count: f64,
    mean: Vec<f64>,
    square: Matrix,
}

fn moments(draws: usize, q: usize, mut sample: impl FnMut() -> Vec<f64>) -> SampleMoments {
    let (mut mean, mut square) = (vec![0.0; q], Matrix::zeros(q, q));
    for _ in 0..draws {
        let g = sample();
        for i in 0..q {
            mean[i] += g[i];
            (0..q).for_each(|j| square[(i, j)] += g[i] * g[j]);
        }
    }
    let count = draws as f64;
    mean.iter_mut().for_each(|m| *m /= count);
    square.data_mut().iter_mut().for_each(|s| *s /= count);
    (0..q).for_each(|i| (0..q).for_each(|j| square[(i, j)] -= mean[i] * mean[j]));
    SampleMoments { count, mean, square }
}

/// Numbers of three studies, with some dependence.
struct Data {
    x: Vec<f64>,
    z: Vec<f64>,
    y: Vec<f64>,
    y2: Vec<f64>,
    v2: Vec<f64>,
    v3: Vec<f64>,
    t: Vec<f64>,
}

fn data() -> Data {
    let mut s = Stream(5);
    let mut normals = |n: usize| (0..n).map(|_| s.normal()).collect::<Vec<f64>>();
    let (x, z, e) = (normals(9), normals(9), normals(9));
    let y = x.iter().zip(&z).zip(&e).map(|((x, z), e)| 0.8 * x + 0.5 * z + 0.4 * e).collect();
    let (y2, e) = (normals(8), normals(8));
    let v2 = y2.iter().zip(&e).map(|(y, e)| 1.2 * y - 0.3 + 0.3 * e).collect();
    let (v3, e) = (normals(7), normals(7));
    let t = v3.iter().zip(&e).map(|(v, e)| 2.0 - 0.7 * v + 0.3 * e).collect();
    Data { x, z, y, y2, v2, v3, t }
}

const QUERIES: [f64; 3] = [-0.8, 0.4, 1.7];
const NOISE: f64 = 0.2;
const LEVEL: f64 = 0.6;
const RIDGE: f64 = 0.35;

fn outcome() -> OutcomeGpParameters {
    OutcomeGpParameters { kernel: kernel(), noise: NOISE, intercept_variance: LEVEL }
}

fn study(has_covariates: bool) -> StudyParameters {
    let covariates = has_covariates.then(kernel);
    StudyParameters { treatments: kernel(), covariates, ridge: RIDGE, intercepting: None }
}

/// Returns β₀ and the coefficients of f₀ from the last study, and a root of their covariance.
fn last_study(v: &[f64], t: &[f64]) -> (Vec<f64>, Matrix) {
    let mean = t.iter().sum::<f64>() / t.len() as f64;
    let rows: Vec<Vec<f64>> = v.iter().map(|v| [vec![LEVEL.sqrt()], features(*v)].concat()).collect();
    let centered: Vec<f64> = t.iter().map(|t| t - mean).collect();
    let (mut b, c) = regression(&rows, &centered, NOISE);
    let mut root = root(&c);
    b[0] = mean + LEVEL.sqrt() * b[0];
    root.row_mut(0).iter_mut().for_each(|v| *v *= LEVEL.sqrt());
    (b, root)
}

fn assert_agrees_with_draws(studies: &Studies, parameters: &Parameters, sums: &SampleMoments) {
    let estimate = studies.effect(parameters).unwrap().evaluate(&column(&QUERIES)).unwrap();
    for i in 0..QUERIES.len() {
        let se = (sums.square[(i, i)] / sums.count).sqrt();
        assert!(
            (estimate.mean[i] - sums.mean[i]).abs() < 4.5 * se,
            "{} {} {se}",
            estimate.mean[i],
            sums.mean[i]
        );
        for j in 0..QUERIES.len() {
            let (actual, expected) = (estimate.covariance[(i, j)], sums.square[(i, j)]);
            // Products have heavier tails than normal variables.
            let se = 2.0 * (sums.square[(i, i)] * sums.square[(j, j)] / sums.count).sqrt();
            assert!((actual - expected).abs() < 4.5 * se, "{i} {j}: {actual} {expected} {se}");
        }
    }
    // The causes sum to the covariance, and each is a covariance.
    for i in 0..QUERIES.len() {
        let total: f64 = estimate.causes.iter().map(|(_, part)| part[(i, i)]).sum();
        assert!((total - estimate.covariance[(i, i)]).abs() < 1e-12);
        assert!(estimate.causes.iter().all(|(_, part)| part[(i, i)] > -1e-12));
    }
}

#[test]
fn two_study_effects_match_monte_carlo_draws() {
    let Data { x, z, y, v2, y2, .. } = data();
    // The second study measured the mediator y2 and the outcome v2.
    let psi = |v: &[f64]| v.iter().map(|v| features(*v)).collect::<Vec<_>>();
    let measure = psi(&[&y[..], &y2].concat());
    for back_door in [false, true] {
        let rows: Vec<Vec<f64>> = match back_door {
            true => x.iter().zip(&z).map(|(x, z)| outer(&features(*x), &features(*z))).collect(),
            false => psi(&x),
        };
        let mean_z = mean_of(z.iter().map(|z| features(*z)));
        let queries: Vec<Vec<f64>> = match back_door {
            true => QUERIES.iter().map(|x| outer(&features(*x), &mean_z)).collect(),
            false => psi(&QUERIES),
        };
        let mediators_given_rows = MediatorDistribution::new(&rows, &psi(&y), &measure, RIDGE);
        let (b, root) = last_study(&y2, &v2);
        let mut stream = Stream(17);
        let sums = moments(200_000, QUERIES.len(), || {
            let theta = draw(&b, &root, &mut stream);
            let mediator_features = mediators_given_rows.draw_mediator_features(&queries, &mut stream);
            mediator_features.iter().map(|psi| theta[0] + psi[0] * theta[1] + psi[1] * theta[2]).collect()
        });
        let route =
            if back_door { IdentificationRoute::BackDoor(column(&z)) } else { IdentificationRoute::Direct };
        let studies = Studies {
            studies: vec![Study { treatments: column(&x), route, mediators: column(&y), shared: None }],
            points: column(&y2),
            outcome: v2.clone(),
        };
        let parameters = Parameters {
            studies: vec![study(back_door)],
            outcome: outcome(),
            adjustment: false,
            landmarks: None,
        };
        assert_agrees_with_draws(&studies, &parameters, &sums);
    }
}

#[test]
fn three_study_effects_match_monte_carlo_draws() {
    let Data { x, y, y2, v2, v3, t, .. } = data();
    let psi = |v: &[f64]| v.iter().map(|v| features(*v)).collect::<Vec<_>>();
    let first = MediatorDistribution::new(&psi(&x), &psi(&y), &psi(&[&y[..], &y2].concat()), RIDGE);
    let second = MediatorDistribution::new(&psi(&y2), &psi(&v2), &psi(&[&v2[..], &v3].concat()), RIDGE);
    let (b, root) = last_study(&v3, &t);
    let mut stream = Stream(23);
    let sums = moments(400_000, QUERIES.len(), || {
        let theta = draw(&b, &root, &mut stream);
        // A draw from the second study, for both features.
        let feature_rows = second.draw_mediator_features(&[vec![1.0, 0.0], vec![0.0, 1.0]], &mut stream);
        let mediator_features = first.draw_mediator_features(&psi(&QUERIES), &mut stream);
        let prediction = |psi: &Vec<f64>| {
            let next_features = [0, 1].map(|k| psi[0] * feature_rows[0][k] + psi[1] * feature_rows[1][k]);
            theta[0] + next_features[0] * theta[1] + next_features[1] * theta[2]
        };
        mediator_features.iter().map(prediction).collect()
    });
    let direct_study = |from: &[f64], to: &[f64]| Study {
        treatments: column(from),
        route: IdentificationRoute::Direct,
        mediators: column(to),
        shared: None,
    };
    let studies = Studies {
        studies: vec![direct_study(&x, &y), direct_study(&y2, &v2)],
        points: column(&v3),
        outcome: t.clone(),
    };
    let parameters = Parameters {
        studies: vec![study(false), study(false)],
        outcome: outcome(),
        adjustment: false,
        landmarks: None,
    };
    assert_agrees_with_draws(&studies, &parameters, &sums);
    let estimate = studies.effect(&parameters).unwrap().evaluate(&column(&QUERIES)).unwrap();
    for cause in [
        UncertaintyCause::Study(0),
        UncertaintyCause::Study(1),
        UncertaintyCause::Study(2),
        UncertaintyCause::Interaction,
    ] {
        assert!(estimate.causes.iter().any(|(listed, _)| *listed == cause), "{cause:?}");
    }
}

/// The front door averages over observed treatments, with the mediators regressed on treatments.
#[test]
fn front_door_averages_over_observed_treatments() {
    let Data { x, z: m, y, y2, v2, .. } = data();
    let psi = |v: &[f64]| v.iter().map(|v| features(*v)).collect::<Vec<_>>();
    let (mediator_kernel, ridge) = (0.7 * kernel(), 0.25);
    // The weights of each query in the regression of the mediators.
    let mut gram = mediator_kernel.gram(&column(&x));
    gram.add_diagonal(|_| ridge);
    let weights: Vec<Vec<f64>> = QUERIES
        .iter()
        .map(|a| lu_solve(&gram, &mediator_kernel.cross_gram(&column(&x), &column(&[*a])).column(0)))
        .collect();
    let mean_x = mean_of(x.iter().map(|x| features(*x)));
    let queries: Vec<Vec<f64>> = weights
        .iter()
        .map(|query_weights| {
            let mean_m: Vec<f64> = (0..2)
                .map(|k| query_weights.iter().zip(&m).map(|(w, m)| w * features(*m)[k]).sum())
                .collect();
            outer(&mean_x, &mean_m)
        })
        .collect();
    let rows: Vec<Vec<f64>> = x.iter().zip(&m).map(|(x, m)| outer(&features(*x), &features(*m))).collect();
    let mediators_given_rows =
        MediatorDistribution::new(&rows, &psi(&y), &psi(&[&y[..], &y2].concat()), RIDGE);
    let (b, root) = last_study(&y2, &v2);
    let mut stream = Stream(31);
    let sums = moments(200_000, QUERIES.len(), || {
        let theta = draw(&b, &root, &mut stream);
        let mediator_features = mediators_given_rows.draw_mediator_features(&queries, &mut stream);
        mediator_features.iter().map(|psi| theta[0] + psi[0] * theta[1] + psi[1] * theta[2]).collect()
    });
    let studies = Studies {
        studies: vec![Study {
            treatments: column(&x),
            route: IdentificationRoute::FrontDoor(column(&m)),
            mediators: column(&y),
            shared: None,
        }],
        points: column(&y2),
        outcome: v2,
    };
    let study_parameters = StudyParameters { intercepting: Some((mediator_kernel, ridge)), ..study(true) };
    assert_agrees_with_draws(
        &studies,
        &Parameters {
            studies: vec![study_parameters],
            outcome: outcome(),
            adjustment: false,
            landmarks: None,
        },
        &sums,
    );
}

/// The uncertainty of the adjustment is that of covariates reweighted by the Bayesian bootstrap.
#[test]
fn adjustment_uncertainty_matches_the_bayesian_bootstrap() {
    let Data { x, z, y, y2, v2, .. } = data();
    let n = x.len();
    let studies = Studies {
        studies: vec![Study {
            treatments: column(&x),
            route: IdentificationRoute::BackDoor(column(&z)),
            mediators: column(&y),
            shared: None,
        }],
        points: column(&y2),
        outcome: v2.clone(),
    };
    let parameters =
        Parameters { studies: vec![study(true)], outcome: outcome(), adjustment: true, landmarks: None };
    let estimate = studies.effect(&parameters).unwrap().evaluate(&column(&QUERIES)).unwrap();
    let part = &estimate.causes.iter().find(|(cause, _)| *cause == UncertaintyCause::Adjustment).unwrap().1;
    // The regression of the outcome at the mediators, and its regression on treatment and covariate.
    let (b, _) = last_study(&y2, &v2);
    let h: Vec<f64> = y.iter().map(|y| b[1] + b[2] * y).collect();
    let rows: Vec<Vec<f64>> = x.iter().zip(&z).map(|(x, z)| outer(&features(*x), &features(*z))).collect();
    let (coefficients, _) = regression(&rows, &h, RIDGE);
    let fitted = |x: f64, z: f64| -> f64 {
        outer(&features(x), &features(z)).iter().zip(&coefficients).map(|(a, b)| a * b).sum()
    };
    let mut stream = Stream(3);
    let sums = moments(200_000, QUERIES.len(), || {
        let weights: Vec<f64> = (0..n).map(|_| -(1.0 - stream.uniform()).ln()).collect();
        let total: f64 = weights.iter().sum();
        QUERIES.iter().map(|a| (0..n).map(|j| weights[j] / total * fitted(*a, z[j])).sum()).collect()
    });
    for i in 0..QUERIES.len() {
        for j in 0..QUERIES.len() {
            let se = 2.0 * (sums.square[(i, i)] * sums.square[(j, j)] / sums.count).sqrt();
            assert!((part[(i, j)] - sums.square[(i, j)]).abs() < 4.5 * se + 1e-12);
        }
    }
}

/// Returns two studies, the first with a back door or a front door, and its parameters.
fn two_studies(front_door: bool) -> (Studies, StudyParameters) {
    let Data { x, z, y, y2, v2, .. } = data();
    let route = if front_door {
        IdentificationRoute::FrontDoor(column(&z))
    } else {
        IdentificationRoute::BackDoor(column(&z))
    };
    let first = Study { treatments: column(&x), route, mediators: column(&y), shared: None };
    let intercepting = front_door.then(|| (Kernel::gaussian(&[1.3]), 0.25));
    let study_parameters = StudyParameters {
        treatments: Kernel::gaussian(&[0.9]),
        covariates: Some(Kernel::gaussian(&[1.1])),
        ridge: RIDGE,
        intercepting,
    };
    (Studies { studies: vec![first], points: column(&y2), outcome: v2 }, study_parameters)
}

fn parameters(study: StudyParameters, level: f64, adjustment: bool) -> Parameters {
    let outcome = OutcomeGpParameters {
        kernel: 1.4 * Kernel::gaussian(&[0.8]),
        noise: NOISE,
        intercept_variance: level,
    };
    Parameters { studies: vec![study], outcome, adjustment, landmarks: None }
}

/// The explained posteriors have the mean and covariance of the estimate.
#[test]
fn posteriors_match_the_estimate() {
    for front_door in [false, true] {
        for adjustment in [false, true] {
            let (studies, study_parameters) = two_studies(front_door);
            let effect = studies.effect(&parameters(study_parameters, 0.0, adjustment)).unwrap();
            let estimate = effect.evaluate(&column(&QUERIES)).unwrap();
            let (weight, model, covariance) = effect.posteriors().unwrap().remove(0);
            let posterior = riesz::Posterior::new(&model, &covariance).unwrap();
            let functionals = posterior.functionals_at(&column(&QUERIES)).unwrap();
            let (mean, covariance) =
                (posterior.mean_of(&functionals), posterior.covariance(&functionals).remove(0));
            assert_eq!(weight, 1.0);
            for i in 0..QUERIES.len() {
                assert!((mean[(i, 0)] - estimate.mean[i]).abs() < 1e-12);
                (0..QUERIES.len()).for_each(|j| {
                    let (a, b) = (covariance[(i, j)], estimate.covariance[(i, j)]);
                    assert!((a - b).abs() < 1e-10, "{front_door} {adjustment} {i} {j}: {a} {b}");
                });
            }
        }
    }
}

#[test]
fn draws_have_the_estimated_mean_and_covariance() {
    for front_door in [false, true] {
        let (studies, study_parameters) = two_studies(front_door);
        let effect = studies.effect(&parameters(study_parameters, 0.7, true)).unwrap();
        let estimate = effect.evaluate(&column(&QUERIES)).unwrap();
        let draws = effect.sample(&column(&QUERIES), 40_000, 1).unwrap();
        assert_eq!(draws.data(), effect.sample(&column(&QUERIES), 40_000, 1).unwrap().data());
        let mut draw_index = 0;
        let sums = moments(draws.cols(), QUERIES.len(), || {
            draw_index += 1;
            draws.column(draw_index - 1)
        });
        for i in 0..QUERIES.len() {
            let se = (sums.square[(i, i)] / sums.count).sqrt();
            assert!((estimate.mean[i] - sums.mean[i]).abs() < 4.5 * se);
            for j in 0..QUERIES.len() {
                let se = 2.5 * (sums.square[(i, i)] * sums.square[(j, j)] / sums.count).sqrt();
                assert!((estimate.covariance[(i, j)] - sums.square[(i, j)]).abs() < 4.5 * se);
            }
        }
    }
}

#[test]
fn study_population_reproduces_the_default_effect() {
    let (studies, study_parameters) = two_studies(false);
    let effect = studies.effect(&parameters(study_parameters, 0.7, false)).unwrap();
    let z = column(&data().z);
    let n = z.rows();
    let effect_on = |members: Table, weights: Vec<f64>| {
        effect
            .on_population(&TargetPopulation::Population(members, weights), &NEVER_STOP)
            .unwrap()
            .evaluate(&column(&QUERIES))
            .unwrap()
    };
    let (on_members, study_effect) =
        (effect_on(z.clone(), vec![1.0 / n as f64; n]), effect.evaluate(&column(&QUERIES)).unwrap());
    for i in 0..QUERIES.len() {
        assert!((on_members.mean[i] - study_effect.mean[i]).abs() < 1e-12);
        assert!((on_members.covariance[(i, i)] - study_effect.covariance[(i, i)]).abs() < 1e-12);
    }
    // Effects are linear in the population's weights. A population of one person equals the population
    // conditional on that person's covariates.
    let (first, other) =
        (effect_on(z.select_rows(&[2]), vec![1.0]), effect_on(z.select_rows(&[5]), vec![1.0]));
    let mixture = effect_on(z.select_rows(&[2, 5]), vec![0.25, 0.75]);
    let conditional = effect
        .on_population(&TargetPopulation::ConditionalOn(z.select_rows(&[2])), &NEVER_STOP)
        .unwrap()
        .evaluate(&column(&QUERIES))
        .unwrap();
    for i in 0..QUERIES.len() {
        assert!((mixture.mean[i] - 0.25 * first.mean[i] - 0.75 * other.mean[i]).abs() < 1e-12);
        assert!((conditional.mean[i] - first.mean[i]).abs() < 1e-12);
        assert!((conditional.covariance[(i, i)] - first.covariance[(i, i)]).abs() < 1e-12);
    }
    // The treated have the covariates of a regression on treatments, and the effect is linear in its weights.
    let treated = effect
        .on_population(&TargetPopulation::Treated(column(&[0.6])), &NEVER_STOP)
        .unwrap()
        .evaluate(&column(&QUERIES))
        .unwrap();
    assert!((0..3).all(|i| {
        treated.mean[i].is_finite()
            && treated.causes.iter().any(|(c, part)| *c == UncertaintyCause::Adjustment && part[(i, i)] > 0.0)
    }));
}

/// Conditional on the first of two covariates: all units with this value instead of their own, weighted by a
/// regression of the second covariate on the first.
#[test]
fn conditional_population_averages_the_other_covariate() {
    let (x, z) = (column(&data().x), column(&data().z));
    let n = z.rows();
    let covariates = Table::from_column_major(
        vec![riesz::Column::numeric("a"), riesz::Column::numeric("b")],
        n,
        [x.column(0), z.column(0)].concat(),
    )
    .unwrap();
    let (mut studies, mut study_parameters) = two_studies(false);
    studies.studies[0].route = IdentificationRoute::BackDoor(covariates.clone());
    study_parameters.covariates = Some(Kernel::gaussian(&[1.1, 0.7]));
    let effect = studies.effect(&parameters(study_parameters, 0.7, false)).unwrap();
    let a = Table::from_column_major(vec![riesz::Column::numeric("a")], 1, vec![0.4]).unwrap();
    let conditional = effect
        .on_population(&TargetPopulation::ConditionalOn(a), &NEVER_STOP)
        .unwrap()
        .evaluate(&column(&QUERIES))
        .unwrap();
    let effect_for_unit = |j: usize| {
        let unit =
            Table::from_column_major(covariates.columns().to_vec(), 1, vec![0.4, z.get(j, 0)]).unwrap();
        effect
            .on_population(&TargetPopulation::Population(unit, vec![1.0]), &NEVER_STOP)
            .unwrap()
            .evaluate(&column(&QUERIES))
            .unwrap()
    };
    let (low, high) = (0..n)
        .map(|j| effect_for_unit(j).mean[1])
        .fold((f64::MAX, f64::MIN), |(l, h), m| (l.min(m), h.max(m)));
    assert!(low < conditional.mean[1] && conditional.mean[1] < high, "{low} {} {high}", conditional.mean[1]);
    assert!(
        conditional
            .causes
            .iter()
            .any(|(cause, part)| *cause == UncertaintyCause::Adjustment && part[(0, 0)] > 0.0)
    );
}

#[test]
fn invalid_populations_are_refused() {
    let (studies, study_parameters) = two_studies(false);
    let effect = studies.effect(&parameters(study_parameters, 0.7, false)).unwrap();
    let z = column(&data().z);
    let assert_refused = |population: TargetPopulation, message: &str| {
        let error = effect.on_population(&population, &NEVER_STOP).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    assert_refused(TargetPopulation::Population(z.clone(), vec![1.0; z.rows()]), "weights of members");
    assert_refused(TargetPopulation::Population(z.clone(), vec![1.0]), "list of weights");
    assert_refused(TargetPopulation::Treated(column(&[0.0, 1.0])), "it is one row");
    let (studies, study_parameters) = two_studies(true);
    let front_door_effect = studies.effect(&parameters(study_parameters, 0.0, false)).unwrap();
    assert!(
        front_door_effect
            .on_population(&TargetPopulation::ConditionalOn(z.select_rows(&[2])), &NEVER_STOP)
            .unwrap_err()
            .to_string()
            .contains("back-door")
    );
}

/// With almost no ridge, an observed treatment gives the outcome at its mediator with the uncertainty of the
/// last study (IMP). Far from all rows of the first study, the effect is the constant.
#[test]
fn effect_has_the_limits_of_a_single_study() {
    let Data { x, y, y2, v2, .. } = data();
    let first = Study {
        treatments: column(&x),
        route: IdentificationRoute::Direct,
        mediators: column(&y),
        shared: None,
    };
    let studies = Studies { studies: vec![first], points: column(&y2), outcome: v2 };
    let study_parameters = StudyParameters {
        treatments: Kernel::gaussian(&[0.05]),
        covariates: None,
        ridge: 1e-9,
        intercepting: None,
    };
    let effect = studies.effect(&parameters(study_parameters, 0.0, false)).unwrap();
    let estimate = effect.evaluate(&column(&[x[3], 60.0])).unwrap();
    let part = |cause: UncertaintyCause, i: usize| {
        estimate.causes.iter().find(|(c, _)| *c == cause).unwrap().1[(i, i)]
    };
    assert!(part(UncertaintyCause::Study(0), 0) < 1e-6 && part(UncertaintyCause::Interaction, 0) < 1e-6);
    assert!(
        estimate.support[0].variance_explained_by_first > 0.999
            && estimate.support[1].variance_explained_by_first < 1e-9
    );
    assert!(
        (estimate.support[0].weight_sum - 1.0).abs() < 1e-6
            && (estimate.support[0].effective_rows - 1.0).abs() < 1e-6
    );
    assert!(part(UncertaintyCause::Study(1), 1) < 1e-9 && part(UncertaintyCause::Study(0), 1) > 0.0);
    let mean = studies.outcome.iter().sum::<f64>() / studies.outcome.len() as f64;
    assert!((estimate.mean[1] - mean).abs() < 1e-9);
    // The outcome at the mediator of that row, by Gaussian process regression.
    let centered: Vec<f64> = studies.outcome.iter().map(|t| t - mean).collect();
    let kernel = 1.4 * Kernel::gaussian(&[0.8]);
    let mut gram = kernel.gram(&studies.points);
    gram.add_diagonal(|_| NOISE);
    let cross = kernel.cross_gram(&studies.points, &column(&[y[3]])).column(0);
    let (a, b) = (lu_solve(&gram, &centered), lu_solve(&gram, &cross));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert!((estimate.mean[0] - mean - dot(&cross, &a)).abs() < 1e-6);
    assert!((part(UncertaintyCause::Study(1), 0) - (1.4 - dot(&cross, &b))).abs() < 1e-6);
}

#[test]
fn fit_recovers_the_effect_and_depends_only_on_the_seed() {
    let mut s = Stream(41);
    let n = 80;
    let z: Vec<f64> = (0..n).map(|_| s.normal()).collect();
    let x: Vec<f64> = z.iter().map(|z| z + 0.8 * s.normal()).collect();
    let y: Vec<f64> = x.iter().zip(&z).map(|(x, z)| x + z + 0.3 * s.normal()).collect();
    let y2: Vec<f64> = (0..n).map(|_| 5.0 * s.uniform() - 2.5).collect();
    let t: Vec<f64> = y2.iter().map(|y| 3.0 - 0.8 * y + 0.2 * s.normal()).collect();
    let first = Study {
        treatments: column(&x),
        route: IdentificationRoute::BackDoor(column(&z)),
        mediators: column(&y),
        shared: None,
    };
    let studies = Studies { studies: vec![first], points: column(&y2), outcome: t };
    let fusion = CausalFusion { draws: 4, ..CausalFusion::default() };
    let effect = fusion.fit(&studies).unwrap();
    let estimate = effect.evaluate(&column(&[-1.0, 0.0, 1.0])).unwrap();
    // The adjusted slope is -.8; the unadjusted slope is -1.3.
    for (i, x) in [-1.0, 0.0, 1.0].into_iter().enumerate() {
        let (error, sd) = (estimate.mean[i] - (3.0 - 0.8 * x), estimate.covariance[(i, i)].sqrt());
        assert!(error.abs() < 3.0 * sd && sd < 0.4, "{x}: {error} {sd}");
    }
    let repeated =
        with_threads(1, || fusion.fit(&studies).unwrap().evaluate(&column(&[-1.0, 0.0, 1.0])).unwrap());
    assert_eq!((repeated.mean, repeated.covariance.data()), (estimate.mean, estimate.covariance.data()));
    assert!(
        estimate
            .causes
            .iter()
            .any(|(cause, part)| *cause == UncertaintyCause::Hyperparameters && part[(0, 0)] > 0.0)
    );
}

#[test]
fn invalid_studies_are_refused_by_name() {
    let (studies, study_parameters) = two_studies(false);
    let assert_refused = |change: &dyn Fn(&mut Studies, &mut Parameters), message: &str| {
        let (mut studies, mut parameters) =
            (studies.clone(), parameters(study_parameters.clone(), 0.0, false));
        change(&mut studies, &mut parameters);
        let error = studies.effect(&parameters).unwrap_err().to_string();
        assert!(error.contains(message), "{message}: {error}");
    };
    assert_refused(&|s, _| s.studies.clear(), "list of studies");
    assert_refused(&|s, _| s.outcome.truncate(3), "the outcome");
    assert_refused(&|s, _| s.outcome[2] = f64::NAN, "NaN");
    assert_refused(&|s, _| s.studies[0].mediators = column(&[1.0]), "mediators of study 1");
    assert_refused(
        &|s, _| s.studies[0].route = IdentificationRoute::BackDoor(column(&[1.0])),
        "covariates of study 1",
    );
    assert_refused(&|_, p| p.studies.clear(), "studies' parameters");
    assert_refused(&|_, p| p.studies[0].ridge = 0.0, "ridge");
    assert_refused(&|_, p| p.studies[0].covariates = None, "kernel of covariates");
    assert_refused(&|_, p| p.outcome.noise = -1.0, "noise");
    assert_refused(&|_, p| p.outcome.intercept_variance = f64::NAN, "level");
    assert_refused(
        &|s, p| {
            s.studies[0].route = IdentificationRoute::FrontDoor(column(&data().z));
            p.studies[0].intercepting = None;
        },
        "intercepting",
    );
    let constant = Studies { outcome: vec![1.0; studies.outcome.len()], ..studies.clone() };
    assert!(CausalFusion::default().fit(&constant).unwrap_err().to_string().contains("nothing to learn"));
}

/// Covariates shared by both studies: each person of the first study has a mediator and their own covariate.
#[test]
fn shared_covariates_keep_individual_values() {
    let Data { x, z, y, y2, v2, .. } = data();
    let mut s = Stream(77);
    let w2: Vec<f64> = y2.iter().map(|_| s.normal()).collect();
    let t: Vec<f64> = v2.iter().zip(&w2).zip(&y2).map(|((v, w), y)| v + 0.6 * w * y - 0.4 * w).collect();
    let psi = |v: &[f64]| v.iter().map(|v| features(*v)).collect::<Vec<_>>();
    let outer_products = |v: &[f64], w: &[f64]| -> Vec<Vec<f64>> {
        v.iter().zip(w).map(|(v, w)| outer(&features(*v), &features(*w))).collect()
    };
    let mediators_given_rows =
        MediatorDistribution::new(&outer_products(&x, &z), &psi(&y), &psi(&[&y[..], &y2].concat()), RIDGE);
    // The last study with features of mediator and covariate.
    let mean = t.iter().sum::<f64>() / t.len() as f64;
    let rows: Vec<Vec<f64>> =
        outer_products(&y2, &w2).into_iter().map(|product| [vec![LEVEL.sqrt()], product].concat()).collect();
    let (b, c) = regression(&rows, &t.iter().map(|t| t - mean).collect::<Vec<_>>(), NOISE);
    let outcome_root = root(&c);
    let queries: Vec<Vec<f64>> =
        QUERIES.iter().flat_map(|a| z.iter().map(|z| outer(&features(*a), &features(*z)))).collect();
    let mut stream = Stream(19);
    let sums = moments(200_000, QUERIES.len(), || {
        let theta = draw(&b, &outcome_root, &mut stream);
        let mediator_features = mediators_given_rows.draw_mediator_features(&queries, &mut stream);
        let n = z.len();
        let mean_outcome = |a: usize| {
            let f = |j: usize| {
                let product = outer(&mediator_features[a * n + j], &features(z[j]));
                product.iter().zip(&theta[1..]).map(|(p, t)| p * t).sum::<f64>()
            };
            mean + LEVEL.sqrt() * theta[0] + (0..n).map(f).sum::<f64>() / n as f64
        };
        (0..QUERIES.len()).map(mean_outcome).collect()
    });
    let table = |names: &[&str], columns: &[&[f64]]| {
        let columns_of = names.iter().map(|name| riesz::Column::numeric(*name)).collect();
        Table::from_column_major(columns_of, columns[0].len(), columns.concat()).unwrap()
    };
    let studies = Studies {
        studies: vec![Study {
            treatments: column(&x),
            route: IdentificationRoute::BackDoor(table(&["w"], &[&z])),
            mediators: table(&["y"], &[&y]),
            shared: Some(table(&["w"], &[&z])),
        }],
        // The columns are in another order.
        points: table(&["w", "y"], &[&w2, &y2]),
        outcome: t,
    };
    let factor = |j: usize| -> Kernel {
        Kernel::constant(1.0) + Linear { columns: vec![j], center: vec![0.0], scale: vec![1.0] }.into()
    };
    let mut parameters =
        Parameters { studies: vec![study(true)], outcome: outcome(), adjustment: false, landmarks: None };
    // This kernel is not a single term, but still a product.
    parameters.outcome.kernel = factor(0) * factor(1);
    assert_agrees_with_draws(&studies, &parameters, &sums);
    let effect = studies.effect(&parameters).unwrap();
    let drawn = effect.sample(&column(&QUERIES), 20_000, 1).unwrap();
    let estimate = effect.evaluate(&column(&QUERIES)).unwrap();
    let mean = drawn.row(0).iter().sum::<f64>() / 20_000.0;
    assert!((mean - estimate.mean[0]).abs() < 4.5 * (estimate.covariance[(0, 0)] / 20_000.0).sqrt());
    let error = effect
        .on_population(&TargetPopulation::ConditionalOn(table(&["w"], &[&[0.0]])), &NEVER_STOP)
        .unwrap_err()
        .to_string();
    assert!(error.contains("share no covariates"), "{error}");
    parameters.outcome.kernel = Kernel::gaussian(&[0.8, 1.1]) + Kernel::constant(1.0);
    assert!(studies.effect(&parameters).unwrap_err().to_string().contains("kernel of the outcome"));
    let mut direct = studies.clone();
    direct.studies[0].route = IdentificationRoute::Direct;
    parameters.studies[0].covariates = None;
    assert!(direct.effect(&parameters).unwrap_err().to_string().contains("shared covariates"));
}

/// The support of queries by the studies does not depend on the outcome's unit.
#[test]
fn support_does_not_depend_on_the_outcome_unit() {
    let Data { x, y, y2, v2, v3, t, .. } = data();
    let direct_study = |from: &[f64], to: &[f64]| Study {
        treatments: column(from),
        route: IdentificationRoute::Direct,
        mediators: column(to),
        shared: None,
    };
    let chain = Studies {
        studies: vec![direct_study(&x, &y), direct_study(&y2, &v2)],
        points: column(&v3),
        outcome: t,
    };
    let (two_study, front_door) = two_studies(true);
    let direct_parameters = StudyParameters { treatments: Kernel::gaussian(&[0.9]), ..study(false) };
    for (studies, study_parameters) in
        [(chain, vec![direct_parameters.clone(), direct_parameters]), (two_study, vec![front_door])]
    {
        let estimate = |unit: f64| {
            let outcome = studies.outcome.iter().map(|t| t * unit).collect();
            let (studies, squared_unit) = (Studies { outcome, ..studies.clone() }, unit * unit);
            let outcome = OutcomeGpParameters {
                kernel: squared_unit * Kernel::gaussian(&[0.8]),
                noise: squared_unit * NOISE,
                intercept_variance: squared_unit * LEVEL,
            };
            let parameters =
                Parameters { studies: study_parameters.clone(), outcome, adjustment: true, landmarks: None };
            studies.effect(&parameters).unwrap().evaluate(&column(&[0.1, 50.0])).unwrap()
        };
        let (original, rescaled) = (estimate(1.0), estimate(1e3));
        for (a, b) in original.support.iter().zip(&rescaled.support) {
            assert!((a.variance_explained_by_first - b.variance_explained_by_first).abs() < 1e-9);
            assert!((a.resolved_by_rest - b.resolved_by_rest).abs() < 1e-9, "{a:?} {b:?}");
        }
        assert!(original.support[0].resolved_by_rest > 0.3, "{:?}", original.support[0]);
    }
}

#[test]
fn invalid_draws_and_fits_are_refused() {
    let (studies, study_parameters) = two_studies(false);
    let effect = studies.effect(&parameters(study_parameters.clone(), 0.0, false)).unwrap();
    let error = effect.sample(&column(&QUERIES), usize::MAX / 64, 0).unwrap_err().to_string();
    assert!(error.contains("number of draws"), "{error}");
    let invalid = CausalFusion { level: f64::NAN, ..CausalFusion::default() };
    assert!(invalid.fit(&studies).unwrap_err().to_string().contains("level"));
    let single_row = Studies { points: column(&[1.0]), outcome: vec![2.0], ..studies.clone() };
    assert!(
        single_row
            .effect(&parameters(study_parameters, 0.0, false))
            .unwrap_err()
            .to_string()
            .contains("too small")
    );
    assert!(CausalFusion { draws: 2, seed: u64::MAX, ..CausalFusion::default() }.fit(&studies).is_ok());
}

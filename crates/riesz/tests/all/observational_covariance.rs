//! Covariances of observational values against sums over all coalitions, with weights of the reference rows
//! from plain formulas, and against draws.

use riesz::attribution::sampled_shapley::Budget;
use riesz::explanation::UncertaintySource;
use riesz::fit::GaussianProcess;
use riesz::kernel::{Linear, Polynomial, Profile};
use riesz::linalg::{Cholesky, Sparse};
use riesz::posterior::Functionals;
use riesz::{
    Background, Conditioning, ConditioningKernel, Explainer, Explanation, Game, Kernel, KernelExpansion,
    Matrix, Players, Posterior, Question, Table,
};

use crate::common::{Stream, stationary};
use crate::observational::solve;

const RIDGE: f64 = 0.05;

fn close(a: &Matrix, b: &Matrix, label: &str) {
    let size = b.data().iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    for (a, b) in a.data().iter().zip(b.data()) {
        assert!((a - b).abs() < 1e-9 * size, "{label}: {a} {b}");
    }
}

/// Returns the weight of a coalition's value in the Shapley value of player j.
fn share(mask: usize, j: usize, p: usize) -> f64 {
    let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
    let size = (mask & !(1 << j)).count_ones() as usize;
    let weight = factorial(size) * factorial(p - 1 - size) / factorial(p);
    if mask >> j & 1 == 1 { weight } else { -weight }
}

/// The similarity of two rows in the marked columns.
type SimilarityFn<'a> = &'a dyn Fn(&[bool], &[f64], &[f64]) -> f64;

/// Rows at which f is evaluated, and weights by row and player: every coalition is a weighted sum of values
/// of f.
struct Truth<'a> {
    reference: &'a Background,
    players: &'a [Vec<usize>],
    /// The conditioning similarity over the marked columns.
    similarity: SimilarityFn<'a>,
    centered: bool,
    /// Whether the kernel has one factor per player.
    factors: bool,
}

impl Truth<'_> {
    fn functionals(&self, posterior: &Posterior<'_>, rows: &Table) -> Functionals {
        let raw = self.reference.weights.clone().unwrap();
        let total: f64 = raw.iter().sum();
        let w: Vec<f64> = raw.iter().map(|w| w / total).collect();
        let reference: Vec<Vec<f64>> = (0..w.len()).map(|b| self.reference.rows.row(b)).collect();
        let p = self.players.len();
        let (mut points, mut weights) = (Vec::new(), vec![Vec::new(); rows.rows() * p]);
        for r in 0..rows.rows() {
            let x = rows.row(r);
            for mask in 0..1_usize << p {
                let present: Vec<bool> = (0..x.len())
                    .map(|c| {
                        self.players
                            .iter()
                            .zip(0..)
                            .any(|(player, j)| mask >> j & 1 == 1 && player.contains(&c))
                    })
                    .collect();
                let mut weighted_rows: Vec<(Vec<f64>, f64)> = Vec::new();
                if mask == (1 << p) - 1 {
                    weighted_rows.push((x.clone(), 1.0));
                } else if mask == 0 {
                    weighted_rows.extend(reference.iter().cloned().zip(w.iter().copied()));
                } else {
                    let k = |u: &[f64], v: &[f64]| (self.similarity)(&present, u, v);
                    let system = (0..w.len()).map(|b| {
                        let mut row: Vec<f64> = reference.iter().map(|c| k(&reference[b], c)).collect();
                        row[b] += RIDGE / w[b];
                        row
                    });
                    let conditional_weights =
                        solve(system.collect(), reference.iter().map(|c| k(c, &x)).collect());
                    let missing = 1.0 - conditional_weights.iter().sum::<f64>();
                    for (b, row_weight) in conditional_weights.into_iter().enumerate() {
                        let mut row = reference[b].clone();
                        if self.factors {
                            (0..x.len()).filter(|&c| present[c]).for_each(|c| row[c] = x[c]);
                        }
                        weighted_rows.push((row, row_weight));
                        if self.centered {
                            weighted_rows.push((reference[b].clone(), missing * w[b]));
                        }
                    }
                }
                for (row, weight) in weighted_rows {
                    for j in 0..p {
                        weights[r * p + j].push((points.len(), share(mask, j, p) * weight));
                    }
                    points.push(row);
                }
            }
        }
        let sparse = Sparse::from_columns(points.len(), weights).unwrap();
        posterior.weighted_sum_functionals(&Table::from_rows(&points).unwrap(), &sparse).unwrap()
    }
}

/// The means are the values, and explanations contain the blocks of the joint covariance of each row.
fn assert_moments(explained: &Explanation, means: &Matrix, joint: &[Matrix], label: &str) {
    explained.validate().unwrap();
    assert_eq!(explained.uncertainty.as_ref().unwrap().source, Some(UncertaintySource::Posterior));
    let p = explained.sets();
    for (r, o) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let covariance = explained.covariance(r, o).unwrap();
        for j in 0..p {
            assert!((means[(r * p + j, o)] - explained.row_values(r, o)[j]).abs() < 1e-9, "{label}");
            for l in 0..p {
                let truth = joint[o][(r * p + j, r * p + l)];
                assert!((covariance[j * p + l] - truth).abs() < 1e-9 * truth.abs().max(0.1), "{label}");
            }
        }
    }
}

/// Kernels of one product, of several and of none; weights, groups, another conditioning kernel, centered or
/// not, two outputs.
#[test]
fn covariances_are_those_of_sums_over_coalitions() {
    let mut s = Stream(41);
    let factor = |profile, j| stationary(profile, j, 1.3);
    let linear = Kernel::from(Linear { columns: vec![0], center: vec![0.3], scale: vec![1.0] });
    let product = factor(Profile::Gaussian, 0)
        * factor(Profile::Matern32, 1)
        * factor(Profile::Gaussian, 2)
        * factor(Profile::Exponential, 3);
    let several =
        product.clone() + 0.5 * (linear * factor(Profile::Gaussian, 2)) + 0.2 * Kernel::constant(1.0);
    let tied = Kernel::from(Polynomial {
        columns: vec![0, 1, 2, 3],
        center: vec![0.0; 4],
        scale: vec![1.0; 4],
        gamma: 0.3,
        coef0: 1.0,
        degree: 3,
    });
    // Computed from the table, without the library.
    let laplacian = |on: &[bool], u: &[f64], v: &[f64]| -> f64 {
        let distance: f64 = (0..4).filter(|&j| on[j]).map(|j| (u[j] - v[j]).abs() / 1.7).sum();
        (-distance).exp()
    };
    let conditioning = (0..4).map(|j| stationary(Profile::Exponential, j, 1.7));
    let conditioning = conditioning.reduce(|a, b| a * b).unwrap();
    for (name, kernel, factors) in [("one", product, true), ("several", several, true), ("tied", tied, false)]
    {
        let (x, rows) = (s.normals(20, 4), s.normals(2, 4));
        let y = Matrix::from_row_major(20, 2, (0..40).map(|_| s.signed()).collect());
        let fit = GaussianProcess::new(kernel, 0.3).fit(&x, &y).unwrap();
        let posterior = fit.posterior();
        let reference = Background { rows: s.normals(4, 4), weights: Some(vec![0.5, 1.5, 1.0, 0.8]) };
        let names: Vec<String> = x.columns().iter().map(|c| c.name.clone()).collect();
        let pair = [("both".to_string(), vec![names[1].clone(), names[2].clone()])];
        for groups in [Players::singletons(x.columns()), Players::named(x.columns(), &pair).unwrap()] {
            let players: Vec<Vec<usize>> = groups.players().iter().map(|p| p.columns.clone()).collect();
            let p = players.len();
            for centered in [true, false] {
                let mut settings = Conditioning::with_ridge(RIDGE);
                settings.kernel = ConditioningKernel::Given(conditioning.clone());
                settings.centered = centered;
                let game = Game::Observational { reference: reference.clone(), conditional: settings.into() };
                let question = Question::from(game).with_players(Some(groups.clone())).with_covariance();
                let explainer = Explainer::new(&fit.model, question)
                    .unwrap()
                    .with_posterior(Some(&fit.covariance))
                    .unwrap();
                let functionals = explainer.posterior_functionals(&rows).unwrap();
                let truth = Truth {
                    reference: &reference,
                    players: &players,
                    similarity: &laplacian,
                    centered,
                    factors,
                };
                let truth = truth.functionals(&posterior, &rows);
                let label = format!("{name} {p} {centered}");
                close(&functionals.prior_covariance, &truth.prior_covariance, &label);
                close(&functionals.columns, &truth.columns, &label);
                assert!(functionals.constants.iter().all(|c| *c == 0.0));
                let explained = explainer.explain(&rows).unwrap();
                let (means, joint) = (posterior.mean_of(&functionals), posterior.covariance(&truth));
                assert_moments(&explained, &means, &joint, &label);
            }
        }
    }
}

/// Covariances against those of explanations of functions drawn from a Gaussian process, one output each.
#[test]
fn covariances_are_those_of_draws() {
    let mut s = Stream(43);
    let (d, draws) = (3, 3000);
    let kernel = (0..d).map(|j| stationary(Profile::Exponential, j, 2.0)).reduce(|a, b| a * b).unwrap();
    let (x, reference, row) = (s.normals(6, d), s.normals(3, d), s.normals(1, d));
    let y = Matrix::column_vector((0..6).map(|_| s.signed()).collect());
    let mut estimator = GaussianProcess::new(kernel, 0.2);
    estimator.normalize_y = false;
    let fit = estimator.fit(&x, &y).unwrap();
    // The kernel is tuned, and so is the conditioning kernel.
    let kernel = fit.model.kernel.clone();
    let game = Game::Observational {
        reference: reference.clone().into(),
        conditional: Conditioning::with_ridge(RIDGE).into(),
    };
    // All rows at which coalitions evaluate f.
    let mixed = (1..1 << d).flat_map(|mask| (0..3).map(move |b| (mask, b))).map(|(mask, b)| {
        (0..d).map(|j| if mask >> j & 1 == 1 { row.get(0, j) } else { reference.get(b, j) }).collect()
    });
    let mut points: Vec<Vec<f64>> = mixed.filter(|point: &Vec<f64>| *point != row.row(0)).collect();
    points.extend((0..3).map(|b| reference.row(b)).chain([row.row(0)]));
    let table = Table::from_rows(&points).unwrap();
    let posterior = fit.posterior();
    let drawn = posterior.sample(&posterior.functionals_at(&table).unwrap(), draws, 7).unwrap();
    let gram = Cholesky::new(kernel.gram(&table), "gram matrix").unwrap();
    let functions =
        KernelExpansion::new(kernel, table, gram.solve(drawn.values[0].clone()), vec![0.0; draws]).unwrap();
    let explained_draws = Explainer::new(&functions, game.clone()).unwrap().explain(&row).unwrap();
    let explainer = Explainer::new(&fit.model, Question::from(game).with_covariance()).unwrap();
    let explanation = explainer.with_posterior(Some(&fit.covariance)).unwrap().explain(&row).unwrap();
    let covariance = explanation.covariance(0, 0).unwrap();
    for (j, l) in (0..d).flat_map(|j| (0..d).map(move |l| (j, l))) {
        let deviation =
            |o: usize, k: usize| explained_draws.row_values(0, o)[k] - explanation.row_values(0, 0)[k];
        let product = |o: usize| deviation(o, j) * deviation(o, l);
        let mean = (0..draws).map(product).sum::<f64>() / draws as f64;
        let size = covariance[j * d + j] * covariance[l * d + l] + covariance[j * d + l].powi(2);
        let error = (size / draws as f64).sqrt();
        assert!((mean - covariance[j * d + l]).abs() < 4.0 * error, "{j} {l}: {mean} {covariance:?}");
        assert!(error < 0.1 * size.sqrt());
    }
}

#[test]
fn estimates_and_many_features_are_refused() {
    let mut s = Stream(47);
    let y = Matrix::column_vector((0..10).map(f64::from).collect());
    let refused = |d: usize, budget: Budget| {
        let x = s.normals(10, d);
        let fit = GaussianProcess::new(Kernel::gaussian(&vec![1.0; d]), 0.2).fit(&x, &y).unwrap();
        let question = Question { budget, ..Question::from(Game::observational(&fit.model)) };
        let explainer = Explainer::new(&fit.model, question.with_covariance()).unwrap();
        let joint = explainer.posterior_functionals(&x.select_rows(&[0])).map(|_| ());
        let rowwise = explainer.with_posterior(Some(&fit.covariance)).map(|_| ());
        assert_eq!(joint.as_ref().err().map(|e| e.to_string()), rowwise.err().map(|e| e.to_string()));
        joint.err().map(|e| e.to_string()).unwrap_or_default()
    };
    let mut refused = refused;
    let small_budget = Budget { coalitions: 13, ..Budget::default() };
    assert!(refused(4, small_budget).contains("more than 13 coalitions"));
    let error_budget = Budget { std_error: Some(0.1), ..Budget::default() };
    assert!(refused(4, error_budget).contains("a standard error was requested"));
    let large_budget = Budget { coalitions: 1 << 13, ..Budget::default() };
    assert!(refused(13, large_budget).contains("up to 12 features, and here are 13: group them"));
    assert_eq!(refused(4, Budget { coalitions: 14, ..Budget::default() }), "");
}

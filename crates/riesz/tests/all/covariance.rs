//! Covariances of values under a posterior against sums over all coalitions, which do not use the product
//! structure.

use riesz::explanation::UncertaintySource;
use riesz::fit::GaussianProcess;
use riesz::index::Interaction;
use riesz::kernel::{Categorical, Linear, Profile};
use riesz::linalg::Sparse;
use riesz::{Background, Explainer, Game, Kernel, Matrix, Players, Question, Table, ValueIndex};

use crate::common::{Stream, stationary};

/// Rows at which f is evaluated, and for each sum the indices of rows with their weights.
type Sums = (Vec<Vec<f64>>, Vec<Vec<(usize, f64)>>);

/// Returns all rows that represent a coalition for row r, with their weights.
fn stand(game: &Game, rows: &Table, players: &[Vec<usize>], mask: usize, r: usize) -> Vec<(Vec<f64>, f64)> {
    let p = players.len();
    let mut stand: Vec<(Vec<f64>, f64)> = Vec::new();
    match game {
        Game::Baseline { point } => stand.push((point.row(0), 1.0)),
        Game::Interventional { background } => {
            let raw = background.weights.clone().unwrap();
            let total: f64 = raw.iter().sum();
            stand.extend((0..raw.len()).map(|b| (background.rows.row(b), raw[b] / total)));
        }
        Game::MarginalProduct { background } => {
            let n = background.rows.rows();
            let combinations = n.pow(p as u32);
            for mut k in 0..combinations {
                let mut row = background.rows.row(0);
                for columns in players {
                    columns.iter().for_each(|&j| row[j] = background.rows.get(k % n, j));
                    k /= n;
                }
                stand.push((row, 1.0 / combinations as f64));
            }
        }
        other => panic!("{other:?}"),
    }
    for (row, _) in &mut stand {
        for (columns, _) in players.iter().zip(0..).filter(|(_, j)| mask >> j & 1 == 1) {
            columns.iter().for_each(|&j| row[j] = rows.get(r, j));
        }
    }
    stand
}

/// Returns the value of each coalition for a row, as a weighted sum of predictions at mixed rows.
fn coalitions(game: &Game, row: &Table, players: &[Vec<usize>]) -> Sums {
    let (mut mixtures, mut weights) = (Vec::new(), Vec::new());
    for mask in 0..1_usize << players.len() {
        let stand = stand(game, row, players, mask, 0);
        weights.push(stand.iter().enumerate().map(|(k, (_, w))| (mixtures.len() + k, *w)).collect());
        mixtures.extend(stand.into_iter().map(|(row, _)| row));
    }
    (mixtures, weights)
}

/// Returns the probability of one coalition of `n_others` other players, of p players in all, in a player's
/// value.
fn share(index: ValueIndex, n_others: usize, p: usize) -> f64 {
    let product = |from: f64, count: usize| (0..count).map(|i| from + i as f64).product::<f64>();
    let left = p - 1 - n_others;
    match index {
        ValueIndex::Shapley => product(1.0, n_others) * product(1.0, left) / product(1.0, p),
        ValueIndex::Banzhaf { inclusion_probability: chance } => {
            chance.powi(n_others as i32) * (1.0 - chance).powi(left as i32)
        }
        // The mean of t^others (1 - t)^left under the Beta distribution.
        ValueIndex::BetaShapley { alpha, beta } => {
            product(beta, n_others) * product(alpha, left) / product(alpha + beta, p - 1)
        }
        other => panic!("{other}"),
    }
}

/// Returns each player's value for each row, as a weighted sum of predictions at mixed rows.
pub fn sums(game: &Game, index: ValueIndex, rows: &Table, players: &[Vec<usize>]) -> Sums {
    let p = players.len();
    let (mut mixtures, mut weights) = (Vec::new(), vec![Vec::new(); rows.rows() * p]);
    for r in 0..rows.rows() {
        for mask in 0..1_usize << p {
            let s = mask.count_ones() as usize;
            let stand = stand(game, rows, players, mask, r);
            for (row, weight) in stand {
                let position = mixtures.len();
                mixtures.push(row);
                for j in 0..p {
                    let coefficient =
                        if mask >> j & 1 == 1 { share(index, s - 1, p) } else { -share(index, s, p) };
                    weights[r * p + j].push((position, coefficient * weight));
                }
            }
        }
    }
    (mixtures, weights)
}

pub fn close(a: &Matrix, b: &Matrix, label: &str) {
    let size = b.data().iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    for (a, b) in a.data().iter().zip(b.data()) {
        assert!((a - b).abs() < 1e-10 * size.max(1.0), "{label}: {a} {b}");
    }
}

/// Kernels of one product and of several, with factors of all signs, groups, weights, two outputs.
#[test]
fn covariances_are_those_of_sums_over_coalitions() {
    let mut s = Stream(17);
    let factor = |profile, j| stationary(profile, j, 1.3);
    let gaussian = factor(Profile::Gaussian, 0) * factor(Profile::Matern32, 1) * factor(Profile::Gaussian, 2);
    let linear =
        |j: usize| -> Kernel { Linear { columns: vec![j], center: vec![0.3], scale: vec![1.0] }.into() };
    let category = Kernel::from(Categorical { columns: [3], similarity: 0.4 });
    let kernels = [
        gaussian.clone() * category.clone(),
        gaussian * category + 0.5 * (linear(0) * factor(Profile::Gaussian, 2)) + 0.2 * Kernel::constant(1.0),
        linear(0) * linear(1) + factor(Profile::Matern52, 3),
    ];
    for kernel in kernels {
        let (x, rows) = (s.normals_and_levels(25, 4), s.normals_and_levels(2, 4));
        let y = Matrix::from_row_major(25, 2, (0..50).map(|_| s.signed()).collect());
        let fit = GaussianProcess::new(kernel, 0.3).fit(&x, &y).unwrap();
        let background = Background { rows: s.normals_and_levels(3, 4), weights: Some(vec![0.5, 1.5, 1.0]) };
        let names: Vec<String> = x.columns().iter().map(|c| c.name.clone()).collect();
        let pair =
            Players::named(x.columns(), &[("both".to_string(), vec![names[1].clone(), names[2].clone()])]);
        for groups in [Players::singletons(x.columns()), pair.unwrap()] {
            let players: Vec<Vec<usize>> = groups.players().iter().map(|p| p.columns.clone()).collect();
            for game in [
                Game::Baseline { point: background.rows.select_rows(&[1]) },
                Game::Interventional { background: background.clone() },
                Game::MarginalProduct { background: background.rows.clone().into() },
            ] {
                let question = Question::from(game.clone()).with_players(Some(groups.clone()));
                let posterior = fit.posterior();
                for index in [
                    ValueIndex::Banzhaf { inclusion_probability: 0.3 },
                    ValueIndex::Banzhaf { inclusion_probability: 1.0 },
                    ValueIndex::BetaShapley { alpha: 4.0, beta: 1.5 },
                ] {
                    let explainer = Explainer::new(&fit.model, question.clone().with_index(index)).unwrap();
                    let functionals = explainer.posterior_functionals(&rows).unwrap();
                    let (mixtures, weights) = sums(&game, index, &rows, &players);
                    let sparse = Sparse::from_columns(mixtures.len(), weights).unwrap();
                    let truth = posterior
                        .weighted_sum_functionals(&Table::from_rows(&mixtures).unwrap(), &sparse)
                        .unwrap();
                    close(
                        &functionals.prior_covariance,
                        &truth.prior_covariance,
                        &format!("{index} {}", game.name()),
                    );
                    close(&functionals.columns, &truth.columns, &format!("{index} {}", game.name()));
                }
                let explainer = Explainer::new(&fit.model, question).unwrap();
                let functionals = explainer.posterior_functionals(&rows).unwrap();
                let (mixtures, weights) = sums(&game, ValueIndex::Shapley, &rows, &players);
                let sparse = Sparse::from_columns(mixtures.len(), weights).unwrap();
                let truth = posterior
                    .weighted_sum_functionals(&Table::from_rows(&mixtures).unwrap(), &sparse)
                    .unwrap();
                close(&functionals.prior_covariance, &truth.prior_covariance, game.name());
                close(&functionals.columns, &truth.columns, game.name());
                for (a, b) in posterior.covariance(&functionals).iter().zip(posterior.covariance(&truth)) {
                    close(a, &b, game.name());
                }
                // The means are the values.
                let (means, values) = (posterior.mean_of(&functionals), explainer.explain(&rows).unwrap());
                for r in 0..2 {
                    for o in 0..2 {
                        for (j, value) in values.row_values(r, o).iter().enumerate() {
                            assert!((means[(r * players.len() + j, o)] - value).abs() < 1e-9);
                        }
                    }
                }
            }
        }
    }
}

/// With many players, for whom the quadrature rule is not exact, values sum to f(x) minus its mean, and so do
/// their covariances.
#[test]
fn covariances_of_many_players_sum_up() {
    let (mut s, d) = (Stream(5), 40);
    let (x, y) = (s.normals(30, d), Matrix::column_vector((0..30).map(|_| s.signed()).collect()));
    let fit = GaussianProcess::new(Kernel::gaussian(&vec![9.0; d]), 0.2).fit(&x, &y).unwrap();
    let (background, rows) = (s.normals(11, d), s.normals(2, d));
    let explainer = Explainer::interventional(&fit.model, &background).unwrap();
    let posterior = fit.posterior();
    let covariance = &posterior.covariance(&explainer.posterior_functionals(&rows).unwrap())[0];
    let mut points: Vec<Vec<f64>> = (0..2).map(|r| rows.row(r)).collect();
    points.extend((0..11).map(|b| background.row(b)));
    let weights = (0..2).map(|r| std::iter::once((r, 1.0)).chain((0..11).map(|b| (2 + b, -1.0 / 11.0))));
    let weights = Sparse::from_columns(13, weights.map(|w| w.collect::<Vec<_>>())).unwrap();
    let truth = &posterior.covariance(
        &posterior.weighted_sum_functionals(&Table::from_rows(&points).unwrap(), &weights).unwrap(),
    )[0];
    for (r, q) in [(0, 0), (0, 1), (1, 1)] {
        let pairs = (0..d).flat_map(|j| (0..d).map(move |l| (r * d + j, q * d + l)));
        let sum: f64 = pairs.map(|entry| covariance[entry]).sum();
        assert!((sum - truth[(r, q)]).abs() < 1e-12, "{r} {q}: {sum} {}", truth[(r, q)]);
    }
    assert!((0..2 * d).all(|j| covariance[(j, j)] >= 0.0));
}

#[test]
fn what_has_no_covariance_is_refused() {
    let (mut s, y) = (Stream(2), Matrix::column_vector((0..10).map(f64::from).collect()));
    let x = s.normals(10, 2);
    let fit = GaussianProcess::new(Kernel::gaussian(&[1.0, 1.0]), 0.2).fit(&x, &y).unwrap();
    let ask = |question: Question| {
        Explainer::new(&fit.model, question).unwrap().posterior_functionals(&x).unwrap_err().to_string()
    };
    assert!(ask(Game::Functional.into()).contains("a game with a background or a baseline"));
    let point = Game::Baseline { point: x.select_rows(&[0]) };
    let pairs = ValueIndex::Interaction { kind: Interaction::Sii, order: 2 };
    assert!(ask(Question::from(point).with_index(pairs)).contains("Beta-Shapley"));
}

/// Covariances in explanations are blocks of the joint covariance of each row and output, independent of the
/// other rows.
#[test]
fn explanations_contain_posterior_covariances() {
    let mut s = Stream(23);
    let (x, background, rows) = (s.normals(40, 3), s.normals(5, 3), s.normals(70, 3));
    let y = Matrix::from_row_major(40, 2, (0..80).map(|_| s.signed()).collect());
    let mut estimator = GaussianProcess::new(Kernel::gaussian(&[1.0, 2.0, 1.5]), 0.2);
    estimator.normalize_y = true;
    let fit = estimator.fit(&x, &y).unwrap();
    let question = Question::from(Game::Interventional { background: background.into() });
    let ask = |question: Question| {
        Explainer::new(&fit.model, question).unwrap().with_posterior(Some(&fit.covariance)).unwrap()
    };
    let explainer = ask(question.clone().with_covariance());
    let explanation = explainer.explain(&rows).unwrap();
    explanation.validate().unwrap();
    assert_eq!(explanation.uncertainty.as_ref().unwrap().source, Some(UncertaintySource::Posterior));
    let subset = [0, 68];
    let joint = explainer.posterior_functionals(&rows.select_rows(&subset)).unwrap();
    for (o, truth) in fit.posterior().covariance(&joint).iter().enumerate() {
        for (position, &r) in subset.iter().enumerate() {
            let covariance = explanation.covariance(r, o).unwrap();
            for (j, l) in (0..3).flat_map(|j| (0..3).map(move |l| (j, l))) {
                let truth = truth[(position * 3 + j, position * 3 + l)];
                assert!(
                    (covariance[j * 3 + l] - truth).abs() < 1e-12 * truth.abs().max(0.01),
                    "{r} {o} {j} {l}"
                );
            }
        }
    }
    // The values equal those of a question without covariance.
    let plain = ask(question).explain(&rows).unwrap();
    assert!(plain.uncertainty.is_none() && plain.values == explanation.values);
    // The values of a row sum to f(x) minus its mean, and the standard deviation of a sum is at most the sum
    // of the deviations.
    let players: Vec<usize> = (0..3).collect();
    assert!(
        explanation.sd_of_sum(0, 0, &players).unwrap() <= explanation.sd().unwrap()[..3].iter().sum::<f64>()
    );
}

#[test]
fn covariances_need_a_posterior() {
    let (mut s, y) = (Stream(2), Matrix::column_vector((0..10).map(f64::from).collect()));
    let x = s.normals(10, 2);
    let fit = GaussianProcess::new(Kernel::gaussian(&[1.0, 1.0]), 0.2).fit(&x, &y).unwrap();
    let question = Question::from(Game::Interventional { background: x.clone().into() }).with_covariance();
    let words = |result: Result<(), riesz::Error>| result.unwrap_err().to_string();
    let explainer = Explainer::new(&fit.model, question.clone()).unwrap();
    let message = words(explainer.explain(&x).map(|_| ()));
    assert!(message.contains("--posterior") && message.contains("covariance"), "{message}");
    assert_eq!(words(explainer.with_posterior(None).map(|_| ())), message);
    let refused = |question: Question| {
        words(
            Explainer::new(&fit.model, question)
                .and_then(|e| e.with_posterior(Some(&fit.covariance)))
                .map(|_| ()),
        )
    };
    assert!(refused(Question::from(Game::Functional).with_covariance()).contains("a game with a background"));
    let pairs = ValueIndex::Interaction { kind: Interaction::Sii, order: 2 };
    assert!(refused(question.with_index(pairs)).contains("Beta-Shapley"));
}

/// Variance shares against their definition: variances of sums over the mixtures of all coalitions.
#[test]
fn shares_of_the_variance_are_those_of_all_coalitions() {
    let mut s = Stream(31);
    let linear = Kernel::from(Linear { columns: vec![0], center: vec![0.3], scale: vec![1.0] });
    let product = stationary(Profile::Gaussian, 0, 1.3) * stationary(Profile::Matern32, 1, 1.0);
    let kernel = product * stationary(Profile::Gaussian, 2, 0.8)
        + 0.5 * (linear * stationary(Profile::Gaussian, 3, 2.0));
    let (x, rows) = (s.normals(12, 4), s.normals(2, 4));
    let y = Matrix::from_row_major(12, 2, (0..24).map(|_| s.signed()).collect());
    let mut estimator = GaussianProcess::new(kernel, 0.3);
    estimator.normalize_y = true;
    let fit = estimator.fit(&x, &y).unwrap();
    let posterior = fit.posterior();
    let background = Background { rows: s.normals(2, 4), weights: Some(vec![0.5, 1.5]) };
    let names: Vec<String> = x.columns().iter().map(|c| c.name.clone()).collect();
    let pair = Players::named(x.columns(), &[("both".to_string(), vec![names[1].clone(), names[3].clone()])]);
    for groups in [Players::singletons(x.columns()), pair.unwrap()] {
        let players: Vec<Vec<usize>> = groups.players().iter().map(|p| p.columns.clone()).collect();
        let p = players.len();
        for game in [
            Game::Baseline { point: background.rows.select_rows(&[1]) },
            Game::Interventional { background: background.clone() },
            Game::MarginalProduct { background: background.rows.clone().into() },
        ] {
            let question = Question::from(game.clone()).with_players(Some(groups.clone())).with_covariance();
            let explainer = Explainer::new(&fit.model, question).unwrap();
            let explainer = explainer.with_posterior(Some(&fit.covariance)).unwrap();
            let shares = explainer.variance_shares(&rows).unwrap();
            // The result is an explanation that adds up.
            let explained = explainer.explain_variance(&rows).unwrap();
            explained.validate().unwrap();
            assert!(explained.residuals().iter().all(|left| left.abs() < 1e-10));
            assert!(
                explained.output_names[1].starts_with("variance of ") && explained.certificate().is_none()
            );
            for r in 0..2 {
                for o in 0..2 {
                    assert_eq!(explained.row_values(r, o), &shares[o].row(r)[..p]);
                    assert_eq!(explained.base_values[r * 2 + o], shares[o][(r, p)]);
                }
            }
            for r in 0..2 {
                // The sums for coalitions are those of the players' values: by inclusion, v of all
                // coalitions.
                let (mixtures, weights) = coalitions(&game, &rows.select_rows(&[r]), &players);
                let sparse = Sparse::from_columns(mixtures.len(), weights).unwrap();
                let sums = posterior
                    .weighted_sum_functionals(&Table::from_rows(&mixtures).unwrap(), &sparse)
                    .unwrap();
                for (o, covariance) in posterior.covariance(&sums).iter().enumerate() {
                    let v: Vec<f64> = (0..1 << p).map(|mask: usize| covariance[(mask, mask)]).collect();
                    let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
                    for j in 0..p {
                        let masks = (0..1_usize << p).filter(|mask| mask >> j & 1 == 0);
                        let truth: f64 = masks
                            .map(|mask| {
                                let size = mask.count_ones() as usize;
                                let share = factorial(size) * factorial(p - 1 - size) / factorial(p);
                                share * (v[mask | 1 << j] - v[mask])
                            })
                            .sum();
                        let actual = shares[o][(r, j)];
                        assert!(
                            (actual - truth).abs() < 1e-10,
                            "{} {r} {o} {j}: {actual} {truth}",
                            game.name()
                        );
                    }
                    assert!((shares[o][(r, p)] - v[0]).abs() < 1e-10);
                    let total: f64 = shares[o].row(r).iter().sum();
                    let variance = posterior.variance(&rows).unwrap()[(r, o)];
                    assert!((total - variance).abs() < 1e-10, "{total} {variance}");
                }
            }
        }
    }
}

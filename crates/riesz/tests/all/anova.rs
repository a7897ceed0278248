//! ANOVA factors against integrals under their normal distribution, and the functional game of a Gaussian
//! process with such factors against conditional means on a grid.

use std::f64::consts::TAU;

use riesz::fit::{GaussianProcess, TunedParameters};
use riesz::global::Components;
use riesz::kernel::{Anova, Profile};
use riesz::linalg::Sparse;
use riesz::{Background, Error, Explainer, Game, Kernel, Matrix, Players, Question, Table, ValueIndex};

use crate::common::{Stream, stationary};

const CENTER: [f64; 3] = [0.4, -1.0, 2.0];
const SCALE: [f64; 3] = [1.2, 0.5, 2.0];

/// An ANOVA kernel over the first columns.
fn anova(length_scale: &[f64], variance: f64) -> Kernel {
    let d = length_scale.len();
    Anova {
        columns: (0..d).collect(),
        length_scale: length_scale.to_vec(),
        center: CENTER[..d].to_vec(),
        scale: SCALE[..d].to_vec(),
        variance,
        ard: true,
    }
    .into()
}

/// Standard normal nodes and weights: for analytic functions, sums over equidistant nodes are exact up to
/// rounding.
fn normal(steps: i32, far: f64) -> Vec<(f64, f64)> {
    let h = far / f64::from(steps);
    let node = |i: i32| f64::from(i) * h;
    (-steps..=steps).map(|i| (node(i), h * (-0.5 * node(i) * node(i)).exp() / TAU.sqrt())).collect()
}

/// A factor is 1 plus `variance` times the centered kernel `k(u, v) - E k(u, X) E k(v, X) / E k(X, X')`.
#[test]
fn factors_have_the_mean_1() {
    let nodes = normal(400, 9.0);
    let mut s = Stream(3);
    for (length_scale, variance) in [(0.3, 1.0), (1.0, 2.5), (8.0, 40.0), (300.0, 1e4)] {
        let factor = anova(&[length_scale], variance);
        let plain = stationary(Profile::Gaussian, 0, length_scale);
        let rows: Vec<[f64; 1]> = nodes.iter().map(|(z, _)| [CENTER[0] + SCALE[0] * z]).collect();
        let inputs = Table::from_rows(&rows).unwrap();
        let mean = |kernel: &Kernel, v: &[f64; 1]| -> f64 {
            let values = kernel.cross_gram(&Table::from_rows(&[*v]).unwrap(), &inputs);
            values.data().iter().zip(&nodes).map(|(k, (_, w))| k * w).sum()
        };
        let grand_mean: f64 = rows.iter().zip(&nodes).map(|(x, (_, w))| w * mean(&plain, x)).sum();
        for _ in 0..10 {
            let (u, v) = ([3.0 * s.normal()], [3.0 * s.normal()]);
            assert!((mean(&factor, &v) - 1.0).abs() < 1e-13 * (1.0 + variance), "{length_scale} {v:?}");
            let centered = plain.eval(&u, &v) - mean(&plain, &u) * mean(&plain, &v) / grand_mean;
            let actual = factor.eval(&u, &v);
            assert!(
                (actual - (1.0 + variance * centered)).abs() < 1e-13 * (1.0 + variance),
                "{length_scale}: {actual}"
            );
        }
    }
}

/// Rows and weights of the grid distribution, with the coalition's features fixed at their values in `x`.
fn stand(x: &[f64], mask: usize, nodes: &[(f64, f64)]) -> Vec<(Vec<f64>, f64)> {
    let mut weighted_rows = vec![(x.to_vec(), 1.0)];
    for j in (0..x.len()).filter(|j| mask >> j & 1 == 0) {
        let with = |(row, weight): &(Vec<f64>, f64), (z, w): &(f64, f64)| {
            let mut row = row.clone();
            row[j] = CENTER[j] + SCALE[j] * z;
            (row, weight * w)
        };
        weighted_rows = weighted_rows
            .iter()
            .flat_map(|weighted_row| nodes.iter().map(move |node| with(weighted_row, node)))
            .collect();
    }
    weighted_rows
}

/// Values and their covariance equal those of conditional means of f, computed by sums over a fine grid.
#[test]
fn the_functional_game_is_the_mean_over_others() {
    let (nodes, mut s) = (normal(30, 8.5), Stream(8));
    let kernels =
        [anova(&[1.0, 0.8], 1.5), anova(&[2.0, 1.0], 0.3) + 0.5 * anova(&[1.5], 2.0) + Kernel::constant(0.7)];
    for kernel in kernels {
        let x = s.normals(20, 2);
        let y = Matrix::from_row_major(20, 2, (0..40).map(|_| 3.0 + s.signed()).collect());
        let fit = GaussianProcess { tune: TunedParameters::Nothing, ..GaussianProcess::new(kernel, 0.2) };
        let fit = fit.fit(&x, &y).unwrap();
        let (rows, posterior) = (s.normals(3, 2), fit.posterior());
        let question = Question::from(Game::Functional).with_covariance();
        let explainer =
            Explainer::new(&fit.model, question).unwrap().with_posterior(Some(&fit.covariance)).unwrap();
        let (explanation, shares) =
            (explainer.explain(&rows).unwrap(), explainer.variance_shares(&rows).unwrap());
        let joint = posterior.covariance(&explainer.posterior_functionals(&rows).unwrap());
        let (mut mixtures, mut weights) = (Vec::new(), Vec::new());
        for r in 0..3 {
            for mask in 0..4 {
                let weighted_rows = stand(&rows.row(r), mask, &nodes);
                weights.push(
                    weighted_rows
                        .iter()
                        .enumerate()
                        .map(|(i, (_, w))| (mixtures.len() + i, *w))
                        .collect::<Vec<_>>(),
                );
                mixtures.extend(weighted_rows.into_iter().map(|(row, _)| row));
            }
        }
        let sums = Sparse::from_columns(mixtures.len(), weights).unwrap();
        let coalition_values =
            posterior.weighted_sum_functionals(&Table::from_rows(&mixtures).unwrap(), &sums).unwrap();
        let (mean, covariance) =
            (posterior.mean_of(&coalition_values), posterior.covariance(&coalition_values));
        // φ_0 = (v(0) - v() + v(01) - v(1)) / 2
        let share = |j: usize, mask: usize| if mask >> j & 1 == 1 { 0.5 } else { -0.5 };
        for o in 0..2 {
            for r in 0..3 {
                let (base, truth) = (explanation.base_values[2 * r + o], mean[(4 * r, o)]);
                assert!((base - truth).abs() < 1e-10, "{base} {truth}");
                for j in 0..2 {
                    let truth: f64 = (0..4).map(|mask| share(j, mask) * mean[(4 * r + mask, o)]).sum();
                    assert!((explanation.row_values(r, o)[j] - truth).abs() < 1e-10);
                    for (q, l) in (0..3).flat_map(|q| [(q, 0), (q, 1)]) {
                        let pairs = (0..16).map(|index| (index / 4, index % 4));
                        let truth: f64 = pairs
                            .map(|(a, b)| share(j, a) * share(l, b) * covariance[o][(4 * r + a, 4 * q + b)])
                            .sum();
                        let actual = joint[o][(2 * r + j, 2 * q + l)];
                        assert!((actual - truth).abs() < 1e-10, "{actual} {truth}");
                    }
                    let truth: f64 =
                        (0..4).map(|mask| share(j, mask) * covariance[o][(4 * r + mask, 4 * r + mask)]).sum();
                    assert!((shares[o][(r, j)] - truth).abs() < 1e-10, "{} {truth}", shares[o][(r, j)]);
                }
                assert!((shares[o][(r, 2)] - covariance[o][(4 * r, 4 * r)]).abs() < 1e-10);
            }
        }
    }
}

/// Dividends of the functional game are the functional ANOVA's components if inputs follow the factors.
#[test]
fn dividends_are_components() {
    let mut s = Stream(12);
    let nodes = normal(60, 9.0);
    let grid: Vec<Vec<f64>> =
        nodes.iter().map(|(z, _)| (0..3).map(|j| CENTER[j] + SCALE[j] * z).collect()).collect();
    let inputs = Background {
        rows: Table::from_rows(&grid).unwrap(),
        weights: Some(nodes.iter().map(|(_, w)| *w).collect()),
    };
    let (x, coef) = (s.normals(15, 3), Matrix::column_vector((0..15).map(|_| s.signed()).collect()));
    let kernel = anova(&[0.7, 1.0, 2.0], 2.0);
    let model = riesz::KernelExpansion::new(kernel, x, coef, vec![0.3]).unwrap();
    let rows = s.normals(4, 3);
    let components = Components::new(&model, &inputs, None).unwrap();
    let index: ValueIndex = "moebius(3)".parse().unwrap();
    let question = Question::from(Game::Functional).with_index(index);
    let explanation = Explainer::new(&model, question).unwrap().explain(&rows).unwrap();
    let sets = [vec![0], vec![1], vec![2], vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]];
    for (position, set) in sets.iter().enumerate() {
        let truth = components.evaluate(set, &rows).unwrap();
        for r in 0..4 {
            let actual = explanation.row_values(r, 0)[position];
            assert!((actual - truth[(r, 0)]).abs() < 1e-11, "{set:?}: {actual} {}", truth[(r, 0)]);
        }
    }
    let certificate = explanation.certificate();
    assert!(certificate.is_none_or(|certificate| certificate.holds));
}

/// With long products of factors that cancel, and with groups, values are within their bound.
#[test]
fn certificates_hold() {
    let mut s = Stream(31);
    for (d, variance) in [(3, 1.0), (3, 30.0), (12, 0.9), (25, 3.0)] {
        let kernel: Kernel = Anova {
            columns: (0..d).collect(),
            length_scale: vec![1.5; d],
            center: vec![0.1; d],
            scale: vec![1.0; d],
            variance,
            ard: false,
        }
        .into();
        let (x, coef) = (s.normals(40, d), Matrix::column_vector((0..40).map(|_| s.signed()).collect()));
        let names: Vec<String> = x.columns().iter().map(|c| c.name.clone()).collect();
        let pair = Players::named(x.columns(), &[("both".to_string(), names[..2].to_vec())]).unwrap();
        let model = riesz::KernelExpansion::new(kernel, x, coef, vec![0.3]).unwrap();
        let (rows, background) = (s.normals(6, d), s.normals(5, d));
        for groups in [Players::singletons(model.columns()), pair] {
            for game in [Game::Functional, Game::Interventional { background: background.clone().into() }] {
                let question = Question::from(game).with_players(Some(groups.clone()));
                let explanation = Explainer::new(&model, question).unwrap().explain(&rows).unwrap();
                let certificate = explanation.certificate().unwrap();
                assert!(certificate.holds, "{d} {variance}: {certificate:?}");
            }
        }
    }
}

/// Kernels whose factors do not project have no posterior in the functional game.
#[test]
fn other_factors_are_refused() {
    let (mut s, y) = (Stream(2), Matrix::column_vector((0..10).map(f64::from).collect()));
    let x = s.normals(10, 2);
    let twice = anova(&[1.0], 1.0) * anova(&[2.0], 1.0);
    for kernel in [anova(&[1.0, 1.0], 1.0) * stationary(Profile::Gaussian, 1, 1.0), twice] {
        let fit = GaussianProcess::new(kernel, 0.2).fit(&x, &y).unwrap();
        let question = Question::from(Game::Functional).with_covariance();
        let result = Explainer::new(&fit.model, question)
            .and_then(|explainer| explainer.with_posterior(Some(&fit.covariance))?.explain(&x));
        let Err(error @ Error::Parameter { .. }) = result else { panic!("not refused") };
        assert!(error.to_string().contains("factors are all anova, each of other columns"), "{error}");
    }
}

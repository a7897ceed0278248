//! Sampled values against enumeration, and their standard errors against the actual errors.

use proptest::prelude::*;
use riesz::attribution::enumeration::shapley;
use riesz::attribution::permutation::{estimate, permutations_per_row};
use riesz::explanation::Sampling;
use riesz::question::{Budget, ValueEstimator};
use riesz::{Background, Exactness, Explanation, Game, Matrix, Players, Question, Result, Table};

use crate::common::about;

/// Returns a pseudo-random number in [-1, 1].
fn number(i: usize, j: usize) -> f64 {
    ((i * 37 + j * 101 + i * j * 13) % 199) as f64 / 99.0 - 1.0
}

fn table(from: usize, n: usize, d: usize) -> Table {
    let rows: Vec<Vec<f64>> = (from..from + n).map(|i| (0..d).map(|j| number(i, j)).collect()).collect();
    Table::from_rows(&rows).unwrap()
}

/// A model of two outputs without particular form.
fn model(x: &Table) -> Result<Matrix> {
    let outputs = |row: &[f64]| {
        let sum: f64 = row.iter().sum();
        let product: f64 = row.iter().map(|v| 1.0 + 0.7 * v).product();
        [(0.5 * sum + 0.3).powi(3), product + row[0].sin() * row[row.len() - 1]]
    };
    let data = (0..x.rows()).flat_map(|i| outputs(&x.row(i))).collect();
    Ok(Matrix::from_row_major(x.rows(), 2, data))
}

/// Returns the question for `per_reference` orders per background row.
fn along(background: &Background, groups: &Players, per_reference: usize, seed: u64) -> Question {
    let game = Game::Interventional { background: background.clone() };
    let estimator = ValueEstimator::Permutation { per_reference };
    let budget = Budget { seed, ..Budget::default() };
    Question { estimator, budget, ..about(&game, groups) }
}

fn std_error(explanation: &Explanation) -> &[f64] {
    let Exactness::Estimated { std_error, .. } = &explanation.exactness else { panic!("not estimated") };
    std_error
}

/// Returns the interventional game's values by enumeration.
fn exact(x: &[f64], background: &Background, groups: &Players, output: usize) -> Vec<f64> {
    let weights = background.weights.clone().unwrap_or_else(|| vec![1.0; background.rows.rows()]);
    let total: f64 = weights.iter().sum();
    shapley(groups.players().len(), |present| {
        let mixed: Vec<Vec<f64>> = (0..background.rows.rows())
            .map(|b| {
                let mut row = background.rows.row(b);
                for (player, _) in groups.players().iter().zip(present).filter(|(_, on)| **on) {
                    player.columns.iter().for_each(|&j| row[j] = x[j]);
                }
                row
            })
            .collect();
        let out = model(&Table::from_rows(&mixed).unwrap()).unwrap();
        weights.iter().enumerate().map(|(b, w)| w * out[(b, output)]).sum::<f64>() / total
    })
}

#[test]
fn standard_errors_match_the_errors_of_values() {
    let rows = table(500, 1, 10);
    let background = Background { rows: table(0, 8, 10), weights: Some((1..9).map(f64::from).collect()) };
    let groups = Players::named(rows.columns(), &[("pair", vec!["x1", "x4"])]).unwrap();
    let truth: Vec<f64> = (0..2).flat_map(|o| exact(&rows.row(0), &background, &groups, o)).collect();
    let (k, runs) = (truth.len(), 300_u64);
    let (mut mean, mut square, mut claimed, mut covered) = (vec![0.0; k], vec![0.0; k], vec![0.0; k], 0);
    for seed in 0..runs {
        let settings = along(&background, &groups, 4, seed);
        let explanation = estimate(model, &rows, 0, &settings).unwrap();
        for k in 0..truth.len() {
            let (error, std_error) = (explanation.values[k] - truth[k], std_error(&explanation)[k]);
            mean[k] += explanation.values[k] / runs as f64;
            square[k] += error * error;
            claimed[k] += std_error * std_error;
            covered += usize::from(error.abs() <= 1.96 * std_error);
        }
    }
    // Standard errors are larger than the errors, because there are few orders, but not by much.
    assert!(square.iter().zip(&claimed).all(|(square, claimed)| claimed > square), "{square:?} {claimed:?}");
    let ratio = claimed.iter().sum::<f64>() / square.iter().sum::<f64>();
    assert!(ratio < 6.0, "{ratio}");
    let coverage = covered as f64 / (runs as f64 * truth.len() as f64);
    assert!((0.95..=1.0).contains(&coverage), "{coverage}");
    let single_run = estimate(model, &rows, 0, &along(&background, &groups, 4, 1)).unwrap();
    for k in 0..truth.len() {
        let error = (mean[k] - truth[k]).abs();
        assert!(error < 6.0 * std_error(&single_run)[k] / (runs as f64).sqrt() + 1e-12, "{k}: {error}");
    }
}

#[test]
fn rows_are_estimated_independently_of_others() {
    let (rows, background) = (table(500, 5, 7), Background::from(table(0, 9, 7)));
    let groups = Players::singletons(rows.columns());
    let settings = along(&background, &groups, 3, 9);
    let all_rows = estimate(model, &rows, 10, &settings).unwrap();
    let last_row = estimate(model, &rows.select_rows(&[4]), 14, &settings).unwrap();
    assert_eq!(all_rows.values[4 * 14..], last_row.values);
    assert_eq!(std_error(&all_rows)[4 * 14..], *std_error(&last_row));
    assert_eq!((&all_rows.row_numbers[4..], &last_row.row_numbers[..]), (&[14][..], &[14][..]));
    let other = along(&background, &groups, 3, 10);
    assert_ne!(estimate(model, &rows, 10, &other).unwrap().values, all_rows.values);
    let Exactness::Estimated { sampling, .. } = all_rows.exactness else { panic!() };
    assert_eq!(sampling, Some(Sampling { evaluations: 9 + 5 + 5 * 9 * 3 * 2 * 6, seed: 9 }));
}

/// A model that is 12 if all columns are positive, and 0 otherwise.
fn all_positive(x: &Table) -> Result<Matrix> {
    let output = |i: usize| if x.row(i).iter().all(|v| *v > 0.0) { 12.0 } else { 0.0 };
    Ok(Matrix::column_vector((0..x.rows()).map(output).collect()))
}

fn constant(value: f64, n: usize, d: usize) -> Table {
    Table::from_rows(&vec![vec![value; d]; n]).unwrap()
}

/// All coalitions are evaluated if that costs no more than the permutations. (Two permutations of three
/// players once gave [6, 6, 0] ± 0.)
#[test]
fn few_players_are_explained_by_all_coalitions() {
    for (d, n, per_reference, exact) in [
        (1, 1, 2, true),
        (3, 1, 2, true),
        (4, 50, 2, true),
        (5, 50, 2, false),
        (8, 1, 2, true),
        (9, 1, 2, false),
    ] {
        let (rows, background) = (constant(1.0, 2, d), Background::from(constant(-1.0, n, d)));
        let groups = Players::singletons(rows.columns());
        let question = along(&background, &groups, per_reference, 7);
        let mut n_evaluated = 0;
        let ask = |x: &Table| {
            n_evaluated += x.rows();
            all_positive(x)
        };
        let explanation = estimate(ask, &rows, 10, &question).unwrap();
        assert_eq!(permutations_per_row(&question, rows.columns()).unwrap().is_none(), exact, "{d}");
        assert_eq!(explanation.row_numbers, [10, 11]);
        let truth = 12.0 / d as f64;
        match &explanation.exactness {
            Exactness::Exact { bound } if exact => {
                assert!(
                    explanation.values.iter().all(|v| (v - truth).abs() <= bound[0]) && bound[0] < 1e-11,
                    "{d}"
                );
                assert_eq!(n_evaluated, n + 2 + 2 * n * ((1 << d) - 2));
            }
            Exactness::Estimated { std_error, .. } if !exact => {
                let covered = |(v, e): (&f64, &f64)| (v - truth).abs() <= 3.5 * e;
                assert!(
                    explanation.values.iter().zip(std_error).all(covered),
                    "{:?} {std_error:?}",
                    explanation.values
                );
            }
            _ => panic!("{d}"),
        }
    }
}

/// At least 16 permutations are drawn in total, counted over the effective number of background rows.
#[test]
fn at_least_sixteen_permutations_are_drawn() {
    for (weights, requested, expected) in [
        (vec![1.0], 2, 16),
        (vec![1.0], 20, 20),
        (vec![1.0; 5], 2, 4),
        (vec![1.0; 8], 2, 2),
        (vec![1.0; 100], 2, 2),
        (vec![1000.0, 1.0], 2, 16),
        (vec![1.0, 1.0, 0.0], 2, 8),
    ] {
        let background = Background { rows: table(0, weights.len(), 14), weights: Some(weights) };
        let groups = Players::singletons(background.rows.columns());
        let question = along(&background, &groups, requested, 7);
        assert_eq!(
            permutations_per_row(&question, background.rows.columns()).unwrap(),
            Some(expected),
            "{background:?}"
        );
        let explanation = estimate(model, &table(500, 1, 14), 0, &question).unwrap();
        let Exactness::Estimated { sampling: Some(sampling), .. } = explanation.exactness else { panic!() };
        let used = background.weights.unwrap().iter().filter(|w| **w > 0.0).count();
        assert_eq!(sampling.evaluations, used + 1 + used * expected * 2 * 13);
    }
}

/// Most permutations attribute everything to the first column; their agreement must not make the other
/// standard errors 0.
#[test]
fn agreeing_permutations_keep_positive_standard_errors() {
    let d = 30;
    // The output depends on the first column and any other one.
    let vote = |x: &Table| -> Result<Matrix> {
        let output = |i: usize| {
            let row = x.row(i);
            f64::from(u8::from(row[0] > 0.0 && row[1..].iter().any(|v| *v > 0.0)))
        };
        Ok(Matrix::column_vector((0..x.rows()).map(output).collect()))
    };
    let truth = |j: usize| if j == 0 { 1.0 - 1.0 / d as f64 } else { 1.0 / (d * (d - 1)) as f64 };
    let (rows, background) = (constant(1.0, 1, d), Background::from(constant(-1.0, 1, d)));
    let groups = Players::singletons(rows.columns());
    let mut agreed = 0;
    for seed in 0..50 {
        let explanation = estimate(vote, &rows, 0, &along(&background, &groups, 2, seed)).unwrap();
        let errors = std_error(&explanation);
        agreed += usize::from(explanation.values[0] == 1.0);
        for j in 0..d {
            assert!(
                (explanation.values[j] - truth(j)).abs() <= 1.96 * errors[j],
                "{seed} {j}: {}",
                explanation.values[j]
            );
        }
    }
    assert!(agreed > 5, "{agreed}");
    // A constant model gives no scale for errors.
    let none = |x: &Table| -> Result<Matrix> { Ok(Matrix::zeros(x.rows(), 1)) };
    let explanation = estimate(none, &rows, 0, &along(&background, &groups, 2, 0)).unwrap();
    assert!(std_error(&explanation).iter().all(|e| *e > 0.05));
}

#[test]
fn impossible_estimates_are_refused() {
    for d in [3, 12] {
        cannot_be_estimated(d);
    }
}

fn cannot_be_estimated(d: usize) {
    let (rows, background) = (table(500, 1, d), Background::from(table(0, 4, d)));
    let groups = Players::singletons(rows.columns());
    let too_few = along(&background, &groups, 1, 0);
    assert!(estimate(model, &rows, 0, &too_few).unwrap_err().to_string().contains("at least 2"));
    let nan =
        |x: &Table| -> Result<Matrix> { Ok(Matrix::from_row_major(x.rows(), 1, vec![f64::NAN; x.rows()])) };
    let refused = estimate(nan, &rows, 0, &along(&background, &groups, 2, 0));
    assert!(refused.unwrap_err().to_string().contains("finite numbers for every mixture"));
    let short = |_: &Table| -> Result<Matrix> { Ok(Matrix::zeros(1, 1)) };
    let refused = estimate(short, &rows, 0, &along(&background, &groups, 2, 0));
    assert!(refused.unwrap_err().to_string().contains("the model's answer has 1 rows"));
    let mut calls = 0;
    let moody = |x: &Table| -> Result<Matrix> {
        calls += 1;
        Ok(Matrix::zeros(x.rows(), calls))
    };
    let refused = estimate(moody, &rows, 0, &along(&background, &groups, 2, 0));
    assert!(refused.unwrap_err().to_string().contains("the model's answer has 2 outputs"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Values add up exactly, and those of an additive function have no sampling error.
    #[test]
    fn efficiency_and_additive_functions(d in 1_usize..9, from in 0_usize..300, seed: u64) {
        let (rows, background) = (table(from, 2, d), Background::from(table(from + 50, 5, d)));
        let groups = Players::singletons(rows.columns());
        let settings = along(&background, &groups, 2, seed);
        let explanation = estimate(model, &rows, 0, &settings).unwrap();
        for k in 0..4 {
            let sum: f64 = explanation.values[k * d..(k + 1) * d].iter().sum();
            let gap = explanation.residuals()[k];
            prop_assert!(gap.abs() < 1e-12 * (1.0 + sum.abs()) * 10.0, "{}", gap);
        }
        let additive = |x: &Table| -> Result<Matrix> {
            let output = |i: usize| (0..d).map(|j| (x.get(i, j) * (1.0 + j as f64)).cos()).sum::<f64>();
            Ok(Matrix::column_vector((0..x.rows()).map(output).collect()))
        };
        let explanation = estimate(additive, &rows, 0, &settings).unwrap();
        for j in 0..d {
            let scaled = |v: f64| (v * (1.0 + j as f64)).cos();
            let mean = (0..5).map(|b| scaled(background.rows.get(b, j))).sum::<f64>() / 5.0;
            prop_assert!((explanation.values[j] - scaled(rows.get(0, j)) + mean).abs() < 1e-12);
        }
        // Additivity is not known: one more order could have differed.
        if let Exactness::Estimated { std_error, .. } = &explanation.exactness {
            let largest = explanation.values[..d].iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            prop_assert!(d > 5 && std_error.iter().all(|e| *e > 0.0 && *e < largest), "{:?}", std_error);
        }
    }
}

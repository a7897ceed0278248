//! Permutation estimates for any model: marginal contributions along random orders of the players, each order
//! together with its reverse. They serve models without a product form and black-box functions.
//!
//! Every background row gets the same number of orders, so the values sum to the prediction minus the base
//! value without sampling error. Standard errors follow from the variance between the orders of one
//! background row. The value ± 1.96 standard errors covers the truth in about 95 % of samples or more
//! (`std_error.rs`). For this, the variance includes three additional orders. They deviate by the largest
//! observed difference of a player's contributions between two orders of one background row. Few orders
//! contain too little information even so. There are therefore at least 16 in total for background rows of
//! equal weight ([`permutations_per_row`]). If all coalitions cost little more, they are evaluated instead,
//! and values are exact.
//!
//! Sources: Castro, Gómez and Tejada 2009 (random orders); Mitchell, Cooper, Frank and Holmes 2022 (an order
//! and its reverse).

use super::antithetic_orders::{ContributionSums, antithetic_orders, for_each_mixture, mean_contributions};
use super::kernel_shap::{CountingFunction, kernel_shap};
use super::sampled_shapley::Budget;
use super::std_error::{ValueRange, Variance};
use super::weighted_mean;
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Sampling};
use crate::game::{Game, ReferenceRows};
use crate::kernel_model::default_names;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::question::{Question, ValueEstimator};
use crate::random::{Random, SeedableRng, hash};
use crate::table::{Column, Players, Table};

/// Number of rows per call of the model.
const BATCH: usize = 8192;

/// Smallest total number of orders, where background rows with weights w count as `1 / Σ w²` rows.
const MIN_ORDERS: f64 = 16.0;

/// Number of orders per background row, for rows with these columns. `None` if values are exact, because all
/// coalitions take at most 5/4 of the evaluations of the orders. More orders than requested are used if there
/// are fewer than 16 in total, where background rows with weights `w` count as `1 / Σ w²` rows.
///
/// # Errors
/// [`Error::Parameter`] for another game or estimator, and for fewer than two orders; errors of the
/// background.
pub fn permutations_per_row(question: &Question, columns: &[Column]) -> Result<Option<usize>> {
    let reference = ReferenceRows::new(&question.game.function_background()?, columns)?;
    orders_for_rows(question, columns, &reference)
}

fn orders_for_rows(
    question: &Question,
    columns: &[Column],
    reference: &ReferenceRows,
) -> Result<Option<usize>> {
    let (false, ValueEstimator::Permutation { per_reference }) =
        (matches!(question.game, Game::Observational { .. }), question.estimator)
    else {
        let allowed = "permutations estimate the interventional and the baseline game";
        return Err(Error::parameter("estimator", "permutation", allowed));
    };
    if per_reference < 2 {
        let allowed = "at least 2, or there is no standard error";
        return Err(Error::parameter("n_orders", per_reference, allowed));
    }
    // Equal weights may not sum to 1 exactly, so a small excess is not rounded up.
    let orders =
        per_reference.max((MIN_ORDERS * inverse_effective_size(reference) * (1.0 - 1e-9)).ceil() as usize);
    let players = question.players_of(columns).players().len();
    Ok((2.0 * all_coalitions(players) > 5.0 * orders as f64 * players.saturating_sub(1) as f64)
        .then_some(orders))
}

/// `Σ w²` over the background rows' weights w: the inverse of their number if all weights are equal.
fn inverse_effective_size(reference: &ReferenceRows) -> f64 {
    reference.weights.iter().map(|w| w * w).sum()
}

/// Number of coalitions other than the empty and the grand one.
fn all_coalitions(players: usize) -> f64 {
    (2.0_f64.powi(players.min(1000) as i32) - 2.0).max(0.0)
}

/// Estimate of the values of one row, outputs × players, from orders of its players.
struct RowEstimate {
    players: usize,
    /// Sums over the orders of one background row.
    sums: Vec<ContributionSums>,
    values: Vec<f64>,
    variances: Vec<Variance>,
    /// For each output, the range of predictions.
    answered: Vec<ValueRange>,
    /// For each output, two maxima over background rows, times their relative weights: of the difference
    /// between two contributions of a player, and of the absolute contributions.
    largest: Vec<[f64; 2]>,
}

impl RowEstimate {
    fn new(answered: Vec<ValueRange>, players: usize) -> Self {
        let (outputs, entries) = (answered.len(), answered.len() * players);
        Self {
            players,
            sums: vec![ContributionSums::EMPTY; entries],
            values: vec![0.0; entries],
            variances: vec![Variance::default(); entries],
            answered,
            largest: vec![[0.0; 2]; outputs],
        }
    }

    /// Adds the contributions along an order and its reverse; for `output` see [`mean_contributions`].
    fn add_order(&mut self, orders: &[Vec<usize>; 2], output: impl Fn(usize, usize, usize) -> f64) {
        let contributions = mean_contributions(orders, 2, &mut self.answered, output);
        self.sums.iter_mut().zip(contributions).for_each(|(sums, v)| sums.add(v));
    }

    /// Adds the mean over the `orders` of a background row of this weight, and resets the sums for the next
    /// one.
    fn end_background_row(&mut self, weight: f64, orders: f64, relative_weight: f64) {
        for (k, sums) in self.sums.iter().enumerate() {
            let mean = sums.sum / orders;
            self.values[k] += weight * mean;
            let variance = (sums.square - orders * mean * mean).max(0.0) / (orders - 1.0);
            self.variances[k].add(weight * weight * variance / orders, orders - 1.0);
            let sizes = [sums.range.width(), sums.range.largest()];
            for (largest, size) in self.largest[k / self.players].iter_mut().zip(sizes) {
                *largest = largest.max(relative_weight * size);
            }
        }
        self.sums.fill(ContributionSums::EMPTY);
    }

    /// The values and their standard errors; `share` is the weight of one order in a value.
    fn finish(self, share: f64) -> (Vec<f64>, Vec<f64>) {
        let std_error = |(k, mut variance): (usize, Variance)| {
            let o = k / self.players;
            variance.inflate(share * self.answered[o].max_deviation(self.largest[o]));
            variance.std_error()
        };
        (self.values, self.variances.into_iter().enumerate().map(std_error).collect())
    }
}

/// Estimates values of the interventional game of the function `f` at `rows`. `f` maps a table of rows to a
/// matrix of outputs (rows × outputs), and is called on thousands of rows at a time. `first_row` is the
/// number of the first row, for the seed. Base values, the mean predictions over the background, are not
/// estimated. Outputs are called `y` or `y1 … ym`, and the provenance contains nothing about the model.
///
/// Row i has its own orders, which do not depend on the other rows. The number of evaluations per row is
/// about `2 · orders · background rows · players`, see [`permutations_per_row`].
///
/// # Errors
/// Errors of `f` and of [`permutations_per_row`]. [`Error::Overflow`] if `f` returns numbers that are not
/// finite. [`Error::Shape`] unless `f` returns one row of outputs per row, and the same number of outputs in
/// each call.
pub fn estimate<E: From<Error>>(
    f: impl FnMut(&Table) -> Result<Matrix, E>,
    rows: &Table,
    first_row: usize,
    question: &Question,
) -> Result<Explanation, E> {
    question.index.of_coalitions()?;
    question.reject_ordering()?;
    let columns = rows.columns();
    let reference = ReferenceRows::new(&question.game.function_background()?, columns)?;
    let Some(orders) = orders_for_rows(question, columns, &reference)? else {
        return enumerate(f, rows, first_row, question);
    };
    let (groups, seed) = (&question.players_of(columns), question.budget.seed);
    let mut model = CountingFunction { f, evaluations: 0, outputs: None };
    let at_background = model.evaluate(&reference.table(columns)?)?;
    let (m, players) = (at_background.cols(), groups.players());
    let predictions = if rows.rows() == 0 { Matrix::zeros(0, m) } else { model.evaluate(rows)? };
    let base = weighted_mean(&reference.weights, &at_background);
    let (mut all_values, mut std_error) = (Vec::new(), Vec::new());
    let sampler = OrderSampler { rows, groups, reference: &reference, orders, at_background, predictions };
    for i in 0..rows.rows() {
        let random = Random::seed_from_u64(hash([seed, (first_row + i) as u64]));
        let (values, errors) = sampler.estimate_row(i, random, |table| model.evaluate(table))?;
        all_values.extend(values);
        std_error.extend(errors);
    }
    let n = rows.rows();
    Ok(Explanation {
        index: question.index,
        values: all_values,
        base_values: base.repeat(n),
        predictions: sampler.predictions.into_data(),
        row_numbers: (first_row..first_row + n).collect(),
        exactness: Exactness::Estimated {
            std_error,
            sampling: Some(Sampling { evaluations: model.evaluations, seed }),
        },
        provenance: question
            .provenance(Vec::new(), vec![CardEntry::new("orders per background row", orders)]),
        ..Explanation::of_rows(players, &default_names(m), rows.clone())
    })
}

/// Computes the exact values from all coalitions.
fn enumerate<E: From<Error>>(
    f: impl FnMut(&Table) -> Result<Matrix, E>,
    rows: &Table,
    first_row: usize,
    question: &Question,
) -> Result<Explanation, E> {
    let budget = Budget { coalitions: usize::MAX, std_error: None, ..question.budget };
    let question = question.clone().with_budget(budget);
    let mut explanation = kernel_shap(f, rows, &question, BATCH)?;
    explanation.row_numbers.iter_mut().for_each(|number| *number += first_row);
    Ok(explanation)
}

/// The rows that are explained, the background and the outputs at both.
struct OrderSampler<'a> {
    rows: &'a Table,
    groups: &'a Players,
    reference: &'a ReferenceRows,
    /// Number of orders per background row.
    orders: usize,
    /// Background rows × outputs.
    at_background: Matrix,
    /// Rows × outputs.
    predictions: Matrix,
}

/// An order of the players with its reverse, and the background row from which both start.
struct SampledOrder {
    background_row: usize,
    orders: [Vec<usize>; 2],
}

impl OrderSampler<'_> {
    /// Returns the values of row i and their standard errors, outputs × players.
    fn estimate_row<E: From<Error>>(
        &self,
        i: usize,
        mut random: Random,
        mut ask: impl FnMut(&Table) -> Result<Matrix, E>,
    ) -> Result<(Vec<f64>, Vec<f64>), E> {
        let Self { reference, orders, at_background, predictions, .. } = self;
        let (m, p, x) = (predictions.cols(), self.groups.players().len(), self.rows.row(i));
        // Between the background row and the row itself an order passes p - 1 mixtures.
        let n_inner = p.saturating_sub(1);
        let orders_at_once = (BATCH / (2 * n_inner).max(1)).max(1);
        let total = reference.rows.len() * orders;
        let heaviest = reference.weights.iter().copied().fold(0.0, f64::max);
        let answered =
            (0..m).map(|o| ValueRange::over(at_background.column(o)).with(predictions[(i, o)])).collect();
        let mut estimate = RowEstimate::new(answered, p);
        for start in (0..total).step_by(orders_at_once) {
            let draw = |number: usize| SampledOrder {
                background_row: number / orders,
                orders: antithetic_orders(&mut random, p),
            };
            let drawn: Vec<_> = (start..total.min(start + orders_at_once)).map(draw).collect();
            let answers = match n_inner {
                0 => Matrix::zeros(0, m),
                _ => ask(&self.mixtures(&x, &drawn)?)?,
            };
            for (u, SampledOrder { background_row: b, orders: pair }) in drawn.iter().enumerate() {
                estimate.add_order(pair, |pass, o, k| match k {
                    0 => at_background[(*b, o)],
                    k if k == p => predictions[(i, o)],
                    k => answers[((2 * u + pass) * n_inner + k - 1, o)],
                });
                if (start + u + 1) % orders == 0 {
                    let weight = reference.weights[*b];
                    estimate.end_background_row(weight, *orders as f64, weight / heaviest);
                }
            }
        }
        // The weight of one order in a value.
        Ok(estimate.finish(inverse_effective_size(reference) / *orders as f64))
    }

    /// Returns the mixtures of `x` and a background row along each order and along its reverse.
    fn mixtures(&self, x: &[f64], drawn: &[SampledOrder]) -> Result<Table> {
        let players = self.groups.players();
        let n = drawn.len() * 2 * (players.len() - 1);
        let (mut values, mut row) = (vec![0.0; n * self.rows.width()], 0);
        for SampledOrder { background_row, orders } in drawn {
            for order in orders {
                let absent = &self.reference.rows[*background_row];
                for_each_mixture(
                    order,
                    |k| &players[k].columns,
                    x,
                    absent,
                    |mixture| {
                        mixture.iter().enumerate().for_each(|(j, v)| values[j * n + row] = *v);
                        row += 1;
                    },
                );
            }
        }
        Table::from_column_major(self.rows.columns().to_vec(), n, values)
    }
}

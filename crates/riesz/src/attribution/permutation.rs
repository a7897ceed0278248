//! Permutation estimates for any model: marginal contributions along random orders of the players, each order
//! together with its reverse, for models that have no product form and for black-box functions.
//!
//! Every background row gets the same number of orders, so the values add up to prediction minus base value
//! without sampling error, and a standard error follows from how much the orders of one background row
//! differ. It is made for values ± 1.96 of them to hold the truth about 95 times in 100 or more
//! (`std_error.rs`): as if three more orders had been drawn that are off as far as any two orders of one
//! background row were apart, for any player. Few orders in all say too little even so: they are at least 16,
//! of background rows of equal weight together ([`permutations_per_row`]). Where all coalitions take little
//! more, they are valued instead, and values are exact.
//!
//! Source: Castro, Gómez and Tejada 2009 (random orders); Mitchell, Cooper, Frank and Holmes 2022 (an order
//! and its reverse).

use super::kernel_shap::kernel_shap;
use super::sampled_shapley::Budget;
use super::std_error::{ValueRange, Variance};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Sampling};
use crate::game::{Game, ReferenceRows};
use crate::kernel_model::default_names;
use crate::linalg::Matrix;
use crate::question::{Question, ValueEstimator};
use crate::random::{Random, SeedableRng, SliceRandom, hash};
use crate::table::{Column, Players, Table};

/// Rows that the model is asked about at once.
const BATCH: usize = 8192;

/// The fewest orders in all, weighed as the background rows are.
const MIN_ORDERS: f64 = 16.0;

/// The number of orders for each background row, for rows with these columns; `None` if values are exact,
/// because all coalitions take no more than 5/4 of the evaluations of the orders. More orders than requested
/// are taken if they are fewer than 16 in total, counted as `1 / Σ w²` for background rows with weights `w`.
///
/// # Errors
/// [`Error::Parameter`] for another game or estimator, and for fewer than two orders; what is wrong with the
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
        return Err(Error::parameter("permutations", per_reference, allowed));
    }
    // Equal weights do not add up to 1 to the last bit.
    let orders =
        per_reference.max((MIN_ORDERS * inverse_effective_size(reference) * (1.0 - 1e-9)).ceil() as usize);
    let players = question.players_of(columns).players().len();
    Ok((2.0 * all_coalitions(players) > 5.0 * orders as f64 * players.saturating_sub(1) as f64)
        .then_some(orders))
}

/// `Σ w²`: one over the number of background rows, if all count alike.
fn inverse_effective_size(reference: &ReferenceRows) -> f64 {
    reference.weights.iter().map(|w| w * w).sum()
}

/// Coalitions that are neither empty nor whole.
fn all_coalitions(players: usize) -> f64 {
    (2.0_f64.powi(players.min(1000) as i32) - 2.0).max(0.0)
}

/// The estimate of the values of one row, outputs × players, from orders of its players.
struct RowEstimate {
    players: usize,
    /// Over the orders of one background row: the sums of contributions and of their squares, and their range.
    sum: Vec<f64>,
    square: Vec<f64>,
    ranges: Vec<ValueRange>,
    values: Vec<f64>,
    variances: Vec<Variance>,
    /// For each output, the range of answers.
    answered: Vec<ValueRange>,
    /// For each output, over background rows by their weight: the largest difference of two contributions of a
    /// player, and the largest contribution.
    largest: Vec<[f64; 2]>,
}

impl RowEstimate {
    fn new(answered: Vec<ValueRange>, players: usize) -> Self {
        let (outputs, entries) = (answered.len(), answered.len() * players);
        Self {
            players,
            sum: vec![0.0; entries],
            square: vec![0.0; entries],
            ranges: vec![ValueRange::EMPTY; entries],
            values: vec![0.0; entries],
            variances: vec![Variance::default(); entries],
            answered,
            largest: vec![[0.0; 2]; outputs],
        }
    }

    /// Adds the contributions along an order and along its reverse. `answer(pass, o, k)` is output o where the
    /// first k players of the pass are present.
    fn add_order(&mut self, order: &[usize], answer: impl Fn(usize, usize, usize) -> f64) {
        let p = self.players;
        let mut contributions = vec![0.0; self.sum.len()];
        for pass in 0..2 {
            for (o, range) in self.answered.iter_mut().enumerate() {
                let mut before = answer(pass, o, 0);
                for k in 0..p {
                    let after = answer(pass, o, k + 1);
                    *range = range.with(after);
                    let player = if pass == 0 { order[k] } else { order[p - 1 - k] };
                    contributions[o * p + player] += 0.5 * (after - before);
                    before = after;
                }
            }
        }
        for (k, v) in contributions.iter().enumerate() {
            self.sum[k] += v;
            self.square[k] += v * v;
            self.ranges[k] = self.ranges[k].with(*v);
        }
    }

    /// Adds the mean over the `orders` of a background row of this weight, and begins with the next one.
    fn end_background_row(&mut self, weight: f64, orders: f64, relative_weight: f64) {
        for k in 0..self.sum.len() {
            let mean = self.sum[k] / orders;
            self.values[k] += weight * mean;
            let variance = (self.square[k] - orders * mean * mean).max(0.0) / (orders - 1.0);
            self.variances[k].add(weight * weight * variance / orders, orders - 1.0);
            let sizes = [self.ranges[k].width(), self.ranges[k].largest()];
            for (largest, size) in self.largest[k / self.players].iter_mut().zip(sizes) {
                *largest = largest.max(relative_weight * size);
            }
        }
        self.sum.fill(0.0);
        self.square.fill(0.0);
        self.ranges.fill(ValueRange::EMPTY);
    }

    /// The values and their standard errors; `share` is the weight of an order in a value.
    fn finish(self, share: f64) -> (Vec<f64>, Vec<f64>) {
        let std_error = |(k, mut variance): (usize, Variance)| {
            let o = k / self.players;
            variance.inflate(share * self.answered[o].max_deviation(self.largest[o]));
            variance.std_error()
        };
        (self.values, self.variances.into_iter().enumerate().map(std_error).collect())
    }
}

/// Estimates the interventional game of the function `f`, from rows of a table to rows of outputs, at `rows`;
/// `first_row` is the number of the first of them, for the seed. Calls `f` on thousands of rows at a time.
/// Base values, the mean prediction over the background, are not estimated. Of the model, whose outputs are
/// called `y` or `y1 … ym`, the provenance says nothing.
///
/// Row i has orders of its own, which do not depend on the other rows. Evaluations a row: about
/// `2 · orders · background rows · players`, see
/// [`permutations_per_row`].
///
/// # Errors
/// Those of `f` and of [`permutations_per_row`];
/// [`Error::Overflow`] if `f` answers with numbers that are not finite, [`Error::Shape`] if not with one row
/// of outputs for each row it was asked about, and as many outputs each time.
pub fn estimate<E: From<Error>>(
    mut f: impl FnMut(&Table) -> Result<Matrix, E>,
    rows: &Table,
    first_row: usize,
    question: &Question,
) -> Result<Explanation, E> {
    question.index.of_coalitions()?;
    let columns = rows.columns();
    let reference = ReferenceRows::new(&question.game.function_background()?, columns)?;
    let Some(orders) = orders_for_rows(question, columns, &reference)? else {
        return enumerate(f, rows, first_row, question);
    };
    let (groups, seed) = (&question.players_of(columns), question.budget.seed);
    let mut evaluations = 0;
    let mut outputs = None;
    let mut ask = |table: &Table| -> Result<Matrix, E> {
        evaluations += table.rows();
        let out = f(table)?;
        super::check_answer(&out, table.rows(), outputs)?;
        outputs = Some(out.cols());
        Ok(out)
    };
    let at_background = ask(&reference.table(columns)?)?;
    let predictions = if rows.rows() == 0 { Matrix::zeros(0, at_background.cols()) } else { ask(rows)? };
    let (m, players) = (at_background.cols(), groups.players());
    let p = players.len();
    let base: Vec<f64> = (0..m)
        .map(|o| reference.weights.iter().enumerate().map(|(b, w)| w * at_background[(b, o)]).sum())
        .collect();
    let (mut all_values, mut std_error) = (Vec::new(), Vec::new());
    // Between the background row and the row itself an order passes p - 1 mixtures.
    let between = p.saturating_sub(1);
    let units_at_once = (BATCH / (2 * between).max(1)).max(1);
    let total = reference.rows.len() * orders;
    // What one order more or less counts.
    let share = inverse_effective_size(&reference) / orders as f64;
    let heaviest = reference.weights.iter().copied().fold(0.0, f64::max);
    for i in 0..rows.rows() {
        let x = rows.row(i);
        let row = (first_row + i) as u64;
        let mut random = Random::seed_from_u64(hash([seed, row]));
        let answered =
            (0..m).map(|o| ValueRange::over(at_background.column(o)).with(predictions[(i, o)])).collect();
        let mut estimate = RowEstimate::new(answered, p);
        for start in (0..total).step_by(units_at_once) {
            let units: Vec<(usize, Vec<usize>)> = (start..total.min(start + units_at_once))
                .map(|unit| {
                    let mut order: Vec<usize> = (0..p).collect();
                    order.shuffle(&mut random);
                    (unit / orders, order)
                })
                .collect();
            let answers = match between {
                0 => Matrix::zeros(0, m),
                _ => ask(&rows_along_order(rows, &x, &reference, groups, &units)?)?,
            };
            for (u, (b, order)) in units.iter().enumerate() {
                let starts = [2 * u * between, (2 * u + 1) * between];
                estimate.add_order(order, |pass, o, k| match k {
                    0 => at_background[(*b, o)],
                    k if k == p => predictions[(i, o)],
                    k => answers[(starts[pass] + k - 1, o)],
                });
                if (start + u + 1) % orders == 0 {
                    let weight = reference.weights[*b];
                    estimate.end_background_row(weight, orders as f64, weight / heaviest);
                }
            }
        }
        let (values, errors) = estimate.finish(share);
        all_values.extend(values);
        std_error.extend(errors);
    }
    let n = rows.rows();
    Ok(Explanation {
        index: question.index,
        players: players.to_vec(),
        subsets: None,
        output_names: default_names(m),
        values: all_values,
        base_values: (0..n).flat_map(|_| base.iter().copied()).collect(),
        predictions: predictions.data().to_vec(),
        data: rows.clone(),
        row_numbers: (first_row..first_row + n).collect(),
        exactness: Exactness::Estimated { std_error, sampling: Some(Sampling { evaluations, seed }) },
        uncertainty: None,
        duels: None,
        provenance: question.provenance(Vec::new(), Vec::new()),
    })
}

/// The values from all coalitions.
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

/// The mixtures that orders and their reverses pass on the way from their background row to `x`.
fn rows_along_order(
    rows: &Table,
    x: &[f64],
    reference: &ReferenceRows,
    groups: &Players,
    units: &[(usize, Vec<usize>)],
) -> Result<Table> {
    let (d, p) = (rows.width(), groups.players().len());
    let between = p - 1;
    let n = units.len() * 2 * between;
    let mut values = vec![0.0; n * d];
    let mut mixture = vec![0.0; d];
    let mut first = 0;
    for (b, order) in units {
        for reverse in [false, true] {
            mixture.copy_from_slice(&reference.rows[*b]);
            for k in 0..between {
                let player = if reverse { order[p - 1 - k] } else { order[k] };
                groups.players()[player].columns.iter().for_each(|&j| mixture[j] = x[j]);
                mixture.iter().enumerate().for_each(|(j, v)| values[j * n + first] = *v);
                first += 1;
            }
        }
    }
    Table::from_column_major(rows.columns().to_vec(), n, values)
}

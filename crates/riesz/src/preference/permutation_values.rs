//! Values of duels estimated along random orders of the players, for models of many features and landmarks.
//! Their exact values need all pairs of landmarks for each background pair of items. A mixture of items, in
//! contrast, needs the products of all pairs of landmarks only once.
//!
//! Each order is used forwards and in reverse, for a pair of items and, if the two differ, for its mirror
//! image. So the empty coalition has the value 0 in each order, and the values sum to the log odds without
//! sampling error. A duel and its mirror image use the same orders. Sources: Castro, Gómez and Tejada 2009
//! (random orders); Mitchell, Cooper, Frank and Holmes 2022 (an order and its reverse).

use rayon::prelude::*;

use super::left_right_columns::LeftRightColumns;
use crate::attribution::antithetic_orders::{
    ContributionSums, antithetic_orders, for_each_mixture, mean_contributions,
};
use crate::attribution::std_error::{ValueRange, Variance};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::game::ReferenceRows;
use crate::kernel_model::parts::{BatchPredictor, PartDecomposition};
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, hash};
use crate::table::{Players, Table};

/// The smallest number of orders.
pub(super) const MIN_ORDERS: usize = 16;

/// The number of mixtures that are predicted at once.
const BATCH: usize = 4096;

/// The items from which the values of absent columns are drawn.
pub(super) enum ReplacementPool {
    /// Two items, drawn independently, in both orders.
    Independent(ReferenceRows),
    /// One item, for both sides.
    Paired(ReferenceRows),
    /// The two items of a duel, a row of all columns, in both orders.
    Matches(ReferenceRows),
}

/// The source of the values of absent columns.
pub(super) struct ReplacementSource<'a> {
    pub(super) pool: ReplacementPool,
    /// Contexts; `None` if those of the explained duel are always present.
    pub(super) contexts: Option<ReferenceRows>,
    pub(super) sides: &'a LeftRightColumns,
}

impl ReplacementSource<'_> {
    /// Returns the number of orders to draw if `orders` are requested, and the number of strata: the
    /// background rows among which orders are divided equally, or 1 for independent draws.
    fn stratum_sizes(&self, orders: usize) -> (usize, usize) {
        let (ReplacementPool::Independent(reference)
        | ReplacementPool::Paired(reference)
        | ReplacementPool::Matches(reference)) = &self.pool;
        let rows = reference.rows.len();
        // With about one order per row, the variance between the orders of a row could not be estimated.
        if 2 * orders <= rows || !has_equal_weights(reference) {
            (orders, 1)
        } else {
            (orders.div_ceil(rows).max(2) * rows, rows)
        }
    }

    /// Draws replacements for a duel, each a row, or a row and its mirror image; the strata follow one
    /// another cyclically.
    fn draw_replacements(&self, random: &mut Random, count: usize, x: &[f64]) -> Vec<Vec<Vec<f64>>> {
        let mut rows = vec![x.to_vec(); count];
        let sides = self.sides;
        let set_columns =
            |rows: &mut Vec<Vec<f64>>, reference: &ReferenceRows, indices: Vec<usize>, columns: &[usize]| {
                for (row, row_index) in rows.iter_mut().zip(indices) {
                    columns.iter().zip(&reference.rows[row_index]).for_each(|(&j, v)| row[j] = *v);
                }
            };
        match &self.pool {
            ReplacementPool::Independent(reference) => {
                set_columns(&mut rows, reference, draw_evenly(random, count, reference), &sides.left);
                let mut right_indices = draw_evenly(random, count, reference);
                right_indices.shuffle(random);
                set_columns(&mut rows, reference, right_indices, &sides.right);
            }
            ReplacementPool::Paired(reference) => {
                let indices = draw_evenly(random, count, reference);
                set_columns(&mut rows, reference, indices.clone(), &sides.left);
                set_columns(&mut rows, reference, indices, &sides.right);
            }
            ReplacementPool::Matches(reference) => {
                let item_columns: Vec<usize> = (0..x.len()).filter(|j| !sides.contexts.contains(j)).collect();
                for (row, row_index) in rows.iter_mut().zip(draw_evenly(random, count, reference)) {
                    item_columns.iter().for_each(|&j| row[j] = reference.rows[row_index][j]);
                }
            }
        }
        if let Some(reference) = &self.contexts {
            // These draws are independent: if all contexts were drawn equally often, standard errors would
            // be too large, because they include the variance between contexts.
            set_columns(&mut rows, reference, draw_by_weights(random, count, reference), &sides.contexts);
        }
        let mirrored = !matches!(self.pool, ReplacementPool::Paired(_));
        let with_mirror = |row: Vec<f64>| if mirrored { vec![sides.swapped(&row), row] } else { vec![row] };
        rows.into_iter().map(with_mirror).collect()
    }
}

fn has_equal_weights(reference: &ReferenceRows) -> bool {
    reference.weights.iter().all(|w| *w == reference.weights[0])
}

/// Draws the indices of `count` rows by their weights; with equal weights, each row is drawn once before any
/// is repeated.
fn draw_evenly(random: &mut Random, count: usize, reference: &ReferenceRows) -> Vec<usize> {
    let size = reference.rows.len();
    if has_equal_weights(reference) {
        let mut indices: Vec<usize> = (0..size).collect();
        indices.shuffle(random);
        return indices.into_iter().cycle().take(count).collect();
    }
    draw_by_weights(random, count, reference)
}

/// Draws the indices of `count` rows independently by their weights.
fn draw_by_weights(random: &mut Random, count: usize, reference: &ReferenceRows) -> Vec<usize> {
    let draw_one = |_| {
        let mut remaining = random.random::<f64>();
        let passed = |w: &&f64| {
            remaining -= **w;
            remaining >= 0.0
        };
        // Rounding: the weights may not sum to exactly 1.
        reference.weights.iter().take_while(passed).count().min(reference.rows.len() - 1)
    };
    (0..count).map(draw_one).collect()
}

/// Estimated values, rows × outputs × players.
pub(super) struct PermutationEstimate {
    pub(super) values: Vec<f64>,
    pub(super) std_error: Vec<f64>,
    /// Rows × outputs.
    pub(super) predictions: Vec<f64>,
    pub(super) evaluations: usize,
}

/// Estimates Shapley values at `rows` for the players in `removable`; other players are always present.
/// Evaluations per row: 2, or 4 with mirror images, for each order and player.
///
/// # Errors
/// [`Error::Parameter`] for fewer than 16 orders; [`Error::Interrupted`].
pub(super) fn estimate(
    parts: &PartDecomposition,
    groups: &Players,
    removable: &[usize],
    rows: &Table,
    replacements: &ReplacementSource<'_>,
    (orders, seed): (usize, u64),
    control: RunControl<'_>,
) -> Result<PermutationEstimate> {
    if orders < MIN_ORDERS {
        let allowed = format!("take at least {MIN_ORDERS}: standard errors from fewer orders are unreliable");
        return Err(Error::parameter("n_orders", orders, allowed));
    }
    let predictor = BatchPredictor::new(parts);
    control.progress.start(rows.rows());
    let estimate_row = |i: usize| {
        let x = rows.row(i);
        let seed = hash([seed].into_iter().chain(x.iter().map(|v| (v + 0.0).to_bits())));
        let estimate = Row { predictor: &predictor, groups, removable, x: &x }.estimate(
            replacements,
            orders,
            seed,
            control,
        );
        control.step();
        estimate
    };
    let estimates: Vec<PermutationEstimate> =
        (0..rows.rows()).into_par_iter().map(estimate_row).collect::<Result<_>>()?;
    let (mut values, mut std_error, mut predictions) = (Vec::new(), Vec::new(), Vec::new());
    let mut evaluations = 0;
    for row in estimates {
        values.extend(row.values);
        std_error.extend(row.std_error);
        predictions.extend(row.predictions);
        evaluations += row.evaluations;
    }
    Ok(PermutationEstimate { values, std_error, predictions, evaluations })
}

/// A row to be explained.
struct Row<'a> {
    predictor: &'a BatchPredictor<'a>,
    groups: &'a Players,
    removable: &'a [usize],
    x: &'a [f64],
}

impl Row<'_> {
    fn estimate(
        &self,
        replacements: &ReplacementSource<'_>,
        orders: usize,
        seed: u64,
        control: RunControl<'_>,
    ) -> Result<PermutationEstimate> {
        let prediction = self.predictor.predict(&[self.x.to_vec()]).data().to_vec();
        let (m, p, n_players) = (prediction.len(), self.removable.len(), self.groups.players().len());
        let mut random = Random::seed_from_u64(seed);
        let (orders, strata) = replacements.stratum_sizes(orders);
        let replacement_rows = replacements.draw_replacements(&mut random, orders, self.x);
        let mixtures_per_order = p.saturating_sub(1);
        let mut sums = StratifiedSums {
            orders,
            strata,
            cells: vec![ContributionSums::EMPTY; strata * m * p],
            output_ranges: prediction.iter().map(|v| ValueRange::over([0.0, *v])).collect(),
        };
        let mut evaluations = 1;
        let width = replacement_rows.first().map_or(1, Vec::len);
        let orders_per_batch = (BATCH / (2 * width * mixtures_per_order).max(1)).max(1);
        for (batch, batch_rows) in replacement_rows.chunks(orders_per_batch).enumerate() {
            control.check_cancelled()?;
            let pairs: Vec<[Vec<usize>; 2]> =
                batch_rows.iter().map(|_| antithetic_orders(&mut random, p)).collect();
            let mixtures: Vec<Vec<f64>> =
                batch_rows.iter().zip(&pairs).flat_map(|(rows, pair)| self.mixtures(rows, pair)).collect();
            evaluations += mixtures.len();
            let outputs = self.predictor.predict(&mixtures);
            for (u, pair) in pairs.iter().enumerate() {
                let passes = 2 * width;
                let contributions =
                    mean_contributions(pair, passes, &mut sums.output_ranges, |pass, o, k| match k {
                        // The value of the empty coalition is 0 for a pair and its mirror image together, and
                        // for two equal items.
                        0 => 0.0,
                        k if k == p => prediction[o],
                        k => outputs[((u * passes + pass) * mixtures_per_order + k - 1, o)],
                    });
                let stratum = (batch * orders_per_batch + u) % strata * m * p;
                let cells = &mut sums.cells[stratum..][..m * p];
                cells.iter_mut().zip(contributions).for_each(|(cell, v)| cell.add(v));
            }
        }
        let (mut values, mut std_error) = (vec![0.0; m * n_players], vec![0.0; m * n_players]);
        for o in 0..m {
            for (&player, (value, error)) in self.removable.iter().zip(sums.output_values(o, p)) {
                values[o * n_players + player] = value;
                std_error[o * n_players + player] = error;
            }
        }
        Ok(PermutationEstimate { values, std_error, predictions: prediction, evaluations })
    }

    /// Returns the mixtures along an order and its reverse, from each row to `x`.
    fn mixtures(&self, rows: &[Vec<f64>], orders: &[Vec<usize>; 2]) -> Vec<Vec<f64>> {
        let mut out = Vec::with_capacity(2 * rows.len() * self.removable.len());
        let columns = |k: usize| &self.groups.players()[self.removable[k]].columns[..];
        for row in rows {
            for order in orders {
                for_each_mixture(order, columns, self.x, row, |mixture| out.push(mixture.to_vec()));
            }
        }
        out
    }
}

/// Sums over the orders of a row, which are divided equally among strata.
struct StratifiedSums {
    orders: usize,
    strata: usize,
    /// Strata × outputs × players.
    cells: Vec<ContributionSums>,
    /// For each output, the range of its values.
    output_ranges: Vec<ValueRange>,
}

impl StratifiedSums {
    /// Returns the values of output o and their standard errors, one per player.
    fn output_values(&self, o: usize, players: usize) -> Vec<(f64, f64)> {
        let (n, per_stratum) = (self.orders as f64, (self.orders / self.strata) as f64);
        let outputs = self.output_ranges.len();
        let cells_of = |k: usize| (0..self.strata).map(move |s| self.cells[(s * outputs + o) * players + k]);
        let max_over_cells = |size: fn(ValueRange) -> f64| {
            (0..players).flat_map(cells_of).map(|cell| size(cell.range)).fold(0.0, f64::max)
        };
        let sizes = [max_over_cells(ValueRange::width), max_over_cells(ValueRange::largest)];
        let step = self.output_ranges[o].max_deviation(sizes) / n;
        let estimate = |k: usize| {
            let (mut total, mut variance) = (0.0, Variance::default());
            for ContributionSums { sum, square, .. } in cells_of(k) {
                total += sum;
                let variance_of_stratum = (square - sum * sum / per_stratum).max(0.0) / (per_stratum - 1.0);
                variance.add(variance_of_stratum * per_stratum / (n * n), per_stratum - 1.0);
            }
            variance.inflate(step);
            (total / n, variance.std_error())
        };
        (0..players).map(estimate).collect()
    }
}

//! Values of duels estimated along random orders of the players, for models of many features and landmarks:
//! their exact values need all pairs of landmarks for each background pair of items, while a mixture of items
//! needs as many products as there are pairs of landmarks, once.
//!
//! Each order is passed forwards and backwards, against a pair of items and, where the two differ, against
//! its mirror image. Thereby the empty coalition has the value 0 in each, and the values add up to the log
//! odds without sampling error. A duel and its mirror image use the same orders. Sources: Castro, Gómez and
//! Tejada 2009 (random orders); Mitchell, Cooper, Frank and Holmes 2022 (an order and its reverse).

use rayon::prelude::*;

use super::left_right_columns::LeftRightColumns;
use crate::attribution::std_error::{ValueRange, Variance};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::game::ReferenceRows;
use crate::kernel_model::parts::{BatchPredictor, PartDecomposition};
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, hash};
use crate::table::{Players, Table};

/// The fewest orders: fewer say too little about what others would be.
pub(super) const FEWEST: usize = 16;

/// Mixtures that are valued at once.
const BATCH: usize = 4096;

/// Items that absent columns are taken from.
pub(super) enum ReplacementPool {
    /// Two items, each drawn on its own, either way round.
    Apart(ReferenceRows),
    /// One item, on both sides.
    Same(ReferenceRows),
    /// The two of a duel, a row of all columns, either way round.
    Met(ReferenceRows),
}

/// Where absent columns are taken from.
pub(super) struct ReplacementSource<'a> {
    pub(super) pool: ReplacementPool,
    /// Contexts; those of the explained duel where they are always present.
    pub(super) contexts: Option<ReferenceRows>,
    pub(super) sides: &'a LeftRightColumns,
}

impl ReplacementSource<'_> {
    /// The number of orders to draw where `orders` are requested, and the number of background rows among
    /// which they are divided equally: 1 for independent draws.
    fn stratum_sizes(&self, orders: usize) -> (usize, usize) {
        let (ReplacementPool::Apart(reference)
        | ReplacementPool::Same(reference)
        | ReplacementPool::Met(reference)) = &self.pool;
        let rows = reference.rows.len();
        // Orders against nearly all rows, each once, would hold too little information about their variance.
        if 2 * orders <= rows || !equal(reference) {
            (orders, 1)
        } else {
            (orders.div_ceil(rows).max(2) * rows, rows)
        }
    }

    /// Replacements for a duel, each a row or a row and its mirror image; the strata follow one another
    /// cyclically.
    fn draw_replacements(&self, random: &mut Random, count: usize, x: &[f64]) -> Vec<Vec<Vec<f64>>> {
        let mut rows = vec![x.to_vec(); count];
        let sides = self.sides;
        let set =
            |rows: &mut Vec<Vec<f64>>, reference: &ReferenceRows, drawn: Vec<usize>, columns: &[usize]| {
                for (row, row_index) in rows.iter_mut().zip(drawn) {
                    columns.iter().zip(&reference.rows[row_index]).for_each(|(&j, v)| row[j] = *v);
                }
            };
        match &self.pool {
            ReplacementPool::Apart(reference) => {
                set(&mut rows, reference, shuffled_deck(random, count, reference), &sides.left);
                let mut other = shuffled_deck(random, count, reference);
                other.shuffle(random);
                set(&mut rows, reference, other, &sides.right);
            }
            ReplacementPool::Same(reference) => {
                let indices = shuffled_deck(random, count, reference);
                set(&mut rows, reference, indices.clone(), &sides.left);
                set(&mut rows, reference, indices, &sides.right);
            }
            ReplacementPool::Met(reference) => {
                let items: Vec<usize> = (0..x.len()).filter(|j| !sides.contexts.contains(j)).collect();
                for (row, row_index) in rows.iter_mut().zip(shuffled_deck(random, count, reference)) {
                    items.iter().for_each(|&j| row[j] = reference.rows[row_index][j]);
                }
            }
        }
        if let Some(reference) = &self.contexts {
            // Independent draws: if all were drawn equally often, standard errors would include a variance
            // that is no error.
            set(&mut rows, reference, drawn(random, count, reference), &sides.contexts);
        }
        let mirrored = !matches!(self.pool, ReplacementPool::Same(_));
        let with_mirror = |row: Vec<f64>| if mirrored { vec![sides.swapped(&row), row] } else { vec![row] };
        rows.into_iter().map(with_mirror).collect()
    }
}

fn equal(reference: &ReferenceRows) -> bool {
    reference.weights.iter().all(|w| *w == reference.weights[0])
}

/// The indices of `count` rows by their weights; with equal weights every row is drawn once before any is
/// repeated.
fn shuffled_deck(random: &mut Random, count: usize, reference: &ReferenceRows) -> Vec<usize> {
    let size = reference.rows.len();
    if equal(reference) {
        let mut indices: Vec<usize> = (0..size).collect();
        indices.shuffle(random);
        return indices.into_iter().cycle().take(count).collect();
    }
    drawn(random, count, reference)
}

/// The indices of `count` rows, drawn independently by their weights.
fn drawn(random: &mut Random, count: usize, reference: &ReferenceRows) -> Vec<usize> {
    let draw_one = |_| {
        let mut remaining = random.random::<f64>();
        let passed = |w: &&f64| {
            remaining -= **w;
            remaining >= 0.0
        };
        // Weights do not add up to 1 to the last bit.
        reference.weights.iter().take_while(passed).count().min(reference.rows.len() - 1)
    };
    (0..count).map(draw_one).collect()
}

/// Estimated values: rows × outputs × players.
pub(super) struct PermutationEstimate {
    pub(super) values: Vec<f64>,
    pub(super) std_error: Vec<f64>,
    /// Rows × outputs.
    pub(super) predictions: Vec<f64>,
    pub(super) evaluations: usize,
}

/// Shapley values at `rows`, of the `playing` ones among the players; others are always present. Evaluations
/// a row: 2 or 4 (where draws have mirrors) for each order and player.
///
/// # Errors
/// [`Error::Parameter`] for fewer than 16 orders; [`Error::Interrupted`].
pub(super) fn estimate(
    parts: &PartDecomposition,
    groups: &Players,
    playing: &[usize],
    rows: &Table,
    replacements: &ReplacementSource<'_>,
    (orders, seed): (usize, u64),
    control: RunControl<'_>,
) -> Result<PermutationEstimate> {
    if orders < FEWEST {
        let allowed = format!("at least {FEWEST}: fewer say too little about what others would be");
        return Err(Error::parameter("permutations", orders, allowed));
    }
    let predictor = BatchPredictor::new(parts);
    control.progress.start(rows.rows());
    let estimate_row = |i: usize| {
        let x = rows.row(i);
        let seed = hash([seed].into_iter().chain(x.iter().map(|v| (v + 0.0).to_bits())));
        let estimate = Row { predictor: &predictor, groups, playing, x: &x }.estimate(
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

/// A row that is explained.
struct Row<'a> {
    predictor: &'a BatchPredictor<'a>,
    groups: &'a Players,
    playing: &'a [usize],
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
        let (m, p, n_players) = (prediction.len(), self.playing.len(), self.groups.players().len());
        let mut random = Random::seed_from_u64(seed);
        let (orders, strata) = replacements.stratum_sizes(orders);
        let drawn = replacements.draw_replacements(&mut random, orders, self.x);
        let between = p.saturating_sub(1);
        // For each stratum, output and player the sums of the contributions and of their squares, and their
        // range.
        let mut sums = vec![[0.0; 2]; strata * m * p];
        let mut ranges = vec![ValueRange::EMPTY; strata * m * p];
        let mut answered: Vec<ValueRange> = prediction.iter().map(|v| ValueRange::over([0.0, *v])).collect();
        let mut evaluations = 1;
        let width = drawn.first().map_or(1, Vec::len);
        let at_once = (BATCH / (2 * width * between).max(1)).max(1);
        for (chunk, chunk_drawn) in drawn.chunks(at_once).enumerate() {
            control.check_cancelled()?;
            let shuffled = |from| {
                let mut order: Vec<usize> = (0..p).collect();
                order.shuffle(&mut random);
                (from, order)
            };
            let chunk_orders: Vec<(&Vec<Vec<f64>>, Vec<usize>)> = chunk_drawn.iter().map(shuffled).collect();
            let mixtures: Vec<Vec<f64>> =
                chunk_orders.iter().flat_map(|(from, order)| self.mixtures(from, order)).collect();
            evaluations += mixtures.len();
            let answers = self.predictor.predict(&mixtures);
            let mut position = 0;
            for (u, (from, order)) in chunk_orders.iter().enumerate() {
                let share = 0.5 / from.len() as f64;
                let mut contributions = vec![0.0; m * p];
                for forwards in from.iter().flat_map(|_| [true, false]) {
                    for o in 0..m {
                        // The empty coalition has the value 0 for a pair and its mirror image together, and
                        // for two equal items.
                        let mut before = 0.0;
                        for k in 0..p {
                            let player = order[if forwards { k } else { p - 1 - k }];
                            let after = if k < between { answers[(position + k, o)] } else { prediction[o] };
                            answered[o] = answered[o].with(after);
                            contributions[o * p + player] += share * (after - before);
                            before = after;
                        }
                    }
                    position += between;
                }
                let stratum = (chunk * at_once + u) % strata * m * p;
                for (k, v) in contributions.iter().enumerate() {
                    let sum = &mut sums[stratum + k];
                    *sum = [sum[0] + v, sum[1] + v * v];
                    ranges[stratum + k] = ranges[stratum + k].with(*v);
                }
            }
        }
        let (n, per_stratum) = (orders as f64, (orders / strata) as f64);
        let (mut values, mut std_error) = (vec![0.0; m * n_players], vec![0.0; m * n_players]);
        for o in 0..m {
            let cells_of = |k: usize| (0..strata).map(move |s| (s * m + o) * p + k);
            let largest_of = |size: fn(ValueRange) -> f64| {
                (0..p).flat_map(cells_of).map(|cell| size(ranges[cell])).fold(0.0, f64::max)
            };
            let step = answered[o]
                .max_deviation([largest_of(ValueRange::width), largest_of(ValueRange::largest)])
                / n;
            for (k, &player) in self.playing.iter().enumerate() {
                let (mut total, mut variance) = (0.0, Variance::default());
                for [sum, squares] in cells_of(k).map(|cell| sums[cell]) {
                    total += sum;
                    let variance_of_stratum =
                        (squares - sum * sum / per_stratum).max(0.0) / (per_stratum - 1.0);
                    variance.add(variance_of_stratum * per_stratum / (n * n), per_stratum - 1.0);
                }
                variance.inflate(step);
                values[o * n_players + player] = total / n;
                std_error[o * n_players + player] = variance.std_error();
            }
        }
        Ok(PermutationEstimate { values, std_error, predictions: prediction, evaluations })
    }

    /// The mixtures that an order and its reverse pass, from each row to `x`.
    fn mixtures(&self, from: &[Vec<f64>], order: &[usize]) -> Vec<Vec<f64>> {
        let mut out = Vec::with_capacity(2 * from.len() * order.len());
        for row in from {
            for forwards in [true, false] {
                let mut mixture = row.clone();
                for k in 0..order.len().saturating_sub(1) {
                    let player = self.playing[order[if forwards { k } else { order.len() - 1 - k }]];
                    self.groups.players()[player].columns.iter().for_each(|&j| mixture[j] = self.x[j]);
                    out.push(mixture.clone());
                }
            }
        }
        out
    }
}

//! Values of duels along random orders of the players: for models of many features and landmarks, whose exact
//! values take all pairs of landmarks for each pair of items that absent features are taken from. A mixture
//! of items takes as many products as there are pairs of landmarks, once.
//!
//! An order is passed forwards and backwards, against a pair of items and, where the two differ, against its
//! mirror, so that nobody present is worth nothing in each and values add up to the log odds without sampling
//! error. Orders of a duel and of its mirror are the same ones. Source: Castro, Gómez and Tejada 2009 (random
//! orders); Mitchell, Cooper, Frank and Holmes 2022 (an order and its reverse).

use rayon::prelude::*;

use super::left_right_columns::LeftRightColumns;
use crate::attribution::std_error::{ValueRange, Variance};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::game::ReferenceRows;
use crate::kernel_model::parts::{Parts, Predictor};
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
    /// How many orders are taken where so many are asked for, and among how many background rows of which
    /// each has as many of them as any other: 1 for draws from all.
    fn stratum_sizes(&self, orders: usize) -> (usize, usize) {
        let (ReplacementPool::Apart(own) | ReplacementPool::Same(own) | ReplacementPool::Met(own)) =
            &self.pool;
        let rows = own.rows.len();
        // Orders against nearly all rows, each once, would say too little of what one order more is off.
        if 2 * orders <= rows || !equal(own) {
            (orders, 1)
        } else {
            (orders.div_ceil(rows).max(2) * rows, rows)
        }
    }

    /// Replacements for a duel, each a row or a row and its mirror; of strata one after the other, around.
    fn draw_replacements(&self, random: &mut Random, count: usize, x: &[f64]) -> Vec<Vec<Vec<f64>>> {
        let mut rows = vec![x.to_vec(); count];
        let sides = self.sides;
        let set = |rows: &mut Vec<Vec<f64>>, own: &ReferenceRows, drawn: Vec<usize>, columns: &[usize]| {
            for (row, at) in rows.iter_mut().zip(drawn) {
                columns.iter().zip(&own.rows[at]).for_each(|(&j, v)| row[j] = *v);
            }
        };
        match &self.pool {
            ReplacementPool::Apart(own) => {
                set(&mut rows, own, shuffled_deck(random, count, own), &sides.left);
                let mut other = shuffled_deck(random, count, own);
                other.shuffle(random);
                set(&mut rows, own, other, &sides.right);
            }
            ReplacementPool::Same(own) => {
                let both = shuffled_deck(random, count, own);
                set(&mut rows, own, both.clone(), &sides.left);
                set(&mut rows, own, both, &sides.right);
            }
            ReplacementPool::Met(own) => {
                let items: Vec<usize> = (0..x.len()).filter(|j| !sides.contexts.contains(j)).collect();
                for (row, at) in rows.iter_mut().zip(shuffled_deck(random, count, own)) {
                    items.iter().for_each(|&j| row[j] = own.rows[at][j]);
                }
            }
        }
        if let Some(own) = &self.contexts {
            // Each on its own: if all were drawn equally often, standard errors would count a spread that is
            // no error.
            set(&mut rows, own, drawn(random, count, own), &sides.contexts);
        }
        let mirrored = !matches!(self.pool, ReplacementPool::Same(_));
        let both = |row: Vec<f64>| if mirrored { vec![sides.swapped(&row), row] } else { vec![row] };
        rows.into_iter().map(both).collect()
    }
}

fn equal(own: &ReferenceRows) -> bool {
    own.weights.iter().all(|w| *w == own.weights[0])
}

/// The numbers of `count` rows by their weights: of equal ones all after all others were drawn.
fn shuffled_deck(random: &mut Random, count: usize, own: &ReferenceRows) -> Vec<usize> {
    let size = own.rows.len();
    if equal(own) {
        let mut all: Vec<usize> = (0..size).collect();
        all.shuffle(random);
        return all.into_iter().cycle().take(count).collect();
    }
    drawn(random, count, own)
}

/// The numbers of `count` rows by their weights, each on its own.
fn drawn(random: &mut Random, count: usize, own: &ReferenceRows) -> Vec<usize> {
    let one = |_| {
        let mut rest = random.random::<f64>();
        let passed = |w: &&f64| {
            rest -= **w;
            rest >= 0.0
        };
        // Weights do not add up to 1 to the last bit.
        own.weights.iter().take_while(passed).count().min(own.rows.len() - 1)
    };
    (0..count).map(one).collect()
}

/// What is estimated: rows × outputs × players.
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
    parts: &Parts,
    groups: &Players,
    playing: &[usize],
    rows: &Table,
    replacements: &ReplacementSource<'_>,
    (orders, seed): (usize, u64),
    watch: RunControl<'_>,
) -> Result<PermutationEstimate> {
    if orders < FEWEST {
        let allowed = format!("at least {FEWEST}: fewer say too little about what others would be");
        return Err(Error::parameter("permutations", orders, allowed));
    }
    let predictor = Predictor::new(parts);
    watch.progress.start(rows.rows());
    let of = |i: usize| {
        let x = rows.row(i);
        let seed = hash([seed].into_iter().chain(x.iter().map(|v| (v + 0.0).to_bits())));
        let found =
            Row { predictor: &predictor, groups, playing, x: &x }.estimate(replacements, orders, seed, watch);
        watch.step();
        found
    };
    let found: Vec<PermutationEstimate> = (0..rows.rows()).into_par_iter().map(of).collect::<Result<_>>()?;
    let (mut values, mut std_error, mut predictions) = (Vec::new(), Vec::new(), Vec::new());
    let mut evaluations = 0;
    for row in found {
        values.extend(row.values);
        std_error.extend(row.std_error);
        predictions.extend(row.predictions);
        evaluations += row.evaluations;
    }
    Ok(PermutationEstimate { values, std_error, predictions, evaluations })
}

/// A row that is explained.
struct Row<'a> {
    predictor: &'a Predictor<'a>,
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
        watch: RunControl<'_>,
    ) -> Result<PermutationEstimate> {
        let prediction = self.predictor.predict(&[self.x.to_vec()]).data().to_vec();
        let (m, p, all) = (prediction.len(), self.playing.len(), self.groups.players().len());
        let mut random = Random::seed_from_u64(seed);
        let (orders, strata) = replacements.stratum_sizes(orders);
        let drawn = replacements.draw_replacements(&mut random, orders, self.x);
        let between = p.saturating_sub(1);
        // By stratum, output and player the sums of what orders add and of its square; and between what it
        // lies.
        let mut sums = vec![[0.0; 2]; strata * m * p];
        let mut ranges = vec![ValueRange::EMPTY; strata * m * p];
        let mut answered: Vec<ValueRange> = prediction.iter().map(|v| ValueRange::of([0.0, *v])).collect();
        let mut evaluations = 1;
        let width = drawn.first().map_or(1, Vec::len);
        let at_once = (BATCH / (2 * width * between).max(1)).max(1);
        for (chunk, some) in drawn.chunks(at_once).enumerate() {
            watch.check_cancelled()?;
            let shuffled = |from| {
                let mut order: Vec<usize> = (0..p).collect();
                order.shuffle(&mut random);
                (from, order)
            };
            let some: Vec<(&Vec<Vec<f64>>, Vec<usize>)> = some.iter().map(shuffled).collect();
            let mixtures: Vec<Vec<f64>> =
                some.iter().flat_map(|(from, order)| self.mixtures(from, order)).collect();
            evaluations += mixtures.len();
            let answers = self.predictor.predict(&mixtures);
            let mut at = 0;
            for (u, (from, order)) in some.iter().enumerate() {
                let share = 0.5 / from.len() as f64;
                let mut own = vec![0.0; m * p];
                for forwards in from.iter().flat_map(|_| [true, false]) {
                    for o in 0..m {
                        // Of a pair and its mirror together, or of two alike, nobody present is worth
                        // nothing.
                        let mut before = 0.0;
                        for k in 0..p {
                            let player = order[if forwards { k } else { p - 1 - k }];
                            let after = if k < between { answers[(at + k, o)] } else { prediction[o] };
                            answered[o] = answered[o].with(after);
                            own[o * p + player] += share * (after - before);
                            before = after;
                        }
                    }
                    at += between;
                }
                let stratum = (chunk * at_once + u) % strata * m * p;
                for (k, v) in own.iter().enumerate() {
                    let sum = &mut sums[stratum + k];
                    *sum = [sum[0] + v, sum[1] + v * v];
                    ranges[stratum + k] = ranges[stratum + k].with(*v);
                }
            }
        }
        let (n, each) = (orders as f64, (orders / strata) as f64);
        let (mut values, mut std_error) = (vec![0.0; m * all], vec![0.0; m * all]);
        for o in 0..m {
            let of = |k: usize| (0..strata).map(move |s| (s * m + o) * p + k);
            let most = |size: fn(ValueRange) -> f64| {
                (0..p).flat_map(of).map(|at| size(ranges[at])).fold(0.0, f64::max)
            };
            let step = answered[o].max_deviation([most(ValueRange::width), most(ValueRange::largest)]) / n;
            for (k, &player) in self.playing.iter().enumerate() {
                let (mut total, mut variance) = (0.0, Variance::default());
                for [sum, squares] in of(k).map(|at| sums[at]) {
                    total += sum;
                    let spread = (squares - sum * sum / each).max(0.0) / (each - 1.0);
                    variance.add(spread * each / (n * n), each - 1.0);
                }
                variance.inflate(step);
                values[o * all + player] = total / n;
                std_error[o * all + player] = variance.std_error();
            }
        }
        Ok(PermutationEstimate { values, std_error, predictions: prediction, evaluations })
    }

    /// What an order and its reverse pass, from each row to `x`.
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

//! Values of all coalitions where independent parts of a row are averaged separately. A value is a product
//! over the parts, of the present players' factors times the mean over absent players. Eight coalitions share
//! one [`Lanes`]: the bits of the first three players give the lane, and the bits of the other players give
//! the block.

use std::sync::atomic::AtomicBool;

use super::coalition_tables::absent_means;
use crate::error::Result;
use crate::kernel_model::parts::SparseTerm;
use crate::linalg::multiply_entries;
use crate::memory::refill;
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};

/// Number of players whose subsets form a block.
const BLOCK_PLAYERS: usize = 3;

/// Number of [`Lanes`] of rows whose means are computed together.
const RUN_LANES: usize = 4;

/// Number of blocks of all coalitions of `players` players.
pub(crate) fn blocks(players: usize) -> usize {
    1 << players.saturating_sub(BLOCK_PLAYERS)
}

/// Products of the factors of each coalition's players, for each row.
#[derive(Default)]
pub(crate) struct PresentProducts {
    /// For each row, the products over subsets of the first three players.
    low: Vec<Lanes>,
    /// Products over subsets of the other players, blocks × rows.
    high: Vec<f64>,
}

impl PresentProducts {
    /// Fills the products from `factors` (players × rows).
    pub(crate) fn fill(&mut self, factors: &[f64], rows: usize) {
        let players = factors.len() / rows.max(1);
        let factor = |j: usize, i: usize| factors[j * rows + i];
        // Bits beyond the number of players belong to no coalition.
        let low_products = |i: usize| {
            let mut products = [1.0; LANES];
            for j in 0..BLOCK_PLAYERS {
                let player_factor = if j < players { factor(j, i) } else { 0.0 };
                for subset in 0..1 << j {
                    products[subset + (1 << j)] = products[subset] * player_factor;
                }
            }
            Lanes(products)
        };
        self.low.clear();
        self.low.extend((0..rows).map(low_products));
        refill(&mut self.high, rows, 1.0);
        for j in BLOCK_PLAYERS..players {
            let player_factors = &factors[j * rows..(j + 1) * rows];
            for block in 0..1 << (j - BLOCK_PLAYERS) {
                let from = block * rows;
                self.high.extend_from_within(from..from + rows);
                let start = self.high.len() - rows;
                multiply_entries(&mut self.high[start..], player_factors);
            }
        }
    }
}

dispatch! {
    /// Adds to each row's entry of `out`, for the coalitions of a block, `scale` times the product of the
    /// present players' factors and the mean over absent players.
    pub(crate) fn add_block<V: Simd>(
        present: &PresentProducts,
        block: usize,
        means: &[Lanes],
        scale: f64,
        out: &mut [Lanes],
    ) {
        let rows = out.len();
        let high = &present.high[block * rows..(block + 1) * rows];
        for (((out, low), high), mean) in out.iter_mut().zip(&present.low).zip(high).zip(means) {
            *out = V::fma(V::mul(*low, *mean), Lanes::splat(scale * high), *out);
        }
    }

    /// Sum over tuples of the coefficient times the product of the numbers that each side has for the tuple's
    /// rows.
    pub(crate) fn sum_over_tuples<V: Simd>(tuples: &SparseTerm, coef: &[f64], sides: &[&[Lanes]]) -> Lanes {
        let width = sides.len();
        let mut sum = Lanes::ZERO;
        for (first, run) in tuples.runs() {
            let mut run_sum = Lanes::ZERO;
            match width {
                1 => run_sum = Lanes::splat(coef[run.start]),
                2 => {
                    let second = &tuples.rows[2 * run.start..2 * run.end];
                    for (row, c) in second.chunks_exact(2).zip(&coef[run]) {
                        run_sum = V::fma(sides[1][row[1] as usize], Lanes::splat(*c), run_sum);
                    }
                }
                _ => {
                    for tuple in run {
                        let remaining = (1..width).map(|s| sides[s][tuples.row(tuple, s)]);
                        let start = Lanes::splat(coef[tuple]);
                        let product = remaining.fold(start, |product, side| V::mul(product, side));
                        run_sum = V::add(product, run_sum);
                    }
                }
            }
            sum = V::fma(sides[0][first], run_sum, sum);
        }
        sum
    }
}

/// Means over reference rows of the products of absent players' factors, blocks × rows. `factors` writes the
/// factors of one reference row, players × rows.
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub(crate) fn means(
    isa: Isa,
    (players, rows): (usize, usize),
    weights: &[f64],
    stop: &AtomicBool,
    factors: impl FnMut(usize, &mut [f64]),
) -> Result<Vec<Lanes>> {
    let sums = absent_means(isa, (players, rows, RUN_LANES), weights, stop, factors)?;
    Ok(in_blocks(players, rows, |coalition| {
        let sums = &sums;
        move |row| {
            let (run, lanes) = (row / (RUN_LANES * LANES), row / LANES % RUN_LANES);
            sums[(run << players | coalition) * RUN_LANES + lanes].0[row % LANES]
        }
    }))
}

/// Arranges numbers of all coalitions and rows as blocks × rows; `values` returns those of one coalition as a
/// function of the row.
pub(crate) fn in_blocks<F: Fn(usize) -> f64>(
    players: usize,
    rows: usize,
    values: impl Fn(usize) -> F,
) -> Vec<Lanes> {
    let mut out = Vec::with_capacity(blocks(players) * rows);
    for block in 0..blocks(players) {
        // A single block of few players has fewer coalitions than lanes.
        let lanes: [Option<F>; LANES] = std::array::from_fn(|lane| {
            let coalition = block << BLOCK_PLAYERS | lane;
            (coalition < 1 << players).then(|| values(coalition))
        });
        let number = |lane: usize, row: usize| lanes[lane].as_ref().map_or(0.0, |values| values(row));
        out.extend((0..rows).map(|row| Lanes(std::array::from_fn(|lane| number(lane, row)))));
    }
    out
}

//! Random orders of players, each with its reverse, and the marginal contributions along them.
//!
//! Sources: Castro, Gómez and Tejada 2009 (random orders); Mitchell, Cooper, Frank and Holmes 2022
//! (antithetic sampling: an order and its reverse).

use super::std_error::ValueRange;
use crate::random::{Random, SliceRandom};

/// Draws a random order of `players` players. Returns the order and its reverse.
pub fn antithetic_orders(random: &mut Random, players: usize) -> [Vec<usize>; 2] {
    let mut order: Vec<usize> = (0..players).collect();
    order.shuffle(random);
    let reverse = order.iter().rev().copied().collect();
    [order, reverse]
}

/// Passes the mixtures of `x` and an absent row along an order of p players to `add`: the columns of the
/// first 1, 2, …, p - 1 players are those of `x`. `columns` returns the columns of a player.
pub fn for_each_mixture<'c>(
    order: &[usize],
    columns: impl Fn(usize) -> &'c [usize],
    x: &[f64],
    absent: &[f64],
    mut add: impl FnMut(&[f64]),
) {
    let mut mixture = absent.to_vec();
    for &player in &order[..order.len().saturating_sub(1)] {
        columns(player).iter().for_each(|&j| mixture[j] = x[j]);
        add(&mixture);
    }
}

/// Returns the mean contributions (outputs × players) over `passes` passes along the two orders in turn, and
/// extends the range of each output by its values. `output(pass, o, k)` is output o with the first k players
/// of the pass present.
pub fn mean_contributions(
    orders: &[Vec<usize>; 2],
    passes: usize,
    ranges: &mut [ValueRange],
    output: impl Fn(usize, usize, usize) -> f64,
) -> Vec<f64> {
    let (players, share) = (orders[0].len(), 1.0 / passes as f64);
    let mut contributions = vec![0.0; ranges.len() * players];
    for (pass, order) in (0..passes).zip(orders.iter().cycle()) {
        for (o, range) in ranges.iter_mut().enumerate() {
            let mut before = output(pass, o, 0);
            for (k, player) in order.iter().enumerate() {
                let after = output(pass, o, k + 1);
                *range = range.with(after);
                contributions[o * players + player] += share * (after - before);
                before = after;
            }
        }
    }
    contributions
}

/// Sum, sum of squares and range of the contributions of a player to an output.
#[derive(Clone, Copy)]
pub struct ContributionSums {
    /// The sum of contributions.
    pub sum: f64,
    /// The sum of squared contributions.
    pub square: f64,
    /// The range of the contributions.
    pub range: ValueRange,
}

impl ContributionSums {
    /// The sums of no contribution.
    pub const EMPTY: Self = Self { sum: 0.0, square: 0.0, range: ValueRange::EMPTY };

    /// Adds a contribution.
    pub fn add(&mut self, contribution: f64) {
        self.sum += contribution;
        self.square += contribution * contribution;
        self.range = self.range.with(contribution);
    }
}

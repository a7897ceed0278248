//! Games of few players, from a table of all coalition values. Factors of absent players are averaged over
//! many reference rows, so the averages of all 2^m products of m players' factors are computed once. A row
//! then costs 2^m products per support point, for any number of reference rows. Every value index is a
//! weighted sum of the table. Source: our own.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::index_computation::IndexComputation;
use super::interaction_weights::{SharedNode, SizeWeighting, SizeWeightings, binomial};
use super::rule::InclusionMeasure;
use super::set_error_bounds::{SetErrorBounds, SizeErrorBound};
use super::sets::Sets;
use crate::coalition_structure::CoalitionTree;
use crate::control::check_cancelled;
use crate::error::Result;
use crate::game::TERMS;
use crate::linalg::{dot, dot_roundings, max_abs};
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};

/// A range of [`Lanes`] of the factors of several players.
#[derive(Clone, Copy)]
pub(crate) struct LaneRange<'f> {
    /// Factors, player after player.
    pub(crate) factors: &'f [f64],
    /// Number of [`Lanes`] per player.
    pub(crate) lanes_per_player: usize,
    /// Index of the first [`Lanes`] of the range.
    pub(crate) from: usize,
}

dispatch! {
    /// Computes for each subset of `players` the product of `first` and the factors of the subset, over as
    /// many [`Lanes`] as `first`. The subset with the bits `bits` is at `bits * lanes`.
    pub(crate) fn products<V: Simd>(
        run: LaneRange<'_>,
        players: Range<usize>,
        first: &[Lanes],
        out: &mut Vec<Lanes>,
    ) {
        let lanes = first.len();
        out.resize(lanes << players.len(), Lanes::ZERO);
        out[..lanes].copy_from_slice(first);
        let (factors, _) = run.factors.as_chunks::<LANES>();
        for (k, player) in players.enumerate() {
            let player_lanes = &factors[player * run.lanes_per_player + run.from..][..lanes];
            let (absent, with) = out.split_at_mut(lanes << k);
            for (with, absent) in with.chunks_exact_mut(lanes).zip(absent.chunks_exact(lanes)) {
                for ((with, absent), factor) in with.iter_mut().zip(absent).zip(player_lanes) {
                    *with = V::mul(*absent, Lanes(*factor));
                }
            }
        }
    }
}

/// Copies the factors one after another, each padded with zeros to `padded_len` numbers.
pub(crate) fn padded(factors: &[f64], len: usize, padded_len: usize, out: &mut Vec<f64>) {
    out.clear();
    for factor in factors.chunks_exact(len.max(1)) {
        out.extend_from_slice(factor);
        out.resize(out.len() + padded_len - len, 0.0);
    }
}

dispatch! {
    /// Adds to `means` (coalitions of present players × `lanes`) the weighted products of the absent players'
    /// factors over some reference rows. For each row, `rows` holds the products over subsets of the first
    /// players, and the products over subsets of the other players times the row's weight.
    fn add_absent_means<V: Simd>(lanes: usize, rows: &[[Vec<Lanes>; 2]], means: &mut [Lanes]) {
        let Some([first, other]) = rows.first() else { return };
        let (first, other) = (first.len() / lanes, other.len() / lanes);
        for (high, means) in means.chunks_exact_mut(first * lanes).enumerate() {
            for (low, means) in means.chunks_exact_mut(lanes).enumerate() {
                let (low, high) = ((first - 1 - low) * lanes, (other - 1 - high) * lanes);
                for (lane, mean) in means.iter_mut().enumerate() {
                    let mut sum = Lanes::ZERO;
                    for [first, other] in rows {
                        sum = V::fma(first[low + lane], other[high + lane], sum);
                    }
                    *mean = V::add(*mean, sum);
                }
            }
        }
    }

    /// Adds to the value of each coalition (outputs × coalitions) its sum over `lanes` lanes of the mean over
    /// absent players times the products of present players. `first` holds the products over subsets of the
    /// first players. `remaining` holds, for each output, the products over subsets of the other players
    /// times the coefficients.
    pub(crate) fn add_coalition_values<V: Simd>(
        lanes: usize,
        means: &[Lanes],
        first: &[Lanes],
        remaining: &[Vec<Lanes>],
        coalition_values: &mut [f64],
    ) {
        let (count, width) = (means.len() / lanes, first.len() / lanes);
        for (o, other) in remaining.iter().enumerate() {
            let output_values = &mut coalition_values[o * count..(o + 1) * count];
            let sets = means.chunks_exact(first.len()).zip(other.chunks_exact(lanes));
            for ((means, other), block_values) in sets.zip(output_values.chunks_exact_mut(width)) {
                let pairs = means.chunks_exact(lanes).zip(first.chunks_exact(lanes));
                for ((mean, first), value) in pairs.zip(block_values) {
                    let mut sum = Lanes::ZERO;
                    for ((mean, first), other) in mean.iter().zip(first).zip(other) {
                        sum = V::fma(V::mul(*mean, *first), *other, sum);
                    }
                    *value += sum.sum();
                }
            }
        }
    }
}

/// Means over reference rows of the products of absent players' factors: runs of lanes × coalitions of
/// present players × lanes, with `lanes` lanes in a run. `factors` writes the factors of one reference row,
/// players × points.
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub(crate) fn absent_means(
    isa: Isa,
    (players, points, lanes): (usize, usize, usize),
    weights: &[f64],
    stop: &AtomicBool,
    mut factors: impl FnMut(usize, &mut [f64]),
) -> Result<Vec<Lanes>> {
    let (lanes_per_player, low) = (points.div_ceil(lanes * LANES) * lanes, players / 2);
    let mut means = vec![Lanes::ZERO; lanes_per_player << players];
    let (mut row_factors, mut padded_factors) = (vec![0.0; players * points], vec![Vec::new(); TERMS]);
    let mut sets: Vec<[Vec<Lanes>; 2]> = vec![Default::default(); TERMS];
    for (batch, weights) in weights.chunks(TERMS).enumerate() {
        check_cancelled(stop)?;
        for (position, padded_factors) in padded_factors.iter_mut().enumerate().take(weights.len()) {
            factors(batch * TERMS + position, &mut row_factors);
            padded(&row_factors, points, lanes_per_player * LANES, padded_factors);
        }
        for (run, means) in means.chunks_exact_mut(lanes << players).enumerate() {
            for ((weight, factors), [first, remaining]) in weights.iter().zip(&padded_factors).zip(&mut sets)
            {
                let lane_range = LaneRange { factors, lanes_per_player, from: run * lanes };
                products(isa, lane_range, 0..low, &[Lanes::UNIT; 8][..lanes], first);
                products(isa, lane_range, low..players, &[Lanes::splat(*weight); 8][..lanes], remaining);
            }
            add_absent_means(isa, lanes, &sets[..weights.len()], means);
        }
    }
    Ok(means)
}

/// The members of a coalition that are among `players`, as a coalition of these players.
pub(crate) fn restricted_coalition(coalition: usize, players: &[usize]) -> usize {
    players.iter().enumerate().map(|(k, player)| (coalition >> player & 1) << k).sum()
}

/// The coalition of the players other than j; the bits of later players move down by one.
fn without_player(coalition: usize, j: usize) -> usize {
    coalition & ((1 << j) - 1) | coalition >> (j + 1) << j
}

/// Weights with which an index combines the coalition values of m players.
pub(crate) struct CoalitionWeights {
    players: usize,
    weights: Weights,
    /// Bound on |density| for each set size.
    heights: Vec<f64>,
}

/// Weights of the coalitions of players outside a set, by the bits of these players.
enum Weights {
    /// For each set size, from 1.
    BySize(Vec<Vec<f64>>),
    /// For each single player.
    ByPlayer(Vec<Vec<f64>>),
}

impl CoalitionWeights {
    /// The weights for a game whose factors belong to the players `owners`.
    pub(crate) fn new(recipe: &IndexComputation, owners: &[usize]) -> Self {
        let players = owners.len();
        let choice = InclusionMeasure::Uniform.candidate_rules(players).exact;
        let (rule, heights) = match recipe {
            IndexComputation::Unions(tree) => {
                let mut weights = vec![vec![0.0; (1 << players) / 2]; players];
                if let Some(active_tree) = tree.restricted(&|player| owners.iter().position(|p| *p == player))
                {
                    owen_weights(&active_tree, &[(0, 1.0)], &mut weights);
                }
                return Self { players, weights: Weights::ByPlayer(weights), heights: vec![1.0] };
            }
            IndexComputation::Players(measure) => {
                let nodes = measure.rule(measure.candidate_rules(players).exact.nodes).iter();
                let shared = nodes.map(|n| SharedNode { t: n.t, s: n.s, weights: vec![n.weight] });
                (shared.collect(), SizeWeightings::new(vec![SizeWeighting::Uniform]).heights)
            }
            IndexComputation::Sets { averages, .. } => (averages.rule(&choice), averages.heights.clone()),
        };
        let weights_of_size = |size: usize| -> Vec<f64> {
            let remaining = players - size;
            let power = |x: f64, k: usize| x.powi(k as i32);
            let weight = |present: usize| {
                let node_weight = |n: &SharedNode| {
                    n.weights[size - 1] * power(n.t, present) * power(n.s, remaining - present)
                };
                rule.iter().map(node_weight).sum::<f64>()
            };
            let weights: Vec<f64> = (0..=remaining).map(weight).collect();
            (0..1_usize << remaining).map(|mask| weights[mask.count_ones() as usize]).collect()
        };
        let weights = Weights::BySize((1..=heights.len().min(players)).map(weights_of_size).collect());
        Self { players, weights, heights }
    }

    /// The weights of the set of `size` players whose last player is j.
    fn for_set(&self, size: usize, j: usize) -> &[f64] {
        match &self.weights {
            Weights::BySize(weights) => &weights[size - 1],
            Weights::ByPlayer(weights) => &weights[j],
        }
    }

    /// Coefficient of each coalition's value in the value of each player; coalitions are indexed by their
    /// players' bits.
    pub(crate) fn coalition_coefficients(&self) -> Vec<Vec<f64>> {
        let coefficient = |coalition: usize, j: usize| {
            let weight = self.for_set(1, j)[without_player(coalition, j)];
            if coalition >> j & 1 == 1 { weight } else { -weight }
        };
        (0..1 << self.players)
            .map(|coalition| (0..self.players).map(|j| coefficient(coalition, j)).collect())
            .collect()
    }

    /// Adds the values of all sets of `owners`, the game's players, to `out`. Returns error bounds by set
    /// size.
    pub(crate) fn add(
        &self,
        coalition_values: &[f64],
        owners: &[usize],
        sets: &Sets,
        out: &mut [f64],
    ) -> Vec<SizeErrorBound> {
        let empty_bound = |size: usize| SizeErrorBound {
            error_factor: self.heights[size - 1] * 2.0_f64.powi(size as i32),
            count: binomial(self.players, size),
            ..SizeErrorBound::default()
        };
        let mut bounds: Vec<SizeErrorBound> =
            (1..=self.heights.len().min(self.players)).map(empty_bound).collect();
        let mut memory = vec![Vec::new(); bounds.len()];
        let difference = SetDifference { coalition_values, rounding_error: 0.0, from: 0 };
        self.descend(difference, (owners, sets), &mut Vec::new(), &mut memory, &mut bounds, out);
        bounds
    }

    fn descend(
        &self,
        difference: SetDifference<'_>,
        (owners, sets): (&[usize], &Sets),
        set: &mut Vec<usize>,
        memory: &mut [Vec<f64>],
        bounds: &mut [SizeErrorBound],
        out: &mut [f64],
    ) {
        let (Some((increments, deeper)), Some((bound, deeper_bounds))) =
            (memory.split_first_mut(), bounds.split_first_mut())
        else {
            return;
        };
        let size = set.len() + 1;
        // Roundings of weights, products and sums.
        let roundings = (2 * self.players + 8 + dot_roundings(1 << (self.players - size))) as f64;
        for (j, owner) in owners.iter().enumerate().skip(difference.from) {
            // Marginal contributions of the player to the coalitions of players outside the set.
            let half_width = 1 << (j + 1 - size);
            increments.clear();
            for pair in difference.coalition_values.chunks_exact(2 * half_width) {
                let (absent, with) = pair.split_at(half_width);
                increments.extend(with.iter().zip(absent).map(|(a, b)| a - b));
            }
            let largest = max_abs(increments);
            let rounding_error = 2.0 * difference.rounding_error + 0.51 * f64::EPSILON * largest;
            let rounding =
                self.heights[size - 1] * (rounding_error + 0.51 * f64::EPSILON * roundings * largest);
            bound.max_rounding = bound.max_rounding.max(rounding);
            bound.total_rounding += rounding;
            set.push(*owner);
            out[sets.index_of(set)] += dot(self.for_set(size, j), increments);
            let deeper_difference =
                SetDifference { coalition_values: increments, rounding_error, from: j + 1 };
            self.descend(deeper_difference, (owners, sets), set, deeper, deeper_bounds, out);
            set.pop();
        }
    }
}

/// Computes the coalition weights of Owen values, player by player, for a part of the tree. `outside` lists
/// the possible coalitions of players outside the part with their weights. A union is present as a whole or
/// absent. Among m parts, a given set of k other parts is present with weight `k! (m - 1 - k)! / m!`.
fn owen_weights(tree: &CoalitionTree, outside: &[(usize, f64)], out: &mut [Vec<f64>]) {
    let members = match tree {
        CoalitionTree::Player(j) => {
            outside.iter().for_each(|(mask, weight)| out[*j][without_player(*mask, *j)] = *weight);
            return;
        }
        CoalitionTree::CoalitionStructure(members) => members,
    };
    let m = members.len();
    for (position, member) in members.iter().enumerate() {
        let mut combinations: Vec<(usize, usize)> = vec![(0, 0)];
        for (_, other) in members.iter().enumerate().filter(|(k, _)| *k != position) {
            let bits = other.bits();
            combinations
                .extend(combinations.clone().into_iter().map(|(mask, count)| (mask | bits, count + 1)));
        }
        let combined = |(mask, weight): &(usize, f64)| {
            let (mask, weight) = (*mask, *weight);
            let joined =
                move |(added, k): &(usize, usize)| (mask | added, weight / (m as f64 * binomial(m - 1, *k)));
            combinations.iter().map(joined).collect::<Vec<_>>()
        };
        owen_weights(member, &outside.iter().flat_map(combined).collect::<Vec<_>>(), out);
    }
}

/// Values of the coalitions of players outside a set, or their discrete derivatives with respect to the set;
/// their rounding error, and the next player.
struct SetDifference<'a> {
    coalition_values: &'a [f64],
    rounding_error: f64,
    from: usize,
}

/// Computes the values of an index from the values of all coalitions.
pub(crate) struct CoalitionPlan {
    pub(crate) recipe: IndexComputation,
    /// The sets of players that have values.
    pub(crate) sets: Sets,
    pub(crate) weighing: CoalitionWeights,
    /// The players whose coalitions are valued.
    pub(crate) owners: Vec<usize>,
}

impl CoalitionPlan {
    /// Creates the plan of a game of this number of players, of which `owners` may be absent.
    pub(crate) fn new(recipe: IndexComputation, players: usize, owners: Vec<usize>) -> Self {
        let weighing = CoalitionWeights::new(&recipe, &owners);
        Self { sets: Sets::new(players, recipe.order()), recipe, weighing, owners }
    }

    /// Adds the values of all sets to `out`, and returns a bound on the error of each value and of their sum,
    /// where coalitions have values with this `error` and the empty coalition has an absolute value of at
    /// most `empty_size`.
    pub(crate) fn values(
        &self,
        coalition_values: &[f64],
        error: f64,
        empty_size: f64,
        out: &mut [f64],
    ) -> f64 {
        let mut errors = SetErrorBounds::new(1, self.sets.order);
        let size_bounds = self.weighing.add(coalition_values, &self.owners, &self.sets, out);
        errors.add_coalition_errors(0, error, &size_bounds);
        let bound = self.recipe.finish((&errors, 0), out, &self.sets);
        // The sum of the values is rounded too.
        let sum: f64 = out.iter().map(|v| v.abs()).sum();
        bound + f64::EPSILON * (self.sets.len() + 4) as f64 * (sum + empty_size)
    }
}

//! Games of few players by the worth of every coalition: where absent players' factors are averaged over many
//! reference rows, the averages of all 2^m of their products are made once, and a row then costs 2^m products
//! a support point whatever the number of reference rows. Source: our own; any index follows from all worths.

use std::ops::Range;

use super::index_computation::IndexComputation;
use super::interaction_weights::{SharedNode, SizeWeighting, SizeWeightings, binomial};
use super::rule::InclusionMeasure;
use super::set_error_bounds::SizeErrorBound;
use super::sets::Sets;
use crate::coalition_structure::CoalitionTree;
use crate::linalg::{dot, dot_roundings};
use crate::simd::{LANES, Lanes, Simd, dispatch};

/// Some lanes of each of several players' factors, which stand one after the other.
#[derive(Clone, Copy)]
pub(crate) struct LaneRange<'f> {
    /// Player after player.
    pub(crate) factors: &'f [f64],
    /// How many lanes a player has.
    pub(crate) each: usize,
    /// The first of them.
    pub(crate) from: usize,
}

dispatch! {
    /// The products of the factors of each set of some players, over as many lanes as `first`, and of
    /// `first`: that of the set with these bits at `bits * lanes`.
    pub(crate) fn products(
        run: LaneRange<'_>, players: Range<usize>, first: &[Lanes], out: &mut Vec<Lanes>
    ) = products_body::<V>
}

#[inline(always)]
fn products_body<V: Simd>(run: LaneRange<'_>, players: Range<usize>, first: &[Lanes], out: &mut Vec<Lanes>) {
    let lanes = first.len();
    out.resize(lanes << players.len(), Lanes::ZERO);
    out[..lanes].copy_from_slice(first);
    let (factors, _) = run.factors.as_chunks::<LANES>();
    for (k, player) in players.enumerate() {
        let own = &factors[player * run.each + run.from..][..lanes];
        let (without, with) = out.split_at_mut(lanes << k);
        for (with, without) in with.chunks_exact_mut(lanes).zip(without.chunks_exact(lanes)) {
            for ((with, without), factor) in with.iter_mut().zip(without).zip(own) {
                *with = without.mul::<V>(Lanes(*factor));
            }
        }
    }
}

/// Factor after factor, each filled up to so many numbers.
pub(crate) fn padded(factors: &[f64], len: usize, each: usize, out: &mut Vec<f64>) {
    out.clear();
    for factor in factors.chunks_exact(len.max(1)) {
        out.extend_from_slice(factor);
        out.resize(out.len() + each - len, 0.0);
    }
}

dispatch! {
    /// Adds to `means`, one of so many `lanes` a coalition of present players, the products of absent
    /// players' factors in some reference rows: of each row those of the first players' sets, and those of
    /// the others' times the row's weight.
    pub(crate) fn add_absent_means(
        lanes: usize, rows: &[[Vec<Lanes>; 2]], means: &mut [Lanes]
    ) = add_absent_body::<V>
}

#[inline(always)]
fn add_absent_body<V: Simd>(lanes: usize, rows: &[[Vec<Lanes>; 2]], means: &mut [Lanes]) {
    let Some([first, other]) = rows.first() else { return };
    let (first, other) = (first.len() / lanes, other.len() / lanes);
    for (high, means) in means.chunks_exact_mut(first * lanes).enumerate() {
        for (low, means) in means.chunks_exact_mut(lanes).enumerate() {
            let (low, high) = ((first - 1 - low) * lanes, (other - 1 - high) * lanes);
            for (at, mean) in means.iter_mut().enumerate() {
                let mut sum = Lanes::ZERO;
                for [first, other] in rows {
                    sum = first[low + at].fma::<V>(other[high + at], sum);
                }
                *mean = mean.add::<V>(sum);
            }
        }
    }
}

dispatch! {
    /// Adds to the worth of each coalition, outputs × coalitions, its part over so many `lanes`: the mean for
    /// those who are absent, times the products of those who are present, of whom the first players' sets are
    /// in `first` and the others', times the coefficients, in `others`, one an output.
    pub(crate) fn add_coalition_values(
        lanes: usize, means: &[Lanes], first: &[Lanes], others: &[Vec<Lanes>], worth: &mut [f64]
    ) = add_worth_body::<V>
}

#[inline(always)]
fn add_worth_body<V: Simd>(
    lanes: usize,
    means: &[Lanes],
    first: &[Lanes],
    others: &[Vec<Lanes>],
    worth: &mut [f64],
) {
    let (count, width) = (means.len() / lanes, first.len() / lanes);
    for (o, other) in others.iter().enumerate() {
        let worth = &mut worth[o * count..(o + 1) * count];
        let sets = means.chunks_exact(first.len()).zip(other.chunks_exact(lanes));
        for ((means, other), worth) in sets.zip(worth.chunks_exact_mut(width)) {
            let own = means.chunks_exact(lanes).zip(first.chunks_exact(lanes));
            for ((mean, first), worth) in own.zip(worth) {
                let mut sum = Lanes::ZERO;
                for ((mean, first), other) in mean.iter().zip(first).zip(other) {
                    sum = mean.mul::<V>(*first).fma::<V>(*other, sum);
                }
                *worth += sum.sum();
            }
        }
    }
}

/// What an index makes of the worths of all coalitions of m players.
pub(crate) struct CoalitionWeights {
    players: usize,
    weights: Weights,
    /// By size, a bound on |density|.
    heights: Vec<f64>,
}

/// The weights of the coalitions of those who are not in a set, by their bits.
enum Weights {
    /// By size of the set, from 1.
    BySize(Vec<Vec<f64>>),
    /// By player.
    ByPlayer(Vec<Vec<f64>>),
}

impl CoalitionWeights {
    /// Of a game of these players.
    pub(crate) fn new(recipe: &IndexComputation, owners: &[usize]) -> Self {
        let players = owners.len();
        let choice = InclusionMeasure::Lebesgue.choices(players).exact;
        let (rule, heights) = match recipe {
            IndexComputation::Unions(tree) => {
                let mut weights = vec![vec![0.0; (1 << players) / 2]; players];
                if let Some(own) = tree.of(&|player| owners.iter().position(|p| *p == player)) {
                    owen_weights(&own, &[(0, 1.0)], &mut weights);
                }
                return Self { players, weights: Weights::ByPlayer(weights), heights: vec![1.0] };
            }
            IndexComputation::Players(measure) => {
                let nodes = measure.rule(measure.choices(players).exact.nodes).iter();
                let shared = nodes.map(|n| SharedNode { t: n.t, s: n.s, weights: vec![n.weight] });
                (shared.collect(), SizeWeightings::new(vec![SizeWeighting::Uniform]).heights)
            }
            IndexComputation::Sets { averages, .. } => (averages.rule(&choice), averages.heights.clone()),
        };
        let of = |size: usize| -> Vec<f64> {
            let others = players - size;
            let power = |x: f64, k: usize| x.powi(k as i32);
            let weight = |present: usize| {
                let at =
                    |n: &SharedNode| n.weights[size - 1] * power(n.t, present) * power(n.s, others - present);
                rule.iter().map(at).sum::<f64>()
            };
            let weights: Vec<f64> = (0..=others).map(weight).collect();
            (0..1_usize << others).map(|mask| weights[mask.count_ones() as usize]).collect()
        };
        let weights = Weights::BySize((1..=heights.len().min(players)).map(of).collect());
        Self { players, weights, heights }
    }

    /// Of the set of so many players whose last is j.
    fn for_set(&self, size: usize, j: usize) -> &[f64] {
        match &self.weights {
            Weights::BySize(all) => &all[size - 1],
            Weights::ByPlayer(all) => &all[j],
        }
    }

    /// What the worth of each coalition, by its players' bits, counts in the value of each player.
    pub(crate) fn coalition_coefficients(&self) -> Vec<Vec<f64>> {
        let of = |coalition: usize, j: usize| {
            // The bits of the others close up.
            let others = coalition & ((1 << j) - 1) | coalition >> (j + 1) << j;
            let weight = self.for_set(1, j)[others];
            if coalition >> j & 1 == 1 { weight } else { -weight }
        };
        (0..1 << self.players)
            .map(|coalition| (0..self.players).map(|j| of(coalition, j)).collect())
            .collect()
    }

    /// Adds the values of all sets of `owners`, who are the players, to `out`. Returns what they are off, by
    /// size.
    pub(crate) fn add(
        &self,
        worth: &[f64],
        owners: &[usize],
        sets: &Sets,
        out: &mut [f64],
    ) -> Vec<SizeErrorBound> {
        let of = |size: usize| SizeErrorBound {
            worths: self.heights[size - 1] * 2.0_f64.powi(size as i32),
            count: binomial(self.players, size),
            ..SizeErrorBound::default()
        };
        let mut off: Vec<SizeErrorBound> = (1..=self.heights.len().min(self.players)).map(of).collect();
        let mut memory = vec![Vec::new(); off.len()];
        let given = SetDifference { worth, carried: 0.0, from: 0 };
        self.descend(given, (owners, sets), &mut Vec::new(), &mut memory, &mut off, out);
        off
    }

    fn descend(
        &self,
        given: SetDifference<'_>,
        (owners, sets): (&[usize], &Sets),
        set: &mut Vec<usize>,
        memory: &mut [Vec<f64>],
        off: &mut [SizeErrorBound],
        out: &mut [f64],
    ) {
        let (Some((own, deeper)), Some((off, deeper_off))) =
            (memory.split_first_mut(), off.split_first_mut())
        else {
            return;
        };
        let size = set.len() + 1;
        // Weights, products and sums.
        let roundings = (2 * self.players + 8 + dot_roundings(1 << (self.players - size))) as f64;
        for (j, owner) in owners.iter().enumerate().skip(given.from) {
            // What the player adds to the coalitions of those who are not in the set.
            let half = 1 << (j + 1 - size);
            own.clear();
            for both in given.worth.chunks_exact(2 * half) {
                let (without, with) = both.split_at(half);
                own.extend(with.iter().zip(without).map(|(a, b)| a - b));
            }
            let largest = own.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            let carried = 2.0 * given.carried + 0.51 * f64::EPSILON * largest;
            let rounding = self.heights[size - 1] * (carried + 0.51 * f64::EPSILON * roundings * largest);
            off.each = off.each.max(rounding);
            off.together += rounding;
            set.push(*owner);
            out[sets.index_of(set)] += dot(self.for_set(size, j), own);
            let given = SetDifference { worth: own, carried, from: j + 1 };
            self.descend(given, (owners, sets), set, deeper, deeper_off, out);
            set.pop();
        }
    }
}

/// Writes down, player by player of a part of the tree, the weights that Owen values give the coalitions of
/// the others, where these are the players outside of the part who can be there, and their weights: who
/// stands together is there as a whole or not at all, and of m parts k others are there with weight
/// `k! (m - 1 - k)! / m!`.
fn owen_weights(tree: &CoalitionTree, outside: &[(usize, f64)], out: &mut [Vec<f64>]) {
    let members = match tree {
        CoalitionTree::Player(j) => {
            for (mask, weight) in outside {
                // The bits of the others close up.
                let (low, high) = (mask & ((1 << j) - 1), mask >> (j + 1) << j);
                out[*j][low | high] = *weight;
            }
            return;
        }
        CoalitionTree::CoalitionStructure(members) => members,
    };
    let m = members.len();
    for (own, member) in members.iter().enumerate() {
        let mut all: Vec<(usize, usize)> = vec![(0, 0)];
        for (_, other) in members.iter().enumerate().filter(|(k, _)| *k != own) {
            let bits = other.bits();
            all.extend(all.clone().into_iter().map(|(mask, count)| (mask | bits, count + 1)));
        }
        let within = |(mask, weight): &(usize, f64)| {
            let (mask, weight) = (*mask, *weight);
            let of =
                move |(more, k): &(usize, usize)| (mask | more, weight / (m as f64 * binomial(m - 1, *k)));
            all.iter().map(of).collect::<Vec<_>>()
        };
        owen_weights(member, &outside.iter().flat_map(within).collect::<Vec<_>>(), out);
    }
}

/// Worths of the coalitions of those who are not in a set, or what the set adds to them; how much these are
/// off for rounding, and the next player.
struct SetDifference<'a> {
    worth: &'a [f64],
    carried: f64,
    from: usize,
}

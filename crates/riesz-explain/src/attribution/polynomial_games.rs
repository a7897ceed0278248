//! Games of powers, `v(S) = Σ_i w_i (c + Σ_{j∈S} u_ij + Σ_{j∉S} v_ij)^p`. Term i has the weight w_i and, for
//! each player j, the summands u_ij (present) and v_ij (absent). These are not product games, but their
//! values are exact, too.
//!
//! The product of all players but one is a [power series](super::power_series) with p + 1 coefficients. Small
//! powers have [shared coefficients](super::cumulants), which cost less. Owen values are computed [level by
//! level](super::owen_series).
//!
//! Errors are relative to `M = (|c| + Σ_j max(|u_j|, |v_j|))^p`, which bounds the absolute value of every
//! coalition. The sums u and v enter with the absolute values of their terms.

use super::cumulants::{COEFFICIENT_BOUNDS, MAX_SHARED_POWER, values_by_shared_coefficients};
use super::interaction_weights::{SizeWeightings, binomial};
use super::owen_series::OwenSeries;
use super::power_series::{SeriesChain, exponential};
use super::rule::{InclusionMeasure, Node, RuleChoice};
use crate::coalition_structure::CoalitionTree;
use crate::game::TERMS;
use crate::memory::refill;
use crate::simd::{Isa, LANES, Lanes, Plain, Simd, dispatch};

/// Bound on the loss to underflow, relative to `(1 + M^{1/p})^p`.
const FLOOR: f64 = 1e-300;

/// The sums of absent players.
pub(crate) enum AbsentSums {
    /// Reference rows, one after the other, by their differences from the centre; and their weights.
    Rows { centered: Vec<f64>, weights: Vec<f64> },
    /// Separate means for each player. `series` holds, for each panel of points, by block and player, the
    /// coefficients of the series of `E e^{vz}`. `norms` holds, by column, the p-th root of the p-th absolute
    /// moment of differences from the centre. `roundings` is the number of roundings of a mean.
    Means { series: Vec<Vec<Lanes>>, norms: Vec<f64>, roundings: usize },
}

/// Sums of one row at several support points.
#[derive(Clone, Copy)]
pub struct RowSums<'a> {
    /// Factor of the powers.
    pub(crate) scale: f64,
    pub(crate) degree: usize,
    pub(crate) constant: f64,
    /// Coefficients of the differences from the centre, columns × points, with the columns in the order of
    /// players.
    pub(crate) slopes: &'a [f64],
    /// Number of points, which fill whole lanes.
    pub(crate) len: usize,
    /// End of each player's columns.
    pub(crate) ends: &'a [usize],
    /// Differences of the present row from the centre.
    pub(crate) present: &'a [f64],
    pub(crate) absent: &'a AbsentSums,
    /// Number of the panel of these points.
    pub(crate) panel: usize,
    /// Error of the sums in units of ε/2, plus that of all numbers that are rounded once for all values
    /// together, relative to M.
    pub(crate) units: f64,
    /// Error in units of the sums to which a value is added.
    pub(crate) sums: f64,
}

impl RowSums<'_> {
    /// Bound on the error of the values, and of their sum, relative to M.
    fn error_bound(&self, nodes: usize, shared: bool) -> f64 {
        let (p, players) = (self.degree as f64, self.ends.len() as f64);
        // The integrand is a polynomial of degree p - 1 with values of at most 2, relative to M. By Markov's
        // inequality, errors of half an ulp in the nodes change it by at most 2 (p - 1)² ulps.
        let outer_roundings = self.units + 4.0 * p * p;
        let (roundings, coefficient_bound) = match self.absent {
            AbsentSums::Rows { .. } if shared => {
                (p * (2.0 * players + 16.0), COEFFICIENT_BOUNDS[self.degree - 1])
            }
            AbsentSums::Rows { .. } => (players * (2.0 * p + 8.0), 2.0 * p),
            AbsentSums::Means { roundings, .. } => {
                (players * (2.0 * p + 8.0) + p * *roundings as f64, 2.0 * p)
            }
        };
        let variants = match self.absent {
            AbsentSums::Rows { weights, .. } => TERMS + weights.len().div_ceil(TERMS),
            AbsentSums::Means { .. } => 1,
        };
        let inner_roundings = roundings + (2 * nodes + variants) as f64 + self.sums + 16.0;
        1.01 * 0.5 * f64::EPSILON * (outer_roundings + coefficient_bound * inner_roundings)
    }

    /// Whether all players share coefficients.
    fn shared(&self) -> bool {
        matches!(self.absent, AbsentSums::Rows { .. }) && self.degree <= MAX_SHARED_POWER
    }

    #[inline(always)]
    fn derivative(&self, column: usize, block: usize) -> Lanes {
        let mut out = Lanes::ZERO;
        out.0.copy_from_slice(&self.slopes[column * self.len + block * LANES..][..LANES]);
        out
    }

    /// Writes every player's sum for a row with these centered values to `out`.
    #[inline(always)]
    fn players<V: Simd>(&self, centered: &[f64], block: usize, out: &mut Vec<Lanes>) {
        out.clear();
        let mut from = 0;
        for &end in self.ends {
            let mut sum = Lanes::ZERO;
            for column in from..end {
                sum = V::fma(self.derivative(column, block), Lanes::splat(centered[column]), sum);
            }
            out.push(sum);
            from = end;
        }
    }

    /// M for the present row and another row, given by its absolute or signed differences from the centre.
    #[inline(always)]
    fn magnitude<V: Simd>(&self, other: &[f64], block: usize) -> Lanes {
        let mut size = Lanes::splat(self.constant.abs());
        for (column, (u, v)) in self.present.iter().zip(other).enumerate() {
            let largest = Lanes::splat(u.abs().max(v.abs()));
            size = V::fma(V::abs(self.derivative(column, block)), largest, size);
        }
        power::<V>(size, self.degree)
    }
}

/// `x^p` for p ≥ 1.
#[inline(always)]
fn power<V: Simd>(x: Lanes, p: usize) -> Lanes {
    let mut power = x;
    for _ in 1..p {
        power = V::mul(power, x);
    }
    power
}

/// The values that are requested.
#[derive(Clone, Copy)]
pub enum PowerRequest<'a> {
    /// Values under the engine's measure.
    Values,
    /// Averages of interactions of sets.
    Sets(&'a SizeWeightings),
    /// Owen values; the tree names players by their positions.
    Unions(&'a CoalitionTree),
}

/// The values at the eight points of a block.
pub struct PowerResult<'a> {
    /// Values of the players.
    pub values: &'a [Lanes],
    /// Interactions of larger sets of players, by size and in [order](super::sets::Sets), if they were
    /// requested.
    pub larger: &'a [Lanes],
    /// A bound on the error of each value, and of their sum.
    pub error: Lanes,
    /// A bound on |value of any coalition|.
    pub magnitude: Lanes,
}

/// Engine that computes the values of games of powers.
pub(crate) struct PowerEngine {
    isa: Isa,
    measure: InclusionMeasure,
    memory: PowerScratch,
    values: Vec<Lanes>,
    larger: Vec<Lanes>,
    /// The last rule of the size weightings, which are the same in all runs.
    rule: Option<Rule>,
}

/// Quadrature nodes for each set size.
struct Rule {
    /// The number of nodes of a uniform weighting, and the number of nodes that all sizes share.
    count: usize,
    nodes: usize,
    nodes_by_size: Vec<Vec<Node>>,
}

impl Rule {
    fn new(averages: &SizeWeightings, count: usize) -> Self {
        let shared = averages.rule(&RuleChoice { nodes: count, quadrature_error: 0.0, mass: 0.0 });
        let nodes_of_size = |s: usize| {
            let active_nodes = shared.iter().filter(|node| node.weights[s] != 0.0);
            active_nodes.map(|node| Node::new(node.t, node.s, node.weights[s])).collect()
        };
        Self { count, nodes: shared.len(), nodes_by_size: (0..averages.order()).map(nodes_of_size).collect() }
    }
}

#[derive(Default)]
struct PowerScratch {
    present: Vec<Lanes>,
    absent: Vec<Lanes>,
    /// Series of the sums.
    a: Vec<Lanes>,
    b: Vec<Lanes>,
    chain: SeriesChain,
    /// Sums over a batch of reference rows, and over all reference rows: players, then pairs.
    batch_sums: Vec<Lanes>,
    total_sums: Vec<Lanes>,
    magnitude: Lanes,
}

impl PowerEngine {
    pub(crate) fn new(isa: Isa, measure: InclusionMeasure) -> Self {
        let memory = PowerScratch::default();
        Self { isa, measure, memory, values: Vec::new(), larger: Vec::new(), rule: None }
    }

    /// Computes the requested values of a block.
    pub(crate) fn run(
        &mut self,
        sums: &RowSums<'_>,
        block: usize,
        request: PowerRequest<'_>,
    ) -> PowerResult<'_> {
        let players = sums.ends.len();
        // The degree of the integrand is also at most `players - 1`.
        let count = sums.degree.min(players).div_ceil(2);
        let (isa, mut values, mut larger) =
            (self.isa, std::mem::take(&mut self.values), std::mem::take(&mut self.larger));
        let error_bound = match request {
            PowerRequest::Sets(averages) => {
                let rule = self.rule.take().filter(|rule| rule.count == count);
                let rule = rule.unwrap_or_else(|| Rule::new(averages, count));
                larger.clear();
                for size in 1..=averages.order().min(players) {
                    if size > sums.degree {
                        // Sets of more than p players have no interaction.
                        larger.resize(larger.len() + binomial(players, size) as usize, Lanes::ZERO);
                        continue;
                    }
                    compute_block(
                        isa,
                        sums,
                        block,
                        &rule.nodes_by_size[size - 1],
                        size,
                        None,
                        &mut self.memory,
                    );
                    match size {
                        1 => values.clone_from(&self.memory.total_sums),
                        2 => larger.extend_from_slice(&self.memory.total_sums[players..]),
                        _ => larger.extend_from_slice(&self.memory.total_sums),
                    }
                }
                let nodes = rule.nodes;
                self.rule = Some(rule);
                sums.error_bound(nodes, sums.shared()).max(sums.error_bound(nodes, false))
            }
            PowerRequest::Values => {
                let nodes = self.measure.rule(count);
                compute_block(isa, sums, block, nodes, 1, None, &mut self.memory);
                values.clone_from(&self.memory.total_sums);
                sums.error_bound(nodes.len(), sums.shared())
            }
            PowerRequest::Unions(tree) => {
                compute_block(isa, sums, block, &[], 1, Some(tree), &mut self.memory);
                values.clone_from(&self.memory.total_sums);
                // A value takes two products for each part of the tree; there are less than twice as many
                // parts as players. It takes two more products per member at each level: in total up to three
                // times as many products of series.
                3.0 * sums.error_bound(count, false)
            }
        };
        (self.values, self.larger) = (values, larger);
        let magnitude = Plain::mul(self.memory.magnitude, Lanes::splat(sums.scale));
        let error = magnitude.map2(Lanes::ZERO, |m, _| error_bound * m + FLOOR * (sums.scale + m));
        PowerResult { values: &self.values, larger: &self.larger, error, magnitude }
    }

    /// Value of the empty coalition in a block.
    pub(crate) fn empty_coalition_value(&mut self, sums: &RowSums<'_>, block: usize) -> Lanes {
        empty(self.isa, sums, block, &mut self.memory)
    }
}

dispatch! {
    /// Value of the empty coalition in a block.
    fn empty<V: Simd>(sums: &RowSums<'_>, block: usize, memory: &mut PowerScratch) -> Lanes {
        let p = sums.degree;
        let empty_value = match sums.absent {
            AbsentSums::Rows { centered, weights } => {
                let mut total = Lanes::ZERO;
                let mut rows = centered.chunks_exact(sums.present.len());
                for weights in weights.chunks(TERMS) {
                    let mut batch_total = Lanes::ZERO;
                    for (weight, row) in weights.iter().zip(&mut rows) {
                        sums.players::<V>(row, block, &mut memory.absent);
                        let start = Lanes::splat(sums.constant);
                        let sum = memory.absent.iter().fold(start, |sum, v| V::add(sum, *v));
                        batch_total = V::fma(power::<V>(sum, p), Lanes::splat(*weight), batch_total);
                    }
                    total = V::add(total, batch_total);
                }
                total
            }
            AbsentSums::Means { series, .. } => {
                let block_len = sums.ends.len() * (p + 1);
                let absent = &series[sums.panel][block * block_len..][..block_len];
                let exponential = exponential(sums.constant, p);
                V::mul(memory.chain.last_coefficient::<V>(&exponential, absent), factorial(p))
            }
        };
        V::mul(empty_value, Lanes::splat(sums.scale))
    }

    /// Computes values of a block into `memory`: with a tree its Owen values, see [`OwenSeries`], otherwise
    /// interactions of up to `largest` players, see [`SeriesChain::player_values`].
    fn compute_block<V: Simd>(
        sums: &RowSums<'_>,
        block: usize,
        nodes: &[Node],
        largest: usize,
        tree: Option<&CoalitionTree>,
        memory: &mut PowerScratch,
    ) {
        let (p, players) = (sums.degree, sums.ends.len());
        let (pairs, shares) = (largest == 2, largest <= 2 && tree.is_none() && sums.shared());
        let sets = match largest {
            1 => players,
            2 => players + players * (players - 1) / 2,
            _ => binomial(players, largest) as usize,
        };
        let mut present = std::mem::take(&mut memory.present);
        sums.players::<V>(sums.present, block, &mut present);
        refill(&mut memory.total_sums, sets, Lanes::ZERO);
        refill(&mut memory.batch_sums, sets, Lanes::ZERO);
        memory.magnitude = Lanes::ZERO;
        if !shares {
            expand::<V>(&present, p, &mut memory.a);
        }
        match sums.absent {
            AbsentSums::Rows { centered, weights } => {
                let mut rows = centered.chunks_exact(sums.present.len());
                for weights in weights.chunks(TERMS) {
                    for (weight, row) in weights.iter().zip(&mut rows) {
                        sums.players::<V>(row, block, &mut memory.absent);
                        let magnitude = sums.magnitude::<V>(row, block);
                        memory.magnitude = V::fma(magnitude, Lanes::splat(*weight), memory.magnitude);
                        let (weight, absent) = (weight * sums.scale, std::mem::take(&mut memory.absent));
                        let game = (sums.constant, &present[..], &absent[..]);
                        let PowerScratch { a, b, chain, batch_sums: out, .. } = &mut *memory;
                        match if shares { p } else { 0 } {
                            1 => values_by_shared_coefficients::<V, 1>(game, weight, nodes, pairs, out),
                            2 => values_by_shared_coefficients::<V, 2>(game, weight, nodes, pairs, out),
                            3 => values_by_shared_coefficients::<V, 3>(game, weight, nodes, pairs, out),
                            4 => values_by_shared_coefficients::<V, 4>(game, weight, nodes, pairs, out),
                            _ => {
                                expand::<V>(&absent, p, b);
                                let weight = V::mul(Lanes::splat(weight), factorial(p));
                                let start = exponential(sums.constant, p);
                                match tree {
                                    Some(tree) => add_owen_levels(tree, start, (a, b), weight, out),
                                    None => {
                                        chain.player_values::<V>(&start, (a, b), weight, nodes, largest, out)
                                    }
                                }
                            }
                        }
                        memory.absent = absent;
                    }
                    for (total, batch) in memory.total_sums.iter_mut().zip(&mut memory.batch_sums) {
                        *total = V::add(*total, std::mem::replace(batch, Lanes::ZERO));
                    }
                }
            }
            AbsentSums::Means { series, norms, .. } => {
                memory.magnitude = sums.magnitude::<V>(norms, block);
                let absent = &series[sums.panel][block * players * (p + 1)..][..players * (p + 1)];
                let weight = V::mul(Lanes::splat(sums.scale), factorial(p));
                let PowerScratch { a, chain, total_sums: all, .. } = &mut *memory;
                let start = exponential(sums.constant, p);
                match tree {
                    Some(tree) => add_owen_levels(tree, start, (a, absent), weight, all),
                    None => chain.player_values::<V>(&start, (a, absent), weight, nodes, largest, all),
                }
            }
        }
        memory.present = present;
    }
}

/// Adds the Owen values, times `weight`, of the product of `start` and all series.
fn add_owen_levels(
    tree: &CoalitionTree,
    mut start: Vec<Lanes>,
    series: (&[Lanes], &[Lanes]),
    weight: Lanes,
    out: &mut [Lanes],
) {
    start.iter_mut().for_each(|c| *c = Plain::mul(*c, weight));
    OwenSeries::new(start.len(), series).add(tree, &start, out);
}

pub(crate) fn factorial(p: usize) -> Lanes {
    Lanes::splat((1..=p).map(|k| k as f64).product())
}

/// Writes the p + 1 coefficients of the series of `e^{xz}` for each x in `sums`.
#[inline(always)]
fn expand<V: Simd>(sums: &[Lanes], p: usize, out: &mut Vec<Lanes>) {
    out.clear();
    for x in sums {
        let mut term = Lanes::UNIT;
        out.push(term);
        for k in 1..=p {
            term = V::div(V::mul(term, *x), Lanes::splat(k as f64));
            out.push(term);
        }
    }
}

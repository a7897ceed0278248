//! Upper bounds on absolute pair interactions, from numbers per player, without evaluating any pair.
//!
//! With the weights W and ratios r of [interactions](super::interactions), the interaction of players j and l
//! is `Σ W r_j r_l` over points, reference rows and nodes. By the Cauchy–Schwarz inequality its absolute
//! value is at most `u_j u_l`, where `u_j² = Σ |W| r_j²` takes one pass over the factors. Factors that are
//! too small to divide by are replaced by larger ones: with `f'_l ≥ |f_l|`, a pair adds at most `|w| Π f'_l`
//! times its two `|a - b| / f'`.
//!
//! A much sharper bound costs as much as one more node. At a point with positive factors, W has one sign.
//! With `Ω = Σ W` over nodes and the means `m = Σ W r / Ω`, a pair has the interaction `Ω m_j m_l + Σ W
//! (r_j - m_j)(r_l - m_l)`. The second sum is at most the product of two numbers, the roots of `Σ |W| (r_j -
//! m_j)² = Σ |W| r_j² - |Ω| m_j²` over all points. They are small, since ratios change little between nodes
//! if factors are close to 1, as in games of many players.

use std::ops::Range;

use super::factor_block::FactorBlock;
use super::interaction_weights::{RuleCache, SharedNode, SizeWeightings};
use super::interactions::SMALLEST;
use super::product::{ProductTerms, ScaledTerms, TermAccumulator};
use super::quadrature::{QuadratureEngine, RoundingUnits, TermBatch};
use super::set_error_bounds::per_set_error;
use crate::linalg::max_abs;
use crate::memory::refill;
use crate::simd::{Isa, LANES, Lanes, Plain, Simd, dispatch};

/// Smallest divisor, for any factor.
const MIN_DIVISOR: f64 = 1e-290;

/// The terms with the coefficients of a single output multiplied into their weights.
pub(super) fn single_output_terms<'w>(
    terms: &ProductTerms<'w>,
    output: usize,
    weighed: &'w mut ScaledTerms,
) -> TermBatch<'w> {
    let coef = &terms.coef[output..=output];
    let mut run = terms.run;
    if terms.coef.len() > 1 {
        // With several outputs, the floor of errors scales with the largest coefficient.
        let largest = coef[0].iter().map(|lanes| max_abs(&lanes.0)).fold(1.0, f64::max);
        run.rounding = RoundingUnits { floor: largest * run.rounding.floor, ..run.rounding };
    }
    weighed.fold(run, coef).0
}

/// Upper bounds on the interactions of each player.
#[derive(Default)]
pub(crate) struct PlayerBound {
    /// For each player j, a number u_j such that no absolute interaction of a pair exceeds `u_j u_l` by more
    /// than `error`.
    pub(crate) interaction: Vec<f64>,
    /// For each player, the same for the difference between an interaction and its approximation by means
    /// over nodes.
    pub(crate) deviation: Vec<f64>,
    /// A bound on the error of each interaction, without the rounding of its sum.
    pub(crate) error: f64,
}

/// Accumulates bounds on the interactions of each player, in a game of one row.
pub(crate) struct InteractionBounds<'a> {
    rules: RuleCache<'a>,
    output: usize,
    /// For each player, the squared bounds.
    interaction: Vec<f64>,
    deviation: Vec<f64>,
    error: f64,
    /// Number of terms of the sums.
    summed: usize,
    weighed: ScaledTerms,
    nodes: NodeSums,
    /// For each active factor, the two sums of squares: without and with the mean subtracted.
    sums: Vec<[Lanes; 2]>,
}

impl<'a> InteractionBounds<'a> {
    /// An accumulator for interactions that are averaged like the first set size of `averages`.
    pub(crate) fn new(averages: &'a SizeWeightings, players: usize, output: usize) -> Self {
        Self {
            rules: RuleCache::new(averages),
            output,
            interaction: vec![0.0; players],
            deviation: vec![0.0; players],
            error: 0.0,
            summed: 0,
            weighed: ScaledTerms::default(),
            nodes: NodeSums::default(),
            sums: Vec::new(),
        }
    }

    /// The bounds, rounded up.
    pub(crate) fn finish(self) -> PlayerBound {
        let up = 1.0 + 2.0 * f64::EPSILON * (self.summed + 8) as f64;
        let root = |squares: Vec<f64>| squares.iter().map(|square| (up * square).sqrt() * up).collect();
        PlayerBound {
            interaction: root(self.interaction),
            deviation: root(self.deviation),
            error: self.error,
        }
    }
}

impl TermAccumulator for InteractionBounds<'_> {
    fn begin_tile(&mut self, rows: &Range<usize>, _points: &Range<usize>) {
        debug_assert!(rows.len() == 1, "a game of several rows");
    }

    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        if terms.players.is_empty() {
            return;
        }
        let Self {
            rules,
            output,
            interaction: interaction_sums,
            deviation,
            error,
            summed,
            weighed,
            nodes,
            sums,
        } = self;
        let run = single_output_terms(terms, *output, weighed);
        let (count, height) = (run.players, rules.averages.heights[0]);
        refill(sums, count, [Lanes::ZERO; 2]);
        for index in 0..run.weights.len() {
            let block = engine.block(&run, index);
            *error += per_set_error(2, height, block.error);
            if count < 2 {
                continue;
            }
            let rule = rules.rule(&block.choice);
            *summed += rule.len() + 1;
            nodes.add_up(engine.isa, &block, &rule);
            nodes.squares(sums);
        }
        *summed += LANES;
        for (&k, [square_sum, centered_sum]) in run.active.iter().zip(sums.iter()) {
            let player = terms.players[k as usize];
            interaction_sums[player] += square_sum.sum();
            deviation[player] += centered_sum.sum();
        }
    }
}

/// Sums over the nodes of a block.
#[derive(Default)]
pub(super) struct NodeSums {
    /// For each factor: its ratio at a node, `Σ |W| r`, and `Σ |W| r²`.
    ratios: Vec<Lanes>,
    firsts: Vec<Lanes>,
    seconds: Vec<Lanes>,
    /// `Σ |W|`, or 0 if the block has no means.
    weight: Lanes,
    /// The relative error of the sums.
    relative_error: Lanes,
}

impl NodeSums {
    pub(super) fn add_up(&mut self, isa: Isa, block: &FactorBlock, rule: &[SharedNode]) {
        for sums in [&mut self.ratios, &mut self.firsts, &mut self.seconds] {
            refill(sums, block.a.len(), Lanes::ZERO);
        }
        add_up(isa, block, rule, self);
        if rule.iter().any(|node| node.weights[0] < 0.0) {
            self.weight = Lanes::ZERO;
        }
    }

    /// Adds `Σ |W| r²`, and `Σ |W| (r - m)²` with the mean m, both rounded up.
    fn squares(&self, sums: &mut [[Lanes; 2]]) {
        let (weight, relative_error) = (self.weight, self.relative_error);
        let inverse = weight.map2(weight, |weight, _| if weight > 0.0 { 1.0 / weight } else { 0.0 });
        for ((first, second), [interaction, deviation]) in self.firsts.iter().zip(&self.seconds).zip(sums) {
            let (relative_bound, mean) =
                (Plain::mul(relative_error, *second), Plain::mul(Plain::mul(*first, *first), inverse));
            *interaction = Plain::add(*interaction, Plain::add(*second, relative_bound));
            let centered = second.map2(mean, |second, mean| (second - mean).max(0.0));
            // The margin covers the errors of both sums, and of the mean's part of an interaction.
            *deviation = Plain::add(*deviation, Plain::fma(Lanes::splat(10.0), relative_bound, centered));
        }
    }

    /// The weight Ω of the means, and the mean ratio of each factor.
    pub(super) fn means(&mut self, block: &FactorBlock) -> (Lanes, &[Lanes]) {
        for (mean, first) in self.ratios.iter_mut().zip(&self.firsts) {
            *mean = first.map2(self.weight, |first, weight| if weight > 0.0 { first / weight } else { 0.0 });
        }
        (self.weight.map2(block.weight, f64::copysign), &self.ratios)
    }
}

dispatch! {
    fn add_up<V: Simd>(block: &FactorBlock, rule: &[SharedNode], out: &mut NodeSums) {
        let count = block.a.len();
        let (ratios, firsts, seconds) =
            (&mut out.ratios[..count], &mut out.firsts[..count], &mut out.seconds[..count]);
        let (mut weights, mut max_roundings, mut shortfall) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
        for node in rule {
            let (mut product, mut roundings_of_product) = (Lanes::UNIT, Lanes::splat(count as f64));
            for l in 0..count {
                let top = V::max(V::abs(block.a[l]), V::abs(block.b[l]));
                let divisor = V::max(V::mul(top, Lanes::splat(SMALLEST)), Lanes::splat(MIN_DIVISOR));
                let factor = block.factor::<V>(l, node.t, node.s);
                let size = V::max(V::abs(factor), divisor);
                let inverse = V::div(Lanes::UNIT, size);
                product = V::mul(product, size);
                ratios[l] = V::mul(V::sub(block.a[l], block.b[l]), inverse);
                // Positive if a factor is negative or too small.
                shortfall = V::max(shortfall, V::sub(size, factor));
                // A factor has a rounding error relative to its larger side, which products and ratios
                // inherit.
                roundings_of_product = V::fma(top, inverse, roundings_of_product);
            }
            let weight = V::mul(V::mul(V::abs(block.weight), product), Lanes::splat(node.weights[0].abs()));
            weights = V::add(weights, weight);
            max_roundings = V::max(max_roundings, roundings_of_product);
            for l in 0..count {
                let weighted = V::mul(weight, ratios[l]);
                firsts[l] = V::add(firsts[l], weighted);
                seconds[l] = V::fma(weighted, ratios[l], seconds[l]);
            }
        }
        out.weight = weights.map2(shortfall, |weight, shortfall| if shortfall > 0.0 { 0.0 } else { weight });
        let roundings = V::add(max_roundings, Lanes::splat(rule.len() as f64));
        out.relative_error = V::mul(roundings, Lanes::splat(8.0 * f64::EPSILON));
    }
}

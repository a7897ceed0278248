//! Interactions of all sets of players up to a given size in product games.
//!
//! For a product `w Π_l f_l(t)` with `f_l = (1-t) b_l + t a_l`, the interaction of the set T is `I_T(t) = w
//! Π_{j∈T} (a_j - b_j) Π_{l∉T} f_l`. It equals `W Π_{j∈T} r_j` with `W = w Π f_l` and the ratios `r_j =
//! (a_j - b_j)/f_j`. All pairs are therefore a weighted Gram matrix of ratios over lanes and nodes. Larger
//! sets are such matrices for each choice of the players before the last two. An error of the computed f_j
//! cancels in the product, so division loses no digits unless f_j is so small that ratios leave the range of
//! doubles. Such nodes are computed without division.

use std::ops::Range;

use super::factor_block::FactorBlock;
use super::interaction_weights::{RuleCache, SharedNode, SizeWeightings};
use super::polynomial_games::{PowerRequest, PowerResult};
use super::product::{PowerTerms, ProductTerms, ScaledTerms, TermAccumulator};
use super::quadrature::{QuadratureEngine, TermBatch};
use super::set_error_bounds::SetErrorBounds;
use super::set_products::{FactorRatios, SAMPLE_CAPACITY};
use super::sets::Sets;
use crate::simd::{Lanes, Plain, Simd};

/// Smallest factor, relative to the larger of its two sides, by which the engine divides.
pub(super) const SMALLEST: f64 = 1e-6;

/// Interactions of all sets in every row, for each output.
pub struct Interactions<'a> {
    rules: RuleCache<'a>,
    sets: &'a Sets,
    outputs: usize,
    /// Rows × outputs × sets.
    pub indices: Vec<f64>,
    /// Error bounds for each row and output.
    pub errors: SetErrorBounds,
    ratios: FactorRatios,
    weighed: ScaledTerms,
    /// Index of each set of the players of a power.
    set_indices: Vec<usize>,
}

impl<'a> Interactions<'a> {
    /// Creates the sums of interaction indices of all `sets` for outputs.
    pub fn new(averages: &'a SizeWeightings, sets: &'a Sets, outputs: usize) -> Self {
        Self {
            rules: RuleCache::new(averages),
            sets,
            outputs,
            indices: Vec::new(),
            errors: SetErrorBounds::new(0, sets.order),
            ratios: FactorRatios::default(),
            weighed: ScaledTerms::default(),
            set_indices: Vec::new(),
        }
    }

    /// Adds the gathered samples to the values of a row.
    fn flush(&mut self, row: usize, owners: &[usize], active: &[u32], engine: &QuadratureEngine) {
        if self.ratios.is_empty() {
            return;
        }
        let (sets, games) = (self.sets.len(), row * self.outputs..(row + 1) * self.outputs);
        let players: Vec<usize> = active.iter().map(|&k| owners[k as usize]).collect();
        let out = &mut self.indices[games.start * sets..games.end * sets];
        self.ratios.add_to(engine.isa, &players, self.sets, out);
        self.ratios.clear();
        self.drift(games);
    }

    /// Records one rounding of all sums of these games.
    fn drift(&mut self, games: Range<usize>) {
        let count = self.sets.len();
        for g in games {
            self.errors.add_rounding(g, &self.indices[g * count..][..count], self.sets);
        }
    }

    /// Adds a node of a block without division.
    fn undivided(
        &mut self,
        row: usize,
        owners: &[usize],
        run: &TermBatch<'_>,
        block: &FactorBlock,
        node: &SharedNode,
        coef: &[Lanes],
    ) {
        let count = run.players;
        let factor: Vec<Lanes> = (0..count).map(|l| block.factor::<Plain>(l, node.t, node.s)).collect();
        let difference: Vec<Lanes> = (0..count).map(|l| Plain::sub(block.a[l], block.b[l])).collect();
        let mut set = Vec::new();
        let games = row * self.outputs;
        let (sets, indices) = (self.sets, &mut self.indices);
        let mut add = |set: &[usize], value: Lanes| {
            let players: Vec<usize> = set.iter().map(|&l| owners[run.active[l] as usize]).collect();
            let index = sets.index_of(&players);
            for (o, coef) in coef.iter().enumerate() {
                let weighted =
                    Plain::mul(Plain::mul(value, *coef), Lanes::splat(node.weights[set.len() - 1]));
                indices[(games + o) * sets.len() + index] += weighted.sum();
            }
        };
        descend(&factor, &difference, block.weight, sets.order, &mut set, &mut add);
    }
}

/// Calls `add` with `weight Π_{j∈T} gap_j Π_{l∉T} factor_l` for every T that extends `set` by players after
/// its last one, up to `order` players in total.
fn descend(
    factor: &[Lanes],
    difference: &[Lanes],
    weight: Lanes,
    order: usize,
    set: &mut Vec<usize>,
    add: &mut impl FnMut(&[usize], Lanes),
) {
    let count = factor.len();
    let set_factor = |l: usize| if set.contains(&l) { Lanes::UNIT } else { factor[l] };
    // Products of the factors before and after.
    let mut after = vec![weight; count + 1];
    (0..count).rev().for_each(|l| after[l] = Plain::mul(after[l + 1], set_factor(l)));
    let mut before = Lanes::UNIT;
    let from = set.last().map_or(0, |l| l + 1);
    (0..from).for_each(|l| before = Plain::mul(before, set_factor(l)));
    for l in from..count {
        let remaining = Plain::mul(before, after[l + 1]);
        before = Plain::mul(before, factor[l]);
        set.push(l);
        add(set, Plain::mul(remaining, difference[l]));
        if set.len() < order {
            descend(factor, difference, Plain::mul(weight, difference[l]), order, set, add);
        }
        set.pop();
    }
}

impl TermAccumulator for Interactions<'_> {
    /// Tiles of the same rows are summed, so existing values are kept.
    fn begin_tile(&mut self, rows: &Range<usize>, _points: &Range<usize>) {
        let games = rows.len() * self.outputs;
        self.indices.resize(games * self.sets.len(), 0.0);
        self.errors.resize(games);
    }

    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        let ProductTerms { row, players: owners, run, coef, .. } = *terms;
        let (games, order) = (row * self.outputs, self.sets.order);
        if owners.is_empty() {
            // A constant has no interactions, but has a rounding error like any other term.
            for (o, error) in terms.constant_errors().into_iter().enumerate() {
                self.errors.add_end_errors(games + o, error);
            }
            return;
        }
        let mut weighed = std::mem::take(&mut self.weighed);
        let (run, coef) = weighed.fold(run, coef);
        let active = &run.active[..run.players];
        self.ratios.resize(active.len(), order);
        for index in 0..run.weights.len() {
            let block = engine.block(&run, index);
            let symmetric = block.elementary_symmetric(order);
            for (o, coef) in coef.iter().enumerate() {
                let error = Plain::mul(Plain::abs(coef[index]), block.error);
                self.errors.add_block(games + o, error, &symmetric, &self.rules.averages.heights);
            }
            let coefficients: Vec<Lanes> = coef.iter().map(|coef| coef[index]).collect();
            let rule = self.rules.rule(&block.choice);
            self.ratios.begin(&coefficients);
            for node in rule.iter() {
                if self.ratios.len() == SAMPLE_CAPACITY {
                    self.flush(row, owners, active, engine);
                    self.ratios.begin(&coefficients);
                }
                if !self.ratios.push(engine.isa, &block, node, SMALLEST) {
                    self.undivided(row, owners, &run, &block, node, &coefficients);
                    self.drift(games..games + self.outputs);
                }
            }
        }
        self.flush(row, owners, active, engine);
        self.weighed = weighed;
    }

    fn power_request(&mut self, _players: &[usize]) -> PowerRequest<'_> {
        PowerRequest::Sets(self.rules.averages)
    }

    fn add_power_block(&mut self, powers: &PowerTerms<'_>, block: usize, result: &PowerResult<'_>) {
        let (games, count) = (powers.row * self.outputs, self.sets.len());
        if block == 0 {
            self.set_indices.clear();
            Sets::new(powers.players.len(), self.sets.order).for_each(|set| {
                let players: Vec<usize> = set.iter().map(|&k| powers.players[k]).collect();
                self.set_indices.push(self.sets.index_of(&players));
            });
        }
        for (o, coef) in powers.coef.iter().enumerate() {
            let out = &mut self.indices[(games + o) * count..][..count];
            for (index, value) in self.set_indices.iter().zip(result.values.iter().chain(result.larger)) {
                out[*index] += Plain::mul(coef[block], *value).sum();
            }
            let error = Plain::mul(Plain::abs(coef[block]), result.error).sum();
            self.errors.add_powers(games + o, error, powers.sums.degree, &self.rules.averages.heights);
        }
        self.drift(games..games + self.outputs);
    }

    /// Drops the scratch memory; only the results are kept until all parts are done.
    fn finish_tile(&mut self) {
        (self.ratios, self.weighed) = (FactorRatios::default(), ScaledTerms::default());
    }
}

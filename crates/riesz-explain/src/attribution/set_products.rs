//! Sums over samples of `weight Π_{j∈T} ratio_j` for all sets T of factors up to a given size: the innermost
//! loop of [interactions](super::interactions).
//!
//! A sample is a node of a block and is one [`Lanes`] wide. Pairs are processed in tiles of rows and columns
//! whose sums stay in registers.

use super::factor_block::FactorBlock;
use super::interaction_weights::SharedNode;
use super::sets::Sets;
use crate::memory::refill;
use crate::simd::{Isa, Lanes, Plain, Simd, dispatch};

/// Number of samples that are gathered before they are summed, small enough that the ratios of some factors
/// stay in the first-level cache.
pub(crate) const SAMPLE_CAPACITY: usize = 48;

/// Distance between the samples of consecutive factors. It is odd, so that the samples of different factors
/// do not compete for the same cache lines.
pub(super) const STRIDE: usize = SAMPLE_CAPACITY + 1;

/// Numbers of rows and of columns of a tile.
pub(super) const ROWS: usize = 4;
pub(super) const COLUMNS: usize = 4;

/// Gathered samples of ratios and weights.
#[derive(Default)]
pub(crate) struct FactorRatios {
    factors: usize,
    order: usize,
    len: usize,
    /// Factors × samples, and set sizes × samples.
    ratios: Vec<Lanes>,
    weights: Vec<Lanes>,
    /// First sample of each block, with the block's coefficients, which are 1 for a single output.
    begins: Vec<usize>,
    coef: Vec<Lanes>,
    outputs: usize,
    values: Vec<Lanes>,
    scratch: Scratch,
    /// For each depth, the weights times the ratios of the factors chosen so far.
    chosen: Vec<Vec<Lanes>>,
}

/// Weighted rows of a tile, and sums by output.
#[derive(Default)]
struct Scratch {
    rows: Vec<Lanes>,
    sums: Vec<Lanes>,
}

impl FactorRatios {
    /// Prepares for these numbers of factors and set sizes, and discards all samples.
    pub(crate) fn resize(&mut self, factors: usize, order: usize) {
        (self.factors, self.order) = (factors, order);
        self.ratios.resize(factors * STRIDE, Lanes::ZERO);
        self.weights.resize(order * STRIDE, Lanes::ZERO);
        self.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.begins.clear();
        self.coef.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Begins a block with these coefficients, one per output; the following samples belong to it.
    pub(crate) fn begin(&mut self, coef: &[Lanes]) {
        self.outputs = coef.len();
        self.begins.push(self.len);
        self.coef.extend(coef);
    }

    /// Adds a node of a block. Returns false without adding it if a factor is too small or too large to
    /// divide by, in particular smaller than `smallest` relative to the larger of its sides.
    pub(crate) fn push(&mut self, isa: Isa, block: &FactorBlock, node: &SharedNode, smallest: f64) -> bool {
        let sample = self.len;
        self.values.resize(self.factors.next_multiple_of(4), Lanes::UNIT);
        let good = divide_node(
            isa,
            block,
            node,
            smallest,
            sample,
            &mut self.values,
            &mut self.ratios,
            &mut self.weights,
        );
        self.len += usize::from(good);
        good
    }

    /// The ratios of a factor.
    pub(super) fn factor_ratios(&self, factor: usize) -> &[Lanes] {
        &self.ratios[factor * STRIDE..][..self.len]
    }

    /// The weights of sets of this size.
    pub(super) fn weights(&self, size: usize) -> &[Lanes] {
        &self.weights[(size - 1) * STRIDE..][..self.len]
    }

    /// Adds a sample for sets of size 1, given by its weight and the ratios of all factors.
    pub(super) fn push_sample(&mut self, weight: Lanes, ratios: &[Lanes]) {
        self.weights[self.len] = weight;
        ratios.iter().enumerate().for_each(|(l, ratio)| self.ratios[l * STRIDE + self.len] = *ratio);
        self.len += 1;
    }

    /// Adds the sums of all sets to `out` (outputs × sets), where factor k belongs to `players[k]`.
    pub(crate) fn add_to(&mut self, isa: Isa, players: &[usize], sets: &Sets, out: &mut [f64]) {
        let (mut scratch, mut chosen) = (std::mem::take(&mut self.scratch), std::mem::take(&mut self.chosen));
        chosen.resize(self.order + 1, Vec::new());
        let bounds: Vec<usize> = self.begins.iter().copied().chain([self.len]).collect();
        let samples = SampleBatch { isa, gathered: self, bounds: &bounds, players, sets };
        for size in 1..=self.order.min(players.len()) {
            let (weights, prefix) = (self.weights(size), &mut Vec::new());
            samples.for_each_superset(weights, size, prefix, &mut chosen, &mut scratch, out);
        }
        (self.scratch, self.chosen) = (scratch, chosen);
    }
}

/// Samples to sum.
struct SampleBatch<'a> {
    isa: Isa,
    gathered: &'a FactorRatios,
    /// Boundaries of the blocks.
    bounds: &'a [usize],
    players: &'a [usize],
    sets: &'a Sets,
}

impl SampleBatch<'_> {
    /// Sums over all sets of `size` factors that consist of the factors in `prefix` and further factors after
    /// its last.
    fn for_each_superset(
        &self,
        weights: &[Lanes],
        size: usize,
        prefix: &mut Vec<usize>,
        chosen: &mut [Vec<Lanes>],
        scratch: &mut Scratch,
        out: &mut [f64],
    ) {
        let from = prefix.last().map_or(0, |k| k + 1);
        let left = size - prefix.len();
        if left <= 2 {
            // Index of the first set of players with this prefix, including players without a factor.
            let mut players = prefix.iter().map(|&k| self.players[k]).collect::<Vec<_>>();
            let next = players.last().map_or(0, |j| j + 1);
            if next + left > self.sets.players || from + left > self.players.len() {
                return;
            }
            players.extend(next..next + left);
            let block = SetBlock { first: self.sets.index_of(&players), next };
            if left == 2 {
                add_pair_sums(self.isa, self, weights, from, &block, scratch, out);
            } else {
                add_single_sums(self.isa, self, weights, from, &block, out);
            }
            return;
        }
        let Some((weighted, deeper)) = chosen.split_first_mut() else { return };
        for k in from..=self.players.len().saturating_sub(left) {
            weighted.clear();
            weighted
                .extend(weights.iter().zip(self.gathered.factor_ratios(k)).map(|(w, r)| Plain::mul(*w, *r)));
            prefix.push(k);
            self.for_each_superset(weighted, size, prefix, deeper, scratch, out);
            prefix.pop();
        }
    }
}

/// Position of the sets with a common prefix: `first` is the index of the first set whose next player is
/// `next`.
struct SetBlock {
    first: usize,
    next: usize,
}

dispatch! {
    /// Computes the ratios and weights of a node and stores them at index `sample`. Returns false if a factor
    /// is too small or too large to divide by.
    fn divide_node<V: Simd>(
        block: &FactorBlock,
        node: &SharedNode,
        smallest: f64,
        sample: usize,
        values: &mut [Lanes],
        ratios: &mut [Lanes],
        weights: &mut [Lanes],
    ) -> bool {
        let count = block.a.len();
        let (mut product, mut min_size, mut max_size) = (Lanes::UNIT, Lanes::splat(f64::MAX), Lanes::ZERO);
        let mut relative = Lanes::splat(f64::MAX);
        for l in 0..count {
            let value = block.factor::<V>(l, node.t, node.s);
            let (size, top) = (V::abs(value), V::max(V::abs(block.a[l]), V::abs(block.b[l])));
            relative = V::min(relative, V::sub(size, V::mul(top, Lanes::splat(smallest))));
            (min_size, max_size) = (V::min(min_size, size), V::max(max_size, size));
            values[l] = value;
            product = V::mul(product, value);
        }
        // Products of four stay within the range of doubles.
        if !(relative.smallest() >= 0.0 && min_size.smallest() >= 1e-60 && max_size.largest() <= 1e60) {
            return false;
        }
        for from in (0..count).step_by(4) {
            let f = [0, 1, 2, 3].map(|i| if from + i < count { values[from + i] } else { Lanes::UNIT });
            let (first, second) = (V::mul(f[0], f[1]), V::mul(f[2], f[3]));
            let inverse = V::div(Lanes::UNIT, V::mul(first, second));
            let (first_inverse, second_inverse) = (V::mul(inverse, second), V::mul(inverse, first));
            let inverse = [
                V::mul(first_inverse, f[1]),
                V::mul(first_inverse, f[0]),
                V::mul(second_inverse, f[3]),
                V::mul(second_inverse, f[2]),
            ];
            for (i, inverse) in inverse.iter().enumerate().take(count - from) {
                let l = from + i;
                ratios[l * STRIDE + sample] = V::mul(V::sub(block.a[l], block.b[l]), *inverse);
            }
        }
        let weight = V::mul(block.weight, product);
        for (size, node_weight) in node.weights.iter().enumerate().take(weights.len() / STRIDE) {
            weights[size * STRIDE + sample] = V::mul(weight, Lanes::splat(*node_weight));
        }
        true
    }

    fn add_single_sums<V: Simd>(
        samples: &SampleBatch<'_>,
        weights: &[Lanes],
        from: usize,
        block: &SetBlock,
        out: &mut [f64],
    ) {
        let (sets, gathered) = (samples.sets.len(), samples.gathered);
        for k in from..samples.players.len() {
            let index = block.first + samples.players[k] - block.next;
            let ratios = gathered.factor_ratios(k);
            if gathered.outputs == 1 {
                let mut sum = Lanes::ZERO;
                for (w, r) in weights.iter().zip(ratios) {
                    sum = V::fma(*w, *r, sum);
                }
                out[index] += sum.sum();
                continue;
            }
            for o in 0..gathered.outputs {
                let mut sum = Lanes::ZERO;
                for (block, range) in samples.bounds.windows(2).enumerate() {
                    let mut block_sum = Lanes::ZERO;
                    for (w, r) in weights[range[0]..range[1]].iter().zip(&ratios[range[0]..range[1]]) {
                        block_sum = V::fma(*w, *r, block_sum);
                    }
                    sum = V::fma(gathered.coef[block * gathered.outputs + o], block_sum, sum);
                }
                out[o * sets + index] += sum.sum();
            }
        }
    }

    fn add_pair_sums<V: Simd>(
        samples: &SampleBatch<'_>,
        weights: &[Lanes],
        from: usize,
        block: &SetBlock,
        scratch: &mut Scratch,
        out: &mut [f64],
    ) {
        let (count, sets, gathered) = (samples.players.len(), samples.sets.len(), samples.gathered);
        let (Scratch { rows, sums }, len) = (scratch, gathered.len);
        rows.resize(ROWS * STRIDE, Lanes::ZERO);
        for first in (from..count).step_by(ROWS) {
            let height = ROWS.min(count - first);
            for i in 0..height {
                for ((out, w), r) in
                    rows[i * STRIDE..][..len].iter_mut().zip(weights).zip(gathered.factor_ratios(first + i))
                {
                    *out = V::mul(*w, *r);
                }
            }
            let mut column = first + 1;
            while column < count {
                let width = COLUMNS.min(count - column);
                // Rows and columns beyond the last are repeated.
                let row = |i: usize| &rows[i.min(height - 1) * STRIDE..][..len];
                let column_ratios = |i: usize| gathered.factor_ratios(column + i.min(width - 1));
                let (rows, columns) = (
                    [row(0), row(1), row(2), row(3)],
                    [column_ratios(0), column_ratios(1), column_ratios(2), column_ratios(3)],
                );
                let mut put = |o: usize, tile: &[[Lanes; COLUMNS]; ROWS]| {
                    for i in 0..height {
                        let (l, skipped) = (samples.players[first + i], column.max(first + i + 1) - column);
                        let start = block.first + samples.sets.pairs_before(block.next, l);
                        for j in skipped..width {
                            out[o * sets + start + samples.players[column + j] - l - 1] += tile[i][j].sum();
                        }
                    }
                };
                if gathered.outputs == 1 {
                    put(0, &tile::<V>(&rows, &columns, 0, len));
                } else {
                    refill(sums, gathered.outputs * ROWS * COLUMNS, Lanes::ZERO);
                    for (block, range) in samples.bounds.windows(2).enumerate() {
                        let tile_sums = tile::<V>(&rows, &columns, range[0], range[1]);
                        for (o, sums) in sums.chunks_exact_mut(ROWS * COLUMNS).enumerate() {
                            let coef = gathered.coef[block * gathered.outputs + o];
                            for (sum, tile_sum) in sums.iter_mut().zip(tile_sums.as_flattened()) {
                                *sum = V::fma(coef, *tile_sum, *sum);
                            }
                        }
                    }
                    for (o, sums) in sums.chunks_exact(ROWS * COLUMNS).enumerate() {
                        let (tile_rows, _) = sums.as_chunks::<COLUMNS>();
                        put(o, &[tile_rows[0], tile_rows[1], tile_rows[2], tile_rows[3]]);
                    }
                }
                column += COLUMNS;
            }
        }
    }
}

/// Sums of the products of rows and columns over the samples `from..to`.
#[inline(always)]
pub(super) fn tile<V: Simd>(
    rows: &[&[Lanes]; ROWS],
    columns: &[&[Lanes]; COLUMNS],
    from: usize,
    to: usize,
) -> [[Lanes; COLUMNS]; ROWS] {
    let mut out = [[Lanes::ZERO; COLUMNS]; ROWS];
    let rows = rows.map(|row| &row[from..to]);
    let columns = columns.map(|column| &column[from..to]);
    for s in 0..to - from {
        for i in 0..ROWS {
            for j in 0..COLUMNS {
                out[i][j] = V::fma(rows[i][s], columns[j][s], out[i][j]);
            }
        }
    }
    out
}

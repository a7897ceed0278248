//! Interactions of a chosen subset of the pairs of players, for games with too many pairs to evaluate all.

use std::ops::Range;

use super::factor_block::FactorBlock;
use super::interaction_bounds::{NodeSums, single_output_terms};
use super::interaction_weights::{RuleCache, SharedNode, SizeWeightings};
use super::interactions::SMALLEST;
use super::product::{ProductTerms, ScaledTerms, TermAccumulator};
use super::quadrature::QuadratureEngine;
use super::set_products::{COLUMNS, FactorRatios, ROWS, SAMPLE_CAPACITY, STRIDE, tile};
use crate::simd::{Isa, Lanes, Plain, Simd, dispatch};

/// Pairs of one player: its columns, and the position of their sums.
#[derive(Clone, Debug)]
pub(crate) struct PairRow {
    pub(crate) columns: ColumnSet,
    pub(crate) start: usize,
}

/// Ranks of players, ascending.
#[derive(Clone, Debug)]
pub(crate) enum ColumnSet {
    /// All ranks in this range.
    Range(Range<usize>),
    /// The listed ranks.
    Listed(Vec<usize>),
}

impl ColumnSet {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Listed(list) => list.len(),
        }
    }

    /// The columns one after another.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let (range, list) = match self {
            Self::Range(range) => (range.clone(), &[][..]),
            Self::Listed(list) => (0..0, &list[..]),
        };
        range.chain(list.iter().copied())
    }

    /// The range from the first to the last column.
    fn range(&self) -> Range<usize> {
        match self {
            Self::Range(range) => range.clone(),
            Self::Listed(list) => list.first().map_or(0..0, |first| *first..list[list.len() - 1] + 1),
        }
    }

    /// Position of a column in the set.
    fn position_of(&self, column: usize) -> Option<usize> {
        match self {
            Self::Range(range) => range.contains(&column).then(|| column - range.start),
            Self::Listed(list) => list.binary_search(&column).ok(),
        }
    }
}

/// Pairs of ranked players: consecutive rows from `first` on, each with some columns of higher ranks.
#[derive(Debug, Default)]
pub(crate) struct PairRows {
    /// The first row.
    pub(crate) first: usize,
    pub(crate) steps: Vec<PairRow>,
}

impl PairRows {
    /// The number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.steps.last().map_or(0, |step| step.start + step.columns.len())
    }

    /// Appends the next row, with these columns.
    pub(crate) fn push(&mut self, columns: ColumnSet) {
        let start = self.len();
        self.steps.push(PairRow { columns, start });
    }
}

/// Samples to sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Samples {
    /// All nodes, which gives the interactions.
    Nodes,
    /// Means over nodes, which approximate the interactions, see [bounds](super::interaction_bounds).
    Means,
}

/// Interactions of some pairs in a game of one row.
pub(crate) struct PairInteractions<'a> {
    rules: RuleCache<'a>,
    samples: Samples,
    output: usize,
    /// For each player, its rank.
    ranks: &'a [usize],
    pair_rows: &'a PairRows,
    /// Interactions, in the order of the pairs.
    pub(crate) values: Vec<f64>,
    /// The number of roundings of the sums.
    pub(crate) rounded: usize,
    ratios: FactorRatios,
    weighed: ScaledTerms,
    nodes: NodeSums,
    /// Ranks and positions of the active factors that belong to a pair, in order, and the number of active
    /// factors. The gathered samples belong to these factors.
    ranked: Vec<(usize, usize)>,
    active: usize,
    rows: Vec<Lanes>,
    isa: Isa,
}

impl<'a> PairInteractions<'a> {
    /// An accumulator for the pairs of `pair_rows`; interactions are averaged like the first set size
    /// of `averages`.
    pub(crate) fn new(
        (averages, samples): (&'a SizeWeightings, Samples),
        ranks: &'a [usize],
        pair_rows: &'a PairRows,
        (isa, output): (Isa, usize),
    ) -> Self {
        Self {
            rules: RuleCache::new(averages),
            samples,
            output,
            ranks,
            pair_rows,
            values: vec![0.0; pair_rows.len()],
            rounded: 0,
            ratios: FactorRatios::default(),
            weighed: ScaledTerms::default(),
            nodes: NodeSums::default(),
            ranked: Vec::new(),
            active: 0,
            rows: Vec::new(),
            isa,
        }
    }

    /// Adds the gathered samples to the values of all pairs.
    fn flush(&mut self) {
        if !self.ratios.is_empty() {
            let Self { isa, ratios, ranked, pair_rows, rows, values, .. } = self;
            add(*isa, ratios, ranked, pair_rows, rows, values);
            self.ratios.clear();
            self.rounded += 1;
        }
    }

    /// Starts gathering for these factors. Consecutive batches with the same factors are gathered together.
    fn switch_factors(&mut self, ranked: Vec<(usize, usize)>, active: usize) {
        if (self.active, &self.ranked) != (active, &ranked) {
            self.flush();
            self.ratios.resize(active, 1);
            (self.active, self.ranked) = (active, ranked);
        }
    }

    /// Adds a node of a block without division.
    fn add_node_directly(&mut self, block: &FactorBlock, node: &SharedNode) {
        let Self { ranked, pair_rows, values, .. } = self;
        let count = block.a.len();
        let factor: Vec<Lanes> = (0..count).map(|l| block.factor::<Plain>(l, node.t, node.s)).collect();
        let difference = |l: usize| Plain::sub(block.a[l], block.b[l]);
        // Products of the factors before and after.
        let (mut before, mut after) = (vec![Lanes::UNIT; count + 1], vec![Lanes::UNIT; count + 1]);
        for &(row, j) in rows_of(ranked, pair_rows) {
            let factor_except = |l: usize| if l == j { Lanes::UNIT } else { factor[l] };
            after[count] = Plain::mul(Plain::mul(block.weight, Lanes::splat(node.weights[0])), difference(j));
            (0..count).rev().for_each(|l| after[l] = Plain::mul(after[l + 1], factor_except(l)));
            (0..count).for_each(|l| before[l + 1] = Plain::mul(before[l], factor_except(l)));
            let step = &pair_rows.steps[row - pair_rows.first];
            for &(column, l) in entries_in(ranked, step.columns.range()) {
                let Some(position) = step.columns.position_of(column) else { continue };
                values[step.start + position] +=
                    Plain::mul(Plain::mul(before[l], after[l + 1]), difference(l)).sum();
            }
        }
        self.rounded += 1;
    }
}

/// The entries whose ranks are in `ranks`.
fn entries_in(ranked: &[(usize, usize)], ranks: Range<usize>) -> &[(usize, usize)] {
    let first_at = |rank: usize| ranked.partition_point(|(entry_rank, _)| *entry_rank < rank);
    let start = first_at(ranks.start);
    &ranked[start..first_at(ranks.end).max(start)]
}

fn rows_of<'r>(ranked: &'r [(usize, usize)], pair_rows: &PairRows) -> &'r [(usize, usize)] {
    entries_in(ranked, pair_rows.first..pair_rows.first + pair_rows.steps.len())
}

impl TermAccumulator for PairInteractions<'_> {
    fn begin_tile(&mut self, rows: &Range<usize>, _points: &Range<usize>) {
        debug_assert!(rows.len() == 1, "a game of several rows");
    }

    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        let active = &terms.run.active[..terms.run.players];
        let end_rank = self.pair_rows.steps.iter().map(|step| step.columns.range().end).max().unwrap_or(0);
        let ranks = active.iter().map(|&k| self.ranks[terms.players[k as usize]]).zip(0..);
        let mut ranked: Vec<(usize, usize)> =
            ranks.filter(|(rank, _)| (self.pair_rows.first..end_rank).contains(rank)).collect();
        ranked.sort_unstable();
        if ranked.len() < 2 || rows_of(&ranked, self.pair_rows).is_empty() {
            return;
        }
        self.switch_factors(ranked, terms.run.players);
        let mut weighed = std::mem::take(&mut self.weighed);
        let run = single_output_terms(terms, self.output, &mut weighed);
        for index in 0..run.weights.len() {
            let block = engine.block(&run, index);
            let rule = self.rules.rule(&block.choice);
            if self.samples == Samples::Means {
                if self.ratios.len() == SAMPLE_CAPACITY {
                    self.flush();
                }
                self.nodes.add_up(engine.isa, &block, &rule);
                let (weight, means) = self.nodes.means(&block);
                self.ratios.push_sample(weight, means);
                continue;
            }
            for node in rule.iter() {
                if self.ratios.len() == SAMPLE_CAPACITY {
                    self.flush();
                }
                if !self.ratios.push(engine.isa, &block, node, SMALLEST) {
                    self.add_node_directly(&block, node);
                }
            }
        }
        self.weighed = weighed;
    }

    fn finish_tile(&mut self) {
        self.flush();
    }
}

dispatch! {
    /// Adds the gathered samples to the values of all pairs.
    fn add<V: Simd>(
        ratios: &FactorRatios,
        ranked: &[(usize, usize)],
        pair_rows: &PairRows,
        rows: &mut Vec<Lanes>,
        values: &mut [f64],
    ) {
        let weights = ratios.weights(1);
        let len = weights.len();
        rows.resize(ROWS * STRIDE, Lanes::ZERO);
        for tile_rows in rows_of(ranked, pair_rows).chunks(ROWS) {
            let step = |i: usize| &pair_rows.steps[tile_rows[i].0 - pair_rows.first];
            for (i, (_, factor)) in tile_rows.iter().enumerate() {
                let out = rows[i * STRIDE..][..len].iter_mut();
                for ((out, w), r) in out.zip(weights).zip(ratios.factor_ratios(*factor)) {
                    *out = V::mul(*w, *r);
                }
            }
            if matches!(step(0).columns, ColumnSet::Listed(_)) {
                (0..tile_rows.len())
                    .for_each(|i| listed::<V>(ratios, ranked, step(i), &rows[i * STRIDE..][..len], values));
                continue;
            }
            let spans =
                (0..tile_rows.len()).map(|i| step(i).columns.range()).filter(|range| !range.is_empty());
            let (from, to) =
                spans.fold((usize::MAX, 0), |(from, to), range| (from.min(range.start), to.max(range.end)));
            // Rows and columns beyond the last are repeated.
            let row = |i: usize| &rows[i.min(tile_rows.len() - 1) * STRIDE..][..len];
            for tile_columns in entries_in(ranked, from..to).chunks(COLUMNS) {
                let column_ratios =
                    |j: usize| ratios.factor_ratios(tile_columns[j.min(tile_columns.len() - 1)].1);
                let sums = tile::<V>(
                    &[row(0), row(1), row(2), row(3)],
                    &[column_ratios(0), column_ratios(1), column_ratios(2), column_ratios(3)],
                    0,
                    len,
                );
                for (i, row_sums) in sums.iter().enumerate().take(tile_rows.len()) {
                    let step = step(i);
                    for ((column, _), sum) in tile_columns.iter().zip(row_sums) {
                        if let Some(position) = step.columns.position_of(*column) {
                            values[step.start + position] += sum.sum();
                        }
                    }
                }
            }
        }
    }
}

/// Adds the gathered samples to the listed columns of one row.
#[inline(always)]
fn listed<V: Simd>(
    ratios: &FactorRatios,
    ranked: &[(usize, usize)],
    step: &PairRow,
    row: &[Lanes],
    values: &mut [f64],
) {
    let mut remaining = entries_in(ranked, step.columns.range());
    let ColumnSet::Listed(list) = &step.columns else { return };
    for (column, value) in list.iter().zip(&mut values[step.start..]) {
        remaining = &remaining[remaining.partition_point(|(entry_rank, _)| entry_rank < column)..];
        let Some((_, factor)) = remaining.first().filter(|(entry_rank, _)| entry_rank == column) else {
            continue;
        };
        let mut sum = Lanes::ZERO;
        for (w, r) in row.iter().zip(ratios.factor_ratios(*factor)) {
            sum = V::fma(*w, *r, sum);
        }
        *value += sum.sum();
    }
}

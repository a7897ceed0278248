//! MMD² as a sum over pairs of the pooled sample, and its null distribution by relabelling.
//!
//! With a label `l_i` for each row i, every estimator gives a pair of rows the weight
//! `c₀ + c₁ (l_i + l_j) + c₂ l_i l_j`, with three coefficients c. So all relabellings of a tile of pairs are
//! one matrix product with the labels.

use std::ops::Range;

use super::pair_sums::{MmdEstimator, NullDraws, PairTile, PairWeights};
use crate::linalg::small_dense;
use crate::random::{Random, RngExt, SeedableRng, SliceRandom};
use crate::simd::LANES;

/// The labelled rows of a pooled sample.
pub(super) struct SampleLabels {
    /// The label of each row, padding included.
    labels: Vec<f64>,
    coefficients: [f64; 3],
    pub(super) estimator: MmdEstimator,
}

/// Relabellings of a pooled sample.
pub(super) struct RelabellingNull<'l> {
    sample_labels: &'l SampleLabels,
    /// For each draw, the label of each row, padding included.
    labels: Vec<i8>,
}

/// Returns the indices of the rows of two concatenated samples that the estimator uses, in its order.
pub(super) fn row_arrangement(estimator: MmdEstimator, n: usize, m: usize) -> Vec<usize> {
    match estimator {
        MmdEstimator::Unbiased | MmdEstimator::Biased => (0..n + m).collect(),
        MmdEstimator::Block(q) => (0..n.min(m) / q)
            .flat_map(|block| {
                let block_rows = block * q..(block + 1) * q;
                block_rows.clone().chain(block_rows.map(move |i| n + i))
            })
            .collect(),
    }
}

/// The smallest number of rows by which the orthogonal factors of the block estimator are centered; for many
/// rows it is the square root of their number.
const MIN_REFERENCE_ROWS: usize = 1024;

/// Returns the indices, in the order of [`row_arrangement`], of the rows by which orthogonal factors are
/// centered. These are all rows, except for blocks, where all rows would take longer than the test: there it
/// is a subset, which contains each row together with the row with which it may exchange its label.
pub(super) fn reference_rows(estimator: MmdEstimator, rows: usize) -> Vec<usize> {
    match estimator {
        MmdEstimator::Unbiased | MmdEstimator::Biased => (0..rows).collect(),
        MmdEstimator::Block(q) => {
            let pairs: Vec<usize> = (0..rows).filter(|i| i / q % 2 == 0).collect();
            let count = (MIN_REFERENCE_ROWS.max((rows as f64).sqrt() as usize) / 2).min(pairs.len());
            let mut chosen_rows: Vec<usize> =
                (0..count).map(|k| pairs[k * pairs.len() / count]).flat_map(|i| [i, i + q]).collect();
            chosen_rows.sort_unstable();
            chosen_rows
        }
    }
}

impl SampleLabels {
    /// Creates the labels of n rows of one sample and m rows of the other, in the order of
    /// [`row_arrangement`].
    pub(super) fn new(estimator: MmdEstimator, n: usize, m: usize) -> Self {
        let (mut labels, coefficients): (Vec<f64>, _) = match estimator {
            MmdEstimator::Unbiased | MmdEstimator::Biased => {
                // The smaller sample has label 1. It has few pairs, and only their weights are computed from
                // larger numbers.
                let biased = f64::from(u8::from(estimator == MmdEstimator::Biased));
                let pairs = |n: usize| n as f64 * (n as f64 - 1.0 + biased);
                let (within_smaller, within_larger) = (1.0 / pairs(n.min(m)), 1.0 / pairs(n.max(m)));
                let cross = -1.0 / (n as f64 * m as f64);
                let labels = (0..n + m).map(|i| f64::from(u8::from((i < n) == (n <= m)))).collect();
                (labels, [within_larger, cross - within_larger, within_smaller + within_larger - 2.0 * cross])
            }
            MmdEstimator::Block(q) => {
                let blocks = n.min(m) / q;
                let labels = (0..2 * q * blocks).map(|i| if i / q % 2 == 0 { 1.0 } else { -1.0 }).collect();
                (labels, [0.0, 0.0, 1.0 / (blocks * q * (q - 1)) as f64])
            }
        };
        labels.resize(labels.len().next_multiple_of(LANES), 0.0);
        Self { labels, coefficients, estimator }
    }

    /// Draws exchanges of labels: among all rows, or, with blocks, between row i of one sample and row i of
    /// the other. The draws come one after the other from one generator.
    pub(super) fn permutations(&self, rows: usize, draws: usize, seed: u64) -> RelabellingNull<'_> {
        let mut random = Random::seed_from_u64(seed);
        let mut drawn_labels = Vec::with_capacity(draws * self.labels.len());
        for _ in 0..draws {
            let mut labels: Vec<i8> = self.labels.iter().map(|&l| l as i8).collect();
            match self.estimator {
                MmdEstimator::Unbiased | MmdEstimator::Biased => labels[..rows].shuffle(&mut random),
                MmdEstimator::Block(q) => {
                    for i in (0..rows).filter(|i| i / q % 2 == 0) {
                        if random.random() {
                            labels.swap(i, i + q);
                        }
                    }
                }
            }
            drawn_labels.extend(labels);
        }
        RelabellingNull { sample_labels: self, labels: drawn_labels }
    }
}

impl PairWeights for SampleLabels {
    fn row(&self, i: usize, columns: &Range<usize>, out: &mut [f64]) {
        let (row_label, [c0, c1, c2]) = (self.labels[i], self.coefficients);
        for (out, label) in out.iter_mut().zip(&self.labels[columns.clone()]) {
            *out = c0 + c1 * (row_label + label) + c2 * (row_label * label);
        }
    }

    fn error(&self) -> f64 {
        0.0
    }
}

impl RelabellingNull<'_> {
    /// Returns the labels of all rows in each draw.
    fn draws(&self) -> std::slice::ChunksExact<'_, i8> {
        self.labels.chunks_exact(self.sample_labels.labels.len())
    }
}

impl NullDraws for RelabellingNull<'_> {
    fn count(&self) -> usize {
        self.draws().len()
    }

    fn prepare(&self, columns: &Range<usize>) -> Vec<f64> {
        self.draws().flat_map(|labels| labels[columns.clone()].iter().map(|&l| f64::from(l))).collect()
    }

    fn add(&self, tile: &PairTile<'_>, prepared: &[f64], memory: &mut Vec<f64>, out: &mut [f64]) {
        let [c0, c1, c2] = self.sample_labels.coefficients;
        let (rows, length) = (tile.rows.len(), tile.columns.len());
        for channel in 0..tile.channels {
            let values = tile.channel(channel);
            memory.clear();
            memory.resize(rows * self.count(), 0.0);
            small_dense::add_transposed_product(memory, values, prepared, length);
            let sums: Vec<f64> = values.chunks_exact(length).map(|row| row.iter().sum()).collect();
            let constant = c0 * sums.iter().sum::<f64>();
            for (draw, (labels, products)) in self.draws().zip(memory.chunks_exact(rows)).enumerate() {
                let mut total = constant;
                for ((label, product), sum) in labels[tile.rows.clone()].iter().zip(products).zip(&sums) {
                    let label = f64::from(*label);
                    total += c1 * (product + label * sum) + c2 * (label * product);
                }
                out[draw * tile.channels + channel] += total;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange of labels does not change the reference rows by which factors are centered.
    #[test]
    fn reference_rows_contain_both_rows_of_an_exchange() {
        for (q, blocks) in [(2, 3), (2, 4000), (7, 900)] {
            let rows = reference_rows(MmdEstimator::Block(q), 2 * q * blocks);
            assert!(rows.len() >= (4 * q * blocks).min(2000) / 2 && rows.is_sorted());
            for &i in &rows {
                let partner = if i / q % 2 == 0 { i + q } else { i - q };
                assert!(rows.binary_search(&partner).is_ok(), "{i} {partner}");
            }
        }
    }
}

//! HSIC as a sum over pairs of rows of X with weights from the centred kernel between rows of Y, and its null
//! distribution by permutation of the rows of Y or by a wild bootstrap.
//!
//! `K` and `L` (n × n) are the gram matrices of X and Y, with the kernel l of Y, and `H` (n × n) is the
//! centring matrix. Both estimators give the pair (i, j) the weight `s (l(y_i, y_j) - a_i - a_j + m)`, with a
//! vector a (length n) and scalars m and s. Biased: a are the row means of L, m is its mean, and s =
//! 1/(n-1)², which gives `tr(K H L H)/(n-1)²`. Unbiased: the diagonal of L is set to 0, a are its row sums
//! over n - 2, m is its sum over (n-1)(n-2), and s = 1/(n(n-3)) (Song, Smola, Gretton, Bedo and Borgwardt
//! 2012, equation 5, ordered by the entries of K).

use std::ops::Range;

use rayon::prelude::*;

use super::pair_sums::{MmdEstimator, NullDraws, PairTile, PairWeights};
use super::points::Points;
use crate::kernel::{Columns, Kernel};
use crate::linalg::small_dense;
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, StandardNormal};
use crate::simd::{Isa, LANES};
use crate::table::Table;

/// The largest number of rows for which the weights of all pairs are stored (8 n² bytes); for more rows, each
/// draw computes them again.
const MAX_CACHED_ROWS: usize = 4096;

/// The number of terms that are summed before their sums are added to each other.
const CHUNK: usize = 64;

/// The number of draws whose weights are gathered together.
const BATCH_DRAWS: usize = 32;

/// The centered kernel between the rows of Y, as weights of pairs.
pub(super) struct CenteredKernel<'k> {
    points: Points,
    kernel: &'k Kernel,
    unbiased: bool,
    /// The vector a of the module's documentation; `mean` and `scale` are m and s.
    means: Vec<f64>,
    mean: f64,
    scale: f64,
    /// A bound on the error of a weight, from the kernel and from means over the rows.
    error: f64,
    /// The weights row by row, if they are stored. The length of a row is a power of two, so that gathering
    /// needs no bounds checks.
    cached_rows: Option<Vec<f64>>,
    isa: Isa,
}

impl<'k> CenteredKernel<'k> {
    /// Creates the centered kernel. Cost O(n² d).
    pub(super) fn new(y: &Table, kernel: &'k Kernel, unbiased: bool, cache: bool) -> Self {
        let (points, isa) = (Points::new(y), Isa::detect());
        let n = y.rows();
        let columns = 0..points.stride();
        let (sums, largest): (Vec<f64>, Vec<f64>) = (0..n)
            .into_par_iter()
            .map_init(
                || (Vec::new(), vec![0.0; columns.len()]),
                |(buffer, row), i| {
                    kernel.row(isa, points.all_rows(), &points.row(i), buffer, row);
                    let diagonal = if unbiased { row[i] } else { 0.0 };
                    let parts = row[..n].chunks(CHUNK).map(|part| part.iter().sum::<f64>());
                    (parts.sum::<f64>() - diagonal, row[..n].iter().fold(0.0_f64, |m, v| m.max(v.abs())))
                },
            )
            .unzip();
        let (total, count) = (sums.chunks(CHUNK).map(|part| part.iter().sum::<f64>()).sum::<f64>(), n as f64);
        let (divisor, mean, scale) = if unbiased {
            (count - 2.0, total / ((count - 1.0) * (count - 2.0)), 1.0 / (count * (count - 3.0)))
        } else {
            (count, total / (count * count), 1.0 / (count - 1.0).powi(2))
        };
        let mut means: Vec<f64> = sums.iter().map(|s| s / divisor).collect();
        means.resize(points.stride(), 0.0);
        let rounding = kernel.rounding_bound(&points.ranges(), y.width());
        let roundings = 16 + 4 * (CHUNK + n.div_ceil(CHUNK));
        let largest = largest.iter().copied().fold(0.0, f64::max);
        let error = scale * (4.0 * rounding + f64::EPSILON * roundings as f64 * largest);
        let mut centered =
            Self { points, kernel, unbiased, means, mean, scale, error, cached_rows: None, isa };
        if cache && n <= MAX_CACHED_ROWS {
            let mut rows_buffer = vec![0.0; n * centered.row_length()];
            rows_buffer
                .par_chunks_exact_mut(centered.row_length())
                .enumerate()
                .for_each(|(i, row)| centered.compute(i, &columns, &mut row[..columns.len()]));
            centered.cached_rows = Some(rows_buffer);
        }
        centered
    }

    /// The estimator. Pairs of a row with itself count only if it is biased.
    pub(super) fn estimator(&self) -> MmdEstimator {
        if self.unbiased { MmdEstimator::Unbiased } else { MmdEstimator::Biased }
    }

    /// The length of a stored row.
    fn row_length(&self) -> usize {
        self.points.stride().next_power_of_two()
    }

    fn compute(&self, i: usize, columns: &Range<usize>, out: &mut [f64]) {
        let means = &self.means[columns.clone()];
        self.row_of_points(i, self.points.columns(columns), means, &mut Vec::new(), out);
    }

    /// Computes the weights of row i and some rows of Y, whose means are `means`.
    fn row_of_points(
        &self,
        i: usize,
        points: Columns<'_>,
        means: &[f64],
        buffer: &mut Vec<f64>,
        out: &mut [f64],
    ) {
        self.kernel.row(self.isa, points, &self.points.row(i), buffer, out);
        for (out, mean) in out.iter_mut().zip(means) {
            *out = self.scale * ((*out - self.means[i]) + (self.mean - mean));
        }
    }

    /// Draws permutations of the rows of Y, one after the other from one generator.
    pub(super) fn permuted(&self, draws: usize, seed: u64) -> PermutationNull<'_, 'k> {
        let mut random = Random::seed_from_u64(seed);
        let (n, stride) = (self.points.rows(), self.points.stride());
        let mut orders = Vec::with_capacity(draws * stride);
        for _ in 0..draws {
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.shuffle(&mut random);
            order.resize(stride, 0);
            orders.extend(order);
        }
        PermutationNull { centered: self, orders, draws }
    }
}

impl PairWeights for CenteredKernel<'_> {
    fn row(&self, i: usize, columns: &Range<usize>, out: &mut [f64]) {
        match &self.cached_rows {
            Some(rows) => {
                let from = i * self.row_length();
                out.copy_from_slice(&rows[from + columns.start..from + columns.end]);
            }
            None => self.compute(i, columns, out),
        }
    }

    fn error(&self) -> f64 {
        self.error
    }
}

/// Permutations of the rows of Y as a null distribution.
pub(super) struct PermutationNull<'c, 'k> {
    centered: &'c CenteredKernel<'k>,
    /// For each draw, the row of Y at each position, padding included.
    orders: Vec<u32>,
    draws: usize,
}

impl PermutationNull<'_, '_> {
    pub(super) fn order(&self, draw: usize) -> &[u32] {
        let stride = self.centered.points.stride();
        &self.orders[draw * stride..(draw + 1) * stride]
    }
}

/// Computes `out[t] = row[indices[t]]`, where the row's length is a power of two. Single loads are faster
/// here than gather instructions.
fn gather(row: &[f64], indices: &[u32], out: &mut [f64]) {
    let mask = row.len() - 1;
    for (out, &j) in out.iter_mut().zip(indices) {
        *out = row[j as usize & mask];
    }
}

/// Returns `Σ_t values[t] row[indices[t]]`, with single loads as in [`gather`].
fn gather_dot(values: &[f64], row: &[f64], indices: &[u32]) -> f64 {
    let mask = row.len() - 1;
    let mut sum = [0.0; LANES];
    for (values, indices) in values.as_chunks::<LANES>().0.iter().zip(indices.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            sum[l] += values[l] * row[indices[l] as usize & mask];
        }
    }
    sum.iter().sum()
}

impl NullDraws for PermutationNull<'_, '_> {
    fn count(&self) -> usize {
        self.draws
    }

    /// A long tile makes more use of each row of weights that is loaded from memory.
    fn columns(&self, channels: usize) -> Option<usize> {
        (channels == 1 && self.centered.cached_rows.is_some()).then_some(1024)
    }

    /// If weights are not stored: for each draw, the rows of Y at the columns' positions, and their means.
    fn prepare(&self, columns: &Range<usize>) -> Vec<f64> {
        let mut out = Vec::new();
        if self.centered.cached_rows.is_none() {
            for draw in 0..self.draws {
                let order = &self.order(draw)[columns.clone()];
                self.centered.points.gather(order, &mut out);
                out.extend(order.iter().map(|&i| self.centered.means[i as usize]));
            }
        }
        out
    }

    fn add(&self, tile: &PairTile<'_>, prepared: &[f64], memory: &mut Vec<f64>, out: &mut [f64]) {
        let centered = self.centered;
        let (size, length, channels) = (tile.size(), tile.columns.len(), tile.channels);
        if let (Some(cached_rows), 1) = (&centered.cached_rows, channels) {
            for (draw, out) in out.iter_mut().enumerate() {
                let order = self.order(draw);
                let rows = tile.rows.clone().zip(tile.values.chunks_exact(length));
                for (i, values) in rows {
                    // Columns before the diagonal are counted in the pair's other order.
                    let from = i.saturating_sub(tile.columns.start) / LANES * LANES;
                    let indices = &order[tile.columns.start + from..tile.columns.end];
                    let row = order[i] as usize * centered.row_length();
                    *out +=
                        gather_dot(&values[from..], &cached_rows[row..row + centered.row_length()], indices);
                }
            }
            return;
        }
        let numbers_per_draw = prepared.len() / self.draws;
        let mut buffer = Vec::new();
        memory.resize(size * BATCH_DRAWS, 0.0);
        for from in (0..self.draws).step_by(BATCH_DRAWS) {
            let draws = from..(from + BATCH_DRAWS).min(self.draws);
            for (draw, out) in draws.clone().zip(memory.chunks_exact_mut(size)) {
                let order = self.order(draw);
                let indices = &order[tile.columns.clone()];
                for (i, out) in order[tile.rows.clone()].iter().zip(out.chunks_exact_mut(length)) {
                    let i = *i as usize;
                    if let Some(cached_rows) = &centered.cached_rows {
                        gather(
                            &cached_rows[i * centered.row_length()..(i + 1) * centered.row_length()],
                            indices,
                            out,
                        );
                        continue;
                    }
                    let (rows, means) = prepared[draw * numbers_per_draw..(draw + 1) * numbers_per_draw]
                        .split_at(numbers_per_draw - length);
                    let rows = Columns::new(rows, length, 0, length);
                    centered.row_of_points(i, rows, means, &mut buffer, out);
                }
            }
            let sums = &mut out[draws.start * channels..draws.end * channels];
            let weights = &memory[..size * draws.len()];
            small_dense::add_transposed_product(sums, tile.values, weights, size);
        }
    }
}

/// A wild bootstrap for rows that depend on each other in time, with weights `e_i e_j W_ij`, centered again.
/// The process e has a correlation that decays over some rows (Chwialkowski, Sejdinovic and Gretton 2014, the
/// second of their two processes and their V-statistic of a centered kernel).
pub(super) struct WildBootstrapNull<'c, 'k> {
    centered: &'c CenteredKernel<'k>,
    /// For each draw, the process e by row, padding included.
    process: Vec<f64>,
    /// For each draw and row i, `Σ_j e_i e_j W_ij / n`, laid out like `process`; `mean` is its mean by draw.
    means: Vec<f64>,
    mean: Vec<f64>,
}

impl<'c, 'k> WildBootstrapNull<'c, 'k> {
    /// Draws the process; `decay_rows` is the number of rows over which its correlation decreases to 1/e.
    pub(super) fn new(centered: &'c CenteredKernel<'k>, draws: usize, decay_rows: f64, seed: u64) -> Self {
        let (n, stride) = (centered.points.rows(), centered.points.stride());
        let mut random = Random::seed_from_u64(seed);
        let (decay, innovation_sd) = ((-1.0 / decay_rows).exp(), (1.0 - (-2.0 / decay_rows).exp()).sqrt());
        let mut process = Vec::with_capacity(draws * stride);
        for _ in 0..draws {
            let mut e: f64 = random.sample(StandardNormal);
            for _ in 0..n {
                process.push(e);
                e = decay * e + innovation_sd * random.sample::<f64, _>(StandardNormal);
            }
            process.resize(process.len().next_multiple_of(LANES), 0.0);
        }
        // The matrix W is processed row by row, for all draws at once.
        let columns = 0..stride;
        let mut products = vec![0.0; n * draws];
        const ROWS: usize = 64;
        products.par_chunks_mut(ROWS * draws).enumerate().for_each(|(index, out)| {
            let count = out.len() / draws;
            let mut rows = vec![0.0; count * stride];
            for (r, row) in rows.chunks_exact_mut(stride).enumerate() {
                centered.row(index * ROWS + r, &columns, row);
            }
            // The product is over columns; `out` is rows × draws.
            small_dense::add_transposed_product(out, &process, &rows, stride);
        });
        let mut means = vec![0.0; draws * stride];
        let mut mean = vec![0.0; draws];
        for i in 0..n {
            for b in 0..draws {
                let value = process[b * stride + i] * products[i * draws + b] / n as f64;
                means[b * stride + i] = value;
                mean[b] += value / n as f64;
            }
        }
        Self { centered, process, means, mean }
    }

    #[cfg(test)]
    pub(super) fn process(&self) -> Vec<Vec<f64>> {
        let draws = self.process.chunks_exact(self.centered.points.stride());
        draws.map(|e| e[..self.centered.points.rows()].to_vec()).collect()
    }
}

impl NullDraws for WildBootstrapNull<'_, '_> {
    fn count(&self) -> usize {
        self.mean.len()
    }

    fn prepare(&self, columns: &Range<usize>) -> Vec<f64> {
        let values = [&self.process, &self.means].map(|numbers| {
            numbers
                .chunks_exact(self.centered.points.stride())
                .flat_map(|e| e[columns.clone()].iter().copied())
        });
        values.into_iter().flatten().collect()
    }

    fn add(&self, tile: &PairTile<'_>, prepared: &[f64], memory: &mut Vec<f64>, out: &mut [f64]) {
        let (rows, length, draws, stride) =
            (tile.rows.len(), tile.columns.len(), self.count(), self.centered.points.stride());
        let mut weights = vec![0.0; tile.size()];
        for (i, out) in tile.rows.clone().zip(weights.chunks_exact_mut(length)) {
            self.centered.row(i, &tile.columns, out);
        }
        let (process, means) = prepared.split_at(length * draws);
        for channel in 0..tile.channels {
            let values = tile.channel(channel);
            let weighted: Vec<f64> = values.iter().zip(&weights).map(|(v, w)| v * w).collect();
            memory.clear();
            memory.resize(2 * rows * draws, 0.0);
            let (process_products, mean_products) = memory.split_at_mut(rows * draws);
            small_dense::add_transposed_product(process_products, &weighted, process, length);
            small_dense::add_transposed_product(mean_products, values, means, length);
            let sums: Vec<f64> = values.chunks_exact(length).map(|row| row.iter().sum()).collect();
            let total_sum: f64 = sums.iter().sum();
            for b in 0..draws {
                let start = b * stride + tile.rows.start;
                let mut total = self.mean[b] * total_sum;
                for r in 0..rows {
                    total += self.process[start + r] * process_products[b * rows + r]
                        - self.means[start + r] * sums[r]
                        - mean_products[b * rows + r];
                }
                out[b * tile.channels + channel] += total;
            }
        }
    }
}

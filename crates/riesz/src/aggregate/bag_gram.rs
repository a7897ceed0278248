//! Covariances of bags: sums of kernel values over pairs of rows, `U = PᵀK(X, X)P` (bags × bags), and their
//! derivatives. They are computed tile by tile, without the matrix between rows.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::control::check_cancelled;
use crate::error::Result;
use crate::kernel::{Columns, GradientScratch, Kernel};
use crate::linalg::{Matrix, Sparse, add_to, cumulative_sums, select, sum_vectors};
use crate::random::{Random, RngExt};
use crate::simd::Isa;
use crate::table::Table;

/// Number of rows of one bag in a tile.
const BLOCK: usize = 64;

/// Number of other rows in a tile: a few values of each fit into the first-level cache.
const ROWS_AT_ONCE: usize = 512;

/// Maximum number of values (128 MB) of the derivatives of U, with the partial sums, for which they are
/// computed together with U and kept. Otherwise they are computed again.
const KEPT: usize = 1 << 24;

/// The rows in the order of their bags, once for each of their bags, with their weights in this bag.
pub(super) struct BagRows {
    pub table: Table,
    pub weights: Vec<f64>,
    /// Index of the first row of each bag, and the end of the last bag.
    starts: Vec<usize>,
    /// The bag of each row.
    pub bag: Vec<usize>,
}

/// Sums for a tile: a block of first rows, all of one bag, with a block of second rows of this bag and later
/// ones.
struct GramTile<'t> {
    /// The bag of the first rows.
    bag: usize,
    /// The bag of each second row.
    bags: &'t [usize],
    /// Weight of each second row, doubled if the pair also represents its mirror image within the same bag.
    counts: &'t [f64],
    /// For each second row the weighted sum over the first rows: of kernel values, then of each derivative.
    totals: &'t [f64],
}

impl<'t> GramTile<'t> {
    /// The totals of the kernel, then of each derivative.
    fn totals(&self) -> std::slice::ChunksExact<'t, f64> {
        self.totals.chunks_exact(self.counts.len())
    }
}

/// Memory that a thread reuses from tile to tile.
struct TileScratch {
    row: Vec<f64>,
    counts: Vec<f64>,
    totals: Vec<f64>,
    scratch: GradientScratch,
}

impl BagRows {
    /// Rows of `x` in bags with the weights P (rows × bags).
    pub fn new(x: &Table, weights: &Sparse) -> Self {
        let (starts, places, weights) = weights.raw_parts();
        Self::from_parts(x.select_rows(places), weights.to_vec(), starts.to_vec())
    }

    /// Rows that are sorted by bags, where each bag starts at the end of the one before it.
    fn from_parts(table: Table, weights: Vec<f64>, starts: Vec<usize>) -> Self {
        let bag = starts.windows(2).enumerate().flat_map(|(b, ends)| vec![b; ends[1] - ends[0]]).collect();
        Self { table, weights, starts, bag }
    }

    pub fn bags(&self) -> usize {
        self.starts.len() - 1
    }

    /// The range of a bag's rows.
    pub fn range(&self, bag: usize) -> Range<usize> {
        self.starts[bag]..self.starts[bag + 1]
    }

    /// Blocks of at most `size` rows of one bag, each with its bag.
    pub fn blocks(&self, size: usize) -> Vec<(usize, Range<usize>)> {
        let blocks_of_bag = |b: usize| {
            let Range { start, end } = self.range(b);
            (start..end).step_by(size).map(move |from| (b, from..end.min(from + size)))
        };
        (0..self.bags()).flat_map(blocks_of_bag).collect()
    }

    /// The rows of a subset of the bags.
    pub fn of_bags(&self, bags: &[usize]) -> Self {
        let places: Vec<usize> = bags.iter().flat_map(|&b| self.range(b)).collect();
        let ends = bags.iter().scan(0, |end, &b| {
            *end += self.range(b).len();
            Some(*end)
        });
        let starts = [0].into_iter().chain(ends).collect();
        Self::from_parts(self.table.select_rows(&places), select(&self.weights, &places), starts)
    }

    /// A sample of about `count` rows, with at least one per bag. The rows are independent draws with
    /// probabilities proportional to the weights. Under their new weights sums over a bag have the same
    /// expectation.
    pub fn sample(&self, count: usize, random: &mut Random) -> Self {
        let (mut places, mut weights, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for b in 0..self.bags() {
            let range = self.range(b);
            let ends = cumulative_sums(&self.weights[range.clone()]);
            let total = ends.last().copied().unwrap_or(0.0);
            let draws = (range.len() * count).div_ceil(self.weights.len());
            for _ in 0..draws {
                let position = total * random.random::<f64>();
                places.push(range.start + ends.partition_point(|end| *end <= position).min(range.len() - 1));
                weights.push(total / draws as f64);
            }
            starts.push(places.len());
        }
        Self::from_parts(self.table.select_rows(&places), weights, starts)
    }

    /// Visits the tiles of the upper triangle of pairs of rows, with `count` derivatives (of all parameters,
    /// or none). Returns for each block of rows, in order, its bag and the value that `for_each_tile`
    /// accumulated over the block's tiles. The result doesn't depend on the number of threads.
    fn for_each_tile<T: Send>(
        &self,
        (kernel, count): (&Kernel, usize),
        stop: &AtomicBool,
        start: impl Fn(usize) -> T + Sync,
        for_each_tile: impl Fn(&mut T, &GramTile<'_>) + Sync,
    ) -> Result<Vec<(usize, T)>> {
        let isa = Isa::detect();
        let memory = || TileScratch {
            row: vec![0.0; self.table.width()],
            counts: Vec::new(),
            totals: Vec::new(),
            scratch: GradientScratch::for_kernel(kernel),
        };
        let work = |memory: &mut TileScratch, (bag, first): (usize, Range<usize>)| {
            check_cancelled(stop)?;
            let TileScratch { row, counts, totals, scratch } = memory;
            let (mut accumulated, end) = (start(bag), self.range(bag).end);
            for from in (first.start..self.weights.len()).step_by(ROWS_AT_ONCE) {
                let second = from..self.weights.len().min(from + ROWS_AT_ONCE);
                let columns = Columns::new(self.table.column_major(), self.table.rows(), from, second.len());
                totals.clear();
                totals.resize((1 + count) * second.len(), 0.0);
                for e in first.clone() {
                    self.table.copy_row(e, row);
                    let out = (&mut totals[..], second.len());
                    kernel.add_value_and_gradient(
                        isa,
                        columns,
                        row,
                        [self.weights[e]; 2],
                        count > 0,
                        scratch,
                        out,
                    );
                }
                let twice = |e: usize| if e >= first.end && e < end { 2.0 } else { 1.0 };
                counts.clear();
                counts.extend(second.clone().map(|e| twice(e) * self.weights[e]));
                for_each_tile(&mut accumulated, &GramTile { bag, bags: &self.bag[second], counts, totals });
            }
            Ok((bag, accumulated))
        };
        self.blocks(BLOCK).into_par_iter().map_init(memory, work).collect()
    }

    /// U, bags × bags. Cost N²/2 kernel values for N rows; memory: U and a part of U for every 64 rows.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted) soon after `stop` becomes true.
    pub fn gram(&self, kernel: &Kernel, stop: &AtomicBool) -> Result<Matrix> {
        Ok(self.sums(kernel, 0, stop)?.swap_remove(0))
    }

    /// U and its derivatives with respect to the kernel's parameters in one pass, or U alone if the
    /// derivatives need too much memory. Cost: that of [`gram`](Self::gram), and N²/2 for every parameter.
    ///
    /// # Errors
    /// Those of [`gram`](Self::gram).
    pub fn gram_and_slopes(&self, kernel: &Kernel, stop: &AtomicBool) -> Result<Vec<Matrix>> {
        let (count, blocks) = (kernel.parameters().len(), self.weights.len() / BLOCK + self.bags());
        let numbers = (1 + count).saturating_mul(self.bags()).saturating_mul(self.bags() + blocks);
        self.sums(kernel, if numbers <= KEPT { count } else { 0 }, stop)
    }

    /// U, and its derivatives with respect to `count` parameters (all, or none).
    fn sums(&self, kernel: &Kernel, count: usize, stop: &AtomicBool) -> Result<Vec<Matrix>> {
        let bags = self.bags();
        let start = |bag| vec![0.0; (1 + count) * (bags - bag)];
        let parts = self.for_each_tile((kernel, count), stop, start, |sums, tile| {
            for (sums, total) in sums.chunks_exact_mut(bags - tile.bag).zip(tile.totals()) {
                let entries = tile.bags.iter().zip(tile.counts).zip(total);
                entries.for_each(|((b, count), t)| sums[b - tile.bag] += count * t);
            }
        })?;
        let mut out = vec![Matrix::zeros(bags, bags); 1 + count];
        for (bag, sums) in parts {
            for (out, sums) in out.iter_mut().zip(sums.chunks_exact(bags - bag)) {
                add_to(&mut out.row_mut(bag)[bag..], sums);
            }
        }
        out.iter_mut().for_each(Matrix::mirror_upper);
        Ok(out)
    }

    /// `Σ_bb' weights[b, b'] ∂U[b, b']/∂θ_p` for each of the kernel's parameters θ_p, for a symmetric matrix
    /// of weights (bags × bags). Cost: that of [`gram`](Self::gram), and N²/2 for every parameter.
    ///
    /// # Errors
    /// Those of [`gram`](Self::gram).
    pub fn gradient(&self, kernel: &Kernel, weights: &Matrix, stop: &AtomicBool) -> Result<Vec<f64>> {
        let count = kernel.parameters().len();
        let parts = self.for_each_tile(
            (kernel, count),
            stop,
            |_| vec![0.0; count],
            |sums, tile| {
                let bag_weights = weights.row(tile.bag);
                // Pairs of bags are visited once, so they also represent their mirror images.
                let times = |b: usize| if b == tile.bag { bag_weights[b] } else { 2.0 * bag_weights[b] };
                for (sum, total) in sums.iter_mut().zip(tile.totals().skip(1)) {
                    let entries = tile.bags.iter().zip(tile.counts).zip(total);
                    *sum += entries.map(|((b, count), t)| times(*b) * count * t).sum::<f64>();
                }
            },
        )?;
        Ok(sum_vectors(count, parts.iter().map(|(_, sums)| sums)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Profile, Stationary};
    use crate::linalg::dot;

    /// Cached and recomputed derivatives agree, also for bags larger than blocks and tiles.
    #[test]
    fn slopes_are_the_same_in_one_pass_and_in_two() {
        let value = |i: usize| ((i * 7919) % 1013) as f64 / 500.0;
        let rows: Vec<[f64; 2]> = (0..900).map(|i| [value(2 * i), value(2 * i + 1)]).collect();
        let x = Table::from_rows(&rows).unwrap();
        // Bags have 3 to 700 rows, and one row is in two bags.
        let bag = |i: usize| [0, 1, 2, 2][[3, 110, 200].iter().filter(|end| i >= **end).count()];
        let mut columns = vec![Vec::new(); 3];
        (0..900).for_each(|i| columns[bag(i)].push((i, 0.5 + value(i))));
        columns[0].push((800, 0.7));
        let sums = BagRows::new(&x, &Sparse::from_columns(900, columns).unwrap());
        let joint: Kernel = Stationary {
            profile: Profile::Matern32,
            columns: vec![0, 1],
            lengthscale: vec![0.8, 1.1],
            ard: true,
            isotropic: true,
        }
        .into();
        let (kernel, stop) = (0.7 * joint + Kernel::gaussian(&[0.6, 0.9]), AtomicBool::new(false));
        let gram_and_derivatives = sums.gram_and_slopes(&kernel, &stop).unwrap();
        assert_eq!(
            (gram_and_derivatives.len(), &gram_and_derivatives[0]),
            (7, &sums.gram(&kernel, &stop).unwrap())
        );
        let cotangent = Matrix::from_row_major(3, 3, vec![0.3, -0.2, 0.9, -0.2, 1.1, 0.4, 0.9, 0.4, -0.6]);
        let anew = sums.gradient(&kernel, &cotangent, &stop).unwrap();
        for (slope, derivative) in anew.iter().zip(&gram_and_derivatives[1..]) {
            assert!((slope / dot(cotangent.data(), derivative.data()) - 1.0).abs() < 1e-11, "{slope}");
        }
    }
}

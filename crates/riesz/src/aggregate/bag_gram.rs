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

/// Number of rows of a tile: rows of one bag.
const BLOCK_ROWS: usize = 64;

/// Number of columns of a tile: a few values of each fit into the first-level cache.
const TILE_COLUMNS: usize = 512;

/// Maximum number of values (128 MB) of the derivatives of U, with the partial sums, for which they are
/// computed together with U and kept. Otherwise they are computed again.
const MAX_CACHED_VALUES: usize = 1 << 24;

/// The rows in the order of their bags, once for each of their bags, with their weights in this bag.
pub(super) struct BagRows {
    pub table: Table,
    pub weights: Vec<f64>,
    /// Index of the first row of each bag, and the end of the last bag.
    starts: Vec<usize>,
    /// The bag of each row.
    pub bag: Vec<usize>,
}

/// Sums for a tile of the gram matrix of rows. The rows of the tile are of one bag, its columns of this bag
/// and later ones.
struct GramTile<'t> {
    /// The bag of the rows.
    bag: usize,
    /// The bag of each column.
    bags: &'t [usize],
    /// Weight of each column, doubled if the pair also represents its mirror image within the same bag.
    weights: &'t [f64],
    /// For each column the weighted sum over the rows: of kernel values, then of each derivative.
    column_sums: &'t [f64],
}

impl<'t> GramTile<'t> {
    /// The column sums of the kernel, then of each derivative.
    fn column_sums(&self) -> std::slice::ChunksExact<'t, f64> {
        self.column_sums.chunks_exact(self.weights.len())
    }
}

/// Memory that a thread reuses from tile to tile.
struct TileScratch {
    row: Vec<f64>,
    weights: Vec<f64>,
    column_sums: Vec<f64>,
    scratch: GradientScratch,
}

impl BagRows {
    /// Rows of `x` in bags with the weights P (rows × bags).
    pub fn new(x: &Table, weights: &Sparse) -> Self {
        let (starts, rows, weights) = weights.raw_parts();
        Self::from_parts(x.select_rows(rows), weights.to_vec(), starts.to_vec())
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
    pub fn select_bags(&self, bags: &[usize]) -> Self {
        let rows: Vec<usize> = bags.iter().flat_map(|&b| self.range(b)).collect();
        let ends = bags.iter().scan(0, |end, &b| {
            *end += self.range(b).len();
            Some(*end)
        });
        let starts = [0].into_iter().chain(ends).collect();
        Self::from_parts(self.table.select_rows(&rows), select(&self.weights, &rows), starts)
    }

    /// A sample of about `count` rows, with at least one per bag. The rows are independent draws with
    /// probabilities proportional to the weights. Under their new weights sums over a bag have the same
    /// expectation.
    pub fn sample(&self, count: usize, random: &mut Random) -> Self {
        let (mut rows, mut weights, mut starts) = (Vec::new(), Vec::new(), vec![0]);
        for b in 0..self.bags() {
            let range = self.range(b);
            let sums = cumulative_sums(&self.weights[range.clone()]);
            let total = sums.last().copied().unwrap_or(0.0);
            let draws = (range.len() * count).div_ceil(self.weights.len());
            for _ in 0..draws {
                let threshold = total * random.random::<f64>();
                rows.push(range.start + sums.partition_point(|sum| *sum <= threshold).min(range.len() - 1));
                weights.push(total / draws as f64);
            }
            starts.push(rows.len());
        }
        Self::from_parts(self.table.select_rows(&rows), weights, starts)
    }

    /// Visits the tiles of the upper triangle of pairs of rows, with `count` derivatives (of all parameters,
    /// or none). Returns for each block of rows, in order, its bag and the value that `add_tile`
    /// accumulated over the block's tiles. The result doesn't depend on the number of threads.
    fn for_each_tile<T: Send>(
        &self,
        (kernel, count): (&Kernel, usize),
        stop: &AtomicBool,
        initial: impl Fn(usize) -> T + Sync,
        add_tile: impl Fn(&mut T, &GramTile<'_>) + Sync,
    ) -> Result<Vec<(usize, T)>> {
        let isa = Isa::detect();
        let new_scratch = || TileScratch {
            row: vec![0.0; self.table.width()],
            weights: Vec::new(),
            column_sums: Vec::new(),
            scratch: GradientScratch::for_kernel(kernel),
        };
        let sum_block = |memory: &mut TileScratch, (bag, rows): (usize, Range<usize>)| {
            check_cancelled(stop)?;
            let TileScratch { row, weights, column_sums, scratch } = memory;
            let (mut accumulated, bag_end) = (initial(bag), self.range(bag).end);
            for from in (rows.start..self.weights.len()).step_by(TILE_COLUMNS) {
                let columns = from..self.weights.len().min(from + TILE_COLUMNS);
                let points = Columns::new(self.table.column_major(), self.table.rows(), from, columns.len());
                column_sums.clear();
                column_sums.resize((1 + count) * columns.len(), 0.0);
                for e in rows.clone() {
                    self.table.copy_row(e, row);
                    let out = (&mut column_sums[..], columns.len());
                    kernel.add_value_and_gradient(
                        isa,
                        points,
                        row,
                        [self.weights[e]; 2],
                        count > 0,
                        scratch,
                        out,
                    );
                }
                let multiplicity = |e: usize| if e >= rows.end && e < bag_end { 2.0 } else { 1.0 };
                weights.clear();
                weights.extend(columns.clone().map(|e| multiplicity(e) * self.weights[e]));
                add_tile(&mut accumulated, &GramTile { bag, bags: &self.bag[columns], weights, column_sums });
            }
            Ok((bag, accumulated))
        };
        self.blocks(BLOCK_ROWS).into_par_iter().map_init(new_scratch, sum_block).collect()
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
        let (count, blocks) = (kernel.parameters().len(), self.weights.len() / BLOCK_ROWS + self.bags());
        let value_count = (1 + count).saturating_mul(self.bags()).saturating_mul(self.bags() + blocks);
        self.sums(kernel, if value_count <= MAX_CACHED_VALUES { count } else { 0 }, stop)
    }

    /// U, and its derivatives with respect to `count` parameters (all, or none).
    fn sums(&self, kernel: &Kernel, count: usize, stop: &AtomicBool) -> Result<Vec<Matrix>> {
        let bags = self.bags();
        let initial = |bag| vec![0.0; (1 + count) * (bags - bag)];
        let block_sums = self.for_each_tile((kernel, count), stop, initial, |sums, tile| {
            for (sums, column_sums) in sums.chunks_exact_mut(bags - tile.bag).zip(tile.column_sums()) {
                let columns = tile.bags.iter().zip(tile.weights).zip(column_sums);
                columns.for_each(|((b, weight), sum)| sums[b - tile.bag] += weight * sum);
            }
        })?;
        let mut out = vec![Matrix::zeros(bags, bags); 1 + count];
        for (bag, sums) in block_sums {
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
        let block_gradients = self.for_each_tile(
            (kernel, count),
            stop,
            |_| vec![0.0; count],
            |gradient, tile| {
                let bag_weights = weights.row(tile.bag);
                // Pairs of bags are visited once, so they also represent their mirror images.
                let weight = |b: usize| if b == tile.bag { bag_weights[b] } else { 2.0 * bag_weights[b] };
                for (derivative, column_sums) in gradient.iter_mut().zip(tile.column_sums().skip(1)) {
                    let columns = tile.bags.iter().zip(tile.weights).zip(column_sums);
                    *derivative += columns.map(|((b, w), sum)| weight(*b) * w * sum).sum::<f64>();
                }
            },
        )?;
        Ok(sum_vectors(count, block_gradients.iter().map(|(_, sums)| sums)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Profile, Stationary};
    use crate::linalg::dot;

    /// Cached and recomputed derivatives agree, also for bags larger than blocks and tiles.
    #[test]
    fn cached_and_recomputed_derivatives_agree() {
        let value = |i: usize| ((i * 7919) % 1013) as f64 / 500.0;
        let rows: Vec<[f64; 2]> = (0..900).map(|i| [value(2 * i), value(2 * i + 1)]).collect();
        let x = Table::from_rows(&rows).unwrap();
        // Bags have 3 to 700 rows, and one row is in two bags.
        let bag = |i: usize| [0, 1, 2, 2][[3, 110, 200].iter().filter(|end| i >= **end).count()];
        let mut columns = vec![Vec::new(); 3];
        (0..900).for_each(|i| columns[bag(i)].push((i, 0.5 + value(i))));
        columns[0].push((800, 0.7));
        let bag_rows = BagRows::new(&x, &Sparse::from_columns(900, columns).unwrap());
        let joint: Kernel = Stationary {
            profile: Profile::Matern32,
            columns: vec![0, 1],
            length_scale: vec![0.8, 1.1],
            ard: true,
            isotropic: true,
        }
        .into();
        let (kernel, stop) = (0.7 * joint + Kernel::gaussian(&[0.6, 0.9]), AtomicBool::new(false));
        let gram_and_derivatives = bag_rows.gram_and_slopes(&kernel, &stop).unwrap();
        assert_eq!(
            (gram_and_derivatives.len(), &gram_and_derivatives[0]),
            (7, &bag_rows.gram(&kernel, &stop).unwrap())
        );
        let cotangent = Matrix::from_row_major(3, 3, vec![0.3, -0.2, 0.9, -0.2, 1.1, 0.4, 0.9, 0.4, -0.6]);
        let recomputed = bag_rows.gradient(&kernel, &cotangent, &stop).unwrap();
        for (sum, derivative) in recomputed.iter().zip(&gram_and_derivatives[1..]) {
            assert!((sum / dot(cotangent.data(), derivative.data()) - 1.0).abs() < 1e-11, "{sum}");
        }
    }
}

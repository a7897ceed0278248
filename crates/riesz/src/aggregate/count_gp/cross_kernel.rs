//! Kernel matrix between rows and inducing points, used through sums over its rows. It is kept in memory
//! where it fits, and computed again in each pass otherwise.

use std::ops::Range;

use rayon::prelude::*;

use crate::aggregate::bag_gram::BagRows;
use crate::control::RunControl;
use crate::error::Result;
use crate::kernel::{Columns, GradientScratch, Kernel};
use crate::linalg::{Matrix, add_multiple, add_to, dot, sum_vectors};
use crate::simd::Isa;
use crate::table::Table;

/// The largest number of rows of a bag in one block.
const BLOCK: usize = 256;

/// Largest number of entries for which the matrix is kept (512 MB).
const CACHE_LIMIT: usize = 1 << 26;

/// `K(X, W)` (memberships × points): one row for each membership of a row in a bag, in the order of the bags.
pub(super) struct CrossKernel<'a> {
    pub rows: &'a BagRows,
    pub kernel: &'a Kernel,
    pub points: &'a Table,
    /// The matrix, if it fits into memory.
    cached: Option<Matrix>,
    blocks: Vec<(usize, Range<usize>)>,
    control: RunControl<'a>,
}

impl<'a> CrossKernel<'a> {
    /// Computes the matrix if it fits into memory. Cost: one kernel value for each row and point.
    pub fn new(
        rows: &'a BagRows,
        kernel: &'a Kernel,
        points: &'a Table,
        control: RunControl<'a>,
    ) -> Result<Self> {
        control.check_cancelled()?;
        let fits = rows.weights.len() * points.rows() <= CACHE_LIMIT;
        let cached = fits.then(|| kernel.cross_gram(&rows.table, points));
        Ok(Self { rows, kernel, points, cached, blocks: rows.blocks(BLOCK), control })
    }

    /// Returns the results of `work` for all blocks, in their order. `work` receives the bag of a block, its
    /// rows and their part of the matrix. The results do not depend on the number of threads.
    fn for_each_block<T: Send>(
        &self,
        work: impl Fn(usize, Range<usize>, &[f64]) -> T + Sync,
    ) -> Result<Vec<T>> {
        let (isa, m) = (Isa::detect(), self.points.rows());
        let run_block = |scratch: &mut (Vec<f64>, Vec<f64>, Vec<f64>),
                         (bag, range): &(usize, Range<usize>)| {
            self.control.check_cancelled()?;
            if let Some(matrix) = &self.cached {
                return Ok(work(*bag, range.clone(), &matrix.data()[range.start * m..range.end * m]));
            }
            let (values, row_values, buffer) = scratch;
            values.resize(range.len() * m, 0.0);
            row_values.resize(self.rows.table.width(), 0.0);
            for (row, out) in range.clone().zip(values.chunks_exact_mut(m)) {
                self.rows.table.copy_row(row, row_values);
                self.kernel.row(isa, Columns::from_row(self.points, 0), row_values, buffer, out);
            }
            Ok(work(*bag, range.clone(), values))
        };
        self.blocks.par_iter().map_init(Default::default, run_block).collect()
    }

    /// Returns `shift + K alpha`, one value per row of K.
    pub fn latent_values(&self, shift: f64, alpha: &[f64]) -> Result<Vec<f64>> {
        self.for_each_row(|_, row| shift + dot(row, alpha))
    }

    /// Returns the value of `work` for each row of K, which it receives with its bag.
    fn for_each_row(&self, work: impl Fn(usize, &[f64]) -> f64 + Sync) -> Result<Vec<f64>> {
        let block_values = |bag: usize, _, block: &[f64]| -> Vec<f64> {
            block.chunks_exact(self.points.rows()).map(|row| work(bag, row)).collect()
        };
        Ok(self.for_each_block(block_values)?.concat())
    }

    /// Returns the weighted sum of the rows of K in each bag (bags × points).
    pub fn bag_sums(&self, weights: &[f64]) -> Result<Matrix> {
        let m = self.points.rows();
        let block_sums = self.for_each_block(|bag, range, block| {
            let mut sum = vec![0.0; m];
            weights[range]
                .iter()
                .zip(block.chunks_exact(m))
                .for_each(|(w, row)| add_multiple(&mut sum, *w, row));
            (bag, sum)
        })?;
        let mut out = Matrix::zeros(self.rows.bags(), m);
        block_sums.iter().for_each(|(bag, sum)| add_to(out.row_mut(*bag), sum));
        Ok(out)
    }

    /// Returns the inner product of each row of K with the row of `bag_vectors` (bags × points) for its bag.
    pub fn row_dots(&self, bag_vectors: &Matrix) -> Result<Vec<f64>> {
        self.for_each_row(|bag, row| dot(row, bag_vectors.row(bag)))
    }

    /// Returns `Kᵀ(w d)` and `Σ w d` for `d = shift + K alpha` and weights w of the rows, in one pass.
    pub fn weighted_products(&self, weights: &[f64], shift: f64, alpha: &[f64]) -> Result<(Vec<f64>, f64)> {
        let m = alpha.len();
        let block_products = self.for_each_block(|_, range, block| {
            let (mut sum, mut block_total) = (vec![0.0; m], 0.0);
            for (w, row) in weights[range].iter().zip(block.chunks_exact(m)) {
                let d = w * (shift + dot(row, alpha));
                add_multiple(&mut sum, d, row);
                block_total += d;
            }
            (sum, block_total)
        })?;
        let mut total = (vec![0.0; m], 0.0);
        for (sum, block_total) in &block_products {
            add_to(&mut total.0, sum);
            total.1 += block_total;
        }
        Ok(total)
    }

    /// Returns `Σ_ij G_ij ∂K_ij/∂θ_p` for each parameter θ_p of the kernel. Row i of G (memberships ×
    /// points), in bag b, is `row_factors_i bag_vectors_b + Σ_k coefficients_ki vectors_k`, where
    /// `rank_one_terms` are the two pairs `(coefficients_k, vectors_k)`.
    pub fn gradient(
        &self,
        row_factors: &[f64],
        bag_vectors: &Matrix,
        rank_one_terms: [(&[f64], &[f64]); 2],
    ) -> Result<Vec<f64>> {
        let (isa, count) = (Isa::detect(), self.kernel.parameters().len());
        let block_gradient = |(weights, scratch): &mut (Vec<f64>, GradientScratch),
                              (bag, range): &(usize, Range<usize>)| {
            self.control.check_cancelled()?;
            let mut sums = vec![0.0; count];
            for row in range.clone() {
                weights.clear();
                weights.extend(bag_vectors.row(*bag).iter().map(|r| row_factors[row] * r));
                rank_one_terms.iter().for_each(|(c, vector)| add_multiple(weights, c[row], vector));
                let (points, v) = (Columns::from_row(self.points, 0), self.rows.table.row(row));
                self.kernel.add_gradient(isa, points, &v, weights, None, scratch, &mut sums);
            }
            Ok(sums)
        };
        let new_scratch = || (Vec::new(), GradientScratch::for_kernel(self.kernel));
        let block_gradients = self.blocks.par_iter().map_init(new_scratch, block_gradient);
        Ok(sum_vectors(count, &block_gradients.collect::<Result<Vec<Vec<f64>>>>()?))
    }
}

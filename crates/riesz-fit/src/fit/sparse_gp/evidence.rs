//! The lower bound of the evidence of a sparse Gaussian process and its gradient. Each takes one pass over
//! blocks of the n rows: the n × m kernel matrix is never stored.

use std::ops::Range;

use rayon::prelude::*;

use super::collapsed_bound::{BoundAdjoint, CollapsedBound};
use super::sufficient_statistics::{KernelSums, WhitenedSums};
use crate::control::RunControl;
use crate::error::Result;
use crate::gp::whitened_inducing::WhitenedInducing;
use crate::kernel::{Columns, GradientScratch, Kernel};
use crate::linalg::{Matrix, add_to, dot};
use crate::simd::Isa;
use crate::table::Table;

/// Kernel values of a block between rows and points (8 MB), unless points are so many that a block of minimal
/// size has more.
const BLOCK_BYTES: usize = 1 << 20;

/// Number of rows whose gradients one parallel task sums up.
const ROWS_PER_TASK: usize = 32;

/// The data of a sparse Gaussian process.
#[derive(Clone, Copy)]
pub(super) struct SparseData<'a> {
    pub x: &'a Table,
    /// The scaled targets, rows × targets.
    pub y: &'a Matrix,
    /// Known error variances of single rows, in addition to the noise.
    pub own_noise: Option<&'a [f64]>,
    /// The inducing points.
    pub points: &'a Table,
    pub control: RunControl<'a>,
}

/// A block of rows.
struct DataBlock {
    x: Table,
    y: Matrix,
    /// `σ²/(σ² + own noise)` of each row.
    weights: Vec<f64>,
}

impl SparseData<'_> {
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let (n, size) = (
            self.x.rows(),
            (BLOCK_BYTES / self.points.rows().max(1)).next_multiple_of(ROWS_PER_TASK).max(8 * ROWS_PER_TASK),
        );
        (0..n).step_by(size).map(move |start| start..n.min(start + size))
    }

    fn block(&self, rows: Range<usize>, noise: f64) -> DataBlock {
        let indices: Vec<usize> = rows.clone().collect();
        let weight = |i: usize| self.own_noise.map_or(1.0, |row_noise| noise / (noise + row_noise[i]));
        DataBlock {
            x: self.x.select_rows(&indices),
            y: self.y.select_rows(&indices),
            weights: rows.map(weight).collect(),
        }
    }

    /// Computes the bound at a kernel and noise. For n rows of d columns and m points the cost is O(n m (d +
    /// m) + m³), and the memory O(m²) in addition to a block.
    pub fn collapsed(&self, kernel: &Kernel, noise: f64) -> Result<CollapsedBound> {
        let points = WhitenedInducing::new(kernel, self.points)?;
        let mut statistics = WhitenedSums(KernelSums::zeros(self.points.rows(), self.y.cols()));
        for rows in self.blocks() {
            self.control.check_cancelled()?;
            let DataBlock { x, mut y, weights } = self.block(rows, noise);
            let mut whitened = kernel.cross_gram(&x, self.points);
            // Kernel values are whitened before summation, because sums lose the digits that whitening needs.
            points.factor.solve_lower_right(&mut whitened);
            let prior = dot(&kernel.diagonal(&x), &weights);
            let mut logs = 0.0;
            for (i, w) in weights.iter().enumerate().filter(|(_, w)| **w != 1.0) {
                let root = w.sqrt();
                whitened.row_mut(i).iter_mut().chain(y.row_mut(i)).for_each(|v| *v *= root);
                logs += w.ln();
            }
            statistics.add(&whitened, &y, prior, logs);
        }
        CollapsedBound::new(points, statistics, noise)
    }

    /// Computes the gradient of the bound in the kernel's parameters and the logarithm of the noise. Cost O(n
    /// m (d + m) + m³), and O(n m) for each parameter.
    pub fn gradient(&self, kernel: &Kernel, noise: f64, bound: &CollapsedBound) -> Result<Vec<f64>> {
        let BoundAdjoint { rows: adjoint, points } = bound.adjoint();
        let count = kernel.parameters().len();
        let mut gradient = bound.points.gram_gradient(kernel, self.points, points);
        gradient.push(0.0);
        for rows in self.blocks() {
            self.control.check_cancelled()?;
            let block = self.block(rows, noise);
            let cross = kernel.cross_gram(&block.x, self.points);
            let means = cross.matmul(&bound.alpha);
            let mut slopes = cross.matmul(&adjoint);
            let t = self.y.cols() as f64;
            let chunks = slopes.data_mut().par_chunks_mut(ROWS_PER_TASK * self.points.rows()).enumerate();
            let gradient_of_chunk = |scratch: &mut GradientScratch, (chunk, slopes): (usize, &mut [f64])| {
                let isa = Isa::detect();
                let mut sums = vec![0.0; count + 1];
                for (i, row_gradient) in slopes.chunks_exact_mut(self.points.rows()).enumerate() {
                    let i = chunk * ROWS_PER_TASK + i;
                    let (row, y, mean) = (block.x.row(i), block.y.row(i), means.row(i));
                    let prior = kernel.eval(&row, &row);
                    // The expected squared error: the squared error of the mean, plus t times the variance of
                    // f.
                    let error = dot(y, y) - 2.0 * dot(y, mean) + t * prior - dot(cross.row(i), row_gradient);
                    let precision = block.weights[i] / noise;
                    sums[count] += 0.5 * noise * precision * (error * precision - t);
                    for (o, y) in y.iter().enumerate() {
                        row_gradient.iter_mut().enumerate().for_each(|(j, v)| *v += y * bound.alpha[(j, o)]);
                    }
                    row_gradient.iter_mut().for_each(|v| *v *= precision);
                    let all_points = Columns::from_row(self.points, 0);
                    kernel.add_gradient(
                        isa,
                        all_points,
                        &row,
                        row_gradient,
                        Some(cross.row(i)),
                        scratch,
                        &mut sums[..count],
                    );
                    let row_columns = Columns::new(&row, 1, 0, 1);
                    let prior_weight = [-0.5 * t * precision];
                    kernel.add_gradient(
                        isa,
                        row_columns,
                        &row,
                        &prior_weight,
                        Some(&[prior]),
                        scratch,
                        &mut sums[..count],
                    );
                }
                sums
            };
            // The sums are added in the order of the rows, so that they do not depend on the number of
            // threads.
            let sums: Vec<Vec<f64>> =
                chunks.map_init(|| GradientScratch::for_kernel(kernel), gradient_of_chunk).collect();
            sums.iter().for_each(|sums| add_to(&mut gradient, sums));
        }
        Ok(gradient)
    }
}

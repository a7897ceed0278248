//! The residual pass: residuals of a solution as integers. Products of the kernel with the residuals correct
//! the solution, and bound its distance from the solution in exact arithmetic.

use rayon::prelude::*;

use super::coefficients::Coefficients;
use super::parts::add_lists;
use super::pass_sums::PassSums;
use super::plan::FitPlan;
use super::rows::LabelledRows;
use super::statistics::{FixedPointRows, join_slices};
use crate::error::{Error, Result};
use crate::kernel::{Columns, FixedRows};
use crate::linalg::exact_gram::{FRACTION_BITS, UNIT, nearest, sliced_products, split_high_low};
use crate::linalg::{Matrix, sum_vectors};
use crate::simd::{Isa, Simd, dispatch};
use crate::table::Table;

/// Number of rows in a block, whose kernel values with landmarks stay in the cache.
const ROW_BLOCK: usize = 128;
/// Number of landmarks whose products are added up before these sums are added.
const LANDMARK_BLOCK: usize = 64;

/// Writes the kernel values of `n` rows of `x`, from `start` on, with the landmarks to `block`, column by
/// column, and returns predictions, target by target. Products are added up for 64 landmarks at a time, and
/// then these sums, so the result doesn't depend on the other rows.
pub(super) fn predictions(
    landmarks: &FixedRows<'_>,
    x: &Table,
    (start, n): (usize, usize),
    theta: &Matrix,
    block: &mut Vec<f64>,
) -> Vec<f64> {
    let (m, t, isa) = (theta.rows() - 1, theta.cols(), Isa::detect());
    let laid = landmarks.lay(Columns::new(x.column_major(), x.rows(), start, n));
    block.resize(n * m, 0.0);
    let runs: Vec<Vec<f64>> = block
        .par_chunks_mut(n * LANDMARK_BLOCK)
        .enumerate()
        .map(|(run, kernel_block)| {
            let mut partial_predictions = vec![0.0; n * t];
            landmarks.tile(&laid, run * LANDMARK_BLOCK, kernel_block.len() / n, kernel_block);
            for (k, column) in kernel_block.chunks(n).enumerate() {
                for (o, predictions_of_target) in partial_predictions.chunks_mut(n).enumerate() {
                    add_column(isa, theta[(run * LANDMARK_BLOCK + k, o)], column, predictions_of_target);
                }
            }
            partial_predictions
        })
        .collect();
    let mut sums = sum_vectors(n * t, &runs);
    (0..t).for_each(|o| sums[o * n..(o + 1) * n].iter_mut().for_each(|v| *v += theta[(m, o)]));
    sums
}

dispatch! {
    fn add_column<V: Simd>(coef: f64, column: &[f64], prediction: &mut [f64]) {
        for (s, k) in prediction.iter_mut().zip(column) {
            *s += coef * k;
        }
    }
}

/// Sums over the rows of one thread.
struct ThreadSums {
    /// The lists of a [`ResidualPass`].
    lists: [Vec<i128>; 3],
    /// The first row whose residual is too large.
    too_large_row: Option<usize>,
    /// Memory for kernel values.
    block: Vec<f64>,
}

impl ThreadSums {
    fn joined(mut self, other: Self) -> Self {
        add_lists(&mut self.lists, &other.lists);
        self.too_large_row = self.too_large_row.into_iter().chain(other.too_large_row).min();
        self
    }

    /// Adds the rows from `start` on, with the given predictions and kernel values.
    fn add(
        &mut self,
        plan: &FitPlan,
        scaled: &FixedPointRows,
        start: usize,
        predictions: &[f64],
        block: &[f64],
    ) {
        let [cross, squares, weight] = &mut self.lists;
        let (t, isa) = (squares.len(), Isa::detect());
        let n = predictions.len() / t;
        // Three slices per residual, target by target. The first slice is 0 unless a residual is larger than
        // all targets.
        let mut slices = vec![0.0; 3 * n * t];
        for i in 0..n {
            let (row, root) = (start + i, scaled.root(start + i));
            let root_integer = nearest(root * UNIT) as i128;
            weight[0] += root_integer * root_integer;
            for o in 0..t {
                let left =
                    (scaled.targets[row * t + o] - predictions[o * n + i] / plan.targets[o].unit) * root;
                if left.is_nan() || left.abs() > UNIT {
                    self.too_large_row = Some(self.too_large_row.map_or(row, |first| first.min(row)));
                    return;
                }
                let first = nearest(left);
                let (second, third) = split_high_low((left - first) * UNIT);
                for (s, slice) in [first, second, third].into_iter().enumerate() {
                    slices[(3 * o + s) * n + i] = slice;
                }
                let residual_integer = join_slices(first, second);
                squares[o] += residual_integer * residual_integer;
            }
        }
        let slice = |o: usize, s: usize| &slices[(3 * o + s) * n..][..n];
        let has_first_slice: Vec<bool> = (0..t).map(|o| slice(o, 0).iter().any(|v| *v != 0.0)).collect();
        let (scale, roots) = (UNIT / plan.bound, scaled.roots(start, n));
        let constant = vec![plan.bound; n];
        for (kernel_column, sums) in block.chunks(n).chain([&constant[..]]).zip(cross.chunks_mut(t)) {
            let products_with = |first: &[f64], second: &[f64]| {
                let [a, b] = sliced_products(isa, kernel_column, scale, roots, [first, second]);
                (join_slices(a.0, a.1), join_slices(b.0, b.1))
            };
            for (o, sum) in sums.iter_mut().enumerate() {
                let first = if has_first_slice[o] { products_with(slice(o, 0), slice(o, 0)).0 } else { 0 };
                let (second, third) = products_with(slice(o, 1), slice(o, 2));
                *sum += (first << (2 * FRACTION_BITS)) + (second << FRACTION_BITS) + third;
            }
        }
    }
}

/// Residual sums of the rows of some units: `Σ k e`, the targets of the first landmark and then those of the
/// next one; `Σ e²` of each target; and the sum of the weights, relative to the largest weight.
#[derive(Debug, Clone, PartialEq)]
pub struct ResidualPass(pub(super) PassSums);

impl ResidualPass {
    /// Residual sums of no rows.
    pub fn empty(plan: &FitPlan, coefficients: &Coefficients) -> Self {
        let (p, t) = (plan.size(), plan.targets.len());
        Self(PassSums::residual(plan, coefficients, [vec![0; p * t], vec![0; t], vec![0]]))
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.0.record.rows
    }

    /// Assigns the rows that were added so far to a unit.
    pub fn of_unit(mut self, unit: u64) -> Self {
        self.0.set_unit(unit);
        self
    }

    /// Adds rows. Cost O(rows landmarks columns).
    ///
    /// # Errors
    /// Those of [`Accumulator::add`](super::Accumulator::add); [`Error::Overflow`] for residuals of more than
    /// a million times the targets.
    pub fn add(&mut self, plan: &FitPlan, coefficients: &Coefficients, rows: &LabelledRows) -> Result<()> {
        let scaled = plan.scaled(rows)?;
        let landmarks = plan.anchors();
        let run = |mut sums: ThreadSums, start: usize| {
            let n = ROW_BLOCK.min(rows.len() - start);
            let mut block = std::mem::take(&mut sums.block);
            let row_predictions =
                predictions(&landmarks, &scaled.x, (start, n), &coefficients.values, &mut block);
            sums.add(plan, &scaled, start, &row_predictions, &block);
            sums.block = block;
            sums
        };
        let starts = (0..rows.len()).into_par_iter().step_by(ROW_BLOCK);
        let lists = &mut self.0.lists;
        let lengths = lists.each_ref().map(Vec::len);
        let none = || {
            let lists = lengths.map(|length| vec![0; length]);
            ThreadSums { lists, too_large_row: None, block: Vec::new() }
        };
        let thread_sums = starts.fold(none, run).reduce(none, ThreadSums::joined);
        if let Some(row) = thread_sums.too_large_row {
            return Err(Error::overflow(
                format!("the residual of row {}", row + 1),
                "raise the ridge, or take fewer landmarks",
            ));
        }
        add_lists(lists, &thread_sums.lists);
        self.0.record.rows += rows.len() as u64;
        Ok(())
    }

    /// `Σ k e` ((landmarks and constant) × targets), `Σ e²` and the sum of the weights, in the units of
    /// kernel, targets and weights.
    pub(super) fn sums(&self, plan: &FitPlan) -> (Matrix, Vec<f64>, f64) {
        let [cross_sums, square_sums, weight_sum] = &self.0.lists;
        let (p, t, weight) = (plan.size(), plan.targets.len(), plan.largest_weight.unwrap_or(1.0));
        let step = 0.5_f64.powi(4 * FRACTION_BITS) * weight;
        let cross_value =
            |k: usize| cross_sums[k] as f64 * step * plan.feature_bound(k / t) * plan.targets[k % t].unit;
        let cross = Matrix::from_row_major(p, t, (0..p * t).map(cross_value).collect());
        let step = 0.5_f64.powi(2 * FRACTION_BITS) * weight;
        let squares = (0..t).map(|o| square_sums[o] as f64 * step * plan.targets[o].unit.powi(2));
        (cross, squares.collect(), weight_sum[0] as f64 * step)
    }
}

//! The residual pass: what a solution leaves of the targets, as integers. Products of the kernel with
//! residuals bound the distance of the solution from that of exact arithmetic, and correct it.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::parts::{decode, digest, encode};
use super::plan::FitPlan;
use super::rows::LabelledRows;
use super::statistics::{FixedPointRows, join_slices};
use crate::error::{Error, Result};
use crate::kernel::Columns;
use crate::linalg::Matrix;
use crate::linalg::exact_gram::{FRACTION_BITS, UNIT, nearest, sliced_products, split_high_low};
use crate::simd::{Isa, Simd, dispatch};

/// Rows at a time, whose kernels with landmarks stay in the cache.
const ROW_BLOCK: usize = 128;
/// Landmarks at a time, of which predictions are summed up before these sums are.
const LANDMARK_BLOCK: usize = 64;

/// Kernels of `n` rows with landmarks, column by column in `block`, and what coefficients say of the rows,
/// target by target: sums of 64 landmarks, and then of these, whatever other rows there are.
/// `kernels(from, count, out)` are those with some landmarks.
pub(super) fn predictions(
    n: usize,
    kernels: impl Fn(usize, usize, &mut [f64]) + Sync,
    theta: &Matrix,
    block: &mut Vec<f64>,
) -> Vec<f64> {
    let (m, t, isa) = (theta.rows() - 1, theta.cols(), Isa::detect());
    block.resize(n * m, 0.0);
    let runs: Vec<Vec<f64>> = block
        .par_chunks_mut(n * LANDMARK_BLOCK)
        .enumerate()
        .map(|(run, kernel_block)| {
            let mut partial_predictions = vec![0.0; n * t];
            kernels(run * LANDMARK_BLOCK, kernel_block.len() / n, kernel_block);
            for (k, column) in kernel_block.chunks(n).enumerate() {
                for (o, predictions_of_target) in partial_predictions.chunks_mut(n).enumerate() {
                    add_times(isa, theta[(run * LANDMARK_BLOCK + k, o)], column, predictions_of_target);
                }
            }
            partial_predictions
        })
        .collect();
    let mut sums = vec![0.0; n * t];
    runs.iter().for_each(|run| sums.iter_mut().zip(run).for_each(|(sum, partial_sum)| *sum += partial_sum));
    (0..t).for_each(|o| sums[o * n..(o + 1) * n].iter_mut().for_each(|v| *v += theta[(m, o)]));
    sums
}

#[inline(always)]
fn add_times_body<V: Simd>(coef: f64, column: &[f64], prediction: &mut [f64]) {
    for (s, k) in prediction.iter_mut().zip(column) {
        *s += coef * k;
    }
}

dispatch! {
    fn add_times(coef: f64, column: &[f64], prediction: &mut [f64]) = add_times_body::<V>
}

/// Coefficients of the landmarks and of a constant, in the units of the kernel and of the centred targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    /// Coefficients: (landmarks and constant) × targets.
    pub values: Matrix,
    /// Whether a pass at these coefficients also computes the curvature of classes, which takes most of its
    /// time.
    pub curvature: bool,
}

impl Coefficients {
    /// Coefficients at which a pass computes no curvature.
    pub fn new(values: Matrix) -> Self {
        Self { values, curvature: false }
    }

    /// A name: SHA-256 of the contents.
    pub fn digest(&self) -> String {
        let mut bytes: Vec<u8> = self.values.data().iter().flat_map(|v| v.to_le_bytes()).collect();
        bytes.push(u8::from(self.curvature));
        digest(&bytes)
    }

    /// The bytes of the coefficients as a file in JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// From a file.
    ///
    /// # Errors
    /// [`Error::Format`] for another file, or coefficients of another plan's size.
    pub fn from_bytes(plan: &FitPlan, bytes: &[u8]) -> Result<Self> {
        let problem = |problem: String| Error::Format { problem };
        let parsed: Self =
            serde_json::from_slice(bytes).map_err(|e| problem(format!("these are no coefficients: {e}")))?;
        if parsed.values.rows() != plan.size()
            || parsed.values.cols() != plan.targets.len()
            || parsed.values.data().len() != plan.size() * plan.targets.len()
        {
            return Err(problem("these coefficients are of another plan".into()));
        }
        Ok(parsed)
    }
}

/// Sums over some rows, by one thread.
struct ThreadSums {
    cross: Vec<i128>,
    squares: Vec<i128>,
    weight: i128,
    /// The first row whose residual is too large.
    too_large_row: Option<usize>,
    /// Room for kernels.
    block: Vec<f64>,
}

impl ThreadSums {
    fn new(cross: usize, targets: usize) -> Self {
        let (cross, squares) = (vec![0; cross], vec![0; targets]);
        Self { cross, squares, weight: 0, too_large_row: None, block: Vec::new() }
    }

    fn joined(mut self, other: Self) -> Self {
        for (sums, other) in [(&mut self.cross, &other.cross), (&mut self.squares, &other.squares)] {
            sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        }
        self.weight += other.weight;
        self.too_large_row = self.too_large_row.into_iter().chain(other.too_large_row).min();
        self
    }

    /// Adds the rows from `start` on, whose predictions and kernel values are given.
    fn add(
        &mut self,
        plan: &FitPlan,
        scaled: &FixedPointRows,
        start: usize,
        predictions: &[f64],
        block: &[f64],
    ) {
        let (t, isa) = (self.squares.len(), Isa::detect());
        let n = predictions.len() / t;
        // Three slices a residual, target by target: the first is nothing unless it is larger than any
        // target.
        let mut slices = vec![0.0; 3 * n * t];
        for i in 0..n {
            let (row, root) = (start + i, scaled.root(start + i));
            let root_integer = nearest(root * UNIT) as i128;
            self.weight += root_integer * root_integer;
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
                self.squares[o] += residual_integer * residual_integer;
            }
        }
        let slice = |o: usize, s: usize| &slices[(3 * o + s) * n..][..n];
        let coarse: Vec<bool> = (0..t).map(|o| slice(o, 0).iter().any(|v| *v != 0.0)).collect();
        let (scale, roots) = (UNIT / plan.bound, scaled.roots(start, n));
        let constant = vec![plan.bound; n];
        for (kernel_column, sums) in block.chunks(n).chain([&constant[..]]).zip(self.cross.chunks_mut(t)) {
            let with = |first: &[f64], second: &[f64]| {
                let [a, b] = sliced_products(isa, kernel_column, scale, roots, [first, second]);
                (join_slices(a.0, a.1), join_slices(b.0, b.1))
            };
            for (o, sum) in sums.iter_mut().enumerate() {
                let first = if coarse[o] { with(slice(o, 0), slice(o, 0)).0 } else { 0 };
                let (second, third) = with(slice(o, 1), slice(o, 2));
                *sum += (first << (2 * FRACTION_BITS)) + (second << FRACTION_BITS) + third;
            }
        }
    }
}

/// Residual sums of the rows of some units.
#[derive(Debug, Clone, PartialEq)]
pub struct ResidualPass {
    plan: String,
    coefficients: String,
    targets: usize,
    units: BTreeSet<u64>,
    /// The number of rows.
    rows: u64,
    /// `Σ k e`, landmark by landmark, then target.
    cross: Vec<i128>,
    /// `Σ e²`.
    squares: Vec<i128>,
    /// The sum of the rows' weights, relative to the largest.
    weight: i128,
}

#[derive(Serialize, Deserialize)]
struct Record {
    residual: String,
    coefficients: String,
    targets: usize,
    units: BTreeSet<u64>,
    rows: u64,
}

impl ResidualPass {
    /// Residual sums of no rows.
    pub fn empty(plan: &FitPlan, coefficients: &Coefficients) -> Self {
        let (p, t) = (plan.size(), plan.targets.len());
        Self {
            plan: plan.digest(),
            coefficients: coefficients.digest(),
            targets: t,
            units: BTreeSet::new(),
            rows: 0,
            cross: vec![0; p * t],
            squares: vec![0; t],
            weight: 0,
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The units whose rows it counts.
    pub fn units(&self) -> &BTreeSet<u64> {
        &self.units
    }

    /// Says of which unit the rows are that were added so far.
    pub fn of_unit(mut self, unit: u64) -> Self {
        self.units = BTreeSet::from([unit]);
        self
    }

    /// Adds rows. Cost O(rows landmarks columns).
    ///
    /// # Errors
    /// As [`Accumulator::add`](super::Accumulator::add); [`Error::Overflow`] for residuals of more than a
    /// million times the targets.
    pub fn add(&mut self, plan: &FitPlan, coefficients: &Coefficients, rows: &LabelledRows) -> Result<()> {
        let x = rows.x.align_to(plan.landmarks.columns())?;
        let scaled = plan.scaled(rows)?;
        let landmarks = plan.anchors();
        let run = |mut sums: ThreadSums, start: usize| {
            let n = ROW_BLOCK.min(rows.len() - start);
            let features = Columns::new(x.column_major(), x.rows(), start, n);
            let mut block = std::mem::take(&mut sums.block);
            let laid = landmarks.lay(features);
            let kernels =
                |from: usize, count: usize, out: &mut [f64]| landmarks.tile(&laid, from, count, out);
            let row_predictions = predictions(n, kernels, &coefficients.values, &mut block);
            sums.add(plan, &scaled, start, &row_predictions, &block);
            sums.block = block;
            sums
        };
        let starts = (0..rows.len()).into_par_iter().step_by(ROW_BLOCK);
        let none = || ThreadSums::new(self.cross.len(), self.squares.len());
        let thread_sums = starts.fold(none, run).reduce(none, ThreadSums::joined);
        if let Some(row) = thread_sums.too_large_row {
            let subject = format!("the residual of row {}", row + 1);
            return Err(Error::Overflow { subject, remedy: "raise the ridge, or take fewer landmarks" });
        }
        for (sums, new) in [(&mut self.cross, &thread_sums.cross), (&mut self.squares, &thread_sums.squares)]
        {
            sums.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
        }
        self.weight += thread_sums.weight;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Adds the sums of other units.
    ///
    /// # Errors
    /// [`Error::Format`] if it is of another plan or other coefficients, or a unit is in both.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if (&self.plan, &self.coefficients) != (&other.plan, &other.coefficients) {
            return Err(Error::Format {
                problem: "these residuals are of another plan or of other coefficients".into(),
            });
        }
        if let Some(twice) = self.units.intersection(&other.units).next() {
            return Err(Error::Format {
                problem: format!("unit {twice} is in both residuals, and its rows would count twice"),
            });
        }
        self.units.extend(&other.units);
        self.rows += other.rows;
        self.cross.iter_mut().zip(&other.cross).for_each(|(sum, other)| *sum += other);
        self.squares.iter_mut().zip(&other.squares).for_each(|(sum, other)| *sum += other);
        self.weight += other.weight;
        Ok(())
    }

    /// The bytes of the sums, without the units that they consist of.
    #[cfg(test)]
    pub(super) fn sums_bytes(&self) -> Vec<u8> {
        format!("{} {:?} {:?} {}", self.rows, self.cross, self.squares, self.weight).into_bytes()
    }

    /// The bytes of the sums as a file. Equal residuals have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let record = Record {
            residual: self.plan.clone(),
            coefficients: self.coefficients.clone(),
            targets: self.targets,
            units: self.units.clone(),
            rows: self.rows,
        };
        encode(&record, &[&self.cross, &self.squares, &[self.weight]])
    }

    /// Reads a file of residuals for this plan and these coefficients.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of others.
    pub fn from_bytes(plan: &FitPlan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        let (record, numbers) = decode::<Record>(bytes, "residuals")?;
        let mut residual = Self::empty(plan, coefficients);
        let t = residual.targets;
        let expected = (&residual.plan, &residual.coefficients, t);
        if (&record.residual, &record.coefficients, record.targets) != expected
            || numbers.len() != residual.cross.len() + residual.targets + 1
        {
            return Err(Error::Format {
                problem: "these residuals are of another plan or of other coefficients".into(),
            });
        }
        let (cross, squares_and_weight) = numbers.split_at(residual.cross.len());
        (residual.cross, residual.squares, residual.weight) =
            (cross.to_vec(), squares_and_weight[..t].to_vec(), squares_and_weight[t]);
        (residual.units, residual.rows) = (record.units, record.rows);
        Ok(residual)
    }

    /// `Σ k e` (landmarks and constant × targets), `Σ e²`, and the sum of weights, in the units of kernel and
    /// targets, with weights.
    pub(super) fn sums(&self, plan: &FitPlan) -> (Matrix, Vec<f64>, f64) {
        let (p, t, weight) = (plan.size(), self.targets, plan.largest_weight.unwrap_or(1.0));
        let unit = |j: usize| if j + 1 < p { plan.bound } else { 1.0 };
        let step = 0.5_f64.powi(4 * FRACTION_BITS) * weight;
        let cross_value = |k: usize| self.cross[k] as f64 * step * unit(k / t) * plan.targets[k % t].unit;
        let cross = Matrix::from_row_major(p, t, (0..p * t).map(cross_value).collect());
        let step = 0.5_f64.powi(2 * FRACTION_BITS) * weight;
        let squares = (0..t).map(|o| self.squares[o] as f64 * step * plan.targets[o].unit.powi(2));
        (cross, squares.collect(), self.weight as f64 * step)
    }
}

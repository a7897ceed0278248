//! A second pass: what a solution leaves of the targets, as whole numbers. Products of the kernel with
//! residuals say how far the solution is from the one without rounding, and correct it.

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
use crate::linalg::exact_gram::{FRACTION_BITS, ONE, nearest, sliced_products, split_high_low};
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
        .map(|(run, own)| {
            let mut said = vec![0.0; n * t];
            kernels(run * LANDMARK_BLOCK, own.len() / n, own);
            for (k, column) in own.chunks(n).enumerate() {
                for (o, said) in said.chunks_mut(n).enumerate() {
                    add_times(isa, theta[(run * LANDMARK_BLOCK + k, o)], column, said);
                }
            }
            said
        })
        .collect();
    let mut all = vec![0.0; n * t];
    runs.iter().for_each(|run| all.iter_mut().zip(run).for_each(|(all, own)| *all += own));
    (0..t).for_each(|o| all[o * n..(o + 1) * n].iter_mut().for_each(|v| *v += theta[(m, o)]));
    all
}

#[inline(always)]
fn add_times_body<V: Simd>(coef: f64, column: &[f64], said: &mut [f64]) {
    for (s, k) in said.iter_mut().zip(column) {
        *s += coef * k;
    }
}

dispatch! {
    fn add_times(coef: f64, column: &[f64], said: &mut [f64]) = add_times_body::<V>
}

/// Coefficients of landmarks and of a constant, in the units of kernel and targets less their centres.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    /// Landmarks and constant × targets.
    pub values: Matrix,
    /// Whether a pass at them is to sum up the curvature of classes too, which takes most of its time.
    pub curvature: bool,
}

impl Coefficients {
    /// At which a pass sums up no curvature.
    pub fn new(values: Matrix) -> Self {
        Self { values, curvature: false }
    }

    /// A name: SHA-256 of what they are.
    pub fn digest(&self) -> String {
        let mut all: Vec<u8> = self.values.data().iter().flat_map(|v| v.to_le_bytes()).collect();
        all.push(u8::from(self.curvature));
        digest(&all)
    }

    /// As a file: JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// From a file.
    ///
    /// # Errors
    /// [`Error::Format`] for another file, or coefficients of another plan's size.
    pub fn from_bytes(plan: &FitPlan, bytes: &[u8]) -> Result<Self> {
        let problem = |problem: String| Error::Format { problem };
        let all: Self =
            serde_json::from_slice(bytes).map_err(|e| problem(format!("these are no coefficients: {e}")))?;
        if all.values.rows() != plan.size()
            || all.values.cols() != plan.targets.len()
            || all.values.data().len() != plan.size() * plan.targets.len()
        {
            return Err(problem("these coefficients are of another plan".into()));
        }
        Ok(all)
    }
}

/// Sums over some rows, by one thread.
struct ThreadSums {
    cross: Vec<i128>,
    squares: Vec<i128>,
    weight: i128,
    /// The first row whose residual is too large.
    beyond: Option<usize>,
    /// Room for kernels.
    block: Vec<f64>,
}

impl ThreadSums {
    fn new(cross: usize, targets: usize) -> Self {
        let (cross, squares) = (vec![0; cross], vec![0; targets]);
        Self { cross, squares, weight: 0, beyond: None, block: Vec::new() }
    }

    fn joined(mut self, other: Self) -> Self {
        for (own, other) in [(&mut self.cross, &other.cross), (&mut self.squares, &other.squares)] {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        self.weight += other.weight;
        self.beyond = self.beyond.into_iter().chain(other.beyond).min();
        self
    }

    /// Adds the rows from `start` on of which predictions are `said`, and kernels `block`.
    fn add(&mut self, plan: &FitPlan, scaled: &FixedPointRows, start: usize, said: &[f64], block: &[f64]) {
        let (t, isa) = (self.squares.len(), Isa::detect());
        let n = said.len() / t;
        // Three slices a residual, target by target: the first is nothing unless it is larger than any
        // target.
        let mut slices = vec![0.0; 3 * n * t];
        for i in 0..n {
            let (row, root) = (start + i, scaled.root(start + i));
            let own = nearest(root * ONE) as i128;
            self.weight += own * own;
            for o in 0..t {
                let left = (scaled.targets[row * t + o] - said[o * n + i] / plan.targets[o].unit) * root;
                if left.is_nan() || left.abs() > ONE {
                    self.beyond = Some(self.beyond.map_or(row, |first| first.min(row)));
                    return;
                }
                let first = nearest(left);
                let (second, third) = split_high_low((left - first) * ONE);
                for (s, slice) in [first, second, third].into_iter().enumerate() {
                    slices[(3 * o + s) * n + i] = slice;
                }
                let own = join_slices(first, second);
                self.squares[o] += own * own;
            }
        }
        let slice = |o: usize, s: usize| &slices[(3 * o + s) * n..][..n];
        let coarse: Vec<bool> = (0..t).map(|o| slice(o, 0).iter().any(|v| *v != 0.0)).collect();
        let (scale, roots) = (ONE / plan.bound, scaled.roots(start, n));
        let constant = vec![plan.bound; n];
        for (own, sums) in block.chunks(n).chain([&constant[..]]).zip(self.cross.chunks_mut(t)) {
            let with = |first: &[f64], second: &[f64]| {
                let [a, b] = sliced_products(isa, own, scale, roots, [first, second]);
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

/// What coefficients leave of the rows of some units.
#[derive(Debug, Clone, PartialEq)]
pub struct ResidualPass {
    plan: String,
    coefficients: String,
    targets: usize,
    units: BTreeSet<u64>,
    /// How many rows.
    rows: u64,
    /// `Σ k e`, landmark by landmark, then target.
    cross: Vec<i128>,
    /// `Σ e²`.
    squares: Vec<i128>,
    /// Of the rows' weights, relative to the largest.
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
    /// Of no rows.
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

    /// How many rows it counts.
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
            let said = predictions(n, kernels, &coefficients.values, &mut block);
            sums.add(plan, &scaled, start, &said, &block);
            sums.block = block;
            sums
        };
        let starts = (0..rows.len()).into_par_iter().step_by(ROW_BLOCK);
        let none = || ThreadSums::new(self.cross.len(), self.squares.len());
        let all = starts.fold(none, run).reduce(none, ThreadSums::joined);
        if let Some(row) = all.beyond {
            let what = format!("the residual of row {}", row + 1);
            return Err(Error::Overflow { what, remedy: "raise the ridge, or take fewer landmarks" });
        }
        for (own, new) in [(&mut self.cross, &all.cross), (&mut self.squares, &all.squares)] {
            own.iter_mut().zip(new).for_each(|(own, new)| *own += new);
        }
        self.weight += all.weight;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Adds that of other units.
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
        self.cross.iter_mut().zip(&other.cross).for_each(|(own, other)| *own += other);
        self.squares.iter_mut().zip(&other.squares).for_each(|(own, other)| *own += other);
        self.weight += other.weight;
        Ok(())
    }

    /// What it is, without the units that it is made of.
    #[cfg(test)]
    pub(super) fn sums_bytes(&self) -> Vec<u8> {
        format!("{} {:?} {:?} {}", self.rows, self.cross, self.squares, self.weight).into_bytes()
    }

    /// As a file. The same residuals have the same bytes.
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

    /// From a file, by the plan and coefficients that it should be of.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of others.
    pub fn from_bytes(plan: &FitPlan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        let (record, numbers) = decode::<Record>(bytes, "residuals")?;
        let mut all = Self::empty(plan, coefficients);
        let t = all.targets;
        let own = (&all.plan, &all.coefficients, t);
        if (&record.residual, &record.coefficients, record.targets) != own
            || numbers.len() != all.cross.len() + all.targets + 1
        {
            return Err(Error::Format {
                problem: "these residuals are of another plan or of other coefficients".into(),
            });
        }
        let (cross, rest) = numbers.split_at(all.cross.len());
        (all.cross, all.squares, all.weight) = (cross.to_vec(), rest[..t].to_vec(), rest[t]);
        (all.units, all.rows) = (record.units, record.rows);
        Ok(all)
    }

    /// `Σ k e` (landmarks and constant × targets), `Σ e²`, and the sum of weights, in the units of kernel and
    /// targets, with weights.
    pub(super) fn sums(&self, plan: &FitPlan) -> (Matrix, Vec<f64>, f64) {
        let (p, t, weight) = (plan.size(), self.targets, plan.largest_weight.unwrap_or(1.0));
        let unit = |j: usize| if j + 1 < p { plan.bound } else { 1.0 };
        let step = 0.5_f64.powi(4 * FRACTION_BITS) * weight;
        let at = |k: usize| self.cross[k] as f64 * step * unit(k / t) * plan.targets[k % t].unit;
        let cross = Matrix::from_row_major(p, t, (0..p * t).map(at).collect());
        let step = 0.5_f64.powi(2 * FRACTION_BITS) * weight;
        let squares = (0..t).map(|o| self.squares[o] as f64 * step * plan.targets[o].unit.powi(2));
        (cross, squares.collect(), self.weight as f64 * step)
    }
}

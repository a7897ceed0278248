//! A second pass: what a solution leaves of the targets, as whole numbers. Products of the kernel with residuals say how far the solution is from the one without rounding, and correct it.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::parts::{decode, encode};
use super::plan::{Plan, hex};
use super::rows::Rows;
use super::statistics::whole;
use crate::error::{Error, Result};
use crate::kernel::Columns;
use crate::linalg::Matrix;
use crate::linalg::fixed::{BITS, ONE, nearest, sliced_products, two_slices};
use crate::simd::{Isa, Simd, dispatch};

/// Rows at a time, whose kernels with landmarks stay in the cache.
const RUN: usize = 256;
/// Landmarks at a time, of which predictions are summed up before these sums are.
const SUM: usize = 64;

/// Kernels of rows with landmarks, column by column in `block`, and what coefficients say of the rows, target by target: sums of 64 landmarks, and then of these, whatever other rows
/// there are.
pub(super) fn predictions(
    plan: &Plan,
    points: &[Vec<f64>],
    theta: &Matrix,
    rows: Columns<'_>,
    block: &mut Vec<f64>,
) -> Vec<f64> {
    let (n, m, t, isa) = (rows.len(), points.len(), theta.cols(), Isa::detect());
    block.resize(n * m, 0.0);
    let runs: Vec<Vec<f64>> = block
        .par_chunks_mut(n * SUM)
        .enumerate()
        .map(|(run, own)| {
            let mut said = vec![0.0; n * t];
            let some: Vec<&[f64]> = points[run * SUM..].iter().take(SUM).map(Vec::as_slice).collect();
            plan.kernel.tile(isa, rows, &some, own, n);
            for (k, column) in own.chunks(n).enumerate() {
                for (o, said) in said.chunks_mut(n).enumerate() {
                    add_times(isa, theta[(run * SUM + k, o)], column, said);
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
}

impl Coefficients {
    /// A name: SHA-256 of what they are.
    pub fn digest(&self) -> String {
        let mut all = Sha256::new();
        self.values.data().iter().for_each(|v| all.update(v.to_le_bytes()));
        hex(&all.finalize())
    }

    /// As a file: JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// From a file.
    ///
    /// # Errors
    /// [`Error::Format`] for another file, or coefficients of another plan's size.
    pub fn from_bytes(plan: &Plan, bytes: &[u8]) -> Result<Self> {
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

/// What coefficients leave of the rows of some units.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
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
}

#[derive(Serialize, Deserialize)]
struct Record {
    residual: String,
    coefficients: String,
    targets: usize,
    units: BTreeSet<u64>,
    rows: u64,
}

impl Residual {
    /// Of no rows.
    pub fn empty(plan: &Plan, coefficients: &Coefficients) -> Self {
        let (p, t) = (plan.size(), plan.targets.len());
        Self {
            plan: plan.digest(),
            coefficients: coefficients.digest(),
            targets: t,
            units: BTreeSet::new(),
            rows: 0,
            cross: vec![0; p * t],
            squares: vec![0; t],
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
    /// As [`Accumulator::add`](super::Accumulator::add); [`Error::Overflow`] for residuals of more than a million times the targets.
    pub fn add(&mut self, plan: &Plan, coefficients: &Coefficients, rows: &Rows) -> Result<()> {
        let x = rows.x.conform(plan.landmarks.columns())?;
        let scaled = plan.scaled(rows)?;
        let points: Vec<Vec<f64>> = (0..plan.landmarks.rows()).map(|i| plan.landmarks.row(i)).collect();
        let (t, isa) = (plan.targets.len(), Isa::detect());
        let theta = &coefficients.values;
        let mut block = Vec::new();
        for start in (0..rows.len()).step_by(RUN) {
            let n = RUN.min(rows.len() - start);
            let features = Columns::new(x.column_major(), x.rows(), start, n);
            let said = predictions(plan, &points, theta, features, &mut block);
            // Three slices a residual, target by target: the first is nothing unless it is larger than any target.
            let mut slices = vec![0.0; 3 * n * t];
            for o in 0..t {
                let unit = plan.targets[o].unit;
                for i in 0..n {
                    let row = start + i;
                    let left = (scaled.targets[row * t + o] - said[o * n + i] / unit) * scaled.root(row);
                    if left.is_nan() || left.abs() > ONE {
                        return Err(Error::Overflow {
                            what: format!("the residual of row {}", row + 1),
                            remedy: "raise the ridge, or take fewer landmarks",
                        });
                    }
                    let first = nearest(left);
                    let (second, third) = two_slices((left - first) * ONE);
                    for (s, slice) in [first, second, third].into_iter().enumerate() {
                        slices[(3 * o + s) * n + i] = slice;
                    }
                    let own = whole(first, second);
                    self.squares[o] += own * own;
                }
            }
            let coarse: Vec<bool> =
                (0..t).map(|o| slices[3 * o * n..][..n].iter().any(|v| *v != 0.0)).collect();
            let scale = ONE / plan.bound;
            let roots = scaled.roots(start, n);
            let of_column = |own: &[f64]| -> Vec<i128> {
                let with = |first: &[f64], second: &[f64]| {
                    let [a, b] = sliced_products(isa, own, scale, roots, [first, second]);
                    (whole(a.0, a.1), whole(b.0, b.1))
                };
                let slice = |o: usize, s: usize| &slices[(3 * o + s) * n..][..n];
                let sum = |o: usize| {
                    let first = if coarse[o] { with(slice(o, 0), slice(o, 0)).0 } else { 0 };
                    let (second, third) = with(slice(o, 1), slice(o, 2));
                    (first << (2 * BITS)) + (second << BITS) + third
                };
                (0..t).map(sum).collect()
            };
            let sums: Vec<Vec<i128>> = block.par_chunks(n).map(of_column).collect();
            let constant = of_column(&vec![plan.bound; n]);
            let all = sums.iter().flatten().chain(&constant);
            self.cross.iter_mut().zip(all).for_each(|(sum, own)| *sum += own);
        }
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
        Ok(())
    }

    /// What it is, without the units that it is made of.
    #[cfg(test)]
    pub(super) fn sums_bytes(&self) -> Vec<u8> {
        format!("{} {:?} {:?}", self.rows, self.cross, self.squares).into_bytes()
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
        encode(&record, &[&self.cross, &self.squares])
    }

    /// From a file, by the plan and coefficients that it should be of.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of others.
    pub fn from_bytes(plan: &Plan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        let (record, numbers) = decode::<Record>(bytes, "residuals")?;
        let mut all = Self::empty(plan, coefficients);
        let own = (&all.plan, &all.coefficients, all.targets);
        if (&record.residual, &record.coefficients, record.targets) != own
            || numbers.len() != all.cross.len() + all.targets
        {
            return Err(Error::Format {
                problem: "these residuals are of another plan or of other coefficients".into(),
            });
        }
        let (cross, squares) = numbers.split_at(all.cross.len());
        (all.cross, all.squares) = (cross.to_vec(), squares.to_vec());
        (all.units, all.rows) = (record.units, record.rows);
        Ok(all)
    }

    /// `Σ k e` (landmarks and constant × targets) and `Σ e²`, in the units of kernel and targets, with weights.
    pub(super) fn sums(&self, plan: &Plan) -> (Matrix, Vec<f64>) {
        let (p, t, weight) = (plan.size(), self.targets, plan.largest_weight.unwrap_or(1.0));
        let unit = |j: usize| if j + 1 < p { plan.bound } else { 1.0 };
        let step = 0.5_f64.powi(4 * BITS) * weight;
        let at = |k: usize| self.cross[k] as f64 * step * unit(k / t) * plan.targets[k % t].unit;
        let cross = Matrix::from_row_major(p, t, (0..p * t).map(at).collect());
        let step = 0.5_f64.powi(2 * BITS) * weight;
        (cross, (0..t).map(|o| self.squares[o] as f64 * step * plan.targets[o].unit.powi(2)).collect())
    }
}

//! Gradient, curvature and loss of a logistic regression from a pass over all rows at given coefficients, as
//! integers.
//!
//! The gram matrix is rounded, which changes the path of Newton's method. The gradient is not (to 2⁻⁴²),
//! which decides where the path ends. Kernel values are those of [`FixedRows`], computed by products.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::parts::{decode, encode};
use super::plan::FitPlan;
use super::residual::{Coefficients, predictions};
use super::rows::LabelledRows;
use super::statistics::join_slices;
use crate::error::{Error, Result};
use crate::kernel::{Columns, FixedRows};
use crate::linalg::Matrix;
use crate::linalg::exact_gram::{self, ExactGram, FRACTION_BITS, UNIT, packed_len, split_high_low};
use crate::simd::Isa;

/// Rows at a time where curvature is summed up, and where it is not: their kernels with landmarks then stay
/// in the cache.
const RUN: (usize, usize) = (1024, 256);

/// Gradient and loss of some rows at coefficients, and curvature where these ask for it.
#[derive(Debug, Clone, PartialEq)]
pub struct LogisticGradient {
    plan: String,
    coefficients: String,
    units: BTreeSet<u64>,
    rows: u64,
    gram: Vec<i128>,
    cross: Vec<i128>,
    loss: i128,
}

/// Steps of curvatures, for a weight of 1: they are at most a quarter.
const STEP: f64 = 0.25 / (UNIT * UNIT);

#[derive(Serialize, Deserialize)]
struct Record {
    slope: String,
    coefficients: String,
    units: BTreeSet<u64>,
    rows: u64,
}

impl LogisticGradient {
    /// The gradient of no rows.
    pub fn empty(plan: &FitPlan, coefficients: &Coefficients) -> Self {
        Self {
            plan: plan.digest(),
            coefficients: coefficients.digest(),
            units: BTreeSet::new(),
            rows: 0,
            gram: vec![0; if coefficients.curvature { packed_len(plan.size()) } else { 0 }],
            cross: vec![0; plan.size()],
            loss: 0,
        }
    }

    /// The units whose rows it counts.
    pub fn units(&self) -> &BTreeSet<u64> {
        &self.units
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// `Σ w log(1 + exp(-s f))`.
    pub(super) fn loss(&self, plan: &FitPlan) -> f64 {
        self.loss as f64 * 0.5_f64.powi(2 * FRACTION_BITS) * plan.largest_weight.unwrap_or(1.0)
    }

    /// `Kᵀ w (y - p)`, of landmarks and the constant.
    pub(super) fn gradient(&self, plan: &FitPlan) -> Vec<f64> {
        let step = 0.5_f64.powi(4 * FRACTION_BITS) * plan.largest_weight.unwrap_or(1.0);
        let bounds = bounds(plan);
        self.cross.iter().zip(bounds).map(|(sum, bound)| *sum as f64 * step * bound).collect()
    }

    /// Whether it has the curvature.
    pub(super) fn has_curvature(&self) -> bool {
        !self.gram.is_empty()
    }

    /// `KᵀDK`, of the first so many of landmarks and the constant, where the [curvature](Self::has_curvature)
    /// was summed up.
    pub(super) fn curvature(&self, plan: &FitPlan, size: usize) -> Matrix {
        let (p, step) = (plan.size(), STEP * plan.largest_weight.unwrap_or(1.0));
        let bounds: Vec<f64> = bounds(plan).collect();
        let mut matrix = Matrix::zeros(size, size);
        for j in 0..size {
            let before = packed_len(p) - packed_len(p - j);
            for i in j..size {
                matrix[(j, i)] = self.gram[before + i - j] as f64 * step * bounds[i] * bounds[j];
            }
        }
        matrix.mirror_upper();
        matrix
    }

    /// `Σ D`.
    pub(super) fn weight(&self, plan: &FitPlan) -> f64 {
        let total = self.gram.last().map_or(0.0, |sum| *sum as f64);
        total * STEP * plan.largest_weight.unwrap_or(1.0)
    }

    /// Adds the sums of other units.
    ///
    /// # Errors
    /// [`Error::Format`] if it is of another plan or other coefficients, or a unit is in both.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if (&self.plan, &self.coefficients) != (&other.plan, &other.coefficients) {
            return Err(Error::Format {
                problem: "these slopes are of another plan or of other coefficients".into(),
            });
        }
        if let Some(twice) = self.units.intersection(&other.units).next() {
            return Err(Error::Format {
                problem: format!("unit {twice} is in both slopes, and its rows would count twice"),
            });
        }
        self.units.extend(&other.units);
        self.rows += other.rows;
        self.loss += other.loss;
        for (sums, other) in [(&mut self.gram, &other.gram), (&mut self.cross, &other.cross)] {
            sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
        }
        Ok(())
    }

    /// The bytes of the sums as a file. Equal sums have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let record = Record {
            slope: self.plan.clone(),
            coefficients: self.coefficients.clone(),
            units: self.units.clone(),
            rows: self.rows,
        };
        encode(&record, &[&self.gram, &self.cross, &[self.loss]])
    }

    /// Reads a file of sums for this plan and these coefficients.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of others.
    pub fn from_bytes(plan: &FitPlan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        let (record, numbers) = decode::<Record>(bytes, "slopes")?;
        let mut gradient = Self::empty(plan, coefficients);
        if (&record.slope, &record.coefficients) != (&gradient.plan, &gradient.coefficients)
            || numbers.len() != gradient.gram.len() + gradient.cross.len() + 1
        {
            return Err(Error::Format {
                problem: "these slopes are of another plan or of other coefficients".into(),
            });
        }
        let (gram, cross_and_loss) = numbers.split_at(gradient.gram.len());
        (gradient.gram, gradient.cross, gradient.loss) = (
            gram.to_vec(),
            cross_and_loss[..gradient.cross.len()].to_vec(),
            cross_and_loss[gradient.cross.len()],
        );
        (gradient.units, gradient.rows) = (record.units, record.rows);
        Ok(gradient)
    }
}

/// Bounds of the rounded numbers: the kernel's bound for landmarks, 1 for the constant.
fn bounds(plan: &FitPlan) -> impl Iterator<Item = f64> {
    std::iter::repeat_n(plan.bound, plan.landmarks.rows()).chain([1.0])
}

/// A slope of rows that come one part after the other.
pub struct LogisticGradientBuilder<'p> {
    plan: &'p FitPlan,
    coefficients: &'p Coefficients,
    landmarks: FixedRows<'p>,
    gradient: LogisticGradient,
    /// The gram matrix, where the curvature is requested.
    gram: Option<ExactGram>,
    block: Vec<f64>,
}

impl<'p> LogisticGradientBuilder<'p> {
    /// A builder without rows.
    pub fn new(plan: &'p FitPlan, coefficients: &'p Coefficients) -> Self {
        Self {
            landmarks: plan.anchors(),
            gradient: LogisticGradient::empty(plan, coefficients),
            gram: coefficients.curvature.then(|| ExactGram::new(plan.size())),
            block: Vec::new(),
            plan,
            coefficients,
        }
    }

    /// Adds rows, whose target is 0 or 1. Cost O(rows landmarks columns), with curvature O(rows landmarks
    /// (landmarks + columns)).
    ///
    /// # Errors
    /// As [`Accumulator::add`](super::Accumulator::add); [`Error::Target`] for other targets.
    pub fn add(&mut self, rows: &LabelledRows) -> Result<()> {
        let Self { plan, coefficients, landmarks, gradient: all, gram, block } = self;
        let x = rows.x.align_to(plan.landmarks.columns())?;
        let scaled = plan.scaled(rows)?;
        if let Some(bad) = rows.y.data().iter().find(|y| **y != 0.0 && **y != 1.0) {
            return Err(Error::Target {
                name: "target".into(),
                problem: format!("holds {bad}, and classes are 0 and 1 here"),
            });
        }
        let (m, isa) = (landmarks.len(), Isa::detect());
        let run = if gram.is_some() { RUN.0 } else { RUN.1 };
        for start in (0..rows.len()).step_by(run) {
            let n = run.min(rows.len() - start);
            let features = Columns::new(x.column_major(), x.rows(), start, n);
            let laid = landmarks.lay(features);
            let kernels =
                |from: usize, count: usize, out: &mut [f64]| landmarks.tile(&laid, from, count, out);
            let values = predictions(n, kernels, &coefficients.values, block);
            let (mut first, mut second, mut curvature) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            for i in 0..n {
                let (f, y, root) = (values[i], rows.y.data()[start + i], scaled.root(start + i));
                // The margin in favour of the observed class, and the probability of the other one.
                let s = if y > 0.0 { f } else { -f };
                let other = 1.0 / (1.0 + libm::exp(s));
                let error = if y > 0.0 { other } else { -other };
                (first[i], second[i]) = split_high_low(error * root * UNIT);
                // At most one half, doubled.
                curvature[i] = 2.0 * (other * (1.0 - other)).max(0.0).sqrt() * root;
                let loss = libm::log1p(libm::exp(-s.abs())) + (-s).max(0.0);
                if !loss.is_finite() {
                    return Err(Error::Overflow {
                        subject: format!("the prediction of row {}", start + i + 1),
                        remedy: "regularise more, or standardise the columns",
                    });
                }
                all.loss += (loss * root * root * UNIT * UNIT).round() as i128;
            }
            block.resize(n * (m + 1), plan.bound);
            block[n * m..].fill(plan.bound);
            let scale = UNIT / plan.bound;
            let roots = scaled.roots(start, n);
            let column = |kernel_column: &mut [f64]| -> i128 {
                let [a, b] = exact_gram::sliced_products(isa, kernel_column, scale, roots, [&first, &second]);
                if gram.is_some() {
                    exact_gram::round(isa, kernel_column, scale, &curvature);
                }
                (join_slices(a.0, a.1) << FRACTION_BITS) + join_slices(b.0, b.1)
            };
            let sums: Vec<i128> = block.par_chunks_mut(n).map(column).collect();
            all.cross.iter_mut().zip(sums).for_each(|(sum, column_sum)| *sum += column_sum);
            if let Some(gram) = gram {
                gram.add(block, n);
            }
        }
        all.rows += rows.len() as u64;
        Ok(())
    }

    /// The slope of all rows, as that of one unit.
    pub fn finish(mut self, unit: u64) -> LogisticGradient {
        self.gradient.gram = self.gram.map_or_else(Vec::new, ExactGram::into_sums);
        self.gradient.units = BTreeSet::from([unit]);
        self.gradient
    }
}

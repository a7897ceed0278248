//! What a pass over all rows says of a logistic regression at some coefficients: gradient, curvature and
//! loss, in whole numbers.
//!
//! The gram matrix is rounded, which changes the way of Newton's method; the gradient is not (to 2⁻⁴²), which
//! decides where it ends. Kernels are those of [`FixedRows`], which are taken by products.

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
use crate::linalg::exact_gram::{self, ExactGram, FRACTION_BITS, ONE, packed_len, split_high_low};
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
const STEP: f64 = 0.25 / (ONE * ONE);

#[derive(Serialize, Deserialize)]
struct Record {
    slope: String,
    coefficients: String,
    units: BTreeSet<u64>,
    rows: u64,
}

impl LogisticGradient {
    /// Of no rows.
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

    /// How many rows it counts.
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
        let last = self.gram.last().map_or(0.0, |sum| *sum as f64);
        last * STEP * plan.largest_weight.unwrap_or(1.0)
    }

    /// Adds that of other units.
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
        for (own, other) in [(&mut self.gram, &other.gram), (&mut self.cross, &other.cross)] {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        Ok(())
    }

    /// As a file. The same slopes have the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let record = Record {
            slope: self.plan.clone(),
            coefficients: self.coefficients.clone(),
            units: self.units.clone(),
            rows: self.rows,
        };
        encode(&record, &[&self.gram, &self.cross, &[self.loss]])
    }

    /// From a file, by the plan and coefficients that it should be of.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of others.
    pub fn from_bytes(plan: &FitPlan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        let (record, numbers) = decode::<Record>(bytes, "slopes")?;
        let mut all = Self::empty(plan, coefficients);
        if (&record.slope, &record.coefficients) != (&all.plan, &all.coefficients)
            || numbers.len() != all.gram.len() + all.cross.len() + 1
        {
            return Err(Error::Format {
                problem: "these slopes are of another plan or of other coefficients".into(),
            });
        }
        let (gram, rest) = numbers.split_at(all.gram.len());
        (all.gram, all.cross, all.loss) =
            (gram.to_vec(), rest[..all.cross.len()].to_vec(), rest[all.cross.len()]);
        (all.units, all.rows) = (record.units, record.rows);
        Ok(all)
    }
}

/// Of what is rounded: landmarks' kernels by the kernel's bound, the constant by 1.
fn bounds(plan: &FitPlan) -> impl Iterator<Item = f64> {
    std::iter::repeat_n(plan.bound, plan.landmarks.rows()).chain([1.0])
}

/// A slope of rows that come one part after the other.
pub struct LogisticGradientBuilder<'p> {
    plan: &'p FitPlan,
    coefficients: &'p Coefficients,
    landmarks: FixedRows<'p>,
    all: LogisticGradient,
    /// Where curvature is asked for.
    gram: Option<ExactGram>,
    block: Vec<f64>,
}

impl<'p> LogisticGradientBuilder<'p> {
    /// Of no rows yet.
    pub fn new(plan: &'p FitPlan, coefficients: &'p Coefficients) -> Self {
        Self {
            landmarks: plan.anchors(),
            all: LogisticGradient::empty(plan, coefficients),
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
        let Self { plan, coefficients, landmarks, all, gram, block } = self;
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
                // Of the class that it is, and of the other.
                let s = if y > 0.0 { f } else { -f };
                let other = 1.0 / (1.0 + libm::exp(s));
                let error = if y > 0.0 { other } else { -other };
                (first[i], second[i]) = split_high_low(error * root * ONE);
                // At most one half, doubled.
                curvature[i] = 2.0 * (other * (1.0 - other)).max(0.0).sqrt() * root;
                let loss = libm::log1p(libm::exp(-s.abs())) + (-s).max(0.0);
                if !loss.is_finite() {
                    return Err(Error::Overflow {
                        what: format!("the prediction of row {}", start + i + 1),
                        remedy: "regularise more, or standardise the columns",
                    });
                }
                all.loss += (loss * root * root * ONE * ONE).round() as i128;
            }
            block.resize(n * (m + 1), plan.bound);
            block[n * m..].fill(plan.bound);
            let scale = ONE / plan.bound;
            let roots = scaled.roots(start, n);
            let column = |own: &mut [f64]| -> i128 {
                let [a, b] = exact_gram::sliced_products(isa, own, scale, roots, [&first, &second]);
                if gram.is_some() {
                    exact_gram::round(isa, own, scale, &curvature);
                }
                (join_slices(a.0, a.1) << FRACTION_BITS) + join_slices(b.0, b.1)
            };
            let sums: Vec<i128> = block.par_chunks_mut(n).map(column).collect();
            all.cross.iter_mut().zip(sums).for_each(|(sum, own)| *sum += own);
            if let Some(gram) = gram {
                gram.add(block, n);
            }
        }
        all.rows += rows.len() as u64;
        Ok(())
    }

    /// The slope of all rows, as that of one unit.
    pub fn finish(mut self, unit: u64) -> LogisticGradient {
        self.all.gram = self.gram.map_or_else(Vec::new, ExactGram::into_sums);
        self.all.units = BTreeSet::from([unit]);
        self.all
    }
}

//! Gradient, curvature and loss of a logistic regression from a pass over all rows at given coefficients, as
//! integers.
//!
//! Kernel values are rounded to 21 bits for the curvature, which only changes the path of Newton's method.
//! For the gradient, which decides where the iteration ends, the rounding error is 2⁻⁴². Kernel values are
//! computed by products of [`FixedRows`].

use rayon::prelude::*;

use super::coefficients::Coefficients;
use super::parts::add_integers;
use super::pass_sums::PassSums;
use super::plan::FitPlan;
use super::residual::predictions;
use super::rows::LabelledRows;
use super::statistics::join_slices;
use crate::error::{Error, Result};
use crate::kernel::FixedRows;
use crate::linalg::Matrix;
use crate::linalg::exact_gram::{self, ExactGram, FRACTION_BITS, UNIT, packed_len, split_high_low};
use crate::simd::Isa;

/// Number of rows in a block, with and without the curvature: their kernel values with landmarks then stay in
/// the cache.
const RUN: (usize, usize) = (1024, 256);

/// Gradient and loss of some rows at given coefficients, and their curvature where the coefficients request
/// it. The lists of sums are the curvature's lower triangle, the gradient and the loss.
#[derive(Debug, Clone, PartialEq)]
pub struct LogisticGradient(pub(super) PassSums);

/// Unit of the curvature's integers for a weight of 1: `p (1 - p)` is at most a quarter.
const STEP: f64 = 0.25 / (UNIT * UNIT);

impl LogisticGradient {
    /// The gradient of no rows.
    pub fn empty(plan: &FitPlan, coefficients: &Coefficients) -> Self {
        let gram = vec![0; if coefficients.curvature { packed_len(plan.size()) } else { 0 }];
        Self(PassSums::slope(plan, coefficients, [gram, vec![0; plan.size()], vec![0]]))
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.0.record.rows
    }

    /// `Σ w log(1 + exp(-s f))`.
    pub(super) fn loss(&self, plan: &FitPlan) -> f64 {
        self.0.lists[2][0] as f64 * 0.5_f64.powi(2 * FRACTION_BITS) * plan.largest_weight.unwrap_or(1.0)
    }

    /// `Kᵀ w (y - p)` (landmarks and constant).
    pub(super) fn gradient(&self, plan: &FitPlan) -> Vec<f64> {
        let step = 0.5_f64.powi(4 * FRACTION_BITS) * plan.largest_weight.unwrap_or(1.0);
        let value = |(j, sum): (usize, &i128)| *sum as f64 * step * plan.feature_bound(j);
        self.0.lists[1].iter().enumerate().map(value).collect()
    }

    /// Whether the pass computed the curvature.
    pub(super) fn has_curvature(&self) -> bool {
        !self.0.lists[0].is_empty()
    }

    /// `KᵀDK` (size × size) of the first `size` landmarks, where the constant comes last, if the pass
    /// computed the [curvature](Self::has_curvature).
    pub(super) fn curvature(&self, plan: &FitPlan, size: usize) -> Matrix {
        let (p, step) = (plan.size(), STEP * plan.largest_weight.unwrap_or(1.0));
        let mut matrix = Matrix::zeros(size, size);
        for j in 0..size {
            let before = packed_len(p) - packed_len(p - j);
            for i in j..size {
                let sum = self.0.lists[0][before + i - j] as f64;
                matrix[(j, i)] = sum * step * plan.feature_bound(i) * plan.feature_bound(j);
            }
        }
        matrix.mirror_upper();
        matrix
    }

    /// `Σ D`.
    pub(super) fn weight(&self, plan: &FitPlan) -> f64 {
        let total = self.0.lists[0].last().map_or(0.0, |sum| *sum as f64);
        total * STEP * plan.largest_weight.unwrap_or(1.0)
    }
}

/// Accumulates the gradient of rows that come in parts.
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

    /// Adds rows with targets 0 or 1. Cost O(rows landmarks columns), with the curvature O(rows landmarks
    /// (landmarks + columns)).
    ///
    /// # Errors
    /// Those of [`Accumulator::add`](super::Accumulator::add); [`Error::Target`] for targets other than 0 and
    /// 1.
    pub fn add(&mut self, rows: &LabelledRows) -> Result<()> {
        let Self { plan, coefficients, landmarks, gradient: all, gram, block } = self;
        let scaled = plan.scaled(rows)?;
        if let Some(bad) = rows.y.data().iter().find(|y| **y != 0.0 && **y != 1.0) {
            return Err(Error::target("target", format!("holds {bad}, but the classes must be 0 and 1")));
        }
        let (m, isa) = (landmarks.len(), Isa::detect());
        let run = if gram.is_some() { RUN.0 } else { RUN.1 };
        let mut loss_sum = 0_i128;
        for start in (0..rows.len()).step_by(run) {
            let n = run.min(rows.len() - start);
            let values = predictions(landmarks, &scaled.x, (start, n), &coefficients.values, block);
            let (mut first, mut second, mut curvature) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            for i in 0..n {
                let (f, y, root) = (values[i], rows.y.data()[start + i], scaled.root(start + i));
                // The margin s in favour of the observed class, and the predicted probability of the other
                // class.
                let s = if y > 0.0 { f } else { -f };
                let other = 1.0 / (1.0 + libm::exp(s));
                let error = if y > 0.0 { other } else { -other };
                (first[i], second[i]) = split_high_low(error * root * UNIT);
                // The square root of `p (1 - p)` is at most one half, so it is doubled.
                curvature[i] = 2.0 * (other * (1.0 - other)).max(0.0).sqrt() * root;
                let loss = libm::log1p(libm::exp(-s.abs())) + (-s).max(0.0);
                if !loss.is_finite() {
                    return Err(Error::overflow(
                        format!("the prediction of row {}", start + i + 1),
                        "regularise more, or standardise the columns",
                    ));
                }
                loss_sum += (loss * root * root * UNIT * UNIT).round() as i128;
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
            add_integers(&mut all.0.lists[1], &sums);
            if let Some(gram) = gram {
                gram.add(block, n);
            }
        }
        all.0.lists[2][0] += loss_sum;
        all.0.record.rows += rows.len() as u64;
        Ok(())
    }

    /// The gradient of all rows that were added, as that of one unit.
    pub fn finish(mut self, unit: u64) -> LogisticGradient {
        self.gradient.0.lists[0] = self.gram.map_or_else(Vec::new, ExactGram::into_sums);
        self.gradient.0.set_unit(unit);
        self.gradient
    }
}

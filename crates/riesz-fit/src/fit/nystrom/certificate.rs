//! Certificates: proved bounds on the distance between a computed solution and the solution in exact
//! arithmetic with the same landmarks.
//!
//! Let A be the exact matrix of the normal equations and r their residual at coefficients θ. The exact
//! coefficients differ from θ by `A⁻¹r`, and predictions with kernel values k by at most
//! `√(kᵀA⁻¹k) √(rᵀA⁻¹r)`. A is not computed exactly, so one of three lower bounds on A is used:
//!
//! - Rounding changed K by at most η in Frobenius norm, so `A ⪰ (1 - 2η/√λ_min(Â)) Â` (Weyl's inequality
//!   for the singular values of `K Â^-½`).
//! - The normal equations of any subset of the rows are no larger than those of all rows.
//! - All functions f of the landmarks satisfy `Σ w (f(x) + b)² + λ‖f‖² ⪰ (λ/2)‖f‖² + c b²` with
//!   `c = λW/(2Wκ + λ)`, where W is the sum of the weights and κ the bound of the kernel. This involves no
//!   rounding, but is far below A.

use super::plan::FitPlan;
use crate::error::Result;
use crate::linalg::exact_gram::FRACTION_BITS;
use crate::linalg::{Cholesky, Matrix, add_to, dot, dot_roundings};

/// A proved bound on the distance between a fit and the exact fit with the same landmarks.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    /// One number per target. At a row with kernel values k the bound is the radius times `√(kᵀÂ⁻¹k)`, plus
    /// the rounding error of predictions. `None` if only the bound for all rows is known.
    pub radius: Option<Vec<f64>>,
    /// An upper bound of the error at any row, one number per target.
    pub anywhere: Vec<f64>,
    /// Rounding error of a prediction, one number per target; it is part of both bounds.
    pub rounding: Vec<f64>,
}

impl Certificate {
    /// Adds the rounding errors of predictions with these coefficients, including the addition of the
    /// intercept.
    pub(super) fn with_rounding(mut self, plan: &FitPlan, coefficients: &Matrix) -> Self {
        let m = plan.landmarks.rows();
        let rounding_error = |o: usize| {
            let sum: f64 = (0..m).map(|j| plan.bound * coefficients[(j, o)].abs()).sum();
            let constant = coefficients[(m, o)].abs() + plan.targets[o].center.abs();
            UNIT * ((dot_roundings(m) + 3) as f64 * sum + 4.0 * constant)
        };
        self.rounding = (0..plan.targets.len()).map(rounding_error).collect();
        add_to(&mut self.anywhere, &self.rounding);
        self
    }
}

/// Half a unit in the last place of 1.
const UNIT: f64 = f64::EPSILON / 2.0;

/// A lower bound on the smallest eigenvalue of `LLᵀ`, for a Cholesky factor L (n × n) of a matrix with this
/// trace; it is not positive where rounding may dominate. Computed inverses X satisfy `LLᵀX = 1 - E` with
/// `|E| ≤ 2 (n + 4) u |L||Lᵀ||X|`. The norm of X is at most that of `|X|`, which
/// [`inverse_norm`](Cholesky::inverse_norm) bounds. Cost O(n³).
fn least_eigenvalue(factor: &Cholesky, trace: f64) -> f64 {
    let inverse = factor.inverse_norm();
    1.0 / inverse - 2.0 * (factor.size() + 4) as f64 * UNIT * trace
}

/// Maximum relative perturbation of `Â` for which a certificate is given.
const MAX_PERTURBATION: f64 = 0.8;

/// Bounds on the spectrum of `Â`, and through it of A.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpectralBound {
    /// δ: the norm of the rounding error of K, times the norm of `Â^-½`.
    rounding: f64,
    /// Error of the factor and of solves with it, relative to `Â`.
    factor: f64,
    /// A lower bound of the smallest eigenvalue of `Â`.
    min_eigenvalue: f64,
    /// The trace of `Â`.
    trace: f64,
}

impl SpectralBound {
    /// Bounds from the Cholesky factor and the trace of `Â`, or of the matrix of a sample's normal equations,
    /// which is no larger than A and whose kernel values were not rounded. `roundings` is the number of
    /// roundings of the entries, and `perturbation` the norm of the kernel values' rounding error. `None`
    /// where rounding may dominate. Cost O(landmarks³).
    pub fn new(factor: &Cholesky, trace: f64, roundings: usize, perturbation: f64) -> Option<Self> {
        let min_eigenvalue = least_eigenvalue(factor, trace) - factor.jitter;
        let summed = (factor.size() + 4 + roundings) as f64;
        let bound = Self {
            rounding: perturbation / min_eigenvalue.max(f64::MIN_POSITIVE).sqrt(),
            factor: (summed * UNIT * trace + factor.jitter) / min_eigenvalue.max(f64::MIN_POSITIVE),
            min_eigenvalue: min_eigenvalue * 0.99,
            trace,
        };
        (min_eigenvalue > 0.0 && bound.perturbation_norm() < MAX_PERTURBATION).then_some(bound)
    }

    /// The share s with `A ⪰ (1 - s) L Lᵀ`.
    fn relative_perturbation(&self) -> f64 {
        2.0 * self.rounding + self.factor
    }

    /// The norm of `Â^-½ (Â - A) Â^-½`, plus the error of solves with the factor.
    fn perturbation_norm(&self) -> f64 {
        self.relative_perturbation() + self.rounding.powi(2) + 2.0 * self.factor
    }

    /// The part of the radius after a step that another step would remove, given the norm of the residual.
    pub fn next_step_reduction(&self, norm: f64) -> f64 {
        self.perturbation_norm() * norm / (1.0 - self.relative_perturbation())
    }

    /// Upper bound on `√(rᵀA⁻¹r)` divided by `√(rᵀ(LLᵀ)⁻¹r)`.
    pub fn norm_ratio(&self) -> f64 {
        1.0 / (1.0 - self.relative_perturbation() - 2.0 * self.factor).max(f64::MIN_POSITIVE).sqrt()
    }

    /// Certificate for coefficients without a correction, from their measured residual. `norms` are
    /// `√(rᵀ(LLᵀ)⁻¹r)`, one per target.
    pub fn as_measured(&self, measured: &ResidualMeasurement<'_>, norms: &[f64]) -> Certificate {
        let radius = |o: usize| {
            let (row_error, other_errors) = measured.errors(o);
            let residual_norm =
                self.norm_ratio() * (norms[o] + other_errors / self.min_eigenvalue.sqrt()) + row_error;
            residual_norm * self.norm_ratio()
        };
        self.certified(measured.plan, radius)
    }

    fn certified(&self, plan: &FitPlan, radius: impl Fn(usize) -> f64) -> Certificate {
        let radius: Vec<f64> = (0..plan.targets.len()).map(radius).collect();
        let max_leverage = (plan.bound.powi(2) * (plan.size() as f64 - 1.0) + 1.0) / self.min_eigenvalue;
        let anywhere = radius.iter().map(|r| r * max_leverage.sqrt()).collect();
        Certificate { radius: Some(radius), anywhere, rounding: Vec::new() }
    }

    /// Certificate after a correction by residuals. The remaining error is the error of the residuals, and a
    /// share [`perturbation_norm`](Self::perturbation_norm) of the residuals. `norms` are `√(rᵀÂ⁻¹r)`, one
    /// per target.
    pub fn after_step(&self, measured: &ResidualMeasurement<'_>, norms: &[f64]) -> Certificate {
        let radius = |o: usize| {
            let (row_error, other_errors) = measured.errors(o);
            let residual_error =
                (1.0 + self.rounding) * row_error + other_errors / self.min_eigenvalue.sqrt();
            // Rounding error of the corrected coefficients, in the norm of Â.
            let theta = measured.coefficients.column(o);
            let stored = UNIT * 2.0 * dot(&theta, &theta).sqrt() * self.trace.sqrt();
            (residual_error + self.perturbation_norm() * norms[o]) / (1.0 - self.relative_perturbation())
                + stored
        };
        self.certified(measured.plan, radius)
    }
}

/// Coefficients with their measured residual.
pub(super) struct ResidualMeasurement<'m> {
    pub plan: &'m FitPlan,
    pub rows: u64,
    /// The sum of the weights.
    pub weight: f64,
    pub ridge: f64,
    /// (Landmarks and constant) × targets.
    pub coefficients: &'m Matrix,
    /// `Σ e²`, one number per target.
    pub squares: &'m [f64],
    /// Error of kernel values by the fast method, relative to the kernel's bound.
    pub kernel_precision: f64,
}

impl ResidualMeasurement<'_> {
    /// Bounds on two errors of the residual of target `o`. The first one is the norm of an error in e: it
    /// enters as `Kᵀe`, and K doesn't increase norms with respect to `A⁻¹`. The second one is the norm of the
    /// other errors.
    fn errors(&self, o: usize) -> (f64, f64) {
        let (plan, theta) = (self.plan, self.coefficients);
        let (n, p, weight) =
            (self.rows as f64, plan.size() as f64, plan.largest_weight.unwrap_or(1.0).sqrt());
        let size: f64 = (0..theta.rows()).map(|j| plan.feature_bound(j) * theta[(j, o)].abs()).sum();
        let target = plan.targets[o].unit;
        // Predictions are sums of 64 products, and then of these sums; residuals are rounded to 42 bits.
        let row_error = UNIT * (70.0 + p / 64.0) * (size + 2.0 * target)
            + self.kernel_precision * size
            + 0.5_f64.powi(2 * FRACTION_BITS + 1) * target;
        // Kernel values are rounded to 42 bits, and the penalty's part is computed in double precision.
        // Squares are of residuals with 21 bits.
        let length = self.squares[o].sqrt() + 0.5_f64.powi(FRACTION_BITS + 1) * target * n.sqrt() * weight;
        let kernel = (plan.rounding(self.rows, 2)
            + self.kernel_precision * plan.bound * (n * p).sqrt() * weight)
            * length;
        let penalty = UNIT * (p + 4.0) * self.ridge * plan.bound * size * p.sqrt();
        (n.sqrt() * weight * row_error, kernel + penalty)
    }

    /// Certificate for unchanged coefficients from the residual of the normal equations, without the rounded
    /// statistics; `None` where landmarks are nearly linearly dependent. Cost O(landmarks³).
    pub fn certify_directly(&self, residual: &Matrix, intercept: bool) -> Result<Option<Certificate>> {
        let plan = self.plan;
        let (m, t) = (plan.landmarks.rows(), plan.targets.len());
        let gram = plan.kernel.gram(&plan.landmarks);
        let trace = gram.trace();
        let factor = Cholesky::new(gram, "kernel matrix of the landmarks")?;
        let min_eigenvalue = least_eigenvalue(&factor, trace);
        let share = 3.0 * (m + 4) as f64 * UNIT * trace / min_eigenvalue;
        if factor.jitter > 0.0 || min_eigenvalue <= 0.0 || share.is_nan() || share > 0.5 {
            return Ok(None);
        }
        // A is at least `scale ‖f‖² + constant b²`.
        // Square roots of weights are rounded to 21 bits.
        let weight = 0.99 * self.weight;
        let scale = if intercept { self.ridge / 2.0 } else { self.ridge };
        let constant = if intercept {
            self.ridge * weight / (2.0 * weight * plan.bound + self.ridge)
        } else {
            f64::INFINITY
        };
        let mut whitened = residual.first_rows(m);
        factor.solve_lower_in_place(&mut whitened);
        let function_bound = (plan.bound / scale + 1.0 / constant).sqrt();
        let anywhere = |o: usize| {
            let (row_error, other_errors) = self.errors(o);
            let column = whitened.column(o);
            let mut square = dot(&column, &column) / (scale * (1.0 - share));
            if intercept {
                square += residual[(m, o)].powi(2) / constant;
            }
            let lowest = (scale * min_eigenvalue * 0.99).min(constant);
            function_bound * (square.sqrt() + row_error + other_errors / lowest.sqrt())
        };
        Ok(Some(Certificate { radius: None, anywhere: (0..t).map(anywhere).collect(), rounding: Vec::new() }))
    }
}

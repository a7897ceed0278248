//! The collapsed bound of a sparse Gaussian process, computed from the sufficient statistics of the rows. The
//! values at the inducing points are integrated out.
//!
//! X are the n rows with targets `y` (n × t), Z the m inducing points. With the noise variances `N = σ²W⁻¹`
//! (n × n, W diagonal), `K_ZZ = LLᵀ` (m × m), `K̂ = K_XZ K_ZZ⁻¹ K_ZX` (n × n), `T = L⁻¹K_ZX N⁻¹ K_XZ L⁻ᵀ` (m
//! × m), `Λ = I + T`, `c = L⁻¹K_ZX N⁻¹ y` (m × t) and the unexplained prior variance of the rows in units of
//! the noise variances, `τ = tr N⁻¹(K - K̂)`:
//!
//! ```text
//! lower = log N(y; 0, K̂ + N) - τ/2                                                    (Titsias 2009)
//! upper = -½ yᵀ(K̂ + (1 + τ)N)⁻¹y - ½ log det(K̂ + N) - n/2 log 2π                     (Titsias 2014)
//! α = L⁻ᵀΛ⁻¹c,   Q = L⁻ᵀ(I - Λ⁻¹)L⁻¹
//! ```
//!
//! The upper bound holds because `K̂ + N ≼ K + N ≼ K̂ + (1 + τ)N`: no eigenvalue of `N^-½(K - K̂)N^-½`
//! exceeds their sum τ. With Λ all factorised matrices are m × m. Several targets are independent, and their
//! bounds are added.

use super::sufficient_statistics::WhitenedSums;
use crate::error::{Error, Result};
use crate::gp::exact::check_evidence;
use crate::gp::whitened_inducing::{WhitenedInducing, posterior_precision};
use crate::linalg::{Cholesky, Matrix, dot};

/// The name of the bounds in error messages.
const SUBJECT: &str = "the evidence through inducing points";

/// The collapsed bound for one kernel and noise.
pub(super) struct CollapsedBound {
    pub points: WhitenedInducing,
    /// α, m × t.
    pub alpha: Matrix,
    /// The lower bound.
    pub value: f64,
    /// T, m × m.
    pub information: Matrix,
    /// c, m × t.
    targets: Matrix,
    /// `tr yᵀN⁻¹y`.
    target_norm: f64,
    /// `t log det 2π(K̂ + N)`.
    log_det_term: f64,
    /// τ.
    trace_residual: f64,
    /// Cholesky factor of Λ.
    lambda: Cholesky,
    /// `Λ⁻¹c`.
    whitened_mean: Matrix,
}

/// The gradient of the bound in the kernel values. The gradient in `K_XZ` is `N⁻¹(yαᵀ + K_XZ rows)`, the
/// gradient in `K_ZZ` is `L⁻ᵀ points L⁻¹`, and the derivative in `k(x_i, x_i)` is `-t/2 N_ii⁻¹`.
pub(super) struct BoundAdjoint {
    /// `t Q - ααᵀ`.
    pub rows: Matrix,
    pub points: Matrix,
}

impl CollapsedBound {
    /// Computes the bound. Cost O(m³).
    pub fn new(points: WhitenedInducing, WhitenedSums(sums): WhitenedSums, noise: f64) -> Result<Self> {
        let (mut information, mut targets) = (sums.gram, sums.targets);
        [&mut information, &mut targets]
            .into_iter()
            .for_each(|m| m.data_mut().iter_mut().for_each(|v| *v /= noise));
        let (m, t) = (information.rows(), targets.cols() as f64);
        let matrix = "information matrix of the inducing points";
        let lambda = posterior_precision(&information, matrix)?;
        if lambda.jitter > 0.0 {
            // A negative eigenvalue is a rounding error, because T is positive semidefinite; jitter would
            // hide it.
            return Err(Error::NotPositiveDefinite { matrix, size: m, jitter: points.jitter });
        }
        let whitened_mean = lambda.solve(targets.clone());
        let mut alpha = whitened_mean.clone();
        points.factor.solve_upper_in_place(&mut alpha);
        let target_norm = sums.squares / noise;
        let explained = information.trace();
        // The variance that errors of the kernel values may appear to explain. A negative difference is a
        // rounding error.
        let rounding_variance = sums.rows as f64 * sums.rounding * (m as f64).sqrt() / noise;
        let trace_residual = (sums.prior / noise - explained).max(0.0) + rounding_variance;
        let log_term_per_row = (std::f64::consts::TAU * noise).ln();
        let log_det_term = t * (lambda.log_det() + sums.rows as f64 * log_term_per_row - sums.log_weights);
        let square = target_norm - dot(targets.data(), whitened_mean.data());
        let value = -0.5 * (square + log_det_term + t * trace_residual);
        check_evidence(value, SUBJECT)?;
        Ok(Self {
            points,
            alpha,
            value,
            information,
            targets,
            target_norm,
            log_det_term,
            trace_residual,
            lambda,
            whitened_mean,
        })
    }

    /// Computes the upper bound. Cost O(m³).
    pub fn upper_bound(&self) -> Result<f64> {
        let larger = 1.0 + self.trace_residual;
        let mut sum = self.information.clone();
        sum.add_diagonal(|_| larger);
        let solved =
            Cholesky::new(sum, "information matrix of the inducing points")?.solve(self.targets.clone());
        let square = (self.target_norm - dot(self.targets.data(), solved.data())) / larger;
        let value = -0.5 * (square + self.log_det_term);
        check_evidence(value, SUBJECT)?;
        Ok(value)
    }

    /// Computes the adjoint of the bound. Cost O(m³).
    pub fn adjoint(&self) -> BoundAdjoint {
        let t = self.alpha.cols() as f64;
        let inverse = self.lambda.inverse();
        let mut points = self.whitened_mean.matmul(&self.whitened_mean.transpose());
        for ((v, information), inverse) in
            points.data_mut().iter_mut().zip(self.information.data()).zip(inverse.data())
        {
            *v = -0.5 * (*v + t * (information + inverse));
        }
        // Λ - 2I + Λ⁻¹ is T - I + Λ⁻¹.
        points.add_diagonal(|_| 0.5 * t);
        let mut rows = inverse;
        rows.scale(-t);
        rows.add_diagonal(|_| t);
        self.points.factor.solve_upper_in_place(&mut rows);
        self.points.factor.solve_upper_right(&mut rows);
        let mean = self.alpha.matmul(&self.alpha.transpose());
        rows.add_times(-1.0, &mean);
        BoundAdjoint { rows, points }
    }
}

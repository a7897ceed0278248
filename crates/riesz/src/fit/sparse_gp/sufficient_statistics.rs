//! Sufficient statistics of the training rows for a sparse Gaussian process: K_ZX W K_XZ, K_ZX W y and their
//! scalars.

use crate::error::Error;
use crate::linalg::{Cholesky, Matrix};

/// Sums over n rows X with targets y (n × t), of which m inducing points Z make a sparse Gaussian process:
/// however many rows there are, in one go or in parts that are added up. W is a diagonal matrix of weights,
/// all 1 where the noise of all rows is the same.
#[derive(Debug, Clone)]
pub struct KernelSums {
    /// `S = K_ZX W K_XZ`, m × m.
    pub gram: Matrix,
    /// `b = K_ZX W y`, m × t.
    pub targets: Matrix,
    /// `tr yᵀWy`: of all targets together.
    pub squares: f64,
    /// `Σ_i w_i k(x_i, x_i)`.
    pub prior: f64,
    /// `Σ_i log w_i`.
    pub log_weights: f64,
    /// n.
    pub rows: usize,
    /// A bound on the error of each kernel value in the sums; 0 for doubles, whose rounding is known. Bounds
    /// account for the amplification by `K_ZZ⁻¹`, n r √m/σ² nats for r.
    pub rounding: f64,
}

/// Sums over whitened kernels, `L⁻¹SL⁻ᵀ` and `L⁻¹b` with `K_ZZ = LLᵀ`.
#[derive(Debug, Clone)]
pub(super) struct WhitenedSums(pub KernelSums);

impl KernelSums {
    /// No rows yet.
    pub fn zeros(points: usize, targets: usize) -> Self {
        Self {
            gram: Matrix::zeros(points, points),
            targets: Matrix::zeros(points, targets),
            squares: 0.0,
            prior: 0.0,
            log_weights: 0.0,
            rows: 0,
            rounding: 0.0,
        }
    }

    /// Whitens by the factor of the points' kernel matrix.
    pub(super) fn whitened(mut self, factor: &Cholesky) -> WhitenedSums {
        factor.solve_lower_in_place(&mut self.gram);
        factor.solve_lower_right(&mut self.gram);
        self.gram.mirror_upper();
        factor.solve_lower_in_place(&mut self.targets);
        WhitenedSums(self)
    }
}

impl WhitenedSums {
    /// Adds rows: their whitened kernels `L⁻¹k(Z, x_i)` as rows of `whitened`, their targets, both times the
    /// roots of the weights, and their prior variances times the weights.
    pub fn add(&mut self, whitened: &Matrix, targets: &Matrix, prior: f64, log_weights: f64) {
        let Self(sums) = self;
        let add = |to: &mut Matrix, increment: Matrix| {
            to.data_mut().iter_mut().zip(increment.data()).for_each(|(to, value)| *to += value);
        };
        add(&mut sums.gram, whitened.gram_of_columns());
        add(&mut sums.targets, whitened.transpose_matmul(targets));
        sums.squares += crate::linalg::dot(targets.data(), targets.data());
        sums.prior += prior;
        sums.log_weights += log_weights;
        sums.rows += whitened.rows();
    }
}

/// The error for a bound that is not finite.
pub(super) fn overflow() -> Error {
    let subject = "the evidence through inducing points".into();
    Error::Overflow { subject, remedy: "check the kernel's parameters and the noise" }
}

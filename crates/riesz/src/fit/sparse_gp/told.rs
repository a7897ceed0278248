//! What rows tell inducing points, as sums over them.

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
    /// By how much each kernel value that was summed up may be off; 0 for doubles, whose rounding is known.
    /// Bounds count what rounding makes of `K_ZZ⁻¹`, n r √m/σ² nats for r.
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

    /// By points whose kernel matrix has this factor.
    pub(super) fn whitened(mut self, factor: &Cholesky) -> WhitenedSums {
        factor.solve_lower_in_place(&mut self.gram);
        factor.solve_lower_right(&mut self.gram);
        self.gram.mirror_upper();
        factor.solve_lower_in_place(&mut self.targets);
        WhitenedSums(self)
    }
}

impl WhitenedSums {
    /// Adds rows: their whitened kernels `L⁻¹k(Z, x_i)` as rows of `half`, their targets, both times the
    /// roots of the weights, and their prior variances times the weights.
    pub fn add(&mut self, half: &Matrix, targets: &Matrix, prior: f64, log_weights: f64) {
        let Self(sums) = self;
        let add = |to: &mut Matrix, more: Matrix| {
            to.data_mut().iter_mut().zip(more.data()).for_each(|(to, more)| *to += more);
        };
        add(&mut sums.gram, half.gram_of_columns());
        add(&mut sums.targets, half.transpose_matmul(targets));
        sums.squares += crate::linalg::dot(targets.data(), targets.data());
        sums.prior += prior;
        sums.log_weights += log_weights;
        sums.rows += half.rows();
    }
}

/// What is not finite in a bound.
pub(super) fn overflow() -> Error {
    let what = "the evidence through inducing points".into();
    Error::Overflow { what, remedy: "check the kernel's parameters and the noise" }
}

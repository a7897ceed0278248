//! Sufficient statistics of the training rows for a sparse Gaussian process: K_ZX W K_XZ, K_ZX W y and their
//! scalars.

use crate::linalg::{Cholesky, Matrix};

/// Sufficient statistics of n rows X with targets y (n × t) for a sparse Gaussian process with m inducing
/// points Z. Their size does not depend on n, and statistics of parts of the rows add up. The diagonal matrix
/// W (n × n) holds the weights of the rows; all are 1 if the noise has the same variance at all rows.
#[derive(Debug, Clone)]
pub struct KernelSums {
    /// `S = K_ZX W K_XZ`, m × m.
    pub gram: Matrix,
    /// `b = K_ZX W y`, m × t.
    pub targets: Matrix,
    /// `tr yᵀWy`, summed over all targets.
    pub squares: f64,
    /// `Σ_i w_i k(x_i, x_i)`.
    pub prior: f64,
    /// `Σ_i log w_i`.
    pub log_weights: f64,
    /// Number of rows, n.
    pub rows: usize,
    /// A bound r on the error of each kernel value in the sums; 0 for double precision, whose rounding error
    /// is known. The bounds of the evidence include its amplification by `K_ZZ⁻¹`: they widen by n r √m/σ²
    /// nats.
    pub rounding: f64,
}

/// Statistics of whitened kernel values: `L⁻¹SL⁻ᵀ` and `L⁻¹b` with `K_ZZ = LLᵀ`.
#[derive(Debug, Clone)]
pub(super) struct WhitenedSums(pub KernelSums);

impl KernelSums {
    /// Returns the statistics of no rows, all zero.
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

    /// Whitens the statistics with the Cholesky factor L of `K_ZZ`.
    pub(super) fn whitened(mut self, factor: &Cholesky) -> WhitenedSums {
        factor.solve_lower_in_place(&mut self.gram);
        factor.solve_lower_right(&mut self.gram);
        self.gram.mirror_upper();
        factor.solve_lower_in_place(&mut self.targets);
        WhitenedSums(self)
    }
}

impl WhitenedSums {
    /// Adds rows. `whitened` holds their whitened kernel values `L⁻¹k(Z, x_i)` as rows; these and `targets`
    /// are multiplied by the square roots of the weights. `prior` is the weighted sum of the prior variances.
    pub fn add(&mut self, whitened: &Matrix, targets: &Matrix, prior: f64, log_weights: f64) {
        let Self(sums) = self;
        sums.gram.add_times(1.0, &whitened.gram_of_columns());
        sums.targets.add_times(1.0, &whitened.transpose_matmul(targets));
        sums.squares += crate::linalg::dot(targets.data(), targets.data());
        sums.prior += prior;
        sums.log_weights += log_weights;
        sums.rows += whitened.rows();
    }
}

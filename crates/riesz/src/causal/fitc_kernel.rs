//! Approximation of the gram matrix of many rows through a few points (FITC). It is a matrix of low rank plus
//! the variance of each row that the points leave unexplained.

use crate::error::Result;
use crate::gp::whitened_inducing::WhitenedInducing;
use crate::linalg::{Cholesky, Matrix};

/// The approximation `KᵀK̂⁻¹K + diag(residual variances)` (n × n) of the gram matrix of n rows. `K̂` (m × m)
/// is the gram matrix of the points, and K (m × n) the kernel matrix between points and rows.
#[derive(Debug, Clone)]
pub(super) struct FitcKernel {
    /// The Cholesky factor L of `K̂ = LLᵀ`.
    pub factor: Cholesky,
    /// The variances of the rows that the points leave unexplained.
    pub residual_variances: Vec<f64>,
}

impl FitcKernel {
    /// Computes the approximation from `K̂`, K and the kernel of each row with itself. Also returns `L⁻¹K` (m
    /// × n). Cost n m².
    pub fn new(gram: Matrix, with_rows: Matrix, diagonal: &[f64]) -> Result<(Self, Matrix)> {
        let factor = WhitenedInducing::from_gram(gram, 0.0)?.factor;
        let mut whitened = with_rows;
        factor.solve_lower_in_place(&mut whitened);
        let mut residual_variances = diagonal.to_vec();
        for a in 0..whitened.rows() {
            residual_variances.iter_mut().zip(whitened.row(a)).for_each(|(variance, v)| *variance -= v * v);
        }
        // Negative values are rounding errors.
        residual_variances.iter_mut().for_each(|v| *v = v.max(0.0));
        Ok((Self { factor, residual_variances }, whitened))
    }

    /// Returns `E (KᵀK̂⁻¹K + diag(residual variances)) Eᵀ` for `weights` E (queries × rows). `columns` is
    /// `K Eᵀ`.
    pub fn weighted_quadratic_form(&self, weights: &Matrix, columns: &Matrix) -> Matrix {
        let mut quadratic_form = self.factor.inverse_quadratic_form(columns.clone());
        let mut scaled_weights = weights.transpose();
        scaled_weights.scale_rows(self.residual_variances.iter().map(|variance| variance.sqrt()));
        let residual_part = scaled_weights.transpose_matmul(&scaled_weights);
        quadratic_form.add_times(1.0, &residual_part);
        quadratic_form
    }

    /// Returns the mean over rows of the residual variance's share in its sum with `noise`.
    pub fn unexplained_share(&self, noise: f64) -> f64 {
        self.residual_variances.iter().map(|variance| variance / (variance + noise)).sum::<f64>()
            / self.residual_variances.len() as f64
    }
}

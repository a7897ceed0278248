//! A kernel between many rows through few points: of low rank but for what points leave unexplained of each
//! row, which is its own.

use crate::error::Result;
use crate::linalg::{Cholesky, Matrix};

/// Added to the diagonal of the points' kernel matrix, relative to its mean.
const JITTER: f64 = 1e-10;

/// `KᵀK̂⁻¹K + diag(gaps)`, of the kernel matrix `K̂` of points and K between points and rows.
#[derive(Debug, Clone)]
pub(super) struct FitcKernel {
    /// L of `K̂ = LLᵀ`.
    pub factor: Cholesky,
    /// What points leave unexplained of rows' variances.
    pub residual_variances: Vec<f64>,
}

impl FitcKernel {
    /// By `K̂`, K and the kernel of each row with itself; and `L⁻¹K`. Cost n m² for n rows and m points.
    pub fn new(mut gram: Matrix, with_rows: Matrix, diagonal: &[f64]) -> Result<(Self, Matrix)> {
        let m = gram.rows();
        let level = (0..m).map(|i| gram[(i, i)]).sum::<f64>() / m as f64;
        gram.add_diagonal(|_| JITTER * level);
        let factor = Cholesky::new(gram, "kernel matrix of the landmarks")?;
        let mut half = with_rows;
        factor.solve_lower_in_place(&mut half);
        let mut gaps = diagonal.to_vec();
        for a in 0..m {
            gaps.iter_mut().zip(half.row(a)).for_each(|(own, v)| *own -= v * v);
        }
        // Less than 0 is rounding.
        gaps.iter_mut().for_each(|v| *v = v.max(0.0));
        Ok((Self { factor, residual_variances: gaps }, half))
    }

    /// `E (KᵀK̂⁻¹K + diag(gaps)) Eᵀ` of weights E on rows, by these and `K Eᵀ`.
    pub fn weighted_quadratic_form(&self, weights: &Matrix, columns: &Matrix) -> Matrix {
        let mut half = columns.clone();
        self.factor.solve_lower_in_place(&mut half);
        let mut around = half.transpose_matmul(&half);
        let mut own = weights.transpose();
        for (i, gap) in self.residual_variances.iter().enumerate() {
            let root = gap.sqrt();
            own.row_mut(i).iter_mut().for_each(|v| *v *= root);
        }
        let own = own.transpose_matmul(&own);
        around.data_mut().iter_mut().zip(own.data()).for_each(|(v, own)| *v += own);
        around
    }

    /// The mean share of gaps in a noise that they add to.
    pub fn unexplained_share(&self, noise: f64) -> f64 {
        self.residual_variances.iter().map(|gap| gap / (gap + noise)).sum::<f64>()
            / self.residual_variances.len() as f64
    }
}

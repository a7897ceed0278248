//! A kernel between many rows through a few points: of low rank, plus the variance of each row that the
//! points leave unexplained (FITC).

use crate::error::Result;
use crate::linalg::{Cholesky, Matrix};

/// Added to the diagonal of the points' kernel matrix, relative to its mean.
const JITTER: f64 = 1e-10;

/// `KᵀK̂⁻¹K + diag(gaps)`, of the kernel matrix `K̂` of points and K between points and rows.
#[derive(Debug, Clone)]
pub(super) struct FitcKernel {
    /// L of `K̂ = LLᵀ`.
    pub factor: Cholesky,
    /// Variances of the rows that the points leave unexplained.
    pub residual_variances: Vec<f64>,
}

impl FitcKernel {
    /// The approximation from `K̂`, K and the kernel of each row with itself; also returns `L⁻¹K`. Cost n m²
    /// for n rows and m points.
    pub fn new(mut gram: Matrix, with_rows: Matrix, diagonal: &[f64]) -> Result<(Self, Matrix)> {
        let m = gram.rows();
        let level = (0..m).map(|i| gram[(i, i)]).sum::<f64>() / m as f64;
        gram.add_diagonal(|_| JITTER * level);
        let factor = Cholesky::new(gram, "kernel matrix of the landmarks")?;
        let mut whitened = with_rows;
        factor.solve_lower_in_place(&mut whitened);
        let mut gaps = diagonal.to_vec();
        for a in 0..m {
            gaps.iter_mut().zip(whitened.row(a)).for_each(|(residual, v)| *residual -= v * v);
        }
        // Less than 0 is rounding.
        gaps.iter_mut().for_each(|v| *v = v.max(0.0));
        Ok((Self { factor, residual_variances: gaps }, whitened))
    }

    /// `E (KᵀK̂⁻¹K + diag(residual variances)) Eᵀ` for weights E on rows; `columns` is `K Eᵀ`.
    pub fn weighted_quadratic_form(&self, weights: &Matrix, columns: &Matrix) -> Matrix {
        let mut whitened = columns.clone();
        self.factor.solve_lower_in_place(&mut whitened);
        let mut quadratic_form = whitened.transpose_matmul(&whitened);
        let mut scaled_weights = weights.transpose();
        for (i, gap) in self.residual_variances.iter().enumerate() {
            let root = gap.sqrt();
            scaled_weights.row_mut(i).iter_mut().for_each(|v| *v *= root);
        }
        let residual_part = scaled_weights.transpose_matmul(&scaled_weights);
        quadratic_form
            .data_mut()
            .iter_mut()
            .zip(residual_part.data())
            .for_each(|(v, residual)| *v += residual);
        quadratic_form
    }

    /// The mean share of gaps in a noise that they add to.
    pub fn unexplained_share(&self, noise: f64) -> f64 {
        self.residual_variances.iter().map(|gap| gap / (gap + noise)).sum::<f64>()
            / self.residual_variances.len() as f64
    }
}

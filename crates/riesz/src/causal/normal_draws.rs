//! Draws from normal distributions with a given covariance.

use crate::error::Result;
use crate::linalg::{Cholesky, Matrix};
use crate::random::{Random, RngExt, StandardNormal};

/// Returns independent normal draws with a covariance, one per column. The covariance may be a difference of
/// matrices whose diagonals are of size `scale`, so that only rounding errors may remain.
pub(super) fn normal_draws(
    covariance: Matrix,
    scale: f64,
    draws: usize,
    matrix_name: &'static str,
    random: &mut Random,
) -> Result<Matrix> {
    let n = covariance.rows();
    let factor = Cholesky::with_jitter_scale(covariance, scale.max(1e-200), matrix_name)?;
    let normals = (0..n * draws).map(|_| random.sample(StandardNormal)).collect();
    Ok(factor.lower_times(&Matrix::from_row_major(n, draws, normals)))
}

/// Returns the mean of the diagonal.
pub(super) fn mean_diagonal(m: &Matrix) -> f64 {
    (0..m.rows()).map(|i| m[(i, i)]).sum::<f64>() / m.rows().max(1) as f64
}

//! Draws from normal distributions with a given covariance.

use super::uncertainty_parts::{CovarianceParts, sum_parts};
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

/// Returns normal draws of effects with these means and covariances, one per column.
pub(super) fn effect_draws(
    means: Vec<f64>,
    parts: &CovarianceParts,
    draws: usize,
    random: &mut Random,
) -> Result<Matrix> {
    let covariance = sum_parts(parts, means.len());
    let scale = covariance.mean_diagonal();
    let mut out = normal_draws(covariance, scale, draws, "covariance of the effect", random)?;
    out.add_outer(means, &vec![1.0; draws]);
    Ok(out)
}

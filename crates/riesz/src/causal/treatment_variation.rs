//! Residual variation of treatments given covariates, by least squares on the covariates, their squares and
//! products.

use crate::error::Result;
use crate::linalg::{Matrix, mean, symmetric_eigen};
use crate::table::{ColumnKind, Table};

/// Share of a treatment's variance below which its effect is hard to separate from that of the covariates.
pub(super) const NEARLY_DETERMINED: f64 = 0.1;

/// Share of the largest eigenvalue below which a direction of the features is rounding error.
const ROUNDING: f64 = 1e-12;

/// Returns the share of a treatment's variance that covariates leave unexplained, corrected for degrees of
/// freedom. For a categorical treatment it is the share for the indicators of its levels together. Cost O(n
/// p⁴) for p covariates.
///
/// # Errors
/// Errors of [`symmetric_eigen`].
pub(super) fn residual_treatment_variance(treatment: &Table, covariates: &Table) -> Result<f64> {
    let n = treatment.rows();
    let linear: Vec<Vec<f64>> = (0..covariates.width()).flat_map(|j| indicators(covariates, j, 1)).collect();
    let pairs = linear.len() * (linear.len() + 1) / 2;
    let mut features = linear.clone();
    // With fewer than three rows per feature, products would overfit.
    if 3 * (pairs + linear.len() + 1) <= n {
        for (i, a) in linear.iter().enumerate() {
            features.extend(
                linear[..=i].iter().map(|b| a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<f64>>()),
            );
        }
    }
    let features: Vec<Vec<f64>> = features.into_iter().filter_map(|feature| standardised(&feature)).collect();
    let design = Matrix::from_columns(n, &features);
    let design_transpose = design.transpose();
    let (values, vectors) = symmetric_eigen(&design_transpose.matmul(&design))?;
    let largest = values.last().copied().unwrap_or(0.0);
    let kept: Vec<usize> = (0..values.len()).filter(|&k| values[k] > ROUNDING * largest).collect();
    let (mut unexplained, mut total_variance) = (0.0, 0.0);
    for indicator in indicators(treatment, 0, 0) {
        let mean = mean(&indicator);
        let centered: Vec<f64> = indicator.iter().map(|v| v - mean).collect();
        let cross_products = design_transpose.matvec(&centered);
        let total: f64 = centered.iter().map(|v| v * v).sum();
        let explained: f64 = kept
            .iter()
            .map(|&k| {
                let projection: f64 =
                    cross_products.iter().enumerate().map(|(j, v)| v * vectors[(j, k)]).sum();
                projection * projection / values[k]
            })
            .sum();
        unexplained += (total - explained).max(0.0);
        total_variance += total;
    }
    Ok(unexplained / total_variance * n as f64 / n.saturating_sub(kept.len() + 1).max(1) as f64)
}

/// Returns a column as numbers: standardised, or as indicators of its levels except the first `skipped`.
fn indicators(table: &Table, j: usize, skipped: usize) -> Vec<Vec<f64>> {
    match &table.columns()[j].kind {
        ColumnKind::Numeric => standardised(table.column(j)).into_iter().collect(),
        ColumnKind::Categorical { levels } => {
            (skipped..levels.len()).map(|level| table.indicator(j, level)).collect()
        }
    }
}

/// Scales values to mean 0 and variance 1; `None` for a constant.
fn standardised(values: &[f64]) -> Option<Vec<f64>> {
    let (mean, variance) = crate::kernel::mean_variance(values);
    (variance > 0.0).then(|| values.iter().map(|v| (v - mean) / variance.sqrt()).collect())
}

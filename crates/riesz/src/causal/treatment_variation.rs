//! How much of treatments covariates leave open, as least squares on these, their squares and products tell.

use crate::error::Result;
use crate::linalg::{Matrix, symmetric_eigen};
use crate::table::{ColumnKind, Table};

/// Treatments of whose variance covariates leave less are hardly told apart from these.
pub(super) const NEARLY_DETERMINED: f64 = 0.1;

/// Directions of features whose variance is a smaller share of the largest are rounding.
const ROUNDING: f64 = 1e-12;

/// The share of a treatment's variance that covariates leave, with degrees of freedom counted; of a
/// categorical one that of the indicators of its levels together. Cost O(n p⁴) for p covariates.
///
/// # Errors
/// As [`symmetric_eigen`].
pub(super) fn residual_treatment_variance(treatment: &Table, covariates: &Table) -> Result<f64> {
    let n = treatment.rows();
    let linear: Vec<Vec<f64>> = (0..covariates.width()).flat_map(|j| indicators(covariates, j, 1)).collect();
    let pairs = linear.len() * (linear.len() + 1) / 2;
    let mut features = linear.clone();
    // With fewer rows than three a feature, products would fit anything.
    if 3 * (pairs + linear.len() + 1) <= n {
        for (i, a) in linear.iter().enumerate() {
            features.extend(
                linear[..=i].iter().map(|b| a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<f64>>()),
            );
        }
    }
    let features: Vec<Vec<f64>> = features.into_iter().filter_map(|own| standard(&own)).collect();
    let p = features.len();
    let columns: Vec<f64> = (0..n).flat_map(|i| features.iter().map(move |own| own[i])).collect();
    let design = Matrix::from_row_major(n, p, columns);
    let across = design.transpose();
    let (values, vectors) = symmetric_eigen(&across.matmul(&design))?;
    let largest = values.last().copied().unwrap_or(0.0);
    let kept: Vec<usize> = (0..p).filter(|&k| values[k] > ROUNDING * largest).collect();
    let (mut open, mut all) = (0.0, 0.0);
    for own in indicators(treatment, 0, 0) {
        let mean = own.iter().sum::<f64>() / n as f64;
        let own: Vec<f64> = own.iter().map(|v| v - mean).collect();
        let with = across.matvec(&own);
        let total: f64 = own.iter().map(|v| v * v).sum();
        let told: f64 = kept
            .iter()
            .map(|&k| {
                let along: f64 = with.iter().enumerate().map(|(j, v)| v * vectors[(j, k)]).sum();
                along * along / values[k]
            })
            .sum();
        open += (total - told).max(0.0);
        all += total;
    }
    Ok(open / all * n as f64 / n.saturating_sub(kept.len() + 1).max(1) as f64)
}

/// A column as numbers: centred by its mean, or as indicators of its levels but the first `without`.
fn indicators(table: &Table, j: usize, without: usize) -> Vec<Vec<f64>> {
    let own = table.column(j);
    match &table.columns()[j].kind {
        ColumnKind::Numeric => standard(own).into_iter().collect(),
        ColumnKind::Categorical { levels } => (without..levels.len())
            .map(|k| own.iter().map(|v| f64::from(u8::from(*v == k as f64))).collect())
            .collect(),
    }
}

/// With mean 0 and variance 1; nothing of what does not vary.
fn standard(own: &[f64]) -> Option<Vec<f64>> {
    let (mean, variance) = crate::kernel::mean_variance(own);
    (variance > 0.0).then(|| own.iter().map(|v| (v - mean) / variance.sqrt()).collect())
}

//! A check of the assumption that treatments and covariates do not interact: how much larger standard
//! deviations of contrasts are without it.
//!
//! Where covariates nearly determine a treatment, rows hardly distinguish an interaction from a curved effect
//! of either. The band of an effect is then narrow only because the model has no interaction.

use super::defaults::{MAX_TUNING_ROWS, evenly_spaced};
use super::outcome_gp::OutcomeGpParameters;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Sparse};
use crate::posterior::{cross_covariance_of_sums, prior_covariance_of_sums};
use crate::table::Table;

/// The number of treatments whose contrasts are compared, and the number of rows whose covariates they are
/// averaged over.
const TREATMENTS: usize = 20;
const COVARIATES: usize = 100;

/// Returns how many times as large the standard deviations of contrasts of treatments are if `interactions`
/// are added to the kernel of the outcome. Treatments are the first `treatment_count` columns of `x`; the
/// effect is averaged over its other columns.
pub(super) fn interaction_factor(
    parameters: &OutcomeGpParameters,
    interactions: Kernel,
    x: &Table,
    treatment_count: usize,
) -> Result<f64> {
    let rows = x.select_rows(&evenly_spaced(MAX_TUNING_ROWS, x.rows()));
    let treatments = evenly_spaced(TREATMENTS, x.rows());
    let covariates = evenly_spaced(COVARIATES, x.rows());
    let (mut columns, count) = (Vec::new(), treatments.len() * covariates.len());
    for j in 0..x.width() {
        let treated = treatments.iter().flat_map(|q| covariates.iter().map(move |a| (*q, *a)));
        columns.extend(treated.map(|(q, a)| x.get(if j < treatment_count { q } else { a }, j)));
    }
    let queries = Table::from_column_major(x.columns().to_vec(), count, columns)?;
    let starts = (0..=treatments.len()).map(|q| q * covariates.len()).collect();
    let means = Sparse::new(count, starts, (0..count).collect(), vec![1.0 / covariates.len() as f64; count])?;
    let contrast_sd = |kernel: Kernel| -> Result<f64> {
        let kernel = kernel + Kernel::constant(parameters.intercept_variance.max(f64::MIN_POSITIVE));
        let mut covariance = kernel.gram(&rows);
        covariance.add_diagonal(|_| parameters.noise);
        let factor = Cholesky::new(covariance, "covariance of the outcome")?;
        let cross = cross_covariance_of_sums(&kernel, &rows, &queries, &means);
        let mut posterior = prior_covariance_of_sums(&kernel, &queries, &means);
        posterior.add_times(-1.0, &factor.inverse_quadratic_form(cross));
        // The mean over all pairs (i, j) of c_ii + c_jj - 2 c_ij.
        let (total, n) = (posterior.data().iter().sum::<f64>(), treatments.len() as f64);
        Ok((2.0 * (posterior.trace() - total / n) / n).max(0.0).sqrt())
    };
    Ok(contrast_sd(parameters.kernel.clone() + interactions)? / contrast_sd(parameters.kernel.clone())?)
}

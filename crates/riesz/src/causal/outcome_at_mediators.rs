//! The prior of an outcome at the mediators of a study's rows.

use super::fitc_kernel::FitcKernel;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Matrix, mean};
use crate::posterior::Functionals;
use crate::table::Table;

/// Kernel matrices of the outcome at the mediators of rows: between the outcome's points and rows, and
/// between rows.
#[derive(Debug, Clone)]
pub(super) struct OutcomeAtMediators {
    /// The kernel matrix, points × rows.
    pub cross_covariance: Matrix,
    mediator_kernel: MediatorKernel,
}

/// The kernel between mediators of rows.
#[derive(Debug, Clone)]
enum MediatorKernel {
    All(Matrix),
    /// Approximated through the outcome's points, if there are too many rows for all pairs.
    Points(FitcKernel),
}

impl OutcomeAtMediators {
    /// Computes the kernels of all pairs of rows, or approximates them through the outcome's points.
    pub fn new((points, kernel): (&Table, &Kernel), y: &Table, all_pairs: bool) -> Result<Self> {
        let with_points = kernel.cross_gram(points, y);
        if all_pairs {
            return Ok(Self {
                cross_covariance: with_points,
                mediator_kernel: MediatorKernel::All(kernel.gram(y)),
            });
        }
        let (fitc, _) = FitcKernel::new(kernel.gram(points), with_points.clone(), &kernel.diagonal(y))?;
        Ok(Self { cross_covariance: with_points, mediator_kernel: MediatorKernel::Points(fitc) })
    }

    /// Returns the mean share of the outcome's noise at rows that its points leave unexplained, in addition
    /// to the noise `noise`; 0 for all pairs.
    pub fn unexplained(&self, noise: f64) -> f64 {
        match &self.mediator_kernel {
            MediatorKernel::All(_) => 0.0,
            MediatorKernel::Points(fitc) => fitc.unexplained_share(noise),
        }
    }

    /// Returns functionals of the outcome: weighted sums over rows, with `weights` (functionals × rows), plus
    /// `constants` times the outcome's constant.
    pub fn weighted(&self, weights: &Matrix, constants: &[f64]) -> Functionals {
        let transposed = weights.transpose();
        let columns = self.cross_covariance.matmul(&transposed);
        let prior = match &self.mediator_kernel {
            MediatorKernel::All(gram) => weights.matmul(&gram.matmul(&transposed)),
            MediatorKernel::Points(fitc) => fitc.weighted_quadratic_form(weights, &columns),
        };
        Functionals { columns, prior_covariance: prior, constants: constants.to_vec() }
    }
}

/// Returns S and g such that `f₀(P)ᵀ S f₀(P) + g` is the mean of f₀² over rows. P are the outcome's points,
/// which determine f₀ up to residual variances.
///
/// # Errors
/// Errors of [`FitcKernel::new`].
pub(super) fn mean_square_form((points, kernel): (&Table, &Kernel), rows: &Table) -> Result<(Matrix, f64)> {
    let cross_gram = kernel.cross_gram(points, rows);
    let (fitc, mut whitened) = FitcKernel::new(kernel.gram(points), cross_gram, &kernel.diagonal(rows))?;
    let row_count = rows.rows() as f64;
    let mean_residual_variance = mean(&fitc.residual_variances);
    fitc.factor.solve_upper_in_place(&mut whitened);
    let mut form = whitened.matmul(&whitened.transpose());
    form.map_in_place(|v| v / row_count);
    Ok((form, mean_residual_variance))
}

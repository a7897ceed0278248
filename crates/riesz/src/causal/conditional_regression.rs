//! Regression of an embedding on rows: of covariates given some of them or given treatments, and of mediators
//! given treatments.

use super::defaults::{START_RIDGE, default_kernel, default_prior};
use super::kernel_regression::KernelRegression;
use super::product_kernel::{self, ColumnBlock};
use crate::control::RunControl;
use crate::error::Result;
use crate::fit::hyperparameter_search::{self, add_log_priors};
use crate::fit::inducing_points;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::Table;

/// Kernel and ridge that tell rows that are left out best.
#[derive(Debug, Clone)]
pub(super) struct EmbeddingRegression {
    pub kernel: Kernel,
    pub ridge: f64,
}

impl EmbeddingRegression {
    /// Regresses functions, given by the gram matrix `of` between them, on rows. Cost: some tens of
    /// evaluations of n³ each.
    pub fn new(rows: &Table, response_gram: &Matrix, control: RunControl<'_>) -> Result<Self> {
        let block = [ColumnBlock { kernel: default_kernel(rows), rows: rows.clone() }];
        let parameters = product_kernel::parameters(&block, START_RIDGE).into_iter();
        let coordinates: Vec<_> = parameters.map(|p| default_prior(p, false)).collect();
        let from: Vec<f64> = coordinates.iter().map(|c| c.parameter.log_value).collect();
        // As if errors were normal with a variance that is not known.
        let half_count = 0.5 * rows.rows() as f64;
        let optimum = hyperparameter_search::maximise_within_priors(&coordinates, &from, control, |theta| {
            let (block, ridge) = product_kernel::with_parameters(&block, theta);
            let (loss, mut slopes) = product_kernel::loo_loss(&block, ridge, response_gram)?;
            slopes.iter_mut().for_each(|slope| *slope *= -half_count / loss);
            Ok(add_log_priors(&coordinates, theta, (-half_count * loss.ln(), slopes)))
        })?;
        let (mut block, ridge) = product_kernel::with_parameters(&block, &optimum.theta);
        Ok(Self { kernel: block.remove(0).kernel, ridge })
    }

    /// Its rows, or so many landmarks of these, and what is known by them.
    pub fn solver(&self, rows: &Table, landmarks: Option<usize>) -> Result<(KernelRegression, Table)> {
        let Some(count) = landmarks else {
            let mut gram = self.kernel.gram(rows);
            gram.add_diagonal(|_| self.ridge);
            return Ok((
                KernelRegression::rows(gram, "kernel matrix of what is given plus ridge")?,
                rows.clone(),
            ));
        };
        let points = inducing_points(rows, count, 0)?;
        let (with_rows, diagonal) = (self.kernel.cross_gram(&points, rows), self.kernel.diagonal(rows));
        Ok((
            KernelRegression::landmarks(self.kernel.gram(&points), with_rows, &diagonal, self.ridge)?,
            points,
        ))
    }
}

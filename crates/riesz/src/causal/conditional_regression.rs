//! Regression of an embedding on rows: of covariates given other covariates or treatments, and of mediators
//! given treatments.

use super::defaults::{START_RIDGE, default_kernel, default_prior};
use super::kernel_regression::KernelRegression;
use super::product_kernel::{self, ColumnBlock};
use crate::control::RunControl;
use crate::error::Result;
use crate::gp::inducing_points::inducing_points;
use crate::gp::search::minimise_loo_loss;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::Table;

/// Kernel and ridge with the smallest leave-one-out loss.
#[derive(Debug, Clone)]
pub(super) struct EmbeddingRegression {
    pub kernel: Kernel,
    pub ridge: f64,
}

impl EmbeddingRegression {
    /// Regresses n functions on n rows. `response_gram` (n × n) is the gram matrix of the functions. Cost:
    /// some tens of evaluations of n³ each.
    pub fn new(rows: &Table, response_gram: &Matrix, control: RunControl<'_>) -> Result<Self> {
        let block = [ColumnBlock { kernel: default_kernel(rows), rows: rows.clone() }];
        let parameters = product_kernel::parameters(&block, START_RIDGE).into_iter();
        let coordinates: Vec<_> = parameters.map(|p| default_prior(p, false)).collect();
        let from: Vec<f64> = coordinates.iter().map(|c| c.parameter.log_value).collect();
        let optimum = minimise_loo_loss(&coordinates, &from, rows.rows(), control, |theta| {
            let (block, ridge) = product_kernel::with_parameters(&block, theta);
            product_kernel::loo_loss(&block, ridge, response_gram)
        })?;
        let (mut block, ridge) = product_kernel::with_parameters(&block, &optimum.theta);
        Ok(Self { kernel: block.remove(0).kernel, ridge })
    }

    /// Returns the regression on all rows, or on a number of landmarks of these, and the rows that it uses as
    /// points.
    pub fn solver(&self, rows: &Table, landmarks: Option<usize>) -> Result<(KernelRegression, Table)> {
        let Some(count) = landmarks else {
            let mut gram = self.kernel.gram(rows);
            gram.add_diagonal(|_| self.ridge);
            return Ok((
                KernelRegression::rows(gram, "kernel matrix of the given columns plus ridge")?,
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

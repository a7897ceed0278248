//! Regression of an embedding on rows: of covariates given other covariates or treatments, and of mediators
//! given treatments.

use super::defaults::{START_RIDGE, default_kernel, with_fixed_scale};
use super::product_kernel::{self, ColumnBlock};
use crate::control::RunControl;
use crate::error::Result;
use crate::gp::search::minimise_loo_loss;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::Table;

/// Returns the kernel and the ridge with the smallest leave-one-out loss in a regression of n functions on n
/// rows. `response_gram` (n × n) is the gram matrix of the functions. Cost: some tens of evaluations of n³
/// each.
pub(super) fn embedding_parameters(
    rows: &Table,
    response_gram: &Matrix,
    control: RunControl<'_>,
) -> Result<(Kernel, f64)> {
    let block = [ColumnBlock { kernel: default_kernel(rows), rows: rows.clone() }];
    let parameters = product_kernel::parameters(&block, START_RIDGE).into_iter();
    let coordinates: Vec<_> = parameters.map(with_fixed_scale).collect();
    let from: Vec<f64> = coordinates.iter().map(|c| c.parameter.log_value).collect();
    let optimum = minimise_loo_loss(&coordinates, &from, rows.rows(), control, |theta| {
        let (block, ridge) = product_kernel::with_parameters(&block, theta);
        product_kernel::loo_loss(&block, ridge, response_gram)
    })?;
    let (mut block, ridge) = product_kernel::with_parameters(&block, &optimum.theta);
    Ok((block.remove(0).kernel, ridge))
}

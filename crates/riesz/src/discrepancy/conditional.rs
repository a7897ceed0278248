//! Residuals of columns given other columns, for tests of conditional independence.

use super::{default_kernel, same_rows};
use crate::error::{Error, Result};
use crate::fit::KernelRidge;
use crate::fit::cross_validation::default_ridges;
use crate::kernel::{ColumnScaling, Kernel};
use crate::linalg::Matrix;
use crate::table::{ColumnKind, Table};

/// Returns the leave-one-out residuals of each column of `x` in a kernel ridge regression on `conditions`.
/// The kernel is [`default_kernel`], and the ridge has the smallest leave-one-out error over all standardised
/// columns. Cost O(n³).
///
/// An [`IndependenceTest`](super::IndependenceTest) of the residuals of X and of Y given Z tests whether X
/// and Y are dependent given Z, if Z affects only their means. Its level depends on the fit of the two
/// regressions: dependence on Z that remains in the residuals counts against the null hypothesis (Zhang,
/// Peters, Janzing and Schölkopf 2011, §3; Shah and Peters 2020 show that no test works without such an
/// assumption).
///
/// # Errors
/// [`Error::Parameter`] for a categorical column of `x`; [`Error::Shape`] for tables of unequal length; and
/// as [`KernelRidge::fit`].
pub fn residuals(x: &Table, conditions: &Table) -> Result<Table> {
    same_rows(conditions, x)?;
    for column in x.columns() {
        if column.kind != ColumnKind::Numeric {
            let allowed = "residuals exist for numeric columns only: leave the categorical column out";
            return Err(Error::parameter("column", &column.name, allowed));
        }
    }
    let (n, scaling) = (x.rows(), ColumnScaling::standardised(x));
    let targets = Matrix::from_fn(n, x.width(), |i, j| (x.get(i, j) - scaling.center[j]) / scaling.scale[j]);
    let kernel: Kernel = default_kernel(conditions)?;
    let ridges = default_ridges();
    let errors = KernelRidge::new(kernel.clone(), 1.0).loo_path(conditions, &targets, &ridges)?;
    let best = (0..ridges.len()).min_by(|&a, &b| errors[a].total_cmp(&errors[b])).unwrap_or(0);
    let fit = KernelRidge::new(kernel, ridges[best]).fit(conditions, &targets)?;
    let inverse = fit.factor.inverse();
    let residual = |j: usize, i: usize| fit.dual_coef[(i, j)] / inverse[(i, i)] * scaling.scale[j];
    let values =
        (0..x.width()).flat_map(|j| (0..n).map(move |i| (j, i))).map(|(j, i)| residual(j, i)).collect();
    Table::from_column_major(x.columns().to_vec(), n, values)
}

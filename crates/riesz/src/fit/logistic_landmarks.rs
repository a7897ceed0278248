//! Choice of the ridge of logistic regression through landmarks.

use super::KernelLogisticRegression;
use super::cross_validation::ClassScore;
use super::grid_search::{GridSearch, RIDGES};
use super::logistic::{SEARCH_TOLERANCE, WarmStart};
use super::task::{FIXED_KERNEL, FOLDS, FitTask};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::setting_schema::SettingValues;
use crate::table::Table;

/// Kernel and ridge with the least log loss on folds of some rows.
pub(super) fn chosen(
    task: &FitTask<'_>,
    folds: usize,
    fixed_kernel: bool,
    intercept: bool,
) -> Result<(Kernel, f64)> {
    let (_, classes) = task.labels()?;
    let mut task = task.clone();
    let settings = [(FOLDS.name, folds.into()), (FIXED_KERNEL.name, fixed_kernel.into())];
    task.settings = SettingValues::new(
        &[&FOLDS, &FIXED_KERNEL],
        settings.map(|(name, value)| (name.to_string(), value)),
    )?;
    let search = GridSearch { task: &task, setting: "ridge", values: &RIDGES, default: None };
    let try_one = |kernel, ridge, weights, x: &Table, labels: &[usize], end: &mut Option<WarmStart>| {
        let mut estimator = KernelLogisticRegression::new(kernel, ridge);
        (estimator.sample_weight, estimator.fit_intercept) = (weights, intercept);
        (estimator.tolerance, estimator.start) = (SEARCH_TOLERANCE, end.take());
        let fit = estimator.fit_until(x, labels, classes, &task.stop)?;
        *end = Some(fit.end);
        Ok(fit.model)
    };
    let chosen = search.classification(ClassScore::LogLoss, try_one)?;
    Ok((chosen.kernel, chosen.value))
}

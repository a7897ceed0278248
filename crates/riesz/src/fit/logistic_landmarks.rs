//! What logistic regression through landmarks takes from that of all rows: its settings, and how its ridge is chosen.

use super::KernelLogisticRegression;
use super::bootstrap::BOOTSTRAP;
use super::logistic::{NewtonState, SEARCH_TOLERANCE};
use super::nystrom::{Job, Kind};
use super::search::{RIDGES, Search};
use super::selection::ClassScore;
use super::task::{CLASS_WEIGHT, FIXED_KERNEL, FOLDS, Fitted, MAX_ITER, SEARCH_ROWS, Task};
use super::through_landmarks;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::setting::SettingValues;
use crate::table::Table;

/// What settings ask of a fit through landmarks.
pub(super) fn landmark_job(settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
    let dense = [CLASS_WEIGHT.name, SEARCH_ROWS.name, MAX_ITER.name, BOOTSTRAP.name];
    let job = through_landmarks::job(settings, seed, &dense)?;
    let kind = Kind::Classes { names: Vec::new() };
    Ok(job.map(|job| Job { corrections: 0, kind, ..job }))
}

/// The fit through landmarks.
pub(super) fn fit_classes(task: &Task<'_>, mut job: Job) -> Result<Fitted> {
    let (labels, classes) = task.labels()?;
    super::check_labels(task.x, labels, classes)?;
    job.kind = Kind::Classes { names: classes.to_vec() };
    through_landmarks::fit(task, Matrix::column_vector(labels.iter().map(|&l| l as f64).collect()), &job)
}

/// Kernel and ridge with the least log loss on folds of some rows.
pub(super) fn chosen(
    task: &Task<'_>,
    folds: usize,
    fixed_kernel: bool,
    intercept: bool,
) -> Result<(Kernel, f64)> {
    let (_, classes) = task.labels()?;
    let mut task = task.clone();
    let given = [(FOLDS.name, folds.into()), (FIXED_KERNEL.name, fixed_kernel.into())];
    task.settings =
        crate::fit::logistic::KIND.values(given.map(|(name, value)| (name.to_string(), value)))?;
    let search = Search { task: &task, setting: "ridge", values: &RIDGES, default: None };
    let try_one = |kernel, ridge, weights, x: &Table, labels: &[usize], end: &mut Option<NewtonState>| {
        let mut estimator = KernelLogisticRegression::new(kernel, ridge);
        (estimator.sample_weight, estimator.fit_intercept) = (weights, intercept);
        (estimator.tolerance, estimator.start) = (SEARCH_TOLERANCE, end.take());
        let fit = estimator.fit_until(x, labels, classes, &task.stop)?;
        *end = Some(fit.end);
        Ok(fit.model)
    };
    let chosen = search.of_classes(ClassScore::LogLoss, try_one)?;
    Ok((chosen.kernel, chosen.value))
}

//! What logistic regression through landmarks takes from that of all rows: its settings, and how its ridge is chosen.

use super::KernelLogisticRegression;
use super::bootstrap::BOOTSTRAP;
use super::logistic::{NewtonState, SEARCH_TOLERANCE};
use super::nystrom::{Heed, Job, Kind, Rows, fit_rows};
use super::search::{RIDGES, Search};
use super::selection::ClassScore;
use super::task::{
    CLASS_WEIGHT, FIT_INTERCEPT, FIXED_KERNEL, FOLDS, Fitted, Input, LANDMARKS, MAX_ITER, RIDGE, SEARCH_ROWS,
    Task,
};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::setting::SettingValues;
use crate::table::Table;

/// What settings ask of a fit through landmarks.
pub(super) fn landmark_job(settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
    let Some(landmarks) = settings.count(LANDMARKS.name) else { return Ok(None) };
    let ridge = settings.number(RIDGE.name);
    let dense = [CLASS_WEIGHT.name, SEARCH_ROWS.name, MAX_ITER.name, BOOTSTRAP.name]
        .map(|name| (name, "fits without landmarks"));
    let chosen = ridge.map(|_| (FOLDS.name, "a ridge of 'auto'"));
    if let Some((name, belongs)) =
        dense.into_iter().chain(chosen).find(|(name, _)| settings.get(name).is_some())
    {
        return Err(Error::Unused { setting: name.into(), belongs: belongs.into() });
    }
    let standard = Job::new(landmarks);
    Ok(Some(Job {
        ridge,
        folds: settings.count(FOLDS.name).unwrap_or(standard.folds),
        intercept: settings.switch(FIT_INTERCEPT.name).unwrap_or(true),
        fixed_kernel: settings.switch(FIXED_KERNEL.name).unwrap_or(false),
        corrections: 0,
        seed,
        kind: Kind::Classes { names: Vec::new() },
        ..standard
    }))
}

/// The fit through landmarks.
pub(super) fn through_landmarks(task: &Task<'_>, mut job: Job) -> Result<Fitted> {
    let (labels, classes) = task.labels()?;
    if task.penalty.is_some() {
        return Err(Error::Unused {
            setting: Input::Penalty.name().into(),
            belongs: "fits without landmarks".into(),
        });
    }
    super::check_labels(task.x, labels, classes)?;
    job.kind = Kind::Classes { names: classes.to_vec() };
    let y = Matrix::column_vector(labels.iter().map(|&l| l as f64).collect());
    let rows = Rows::new(task.x.clone(), y, task.sample_weight.clone())?;
    let heed = Heed { stop: task.stop.clone(), progress: task.progress.clone() };
    fit_rows(rows, task.kernel.clone(), &job, &heed)
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

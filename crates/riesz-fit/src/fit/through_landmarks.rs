//! Common parts of fits through landmarks: the job that the settings describe, and the fit to rows in memory.

use super::nystrom::{FitControl, Job, Kind, LabelledRows, fit_rows};
use super::task::{
    FIT_INTERCEPT, FIXED_KERNEL, FOLDS, FitTask, FittedModel, LANDMARKS, OptionalInput, RIDGE,
};
use crate::error::{Result, unused};
use crate::linalg::Matrix;
use crate::setting_schema::SettingValues;

/// Description for messages of the fits that use all rows.
const DENSE: &str = "fits without landmarks";

/// The job of a fit through landmarks from the settings; `None` if they don't request landmarks. The settings
/// in `dense` only apply to fits without landmarks and give an error.
pub(super) fn job(settings: &SettingValues, seed: u64, dense: &[&'static str]) -> Result<Option<Job>> {
    let Some(landmarks) = settings.count(LANDMARKS.name) else { return Ok(None) };
    let ridge = settings.number(RIDGE.name);
    let chosen = ridge.map(|_| (FOLDS.name, "a ridge of 'auto'"));
    let dense = dense.iter().map(|name| (*name, DENSE));
    if let Some((name, belongs)) = dense.chain(chosen).find(|(name, _)| settings.get(name).is_some()) {
        return Err(unused(name, belongs));
    }
    let standard = Job::new(landmarks);
    Ok(Some(Job {
        ridge,
        folds: settings.count(FOLDS.name).unwrap_or(standard.folds),
        intercept: settings.switch(FIT_INTERCEPT.name).unwrap_or(true),
        fixed_kernel: settings.switch(FIXED_KERNEL.name).unwrap_or(false),
        seed,
        ..standard
    }))
}

/// Fits the task's rows to their classes through landmarks.
pub(super) fn fit_classes(task: &FitTask<'_>, mut job: Job) -> Result<FittedModel> {
    let (labels, classes) = task.labels()?;
    super::check_labels(task.x, labels, classes)?;
    if let Kind::Classes { names, .. } = &mut job.kind {
        names.extend_from_slice(classes);
    }
    fit(task, Matrix::column_vector(labels.iter().map(|&l| l as f64).collect()), &job)
}

/// Fits the task's rows to numeric targets through landmarks.
pub(super) fn fit(task: &FitTask<'_>, y: Matrix, job: &Job) -> Result<FittedModel> {
    if task.penalty.is_some() {
        return Err(unused(OptionalInput::Penalty.name(), DENSE));
    }
    let rows = LabelledRows::new(task.x.clone(), y, task.sample_weight.clone())?;
    let control = FitControl { stop: task.stop.clone(), progress: task.progress.clone() };
    fit_rows(rows, task.kernel.clone(), job, &control)
}

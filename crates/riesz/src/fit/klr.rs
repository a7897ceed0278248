//! Kernel logistic regression as a kind of model: what its settings ask for, how its ridge is chosen, and
//! refits of it.

use super::KernelLogisticRegression;
use super::bootstrap::{BOOTSTRAP, PROTECTED, Refit, by_class, refitted};
use super::labels::row_weights;
use super::logistic::{NewtonState, SEARCH_TOLERANCE};
use super::nystrom::{Classifier, Job, Kind};
use super::search::{RIDGES, Search};
use super::selection::ClassScore;
use super::task::{
    CLASS_WEIGHT, FIT_INTERCEPT, FIXED_KERNEL, FOLDS, Fitted, Input, LANDMARKS, MAX_ITER, ModelKind,
    Predicts, RIDGE, SEARCH_ROWS, Task, noted,
};
use super::through_landmarks;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::setting::SettingValues;
use crate::table::Table;

/// Kernel logistic regression, by name. Its ridge is chosen by the log loss on folds.
pub(super) static KIND: ModelKind = ModelKind {
    name: "klr",
    help: "Kernel logistic regression, two or more classes",
    predicts: Predicts::Class,
    settings: &[
        &RIDGE,
        &LANDMARKS,
        &CLASS_WEIGHT,
        &FOLDS,
        &SEARCH_ROWS,
        &FIXED_KERNEL,
        &FIT_INTERCEPT,
        &MAX_ITER,
        &BOOTSTRAP,
    ],
    takes: &[Input::SampleWeight, Input::Penalty],
    posterior: false,
    fit: fit_task,
    job: landmark_job,
};

fn fit_task(task: &Task<'_>) -> Result<Fitted> {
    if let Some(job) = landmark_job(&task.settings, task.seed)? {
        return through_landmarks::fit_classes(task, job);
    }
    let (labels, classes) = task.labels()?;
    let class_weight = task.class_weight(classes)?;
    if let (Some(draws), true) = (task.settings.count(BOOTSTRAP.name), task.penalty.is_some()) {
        return Err(Error::parameter(BOOTSTRAP.name, draws, PROTECTED));
    }
    let with = |kernel: Kernel, ridge: f64, weights: Option<Vec<f64>>| {
        let mut estimator = KernelLogisticRegression::new(kernel, ridge);
        estimator.class_weight.clone_from(&class_weight);
        estimator.sample_weight = weights;
        estimator.fit_intercept = task.settings.switch(FIT_INTERCEPT.name).unwrap_or(true);
        estimator.max_iterations = task.max_iter().unwrap_or(estimator.max_iterations);
        estimator.keep_unfinished = task.max_iter().is_some();
        estimator
    };
    let search = Search { task, setting: "ridge", values: &RIDGES, default: None };
    let try_one = |kernel, ridge, weights, x: &Table, labels: &[usize], end: &mut Option<NewtonState>| {
        let mut estimator = with(kernel, ridge, weights);
        (estimator.tolerance, estimator.start) = (SEARCH_TOLERANCE, end.take());
        let fit = estimator.fit_until(x, labels, classes, &task.stop)?;
        *end = Some(fit.end);
        Ok(fit.model)
    };
    let chosen = search.of_classes(ClassScore::LogLoss, try_one)?;
    let mut estimator = with(chosen.kernel, chosen.value, task.sample_weight.clone());
    estimator.penalty = task.penalty_for(&estimator.kernel)?;
    estimator.start.clone_from(&task.start);
    let fit = estimator.fit_until(task.x, labels, classes, &task.stop)?;
    let fitted = Fitted {
        warnings: chosen.warnings,
        chosen: Some(estimator.ridge),
        end: Some(fit.end.clone()),
        ..noted(fit.model, chosen.facts).into()
    };
    let fitted = fitted.stopped(fit.converged, vec![fit.iterations], "raise the penalty or max_iter");
    let own = super::sample_weights(task.sample_weight.as_deref(), task.x)?;
    let all = row_weights(task.x, labels, classes, &class_weight, Some(&own))?;
    let points: Vec<usize> = (0..all.len()).filter(|&r| all[r] > 0.0).collect();
    refitted(task, fitted, points.clone(), by_class(labels, classes.len(), &all), 1.0, |counts| {
        // From where the fit ended: coefficients are as large as their rows' weights.
        let rows: Vec<usize> = points.iter().copied().filter(|&r| counts[r] > 0.0).collect();
        let places = (0..points.len()).filter(|&at| counts[points[at]] > 0.0);
        let coef = places
            .flat_map(|at| fit.end.coef.row(at).iter().map(|c| c * counts[points[at]]).collect::<Vec<_>>());
        let coef = Matrix::from_row_major(rows.len(), fit.end.coef.cols(), coef.collect());
        let mut refit = estimator.clone();
        refit.start = Some(NewtonState { coef, intercept: fit.end.intercept.clone() });
        refit.sample_weight = Some(counts.iter().zip(&own).map(|(count, weight)| count * weight).collect());
        let found = refit.fit_until(task.x, labels, classes, &task.stop)?;
        Ok(Refit::of(rows, found.model, found.converged))
    })
}

/// What settings ask of a fit through landmarks.
fn landmark_job(settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
    let dense = [CLASS_WEIGHT.name, SEARCH_ROWS.name, MAX_ITER.name, BOOTSTRAP.name];
    let job = through_landmarks::job(settings, seed, &dense)?;
    let kind = Kind::Classes { names: Vec::new(), by: Classifier::Regression };
    Ok(job.map(|job| Job { corrections: 0, kind, ..job }))
}

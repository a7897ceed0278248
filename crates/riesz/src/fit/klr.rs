//! Kernel logistic regression as a kind of model: what its settings ask for, how its ridge is chosen, and
//! refits of it.

use super::KernelLogisticRegression;
use super::bootstrap::{BOOTSTRAP, BootstrapRefit, PENALTY_CONFLICT, rows_by_class, run_refits};
use super::class_weights::row_weights;
use super::cross_validation::ClassScore;
use super::grid_search::{GridSearch, RIDGES};
use super::logistic::{SEARCH_TOLERANCE, WarmStart};
use super::nystrom::{Classifier, Job, Kind};
use super::task::{
    CLASS_WEIGHT, FIT_INTERCEPT, FIXED_KERNEL, FOLDS, FitTask, FittedModel, LANDMARKS, MAX_ITER, ModelKind,
    OptionalInput, OutputType, RIDGE, SEARCH_ROWS, with_card_entries,
};
use super::through_landmarks;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::setting_schema::SettingValues;
use crate::table::Table;

/// Kernel logistic regression, by name. Its ridge is chosen by the log loss on folds.
pub(super) static KIND: ModelKind = ModelKind {
    name: "klr",
    help: "Kernel logistic regression, two or more classes",
    predicts: OutputType::Class,
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
    takes: &[OptionalInput::SampleWeight, OptionalInput::Penalty],
    posterior: false,
    fit: fit_task,
    job: landmark_job,
};

fn fit_task(task: &FitTask<'_>) -> Result<FittedModel> {
    if let Some(job) = landmark_job(&task.settings, task.seed)? {
        return through_landmarks::fit_classes(task, job);
    }
    let (labels, classes) = task.labels()?;
    let class_weight = task.class_weight(classes)?;
    if let (Some(draws), true) = (task.settings.count(BOOTSTRAP.name), task.penalty.is_some()) {
        return Err(Error::parameter(BOOTSTRAP.name, draws, PENALTY_CONFLICT));
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
    let search = GridSearch { task, setting: "ridge", values: &RIDGES, default: None };
    let try_one = |kernel, ridge, weights, x: &Table, labels: &[usize], end: &mut Option<WarmStart>| {
        let mut estimator = with(kernel, ridge, weights);
        (estimator.tolerance, estimator.start) = (SEARCH_TOLERANCE, end.take());
        let fit = estimator.fit_until(x, labels, classes, &task.stop)?;
        *end = Some(fit.end);
        Ok(fit.model)
    };
    let chosen = search.classification(ClassScore::LogLoss, try_one)?;
    let mut estimator = with(chosen.kernel, chosen.value, task.sample_weight.clone());
    estimator.penalty = task.penalty_for(&estimator.kernel)?;
    estimator.start.clone_from(&task.start);
    let fit = estimator.fit_until(task.x, labels, classes, &task.stop)?;
    let fitted = FittedModel {
        warnings: chosen.warnings,
        chosen: Some(estimator.ridge),
        end: Some(fit.end.clone()),
        ..with_card_entries(fit.model, chosen.facts).into()
    };
    let fitted = fitted.stopped(fit.converged, vec![fit.iterations], "raise the penalty or max_iter");
    let own = super::sample_weights(task.sample_weight.as_deref(), task.x)?;
    let all = row_weights(task.x, labels, classes, &class_weight, Some(&own))?;
    let points: Vec<usize> = (0..all.len()).filter(|&r| all[r] > 0.0).collect();
    run_refits(task, fitted, points.clone(), rows_by_class(labels, classes.len(), &all), 1.0, |counts| {
        // From where the fit ended: coefficients are as large as their rows' weights.
        let rows: Vec<usize> = points.iter().copied().filter(|&r| counts[r] > 0.0).collect();
        let places = (0..points.len()).filter(|&at| counts[points[at]] > 0.0);
        let coef = places
            .flat_map(|at| fit.end.coef.row(at).iter().map(|c| c * counts[points[at]]).collect::<Vec<_>>());
        let coef = Matrix::from_row_major(rows.len(), fit.end.coef.cols(), coef.collect());
        let mut refit = estimator.clone();
        refit.start = Some(WarmStart { coef, intercept: fit.end.intercept.clone() });
        refit.sample_weight = Some(counts.iter().zip(&own).map(|(count, weight)| count * weight).collect());
        let found = refit.fit_until(task.x, labels, classes, &task.stop)?;
        Ok(BootstrapRefit::of(rows, found.model, found.converged))
    })
}

/// What settings ask of a fit through landmarks.
fn landmark_job(settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
    let dense = [CLASS_WEIGHT.name, SEARCH_ROWS.name, MAX_ITER.name, BOOTSTRAP.name];
    let job = through_landmarks::job(settings, seed, &dense)?;
    let kind = Kind::Classes { names: Vec::new(), by: Classifier::Regression };
    Ok(job.map(|job| Job { corrections: 0, kind, ..job }))
}

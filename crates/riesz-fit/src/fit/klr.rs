//! Kernel logistic regression as a kind of model: its settings, the choice of its ridge, and its refits.

use super::KernelLogisticRegression;
use super::bootstrap::{BOOTSTRAP, BootstrapRefit, rows_by_class, run_refits};
use super::class_weights::row_weights;
use super::cross_validation::ClassScore;
use super::grid_search::{GridChoice, GridSearch, RIDGES};
use super::logistic::{SEARCH_TOLERANCE, WarmStart};
use super::nystrom::{Classifier, Job, Kind};
use super::task::{
    CLASS_WEIGHT, FIT_INTERCEPT, FIXED_KERNEL, FOLDS, FitTask, FittedModel, LANDMARKS, MAX_ITER, ModelKind,
    OptionalInput, OutputType, RIDGE, SEARCH_ROWS, with_card_entries,
};
use super::through_landmarks;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::products;
use crate::setting_schema::SettingValues;

/// Kernel logistic regression as a kind of model. Its ridge is chosen by the log loss on held-out folds.
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
    task.refuse_refits_with_penalty()?;
    let estimator_with = |kernel: Kernel, ridge: f64, sample_weight: Option<Vec<f64>>| {
        let standard = KernelLogisticRegression::new(kernel, ridge);
        KernelLogisticRegression {
            class_weight: class_weight.clone(),
            sample_weight,
            fit_intercept: task.settings.switch(FIT_INTERCEPT.name).unwrap_or(true),
            max_iterations: task.max_iter().unwrap_or(standard.max_iterations),
            keep_unfinished: task.max_iter().is_some(),
            ..standard
        }
    };
    let chosen = choose(task, estimator_with)?;
    let mut estimator = estimator_with(chosen.kernel, chosen.value, task.sample_weight.clone());
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
    let sample_weights = super::sample_weights(task.sample_weight.as_deref(), task.x)?;
    let row_weights = row_weights(task.x, labels, classes, &class_weight, Some(&sample_weights))?;
    let points = super::positive_places(&row_weights);
    run_refits(
        task,
        fitted,
        points.clone(),
        rows_by_class(labels, classes.len(), &row_weights),
        1.0,
        |counts| {
            // Starts from the fit's result: coefficients are proportional to the weights of their rows.
            let (positions, rows): (Vec<usize>, Vec<usize>) =
                points.iter().copied().enumerate().filter(|(_, r)| counts[*r] > 0.0).unzip();
            let mut coef = fit.end.coef.select_rows(&positions);
            coef.scale_rows(rows.iter().map(|&r| counts[r]));
            let mut refit = estimator.clone();
            refit.start = Some(WarmStart { coef, intercept: fit.end.intercept.clone() });
            refit.sample_weight = Some(products(&counts, &sample_weights));
            let outcome = refit.fit_until(task.x, labels, classes, &task.stop)?;
            Ok(BootstrapRefit::from_model(rows, outcome.model, outcome.converged))
        },
    )
}

/// Chooses kernel and ridge by the log loss on held-out folds. `estimator` makes a regression with a kernel,
/// a ridge and weights of rows.
fn choose(
    task: &FitTask<'_>,
    estimator: impl Fn(Kernel, f64, Option<Vec<f64>>) -> KernelLogisticRegression + Sync,
) -> Result<GridChoice> {
    let (_, classes) = task.labels()?;
    let search = GridSearch { task, setting: "ridge", values: &RIDGES, default: None };
    search.classification(ClassScore::LogLoss, |kernel, ridge, weights, x, labels, end| {
        let mut estimator = estimator(kernel, ridge, weights);
        (estimator.tolerance, estimator.start) = (SEARCH_TOLERANCE, Option::take(end));
        let fit = estimator.fit_until(x, labels, classes, &task.stop)?;
        *end = Some(fit.end);
        Ok(fit.model)
    })
}

/// Kernel and ridge of a regression through landmarks with the smallest log loss on held-out folds of a
/// sample of the rows.
pub(super) fn choose_for_landmarks(
    task: &FitTask<'_>,
    folds: usize,
    fixed_kernel: bool,
    intercept: bool,
) -> Result<(Kernel, f64)> {
    let mut task = task.clone();
    let settings = [(FOLDS.name, folds.into()), (FIXED_KERNEL.name, fixed_kernel.into())];
    task.settings = SettingValues::new(
        &[&FOLDS, &FIXED_KERNEL],
        settings.map(|(name, value)| (name.to_string(), value)),
    )?;
    let chosen = choose(&task, |kernel, ridge, weights| {
        let mut estimator = KernelLogisticRegression::new(kernel, ridge);
        (estimator.sample_weight, estimator.fit_intercept) = (weights, intercept);
        estimator
    })?;
    Ok((chosen.kernel, chosen.value))
}

/// The job of a fit through landmarks; `None` if the settings don't request one.
fn landmark_job(settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
    let dense = [CLASS_WEIGHT.name, SEARCH_ROWS.name, MAX_ITER.name, BOOTSTRAP.name];
    let job = through_landmarks::job(settings, seed, &dense)?;
    let kind = Kind::Classes { names: Vec::new(), classifier: Classifier::Regression };
    Ok(job.map(|job| Job { corrections: 0, kind, ..job }))
}

//! Models of choices from sets of items for Python.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use riesz::Error;
use riesz::fit::PosteriorMixture;
use riesz::model_average::ModelAverage;
use riesz::preference::{Choices, Places, PreferenceFit, choice_probabilities, prepare_choices};

use crate::fit::{Fitted, WeightedModels};
use crate::preference::{FittedPrior, fitted_for_python, process};
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NamedRows, raise, sample};

/// Fits a model of this form to choices among items, and returns the fit and the tuned prior. `chosen` has
/// the chosen items of each set by place. `names` gives each item an ability; other arguments are as for
/// `fit_preferences`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn fit_choices(
    py: Python<'_>,
    kernel: Option<&str>,
    form: &str,
    items: NamedRows<'_>,
    sets: Vec<Vec<usize>>,
    chosen: Vec<Places>,
    weight: Option<Vec<f64>>,
    names: Option<Vec<String>>,
    tune: bool,
    restarts: usize,
    draws: Option<usize>,
    seed: u64,
) -> PyResult<(Fitted, FittedPrior)> {
    let items = sample(items)?;
    let mut process = process(kernel, form, &items)?;
    (process.tune, process.restarts, process.seed) = (tune, restarts, seed);
    let choices = Choices::new(items.rows(), &sets, &chosen, weight.as_deref()).map_err(raise)?;
    let entries = prepare_choices(&items, &choices, names.as_deref()).map_err(raise)?;
    process.prior.extra_utility_kernel = entries.extra_utility_kernel;
    let stop = process.stop.clone();
    let work = move || -> Result<(PreferenceFit, Option<ModelAverage>), Error> {
        let (items, choices) = (&entries.table, &entries.choices);
        let fit = process.fit_choices(items, choices)?;
        let draws = draws.unwrap_or_else(|| process.default_draws_of_choices(choices));
        let average = (draws > 0).then(|| process.average_choices(&fit, items, choices, draws));
        Ok((fit, average.transpose()?.map(PosteriorMixture::into_models)))
    };
    let (fit, average) = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    fitted_for_python(py, fit, average)
}

/// Groups the rows of a table of choices by set: the rows of its items, and those of its chosen items by
/// place, the best first. `chosen` has 1, 2, … for chosen items, and 0 or NaN for the others.
#[pyfunction]
pub fn rows_of_sets(sets: Vec<String>, chosen: Vec<f64>) -> PyResult<Vec<(Vec<usize>, Places)>> {
    let rows = riesz::preference::rows_of_sets(&sets, &chosen).map_err(raise)?;
    Ok(rows.into_iter().map(|set| (set.items, set.chosen)).collect())
}

/// Predicts the probabilities with which each item is among the `count` chosen ones of its set, with their
/// standard errors, under a model or a mixture of models with their weights.
#[pyfunction]
pub fn predict_choices(
    py: Python<'_>,
    models: Vec<(f64, Py<Expansion>)>,
    items: NamedRows<'_>,
    sets: Vec<Vec<usize>>,
    count: usize,
    draws: usize,
    seed: u64,
) -> PyResult<Vec<(Vec<f64>, Vec<f64>)>> {
    let items = sample(items)?;
    let models = WeightedModels::with_posteriors(&models)?;
    let stop = Arc::new(AtomicBool::new(false));
    let worker_stop = stop.clone();
    let work =
        move || choice_probabilities(&models.parts(), &items, (&sets, count), (draws, seed), &worker_stop);
    let predictions = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    Ok(predictions.into_iter().map(|p| (p.probability, p.std_error)).collect())
}

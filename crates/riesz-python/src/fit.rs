//! Fits of kernel models to arrays.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::fit::{FitTask, ModelKind, Penalty, WarmStart};
use riesz::format::average::SavedAverage;
use riesz::format::model::SavedModel;
use riesz::model_average::{self, ModelAverage, ModelPart, WeightedModel};
use riesz::question::Subject;
use riesz::shapley_penalty::{self, ValuePrior};
use riesz::{Kernel, KernelExpansion, Matrix, Posterior, PosteriorCovariance, format};
use serde_json::Value;

use crate::question::Settings;
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NO_POSTERIOR, NamedRows, matrix, raise, refuse, sample, stack, table};

/// Parses a kernel in riesz's JSON form.
pub(crate) fn kernel(json: &str) -> PyResult<Kernel> {
    serde_json::from_str(json).map_err(refuse)
}

fn targets(y: &PyReadonlyArray2<'_, f64>) -> Matrix {
    let y = y.as_array();
    Matrix::from_row_major(y.nrows(), y.ncols(), y.iter().copied().collect())
}

/// The functionals of a penalty, its strength, the ends of their ranges, and the number of sampled coalitions
/// if they are estimates.
pub(crate) type Penalising<'py> = (PyReadonlyArray2<'py, f64>, f64, Option<Vec<(f64, f64)>>, Option<usize>);

pub(crate) fn penalty((functionals, strength, ranges, sampled): Penalising<'_>) -> Penalty {
    Penalty { functionals: targets(&functionals), strength, ranges, sampled }
}

/// The Shapley values of players at the rows of `x` as linear functionals of a model's coefficients, rows ×
/// (players · rows), and the number of sampled coalitions if they are estimates. If `equal`, the differences
/// between the values of successive players.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn functionals<'py>(
    py: Python<'py>,
    kernel: &str,
    x: NamedRows<'_>,
    settings: &Settings,
    background: PyReadonlyArray2<'_, f64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    groups: Vec<(String, Vec<usize>)>,
    protected: Vec<String>,
    equal: bool,
) -> PyResult<(Bound<'py, PyArray2<f64>>, Option<usize>)> {
    let kernel = self::kernel(kernel)?;
    let x = sample(x)?;
    let question =
        settings.question(Subject::Protection, x.columns(), Some(&background), weights.as_ref(), None)?;
    let question = question.with_players(Some(crate::players(x.columns(), groups)?));
    let stop = Arc::new(AtomicBool::new(false));
    let worker_stop = stop.clone();
    let prior = ValuePrior { equal, ..0.0.into() };
    let work = move || shapley_penalty::penalty_until(&kernel, &x, question, &protected, prior, worker_stop);
    let penalty = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let Penalty { functionals: z, sampled, .. } = penalty;
    Ok((crate::matrix(z.rows(), z.cols(), z.data().to_vec())?.into_pyarray(py), sampled))
}

/// The coefficients (rows × outputs) and intercepts at which Newton's method starts.
type Start<'py> = (PyReadonlyArray2<'py, f64>, Vec<f64>);

/// The targets of a fit: indices of classes with the classes' names, or numbers (rows × targets).
#[derive(FromPyObject)]
pub enum Target<'py> {
    Classes(Vec<usize>, Vec<String>),
    Numbers(PyReadonlyArray2<'py, f64>),
}

/// An average over hyper-parameters: weights and models, and the effective sample size.
pub(crate) type Average = (Vec<(f64, Py<Expansion>)>, f64);

/// Converts an average for Python.
pub(crate) fn average_for_python(py: Python<'_>, average: ModelAverage) -> PyResult<Average> {
    let models = average.models.into_iter().map(|part| {
        let covariance = part.covariance.map(Arc::new);
        let model = Expansion { model: Arc::new(part.model), covariance, groups: None };
        Ok((part.weight, Py::new(py, model)?))
    });
    Ok((models.collect::<PyResult<_>>()?, average.effective_sample_size))
}

/// Models with their weights, for work on another thread.
pub(crate) struct WeightedModels(Vec<(f64, Arc<KernelExpansion>, Option<Arc<PosteriorCovariance>>)>);

impl WeightedModels {
    pub(crate) fn new(models: &[(f64, Py<Expansion>)]) -> Self {
        let models = models.iter().map(|(weight, model)| (*weight, model.get()));
        Self(models.map(|(weight, part)| (weight, part.model.clone(), part.covariance.clone())).collect())
    }

    /// Refuses models without a posterior.
    pub(crate) fn with_posteriors(models: &[(f64, Py<Expansion>)]) -> PyResult<Self> {
        match models.iter().all(|(_, model)| model.get().covariance.is_some()) {
            true => Ok(Self::new(models)),
            false => Err(refuse(NO_POSTERIOR)),
        }
    }

    /// The posteriors with their weights; empty if a model has none.
    pub(crate) fn posteriors(&self) -> riesz::Result<Vec<(f64, Posterior<'_>)>> {
        Ok(model_average::posteriors(&self.parts())?.unwrap_or_default())
    }

    /// The borrowed models with their weights.
    pub(crate) fn parts(&self) -> Vec<ModelPart<'_>> {
        let parts = self.0.iter().map(|(weight, model, covariance)| ModelPart {
            weight: *weight,
            model,
            covariance: covariance.as_deref(),
        });
        parts.collect()
    }
}

/// Joint draws of an average at rows: for each output, rows × draws.
#[pyfunction]
pub fn sample_average<'py>(
    py: Python<'py>,
    models: Vec<(f64, Py<Expansion>)>,
    rows: PyReadonlyArray2<'py, f64>,
    draws: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyArray3<f64>>> {
    let columns = models.first().map_or(&[][..], |(_, model)| model.get().model.columns());
    let rows = table(columns, rows.as_array()).map_err(refuse)?;
    let models = WeightedModels::with_posteriors(&models)?;
    let work = || model_average::sample(&models.posteriors()?, &rows, draws, seed);
    stack(py, &py.detach(work).map_err(raise)?)
}

/// The warning about an average with few effective samples of hyper-parameters, if it has few.
#[pyfunction]
pub fn few_samples_warning(effective_sample_size: f64) -> Option<String> {
    riesz::model_average::few_samples_warning(effective_sample_size)
}

/// The file of an average with its best model; with posteriors if `posterior` is true.
#[pyfunction]
pub fn average_to_bytes<'py>(
    py: Python<'py>,
    best: &Expansion,
    average: Average,
    posterior: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let (models, effective_sample_size) = average;
    let saved = |model: &Expansion| SavedModel {
        model: (*model.model).clone(),
        covariance: model.covariance.as_deref().filter(|_| posterior).cloned(),
        groups: model.groups.clone(),
    };
    let models = models.iter().map(|(weight, part)| {
        let SavedModel { model, covariance, .. } = saved(part.get());
        WeightedModel { weight: *weight, model, covariance }
    });
    let average = ModelAverage { models: models.collect(), effective_sample_size };
    let file = SavedAverage { best: saved(best), average };
    Ok(PyBytes::new(py, &format::average::to_bytes(&file).map_err(refuse)?))
}

/// Whether bytes are the file of an average.
#[pyfunction]
pub fn is_average(bytes: &[u8]) -> bool {
    format::average::recognises(bytes)
}

/// The best model and the average of a file; `None` if it is not the file of an average.
#[pyfunction]
pub fn average_from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Option<(Expansion, Average)>> {
    if !format::average::recognises(bytes) {
        return Ok(None);
    }
    let SavedAverage { best, average } = format::average::from_bytes(bytes).map_err(refuse)?;
    let SavedModel { model, covariance, groups } = best;
    let best = Expansion { model: Arc::new(model), covariance: covariance.map(Arc::new), groups };
    Ok(Some((best, average_for_python(py, average)?)))
}

/// A fitted model with the results of its fit; see [`riesz::fit::Fitted`].
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct Fitted {
    pub(crate) model: Py<Expansion>,
    pub(crate) warnings: Vec<String>,
    pub(crate) iterations: Vec<usize>,
    /// The ridge, or the cost parameter C; given or chosen.
    pub(crate) chosen: Option<f64>,
    pub(crate) support: Option<Vec<usize>>,
    pub(crate) noise: Option<f64>,
    pub(crate) log_marginal_likelihood: Option<f64>,
    /// The average over hyper-parameters.
    pub(crate) average: Option<Average>,
    /// The coefficients and intercepts at which Newton's method ended.
    pub(crate) end: Option<(Py<PyArray2<f64>>, Vec<f64>)>,
}

/// Fits a kind of model, with settings by name in JSON.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn fit(
    py: Python<'_>,
    model: &str,
    kernel: &str,
    x: NamedRows<'_>,
    target: Target<'_>,
    settings: &str,
    sample_weight: Option<Vec<f64>>,
    penalty: Option<Penalising<'_>>,
    start: Option<Start<'_>>,
    seed: u64,
) -> PyResult<Fitted> {
    let kind = ModelKind::named(model).ok_or_else(|| refuse(format!("'{model}' is not a kind of model")))?;
    let (x, kernel) = (sample(x)?, self::kernel(kernel)?);
    let target = match target {
        Target::Classes(labels, classes) => riesz::fit::Target::Classes { labels, classes },
        Target::Numbers(y) => riesz::fit::Target::Numbers(targets(&y)),
    };
    let values: serde_json::Map<String, Value> = serde_json::from_str(settings).map_err(refuse)?;
    let settings = kind.values(values).map_err(raise)?;
    let penalty = penalty.map(self::penalty).map(|penalty| move |_: &Kernel| Ok(penalty.clone()));
    let start = start.map(|(coef, intercept)| WarmStart { coef: targets(&coef), intercept });
    let stop = Arc::new(AtomicBool::new(false));
    let worker_stop = stop.clone();
    let work = move || {
        let mut task = FitTask::new(&x, target, kernel);
        (task.settings, task.sample_weight, task.seed) = (settings, sample_weight, seed);
        task.penalty = penalty.as_ref().map(|penalty| penalty as _);
        (task.start, task.stop) = (start, worker_stop);
        kind.fit(&task)
    };
    let fit = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let end = fit.end.map(|WarmStart { coef, intercept }| {
        let coef = matrix(coef.rows(), coef.cols(), coef.data().to_vec())?.into_pyarray(py);
        PyResult::Ok((coef.unbind(), intercept))
    });
    let covariance = fit.covariance.map(Arc::new);
    let average = fit.average.map(|average| average_for_python(py, average));
    Ok(Fitted {
        model: Py::new(py, Expansion { model: Arc::new(fit.model), covariance, groups: None })?,
        warnings: fit.warnings,
        iterations: fit.iterations,
        chosen: fit.chosen,
        support: fit.support,
        noise: fit.noise,
        log_marginal_likelihood: fit.log_marginal_likelihood,
        average: average.transpose()?,
        end: end.transpose()?,
    })
}

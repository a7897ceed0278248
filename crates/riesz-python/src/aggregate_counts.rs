//! Fits of counts of bags for Python.

use std::sync::Arc;

use pyo3::prelude::*;
use riesz::Error;
use riesz::aggregate::{
    BagSmoother, BagWeighting, Conventions, CountFit, CountProcess, Family, Tuning, count_inducing_points,
    inducing_points,
};

use crate::aggregate::{Aggregates, Points, start_kernel};
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, raise, refuse, sample};

/// The process of counts at which tuning starts.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CountStart {
    /// The kernel in JSON; `None` for the default kernel.
    kernel: Option<String>,
    /// The number of trials of each target, for counts of successes.
    trials: Option<Vec<f64>>,
    /// The mediators' kernel in JSON, and whether every row is an example.
    smoothing: Option<(String, bool)>,
    dispersion: f64,
    /// The overdispersion of mediated counts, if it is not the default.
    mediation_dispersion: Option<f64>,
    prior_mean: Option<f64>,
    /// Whether the conventions are those of the published models.
    published: bool,
}

/// A fit of counts for one set of hyperparameters; see [`riesz::aggregate::CountFit`].
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct CountPart {
    /// The weight in the average; weights add up to 1.
    weight: f64,
    model: Py<Expansion>,
    /// The mean of each target's count at the posterior mode.
    fitted: Vec<f64>,
    /// The prediction of each target from the others: means, variances, scores and log probabilities.
    left_out: (Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>),
}

impl CountPart {
    fn new(py: Python<'_>, weight: f64, fit: CountFit, name: &str) -> PyResult<Py<Self>> {
        let CountFit { mut model, covariance, fitted, left_out, .. } = fit;
        model.output_names = vec![name.into()];
        let model =
            Expansion { model: Arc::new(model), covariance: Some(Arc::new(covariance)), groups: None };
        let left_out = (left_out.mean, left_out.variance, left_out.scores, left_out.log_density);
        Py::new(py, Self { weight, model: Py::new(py, model)?, fitted, left_out })
    }
}

/// A process fitted to counts.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct FittedCounts {
    /// The fit at the best hyper-parameters.
    best: Py<CountPart>,
    /// Draws of hyper-parameters; empty without an average.
    parts: Vec<Py<CountPart>>,
    /// The effective sample size of the draws.
    effective: Option<f64>,
    /// The mediators' kernel in JSON.
    smoothing: Option<String>,
    /// The overdispersion of counts with rows, and of mediated counts.
    dispersions: [f64; 2],
    log_marginal_likelihood: f64,
    warnings: Vec<String>,
}

/// Fits a process to counts, with or without tuning, at the given or the default inducing points. If `draws`
/// is given, averages over this number of draws of hyper-parameters.
#[pyfunction]
pub fn fit_counts(
    py: Python<'_>,
    start: CountStart,
    aggregates: &Aggregates,
    points: Option<Points<'_>>,
    tune: bool,
    draws: Option<usize>,
    seed: u64,
) -> PyResult<FittedCounts> {
    let data = Arc::clone(&aggregates.data);
    let conventions = if start.published { Conventions::Published } else { Conventions::Regularised };
    let kernel = start_kernel(start.kernel.as_deref(), &data)?;
    let family = start.trials.map_or(Family::Poisson, |trials| Family::Binomial { trials });
    let smoothing = start.smoothing.map(|(kernel, rows)| {
        let counts = if rows { BagWeighting::Mass } else { BagWeighting::One };
        Ok::<_, PyErr>(BagSmoother { kernel: crate::fit::kernel(&kernel)?, counts })
    });
    let CountStart { dispersion, mediation_dispersion, prior_mean, .. } = start;
    let smoothing = smoothing.transpose()?;
    let points = match points {
        Some(Points::Rows(rows)) => Some(Ok(sample(rows)?)),
        Some(Points::Count(count)) => Some(Err(count)),
        None => None,
    };
    let profiles = if start.kernel.is_none() { conventions.rougher_profiles() } else { Vec::new() };
    let tuning = Tuning { conventions, profiles, ..Tuning::default() };
    let stop = tuning.stop.clone();
    let work = move || -> Result<_, Error> {
        let points = match points {
            Some(Ok(rows)) => rows,
            Some(Err(count)) => inducing_points(&data.rows, count, seed)?,
            None => count_inducing_points(&data, seed)?,
        };
        let default_process = CountProcess::new(kernel, points, family);
        let mediation_dispersion = mediation_dispersion.unwrap_or(default_process.mediation_dispersion);
        let process =
            CountProcess { smoothing, dispersion, mediation_dispersion, prior_mean, ..default_process };
        if !tune {
            return Ok((process.fit(&data)?, Vec::new(), None));
        }
        let tuned = tuning.tune_counts(&process, &data)?;
        let processes = tuned.processes();
        let average = |draws| tuning.average_counts(&process, &processes, &data, draws, seed);
        Ok((tuned.fit, tuned.warnings, draws.map(average).transpose()?))
    };
    let (fit, warnings, averaged) = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let json = |smoother: &BagSmoother| serde_json::to_string(&smoother.kernel).map_err(refuse);
    let effective = averaged.as_ref().map(|average| average.effective_sample_size);
    let draws = averaged.into_iter().flat_map(|average| average.fits);
    Ok(FittedCounts {
        effective,
        smoothing: fit.smoothing.as_ref().map(json).transpose()?,
        dispersions: fit.dispersions,
        log_marginal_likelihood: fit.log_marginal_likelihood,
        warnings,
        best: CountPart::new(py, 1.0, fit, &aggregates.name)?,
        parts: draws.map(|(w, fit)| CountPart::new(py, w, fit, &aggregates.name)).collect::<PyResult<_>>()?,
    })
}

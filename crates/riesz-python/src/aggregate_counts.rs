//! Counts of bags for Python.

use std::sync::Arc;

use pyo3::prelude::*;
use riesz::Error;
use riesz::aggregate::{
    Conventions, CountProcess, Counts, Family, Smoothing, Tuning, count_points, inducing_points,
};

use crate::aggregate::{Aggregates, Points};
use crate::threads::{Threads, interruptible};
use crate::{Expansion, raise, refuse, sample};

/// Where tuning starts.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CountStart {
    /// In JSON.
    kernel: String,
    /// Of each target how many, if they are successes among trials.
    trials: Option<Vec<f64>>,
    /// The mediators' kernel in JSON, and whether every row is an example.
    smoothing: Option<(String, bool)>,
    prior_mean: Option<f64>,
    /// Whether conventions are the published ones.
    published: bool,
}

/// A process fitted to counts; see [`riesz::aggregate::CountFit`].
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct FittedCounts {
    model: Py<Expansion>,
    /// By target the mean of its count at the mode.
    fitted: Vec<f64>,
    /// What the others say of each target: means, variances, scores and logarithms of probabilities.
    left_out: (Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>),
    /// The mediators' kernel in JSON.
    smoothing: Option<String>,
    log_marginal_likelihood: f64,
    warnings: Vec<String>,
}

/// Fits, tuned or not, through these inducing points, or the usual ones.
#[pyfunction]
pub fn fit_counts(
    py: Python<'_>,
    start: CountStart,
    given: &Aggregates,
    points: Option<Points<'_>>,
    tune: bool,
    seed: u64,
) -> PyResult<FittedCounts> {
    let data = Arc::clone(&given.data);
    let kernel = crate::fit::kernel(&start.kernel)?;
    let family = start.trials.map_or(Family::Poisson, |trials| Family::Binomial { trials });
    let smoothing = start.smoothing.map(|(kernel, rows)| {
        let counts = if rows { Counts::Mass } else { Counts::One };
        Ok::<_, PyErr>(Smoothing { kernel: crate::fit::kernel(&kernel)?, counts })
    });
    let (smoothing, prior_mean) = (smoothing.transpose()?, start.prior_mean);
    let points = match points {
        Some(Points::Rows(rows)) => Some(Ok(sample(rows)?)),
        Some(Points::Count(count)) => Some(Err(count)),
        None => None,
    };
    let conventions = if start.published { Conventions::Published } else { Conventions::Regularised };
    let tuning = Tuning { conventions, ..Tuning::default() };
    let stop = tuning.stop.clone();
    let work = move || -> Result<_, Error> {
        let points = match points {
            Some(Ok(rows)) => rows,
            Some(Err(count)) => inducing_points(&data.rows, count, seed)?,
            None => count_points(&data, seed)?,
        };
        let process = CountProcess { kernel, points, family, smoothing, prior_mean };
        if tune { tuning.tune_counts(&process, &data) } else { process.fit(&data) }
    };
    let mut fit = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    fit.model.output_names = vec![given.name.clone()];
    let json = |own: &Smoothing| serde_json::to_string(&own.kernel).map_err(refuse);
    let (model, covariance) = (Arc::new(fit.model), Some(Arc::new(fit.covariance)));
    let left_out = fit.left_out;
    Ok(FittedCounts {
        model: Py::new(py, Expansion { model, covariance, groups: None })?,
        fitted: fit.fitted,
        left_out: (left_out.mean, left_out.variance, left_out.scores, left_out.log_density),
        smoothing: fit.smoothing.as_ref().map(json).transpose()?,
        log_marginal_likelihood: fit.log_marginal_likelihood,
        warnings: fit.warnings,
    })
}

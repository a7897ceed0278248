//! Models of duels for Python: arrays in, a fitted model out.

use std::sync::Arc;

use pyo3::prelude::*;
use riesz::preference::{Duels, PairKernel, PreferenceProcess};

use crate::fit::Fitted;
use crate::threads::{Threads, interruptible};
use crate::{Expansion, NamedRows, raise, refuse, sample};

/// The items on either side of each duel, how it ended, and how much it counts.
pub(crate) type Given = (Vec<usize>, Vec<usize>, Vec<f64>, Option<Vec<f64>>);

/// Fits duels among items; returns the fit, the kernel of items in JSON, and the shares of a utility and of the generalised part.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn fit_preferences(
    py: Python<'_>,
    kernel: &str,
    items: NamedRows<'_>,
    duels: Given,
    utility: f64,
    generalised: f64,
    tune: bool,
    restarts: usize,
    seed: u64,
) -> PyResult<(Fitted, String, [f64; 2])> {
    let (items, kernel) = (sample(items)?, crate::fit::kernel(kernel)?);
    let (left, right, outcome, weight) = duels;
    let duels = Duels::new(items.rows(), &left, &right, &outcome, weight.as_deref()).map_err(raise)?;
    let mut process = PreferenceProcess::new(kernel);
    (process.prior.utility, process.prior.generalised) = (utility, generalised);
    (process.tune, process.restarts, process.seed) = (tune, restarts, seed);
    let stop = process.stop.clone();
    let work = move || process.fit(&items, &duels);
    let fit = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    let PairKernel { items, utility, generalised } = fit.prior;
    let kernel = serde_json::to_string(&items).map_err(refuse)?;
    let model =
        Expansion { model: Arc::new(fit.model), covariance: Some(Arc::new(fit.covariance)), groups: None };
    let fitted = Fitted {
        model: Py::new(py, model)?,
        warnings: fit.warnings,
        iterations: vec![fit.steps],
        chosen: None,
        support: None,
        noise: None,
        log_marginal_likelihood: Some(fit.log_marginal_likelihood),
        end: None,
    };
    Ok((fitted, kernel, [utility, generalised]))
}

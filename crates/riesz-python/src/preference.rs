//! Models of duels for Python: arrays in, a fitted model out.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use riesz::embedding::{Conditioning, Ridge};
use riesz::game::Background;
use riesz::preference::{DuelGame, DuelQuestion, Duels, PairKernel, PreferenceProcess, differences, explain};

use crate::explanation::Explanation;
use crate::fit::Fitted;
use crate::threads::{Threads, interruptible};
use crate::{Expansion, NamedRows, explained, raise, refuse, sample};

/// The items on either side of each duel, how it ended, and how much it counts.
type Given = (Vec<usize>, Vec<usize>, Vec<f64>, Option<Vec<f64>>);

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

/// What absent columns of duels become: the game's name, the rows that it takes (items, or duels as wide rows), their weights, and those of contexts.
type Absent<'py> = (String, Option<NamedRows<'py>>, Option<Vec<f64>>, Option<NamedRows<'py>>);

/// Explains duels, as wide rows, of a model of duels.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn explain_duels(
    py: Python<'_>,
    model: &Expansion,
    rows: NamedRows<'_>,
    absent: Absent<'_>,
    groups: Vec<(String, Vec<String>)>,
    index: &str,
    covariance: bool,
    conditioning: (Option<f64>, bool),
    shifts: usize,
    seed: u64,
) -> PyResult<Explanation> {
    let (name, given, weights, contexts) = absent;
    let given = given.map(sample).transpose()?;
    let table = || given.clone().ok_or_else(|| refuse(format!("the game '{name}' takes a background")));
    let items = || Ok::<_, PyErr>(Background { rows: table()?, weights: weights.clone() });
    let game = match &name[..] {
        "contexts" => None,
        "independent" => Some(DuelGame::Independent(items()?)),
        "paired" => Some(DuelGame::Paired(items()?)),
        "matches" => Some(DuelGame::Matches(table()?)),
        "baseline" => Some(DuelGame::Baseline(table()?)),
        "functional" => Some(DuelGame::Functional),
        _ => {
            let ridge = conditioning.0.map_or(Ridge::CrossValidated, Ridge::Fixed);
            let learnt = Conditioning { ridge, centred: conditioning.1, seed, ..Conditioning::default() };
            Some(DuelGame::Observational(items()?, learnt))
        }
    };
    let contexts = contexts.map(sample).transpose()?.map(Background::from);
    let index = index.parse().map_err(raise)?;
    let question = DuelQuestion { game, contexts, groups, index, covariance, shifts, seed };
    let (rows, model, posterior) = (sample(rows)?, model.model.clone(), model.covariance.clone());
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let heeded = stop.clone();
    let work = move || explain(&model, posterior.as_deref(), &rows, &question, &heeded, &progress);
    let found = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    explained(py, Some(differences(&found).map_err(raise)?), None)
}

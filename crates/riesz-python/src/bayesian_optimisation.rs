//! Bayesian optimisation of treatments for Python: updates effects by trials, and suggests further trials.

use std::sync::Arc;

use numpy::PyArray2;
use pyo3::prelude::*;
use riesz::Table;
use riesz::causal::{
    Acquisition, AcquisitionSearch, Domain, Effect, EffectPosterior, EffectPrior, Suggestion, TreatmentArm,
    Trials, UpdatedEffect,
};

use crate::fusion::{CausalEffect, EffectQuery, EstimateParts, array, estimate_parts, sums};
use crate::thread_pools::{Threads, interruptible};
use crate::{NamedRows, raise, sample};

/// The treatments of trials, their outcomes, the outcomes' variances around the effect if known, and the name
/// of the prior.
type TrialsInput<'py> = (NamedRows<'py>, Vec<f64>, Option<Vec<f64>>, String);

/// Bounds by the names of treatments.
type Bounds = Vec<(String, (f64, f64))>;

/// An effect, its trials, the candidate rows or the bounds between which treatments may be, and costs.
type Choice<'py> = (Py<CausalEffect>, TrialsInput<'py>, Option<NamedRows<'py>>, Bounds, Vec<f64>);

/// An effect, its trials and prior, the domain of treatments, and costs, in the library's types.
type Chosen = (Arc<Effect>, (Trials, EffectPrior), Domain, Vec<f64>);

/// A suggestion: the number of the effect, the treatments, the value of the acquisition function, the
/// expected improvement, mean and standard deviation of the effect, and whether the studies support it.
type Next = (usize, Vec<f64>, f64, f64, f64, f64, bool);

/// The estimate of a query, and the variance and length scale of the discrepancy with the noise.
type UpdatedEstimate = (EstimateParts, (f64, f64, f64));

fn trials_and_prior((rows, outcomes, noise, prior): TrialsInput<'_>) -> PyResult<(Trials, EffectPrior)> {
    let prior = EffectPrior::named(&prior).map_err(raise)?;
    Ok((Trials { treatments: sample(rows)?, outcomes, noise }, prior))
}

/// The estimate of a query after some trials.
#[pyfunction]
pub fn update_effect(
    py: Python<'_>,
    effect: &CausalEffect,
    trials: TrialsInput<'_>,
    query: EffectQuery<'_>,
) -> PyResult<UpdatedEstimate> {
    let (sums, effect) = (sums(&effect.effect, query)?, Arc::clone(&effect.effect));
    let (trials, prior) = trials_and_prior(trials)?;
    let work = move || {
        let updated = UpdatedEffect::new(&effect, &trials, prior)?;
        let EffectPosterior { mean, covariance, support } = updated.evaluate(&sums.treatments)?;
        let causes = Vec::new();
        Ok((
            sums.estimate(riesz::causal::EffectEstimate { mean, covariance, causes, support }),
            updated.parameters(),
        ))
    };
    let (estimate, numbers) =
        interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)?;
    Ok((estimate_parts(py, estimate)?, (numbers.variance, numbers.length_scale, numbers.noise)))
}

/// Suggests the next treatments to try, over all effects.
#[pyfunction]
#[pyo3(signature = (choices, count, acquisition, minimize, supported, seed))]
pub fn suggest_trials(
    py: Python<'_>,
    choices: Vec<Choice<'_>>,
    count: usize,
    acquisition: &str,
    minimize: bool,
    supported: bool,
    seed: u64,
) -> PyResult<Vec<Next>> {
    let acquisition = Acquisition::named(acquisition).map_err(raise)?;
    let choice = |(effect, trials, rows, bounds, costs): Choice<'_>| {
        let domain = match rows {
            Some(rows) => Domain::Rows(sample(rows)?),
            None => Domain::from_bounds(effect.get().effect.treatments(), &bounds).map_err(raise)?,
        };
        Ok::<_, PyErr>((Arc::clone(&effect.get().effect), trials_and_prior(trials)?, domain, costs))
    };
    let choices: Vec<Chosen> = choices.into_iter().map(choice).collect::<PyResult<_>>()?;
    let search = AcquisitionSearch { acquisition, minimize, supported, seed };
    let work = move || {
        let mut arms = Vec::with_capacity(choices.len());
        for (effect, (trials, prior), domain, costs) in &choices {
            let updated_effect = UpdatedEffect::new(effect, trials, *prior)?;
            arms.push(TreatmentArm {
                believed: updated_effect,
                domain: domain.clone(),
                costs: costs.clone(),
            });
        }
        search.suggest(&arms, count)
    };
    let suggestions = interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)?;
    let fields = |suggestion: Suggestion| {
        let Suggestion { arm, treatments, acquisition, expected_improvement, mean, sd, supported, .. } =
            suggestion;
        (arm, treatments, acquisition, expected_improvement, mean, sd, supported)
    };
    Ok(suggestions.into_iter().map(fields).collect())
}

/// The candidate treatments between bounds, so that the caller can give them costs.
#[pyfunction]
pub fn trial_candidates(
    py: Python<'_>,
    studied: NamedRows<'_>,
    bounds: Bounds,
    seed: u64,
) -> PyResult<Py<PyArray2<f64>>> {
    let studied = sample(studied)?;
    let domain = Domain::from_bounds(&studied, &bounds).map_err(raise)?;
    let rows: Table = domain.rows(studied.columns(), seed).map_err(raise)?;
    let values = (0..rows.rows()).flat_map(|i| rows.row(i)).collect();
    array(py, riesz::Matrix::from_row_major(rows.rows(), rows.width(), values))
}

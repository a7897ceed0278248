//! Maximisation of a marginal likelihood over hyper-parameters, from several starting points.

use std::ops::Range;

use super::hyperparameters::{DEFAULT_BOUND_FACTOR, HyperParameter, add_log_priors, log_values};
use crate::control::RunControl;
use crate::error::{Error, Result, sized};
use crate::kernel::{Kernel, Parameter, Profile};
use crate::lbfgsb::{LbfgsMemory, MinimizeResult, minimize};
use crate::model_card::CardEntry;
use crate::random::{Random, RngExt, SeedableRng};

/// A maximum of the marginal likelihood.
pub struct SearchResult {
    /// The parameters on the tuning scale.
    pub theta: Vec<f64>,
    /// The objective at `theta`; -∞ if nothing was tuned.
    pub value: f64,
    /// Total number of optimiser steps over all runs.
    pub steps: usize,
    /// Total number of evaluations of the objective over all runs.
    pub evaluations: usize,
    /// Warnings for the user: parameters at a bound, no convergence, failed restarts.
    pub warnings: Vec<String>,
    /// The L-BFGS curvature pairs of the negative objective at the end of the best run.
    pub curvature: LbfgsMemory,
}

impl SearchResult {
    /// Returns the result without a search, for parameters that stay fixed.
    pub fn unchanged(theta: Vec<f64>) -> Self {
        Self {
            theta,
            value: f64::NEG_INFINITY,
            steps: 0,
            evaluations: 0,
            warnings: Vec::new(),
            curvature: LbfgsMemory::default(),
        }
    }

    /// Adds the steps and evaluations of another search to the totals.
    pub fn count(&mut self, other: &Self) {
        self.steps += other.steps;
        self.evaluations += other.evaluations;
    }

    /// Returns the model card entries of the search; `restarts` is `None` if nothing was tuned.
    pub fn facts(&self, restarts: Option<usize>) -> Vec<CardEntry> {
        let tuned =
            restarts.map(|n| [CardEntry::new("restarts", n), CardEntry::new("optimiser steps", self.steps)]);
        let warnings = self.warnings.iter().map(|w| CardEntry::new("warning", w));
        tuned.into_iter().flatten().chain(warnings).collect()
    }

    /// Returns the model card entries of a search without restarts.
    pub fn tuning_facts(&self) -> impl Iterator<Item = CardEntry> {
        let warnings = self.warnings.iter().map(|w| CardEntry::new("warning", w));
        std::iter::once(CardEntry::new("optimiser steps", self.steps)).chain(warnings)
    }
}

/// Options of a search for a maximum.
#[derive(Debug, Clone, Default)]
pub struct SearchOptions<'b> {
    /// Bounds of the parameters; `None` for the default bounds around the start.
    pub bounds: Option<&'b [(f64, f64)]>,
    /// Number of further runs, from random points within the bounds.
    pub restarts: usize,
    /// Seed of the random points.
    pub seed: u64,
    /// A run ends when two successive steps each gain no more than this; 0 disables the rule.
    pub min_gain: f64,
    /// L-BFGS curvature pairs of the negative objective at the start of the first run, if known.
    pub curvature: LbfgsMemory,
}

/// Checks that `count`, the size of `argument`, equals the number of parameters.
pub fn check(argument: &str, unit: &'static str, count: usize, parameters: &[Parameter]) -> Result<()> {
    let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
    let why = format!("one per parameter: {}", names.join(", "));
    sized(argument, unit, parameters.len(), count, &why)
}

/// Returns `given_bounds` after checks, or the default bounds around `start`.
fn bounds(
    given_bounds: Option<&[(f64, f64)]>,
    start: &[f64],
    parameters: &[Parameter],
) -> Result<Vec<(f64, f64)>> {
    let Some(given_bounds) = given_bounds else {
        return Ok(start
            .iter()
            .map(|v| (v - DEFAULT_BOUND_FACTOR.ln(), v + DEFAULT_BOUND_FACTOR.ln()))
            .collect());
    };
    check("bounds", "pairs", given_bounds.len(), parameters)?;
    for ((&(low, high), &v), Parameter { name, .. }) in given_bounds.iter().zip(start).zip(parameters) {
        // The comparison with the start allows for the rounding of logarithms.
        let tolerance = 1e-9 * (1.0 + v.abs());
        if !(low.is_finite()
            && high.is_finite()
            && low - tolerance <= v
            && v <= high + tolerance
            && low <= high)
        {
            return Err(Error::parameter(
                format!("bounds of {name}"),
                format!("({low}, {high})"),
                format!("they are finite and enclose the start, {v}, on the logarithmic scale"),
            ));
        }
    }
    Ok(given_bounds.to_vec())
}

/// Maximises `objective` (value and gradient, priors included) from `start`, within the bounds of these
/// hyper-parameters.
pub fn maximise_within_priors(
    coordinates: &[HyperParameter],
    start: &[f64],
    control: RunControl<'_>,
    objective: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
) -> Result<SearchResult> {
    let named = coordinates.iter().zip(start);
    let parameters: Vec<Parameter> =
        named.map(|(c, &log_value)| Parameter { log_value, ..c.parameter.clone() }).collect();
    let bounds: Vec<(f64, f64)> = coordinates.iter().map(HyperParameter::bounds).collect();
    let search = SearchOptions { bounds: Some(&bounds), ..SearchOptions::default() };
    maximise(&parameters, 0..parameters.len(), search, control, objective)
}

/// Maximises a log likelihood (value and gradient) plus the log priors of these hyper-parameters, from
/// `start`.
pub fn maximise_posterior(
    coordinates: &[HyperParameter],
    start: &[f64],
    control: RunControl<'_>,
    mut log_likelihood: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
) -> Result<SearchResult> {
    maximise_within_priors(coordinates, start, control, |theta| {
        Ok(add_log_priors(coordinates, theta, log_likelihood(theta)?))
    })
}

/// Minimises a leave-one-out loss, a mean of squared errors of `count` rows, under the priors of these
/// hyper-parameters. It maximises the priors times `loss^(-count/2)`, the profile likelihood of normal errors
/// with an unknown variance.
pub fn minimise_loo_loss(
    coordinates: &[HyperParameter],
    start: &[f64],
    count: usize,
    control: RunControl<'_>,
    mut loss: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
) -> Result<SearchResult> {
    let half_count = 0.5 * count as f64;
    maximise_posterior(coordinates, start, control, |theta| {
        let (loss, mut gradient) = loss(theta)?;
        gradient.iter_mut().for_each(|derivative| *derivative = -half_count * *derivative / loss);
        Ok((-half_count * loss.ln(), gradient))
    })
}

/// Runs a search from each start in turn. Returns the result with the largest value (the first among equal
/// ones) and the second part of its search's return value. Steps and evaluations are totals over all
/// searches.
pub fn best_search<S, T>(
    first: S,
    other_starts: impl IntoIterator<Item = S>,
    mut search: impl FnMut(S) -> Result<(SearchResult, T)>,
) -> Result<(SearchResult, T)> {
    let (mut best, mut best_output) = search(first)?;
    for start in other_starts {
        let (mut next, next_output) = search(start)?;
        if next.value > best.value {
            std::mem::swap(&mut best, &mut next);
            best_output = next_output;
        }
        best.count(&next);
    }
    Ok((best, best_output))
}

/// Largest difference of log marginal likelihoods at which a profile is an alternative to the best one.
const ALTERNATIVE: f64 = 3.0;

/// Compares the result `first` of a search, which started at `kernel`, with those of searches that start at
/// this kernel with other profiles. Returns the best result, and its output followed by the outputs of the
/// results that are smaller by at most 3. Steps and evaluations are totals over all searches.
pub fn best_profile<T>(
    first: (SearchResult, T),
    kernel: &Kernel,
    profiles: &[Profile],
    mut search: impl FnMut(Kernel) -> Result<(SearchResult, T)>,
) -> Result<(SearchResult, Vec<T>)> {
    let (mut steps, mut evaluations) = (first.0.steps, first.0.evaluations);
    let value = |(result, _): &(SearchResult, T)| result.value;
    let results = plausible_profiles(first, kernel, profiles, value, |kernel| {
        let (result, output) = search(kernel)?;
        steps += result.steps;
        evaluations += result.evaluations;
        Ok((result, output))
    })?;
    let (mut results, outputs): (Vec<SearchResult>, Vec<T>) = results.into_iter().unzip();
    Ok((SearchResult { steps, evaluations, ..results.swap_remove(0) }, outputs))
}

/// Compares the fit `first` of `kernel` with fits of this kernel with other profiles. Returns the most likely
/// fit, followed by those whose log likelihood is smaller by at most 3.
pub fn plausible_profiles<T>(
    first: T,
    kernel: &Kernel,
    profiles: &[Profile],
    log_likelihood: impl Fn(&T) -> f64,
    mut fit: impl FnMut(Kernel) -> Result<T>,
) -> Result<Vec<T>> {
    let mut fits = vec![first];
    // A kernel without stationary factors has no profile to change.
    let alternatives = profiles.iter().map(|profile| kernel.with_profile(*profile));
    for alternative in alternatives.filter(|alternative| alternative != kernel) {
        fits.push(fit(alternative)?);
    }
    // The sort is stable: the first among equal fits stays first.
    fits.sort_by(|a, b| log_likelihood(b).total_cmp(&log_likelihood(a)));
    let smallest = log_likelihood(&fits[0]) - ALTERNATIVE;
    fits.retain(|fit| log_likelihood(fit) >= smallest);
    Ok(fits)
}

/// Maximises `objective` (value and gradient) in several runs. The first run starts at the current
/// parameters, `options.restarts` further runs start at points drawn uniformly within the bounds, on the
/// tuning scale. The runs are sequential and the first of equal maxima is returned, so that the result
/// depends on the seed alone. Only the parameters in `free` vary; if `free` is empty, the result is the
/// start. This is a stage of `control`'s progress, in which each evaluation is one step.
pub fn maximise(
    parameters: &[Parameter],
    free: Range<usize>,
    options: SearchOptions<'_>,
    control: RunControl<'_>,
    mut objective: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
) -> Result<SearchResult> {
    let start = log_values(parameters);
    let SearchOptions { bounds: given_bounds, restarts, seed, min_gain, mut curvature } = options;
    let mut bounds = bounds(given_bounds, &start, parameters)?;
    if free.is_empty() {
        return Ok(SearchResult::unchanged(start));
    }
    for i in (0..start.len()).filter(|i| !free.contains(i)) {
        bounds[i] = (start[i], start[i]);
    }
    let mut random = Random::seed_from_u64(seed);
    control.progress.start_stage("choosing hyper-parameters", 0);
    let mut best: Option<MinimizeResult> = None;
    let (mut first_error, mut failures, mut steps, mut evaluations) = (None, 0, 0, 0);
    for run in 0..=restarts {
        let from: Vec<f64> = match run {
            0 => start.clone(),
            _ => bounds.iter().map(|&(low, high)| low + random.random::<f64>() * (high - low)).collect(),
        };
        let run = minimize(&from, &bounds, min_gain, std::mem::take(&mut curvature), |theta| {
            match control.check_cancelled().and_then(|()| objective(theta)) {
                Ok((value, gradient)) => {
                    control.step();
                    Some((-value, gradient.iter().map(|g| -g).collect()))
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                    None
                }
            }
        });
        control.check_cancelled()?;
        match run {
            Some(minimum) => {
                steps += minimum.steps;
                evaluations += minimum.evaluations;
                if best.as_ref().is_none_or(|best| minimum.value < best.value) {
                    best = Some(minimum);
                }
            }
            None => failures += 1,
        }
    }
    let Some(best) = best else {
        return Err(first_error
            .unwrap_or(Error::overflow("the log marginal likelihood", "check the kernel's parameters")));
    };
    let mut warnings = Vec::new();
    for (i, (&(low, high), Parameter { name, .. })) in bounds.iter().zip(parameters).enumerate() {
        let v = best.x[i];
        if low < high && (v <= low || v >= high) {
            let side = if v <= low { "lower" } else { "upper" };
            let remedy = match v > low && name.contains("length_scale") {
                true => "it is so long that the function hardly changes along its columns, which is harmless",
                false => "widen the bounds or fix the parameter",
            };
            warnings.push(format!("{name} ended at its {side} bound: {remedy}"));
        }
    }
    if !best.converged {
        warnings.push(format!("the optimiser did not converge in {} steps", best.steps));
    }
    if failures > 0 {
        warnings.push(format!("{failures} of {} runs could not be started", restarts + 1));
    }
    Ok(SearchResult {
        theta: best.x,
        value: -best.value,
        steps,
        evaluations,
        warnings,
        curvature: best.curvature,
    })
}

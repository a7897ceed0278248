//! Maximisation of a marginal likelihood over the parameters of a kernel, from several starts.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, SQRT_2, TAU};
use std::ops::Range;

use statrs::function::erf::{erfc, erfc_inv};

use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::kernel::Parameter;
use crate::lbfgsb::{LbfgsMemory, MinimizeResult, minimize};
use crate::model_card::CardEntry;
use crate::random::{Random, RngExt, SeedableRng};

/// Half the width of the default bounds, as a factor: from 1/100000 to 100000 times the value at the start.
pub(crate) const DEFAULT_BOUND_FACTOR: f64 = 1e5;

/// A number that is tuned, and what is believed of it beforehand.
pub(crate) struct HyperParameter {
    /// The parameter with its start.
    pub parameter: Parameter,
    /// The prior; `None` for a parameter that stays fixed.
    pub weak: Option<HyperPrior>,
}

/// A weak prior of a number on the tuning scale.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HyperPrior {
    /// A normal distribution.
    Normal { mean: f64, sd: f64 },
    /// The prior of the logarithm of a length scale, with density proportional to `exp(-t/2 - exp(-t/2))`,
    /// where t is the distance from the mode. Shorter length scales, that is rougher functions, are less and
    /// less probable, but hardly any is too long, because the length scale of a column that does not matter
    /// is infinite. This is the penalised-complexity prior in one dimension (Fuglstad, Simpson, Lindgren and
    /// Rue 2019).
    PenalisedComplexity { mode: f64 },
}

impl HyperPrior {
    /// The number below which there is as much probability as below a standard normal score, and its slope.
    pub fn quantile_of_score(self, score: f64) -> (f64, f64) {
        match self {
            Self::Normal { mean, sd } => (mean + sd * score, sd),
            Self::PenalisedComplexity { mode } => {
                // Below t there is exp(-u) with u = exp(-t/2); of the smaller tail more digits are known.
                let tail = 0.5 * erfc(score.abs() * FRAC_1_SQRT_2);
                let u = if score < 0.0 { -tail.ln() } else { -(-tail).ln_1p() };
                let density = (-0.5 * score * score).exp() / TAU.sqrt();
                (mode - 2.0 * u.ln(), 2.0 * density * u.exp() / u)
            }
        }
    }

    /// The normal score of a number.
    pub fn normal_score(self, number: f64) -> f64 {
        match self {
            Self::Normal { mean, sd } => (number - mean) / sd,
            Self::PenalisedComplexity { mode } => {
                let u = (-0.5 * (number - mode)).exp();
                let tail = if u > LN_2 { (-u).exp() } else { -(-u).exp_m1() };
                let score = SQRT_2 * erfc_inv(2.0 * tail.max(f64::MIN_POSITIVE));
                if u > LN_2 { -score } else { score }
            }
        }
    }

    /// The logarithm of the density, less its maximum, and its derivative.
    fn log_density(self, number: f64) -> (f64, f64) {
        match self {
            Self::Normal { mean, sd } => {
                let z = (number - mean) / sd;
                (-0.5 * z * z, -z / sd)
            }
            Self::PenalisedComplexity { mode } => {
                let half_distance = 0.5 * (number - mode);
                (1.0 - half_distance - (-half_distance).exp(), 0.5 * ((-half_distance).exp() - 1.0))
            }
        }
    }
}

impl HyperParameter {
    /// Believed to be near its start.
    pub fn with_normal_prior(parameter: Parameter, sd: f64) -> Self {
        Self { weak: Some(HyperPrior::Normal { mean: parameter.log_value, sd }), parameter }
    }

    /// A length scale that is believed to be around its start, or longer.
    pub fn with_lengthscale_prior(parameter: Parameter) -> Self {
        Self { weak: Some(HyperPrior::PenalisedComplexity { mode: parameter.log_value }), parameter }
    }

    pub fn bounds(&self) -> (f64, f64) {
        let room = if self.weak.is_some() { DEFAULT_BOUND_FACTOR.ln() } else { 0.0 };
        (self.parameter.log_value - room, self.parameter.log_value + room)
    }

    /// The logarithm of the prior's density, less its maximum, and its derivative; zero for a parameter
    /// without a prior.
    pub fn weak(&self, number: f64) -> (f64, f64) {
        self.weak.map_or((0.0, 0.0), |prior| prior.log_density(number))
    }
}

/// A value and its gradient with the logarithms of the weak priors, and their slopes.
pub(crate) fn add_log_priors(
    coordinates: &[HyperParameter],
    theta: &[f64],
    (mut value, mut gradient): (f64, Vec<f64>),
) -> (f64, Vec<f64>) {
    for ((c, theta_value), slope) in coordinates.iter().zip(theta).zip(&mut gradient) {
        let weak = c.weak(*theta_value);
        (value, *slope) = (value + weak.0, *slope + weak.1);
    }
    (value, gradient)
}

/// A maximum of the marginal likelihood.
pub(crate) struct SearchResult {
    /// The parameters on the tuning scale.
    pub theta: Vec<f64>,
    /// The objective there; -∞ where nothing was tuned.
    pub value: f64,
    /// Optimiser steps of all runs together.
    pub steps: usize,
    /// Evaluations of all runs together.
    pub evaluations: usize,
    /// Warnings for the user: parameters at a bound, no convergence, failed restarts.
    pub warnings: Vec<String>,
    /// The curvature of the negative objective at the end of the search.
    pub curvature: LbfgsMemory,
}

impl SearchResult {
    /// Entries of the model card about the search; `restarts` if anything was tuned.
    pub fn facts(&self, restarts: Option<usize>) -> Vec<CardEntry> {
        let tuned =
            restarts.map(|n| [CardEntry::new("restarts", n), CardEntry::new("optimiser steps", self.steps)]);
        let warnings = self.warnings.iter().map(|w| CardEntry::new("warning", w));
        tuned.into_iter().flatten().chain(warnings).collect()
    }
}

/// Options of a search for a maximum.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchOptions<'b> {
    /// Bounds of the parameters; the default ones around the start if `None`.
    pub bounds: Option<&'b [(f64, f64)]>,
    /// Runs from random places within these.
    pub restarts: usize,
    /// The seed of the places.
    pub seed: u64,
    /// A run ends where two steps in turn gain no more than that; 0 for as close as rounding lets it.
    pub min_gain: f64,
    /// Curvature of the negative objective where the first run begins, if it is known.
    pub curvature: LbfgsMemory,
}

/// Checks that there is one number per parameter.
pub(crate) fn check(
    argument: &str,
    unit: &'static str,
    count: usize,
    parameters: &[Parameter],
) -> Result<()> {
    if count == parameters.len() {
        return Ok(());
    }
    let names: Vec<&str> = parameters.iter().map(|p| p.name.as_str()).collect();
    let why = format!("one a parameter: {}", names.join(", "));
    Err(Error::Shape { subject: argument.into(), unit, expected: parameters.len(), actual: count, why })
}

/// The given_bounds bounds after checks, or the default ones around `start`.
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
        // The start is compared with a little room for the rounding of logarithms.
        let room = 1e-9 * (1.0 + v.abs());
        if !(low.is_finite() && high.is_finite() && low - room <= v && v <= high + room && low <= high) {
            return Err(Error::parameter(
                format!("bounds of {name}"),
                format!("({low}, {high})"),
                format!("they are finite and enclose the start, {v}, on the logarithmic scale"),
            ));
        }
    }
    Ok(given_bounds.to_vec())
}

/// From `start`, within the bounds of these coordinates.
pub(crate) fn maximise_within_priors(
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

/// The largest value of `objective` (value and gradient) over runs from where the parameters are and from
/// `search.restarts` points drawn uniformly within the bounds, that is log-uniformly in the parameters. The
/// runs follow one another, and the first of equals wins, so that the result depends on the seed alone. Only
/// the `free` parameters move; if there are none, the start is the result. A step of `control` is an
/// evaluation.
pub(crate) fn maximise(
    parameters: &[Parameter],
    free: Range<usize>,
    maximise_within_priors: SearchOptions<'_>,
    control: RunControl<'_>,
    mut objective: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
) -> Result<SearchResult> {
    let start: Vec<f64> = parameters.iter().map(|p| p.log_value).collect();
    let SearchOptions { bounds: given, restarts, seed, min_gain: enough, mut curvature } =
        maximise_within_priors;
    let mut bounds = bounds(given, &start, parameters)?;
    if free.is_empty() {
        return Ok(SearchResult {
            theta: start,
            value: f64::NEG_INFINITY,
            steps: 0,
            evaluations: 0,
            warnings: Vec::new(),
            curvature: LbfgsMemory::default(),
        });
    }
    for i in (0..start.len()).filter(|i| !free.contains(i)) {
        bounds[i] = (start[i], start[i]);
    }
    let mut random = Random::seed_from_u64(seed);
    let mut best: Option<MinimizeResult> = None;
    let (mut first_error, mut failures, mut steps, mut evaluations) = (None, 0, 0, 0);
    for run in 0..=restarts {
        let from: Vec<f64> = match run {
            0 => start.clone(),
            _ => bounds.iter().map(|&(low, high)| low + random.random::<f64>() * (high - low)).collect(),
        };
        let mut watched = |theta: &[f64]| {
            control.check_cancelled()?;
            let evaluation = objective(theta)?;
            control.step();
            Ok(evaluation)
        };
        let run =
            minimize(&from, &bounds, enough, std::mem::take(&mut curvature), |theta| match watched(theta) {
                Ok((value, gradient)) => Some((-value, gradient.iter().map(|g| -g).collect())),
                Err(error) => {
                    first_error.get_or_insert(error);
                    None
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
        return Err(first_error.unwrap_or(Error::Overflow {
            subject: "the log marginal likelihood".into(),
            remedy: "check the kernel's parameters",
        }));
    };
    let mut warnings = Vec::new();
    for (i, (&(low, high), Parameter { name, .. })) in bounds.iter().zip(parameters).enumerate() {
        let v = best.x[i];
        if low < high && (v <= low || v >= high) {
            let side = if v <= low { "lower" } else { "upper" };
            warnings.push(format!("{name} ended at its {side} bound: widen the bounds or fix the parameter"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_have_the_density_of_what_is_believed() {
        for weak in
            [HyperPrior::Normal { mean: 0.7, sd: 1.5 }, HyperPrior::PenalisedComplexity { mode: -0.4 }]
        {
            // Densities of scores and numbers differ by the slope, and by a constant.
            let constant = |score: f64| {
                let (quantile, slope) = weak.quantile_of_score(score);
                weak.log_density(quantile).0 + slope.ln() + 0.5 * score * score
            };
            for score in [-5.0, -2.0, -0.3, 0.0, 1.1, 3.0, 7.5] {
                let (quantile, slope) = weak.quantile_of_score(score);
                assert!(
                    (weak.normal_score(quantile) - score).abs() < 1e-7,
                    "{score}: {}",
                    weak.normal_score(quantile)
                );
                let difference =
                    (weak.quantile_of_score(score + 1e-5).0 - weak.quantile_of_score(score - 1e-5).0) / 2e-5;
                assert!((slope / difference - 1.0).abs() < 1e-6, "{score}: {slope} {difference}");
                assert!((constant(score) - constant(0.2)).abs() < 1e-7, "{score}: {}", constant(score));
            }
        }
    }
}

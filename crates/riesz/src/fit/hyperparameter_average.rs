//! Averages over the posterior of hyper-parameters. Where there are few targets, the best hyper-parameters
//! are not the only plausible ones, and predictions from these alone have too little variance.
//!
//! Points are normal scores: the prior of each hyper-parameter is standard normal on this scale. Thereby a
//! length scale that does not matter, and may be arbitrarily large, has a finite range. Draws come in rounds.
//! Those of the first round are from a t distribution at the mode whose covariance is the inverse of the
//! curvature there. If one draw outweighs the others, there is more posterior mass around it than the
//! proposals cover: the next round is drawn from a t distribution at the mode that is found from there, or at
//! that draw (Raftery and Bao 2010). Otherwise it is drawn from a t distribution with the mean and covariance
//! of the draws so far. All draws are weighted by the mixture of the proposals (adaptive multiple importance
//! sampling, Cornuet, Marin, Mira and Robert 2012).

use super::hyperparameter_search::{HyperParameter, HyperPrior, add_log_priors, maximise_within_priors};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::kernel::Parameter;
use crate::linalg::{Matrix, dot, symmetric_eigen};
use crate::posterior::Posterior;
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::table::Table;

/// Degrees of freedom of the t distribution that is drawn from: its tails are heavier than those of what is
/// averaged over.
const DEGREES: usize = 5;

/// Step of the differences of slopes that make second derivatives.
const STEP: f64 = 1e-3;

/// The surface bends at least so much; what is believed alone does by 1.
const MIN_CURVATURE: f64 = 0.25;

/// Rounds of draws.
const ROUNDS: usize = 8;

/// A draw that outweighs the others has at least that part of the weight.
const DOMINANT_WEIGHT: f64 = 0.2;

/// Modes that are closer than this to each other, in standard deviations, are considered the same.
const SAME_MODE: f64 = 1.0;

/// Draws of a smaller weight are dropped.
const MIN_WEIGHT: f64 = 1e-6;

/// An average over draws of hyper-parameters.
#[derive(Debug, Clone)]
pub struct PosteriorMixture<F> {
    /// The fits and their weights, which add up to 1.
    pub fits: Vec<(f64, F)>,
    /// Effective sample size `1 / Σ weights²`: this many independent draws from the posterior of the
    /// hyper-parameters would be as informative. The smaller it is, the less accurate is the average.
    pub effective_sample_size: f64,
}

/// Logarithms of hyper-parameters with what is believed of them, and where the search for their mode begins.
pub(crate) struct HyperPosterior<'a> {
    pub coordinates: &'a [HyperParameter],
    pub from: &'a [f64],
    pub control: RunControl<'a>,
}

/// A draw: its scores, the logarithm of its posterior density, and its fit.
struct WeightedDraw<F> {
    scores: Vec<f64>,
    log: f64,
    fit: F,
}

impl HyperPosterior<'_> {
    /// Averages over the posterior that is given by `likelihood`, which returns the log marginal likelihood
    /// and its gradient, and by `fit`, which returns the log marginal likelihood and a fit.
    pub fn average<F>(
        &self,
        mut likelihood: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
        fit: impl Fn(&[f64]) -> Result<(f64, F)>,
        draws: usize,
        seed: u64,
    ) -> Result<PosteriorMixture<F>> {
        if draws == 0 {
            return Err(Error::TooFew { subject: "the list of draws".into(), needed: 1, unit: "draw is" });
        }
        let free = self.free_parameters();
        let scores: Vec<HyperParameter> =
            free.iter().map(|(p, _)| HyperParameter::with_normal_prior(self.to_score(*p), 1.0)).collect();
        let mut posterior = |point: &[f64]| {
            let (theta, slopes) = self.to_theta(point);
            let (value, gradient) = likelihood(&theta)?;
            let gradient = free.iter().zip(slopes).map(|((p, _), slope)| gradient[*p] * slope).collect();
            Ok(add_log_priors(&scores, point, (value, gradient)))
        };
        let tuned: Vec<f64> = free.iter().map(|(p, weak)| weak.normal_score(self.from[*p])).collect();
        let mut proposals = vec![self.around_mode(&scores, &tuned, &mut posterior)?];
        let (rounds, mut random) = (ROUNDS.min(draws), Random::seed_from_u64(seed));
        let (mut draws_so_far, mut sizes, mut first_error) = (Vec::new(), Vec::new(), None);
        for round in 0..rounds {
            let proposal = &proposals[round];
            let size = draws / rounds + usize::from(round < draws % rounds);
            for _ in 0..size {
                self.control.check_cancelled()?;
                let point = proposal.draw(&mut random);
                match fit(&self.to_theta(&point).0) {
                    Ok((log, fit)) => draws_so_far.push(WeightedDraw {
                        log: log - 0.5 * dot(&point, &point),
                        scores: point,
                        fit,
                    }),
                    Err(error) => {
                        first_error.get_or_insert(error);
                    }
                }
            }
            sizes.push(size as f64);
            if round + 1 == rounds {
                break;
            }
            let weights = weights(&draws_so_far, &proposals, &sizes);
            let heaviest = (0..draws_so_far.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
            // One of few draws always has a large weight.
            let dominant = DOMINANT_WEIGHT.max(3.0 / draws_so_far.len() as f64);
            let heavy = heaviest.filter(|&k| weights[k] > dominant).map(|k| &draws_so_far[k].scores);
            let next = match heavy.map(|point| (point, self.around_mode(&scores, point, &mut posterior))) {
                Some((point, Ok(mode))) => {
                    let known = proposals.iter().any(|earlier| mode.distance(&earlier.middle) < SAME_MODE);
                    if known { Proposal { middle: point.clone(), ..mode } } else { mode }
                }
                Some((_, Err(Error::Interrupted))) => return Err(Error::Interrupted),
                // Where there is no gradient, the draw counts as the others do.
                Some((_, Err(_))) | None => proposal.refit(&draws_so_far, &weights)?,
            };
            proposals.push(next);
        }
        let weights = weights(&draws_so_far, &proposals, &sizes);
        let total: f64 = weights.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            let subject = "the marginal likelihood of all draws".into();
            let remedy = "check the kernel's parameters and the noise";
            return Err(first_error.unwrap_or(Error::Overflow { subject, remedy }));
        }
        let effective = effective_sample_size(&weights);
        let mut fits: Vec<(f64, F)> = weights
            .iter()
            .zip(draws_so_far)
            .filter(|(w, _)| **w >= MIN_WEIGHT)
            .map(|(w, draw)| (*w, draw.fit))
            .collect();
        let kept: f64 = fits.iter().map(|(weight, _)| weight).sum();
        fits.iter_mut().for_each(|(weight, _)| *weight /= kept);
        Ok(PosteriorMixture { fits, effective_sample_size: effective })
    }

    /// Index and prior of each hyper-parameter that varies.
    fn free_parameters(&self) -> Vec<(usize, HyperPrior)> {
        let coordinates = self.coordinates.iter().enumerate();
        coordinates.filter_map(|(p, coordinate)| Some((p, coordinate.weak?))).collect()
    }

    /// A coordinate as a score, which is believed to be 0.
    fn to_score(&self, p: usize) -> Parameter {
        Parameter { log_value: 0.0, ..self.coordinates[p].parameter.clone() }
    }

    /// Hyper-parameters with these scores, and the derivatives of those that vary in their scores.
    fn to_theta(&self, scores: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut theta, mut slopes) = (self.from.to_vec(), Vec::new());
        for ((p, weak), score) in self.free_parameters().into_iter().zip(scores) {
            let (value, slope) = weak.quantile_of_score(*score);
            theta[p] = value;
            slopes.push(slope);
        }
        (theta, slopes)
    }

    /// A proposal at the mode that is found from `start`, with minus the inverse of the second derivatives
    /// there as covariance. Where the surface is flatter than a quarter of the prior's curvature, or curves
    /// upwards, that quarter is used.
    fn around_mode(
        &self,
        scores: &[HyperParameter],
        start: &[f64],
        mut posterior: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
    ) -> Result<Proposal> {
        let middle = maximise_within_priors(scores, start, self.control, &mut posterior)?.theta;
        let mut bends = Matrix::zeros(middle.len(), middle.len());
        for k in 0..middle.len() {
            let mut gradient_at = |offset: f64| {
                let mut moved = middle.clone();
                moved[k] += offset;
                posterior(&moved).map(|(_, gradient)| gradient)
            };
            let (above, below) = (gradient_at(STEP)?, gradient_at(-STEP)?);
            for f in 0..middle.len() {
                let second_derivative = 0.25 * (below[f] - above[f]) / STEP;
                bends[(k, f)] += second_derivative;
                bends[(f, k)] += second_derivative;
            }
        }
        let (values, axes) = symmetric_eigen(&bends)?;
        let sds = values.iter().map(|v| 1.0 / v.max(MIN_CURVATURE).sqrt()).collect();
        Ok(Proposal { middle, axes, sds })
    }
}

/// A t distribution, by its middle, and its axes (one a column) with how wide it is along each.
struct Proposal {
    middle: Vec<f64>,
    axes: Matrix,
    sds: Vec<f64>,
}

impl Proposal {
    fn draw(&self, random: &mut Random) -> Vec<f64> {
        let mut normals =
            |count: usize| -> Vec<f64> { (0..count).map(|_| random.sample(StandardNormal)).collect() };
        let (standard, chi) = (normals(self.sds.len()), normals(DEGREES));
        let shrink = (dot(&chi, &chi) / DEGREES as f64).sqrt();
        let along: Vec<f64> = standard.iter().zip(&self.sds).map(|(z, sd)| z * sd / shrink).collect();
        self.middle.iter().enumerate().map(|(f, m)| m + dot(self.axes.row(f), &along)).collect()
    }

    /// Distance from the middle of the proposal, in standard deviations.
    fn distance(&self, point: &[f64]) -> f64 {
        let difference: Vec<f64> = point.iter().zip(&self.middle).map(|(a, m)| a - m).collect();
        let along = |k: usize| difference.iter().enumerate().map(|(f, o)| o * self.axes[(f, k)]).sum::<f64>();
        (0..difference.len()).map(|k| (along(k) / self.sds[k]).powi(2)).sum::<f64>().sqrt()
    }

    /// The logarithm of the density, up to a constant that all proposals share.
    fn log(&self, point: &[f64]) -> f64 {
        let square = self.distance(point).powi(2);
        let width: f64 = self.sds.iter().map(|sd| sd.ln()).sum();
        -0.5 * (DEGREES + point.len()) as f64 * (square / DEGREES as f64).ln_1p() - width
    }

    /// A proposal with the mean and covariance of the draws, mixed with those of this proposal as if it were
    /// worth as many draws as there are parameters.
    fn refit<F>(&self, draws: &[WeightedDraw<F>], weights: &[f64]) -> Result<Self> {
        let (n_effective, n_parameters) = (effective_sample_size(weights), self.sds.len() as f64);
        let share = if n_effective.is_finite() { n_effective / (n_effective + n_parameters) } else { 0.0 };
        let free = self.sds.len();
        let mut middle: Vec<f64> = self.middle.iter().map(|m| (1.0 - share) * m).collect();
        for (w, drawn) in weights.iter().zip(draws) {
            middle.iter_mut().zip(&drawn.scores).for_each(|(m, a)| *m += share * w * a);
        }
        let mut covariance = Matrix::zeros(free, free);
        let mut add = |weight: f64, difference: &[f64]| {
            for (i, a) in difference.iter().enumerate() {
                covariance.row_mut(i).iter_mut().zip(difference).for_each(|(c, b)| *c += weight * a * b);
            }
        };
        for (k, sd) in self.sds.iter().enumerate() {
            let axis: Vec<f64> = (0..free).map(|f| sd * self.axes[(f, k)]).collect();
            add(1.0 - share, &axis);
        }
        for (w, drawn) in weights.iter().zip(draws) {
            let difference: Vec<f64> = drawn.scores.iter().zip(&middle).map(|(a, m)| a - m).collect();
            add(share * w, &difference);
        }
        let (values, axes) = symmetric_eigen(&covariance)?;
        Ok(Self { middle, axes, sds: values.iter().map(|v| v.max(f64::MIN_POSITIVE).sqrt()).collect() })
    }
}

/// Weights of all draws, which add up to 1, under the mixture of the proposals in proportion to their draws;
/// 0 for all where none has a finite likelihood.
fn weights<F>(draws: &[WeightedDraw<F>], proposals: &[Proposal], sizes: &[f64]) -> Vec<f64> {
    let log = |drawn: &WeightedDraw<F>| {
        let log_terms: Vec<f64> = proposals
            .iter()
            .zip(sizes)
            .map(|(proposal, size)| size.ln() + proposal.log(&drawn.scores))
            .collect();
        let maximum = log_terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        drawn.log - maximum - log_terms.iter().map(|v| (v - maximum).exp()).sum::<f64>().ln()
    };
    let logs: Vec<f64> = draws.iter().map(log).collect();
    let maximum = logs.iter().copied().filter(|v| v.is_finite()).fold(f64::NEG_INFINITY, f64::max);
    let raw: Vec<f64> = logs.iter().map(|v| if v.is_finite() { (v - maximum).exp() } else { 0.0 }).collect();
    let total: f64 = raw.iter().sum();
    raw.iter().map(|v| if total > 0.0 { v / total } else { 0.0 }).collect()
}

fn effective_sample_size(weights: &[f64]) -> f64 {
    1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>()
}

/// Mean and standard deviation of a mixture of posteriors.
pub(crate) fn mixture_moments<'a>(
    parts: impl Iterator<Item = (f64, Posterior<'a>)>,
    x: &Table,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut mean, mut square) = (vec![0.0; x.rows()], vec![0.0; x.rows()]);
    let mut predictions = Vec::new();
    for (weight, posterior) in parts {
        let (means, variance) = (posterior.mean().predict(x)?.column(0), posterior.variance(x)?.column(0));
        mean.iter_mut().zip(&means).for_each(|(m, v)| *m += weight * v);
        predictions.push((weight, means, variance));
    }
    for (weight, means, variance) in predictions {
        let entries = square.iter_mut().zip(&mean).zip(means).zip(variance);
        entries.for_each(|(((s, m), v), var)| *s += weight * (var + (v - m) * (v - m)));
    }
    Ok((mean, square.into_iter().map(f64::sqrt).collect()))
}

//! Averages over the posterior distribution of hyper-parameters. With few targets many values of the
//! hyper-parameters are plausible, and predictions from the best values alone have too little variance.
//!
//! The draws are normal scores: on this scale the prior of each hyper-parameter is standard normal. Thereby
//! an irrelevant column, whose length scale may be arbitrarily large, has a score in a finite range. Draws
//! are made in rounds. The first proposal is a t distribution at the mode, with the inverse of the negative
//! Hessian as its scale matrix. If one draw has a dominant weight, the proposals miss posterior mass around
//! it. The next proposal is then a t distribution at the mode found from that draw, or at the draw itself if
//! that mode is known (Raftery and Bao 2010). Otherwise the next proposal is a t distribution with the mean
//! and covariance of the draws so far. All draws are weighted by the mixture of the proposals (adaptive
//! multiple importance sampling, Cornuet, Marin, Mira and Robert 2012).
//!
//! The priors are defined in [`hyperparameters`](super::hyperparameters).

use rayon::prelude::*;
use statrs::function::gamma::ln_gamma;

use super::hyperparameters::{HyperParameter, HyperPrior, add_log_priors};
use super::search::maximise_within_priors;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::kernel::Parameter;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, add_multiple, differences, dot, symmetric_eigen};
use crate::model_average::{self, ModelAverage, WeightedModel};
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::table::Table;

/// Degrees of freedom of the proposals. The tails of a t distribution are heavier than those of the
/// posterior.
const DEGREES: usize = 5;

/// Step of the finite differences of gradients that approximate second derivatives.
const STEP: f64 = 1e-3;

/// Smallest curvature of the negative log posterior that a proposal uses. The prior alone has curvature 1.
const MIN_CURVATURE: f64 = 0.25;

/// Number of rounds of draws.
const ROUNDS: usize = 8;

/// Share of the total weight from which a draw is dominant.
const DOMINANT_WEIGHT: f64 = 0.2;

/// Distance in standard deviations below which two modes are considered the same.
const SAME_MODE: f64 = 1.0;

/// Draws with a smaller weight are dropped.
const MIN_WEIGHT: f64 = 1e-6;

/// An average over draws of hyper-parameters.
#[derive(Debug, Clone)]
pub struct PosteriorMixture<F> {
    /// The weights, which add up to 1, and the fits.
    pub fits: Vec<(f64, F)>,
    /// Effective sample size `1 / Σ weights²`: the number of independent draws from the posterior of the
    /// hyper-parameters that would be as informative. The average is less accurate if it is smaller.
    pub effective_sample_size: f64,
    /// The logarithm of the marginal likelihood averaged over the prior of the hyper-parameters, estimated
    /// by the mean importance weight. It compares models with different hyper-parameters.
    pub log_evidence: f64,
}

/// The posterior of hyper-parameters: their priors and the starting point `from` of the search for the mode.
pub struct HyperPosterior<'a> {
    /// The hyper-parameters with their priors.
    pub coordinates: &'a [HyperParameter],
    /// The start of the search.
    pub from: &'a [f64],
    /// Cancellation and progress.
    pub control: RunControl<'a>,
}

/// A draw: its normal scores, the logarithm of its unnormalised posterior density, and its fit.
struct WeightedDraw<F> {
    scores: Vec<f64>,
    log: f64,
    fit: F,
}

impl HyperPosterior<'_> {
    /// Returns a mixture of `draws` fits that approximates the average over the posterior. `likelihood`
    /// returns the log marginal likelihood and its gradient at θ; `fit` returns the log marginal likelihood
    /// and a fit. The fits of a round run in parallel; the result does not depend on the number of threads.
    pub fn average<F: Send>(
        &self,
        mut likelihood: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
        fit: impl Fn(&[f64]) -> Result<(f64, F)> + Sync,
        draws: usize,
        seed: u64,
    ) -> Result<PosteriorMixture<F>> {
        let free = self.free_parameters();
        check_draws(draws, free.len())?;
        let scores: Vec<HyperParameter> = free.iter().map(|(p, _)| self.to_score(*p)).collect();
        let mut posterior = |point: &[f64]| {
            let (theta, slopes) = self.to_theta(point);
            let (value, gradient) = likelihood(&theta)?;
            let gradient = free.iter().zip(slopes).map(|((p, _), slope)| gradient[*p] * slope).collect();
            Ok(add_log_priors(&scores, point, (value, gradient)))
        };
        let tuned: Vec<f64> = free.iter().map(|(p, prior)| prior.normal_score(self.from[*p])).collect();
        let mut proposals = vec![self.around_mode(&scores, &tuned, &mut posterior)?];
        let (rounds, mut random) = (ROUNDS.min(draws), Random::seed_from_u64(seed));
        self.control.progress.start_stage("averaging over hyper-parameters", draws);
        let (mut draws_so_far, mut sizes, mut first_error) = (Vec::new(), Vec::new(), None);
        for round in 0..rounds {
            let proposal = &proposals[round];
            let size = draws / rounds + usize::from(round < draws % rounds);
            let points: Vec<Vec<f64>> = (0..size).map(|_| proposal.draw(&mut random)).collect();
            let fits = self.fits_at(&points, &fit);
            self.control.check_cancelled()?;
            for (point, fit) in points.into_iter().zip(fits) {
                match fit {
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
            let (weights, _) = weights_and_log_total(&draws_so_far, &proposals, &sizes);
            let heaviest = (0..draws_so_far.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
            // With few draws one of them always has a large weight.
            let dominant = DOMINANT_WEIGHT.max(3.0 / draws_so_far.len() as f64);
            let heavy = heaviest.filter(|&k| weights[k] > dominant).map(|k| &draws_so_far[k].scores);
            let next = match heavy.map(|point| (point, self.around_mode(&scores, point, &mut posterior))) {
                Some((point, Ok(mode))) => {
                    let is_earlier_mode =
                        proposals.iter().any(|earlier| mode.distance(&earlier.location) < SAME_MODE);
                    if is_earlier_mode { Proposal { location: point.clone(), ..mode } } else { mode }
                }
                Some((_, Err(Error::Interrupted))) => return Err(Error::Interrupted),
                // If no mode can be computed from this draw, it is treated like the other draws.
                Some((_, Err(_))) | None => proposal.refit(&draws_so_far, &weights)?,
            };
            proposals.push(next);
        }
        let (weights, log_total) = weights_and_log_total(&draws_so_far, &proposals, &sizes);
        let total: f64 = weights.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            let subject = "the marginal likelihood of all draws";
            let remedy = "check the kernel's parameters and the noise";
            return Err(first_error.unwrap_or(Error::overflow(subject, remedy)));
        }
        let effective = effective_sample_size(&weights);
        let kept = weights.iter().zip(draws_so_far).filter(|(w, _)| **w >= MIN_WEIGHT);
        let mut weighted_fits: Vec<(f64, F)> = kept.map(|(w, draw)| (*w, draw.fit)).collect();
        normalise(&mut weighted_fits);
        Ok(PosteriorMixture {
            fits: weighted_fits,
            effective_sample_size: effective,
            log_evidence: log_total + log_density_ratio_constant(free.len()),
        })
    }

    /// Returns the fits at these normal scores, which run in parallel.
    fn fits_at<F: Send>(
        &self,
        points: &[Vec<f64>],
        fit: &(impl Fn(&[f64]) -> Result<(f64, F)> + Sync),
    ) -> Vec<Result<(f64, F)>> {
        let fit_at = |point: &Vec<f64>| {
            self.control.check_cancelled()?;
            let fit = fit(&self.to_theta(point).0);
            self.control.step();
            fit
        };
        points.par_iter().map(fit_at).collect()
    }

    /// Returns the index and the prior of each hyper-parameter that is not fixed.
    fn free_parameters(&self) -> Vec<(usize, HyperPrior)> {
        let coordinates = self.coordinates.iter().enumerate();
        coordinates.filter_map(|(p, coordinate)| Some((p, coordinate.prior?))).collect()
    }

    /// Returns hyper-parameter p as a normal score, which starts at 0.
    fn to_score(&self, p: usize) -> HyperParameter {
        let parameter = Parameter { log_value: 0.0, ..self.coordinates[p].parameter.clone() };
        HyperParameter::with_normal_prior(parameter, 1.0)
    }

    /// Returns the hyper-parameters θ at these scores, and the derivatives of the free ones in their scores.
    fn to_theta(&self, scores: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut theta, mut slopes) = (self.from.to_vec(), Vec::new());
        for ((p, prior), score) in self.free_parameters().into_iter().zip(scores) {
            let (value, slope) = prior.quantile_of_score(*score);
            theta[p] = value;
            slopes.push(slope);
        }
        (theta, slopes)
    }

    /// Returns a proposal at the mode found from `start`. Its scale matrix is the inverse of the negative
    /// Hessian of the log posterior at the mode. Eigenvalues of the negative Hessian below a quarter of the
    /// prior's curvature are replaced by that quarter.
    fn around_mode(
        &self,
        scores: &[HyperParameter],
        start: &[f64],
        mut posterior: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
    ) -> Result<Proposal> {
        // The steps of this search are no draws, which the progress of the average counts.
        let control = RunControl { stop: self.control.stop, progress: &Progress::default() };
        let location = maximise_within_priors(scores, start, control, &mut posterior)?.theta;
        let mut negative_hessian = Matrix::zeros(location.len(), location.len());
        for k in 0..location.len() {
            let mut gradient_at = |offset: f64| {
                let mut shifted = location.clone();
                shifted[k] += offset;
                posterior(&shifted).map(|(_, gradient)| gradient)
            };
            let (above, below) = (gradient_at(STEP)?, gradient_at(-STEP)?);
            for f in 0..location.len() {
                let second_derivative = 0.25 * (below[f] - above[f]) / STEP;
                negative_hessian[(k, f)] += second_derivative;
                negative_hessian[(f, k)] += second_derivative;
            }
        }
        let (values, axes) = symmetric_eigen(&negative_hessian)?;
        let sds = values.iter().map(|v| 1.0 / v.max(MIN_CURVATURE).sqrt()).collect();
        Ok(Proposal { location, axes, sds })
    }
}

/// Returns the number of draws of hyper-parameters for each of several profiles, at least 2. Fewer than 2
/// draws in total are refused by [`HyperPosterior::average`].
pub fn draws_per_profile(draws: usize, profiles: usize) -> usize {
    if draws < 2 { draws } else { draws.div_ceil(profiles).max(2) }
}

/// Checks that there are draws, of at least one hyper-parameter.
fn check_draws(draws: usize, n_free: usize) -> Result<()> {
    if n_free == 0 {
        let why = "an average needs at least one hyper-parameter that is not fixed";
        return Err(Error::parameter("number of free hyper-parameters", 0, why));
    }
    if draws < 2 {
        return Err(Error::parameter("n_hyperparameter_samples", draws, "take 0 for none, or at least 2"));
    }
    Ok(())
}

/// A t distribution with its location, its principal axes (the columns of `axes`) and the scale along each
/// axis.
struct Proposal {
    location: Vec<f64>,
    axes: Matrix,
    sds: Vec<f64>,
}

impl Proposal {
    fn draw(&self, random: &mut Random) -> Vec<f64> {
        let mut normals =
            |count: usize| -> Vec<f64> { (0..count).map(|_| random.sample(StandardNormal)).collect() };
        let (standard, chi) = (normals(self.sds.len()), normals(DEGREES));
        let chi_scale = (dot(&chi, &chi) / DEGREES as f64).sqrt();
        let axis_steps: Vec<f64> = standard.iter().zip(&self.sds).map(|(z, sd)| z * sd / chi_scale).collect();
        self.location.iter().enumerate().map(|(f, m)| m + dot(self.axes.row(f), &axis_steps)).collect()
    }

    /// Returns the distance of `point` from the location, in standard deviations.
    fn distance(&self, point: &[f64]) -> f64 {
        let difference = differences(point, &self.location);
        let axis_component =
            |k: usize| difference.iter().enumerate().map(|(f, o)| o * self.axes[(f, k)]).sum::<f64>();
        (0..difference.len()).map(|k| (axis_component(k) / self.sds[k]).powi(2)).sum::<f64>().sqrt()
    }

    /// Returns the logarithm of the density up to a constant that all proposals share.
    fn log(&self, point: &[f64]) -> f64 {
        let square = self.distance(point).powi(2);
        let log_volume: f64 = self.sds.iter().map(|sd| sd.ln()).sum();
        -0.5 * (DEGREES + point.len()) as f64 * (square / DEGREES as f64).ln_1p() - log_volume
    }

    /// Returns a proposal with the mean and covariance of the weighted draws. These are mixed with the mean
    /// and covariance of this proposal, which counts as many draws as there are parameters.
    fn refit<F>(&self, draws: &[WeightedDraw<F>], weights: &[f64]) -> Result<Self> {
        let (n_effective, n_parameters) = (effective_sample_size(weights), self.sds.len() as f64);
        let share = if n_effective.is_finite() { n_effective / (n_effective + n_parameters) } else { 0.0 };
        let free = self.sds.len();
        let mut location: Vec<f64> = self.location.iter().map(|m| (1.0 - share) * m).collect();
        for (w, drawn) in weights.iter().zip(draws) {
            add_multiple(&mut location, share * w, &drawn.scores);
        }
        let mut covariance = Matrix::zeros(free, free);
        let mut add = |weight: f64, difference: &[f64]| {
            covariance.add_outer(difference.iter().map(|a| weight * a), difference);
        };
        for (k, sd) in self.sds.iter().enumerate() {
            let axis: Vec<f64> = (0..free).map(|f| sd * self.axes[(f, k)]).collect();
            add(1.0 - share, &axis);
        }
        for (w, drawn) in weights.iter().zip(draws) {
            add(share * w, &differences(&drawn.scores, &location));
        }
        let (values, axes) = symmetric_eigen(&covariance)?;
        Ok(Self { location, axes, sds: values.iter().map(|v| v.max(f64::MIN_POSITIVE).sqrt()).collect() })
    }
}

/// Returns the logarithm of the ratio of the constants of a standard normal density and of a proposal's
/// density in p dimensions, which [`WeightedDraw::log`] and [`Proposal::log`] omit.
fn log_density_ratio_constant(p: usize) -> f64 {
    let (p, degrees) = (p as f64, DEGREES as f64);
    0.5 * p * (0.5 * degrees).ln() + ln_gamma(0.5 * degrees) - ln_gamma(0.5 * (degrees + p))
}

/// Returns the importance weights of all draws, which add up to 1, and the logarithm of the mean of the
/// weights before this normalisation, up to a [constant](log_density_ratio_constant). The proposal density is
/// the mixture of the proposals in proportion to their numbers of draws. All weights are 0 if no draw has a
/// finite likelihood.
fn weights_and_log_total<F>(
    draws: &[WeightedDraw<F>],
    proposals: &[Proposal],
    sizes: &[f64],
) -> (Vec<f64>, f64) {
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
    (raw.iter().map(|v| if total > 0.0 { v / total } else { 0.0 }).collect(), maximum + total.ln())
}

/// Divides the weights by their sum.
fn normalise<F>(weighted_fits: &mut [(f64, F)]) {
    let total: f64 = weighted_fits.iter().map(|(weight, _)| weight).sum();
    weighted_fits.iter_mut().for_each(|(weight, _)| *weight /= total);
}

fn effective_sample_size(weights: &[f64]) -> f64 {
    1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>()
}

/// A fit with a Gaussian posterior.
pub trait WithPosterior {
    /// Returns the posterior of f.
    fn posterior(&self) -> Posterior<'_>;

    /// Returns the posterior mean and the posterior covariance.
    fn into_parts(self) -> (KernelExpansion, PosteriorCovariance);
}

impl<F> PosteriorMixture<F> {
    /// Returns the average over the fits of a quantity that each fit has, such as probabilities at given
    /// rows.
    ///
    /// # Errors
    /// Those of `quantity`.
    pub fn expectation(&self, quantity: impl Fn(&F) -> Result<Matrix>) -> Result<Matrix> {
        let [(first_weight, first), others @ ..] = &self.fits[..] else {
            return Err(Error::too_few("the list of fits", 1, "fit is"));
        };
        let mut sum = quantity(first)?;
        sum.scale(*first_weight);
        for (weight, fit) in others {
            sum.add_times(*weight, &quantity(fit)?);
        }
        Ok(sum)
    }
}

impl<F: WithPosterior> PosteriorMixture<F> {
    /// Returns the mean and the standard deviation of f at each row of `x` (rows × outputs). Both belong to
    /// the mixture, so that the standard deviation includes the differences between the fits. Cost: the sum
    /// over all fits.
    ///
    /// # Errors
    /// As [`KernelExpansion::predict`](riesz_core::KernelExpansion::predict).
    pub fn predict(&self, x: &Table) -> Result<(Matrix, Matrix)> {
        let posteriors: Vec<_> = self.fits.iter().map(|(weight, fit)| (*weight, fit.posterior())).collect();
        let means = self.expectation(|fit| fit.posterior().mean().predict(x))?;
        Ok((means, model_average::sd(&posteriors, x)?))
    }

    /// Returns the average as models for predictions and files.
    pub fn into_models(self) -> ModelAverage {
        let models = self.fits.into_iter().map(|(weight, fit)| {
            let (model, covariance) = fit.into_parts();
            WeightedModel { weight, model, covariance: Some(covariance) }
        });
        ModelAverage::new(models.collect(), self.effective_sample_size)
    }
}

impl<F> PosteriorMixture<F> {
    /// Returns the mixture of the posteriors under several models, which have the same probability before the
    /// data. Their posterior probabilities are proportional to their evidences.
    ///
    /// # Panics
    /// If `mixtures` is empty.
    pub fn combined(mixtures: Vec<Self>) -> Self {
        let largest = mixtures.iter().map(|m| m.log_evidence).fold(f64::NEG_INFINITY, f64::max);
        let relative: Vec<f64> = mixtures.iter().map(|m| (m.log_evidence - largest).exp()).collect();
        let total: f64 = relative.iter().sum();
        let probabilities: Vec<f64> = relative.iter().map(|evidence| evidence / total).collect();
        let squared_weights = mixtures.iter().zip(&probabilities);
        let squared_weights: f64 =
            squared_weights.map(|(m, probability)| probability.powi(2) / m.effective_sample_size).sum();
        let log_evidence = largest + (total / mixtures.len() as f64).ln();
        let fits = mixtures.into_iter().zip(probabilities).flat_map(|(mixture, probability)| {
            mixture.fits.into_iter().map(move |(weight, fit)| (probability * weight, fit))
        });
        let mut fits: Vec<(f64, F)> = fits.filter(|(weight, _)| *weight >= MIN_WEIGHT).collect();
        normalise(&mut fits);
        Self { fits, effective_sample_size: 1.0 / squared_weights, log_evidence }
    }

    /// Returns the mixture with each fit replaced by `function` of it.
    pub fn map<G>(self, function: impl Fn(F) -> G) -> PosteriorMixture<G> {
        PosteriorMixture {
            fits: self.fits.into_iter().map(|(weight, fit)| (weight, function(fit))).collect(),
            effective_sample_size: self.effective_sample_size,
            log_evidence: self.log_evidence,
        }
    }
}

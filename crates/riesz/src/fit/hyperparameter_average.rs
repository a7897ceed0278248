//! Averages over hyper-parameters: where targets are few, the best ones are not the only ones, and
//! predictions by them alone are too sure.
//!
//! Places are scores by which what is believed of each hyper-parameter is standard normal, so that a length
//! scale that does not matter, which has no end, has one there. Draws come in rounds. Those of the first are
//! from a t distribution at the mode, as wide as the surface bends there. Where one draw outweighs the
//! others, there is more than was known around it: the next round is from a t distribution at the mode that
//! is found from there, or at that draw (Raftery and Bao 2010). Else it is from one with the mean and
//! covariance of what was found so far. All count by the mixture of what they were drawn from (adaptive
//! multiple importance sampling, Cornuet, Marin, Mira and Robert 2012).

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

/// Modes that are so near each other, in standard deviations, are one.
const SAME: f64 = 1.0;

/// Draws of less weight are not kept.
const LEAST: f64 = 1e-6;

/// An average over draws of hyper-parameters.
#[derive(Debug, Clone)]
pub struct PosteriorMixture<F> {
    /// The fits and their weights, which add up to 1.
    pub fits: Vec<(f64, F)>,
    /// As many draws of the hyper-parameters' posterior itself would say as much: `1 / Σ weights²`. The
    /// fewer, the rougher the average.
    pub effective_sample_size: f64,
}

/// Logarithms of hyper-parameters with what is believed of them, and where the search for their mode begins.
pub(crate) struct HyperPosterior<'a> {
    pub coordinates: &'a [HyperParameter],
    pub from: &'a [f64],
    pub watch: RunControl<'a>,
}

/// What was drawn: scores, logarithm of the posterior, and fit.
struct WeightedDraw<F> {
    at: Vec<f64>,
    log: f64,
    fit: F,
}

impl HyperPosterior<'_> {
    /// By the marginal likelihood and its slopes, and by a fit and its marginal likelihood.
    pub fn average<F>(
        &self,
        mut likelihood: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
        fit: impl Fn(&[f64]) -> Result<(f64, F)>,
        draws: usize,
        seed: u64,
    ) -> Result<PosteriorMixture<F>> {
        if draws == 0 {
            return Err(Error::TooFew { what: "the list of draws".into(), needed: 1, unit: "draw is" });
        }
        let free = self.free_parameters();
        let scores: Vec<HyperParameter> =
            free.iter().map(|(p, _)| HyperParameter::with_normal_prior(self.to_score(*p), 1.0)).collect();
        let mut posterior = |at: &[f64]| {
            let (theta, slopes) = self.to_theta(at);
            let (value, gradient) = likelihood(&theta)?;
            let gradient = free.iter().zip(slopes).map(|((p, _), slope)| gradient[*p] * slope).collect();
            Ok(add_log_priors(&scores, at, (value, gradient)))
        };
        let tuned: Vec<f64> = free.iter().map(|(p, weak)| weak.normal_score(self.from[*p])).collect();
        let mut proposals = vec![self.around_mode(&scores, &tuned, &mut posterior)?];
        let (rounds, mut random) = (ROUNDS.min(draws), Random::seed_from_u64(seed));
        let (mut found, mut sizes, mut first_error) = (Vec::new(), Vec::new(), None);
        for round in 0..rounds {
            let own = &proposals[round];
            let size = draws / rounds + usize::from(round < draws % rounds);
            for _ in 0..size {
                self.watch.check_cancelled()?;
                let at = own.draw(&mut random);
                match fit(&self.to_theta(&at).0) {
                    Ok((log, fit)) => found.push(WeightedDraw { log: log - 0.5 * dot(&at, &at), at, fit }),
                    Err(error) => {
                        first_error.get_or_insert(error);
                    }
                }
            }
            sizes.push(size as f64);
            if round + 1 == rounds {
                break;
            }
            let weights = weights(&found, &proposals, &sizes);
            let heaviest = (0..found.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b]));
            // Of few draws one is always heavy.
            let least = DOMINANT_WEIGHT.max(3.0 / found.len() as f64);
            let heavy = heaviest.filter(|&k| weights[k] > least).map(|k| &found[k].at);
            let next = match heavy.map(|at| (at, self.around_mode(&scores, at, &mut posterior))) {
                Some((at, Ok(mode))) => {
                    let known = proposals.iter().any(|own| mode.distance(&own.middle) < SAME);
                    if known { Proposal { middle: at.clone(), ..mode } } else { mode }
                }
                Some((_, Err(Error::Interrupted))) => return Err(Error::Interrupted),
                // Where slopes cannot be told, the draw counts as the others do.
                Some((_, Err(_))) | None => own.refit(&found, &weights)?,
            };
            proposals.push(next);
        }
        let weights = weights(&found, &proposals, &sizes);
        let total: f64 = weights.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            let what = "the marginal likelihood of all draws".into();
            let remedy = "check the kernel's parameters and the noise";
            return Err(first_error.unwrap_or(Error::Overflow { what, remedy }));
        }
        let effective = effective_sample_size(&weights);
        let mut fits: Vec<(f64, F)> =
            weights.iter().zip(found).filter(|(w, _)| **w >= LEAST).map(|(w, own)| (*w, own.fit)).collect();
        let kept: f64 = fits.iter().map(|(weight, _)| weight).sum();
        fits.iter_mut().for_each(|(weight, _)| *weight /= kept);
        Ok(PosteriorMixture { fits, effective_sample_size: effective })
    }

    /// Places and priors of what varies.
    fn free_parameters(&self) -> Vec<(usize, HyperPrior)> {
        let all = self.coordinates.iter().enumerate();
        all.filter_map(|(p, coordinate)| Some((p, coordinate.weak?))).collect()
    }

    /// A coordinate as a score, which is believed to be 0.
    fn to_score(&self, p: usize) -> Parameter {
        Parameter { log_value: 0.0, ..self.coordinates[p].parameter.clone() }
    }

    /// Hyper-parameters of these scores, and the slopes of those that vary.
    fn to_theta(&self, at: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut theta, mut slopes) = (self.from.to_vec(), Vec::new());
        for ((p, weak), score) in self.free_parameters().into_iter().zip(at) {
            let (value, slope) = weak.quantile_of_score(*score);
            theta[p] = value;
            slopes.push(slope);
        }
        (theta, slopes)
    }

    /// As wide as minus the second derivatives say at the mode that is found from `start`. Where the surface
    /// is flatter than a quarter of what is believed, or bends upwards, that is taken.
    fn around_mode(
        &self,
        scores: &[HyperParameter],
        start: &[f64],
        mut posterior: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
    ) -> Result<Proposal> {
        let middle = maximise_within_priors(scores, start, self.watch, &mut posterior)?.theta;
        let mut bends = Matrix::zeros(middle.len(), middle.len());
        for k in 0..middle.len() {
            let mut at = |by: f64| {
                let mut moved = middle.clone();
                moved[k] += by;
                posterior(&moved).map(|(_, gradient)| gradient)
            };
            let (above, below) = (at(STEP)?, at(-STEP)?);
            for f in 0..middle.len() {
                let bend = 0.25 * (below[f] - above[f]) / STEP;
                bends[(k, f)] += bend;
                bends[(f, k)] += bend;
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
        let (standard, spread) = (normals(self.sds.len()), normals(DEGREES));
        let shrink = (dot(&spread, &spread) / DEGREES as f64).sqrt();
        let along: Vec<f64> = standard.iter().zip(&self.sds).map(|(z, sd)| z * sd / shrink).collect();
        self.middle.iter().enumerate().map(|(f, m)| m + dot(self.axes.row(f), &along)).collect()
    }

    /// From its middle, in standard deviations.
    fn distance(&self, at: &[f64]) -> f64 {
        let off: Vec<f64> = at.iter().zip(&self.middle).map(|(a, m)| a - m).collect();
        let along = |k: usize| off.iter().enumerate().map(|(f, o)| o * self.axes[(f, k)]).sum::<f64>();
        (0..off.len()).map(|k| (along(k) / self.sds[k]).powi(2)).sum::<f64>().sqrt()
    }

    /// The logarithm of the density, but for a constant that all have.
    fn log(&self, at: &[f64]) -> f64 {
        let square = self.distance(at).powi(2);
        let width: f64 = self.sds.iter().map(|sd| sd.ln()).sum();
        -0.5 * (DEGREES + at.len()) as f64 * (square / DEGREES as f64).ln_1p() - width
    }

    /// With mean and covariance of what was drawn, mixed with its own as if these were worth as many draws as
    /// there are parameters.
    fn refit<F>(&self, found: &[WeightedDraw<F>], weights: &[f64]) -> Result<Self> {
        let (worth, own) = (effective_sample_size(weights), self.sds.len() as f64);
        let share = if worth.is_finite() { worth / (worth + own) } else { 0.0 };
        let free = self.sds.len();
        let mut middle: Vec<f64> = self.middle.iter().map(|m| (1.0 - share) * m).collect();
        for (w, drawn) in weights.iter().zip(found) {
            middle.iter_mut().zip(&drawn.at).for_each(|(m, a)| *m += share * w * a);
        }
        let mut covariance = Matrix::zeros(free, free);
        let mut add = |weight: f64, off: &[f64]| {
            for (i, a) in off.iter().enumerate() {
                covariance.row_mut(i).iter_mut().zip(off).for_each(|(c, b)| *c += weight * a * b);
            }
        };
        for (k, sd) in self.sds.iter().enumerate() {
            let axis: Vec<f64> = (0..free).map(|f| sd * self.axes[(f, k)]).collect();
            add(1.0 - share, &axis);
        }
        for (w, drawn) in weights.iter().zip(found) {
            let off: Vec<f64> = drawn.at.iter().zip(&middle).map(|(a, m)| a - m).collect();
            add(share * w, &off);
        }
        let (values, axes) = symmetric_eigen(&covariance)?;
        Ok(Self { middle, axes, sds: values.iter().map(|v| v.max(f64::MIN_POSITIVE).sqrt()).collect() })
    }
}

/// Of all draws the weights, which add up to 1, by the mixture of as many of each proposal; 0 where none has
/// a likelihood.
fn weights<F>(found: &[WeightedDraw<F>], proposals: &[Proposal], sizes: &[f64]) -> Vec<f64> {
    let log = |drawn: &WeightedDraw<F>| {
        let each: Vec<f64> =
            proposals.iter().zip(sizes).map(|(own, size)| size.ln() + own.log(&drawn.at)).collect();
        let most = each.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        drawn.log - most - each.iter().map(|v| (v - most).exp()).sum::<f64>().ln()
    };
    let logs: Vec<f64> = found.iter().map(log).collect();
    let most = logs.iter().copied().filter(|v| v.is_finite()).fold(f64::NEG_INFINITY, f64::max);
    let raw: Vec<f64> = logs.iter().map(|v| if v.is_finite() { (v - most).exp() } else { 0.0 }).collect();
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
    let mut all = Vec::new();
    for (weight, posterior) in parts {
        let (own, variance) = (posterior.mean().predict(x)?.column(0), posterior.variance(x)?.column(0));
        mean.iter_mut().zip(&own).for_each(|(m, v)| *m += weight * v);
        all.push((weight, own, variance));
    }
    for (weight, own, variance) in all {
        let each = square.iter_mut().zip(&mean).zip(own).zip(variance);
        each.for_each(|(((s, m), v), var)| *s += weight * (var + (v - m) * (v - m)));
    }
    Ok((mean, square.into_iter().map(f64::sqrt).collect()))
}

//! Averages over hyper-parameters: where targets are few, the best ones are not the only ones, and predictions by them alone are too sure.
//!
//! Draws come in rounds. Those of the first are from a t distribution at the mode, as wide as the surface bends there; those of each further one from a t distribution with the mean and
//! covariance of what was found so far, since surfaces are skew: a length scale that does not matter has no end. All count by the mixture of what they were drawn from (adaptive multiple
//! importance sampling, Cornuet, Marin, Mira and Robert 2012).

use super::counts::CountFit;
use super::data::Aggregates;
use super::exact::AggregateGaussianProcess;
use super::fitted::AggregateFit;
use super::tune::{Tuning, coordinates, logs, maximise};
use crate::error::{Error, Result};
use crate::fit::evidence::{Coordinate, Weak, with_priors};
use crate::linalg::{Matrix, dot, symmetric_eigen};
use crate::posterior::Posterior;
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::stop::Watch;
use crate::table::Table;

/// Degrees of freedom of the t distribution that is drawn from: its tails are heavier than those of what is averaged over.
const DEGREES: usize = 5;

/// Step of the differences of slopes that make second derivatives.
const STEP: f64 = 1e-3;

/// Rounds of draws.
const ROUNDS: usize = 4;

/// Draws of less weight are not kept.
const LEAST: f64 = 1e-6;

/// An average over draws of hyper-parameters.
#[derive(Debug, Clone)]
pub struct Averaged<F> {
    /// The fits and their weights, which add up to 1.
    pub fits: Vec<(f64, F)>,
    /// As many draws of the hyper-parameters' posterior itself would say as much: `1 / Σ weights²`. The fewer, the rougher the average.
    pub effective: f64,
}

impl Tuning {
    /// The posterior, averaged over hyper-parameters under the weak priors around `start` by importance draws, the first of which are around the mode that is found from `tuned`.
    /// All hyper-parameters vary, those of mediators too, but for the scale of their kernel. Cost: some tens of evaluations of the marginal likelihood, two more for each parameter, and a
    /// fit a draw.
    ///
    /// # Errors
    /// As [`AggregateGaussianProcess::fit`]; [`Error::TooFew`] without draws; [`Error::Overflow`] if no draw has a likelihood; [`Error::Interrupted`].
    ///
    /// # Panics
    /// If `tuned` is a process with other parameters.
    pub fn average(
        &self,
        start: &AggregateGaussianProcess,
        tuned: &AggregateGaussianProcess,
        data: &Aggregates,
        draws: usize,
        seed: u64,
    ) -> Result<Averaged<AggregateFit>> {
        let (watch, (coordinates, _)) = (self.watch(), coordinates(start));
        let surface = Surface { coordinates: &coordinates, from: &logs(tuned), watch };
        let posterior = |theta: &[f64]| tuned.with_parameters(theta).value_and_gradient(data, true, watch);
        let fit = |theta: &[f64]| {
            let fit = tuned.with_parameters(theta).fit_until(data, watch)?;
            Ok((fit.log_marginal_likelihood, fit))
        };
        surface.average(posterior, fit, draws, seed)
    }
}

/// Logarithms of hyper-parameters, and where the search for their mode begins.
pub(super) struct Surface<'a> {
    pub coordinates: &'a [Coordinate],
    pub from: &'a [f64],
    pub watch: Watch<'a>,
}

/// What was drawn: place, logarithm of the posterior, and fit.
struct Drawn<F> {
    at: Vec<f64>,
    log: f64,
    fit: F,
}

impl Surface<'_> {
    /// By the marginal likelihood and its slopes, and by a fit and its marginal likelihood.
    pub fn average<F>(
        &self,
        mut likelihood: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
        fit: impl Fn(&[f64]) -> Result<(f64, F)>,
        draws: usize,
        seed: u64,
    ) -> Result<Averaged<F>> {
        if draws == 0 {
            return Err(Error::TooFew { what: "the list of draws".into(), needed: 1, unit: "draw is" });
        }
        let coordinates = self.coordinates;
        let mut posterior = |theta: &[f64]| Ok(with_priors(coordinates, theta, likelihood(theta)?));
        let mode = maximise(coordinates, self.from, self.watch, &mut posterior)?.theta;
        let free: Vec<usize> = (0..mode.len()).filter(|&p| coordinates[p].weak.is_some()).collect();
        let mut proposals = vec![self.around(&mode, &free, posterior)?];
        let mut random = Random::seed_from_u64(seed);
        let (mut found, mut sizes, mut first_error) = (Vec::new(), Vec::new(), None);
        for round in 0..ROUNDS.min(draws) {
            let own = &proposals[round];
            let size = draws / ROUNDS.min(draws) + usize::from(round < draws % ROUNDS.min(draws));
            for _ in 0..size {
                self.watch.check()?;
                let at = own.draw(&mut random);
                let mut theta = mode.clone();
                free.iter().zip(&at).for_each(|(&p, v)| theta[p] = *v);
                match fit(&theta) {
                    Ok((log, fit)) => {
                        let prior: f64 = coordinates.iter().zip(&theta).map(|(c, at)| c.weak(*at).0).sum();
                        found.push(Drawn { at, log: log + prior, fit });
                    }
                    Err(error) => {
                        first_error.get_or_insert(error);
                    }
                }
            }
            sizes.push(size as f64);
            let next = own.moved(&found, &weights(&found, &proposals, &sizes))?;
            proposals.push(next);
        }
        let weights = weights(&found, &proposals, &sizes);
        let total: f64 = weights.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            let what = "the marginal likelihood of all draws".into();
            let remedy = "check the kernel's parameters and the noise";
            return Err(first_error.unwrap_or(Error::Overflow { what, remedy }));
        }
        let effective = effective(&weights);
        let mut fits: Vec<(f64, F)> =
            weights.iter().zip(found).filter(|(w, _)| **w >= LEAST).map(|(w, own)| (*w, own.fit)).collect();
        let kept: f64 = fits.iter().map(|(weight, _)| weight).sum();
        fits.iter_mut().for_each(|(weight, _)| *weight /= kept);
        Ok(Averaged { fits, effective })
    }

    /// At the mode, as wide as minus the second derivatives say. Where the surface is flatter than a quarter of the weakest prior, or bends upwards, that is taken.
    fn around(
        &self,
        mode: &[f64],
        free: &[usize],
        mut posterior: impl FnMut(&[f64]) -> Result<(f64, Vec<f64>)>,
    ) -> Result<Proposal> {
        let mut bends = Matrix::zeros(free.len(), free.len());
        for (k, &p) in free.iter().enumerate() {
            let mut at = |by: f64| {
                let mut theta = mode.to_vec();
                theta[p] += by;
                posterior(&theta).map(|(_, gradient)| gradient)
            };
            let (above, below) = (at(STEP)?, at(-STEP)?);
            for (f, &q) in free.iter().enumerate() {
                let bend = 0.25 * (below[q] - above[q]) / STEP;
                bends[(k, f)] += bend;
                bends[(f, k)] += bend;
            }
        }
        let (values, axes) = symmetric_eigen(&bends)?;
        let widest = self.coordinates.iter().filter_map(|c| c.weak.map(Weak::sd)).fold(0.0, f64::max);
        let sds = values.iter().map(|v| 1.0 / v.max(0.25 / (widest * widest)).sqrt()).collect();
        Ok(Proposal { middle: free.iter().map(|&p| mode[p]).collect(), axes, sds })
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

    /// The logarithm of the density, but for a constant that all have.
    fn log(&self, at: &[f64]) -> f64 {
        let off = Matrix::column_vector(at.iter().zip(&self.middle).map(|(a, m)| a - m).collect());
        let along = self.axes.transpose().matmul(&off);
        let square: f64 = along.data().iter().zip(&self.sds).map(|(a, sd)| (a / sd).powi(2)).sum();
        let width: f64 = self.sds.iter().map(|sd| sd.ln()).sum();
        -0.5 * (DEGREES + at.len()) as f64 * (square / DEGREES as f64).ln_1p() - width
    }

    /// With mean and covariance of what was drawn, mixed with its own as if these were worth as many draws as there are parameters.
    fn moved<F>(&self, found: &[Drawn<F>], weights: &[f64]) -> Result<Self> {
        let (worth, own) = (effective(weights), self.sds.len() as f64);
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

/// Of all draws the weights, which add up to 1, by the mixture of as many of each proposal; 0 where none has a likelihood.
fn weights<F>(found: &[Drawn<F>], proposals: &[Proposal], sizes: &[f64]) -> Vec<f64> {
    let log = |drawn: &Drawn<F>| {
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

fn effective(weights: &[f64]) -> f64 {
    1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>()
}

impl Averaged<AggregateFit> {
    /// Mean and standard deviation of f at rows, one each: of the mixture, so that how far the fits differ counts. Cost that of all fits.
    ///
    /// # Errors
    /// As [`Expansion::predict`](crate::Expansion::predict).
    pub fn predict(&self, x: &Table) -> Result<(Vec<f64>, Vec<f64>)> {
        mixed(self.fits.iter().map(|(weight, fit)| (*weight, fit.posterior())), x)
    }
}

impl Averaged<CountFit> {
    /// Mean and standard deviation of f, the logarithm of a rate or its log odds, at rows, as [`Averaged::<AggregateFit>::predict`].
    ///
    /// # Errors
    /// As there.
    pub fn predict(&self, x: &Table) -> Result<(Vec<f64>, Vec<f64>)> {
        mixed(self.fits.iter().map(|(weight, fit)| (*weight, fit.posterior())), x)
    }
}

/// Mean and standard deviation of a mixture of posteriors.
fn mixed<'a>(parts: impl Iterator<Item = (f64, Posterior<'a>)>, x: &Table) -> Result<(Vec<f64>, Vec<f64>)> {
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

//! Averages over hyper-parameters: where targets are few, the best ones are not the only ones, and predictions by them alone are too sure.

use super::data::Aggregates;
use super::exact::AggregateGaussianProcess;
use super::fitted::AggregateFit;
use super::tune::{Tuning, coordinates, logs, maximise};
use crate::error::{Error, Result};
use crate::fit::evidence::{Coordinate, Weak, with_priors};
use crate::linalg::{Matrix, dot, symmetric_eigen};
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::stop::Watch;
use crate::table::Table;

/// Degrees of freedom of the t distribution that is drawn from: its tails are heavier than those of what is averaged over.
const DEGREES: usize = 5;

/// Step of the differences of slopes that make second derivatives.
const STEP: f64 = 1e-3;

/// Draws of less weight are not kept.
const LEAST: f64 = 1e-6;

/// An average over draws of hyper-parameters.
#[derive(Debug, Clone)]
pub struct Averaged {
    /// The fits and their weights, which add up to 1.
    pub fits: Vec<(f64, AggregateFit)>,
    /// As many draws of the hyper-parameters' posterior itself would say as much: `1 / Σ weights²`. The fewer, the rougher the average.
    pub effective: f64,
}

impl AggregateGaussianProcess {
    /// The posterior, averaged over hyper-parameters under the weak priors around `self` by importance draws from a t distribution at their mode, which is looked for from
    /// `tuned`. All hyper-parameters vary, those of mediators too, but for the scale of their kernel. Cost: some tens of evaluations of the marginal likelihood, two more for
    /// each parameter, and a fit a draw.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::TooFew`] without draws; [`Error::Overflow`] if no draw has a likelihood.
    ///
    /// # Panics
    /// If `tuned` is a process with other parameters.
    pub fn average(&self, tuned: &Self, data: &Aggregates, draws: usize, seed: u64) -> Result<Averaged> {
        self.average_until(tuned, data, draws, seed, Watch::nobody())
    }

    pub(super) fn average_until(
        &self,
        tuned: &Self,
        data: &Aggregates,
        draws: usize,
        seed: u64,
        watch: Watch<'_>,
    ) -> Result<Averaged> {
        if draws == 0 {
            return Err(Error::TooFew { what: "the list of draws".into(), needed: 1, unit: "draw is" });
        }
        let (coordinates, _) = coordinates(self);
        let posterior = |theta: &[f64]| -> Result<(f64, Vec<f64>)> {
            let (value, gradient) = tuned.with_parameters(theta).value_and_gradient(data, true, watch)?;
            Ok(with_priors(&coordinates, theta, (value, gradient)))
        };
        let mode = maximise(&coordinates, &logs(tuned), watch, posterior)?.theta;
        let free: Vec<usize> = (0..mode.len()).filter(|&p| coordinates[p].weak.is_some()).collect();
        let (precisions, axes) = precision(&coordinates, &free, &mode, posterior)?;
        let mut random = Random::seed_from_u64(seed);
        let mut found: Vec<(f64, AggregateFit)> = Vec::new();
        let mut first_error = None;
        for _ in 0..draws {
            watch.check()?;
            let mut normals =
                |count: usize| -> Vec<f64> { (0..count).map(|_| random.sample(StandardNormal)).collect() };
            let (standard, spread) = (normals(free.len()), normals(DEGREES));
            let shrink = (dot(&spread, &spread) / DEGREES as f64).sqrt();
            let mut theta = mode.clone();
            for (k, z) in standard.iter().enumerate() {
                let length = z / (shrink * precisions[k].sqrt());
                free.iter().enumerate().for_each(|(f, &p)| theta[p] += axes[(f, k)] * length);
            }
            let square = dot(&standard, &standard) / (shrink * shrink);
            let proposed = -0.5 * (DEGREES + free.len()) as f64 * (square / DEGREES as f64).ln_1p();
            match tuned.with_parameters(&theta).fit_until(data, watch) {
                Ok(fit) => {
                    let prior: f64 = coordinates.iter().zip(&theta).map(|(c, at)| c.weak(*at).0).sum();
                    found.push((fit.log_marginal_likelihood + prior - proposed, fit));
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        let most = found.iter().fold(f64::NEG_INFINITY, |most, (log, _)| most.max(*log));
        if !most.is_finite() {
            let what = "the marginal likelihood of all draws".into();
            let remedy = "check the kernel's parameters and the noise";
            return Err(first_error.unwrap_or(Error::Overflow { what, remedy }));
        }
        let total: f64 = found.iter().map(|(log, _)| (log - most).exp()).sum();
        found.iter_mut().for_each(|(weight, _)| *weight = (*weight - most).exp() / total);
        let effective = 1.0 / found.iter().map(|(weight, _)| weight * weight).sum::<f64>();
        found.retain(|(weight, _)| *weight >= LEAST);
        let kept: f64 = found.iter().map(|(weight, _)| weight).sum();
        found.iter_mut().for_each(|(weight, _)| *weight /= kept);
        Ok(Averaged { fits: found, effective })
    }
}

impl Tuning {
    /// As [`AggregateGaussianProcess::average`] of `start`; stopped and seen as tuning is.
    ///
    /// # Errors
    /// As there; [`Error::Interrupted`].
    ///
    /// # Panics
    /// As there.
    pub fn average(
        &self,
        start: &AggregateGaussianProcess,
        tuned: &AggregateGaussianProcess,
        data: &Aggregates,
        draws: usize,
        seed: u64,
    ) -> Result<Averaged> {
        let watch = Watch { stop: &self.stop, progress: &self.progress };
        start.average_until(tuned, data, draws, seed, watch)
    }
}

/// Minus the second derivatives at the mode, by their eigenvalues and axes. Where the surface is flatter than a quarter of the weakest prior, or bends upwards, that is taken.
fn precision(
    coordinates: &[Coordinate],
    free: &[usize],
    mode: &[f64],
    posterior: impl Fn(&[f64]) -> Result<(f64, Vec<f64>)>,
) -> Result<(Vec<f64>, Matrix)> {
    let mut bends = Matrix::zeros(free.len(), free.len());
    for (k, &p) in free.iter().enumerate() {
        let at = |by: f64| {
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
    let (mut values, axes) = symmetric_eigen(&bends)?;
    let widest = coordinates.iter().filter_map(|c| c.weak.map(Weak::sd)).fold(0.0, f64::max);
    values.iter_mut().for_each(|v| *v = v.max(0.25 / (widest * widest)));
    Ok((values, axes))
}

impl Averaged {
    /// Mean and standard deviation of f at rows, one each: of the mixture, so that how far the fits differ counts. Cost that of all fits.
    ///
    /// # Errors
    /// As [`Expansion::predict`](crate::Expansion::predict).
    pub fn predict(&self, x: &Table) -> Result<(Vec<f64>, Vec<f64>)> {
        let (mut mean, mut square) = (vec![0.0; x.rows()], vec![0.0; x.rows()]);
        let mut all = Vec::new();
        for (weight, fit) in &self.fits {
            let (own, variance) = (fit.model.predict(x)?.column(0), fit.posterior().variance(x)?.column(0));
            mean.iter_mut().zip(&own).for_each(|(m, v)| *m += weight * v);
            all.push((weight, own, variance));
        }
        for (weight, own, variance) in all {
            let each = square.iter_mut().zip(&mean).zip(own).zip(variance);
            each.for_each(|(((s, m), v), var)| *s += weight * (var + (v - m) * (v - m)));
        }
        Ok((mean, square.into_iter().map(f64::sqrt).collect()))
    }
}

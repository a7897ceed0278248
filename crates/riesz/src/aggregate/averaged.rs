//! Maps that are averaged over the posterior of hyper-parameters.

use super::aggregate_data::Aggregates;
use super::aggregate_fit::AggregateFit;
use super::exact_gp::AggregateGaussianProcess;
use super::tuning::{Tuning, hyperparameters, log_parameters};
use crate::error::Result;
use crate::fit::hyperparameter_average::{HyperPosterior, PosteriorMixture, mixture_moments};
use crate::table::Table;

impl Tuning {
    /// The posterior, averaged over hyper-parameters under the weak priors around `start` by importance
    /// draws, the first of which are around the mode that is found from `tuned`. All hyper-parameters vary,
    /// those of mediators too, but for the scale of their kernel. Cost: some tens of evaluations of the
    /// marginal likelihood and two more for each parameter, at first and wherever one draw outweighs the
    /// others, and a fit a draw.
    ///
    /// # Errors
    /// As [`AggregateGaussianProcess::fit`]; [`Error::TooFew`](crate::Error::TooFew) without draws;
    /// [`Error::Overflow`](crate::Error::Overflow) if no draw has a likelihood;
    /// [`Error::Interrupted`](crate::Error::Interrupted).
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
    ) -> Result<PosteriorMixture<AggregateFit>> {
        let (control, (coordinates, _)) = (self.control(), hyperparameters(start));
        let surface = HyperPosterior { coordinates: &coordinates, from: &log_parameters(tuned), control };
        let posterior = |theta: &[f64]| tuned.with_parameters(theta).value_and_gradient(data, true, control);
        let fit = |theta: &[f64]| {
            let fit = tuned.with_parameters(theta).fit_until(data, control)?;
            Ok((fit.log_marginal_likelihood, fit))
        };
        surface.average(posterior, fit, draws, seed)
    }
}

impl PosteriorMixture<AggregateFit> {
    /// Mean and standard deviation of f at rows, one each: of the mixture, so that how far the fits differ
    /// counts. Cost that of all fits.
    ///
    /// # Errors
    /// As [`Expansion::predict`](crate::KernelExpansion::predict).
    pub fn predict(&self, x: &Table) -> Result<(Vec<f64>, Vec<f64>)> {
        mixture_moments(self.fits.iter().map(|(weight, fit)| (*weight, fit.posterior())), x)
    }
}

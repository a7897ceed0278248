//! Maps averaged over hyper-parameters.

use super::data::Aggregates;
use super::exact::AggregateGaussianProcess;
use super::fitted::AggregateFit;
use super::tune::{Tuning, coordinates, logs};
use crate::error::Result;
use crate::fit::average::{Averaged, Surface, mixed};
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

impl Averaged<AggregateFit> {
    /// Mean and standard deviation of f at rows, one each: of the mixture, so that how far the fits differ
    /// counts. Cost that of all fits.
    ///
    /// # Errors
    /// As [`Expansion::predict`](crate::Expansion::predict).
    pub fn predict(&self, x: &Table) -> Result<(Vec<f64>, Vec<f64>)> {
        mixed(self.fits.iter().map(|(weight, fit)| (*weight, fit.posterior())), x)
    }
}

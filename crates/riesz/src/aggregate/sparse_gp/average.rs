//! Averages of processes through inducing points over their hyper-parameters.

use std::iter::once;

use super::{SparseAggregateFit, SparseAggregateProcess};
use crate::aggregate::Aggregates;
use crate::error::Result;
use crate::gp::average::{HyperPosterior, PosteriorMixture, draws_per_profile};
use crate::gp::search::SearchResult;

impl SparseAggregateProcess {
    /// Averages the fit `tuned` of [`fit_data`](Self::fit_data) over `draws` samples of kernel and noise from
    /// their posterior, under the priors of [`priors`](Self::priors), as
    /// [`Tuning::average`](crate::aggregate::Tuning::average) does for exact processes. The samples are
    /// divided among the profiles that are nearly as likely as that of the fit. The regression on mediators
    /// stays as it is in the fit. Cost: one evaluation of the evidence for each sample, and for each profile
    /// some tens for the mode, and two for each parameter.
    ///
    /// # Errors
    /// As [`fit_data`](Self::fit_data); [`Error::Parameter`](crate::Error::Parameter) for fewer than 2 draws,
    /// and if nothing is tuned.
    pub fn average_data(
        &self,
        tuned: &SparseAggregateFit,
        data: &Aggregates,
        draws: usize,
    ) -> Result<PosteriorMixture<SparseAggregateFit>> {
        let process = self.with_noises_of(data);
        let process = Self { mediation: tuned.mediation.clone(), profiles: Vec::new(), ..process };
        let (targets, control) = (process.targets(data)?, self.control());
        let best = (&tuned.start_kernel, &tuned.theta);
        let modes =
            once(best).chain(tuned.alternatives.iter().map(|other| (&other.start_kernel, &other.theta)));
        let share = draws_per_profile(draws, 1 + tuned.alternatives.len());
        let mixtures = modes.map(|(kernel, theta)| {
            let process = Self { kernel: kernel.clone(), ..process.clone() };
            let coordinates = process.hyperparameter_priors();
            let posterior =
                |theta: &[f64]| process.value_and_gradient(&targets, theta, true, &mut None, control);
            let fit = |theta: &[f64]| {
                let optimum = SearchResult::unchanged(theta.to_vec());
                let mut fit = process.fit_at(&targets, optimum, false)?;
                fit.mediation.clone_from(&tuned.mediation);
                Ok((fit.log_marginal_likelihood, fit))
            };
            HyperPosterior { coordinates: &coordinates, from: theta, control }
                .average(posterior, fit, share, self.seed)
        });
        Ok(PosteriorMixture::combined(mixtures.collect::<Result<_>>()?))
    }
}

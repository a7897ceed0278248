//! Alternating tuning of sparse processes with mediated targets. The regression on mediators and the other
//! parameters are tuned in turn, as for exact processes, because the embeddings of bags depend on the kernel
//! of rows.

use super::mediated_features::RowSamples;
use super::{SparseAggregateFit, SparseAggregateProcess, SparseTargets};
use crate::aggregate::aggregate_data::Aggregates;
use crate::aggregate::bag_gram::BagRows;
use crate::aggregate::mediation::regresses_targets;
use crate::aggregate::observation_operator::ObservationOperator;
use crate::aggregate::tuning::{
    CONVERGED, largest_change, mean_gram, mediation_priors, tune_mediation_by_loo,
};
use crate::error::{Error, Result};
use crate::fit::TunedParameters;
use crate::gp::hyperparameters::log_values;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::Matrix;

/// The maximum number of alternations.
const MAX_ROUNDS: usize = 3;

/// Whether the targets are those of the bags, in their order.
fn targets_are_bags(data: &Aggregates) -> bool {
    let bags: Vec<Option<usize>> = (0..data.bags.count()).map(Some).collect();
    data.bag_of_target == bags
}

impl SparseAggregateProcess {
    /// Fits the process to targets of which some may have no rows; these are predicted through mediators. The
    /// known noise is that of the data.
    ///
    /// With [`tune`](field@Self::tune) and [`priors`](Self::priors), kernel and ridge of the mediators
    /// minimise the loss on left-out bags under the current kernel of rows. This alternates, at most three
    /// times, with the tuning of all other parameters. The uncertainty of the regression is independent noise
    /// of each target ([`mediation_noise`](Self::mediation_noise)), and so is the noise of rows
    /// ([`row_noise`](Self::row_noise)), which targets with mediators share.
    ///
    /// # Errors
    /// As [`fit`](Self::fit) and [`ObservationOperator::new`].
    pub fn fit_data(&self, data: &Aggregates) -> Result<SparseAggregateFit> {
        data.check()?;
        let process = self.with_noises_of(data);
        if targets_are_bags(data) {
            return process.fit(&data.rows, &data.bags, &data.targets);
        }
        if regresses_targets(self.mediation.as_ref()) {
            let allowed =
                "inducing points need row embeddings as the response: regress these, or use an exact fit";
            return Err(Error::parameter("response that is regressed on mediators", "targets", allowed));
        }
        match data.mediated() > 0 && self.tune != TunedParameters::Nothing && self.priors {
            true => process.tune_alternately(data),
            false => process.fit_mediated(data, process.parameters()),
        }
    }

    /// Returns this process with the known noise of the data, and without noises that these do not have.
    pub(super) fn with_noises_of(&self, data: &Aggregates) -> Self {
        Self {
            known_noise: data.target_noise.clone(),
            mediation_noise: self.mediation_noise.filter(|_| data.mediated() > 0),
            ..self.clone()
        }
    }

    /// Returns the targets of the data under the current regression on mediators.
    pub(super) fn targets(&self, data: &Aggregates) -> Result<SparseTargets> {
        if targets_are_bags(data) {
            return self.check(&data.rows, &data.bags, None, &data.targets);
        }
        let mediation = self.mediation.as_ref().zip(data.mediators.as_ref());
        let operator = ObservationOperator::new(&data.bags, &data.bag_of_target, mediation)?;
        self.check(&data.rows, &data.bags, Some(&operator), &data.targets)
    }

    /// Fits the process with the current mediation, with tuning that starts at `parameters`.
    fn fit_mediated(&self, data: &Aggregates, parameters: Vec<Parameter>) -> Result<SparseAggregateFit> {
        let mut fit = self.fit_targets(&self.targets(data)?, parameters)?;
        fit.mediation = self.mediation.clone().filter(|_| data.mediated() > 0);
        Ok(fit)
    }

    fn tune_alternately(mut self, data: &Aggregates) -> Result<SparseAggregateFit> {
        let (start, mut parameters) = (self.mediation.clone(), self.parameters());
        let (mut round, mut steps, mut evaluations) = (0, 0, 0);
        let mut alternatives = Vec::new();
        loop {
            round += 1;
            let theta = log_values(&parameters);
            let kernel = self.kernel.with_parameters(&theta[..self.kernel.parameters().len()]);
            let mut warnings = Vec::new();
            if let (Some(start), Some(mediation), Some(mediators)) =
                (&start, &self.mediation, &data.mediators)
            {
                // Stage 1 of the tuning, with priors around the first regression on mediators.
                let (gram, priors) = (mean_gram(self.gram(&kernel, data)?, data), mediation_priors(start));
                let optimum =
                    tune_mediation_by_loo((mediation, mediators), &priors, &gram, data, self.control())?;
                self.mediation = Some(mediation.with_parameters(&optimum.theta));
                warnings = optimum.warnings;
            }
            let mut fit = self.fit_mediated(data, parameters.clone())?;
            // The first round chooses the profile.
            self.kernel = fit.start_kernel.clone();
            self.profiles.clear();
            alternatives.append(&mut fit.alternatives);
            (steps, evaluations) = (steps + fit.steps, evaluations + fit.evaluations);
            if round == MAX_ROUNDS || largest_change(&theta, &fit.theta) < CONVERGED {
                fit.warnings.extend(warnings);
                return Ok(SparseAggregateFit { steps, evaluations, alternatives, ..fit });
            }
            parameters.iter_mut().zip(&fit.theta).for_each(|(parameter, value)| parameter.log_value = *value);
        }
    }

    /// Returns the covariance U (bags × bags) of the bags' sums under `kernel`, up to a positive factor where
    /// rows are sampled.
    fn gram(&self, kernel: &Kernel, data: &Aggregates) -> Result<Matrix> {
        let (rows, control) = (BagRows::new(&data.rows, data.bags.weights()), self.control());
        let diagonal = rows.features(kernel, &data.rows.select_rows(&[0]), false, control)?.prior;
        let mut total = Matrix::zeros(diagonal.len(), diagonal.len());
        // The sum over samples is a multiple of their mean, and the minimum of the loss does not depend on
        // the factor.
        for gram in
            RowSamples::new(&rows, self.seed).sampled_covariances(&rows, &diagonal, kernel, control.stop)
        {
            total.add_times(1.0, &gram?);
        }
        Ok(total)
    }
}

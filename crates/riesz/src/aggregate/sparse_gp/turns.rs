//! Mediated targets through inducing points: the regression on mediators and the rest of the model are chosen
//! by turns, as exact processes do, because what bags are like depends on the kernel of rows.

use super::through::Pairs;
use super::{SparseAggregateFit, SparseAggregateProcess};
use crate::aggregate::aggregate_data::Aggregates;
use crate::aggregate::bag_gram::BagRows;
use crate::aggregate::mediation::MediationTarget;
use crate::aggregate::observation_operator::ObservationOperator;
use crate::aggregate::tuning::{CONVERGED, tune_mediators};
use crate::error::{Error, Result};
use crate::fit::TunedParameters;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::Matrix;

/// How often they take turns, at most.
const TURNS: usize = 3;

impl SparseAggregateProcess {
    /// As [`fit`](Self::fit), of targets some of which have no rows: these are made of bags through
    /// mediators. The known noise is that of the data. With
    /// [`tune`](field@Self::tune) and [`priors`](Self::priors), kernel and ridge of the mediators are chosen
    /// by how well they predict bags that are left out, by the kernel of rows as it is; that and the tuning
    /// of all else take turns, at most three. How uncertain the regression is counts as noise of each target
    /// by itself ([`mediation_noise`](Self::mediation_noise)), and there is no noise of rows, which a warning
    /// says.
    ///
    /// # Errors
    /// As [`fit`](Self::fit) and [`ObservationOperator::new`].
    pub fn fit_data(&self, data: &Aggregates) -> Result<SparseAggregateFit> {
        data.check()?;
        let mediation_noise = self.mediation_noise.filter(|_| data.mediated() > 0);
        let mut process = Self { known_noise: data.target_noise.clone(), mediation_noise, ..self.clone() };
        if data.own.len() == data.bags.count() && data.own.iter().enumerate().all(|(t, own)| *own == Some(t))
        {
            return process.fit(&data.rows, &data.bags, &data.targets);
        }
        if self.mediation.as_ref().is_some_and(|own| own.regressed == MediationTarget::Targets) {
            let allowed =
                "what rows are like, through inducing points: fit exactly where targets are regressed";
            return Err(Error::parameter("what is regressed on mediators", "targets", allowed));
        }
        process.row_noise = None;
        let mut fit = match data.mediated() > 0 && self.tune != TunedParameters::Nothing && self.priors {
            true => process.by_turns(data)?,
            false => process.fit_mediated(data, process.parameters())?,
        };
        if self.row_noise.is_some() {
            let warning =
                "noise of rows is left out: targets that are made of bags through mediators share it";
            fit.warnings.push(warning.into());
        }
        Ok(fit)
    }

    /// By the mediation that there is, tuned from these parameters.
    fn fit_mediated(&self, data: &Aggregates, from: Vec<Parameter>) -> Result<SparseAggregateFit> {
        let mediation = self.mediation.as_ref().zip(data.mediators.as_ref());
        let operator = ObservationOperator::new(&data.bags, &data.own, mediation)?;
        let targets = self.check(&data.rows, &data.bags, Some(&operator), &data.targets)?;
        let mut fit = self.fit_targets(&targets, from)?;
        fit.mediation = self.mediation.clone().filter(|_| data.mediated() > 0);
        Ok(fit)
    }

    fn by_turns(mut self, data: &Aggregates) -> Result<SparseAggregateFit> {
        let (start, mut from) = (self.mediation.clone(), self.parameters());
        let (mut turn, mut steps, mut evaluations) = (0, 0, 0);
        loop {
            turn += 1;
            let theta: Vec<f64> = from.iter().map(|p| p.log_value).collect();
            let kernel = self.kernel.with_parameters(&theta[..self.kernel.parameters().len()]);
            let gram = self.gram(&kernel, data)?;
            let found =
                tune_mediators(start.as_ref().zip(self.mediation.as_ref()), gram, data, self.watch())?;
            let warnings = found.map_or_else(Vec::new, |(mediation, warnings)| {
                self.mediation = Some(mediation);
                warnings
            });
            let mut fit = self.fit_mediated(data, from.clone())?;
            (steps, evaluations) = (steps + fit.steps, evaluations + fit.evaluations);
            let moved = theta.iter().zip(&fit.theta).fold(0.0, |most: f64, (a, b)| most.max((a - b).abs()));
            if turn == TURNS || moved < CONVERGED {
                fit.warnings.extend(warnings);
                return Ok(SparseAggregateFit { steps, evaluations, ..fit });
            }
            from.iter_mut().zip(&fit.theta).for_each(|(parameter, at)| parameter.log_value = *at);
        }
    }

    /// U by a kernel.
    fn gram(&self, kernel: &Kernel, data: &Aggregates) -> Result<Matrix> {
        let (rows, watch) = (BagRows::new(&data.rows, data.bags.weights()), self.watch());
        let diagonal = rows.features(kernel, &data.rows.select_rows(&[0]), false, watch)?.prior;
        let mut total = Matrix::zeros(diagonal.len(), diagonal.len());
        // The diagonal is in all of them, so that their sum is a multiple of their mean, which makes no
        // difference.
        for gram in Pairs::new(&rows, self.seed).grams(&rows, &diagonal, kernel, watch.stop) {
            total.data_mut().iter_mut().zip(gram?.data()).for_each(|(t, v)| *t += v);
        }
        Ok(total)
    }
}

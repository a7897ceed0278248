//! Fits to count data in `downscale fit` and `downscale check`.

use riesz::aggregate::{
    Aggregates, BagSmoother, CountProcess, Family, Tuning, count_inducing_points, inducing_points,
};
use riesz::kernel_model::Link;
use riesz::model_card::CardEntry;

use super::shared_fit::{Fitted, Learn};
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::aggregates::Aggregated;

impl Learn {
    /// The process of counts at which tuning starts.
    pub(super) fn start_counts(&self, family: Family, data: &Aggregates, seed: u64) -> Result<CountProcess> {
        if self.noise.is_some() {
            return Err(Failure::input(
                "--noise cannot be used with counts, whose family determines their variance: leave it out",
            ));
        }
        let points = match self.inducing {
            Some(count) => inducing_points(&data.rows, count, seed)?,
            None => count_inducing_points(data, seed)?,
        };
        Ok(CountProcess {
            smoothing: self.mediator_kernel(data)?.map(BagSmoother::new),
            dispersion: self.dispersion,
            ..CountProcess::new(self.resolved(self.kernel_expression(), &data.rows)?, points, family)
        })
    }

    /// Fits a count model (Poisson or binomial family) to the aggregated data.
    pub(super) fn counted(
        &self,
        family: Family,
        aggregated: Aggregated,
        seed: u64,
        console: &Console,
    ) -> Result<Fitted> {
        let start = self.start_counts(family, &aggregated.data, seed)?;
        let data = &aggregated.data;
        let tuning =
            Tuning { conventions: self.conventions(), profiles: self.profiles(), ..Tuning::default() };
        let message = format!("fitting {} rows in {} bags", data.rows.rows(), data.bags.count());
        let (mut fit, warnings) =
            with_progress(console, &message, &tuning.progress, || match self.no_tuning {
                true => Ok((start.fit(data)?, Vec::new())),
                false => tuning.tune_counts(&start, data).map(|tuned| (tuned.fit, tuned.warnings)),
            })
            .map_err(|error| aggregated.named(error))?;
        warnings.iter().for_each(|warning| console.warn(warning));
        if let Some(smoother) = &fit.smoothing {
            fit.model.model_card.push(CardEntry::new("kernel of mediators", smoother.kernel.formula()));
        }
        let scale = if fit.model.link == Link::Log { "log rate" } else { "log odds" };
        fit.model.output_names = vec![format!("{scale} of {}", self.data.target)];
        let left_out = (data.targets.len() > 1).then_some(fit.left_out);
        let mut fitted =
            Fitted { model: fit.model, covariance: fit.covariance, aggregated, fitted: fit.fitted, left_out };
        self.extend_model_card(&mut fitted);
        Ok(fitted)
    }
}

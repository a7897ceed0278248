//! Effects averaged over a target population: that of the first study, or another one.

use std::sync::atomic::AtomicBool;

use super::effect::{Effect, Model};
use super::target_population::{PopulationWeights, TargetPopulation};
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result, sized, unused};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::Table;

impl Effect {
    /// Returns this effect averaged over a target population.
    ///
    /// If some covariates or treatments define the population, the study's covariates are regressed on these.
    /// The kernel and the ridge of the regression have the smallest leave-one-out loss. The variance that it
    /// leaves unexplained is reported as
    /// [`UncertaintyCause::Adjustment`](super::UncertaintyCause::Adjustment). This part uses the mean effect
    /// at the regression's rows, without its uncertainty. A population that is given as rows counts as known.
    /// Cost some tens of n³, and n³ per draw.
    ///
    /// # Errors
    /// [`Error::Unused`] if the effect is not averaged over covariates; errors of [`Table::align_to`];
    /// [`Error::Parameter`] for weights that do not add up to 1, and for more than one row;
    /// [`Error::Interrupted`] if `stop` is set.
    pub fn on_population(&self, target: &TargetPopulation, stop: &AtomicBool) -> Result<Self> {
        let models: Vec<(f64, &Model)> = self.models().collect();
        let averaged = models.iter().map(|(weight, model)| Some((*weight, model.averaged()?)));
        let averaged = averaged.collect::<Option<Vec<_>>>().unwrap_or_default();
        let [(_, (covariates, _)), ..] = averaged[..] else {
            let belongs =
                "effects that are averaged over covariates (back-door): this one does not depend on any";
            return Err(unused("the target population", belongs));
        };
        let (points, solver) = match models[0].1 {
            Model::Link(link) => {
                link.check_unshared("the target population")?;
                (&link.points, &link.solver)
            }
            Model::Iterated(iterated) => (&iterated.process().points, &iterated.process().solver),
        };
        // One regression with the average kernel of the draws is used for all draws.
        let gram_of = |members: &Table| {
            let mut mean = Matrix::zeros(members.rows(), members.rows());
            averaged.iter().for_each(|(weight, (_, kernel))| mean.add_times(*weight, &kernel.gram(members)));
            mean
        };
        let landmarks = (!solver.uses_all_rows()).then(|| points.rows());
        let control = RunControl { stop, progress: &Progress::default() };
        let study_tables = (self.treatments(), covariates);
        let population = PopulationWeights::new(target, study_tables, &gram_of, landmarks, control)?;
        let mut parts = Vec::with_capacity(models.len());
        for (weight, model) in models {
            let model = match model {
                Model::Link(link) => {
                    check_cancelled(stop)?;
                    Model::Link(Box::new(link.on_population(&population)))
                }
                Model::Iterated(iterated) => {
                    Model::Iterated(Box::new(iterated.on_population(population.clone())))
                }
            };
            parts.push((weight, model));
        }
        Ok(self.with_components(parts, population))
    }
}

impl Model {
    /// Returns the study's covariates over which the effect is averaged, and their kernel.
    fn averaged(&self) -> Option<(&Table, &Kernel)> {
        match self {
            Self::Link(link) => {
                Some((link.averaged_covariates.as_ref()?, &link.covariate_block.as_ref()?.kernel))
            }
            Self::Iterated(iterated) => {
                iterated.covariates().map(|averaged| (&averaged.rows, &averaged.kernel))
            }
        }
    }
}

impl TargetPopulation {
    /// Returns a population whose members have these weights, which need not add up to 1.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::Parameter`] for numbers that are negative or not finite, or all 0.
    pub fn members(covariates: Table, weights: &[f64]) -> Result<Self> {
        sized("the list of weights", "numbers", covariates.rows(), weights.len(), "one per member")?;
        let allowed = "they are finite, not negative, and not all 0";
        weights
            .iter()
            .try_for_each(|weight| crate::checks::not_negative("weights of members", *weight, allowed))?;
        let sum: f64 = weights.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(Error::parameter("weights of members", format!("a sum of {sum}"), allowed));
        }
        Ok(Self::Population(covariates, weights.iter().map(|weight| weight / sum).collect()))
    }
}

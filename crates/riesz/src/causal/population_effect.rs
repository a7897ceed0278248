//! Effects averaged over a target population: that of the first study, or another one.

use std::sync::atomic::AtomicBool;

use super::effect::{Effect, Model};
use super::query_embedding::QueryEmbedding;
use super::study_chain::StudyLink;
use super::target_population::{PopulationWeights, TargetPopulation};
use crate::control::RunControl;
use crate::error::{Error, Result, sized};
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
        if let Some(single_table_effect) = self.of_table(target, stop) {
            return single_table_effect;
        }
        let links: Vec<(f64, &StudyLink)> = self
            .models()
            .filter_map(|(weight, model)| match model {
                Model::Link(link) => Some((weight, &**link)),
                Model::Iterated(_) => None,
            })
            .collect();
        let blocks: Option<Vec<_>> = links.iter().map(|(_, link)| link.covariate_block.as_ref()).collect();
        let unused = |belongs: &str| Error::Unused {
            setting: "the target population".into(),
            belongs: belongs.into(),
        };
        let Some(blocks) = blocks.filter(|tables| !tables.is_empty()) else {
            return Err(unused(
                "effects that are averaged over covariates (back-door): this one does not depend on any",
            ));
        };
        if links.iter().any(|(_, link)| link.shares()) {
            return Err(unused("effects whose studies share no covariates that the outcome depends on"));
        }
        // One regression with the average kernel of the draws is used for all draws.
        let kernels = || links.iter().zip(&blocks).map(|((weight, _), block)| (*weight, &block.kernel));
        let gram_of = |members: &Table| mean_gram(members, kernels());
        let progress = crate::control::Progress::default();
        let first = links[0].1;
        let about = (&first.treatments, first.people.as_ref().unwrap_or(&blocks[0].rows));
        let landmarks = (!first.sees_rows()).then(|| first.points.rows());
        let control = RunControl { stop, progress: &progress };
        let people = PopulationWeights::new(target, about, &gram_of, landmarks, control)?;
        let mut parts = Vec::with_capacity(links.len());
        for ((weight, link), block) in links.iter().zip(&blocks) {
            crate::control::check_cancelled(stop)?;
            let with_rows = block.kernel.cross_gram(&block.rows, &people.covariates);
            let query_embedding =
                QueryEmbedding::of_members(&with_rows, &block.kernel, &people.covariates, &people.weights);
            let root = people.unexplained_share.map(|open| residual_root(link, &with_rows, open));
            parts.push((*weight, Model::Link(Box::new(link.with_query(query_embedding, root)))));
        }
        Ok(self.on_components(parts, people))
    }

    /// Returns the effect from one table on a target population; `None` for other effects.
    fn of_table(&self, target: &TargetPopulation, stop: &AtomicBool) -> Option<Result<Self>> {
        let models = self.models().map(|(weight, model)| match model {
            Model::Iterated(iterated) => Some((weight, iterated, iterated.covariates()?)),
            Model::Link(_) => None,
        });
        let models: Vec<_> = models.collect::<Option<_>>()?;
        let (_, first, averaged) = models.first()?;
        let kernels = || models.iter().map(|(weight, _, averaged)| (*weight, &averaged.kernel));
        let gram_of = |members: &Table| mean_gram(members, kernels());
        let progress = crate::control::Progress::default();
        let landmarks = (!first.process().uses_all_rows()).then(|| first.process().points().rows());
        let about = (&first.treatments, &averaged.rows);
        let control = RunControl { stop, progress: &progress };
        let people = PopulationWeights::new(target, about, &gram_of, landmarks, control);
        Some(people.map(|people| {
            let parts = models
                .iter()
                .map(|(weight, iterated, _)| {
                    (*weight, Model::Iterated(Box::new(iterated.on(people.clone()))))
                })
                .collect();
            self.on_components(parts, people)
        }))
    }
}

impl TargetPopulation {
    /// Returns a population whose members have these weights, which need not add up to 1.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::Parameter`] for numbers that are negative or not finite, or all 0.
    pub fn members(covariates: Table, counts: &[f64]) -> Result<Self> {
        sized("the list of weights", "numbers", covariates.rows(), counts.len(), "one per member")?;
        let allowed = "they are finite, not negative, and not all 0";
        if let Some(bad) = counts.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
            return Err(Error::parameter("weights of members", bad, allowed));
        }
        let sum: f64 = counts.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(Error::parameter("weights of members", format!("a sum of {sum}"), allowed));
        }
        Ok(Self::Population(covariates, counts.iter().map(|weight| weight / sum).collect()))
    }
}

/// Returns the mean of the gram matrices of members for kernels with weights.
fn mean_gram<'k>(members: &Table, kernels: impl Iterator<Item = (f64, &'k Kernel)>) -> Matrix {
    let mut mean = Matrix::zeros(members.rows(), members.rows());
    kernels.for_each(|(weight, kernel)| mean.add_times(weight, &kernel.gram(members)));
    mean
}

/// Returns a root of the residual covariance of the distribution of members. `with_rows` is the kernel matrix
/// of rows and members.
fn residual_root(link: &StudyLink, with_rows: &Matrix, open: f64) -> Matrix {
    let scale = (open / with_rows.cols() as f64).sqrt();
    let mut root = with_rows.clone();
    root.scale_rows(link.solved().iter().map(|h| scale * h));
    root
}

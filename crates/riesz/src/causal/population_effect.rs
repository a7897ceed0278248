//! Effects on a target population: that of the first study, or another one.

use std::sync::atomic::AtomicBool;

use super::effect::{Effect, Model};
use super::query_embedding::QueryEmbedding;
use super::study_chain::StudyLink;
use super::target_population::{PopulationWeights, TargetPopulation};
use crate::control::RunControl;
use crate::error::{Error, Result, sized};
use crate::linalg::Matrix;
use crate::table::Table;

impl Effect {
    /// This effect on a target population. A population that is given by some covariates or treatments is
    /// found by a regression of the study's covariates on these, whose kernel and ridge have the best
    /// predictions of left-out rows. The variance that the regression leaves unexplained counts as
    /// [`UncertaintyCause::Adjustment`](super::UncertaintyCause::Adjustment), with the mean effect on its
    /// rows and not its uncertainty; a given population counts as known. Cost some tens of n³, and n³ per
    /// draw.
    ///
    /// # Errors
    /// [`Error::Unused`] where no covariates are averaged over; as [`Table::align_to`]; [`Error::Parameter`]
    /// for weights that do not add up to 1, and more rows than one; [`Error::Interrupted`] once `stop` is
    /// set.
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
            setting: "whom the effect is on".into(),
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
        // The average kernel of the draws: one regression serves all.
        let gram_of = |members: &Table| {
            let mut mean_gram = Matrix::zeros(members.rows(), members.rows());
            for ((weight, _), block) in links.iter().zip(&blocks) {
                let gram = block.kernel.gram(members);
                mean_gram
                    .data_mut()
                    .iter_mut()
                    .zip(gram.data())
                    .for_each(|(sum, entry)| *sum += weight * entry);
            }
            mean_gram
        };
        let progress = crate::control::Progress::default();
        let first = links[0].1;
        let people = PopulationWeights::new(
            target,
            (&first.treatments, first.people.as_ref().unwrap_or(&blocks[0].rows)),
            &gram_of,
            (!first.sees_rows()).then(|| first.points.rows()),
            RunControl { stop, progress: &progress },
        )?;
        let mut parts = Vec::with_capacity(links.len());
        for ((weight, link), block) in links.iter().zip(&blocks) {
            crate::control::check_cancelled(stop)?;
            let with_rows = block.kernel.cross_gram(&block.rows, &people.covariates);
            let reading =
                QueryEmbedding::of_members(&with_rows, &block.kernel, &people.covariates, &people.weights);
            let root = people.unexplained_share.map(|open| residual_root(link, &with_rows, open));
            parts.push((*weight, Model::Link(Box::new(link.with_query(reading, root)))));
        }
        Ok(self.on_components(parts, people))
    }

    /// The effect from one table on a target population; `None` for other effects.
    fn of_table(&self, target: &TargetPopulation, stop: &AtomicBool) -> Option<Result<Self>> {
        let models = self.models().map(|(weight, model)| match model {
            Model::Iterated(iterated) => Some((weight, iterated, iterated.covariates()?)),
            Model::Link(_) => None,
        });
        let models: Vec<_> = models.collect::<Option<_>>()?;
        let (_, first, averaged) = models.first()?;
        let gram_of = |members: &Table| {
            let mut mean_gram = Matrix::zeros(members.rows(), members.rows());
            for (weight, _, averaged) in &models {
                let gram = averaged.kernel.gram(members);
                mean_gram
                    .data_mut()
                    .iter_mut()
                    .zip(gram.data())
                    .for_each(|(sum, entry)| *sum += weight * entry);
            }
            mean_gram
        };
        let progress = crate::control::Progress::default();
        let landmarks = (!first.process().uses_all_rows()).then(|| first.process().points().rows());
        let about = (&first.treatments, &averaged.rows);
        let people = PopulationWeights::new(
            target,
            about,
            &gram_of,
            landmarks,
            RunControl { stop, progress: &progress },
        );
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
    /// A population whose members count by these numbers, of any sum.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::Parameter`] for numbers that are negative or not finite, or all 0.
    pub fn members(covariates: Table, counts: &[f64]) -> Result<Self> {
        sized("the list of weights", "numbers", covariates.rows(), counts.len(), "one a member")?;
        let allowed = "they are numbers, none below 0, and not all 0";
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

/// A root of the residual covariance of the distribution of members: of a query with members, from the kernel
/// of rows with members.
fn residual_root(link: &StudyLink, with_rows: &Matrix, open: f64) -> Matrix {
    let scale = (open / with_rows.cols() as f64).sqrt();
    let mut root = with_rows.clone();
    for (i, h) in link.solved().iter().enumerate() {
        root.row_mut(i).iter_mut().for_each(|v| *v *= scale * h);
    }
    root
}

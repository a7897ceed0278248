//! Of whom an effect is asked: of all people of the first study, or of others.

use std::sync::atomic::AtomicBool;

use super::effect::{Effect, Model};
use super::query_embedding::QueryEmbedding;
use super::study_chain::Link;
use super::target_population::{PopulationWeights, TargetPopulation};
use crate::control::RunControl;
use crate::error::{Error, Result, sized};
use crate::linalg::Matrix;
use crate::table::Table;

impl Effect {
    /// The same effect on others. Whom is known by what the study's covariates are like given treatments, or
    /// given some of them, is a regression whose kernel and ridge are those that tell rows that are left out
    /// best. What it leaves open counts as
    /// [`UncertaintyCause::Adjustment`](super::UncertaintyCause::Adjustment), with the mean effect on its
    /// rows, not how uncertain that is; a population counts as known. Cost some tens of n³, and n³ a draw.
    ///
    /// # Errors
    /// [`Error::Unused`] where no covariates are averaged over; as [`Table::align_to`]; [`Error::Parameter`]
    /// for weights that do not add up to 1, and more rows than one; [`Error::Interrupted`] once `stop` is
    /// set.
    pub fn on_population(&self, whom: &TargetPopulation, stop: &AtomicBool) -> Result<Self> {
        if let Some(found) = self.of_table(whom, stop) {
            return found;
        }
        let links: Vec<(f64, &Link)> = self
            .models()
            .filter_map(|(weight, model)| match model {
                Model::Link(link) => Some((weight, &**link)),
                Model::Iterated(_) => None,
            })
            .collect();
        let blocks: Option<Vec<_>> = links.iter().map(|(_, link)| link.others.as_ref()).collect();
        let unused = |belongs: &str| Error::Unused {
            setting: "whom the effect is on".into(),
            belongs: belongs.into(),
        };
        let Some(blocks) = blocks.filter(|own| !own.is_empty()) else {
            return Err(unused(
                "effects that are averaged over covariates (back-door): this one does not depend on any",
            ));
        };
        if links.iter().any(|(_, link)| link.shares()) {
            return Err(unused("effects whose studies share no covariates that the outcome depends on"));
        }
        // As the draws have it on average: one regression serves all.
        let of = |members: &Table| {
            let mut all = Matrix::zeros(members.rows(), members.rows());
            for ((weight, _), block) in links.iter().zip(&blocks) {
                let own = block.kernel.gram(members);
                all.data_mut().iter_mut().zip(own.data()).for_each(|(all, own)| *all += weight * own);
            }
            all
        };
        let progress = crate::control::Progress::default();
        let first = links[0].1;
        let people = PopulationWeights::new(
            whom,
            (&first.treatments, first.people.as_ref().unwrap_or(&blocks[0].rows)),
            &of,
            (!first.sees_rows()).then(|| first.points.rows()),
            RunControl { stop, progress: &progress },
        )?;
        let mut parts = Vec::with_capacity(links.len());
        for ((weight, link), block) in links.iter().zip(&blocks) {
            crate::control::check_cancelled(stop)?;
            let with_rows = block.kernel.cross_gram(&block.rows, &people.covariates);
            let reading =
                QueryEmbedding::of_members(&with_rows, &block.kernel, &people.covariates, &people.weights);
            let half = people.unexplained_share.map(|open| residual_root(link, &with_rows, open));
            parts.push((*weight, Model::Link(Box::new(link.read(reading, half)))));
        }
        Ok(self.on_components(parts, people))
    }

    /// The same of an effect from one table; `None` for others.
    fn of_table(&self, whom: &TargetPopulation, stop: &AtomicBool) -> Option<Result<Self>> {
        let models = self.models().map(|(weight, model)| match model {
            Model::Iterated(own) => Some((weight, own, own.covariates()?)),
            Model::Link(_) => None,
        });
        let models: Vec<_> = models.collect::<Option<_>>()?;
        let (_, first, averaged) = models.first()?;
        let of = |members: &Table| {
            let mut all = Matrix::zeros(members.rows(), members.rows());
            for (weight, _, averaged) in &models {
                let own = averaged.kernel.gram(members);
                all.data_mut().iter_mut().zip(own.data()).for_each(|(all, own)| *all += weight * own);
            }
            all
        };
        let progress = crate::control::Progress::default();
        let landmarks = (!first.process().uses_all_rows()).then(|| first.process().points().rows());
        let about = (&first.treatments, &averaged.rows);
        let people =
            PopulationWeights::new(whom, about, &of, landmarks, RunControl { stop, progress: &progress });
        Some(people.map(|people| {
            let parts = models
                .iter()
                .map(|(weight, own, _)| (*weight, Model::Iterated(Box::new(own.on(people.clone())))))
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
        if let Some(bad) = counts.iter().find(|own| !(own.is_finite() && **own >= 0.0)) {
            return Err(Error::parameter("weights of members", bad, allowed));
        }
        let sum: f64 = counts.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(Error::parameter("weights of members", format!("a sum of {sum}"), allowed));
        }
        Ok(Self::Population(covariates, counts.iter().map(|own| own / sum).collect()))
    }
}

/// A root of what is left open of the distribution of members: of a query with members, by the kernel of rows
/// with members.
fn residual_root(link: &Link, with_rows: &Matrix, open: f64) -> Matrix {
    let scale = (open / with_rows.cols() as f64).sqrt();
    let mut half = with_rows.clone();
    for (i, h) in link.solved().iter().enumerate() {
        half.row_mut(i).iter_mut().for_each(|v| *v *= scale * h);
    }
    half
}

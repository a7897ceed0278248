//! Of whom an effect is asked: of all people of the first study, or of others.

use std::sync::atomic::AtomicBool;

use super::effect::Effect;
use super::link::Link;
use super::reading::Reading;
use super::regression::Regression;
use crate::error::{Error, Result, sized};
use crate::linalg::{Matrix, dot};
use crate::stop::Watch;
use crate::table::Table;

/// People, by the covariates of the first study that its effect is averaged over.
#[derive(Debug, Clone)]
pub enum Whom {
    /// Another population: rows of these covariates, and weights that add up to 1.
    Population(Table, Vec<f64>),
    /// Those who were treated so (one row of treatments): the effect of another treatment on them.
    Treated(Table),
    /// Those of whom some covariates are these (one row).
    Like(Table),
}

/// Whom an effect is averaged over.
#[derive(Debug, Clone)]
pub(super) struct People {
    pub covariates: Table,
    /// They add up to about 1.
    pub weights: Vec<f64>,
    /// From 0 to 1: the share of the prior variance of who they are that is left open; `None` where they are as they are.
    pub open: Option<f64>,
}

impl People {
    /// Those of a study.
    pub fn all(covariates: &Table) -> Self {
        let count = covariates.rows();
        Self { covariates: covariates.clone(), weights: vec![1.0 / count as f64; count], open: None }
    }

    /// `of` is the kernel of the covariates of the study's rows, of which weights are a regression.
    fn new(
        whom: &Whom,
        (treatments, others): (&Table, &Table),
        of: &dyn Fn(&Table) -> Matrix,
        watch: Watch<'_>,
    ) -> Result<Self> {
        match whom {
            Whom::Population(members, weights) => {
                let covariates = members.conform(others.columns())?;
                sized("the list of weights", "numbers", covariates.rows(), weights.len(), "one a member")?;
                let sum: f64 = weights.iter().sum();
                if sum.is_nan() || (sum - 1.0).abs() > 1e-6 || weights.iter().any(|w| *w < 0.0) {
                    let allowed = "they are not negative and add up to 1";
                    return Err(Error::parameter("weights of members", format!("a sum of {sum}"), allowed));
                }
                Ok(Self { covariates, weights: weights.clone(), open: None })
            }
            Whom::Treated(at) => {
                let at = one(at.conform(treatments.columns())?)?;
                Self::like(treatments, &at, others.clone(), of, watch)
            }
            Whom::Like(at) => {
                let places = at.columns().iter().map(|own| others.index_of(&own.name));
                let places = places.collect::<Result<Vec<_>>>()?;
                let rows = others.select_columns(&places);
                let at = one(at.conform(rows.columns())?)?;
                // Members of the study with what is given instead of their own.
                let mut columns: Vec<Vec<f64>> =
                    (0..others.width()).map(|j| others.column(j).to_vec()).collect();
                places.iter().enumerate().for_each(|(k, j)| columns[*j].fill(at.get(0, k)));
                let members =
                    Table::from_column_major(others.columns().to_vec(), rows.rows(), columns.concat())?;
                if places.len() == members.width() {
                    // All of them are alike.
                    return Ok(Self { open: Some(0.0), ..Self::all(&members) });
                }
                Self::like(&rows, &at, members, of, watch)
            }
        }
    }

    /// Those who are as `at`, by a regression of what they are like on `rows`.
    fn like(
        rows: &Table,
        at: &Table,
        covariates: Table,
        of: &dyn Fn(&Table) -> Matrix,
        watch: Watch<'_>,
    ) -> Result<Self> {
        let regression = Regression::new(rows, &of(&covariates), watch)?;
        let cross = regression.kernel.cross_gram(rows, at).column(0);
        let weights = regression.factor(rows)?.solve_vector(&cross);
        let prior = regression.kernel.diagonal(at)[0];
        let open = (1.0 - dot(&weights, &cross) / prior).clamp(0.0, 1.0);
        Ok(Self { covariates, weights, open: Some(open) })
    }
}

impl Effect {
    /// The same effect on others. Whom is known by what the study's covariates are like given treatments, or given some of them, is a regression whose kernel and ridge are those that tell rows that are
    /// left out best. What it leaves open counts as [`Cause::Adjustment`](super::Cause::Adjustment), with the mean effect on its rows, not how uncertain that is; a population counts as known. Cost some
    /// tens of n³, and n³ a draw.
    ///
    /// # Errors
    /// [`Error::Unused`] where no covariates are averaged over; as [`Table::conform`]; [`Error::Parameter`] for weights that do not add up to 1, and more rows than one; [`Error::Interrupted`] once
    /// `stop` is set.
    pub fn of(&self, whom: &Whom, stop: &AtomicBool) -> Result<Self> {
        let links: Vec<(f64, &Link)> = self.links().collect();
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
        let progress = crate::stop::Progress::default();
        let people = People::new(
            whom,
            (&links[0].1.points, &blocks[0].rows),
            &of,
            Watch { stop, progress: &progress },
        )?;
        let mut parts = Vec::with_capacity(links.len());
        for ((weight, link), block) in links.iter().zip(&blocks) {
            crate::stop::check(stop)?;
            let with_rows = block.kernel.cross_gram(&block.rows, &people.covariates);
            let reading =
                Reading::of_members(&with_rows, &block.kernel.gram(&people.covariates), &people.weights);
            let half = people.open.map(|open| half(link, &with_rows, open));
            parts.push((*weight, link.read(reading, half)));
        }
        Ok(self.on(parts, people))
    }
}

fn one(at: Table) -> Result<Table> {
    match at.rows() {
        1 => Ok(at),
        rows => Err(Error::parameter("whom the effect is on", format!("{rows} rows"), "it is one row")),
    }
}

/// A root of what is left open of the distribution of members: of a query with members, by the kernel of rows with members.
fn half(link: &Link, with_rows: &Matrix, open: f64) -> Matrix {
    let scale = (open / with_rows.cols() as f64).sqrt();
    let mut half = with_rows.clone();
    for (i, h) in link.solved().iter().enumerate() {
        half.row_mut(i).iter_mut().for_each(|v| *v *= scale * h);
    }
    half
}

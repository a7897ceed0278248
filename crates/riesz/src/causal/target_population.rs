//! Whom an effect is averaged over, by what the first study's rows say of people.

use super::conditional_regression::EmbeddingRegression;
use super::defaults::{MAX_TUNING_ROWS, evenly_spaced};
use crate::control::RunControl;
use crate::error::{Error, Result, sized};
use crate::linalg::Matrix;
use crate::table::Table;

/// People, by the covariates of the first study that its effect is averaged over.
#[derive(Debug, Clone)]
pub enum TargetPopulation {
    /// Another population: rows of these covariates, and weights that add up to 1.
    Population(Table, Vec<f64>),
    /// Those who were treated so (one row of treatments): the effect of another treatment on them.
    Treated(Table),
    /// Those of whom some covariates are these (one row).
    Like(Table),
}

/// The kernel of covariates between rows of these.
type Gram<'a> = &'a dyn Fn(&Table) -> Matrix;

/// Whom an effect is averaged over.
#[derive(Debug, Clone)]
pub(super) struct PopulationWeights {
    pub covariates: Table,
    /// They add up to about 1.
    pub weights: Vec<f64>,
    /// From 0 to 1: the share of the prior variance of who they are that is left open; `None` where they are
    /// as they are.
    pub unexplained_share: Option<f64>,
}

impl PopulationWeights {
    /// Those of a study.
    pub fn all(covariates: &Table) -> Self {
        let count = covariates.rows();
        Self {
            covariates: covariates.clone(),
            weights: vec![1.0 / count as f64; count],
            unexplained_share: None,
        }
    }

    /// `of` is the kernel of the covariates of the study's rows, of which weights are a regression, by all
    /// rows or through so many landmarks.
    pub fn new(
        whom: &TargetPopulation,
        (treatments, others): (&Table, &Table),
        of: Gram<'_>,
        landmarks: Option<usize>,
        watch: RunControl<'_>,
    ) -> Result<Self> {
        match whom {
            TargetPopulation::Population(members, weights) => {
                let covariates = members.align_to(others.columns())?;
                sized("the list of weights", "numbers", covariates.rows(), weights.len(), "one a member")?;
                let sum: f64 = weights.iter().sum();
                if sum.is_nan() || (sum - 1.0).abs() > 1e-6 || weights.iter().any(|w| *w < 0.0) {
                    let allowed = "they are not negative and add up to 1";
                    return Err(Error::parameter("weights of members", format!("a sum of {sum}"), allowed));
                }
                Ok(Self { covariates, weights: weights.clone(), unexplained_share: None })
            }
            TargetPopulation::Treated(at) => {
                let at = one(at.align_to(treatments.columns())?)?;
                Self::conditional_on(treatments, &at, others.clone(), (of, landmarks), watch)
            }
            TargetPopulation::Like(at) => {
                let places = at.columns().iter().map(|own| others.index_of(&own.name));
                let places = places.collect::<Result<Vec<_>>>()?;
                let rows = others.select_columns(&places);
                let at = one(at.align_to(rows.columns())?)?;
                // Members of the study with what is given instead of their own.
                let mut columns: Vec<Vec<f64>> =
                    (0..others.width()).map(|j| others.column(j).to_vec()).collect();
                places.iter().enumerate().for_each(|(k, j)| columns[*j].fill(at.get(0, k)));
                let members =
                    Table::from_column_major(others.columns().to_vec(), rows.rows(), columns.concat())?;
                if places.len() == members.width() {
                    // All of them are alike.
                    return Ok(Self { unexplained_share: Some(0.0), ..Self::all(&members) });
                }
                Self::conditional_on(&rows, &at, members, (of, landmarks), watch)
            }
        }
    }

    /// Those who are as `at`, by a regression of what they are like on `rows`.
    fn conditional_on(
        rows: &Table,
        at: &Table,
        covariates: Table,
        (of, landmarks): (Gram<'_>, Option<usize>),
        watch: RunControl<'_>,
    ) -> Result<Self> {
        let some = evenly_spaced(MAX_TUNING_ROWS, rows.rows());
        let regression =
            EmbeddingRegression::new(&rows.select_rows(&some), &of(&covariates.select_rows(&some)), watch)?;
        let (solver, points) = regression.solver(rows, landmarks)?;
        let with_points = regression.kernel.cross_gram(&points, at);
        let (weights, told) = solver.weights_and_explained(with_points);
        let prior = regression.kernel.diagonal(at)[0];
        let open = (1.0 - told[(0, 0)] / prior).clamp(0.0, 1.0);
        Ok(Self { covariates, weights: weights.row(0).to_vec(), unexplained_share: Some(open) })
    }
}

fn one(at: Table) -> Result<Table> {
    match at.rows() {
        1 => Ok(at),
        rows => Err(Error::parameter("whom the effect is on", format!("{rows} rows"), "it is one row")),
    }
}

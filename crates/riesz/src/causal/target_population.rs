//! Target populations over which an effect is averaged, in terms of the first study's rows.

use super::conditional_regression::embedding_parameters;
use super::defaults::{MAX_TUNING_ROWS, evenly_spaced};
use super::kernel_regression::KernelRegression;
use crate::control::RunControl;
use crate::error::{Error, Result, sized};
use crate::gp::inducing_points::inducing_points;
use crate::linalg::Matrix;
use crate::table::Table;

/// A target population, given by covariates of the first study over which the effect is averaged.
#[derive(Debug, Clone)]
pub enum TargetPopulation {
    /// Another population: rows of these covariates, and weights that add up to 1.
    Population(Table, Vec<f64>),
    /// Units that received this treatment (one row): the effect of another treatment on the treated.
    Treated(Table),
    /// Units with these values of some covariates (one row).
    ConditionalOn(Table),
}

/// A function that returns the gram matrix of the covariates between rows.
type Gram<'a> = &'a dyn Fn(&Table) -> Matrix;

/// Covariates and weights of the population over which an effect is averaged.
#[derive(Debug, Clone)]
pub(super) struct PopulationWeights {
    pub covariates: Table,
    /// Weights of the members, whose sum is about 1.
    pub weights: Vec<f64>,
    /// Share of the prior variance of the population's covariates that is unexplained, from 0 to 1; `None`
    /// for a population that is given as rows.
    pub unexplained_share: Option<f64>,
}

impl PopulationWeights {
    /// Returns a population whose members have equal weights, such as that of a study.
    pub fn uniform(covariates: &Table) -> Self {
        let count = covariates.rows();
        Self {
            covariates: covariates.clone(),
            weights: vec![1.0 / count as f64; count],
            unexplained_share: None,
        }
    }

    /// Computes the weights of a target population. `gram_of` returns the gram matrix of covariates, which
    /// are regressed on the conditions with all rows or with landmarks.
    pub fn new(
        target: &TargetPopulation,
        (treatments, covariates): (&Table, &Table),
        gram_of: Gram<'_>,
        landmarks: Option<usize>,
        control: RunControl<'_>,
    ) -> Result<Self> {
        match target {
            TargetPopulation::Population(members, weights) => {
                let covariates = members.align_to(covariates.columns())?;
                sized("the list of weights", "numbers", covariates.rows(), weights.len(), "one per member")?;
                let sum: f64 = weights.iter().sum();
                if sum.is_nan() || (sum - 1.0).abs() > 1e-6 || weights.iter().any(|w| *w < 0.0) {
                    let allowed = "they are not negative and add up to 1";
                    return Err(Error::parameter("weights of members", format!("a sum of {sum}"), allowed));
                }
                Ok(Self { covariates, weights: weights.clone(), unexplained_share: None })
            }
            TargetPopulation::Treated(condition) => {
                let treatment = single_row(condition.align_to(treatments.columns())?)?;
                Self::conditional_on(
                    treatments,
                    &treatment,
                    covariates.clone(),
                    (gram_of, landmarks),
                    control,
                )
            }
            TargetPopulation::ConditionalOn(condition) => {
                let column_indices =
                    condition.columns().iter().map(|column| covariates.index_of(&column.name));
                let column_indices = column_indices.collect::<Result<Vec<_>>>()?;
                let rows = covariates.select_columns(&column_indices);
                let covariate_values = single_row(condition.align_to(rows.columns())?)?;
                // Units of the study, with the given values instead of their own.
                let mut columns: Vec<Vec<f64>> =
                    (0..covariates.width()).map(|j| covariates.column(j).to_vec()).collect();
                column_indices
                    .iter()
                    .enumerate()
                    .for_each(|(k, j)| columns[*j].fill(covariate_values.get(0, k)));
                let members =
                    Table::from_column_major(covariates.columns().to_vec(), rows.rows(), columns.concat())?;
                if column_indices.len() == members.width() {
                    // All units are equal.
                    return Ok(Self { unexplained_share: Some(0.0), ..Self::uniform(&members) });
                }
                Self::conditional_on(&rows, &covariate_values, members, (gram_of, landmarks), control)
            }
        }
    }

    /// Returns the population conditional on `condition`, by a regression of the covariates on `rows`.
    fn conditional_on(
        rows: &Table,
        condition: &Table,
        covariates: Table,
        (gram_of, landmarks): (Gram<'_>, Option<usize>),
        control: RunControl<'_>,
    ) -> Result<Self> {
        let tuning_rows = evenly_spaced(MAX_TUNING_ROWS, rows.rows());
        let (kernel, ridge) = embedding_parameters(
            &rows.select_rows(&tuning_rows),
            &gram_of(&covariates.select_rows(&tuning_rows)),
            control,
        )?;
        let points = landmarks.map(|count| inducing_points(rows, count, 0)).transpose()?;
        let matrix_name = "kernel matrix of the given columns plus ridge";
        let solver = KernelRegression::fit((&kernel, ridge), rows, points.as_ref(), matrix_name)?;
        let with_points = kernel.cross_gram(points.as_ref().unwrap_or(rows), condition);
        let (weights, explained) = solver.weights_and_explained(with_points);
        let prior = kernel.diagonal(condition)[0];
        let unexplained_share = (1.0 - explained[(0, 0)] / prior).clamp(0.0, 1.0);
        Ok(Self { covariates, weights: weights.row(0).to_vec(), unexplained_share: Some(unexplained_share) })
    }
}

fn single_row(table: Table) -> Result<Table> {
    match table.rows() {
        1 => Ok(table),
        rows => Err(Error::parameter("the target population", format!("{rows} rows"), "it is one row")),
    }
}

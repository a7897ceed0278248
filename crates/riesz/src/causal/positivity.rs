//! Positivity: whether units similar to those of the target population received the queried treatments.
//!
//! An effect that is averaged over covariates needs the outcome of each unit under another treatment. Rows
//! are informative about it only where units with similar covariates received that treatment. Where
//! covariates nearly determine treatments, only smoothness separates the effects of the two, which is an
//! assumption and not a finding.

use super::defaults::{MAX_TUNING_ROWS, evenly_spaced, start_rows};
use super::outcome_gp::OutcomeGp;
use super::outcome_prior::OutcomePrior;
use super::target_population::PopulationWeights;
use crate::control::RunControl;
use crate::error::Result;
use crate::gp::search::maximise_posterior;
use crate::kernel::mean_variance;
use crate::table::{Column, ColumnKind, Table};

/// Number of standard deviations around its expectation within which a treatment is near.
const NEAR_SDS: f64 = 2.0;

/// Minimum probability given covariates of a level that is near.
const MIN_PROBABILITY: f64 = 0.05;

/// The share of a population, or of rows with covariates from before the treatment, for which treatments were
/// near.
#[derive(Debug, Clone)]
pub(super) struct Positivity {
    /// Models of the treatments given covariates.
    pub models: Vec<TreatmentModel>,
    /// Indices of the model's treatments among all treatments.
    pub columns: Vec<usize>,
    /// Covariates of rows that represent the population; `None` for the covariates of the population itself.
    pub rows: Option<Table>,
    /// Columns of the mediators of a front door. `models` are then those of the mediators given the
    /// treatments, and a query is for the mediators that are expected at its treatments.
    pub mediators: Option<Vec<Column>>,
}

impl Positivity {
    /// Returns the share of the population for which all treatments were near, for each row of a query's
    /// treatments.
    ///
    /// # Errors
    /// Errors of [`Table::from_column_major`].
    pub fn supported_shares(
        &self,
        population: Option<&PopulationWeights>,
        queried: &Table,
    ) -> Result<Vec<f64>> {
        let mut treatments = queried.select_columns(&self.columns);
        if let Some(mediators) = &self.mediators {
            treatments = self.most_expected(mediators, &treatments)?;
        }
        Ok(match (&self.rows, population) {
            (Some(rows), _) => {
                let weights = vec![1.0 / rows.rows() as f64; rows.rows()];
                self.near_shares(rows, &weights, &treatments)
            }
            (None, Some(population)) => {
                self.near_shares(&population.covariates, &population.weights, &treatments)
            }
            (None, None) => vec![1.0; treatments.rows()],
        })
    }

    /// Returns the expected treatments given covariates: the means of numbers, and the most probable levels.
    fn most_expected(&self, columns: &[Column], covariates: &Table) -> Result<Table> {
        let values = self.models.iter().flat_map(|model| {
            let expected = model.expected(covariates);
            (0..covariates.rows())
                .map(|i| match model {
                    TreatmentModel::Number(..) => expected[0][i],
                    TreatmentModel::Levels(_) => {
                        let compare = |a: &usize, b: &usize| expected[*a][i].total_cmp(&expected[*b][i]);
                        (0..expected.len()).max_by(compare).unwrap_or(0) as f64
                    }
                })
                .collect::<Vec<_>>()
        });
        Table::from_column_major(columns.to_vec(), covariates.rows(), values.collect())
    }

    /// Returns for each row of treatments the weighted share of units, with these covariates, for which all
    /// its columns are near their expectation.
    fn near_shares(&self, covariates: &Table, weights: &[f64], queried: &Table) -> Vec<f64> {
        // Negative weights of a regression are set to 0.
        let weights: Vec<f64> = weights.iter().map(|weight| weight.max(0.0)).collect();
        let total: f64 = weights.iter().sum();
        let expected: Vec<_> = self.models.iter().map(|model| model.expected(covariates)).collect();
        let near_share = |treatments: Vec<f64>| {
            let is_near = |unit: usize| {
                let mut models = self.models.iter().zip(&expected).zip(&treatments);
                models.all(|((model, expected), treatment)| model.is_near(expected, unit, *treatment))
            };
            let unit_weights = weights.iter().enumerate();
            let near_weights = unit_weights.map(|(unit, weight)| if is_near(unit) { *weight } else { 0.0 });
            near_weights.sum::<f64>() / total
        };
        (0..queried.rows()).map(|q| near_share(queried.row(q))).collect()
    }
}

/// Regression of a treatment on covariates.
#[derive(Debug, Clone)]
pub(super) enum TreatmentModel {
    /// The process of a numeric treatment, and the standard deviation of its leave-one-out residuals.
    Number(OutcomeGp, f64),
    /// A process for the probability of each level; `None` for levels without rows.
    Levels(Vec<Option<OutcomeGp>>),
}

/// Fits a Gaussian process of a variable given covariates. Returns `None` if all values are equal, or the
/// values of the tuning rows (for a rare level).
fn regression(covariates: &Table, t: &[f64], control: RunControl<'_>) -> Result<Option<OutcomeGp>> {
    let (_, variance) = mean_variance(t);
    if variance == 0.0 {
        return Ok(None);
    }
    let prior = OutcomePrior::product(covariates, variance, variance);
    let from: Vec<f64> = prior.hyperparameters.iter().map(|c| c.parameter.log_value).collect();
    // The hyper-parameters of some rows are accurate enough for this decision.
    let start_subset = start_rows(t.len());
    let (rows, targets) =
        (covariates.select_rows(&start_subset), start_subset.iter().map(|i| t[*i]).collect::<Vec<_>>());
    if mean_variance(&targets).1 == 0.0 {
        return Ok(None);
    }
    let optimum = maximise_posterior(&prior.hyperparameters, &from, control, |theta| {
        prior.parameters_at(theta).log_evidence_and_gradient(&rows, &targets)
    })?;
    OutcomeGp::new(0, (covariates, t), prior.parameters_at(&optimum.theta), None).map(Some)
}

/// Fits the models to the rows of a study. The cost of each treatment, or level, is some tens of n³.
pub(super) fn treatment_models(
    treatments: &Table,
    covariates: &Table,
    control: RunControl<'_>,
) -> Result<Vec<TreatmentModel>> {
    let tuning_rows = evenly_spaced(MAX_TUNING_ROWS, treatments.rows());
    let (treatments, covariates) =
        (&treatments.select_rows(&tuning_rows), &covariates.select_rows(&tuning_rows));
    let models = treatments.columns().iter().enumerate().map(|(j, column)| {
        let level_process = |level: usize| regression(covariates, &treatments.indicator(j, level), control);
        Ok(match &column.kind {
            ColumnKind::Categorical { levels } => {
                TreatmentModel::Levels((0..levels.len()).map(level_process).collect::<Result<_>>()?)
            }
            ColumnKind::Numeric => match regression(covariates, treatments.column(j), control)? {
                Some(process) => {
                    let residual_sd = process.loo_mse().sqrt();
                    TreatmentModel::Number(process, residual_sd)
                }
                None => TreatmentModel::Levels(Vec::new()),
            },
        })
    });
    models.collect()
}

impl TreatmentModel {
    /// Returns the expectations, outputs × units.
    fn expected(&self, covariates: &Table) -> Vec<Vec<f64>> {
        let expectation = |process: &OutcomeGp| {
            let columns = process.parameters.kernel.cross_gram(&process.points, covariates);
            process.centered_means(&columns).iter().map(|v| v + process.constant).collect::<Vec<f64>>()
        };
        match self {
            Self::Number(process, _) => vec![expectation(process)],
            Self::Levels(processes) => processes
                .iter()
                .map(|process| process.as_ref().map_or(vec![0.0; covariates.rows()], expectation))
                .collect(),
        }
    }

    fn is_near(&self, expected: &[Vec<f64>], unit: usize, treatment: f64) -> bool {
        match self {
            Self::Number(_, sd) => (treatment - expected[0][unit]).abs() <= NEAR_SDS * sd,
            // The treatment is the code of a level.
            Self::Levels(_) => expected
                .get(treatment as usize)
                .is_some_and(|probabilities| probabilities[unit] >= MIN_PROBABILITY),
        }
    }
}

//! Whether people like those asked about were ever treated as is asked: positivity.
//!
//! An effect that is averaged over covariates asks of each person what another treatment would do, and rows
//! tell that only where people with such covariates were treated so. Where covariates all but decide
//! treatments, what is due to one and what to the other is told apart by smoothness alone, which is a belief
//! and not a finding.

use super::defaults::{MAX_TUNING_ROWS, evenly_spaced, gp_hyperparameters, start_rows};
use super::outcome_gp::OutcomeGp;
use super::target_population::PopulationWeights;
use crate::control::RunControl;
use crate::error::Result;
use crate::fit::hyperparameter_search::{self, add_log_priors};
use crate::kernel::mean_variance;
use crate::table::{Column, ColumnKind, Table};

/// Treatments that are at most so many standard deviations from what covariates lead one to expect are near.
const NEAR: f64 = 2.0;

/// So are levels that covariates give at least this probability.
const LIKELY: f64 = 0.05;

/// What treatments people's covariates lead one to expect.
#[derive(Debug, Clone)]
pub(super) struct TreatmentOverlap {
    treatments: Vec<TreatmentModel>,
}

/// For whom treatments were near: of the population, or of rows whose covariates came about before the
/// treatment.
#[derive(Debug, Clone)]
pub(super) struct Positivity {
    pub overlap: TreatmentOverlap,
    /// The places of its treatments among all of them.
    pub columns: Vec<usize>,
    /// Covariates of rows that stand for the population; `None` for the population's own.
    pub rows: Option<Table>,
    /// Columns of mediators, of a front door: `overlap` is then that of these given the treatments, and a
    /// query asks for the mediators that its treatments lead one to expect.
    pub mediators: Option<Vec<Column>>,
}

impl Positivity {
    /// As [`TreatmentOverlap::shares`], of all treatments of a query.
    ///
    /// # Errors
    /// As [`Table::from_column_major`].
    pub fn supported_shares(&self, people: Option<&PopulationWeights>, asked: &Table) -> Result<Vec<f64>> {
        let mut asked = asked.select_columns(&self.columns);
        if let Some(mediators) = &self.mediators {
            asked = self.overlap.most_expected(mediators, &asked)?;
        }
        Ok(match (&self.rows, people) {
            (Some(rows), _) => {
                let weights = vec![1.0 / rows.rows() as f64; rows.rows()];
                self.overlap.supported_shares(rows, &weights, &asked)
            }
            (None, Some(people)) => {
                self.overlap.supported_shares(&people.covariates, &people.weights, &asked)
            }
            (None, None) => vec![1.0; asked.rows()],
        })
    }
}

/// A treatment as a regression on covariates.
#[derive(Debug, Clone)]
enum TreatmentModel {
    /// Its mean, and the standard deviation of rows around it, left out.
    Number(OutcomeGp, f64),
    /// The probability of each of its levels; of those that no row has there is none.
    Levels(Vec<Option<OutcomeGp>>),
}

/// The best Gaussian process of numbers by covariates; `None` where all are the same, or those of some rows
/// (a level that hardly any has).
fn regression(covariates: &Table, t: &[f64], watch: RunControl<'_>) -> Result<Option<OutcomeGp>> {
    let (_, variance) = mean_variance(t);
    if variance == 0.0 {
        return Ok(None);
    }
    let (coordinates, at) = gp_hyperparameters(covariates, variance, variance);
    let from: Vec<f64> = coordinates.iter().map(|c| c.parameter.log_value).collect();
    // What is near is told well enough by the hyper-parameters of some rows.
    let few = start_rows(t.len());
    let (rows, targets) = (covariates.select_rows(&few), few.iter().map(|i| t[*i]).collect::<Vec<_>>());
    if mean_variance(&targets).1 == 0.0 {
        return Ok(None);
    }
    let found = hyperparameter_search::maximise_within_priors(&coordinates, &from, watch, |theta| {
        Ok(add_log_priors(&coordinates, theta, at(theta).log_evidence_and_gradient(&rows, &targets)?))
    })?;
    OutcomeGp::new(0, (covariates, t), at(&found.theta), None).map(Some)
}

impl TreatmentOverlap {
    /// Of the rows of a study. Cost of each treatment, or level, some tens of n³.
    pub fn new(treatments: &Table, covariates: &Table, watch: RunControl<'_>) -> Result<Self> {
        let some = evenly_spaced(MAX_TUNING_ROWS, treatments.rows());
        let (treatments, covariates) = (&treatments.select_rows(&some), &covariates.select_rows(&some));
        let each = treatments.columns().iter().enumerate().map(|(j, column)| {
            let own = treatments.column(j);
            let of_level = |code: usize| {
                let is: Vec<f64> = own.iter().map(|v| f64::from(u8::from(*v == code as f64))).collect();
                regression(covariates, &is, watch)
            };
            Ok(match &column.kind {
                ColumnKind::Categorical { levels } => {
                    TreatmentModel::Levels((0..levels.len()).map(of_level).collect::<Result<_>>()?)
                }
                ColumnKind::Numeric => match regression(covariates, own, watch)? {
                    Some(process) => {
                        let spread = process.loo_mse().sqrt();
                        TreatmentModel::Number(process, spread)
                    }
                    None => TreatmentModel::Levels(Vec::new()),
                },
            })
        });
        Ok(Self { treatments: each.collect::<Result<_>>()? })
    }

    /// What covariates lead one to expect: numbers, and the most probable levels.
    fn most_expected(&self, columns: &[Column], covariates: &Table) -> Result<Table> {
        let values = self.treatments.iter().flat_map(|own| {
            let expected = own.expected(covariates);
            (0..covariates.rows())
                .map(|i| match own {
                    TreatmentModel::Number(..) => expected[0][i],
                    TreatmentModel::Levels(_) => {
                        let probable = |a: &usize, b: &usize| expected[*a][i].total_cmp(&expected[*b][i]);
                        (0..expected.len()).max_by(probable).unwrap_or(0) as f64
                    }
                })
                .collect::<Vec<_>>()
        });
        Table::from_column_major(columns.to_vec(), covariates.rows(), values.collect())
    }

    /// Of people with these covariates, who count by weights, the share for whom each row of treatments is
    /// near: all of its columns are.
    pub fn supported_shares(&self, people: &Table, weights: &[f64], asked: &Table) -> Vec<f64> {
        // Whom a regression counts less than nothing is nobody.
        let weights: Vec<f64> = weights.iter().map(|own| own.max(0.0)).collect();
        let all: f64 = weights.iter().sum();
        let mut counted = vec![weights; asked.rows()];
        for (j, own) in self.treatments.iter().enumerate() {
            let expected = own.expected(people);
            for (q, counted) in counted.iter_mut().enumerate() {
                for (person, weight) in counted.iter_mut().enumerate() {
                    if !own.is_near(&expected, person, asked.get(q, j)) {
                        *weight = 0.0;
                    }
                }
            }
        }
        counted.iter().map(|own| own.iter().sum::<f64>() / all).collect()
    }
}

impl TreatmentModel {
    /// Outputs × people.
    fn expected(&self, people: &Table) -> Vec<Vec<f64>> {
        let of = |process: &OutcomeGp| {
            let columns = process.kernel().cross_gram(process.points(), people);
            process.centred_means(&columns).iter().map(|v| v + process.constant).collect::<Vec<f64>>()
        };
        match self {
            Self::Number(process, _) => vec![of(process)],
            Self::Levels(each) => {
                each.iter().map(|own| own.as_ref().map_or(vec![0.0; people.rows()], of)).collect()
            }
        }
    }

    fn is_near(&self, expected: &[Vec<f64>], person: usize, asked: f64) -> bool {
        match self {
            Self::Number(_, spread) => (asked - expected[0][person]).abs() <= NEAR * spread,
            // Levels are codes.
            Self::Levels(_) => expected.get(asked as usize).is_some_and(|own| own[person] >= LIKELY),
        }
    }
}

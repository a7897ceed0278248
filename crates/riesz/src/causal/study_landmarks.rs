//! Landmarks that represent the rows of studies with many rows.
//!
//! The next study is evaluated at the mediators of this study. The landmarks of the next study therefore
//! represent the mediators of both studies. Where the next study has no rows, its landmarks then show the
//! lack of data.

use super::studies::{IdentificationRoute, Studies, Study, join_columns};
use crate::error::Result;
use crate::gp::inducing_points::inducing_points;
use crate::table::Table;

/// The number of rows above which a study has landmarks, unless a number of landmarks is requested.
pub(super) const MAX_EXACT_ROWS: usize = 3000;

/// Default number of landmarks.
pub(super) const DEFAULT_LANDMARKS: usize = 500;

/// Landmarks for each study; `None` where all rows are used.
#[derive(Debug, Clone)]
pub(super) struct StudyLandmarks {
    pub studies: Vec<Option<LandmarkTables>>,
    /// Landmarks of the last study; `None` where all rows are used.
    pub outcome_points: Option<Table>,
}

/// Landmarks of a study.
#[derive(Debug, Clone)]
pub(super) struct LandmarkTables {
    pub treatments: Table,
    /// Covariates of a back-door adjustment, or front-door mediators.
    pub covariates: Option<Table>,
    /// Landmarks of the treatments alone, for the regression of front-door mediators on treatments.
    pub treatments_only: Option<Table>,
}

impl StudyLandmarks {
    /// Chooses landmarks for studies with more rows than `requested`, or by default with more than 3,000
    /// rows. A study also has landmarks if the previous study has more mediators than that. Studies with
    /// covariates on which the outcome depends have no landmarks.
    ///
    /// # Errors
    /// As [`inducing_points`].
    pub fn new(studies: &Studies, requested: Option<usize>) -> Result<Self> {
        let count = requested.unwrap_or(DEFAULT_LANDMARKS);
        let is_large = |rows: usize| rows > requested.unwrap_or(MAX_EXACT_ROWS);
        let indexed = studies.studies.iter().enumerate();
        let tables = indexed.map(|(s, study)| {
            let previous = s.checked_sub(1).map(|index| &studies.studies[index]);
            let rows = study.treatments.rows();
            let needed = is_large(rows) || previous.is_some_and(|study| is_large(study.mediators.rows()));
            if !needed || study.shared.is_some() {
                return Ok(None);
            }
            LandmarkTables::new(study, previous, count).map(Some)
        });
        let last_study = &studies.studies[studies.studies.len() - 1];
        let needed = is_large(studies.points.rows()) || is_large(last_study.mediators.rows());
        let outcome_points = (needed && last_study.shared.is_none()).then(|| {
            let mediators = last_study.mediator_table(studies.points.columns())?;
            inducing_points(&studies.points.stack(&mediators)?, count, 0)
        });
        Ok(Self { studies: tables.collect::<Result<_>>()?, outcome_points: outcome_points.transpose()? })
    }

    /// Returns the count of floating-point numbers that an effect with these landmarks stores.
    pub fn memory_numbers(&self, studies: &Studies) -> usize {
        let n_points = self.outcome_points.as_ref().map_or(studies.points.rows(), Table::rows);
        let indexed = studies.studies.iter().zip(&self.studies).enumerate();
        let numbers = indexed.map(|(s, (study, tables))| {
            let n = study.treatments.rows();
            let next = match (studies.studies.get(s + 1), self.studies.get(s + 1)) {
                (_, Some(Some(tables))) => tables.treatments.rows(),
                (Some(next), _) => next.treatments.rows(),
                _ => n_points,
            };
            match tables {
                None => n * (4 * n + next),
                Some(tables) => n * (tables.treatments.rows() + next) + 4 * tables.treatments.rows().pow(2),
            }
        });
        n_points * n_points + numbers.sum::<usize>()
    }
}

impl LandmarkTables {
    fn new(study: &Study, previous: Option<&Study>, count: usize) -> Result<Self> {
        let mut treatments = study.treatments.clone();
        if let Some(previous) = previous {
            treatments = treatments.stack(&previous.mediator_table(treatments.columns())?)?;
        }
        let Some(covariates) = study.covariates() else {
            let treatments = inducing_points(&treatments, count, 0)?;
            return Ok(Self { treatments, covariates: None, treatments_only: None });
        };
        let treatments_only = match &study.route {
            IdentificationRoute::FrontDoor(_) => Some(inducing_points(&treatments, count, 0)?),
            _ => None,
        };
        // Rows from the previous study take the covariates of this one.
        let unit_rows: Vec<usize> = (0..treatments.rows()).map(|i| i % covariates.rows()).collect();
        let landmarks =
            inducing_points(&join_columns(&treatments, &covariates.select_rows(&unit_rows))?, count, 0)?;
        let (treatment_columns, covariate_columns): (Vec<usize>, Vec<usize>) =
            (0..landmarks.width()).partition(|j| *j < treatments.width());
        Ok(Self {
            treatments: landmarks.select_columns(&treatment_columns),
            covariates: Some(landmarks.select_columns(&covariate_columns)),
            treatments_only,
        })
    }
}

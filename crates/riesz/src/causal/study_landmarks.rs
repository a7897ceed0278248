//! Few rows that stand for those of studies that have many.
//!
//! Where a study leads is asked of the next one, so that landmarks are of the mediators of both: where the
//! next study has no rows, landmarks are what tells that it has none.

use super::studies::{IdentificationRoute, Studies, Study};
use crate::error::Result;
use crate::fit::inducing_points;
use crate::table::{Column, Table};

/// Studies of more rows are known through landmarks where nobody says.
const MAX_EXACT_ROWS: usize = 3000;

/// So many, where nobody says.
const DEFAULT_LANDMARKS: usize = 500;

/// By study, `None` where all rows count.
#[derive(Debug, Clone)]
pub(super) struct StudyLandmarks {
    pub studies: Vec<Option<LandmarkTables>>,
    /// Points of the last.
    pub last: Option<Table>,
}

/// Of a study.
#[derive(Debug, Clone)]
pub(super) struct LandmarkTables {
    pub treatments: Table,
    /// Covariates that are averaged over, or what intercepts the effect.
    pub others: Option<Table>,
    /// Treatments by themselves, on which what intercepts the effect is regressed.
    pub queried: Option<Table>,
}

impl StudyLandmarks {
    /// Of studies of more rows than `asked`, or than is usual. Studies whose covariates the outcome depends
    /// on have none.
    ///
    /// # Errors
    /// As [`inducing_points`].
    pub fn new(studies: &Studies, asked: Option<usize>) -> Result<Self> {
        let count = asked.unwrap_or(DEFAULT_LANDMARKS);
        let many = |rows: usize| rows > asked.unwrap_or(MAX_EXACT_ROWS);
        let each = studies.studies.iter().enumerate();
        let each = each.map(|(s, study)| {
            let before = s.checked_sub(1).map(|before| &studies.studies[before]);
            let rows = study.treatments.rows();
            let needed = many(rows) || before.is_some_and(|own| many(own.mediators.rows()));
            if !needed || study.shared.is_some() {
                return Ok(None);
            }
            LandmarkTables::new(study, before, count).map(Some)
        });
        let before = &studies.studies[studies.studies.len() - 1];
        let needed = many(studies.points.rows()) || many(before.mediators.rows());
        let last = (needed && before.shared.is_none()).then(|| {
            let arrived = before.mediator_table(studies.points.columns())?;
            inducing_points(&studies.points.stack(&arrived)?, count, 0)
        });
        Ok(Self { studies: each.collect::<Result<_>>()?, last: last.transpose()? })
    }

    /// How many numbers an effect holds by these.
    pub fn memory_numbers(&self, studies: &Studies) -> usize {
        let last = self.last.as_ref().map_or(studies.points.rows(), Table::rows);
        let each = studies.studies.iter().zip(&self.studies).enumerate();
        let each = each.map(|(s, (study, few))| {
            let n = study.treatments.rows();
            let next = match (studies.studies.get(s + 1), self.studies.get(s + 1)) {
                (_, Some(Some(few))) => few.treatments.rows(),
                (Some(next), _) => next.treatments.rows(),
                _ => last,
            };
            match few {
                None => n * (4 * n + next),
                Some(few) => n * (few.treatments.rows() + next) + 4 * few.treatments.rows().pow(2),
            }
        });
        last * last + each.sum::<usize>()
    }
}

impl LandmarkTables {
    fn new(study: &Study, before: Option<&Study>, count: usize) -> Result<Self> {
        let mut treatments = study.treatments.clone();
        if let Some(before) = before {
            treatments = treatments.stack(&before.mediator_table(treatments.columns())?)?;
        }
        let (IdentificationRoute::BackDoor(others) | IdentificationRoute::FrontDoor(others)) = &study.route
        else {
            return Ok(Self {
                treatments: inducing_points(&treatments, count, 0)?,
                others: None,
                queried: None,
            });
        };
        let queried = match &study.route {
            IdentificationRoute::FrontDoor(_) => Some(inducing_points(&treatments, count, 0)?),
            _ => None,
        };
        // Who arrives from the study before is as those of this one.
        let people: Vec<usize> = (0..treatments.rows()).map(|i| i % others.rows()).collect();
        let others = others.select_rows(&people);
        let columns: Vec<Column> = [treatments.columns(), others.columns()].concat();
        let values = [treatments.column_major(), others.column_major()].concat();
        let few = inducing_points(&Table::from_column_major(columns, others.rows(), values)?, count, 0)?;
        let (first, rest): (Vec<usize>, Vec<usize>) = (0..few.width()).partition(|j| *j < treatments.width());
        Ok(Self { treatments: few.select_columns(&first), others: Some(few.select_columns(&rest)), queried })
    }
}

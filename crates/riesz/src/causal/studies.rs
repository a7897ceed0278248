//! Data of effects across studies: each study measured treatments and mediators, and the last one mediators
//! and the outcome.

use super::outcome_gp::OutcomeGpParameters;
use super::product_kernel::ColumnBlock;
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::table::{Column, Table};

/// The way in which a study identifies the effect of its treatment on its mediators.
#[derive(Debug, Clone)]
pub enum IdentificationRoute {
    /// No adjustment: the treatment is randomised, or nothing confounds it.
    Direct,
    /// Average over these covariates, one row per row of the study (back-door).
    BackDoor(Table),
    /// Adjustment through these columns, which intercept the effect (front-door).
    FrontDoor(Table),
}

/// A study that links its treatments to mediators, which the next study measured too.
#[derive(Debug, Clone)]
pub struct Study {
    /// The treatments: those of the query in the first study, mediators of the previous study in others.
    pub treatments: Table,
    /// The strategy that identifies the effect of the treatments.
    pub route: IdentificationRoute,
    /// The mediators that carry the effect of the treatments to the next study: columns of both studies.
    pub mediators: Table,
    /// Covariates that the treatments do not affect and on which the outcome depends: columns of the last
    /// study and of this study's covariates. Only the study before the last may have them, with a back-door
    /// adjustment.
    pub shared: Option<Table>,
}

/// The data of several studies.
#[derive(Debug, Clone)]
pub struct Studies {
    /// The studies before the last, at least one.
    pub studies: Vec<Study>,
    /// Mediators of the last study.
    pub points: Table,
    /// Outcome of the last study.
    pub outcome: Vec<f64>,
}

/// Parameters of a study before the last.
#[derive(Debug, Clone)]
pub struct StudyParameters {
    /// Kernel of the treatments.
    pub treatments: Kernel,
    /// Kernel of covariates, or of mediators of a front door; the kernel of a row is its product with
    /// `treatments`.
    pub covariates: Option<Kernel>,
    /// Ridge λ > 0, which is not multiplied by the number of rows.
    pub ridge: f64,
    /// Kernel and ridge of the regression of the front-door mediators on treatments.
    pub intercepting: Option<(Kernel, f64)>,
}

/// All parameters of an effect.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Parameters of each study before the last.
    pub studies: Vec<StudyParameters>,
    /// Parameters of the last study.
    pub outcome: OutcomeGpParameters,
    /// Whether the uncertainty includes the sampling of the units of studies whose rows are averaged over.
    pub adjustment: bool,
    /// The number of landmarks, as in [`CausalFusion`](super::CausalFusion).
    pub landmarks: Option<usize>,
}

impl Study {
    /// Returns the covariates, or the front-door mediators.
    pub(super) fn covariates(&self) -> Option<&Table> {
        match &self.route {
            IdentificationRoute::Direct => None,
            IdentificationRoute::BackDoor(table) | IdentificationRoute::FrontDoor(table) => Some(table),
        }
    }

    /// Returns the columns that the next study shares: mediators and shared covariates, in the order of
    /// `columns`.
    pub(super) fn mediator_table(&self, columns: &[Column]) -> Result<Table> {
        let Some(shared) = &self.shared else { return self.mediators.align_to(columns) };
        sized("the shared covariates", "rows", self.mediators.rows(), shared.rows(), "as many as mediators")?;
        join_columns(&self.mediators, shared)?.align_to(columns)
    }

    /// Returns the blocks of columns with their kernels.
    pub(super) fn column_blocks(&self, parameters: &StudyParameters) -> Result<Vec<ColumnBlock>> {
        let covariates = self.covariates();
        if covariates.is_some() != parameters.covariates.is_some() {
            let allowed = "it is needed if and only if there are covariates or front-door mediators";
            return Err(Error::parameter("kernel of covariates", covariates.is_none(), allowed));
        }
        let first = [(&self.treatments, &parameters.treatments)];
        first
            .into_iter()
            .chain(covariates.zip(parameters.covariates.as_ref()))
            .map(|(rows, kernel)| {
                kernel.validate(rows.width())?;
                Ok(ColumnBlock { rows: rows.clone(), kernel: kernel.clone() })
            })
            .collect()
    }
}

/// Checks that an outcome is finite.
pub(super) fn check_finite(outcome: &[f64]) -> Result<()> {
    match outcome.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(row) => Err(Error::not_finite(row, "outcome", outcome[row])),
    }
}

/// Returns a table with the columns of two tables, which have equally many rows.
pub(super) fn join_columns(left: &Table, right: &Table) -> Result<Table> {
    let columns = [left.columns(), right.columns()].concat();
    let values = [left.column_major(), right.column_major()].concat();
    Table::from_column_major(columns, right.rows(), values)
}

impl Studies {
    pub(super) fn check(&self) -> Result<()> {
        if self.studies.is_empty() {
            return Err(Error::too_few("the list of studies", 2, "studies are"));
        }
        sized(
            "the outcome",
            "numbers",
            self.points.rows(),
            self.outcome.len(),
            "one per row of the last study",
        )?;
        crate::checks::check_rows(&self.points, self.outcome.len(), 2)?;
        for (s, study) in self.studies.iter().enumerate() {
            let n = study.treatments.rows();
            crate::checks::check_rows(&study.treatments, n, 2)?;
            let name = |quantity: &str| format!("the {quantity} of study {}", s + 1);
            sized(&name("mediators"), "rows", n, study.mediators.rows(), "as many as treatments")?;
            if let Some(covariates) = study.covariates() {
                sized(&name("covariates"), "rows", n, covariates.rows(), "as many as treatments")?;
            }
            let next = self.studies.get(s + 1).map_or(&self.points, |next| &next.treatments);
            study.mediator_table(next.columns())?;
        }
        check_finite(&self.outcome)
    }
}

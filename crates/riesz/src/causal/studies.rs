//! The data of effects across studies: study 1 has the treatment and the mediator, study 2 the mediator and
//! the outcome.

use super::outcome_gp::OutcomeGpParameters;
use super::product_kernel::ColumnBlock;
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::table::{Column, Table};

/// The way in which a study identifies the effect of its treatment on its mediators.
#[derive(Debug, Clone)]
pub enum IdentificationRoute {
    /// The conditional distribution as it is: the treatment is randomised, or nothing confounds it.
    Direct,
    /// Averaged over these covariates, a row each of the study (back-door).
    BackDoor(Table),
    /// Through these columns, which intercept the effect (front-door).
    FrontDoor(Table),
}

/// A study that leads from its treatments to the mediators that the next one knows.
#[derive(Debug, Clone)]
pub struct Study {
    /// The treatments: those of the query in the first study, mediators of the previous study in others.
    pub treatments: Table,
    /// The identification of their effect.
    pub route: IdentificationRoute,
    /// The mediators that carry the effect of treatments to the next study: columns that both have.
    pub mediators: Table,
    /// Covariates that treatments do not move and on which the outcome depends, too: columns of the last
    /// study, and of the covariates of this one, which leads there and is read through these (back-door).
    pub shared: Option<Table>,
}

/// The data of several studies.
#[derive(Debug, Clone)]
pub struct Studies {
    /// One or more that lead to the last.
    pub studies: Vec<Study>,
    /// Mediators of the last study.
    pub points: Table,
    /// Its outcome.
    pub outcome: Vec<f64>,
}

/// The numbers of a study that leads to the next.
#[derive(Debug, Clone)]
pub struct StudyParameters {
    /// Kernel of the treatments.
    pub treatments: Kernel,
    /// Kernel of covariates, or of mediators of a front door; it is multiplied by that of `treatments`.
    pub covariates: Option<Kernel>,
    /// λ > 0, which is not multiplied by the number of rows.
    pub ridge: f64,
    /// Kernel and ridge of the regression of what intercepts the effect on treatments (front-door).
    pub intercepting: Option<(Kernel, f64)>,
}

/// All numbers of an effect.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// One a study.
    pub studies: Vec<StudyParameters>,
    /// Parameters of the last study.
    pub outcome: OutcomeGpParameters,
    /// Whether it counts who happens to be in the studies whose rows are averaged over.
    pub adjustment: bool,
    /// The number of landmarks, as in [`CausalFusion`](super::CausalFusion).
    pub landmarks: Option<usize>,
}

impl Study {
    /// Treatments, and covariates or what intercepts the effect.
    fn tables(&self) -> (&Table, Option<&Table>) {
        let other_table = match &self.route {
            IdentificationRoute::Direct => None,
            IdentificationRoute::BackDoor(table) | IdentificationRoute::FrontDoor(table) => Some(table),
        };
        (&self.treatments, other_table)
    }

    /// Where its rows arrive, as the next study knows it.
    pub(super) fn mediator_table(&self, wanted: &[Column]) -> Result<Table> {
        let Some(shared) = &self.shared else { return self.mediators.align_to(wanted) };
        sized(
            "the shared covariates",
            "rows",
            self.mediators.rows(),
            shared.rows(),
            "as many as of mediators",
        )?;
        let columns = [self.mediators.columns(), shared.columns()].concat();
        let values = [self.mediators.column_major(), shared.column_major()].concat();
        Table::from_column_major(columns, shared.rows(), values)?.align_to(wanted)
    }

    /// Its blocks with these kernels.
    pub(super) fn column_blocks(&self, parameters: &StudyParameters) -> Result<Vec<ColumnBlock>> {
        let (treatments, other_table) = self.tables();
        if other_table.is_some() != parameters.covariates.is_some() {
            let allowed = "there is one where there are covariates, or columns that intercept the effect";
            return Err(Error::parameter("kernel of covariates", other_table.is_none(), allowed));
        }
        let kernels = [Some(&parameters.treatments), parameters.covariates.as_ref()];
        let rows = [Some(treatments), other_table];
        let pairs = rows.into_iter().zip(kernels).filter_map(|(rows, kernel)| Some((rows?, kernel?)));
        pairs
            .map(|(rows, kernel)| {
                kernel.validate(rows.width())?;
                Ok(ColumnBlock { rows: rows.clone(), kernel: kernel.clone() })
            })
            .collect()
    }
}

impl Studies {
    pub(super) fn check(&self) -> Result<()> {
        if self.studies.is_empty() {
            return Err(Error::TooFew {
                subject: "the list of studies".into(),
                needed: 2,
                unit: "studies are",
            });
        }
        sized(
            "the outcome",
            "numbers",
            self.points.rows(),
            self.outcome.len(),
            "one a row of the last study",
        )?;
        crate::fit::check(&self.points, self.outcome.len(), 2)?;
        for (s, study) in self.studies.iter().enumerate() {
            let n = study.treatments.rows();
            crate::fit::check(&study.treatments, n, 2)?;
            let name = |quantity: &str| format!("the {quantity} of study {}", s + 1);
            sized(&name("mediators"), "rows", n, study.mediators.rows(), "as many as of treatments")?;
            if let IdentificationRoute::BackDoor(other) | IdentificationRoute::FrontDoor(other) = &study.route
            {
                sized(&name("covariates"), "rows", n, other.rows(), "as many as of treatments")?;
            }
            let next = self.studies.get(s + 1).map_or(&self.points, |next| &next.treatments);
            study.mediator_table(next.columns())?;
        }
        if let Some(row) = self.outcome.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite { row, column: "outcome".into(), value: self.outcome[row] });
        }
        Ok(())
    }
}

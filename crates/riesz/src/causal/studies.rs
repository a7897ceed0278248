//! Effects from studies that nobody joined: study 1 has treatment and mediator, study 2 mediator and outcome.

use super::outcome_gp::OutcomeGpParameters;
use super::product_kernel::Block;
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::table::{Column, Table};

/// How a study tells what a treatment does to its mediators.
#[derive(Debug, Clone)]
pub enum IdentificationRoute {
    /// As it is seen: the treatment is randomised, or nothing confounds it.
    Direct,
    /// Averaged over these covariates, a row each of the study (back-door).
    BackDoor(Table),
    /// Through these columns, which intercept the effect (front-door).
    FrontDoor(Table),
}

/// A study that leads from its treatments to the mediators that the next one knows.
#[derive(Debug, Clone)]
pub struct Study {
    /// What is queried of it: treatments in the first study, mediators of the one before in others.
    pub treatments: Table,
    /// How it tells what these do.
    pub route: IdentificationRoute,
    /// What carries the effect of treatments to the next study: columns that both have.
    pub mediators: Table,
    /// Covariates that treatments do not move and on which the outcome depends, too: columns of the last
    /// study, and of the covariates of this one, which leads there and is read through these (back-door).
    pub shared: Option<Table>,
}

/// What is learnt from.
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
    /// Of treatments.
    pub treatments: Kernel,
    /// Of covariates, or of what intercepts the effect; with `treatments` a product.
    pub others: Option<Kernel>,
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
    /// Of the last.
    pub outcome: OutcomeGpParameters,
    /// Whether it counts who happens to be in the studies whose rows are averaged over.
    pub adjustment: bool,
    /// As of [`Fusion`](super::Fusion).
    pub landmarks: Option<usize>,
}

impl Study {
    /// Treatments, and covariates or what intercepts the effect.
    fn tables(&self) -> (&Table, Option<&Table>) {
        let others = match &self.route {
            IdentificationRoute::Direct => None,
            IdentificationRoute::BackDoor(own) | IdentificationRoute::FrontDoor(own) => Some(own),
        };
        (&self.treatments, others)
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
    pub(super) fn column_blocks(&self, parameters: &StudyParameters) -> Result<Vec<Block>> {
        let (treatments, others) = self.tables();
        if others.is_some() != parameters.others.is_some() {
            let allowed = "there is one where there are covariates, or columns that intercept the effect";
            return Err(Error::parameter("kernel of covariates", others.is_none(), allowed));
        }
        let kernels = [Some(&parameters.treatments), parameters.others.as_ref()];
        let rows = [Some(treatments), others];
        let each = rows.into_iter().zip(kernels).filter_map(|(rows, kernel)| Some((rows?, kernel?)));
        each.map(|(rows, kernel)| {
            kernel.validate(rows.width())?;
            Ok(Block { rows: rows.clone(), kernel: kernel.clone() })
        })
        .collect()
    }
}

impl Studies {
    pub(super) fn check(&self) -> Result<()> {
        if self.studies.is_empty() {
            return Err(Error::TooFew { what: "the list of studies".into(), needed: 2, unit: "studies are" });
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
            let name = |what: &str| format!("the {what} of study {}", s + 1);
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

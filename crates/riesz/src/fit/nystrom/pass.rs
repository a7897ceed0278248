//! A pass over all rows at coefficients: what a fit asks for until it is done, and all that whoever reads the
//! rows has to know of it.

use std::collections::BTreeSet;

use super::plan::{FitPlan, Model};
use super::residual::{Coefficients, ResidualPass};
use super::rows::LabelledRows;
use super::slope::{LogisticGradient, LogisticGradientBuilder};
use crate::error::{Error, Result};

/// What the rows of some units say of coefficients.
#[derive(Debug, Clone, PartialEq)]
pub enum DataPass {
    /// Of a regression: what they leave of the targets.
    Residual(ResidualPass),
    /// Of a classification: gradient and curvature.
    Slope(LogisticGradient),
}

impl DataPass {
    /// Of no rows.
    pub fn empty(plan: &FitPlan, coefficients: &Coefficients) -> Self {
        match plan.model {
            Model::Classes { .. } => Self::Slope(LogisticGradient::empty(plan, coefficients)),
            _ => Self::Residual(ResidualPass::empty(plan, coefficients)),
        }
    }

    /// Of all of these rows, as one unit. Cost O(rows landmarks columns); of classes O(rows landmarks
    /// (landmarks + columns)).
    ///
    /// # Errors
    /// As [`PassBuilder::add`].
    pub fn of(plan: &FitPlan, coefficients: &Coefficients, rows: &LabelledRows, unit: u64) -> Result<Self> {
        let mut all = PassBuilder::new(plan, coefficients);
        all.add(rows)?;
        Ok(all.finish(unit))
    }

    /// How many rows it counts.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Residual(own) => own.rows(),
            Self::Slope(own) => own.rows(),
        }
    }

    /// The units whose rows it counts.
    pub fn units(&self) -> &BTreeSet<u64> {
        match self {
            Self::Residual(own) => own.units(),
            Self::Slope(own) => own.units(),
        }
    }

    /// Adds that of other units.
    ///
    /// # Errors
    /// [`Error::Format`] if it is of another plan or other coefficients, or a unit is in both.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        match (self, other) {
            (Self::Residual(own), Self::Residual(other)) => own.merge(other),
            (Self::Slope(own), Self::Slope(other)) => own.merge(other),
            _ => Err(Error::Format { problem: "these passes are of another kind of model".into() }),
        }
    }

    /// As a file. The same passes have the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Residual(own) => own.to_bytes(),
            Self::Slope(own) => own.to_bytes(),
        }
    }

    /// From a file, by the plan and coefficients that it should be of.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of others.
    pub fn from_bytes(plan: &FitPlan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        Ok(match plan.model {
            Model::Classes { .. } => Self::Slope(LogisticGradient::from_bytes(plan, coefficients, bytes)?),
            _ => Self::Residual(ResidualPass::from_bytes(plan, coefficients, bytes)?),
        })
    }
}

/// A pass over rows that come one part after the other; of parts of any size it is the same.
pub struct PassBuilder<'p> {
    plan: &'p FitPlan,
    coefficients: &'p Coefficients,
    so_far: PassState<'p>,
}

enum PassState<'p> {
    Residual(ResidualPass),
    Slope(Box<LogisticGradientBuilder<'p>>),
}

impl<'p> PassBuilder<'p> {
    /// Of no rows yet.
    pub fn new(plan: &'p FitPlan, coefficients: &'p Coefficients) -> Self {
        let so_far = match plan.model {
            Model::Classes { .. } => {
                PassState::Slope(Box::new(LogisticGradientBuilder::new(plan, coefficients)))
            }
            _ => PassState::Residual(ResidualPass::empty(plan, coefficients)),
        };
        Self { plan, coefficients, so_far }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// As [`Accumulator::add`](super::Accumulator::add); [`Error::Overflow`] where predictions are far beyond
    /// the targets; [`Error::Target`] for classes that are not 0 and 1.
    pub fn add(&mut self, rows: &LabelledRows) -> Result<()> {
        match &mut self.so_far {
            PassState::Residual(own) => own.add(self.plan, self.coefficients, rows),
            PassState::Slope(own) => own.add(rows),
        }
    }

    /// The pass over all of them, as that of one unit.
    pub fn finish(self, unit: u64) -> DataPass {
        match self.so_far {
            PassState::Residual(own) => DataPass::Residual(own.of_unit(unit)),
            PassState::Slope(own) => DataPass::Slope(own.finish(unit)),
        }
    }
}

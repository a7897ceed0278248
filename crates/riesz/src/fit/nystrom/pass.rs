//! A pass over all rows at coefficients: what a fit asks for until it is done, and all that whoever reads the
//! rows has to know of it.

use std::collections::BTreeSet;

use super::plan::{Model, Plan};
use super::residual::{Coefficients, Residual};
use super::rows::Rows;
use super::slope::{Slope, Sloping};
use crate::error::{Error, Result};

/// What the rows of some units say of coefficients.
#[derive(Debug, Clone, PartialEq)]
pub enum Pass {
    /// Of a regression: what they leave of the targets.
    Residual(Residual),
    /// Of a classification: gradient and curvature.
    Slope(Slope),
}

impl Pass {
    /// Of no rows.
    pub fn empty(plan: &Plan, coefficients: &Coefficients) -> Self {
        match plan.model {
            Model::Classes { .. } => Self::Slope(Slope::empty(plan, coefficients)),
            _ => Self::Residual(Residual::empty(plan, coefficients)),
        }
    }

    /// Of all of these rows, as one unit. Cost O(rows landmarks columns); of classes O(rows landmarks
    /// (landmarks + columns)).
    ///
    /// # Errors
    /// As [`Measuring::add`].
    pub fn of(plan: &Plan, coefficients: &Coefficients, rows: &Rows, unit: u64) -> Result<Self> {
        let mut all = Measuring::new(plan, coefficients);
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
    pub fn from_bytes(plan: &Plan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        Ok(match plan.model {
            Model::Classes { .. } => Self::Slope(Slope::from_bytes(plan, coefficients, bytes)?),
            _ => Self::Residual(Residual::from_bytes(plan, coefficients, bytes)?),
        })
    }
}

/// A pass over rows that come one part after the other; of parts of any size it is the same.
pub struct Measuring<'p> {
    plan: &'p Plan,
    coefficients: &'p Coefficients,
    so_far: SoFar<'p>,
}

enum SoFar<'p> {
    Residual(Residual),
    Slope(Box<Sloping<'p>>),
}

impl<'p> Measuring<'p> {
    /// Of no rows yet.
    pub fn new(plan: &'p Plan, coefficients: &'p Coefficients) -> Self {
        let so_far = match plan.model {
            Model::Classes { .. } => SoFar::Slope(Box::new(Sloping::new(plan, coefficients))),
            _ => SoFar::Residual(Residual::empty(plan, coefficients)),
        };
        Self { plan, coefficients, so_far }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// As [`Accumulator::add`](super::Accumulator::add); [`Error::Overflow`] where predictions are far beyond
    /// the targets; [`Error::Target`] for classes that are not 0 and 1.
    pub fn add(&mut self, rows: &Rows) -> Result<()> {
        match &mut self.so_far {
            SoFar::Residual(own) => own.add(self.plan, self.coefficients, rows),
            SoFar::Slope(own) => own.add(rows),
        }
    }

    /// The pass over all of them, as that of one unit.
    pub fn finish(self, unit: u64) -> Pass {
        match self.so_far {
            SoFar::Residual(own) => Pass::Residual(own.of_unit(unit)),
            SoFar::Slope(own) => Pass::Slope(own.finish(unit)),
        }
    }
}

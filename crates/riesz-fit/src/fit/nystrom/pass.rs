//! Passes over all rows at given coefficients. A fit requests passes until it is finished.

use std::collections::BTreeSet;
use std::mem::discriminant;

use super::coefficients::Coefficients;
use super::pass_sums::PassSums;
use super::plan::{FitPlan, Model};
use super::residual::ResidualPass;
use super::rows::LabelledRows;
use super::slope::{LogisticGradient, LogisticGradientBuilder};
use crate::error::{Error, Result};

/// The result of a pass over the rows of some units.
#[derive(Debug, Clone, PartialEq)]
pub enum DataPass {
    /// Regression: the residual of the normal equations.
    Residual(ResidualPass),
    /// Classification: gradient, loss and curvature.
    Slope(LogisticGradient),
}

impl DataPass {
    /// A pass over no rows.
    pub fn empty(plan: &FitPlan, coefficients: &Coefficients) -> Self {
        match plan.model {
            Model::Classes { .. } => Self::Slope(LogisticGradient::empty(plan, coefficients)),
            _ => Self::Residual(ResidualPass::empty(plan, coefficients)),
        }
    }

    /// The pass over these rows as one unit. Cost O(rows landmarks columns); for classes O(rows landmarks
    /// (landmarks + columns)).
    ///
    /// # Errors
    /// Those of [`PassBuilder::add`].
    pub fn from_rows(
        plan: &FitPlan,
        coefficients: &Coefficients,
        rows: &LabelledRows,
        unit: u64,
    ) -> Result<Self> {
        let mut builder = PassBuilder::new(plan, coefficients);
        builder.add(rows)?;
        Ok(builder.finish(unit))
    }

    pub(super) fn sums(&self) -> &PassSums {
        let (Self::Residual(ResidualPass(sums)) | Self::Slope(LogisticGradient(sums))) = self;
        sums
    }

    fn sums_mut(&mut self) -> &mut PassSums {
        let (Self::Residual(ResidualPass(sums)) | Self::Slope(LogisticGradient(sums))) = self;
        sums
    }

    /// The number of rows in the pass.
    pub fn rows(&self) -> u64 {
        self.sums().record.rows
    }

    /// The units whose rows are in the pass.
    pub fn units(&self) -> &BTreeSet<u64> {
        &self.sums().record.units
    }

    /// Adds the pass over other units.
    ///
    /// # Errors
    /// [`Error::Format`] if the other pass has another plan or other coefficients, or both contain the same
    /// unit.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if discriminant(self) != discriminant(other) {
            return Err(Error::format("these passes belong to another kind of model"));
        }
        self.sums_mut().merge(other.sums())
    }

    /// The bytes of the pass as a file. Equal passes have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.sums().to_bytes()
    }

    /// Reads a pass from the bytes of a file, given the plan and the coefficients to which it must belong.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file, or one of another plan or of other coefficients.
    pub fn from_bytes(plan: &FitPlan, coefficients: &Coefficients, bytes: &[u8]) -> Result<Self> {
        let mut pass = Self::empty(plan, coefficients);
        pass.sums_mut().read(bytes)?;
        Ok(pass)
    }
}

/// Accumulates a pass over rows that come in parts. The size of the parts doesn't change the result.
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
    /// A builder without rows.
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
    /// Those of [`Accumulator::add`](super::Accumulator::add); [`Error::Overflow`] where predictions are far
    /// beyond the targets; [`Error::Target`] for classes other than 0 and 1.
    pub fn add(&mut self, rows: &LabelledRows) -> Result<()> {
        match &mut self.so_far {
            PassState::Residual(residual) => residual.add(self.plan, self.coefficients, rows),
            PassState::Slope(gradient) => gradient.add(rows),
        }
    }

    /// The pass over all rows that were added, as that of one unit.
    pub fn finish(self, unit: u64) -> DataPass {
        match self.so_far {
            PassState::Residual(residual) => DataPass::Residual(residual.of_unit(unit)),
            PassState::Slope(gradient) => DataPass::Slope(gradient.finish(unit)),
        }
    }
}

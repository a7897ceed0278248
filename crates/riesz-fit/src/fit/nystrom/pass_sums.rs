//! Integer sums of a pass over the rows of some units, their addition and their files. Passes of residuals
//! and of gradients share them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::coefficients::Coefficients;
use super::parts::{add_lists, add_units, decode, encode};
use super::plan::FitPlan;
use crate::error::{Error, Result};

/// The first line of a file of a pass. The digest of the plan is named by the kind of the pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PassRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    residual: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slope: Option<String>,
    coefficients: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    targets: Option<usize>,
    pub units: BTreeSet<u64>,
    pub rows: u64,
}

/// Integer sums over the rows of some units, in a pass with a plan at some coefficients. The three lists are
/// the sums of three quantities.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PassSums {
    pub record: PassRecord,
    pub lists: [Vec<i128>; 3],
}

impl PassSums {
    /// Sums of residuals over no rows.
    pub fn residual(plan: &FitPlan, coefficients: &Coefficients, lists: [Vec<i128>; 3]) -> Self {
        let mut sums = Self::slope(plan, coefficients, lists);
        sums.record.residual = sums.record.slope.take();
        sums.record.targets = Some(plan.targets.len());
        sums
    }

    /// Sums of gradients over no rows.
    pub fn slope(plan: &FitPlan, coefficients: &Coefficients, lists: [Vec<i128>; 3]) -> Self {
        let record = PassRecord {
            residual: None,
            slope: Some(plan.digest()),
            coefficients: coefficients.digest(),
            targets: None,
            units: BTreeSet::new(),
            rows: 0,
        };
        Self { record, lists }
    }

    /// Assigns the rows that were added so far to a unit.
    pub fn set_unit(&mut self, unit: u64) {
        self.record.units = BTreeSet::from([unit]);
    }

    /// The name of the sums in messages.
    fn name(&self) -> &'static str {
        if self.record.residual.is_some() { "residuals" } else { "gradients" }
    }

    /// Checks that other sums have the same plan and coefficients, and as many numbers.
    fn check_same_pass(&self, other: &PassRecord, sizes_match: bool) -> Result<()> {
        let pass = |r: &PassRecord| (r.residual.clone(), r.slope.clone(), r.coefficients.clone(), r.targets);
        if pass(&self.record) == pass(other) && sizes_match {
            return Ok(());
        }
        let name = self.name();
        Err(Error::format(format!("these {name} belong to another plan or to other coefficients")))
    }

    /// Adds the sums of other units.
    ///
    /// # Errors
    /// [`Error::Format`] if the other one has another plan or other coefficients, or both contain the same
    /// unit.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.check_same_pass(&other.record, true)?;
        let name = self.name();
        add_units(&mut self.record.units, &other.record.units, name)?;
        self.record.rows += other.record.rows;
        add_lists(&mut self.lists, &other.lists);
        Ok(())
    }

    /// The bytes of the sums as a file. Equal sums have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(&self.record, &self.lists.each_ref().map(Vec::as_slice))
    }

    /// Reads a file of sums into these sums of no rows.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file, or one of another plan or of other coefficients.
    pub fn read(&mut self, bytes: &[u8]) -> Result<()> {
        let file_kind = if self.record.residual.is_some() { "residuals" } else { "slopes" };
        let (record, numbers) = decode::<PassRecord>(bytes, file_kind)?;
        self.check_same_pass(&record, numbers.len() == self.lists.iter().map(Vec::len).sum::<usize>())?;
        self.lists.iter_mut().flatten().zip(numbers).for_each(|(sum, number)| *sum = number);
        self.record = record;
        Ok(())
    }
}

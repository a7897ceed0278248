//! Files of integers: one line of JSON that describes them, the numbers, and a checksum of both.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::plan::FitPlan;
use super::residual::Coefficients;
use crate::error::{Error, Result};

/// Length of the checksum in bytes.
const CHECKSUM: usize = 32;

/// SHA-256 of the bytes in hexadecimal digits, which serves as their name.
pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a file with this record and these numbers. Each number has 8 bytes if all fit, else 16.
pub(super) fn encode<H: Serialize>(record: &H, numbers: &[&[i128]]) -> Vec<u8> {
    let all_numbers = || numbers.iter().flat_map(|part| part.iter());
    let narrow = all_numbers().all(|v| i64::try_from(*v).is_ok());
    let mut out = serde_json::to_vec(&(record, narrow)).unwrap_or_default();
    out.push(b'\n');
    match narrow {
        true => all_numbers().for_each(|v| out.extend_from_slice(&(*v as i64).to_le_bytes())),
        false => all_numbers().for_each(|v| out.extend_from_slice(&v.to_le_bytes())),
    }
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    out
}

/// Reads the record and the numbers; `file_kind` names the expected contents of the file.
///
/// # Errors
/// [`Error::Format`] for a file of another kind or a damaged one.
pub(super) fn decode<H: DeserializeOwned>(bytes: &[u8], file_kind: &str) -> Result<(H, Vec<i128>)> {
    let problem =
        |why: &str| Error::format(format!("this is not a file of {file_kind}, or it is damaged: {why}"));
    let end = bytes.len().checked_sub(CHECKSUM).ok_or_else(|| problem("it is too short"))?;
    let (body, checksum) = bytes.split_at(end);
    if Sha256::digest(body).as_slice() != checksum {
        return Err(problem("its checksum is wrong; remove the file, and riesz makes it again"));
    }
    let line = body.iter().position(|b| *b == b'\n').ok_or_else(|| problem("it has no first line"))?;
    let (record, narrow): (H, bool) = serde_json::from_slice(&body[..line])
        .map_err(|e| problem(&format!("its first line is not valid: {e}")))?;
    let body = &body[line + 1..];
    if body.len() % if narrow { 8 } else { 16 } != 0 {
        return Err(problem("it ends within a number"));
    }
    let numbers = match narrow {
        true => body.as_chunks::<8>().0.iter().map(|v| i64::from_le_bytes(*v).into()).collect(),
        false => body.as_chunks::<16>().0.iter().map(|v| i128::from_le_bytes(*v)).collect(),
    };
    Ok((record, numbers))
}

/// Adds `other` to a set of units. `sums` names the sums over their rows.
///
/// # Errors
/// [`Error::Format`] if both sets contain the same unit.
pub(super) fn add_units(units: &mut BTreeSet<u64>, other: &BTreeSet<u64>, sums: &str) -> Result<()> {
    if let Some(twice) = units.intersection(other).next() {
        return Err(Error::format(format!("unit {twice} is in both {sums}, and its rows would count twice")));
    }
    units.extend(other);
    Ok(())
}

/// Adds the integers one by one.
pub(super) fn add_integers(sums: &mut [i128], other: &[i128]) {
    sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
}

/// The first line of a file of a pass. The digest of the plan is named by the kind of the pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PassRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    residual: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slope: Option<String>,
    coefficients: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    targets: Option<usize>,
    units: BTreeSet<u64>,
    rows: u64,
}

/// Integer sums over the rows of some units, in a pass with a plan at some coefficients. The three lists are
/// the sums of three quantities.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PassSums {
    record: PassRecord,
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

    pub fn units(&self) -> &BTreeSet<u64> {
        &self.record.units
    }

    pub fn rows(&self) -> u64 {
        self.record.rows
    }

    /// Counts further rows.
    pub fn add_rows(&mut self, rows: usize) {
        self.record.rows += rows as u64;
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
        self.lists.iter_mut().zip(&other.lists).for_each(|(sums, other)| add_integers(sums, other));
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
    pub fn read(mut self, bytes: &[u8], file_kind: &str) -> Result<Self> {
        let (record, numbers) = decode::<PassRecord>(bytes, file_kind)?;
        self.check_same_pass(&record, numbers.len() == self.lists.iter().map(Vec::len).sum::<usize>())?;
        let mut numbers = numbers.into_iter();
        self.lists.iter_mut().flatten().for_each(|sum| *sum = numbers.next().unwrap_or(0));
        self.record = record;
        Ok(self)
    }
}

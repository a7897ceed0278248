//! Files of integers: one line of JSON that describes them, the numbers, and a checksum of both.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

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

/// Adds lists of integers one by one.
pub(super) fn add_lists(sums: &mut [Vec<i128>; 3], other: &[Vec<i128>; 3]) {
    sums.iter_mut().zip(other).for_each(|(sums, other)| add_integers(sums, other));
}

/// Adds the integers one by one.
pub(super) fn add_integers(sums: &mut [i128], other: &[i128]) {
    sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
}

//! The survey: a first pass over the rows that counts them, finds their ranges, and draws a sample from which
//! landmarks, units and length scales are chosen.

use serde::{Deserialize, Serialize};

use super::parts::{decode, digest, encode};
use super::rows::LabelledRows;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::{Column, Table};

/// Constant that is combined with the user's seed to give the seed of the sample.
const SEED: u64 = 0x7a3d_51c9;

/// Counts, ranges and a sample of the rows, which may come in any parts and any order. The sample consists of
/// the rows whose contents have the smallest hashes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataSurvey {
    columns: Vec<Column>,
    targets: usize,
    weighted: bool,
    /// The maximum number of rows in the sample.
    limit: usize,
    seed: u64,
    /// The number of rows so far.
    pub rows: u64,
    /// The minimum and the maximum of each target.
    pub ranges: Vec<(f64, f64)>,
    /// The largest weight; 0 without weights.
    pub largest_weight: f64,
    /// The largest value of the kernel between a row and itself, over the rows of
    /// [`add_kernel`](Self::add_kernel).
    pub largest_kernel: f64,
    /// The rows of the sample, in the order of their hashes: features, targets, weight.
    kept: Vec<(u64, Vec<f64>)>,
}

impl DataSurvey {
    /// An empty survey of rows with these features and number of targets, whose sample has at most `limit`
    /// rows.
    pub fn new(columns: &[Column], targets: usize, weighted: bool, limit: usize, seed: u64) -> Self {
        Self {
            columns: columns.to_vec(),
            targets,
            weighted,
            limit: limit.max(1),
            seed,
            rows: 0,
            ranges: vec![(f64::INFINITY, f64::NEG_INFINITY); targets],
            largest_weight: 0.0,
            largest_kernel: 0.0,
            kept: Vec::new(),
        }
    }

    /// Adds rows to the survey. Cost O(rows columns).
    ///
    /// # Errors
    /// [`Error::Shape`] if their columns, number of targets or presence of weights differ.
    pub fn add(&mut self, rows: &LabelledRows) -> Result<()> {
        if rows.x.columns() != self.columns
            || rows.y.cols() != self.targets
            || rows.weights.is_some() != self.weighted
        {
            return Err(mismatch("these rows", self.columns.len(), rows.x.width()));
        }
        self.rows += rows.len() as u64;
        for (t, (low, high)) in self.ranges.iter_mut().enumerate() {
            (0..rows.len()).map(|i| rows.y[(i, t)]).for_each(|v| (*low, *high) = (low.min(v), high.max(v)));
        }
        let largest = rows.weights.iter().flatten().copied().fold(0.0, f64::max);
        self.largest_weight = self.largest_weight.max(largest);
        // Only a row whose hash is at most that of the last kept row can enter the sample.
        let last_hash =
            if self.kept.len() < self.limit { u64::MAX } else { self.kept[self.kept.len() - 1].0 };
        let hashes = rows.hashes(self.seed ^ SEED);
        let new = hashes.iter().enumerate().filter(|(_, hash)| **hash <= last_hash);
        self.kept.extend(new.map(|(i, hash)| (*hash, rows.row_values(i).map(|v| v + 0.0).collect())));
        self.keep();
        Ok(())
    }

    /// Updates the largest kernel value between a row and itself. Cost O(rows columns).
    pub fn add_kernel(&mut self, kernel: &Kernel, x: &Table) {
        self.largest_kernel = kernel.diagonal(x).into_iter().fold(self.largest_kernel, f64::max);
    }

    /// Merges the survey of other rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if its columns, targets, weights, limit or seed differ.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        let like = |s: &Self| (s.columns.clone(), s.targets, s.weighted, s.limit, s.seed);
        if like(self) != like(&other) {
            return Err(mismatch("the other survey", self.columns.len(), other.columns.len()));
        }
        self.rows += other.rows;
        for (range, other) in self.ranges.iter_mut().zip(&other.ranges) {
            *range = (range.0.min(other.0), range.1.max(other.1));
        }
        self.largest_weight = self.largest_weight.max(other.largest_weight);
        self.largest_kernel = self.largest_kernel.max(other.largest_kernel);
        self.kept.extend(other.kept);
        self.keep();
        Ok(())
    }

    fn keep(&mut self) {
        // Equal rows have equal hashes. Unequal rows with the same hash are ordered by their values.
        let order = |a: &(u64, Vec<f64>), b: &(u64, Vec<f64>)| {
            let numbers = || a.1.iter().zip(&b.1).map(|(x, y)| x.total_cmp(y));
            a.0.cmp(&b.0).then_with(|| numbers().find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal))
        };
        self.kept.sort_unstable_by(order);
        self.kept.truncate(self.limit);
    }

    /// The bytes of the survey as a file. Equal surveys have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let record =
            Self { columns: self.columns.clone(), ranges: self.ranges.clone(), kept: Vec::new(), ..*self };
        let row = |(hash, numbers): &(u64, Vec<f64>)| {
            let bits = numbers.iter().map(|v| v.to_bits());
            std::iter::once(*hash).chain(bits).map(|bits| i128::from(bits as i64)).collect::<Vec<i128>>()
        };
        encode(&record, &[&self.kept.iter().flat_map(row).collect::<Vec<i128>>()])
    }

    /// Reads a survey from the bytes of a file.
    ///
    /// # Errors
    /// [`Error::Format`] for a file of another kind or a damaged one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (mut loaded, numbers) = decode::<Self>(bytes, "a survey")?;
        let width = 1 + loaded.columns.len() + loaded.targets + usize::from(loaded.weighted);
        let row = |values_of_row: &[i128]| {
            let bits = |v: &i128| *v as i64 as u64;
            (bits(&values_of_row[0]), values_of_row[1..].iter().map(|v| f64::from_bits(bits(v))).collect())
        };
        loaded.kept = numbers.chunks_exact(width).map(row).collect();
        Ok(loaded)
    }

    /// SHA-256 of the survey, which serves as its name.
    pub fn digest(&self) -> String {
        digest(&self.to_bytes())
    }

    /// The number of rows in the sample.
    pub fn sampled(&self) -> usize {
        self.kept.len()
    }

    /// The rows of the sample. They don't depend on the order of all rows, nor on the parts in which they
    /// were added.
    ///
    /// # Errors
    /// [`Error::TooFew`] if no row was added.
    pub fn sample(&self) -> Result<LabelledRows> {
        let (d, t, n) = (self.columns.len(), self.targets, self.kept.len());
        if n == 0 {
            return Err(Error::too_few("the data", 1, "row is"));
        }
        let column = |j: usize| self.kept.iter().map(move |(_, row)| row[j]);
        let x = Table::from_column_major(self.columns.clone(), n, (0..d).flat_map(column).collect())?;
        let y = self.kept.iter().flat_map(|(_, row)| row[d..d + t].iter().copied()).collect();
        LabelledRows::new(x, Matrix::from_row_major(n, t, y), self.weighted.then(|| column(d + t).collect()))
    }
}

fn mismatch(subject: &str, expected: usize, width: usize) -> Error {
    let why = "the same columns, targets, weights and seed as the rows before";
    Error::shape(subject, "columns", expected, width, why)
}

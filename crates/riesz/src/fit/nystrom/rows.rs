//! Rows with their targets and weights, and a hash of each row that depends on nothing but its contents.

use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::random::hash;
use crate::table::{Column, ColumnKind, Table};

/// Some of the rows that a model is fitted to.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledRows {
    /// Features.
    pub x: Table,
    /// Targets, rows × targets.
    pub y: Matrix,
    /// Weights, one a row; `None` for equal ones.
    pub weights: Option<Vec<f64>>,
}

impl LabelledRows {
    /// Checks that all are of the same rows and finite, and weights positive.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::NotFinite`], [`Error::Parameter`].
    pub fn new(x: Table, y: Matrix, weights: Option<Vec<f64>>) -> Result<Self> {
        super::super::check(&x, y.rows(), 1)?;
        if let Some(position) = y.data().iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite {
                row: position / y.cols(),
                column: "target".into(),
                value: y.data()[position],
            });
        }
        if let Some(weights) = &weights {
            super::super::check(&x, weights.len(), 1)?;
            if let Some(bad) = weights.iter().find(|w| !(w.is_finite() && **w > 0.0)) {
                return Err(Error::parameter("sample_weight", bad, "weights are positive numbers"));
            }
        }
        Ok(Self { x, y, weights })
    }

    /// The first `count` rows, or all if there are fewer.
    pub fn head(&self, count: usize) -> Self {
        let first_rows: Vec<usize> = (0..self.len().min(count)).collect();
        let weights = self.weights.as_ref().map(|w| w[..first_rows.len()].to_vec());
        Self { x: self.x.select_rows(&first_rows), y: self.y.select_rows(&first_rows), weights }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.x.rows()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of row `i`: features, targets, weight.
    pub(super) fn row_values(&self, i: usize) -> impl Iterator<Item = f64> {
        let features = (0..self.x.width()).map(move |j| self.x.get(i, j));
        features.chain(self.y.row(i).iter().copied()).chain(self.weights.as_ref().map(|w| w[i]))
    }

    /// A hash of each row that depends on its contents and a seed alone: levels count by their names, and -0
    /// is 0.
    pub(super) fn hashes(&self, seed: u64) -> Vec<u64> {
        let names: Vec<Option<Vec<u64>>> = self.x.columns().iter().map(level_hashes).collect();
        let hash_of_row = |i: usize| {
            let numbers = self.row_values(i).enumerate().map(|(j, v)| match names.get(j) {
                Some(Some(levels)) => levels[v as usize],
                _ => (v + 0.0).to_bits(),
            });
            hash(std::iter::once(seed).chain(numbers))
        };
        (0..self.len()).map(hash_of_row).collect()
    }
}

/// Hashes of the levels of a categorical column.
fn level_hashes(column: &Column) -> Option<Vec<u64>> {
    let hash_of_level = |level: &String| hash(level.bytes().map(u64::from));
    match &column.kind {
        ColumnKind::Categorical { levels } => Some(levels.iter().map(hash_of_level).collect()),
        ColumnKind::Numeric => None,
    }
}

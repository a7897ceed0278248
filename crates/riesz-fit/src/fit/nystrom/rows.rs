//! Rows with their targets and weights, and a hash of each row that depends only on its contents.

use crate::error::Result;
use crate::linalg::Matrix;
use crate::random::hash;
use crate::table::{Column, ColumnKind, Table};

/// Rows with targets, to which a model is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledRows {
    /// Features.
    pub x: Table,
    /// Targets, rows × targets.
    pub y: Matrix,
    /// Weights, one per row; `None` for equal weights.
    pub weights: Option<Vec<f64>>,
}

impl LabelledRows {
    /// Checks that all parts have the same number of rows, that values are finite and weights positive.
    ///
    /// # Errors
    /// [`Error::Shape`](riesz_core::Error::Shape), [`Error::NotFinite`](riesz_core::Error::NotFinite),
    /// [`Error::Parameter`](riesz_core::Error::Parameter).
    pub fn new(x: Table, y: Matrix, weights: Option<Vec<f64>>) -> Result<Self> {
        crate::checks::check_rows(&x, y.rows(), 1)?;
        crate::checks::check_targets(&y)?;
        crate::checks::check_positive_weights(&x, weights.as_deref(), 1)?;
        Ok(Self { x, y, weights })
    }

    /// The first `count` rows, or all if there are fewer.
    pub fn head(&self, count: usize) -> Self {
        let x = self.x.head(count);
        let weights = self.weights.as_ref().map(|w| w[..x.rows()].to_vec());
        Self { y: self.y.first_rows(x.rows()), x, weights }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.x.rows()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of row `i`: features, targets, weight.
    pub(super) fn row_values(&self, i: usize) -> impl Iterator<Item = f64> {
        let features = (0..self.x.width()).map(move |j| self.x.get(i, j));
        features.chain(self.y.row(i).iter().copied()).chain(self.weights.as_ref().map(|w| w[i]))
    }

    /// A hash of each row that depends only on its contents and the seed. Levels of categorical columns enter
    /// by their names, and -0 equals 0.
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

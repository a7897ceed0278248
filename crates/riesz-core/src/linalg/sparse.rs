//! Sparse matrices in compressed column format.

use rayon::prelude::*;

use super::{Matrix, add_multiple};
use crate::error::{Error, Result, sized};

/// A sparse matrix in compressed column format: for each column the rows with entries, and the entries'
/// weights. Rows may repeat; their weights are added.
#[derive(Debug, Clone, PartialEq)]
pub struct Sparse {
    rows: usize,
    starts: Vec<usize>,
    row_indices: Vec<usize>,
    weights: Vec<f64>,
}

impl Sparse {
    /// Builds the matrix from the three arrays of the format. Column j has the entries
    /// `starts[j]..starts[j + 1]` of `row_indices` and `weights`. These are scipy's `indptr`,
    /// `indices` and `data`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths of the arrays do not match; [`Error::Parameter`] for row indices that
    /// are not below `rows`, and weights that are not finite.
    pub fn new(rows: usize, starts: Vec<usize>, row_indices: Vec<usize>, weights: Vec<f64>) -> Result<Self> {
        let count = starts.last().copied().unwrap_or_default();
        for (name, actual) in
            [("the list of places", row_indices.len()), ("the list of weights", weights.len())]
        {
            sized(name, "numbers", count, actual, "the end of the last column")?;
        }
        if starts.first() != Some(&0) || starts.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(Error::parameter("starts", "out of order", "they begin with 0 and never decrease"));
        }
        if let Some(row) = row_indices.iter().find(|row| **row >= rows) {
            let allowed = format!("there are {rows} rows, counted from 0");
            return Err(Error::parameter("row", row, allowed));
        }
        if let Some(weight) = weights.iter().find(|weight| !weight.is_finite()) {
            return Err(Error::parameter("weight", weight, "weights are finite numbers"));
        }
        Ok(Self { rows, starts, row_indices, weights })
    }

    /// Builds the matrix from its columns, each a list of row indices and weights.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_columns<C: IntoIterator<Item = (usize, f64)>>(
        rows: usize,
        columns: impl IntoIterator<Item = C>,
    ) -> Result<Self> {
        let (mut starts, mut row_indices, mut weights) = (vec![0], Vec::new(), Vec::new());
        for column in columns {
            let (column_rows, column_weights): (Vec<usize>, Vec<f64>) = column.into_iter().unzip();
            row_indices.extend(column_rows);
            weights.extend(column_weights);
            starts.push(row_indices.len());
        }
        Self::new(rows, starts, row_indices, weights)
    }

    /// The diagonal matrix with these numbers.
    pub fn diagonal(weights: Vec<f64>) -> Self {
        let n = weights.len();
        Self { rows: n, starts: (0..=n).collect(), row_indices: (0..n).collect(), weights }
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[inline]
    pub fn cols(&self) -> usize {
        self.starts.len() - 1
    }

    /// The three arrays, as in [`new`](Self::new).
    #[inline]
    pub fn raw_parts(&self) -> (&[usize], &[usize], &[f64]) {
        (&self.starts, &self.row_indices, &self.weights)
    }

    /// The entries of column `j` as row indices and weights.
    #[inline]
    pub fn column(&self, j: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.starts[j]..self.starts[j + 1];
        self.row_indices[range.clone()].iter().copied().zip(self.weights[range].iter().copied())
    }

    /// The sum of the weights of each column.
    pub fn column_sums(&self) -> Vec<f64> {
        (0..self.cols()).map(|j| self.column(j).map(|(_, weight)| weight).sum()).collect()
    }

    /// The product `selfᵀ dense`.
    ///
    /// # Panics
    /// If the numbers of rows differ.
    pub fn transpose_times(&self, dense: &Matrix) -> Matrix {
        assert_eq!(self.rows, dense.rows(), "inner sizes differ");
        let width = dense.cols();
        let mut out = Matrix::zeros(self.cols(), width);
        out.data_mut().par_chunks_mut(width.max(1)).enumerate().for_each(|(j, sums)| {
            for (i, weight) in self.column(j) {
                add_multiple(sums, weight, dense.row(i));
            }
        });
        out
    }

    /// The product `self dense`.
    ///
    /// # Panics
    /// If the number of rows of `dense` differs from the number of columns of this matrix.
    pub fn matmul(&self, dense: &Matrix) -> Matrix {
        assert_eq!(self.cols(), dense.rows(), "inner sizes differ");
        let mut out = Matrix::zeros(self.rows, dense.cols());
        for j in 0..self.cols() {
            for (i, weight) in self.column(j) {
                add_multiple(out.row_mut(i), weight, dense.row(j));
            }
        }
        out
    }
}

//! The rows of a sample, in a layout for kernel factors that process whole lanes.

use std::ops::Range;

use crate::kernel::{ColumnRanges, Columns};
use crate::simd::LANES;
use crate::table::Table;

/// Rows, column-major, padded to a multiple of the lanes by repeating the last row.
#[derive(Clone)]
pub(super) struct Points {
    data: Vec<f64>,
    stride: usize,
    rows: usize,
    width: usize,
}

impl Points {
    pub(super) fn new(table: &Table) -> Self {
        let (n, d) = (table.rows(), table.width());
        let stride = n.next_multiple_of(LANES);
        let mut data = vec![0.0; stride * d];
        for (column, out) in (0..d).map(|j| table.column(j)).zip(data.chunks_exact_mut(stride.max(1))) {
            out[..n].copy_from_slice(column);
            out[n..].fill(column[n - 1]);
        }
        Self { data, stride, rows: n, width: d }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of rows with the padding.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    pub(super) fn row(&self, i: usize) -> Vec<f64> {
        (0..self.width).map(|j| self.data[j * self.stride + i]).collect()
    }

    pub(super) fn columns(&self, range: &Range<usize>) -> Columns<'_> {
        Columns::new(&self.data, self.stride, range.start, range.len())
    }

    /// Returns the rows with the padding, column by column.
    pub(super) fn all_rows(&self) -> Columns<'_> {
        self.columns(&(0..self.stride))
    }

    /// Returns the ranges of the columns on both sides of a pair of rows.
    pub(super) fn ranges(&self) -> ColumnRanges {
        let rows = ColumnRanges::per_column(self.all_rows(), self.width);
        ColumnRanges { u: rows.clone(), v: rows }
    }

    /// Appends the rows with the given indices to `out`, column-major.
    pub(super) fn gather(&self, indices: &[u32], out: &mut Vec<f64>) {
        for j in 0..self.width {
            let column = &self.data[j * self.stride..(j + 1) * self.stride];
            out.extend(indices.iter().map(|&i| column[i as usize]));
        }
    }
}

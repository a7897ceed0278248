//! Operations on the entries of matrices and lists.

use std::ops::Range;

use crate::linalg::Matrix;

/// Returns the smallest and the largest value.
pub(super) fn min_max(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

/// Returns the matrix with these columns of `rows` numbers each.
pub(super) fn from_columns(rows: usize, columns: &[Vec<f64>]) -> Matrix {
    let values = (0..rows).flat_map(|i| columns.iter().map(move |column| column[i])).collect();
    Matrix::from_row_major(rows, columns.len(), values)
}

/// Returns a matrix whose entries are all 1.
pub(super) fn ones(rows: usize, cols: usize) -> Matrix {
    Matrix::from_row_major(rows, cols, vec![1.0; rows * cols])
}

/// Returns some rows and columns of a matrix.
pub(super) fn block(matrix: &Matrix, rows: Range<usize>, cols: Range<usize>) -> Matrix {
    let (height, width) = (rows.len(), cols.len());
    let values = rows.flat_map(|i| &matrix.row(i)[cols.clone()]).copied().collect();
    Matrix::from_row_major(height, width, values)
}

/// Returns a matrix with the columns of two matrices, which have equally many rows.
pub(super) fn beside(left: &Matrix, right: &Matrix) -> Matrix {
    let values = (0..left.rows()).flat_map(|i| left.row(i).iter().chain(right.row(i))).copied().collect();
    Matrix::from_row_major(left.rows(), left.cols() + right.cols(), values)
}

/// Multiplies each entry by a factor.
pub(super) fn scale(matrix: &mut Matrix, factor: f64) {
    matrix.data_mut().iter_mut().for_each(|v| *v *= factor);
}

/// Divides each entry by a number.
pub(super) fn divide(matrix: &mut Matrix, divisor: f64) {
    matrix.data_mut().iter_mut().for_each(|v| *v /= divisor);
}

/// Adds a number to each entry.
pub(super) fn shift(matrix: &mut Matrix, addend: f64) {
    matrix.data_mut().iter_mut().for_each(|v| *v += addend);
}

/// Multiplies each entry by the entry of another matrix of the same size.
pub(super) fn multiply(matrix: &mut Matrix, factors: &Matrix) {
    matrix.data_mut().iter_mut().zip(factors.data()).for_each(|(v, factor)| *v *= factor);
}

/// Returns the mean of the diagonal.
pub(super) fn mean_diagonal(matrix: &Matrix) -> f64 {
    (0..matrix.rows()).map(|i| matrix[(i, i)]).sum::<f64>() / matrix.rows().max(1) as f64
}

/// Returns `CᵀMC` for the columns C and a matrix M.
pub(super) fn quadratic_form(matrix: &Matrix, columns: &Matrix) -> Matrix {
    columns.transpose_matmul(&matrix.matmul(columns))
}

//! Operations on the entries of matrices and lists.

use crate::linalg::Matrix;

/// Returns the smallest and the largest value.
pub(super) fn min_max(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

/// Returns `CᵀMC` for the columns C and a matrix M.
pub(super) fn quadratic_form(matrix: &Matrix, columns: &Matrix) -> Matrix {
    columns.transpose_matmul(&matrix.matmul(columns))
}

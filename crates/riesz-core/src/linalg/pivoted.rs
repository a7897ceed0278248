//! The pivoted Cholesky factorisation: each step takes the largest remaining diagonal element as its pivot.
//! Covariances of smooth functions rarely need more than a few dozen columns.

use super::Matrix;

/// Pivots and their columns, in the order of the steps, for a symmetric positive semi-definite matrix of `n`
/// rows. The steps end when `enough` returns true for the residual diagonal and the next pivot. The residual
/// diagonal of earlier pivots is -∞. Cost O(n columns²).
pub(super) fn pivoted_cholesky(
    matrix: &[f64],
    n: usize,
    enough: impl Fn(&[f64], usize) -> bool,
) -> Vec<(usize, Vec<f64>)> {
    let mut residual_diagonal: Vec<f64> = (0..n).map(|i| matrix[i * n + i]).collect();
    let mut pivots: Vec<(usize, Vec<f64>)> = Vec::new();
    while pivots.len() < n {
        let Some(pivot) = (0..n).max_by(|&i, &j| residual_diagonal[i].total_cmp(&residual_diagonal[j]))
        else {
            break;
        };
        if residual_diagonal[pivot].is_nan()
            || residual_diagonal[pivot] <= 0.0
            || enough(&residual_diagonal, pivot)
        {
            break;
        }
        let mut column = matrix[pivot * n..(pivot + 1) * n].to_vec();
        for (_, earlier) in &pivots {
            let factor = earlier[pivot];
            column.iter_mut().zip(earlier).for_each(|(c, e)| *c -= factor * e);
        }
        let root = residual_diagonal[pivot].sqrt();
        column.iter_mut().for_each(|c| *c /= root);
        residual_diagonal.iter_mut().zip(&column).for_each(|(l, c)| *l -= c * c);
        residual_diagonal[pivot] = f64::NEG_INFINITY;
        pivots.push((pivot, column));
    }
    pivots
}

/// Columns C such that `C Cᵀ` equals the matrix up to a residual. The trace of the residual is at most the
/// fraction `relative_residual` of the matrix's trace.
pub fn low_rank_factor(matrix: &Matrix, relative_residual: f64) -> Matrix {
    let n = matrix.rows();
    let sum = |diagonal: &[f64]| diagonal.iter().map(|v| v.max(0.0)).sum::<f64>();
    let original: Vec<f64> = matrix.diagonal().collect();
    let enough = relative_residual * sum(&original);
    let pivots = pivoted_cholesky(matrix.data(), n, |residual_diagonal, _| sum(residual_diagonal) <= enough);
    Matrix::from_fn(n, pivots.len(), |i, j| pivots[j].1[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::table::Table;

    /// The residual is positive semi-definite and at most as large as requested. A kernel with few features
    /// needs few columns.
    #[test]
    fn columns_make_up_a_covariance() {
        let x = Table::from_rows(&(0..40).map(|i| [f64::from(i * 7919 % 101) / 30.0]).collect::<Vec<_>>())
            .unwrap();
        let gram = Kernel::gaussian(&[1.0]).gram(&x);
        let column_counts: Vec<usize> = [0.3, 1e-3, 1e-9]
            .map(|relative_residual| {
                let factor = low_rank_factor(&gram, relative_residual);
                let mut residual = gram.clone();
                let approximation = factor.matmul(&factor.transpose());
                residual.data_mut().iter_mut().zip(approximation.data()).for_each(|(v, t)| *v -= t);
                let trace: f64 = (0..40).map(|i| residual[(i, i)]).sum();
                assert!(
                    (-1e-12..=relative_residual * 40.0).contains(&trace),
                    "{trace} of {relative_residual}"
                );
                let (values, _) = crate::linalg::symmetric_eigen(&residual).unwrap();
                assert!(values.iter().all(|v| *v > -1e-9));
                factor.cols()
            })
            .to_vec();
        assert!(
            column_counts[0] < column_counts[1]
                && column_counts[1] < column_counts[2]
                && column_counts[2] < 15,
            "{column_counts:?}"
        );
        assert_eq!(low_rank_factor(&Matrix::zeros(3, 3), 1e-3).cols(), 0);
    }
}

//! The pivoted Cholesky factor: of each step the largest of what is left on the diagonal. Covariances of
//! smooth functions have hardly more than a few dozen columns that count.

use super::Matrix;

/// Pivots and their columns, in the order of steps, of a symmetric positive semi-definite matrix of `n` rows,
/// until `enough` of what is left on the diagonal, with the next pivot, is true; pivots have less than
/// nothing left. Cost O(n columns²).
pub(super) fn pivoted_cholesky(
    matrix: &[f64],
    n: usize,
    enough: impl Fn(&[f64], usize) -> bool,
) -> Vec<(usize, Vec<f64>)> {
    let mut left: Vec<f64> = (0..n).map(|i| matrix[i * n + i]).collect();
    let mut found: Vec<(usize, Vec<f64>)> = Vec::new();
    while found.len() < n {
        let Some(pivot) = (0..n).max_by(|&i, &j| left[i].total_cmp(&left[j])) else { break };
        if left[pivot].is_nan() || left[pivot] <= 0.0 || enough(&left, pivot) {
            break;
        }
        let mut column = matrix[pivot * n..(pivot + 1) * n].to_vec();
        for (_, earlier) in &found {
            let factor = earlier[pivot];
            column.iter_mut().zip(earlier).for_each(|(c, e)| *c -= factor * e);
        }
        let root = left[pivot].sqrt();
        column.iter_mut().for_each(|c| *c /= root);
        left.iter_mut().zip(&column).for_each(|(l, c)| *l -= c * c);
        left[pivot] = f64::NEG_INFINITY;
        found.push((pivot, column));
    }
    found
}

/// Columns C with `C Cᵀ` the matrix but for a rest whose trace is at most `left` of the whole.
pub(crate) fn low_rank_factor(matrix: &Matrix, left: f64) -> Matrix {
    let n = matrix.rows();
    let sum = |rest: &[f64]| rest.iter().map(|v| v.max(0.0)).sum::<f64>();
    let all: Vec<f64> = (0..n).map(|i| matrix[(i, i)]).collect();
    let enough = left * sum(&all);
    let found = pivoted_cholesky(matrix.data(), n, |rest, _| sum(rest) <= enough);
    let values = (0..n).flat_map(|i| found.iter().map(move |(_, own)| own[i])).collect();
    Matrix::from_row_major(n, found.len(), values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::table::Table;

    /// What is left is positive semi-definite, and no more than was asked for; of a kernel of few features
    /// there are few columns.
    #[test]
    fn columns_make_up_a_covariance() {
        let x = Table::from_rows(&(0..40).map(|i| [f64::from(i * 7919 % 101) / 30.0]).collect::<Vec<_>>())
            .unwrap();
        let all = Kernel::gaussian(&[1.0]).gram(&x);
        let counts: Vec<usize> = [0.3, 1e-3, 1e-9]
            .map(|left| {
                let few = low_rank_factor(&all, left);
                let mut rest = all.clone();
                let told = few.matmul(&few.transpose());
                rest.data_mut().iter_mut().zip(told.data()).for_each(|(v, t)| *v -= t);
                let trace: f64 = (0..40).map(|i| rest[(i, i)]).sum();
                assert!((-1e-12..=left * 40.0).contains(&trace), "{trace} of {left}");
                let (values, _) = crate::linalg::symmetric_eigen(&rest).unwrap();
                assert!(values.iter().all(|v| *v > -1e-9));
                few.cols()
            })
            .to_vec();
        assert!(counts[0] < counts[1] && counts[1] < counts[2] && counts[2] < 15, "{counts:?}");
        assert_eq!(low_rank_factor(&Matrix::zeros(3, 3), 1e-3).cols(), 0);
    }
}

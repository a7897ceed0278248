//! Covariances by cause of the uncertainty.

use crate::linalg::Matrix;

/// Causes of an effect's uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UncertaintyCause {
    /// The study of this number, from 0: too few rows near what is asked, or noise.
    Study(usize),
    /// In an effect from one table the regression of the outcome: too few rows near what is asked, or noise.
    Outcome,
    /// In an effect from one table the stage of this number, from 0, before the regression of the outcome.
    Stage(usize),
    /// Two studies or stages at once: the first may lead where the second knows little.
    Interaction,
    /// Who happens to be in a study whose covariates are averaged over.
    Adjustment,
    /// Length scales, noises and ridges: how far the means of a mixture over these are apart.
    Hyperparameters,
}

/// The covariance of functionals by cause.
pub(super) type CovarianceParts = Vec<(UncertaintyCause, Matrix)>;

/// Adds a matrix.
pub(super) fn add_matrix(total: &mut Matrix, addend: &Matrix) {
    total.data_mut().iter_mut().zip(addend.data()).for_each(|(a, b)| *a += b);
}

/// Adds a part, times its weight, to those of its cause.
pub(super) fn add_part(parts: &mut CovarianceParts, cause: UncertaintyCause, weight: f64, part: &Matrix) {
    let place = parts.iter().position(|(other_cause, _)| *other_cause == cause).unwrap_or_else(|| {
        parts.push((cause, Matrix::zeros(part.rows(), part.cols())));
        parts.len() - 1
    });
    let matrix = &mut parts[place].1;
    matrix.data_mut().iter_mut().zip(part.data()).for_each(|(a, b)| *a += weight * b);
}

/// The sum of all parts, for `count` functionals.
pub(super) fn sum_parts(parts: &CovarianceParts, count: usize) -> Matrix {
    let mut total = Matrix::zeros(count, count);
    parts.iter().for_each(|(_, part)| add_matrix(&mut total, part));
    total
}

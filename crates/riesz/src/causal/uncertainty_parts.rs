//! Covariances by cause: what leaves an effect uncertain.

use crate::linalg::Matrix;

/// What leaves an effect uncertain.
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

/// What is left open of functionals, by cause.
pub(super) type CovarianceParts = Vec<(UncertaintyCause, Matrix)>;

/// Adds a matrix.
pub(super) fn add_matrix(all: &mut Matrix, own: &Matrix) {
    all.data_mut().iter_mut().zip(own.data()).for_each(|(a, b)| *a += b);
}

/// Adds a part, times its weight, to those of its cause.
pub(super) fn add_part(parts: &mut CovarianceParts, cause: UncertaintyCause, weight: f64, part: &Matrix) {
    let place = parts.iter().position(|(own, _)| *own == cause).unwrap_or_else(|| {
        parts.push((cause, Matrix::zeros(part.rows(), part.cols())));
        parts.len() - 1
    });
    let own = &mut parts[place].1;
    own.data_mut().iter_mut().zip(part.data()).for_each(|(a, b)| *a += weight * b);
}

/// All parts together, of so many functionals.
pub(super) fn sum_parts(parts: &CovarianceParts, count: usize) -> Matrix {
    let mut all = Matrix::zeros(count, count);
    parts.iter().for_each(|(_, part)| add_matrix(&mut all, part));
    all
}

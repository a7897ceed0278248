//! Kernels of a study that are products of kernels over blocks of columns.

use crate::error::Result;
use crate::gp::exact::NormalEvidence;
use crate::gp::hyperparameters::ThetaReader;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// A block of columns of a study, and its kernel.
#[derive(Debug, Clone)]
pub struct ColumnBlock {
    /// The columns of the block, one row per row of the study.
    pub rows: Table,
    /// The kernel over these columns.
    pub kernel: Kernel,
}

/// Returns the elementwise product of gram matrices.
///
/// # Panics
/// If `grams` is empty.
pub(super) fn product_gram(grams: &[Matrix]) -> Matrix {
    let mut gram = grams[0].clone();
    for factor in &grams[1..] {
        gram.multiply(factor);
    }
    gram
}

/// Returns the derivatives of a function in the kernels' parameters and the logarithm of the ridge, given its
/// derivatives `weights` in the entries of `K + λ` (n × n).
fn gradient(blocks: &[ColumnBlock], grams: &[Matrix], ridge: f64, weights: &Matrix) -> Vec<f64> {
    let mut gradient = Vec::new();
    for (k, block) in blocks.iter().enumerate() {
        let mut block_weights = weights.clone();
        grams
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != k)
            .for_each(|(_, gram)| block_weights.multiply(gram));
        gradient.extend(block.kernel.gradient(&block.rows, &block_weights));
    }
    gradient.push(ridge * weights.trace());
    gradient
}

/// Returns the parameters of the blocks' kernels, and the logarithm of the ridge.
pub(super) fn parameters(blocks: &[ColumnBlock], ridge: f64) -> Vec<Parameter> {
    let kernels = blocks.iter().flat_map(|block| block.kernel.parameters());
    kernels.chain([Parameter::logarithm("ridge", ridge)]).collect()
}

/// Returns the blocks and the ridge with the values `theta` of their [`parameters`].
pub(super) fn with_parameters(blocks: &[ColumnBlock], theta: &[f64]) -> (Vec<ColumnBlock>, f64) {
    let mut reader = ThetaReader::new(theta);
    let with_theta =
        |block: &ColumnBlock| ColumnBlock { kernel: reader.kernel(&block.kernel), rows: block.rows.clone() };
    let blocks = blocks.iter().map(with_theta).collect();
    (blocks, reader.exp())
}

/// Returns the gram matrix of each block.
pub(super) fn block_grams(blocks: &[ColumnBlock]) -> Vec<Matrix> {
    blocks.iter().map(|block| block.kernel.gram(&block.rows)).collect()
}

/// Returns `E log N(h; 0, scale (K + λ))` given the gram matrices of the blocks.
fn expected_evidence(grams: &[Matrix], ridge: f64, h: &Matrix, scale: f64) -> Result<NormalEvidence> {
    let mut gram = product_gram(grams);
    gram.add_diagonal(|_| ridge);
    NormalEvidence::expected(gram, "kernel matrix of the study plus ridge", h, scale)
}

/// Returns the value of [`log_evidence_and_gradient`] without its gradient. Cost n³/3, and n² for each column
/// of h.
pub(super) fn log_evidence(blocks: &[ColumnBlock], ridge: f64, h: &Matrix, scale: f64) -> Result<f64> {
    Ok(expected_evidence(&block_grams(blocks), ridge, h, scale)?.value)
}

/// Returns `E log N(h; 0, scale (K + λ))` and its gradient in the [`parameters`].
///
/// h is the outcome at the mediators of the n rows, and K (n × n) the gram matrix of the blocks. The outcome
/// is uncertain: the columns of `h` are its mean and a root of its covariance. Its uncertainty therefore
/// counts as variation and not as a flat function. `scale` is the mean square of the outcome over all
/// possible mediators, which is the unit of the intervals. Cost n³.
pub(super) fn log_evidence_and_gradient(
    blocks: &[ColumnBlock],
    ridge: f64,
    h: &Matrix,
    scale: f64,
) -> Result<(f64, Vec<f64>)> {
    let grams = block_grams(blocks);
    let evidence = expected_evidence(&grams, ridge, h, scale)?;
    Ok((evidence.value, gradient(blocks, &grams, ridge, &evidence.covariance_gradient())))
}

/// Returns the leave-one-out loss of the regression of the embeddings of y, and its gradient in the
/// [`parameters`].
///
/// The loss is `Σ_i ‖k_y(y_i, ·) - Σ_j≠i ..‖²/n`. Its closed form has the terms
/// `[(I - H) K_yy (I - H)ᵀ]_ii/(1 - H_ii)²` with `I - H = λ (K + λ)⁻¹`. `response_gram` is the gram
/// matrix K_yy (n × n). Cost n³.
pub(super) fn loo_loss(
    blocks: &[ColumnBlock],
    ridge: f64,
    response_gram: &Matrix,
) -> Result<(f64, Vec<f64>)> {
    let n = response_gram.rows();
    let grams = block_grams(blocks);
    let mut gram = product_gram(&grams);
    gram.add_diagonal(|_| ridge);
    let inverse = Cholesky::new(gram, "kernel matrix of the study plus ridge")?.inverse();
    // Residuals are K⁻¹_i· / K⁻¹_ii; the ridge cancels.
    let mut residuals = inverse.clone();
    for i in 0..n {
        let diagonal = inverse[(i, i)];
        residuals.row_mut(i).iter_mut().for_each(|v| *v /= diagonal);
    }
    let mut weighted_residuals = residuals.matmul(response_gram);
    let loss = dot(weighted_residuals.data(), residuals.data()) / n as f64;
    for i in 0..n {
        let diagonal = inverse[(i, i)];
        let inner = dot(residuals.row(i), weighted_residuals.row(i));
        let row = weighted_residuals.row_mut(i);
        row.iter_mut().for_each(|v| *v *= 2.0 / n as f64 / diagonal);
        row[i] -= 2.0 / n as f64 * inner / diagonal;
    }
    let derivative = inverse.matmul(&weighted_residuals).matmul(&inverse);
    let mut weights = derivative.transpose();
    weights.data_mut().iter_mut().zip(derivative.data()).for_each(|(t, entry)| *t = -0.5 * (*t + entry));
    Ok((loss, gradient(blocks, &grams, ridge, &weights)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(i: usize) -> f64 {
        ((i * 7919) % 1013) as f64 / 400.0
    }

    fn blocks() -> Vec<ColumnBlock> {
        let rows = |from: usize, d: usize| {
            let rows: Vec<Vec<f64>> =
                (0..12).map(|i| (0..d).map(|j| value(from + i * d + j)).collect()).collect();
            Table::from_rows(&rows).unwrap()
        };
        vec![
            ColumnBlock { rows: rows(3, 2), kernel: 1.2 * Kernel::gaussian(&[0.8, 1.3]) },
            ColumnBlock { rows: rows(50, 1), kernel: Kernel::gaussian(&[0.9]) },
        ]
    }

    fn assert_gradient_matches_differences(objective: impl Fn(&[ColumnBlock], f64) -> (f64, Vec<f64>)) {
        let (blocks, ridge) = (blocks(), 0.3);
        let theta: Vec<f64> = parameters(&blocks, ridge).iter().map(|p| p.log_value).collect();
        let (value, gradient) = objective(&blocks, ridge);
        for p in 0..theta.len() {
            let value_at = |step: f64| {
                let mut shifted = theta.clone();
                shifted[p] += step;
                let (blocks, ridge) = with_parameters(&blocks, &shifted);
                objective(&blocks, ridge).0
            };
            let difference = (value_at(1e-5) - value_at(-1e-5)) / 2e-5;
            assert!(
                (difference - gradient[p]).abs() < 1e-6 * (1.0 + value.abs()),
                "{p}: {difference} {}",
                gradient[p]
            );
        }
    }

    #[test]
    fn gradients_match_finite_differences() {
        let h = Matrix::from_row_major(12, 2, (0..24).map(|i| value(100 + i) - 1.2).collect());
        assert_gradient_matches_differences(|blocks, ridge| {
            log_evidence_and_gradient(blocks, ridge, &h, 0.8).unwrap()
        });
        let y = Table::from_rows(&(0..12).map(|i| [value(200 + i)]).collect::<Vec<_>>()).unwrap();
        let response_gram = Kernel::gaussian(&[0.7]).gram(&y);
        assert_gradient_matches_differences(|blocks, ridge| loo_loss(blocks, ridge, &response_gram).unwrap());
    }

    /// The leave-one-out loss agrees with regressions that are fitted without each row.
    #[test]
    fn loo_loss_equals_that_of_refits() {
        let (blocks, ridge) = (blocks(), 0.3);
        let y = Table::from_rows(&(0..12).map(|i| [value(200 + i)]).collect::<Vec<_>>()).unwrap();
        let response_gram = Kernel::gaussian(&[0.7]).gram(&y);
        let gram =
            product_gram(&blocks.iter().map(|block| block.kernel.gram(&block.rows)).collect::<Vec<_>>());
        let loss = |i: usize| {
            let kept: Vec<usize> = (0..12).filter(|j| *j != i).collect();
            let mut system = Matrix::zeros(11, 11);
            for (a, j) in kept.iter().enumerate() {
                kept.iter().enumerate().for_each(|(b, k)| system[(a, b)] = gram[(*j, *k)]);
            }
            system.add_diagonal(|_| ridge);
            let weights =
                crate::linalg::lu_solve(&system, &kept.iter().map(|j| gram[(*j, i)]).collect::<Vec<_>>());
            let mut loss = response_gram[(i, i)];
            for (w, j) in weights.iter().zip(&kept) {
                loss -= 2.0 * w * response_gram[(i, *j)];
                loss += weights.iter().zip(&kept).map(|(v, k)| w * v * response_gram[(*j, *k)]).sum::<f64>();
            }
            loss
        };
        let expected = (0..12).map(loss).sum::<f64>() / 12.0;
        assert!((loo_loss(&blocks, ridge, &response_gram).unwrap().0 - expected).abs() < 1e-10);
    }
}

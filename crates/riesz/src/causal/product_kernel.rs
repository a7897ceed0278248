//! Kernels of a study as products over blocks of columns.

use crate::error::Result;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// Columns that stand together, and their kernel.
#[derive(Debug, Clone)]
pub struct ColumnBlock {
    /// A row each of the study.
    pub rows: Table,
    /// Its kernel, over these columns.
    pub kernel: Kernel,
}

/// The product of kernels, entry by entry.
///
/// # Panics
/// If there is none.
pub(super) fn product_gram(grams: &[Matrix]) -> Matrix {
    let mut gram = grams[0].clone();
    for factor in &grams[1..] {
        times(&mut gram, factor);
    }
    gram
}

fn times(target: &mut Matrix, factor: &Matrix) {
    target.data_mut().iter_mut().zip(factor.data()).for_each(|(a, b)| *a *= b);
}

/// Derivatives in the kernels' parameters and in the ridge, given those in the entries of `K + λ`.
fn slopes(blocks: &[ColumnBlock], grams: &[Matrix], ridge: f64, weights: &Matrix) -> Vec<f64> {
    let mut slopes = Vec::new();
    for (k, block) in blocks.iter().enumerate() {
        let mut block_weights = weights.clone();
        grams
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != k)
            .for_each(|(_, gram)| times(&mut block_weights, gram));
        slopes.extend(block.kernel.gradient(&block.rows, &block_weights));
    }
    slopes.push(ridge * (0..weights.rows()).map(|i| weights[(i, i)]).sum::<f64>());
    slopes
}

/// Parameters of blocks, and the logarithm of a ridge.
pub(super) fn parameters(blocks: &[ColumnBlock], ridge: f64) -> Vec<Parameter> {
    let ridge = Parameter { name: "ridge".into(), log_value: ridge.ln() };
    blocks.iter().flat_map(|block| block.kernel.parameters()).chain([ridge]).collect()
}

/// Blocks and ridge with other parameters.
pub(super) fn with_parameters(blocks: &[ColumnBlock], theta: &[f64]) -> (Vec<ColumnBlock>, f64) {
    let mut remaining = theta;
    let with = |block: &ColumnBlock| {
        let (mine, following) = remaining.split_at(block.kernel.parameters().len());
        remaining = following;
        ColumnBlock { kernel: block.kernel.with_parameters(mine), rows: block.rows.clone() }
    };
    let blocks = blocks.iter().map(with).collect();
    (blocks, remaining[0].exp())
}

/// `log N(h; 0, scale (K + λ))` of all columns of h together, each of which adds a square, with what its
/// slopes are made of.
fn likelihood(
    blocks: &[ColumnBlock],
    ridge: f64,
    h: &Matrix,
    scale: f64,
) -> Result<(f64, Vec<Matrix>, Cholesky, Matrix)> {
    let n = h.rows() as f64;
    let grams: Vec<Matrix> = blocks.iter().map(|block| block.kernel.gram(&block.rows)).collect();
    let mut gram = product_gram(&grams);
    gram.add_diagonal(|_| ridge);
    let factor = Cholesky::new(gram, "kernel matrix of the study plus ridge")?;
    let solved = factor.solve(h.clone());
    let square = dot(solved.data(), h.data()) / scale;
    let value = -0.5 * (square + n * scale.ln() + factor.log_det() + n * std::f64::consts::TAU.ln());
    Ok((value, grams, factor, solved))
}

/// The first of [`evidence`]. Cost n³/3, and n² for each column of h.
pub(super) fn log_evidence(blocks: &[ColumnBlock], ridge: f64, h: &Matrix, scale: f64) -> Result<f64> {
    Ok(likelihood(blocks, ridge, h, scale)?.0)
}

/// `E log N(h; 0, scale (K + λ))` and its derivatives in the [`parameters`]: how well the rows' columns
/// predict h, the outcome at their mediators, whose columns are the mean and a root of the covariance. The
/// outcome's uncertainty thus counts as variation, not as a flat function. The scale is the mean square of
/// the outcome over all possible mediators, the unit of the bands. Cost n³.
pub(super) fn evidence(
    blocks: &[ColumnBlock],
    ridge: f64,
    h: &Matrix,
    scale: f64,
) -> Result<(f64, Vec<f64>)> {
    let (value, grams, factor, solved) = likelihood(blocks, ridge, h, scale)?;
    let mut weights = solved.matmul(&solved.transpose());
    let inverse = factor.inverse();
    weights.data_mut().iter_mut().zip(inverse.data()).for_each(|(v, entry)| *v = 0.5 * (*v / scale - entry));
    Ok((value, slopes(blocks, &grams, ridge, &weights)))
}

/// Leave-one-out loss of regressions of y's embeddings, `Σ_i ‖k_y(y_i, ·) - Σ_j≠i ..‖²/n`, in the closed form
/// `[(I - H) K_yy (I - H)ᵀ]_ii/(1 - H_ii)²` with `I - H = λ (K + λ)⁻¹`, and its derivatives in the parameters
/// of the blocks and the ridge. Cost n³.
pub(super) fn loo_loss(blocks: &[ColumnBlock], ridge: f64, of_y: &Matrix) -> Result<(f64, Vec<f64>)> {
    let n = of_y.rows();
    let grams: Vec<Matrix> = blocks.iter().map(|block| block.kernel.gram(&block.rows)).collect();
    let mut gram = product_gram(&grams);
    gram.add_diagonal(|_| ridge);
    let inverse = Cholesky::new(gram, "kernel matrix of the study plus ridge")?.inverse();
    // Residuals are K⁻¹_i· / K⁻¹_ii; the ridge cancels.
    let mut residuals = inverse.clone();
    for i in 0..n {
        let diagonal = inverse[(i, i)];
        residuals.row_mut(i).iter_mut().for_each(|v| *v /= diagonal);
    }
    let mut weighted_residuals = residuals.matmul(of_y);
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
    Ok((loss, slopes(blocks, &grams, ridge, &weights)))
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

    fn differences(objective: impl Fn(&[ColumnBlock], f64) -> (f64, Vec<f64>)) {
        let (blocks, ridge) = (blocks(), 0.3);
        let theta: Vec<f64> = parameters(&blocks, ridge).iter().map(|p| p.log_value).collect();
        let (value, slopes) = objective(&blocks, ridge);
        for p in 0..theta.len() {
            let value_at = |step: f64| {
                let mut moved = theta.clone();
                moved[p] += step;
                let (blocks, ridge) = with_parameters(&blocks, &moved);
                objective(&blocks, ridge).0
            };
            let slope = (value_at(1e-5) - value_at(-1e-5)) / 2e-5;
            assert!((slope - slopes[p]).abs() < 1e-6 * (1.0 + value.abs()), "{p}: {slope} {}", slopes[p]);
        }
    }

    #[test]
    fn slopes_are_differences() {
        let h = Matrix::from_row_major(12, 2, (0..24).map(|i| value(100 + i) - 1.2).collect());
        differences(|blocks, ridge| evidence(blocks, ridge, &h, 0.8).unwrap());
        let y = Table::from_rows(&(0..12).map(|i| [value(200 + i)]).collect::<Vec<_>>()).unwrap();
        let of_y = Kernel::gaussian(&[0.7]).gram(&y);
        differences(|blocks, ridge| loo_loss(blocks, ridge, &of_y).unwrap());
    }

    /// The loss agrees with regressions without each row.
    #[test]
    fn rows_are_left_out() {
        let (blocks, ridge) = (blocks(), 0.3);
        let y = Table::from_rows(&(0..12).map(|i| [value(200 + i)]).collect::<Vec<_>>()).unwrap();
        let of_y = Kernel::gaussian(&[0.7]).gram(&y);
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
            let mut loss = of_y[(i, i)];
            for (w, j) in weights.iter().zip(&kept) {
                loss -= 2.0 * w * of_y[(i, *j)];
                loss += weights.iter().zip(&kept).map(|(v, k)| w * v * of_y[(*j, *k)]).sum::<f64>();
            }
            loss
        };
        let expected = (0..12).map(loss).sum::<f64>() / 12.0;
        assert!((loo_loss(&blocks, ridge, &of_y).unwrap().0 - expected).abs() < 1e-10);
    }
}

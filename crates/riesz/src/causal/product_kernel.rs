//! Blocks of columns of a study: their kernel is the product of the blocks'.

use crate::error::Result;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// Columns that stand together, and their kernel.
#[derive(Debug, Clone)]
pub struct Block {
    /// A row each of the study.
    pub rows: Table,
    /// Its kernel, over these columns.
    pub kernel: Kernel,
}

/// The product of kernels, entry by entry.
///
/// # Panics
/// If there is none.
pub(super) fn product(grams: &[Matrix]) -> Matrix {
    let mut all = grams[0].clone();
    for own in &grams[1..] {
        times(&mut all, own);
    }
    all
}

fn times(all: &mut Matrix, own: &Matrix) {
    all.data_mut().iter_mut().zip(own.data()).for_each(|(a, b)| *a *= b);
}

/// By the kernels' parameters, by that of `K + λ`, and then by the ridge.
fn slopes(blocks: &[Block], grams: &[Matrix], ridge: f64, by: &Matrix) -> Vec<f64> {
    let mut slopes = Vec::new();
    for (k, block) in blocks.iter().enumerate() {
        let mut own = by.clone();
        grams.iter().enumerate().filter(|(other, _)| *other != k).for_each(|(_, gram)| times(&mut own, gram));
        slopes.extend(block.kernel.gradient(&block.rows, &own));
    }
    slopes.push(ridge * (0..by.rows()).map(|i| by[(i, i)]).sum::<f64>());
    slopes
}

/// Parameters of blocks, and the logarithm of a ridge.
pub(super) fn parameters(blocks: &[Block], ridge: f64) -> Vec<Parameter> {
    let ridge = Parameter { name: "ridge".into(), log_value: ridge.ln() };
    blocks.iter().flat_map(|own| own.kernel.parameters()).chain([ridge]).collect()
}

/// Blocks and ridge with other parameters.
pub(super) fn with_parameters(blocks: &[Block], theta: &[f64]) -> (Vec<Block>, f64) {
    let mut rest = theta;
    let with = |own: &Block| {
        let (mine, others) = rest.split_at(own.kernel.parameters().len());
        rest = others;
        Block { kernel: own.kernel.with_parameters(mine), rows: own.rows.clone() }
    };
    let blocks = blocks.iter().map(with).collect();
    (blocks, rest[0].exp())
}

/// `log N(h; 0, scale (K + λ))` of all columns of h together, each of which adds a square, with what its
/// slopes are made of.
fn likelihood(
    blocks: &[Block],
    ridge: f64,
    h: &Matrix,
    scale: f64,
) -> Result<(f64, Vec<Matrix>, Cholesky, Matrix)> {
    let n = h.rows() as f64;
    let grams: Vec<Matrix> = blocks.iter().map(|own| own.kernel.gram(&own.rows)).collect();
    let mut all = product(&grams);
    all.add_diagonal(|_| ridge);
    let factor = Cholesky::new(all, "kernel matrix of the study plus ridge")?;
    let solved = factor.solve(h.clone());
    let square = dot(solved.data(), h.data()) / scale;
    let value = -0.5 * (square + n * scale.ln() + factor.log_det() + n * std::f64::consts::TAU.ln());
    Ok((value, grams, factor, solved))
}

/// The first of [`evidence`]. Cost n³/3, and n² for each column of h.
pub(super) fn log_evidence(blocks: &[Block], ridge: f64, h: &Matrix, scale: f64) -> Result<f64> {
    Ok(likelihood(blocks, ridge, h, scale)?.0)
}

/// `E log N(h; 0, scale (K + λ))` and its slopes by [`parameters`]: how well the rows' columns tell h, what
/// the outcome is at their mediators, of which the columns are the mean and a root of the covariance. What is
/// not known of the outcome so counts as what it may be, and not as if it were flat. The scale is what an
/// outcome's square is wherever the study may lead, which bands are in units of. Cost n³.
pub(super) fn evidence(blocks: &[Block], ridge: f64, h: &Matrix, scale: f64) -> Result<(f64, Vec<f64>)> {
    let (value, grams, factor, solved) = likelihood(blocks, ridge, h, scale)?;
    let mut by = solved.matmul(&solved.transpose());
    let inverse = factor.inverse();
    by.data_mut().iter_mut().zip(inverse.data()).for_each(|(v, own)| *v = 0.5 * (*v / scale - own));
    Ok((value, slopes(blocks, &grams, ridge, &by)))
}

/// How far off regressions of y's embeddings are for rows that are left out,
/// `Σ_i ‖k_y(y_i, ·) - Σ_j≠i ..‖²/n`, by the closed form `[(I - H) K_yy (I - H)ᵀ]_ii/(1 - H_ii)²` with
/// `I - H = λ (K + λ)⁻¹`, and its slopes by the parameters of the blocks and the ridge. Cost n³.
pub(super) fn left_out_loss(blocks: &[Block], ridge: f64, of_y: &Matrix) -> Result<(f64, Vec<f64>)> {
    let n = of_y.rows();
    let grams: Vec<Matrix> = blocks.iter().map(|own| own.kernel.gram(&own.rows)).collect();
    let mut all = product(&grams);
    all.add_diagonal(|_| ridge);
    let inverse = Cholesky::new(all, "kernel matrix of the study plus ridge")?.inverse();
    // Residuals are K⁻¹_i· / K⁻¹_ii; the ridge cancels.
    let mut residuals = inverse.clone();
    for i in 0..n {
        let own = inverse[(i, i)];
        residuals.row_mut(i).iter_mut().for_each(|v| *v /= own);
    }
    let mut by = residuals.matmul(of_y);
    let loss = dot(by.data(), residuals.data()) / n as f64;
    for i in 0..n {
        let own = inverse[(i, i)];
        let inner = dot(residuals.row(i), by.row(i));
        let row = by.row_mut(i);
        row.iter_mut().for_each(|v| *v *= 2.0 / n as f64 / own);
        row[i] -= 2.0 / n as f64 * inner / own;
    }
    let by = inverse.matmul(&by).matmul(&inverse);
    let mut weights = by.transpose();
    weights.data_mut().iter_mut().zip(by.data()).for_each(|(t, own)| *t = -0.5 * (*t + own));
    Ok((loss, slopes(blocks, &grams, ridge, &weights)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(i: usize) -> f64 {
        ((i * 7919) % 1013) as f64 / 400.0
    }

    fn blocks() -> Vec<Block> {
        let rows = |from: usize, d: usize| {
            let rows: Vec<Vec<f64>> =
                (0..12).map(|i| (0..d).map(|j| value(from + i * d + j)).collect()).collect();
            Table::from_rows(&rows).unwrap()
        };
        vec![
            Block { rows: rows(3, 2), kernel: 1.2 * Kernel::gaussian(&[0.8, 1.3]) },
            Block { rows: rows(50, 1), kernel: Kernel::gaussian(&[0.9]) },
        ]
    }

    fn differences(of: impl Fn(&[Block], f64) -> (f64, Vec<f64>)) {
        let (blocks, ridge) = (blocks(), 0.3);
        let theta: Vec<f64> = parameters(&blocks, ridge).iter().map(|p| p.log_value).collect();
        let (value, slopes) = of(&blocks, ridge);
        for p in 0..theta.len() {
            let at = |by: f64| {
                let mut moved = theta.clone();
                moved[p] += by;
                let (blocks, ridge) = with_parameters(&blocks, &moved);
                of(&blocks, ridge).0
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - slopes[p]).abs() < 1e-6 * (1.0 + value.abs()), "{p}: {slope} {}", slopes[p]);
        }
    }

    #[test]
    fn slopes_are_differences() {
        let h = Matrix::from_row_major(12, 2, (0..24).map(|i| value(100 + i) - 1.2).collect());
        differences(|blocks, ridge| evidence(blocks, ridge, &h, 0.8).unwrap());
        let y = Table::from_rows(&(0..12).map(|i| [value(200 + i)]).collect::<Vec<_>>()).unwrap();
        let of_y = Kernel::gaussian(&[0.7]).gram(&y);
        differences(|blocks, ridge| left_out_loss(blocks, ridge, &of_y).unwrap());
    }

    /// Against regressions without each row.
    #[test]
    fn rows_are_left_out() {
        let (blocks, ridge) = (blocks(), 0.3);
        let y = Table::from_rows(&(0..12).map(|i| [value(200 + i)]).collect::<Vec<_>>()).unwrap();
        let of_y = Kernel::gaussian(&[0.7]).gram(&y);
        let gram = product(&blocks.iter().map(|own| own.kernel.gram(&own.rows)).collect::<Vec<_>>());
        let loss = |i: usize| {
            let rest: Vec<usize> = (0..12).filter(|j| *j != i).collect();
            let mut own = Matrix::zeros(11, 11);
            for (a, j) in rest.iter().enumerate() {
                rest.iter().enumerate().for_each(|(b, k)| own[(a, b)] = gram[(*j, *k)]);
            }
            own.add_diagonal(|_| ridge);
            let weights =
                crate::linalg::lu_solve(&own, &rest.iter().map(|j| gram[(*j, i)]).collect::<Vec<_>>());
            let mut loss = of_y[(i, i)];
            for (w, j) in weights.iter().zip(&rest) {
                loss -= 2.0 * w * of_y[(i, *j)];
                loss += weights.iter().zip(&rest).map(|(v, k)| w * v * of_y[(*j, *k)]).sum::<f64>();
            }
            loss
        };
        let expected = (0..12).map(loss).sum::<f64>() / 12.0;
        assert!((left_out_loss(&blocks, ridge, &of_y).unwrap().0 - expected).abs() < 1e-10);
    }
}

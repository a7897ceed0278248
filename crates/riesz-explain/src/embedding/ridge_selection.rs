//! Selection of the ridge by leave-one-out prediction.
//!
//! K is the kernel matrix of the conditioning columns and K_rest the kernel matrix of the other columns. Both
//! are multiplied by the square roots of the rows' weights from both sides. Without row i, the weighted
//! squared distance between the embedding of its target and the prediction is
//! `[(I - H) K_rest (I - H)ᵀ]_ii / (1 - H_ii)²` with `H = K (K + η I)⁻¹`. One eigendecomposition of K yields
//! this distance for every η.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::blockwise_kernel::BlockKernel;
use crate::control;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Matrix, dot, symmetric_eigen};
use crate::random::{Random, SeedableRng, SliceRandom};
use crate::table::Table;

/// Candidate values of η.
const GRID: [f64; 13] = [1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0];

/// Maximum number of sets of blocks over which the loss is averaged.
const MAX_SETS: usize = 16;

/// The η if there are no data to choose it.
const FALLBACK_RIDGE: f64 = 1e-3;

/// Maximum number of reference rows that are used; a random sample if there are more.
const ROWS: usize = 400;

/// A sample of distinct rows of the tables, each with the total weight of its copies. Duplicates are merged,
/// because a copy that is left in would predict the row by memorising it.
fn rows(tables: &[&Table], weights: &[f64], seed: u64) -> (Vec<usize>, Vec<f64>) {
    let key = |i: usize| -> Vec<u64> { tables.iter().flat_map(|t| t.row(i)).map(f64::to_bits).collect() };
    let (mut rows, mut row_weights): (Vec<usize>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut row_indices = HashMap::new();
    for i in tables[0].sample_rows(ROWS, seed) {
        let index = *row_indices.entry(key(i)).or_insert(rows.len());
        if index == rows.len() {
            rows.push(i);
            row_weights.push(0.0);
        }
        row_weights[index] += weights[i];
    }
    let total: f64 = row_weights.iter().sum();
    row_weights.iter_mut().for_each(|w| *w /= total);
    (rows, row_weights)
}

/// The η of the grid that best predicts the columns outside a set of blocks from the columns in it, averaged
/// over random sets of all sizes.
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub(super) fn for_block_sets(
    table: &Table,
    weights: &[f64],
    kernel: &BlockKernel,
    blocks: usize,
    seed: u64,
    stop: &AtomicBool,
) -> Result<f64> {
    let (chosen, row_weights) = rows(&[table], weights, seed);
    let read = kernel.read();
    if read.len() < 2 {
        // There are no columns to predict, or none to predict them from.
        return Ok(FALLBACK_RIDGE);
    }
    let mut random = Random::seed_from_u64(seed);
    // Cycles through the sizes, so that small and large sets have equal weight, as in a Shapley value.
    let drawn: Vec<[Vec<bool>; 2]> = (0..MAX_SETS)
        .map(|c| {
            let mut order = read.clone();
            order.shuffle(&mut random);
            let remaining = order.split_off(1 + c % (read.len() - 1));
            [order, remaining].map(|set| (0..blocks).map(|b| set.contains(&b)).collect())
        })
        .collect();
    let chosen = table.select_rows(&chosen);
    let factors = kernel.cached_factors(&chosen, &chosen, stop)?;
    let gram = |set: &[bool]| {
        let mut out = Matrix::zeros(row_weights.len(), row_weights.len());
        kernel.fill(factors.as_deref(), set, &chosen, &chosen, out.data_mut());
        out
    };
    argmin_loo(drawn.par_iter().map(|[given, remaining]| [gram(given), gram(remaining)]), &row_weights, stop)
}

/// The η of the grid that best predicts the columns of `target`, with the kernel `target_kernel`, from the
/// columns of `given`.
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub(super) fn for_target(
    [(given, kernel), (target, target_kernel)]: [(&Table, &Kernel); 2],
    weights: &[f64],
    seed: u64,
    stop: &AtomicBool,
) -> Result<f64> {
    let (chosen, row_weights) = rows(&[given, target], weights, seed);
    let gram = |table: &Table, kernel: &Kernel| kernel.gram(&table.select_rows(&chosen));
    argmin_loo([[gram(given, kernel), gram(target, target_kernel)]].into_par_iter(), &row_weights, stop)
}

/// The η of the grid with the smallest leave-one-out loss, averaged over pairs of kernel matrices: of the
/// conditioning columns and of the predicted columns. Losses are relative to the loss of the mean embedding.
fn argmin_loo(
    pairs: impl IndexedParallelIterator<Item = [Matrix; 2]>,
    weights: &[f64],
    stop: &AtomicBool,
) -> Result<f64> {
    if weights.len() < 3 {
        return Ok(FALLBACK_RIDGE);
    }
    let losses: Vec<Vec<f64>> = pairs
        .map(|[given, target_gram]| leave_one_out(&given, &target_gram, weights, &GRID, stop))
        .collect::<Result<_>>()?;
    let mean = |e: usize| losses.iter().map(|l| l[e]).sum::<f64>();
    let best = (0..GRID.len()).min_by(|&a, &b| mean(a).total_cmp(&mean(b))).unwrap_or(GRID.len() / 2);
    Ok(GRID[best])
}

/// The leave-one-out prediction error of the reference rows, for each η of `ridges`. It is the weighted mean
/// of the squared distance between a row's embedding and its prediction from the other rows, divided by the
/// same mean for a prediction by the other rows' mean. `conditions` and `target` (n × n) are the kernel
/// matrices of the conditioning and of the predicted columns; the rows' `weights` sum to 1. Cost O(n³) for
/// each η.
///
/// # Errors
/// [`Error::Overflow`](riesz_core::Error::Overflow) for numbers that are not finite;
/// [`Error::Interrupted`](riesz_core::Error::Interrupted) soon after `stop` becomes true.
pub fn leave_one_out(
    conditions: &Matrix,
    target: &Matrix,
    weights: &[f64],
    ridges: &[f64],
    stop: &AtomicBool,
) -> Result<Vec<f64>> {
    let n = weights.len();
    control::check_cancelled(stop)?;
    let roots: Vec<f64> = weights.iter().map(|w| w.sqrt()).collect();
    let scaled = |m: &Matrix| {
        let weighted = |(t, v): (usize, &f64)| v * (weights[t % n] * weights[t / n]).sqrt();
        Matrix::from_row_major(n, n, m.data().iter().enumerate().map(weighted).collect())
    };
    let target_gram = scaled(target);
    let (values, vectors) = symmetric_eigen(&scaled(conditions))?;
    let rotated = vectors.transpose().matmul(&target_gram).matmul(&vectors);
    // Leaving row i out of the mean: `|ψ_i - mean|² / (1 - w_i)²`, where `target_gram` holds
    // `√w_i √w_j ψ_i·ψ_j`.
    let mean_products = target_gram.matvec(&roots);
    let mean_square = dot(&mean_products, &roots);
    let mean_loss: f64 = (0..n)
        .map(|i| {
            let distance = target_gram[(i, i)] - 2.0 * roots[i] * mean_products[i] + weights[i] * mean_square;
            distance / (1.0 - weights[i]).powi(2)
        })
        .sum();
    let error_ratio = |ridge: &f64| {
        control::check_cancelled(stop)?;
        let shrinkage: Vec<f64> = values.iter().map(|v| ridge / (v.max(0.0) + ridge)).collect();
        let mut middle = rotated.clone();
        for (i, a) in shrinkage.iter().enumerate() {
            middle.row_mut(i).iter_mut().zip(&shrinkage).for_each(|(v, b)| *v *= a * b);
        }
        let smoothed = vectors.matmul(&middle);
        let loss: f64 = (0..n)
            .map(|i| {
                let residual_leverage: f64 =
                    vectors.row(i).iter().zip(&shrinkage).map(|(u, k)| u * u * k).sum();
                dot(smoothed.row(i), vectors.row(i)) / (residual_leverage * residual_leverage)
            })
            .sum();
        Ok(if mean_loss > 0.0 { loss / mean_loss } else { 0.0 })
    };
    ridges.iter().map(error_ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::Cholesky;
    use crate::random::RngExt;

    fn gram(x: &[f64], scale: f64) -> Matrix {
        let n = x.len();
        let kernel_value = |i: usize, j: usize| (-((x[i] - x[j]) / scale).powi(2) / 2.0).exp();
        Matrix::from_row_major(n, n, (0..n * n).map(|t| kernel_value(t / n, t % n)).collect())
    }

    fn sample(n: usize) -> (Vec<f64>, Vec<f64>) {
        let mut random = Random::seed_from_u64(5);
        let mut uniform = || random.random_range(-2.0..2.0);
        let x: Vec<f64> = (0..n).map(|_| uniform()).collect();
        let y = x.iter().map(|x| (2.0 * x).sin() + 0.3 * uniform()).collect();
        (x, y)
    }

    /// The closed form agrees with refits that leave out each row in turn.
    #[test]
    fn the_loss_is_that_of_leaving_one_out() {
        let n = 12;
        let (x, y) = sample(n);
        let (k, l) = (gram(&x, 0.7), gram(&y, 0.5));
        let total: f64 = (1..=n).map(|i| i as f64).sum();
        let weights: Vec<f64> = (1..=n).map(|i| i as f64 / total).collect();
        let losses = leave_one_out(&k, &l, &weights, &GRID, &AtomicBool::new(false)).unwrap();
        // Without row i, the ridges `η / w` of the other rows stay the same.
        let loss = |ridge: Option<f64>| {
            (0..n)
                .map(|i| {
                    let kept: Vec<usize> = (0..n).filter(|&j| j != i).collect();
                    let w = match ridge {
                        None => kept.iter().map(|&j| weights[j] / (1.0 - weights[i])).collect(),
                        Some(ridge) => {
                            let mut a = Matrix::zeros(n - 1, n - 1);
                            for (r, &s) in kept.iter().enumerate() {
                                for (c, &t) in kept.iter().enumerate() {
                                    a[(r, c)] = k[(s, t)] + if r == c { ridge / weights[s] } else { 0.0 };
                                }
                            }
                            let b: Vec<f64> = kept.iter().map(|&j| k[(j, i)]).collect();
                            Cholesky::new(a, "test").unwrap().solve_vector(&b)
                        }
                    };
                    let cross: f64 = kept.iter().zip(&w).map(|(&j, w)| w * l[(j, i)]).sum();
                    let norm: f64 = kept
                        .iter()
                        .zip(&w)
                        .flat_map(|(&s, a)| kept.iter().zip(&w).map(move |(&t, b)| (s, t, a * b)))
                        .map(|(s, t, w)| w * l[(s, t)])
                        .sum();
                    weights[i] * (l[(i, i)] - 2.0 * cross + norm)
                })
                .sum::<f64>()
        };
        for (eta, actual) in GRID.iter().zip(losses) {
            let expected = loss(Some(*eta)) / loss(None);
            assert!((actual - expected).abs() < 1e-7 * expected.max(1.0), "{eta}: {actual} {expected}");
        }
    }

    #[test]
    fn noise_raises_the_chosen_ridge() {
        let (x, y) = sample(150);
        let noise: Vec<f64> = (0..150).map(|i| f64::from(i * 7919 % 151) / 40.0).collect();
        let choose = |y: &[f64]| {
            let table =
                Table::from_rows(&x.iter().zip(y).map(|(x, y)| [*x, *y]).collect::<Vec<_>>()).unwrap();
            let blocks = [vec![0], vec![1]];
            let kernel = BlockKernel::new(&Kernel::gaussian(&[0.5, 0.5]), table.columns(), &blocks);
            for_block_sets(
                &table,
                &vec![1.0 / y.len() as f64; y.len()],
                &kernel,
                2,
                0,
                &AtomicBool::new(false),
            )
            .unwrap()
        };
        let (tight, loose) = (choose(&y), choose(&noise));
        assert!(tight < 0.3 * loose, "{tight} {loose}");
        assert_eq!(choose(&y), tight);
        assert_eq!(choose(&y[..2]), FALLBACK_RIDGE);
    }

    #[test]
    fn rows_that_are_alike_count_once_with_their_weights() {
        let table = Table::from_rows(&[[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]).unwrap();
        assert_eq!(rows(&[&table], &[0.25, 0.5, 0.25], 0), (vec![0, 1], vec![0.5, 0.5]));
    }
}

//! The ridge that predicts left-out rows best.
//!
//! For one coalition S, leaving row i out, the squared distance between the embedding of the rest of the row and its prediction is
//! `[(I - H) K_rest (I - H)ᵀ]_ii / (1 - H_ii)²` with `H = K_S (K_S + η I)⁻¹`, for every η from one eigendecomposition of `K_S`, where both
//! kernel matrices are multiplied by the square roots of the rows' weights from both sides; the squared distance then is weighted.

use rayon::prelude::*;

use crate::error::Result;
use crate::linalg::{Matrix, dot, symmetric_eigen};
use crate::random::Random;
use crate::table::Table;

/// η that are tried.
const GRID: [f64; 13] = [1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0];

/// Coalitions that the loss is averaged over.
const COALITIONS: usize = 16;

/// Reference rows that are looked at: a random sample if there are more.
const ROWS: usize = 400;

/// The reference rows that are looked at, each with what all rows like it weigh: a row whose like is left in would be predicted by
/// remembering it.
pub(super) fn rows(table: &Table, weights: &[f64], seed: u64) -> (Vec<usize>, Vec<f64>) {
    let key = |i: &usize| -> Vec<u64> { table.row(*i).iter().map(|v| v.to_bits()).collect() };
    let (mut rows, mut own): (Vec<usize>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut places = std::collections::HashMap::new();
    for i in table.sample_rows(ROWS, seed) {
        match places.entry(key(&i)) {
            std::collections::hash_map::Entry::Occupied(place) => own[*place.get()] += weights[i],
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(rows.len());
                rows.push(i);
                own.push(weights[i]);
            }
        }
    }
    let total: f64 = own.iter().sum();
    own.iter_mut().for_each(|w| *w /= total);
    (rows, own)
}

/// The η of the grid with the smallest leave-one-out loss, relative to that of the mean embedding and averaged over coalitions.
/// `grams` are the factors of the players between rows with these weights, which sum to 1.
pub(super) fn choose(grams: &[Vec<f64>], weights: &[f64], seed: u64) -> Result<f64> {
    let n = weights.len();
    let players: Vec<usize> = (0..grams.len()).filter(|&p| !grams[p].is_empty()).collect();
    if players.len() < 2 || n < 3 {
        // There is nothing to predict, or nothing to predict it from.
        return Ok(1e-3);
    }
    let mut random = Random(seed);
    let product = |which: &[usize]| {
        let root = |t: usize| (weights[t % n] * weights[t / n]).sqrt();
        let numbers = (0..n * n).map(|t| which.iter().map(|&p| grams[p][t]).product::<f64>() * root(t));
        Matrix::from_row_major(n, n, numbers.collect())
    };
    // Sizes go round, so that small and large coalitions count alike, as they do in a Shapley value.
    let drawn: Vec<(Vec<usize>, Vec<usize>)> = (0..COALITIONS)
        .map(|c| {
            let mut order = players.clone();
            random.shuffle(&mut order);
            let rest = order.split_off(1 + c % (players.len() - 1));
            (order, rest)
        })
        .collect();
    let losses: Vec<Vec<f64>> = drawn
        .par_iter()
        .map(|(s, rest)| losses(&product(s), &product(rest), weights))
        .collect::<Result<_>>()?;
    let mean = |e: usize| losses.iter().map(|l| l[e]).sum::<f64>();
    let best = (0..GRID.len()).min_by(|&a, &b| mean(a).total_cmp(&mean(b))).unwrap_or(GRID.len() / 2);
    Ok(GRID[best])
}

/// For every η of the grid, the leave-one-out loss relative to that of predicting the mean of the others.
fn losses(present: &Matrix, rest: &Matrix, weights: &[f64]) -> Result<Vec<f64>> {
    let n = present.rows();
    let (values, vectors) = symmetric_eigen(present)?;
    let turned = vectors.transpose().matmul(rest).matmul(&vectors);
    // Leaving one out of a mean: |ψ_i - mean|² / (1 - w_i)², where `rest` holds √w_i √w_j ψ_i·ψ_j.
    let roots: Vec<f64> = weights.iter().map(|w| w.sqrt()).collect();
    let with_mean = rest.matvec(&roots);
    let all = dot(&with_mean, &roots);
    let of_mean: f64 = (0..n)
        .map(|i| {
            let distance = rest[(i, i)] - 2.0 * roots[i] * with_mean[i] + weights[i] * all;
            distance / (1.0 - weights[i]).powi(2)
        })
        .sum();
    Ok(GRID
        .iter()
        .map(|eta| {
            let ridge = *eta;
            let keep: Vec<f64> = values.iter().map(|v| ridge / (v.max(0.0) + ridge)).collect();
            let mut middle = turned.clone();
            for (i, a) in keep.iter().enumerate() {
                middle.row_mut(i).iter_mut().zip(&keep).for_each(|(v, b)| *v *= a * b);
            }
            let left = vectors.matmul(&middle);
            let loss: f64 = (0..n)
                .map(|i| {
                    let kept: f64 = vectors.row(i).iter().zip(&keep).map(|(u, k)| u * u * k).sum();
                    dot(left.row(i), vectors.row(i)) / (kept * kept)
                })
                .sum();
            if of_mean > 0.0 { loss / of_mean } else { 0.0 }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::Cholesky;

    fn gram(x: &[f64], scale: f64) -> Matrix {
        let n = x.len();
        let of = |i: usize, j: usize| (-((x[i] - x[j]) / scale).powi(2) / 2.0).exp();
        Matrix::from_row_major(n, n, (0..n * n).map(|t| of(t / n, t % n)).collect())
    }

    fn sample(n: usize) -> (Vec<f64>, Vec<f64>) {
        let mut random = Random(5);
        let mut uniform = || random.bits() as f64 / u64::MAX as f64 * 4.0 - 2.0;
        let x: Vec<f64> = (0..n).map(|_| uniform()).collect();
        let y = x.iter().map(|x| (2.0 * x).sin() + 0.3 * uniform()).collect();
        (x, y)
    }

    /// The closed form against leaving every row out in turn.
    #[test]
    fn the_loss_is_that_of_leaving_one_out() {
        let n = 12;
        let (x, y) = sample(n);
        let (k, l) = (gram(&x, 0.7), gram(&y, 0.5));
        let total: f64 = (1..=n).map(|i| i as f64).sum();
        let weights: Vec<f64> = (1..=n).map(|i| i as f64 / total).collect();
        let scaled = |m: &Matrix| {
            let of = |t: usize| m.data()[t] * (weights[t % n] * weights[t / n]).sqrt();
            Matrix::from_row_major(n, n, (0..n * n).map(of).collect())
        };
        let found = losses(&scaled(&k), &scaled(&l), &weights).unwrap();
        // Leaving one out keeps the ridges η / w of the others.
        let loss = |ridge: Option<f64>| {
            (0..n)
                .map(|i| {
                    let others: Vec<usize> = (0..n).filter(|&j| j != i).collect();
                    let w = match ridge {
                        None => others.iter().map(|&j| weights[j] / (1.0 - weights[i])).collect(),
                        Some(ridge) => {
                            let mut a = Matrix::zeros(n - 1, n - 1);
                            for (r, &s) in others.iter().enumerate() {
                                for (c, &t) in others.iter().enumerate() {
                                    a[(r, c)] = k[(s, t)] + if r == c { ridge / weights[s] } else { 0.0 };
                                }
                            }
                            let b: Vec<f64> = others.iter().map(|&j| k[(j, i)]).collect();
                            Cholesky::new(a, "test").unwrap().solve_vector(&b)
                        }
                    };
                    let cross: f64 = others.iter().zip(&w).map(|(&j, w)| w * l[(j, i)]).sum();
                    let own: f64 = others
                        .iter()
                        .zip(&w)
                        .flat_map(|(&s, a)| others.iter().zip(&w).map(move |(&t, b)| (s, t, a * b)))
                        .map(|(s, t, w)| w * l[(s, t)])
                        .sum();
                    weights[i] * (l[(i, i)] - 2.0 * cross + own)
                })
                .sum::<f64>()
        };
        for (eta, found) in GRID.iter().zip(found) {
            let expected = loss(Some(*eta)) / loss(None);
            assert!((found - expected).abs() < 1e-7 * expected.max(1.0), "{eta}: {found} {expected}");
        }
    }

    #[test]
    fn noise_asks_for_more_ridge() {
        let (x, y) = sample(150);
        let noise: Vec<f64> = (0..150).map(|i| f64::from(i * 7919 % 151) / 40.0).collect();
        let grams = |y: &[f64]| vec![gram(&x, 0.5).data().to_vec(), gram(y, 0.5).data().to_vec()];
        let equal = vec![1.0 / 150.0; 150];
        let (tight, loose) =
            (choose(&grams(&y), &equal, 0).unwrap(), choose(&grams(&noise), &equal, 0).unwrap());
        assert!(tight < 0.3 * loose, "{tight} {loose}");
        assert_eq!(choose(&grams(&y), &equal, 0).unwrap(), tight);
        assert!(choose(&[vec![1.0; 4], Vec::new()], &[0.5, 0.5], 0).is_ok());
    }

    #[test]
    fn rows_that_are_alike_count_once_with_their_weights() {
        let table = Table::from_rows(&[[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]).unwrap();
        assert_eq!(rows(&table, &[0.25, 0.5, 0.25], 0), (vec![0, 1], vec![0.5, 0.5]));
    }
}

//! The choice of landmarks by randomly pivoted Cholesky, which draws rows with probabilities proportional to
//! the part of the kernel's diagonal that the rows drawn before do not explain.
//!
//! Y.-S. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, "Randomly pivoted Cholesky", CPAM 2024; in blocks
//! with rejection, so that most of the work is products of matrices (Epperly, Tropp and Webber, "Embrace
//! rejection", 2024, algorithm 2.2).

use std::collections::HashSet;

use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix};
use crate::random::{Random, RngExt, SeedableRng};
use crate::table::Table;

/// Rows that are drawn at a time.
const BATCH: usize = 100;

/// Share of the trace that may stay unexplained: further landmarks would be nearly linearly dependent.
pub(super) const TRACE_TOLERANCE: f64 = 1e-9;

/// Landmarks among candidates.
#[derive(Debug, Clone)]
pub struct Landmarks {
    /// Their rows, in the order in which they were drawn: the first so many are a draw of so many.
    pub rows: Vec<usize>,
    /// The share of the kernel's trace over the candidates that they leave unexplained.
    pub unexplained: f64,
}

/// `count` landmarks from the candidates, or fewer where these explain the whole kernel. Cost O(N count (d +
/// count)) for N candidates; memory N count numbers.
///
/// # Errors
/// [`Error::Parameter`] for none; [`Error::Overflow`] where the kernel is not finite; [`Error::Interrupted`].
pub(crate) fn randomly_pivoted_cholesky(
    kernel: &Kernel,
    candidates: &Table,
    count: usize,
    seed: u64,
    control: RunControl<'_>,
) -> Result<Landmarks> {
    if count == 0 {
        return Err(Error::parameter("landmarks", count, "there is at least one"));
    }
    crate::fit::check(candidates, candidates.rows(), 1)?;
    crate::fit::check_range(kernel, candidates)?;
    let n = candidates.rows();
    let diagonal = kernel.diagonal(candidates);
    let mut left = diagonal.clone();
    let trace: f64 = left.iter().sum();
    let mut random = Random::seed_from_u64(seed);
    // Columns of the factor, landmark by landmark: `K ≈ GᵀG`.
    let mut factor = Matrix::from_row_major(0, n, Vec::with_capacity(count.min(n) * n));
    let mut rows: Vec<usize> = Vec::new();
    while rows.len() < count {
        control.check_cancelled()?;
        let total: f64 = left.iter().sum();
        if total.is_nan() || total <= TRACE_TOLERANCE * trace {
            break;
        }
        let drawn = draw(&left, total, BATCH.min(count), &mut random);
        let block = candidates.select_rows(&drawn);
        // The part of the kernel between the drawn rows that the landmarks so far do not explain.
        let mut residual_gram = kernel.gram(&block);
        let known = columns(&factor, &drawn);
        residual_gram.subtract_product(&known, &known);
        drop(known);
        let (mut accepted, lower) = rejection_step(&residual_gram, &drawn, &left, &mut random);
        accepted.truncate(count - rows.len());
        if accepted.is_empty() {
            continue;
        }
        let chosen: Vec<usize> = accepted.iter().map(|&k| drawn[k]).collect();
        let mut new = kernel.cross_gram(&candidates.select_rows(&chosen), candidates);
        new.subtract_product(&columns(&factor, &chosen), &factor);
        let Some(block_factor) = accepted_factor(&lower, &accepted) else { continue };
        block_factor.solve_lower_in_place(&mut new);
        for row in 0..new.rows() {
            left.iter_mut().zip(new.row(row)).for_each(|(l, g)| *l = (*l - g * g).max(0.0));
        }
        chosen.iter().for_each(|&i| left[i] = 0.0);
        // Rounding is no reason to draw a row.
        left.iter_mut().zip(&diagonal).filter(|(l, k)| **l < 1e-13 * **k).for_each(|(l, _)| *l = 0.0);
        let mut data = std::mem::replace(&mut factor, Matrix::zeros(0, 0)).into_data();
        data.extend_from_slice(new.data());
        rows.extend(chosen);
        factor = Matrix::from_row_major(rows.len(), n, data);
    }
    Ok(Landmarks { rows, unexplained: (left.iter().sum::<f64>() / trace).max(0.0) })
}

/// The first so many rows that are equal to none of `chosen`, and to none before them.
pub(super) fn distinct_rows_except(x: &Table, chosen: &[usize], count: usize) -> Vec<usize> {
    let numbers = |i: usize| x.row(i).iter().map(|v| (v + 0.0).to_bits()).collect::<Vec<u64>>();
    let mut known: HashSet<Vec<u64>> = chosen.iter().map(|&i| numbers(i)).collect();
    (0..x.rows()).filter(|&i| known.insert(numbers(i))).take(count).collect()
}

/// Draws `count` rows with probabilities proportional to `left`, with replacement.
fn draw(left: &[f64], total: f64, count: usize, random: &mut Random) -> Vec<usize> {
    let mut sums: Vec<f64> = Vec::with_capacity(left.len());
    left.iter().fold(0.0, |sum, l| {
        sums.push(sum + l);
        sum + l
    });
    let draw_row = || {
        let position = random.random::<f64>() * total;
        let row = sums.partition_point(|sum| *sum <= position).min(left.len() - 1);
        // Sums end a little below or above the total.
        (0..=row).rev().find(|&i| left[i] > 0.0).unwrap_or(row)
    };
    std::iter::repeat_with(draw_row).take(count).collect()
}

/// The accepted ones among the drawn rows, each with the probability that the rows accepted before leave of
/// it, and the Cholesky factor of their kernel matrix; entries of rows that were not accepted are 0.
fn rejection_step(
    residual_gram: &Matrix,
    drawn: &[usize],
    left: &[f64],
    random: &mut Random,
) -> (Vec<usize>, Matrix) {
    let b = drawn.len();
    let mut lower = Matrix::zeros(b, b);
    let mut accepted: Vec<usize> = Vec::new();
    for k in 0..b {
        // Against those that were accepted.
        for t in 0..accepted.len() {
            let j = accepted[t];
            let sum: f64 = accepted[..t].iter().map(|&s| lower[(k, s)] * lower[(j, s)]).sum();
            lower[(k, j)] = (residual_gram[(k, j)] - sum) / lower[(j, j)];
        }
        let residual = residual_gram[(k, k)] - accepted.iter().map(|&s| lower[(k, s)].powi(2)).sum::<f64>();
        if random.random::<f64>() * left[drawn[k]] < residual {
            lower[(k, k)] = residual.sqrt();
            accepted.push(k);
        }
    }
    (accepted, lower)
}

/// The factor of the accepted rows alone.
fn accepted_factor(lower: &Matrix, accepted: &[usize]) -> Option<Cholesky> {
    let packed =
        accepted.iter().enumerate().flat_map(|(t, &k)| accepted[..=t].iter().map(move |&j| lower[(k, j)]));
    Cholesky::from_packed(accepted.len(), &packed.collect::<Vec<_>>(), 0.0)
}

/// Some columns of a matrix.
fn columns(matrix: &Matrix, places: &[usize]) -> Matrix {
    let data = (0..matrix.rows()).flat_map(|i| places.iter().map(move |&j| matrix[(i, j)])).collect();
    Matrix::from_row_major(matrix.rows(), places.len(), data)
}

/// The share of the trace of the kernel over `rows` that `points` do not explain.
#[cfg(test)]
fn unexplained(kernel: &Kernel, rows: &Table, points: &Table) -> f64 {
    let factor = Cholesky::new(kernel.gram(points), "gram").unwrap();
    let mut whitened = kernel.cross_gram(points, rows);
    factor.solve_lower_in_place(&mut whitened);
    let total: f64 = kernel.diagonal(rows).iter().sum();
    1.0 - crate::linalg::dot(whitened.data(), whitened.data()) / total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uneven(n: usize) -> Table {
        let mut random = Random::seed_from_u64(5);
        let mut row = |i: usize| {
            let far = if i.is_multiple_of(50) { 8.0 } else { 0.0 };
            [far + random.random::<f64>(), far + 0.3 * random.random::<f64>(), random.random::<f64>()]
        };
        Table::from_rows(&(0..n).map(&mut row).collect::<Vec<_>>()).unwrap()
    }

    /// The unexplained share is as stated, decreases with every landmark, and is smaller than for uniform
    /// rows.
    #[test]
    fn landmarks_explain_the_kernel() {
        let (x, kernel) = (uneven(600), Kernel::gaussian(&[0.7, 0.5, 0.9]));
        let choice = randomly_pivoted_cholesky(&kernel, &x, 60, 3, RunControl::none()).unwrap();
        assert_eq!(choice.rows.len(), 60);
        let unexplained_share = |rows: &[usize]| unexplained(&kernel, &x, &x.select_rows(rows));
        assert!(
            (unexplained_share(&choice.rows) - choice.unexplained).abs() < 1e-6,
            "{} {}",
            unexplained_share(&choice.rows),
            choice.unexplained
        );
        assert!(unexplained_share(&choice.rows[..20]) > unexplained_share(&choice.rows[..40]));
        let uniform: f64 =
            (0..10).map(|seed| unexplained_share(&x.sample_rows(60, seed))).sum::<f64>() / 10.0;
        assert!(choice.unexplained < 0.6 * uniform, "{} {uniform}", choice.unexplained);
        let again = randomly_pivoted_cholesky(&kernel, &x, 60, 3, RunControl::none()).unwrap();
        assert_eq!(again.rows, choice.rows);
    }

    /// Equal rows are one row, and few dimensions take few landmarks.
    #[test]
    fn there_are_no_more_landmarks_than_needed() {
        let x = Table::from_rows(&(0..90).map(|i| [f64::from(i % 5)]).collect::<Vec<_>>()).unwrap();
        let choice =
            randomly_pivoted_cholesky(&Kernel::gaussian(&[1.0]), &x, 50, 0, RunControl::none()).unwrap();
        assert_eq!(choice.rows.len(), 5);
        let linear = crate::kernel::Linear { columns: vec![0], center: vec![-1.0], scale: vec![1.0] };
        assert_eq!(
            randomly_pivoted_cholesky(&linear.into(), &x, 50, 0, RunControl::none()).unwrap().rows.len(),
            1
        );
        assert!(randomly_pivoted_cholesky(&Kernel::gaussian(&[1.0]), &x, 0, 0, RunControl::none()).is_err());
    }

    /// Rows that are not there yet, in their order; -0 is 0.
    #[test]
    fn others_are_rows_of_their_own() {
        let x = Table::from_rows(&[[1.0], [0.0], [2.0], [-0.0], [1.0], [3.0], [4.0]]).unwrap();
        assert_eq!(distinct_rows_except(&x, &[4, 5], 9), [1, 2, 6]);
        assert_eq!(distinct_rows_except(&x, &[4, 5], 2), [1, 2]);
    }

    /// The frequencies of the first and the second landmark agree with the definition of the method, for
    /// three rows.
    #[test]
    fn rows_are_drawn_by_what_is_left_of_them() {
        let x = Table::from_rows(&[[0.0], [0.4], [2.0]]).unwrap();
        let kernel = Kernel::gaussian(&[1.0]);
        let k = kernel.gram(&x);
        let mut counts = [[0.0; 3]; 3];
        let draws = 6000;
        for seed in 0..draws {
            let chosen = randomly_pivoted_cholesky(&kernel, &x, 2, seed, RunControl::none()).unwrap().rows;
            counts[chosen[0]][chosen[1]] += 1.0 / draws as f64;
        }
        for i in 0..3 {
            let left: Vec<f64> = (0..3).map(|j| 1.0 - k[(i, j)].powi(2)).collect();
            for j in 0..3 {
                let probability = if i == j { 0.0 } else { left[j] / left.iter().sum::<f64>() / 3.0 };
                assert!(
                    (counts[i][j] - probability).abs() < 4.0 * (0.25_f64 / draws as f64).sqrt(),
                    "{i} {j}"
                );
            }
        }
    }
}

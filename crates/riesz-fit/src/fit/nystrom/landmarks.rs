//! The choice of landmarks by randomly pivoted Cholesky, which draws rows with probabilities proportional to
//! the part of the kernel's diagonal that the rows drawn before do not explain.
//!
//! Y.-S. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber, "Randomly pivoted Cholesky", CPAM 2024; in blocks
//! with rejection, so that most of the work is products of matrices (Epperly, Tropp and Webber, "Embrace
//! rejection", 2024, algorithm 2.2).

use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, cumulative_sums, select};
use crate::random::{Random, RngExt, SeedableRng};
use crate::table::Table;

/// Number of rows in a batch of draws.
const BATCH: usize = 100;

/// Share of the trace that may stay unexplained: further landmarks would be nearly linearly dependent.
pub(super) const TRACE_TOLERANCE: f64 = 1e-9;

/// Landmarks that were chosen among candidate rows.
#[derive(Debug, Clone)]
pub struct Landmarks {
    /// Indices of the rows in the order of the draws. Any first part of them is a valid choice of fewer
    /// landmarks.
    pub rows: Vec<usize>,
    /// The share of the kernel's trace over the candidates that the landmarks leave unexplained.
    pub unexplained: f64,
}

/// Chooses `count` landmarks from the candidates, or fewer if these explain the whole kernel. Cost O(N count
/// (d + count)) for N candidates with d columns; memory N count numbers.
///
/// # Errors
/// [`Error::Parameter`] for a count of 0; [`Error::Overflow`] where the kernel is not finite;
/// [`Error::Interrupted`].
pub fn randomly_pivoted_cholesky(
    kernel: &Kernel,
    candidates: &Table,
    count: usize,
    seed: u64,
    control: RunControl<'_>,
) -> Result<Landmarks> {
    if count == 0 {
        return Err(Error::parameter("n_landmarks", count, "choose at least one landmark"));
    }
    crate::checks::check_rows(candidates, candidates.rows(), 1)?;
    crate::checks::check_range(kernel, candidates)?;
    let n = candidates.rows();
    let diagonal = kernel.diagonal(candidates);
    let mut residual = diagonal.clone();
    let trace: f64 = residual.iter().sum();
    let mut random = Random::seed_from_u64(seed);
    // `K ≈ GᵀG`: `factor` is G (landmarks × candidates).
    let mut factor = Matrix::from_row_major(0, n, Vec::with_capacity(count.min(n) * n));
    let mut rows: Vec<usize> = Vec::new();
    while rows.len() < count {
        control.check_cancelled()?;
        let total: f64 = residual.iter().sum();
        if total.is_nan() || total <= TRACE_TOLERANCE * trace {
            break;
        }
        let drawn = draw(&residual, total, BATCH.min(count), &mut random);
        let block = candidates.select_rows(&drawn);
        // The part of the kernel between the drawn rows that the landmarks so far do not explain.
        let mut residual_gram = kernel.gram(&block);
        let earlier: Vec<usize> = (0..rows.len()).collect();
        let block_factors = factor.select(&earlier, &drawn);
        residual_gram.subtract_product(&block_factors, &block_factors);
        drop(block_factors);
        let (mut accepted, lower) = rejection_step(&residual_gram, &drawn, &residual, &mut random);
        accepted.truncate(count - rows.len());
        if accepted.is_empty() {
            continue;
        }
        let chosen = select(&drawn, &accepted);
        let mut new = kernel.cross_gram(&candidates.select_rows(&chosen), candidates);
        new.subtract_product(&factor.select(&earlier, &chosen), &factor);
        let Some(block_factor) = accepted_factor(&lower, &accepted) else { continue };
        block_factor.solve_lower_in_place(&mut new);
        for row in 0..new.rows() {
            residual.iter_mut().zip(new.row(row)).for_each(|(l, g)| *l = (*l - g * g).max(0.0));
        }
        chosen.iter().for_each(|&i| residual[i] = 0.0);
        // Residuals that may be rounding errors must not cause draws.
        residual.iter_mut().zip(&diagonal).filter(|(l, k)| **l < 1e-13 * **k).for_each(|(l, _)| *l = 0.0);
        let mut data = std::mem::replace(&mut factor, Matrix::zeros(0, 0)).into_data();
        data.extend_from_slice(new.data());
        rows.extend(chosen);
        factor = Matrix::from_row_major(rows.len(), n, data);
    }
    Ok(Landmarks { rows, unexplained: (residual.iter().sum::<f64>() / trace).max(0.0) })
}

/// Draws `count` rows with replacement, with probabilities proportional to `residual`, whose sum is `total`.
fn draw(residual: &[f64], total: f64, count: usize, random: &mut Random) -> Vec<usize> {
    let sums = cumulative_sums(residual);
    let draw_row = || {
        let position = random.random::<f64>() * total;
        let row = sums.partition_point(|sum| *sum <= position).min(residual.len() - 1);
        // Rounding may let the last sum differ a little from the total.
        (0..=row).rev().find(|&i| residual[i] > 0.0).unwrap_or(row)
    };
    std::iter::repeat_with(draw_row).take(count).collect()
}

/// The indices of the accepted draws, and the Cholesky factor of their residual kernel matrix. A draw is
/// accepted with the ratio of its residual after the earlier acceptances to its residual in `residuals`. Rows
/// of draws that were not accepted have no meaning.
fn rejection_step(
    residual_gram: &Matrix,
    drawn: &[usize],
    residuals: &[f64],
    random: &mut Random,
) -> (Vec<usize>, Matrix) {
    let b = drawn.len();
    let mut lower = Matrix::zeros(b, b);
    let mut accepted: Vec<usize> = Vec::new();
    for k in 0..b {
        // Solves for the row's entries at the accepted draws.
        for t in 0..accepted.len() {
            let j = accepted[t];
            let sum: f64 = accepted[..t].iter().map(|&s| lower[(k, s)] * lower[(j, s)]).sum();
            lower[(k, j)] = (residual_gram[(k, j)] - sum) / lower[(j, j)];
        }
        let residual = residual_gram[(k, k)] - accepted.iter().map(|&s| lower[(k, s)].powi(2)).sum::<f64>();
        if random.random::<f64>() * residuals[drawn[k]] < residual {
            lower[(k, k)] = residual.sqrt();
            accepted.push(k);
        }
    }
    (accepted, lower)
}

/// The Cholesky factor restricted to the accepted draws.
fn accepted_factor(lower: &Matrix, accepted: &[usize]) -> Option<Cholesky> {
    let packed =
        accepted.iter().enumerate().flat_map(|(t, &k)| accepted[..=t].iter().map(move |&j| lower[(k, j)]));
    Cholesky::from_packed(accepted.len(), &packed.collect::<Vec<_>>(), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gp::inducing_points::distinct_rows_except;

    /// The share of the trace of the kernel over `rows` that `points` do not explain.
    fn unexplained(kernel: &Kernel, rows: &Table, points: &Table) -> f64 {
        let factor = Cholesky::new(kernel.gram(points), "gram").unwrap();
        let mut whitened = kernel.cross_gram(points, rows);
        factor.solve_lower_in_place(&mut whitened);
        let total: f64 = kernel.diagonal(rows).iter().sum();
        1.0 - crate::linalg::dot(whitened.data(), whitened.data()) / total
    }

    fn uneven(n: usize) -> Table {
        let mut random = Random::seed_from_u64(5);
        let mut row = |i: usize| {
            let outlier = if i.is_multiple_of(50) { 8.0 } else { 0.0 };
            [outlier + random.random::<f64>(), outlier + 0.3 * random.random::<f64>(), random.random::<f64>()]
        };
        Table::from_rows(&(0..n).map(&mut row).collect::<Vec<_>>()).unwrap()
    }

    /// The unexplained share is correct, decreases with every landmark, and is smaller than for uniformly
    /// drawn rows.
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
        let repeated = randomly_pivoted_cholesky(&kernel, &x, 60, 3, RunControl::none()).unwrap();
        assert_eq!(repeated.rows, choice.rows);
    }

    /// Equal rows give one landmark, and a kernel of low rank needs few landmarks.
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

    /// The function returns rows that are not chosen yet, in their order; -0 equals 0.
    #[test]
    fn distinct_rows_exclude_the_chosen_ones() {
        let x = Table::from_rows(&[[1.0], [0.0], [2.0], [-0.0], [1.0], [3.0], [4.0]]).unwrap();
        assert_eq!(distinct_rows_except(&x, &[4, 5], 9), [1, 2, 6]);
        assert_eq!(distinct_rows_except(&x, &[4, 5], 2), [1, 2]);
    }

    /// The joint frequencies of the first and second landmark agree with the method's definition for three
    /// rows.
    #[test]
    fn rows_are_drawn_by_their_residual_variance() {
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
            let residual: Vec<f64> = (0..3).map(|j| 1.0 - k[(i, j)].powi(2)).collect();
            for j in 0..3 {
                let probability = if i == j { 0.0 } else { residual[j] / residual.iter().sum::<f64>() / 3.0 };
                assert!(
                    (counts[i][j] - probability).abs() < 4.0 * (0.25_f64 / draws as f64).sqrt(),
                    "{i} {j}"
                );
            }
        }
    }
}

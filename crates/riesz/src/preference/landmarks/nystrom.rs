//! Nyström approximation of a kernel. The inner products of its features equal the kernel if one of the two
//! rows is a landmark.
//!
//! With q landmarks Z and `f(x) = L⁻¹ k(Z, x)` (q), `LLᵀ = k(Z, Z)` (q × q), the approximate kernel is
//! `f(x)ᵀf(x')`. Landmarks are chosen by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2023):
//! rows are drawn one after the other with probabilities proportional to their unexplained variance.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::kernel::{Columns, Kernel};
use crate::linalg::{Cholesky, Matrix, dot, symmetric_eigen};
use crate::random::{Random, RngExt, SeedableRng};
use crate::simd::Isa;
use crate::table::Table;

/// Share of unexplained variance below which a row is considered explained by the landmarks.
const VARIANCE_TOLERANCE: f64 = 1e-8;

/// The Nyström approximation of a kernel.
#[derive(Debug, Clone)]
pub(super) struct Nystrom {
    pub kernel: Kernel,
    /// The landmarks, q rows.
    pub landmarks: Table,
    /// The matrix (q × q) by which kernel values with the landmarks are multiplied to obtain features.
    pub basis: Matrix,
}

/// Landmarks chosen from the rows of a table.
pub(super) struct LandmarkChoice {
    pub feature_map: Nystrom,
    /// Features of the rows, rows × q.
    pub features: Matrix,
    /// Weights of each row that interpolate values at the landmarks, rows × q.
    pub interpolation: Matrix,
    /// The share of the rows' variance that the landmarks do not explain.
    pub unexplained: f64,
}

impl Nystrom {
    /// Chooses at most `max_landmarks` of the rows. Features are rotated so that their second moments, with
    /// row i weighted by `row_weights[i]`, are diagonal. This speeds up conjugate gradients and does not
    /// change the kernel. Cost O(rows q²).
    ///
    /// # Errors
    /// [`Error::Overflow`]; [`Error::Parameter`] if the kernel of each row with itself is 0;
    /// [`Error::Interrupted`].
    pub fn choose(
        kernel: &Kernel,
        rows: &Table,
        max_landmarks: usize,
        row_weights: &[f64],
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<LandmarkChoice> {
        let (chosen, mut features, unexplained) =
            randomly_pivoted_cholesky(kernel, rows, max_landmarks, seed, stop)?;
        let q = chosen.len();
        let rows_of_lower = chosen.iter().enumerate().map(|(i, &row)| &features.row(row)[..=i]);
        let packed: Vec<f64> = rows_of_lower.flatten().copied().collect();
        let lower = Cholesky::from_packed(q, &packed, 0.0).ok_or_else(overflow)?;
        let mut interpolation = features.transpose();
        lower.solve_upper_in_place(&mut interpolation);

        let mut weighted = features.clone();
        weighted.scale_rows(row_weights.iter().copied());
        let (_, rotation) = symmetric_eigen(&features.transpose().matmul(&weighted))?;
        features = features.matmul(&rotation);
        let mut basis = rotation;
        lower.solve_upper_in_place(&mut basis);
        let feature_map = Self { kernel: kernel.clone(), landmarks: rows.select_rows(&chosen), basis };
        Ok(LandmarkChoice { feature_map, features, interpolation: interpolation.transpose(), unexplained })
    }

    /// Returns the features of rows with the columns of the landmarks, rows × q. Cost O(rows q²).
    ///
    /// # Errors
    /// As [`Table::align_to`].
    pub fn features(&self, rows: &Table) -> Result<Matrix> {
        let rows = rows.align_to(self.landmarks.columns())?;
        Ok(self.kernel.cross_gram(&rows, &self.landmarks).matmul(&self.basis))
    }
}

fn overflow() -> Error {
    Error::overflow("the kernel between landmarks", "check the kernel's parameters")
}

/// Returns the indices of the landmarks, the factor F (rows × q) of the approximate kernel `FFᵀ` between all
/// rows, and the unexplained share of the variance.
fn randomly_pivoted_cholesky(
    kernel: &Kernel,
    rows: &Table,
    max_landmarks: usize,
    seed: u64,
    stop: &AtomicBool,
) -> Result<(Vec<usize>, Matrix, f64)> {
    let (n, max_landmarks) = (rows.rows(), max_landmarks.min(rows.rows()));
    let diagonal = kernel.diagonal(rows);
    if diagonal.iter().any(|v| !v.is_finite()) {
        return Err(overflow());
    }
    let mut residual = diagonal.clone();
    let mut random = Random::seed_from_u64(seed);
    let (mut chosen, mut f) = (Vec::new(), Matrix::zeros(n, max_landmarks));
    let (isa, mut buffer, mut column) = (Isa::detect(), Vec::new(), vec![0.0; n]);
    while chosen.len() < max_landmarks {
        check_cancelled(stop)?;
        let is_unexplained = |i: &usize| residual[*i] > VARIANCE_TOLERANCE * diagonal[*i];
        let total: f64 = (0..n).filter(is_unexplained).map(|i| residual[i]).sum();
        let mut threshold = total * random.random::<f64>();
        let mut pivot_row = None;
        for i in (0..n).filter(is_unexplained) {
            pivot_row = Some(i);
            threshold -= residual[i];
            if threshold < 0.0 {
                break;
            }
        }
        let Some(pivot_row) = pivot_row else { break };
        let t = chosen.len();
        kernel.row(isa, Columns::from_row(rows, 0), &rows.row(pivot_row), &mut buffer, &mut column);
        let pivot_features = f.row(pivot_row)[..t].to_vec();
        let root = residual[pivot_row].sqrt();
        f.data_mut().par_chunks_mut(max_landmarks).zip(&column).zip(&mut residual).for_each(
            |((row, k), residual)| {
                row[t] = (k - dot(&row[..t], &pivot_features)) / root;
                *residual = (*residual - row[t] * row[t]).max(0.0);
            },
        );
        f[(pivot_row, t)] = root;
        residual[pivot_row] = 0.0;
        chosen.push(pivot_row);
    }
    let q = chosen.len();
    if q == 0 {
        let allowed = "the kernel is positive for at least one item with itself";
        return Err(Error::parameter("kernel", "0 between all items", allowed));
    }
    if q < max_landmarks {
        f = f.block(0..n, 0..q);
    }
    Ok((chosen, f, residual.iter().sum::<f64>() / diagonal.iter().sum::<f64>()))
}

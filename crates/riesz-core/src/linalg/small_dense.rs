//! Dense column-major linear algebra within one thread, for repeated operations on small matrices in memory
//! that is reused.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor;
use faer::linalg::matmul::{self, triangular, triangular::BlockStructure};
use faer::linalg::triangular_solve;
use faer::{Accum, MatMut, MatRef, Par, reborrow::*};
use std::sync::atomic::AtomicBool;

use crate::control;
use crate::error::Result;

/// Replaces the lower triangle of the n × n matrix `a` by its Cholesky factor; returns false if `a` is not
/// positive definite.
pub fn cholesky_in_place(a: &mut [f64], n: usize) -> bool {
    factor_in_place(MatMut::from_column_major_slice_mut(a, n, n), Par::Seq)
}

/// Replaces the lower triangle by its Cholesky factor; returns false if a pivot is not positive or not
/// finite.
pub(super) fn factor_in_place(mut a: MatMut<'_, f64>, par: Par) -> bool {
    let scratch = factor::cholesky_in_place_scratch::<f64>(a.nrows(), par, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let memory = MemStack::new(&mut memory);
    factor::cholesky_in_place(a.rb_mut(), Default::default(), par, memory, Default::default()).is_ok()
        && (0..a.nrows()).all(|i| a[(i, i)].is_finite())
}

/// Factors as [`cholesky_in_place`] does, but for large matrices it can be cancelled within a second.
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub fn cholesky_until(a: &mut [f64], n: usize, stop: &AtomicBool) -> Result<bool> {
    // One column takes at most n²/4 multiplications.
    let width = (8 * control::CHUNK_COST / (n * n).max(1)).max(64);
    if width < n { cholesky_by_columns(a, n, width, stop) } else { Ok(cholesky_in_place(a, n)) }
}

/// The Cholesky factorisation in panels of `width` columns.
fn cholesky_by_columns(a: &mut [f64], n: usize, width: usize, stop: &AtomicBool) -> Result<bool> {
    let mut a = MatMut::from_column_major_slice_mut(a, n, n);
    for start in (0..n).step_by(width) {
        control::check_cancelled(stop)?;
        // The next columns, after subtracting the part that the previous columns explain.
        let next = width.min(n - start);
        let (before, after) = a.rb_mut().split_at_col_mut(start);
        let (before, mut panel) =
            (before.rb().subrows(start, n - start), after.subcols_mut(0, next).subrows_mut(start, n - start));
        matmul::matmul(
            panel.rb_mut(),
            Accum::Add,
            before,
            before.subrows(0, next).transpose(),
            -1.0,
            Par::Seq,
        );
        let (mut square, below) = panel.split_at_row_mut(next);
        if !factor_in_place(square.rb_mut(), Par::Seq) {
            return Ok(false);
        }
        triangular_solve::solve_lower_triangular_in_place(square.rb(), below.transpose_mut(), Par::Seq);
    }
    Ok(true)
}

/// Solves `L Lᵀ X = B` in place; `b` is n × columns.
pub fn solve_in_place(lower: &[f64], n: usize, b: &mut [f64]) {
    let columns = b.len() / n.max(1);
    let l = MatRef::from_column_major_slice(lower, n, n);
    let mut b = MatMut::from_column_major_slice_mut(b, n, columns);
    triangular_solve::solve_lower_triangular_in_place(l, b.as_mut(), Par::Seq);
    triangular_solve::solve_upper_triangular_in_place(l.transpose(), b, Par::Seq);
}

/// Solves `L X = B` in place; `b` is n × columns.
#[inline]
pub fn solve_lower_in_place(lower: &[f64], n: usize, b: &mut [f64]) {
    let columns = b.len() / n.max(1);
    let b = MatMut::from_column_major_slice_mut(b, n, columns);
    let l = MatRef::from_column_major_slice(lower, n, n);
    triangular_solve::solve_lower_triangular_in_place(l, b, Par::Seq);
}

/// Computes `out += a b`, where `out` has as many rows as `a` and as many columns as `b`.
fn add_matmul(out: &mut [f64], a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    let out = MatMut::from_column_major_slice_mut(out, a.nrows(), b.ncols());
    matmul::matmul(out, Accum::Add, a, b, 1.0, Par::Seq);
}

/// Computes `out += a bᵀ`, where `a` is m × c, `b` k × c, and `out` m × k.
#[inline]
pub fn add_outer_product(out: &mut [f64], a: &[f64], b: &[f64], m: usize) {
    if out.is_empty() {
        return;
    }
    let (k, c) = (out.len() / m, a.len() / m);
    let b = MatRef::from_column_major_slice(b, k, c);
    add_matmul(out, MatRef::from_column_major_slice(a, m, c), b.transpose());
}

/// Computes the lower triangle of the symmetric `out += a bᵀ`; `a` and `b` are m × c, and `out` m × m.
#[inline]
pub fn add_lower_outer_product(out: &mut [f64], a: &[f64], b: &[f64], m: usize) {
    let c = a.len() / m;
    let out = MatMut::from_column_major_slice_mut(out, m, m);
    let (a, b) = (MatRef::from_column_major_slice(a, m, c), MatRef::from_column_major_slice(b, m, c));
    triangular_matmul(out, BlockStructure::TriangularLower, Accum::Add, a, b.transpose(), Par::Seq);
}

/// Computes one triangle of `a b`, or adds it to `out`.
pub(super) fn triangular_matmul(
    out: MatMut<'_, f64>,
    triangle: BlockStructure,
    accum: Accum,
    a: MatRef<'_, f64>,
    b: MatRef<'_, f64>,
    par: Par,
) {
    let full = BlockStructure::Rectangular;
    triangular::matmul(out, triangle, accum, a, full, b, full, 1.0, par);
}

/// Computes `out += a b`, where `a` is m × k, `b` k × columns, and `out` m × columns.
#[inline]
pub fn add_product(out: &mut [f64], a: &[f64], b: &[f64], m: usize) {
    if out.is_empty() {
        return;
    }
    let (k, columns) = (a.len() / m, out.len() / m);
    let b = MatRef::from_column_major_slice(b, k, columns);
    add_matmul(out, MatRef::from_column_major_slice(a, m, k), b);
}

/// Computes `out += aᵀ b`, where `a` is rows × m, `b` rows × k, and `out` m × k.
#[inline]
pub fn add_transposed_product(out: &mut [f64], a: &[f64], b: &[f64], rows: usize) {
    let (m, k) = (a.len() / rows, b.len() / rows);
    let a = MatRef::from_column_major_slice(a, rows, m);
    add_matmul(out, a.transpose(), MatRef::from_column_major_slice(b, rows, k));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_after_columns_give_the_same_factor() {
        let n = 50;
        let entry = |t: usize| (-((t / n) as f64 - (t % n) as f64).abs() / 9.0).exp();
        let matrix: Vec<f64> = (0..n * n).map(entry).collect();
        let (mut expected, stop) = (matrix.clone(), AtomicBool::new(false));
        assert!(cholesky_in_place(&mut expected, n));
        for width in [1, 7, 49, 50] {
            let mut parts = matrix.clone();
            assert!(cholesky_by_columns(&mut parts, n, width, &stop).unwrap());
            let lower = (0..n * n).filter(|t| t % n >= t / n);
            assert!(lower.into_iter().all(|t| (parts[t] - expected[t]).abs() < 1e-13), "{width}");
            let mut indefinite = matrix.clone();
            indefinite[40 * n + 40] = -1.0;
            assert!(!cholesky_by_columns(&mut indefinite, n, width, &stop).unwrap());
        }
        assert!(cholesky_by_columns(&mut expected, n, 7, &AtomicBool::new(true)).is_err());
    }
}

//! Linear algebra for kernel machines, based on the `faer` library. No type of that library appears in a
//! public signature, so only this module depends on it.

pub mod block_cg;
pub mod conjugate_gradients;
pub mod exact_gram;
mod pivoted;
pub mod small_dense;
mod sparse;
mod vectors;

pub use pivoted::low_rank_factor;
use small_dense::{factor_in_place, triangular_matmul};
pub use sparse::Sparse;
pub use vectors::{
    add_multiple, add_to, cumulative_sums, descending, differences, dot, dot_roundings, index_pairs, max_abs,
    mean, min_max, multiply_entries, plus_multiple, products, raise_to_abs, select, sorted,
    squared_deviations, squared_distance, sum_vectors,
};

use std::ops::Range;

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::BlockStructure::TriangularUpper;
use faer::linalg::solvers::Solve;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A row-major matrix of doubles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Matrix {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self::filled(rows, cols, 0.0)
    }

    /// The identity matrix.
    pub fn identity(n: usize) -> Self {
        let mut identity = Self::zeros(n, n);
        identity.add_diagonal(|_| 1.0);
        identity
    }

    /// Wraps row-major `data`.
    ///
    /// # Panics
    /// If `data` does not have `rows * cols` numbers.
    pub fn from_row_major(rows: usize, cols: usize, data: Vec<f64>) -> Self {
        assert_eq!(data.len(), rows * cols, "a {rows}x{cols} matrix needs {} numbers", rows * cols);
        Self { rows, cols, data }
    }

    /// The rows with these indices, in this order.
    pub fn select_rows(&self, rows: &[usize]) -> Self {
        let data = rows.iter().flat_map(|i| self.row(*i).iter().copied()).collect();
        Self { rows: rows.len(), cols: self.cols, data }
    }

    /// A matrix with one column.
    pub fn column_vector(data: Vec<f64>) -> Self {
        Self { rows: data.len(), cols: 1, data }
    }

    /// Creates a matrix with `entry(i, j)` in row i and column j.
    pub fn from_fn(rows: usize, cols: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let mut data = Vec::with_capacity(rows * cols);
        (0..rows).for_each(|i| data.extend((0..cols).map(|j| entry(i, j))));
        Self { rows, cols, data }
    }

    /// Creates a matrix of columns with `rows` numbers each.
    pub fn from_columns(rows: usize, columns: &[Vec<f64>]) -> Self {
        Self::from_fn(rows, columns.len(), |i, j| columns[j][i])
    }

    /// Creates a matrix whose entries are all `value`.
    pub fn filled(rows: usize, cols: usize, value: f64) -> Self {
        Self { rows, cols, data: vec![value; rows * cols] }
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[inline]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The numbers, row by row.
    #[inline]
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// The numbers, row by row, mutable.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// Returns the numbers, row by row, and consumes the matrix.
    pub fn into_data(self) -> Vec<f64> {
        self.data
    }

    /// The leading `size` rows and columns, in the same memory.
    pub fn truncate_square(mut self, size: usize) -> Self {
        if size < self.cols {
            (1..size).for_each(|i| self.data.copy_within(i * self.cols..i * self.cols + size, i * size));
        }
        self.data.truncate(size * size);
        Self { rows: size, cols: size, data: self.data }
    }

    /// Row `i`.
    #[inline]
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// Row `i`, mutable.
    #[inline]
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * self.cols..(i + 1) * self.cols]
    }

    /// Column `j` as a new vector.
    pub fn column(&self, j: usize) -> Vec<f64> {
        (0..self.rows).map(|i| self[(i, j)]).collect()
    }

    /// The first `count` rows.
    pub fn first_rows(&self, count: usize) -> Self {
        Self { rows: count, cols: self.cols, data: self.data[..count * self.cols].to_vec() }
    }

    /// The entries at these rows and columns, in this order.
    pub fn select(&self, rows: &[usize], cols: &[usize]) -> Self {
        Self::from_fn(rows.len(), cols.len(), |i, j| self[(rows[i], cols[j])])
    }

    /// The entries in these rows and columns.
    pub fn block(&self, rows: Range<usize>, cols: Range<usize>) -> Self {
        Self::from_fn(rows.len(), cols.len(), |i, j| self[(rows.start + i, cols.start + j)])
    }

    /// Creates a matrix of the columns of matrices with `rows` rows each.
    pub fn side_by_side<'m>(rows: usize, parts: impl Iterator<Item = &'m Self> + Clone) -> Self {
        let data: Vec<f64> =
            (0..rows).flat_map(|i| parts.clone().flat_map(move |part| part.row(i))).copied().collect();
        Self { rows, cols: parts.map(Self::cols).sum(), data }
    }

    /// Adds a matrix of the same size times a factor.
    pub fn add_times(&mut self, factor: f64, other: &Self) {
        add_multiple(&mut self.data, factor, &other.data);
    }

    /// Multiplies all entries by a factor.
    pub fn scale(&mut self, factor: f64) {
        self.map_in_place(|v| v * factor);
    }

    /// Replaces each entry by a function of it.
    pub fn map_in_place(&mut self, function: impl Fn(f64) -> f64) {
        self.data.iter_mut().for_each(|v| *v = function(*v));
    }

    /// Multiplies each entry by that of a matrix of the same size.
    pub fn multiply(&mut self, factors: &Self) {
        multiply_entries(&mut self.data, &factors.data);
    }

    /// Multiplies each row by its factor.
    pub fn scale_rows(&mut self, factors: impl IntoIterator<Item = f64>) {
        for (row, factor) in self.data.chunks_exact_mut(self.cols.max(1)).zip(factors) {
            row.iter_mut().for_each(|v| *v *= factor);
        }
    }

    /// Multiplies each column by its factor.
    pub fn scale_columns(&mut self, factors: impl Iterator<Item = f64> + Clone) {
        for row in self.data.chunks_exact_mut(self.cols.max(1)) {
            row.iter_mut().zip(factors.clone()).for_each(|(v, factor)| *v *= factor);
        }
    }

    /// Adds the outer product of two vectors.
    pub fn add_outer(&mut self, left: impl IntoIterator<Item = f64>, right: &[f64]) {
        for (row, factor) in self.data.chunks_exact_mut(self.cols.max(1)).zip(left) {
            add_multiple(row, factor, right);
        }
    }

    /// The sum of the diagonal.
    pub fn trace(&self) -> f64 {
        self.diagonal().sum()
    }

    /// The mean of the diagonal; 0 for an empty matrix.
    pub fn mean_diagonal(&self) -> f64 {
        self.trace() / self.rows.max(1) as f64
    }

    /// The square roots of the diagonal of a covariance; 0 for variances that rounding made negative.
    pub fn standard_deviations(&self) -> Vec<f64> {
        self.diagonal().map(|variance| variance.max(0.0).sqrt()).collect()
    }

    /// The diagonal, from the first row.
    pub fn diagonal(&self) -> impl Iterator<Item = f64> {
        (0..self.rows).map(|i| self[(i, i)])
    }

    /// Adds `value(i)` to the i-th diagonal element.
    pub fn add_diagonal(&mut self, value: impl Fn(usize) -> f64) {
        for i in 0..self.rows.min(self.cols) {
            self.data[i * self.cols + i] += value(i);
        }
    }

    /// Copies the upper triangle to the lower one, in tiles that stay in the cache.
    pub fn mirror_upper(&mut self) {
        const TILE: usize = 32;
        let n = self.rows;
        for i0 in (0..n).step_by(TILE) {
            for j0 in (0..=i0).step_by(TILE) {
                for i in i0..(i0 + TILE).min(n) {
                    for j in j0..(j0 + TILE).min(i) {
                        self.data[i * n + j] = self.data[j * n + i];
                    }
                }
            }
        }
    }

    fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.data, self.rows, self.cols)
    }

    fn view_mut(&mut self) -> MatMut<'_, f64> {
        MatMut::from_row_major_slice_mut(&mut self.data, self.rows, self.cols)
    }

    /// The product `self * other`.
    ///
    /// # Panics
    /// If the inner sizes differ.
    pub fn matmul(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.cols, other.rows, "inner sizes differ");
        let mut out = Matrix::zeros(self.rows, other.cols);
        matmul(out.view_mut(), Accum::Replace, self.view(), other.view(), 1.0, par());
        out
    }

    /// The product `selfᵀ * other`.
    ///
    /// # Panics
    /// If the numbers of rows differ.
    pub fn transpose_matmul(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.rows, other.rows, "inner sizes differ");
        let mut out = Matrix::zeros(self.cols, other.cols);
        let (left, right) = (self.view().transpose(), other.view());
        matmul(out.view_mut(), Accum::Replace, left, right, 1.0, par());
        out
    }

    /// Returns `CᵀMC` for this matrix M and columns C.
    pub fn quadratic_form(&self, columns: &Matrix) -> Matrix {
        columns.transpose_matmul(&self.matmul(columns))
    }

    /// Subtracts `aᵀ b`.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn subtract_product(&mut self, a: &Matrix, b: &Matrix) {
        let (left, right) = (a.view().transpose(), b.view());
        matmul(self.view_mut(), Accum::Add, left, right, -1.0, par());
    }

    /// The product `selfᵀ self`, at half the cost of a general product.
    pub fn gram_of_columns(&self) -> Matrix {
        let mut out = Matrix::zeros(self.cols, self.cols);
        let (left, right) = (self.view().transpose(), self.view());
        triangular_matmul(out.view_mut(), TriangularUpper, Accum::Replace, left, right, par());
        out.mirror_upper();
        out
    }

    /// Adds `AᵀA` to the upper triangle of this square matrix; `columns` holds A column by column. The strict
    /// lower triangle does not change.
    pub fn add_gram_of_columns(&mut self, columns: &[f64]) {
        let n = columns.len() / self.cols.max(1);
        let a = MatRef::from_column_major_slice(columns, n, self.cols);
        triangular_matmul(self.view_mut(), TriangularUpper, Accum::Add, a.transpose(), a, par());
    }

    /// The product with a vector.
    pub fn matvec(&self, v: &[f64]) -> Vec<f64> {
        (0..self.rows).map(|i| dot(self.row(i), v)).collect()
    }

    /// The product of the transpose with a vector: the sum of the rows, each times its factor.
    pub fn transpose_matvec(&self, factors: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.cols];
        for (i, factor) in factors.iter().enumerate() {
            add_multiple(&mut out, *factor, self.row(i));
        }
        out
    }

    /// The inner product of each column with the column of another matrix of the same size.
    pub fn column_dots(&self, other: &Self) -> Vec<f64> {
        let mut out = vec![0.0; self.cols];
        for i in 0..self.rows {
            let entries = out.iter_mut().zip(self.row(i)).zip(other.row(i));
            entries.for_each(|((o, a), b)| *o += a * b);
        }
        out
    }

    /// The transpose.
    pub fn transpose(&self) -> Matrix {
        if self.rows == 1 || self.cols == 1 {
            return Matrix { rows: self.cols, cols: self.rows, data: self.data.clone() };
        }
        let mut out = Matrix::zeros(self.cols, self.rows);
        for i in 0..self.rows {
            for j in 0..self.cols {
                out.data[j * self.rows + i] = self.data[i * self.cols + j];
            }
        }
        out
    }
}

impl std::ops::Index<(usize, usize)> for Matrix {
    type Output = f64;
    #[inline]
    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.data[i * self.cols + j]
    }
}

impl std::ops::IndexMut<(usize, usize)> for Matrix {
    #[inline]
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.data[i * self.cols + j]
    }
}

/// The number of parts into which faer splits work among the threads of the current rayon pool. Its results
/// depend on this number. A fixed number makes matrix-vector products, triangular solves and eigenvectors
/// independent of the number of threads.
fn par() -> Par {
    Par::rayon(16)
}

/// The Cholesky factor of a symmetric positive definite matrix, with the jitter that its diagonal needed.
#[derive(Debug, Clone)]
pub struct Cholesky {
    lower: Matrix,
    /// The number that was added to every diagonal element; 0 if nothing was added.
    pub jitter: f64,
}

/// Jitters in the order of the attempts, relative to the mean of the diagonal.
const JITTERS: [f64; 7] = [0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7];

impl Cholesky {
    /// Factors a symmetric matrix; only its lower triangle is read. If this fails, the factorisation is
    /// repeated with a growing jitter on the diagonal, from 1e-12 to 1e-7 of its mean.
    /// [`jitter`](Self::jitter) reports the jitter. Cost n³/3.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`]; `name` names the matrix in the message.
    pub fn new(matrix: Matrix, name: &'static str) -> Result<Self> {
        let mean = matrix.mean_diagonal();
        Self::with_jitter_scale(matrix, mean, name)
    }

    /// Factors as [`new`](Self::new) does, with jitters relative to `mean` instead of the mean of the
    /// diagonal. If the matrix is a small difference of larger matrices, `mean` is the size of the larger
    /// ones.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_jitter_scale(matrix: Matrix, mean: f64, name: &'static str) -> Result<Self> {
        let n = matrix.rows;
        let diagonal: Vec<f64> = matrix.diagonal().collect();
        let mut lower = matrix;
        for (attempt, relative) in JITTERS.iter().enumerate() {
            let jitter = relative * mean;
            if attempt > 0 {
                // The factorisation overwrote the lower triangle; the strict upper one is intact.
                lower.mirror_upper();
                (0..n).for_each(|i| lower[(i, i)] = diagonal[i] + jitter);
            }
            if factor_in_place(lower.view_mut(), par()) {
                return Ok(Self { lower, jitter });
            }
        }
        Err(Error::NotPositiveDefinite { matrix: name, size: n, jitter: JITTERS[JITTERS.len() - 1] * mean })
    }

    /// Size of the matrix.
    pub fn size(&self) -> usize {
        self.lower.rows
    }

    /// Solves `A X = B` in place.
    pub fn solve(&self, mut b: Matrix) -> Matrix {
        self.solve_lower_in_place(&mut b);
        self.solve_upper_in_place(&mut b);
        b
    }

    /// Solves `A x = b`.
    pub fn solve_vector(&self, b: &[f64]) -> Vec<f64> {
        self.solve(Matrix::column_vector(b.to_vec())).data
    }

    /// Returns `CᵀA⁻¹C` for the factored matrix A and columns C.
    pub fn inverse_quadratic_form(&self, mut columns: Matrix) -> Matrix {
        self.solve_lower_in_place(&mut columns);
        columns.transpose_matmul(&columns)
    }

    /// Solves `L X = B` in place, with `A = L Lᵀ`.
    pub fn solve_lower_in_place(&self, b: &mut Matrix) {
        self.solve_lower(b.view_mut());
    }

    /// Solves `X Lᵀ = B` in place: [`solve_lower_in_place`](Self::solve_lower_in_place) applied to every row.
    pub fn solve_lower_right(&self, b: &mut Matrix) {
        self.solve_lower(b.view_mut().transpose_mut());
    }

    fn solve_lower(&self, b: MatMut<'_, f64>) {
        solve_lower_triangular_in_place(self.lower.view(), b, par());
    }

    /// Solves `Lᵀ X = B` in place, with `A = L Lᵀ`.
    pub fn solve_upper_in_place(&self, b: &mut Matrix) {
        self.solve_upper(b.view_mut());
    }

    /// Solves `X L = B` in place: [`solve_upper_in_place`](Self::solve_upper_in_place) applied to every row.
    pub fn solve_upper_right(&self, b: &mut Matrix) {
        self.solve_upper(b.view_mut().transpose_mut());
    }

    fn solve_upper(&self, b: MatMut<'_, f64>) {
        let upper = self.lower.view().transpose();
        solve_upper_triangular_in_place(upper, b, par());
    }

    /// Solves as [`solve_upper_in_place`](Self::solve_upper_in_place) does, with the leading n rows and
    /// columns of L, where n is the number of rows of B.
    pub fn solve_first_upper_in_place(&self, b: &mut Matrix) {
        let n = b.rows();
        let upper = self.lower.view().submatrix(0, 0, n, n).transpose();
        solve_upper_triangular_in_place(upper, b.view_mut(), par());
    }

    /// The product `Lᵀ B`.
    pub fn upper_times(&self, b: &Matrix) -> Matrix {
        let mut out = Matrix::zeros(b.rows, b.cols);
        for i in 0..b.rows {
            let from = b.row(i);
            for (sums, l) in out.data.chunks_exact_mut(b.cols).zip(&self.lower.row(i)[..=i]) {
                add_multiple(sums, *l, from);
            }
        }
        out
    }

    /// The product `L B`.
    pub fn lower_times(&self, b: &Matrix) -> Matrix {
        let mut out = Matrix::zeros(b.rows, b.cols);
        out.data.par_chunks_mut(b.cols.max(1)).enumerate().for_each(|(i, sums)| {
            for (j, l) in self.lower.row(i)[..=i].iter().enumerate() {
                add_multiple(sums, *l, b.row(j));
            }
        });
        out
    }

    /// The log determinant `log det A`.
    pub fn log_det(&self) -> f64 {
        2.0 * (0..self.size()).map(|i| self.lower[(i, i)].ln()).sum::<f64>()
    }

    /// The inverse of `A`. Cost 2n³/3; needs temporary memory for another n² numbers.
    pub fn inverse(&self) -> Matrix {
        use faer::linalg::cholesky::llt::inverse;
        let n = self.size();
        let par = par();
        let mut out = Matrix::zeros(n, n);
        let mut memory = MemBuffer::new(inverse::inverse_scratch::<f64>(n, par));
        // faer fills the lower triangle of the transpose, which is the upper triangle here.
        inverse::inverse(out.view_mut().transpose_mut(), self.lower.view(), par, MemStack::new(&mut memory));
        out.mirror_upper();
        out
    }

    /// The diagonal of the inverse of `A`: the squared norms of the columns of `L⁻¹`. Cost n³/3; needs
    /// temporary memory for n² numbers.
    pub fn inverse_diagonal(&self) -> Vec<f64> {
        use faer::linalg::triangular_inverse::invert_lower_triangular;
        let n = self.size();
        let mut inverse = Matrix::zeros(n, n);
        invert_lower_triangular(inverse.view_mut(), self.lower.view(), par());
        let mut squares = vec![0.0; n];
        for i in 0..n {
            squares.iter_mut().zip(&inverse.row(i)[..=i]).for_each(|(sum, v)| *sum += v * v);
        }
        squares
    }

    /// An upper bound on the norm of the inverse of `A` and on the norm of the matrix of its absolute values.
    /// The bound is the smaller of the largest row sum of absolute values and the Frobenius norm. Cost 2n³/3,
    /// with memory for a few columns.
    pub fn inverse_norm(&self) -> f64 {
        const COLUMNS: usize = 256;
        let n = self.size();
        let (mut sums, mut squares) = (vec![0.0; n], 0.0);
        for start in (0..n).step_by(COLUMNS) {
            let width = COLUMNS.min(n - start);
            // Computes the entries from the diagonal downwards; the entries above follow by symmetry.
            let mut columns = Matrix::zeros(n - start, width);
            columns.add_diagonal(|_| 1.0);
            let lower = self.lower.view().submatrix(start, start, n - start, n - start);
            solve_lower_triangular_in_place(lower, columns.view_mut(), par());
            solve_upper_triangular_in_place(lower.transpose(), columns.view_mut(), par());
            for i in start..n {
                for (k, v) in columns.row(i - start).iter().enumerate() {
                    sums[i] += v.abs();
                    squares += v * v;
                    if i >= start + width {
                        sums[start + k] += v.abs();
                        squares += v * v;
                    }
                }
            }
        }
        sums.into_iter().fold(0.0, f64::max).min(squares.sqrt())
    }

    /// The factor L from its n(n + 1)/2 numbers, row by row, as [`packed`](Self::packed) returns them. `None`
    /// unless all numbers are finite and the diagonal is positive.
    pub fn from_packed(size: usize, packed: &[f64], jitter: f64) -> Option<Self> {
        let mut lower = Matrix::zeros(size, size);
        let mut remaining = packed;
        for i in 0..size {
            let (entries, later_rows) = remaining.split_at_checked(i + 1)?;
            lower.row_mut(i)[..=i].copy_from_slice(entries);
            remaining = later_rows;
        }
        let valid = remaining.is_empty() && jitter >= 0.0 && jitter.is_finite();
        let valid = valid && packed.iter().all(|l| l.is_finite()) && (0..size).all(|i| lower[(i, i)] > 0.0);
        valid.then_some(Self { lower, jitter })
    }

    /// The numbers of L on and below its diagonal, row by row.
    pub fn packed(&self) -> impl Iterator<Item = f64> {
        (0..self.size()).flat_map(|i| self.lower.row(i)[..=i].iter().copied())
    }

    /// The lower factor `L`. The part above the diagonal holds the matrix that was factored.
    pub fn lower(&self) -> &Matrix {
        &self.lower
    }
}

/// Eigenvalues (ascending) and eigenvectors (columns) of a symmetric matrix.
///
/// # Errors
/// [`Error::Overflow`] if the iteration fails, which happens only for entries that are not finite.
pub fn symmetric_eigen(matrix: &Matrix) -> Result<(Vec<f64>, Matrix)> {
    use faer::linalg::evd;
    let n = matrix.rows;
    let (mut values, mut vectors) = (vec![0.0; n], Matrix::zeros(n, n));
    let scratch =
        evd::self_adjoint_evd_scratch::<f64>(n, evd::ComputeEigenvectors::Yes, par(), Default::default());
    evd::self_adjoint_evd(
        matrix.view(),
        DiagMut::from_slice_mut(&mut values),
        Some(vectors.view_mut()),
        par(),
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    )
    .map_err(|_| Error::overflow("the eigendecomposition", "check the kernel's parameters"))?;
    Ok((values, vectors))
}

/// Eigenvalues of a square matrix as real and imaginary parts, in no particular order.
///
/// # Errors
/// [`Error::Overflow`] if the iteration fails, which happens only for entries that are not finite.
pub fn eigenvalues(matrix: &Matrix) -> Result<Vec<(f64, f64)>> {
    use faer::linalg::evd::{ComputeEigenvectors::No, evd_real, evd_scratch};
    let n = matrix.rows;
    let (mut real, mut imaginary) = (vec![0.0; n], vec![0.0; n]);
    let scratch = evd_scratch::<f64>(n, No, No, par(), Default::default());
    evd_real(
        matrix.view(),
        DiagMut::from_slice_mut(&mut real),
        DiagMut::from_slice_mut(&mut imaginary),
        None,
        None,
        par(),
        MemStack::new(&mut MemBuffer::new(scratch)),
        Default::default(),
    )
    .map_err(|_| Error::overflow("the eigenvalues", "check the numbers of the matrix"))?;
    Ok(real.into_iter().zip(imaginary).collect())
}

/// Solves a square system by LU factorisation with partial pivoting; for small systems that need not be
/// symmetric.
pub fn lu_solve(matrix: &Matrix, b: &[f64]) -> Vec<f64> {
    let mut x = Matrix::column_vector(b.to_vec());
    matrix.view().partial_piv_lu().solve_in_place(x.view_mut());
    x.data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spd(n: usize) -> Matrix {
        let mut a = Matrix::zeros(n, n);
        for i in 0..n {
            for j in 0..n {
                a[(i, j)] = (-((i as f64 - j as f64) / 3.0).powi(2)).exp();
            }
        }
        a.add_diagonal(|i| 0.1 + i as f64 / n as f64);
        a
    }

    /// Norms and sums are correct for fewer and for more columns than one block holds; the lower triangle of
    /// sums does not change.
    #[test]
    fn norms_of_inverses_and_sums_of_columns_are_those_of_the_whole() {
        for n in [5, 300] {
            let factor = Cholesky::new(spd(n), "spd").unwrap();
            let inverse = factor.inverse();
            let sums = (0..n).map(|i| inverse.row(i).iter().map(|v| v.abs()).sum::<f64>());
            let norm = sums.fold(0.0, f64::max).min(dot(inverse.data(), inverse.data()).sqrt());
            assert!((factor.inverse_norm() - norm).abs() < 1e-10 * norm, "{n}");
            let differences = factor.inverse_diagonal().into_iter().zip(inverse.diagonal());
            assert!(differences.into_iter().all(|(a, b)| (a - b).abs() < 1e-12 * norm), "{n}");
            let largest = symmetric_eigen(&inverse).unwrap().0.into_iter().fold(0.0, f64::max);
            assert!(largest <= norm && norm < 3.0 * largest);
            let rows = Matrix::from_row_major(7, n, (0..7 * n).map(|k| (k as f64).sin()).collect());
            let mut sums = spd(n);
            sums.add_gram_of_columns(rows.transpose().data());
            let (start, added) = (spd(n), rows.gram_of_columns());
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let update = if j >= i { added[(i, j)] } else { 0.0 };
                assert!((sums[(i, j)] - start[(i, j)] - update).abs() < 1e-12);
            }
        }
    }

    /// Inner products are within their bound for all lengths, also for equal numbers, whose sums always round
    /// in the same direction.
    #[test]
    fn inner_products_are_within_their_bound() {
        for n in (0..300).chain([1000, 12_345, 1 << 20]) {
            let (a, b) = (vec![0.1; n], vec![0.3; n]);
            // The exact product of two doubles as the rounded product and the rounding error.
            let product = 0.1 * 0.3;
            let truth = (n as f64 * product, n as f64 * 0.1_f64.mul_add(0.3, -product));
            let error = ((dot(&a, &b) - truth.0) - truth.1).abs();
            let bound = (dot_roundings(n) + 1) as f64 * f64::EPSILON / 2.0 * truth.0;
            assert!(error <= bound, "{n}: {error} > {bound}");
        }
        assert!(dot_roundings(1 << 20) < 40);
    }

    #[test]
    fn solves_and_inverts() {
        let a = spd(60);
        let b: Vec<f64> = (0..60).map(|i| (i as f64).sin()).collect();
        let factor = Cholesky::new(a.clone(), "matrix").unwrap();
        let product = a.matvec(&factor.solve_vector(&b));
        assert!(product.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-12));
        let eye = a.matmul(&factor.inverse());
        assert!((0..60).all(|i| (0..60).all(|j| (eye[(i, j)] - f64::from(u8::from(i == j))).abs() < 1e-11)));
        let (values, _) = symmetric_eigen(&a).unwrap();
        assert!((values.iter().map(|v| v.ln()).sum::<f64>() - factor.log_det()).abs() < 1e-10);
        assert_eq!(factor.jitter, 0.0);
    }

    #[test]
    fn jitter_is_reported_and_bounded() {
        let mut singular = Matrix::zeros(5, 5);
        singular.data_mut().fill(1.0);
        let factor = Cholesky::new(singular.clone(), "matrix").unwrap();
        assert!(factor.jitter > 0.0 && factor.jitter <= 1e-7);
        singular[(0, 0)] = -1.0;
        assert!(matches!(
            Cholesky::new(singular, "gram matrix"),
            Err(Error::NotPositiveDefinite { size: 5, .. })
        ));
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let a = spd(500);
        let b = Matrix::from_row_major(1, 500, (0..500).map(|i| (i as f64).sin()).collect());
        let work = || {
            let factor = Cholesky::new(a.clone(), "matrix").unwrap();
            let solved = factor.solve(b.transpose());
            (b.matmul(&a), a.matmul(&a), solved, factor.inverse(), symmetric_eigen(&a).unwrap())
        };
        let with =
            |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work);
        let single_thread = with(1);
        assert!([2, 3].iter().all(|&threads| with(threads) == single_thread));
    }

    #[test]
    fn eigenvectors_reconstruct() {
        let a = spd(20);
        let (values, v) = symmetric_eigen(&a).unwrap();
        for i in 0..20 {
            for j in 0..20 {
                let sum: f64 = (0..20).map(|k| values[k] * v[(i, k)] * v[(j, k)]).sum();
                assert!((sum - a[(i, j)]).abs() < 1e-12);
            }
        }
    }
}

//! Kernel regression on all rows, or through landmarks where there are many rows.
//!
//! Let P be the points (all rows, or landmarks), `K̂ = k(P, P)` (points × points), `K = k(P, rows)` (points ×
//! rows) and `φ = k(P, queries)` (points × queries). The rows have the weights `E = φᵀW` (queries × rows) in
//! predictions, and they explain the part `φᵀQφ` of the queries' covariance:
//!
//! ```text
//! all rows     W = Q = (K + λ)⁻¹
//! landmarks    D = λ + diag(k - KᵀK̂⁻¹K)     W = (K̂ + K D⁻¹Kᵀ)⁻¹ K D⁻¹     Q = K̂⁻¹ - (K̂ + K D⁻¹Kᵀ)⁻¹
//! ```
//!
//! λ is the ridge. The variance of a row that landmarks leave unexplained is additional noise of this row
//! (FITC, Snelson and Ghahramani 2006). Rows far from landmarks therefore explain nothing. Where the
//! landmarks are the rows, both forms agree.

use super::fitc_kernel::FitcKernel;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, add_to};
use crate::table::Table;

/// A fitted kernel regression.
#[derive(Debug, Clone)]
pub(super) enum KernelRegression {
    /// Regression on all rows: the Cholesky factor of `K + λ`.
    Rows(Cholesky),
    /// Regression through landmarks.
    FitcFactors(Box<FitcFactors>),
}

/// The factors of a regression through landmarks: L of `K̂ = LLᵀ`, C of `I + L⁻¹K D⁻¹KᵀL⁻ᵀ = CCᵀ`, and W
/// (landmarks × rows).
#[derive(Debug, Clone)]
pub(super) struct FitcFactors {
    landmark_factor: Cholesky,
    posterior_precision_factor: Cholesky,
    weights: Matrix,
    /// The mean share of the rows' noise that is variance unexplained by landmarks.
    unexplained: f64,
}

/// Columns of queries whitened with the Cholesky factor of the points, and, for landmarks, also with the
/// factor of their posterior precision.
type WhitenedColumns = (Matrix, Option<Matrix>);

impl KernelRegression {
    /// Fits the regression on all rows, given their gram matrix plus the ridge (n × n). Cost n³/3.
    pub fn rows(gram: Matrix, matrix_name: &'static str) -> Result<Self> {
        Ok(Self::Rows(Cholesky::new(gram, matrix_name)?))
    }

    /// Fits the regression of rows on a kernel over them, on all rows or through the landmarks `points`.
    /// `matrix_name` is the name of the gram matrix plus the ridge in errors.
    pub fn fit(
        (kernel, ridge): (&Kernel, f64),
        rows: &Table,
        points: Option<&Table>,
        matrix_name: &'static str,
    ) -> Result<Self> {
        let Some(points) = points else {
            let mut gram = kernel.gram(rows);
            gram.add_diagonal(|_| ridge);
            return Self::rows(gram, matrix_name);
        };
        let with_rows = kernel.cross_gram(points, rows);
        Self::landmarks(kernel.gram(points), with_rows, &kernel.diagonal(rows), ridge)
    }

    /// Fits the regression through landmarks, given their gram matrix (m × m), their kernel with rows (m ×
    /// n), and the kernel of each row with itself. Cost n m² for n rows and m landmarks.
    pub fn landmarks(gram: Matrix, with_rows: Matrix, diagonal: &[f64], ridge: f64) -> Result<Self> {
        let (fitc, mut whitened) = FitcKernel::new(gram, with_rows, diagonal)?;
        let unexplained = fitc.unexplained_share(ridge);
        let weight_roots: Vec<f64> = fitc
            .residual_variances
            .iter()
            .map(|residual_variance| 1.0 / (ridge + residual_variance).sqrt())
            .collect();
        whitened.scale_columns(weight_roots.iter().copied());
        let mut posterior_precision = whitened.matmul(&whitened.transpose());
        posterior_precision.add_diagonal(|_| 1.0);
        let posterior_precision_factor =
            Cholesky::new(posterior_precision, "posterior precision of the landmarks")?;
        posterior_precision_factor.solve_lower_in_place(&mut whitened);
        posterior_precision_factor.solve_upper_in_place(&mut whitened);
        fitc.factor.solve_upper_in_place(&mut whitened);
        whitened.scale_columns(weight_roots.iter().copied());
        Ok(Self::FitcFactors(Box::new(FitcFactors {
            landmark_factor: fitc.factor,
            posterior_precision_factor,
            weights: whitened,
            unexplained,
        })))
    }

    /// Whether all rows are used, rather than landmarks.
    pub fn uses_all_rows(&self) -> bool {
        matches!(self, Self::Rows(_))
    }

    /// Returns the number of rows.
    pub fn row_count(&self) -> usize {
        match self {
            Self::Rows(factor) => factor.size(),
            Self::FitcFactors(factors) => factors.weights.cols(),
        }
    }

    /// Returns the number of points: rows or landmarks.
    pub fn point_count(&self) -> usize {
        match self {
            Self::Rows(factor) => factor.size(),
            Self::FitcFactors(factors) => factors.landmark_factor.size(),
        }
    }

    /// Returns the mean share of the rows' noise that is variance unexplained by landmarks; `None` without
    /// landmarks.
    pub fn unexplained(&self) -> Option<f64> {
        match self {
            Self::Rows(_) => None,
            Self::FitcFactors(factors) => Some(factors.unexplained),
        }
    }

    /// Returns the coefficients `W h` over points, for responses h of the rows.
    pub fn solve(&self, h: &[f64]) -> Vec<f64> {
        match self {
            Self::Rows(factor) => factor.solve_vector(h),
            Self::FitcFactors(factors) => factors.weights.matvec(h),
        }
    }

    /// Returns the coefficients `W h` (points × columns of h) for several responses of each row.
    pub fn solve_matrix(&self, h: Matrix) -> Matrix {
        match self {
            Self::Rows(factor) => factor.solve(h),
            Self::FitcFactors(factors) => factors.weights.matmul(&h),
        }
    }

    /// Returns `W G Wᵀ` (points × points) for the gram matrix G (rows × rows) of `kernel`, given
    /// `solved = W k(rows, points)`. The result is exact where the points are all rows. For landmarks, G has
    /// the approximation of [`FitcKernel`].
    ///
    /// # Errors
    /// As [`FitcKernel::new`].
    pub fn weighted_kernel(
        &self,
        solved: &Matrix,
        (kernel, points): (&Kernel, &Table),
        rows: &Table,
    ) -> Result<Matrix> {
        let Self::FitcFactors(factors) = self else { return Ok(self.solve_matrix(solved.transpose())) };
        let with_rows = kernel.cross_gram(points, rows);
        let (fitc, _) = FitcKernel::new(kernel.gram(points), with_rows, &kernel.diagonal(rows))?;
        Ok(fitc.weighted_quadratic_form(&factors.weights, &solved.transpose()))
    }

    /// Returns E (queries × rows) and `φᵀQφ` (queries × queries).
    pub fn weights_and_explained(&self, mut phi: Matrix) -> (Matrix, Matrix) {
        match self {
            Self::Rows(factor) => {
                factor.solve_lower_in_place(&mut phi);
                let explained = phi.gram_of_columns();
                factor.solve_upper_in_place(&mut phi);
                (phi.transpose(), explained)
            }
            Self::FitcFactors(factors) => {
                (phi.transpose_matmul(&factors.weights), self.explained_covariance(&phi))
            }
        }
    }

    /// Returns the weights E (queries × rows).
    pub fn weights(&self, phi: &Matrix) -> Matrix {
        match self {
            Self::Rows(factor) => factor.solve(phi.clone()).transpose(),
            Self::FitcFactors(factors) => phi.transpose_matmul(&factors.weights),
        }
    }

    /// Returns the whitened columns of queries. The explained covariance is the difference of the inner
    /// products of the first and of the second columns.
    fn whitened_pair(&self, phi: &Matrix) -> WhitenedColumns {
        let mut whitened = phi.clone();
        match self {
            Self::Rows(factor) => {
                factor.solve_lower_in_place(&mut whitened);
                (whitened, None)
            }
            Self::FitcFactors(factors) => {
                factors.landmark_factor.solve_lower_in_place(&mut whitened);
                let mut posterior_whitened = whitened.clone();
                factors.posterior_precision_factor.solve_lower_in_place(&mut posterior_whitened);
                (whitened, Some(posterior_whitened))
            }
        }
    }

    /// Returns `φᵀQφ` (queries × queries).
    pub fn explained_covariance(&self, phi: &Matrix) -> Matrix {
        let (prior, posterior) = self.whitened_pair(phi);
        let mut explained = prior.gram_of_columns();
        if let Some(posterior) = posterior {
            explained.add_times(-1.0, &posterior.gram_of_columns());
        }
        explained
    }

    /// Returns the diagonal of [`explained_covariance`](Self::explained_covariance).
    pub fn explained_variances(&self, phi: &Matrix) -> Vec<f64> {
        let (whitened, posterior_whitened) = self.whitened_pair(phi);
        let mut explained = squared_norms(&whitened);
        if let Some(posterior_whitened) = posterior_whitened {
            explained
                .iter_mut()
                .zip(squared_norms(&posterior_whitened))
                .for_each(|(v, posterior_square)| *v -= posterior_square);
        }
        explained
    }

    /// Returns the posterior of new rows, represented by the same points: their covariance with queries (rows
    /// × queries) and their variances without noise. The arguments are the kernels of points with queries, of
    /// points with the new rows, of the new rows with queries, and of each new row with itself.
    pub fn posterior_of_rows(
        &self,
        phi: &Matrix,
        with_rows: &Matrix,
        with_queries: Matrix,
        prior_variances: &[f64],
    ) -> (Matrix, Vec<f64>) {
        let (row_columns, query_columns) = (self.whitened_pair(with_rows), self.whitened_pair(phi));
        let explained = squared_norms(&row_columns.0);
        let mut variances: Vec<f64> = prior_variances
            .iter()
            .zip(explained)
            .map(|(prior, explained_variance)| (prior - explained_variance).max(0.0))
            .collect();
        if let (Some(row_posterior), Some(query_posterior)) = (&row_columns.1, &query_columns.1) {
            // New rows are informative about queries only through the landmarks' posterior.
            add_to(&mut variances, &squared_norms(row_posterior));
            return (row_posterior.transpose_matmul(query_posterior), variances);
        }
        let mut covariance = with_queries;
        covariance.add_times(-1.0, &explained_cross(&row_columns, &query_columns));
        (covariance, variances)
    }

    /// Returns Q (points × points). Cost O(points³).
    pub fn inverse(&self) -> Matrix {
        match self {
            Self::Rows(factor) => factor.inverse(),
            Self::FitcFactors(factors) => {
                self.explained_covariance(&Matrix::identity(factors.landmark_factor.size()))
            }
        }
    }
}

/// Returns `φᵀQψ` for two sets of queries with the whitened columns of φ and ψ.
fn explained_cross(
    (prior_phi, posterior_phi): &WhitenedColumns,
    (prior_psi, posterior_psi): &WhitenedColumns,
) -> Matrix {
    let mut explained = prior_phi.transpose_matmul(prior_psi);
    if let (Some(posterior_phi), Some(posterior_psi)) = (posterior_phi, posterior_psi) {
        explained.add_times(-1.0, &posterior_phi.transpose_matmul(posterior_psi));
    }
    explained
}

/// Returns the squared Euclidean norms of the columns.
fn squared_norms(columns: &Matrix) -> Vec<f64> {
    let mut sums = vec![0.0; columns.cols()];
    for i in 0..columns.rows() {
        sums.iter_mut().zip(columns.row(i)).for_each(|(sum, v)| *sum += v * v);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{dot, lu_solve};

    /// Regression through landmarks agrees with Gaussian conditioning on all rows under the FITC covariance.
    #[test]
    fn regression_through_landmarks_is_gaussian_conditioning() {
        let kernel = 1.3 * Kernel::gaussian(&[0.9]);
        let table = |count: usize, step: f64| {
            Table::from_rows(&(0..count).map(|i| [(step * i as f64).sin() * 2.0]).collect::<Vec<_>>())
                .unwrap()
        };
        let (rows, points, queries) = (table(25, 1.7), table(5, 2.9), table(3, 0.8));
        let (gram, with_rows) = (kernel.gram(&points), kernel.cross_gram(&points, &rows));
        let diagonal = kernel.diagonal(&rows);
        let (ridge, n, m) = (0.2, 25, 5);
        let solver = KernelRegression::landmarks(gram.clone(), with_rows.clone(), &diagonal, ridge).unwrap();
        let projections: Vec<Vec<f64>> = (0..n).map(|i| lu_solve(&gram, &with_rows.column(i))).collect();
        let mut covariance = Matrix::zeros(n, n);
        for i in 0..n {
            for j in 0..n {
                let low_rank = dot(&projections[i], &with_rows.column(j));
                covariance[(i, j)] = if i == j { diagonal[i] + ridge } else { low_rank };
            }
        }
        let phi = kernel.cross_gram(&points, &queries);
        let (weights, explained) = solver.weights_and_explained(phi.clone());
        for q in 0..3 {
            let with_query: Vec<f64> = (0..n).map(|i| dot(&projections[i], &phi.column(q))).collect();
            let expected = lu_solve(&covariance, &with_query);
            for i in 0..n {
                assert!((weights[(q, i)] - expected[i]).abs() < 1e-7, "{} {}", weights[(q, i)], expected[i]);
            }
            for other in 0..3 {
                let with_other_query: Vec<f64> =
                    (0..n).map(|i| dot(&projections[i], &phi.column(other))).collect();
                assert!((explained[(q, other)] - dot(&expected, &with_other_query)).abs() < 1e-7);
            }
            assert!((solver.explained_variances(&phi)[q] - explained[(q, q)]).abs() < 1e-12);
        }
        let residual_variance = |i: usize| diagonal[i] - dot(&projections[i], &with_rows.column(i));
        let share =
            (0..n).map(|i| residual_variance(i) / (residual_variance(i) + ridge)).sum::<f64>() / n as f64;
        assert!((solver.unexplained().unwrap() - share).abs() < 1e-8 && share > 1e-3, "{share}");
        let q = solver.inverse();
        assert!((dot(&q.matvec(&phi.column(0)), &phi.column(0)) - explained[(0, 0)]).abs() < 1e-10);
        assert_eq!(q.rows(), m);
    }

    /// The variance reduction by a further row agrees with a refit that includes this row, for a regression
    /// on all rows and for fixed landmarks.
    #[test]
    fn variance_reduction_equals_that_of_a_refit() {
        let kernel = 1.3 * Kernel::gaussian(&[0.9]);
        let table =
            |values: &[f64]| Table::from_rows(&values.iter().map(|v| [*v]).collect::<Vec<_>>()).unwrap();
        let rows: Vec<f64> = (0..20).map(|i| (1.7 * f64::from(i)).sin() * 2.0).collect();
        let (queries, new, ridge) = (table(&[0.3, -1.1]), 0.7, 0.2);
        let points = table(&[-1.8, -0.2, 0.4, 1.5]);
        let fit = |rows: &[f64], with_landmarks: bool| {
            let x = table(rows);
            if with_landmarks {
                let with_rows = kernel.cross_gram(&points, &x);
                KernelRegression::landmarks(kernel.gram(&points), with_rows, &kernel.diagonal(&x), ridge)
                    .unwrap()
            } else {
                let mut gram = kernel.gram(&x);
                gram.add_diagonal(|_| ridge);
                KernelRegression::rows(gram, "rows").unwrap()
            }
        };
        let extended: Vec<f64> = rows.iter().copied().chain([new]).collect();
        for with_landmarks in [false, true] {
            let (before, after) = (fit(&rows, with_landmarks), fit(&extended, with_landmarks));
            let points_of = |values: &[f64]| if with_landmarks { points.clone() } else { table(values) };
            let (x, new) = (points_of(&rows), table(&[new]));
            let (phi, with_rows) = (kernel.cross_gram(&x, &queries), kernel.cross_gram(&x, &new));
            let with_queries = kernel.cross_gram(&new, &queries);
            let (covariances, variances) =
                before.posterior_of_rows(&phi, &with_rows, with_queries, &kernel.diagonal(&new));
            let explained = [
                before.explained_variances(&phi),
                after.explained_variances(&kernel.cross_gram(&points_of(&extended), &queries)),
            ];
            for q in 0..2 {
                let reduction = covariances[(0, q)].powi(2) / (variances[0] + ridge);
                assert!(
                    (explained[1][q] - explained[0][q] - reduction).abs() < 1e-8,
                    "{with_landmarks} {reduction}"
                );
                assert!(reduction > 1e-6);
            }
        }
    }
}

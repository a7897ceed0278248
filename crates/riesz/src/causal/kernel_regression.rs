//! Regressions on rows: by all of them, or, where they are many, through landmarks.
//!
//! With places P, which are all rows or few that stand for them, `K̂ = k(P, P)`, `K = k(P, rows)` and a
//! query's `φ = k(P, query)`, rows count with the weights `E = φᵀW`, and they tell `φᵀQφ` of its variance:
//!
//! ```text
//! all rows     W = Q = (K + λ)⁻¹
//! landmarks    D = λ + diag(k - KᵀK̂⁻¹K)     W = (K̂ + K D⁻¹Kᵀ)⁻¹ K D⁻¹     Q = K̂⁻¹ - (K̂ + K D⁻¹Kᵀ)⁻¹
//! ```
//!
//! What landmarks leave unexplained of a row is noise of its own (FITC, Snelson and Ghahramani 2006): where
//! there are no landmarks rows tell nothing, and where landmarks are the rows both are the same.

use super::fitc_kernel::FitcKernel;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix};
use crate::table::Table;

/// A regression that has seen its rows.
#[derive(Debug, Clone)]
pub(super) enum KernelRegression {
    /// `K + λ`.
    Rows(Cholesky),
    /// Fewer places than rows.
    FitcFactors(Box<FitcFactors>),
}

/// L of `K̂ = LLᵀ`, C of `I + L⁻¹K D⁻¹KᵀL⁻ᵀ = CCᵀ`, and W.
#[derive(Debug, Clone)]
pub(super) struct FitcFactors {
    own: Cholesky,
    explained_covariance: Cholesky,
    weights: Matrix,
    /// Of what counts as noise of rows the mean share that landmarks leave unexplained.
    unexplained: f64,
}

/// Of queries what their places say, and of that what landmarks are not told.
type Halves = (Matrix, Option<Matrix>);

impl KernelRegression {
    /// By all rows, with their kernel and the ridge. Cost n³/3.
    pub fn rows(gram: Matrix, what: &'static str) -> Result<Self> {
        Ok(Self::Rows(Cholesky::new(gram, what)?))
    }

    /// Through landmarks, by their kernel with each other and with rows, and that of each row with itself.
    /// Cost n m² for n rows and m landmarks.
    pub fn landmarks(gram: Matrix, with_rows: Matrix, diagonal: &[f64], ridge: f64) -> Result<Self> {
        let (low, mut half) = FitcKernel::new(gram, with_rows, diagonal)?;
        let unexplained = low.unexplained_share(ridge);
        let roots: Vec<f64> = low.residual_variances.iter().map(|gap| 1.0 / (ridge + gap).sqrt()).collect();
        let scale = |m: &mut Matrix| {
            (0..m.rows()).for_each(|a| m.row_mut(a).iter_mut().zip(&roots).for_each(|(v, r)| *v *= r));
        };
        scale(&mut half);
        let mut known = half.matmul(&half.transpose());
        known.add_diagonal(|_| 1.0);
        let known = Cholesky::new(known, "what rows tell of the landmarks")?;
        known.solve_lower_in_place(&mut half);
        known.solve_upper_in_place(&mut half);
        low.factor.solve_upper_in_place(&mut half);
        scale(&mut half);
        Ok(Self::FitcFactors(Box::new(FitcFactors {
            own: low.factor,
            explained_covariance: known,
            weights: half,
            unexplained,
        })))
    }

    /// How many rows it has seen.
    pub fn row_count(&self) -> usize {
        match self {
            Self::Rows(factor) => factor.size(),
            Self::FitcFactors(few) => few.weights.cols(),
        }
    }

    /// How many points queries are related to: its rows, or landmarks.
    pub fn point_count(&self) -> usize {
        match self {
            Self::Rows(factor) => factor.size(),
            Self::FitcFactors(few) => few.own.size(),
        }
    }

    /// Of what counts as noise of rows the mean share that landmarks leave unexplained, if there are any.
    pub fn unexplained(&self) -> Option<f64> {
        match self {
            Self::Rows(_) => None,
            Self::FitcFactors(few) => Some(few.unexplained),
        }
    }

    /// Coefficients over places of numbers of rows, `W h`.
    pub fn solve(&self, h: &[f64]) -> Vec<f64> {
        match self {
            Self::Rows(factor) => factor.solve_vector(h),
            Self::FitcFactors(few) => few.weights.matvec(h),
        }
    }

    /// The same of many numbers of each row: `W h`, places × columns of h.
    pub fn solve_matrix(&self, h: Matrix) -> Matrix {
        match self {
            Self::Rows(factor) => factor.solve(h),
            Self::FitcFactors(few) => few.weights.matmul(&h),
        }
    }

    /// `W K Wᵀ` of a kernel between rows, by `W Kᵀ` with points: exact where these are all rows, and else of
    /// low rank.
    ///
    /// # Errors
    /// As [`LowRank::new`].
    pub fn weighted_kernel(
        &self,
        turned: &Matrix,
        (kernel, points): (&Kernel, &Table),
        rows: &Table,
    ) -> Result<Matrix> {
        let Self::FitcFactors(few) = self else { return Ok(self.solve_matrix(turned.transpose())) };
        let with_rows = kernel.cross_gram(points, rows);
        let (low, _) = FitcKernel::new(kernel.gram(points), with_rows, &kernel.diagonal(rows))?;
        Ok(low.weighted_quadratic_form(&few.weights, &turned.transpose()))
    }

    /// E and `φᵀQφ`: queries × rows, and queries × queries.
    pub fn weights_and_explained(&self, mut phi: Matrix) -> (Matrix, Matrix) {
        match self {
            Self::Rows(factor) => {
                factor.solve_lower_in_place(&mut phi);
                let told = phi.transpose_matmul(&phi);
                factor.solve_upper_in_place(&mut phi);
                (phi.transpose(), told)
            }
            Self::FitcFactors(few) => (phi.transpose_matmul(&few.weights), self.explained_covariance(&phi)),
        }
    }

    /// E.
    pub fn weights(&self, phi: &Matrix) -> Matrix {
        match self {
            Self::Rows(factor) => factor.solve(phi.clone()).transpose(),
            Self::FitcFactors(few) => phi.transpose_matmul(&few.weights),
        }
    }

    /// What is known of queries, as a difference of squares.
    fn whitened_pair(&self, phi: &Matrix) -> Halves {
        let mut half = phi.clone();
        match self {
            Self::Rows(factor) => {
                factor.solve_lower_in_place(&mut half);
                (half, None)
            }
            Self::FitcFactors(few) => {
                few.own.solve_lower_in_place(&mut half);
                let mut left = half.clone();
                few.explained_covariance.solve_lower_in_place(&mut left);
                (half, Some(left))
            }
        }
    }

    /// `φᵀQφ`.
    pub fn explained_covariance(&self, phi: &Matrix) -> Matrix {
        let own = self.whitened_pair(phi);
        explained_cross(&own, &own)
    }

    /// The diagonal of [`known`](Self::known).
    pub fn explained_variances(&self, phi: &Matrix) -> Vec<f64> {
        let (half, left) = self.whitened_pair(phi);
        let mut told = squares(&half);
        if let Some(left) = left {
            told.iter_mut().zip(squares(&left)).for_each(|(v, l)| *v -= l);
        }
        told
    }

    /// Of new rows, as if they were seen by the same places: their covariance with queries (rows × queries),
    /// and their variances without noise. By the kernels of places with queries and with rows, of rows with
    /// queries, and of rows with themselves.
    pub fn posterior_of_rows(
        &self,
        phi: &Matrix,
        with_rows: &Matrix,
        with_queries: Matrix,
        own: &[f64],
    ) -> (Matrix, Vec<f64>) {
        let (of_rows, of_queries) = (self.whitened_pair(with_rows), self.whitened_pair(phi));
        let told = squares(&of_rows.0);
        let mut variances: Vec<f64> = own.iter().zip(told).map(|(own, told)| (own - told).max(0.0)).collect();
        if let (Some(left), Some(of_queries)) = (&of_rows.1, &of_queries.1) {
            // What landmarks are not told, by which alone rows tell of queries.
            variances.iter_mut().zip(squares(left)).for_each(|(v, open)| *v += open);
            return (left.transpose_matmul(of_queries), variances);
        }
        let mut open = with_queries;
        let told = explained_cross(&of_rows, &of_queries);
        open.data_mut().iter_mut().zip(told.data()).for_each(|(v, told)| *v -= told);
        (open, variances)
    }

    /// Q. Cost of places, cubed.
    pub fn inverse(&self) -> Matrix {
        match self {
            Self::Rows(factor) => factor.inverse(),
            Self::FitcFactors(few) => self.explained_covariance(&Matrix::identity(few.own.size())),
        }
    }
}

/// `φᵀQψ` of two lots of queries.
fn explained_cross((half, left): &Halves, (other, other_left): &Halves) -> Matrix {
    let mut told = half.transpose_matmul(other);
    if let (Some(left), Some(other)) = (left, other_left) {
        let less = left.transpose_matmul(other);
        told.data_mut().iter_mut().zip(less.data()).for_each(|(v, l)| *v -= l);
    }
    told
}

/// Of columns.
fn squares(half: &Matrix) -> Vec<f64> {
    let mut sums = vec![0.0; half.cols()];
    for i in 0..half.rows() {
        sums.iter_mut().zip(half.row(i)).for_each(|(sum, v)| *sum += v * v);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{dot, lu_solve};

    /// Against Gaussian conditioning on all rows, whose covariance with each other and with the query goes
    /// through landmarks but for gaps of their own.
    #[test]
    fn landmarks_condition_on_all_rows() {
        let kernel = 1.3 * Kernel::gaussian(&[0.9]);
        let at = |count: usize, step: f64| {
            Table::from_rows(&(0..count).map(|i| [(step * i as f64).sin() * 2.0]).collect::<Vec<_>>())
                .unwrap()
        };
        let (rows, points, asked) = (at(25, 1.7), at(5, 2.9), at(3, 0.8));
        let (own, with_rows) = (kernel.gram(&points), kernel.cross_gram(&points, &rows));
        let diagonal = kernel.diagonal(&rows);
        let (ridge, n, m) = (0.2, 25, 5);
        let solver = KernelRegression::landmarks(own.clone(), with_rows.clone(), &diagonal, ridge).unwrap();
        let through: Vec<Vec<f64>> = (0..n).map(|i| lu_solve(&own, &with_rows.column(i))).collect();
        let mut all = Matrix::zeros(n, n);
        for i in 0..n {
            for j in 0..n {
                let low = dot(&through[i], &with_rows.column(j));
                all[(i, j)] = if i == j { diagonal[i] + ridge } else { low };
            }
        }
        let phi = kernel.cross_gram(&points, &asked);
        let (weights, told) = solver.weights_and_explained(phi.clone());
        for q in 0..3 {
            let with_query: Vec<f64> = (0..n).map(|i| dot(&through[i], &phi.column(q))).collect();
            let expected = lu_solve(&all, &with_query);
            for i in 0..n {
                assert!((weights[(q, i)] - expected[i]).abs() < 1e-7, "{} {}", weights[(q, i)], expected[i]);
            }
            for other in 0..3 {
                let crossed: Vec<f64> = (0..n).map(|i| dot(&through[i], &phi.column(other))).collect();
                assert!((told[(q, other)] - dot(&expected, &crossed)).abs() < 1e-7);
            }
            assert!((solver.explained_variances(&phi)[q] - told[(q, q)]).abs() < 1e-12);
        }
        let gap = |i: usize| diagonal[i] - dot(&through[i], &with_rows.column(i));
        let share = (0..n).map(|i| gap(i) / (gap(i) + ridge)).sum::<f64>() / n as f64;
        assert!((solver.unexplained().unwrap() - share).abs() < 1e-8 && share > 1e-3, "{share}");
        let q = solver.inverse();
        assert!((dot(&q.matvec(&phi.column(0)), &phi.column(0)) - told[(0, 0)]).abs() < 1e-10);
        assert_eq!(q.rows(), m);
    }

    /// What one more row tells, against a refit that has it, by all rows and by the same landmarks.
    #[test]
    fn new_rows_tell_what_refits_say() {
        let kernel = 1.3 * Kernel::gaussian(&[0.9]);
        let at = |values: &[f64]| Table::from_rows(&values.iter().map(|v| [*v]).collect::<Vec<_>>()).unwrap();
        let rows: Vec<f64> = (0..20).map(|i| (1.7 * f64::from(i)).sin() * 2.0).collect();
        let (asked, new, ridge) = (at(&[0.3, -1.1]), 0.7, 0.2);
        let points = at(&[-1.8, -0.2, 0.4, 1.5]);
        let fit = |rows: &[f64], through: bool| {
            let x = at(rows);
            if through {
                let with_rows = kernel.cross_gram(&points, &x);
                KernelRegression::landmarks(kernel.gram(&points), with_rows, &kernel.diagonal(&x), ridge)
                    .unwrap()
            } else {
                let mut gram = kernel.gram(&x);
                gram.add_diagonal(|_| ridge);
                KernelRegression::rows(gram, "rows").unwrap()
            }
        };
        let more: Vec<f64> = rows.iter().copied().chain([new]).collect();
        for through in [false, true] {
            let (before, after) = (fit(&rows, through), fit(&more, through));
            let places = |own: &[f64]| if through { points.clone() } else { at(own) };
            let (x, new) = (places(&rows), at(&[new]));
            let (phi, with_rows) = (kernel.cross_gram(&x, &asked), kernel.cross_gram(&x, &new));
            let with_queries = kernel.cross_gram(&new, &asked);
            let (crossed, open) =
                before.posterior_of_rows(&phi, &with_rows, with_queries, &kernel.diagonal(&new));
            let told = [
                before.explained_variances(&phi),
                after.explained_variances(&kernel.cross_gram(&places(&more), &asked)),
            ];
            for q in 0..2 {
                let lowered = crossed[(0, q)].powi(2) / (open[0] + ridge);
                assert!((told[1][q] - told[0][q] - lowered).abs() < 1e-8, "{through} {lowered}");
                assert!(lowered > 1e-6);
            }
        }
    }
}

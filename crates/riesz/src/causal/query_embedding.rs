//! The embedding of a query, in terms of the kernel vector `k(X, x)` between the query and points.
//!
//! A study's rows Ω_i consist of several blocks of columns, and their kernel is the product of the kernels of
//! the blocks. A query fixes some blocks at a point x and averages the others over a distribution. For a back
//! door these are covariates as in the study, in another population, or conditional on some of them or on the
//! received treatment. For a front door they are treatments as in the study, with the mediators that the
//! query implies. Let X be the points. All of these queries have the form
//!
//! ```text
//! Φ = T k(X, x)        F(x, x') = a k(x, x') + k(x, X) G k(X, x')
//! ```
//!
//! where Φ is the kernel of the query with the study's rows, and F the kernel between queries. An effect is
//! therefore an expansion over X.

use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::Table;

/// Number of members in a chunk of the kernel matrix of members.
const CHUNK_MEMBERS: usize = 512;

/// The matrix T (rows × points).
#[derive(Debug, Clone)]
pub(super) enum QueryMap {
    /// Diagonal of T, if each row has a single point.
    Diagonal(Vec<f64>),
    /// All entries, rows × points.
    Dense(Matrix),
}

/// The terms T, a and G of a query's embedding.
#[derive(Debug, Clone)]
pub(super) struct QueryEmbedding {
    pub row_map: QueryMap,
    pub kernel_scale: f64,
    pub low_rank_part: Option<Matrix>,
}

impl QueryMap {
    /// Returns `T C`.
    pub fn times(&self, columns: &Matrix) -> Matrix {
        match self {
            Self::Diagonal(factors) => {
                let mut out = columns.clone();
                out.scale_rows(factors.iter().copied());
                out
            }
            Self::Dense(matrix) => matrix.matmul(columns),
        }
    }

    /// Returns `Tᵀ v`.
    pub fn transpose_times(&self, v: &[f64]) -> Vec<f64> {
        match self {
            Self::Diagonal(factors) => factors.iter().zip(v).map(|(b, v)| b * v).collect(),
            Self::Dense(matrix) => matrix.transpose().matvec(v),
        }
    }
}

impl QueryEmbedding {
    /// The query is a point of the only block.
    pub fn direct(rows: usize) -> Self {
        Self::diagonal(vec![1.0; rows], 1.0)
    }

    fn diagonal(factors: Vec<f64>, kernel_scale: f64) -> Self {
        Self { row_map: QueryMap::Diagonal(factors), kernel_scale, low_rank_part: None }
    }

    /// The query is a point of one block, and the other block is averaged over the study's rows;
    /// `covariate_gram` is its kernel between rows.
    pub fn averaged_over_rows(covariate_gram: &Matrix) -> Self {
        let share = 1.0 / covariate_gram.rows() as f64;
        let row_means: Vec<f64> =
            (0..covariate_gram.rows()).map(|i| share * covariate_gram.row(i).iter().sum::<f64>()).collect();
        let mean_kernel = share * row_means.iter().sum::<f64>();
        Self::diagonal(row_means, mean_kernel)
    }

    /// The query is a point of one block, and the other block is averaged over a population whose members
    /// have `weights`. `with_rows` is the kernel between rows and members; the kernel between members is
    /// computed here. Cost members².
    pub fn averaged_over_members(
        with_rows: &Matrix,
        kernel: &Kernel,
        members: &Table,
        weights: &[f64],
    ) -> Self {
        let rows: Vec<usize> = (0..members.rows()).collect();
        let chunk_sum = |chunk: &[usize]| {
            let weighted = kernel.cross_gram(&members.select_rows(chunk), members).matvec(weights);
            weighted.iter().zip(chunk).map(|(v, i)| v * weights[*i]).sum::<f64>()
        };
        let mean_kernel = rows.chunks(CHUNK_MEMBERS).map(chunk_sum).sum();
        Self::diagonal(with_rows.matvec(weights), mean_kernel)
    }

    /// The query changes the mediators M, whose distribution given the treatment is a ridge regression on
    /// treatments. The treatments are averaged as in the study, with the embedding `treatments`. The matrices
    /// are `W K_MM` (treatments of the regression × points) and `W K_MM Wᵀ`.
    pub fn front_door(treatments: &Self, weighted_mediators: &Matrix, mut low_rank_part: Matrix) -> Self {
        low_rank_part.scale(treatments.kernel_scale);
        let row_map = treatments.row_map.times(&weighted_mediators.transpose());
        Self { row_map: QueryMap::Dense(row_map), kernel_scale: 0.0, low_rank_part: Some(low_rank_part) }
    }

    /// Returns Φ, the kernel of rows with queries, from the queries' columns over points.
    pub fn row_cross_covariance(&self, columns: &Matrix) -> Matrix {
        self.row_map.times(columns)
    }

    /// Returns `F - explained` (queries × queries) and the diagonal of F, the covariance of
    /// [`query_covariance`](Self::query_covariance).
    pub fn residual(&self, columns: &Matrix, prior: &Matrix, mut explained: Matrix) -> (Matrix, Vec<f64>) {
        let subtract_from = |explained: &mut Matrix, covariance: &Matrix, scale: f64| {
            let entries = explained.data_mut().iter_mut().zip(covariance.data());
            entries.for_each(|(v, covariance)| *v = scale * covariance - *v);
            covariance.diagonal().map(|v| scale * v).collect()
        };
        let diagonal = match self.low_rank_part {
            None => subtract_from(&mut explained, prior, self.kernel_scale),
            Some(_) => subtract_from(&mut explained, &self.query_covariance(columns, prior), 1.0),
        };
        (explained, diagonal)
    }

    /// Returns F of queries, from their columns over points and the kernel between them.
    pub fn query_covariance(&self, columns: &Matrix, prior: &Matrix) -> Matrix {
        let mut out = prior.clone();
        out.scale(self.kernel_scale);
        if let Some(low_rank) = &self.low_rank_part {
            out.add_times(1.0, &low_rank.quadratic_form(columns));
        }
        out
    }
}

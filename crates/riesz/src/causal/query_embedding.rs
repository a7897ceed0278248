//! What a query asks of a study, in terms of the kernel vector `k(X, x)` between the query and points.
//!
//! A study's rows Ω_i are of several blocks of columns, and their kernel is the product of the blocks'. A
//! query takes some blocks at a point and the mean of others under a distribution: covariates as in the study
//! (back-door), in another population, given some of them, or given the treatment that people took;
//! treatments as they were, with what intercepts their effect as the query makes it (front-door). All of that
//! is
//!
//! ```text
//! Φ = T k(X, x)        F(x, x') = a k(x, x') + k(x, X) G k(X, x')
//! ```
//!
//! with Φ the kernel of the query with the study's rows, and F of queries with each other, so that an effect
//! is an expansion over X.

use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::Table;

/// Members whose kernel with all is made at once.
const AT_ONCE: usize = 512;

/// T.
#[derive(Debug, Clone)]
pub(super) enum QueryMap {
    /// One point a row: by what its kernel is multiplied.
    Diagonal(Vec<f64>),
    /// Rows × points.
    Dense(Matrix),
}

/// T, a and G.
#[derive(Debug, Clone)]
pub(super) struct QueryEmbedding {
    pub turn: QueryMap,
    pub kernel_scale: f64,
    pub low_rank_part: Option<Matrix>,
}

impl QueryMap {
    /// `T C`.
    pub fn times(&self, columns: &Matrix) -> Matrix {
        match self {
            Self::Diagonal(by) => {
                let mut out = columns.clone();
                by.iter().enumerate().for_each(|(i, b)| out.row_mut(i).iter_mut().for_each(|v| *v *= b));
                out
            }
            Self::Dense(own) => own.matmul(columns),
        }
    }

    /// `Tᵀ v`.
    pub fn transpose_times(&self, v: &[f64]) -> Vec<f64> {
        match self {
            Self::Diagonal(by) => by.iter().zip(v).map(|(b, v)| b * v).collect(),
            Self::Dense(own) => own.transpose().matvec(v),
        }
    }
}

impl QueryEmbedding {
    /// The query is a point of the one block.
    pub fn direct(rows: usize) -> Self {
        Self { turn: QueryMap::Diagonal(vec![1.0; rows]), kernel_scale: 1.0, low_rank_part: None }
    }

    /// The query is a point of one block, and the other is as in the study, by its kernel between rows.
    pub fn of_rows(others: &Matrix) -> Self {
        let share = 1.0 / others.rows() as f64;
        let by: Vec<f64> = (0..others.rows()).map(|i| share * others.row(i).iter().sum::<f64>()).collect();
        let own = share * by.iter().sum::<f64>();
        Self { turn: QueryMap::Diagonal(by), kernel_scale: own, low_rank_part: None }
    }

    /// The query is a point of one block, and the other is as in a population whose members count by
    /// `weights`: by its kernel between rows and members, and between members. Cost members².
    pub fn of_members(with_rows: &Matrix, kernel: &Kernel, members: &Table, weights: &[f64]) -> Self {
        let rows: Vec<usize> = (0..members.rows()).collect();
        let own = |some: &[usize]| {
            let weighted = kernel.cross_gram(&members.select_rows(some), members).matvec(weights);
            weighted.iter().zip(some).map(|(v, i)| v * weights[*i]).sum::<f64>()
        };
        let own = rows.chunks(AT_ONCE).map(own).sum();
        Self { turn: QueryMap::Diagonal(with_rows.matvec(weights)), kernel_scale: own, low_rank_part: None }
    }

    /// The query moves what intercepts the effect, M, whose distribution given the treatment is a regression
    /// on `queried` treatments with a ridge, and treatments are as they were, as `treatments` reads them: by
    /// `W K_MM` (treatments of the regression × places) and `W K_MM Wᵀ`.
    pub fn front_door(treatments: &Self, turned: &Matrix, mut around: Matrix) -> Self {
        around.data_mut().iter_mut().for_each(|v| *v *= treatments.kernel_scale);
        let turn = treatments.turn.times(&turned.transpose());
        Self { turn: QueryMap::Dense(turn), kernel_scale: 0.0, low_rank_part: Some(around) }
    }

    /// The kernel of queries with the rows Φ, by their columns over points.
    pub fn row_cross_covariance(&self, columns: &Matrix) -> Matrix {
        self.turn.times(columns)
    }

    /// F of queries, by their columns over points and their kernel with each other.
    pub fn query_covariance(&self, columns: &Matrix, prior: &Matrix) -> Matrix {
        let mut out = prior.clone();
        out.data_mut().iter_mut().for_each(|v| *v *= self.kernel_scale);
        if let Some(bend) = &self.low_rank_part {
            let more = columns.transpose_matmul(&bend.matmul(columns));
            out.data_mut().iter_mut().zip(more.data()).for_each(|(v, more)| *v += more);
        }
        out
    }
}

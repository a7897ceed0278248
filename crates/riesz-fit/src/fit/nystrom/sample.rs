//! The normal equations of a sample of the rows. They approximate those of all rows up to a factor, and are
//! never larger.

use rayon::prelude::*;

use super::plan::FitPlan;
use super::rows::LabelledRows;
use crate::error::Result;
use crate::kernel::Columns;
use crate::linalg::{Cholesky, Matrix, add_multiple, multiply_entries};
use crate::simd::Isa;

/// Number of rows in a block.
const RUN: usize = 1024;
/// Number of landmarks that are processed together.
const LANDMARK_GROUP: usize = 64;

/// Solution and Cholesky factor L of a sample's normal equations, `LLᵀ = K_sᵀK_s + (s/n)λP` for s of n rows.
/// The sample is a subset of all rows, so `A = KᵀK + λP ⪰ LLᵀ`. It is drawn at random, so A is about
/// `(n/s) LLᵀ`.
pub(super) struct SamplePreconditioner {
    pub factor: Cholesky,
    /// Trace of `LLᵀ`.
    pub trace: f64,
    /// Coefficients of the sample's fit: (landmarks and, with an intercept, constant) × targets.
    pub solution: Matrix,
    /// The number s of rows in the sample.
    pub rows: usize,
}

impl SamplePreconditioner {
    /// Forms and solves the equations. Cost O(rows landmarks² + landmarks³); memory: one square matrix of
    /// landmarks.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite), and those of rows that don't match
    /// the plan.
    pub fn new(plan: &FitPlan, sample: &LabelledRows, ridge: f64, intercept: bool) -> Result<Self> {
        let x = sample.x.align_to(plan.landmarks.columns())?;
        let (m, t, s) = (plan.landmarks.rows(), plan.targets.len(), sample.len());
        let size = m + usize::from(intercept);
        let points: Vec<Vec<f64>> = (0..m).map(|i| plan.landmarks.row(i)).collect();
        let isa = Isa::detect();
        let root = |i: usize| sample.weights.as_ref().map_or(1.0, |w| w[i].sqrt());
        let (mut matrix, mut cross) = (Matrix::zeros(size, size), Matrix::zeros(size, t));
        let mut block = Vec::new();
        for start in (0..s).step_by(RUN) {
            let n = RUN.min(s - start);
            let rows = Columns::new(x.column_major(), s, start, n);
            let roots: Vec<f64> = (start..start + n).map(root).collect();
            // Without an intercept targets are not centered.
            let center = |o: usize| if intercept { plan.targets[o].center } else { 0.0 };
            let target = |o: usize, i: usize| (sample.y[(start + i, o)] - center(o)) * roots[i];
            let y: Vec<f64> = (0..t * n).map(|entry| target(entry / n, entry % n)).collect();
            block.resize(n * size, 1.0);
            block[n * m..].fill(1.0);
            block[..n * m].par_chunks_mut(n * LANDMARK_GROUP).enumerate().for_each(|(part, kernel_block)| {
                let group: Vec<&[f64]> =
                    points[part * LANDMARK_GROUP..].iter().take(LANDMARK_GROUP).map(Vec::as_slice).collect();
                plan.kernel.tile(isa, rows, &group, kernel_block, n);
            });
            for (j, kernel_column) in block.chunks_mut(n).enumerate() {
                multiply_entries(kernel_column, &roots);
                for o in 0..t {
                    cross[(j, o)] += crate::linalg::dot(kernel_column, &y[o * n..][..n]);
                }
            }
            matrix.add_gram_of_columns(&block[..n * size]);
        }
        drop(block);
        add_penalty(plan, ridge * s as f64 / plan.rows as f64, &mut matrix);
        matrix.mirror_upper();
        let trace = matrix.trace();
        let factor = Cholesky::new(matrix, "matrix of the sample's normal equations")?;
        Ok(Self { solution: factor.solve(cross), factor, trace, rows: s })
    }

    /// Number of successive roundings of an entry of the factored matrix.
    pub fn rounding_count(&self) -> usize {
        RUN + self.rows / RUN + 4
    }
}

/// Blocks of kernel values between a range of landmarks and all landmarks, with the index of the range's
/// start.
fn gram_blocks(plan: &FitPlan) -> impl Iterator<Item = (usize, Matrix)> {
    let m = plan.landmarks.rows();
    (0..m).step_by(RUN).map(move |start| {
        let range: Vec<usize> = (start..m.min(start + RUN)).collect();
        (start, plan.kernel.cross_gram(&plan.landmarks.select_rows(&range), &plan.landmarks))
    })
}

/// Adds `λP` to a matrix over landmarks, and possibly a constant, without storing P.
pub(super) fn add_penalty(plan: &FitPlan, ridge: f64, matrix: &mut Matrix) {
    for (start, gram) in gram_blocks(plan) {
        for i in 0..gram.rows() {
            add_multiple(matrix.row_mut(start + i), ridge, gram.row(i));
        }
    }
}

/// `P θ` without storing P: the landmarks' gram matrix times coefficients, and 0 for the constant. Cost
/// O(landmarks² columns).
pub(super) fn penalty_times(plan: &FitPlan, theta: &Matrix) -> Matrix {
    let coef = theta.first_rows(plan.landmarks.rows());
    let mut out = Vec::with_capacity(theta.data().len());
    gram_blocks(plan).for_each(|(_, gram)| out.extend_from_slice(gram.matmul(&coef).data()));
    out.resize(theta.data().len(), 0.0);
    Matrix::from_row_major(theta.rows(), theta.cols(), out)
}

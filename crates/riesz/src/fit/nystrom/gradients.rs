//! Conjugate gradients whose products with the matrix are passes over all rows.
//!
//! A pass at coefficients θ returns the residual of the normal equations, `r(θ) = Kᵀ(y - Kθ) - λPθ = b - Aθ`.
//! The difference of the residuals at two points is a product with A, so nothing else of the rows is needed.
//! The search is over `u = Lᵀ(θ - θ₀)`, where LLᵀ is the matrix of a sample's equations: on this scale the
//! matrix is `L⁻¹AL⁻ᵀ`, near a multiple of 1, and the length of the residual is `√(rᵀ(LLᵀ)⁻¹r)`, from which
//! certificates are made.
//!
//! Residuals are measured at the solution and at a fixed distance from it along each direction, so that
//! products are as accurate at the end as in the beginning.

use std::sync::atomic::AtomicBool;

use crate::error::Result;
use crate::linalg::Matrix;
use crate::linalg::block_cg::BlockConjugateGradients;

/// Maximum number of steps.
const MAX_STEPS: usize = 300;

/// A search in coordinates u, of size × targets numbers.
#[derive(Debug, Clone)]
pub(super) struct CgState {
    stage: CgStage,
    /// Distance of the measured points from the solution, one number per target.
    away: Vec<f64>,
    /// The iteration, which begins with the first pass.
    run: Option<BlockConjugateGradients>,
    steps: usize,
}

/// The purpose of the next pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CgStage {
    /// To see what is left where it begins or seems to end.
    Look,
    /// A step along directions.
    Step,
    /// Nothing.
    Done,
}

/// Blocks are taken as they are.
fn identity_preconditioner(block: Vec<f64>, _: usize) -> Result<Vec<f64>> {
    Ok(block)
}

impl CgState {
    pub fn new(away: Vec<f64>) -> Self {
        Self { stage: CgStage::Look, away, run: None, steps: 0 }
    }

    pub fn stage(&self) -> CgStage {
        self.stage
    }

    /// Whether it has taken all the steps that it may.
    pub fn is_long(&self) -> bool {
        self.steps >= MAX_STEPS
    }

    /// Steps so far.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The point that is to be measured next, size × targets, or the last one.
    pub fn point(&self, size: usize) -> Matrix {
        let t = self.away.len();
        let Some(run) = &self.run else { return Matrix::zeros(size, t) };
        let mut point = Matrix::from_row_major(size, t, run.solution().to_vec());
        let directions = run.directions();
        let s = directions.len() / size;
        if self.stage == CgStage::Step {
            for (i, row) in directions.chunks_exact(s).enumerate() {
                (0..s).for_each(|k| point[(i, k)] += self.away[k] * row[k]);
            }
        }
        point
    }

    /// Takes a step, given the residual at the [`point`](Self::point).
    pub fn step(&mut self, left: &Matrix) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let s = run.directions().len() / left.rows();
        let images = (0..left.rows() * s)
            .map(|entry| {
                let (i, k) = (entry / s, entry % s);
                (run.residual()[i * self.away.len() + k] - left[(i, k)]) / self.away[k]
            })
            .collect();
        *run.directions_and_products().1 = images;
        self.steps += 1;
        let definite = run.advance(identity_preconditioner, &AtomicBool::new(false))?;
        self.next_stage();
        if !definite {
            self.stage = CgStage::Look;
        }
        Ok(())
    }

    /// Goes on from the solution, by what is left there, to end when it is no longer than `targets`.
    pub fn restart(&mut self, left: Matrix, targets: Vec<f64>) -> Result<()> {
        match &mut self.run {
            Some(run) => {
                run.set_tolerance(targets);
                run.restart(left.into_data(), identity_preconditioner)?;
            }
            None => {
                self.run =
                    Some(BlockConjugateGradients::new(left.into_data(), targets, identity_preconditioner)?)
            }
        }
        self.next_stage();
        Ok(())
    }

    /// Ends.
    pub fn end(&mut self) {
        self.stage = CgStage::Done;
    }

    fn next_stage(&mut self) {
        let over = self.run.as_ref().is_none_or(|run| run.converged() || run.is_stalled());
        self.stage = if over || self.is_long() { CgStage::Look } else { CgStage::Step };
    }
}

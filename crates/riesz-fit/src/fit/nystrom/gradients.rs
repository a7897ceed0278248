//! Conjugate gradients in which each product with the matrix is a pass over all rows.
//!
//! A pass at coefficients θ (size × targets) returns the residual of the normal equations `Aθ = b`,
//! `r(θ) = Kᵀ(y - Kθ) - λPθ = b - Aθ`. The difference of the residuals at two points is a product with A, so
//! no other pass is needed. The iteration is in coordinates `u = Lᵀ(θ - θ₀)`, where LLᵀ is the matrix of a
//! sample's normal equations and θ₀ their solution. In these coordinates the matrix is `L⁻¹AL⁻ᵀ`, which is
//! close to a multiple of the identity. The norm of the residual is `√(rᵀ(LLᵀ)⁻¹r)`, which enters the
//! certificates.
//!
//! Residuals are measured at the current solution and at a fixed distance from it along each direction. The
//! products are therefore as accurate at the end as at the beginning.

use std::sync::atomic::AtomicBool;

use crate::error::Result;
use crate::linalg::Matrix;
use crate::linalg::block_cg::BlockConjugateGradients;

/// Maximum number of iterations.
const MAX_STEPS: usize = 300;

/// State of conjugate gradients in the coordinates u (size × targets).
#[derive(Debug, Clone)]
pub(super) struct CgState {
    pub stage: CgStage,
    /// Distance between the measured point and the current solution, one number per target.
    probe_norms: Vec<f64>,
    /// The iteration; `None` before the first pass.
    run: Option<BlockConjugateGradients>,
    /// The number of iterations so far.
    pub steps: usize,
}

/// The purpose of the next pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CgStage {
    /// Measures the residual at the start, or where the iteration seems to have converged.
    Look,
    /// Measures products with the matrix along the current directions.
    Step,
    /// No further pass.
    Done,
}

/// Returns the block unchanged.
fn identity_preconditioner(block: Vec<f64>, _: usize) -> Result<Vec<f64>> {
    Ok(block)
}

impl CgState {
    pub fn new(probe_norms: Vec<f64>) -> Self {
        Self { stage: CgStage::Look, probe_norms, run: None, steps: 0 }
    }

    /// Whether the maximum number of iterations is reached.
    pub fn is_long(&self) -> bool {
        self.steps >= MAX_STEPS
    }

    /// The point (size × targets) at which the next pass measures the residual; the solution when there is
    /// none.
    pub fn point(&self, size: usize) -> Matrix {
        let t = self.probe_norms.len();
        let Some(run) = &self.run else { return Matrix::zeros(size, t) };
        let mut point = Matrix::from_row_major(size, t, run.solution.clone());
        let directions = &run.directions;
        let s = directions.len() / size;
        if self.stage == CgStage::Step {
            for (i, row) in directions.chunks_exact(s).enumerate() {
                (0..s).for_each(|k| point[(i, k)] += self.probe_norms[k] * row[k]);
            }
        }
        point
    }

    /// Takes a step, given the `residual` at the [`point`](Self::point).
    pub fn step(&mut self, residual: &Matrix) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let s = run.directions.len() / residual.rows();
        let images = (0..residual.rows() * s)
            .map(|entry| {
                let (i, k) = (entry / s, entry % s);
                (run.residual[i * self.probe_norms.len() + k] - residual[(i, k)]) / self.probe_norms[k]
            })
            .collect();
        run.images = images;
        self.steps += 1;
        let definite = run.advance(identity_preconditioner, &AtomicBool::new(false))?;
        self.next_stage();
        if !definite {
            self.stage = CgStage::Look;
        }
        Ok(())
    }

    /// Restarts at the current solution with this `residual`, until the norm of each column is at most
    /// `targets`.
    pub fn restart(&mut self, residual: Matrix, targets: Vec<f64>) -> Result<()> {
        match &mut self.run {
            Some(run) => {
                run.targets = targets;
                run.restart(residual.into_data(), identity_preconditioner)?;
            }
            None => {
                self.run = Some(BlockConjugateGradients::new(
                    residual.into_data(),
                    targets,
                    identity_preconditioner,
                )?)
            }
        }
        self.next_stage();
        Ok(())
    }

    fn next_stage(&mut self) {
        let finished = self.run.as_ref().is_none_or(|run| run.converged() || run.is_stalled());
        self.stage = if finished || self.is_long() { CgStage::Look } else { CgStage::Step };
    }
}

//! Whitened inducing variables: `u = L v` are the values of the process at the m inducing points W, with
//! `K(W, W) = LLᵀ` (m × m) and v (m) standard normal.

use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, symmetric_eigen};
use crate::posterior::{PosteriorCovariance, VarianceReduction};
use crate::table::Table;

/// Minimal jitter on the diagonal of `K(W, W)`, relative to the mean of the diagonal. It acts as noise on the
/// inducing variables, so that a lower bound of the evidence remains a lower bound. It is always added, so
/// that the bound is a smooth function of the hyper-parameters.
///
/// Other amounts are chosen elsewhere: `fit/sparse_gp/posterior_from_statistics.rs` computes `min_jitter`
/// from the rounding errors of sufficient statistics, a published posterior has its own, and [`Cholesky`]
/// adds a jitter if the factorisation fails.
const JITTER: f64 = 1e-10;

/// Eigenvalues of the information matrix up to this value are ignored.
const MIN_EIGENVALUE: f64 = 1e-14;

/// Factorises the posterior precision `I + information` of v; `name` names it in error messages.
pub fn posterior_precision(information: &Matrix, name: &'static str) -> Result<Cholesky> {
    let mut precision = information.clone();
    precision.add_diagonal(|_| 1.0);
    Cholesky::new(precision, name)
}

/// The inducing points with the Cholesky factor of their gram matrix for one kernel.
pub struct WhitenedInducing {
    /// The factor L, m × m.
    pub factor: Cholesky,
    /// Total jitter on the diagonal of `K(W, W)`.
    pub jitter: f64,
    /// Jitter divided by the mean of the diagonal.
    relative: f64,
}

impl WhitenedInducing {
    /// Factorises `K(W, W)` with the minimal jitter. Cost O(m³).
    pub fn new(kernel: &Kernel, points: &Table) -> Result<Self> {
        Self::from_gram(kernel.gram(points), 0.0)
    }

    /// Factorises the gram matrix `K(W, W)` with at least `min_jitter` on its diagonal.
    pub fn from_gram(mut gram: Matrix, min_jitter: f64) -> Result<Self> {
        let level = gram.trace() / gram.rows() as f64;
        let added = min_jitter.max(JITTER * level);
        gram.add_diagonal(|_| added);
        let factor = Cholesky::new(gram, "gram matrix of the inducing points")?;
        let jitter = added + factor.jitter;
        Ok(Self { factor, jitter, relative: jitter / level })
    }

    /// Returns the gradient of an objective in the kernel's parameters through `K(W, W)`, if the objective's
    /// gradient in `K(W, W)` is `L⁻ᵀ inner L⁻¹`.
    pub fn gram_gradient(&self, kernel: &Kernel, points: &Table, mut inner: Matrix) -> Vec<f64> {
        self.factor.solve_upper_in_place(&mut inner);
        self.factor.solve_upper_right(&mut inner);
        let mut by_gram = inner;
        // The jitter is a multiple of the mean of the diagonal, so it depends on the kernel's parameters too.
        let trace = by_gram.trace();
        by_gram.add_diagonal(|_| self.relative * trace / points.rows() as f64);
        kernel.gradient(points, &by_gram)
    }

    /// Returns the posterior covariance of f, the same for each of the outputs, given the `information`
    /// `ΨD⁻¹Ψᵀ` of the observations, where D (diagonal) holds their variances given v and Ψ (m ×
    /// observations) their derivatives in v. Its variance reduction is `Q = L⁻ᵀ(I - (I + information)⁻¹)L⁻¹`,
    /// as a root with one column for each eigenvalue of `information` that is not negligible. Cost O(m³).
    pub fn posterior_covariance(&self, information: &Matrix, outputs: usize) -> Result<PosteriorCovariance> {
        let (values, vectors) = symmetric_eigen(information)?;
        let kept: Vec<usize> = (0..values.len()).filter(|&k| values[k] > MIN_EIGENVALUE).collect();
        let mut root = Matrix::zeros(vectors.rows(), kept.len());
        for i in 0..vectors.rows() {
            for (o, &k) in root.row_mut(i).iter_mut().zip(&kept) {
                *o = vectors[(i, k)] * (values[k] / (1.0 + values[k])).sqrt();
            }
        }
        self.factor.solve_upper_in_place(&mut root);
        Ok(PosteriorCovariance::new(vec![VarianceReduction::LowRank(root)], vec![1.0; outputs]))
    }
}

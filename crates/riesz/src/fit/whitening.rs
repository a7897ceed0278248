//! Whitened inducing variables: values of a process at inducing points as independent standard normal numbers
//! v, `u = L v` with `K(W, W) = LLᵀ`.

use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, symmetric_eigen};
use crate::table::Table;

/// Added to the diagonal of `K(W, W)`, relative to its mean. Inducing variables that are seen through so much
/// noise leave a bound a bound; that it is always the same leaves it smooth.
const JITTER: f64 = 1e-10;

/// Parts of what is known of a point's prior variance that are smaller are left out.
const MIN_EIGENVALUE: f64 = 1e-14;

/// The points at one kernel.
pub(crate) struct WhitenedInducing {
    /// L.
    pub factor: Cholesky,
    /// Jitter added to the diagonal of `K(W, W)`.
    pub jitter: f64,
    /// The jitter relative to the mean of the diagonal.
    relative: f64,
}

impl WhitenedInducing {
    /// Cost O(points³).
    pub fn new(kernel: &Kernel, points: &Table) -> Result<Self> {
        Self::with_jitter(kernel, points, 0.0)
    }

    /// Whitening with at least `min_jitter` added to the diagonal.
    pub fn with_jitter(kernel: &Kernel, points: &Table, min_jitter: f64) -> Result<Self> {
        let m = points.rows();
        let mut gram = kernel.gram(points);
        let level = (0..m).map(|i| gram[(i, i)]).sum::<f64>() / m as f64;
        let added = min_jitter.max(JITTER * level);
        gram.add_diagonal(|_| added);
        let factor = Cholesky::new(gram, "gram matrix of the inducing points")?;
        let jitter = added + factor.jitter;
        Ok(Self { factor, jitter, relative: jitter / level })
    }

    /// The slopes of what has those slopes by `K(W, W)` that are `L⁻ᵀ inner L⁻¹`.
    pub fn gram_gradient(&self, kernel: &Kernel, points: &Table, mut inner: Matrix) -> Vec<f64> {
        self.factor.solve_upper_in_place(&mut inner);
        self.factor.solve_upper_right(&mut inner);
        let mut by_gram = inner;
        // The jitter is a multiple of the mean of the diagonal.
        let m = points.rows();
        let trace: f64 = (0..m).map(|i| by_gram[(i, i)]).sum();
        by_gram.add_diagonal(|_| self.relative * trace / m as f64);
        kernel.gradient(points, &by_gram)
    }

    /// F with `FFᵀ = L⁻ᵀ(I - (I + information)⁻¹)L⁻¹`, with one column for every eigenvalue that is not
    /// negligible. Cost O(points³).
    pub fn reduction_root(&self, information: &Matrix) -> Result<Matrix> {
        let (values, vectors) = symmetric_eigen(information)?;
        let kept: Vec<usize> = (0..values.len()).filter(|&k| values[k] > MIN_EIGENVALUE).collect();
        let mut root = Matrix::zeros(vectors.rows(), kept.len());
        for i in 0..vectors.rows() {
            for (o, &k) in root.row_mut(i).iter_mut().zip(&kept) {
                *o = vectors[(i, k)] * (values[k] / (1.0 + values[k])).sqrt();
            }
        }
        self.factor.solve_upper_in_place(&mut root);
        Ok(root)
    }
}

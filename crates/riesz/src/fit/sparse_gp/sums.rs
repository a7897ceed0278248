//! What rows tell inducing points, as sums over them.

use super::collapsed::Collapsed;
use crate::error::{Error, Result, sized};
use crate::fit::whitened::Whitened;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix};
use crate::posterior::{Covariance, Known};
use crate::table::Table;

/// Sums over n rows X with targets y (n × t), of which m inducing points Z make a sparse Gaussian process: however many rows there
/// are, in one go or in parts that are added up. W is a diagonal matrix of weights, all 1 where the noise of all rows is the same.
#[derive(Debug, Clone)]
pub struct KernelSums {
    /// `S = K_ZX W K_XZ`, m × m.
    pub gram: Matrix,
    /// `b = K_ZX W y`, m × t.
    pub targets: Matrix,
    /// `tr yᵀWy`: of all targets together.
    pub squares: f64,
    /// `Σ_i w_i k(x_i, x_i)`.
    pub prior: f64,
    /// `Σ_i log w_i`.
    pub log_weights: f64,
    /// n.
    pub rows: usize,
    /// By how much each kernel value that was summed up may be off; 0 for doubles, whose rounding is known. Bounds count what rounding makes of `K_ZZ⁻¹`, n r √m/σ² nats for r.
    pub rounding: f64,
}

/// A sparse Gaussian process, over its inducing points.
#[derive(Debug, Clone)]
pub struct SparsePosterior {
    /// Coefficients of the mean, points × targets.
    pub coef: Matrix,
    /// What is besides the mean: `Q = K_ZZ⁻¹ - (K_ZZ + S/σ²)⁻¹`.
    pub covariance: Covariance,
    /// The evidence lower bound, in the targets' units: no more than `log p(y)` (Titsias 2009).
    pub lower: f64,
    /// No less than `log p(y)` (Titsias 2014).
    pub upper: f64,
    /// What was added to the diagonal of `K_ZZ`. The bounds are bounds with it too.
    pub jitter: f64,
}

/// How far rounding of sums may be from what tells points nothing, as a share of the noise.
const NEGLIGIBLE: f64 = 0.01;

/// Sums over whitened kernels, `L⁻¹SL⁻ᵀ` and `L⁻¹b` with `K_ZZ = LLᵀ`.
#[derive(Debug, Clone)]
pub(super) struct Told(pub KernelSums);

impl KernelSums {
    /// No rows yet.
    pub fn zeros(points: usize, targets: usize) -> Self {
        Self {
            gram: Matrix::zeros(points, points),
            targets: Matrix::zeros(points, targets),
            squares: 0.0,
            prior: 0.0,
            log_weights: 0.0,
            rows: 0,
            rounding: 0.0,
        }
    }

    /// The process with noise of variance `noise/w_i` that these rows and points make (Titsias 2009). Cost O(m³).
    ///
    /// Rounding of sums is blown up by `K_ZZ⁻¹` and divided by the noise, so that more is added to the diagonal of `K_ZZ` the rougher
    /// the sums are.
    ///
    /// # Errors
    /// [`Error::Shape`] if sums and points do not fit together; [`Error::Parameter`] for a noise that is not positive;
    /// [`Error::NotPositiveDefinite`]; [`Error::Overflow`].
    pub fn posterior(&self, kernel: &Kernel, points: &Table, noise: f64) -> Result<SparsePosterior> {
        let m = points.rows();
        sized(
            "the sums over pairs of inducing points",
            "rows",
            m,
            self.gram.rows(),
            "one an inducing point",
        )?;
        sized(
            "the sums over pairs of inducing points",
            "columns",
            m,
            self.gram.cols(),
            "one an inducing point",
        )?;
        sized("the sums of targets", "rows", m, self.targets.rows(), "one an inducing point")?;
        crate::fit::targets::check_noise(noise)?;
        kernel.validate(points.width())?;
        // Of doubles by the size of S; of rough kernel values where what they add equals what the jitter takes away.
        let size: f64 = (0..m).map(|i| self.gram[(i, i)]).sum();
        let doubles = f64::EPSILON / 2.0 * size / (NEGLIGIBLE * noise);
        let rough = self.rounding * (m as f64).sqrt();
        let own = Whitened::with_jitter(kernel, points, doubles.max(rough))?;
        let told = self.clone().whitened(&own.factor);
        Collapsed::new(own, told, noise)?.posterior()
    }

    fn whitened(mut self, factor: &Cholesky) -> Told {
        factor.solve_lower_in_place(&mut self.gram);
        factor.solve_lower_of_rows(&mut self.gram);
        self.gram.mirror_upper();
        factor.solve_lower_in_place(&mut self.targets);
        Told(self)
    }
}

impl Told {
    /// Adds rows: their whitened kernels `L⁻¹k(Z, x_i)` as rows of `half`, their targets, both times the roots of the weights, and
    /// their prior variances times the weights.
    pub fn add(&mut self, half: &Matrix, targets: &Matrix, prior: f64, log_weights: f64) {
        let Self(sums) = self;
        let add = |to: &mut Matrix, more: Matrix| {
            to.data_mut().iter_mut().zip(more.data()).for_each(|(to, more)| *to += more);
        };
        add(&mut sums.gram, half.inner());
        add(&mut sums.targets, half.transpose_matmul(targets));
        sums.squares += crate::linalg::dot(targets.data(), targets.data());
        sums.prior += prior;
        sums.log_weights += log_weights;
        sums.rows += half.rows();
    }
}

impl Collapsed {
    /// Mean, covariance and bounds. Cost O(m³).
    pub(super) fn posterior(&self) -> Result<SparsePosterior> {
        let covariance = Covariance {
            prior: 1.0,
            mirror: None,
            known: vec![Known::LowRank(self.points.root(&self.told)?)],
            scale: vec![1.0; self.alpha.cols()],
        };
        Ok(SparsePosterior {
            coef: self.alpha.clone(),
            covariance,
            lower: self.value,
            upper: self.upper()?,
            jitter: self.points.jitter,
        })
    }
}

/// What is not finite in a bound.
pub(super) fn overflow() -> Error {
    let what = "the evidence through inducing points".into();
    Error::Overflow { what, remedy: "check the kernel's parameters and the noise" }
}

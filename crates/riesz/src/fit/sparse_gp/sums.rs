//! A sparse Gaussian process from what rows tell its points.

use super::collapsed::Collapsed;
use super::told::KernelSums;
use crate::error::{Result, sized};
use crate::fit::whitened::Whitened;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::posterior::{Covariance, Known};
use crate::table::Table;

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

impl KernelSums {
    /// The process with noise of variance `noise/w_i` that these rows and points make (Titsias 2009). Cost O(m³).
    ///
    /// Rounding of sums is blown up by `K_ZZ⁻¹` and divided by the noise, so that more is added to the diagonal of `K_ZZ` the rougher
    /// the sums are.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) if sums and points do not fit together; [`Error::Parameter`](crate::Error::Parameter) for a noise that is not positive;
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite); [`Error::Overflow`](crate::Error::Overflow).
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

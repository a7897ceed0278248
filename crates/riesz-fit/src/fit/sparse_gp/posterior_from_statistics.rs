//! The posterior of a sparse Gaussian process, computed from the sufficient statistics of its rows.

use super::collapsed_bound::CollapsedBound;
use super::sufficient_statistics::KernelSums;
use crate::error::{Result, sized};
use crate::gp::whitened_inducing::{WhitenedInducing, posterior_precision};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::posterior::PosteriorCovariance;
use crate::table::Table;

/// Posterior of a sparse Gaussian process, as an expansion over its m inducing points Z.
#[derive(Debug, Clone)]
pub struct SparsePosterior {
    /// Coefficients of the mean, m × targets.
    pub coef: Matrix,
    /// The posterior covariance: `Q = K_ZZ⁻¹ - (K_ZZ + S/σ²)⁻¹`, with `S = K_ZX W K_XZ`; all are m × m.
    pub covariance: PosteriorCovariance,
    /// The evidence lower bound, in the targets' units: at most `log p(y)` (Titsias 2009).
    pub lower: f64,
    /// Upper bound of `log p(y)` (Titsias 2014).
    pub upper: f64,
    /// The jitter on the diagonal of `K_ZZ`. Both bounds remain valid with jitter.
    pub jitter: f64,
}

/// Largest accepted effect of rounding on the sums, as a share of the noise.
const NEGLIGIBLE: f64 = 0.01;

impl KernelSums {
    /// Computes the posterior for noise variances `noise/w_i` (Titsias 2009). Cost O(m³).
    ///
    /// `K_ZZ⁻¹` amplifies the rounding errors of the sums, and the noise divides them. Larger rounding errors
    /// therefore require a larger jitter on the diagonal of `K_ZZ`.
    ///
    /// # Errors
    /// [`Error::Shape`](riesz_core::Error::Shape) if sums and points do not fit together;
    /// [`Error::Parameter`](riesz_core::Error::Parameter) for a noise that is not positive;
    /// [`Error::NotPositiveDefinite`](riesz_core::Error::NotPositiveDefinite);
    /// [`Error::Overflow`](riesz_core::Error::Overflow).
    pub fn posterior(&self, kernel: &Kernel, points: &Table, noise: f64) -> Result<SparsePosterior> {
        for (subject, unit, count) in [
            ("the sums over pairs of inducing points", "rows", self.gram.rows()),
            ("the sums over pairs of inducing points", "columns", self.gram.cols()),
            ("the sums of targets", "rows", self.targets.rows()),
        ] {
            sized(subject, unit, points.rows(), count, "one per inducing point")?;
        }
        crate::fit::target_scaling::check_noise(noise)?;
        kernel.validate(points.width())?;
        let whitening = whitening_for_rounding(kernel, points, &self.gram, self.rounding, noise)?;
        let statistics = self.clone().whitened(&whitening.factor);
        CollapsedBound::new(whitening, statistics, noise)?.posterior()
    }
}

/// Factorises the gram matrix of the inducing points, with a jitter that is large enough for the rounding
/// errors of the sums.
fn whitening_for_rounding(
    kernel: &Kernel,
    points: &Table,
    gram: &Matrix,
    rounding: f64,
    noise: f64,
) -> Result<WhitenedInducing> {
    // The first bound is for double-precision sums and grows with the trace of S. The second is for kernel
    // values with an error of up to `rounding`: the jitter then compensates the variance that these errors
    // appear to explain.
    let doubles = f64::EPSILON / 2.0 * gram.trace() / (NEGLIGIBLE * noise);
    let rough = rounding * (points.rows() as f64).sqrt();
    WhitenedInducing::from_gram(kernel.gram(points), doubles.max(rough))
}

/// Laplace approximation of a Gaussian process with inducing points Z, around the mode of its posterior
/// (Rasmussen and Williams 2006, section 3.4). The rows X (n) act as observations with variances `1/W`, where
/// the diagonal W (n × n) holds the curvatures of the negative log likelihood.
#[derive(Debug, Clone)]
pub(crate) struct InducingLaplace {
    /// `Q = K_ZZ⁻¹ - (K_ZZ + K_ZX W K_XZ)⁻¹`.
    pub covariance: PosteriorCovariance,
    /// `log det(I + K_ZZ⁻¹ K_ZX W K_XZ)`.
    pub volume: f64,
    /// The jitter on the diagonal of `K_ZZ`.
    pub jitter: f64,
}

impl InducingLaplace {
    /// Computes the approximation from `gram`, `K_ZX W K_XZ` (m × m). `rounding` bounds the error of each
    /// entry of `W^½ K_XZ`; it is 0 for double precision. Cost O(m³).
    pub fn new(kernel: &Kernel, points: &Table, mut gram: Matrix, rounding: f64) -> Result<Self> {
        let whitening = whitening_for_rounding(kernel, points, &gram, rounding, 1.0)?;
        whitening.factor.solve_lower_in_place(&mut gram);
        whitening.factor.solve_lower_right(&mut gram);
        gram.mirror_upper();
        let covariance = whitening.posterior_covariance(&gram, 1)?;
        let volume = posterior_precision(&gram, "information matrix of the landmarks")?.log_det();
        Ok(Self { covariance, volume, jitter: whitening.jitter })
    }
}

impl CollapsedBound {
    /// Returns the mean, the covariance and both bounds. Cost O(m³).
    pub fn posterior(&self) -> Result<SparsePosterior> {
        Ok(SparsePosterior {
            coef: self.alpha.clone(),
            covariance: self.points.posterior_covariance(&self.information, self.alpha.cols())?,
            lower: self.value,
            upper: self.upper_bound()?,
            jitter: self.points.jitter,
        })
    }
}

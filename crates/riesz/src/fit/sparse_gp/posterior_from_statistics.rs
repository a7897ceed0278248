//! The posterior of a sparse Gaussian process from sufficient statistics of its rows.

use super::collapsed::CollapsedBound;
use super::sufficient_statistics::KernelSums;
use crate::error::{Result, sized};
use crate::fit::whitening::WhitenedInducing;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix};
use crate::posterior::{PosteriorCovariance, VarianceReduction};
use crate::table::Table;

/// A sparse Gaussian process, over its inducing points.
#[derive(Debug, Clone)]
pub struct SparsePosterior {
    /// Coefficients of the mean, points × targets.
    pub coef: Matrix,
    /// The posterior covariance: `Q = K_ZZ⁻¹ - (K_ZZ + S/σ²)⁻¹`.
    pub covariance: PosteriorCovariance,
    /// The evidence lower bound, in the targets' units: at most `log p(y)` (Titsias 2009).
    pub lower: f64,
    /// No less than `log p(y)` (Titsias 2014).
    pub upper: f64,
    /// The jitter on the diagonal of `K_ZZ`. The bounds are bounds with it too.
    pub jitter: f64,
}

/// The largest accepted distance of rounded statistics from positive semidefiniteness, as a share of the
/// noise.
const NEGLIGIBLE: f64 = 0.01;

impl KernelSums {
    /// The posterior with noise of variance `noise/w_i` for these statistics and points (Titsias 2009). Cost
    /// O(m³).
    ///
    /// Rounding of sums is amplified by `K_ZZ⁻¹` and divided by the noise, so that more is added to the
    /// diagonal of `K_ZZ` the rougher the sums are.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) if sums and points do not fit together;
    /// [`Error::Parameter`](crate::Error::Parameter) for a noise that is not positive;
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite);
    /// [`Error::Overflow`](crate::Error::Overflow).
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
        crate::fit::target_scaling::check_noise(noise)?;
        kernel.validate(points.width())?;
        let whitening = whitening_for_rounding(kernel, points, &self.gram, self.rounding, noise)?;
        let statistics = self.clone().whitened(&whitening.factor);
        CollapsedBound::new(whitening, statistics, noise)?.posterior()
    }
}

/// Points, with what roundings of such sums ask to be added to the diagonal of their kernel.
fn whitening_for_rounding(
    kernel: &Kernel,
    points: &Table,
    gram: &Matrix,
    rounding: f64,
    noise: f64,
) -> Result<WhitenedInducing> {
    // Of doubles by the size of S; of rough kernel values where what they add equals what the jitter takes
    // away.
    let m = points.rows();
    let size: f64 = (0..m).map(|i| gram[(i, i)]).sum();
    let doubles = f64::EPSILON / 2.0 * size / (NEGLIGIBLE * noise);
    let rough = rounding * (m as f64).sqrt();
    WhitenedInducing::with_jitter(kernel, points, doubles.max(rough))
}

/// The Laplace approximation of a process through inducing points Z, for a log likelihood with curvatures W
/// at rows X, around its mode (Rasmussen and Williams 2006, section 3.4): as if rows were observed with
/// variances `1/W`.
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
    /// From `K_ZX W K_XZ`, and a bound on the error of each entry of `W^½ K_XZ`; 0 for doubles. Cost O(m³).
    pub(crate) fn new(kernel: &Kernel, points: &Table, mut gram: Matrix, rounding: f64) -> Result<Self> {
        let whitening = whitening_for_rounding(kernel, points, &gram, rounding, 1.0)?;
        whitening.factor.solve_lower_in_place(&mut gram);
        whitening.factor.solve_lower_right(&mut gram);
        gram.mirror_upper();
        let known = VarianceReduction::LowRank(whitening.reduction_root(&gram)?);
        gram.add_diagonal(|_| 1.0);
        let volume = Cholesky::new(gram, "information matrix of the landmarks")?.log_det();
        let covariance = PosteriorCovariance {
            prior_scale: 1.0,
            skew_swap: None,
            reduction: vec![known],
            scale: vec![1.0],
        };
        Ok(Self { covariance, volume, jitter: whitening.jitter })
    }
}

impl CollapsedBound {
    /// Mean, covariance and bounds. Cost O(m³).
    pub(super) fn posterior(&self) -> Result<SparsePosterior> {
        let covariance = PosteriorCovariance {
            prior_scale: 1.0,
            skew_swap: None,
            reduction: vec![VarianceReduction::LowRank(self.points.reduction_root(&self.information)?)],
            scale: vec![1.0; self.alpha.cols()],
        };
        Ok(SparsePosterior {
            coef: self.alpha.clone(),
            covariance,
            lower: self.value,
            upper: self.upper_bound()?,
            jitter: self.points.jitter,
        })
    }
}

//! A sparse Gaussian process from what rows tell its points.

use super::collapsed::CollapsedBound;
use super::told::KernelSums;
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
    /// What is besides the mean: `Q = K_ZZ⁻¹ - (K_ZZ + S/σ²)⁻¹`.
    pub covariance: PosteriorCovariance,
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
    /// The process with noise of variance `noise/w_i` that these rows and points make (Titsias 2009). Cost
    /// O(m³).
    ///
    /// Rounding of sums is blown up by `K_ZZ⁻¹` and divided by the noise, so that more is added to the
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
        let own = whitening_for_rounding(kernel, points, &self.gram, self.rounding, noise)?;
        let told = self.clone().whitened(&own.factor);
        CollapsedBound::new(own, told, noise)?.posterior()
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

/// What a log likelihood of curvatures W at rows X tells of a process through points Z, around its mode
/// (Rasmussen and Williams 2006, section 3.4): as if rows were observed with variances `1/W`.
#[derive(Debug, Clone)]
pub(crate) struct InducingLaplace {
    /// `Q = K_ZZ⁻¹ - (K_ZZ + K_ZX W K_XZ)⁻¹`.
    pub covariance: PosteriorCovariance,
    /// `log det(I + K_ZZ⁻¹ K_ZX W K_XZ)`.
    pub volume: f64,
    /// What was added to the diagonal of `K_ZZ`.
    pub jitter: f64,
}

impl InducingLaplace {
    /// By `K_ZX W K_XZ`, and by how much each number of `W^½ K_XZ` may be off; 0 for doubles. Cost O(m³).
    pub(crate) fn new(kernel: &Kernel, points: &Table, mut gram: Matrix, rounding: f64) -> Result<Self> {
        let own = whitening_for_rounding(kernel, points, &gram, rounding, 1.0)?;
        own.factor.solve_lower_in_place(&mut gram);
        own.factor.solve_lower_right(&mut gram);
        gram.mirror_upper();
        let known = VarianceReduction::LowRank(own.reduction_root(&gram)?);
        gram.add_diagonal(|_| 1.0);
        let volume = Cholesky::new(gram, "what rows tell of the landmarks")?.log_det();
        let covariance = PosteriorCovariance {
            prior_scale: 1.0,
            skew_swap: None,
            reduction: vec![known],
            scale: vec![1.0],
        };
        Ok(Self { covariance, volume, jitter: own.jitter })
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

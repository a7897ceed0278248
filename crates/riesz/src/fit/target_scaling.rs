//! Targets of Gaussian processes, scaled to the units in which they are modelled.

use crate::error::{Error, Result, sized};
use crate::kernel::mean_variance;
use crate::linalg::{Matrix, Sparse, dot};

/// Targets as the process models them.
pub(super) struct ScaledTargets {
    /// Observations × targets: minus `center` of every f that is summed, divided by `scale`.
    pub values: Matrix,
    pub center: Vec<f64>,
    pub per_output_scale: Vec<f64>,
    /// Multiplies kernel and noise: one target's own variance, so that it need not be scaled.
    pub unit_variance: f64,
}

impl ScaledTargets {
    /// Scales `y` (observations × targets): standardised, or unchanged. With an operator, each observation is
    /// the weighted sum of rows in its column.
    ///
    /// # Errors
    /// [`Error::TooFew`] without any; [`Error::NotFinite`]; [`Error::Target`] if one to be normalised is
    /// constant.
    pub fn new(y: &Matrix, operator: Option<&Sparse>, normalise: bool) -> Result<Self> {
        if y.cols() == 0 || y.rows() == 0 {
            return Err(Error::TooFew {
                subject: "the target".into(),
                needed: 1,
                unit: "row and column are",
            });
        }
        if let Some(position) = y.data().iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite {
                row: position / y.cols(),
                column: "target".into(),
                value: y.data()[position],
            });
        }
        let m = y.cols();
        let (mut center, mut scale, mut variance) = (vec![0.0; m], vec![1.0; m], 1.0);
        // Each observation of f = 1: the sum of its weights, set to 0 where it is only rounding.
        let (sums, sizes): (Vec<f64>, Vec<f64>) = match operator {
            None => (vec![1.0; y.rows()], Vec::new()),
            Some(a) => (0..a.cols())
                .map(|j| a.column(j).fold((0.0, 0.0), |(sum, size), (_, w)| (sum + w, size + w.abs())))
                .map(|(sum, size)| (if f64::abs(sum) > 1e-12 * size { sum } else { 0.0 }, size))
                .unzip(),
        };
        if normalise {
            for o in 0..m {
                let (mean, variance_of_target) = match operator {
                    None => mean_variance(&y.column(o)),
                    Some(_) => mean_variance_of_sums(&y.column(o), &sums, &sizes),
                };
                // Constant within rounding of the mean.
                if !(variance_of_target.sqrt() > 1e-12 * mean.abs()
                    && variance_of_target > 0.0
                    && variance_of_target.is_finite())
                {
                    return Err(Error::Target {
                        name: format!("target {}", o + 1),
                        problem: format!(
                            "has no spread to normalise by (mean {mean:.4e}, variance \
                             {variance_of_target:.1e}): there is nothing to learn, or set normalize_y to \
                             false"
                        ),
                    });
                }
                center[o] = mean;
                if m == 1 {
                    variance = variance_of_target;
                } else {
                    scale[o] = variance_of_target.sqrt();
                }
            }
        }
        let mut values = y.clone();
        for i in 0..y.rows() {
            for (o, v) in values.row_mut(i).iter_mut().enumerate() {
                *v = (*v - sums[i] * center[o]) / scale[o];
            }
        }
        Ok(Self { values, center, per_output_scale: scale, unit_variance: variance })
    }

    /// The logarithm of a density of these targets less that of the targets in their own units, up to
    /// `variance`.
    pub fn log_density_shift(&self) -> f64 {
        self.values.rows() as f64 * self.per_output_scale.iter().map(|s| s.ln()).sum::<f64>()
    }
}

/// Checks the variance of the noise.
pub(super) fn check_noise(noise: f64) -> Result<()> {
    if noise.is_finite() && noise > 0.0 {
        return Ok(());
    }
    Err(Error::parameter("noise", noise, "it is a positive number (a variance)"))
}

/// Checks known variances of the errors of single observations.
pub(super) fn check_row_noise(
    row_noise: &[f64],
    y: &Matrix,
    normalise: bool,
    why: &'static str,
) -> Result<()> {
    sized("row_noise", "numbers", y.rows(), row_noise.len(), why)?;
    if let Some(bad) = row_noise.iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
        return Err(Error::parameter("row_noise", bad, "variances are not negative"));
    }
    if normalise && y.cols() > 1 {
        return Err(Error::parameter(
            "row_noise",
            "given",
            "with several normalised targets it would differ between them: fit them one by one",
        ));
    }
    Ok(())
}

/// The constant c that fits `y_j = sums_j c` best, and the mean square around it divided by that of `sizes`:
/// the mean and the variance where both are 1.
pub(crate) fn mean_variance_of_sums(y: &[f64], sums: &[f64], sizes: &[f64]) -> (f64, f64) {
    let square: f64 = dot(sums, sums);
    let mean = if square > 0.0 { dot(sums, y) / square } else { 0.0 };
    let residual_sum: f64 = y.iter().zip(sums).map(|(y, sum)| (y - sum * mean).powi(2)).sum();
    (mean, residual_sum / dot(sizes, sizes))
}

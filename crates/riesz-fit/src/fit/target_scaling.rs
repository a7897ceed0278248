//! Scaling of a Gaussian process's targets to the units of its model.

use crate::checks::{check_spread, check_targets, not_negative};
use crate::error::{Error, Result, sized};
use crate::kernel::mean_variance;
use crate::linalg::{Matrix, Sparse, dot};
use crate::model_card::CardEntry;

/// Targets in the units of the process.
pub(super) struct ScaledTargets {
    /// Scaled targets, observations × targets: the observation of a constant function `center` is subtracted,
    /// and the difference is divided by `per_output_scale`.
    pub values: Matrix,
    pub center: Vec<f64>,
    pub per_output_scale: Vec<f64>,
    /// Factor of kernel and noise: the variance of a single target, which is therefore not divided by its
    /// scale.
    pub unit_variance: f64,
}

impl ScaledTargets {
    /// Scales `y` (observations × targets), or leaves it unchanged unless `normalise`. With an operator (rows
    /// × observations), each observation is a weighted sum of rows.
    ///
    /// # Errors
    /// [`Error::TooFew`] without observations or targets; [`Error::NotFinite`]; [`Error::Target`] if a target
    /// to be normalised is constant.
    pub fn new(y: &Matrix, operator: Option<&Sparse>, normalise: bool) -> Result<Self> {
        if y.cols() == 0 || y.rows() == 0 {
            return Err(Error::too_few("the target", 1, "row and column are"));
        }
        check_targets(y)?;
        let m = y.cols();
        let (mut center, mut scale, mut variance) = (vec![0.0; m], vec![1.0; m], 1.0);
        // Observations of the constant function f = 1: sums of weights, set to 0 where they are rounding
        // errors.
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
                check_spread(&format!("target {}", o + 1), mean, variance_of_target)?;
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

    /// The log density of the targets in these units minus their log density in their own units, without the
    /// contribution of `unit_variance`.
    pub fn log_density_shift(&self) -> f64 {
        self.values.rows() as f64 * self.per_output_scale.iter().map(|s| s.ln()).sum::<f64>()
    }
}

/// Entries of the model card with the variance of the noise, in the units of the kernel and in those in which
/// it was given.
pub(super) fn noise_entries(noise: f64, unit_variance: f64) -> Vec<CardEntry> {
    if unit_variance == 1.0 {
        return vec![CardEntry::measured("noise", noise)];
    }
    vec![
        CardEntry::measured("noise, in squared units of the target", noise),
        CardEntry::measured("noise, in units of the standardised target", noise / unit_variance),
    ]
}

/// Checks the variance of the noise.
pub(super) fn check_noise(noise: f64) -> Result<()> {
    if noise.is_finite() && noise > 0.0 {
        return Ok(());
    }
    Err(Error::parameter("noise", noise, "it is a positive number (a variance)"))
}

/// Checks known noise variances of single observations.
pub(super) fn check_row_noise(
    row_noise: &[f64],
    y: &Matrix,
    normalise: bool,
    why: &'static str,
) -> Result<()> {
    sized("row_noise", "numbers", y.rows(), row_noise.len(), why)?;
    row_noise.iter().try_for_each(|v| not_negative("row_noise", *v, "variances are not negative"))?;
    if normalise && y.cols() > 1 {
        return Err(Error::parameter(
            "row_noise",
            "given",
            "it would differ between several normalised targets: fit them one by one",
        ));
    }
    Ok(())
}

/// The constant c with the smallest `Σ_j (y_j - sums_j c)²`, and this sum divided by the sum of squares of
/// `sizes`. If `sums` and `sizes` are 1, these are the mean and the variance.
pub fn mean_variance_of_sums(y: &[f64], sums: &[f64], sizes: &[f64]) -> (f64, f64) {
    let square: f64 = dot(sums, sums);
    let mean = if square > 0.0 { dot(sums, y) / square } else { 0.0 };
    let residual_sum: f64 = y.iter().zip(sums).map(|(y, sum)| (y - sum * mean).powi(2)).sum();
    (mean, residual_sum / dot(sizes, sizes))
}

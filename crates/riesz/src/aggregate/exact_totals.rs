//! Targets without error: a map whose aggregates equal them.

use super::aggregate_data::Aggregates;
use super::exact_gp::AggregateGaussianProcess;

/// The variance of noise that stands for none, in squared units of the standardised target.
const NEGLIGIBLE_NOISE: f64 = 1e-10;

/// Largest deviation of fitted totals from the targets that counts as rounding, in standard deviations of the
/// targets.
const ROUNDING: f64 = 1e-6;

impl AggregateGaussianProcess {
    /// The process for targets without error, whose map aggregates to them up to rounding (the pycnophylactic
    /// property of Tobler 1979): a noise of 1e-10 of the targets' variance, and no noise of rows. Tuning
    /// changes the noise: apply this to the tuned process, too.
    pub fn with_exact_targets(self) -> Self {
        Self { noise: NEGLIGIBLE_NOISE, row_noise: 0.0, ..self }
    }
}

impl Aggregates {
    /// For targets that should be met exactly, as those of
    /// [`with_exact_targets`](AggregateGaussianProcess::with_exact_targets): the target with the largest
    /// deviation beyond rounding, 1e-6 of the targets' standard deviation, and this deviation; `None` if all
    /// are met.
    ///
    /// # Panics
    /// Unless there is a number a target.
    pub fn largest_mismatch(&self, fitted: &[f64]) -> Option<(usize, f64)> {
        let targets = &self.targets;
        assert_eq!(targets.len(), fitted.len(), "a number a target");
        let mean = targets.iter().sum::<f64>() / targets.len() as f64;
        let sd = (targets.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / targets.len() as f64).sqrt();
        let deviations = targets.iter().zip(fitted).map(|(z, value)| (z - value).abs()).enumerate();
        deviations
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|(_, deviation)| deviation.is_nan() || *deviation > ROUNDING * sd)
    }
}

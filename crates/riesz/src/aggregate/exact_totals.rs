//! Targets without error: a map that adds up to them.

use super::aggregate_data::Aggregates;
use super::exact_gp::AggregateGaussianProcess;

/// The variance of noise that stands for none, in squared units of the standardised target.
const NEGLIGIBLE_NOISE: f64 = 1e-10;

/// How far totals that are met may be off, in standard deviations of the targets.
const ROUNDING: f64 = 1e-6;

impl AggregateGaussianProcess {
    /// The same process of targets without error, whose map adds up to them but for rounding (the
    /// pycnophylactic property of Tobler 1979): a noise of 1e-10 of the targets' variance, and none of rows.
    /// Tuning moves the noise: take this of what is tuned, too.
    pub fn with_exact_targets(self) -> Self {
        Self { noise: NEGLIGIBLE_NOISE, row_noise: 0.0, ..self }
    }
}

impl Aggregates {
    /// Of targets that should be met, as those of
    /// [`with_exact_targets`](AggregateGaussianProcess::with_exact_targets), the one that is most off by more
    /// than rounding, 1e-6 of the targets' standard deviation, and by how much; `None` if all are met.
    ///
    /// # Panics
    /// Unless there is a number a target.
    pub fn largest_mismatch(&self, fitted: &[f64]) -> Option<(usize, f64)> {
        let targets = &self.targets;
        assert_eq!(targets.len(), fitted.len(), "a number a target");
        let mean = targets.iter().sum::<f64>() / targets.len() as f64;
        let spread = (targets.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / targets.len() as f64).sqrt();
        let off = targets.iter().zip(fitted).map(|(z, own)| (z - own).abs()).enumerate();
        off.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, off)| off.is_nan() || *off > ROUNDING * spread)
    }
}

//! Predictions of each observation from all other observations, at fixed hyper-parameters.

use crate::linalg::mean;

/// Predictions of each target from all other targets; each list has one number per target.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaveOneOut {
    /// The targets.
    pub targets: Vec<f64>,
    /// Expected values.
    pub mean: Vec<f64>,
    /// Variances of the predictions, including noise.
    pub variance: Vec<f64>,
    /// Standardised residuals. For counts, whose distribution is discrete, the normal score of the middle of
    /// the count's part of the distribution.
    pub scores: Vec<f64>,
    /// Logarithms of predictive densities, or of probabilities for counts.
    pub log_density: Vec<f64>,
}

impl LeaveOneOut {
    /// Predictions that are normal given the other targets.
    pub fn normal(targets: Vec<f64>, mean: Vec<f64>, variance: Vec<f64>) -> Self {
        let residual_parts = targets.iter().zip(&mean).zip(&variance);
        let scores: Vec<f64> =
            residual_parts.map(|((z, mean), variance)| (z - mean) / variance.sqrt()).collect();
        let log = |(score, variance): (&f64, &f64)| {
            -0.5 * (score * score + variance.ln() + std::f64::consts::TAU.ln())
        };
        let log_density = scores.iter().zip(&variance).map(log).collect();
        Self { targets, mean, variance, scores, log_density }
    }

    /// Predictions of normal targets `z` with the covariance V (n × n), noise included: the mean
    /// `z_t - a_t/p_t` and the variance `1/p_t` (Rasmussen and Williams 2006, equation 5.12). `weights` is
    /// `a = V⁻¹(z - prior mean)` and `precision` the diagonal p of `V⁻¹`.
    pub fn from_precision(targets: Vec<f64>, weights: &[f64], precision: &[f64]) -> Self {
        let residuals = targets.iter().zip(weights).zip(precision);
        let mean = residuals.map(|((z, weight), precision)| z - weight / precision).collect();
        Self::normal(targets, mean, precision.iter().map(|precision| 1.0 / precision).collect())
    }

    /// The root mean squared error.
    pub fn rmse(&self) -> f64 {
        let squares = self.targets.iter().zip(&self.mean).map(|(z, mean)| (z - mean).powi(2));
        (squares.sum::<f64>() / self.targets.len() as f64).sqrt()
    }

    /// The share of targets within `sds` standard deviations of their prediction.
    pub fn coverage(&self, sds: f64) -> f64 {
        let inside = self.scores.iter().filter(|score| score.abs() <= sds).count();
        inside as f64 / self.targets.len() as f64
    }

    /// The mean negative log density of each target given the others.
    pub fn nlpd(&self) -> f64 {
        -mean(&self.log_density)
    }
}

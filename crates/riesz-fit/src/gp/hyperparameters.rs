//! Hyper-parameters of a Gaussian process: the choice of the tuned ones, their priors, and their order in a
//! vector θ.
//!
//! Every model lists its hyper-parameters as [`Parameter`]s on the tuning scale (as a rule the natural
//! logarithm). The optimiser and the average over hyper-parameters use one vector θ in that order. A
//! [`ThetaReader`] returns the entries of θ to the model.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, SQRT_2, TAU};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use statrs::function::erf::{erfc, erfc_inv};

use crate::kernel::{Kernel, Parameter};

/// The hyper-parameters that are tuned by maximising the marginal likelihood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TunedParameters {
    /// None: the kernel and the noise stay fixed.
    Nothing,
    /// The kernel's parameters.
    Kernel,
    /// The noise.
    Noise,
    /// The kernel's parameters and the noise.
    KernelAndNoise,
}

impl TunedParameters {
    /// Indices of the tuned parameters among `count`: the kernel's, then noises from the index `noise` on.
    pub fn free(self, noise: usize, count: usize) -> Range<usize> {
        match self {
            Self::Nothing => count..count,
            Self::Kernel => 0..noise,
            Self::Noise => noise..count,
            Self::KernelAndNoise => 0..count,
        }
    }
}

/// Largest ratio of a parameter to its starting value, or of the starting value to the parameter, within the
/// default bounds.
pub(crate) const DEFAULT_BOUND_FACTOR: f64 = 1e5;

/// A hyper-parameter with its prior.
pub struct HyperParameter {
    /// The parameter; its value is the start of the search.
    pub parameter: Parameter,
    /// The prior; `None` for a parameter that stays fixed.
    pub prior: Option<HyperPrior>,
}

/// A weakly informative prior of a number on the tuning scale.
#[derive(Debug, Clone, Copy)]
pub enum HyperPrior {
    /// A normal distribution.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        sd: f64,
    },
    /// The prior of the logarithm of a length scale, with density proportional to `exp(-t/2 - exp(-t/2))`,
    /// where t is the distance from the mode. The density falls fast towards short length scales, that is,
    /// rough functions. It falls slowly towards long ones, because an irrelevant column has an infinite
    /// length scale. This is the penalised-complexity prior in one dimension (Fuglstad, Simpson, Lindgren and
    /// Rue 2019).
    PenalisedComplexity {
        /// The logarithm of the length scale of highest density.
        mode: f64,
    },
}

impl HyperPrior {
    /// Returns the quantile of the prior at the probability Φ(score), and its derivative in `score`. Φ is the
    /// standard normal distribution function.
    pub fn quantile_of_score(self, score: f64) -> (f64, f64) {
        match self {
            Self::Normal { mean, sd } => (mean + sd * score, sd),
            Self::PenalisedComplexity { mode } => {
                // The probability below t is exp(-u) with u = exp(-t/2). The smaller tail keeps more digits.
                let tail = 0.5 * erfc(score.abs() * FRAC_1_SQRT_2);
                let u = if score < 0.0 { -tail.ln() } else { -(-tail).ln_1p() };
                let density = (-0.5 * score * score).exp() / TAU.sqrt();
                (mode - 2.0 * u.ln(), 2.0 * density * u.exp() / u)
            }
        }
    }

    /// Returns the normal score of a number: the inverse of [`quantile_of_score`](Self::quantile_of_score).
    pub fn normal_score(self, number: f64) -> f64 {
        match self {
            Self::Normal { mean, sd } => (number - mean) / sd,
            Self::PenalisedComplexity { mode } => {
                let u = (-0.5 * (number - mode)).exp();
                let tail = if u > LN_2 { (-u).exp() } else { -(-u).exp_m1() };
                let score = SQRT_2 * erfc_inv(2.0 * tail.max(f64::MIN_POSITIVE));
                if u > LN_2 { -score } else { score }
            }
        }
    }

    /// Returns the logarithm of the density minus its maximum, and its derivative.
    fn log_density(self, number: f64) -> (f64, f64) {
        match self {
            Self::Normal { mean, sd } => {
                let z = (number - mean) / sd;
                (-0.5 * z * z, -z / sd)
            }
            Self::PenalisedComplexity { mode } => {
                let half_distance = 0.5 * (number - mode);
                (1.0 - half_distance - (-half_distance).exp(), 0.5 * ((-half_distance).exp() - 1.0))
            }
        }
    }
}

impl HyperParameter {
    /// Returns the hyper-parameter with a normal prior around its start, with standard deviation `sd`.
    pub fn with_normal_prior(parameter: Parameter, sd: f64) -> Self {
        Self { prior: Some(HyperPrior::Normal { mean: parameter.log_value, sd }), parameter }
    }

    /// Returns a length scale with a penalised-complexity prior whose mode is the start.
    pub fn with_length_scale_prior(parameter: Parameter) -> Self {
        Self { prior: Some(HyperPrior::PenalisedComplexity { mode: parameter.log_value }), parameter }
    }

    /// Returns the hyper-parameter with the default prior around its start: for a length scale the
    /// penalised-complexity prior, for other parameters a log-normal one, with one standard deviation a
    /// factor of e for a scale and of e^1.5 otherwise.
    pub fn with_default_prior(parameter: Parameter) -> Self {
        match &parameter.name[..] {
            _ if parameter.is_length_scale() => Self::with_length_scale_prior(parameter),
            "scale" => Self::with_normal_prior(parameter, 1.0),
            _ => Self::with_normal_prior(parameter, 1.5),
        }
    }

    /// Returns a hyper-parameter that stays fixed.
    pub fn fixed(parameter: Parameter) -> Self {
        Self { parameter, prior: None }
    }

    /// The bounds of the search.
    pub fn bounds(&self) -> (f64, f64) {
        let half_width = if self.prior.is_some() { DEFAULT_BOUND_FACTOR.ln() } else { 0.0 };
        (self.parameter.log_value - half_width, self.parameter.log_value + half_width)
    }

    /// Returns the logarithm of the prior's density minus its maximum, and its derivative; zeros for a fixed
    /// parameter.
    pub fn log_prior(&self, number: f64) -> (f64, f64) {
        self.prior.map_or((0.0, 0.0), |prior| prior.log_density(number))
    }
}

/// Returns the hyper-parameters with their default priors; those outside `free` stay fixed.
pub fn with_default_priors(parameters: Vec<Parameter>, free: &Range<usize>) -> Vec<HyperParameter> {
    let with_prior = |(i, parameter)| match free.contains(&i) {
        true => HyperParameter::with_default_prior(parameter),
        false => HyperParameter::fixed(parameter),
    };
    parameters.into_iter().enumerate().map(with_prior).collect()
}

/// Returns the values of parameters on the tuning scale.
pub fn log_values(parameters: &[Parameter]) -> Vec<f64> {
    parameters.iter().map(|p| p.log_value).collect()
}

/// Adds the log priors at `theta` to a value and the derivatives of the log priors to its gradient.
pub fn add_log_priors(
    coordinates: &[HyperParameter],
    theta: &[f64],
    (mut value, mut gradient): (f64, Vec<f64>),
) -> (f64, Vec<f64>) {
    for ((c, theta_value), slope) in coordinates.iter().zip(theta).zip(&mut gradient) {
        let (log_prior, derivative) = c.log_prior(*theta_value);
        (value, *slope) = (value + log_prior, *slope + derivative);
    }
    (value, gradient)
}

/// Reads the hyper-parameters of a model from θ, in the order in which the model lists them.
///
/// Reading panics where θ is too short; [`finish`](Self::finish) panics where it is too long.
pub struct ThetaReader<'t> {
    remaining: &'t [f64],
}

impl<'t> ThetaReader<'t> {
    /// Starts at the first number of θ.
    pub fn new(theta: &'t [f64]) -> Self {
        Self { remaining: theta }
    }

    /// Returns the next `count` numbers.
    pub fn take(&mut self, count: usize) -> &'t [f64] {
        let (values, following) = self.remaining.split_at(count);
        self.remaining = following;
        values
    }

    /// Returns the next number, on the tuning scale.
    pub fn number(&mut self) -> f64 {
        self.take(1)[0]
    }

    /// Returns the exponential of the next number: a parameter that is tuned by its logarithm.
    pub fn exp(&mut self) -> f64 {
        self.number().exp()
    }

    /// Returns `kernel` with the next numbers as its parameters.
    pub fn kernel(&mut self, kernel: &Kernel) -> Kernel {
        kernel.with_parameters(self.take(kernel.parameters().len()))
    }

    /// Checks that all numbers were read.
    ///
    /// # Panics
    /// If numbers remain.
    pub fn finish(self) {
        assert!(self.remaining.is_empty(), "{} values too many", self.remaining.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_have_the_density_of_the_prior() {
        for prior in
            [HyperPrior::Normal { mean: 0.7, sd: 1.5 }, HyperPrior::PenalisedComplexity { mode: -0.4 }]
        {
            // The densities of scores and numbers differ by the derivative of the quantile, and by a
            // constant.
            let constant = |score: f64| {
                let (quantile, slope) = prior.quantile_of_score(score);
                prior.log_density(quantile).0 + slope.ln() + 0.5 * score * score
            };
            for score in [-5.0, -2.0, -0.3, 0.0, 1.1, 3.0, 7.5] {
                let (quantile, slope) = prior.quantile_of_score(score);
                assert!(
                    (prior.normal_score(quantile) - score).abs() < 1e-7,
                    "{score}: {}",
                    prior.normal_score(quantile)
                );
                let difference = (prior.quantile_of_score(score + 1e-5).0
                    - prior.quantile_of_score(score - 1e-5).0)
                    / 2e-5;
                assert!((slope / difference - 1.0).abs() < 1e-6, "{score}: {slope} {difference}");
                assert!((constant(score) - constant(0.2)).abs() < 1e-7, "{score}: {}", constant(score));
            }
        }
    }
}

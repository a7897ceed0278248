//! Likelihoods of an observed count given its latent sum: Poisson and binomial, with or without
//! overdispersion.

use statrs::function::beta::checked_beta_reg;
use statrs::function::gamma::{checked_gamma_lr, checked_gamma_ur, ln_gamma};

use super::overdispersion::{
    beta_binomial, beta_binomial_tails, inflation, negative_binomial, negative_binomial_tails,
};
use super::{Likelihood, LikelihoodTerms};
use crate::error::{Error, Result};
use crate::kernel_model::{Link, logistic};

/// The distribution of counts, with the inverse link from f to a row's contribution.
#[derive(Debug, Clone, PartialEq)]
pub enum Family {
    /// Number of events: Poisson with mean `Σ_i w_i exp(f_i)`, where the weights `w_i` are exposures (people,
    /// person-years). f is the logarithm of a rate.
    Poisson,
    /// Number of successes in trials: binomial with success probability `Σ_i w_i σ(f_i)` and weights `w_i`
    /// that add up to 1. f is the log odds of a success.
    Binomial {
        /// The number of trials of each target.
        trials: Vec<f64>,
    },
}

/// The contribution of a row to the latent sum, and its derivatives in f.
#[derive(Debug, Clone, Copy)]
pub struct RateTerms {
    /// The rate, or the probability of binomial counts.
    pub rate: f64,
    /// One minus the probability for binomial counts; 0 for Poisson counts.
    pub complement: f64,
    /// First derivative of the rate in the latent value.
    pub first_derivative: f64,
    /// Second derivative of the rate in the latent value.
    pub second_derivative: f64,
}

/// The latent quantity of a count: the weighted sum of the rates of its rows.
#[derive(Debug, Clone, Copy)]
pub struct RateSum {
    /// The sum g.
    pub sum: f64,
    /// `1 - g` for binomial counts, as the weighted sum of the complements of probabilities; 0 for Poisson
    /// counts.
    pub complement: f64,
}

/// The likelihood of observed counts given their sums of rates. Its own parameter is the logarithm of the
/// dispersion, which may differ between counts.
pub struct CountLikelihood<'a> {
    /// The distribution of the counts.
    pub family: &'a Family,
    /// The counts.
    pub counts: &'a [f64],
    /// Overdispersion of each count, 0 for none.
    pub dispersions: Vec<f64>,
}

impl Likelihood for CountLikelihood<'_> {
    type Latent = RateSum;

    fn observations(&self) -> usize {
        self.counts.len()
    }

    fn terms(&self, t: usize, latent: RateSum) -> LikelihoodTerms {
        self.family.likelihood_terms(t, self.counts[t], self.dispersions[t], latent)
    }

    fn has_parameter(&self) -> bool {
        self.dispersions.iter().any(|dispersion| *dispersion > 0.0)
    }
}

impl Family {
    /// Returns the link between f and rates or probabilities.
    pub fn link(&self) -> Link {
        match self {
            Self::Poisson => Link::Log,
            Self::Binomial { .. } => Link::Logit,
        }
    }

    /// Checks the counts, and the trials of binomial counts.
    pub fn check(&self, counts: &[f64]) -> Result<()> {
        let is_count = |z: &f64| z.is_finite() && *z >= 0.0 && z.fract() == 0.0;
        if let Some(t) = counts.iter().position(|z| !is_count(z)) {
            let allowed = "counts are whole numbers, 0 or more";
            return Err(Error::parameter(format!("count of target {}", t + 1), counts[t], allowed));
        }
        let invalid = |problem: &str| Err(Error::target("of bags", problem));
        match self {
            Self::Poisson if counts.iter().all(|z| *z == 0.0) => {
                invalid("has only counts of 0: rates need at least one positive count")
            }
            Self::Poisson => Ok(()),
            Self::Binomial { trials } => {
                crate::error::sized(
                    "the list of trials",
                    "numbers",
                    counts.len(),
                    trials.len(),
                    "one per target",
                )?;
                for (t, (n, z)) in trials.iter().zip(counts).enumerate() {
                    if !(is_count(n) && *n >= z.max(1.0)) {
                        let allowed =
                            format!("they are a whole number, at least 1 and at least the count, {z}");
                        return Err(Error::parameter(format!("trials of target {}", t + 1), n, allowed));
                    }
                }
                let successes: f64 = counts.iter().sum();
                if successes == 0.0 || successes == trials.iter().sum::<f64>() {
                    return invalid("has the same outcome in all trials: add targets with other outcomes");
                }
                Ok(())
            }
        }
    }

    /// Returns the value of f at which all rows have the same rate, estimated from the total count.
    pub fn level(&self, counts: &[f64], exposures: &[f64]) -> f64 {
        let successes: f64 = counts.iter().sum();
        match self {
            Self::Poisson => (successes / exposures.iter().sum::<f64>()).ln(),
            Self::Binomial { trials } => (successes / (trials.iter().sum::<f64>() - successes)).ln(),
        }
    }

    /// Returns the contribution of a row with the latent value f.
    pub fn rate_terms(&self, f: f64) -> RateTerms {
        match self {
            Self::Poisson => {
                let rate = f.exp();
                RateTerms { rate, complement: 0.0, first_derivative: rate, second_derivative: rate }
            }
            Self::Binomial { .. } => {
                let (probability, complement) = (logistic(f), logistic(-f));
                let slope = probability * complement;
                RateTerms {
                    rate: probability,
                    complement,
                    first_derivative: slope,
                    second_derivative: slope * (complement - probability),
                }
            }
        }
    }

    /// Returns the log likelihood of target t and its derivatives in its sum of rates. z is the count and
    /// `dispersion` the overdispersion.
    fn likelihood_terms(&self, t: usize, z: f64, dispersion: f64, latent: RateSum) -> LikelihoodTerms {
        let RateSum { sum: g, complement } = latent;
        // 0 · log 0 is defined as 0.
        let times_log = |a: f64, x: f64| if a > 0.0 { a * x.ln() } else { 0.0 };
        let ratio = |a: f64, x: f64| if a > 0.0 { a / x } else { 0.0 };
        match self {
            Self::Poisson if dispersion > 0.0 => negative_binomial(z, dispersion, g),
            Self::Poisson => LikelihoodTerms {
                value: times_log(z, g) - g - ln_gamma(z + 1.0),
                first_derivative: ratio(z, g) - 1.0,
                second_derivative: -ratio(z, g) / g,
                information: 1.0 / g,
                d_information: -1.0 / (g * g),
                parameter_derivatives: [0.0; 3],
            },
            Self::Binomial { trials } if dispersion > 0.0 => {
                beta_binomial(trials[t], z, dispersion, g, complement)
            }
            Self::Binomial { trials } => {
                let n = trials[t];
                let log_combinations = ln_gamma(n + 1.0) - ln_gamma(z + 1.0) - ln_gamma(n - z + 1.0);
                let information = n / (g * complement);
                LikelihoodTerms {
                    value: times_log(z, g) + times_log(n - z, complement) + log_combinations,
                    first_derivative: ratio(z, g) - ratio(n - z, complement),
                    second_derivative: -ratio(z, g) / g - ratio(n - z, complement) / complement,
                    information,
                    d_information: -information * (complement - g) / (g * complement),
                    parameter_derivatives: [0.0; 3],
                }
            }
        }
    }

    /// Returns the mean and the variance of the count of target t.
    pub fn moments(&self, t: usize, dispersion: f64, latent: RateSum) -> (f64, f64) {
        let RateSum { sum: g, complement } = latent;
        match self {
            Self::Poisson => (g, g + dispersion * g * g),
            Self::Binomial { trials } => {
                let n = trials[t];
                (n * g, n * g * complement * inflation(n, dispersion))
            }
        }
    }

    /// Returns the sum of rates on the link scale, its logarithm or log odds, and the derivative of the sum
    /// in that value.
    pub fn link_of_sum(&self, latent: RateSum) -> (f64, f64) {
        let RateSum { sum: g, complement } = latent;
        match self {
            Self::Poisson => (g.ln(), g),
            Self::Binomial { .. } => ((g / complement).ln(), g * complement),
        }
    }

    /// Returns the predictive distribution of target t at the count z: the logarithm of `P(Z = z)`, the
    /// probabilities `P(Z < z)` and `P(Z > z)`, the mean and the variance. `link` is the latent sum on the
    /// link scale.
    pub fn probabilities(&self, t: usize, z: f64, dispersion: f64, link: f64) -> CountProbabilities {
        let part = self.rate_terms(link);
        let latent = RateSum { sum: part.rate, complement: part.complement };
        let log = self.likelihood_terms(t, z, dispersion, latent).value;
        let (mean, variance) = self.moments(t, dispersion, latent);
        let (below, above) = match self {
            Self::Poisson if dispersion > 0.0 => negative_binomial_tails(z, dispersion, part.rate),
            Self::Poisson => (
                // Counts are never negative, and a Poisson count with mean 0 is 0.
                if z > 0.0 { checked_gamma_ur(z, part.rate).unwrap_or(1.0) } else { 0.0 },
                checked_gamma_lr(z + 1.0, part.rate).unwrap_or(0.0),
            ),
            Self::Binomial { trials } if dispersion > 0.0 => {
                beta_binomial_tails(trials[t], z, dispersion, (part.rate, part.complement), log)
            }
            Self::Binomial { trials } => {
                let n = trials[t];
                // P(Z ≥ k) = I_p(k, n - k + 1).
                let from = |k: f64| match k {
                    _ if k <= 0.0 => 1.0,
                    _ if k > n => 0.0,
                    _ => checked_beta_reg(k, n - k + 1.0, part.rate).unwrap_or(0.0),
                };
                (1.0 - from(z), from(z + 1.0))
            }
        };
        CountProbabilities { log, below, above, mean, variance }
    }
}

/// Predictive distribution of a count Z, evaluated at z.
#[derive(Debug, Clone, Copy)]
pub struct CountProbabilities {
    /// `log P(Z = z)`.
    pub log: f64,
    /// `P(Z < z)`.
    pub below: f64,
    /// `P(Z > z)`.
    pub above: f64,
    /// Mean of Z.
    pub mean: f64,
    /// Variance of Z.
    pub variance: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64, tolerance: f64) {
        assert!(
            (actual - expected).abs() <= tolerance * (1.0 + expected.abs()),
            "{actual} is not {expected}"
        );
    }

    /// Both families with several dispersions, counts and sums.
    fn cases() -> Vec<(Family, f64, f64, f64)> {
        let mut cases = Vec::new();
        for family in [Family::Poisson, Family::Binomial { trials: vec![23.0] }] {
            for dispersion in [1e-3, 0.1, 0.7, 4.0] {
                for (z, link) in [(0.0, -2.0), (3.0, 0.4), (23.0, 1.7), (9.0, -0.2)] {
                    cases.push((family.clone(), dispersion, z, link));
                }
            }
        }
        cases
    }

    #[test]
    fn probabilities_have_the_stated_mean_and_variance() {
        for (family, dispersion, z, link) in cases() {
            let largest_count = if family == Family::Poisson { 20_000 } else { 23 };
            let distribution: Vec<(f64, f64)> = (0..=largest_count)
                .map(|k| (f64::from(k), family.probabilities(0, f64::from(k), dispersion, link).log.exp()))
                .collect();
            let expected = family.probabilities(0, z, dispersion, link);
            assert_close(distribution.iter().map(|(_, p)| p).sum(), 1.0, 1e-10);
            assert_close(distribution.iter().map(|(k, p)| k * p).sum(), expected.mean, 1e-9);
            assert_close(
                distribution.iter().map(|(k, p)| (k - expected.mean).powi(2) * p).sum(),
                expected.variance,
                1e-7,
            );
            assert_close(
                distribution.iter().filter(|(k, _)| *k < z).map(|(_, p)| p).sum(),
                expected.below,
                1e-9,
            );
            assert_close(
                distribution.iter().filter(|(k, _)| *k > z).map(|(_, p)| p).sum(),
                expected.above,
                1e-9,
            );
        }
    }

    #[test]
    fn without_dispersion_it_is_the_family() {
        for (family, _, z, link) in cases() {
            let (limit, near_it) =
                (family.probabilities(0, z, 0.0, link), family.probabilities(0, z, 1e-7, link));
            assert_close(near_it.log, limit.log, 1e-4);
            assert_close(near_it.below, limit.below, 1e-4);
            assert_close(near_it.above, limit.above, 1e-4);
            assert_close(near_it.variance, limit.variance, 1e-4);
        }
    }
}

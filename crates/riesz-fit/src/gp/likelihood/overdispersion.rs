//! Likelihoods of overdispersed counts: the rates of bags vary around the rates predicted from their rows or
//! mediators.
//!
//! The dispersion is φ, and g is the latent sum. If the rate of a Poisson count is multiplied by a gamma
//! variable of mean 1 and variance φ, the count is negative binomial with variance `g + φ g²`. If the
//! probability of a binomial count of n trials has a beta distribution with parameters `g/φ` and `(1 - g)/φ`,
//! the count is beta-binomial with variance `n g (1 - g)(1 + n φ)/(1 + φ)`. Both distributions tend to the
//! Poisson or binomial one as φ tends to 0.

use statrs::function::beta::checked_beta_reg;
use statrs::function::gamma::{digamma, ln_gamma};

use super::LikelihoodTerms;

/// Returns the log likelihood of a negative binomial count z and its derivatives.
pub(super) fn negative_binomial(z: f64, dispersion: f64, g: f64) -> LikelihoodTerms {
    let r = 1.0 / dispersion;
    let total = r + g;
    let log_share = if z > 0.0 { z * (g / total).ln() } else { 0.0 };
    // Derivatives in r; log r is minus the logarithm of the dispersion.
    let r_derivatives = [
        digamma(z + r) - digamma(r) - (g / r).ln_1p() + (g - z) / total,
        (z - g) / (total * total),
        1.0 / (total * total),
    ];
    LikelihoodTerms {
        value: ln_gamma(z + r) - ln_gamma(r) - ln_gamma(z + 1.0) - r * (g / r).ln_1p() + log_share,
        first_derivative: r * (z - g) / (g * total),
        second_derivative: (z + r) / (total * total) - if z > 0.0 { z / (g * g) } else { 0.0 },
        information: r / (g * total),
        d_information: 1.0 / (total * total) - 1.0 / (g * g),
        parameter_derivatives: r_derivatives.map(|v| -r * v),
    }
}

/// Returns `P(Z < z)` and `P(Z > z)` of a negative binomial count Z.
pub(super) fn negative_binomial_tails(z: f64, dispersion: f64, g: f64) -> (f64, f64) {
    let r = 1.0 / dispersion;
    // P(Z ≤ k) = I_(r/(r + g))(r, k + 1).
    let below = if z > 0.0 { checked_beta_reg(r, z, 1.0 / (1.0 + g / r)).unwrap_or(1.0) } else { 0.0 };
    (below, checked_beta_reg(z + 1.0, r, 1.0 / (1.0 + r / g)).unwrap_or(0.0))
}

/// Returns the ratio of the variance of a beta-binomial count of n trials to that of a binomial count.
pub(super) fn inflation(n: f64, dispersion: f64) -> f64 {
    (1.0 + n * dispersion) / (1.0 + dispersion)
}

/// Returns the log likelihood of a beta-binomial count z of n trials and its derivatives. `information` is n²
/// divided by the count's variance, a little less than the Fisher information.
pub(super) fn beta_binomial(n: f64, z: f64, dispersion: f64, g: f64, complement: f64) -> LikelihoodTerms {
    let s = 1.0 / dispersion;
    let (a, b, failures) = (g * s, complement * s, n - z);
    let [success_derivative, failure_derivative] =
        [(z, a), (failures, b)].map(|(k, from)| digamma(k + from) - digamma(from));
    let [success_curvature, failure_curvature] =
        [(z, a), (failures, b)].map(|(k, from)| trigamma(k + from) - trigamma(from));
    let log_combinations = ln_gamma(n + 1.0) - ln_gamma(z + 1.0) - ln_gamma(failures + 1.0);
    let [success_term, failure_term, normalizer] =
        [(z, a), (failures, b), (n, s)].map(|(k, from)| ln_gamma(k + from) - ln_gamma(from));
    let slope = s * (success_derivative - failure_derivative);
    let information = n / (g * complement * inflation(n, dispersion));
    let s_derivatives = [
        g * success_derivative + complement * failure_derivative + digamma(s) - digamma(n + s),
        slope / s + s * (g * success_curvature - complement * failure_curvature),
    ];
    // Derivative of the logarithm of the inflation.
    let log_inflation_derivative = dispersion * (n / (1.0 + n * dispersion) - 1.0 / (1.0 + dispersion));
    LikelihoodTerms {
        value: log_combinations + success_term + failure_term - normalizer,
        first_derivative: slope,
        second_derivative: s * s * (success_curvature + failure_curvature),
        information,
        d_information: -information * (complement - g) / (g * complement),
        parameter_derivatives: [
            -s * s_derivatives[0],
            -s * s_derivatives[1],
            -information * log_inflation_derivative,
        ],
    }
}

/// Returns `P(Z < z)` and `P(Z > z)`. The tail that does not contain the mean is summed outwards from z;
/// `log` is `log P(Z = z)`.
pub(super) fn beta_binomial_tails(
    n: f64,
    z: f64,
    dispersion: f64,
    (g, complement): (f64, f64),
    log: f64,
) -> (f64, f64) {
    let s = 1.0 / dispersion;
    let outwards = |z: f64, a: f64, b: f64| {
        let (mut k, mut term, mut sum) = (z, log.exp(), 0.0);
        while k < n && term > 0.0 {
            let ratio = (n - k) * (k + a) / ((k + 1.0) * (n - k - 1.0 + b));
            (k, term) = (k + 1.0, term * ratio);
            sum += term;
            if ratio < 1.0 && term < 1e-17 * sum {
                break;
            }
        }
        sum.min(1.0)
    };
    let opposite_tail = |tail: f64| (1.0 - tail - log.exp()).max(0.0);
    if z > n * g {
        let above = outwards(z, g * s, complement * s);
        (opposite_tail(above), above)
    } else {
        let below = outwards(n - z, complement * s, g * s);
        (below, opposite_tail(below))
    }
}

/// Returns the second derivative of `ln Γ` at x > 0. The recurrence raises x until the asymptotic series is
/// exact to rounding.
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 20.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let w = 1.0 / (x * x);
    let series = 1.0 / 6.0 - w * (1.0 / 30.0 - w * (1.0 / 42.0 - w * (1.0 / 30.0 - w * (5.0 / 66.0))));
    sum + 1.0 / x + 0.5 * w + w / x * series
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

    #[test]
    fn trigamma_matches_closed_forms() {
        let square = std::f64::consts::PI * std::f64::consts::PI;
        assert_close(trigamma(1.0), square / 6.0, 1e-15);
        assert_close(trigamma(0.5), square / 2.0, 1e-15);
        assert_close(
            trigamma(30.5),
            square / 2.0 - (0..30).map(|k| (f64::from(k) + 0.5).powi(-2)).sum::<f64>(),
            1e-14,
        );
    }
}

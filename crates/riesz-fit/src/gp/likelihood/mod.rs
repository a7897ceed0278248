//! Likelihoods of observations given latent quantities: outcomes ([`logistic`]) and counts ([`counts`]).
//! A new likelihood is a file that implements [`Likelihood`]. The normal likelihood needs no approximation;
//! it is part of the exact evidence ([`super::exact`]).

pub mod counts;
pub mod logistic;
mod overdispersion;

/// A likelihood of observations that are independent given their latent quantities, one for each observation.
///
/// Laplace's approximation needs nothing else of a likelihood. Where the latent quantities are values of f or
/// differences between them, it is computed by [`laplace`](super::laplace), which needs a log likelihood that
/// is concave in f and `information` equal to minus `second_derivative`. Where they are sums of rates, it is
/// computed in `aggregate::count_gp`.
pub trait Likelihood: Sync {
    /// The latent quantity of an observation: a value of f, or a sum of rates.
    type Latent: Copy;

    /// Returns the number of observations.
    fn observations(&self) -> usize;

    /// Returns the log likelihood of observation i and its derivatives at its latent quantity.
    fn terms(&self, i: usize, latent: Self::Latent) -> LikelihoodTerms;

    /// Returns the log likelihood of all observations.
    fn log_likelihood(&self, latent: &[Self::Latent]) -> f64 {
        latent.iter().enumerate().map(|(i, latent)| self.terms(i, *latent).value).sum()
    }

    /// Returns the weight of observation i; the first derivative of its term is at most this weight.
    fn weight(&self, _i: usize) -> f64 {
        1.0
    }

    /// Whether the likelihood has a parameter of its own that is tuned, such as a margin or a dispersion.
    fn has_parameter(&self) -> bool {
        false
    }

    /// Returns the derivative in that parameter of the part of the log likelihood that does not depend on
    /// latent quantities.
    fn constant_by_parameter(&self) -> f64 {
        0.0
    }
}

/// The log likelihood of an observation given its latent quantity g, and its derivatives.
#[derive(Debug, Clone, Copy)]
pub struct LikelihoodTerms {
    /// The logarithm of the observation's probability.
    pub value: f64,
    /// First derivative of the log likelihood in g.
    pub first_derivative: f64,
    /// Second derivative of the log likelihood in g.
    pub second_derivative: f64,
    /// The Fisher information about g, or a positive approximation of it.
    pub information: f64,
    /// Derivative of the Fisher information in g.
    pub d_information: f64,
    /// Derivatives of `value`, `first_derivative` and `information` in the likelihood's own parameter: the
    /// margin, or the logarithm of the dispersion. Zeros without a parameter.
    pub parameter_derivatives: [f64; 3],
}

#[cfg(test)]
mod tests {
    use super::counts::{CountLikelihood, Family, RateSum};
    use super::logistic::LogisticLikelihood;
    use super::*;

    fn assert_near(actual: f64, expected: f64, tolerance: f64) {
        let error = (actual - expected).abs();
        assert!(error <= tolerance * (1.0 + expected.abs()), "{actual} is not {expected}");
    }

    /// Compares every derivative of a likelihood of one observation with central differences.
    /// `likelihood_at` and `latent_at` return the likelihood and the latent quantity after a step in its own
    /// parameter and in g.
    fn check_derivatives<L: Likelihood>(
        likelihood_at: impl Fn(f64) -> L,
        latent_at: impl Fn(f64) -> L::Latent,
    ) {
        let step = 1e-5;
        let terms = |parameter: f64, g: f64| likelihood_at(parameter).terms(0, latent_at(g));
        let difference = |value: fn(&LikelihoodTerms) -> f64, in_parameter: bool| {
            let (parameter, g) = if in_parameter { (step, 0.0) } else { (0.0, step) };
            (value(&terms(parameter, g)) - value(&terms(-parameter, -g))) / (2.0 * step)
        };
        let analytic = terms(0.0, 0.0);
        assert_near(analytic.first_derivative, difference(|t| t.value, false), 1e-7);
        assert_near(analytic.second_derivative, difference(|t| t.first_derivative, false), 1e-7);
        assert_near(analytic.d_information, difference(|t| t.information, false), 1e-7);
        let by_parameter = analytic.parameter_derivatives;
        assert_near(by_parameter[0], difference(|t| t.value, true), 1e-6);
        assert_near(by_parameter[1], difference(|t| t.first_derivative, true), 1e-6);
        assert_near(by_parameter[2], difference(|t| t.information, true), 1e-6);
        let total = |parameter: f64| likelihood_at(parameter).log_likelihood(&[latent_at(0.0)]);
        let by_constant = likelihood_at(0.0).constant_by_parameter();
        assert_near(by_parameter[0] + by_constant, (total(step) - total(-step)) / (2.0 * step), 1e-6);
    }

    #[test]
    fn derivatives_of_counts_match_finite_differences() {
        for family in [Family::Poisson, Family::Binomial { trials: vec![23.0] }] {
            for dispersion in [0.0, 1e-3, 0.1, 0.7, 4.0_f64] {
                for (counts, link) in [([0.0], -2.0), ([3.0], 0.4), ([23.0], 1.7), ([9.0], -0.2)] {
                    let rate = family.rate_terms(link).rate;
                    let complement = |g: f64| if family == Family::Poisson { 0.0 } else { 1.0 - g };
                    check_derivatives(
                        |step| CountLikelihood {
                            family: &family,
                            counts: &counts,
                            dispersions: vec![dispersion * step.exp()],
                        },
                        |step| RateSum { sum: rate + step, complement: complement(rate + step) },
                    );
                }
            }
        }
    }

    #[test]
    fn derivatives_of_outcomes_match_finite_differences() {
        for (up, down, ties) in [(1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (3.0, 1.5, 1.0)] {
            for f in [-30.0, -1.2, 0.0, 0.4, 6.0] {
                let outcomes =
                    |margin: f64| LogisticLikelihood { up: vec![up], down: vec![down], margin, ties };
                check_derivatives(|step| outcomes(0.7 + step), |step| f + step);
                let terms = outcomes(0.7).terms(0, f);
                assert_eq!(terms.second_derivative, -terms.information);
            }
        }
    }
}

//! Likelihoods of observations given latent quantities: outcomes ([`logistic`]), counts ([`counts`]) and
//! choices from sets ([`choices`]). A new likelihood is a file that implements [`Likelihood`], or
//! [`JointLikelihood`] if an observation depends on several latent quantities. The normal likelihood needs no
//! approximation; it is part of the exact evidence ([`super::exact`]).

pub mod choices;
pub mod counts;
pub mod logistic;
mod overdispersion;
mod subsets;

pub use subsets::inclusion_probabilities;

use crate::error::Result;

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

/// A log-concave likelihood of observations that depend on several of the latent quantities g (n), as for
/// [`laplace::joint_mode`](super::laplace::joint_mode). W (n × n) is minus the Hessian of the log likelihood.
pub trait JointLikelihood {
    /// A matrix S with `S Sᵀ = W`.
    type Root: ToOwned + ?Sized;

    /// Returns the number of latent quantities n.
    fn latents(&self) -> usize;

    /// Returns the log likelihood of all observations.
    fn log_likelihood(&self, g: &[f64]) -> f64;

    /// Returns the quadratic approximation of the log likelihood around g.
    ///
    /// # Errors
    /// [`Error::Overflow`](riesz_core::Error::Overflow).
    fn local(&self, g: &[f64]) -> Result<LocalCurvature<Self::Root>>;

    /// Returns a bound of the absolute derivative in latent quantity i.
    fn weight(&self, i: usize) -> f64;
}

/// A quadratic approximation of a log likelihood around g.
pub struct LocalCurvature<Root: ToOwned + ?Sized> {
    /// The first derivatives.
    pub gradient: Vec<f64>,
    /// The vector `W g + gradient`, on which Newton's method regresses.
    pub target: Vec<f64>,
    /// A matrix S with `S Sᵀ = W`.
    pub root: Root::Owned,
}

/// A likelihood whose observations depend on one latent quantity each, so that W and S are diagonal.
pub(super) struct Factorised<'l, L>(pub &'l L);

impl<L: Likelihood<Latent = f64>> JointLikelihood for Factorised<'_, L> {
    type Root = [f64];

    fn latents(&self) -> usize {
        self.0.observations()
    }

    fn log_likelihood(&self, g: &[f64]) -> f64 {
        self.0.log_likelihood(g)
    }

    fn local(&self, g: &[f64]) -> Result<LocalCurvature<[f64]>> {
        let terms: Vec<LikelihoodTerms> = g.iter().enumerate().map(|(i, g)| self.0.terms(i, *g)).collect();
        let target = |(t, g): (&LikelihoodTerms, &f64)| t.information * g + t.first_derivative;
        Ok(LocalCurvature {
            gradient: terms.iter().map(|t| t.first_derivative).collect(),
            target: terms.iter().zip(g).map(target).collect(),
            root: terms.iter().map(|t| t.information.sqrt()).collect(),
        })
    }

    fn weight(&self, i: usize) -> f64 {
        self.0.weight(i)
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
    use super::choices::{ChoiceLikelihood, OptionSet};
    use super::counts::{CountLikelihood, Family, RateSum};
    use super::logistic::LogisticLikelihood;
    use super::*;
    use crate::linalg::Matrix;

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
    fn derivatives_of_choices_match_finite_differences() {
        let set = |scores: &[&[(usize, f64)]], count: usize, weights: &[f64]| OptionSet {
            scores: scores.iter().map(|score| score.to_vec()).collect(),
            count,
            weights: weights.to_vec(),
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| [(i, 1.0)]);
        let sets = [
            set(&[&a, &c, &b], 1, &[1.0, 0.0, 2.5]),
            set(&[&c, &d, &[]], 1, &[0.5, 1.0, 2.0]),
            set(&[&a, &[]], 1, &[1.0, 3.0]),
            set(&[&a, &b, &c, &d, &[]], 1, &[0.0, 1.0, 0.0, 0.0, 0.0]),
            // Two and three of several options, with scores that depend on several latent quantities.
            set(&[&[(0, 0.5), (1, -0.5)], &[(1, 0.5), (2, 1.0)], &c, &[]], 2, &[1.5, 2.5, 0.0, 1.0]),
            set(&[&a, &b, &[(0, -1.0)], &d, &c], 3, &[1.0, 2.0, 2.0, 1.0, 0.0]),
        ];
        let g = [0.4, -1.2, 2.0, 0.7];
        // A positive definite matrix.
        let c = Matrix::from_fn(4, 4, |i, j| if i == j { 2.0 } else { 0.3 / (1.0 + (i + j) as f64) });
        let curvature = |likelihood: &ChoiceLikelihood, g: &[f64]| {
            let root = likelihood.local(g).unwrap().root;
            let mut w = Matrix::zeros(4, 4);
            for column in 0..root.cols() {
                let entries: Vec<(usize, f64)> = root.column(column).collect();
                entries.iter().for_each(|(i, s)| entries.iter().for_each(|(j, t)| w[(*i, *j)] += s * t));
            }
            w
        };
        // Few sets have a root by sets; with all of them it has as many columns as latent quantities.
        for (used, columns) in [(&sets[..1], 2), (&sets[4..5], 3), (&sets[..], 4)] {
            let likelihood = ChoiceLikelihood { latents: 4, sets: used.to_vec() };
            let local = likelihood.local(&g).unwrap();
            assert_eq!(local.root.cols(), columns);
            let w = curvature(&likelihood, &g);
            let trace_gradient = likelihood.curvature_trace_gradient(&g, &c);
            for k in 0..4 {
                let moved = |step: f64| {
                    let mut moved = g;
                    moved[k] += step;
                    moved
                };
                let [up, down] = [1e-5, -1e-5].map(moved);
                let difference = |value: &dyn Fn(&[f64]) -> f64| (value(&up) - value(&down)) / 2e-5;
                assert_near(local.gradient[k], difference(&|g| likelihood.log_likelihood(g)), 1e-7);
                for i in 0..4 {
                    let slope = difference(&|g| likelihood.local(g).unwrap().gradient[i]);
                    assert_near(w[(i, k)], -slope, 1e-7);
                }
                let trace = |g: &[f64]| -> f64 {
                    let w = curvature(&likelihood, g);
                    -0.5 * w.data().iter().zip(c.data()).map(|(w, c)| w * c).sum::<f64>()
                };
                assert_near(trace_gradient[k], difference(&trace), 1e-6);
                let curved: f64 = (0..4).map(|j| w[(k, j)] * g[j]).sum();
                assert_near(local.target[k], curved + local.gradient[k], 1e-12);
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

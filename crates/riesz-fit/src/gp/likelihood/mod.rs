//! Likelihoods of outcomes ([`logistic`]) and of counts ([`counts`]): value, derivatives, Fisher information.
//! The normal likelihood is part of the exact evidence ([`super::exact`]).

pub mod counts;
pub mod logistic;
mod overdispersion;

/// The log likelihood of a count given its latent sum g, and its derivatives.
#[derive(Debug, Clone, Copy)]
pub struct LikelihoodTerms {
    /// The logarithm of the count's probability.
    pub value: f64,
    /// First derivative of the log likelihood in g.
    pub first_derivative: f64,
    /// Second derivative of the log likelihood in g.
    pub second_derivative: f64,
    /// The Fisher information about g.
    pub information: f64,
    /// Derivative of the Fisher information in g.
    pub d_information: f64,
    /// Mean of the count.
    pub mean: f64,
    /// Variance of the count.
    pub variance: f64,
    /// Derivative of g in its value on the link scale.
    pub link_derivative: f64,
    /// Derivatives of `value`, `first_derivative` and `information` in the logarithm of the dispersion; zeros
    /// without dispersion.
    pub dispersion_derivatives: [f64; 3],
}

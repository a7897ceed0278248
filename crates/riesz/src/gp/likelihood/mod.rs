//! Likelihoods of an observation given its latent value or sum: value, derivatives, Fisher information.

pub(crate) mod counts;
pub(crate) mod logistic;
mod overdispersion;

//! Components that all Gaussian process models of riesz share.
//!
//! A Gaussian process `f ~ GP(m, k)` is observed through linear functionals `g = A f(X)`, and each
//! observation has a likelihood `p(z | g)`. The callers choose A: values at rows ([`fit`](crate::fit)), sums
//! over bags (`aggregate`), differences between items (`preference`)
//! or the stages of a causal chain (`causal`). They share the following components:
//!
//! - Likelihood: normal in [`exact`]. Others implement [`likelihood::Likelihood`]: [`likelihood::logistic`]
//!   with ties, and [`likelihood::counts`] (Poisson, binomial and their overdispersed versions).
//! - Inference: [`exact`] for normal noise, [`laplace`] for log-concave likelihoods of f, [`jaakkola_bound`]
//!   for logistic outcomes; [`inference`] chooses between the last two. Laplace's approximation for sums of
//!   rates is in `aggregate::count_gp::laplace`. [`leave_one_out`] predicts each observation from the others.
//! - Many rows: [`inducing_points`] chooses points, [`whitened_inducing`] holds their whitened values. The
//!   collapsed bounds are in `fit::sparse_gp` and `aggregate::sparse_gp`.
//! - Hyper-parameters: [`hyperparameters`] has names and priors, [`search`] finds the maximum of the evidence
//!   from several starts, [`average`] averages over their posterior.
//!
//! The result is a [`KernelExpansion`](riesz_core::KernelExpansion) with a
//! [`PosteriorCovariance`](riesz_core::PosteriorCovariance).

pub mod average;
pub mod exact;
pub mod hyperparameters;
pub mod inducing_points;
pub mod inference;
pub mod jaakkola_bound;
pub mod laplace;
pub mod leave_one_out;
pub mod likelihood;
pub mod newton;
pub mod search;
pub mod whitened_inducing;

//! The choice of a normal approximation of the posterior given logistic outcomes.

use std::sync::atomic::AtomicBool;

use super::jaakkola_bound::maximise_bound;
use super::laplace::{GaussianApproximation, mode};
use super::likelihood::logistic::LogisticLikelihood;
use crate::error::Result;
use crate::linalg::Matrix;

/// Normal approximation of the posterior of log odds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inference {
    /// A normal distribution around the posterior mode (Laplace's approximation).
    Laplace,
    /// The normal distribution with the largest lower bound of the marginal likelihood, where each logistic
    /// function is replaced by a Gaussian function below it (Jaakkola and Jordan 2000). The bound never
    /// exceeds the true value, but as a rule it is further from it than Laplace's approximation, whose error
    /// may have either sign. Cost n³ for each of some tens of steps.
    JaakkolaBound,
}

impl Inference {
    /// Returns the approximation under the prior covariance `gram` (n × n). Laplace's starts the search for
    /// the mode at the coefficients `warm_start`, if they are given.
    ///
    /// # Errors
    /// As [`mode`] and [`maximise_bound`].
    pub fn approximate(
        self,
        gram: &Matrix,
        likelihood: &LogisticLikelihood,
        warm_start: Option<&[f64]>,
        stop: &AtomicBool,
    ) -> Result<GaussianApproximation> {
        match self {
            Self::Laplace => mode(gram, likelihood, warm_start, stop),
            Self::JaakkolaBound => maximise_bound(gram, likelihood, stop),
        }
    }
}

//! The conditional mean process `g(y) = E[f(X) | Y = y]` of a fitted process at new mediators y.
//!
//! The regression on mediators predicts the mean of f at mediators y from the means of f over the bags, with
//! the weights `B(y)` (J bags × q queries). Its error is `ω s`, where s is a Gaussian process with the
//! regression's covariance `S(y, y')`:
//!
//! ```text
//! g(y) = B(y)ᵀ Pᵀ f(X) + ω s(y),    z = BᵀPᵀ f(X) + ω s(ỹ) + e
//! ```
//!
//! With the covariance V of the targets z, their weights a and `U = PᵀK(X, X)P`, the posterior of g is
//!
//! ```text
//! C = BᵀUB(y) + ω² S(ỹ, y),    E g(y) = m B(y)ᵀPᵀ1 + Cᵀa,    cov = B(y)ᵀUB(y') + ω² S(y, y') - CᵀV⁻¹C
//! ```
//!
//! The noises of targets and of rows are not part of g. Where targets are regressed on mediators, g is that
//! regression: `B(y) = 0`, S is its kernel with `S(ỹ, y)` negative at ties, and ω² is the squared unit of
//! the targets. Source: Chau 2023, definition 3.3.1 and proposition 3.3.2; the term `ω s` is ours.

use super::aggregate_fit::AggregateFit;
use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::table::Table;

/// The prior of g at q new mediators, in terms of the J bags and M ties and targets.
pub(super) struct MediatorQueries {
    /// `B(y)`, J × q.
    pub bag_weights: Matrix,
    /// The prior mean of g for a prior mean of f of 1.
    pub responses: Vec<f64>,
    /// `S(ỹ, y)`, M × q, in the units of the targets.
    pub cross_covariance: Matrix,
    /// `S(y, y')`, q × q.
    pub covariance: Matrix,
}

impl AggregateFit {
    /// Posterior mean (q) and covariance (q × q) of `g(y) = E[f(X) | Y = y]` at each row of `mediators`,
    /// without noise of targets and rows. For sums, f and g are per unit of weight: the expected total is g
    /// times the sum of the weights. The hyper-parameters, also those of the regression on mediators, and an
    /// estimated prior mean count as known. Cost: J³ + J²q + JMq + M²q for J bags and M targets.
    ///
    /// # Errors
    /// [`Error::Parameter`] if no target was learnt through mediators; those of [`Table::align_to`];
    /// [`Error::Overflow`] for a kernel of mediators that is not finite at these.
    pub fn conditional_means(&self, mediators: &Table) -> Result<(Vec<f64>, Matrix)> {
        let Some(queries) = self.operator.queries(mediators, &self.bag_responses)? else {
            let allowed = "conditional means need targets that were learnt through mediators: fit with \
                           mediators, and with all targets mediated if each bag has rows";
            return Err(Error::parameter("mediators of the fit", "none", allowed));
        };
        let MediatorQueries { bag_weights, responses, mut cross_covariance, mut covariance } = queries;
        let factor = if self.operator.regression.is_some() { 1.0 } else { self.process.mediation_noise };
        let gram_weights = self.gram.matmul(&bag_weights);
        cross_covariance.scale(self.variance * factor);
        cross_covariance.add_times(1.0, &self.operator.transpose_times(&gram_weights));
        covariance.scale(self.variance * factor);
        covariance.add_times(1.0, &bag_weights.transpose_matmul(&gram_weights));
        let prior_mean = self.model.intercept[0];
        let deviations = cross_covariance.transpose_matvec(&self.weights);
        let means = deviations.iter().zip(responses).map(|(v, c)| prior_mean * c + v).collect();
        covariance.add_times(-1.0, &self.factor.inverse_quadratic_form(cross_covariance));
        Ok((means, covariance))
    }
}

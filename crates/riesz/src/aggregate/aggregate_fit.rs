//! Further results of a fitted process: the fitted targets, the leverage of each target, and predictions of
//! left-out targets; and fits averaged over the posterior of hyper-parameters.

use super::exact_gp::AggregateGaussianProcess;
use super::observation_operator::ObservationOperator;
use crate::error::{Error, Result};
use crate::gp::average::WithPosterior;
use crate::gp::exact::LeastSquaresMean;
use crate::gp::leave_one_out::LeaveOneOut;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix, Sparse, add_multiple};
use crate::posterior::{Posterior, PosteriorCovariance, cross_covariance_of_sums};
use crate::table::Table;

/// A fitted Gaussian process of aggregates.
#[derive(Debug, Clone)]
pub struct AggregateFit {
    /// The process with the hyper-parameters of the fit.
    pub process: AggregateGaussianProcess,
    /// The posterior mean of f, over all rows. Its intercept is the prior mean.
    pub model: KernelExpansion,
    /// Variance reduction relative to the prior. An estimated prior mean is treated as known.
    pub covariance: PosteriorCovariance,
    /// The operator that maps bags to targets.
    pub operator: ObservationOperator,
    /// `log p(z)`, at the best prior mean if it is estimated; with ties, the density given that they hold.
    pub log_marginal_likelihood: f64,
    /// Factor by which the variances were multiplied to convert them to the units of the targets.
    pub variance: f64,
    /// Jitter that was added to the variances of targets.
    pub jitter: f64,
    pub(super) bag_weights: Sparse,
    pub(super) targets: Vec<f64>,
    /// Gram matrix U of the bags, J × J.
    pub(super) gram: Matrix,
    /// Cholesky factor of the covariance V of ties and targets.
    pub(super) factor: Cholesky,
    /// Weights a of ties and targets.
    pub(super) weights: Vec<f64>,
    /// Responses of bags, and of ties and targets, to a constant function 1.
    pub(super) bag_responses: Vec<f64>,
    pub(super) responses: Vec<f64>,
}

impl AggregateFit {
    /// The posterior of f.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }

    /// The fitted targets `Aᵀ E f(X)`. The targets are the sum of these and `C a`, the part that is
    /// attributed to noise.
    pub fn fitted(&self) -> Vec<f64> {
        let mut fitted = self.operator.transpose_times_vector(self.bag_posterior().0);
        if let Some(regression) = &self.operator.regression {
            regression.fitted(self.model.intercept[0], self.variance, &self.weights, &mut fitted);
        }
        fitted.split_off(self.operator.tie_count())
    }

    /// The weights a of the targets: the inverse of their covariance times their differences from the prior
    /// mean.
    pub fn weights(&self) -> &[f64] {
        &self.weights[self.operator.tie_count()..]
    }

    /// The responses of targets to a constant function 1.
    pub fn constants(&self) -> &[f64] {
        &self.responses[self.operator.tie_count()..]
    }

    /// Mean and covariance (J × J) of the bags' aggregates under the posterior, without noise. Cost J²M.
    pub fn bag_posterior(&self) -> (Vec<f64>, Matrix) {
        let weights = self.operator.times_vector(self.weights.clone());
        let mean = self.model.intercept[0];
        let deviations = self.gram.matvec(&weights);
        let means = deviations.iter().zip(&self.bag_responses).map(|(v, c)| v + mean * c).collect();
        let mut whitened = self.operator.transpose_times(&self.gram);
        self.factor.solve_lower_in_place(&mut whitened);
        let reduction = whitened.transpose().matmul(&whitened);
        let mut covariance = self.gram.clone();
        covariance.add_times(-1.0, &reduction);
        (means, covariance)
    }

    /// The leverage H (rows × targets) of each target in the predictions at rows:
    /// `E f(x) = m + Σ_t H_t(x) (z_t - m (Aᵀ1)_t)`. It is also the change of the prediction when a target
    /// increases by one, with this prior mean. Cost N kernel values, JM and M² per row.
    ///
    /// # Errors
    /// Those of [`Table::align_to`].
    pub fn target_leverage(&self, x: &Table) -> Result<Matrix> {
        let x = x.align_to(self.model.columns())?;
        let bag_covariances =
            cross_covariance_of_sums(&self.model.kernel, &x, &self.model.support_points, &self.bag_weights);
        let target_covariances = self.operator.transpose_times(&bag_covariances.transpose());
        Ok(self.solve_and_transpose(target_covariances))
    }

    /// `B V⁻¹` (bags × targets): the change of the weight of each bag when a target increases by one, with
    /// this prior mean. Entries of [`target_leverage`](Self::target_leverage) are sums of these over bags.
    /// Cost JM².
    pub fn weight_sensitivities(&self) -> Matrix {
        self.solve_and_transpose(self.operator.matrix().transpose())
    }

    /// `V⁻¹` times each column of a matrix, as rows; the entries of ties, which are always 0, are left out.
    fn solve_and_transpose(&self, columns: Matrix) -> Matrix {
        let solved = self.factor.solve(columns);
        let target_rows = solved.data()[self.operator.tie_count() * solved.cols()..].to_vec();
        Matrix::from_row_major(self.targets.len(), solved.cols(), target_rows).transpose()
    }

    /// Predictions of each target from all others with the same parameters: the mean `z_t - a_t/[V⁻¹]_tt` and
    /// the variance `1/[V⁻¹]_tt`. An estimated prior mean is estimated again without the target, and its
    /// uncertainty is included (Dubrule 1983). These predictions can compare kernels of rows, but not kernels
    /// of mediators.
    ///
    /// # Errors
    /// [`Error::TooFew`] for a single target.
    pub fn leave_one_out(&self) -> Result<LeaveOneOut> {
        let (mut inverse, ties, m) = (self.factor.inverse(), self.operator.tie_count(), self.targets.len());
        if m < 2 {
            return Err(Error::too_few("the list of targets", 2, "targets are"));
        }
        if self.process.prior_mean.is_none() {
            let solve = |v: &[f64]| self.factor.solve_vector(v);
            let estimate = LeastSquaresMean::new(solve, &self.responses, &self.responses);
            let solved_response = estimate.solved_response;
            for i in (0..solved_response.len()).filter(|_| estimate.precision > 0.0) {
                let coefficient = solved_response[i] / estimate.precision;
                add_multiple(inverse.row_mut(i), -coefficient, &solved_response);
            }
        }
        let precision: Vec<f64> = (ties..ties + m).map(|t| inverse[(t, t)]).collect();
        Ok(LeaveOneOut::from_precision(self.targets.clone(), self.weights(), &precision))
    }
}

impl WithPosterior for AggregateFit {
    fn posterior(&self) -> Posterior<'_> {
        Self::posterior(self)
    }

    fn into_parts(self) -> (KernelExpansion, PosteriorCovariance) {
        (self.model, self.covariance)
    }
}

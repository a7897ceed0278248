//! Regression of targets on mediators: another model of targets without rows, for comparison.
//!
//! A Gaussian process of mediators, `g ~ GP(m, ω²ℓ)`, connects the targets with the bags with rows. Targets
//! are noisy values of g, `z_j = g(ỹ_j) + ε_j`, and means of bags are tied to g, `f̄_b = g(y_b) + τ_b`. Here
//! ỹ_j are the mediators of target j and y_b those of bag b. Given z, the values of g at bags are
//! *pseudo-targets* with a mean and a covariance C̃, and f is observed through these with the noise
//! `C̃ + τ²I`.
//!
//! The code does not form pseudo-targets. A tie is an observation `0 = f̄_b - g(y_b) - τ_b`, whose error is
//! correlated with the errors of the targets:
//!
//! ```text
//! cov = diag(τ², ε²) + ω² s s'ℓ,   s = -1 at ties and 1 at targets
//! ```
//!
//! The remaining computations are the same as for targets of bags. The marginal likelihood is the density of
//! the targets given the ties, `p(z | ties)`. The joint density `p(z) p(pseudo-targets)` has no maximum: it
//! grows without bound where f and g are constant and ties exact. This is ours; pseudo-targets without their
//! covariance are the baselines of Chau 2023, table 3.1.

use super::aggregate_data::Aggregates;
use super::mediation::{Mediation, Mediators, check_mediators_kernel};
use super::row_bags::unmatched_targets;
use crate::checks::positive;
use crate::error::{Result, sized};
use crate::gp::exact::{NormalEvidence, mean_and_residuals};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot, select};
use crate::table::Table;

/// The contribution of g to the covariance of ties and targets.
#[derive(Debug, Clone)]
pub(super) struct MediatorGp {
    kernel: Kernel,
    ridge: f64,
    /// Mediators of bags, then of targets without rows.
    mediators: Table,
    /// For each value of g its index among ties and targets, and its sign s.
    signed_positions: Vec<(usize, f64)>,
    /// `s s'ℓ` between these values.
    covariance: Matrix,
}

fn covariance(kernel: &Kernel, rows: &Table) -> Result<Matrix> {
    let gram = kernel.gram(rows);
    check_mediators_kernel(&gram)?;
    Ok(gram)
}

impl MediatorGp {
    /// Computes the covariance of g at the mediators of all `bags` and of the given `targets` without rows.
    /// The ties of bags come before the targets.
    pub fn new(mediation: &Mediation, mediators: &Mediators, targets: &[usize], bags: usize) -> Result<Self> {
        positive("ridge of the mediators", mediation.ridge)?;
        mediation.kernel.validate(mediators.bags.width())?;
        sized(
            "the table of mediators of bags",
            "rows",
            bags,
            mediators.bags.rows(),
            "one per bag with rows",
        )?;
        let stacked = mediators.bags.stack(&mediators.targets.select_rows(targets))?;
        let targets = targets.iter().map(|t| (bags + t, 1.0));
        let positions: Vec<(usize, f64)> = (0..bags).map(|b| (b, -1.0)).chain(targets).collect();
        let mut covariance = covariance(&mediation.kernel, &stacked)?;
        for (i, (_, sign)) in positions.iter().enumerate() {
            covariance.row_mut(i).iter_mut().zip(&positions).for_each(|(v, (_, sign2))| *v *= sign * sign2);
        }
        Ok(Self {
            kernel: mediation.kernel.clone(),
            ridge: mediation.ridge,
            mediators: stacked,
            signed_positions: positions,
            covariance,
        })
    }

    /// Returns the indices of targets without rows among ties and targets.
    fn unmatched_targets(&self) -> impl Iterator<Item = usize> {
        self.signed_positions.iter().filter(|(_, sign)| *sign > 0.0).map(|(t, _)| *t)
    }

    /// Returns the number of ties.
    pub fn tie_count(&self) -> usize {
        self.signed_positions.len() - self.unmatched_targets().count()
    }

    /// Adds the covariance of g and the ridge of targets without rows, both multiplied by `factor`, to the
    /// covariance `out` of ties and targets.
    pub fn add_to(&self, out: &mut Matrix, factor: f64) {
        for (i, (t, _)) in self.signed_positions.iter().enumerate() {
            self.signed_positions
                .iter()
                .enumerate()
                .for_each(|(k, (u, _))| out[(*t, *u)] += factor * self.covariance[(i, k)]);
        }
        self.unmatched_targets().for_each(|t| out[(t, t)] += factor * self.ridge);
    }

    /// Returns the prior covariance of all ties and targets (`count`) with g at new mediators (count × q),
    /// and that of g at these (q × q), in units of the kernel.
    pub fn cross_covariance(&self, mediators: &Table, count: usize) -> Result<(Matrix, Matrix)> {
        let mediators = mediators.align_to(self.mediators.columns())?;
        let cross = self.kernel.cross_gram(&self.mediators, &mediators);
        check_mediators_kernel(&cross)?;
        let mut out = Matrix::zeros(count, mediators.rows());
        for (i, (t, sign)) in self.signed_positions.iter().enumerate() {
            out.row_mut(*t).iter_mut().zip(cross.row(i)).for_each(|(v, k)| *v = sign * k);
        }
        Ok((out, covariance(&self.kernel, &mediators)?))
    }

    /// Returns the gradient of a function in the parameters of the [`Mediation`], given the function's
    /// derivatives `covariance_weights` in the covariance of ties and targets.
    pub fn gradient(&self, covariance_weights: &Matrix) -> Vec<f64> {
        let mut weights = Matrix::zeros(self.signed_positions.len(), self.signed_positions.len());
        for (i, (t, sign)) in self.signed_positions.iter().enumerate() {
            let row = weights.row_mut(i).iter_mut().zip(&self.signed_positions);
            row.for_each(|(v, (u, sign2))| *v = sign * sign2 * covariance_weights[(*t, *u)]);
        }
        let mut gradient = self.kernel.gradient(&self.mediators, &weights);
        gradient.push(self.ridge * self.unmatched_targets().map(|t| covariance_weights[(t, t)]).sum::<f64>());
        gradient
    }

    /// Sets the responses of ties (0) and of targets without rows (1) to a prior mean of 1. The prior mean of
    /// g equals that of f, and a tie is a difference of both. Responses of matched targets stay unchanged.
    pub fn set_constant_responses(&self, responses: &mut [f64]) {
        self.signed_positions
            .iter()
            .for_each(|(t, sign)| responses[*t] = if *sign > 0.0 { 1.0 } else { 0.0 });
    }

    /// Writes the posterior mean of g at targets without rows to `out`, given the prior mean of f and the
    /// `weights` of ties and targets, which are multiplied by `factor`.
    pub fn fitted(&self, mean: f64, factor: f64, weights: &[f64], out: &mut [f64]) {
        let position_weights: Vec<f64> = self.signed_positions.iter().map(|(t, _)| weights[*t]).collect();
        for (i, t) in self.unmatched_targets().enumerate() {
            out[t] = mean + factor * dot(self.covariance.row(self.tie_count() + i), &position_weights);
        }
    }
}

/// Returns the log marginal likelihood of the targets without rows under their regression on mediators alone,
/// and its gradient in the parameters of the [`Mediation`]. The mean is estimated by generalised least
/// squares unless it is given. Cost M³ for M targets without rows.
pub(super) fn log_evidence_and_gradient(
    mediation: &Mediation,
    data: &Aggregates,
    variance: f64,
    mean: Option<f64>,
) -> Result<(f64, Vec<f64>)> {
    let unmatched = unmatched_targets(&data.bag_of_target);
    let Some(mediators) = &data.mediators else { return Ok((0.0, vec![0.0; mediation.parameters().len()])) };
    let (rows, ridge) = (mediators.targets.select_rows(&unmatched), variance * mediation.ridge);
    let kernel = variance * mediation.kernel.clone();
    let mut gram = covariance(&kernel, &rows)?;
    let target_noise = |k: usize| data.target_noise.as_ref().map_or(0.0, |noise| noise[unmatched[k]]);
    gram.add_diagonal(|k| ridge + target_noise(k));
    let z = select(&data.targets, &unmatched);
    let factor = Cholesky::new(gram, "covariance of the targets")?;
    let (_, residual) = mean_and_residuals(&factor, &vec![1.0; z.len()], &z, mean);
    let evidence = NormalEvidence::from_factor(factor, &Matrix::column_vector(residual));
    let weights = evidence.covariance_gradient();
    let mut gradient = kernel.gradient(&rows, &weights);
    gradient.push(ridge * weights.trace());
    Ok((evidence.value, gradient))
}

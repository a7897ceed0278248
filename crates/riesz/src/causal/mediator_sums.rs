//! Effects as sums over mediators: the outcome is a function of the mediators, and an effect is a weighted
//! sum of this function over the rows of the first study.

use super::effect::{Effect, Model};
use super::study_chain::{ChainedOutcome, StudyLink};
use crate::error::{Result, unused};
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::table::Table;

/// An effect as a sum over rows of the first study: `g(x) = β₀ + Σ_i weights_xi (f(y_i) - β₀)`.
#[derive(Debug, Clone)]
pub struct MediatorSum {
    /// Weights, queries × rows.
    pub weights: Matrix,
    /// The posterior mean of the outcome at mediators, f, whose intercept is β₀.
    pub outcome: KernelExpansion,
    /// Mediators y of the first study's rows.
    pub mediators: Table,
}

impl Effect {
    /// Returns the effect at treatments as sums over the mediators of the first study's rows, with the
    /// weights of the mixture. Shapley values of f at these rows, summed with the same weights, are the parts
    /// of the effect that each mediator carries, because Shapley values are linear in f. Cost n³ each.
    ///
    /// # Errors
    /// Errors of [`Table::align_to`]; [`Error::Unused`](crate::Error::Unused) if the outcome depends on
    /// covariates that studies share.
    pub fn as_mediator_sums(&self, treatments: &Table) -> Result<Vec<(f64, MediatorSum)>> {
        let sums = self.models().map(|(weight, model)| match model {
            Model::Link(link) => Ok((weight, link.as_mediator_sums(treatments)?)),
            Model::Iterated(_) => Err(unused("the decomposition by mediators", "effects across studies")),
        });
        sums.collect()
    }
}

impl ChainedOutcome {
    /// Returns the posterior mean of the outcome at mediators.
    fn mean(&self) -> Result<KernelExpansion> {
        let coef = Matrix::column_vector(self.coef());
        let constant = vec![self.process().constant];
        KernelExpansion::new(self.kernel().clone(), self.points().clone(), coef, constant)
    }
}

impl StudyLink {
    fn as_mediator_sums(&self, treatments: &Table) -> Result<MediatorSum> {
        self.check_unshared("the decomposition by mediators")?;
        let (weights, ..) = self.weights(&self.queries(treatments)?);
        Ok(MediatorSum { weights, outcome: self.outcome.mean()?, mediators: self.mediators.clone() })
    }
}

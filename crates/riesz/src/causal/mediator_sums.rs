//! Effects as sums over mediators: the outcome is a function of the mediators, and an effect is a weighted
//! sum of this function over the rows of the first study.

use super::effect::{Effect, Model};
use super::estimand::Estimand;
use super::study_chain::{ChainedOutcome, StudyLink};
use crate::error::{Result, unused};
use crate::explainer::Explainer;
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

    /// Returns the parts of an estimand that pass through each mediator, (queries × mediators): Shapley
    /// values of the outcome at mediators in the interventional game, summed over the first study's rows like the
    /// effect. Absent mediators take the values of the rows of `background`.
    ///
    /// # Errors
    /// As [`as_mediator_sums`](Self::as_mediator_sums), [`Estimand::weights_at`] and
    /// [`Explainer::interventional`].
    pub fn mediator_values(
        &self,
        treatments: &Table,
        estimand: &Estimand,
        background: &Table,
    ) -> Result<Matrix> {
        let query = estimand.weights_at(treatments, self.treatments())?;
        let mut total: Option<Matrix> = None;
        for (weight, sum) in self.as_mediator_sums(&query.treatments)? {
            let explanation = Explainer::interventional(&sum.outcome, background)?.explain(&sum.mediators)?;
            let (rows, mediators) = (sum.mediators.rows(), explanation.sets());
            let values = Matrix::from_row_major(rows, mediators, explanation.values);
            let part = query.rows(&sum.weights).matmul(&values);
            let total = total.get_or_insert_with(|| Matrix::zeros(part.rows(), mediators));
            total.add_times(weight, &part);
        }
        total.ok_or_else(|| unused("the decomposition by mediators", "effects with mediators"))
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

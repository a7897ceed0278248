//! Values of models without exact ones, from their own predictions: of kernels that tie the columns of
//! different players together, and of probabilities that average over a posterior.

use crate::attribution::kernel_shap::kernel_shap;
use crate::attribution::permutation::estimate;
use crate::error::{Error, Result};
use crate::explainer::Explainer;
use crate::explanation::{Explanation, Fact};
use crate::game::Game;
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::posterior::PosteriorCovariance;
use crate::prediction::Prediction;
use crate::question::{Question, ValueEstimator};
use crate::table::{Players, Table};

/// Rows that the model predicts at once.
const BATCH: usize = 4096;

/// A fitted model as a function from rows to numbers: its outputs, or probabilities of its classes.
#[derive(Debug, Clone, Copy)]
pub struct PredictionFunction<'m> {
    model: &'m KernelExpansion,
    covariance: Option<&'m PosteriorCovariance>,
    probabilities: bool,
}

impl<'m> PredictionFunction<'m> {
    /// The outputs of a model, or with `probabilities` those of the second of two classes, or of all of more.
    /// Those of Gaussian processes take the posterior `covariance`.
    pub fn new(
        model: &'m KernelExpansion,
        covariance: Option<&'m PosteriorCovariance>,
        probabilities: bool,
    ) -> Self {
        Self { model, covariance, probabilities }
    }

    /// Why there are no exact values of this function for these players (by default one a column) against a
    /// background or a baseline; `None` where there are, or where the function has no answers either.
    pub fn without_exact_values(&self, players: Option<Players>) -> Option<Error> {
        let point =
            (self.model.support_points.rows() > 0).then(|| self.model.support_points.select_rows(&[0]))?;
        let question = Question {
            probabilities: self.probabilities,
            ..Question::from(Game::Baseline { point: point.clone() }).with_players(players)
        };
        match Explainer::new(self.model, question) {
            Err(tied @ Error::NotProduct { .. }) => Some(tied),
            Err(other) if self.probabilities && self.predict(&point).is_ok() => Some(other),
            _ => None,
        }
    }

    /// The numbers of the classes whose probabilities are answered.
    fn classes(&self) -> Vec<usize> {
        let count = self.model.classes.len();
        if count == 2 { vec![1] } else { (0..count).collect() }
    }

    /// Names of what it answers with.
    pub fn output_names(&self) -> Vec<String> {
        match self.probabilities {
            true => self.classes().into_iter().map(|k| self.model.classes[k].clone()).collect(),
            false => self.model.output_names.clone(),
        }
    }

    /// What the function answers: a row of numbers for each row.
    ///
    /// # Errors
    /// As [`Prediction::of`]; [`Error::Parameter`] if the model has no probabilities.
    pub fn predict(&self, rows: &Table) -> Result<Matrix> {
        if !self.probabilities {
            return self.model.predict(rows);
        }
        let found = Prediction::of(self.model, self.covariance, rows)?;
        let Some(all) = found.probabilities else {
            let allowed = "this model has no probabilities of classes";
            return Err(Error::parameter("probabilities", true, allowed));
        };
        let classes = self.classes();
        let numbers = (0..all.rows()).flat_map(|i| classes.iter().map(move |&k| (i, k)));
        let numbers = numbers.map(|at| all[at]).collect();
        Ok(Matrix::from_row_major(all.rows(), classes.len(), numbers))
    }

    /// Explains `rows`, of which `first_row` is the number of the first, by the question's estimator: exactly
    /// where all coalitions are valued, else with standard errors.
    ///
    /// # Errors
    /// As [`predict`](Self::predict), [`kernel_shap`] and [`estimate`].
    pub fn explain(&self, rows: &Table, first_row: usize, question: &Question) -> Result<Explanation> {
        let rows = rows.align_to(self.model.columns())?;
        let ask = |asked: &Table| self.predict(asked);
        let mut found = match question.estimator {
            ValueEstimator::KernelShap => kernel_shap(ask, &rows, question, BATCH)?,
            ValueEstimator::Permutation { .. } => estimate(ask, &rows, first_row, question)?,
        };
        found.row_numbers = (0..rows.rows()).collect();
        found.output_names = self.output_names();
        found.provenance.model = self.model.facts();
        if self.probabilities {
            found.provenance.run.push(Fact::new("explained", "probabilities"));
        }
        Ok(found)
    }
}

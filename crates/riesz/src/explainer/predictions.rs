//! Values from a model's own predictions, for models without an exact engine: kernels that tie the columns of
//! different players together, and probabilities averaged over a posterior.

use crate::attribution::kernel_shap::kernel_shap;
use crate::attribution::permutation::estimate;
use crate::error::{Error, Result};
use crate::explainer::Explainer;
use crate::explanation::Explanation;
use crate::game::Game;
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
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

    /// The function's answers: a row of numbers for each row.
    ///
    /// # Errors
    /// As [`Prediction::new`](crate::Prediction::new); [`Error::Parameter`] if the model has no probabilities.
    pub fn predict(&self, rows: &Table) -> Result<Matrix> {
        if !self.probabilities {
            return self.model.predict(rows);
        }
        let prediction = Prediction::new(self.model, self.covariance, rows)?;
        let Some(probabilities) = prediction.probabilities else {
            let allowed = "this model has no probabilities of classes";
            return Err(Error::parameter("probabilities", true, allowed));
        };
        let classes = self.classes();
        let numbers = (0..probabilities.rows()).flat_map(|i| classes.iter().map(move |&k| (i, k)));
        let numbers = numbers.map(|entry| probabilities[entry]).collect();
        Ok(Matrix::from_row_major(probabilities.rows(), classes.len(), numbers))
    }

    /// Explains `rows`, whose first row has the number `first_row`, by the question's estimator: exactly
    /// where all coalitions are valued, otherwise with standard errors.
    ///
    /// # Errors
    /// As [`predict`](Self::predict), [`kernel_shap`] and [`estimate`].
    pub fn explain(&self, rows: &Table, first_row: usize, question: &Question) -> Result<Explanation> {
        let rows = rows.align_to(self.model.columns())?;
        let ask = |queried: &Table| self.predict(queried);
        let mut explanation = match question.estimator {
            ValueEstimator::KernelShap => kernel_shap(ask, &rows, question, BATCH)?,
            ValueEstimator::Permutation { .. } => estimate(ask, &rows, first_row, question)?,
        };
        explanation.row_numbers = (0..rows.rows()).collect();
        explanation.output_names = self.output_names();
        explanation.provenance.model = self.model.facts();
        if self.probabilities {
            explanation.provenance.run.push(CardEntry::new("explained", "probabilities"));
        }
        Ok(explanation)
    }
}

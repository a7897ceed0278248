//! Values computed from a model's predictions, for models without an exact engine: kernels that tie columns
//! of different players together, and probabilities averaged over a posterior.

use std::sync::atomic::AtomicBool;

use crate::attribution::kernel_shap::kernel_shap;
use crate::attribution::permutation::estimate;
use crate::error::{Error, Result};
use crate::explainer::Explainer;
use crate::explainer::probability_engine::explained_classes;
use crate::explanation::Explanation;
use crate::game::Game;
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::model_average::{self, ModelPart};
use crate::model_card::CardEntry;
use crate::question::{Question, ValueEstimator};
use crate::table::{Players, Table};

/// The number of rows that the model predicts at once.
const BATCH: usize = 4096;

/// A fitted model, or an average of models over hyper-parameters, as a function from rows to its outputs, or
/// to the probabilities of its classes.
#[derive(Debug, Clone)]
pub struct PredictionFunction<'m> {
    /// The model, or the one with the best hyper-parameters.
    model: &'m KernelExpansion,
    parts: Vec<ModelPart<'m>>,
    probabilities: bool,
}

impl<'m> PredictionFunction<'m> {
    /// Creates the function of the outputs of a `model`, or of an average with this best model, from its
    /// `parts`. With `probabilities` it is that of the probabilities of the classes: of the second class if
    /// there are two, of all classes if there are more. Gaussian processes need their posterior covariances
    /// for probabilities.
    pub fn new(model: &'m KernelExpansion, parts: Vec<ModelPart<'m>>, probabilities: bool) -> Self {
        Self { model, parts, probabilities }
    }

    /// Returns the reason why this function has no exact values for these players (by default one per column)
    /// against a background or a baseline. Returns `None` if it has exact values, or if the function itself
    /// fails.
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

    /// Returns the names of the function's outputs.
    pub fn output_names(&self) -> Vec<String> {
        match self.probabilities {
            true => {
                explained_classes(self.model).into_iter().map(|k| self.model.classes[k].clone()).collect()
            }
            false => self.model.output_names.clone(),
        }
    }

    /// Returns the function's outputs, rows × outputs.
    ///
    /// # Errors
    /// As [`model_average::predict`]; [`Error::Parameter`] if the model has no probabilities.
    pub fn predict(&self, rows: &Table) -> Result<Matrix> {
        if !self.probabilities {
            return model_average::mean(&self.parts, rows);
        }
        let prediction = model_average::predict(&self.parts, rows, &AtomicBool::new(false))?;
        let Some(probabilities) = prediction.probabilities else {
            let allowed = "this model has no probabilities of classes";
            return Err(Error::parameter("probabilities", true, allowed));
        };
        let all_rows: Vec<usize> = (0..probabilities.rows()).collect();
        Ok(probabilities.select(&all_rows, &explained_classes(self.model)))
    }

    /// Explains `rows`, the first of which has the number `first_row`, by the question's estimator. Values
    /// are exact if all coalitions are valued, otherwise they come with standard errors.
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

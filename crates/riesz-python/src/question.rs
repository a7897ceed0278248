//! Questions to explain, from the settings of Python's classes.

use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::attribution::permutation::permutations_per_row;
use riesz::question::{Source, Subject, ValueEstimator};
use riesz::{Background, Column, ConditionalModel, Game};
use serde_json::Value;

use crate::{players, raise, refuse, table};

/// The settings of a question, by name.
#[pyclass(frozen, module = "riesz._core")]
pub(crate) struct Settings {
    settings: riesz::question::Settings,
}

/// A question about a function.
#[pyclass(frozen, module = "riesz._core")]
pub(crate) struct Question {
    pub(crate) question: riesz::Question,
    estimated: bool,
}

/// A budget: the number of coalitions, and the standard error to reach, if any.
pub(crate) type Budget = (usize, Option<f64>);

#[pymethods]
impl Settings {
    /// Settings from a JSON object; null values are unset.
    #[new]
    fn new(json: &str) -> PyResult<Self> {
        let values: serde_json::Map<String, Value> = serde_json::from_str(json).map_err(refuse)?;
        Ok(Self { settings: riesz::question::Settings::new(values).map_err(raise)? })
    }

    /// Whether the model is treated as a black box, even if its kernel is known.
    #[getter]
    fn asks_for_answers(&self) -> bool {
        self.settings.asks_for_answers()
    }

    /// These settings without the settings of sampling.
    fn without_estimates(&self) -> Self {
        Self { settings: self.settings.without_sampling() }
    }

    /// The game of a question about a function, or about a model with a known kernel. The error names the
    /// setting that is not allowed.
    fn game(&self, of_function: bool, has_background: bool) -> PyResult<&'static str> {
        let subject = if of_function { Subject::Function } else { Subject::Model };
        let source = has_background.then_some(Source::Background);
        self.settings.check(subject, source).map(|checked| checked.game).map_err(raise)
    }
}

impl Settings {
    /// The question with `background` as its background rows. `support_points` are the default background of
    /// the observational game.
    pub(crate) fn question(
        &self,
        subject: Subject,
        columns: &[Column],
        background: Option<&PyReadonlyArray2<'_, f64>>,
        weights: Option<&PyReadonlyArray1<'_, f64>>,
        support_points: Option<&riesz::Table>,
    ) -> PyResult<riesz::Question> {
        let source = background.map(|_| Source::Background);
        let rows = |_: &str| match (background, support_points) {
            (Some(rows), _) => {
                let weights = weights.map(|w| w.as_array().to_vec());
                Ok(Background { rows: table(columns, rows.as_array())?, weights })
            }
            (None, Some(points)) => Ok(points.clone().into()),
            (None, None) => Err(riesz::Error::parameter("background", "None", "rows are needed")),
        };
        self.settings.question(subject, source, rows).map_err(raise)
    }
}

#[pymethods]
impl Question {
    #[new]
    fn new(
        settings: &Settings,
        background: PyReadonlyArray2<'_, f64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        groups: Vec<(String, Vec<usize>)>,
    ) -> PyResult<Self> {
        let width = background.as_array().ncols();
        let columns = Column::numbered(width);
        let question =
            settings.question(Subject::Function, &columns, Some(&background), weights.as_ref(), None)?;
        let question = question.with_players(Some(players(&columns, groups)?));
        let estimated = match (&question.game, question.estimator) {
            (_, ValueEstimator::Permutation { .. }) => {
                permutations_per_row(&question, &columns).map_err(raise)?.is_some()
            }
            (Game::Observational { conditional, .. }, _)
                if !matches!(conditional, ConditionalModel::Embedding(_)) =>
            {
                true
            }
            _ => {
                let players = question.players_of(&columns).players().len();
                question.budget.sampled_because(players).is_some()
            }
        };
        Ok(Self { question, estimated })
    }

    /// The estimator of the values: "permutation" or "kernel_shap".
    #[getter]
    fn estimator(&self) -> &'static str {
        match self.question.estimator {
            ValueEstimator::Permutation { .. } => "permutation",
            ValueEstimator::KernelShap => "kernel_shap",
        }
    }

    /// Whether values are estimated, with standard errors.
    #[getter]
    fn estimated(&self) -> bool {
        self.estimated
    }
}

impl Question {
    /// The question with `budget`, or with its own budget for `None`.
    pub(crate) fn with_budget(&self, budget: Option<Budget>) -> riesz::Question {
        let default = self.question.budget;
        let (coalitions, std_error) = budget.unwrap_or((default.coalitions, default.std_error));
        self.question.clone().with_budget(riesz::question::Budget { coalitions, std_error, ..default })
    }
}

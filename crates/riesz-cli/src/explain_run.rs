//! The common part of `explain` and `report`: prepares a model or a program and a question for a table, and
//! explains the table in chunks.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use riesz::explainer::PredictionFunction;
use riesz::explanation::ConditioningPart;
use riesz::format::explanation_json::{self, SavedExplanation};
use riesz::format::model::SavedModel;
use riesz::model_average;
use riesz::model_card::CardEntry;
use riesz::question::Subject;
use riesz::{ClassDecisions, Error, Exactness, Explainer, Explanation, Matrix, Prediction, Question, Table};
use serde_json::Value;

use crate::args::{CellArgs, FeatureArgs, GameArgs, TableArgs};
use crate::consecutive_rows::explain_consecutive;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::input::{OpenTable, described};
use crate::io::model_rows::ModelRows;
use crate::io::models::{MODELS_OF_AVERAGE, ModelOrAverage};
use crate::io::output::Output;
use crate::program::{self, ProgramError};
use crate::question_args::{
    asks_for_probabilities, prediction_reason, question_about_model, question_about_program, robustness,
};

/// Largest number of numbers in a JSON explanation. It is one object of whole arrays, for plots and reports
/// that need all rows at once, so unlike a table it cannot be streamed.
const JSON_NUMBERS: usize = 20_000_000;

/// The request to explain a table by a model or a program.
pub struct ExplainRequest<'a> {
    /// Options of the explanation.
    pub game: &'a GameArgs,
    /// Options for reading tables.
    pub table: &'a TableArgs,
    /// Information that LIBSVM files do not contain.
    pub features: &'a FeatureArgs,
    /// Treatment of cells that the model cannot use.
    pub cells: CellArgs,
    /// The seed of random draws.
    pub seed: u64,
    /// Whether the posterior variance is explained instead of the prediction.
    pub variance: bool,
}

/// Explains rows, which have these numbers in the table.
type Explain<'a> = Box<dyn FnMut(&Table, &[usize]) -> Result<Explanation> + 'a>;

/// A model or a program that is ready to explain the rows of a table.
pub struct Explaining<'a> {
    explain: Explain<'a>,
    /// The model; `None` for a program, or if the variance is explained.
    model: Option<&'a ModelOrAverage>,
    /// Whether class probabilities are explained.
    probabilities: bool,
    rows: ModelRows,
    /// The numbers of the rows to explain; `None` for all.
    selected: Option<HashSet<usize>>,
    /// Whether a number of orders was given, which exact values do not use.
    has_orders: bool,
    /// Provenance of the run.
    facts: Vec<CardEntry>,
    /// Number of numbers per row of the result.
    pub width: usize,
}

impl<'a> Explaining<'a> {
    /// Prepares a model or an average that was [admitted](ModelOrAverage::admitted), with its file. The
    /// values of an average are means of those of its models.
    pub fn new(
        (model, file): (&'a ModelOrAverage, &Path),
        rows: OpenTable,
        request: &ExplainRequest<'_>,
        console: &Console,
    ) -> Result<Self> {
        let variance = request.variance;
        let of_one_model = [("--variance", variance), ("--robustness", request.game.robustness.is_some())];
        if let (Some(_), Some((option, _))) = (&model.average, of_one_model.iter().find(|(_, given)| *given))
        {
            let name = file.display();
            return Err(Failure::input(format!(
                "{option} is about one model, and {name} is an average over hyper-parameters: leave it out, \
                 or write its best model with 'riesz convert {name} best.riesz'"
            )));
        }
        if !variance && let Some(reason) = prediction_reason(request.game, model)? {
            return Self::from_predictions((model, file), rows, request, &reason, console);
        }
        let Prepared { explainer, question, probabilities, rows, facts, width } =
            Prepared::new((&model.best, file), rows, request, None, console)?;
        let explainers = match model.average {
            None => vec![(1.0, explainer)],
            Some(_) => {
                let explainers = model.parts().into_iter().map(|part| {
                    let explainer = Explainer::new(part.model, question.clone())?;
                    Ok((part.weight, explainer.with_posterior(part.covariance)?))
                });
                explainers.collect::<riesz::Result<Vec<_>>>()?
            }
        };
        let (settings, name) = (request.game.settings.clone(), rows.name().to_string());
        let (has_orders, described_model) = (settings.value("n_orders").is_some(), model.facts());
        let explain = Box::new(move |table: &Table, _: &[usize]| {
            let explain_part = |(weight, explainer): &(f64, Explainer<'_>)| {
                let explained =
                    if variance { explainer.explain_variance(table) } else { explainer.explain(table) };
                explained.map(|explanation| (*weight, explanation))
            };
            let parts = explainers.iter().map(explain_part).collect::<riesz::Result<Vec<_>>>();
            let mixed = parts.and_then(Explanation::mixed).map_err(|e| settings.about_rows(e, &name));
            mixed.map(|mut explanation| {
                explanation.provenance.model.clone_from(&described_model);
                explanation
            })
        });
        // A variance has no class decisions.
        let model = (!variance).then_some(model);
        Ok(Self { explain, model, probabilities, rows, selected: None, has_orders, facts, width })
    }

    /// Prepares a model whose values are computed from its own predictions, for the given reason.
    fn from_predictions(
        (models, file): (&'a ModelOrAverage, &Path),
        rows: OpenTable,
        request: &ExplainRequest<'_>,
        reason: &str,
        console: &Console,
    ) -> Result<Self> {
        let shapley = |value: &Value| value == "shapley" || value == &Value::Bool(false);
        let takes_exact_values =
            |name: &&&str| request.game.settings.value(name).is_some_and(|value| !shapley(value));
        let exact_option = ["index", "unions", "covariance"].iter().find(takes_exact_values).copied();
        if let Some(option) = exact_option.or_else(|| request.game.robustness.as_ref().map(|_| "robustness"))
        {
            return Err(Failure::input(format!("--{option} needs values from the kernel: {reason}")));
        }
        let saved = &models.best;
        let (tables, subject) = ((request.table, request.cells), Subject::Function);
        let (question, question_entries) =
            question_about_model(request.game, tables, (saved, subject), request.seed, console)?;
        console.note(format!("values are computed from the model's predictions: {reason}"));
        let mut facts = vec![CardEntry::new("model file", described(file)?), rows_fact(&rows)?];
        facts.extend(question_entries);
        facts.push(CardEntry::new("values are from predictions", reason));
        let count = models.parts().len();
        facts.extend((count > 1).then(|| CardEntry::new(MODELS_OF_AVERAGE, count)));
        let (model, probabilities) = (&saved.model, asks_for_probabilities(request.game));
        let players = question.players_of(model.columns()).players().len();
        let width = model.columns().len() + 2 * (players + 4) * model.outputs().max(model.classes.len());
        let policy = request.cells.for_model(&model.support_points)?;
        let rows = ModelRows::new(rows, model.columns(), policy, width)?.with_units_of(model);
        let function = PredictionFunction::new(model, models.parts(), probabilities);
        let (settings, name) = (request.game.settings.clone(), rows.name().to_string());
        let has_orders = settings.value("n_orders").is_some();
        let explain = Box::new(move |table: &Table, numbers: &[usize]| {
            let explain_run = |run: &Table, first: usize| function.explain(run, first, &question);
            let explanation = explain_consecutive(table, numbers, explain_run);
            explanation.map_err(|error| settings.about_rows(error, &name))
        });
        Ok(Self {
            explain,
            model: Some(models),
            probabilities,
            rows,
            selected: None,
            has_orders,
            facts,
            width,
        })
    }

    /// Prepares a program.
    pub fn from_program(
        command: &'a str,
        rows: OpenTable,
        request: &ExplainRequest<'_>,
        console: &Console,
    ) -> Result<Self> {
        if request.variance {
            return Err(Failure::input(
                "--variance needs a posterior, which a program does not have: give a model file",
            ));
        }
        if let Some(option) = request.features.first_given().filter(|_| !rows.is_sparse()) {
            return Err(Failure::input(format!(
                "{option} is an option of LIBSVM files, and cannot be used with a program: leave it out"
            )));
        }
        let (question, question_entries, columns) =
            question_about_program(request.game, request.table, request.seed, console)?;
        if let Some(missing) = columns.iter().find(|column| !rows.header().contains(&column.name)) {
            return Err(Failure::input(format!(
                "the background has the column '{0}', which {1} lacks: if it is no input of the program, \
                 such as the target, add --ignore '{0}'",
                missing.name, rows.name
            )));
        }
        let mut facts = vec![rows_fact(&rows)?];
        facts.extend(question_entries);
        let width = 2 * (columns.len() + question.players_of(&columns).players().len() + 4);
        let empty_background = || Table::from_column_major(columns.clone(), 0, Vec::new());
        let background = question.game.rows().cloned().map_or_else(empty_background, Ok)?;
        let policy = request.cells.for_program(&background)?;
        let rows = ModelRows::new(rows, &columns, policy, width)?;
        let (settings, name) = (request.game.settings.clone(), rows.name().to_string());
        let has_orders = settings.value("n_orders").is_some();
        let explain = Box::new(move |table: &Table, numbers: &[usize]| {
            program::explain(command, &question, table, numbers).map_err(|error| match error {
                ProgramError::Values(error) => settings.about_rows(error, &name),
                ProgramError::Program(failure) => failure,
            })
        });
        Ok(Self {
            explain,
            model: None,
            probabilities: false,
            rows,
            selected: None,
            has_orders,
            facts,
            width,
        })
    }

    /// Explains only the rows with these numbers; their values do not depend on the other rows.
    pub fn restricted_to(self, rows: HashSet<usize>) -> Self {
        Self { selected: Some(rows), ..self }
    }

    /// The decisions of a classifier for the rows of an explanation.
    fn decisions(
        &self,
        model: &ModelOrAverage,
        explanation: &Explanation,
        table: &Table,
    ) -> Result<Option<ClassDecisions>> {
        let (SavedModel { model: best, covariance, .. }, stop) = (&model.best, AtomicBool::new(false));
        if self.probabilities {
            let predicted = model_average::predict(&model.parts(), table, &stop)?;
            return Ok(Some(ClassDecisions::of_probabilities(best, &predicted)));
        }
        let predicted = match model.average {
            Some(_) => model_average::predict(&model.parts(), table, &stop)?,
            None => {
                let predictions = explanation.predictions.clone();
                let outputs = Matrix::from_row_major(table.rows(), best.outputs(), predictions);
                Prediction::of_outputs(best, covariance.as_ref(), table, outputs, &stop)?
            }
        };
        Ok(ClassDecisions::new(best, &predicted))
    }

    /// Explains the rows in chunks, and passes each chunk to `take`, with row numbers that count from the
    /// table's first row; with `decide`, chunks contain the decisions of a classifier. Returns the number of
    /// rows, and provenance entries.
    pub fn for_each_chunk(
        mut self,
        console: &Console,
        mut take: impl FnMut(SavedExplanation) -> Result<()>,
        decide: bool,
    ) -> Result<(usize, Vec<CardEntry>)> {
        let progress = console.progress("explaining");
        let (mut read, mut done, mut unused_orders) = (0, 0, false);
        while let Some(mut table) = self.rows.next()? {
            let first = read;
            read += table.rows();
            let mut numbers: Vec<usize> = (first..read).collect();
            if let Some(selected) = &self.selected {
                numbers.retain(|number| selected.contains(number));
                table = table.select_rows(&numbers.iter().map(|number| number - first).collect::<Vec<_>>());
                if numbers.is_empty() {
                    continue;
                }
            }
            let mut explanation = (self.explain)(&table, &numbers)?;
            explanation.row_numbers = numbers;
            done += explanation.rows();
            unused_orders |= self.has_orders && matches!(explanation.exactness, Exactness::Exact { .. });
            let model = self.model.filter(|model| decide && !model.best.model.classes.is_empty());
            let decisions = match model {
                Some(model) => self.decisions(model, &explanation, &table)?,
                None => None,
            };
            take(SavedExplanation { explanation, decisions })?;
            progress.say(format!("{done} rows explained"));
        }
        if unused_orders {
            console.note(
                "note: --orders has no effect: all coalitions were evaluated, which needs no random orders",
            );
        }
        let treated = self.rows.facts();
        treated.iter().for_each(|fact| console.note(format!("note: {}", fact.value)));
        self.facts.extend(treated);
        Ok((done, self.facts))
    }
}

/// An explainer of a model, and the rows to explain.
pub struct Prepared<'a> {
    /// The explainer, with the posterior if there is one.
    pub explainer: Explainer<'a>,
    question: Question,
    /// Whether class probabilities are explained.
    probabilities: bool,
    /// The rows, in chunks.
    pub rows: ModelRows,
    facts: Vec<CardEntry>,
    width: usize,
}

impl<'a> Prepared<'a> {
    /// Prepares a model that was [admitted](CellArgs::admit), with its file. Each row and output of the
    /// result has `listed` numbers, or by default a value for each set of players.
    pub fn new(
        (saved, file): (&'a SavedModel, &Path),
        rows: OpenTable,
        request: &ExplainRequest<'_>,
        listed: Option<usize>,
        console: &Console,
    ) -> Result<Self> {
        let (question, question_entries) = question_about_model(
            request.game,
            (request.table, request.cells),
            (saved, Subject::Model),
            request.seed,
            console,
        )?;
        let (index, covariance, probabilities) =
            (question.index, question.covariance, question.probabilities);
        if request.variance && request.game.robustness.is_some() {
            let reason = "--robustness bounds values of the output, not of its variance: leave it or \
                          --variance out";
            return Err(Failure::input(reason));
        }
        let question = if request.variance { variance_question(question, saved)? } else { question };
        let uncertainty = if request.variance { "--variance" } else { "--covariance" };
        let (game, is_uncertain) = (request.game, request.variance || covariance);
        let lacks_rows = is_uncertain && game.background.is_none() && game.baseline.is_none();
        let explainer = Explainer::new(&saved.model, question.clone())
            .and_then(|e| e.with_posterior(saved.covariance.as_ref()));
        let explainer = explainer.map_err(|error| match error {
            Error::Parameter { name, .. } if name == "game" && lacks_rows => Failure::input(format!(
                "{uncertainty} needs rows from which absent features take their values: give --background \
                 FILE or --baseline FILE"
            )),
            not_product @ Error::NotProduct { .. }
                if request.game.background.is_none() && !request.variance =>
            {
                let remedy =
                    "give --background FILE, with which values are computed from the model's predictions";
                Failure::input(format!("{not_product}; or {remedy}"))
            }
            other => request.game.settings.with_option(other),
        })?;
        let players = explainer.groups().players().len();
        let sets = index.sets(players).unwrap_or(players);
        let has_covariance = covariance || question.conditional_uncertainty;
        let numbers = if has_covariance { sets.saturating_mul(sets + 1) } else { sets };
        let numbers = listed.unwrap_or(numbers).saturating_add(4);
        let width = saved.model.columns().len().saturating_add(numbers.saturating_mul(saved.model.outputs()));
        let mut facts = vec![CardEntry::new("model file", described(file)?), rows_fact(&rows)?];
        facts.extend(question_entries);
        let bound = robustness(request.game, &explainer, &saved.model)?;
        bound.iter().for_each(|fact| console.note(format!("{}: {}", fact.name, fact.value)));
        facts.extend(bound);
        let policy = request.cells.for_model(&saved.model.support_points)?;
        let rows = ModelRows::new(rows, saved.model.columns(), policy, width)?.with_units_of(&saved.model);
        Ok(Self { explainer, question, probabilities, rows, facts, width })
    }
}

/// The question about the variance of predictions.
fn variance_question(question: Question, saved: &SavedModel) -> Result<Question> {
    let refusal = |reason: &str| Err(Failure::input(format!("--variance: {reason}")));
    match saved.covariance {
        None => refusal(
            "this model holds no posterior, which is needed for its variance: fit a Gaussian process with \
             'riesz fit --model gp --posterior'",
        ),
        Some(_) if question.covariance => {
            refusal("the uncertainty of a variance is not computed: leave --covariance out")
        }
        Some(_) => Ok(question.with_covariance()),
    }
}

/// The provenance entry of the explained rows.
fn rows_fact(rows: &OpenTable) -> Result<CardEntry> {
    Ok(CardEntry::new("rows", rows.path.as_deref().map_or(Ok(rows.name.clone()), described)?))
}

/// Explained rows collected for results that need all of them at once; the number is that of numbers per row.
pub struct ExplanationCollector(Option<SavedExplanation>, usize);

impl ExplanationCollector {
    /// An empty collection for rows of `width` numbers.
    pub fn with_width(width: usize) -> Self {
        Self(None, width)
    }

    /// Adds a chunk of rows.
    pub fn add(&mut self, chunk: SavedExplanation) -> Result<()> {
        let collected = match &mut self.0 {
            None => self.0.insert(chunk),
            Some(collected) => {
                collected.explanation.concat_rows(chunk.explanation)?;
                if let (Some(decisions), Some(new_decisions)) = (&mut collected.decisions, chunk.decisions) {
                    decisions.append(new_decisions);
                }
                collected
            }
        };
        within_limit(&collected.explanation, self.1)
    }

    /// All rows, with further provenance entries.
    pub fn finish(self, facts: Vec<CardEntry>) -> Result<SavedExplanation> {
        let mut collected = self.0.ok_or_else(|| Failure::input("there are no rows to explain"))?;
        collected.explanation.provenance.run.extend(facts);
        Ok(collected)
    }
}

/// The certificate and errors over all rows.
#[derive(Debug, Default)]
pub struct Certificate {
    /// The largest residual; `None` if values need not add up to the prediction.
    residual: Option<f64>,
    bound: f64,
    failed: Option<usize>,
    /// The largest standard error, if values are estimated.
    std_error: Option<f64>,
    /// The largest posterior standard deviation of a value, if it is known.
    sd: Option<f64>,
    /// The largest residual, if there is no bound.
    unproved: Option<f64>,
    /// The number of rows whose conditional distributions have few similar reference rows.
    unsupported_rows: usize,
}

impl Certificate {
    /// Includes a chunk of rows.
    pub fn include(&mut self, chunk: &Explanation) {
        let conditioning =
            chunk.uncertainty.as_ref().and_then(|uncertainty| uncertainty.conditioning.as_ref());
        if let Some(part) = conditioning {
            let rows = part.unexplained_share.chunks(chunk.outputs().max(1));
            let is_sparse = |share: &f64| *share > ConditioningPart::MAX_UNEXPLAINED;
            self.unsupported_rows += rows.filter(|shares| shares.iter().any(is_sparse)).count();
        }
        if let Some(sd) = chunk.sd() {
            self.sd = Some(sd.into_iter().fold(self.sd.unwrap_or(0.0), f64::max));
        }
        if let Exactness::Estimated { std_error, .. } = &chunk.exactness {
            let max_error = std_error.iter().copied().fold(0.0, f64::max);
            self.std_error = Some(self.std_error.unwrap_or(0.0).max(max_error));
        }
        if let Exactness::Unknown = &chunk.exactness {
            let residual =
                chunk.residuals().into_iter().fold(0.0, |maximum: f64, residual| maximum.max(residual.abs()));
            self.unproved = Some(self.unproved.unwrap_or(0.0).max(residual));
        }
        if let Exactness::Exact { bound } = &chunk.exactness {
            self.bound = bound.iter().fold(self.bound, |max_bound, bound| max_bound.max(*bound));
        }
        let Some(certificate) = chunk.certificate() else { return };
        self.residual = Some(self.residual.unwrap_or(0.0).max(certificate.residual));
        if !certificate.holds {
            self.failed = self.failed.or(chunk.row_numbers.first().copied());
        }
    }

    /// Describes the certificate.
    pub fn description(&self) -> String {
        let uncertainty_text =
            self.sd.map(|sd| format!("; 95 % intervals of the values are at most ± {:.1e}", 1.96 * sd));
        let caveat = match self.unsupported_rows {
            0 => String::new(),
            rows => format!(
                "; the intervals of {rows} rows are too narrow, because few reference rows are similar"
            ),
        };
        self.computed() + &uncertainty_text.unwrap_or_default() + &caveat
    }

    /// Describes the exactness of the values.
    fn computed(&self) -> String {
        if let Some(max_error) = self.std_error {
            return format!("estimated: standard errors up to {max_error:.1e}");
        }
        if let Some(max_residual) = self.unproved {
            return format!("exact to rounding: values add up within {max_residual:.1e} (no proved bound)");
        }
        match self.residual {
            Some(residual) => format!(
                "exact: values add up to the predictions within {residual:.1e} (proved bound {:.1e})",
                self.bound
            ),
            None => format!("exact: each value is within {:.1e} (proved bound)", self.bound),
        }
    }

    /// Returns an error if a residual exceeds its bound.
    pub fn check(&self) -> Result<()> {
        match self.failed {
            None => Ok(()),
            Some(row) => Err(Failure::Check(format!(
                "the certificate fails in the rows from {row} on: residual {:.1e} exceeds the proved bound",
                self.residual.unwrap_or(f64::NAN)
            ))),
        }
    }
}

/// Writes an explanation as JSON, with the decisions of a classifier.
pub fn write_explanation(
    mut output: Output,
    explanation: &Explanation,
    decisions: Option<&ClassDecisions>,
) -> Result<()> {
    let first_error = output.first_error();
    explanation_json::write(explanation, decisions, &mut output).map_err(|e| first_error.or(e))?;
    output.write_all(b"\n").map_err(|e| first_error.or(e))?;
    output.finish()
}

/// Returns an error if an explanation with `width` numbers per row is too large for JSON.
fn within_limit(explanation: &Explanation, width: usize) -> Result<()> {
    if explanation.rows().saturating_mul(width) <= JSON_NUMBERS {
        return Ok(());
    }
    Err(Failure::input(format!(
        "a JSON explanation holds all rows at once, and can hold at most {}: use .csv or .parquet, which are \
         streamed",
        JSON_NUMBERS / width.max(1)
    )))
}

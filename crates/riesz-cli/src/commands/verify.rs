//! `riesz verify`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::explainer::PredictionFunction;
use riesz::format::explanation_json::SavedExplanation;
use riesz::{ColumnKind, Exactness, Explanation, Game, Table};
use serde_json::{Value, json};

use crate::args::{CellArgs, FeatureArgs, GameArgs, Global, TableArgs};
use crate::console::{Console, aligned};
use crate::exit::{Failure, Result};
use crate::explain_run::{ExplainRequest, Explaining};
use crate::io::input::{described, name_of};
use crate::io::model_rows::ModelRows;
use crate::io::models::{FileContent, read_any, read_model};
use crate::io::output::write_all;
use crate::question_args::asks_for_probabilities;

/// Largest accepted error of an estimate, in standard errors.
const STANDARD_ERRORS: f64 = 5.0;

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz verify why.json --model m.riesz --rows new.csv --background train.csv
  riesz verify why.csv --model svm.model --rows new.csv --columns age,bmi,bp --game functional

Explains the rows again, in the explanation's game and with its index, and compares predictions,
base values, sums, values and the explained rows. Two numbers agree if they differ by at most twice
the bound that this command proves, and --tolerance times the largest number of their kind; the
bounds that the file states are not used. Estimates may also differ by 5 standard errors; those that
the file states are not checked, and the output repeats them. If the game is unknown, or its
background or baseline is not given, only predictions and sums are compared, and the output says so.
The model card and the decisions of a classifier are not checked. Checksums of files are information
only. Exit code 1: something does not agree.")]
pub struct Args {
    /// Explanation to check, by any program: JSON of 'riesz explain', or a table of values (CSV, Parquet)
    /// with the columns row, output, base_value, prediction and residual, and one column per feature
    #[arg(value_hint = ValueHint::FilePath)]
    pub explanation: PathBuf,
    /// Model file that the explanation is about
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of the explained rows; the explanation's column 'row' numbers them from 0
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Accepted difference of numbers beyond their bounds, relative to the largest number of their kind
    #[arg(long, value_name = "SHARE", default_value_t = 1e-9)]
    pub tolerance: f64,
    /// Options of the explanation; game and index are those of the file unless they are given.
    #[command(flatten)]
    pub game: GameArgs,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Information that LIBSVM files do not contain.
    #[command(flatten)]
    pub features: FeatureArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// The result of comparing one kind of numbers.
struct Comparison {
    subject: &'static str,
    /// Whether the numbers agree; `None` if they could not be compared.
    agrees: Option<bool>,
    finding: String,
}

/// Statistics of differences between actual and expected numbers, each with an allowed difference.
#[derive(Default)]
struct Differences {
    count: usize,
    largest: f64,
    allowed: f64,
    /// Description of the first difference beyond the allowed one.
    first_beyond: Option<String>,
}

impl Differences {
    fn add(&mut self, actual: f64, expected: f64, allowed: f64, location: impl FnOnce() -> String) {
        let difference = (actual - expected).abs();
        self.count += 1;
        self.largest = self.largest.max(difference);
        self.allowed = self.allowed.max(allowed);
        if (difference.is_nan() || difference > allowed) && self.first_beyond.is_none() {
            self.first_beyond =
                Some(format!("{}: {actual} instead of {expected}, allowed {allowed:.1e}", location()));
        }
    }

    fn compared(self, subject: &'static str) -> Comparison {
        let Self { count, largest, allowed, first_beyond: first_excess } = self;
        let finding = match &first_excess {
            None => format!("{count} agree within {largest:.1e} (allowed {allowed:.1e})"),
            Some(place) => format!("differ by up to {largest:.1e}; first {place}"),
        };
        Comparison { subject, agrees: Some(first_excess.is_none()), finding }
    }
}

/// Explains the rows again, compares, and prints which numbers agree.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.is_json_requested()?;
    if !args.tolerance.is_finite() || args.tolerance < 0.0 {
        return Err(Failure::input(format!(
            "--tolerance {} is not a number of at least 0: give one",
            args.tolerance
        )));
    }
    let explanation = match read_any(&args.explanation, None, &FeatureArgs::default())? {
        FileContent::Explanation(saved, _) => saved.explanation,
        FileContent::Model(..) => {
            let name = name_of(&args.explanation);
            return Err(Failure::input(format!("{name} is a model: give an explanation to check")));
        }
    };
    let rows = args.features.open(&args.table, &args.rows)?;
    let saved = args.cells.admit(read_model(&args.model, Some(&rows), &args.features)?)?;
    let (table, game) = (args.features.tables(&args.table), question(args, &explanation));
    let (features, cells, seed) = (&args.features, args.cells, global.seed);
    let request = ExplainRequest { game: &game, table: &table, features, cells, seed, variance: false };
    let mut comparisons = Vec::new();
    match without_rows(&game) {
        Some(missing) => {
            let (model, probabilities) = (&saved.model, asks_for_probabilities(&game));
            let function = PredictionFunction::new(model, saved.covariance.as_ref(), probabilities);
            let (policy, width) = (args.cells.for_model(&model.support_points)?, model.columns().len());
            let rows = ModelRows::new(rows, model.columns(), policy, width)?.with_units_of(model);
            comparisons.push(sums(&explanation, &HashMap::new(), args.tolerance));
            comparisons.push(compare_predictions(&explanation, &function, rows, args.tolerance)?);
            for subject in ["base values", "values"] {
                let finding = format!("not compared: {missing}");
                comparisons.push(Comparison { subject, agrees: None, finding });
            }
        }
        None => {
            let explaining = Explaining::new((&saved, &args.model), rows, &request, &console)?;
            comparisons.extend(compare(&explanation, explaining, args.tolerance, &console)?);
        }
    }
    comparisons.extend(stated_errors(&explanation));
    comparisons.extend(files(args, &explanation)?);
    write(args.output.as_deref(), as_json, &comparisons)?;
    let failed = comparisons.iter().find(|comparison| comparison.agrees == Some(false));
    failed.map_or(Ok(()), |comparison| {
        Err(Failure::Check(format!("{} do not agree: {}", comparison.subject, comparison.finding)))
    })
}

/// The explanation's own settings, except those that are given as options.
fn question(args: &Args, explanation: &Explanation) -> GameArgs {
    let settings = args.game.settings.clone();
    let run = &explanation.provenance.run;
    let probabilities = run.iter().any(|f| f.name == "explained" && f.value == "probabilities");
    let settings = settings.or("index", Value::from(explanation.index.to_string()));
    // A text table does not name its game.
    let settings = match explanation.provenance.game.as_str() {
        game if Game::NAMES.contains(&game) => settings.or("game", Value::from(game)),
        _ => settings,
    };
    let settings = if probabilities { settings.or("probabilities", Value::from(true)) } else { settings };
    GameArgs { settings, ..args.game.clone() }
}

/// A message about the rows that the game needs, if they are missing.
fn without_rows(game: &GameArgs) -> Option<&'static str> {
    let name = game.settings.value("game").and_then(Value::as_str);
    match name {
        _ if game.background.is_some() || game.baseline.is_some() => None,
        None => Some("the table does not state its game: give --game, and its --background or --baseline"),
        Some("functional") => None,
        Some("baseline") => Some("give the row of values of absent features with --baseline"),
        _ => Some("give the rows with values of absent features with --background"),
    }
}

/// Compares the explanation's predictions with those of the model.
fn compare_predictions(
    explanation: &Explanation,
    function: &PredictionFunction<'_>,
    mut rows: ModelRows,
    tolerance: f64,
) -> Result<Comparison> {
    let outputs = positions(&explanation.output_names, &function.output_names(), "output")?;
    let size = tolerance * largest(&explanation.predictions);
    let positions: HashMap<usize, usize> =
        explanation.row_numbers.iter().enumerate().map(|(position, row)| (*row, position)).collect();
    let (mut differences, mut row) = (Differences::default(), 0);
    while let Some(table) = rows.next()? {
        let predictions = function.predict(&table)?;
        for i in 0..table.rows() {
            if let Some(position) = positions.get(&(row + i)) {
                for (o, &p) in outputs.iter().enumerate() {
                    let g = position * explanation.outputs() + o;
                    let location = || format!("row {}, output {}", row + i, explanation.output_names[o]);
                    differences.add(explanation.predictions[g], predictions[(i, p)], size, location);
                }
            }
        }
        row += table.rows();
    }
    check_rows_exist(explanation.row_numbers.iter().filter(|number| **number >= row))?;
    Ok(differences.compared("predictions"))
}

/// Returns an error if the explanation has rows that the table lacks.
fn check_rows_exist<'r>(missing: impl Iterator<Item = &'r usize>) -> Result<()> {
    missing.min().map_or(Ok(()), |row| {
        Err(Failure::input(format!(
            "the explanation has a row {row}, counted from 0, that the table of rows lacks"
        )))
    })
}

/// The largest absolute value of the finite numbers; 0 if there are none.
fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().filter(|v| v.is_finite()).fold(0.0_f64, |maximum, v| maximum.max(v.abs()))
}

/// Compares with a new explanation of the same rows: predictions, base values and values.
fn compare(
    explanation: &Explanation,
    explaining: Explaining<'_>,
    tolerance: f64,
    console: &Console,
) -> Result<Vec<Comparison>> {
    let mut unmatched: HashMap<usize, usize> =
        explanation.row_numbers.iter().enumerate().map(|(position, row)| (*row, position)).collect();
    let (mut predictions, mut bases, mut values) =
        (Differences::default(), Differences::default(), Differences::default());
    let (mut cells, mut bounds) = (Differences::default(), HashMap::new());
    let quiet = Console::new(true);
    let sizes = [&explanation.predictions, &explanation.base_values, &explanation.values]
        .map(|numbers| tolerance * largest(numbers));
    let mut check = |chunk: SavedExplanation| -> Result<()> {
        let computed = chunk.explanation;
        let outputs = positions(&explanation.output_names, &computed.output_names, "output")?;
        let names = |values_of: &Explanation| {
            (0..values_of.sets()).map(|k| values_of.set_name(k)).collect::<Vec<_>>()
        };
        let sets = match computed.sets() {
            0 => Vec::new(),
            _ => positions(&names(explanation), &names(&computed), "feature")?,
        };
        for (i, row) in computed.row_numbers.iter().enumerate() {
            let Some(position) = unmatched.remove(row) else { continue };
            compare_cells((&explanation.data, position), (&computed.data, i), *row, &mut cells);
            for (o, &p) in outputs.iter().enumerate() {
                let (g, f) = (position * explanation.outputs() + o, i * computed.outputs() + p);
                let bound = 2.0 * proved_bound(&computed, f);
                bounds.insert(g, bound);
                let location = || format!("row {row}, output {}", explanation.output_names[o]);
                predictions.add(
                    explanation.predictions[g],
                    computed.predictions[f],
                    bound + sizes[0],
                    location,
                );
                bases.add(explanation.base_values[g], computed.base_values[f], bound + sizes[1], location);
                for (k, &l) in sets.iter().enumerate() {
                    let estimates = sampling_error(explanation, g, k) + sampling_error(&computed, f, l);
                    let bound = bound + estimates + sizes[2];
                    let location = || format!("row {row}, {}", explanation.set_name(k));
                    let [saved_value, computed_value] =
                        [explanation.row_values(position, o)[k], computed.row_values(i, p)[l]];
                    values.add(saved_value, computed_value, bound, location);
                }
            }
        }
        Ok(())
    };
    explaining.for_each_chunk(&quiet, &mut check, false)?;
    check_rows_exist(unmatched.keys())?;
    console.note(format!("{} rows compared", explanation.rows()));
    let cells = match cells.count {
        0 => Comparison { subject: "cells of the rows", agrees: None, finding: "not in the file".into() },
        _ => cells.compared("cells of the rows"),
    };
    Ok(vec![
        sums(explanation, &bounds, tolerance),
        predictions.compared("predictions"),
        bases.compared("base values"),
        values.compared("values"),
        cells,
    ])
}

/// The position in `actual` of each name in `expected`; the names must be the same up to order.
fn positions(expected: &[String], actual: &[String], kind: &str) -> Result<Vec<usize>> {
    let position_of: HashMap<&String, usize> =
        actual.iter().enumerate().map(|(position, name)| (name, position)).collect();
    let positions = expected.iter().map(|name| {
        position_of.get(name).copied().ok_or_else(|| {
            let actual_names = riesz::error::listed(actual);
            Failure::Check(format!(
                "the explanation has the {kind} '{name}', but the model has: {actual_names}"
            ))
        })
    });
    let positions = positions.collect::<Result<Vec<_>>>()?;
    match actual.iter().find(|name| !expected.contains(name)) {
        Some(missing) => Err(Failure::Check(format!("the explanation lacks the {kind} '{missing}'"))),
        None => Ok(positions),
    }
}

/// Compares the cells of a row in two tables, for the columns that both have.
fn compare_cells(
    (stated, position): (&Table, usize),
    (computed, i): (&Table, usize),
    row: usize,
    cells: &mut Differences,
) {
    for (j, column) in stated.columns().iter().enumerate() {
        let Some(l) = computed.columns().iter().position(|other| other.name == column.name) else { continue };
        let location = || format!("row {row}, {}", column.name);
        let pair = (stated.get(position, j), computed.get(i, l));
        let (stated_cell, computed_cell) = match (&column.kind, &computed.columns()[l].kind) {
            // Levels are compared by name: codes depend on the table.
            (ColumnKind::Categorical { levels }, ColumnKind::Categorical { levels: others }) => {
                let is_same = levels.get(pair.0 as usize) == others.get(pair.1 as usize);
                (pair.1 + f64::from(u8::from(!is_same)), pair.1)
            }
            _ => pair,
        };
        cells.add(stated_cell, computed_cell, 0.0, location);
    }
}

/// The proved bound on errors for row and output `g`; 0 if values are not exact.
fn proved_bound(explanation: &Explanation, g: usize) -> f64 {
    match &explanation.exactness {
        Exactness::Exact { bound } => bound[g],
        _ => 0.0,
    }
}

/// The allowed sampling error of the value of set `k` for row and output `g`: 0 if it is not estimated.
fn sampling_error(explanation: &Explanation, g: usize, k: usize) -> f64 {
    match &explanation.exactness {
        Exactness::Estimated { std_error, .. } => {
            STANDARD_ERRORS * std_error.get(g * explanation.sets() + k).copied().unwrap_or(0.0)
        }
        _ => 0.0,
    }
}

/// Repeats the standard errors that the file states: they widen the allowed differences, and nothing checks
/// them.
fn stated_errors(explanation: &Explanation) -> Option<Comparison> {
    let Exactness::Estimated { std_error, .. } = &explanation.exactness else { return None };
    let finding = format!(
        "stated by the file, up to {:.1e}, and not checked: values may differ by {STANDARD_ERRORS} of them",
        largest(std_error)
    );
    Some(Comparison { subject: "standard errors", agrees: None, finding })
}

/// Compares the sum of base value and values with the prediction. `bounds` has the allowed difference for
/// each row and output that was computed.
fn sums(explanation: &Explanation, bounds: &HashMap<usize, f64>, tolerance: f64) -> Comparison {
    let subject = "sums";
    if !explanation.index.is_efficient() || !explanation.is_complete() {
        let finding = format!("not compared: values of the index {} do not add up", explanation.index);
        return Comparison { subject, agrees: None, finding };
    }
    let size = tolerance * largest(&explanation.predictions);
    let mut differences = Differences::default();
    for (g, residual) in explanation.residuals().into_iter().enumerate() {
        let (row, output) = (explanation.row_numbers[g / explanation.outputs()], g % explanation.outputs());
        let location = || format!("row {row}, output {}", explanation.output_names[output]);
        let allowed = bounds.get(&g).copied().unwrap_or(0.0) + size;
        differences.add(explanation.predictions[g] - residual, explanation.predictions[g], allowed, location);
    }
    differences.compared(subject)
}

/// Compares files with those that the explanation names by their SHA-256. A rewritten file differs even if
/// its content means the same, so a difference is reported but is not a failure.
fn files(args: &Args, explanation: &Explanation) -> Result<Vec<Comparison>> {
    let digest = |text: &str| text.rsplit_once("(SHA-256 ").map(|(_, digest_text)| digest_text.to_string());
    let background = args.game.background.as_deref().or(args.game.baseline.as_deref());
    let named = [
        ("model file", Some(args.model.as_path())),
        ("rows", Some(args.rows.as_path())),
        ("background", background),
    ];
    let mut comparisons = Vec::new();
    for (subject, path) in named {
        let fact = explanation.provenance.run.iter().find(|fact| fact.name == subject);
        let (Some(fact), Some(path)) = (fact.and_then(|fact| digest(&fact.value)), path) else { continue };
        let is_same = digest(&described(path)?) == Some(fact);
        let finding = if is_same { "the same file" } else { "not the file that was explained" };
        comparisons.push(Comparison { subject, agrees: None, finding: finding.into() });
    }
    Ok(comparisons)
}

fn write(path: Option<&Path>, as_json: bool, comparisons: &[Comparison]) -> Result<()> {
    let text = if as_json {
        let record = |comparison: &Comparison| {
            let Comparison { subject, agrees, finding } = comparison;
            json!({ "what": subject, "agrees": agrees, "words": finding })
        };
        format!("{:#}\n", Value::from(comparisons.iter().map(record).collect::<Vec<_>>()))
    } else {
        let fact = |comparison: &Comparison| {
            riesz::model_card::CardEntry::new(comparison.subject, &comparison.finding)
        };
        aligned(&comparisons.iter().map(fact).collect::<Vec<_>>())
    };
    write_all(path, text.as_bytes())
}

//! `riesz verify`.

mod comparison;
mod recomputed;

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueHint;
use riesz::explainer::PredictionFunction;
use riesz::format::explanation_json::SavedExplanation;
use riesz::{Exactness, Explanation, Game};
use serde_json::Value;

use self::comparison::{Comparison, Differences, records, text, verdict};
use self::recomputed::{compare, fact, location, positions};
use crate::args::{CellArgs, FeatureArgs, GameArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::explain_run::{ExplainRequest, Explaining};
use crate::io::input::{described, name_of};
use crate::io::model_rows::ModelRows;
use crate::io::models::{FileContent, read_any, read_average};
use crate::io::output::write_all;
use crate::program;
use crate::question_args::asks_for_probabilities;

/// Largest accepted error of an estimate, in standard errors.
const STANDARD_ERRORS: f64 = 5.0;

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz verify why.json --model m.riesz --rows new.csv --background train.csv
  riesz verify why.csv --model svm.model --rows new.csv --columns age,bmi,bp --game functional
  riesz verify why.json --model 'cmd:python3 forest.py' --rows new.csv --background train.csv
  riesz verify why.json --model m.riesz --rows new.csv --background train.csv --sample-rows 20

Explains the rows again and compares. The first line is the verdict; numbers that differ are listed.
Exit code 1: something does not agree.

Checked: sums, predictions, base values, values, the explained rows, and the classes and
probabilities of a classifier. Settings and index are those that the file states, unless options
change them; --seed is used if the file states no seed, and for --sample-rows.

Two numbers agree if they differ by at most twice the bound that this command proves, and
--tolerance times the largest number of their kind; bounds that the file states are not used.
Estimates from the same coalitions or orders, with the seed that the file states, are compared in
this way too, with their standard errors. Other estimates may differ by 5 standard errors, stated and
recomputed ones. If the game is unknown, or its background or baseline is not given, only
predictions and sums are compared.

Not checked: the model card, that this model is the one in use, and whether the background is a
sensible one. Checksums of files are information only: a rewritten file may hold the same numbers.
A program must give the same answers each time.")]
pub struct Args {
    /// Explanation to check, by any program: JSON of 'riesz explain', or a table of values (CSV, Parquet)
    /// with the columns row, output, base_value, prediction and residual, and one column per feature
    #[arg(value_hint = ValueHint::FilePath)]
    pub explanation: PathBuf,
    /// Model file that the explanation is about, or 'cmd:COMMAND': a program, as for 'riesz explain'
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of the explained rows; the explanation's column 'row' numbers them from 0
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Check only N of the explained rows, drawn with --seed [default: all]; sums are checked in all rows
    #[arg(long, value_name = "N")]
    pub sample_rows: Option<NonZeroUsize>,
    /// Accepted difference of numbers beyond their bounds, relative to the largest number of their kind
    #[arg(long, value_name = "SHARE", default_value_t = 1e-9)]
    pub tolerance: f64,
    /// Options of the explanation; those that are not given are taken from the file.
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

/// Explains the rows again, compares, and prints which numbers agree.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.is_json_requested()?;
    if !args.tolerance.is_finite() || args.tolerance < 0.0 {
        return Err(Failure::input(format!(
            "--tolerance {} is not a number of at least 0: give one",
            args.tolerance
        )));
    }
    let stated = match read_any(&args.explanation, None, &FeatureArgs::default())? {
        FileContent::Explanation(saved, _) => saved,
        FileContent::Model(..) => {
            let name = name_of(&args.explanation);
            return Err(Failure::input(format!("{name} is a model: give an explanation to check")));
        }
    };
    let explanation = &stated.explanation;
    let files = recorded_files(args, explanation)?;
    let selected = args.sample_rows.map(|count| {
        let rows = explanation.data.sample_rows(count.get(), global.seed);
        rows.into_iter().map(|position| explanation.row_numbers[position]).collect::<HashSet<_>>()
    });
    let scope = selected.as_ref().map(|rows| format!("{} of {} rows", rows.len(), explanation.rows()));
    let mut comparisons = recompute(args, &stated, selected, (&files, global.seed), &console)?;
    let model = if program::command(&args.model).is_some() { "the program" } else { "the model" };
    comparisons.insert(0, verdict(&comparisons, model, scope.as_deref()));
    comparisons.extend(files.into_iter().map(|file| Comparison::information(file.name, file.finding)));
    let result = if as_json { format!("{:#}\n", records(&comparisons)) } else { text(&comparisons) };
    write_all(args.output.as_deref(), result.as_bytes())?;
    let failed = comparisons.iter().skip(1).find(|comparison| comparison.agrees == Some(false));
    failed.map_or(Ok(()), |comparison| Err(Failure::Check(comparison.failure())))
}

/// Explains the rows again, as far as the given files allow, and compares.
fn recompute(
    args: &Args,
    stated: &SavedExplanation,
    selected: Option<HashSet<usize>>,
    (files, seed): (&[RecordedFile], u64),
    console: &Console,
) -> Result<Vec<Comparison>> {
    let explanation = &stated.explanation;
    let rows = args.features.open(&args.table, &args.rows)?;
    let (table, mut game) = (args.features.tables(&args.table), question(args, explanation, files));
    let seed = stated_seed(explanation).unwrap_or(seed);
    let (features, cells, quiet) = (&args.features, args.cells, Console::new(true));
    let variance = fact(explanation, "explained").is_some_and(|text| text.starts_with("the variance"));
    let missing = without_rows(&game);
    if let Some(command) = program::command(&args.model) {
        missing.map_or(Ok(()), |missing| Err(Failure::input(missing)))?;
        ignore_other_columns(&mut game, args, explanation)?;
        let request = ExplainRequest { game: &game, table: &table, features, cells, seed, variance };
        let explaining = Explaining::from_program(command, rows, &request, &quiet)?;
        return compare(stated, explaining, args.tolerance, selected, console);
    }
    let read = read_average(&args.model, Some(&rows), &args.features)?.admitted(&args.cells)?;
    let request = ExplainRequest { game: &game, table: &table, features, cells, seed, variance };
    let Some(missing) = missing.filter(|_| !variance) else {
        let explaining = Explaining::new((&read, &args.model), rows, &request, &quiet)?;
        return compare(stated, explaining, args.tolerance, selected, console);
    };
    let (model, probabilities) = (&read.best.model, asks_for_probabilities(&game));
    let function = PredictionFunction::new(model, read.parts(), probabilities);
    let (policy, width) = (args.cells.for_model(&model.support_points)?, model.columns().len());
    let rows = ModelRows::new(rows, model.columns(), policy, width)?.with_units_of(model);
    Ok(vec![
        sums(explanation, &HashMap::new(), args.tolerance),
        compare_predictions(explanation, &function, rows, args.tolerance)?,
        Comparison::skipped("base values", missing),
        Comparison::skipped("values", missing),
    ])
}

/// The seed that the explanation states.
fn stated_seed(explanation: &Explanation) -> Option<u64> {
    match &explanation.exactness {
        Exactness::Estimated { sampling: Some(sampling), .. } => Some(sampling.seed),
        _ => fact(explanation, "seed")?.parse().ok(),
    }
}

/// The settings that the explanation states, except those that are given as options. If its background is
/// the given file, the number of background rows is the stated one too.
fn question(args: &Args, explanation: &Explanation, files: &[RecordedFile]) -> GameArgs {
    let settings = args.game.settings.clone();
    let is_other_game = settings.value("game").is_some_and(|game| game != &explanation.provenance.game[..]);
    let probabilities = fact(explanation, "explained") == Some("probabilities");
    let settings = settings.or("index", Value::from(explanation.index.to_string()));
    // A text table does not name its game.
    let settings = match explanation.provenance.game.as_str() {
        game if Game::NAMES.contains(&game) => settings.or("game", Value::from(game)),
        _ => settings,
    };
    let settings = if probabilities { settings.or("probabilities", Value::from(true)) } else { settings };
    let settings = match fact(explanation, "settings") {
        // The uncertainty of values is not compared.
        Some(text) if !is_other_game => settings.or_text(text).excluding(&["covariance"]),
        _ => settings,
    };
    let is_same_background = files.iter().any(|file| file.name == BACKGROUND && file.is_same == Some(true));
    let stated_rows = fact(explanation, "background rows").and_then(|count| count.parse().ok());
    let stated_rows = stated_rows.filter(|_| is_same_background && args.game.background.is_some());
    GameArgs { settings, background_rows: args.game.background_rows.or(stated_rows), ..args.game.clone() }
}

/// Ignores the columns of the background that are no features of the explanation of a program.
fn ignore_other_columns(game: &mut GameArgs, args: &Args, explanation: &Explanation) -> Result<()> {
    let columns = explanation.data.columns();
    let background = game.background.as_ref().or(game.baseline.as_ref());
    if let (Some(path), true, false) = (background, game.ignore.is_empty(), columns.is_empty()) {
        let header = args.table.source(path).open()?.header().to_vec();
        let is_weight = |name: &String| game.background_weights.as_ref() == Some(name);
        let is_other = |name: &String| !is_weight(name) && columns.iter().all(|column| column.name != *name);
        game.ignore = header.into_iter().filter(is_other).collect();
    }
    Ok(())
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
                    let location = || location(explanation, *position, o, None);
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

/// Compares the sum of base value and values with the prediction. `bounds` has the allowed difference for
/// each row and output that was computed.
fn sums(explanation: &Explanation, bounds: &HashMap<usize, f64>, tolerance: f64) -> Comparison {
    if !explanation.index.is_efficient() || !explanation.is_complete() {
        let reason = format!("values of the index {} do not add up", explanation.index);
        return Comparison::skipped("sums", reason);
    }
    let size = tolerance * largest(&explanation.predictions);
    let words = Some(["sum of the values and the base value", "prediction"]);
    let mut differences = Differences::default();
    differences.words = words;
    for (g, residual) in explanation.residuals().into_iter().enumerate() {
        let (position, output) = (g / explanation.outputs(), g % explanation.outputs());
        let allowed = bounds.get(&g).copied().unwrap_or(0.0) + size;
        let prediction = explanation.predictions[g];
        let location = || location(explanation, position, output, None);
        differences.add(prediction - residual, prediction, allowed, location);
    }
    differences.compared("sums")
}

/// The name of the provenance entry of the background or the baseline.
const BACKGROUND: &str = "background";

/// A file that was given, and its comparison with the one that the explanation records.
struct RecordedFile {
    name: &'static str,
    /// Whether the content is the recorded one; `None` if no checksum is recorded.
    is_same: Option<bool>,
    finding: String,
}

/// Compares the SHA-256 checksums of the given files with those that the explanation records. A rewritten
/// file differs even if its content means the same, so a difference is reported but is not a failure.
fn recorded_files(args: &Args, explanation: &Explanation) -> Result<Vec<RecordedFile>> {
    let digest = |text: &str| {
        let digest_text = text.rsplit_once("(SHA-256 ").map(|(_, digest_text)| digest_text);
        digest_text.map(|digest_text| digest_text.trim_end_matches(')').to_string())
    };
    let background = args.game.background.as_deref().or(args.game.baseline.as_deref());
    let model = Some(args.model.as_path()).filter(|model| program::command(model).is_none());
    let named = [("model file", model), ("rows", Some(args.rows.as_path())), (BACKGROUND, background)];
    let files = named.into_iter().filter_map(|(name, path)| Some((name, path?)));
    let compared = files.map(|(name, path)| {
        let [recorded, actual] = [fact(explanation, name).and_then(digest), digest(&described(path)?)];
        let is_same = recorded.as_ref().zip(actual.as_ref()).map(|(recorded, actual)| recorded == actual);
        let finding = match (is_same, recorded, actual) {
            (Some(true), ..) => "the same file as recorded".into(),
            (Some(false), Some(recorded), Some(actual)) => format!(
                "not the file that was explained: its SHA-256 is {actual}, the explanation records {recorded}"
            ),
            (_, None, _) => "no checksum is recorded".into(),
            _ => "no file with a checksum is given".into(),
        };
        Ok(RecordedFile { name, is_same, finding })
    });
    compared.collect()
}

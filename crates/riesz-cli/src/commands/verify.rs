//! `riesz verify`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::explainer::PredictionFunction;
use riesz::format::explanation_json::SavedExplanation;
use riesz::{Exactness, Explanation, Game};
use serde_json::{Value, json};

use crate::args::{CellArgs, FeatureArgs, GameArgs, Global, TableArgs};
use crate::console::{Console, aligned};
use crate::explaining::{Asked, Explaining};
use crate::failure::{Failure, Result};
use crate::games::asks_for_probabilities;
use crate::io::input::{described, name_of};
use crate::io::model_rows::ModelRows;
use crate::io::models::{Found, read_any, read_model};
use crate::io::output::write_all;

/// How many standard errors an estimate may be off.
const STANDARD_ERRORS: f64 = 5.0;

/// Arguments of `verify`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz verify why.json --model m.riesz --rows new.csv --background train.csv
  riesz verify why.csv --model svm.model --rows new.csv --columns age,bmi,bp --game functional

Explains the rows anew, by the explanation's own game and index, and compares predictions, base
values, sums and values. They agree if they differ by no more than the proved bounds of both
explanations and --tolerance times the largest number of their kind; estimates may also be off by 5
standard errors. A game that takes a background or a baseline needs it; without it, predictions and
sums are compared, and that is said. Exit code 1: something does not agree.")]
pub struct Args {
    /// Explanation to check: JSON of 'riesz explain', or a table of values (CSV, Parquet) with the columns
    /// row, output, base_value,
    /// prediction, residual and one a player, whoever made it
    #[arg(value_hint = ValueHint::FilePath)]
    pub explanation: PathBuf,
    /// Model file that it is to explain
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of the rows that it is to explain; its column 'row' numbers them from 0
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// How far numbers may be apart, beside their bounds, relative to the largest of their kind
    #[arg(long, value_name = "SHARE", default_value_t = 1e-9)]
    pub tolerance: f64,
    /// The question; game and index are the explanation's unless they are given.
    #[command(flatten)]
    pub game: GameArgs,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// What LIBSVM's files do not say.
    #[command(flatten)]
    pub features: FeatureArgs,
    /// What becomes of cells that the model cannot take.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// What was compared, and what came of it.
struct Comparison {
    what: &'static str,
    /// Whether it agrees; `None` where it could not be compared.
    agrees: Option<bool>,
    words: String,
}

/// Numbers that are to be the same: the largest difference, and whether each is within what is allowed.
#[derive(Default)]
struct Differences {
    count: usize,
    largest: f64,
    allowed: f64,
    /// The first that is beyond it, in words.
    beyond: Option<String>,
}

impl Differences {
    fn add(&mut self, given: f64, expected: f64, allowed: f64, place: impl FnOnce() -> String) {
        let apart = (given - expected).abs();
        self.count += 1;
        self.largest = self.largest.max(apart);
        self.allowed = self.allowed.max(allowed);
        if (apart.is_nan() || apart > allowed) && self.beyond.is_none() {
            self.beyond = Some(format!("{}: {given} instead of {expected}, allowed {allowed:.1e}", place()));
        }
    }

    fn compared(self, what: &'static str) -> Comparison {
        let Self { count, largest, allowed, beyond } = self;
        let words = match &beyond {
            None => format!("{count} agree within {largest:.1e} (allowed {allowed:.1e})"),
            Some(place) => format!("differ by up to {largest:.1e}; first {place}"),
        };
        Comparison { what, agrees: Some(beyond.is_none()), words }
    }
}

/// Explains anew, compares and says what agrees.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.json_words()?;
    if !args.tolerance.is_finite() || args.tolerance < 0.0 {
        return Err(Failure::input(format!(
            "--tolerance {}: it is a number that is not negative",
            args.tolerance
        )));
    }
    let given = match read_any(&args.explanation, None, &FeatureArgs::default())? {
        Found::Explanation(saved, _) => saved.explanation,
        Found::Model(..) => {
            let name = name_of(&args.explanation);
            return Err(Failure::input(format!("{name} is a model, and what is checked is an explanation")));
        }
    };
    let rows = args.features.open(&args.table, &args.rows)?;
    let saved = args.cells.admit(read_model(&args.model, Some(&rows), &args.features)?)?;
    let (table, game) = (args.features.tables(&args.table), question(args, &given));
    let (features, cells, seed) = (&args.features, args.cells, global.seed);
    let asked = Asked { game: &game, table: &table, features, cells, seed, variance: false };
    let mut comparisons = vec![sums(&given, args.tolerance)];
    match without_rows(&game) {
        Some(missing) => {
            let (model, probabilities) = (&saved.model, asks_for_probabilities(&game));
            let function = PredictionFunction::new(model, saved.covariance.as_ref(), probabilities);
            let (policy, width) = (args.cells.for_model(&model.support_points)?, model.columns().len());
            let rows = ModelRows::new(rows, model.columns(), policy, width)?.with_units_of(model);
            comparisons.push(compare_predictions(&given, &function, rows, args.tolerance)?);
            for what in ["base values", "values"] {
                let words = format!("not compared: {missing}");
                comparisons.push(Comparison { what, agrees: None, words });
            }
        }
        None => {
            let explaining = Explaining::of_model((&saved, &args.model), rows, &asked, &console)?;
            comparisons.extend(compare(&given, explaining, args.tolerance, &console)?);
        }
    }
    comparisons.extend(files(args, &given)?);
    write(args.output.as_deref(), as_json, &comparisons)?;
    let failed = comparisons.iter().find(|one| one.agrees == Some(false));
    failed.map_or(Ok(()), |one| Err(Failure::Check(format!("{} do not agree: {}", one.what, one.words))))
}

/// The question that the explanation says it answers, but for what is given.
fn question(args: &Args, given: &Explanation) -> GameArgs {
    let settings = args.game.settings.clone();
    let run = &given.provenance.run;
    let probabilities = run.iter().any(|f| f.name == "explained" && f.value == "probabilities");
    let settings = settings.or("index", Value::from(given.index.to_string()));
    // A table in text does not name its game.
    let settings = match given.provenance.game.as_str() {
        game if Game::NAMES.contains(&game) => settings.or("game", Value::from(game)),
        _ => settings,
    };
    let settings = if probabilities { settings.or("probabilities", Value::from(true)) } else { settings };
    GameArgs { settings, ..args.game.clone() }
}

/// What the game takes and was not given.
fn without_rows(game: &GameArgs) -> Option<&'static str> {
    let name = game.settings.value("game").and_then(Value::as_str).unwrap_or("functional");
    match name {
        _ if game.background.is_some() || game.baseline.is_some() => None,
        "functional" => None,
        "baseline" => Some("give the row that absent features were taken from, with --baseline"),
        _ => Some("give the rows that absent features were taken from, with --background"),
    }
}

/// Compares the predictions with the model's own.
fn compare_predictions(
    given: &Explanation,
    function: &PredictionFunction<'_>,
    mut rows: ModelRows,
    tolerance: f64,
) -> Result<Comparison> {
    let outputs = places(&given.output_names, &function.output_names(), "output")?;
    let size = tolerance * largest(&given.predictions);
    let places: HashMap<usize, usize> =
        given.row_numbers.iter().enumerate().map(|(at, row)| (*row, at)).collect();
    let (mut found, mut row) = (Differences::default(), 0);
    while let Some(table) = rows.next()? {
        let predictions = function.predict(&table)?;
        for i in 0..table.rows() {
            if let Some(at) = places.get(&(row + i)) {
                for (o, &p) in outputs.iter().enumerate() {
                    let g = at * given.outputs() + o;
                    let place = || format!("row {}, output {}", row + i, given.output_names[o]);
                    let bound = allowed(given, g, None) + size;
                    found.add(given.predictions[g], predictions[(i, p)], bound, place);
                }
            }
        }
        row += table.rows();
    }
    rows_are_there(given.row_numbers.iter().filter(|number| **number >= row))?;
    Ok(found.compared("predictions"))
}

/// Refuses an explanation of rows that the table does not have.
fn rows_are_there<'r>(missing: impl Iterator<Item = &'r usize>) -> Result<()> {
    missing.min().map_or(Ok(()), |row| {
        Err(Failure::input(format!(
            "the explanation has a row {row}, counted from 0, and the table of rows does not"
        )))
    })
}

/// The largest of these numbers in size.
fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().filter(|v| v.is_finite()).fold(0.0_f64, |most, v| most.max(v.abs()))
}

/// Compares with an explanation of the same rows: predictions, base values and values.
fn compare(
    given: &Explanation,
    explaining: Explaining<'_>,
    tolerance: f64,
    console: &Console,
) -> Result<Vec<Comparison>> {
    let mut wanted: HashMap<usize, usize> =
        given.row_numbers.iter().enumerate().map(|(at, row)| (*row, at)).collect();
    let (mut predictions, mut bases, mut values) =
        (Differences::default(), Differences::default(), Differences::default());
    let quiet = Console::new(true);
    let sizes = [&given.predictions, &given.base_values, &given.values].map(|all| tolerance * largest(all));
    let mut check = |chunk: SavedExplanation| -> Result<()> {
        let own = chunk.explanation;
        let outputs = places(&given.output_names, &own.output_names, "output")?;
        let names = |of: &Explanation| (0..of.sets()).map(|k| of.set_name(k)).collect::<Vec<_>>();
        let sets = match own.sets() {
            0 => Vec::new(),
            _ => places(&names(given), &names(&own), "player")?,
        };
        for (i, row) in own.row_numbers.iter().enumerate() {
            let Some(at) = wanted.remove(row) else { continue };
            for (o, &p) in outputs.iter().enumerate() {
                let (g, f) = (at * given.outputs() + o, i * own.outputs() + p);
                let bound = allowed(given, g, None) + allowed(&own, f, None);
                let place = || format!("row {row}, output {}", given.output_names[o]);
                predictions.add(given.predictions[g], own.predictions[f], bound + sizes[0], place);
                bases.add(given.base_values[g], own.base_values[f], bound + sizes[1], place);
                for (k, &l) in sets.iter().enumerate() {
                    let bound = allowed(given, g, Some(k)) + allowed(&own, f, Some(l)) + sizes[2];
                    let place = || format!("row {row}, {}", given.set_name(k));
                    let [theirs, ours] = [given.row_values(at, o)[k], own.row_values(i, p)[l]];
                    values.add(theirs, ours, bound, place);
                }
            }
        }
        Ok(())
    };
    explaining.each(&quiet, &mut check, false)?;
    rows_are_there(wanted.keys())?;
    console.note(format!("{} rows compared", given.rows()));
    Ok(vec![predictions.compared("predictions"), bases.compared("base values"), values.compared("values")])
}

/// Where each name of an explanation stands among those of the other.
fn places(given: &[String], own: &[String], what: &str) -> Result<Vec<usize>> {
    let place: HashMap<&String, usize> = own.iter().enumerate().map(|(at, name)| (name, at)).collect();
    let found = given.iter().map(|name| {
        place.get(name).copied().ok_or_else(|| {
            let known = riesz::error::listed(own);
            Failure::Check(format!("the explanation has the {what} '{name}', and the model has: {known}"))
        })
    });
    let found = found.collect::<Result<Vec<_>>>()?;
    match own.iter().find(|name| !given.contains(name)) {
        Some(missing) => Err(Failure::Check(format!("the explanation lacks the {what} '{missing}'"))),
        None => Ok(found),
    }
}

/// How far a number of game `g` (a row and output) can be off: its bound, or of values (of set `k`) some
/// standard errors.
fn allowed(explanation: &Explanation, g: usize, k: Option<usize>) -> f64 {
    match (&explanation.exactness, k) {
        (Exactness::Exact { bound }, _) => bound[g],
        (Exactness::Estimated { std_error, .. }, Some(k)) => {
            STANDARD_ERRORS * std_error.get(g * explanation.sets() + k).copied().unwrap_or(0.0)
        }
        _ => 0.0,
    }
}

/// Whether values and base value add up to the prediction.
fn sums(given: &Explanation, tolerance: f64) -> Comparison {
    let what = "sums";
    if !given.index.is_efficient() || !given.is_complete() {
        let words = format!("not compared: values of the index {} do not add up", given.index);
        return Comparison { what, agrees: None, words };
    }
    let size = tolerance * largest(&given.predictions);
    let mut all = Differences::default();
    for (g, residual) in given.residuals().into_iter().enumerate() {
        let (row, output) = (given.row_numbers[g / given.outputs()], g % given.outputs());
        let place = || format!("row {row}, output {}", given.output_names[output]);
        let allowed = allowed(given, g, None) + size;
        all.add(given.predictions[g] - residual, given.predictions[g], allowed, place);
    }
    all.compared(what)
}

/// Whether the files are those that the explanation names by their SHA-256. A file that was written anew is
/// another one,
/// whatever it holds, so this decides nothing.
fn files(args: &Args, given: &Explanation) -> Result<Vec<Comparison>> {
    let digest = |text: &str| text.rsplit_once("(SHA-256 ").map(|(_, rest)| rest.to_string());
    let background = args.game.background.as_deref().or(args.game.baseline.as_deref());
    let named = [
        ("model file", Some(args.model.as_path())),
        ("rows", Some(args.rows.as_path())),
        ("background", background),
    ];
    let mut found = Vec::new();
    for (what, path) in named {
        let fact = given.provenance.run.iter().find(|fact| fact.name == what);
        let (Some(fact), Some(path)) = (fact.and_then(|fact| digest(&fact.value)), path) else { continue };
        let same = digest(&described(path)?) == Some(fact);
        let words = if same { "the same file" } else { "another file than the one that was explained" };
        found.push(Comparison { what, agrees: None, words: words.into() });
    }
    Ok(found)
}

fn write(path: Option<&Path>, as_json: bool, comparisons: &[Comparison]) -> Result<()> {
    let text = if as_json {
        let record = |one: &Comparison| json!({ "what": one.what, "agrees": one.agrees, "words": one.words });
        format!("{:#}\n", Value::from(comparisons.iter().map(record).collect::<Vec<_>>()))
    } else {
        let fact = |one: &Comparison| riesz::explanation::Fact::new(one.what, &one.words);
        aligned(&comparisons.iter().map(fact).collect::<Vec<_>>())
    };
    write_all(path, text.as_bytes())
}

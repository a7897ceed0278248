//! `riesz prefer evaluate`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::{ValueEnum, ValueHint};
use riesz::model_average;
use riesz::preference::{
    AbilityRidge, BradleyTerry, Evaluation, LossDifference, Pair, ProbabilityScores, ScoreSummary, Split,
    TestDuels, times_of_levels,
};
use riesz::{ColumnKind, Link, Prediction};

use super::predict::rows_in;
use super::shared_fit::{Further, Learn, Model, described, duels};
use crate::args::Global;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::duels::{IndexedDuels, Items};
use crate::io::write::{Cells, TableWriter};

/// Arguments of `prefer evaluate`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer evaluate players.csv matches.csv --id name
  riesz prefer evaluate players.csv matches.csv --models nested,utility --repeats 5
  riesz prefer evaluate votes.jsonl --split duels         single votes at random
  riesz prefer evaluate players.csv matches.csv --split items            unseen players
  riesz prefer evaluate players.csv matches.csv --split time=played      the future from the past
  riesz prefer evaluate players.csv matches.csv --split context=season   unseen seasons

Each repeat holds out a share of the pairs and tests every model on them. All duels of a pair are
held out together; otherwise the training duels would reveal the test outcomes. The table has one
line per model: accuracy, auc and log_loss (0.693 for probability one half), each with its standard
deviation over the repeats; and the mean difference of the log losses of the same duels from those
of the best model, with its standard error over pairs.")]
pub struct Args {
    /// Options for reading the tables and for the model.
    #[command(flatten)]
    pub learn: Learn,
    /// Effects that are not properties of the items.
    #[command(flatten)]
    pub further: Further,
    /// Models to compare
    #[arg(
        long,
        value_name = "MODEL,…",
        value_enum,
        value_delimiter = ',',
        default_value = "nested,utility,generalised,bradley-terry,linear,coin"
    )]
    pub models: Vec<Compared>,
    /// Number of splits, each with its own seed
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub repeats: usize,
    /// Share of pairs or items that is held out for the test
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    pub test: f64,
    /// The unit that is held out: pairs of items with all their duels; single duels; items, so that both
    /// items of a test duel are new; the last duels by a column of numbers or dates (2024-05-01), in a single
    /// split; or whole contexts, the levels of a column such as season or user
    #[arg(long, value_name = "pairs|duels|items|time=COL|context=COL", default_value = "pairs")]
    pub split: Apart,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// The compared models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compared {
    /// A utility plus a function that may be cyclic.
    Nested,
    /// A utility, which gives a ranking.
    Utility,
    /// A log odds function that allows cycles.
    Generalised,
    /// An ability for each item, independent of its columns (Bradley and Terry).
    #[value(alias = "bradley_terry")]
    BradleyTerry,
    /// Weighted sums of the items' columns.
    Linear,
    /// A probability of one half.
    Coin,
}

/// The unit that is held out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Apart {
    /// Pairs of items.
    Pairs,
    /// Single duels.
    Duels,
    /// Items.
    Items,
    /// The last duels, by a column of the table of duels.
    Time(String),
    /// All duels with some levels of a column of the table of duels.
    Context(String),
}

impl std::str::FromStr for Apart {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            None if text == "pairs" => Ok(Self::Pairs),
            None if text == "duels" => Ok(Self::Duels),
            None if text == "items" => Ok(Self::Items),
            Some(("time", column)) if !column.is_empty() => Ok(Self::Time(column.into())),
            Some(("context", column)) if !column.is_empty() => Ok(Self::Context(column.into())),
            _ => Err("give pairs, duels, items, time=COLUMN or context=COLUMN".into()),
        }
    }
}

/// The values of duels by which they are split.
enum SplitValues {
    None,
    Times(Vec<f64>),
    Contexts(Vec<usize>),
}

/// Fits and scores the models on each split, and writes the scores.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.text_or_table(args.output.as_deref())?;
    let further = &args.further;
    let (items, duels_read) =
        args.learn.read(further.effects.home.as_ref(), Some(&further.contexts), &console)?;
    let names_only = items.table.width() == 0;
    described(&items.names, &duels(&items.names, &duels_read)?, names_only, &console);
    if args.repeats == 0 {
        return Err(Failure::input("--repeats 0: give a number of at least 1"));
    }
    let models = compared_models(args, &items, &console)?;
    let split_values = split_values(args, &duels_read, names_only)?;
    let unit = match &split_values {
        SplitValues::Times(times) => {
            console.note("one split: earlier duels are for training, the last ones for the test");
            Split::Time(times)
        }
        SplitValues::Contexts(contexts) => Split::Contexts(contexts),
        SplitValues::None if args.split == Apart::Items => Split::Items,
        SplitValues::None if args.split == Apart::Duels => Split::Duels,
        SplitValues::None => Split::Pairs,
    };
    let has_counts = args.learn.duel_options.wins.is_some();
    let evaluation = Evaluation {
        left: &duels_read.left,
        right: &duels_read.right,
        outcome: duels_read.outcomes()?,
        counts: duels_read.weight.as_deref().filter(|_| has_counts),
        unit,
        share: args.test,
        repeats: args.repeats,
        seed: global.seed,
    };
    let progress = console.progress("evaluating");
    let summaries = evaluation.run(&models, |model, split| {
        progress.say(format!("split {} of {}, {}", split.repeat + 1, evaluation.splits(), named(*model)));
        probabilities(args, *model, &items, &duels_read, split, &console)
    })?;
    drop(progress);
    TableWriter::write_columns(args.output.as_deref(), format, score_columns(&models, &summaries))
}

/// The models to compare, without those that the items do not allow.
fn compared_models(args: &Args, items: &Items, console: &Console) -> Result<Vec<Compared>> {
    let names_only = items.table.width() == 0;
    let categories = items.table.columns().iter().find(|c| c.kind != ColumnKind::Numeric);
    let mut models = args.models.clone();
    if let Some(column) = categories.filter(|_| models.contains(&Compared::Linear)) {
        console.note(format!(
            "note: column '{}' holds categories, so the linear model is left out",
            column.name
        ));
        models.retain(|model| *model != Compared::Linear);
    }
    if names_only {
        // Without columns a utility consists of abilities, and of home advantage and ties if there are any.
        models.retain(|model| matches!(model, Compared::Utility | Compared::BradleyTerry | Compared::Coin));
    }
    if models.is_empty() {
        let reason = "--models: for items with only names choose among utility, bradley-terry and coin";
        return Err(Failure::input(reason));
    }
    Ok(models)
}

/// The columns of the written table: the models, their mean scores, over several splits the standard
/// deviations of these, and differences from the best model.
fn score_columns(models: &[Compared], summaries: &[ScoreSummary]) -> Vec<(&'static str, Cells)> {
    let mut columns = vec![("model", Cells::Texts(models.iter().map(|m| named(*m)).collect()))];
    for (name, std_name, read) in [
        ("accuracy", "accuracy_std", (|s| s.accuracy) as fn(&ProbabilityScores) -> f64),
        ("auc", "auc_std", |s| s.auc),
        ("log_loss", "log_loss_std", |s| s.log_loss),
    ] {
        columns.push((name, Cells::Numbers(summaries.iter().map(|summary| read(&summary.mean)).collect())));
        let std: Option<Vec<f64>> = summaries.iter().map(|summary| summary.std.as_ref().map(read)).collect();
        columns.extend(std.map(|std| (std_name, Cells::Numbers(std))));
    }
    let difference = |read: fn(&LossDifference) -> f64| {
        Cells::Numbers(
            summaries.iter().map(|summary| summary.difference.as_ref().map_or(0.0, read)).collect(),
        )
    };
    columns.extend([
        ("log_loss_difference", difference(|d| d.mean)),
        ("log_loss_difference_std_error", difference(|d| d.std_error)),
    ]);
    columns
}

/// The probabilities that the left items win the test duels of a split, under a model of its training duels.
fn probabilities(
    args: &Args,
    model: Compared,
    items: &Items,
    duels_read: &IndexedDuels,
    split: &TestDuels,
    console: &Console,
) -> Result<Vec<f64>> {
    let [train, tested] = [&split.training, &split.test].map(|part| select(duels_read, part));
    let model = match model {
        Compared::Coin => return Ok(vec![0.5; split.test.len()]),
        Compared::BradleyTerry => return bradley_terry_probabilities(items, &train, &pairs_in(&tested)),
        Compared::Nested => Model::Nested,
        Compared::Utility => Model::Utility,
        Compared::Generalised => Model::Generalised,
        Compared::Linear => Model::Linear,
    };
    model_probabilities(args, model, (items, &train, &tested), split.seed, console)
}

fn pairs_in(duels: &IndexedDuels) -> Vec<Pair> {
    duels.left.iter().copied().zip(duels.right.iter().copied()).collect()
}

/// The times or contexts of the duels, from the column that `--split` names.
fn split_values(args: &Args, duels_read: &IndexedDuels, names_only: bool) -> Result<SplitValues> {
    let (Apart::Time(column) | Apart::Context(column)) = &args.split else { return Ok(SplitValues::None) };
    let items_table = names_only.then_some(&args.learn.items);
    let Some(path) = args.learn.duels.as_ref().or(items_table) else {
        let reason = format!(
            "--split …={column}: this is a column of a table of duels: give the items in a separate table"
        );
        return Err(Failure::input(reason));
    };
    let rows = args.learn.table.source(path).open()?;
    let name = rows.name.clone();
    rows.column_indices(std::slice::from_ref(column))?;
    let columns = Columns::read(rows, std::slice::from_ref(column))?;
    let (levels, codes) = columns.levels(column)?;
    let codes: Vec<f64> = duels_read.rows.iter().map(|&row| codes[row]).collect();
    if matches!(args.split, Apart::Context(_)) {
        return Ok(SplitValues::Contexts(codes.iter().map(|code| *code as usize).collect()));
    }
    let times = times_of_levels(column, &levels).map_err(|e| Failure::from(e).about(&name))?;
    Ok(SplitValues::Times(codes.iter().map(|code| times[*code as usize]).collect()))
}

fn named(model: Compared) -> String {
    model.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
}

/// The probabilities that the left items win, by a Gaussian process or a linear model.
fn model_probabilities(
    args: &Args,
    model: Model,
    (items, train, test): (&Items, &IndexedDuels, &IndexedDuels),
    seed: u64,
    console: &Console,
) -> Result<Vec<f64>> {
    let pairs = pairs_in(test);
    let prepared = args.learn.prepare(model, &args.further.effects, items, train, seed)?;
    if prepared.abilities.is_some() {
        return bradley_terry_probabilities(items, train, &pairs);
    }
    let fit = args.further.fit(model, &args.learn, prepared, console)?;
    let rows = rows_in(&fit.model, items, &pairs, test)?;
    let prediction = match &fit.average {
        Some(average) => {
            let rows = rows.align_to(fit.model.columns())?;
            model_average::predict(&average.parts(), &rows, &AtomicBool::new(false))?
        }
        None => Prediction::new(&fit.model, fit.covariance.as_ref(), &rows)?,
    };
    let Some(class_probabilities) = prediction.probabilities else {
        // Models with landmarks are saved without a posterior; their tie model uses the posterior mean alone.
        let Link::LatentRaoKupper { margin } = fit.model.link else {
            return Err(Failure::input("the model has no probabilities"));
        };
        let logistic = |g: f64| 1.0 / (1.0 + (-g).exp());
        let win_probability = |g: f64| 0.5 * (1.0 + logistic(g - margin) - logistic(-g - margin));
        return Ok(prediction.outputs.data().iter().map(|g| win_probability(*g)).collect());
    };
    // A tie counts as half a win of each side.
    let tie = |i: usize| if class_probabilities.cols() > 2 { 0.5 * class_probabilities[(i, 2)] } else { 0.0 };
    Ok((0..rows.rows()).map(|i| class_probabilities[(i, 1)] + tie(i)).collect())
}

/// The win probabilities under the Bradley-Terry model, which ignores the items' columns.
fn bradley_terry_probabilities(items: &Items, train: &IndexedDuels, pairs: &[Pair]) -> Result<Vec<f64>> {
    let fit =
        BradleyTerry::new(AbilityRidge::Evidence).fit(&items.names.ids, &duels(&items.names, train)?)?;
    Ok(pairs.iter().map(|&(l, r)| 1.0 / (1.0 + (fit.coef[r] - fit.coef[l]).exp())).collect())
}

/// The duels with these indices.
fn select(duels_read: &IndexedDuels, selected: &[usize]) -> IndexedDuels {
    let selected_indices = |side: &[usize]| selected.iter().map(|&i| side[i]).collect();
    let selected_numbers = |values: &Vec<f64>| selected.iter().map(|&i| values[i]).collect();
    IndexedDuels {
        left: selected_indices(&duels_read.left),
        right: selected_indices(&duels_read.right),
        outcome: duels_read.outcome.as_ref().map(selected_numbers),
        weight: duels_read.weight.as_ref().map(selected_numbers),
        home: duels_read.home.as_ref().map(|home| selected.iter().map(|&i| home[i]).collect()),
        contexts: duels_read.contexts.as_ref().map(|contexts| contexts.select_rows(selected)),
        rows: selected_indices(&duels_read.rows),
        count: selected.len(),
    }
}

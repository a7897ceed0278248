//! `riesz prefer suggest`: suggests the duels to hold next.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueHint;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use riesz::Column;
use riesz::preference::{DuelSuggestion, InformationGoal, Pair, SuggestionRequest};

use super::model_items::{items_of_model, read_duel_model, rows_of_items};
use super::predict::context_cells;
use crate::args::{CellArgs, Format, Global, TableArgs};
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::duels::{
    ContextColumns, IndexedDuels, ItemArgs, Names, OutcomeColumns, RequestedColumns, SideArgs,
};
use crate::io::output::write_all;
use crate::io::write::{Cells, TableWriter, text_table};

/// Arguments of `prefer suggest`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer suggest arena.riesz                       a model of names alone
  riesz prefer suggest phones.riesz phones.csv --count 5
  riesz prefer suggest phones.riesz phones.csv --goal ranking -o next.csv
  riesz prefer suggest phones.riesz phones.csv --candidates possible.csv

The duels whose outcomes are expected to inform most, the most informative first. The information
is the mutual information between the outcome and the goal under the model's posterior, in bits: by
how much the outcome is expected to reduce the uncertainty about the goal. It is that of a single
duel, so hold a duel, fit the model with its outcome, and ask again. std_error is the Monte Carlo
standard error, and probability the probability that the left item wins. Nobody is at home.")]
pub struct Args {
    /// Model file of 'riesz prefer fit'
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of items with the columns of the model; a model of names alone needs none
    #[arg(value_hint = ValueHint::FilePath)]
    pub items: Option<PathBuf>,
    /// Goal of the duels: to learn the best item (with cycles the one that beats each other, or that there is
    /// none); the ranking, by the log odds of all pairs; or the number of cycles of three items
    #[arg(long, value_name = "GOAL", default_value = InformationGoal::NAMES[0], value_parser = goals())]
    pub goal: InformationGoal,
    /// Number of duels to suggest
    #[arg(long, value_name = "N", default_value = "1")]
    pub count: NonZeroUsize,
    /// Table of the duels that can be held, with the items' names [default: all pairs of items]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub candidates: Option<PathBuf>,
    /// Number of joint samples from the posterior [default: 10000 of utilities, fewer for more than 1,000
    /// items; 512 of all pairs, if the model allows cycles]
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// The context of the duels, column=value,column=value
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The user who judges, if the model was fitted with --users; an unknown name is a new user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Options for reading items.
    #[command(flatten)]
    pub item_options: ItemArgs,
    /// The sides of candidates.
    #[command(flatten)]
    pub sides: SideArgs,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

fn goals() -> impl TypedValueParser<Value = InformationGoal> {
    PossibleValuesParser::new(InformationGoal::NAMES).try_map(|name| InformationGoal::named(&name))
}

impl Args {
    /// Reads the duels that can be held.
    fn read_candidates(&self, names: &Names, console: &Console) -> Result<Option<Vec<Pair>>> {
        let Some(path) = &self.candidates else { return Ok(None) };
        let requested = RequestedColumns {
            sides: &self.sides,
            outcome: OutcomeColumns::Unread,
            home: None,
            contexts: ContextColumns::Nothing,
        };
        let duels = IndexedDuels::read(self.table.source(path).open()?, names, requested, console)?;
        Ok(Some(duels.left.into_iter().zip(duels.right).collect()))
    }
}

/// Reads the model and the items, and writes the suggested duels.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.text_or_table(args.output.as_deref())?;
    let (model, sides) = read_duel_model(&args.model, &args.cells)?;
    let saved = &model.best;
    let options = (&args.item_options, &args.table, args.cells);
    let items = items_of_model((&args.model, saved), &sides, args.items.as_ref(), options)?;
    let items = items.ok_or_else(|| {
        Failure::input(format!(
            "{}: the file does not hold the items' names: give the table of items too",
            args.model.display()
        ))
    })?;
    let context_columns: Vec<Column> =
        sides.contexts.iter().map(|&j| saved.model.columns()[j].clone()).collect();
    let context = context_cells(args.context.as_deref(), args.user.as_deref(), &context_columns)?;
    let rows = rows_of_items(&items, &saved.model)?;
    let request = SuggestionRequest {
        count: args.count.get(),
        candidates: args.read_candidates(&items.names, &console)?,
        draws: args.samples,
        seed: global.seed,
        ..SuggestionRequest::new(args.goal)
    };
    let drawn = request.progress.clone();
    let suggest = || request.suggest(&model.parts(), &rows, (!context.is_empty()).then_some(&context[..]));
    let suggestions = with_progress(&console, "drawing", &drawn, suggest)?;
    write(&suggestions, &items.names, args, format)
}

/// Writes suggestions as text or as a table.
fn write(suggestions: &[DuelSuggestion], names: &Names, args: &Args, format: Format) -> Result<()> {
    let path = args.output.as_deref();
    let item = |side: fn(Pair) -> usize| {
        Cells::Texts(suggestions.iter().map(|s| names.ids[side(s.pair)].clone()).collect())
    };
    let numbers = |number: fn(&DuelSuggestion) -> f64| suggestions.iter().map(number).collect::<Vec<f64>>();
    let sides = [("left", item(|pair| pair.0)), ("right", item(|pair| pair.1))];
    let columns = [
        ("information", numbers(|s| s.information)),
        ("std_error", numbers(|s| s.std_error)),
        ("probability", numbers(|s| s.probability)),
    ];
    if format == Format::Text {
        let rounded = |values: Vec<f64>| Cells::Texts(values.iter().map(|v| format!("{v:.4}")).collect());
        let columns = columns.map(|(name, values)| (name, rounded(values)));
        let text = text_table(&sides.into_iter().chain(columns).collect::<Vec<_>>());
        let meaning = "information: expected information of the outcome about the goal in bits; probability: \
                       that the left item wins";
        return write_all(path, format!("{text}\n{meaning}\n").as_bytes());
    }
    let columns = columns.map(|(name, values)| (name, Cells::Numbers(values)));
    TableWriter::write_columns(path, format, sides.into_iter().chain(columns).collect())
}

//! `riesz prefer choose`: predicts which item of a set is chosen.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::ValueHint;
use riesz::preference::{DEFAULT_CHOICE_DRAWS, choice_probabilities};

use super::model_items::{items_of_model, known_names, read_duel_model, rows_of_items};
use crate::args::{CellArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::choices::read_sets;
use crate::io::duels::ItemArgs;
use crate::io::write::{Cells, TableWriter};

/// Arguments of `prefer choose`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer choose m.riesz phones.csv shelves.csv          columns set and item
  riesz prefer choose m.riesz shelves.csv                     a model of names alone
  riesz prefer choose m.riesz phones.csv shelves.csv --columns shelf,phone -o shares.csv

The table has the columns set and item; probability that the item is among the chosen ones of its
set, averaged over the posterior; and std_error, its Monte Carlo standard error, which is 0 for sets
of two items. The model is one of duels or choices without ties as an outcome.")]
pub struct Args {
    /// Model file of 'riesz prefer fit'
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of items with the columns of the model; a model of names alone needs none
    #[arg(value_hint = ValueHint::FilePath)]
    pub items: PathBuf,
    /// Table of sets, with one row for each item of a set
    #[arg(value_hint = ValueHint::FilePath)]
    pub sets: Option<PathBuf>,
    /// Columns of the sets and of the items
    #[arg(long, value_name = "SET,ITEM", default_value = "set,item")]
    pub columns: String,
    /// Number of items that are chosen together from each set
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub chosen: usize,
    /// Number of joint samples from the posterior
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CHOICE_DRAWS)]
    pub samples: usize,
    /// Options for reading items.
    #[command(flatten)]
    pub item_options: ItemArgs,
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

/// Reads the model, the items and the sets, and writes the probabilities.
pub fn run(args: &Args, global: &Global, _console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let (model, sides) = read_duel_model(&args.model, &args.cells)?;
    let saved = &model.best;
    let has_names = known_names(&saved.model, &sides).is_some();
    let (table, sets) = match &args.sets {
        Some(sets) => (Some(&args.items), sets),
        None if has_names => (None, &args.items),
        None => {
            let reason = "there is no table of sets: give the table of items, and that of sets";
            return Err(Failure::input(reason));
        }
    };
    let options = (&args.item_options, &args.table, args.cells);
    let items = items_of_model((&args.model, saved), &sides, table, options)?
        .ok_or_else(|| Failure::input("there is no table of items: give one with the model's columns"))?;
    let named_sets = read_sets(sets, &args.columns, &args.table)?;
    let index_of = |item: &String| items.names.index_of(item);
    let indices = named_sets.iter().map(|(_, set)| set.iter().map(index_of).collect::<Result<Vec<_>>>());
    let indices = indices.collect::<Result<Vec<_>>>()?;
    let rows = rows_of_items(&items, &saved.model)?;
    let stop = AtomicBool::new(false);
    let (sets, sampling) = ((&indices[..], args.chosen), (args.samples, global.seed));
    let predictions = choice_probabilities(&model.parts(), &rows, sets, sampling, &stop)?;
    let set_names = named_sets.iter().flat_map(|(name, set)| std::iter::repeat_n(name.clone(), set.len()));
    let item_names = named_sets.iter().flat_map(|(_, set)| set.iter().cloned());
    let columns = vec![
        ("set", Cells::Texts(set_names.collect())),
        ("item", Cells::Texts(item_names.collect())),
        ("probability", Cells::Numbers(predictions.iter().flat_map(|p| p.probability.clone()).collect())),
        ("std_error", Cells::Numbers(predictions.iter().flat_map(|p| p.std_error.clone()).collect())),
    ];
    TableWriter::write_columns(args.output.as_deref(), format, columns)
}

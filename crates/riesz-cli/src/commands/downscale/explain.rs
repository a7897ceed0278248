//! `riesz downscale explain`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz_report::explain_map;

use super::map_rows::{RowOptions, background_of, read_bags, rows_of, unit_of, warn_of_weights};
use crate::args::{CellArgs, FeatureArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::explain_run::Certificate;
use crate::io::models::read_average;
use crate::io::write::{Cells, TableWriter};

/// The columns of the table other than the features.
const FIXED_COLUMNS: [&str; 3] = ["bag", "base_value", "prediction"];

/// Arguments of `downscale explain`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz downscale explain m.riesz rows.csv --bag district --weight people
  riesz downscale explain m.riesz rows.csv --bag district --weight people --background rows.csv -o why.csv

The table has one line per bag: bag, base_value, one column per feature with its exact Shapley
values, and prediction, which is the sum of base value and values. As values are linear in the map,
those of a bag are the weighted means of the values of its rows, or their sums for a map of sums.
For counts they are means on the scale of the log rate or the log odds. 'riesz explain' explains
single rows. Exit code 1: a residual exceeds its proved bound.")]
pub struct Args {
    /// Model file of 'riesz downscale fit', or of another model with one output
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Column of rows with the names of their bags
    #[arg(long, value_name = "COL")]
    pub bag: String,
    /// Column of positive weights of rows (area, people) [default: all 1]
    #[arg(long, value_name = "COL", visible_alias = "exposure")]
    pub weight: Option<String>,
    /// Aggregate rows to bags by weighted sums instead of means, even if the model file does not say so
    #[arg(long)]
    pub sum: bool,
    /// Table of rows from which absent features take their values [default: they leave the model, as in the
    /// functional game]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub background: Option<PathBuf>,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// Explains the rows, and writes the explanations of the bags.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let rows = args.table.source(&args.rows).open()?;
    let read = read_average(&args.model, Some(&rows), &FeatureArgs::default())?.admitted(&args.cells)?;
    let (saved, model) = (&read.best, &read.best.model);
    if model.outputs() != 1 {
        return Err(Failure::input(format!(
            "{} has {} outputs, and bags are explained for a map, which has one output: use 'riesz explain'",
            args.model.display(),
            model.outputs()
        )));
    }
    let unit = unit_of(model, args.sum)?;
    warn_of_weights(model, args.weight.as_ref(), &console);
    let options = RowOptions { table: &args.table, cells: args.cells, console: &console };
    let (columns, table, _) = rows_of(saved, rows, (&[&args.bag], args.weight.as_ref()), options)?;
    let members = read_bags(&columns, &args.bag, args.weight.as_ref())?;
    let background = background_of(saved, args.background.as_deref(), options)?;
    let progress = console.progress("explaining");
    let models = read.parts().into_iter().map(|part| (part.weight, part.model));
    let explanation = members.explained(&explain_map(models, &table, background.as_ref())?, unit)?;
    drop(progress);
    let named = |name: String| match FIXED_COLUMNS.contains(&&name[..]) || name.starts_with("feature:") {
        true => format!("feature:{name}"),
        false => name,
    };
    let names: Vec<String> = (0..explanation.sets()).map(|k| named(explanation.set_name(k))).collect();
    let mut cells = vec![
        (FIXED_COLUMNS[0], Cells::Texts(members.names)),
        (FIXED_COLUMNS[1], Cells::Numbers(explanation.base_values.clone())),
    ];
    let column = |k: usize| explanation.values.iter().skip(k).step_by(explanation.sets()).copied().collect();
    cells.extend(names.iter().enumerate().map(|(k, name)| (&name[..], Cells::Numbers(column(k)))));
    cells.push((FIXED_COLUMNS[2], Cells::Numbers(explanation.predictions.clone())));
    TableWriter::write_columns(args.output.as_deref(), format, cells)?;
    let mut certificate = Certificate::default();
    certificate.include(&explanation);
    console.note(format!(
        "{} bags of {} rows explained; {}",
        explanation.rows(),
        table.rows(),
        certificate.description()
    ));
    certificate.check()
}

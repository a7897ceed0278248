//! `riesz downscale predict`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueHint;
use riesz::format::model::SavedModel;
use riesz::model_average::{self, ModelPart};
use riesz::{Posterior, PosteriorCovariance};

use super::benchmark::{self, BenchmarkArgs};
use super::map_rows::{RowOptions, labels, rows_of};
use crate::args::{CellArgs, FeatureArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::input::OpenTable;
use crate::io::model_rows::ModelRows;
use crate::io::models::{ModelOrAverage, read_average};
use crate::io::write::{Cells, TableWriter, row_labels};
use crate::rates;

/// Arguments of `downscale predict`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz downscale predict m.riesz rows.csv -o map.csv
  riesz downscale predict m.riesz elsewhere.parquet -o elsewhere.parquet
  riesz downscale predict m.riesz rows.csv --samples 100 -o draws.parquet
  riesz downscale predict m.riesz rows.csv --bags bags.csv --bag district --target cases --weight people

As 'riesz predict --std', with 95 % intervals. The columns are row, TARGET, TARGET_std, TARGET_low
and TARGET_high, without the noise of rows or targets. For a model of sums they are per unit of
weight. For a model of counts the columns are row, rate (its posterior mean), rate_median, rate_low
and rate_high, and log_rate and log_rate_std, the scale of explanations; for successes among trials
they are named by probability and log_odds. With --samples the table has one line per row and draw:
row, sample (from 0), and the map. With --bags, for counts of events, column rate_benchmarked has the
rates rescaled in each bag so that its expected events equal its count.")]
pub struct Args {
    /// Model file of 'riesz downscale fit', or of another regression with its posterior
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input; columns that the model does not know are ignored
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Write N joint draws of the map at all rows from its posterior instead, drawn with --seed
    #[arg(long, value_name = "N", conflicts_with = "bags")]
    pub samples: Option<NonZeroUsize>,
    /// Counts of bags to which rates are benchmarked.
    #[command(flatten)]
    pub benchmark: BenchmarkArgs,
    /// Column of rows with their names, which the result has in place of row numbers
    #[arg(long, value_name = "COL")]
    pub id: Option<String>,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading the table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// The posterior of a map, which is a regression with one output; for an average the posterior of each model
/// with its weight.
pub fn posteriors_of<'s>(read: &'s ModelOrAverage, file: &str) -> Result<Vec<(f64, Posterior<'s>)>> {
    let is_map = |part: &ModelPart<'_>| {
        let is_of_data = part.covariance.is_some_and(PosteriorCovariance::is_of_data);
        is_of_data && part.model.classes.is_empty() && part.model.outputs() == 1
    };
    let parts = read.parts();
    let posteriors = if parts.iter().all(is_map) { model_average::posteriors(&parts)? } else { None };
    posteriors.ok_or_else(|| {
        Failure::input(format!(
            "{file} is not a map with a posterior, as 'riesz downscale fit' writes it: 'riesz predict' takes \
             other models"
        ))
    })
}

/// Predicts the rows in chunks.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let rows = args.table.source(&args.rows).open()?;
    let read = read_average(&args.model, Some(&rows), &FeatureArgs::default())?.admitted(&args.cells)?;
    let (saved, posteriors) = (&read.best, posteriors_of(&read, &args.model.display().to_string())?);
    let options = RowOptions { table: &args.table, cells: args.cells, console: &console };
    if let Some(count) = args.samples {
        return draws(args, (saved, &posteriors), rows, (count.get(), global), options);
    }
    if args.benchmark.bags.is_some() {
        let model = (saved, &args.model.display().to_string()[..]);
        let columns =
            benchmark::columns(&args.benchmark, model, &posteriors, (rows, args.id.as_ref()), options)?;
        let columns = columns.iter().map(|(name, cells)| (&name[..], cells.clone())).collect();
        return TableWriter::write_columns(args.output.as_deref(), format, columns);
    }
    let (model, policy) = (&saved.model, args.cells.for_model(&saved.model.support_points)?);
    let mut rows = ModelRows::new(rows, model.columns(), policy, model.columns().len() + 6)?
        .with_names_from(args.id.as_ref())?;
    let names = rates::column_names(model, &model.output_names[0]);
    let mut writer: Option<TableWriter> = None;
    let progress = console.progress("predicting");
    let mut done = 0;
    while let Some(table) = rows.next()? {
        let about = |e| Failure::from(e).about(&args.rows.display().to_string());
        let cells = rates::predictions(&posteriors, &table);
        let (row_names, row_numbers) = rows.labels();
        let (label, labels) = row_labels(row_names, row_numbers);
        let numbers = cells.map_err(about)?.into_iter().map(Cells::Numbers);
        let cells: Vec<Cells> = [labels].into_iter().chain(numbers).collect();
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let titles = [label].into_iter().chain(names.clone()).collect();
                let empty = cells.iter().map(Cells::empty).collect();
                none.insert(TableWriter::open(args.output.as_deref(), format, titles, empty)?)
            }
        };
        writer.rows(cells)?;
        done += table.rows();
        progress.say(format!("{done} rows predicted"));
    }
    rows.facts().iter().for_each(|fact| console.note(format!("note: {}", fact.value)));
    writer.map_or(Ok(()), TableWriter::finish)
}

/// Writes joint draws of the map at all rows; of the rate or probability for counts.
fn draws(
    args: &Args,
    (saved, posteriors): (&SavedModel, &[(f64, Posterior<'_>)]),
    rows: OpenTable,
    (count, global): (usize, &Global),
    options: RowOptions<'_>,
) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let model = &saved.model;
    let further: Vec<&String> = args.id.iter().collect();
    let (columns, table, _) = rows_of(saved, rows, (&further, None), options)?;
    let (label, labels) = labels(&columns, args.id.as_ref(), table.rows())?;
    let samples = model_average::sample(posteriors, &table, count, global.seed)?;
    let name = match rates::counted(model) {
        Some([rate, _]) => rate.to_string(),
        None => model.output_names[0].clone(),
    };
    let natural = |v: f64| if rates::counted(model).is_some() { model.link.inverse_link(v) } else { v };
    let lines = || (0..table.rows()).flat_map(|i| (0..count).map(move |d| (i, d)));
    let values = lines().map(|(i, d)| natural(samples[0][(i, d)])).collect();
    let columns = vec![
        (&label[..], labels.repeated(count)),
        ("sample", Cells::Integers(lines().map(|(_, d)| d as i64).collect())),
        (&name[..], Cells::Numbers(values)),
    ];
    TableWriter::write_columns(args.output.as_deref(), format, columns)
}

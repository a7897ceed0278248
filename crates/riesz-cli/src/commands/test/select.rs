//! `riesz test select`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::discrepancy::FactorKind;
use riesz::discrepancy::feature_ranking::{Method, rank};

use crate::args::{Global, RowArgs, TableArgs, factors};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::names::listed_columns;
use crate::io::write::{Cells, TableWriter};

/// Arguments of `test select`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz test select data.csv --target y
  riesz test select data.csv --target y --features-to-select 10 -o best.csv
  riesz test select data.csv --target y --features-to-select 10 --method lasso

The result is a table with the columns rank, feature and score, best first.")]
pub struct Args {
    /// Table with a header row, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub data: PathBuf,
    /// Column or columns for which features are selected
    #[arg(long, value_name = "COL,…", required = true)]
    pub target: Vec<String>,
    /// Number of features to select [default: all]
    #[arg(long, value_name = "N")]
    pub features_to_select: Option<usize>,
    /// Selection by Shapley values of HSIC, by backward elimination (BAHSIC), or by HSIC-Lasso
    #[arg(long, value_name = "WAY", default_value = "shapley",
        value_parser = clap::builder::PossibleValuesParser::new(riesz::discrepancy::feature_ranking::Method::NAMES))]
    pub method: String,
    /// Kernel factors for Shapley values: orthogonal ones, with which no feature hides another, or those of
    /// the kernel itself, as published
    #[arg(long, value_name = "WHICH", default_value = FactorKind::NAMES[0], value_parser = factors())]
    pub kernel_factors: FactorKind,
    /// Columns to leave out
    #[arg(long, value_name = "COL,…")]
    pub ignore: Vec<String>,
    /// Columns whose numbers are codes of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
    /// Treatment of rows with missing cells.
    #[command(flatten)]
    pub rows: RowArgs,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading the table.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Ranks the features and writes their names and scores.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let rows = args.rows.apply_to(args.table.source(&args.data)).open()?;
    let (name, header) = (rows.name.clone(), rows.header().to_vec());
    let args = &Args {
        target: listed_columns(&args.target, &header),
        ignore: listed_columns(&args.ignore, &header),
        categorical: listed_columns(&args.categorical, &header),
        ..args.clone()
    };
    rows.column_indices(args.target.iter().chain(&args.ignore).chain(&args.categorical))?;
    let features: Vec<String> =
        header.iter().filter(|c| !args.target.contains(c) && !args.ignore.contains(c)).cloned().collect();
    if features.is_empty() {
        return Err(Failure::input(format!("{name}: no column is left as a feature; ignore fewer columns")));
    }
    let count = args.features_to_select.unwrap_or(features.len());
    if count == 0 || count > features.len() {
        return Err(Failure::input(format!(
            "--features {count}: give a number from 1 to {}, the number of features",
            features.len()
        )));
    }
    let method = Method::named(&args.method)
        .ok_or_else(|| Failure::input(format!("there is no method '{}'", args.method)))?;
    let column_names: Vec<String> = features.iter().chain(&args.target).cloned().collect();
    let columns = Columns::read(rows, &column_names)?;
    let x = columns.table(&features, &args.categorical, &console)?;
    let y = columns.table(&args.target, &args.categorical, &console)?;
    let progress = console.progress(&format!("ranking {} features by {} rows", x.width(), x.rows()));
    let ranking = rank(&x, &y, method, args.kernel_factors, None, None, count)?;
    drop(progress);
    let best = &ranking.order[..count];
    let names = ["rank", "feature", "score"].map(String::from).to_vec();
    let example = vec![Cells::Integers(Vec::new()), Cells::Texts(Vec::new()), Cells::Numbers(Vec::new())];
    let mut table = TableWriter::open(args.output.as_deref(), format, names, example)?;
    table.rows(vec![
        Cells::Integers((1..=count as i64).collect()),
        Cells::Texts(best.iter().map(|&j| features[j].clone()).collect()),
        Cells::Numbers(best.iter().map(|&j| ranking.scores[j]).collect()),
    ])?;
    table.finish()
}

//! `riesz plot`.

use std::path::PathBuf;

use clap::ValueHint;
use clap::builder::{PossibleValue, PossibleValuesParser};
use riesz::Explanation;
use riesz::error::listed;
use riesz_report::{PLOTS, Plot, PlotOptions, Shows, Theme, render};

use crate::args::{Format, Global, TableArgs};
use crate::exit::{Failure, Result};
use crate::io::models::read_explanation;
use crate::io::picture::{in_pixels, write_picture};

/// Arguments of `plot`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz plot beeswarm why.json -o why.svg
  riesz plot waterfall why.json --row 3 -o row3.png
  riesz plot beeswarm why.parquet rows.csv -o why.svg
  riesz plot network pairs.json -o pairs.svg
  riesz plot dependence why.json --feature bmi --color-by age -o bmi.svg --dark")]
pub struct Args {
    /// Kind of plot
    #[arg(value_parser = PossibleValuesParser::new(PLOTS.map(|plot| PossibleValue::new(plot.name).help(plot.help))))]
    pub plot: String,
    /// Explanation written by 'riesz explain': JSON, or a table of values (CSV, Parquet)
    #[arg(value_hint = ValueHint::FilePath)]
    pub explanation: PathBuf,
    /// With a table of values: the rows that were explained, for their feature values
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: Option<PathBuf>,
    /// With a table of values: columns of the rows whose numbers are codes of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Output of the model to show, by name or number from 0
    #[arg(long, value_name = "OUTPUT", default_value = "0")]
    pub show: String,
    /// Row to show, from 0: in waterfall and force plots [default: 0], and in interactions and network plots
    /// [default: all]
    #[arg(long, value_name = "N")]
    pub row: Option<usize>,
    /// Player of dependence plots [default: the most important one]
    #[arg(long, value_name = "NAME")]
    pub feature: Option<String>,
    /// Player whose feature value colours dependence plots
    #[arg(long, value_name = "NAME")]
    pub color_by: Option<String>,
    /// Largest number of features shown by name
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub max_display: usize,
    /// Width in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 720)]
    pub width: u32,
    /// Draw light lines and text on a dark background
    #[arg(long)]
    pub dark: bool,
    /// Picture to write, .svg or .png [default: SVG on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Draws a plot of an explanation.
pub fn run(args: &Args, global: &Global) -> Result<()> {
    let pixels = match (global.format, args.output.as_deref()) {
        (Some(Format::Png), _) => true,
        (Some(Format::Svg), _) | (None, None) => false,
        (Some(_), _) => return Err(Failure::input("plots have two formats: give --format svg or png")),
        (None, Some(path)) if path.extension().is_none() => false,
        (None, Some(path)) => in_pixels(path)?,
    };
    let rows = args.rows.as_deref().map(|path| args.table.source(path).open()).transpose()?;
    let explanation = read_explanation(&args.explanation, rows, &args.categorical)?;
    let kind = Plot::named(&args.plot)?;
    let row = row(&explanation, args.row, kind)?;
    let explanation = match (kind.shows, args.row) {
        (Shows::Interactions, Some(_)) => explanation.select_rows(&[row]),
        _ => explanation,
    };
    let find = |name: &Option<String>| name.as_deref().map(|n| player(&explanation, n)).transpose();
    let options = PlotOptions {
        output: output(&explanation, &args.show)?,
        row: if kind.shows == Shows::OneRow { row } else { 0 },
        player: find(&args.feature)?,
        color_by: find(&args.color_by)?,
        max_display: args.max_display,
        theme: if args.dark { Theme::Dark } else { Theme::Light },
        width: args.width,
    };
    let picture = render(&explanation, kind, &options)?;
    write_picture(args.output.as_deref(), picture, pixels)
}

fn output(explanation: &Explanation, output: &str) -> Result<usize> {
    let names = &explanation.output_names;
    let index = names.iter().position(|n| n == output);
    index.or_else(|| output.parse().ok().filter(|&o: &usize| o < names.len())).ok_or_else(|| {
        Failure::input(format!("there is no output '{output}'; the outputs are: {}", listed(names)))
    })
}

/// The position in the explanation of the requested row, by default row 0.
fn row(explanation: &Explanation, requested: Option<usize>, kind: &Plot) -> Result<usize> {
    let row_number = requested.unwrap_or(0);
    let position = explanation.row_numbers.iter().position(|&row| row == row_number);
    let is_required =
        kind.shows == Shows::OneRow || (kind.shows == Shows::Interactions && requested.is_some());
    match position {
        Some(position) => Ok(position),
        None if !is_required => Ok(0),
        None => {
            let (first, highest) =
                (explanation.row_numbers.iter().min(), explanation.row_numbers.iter().max());
            let range =
                first.zip(highest).map_or_else(String::new, |(a, b)| format!("; they go from {a} to {b}"));
            Err(Failure::input(format!("--row {row_number}: the explanation has no such row{range}")))
        }
    }
}

fn player(explanation: &Explanation, player: &str) -> Result<usize> {
    let names: Vec<String> = (0..explanation.sets()).map(|k| explanation.set_name(k)).collect();
    names.iter().position(|name| name == player).ok_or_else(|| {
        Failure::input(format!("there is no feature '{player}'; the features are: {}", listed(&names)))
    })
}

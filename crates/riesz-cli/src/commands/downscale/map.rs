//! `riesz downscale map`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::expansion::Link;
use riesz::{Explainer, Rates, Table};
use riesz_report::{PlotOptions, render_map};

use super::predict::posterior_of;
use crate::args::{Global, TableArgs};
use crate::commands::importance::typed;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::models::read_model;
use crate::io::picture::{drawn, in_pixels};
use crate::io::typing::Columns;

/// Arguments of `downscale map`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz downscale map m.riesz rows.csv --x longitude --y latitude -o rate.png
  riesz downscale map m.riesz rows.csv --x longitude --y latitude --of sd -o sure.svg
  riesz downscale map m.riesz rows.csv --x longitude --y latitude --of rain -o rain.png
  riesz downscale map m.riesz rows.csv --x east --y north --of rain --background rows.csv -o r.png")]
pub struct Args {
    /// Model file of 'riesz downscale fit'
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Column of rows with their places from left to right
    #[arg(long, value_name = "COL")]
    pub x: String,
    /// Column of rows with their places from bottom to top
    #[arg(long, value_name = "COL")]
    pub y: String,
    /// What is drawn: the map, its standard deviation, or the exact Shapley values of a feature; of counts the rate's mean, and the others of its logarithm
    #[arg(long, value_name = "mean|sd|FEATURE", default_value = "mean")]
    pub of: String,
    /// (--of FEATURE) Table of rows from which absent features take their values [default: they leave the model, as in the functional game]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub background: Option<PathBuf>,
    /// Picture to write, .svg or .png
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Reads, computes and draws.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let Some(path) = args.output.as_deref() else {
        return Err(Failure::input("say where to write the picture: -o FILE, .svg or .png"));
    };
    in_pixels(path)?;
    if global.format.is_some() {
        return Err(Failure::input("the name of the picture says its format: leave --format out"));
    }
    let rows = args.table.source(&args.rows).open()?;
    let saved = read_model(&args.model, rows.header())?;
    let posterior = posterior_of(&saved, &args.model.display().to_string())?;
    let model = &saved.model;
    let known: Vec<String> = model.columns().iter().map(|c| c.name.clone()).collect();
    let feature = match &args.of[..] {
        "mean" | "sd" => None,
        name => Some(known.iter().position(|own| own == name).ok_or_else(|| {
            let known = riesz::error::listed(&known);
            Failure::input(format!("--of {name}: it is mean, sd or a feature of the map; these are: {known}"))
        })?),
    };
    if feature.is_none() && args.background.is_some() {
        let why = format!("--of {} has no use for --background: leave it out, or name a feature", args.of);
        return Err(Failure::input(why));
    }
    let mut wanted = known.clone();
    wanted.extend([&args.x, &args.y].into_iter().filter(|name| !known.contains(name)).cloned());
    let columns = Columns::read(rows, &wanted)?;
    let places = [columns.numbers(&args.x)?, columns.numbers(&args.y)?];
    let table = typed(&columns, &saved, &console)?.conform(model.columns())?;
    let background = args.background.as_deref().map(|path| -> Result<Table> {
        let columns = Columns::read(args.table.source(path).open()?, &known)?;
        Ok(typed(&columns, &saved, &console)?.conform(model.columns())?)
    });
    let progress = console.progress("computing the map");
    let (values, title) = match (feature, background.transpose()?) {
        (None, _) if args.of == "sd" => {
            (posterior.sd(&table)?.column(0), format!("sd of {}", model.output_names[0]))
        }
        (None, _) if matches!(model.link, Link::Log | Link::Logit) => {
            let what = if model.link == Link::Log { "rate" } else { "probability" };
            (Rates::of(&posterior, &table, 0.0)?.mean, what.into())
        }
        (None, _) => (model.predict(&table)?.column(0), model.output_names[0].clone()),
        (Some(j), background) => {
            let explainer = match &background {
                Some(background) => Explainer::interventional(model, background)?,
                None => Explainer::functional(model)?,
            };
            let found = explainer.explain(&table)?;
            let each = found.players.len();
            let values = found.values.iter().skip(j).step_by(each).copied().collect();
            (values, format!("value of {}", found.players[j].name))
        }
    };
    drop(progress);
    let [x, y] = &places;
    drawn(path, &render_map([x, y], &values, [&args.x, &args.y], &title, &PlotOptions::default())?)
}

//! `riesz downscale map`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::KernelExpansion;
use riesz_report::{MapQuantity, PlotOptions, map_values, render_map};

use super::map_rows::{Locations, MapData, RowOptions, background_of, facts, rows_of};
use super::predict::posteriors_of;
use super::report::{self, PageArgs};
use crate::args::{CellArgs, FeatureArgs, Format, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::geojson::areas_of_rows;
use crate::io::models::read_average;
use crate::io::picture::drawn;
use crate::output_format::MAPS;

/// Arguments of `downscale map`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz downscale map m.riesz rows.csv --x longitude --y latitude -o rate.png
  riesz downscale map m.riesz rows.csv --x longitude --y latitude --of std -o uncertainty.svg
  riesz downscale map m.riesz rows.csv --x longitude --y latitude --of rain -o rain.png
  riesz downscale map m.riesz rows.csv --x east --y north --of rain --background rows.csv -o r.png
  riesz downscale map m.riesz areas.csv --geojson areas.geojson --id area -o map.html
  riesz downscale map m.riesz rows.csv --x east --y north -o map.html
  riesz downscale map m.riesz rows.csv --x east --y north --bag district --weight people -o map.html
  riesz downscale map m.riesz rows.csv --x east --y north --bag district --weight people \\
    --bags bags.csv --target rate -o map.html

A page (.html) shows the map, its standard deviation, the exact Shapley values of each feature and
the feature with the largest value at each row; with --bag also a table of bags with their
explanations.")]
pub struct Args {
    /// Model file of 'riesz downscale fit'
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Column of rows with the horizontal coordinate
    #[arg(long, value_name = "COL", required_unless_present = "geojson", requires = "y")]
    pub x: Option<String>,
    /// Column of rows with the vertical coordinate
    #[arg(long, value_name = "COL", requires = "x")]
    pub y: Option<String>,
    /// GeoJSON file with the polygons of the rows, which are then drawn as areas: longitudes and latitudes in
    /// the equirectangular projection, or coordinates in a plane
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "id", conflicts_with = "x")]
    pub geojson: Option<PathBuf>,
    /// (--geojson) Column of rows with the names of their areas, which the features of the file have as a
    /// property of the same name
    #[arg(long, value_name = "COL", requires = "geojson")]
    pub id: Option<String>,
    /// Quantity to draw: the map, its standard deviation, or the exact Shapley values of a feature; for
    /// counts the map is the mean rate, and the others are on the scale of its logarithm [default: mean]
    #[arg(long = "of", value_name = "mean|std|FEATURE")]
    pub quantity: Option<String>,
    /// (--of FEATURE, pages) Table of rows from which absent features take their values [default: they leave
    /// the model, as in the functional game]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub background: Option<PathBuf>,
    /// Picture or page to write, .svg, .png or .html
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = MAPS.parser())]
    pub output: Option<PathBuf>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
    /// Options of pages.
    #[command(flatten)]
    pub page: PageArgs,
    /// Hides the global option of this name: the extension of the output determines the format.
    #[arg(long, value_enum, hide = true)]
    pub format: Option<Format>,
    /// Hides the global option of this name.
    #[arg(long, hide = true)]
    pub json: bool,
}

/// Computes the requested quantity and draws it, or writes a page.
pub fn run(args: &Args, console: Console) -> Result<()> {
    let Some(path) = args.output.as_deref() else {
        return Err(Failure::input(
            "no output file is given: give -o FILE, with the ending .svg, .png or .html",
        ));
    };
    let is_page = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("html") || end.eq_ignore_ascii_case("htm"));
    if args.format.is_some() || args.json {
        return Err(Failure::input(
            "the ending of the output file determines the format: leave --format and --json out",
        ));
    }
    match (is_page, &args.quantity, args.page.first_given()) {
        (true, Some(quantity), _) => {
            return Err(Failure::input(format!(
                "--of {quantity} chooses what a picture shows, and a page shows everything: leave it out"
            )));
        }
        (false, _, Some(option)) => {
            return Err(Failure::input(format!(
                "{option} is an option of pages: leave it out, or give -o FILE.html"
            )));
        }
        _ => {}
    }
    let rows = args.table.source(&args.rows).open()?;
    let read = read_average(&args.model, Some(&rows), &FeatureArgs::default())?.admitted(&args.cells)?;
    let (saved, posteriors) = (&read.best, posteriors_of(&read, &args.model.display().to_string())?);
    let quantity = args.quantity.as_deref().unwrap_or("mean");
    let shown = quantity_of(quantity, &saved.model)?;
    if !matches!(shown, MapQuantity::Feature(_)) && args.background.is_some() && !is_page {
        let reason = format!("--of {quantity} does not use --background: leave it out, or name a feature");
        return Err(Failure::input(reason));
    }
    let further: Vec<&String> = args.x.iter().chain(&args.y).chain(&args.id).chain(&args.page.bag).collect();
    let options = RowOptions { table: &args.table, cells: args.cells, console: &console };
    let (columns, table, treated) = rows_of(saved, rows, (&further, args.page.weight.as_ref()), options)?;
    let (locations, axes) = args.locations(&columns, &console)?;
    let background = background_of(saved, args.background.as_deref(), options)?;
    let map_data = MapData { columns, table, locations, axes, background, facts: treated };
    if is_page {
        let files = facts(&args.model, &args.rows, args.background.as_ref())?;
        return report::run(path, &args.page, (&map_data, files), (&posteriors, &args.table), &console);
    }
    let progress = console.progress("computing the map");
    let (values, title) = map_values(shown, &posteriors, &map_data.table, map_data.background.as_ref())?;
    drop(progress);
    let (axes, options) = (map_data.axes.each_ref().map(String::as_str), PlotOptions::default());
    drawn(path, render_map(map_data.locations.places(), &values, axes, &title, &options)?)
}

impl Args {
    /// The points or areas of the rows, and the names of their coordinates.
    fn locations(&self, columns: &Columns, console: &Console) -> Result<(Locations, [String; 2])> {
        match (&self.geojson, &self.id, &self.x, &self.y) {
            (Some(path), Some(id), ..) => {
                let row_areas = areas_of_rows(path, columns, id, console)?;
                let axes = row_areas.axes().map(String::from);
                Ok((Locations::Areas(row_areas.areas), axes))
            }
            (_, _, Some(x), Some(y)) => {
                Ok((Locations::Points([columns.numbers(x)?, columns.numbers(y)?]), [x.clone(), y.clone()]))
            }
            _ => Err(Failure::input(
                "a map needs coordinates: give --x and --y, or --geojson FILE with --id COL",
            )),
        }
    }
}

/// The mean, the standard deviation, or the feature of this name.
fn quantity_of(name: &str, model: &KernelExpansion) -> Result<MapQuantity> {
    match name {
        "mean" => return Ok(MapQuantity::Mean),
        "std" => return Ok(MapQuantity::Std),
        _ => {}
    }
    let feature_names: Vec<&String> = model.columns().iter().map(|c| &c.name).collect();
    match feature_names.iter().position(|known_name| *known_name == name) {
        Some(position) => Ok(MapQuantity::Feature(position)),
        None => {
            let feature_names = riesz::error::listed(&feature_names);
            Err(Failure::input(format!(
                "--of {name} is neither mean, std nor a feature of the map; the features are: {feature_names}"
            )))
        }
    }
}

//! `riesz effects`.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::Background;
use riesz::global::{AverageComponents, Curve};
use riesz::table::Player;
use riesz_report::{PlotOptions, render_component};

use crate::args::{CellArgs, FeatureArgs, Format, Global, TableArgs};
use crate::commands::importance::rows_for_model;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::models::read_average;
use crate::io::picture::write_picture;
use crate::io::write::{Cells, TableWriter};
use crate::question_args::read_groups;

/// Arguments of `effects`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz effects m.riesz train.csv                             the component of each feature, as a table
  riesz effects m.riesz train.csv --of age -o age.svg         a curve, with a band if the file has a posterior
  riesz effects m.riesz train.csv --of age,bmi -o both.png    a surface: the interaction of two features
  riesz effects m.riesz train.csv --of age --of age,bmi -o parts.csv

The model's output is the sum of its mean, a component of each feature, a component of each pair,
and so on (functional ANOVA). Each component has mean 0 along each of its features. Features are
taken as independent, each distributed as in the rows. The components are exact. The table has the
columns component, output, x, x_2 (for pairs), value, and std (for a model with a posterior). The
components of an average over hyper-parameters are means over its models.")]
pub struct Args {
    /// Model file (riesz, or LIBSVM)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows that define the distributions of the features, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// A feature, or two; repeat the option for more components [default: each feature alone]
    #[arg(long = "of", value_name = "FEATURE[,FEATURE]")]
    pub components: Vec<String>,
    /// Columns that count as one feature, 'blood=s1,s2;body=bmi', or a file with one group per line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Output to draw, by name [default: the first]
    #[arg(long, value_name = "NAME")]
    pub output_name: Option<String>,
    /// Where to write the result: a picture of one component (.svg, .png), or a table (.csv, .parquet, .json)
    /// [default: CSV on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading the table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Information that LIBSVM files do not contain.
    #[command(flatten)]
    pub features: FeatureArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// Computes the components and writes them as a picture or a table.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let path = args.output.as_deref();
    let pixels = picture(global, path);
    let rows = args.features.open(&args.table, &args.rows)?;
    let model = read_average(&args.model, Some(&rows), &args.features)?.admitted(&args.cells)?;
    let saved = &model.best;
    let names: Vec<String> = saved.model.columns().iter().map(|c| c.name.clone()).collect();
    let (x, _) = rows_for_model(&Columns::read(rows, &names)?, saved, args.cells, &console)?;
    let groups = args.groups.as_deref().map(|text| read_groups(text, saved.model.columns())).transpose()?;
    let inputs = Background::from(x.clone());
    let groups = groups.as_ref().or(saved.groups.as_ref());
    let components = AverageComponents::new(&model.parts(), &inputs, groups)?;
    let sets = sets(args, components.players())?;
    let progress = console.progress("computing components");
    let curves =
        sets.iter().map(|set| Ok(components.curve_along(set, &x)?)).collect::<Result<Vec<Curve>>>()?;
    drop(progress);
    let Some(pixels) = pixels else { return table(path, global, components.players(), &sets, &curves) };
    let [curve] = &curves[..] else {
        return Err(Failure::input(format!(
            "a picture shows one component, and these are {}: choose one, as in --of {}",
            curves.len(),
            components.players()[0].name
        )));
    };
    let output = match &args.output_name {
        None => 0,
        Some(name) => {
            curve.output_names.iter().position(|output_name| output_name == name).ok_or_else(|| {
                Failure::input(format!(
                    "there is no output '{name}'; the outputs are: {}",
                    curve.output_names.join(", ")
                ))
            })?
        }
    };
    let picture = render_component(curve, &PlotOptions { output, ..PlotOptions::default() })?;
    write_picture(path, picture, pixels)
}

/// Whether the picture is in pixels; `None` if no picture is requested.
fn picture(global: &Global, path: Option<&Path>) -> Option<bool> {
    let extension = path.and_then(Path::extension).map(|e| e.to_string_lossy().to_ascii_lowercase());
    match (global.format, extension.as_deref()) {
        (Some(Format::Svg), _) | (None, Some("svg")) => Some(false),
        (Some(Format::Png), _) | (None, Some("png")) => Some(true),
        _ => None,
    }
}

/// The requested components, each as the indices of its features.
fn sets(args: &Args, players: &[Player]) -> Result<Vec<Vec<usize>>> {
    if args.components.is_empty() {
        let single: Vec<Vec<usize>> =
            (0..players.len()).filter(|&j| players[j].columns.len() <= 2).map(|j| vec![j]).collect();
        return if single.is_empty() {
            Err(Failure::input(
                "no feature consists of one or two columns, so there is no curve or surface to compute: \
                 change --groups",
            ))
        } else {
            Ok(single)
        };
    }
    let feature_list = || players.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
    let number = |name: &str| {
        let position = players.iter().position(|p| p.name == name);
        position.ok_or_else(|| {
            Failure::input(format!("there is no feature '{name}'; the features are: {}", feature_list()))
        })
    };
    let set = |text: &String| {
        // A feature's name may hold a comma.
        let mut columns = match number(text) {
            Ok(j) => vec![j],
            Err(_) => text.split(',').map(|name| number(name.trim())).collect::<Result<Vec<_>>>()?,
        };
        columns.sort_unstable();
        columns.dedup();
        Ok(columns)
    };
    args.components.iter().map(set).collect()
}

fn table(
    path: Option<&Path>,
    global: &Global,
    players: &[Player],
    sets: &[Vec<usize>],
    curves: &[Curve],
) -> Result<()> {
    let format = global.table_format(path)?;
    let numeric = curves.iter().all(|curve| curve.axes.iter().all(|axis| axis.levels.is_none()));
    let pairs = curves.iter().any(|curve| curve.axes.len() > 1);
    let (mut texts, mut position_texts) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let (mut values, mut sd) = (Vec::new(), Vec::new());
    let mut numbers = [Vec::new(), Vec::new()];
    for (curve, set) in curves.iter().zip(sets) {
        let name = set.iter().map(|&j| players[j].name.as_str()).collect::<Vec<_>>().join(" × ");
        for (o, output) in curve.output_names.iter().enumerate() {
            for r in 0..curve.values.rows() {
                texts[0].push(name.clone());
                texts[1].push(output.clone());
                for (k, (texts_of_axis, number)) in position_texts.iter_mut().zip(&mut numbers).enumerate() {
                    let stride: usize = curve.axes.iter().skip(k + 1).map(|axis| axis.grid.len()).product();
                    let axis = curve.axes.get(k);
                    let position = axis.map(|axis| r / stride % axis.grid.len());
                    number.push(axis.zip(position).map_or(f64::NAN, |(axis, position)| axis.grid[position]));
                    let text = axis.zip(position).map(|(axis, position)| match &axis.levels {
                        Some(levels) => levels[position].clone(),
                        None => axis.grid[position].to_string(),
                    });
                    texts_of_axis.push(text.unwrap_or_default());
                }
                values.push(curve.values[(r, o)]);
                sd.extend(curve.sd.as_ref().map(|sd| sd[(r, o)]));
            }
        }
    }
    let [component, output] = texts.map(Cells::Texts);
    let [first, second] =
        if numeric { numbers.map(Cells::Numbers) } else { position_texts.map(Cells::Texts) };
    let mut columns = vec![("component", component), ("output", output), ("x", first)];
    columns.extend(pairs.then_some(("x_2", second)));
    let count = values.len();
    columns.push(("value", Cells::Numbers(values)));
    columns.extend((sd.len() == count).then_some(("std", Cells::Numbers(sd))));
    TableWriter::write_columns(path, format, columns)
}

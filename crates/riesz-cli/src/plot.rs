//! `riesz plot`.

use riesz::Explanation;
use riesz::error::listed;
use riesz_report::{Plot, PlotOptions, Theme, png, render};

use crate::args::{Format, Global, PlotArgs};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::models::read_explanation;
use crate::io::output::write_all;

/// Pixels of a PNG to one of the SVG: sharp on most screens.
const SCALE: f32 = 2.0;

/// Draws.
pub fn run(args: &PlotArgs, global: &Global, console: Console) -> Result<()> {
    let extension = args.output.as_ref().and_then(|p| p.extension()).map(|e| e.to_ascii_lowercase());
    let pixels = match (global.format, extension) {
        (Some(Format::Png), _) => true,
        (Some(Format::Svg), _) => false,
        (Some(_), _) => return Err(Failure::input("a plot is --format svg or png")),
        (None, Some(extension)) if extension == "png" => true,
        (None, Some(extension)) if extension != "svg" => {
            return Err(Failure::input("the name of a plot's file ends in .svg or .png, or give --format"));
        }
        (None, _) => false,
    };
    let rows = args.rows.as_deref().map(|path| args.table.source(path).open()).transpose()?;
    let explanation = read_explanation(&args.explanation, rows, &console)?;
    let kind = args.plot.parse()?;
    let find = |name: &Option<String>| name.as_deref().map(|n| player(&explanation, n)).transpose();
    let options = PlotOptions {
        output: output(&explanation, &args.show)?,
        row: row(&explanation, args.row, kind)?,
        player: find(&args.player)?,
        color_by: find(&args.color_by)?,
        max_display: args.max_display,
        theme: if args.dark { Theme::Dark } else { Theme::Light },
        width: args.width,
    };
    let picture = render(&explanation, kind, &options)?;
    let bytes = if pixels { png(&picture, SCALE)? } else { picture.text.into_bytes() };
    write_all(args.output.as_deref(), &bytes)
}

fn output(explanation: &Explanation, wanted: &str) -> Result<usize> {
    let names = &explanation.output_names;
    let by_name = names.iter().position(|n| n == wanted);
    by_name.or_else(|| wanted.parse().ok().filter(|&o: &usize| o < names.len())).ok_or_else(|| {
        Failure::input(format!("there is no output '{wanted}'; the outputs are: {}", listed(names)))
    })
}

/// Where row `wanted`, which plots of one row show, stands in the explanation.
fn row(explanation: &Explanation, wanted: usize, kind: Plot) -> Result<usize> {
    let place = explanation.row_numbers.iter().position(|&row| row == wanted);
    match place {
        Some(at) => Ok(at),
        None if !matches!(kind, Plot::Waterfall | Plot::Force) => Ok(0),
        None => {
            let (first, last) = (explanation.row_numbers.iter().min(), explanation.row_numbers.iter().max());
            let range =
                first.zip(last).map_or_else(String::new, |(a, b)| format!("; they go from {a} to {b}"));
            Err(Failure::input(format!("--row {wanted}: the explanation has no such row{range}")))
        }
    }
}

fn player(explanation: &Explanation, wanted: &str) -> Result<usize> {
    let known: Vec<String> = (0..explanation.sets()).map(|k| explanation.set_name(k)).collect();
    known.iter().position(|name| name == wanted).ok_or_else(|| {
        Failure::input(format!("there is no player '{wanted}'; the players are: {}", listed(&known)))
    })
}

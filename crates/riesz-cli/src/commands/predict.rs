//! `riesz predict`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::{Expansion, Link, Matrix, Posterior, Prediction};

use crate::args::{CellArgs, Global, TableArgs};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::models::read_model;
use crate::io::typing::Conforming;
use crate::io::write::{Cells, TableWriter};

/// Arguments of `predict`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz predict m.riesz new.csv
  riesz predict m.riesz new.parquet -o predictions.parquet
  riesz predict m.riesz new.csv --std                         of 'fit --model gp --posterior'
  riesz predict m.riesz new.csv --unseen none --missing impute
  cat new.csv | riesz predict m.riesz - --format json")]
pub struct Args {
    /// Model file (riesz, or LIBSVM, whose features 1, 2, … are the columns x0, x1, …)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input; columns that the model does not know are ignored
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Give each output's standard deviation too, as OUTPUT_std, without the noise of a new observation: of models fitted with
    /// --posterior, that of the posterior (gp), of refits (--bootstrap, --jackknife), or of what landmarks leave out
    #[arg(long)]
    pub std: bool,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the table.
    #[command(flatten)]
    pub table: TableArgs,
    /// What becomes of cells that the model cannot take.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// Predicts chunk by chunk.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let rows = args.table.source(&args.rows).open()?;
    let saved = args.cells.admit(read_model(&args.model, rows.header())?)?;
    let (model, file) = (&saved.model, args.model.display());
    let posterior = saved.covariance.as_ref().map(|own| Posterior::new(model, own)).transpose()?;
    if args.std && !model.classes.is_empty() {
        return Err(Failure::input(format!(
            "{file} predicts classes: their probabilities say how sure it is, so leave out --std"
        )));
    }
    if args.std && posterior.is_none() {
        return Err(Failure::input(format!(
            "{file} holds no posterior, which --std needs: fit it with 'riesz fit --model gp --posterior'"
        )));
    }
    let latent = matches!(model.link, Link::LatentLogistic | Link::LatentOneVsRest | Link::LatentTies { .. });
    if latent && posterior.is_none() {
        console.note(format!(
            "note: {file} holds no posterior, which class probabilities need, so this is the mean of its latent function: fit \
             it with --posterior"
        ));
    }
    let strays = args.cells.for_model(&model.points)?;
    let mut rows =
        Conforming::new(rows, model.columns(), strays, model.columns().len() + 2 * model.outputs())?;
    let mut writer: Option<TableWriter> = None;
    let progress = console.progress("predicting");
    let mut done = 0;
    while let Some(table) = rows.next()? {
        let about = |e| Failure::from(e).about(&args.rows.display().to_string());
        let found = Prediction::of(model, saved.covariance.as_ref(), &table).map_err(about)?;
        let sd = posterior.filter(|_| args.std).map(|own| own.sd(&table)).transpose().map_err(about)?;
        let (names, mut cells) = layout(model, &found, args.std)?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(TableWriter::open(args.output.as_deref(), format, names, cells.clone())?),
        };
        for i in 0..table.rows() {
            fill(model, &found, sd.as_ref(), i, done, &mut cells);
        }
        writer.rows(cells)?;
        done += table.rows();
        progress.say(format!("{done} rows predicted"));
    }
    rows.facts().iter().for_each(|fact| console.note(format!("note: {}", fact.value)));
    match writer {
        Some(writer) => writer.finish(),
        None => Ok(()),
    }
}

/// The columns: the outputs of a regression, each with its standard deviation if wanted; the class of a classification, then its
/// probabilities if the model has them or else its decision values.
fn layout(model: &Expansion, found: &Prediction, std: bool) -> Result<(Vec<String>, Vec<Cells>)> {
    let mut names = vec!["row".to_string()];
    let mut cells = vec![Cells::Integers(Vec::new())];
    if found.classes.is_some() {
        names.push("class".into());
        cells.push(Cells::Texts(Vec::new()));
    }
    match (&found.probabilities, std) {
        (Some(_), _) => names.extend(model.classes.iter().map(|c| format!("p({c})"))),
        (None, false) => names.extend(model.output_names.iter().cloned()),
        (None, true) => names.extend(model.output_names.iter().flat_map(|o| [o.clone(), format!("{o}_std")])),
    }
    if let Some(twice) = names.iter().enumerate().find(|(k, name)| std && names[..*k].contains(name)) {
        return Err(riesz::Error::DuplicateName { name: twice.1.clone() }.into());
    }
    cells.resize_with(names.len(), || Cells::Numbers(Vec::new()));
    Ok((names, cells))
}

/// Adds row `i` of a chunk that begins with row `first` of the table.
fn fill(
    model: &Expansion,
    found: &Prediction,
    sd: Option<&Matrix>,
    i: usize,
    first: usize,
    cells: &mut [Cells],
) {
    let class = found.classes.as_ref().and_then(|classes| model.classes.get(classes[i]));
    let values = found.probabilities.as_ref().unwrap_or(&found.outputs).row(i);
    let mut numbers =
        values.iter().enumerate().flat_map(|(o, v)| [Some(*v), sd.map(|sd| sd[(i, o)])]).flatten();
    for column in cells {
        match column {
            Cells::Integers(v) => v.push((first + i) as i64),
            Cells::Texts(v) => v.push(class.cloned().unwrap_or_default()),
            Cells::Numbers(v) => v.push(numbers.next().unwrap_or(f64::NAN)),
        }
    }
}

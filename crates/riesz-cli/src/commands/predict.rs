//! `riesz predict`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::ValueHint;
use riesz::model_average::{self, ModelPart};
use riesz::{KernelExpansion, Link, Matrix, Posterior, Prediction, Table};

use crate::args::{CellArgs, FeatureArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::model_rows::ModelRows;
use crate::io::models::{ModelOrAverage, read_average};
use crate::io::write::{Cells, TableWriter, row_labels};
use crate::rates;

/// Arguments of `predict`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz predict m.riesz new.csv
  riesz predict m.riesz new.parquet -o predictions.parquet
  riesz predict m.riesz new.csv --std                         for 'fit --model gp --posterior'
  riesz predict m.riesz new.csv --unseen none --missing impute
  riesz predict svm.model new.csv --columns age,bmi,bp        features 1, 2, 3 of a LIBSVM model
  riesz predict svm.model heart_scale                         rows in LIBSVM's format
  cat new.csv | riesz predict m.riesz - --format json

For a regression the columns are its outputs; for a classifier the class and its probabilities
p(CLASS), or its decision values if it has no probabilities; for a model of counts the rate of
events per unit of weight, or the probability of a success.")]
pub struct Args {
    /// Model file (riesz, or LIBSVM, whose features 1, 2, … are the columns x0, x1, …)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input; columns that the model does not know are ignored
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Also give each output's standard deviation, as OUTPUT_std, without the noise of a new observation. For
    /// models fitted with --posterior it is that of the posterior (gp), of refits (--bootstrap, --jackknife),
    /// or of the error of landmarks. For models of counts, also give the rate's median and its 95 % interval,
    /// and the log rate with its standard deviation
    #[arg(long)]
    pub std: bool,
    /// Give the outputs on the scale of explanations: log rates or log odds of models of counts, log odds and
    /// decision values of classifiers
    #[arg(long)]
    pub link: bool,
    /// Column of rows with their names, which the result has in place of row numbers
    #[arg(long, value_name = "COL")]
    pub id: Option<String>,
    /// Where to write the result [default: standard output]
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

/// A model or an average, and the requested kind of predictions.
struct PredictionRequest<'m> {
    /// The model, or the one with the best hyper-parameters.
    model: &'m KernelExpansion,
    parts: Vec<ModelPart<'m>>,
    /// The posteriors with their weights, if there are any.
    posteriors: Option<Vec<(f64, Posterior<'m>)>>,
    /// Standard deviations.
    std: bool,
    /// Outputs before the link.
    link: bool,
}

impl<'m> PredictionRequest<'m> {
    fn new(args: &Args, read: &'m ModelOrAverage) -> Result<Self> {
        let (model, file, parts) = (&read.best.model, args.model.display(), read.parts());
        let posteriors = model_average::posteriors(&parts)?;
        if args.std && !args.link && !model.classes.is_empty() {
            return Err(Failure::input(format!(
                "--std cannot be used with {file}, which predicts classes: leave it out, as probabilities \
                 express uncertainty"
            )));
        }
        if args.std && posteriors.is_none() {
            return Err(Failure::input(format!(
                "--std needs a posterior, which {file} does not hold: fit it with 'riesz fit --model gp \
                 --posterior'"
            )));
        }
        Ok(Self { model, parts, posteriors, std: args.std, link: args.link })
    }

    /// The names of the rates of a count model, if rates are requested.
    fn counted(&self) -> Option<[&'static str; 2]> {
        rates::counted(self.model).filter(|_| !self.link)
    }

    /// A note about a model that lacks a posterior.
    fn note(&self) -> Option<String> {
        let link = self.model.link;
        let latent =
            matches!(link, Link::LatentLogistic | Link::LatentOneVsRest | Link::LatentRaoKupper { .. });
        match self.counted() {
            _ if self.link || self.posteriors.is_some() => None,
            Some([rate, link]) => {
                Some(format!("so each {rate} is the median, computed from the mean {link}"))
            }
            None if latent => Some(
                "which class probabilities need, so the outputs are the mean of the latent function: fit the \
                 model with --posterior"
                    .into(),
            ),
            None => None,
        }
    }

    /// The predictions for a chunk of rows: names of columns, and their cells. `label` is the title of the
    /// column of row numbers or names.
    fn predict(&self, table: &Table, label: &str) -> Result<(Vec<String>, Vec<Cells>)> {
        let outputs = || model_average::mean(&self.parts, table);
        if let Some(counted) = self.counted() {
            let columns = match &self.posteriors {
                None => vec![rates::median_rates(self.model, &outputs()?)],
                Some(posteriors) if self.std => rates::predictions(posteriors, table)?,
                Some(posteriors) => vec![model_average::natural_mean(posteriors, table)?],
            };
            let names = rates::names(counted).into_iter().take(columns.len()).collect();
            return Ok((names, columns.into_iter().map(Cells::Numbers).collect()));
        }
        let prediction = match self.link {
            true => Prediction { outputs: outputs()?, classes: None, probabilities: None },
            false => model_average::predict(&self.parts, table, &AtomicBool::new(false))?,
        };
        let posteriors = self.posteriors.as_ref().filter(|_| self.std);
        let sd = posteriors.map(|posteriors| model_average::sd(posteriors, table)).transpose()?;
        let (names, mut cells) = layout(self.model, &prediction, self.std, label)?;
        (0..table.rows()).for_each(|i| fill(self.model, &prediction, sd.as_ref(), i, &mut cells));
        Ok((names, cells))
    }
}

/// Predicts the rows in chunks.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let rows = args.features.open(&args.table, &args.rows)?;
    let read = read_average(&args.model, Some(&rows), &args.features)?.admitted(&args.cells)?;
    let (model, request) = (&read.best.model, PredictionRequest::new(args, &read)?);
    if let Some(note) = request.note() {
        console.note(format!("note: {} holds no posterior, {note}", args.model.display()));
    }
    let policy = args.cells.for_model(&model.support_points)?;
    let width = model.columns().len() + 2 * model.outputs();
    let mut rows = ModelRows::new(rows, model.columns(), policy, width)?
        .with_units_of(model)
        .with_names_from(args.id.as_ref())?;
    let mut writer: Option<TableWriter> = None;
    let progress = console.progress("predicting");
    let mut done = 0;
    while let Some(table) = rows.next()? {
        let (row_names, row_numbers) = rows.labels();
        let (label, labels) = row_labels(row_names, row_numbers);
        let predicted = request.predict(&table, &label);
        let (mut names, mut cells) = predicted.map_err(|e| e.about(&args.rows.display().to_string()))?;
        names.insert(0, label);
        cells.insert(0, labels);
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let empty = cells.iter().map(Cells::empty).collect();
                none.insert(TableWriter::open(args.output.as_deref(), format, names, empty)?)
            }
        };
        writer.rows(cells)?;
        done += table.rows();
        progress.say(format!("{done} rows predicted"));
    }
    rows.facts().iter().for_each(|fact| console.note(format!("note: {}", fact.value)));
    writer.map_or(Ok(()), TableWriter::finish)
}

/// The empty columns of the result. For a regression: the outputs, each with its standard deviation if
/// requested. For a classifier: the class, then the probabilities, or decision values if it has no
/// probabilities.
fn layout(
    model: &KernelExpansion,
    prediction: &Prediction,
    std: bool,
    label: &str,
) -> Result<(Vec<String>, Vec<Cells>)> {
    let (mut names, mut cells) = (Vec::new(), Vec::new());
    if prediction.classes.is_some() {
        names.push("class".into());
        cells.push(Cells::Texts(Vec::new()));
    }
    match (&prediction.probabilities, std) {
        (Some(_), _) => names.extend(model.classes.iter().map(|c| format!("p({c})"))),
        (None, false) => names.extend(model.output_names.iter().map(|o| output_title(o, label))),
        (None, true) => {
            names.extend(model.output_names.iter().flat_map(|o| [output_title(o, label), format!("{o}_std")]))
        }
    }
    if let Some(duplicate) = names.iter().enumerate().find(|(k, name)| std && names[..*k].contains(name)) {
        return Err(riesz::Error::DuplicateName { name: duplicate.1.clone() }.into());
    }
    cells.resize_with(names.len(), || Cells::Numbers(Vec::new()));
    Ok((names, cells))
}

/// The column name of an output; it differs from `label`, the title of the column of row numbers or names,
/// and from that of classes.
fn output_title(output: &str, label: &str) -> String {
    if output == label || output == "class" { format!("predicted {output}") } else { output.into() }
}

/// Adds row `i` of a chunk.
fn fill(
    model: &KernelExpansion,
    prediction: &Prediction,
    sd: Option<&Matrix>,
    i: usize,
    cells: &mut [Cells],
) {
    let class = prediction.classes.as_ref().and_then(|classes| model.classes.get(classes[i]));
    let values = prediction.probabilities.as_ref().unwrap_or(&prediction.outputs).row(i);
    let mut numbers =
        values.iter().enumerate().flat_map(|(o, v)| [Some(*v), sd.map(|sd| sd[(i, o)])]).flatten();
    for column in cells {
        match column {
            Cells::Texts(v) => v.push(class.cloned().unwrap_or_default()),
            Cells::Numbers(v) => v.push(numbers.next().unwrap_or(f64::NAN)),
            Cells::Integers(_) => {}
        }
    }
}

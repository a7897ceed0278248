//! `riesz explain`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::Explanation;
use riesz::format::explanation_json::SavedExplanation;
use riesz::model_card::CardEntry;

use crate::args::{CellArgs, FeatureArgs, Format, GameArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::explain_run::{Certificate, ExplainRequest, Explaining, ExplanationCollector, write_explanation};
use crate::explanation_summary::ExplanationSummary;
use crate::io::models::read_average;
use crate::io::output::{Output, write_all};
use crate::io::values;
use crate::io::write::{Cells, TableWriter};
use crate::program;
use crate::top::{self, SearchLimits};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz explain m.riesz new.csv | head                      features dropped from the model
  riesz explain m.riesz new.csv --background train.csv -o why.csv
  riesz explain m.riesz new.csv --game baseline --baseline typical.csv -o why.parquet
  riesz explain m.riesz new.csv --game observational -o why.parquet
  riesz explain m.riesz new.csv --groups 'blood=s1,s2,s3' -o why.json
  riesz explain m.riesz new.csv --background train.csv --covariance -o why.json
  riesz explain m.riesz new.csv --background train.csv --covariance --samples 100 -o draws.parquet
  riesz explain m.riesz new.csv --index k-sii --top-interactions 20 -o pairs.csv
  riesz explain m.riesz new.csv --game baseline --baseline typical.csv --variance -o unsure.json
  riesz explain m.riesz new.csv --background train.csv --robustness 'bmi=0.5' -o why.json
  riesz explain 'cmd:python3 forest.py' new.csv --background train.csv --ignore price --background-rows 50

On a terminal a short table is printed: mean absolute values, and the values of the first rows. A
file or a pipe gets all values, with the columns row (from 0), output, base_value, prediction and
residual, and one column per feature; estimated values also have columns std_error:FEATURE. CSV and
Parquet are streamed: memory does not grow with the number of rows. Exit code 1: a residual exceeds
its proved bound.

With --covariance there are columns std:FEATURE, the posterior standard deviation of a value (value
± 1.96 std is a 95 % interval). The text gives for each row the posterior probability that the
largest |value| is larger than the second, and that the three largest are the true ones.

With --samples the table has one line per row, output and draw from the posterior of the values:
row, output, sample (from 0), and one column per feature.

With --top-interactions the table has one line per pair: row, output, rank, feature_1, feature_2,
value, bound (proved, on the value's error) and left_out (proved: no unlisted pair of the row is
larger in absolute value).")]
pub struct Args {
    /// Model file (riesz, or LIBSVM, whose features 1, 2, … are the columns x0, x1, …), or 'cmd:COMMAND': a
    /// program that reads rows as CSV on its standard input, in the columns of the background, and writes a
    /// line of numbers per row (KernelSHAP)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input; columns that the model does not know are ignored
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// The question.
    #[command(flatten)]
    pub game: GameArgs,
    /// With an --index of pairs: list the K strongest pairs of each row only, for any number of features,
    /// with a proved bound on the pairs left out
    #[arg(long, value_name = "K", help_heading = "The question")]
    pub top_interactions: Option<NonZeroUsize>,
    /// With --top-interactions: largest number of pairs to evaluate per row; left_out bounds the others
    /// [default: as many as needed]
    #[arg(long, value_name = "N", requires = "top_interactions", help_heading = "The question")]
    pub max_pairs: Option<usize>,
    /// Explain the posterior variance instead of the prediction: how much each feature, once known, adds to
    /// the variance or removes from it, between the variance of the base value and that of the row (Shapley
    /// values of the variance game). For Gaussian processes whose file holds the posterior, in games with a
    /// background or a baseline; the cost of a row grows with the square of support points times background
    /// rows, so use few background rows
    #[arg(long, conflicts_with = "top_interactions")]
    pub variance: bool,
    /// With --covariance: write N joint draws of the values of each row from their posterior, instead of the
    /// values; drawn with --seed
    #[arg(long, value_name = "N", conflicts_with_all = ["top_interactions", "variance"])]
    pub samples: Option<NonZeroUsize>,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Information that LIBSVM files do not contain.
    #[command(flatten)]
    pub features: FeatureArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// Explains the rows in chunks and writes the explanations.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let path = args.output.as_deref();
    if args.samples.is_some() && args.game.settings.value("covariance") != Some(&true.into()) {
        return Err(Failure::input(
            "--samples draws from the posterior of the values: give --covariance too",
        ));
    }
    let is_table = args.top_interactions.is_some() || args.samples.is_some();
    let format = if is_table { global.table_format(path)? } else { global.text_or_table(path)? };
    let rows = args.features.open(&args.table, &args.rows)?;
    let table = &args.features.tables(&args.table);
    let (seed, variance) = (global.seed, args.variance);
    let (game, features, cells) = (&args.game, &args.features, args.cells);
    let request = ExplainRequest { game, table, features, cells, seed, variance };
    if let Some(count) = args.top_interactions {
        let limits = SearchLimits { count: count.get(), limit: args.max_pairs };
        return top::run(&args.model, rows, &request, limits, (path, format), &console);
    }
    let model;
    let explaining = match program::command(&args.model) {
        Some(command) => Explaining::from_program(command, rows, &request, &console)?,
        None => {
            model = read_average(&args.model, Some(&rows), &args.features)?.admitted(&args.cells)?;
            Explaining::new((&model, &args.model), rows, &request, &console)?
        }
    };
    let mut certificate = Certificate::default();
    let (width, is_json) = (explaining.width, format == Format::Json && args.samples.is_none());
    let mut sink = match format {
        _ if let Some(count) = args.samples => Sink::Samples(SampleTable::new((path, format), count, seed)),
        Format::Text => Sink::Text(Box::default(), path),
        Format::Json => Sink::Json(Box::new(ExplanationCollector::with_width(width)), Output::open(path)?),
        _ => Sink::Table(path, format, None),
    };
    let add = |chunk: SavedExplanation| {
        certificate.include(&chunk.explanation);
        sink.add(chunk)
    };
    let (done, facts) = explaining.for_each_chunk(&console, add, is_json)?;
    sink.finish(facts)?;
    console.note(format!("{done} rows explained; {}", certificate.description()));
    if format == Format::Text && global.format.is_none() {
        console.note("all values: -o why.csv; with covariances, plots and pages: -o why.json");
    }
    certificate.check()
}

/// Destination of explanations, which arrive in chunks.
enum Sink<'a> {
    Text(Box<ExplanationSummary>, Option<&'a Path>),
    Table(Option<&'a Path>, Format, Option<Box<values::Writer>>),
    Json(Box<ExplanationCollector>, Output),
    Samples(SampleTable<'a>),
}

impl Sink<'_> {
    fn add(&mut self, chunk: SavedExplanation) -> Result<()> {
        match self {
            Self::Text(summary, _) => summary.include(&chunk.explanation),
            Self::Json(collector, _) => collector.add(chunk),
            Self::Samples(table) => table.add(&chunk.explanation),
            Self::Table(path, format, writer) => {
                let writer = match writer {
                    Some(writer) => writer,
                    none => none.insert(Box::new(values::Writer::open(*path, *format, &chunk.explanation)?)),
                };
                writer.rows(&chunk.explanation)
            }
        }
    }

    fn finish(self, facts: Vec<CardEntry>) -> Result<()> {
        match self {
            Self::Text(summary, path) => write_all(path, summary.text().as_bytes()),
            Self::Samples(table) => table.writer.map_or(Ok(()), TableWriter::finish),
            Self::Table(_, _, writer) => writer.map_or(Ok(()), |writer| writer.finish(facts)),
            Self::Json(collector, output) => {
                let SavedExplanation { explanation, decisions } = collector.finish(facts)?;
                write_explanation(output, &explanation, decisions.as_ref())
            }
        }
    }
}

/// A table of draws from the posterior of the values.
struct SampleTable<'a> {
    path: Option<&'a Path>,
    format: Format,
    /// Number of draws of each row.
    count: usize,
    seed: u64,
    writer: Option<TableWriter>,
}

impl<'a> SampleTable<'a> {
    fn new((path, format): (Option<&'a Path>, Format), count: NonZeroUsize, seed: u64) -> Self {
        Self { path, format, count: count.get(), seed, writer: None }
    }

    /// Draws the values of the rows of a chunk, and writes them.
    fn add(&mut self, explanation: &Explanation) -> Result<()> {
        let (outputs, sets) = (explanation.outputs(), explanation.sets());
        let (mut rows, mut names, mut samples) = (Vec::new(), Vec::new(), Vec::new());
        let mut values = vec![Vec::new(); sets];
        for (i, o) in (0..explanation.rows() * outputs).map(|game| (game / outputs, game % outputs)) {
            let draws = explanation.draws((i, o), self.count, self.seed)?;
            for (k, column) in values.iter_mut().enumerate() {
                column.extend_from_slice(draws.row(k));
            }
            rows.extend(std::iter::repeat_n(explanation.row_numbers[i] as i64, self.count));
            names.extend(std::iter::repeat_n(explanation.output_names[o].clone(), self.count));
            samples.extend(0..self.count as i64);
        }
        let mut cells = vec![Cells::Integers(rows), Cells::Texts(names), Cells::Integers(samples)];
        cells.extend(values.into_iter().map(Cells::Numbers));
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let fixed = ["row", "output", "sample"];
                let feature = |name: String| match fixed.contains(&&name[..]) {
                    true => format!("feature {name}"),
                    false => name,
                };
                let features = (0..sets).map(|k| feature(explanation.set_name(k)));
                let header = fixed.map(String::from).into_iter().chain(features).collect();
                let empty = cells.iter().map(Cells::empty).collect();
                none.insert(TableWriter::open(self.path, self.format, header, empty)?)
            }
        };
        writer.rows(cells)
    }
}

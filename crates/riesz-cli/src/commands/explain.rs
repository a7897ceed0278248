//! `riesz explain`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::explanation::Fact;
use riesz::format::explanation;
use riesz::{Explanation, Table};

use crate::args::{Format, GameArgs, Global, TableArgs};
use crate::console::Console;
use crate::explaining::{Certificate, Explaining, each, within_limit};
use crate::failure::Result;
use crate::games::about_program;
use crate::io::input::described;
use crate::io::models::read_model;
use crate::io::output::Output;
use crate::io::typing::Conforming;
use crate::io::values;
use crate::program;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz explain m.riesz new.csv | head                      features dropped from the model
  riesz explain m.riesz new.csv --background train.csv -o why.csv
  riesz explain m.riesz new.csv --game baseline --baseline typical.csv -o why.parquet
  riesz explain m.riesz new.csv --game observational -o why.parquet
  riesz explain m.riesz new.csv --groups 'blood=s1,s2,s3' -o why.json
  riesz explain m.riesz new.csv --background train.csv --robustness 'bmi=0.5' -o why.json
  riesz explain 'cmd:python3 forest.py' new.csv --background train.csv --background-rows 50

The table has the columns row (from 0), output, base_value, prediction, residual, and one column
a player, and where values are estimated one column std_error:PLAYER. CSV and Parquet stream: memory
does not grow with the number of rows. Exit code 1: a residual exceeds its proved bound.")]
pub struct Args {
    /// Model file (riesz, or LIBSVM, whose features 1, 2, … are the columns x0, x1, …), or 'cmd:COMMAND': a program that gets rows as CSV on
    /// its standard input, in the columns of the background, and answers with a line of numbers a row (KernelSHAP)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input; columns that the model does not know are ignored
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// The question.
    #[command(flatten)]
    pub game: GameArgs,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Explains chunk by chunk.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let rows = args.table.source(&args.rows).open()?;
    let rows_name = rows.name.clone();
    let stream = |rows, facts, width, explain: &mut dyn FnMut(&Table) -> Result<Explanation>| {
        let stream = Stream { path: args.output.as_deref(), format, width, facts };
        stream.run(rows, &console, |table| explain(table).map_err(|e| e.about(&rows_name)))
    };
    if let Some(command) = program::command(&args.model) {
        let (question, own, columns) = about_program(&args.game, &args.table, global.seed, &console)?;
        let mut facts = vec![Fact::new("rows", described(&args.rows)?)];
        facts.extend(own);
        let width = 2 * (columns.len() + question.players_of(&columns).players().len() + 4);
        let rows = Conforming::new(rows, &columns, width)?;
        let mut done = 0;
        return stream(rows, facts, width, &mut |table| {
            done += table.rows();
            program::explain(command, &question, table, done - table.rows())
        });
    }
    let saved = read_model(&args.model, rows.header())?;
    let file = (&saved, args.model.as_path());
    let Explaining { explainer, rows, facts, width } =
        Explaining::of(file, rows, &args.game, &args.table, global.seed, &console)?;
    stream(rows, facts, width, &mut |table| Ok(explainer.explain(table)?))
}

/// Where explanations go, chunk by chunk.
struct Stream<'a> {
    path: Option<&'a Path>,
    format: Format,
    /// Numbers that a row takes.
    width: usize,
    /// What is said of the run.
    facts: Vec<Fact>,
}

impl Stream<'_> {
    fn run(
        self,
        mut rows: Conforming,
        console: &Console,
        mut explain: impl FnMut(&Table) -> Result<Explanation>,
    ) -> Result<()> {
        let mut sink: Option<Sink> = None;
        let mut certificate = Certificate::default();
        let done = each(&mut rows, console, &mut explain, |mut chunk| {
            certificate.include(&chunk);
            match &mut sink {
                Some(sink) => return sink.add(chunk, self.width),
                none => {
                    chunk.provenance.run.extend(self.facts.iter().cloned());
                    *none = Some(Sink::open(self.path, self.format, chunk, self.width)?);
                }
            }
            Ok(())
        })?;
        if let Some(sink) = sink {
            sink.finish()?;
        }
        console.note(format!("{done} rows explained; {}", certificate.words()));
        certificate.check()
    }
}

enum Sink {
    Table(Box<values::Writer>),
    Json(Box<Explanation>, Output),
}

impl Sink {
    fn open(path: Option<&Path>, format: Format, first: Explanation, width: usize) -> Result<Self> {
        if format == Format::Json {
            within_limit(&first, width)?;
            return Ok(Self::Json(Box::new(first), Output::open(path)?));
        }
        let mut sink = Self::Table(Box::new(values::Writer::open(path, format, &first)?));
        sink.add(first, width)?;
        Ok(sink)
    }

    fn add(&mut self, chunk: Explanation, width: usize) -> Result<()> {
        match self {
            Self::Table(writer) => writer.rows(&chunk),
            Self::Json(all, _) => {
                all.append(chunk)?;
                within_limit(all, width)
            }
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Table(writer) => writer.finish(),
            Self::Json(all, mut output) => {
                let trouble = output.trouble();
                explanation::write(&all, &mut output).map_err(|e| trouble.or(e))?;
                output.write_all(b"\n").map_err(|e| trouble.or(e))?;
                output.finish()
            }
        }
    }
}

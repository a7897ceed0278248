//! `riesz explain`.

use std::io::Write;
use std::path::Path;

use riesz::explanation::Fact;
use riesz::format::explanation;
use riesz::{Exactness, Explainer, Explanation, Table};

use crate::args::{ExplainArgs, Format, Global};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::games::{about_model, about_program, robustness};
use crate::io::models::read_model;
use crate::io::output::Output;
use crate::io::typing::Conforming;
use crate::io::values;
use crate::program;

/// Numbers that a JSON explanation may hold. It is one object of whole arrays, for plots and reports that need all
/// rows at once, so unlike the tables it cannot stream; beyond this a table is the right form.
pub const JSON_NUMBERS: usize = 20_000_000;

/// Explains chunk by chunk.
pub fn run(args: &ExplainArgs, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let rows = args.table.source(&args.rows).open()?;
    let rows_name = rows.name.clone();
    let stream = |rows, facts, width, explain: &mut dyn FnMut(&Table) -> Result<Explanation>| {
        let stream = Stream { path: args.output.as_deref(), format, width, facts };
        stream.run(rows, &console, |table| explain(table).map_err(|e| e.about(&rows_name)))
    };
    if let Some(command) = program::command(&args.model) {
        let (question, own, columns) = about_program(&args.game, &args.table, global.seed, &console)?;
        let mut facts = vec![Fact::new("rows", &rows_name)];
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
    let (question, own) = about_model(&args.game, &args.table, &saved, global.seed, &console)?;
    let explainer = Explainer::new(&saved.model, question)?;
    let players = explainer.groups().players().len();
    let width = saved.model.columns().len() + (players + 4) * saved.model.outputs();
    let rows = Conforming::new(rows, saved.model.columns(), width)?;
    let mut facts = vec![Fact::new("model file", args.model.display()), Fact::new("rows", &rows_name)];
    facts.extend(own);
    let bound = robustness(&args.game, &explainer, &saved.model)?;
    bound.iter().for_each(|fact| console.note(format!("{}: {}", fact.name, fact.value)));
    facts.extend(bound);
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
        let progress = console.progress("explaining");
        let mut done = 0;
        while let Some(table) = rows.next()? {
            let mut chunk = explain(&table)?;
            chunk.row_numbers.iter_mut().for_each(|row| *row += done);
            done += chunk.rows();
            certificate.include(&chunk);
            match &mut sink {
                Some(sink) => sink.add(chunk, self.width)?,
                none => {
                    chunk.provenance.run.extend(self.facts.iter().cloned());
                    *none = Some(Sink::open(self.path, self.format, chunk, self.width)?);
                }
            }
            progress.say(format!("{done} rows explained"));
        }
        drop(progress);
        if let Some(sink) = sink {
            sink.finish()?;
        }
        console.note(format!("{done} rows explained; {}", certificate.words()));
        certificate.check()
    }
}

/// What is said of all rows together.
#[derive(Debug, Default)]
pub struct Certificate {
    residual: f64,
    bound: f64,
    failed: Option<usize>,
    /// The largest standard error, if values are estimated.
    std_error: Option<f64>,
}

impl Certificate {
    /// Takes in some rows.
    pub fn include(&mut self, chunk: &Explanation) {
        if let Exactness::Estimated { std_error, .. } = &chunk.exactness {
            let largest = std_error.iter().copied().fold(0.0, f64::max);
            self.std_error = Some(self.std_error.unwrap_or(0.0).max(largest));
        }
        let Some(certificate) = chunk.certificate() else { return };
        self.residual = self.residual.max(certificate.residual);
        self.bound = self.bound.max(certificate.bound);
        if !certificate.holds {
            self.failed = self.failed.or(chunk.row_numbers.first().copied());
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        if let Some(largest) = self.std_error {
            return format!("estimated: standard errors up to {largest:.1e}");
        }
        format!(
            "exact: values add up to the predictions within {:.1e} (proved bound {:.1e})",
            self.residual, self.bound
        )
    }

    /// Whether every residual is within its bound.
    pub fn check(&self) -> Result<()> {
        match self.failed {
            None => Ok(()),
            Some(row) => Err(Failure::Check(format!(
                "the certificate fails in the rows from {row} on: residual {:.1e} exceeds the proved bound",
                self.residual
            ))),
        }
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

/// Whether an explanation whose rows take `width` numbers each can be held as a whole.
pub fn within_limit(explanation: &Explanation, width: usize) -> Result<()> {
    if explanation.rows().saturating_mul(width) <= JSON_NUMBERS {
        return Ok(());
    }
    Err(Failure::input(format!(
        "a JSON explanation holds all rows at once, and more than {} are too many: use .csv or .parquet, which stream",
        JSON_NUMBERS / width.max(1)
    )))
}

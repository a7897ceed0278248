//! `riesz report`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::Exactness;
use riesz::format::explanation_json::SavedExplanation;
use riesz::model_card::CardEntry;
use riesz_report::ReportOptions;

use crate::args::{CellArgs, FeatureArgs, Format, GameArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::explain_run::{Certificate, ExplainRequest, Explaining, ExplanationCollector};
use crate::io::input::name_of;
use crate::io::models::{FileContent, complete, read_any};
use crate::io::output::write_all;
use crate::output_format::PAGES;
use crate::program;

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz report why.json -o report.html
  riesz report m.riesz new.csv --background train.csv -o report.html
  riesz report 'cmd:python3 forest.py' new.csv --background train.csv -o report.html")]
pub struct Args {
    /// Explanation written by 'riesz explain' (JSON, or a table of values), or a model or program as for
    /// 'riesz explain'
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// With a model or program: the rows to explain; with a table of values: the rows that were explained,
    /// for their feature values
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: Option<PathBuf>,
    /// With a table of values: columns of the rows whose numbers are codes of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
    /// Options of the explanation, with a model or program.
    #[command(flatten)]
    pub game: GameArgs,
    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "Explanation")]
    pub title: String,
    /// Leave the date out of the page, so that a later run writes the same page; the variable
    /// SOURCE_DATE_EPOCH sets another date instead
    #[arg(long)]
    pub no_date: bool,
    /// Page to write, .html [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = PAGES.parser())]
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
    /// Hides the global option of this name: a page has one format.
    #[arg(long, value_enum, hide = true)]
    pub format: Option<Format>,
    /// Hides the global option of this name.
    #[arg(long, hide = true)]
    pub json: bool,
}

/// Writes the page; explains the rows first if a model is given.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    if args.format.is_some() || args.json {
        return Err(Failure::input("a report is always HTML: leave --format and --json out"));
    }
    let open = |path| args.features.open(&args.table, path);
    let rows = args.rows.as_deref().map(open).transpose()?;
    let table = &args.features.tables(&args.table);
    let no_rows = |kind: &str| {
        Failure::input(format!(
            "{} is a {kind}: give a table of rows to explain after it",
            name_of(&args.file)
        ))
    };
    let (game, features, cells) = (&args.game, &args.features, args.cells);
    let request = ExplainRequest { game, table, features, cells, seed: global.seed, variance: false };
    let SavedExplanation { mut explanation, decisions } = if let Some(command) = program::command(&args.file)
    {
        let rows = rows.ok_or_else(|| no_rows("program"))?;
        explained(Explaining::from_program(command, rows, &request, &console)?, &console)?
    } else {
        match read_any(&args.file, rows.as_ref(), &args.features)? {
            FileContent::Explanation(..)
                if let Some(option) = args.game.first_given().or_else(|| args.cells.first_given()) =>
            {
                return Err(Failure::input(format!(
                    "{} is an explanation, which does not use {option}: leave it out, or give a model and \
                     rows",
                    name_of(&args.file)
                )));
            }
            FileContent::Explanation(saved, _) => {
                let SavedExplanation { explanation, decisions } = *saved;
                let explanation = complete(explanation, &args.file, rows, &args.categorical)?;
                SavedExplanation { explanation, decisions }
            }
            FileContent::Model(model, _) => {
                let rows = rows.ok_or_else(|| no_rows("model"))?;
                let model = model.admitted(&args.cells)?;
                explained(Explaining::new((&model, &args.file), rows, &request, &console)?, &console)?
            }
        }
    };
    let run = &mut explanation.provenance.run;
    run.push(CardEntry::new("command", command_line(std::env::args_os())));
    run.extend((!args.no_date).then(|| CardEntry::new("page written", now())));
    let options = ReportOptions { title: args.title.clone(), decisions, ..ReportOptions::default() };
    write_all(args.output.as_deref(), riesz_report::report(&explanation, &options)?.as_bytes())?;
    let mut certificate = Certificate::default();
    certificate.include(&explanation);
    if !matches!(explanation.exactness, Exactness::Unknown) {
        console.note(certificate.description());
    }
    certificate.check()
}

/// Explains all rows.
fn explained(explaining: Explaining<'_>, console: &Console) -> Result<SavedExplanation> {
    let mut collector = ExplanationCollector::with_width(explaining.width);
    let (_, facts) = explaining.for_each_chunk(console, |chunk| collector.add(chunk), true)?;
    collector.finish(facts)
}

/// The command line, with quotes around arguments that a shell would split. The program is called by its name
/// without its folder.
fn command_line(arguments: impl Iterator<Item = std::ffi::OsString>) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:,=@%+".contains(c);
    let quoted = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy().into_owned();
        let plain = !text.is_empty() && text.chars().all(is_plain);
        if plain { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
    };
    std::iter::once("riesz".to_string()).chain(arguments.skip(1).map(quoted)).collect::<Vec<_>>().join(" ")
}

/// Date and time to the minute. `SOURCE_DATE_EPOCH`, if set, replaces the current time, so that pages are
/// reproducible byte for byte.
fn now() -> String {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let time = fixed
        .and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0))
        .unwrap_or_else(chrono::Utc::now);
    time.format("%Y-%m-%d %H:%M UTC").to_string()
}

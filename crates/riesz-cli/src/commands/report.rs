//! `riesz report`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::explanation::Fact;
use riesz::{Exactness, Explanation, Prediction};
use riesz_report::{Decisions, ReportOptions};

use crate::args::{GameArgs, Global, TableArgs};
use crate::console::Console;
use crate::explaining::{Certificate, Explaining, each, within_limit};
use crate::failure::{Failure, Result};
use crate::io::input::name_of;
use crate::io::models::{Found, complete, read_any};
use crate::io::output::write_all;

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz report why.json -o report.html
  riesz report m.riesz new.csv --background train.csv -o report.html")]
pub struct Args {
    /// Explanation written by 'riesz explain' (JSON, or a table of values), or a model
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// With a model: the rows to explain; with a table of values: the rows that were explained, for their feature values
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: Option<PathBuf>,
    /// With a table of values: columns of the rows whose numbers are names of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
    /// The question, with a model.
    #[command(flatten)]
    pub game: GameArgs,
    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "Explanation")]
    pub title: String,
    /// Page to write [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Writes the page, after explaining if it is given a model.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    if global.format.is_some() {
        return Err(Failure::input("a report is always HTML: leave --format out"));
    }
    let rows = args.rows.as_deref().map(|path| args.table.source(path).open()).transpose()?;
    let header = rows.as_ref().map_or(&[][..], |rows| rows.header());
    let mut decisions = None;
    let explanation = match (read_any(&args.file, header)?, rows) {
        (Found::Explanation(..), _) if let Some(option) = args.game.given() => {
            return Err(Failure::input(format!(
                "{} is an explanation, which has no use for {option}: leave it out, or give a model and rows",
                name_of(&args.file)
            )));
        }
        (Found::Explanation(explanation, _), rows) => {
            complete(*explanation, &args.file, rows, &args.categorical, &console)?
        }
        (Found::Model(..), None) => {
            let name = name_of(&args.file);
            return Err(Failure::input(format!("{name} is a model: say which rows to explain, after it")));
        }
        (Found::Model(saved, _), Some(rows)) => {
            let file = (&*saved, args.file.as_path());
            let Explaining { explainer, mut rows, facts, width } =
                Explaining::of(file, rows, &args.game, &args.table, global.seed, &console)?;
            let mut all: Option<Explanation> = None;
            each(
                &mut rows,
                &console,
                |table| Ok(explainer.explain(table)?),
                |chunk| {
                    let all = match &mut all {
                        None => all.insert(chunk),
                        Some(all) => {
                            all.append(chunk)?;
                            all
                        }
                    };
                    within_limit(all, width)
                },
            )?;
            let mut all = all.ok_or_else(|| Failure::input("there are no rows to explain"))?;
            all.provenance.run.extend(facts);
            all.provenance.run.push(Fact::new("written", now()));
            let predicted = Prediction::of(&saved.model, saved.covariance.as_ref(), &all.data)?;
            decisions = Decisions::of(&saved.model, &predicted);
            all
        }
    };
    let options = ReportOptions { title: args.title.clone(), decisions, ..ReportOptions::default() };
    write_all(args.output.as_deref(), riesz_report::report(&explanation, &options)?.as_bytes())?;
    let mut certificate = Certificate::default();
    certificate.include(&explanation);
    if !matches!(explanation.exactness, Exactness::Unstated) {
        console.note(certificate.words());
    }
    certificate.check()
}

/// Date and time, to the minute; that of `SOURCE_DATE_EPOCH` if it is set, for pages that are the same byte for byte.
fn now() -> String {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let at = fixed
        .and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0))
        .unwrap_or_else(chrono::Utc::now);
    at.format("%Y-%m-%d %H:%M UTC").to_string()
}

//! `riesz fuse`: what a treatment does to an outcome that no study measured beside it.

mod asked;
mod read;
mod told;

use std::path::PathBuf;

use clap::ValueHint;
use riesz::causal::{Fusion, Whom, doubts};
use riesz::explanation::Fact;
use riesz_report::{EffectPage, PlotOptions, effect_report, render_effect};

use crate::args::{CauseArgs, Global, TableArgs, graph_of};
use crate::commands::graph::check;
use crate::console::{Console, watched};
use crate::failure::{Failure, Result};
use crate::form::Form;
use crate::io::input::described;
use crate::io::output::write_all;
use crate::io::picture::write_picture;
use crate::io::write::TableWriter;

/// Arguments of `fuse`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz fuse s1.csv s2.csv --graph g.txt --treatment statin --outcome volume
  riesz fuse s1.csv s2.csv --graph g.txt --treatment statin --outcome volume --at grid.csv -o effect.parquet --report effect.html
  riesz fuse s1.csv s2.csv --graph g.txt --treatment statin --outcome volume --baseline statin=0.2 --given age=75
  riesz fuse trial.csv scans.csv --randomized --treatment dose --outcome volume -o effect.svg

The first study has the treatments, the last the outcome, and each shares columns with the next; nobody need have measured both. The answer is the mean outcome if all
people of the first study were treated so, how sure that is, and which study leaves it unsure. 'riesz graph check' says first whether it follows from the graph.
What does not follow ends with exit code 2, and what would help.")]
pub struct Args {
    /// Tables of the studies in order (CSV or Parquet); '-' is standard input
    #[arg(required = true, value_name = "STUDY", value_hint = ValueHint::FilePath)]
    pub studies: Vec<PathBuf>,
    /// What causes what: a file, or the text itself, 'age -> dose; age -> psa; dose -> psa -> volume'; without it --adjust, --front-door or --randomized is taken on
    /// trust
    #[arg(long, value_name = "GRAPH", required_unless_present = "way")]
    pub graph: Option<String>,
    /// Which effect.
    #[command(flatten)]
    pub effect: CauseArgs,
    /// Table of treatments to say the effect at [default: 50 doses over the middle 95 % of those of the first study, or its levels]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub at: Option<PathBuf>,
    /// Say what the effect is more than at this treatment
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub baseline: Vec<String>,
    /// Say it of people of whom some covariates are these
    #[arg(long, value_name = "NAME=VALUE,…", group = "whom")]
    pub given: Vec<String>,
    /// Say it of people who were treated so
    #[arg(long, value_name = "NAME=VALUE,…", group = "whom")]
    pub among: Vec<String>,
    /// Average over so many draws of the hyper-parameters; 0 takes the best ones alone, which are too sure where rows are few
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub draws: usize,
    /// Probability of the intervals
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = level)]
    pub level: f64,
    /// Columns whose numbers are names of levels
    #[arg(long, value_name = "NAME,…")]
    pub categorical: Vec<String>,
    /// Where to write the effect: a table (.csv, .parquet), a picture (.svg, .png), or everything (.json) [default: words on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Also write a page that opens in any browser, offline (.html)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// A probability that is neither 0 nor 1.
fn level(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(level) if level > 0.0 && level < 1.0 => Ok(level),
        _ => Err("it is between 0 and 1, as 0.95".into()),
    }
}

/// The form in which it is written; pages have an option of their own.
fn form(args: &Args, global: &Global) -> Result<Form> {
    match Form::of(args.output.as_deref(), global) {
        Ok(Form::Page) => Err(page_elsewhere()),
        Ok(form) => Ok(form),
        Err(other) => Err(Failure::input(format!(
            "effects are written as .csv, .parquet, .svg, .png, .json or .txt, not as .{other}; a page is --report page.html"
        ))),
    }
}

fn page_elsewhere() -> Failure {
    Failure::input("pages are written with --report: give it this name")
}

/// Reads, learns, asks and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let path = args.output.as_deref();
    let form = form(args, global)?;
    if let Some(page) = &args.report
        && !page
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("html") || end.eq_ignore_ascii_case("htm"))
    {
        return Err(Failure::input(format!("{}: the name of a page ends in .html", page.display())));
    }
    let graph = args.graph.as_deref().map(graph_of).transpose()?;
    let (found, gathered) = read::studies(args, graph.as_ref())?;
    let fusion = Fusion { draws: args.draws, seed: global.seed, ..Fusion::default() };
    let mut effect =
        watched(&console, "learning the effect", &fusion.progress, || fusion.fit(&gathered.studies))?;
    let mut words = gathered.doubts.clone();
    words.extend(doubts(&found, &effect, args.draws));
    let words: Vec<String> = words.iter().map(ToString::to_string).collect();
    words.iter().for_each(|text| console.warn(text));
    let first = &gathered.studies.studies[0];
    let whom = asked::whom(args, first)?;
    if let Some(whom) = &whom {
        effect = effect.of(whom, &fusion.stop)?;
    }
    let at = asked::treatments(args, first)?;
    let baseline = asked::row(&args.baseline, first.treatments.columns(), "--baseline")?;
    let pointwise = effect.pointwise(&at, baseline.as_ref())?;
    let of = match &whom {
        Some(Whom::Like(row) | Whom::Treated(row)) => format!("those with {}", asked::told(row)),
        _ => "all people of study 1".into(),
    };
    let mut run: Vec<Fact> = Vec::new();
    for (k, study) in args.studies.iter().enumerate() {
        run.push(Fact::new(format!("study {}", k + 1), described(study)?));
    }
    run.push(Fact::new("draws of hyper-parameters", args.draws.to_string()));
    run.push(Fact::new("seed", global.seed.to_string()));
    run.push(Fact::new("software", format!("riesz {}", env!("CARGO_PKG_VERSION"))));
    let page = EffectPage {
        found: &found,
        graph: graph.as_ref(),
        studies: &gathered.studies,
        at: &at,
        effect: &pointwise,
        baseline: baseline.as_ref(),
        whom: &of,
        level: args.level,
        unmatched: &gathered.unmatched,
        doubts: &words,
        run: &run,
    };
    let identified = check::words(&found);
    match form {
        Form::Text => write_all(path, format!("{identified}{}", told::words(&page)?).as_bytes())?,
        Form::Json => write_all(path, format!("{:#}\n", told::record(&page)?).as_bytes())?,
        Form::Table(format) => TableWriter::whole(
            path,
            format,
            told::columns(&page)?.iter().map(|(name, cells)| (&name[..], cells.clone())).collect(),
        )?,
        Form::Picture { pixels } => {
            let picture = render_effect(&page, &PlotOptions::default())?;
            write_picture(path, picture, pixels)?;
        }
        Form::Page => return Err(page_elsewhere()),
    }
    if let Some(file) = &args.report {
        write_all(Some(file), effect_report(&page)?.as_bytes())?;
    }
    if path.is_some() {
        console.note(identified.trim_end());
    }
    Ok(())
}

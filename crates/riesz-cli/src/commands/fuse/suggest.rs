//! `riesz effect suggest`: which treatments to try next.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use riesz::Table;
use riesz::causal::{
    Acquisition, AcquisitionSearch, Domain, Effect, EffectPrior, Incumbent, Suggestion, TreatmentArm, Trials,
    UpdatedEffect,
};
use riesz::explanation::Fact;
use riesz_report::number;
use serde_json::json;

use super::studies::{Read, StudyArgs};
use super::told::Named;
use super::{asked, told};
use crate::args::Global;
use crate::commands::graph::check;
use crate::console::{Console, printable};
use crate::failure::{Failure, Result};
use crate::form::Form;
use crate::io::input::{described, name_of};
use crate::io::output::write_all;
use crate::io::units::Units;
use crate::io::write::{Cells, TableWriter};

/// Arguments of `effect suggest`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz effect suggest s1.csv s2.csv --graph g.txt --treatment statin --outcome volume
  riesz effect suggest s1.csv s2.csv --graph g.txt --treatment statin --outcome volume --tried tried.csv --sd 0.5 --between statin=0..1
  riesz effect suggest s1.csv s2.csv --graph g.txt --treatment statin --outcome volume --tried tried.csv --maximize --count 3 -o next.csv
  riesz effect suggest s1.csv s2.csv --graph g.txt --treatment statin --outcome volume --candidates doses.csv --cost euros

Bayesian optimisation that starts from the effect which the studies tell. The table of what was
tried has a column for each treatment and one for the outcome, a row a trial. The result is a table
with the columns of the treatments, the best to try first: mean and sd are those of the effect as
believed, expected_improvement is by how much a trial is expected to be better than the best so far,
acquisition is what it is worth, and support is 1 where the studies tell it.")]
pub struct SuggestArgs {
    /// The studies.
    #[command(flatten)]
    pub studies: StudyArgs,
    /// Table of treatments that were tried, with their outcomes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tried: Option<PathBuf>,
    /// How far these outcomes are from the effect, as a standard deviation: a number, or the column that has
    /// it; 0 if they are exact [default: estimated, from the fourth trial on]
    #[arg(long, value_name = "SD|COL", requires = "tried", value_parser = spread, allow_negative_numbers = true)]
    pub sd: Option<Spread>,
    /// How many treatments to suggest; each is chosen as if those before turned out as expected
    #[arg(long, value_name = "N", default_value = "1")]
    pub count: NonZeroUsize,
    /// Look for large outcomes, not for small ones
    #[arg(long)]
    pub maximize: bool,
    /// What a trial is worth: the expected improvement (its logarithm, which does not underflow), or two
    /// standard deviations better than the mean
    #[arg(long, value_name = "NAME", default_value = Acquisition::NAMES[0], value_parser = acquisitions())]
    pub acquisition: Acquisition,
    /// What is believed before any trial: the effect, or to be compared with it what is published
    #[arg(long, value_name = "NAME", default_value = EffectPrior::NAMES[0], value_parser = priors())]
    pub prior: EffectPrior,
    /// Numbers to stay between, for some treatments [default: the ranges of the first study, and all levels]
    #[arg(long, value_name = "NAME=LOW..HIGH,…", conflicts_with = "candidates")]
    pub between: Vec<String>,
    /// Table of the treatments that may be tried
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub candidates: Option<PathBuf>,
    /// Column of the candidates with what trying each costs, by which its worth is divided
    #[arg(long, value_name = "COL", requires = "candidates")]
    pub cost: Option<String>,
    /// Leave out treatments that the studies do not tell
    #[arg(long)]
    pub supported: bool,
    /// Where to write the suggestions: a table (.csv, .parquet), or everything (.json) [default: words on
    /// standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// How far outcomes of trials are from the effect, as a standard deviation.
#[derive(Debug, Clone)]
pub enum Spread {
    /// All alike.
    Same(f64),
    /// As this column has it.
    Column(String),
}

fn spread(text: &str) -> std::result::Result<Spread, String> {
    match text.parse::<f64>() {
        Ok(sd) if sd.is_finite() && sd >= 0.0 => Ok(Spread::Same(sd)),
        Ok(_) => Err(NO_SD.into()),
        Err(_) => Ok(Spread::Column(text.into())),
    }
}

const NO_SD: &str = "standard deviations are 0 or more";

fn acquisitions() -> impl TypedValueParser<Value = Acquisition> {
    PossibleValuesParser::new(Acquisition::NAMES).try_map(|name| Acquisition::named(&name))
}

fn priors() -> impl TypedValueParser<Value = EffectPrior> {
    PossibleValuesParser::new(EffectPrior::NAMES).try_map(|name| EffectPrior::named(&name))
}

/// The forms in which suggestions are written.
enum Written {
    Text,
    Json,
    Table(crate::args::Format),
}

fn form(args: &SuggestArgs, global: &Global) -> Result<Written> {
    let other = match Form::of(args.output.as_deref(), global) {
        Ok(Form::Text) => return Ok(Written::Text),
        Ok(Form::Json) => return Ok(Written::Json),
        Ok(Form::Table(format)) => return Ok(Written::Table(format)),
        Ok(Form::Picture { .. }) => "a picture".into(),
        Ok(Form::Page) => "a page".into(),
        Err(ending) => format!(".{ending}"),
    };
    Err(Failure::input(format!("suggestions are written as .csv, .parquet, .json or .txt, not as {other}")))
}

/// Reads, learns, searches and writes.
pub fn run(args: &SuggestArgs, global: &Global, console: Console) -> Result<()> {
    let path = args.output.as_deref();
    let form = form(args, global)?;
    let read = args.studies.read()?;
    read.graph.iter().filter_map(|graph| graph.note()).for_each(|note| console.warn(note));
    let trials = tried(args, &read)?;
    let (domain, costs) = choices(args, &read.treatments()?, &read.units)?;
    let learnt = read.learn(&args.studies, global, &console)?;
    let search = AcquisitionSearch {
        acquisition: args.acquisition,
        minimize: !args.maximize,
        supported: args.supported,
        seed: global.seed,
    };
    let found = Found::new(args, &search, &learnt.effect, &trials, (domain, costs))?;
    let words = found.words(&read, args.maximize);
    match form {
        Written::Text => {
            write_all(path, format!("{}{words}", check::words(&read.found)).as_bytes())?;
        }
        Written::Table(format) => TableWriter::whole(path, format, told::named(&found.columns()))?,
        Written::Json => {
            let mut run = args.studies.facts(global)?;
            run.extend(facts(args)?);
            let record = json!({
                "identification": check::record(&read.found),
                "goal": if args.maximize { "maximize" } else { "minimize" },
                "trials": trials.outcomes.len(),
                "best": { "treatments": told::lists(told::beside(&found.best_row, vec![])), "mean": found.best.mean },
                "suggestions": told::lists(found.columns()),
                "warnings": learnt.doubts,
                "provenance": run,
            });
            write_all(path, format!("{record:#}\n").as_bytes())?;
        }
    }
    if path.is_some() {
        console.note(words.trim());
    }
    Ok(())
}

/// What was asked for.
fn facts(args: &SuggestArgs) -> Result<Vec<Fact>> {
    let mut asked = Vec::new();
    for (name, file) in [("tried", &args.tried), ("candidates", &args.candidates)] {
        if let Some(file) = file {
            asked.push(Fact::new(name, described(file)?));
        }
    }
    let sd = args.sd.as_ref().map(|own| match own {
        Spread::Same(sd) => sd.to_string(),
        Spread::Column(name) => name.clone(),
    });
    let between = (!args.between.is_empty()).then(|| args.between.join(","));
    let settings = [("sd", sd), ("cost", args.cost.clone()), ("between", between)];
    asked.extend(settings.into_iter().filter_map(|(name, value)| Some(Fact::new(name, value?))));
    asked.push(Fact::new("acquisition", args.acquisition.name()));
    asked.push(Fact::new("prior", args.prior.name()));
    asked.push(Fact::new("supported alone", if args.supported { "yes" } else { "no" }));
    Ok(asked)
}

/// What was tried.
fn tried(args: &SuggestArgs, read: &Read) -> Result<Trials> {
    let (known, outcome) = (read.treatments()?, &read.found.outcome);
    let columns = known.columns();
    let Some(file) = &args.tried else {
        let treatments = Table::from_column_major(columns.to_vec(), 0, vec![])?;
        return Ok(Trials { treatments, outcomes: vec![], noise: None });
    };
    let (table, units) = (&args.studies.table, &read.units);
    let (treatments, outcomes, sds) = match &args.sd {
        Some(Spread::Column(name)) => {
            let (treatments, [outcomes, sds]) =
                asked::rows_with(table, file, columns, [outcome, name], units)?;
            (treatments, outcomes, Some(sds))
        }
        Some(Spread::Same(sd)) => {
            let (treatments, [outcomes]) = asked::rows_with(table, file, columns, [outcome], units)?;
            let sds = vec![*sd; outcomes.len()];
            (treatments, outcomes, Some(sds))
        }
        None => {
            let (treatments, [outcomes]) = asked::rows_with(table, file, columns, [outcome], units)?;
            (treatments, outcomes, None)
        }
    };
    if let (Some(Spread::Column(name)), Some(sds)) = (&args.sd, &sds) {
        each_row(sds, (file, name), |sd| sd >= 0.0, NO_SD)?;
    }
    let noise = sds.map(|own| own.iter().map(|sd| sd * sd).collect());
    Ok(Trials { treatments, outcomes, noise })
}

/// Whether all numbers of a column are as they should be.
fn each_row(
    values: &[f64],
    (file, name): (&Path, &str),
    right: fn(f64) -> bool,
    allowed: &str,
) -> Result<()> {
    let Some(row) = values.iter().position(|v| !right(*v)) else { return Ok(()) };
    Err(Failure::input(format!(
        "{}: row {} of column '{name}' is {}: {allowed}",
        name_of(file),
        row + 1,
        values[row]
    )))
}

/// What may be tried, and what each trial costs.
fn choices(args: &SuggestArgs, studied: &Table, units: &Units) -> Result<(Domain, Vec<f64>)> {
    let (table, columns) = (&args.studies.table, studied.columns());
    Ok(match (&args.candidates, &args.cost) {
        (Some(file), Some(name)) => {
            let (rows, [costs]) = asked::rows_with(table, file, columns, [name], units)?;
            each_row(&costs, (file, name), |cost| cost > 0.0, "costs are more than 0")?;
            (Domain::Rows(rows), costs)
        }
        (Some(file), None) => (Domain::Rows(asked::rows(table, file, columns, units)?), vec![1.0]),
        (None, _) => {
            let bounds = match args.between.is_empty() {
                true => vec![],
                false => asked::bounds(&args.between, columns, "--between")?,
            };
            let domain = Domain::near(studied, &bounds)?;
            // Bounds that are none are named before there is anything to learn.
            domain.rows(columns, 0)?;
            (domain, vec![1.0])
        }
    })
}

/// What was found.
struct Found {
    best: Incumbent,
    /// Its treatments.
    best_row: Table,
    /// How many were tried.
    tried: usize,
    next: Vec<Suggestion>,
    /// Treatments of these, one a row.
    at: Table,
}

impl Found {
    fn new(
        args: &SuggestArgs,
        search: &AcquisitionSearch,
        effect: &Effect,
        trials: &Trials,
        (domain, costs): (Domain, Vec<f64>),
    ) -> Result<Self> {
        let arms =
            [TreatmentArm { believed: UpdatedEffect::new(effect, trials, args.prior)?, domain, costs }];
        let next = search.suggest(&arms, args.count.get())?;
        let best = search.best(&arms)?;
        let columns = effect.treatments().columns();
        let rows = |rows: &[&Vec<f64>]| {
            let values = (0..columns.len()).flat_map(|j| rows.iter().map(move |row| row[j])).collect();
            Table::from_column_major(columns.to_vec(), rows.len(), values)
        };
        Ok(Self {
            best_row: rows(&[&best.treatments])?,
            at: rows(&next.iter().map(|own| &own.treatments).collect::<Vec<_>>())?,
            tried: trials.outcomes.len(),
            best,
            next,
        })
    }

    fn columns(&self) -> Named {
        let of = |each: fn(&Suggestion) -> f64| Cells::Numbers(self.next.iter().map(each).collect());
        let support = self.next.iter().map(|own| i64::from(own.supported)).collect();
        let numbers = vec![
            ("mean".to_string(), of(|own| own.mean)),
            ("sd".into(), of(|own| own.sd)),
            ("expected_improvement".into(), of(|own| own.expected_improvement)),
            ("acquisition".into(), of(|own| own.acquisition)),
            ("support".into(), Cells::Integers(support)),
        ];
        told::beside(&self.at, numbers)
    }

    /// What is best so far, and a table of what to try.
    fn words(&self, read: &Read, maximize: bool) -> String {
        let (extreme, outcome) = (if maximize { "highest" } else { "lowest" }, &read.found.outcome);
        let among = match self.tried {
            0 => "Nothing was tried yet. Of all that may be tried".to_string(),
            1 => "Of the one trial so far".into(),
            n => format!("Of the {n} trials so far"),
        };
        let heads = told::heads(&self.best_row).into_iter().zip(told::treated(&self.best_row, 0));
        let with: Vec<String> = heads.map(|(name, value)| format!("{name} = {value}")).collect();
        let best = format!(
            "{among}, the mean of {} is {extreme}, {}, with {}, as is believed.",
            printable(outcome),
            number(self.best.mean),
            with.join(" and ")
        );
        let mut lines = vec![told::heads(&self.at)];
        lines[0].extend(["mean", "sd", "expected improvement", "support"].map(String::from));
        for (i, own) in self.next.iter().enumerate() {
            let mut line = told::treated(&self.at, i);
            line.extend([own.mean, own.sd, own.expected_improvement].map(number));
            line.push(if own.supported { "yes" } else { "no" }.into());
            lines.push(line);
        }
        let how = if self.next.len() > 1 { ", as if those before turned out as expected" } else { "" };
        format!("\n{best}\n\nTo try next{how}:\n{}", told::aligned(&lines))
    }
}

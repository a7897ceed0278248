//! `riesz causal suggest`: suggests the treatments to try next.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use riesz::Table;
use riesz::causal::{
    Acquisition, AcquisitionSearch, Domain, Effect, EffectPrior, Incumbent, Suggestion, TreatmentArm, Trials,
    UpdatedEffect,
};
use riesz::model_card::CardEntry;
use riesz_report::number;
use serde_json::json;

use super::check;
use super::effect_output::Named;
use super::studies::{Read, StudyArgs};
use super::{effect_output, query_rows};
use crate::args::Global;
use crate::console::{Console, printable};
use crate::exit::{Failure, Result};
use crate::io::input::{described, name_of};
use crate::io::output::write_all;
use crate::io::units::Units;
use crate::io::write::{Cells, TableWriter};
use crate::output_format::{Form, SUGGESTIONS};

/// Arguments of `causal suggest`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz causal suggest s1.csv s2.csv --graph g.txt --treatment drug --outcome y
  riesz causal suggest s1.csv s2.csv --graph g.txt --treatment drug --outcome y --tried old.csv --std 0.5
  riesz causal suggest s1.csv s2.csv --graph g.txt --treatment drug --outcome y --between drug=0..1
  riesz causal suggest s1.csv s2.csv --graph g.txt --treatment drug --outcome y --maximize --count 3
  riesz causal suggest data.csv --graph g.txt --treatment drug --outcome y --candidates doses.csv --cost eur

Bayesian optimisation whose prior is the effect estimated from the studies. The table of earlier
trials has a column for each treatment and one for the outcome, and a row per trial. The result is
a table with the columns of the treatments, best suggestion first: mean and std are those of the
posterior effect, expected_improvement is the expected gain over the best treatment so far,
acquisition is the value of the acquisition function, and support is 1 where the studies' data
support the effect.")]
pub struct SuggestArgs {
    /// The studies.
    #[command(flatten)]
    pub studies: StudyArgs,
    /// Table of earlier trials: treatments with their outcomes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tried: Option<PathBuf>,
    /// Standard deviation of these outcomes around the effect: a number, or a column of the table; 0 if they
    /// are exact
    /// [default: estimated, with four trials or more]
    #[arg(long, value_name = "S|COL", requires = "tried", value_parser = outcome_sd, allow_negative_numbers = true)]
    pub std: Option<OutcomeSd>,
    /// Number of treatments to suggest; each is chosen as if the earlier suggestions had their expected
    /// outcomes
    #[arg(long, value_name = "N", default_value = "1")]
    pub count: NonZeroUsize,
    /// Maximise the outcome instead of minimising it
    #[arg(long)]
    pub maximize: bool,
    /// Acquisition function: the expected improvement (its logarithm, which does not underflow), or a
    /// confidence bound two standard deviations better than the mean
    #[arg(long, value_name = "NAME", default_value = Acquisition::NAMES[0], value_parser = acquisitions())]
    pub acquisition: Acquisition,
    /// Prior before any trial: the estimated effect, or, for comparison, the published choice
    #[arg(long, value_name = "NAME", default_value = EffectPrior::NAMES[0], value_parser = priors())]
    pub prior: EffectPrior,
    /// Bounds of some treatments [default: the ranges of the first study, and all levels]
    #[arg(long, value_name = "NAME=LOW..HIGH,…", conflicts_with = "candidates")]
    pub between: Vec<String>,
    /// Table of the treatments that may be tried
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub candidates: Option<PathBuf>,
    /// Column of the candidates with the cost of each trial, by which the acquisition function is divided
    #[arg(long, value_name = "COL", requires = "candidates")]
    pub cost: Option<String>,
    /// Leave out treatments whose effects the studies' data do not support
    #[arg(long)]
    pub supported: bool,
    /// Where to write the suggestions: a table (.csv, .parquet), or everything (.json) [default: text on
    /// standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// The standard deviation of the outcomes of trials around the effect.
#[derive(Debug, Clone)]
pub enum OutcomeSd {
    /// One standard deviation for all trials.
    Same(f64),
    /// The column with the standard deviation of each trial.
    Column(String),
}

fn outcome_sd(text: &str) -> std::result::Result<OutcomeSd, String> {
    match text.parse::<f64>() {
        Ok(sd) if sd.is_finite() && sd >= 0.0 => Ok(OutcomeSd::Same(sd)),
        Ok(_) => Err(NO_SD.into()),
        Err(_) => Ok(OutcomeSd::Column(text.into())),
    }
}

const NO_SD: &str = "a standard deviation is a number of at least 0";

fn acquisitions() -> impl TypedValueParser<Value = Acquisition> {
    PossibleValuesParser::new(Acquisition::NAMES).try_map(|name| Acquisition::named(&name))
}

fn priors() -> impl TypedValueParser<Value = EffectPrior> {
    PossibleValuesParser::new(EffectPrior::NAMES).try_map(|name| EffectPrior::named(&name))
}

/// Output formats of suggestions.
enum Written {
    Text,
    Json,
    Table(crate::args::Format),
}

fn form(args: &SuggestArgs, global: &Global) -> Result<Written> {
    match Form::choose(args.output.as_deref(), global, SUGGESTIONS)? {
        Form::Text => Ok(Written::Text),
        Form::Json => Ok(Written::Json),
        Form::Table(format) => Ok(Written::Table(format)),
        Form::Picture { .. } | Form::Page => Err(Failure::input(
            "suggestions are written as tables, JSON or text: use --format csv, parquet, json or text",
        )),
    }
}

/// Reads the studies and trials, estimates the effect, and writes suggestions.
pub fn run(args: &SuggestArgs, global: &Global, console: Console) -> Result<()> {
    let path = args.output.as_deref();
    let form = form(args, global)?;
    let read = args.studies.read()?;
    read.graph.iter().filter_map(|graph| graph.note()).for_each(|note| console.warn(note));
    let trials = earlier_trials(args, &read)?;
    let (domain, costs) = choices(args, &read.treatments()?, &read.units)?;
    let estimate = read.learn(&args.studies, global, &console)?;
    let search = AcquisitionSearch {
        acquisition: args.acquisition,
        minimize: !args.maximize,
        supported: args.supported,
        seed: global.seed,
    };
    let result = SearchResult::new(args, &search, &estimate.effect, &trials, (domain, costs))?;
    let text = result.text(&read, args.maximize);
    match form {
        Written::Text => {
            write_all(
                path,
                format!("{}{text}", check::identification_text(&read.identification)).as_bytes(),
            )?;
        }
        Written::Table(format) => {
            TableWriter::write_columns(path, format, effect_output::named(&result.columns()))?
        }
        Written::Json => {
            let mut run = args.studies.facts(global)?;
            run.extend(facts(args)?);
            let best_treatments = effect_output::with_treatments(&result.best_row, vec![]);
            let record = json!({
                "identification": check::record(&read.identification),
                "goal": if args.maximize { "maximize" } else { "minimize" },
                "trials": trials.outcomes.len(),
                "best": { "treatments": effect_output::lists(best_treatments), "mean": result.best.mean },
                "suggestions": effect_output::lists(result.columns()),
                "warnings": estimate.warnings,
                "provenance": run,
            });
            write_all(path, format!("{record:#}\n").as_bytes())?;
        }
    }
    if path.is_some() {
        console.note(text.trim());
    }
    Ok(())
}

/// Provenance entries of the request.
fn facts(args: &SuggestArgs) -> Result<Vec<CardEntry>> {
    let mut entries = Vec::new();
    for (name, file) in [("tried", &args.tried), ("candidates", &args.candidates)] {
        if let Some(file) = file {
            entries.push(CardEntry::new(name, described(file)?));
        }
    }
    let sd = args.std.as_ref().map(|given_sd| match given_sd {
        OutcomeSd::Same(sd) => sd.to_string(),
        OutcomeSd::Column(name) => name.clone(),
    });
    let bounds = (!args.between.is_empty()).then(|| args.between.join(","));
    let settings = [("std", sd), ("cost", args.cost.clone()), ("between", bounds)];
    entries.extend(settings.into_iter().filter_map(|(name, value)| Some(CardEntry::new(name, value?))));
    entries.push(CardEntry::new("acquisition", args.acquisition.name()));
    entries.push(CardEntry::new("prior", args.prior.name()));
    entries.push(CardEntry::new("supported alone", if args.supported { "yes" } else { "no" }));
    Ok(entries)
}

/// Reads the outcomes of earlier trials.
fn earlier_trials(args: &SuggestArgs, read: &Read) -> Result<Trials> {
    let (observed, outcome) = (read.treatments()?, &read.identification.outcome);
    let columns = observed.columns();
    let Some(file) = &args.tried else {
        let treatments = Table::from_column_major(columns.to_vec(), 0, vec![])?;
        return Ok(Trials { treatments, outcomes: vec![], noise: None });
    };
    let (table, units) = (&args.studies.table, &read.units);
    let (treatments, outcomes, sds) = match &args.std {
        Some(OutcomeSd::Column(name)) => {
            let (treatments, [outcomes, sds]) =
                query_rows::rows_with(table, file, columns, [outcome, name], units)?;
            (treatments, outcomes, Some(sds))
        }
        Some(OutcomeSd::Same(sd)) => {
            let (treatments, [outcomes]) = query_rows::rows_with(table, file, columns, [outcome], units)?;
            let sds = vec![*sd; outcomes.len()];
            (treatments, outcomes, Some(sds))
        }
        None => {
            let (treatments, [outcomes]) = query_rows::rows_with(table, file, columns, [outcome], units)?;
            (treatments, outcomes, None)
        }
    };
    if let (Some(OutcomeSd::Column(name)), Some(sds)) = (&args.std, &sds) {
        check_rows(sds, (file, name), |sd| sd >= 0.0, NO_SD)?;
    }
    let noise = sds.map(|deviations| deviations.iter().map(|sd| sd * sd).collect());
    Ok(Trials { treatments, outcomes, noise })
}

/// Returns an error with the first row whose value does not satisfy `is_valid`.
fn check_rows(
    values: &[f64],
    (file, name): (&Path, &str),
    is_valid: fn(f64) -> bool,
    allowed: &str,
) -> Result<()> {
    let Some(row) = values.iter().position(|v| !is_valid(*v)) else { return Ok(()) };
    Err(Failure::input(format!(
        "{}: row {} of column '{name}' is {}: {allowed}",
        name_of(file),
        row + 1,
        values[row]
    )))
}

/// The treatments to choose from, and the cost of trying each.
fn choices(args: &SuggestArgs, observed: &Table, units: &Units) -> Result<(Domain, Vec<f64>)> {
    let (table, columns) = (&args.studies.table, observed.columns());
    Ok(match (&args.candidates, &args.cost) {
        (Some(file), Some(name)) => {
            let (rows, [costs]) = query_rows::rows_with(table, file, columns, [name], units)?;
            check_rows(&costs, (file, name), |cost| cost > 0.0, "costs are more than 0")?;
            (Domain::Rows(rows), costs)
        }
        (Some(file), None) => (Domain::Rows(query_rows::rows(table, file, columns, units)?), vec![1.0]),
        (None, _) => {
            let bounds = match args.between.is_empty() {
                true => vec![],
                false => query_rows::bounds(&args.between, columns, "--between")?,
            };
            let domain = Domain::from_bounds(observed, &bounds)?;
            // Invalid bounds are reported before the effect is estimated.
            domain.rows(columns, 0)?;
            (domain, vec![1.0])
        }
    })
}

/// The suggestions and the best treatment so far.
struct SearchResult {
    best: Incumbent,
    /// The treatments of `best`, as one row.
    best_row: Table,
    /// The number of earlier trials.
    trial_count: usize,
    next: Vec<Suggestion>,
    /// The suggested treatments, one in each row.
    treatments: Table,
}

impl SearchResult {
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
            treatments: rows(&next.iter().map(|suggestion| &suggestion.treatments).collect::<Vec<_>>())?,
            trial_count: trials.outcomes.len(),
            best,
            next,
        })
    }

    fn columns(&self) -> Named {
        let column = |read: fn(&Suggestion) -> f64| Cells::Numbers(self.next.iter().map(read).collect());
        let support = self.next.iter().map(|suggestion| i64::from(suggestion.supported)).collect();
        let numbers = vec![
            ("mean".to_string(), column(|suggestion| suggestion.mean)),
            ("std".into(), column(|suggestion| suggestion.sd)),
            ("expected_improvement".into(), column(|suggestion| suggestion.expected_improvement)),
            ("acquisition".into(), column(|suggestion| suggestion.acquisition)),
            ("support".into(), Cells::Integers(support)),
        ];
        effect_output::with_treatments(&self.treatments, numbers)
    }

    /// The best treatment so far and a table of suggestions, as text.
    fn text(&self, read: &Read, maximize: bool) -> String {
        let (extreme, outcome) = (if maximize { "highest" } else { "lowest" }, &read.identification.outcome);
        let scope = match self.trial_count {
            0 => "There are no trials yet. Of all candidates".to_string(),
            1 => "Of the one trial so far".into(),
            n => format!("Of the {n} trials so far"),
        };
        let assignments = effect_output::treatment_names(&self.best_row)
            .into_iter()
            .zip(effect_output::treatment_cells(&self.best_row, 0));
        let treatment_text: Vec<String> =
            assignments.map(|(name, value)| format!("{name} = {value}")).collect();
        let best = format!(
            "{scope}, the posterior mean of {} is {extreme}, {}, with {}.",
            printable(outcome),
            number(self.best.mean),
            treatment_text.join(" and ")
        );
        let mut lines = vec![effect_output::treatment_names(&self.treatments)];
        lines[0].extend(["mean", "std", "expected improvement", "support"].map(String::from));
        for (i, suggestion) in self.next.iter().enumerate() {
            let mut line = effect_output::treatment_cells(&self.treatments, i);
            line.extend([suggestion.mean, suggestion.sd, suggestion.expected_improvement].map(number));
            line.push(if suggestion.supported { "yes" } else { "no" }.into());
            lines.push(line);
        }
        let condition = if self.next.len() > 1 {
            ", each as if the earlier ones had their expected outcomes"
        } else {
            ""
        };
        format!("\n{best}\n\nTo try next{condition}:\n{}", effect_output::aligned(&lines))
    }
}

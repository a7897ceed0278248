//! `riesz causal effect TABLE…`: the estimated effect as text, table, JSON, picture and page.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::Table;
use riesz::causal::{
    DEFAULT_DOSE_COUNT, Effect, Estimand, Pointwise, TargetPopulation, default_doses, usual_combinations,
};
use riesz::model_card::CardEntry;
use riesz_report::{EffectPage, PlotOptions, effect_report, number, render_effect};
use serde_json::{Value, json};

use super::check;
use super::effect_analysis;
use super::effect_output;
use super::query_rows::{partial_row, row, row_text as in_words, rows, rows_with};
use super::studies::StudyArgs;
use crate::args::Global;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::input::{described, name_of};
use crate::io::output::write_all;
use crate::io::picture::write_picture;
use crate::io::units::Units;
use crate::io::write::TableWriter;
use crate::output_format::{EFFECTS, EXPLANATIONS, Form, PAGES};

/// Arguments of `causal effect`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz causal effect data.csv --graph 'age -> drug; age -> y; drug -> y' --treatment drug --outcome y
  riesz causal effect data.csv --graph g.txt --treatment drug --outcome y --baseline drug=0 --report e.html
  riesz causal effect data.csv --adjust age,bmi --treatment drug --outcome y --slope drug --population p.csv
  riesz causal effect data.csv --graph 'drug -> psa -> y; drug <-> y' --treatment drug --outcome y
  riesz causal effect visits.csv --graph g.txt --treatment dose1,dose2 --outcome y --at plans.csv -o e.csv
  riesz causal effect s1.csv s2.csv --graph g.txt --treatment drug --outcome y --at grid.csv -o effect.parquet
  riesz causal effect s1.csv s2.csv --graph g.txt --treatment drug --outcome y --baseline drug=0 --given age=75
  riesz causal effect data.csv --adjust age --treatment drug,dose --outcome y --explain why.json
  riesz causal effect trial.csv scans.csv --randomized --treatment dose --outcome y -o effect.svg
  riesz causal suggest s1.csv s2.csv --graph g.txt --treatment drug --outcome y --tried tried.csv

The result is the mean outcome under an intervention, E[outcome | do(treatment)], with intervals
and the shares of its variance by source. One table with both treatment and outcome is enough: the
graph determines whether to adjust for covariates (back door), to use mediators (front door), or,
for several treatments in time, to adjust before each (sequential back door, the g-formula). Across
several studies the first has the treatments, the last the outcome, and each shares columns with
the next. 'riesz causal check' tests beforehand whether the effect is identified. If it is not, the
exit code is 2, and the message names what would help.")]
pub struct EffectArgs {
    /// The studies.
    #[command(flatten)]
    pub studies: StudyArgs,
    /// Table of treatments at which the effect is estimated [default: 50 doses over the middle 95 % of the
    /// first study's, or its levels; for several treatments combinations of their quartiles]
    #[arg(long = "at", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub treatments_file: Option<PathBuf>,
    /// Estimate the contrast with this treatment
    #[arg(long, value_name = "NAME=VALUE,…")]
    pub baseline: Vec<String>,
    /// Estimate the slope in this treatment: the change of the outcome per unit, from a small step
    #[arg(long, value_name = "NAME", conflicts_with = "baseline")]
    pub slope: Option<String>,
    /// Average over people with these values of some covariates
    #[arg(long = "given", value_name = "NAME=VALUE,…", group = "whom")]
    pub conditions: Vec<String>,
    /// Average over people who received this treatment
    #[arg(long, value_name = "NAME=VALUE,…", group = "whom")]
    pub among: Vec<String>,
    /// Average over another population: a table of the adjustment covariates, whose distribution is taken as
    /// it is
    #[arg(long, value_name = "FILE", group = "whom", value_hint = ValueHint::FilePath)]
    pub population: Option<PathBuf>,
    /// Column of the population with the weights of its members [default: all equal]
    #[arg(long, value_name = "COL", requires = "population")]
    pub weights: Option<String>,
    /// Probability of the intervals
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = level)]
    pub level: f64,
    /// Where to write the effect: a table (.csv, .parquet), a picture (.svg, .png), or everything (.json)
    /// [default: text on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Also write exact Shapley values of the treatments, which add up to the effect at each row minus its
    /// mean over the observed treatments: a table (.csv, .parquet), or .json for 'riesz plot' and 'riesz
    /// report'
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = EXPLANATIONS.parser(),
        conflicts_with_all = ["baseline", "slope"])]
    pub explain: Option<PathBuf>,
    /// Also write the part of the effect that passes through each mediator of the first two studies, by
    /// Shapley values of the outcome given the mediators: a table (.csv, .parquet)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub explain_mediators: Option<PathBuf>,
    /// Also give the association, the mean outcome of those who have the treatment, without adjustment; its
    /// difference from the effect is the confounding bias
    #[arg(long, conflicts_with_all = ["conditions", "among", "population"])]
    pub association: bool,
    /// Also give the share of the variance of the effect that one more row of each study would remove
    #[arg(long)]
    pub value_of_information: bool,
    /// Also write a page that opens in any browser, offline (.html)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = PAGES.parser())]
    pub report: Option<PathBuf>,
}

/// The treatments at which the effect is estimated.
fn treatments(args: &EffectArgs, observed: &Table, units: &Units) -> Result<Table> {
    if let Some(file) = &args.treatments_file {
        return rows(&args.studies.table, file, observed.columns(), units);
    }
    if observed.width() > 1 {
        return Ok(usual_combinations(observed)?);
    }
    Ok(default_doses(observed, DEFAULT_DOSE_COUNT)?)
}

/// The estimand at the requested treatments.
fn estimand(args: &EffectArgs, observed: &Table) -> Result<Estimand> {
    if let Some(step) = &args.slope {
        return Ok(Estimand::slope(observed, Some(step), None)?);
    }
    let baseline = row(&args.baseline, observed.columns(), "--baseline")?;
    Ok(baseline.map_or(Estimand::Level, Estimand::Contrast))
}

/// The target population with its description; `None` if the effect is averaged over everyone in the data.
fn target_population(
    args: &EffectArgs,
    observed: &Table,
    covariates: Option<&Table>,
    units: &Units,
) -> Result<Option<(TargetPopulation, String)>> {
    let description = |row: &Table| format!("those with {}", in_words(row));
    if let Some(row) = row(&args.among, observed.columns(), "--among")? {
        let description_text = description(&row);
        return Ok(Some((TargetPopulation::Treated(row), description_text)));
    }
    let option = match (&args.population, args.conditions.is_empty()) {
        (None, true) => return Ok(None),
        (None, false) => "--given",
        (Some(_), _) => "--population",
    };
    let Some(covariates) = covariates else {
        return Err(Failure::input(format!(
            "{option}: the effect is not averaged over covariates, so it is the same for all: leave the \
             option out"
        )));
    };
    let columns = covariates.columns();
    Ok(Some(match &args.population {
        None => {
            let row = partial_row(&args.conditions, columns, option)?;
            let description_text = description(&row);
            (TargetPopulation::ConditionalOn(row), description_text)
        }
        Some(file) => {
            let description_text = format!("the people of {}", name_of(file));
            let table = &args.studies.table;
            let (members, counts) = match &args.weights {
                None => {
                    let members = rows(table, file, columns, units)?;
                    let counts = vec![1.0; members.rows()];
                    (members, counts)
                }
                Some(name) => {
                    let (members, [counts]) = rows_with(table, file, columns, [name], units)?;
                    (members, counts)
                }
            };
            (TargetPopulation::members(members, &counts)?, description_text)
        }
    }))
}

/// Parses a probability strictly between 0 and 1.
fn level(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(level) if level > 0.0 && level < 1.0 => Ok(level),
        _ => Err("give a number between 0 and 1, such as 0.95".into()),
    }
}

/// The contrast between the two values of a binary treatment.
struct AverageEffect {
    to: Table,
    from: Table,
    effect: Pointwise,
}

/// The contrast between the two values of a binary treatment; `None` if the query asks for anything else.
fn average_effect(
    args: &EffectArgs,
    effect: &Effect,
    treatments: &Table,
    estimand: &Estimand,
) -> Result<Option<AverageEffect>> {
    if args.treatments_file.is_some()
        || *estimand != Estimand::Level
        || treatments.width() != 1
        || treatments.rows() != 2
    {
        return Ok(None);
    }
    let (from, to) = (treatments.select_rows(&[0]), treatments.select_rows(&[1]));
    let effect = effect.pointwise(&to, &Estimand::Contrast(from.clone()))?;
    Ok(Some(AverageEffect { to, from, effect }))
}

impl AverageEffect {
    fn name(&self) -> String {
        format!("average effect of {} instead of {}", in_words(&self.to), in_words(&self.from))
    }

    fn text(&self, level: f64) -> Result<String> {
        let [low, high] = self.effect.interval(level)?[0].map(number);
        let (mean, percent) = (number(self.effect.mean[0]), number(100.0 * level));
        Ok(format!("{mean} ({percent} % interval {low} to {high})"))
    }

    fn record(&self, level: f64) -> Result<Value> {
        let [low, high] = self.effect.interval(level)?[0];
        Ok(json!({
            "treatment": in_words(&self.to),
            "baseline": in_words(&self.from),
            "mean": self.effect.mean[0],
            "std": self.effect.sd()[0],
            "low": low,
            "high": high,
        }))
    }
}

/// Reads the studies, identifies and estimates the effect, and writes it.
pub fn run(args: &EffectArgs, global: &Global, console: Console) -> Result<()> {
    let path = args.output.as_deref();
    let form = Form::choose(path, global, EFFECTS)?;
    let read = args.studies.read()?;
    read.graph.iter().filter_map(|graph| graph.note()).for_each(|note| console.warn(note));
    let observed = read.treatments()?;
    let (points, estimand) = (treatments(args, &observed, &read.units)?, estimand(args, &observed)?);
    let requested = target_population(args, &observed, read.covariates()?.as_ref(), &read.units)?;
    let estimate = read.learn(&args.studies, global, &console)?;
    let (effect, population) = match requested {
        None if read.identification.is_single_table() => (estimate.effect, "all people of the table".into()),
        None => (estimate.effect, "all people of study 1".into()),
        Some((target, population_text)) => {
            (estimate.effect.on_population(&target, &estimate.fusion.stop)?, population_text)
        }
    };
    let pointwise = effect.pointwise(&points, &estimand)?;
    let mut run = args.studies.facts(global)?;
    for (name, file) in [("treatments", &args.treatments_file), ("population", &args.population)] {
        if let Some(file) = file {
            run.push(CardEntry::new(name, described(file)?));
        }
    }
    let average = average_effect(args, &effect, &points, &estimand)?;
    if let Some(contrast) = &average {
        run.push(CardEntry::new(contrast.name(), contrast.text(args.level)?));
    }
    let page = EffectPage {
        identification: &read.identification,
        graph: read.graph.as_ref(),
        studies: &read.gathered.studies,
        treatments: &points,
        estimand: &estimand,
        effect: &pointwise,
        population: &population,
        level: args.level,
        unmatched: &read.gathered.unmatched,
        doubts: &estimate.warnings,
        run: &run,
    };
    let identified = check::identification_text(&read.identification);
    if let Some(file) = &args.explain {
        let explanation = effect_analysis::explain(&effect, &points, &observed)?;
        effect_analysis::write(explanation, (file, global), &run)?;
    }
    if let Some(file) = &args.explain_mediators {
        let query = (&points, &estimand, &pointwise.mean[..]);
        effect_analysis::write_mediators(&effect, query, &read.gathered.studies, (file, global))?;
    }
    let association = match args.association {
        true => Some(read.association(&estimate.fusion, &console)?.pointwise(&points, &estimand)?),
        false => None,
    };
    let information = match args.value_of_information {
        true => effect_analysis::value_of_information(&effect, (&points, &estimand), &read)?,
        false => Vec::new(),
    };
    let information_text = effect_analysis::information_text(&information);
    let result = EffectResult {
        page: &page,
        average: average.as_ref(),
        association: association.as_ref(),
        information: &information,
    };
    result.write((path, form), (&identified, &information_text))?;
    if let Some(file) = &args.report {
        write_all(Some(file), effect_report(&page)?.as_bytes())?;
    }
    if path.is_some() {
        console.note(identified.trim_end());
        if form != Form::Json {
            console.note(information_text.trim_end());
        }
    }
    Ok(())
}

/// An effect with its further results, in any output form.
struct EffectResult<'a> {
    page: &'a EffectPage<'a>,
    average: Option<&'a AverageEffect>,
    /// The association, if requested.
    association: Option<&'a Pointwise>,
    /// The value of one more row of each study; empty unless requested.
    information: &'a [(String, f64)],
}

impl EffectResult<'_> {
    /// Writes the result; the text begins with `identified` and ends with `information_text`.
    fn write(
        &self,
        (path, form): (Option<&Path>, Form),
        (identified, information_text): (&str, &str),
    ) -> Result<()> {
        let Self { page, average, association, information } = self;
        match form {
            Form::Text => {
                let average = match average {
                    Some(contrast) => format!("{}: {}\n", contrast.name(), contrast.text(page.level)?),
                    None => String::new(),
                };
                let text = format!(
                    "{identified}{}{average}{information_text}",
                    effect_output::text(page, *association)?
                );
                write_all(path, text.as_bytes())
            }
            Form::Json => {
                let mut record = effect_output::record(page)?;
                record["average_effect"] = match average {
                    Some(contrast) => contrast.record(page.level)?,
                    None => Value::Null,
                };
                if let Some(association) = association {
                    record["association"] = json!({ "mean": association.mean, "std": association.sd() });
                }
                if !information.is_empty() {
                    record["value_of_information"] = information.iter().cloned().collect();
                }
                write_all(path, format!("{record:#}\n").as_bytes())
            }
            Form::Table(format) => {
                let mut columns = effect_output::columns(page)?;
                columns.extend(association.map(effect_output::association_columns).into_iter().flatten());
                TableWriter::write_columns(path, format, effect_output::named(&columns))
            }
            Form::Picture { pixels } => {
                write_picture(path, render_effect(page, &PlotOptions::default())?, pixels)
            }
            // The kind EFFECTS has no pages, which have an option of their own.
            Form::Page => Ok(()),
        }
    }
}

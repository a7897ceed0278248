//! The page of `riesz downscale map`: the map, its standard deviation, the features' contributions, and the
//! bags.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::Posterior;
use riesz::kernel_model::Link;
use riesz::model_card::CardEntry;
use riesz_report::{MapContent, NamedBags, downscale_report};

use super::map_rows::{MapData, read_bags, unit_of, warn_of_weights};
use crate::args::TableArgs;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::explain_run::Certificate;
use crate::io::aggregates::number_or_missing;
use crate::io::columns::Columns;
use crate::io::duels::{first_of, names_of};
use crate::io::output::write_all;

/// Options of pages.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Pages")]
pub struct PageArgs {
    /// Column of rows with the names of their bags, for a table of the bags' predictions and explanations
    #[arg(long, value_name = "COL")]
    pub bag: Option<String>,
    /// Column of positive weights of rows (area, people) in their bags [default: all 1]
    #[arg(long, value_name = "COL", requires = "bag", visible_alias = "exposure")]
    pub weight: Option<String>,
    /// Aggregate rows to bags by weighted sums instead of means, even if the model file does not say so
    #[arg(long, requires = "bag")]
    pub sum: bool,
    /// Table of bags with their observed targets
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["bag", "target"])]
    pub bags: Option<PathBuf>,
    /// Column of bags with the observed targets; an empty cell means not observed
    #[arg(long, value_name = "COL", requires = "bags")]
    pub target: Option<String>,
    /// (counts of successes) Column of bags with the numbers of trials
    #[arg(long, value_name = "COL", requires = "bags")]
    pub trials: Option<String>,
    /// Title of the page [default: from the model's output]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

impl PageArgs {
    /// The first given option that only pages have, if any.
    pub fn first_given(&self) -> Option<&'static str> {
        let options = [
            (self.bag.is_some(), "--bag"),
            (self.bags.is_some(), "--bags"),
            (self.title.is_some(), "--title"),
        ];
        options.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
    }
}

/// Explains, draws and writes the map; `table` has the reading options for the table of bags.
pub fn run(
    path: &Path,
    args: &PageArgs,
    (given, files): (&MapData, Vec<CardEntry>),
    (posteriors, table): (&[(f64, Posterior<'_>)], &TableArgs),
    console: &Console,
) -> Result<()> {
    let model = posteriors[0].1.mean();
    let unit = unit_of(model, args.sum)?;
    let members = args.bag.as_ref().map(|bag| read_bags(&given.columns, bag, args.weight.as_ref()));
    let members = members.transpose()?;
    if members.is_some() {
        warn_of_weights(model, args.weight.as_ref(), console);
    }
    let observed = members.as_ref().map(|members| args.observed(members, model.link, table, console));
    let observed = observed.transpose()?.flatten();
    let progress = console.progress("explaining the map");
    let mut content = MapContent::new(posteriors, &given.table, given.background.as_ref())?;
    drop(progress);
    content.explanation.provenance.run.extend(files);
    content.explanation.provenance.run.extend(given.facts.iter().cloned());
    let bags = members.as_ref().map(|members| content.over_bags(members, unit)).transpose()?;
    let title = args.title.clone().unwrap_or_else(|| content.title());
    let axes = given.axes.each_ref().map(String::as_str);
    let mut page = content.page(&title, given.locations.places(), axes);
    page.bags = members.as_ref().zip(bags.as_ref()).map(|(members, bags)| {
        let observed = observed.as_ref().map(|(name, values)| (&name[..], &values[..]));
        bags.page(members, args.bag.as_deref().unwrap_or_default(), observed)
    });
    write_all(Some(path), downscale_report(&page)?.as_bytes())?;
    let explanation = &content.explanation;
    let mut certificate = Certificate::default();
    certificate.include(explanation);
    console.note(format!("{} rows explained; {}", explanation.rows(), certificate.description()));
    certificate.check()
}

impl PageArgs {
    /// The observed values of the bags and their name, if there is a table of bags. For counts of successes
    /// among trials they are proportions.
    fn observed(
        &self,
        members: &NamedBags,
        link: Link,
        table: &TableArgs,
        console: &Console,
    ) -> Result<Option<(String, Vec<f64>)>> {
        let (Some(path), Some(target), Some(bag)) = (&self.bags, &self.target, &self.bag) else {
            return Ok(None);
        };
        match (link, &self.trials) {
            (Link::Logit, None) => {
                let reason = "a map of probabilities takes --trials with --target: give the column of bags \
                              with the numbers of trials";
                return Err(Failure::input(reason));
            }
            (Link::Logit, _) | (_, None) => {}
            (_, Some(_)) => {
                return Err(Failure::input("--trials is for a map of probabilities: leave it out"));
            }
        }
        let column_names: Vec<String> = [bag, target].into_iter().chain(&self.trials).cloned().collect();
        let columns = Columns::read(table.source(path).open()?, &column_names)?;
        let names = names_of(&columns, bag)?;
        let mut observed_values = columns.numbers_or_missing(target)?;
        if let Some(trials) = &self.trials {
            let trial_counts = columns.numbers_or_missing(trials)?;
            if let Some(b) = (0..trial_counts.len()).find(|&b| {
                !observed_values[b].is_nan() && (trial_counts[b].is_nan() || trial_counts[b] <= 0.0)
            }) {
                return Err(Failure::input(format!(
                    "{}: column '{trials}' is {} for bag '{}': trials are positive numbers",
                    columns.name,
                    number_or_missing(trial_counts[b]),
                    names[b]
                )));
            }
            observed_values.iter_mut().zip(trial_counts).for_each(|(value, count)| *value /= count);
        }
        let mut value_of_bag = HashMap::new();
        let duplicates: Vec<String> = names
            .iter()
            .zip(&observed_values)
            .filter_map(|(name, z)| value_of_bag.insert(name, *z).map(|_| name.clone()))
            .collect();
        if !duplicates.is_empty() {
            let duplicates = first_of(&duplicates);
            return Err(Failure::input(format!(
                "{} has {duplicates} twice: give one line per bag",
                columns.name
            )));
        }
        let values: Vec<f64> =
            members.names.iter().map(|name| value_of_bag.get(name).copied().unwrap_or(f64::NAN)).collect();
        let missing = values.iter().filter(|z| z.is_nan()).count();
        if missing > 0 {
            console.note(format!("note: {missing} of {} bags have no observed target", values.len()));
        }
        let name = match &self.trials {
            Some(trials) => format!("{target} / {trials}"),
            None => target.clone(),
        };
        Ok(Some((name, values)))
    }
}

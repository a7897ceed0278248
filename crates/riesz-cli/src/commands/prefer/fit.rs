//! `riesz prefer fit`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::Players;
use riesz::format::model::SavedModel;
use riesz::model_card::CardEntry;
use riesz::preference::{DEFAULT_KERNEL, LeftRightColumns};

use super::shared_fit::{Fitted, Further, Learn, Model, PreparedDuels, described, duels};
use crate::args::Global;
use crate::commands::fit::written;
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::bags::BagArgs;
use crate::io::choices::{COLUMNS, ChoiceTable};
use crate::io::duels::Items;
use crate::io::models::ModelOrAverage;
use crate::io::output::Output;

/// Arguments of `prefer fit`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer fit battles.jsonl -o m.riesz                 columns model_a, model_b and winner
  riesz prefer fit games.csv --sides home,away --scores home_goals,away_goals --home home -o m.riesz
  riesz prefer fit players.csv matches.csv --id name -o m.riesz
  riesz prefer fit phones.csv votes.csv --sides first,second --outcome choice -o m.riesz
  riesz prefer fit wide.csv --outcome won -o m.riesz          columns left_price, right_price, …, won
  riesz prefer fit players.csv matches.csv --home venue --contexts surface,season -o m.riesz
  riesz prefer fit phones.csv many_votes.csv --contexts season --landmarks 100 -o m.riesz
  riesz prefer fit phones.csv votes.csv --users judge --ability -o m.riesz
  riesz prefer fit players.csv matches.csv --members teams.csv -o m.riesz
  riesz prefer fit phones.csv picks.csv --choices -o m.riesz  columns set, item and chosen")]
pub struct Args {
    /// Options for reading the tables and for the model.
    #[command(flatten)]
    pub learn: Learn,
    /// Effects that are not properties of the items.
    #[command(flatten)]
    pub further: Further,
    /// Bags of items.
    #[command(flatten)]
    pub bags: BagArgs,
    /// Form of the log odds: a difference of utilities, which gives a ranking; any function that changes sign
    /// when the sides are swapped, cycles included; or the sum of both, with variances estimated from the
    /// data
    #[arg(long, value_name = "MODEL", value_enum, default_value_t)]
    pub model: Model,
    /// The second table is one of choices from sets of items instead of duels: one row for each item of a
    /// set, with columns of the set, the item, and 1 for each chosen item (2 for the second place, …) or 0
    /// for the others. With --model utility the probability of an item is exp f / Σ exp f
    #[arg(
        long,
        value_name = COLUMNS,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = COLUMNS,
        conflicts_with_all = [
            "home", "contexts", "users", "members", "landmarks", "ties", "outcome", "scores", "wins",
            "sides", "weight"
        ]
    )]
    pub choices: Option<String>,
    /// Leave the posterior out of the file, which then gives no probabilities; the posterior takes 4 n² bytes
    /// for n pairs that met
    #[arg(long)]
    pub no_posterior: bool,
    /// Model file to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Reads and prepares the training data. Returns the name of the items' source, their number, and the data.
fn read(args: &Args, seed: u64, console: &Console) -> Result<(String, usize, PreparedDuels)> {
    let (learn, further) = (&args.learn, &args.further);
    let further_columns = (further.effects.home.as_ref(), Some(&further.contexts));
    let (items, teams, duels_read) = match (&args.bags.members, &learn.duels) {
        (None, _) => {
            let (items, duels_read) = learn.read(further_columns.0, further_columns.1, console)?;
            (items, None, duels_read)
        }
        (Some(_), None) => {
            let reason = "--members needs a table of items and a table of duels between bags: give both";
            return Err(Failure::input(reason));
        }
        (Some(_), Some(path)) => {
            let items = Items::read(&learn.items, &learn.item_options, &learn.table, console)?;
            let teams = args.bags.read(&items, &learn.table)?;
            let names = teams.as_ref().map_or(&items.names, |bags| &bags.names);
            let duels_read = learn.read_duels(path, names, further_columns, console)?;
            (items, teams, duels_read)
        }
    };
    let names = teams.as_ref().map_or(&items.names, |bags| &bags.names);
    described(names, &duels(names, &duels_read)?, items.table.width() == 0, console);
    let (source, count) = (items.names.source.clone(), items.names.ids.len());
    let prepared = match teams {
        None => learn.prepare(args.model, &further.effects, &items, &duels_read, seed)?,
        Some(teams) => learn.prepare_bags(args.model, &further.effects, items, teams, &duels_read, seed)?,
    };
    Ok((source, count, prepared))
}

/// Fits a model of choices.
fn fit_choices(args: &Args, columns: &str, seed: u64, console: &Console) -> Result<FittedItems> {
    let learn = &args.learn;
    let path = learn.duels.as_ref().unwrap_or(&learn.items);
    let table = ChoiceTable::read(path, columns, &learn.table)?;
    let items = match &learn.duels {
        Some(_) => Items::read(&learn.items, &learn.item_options, &learn.table, console)?,
        None => table.names_only()?,
    };
    let choices = table.choices(&items.names)?;
    let (process, entries) =
        learn.prepare_choices(args.model, &args.further.effects, &items, &choices, seed)?;
    console.note(format!(
        "{} choices from {} distinct sets of {} items",
        choices.count(),
        choices.sets(),
        items.names.ids.len()
    ));
    let message = format!("fitting {} choices", choices.count());
    let done = process.progress.clone();
    let fit = with_progress(console, &message, &done, || learn.fit_choices(&process, &entries, console))?;
    let abilities_only = items.table.width() == 0;
    Ok(FittedItems { fit, source: items.names.source, count: items.names.ids.len(), abilities_only })
}

/// A fit with the items to which it was fitted.
struct FittedItems {
    fit: Fitted,
    /// The name of the items' source.
    source: String,
    /// The number of items.
    count: usize,
    /// Whether items have abilities and no columns.
    abilities_only: bool,
}

/// Fits a model of duels.
fn fit_duels(args: &Args, seed: u64, console: &Console) -> Result<FittedItems> {
    let (source, count, prepared) = read(args, seed, console)?;
    let prior = &prepared.process.prior;
    let abilities_only = prior.utility_variance + prior.generalised_variance == 0.0;
    if let Some(max_landmarks) =
        args.further.max_landmarks(&prepared.duels).filter(|_| args.model != Model::Linear)
        && args.further.landmarks.is_none()
        && !abilities_only
    {
        console.note(format!(
            "note: {} pairs met, so the fit uses {} landmarks, and the file holds no posterior; change this \
             with --landmarks",
            prepared.duels.pairs().len(),
            max_landmarks.min(count)
        ));
    }
    let message = format!("fitting {} pairs", prepared.duels.pairs().len());
    let done = prepared.process.progress.clone();
    let fit = with_progress(console, &message, &done, || {
        args.further.fit(args.model, &args.learn, prepared, console)
    })?;
    Ok(FittedItems { fit, source, count, abilities_only })
}

/// Fits a model of duels or choices and writes it.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.is_json_requested()?;
    let Some(path) = args.output.as_deref() else {
        return Err(Failure::input("no output file is given for the model: give -o FILE"));
    };
    let output = Output::open(Some(path))?;
    let fitted = match &args.choices {
        Some(columns) => fit_choices(args, columns, global.seed, &console)?,
        None => fit_duels(args, global.seed, &console)?,
    };
    let FittedItems { fit, source, count, abilities_only } = fitted;
    fit.warnings.iter().for_each(|warning| console.warn(warning));
    let mut model = fit.model;
    model.model_card.push(CardEntry::new("data", source));
    model.model_card.push(CardEntry::new("items", count));
    if !abilities_only {
        model
            .model_card
            .push(CardEntry::new("standardised", if args.learn.no_standardise { "no" } else { "yes" }));
        model.model_card.push(CardEntry::new(
            "kernel expression",
            args.learn.kernel.as_deref().unwrap_or(DEFAULT_KERNEL),
        ));
    }
    model.model_card.push(CardEntry::new("riesz", env!("CARGO_PKG_VERSION")));
    let sides = LeftRightColumns::from_columns(model.columns())?;
    let both_sides =
        |c: &riesz::Column| (c.name.clone(), vec![format!("left_{}", c.name), format!("right_{}", c.name)]);
    let players: Vec<(String, Vec<String>)> = sides.items(model.columns()).iter().map(both_sides).collect();
    let groups = Some(Players::named(model.columns(), &players)?);
    let summary = model.facts();
    let covariance = fit.covariance.filter(|_| !args.no_posterior);
    let best = SavedModel { model, covariance, groups };
    let mut average = fit.average;
    if let Some(average) = &mut average {
        console.note(format!(
            "predictions are averages over {} models with other hyper-parameters (--hyperparameter-samples 0 \
             takes the best ones)",
            average.models.len()
        ));
        average.models.iter_mut().filter(|_| args.no_posterior).for_each(|part| part.covariance = None);
    }
    written(&ModelOrAverage { best, average }.into_bytes()?, output, &summary, as_json, console)
}

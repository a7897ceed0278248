//! `riesz prefer evaluate`.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use riesz::preference::{AbilityRidge, BradleyTerry, Pair, Scores, Split, split};
use riesz::{ColumnKind, Link, Prediction};

use super::fit::{Learn, Model, described, duels};
use super::predict::rows_in;
use crate::args::Global;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::duels::{Items, Met};
use crate::io::write::{Cells, TableWriter};

/// Arguments of `prefer evaluate`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer evaluate players.csv matches.csv --id name
  riesz prefer evaluate players.csv matches.csv --models nested,utility --repeats 5
  riesz prefer evaluate players.csv matches.csv --split items            players that were not seen

Each repeat keeps a share of the pairs, with all their duels, from every model, and tests it on them: a pair's duels apart would tell a model what
it is tested on. The table has a line a model: accuracy, auc and log_loss (0.693 for coins), each with its standard deviation over the repeats.")]
pub struct Args {
    /// How tables and models are read and made.
    #[command(flatten)]
    pub learn: Learn,
    /// Which models
    #[arg(
        long,
        value_name = "MODEL,…",
        value_enum,
        value_delimiter = ',',
        default_value = "nested,utility,generalised,bradley-terry,linear,coin"
    )]
    pub models: Vec<Compared>,
    /// How many splits, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub repeats: usize,
    /// The share of pairs, or items, that is kept for the test
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    pub test: f64,
    /// What is kept apart: pairs of items; or items, so that both of a test duel are new
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub split: Apart,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compared {
    /// A utility and what may be cyclic.
    Nested,
    /// A ranking.
    Utility,
    /// What may be cyclic.
    Generalised,
    /// An ability for each item, whatever its columns (Bradley and Terry).
    BradleyTerry,
    /// Weighted sums of the items' columns.
    Linear,
    /// A probability of one half.
    Coin,
}

/// What is kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Apart {
    /// Pairs of items.
    #[default]
    Pairs,
    /// Items.
    Items,
}

/// Splits, fits, scores and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let (items, met) = args.learn.read(&console)?;
    described(&items, &duels(&items, &met)?, &console);
    if args.repeats == 0 {
        return Err(Failure::input("--repeats 0: at least one split"));
    }
    let categories = items.table.columns().iter().find(|c| c.kind != ColumnKind::Numeric);
    let mut models = args.models.clone();
    if let Some(column) = categories.filter(|_| models.contains(&Compared::Linear)) {
        console.note(format!("note: column '{}' holds categories, so there is no linear model", column.name));
        models.retain(|model| *model != Compared::Linear);
    }
    let by = if args.split == Apart::Items { Split::Items } else { Split::Pairs };
    let mut found: Vec<Vec<Scores>> = vec![Vec::new(); models.len()];
    let progress = console.progress("evaluating");
    for repeat in 0..args.repeats {
        let seed = global.seed.wrapping_add(repeat as u64);
        let parts = split(&met.left, &met.right, by, args.test, seed)?;
        let [train, tested] = [false, true].map(|test| some(&met, &parts, test));
        let test: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] == Some(true)).collect();
        let pairs: Vec<Pair> = test.iter().map(|&i| (met.left[i], met.right[i])).collect();
        let outcome = met.outcome.as_deref().unwrap_or(&[]);
        let ended: Vec<f64> = test.iter().map(|&i| outcome[i]).collect();
        for (model, scores) in models.iter().zip(&mut found) {
            progress.say(format!("split {} of {}, {}", repeat + 1, args.repeats, named(*model)));
            let chance = match model {
                Compared::Coin => vec![0.5; test.len()],
                Compared::BradleyTerry => by_abilities(&items, &train, &pairs)?,
                Compared::Nested => by_model(args, Model::Nested, (&items, &train, &tested), seed)?,
                Compared::Utility => by_model(args, Model::Utility, (&items, &train, &tested), seed)?,
                Compared::Generalised => by_model(args, Model::Generalised, (&items, &train, &tested), seed)?,
                Compared::Linear => by_model(args, Model::Linear, (&items, &train, &tested), seed)?,
            };
            scores.push(Scores::of(&chance, &ended));
        }
    }
    drop(progress);
    let of = |read: fn(&Scores) -> f64, spread: bool| {
        let own = |scores: &Vec<Scores>| {
            let all: Vec<f64> = scores.iter().map(read).collect();
            // From the first on, so that what is always the same has no spread.
            let mean = all.iter().map(|v| v - all[0]).sum::<f64>() / all.len() as f64;
            let squares: f64 = all.iter().map(|v| (v - all[0] - mean).powi(2)).sum();
            if spread { (squares / (all.len() as f64 - 1.0)).sqrt() } else { all[0] + mean }
        };
        Cells::Numbers(found.iter().map(own).collect())
    };
    let mut names = vec!["model".to_string()];
    let mut cells = vec![Cells::Texts(models.iter().map(|m| named(*m)).collect())];
    for (name, read) in [
        ("accuracy", (|s| s.accuracy) as fn(&Scores) -> f64),
        ("auc", |s| s.auc),
        ("log_loss", |s| s.log_loss),
    ] {
        names.push(name.into());
        cells.push(of(read, false));
        if args.repeats > 1 {
            names.push(format!("{name}_sd"));
            cells.push(of(read, true));
        }
    }
    let mut table = TableWriter::open(args.output.as_deref(), format, names, cells.clone())?;
    table.rows(cells)?;
    table.finish()
}

fn named(model: Compared) -> String {
    model.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
}

/// Probabilities that left items win, of a process or a linear model.
fn by_model(
    args: &Args,
    model: Model,
    (items, train, test): (&Items, &Met, &Met),
    seed: u64,
) -> Result<Vec<f64>> {
    let fit = args.learn.fit(model, args.learn.arranged(model, items, train, seed)?)?;
    let pairs: Vec<Pair> = test.left.iter().copied().zip(test.right.iter().copied()).collect();
    let rows = rows_in(&fit.model, &items.table, &pairs, test)?;
    let found = Prediction::of(&fit.model, fit.covariance.as_ref(), &rows)?;
    let Some(chances) = found.probabilities else {
        // Through landmarks files know no posterior, and ties at its mean alone.
        let Link::LatentTies { margin } = fit.model.link else {
            return Err(Failure::input("the model has no probabilities"));
        };
        let logistic = |g: f64| 1.0 / (1.0 + (-g).exp());
        let ahead = |g: f64| 0.5 * (1.0 + logistic(g - margin) - logistic(-g - margin));
        return Ok(found.outputs.data().iter().map(|g| ahead(*g)).collect());
    };
    // Of ties that are outcomes of their own half is for either side.
    let tie = |i: usize| if chances.cols() > 2 { 0.5 * chances[(i, 2)] } else { 0.0 };
    Ok((0..rows.rows()).map(|i| chances[(i, 1)] + tie(i)).collect())
}

/// The same by an ability for each item, whatever its columns.
fn by_abilities(items: &Items, train: &Met, pairs: &[Pair]) -> Result<Vec<f64>> {
    let fit = BradleyTerry::new(AbilityRidge::Evidence).fit(&items.ids, &duels(items, train)?)?;
    Ok(pairs.iter().map(|&(l, r)| 1.0 / (1.0 + (fit.coef[r] - fit.coef[l]).exp())).collect())
}

/// The duels of one part of a split.
fn some(met: &Met, parts: &[Option<bool>], test: bool) -> Met {
    let kept: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] == Some(test)).collect();
    let places = |side: &[usize]| kept.iter().map(|&i| side[i]).collect();
    let numbers = |all: &Vec<f64>| kept.iter().map(|&i| all[i]).collect();
    Met {
        left: places(&met.left),
        right: places(&met.right),
        outcome: met.outcome.as_ref().map(numbers),
        weight: met.weight.as_ref().map(numbers),
        home: met.home.as_ref().map(|home| kept.iter().map(|&i| home[i]).collect()),
        contexts: met.contexts.as_ref().map(|contexts| contexts.select_rows(&kept)),
    }
}

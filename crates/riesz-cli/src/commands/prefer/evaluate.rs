//! `riesz prefer evaluate`.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use riesz::preference::{AbilityRidge, BradleyTerry, Pair, ProbabilityScores, Split, split};
use riesz::{ColumnKind, Link, Prediction};

use super::fit::{Further, Learn, Model, described, duels};
use super::predict::rows_in;
use crate::args::Global;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::duels::{Items, Met};
use crate::io::write::{Cells, TableWriter};

/// Arguments of `prefer evaluate`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer evaluate players.csv matches.csv --id name
  riesz prefer evaluate players.csv matches.csv --models nested,utility --repeats 5
  riesz prefer evaluate players.csv matches.csv --split items            players that were not seen
  riesz prefer evaluate players.csv matches.csv --split time=played      the future from the past
  riesz prefer evaluate players.csv matches.csv --split context=season   seasons that were not seen

Each repeat keeps a share of the pairs, with all their duels, from every model, and tests it on
them: a pair's duels apart would tell a model what it is tested on. The table has a line a model:
accuracy, auc and log_loss (0.693 for coins), each with its standard deviation over the repeats.")]
pub struct Args {
    /// How tables and models are read and made.
    #[command(flatten)]
    pub learn: Learn,
    /// What there is besides the items' columns.
    #[command(flatten)]
    pub further: Further,
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
    /// What is kept apart: pairs of items; items, so that both of a test duel are new; the last duels by a
    /// column of numbers or dates (2024-05-01), in one split; or whole contexts, the seasons or users of a
    /// column
    #[arg(long, value_name = "pairs|items|time=COL|context=COL", default_value = "pairs")]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Apart {
    /// Pairs of items.
    Pairs,
    /// Items.
    Items,
    /// The last duels, by a column of the table of duels.
    Time(String),
    /// All duels with some levels of a column of the table of duels.
    Context(String),
}

impl std::str::FromStr for Apart {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            None if text == "pairs" => Ok(Self::Pairs),
            None if text == "items" => Ok(Self::Items),
            Some(("time", column)) if !column.is_empty() => Ok(Self::Time(column.into())),
            Some(("context", column)) if !column.is_empty() => Ok(Self::Context(column.into())),
            _ => Err("it is pairs, items, time=COLUMN or context=COLUMN".into()),
        }
    }
}

/// What duels have that they are split by.
enum Marks {
    None,
    Times(Vec<f64>),
    Contexts(Vec<usize>),
}

/// Splits, fits, scores and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let further = &args.further;
    let (items, met) = args.learn.read(further.effects.home.as_ref(), Some(&further.contexts), &console)?;
    let alone = items.table.width() == 0;
    described(&items.names, &duels(&items.names, &met)?, alone, &console);
    if args.repeats == 0 {
        return Err(Failure::input("--repeats 0: at least one split"));
    }
    let categories = items.table.columns().iter().find(|c| c.kind != ColumnKind::Numeric);
    let mut models = args.models.clone();
    if let Some(column) = categories.filter(|_| models.contains(&Compared::Linear)) {
        console.note(format!("note: column '{}' holds categories, so there is no linear model", column.name));
        models.retain(|model| *model != Compared::Linear);
    }
    if alone {
        // A utility is what abilities are, with a home and ties if there are some.
        models.retain(|model| matches!(model, Compared::Utility | Compared::BradleyTerry | Compared::Coin));
    }
    if models.is_empty() {
        let why = "--models: of items with nothing but names there are utility, bradley-terry and coin";
        return Err(Failure::input(why));
    }
    let marks = marks(args, &met, alone)?;
    let (by, repeats) = match &marks {
        Marks::Times(times) => {
            console.note("one split: the last duels are tested on, those before are learnt from");
            (Split::Time(times), 1)
        }
        Marks::Contexts(contexts) => (Split::Contexts(contexts), args.repeats),
        Marks::None if args.split == Apart::Items => (Split::Items, args.repeats),
        Marks::None => (Split::Pairs, args.repeats),
    };
    let mut found: Vec<Vec<ProbabilityScores>> = vec![Vec::new(); models.len()];
    let progress = console.progress("evaluating");
    for repeat in 0..repeats {
        let seed = global.seed.wrapping_add(repeat as u64);
        let parts = split(&met.left, &met.right, by, args.test, seed)?;
        let [train, tested] = [false, true].map(|test| some(&met, &parts, test));
        let test: Vec<usize> = (0..parts.len()).filter(|&i| parts[i] == Some(true)).collect();
        let pairs: Vec<Pair> = test.iter().map(|&i| (met.left[i], met.right[i])).collect();
        let outcome = met.outcome.as_deref().unwrap_or(&[]);
        let ended: Vec<f64> = test.iter().map(|&i| outcome[i]).collect();
        // A row of counts is as many duels.
        let counts = tested.weight.as_ref().filter(|_| args.learn.of_duels.wins.is_some());
        let each = |all: &[f64]| -> Vec<f64> {
            let times = |i: usize| counts.map_or(1, |counts| counts[i].round().max(1.0) as usize);
            (0..all.len()).flat_map(|i| std::iter::repeat_n(all[i], times(i))).collect()
        };
        for (model, scores) in models.iter().zip(&mut found) {
            progress.say(format!("split {} of {}, {}", repeat + 1, repeats, named(*model)));
            let chance = match model {
                Compared::Coin => vec![0.5; test.len()],
                Compared::BradleyTerry => by_abilities(&items, &train, &pairs)?,
                Compared::Nested => by_model(args, Model::Nested, (&items, &train, &tested), seed)?,
                Compared::Utility => by_model(args, Model::Utility, (&items, &train, &tested), seed)?,
                Compared::Generalised => by_model(args, Model::Generalised, (&items, &train, &tested), seed)?,
                Compared::Linear => by_model(args, Model::Linear, (&items, &train, &tested), seed)?,
            };
            scores.push(ProbabilityScores::of(&each(&chance), &each(&ended)));
        }
    }
    drop(progress);
    let of = |read: fn(&ProbabilityScores) -> f64, spread: bool| {
        let own = |scores: &Vec<ProbabilityScores>| {
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
        ("accuracy", (|s| s.accuracy) as fn(&ProbabilityScores) -> f64),
        ("auc", |s| s.auc),
        ("log_loss", |s| s.log_loss),
    ] {
        names.push(name.into());
        cells.push(of(read, false));
        if repeats > 1 {
            names.push(format!("{name}_sd"));
            cells.push(of(read, true));
        }
    }
    let mut table = TableWriter::open(args.output.as_deref(), format, names, cells.clone())?;
    table.rows(cells)?;
    table.finish()
}

/// The times or contexts of duels, by a column of their table.
fn marks(args: &Args, met: &Met, alone: bool) -> Result<Marks> {
    let (Apart::Time(column) | Apart::Context(column)) = &args.split else { return Ok(Marks::None) };
    let one = alone.then_some(&args.learn.items);
    let Some(path) = args.learn.duels.as_ref().or(one) else {
        let why = format!(
            "--split …={column}: it is a column of a table of duels: give the items in a table of their own"
        );
        return Err(Failure::input(why));
    };
    let rows = args.learn.table.source(path).open()?;
    let name = rows.name.clone();
    rows.places(std::slice::from_ref(column))?;
    let columns = Columns::read(rows, std::slice::from_ref(column))?;
    let (levels, codes) = columns.levels(column)?;
    let codes: Vec<f64> = met.rows.iter().map(|&row| codes[row]).collect();
    if matches!(args.split, Apart::Context(_)) {
        return Ok(Marks::Contexts(codes.iter().map(|code| *code as usize).collect()));
    }
    let values: Option<Vec<f64>> = levels.iter().map(|level| level.parse().ok()).collect();
    if let Some(values) = values {
        return Ok(Marks::Times(codes.iter().map(|code| values[*code as usize]).collect()));
    }
    // Dates sort as their texts do.
    if let Some(other) = levels.iter().find(|level| !is_date(level)) {
        return Err(Failure::input(format!(
            "{name}: column '{column}' holds '{other}': times are numbers, or dates as 2024-05-01"
        )));
    }
    let mut order: Vec<usize> = (0..levels.len()).collect();
    order.sort_by_key(|&k| &levels[k]);
    let mut place = vec![0.0; levels.len()];
    order.iter().enumerate().for_each(|(at, &k)| place[k] = at as f64);
    Ok(Marks::Times(codes.iter().map(|code| place[*code as usize]).collect()))
}

/// Whether a text begins as 2024-05-01 does.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|own| own.iter().all(u8::is_ascii_digit))
    };
    digits(0..4) && digits(5..7) && digits(8..10) && bytes[4] == b'-' && bytes[7] == b'-'
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
    let pairs: Vec<Pair> = test.left.iter().copied().zip(test.right.iter().copied()).collect();
    let arranged = args.learn.arranged(model, &args.further.effects, items, train, seed)?;
    if arranged.abilities.is_some() {
        return by_abilities(items, train, &pairs);
    }
    let fit = args.further.fit(model, arranged)?;
    let rows = rows_in(&fit.model, items, &pairs, test)?;
    let found = Prediction::of(&fit.model, fit.covariance.as_ref(), &rows)?;
    let Some(chances) = found.probabilities else {
        // Through landmarks files know no posterior, and ties at its mean alone.
        let Link::LatentRaoKupper { margin } = fit.model.link else {
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
    let fit =
        BradleyTerry::new(AbilityRidge::Evidence).fit(&items.names.ids, &duels(&items.names, train)?)?;
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
        rows: places(&met.rows),
        count: kept.len(),
    }
}

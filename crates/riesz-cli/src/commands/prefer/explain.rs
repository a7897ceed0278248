//! `riesz prefer explain`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{ValueEnum, ValueHint};
use riesz::embedding::{Conditioning, Ridge};
use riesz::explanation::{Exactness, Fact};
use riesz::linalg::Sparse;
use riesz::preference::{DuelGame, DuelLogOdds, DuelQuestion, LeftRightColumns, differences, explain};
use riesz::{Background, Explanation, ValueIndex};

use super::predict::{Against, Asked, Meeting, Seen, at_nobodys, rows_in};
use crate::args::{Format, Global};
use crate::console::{Console, printable, watched};
use crate::explaining::{Certificate, write_explanation};
use crate::failure::{Failure, Result};
use crate::games::read_groups;
use crate::io::duels::{Items, Met, OutcomeArgs};
use crate::io::input::described;
use crate::io::output::{Output, write_all};
use crate::io::values;

/// Arguments of `prefer explain`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer explain m.riesz players.csv --left Ann --right Bob
  riesz prefer explain m.riesz players.csv --left Ann                  against everybody, on average
  riesz prefer explain m.riesz players.csv --left Ann --against all -o ann.json
  riesz prefer explain m.riesz players.csv matches.csv -o why.csv
  riesz prefer explain m.riesz players.csv matches.csv --mean winner -o won.json
  riesz prefer explain m.riesz players.csv matches.csv --game paired --covariance -o why.json
  riesz plot beeswarm why.json -o why.svg

A player is a property of both items. Its value says how much it adds to the log odds that the left
item wins (of a model with --ties model: to its advantage, the log odds before the margin of ties is
taken off); the values of the duel the other way round are the same with the opposite sign. One
duel, or one item against all others, is told in words where there is no -o.")]
pub struct Args {
    /// Which duels.
    #[command(flatten)]
    pub asked: Asked,
    /// What absent properties become: those of two random items, one a side; of one random item on both
    /// sides; of the two items of a random duel of --matches; of the item --baseline; nothing, as their
    /// kernel factors are 1; or what they are like given the item's present ones
    #[arg(long, value_name = "GAME", value_enum, default_value_t)]
    pub game: Absent,
    /// Table of items that absent properties are taken from [default: the items]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub background: Option<PathBuf>,
    /// So many of the background's items, drawn with the seed
    #[arg(long, value_name = "N")]
    pub background_rows: Option<usize>,
    /// (matches) Table of duels between the items
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub matches: Option<PathBuf>,
    /// (baseline) Name of an item
    #[arg(long, value_name = "ITEM")]
    pub baseline: Option<String>,
    /// (observational) How much conditional distributions are smoothed [default: what predicts left-out items
    /// best]
    #[arg(long, value_name = "RIDGE")]
    pub ridge: Option<f64>,
    /// Properties that are one player, 'name=col,col;name=col', or a file with one group a line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Which value, as 'riesz explain --index' has it
    #[arg(long, value_name = "INDEX", default_value = "shapley")]
    pub index: String,
    /// Also say how sure each value is, by the posterior: in every game but functional; of more than 12
    /// properties, --groups of which are one, not in the observational one, and in the independent one of up
    /// to 100 items
    #[arg(long)]
    pub covariance: bool,
    /// Estimate values, with standard errors, along so many random orders of the properties, at least 16: for
    /// models of many properties and landmarks, whose exact values take long
    #[arg(long, value_name = "N")]
    pub permutations: Option<usize>,
    /// With --left: one mean over the duels with all others, or with those whom a table names in its first
    /// column
    #[arg(long, value_name = "all|FILE", value_hint = ValueHint::FilePath, requires = "left", conflicts_with = "right")]
    pub against: Option<PathBuf>,
    /// One mean over a table of duels: as the side on the left sees them, or as who won does. Over both
    /// orders of two items it would be 0
    #[arg(long, value_name = "SIDE", value_enum, conflicts_with = "left")]
    pub mean: Option<Seen>,
    /// (--mean winner) Who won.
    #[command(flatten)]
    pub outcomes: OutcomeArgs,
    /// Where to write the values [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Games of duels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Absent {
    /// Two random items, one a side.
    #[default]
    Independent,
    /// One random item on both sides.
    Paired,
    /// Items who meet.
    Matches,
    /// One item.
    Baseline,
    /// Kernel factors of 1.
    Functional,
    /// Given the present ones.
    Observational,
}

/// Explains, and writes or says.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let against = match args.against.as_deref() {
        None => Against::Others,
        Some(all) if all == Path::new("all") => Against::Others,
        Some(path) => Against::Listed(path),
    };
    let mean = args.mean.or_else(|| args.against.is_some().then_some(Seen::Left));
    let ended = (mean == Some(Seen::Winner)).then_some(&args.outcomes);
    let asked = args.asked.read(against, ended, &console)?;
    if args.covariance && (mean.is_some() || asked.sums.is_some()) {
        let why = "--covariance: how the values of one duel vary with those of another is not kept, so of a \
                   mean over several nothing is said of how sure it is: leave it out";
        return Err(Failure::input(why));
    }
    let one_item = args.asked.left.is_some();
    let in_words = one_item && args.output.is_none() && matches!(global.format, None | Some(Format::Text));
    let format = if in_words { Format::Text } else { global.table_format(args.output.as_deref())? };
    let (question, facts) = question(args, global.seed, &asked, &console)?;
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let message = format!("explaining {} duels", asked.rows.rows());
    let (model, covariance) = (&asked.saved.model, asked.saved.covariance.as_ref());
    let mut found = watched(&console, &message, &progress, || {
        explain(model, covariance, &asked.rows, &question, &stop, &progress)
    })?;
    found.provenance.run.push(Fact::new("model file", described(&args.asked.model)?));
    found.provenance.run.extend(facts);
    // Plots and pages tell items apart by what is different.
    let mut found = if in_words { found } else { differences(&found)? };
    if let Some(sums) = &asked.sums {
        found = found.average(sums)?;
        found.provenance.run.push(Fact::new(
            "bags",
            "log odds of two bags, and their values, are means over pairs of their members",
        ));
    }
    let odds = asked.odds()?;
    found.duels = Some(odds.duels(&asked.left, &asked.right));
    let mut certificate = Certificate::default();
    if in_words {
        certificate.include(&found);
        let several = args.against.is_some() || args.asked.right.is_none();
        let text = if several { average(&found, &odds) } else { words(&found, &odds, asked.sums.is_none()) };
        write_all(None, format!("{text}{}\n", certificate.words()).as_bytes())?;
        return certificate.check();
    }
    if let Some(seen) = mean {
        let count = found.rows();
        found = mean_of(&found, seen, asked.outcome.as_deref())?;
        console.note(format!(
            "mean over {count} duels, seen from {}",
            match seen {
                Seen::Left => "the left",
                Seen::Winner => "who won",
            }
        ));
    }
    certificate.include(&found);
    let rows = found.rows();
    written(found, args.output.as_deref(), format)?;
    console.note(format!(
        "{rows} {} explained; {}",
        if mean.is_some() { "mean" } else { "duels" },
        certificate.words()
    ));
    certificate.check()
}

/// The mean of explained duels as one row; of those seen from winners ties are left out.
fn mean_of(found: &Explanation, seen: Seen, outcome: Option<&[f64]>) -> Result<Explanation> {
    let decided = |i: usize| seen == Seen::Left || outcome.is_none_or(|outcome| outcome[i] != 0.5);
    let weights = (0..found.rows()).filter(|&i| decided(i)).map(|i| (i, 1.0));
    let mut mean = found.average(&Sparse::from_columns(found.rows(), [weights])?)?;
    if let (Seen::Winner, Some([duel])) = (seen, mean.duels.as_deref_mut()) {
        (duel.left, duel.right) = ("winners".into(), "losers".into());
    }
    Ok(mean)
}

/// What the arguments ask, and facts about it.
fn question(
    args: &Args,
    seed: u64,
    Meeting { saved, items, .. }: &Meeting,
    console: &Console,
) -> Result<(DuelQuestion, Vec<Fact>)> {
    let mut facts = Vec::new();
    let needs = |option: &str, game: Absent, given: bool| match given && args.game != game {
        true => Err(Failure::input(format!("{option} has no use in this game: leave it out"))),
        false => Ok(()),
    };
    needs("--matches", Absent::Matches, args.matches.is_some())?;
    needs("--baseline", Absent::Baseline, args.baseline.is_some())?;
    needs("--ridge", Absent::Observational, args.ridge.is_some())?;
    let alone = matches!(args.game, Absent::Matches | Absent::Baseline | Absent::Functional);
    if alone && (args.background.is_some() || args.background_rows.is_some()) {
        return Err(Failure::input("a background of items has no use in this game: leave it out"));
    }
    let of = &args.asked;
    let mut background = || -> Result<Background> {
        let mut rows = items.table.clone();
        if let Some(path) = &args.background {
            facts.push(Fact::new("background", described(path)?));
            rows = Items::for_model(path, (&of.of_items, &of.table, of.cells), &items.table)?.table;
        }
        if let Some(count) = args.background_rows {
            rows = rows.select_rows(&rows.sample_rows(count.max(1), seed));
        }
        facts.push(Fact::new("background items", rows.rows()));
        Ok(at_nobodys(&saved.model, &rows)?.into())
    };
    let game = match args.game {
        Absent::Independent => DuelGame::Independent(background()?),
        Absent::Paired => DuelGame::Paired(background()?),
        Absent::Functional => DuelGame::Functional,
        Absent::Observational => {
            let ridge = args.ridge.map_or(Ridge::CrossValidated, Ridge::Fixed);
            DuelGame::Observational(background()?, Conditioning { ridge, seed, ..Conditioning::default() })
        }
        Absent::Baseline => {
            let Some(id) = &args.baseline else {
                return Err(Failure::input("the baseline game takes an item: --baseline ITEM"));
            };
            DuelGame::Baseline(at_nobodys(&saved.model, &items.table.select_rows(&[items.names.place(id)?]))?)
        }
        Absent::Matches => {
            let Some(path) = &args.matches else {
                return Err(Failure::input("the game matches takes a table of duels: --matches FILE"));
            };
            let rows = of.table.source(path).open()?;
            let met = Met::read(rows, &items.names, of.wanted(&[]), console)?;
            let pairs: Vec<_> = met.left.iter().copied().zip(met.right.iter().copied()).collect();
            DuelGame::Matches(rows_in(&saved.model, items, &pairs, &met)?)
        }
    };
    let columns = LeftRightColumns::of(saved.model.columns())?.items(saved.model.columns());
    let groups = args.groups.as_deref().map(|text| read_groups(text, &columns)).transpose()?;
    let named = |own: &riesz::table::Player| {
        (own.name.clone(), own.columns.iter().map(|&j| columns[j].name.clone()).collect())
    };
    let groups = groups.map_or(Vec::new(), |groups| groups.players().iter().map(named).collect());
    let index: ValueIndex = args.index.parse()?;
    let (covariance, permutations) = (args.covariance, args.permutations);
    Ok((DuelQuestion { groups, index, covariance, permutations, seed, ..DuelQuestion::new(game) }, facts))
}

/// Writes a table of values, or a whole explanation.
fn written(found: Explanation, path: Option<&Path>, format: Format) -> Result<()> {
    if format == Format::Json {
        return write_explanation(Output::open(path)?, &found, None);
    }
    let mut writer = values::Writer::open(path, format, &found)?;
    writer.rows(&found)?;
    writer.finish(found.provenance.run.clone())
}

/// One duel in words: who wins, how sure that is, and why, the strongest first.
fn words(found: &Explanation, odds: &DuelLogOdds, of_items: bool) -> String {
    let duel = &found.duels.iter().flatten().next();
    let who = duel.map_or_else(String::new, |duel| match duel.words() {
        Some(words) => printable(&words),
        None => {
            printable(&format!("{}; the file holds no posterior, so there is no probability", duel.name()))
        }
    });
    let base =
        if found.base_values[0] == 0.0 { String::new() } else { format!("{:.3}, ", found.base_values[0]) };
    let out = format!("{who}\n{} {:.3} = {base}by property:\n", quantity(odds), found.predictions[0]);
    let drawn = match &found.exactness {
        Exactness::Estimated { std_error, .. } => Some(std_error.clone()),
        _ => None,
    };
    let sd = found.sd().or(drawn);
    let beside = |k: usize| {
        let sure = sd.as_ref().map_or(String::new(), |sd| format!(" ± {:.3}", 1.96 * sd[k]));
        format!("{sure}{}", if of_items { of_both(found, k) } else { String::new() })
    };
    out + &listed(found, &found.values[..found.sets()], beside)
}

/// An item against others in words: means over them, and how much each property counts in a duel, either way.
fn average(found: &Explanation, odds: &DuelLogOdds) -> String {
    let (n, sets) = (found.rows() as f64, found.sets());
    let mean = |all: &[f64]| all.iter().sum::<f64>() / n;
    let left = found.duels.iter().flatten().next().map_or_else(String::new, |duel| printable(&duel.left));
    let mut out = match &odds.probability {
        Some(p) => format!("{left} beats a random one of {n} others with probability {:.2}\n", mean(p)),
        None => format!("{left} against {n} others\n"),
    };
    out += &format!(
        "{} {:.3} on average, by property, and in brackets the mean size in one duel:\n",
        quantity(odds),
        mean(&found.predictions)
    );
    let column = |k: usize| (0..found.rows()).map(|i| found.values[i * sets + k]).collect::<Vec<_>>();
    let values: Vec<f64> = (0..sets).map(|k| mean(&column(k))).collect();
    let sizes = found.mean_abs(0);
    out + &listed(found, &values, |k| format!("  ({:.3})", sizes[k]))
}

/// What values add up to, in words.
fn quantity(odds: &DuelLogOdds) -> String {
    match odds.margin {
        0.0 => "log odds".into(),
        margin => format!("advantage (log odds of a win are less by the margin of ties {margin:.3})"),
    }
}

/// A line a set, the largest first.
fn listed(found: &Explanation, values: &[f64], beside: impl Fn(usize) -> String) -> String {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()));
    let names: Vec<String> = order.iter().map(|&k| printable(&found.set_name(k))).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |(&k, name): (&usize, &String)| format!("  {name:width$}  {:+.3}{}\n", values[k], beside(k));
    order.iter().zip(&names).map(line).collect()
}

/// What the two items have in the columns of a set.
fn of_both(found: &Explanation, k: usize) -> String {
    let [l, r] = found.set_columns(k)[..] else { return String::new() };
    let (columns, cell) = (found.data.columns(), |j: usize| found.data.get(0, j));
    let shown = |j: usize| printable(&columns[j].format(cell(j)));
    format!("  ({} against {})", shown(l), shown(r))
}

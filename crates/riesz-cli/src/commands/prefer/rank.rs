//! `riesz prefer rank`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::ValueHint;
use riesz::preference::{
    AbilityRidge, BradleyTerry, ELO_MEAN, ID, ModelEvidence, Rankability, RankingRequest, SpecR,
};
use riesz::{Column, Table};
use riesz_report::{PlotOptions, render_ladder};

use super::fit::{EffectArgs, Learn, Model, PreparedDuels, described, duels};
use crate::args::Global;
use crate::console::{Console, printable, with_progress};
use crate::exit::Result;
use crate::io::duels::{IndexedDuels, Items};
use crate::io::picture::{drawn, in_pixels};
use crate::io::write::{Cells, TableWriter};

/// Largest number of items for which SpecR is computed: it takes eigenvalues of n × n matrices.
const SPECR_MAX_ITEMS: usize = 400;

/// Arguments of `prefer rank`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer rank battles.jsonl        a leaderboard from names alone
  riesz prefer rank games.csv --sides home,away --scores home_goals,away_goals --home home
  riesz prefer rank players.csv matches.csv --id name
  riesz prefer rank players.csv matches.csv --cycles 20 -o ranks.csv --plot ladder.svg

Fits the nested model, and prints the share of the log odds that no utility explains (cyclic
share), the marginal likelihoods of a ranking and of cycles, and SpecR with its distribution for a
perfect ranking and for random outcomes on the same graph. For items with names only, abilities are
ranked, which have no cycles. The table has one line per item, best first: rank with its 95 %
interval, utility (mean log odds against the others, with nobody at home) with its interval, elo
(the utility on the Elo scale, 400 / ln 10 points per unit of log odds, with the mean 1500 over the
items) with its interval, and the probability of being the best.")]
pub struct Args {
    /// Options for reading the tables and for the model.
    #[command(flatten)]
    pub learn: Learn,
    /// Abilities, home and ties.
    #[command(flatten)]
    pub effects: EffectArgs,
    /// Number of cycles to list: A beats B, B beats C, and C beats A
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub cycles: usize,
    /// Number of joint samples from the posterior
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub samples: usize,
    /// Also draw the ladder: items by utility with intervals and ranks, and cycles as arrows; .svg or .png
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,
    /// (plot) Largest number of items drawn, best first
    #[arg(long, value_name = "N", default_value_t = 30, requires = "plot")]
    pub max_display: usize,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Fits a model, compares it with a pure ranking, and draws from its posterior.
fn ranked(
    args: &Args,
    items: &Items,
    duels_read: &IndexedDuels,
    seed: u64,
    console: &Console,
) -> Result<Rankability> {
    let prepared = args.learn.prepare(Model::Nested, &args.effects, items, duels_read, seed)?;
    let ranking =
        RankingRequest { draws: args.samples, triangles: args.cycles, seed, ..RankingRequest::default() };
    let drawn = ranking.progress.clone();
    if let Some((names, duels)) = &prepared.abilities {
        let fit = BradleyTerry::new(AbilityRidge::Evidence).fit(names, duels)?;
        fit.notes.iter().for_each(|note| console.warn(note));
        // A file holds the covariance of up to 1,000 abilities, and Python ranks from a file's contents.
        let rank = || match &fit.covariance {
            Some(covariance) => ranking.of_ability_model(&fit.model, covariance),
            None => {
                let (mean, covariance) = fit.abilities()?;
                ranking.of_abilities(&mean, &covariance)
            }
        };
        return Ok(with_progress(console, "drawing", &drawn, rank)?);
    }
    let PreparedDuels { items: table, duels, process, .. } = prepared;
    let done = process.progress.clone();
    let fit = with_progress(console, "fitting", &done, || process.fit(&table, &duels))?;
    fit.warnings.iter().for_each(|warning| console.warn(warning));
    if process.prior.utility_variance > 0.0 {
        let nested = fit.log_marginal_likelihood;
        let evidence = with_progress(console, "comparing models", &done, || {
            ModelEvidence::from_nested_evidence(nested, &process, &table, &duels)
        })?;
        let conclusion =
            if evidence.cycles() < 1.0 { "a ranking explains these duels" } else { "there are cycles" };
        console.note(format!(
            "log marginal likelihood: nested {:.1}, a utility alone {:.1}, cycles alone {:.1}: {conclusion}",
            evidence.nested, evidence.utility, evidence.generalised
        ));
    }
    let flow = fit.flow(&items_without_home(items, table.columns())?)?;
    let ranks = with_progress(console, "drawing", &drawn, || ranking.summarise_log_odds(&flow))?;
    if process.prior.utility_variance > 0.0 {
        let (low, middle, high) = ranks.cyclic_share_interval;
        console.note(format!(
            "cyclic share {:.4} of the posterior mean; of draws {middle:.3} ({low:.3} to {high:.3})",
            ranks.cyclic_share
        ));
    }
    Ok(ranks)
}

/// The items with the model's columns for names and home, with nobody at home.
fn items_without_home(items: &Items, columns: &[Column]) -> Result<Table> {
    let n = items.names.ids.len();
    let mut values = Vec::with_capacity(n * columns.len());
    for column in columns {
        match (items.table.index_of(&column.name), column.name.as_str()) {
            (Ok(j), _) => values.extend_from_slice(items.table.column(j)),
            (_, ID) => values.extend((0..n).map(|i| i as f64)),
            _ => values.extend(std::iter::repeat_n(0.0, n)),
        }
    }
    Ok(Table::from_column_major(columns.to_vec(), n, values)?)
}

/// Ranks the items and writes the ranks.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    args.plot.as_deref().map_or(Ok(false), in_pixels)?;
    let (items, duels_read) = args.learn.read(args.effects.home.as_ref(), None, &console)?;
    let duels = duels(&items.names, &duels_read)?;
    described(&items.names, &duels, items.table.width() == 0, &console);
    let ranks = ranked(args, &items, &duels_read, global.seed, &console)?;
    if items.names.ids.len() <= SPECR_MAX_ITEMS {
        let spec_r = SpecR::from_duels(&duels, 40, global.seed, &AtomicBool::new(false))?;
        console.note(format!(
            "SpecR {:.3}; on the same graph a perfect ranking has {:.3} ± {:.3}, random outcomes {:.3} ± \
             {:.3}",
            spec_r.value, spec_r.ranking.mean, spec_r.ranking.sd, spec_r.coins.mean, spec_r.coins.sd
        ));
    }
    for circle in &ranks.triangles {
        let [a, b, c] = circle.items.map(|i| printable(&items.names.ids[i]));
        console.note(format!(
            "circle: {a} beats {b} beats {c} beats {a} (probability {:.3})",
            circle.probability
        ));
    }
    if let Some(path) = &args.plot {
        let options = PlotOptions { max_display: args.max_display, ..PlotOptions::default() };
        drawn(path, render_ladder(&ranks, &items.names.ids, &options)?)?;
    }
    let mut order: Vec<usize> = (0..items.names.ids.len()).collect();
    order.sort_by_key(|&i| ranks.rank[i]);
    let names = [
        "item",
        "rank",
        "rank_low",
        "rank_high",
        "utility",
        "utility_low",
        "utility_high",
        "elo",
        "elo_low",
        "elo_high",
        "probability_best",
    ];
    let elo = ranks.elo(ELO_MEAN);
    let rank_cells =
        |read: &dyn Fn(usize) -> usize| Cells::Integers(order.iter().map(|&i| read(i) as i64).collect());
    let numbers = |read: &dyn Fn(usize) -> f64| Cells::Numbers(order.iter().map(|&i| read(i)).collect());
    let cells = vec![
        Cells::Texts(order.iter().map(|&i| items.names.ids[i].clone()).collect()),
        rank_cells(&|i| ranks.rank[i]),
        rank_cells(&|i| ranks.rank_interval[i].0),
        rank_cells(&|i| ranks.rank_interval[i].1),
        numbers(&|i| ranks.utility[i]),
        numbers(&|i| ranks.utility_interval[i].0),
        numbers(&|i| ranks.utility_interval[i].1),
        numbers(&|i| elo[i].rating),
        numbers(&|i| elo[i].low),
        numbers(&|i| elo[i].high),
        numbers(&|i| ranks.best[i]),
    ];
    let names = names.map(String::from).to_vec();
    let mut table = TableWriter::open(args.output.as_deref(), format, names, cells.clone())?;
    table.rows(cells)?;
    table.finish()
}

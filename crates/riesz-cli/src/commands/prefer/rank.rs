//! `riesz prefer rank`.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::ValueHint;
use riesz::preference::{Evidence, Ranking, SpecR};
use riesz_report::{PlotOptions, render_ladder};

use super::fit::{Landmarks, Learn, Model, described, duels};
use crate::args::Global;
use crate::console::{Console, printable, watched};
use crate::failure::{Failure, Result};
use crate::io::picture::{drawn, in_pixels};
use crate::io::write::{Cells, TableWriter};

/// Items of more than this have no SpecR, which takes eigenvalues of matrices as large.
const MOST: usize = 400;

/// Arguments of `prefer rank`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer rank players.csv matches.csv --id name
  riesz prefer rank players.csv matches.csv --circles 20 -o ranks.csv --plot ladder.svg

Fits the nested model, and says how much of the log odds no utility explains (cyclic share), what the marginal likelihoods of a ranking and of
cycles are, and SpecR beside what it would be on the same graph of who met whom. The table has a line an item, best first: rank with its 95 % interval, utility
(mean log odds against the others) with its interval, and the probability of being the best.")]
pub struct Args {
    /// How tables and models are read and made.
    #[command(flatten)]
    pub learn: Learn,
    /// Circles to name: who beats whom, and is beaten by whom that one beats
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub circles: usize,
    /// Joint draws from the posterior
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub draws: usize,
    /// Also draw the ladder: items by utility with intervals and places, and circles as arrows; .svg or .png
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plot: Option<PathBuf>,
    /// (plot) Most items drawn, the best ones
    #[arg(long, value_name = "N", default_value_t = 30, requires = "plot")]
    pub max_display: usize,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Reads, fits, draws and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    args.plot.as_deref().map_or(Ok(false), in_pixels)?;
    let (items, met) = args.learn.read(&console)?;
    let plain = met.home.is_none()
        && met.contexts.is_none()
        && !args.learn.ability
        && matches!(args.learn.landmarks, None | Some(Landmarks::Never));
    if !plain || args.learn.ties != super::fit::Ties::Half {
        let why = "a ranking is one of items alone: leave out --home, --ability, --contexts, --users, --landmarks and --ties model";
        return Err(Failure::input(why));
    }
    let duels = duels(&items.names, &met)?;
    described(&items.names, &duels, &console);
    let process = args.learn.process(Model::Nested, &items.table, global.seed)?;
    let done = process.progress.clone();
    let fit = watched(&console, "fitting", &done, || process.fit(&items.table, &duels))?;
    let evidence =
        watched(&console, "comparing models", &done, || Evidence::of(&process, &items.table, &duels))?;
    let found = if evidence.cycles() < 1.0 { "a ranking explains these duels" } else { "there are cycles" };
    console.note(format!(
        "log marginal likelihood: nested {:.1}, a utility alone {:.1}, cycles alone {:.1}: {found}",
        evidence.nested, evidence.utility, evidence.generalised
    ));
    let ranking =
        Ranking { draws: args.draws, triangles: args.circles, seed: global.seed, ..Ranking::default() };
    let done = ranking.progress.clone();
    let ranks = watched(&console, "drawing", &done, || ranking.of(&fit.flow(&items.table)?))?;
    let (low, middle, high) = ranks.cyclic_share_interval;
    console.note(format!(
        "cyclic share {:.4} of the posterior mean; of draws {middle:.3} ({low:.3} to {high:.3})",
        ranks.cyclic_share
    ));
    if items.names.ids.len() <= MOST {
        let found = SpecR::of(&duels, 40, global.seed, &AtomicBool::new(false))?;
        console.note(format!(
            "SpecR {:.3}; on the same graph a perfect ranking has {:.3} ± {:.3}, coins {:.3} ± {:.3}",
            found.value, found.ranking.mean, found.ranking.sd, found.coins.mean, found.coins.sd
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
    let names = ["item", "rank", "rank_low", "rank_high", "utility", "utility_low", "utility_high", "best"];
    let places = |of: &dyn Fn(usize) -> usize| Cells::Integers(order.iter().map(|&i| of(i) as i64).collect());
    let numbers = |of: &dyn Fn(usize) -> f64| Cells::Numbers(order.iter().map(|&i| of(i)).collect());
    let cells = vec![
        Cells::Texts(order.iter().map(|&i| items.names.ids[i].clone()).collect()),
        places(&|i| ranks.rank[i]),
        places(&|i| ranks.rank_interval[i].0),
        places(&|i| ranks.rank_interval[i].1),
        numbers(&|i| ranks.utility[i]),
        numbers(&|i| ranks.utility_interval[i].0),
        numbers(&|i| ranks.utility_interval[i].1),
        numbers(&|i| ranks.best[i]),
    ];
    let names = names.map(String::from).to_vec();
    let mut table = TableWriter::open(args.output.as_deref(), format, names, cells.clone())?;
    table.rows(cells)?;
    table.finish()
}

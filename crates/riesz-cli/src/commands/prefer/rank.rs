//! `riesz prefer rank`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::ValueHint;
use riesz::format::model::recognises;
use riesz::model_average::{ModelAverage, ModelPart};
use riesz::preference::{
    AbilityRidge, BradleyTerry, LeftRightColumns, ModelEvidence, PreferenceFit, Rankability, RankingRequest,
    SpecR, UserEvidence,
};
use riesz::table::UNKNOWN_LEVEL;
use riesz::{ColumnKind, KernelExpansion, PosteriorCovariance};
use riesz_report::{PlotOptions, render_ladder};

use super::model_items::{items_of_model, read_duel_model, rows_of_items};
use super::rank_output::Ranking;
use super::shared_fit::{EffectArgs, Learn, Model, PreparedDuels, described, duels};
use crate::args::{CellArgs, Format, Global};
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::duels::{ContextArgs, IndexedDuels, Items};
use crate::io::picture::{drawn, in_pixels};

/// Largest number of items for which SpecR is computed: it takes eigenvalues of n × n matrices.
const SPECR_MAX_ITEMS: usize = 400;

/// Arguments of `prefer rank`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer rank battles.jsonl        a leaderboard from names alone
  riesz prefer rank battles.jsonl --users judge       do judges differ? and the ranks of each
  riesz prefer rank arena.riesz          the items of a model of 'riesz prefer fit'
  riesz prefer rank phones.riesz phones.csv           a model of items with columns, and a table of them
  riesz prefer rank games.csv --sides home,away --scores home_goals,away_goals --home home
  riesz prefer rank players.csv matches.csv --id name --cycles 20 -o ranks.csv --plot ladder.svg

Ranks items by their utility, the mean log odds against the others, with nobody at home. On a
terminal it prints a short table; files and pipes get all columns: rank with its 95 % interval,
utility with its interval, elo (the utility on the Elo scale, 400 / ln 10 points per unit of log
odds, with the mean 1500 over the items) with its interval, the probability of being the best, and
that of being the Condorcet winner, which beats each other item; both with standard errors.

For items with columns it fits the nested model, and prints the share of the log odds that no
utility explains (cyclic share), the evidence of cycles, and SpecR with its distribution for a
perfect ranking and for random outcomes on the same graph. For items with names only, abilities
are ranked, which have no cycles. With --users it fits utilities per user and one utility for all,
and says whether users differ.")]
pub struct Args {
    /// Options for reading the tables and for the model.
    #[command(flatten)]
    pub learn: Learn,
    /// Abilities, home and ties.
    #[command(flatten)]
    pub effects: EffectArgs,
    /// Column of users, who judged the duels: says whether they differ, and ranks the items for each
    #[arg(long, value_name = "COL", help_heading = "Columns of duels")]
    pub users: Option<String>,
    /// Number of cycles to list: A beats B, B beats C, and C beats A
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub cycles: usize,
    /// Number of joint samples from the posterior [default: 10000 of utilities, fewer for more than 1,000
    /// items; 512 of all pairs, for cycles]
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,
    /// Also draw the ladder: items by utility with intervals and ranks, and cycles as arrows; .svg or .png
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "users")]
    pub plot: Option<PathBuf>,
    /// (plot) Largest number of items drawn, best first
    #[arg(long, value_name = "N", default_value_t = 30, requires = "plot")]
    pub max_display: usize,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// A model, and the items that it ranks.
struct RankedModel<'a> {
    /// The model, or the models of an average.
    parts: Vec<ModelPart<'a>>,
    items: &'a Items,
}

impl<'a> RankedModel<'a> {
    /// A single model.
    fn new(
        model: &'a KernelExpansion,
        covariance: Option<&'a PosteriorCovariance>,
        items: &'a Items,
    ) -> Self {
        Self { parts: vec![ModelPart { weight: 1.0, model, covariance }], items }
    }

    /// A fit, or its average over hyper-parameters.
    fn of_fit(fit: &'a PreferenceFit, average: Option<&'a ModelAverage>, items: &'a Items) -> Self {
        let single = || Self::new(&fit.model, Some(&fit.covariance), items);
        average.map_or_else(single, |average| Self { parts: average.parts(), items })
    }

    /// The model whose columns are those of all.
    fn model(&self) -> &'a KernelExpansion {
        self.parts[0].model
    }
}

impl Args {
    fn ranking(&self, seed: u64) -> RankingRequest {
        RankingRequest { draws: self.samples, triangles: self.cycles, seed, ..RankingRequest::default() }
    }

    /// Ranks the items of a model, in a context if there is one.
    fn ranks(
        &self,
        ranked: &RankedModel<'_>,
        context: Option<&[f64]>,
        seed: u64,
        console: &Console,
    ) -> Result<Rankability> {
        let request = self.ranking(seed);
        let drawn = request.progress.clone();
        let rows = rows_of_items(ranked.items, ranked.model())?;
        let summary = || request.summarise_models(&ranked.parts, &rows, context);
        Ok(with_progress(console, "drawing", &drawn, summary)?)
    }

    /// Ranks the items for each user of a model.
    fn ranks_of_users(&self, ranked: &RankedModel<'_>, seed: u64, console: &Console) -> Result<Ranking> {
        let columns = ranked.model().columns();
        let sides = LeftRightColumns::from_columns(columns)?;
        let levels = match sides.contexts[..] {
            [j] => match &columns[j].kind {
                ColumnKind::Categorical { levels } if levels.iter().any(|l| l == UNKNOWN_LEVEL) => levels,
                _ => return Err(other_contexts(&columns[j].name)),
            },
            _ => return Err(other_contexts(&columns[sides.contexts[0]].name)),
        };
        let users = levels.iter().enumerate().filter(|(_, level)| *level != UNKNOWN_LEVEL);
        let parts = users.map(|(code, user)| {
            Ok((Some(user.clone()), self.ranks(ranked, Some(&[code as f64]), seed, console)?))
        });
        Ok(Ranking { names: ranked.items.names.ids.clone(), parts: parts.collect::<Result<_>>()? })
    }
}

fn other_contexts(column: &str) -> Failure {
    Failure::input(format!(
        "the model was fitted to duels in contexts ('{column}'), for which there is no ranking: ranks \
         are those of users (--users), or of a model without contexts"
    ))
}

/// Ranks the items of a saved model, or of a table if there is one.
fn rank_model(args: &Args, seed: u64, console: &Console) -> Result<Ranking> {
    let learn = &args.learn;
    if args.users.is_some() || args.effects.home.is_some() || args.effects.ability {
        let reason = "--users, --home and --ability are options of a fit, and this model is fitted: leave \
                      them out; a model with users is ranked for each";
        return Err(Failure::input(reason));
    }
    let cells = CellArgs::default();
    let (model, sides) = read_duel_model(&learn.items, &cells)?;
    let (saved, name) = (&model.best, learn.items.display());
    let options = (&learn.item_options, &learn.table, cells);
    let items = items_of_model((&learn.items, saved), &sides, learn.duels.as_ref(), options)?;
    let items = items.ok_or_else(|| {
        Failure::input(format!(
            "{name}: the file does not hold the items' names: give the table of items too (riesz \
             prefer rank {name} items.csv)"
        ))
    })?;
    let ranked = RankedModel { parts: model.parts(), items: &items };
    if !sides.contexts.is_empty() {
        return args.ranks_of_users(&ranked, seed, console);
    }
    let ranks = args.ranks(&ranked, None, seed, console)?;
    Ok(Ranking { names: items.names.ids, parts: vec![(None, ranks)] })
}

/// Fits a model to tables, compares it with a pure ranking or with one for all users, and ranks the items.
fn rank_tables(args: &Args, seed: u64, console: &Console) -> Result<Ranking> {
    let contexts = ContextArgs { contexts: Vec::new(), users: args.users.clone() };
    let contexts = args.users.as_ref().map(|_| &contexts);
    let (items, duels_read) = args.learn.read(args.effects.home.as_ref(), contexts, console)?;
    let duels = duels(&items.names, &duels_read)?;
    described(&items.names, &duels, items.table.width() == 0, console);
    let ranking = match args.users {
        Some(_) => fit_users(args, &items, &duels_read, seed, console)?,
        None => {
            let ranks = fit_all(args, &items, &duels_read, seed, console)?;
            Ranking { names: items.names.ids.clone(), parts: vec![(None, ranks)] }
        }
    };
    if items.names.ids.len() <= SPECR_MAX_ITEMS {
        let spec_r = SpecR::from_duels(&duels, 40, seed, &AtomicBool::new(false))?;
        console.note(format!(
            "SpecR {:.3}; on the same graph a perfect ranking has {:.3} ± {:.3}, random outcomes {:.3} ± \
             {:.3}",
            spec_r.value, spec_r.ranking.mean, spec_r.ranking.sd, spec_r.coins.mean, spec_r.coins.sd
        ));
    }
    Ok(ranking)
}

/// Fits utilities per user and one for all, and ranks the items for each user.
fn fit_users(
    args: &Args,
    items: &Items,
    duels_read: &IndexedDuels,
    seed: u64,
    console: &Console,
) -> Result<Ranking> {
    let prepared = args.learn.prepare(Model::Utility, &args.effects, items, duels_read, seed)?;
    let PreparedDuels { items: table, duels, process, .. } = prepared;
    let done = process.progress.clone();
    let (evidence, fit) =
        with_progress(console, "comparing users", &done, || UserEvidence::compare(&process, &table, &duels))?;
    fit.warnings.iter().for_each(|warning| console.warn(warning));
    console.note(evidence.verdict());
    // The compared fit is that of the utility per user.
    let average = args.learn.average(&process, &fit, (&table, None, &duels), console)?;
    let ranked = RankedModel::of_fit(&fit, average.as_ref(), items);
    args.ranks_of_users(&ranked, seed, console)
}

/// Fits the nested model or abilities, and ranks the items.
fn fit_all(
    args: &Args,
    items: &Items,
    duels_read: &IndexedDuels,
    seed: u64,
    console: &Console,
) -> Result<Rankability> {
    let prepared = args.learn.prepare(Model::Nested, &args.effects, items, duels_read, seed)?;
    if let Some((names, duels)) = &prepared.abilities {
        let fit = BradleyTerry::new(AbilityRidge::Evidence).fit(names, duels)?;
        fit.notes.iter().for_each(|note| console.warn(note));
        let request = args.ranking(seed);
        // A file holds the covariance of up to 1,000 abilities.
        return match &fit.covariance {
            Some(covariance) => {
                let ranked = RankedModel::new(&fit.model, Some(covariance), items);
                args.ranks(&ranked, None, seed, console)
            }
            None => {
                let (mean, covariance) = fit.abilities()?;
                let drawn = request.progress.clone();
                Ok(with_progress(console, "drawing", &drawn, || request.of_abilities(&mean, &covariance))?)
            }
        };
    }
    let PreparedDuels { items: table, duels, process, .. } = prepared;
    let done = process.progress.clone();
    let fit = with_progress(console, "fitting", &done, || process.fit(&table, &duels))?;
    fit.warnings.iter().for_each(|warning| console.warn(warning));
    let has_columns = process.prior.utility_variance > 0.0;
    if has_columns {
        let nested = fit.log_marginal_likelihood;
        let evidence = with_progress(console, "comparing models", &done, || {
            ModelEvidence::from_nested_evidence(nested, &process, &table, &duels)
        })?;
        console.note(format!(
            "log marginal likelihood: nested {:.1}, a utility alone {:.1}, cycles alone {:.1}; {}",
            evidence.nested,
            evidence.utility,
            evidence.generalised,
            evidence.verdict()
        ));
    }
    let average = args.learn.average(&process, &fit, (&table, None, &duels), console)?;
    let ranked = RankedModel::of_fit(&fit, average.as_ref(), items);
    let ranks = args.ranks(&ranked, None, seed, console)?;
    if has_columns {
        let (low, middle, high) = ranks.cyclic_share_interval;
        console.note(format!(
            "cyclic share {:.4} of the posterior mean; of draws {middle:.3} ({low:.3} to {high:.3})",
            ranks.cyclic_share
        ));
    }
    Ok(ranks)
}

/// Whether a file is a model of riesz.
fn is_model(path: &Path) -> bool {
    let mut start = Vec::new();
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|m| m.is_file()));
    file.is_some_and(|file| file.take(1 << 16).read_to_end(&mut start).is_ok() && recognises(&start))
}

/// Ranks the items and writes the ranks.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.text_or_table(args.output.as_deref())?;
    args.plot.as_deref().map_or(Ok(false), in_pixels)?;
    let ranking = match is_model(&args.learn.items) {
        true => rank_model(args, global.seed, &console)?,
        false => rank_tables(args, global.seed, &console)?,
    };
    ranking.notes(&console);
    if let Some(path) = &args.plot {
        let [(None, ranks)] = &ranking.parts[..] else {
            return Err(Failure::input("--plot draws one ranking, and this model has one for each user"));
        };
        let options = PlotOptions { max_display: args.max_display, ..PlotOptions::default() };
        drawn(path, render_ladder(ranks, &ranking.names, &options)?)?;
    }
    if format == Format::Text && global.format.is_none() {
        console.note("all columns: -o ranks.csv");
    }
    ranking.write(args.output.as_deref(), format)
}

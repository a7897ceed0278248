//! `riesz prefer explain`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{ValueEnum, ValueHint};
use riesz::attribution::sampled_shapley::Budget;
use riesz::embedding::{Approximation, Conditioning, Ridge};
use riesz::explanation::Exactness;
use riesz::game::Part;
use riesz::linalg::Sparse;
use riesz::model_card::CardEntry;
use riesz::preference::{
    DuelGame, DuelLogOdds, DuelQuestion, LeftRightColumns, differences, explain_average,
};
use riesz::{Background, Column, Explanation, KernelExpansion, Table, ValueIndex};

use super::predict::{Against, DuelRequest, Meeting, Seen, add_missing_columns, rows_in};
use crate::args::{Format, Global};
use crate::console::{Console, printable, with_progress};
use crate::exit::{Failure, Result};
use crate::explain_run::{Certificate, write_explanation};
use crate::io::duels::{IndexedDuels, Items, OutcomeArgs};
use crate::io::input::described;
use crate::io::model_rows::ModelRows;
use crate::io::models::ModelOrAverage;
use crate::io::output::{Output, write_all};
use crate::io::values;
use crate::question_args::read_groups;

/// Arguments of `prefer explain`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer explain m.riesz players.csv --left Ann --right Bob
  riesz prefer explain m.riesz players.csv --left Ann                  against all others, on average
  riesz prefer explain m.riesz players.csv --left Ann --against all -o ann.json
  riesz prefer explain m.riesz players.csv matches.csv -o why.csv
  riesz prefer explain m.riesz players.csv matches.csv --mean winner -o won.json
  riesz prefer explain m.riesz players.csv matches.csv --game paired --covariance -o why.json
  riesz prefer explain m.riesz players.csv matches.csv --game observational --coalitions 1000 -o why.csv
  riesz plot beeswarm why.json -o why.svg

A player is a property of both items. Its value is its contribution to the log odds that the left
item wins (for a model with --ties model: to the advantage, the log odds before the margin of ties
is subtracted). Swapping the two items changes the sign of all values. Without -o, one duel or one
item against all others is written as text.")]
pub struct Args {
    /// The duels to explain.
    #[command(flatten)]
    pub request: DuelRequest,
    /// Replacement of absent properties: those of two random items, one for each side; of one random item for
    /// both sides; of the two items of a random duel of --matches; of the item --baseline; kernel factors of
    /// 1; or the conditional distribution given the item's present properties
    #[arg(long, value_name = "GAME", value_enum, default_value_t)]
    pub game: Absent,
    /// Table of items from which absent properties are taken [default: the items]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub background: Option<PathBuf>,
    /// Number of background items, drawn with --seed
    #[arg(long, value_name = "N")]
    pub background_rows: Option<usize>,
    /// (matches) Table of duels between the items
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub matches: Option<PathBuf>,
    /// (baseline) Name of an item
    #[arg(long, value_name = "ITEM")]
    pub baseline: Option<String>,
    /// (observational) Smoothing of the conditional distributions [default: the value that predicts left-out
    /// items best]
    #[arg(long, value_name = "RIDGE")]
    pub conditional_ridge: Option<f64>,
    /// (observational) Learn conditional distributions through M of the items, for thousands of items
    #[arg(long, value_name = "M", conflicts_with = "cg_tol")]
    pub conditional_landmarks: Option<usize>,
    /// (observational) Learn conditional distributions by conjugate gradients with this tolerance, for
    /// thousands of items
    #[arg(long, value_name = "TOLERANCE")]
    pub cg_tol: Option<f64>,
    /// (observational, or --absent-contexts) Value at most N coalitions of properties; values are then
    /// estimated, with standard errors [default: all of up to 16 properties, else 4096]
    #[arg(long, value_name = "N")]
    pub coalitions: Option<usize>,
    /// (observational, or --absent-contexts) Stop once no standard error exceeds E
    #[arg(long, value_name = "E")]
    pub target_std_error: Option<f64>,
    /// Table of contexts from which absent columns of contexts are taken: they are then properties like those
    /// of items [default: the contexts of a duel are always present]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub absent_contexts: Option<PathBuf>,
    /// (--absent-contexts) Absent columns of contexts are those of a random row of the table, or follow their
    /// conditional distribution given the context's present columns
    #[arg(long, value_name = "GAME", value_enum, default_value_t, requires = "absent_contexts")]
    pub context_game: AbsentContexts,
    /// Properties that are present or absent together, 'name=col,col;name=col', or a file with one group per
    /// line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Index of the values, as for 'riesz explain --index'
    #[arg(long, value_name = "INDEX", default_value = "shapley")]
    pub index: String,
    /// Also give the posterior standard deviation of each value. Not in the functional game, nor with more
    /// than 12 properties (or --groups) in the observational game; in the independent game with up to 100
    /// items
    #[arg(long)]
    pub covariance: bool,
    /// Estimate values, with standard errors, from N random orders of the properties, at least 16: for models
    /// with many properties and landmarks, whose exact values take long
    #[arg(long, value_name = "N")]
    pub orders: Option<usize>,
    /// With --left: one mean over the duels with all others, or with the items in the first column of a table
    #[arg(long, value_name = "all|FILE", value_hint = ValueHint::FilePath, requires = "left", conflicts_with = "right")]
    pub against: Option<PathBuf>,
    /// One mean over a table of duels, from the view of the left side or of the winner. Over both orders of
    /// two items it would be 0
    #[arg(long, value_name = "SIDE", value_enum, conflicts_with = "left")]
    pub mean: Option<Seen>,
    /// (--mean winner) Columns of the outcomes.
    #[command(flatten)]
    pub outcomes: OutcomeArgs,
    /// Where to write the values [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Games of duels, by the replacement of absent properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Absent {
    /// Properties of two random items, one for each side.
    #[default]
    Independent,
    /// Properties of one random item for both sides.
    Paired,
    /// Properties of the two items of a random duel.
    Matches,
    /// Properties of one fixed item.
    Baseline,
    /// Kernel factors of 1.
    Functional,
    /// Properties from their conditional distribution given the present ones.
    Observational,
    /// Items are always present, and only contexts have values (--absent-contexts).
    Contexts,
}

/// The distribution of absent columns of contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum AbsentContexts {
    /// They are those of a random row.
    #[default]
    Independent,
    /// They follow their conditional distribution given the present ones.
    Observational,
}

/// Explains the duels, and writes the values as text, a table or JSON.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let against = match args.against.as_deref() {
        None => Against::Others,
        Some(text) if text == Path::new("all") => Against::Others,
        Some(path) => Against::Listed(path),
    };
    let mean = args.mean.or_else(|| args.against.is_some().then_some(Seen::Left));
    let outcome_args = (mean == Some(Seen::Winner)).then_some(&args.outcomes);
    let request = args.request.read(against, outcome_args, &console)?;
    if args.covariance && (mean.is_some() || request.sums.is_some()) {
        let reason = "--covariance cannot be used with a mean over several duels, as the covariance between \
                      duels is not kept: leave it out";
        return Err(Failure::input(reason));
    }
    let one_item = args.request.left.is_some();
    let as_text = one_item && args.output.is_none() && matches!(global.format, None | Some(Format::Text));
    let format = if as_text { Format::Text } else { global.table_format(args.output.as_deref())? };
    let (question, facts) = question(args, global.seed, &request, &console)?;
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let message = format!("explaining {} duels", request.rows.rows());
    let parts = request.model.parts();
    let mut explanation = with_progress(&console, &message, &progress, || {
        explain_average(&parts, &request.rows, &question, &stop, &progress)
    })?;
    explanation.provenance.run.push(CardEntry::new("model file", described(&args.request.model)?));
    explanation.provenance.run.extend(facts);
    // Plots and pages show the items' differences; the text shows the cells of both items.
    let mut explanation = if as_text { explanation } else { differences(&explanation)? };
    if let Some(sums) = &request.sums {
        explanation = explanation.average(sums)?;
        explanation.provenance.run.push(CardEntry::new(
            "bags",
            "log odds of two bags, and their values, are means over pairs of their members",
        ));
    }
    let odds = request.odds()?;
    explanation.duels = Some(odds.duels(&request.left, &request.right));
    let mut certificate = Certificate::default();
    if as_text {
        certificate.include(&explanation);
        let has_several_duels = args.against.is_some() || args.request.right.is_none();
        let text = if has_several_duels {
            average(&explanation, &odds)
        } else {
            duel_text(&explanation, &odds, request.sums.is_none())
        };
        write_all(None, format!("{text}{}\n", certificate.description()).as_bytes())?;
        return certificate.check();
    }
    if let Some(view) = mean {
        let count = explanation.rows();
        explanation = mean_of(&explanation, view, request.outcome.as_deref())?;
        console.note(format!(
            "mean over {count} duels, from the view of {}",
            match view {
                Seen::Left => "the left side",
                Seen::Winner => "the winner",
            }
        ));
    }
    certificate.include(&explanation);
    let rows = explanation.rows();
    written(explanation, args.output.as_deref(), format)?;
    console.note(format!(
        "{rows} {} explained; {}",
        if mean.is_some() { "mean" } else { "duels" },
        certificate.description()
    ));
    certificate.check()
}

/// The mean of explained duels as one row; from the view of winners, ties are left out.
fn mean_of(explanation: &Explanation, view: Seen, outcome: Option<&[f64]>) -> Result<Explanation> {
    let has_winner = |i: usize| view == Seen::Left || outcome.is_none_or(|outcome| outcome[i] != 0.5);
    let weights = (0..explanation.rows()).filter(|&i| has_winner(i)).map(|i| (i, 1.0));
    let mut mean = explanation.average(&Sparse::from_columns(explanation.rows(), [weights])?)?;
    if let (Seen::Winner, Some([duel])) = (view, mean.duels.as_deref_mut()) {
        (duel.left, duel.right) = ("winners".into(), "losers".into());
    }
    Ok(mean)
}

/// The question that the arguments describe, and its provenance entries.
fn question(
    args: &Args,
    seed: u64,
    meeting: &Meeting,
    console: &Console,
) -> Result<(DuelQuestion, Vec<CardEntry>)> {
    check_options(args)?;
    let (game, mut facts) = duel_game(args, seed, meeting, console)?;
    let Meeting { model: ModelOrAverage { best: saved, .. }, .. } = meeting;
    let sides = LeftRightColumns::from_columns(saved.model.columns())?;
    let context_columns = args.absent_contexts.iter().flat_map(|_| &sides.contexts);
    let columns: Vec<Column> = sides
        .items(saved.model.columns())
        .into_iter()
        .chain(context_columns.map(|&j| saved.model.columns()[j].clone()))
        .collect();
    let groups = args.groups.as_deref().map(|text| read_groups(text, &columns)).transpose()?;
    let named = |player: &riesz::table::Player| {
        (player.name.clone(), player.columns.iter().map(|&j| columns[j].name.clone()).collect())
    };
    let groups = groups.map_or(Vec::new(), |groups| groups.players().iter().map(named).collect());
    let index: ValueIndex = args.index.parse()?;
    let contexts = match &args.absent_contexts {
        None => None,
        Some(path) => {
            facts.push(CardEntry::new("contexts", described(path)?));
            let rows = contexts_for_model(path, &args.request, &saved.model)?;
            let is_conditional = args.context_game == AbsentContexts::Observational;
            let conditional = is_conditional.then(|| conditioning(args, seed));
            Some(Part { background: rows.into(), conditional })
        }
    };
    let has_budget = args.coalitions.is_some() || args.target_std_error.is_some();
    let coalitions = args.coalitions.unwrap_or(Budget::default().coalitions);
    let budget = has_budget.then_some(Budget { coalitions, std_error: args.target_std_error, seed });
    let question = DuelQuestion {
        contexts,
        groups,
        index,
        covariance: args.covariance,
        permutations: args.orders,
        budget,
        seed,
        ..DuelQuestion::new(game)
    };
    let contexts_only = args.game == Absent::Contexts;
    Ok((if contexts_only { DuelQuestion { game: None, ..question } } else { question }, facts))
}

/// Refuses options that the game does not use.
fn check_options(args: &Args) -> Result<()> {
    let check_game = |option: &str, game: Absent, is_given: bool| match is_given && args.game != game {
        true => Err(Failure::input(format!("{option} is not used in this game: leave it out"))),
        false => Ok(()),
    };
    check_game("--matches", Absent::Matches, args.matches.is_some())?;
    check_game("--baseline", Absent::Baseline, args.baseline.is_some())?;
    if !(args.game == Absent::Observational || args.context_game == AbsentContexts::Observational) {
        check_game("--conditional-ridge", Absent::Observational, args.conditional_ridge.is_some())?;
        check_game("--conditional-landmarks", Absent::Observational, args.conditional_landmarks.is_some())?;
        check_game("--cg-tol", Absent::Observational, args.cg_tol.is_some())?;
    }
    if args.game == Absent::Contexts && args.absent_contexts.is_none() {
        return Err(Failure::input(
            "the game contexts needs a table of contexts: give --absent-contexts FILE",
        ));
    }
    let without_background =
        matches!(args.game, Absent::Matches | Absent::Baseline | Absent::Functional | Absent::Contexts);
    if without_background && (args.background.is_some() || args.background_rows.is_some()) {
        return Err(Failure::input("a background of items is not used in this game: leave it out"));
    }
    Ok(())
}

/// The replacement of absent properties of items, and its provenance entries.
fn duel_game(
    args: &Args,
    seed: u64,
    Meeting { model: ModelOrAverage { best: saved, .. }, items, .. }: &Meeting,
    console: &Console,
) -> Result<(DuelGame, Vec<CardEntry>)> {
    let mut facts = Vec::new();
    let request = &args.request;
    let mut background = || -> Result<Background> {
        let mut rows = items.table.clone();
        if let Some(path) = &args.background {
            facts.push(CardEntry::new("background", described(path)?));
            rows =
                Items::for_model(path, (&request.item_options, &request.table, request.cells), &items.table)?
                    .table;
        }
        if let Some(count) = args.background_rows {
            rows = rows.select_rows(&rows.sample_rows(count.max(1), seed));
        }
        facts.push(CardEntry::new("background items", rows.rows()));
        Ok(add_missing_columns(&saved.model, &rows)?.into())
    };
    let game = match args.game {
        Absent::Independent => DuelGame::Independent(background()?),
        Absent::Paired => DuelGame::Paired(background()?),
        Absent::Functional | Absent::Contexts => DuelGame::Functional,
        Absent::Observational => DuelGame::Observational(background()?, conditioning(args, seed)),
        Absent::Baseline => {
            let Some(id) = &args.baseline else {
                return Err(Failure::input("the baseline game needs an item: give --baseline ITEM"));
            };
            DuelGame::Baseline(add_missing_columns(
                &saved.model,
                &items.table.select_rows(&[items.names.index_of(id)?]),
            )?)
        }
        Absent::Matches => {
            let Some(path) = &args.matches else {
                return Err(Failure::input("the game matches needs a table of duels: give --matches FILE"));
            };
            let rows = request.table.source(path).open()?;
            let matches = IndexedDuels::read(rows, &items.names, request.requested_columns(&[]), console)?;
            let pairs: Vec<_> = matches.left.iter().copied().zip(matches.right.iter().copied()).collect();
            DuelGame::Matches(rows_in(&saved.model, items, &pairs, &matches)?)
        }
    };
    Ok((game, facts))
}

/// The settings of conditional distributions.
fn conditioning(args: &Args, seed: u64) -> Conditioning {
    let approximation = Approximation::selected(args.conditional_landmarks, args.cg_tol);
    let ridge = args.conditional_ridge.map_or(Ridge::CrossValidated, Ridge::Fixed);
    Conditioning { ridge, approximation, seed, ..Conditioning::default() }
}

/// Reads a table of contexts in the model's columns of contexts.
fn contexts_for_model(path: &Path, request: &DuelRequest, model: &KernelExpansion) -> Result<Table> {
    let columns = LeftRightColumns::from_columns(model.columns())?.contexts;
    let contexts = model.support_points.select_columns(&columns);
    if contexts.width() == 0 {
        return Err(Failure::input("the model was fitted without contexts: leave --absent-contexts out"));
    }
    let policy = request.cells.for_model(&contexts)?;
    let rows = request.table.source(path).open()?;
    ModelRows::new(rows, contexts.columns(), policy, contexts.width())?.with_units_of(model).read_all()
}

/// Writes the values as a table, or the explanation as JSON.
fn written(explanation: Explanation, path: Option<&Path>, format: Format) -> Result<()> {
    if format == Format::Json {
        return write_explanation(Output::open(path)?, &explanation, None);
    }
    let mut writer = values::Writer::open(path, format, &explanation)?;
    writer.rows(&explanation)?;
    writer.finish(explanation.provenance.run.clone())
}

/// A duel as text: the prediction, its uncertainty, and the values, largest first.
fn duel_text(explanation: &Explanation, odds: &DuelLogOdds, shows_cells: bool) -> String {
    let duel = &explanation.duels.iter().flatten().next();
    let headline = duel.map_or_else(String::new, |duel| match duel.words() {
        Some(text) => printable(&text),
        None => {
            printable(&format!("{}; the file holds no posterior, so there is no probability", duel.name()))
        }
    });
    let base = if explanation.base_values[0] == 0.0 {
        String::new()
    } else {
        format!("{:.3}, ", explanation.base_values[0])
    };
    let head =
        format!("{headline}\n{} {:.3} = {base}by property:\n", quantity(odds), explanation.predictions[0]);
    let std_error = match &explanation.exactness {
        Exactness::Estimated { std_error, .. } => Some(std_error.clone()),
        _ => None,
    };
    let sd = explanation.sd().or(std_error);
    let suffix = |k: usize| {
        let interval = sd.as_ref().map_or(String::new(), |sd| format!(" ± {:.3}", 1.96 * sd[k]));
        format!("{interval}{}", if shows_cells { item_cells(explanation, k) } else { String::new() })
    };
    head + &value_lines(explanation, &explanation.values[..explanation.sets()], suffix)
}

/// The duels of an item with others as text: means over the duels, and the mean |value| of each property.
fn average(explanation: &Explanation, odds: &DuelLogOdds) -> String {
    let (n, sets) = (explanation.rows() as f64, explanation.sets());
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / n;
    let left_item =
        explanation.duels.iter().flatten().next().map_or_else(String::new, |duel| printable(&duel.left));
    let mut out = match &odds.probability {
        Some(p) => format!("{left_item} beats a random one of {n} others with probability {:.2}\n", mean(p)),
        None => format!("{left_item} against {n} others\n"),
    };
    out += &format!(
        "{} {:.3} on average, by property, with the mean |value| of one duel in brackets:\n",
        quantity(odds),
        mean(&explanation.predictions)
    );
    let column =
        |k: usize| (0..explanation.rows()).map(|i| explanation.values[i * sets + k]).collect::<Vec<_>>();
    let values: Vec<f64> = (0..sets).map(|k| mean(&column(k))).collect();
    let sizes = explanation.mean_abs(0);
    out + &value_lines(explanation, &values, |k| format!("  ({:.3})", sizes[k]))
}

/// The name of the quantity that the values add up to.
fn quantity(odds: &DuelLogOdds) -> String {
    match odds.margin {
        0.0 => "log odds".into(),
        margin => format!("advantage (log odds of a win plus the margin of ties, {margin:.3})"),
    }
}

/// One line for each set of players, largest value first.
fn value_lines(explanation: &Explanation, values: &[f64], suffix: impl Fn(usize) -> String) -> String {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].abs().total_cmp(&values[*a].abs()));
    let names: Vec<String> = order.iter().map(|&k| printable(&explanation.set_name(k))).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |(&k, name): (&usize, &String)| format!("  {name:width$}  {:+.3}{}\n", values[k], suffix(k));
    order.iter().zip(&names).map(line).collect()
}

/// The cells of the two items in the columns of a set of players, if it has one property.
fn item_cells(explanation: &Explanation, k: usize) -> String {
    let [l, r] = explanation.set_columns(k)[..] else { return String::new() };
    let (columns, cell) = (explanation.data.columns(), |j: usize| explanation.data.get(0, j));
    let shown = |j: usize| printable(&columns[j].format(cell(j)));
    format!("  ({} against {})", shown(l), shown(r))
}

//! `riesz prefer predict`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::{ValueEnum, ValueHint};
use riesz::explanation::WinProbability;
use riesz::format::model::SavedModel;
use riesz::linalg::Sparse;
use riesz::preference::{
    DuelLogOdds, HOME, HomeSide, ID, LeftRightColumns, Pair, UNSEEN_RIGHT, wide_rows_in,
};
use riesz::table::{UNKNOWN_LEVEL, level_of_text};
use riesz::{Column, ColumnKind, KernelExpansion, Table};

use crate::args::{CellArgs, FeatureArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::bags::BagArgs;
use crate::io::columns::Columns;
use crate::io::duels::{
    ContextColumns, IndexedDuels, ItemArgs, Items, Names, OutcomeArgs, OutcomeColumns, SideArgs, Wanted,
    names_of,
};
use crate::io::models::read_model;
use crate::io::write::{Cells, TableWriter};

/// Arguments of `prefer predict`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer predict m.riesz players.csv --left Ann --right Bob
  riesz prefer predict m.riesz players.csv --left Ann                  against everybody
  riesz prefer predict m.riesz players.csv matches.csv -o odds.csv
  riesz prefer predict m.riesz --left gpt --right llama        of a model that was fitted to names alone

The table has the columns left and right; log_odds, the posterior mean of the log odds that the left
one wins, and log_odds_std, their standard deviation; probability, that the left one wins (averaged
over the posterior), with a 95 % interval; and superiority: how sure it is that the left one is the
better one. Of a model with --ties model there are two columns more: advantage, the log odds before
the margin of ties is taken off, to which 'riesz prefer explain' adds up; and probability_tie. What
is left of 1 is the probability that the right one wins.")]
pub struct Args {
    /// The duels to predict.
    #[command(flatten)]
    pub request: DuelRequest,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// A model of duels, items, and duels between them.
#[derive(Debug, Clone, clap::Args)]
pub struct DuelRequest {
    /// Model file of 'riesz prefer fit'
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of items with the columns that the model knows; a model that knows nothing but names needs none
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "left")]
    pub items: Option<PathBuf>,
    /// Table of duels between the items' names
    #[arg(value_hint = ValueHint::FilePath)]
    pub duels: Option<PathBuf>,
    /// One duel: the name of the left item, or with --members bag; without --right its duels with all others
    #[arg(long, value_name = "ITEM", conflicts_with = "duels")]
    pub left: Option<String>,
    /// The right item's name
    #[arg(long, value_name = "ITEM", requires = "left")]
    pub right: Option<String>,
    /// One duel, or one item's: who is at home, left, right or none
    #[arg(long, value_name = "SIDE", requires = "left")]
    pub at_home: Option<String>,
    /// One duel, or one item's: its context, column=value,column=value
    #[arg(long, value_name = "CONTEXT", requires = "left")]
    pub context: Option<String>,
    /// Which items make bags.
    #[command(flatten)]
    pub bags: BagArgs,
    /// Options for reading items.
    #[command(flatten)]
    pub of_items: ItemArgs,
    /// The sides of duels.
    #[command(flatten)]
    pub sides: SideArgs,
    /// Which side is at home: left, right or none, or the item's name
    #[arg(long, value_name = "COL", help_heading = "Columns of duels")]
    pub home: Option<String>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// Who an item or a bag is asked about.
#[derive(Debug, Clone, Copy)]
pub enum Against<'a> {
    /// The item of --right, or else all others.
    Others,
    /// The items of a table of names.
    Listed(&'a Path),
}

/// The side from which a mean over duels is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Seen {
    /// The side on the left, as the duels stand.
    Left,
    /// Who won; ties are left out.
    Winner,
}

/// Duels that a model is asked about.
pub struct Meeting {
    /// The model.
    pub saved: SavedModel,
    /// Its items.
    pub items: Items,
    /// Who stands on the left, by name, one a duel.
    pub left: Vec<String>,
    /// On the right.
    pub right: Vec<String>,
    /// The outcomes of the duels, if the table has them.
    pub outcome: Option<Vec<f64>>,
    /// Wide rows of the items of each duel, or for bags one for each pair of their members.
    pub rows: Table,
    /// For bags the weight of each row in the log odds of each duel.
    pub sums: Option<Sparse>,
}

impl Meeting {
    /// Who is likely to win.
    pub fn odds(&self) -> Result<DuelLogOdds> {
        let (model, covariance) = (&self.saved.model, self.saved.covariance.as_ref());
        Ok(match &self.sums {
            Some(sums) => DuelLogOdds::of_sums(model, covariance, &self.rows, sums)?,
            None => DuelLogOdds::of_rows(model, covariance, &self.rows)?,
        })
    }
}

impl DuelRequest {
    /// The model, the items in its columns, and the requested duels; with `outcome_args` the outcomes are
    /// read too.
    pub fn read(
        &self,
        against: Against<'_>,
        outcome_args: Option<&OutcomeArgs>,
        console: &Console,
    ) -> Result<Meeting> {
        let saved = self.cells.admit(read_model(&self.model, None, &FeatureArgs::default())?)?;
        let about = |e| Failure::from(e).about(&self.model.display().to_string());
        let sides = LeftRightColumns::from_columns(saved.model.columns()).map_err(about)?;
        let (items, duels) = self.items_and_duels(&saved, &sides)?;
        let teams = self.bags.read(&items, &self.table)?;
        let names = teams.as_ref().map_or(&items.names, |teams| &teams.names);
        let context_columns: Vec<Column> =
            sides.contexts.iter().map(|&j| saved.model.columns()[j].clone()).collect();
        let mut indexed = match (&self.left, &self.right, duels) {
            (Some(left), right, _) => {
                let left = names.place(left)?;
                let opponents = match (right, against) {
                    (Some(right), _) => vec![names.place(right)?],
                    (None, Against::Others) => (0..names.ids.len()).filter(|other| *other != left).collect(),
                    (None, Against::Listed(path)) => listed_names(path, &self.table, names)?,
                };
                self.named(left, opponents, &context_columns)?
            }
            (None, _, Some(path)) => {
                let outcome = outcome_args.map_or(OutcomeColumns::Unread, OutcomeColumns::Stated);
                let wanted = Wanted { outcome, ..self.wanted(&context_columns) };
                IndexedDuels::read(self.table.source(path).open()?, names, wanted, console)?
            }
            _ => return Err(Failure::input("say which duels: a table, or --left ITEM --right ITEM")),
        };
        if outcome_args.is_some() {
            indexed.turn_to_winners()?;
        }
        if indexed.left.is_empty() {
            return Err(Failure::input(format!("{}: there is nobody else to meet", names.source)));
        }
        let pairs: Vec<Pair> = indexed.left.iter().copied().zip(indexed.right.iter().copied()).collect();
        let names_of_side = |side: &[usize]| side.iter().map(|&i| names.ids[i].clone()).collect();
        let (left, right) = (names_of_side(&indexed.left), names_of_side(&indexed.right));
        let (rows, sums) = match &teams {
            None => (rows_in(&saved.model, &items, &pairs, &indexed)?, None),
            Some(_) if indexed.home.is_some() || has_entrants(&saved.model, &items)? => {
                let why = "bags have no home and no ability of their own: leave --home and --at-home out, \
                           and --members where the model was fitted with these";
                return Err(Failure::input(why));
            }
            Some(teams) => {
                let (rows, sums) = teams.bags.duels(&items.table, &pairs, indexed.contexts.as_ref())?;
                (rows.align_to(saved.model.columns())?, Some(sums))
            }
        };
        Ok(Meeting { outcome: indexed.outcome, saved, items, left, right, rows, sums })
    }

    /// The columns to read of duels, for a model with these contexts.
    pub fn wanted<'a>(&'a self, context_columns: &'a [Column]) -> Wanted<'a> {
        let contexts = if context_columns.is_empty() {
            ContextColumns::Nothing
        } else {
            ContextColumns::Fitted(context_columns)
        };
        Wanted { sides: &self.sides, outcome: OutcomeColumns::Unread, home: self.home.as_ref(), contexts }
    }

    /// The items in the model's columns, and the table of duels if one is given. A model that knows nothing
    /// but names takes a single table for that of duels.
    fn items_and_duels(
        &self,
        saved: &SavedModel,
        sides: &LeftRightColumns,
    ) -> Result<(Items, Option<&PathBuf>)> {
        let Some(known) = known_names(&saved.model, sides) else {
            let Some(path) = &self.items else {
                return Err(Failure::input("give the table of items, with the columns that the model knows"));
            };
            if self.left.is_none() && self.duels.is_none() {
                return Err(Failure::input("say which duels: a table, or --left ITEM --right ITEM"));
            }
            let known = item_points(saved, sides)?;
            let items = Items::for_model(path, (&self.of_items, &self.table, self.cells), &known)?;
            return Ok((items, self.duels.as_ref()));
        };
        let model = self.model.display().to_string();
        let (table, duels) = match (&self.items, &self.duels) {
            (duels, None) if self.left.is_none() => (None, duels.as_ref()),
            (table, duels) => (table.as_ref(), duels.as_ref()),
        };
        let read = |path| Items::for_model(path, (&self.of_items, &self.table, self.cells), &nothing()?);
        let mut items = match table {
            Some(path) => read(path)?,
            None => Items::names_only(model.clone(), known.clone())?,
        };
        // Who is a column of these items, as the model has it.
        if let Some(column) = sides.items(saved.model.columns()).into_iter().find(|c| c.name == ITEM) {
            let places: HashMap<&String, usize> = known.iter().zip(0..).collect();
            let code = |id: &String| {
                let place = places.get(id).map(|place| *place as f64);
                place.ok_or_else(|| Failure::input(format!("{model}: the model has met no item '{id}'")))
            };
            let codes = items.names.ids.iter().map(code).collect::<Result<Vec<f64>>>()?;
            items.table = Table::from_column_major(vec![column], codes.len(), codes)?;
        }
        Ok((items, duels))
    }

    /// Duels of an item with others, all in the same circumstances.
    fn named(&self, left: usize, right: Vec<usize>, context_columns: &[Column]) -> Result<IndexedDuels> {
        let count = right.len();
        let home = match self.at_home.as_deref() {
            None | Some("none") => HomeSide::Nobody,
            Some("left") => HomeSide::Left,
            Some("right") => HomeSide::Right,
            Some(other) => {
                return Err(Failure::input(format!("--at-home {other}: left, right or none")));
            }
        };
        let context_values: Vec<(&str, &str)> = self
            .context
            .iter()
            .flat_map(|text| text.split(','))
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let mut values = Vec::new();
        for column in context_columns {
            let Some((_, value)) = context_values.iter().find(|(name, _)| *name == column.name) else {
                return Err(Failure::input(format!(
                    "the model was fitted to duels in contexts: say --context {}=…",
                    column.name
                )));
            };
            let cell = match &column.kind {
                ColumnKind::Numeric => value.parse().ok().filter(|v: &f64| v.is_finite()),
                ColumnKind::Categorical { levels } => {
                    // A column of users has a level for those whom the model has not met.
                    level_of_text(levels, value)
                        .or_else(|| level_of_text(levels, UNKNOWN_LEVEL))
                        .map(|code| code as f64)
                }
            };
            let cell = cell.ok_or_else(|| {
                Failure::input(format!("--context {}={value}: the model knows no such value", column.name))
            })?;
            values.extend(std::iter::repeat_n(cell, count));
        }
        if let Some((name, _)) =
            context_values.iter().find(|(name, _)| context_columns.iter().all(|c| c.name != *name))
        {
            return Err(Failure::input(format!("--context {name}: the model was fitted without it")));
        }
        let contexts = (!context_columns.is_empty())
            .then(|| Table::from_column_major(context_columns.to_vec(), count, values));
        Ok(IndexedDuels {
            left: vec![left; count],
            right,
            outcome: None,
            weight: None,
            home: self.at_home.is_some().then(|| vec![home; count]),
            contexts: contexts.transpose()?,
            rows: (0..count).collect(),
            count,
        })
    }
}

/// The column of a model of abilities that is the item's name.
const ITEM: &str = "item";

/// A table of items without columns.
fn nothing() -> Result<Table> {
    Ok(Table::from_column_major(Vec::new(), 1, Vec::new())?)
}

/// The names that a model was fitted to, if it knows items by nothing else.
fn known_names(model: &KernelExpansion, sides: &LeftRightColumns) -> Option<Vec<String>> {
    let columns = sides.items(model.columns());
    let of_abilities =
        model.model_card.iter().any(|fact| fact.name == "model" && fact.value == "Bradley-Terry");
    let names = columns.iter().find_map(|c| match &c.kind {
        ColumnKind::Categorical { levels }
            if (c.name == ITEM && of_abilities) || (c.name == ID && is_open(levels)) =>
        {
            Some(levels.iter().filter(|level| !is_stranger(level)).cloned().collect())
        }
        _ => None,
    });
    names.filter(|_| columns.iter().all(|c| [ITEM, ID, HOME].contains(&c.name.as_str())))
}

/// Whether a level is one of items that a model has not met.
fn is_stranger(level: &str) -> bool {
    level == UNKNOWN_LEVEL || level == UNSEEN_RIGHT
}

/// Whether levels are those of items' names, to which strangers belong.
fn is_open(levels: &[String]) -> bool {
    levels.iter().any(|level| level == UNSEEN_RIGHT)
}

/// The numbers of those whom a table names, in its column of items' names or its first one.
fn listed_names(path: &Path, table: &TableArgs, names: &Names) -> Result<Vec<usize>> {
    let rows = table.source(path).open()?;
    let Some(first) = rows.header().first().cloned() else {
        return Err(Failure::input(format!("{} has no columns", rows.name)));
    };
    let columns = Columns::read(rows, std::slice::from_ref(&first))?;
    names_of(&columns, &first)?.iter().map(|id| names.place(id)).collect()
}

/// Whether the model has columns of who is at home, or of who an item is, that these items do not bring
/// along.
fn has_entrants(model: &KernelExpansion, items: &Items) -> Result<bool> {
    let known = LeftRightColumns::from_columns(model.columns())?.items(model.columns());
    Ok([HOME, ID]
        .iter()
        .any(|name| known.iter().any(|c| c.name == *name) && items.table.index_of(name).is_err()))
}

/// Items as a model's columns have them: at nobody's home and without an ability of their own, if it knows of
/// these.
pub fn at_nobodys(model: &KernelExpansion, items: &Table) -> Result<Table> {
    let known = LeftRightColumns::from_columns(model.columns())?.items(model.columns());
    let (mut columns, mut values) = (items.columns().to_vec(), items.column_major().to_vec());
    for column in known.into_iter().filter(|c| items.index_of(&c.name).is_err()) {
        let default = match &column.kind {
            ColumnKind::Numeric => 0.0,
            ColumnKind::Categorical { levels } => code_of(levels, UNKNOWN_LEVEL),
        };
        values.extend(std::iter::repeat_n(default, items.rows()));
        columns.push(column);
    }
    Ok(Table::from_column_major(columns, items.rows(), values)?)
}

/// The code of a level that is there.
fn code_of(levels: &[String], level: &str) -> f64 {
    levels.iter().position(|name| name == level).unwrap_or(0) as f64
}

/// Duels between items as wide rows of a model that may know of homes, names and contexts.
pub fn rows_in(
    model: &KernelExpansion,
    items: &Items,
    pairs: &[Pair],
    duels: &IndexedDuels,
) -> Result<Table> {
    let known = LeftRightColumns::from_columns(model.columns())?.items(model.columns());
    let table = &items.table;
    let column_of = |name: &str| known.iter().find(|c| c.name == name && table.index_of(name).is_err());
    let (home, id) = (column_of(HOME), column_of(ID));
    if home.is_none() && duels.home.is_some() {
        return Err(Failure::input("the model was fitted without --home: leave it out"));
    }
    if home.is_none() && id.is_none() {
        return Ok(wide_rows_in(table, pairs, duels.contexts.as_ref())?);
    }
    // Each as it takes part in each duel: the left one, then the right one.
    let sides = || {
        pairs.iter().enumerate().flat_map(|(i, &(l, r))| [(i, l, HomeSide::Left), (i, r, HomeSide::Right)])
    };
    let places: Vec<usize> = sides().map(|(_, item, _)| item).collect();
    let taking = table.select_rows(&places);
    let (mut columns, mut values) = (taking.columns().to_vec(), taking.column_major().to_vec());
    if let Some(column) = home {
        let is_home =
            |(i, _, side)| f64::from(u8::from(duels.home.as_ref().is_some_and(|home| home[i] == side)));
        values.extend(sides().map(is_home));
        columns.push(column.clone());
    }
    if let Some(column) = id {
        let ColumnKind::Categorical { levels } = &column.kind else {
            return Err(Failure::input(format!("the model's column '{ID}' is not one of names")));
        };
        // Whom the model does not know is a stranger, another one on either side.
        let known: HashMap<&String, usize> = levels.iter().zip(0..).collect();
        let stranger = |side| if side == HomeSide::Left { UNKNOWN_LEVEL } else { UNSEEN_RIGHT };
        let code = |(_, item, side): (usize, usize, HomeSide)| {
            known
                .get(&items.names.ids[item])
                .map_or_else(|| code_of(levels, stranger(side)), |&place| place as f64)
        };
        values.extend(sides().map(code));
        columns.push(column.clone());
    }
    let sides_table = Table::from_column_major(columns, places.len(), values)?;
    let pairs: Vec<Pair> = (0..pairs.len()).map(|i| (2 * i, 2 * i + 1)).collect();
    Ok(wide_rows_in(&sides_table, &pairs, duels.contexts.as_ref())?)
}

/// The left items of a model's support points, by which cells are typed; whether they are at home, and who
/// they are, is no column of theirs.
fn item_points(saved: &SavedModel, sides: &LeftRightColumns) -> Result<Table> {
    let points = &saved.model.support_points;
    let names = |c: &Column| matches!(&c.kind, ColumnKind::Categorical { levels } if is_open(levels));
    let item_columns = sides.left.iter().zip(sides.items(points.columns()));
    let (places, columns): (Vec<&usize>, Vec<Column>) =
        item_columns.filter(|(_, c)| c.name != HOME && !(c.name == ID && names(c))).unzip();
    let values = places.iter().flat_map(|j| points.column(**j)).copied().collect();
    Ok(Table::from_column_major(columns, points.rows(), values)?)
}

/// Reads, predicts and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let request = args.request.read(Against::Others, None, &console)?;
    let (odds, count) = (request.odds()?, request.left.len());
    if odds.sd.is_none() {
        console.note(format!(
            "note: {} holds no posterior, which probabilities need, so these are the mean log odds alone",
            args.request.model.display()
        ));
    }
    let mut columns = vec![("left", Cells::Texts(request.left)), ("right", Cells::Texts(request.right))];
    columns.push(("log_odds", Cells::Numbers((0..count).map(|i| odds.log_odds(i)).collect())));
    if odds.margin > 0.0 {
        columns.push(("advantage", Cells::Numbers(odds.mean.clone())));
    }
    if let (Some(sd), Some(probability)) = (&odds.sd, &odds.probability) {
        let column = |read: fn(WinProbability) -> f64| {
            Cells::Numbers((0..count).map(|i| odds.win_probability(i).map_or(f64::NAN, read)).collect())
        };
        columns.extend([
            ("log_odds_std", Cells::Numbers(sd.clone())),
            ("probability", Cells::Numbers(probability.clone())),
            ("probability_low", column(|win| win.interval[0])),
            ("probability_high", column(|win| win.interval[1])),
        ]);
        columns.extend(odds.tie.as_ref().map(|tie| ("probability_tie", Cells::Numbers(tie.clone()))));
        columns.push(("superiority", column(|win| win.superiority)));
    }
    let (names, cells): (Vec<&str>, Vec<Cells>) = columns.into_iter().unzip();
    let names = names.into_iter().map(String::from).collect();
    let mut table = TableWriter::open(args.output.as_deref(), format, names, cells.clone())?;
    table.rows(cells)?;
    table.finish()
}

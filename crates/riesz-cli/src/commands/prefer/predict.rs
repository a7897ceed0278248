//! `riesz prefer predict`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::{ValueEnum, ValueHint};
use riesz::explanation::WinProbability;
use riesz::format::model::SavedModel;
use riesz::linalg::Sparse;
use riesz::preference::{
    ABILITY, DuelLogOdds, HOME, HomeSide, LeftRightColumns, Pair, UNSEEN_RIGHT, wide_rows_in,
};
use riesz::table::{UNKNOWN_LEVEL, level_of_text};
use riesz::{Column, ColumnKind, KernelExpansion, Table};

use super::model_items::{code_of, items_of_model, known_names, read_duel_model, rows_of_items};
use crate::args::{CellArgs, Global, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::bags::BagArgs;
use crate::io::columns::Columns;
use crate::io::duels::{
    ContextColumns, IndexedDuels, ItemArgs, Items, Names, OutcomeArgs, OutcomeColumns, RequestedColumns,
    SideArgs, names_of,
};
use crate::io::models::ModelOrAverage;
use crate::io::write::{Cells, TableWriter};

/// Arguments of `prefer predict`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer predict m.riesz players.csv --left Ann --right Bob
  riesz prefer predict m.riesz players.csv --left Ann                  against all others
  riesz prefer predict m.riesz players.csv matches.csv -o odds.csv
  riesz prefer predict m.riesz --left gpt --right llama        for a model that was fitted to names alone

The table has the columns left and right; log_odds, the posterior mean of the log odds that the
left item wins; log_odds_std, their standard deviation; probability that the left item wins
(averaged over the posterior), with a 95 % interval; and probability_better, the posterior probability
that the left item is the better one. A model with --ties model adds two columns: advantage, the
log odds before the margin of ties is subtracted, which is the sum of the values of 'riesz prefer
explain'; and probability_tie. The right item wins with the remaining probability.")]
pub struct Args {
    /// The duels to predict.
    #[command(flatten)]
    pub request: DuelRequest,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// A model of duels, items, and the requested duels between them.
#[derive(Debug, Clone, clap::Args)]
pub struct DuelRequest {
    /// Model file of 'riesz prefer fit'
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of items with the columns of the model; a model of names alone needs none
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "left")]
    pub items: Option<PathBuf>,
    /// Table of duels between items, given by name
    #[arg(value_hint = ValueHint::FilePath)]
    pub duels: Option<PathBuf>,
    /// One duel: the name of the left item, or of the left bag with --members; without --right, its duels
    /// with all others
    #[arg(long, value_name = "ITEM", conflicts_with_all = ["duels", "winner", "loser", "sides"])]
    pub left: Option<String>,
    /// The right item's name
    #[arg(long, value_name = "ITEM", requires = "left")]
    pub right: Option<String>,
    /// With --left: the side at home, left, right or none
    #[arg(long, value_name = "SIDE", requires = "left")]
    pub at_home: Option<String>,
    /// With --left: the context, column=value,column=value
    #[arg(long, value_name = "CONTEXT", requires = "left")]
    pub context: Option<String>,
    /// With --left: the user, if the model was fitted with --users; an unknown name is a new user
    #[arg(long, value_name = "NAME", requires = "left")]
    pub user: Option<String>,
    /// Column of users in the table of duels, if its name is not that of the fit
    #[arg(long, value_name = "COL", help_heading = "Columns of duels", conflicts_with = "left")]
    pub users: Option<String>,
    /// Bags of items.
    #[command(flatten)]
    pub bags: BagArgs,
    /// Options for reading items.
    #[command(flatten)]
    pub item_options: ItemArgs,
    /// The sides of duels.
    #[command(flatten)]
    pub sides: SideArgs,
    /// Column with the side at home: left, right or none, or the item's name
    #[arg(long, value_name = "COL", help_heading = "Columns of duels")]
    pub home: Option<String>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// The opponents of an item or a bag.
#[derive(Debug, Clone, Copy)]
pub enum Against<'a> {
    /// The item of --right; without it, all others.
    Others,
    /// The items of a table of names.
    Listed(&'a Path),
}

/// The side from whose view a mean over duels is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Seen {
    /// The left side of each duel.
    Left,
    /// The winner of each duel; ties are left out.
    Winner,
}

/// The duels to predict, with their model and items.
pub struct Meeting {
    /// The model, or an average of models.
    pub model: ModelOrAverage,
    /// The items in the model's columns.
    pub items: Items,
    /// Name of the left item or bag of each duel.
    pub left: Vec<String>,
    /// Name of the right item or bag of each duel.
    pub right: Vec<String>,
    /// The outcomes of the duels, if the table has them.
    pub outcome: Option<Vec<f64>>,
    /// Wide rows with the columns of both items: one per duel, or for bags one per pair of members.
    pub rows: Table,
    /// For bags, the weight of each row in the log odds of each duel.
    pub sums: Option<Sparse>,
}

impl Meeting {
    /// The log odds that the left side wins, with win probabilities.
    pub fn odds(&self) -> Result<DuelLogOdds> {
        Ok(DuelLogOdds::of_average(&self.model.parts(), &self.rows, self.sums.as_ref())?)
    }
}

impl DuelRequest {
    /// Reads the model, the items in its columns, and the requested duels; with `outcome_args` also their
    /// outcomes, and the winner becomes the left side.
    pub fn read(
        &self,
        against: Against<'_>,
        outcome_args: Option<&OutcomeArgs>,
        console: &Console,
    ) -> Result<Meeting> {
        let (model, sides) = read_duel_model(&self.model, &self.cells)?;
        let saved = &model.best;
        let (items, duels) = self.items_and_duels(saved, &sides)?;
        let teams = self.bags.read(&items, &self.table)?;
        let names = teams.as_ref().map_or(&items.names, |teams| &teams.names);
        let context_columns: Vec<Column> =
            sides.contexts.iter().map(|&j| saved.model.columns()[j].clone()).collect();
        let mut indexed = match (&self.left, &self.right, duels) {
            (Some(left), right, _) => {
                let left = names.index_of(left)?;
                let opponents = match (right, against) {
                    (Some(right), _) => vec![names.index_of(right)?],
                    (None, Against::Others) => (0..names.ids.len()).filter(|other| *other != left).collect(),
                    (None, Against::Listed(path)) => listed_names(path, &self.table, names)?,
                };
                self.named(left, opponents, &context_columns)?
            }
            (None, _, Some(path)) => {
                let outcome = outcome_args.map_or(OutcomeColumns::Unread, OutcomeColumns::Stated);
                let read_columns = self.read_context_columns(&context_columns)?;
                let requested = RequestedColumns { outcome, ..self.requested_columns(&read_columns) };
                let mut indexed =
                    IndexedDuels::read(self.table.source(path).open()?, names, requested, console)?;
                let rename = |contexts: Table| {
                    let values = contexts.column_major().to_vec();
                    Table::from_column_major(context_columns.clone(), contexts.rows(), values)
                };
                indexed.contexts = indexed.contexts.map(rename).transpose()?;
                indexed
            }
            _ => return Err(Failure::input("no duels are given: give a table, or --left ITEM --right ITEM")),
        };
        if outcome_args.is_some() {
            indexed.put_winners_left()?;
        }
        if indexed.left.is_empty() {
            return Err(Failure::input(format!(
                "{}: there is no other item: give a table with at least two",
                names.source
            )));
        }
        let pairs: Vec<Pair> = indexed.left.iter().copied().zip(indexed.right.iter().copied()).collect();
        let names_of_side = |side: &[usize]| side.iter().map(|&i| names.ids[i].clone()).collect();
        let (left, right) = (names_of_side(&indexed.left), names_of_side(&indexed.right));
        let (rows, sums) = match &teams {
            None => (rows_in(&saved.model, &items, &pairs, &indexed)?, None),
            Some(_) if indexed.home.is_some() => {
                return Err(Failure::input("bags have no home advantage: leave --home and --at-home out"));
            }
            Some(teams) => {
                let members = rows_of_items(&items, &saved.model)?;
                let (rows, sums) = teams.bags.duels(&members, &pairs, indexed.contexts.as_ref())?;
                (with_new_items_apart(&rows.align_to(saved.model.columns())?)?, Some(sums))
            }
        };
        Ok(Meeting { outcome: indexed.outcome, model, items, left, right, rows, sums })
    }

    /// The context columns of the model under their names in the table of duels.
    fn read_context_columns(&self, context_columns: &[Column]) -> Result<Vec<Column>> {
        let mut columns = context_columns.to_vec();
        if let Some(name) = &self.users {
            let users = users_column(context_columns, "--users")?;
            columns[users].name.clone_from(name);
        }
        Ok(columns)
    }

    /// The columns of duels to read, for a model with these context columns.
    pub fn requested_columns<'a>(&'a self, context_columns: &'a [Column]) -> RequestedColumns<'a> {
        let contexts = if context_columns.is_empty() {
            ContextColumns::Nothing
        } else {
            ContextColumns::Fitted(context_columns)
        };
        RequestedColumns {
            sides: &self.sides,
            outcome: OutcomeColumns::Unread,
            home: self.home.as_ref(),
            contexts,
        }
    }

    /// The items in the model's columns, and the path of the table of duels if there is one. For a model of
    /// names alone a single table is that of duels.
    fn items_and_duels(
        &self,
        saved: &SavedModel,
        sides: &LeftRightColumns,
    ) -> Result<(Items, Option<&PathBuf>)> {
        let has_names = known_names(&saved.model, sides).is_some();
        let (table, duels) = match (&self.items, &self.duels) {
            (duels, None) if has_names && self.left.is_none() => (None, duels.as_ref()),
            (table, duels) => (table.as_ref(), duels.as_ref()),
        };
        if !has_names && self.left.is_none() && duels.is_none() && table.is_some() {
            return Err(Failure::input("no duels are given: give a table, or --left ITEM --right ITEM"));
        }
        let options = (&self.item_options, &self.table, self.cells);
        let items = items_of_model((&self.model, saved), sides, table, options)?.ok_or_else(|| {
            Failure::input("there is no table of items: give one with the columns of the model")
        })?;
        Ok((items, duels))
    }

    /// Duels of one item with others, all with the same home side and context.
    fn named(&self, left: usize, right: Vec<usize>, context_columns: &[Column]) -> Result<IndexedDuels> {
        let count = right.len();
        let home = match self.at_home.as_deref() {
            None | Some("none") => HomeSide::Nobody,
            Some("left") => HomeSide::Left,
            Some("right") => HomeSide::Right,
            Some(other) => {
                return Err(Failure::input(format!("--at-home {other}: give left, right or none")));
            }
        };
        let cells = context_cells(self.context.as_deref(), self.user.as_deref(), context_columns)?;
        let values = cells.iter().flat_map(|cell| std::iter::repeat_n(*cell, count)).collect();
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

/// Returns the cells of a context, `column=value,column=value`, and of its user in the columns of a model's
/// contexts.
pub fn context_cells(
    context: Option<&str>,
    user: Option<&str>,
    context_columns: &[Column],
) -> Result<Vec<f64>> {
    let user = match user {
        Some(user) => Some((context_columns[users_column(context_columns, "--user")?].name.as_str(), user)),
        None => None,
    };
    let context_values: Vec<(&str, &str)> = context
        .iter()
        .flat_map(|text| text.split(','))
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (name.trim(), value.trim()))
        .chain(user)
        .collect();
    let mut values = Vec::new();
    for column in context_columns {
        let Some((_, value)) = context_values.iter().find(|(name, _)| *name == column.name) else {
            let is_of_users = users_column(context_columns, "").is_ok_and(|j| context_columns[j] == *column);
            return Err(Failure::input(if is_of_users {
                "the model was fitted to duels with users: give --user NAME; another name is a new user"
                    .into()
            } else {
                format!("the model was fitted to duels in contexts: give --context {}=…", column.name)
            }));
        };
        let cell = match &column.kind {
            ColumnKind::Numeric => value.parse().ok().filter(|v: &f64| v.is_finite()),
            ColumnKind::Categorical { levels } => {
                // A column of users has a level for new users.
                level_of_text(levels, value)
                    .or_else(|| level_of_text(levels, UNKNOWN_LEVEL))
                    .map(|code| code as f64)
            }
        };
        let cell = cell.ok_or_else(|| {
            Failure::input(format!("--context {}={value}: the model has no such value", column.name))
        })?;
        values.push(cell);
    }
    if let Some((name, _)) =
        context_values.iter().find(|(name, _)| context_columns.iter().all(|c| c.name != *name))
    {
        return Err(Failure::input(format!("--context {name}: the model was fitted without it")));
    }
    Ok(values)
}

/// The index of the column of users, which has a level for new users; `option` needs it.
fn users_column(context_columns: &[Column], option: &str) -> Result<usize> {
    let is_of_users = |column: &Column| match &column.kind {
        ColumnKind::Categorical { levels } => levels.iter().any(|level| level == UNKNOWN_LEVEL),
        ColumnKind::Numeric => false,
    };
    context_columns
        .iter()
        .rposition(is_of_users)
        .ok_or_else(|| Failure::input(format!("{option}: the model was fitted without users: leave it out")))
}

/// The indices of the items in a table's first column.
fn listed_names(path: &Path, table: &TableArgs, names: &Names) -> Result<Vec<usize>> {
    let rows = table.source(path).open()?;
    let Some(first) = rows.header().first().cloned() else {
        return Err(Failure::input(format!("{} has no columns", rows.name)));
    };
    let columns = Columns::read(rows, std::slice::from_ref(&first))?;
    names_of(&columns, &first)?.iter().map(|id| names.index_of(id)).collect()
}

/// Wide rows with another level of ability for new items on the right than for those on the left.
fn with_new_items_apart(rows: &Table) -> Result<Table> {
    let mut values = rows.column_major().to_vec();
    for &j in &LeftRightColumns::from_columns(rows.columns())?.right {
        let ColumnKind::Categorical { levels } = &rows.columns()[j].kind else { continue };
        if levels.iter().any(|level| level == UNSEEN_RIGHT) {
            let [unknown, unseen_right] = [UNKNOWN_LEVEL, UNSEEN_RIGHT].map(|level| code_of(levels, level));
            let cells = &mut values[j * rows.rows()..(j + 1) * rows.rows()];
            cells.iter_mut().filter(|code| **code == unknown).for_each(|code| *code = unseen_right);
        }
    }
    Ok(Table::from_column_major(rows.columns().to_vec(), rows.rows(), values)?)
}

/// Adds the model's columns for home and ability that the items lack: nobody is at home, and the ability is
/// that of a new item.
pub fn add_missing_columns(model: &KernelExpansion, items: &Table) -> Result<Table> {
    let model_columns = LeftRightColumns::from_columns(model.columns())?.items(model.columns());
    let (mut columns, mut values) = (items.columns().to_vec(), items.column_major().to_vec());
    for column in model_columns.into_iter().filter(|c| items.index_of(&c.name).is_err()) {
        let default = match &column.kind {
            ColumnKind::Numeric => 0.0,
            ColumnKind::Categorical { levels } => code_of(levels, UNKNOWN_LEVEL),
        };
        values.extend(std::iter::repeat_n(default, items.rows()));
        columns.push(column);
    }
    Ok(Table::from_column_major(columns, items.rows(), values)?)
}

/// Duels between items as wide rows of a model that may have columns for home, names and contexts.
pub fn rows_in(
    model: &KernelExpansion,
    items: &Items,
    pairs: &[Pair],
    duels: &IndexedDuels,
) -> Result<Table> {
    let model_columns = LeftRightColumns::from_columns(model.columns())?.items(model.columns());
    let table = &items.table;
    let column_of =
        |name: &str| model_columns.iter().find(|c| c.name == name && table.index_of(name).is_err());
    let (home, id) = (column_of(HOME), column_of(ABILITY));
    if home.is_none() && duels.home.is_some() {
        return Err(Failure::input("the model was fitted without --home: leave it out"));
    }
    if home.is_none() && id.is_none() {
        return Ok(wide_rows_in(table, pairs, duels.contexts.as_ref())?);
    }
    // Two entries for each duel: the left item, then the right one.
    let sides = || {
        pairs.iter().enumerate().flat_map(|(i, &(l, r))| [(i, l, HomeSide::Left), (i, r, HomeSide::Right)])
    };
    let item_indices: Vec<usize> = sides().map(|(_, item, _)| item).collect();
    let side_items = table.select_rows(&item_indices);
    let (mut columns, mut values) = (side_items.columns().to_vec(), side_items.column_major().to_vec());
    if let Some(column) = home {
        let is_home =
            |(i, _, side)| f64::from(u8::from(duels.home.as_ref().is_some_and(|home| home[i] == side)));
        values.extend(sides().map(is_home));
        columns.push(column.clone());
    }
    if let Some(column) = id {
        let ColumnKind::Categorical { levels } = &column.kind else {
            return Err(Failure::input(format!("the model's column '{ABILITY}' does not hold names")));
        };
        // A new item has a level of its own on each side, so that two new items differ.
        let level_codes: HashMap<&String, usize> = levels.iter().zip(0..).collect();
        let unknown_level = |side| if side == HomeSide::Left { UNKNOWN_LEVEL } else { UNSEEN_RIGHT };
        let code_of_side = |(_, item, side): (usize, usize, HomeSide)| {
            level_codes
                .get(&items.names.ids[item])
                .map_or_else(|| code_of(levels, unknown_level(side)), |&code| code as f64)
        };
        values.extend(sides().map(code_of_side));
        columns.push(column.clone());
    }
    let sides_table = Table::from_column_major(columns, item_indices.len(), values)?;
    let pairs: Vec<Pair> = (0..pairs.len()).map(|i| (2 * i, 2 * i + 1)).collect();
    Ok(wide_rows_in(&sides_table, &pairs, duels.contexts.as_ref())?)
}

/// Predicts the duels and writes the probabilities.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let request = args.request.read(Against::Others, None, &console)?;
    let (odds, count) = (request.odds()?, request.left.len());
    if odds.sd.is_none() {
        console.note(format!(
            "note: {} holds no posterior, which probabilities need, so only mean log odds are given",
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
        columns.push(("probability_better", column(|win| win.probability_better)));
    }
    let (names, cells): (Vec<&str>, Vec<Cells>) = columns.into_iter().unzip();
    let names = names.into_iter().map(String::from).collect();
    let mut table = TableWriter::open(args.output.as_deref(), format, names, cells.clone())?;
    table.rows(cells)?;
    table.finish()
}

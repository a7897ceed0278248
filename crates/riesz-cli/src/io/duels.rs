//! Items and duels: a table of items and a table of duels between their names, or one table with the columns
//! of both items in each row.

use std::collections::HashMap;
use std::path::Path;

use riesz::error::listed;
use riesz::preference::{
    DuelColumns, HomeSide, MissingOutcome, NamedDuelColumns, Outcomes, Record, read_homes,
};
use riesz::table::UNKNOWN_LEVEL;
use riesz::{Column, ColumnKind, Table};

use crate::args::{CellArgs, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::{Columns, sorted_levels};
use crate::io::input::OpenTable;
use crate::io::model_rows::ModelRows;
use crate::io::names::listed_columns;

/// Options for reading a table of items.
#[derive(Debug, Clone, clap::Args)]
pub struct ItemArgs {
    /// Column of the items' names [default: the first column]
    #[arg(long, value_name = "COL")]
    pub id: Option<String>,
    /// Columns of items to leave out
    #[arg(long, value_name = "COL,…")]
    pub ignore: Vec<String>,
    /// Columns of items whose numbers are codes of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
}

/// The columns of the two sides in a table of duels.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct SideArgs {
    /// Column of winners; with --loser
    #[arg(long, value_name = "COL", default_value = "winner")]
    pub winner: String,
    /// Column of losers
    #[arg(long, value_name = "COL", default_value = "loser")]
    pub loser: String,
    /// Columns of the two sides, if there are no columns of winners and losers [default: left,right or
    /// model_a,model_b]
    #[arg(long, value_name = "LEFT,RIGHT")]
    pub sides: Option<String>,
}

/// The columns of outcomes in a table of duels.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct OutcomeArgs {
    /// Column of outcomes, if there are no columns of winners and losers: left, right or tie; win, loss or
    /// draw; W, L or D; home, away or draw; H, A or D; model_a, model_b or tie; A, B or tie; 1, 0 or 0.5; 1,
    /// -1 or 0; 1, 2 or X; a score such as 2-1, 1-0 or 1/2-1/2; or the winner's name. All cells must be of
    /// the same kind [default: outcome, or winner beside model_a and model_b]
    #[arg(long, value_name = "COL")]
    pub outcome: Option<String>,
    /// Columns of the scores of both sides instead: the higher score wins, and equal scores are a tie
    #[arg(long, value_name = "LEFT,RIGHT", conflicts_with = "outcome")]
    pub scores: Option<String>,
}

/// The columns of a table of duels to which a model is fitted.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct DuelArgs {
    /// The columns of the two sides.
    #[command(flatten)]
    pub sides: SideArgs,
    /// The columns of outcomes.
    #[command(flatten)]
    pub outcomes: OutcomeArgs,
    /// Columns with the numbers of duels that each side won, if a row counts several duels, and of ties
    #[arg(long, value_name = "LEFT,RIGHT[,TIES]", conflicts_with_all = ["outcome", "scores"])]
    pub wins: Option<String>,
    /// Column of positive weights of duels [default: all 1]
    #[arg(long, value_name = "COL")]
    pub weight: Option<String>,
    /// Treatment of a duel whose outcome is missing (for example an unfinished game): stop with an error, or
    /// leave it out
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub missing: MissingDuels,
    /// Leave out duels of an item with itself; they are an error otherwise
    #[arg(long)]
    pub drop_self: bool,
}

/// Treatment of duels without an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum MissingDuels {
    /// They are an error.
    #[default]
    Error,
    /// They are left out.
    Drop,
}

/// The contexts of duels.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct ContextArgs {
    /// Columns of the contexts in which the items met (surface, season, judge): duels are most informative
    /// about similar contexts
    #[arg(long, value_name = "COL,…")]
    pub contexts: Vec<String>,
    /// Column of users, who judged the duels: preferences may differ between users, and those of a new user
    /// are predicted from what all users share
    #[arg(long, value_name = "COL")]
    pub users: Option<String>,
}

/// The parts of a table of duels to read.
#[derive(Debug, Clone, Copy)]
pub struct RequestedColumns<'a> {
    /// The columns of the two sides.
    pub sides: &'a SideArgs,
    /// The columns of the outcome, if it is read.
    pub outcome: OutcomeColumns<'a>,
    /// The column of the home side.
    pub home: Option<&'a String>,
    /// The columns of contexts.
    pub contexts: ContextColumns<'a>,
}

/// The columns of the outcome, if it is read.
#[derive(Debug, Clone, Copy)]
pub enum OutcomeColumns<'a> {
    /// The outcome is not read.
    Unread,
    /// The outcome by these columns, without weights.
    Stated(&'a OutcomeArgs),
    /// All columns of outcomes and weights, to which a model is fitted.
    Fitted(&'a DuelArgs),
}

/// The columns of contexts.
#[derive(Debug, Clone, Copy)]
pub enum ContextColumns<'a> {
    /// None.
    Nothing,
    /// The named columns.
    Named(&'a ContextArgs),
    /// The columns of a fitted model.
    Fitted(&'a [Column]),
}

/// The distinct names of the items or bags in duels.
pub struct Names {
    /// The noun in messages: item, or bag.
    pub noun: &'static str,
    /// The name of the file with the names.
    pub source: String,
    /// The names.
    pub ids: Vec<String>,
    indices: HashMap<String, usize>,
}

/// Items with their names and columns.
pub struct Items {
    /// The names of the items, one per row of the table.
    pub names: Names,
    /// The columns other than names; there may be none.
    pub table: Table,
}

/// Duels between items, which are given by their indices.
pub struct IndexedDuels {
    /// The item on the left, or the winner.
    pub left: Vec<usize>,
    /// The item on the right, or the loser.
    pub right: Vec<usize>,
    /// 1 if the left item won, 0 if the right one won, ½ for a tie; `None` if the outcome is not read.
    pub outcome: Option<Vec<f64>>,
    /// The weight of each duel.
    pub weight: Option<Vec<f64>>,
    /// The home side.
    pub home: Option<Vec<HomeSide>>,
    /// The context of each duel.
    pub contexts: Option<Table>,
    /// The row of the table for each duel.
    pub rows: Vec<usize>,
    /// The number of duels, which exceeds the number of entries if rows count wins.
    pub count: usize,
}

impl Items {
    /// Reads a table of items; the types of its columns are detected.
    pub fn read(path: &Path, args: &ItemArgs, table: &TableArgs, console: &Console) -> Result<Self> {
        let rows = table.source(path).open()?;
        let (name, header) = (rows.name.clone(), rows.header().to_vec());
        let ignored = listed_columns(&args.ignore, &header);
        let categorical = listed_columns(&args.categorical, &header);
        rows.column_indices(ignored.iter().chain(&categorical).chain(&args.id))?;
        let id = id_column(args, &header, &name)?;
        let feature_names: Vec<String> =
            header.iter().filter(|c| **c != id && !ignored.contains(c)).cloned().collect();
        let column_names: Vec<String> = feature_names.iter().chain([&id]).cloned().collect();
        let columns = Columns::read(rows, &column_names)?;
        let item_table = columns.table(&feature_names, &categorical, console)?;
        Self::new(name, names_of(&columns, &id)?, item_table)
    }

    /// Reads items for a model with these columns.
    pub fn for_model(
        path: &Path,
        (args, table, cells): (&ItemArgs, &TableArgs, CellArgs),
        model_items: &Table,
    ) -> Result<Self> {
        let rows = table.source(path).open()?;
        let (name, header) = (rows.name.clone(), rows.header().to_vec());
        rows.column_indices(&args.id)?;
        let id = id_column(args, &header, &name)?;
        let names = names_of(&Columns::read(rows, std::slice::from_ref(&id))?, &id)?;
        if model_items.width() == 0 {
            return Self::names_only(name, names);
        }
        let policy = cells.for_model(model_items)?;
        let mut rows =
            ModelRows::new(table.source(path).open()?, model_items.columns(), policy, model_items.width())?;
        let mut stacked: Option<Table> = None;
        while let Some(part) = rows.next()? {
            stacked = Some(match stacked {
                Some(earlier) => earlier.stack(&part)?,
                None => part,
            });
        }
        let table =
            stacked.ok_or_else(|| Failure::input(format!("{name} has names of columns but no rows")))?;
        Self::new(name, names, table)
    }

    /// Items that have only names.
    pub fn names_only(name: String, ids: Vec<String>) -> Result<Self> {
        let table = Table::from_column_major(Vec::new(), ids.len(), Vec::new())?;
        Self::new(name, ids, table)
    }

    fn new(name: String, ids: Vec<String>, table: Table) -> Result<Self> {
        Ok(Self { names: Names::new("item", name, ids)?, table })
    }
}

impl Names {
    /// The names of items, or bags, from a file of this name.
    pub fn new(noun: &'static str, source: String, ids: Vec<String>) -> Result<Self> {
        let (mut indices, mut duplicates) = (HashMap::new(), Vec::new());
        for (i, id) in ids.iter().enumerate() {
            if indices.insert(id.clone(), i).is_some() && !duplicates.contains(id) {
                duplicates.push(id.clone());
            }
        }
        if !duplicates.is_empty() {
            return Err(Failure::input(format!(
                "{source}: some {noun} names occur twice: {}; give each {noun} one row",
                first_of(&duplicates)
            )));
        }
        Ok(Self { noun, source, ids, indices })
    }

    /// The index of the name `id`, if it exists.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.indices.get(id).copied()
    }

    /// The index of the name `id`; an unknown name is an error.
    pub fn index_of(&self, id: &str) -> Result<usize> {
        self.find(id).ok_or_else(|| {
            Failure::input(format!(
                "{}: there is no {} '{id}'; {}s are: {}",
                self.source,
                self.noun,
                self.noun,
                first_of(&self.ids)
            ))
        })
    }
}

/// The column of outcomes of a table whose left side is in column `left`.
fn outcome_column(args: &OutcomeArgs, left: &str) -> String {
    riesz::preference::outcome_column(left, args.outcome.as_deref())
}

/// The columns of the two sides, if the table has them, and whether the first one holds the winners.
fn sides_in(args: &SideArgs, header: &[String]) -> Result<Option<([String; 2], bool)>> {
    let sides = args.sides.as_ref().map(|text| two_columns("--sides", text, header)).transpose()?;
    let named = NamedDuelColumns {
        winner_and_loser: [&args.winner, &args.loser],
        sides: sides.as_ref().map(|[left, right]| [&left[..], &right[..]]),
        outcome: None,
    };
    let columns = DuelColumns::find(header, named);
    Ok(columns.map(|DuelColumns { sides, outcome }| (sides, outcome.is_none())))
}

/// The two columns that an option names.
fn two_columns(option: &str, text: &String, header: &[String]) -> Result<[String; 2]> {
    let named = listed_columns(std::slice::from_ref(text), header);
    <[String; 2]>::try_from(named)
        .map_err(|_| Failure::input(format!("{option} {text}: give two columns, separated by a comma")))
}

/// Whether a table with this header holds duels between names, rather than the columns of both items in each
/// row.
fn is_of_duels(args: &SideArgs, header: &[String]) -> Result<bool> {
    Ok(sides_in(args, header)?.is_some())
}

/// A table of duels between named items.
struct Named {
    duels: IndexedDuels,
    left: Vec<String>,
    right: Vec<String>,
    source: String,
}

impl IndexedDuels {
    /// Reads duels between these items or bags.
    pub fn read(
        rows: OpenTable,
        names: &Names,
        requested: RequestedColumns<'_>,
        console: &Console,
    ) -> Result<Self> {
        Named::read(rows, requested, console)?.indexed(names)
    }

    /// Reads duels between items that have only names, and the sorted names that occur in them.
    pub fn read_with_items(
        rows: OpenTable,
        requested: RequestedColumns<'_>,
        console: &Console,
    ) -> Result<(Items, Self)> {
        let named = Named::read(rows, requested, console)?;
        let ids = sorted_levels(named.left.iter().chain(&named.right).cloned().collect());
        let items = Items::names_only(named.source.clone(), ids)?;
        let duels = named.indexed(&items.names)?;
        Ok((items, duels))
    }
}

/// The columns that are read from a table of duels.
struct Layout {
    sides: [String; 2],
    /// The column of outcomes.
    outcome_column: Option<String>,
    scores: Option<[String; 2]>,
    wins: Option<Vec<String>>,
    /// Whether the outcome is read.
    reads_outcome: bool,
    weight: Option<String>,
    home: Option<String>,
    contexts: Vec<String>,
}

impl Layout {
    /// The layout of a table with this header.
    fn for_header(name: &str, header: &[String], requested: &RequestedColumns<'_>) -> Result<Self> {
        let (outcomes, fit_columns) = match requested.outcome {
            OutcomeColumns::Unread => (None, None),
            OutcomeColumns::Stated(columns) => (Some(columns), None),
            OutcomeColumns::Fitted(columns) => (Some(&columns.outcomes), Some(columns)),
        };
        let Some((sides, holds_winners)) = sides_in(requested.sides, header)? else {
            return Err(no_sides(name, requested.sides, outcomes, header));
        };
        let scores = outcomes.and_then(|outcome| outcome.scores.as_ref());
        let scores = scores.map(|text| two_columns("--scores", text, header)).transpose()?;
        let wins = fit_columns.and_then(|columns| columns.wins.as_ref());
        let wins = wins.map(|text| win_columns(text, header)).transpose()?;
        let has_counts = scores.is_some() || wins.is_some();
        if holds_winners && has_counts {
            return Err(Failure::input(format!(
                "{name}: the columns of winners and losers already give the outcome: leave --scores and \
                 --wins out, or name other columns by --winner and --loser"
            )));
        }
        let outcome_column = outcomes
            .filter(|_| !holds_winners && !has_counts)
            .map(|columns| outcome_column(columns, &sides[0]));
        if outcome_column.as_ref().is_some_and(|column| !header.contains(column)) {
            if fit_columns.is_some() {
                return Err(no_sides(name, requested.sides, outcomes, header));
            }
            return Err(Failure::input(format!(
                "{name}: there are no outcomes: give a table of duels with columns of winners and losers, an \
                 outcome, or scores"
            )));
        }
        let contexts = match requested.contexts {
            ContextColumns::Nothing => Vec::new(),
            ContextColumns::Named(columns) => {
                listed_columns(&columns.contexts, header).into_iter().chain(columns.users.clone()).collect()
            }
            ContextColumns::Fitted(columns) => columns.iter().map(|c| c.name.clone()).collect(),
        };
        Ok(Self {
            sides,
            outcome_column,
            scores,
            wins,
            reads_outcome: outcomes.is_some(),
            weight: fit_columns.and_then(|columns| columns.weight.clone()),
            home: requested.home.cloned(),
            contexts,
        })
    }

    /// All columns to read, without repetition.
    fn columns(&self) -> Vec<String> {
        let single_columns = self.outcome_column.iter().chain(&self.weight).chain(&self.home);
        let count_columns = self.scores.iter().flatten().chain(self.wins.iter().flatten());
        let columns = self.sides.iter().chain(single_columns).chain(count_columns).chain(&self.contexts);
        let mut distinct: Vec<String> = columns.cloned().collect();
        distinct.sort_unstable();
        distinct.dedup();
        distinct
    }

    /// Reads the outcomes; `None` if they are not requested.
    fn outcomes(
        &self,
        columns: &Columns,
        names: [&[String]; 2],
        missing: MissingDuels,
    ) -> Result<Option<Outcomes>> {
        if !self.reads_outcome {
            return Ok(None);
        }
        let outcome_cells =
            self.outcome_column.as_ref().map(|column| cells_of(columns, column)).transpose()?;
        let count_columns = self.scores.iter().flatten().chain(self.wins.iter().flatten());
        let counts =
            count_columns.map(|column| columns.numbers_or_missing(column)).collect::<Result<Vec<_>>>()?;
        let record = match (&self.outcome_column, &outcome_cells, &self.scores, &self.wins) {
            (Some(column), Some(cells), ..) => Record::Outcomes { column, cells, names: Some(names) },
            (.., Some([left, right]), _) => {
                Record::Scores { columns: [left, right], scores: [&counts[0], &counts[1]] }
            }
            (.., Some(win_columns)) => Record::Wins {
                columns: [&win_columns[0], &win_columns[1]],
                wins: [&counts[0], &counts[1]],
                ties: win_columns.get(2).map(|name| (name.as_str(), &counts[2][..])),
            },
            _ => Record::Winners(names[0].len()),
        };
        let weight = self.weight.as_ref().map(|weight| columns.numbers(weight)).transpose()?;
        read_record(record, weight.as_deref(), missing, &columns.name).map(Some)
    }
}

impl Named {
    fn read(rows: OpenTable, requested: RequestedColumns<'_>, console: &Console) -> Result<Self> {
        let name = rows.name.clone();
        let layout = Layout::for_header(&name, rows.header(), &requested)?;
        let column_names = layout.columns();
        rows.column_indices(&column_names)?;
        let columns = Columns::read(rows, &column_names)?;
        let contexts = read_contexts(&columns, &layout.contexts, requested.contexts, console)?;
        let [left, right] = [names_of(&columns, &layout.sides[0])?, names_of(&columns, &layout.sides[1])?];
        let home =
            layout.home.as_ref().map(|home| homes(&columns, home, [&left, &right], &name)).transpose()?;
        // A mean over winners leaves out duels without an outcome, as it leaves out ties.
        let (missing, drop_self) = match requested.outcome {
            OutcomeColumns::Fitted(columns) => (columns.missing, Some(columns.drop_self)),
            _ => (MissingDuels::Drop, None),
        };
        let outcomes = layout.outcomes(&columns, [&left, &right], missing)?;
        let named = Self::new(name, left, right, (home, contexts));
        match outcomes {
            Some(outcomes) => named.keep_outcomes(outcomes, drop_self, console),
            None => Ok(named),
        }
    }

    /// All rows of a table with these names on the left and the right.
    fn new(
        source: String,
        left: Vec<String>,
        right: Vec<String>,
        (home, contexts): (Option<Vec<HomeSide>>, Option<Table>),
    ) -> Self {
        let count = left.len();
        let duels = IndexedDuels {
            left: Vec::new(),
            right: Vec::new(),
            outcome: None,
            weight: None,
            home,
            contexts,
            rows: (0..count).collect(),
            count,
        };
        Self { duels, left, right, source }
    }

    /// The duels that have an outcome. With `drop_self` (`Some`), duels of an item with itself are left out
    /// or refused.
    fn keep_outcomes(self, outcomes: Outcomes, drop_self: Option<bool>, console: &Console) -> Result<Self> {
        if !outcomes.missing.is_empty() {
            console.note(format!("note: {} duels without an outcome were left out", outcomes.missing.len()));
        }
        let mut selected = self.select_rows(&outcomes.rows);
        (selected.duels.outcome, selected.duels.weight, selected.duels.count) =
            (Some(outcomes.outcome), outcomes.weight, outcomes.count);
        match drop_self {
            Some(drop_self) => selected.without_self(drop_self, console),
            None => Ok(selected),
        }
    }

    /// The duels of these rows, which may repeat.
    fn select_rows(&self, rows: &[usize]) -> Self {
        let texts = |texts: &[String]| rows.iter().map(|&i| texts[i].clone()).collect();
        let numbers = |numbers: &Vec<f64>| rows.iter().map(|&i| numbers[i]).collect();
        let duels = &self.duels;
        Self {
            duels: IndexedDuels {
                left: Vec::new(),
                right: Vec::new(),
                outcome: duels.outcome.as_ref().map(numbers),
                weight: duels.weight.as_ref().map(numbers),
                home: duels.home.as_ref().map(|home| rows.iter().map(|&i| home[i]).collect()),
                contexts: duels.contexts.as_ref().map(|contexts| contexts.select_rows(rows)),
                rows: rows.iter().map(|&i| duels.rows[i]).collect(),
                count: duels.count,
            },
            left: texts(&self.left),
            right: texts(&self.right),
            source: self.source.clone(),
        }
    }

    /// Leaves out duels of an item with itself, or refuses them unless `drop`.
    fn without_self(self, drop: bool, console: &Console) -> Result<Self> {
        let (self_duels, selected): (Vec<usize>, Vec<usize>) =
            (0..self.left.len()).partition(|&i| self.left[i] == self.right[i]);
        if self_duels.is_empty() {
            return Ok(self);
        }
        if !drop {
            let rows: Vec<String> =
                self_duels.iter().map(|&i| (self.duels.rows[i] + 1).to_string()).collect();
            return Err(Failure::input(format!(
                "{}: in row {} an item meets itself: correct it, or give --drop-self",
                self.source,
                first_of(&rows)
            )));
        }
        console.note(format!("note: {} duels of an item with itself were left out", self_duels.len()));
        let mut remaining = self.select_rows(&selected);
        remaining.duels.count = remaining.duels.count.saturating_sub(self_duels.len());
        Ok(remaining)
    }

    /// The duels with indices in `names` in place of the names; unknown names are an error.
    fn indexed(self, names: &Names) -> Result<IndexedDuels> {
        let mut unknown: Vec<String> = Vec::new();
        let mut indices = |ids: &[String]| -> Vec<usize> {
            let mut index_of = |id: &String| {
                names.find(id).unwrap_or_else(|| {
                    if !unknown.contains(id) {
                        unknown.push(id.clone());
                    }
                    0
                })
            };
            ids.iter().map(&mut index_of).collect()
        };
        let (left, right) = (indices(&self.left), indices(&self.right));
        if !unknown.is_empty() {
            return Err(Failure::input(format!(
                "{}: duels include {}s that {} lacks: {}; add them, or leave these duels out",
                self.source,
                names.noun,
                names.source,
                first_of(&unknown)
            )));
        }
        Ok(IndexedDuels { left, right, ..self.duels })
    }
}

/// The columns of wins, and of ties if there is a third one.
fn win_columns(text: &String, header: &[String]) -> Result<Vec<String>> {
    let named = listed_columns(std::slice::from_ref(text), header);
    if named.len() == 2 || named.len() == 3 {
        return Ok(named);
    }
    let reason = "give two columns of wins, and optionally one of ties, separated by commas";
    Err(Failure::input(format!("--wins {text}: {reason}")))
}

/// The error for a table that has no columns of duels.
fn no_sides(name: &str, args: &SideArgs, outcomes: Option<&OutcomeArgs>, header: &[String]) -> Failure {
    let outcome = |columns| format!(" and '{}'", outcome_column(columns, "left"));
    let outcome_text = outcomes.map_or_else(String::new, outcome);
    let further = if outcomes.is_some() {
        "name them with --winner, --loser, --sides and --outcome, or use --scores or --wins instead of an \
         outcome"
    } else {
        "name them with --winner, --loser and --sides"
    };
    Failure::input(format!(
        "{name}: duels need the columns '{}' and '{}', or '{}'{outcome_text} ({further}); \
         the columns are: {}",
        args.winner,
        args.loser,
        args.sides.as_deref().unwrap_or("left,right").replace(',', "', '"),
        listed(header)
    ))
}

/// Whether an error is about a missing outcome.
fn is_missing(error: &riesz::Error) -> bool {
    matches!(error, riesz::Error::Cell { value, .. } if value.is_empty())
}

/// Reads the contexts, with detected types or with the types of the model's columns.
fn read_contexts(
    columns: &Columns,
    named: &[String],
    columns_of_contexts: ContextColumns<'_>,
    console: &Console,
) -> Result<Option<Table>> {
    if named.is_empty() {
        return Ok(None);
    }
    Ok(Some(match columns_of_contexts {
        ContextColumns::Fitted(fitted_columns) => {
            let context_table = columns.table(named, &categorical(fitted_columns), console)?;
            replace_unknown_names(&context_table, fitted_columns)?.align_to(fitted_columns)?
        }
        ContextColumns::Named(named_columns) => {
            let users: Vec<String> = named_columns.users.iter().cloned().collect();
            add_unknown_level(&columns.table(named, &users, console)?, &users)?
        }
        ContextColumns::Nothing => return Ok(None),
    }))
}

impl IndexedDuels {
    /// The outcomes of the duels.
    pub fn outcomes(&self) -> Result<&[f64]> {
        self.outcome
            .as_deref()
            .ok_or_else(|| Failure::input("duels have no outcome: give a table of duels with outcomes"))
    }

    /// Puts the winner of each duel on the left.
    pub fn put_winners_left(&mut self) -> Result<()> {
        let Some(outcome) = &mut self.outcome else {
            return Err(Failure::input("there are no outcomes: give a table of duels with outcomes"));
        };
        for (i, won) in outcome.iter_mut().enumerate().filter(|(_, won)| **won < 0.5) {
            *won = 1.0 - *won;
            std::mem::swap(&mut self.left[i], &mut self.right[i]);
            if let Some(home) = &mut self.home {
                home[i] = match home[i] {
                    HomeSide::Left => HomeSide::Right,
                    HomeSide::Right => HomeSide::Left,
                    HomeSide::Nobody => HomeSide::Nobody,
                };
            }
        }
        Ok(())
    }
}

/// The item columns x for which the table has `left_x` and `right_x`, except ignored ones and those of the
/// outcome.
fn wide_columns(items: &ItemArgs, duels: &DuelArgs, header: &[String]) -> Vec<String> {
    let ignored = listed_columns(&items.ignore, header);
    let outcome_columns =
        [&duels.outcomes.scores, &duels.wins].into_iter().flatten().cloned().collect::<Vec<_>>();
    let outcome_columns = listed_columns(&outcome_columns, header);
    let is_feature = |c: &&str| {
        let sides = [format!("left_{c}"), format!("right_{c}")];
        header.contains(&sides[1])
            && !ignored.iter().any(|ignored_column| ignored_column == c)
            && !sides.iter().any(|s| outcome_columns.contains(s))
    };
    header.iter().filter_map(|c| c.strip_prefix("left_")).filter(is_feature).map(String::from).collect()
}

/// Reads items and duels from one table: its rows have the columns of both items and the outcome, or are
/// duels between names.
pub fn read_one(
    rows: OpenTable,
    items: &ItemArgs,
    requested: RequestedColumns<'_>,
    duels: &DuelArgs,
    console: &Console,
) -> Result<(Items, IndexedDuels)> {
    let wide = wide_columns(items, duels, rows.header());
    if wide.is_empty() && is_of_duels(&duels.sides, rows.header())? {
        return IndexedDuels::read_with_items(rows, requested, console);
    }
    if requested.home.is_some() || !matches!(requested.contexts, ContextColumns::Nothing) {
        let reason = "--home, --contexts and --users are columns of a table of duels between names: give the \
                      items in a separate table";
        return Err(Failure::input(reason));
    }
    read_wide(rows, wide, (items, duels), console)
}

/// Reads a table whose rows have the columns `left_x` and `right_x` of both items, and an outcome. Items with
/// equal columns are the same item.
fn read_wide(
    rows: OpenTable,
    feature_names: Vec<String>,
    (items, duels): (&ItemArgs, &DuelArgs),
    console: &Console,
) -> Result<(Items, IndexedDuels)> {
    let (name, header) = (rows.name.clone(), rows.header().to_vec());
    let outcome = outcome_column(&duels.outcomes, "left");
    if feature_names.is_empty() || !header.contains(&outcome) {
        return Err(Failure::input(format!(
            "{name}: without a table of items, this table must hold duels between names, in the columns of \
             --winner and --loser or --sides; or columns left_x and right_x for each column x of items, and \
             '{outcome}' (--outcome); the columns are: {}",
            listed(&header)
        )));
    }
    if duels.outcomes.scores.is_some() || duels.wins.is_some() {
        let reason = "--scores and --wins are columns of a table of duels between names: give the items in a \
                      separate table";
        return Err(Failure::input(reason));
    }
    let side_columns = |side: &str| feature_names.iter().map(|c| format!("{side}_{c}")).collect::<Vec<_>>();
    let sides = [side_columns("left"), side_columns("right")];
    let mut column_names = sides.concat();
    column_names.push(outcome.clone());
    column_names.extend(duels.weight.clone());
    rows.column_indices(&column_names)?;
    let columns = Columns::read(rows, &column_names)?;
    let side_table = |side: &[String]| -> Result<Table> {
        let categorical: Vec<String> = listed_columns(&items.categorical, &feature_names)
            .iter()
            .flat_map(|c| [format!("left_{c}"), format!("right_{c}")])
            .collect();
        let table = columns.table(side, &categorical, console)?;
        let columns_of_items = feature_names.iter().zip(table.columns());
        let columns_of_items =
            columns_of_items.map(|(name, c)| Column { name: name.clone(), kind: c.kind.clone() });
        Ok(Table::from_column_major(columns_of_items.collect(), table.rows(), table.column_major().to_vec())?)
    };
    let (left, right) = (side_table(&sides[0])?, side_table(&sides[1])?);
    let both_sides = stacked(&left, &right)?;
    let (mut item_of_row, mut first_rows): (HashMap<Vec<u64>, usize>, Vec<usize>) =
        (HashMap::new(), Vec::new());
    let item_indices: Vec<usize> = (0..both_sides.rows())
        .map(|i| {
            let key = both_sides.row(i).iter().map(|v| (v + 0.0).to_bits()).collect();
            let next = item_of_row.len();
            *item_of_row.entry(key).or_insert_with(|| {
                first_rows.push(i);
                next
            })
        })
        .collect();
    let n = left.rows();
    let weight = duels.weight.as_deref().map(|weight| columns.numbers(weight)).transpose()?;
    let ids: Vec<String> = (1..=first_rows.len()).map(|k| format!("item {k}")).collect();
    let names = |side: &[usize]| side.iter().map(|&i| ids[i].clone()).collect::<Vec<_>>();
    let record = Record::Outcomes { column: &outcome, cells: &cells_of(&columns, &outcome)?, names: None };
    let outcomes = read_record(record, weight.as_deref(), duels.missing, &name)?;
    let named = Named::new(name.clone(), names(&item_indices[..n]), names(&item_indices[n..]), (None, None));
    let items = Items::new(name, ids.clone(), both_sides.select_rows(&first_rows))?;
    let duels = named.keep_outcomes(outcomes, Some(duels.drop_self), console)?.indexed(&items.names)?;
    Ok((items, duels))
}

/// The rows of both sides, with categorical columns that have the levels of both.
fn stacked(left: &Table, right: &Table) -> Result<Table> {
    let columns: Vec<Column> = left
        .columns()
        .iter()
        .zip(right.columns())
        .map(|(l, r)| {
            let kind = match (&l.kind, &r.kind) {
                (
                    ColumnKind::Categorical { levels: left_levels },
                    ColumnKind::Categorical { levels: right_levels },
                ) => {
                    let mut levels: Vec<String> = left_levels.iter().chain(right_levels).cloned().collect();
                    levels.sort_unstable();
                    levels.dedup();
                    ColumnKind::Categorical { levels }
                }
                (kind, _) => kind.clone(),
            };
            Column { name: l.name.clone(), kind }
        })
        .collect();
    Ok(left.align_to(&columns)?.stack(&right.align_to(&columns)?)?)
}

/// The column of the items' names.
fn id_column(args: &ItemArgs, header: &[String], name: &str) -> Result<String> {
    let first = || header.first().cloned();
    args.id.clone().or_else(first).ok_or_else(|| Failure::input(format!("{name} has no columns")))
}

/// The cells of a column as names.
pub fn names_of(columns: &Columns, column: &str) -> Result<Vec<String>> {
    let (levels, codes) = columns.levels(column)?;
    Ok(codes.iter().map(|code| levels[*code as usize].clone()).collect())
}

/// The cells of a column; `None` for missing ones.
fn cells_of(columns: &Columns, column: &str) -> Result<Vec<Option<String>>> {
    let (levels, codes) = columns.levels_or_missing(column)?;
    Ok(codes.iter().map(|code| (!code.is_nan()).then(|| levels[*code as usize].clone())).collect())
}

/// Reads the outcomes from a record of duels.
fn read_record(
    record: Record<'_>,
    weight: Option<&[f64]>,
    missing: MissingDuels,
    name: &str,
) -> Result<Outcomes> {
    let missing = match missing {
        MissingDuels::Error => MissingOutcome::Refuse,
        MissingDuels::Drop => MissingOutcome::Drop,
    };
    let reads_outcome_cells = matches!(record, Record::Outcomes { .. });
    record.read(weight, missing).map_err(|e| {
        let remedy = match e {
            _ if is_missing(&e) => " (--missing drop)",
            riesz::Error::Cell { .. } if reads_outcome_cells => {
                "; use --scores LEFT,RIGHT for two columns of scores, or --wins LEFT,RIGHT for counts"
            }
            _ => "",
        };
        Failure::input(format!("{name}: {e}{remedy}"))
    })
}

/// The table with a further level for new names in the columns `names`.
fn add_unknown_level(contexts: &Table, names: &[String]) -> Result<Table> {
    let mut columns = contexts.columns().to_vec();
    for column in columns.iter_mut().filter(|c| names.contains(&c.name)) {
        if let ColumnKind::Categorical { levels } = &mut column.kind {
            if levels.iter().any(|level| level == UNKNOWN_LEVEL) {
                let reason = format!(
                    "column '{}': the name '{UNKNOWN_LEVEL}' is reserved for new users: rename it",
                    column.name
                );
                return Err(Failure::input(reason));
            }
            levels.push(UNKNOWN_LEVEL.into());
        }
    }
    Ok(Table::from_column_major(columns, contexts.rows(), contexts.column_major().to_vec())?)
}

/// Replaces names that a model does not know by the level for new names, in columns that have it.
fn replace_unknown_names(contexts: &Table, model_columns: &[Column]) -> Result<Table> {
    let (mut columns, mut values) = (contexts.columns().to_vec(), contexts.column_major().to_vec());
    for (j, column) in columns.iter_mut().enumerate() {
        let Some(ColumnKind::Categorical { levels: model_levels }) = model_columns
            .iter()
            .find(|model_column| model_column.name == column.name)
            .map(|model_column| &model_column.kind)
        else {
            continue;
        };
        let ColumnKind::Categorical { levels } = &mut column.kind else { continue };
        if !model_levels.iter().any(|level| level == UNKNOWN_LEVEL) {
            continue;
        }
        let code_of = |level: &String| {
            let level = if model_levels.contains(level) { level.as_str() } else { UNKNOWN_LEVEL };
            model_levels.iter().position(|model_level| model_level == level).unwrap_or(0) as f64
        };
        let codes: Vec<f64> = levels.iter().map(code_of).collect();
        let column_codes = &mut values[j * contexts.rows()..(j + 1) * contexts.rows()];
        column_codes.iter_mut().for_each(|code| *code = codes[*code as usize]);
        levels.clone_from(model_levels);
    }
    Ok(Table::from_column_major(columns, contexts.rows(), values)?)
}

/// The names of the categorical columns.
fn categorical(columns: &[Column]) -> Vec<String> {
    let levels = |c: &&Column| c.kind != ColumnKind::Numeric;
    columns.iter().filter(levels).map(|c| c.name.clone()).collect()
}

/// Reads the home side of each duel.
fn homes(
    columns: &Columns,
    column: &str,
    [left, right]: [&[String]; 2],
    name: &str,
) -> Result<Vec<HomeSide>> {
    let cells: Vec<Option<String>> = names_of(columns, column)?.into_iter().map(Some).collect();
    read_homes(column, &cells, Some([left, right])).map_err(|e| Failure::from(e).about(name))
}

/// The first five names, and the number of names if there are more.
pub fn first_of(names: &[String]) -> String {
    let shown = names.iter().take(5).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > 5 { format!("{shown}, … ({} in all)", names.len()) } else { shown }
}

//! Items and who beat whom: a table of items and one of duels between their names, or one table whose rows
//! have the columns of both items.

use std::collections::HashMap;
use std::path::Path;

use riesz::error::listed;
use riesz::preference::{HomeSide, MissingOutcome, Outcomes, Record, read_homes};
use riesz::table::UNKNOWN_LEVEL;
use riesz::{Column, ColumnKind, Table};

use crate::args::{CellArgs, TableArgs};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::columns::{Columns, sorted_levels};
use crate::io::input::OpenTable;
use crate::io::model_rows::ModelRows;
use crate::io::names::listed_columns;

/// How a table of items is read.
#[derive(Debug, Clone, clap::Args)]
pub struct ItemArgs {
    /// Column of the items' names [default: the first column]
    #[arg(long, value_name = "COL")]
    pub id: Option<String>,
    /// Columns of items to leave out
    #[arg(long, value_name = "COL,…")]
    pub ignore: Vec<String>,
    /// Columns of items whose numbers are names of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
}

/// The columns of the two sides in a table of duels.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct SideArgs {
    /// Who won; with --loser
    #[arg(long, value_name = "COL", default_value = "winner")]
    pub winner: String,
    /// Who lost
    #[arg(long, value_name = "COL", default_value = "loser")]
    pub loser: String,
    /// Who stood on either side, where there are no columns of winners and losers
    #[arg(long, value_name = "LEFT,RIGHT", default_value = "left,right")]
    pub sides: String,
}

/// How a table of duels between a left and a right side says who won.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct OutcomeArgs {
    /// Who won, where there are no columns of winners and losers: left, right or tie; win, loss or draw; W, L
    /// or D; home, away or draw; H, A or D; model_a, model_b or tie; A, B or tie; 1, 0 or 0.5; 1, -1 or 0; 1,
    /// 2 or X; a score such as 2-1, 1-0 or 1/2-1/2; or the winner's name. All cells have to be of one of
    /// these kinds
    #[arg(long, value_name = "COL", default_value = "outcome")]
    pub outcome: String,
    /// The scores of the two sides instead: the higher one wins, and equal ones are a tie
    #[arg(long, value_name = "LEFT,RIGHT", conflicts_with = "outcome")]
    pub scores: Option<String>,
}

/// What models are fitted to in a table of duels.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct DuelArgs {
    /// The two sides.
    #[command(flatten)]
    pub sides: SideArgs,
    /// Who won.
    #[command(flatten)]
    pub outcomes: OutcomeArgs,
    /// How many duels each side won, if a row is several, and how many were ties
    #[arg(long, value_name = "LEFT,RIGHT[,TIES]", conflicts_with_all = ["outcome", "scores"])]
    pub wins: Option<String>,
    /// How much a duel counts, a positive number [default: 1 each]
    #[arg(long, value_name = "COL")]
    pub weight: Option<String>,
    /// A duel without an outcome, because its cell is missing (as of a game that is not finished): stop
    /// there, or leave it out
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub missing: MissingDuels,
    /// Leave out duels of an item with itself, which are an error otherwise
    #[arg(long)]
    pub drop_self: bool,
}

/// What becomes of duels without an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum MissingDuels {
    /// They are an error.
    #[default]
    Error,
    /// They are left out.
    Drop,
}

/// In what circumstances duels took place.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct ContextArgs {
    /// In what circumstances the items met (surface, season, who judged): what is learnt there counts most in
    /// contexts that are alike
    #[arg(long, value_name = "COL,…")]
    pub contexts: Vec<String>,
    /// Who judged: the names of users, whose tastes may differ, in contexts of their own; a user whom the
    /// model has not met is told by what all share
    #[arg(long, value_name = "COL")]
    pub users: Option<String>,
}

/// What is read of a table of duels.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The columns of the two sides.
    pub sides: &'a SideArgs,
    /// Who won, where that is asked.
    pub ended: Ended<'a>,
    /// The column of who is at home.
    pub home: Option<&'a String>,
    /// The columns of contexts.
    pub around: Around<'a>,
}

/// Whether and how it is read who won.
#[derive(Debug, Clone, Copy)]
pub enum Ended<'a> {
    /// It is not read.
    Unread,
    /// As these columns say; no weights.
    Said(&'a OutcomeArgs),
    /// All that a model is fitted to.
    Learnt(&'a DuelArgs),
}

/// Which columns are contexts.
#[derive(Debug, Clone, Copy)]
pub enum Around<'a> {
    /// None.
    Nothing,
    /// Those that are named.
    Named(&'a ContextArgs),
    /// Those that a model knows.
    Known(&'a [Column]),
}

/// What those who meet are called, each in a way of its own.
pub struct Names {
    /// What they are: item, or bag.
    pub what: &'static str,
    /// The name of the file that they come from.
    pub source: String,
    /// One each.
    pub ids: Vec<String>,
    places: HashMap<String, usize>,
}

/// Items, and what they are called.
pub struct Items {
    /// One a row.
    pub names: Names,
    /// The columns that are not names; there may be none.
    pub table: Table,
}

/// Duels between items by their numbers.
pub struct Met {
    /// Who stood on the left, or won.
    pub left: Vec<usize>,
    /// On the right.
    pub right: Vec<usize>,
    /// 1 where the left one won, 0 where the right one, ½ for a tie; `None` where the table does not say.
    pub outcome: Option<Vec<f64>>,
    /// How much each counts.
    pub weight: Option<Vec<f64>>,
    /// Who is at home.
    pub home: Option<Vec<HomeSide>>,
    /// In what circumstances, a row each.
    pub contexts: Option<Table>,
    /// The row of the table that each is of.
    pub rows: Vec<usize>,
    /// How many duels there are: more than entries, where rows count wins.
    pub count: usize,
}

impl Items {
    /// Reads a table of items; its columns are numbers or levels, as they look.
    pub fn read(path: &Path, args: &ItemArgs, table: &TableArgs, console: &Console) -> Result<Self> {
        let rows = table.source(path).open()?;
        let (name, header) = (rows.name.clone(), rows.header().to_vec());
        let ignored = listed_columns(&args.ignore, &header);
        let categorical = listed_columns(&args.categorical, &header);
        rows.places(ignored.iter().chain(&categorical).chain(&args.id))?;
        let id = id_column(args, &header, &name)?;
        let own: Vec<String> = header.iter().filter(|c| **c != id && !ignored.contains(c)).cloned().collect();
        let wanted: Vec<String> = own.iter().chain([&id]).cloned().collect();
        let columns = Columns::read(rows, &wanted)?;
        let read = columns.table(&own, &categorical, console)?;
        Self::new(name, names_of(&columns, &id)?, read)
    }

    /// Reads items for a model with these columns.
    pub fn for_model(
        path: &Path,
        (args, table, cells): (&ItemArgs, &TableArgs, CellArgs),
        known: &Table,
    ) -> Result<Self> {
        let rows = table.source(path).open()?;
        let (name, header) = (rows.name.clone(), rows.header().to_vec());
        rows.places(&args.id)?;
        let id = id_column(args, &header, &name)?;
        let names = names_of(&Columns::read(rows, std::slice::from_ref(&id))?, &id)?;
        if known.width() == 0 {
            return Self::alone(name, names);
        }
        let policy = cells.for_model(known)?;
        let mut rows = ModelRows::new(table.source(path).open()?, known.columns(), policy, known.width())?;
        let mut all: Option<Table> = None;
        while let Some(part) = rows.next()? {
            all = Some(match all {
                Some(before) => before.stack(&part)?,
                None => part,
            });
        }
        let all = all.ok_or_else(|| Failure::input(format!("{name} has names of columns but no rows")))?;
        Self::new(name, names, all)
    }

    /// Items of which nothing but their names is known.
    pub fn alone(name: String, ids: Vec<String>) -> Result<Self> {
        let table = Table::from_column_major(Vec::new(), ids.len(), Vec::new())?;
        Self::new(name, ids, table)
    }

    fn new(name: String, ids: Vec<String>, table: Table) -> Result<Self> {
        Ok(Self { names: Names::new("item", name, ids)?, table })
    }
}

impl Names {
    /// Of items, or bags, from a file of this name.
    pub fn new(what: &'static str, source: String, ids: Vec<String>) -> Result<Self> {
        let (mut places, mut twice) = (HashMap::new(), Vec::new());
        for (i, id) in ids.iter().enumerate() {
            if places.insert(id.clone(), i).is_some() && !twice.contains(id) {
                twice.push(id.clone());
            }
        }
        if !twice.is_empty() {
            return Err(Failure::input(format!(
                "{source}: names of {what}s are there twice: {}; each {what} is one row",
                first_of(&twice)
            )));
        }
        Ok(Self { what, source, ids, places })
    }

    /// Its number, if it is one of them.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// Its number.
    pub fn place(&self, id: &str) -> Result<usize> {
        self.find(id).ok_or_else(|| {
            Failure::input(format!(
                "{}: there is no {} '{id}'; {}s are: {}",
                self.source,
                self.what,
                self.what,
                first_of(&self.ids)
            ))
        })
    }
}

/// The columns of the sides in a table that has them, and whether the first one is that of winners.
fn sides_in(args: &SideArgs, header: &[String]) -> Result<Option<([String; 2], bool)>> {
    let has = |column: &String| header.contains(column);
    if has(&args.winner) && has(&args.loser) {
        return Ok(Some(([args.winner.clone(), args.loser.clone()], true)));
    }
    let sides = two_columns("--sides", &args.sides, header)?;
    Ok(sides.iter().all(has).then_some((sides, false)))
}

/// Two columns that an option names.
fn two_columns(option: &str, text: &String, header: &[String]) -> Result<[String; 2]> {
    let named = listed_columns(std::slice::from_ref(text), header);
    <[String; 2]>::try_from(named)
        .map_err(|_| Failure::input(format!("{option} {text}: two columns, separated by a comma")))
}

/// Whether a table with this header is one of duels between names, rather than one whose rows have the
/// columns of both items.
fn is_of_duels(args: &SideArgs, header: &[String]) -> Result<bool> {
    Ok(sides_in(args, header)?.is_some())
}

/// A table of duels, whose items have names.
struct Named {
    met: Met,
    left: Vec<String>,
    right: Vec<String>,
    source: String,
}

impl Met {
    /// Reads duels between these items, or bags.
    pub fn read(rows: OpenTable, names: &Names, wanted: Wanted<'_>, console: &Console) -> Result<Self> {
        Named::read(rows, wanted, console)?.between(names)
    }

    /// Reads duels between items of which nothing but the names is known: those of the duels, in order.
    pub fn read_alone(rows: OpenTable, wanted: Wanted<'_>, console: &Console) -> Result<(Items, Self)> {
        let named = Named::read(rows, wanted, console)?;
        let ids = sorted_levels(named.left.iter().chain(&named.right).cloned().collect());
        let items = Items::alone(named.source.clone(), ids)?;
        let met = named.between(&items.names)?;
        Ok((items, met))
    }
}

/// Which columns of a table of duels are read.
struct Layout {
    sides: [String; 2],
    /// The column of words that say who won.
    word: Option<String>,
    scores: Option<[String; 2]>,
    wins: Option<Vec<String>>,
    /// Whether it is read who won.
    ended: bool,
    weight: Option<String>,
    home: Option<String>,
    contexts: Vec<String>,
}

impl Layout {
    /// That of a table with this header.
    fn of(name: &str, header: &[String], wanted: &Wanted<'_>) -> Result<Self> {
        let (outcomes, learnt) = match wanted.ended {
            Ended::Unread => (None, None),
            Ended::Said(own) => (Some(own), None),
            Ended::Learnt(own) => (Some(&own.outcomes), Some(own)),
        };
        let Some((sides, won)) = sides_in(wanted.sides, header)? else {
            return Err(no_sides(name, wanted.sides, outcomes, header));
        };
        let scores = outcomes.and_then(|own| own.scores.as_ref());
        let scores = scores.map(|text| two_columns("--scores", text, header)).transpose()?;
        let wins = learnt.and_then(|own| own.wins.as_ref());
        let wins = wins.map(|text| win_columns(text, header)).transpose()?;
        let counted = scores.is_some() || wins.is_some();
        if won && counted {
            return Err(Failure::input(format!(
                "{name}: there are columns of winners and losers, which say who won: leave --scores and \
                 --wins out, or name other columns by --winner and --loser"
            )));
        }
        let word = outcomes.filter(|_| !won && !counted).map(|own| own.outcome.clone());
        if word.as_ref().is_some_and(|column| !header.contains(column)) {
            if learnt.is_some() {
                return Err(no_sides(name, wanted.sides, outcomes, header));
            }
            return Err(Failure::input(format!(
                "{name}: nothing says who won: the table of duels has columns of winners and losers, an \
                 outcome, or scores"
            )));
        }
        let contexts = match wanted.around {
            Around::Nothing => Vec::new(),
            Around::Named(own) => {
                listed_columns(&own.contexts, header).into_iter().chain(own.users.clone()).collect()
            }
            Around::Known(known) => known.iter().map(|c| c.name.clone()).collect(),
        };
        Ok(Self {
            sides,
            word,
            scores,
            wins,
            ended: outcomes.is_some(),
            weight: learnt.and_then(|own| own.weight.clone()),
            home: wanted.home.cloned(),
            contexts,
        })
    }

    /// All columns, each once.
    fn columns(&self) -> Vec<String> {
        let single = self.word.iter().chain(&self.weight).chain(&self.home);
        let several = self.scores.iter().flatten().chain(self.wins.iter().flatten());
        let all = self.sides.iter().chain(single).chain(several).chain(&self.contexts);
        let mut all: Vec<String> = all.cloned().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Who won, where that is read.
    fn outcomes(
        &self,
        columns: &Columns,
        names: [&[String]; 2],
        missing: MissingDuels,
    ) -> Result<Option<Outcomes>> {
        if !self.ended {
            return Ok(None);
        }
        let words = self.word.as_ref().map(|column| cells_of(columns, column)).transpose()?;
        let counted = self.scores.iter().flatten().chain(self.wins.iter().flatten());
        let counts = counted.map(|column| columns.numbers_or_missing(column)).collect::<Result<Vec<_>>>()?;
        let record = match (&self.word, &words, &self.scores, &self.wins) {
            (Some(column), Some(cells), ..) => Record::Outcomes { column, cells, names: Some(names) },
            (.., Some([left, right]), _) => {
                Record::Scores { columns: [left, right], scores: [&counts[0], &counts[1]] }
            }
            (.., Some(own)) => Record::Wins {
                columns: [&own[0], &own[1]],
                wins: [&counts[0], &counts[1]],
                ties: own.get(2).map(|name| (name.as_str(), &counts[2][..])),
            },
            _ => Record::Winners(names[0].len()),
        };
        let weight = self.weight.as_ref().map(|weight| columns.numbers(weight)).transpose()?;
        read_record(record, weight.as_deref(), missing, &columns.name).map(Some)
    }
}

impl Named {
    fn read(rows: OpenTable, wanted: Wanted<'_>, console: &Console) -> Result<Self> {
        let name = rows.name.clone();
        let layout = Layout::of(&name, rows.header(), &wanted)?;
        let needed = layout.columns();
        rows.places(&needed)?;
        let columns = Columns::read(rows, &needed)?;
        let contexts = read_contexts(&columns, &layout.contexts, wanted.around, console)?;
        let [left, right] = [names_of(&columns, &layout.sides[0])?, names_of(&columns, &layout.sides[1])?];
        let home =
            layout.home.as_ref().map(|home| homes(&columns, home, [&left, &right], &name)).transpose()?;
        // Of a mean over winners duels without an outcome are no part, as ties are not.
        let (missing, drop_self) = match wanted.ended {
            Ended::Learnt(own) => (own.missing, Some(own.drop_self)),
            _ => (MissingDuels::Drop, None),
        };
        let found = layout.outcomes(&columns, [&left, &right], missing)?;
        let all = Self::new(name, left, right, (home, contexts));
        match found {
            Some(found) => all.ended(found, drop_self, console),
            None => Ok(all),
        }
    }

    /// All rows of a table with these names on either side.
    fn new(
        source: String,
        left: Vec<String>,
        right: Vec<String>,
        (home, contexts): (Option<Vec<HomeSide>>, Option<Table>),
    ) -> Self {
        let count = left.len();
        let met = Met {
            left: Vec::new(),
            right: Vec::new(),
            outcome: None,
            weight: None,
            home,
            contexts,
            rows: (0..count).collect(),
            count,
        };
        Self { met, left, right, source }
    }

    /// The duels that have an outcome; those of an item with itself are refused, or left out, if that is
    /// said.
    fn ended(self, found: Outcomes, drop_self: Option<bool>, console: &Console) -> Result<Self> {
        if !found.missing.is_empty() {
            console.note(format!("note: {} duels without an outcome were left out", found.missing.len()));
        }
        let mut kept = self.of_rows(&found.rows);
        (kept.met.outcome, kept.met.weight, kept.met.count) =
            (Some(found.outcome), found.weight, found.count);
        match drop_self {
            Some(drop_self) => kept.without_self(drop_self, console),
            None => Ok(kept),
        }
    }

    /// The duels of some rows, which may be there more than once.
    fn of_rows(&self, rows: &[usize]) -> Self {
        let texts = |all: &[String]| rows.iter().map(|&i| all[i].clone()).collect();
        let numbers = |all: &Vec<f64>| rows.iter().map(|&i| all[i]).collect();
        let met = &self.met;
        Self {
            met: Met {
                left: Vec::new(),
                right: Vec::new(),
                outcome: met.outcome.as_ref().map(numbers),
                weight: met.weight.as_ref().map(numbers),
                home: met.home.as_ref().map(|home| rows.iter().map(|&i| home[i]).collect()),
                contexts: met.contexts.as_ref().map(|contexts| contexts.select_rows(rows)),
                rows: rows.iter().map(|&i| met.rows[i]).collect(),
                count: met.count,
            },
            left: texts(&self.left),
            right: texts(&self.right),
            source: self.source.clone(),
        }
    }

    /// Without duels of an item with itself, which are refused unless they are to be left out.
    fn without_self(self, drop: bool, console: &Console) -> Result<Self> {
        let (own, kept): (Vec<usize>, Vec<usize>) =
            (0..self.left.len()).partition(|&i| self.left[i] == self.right[i]);
        if own.is_empty() {
            return Ok(self);
        }
        if !drop {
            let rows: Vec<String> = own.iter().map(|&i| (self.met.rows[i] + 1).to_string()).collect();
            return Err(Failure::input(format!(
                "{}: in row {} an item meets itself: correct it, or give --drop-self",
                self.source,
                first_of(&rows)
            )));
        }
        console.note(format!("note: {} duels of an item with itself were left out", own.len()));
        let mut rest = self.of_rows(&kept);
        rest.met.count = rest.met.count.saturating_sub(own.len());
        Ok(rest)
    }

    /// The duels between these items, or bags.
    fn between(self, names: &Names) -> Result<Met> {
        let mut unknown: Vec<String> = Vec::new();
        let mut places = |ids: &[String]| -> Vec<usize> {
            let mut place = |id: &String| {
                names.find(id).unwrap_or_else(|| {
                    if !unknown.contains(id) {
                        unknown.push(id.clone());
                    }
                    0
                })
            };
            ids.iter().map(&mut place).collect()
        };
        let (left, right) = (places(&self.left), places(&self.right));
        if !unknown.is_empty() {
            return Err(Failure::input(format!(
                "{}: duels name {}s that {} does not have: {}; add them, or leave these duels out",
                self.source,
                names.what,
                names.source,
                first_of(&unknown)
            )));
        }
        Ok(Met { left, right, ..self.met })
    }
}

/// The columns of wins, and of ties if there is a third one.
fn win_columns(text: &String, header: &[String]) -> Result<Vec<String>> {
    let named = listed_columns(std::slice::from_ref(text), header);
    if named.len() == 2 || named.len() == 3 {
        return Ok(named);
    }
    let why = "two columns of wins, and perhaps one of ties, separated by commas";
    Err(Failure::input(format!("--wins {text}: {why}")))
}

/// Why a table is none of duels.
fn no_sides(name: &str, args: &SideArgs, outcomes: Option<&OutcomeArgs>, header: &[String]) -> Failure {
    let ended = outcomes.map_or_else(String::new, |own| format!(" and '{}'", own.outcome));
    let further = if outcomes.is_some() {
        "--winner, --loser, --sides and --outcome name them, or --scores and --wins instead of an outcome"
    } else {
        "--winner, --loser and --sides name them"
    };
    Failure::input(format!(
        "{name}: duels have the columns '{}' and '{}', or {}{ended} ({further}); the columns are: {}",
        args.winner,
        args.loser,
        args.sides.split(',').map(|side| format!("'{side}'")).collect::<Vec<_>>().join(", "),
        listed(header)
    ))
}

/// Whether an outcome is refused because it is missing.
fn is_missing(error: &riesz::Error) -> bool {
    matches!(error, riesz::Error::Cell { value, .. } if value.is_empty())
}

/// The rows of contexts, as they look, or as those that a model knows.
fn read_contexts(
    columns: &Columns,
    named: &[String],
    around: Around<'_>,
    console: &Console,
) -> Result<Option<Table>> {
    if named.is_empty() {
        return Ok(None);
    }
    Ok(Some(match around {
        Around::Known(known) => {
            let read = columns.table(named, &categorical(known), console)?;
            as_strangers(&read, known)?.align_to(known)?
        }
        Around::Named(own) => {
            let users: Vec<String> = own.users.iter().cloned().collect();
            with_strangers(&columns.table(named, &users, console)?, &users)?
        }
        Around::Nothing => return Ok(None),
    }))
}

impl Met {
    /// How duels ended.
    pub fn ended(&self) -> Result<&[f64]> {
        self.outcome.as_deref().ok_or_else(|| Failure::input("duels have no outcome"))
    }

    /// Puts who won on the left.
    pub fn turn_to_winners(&mut self) -> Result<()> {
        let Some(outcome) = &mut self.outcome else {
            return Err(Failure::input("nothing says who won: give a table of duels that does"));
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

/// The columns x of items, where a table has the columns `left_x` and `right_x` of both, apart from those
/// that say who won.
fn wide_columns(items: &ItemArgs, duels: &DuelArgs, header: &[String]) -> Vec<String> {
    let ignored = listed_columns(&items.ignore, header);
    let ended = [&duels.outcomes.scores, &duels.wins].into_iter().flatten().cloned().collect::<Vec<_>>();
    let ended = listed_columns(&ended, header);
    let both = |c: &&str| {
        let sides = [format!("left_{c}"), format!("right_{c}")];
        header.contains(&sides[1])
            && !ignored.iter().any(|own| own == c)
            && !sides.iter().any(|s| ended.contains(s))
    };
    header.iter().filter_map(|c| c.strip_prefix("left_")).filter(both).map(String::from).collect()
}

/// A table without one of items: its rows have the columns of both items and how each duel ended, or are
/// duels between names.
pub fn read_one(
    rows: OpenTable,
    items: &ItemArgs,
    wanted: Wanted<'_>,
    duels: &DuelArgs,
    console: &Console,
) -> Result<(Items, Met)> {
    let wide = wide_columns(items, duels, rows.header());
    if wide.is_empty() && is_of_duels(&duels.sides, rows.header())? {
        return Met::read_alone(rows, wanted, console);
    }
    if wanted.home.is_some() || !matches!(wanted.around, Around::Nothing) {
        let why = "--home, --contexts and --users are columns of a table of duels between names: give the \
                   items in a table of their own";
        return Err(Failure::input(why));
    }
    read_wide(rows, wide, (items, duels), console)
}

/// A table whose rows have the columns `left_x` and `right_x` of both items, and how each duel ended: items
/// that are alike are one.
fn read_wide(
    rows: OpenTable,
    own: Vec<String>,
    (items, duels): (&ItemArgs, &DuelArgs),
    console: &Console,
) -> Result<(Items, Met)> {
    let (name, header) = (rows.name.clone(), rows.header().to_vec());
    let outcome = &duels.outcomes.outcome;
    if own.is_empty() || !header.contains(outcome) {
        return Err(Failure::input(format!(
            "{name}: a table without a table of items is one of duels between names, with the columns that \
             --winner and --loser, or --sides, name; or it has the columns left_x and right_x for each \
             column x of items, and '{outcome}' (--outcome); the columns are: {}",
            listed(&header)
        )));
    }
    if duels.outcomes.scores.is_some() || duels.wins.is_some() {
        let why = "--scores and --wins are columns of a table of duels between names: give the items in a \
                   table of their own";
        return Err(Failure::input(why));
    }
    let of = |side: &str| own.iter().map(|c| format!("{side}_{c}")).collect::<Vec<_>>();
    let sides = [of("left"), of("right")];
    let mut wanted = sides.concat();
    wanted.push(outcome.clone());
    wanted.extend(duels.weight.clone());
    rows.places(&wanted)?;
    let columns = Columns::read(rows, &wanted)?;
    let named = |side: &[String]| -> Result<Table> {
        let categorical: Vec<String> = listed_columns(&items.categorical, &own)
            .iter()
            .flat_map(|c| [format!("left_{c}"), format!("right_{c}")])
            .collect();
        let read = columns.table(side, &categorical, console)?;
        let names = own.iter().zip(read.columns());
        let names = names.map(|(name, c)| Column { name: name.clone(), kind: c.kind.clone() });
        Ok(Table::from_column_major(names.collect(), read.rows(), read.column_major().to_vec())?)
    };
    let (left, right) = (named(&sides[0])?, named(&sides[1])?);
    let both = stacked(&left, &right)?;
    let (mut known, mut kept): (HashMap<Vec<u64>, usize>, Vec<usize>) = (HashMap::new(), Vec::new());
    let numbers: Vec<usize> = (0..both.rows())
        .map(|i| {
            let key = both.row(i).iter().map(|v| (v + 0.0).to_bits()).collect();
            let next = known.len();
            *known.entry(key).or_insert_with(|| {
                kept.push(i);
                next
            })
        })
        .collect();
    let n = left.rows();
    let weight = duels.weight.as_deref().map(|weight| columns.numbers(weight)).transpose()?;
    let ids: Vec<String> = (1..=kept.len()).map(|k| format!("item {k}")).collect();
    let names = |side: &[usize]| side.iter().map(|&i| ids[i].clone()).collect::<Vec<_>>();
    let record = Record::Outcomes { column: outcome, cells: &cells_of(&columns, outcome)?, names: None };
    let found = read_record(record, weight.as_deref(), duels.missing, &name)?;
    let all = Named::new(name.clone(), names(&numbers[..n]), names(&numbers[n..]), (None, None));
    let items = Items::new(name, ids.clone(), both.select_rows(&kept))?;
    let met = all.ended(found, Some(duels.drop_self), console)?.between(&items.names)?;
    Ok((items, met))
}

/// Rows of both sides, whose categorical columns have the levels of either.
fn stacked(left: &Table, right: &Table) -> Result<Table> {
    let columns: Vec<Column> = left
        .columns()
        .iter()
        .zip(right.columns())
        .map(|(l, r)| {
            let kind = match (&l.kind, &r.kind) {
                (ColumnKind::Categorical { levels: own }, ColumnKind::Categorical { levels: more }) => {
                    let mut levels: Vec<String> = own.iter().chain(more).cloned().collect();
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

/// Which column names the items.
fn id_column(args: &ItemArgs, header: &[String], name: &str) -> Result<String> {
    let first = || header.first().cloned();
    args.id.clone().or_else(first).ok_or_else(|| Failure::input(format!("{name} has no columns")))
}

/// The cells of a column as names.
pub fn names_of(columns: &Columns, column: &str) -> Result<Vec<String>> {
    let (levels, codes) = columns.levels(column)?;
    Ok(codes.iter().map(|code| levels[*code as usize].clone()).collect())
}

/// The cells of a column, `None` where they are missing.
fn cells_of(columns: &Columns, column: &str) -> Result<Vec<Option<String>>> {
    let (levels, codes) = columns.levels_or_missing(column)?;
    Ok(codes.iter().map(|code| (!code.is_nan()).then(|| levels[*code as usize].clone())).collect())
}

/// Reads who won.
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
    let of_words = matches!(record, Record::Outcomes { .. });
    record.read(weight, missing).map_err(|e| {
        let remedy = match e {
            _ if is_missing(&e) => " (--missing drop)",
            riesz::Error::Cell { .. } if of_words => {
                "; two columns are of scores, --scores LEFT,RIGHT, or of counts, --wins LEFT,RIGHT"
            }
            _ => "",
        };
        Failure::input(format!("{name}: {e}{remedy}"))
    })
}

/// Columns of these names with a level more, for names that are not known yet.
fn with_strangers(read: &Table, names: &[String]) -> Result<Table> {
    let mut columns = read.columns().to_vec();
    for column in columns.iter_mut().filter(|c| names.contains(&c.name)) {
        if let ColumnKind::Categorical { levels } = &mut column.kind {
            if levels.iter().any(|level| level == UNKNOWN_LEVEL) {
                let why = format!(
                    "column '{}': '{UNKNOWN_LEVEL}' is what users are called whom the model has not met: \
                     rename it",
                    column.name
                );
                return Err(Failure::input(why));
            }
            levels.push(UNKNOWN_LEVEL.into());
        }
    }
    Ok(Table::from_column_major(columns, read.rows(), read.column_major().to_vec())?)
}

/// Names that a model does not know, in columns in which it expects some, as those.
fn as_strangers(read: &Table, known: &[Column]) -> Result<Table> {
    let (mut columns, mut values) = (read.columns().to_vec(), read.column_major().to_vec());
    for (j, column) in columns.iter_mut().enumerate() {
        let Some(ColumnKind::Categorical { levels: known }) =
            known.iter().find(|own| own.name == column.name).map(|own| &own.kind)
        else {
            continue;
        };
        let ColumnKind::Categorical { levels } = &mut column.kind else { continue };
        if !known.iter().any(|level| level == UNKNOWN_LEVEL) {
            continue;
        }
        let of = |level: &String| {
            let level = if known.contains(level) { level.as_str() } else { UNKNOWN_LEVEL };
            known.iter().position(|own| own == level).unwrap_or(0) as f64
        };
        let codes: Vec<f64> = levels.iter().map(of).collect();
        let own = &mut values[j * read.rows()..(j + 1) * read.rows()];
        own.iter_mut().for_each(|code| *code = codes[*code as usize]);
        levels.clone_from(known);
    }
    Ok(Table::from_column_major(columns, read.rows(), values)?)
}

/// Columns of levels.
fn categorical(columns: &[Column]) -> Vec<String> {
    let levels = |c: &&Column| c.kind != ColumnKind::Numeric;
    columns.iter().filter(levels).map(|c| c.name.clone()).collect()
}

/// Who is at home.
fn homes(
    columns: &Columns,
    column: &str,
    [left, right]: [&[String]; 2],
    name: &str,
) -> Result<Vec<HomeSide>> {
    let cells: Vec<Option<String>> = names_of(columns, column)?.into_iter().map(Some).collect();
    read_homes(column, &cells, Some([left, right])).map_err(|e| Failure::from(e).about(name))
}

/// The first five names, and how many there are.
pub fn first_of(names: &[String]) -> String {
    let shown = names.iter().take(5).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > 5 { format!("{shown}, … ({} in all)", names.len()) } else { shown }
}

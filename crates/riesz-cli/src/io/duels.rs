//! Items and who beat whom: a table of items and one of duels between their names, or one table whose rows have the columns of both items.

use std::collections::HashMap;
use std::path::Path;

use riesz::error::listed;
use riesz::preference::Home;
use riesz::table::UNSEEN;
use riesz::{Column, ColumnKind, Table};

use crate::args::{CellArgs, TableArgs};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::input::OpenTable;
use crate::io::names::listed_columns;
use crate::io::typing::{Columns, Conforming};

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

/// What the columns of a table of duels are called.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Columns of duels")]
pub struct DuelArgs {
    /// Who won; with --loser
    #[arg(long, value_name = "COL", default_value = "winner")]
    pub winner: String,
    /// Who lost
    #[arg(long, value_name = "COL", default_value = "loser")]
    pub loser: String,
    /// Who stood on either side, where there is no column of winners; with --outcome
    #[arg(long, value_name = "LEFT,RIGHT", default_value = "left,right")]
    pub sides: String,
    /// Who of these won: left, right or tie, or 1, 0 or 0.5
    #[arg(long, value_name = "COL", default_value = "outcome")]
    pub outcome: String,
    /// How much a duel counts, a positive number [default: 1 each]
    #[arg(long, value_name = "COL")]
    pub weight: Option<String>,
    /// Which side is at home: left, right or none; its advantage is learnt
    #[arg(long, value_name = "COL")]
    pub home: Option<String>,
    /// In what circumstances the items met (surface, season, who judged): what is learnt there counts most in contexts that are alike
    #[arg(long, value_name = "COL,…")]
    pub contexts: Vec<String>,
    /// Who judged: the names of users, whose tastes may differ, in contexts of their own; a user whom the model has not met is told by what all share
    #[arg(long, value_name = "COL")]
    pub users: Option<String>,
    /// Leave out duels of an item with itself, which are an error otherwise
    #[arg(long)]
    pub drop_self: bool,
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
    /// The columns that are not names.
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
    pub home: Option<Vec<Home>>,
    /// In what circumstances, a row each.
    pub contexts: Option<Table>,
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
        if own.is_empty() {
            return Err(Failure::input(format!("{name}: items have no column besides their names '{id}'")));
        }
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
        let strays = cells.for_model(known)?;
        let mut rows = Conforming::new(table.source(path).open()?, known.columns(), strays, known.width())?;
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

impl Met {
    /// Reads duels between these items, or bags; contexts as they look, or as those that a model knows.
    pub fn read(
        rows: OpenTable,
        names: &Names,
        args: &DuelArgs,
        known: Option<&[Column]>,
        console: &Console,
    ) -> Result<Self> {
        let needs_outcome = known.is_none();
        let (name, header) = (rows.name.clone(), rows.header().to_vec());
        let has = |column: &String| header.contains(column);
        let won = has(&args.winner) && has(&args.loser);
        let stood = listed_columns(std::slice::from_ref(&args.sides), &header);
        let [one, other] = &stood[..] else {
            return Err(Failure::input(format!("--sides {}: two columns, separated by a comma", args.sides)));
        };
        let sides = if won { [&args.winner, &args.loser] } else { [one, other] };
        let told = has(&args.outcome);
        if !sides.iter().all(|column| has(column)) || (!won && needs_outcome && !told) {
            return Err(Failure::input(format!(
                "{name}: duels have the columns '{}' and '{}', or '{}', '{}' and '{}' (--winner and others name them); the columns are: {}",
                args.winner,
                args.loser,
                one,
                other,
                args.outcome,
                listed(&header)
            )));
        }
        let mut wanted: Vec<String> = sides.map(String::clone).to_vec();
        wanted.extend((!won && told).then(|| args.outcome.clone()));
        wanted.extend(args.weight.clone());
        wanted.extend(args.home.clone());
        let around: Vec<String> = match known {
            Some(known) => known.iter().map(|c| c.name.clone()).collect(),
            None => listed_columns(&args.contexts, &header).into_iter().chain(args.users.clone()).collect(),
        };
        wanted.extend(around.iter().cloned());
        rows.places(&wanted)?;
        let columns = Columns::read(rows, &wanted)?;
        let contexts = match (around.is_empty(), known) {
            (true, _) => None,
            (_, None) => {
                let users: Vec<String> = args.users.iter().cloned().collect();
                Some(with_strangers(&columns.table(&around, &users, console)?, &users)?)
            }
            (_, Some(known)) => {
                let read = columns.table(&around, &categorical(known), console)?;
                Some(as_strangers(&read, known)?.conform(known)?)
            }
        };
        let [left, right] = [names_of(&columns, sides[0])?, names_of(&columns, sides[1])?];
        let mut unknown: Vec<String> = Vec::new();
        let place = |id: &String, unknown: &mut Vec<String>| {
            let place = names.find(id);
            if place.is_none() && !unknown.contains(id) {
                unknown.push(id.clone());
            }
            place.unwrap_or(0)
        };
        let mut met = Self {
            left: left.iter().map(|id| place(id, &mut unknown)).collect(),
            right: right.iter().map(|id| place(id, &mut unknown)).collect(),
            outcome: won.then(|| vec![1.0; left.len()]),
            weight: args.weight.as_deref().map(|weight| columns.numbers(weight)).transpose()?,
            home: args.home.as_deref().map(|home| homes(&columns, home, &name)).transpose()?,
            contexts,
        };
        if !unknown.is_empty() {
            return Err(Failure::input(format!(
                "{name}: duels name {}s that {} does not have: {}; add them, or leave these duels out",
                names.what,
                names.source,
                first_of(&unknown)
            )));
        }
        if !won && told {
            met.outcome = Some(outcomes(&columns, &args.outcome, &name)?);
        }
        let own: Vec<usize> = (0..met.left.len()).filter(|&i| met.left[i] == met.right[i]).collect();
        if !own.is_empty() && needs_outcome {
            if !args.drop_self {
                let rows: Vec<String> = own.iter().map(|i| (i + 1).to_string()).collect();
                return Err(Failure::input(format!(
                    "{name}: in row {} an item meets itself: correct it, or give --drop-self",
                    first_of(&rows)
                )));
            }
            let kept: Vec<usize> = (0..met.left.len()).filter(|i| !own.contains(i)).collect();
            let numbers = |all: &[f64]| kept.iter().map(|&i| all[i]).collect::<Vec<_>>();
            met.outcome = met.outcome.as_deref().map(numbers);
            met.weight = met.weight.as_deref().map(numbers);
            met.home = met.home.map(|home| kept.iter().map(|&i| home[i]).collect());
            met.contexts = met.contexts.map(|contexts| contexts.select_rows(&kept));
            (met.left, met.right) = kept.iter().map(|&i| (met.left[i], met.right[i])).unzip();
        }
        Ok(met)
    }
}

impl Met {
    /// How duels ended.
    pub fn ended(&self) -> Result<&[f64]> {
        self.outcome.as_deref().ok_or_else(|| Failure::input("duels have no outcome"))
    }

    /// Puts who won on the left.
    pub fn turn_to_winners(&mut self) -> Result<()> {
        let Some(outcome) = &mut self.outcome else {
            let why =
                "nothing says who won: the table of duels has columns of winners and losers, or an outcome";
            return Err(Failure::input(why));
        };
        for (i, won) in outcome.iter_mut().enumerate().filter(|(_, won)| **won < 0.5) {
            *won = 1.0 - *won;
            std::mem::swap(&mut self.left[i], &mut self.right[i]);
            if let Some(home) = &mut self.home {
                home[i] = match home[i] {
                    Home::Left => Home::Right,
                    Home::Right => Home::Left,
                    Home::Nobody => Home::Nobody,
                };
            }
        }
        Ok(())
    }
}

/// A table whose rows have the columns `left_x` and `right_x` of both items, and how each duel ended: items that are alike are one.
pub fn read_wide(
    path: &Path,
    (items, duels, table): (&ItemArgs, &DuelArgs, &TableArgs),
    console: &Console,
) -> Result<(Items, Met)> {
    let rows = table.source(path).open()?;
    let (name, header) = (rows.name.clone(), rows.header().to_vec());
    let ignored = listed_columns(&items.ignore, &header);
    let own: Vec<String> = header
        .iter()
        .filter_map(|c| c.strip_prefix("left_"))
        .filter(|c| header.contains(&format!("right_{c}")) && !ignored.contains(&(*c).to_string()))
        .map(String::from)
        .collect();
    if own.is_empty() || !header.contains(&duels.outcome) {
        return Err(Failure::input(format!(
            "{name}: a table without a table of items has the columns left_x and right_x for each column x of items, and '{}' (--outcome): \
             give the table of items, and then that of duels",
            duels.outcome
        )));
    }
    let of = |side: &str| own.iter().map(|c| format!("{side}_{c}")).collect::<Vec<_>>();
    let sides = [of("left"), of("right")];
    let mut wanted = sides.concat();
    wanted.push(duels.outcome.clone());
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
    let (n, outcome) = (left.rows(), outcomes(&columns, &duels.outcome, &name)?);
    let weight = duels.weight.as_deref().map(|weight| columns.numbers(weight)).transpose()?;
    let ids = (1..=kept.len()).map(|k| format!("item {k}")).collect();
    let items = Items::new(name, ids, both.select_rows(&kept))?;
    if duels.home.is_some() || !duels.contexts.is_empty() || duels.users.is_some() {
        let why = "--home, --contexts and --users are columns of a table of duels: give the items in a table of their own";
        return Err(Failure::input(why));
    }
    let (left, right) = (numbers[..n].to_vec(), numbers[n..].to_vec());
    Ok((items, Met { left, right, outcome: Some(outcome), weight, home: None, contexts: None }))
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
    Ok(left.conform(&columns)?.stack(&right.conform(&columns)?)?)
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

/// How duels ended.
fn outcomes(columns: &Columns, column: &str, name: &str) -> Result<Vec<f64>> {
    let known = |word: &str| match word.to_ascii_lowercase().as_str() {
        "left" | "win" | "won" | "1" => Some(1.0),
        "right" | "loss" | "lost" | "0" => Some(0.0),
        "tie" | "draw" | "0.5" => Some(0.5),
        _ => None,
    };
    let of = |(i, word): (usize, &String)| {
        known(word).ok_or_else(|| {
            Failure::input(format!(
                "{name}: row {} of column '{column}' is '{word}': duels end left, right or tie, or 1, 0 or 0.5",
                i + 1
            ))
        })
    };
    names_of(columns, column)?.iter().enumerate().map(of).collect()
}

/// Columns of these names with a level more, for names that are not known yet.
fn with_strangers(read: &Table, names: &[String]) -> Result<Table> {
    let mut columns = read.columns().to_vec();
    for column in columns.iter_mut().filter(|c| names.contains(&c.name)) {
        if let ColumnKind::Categorical { levels } = &mut column.kind {
            if levels.iter().any(|level| level == UNSEEN) {
                let why = format!(
                    "column '{}': '{UNSEEN}' is what users are called whom the model has not met: rename it",
                    column.name
                );
                return Err(Failure::input(why));
            }
            levels.push(UNSEEN.into());
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
        if !known.iter().any(|level| level == UNSEEN) {
            continue;
        }
        let of = |level: &String| {
            let level = if known.contains(level) { level.as_str() } else { UNSEEN };
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
fn homes(columns: &Columns, column: &str, name: &str) -> Result<Vec<Home>> {
    let known = |word: &str| match word.to_ascii_lowercase().as_str() {
        "left" => Some(Home::Left),
        "right" => Some(Home::Right),
        "none" | "neutral" | "nobody" => Some(Home::Nobody),
        _ => None,
    };
    let of = |(i, word): (usize, &String)| {
        known(word).ok_or_else(|| {
            Failure::input(format!(
                "{name}: row {} of column '{column}' is '{word}': the side at home is left, right or none",
                i + 1
            ))
        })
    };
    names_of(columns, column)?.iter().enumerate().map(of).collect()
}

/// The first five names, and how many there are.
pub fn first_of(names: &[String]) -> String {
    let shown = names.iter().take(5).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > 5 { format!("{shown}, … ({} in all)", names.len()) } else { shown }
}

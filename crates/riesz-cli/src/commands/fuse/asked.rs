//! What is asked of an effect: at which treatments, compared with which, and of whom.

use riesz::causal::{Route, Study, Whom, usual_doses};
use riesz::error::listed;
use riesz::table::level_of_text;
use riesz::{Column, ColumnKind, Table};

use super::Args;
use crate::failure::{Failure, Result};
use crate::io::typing::{Conforming, Strays, WhenMissing, WhenUnseen};

/// Doses of a curve that is not asked for at others.
const DOSES: usize = 50;

/// The treatments that the effect is said at.
pub fn treatments(args: &Args, first: &Study) -> Result<Table> {
    let known = &first.treatments;
    let Some(file) = &args.at else {
        if known.width() > 1 {
            let names: Vec<&str> = known.columns().iter().map(|column| &column.name[..]).collect();
            return Err(Failure::input(format!(
                "{} are {} treatments, which have no usual order: give a table of them with --at",
                names.join(", "),
                names.len()
            )));
        }
        return Ok(usual_doses(known, DOSES)?);
    };
    let strays = Strays { missing: WhenMissing::Refused(""), unseen: WhenUnseen::Refused("") };
    let mut rows = Conforming::new(args.table.source(file).open()?, known.columns(), strays, known.width())?;
    let mut all: Option<Table> = None;
    while let Some(some) = rows.next()? {
        all = Some(match all {
            None => some,
            Some(before) => before.stack(&some)?,
        });
    }
    all.ok_or_else(|| Failure::input(format!("{} has no rows", rows.name())))
}

/// Whom it is said of, if not of all.
pub fn whom(args: &Args, first: &Study) -> Result<Option<Whom>> {
    if let Some(row) = row(&args.among, first.treatments.columns(), "--among")? {
        return Ok(Some(Whom::Treated(row)));
    }
    if args.given.is_empty() {
        return Ok(None);
    }
    let Route::BackDoor(covariates) = &first.route else {
        return Err(Failure::input(
            "--given: the effect is not averaged over covariates, and so is the same for all",
        ));
    };
    some(&args.given, covariates.columns(), "--given").map(|row| Some(Whom::Like(row)))
}

/// A row of all of these columns, as `name=value`; `None` where nothing is given.
pub fn row(given: &[String], columns: &[Column], option: &str) -> Result<Option<Table>> {
    if given.is_empty() {
        return Ok(None);
    }
    let own = some(given, columns, option)?;
    if let Some(lacking) = columns.iter().find(|column| own.index_of(&column.name).is_err()) {
        return Err(Failure::input(format!(
            "{option} says nothing of {}: give all of {}",
            lacking.name,
            names(columns)
        )));
    }
    Ok(Some(own))
}

/// A row of some of these columns, in their order.
fn some(given: &[String], columns: &[Column], option: &str) -> Result<Table> {
    let fail = |problem: String| Failure::input(format!("{option} {}: {problem}", given.join(",")));
    let mut found: Vec<Option<f64>> = vec![None; columns.len()];
    for text in given {
        let mut rest = &text[..];
        while !rest.is_empty() {
            let known = columns.iter().position(|column| value_of(rest, &column.name).is_some());
            let (j, after) = known
                .and_then(|j| Some((j, value_of(rest, &columns[j].name)?)))
                .ok_or_else(|| fail(format!("give name=value, where names are {}", names(columns))))?;
            // A value ends where the next name begins.
            let next = after.char_indices().find(|&(at, sign)| {
                sign == ',' && columns.iter().any(|column| value_of(&after[at + 1..], &column.name).is_some())
            });
            let (value, left) = next.map_or((after, ""), |(at, _)| (&after[..at], &after[at + 1..]));
            let number = number(value.trim(), &columns[j]).map_err(fail)?;
            if found[j].replace(number).is_some() {
                return Err(fail(format!("{} is given twice", columns[j].name)));
            }
            rest = left;
        }
    }
    let each = columns.iter().zip(found).filter_map(|(column, value)| Some((column.clone(), value?)));
    let (own, values): (Vec<Column>, Vec<f64>) = each.unzip();
    if own.is_empty() {
        return Err(fail(format!("give name=value, where names are {}", names(columns))));
    }
    Ok(Table::from_column_major(own, 1, values)?)
}

/// What follows `name=`.
fn value_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.trim_start().strip_prefix(name)?.trim_start().strip_prefix('=')
}

fn number(text: &str, column: &Column) -> std::result::Result<f64, String> {
    let name = &column.name;
    match &column.kind {
        ColumnKind::Numeric => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(format!("{name} is '{text}', which is not a number")),
        },
        ColumnKind::Categorical { levels } => level_of_text(levels, text)
            .map(|code| code as f64)
            .ok_or_else(|| format!("{name} is '{text}', which no study has: they have {}", listed(levels))),
    }
}

fn names(columns: &[Column]) -> String {
    listed(columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>())
}

/// A row in words.
pub fn told(row: &Table) -> String {
    let cell = |j: usize| {
        let column = &row.columns()[j];
        format!("{} = {}", column.name, column.format(row.get(0, j)))
    };
    (0..row.width()).map(cell).collect::<Vec<_>>().join(" and ")
}

//! The rows of a query, read from tables and from `name=value`, and their text.

use std::path::Path;

use riesz::error::listed;
use riesz::table::level_of_text;
use riesz::{Column, ColumnKind, Table};

use crate::args::TableArgs;
use crate::exit::{Failure, Result};
use crate::io::model_rows::{CellPolicy, MissingCells, ModelRows, UnseenLevels};
use crate::io::units::Units;

/// Reads all rows of a table, in these columns.
pub fn rows(table: &TableArgs, file: &Path, columns: &[Column], units: &Units) -> Result<Table> {
    let policy = CellPolicy {
        missing: MissingCells::Refuse(", or leave the row out"),
        unseen: UnseenLevels::Refuse("; leave the row out"),
    };
    ModelRows::new(table.source(file).open()?, columns, policy, columns.len())?
        .with_units(units.units_of_columns(columns))
        .read_all()
}

/// Reads the rows of a query together with further columns of numbers.
pub fn rows_with<const N: usize>(
    table: &TableArgs,
    file: &Path,
    columns: &[Column],
    names: [&String; N],
    units: &Units,
) -> Result<(Table, [Vec<f64>; N])> {
    let all_columns: Vec<Column> = columns.iter().cloned().chain(names.map(Column::numeric)).collect();
    let all_values = rows(table, file, &all_columns, units)?;
    let (count, width) = (all_values.rows(), columns.len());
    let table = Table::from_column_major(
        columns.to_vec(),
        count,
        all_values.column_major()[..width * count].to_vec(),
    )?;
    Ok((table, std::array::from_fn(|k| all_values.column(width + k).to_vec())))
}

/// Parses bounds of treatments, written `name=low..high`.
pub fn bounds(texts: &[String], columns: &[Column], option: &str) -> Result<Vec<(String, (f64, f64))>> {
    let bound = |(j, text): (usize, &str)| {
        let name = &columns[j].name;
        let ends = text.split_once("..").and_then(|(low, high)| {
            Some((low.trim().parse::<f64>().ok()?, high.trim().parse::<f64>().ok()?))
        });
        let syntax_error =
            || Failure::input(format!("{option} {name}={text}: give {name}=low..high, as in {name}=0..1"));
        Ok((name.clone(), ends.ok_or_else(syntax_error)?))
    };
    assigned(texts, columns, option)?.into_iter().map(bound).collect()
}

/// Parses a row with a value for each of these columns, written `name=value`; `None` if nothing is given.
pub fn row(texts: &[String], columns: &[Column], option: &str) -> Result<Option<Table>> {
    if texts.is_empty() {
        return Ok(None);
    }
    let table = partial_row(texts, columns, option)?;
    if let Some(missing) = columns.iter().find(|column| table.index_of(&column.name).is_err()) {
        return Err(Failure::input(format!(
            "{option} has no value of {}: give values of all of {}",
            missing.name,
            names(columns)
        )));
    }
    Ok(Some(table))
}

/// Parses a row with values of some of these columns, in the order of `columns`.
pub fn partial_row(texts: &[String], columns: &[Column], option: &str) -> Result<Table> {
    let fail = |problem: String| Failure::input(format!("{option} {}: {problem}", texts.join(",")));
    let (mut row_columns, mut values) = (Vec::new(), Vec::new());
    for (j, text) in assigned(texts, columns, option)? {
        row_columns.push(columns[j].clone());
        values.push(number(text, &columns[j]).map_err(fail)?);
    }
    Ok(Table::from_column_major(row_columns, 1, values)?)
}

/// Parses `name=value,name=value` into column indices with texts, in the order of the columns. At least one
/// is required.
fn assigned<'t>(texts: &'t [String], columns: &[Column], option: &str) -> Result<Vec<(usize, &'t str)>> {
    let fail = |problem: String| Failure::input(format!("{option} {}: {problem}", texts.join(",")));
    let unknown = || fail(format!("give name=value, where names are {}", names(columns)));
    let mut assigned_values: Vec<Option<&str>> = vec![None; columns.len()];
    for text in texts {
        let mut remaining = &text[..];
        while !remaining.is_empty() {
            let column = columns.iter().position(|column| value_of(remaining, &column.name).is_some());
            let (j, after) =
                column.and_then(|j| Some((j, value_of(remaining, &columns[j].name)?))).ok_or_else(unknown)?;
            // A value ends where the next name begins.
            let next = after.char_indices().find(|&(position, sign)| {
                sign == ','
                    && columns.iter().any(|column| value_of(&after[position + 1..], &column.name).is_some())
            });
            let (value, rest) =
                next.map_or((after, ""), |(position, _)| (&after[..position], &after[position + 1..]));
            if assigned_values[j].replace(value.trim()).is_some() {
                return Err(fail(format!("{} is given twice", columns[j].name)));
            }
            remaining = rest;
        }
    }
    let assignments: Vec<(usize, &str)> =
        assigned_values.into_iter().enumerate().filter_map(|(j, value)| Some((j, value?))).collect();
    if assignments.is_empty() { Err(unknown()) } else { Ok(assignments) }
}

/// The text after `name=`, if `text` begins with it.
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
            .ok_or_else(|| format!("{name} is '{text}', in no study: the levels are {}", listed(levels))),
    }
}

/// The names of columns, as a list in a sentence.
pub fn names(columns: &[Column]) -> String {
    listed(columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>())
}

/// A row as text, such as `dose = 1 and age = 70`.
pub fn row_text(row: &Table) -> String {
    let cell = |j: usize| {
        let column = &row.columns()[j];
        format!("{} = {}", column.name, column.format(row.get(0, j)))
    };
    (0..row.width()).map(cell).collect::<Vec<_>>().join(" and ")
}

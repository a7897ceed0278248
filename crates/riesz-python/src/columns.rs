//! The types of the columns of data frames: numbers or categories.

use pyo3::prelude::*;
use riesz::columns::{
    Choice, DecimalMark, FrontEnd, MissingMarks, NumberFormat, Profile, Suspicion, parse_number, suspicions,
};

use crate::Cell;
use crate::error::refuse;

/// Whether a column with these cells is categorical, and a remark for the user about the decision. `choice`
/// is the type that the user chose, `"text"` or `"number"`; `table` is the name of the table.
#[pyfunction]
pub fn column_type(
    name: &str,
    table: &str,
    cells: Vec<Option<Cell>>,
    choice: Option<&str>,
) -> PyResult<(bool, Option<String>)> {
    let choice = match choice {
        None => None,
        Some("text") => Some(Choice::Text),
        Some("number") => Some(Choice::Number),
        Some(other) => {
            return Err(refuse(format!("columns={{'{name}': '{other}'}}: a column is 'text' or 'number'")));
        }
    };
    let profile = profile_of(&cells);
    match profile.decide(choice) {
        Ok(decision) => Ok((decision.categorical, decision.remark)),
        Err(problem) => {
            let location = format!("row {} (from 0)", problem.row);
            Err(refuse(format!("{table}: {}", problem.sentence(name, &location, FrontEnd::Python, true))))
        }
    }
}

/// The common unit of all numbers among the cells; `None` if they have no unit. Different units are an error.
#[pyfunction]
pub fn column_unit(name: &str, table: &str, cells: Vec<Option<Cell>>) -> PyResult<Option<String>> {
    let profile = profile_of(&cells);
    if let Some((first, second)) = profile.different_units() {
        return Err(refuse(format!(
            "column '{name}' of {table} has numbers in {first} and in {second}: write all in one unit"
        )));
    }
    Ok(profile.unit().map(String::from))
}

fn profile_of(cells: &[Option<Cell>]) -> Profile {
    let mut profile = Profile::new(NumberFormat::default(), &MissingMarks::default());
    for cell in cells {
        match cell {
            None => profile.add_number(f64::NAN),
            Some(Cell::Number(value)) => profile.add_number(*value),
            Some(Cell::Text(text)) => profile.add_text(text),
        }
    }
    profile
}

/// Whether two texts are spellings of the same unit.
#[pyfunction]
pub fn same_unit(a: &str, b: &str) -> bool {
    riesz::columns::same_unit(a, b)
}

/// Reads each cell as a number; `None` for cells that are not numbers.
#[pyfunction]
pub fn read_numbers(cells: Vec<Option<Cell>>) -> Vec<Option<f64>> {
    let read = |cell: &Option<Cell>| match cell {
        None => None,
        Some(Cell::Number(value)) => Some(*value),
        Some(Cell::Text(text)) => Some(parse_number(text, DecimalMark::Point)?.value),
    };
    cells.iter().map(read).collect()
}

/// Warnings about finite numbers that are probably not measurements: numbers of the rows, or marks of missing
/// values.
#[pyfunction]
pub fn column_suspicions(name: &str, values: Vec<f64>) -> Vec<String> {
    let location = |row: usize| format!("row {row} (from 0)");
    let sentence = |suspicion: &Suspicion| suspicion.sentence(name, location, FrontEnd::Python, true);
    suspicions(&values).iter().map(sentence).collect()
}

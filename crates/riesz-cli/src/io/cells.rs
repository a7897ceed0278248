//! The cells of one column: as numbers, as codes of categories, or as an error that names the cell.

use std::borrow::Cow;

use riesz::columns::{
    Choice, ColumnType, FrontEnd, Profile, WrittenNumber, has_decimal_comma, is_missing, parse_number,
    same_unit, trimmed,
};
use riesz::table::{level_of_number, level_of_text};

use crate::console::note_once;
use crate::exit::{Failure, Result};
use crate::io::chunk::{Chunk, Raw};
use crate::io::input::CellRules;

/// The front end in whose options remedies are spelled.
pub const FRONT_END: FrontEnd = FrontEnd::CommandLine;

/// The cells of one column in one chunk of a table.
pub struct ColumnCells<'a> {
    /// The rows.
    pub chunk: &'a Chunk,
    /// The index of the column in the chunk.
    pub j: usize,
    /// The name of the column.
    pub column: &'a str,
    /// The name of the table.
    pub table: &'a str,
    /// The notation of numbers and the marks of missing values.
    pub rules: &'a CellRules,
}

impl ColumnCells<'_> {
    /// The error for the cell of row `i`, which is not a finite number. If the cell is missing, `remedy` is
    /// added.
    pub fn refuse(&self, i: usize, remedy: &str) -> Failure {
        let cell = self.text(i);
        let problem = if cell.is_empty() {
            format!("is empty: fill the value in or remove the row{remedy}")
        } else if self.is_missing(i) {
            format!("is missing ('{cell}'): fill the value in or remove the row{remedy}")
        } else if cell.parse::<f64>().is_ok() {
            format!("is '{cell}', which is not a finite number: correct it or remove the row")
        } else if has_decimal_comma(&cell) {
            format!("is '{cell}', which has a decimal comma: give --decimal ,")
        } else if cell.starts_with(['<', '>', '\u{2264}', '\u{2265}']) {
            format!(
                "is '{cell}', which is a bound and not a number: write a number in its place (the middle of \
                 the range), or give {} to treat it as missing, which leaves out a particular kind of rows",
                FRONT_END.missing_mark(&cell)
            )
        } else {
            format!(
                "is '{cell}', which is not a number: correct it, or give {} if it means a missing value",
                FRONT_END.missing_mark(&cell)
            )
        };
        self.failure(i, &problem)
    }

    /// An error that begins with the place of the cell of row `i`.
    pub fn failure(&self, i: usize, problem: &str) -> Failure {
        Failure::input(format!(
            "{}: {} of column '{}' {problem}",
            self.table,
            self.chunk.location(i),
            self.column
        ))
    }

    /// The cell of row `i` as text.
    pub fn text(&self, i: usize) -> Cow<'_, str> {
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) => Cow::Owned(v[i].to_string()),
            Raw::Texts(t) => Cow::Borrowed(trimmed(t.get(i))),
        }
    }

    /// Whether the cell of row `i` is missing.
    pub fn is_missing(&self, i: usize) -> bool {
        let marks = &self.rules.missing;
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) => v[i].is_nan() || !marks.is_empty() && marks.has_number(v[i]),
            Raw::Texts(_) => {
                let text = self.text(i);
                is_missing(&text) || !marks.is_empty() && marks.has_text(&text)
            }
        }
    }

    /// The number in the cell of row `i` with its notation; `None` if the cell is not a finite number.
    fn number(&self, i: usize) -> Option<WrittenNumber<'_>> {
        let number = match &self.chunk.columns[self.j] {
            Raw::Numbers(v) => WrittenNumber::plain(v[i]),
            Raw::Texts(t) => parse_number(t.get(i), self.rules.format.mark)?,
        };
        let marked = !self.rules.missing.is_empty() && self.is_missing(i);
        (number.value.is_finite() && !marked).then_some(number)
    }

    /// Appends the cells to `out` as numbers. `substitute` gives the number for a row whose cell is not a
    /// finite number.
    pub fn numbers(
        &self,
        out: &mut Vec<f64>,
        mut substitute: impl FnMut(usize) -> Result<f64>,
    ) -> Result<()> {
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) if self.rules.missing.is_empty() && v.iter().all(|v| v.is_finite()) => {
                out.extend_from_slice(v);
            }
            _ => {
                for i in 0..self.chunk.rows {
                    out.push(match self.number(i) {
                        Some(number) => number.value,
                        None => substitute(i)?,
                    });
                }
            }
        }
        Ok(())
    }

    /// Appends the codes of the cells to `out`, the index of each cell in `levels`. `substitute` gives the
    /// code for a row whose cell is missing or is none of the levels.
    pub fn codes(
        &self,
        levels: &[String],
        out: &mut Vec<f64>,
        mut substitute: impl FnMut(usize) -> Result<f64>,
    ) -> Result<()> {
        for i in 0..self.chunk.rows {
            let code = match &self.chunk.columns[self.j] {
                _ if self.is_missing(i) => None,
                Raw::Numbers(v) => level_of_number(levels, v[i]),
                Raw::Texts(_) => level_of_text(levels, &self.text(i)).or_else(|| {
                    let written = self.number(i).filter(|number| !number.plain)?;
                    level_of_number(levels, written.value)
                }),
            };
            out.push(code.map_or_else(|| substitute(i), |code| Ok(code as f64))?);
        }
        Ok(())
    }

    /// Prints a note about the first number that is not in plain notation, and refuses a number with two
    /// readings if no other cell decides between them. `model_unit` is the unit of the column in the training
    /// data of a model (`Some(None)` if it had none): numbers in another unit are refused.
    pub fn check_notation(&self, model_unit: Option<Option<&str>>) -> Result<()> {
        let Raw::Texts(texts) = &self.chunk.columns[self.j] else {
            self.note_missing_unit(model_unit);
            return Ok(());
        };
        let mark = self.rules.format.mark;
        let unusual =
            |text: &str| parse_number(text, mark).is_some_and(|n| !n.plain && text.parse::<f64>().is_err());
        if !texts.iter().any(unusual) {
            self.note_missing_unit(model_unit);
            return Ok(());
        }
        let mut profile = Profile::new(self.rules.format, &self.rules.missing);
        texts.iter().for_each(|text| profile.add_text(text));
        self.check_unit(&profile, model_unit)?;
        match profile.decide(self.rules.choice(self.column)) {
            Ok(ColumnType { remark: Some(remark), categorical: false, .. }) => {
                note_once(&format!("{}: column '{}': {remark}", self.table, self.column));
                Ok(())
            }
            Err(problem) if problem.is_about_notation() => {
                let row = self.chunk.location(usize::try_from(problem.row).unwrap_or(0));
                Err(Failure::input(format!(
                    "{}: {}",
                    self.table,
                    problem.sentence(self.column, &row, FRONT_END, false)
                )))
            }
            _ => Ok(()),
        }
    }

    /// Refuses numbers whose unit differs from that of the model's training data.
    fn check_unit(&self, profile: &Profile, model_unit: Option<Option<&str>>) -> Result<()> {
        let refuse = |problem: String| {
            Err(Failure::input(format!("{}: column '{}' {problem}", self.table, self.column)))
        };
        if let Some((first, second)) = profile.different_units() {
            return refuse(format!("has numbers in {first} and in {second}: write all numbers in one unit"));
        }
        let Some(model_unit) = model_unit else { return Ok(()) };
        let stated = self.rules.choice(self.column) == Some(Choice::Number);
        match (model_unit, profile.unit()) {
            (Some(expected), Some(unit)) if !stated && !same_unit(expected, unit) => refuse(format!(
                "has numbers in {unit}, but the model was fitted to numbers in {expected}: convert them, or \
                 give {} if both are the same unit",
                FRONT_END.choice(self.column, "number")
            )),
            (None, Some(unit)) if !stated => refuse(format!(
                "has numbers in {unit}, but the model was fitted to numbers without a unit: write them \
                 without it, in the unit of the training data, or give {} if it is the same",
                FRONT_END.choice(self.column, "number")
            )),
            (Some(_), None) => {
                self.note_missing_unit(Some(model_unit));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn note_missing_unit(&self, model_unit: Option<Option<&str>>) {
        if let Some(Some(unit)) = model_unit {
            note_once(&format!(
                "warning: {}: column '{}' has numbers without a unit, which are taken for {unit}, as in the \
                 model's training data",
                self.table, self.column
            ));
        }
    }
}

/// Appends column `j` of a chunk to `out`; `column` and `table` are the names for messages.
pub fn append_numbers(chunk: &Chunk, j: usize, column: &str, table: &str, out: &mut Vec<f64>) -> Result<()> {
    let rules = CellRules::default();
    let cells = ColumnCells { chunk, j, column, table, rules: &rules };
    cells.numbers(out, |i| Err(cells.refuse(i, "")))
}

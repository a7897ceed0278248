//! From what a file holds to a [`Table`]: which columns are numbers, which are levels, and which cells are neither.

use std::borrow::Cow;
use std::collections::HashMap;

use riesz::explanation::Fact;
use riesz::table::{level_of_number, level_of_text};
use riesz::{Column, ColumnKind, Table};

use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::chunk::{Chunk, Raw};
use crate::io::csv::has_decimal_comma;
use crate::io::input::OpenTable;

/// Rows read at a time, where the width does not ask for fewer.
pub const CHUNK: usize = 4096;

/// Whether a text stands for a value that is not there.
fn missing(text: &str) -> bool {
    text.is_empty() || ["na", "n/a", "nan", "null", "#n/a"].iter().any(|m| text.eq_ignore_ascii_case(m))
}

/// Whether a text is a date, with or without a time: `2026-11-22`, `22.11.2026`, `11/22/26 10:30`, `2026-11-22T10:30:00Z`.
fn is_date(text: &str) -> bool {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "0:0"));
    let parts: Vec<&str> = date.split(['-', '/', '.']).collect();
    let digits = |part: &&str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let clock = |c: char| c.is_ascii_digit() || ":.+-Z APMapm".contains(c);
    parts.len() == 3 && parts.iter().all(digits) && time.contains(':') && time.chars().all(clock)
}

/// Reads whole columns of one table and decides what they hold.
pub struct Columns {
    /// The table's name, for messages.
    pub name: String,
    chunks: Vec<Chunk>,
    /// Where each stands in the chunks.
    wanted: HashMap<String, usize>,
    rows: usize,
}

impl Columns {
    /// Reads the columns `wanted` of all rows.
    pub fn read(mut rows: OpenTable, wanted: &[String]) -> Result<Self> {
        let indices = rows.places(wanted)?;
        rows.svmlight().map_or(Ok(()), |sparse| sparse.check_dense(wanted.len()))?;
        let mut chunks = Vec::new();
        while let Some(chunk) = rows.next(&indices, CHUNK)? {
            chunks.push(chunk);
        }
        Self::of(rows.name, chunks, wanted)
    }

    /// Of chunks of a table that have these columns.
    pub fn of(name: String, chunks: Vec<Chunk>, wanted: &[String]) -> Result<Self> {
        let rows = chunks.iter().map(|c| c.rows).sum();
        if rows == 0 {
            return Err(Failure::input(format!("{name} has names of columns but no rows")));
        }
        let wanted = wanted.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
        Ok(Self { name, chunks, wanted, rows })
    }

    fn at(&self, name: &str) -> Result<usize> {
        self.wanted
            .get(name)
            .copied()
            .ok_or_else(|| Failure::input(format!("{}: there is no column '{name}'", self.name)))
    }

    /// The column as numbers.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        let j = self.at(name)?;
        let mut out = Vec::with_capacity(self.rows);
        for chunk in &self.chunks {
            numbers(chunk, j, name, &self.name, &mut out)?;
        }
        Ok(out)
    }

    /// The column as numbers, NaN where a cell is missing.
    pub fn numbers_or_missing(&self, name: &str) -> Result<Vec<f64>> {
        let j = self.at(name)?;
        let mut out = Vec::with_capacity(self.rows);
        for chunk in &self.chunks {
            let place = Place { chunk, j, column: name, name: &self.name };
            place.numbers(&mut out, |i| match missing(&place.cell(i)) {
                true => Ok(f64::NAN),
                false => Err(place.refuse(i, "")),
            })?;
        }
        Ok(out)
    }

    /// The column as codes of sorted levels.
    pub fn levels(&self, name: &str) -> Result<(Vec<String>, Vec<f64>)> {
        self.levels_where(name, |place, i| Err(place.refuse(i, "")))
    }

    /// The column as codes of sorted levels, NaN where a cell is missing.
    pub fn levels_or_missing(&self, name: &str) -> Result<(Vec<String>, Vec<f64>)> {
        self.levels_where(name, |place, i| match missing(&place.cell(i)) {
            true => Ok(()),
            false => Err(place.refuse(i, "")),
        })
    }

    /// The column as codes of sorted levels, NaN where `stray` lets a cell pass that is none.
    fn levels_where(
        &self,
        name: &str,
        stray: impl Fn(&Place<'_>, usize) -> Result<()>,
    ) -> Result<(Vec<String>, Vec<f64>)> {
        let j = self.at(name)?;
        // Each spelling once, and of every row which it is: rows are many.
        let (mut spelled, mut known) = (Vec::new(), HashMap::new());
        let mut cells: Vec<Option<usize>> = Vec::with_capacity(self.rows);
        for chunk in &self.chunks {
            let place = Place { chunk, j, column: name, name: &self.name };
            for i in 0..chunk.rows {
                let level = match &chunk.columns[j] {
                    Raw::Numbers(v) => v[i].is_finite(),
                    Raw::Texts(t) => !missing(t.get(i)),
                };
                if !level {
                    stray(&place, i)?;
                    cells.push(None);
                    continue;
                }
                let cell = place.text(i);
                let at = known.get(cell.as_ref()).copied().unwrap_or_else(|| {
                    spelled.push(cell.to_string());
                    known.insert(cell.into_owned(), spelled.len() - 1);
                    spelled.len() - 1
                });
                cells.push(Some(at));
            }
        }
        let all_numbers = spelled.iter().all(|l| l.parse::<f64>().is_ok());
        // 2 and 2.0 are one level, spelled 2; codes such as 02139 keep their zeros.
        let padded = |l: &String| l.len() > 1 && l.starts_with('0') && !l.starts_with("0.");
        if all_numbers && !spelled.iter().any(padded) {
            spelled
                .iter_mut()
                .for_each(|l| *l = l.parse::<f64>().map_or_else(|_| l.clone(), |v| v.to_string()));
        }
        let levels = in_order(spelled.clone());
        let code: HashMap<&str, f64> =
            levels.iter().enumerate().map(|(k, l)| (l.as_str(), k as f64)).collect();
        let of_spelled: Vec<f64> = spelled.iter().map(|l| code[l.as_str()]).collect();
        let codes = cells.into_iter().map(|at| at.map_or(f64::NAN, |at| of_spelled[at])).collect();
        Ok((levels, codes))
    }

    /// Whether the column holds text. A column in which numbers prevail over a few texts is more likely a slip
    /// than a category, and refused; `remedy` is a further one for dates.
    pub fn is_text(&self, name: &str, remedy: &str) -> Result<bool> {
        let j = self.at(name)?;
        let (mut texts, mut count, mut commas, mut dates) = (None, 0usize, 0, 0);
        for chunk in &self.chunks {
            let Raw::Texts(cells) = &chunk.columns[j] else { return Ok(false) };
            for (i, cell) in cells.iter().enumerate() {
                if !missing(cell) && cell.parse::<f64>().is_err() {
                    texts.get_or_insert((chunk, i, cell));
                    count += 1;
                    commas += usize::from(has_decimal_comma(cell));
                    dates += usize::from(is_date(cell));
                }
            }
        }
        let Some((chunk, i, cell)) = texts else { return Ok(false) };
        if commas == count {
            return Err(Failure::input(format!(
                "{}: column '{name}' holds numbers with decimal commas ({} is '{cell}'): give --decimal , (or --categorical '{name}' if they are names)",
                self.name,
                chunk.place(i)
            )));
        }
        if dates == count {
            return Err(Failure::input(format!(
                "{}: column '{name}' holds dates or times ({} is '{cell}'): write it as numbers, days since some date for example{remedy} (or --categorical '{name}' if they are names)",
                self.name,
                chunk.place(i)
            )));
        }
        if 2 * count < self.rows {
            return Err(Failure::input(format!(
                "{}: column '{name}' holds numbers, but its {} is '{cell}': correct it, or give --categorical '{name}'",
                self.name,
                chunk.place(i)
            )));
        }
        Ok(true)
    }

    /// A table of the columns `names`; those that hold text, and those in `categorical`, become levels.
    pub fn table(&self, names: &[String], categorical: &[String], console: &Console) -> Result<Table> {
        let mut columns = Vec::with_capacity(names.len());
        let mut values = Vec::with_capacity(names.len() * self.rows);
        for name in names {
            let asked = categorical.contains(name);
            if !asked && !self.is_text(name, &or_ignored(name))? {
                columns.push(Column::numeric(name));
                values.extend(self.numbers(name)?);
                continue;
            }
            let (levels, codes) = self.levels(name)?;
            if !asked && self.rows > 20 && 2 * levels.len() > self.rows {
                console.warn(format!(
                    "column '{name}' has {} different texts in {} rows; leave it out with --ignore '{name}' if it is a label",
                    levels.len(),
                    self.rows
                ));
            }
            columns.push(Column { name: name.clone(), kind: ColumnKind::Categorical { levels } });
            values.extend(codes);
        }
        Ok(Table::from_column_major(columns, self.rows, values)?)
    }
}

/// Levels, each once: by their numbers if all are numbers, else by name.
pub fn in_order(mut levels: Vec<String>) -> Vec<String> {
    if levels.iter().all(|l| l.parse::<f64>().is_ok()) {
        let value = |s: &String| s.parse::<f64>().unwrap_or(f64::NAN);
        levels.sort_by(|a, b| value(a).total_cmp(&value(b)).then_with(|| a.cmp(b)));
    } else {
        levels.sort_unstable();
    }
    levels.dedup();
    levels
}

/// The remedy of commands that can do without a column.
pub fn or_ignored(name: &str) -> String {
    format!(", or leave it out with --ignore '{name}'")
}

/// Where a cell is that cannot be taken.
struct Place<'a> {
    chunk: &'a Chunk,
    /// Its column in the chunk.
    j: usize,
    /// The column's name.
    column: &'a str,
    /// The table's name.
    name: &'a str,
}

impl Place<'_> {
    /// Why the cell of row `i` cannot be a number; `remedy` is a further one for missing cells.
    fn refuse(&self, i: usize, remedy: &str) -> Failure {
        let cell = self.cell(i);
        let problem = if cell.is_empty() {
            format!("is empty: fill the value in or remove the row{remedy}")
        } else if missing(&cell) {
            format!("is missing ('{cell}'): fill the value in or remove the row{remedy}")
        } else if cell.parse::<f64>().is_ok() {
            format!("is '{cell}', which is not a finite number: correct it or remove the row")
        } else if has_decimal_comma(&cell) {
            format!("is '{cell}', which has a decimal comma: give --decimal ,")
        } else {
            format!("is '{cell}', which is not a number")
        };
        self.failure(i, &problem)
    }

    fn failure(&self, i: usize, problem: &str) -> Failure {
        Failure::input(format!(
            "{}: {} of column '{}' {problem}",
            self.name,
            self.chunk.place(i),
            self.column
        ))
    }

    /// The cell of row `i` as text.
    fn cell(&self, i: usize) -> String {
        self.text(i).into_owned()
    }

    fn text(&self, i: usize) -> Cow<'_, str> {
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) => Cow::Owned(v[i].to_string()),
            Raw::Texts(t) => Cow::Borrowed(t.get(i)),
        }
    }

    /// Hands every cell that is a finite number on as such, and the rows of others to `stray`, for a number in its place.
    fn numbers(&self, out: &mut Vec<f64>, mut stray: impl FnMut(usize) -> Result<f64>) -> Result<()> {
        let mut push = |i: usize, v: Option<f64>| {
            out.push(match v {
                Some(v) if v.is_finite() => v,
                _ => stray(i)?,
            });
            Ok(())
        };
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) if v.iter().all(|v| v.is_finite()) => {
                out.extend_from_slice(v);
                Ok(())
            }
            Raw::Numbers(v) => v.iter().enumerate().try_for_each(|(i, v)| push(i, Some(*v))),
            Raw::Texts(cells) => {
                cells.iter().enumerate().try_for_each(|(i, cell)| push(i, cell.parse().ok()))
            }
        }
    }

    /// The same for codes of `levels`.
    fn codes(
        &self,
        levels: &[String],
        out: &mut Vec<f64>,
        mut stray: impl FnMut(usize) -> Result<f64>,
    ) -> Result<()> {
        let mut push = |i: usize, code: Option<usize>| {
            out.push(code.map_or_else(|| stray(i), |code| Ok(code as f64))?);
            Ok(())
        };
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) => {
                v.iter().enumerate().try_for_each(|(i, v)| push(i, level_of_number(levels, *v)))
            }
            Raw::Texts(cells) => {
                cells.iter().enumerate().try_for_each(|(i, cell)| push(i, level_of_text(levels, cell)))
            }
        }
    }
}

/// Appends column `j` of a chunk to `out`; `column` and `name` are what to call it and its table in messages.
pub fn numbers(chunk: &Chunk, j: usize, column: &str, name: &str, out: &mut Vec<f64>) -> Result<()> {
    let place = Place { chunk, j, column, name };
    place.numbers(out, |i| Err(place.refuse(i, "")))
}

/// What stands for column `j` of a table where a cell is missing: the median of its numbers, its most frequent level (of equals the first). The table has rows.
pub fn typical(table: &Table, j: usize) -> f64 {
    let mut values = table.column(j).to_vec();
    values.sort_unstable_by(f64::total_cmp);
    match table.columns()[j].kind {
        ColumnKind::Numeric => {
            let count = values.len();
            values[(count - 1) / 2] / 2.0 + values[count / 2] / 2.0
        }
        ColumnKind::Categorical { .. } => {
            let runs = values.chunk_by(|a, b| a == b);
            runs.fold(&values[..1], |most, run| if run.len() > most.len() { run } else { most })[0]
        }
    }
}

/// What becomes of cells that a model's columns cannot take.
#[derive(Debug, Clone)]
pub struct Strays {
    /// Missing ones.
    pub missing: WhenMissing,
    /// Those of levels that are not known.
    pub unseen: WhenUnseen,
}

impl Strays {
    /// The levels that cells can have: the one for those that are not known is nobody's own.
    fn known<'l>(&self, levels: &'l [String]) -> &'l [String] {
        match self.unseen {
            WhenUnseen::Refused(_) => levels,
            WhenUnseen::Last => &levels[..levels.len().saturating_sub(1)],
        }
    }
}

/// What becomes of missing cells.
#[derive(Debug, Clone)]
pub enum WhenMissing {
    /// They are refused, with this further remedy.
    Refused(&'static str),
    /// They are filled in.
    Filled {
        /// With what, by column.
        values: Vec<f64>,
        /// Whose typical values these are.
        of: &'static str,
    },
}

/// What becomes of cells of levels that are not known.
#[derive(Debug, Clone)]
pub enum WhenUnseen {
    /// They are refused, with this remedy.
    Refused(&'static str),
    /// They are the last level of their column.
    Last,
}

/// Names of unseen levels that are told one by one.
const TOLD: usize = 5;

/// Cells of one column that were not taken as they are.
#[derive(Debug, Clone, Default)]
struct Treated {
    filled: usize,
    unseen: usize,
    /// The first different ones.
    levels: Vec<String>,
}

/// The rows of a table in a model's columns, chunk by chunk. Other columns are not looked at.
pub struct Conforming {
    rows: OpenTable,
    columns: Vec<Column>,
    wanted: Vec<usize>,
    strays: Strays,
    treated: Vec<Treated>,
    limit: usize,
    any: bool,
}

impl Conforming {
    /// Finds the model's columns in the table. `numbers_a_row` is how many numbers a row will take further on; wide
    /// rows come in smaller chunks.
    pub fn new(rows: OpenTable, columns: &[Column], strays: Strays, numbers_a_row: usize) -> Result<Self> {
        const NUMBERS: usize = 1 << 21;
        let wanted = rows.places(columns.iter().map(|c| &c.name))?;
        let limit = (NUMBERS / numbers_a_row.max(1)).clamp(1, CHUNK);
        let treated = vec![Treated::default(); columns.len()];
        Ok(Self { rows, columns: columns.to_vec(), wanted, strays, treated, limit, any: false })
    }

    /// The table's name, for messages.
    pub fn name(&self) -> &str {
        &self.rows.name
    }

    /// The next rows; `None` after the last. A table without rows is an error.
    pub fn next(&mut self) -> Result<Option<Table>> {
        let Some(chunk) = self.rows.next(&self.wanted, self.limit)? else {
            if !self.any {
                return Err(Failure::input(format!("{} has names of columns but no rows", self.rows.name)));
            }
            return Ok(None);
        };
        self.any = true;
        let mut values = Vec::with_capacity(chunk.rows * self.columns.len());
        for (j, (column, treated)) in self.columns.iter().zip(&mut self.treated).enumerate() {
            let place = Place { chunk: &chunk, j, column: &column.name, name: &self.rows.name };
            let filled = |i: usize, treated: &mut Treated| match &self.strays.missing {
                WhenMissing::Refused(remedy) => Err(place.refuse(i, remedy)),
                WhenMissing::Filled { values, .. } => {
                    treated.filled += 1;
                    Ok(values[j])
                }
            };
            match &column.kind {
                ColumnKind::Numeric => place.numbers(&mut values, |i| match missing(&place.cell(i)) {
                    true => filled(i, treated),
                    false => Err(place.refuse(i, "")),
                })?,
                ColumnKind::Categorical { levels } => {
                    place.codes(self.strays.known(levels), &mut values, |i| {
                        let cell = place.cell(i);
                        if missing(&cell) {
                            return filled(i, treated);
                        }
                        match self.strays.unseen {
                            WhenUnseen::Refused(remedy) => {
                                let known = riesz::error::listed(levels);
                                // What a program has seen, only it knows.
                                let who = if remedy.is_empty() { "background" } else { "model" };
                                let problem = format!(
                                    "is '{cell}', which the {who} has not seen; it knows: {known}{remedy}"
                                );
                                Err(place.failure(i, &problem))
                            }
                            WhenUnseen::Last => {
                                treated.unseen += 1;
                                if treated.levels.len() <= TOLD && !treated.levels.contains(&cell) {
                                    treated.levels.push(cell);
                                }
                                Ok((levels.len() - 1) as f64)
                            }
                        }
                    })?
                }
            }
        }
        Ok(Some(Table::from_column_major(self.columns.clone(), chunk.rows, values)?))
    }

    /// What is to be said of the rows so far: cells that were not taken as they are.
    pub fn facts(&self) -> Vec<Fact> {
        let cells = |count: usize, column: &Column| {
            format!("{count} cell{} of column '{}'", if count == 1 { "" } else { "s" }, column.name)
        };
        let (mut unseen, mut filled) = (Vec::new(), Vec::new());
        for (j, (column, treated)) in self.columns.iter().zip(&self.treated).enumerate() {
            if treated.unseen > 0 {
                let mut levels = treated.levels.clone();
                if levels.len() > TOLD {
                    levels[TOLD] = "…".into();
                }
                let (cells, levels) = (cells(treated.unseen, column), levels.join(", "));
                unseen.push(format!("{cells} taken for none of the known categories ({levels})"));
            }
            if let WhenMissing::Filled { values, of } = &self.strays.missing
                && treated.filled > 0
            {
                let what = match column.kind {
                    ColumnKind::Numeric => "median",
                    ColumnKind::Categorical { .. } => "most frequent category",
                };
                let (cells, value) = (cells(treated.filled, column), column.format(values[j]));
                filled.push(format!("{cells} filled in with {value}, the {what} of {of}"));
            }
        }
        let said = [("unseen categories", unseen), ("missing cells", filled)];
        let fact = |(name, of): (&str, Vec<String>)| {
            Fact::new(name, format!("{}: {}", self.rows.name, of.join("; ")))
        };
        said.into_iter().filter(|(_, of)| !of.is_empty()).map(fact).collect()
    }

    /// All rows at once.
    pub fn all(&mut self) -> Result<Table> {
        let mut parts = Vec::new();
        while let Some(part) = self.next()? {
            parts.push(part);
        }
        let rows = parts.iter().map(Table::rows).sum();
        let mut values = Vec::with_capacity(rows * self.columns.len());
        for j in 0..self.columns.len() {
            parts.iter().for_each(|part| values.extend_from_slice(part.column(j)));
        }
        Ok(Table::from_column_major(self.columns.clone(), rows, values)?)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::args::Format;
    use crate::io::input::TableFile;
    use crate::io::write::{Cells, TableWriter};

    fn csv(bytes: Vec<u8>) -> Result<OpenTable> {
        OpenTable::csv(Box::new(std::io::Cursor::new(bytes)), b',', "t")
    }

    fn fit_table(bytes: Vec<u8>) -> Result<Table> {
        let rows = csv(bytes)?;
        let names = rows.header().to_vec();
        Columns::read(rows, &names)?.table(&names, &[], &Console::new(true))
    }

    fn conform(rows: OpenTable) -> Result<Table> {
        let levels = ColumnKind::Categorical { levels: vec!["x".into(), "1".into()] };
        let columns = [Column::numeric("a"), Column { name: "b".into(), kind: levels }];
        let strays = Strays { missing: WhenMissing::Refused(""), unseen: WhenUnseen::Refused("") };
        Conforming::new(rows, &columns, strays, 1 << 20)?.all()
    }

    #[test]
    fn levels_sort_as_numbers_where_they_are() {
        let rows = csv(b"a\n10\n9\n10\n".to_vec()).unwrap();
        let columns = Columns::read(rows, &["a".into()]).unwrap();
        assert_eq!(columns.levels("a").unwrap(), (vec!["9".into(), "10".into()], vec![1.0, 0.0, 1.0]));
        let rows = csv(b"a\n2.0\n1\n2\n".to_vec()).unwrap();
        let columns = Columns::read(rows, &["a".into()]).unwrap();
        assert_eq!(columns.levels("a").unwrap(), (vec!["1".into(), "2".into()], vec![1.0, 0.0, 1.0]));
        let columns = Columns::read(csv(b"a\n02139\n2139\n".to_vec()).unwrap(), &["a".into()]).unwrap();
        assert_eq!(columns.levels("a").unwrap().0.len(), 2);
        // The same level however it is spelled.
        let table = conform(csv(b"b,a\n1.0,2\nx,3\n".to_vec()).unwrap()).unwrap();
        assert_eq!(table.column(1), [1.0, 0.0]);
    }

    #[test]
    fn what_is_typical_of_a_column() {
        let of = |kind: ColumnKind, values: &[f64]| {
            let columns = vec![Column { name: "c".into(), kind }];
            typical(&Table::from_column_major(columns, values.len(), values.to_vec()).unwrap(), 0)
        };
        let levels = || ColumnKind::Categorical { levels: ["a", "b", "c"].map(String::from).to_vec() };
        assert_eq!(of(ColumnKind::Numeric, &[3.0, -1.0, 8.0]), 3.0);
        assert_eq!(of(ColumnKind::Numeric, &[3.0, f64::MAX, 8.0, f64::MAX]), f64::MAX / 2.0 + 4.0);
        assert_eq!(of(levels(), &[2.0, 0.0, 2.0, 1.0, 1.0]), 1.0);
        assert_eq!(of(levels(), &[2.0]), 2.0);
    }

    fn parquet(path: &Path) -> Vec<u8> {
        let names = vec!["a".into(), "b".into()];
        let empty = vec![Cells::Numbers(vec![]), Cells::Texts(vec![])];
        let mut writer = TableWriter::open(Some(path), Format::Parquet, names, empty).unwrap();
        let texts = ["x", "1", "x"].map(String::from).to_vec();
        writer.rows(vec![Cells::Numbers(vec![0.5, 1e-300, 3.0]), Cells::Texts(texts)]).unwrap();
        writer.finish().unwrap();
        std::fs::read(path).unwrap()
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = fit_table(bytes);
        }

        #[test]
        fn almost_tables_are_answered(
            parts in proptest::collection::vec(
                prop::sample::select(vec![
                    "a", "b", ",", "\n", "\r\n", "\"", "1", "-2.5", "x", "nan", "inf", "1e999", "é", " ", "\u{feff}", "",
                ]),
                0..40,
            )
        ) {
            let text = format!("a,b\n{}", parts.concat());
            if let Ok(table) = fit_table(text.clone().into_bytes()) {
                prop_assert!(table.column_major().iter().all(|v| v.is_finite()) && table.rows() > 0);
            }
            let _ = csv(text.into_bytes()).and_then(conform);
        }

        #[test]
        fn damaged_parquet_is_answered(hits in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4), cut: usize) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.parquet");
            let mut bytes = parquet(&path);
            let source = TableFile::from_path(&path);
            let table = conform(source.open().unwrap()).unwrap();
            prop_assert_eq!(table.column(1), [0.0, 1.0, 0.0]);
            let n = bytes.len();
            for (at, byte) in hits {
                bytes[at % n] = byte;
            }
            std::fs::write(&path, &bytes).unwrap();
            let _ = source.open().and_then(conform);
            bytes.truncate(cut % n);
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(source.open().and_then(conform).is_err());
        }
    }
}

//! From what a file holds to a [`Table`]: which columns are numbers, which are levels, and which cells are neither.

use std::collections::HashMap;

use riesz::table::{level_of_number, level_of_text};
use riesz::{Column, ColumnKind, Table};

use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::chunk::{Chunk, Raw, Texts};
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
        let mut chunks = Vec::new();
        while let Some(chunk) = rows.next(&indices, CHUNK)? {
            chunks.push(chunk);
        }
        let count = chunks.iter().map(|c| c.rows).sum();
        if count == 0 {
            return Err(Failure::input(format!("{} has names of columns but no rows", rows.name)));
        }
        let wanted = wanted.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
        Ok(Self { name: rows.name, chunks, wanted, rows: count })
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

    /// The column as codes of sorted levels.
    pub fn levels(&self, name: &str) -> Result<(Vec<String>, Vec<f64>)> {
        let j = self.at(name)?;
        let mut cells: Vec<String> = Vec::with_capacity(self.rows);
        for chunk in &self.chunks {
            for i in 0..chunk.rows {
                cells.push(match &chunk.columns[j] {
                    Raw::Numbers(v) if v[i].is_finite() => v[i].to_string(),
                    Raw::Numbers(v) => return Err(refuse(chunk, i, name, &self.name, &v[i].to_string())),
                    Raw::Texts(t) if missing(t.get(i)) => {
                        return Err(refuse(chunk, i, name, &self.name, t.get(i)));
                    }
                    Raw::Texts(t) => t.get(i).to_string(),
                });
            }
        }
        let all_numbers = cells.iter().all(|l| l.parse::<f64>().is_ok());
        // 2 and 2.0 are one level, spelled 2; codes such as 02139 keep their zeros.
        let padded = |l: &String| l.len() > 1 && l.starts_with('0') && !l.starts_with("0.");
        if all_numbers && !cells.iter().any(padded) {
            cells
                .iter_mut()
                .for_each(|l| *l = l.parse::<f64>().map_or_else(|_| l.clone(), |v| v.to_string()));
        }
        let mut levels = cells.clone();
        if all_numbers {
            let value = |s: &String| s.parse::<f64>().unwrap_or(f64::NAN);
            levels.sort_by(|a, b| value(a).total_cmp(&value(b)).then_with(|| a.cmp(b)));
        } else {
            levels.sort_unstable();
        }
        levels.dedup();
        let code: HashMap<&str, f64> =
            levels.iter().enumerate().map(|(k, l)| (l.as_str(), k as f64)).collect();
        let codes = cells.iter().map(|c| code[c.as_str()]).collect();
        Ok((levels, codes))
    }

    /// Whether the column holds text. A column in which numbers prevail over a few texts is more likely a slip
    /// than a category, and refused.
    pub fn is_text(&self, name: &str) -> Result<bool> {
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
                "{}: column '{name}' holds dates or times ({} is '{cell}'): write it as numbers, days since some date for example, or leave it out with --ignore '{name}' (or --categorical '{name}' if they are names)",
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
            if !asked && !self.is_text(name)? {
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

fn refuse(chunk: &Chunk, i: usize, column: &str, name: &str, cell: &str) -> Failure {
    let place = chunk.place(i);
    let problem = if cell.is_empty() {
        "is empty: fill the value in or remove the row".to_string()
    } else if missing(cell) {
        format!("is missing ('{cell}'): fill the value in or remove the row")
    } else if cell.parse::<f64>().is_ok() {
        format!("is '{cell}', which is not a finite number: correct it or remove the row")
    } else if has_decimal_comma(cell) {
        format!("is '{cell}', which has a decimal comma: give --decimal ,")
    } else {
        format!("is '{cell}', which is not a number")
    };
    Failure::input(format!("{name}: {place} of column '{column}' {problem}"))
}

/// Appends column `j` of a chunk to `out`; `column` and `name` are what to call it and its table in messages.
pub fn numbers(chunk: &Chunk, j: usize, column: &str, name: &str, out: &mut Vec<f64>) -> Result<()> {
    match &chunk.columns[j] {
        Raw::Numbers(v) => {
            if let Some(i) = v.iter().position(|v| !v.is_finite()) {
                return Err(refuse(chunk, i, column, name, &v[i].to_string()));
            }
            out.extend_from_slice(v);
        }
        Raw::Texts(cells) => {
            for (i, cell) in cells.iter().enumerate() {
                match cell.parse::<f64>() {
                    Ok(v) if v.is_finite() => out.push(v),
                    _ => return Err(refuse(chunk, i, column, name, cell)),
                }
            }
        }
    }
    Ok(())
}

fn codes(
    chunk: &Chunk,
    j: usize,
    column: &str,
    known: &[String],
    name: &str,
    out: &mut Vec<f64>,
) -> Result<()> {
    let unseen = |i: usize, cell: &str| {
        if missing(cell) {
            return refuse(chunk, i, column, name, cell);
        }
        Failure::input(format!(
            "{name}: {} of column '{column}' is '{cell}', which the model has not seen; it knows: {}",
            chunk.place(i),
            riesz::error::listed(known)
        ))
    };
    match &chunk.columns[j] {
        Raw::Numbers(v) => {
            for (i, &v) in v.iter().enumerate() {
                out.push(level_of_number(known, v).ok_or_else(|| unseen(i, &v.to_string()))? as f64);
            }
        }
        Raw::Texts(cells) => push_codes(cells, |cell| level_of_text(known, cell), unseen, out)?,
    }
    Ok(())
}

fn push_codes(
    cells: &Texts,
    find: impl Fn(&str) -> Option<usize>,
    unseen: impl Fn(usize, &str) -> Failure,
    out: &mut Vec<f64>,
) -> Result<()> {
    out.reserve(cells.len());
    for (i, cell) in cells.iter().enumerate() {
        out.push(find(cell).ok_or_else(|| unseen(i, cell))? as f64);
    }
    Ok(())
}

/// The rows of a table in a model's columns, chunk by chunk. Other columns are not looked at.
pub struct Conforming {
    rows: OpenTable,
    columns: Vec<Column>,
    wanted: Vec<usize>,
    limit: usize,
    any: bool,
}

impl Conforming {
    /// Finds the model's columns in the table. `numbers_a_row` is how many numbers a row will take further on; wide
    /// rows come in smaller chunks.
    pub fn new(rows: OpenTable, columns: &[Column], numbers_a_row: usize) -> Result<Self> {
        const NUMBERS: usize = 1 << 21;
        let wanted = rows.places(columns.iter().map(|c| &c.name))?;
        let limit = (NUMBERS / numbers_a_row.max(1)).clamp(1, CHUNK);
        Ok(Self { rows, columns: columns.to_vec(), wanted, limit, any: false })
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
        for (j, column) in self.columns.iter().enumerate() {
            match &column.kind {
                ColumnKind::Numeric => numbers(&chunk, j, &column.name, &self.rows.name, &mut values)?,
                ColumnKind::Categorical { levels } => {
                    codes(&chunk, j, &column.name, levels, &self.rows.name, &mut values)?;
                }
            }
        }
        Ok(Some(Table::from_column_major(self.columns.clone(), chunk.rows, values)?))
    }

    /// All rows at once.
    pub fn all(mut self) -> Result<Table> {
        let mut parts = Vec::new();
        while let Some(part) = self.next()? {
            parts.push(part);
        }
        let rows = parts.iter().map(Table::rows).sum();
        let mut values = Vec::with_capacity(rows * self.columns.len());
        for j in 0..self.columns.len() {
            parts.iter().for_each(|part| values.extend_from_slice(part.column(j)));
        }
        Ok(Table::from_column_major(self.columns, rows, values)?)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::args::Format;
    use crate::io::csv::Decimal;
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
        Conforming::new(rows, &columns, 1 << 20)?.all()
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
            let source = TableFile { path: path.clone(), delimiter: None, decimal: Decimal::Point };
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

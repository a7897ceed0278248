//! CSV files: a header row, UTF-8, rows of equal width.

use std::borrow::Cow;
use std::io::Read;

use crate::failure::{Failure, Result};
use crate::io::chunk::{Chunk, Raw, Texts};

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Decimal {
    /// 0.5
    #[default]
    #[value(name = ".", alias = "point")]
    Point,
    /// 0,5
    #[value(name = ",", alias = "comma")]
    Comma,
}

/// Whether a cell is a number with a decimal comma.
pub fn has_decimal_comma(cell: &str) -> bool {
    cell.contains(',') && !cell.contains('.') && cell.replacen(',', ".", 1).parse::<f64>().is_ok()
}

/// An open CSV file.
pub struct CsvRows {
    name: String,
    decimal: Decimal,
    reader: csv::Reader<Box<dyn Read>>,
    header: Vec<String>,
    record: csv::ByteRecord,
}

impl CsvRows {
    /// Reads the header.
    pub fn open(source: Box<dyn Read>, delimiter: u8, decimal: Decimal, name: &str) -> Result<Self> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(1 << 16)
            .from_reader(source);
        let mut record = csv::ByteRecord::new();
        if !advance(&mut reader, &mut record, name)? {
            return Err(Failure::input(format!(
                "{name} is empty: a first line with the names of the columns is needed"
            )));
        }
        let mut header = Vec::with_capacity(record.len());
        for (j, field) in record.iter().enumerate() {
            let field = text(field, name, 1, &format!("the name of column {}", j + 1))?.trim();
            if field.is_empty() {
                return Err(Failure::input(format!(
                    "{name}: column {} has no name in the first line: name it, or write the file without row names",
                    j + 1
                )));
            }
            header.push(field.to_string());
        }
        let number = |s: &String| s.parse::<f64>().is_ok();
        if header.iter().all(number) && header.iter().any(|s| s.contains('.')) {
            return Err(Failure::input(format!(
                "{name}: the first line holds numbers, not the names of the columns: add a line of names"
            )));
        }
        if header.len() == 1 && header[0].contains([';', '\t', '|']) {
            return Err(Failure::input(format!(
                "{name}: the first line has one column only, '{}': give the separator with --delimiter",
                header[0]
            )));
        }
        Ok(Self { name: name.to_string(), decimal, reader, header, record })
    }

    /// The names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// At most `limit` rows of the columns `wanted`.
    pub fn next(&mut self, wanted: &[usize], limit: usize) -> Result<Option<Chunk>> {
        let mut columns = vec![Texts::default(); wanted.len()];
        let mut lines = Vec::new();
        while lines.len() < limit && advance(&mut self.reader, &mut self.record, &self.name)? {
            let line = self.record.position().map_or(0, csv::Position::line);
            if self.record.len() != self.header.len() {
                return Err(Failure::input(format!(
                    "{}, line {line}: {} values, but the first line names {} columns",
                    self.name,
                    self.record.len(),
                    self.header.len()
                )));
            }
            for (column, &j) in columns.iter_mut().zip(wanted) {
                let what = format_args!("column '{}'", self.header[j]);
                let cell = text(&self.record[j], &self.name, line, &what)?.trim();
                match self.decimal {
                    Decimal::Point => column.push(cell),
                    Decimal::Comma => column.push(&self.pointed(cell, line, &what)?),
                }
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return Ok(None);
        }
        let columns = columns.into_iter().map(Raw::Texts).collect();
        Ok(Some(Chunk { rows: lines.len(), first: 0, lines, columns }))
    }
}

impl CsvRows {
    /// A cell with the decimal point that parsing expects; a point that is there would be one of thousands.
    fn pointed<'c>(&self, cell: &'c str, line: u64, what: &dyn std::fmt::Display) -> Result<Cow<'c, str>> {
        if has_decimal_comma(cell) {
            return Ok(cell.replacen(',', ".", 1).into());
        }
        let bare: String = cell.chars().filter(|c| *c != '.').collect();
        if cell.contains('.') && (bare.parse::<f64>().is_ok() || has_decimal_comma(&bare)) {
            return Err(Failure::input(format!(
                "{}, line {line}: {what} has '{cell}', a number with a point: with --decimal , write numbers without separators of thousands",
                self.name
            )));
        }
        Ok(cell.into())
    }
}

fn advance(
    reader: &mut csv::Reader<Box<dyn Read>>,
    record: &mut csv::ByteRecord,
    name: &str,
) -> Result<bool> {
    reader.read_byte_record(record).map_err(|e| match e.into_kind() {
        csv::ErrorKind::Io(e) => Failure::reading(name, &e),
        other => Failure::input(format!("cannot read {name}: {other:?}")),
    })
}

fn text<'b>(bytes: &'b [u8], name: &str, line: u64, what: &dyn std::fmt::Display) -> Result<&'b str> {
    std::str::from_utf8(bytes).map_err(|_| {
        Failure::input(format!(
            "{name}, line {line}: {what} is not UTF-8 text: save the file in that encoding"
        ))
    })
}

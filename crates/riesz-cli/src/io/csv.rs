//! Text tables: a row with the names of the columns, then rows of equal width.

use std::io::{Cursor, Read};

use riesz::columns::{DecimalMark, trimmed};

use crate::console::note_once;
use crate::exit::{Failure, Result};
use crate::io::chunk::{Chunk, Raw, Texts};
use crate::io::reader::TableReader;

/// Notation of numbers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
pub enum Decimal {
    /// 0.5
    #[default]
    #[value(name = ".", alias = "point")]
    Point,
    /// 0,5
    #[value(name = ",", alias = "comma")]
    Comma,
}

impl Decimal {
    /// Converts a number with a decimal point to this notation.
    pub fn written(self, number: &str) -> String {
        match self {
            Self::Point => number.to_string(),
            Self::Comma => number.replace('.', ","),
        }
    }
}

impl From<Decimal> for DecimalMark {
    fn from(decimal: Decimal) -> Self {
        match decimal {
            Decimal::Point => Self::Point,
            Decimal::Comma => Self::Comma,
        }
    }
}

/// Number of bytes within which the first line must end.
const LONGEST_HEADER: usize = 1 << 20;

/// An open CSV file.
pub struct CsvRows {
    name: String,
    reader: csv::Reader<Box<dyn Read>>,
    header: Vec<String>,
    record: csv::ByteRecord,
    /// Whether the file has another encoding than UTF-8.
    recoded: bool,
}

impl CsvRows {
    /// Reads the header. If no delimiter is given, it is detected there; `decimal` restricts the candidates.
    pub fn open(
        mut source: Box<dyn Read>,
        delimiter: Option<u8>,
        decimal: Decimal,
        recoded: bool,
        name: &str,
    ) -> Result<(Self, u8)> {
        let start = first_line(&mut source).map_err(|e| Failure::reading(name, &e))?;
        // Excel writes and accepts a line `sep=;` above the names.
        let stated = stated_delimiter(&start);
        let delimiter = delimiter.or(stated).unwrap_or_else(|| delimiter_of(&start, decimal));
        source = Box::new(Cursor::new(start).chain(source));
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(1 << 16)
            .from_reader(source);
        let mut record = csv::ByteRecord::new();
        if stated.is_some() {
            advance(&mut reader, &mut record, name)?;
        }
        if !advance(&mut reader, &mut record, name)? {
            return Err(Failure::input(format!(
                "{name} is empty: write the names of the columns in a first line"
            )));
        }
        let mut header = Vec::with_capacity(record.len());
        for (j, field) in record.iter().enumerate() {
            let field = trimmed(text(field, recoded, name, 1, &format!("the name of column {}", j + 1))?);
            if field.is_empty() {
                return Err(Failure::input(format!(
                    "{name}: column {} has no name in the first line: name it, or write the file without \
                     row names",
                    j + 1
                )));
            }
            if field.starts_with('"') {
                return Err(Failure::input(format!(
                    "{name}: there is a blank before the quotation mark of the name {field}: remove blanks \
                     between separators and quotation marks"
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
                "{name}: the first line has only one column, '{}': give the separator with --delimiter",
                header[0]
            )));
        }
        if header.len() == 1 && header[0].split_whitespace().count() > 1 && delimiter != b' ' {
            note_once(&format!(
                "{name}: the first line has only one column, '{}': if blanks separate columns, give \
                 --delimiter ' '",
                header[0]
            ));
        }
        if header[0].starts_with('#') {
            note_once(&format!(
                "{name}: the first line, which begins with '#', is read as the names of the columns"
            ));
        }
        Ok((Self { name: name.to_string(), reader, header, record, recoded }, delimiter))
    }
}

impl TableReader for CsvRows {
    fn header(&self) -> &[String] {
        &self.header
    }

    fn next(&mut self, selected: &[usize], limit: usize) -> Result<Option<Chunk>> {
        let mut columns = vec![Texts::default(); selected.len()];
        let mut lines = Vec::new();
        while lines.len() < limit && advance(&mut self.reader, &mut self.record, &self.name)? {
            let line = self.record.position().map_or(0, csv::Position::line);
            if self.record.len() != self.header.len() {
                let open_quote = self.record.iter().any(|cell| cell.contains(&b'\n'));
                return Err(Failure::input(format!(
                    "{}, line {line}: {} values, but the first line names {} columns{}",
                    self.name,
                    self.record.len(),
                    self.header.len(),
                    match (open_quote, self.header.len()) {
                        (true, _) => "; a quotation mark may be left open in it",
                        (false, 1) => "; the names of the columns must be in the first line",
                        _ => "",
                    }
                )));
            }
            for (column, &j) in columns.iter_mut().zip(selected) {
                let description = format_args!("column '{}'", self.header[j]);
                column.push(text(&self.record[j], self.recoded, &self.name, line, &description)?.trim());
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return Ok(None);
        }
        let columns = columns.into_iter().map(Raw::Texts).collect();
        Ok(Some(Chunk { rows: lines.len(), first: 0, lines, offsets: Vec::new(), columns }))
    }
}

/// The delimiter in a first line `sep=;`, if the file has one.
fn stated_delimiter(start: &[u8]) -> Option<u8> {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    match start.strip_prefix(b"sep=")? {
        [delimiter, b'\n' | b'\r', ..] => Some(*delimiter),
        _ => None,
    }
}

/// Reads up to the end of the first line that is not blank, and possibly more that is already available: the
/// writer of a pipe may be slow.
fn first_line(source: &mut dyn Read) -> std::io::Result<Vec<u8>> {
    let (mut start, mut part) = (Vec::new(), [0; 4096]);
    while start.len() < LONGEST_HEADER {
        let read = source.read(&mut part)?;
        start.extend_from_slice(&part[..read]);
        let text = start.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(start.len());
        if read == 0 || start[text..].contains(&b'\n') {
            break;
        }
    }
    Ok(start)
}

/// The delimiter of a table that begins with these bytes: a comma, unless the first line has no comma outside
/// of quotes and exactly one other candidate. With decimal commas the other candidates come first.
fn delimiter_of(start: &[u8], decimal: Decimal) -> u8 {
    let mut counts = [(b',', 0), (b';', 0), (b'\t', 0), (b'|', 0)];
    let (mut quoted, mut any) = (false, false);
    for &byte in start {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted && any => break,
            _ => {}
        }
        any |= !byte.is_ascii_whitespace();
        counts.iter_mut().filter(|(candidate, _)| !quoted && *candidate == byte).for_each(|(_, n)| *n += 1);
    }
    let candidates: Vec<u8> =
        counts[1..].iter().filter(|(_, n)| *n > 0).map(|(candidate, _)| *candidate).collect();
    match (decimal, counts[0].1, &candidates[..]) {
        (Decimal::Point, 0, [one]) | (Decimal::Comma, _, [one]) => *one,
        (Decimal::Comma, 0, _) => b';',
        _ => b',',
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

fn text<'b>(
    bytes: &'b [u8],
    recoded: bool,
    name: &str,
    line: u64,
    description: &dyn std::fmt::Display,
) -> Result<&'b str> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Failure::input(format!(
            "{name}, line {line}: {description} is not UTF-8 text: save the file as UTF-8, or give its \
             encoding, such as --encoding latin1"
        ))
    })?;
    // Decoding marks bytes that are invalid in the encoding with U+FFFD.
    if recoded && text.contains('\u{fffd}') {
        return Err(Failure::input(format!(
            "{name}, line {line}: {description} holds bytes that are invalid in its encoding: give another \
             --encoding"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_are_found_in_the_header() {
        let delimiter = |start: &str, decimal| delimiter_of(start.as_bytes(), decimal) as char;
        for (start, expected) in [
            ("a,b\n1;2,3\n", ','),
            ("a;b\n1,2;3\n", ';'),
            ("a\tb\n", '\t'),
            ("a|b|c", '|'),
            ("\n\na;b\n1,2,3", ';'),
            ("a\n1,2\n", ','),
            ("\"x;y\",b\n", ','),
            ("\"x,y\";b\n", ';'),
            ("a;b|c\n", ','),
        ] {
            assert_eq!(delimiter(start, Decimal::Point), expected, "{start}");
        }
        assert_eq!(delimiter("a,b;c\n", Decimal::Comma), ';');
        assert_eq!(delimiter("a,b\n", Decimal::Comma), ',');
        assert_eq!(delimiter("a\n1,5\n", Decimal::Comma), ';');
        assert_eq!(stated_delimiter(b"sep=;\r\na;b\n"), Some(b';'));
        assert_eq!(stated_delimiter(b"sep=a,b\n"), None);
    }
}

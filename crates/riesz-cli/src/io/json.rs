//! JSON: one record per line (JSON lines), or one array of records. Records are objects from columns to
//! numbers, texts, truth values and `null`.

use std::fmt;
use std::io::Read;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::exit::{Failure, Result};
use crate::io::csv::Decimal;
use crate::io::memory::MemoryRows;

/// The cells of one object in their order, each with the JSON text of its value.
struct Record(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Cells;
        impl<'de> Visitor<'de> for Cells {
            type Value = Record;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from columns to cells")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Record, A::Error> {
                let mut cells = Vec::new();
                while let Some(cell) = map.next_entry()? {
                    cells.push(cell);
                }
                Ok(Record(cells))
            }
        }
        deserializer.deserialize_map(Cells)
    }
}

/// An array of records, or a single record of a file of JSON lines.
struct Document(Vec<Record>);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Records;
        impl<'de> Visitor<'de> for Records {
            type Value = Document;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("objects from columns to cells, one per line or in an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Document, A::Error> {
                let mut records = Vec::new();
                while let Some(record) = seq.next_element()? {
                    records.push(record);
                }
                Ok(Document(records))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Document, A::Error> {
                let mut cells = Vec::new();
                while let Some(cell) = map.next_entry()? {
                    cells.push(cell);
                }
                Ok(Document(vec![Record(cells)]))
            }
        }
        deserializer.deserialize_any(Records)
    }
}

/// Replaces `NaN` and `Infinity`, which Python writes into JSON although JSON has no such numbers. NaN
/// becomes a missing value; infinities become texts, which are refused where a number is needed.
fn without_python_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped, mut start) = (false, false, 0);
    for (i, c) in text.char_indices() {
        if i < start {
            continue;
        }
        if quoted {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if c == '"' {
            quoted = true;
        } else if let Some((token, json)) =
            [("NaN", "null"), ("-Infinity", "\"-inf\""), ("Infinity", "\"inf\"")]
                .into_iter()
                .find(|(token, _)| text[i..].starts_with(token))
        {
            out.push_str(json);
            start = i + token.len();
            continue;
        }
        out.push(c);
    }
    out
}

/// Reads a whole file. Fields of nested objects are columns `outer.inner`. Numbers get the decimal mark
/// `decimal`, so that they are not mistaken for texts in another notation.
pub fn read(source: &mut dyn Read, decimal: Decimal, name: &str) -> Result<MemoryRows> {
    let mut text = String::new();
    source.read_to_string(&mut text).map_err(|e| Failure::reading(name, &e))?;
    let text = text.trim_start_matches('\u{feff}');
    let replaced = (text.contains("NaN") || text.contains("Infinity")).then(|| without_python_words(text));
    let text = replaced.as_deref().unwrap_or(text);
    let mut table = MemoryRows::new(Vec::new());
    let fail = |e: serde_json::Error| Failure::input(format!("cannot read {name} as JSON: {e}"));
    for document in serde_json::Deserializer::from_str(text).into_iter::<Document>() {
        for record in document.map_err(fail)?.0 {
            let mut cells: Vec<(usize, String)> = Vec::with_capacity(record.0.len());
            add_cells(&mut table, record, "", &mut cells, decimal, name)?;
            table.add(&cells, None);
        }
    }
    table.finished(name)
}

/// Adds the cells of a record; its columns have the `prefix` of the enclosing objects.
fn add_cells(
    table: &mut MemoryRows,
    record: Record,
    prefix: &str,
    cells: &mut Vec<(usize, String)>,
    decimal: Decimal,
    name: &str,
) -> Result<()> {
    for (field, value) in record.0 {
        let column = format!("{prefix}{field}");
        let about =
            |problem: &str| format!("{name}: row {} of column '{column}' {problem}", table.rows() + 1);
        let json = value.get();
        if json.starts_with('{') && json.len() > 2 {
            let inner: Record =
                serde_json::from_str(json).map_err(|e| Failure::input(about(&e.to_string())))?;
            add_cells(table, inner, &format!("{column}."), cells, decimal, name)?;
            continue;
        }
        let problem = match json.as_bytes().first() {
            Some(b'{' | b'[') => Some(about("holds a list: write each of its elements as a column")),
            _ => None,
        };
        let duplicate_error = about("occurs twice: name each column of a record once");
        let text = cell(json, decimal).map_err(|problem| Failure::input(about(&problem)))?;
        let j = table.column(&column);
        if cells.iter().any(|(column_index, _)| *column_index == j) {
            return Err(Failure::input(duplicate_error));
        }
        if let Some(problem) = problem {
            table.refuse_column(j, problem);
        }
        cells.push((j, text));
    }
    Ok(())
}

/// The text of a value; a number keeps its digits as written.
fn cell(json: &str, decimal: Decimal) -> std::result::Result<String, String> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).map_err(|e| format!("is not a valid JSON text: {e}")),
        Some(b'{' | b'[') => Ok(String::new()),
        _ if json == "null" => Ok(String::new()),
        _ => Ok(decimal.written(json)),
    }
}

//! Parquet files, without the Arrow layer: flat columns of numbers, booleans and text. Cells without a value are NaN, or an empty text, as in
//! CSV files.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::failure::{Failure, Result};
use crate::io::chunk::{Chunk, Raw, Texts};

/// What the names begin with that pandas gives to an index without a name, which is no column to learn from.
const INDEX: &str = "__index_level_";

/// An open Parquet file.
pub struct ParquetRows {
    name: String,
    reader: Box<dyn FileReader>,
    header: Vec<String>,
    /// The place of each of these columns in the file.
    places: Vec<usize>,
    group: usize,
    /// The first group that is not read.
    end: usize,
    left: usize,
    open: Vec<ColumnReader>,
}

impl ParquetRows {
    /// Reads the footer.
    pub fn open(file: impl ChunkReader + 'static, name: &str) -> Result<Self> {
        let reader: Box<dyn FileReader> = guarded(name, || {
            Ok(Box::new(SerializedFileReader::new(file).map_err(|e| e.to_string())?) as Box<dyn FileReader>)
        })?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let names = schema.columns().iter().map(|c| c.path().string()).enumerate();
        let (places, header) = names.filter(|(_, name)| !name.starts_with(INDEX)).unzip();
        let (name, end) = (name.to_string(), reader.num_row_groups());
        Ok(Self { name, reader, header, places, group: 0, end, left: 0, open: Vec::new() })
    }

    /// Rows of its row groups.
    pub fn groups(&self) -> Vec<u64> {
        let rows = |group| u64::try_from(self.reader.metadata().row_group(group).num_rows()).unwrap_or(0);
        (0..self.reader.num_row_groups()).map(rows).collect()
    }

    /// Goes on with these row groups alone; the number of their first row.
    pub fn only_groups(&mut self, groups: std::ops::Range<usize>) -> u64 {
        (self.group, self.end, self.left) = (groups.start, groups.end.min(self.reader.num_row_groups()), 0);
        self.groups()[..groups.start].iter().sum()
    }

    /// The names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// What the footer says under `key`.
    pub fn note(&self, key: &str) -> Option<String> {
        let notes = self.reader.metadata().file_metadata().key_value_metadata()?;
        notes.iter().find(|note| note.key == key)?.value.clone()
    }

    /// At most `limit` rows of the columns `wanted`.
    pub fn next(&mut self, wanted: &[usize], limit: usize) -> Result<Option<Chunk>> {
        while self.left == 0 {
            if self.group >= self.end {
                return Ok(None);
            }
            let rows = self.reader.metadata().row_group(self.group).num_rows();
            self.left = usize::try_from(rows).map_err(|_| damaged(&self.name, "negative number of rows"))?;
            let (reader, group) = (&self.reader, self.group);
            self.open = guarded(&self.name, || {
                let group = reader.get_row_group(group).map_err(|e| e.to_string())?;
                wanted
                    .iter()
                    .map(|&j| self.places[j])
                    .map(|j| group.get_column_reader(j).map_err(|e| e.to_string()))
                    .collect()
            })?;
            self.group += 1;
        }
        let rows = self.left.min(limit);
        let schema = self.reader.metadata().file_metadata().schema_descr_ptr();
        let mut columns = Vec::with_capacity(wanted.len());
        for (reader, &j) in self.open.iter_mut().zip(wanted) {
            let descriptor = schema.column(self.places[j]);
            let read = guarded(&self.name, || read(reader, &descriptor, rows))?;
            columns.push(read);
        }
        self.left -= rows;
        Ok(Some(Chunk { rows, first: 0, lines: Vec::new(), columns }))
    }
}

fn damaged(name: &str, what: impl std::fmt::Display) -> Failure {
    let what = what.to_string();
    let what = what.strip_prefix("Parquet error: ").unwrap_or(&what);
    if let Some(codec) = what.strip_prefix("Disabled feature at compile time: ") {
        return Failure::input(format!(
            "{name} is compressed with {codec}, which is not supported: write it with zstd, snappy or uncompressed"
        ));
    }
    Failure::input(format!("cannot read {name} as a Parquet file: {what}"))
}

/// Runs a step of the Parquet reader, which can panic on damaged files.
fn guarded<T>(name: &str, step: impl FnOnce() -> std::result::Result<T, String>) -> Result<T> {
    crate::hushed(|| catch_unwind(AssertUnwindSafe(step)))
        .unwrap_or_else(|_| Err("the file is damaged".into()))
        .map_err(|e| damaged(name, e))
}

fn read(
    reader: &mut ColumnReader,
    column: &ColumnDescriptor,
    rows: usize,
) -> std::result::Result<Raw, String> {
    let name = column.name();
    if column.max_rep_level() > 0 {
        return Err(format!("column '{name}' holds lists; only plain columns can be read"));
    }
    let decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal(_)))
        || column.converted_type() == ConvertedType::DECIMAL;
    if decimal {
        return Err(format!("column '{name}' holds decimals: write it as floating point numbers"));
    }
    use ConvertedType as Old;
    let time = matches!(
        column.logical_type_ref(),
        Some(LogicalType::Date | LogicalType::Time { .. } | LogicalType::Timestamp { .. })
    ) || matches!(
        column.converted_type(),
        Old::DATE | Old::TIME_MILLIS | Old::TIME_MICROS | Old::TIMESTAMP_MILLIS | Old::TIMESTAMP_MICROS
    );
    if time {
        return Err(format!(
            "column '{name}' holds dates or times: write it as numbers, days since some date for example, or leave it out"
        ));
    }
    let unsigned = matches!(column.logical_type_ref(), Some(LogicalType::Integer(kind)) if !kind.is_signed)
        || matches!(column.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64);
    Ok(match reader {
        ColumnReader::DoubleColumnReader(r) => Raw::Numbers(values(r, column, rows, f64::NAN, |v| *v)?),
        ColumnReader::FloatColumnReader(r) => {
            Raw::Numbers(values(r, column, rows, f64::NAN, |v| f64::from(*v))?)
        }
        ColumnReader::Int32ColumnReader(r) if unsigned => {
            Raw::Numbers(values(r, column, rows, f64::NAN, |v| f64::from(*v as u32))?)
        }
        ColumnReader::Int32ColumnReader(r) => {
            Raw::Numbers(values(r, column, rows, f64::NAN, |v| f64::from(*v))?)
        }
        ColumnReader::Int64ColumnReader(r) if unsigned => {
            Raw::Numbers(values(r, column, rows, f64::NAN, |v| *v as u64 as f64)?)
        }
        ColumnReader::Int64ColumnReader(r) => Raw::Numbers(values(r, column, rows, f64::NAN, |v| *v as f64)?),
        ColumnReader::BoolColumnReader(r) => {
            let mut texts = Texts::default();
            values(r, column, rows, "", |v| if *v { "true" } else { "false" })?
                .into_iter()
                .for_each(|v| texts.push(v));
            Raw::Texts(texts)
        }
        ColumnReader::ByteArrayColumnReader(r) => {
            let mut texts = Texts::default();
            for value in values(r, column, rows, ByteArray::from(""), Clone::clone)? {
                let text = std::str::from_utf8(value.data())
                    .map_err(|_| format!("column '{name}' holds bytes that are not UTF-8 text"))?;
                texts.push(text.trim());
            }
            Raw::Texts(texts)
        }
        ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
            return Err(format!("column '{name}' holds neither numbers nor text"));
        }
    })
}

/// Exactly `rows` values, `missing` where there is none, or what is wrong with them.
fn values<T: DataType, U: Clone>(
    reader: &mut ColumnReaderImpl<T>,
    column: &ColumnDescriptor,
    rows: usize,
    missing: U,
    convert: impl Fn(&T::T) -> U,
) -> std::result::Result<Vec<U>, String> {
    let highest = column.max_def_level();
    let (mut out, mut levels) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < rows {
        let wants_levels = (highest > 0).then_some(&mut levels);
        let (records, _, _) =
            reader.read_records(rows - done, wants_levels, None, &mut out).map_err(|e| e.to_string())?;
        if records == 0 {
            return Err("it ends before its last row".into());
        }
        done += records;
    }
    let there = levels.iter().filter(|level| **level == highest).count();
    if out.len() != if highest > 0 { there } else { rows } || highest > 0 && levels.len() != rows {
        return Err("a column has the wrong length".into());
    }
    if out.len() == rows {
        return Ok(out.iter().map(convert).collect());
    }
    let mut next = out.iter().map(convert);
    let each = levels.iter().map(|level| (*level == highest).then(|| next.next()).flatten());
    Ok(each.map(|value| value.unwrap_or_else(|| missing.clone())).collect())
}

//! Output of tables as CSV, Parquet or JSON, in chunks of rows.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::args::Format;
use crate::console::printable;
use crate::exit::{Failure, Result};
use crate::io::output::{FirstWriteError, Output, write_all};

/// The numbers or texts of one column.
#[derive(Debug, Clone)]
pub enum Cells {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Numbers; NaN is missing: an empty cell, `null`, or NaN in Parquet.
    Numbers(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
}

/// The column that labels rows in results, its title and its cells: the names of a column, if they are given,
/// or else the rows' numbers, which count from 0.
pub fn row_labels(names: Option<(&String, Vec<String>)>, numbers: Range<usize>) -> (String, Cells) {
    match names {
        Some((column, names)) => (column.clone(), Cells::Texts(names)),
        None => ("row".into(), Cells::Integers(numbers.map(|i| i as i64).collect())),
    }
}

impl Cells {
    /// Every cell `times` times in a row.
    pub fn repeated(self, times: usize) -> Self {
        fn repeat<T: Clone>(cells: Vec<T>, times: usize) -> Vec<T> {
            cells.into_iter().flat_map(|cell| std::iter::repeat_n(cell, times)).collect()
        }
        match self {
            Self::Integers(v) => Self::Integers(repeat(v, times)),
            Self::Numbers(v) => Self::Numbers(repeat(v, times)),
            Self::Texts(v) => Self::Texts(repeat(v, times)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Integers(v) => v.len(),
            Self::Numbers(v) => v.len(),
            Self::Texts(v) => v.len(),
        }
    }

    /// An empty column of the same kind.
    pub fn empty(&self) -> Self {
        match self {
            Self::Integers(_) => Self::Integers(Vec::new()),
            Self::Numbers(_) => Self::Numbers(Vec::new()),
            Self::Texts(_) => Self::Texts(Vec::new()),
        }
    }

    fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Integers(a), Self::Integers(b)) => a.extend(b),
            (Self::Numbers(a), Self::Numbers(b)) => a.extend(b),
            (Self::Texts(a), Self::Texts(b)) => a.extend(b),
            _ => {}
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Integers(v) => v.clear(),
            Self::Numbers(v) => v.clear(),
            Self::Texts(v) => v.clear(),
        }
    }
}

/// A table for reading: texts are left-aligned, numbers right-aligned and rounded.
pub fn text_table(columns: &[(&str, Cells)]) -> String {
    let text_of = |cells: &Cells, i: usize| match cells {
        Cells::Integers(v) => v[i].to_string(),
        Cells::Numbers(v) if v[i].is_nan() => String::new(),
        Cells::Numbers(v) => riesz_report::number(v[i]),
        Cells::Texts(v) => printable(&v[i]),
    };
    let padded = |(name, cells): &(&str, Cells)| -> Vec<String> {
        let texts: Vec<String> =
            std::iter::once(name.to_string()).chain((0..cells.len()).map(|i| text_of(cells, i))).collect();
        let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let is_text = matches!(cells, Cells::Texts(_));
        texts.iter().map(|t| if is_text { format!("{t:<width$}") } else { format!("{t:>width$}") }).collect()
    };
    let columns: Vec<Vec<String>> = columns.iter().map(padded).collect();
    let line = |i: usize| columns.iter().map(|column| column[i].as_str()).collect::<Vec<_>>().join("  ");
    let count = columns.first().map_or(0, Vec::len);
    (0..count).map(|i| format!("{}\n", line(i).trim_end())).collect()
}

enum FormatWriter {
    Csv(Box<csv::Writer<Output>>),
    Json(Output),
    Parquet { writer: Box<SerializedFileWriter<Output>>, pending: Vec<Cells> },
}

/// A table being written.
pub struct TableWriter {
    kind: FormatWriter,
    names: Vec<String>,
    first_error: FirstWriteError,
    begun: bool,
}

/// Number of cells that are collected before a Parquet row group is written.
const GROUP: usize = 1 << 22;

impl TableWriter {
    /// Opens `path` for a table with the given columns; the empty columns `example` define their kinds.
    pub fn open(
        path: Option<&Path>,
        format: Format,
        names: Vec<String>,
        example: Vec<Cells>,
    ) -> Result<Self> {
        let output = Output::open(path)?;
        let first_error = output.first_error();
        let kind = match format {
            Format::Csv | Format::Text | Format::Svg | Format::Png => {
                let mut writer = csv::WriterBuilder::new().buffer_capacity(1 << 16).from_writer(output);
                writer.write_record(&names).map_err(|e| first_error.or(e))?;
                FormatWriter::Csv(Box::new(writer))
            }
            Format::Json => FormatWriter::Json(output),
            Format::Parquet => {
                if output.is_terminal() {
                    return Err(Failure::input(
                        "Parquet cannot be shown on a terminal: give a file with -o, or --format csv",
                    ));
                }
                let schema = schema(&names, &example).map_err(|e| first_error.or(e))?;
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_created_by(format!("riesz {}", env!("CARGO_PKG_VERSION")))
                    .build();
                let writer = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties))
                    .map_err(|e| first_error.or(e))?;
                FormatWriter::Parquet { writer: Box::new(writer), pending: example }
            }
        };
        Ok(Self { kind, names, first_error, begun: false })
    }

    /// Writes a table of columns with names, as text for reading if `format` is text.
    pub fn write_columns(path: Option<&Path>, format: Format, columns: Vec<(&str, Cells)>) -> Result<()> {
        if format == Format::Text {
            return write_all(path, text_table(&columns).as_bytes());
        }
        let (names, cells): (Vec<&str>, Vec<Cells>) = columns.into_iter().unzip();
        let example = cells.iter().map(Cells::empty).collect();
        let mut table = Self::open(path, format, names.into_iter().map(String::from).collect(), example)?;
        table.rows(cells)?;
        table.finish()
    }

    /// Writes a chunk of rows.
    pub fn rows(&mut self, columns: Vec<Cells>) -> Result<()> {
        let rows = columns.first().map_or(0, Cells::len);
        let first_error = self.first_error.clone();
        match &mut self.kind {
            FormatWriter::Csv(writer) => {
                let mut text = String::new();
                for i in 0..rows {
                    for column in &columns {
                        text.clear();
                        cell(column, i, &mut text);
                        writer.write_field(&text).map_err(|e| first_error.or(e))?;
                    }
                    writer.write_record(None::<&[u8]>).map_err(|e| first_error.or(e))?;
                }
            }
            FormatWriter::Json(output) => {
                let mut text = String::new();
                for i in 0..rows {
                    text.push_str(if self.begun { ",\n" } else { "[\n" });
                    self.begun = true;
                    for (j, (name, column)) in self.names.iter().zip(&columns).enumerate() {
                        text.push_str(if j == 0 { "{" } else { "," });
                        quote(name, &mut text);
                        text.push(':');
                        match column {
                            Cells::Texts(v) => quote(&v[i], &mut text),
                            Cells::Numbers(v) if v[i].is_nan() => text.push_str("null"),
                            _ => cell(column, i, &mut text),
                        }
                    }
                    text.push('}');
                    output.write_all(text.as_bytes()).map_err(|e| first_error.or(e))?;
                    text.clear();
                }
            }
            FormatWriter::Parquet { writer, pending } => {
                pending.iter_mut().zip(columns).for_each(|(p, c)| p.append(c));
                if pending.first().map_or(0, Cells::len) * pending.len() >= GROUP {
                    group(writer, pending).map_err(|e| first_error.or(e))?;
                }
            }
        }
        Ok(())
    }

    /// Stores metadata about the table, if the format can hold it: in the footer of Parquet.
    pub fn note(&mut self, key: &str, value: String) {
        if let FormatWriter::Parquet { writer, .. } = &mut self.kind {
            writer.append_key_value_metadata(KeyValue::new(key.to_string(), value));
        }
    }

    /// Completes the table and puts it in its place.
    pub fn finish(self) -> Result<()> {
        let first_error = self.first_error;
        let output = match self.kind {
            FormatWriter::Csv(writer) => writer.into_inner().map_err(|e| first_error.or(e.error()))?,
            FormatWriter::Json(mut output) => {
                let end: &[u8] = if self.begun { b"\n]\n" } else { b"[]\n" };
                output.write_all(end).map_err(|e| first_error.or(e))?;
                output
            }
            FormatWriter::Parquet { mut writer, mut pending } => {
                if pending.first().is_some_and(|c| c.len() > 0) {
                    group(&mut writer, &mut pending).map_err(|e| first_error.or(e))?;
                }
                writer.into_inner().map_err(|e| first_error.or(e))?
            }
        };
        output.finish()
    }
}

fn cell(column: &Cells, i: usize, text: &mut String) {
    use std::fmt::Write as _;
    // Writing to a string cannot fail. `{:?}` is the shortest form that reads back to the same number.
    let _ = match column {
        Cells::Integers(v) => write!(text, "{}", v[i]),
        // NaN is a missing value.
        Cells::Numbers(v) if v[i].is_nan() => Ok(()),
        Cells::Numbers(v) => write!(text, "{:?}", v[i]),
        Cells::Texts(v) => write!(text, "{}", v[i]),
    };
}

fn quote(from: &str, text: &mut String) {
    text.push_str(&serde_json::Value::from(from).to_string());
}

fn schema(names: &[String], example: &[Cells]) -> parquet::errors::Result<Type> {
    let mut fields = Vec::with_capacity(names.len());
    for (name, cells) in names.iter().zip(example) {
        let builder = match cells {
            Cells::Integers(_) => Type::primitive_type_builder(name, Physical::INT64),
            Cells::Numbers(_) => Type::primitive_type_builder(name, Physical::DOUBLE),
            Cells::Texts(_) => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_converted_type(ConvertedType::UTF8),
        };
        fields.push(Arc::new(builder.with_repetition(Repetition::REQUIRED).build()?));
    }
    Type::group_type_builder("riesz").with_fields(fields).build()
}

fn group(writer: &mut SerializedFileWriter<Output>, pending: &mut [Cells]) -> parquet::errors::Result<()> {
    let mut group = writer.next_row_group()?;
    for column in pending.iter_mut() {
        let Some(mut out) = group.next_column()? else { break };
        match column {
            Cells::Integers(v) => out.typed::<Int64Type>().write_batch(v, None, None)?,
            Cells::Numbers(v) => out.typed::<DoubleType>().write_batch(v, None, None)?,
            Cells::Texts(v) => {
                let bytes: Vec<ByteArray> = v.iter().map(|t| ByteArray::from(t.as_str())).collect();
                out.typed::<ByteArrayType>().write_batch(&bytes, None, None)?
            }
        };
        out.close()?;
        column.clear();
    }
    group.close()?;
    Ok(())
}

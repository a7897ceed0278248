//! Columns of Apache Arrow as numbers and texts: the content of Parquet and Arrow IPC files.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Fields, Schema};

use crate::io::chunk::{Raw, Texts};

/// Prefix of the names that pandas gives to an unnamed index, which is not a feature.
const INDEX: &str = "__index_level_";

/// Above 2^53 a double cannot represent every whole number.
const LARGEST_WHOLE: u64 = 1 << 53;

/// The position of a column: its index among the columns of the file, and within structures the indices of
/// the fields.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnPath {
    /// The name for the user, with dots between the names of fields.
    pub name: String,
    /// The column of the file.
    pub root: usize,
    fields: Vec<usize>,
}

/// The columns of a schema; each field of a structure is a column of its own.
pub fn column_paths(schema: &Schema) -> Vec<ColumnPath> {
    let mut paths = Vec::new();
    for (root, field) in schema.fields().iter().enumerate() {
        let start = ColumnPath { name: field.name().clone(), root, fields: Vec::new() };
        add_paths(start, field.data_type(), &mut paths);
    }
    paths.retain(|path| !path.name.starts_with(INDEX));
    paths
}

fn add_paths(path: ColumnPath, kind: &DataType, paths: &mut Vec<ColumnPath>) {
    match kind {
        DataType::Struct(fields) if !fields.is_empty() => add_fields(&path, fields, paths),
        _ => paths.push(path),
    }
}

fn add_fields(path: &ColumnPath, fields: &Fields, paths: &mut Vec<ColumnPath>) {
    for (k, field) in fields.iter().enumerate() {
        let mut inner = path.clone();
        inner.name = format!("{}.{}", path.name, field.name());
        inner.fields.push(k);
        add_paths(inner, field.data_type(), paths);
    }
}

/// Reads the column `path` of a batch, in which its top-level column has the index `root`.
pub fn column(batch: &RecordBatch, root: usize, path: &ColumnPath) -> Result<Raw, String> {
    let mut array = batch.column(root).clone();
    let mut present: Vec<ArrayRef> = Vec::new();
    for &field in &path.fields {
        let Some(outer) = array.as_struct_opt() else { return Err("a structure has no fields".into()) };
        let inner = outer.column(field).clone();
        present.push(std::mem::replace(&mut array, inner));
    }
    let extension = batch.schema_ref().field(root).metadata().get("ARROW:extension:name").cloned();
    if path.fields.is_empty() && extension.as_deref() == Some("pandas.period") {
        return Err(dates(&path.name));
    }
    let mut raw = raw_of(&array, &path.name)?;
    for outer in present.iter().filter(|outer| outer.null_count() > 0) {
        raw = raw.with_missing(|i| outer.is_null(i));
    }
    Ok(raw)
}

/// The cells of an array; a missing value is NaN or an empty text.
fn raw_of(array: &ArrayRef, name: &str) -> Result<Raw, String> {
    Ok(match array.data_type() {
        DataType::Float64 => numbers::<Float64Type>(array, |v| v),
        DataType::Float32 => numbers::<Float32Type>(array, f64::from),
        DataType::Float16 => numbers::<Float16Type>(array, |v| v.to_f64()),
        DataType::Int8 => numbers::<Int8Type>(array, f64::from),
        DataType::Int16 => numbers::<Int16Type>(array, f64::from),
        DataType::Int32 => numbers::<Int32Type>(array, f64::from),
        DataType::UInt8 => numbers::<UInt8Type>(array, f64::from),
        DataType::UInt16 => numbers::<UInt16Type>(array, f64::from),
        DataType::UInt32 => numbers::<UInt32Type>(array, f64::from),
        DataType::Int64 => integers_or_texts::<Int64Type>(array, |v| v as f64, |v| v.unsigned_abs()),
        DataType::UInt64 => integers_or_texts::<UInt64Type>(array, |v| v as f64, |v| v),
        DataType::Decimal32(..) => decimals::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimals::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        DataType::Boolean => {
            texts(array.as_boolean().iter().map(|v| v.map(|v| if v { "true" } else { "false" })))
        }
        DataType::Utf8 => texts(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>().iter()),
        DataType::Utf8View => texts(array.as_string_view().iter()),
        DataType::Binary => bytes(array.as_binary::<i32>().iter(), name)?,
        DataType::LargeBinary => bytes(array.as_binary::<i64>().iter(), name)?,
        DataType::BinaryView => bytes(array.as_binary_view().iter(), name)?,
        DataType::Null => Raw::Numbers(vec![f64::NAN; array.len()]),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Ok(Raw::Numbers(vec![f64::NAN; array.len()]));
            }
            let (values, keys) = (raw_of(dictionary.values(), name)?, dictionary.normalized_keys());
            values.select(&keys).with_missing(|i| array.is_null(i))
        }
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Interval(_) => {
            return Err(dates(name));
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Map(..) => {
            return Err(format!(
                "column '{name}' holds lists: write each of their elements as a column, or leave it out"
            ));
        }
        other => return Err(format!("column '{name}' holds neither numbers nor text, but {other}")),
    })
}

fn dates(name: &str) -> String {
    format!(
        "column '{name}' holds dates or times: write them as numbers, such as days since a date, or leave \
         the column out"
    )
}

fn numbers<T: ArrowPrimitiveType>(array: &ArrayRef, convert: impl Fn(T::Native) -> f64) -> Raw {
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        return Raw::Numbers(array.values().iter().map(|v| convert(*v)).collect());
    }
    Raw::Numbers(array.iter().map(|v| v.map_or(f64::NAN, &convert)).collect())
}

/// Whole numbers; as text if a double would lose digits.
fn integers_or_texts<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    convert: impl Fn(T::Native) -> f64,
    size: impl Fn(T::Native) -> u64,
) -> Raw
where
    T::Native: std::fmt::Display,
{
    let integers = array.as_primitive::<T>();
    if integers.iter().flatten().any(|v| size(v) > LARGEST_WHOLE) {
        return texts(integers.iter().map(|v| v.map(|v| v.to_string())));
    }
    numbers::<T>(array, convert)
}

/// Decimals as the nearest doubles, or as text if a double would lose digits of a whole number.
fn decimals<T: DecimalType>(array: &ArrayRef) -> Raw {
    let array = array.as_primitive::<T>();
    let is_large = |i: usize| {
        let text = array.value_as_string(i);
        let (integer_part, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let digits = integer_part.trim_start_matches('-');
        fraction.bytes().all(|digit| digit == b'0')
            && digits.parse::<f64>().is_ok_and(|value| value > LARGEST_WHOLE as f64)
    };
    if (0..array.len()).any(|i| !array.is_null(i) && is_large(i)) {
        return texts((0..array.len()).map(|i| (!array.is_null(i)).then(|| array.value_as_string(i))));
    }
    let value = |i: usize| match array.is_null(i) {
        true => f64::NAN,
        false => array.value_as_string(i).parse().unwrap_or(f64::NAN),
    };
    Raw::Numbers((0..array.len()).map(value).collect())
}

fn texts<S: AsRef<str>>(values: impl Iterator<Item = Option<S>>) -> Raw {
    let mut texts = Texts::default();
    values.for_each(|value| texts.push(value.as_ref().map_or("", |value| value.as_ref().trim())));
    Raw::Texts(texts)
}

fn bytes<'a>(values: impl Iterator<Item = Option<&'a [u8]>>, name: &str) -> Result<Raw, String> {
    let mut texts = Texts::default();
    for value in values {
        let text = std::str::from_utf8(value.unwrap_or_default())
            .map_err(|_| format!("column '{name}' holds bytes that are not UTF-8 text"))?;
        texts.push(text.trim());
    }
    Ok(Raw::Texts(texts))
}

/// Runs a step of a library that can panic on damaged files, and returns a panic as an error.
pub fn guarded<T>(step: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    crate::without_panic_message(|| catch_unwind(AssertUnwindSafe(step)))
        .unwrap_or_else(|_| Err("the file is damaged".into()))
}

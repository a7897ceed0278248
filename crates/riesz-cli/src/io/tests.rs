//! Tests: tables in every format and notation are read back, and damaged ones are read or refused without a
//! panic.

use std::path::Path;

use proptest::prelude::*;

use riesz::{Column, ColumnKind, Table};

use super::columns::Columns;
use super::input::{OpenTable, ReadOptions, TableFile};
use super::model_rows::{CellPolicy, MissingCells, ModelRows, UnseenLevels, typical_value};
use super::write::{Cells, TableWriter};
use crate::args::Format;
use crate::console::Console;
use crate::exit::Result;

fn csv(bytes: Vec<u8>) -> Result<OpenTable> {
    OpenTable::csv(Box::new(std::io::Cursor::new(bytes)), b',', "t")
}

fn read_table(bytes: Vec<u8>) -> Result<Table> {
    let rows = csv(bytes)?;
    let names = rows.header().to_vec();
    Columns::read(rows, &names)?.table(&names, &[], &Console::new(true))
}

fn read_model_rows(rows: OpenTable) -> Result<Table> {
    let levels = ColumnKind::Categorical { levels: vec!["x".into(), "1".into()] };
    let columns = [Column::numeric("a"), Column { name: "b".into(), kind: levels }];
    let policy = CellPolicy { missing: MissingCells::Refuse(""), unseen: UnseenLevels::Refuse("") };
    ModelRows::new(rows, &columns, policy, 1 << 20)?.read_all()
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
    // A level is recognised in any spelling.
    let table = read_model_rows(csv(b"b,a\n1.0,2\nx,3\n".to_vec()).unwrap()).unwrap();
    assert_eq!(table.column(1), [1.0, 0.0]);
}

#[test]
fn typical_values_are_the_median_and_the_most_frequent_level() {
    let typical = |kind: ColumnKind, values: &[f64]| {
        let columns = vec![Column { name: "c".into(), kind }];
        typical_value(&Table::from_column_major(columns, values.len(), values.to_vec()).unwrap(), 0)
    };
    let levels = || ColumnKind::Categorical { levels: ["a", "b", "c"].map(String::from).to_vec() };
    assert_eq!(typical(ColumnKind::Numeric, &[3.0, -1.0, 8.0]), 3.0);
    assert_eq!(typical(ColumnKind::Numeric, &[3.0, f64::MAX, 8.0, f64::MAX]), f64::MAX / 2.0 + 4.0);
    assert_eq!(typical(levels(), &[2.0, 0.0, 2.0, 1.0, 1.0]), 1.0);
    assert_eq!(typical(levels(), &[2.0]), 2.0);
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

/// Files of one column in every format, with their names.
fn in_every_format(numbers: &[f64], written: &[String]) -> Vec<(&'static str, Vec<u8>)> {
    use arrow_array::{Float64Array, RecordBatch, StringArray};
    use flate2::write::GzEncoder;
    use std::io::Write;
    use std::sync::Arc;

    let batch = |column: arrow_array::ArrayRef| RecordBatch::try_from_iter([("a", column)]).unwrap();
    let typed = batch(Arc::new(Float64Array::from(numbers.to_vec())));
    let texts = batch(Arc::new(StringArray::from(written.to_vec())));
    let parquet = |batch: &RecordBatch| {
        let mut bytes = Vec::new();
        let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        bytes
    };
    let file = |batch: &RecordBatch| {
        let mut bytes = Vec::new();
        let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        bytes
    };
    let stream = |batch: &RecordBatch| {
        let mut bytes = Vec::new();
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        drop(writer);
        bytes
    };
    let csv = format!("a\n{}", written.iter().map(|cell| format!("\"{cell}\"\n")).collect::<String>());
    let wide = format!("a;b\n{}", written.iter().map(|cell| format!("\"{cell}\";x\n")).collect::<String>());
    let records = |cells: Vec<serde_json::Value>| {
        cells.iter().map(|cell| format!("{}\n", serde_json::json!({ "a": cell }))).collect::<String>()
    };
    let mut zipped = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(csv.as_bytes()).unwrap();
    let utf16: Vec<u8> =
        std::iter::once(0xfeff).chain(csv.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    vec![
        ("t.csv", csv.clone().into_bytes()),
        ("wide.csv", wide.into_bytes()),
        ("utf16.csv", utf16),
        ("t.csv.gz", zipped.finish().unwrap()),
        ("t.csv.zst", zstd::encode_all(csv.as_bytes(), 1).unwrap()),
        ("numbers.jsonl", records(numbers.iter().map(|v| (*v).into()).collect()).into_bytes()),
        ("texts.jsonl", records(written.iter().map(|t| t.clone().into()).collect()).into_bytes()),
        ("numbers.parquet", parquet(&typed)),
        ("texts.parquet", parquet(&texts)),
        ("numbers.feather", file(&typed)),
        ("texts.feather", file(&texts)),
        ("texts.arrows", stream(&texts)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Random numbers, written in various notations, are read back with the same bits from every format.
    #[test]
    fn numbers_are_read_back_from_every_format(
        // Amounts with cents, so that not every cell has groups of three digits only.
        cents in prop::collection::vec(-99_999_999_999i64..99_999_999_999, 1..40),
        notation in 0..7,
    ) {
        let numbers: Vec<f64> =
            cents.iter().map(|c| format!("{}.{:02}", c / 100, (c % 100).abs()).parse().unwrap()).collect();
        let grouped = |units: i64, separator: &str| {
            let digits = units.to_string();
            let parts: Vec<&str> = digits.as_bytes().rchunks(3).rev()
                .map(|part| std::str::from_utf8(part).unwrap()).collect();
            parts.join(separator)
        };
        let written: Vec<String> = cents.iter().map(|c| {
            // The integer division loses the sign of amounts between -1 and 0.
            let (sign, units, cents_part) = (if c / 100 < 0 { "-" } else { "" }, (c / 100).abs(), (c % 100).abs());
            match notation {
                0 => format!("{sign}{units}.{cents_part:02}"),
                1 => format!("{sign}{}.{cents_part:02}", grouped(units, ",")),
                2 => format!("{sign}{}.{cents_part:02}", grouped(units, "\u{202f}")),
                3 => format!("{sign}${}.{cents_part:02}", grouped(units, ",")),
                4 => format!("{}{units}.{cents_part:02} %", sign.replace('-', "\u{2212}")),
                5 if sign == "-" => format!("({units}.{cents_part:02})"),
                _ => {
                    let unit = if notation == 5 { "" } else { " kg" };
                    format!("{sign}{units}.{cents_part:02}{unit}")
                }
            }
        }).collect();
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in in_every_format(&numbers, &written) {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let rows = TableFile { path, options: ReadOptions::default() }.open().unwrap();
            let table = Columns::read(rows, &["a".into()]).unwrap()
                .table_as_given(&["a".into()], &[]).unwrap();
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(table.columns()[0].kind.clone(), ColumnKind::Numeric, "{} {:?}", name, &written);
            prop_assert_eq!(bits(table.column(0)), bits(&numbers), "{} {:?}", name, &written);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_table(bytes);
    }

    #[test]
    fn almost_tables_are_read_or_refused(
        parts in proptest::collection::vec(
            prop::sample::select(vec![
                "a", "b", ",", "\n", "\r\n", "\"", "1", "-2.5", "x", "nan", "inf", "1e999", "é", " ", "\u{feff}", "",
            ]),
            0..40,
        )
    ) {
        let text = format!("a,b\n{}", parts.concat());
        if let Ok(table) = read_table(text.clone().into_bytes()) {
            prop_assert!(table.column_major().iter().all(|v| v.is_finite()) && table.rows() > 0);
        }
        let _ = csv(text.into_bytes()).and_then(read_model_rows);
    }

    #[test]
    fn damaged_parquet_is_read_or_refused(hits in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4), cut: usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        let mut bytes = parquet(&path);
        let source = TableFile::from_path(&path);
        let table = read_model_rows(source.open().unwrap()).unwrap();
        prop_assert_eq!(table.column(1), [0.0, 1.0, 0.0]);
        let n = bytes.len();
        for (offset, byte) in hits {
            bytes[offset % n] = byte;
        }
        std::fs::write(&path, &bytes).unwrap();
        let _ = source.open().and_then(read_model_rows);
        bytes.truncate(cut % n);
        std::fs::write(&path, &bytes).unwrap();
        prop_assert!(source.open().and_then(read_model_rows).is_err());
    }
}

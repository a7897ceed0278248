//! Explanations as tables, written and read. [`riesz::format::value_table`] defines tables of values. A
//! Parquet file also stores metadata, which a CSV file cannot.

use std::path::Path;

use riesz::Explanation;
use riesz::error::listed;
pub use riesz::format::value_table::recognises;
use riesz::format::value_table::{TableMetadata, ValueTableReader, header, numbers};
use riesz::model_card::CardEntry;

use crate::args::Format;
use crate::console::note_once;
use crate::exit::{Failure, Result};
use crate::io::cells::append_numbers;
use crate::io::chunk::CHUNK;
use crate::io::chunk::Raw;
use crate::io::columns::Columns;
use crate::io::input::OpenTable;
use crate::io::names::listed_columns;
use crate::io::write::{Cells, TableWriter};

/// The key of the [`TableMetadata`] in a Parquet file.
const NOTE: &str = "riesz";

/// A table of values being written.
pub struct Writer {
    table: TableWriter,
    note: TableMetadata,
    /// Whether the table is a CSV file, which cannot keep the metadata.
    loses_metadata: bool,
}

impl Writer {
    /// Opens `path` for explanations with the columns of `first`, whose rows are not written yet.
    pub fn open(path: Option<&Path>, format: Format, first: &Explanation) -> Result<Self> {
        let names = header(first);
        let mut example = vec![Cells::Integers(Vec::new()), Cells::Texts(Vec::new())];
        example.extend((0..names.len() - 2).map(|_| Cells::Numbers(Vec::new())));
        let loses_metadata = format == Format::Csv && path.is_some_and(|path| path != Path::new("-"));
        let table = TableWriter::open(path, format, names, example)?;
        Ok(Self { table, note: TableMetadata::new(first), loses_metadata })
    }

    /// Writes a chunk of rows.
    pub fn rows(&mut self, chunk: &Explanation) -> Result<()> {
        self.note.include(chunk);
        let (n, m) = (chunk.rows(), chunk.outputs());
        let mut cells = vec![
            Cells::Integers((0..n * m).map(|k| chunk.row_numbers[k / m] as i64).collect()),
            Cells::Texts((0..n * m).map(|k| chunk.output_names[k % m].clone()).collect()),
        ];
        cells.extend(numbers(chunk).into_iter().map(Cells::Numbers));
        self.table.rows(cells)
    }

    /// Completes the table, with further provenance entries, and puts it in its place.
    pub fn finish(mut self, facts: Vec<CardEntry>) -> Result<()> {
        self.note.provenance.run.extend(facts);
        let note = serde_json::to_string(&self.note)
            .map_err(|e| Failure::input(format!("the provenance cannot be written: {e}")))?;
        self.table.note(NOTE, note);
        self.table.finish()?;
        if self.loses_metadata {
            note_once(
                "a CSV file keeps the values only; .parquet and .json also keep the model, the game, the \
                 files and the proved bounds",
            );
        }
        Ok(())
    }
}

/// Reads a table that `riesz explain` wrote, or a part of its rows. The explanation has no feature values.
pub fn read(mut rows: OpenTable) -> Result<Explanation> {
    let name = rows.name.clone();
    let header = rows.header().to_vec();
    let about = |e: riesz::Error| Failure::from(e).about(&name);
    let mut reader = ValueTableReader::new(&header).map_err(about)?;
    let selected = reader.wanted().to_vec();
    while let Some(chunk) = rows.next(&selected, CHUNK)? {
        let mut columns = Vec::with_capacity(selected.len());
        for (k, &j) in selected.iter().enumerate().filter(|(k, _)| *k != 1) {
            let mut column = Vec::with_capacity(chunk.rows);
            append_numbers(&chunk, k, &header[j], &name, &mut column)?;
            columns.push(column);
        }
        for i in 0..chunk.rows {
            let output = match &chunk.columns[1] {
                Raw::Texts(texts) => texts.get(i).to_string(),
                Raw::Numbers(numbers) => numbers[i].to_string(),
            };
            let line = columns[1..].iter().map(|column| column[i]);
            let read = reader.add_line(columns[0][i], &output, line);
            read.map_err(|e| Failure::from(e).about(&format!("{name}: {}", chunk.location(i))))?;
        }
    }
    let note = rows.note(NOTE).and_then(|note| serde_json::from_str(&note).ok());
    reader.finish(note).map_err(about)
}

/// Adds feature values to an explanation that was read from a table: the columns of `rows` with the names of
/// players, in the rows that the explanation numbers. Numbers of the columns `categorical` are codes of
/// categories.
pub fn add_data(explanation: &mut Explanation, rows: OpenTable, categorical: &[String]) -> Result<()> {
    let name = rows.name.clone();
    let names: Vec<String> =
        explanation.players.iter().map(|p| p.name.clone()).filter(|n| rows.header().contains(n)).collect();
    if names.is_empty() {
        return Err(Failure::input(format!(
            "{name} has no column with the name of a feature of the explanation: give the table that was \
             explained; the columns are: {}",
            listed(rows.header())
        )));
    }
    let categorical = listed_columns(categorical, rows.header());
    rows.column_indices(&categorical)?;
    let table = Columns::read(rows, &names)?.table_as_given(&names, &categorical)?;
    if let Some(row) = explanation.row_numbers.iter().find(|&&row| row >= table.rows()) {
        return Err(Failure::input(format!(
            "{name} has {} rows, but the explanation has values of row {row}: give the table that was \
             explained",
            table.rows()
        )));
    }
    explanation.data = table.select_rows(&explanation.row_numbers);
    for player in &mut explanation.players {
        player.columns = names.iter().position(|n| *n == player.name).into_iter().collect();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use riesz::ValueIndex;
    use riesz::explanation::{Provenance, Sampling};
    use riesz::table::Player;
    use riesz::{Column, Exactness, Table};

    use super::*;
    use crate::io::input::TableFile;

    /// An explanation of two outputs, three players (one has the name of a fixed column) and rows 4 and 5,
    /// filled with `numbers` in a cycle.
    fn example(numbers: &[f64], exactness: Exactness) -> Explanation {
        let names = ["bmi", "row", "feature:x"];
        let columns: Vec<Column> = names.iter().map(|n| Column::numeric(*n)).collect();
        let mut numbers = numbers.iter().cycle().copied();
        let mut take = |count: usize| numbers.by_ref().take(count).collect::<Vec<f64>>();
        let player = |(j, name): (usize, &&str)| Player { name: (*name).into(), columns: vec![j] };
        Explanation {
            index: ValueIndex::Shapley,
            players: names.iter().enumerate().map(player).collect(),
            subsets: None,
            output_names: vec!["b, \"quoted\"".into(), "a".into()],
            values: take(12),
            base_values: take(4),
            predictions: take(4),
            data: Table::from_column_major(columns, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap(),
            row_numbers: vec![4, 5],
            exactness,
            uncertainty: None,
            duels: None,
            provenance: Provenance {
                game: "functional".into(),
                absent: "dropped".into(),
                model: vec![CardEntry::new("kernel", "rbf")],
                run: vec![],
            },
        }
    }

    fn exact() -> Explanation {
        let numbers = [0.1, 1e-300, -3.0, 0.25, f64::MIN_POSITIVE, 7.0, -0.0, 2.0, 1e17, 5.0, 6.0, 1.0 / 3.0];
        example(&numbers, Exactness::Exact { bound: vec![1e-15, 2e-15, 3e-15, 1e-16] })
    }

    fn written(explanation: &Explanation, folder: &Path, format: Format) -> TableFile {
        let path = folder.join(if format == Format::Parquet { "v.parquet" } else { "v.csv" });
        let mut writer = Writer::open(Some(&path), format, explanation).unwrap();
        // Two chunks, as when streamed.
        writer.rows(&explanation.select_rows(&[0])).unwrap();
        writer.rows(&explanation.select_rows(&[1])).unwrap();
        writer.finish(Vec::new()).unwrap();
        TableFile::from_path(&path)
    }

    /// The explanation written and read back, with the feature values from another table.
    fn reread(explanation: &Explanation, format: Format) -> Explanation {
        let folder = tempfile::tempdir().unwrap();
        let mut explanation_read = read(written(explanation, folder.path(), format).open().unwrap()).unwrap();
        assert!(
            explanation_read.data.width() == 0
                && explanation_read.players.iter().all(|p| p.columns.is_empty())
        );
        let rows = "feature:x,row,bmi\n".to_string() + &"9,9,9\n".repeat(4) + "5,3,1\n6,4,2\n";
        let rows = OpenTable::csv(Box::new(std::io::Cursor::new(rows)), b',', "rows").unwrap();
        add_data(&mut explanation_read, rows, &[]).unwrap();
        explanation_read
    }

    proptest! {
        #[test]
        fn tables_are_read_back_bit_for_bit(
            numbers in prop::collection::vec(any::<f64>().prop_filter("finite", |v| v.is_finite()), 1..32),
            seed: u64,
            kind in 0..3,
        ) {
            let errors: Vec<f64> = numbers.iter().cycle().take(12).map(|v| v.abs()).collect();
            let bound = errors[0];
            // Each of the two chunks has its own evaluations.
            let sampling = |evaluations| Some(Sampling { evaluations, seed });
            let explanation = example(&numbers, match kind {
                // One bound for all rows.
                0 => Exactness::Exact { bound: vec![bound; 4] },
                1 => Exactness::Estimated { std_error: errors, sampling: sampling(9) },
                _ => Exactness::Unknown,
            });
            for format in [Format::Parquet, Format::Csv] {
                let reread_explanation = reread(&explanation, format);
                let mut expected = explanation.clone();
                match (&mut expected.exactness, format) {
                    (Exactness::Estimated { sampling: all, .. }, Format::Parquet) => *all = sampling(18),
                    (Exactness::Estimated { sampling, .. }, _) => *sampling = None,
                    (_, Format::Parquet) => {}
                    (exactness, _) => *exactness = Exactness::Unknown,
                }
                if format == Format::Csv {
                    prop_assert_eq!(&reread_explanation.provenance.game, "not stated");
                    expected.provenance = reread_explanation.provenance.clone();
                }
                // The debug text distinguishes 0 and -0.
                prop_assert_eq!(format!("{reread_explanation:?}"), format!("{expected:?}"));
            }
        }

        #[test]
        fn damaged_tables_do_not_panic(offset: usize, byte: u8, cut: usize) {
            let folder = tempfile::tempdir().unwrap();
            for format in [Format::Csv, Format::Parquet] {
                let source = written(&exact(), folder.path(), format);
                let mut bytes = std::fs::read(&source.path).unwrap();
                let n = bytes.len();
                bytes[offset % n] = byte;
                bytes.truncate(n - cut % 20);
                std::fs::write(&source.path, &bytes).unwrap();
                if let Ok(damaged) = source.open().and_then(read) {
                    prop_assert!(damaged.validate().is_ok());
                }
            }
        }
    }

    #[test]
    fn the_largest_bound_is_that_of_all_rows() {
        let reread_explanation = reread(&exact(), Format::Parquet);
        assert_eq!(reread_explanation.exactness, Exactness::Exact { bound: vec![3e-15; 4] });
        // The random numbers of the example do not add up.
        assert!(reread_explanation.certificate().is_some_and(|c| !c.holds));
    }

    #[test]
    fn columns_have_the_names_of_players() {
        let folder = tempfile::tempdir().unwrap();
        let exactness = Exactness::Estimated { std_error: vec![0.5; 12], sampling: None };
        let source = written(&example(&[1.0], exactness), folder.path(), Format::Csv);
        let text = std::fs::read_to_string(source.path).unwrap();
        assert_eq!(
            text.lines().next().unwrap(),
            "row,output,base_value,prediction,residual,bmi,feature:row,feature:feature:x,\
             std_error:bmi,std_error:feature:row,std_error:feature:feature:x"
        );
    }

    #[test]
    fn order_and_choice_of_lines_do_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(written(&exact(), folder.path(), Format::Csv).path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let read_lines = |pick: &[usize]| {
            let text: String = pick.iter().map(|&k| format!("{}\n", lines[k])).collect();
            read(OpenTable::csv(Box::new(std::io::Cursor::new(text)), b',', "v").unwrap())
        };
        let shuffled = read_lines(&[0, 3, 1, 2, 4]).unwrap();
        assert_eq!(shuffled.row_numbers, [5, 4]);
        assert_eq!(shuffled.values, exact().select_rows(&[1, 0]).values);
        assert_eq!(read_lines(&[0, 3, 4]).unwrap().values, exact().select_rows(&[1]).values);
        for (pick, culprit) in [
            (&[0, 1, 2, 3][..], "v: row 5 has no line for output 'a'"),
            (&[0, 1, 1], "v: row 2 (line 3): row 4, output 'b, \\\"quoted\\\"' is there twice"),
            (&[0], "v: the table of values is empty"),
        ] {
            let message = read_lines(pick).unwrap_err();
            let message = format!("{message:?}");
            assert!(message.contains(culprit), "{message}");
        }
    }
}

//! Explanations as tables, both ways. One line a row and output: `row, output, base_value, prediction, residual`, then
//! one column a player, and where values are estimated, one column a player for their standard errors. A table can be of any length; unlike the JSON form it does not hold the feature values,
//! and a CSV file has no place for the certificate and the provenance, which a Parquet file carries beside its columns.

use std::collections::HashMap;
use std::path::Path;

use riesz::error::listed;
use riesz::explanation::{Exactness, Provenance};
use riesz::table::Player;
use riesz::{Explanation, Table};
use serde::{Deserialize, Serialize};

use crate::args::Format;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::chunk::Raw;
use crate::io::input::Rows;
use crate::io::typing::{CHUNK, Columns, numbers};
use crate::io::write::{Cells, TableWriter};

/// Columns before those of the players.
const LEADING: [&str; 5] = ["row", "output", "base_value", "prediction", "residual"];

/// What a player's name begins with in the table if it is one of [`LEADING`].
const PLAYER: &str = "player:";

/// What the column of a player's standard errors begins with, before the name of the player's own column.
const STD_ERROR: &str = "std_error:";

/// Numbers that an explanation read back from a table may hold.
const NUMBERS: usize = 200_000_000;

/// The key of the [`Note`] in a Parquet file.
const NOTE: &str = "riesz";

/// What a Parquet file says beside its columns, as JSON.
#[derive(Serialize, Deserialize)]
struct Note {
    provenance: Provenance,
    /// The largest proved bound of all rows, if the values are exact.
    bound: Option<f64>,
    /// Evaluations and seed, if they are estimated.
    #[serde(default)]
    sampling: Option<(usize, u64)>,
}

/// A table of values being written.
pub struct Writer {
    table: TableWriter,
    note: Note,
}

impl Writer {
    /// Opens `path` for explanations like `first`, whose rows are not written yet.
    pub fn open(path: Option<&Path>, format: Format, first: &Explanation) -> Result<Self> {
        let mut names: Vec<String> = LEADING.map(String::from).to_vec();
        for player in &first.players {
            let name = player.name.as_str();
            let taken = LEADING.contains(&name) || name.starts_with(PLAYER) || name.starts_with(STD_ERROR);
            names.push(if taken { format!("{PLAYER}{name}") } else { name.into() });
        }
        let sampling = match first.exactness {
            Exactness::Estimated { evaluations, seed, .. } => Some((evaluations, seed)),
            Exactness::Exact { .. } | Exactness::Unstated => None,
        };
        if sampling.is_some() {
            let errors: Vec<String> =
                names[LEADING.len()..].iter().map(|name| format!("{STD_ERROR}{name}")).collect();
            names.extend(errors);
        }
        let mut example = vec![Cells::Integers(Vec::new()), Cells::Texts(Vec::new())];
        example.extend((0..names.len() - 2).map(|_| Cells::Numbers(Vec::new())));
        Ok(Self {
            table: TableWriter::open(path, format, names, example)?,
            note: Note { provenance: first.provenance.clone(), bound: Some(0.0), sampling },
        })
    }

    /// Writes some rows.
    pub fn rows(&mut self, chunk: &Explanation) -> Result<()> {
        let (n, m, p) = (chunk.rows(), chunk.outputs(), chunk.players.len());
        let largest = chunk.certificate().map(|c| c.bound);
        self.note.bound = self.note.bound.zip(largest).map(|(a, b)| a.max(b));
        let residual = match &chunk.exactness {
            Exactness::Exact { residual, .. } => residual.clone(),
            Exactness::Estimated { .. } | Exactness::Unstated => chunk.residuals(),
        };
        let mut cells = vec![
            Cells::Integers((0..n * m).map(|k| chunk.row_numbers[k / m] as i64).collect()),
            Cells::Texts((0..n * m).map(|k| chunk.output_names[k % m].clone()).collect()),
            Cells::Numbers(chunk.base_values.clone()),
            Cells::Numbers(chunk.predictions.clone()),
            Cells::Numbers(residual),
        ];
        let by_player = |all: &[f64], j: usize| Cells::Numbers((0..n * m).map(|k| all[k * p + j]).collect());
        cells.extend((0..p).map(|j| by_player(&chunk.values, j)));
        if let Exactness::Estimated { std_error, .. } = &chunk.exactness {
            cells.extend((0..p).map(|j| by_player(std_error, j)));
        }
        self.table.rows(cells)
    }

    /// Completes the table and puts it in its place.
    pub fn finish(mut self) -> Result<()> {
        let note = serde_json::to_string(&self.note)
            .map_err(|e| Failure::input(format!("the provenance cannot be written: {e}")))?;
        self.table.note(NOTE, note);
        self.table.finish()
    }
}

/// Whether a table with these columns is one of values.
pub fn recognises(header: &[String]) -> bool {
    LEADING.iter().all(|name| header.iter().any(|h| h == name))
}

/// Reads a table that `riesz explain` wrote, or some of its rows. The explanation has no feature values.
pub fn read(mut rows: Rows) -> Result<Explanation> {
    let name = rows.name.clone();
    let header = rows.header().to_vec();
    let leading = rows.places(&LEADING.map(String::from))?;
    let (errors, own): (Vec<usize>, Vec<usize>) =
        (0..header.len()).filter(|j| !leading.contains(j)).partition(|&j| header[j].starts_with(STD_ERROR));
    let p = own.len();
    // Standard errors of the players, in their order, if each has some.
    let errors: Vec<usize> = own
        .iter()
        .map_while(|&j| {
            errors.iter().copied().find(|&e| header[e].strip_prefix(STD_ERROR) == Some(&header[j]))
        })
        .collect();
    if p == 0 {
        return Err(Failure::input(format!(
            "{name}: there is no column of values after {}",
            LEADING.join(", ")
        )));
    }
    let with_errors = errors.len() == p;
    let width = 4 + if with_errors { 2 * p } else { p };
    let wanted: Vec<usize> =
        leading.iter().chain(&own).chain(errors.iter().filter(|_| with_errors)).copied().collect();
    // A line's columns follow one another.
    let mut lines: Vec<f64> = Vec::new();
    let mut row_numbers: Vec<usize> = Vec::new();
    let mut output_names: Vec<String> = Vec::new();
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut cells: HashMap<(usize, usize), usize> = HashMap::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    while let Some(chunk) = rows.next(&wanted, CHUNK)? {
        let mut columns = Vec::with_capacity(wanted.len());
        for (k, &j) in wanted.iter().enumerate() {
            let mut column = Vec::with_capacity(chunk.rows);
            if k != 1 {
                numbers(&chunk, k, &header[j], &name, &mut column)?;
            }
            columns.push(column);
        }
        for i in 0..chunk.rows {
            let number = columns[0][i];
            if number < 0.0 || number.fract() != 0.0 || number > (1u64 << 53) as f64 {
                return Err(Failure::input(format!(
                    "{name}: {} of column 'row' is {number}, which is not the number of a row",
                    chunk.place(i)
                )));
            }
            let number = number as usize;
            let output = match &chunk.columns[1] {
                Raw::Texts(texts) => texts.get(i).to_string(),
                Raw::Numbers(numbers) => numbers[i].to_string(),
            };
            let at = *places.entry(number).or_insert_with(|| {
                row_numbers.push(number);
                row_numbers.len() - 1
            });
            let o = *known.entry(output.clone()).or_insert_with(|| {
                output_names.push(output.clone());
                output_names.len() - 1
            });
            if cells.insert((at, o), cells.len()).is_some() {
                return Err(Failure::input(format!(
                    "{name}: {} repeats row {number}, output '{output}': remove one of the two",
                    chunk.place(i)
                )));
            }
            lines.extend(columns.iter().enumerate().filter(|(k, _)| *k != 1).map(|(_, column)| column[i]));
        }
        if lines.len() > NUMBERS {
            return Err(Failure::input(format!(
                "{name} holds more than {NUMBERS} numbers, too many to show at once: cut it into parts"
            )));
        }
    }
    let (n, m) = (row_numbers.len(), output_names.len());
    if n == 0 {
        return Err(Failure::input(format!("{name} has names of columns but no rows")));
    }
    let (mut base_values, mut predictions, mut residual) = (Vec::new(), Vec::new(), Vec::new());
    let mut values = Vec::with_capacity(n * m * p);
    let mut std_error = Vec::new();
    for (at, number) in row_numbers.iter().enumerate() {
        for (o, output) in output_names.iter().enumerate() {
            let k = *cells.get(&(at, o)).ok_or_else(|| {
                Failure::input(format!("{name}: row {number} has no line for output '{output}'"))
            })?;
            let line = &lines[k * width..(k + 1) * width];
            base_values.push(line[1]);
            predictions.push(line[2]);
            residual.push(line[3]);
            values.extend_from_slice(&line[4..4 + p]);
            std_error.extend_from_slice(&line[4 + p..]);
        }
    }
    let note: Option<Note> = rows.note(NOTE).and_then(|note| serde_json::from_str(&note).ok());
    let silent = Note {
        provenance: Provenance {
            game: "not stated".into(),
            absent: "the table does not say what an absent feature means".into(),
            ..Provenance::default()
        },
        bound: None,
        sampling: None,
    };
    let Note { provenance, bound, sampling } = note.unwrap_or(silent);
    let player = |&j: &usize| {
        let name = header[j].strip_prefix(PLAYER).unwrap_or(&header[j]).to_string();
        Player { name, columns: Vec::new() }
    };
    let explanation = Explanation {
        players: own.iter().map(player).collect(),
        output_names,
        values,
        base_values,
        predictions,
        data: Table::from_column_major(Vec::new(), n, Vec::new())?,
        row_numbers,
        exactness: match (bound, sampling) {
            // The largest bound of all rows is one for each.
            (Some(bound), None) if bound >= 0.0 => Exactness::Exact { residual, bound: vec![bound; n * m] },
            (_, Some((evaluations, seed))) if with_errors => {
                Exactness::Estimated { std_error, evaluations, seed }
            }
            _ => Exactness::Unstated,
        },
        provenance,
    };
    explanation.validate()?;
    Ok(explanation)
}

/// Gives an explanation that came from a table the feature values that it lacks: those columns of `rows` that players
/// are called after, in the rows that the explanation numbers.
pub fn add_data(explanation: &mut Explanation, rows: Rows, console: &Console) -> Result<()> {
    let name = rows.name.clone();
    let names: Vec<String> =
        explanation.players.iter().map(|p| p.name.clone()).filter(|n| rows.header().contains(n)).collect();
    if names.is_empty() {
        return Err(Failure::input(format!(
            "{name} has none of the columns that the explanation's players are called after; its columns are: {}",
            listed(rows.header())
        )));
    }
    let table = Columns::read(rows, &names)?.table(&names, &[], console)?;
    if let Some(row) = explanation.row_numbers.iter().find(|&&row| row >= table.rows()) {
        return Err(Failure::input(format!(
            "{name} has {} rows, and the explanation has values of row {row}: give the table that was explained",
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
    use riesz::Column;
    use riesz::explanation::Fact;

    use super::*;
    use crate::io::input::Source;

    /// Two outputs, three players (one called as a leading column is), rows 4 and 5.
    fn example() -> Explanation {
        let names = ["bmi", "row", "player:x"];
        let columns: Vec<Column> = names.iter().map(|n| Column::numeric(*n)).collect();
        let values =
            vec![0.1, 1e-300, -3.0, 0.25, f64::MIN_POSITIVE, 7.0, -0.0, 2.0, 1e17, 5.0, 6.0, 1.0 / 3.0];
        Explanation {
            players: names
                .iter()
                .enumerate()
                .map(|(j, n)| Player { name: (*n).into(), columns: vec![j] })
                .collect(),
            output_names: vec!["b, \"quoted\"".into(), "a".into()],
            values,
            base_values: vec![1.5, 2.5, 1.5, 2.5],
            predictions: vec![0.1, 0.2, 0.3, 0.4],
            data: Table::from_column_major(columns, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap(),
            row_numbers: vec![4, 5],
            exactness: Exactness::Exact {
                residual: vec![0.0, 1e-17, -1e-17, 0.0],
                bound: vec![1e-15, 2e-15, 3e-15, 1e-16],
            },
            provenance: Provenance {
                game: "functional".into(),
                absent: "dropped".into(),
                model: vec![Fact::new("kernel", "rbf")],
                run: vec![],
            },
        }
    }

    fn written(folder: &Path, format: Format) -> Source {
        let path = folder.join(if format == Format::Parquet { "v.parquet" } else { "v.csv" });
        let mut writer = Writer::open(Some(&path), format, &example()).unwrap();
        // In two steps, as a stream.
        writer.rows(&example().select_rows(&[0])).unwrap();
        writer.rows(&example().select_rows(&[1])).unwrap();
        writer.finish().unwrap();
        Source { path, delimiter: None }
    }

    #[test]
    fn tables_are_read_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        for format in [Format::Csv, Format::Parquet] {
            let mut found = read(written(folder.path(), format).open().unwrap()).unwrap();
            let Exactness::Exact { residual, .. } = example().exactness else { unreachable!() };
            if format == Format::Parquet {
                // One bound for all rows.
                assert_eq!(found.exactness, Exactness::Exact { residual, bound: vec![3e-15; 4] });
                assert_eq!(found.provenance, example().provenance);
            } else {
                assert_eq!(found.exactness, Exactness::Unstated);
                assert_eq!(found.provenance.game, "not stated");
            }
            let rows = "player:x,row,bmi\n".to_string() + &"9,9,9\n".repeat(4) + "5,3,1\n6,4,2\n";
            let rows = Rows::csv(Box::new(std::io::Cursor::new(rows)), b',', "rows").unwrap();
            assert!(found.data.width() == 0 && found.players.iter().all(|p| p.columns.is_empty()));
            add_data(&mut found, rows, &Console::new(true)).unwrap();
            let expected = Explanation {
                exactness: found.exactness.clone(),
                provenance: found.provenance.clone(),
                ..example()
            };
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn standard_errors_stand_beside_the_values() {
        let folder = tempfile::tempdir().unwrap();
        let std_error: Vec<f64> = (1..13).map(|k| f64::from(k) / 7.0).collect();
        let exactness = Exactness::Estimated { std_error, evaluations: 99, seed: 4 };
        let estimated = Explanation { exactness: exactness.clone(), ..example() };
        for (format, expected) in [(Format::Csv, Exactness::Unstated), (Format::Parquet, exactness)] {
            let path = folder.path().join(if format == Format::Parquet { "v.parquet" } else { "v.csv" });
            let mut writer = Writer::open(Some(&path), format, &estimated).unwrap();
            writer.rows(&estimated).unwrap();
            writer.finish().unwrap();
            let found = read(Source { path, delimiter: None }.open().unwrap()).unwrap();
            assert_eq!(found.exactness, expected);
            assert_eq!((found.values, found.players.len()), (estimated.values.clone(), 3));
        }
        let text = std::fs::read_to_string(folder.path().join("v.csv")).unwrap();
        assert!(
            text.lines()
                .next()
                .unwrap()
                .ends_with("std_error:bmi,std_error:player:row,std_error:player:player:x")
        );
    }

    #[test]
    fn order_and_choice_of_lines_do_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(written(folder.path(), Format::Csv).path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let of = |pick: &[usize]| {
            let text: String = pick.iter().map(|&k| format!("{}\n", lines[k])).collect();
            read(Rows::csv(Box::new(std::io::Cursor::new(text)), b',', "v").unwrap())
        };
        let unstated = |e: Explanation| Explanation { exactness: Exactness::Unstated, ..e };
        let shuffled = of(&[0, 3, 1, 2, 4]).unwrap();
        assert_eq!(shuffled.row_numbers, [5, 4]);
        assert_eq!(shuffled.values, unstated(example()).select_rows(&[1, 0]).values);
        assert_eq!(of(&[0, 3, 4]).unwrap().values, example().select_rows(&[1]).values);
        for (pick, culprit) in [
            (&[0, 1, 2, 3][..], "row 5 has no line for output 'a'"),
            (&[0, 1, 1], "repeats row 4"),
            (&[0], "no rows"),
        ] {
            let message = of(pick).unwrap_err();
            let message = format!("{message:?}");
            assert!(message.contains(culprit), "{message}");
        }
    }

    proptest! {
        #[test]
        fn damaged_tables_are_answered(at: usize, byte: u8, cut: usize) {
            let folder = tempfile::tempdir().unwrap();
            for format in [Format::Csv, Format::Parquet] {
                let source = written(folder.path(), format);
                let mut bytes = std::fs::read(&source.path).unwrap();
                let n = bytes.len();
                bytes[at % n] = byte;
                bytes.truncate(n - cut % 20);
                std::fs::write(&source.path, &bytes).unwrap();
                if let Ok(found) = source.open().and_then(read) {
                    prop_assert!(found.validate().is_ok());
                }
            }
        }
    }
}

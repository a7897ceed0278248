//! Explanations as tables, for reading and writing CSV, Parquet and data frames.
//!
//! A table has one line for each row and output, with the columns
//! `row, output, base_value, prediction, residual` and one column for each player. Estimated values add one
//! column of standard errors for each player, and posterior uncertainty one column of standard deviations. A
//! table can have any length. Unlike the JSON form it does not contain the feature values, and only Parquet
//! files store the [`TableMetadata`].

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, listed};
use crate::explanation::{
    Dispersion, Exactness, Explanation, Provenance, Sampling, Uncertainty, UncertaintySource,
};
use crate::index::ValueIndex;
use crate::table::{Player, Table};

/// Columns before the players' columns. The reader ignores `residual` and computes it.
pub const LEADING_COLUMNS: [&str; 5] = ["row", "output", "base_value", "prediction", "residual"];

/// The prefix of a player's column if the player's name could be confused with another column.
const FEATURE_PREFIX: &str = "feature:";

/// The prefix of a column of standard errors; the name of the player's column follows.
const STD_ERROR: &str = "std_error:";

/// The prefix of a column of standard deviations; the name of the player's column follows.
const SD: &str = "std:";

/// Maximum number of numbers in an explanation that is read from a table.
const NUMBERS: usize = 200_000_000;

/// Metadata of a table of values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TableMetadata {
    /// The kind of values.
    #[serde(default)]
    pub index: ValueIndex,
    /// The model card, and entries about the run.
    pub provenance: Provenance,
    /// The largest proved bound of all rows, if the values are exact.
    pub bound: Option<f64>,
    /// The sampling of the values, if they are estimated.
    pub sampling: Option<Sampling>,
    /// The source of standard deviations, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sure_by: Option<UncertaintySource>,
}

impl TableMetadata {
    /// The metadata of a table of explanations like `first`, before any rows are included.
    pub fn new(first: &Explanation) -> Self {
        Self {
            index: first.index,
            provenance: first.provenance.clone(),
            bound: matches!(first.exactness, Exactness::Exact { .. }).then_some(0.0),
            sampling: None,
            sure_by: first.uncertainty.as_ref().and_then(|uncertainty| uncertainty.source),
        }
    }

    /// Updates the metadata with some of the table's rows.
    pub fn include(&mut self, rows: &Explanation) {
        match &rows.exactness {
            Exactness::Exact { bound } => {
                self.bound = self.bound.map(|b| bound.iter().copied().fold(b, f64::max))
            }
            Exactness::Estimated { sampling: Some(new_sampling), .. } => {
                let before = self.sampling.map_or(0, |sampling| sampling.evaluations);
                self.sampling =
                    Some(Sampling { evaluations: before + new_sampling.evaluations, ..*new_sampling });
            }
            Exactness::Estimated { sampling: None, .. } | Exactness::Unknown => {}
        }
    }
}

/// The names of the table's columns.
pub fn header(explanation: &Explanation) -> Vec<String> {
    let mut names: Vec<String> = LEADING_COLUMNS.map(String::from).to_vec();
    for name in (0..explanation.sets()).map(|k| explanation.set_name(k)) {
        let begins = |with: &str| name.starts_with(with);
        let taken =
            LEADING_COLUMNS.contains(&&name[..]) || [FEATURE_PREFIX, STD_ERROR, SD].into_iter().any(begins);
        names.push(if taken { format!("{FEATURE_PREFIX}{name}") } else { name });
    }
    let players = names[LEADING_COLUMNS.len()..].to_vec();
    let mut add_columns = |prefix: &str| names.extend(players.iter().map(|name| format!("{prefix}{name}")));
    if let Exactness::Estimated { .. } = explanation.exactness {
        add_columns(STD_ERROR);
    }
    if explanation.uncertainty.is_some() {
        add_columns(SD);
    }
    names
}

/// The numbers of the columns after `row` and `output`, column by column.
pub fn numbers(explanation: &Explanation) -> Vec<Vec<f64>> {
    let s = explanation.sets();
    let mut columns =
        vec![explanation.base_values.clone(), explanation.predictions.clone(), explanation.residuals()];
    let set_values = |numbers: &[f64], k: usize| numbers.iter().skip(k).step_by(s).copied().collect();
    columns.extend((0..s).map(|k| set_values(&explanation.values, k)));
    if let Exactness::Estimated { std_error, .. } = &explanation.exactness {
        columns.extend((0..s).map(|k| set_values(std_error, k)));
    }
    if let Some(sd) = explanation.sd() {
        columns.extend((0..s).map(|k| set_values(&sd, k)));
    }
    columns
}

/// Whether a table with these columns is a table of values.
pub fn recognises(header: &[String]) -> bool {
    LEADING_COLUMNS.iter().all(|name| header.iter().any(|h| h == name))
}

/// A reader of tables of values, line by line. It accepts the whole table, or the lines of some rows, in any
/// order. The explanation has no feature values.
#[derive(Debug)]
pub struct ValueTableReader {
    column_indices: Vec<usize>,
    players: Vec<String>,
    has_errors: bool,
    has_sd: bool,
    /// Base value, prediction, values, their standard errors and their standard deviations, line by line.
    numbers: Vec<f64>,
    lines: HashMap<(usize, usize), usize>,
    row_numbers: Vec<usize>,
    rows: HashMap<usize, usize>,
    output_names: Vec<String>,
    outputs: HashMap<String, usize>,
}

impl ValueTableReader {
    /// A reader for a table with these columns.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`] or [`Error::Format`] if the table is not a table of values.
    pub fn new(header: &[String]) -> Result<Self> {
        let position = |name: &str| {
            let unknown = || Error::UnknownColumn { name: name.into(), known: listed(header) };
            header.iter().position(|h| h == name).ok_or_else(unknown)
        };
        let mut column_indices =
            LEADING_COLUMNS[..4].iter().map(|name| position(name)).collect::<Result<Vec<_>>>()?;
        let value_columns: Vec<usize> = (0..header.len())
            .filter(|&j| !LEADING_COLUMNS.contains(&&header[j][..]))
            .filter(|&j| !header[j].starts_with(STD_ERROR) && !header[j].starts_with(SD))
            .collect();
        if value_columns.is_empty() {
            return Err(Error::format(format!(
                "there is no column of values after {}",
                LEADING_COLUMNS.join(", ")
            )));
        }
        // The columns of standard errors or deviations in the order of the players, if every player has one.
        let columns_with_prefix = |prefix: &str| -> Option<Vec<usize>> {
            let own_name = |(j, name): (usize, &String)| Some((name.strip_prefix(prefix)?.to_string(), j));
            let column_of_player: HashMap<String, usize> =
                header.iter().enumerate().filter_map(own_name).collect();
            value_columns.iter().map(|&j| column_of_player.get(&header[j]).copied()).collect()
        };
        let (errors, sd) = (columns_with_prefix(STD_ERROR), columns_with_prefix(SD));
        let name = |&j: &usize| header[j].strip_prefix(FEATURE_PREFIX).unwrap_or(&header[j]).to_string();
        let players = value_columns.iter().map(name).collect();
        column_indices.extend(value_columns);
        let (has_errors, has_sd) = (errors.is_some(), sd.is_some());
        column_indices.extend(errors.into_iter().chain(sd).flatten());
        Ok(Self {
            column_indices,
            players,
            has_errors,
            has_sd,
            numbers: Vec::new(),
            lines: HashMap::new(),
            row_numbers: Vec::new(),
            rows: HashMap::new(),
            output_names: Vec::new(),
            outputs: HashMap::new(),
        })
    }

    /// The columns to read: `row`, `output`, then columns of numbers.
    pub fn wanted(&self) -> &[usize] {
        &self.column_indices
    }

    /// Adds a line: the row number, the output, and the numbers of the other columns.
    ///
    /// # Errors
    /// [`Error::Format`] for a line that is not valid in the table.
    pub fn add_line(&mut self, row: f64, output: &str, numbers: impl IntoIterator<Item = f64>) -> Result<()> {
        let broken = |problem: String| Err(Error::format(problem));
        if row < 0.0 || row.fract() != 0.0 || row > (1u64 << 53) as f64 {
            return broken(format!("column 'row' is {row}, which is not the number of a row"));
        }
        let row = row as usize;
        let row_index = *self.rows.entry(row).or_insert_with(|| {
            self.row_numbers.push(row);
            self.row_numbers.len() - 1
        });
        let o = self.outputs.get(output).copied().unwrap_or_else(|| {
            self.output_names.push(output.into());
            self.outputs.insert(output.into(), self.output_names.len() - 1);
            self.output_names.len() - 1
        });
        if self.lines.insert((row_index, o), self.lines.len()).is_some() {
            return broken(format!("row {row}, output '{output}' is there twice: remove one of the two"));
        }
        self.numbers.extend(numbers);
        if self.numbers.len() > NUMBERS {
            return broken(format!(
                "more than {NUMBERS} numbers are too many for one explanation: split the table into parts"
            ));
        }
        Ok(())
    }

    /// The explanation, with the table's metadata.
    ///
    /// # Errors
    /// [`Error::TooFew`] without lines; [`Error::Format`] if a row lacks an output; the errors of
    /// [`Explanation::validate`].
    pub fn finish(self, note: Option<TableMetadata>) -> Result<Explanation> {
        let (n, p, width) = (self.row_numbers.len(), self.players.len(), self.column_indices.len() - 2);
        if n == 0 {
            return Err(Error::too_few("the table of values", 1, "line is"));
        }
        let (mut base_values, mut predictions) = (Vec::new(), Vec::new());
        let mut values = Vec::with_capacity(n * self.output_names.len() * p);
        let (mut std_error, mut sd) = (Vec::new(), Vec::new());
        for (row_index, row) in self.row_numbers.iter().enumerate() {
            for (o, output) in self.output_names.iter().enumerate() {
                let Some(k) = self.lines.get(&(row_index, o)) else {
                    return Err(Error::format(format!("row {row} has no line for output '{output}'")));
                };
                let line = &self.numbers[k * width..(k + 1) * width];
                base_values.push(line[0]);
                predictions.push(line[1]);
                values.extend_from_slice(&line[2..2 + p]);
                let (errors, deviations) = line[2 + p..].split_at(if self.has_errors { p } else { 0 });
                std_error.extend_from_slice(errors);
                sd.extend_from_slice(deviations);
            }
        }
        let note = note.unwrap_or_else(|| TableMetadata {
            provenance: Provenance {
                game: "not stated".into(),
                absent: "the table does not say what an absent feature means".into(),
                ..Provenance::default()
            },
            ..TableMetadata::default()
        });
        let explanation = Explanation {
            index: note.index,
            players: self.players.into_iter().map(|name| Player { name, columns: Vec::new() }).collect(),
            subsets: None,
            exactness: match note.bound {
                _ if self.has_errors => Exactness::Estimated { std_error, sampling: note.sampling },
                // The largest bound of all rows holds for each row.
                Some(bound) => Exactness::Exact { bound: vec![bound; predictions.len()] },
                None => Exactness::Unknown,
            },
            uncertainty: self.has_sd.then_some(Uncertainty {
                dispersion: Dispersion::Sd(sd),
                source: note.sure_by,
                conditioning: None,
            }),
            duels: None,
            output_names: self.output_names,
            values,
            base_values,
            predictions,
            data: Table::from_column_major(Vec::new(), n, Vec::new())?,
            row_numbers: self.row_numbers,
            provenance: note.provenance,
        };
        explanation.validate()?;
        Ok(explanation)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::explanation::tests::any_explanation;

    /// The explanation that is read from the lines `pick`.
    fn reread(explanation: &Explanation, note: Option<TableMetadata>, pick: &[usize]) -> Result<Explanation> {
        let m = explanation.outputs();
        let mut names = header(explanation);
        // Other programs may order the columns differently.
        names.reverse();
        let mut reader = ValueTableReader::new(&names)?;
        let columns = numbers(explanation);
        for &k in pick {
            let numbers =
                reader.wanted()[2..].iter().map(|&j| columns[names.len() - 3 - j][k]).collect::<Vec<_>>();
            reader.add_line(
                explanation.row_numbers[k / m] as f64,
                &explanation.output_names[k % m],
                numbers,
            )?;
        }
        reader.finish(note)
    }

    proptest! {
        #[test]
        fn tables_are_read_back(explanation in any_explanation()) {
            let (n, m) = (explanation.rows(), explanation.outputs());
            let lines: Vec<usize> = (0..n * m).collect();
            let mut note = TableMetadata::new(&explanation);
            note.include(&explanation);
            let note: TableMetadata = serde_json::from_str(&serde_json::to_string(&note).unwrap()).unwrap();
            for metadata in [Some(note), None] {
                let has_note = metadata.is_some();
                let mut reread_table = reread(&explanation, metadata.clone(), &lines).unwrap();
                // The columns in reverse order.
                prop_assert!(recognises(&header(&reread_table)) && reread_table.data.width() == 0);
                let sets: Vec<usize> = (0..reread_table.sets()).rev().collect();
                let indices = |count| (0..count).collect::<Vec<usize>>();
                reread_table.players.reverse();
                reread_table = Explanation { players: reread_table.players.clone(), ..reread_table.select(&indices(n), &sets, &indices(m)) };
                reread_table.subsets = None;
                // Tables do not contain duels.
                let mut expected = Explanation { data: reread_table.data.clone(), duels: None, ..explanation.clone() };
                expected.players.iter_mut().for_each(|player| player.columns.clear());
                match (&mut expected.exactness, metadata) {
                    (Exactness::Exact { bound }, Some(_)) => {
                        let largest = bound.iter().copied().fold(0.0, f64::max);
                        bound.fill(largest);
                    }
                    (exactness @ Exactness::Exact { .. }, None) => *exactness = Exactness::Unknown,
                    (Exactness::Estimated { sampling, .. }, None) => *sampling = None,
                    _ => {}
                }
                if let (Some(sd), Some(uncertainty)) = (expected.sd(), &mut expected.uncertainty) {
                    uncertainty.dispersion = Dispersion::Sd(sd);
                    uncertainty.source = reread_table.uncertainty.as_ref().and_then(|known_source| known_source.source);
                    prop_assert_eq!(uncertainty.source.is_some(), has_note);
                }
                expected.provenance = reread_table.provenance.clone();
                prop_assert_eq!(format!("{reread_table:?}"), format!("{expected:?}"));
            }
        }
    }

    #[test]
    fn lines_that_do_not_belong_are_refused() {
        let header = ["row", "output", "base_value", "prediction", "residual", "a"].map(String::from);
        let read = |lines: &[(f64, &str, f64)]| {
            let mut reader = ValueTableReader::new(&header)?;
            lines.iter().try_for_each(|(row, output, v)| reader.add_line(*row, output, [0.0, 1.0, *v]))?;
            reader.finish(None)
        };
        assert_eq!(read(&[(7.0, "y", 1.0)]).unwrap().row_numbers, [7]);
        for (lines, words) in [
            (&[(-1.0, "y", 1.0)][..], "column 'row' is -1, which is not the number of a row"),
            (&[(f64::NAN, "y", 1.0)], "NaN"),
            (&[(1.0, "y", 1.0), (1.0, "y", 2.0)], "row 1, output 'y' is there twice"),
            (&[(1.0, "y", 1.0), (1.0, "z", 2.0), (2.0, "y", 1.0)], "row 2 has no line for output 'z'"),
            (&[(1.0, "y", f64::INFINITY)], "not finite"),
            (&[], "the table of values is empty"),
        ] {
            let message = read(lines).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
        assert!(ValueTableReader::new(&header[1..]).unwrap_err().to_string().contains("no column 'row'"));
        assert!(ValueTableReader::new(&header[..5]).unwrap_err().to_string().contains("no column of values"));
    }
}

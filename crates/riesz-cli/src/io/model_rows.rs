//! The rows of a table in the columns of a fitted model, in chunks, with a policy for missing and unseen
//! cells.

use std::ops::Range;

use riesz::model_card::CardEntry;
use riesz::{Column, ColumnKind, KernelExpansion, Table};

use super::cells::ColumnCells;
use super::chunk::CHUNK;
use crate::console::note_once;
use crate::exit::{Failure, Result};
use crate::io::chunk::Chunk;
use crate::io::input::OpenTable;

/// The substitute for missing cells of column `j`: the median of its numbers, or its most frequent level (the
/// first one in case of a tie). The table must have rows.
pub fn typical_value(table: &Table, j: usize) -> f64 {
    let mut values = table.column(j).to_vec();
    values.sort_unstable_by(f64::total_cmp);
    match table.columns()[j].kind {
        ColumnKind::Numeric => {
            let count = values.len();
            values[(count - 1) / 2] / 2.0 + values[count / 2] / 2.0
        }
        ColumnKind::Categorical { .. } => {
            let runs = values.chunk_by(|a, b| a == b);
            runs.fold(
                &values[..1],
                |longest_run, run| if run.len() > longest_run.len() { run } else { longest_run },
            )[0]
        }
    }
}

/// The treatment of cells that have no value in a model's columns.
#[derive(Debug, Clone)]
pub struct CellPolicy {
    /// Treatment of missing cells.
    pub missing: MissingCells,
    /// Treatment of cells whose level the model does not have.
    pub unseen: UnseenLevels,
}

impl CellPolicy {
    /// The levels that a cell can have, without the level for unseen ones.
    pub(super) fn known_levels<'l>(&self, levels: &'l [String]) -> &'l [String] {
        match self.unseen {
            UnseenLevels::Refuse(_) => levels,
            UnseenLevels::UseLast => &levels[..levels.len().saturating_sub(1)],
        }
    }

    /// The number for row `i` of model column `j`, whose cell is not a finite number.
    pub(super) fn number(
        &self,
        cells: &ColumnCells<'_>,
        i: usize,
        j: usize,
        counts: &mut Substitutions,
    ) -> Result<f64> {
        if cells.is_missing(i) { self.fill(cells, i, j, counts) } else { Err(cells.refuse(i, "")) }
    }

    /// The code for row `i` of model column `j`, whose cell is missing or is none of the known `levels`.
    pub(super) fn code(
        &self,
        cells: &ColumnCells<'_>,
        i: usize,
        (j, levels): (usize, &[String]),
        counts: &mut Substitutions,
    ) -> Result<f64> {
        if cells.is_missing(i) {
            return self.fill(cells, i, j, counts);
        }
        let cell = cells.text(i).into_owned();
        match self.unseen {
            UnseenLevels::Refuse(remedy) => {
                let level_names = riesz::error::listed(levels);
                // A program has no levels; those of its background are used.
                let holder = if remedy.is_empty() { "background" } else { "model" };
                let problem =
                    format!("is '{cell}', which the {holder} has not seen; it knows: {level_names}{remedy}");
                Err(cells.failure(i, &problem))
            }
            UnseenLevels::UseLast => {
                counts.unseen += 1;
                if counts.levels.len() <= NAMED_LEVELS && !counts.levels.contains(&cell) {
                    counts.levels.push(cell);
                }
                Ok((levels.len() - 1) as f64)
            }
        }
    }

    fn fill(&self, cells: &ColumnCells<'_>, i: usize, j: usize, counts: &mut Substitutions) -> Result<f64> {
        match &self.missing {
            MissingCells::Refuse(remedy) => Err(cells.refuse(i, remedy)),
            MissingCells::Fill { values, .. } => {
                counts.filled += 1;
                Ok(values[j])
            }
        }
    }

    /// Provenance entries about the cells that were filled in or had an unseen level, in `table`,
    /// with one count for each column.
    pub(super) fn facts(
        &self,
        table: &str,
        columns: &[Column],
        substitutions: &[Substitutions],
    ) -> Vec<CardEntry> {
        let cells = |count: usize, column: &Column| {
            format!("{count} cell{} of column '{}'", if count == 1 { "" } else { "s" }, column.name)
        };
        let (mut unseen, mut filled) = (Vec::new(), Vec::new());
        for (j, (column, substitutions)) in columns.iter().zip(substitutions).enumerate() {
            if substitutions.unseen > 0 {
                let mut levels = substitutions.levels.clone();
                if levels.len() > NAMED_LEVELS {
                    levels[NAMED_LEVELS] = "…".into();
                }
                let (cells, levels) = (cells(substitutions.unseen, column), levels.join(", "));
                unseen.push(format!("{cells} treated as a new category ({levels})"));
            }
            if let MissingCells::Fill { values, source } = &self.missing
                && substitutions.filled > 0
            {
                let description = match column.kind {
                    ColumnKind::Numeric => "median",
                    ColumnKind::Categorical { .. } => "most frequent category",
                };
                let (cells, value) = (cells(substitutions.filled, column), column.format(values[j]));
                filled.push(format!("{cells} filled in with {value}, the {description} of {source}"));
            }
        }
        let fact = |(name, sentences): (&str, Vec<String>)| {
            CardEntry::new(name, format!("{}: {}", table, sentences.join("; ")))
        };
        let facts = [("unseen categories", unseen), ("missing cells", filled)];
        facts.into_iter().filter(|(_, sentences)| !sentences.is_empty()).map(fact).collect()
    }
}

/// The treatment of missing cells.
#[derive(Debug, Clone)]
pub enum MissingCells {
    /// Refuse them, with this further remedy.
    Refuse(&'static str),
    /// Fill them in with typical values.
    Fill {
        /// The value for each column.
        values: Vec<f64>,
        /// A description of the rows whose typical values these are.
        source: &'static str,
    },
}

/// The treatment of cells whose level is unknown.
#[derive(Debug, Clone)]
pub enum UnseenLevels {
    /// Refuse them, with this remedy.
    Refuse(&'static str),
    /// Replace them by the last level of their column.
    UseLast,
}

/// Largest number of unseen levels that a note lists by name.
const NAMED_LEVELS: usize = 5;

/// Counts of the cells of one column that were filled in or had an unseen level.
#[derive(Debug, Clone, Default)]
pub(super) struct Substitutions {
    filled: usize,
    unseen: usize,
    /// The first unseen levels.
    levels: Vec<String>,
}

/// The rows of a table in a model's columns, in chunks. Other columns are not read.
pub struct ModelRows {
    rows: OpenTable,
    columns: Vec<Column>,
    indices: Vec<usize>,
    policy: CellPolicy,
    /// The unit of each column in the model's training data, if units are compared.
    units: Option<Vec<Option<String>>>,
    substitutions: Vec<Substitutions>,
    chunk_rows: usize,
    /// The column with the names of rows, if it is read.
    name_column: Option<String>,
    labels: RowLabels,
}

/// Labels of the rows of a chunk.
#[derive(Debug, Clone, Default)]
struct RowLabels {
    /// The number of the first row among those that were returned, from 0.
    first: usize,
    /// The number of rows.
    rows: usize,
    /// The names of the rows, if they are read.
    names: Vec<String>,
}

impl ModelRows {
    /// Finds the model's columns in the table. `numbers_a_row` is the number of values that the caller
    /// computes per row; the larger it is, the smaller are the chunks.
    pub fn new(
        rows: OpenTable,
        columns: &[Column],
        policy: CellPolicy,
        numbers_a_row: usize,
    ) -> Result<Self> {
        const NUMBERS: usize = 1 << 21;
        let indices = rows.column_indices(columns.iter().map(|c| &c.name))?;
        let chunk_rows = (NUMBERS / numbers_a_row.max(1)).clamp(1, CHUNK);
        let substitutions = vec![Substitutions::default(); columns.len()];
        Ok(Self {
            rows,
            columns: columns.to_vec(),
            indices,
            policy,
            units: None,
            substitutions,
            chunk_rows,
            name_column: None,
            labels: RowLabels::default(),
        })
    }

    /// Compares the units of the cells with those of the model's training data; different units are refused.
    #[must_use]
    pub fn with_units_of(self, model: &KernelExpansion) -> Self {
        let unit = |column: &Column| model.unit_of(&column.name).map(String::from);
        let units = self.columns.iter().map(unit).collect();
        self.with_units(units)
    }

    /// Compares the units of the cells with these units, one for each column; different units are refused.
    #[must_use]
    pub fn with_units(mut self, units: Vec<Option<String>>) -> Self {
        self.units = Some(units);
        self
    }

    /// Also reads the names of rows from the column `name`.
    pub fn with_names_from(mut self, name: Option<&String>) -> Result<Self> {
        if let Some(name) = name {
            self.indices.extend(self.rows.column_indices([name])?);
            self.name_column = Some(name.clone());
        }
        Ok(self)
    }

    /// The labels of the rows of the last chunk: the column of names with the rows' names, if they are read,
    /// and the rows' numbers from 0.
    pub fn labels(&self) -> (Option<(&String, Vec<String>)>, Range<usize>) {
        let RowLabels { first, rows, names } = &self.labels;
        (self.name_column.as_ref().map(|column| (column, names.clone())), *first..first + rows)
    }

    /// The name of the table, for messages.
    pub fn name(&self) -> &str {
        &self.rows.name
    }

    /// The next rows; `None` after the last. A table without rows is an error.
    pub fn next(&mut self) -> Result<Option<Table>> {
        let Some(chunk) = self.next_chunk()? else {
            if self.labels.first + self.labels.rows == 0 {
                return Err(Failure::input(format!("{} has names of columns but no rows", self.rows.name)));
            }
            return Ok(None);
        };
        let mut values = Vec::with_capacity(chunk.rows * self.columns.len());
        let (table, rules, policy) = (&self.rows.name, &self.rows.rules, &self.policy);
        for (j, (column, counts)) in self.columns.iter().zip(&mut self.substitutions).enumerate() {
            let cells = ColumnCells { chunk: &chunk, j, column: &column.name, table, rules };
            match &column.kind {
                ColumnKind::Numeric => {
                    let unit = self.units.as_ref().map(|units| units[j].as_deref());
                    cells.check_notation(unit)?;
                    cells.numbers(&mut values, |i| policy.number(&cells, i, j, counts))?;
                }
                ColumnKind::Categorical { levels } => {
                    let substitute = |i| policy.code(&cells, i, (j, levels), counts);
                    cells.codes(policy.known_levels(levels), &mut values, substitute)?;
                }
            }
        }
        let names = self.name_column.iter().flat_map(|column| {
            let cells = ColumnCells { chunk: &chunk, j: self.columns.len(), column, table, rules };
            (0..chunk.rows).map(move |i| cells.text(i).into_owned())
        });
        self.labels = RowLabels {
            first: self.labels.first + self.labels.rows,
            rows: chunk.rows,
            names: names.collect(),
        };
        Ok(Some(Table::from_column_major(self.columns.clone(), chunk.rows, values)?))
    }

    /// The next rows; rows with missing cells are left out if requested.
    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        while let Some(chunk) = self.rows.next(&self.indices, self.chunk_rows)? {
            if !self.rows.rules.drop_missing {
                return Ok(Some(chunk));
            }
            let (table, rules) = (self.rows.name.as_str(), &self.rows.rules);
            let cells = |j| ColumnCells { chunk: &chunk, j, column: "", table, rules };
            let is_complete = |i: &usize| (0..self.columns.len()).all(|j| !cells(j).is_missing(*i));
            let complete_rows: Vec<usize> = (0..chunk.rows).filter(is_complete).collect();
            if complete_rows.len() < chunk.rows {
                note_once(&format!("{table}: rows with missing cells are left out"));
            }
            if !complete_rows.is_empty() {
                return Ok(Some(chunk.select(&complete_rows)));
            }
        }
        Ok(None)
    }

    /// Provenance entries about the cells that were filled in or had an unseen level, in the rows read so
    /// far.
    pub fn facts(&self) -> Vec<CardEntry> {
        self.policy.facts(&self.rows.name, &self.columns, &self.substitutions)
    }

    /// Reads all rows.
    pub fn read_all(&mut self) -> Result<Table> {
        let mut parts = Vec::new();
        while let Some(part) = self.next()? {
            parts.push(part);
        }
        let rows = parts.iter().map(Table::rows).sum();
        let mut values = Vec::with_capacity(rows * self.columns.len());
        for j in 0..self.columns.len() {
            parts.iter().for_each(|part| values.extend_from_slice(part.column(j)));
        }
        Ok(Table::from_column_major(self.columns.clone(), rows, values)?)
    }
}

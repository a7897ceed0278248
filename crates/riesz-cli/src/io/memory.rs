//! Tables that are read completely before their first row is returned, because their columns are known only
//! at the end.

use std::collections::BTreeMap;

use crate::exit::{Failure, Result};
use crate::io::chunk::{Chunk, Raw, Texts};
use crate::io::reader::TableReader;

/// A table of texts in memory.
#[derive(Debug, Default)]
pub struct MemoryRows {
    header: Vec<String>,
    columns: Vec<Texts>,
    /// The line, or row of a sheet, of each row; empty if rows have none.
    lines: Vec<u64>,
    rows: usize,
    next: usize,
    /// Error messages for columns that cannot be read because they hold values such as lists.
    unreadable: BTreeMap<usize, String>,
}

impl MemoryRows {
    /// A table without rows.
    pub fn new(header: Vec<String>) -> Self {
        let columns = vec![Texts::default(); header.len()];
        Self { header, columns, ..Self::default() }
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.header.len()
    }

    /// The index of the column `name`. A new column is added if there is none; its cells so far are missing.
    pub fn column(&mut self, name: &str) -> usize {
        if let Some(j) = self.header.iter().position(|existing| existing == name) {
            return j;
        }
        let mut cells = Texts::default();
        (0..self.rows).for_each(|_| cells.push(""));
        self.header.push(name.to_string());
        self.columns.push(cells);
        self.header.len() - 1
    }

    /// Records why a column cannot be read; the error is returned only if this column is requested.
    pub fn refuse_column(&mut self, column: usize, problem: String) {
        self.unreadable.entry(column).or_insert(problem);
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row; columns without a cell get a missing value.
    pub fn add(&mut self, cells: &[(usize, String)], line: Option<u64>) {
        cells.iter().for_each(|(j, cell)| self.columns[*j].push(cell.trim()));
        self.rows += 1;
        self.columns.iter_mut().filter(|column| column.len() < self.rows).for_each(|column| column.push(""));
        self.lines.extend(line);
    }

    /// The table; a table without columns is an error.
    pub fn finished(self, name: &str) -> Result<Self> {
        match self.header.is_empty() {
            true => Err(Failure::input(format!("{name} is empty: it has no columns"))),
            false => Ok(self),
        }
    }
}

impl TableReader for MemoryRows {
    fn header(&self) -> &[String] {
        &self.header
    }

    fn next(&mut self, selected: &[usize], limit: usize) -> Result<Option<Chunk>> {
        let rows = self.next..self.rows.min(self.next.saturating_add(limit));
        if rows.is_empty() {
            return Ok(None);
        }
        if let Some(problem) = selected.iter().find_map(|j| self.unreadable.get(j)) {
            return Err(Failure::input(problem.clone()));
        }
        self.next = rows.end;
        let part = |j: &usize| {
            let mut texts = Texts::default();
            rows.clone().for_each(|i| texts.push(self.columns[*j].get(i)));
            Raw::Texts(texts)
        };
        let columns = selected.iter().map(part).collect();
        let lines = self.lines.get(rows.clone()).unwrap_or_default().to_vec();
        Ok(Some(Chunk { rows: rows.len(), first: 0, lines, offsets: Vec::new(), columns }))
    }
}

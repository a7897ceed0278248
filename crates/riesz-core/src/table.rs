//! Tables of numbers with named columns, and players: groups of columns that are present or absent together.
//!
//! A [`Table`] is column-major, because its users (kernel factors, plots, Parquet) work on one column at a
//! time.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::columns::is_boolean;
use crate::error::{Error, Result, check_distinct, listed};
use crate::random::sorted_sample;

/// The meaning of a column's numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// A measured number.
    Numeric,
    /// A level: the number `k` represents `levels[k]`.
    Categorical {
        /// The levels' names, in the order of their codes.
        levels: Vec<String>,
    },
}

/// A column's name and meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Name, unique within its table.
    pub name: String,
    /// Numeric or categorical, with the levels.
    pub kind: ColumnKind,
}

impl Column {
    /// A numeric column.
    pub fn numeric(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: ColumnKind::Numeric }
    }

    /// Numeric columns without names, called `x0`, `x1`, … by their position, as in scikit-learn.
    pub fn numbered(width: usize) -> Vec<Self> {
        (0..width).map(|j| Self::numeric(format!("x{j}"))).collect()
    }

    /// The error for a row whose level is not among the known levels of this column.
    fn unseen(&self, row: usize, level: impl ToString, known: &[String]) -> Error {
        let (column, level, known) = (self.name.clone(), level.to_string(), listed(known));
        Error::UnseenLevel { row, column, level, known }
    }

    /// Formats `value` for the user: the level's name, or the number in its shortest form.
    pub fn format(&self, value: f64) -> String {
        let level = match &self.kind {
            ColumnKind::Categorical { levels } => levels.get(value as usize).cloned(),
            ColumnKind::Numeric => None,
        };
        level.unwrap_or_else(|| value.to_string())
    }
}

/// The name that [`Table::with_unknown_level`] gives to the additional level.
pub const UNKNOWN_LEVEL: &str = "(unseen)";

/// A table of `n` rows and `d` named columns of finite numbers. Clones share the numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawTable", into = "RawTable")]
pub struct Table {
    columns: Vec<Column>,
    rows: usize,
    values: Arc<Vec<f64>>,
}

/// The serialised form of [`Table`]; deserialisation makes the same checks as construction.
#[derive(Serialize, Deserialize)]
struct RawTable {
    columns: Vec<Column>,
    rows: usize,
    values: Vec<f64>,
}

impl TryFrom<RawTable> for Table {
    type Error = Error;
    fn try_from(raw: RawTable) -> Result<Self> {
        Self::from_column_major(raw.columns, raw.rows, raw.values)
    }
}

impl From<Table> for RawTable {
    fn from(table: Table) -> Self {
        Self { columns: table.columns, rows: table.rows, values: Arc::unwrap_or_clone(table.values) }
    }
}

impl Table {
    /// Builds a table from column-major `values` (`columns.len() * rows` numbers).
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DuplicateName`], [`Error::NotFinite`].
    pub fn from_column_major(columns: Vec<Column>, rows: usize, values: Vec<f64>) -> Result<Self> {
        if rows.checked_mul(columns.len()) != Some(values.len()) {
            return Err(Error::shape(
                "the table",
                "numbers",
                rows.saturating_mul(columns.len()),
                values.len(),
                format!("{rows} rows of {} columns", columns.len()),
            ));
        }
        check_distinct(columns.iter().map(|c| &c.name))?;
        if let Some(position) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::not_finite(
                position % rows,
                columns[position / rows].name.clone(),
                values[position],
            ));
        }
        for (j, column) in columns.iter().enumerate() {
            if let ColumnKind::Categorical { levels } = &column.kind {
                let bad = values[j * rows..(j + 1) * rows]
                    .iter()
                    .position(|&v| v < 0.0 || v.fract() != 0.0 || v >= levels.len() as f64);
                if let Some(row) = bad {
                    return Err(column.unseen(row, values[j * rows + row], levels));
                }
            }
        }
        Ok(Self { columns, rows, values: values.into() })
    }

    /// Builds a numeric table from rows; columns are named `x0, x1, …`.
    ///
    /// # Errors
    /// [`Error::Shape`] for ragged rows, [`Error::NotFinite`].
    pub fn from_rows<R: AsRef<[f64]>>(rows: &[R]) -> Result<Self> {
        let d = rows.first().map_or(0, |r| r.as_ref().len());
        let mut values = vec![0.0; d * rows.len()];
        for (i, row) in rows.iter().enumerate() {
            let row = row.as_ref();
            if row.len() != d {
                return Err(Error::shape(
                    format!("row {}", i + 1),
                    "numbers",
                    d,
                    row.len(),
                    "as in the first row",
                ));
            }
            for (j, &v) in row.iter().enumerate() {
                values[j * rows.len() + i] = v;
            }
        }
        Self::from_column_major(Column::numbered(d), rows.len(), values)
    }

    /// Builds a table from rows of numbers in these columns.
    ///
    /// # Errors
    /// As [`from_column_major`](Self::from_column_major).
    pub fn from_named_rows(columns: Vec<Column>, rows: &[Vec<f64>]) -> Result<Self> {
        let values = (0..columns.len()).flat_map(|j| rows.iter().map(move |row| row[j])).collect();
        Self::from_column_major(columns, rows.len(), values)
    }

    /// Number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[inline]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The columns, with their names and kinds.
    #[inline]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Column `j`, `n` numbers.
    #[inline]
    pub fn column(&self, j: usize) -> &[f64] {
        &self.values[j * self.rows..(j + 1) * self.rows]
    }

    /// All numbers, column by column.
    #[inline]
    pub fn column_major(&self) -> &[f64] {
        &self.values
    }

    /// The number in row `i`, column `j`.
    #[inline]
    pub fn get(&self, i: usize, j: usize) -> f64 {
        self.values[j * self.rows + i]
    }

    /// Copies row `i` into `out` (`d` numbers).
    #[inline]
    pub fn copy_row(&self, i: usize, out: &mut [f64]) {
        for (j, o) in out.iter_mut().enumerate() {
            *o = self.get(i, j);
        }
    }

    /// Row `i` as a new vector.
    pub fn row(&self, i: usize) -> Vec<f64> {
        (0..self.width()).map(|j| self.get(i, j)).collect()
    }

    /// The rows with the given indices as vectors, in that order.
    pub fn row_vectors(&self, indices: impl IntoIterator<Item = usize>) -> Vec<Vec<f64>> {
        indices.into_iter().map(|i| self.row(i)).collect()
    }

    /// The rows with the given indices, in that order.
    pub fn select_rows(&self, indices: &[usize]) -> Self {
        let mut values = Vec::with_capacity(indices.len() * self.width());
        for j in 0..self.width() {
            let column = self.column(j);
            values.extend(indices.iter().map(|&i| column[i]));
        }
        Self { columns: self.columns.clone(), rows: indices.len(), values: values.into() }
    }

    /// The rows in order, in tables of `size` rows; the last one may have fewer.
    pub fn chunks(&self, size: usize) -> impl Iterator<Item = Self> {
        (0..self.rows)
            .step_by(size)
            .map(move |start| self.select_rows(&(start..self.rows.min(start + size)).collect::<Vec<_>>()))
    }

    /// The first `count` rows, or all if there are fewer.
    pub fn head(&self, count: usize) -> Self {
        self.select_rows(&(0..self.rows.min(count)).collect::<Vec<_>>())
    }

    /// The columns with these indices, in this order.
    pub fn select_columns(&self, indices: &[usize]) -> Self {
        Self {
            columns: indices.iter().map(|&j| self.columns[j].clone()).collect(),
            rows: self.rows,
            values: Arc::new(indices.iter().flat_map(|&j| self.column(j).iter().copied()).collect()),
        }
    }

    /// These columns with permuted numbers: column j gets the numbers of column `from[j]`, which has the same
    /// kind.
    pub(crate) fn permute_columns(&self, from: &[usize]) -> Result<Self> {
        let values = from.iter().flat_map(|&j| self.column(j).iter().copied()).collect();
        Self::from_column_major(self.columns.clone(), self.rows, values)
    }

    /// A table of one row: the mean of each numeric column, and the most frequent level of each categorical
    /// column.
    pub fn mean_row(&self) -> Self {
        let summary = |(j, column): (usize, &Column)| match &column.kind {
            ColumnKind::Numeric => self.column(j).iter().map(|v| v / self.rows as f64).sum::<f64>(),
            ColumnKind::Categorical { levels } => {
                let count = |level: usize| self.column(j).iter().filter(|v| **v == level as f64).count();
                (0..levels.len()).rev().max_by_key(|&level| count(level)).unwrap_or(0) as f64
            }
        };
        let values: Vec<f64> = self.columns.iter().enumerate().map(summary).collect();
        Self::from_column_major(self.columns.clone(), 1, values).unwrap_or_else(|_| self.select_rows(&[0]))
    }

    /// The indices of `count` rows, drawn at random without replacement, in ascending order; all rows if
    /// there are no more than `count`.
    pub fn sample_rows(&self, count: usize, seed: u64) -> Vec<usize> {
        sorted_sample(self.rows, count.min(self.rows), seed)
    }

    /// The rows of this table followed by the rows of `below`, which has the same columns.
    ///
    /// # Errors
    /// [`Error::Shape`] if the columns differ.
    pub fn stack(&self, below: &Self) -> Result<Self> {
        if self.columns != below.columns {
            return Err(Error::shape(
                "the table below",
                "columns",
                self.width(),
                below.width(),
                "the same columns as above",
            ));
        }
        Ok(self.extended(below))
    }

    /// The rows of this table followed by the rows of `below`, with the columns of this table. The columns of
    /// `below` have the same kinds.
    pub(crate) fn extended(&self, below: &Self) -> Self {
        let mut values = Vec::with_capacity(self.values.len() + below.values.len());
        for j in 0..self.width() {
            values.extend_from_slice(self.column(j));
            values.extend_from_slice(below.column(j));
        }
        Self { columns: self.columns.clone(), rows: self.rows + below.rows, values: values.into() }
    }

    /// The index of the column called `name`.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn index_of(&self, name: &str) -> Result<usize> {
        index_of(&self.columns, name)
    }

    /// Returns the indices of numeric columns, and those of categorical ones.
    pub fn columns_by_kind(&self) -> (Vec<usize>, Vec<usize>) {
        (0..self.width()).partition(|&j| self.columns[j].kind == ColumnKind::Numeric)
    }

    /// Returns 1 for the rows whose column `j` has this level, and 0 for the others.
    pub fn indicator(&self, j: usize, level: usize) -> Vec<f64> {
        self.column(j).iter().map(|v| f64::from(u8::from(*v == level as f64))).collect()
    }

    /// These rows, with one additional level, the last, in every categorical column, for cells whose level is
    /// unknown. Its name is [`UNKNOWN_LEVEL`], in additional parentheses if a level already has that name.
    pub fn with_unknown_level(mut self) -> Self {
        for column in &mut self.columns {
            if let ColumnKind::Categorical { levels } = &mut column.kind {
                let mut name = UNKNOWN_LEVEL.to_string();
                while levels.contains(&name) {
                    name = format!("({name})");
                }
                levels.push(name);
            }
        }
        self
    }

    /// The columns of `target`, in that order, with categorical codes translated to the levels in
    /// `target`. Other columns are left out. This aligns rows with a model.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`], [`Error::UnseenLevel`], [`Error::WrongKind`].
    pub fn align_to(&self, target: &[Column]) -> Result<Self> {
        if self.columns == target {
            return Ok(self.clone());
        }
        let mut values = Vec::with_capacity(target.len() * self.rows);
        let index_by_name: HashMap<&str, usize> =
            self.columns.iter().enumerate().map(|(j, c)| (c.name.as_str(), j)).collect();
        for column in target {
            let j = *index_by_name
                .get(column.name.as_str())
                .ok_or_else(|| unknown(&self.columns, &column.name))?;
            match (&self.columns[j].kind, &column.kind) {
                (ColumnKind::Numeric, ColumnKind::Numeric) => values.extend_from_slice(self.column(j)),
                (ColumnKind::Categorical { levels: from }, ColumnKind::Categorical { levels: to }) => {
                    let code = |level| to.iter().position(|l| l == level);
                    let codes: Vec<Option<usize>> = from.iter().map(code).collect();
                    for (row, &v) in self.column(j).iter().enumerate() {
                        let unseen = || column.unseen(row, &from[v as usize], to);
                        values.push(codes[v as usize].ok_or_else(unseen)? as f64);
                    }
                }
                // In a table without other text, levels that look like numbers ("1", "2") are read as
                // numbers.
                (ColumnKind::Numeric, ColumnKind::Categorical { levels }) => {
                    for (row, &v) in self.column(j).iter().enumerate() {
                        let unseen = || column.unseen(row, v, levels);
                        values.push(level_of_number(levels, v).ok_or_else(unseen)? as f64);
                    }
                }
                (ColumnKind::Categorical { .. }, ColumnKind::Numeric) => {
                    return Err(Error::WrongKind {
                        column: column.name.clone(),
                        actual: "text",
                        expected: "numbers",
                    });
                }
            }
        }
        Ok(Self { columns: target.to_vec(), rows: self.rows, values: values.into() })
    }
}

/// The code of the level that `text` names. `text` may spell the level, or write the same number or truth
/// value in another way.
pub fn level_of_text(levels: &[String], text: &str) -> Option<usize> {
    let spelled = levels.iter().position(|level| level == text);
    spelled.or_else(|| match text.parse() {
        Ok(value) => level_of_number(levels, value),
        Err(_) if is_boolean(text) => levels.iter().position(|level| level.eq_ignore_ascii_case(text)),
        Err(_) => None,
    })
}

/// The code of the level that is the number `value`, in any spelling.
pub fn level_of_number(levels: &[String], value: f64) -> Option<usize> {
    levels.iter().position(|level| level.parse() == Ok(value))
}

fn index_of(columns: &[Column], name: &str) -> Result<usize> {
    columns.iter().position(|c| c.name == name).ok_or_else(|| unknown(columns, name))
}

fn unknown(columns: &[Column], name: &str) -> Error {
    Error::UnknownColumn { name: name.into(), known: listed(columns.iter().map(|c| &c.name)) }
}

/// One player of a game: a feature, or a group of columns that are present or absent together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Player {
    /// Name shown to the user.
    pub name: String,
    /// Indices of the player's columns in the model's table.
    pub columns: Vec<usize>,
}

/// The players of a game: a partition of a table's columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Players {
    players: Vec<Player>,
}

impl Players {
    /// One player per column, with the column's name.
    pub fn singletons(columns: &[Column]) -> Self {
        let player = |(j, c): (usize, &Column)| Player { name: c.name.clone(), columns: vec![j] };
        Self { players: columns.iter().enumerate().map(player).collect() }
    }

    /// The named groups, and one player for every column outside all groups. Players are in the order of
    /// their first columns.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`], [`Error::DuplicateName`], or [`Error::Parameter`] if a column is in two
    /// groups.
    pub fn named<S: AsRef<str>>(columns: &[Column], groups: &[(S, Vec<S>)]) -> Result<Self> {
        let mut taken = vec![false; columns.len()];
        let mut players: Vec<Player> = Vec::new();
        for (name, members) in groups {
            let mut player = Player { name: name.as_ref().to_string(), columns: Vec::new() };
            for member in members {
                let j = index_of(columns, member.as_ref())?;
                if std::mem::replace(&mut taken[j], true) {
                    return Err(Error::parameter(
                        "groups",
                        format!("'{}' in '{}'", member.as_ref(), name.as_ref()),
                        "a column belongs to one group only",
                    ));
                }
                player.columns.push(j);
            }
            if player.columns.is_empty() {
                return Err(Error::parameter("groups", name.as_ref(), "a group needs at least one column"));
            }
            player.columns.sort_unstable();
            players.push(player);
        }
        let singletons = Self::singletons(columns).players.into_iter();
        players.extend(singletons.filter(|player| !taken[player.columns[0]]));
        players.sort_by_key(|p| p.columns[0]);
        check_distinct(players.iter().map(|p| &p.name))?;
        Ok(Self { players })
    }

    /// The players.
    pub fn players(&self) -> &[Player] {
        &self.players
    }

    /// For each of `width` columns, the index of its player.
    pub fn player_of_column(&self, width: usize) -> Vec<usize> {
        let mut owner = vec![usize::MAX; width];
        for (p, player) in self.players.iter().enumerate() {
            for &j in &player.columns {
                owner[j] = p;
            }
        }
        owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_nan_or_other_lengths_are_refused() {
        let error = Table::from_rows(&[[1.0, 2.0], [3.0, f64::NAN]]).unwrap_err();
        assert_eq!(error.to_string(), "row 2 of column 'x1' is NaN: remove the row or fill the value in");
        assert!(Table::from_rows(&[vec![1.0], vec![1.0, 2.0]]).is_err());
    }

    #[test]
    fn samples_are_distinct_and_repeatable() {
        let table = |n: usize| Table::from_rows(&vec![[0.0]; n]).unwrap();
        let kept = table(50).sample_rows(20, 7);
        assert_eq!(kept, table(50).sample_rows(20, 7));
        assert_ne!(kept, table(50).sample_rows(20, 8));
        assert!(kept.windows(2).all(|w| w[0] < w[1]) && kept.len() == 20);
        assert_eq!(table(3).sample_rows(10, 0), [0, 1, 2]);
    }

    #[test]
    fn levels_are_matched_by_name() {
        let levels =
            |l: &[&str]| ColumnKind::Categorical { levels: l.iter().map(|s| s.to_string()).collect() };
        let ab = Column { name: "c".into(), kind: levels(&["a", "b"]) };
        let ba = Column { name: "c".into(), kind: levels(&["b", "a"]) };
        let table = Table::from_column_major(vec![ab], 2, vec![0.0, 1.0]).unwrap();
        assert_eq!(table.align_to(&[ba]).unwrap().column(0), [1.0, 0.0]);
        let only_a = Column { name: "c".into(), kind: levels(&["a"]) };
        assert!(matches!(table.align_to(&[only_a]), Err(Error::UnseenLevel { row: 1, .. })));
    }

    #[test]
    fn groups_partition_the_columns() {
        let columns: Vec<Column> = ["a", "b", "c"].map(Column::numeric).to_vec();
        let groups = Players::named(&columns, &[("bc", vec!["b", "c"])]).unwrap();
        assert_eq!(groups.player_of_column(3), [0, 1, 1]);
        assert!(Players::named(&columns, &[("g", vec!["a"]), ("h", vec!["a"])]).is_err());
        assert!(Players::named(&columns, &[("g", vec!["z"])]).is_err());
        assert!(Players::named(&columns, &[("a", vec!["b"])]).is_err());
    }
}

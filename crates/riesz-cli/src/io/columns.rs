//! Columns of a table read as a whole: their types, which [`riesz::columns`] decides, and a [`Table`] of
//! their values.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use riesz::columns::{Choice, ColumnType, FEW_ROWS, Profile, is_boolean, suspicions};
use riesz::model_card::CardEntry;
use riesz::{Column, ColumnKind, Table};

use super::cells::{ColumnCells, FRONT_END};
use super::model_rows::{CellPolicy, Substitutions};
use crate::console::{Console, note_once};
use crate::exit::{Failure, Result};
use crate::io::chunk::{CHUNK, Chunk, Raw};
use crate::io::input::{CellRules, OpenTable};

/// Whole columns of one table, in the chunks in which they were read.
pub struct Columns {
    /// The name of the table, for messages.
    pub name: String,
    rules: CellRules,
    chunks: Vec<Chunk>,
    /// The index of each column in the chunks.
    indices: HashMap<String, usize>,
    rows: usize,
    /// The profiles computed so far; several queries about a column need the same one.
    profiles: RefCell<HashMap<String, Rc<Profile>>>,
}

impl Columns {
    /// Reads the columns `names` of all rows.
    pub fn read(mut rows: OpenTable, names: &[String]) -> Result<Self> {
        let indices = rows.column_indices(names)?;
        rows.check_dense(names.len())?;
        let mut chunks = Vec::new();
        while let Some(chunk) = rows.next(&indices, CHUNK)? {
            chunks.push(chunk);
        }
        Self::from_chunks(rows.name, rows.rules, chunks, names)
    }

    /// Joins chunks of a table whose columns are called `names`.
    pub fn from_chunks(name: String, rules: CellRules, chunks: Vec<Chunk>, names: &[String]) -> Result<Self> {
        let rows = chunks.iter().map(|c| c.rows).sum();
        if rows == 0 {
            return Err(Failure::input(format!("{name} has names of columns but no rows")));
        }
        let indices = names.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect();
        let columns = Self { name, rules, chunks, indices, rows, profiles: RefCell::default() };
        if columns.rules.drop_missing { columns.without_missing() } else { Ok(columns) }
    }

    /// Leaves out the rows that have a missing cell, and prints a note that counts them.
    fn without_missing(self) -> Result<Self> {
        let mut complete = vec![true; self.rows];
        for name in self.indices.keys() {
            let missing =
                self.cells(name)?.flat_map(|cells| (0..cells.chunk.rows).map(move |i| cells.is_missing(i)));
            complete.iter_mut().zip(missing).for_each(|(complete, missing)| *complete &= !missing);
        }
        let dropped = complete.iter().filter(|complete| !**complete).count();
        if dropped == 0 {
            return Ok(self);
        }
        let (name, rows) = (self.name.clone(), self.rows);
        if dropped == rows {
            let is_empty = |column: &&String| {
                let empty = |cells: ColumnCells<'_>| (0..cells.chunk.rows).all(|i| cells.is_missing(i));
                self.cells(column).is_ok_and(|mut chunks| chunks.all(empty))
            };
            let mut empty: Vec<&String> = self.indices.keys().filter(is_empty).collect();
            empty.sort_unstable();
            let columns = match &empty[..] {
                [] => "the columns that lack values".to_string(),
                [one] => format!("column '{one}', which has no values,"),
                several => format!("the columns without values, {},", riesz::error::listed(several)),
            };
            return Err(Failure::input(format!(
                "{name}: every row has a missing cell, so no row is left: leave {columns} out"
            )));
        }
        note_once(&format!(
            "{name}: {dropped} of {rows} rows with missing cells were left out (first {})",
            self.describe_row(complete.iter().position(|complete| !complete).unwrap_or(0))
        ));
        Ok(self.select(&complete))
    }

    /// Keeps the rows at which `is_selected` is true.
    pub fn select(mut self, is_selected: &[bool]) -> Self {
        let mut start = 0;
        for chunk in &mut self.chunks {
            let selected: Vec<usize> = (0..chunk.rows).filter(|i| is_selected[start + i]).collect();
            start += chunk.rows;
            if selected.len() < chunk.rows {
                *chunk = chunk.select(&selected);
            }
        }
        self.rows = self.chunks.iter().map(|chunk| chunk.rows).sum();
        self.profiles = RefCell::default();
        self
    }

    /// Leaves out the rows whose weight is 0, with a warning that counts them.
    pub fn without_zero_weights(self, weight: Option<&String>) -> Result<Self> {
        let Some(name) = weight else { return Ok(self) };
        let has_weight: Vec<bool> = self.numbers(name)?.iter().map(|weight| *weight != 0.0).collect();
        let dropped = has_weight.iter().filter(|has_weight| !**has_weight).count();
        if dropped == 0 || dropped == has_weight.len() {
            return Ok(self);
        }
        note_once(&format!(
            "warning: {}: {dropped} of {} rows whose '{name}' is 0 were left out",
            self.name,
            has_weight.len()
        ));
        Ok(self.select(&has_weight))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn index(&self, name: &str) -> Result<usize> {
        self.indices
            .get(name)
            .copied()
            .ok_or_else(|| Failure::input(format!("{}: there is no column '{name}'", self.name)))
    }

    /// The cells of a column, in chunks.
    fn cells<'a>(&'a self, name: &'a str) -> Result<impl Iterator<Item = ColumnCells<'a>>> {
        let j = self.index(name)?;
        let (table, rules) = (self.name.as_str(), &self.rules);
        Ok(self.chunks.iter().map(move |chunk| ColumnCells { chunk, j, column: name, table, rules }))
    }

    /// The first cell that is not missing, as written in the file; empty if all cells are missing.
    pub fn example(&self, name: &str) -> Result<String> {
        let first = |cells: ColumnCells<'_>| {
            (0..cells.chunk.rows).find(|&i| !cells.is_missing(i)).map(|i| cells.text(i).into_owned())
        };
        Ok(self.cells(name)?.find_map(first).unwrap_or_default())
    }

    /// The place of row `row` in the file, for messages.
    pub fn describe_row(&self, row: usize) -> String {
        let mut start = 0;
        for chunk in &self.chunks {
            if row < start + chunk.rows {
                return chunk.location(row - start);
            }
            start += chunk.rows;
        }
        format!("row {}", row + 1)
    }

    /// Counts the cells of a column by their notation.
    pub fn profile(&self, name: &str) -> Result<Rc<Profile>> {
        if let Some(profile) = self.profiles.borrow().get(name) {
            return Ok(profile.clone());
        }
        let mut profile = Profile::new(self.rules.format, &self.rules.missing);
        for cells in self.cells(name)? {
            match &cells.chunk.columns[cells.j] {
                Raw::Numbers(numbers) => numbers.iter().for_each(|v| profile.add_number(*v)),
                Raw::Texts(texts) => texts.iter().for_each(|text| profile.add_text(text)),
            }
        }
        let profile = Rc::new(profile);
        self.profiles.borrow_mut().insert(name.to_string(), profile.clone());
        Ok(profile)
    }

    /// Decides the type of a column. With `can_ignore`, an error suggests leaving the column out.
    pub fn column_type(&self, name: &str, can_ignore: bool) -> Result<ColumnType> {
        self.profile(name)?.decide(self.rules.choice(name)).map_err(|problem| {
            let row = self.describe_row(usize::try_from(problem.row).unwrap_or(usize::MAX));
            Failure::input(format!("{}: {}", self.name, problem.sentence(name, &row, FRONT_END, can_ignore)))
        })
    }

    /// Whether a column holds categories. Prints a note if cells are read differently from how they are
    /// written.
    pub fn is_categorical(&self, name: &str, can_ignore: bool) -> Result<bool> {
        let column_type = self.column_type(name, can_ignore)?;
        self.print_remark(name, &column_type);
        Ok(column_type.categorical)
    }

    fn print_remark(&self, name: &str, column_type: &ColumnType) {
        if let Some(remark) = &column_type.remark {
            note_once(&format!("{}: column '{name}': {remark}", self.name));
        }
    }

    /// The units of the columns among `names` whose numbers have one.
    pub fn units(&self, names: &[String]) -> Result<Vec<(String, String)>> {
        let mut units = Vec::new();
        for name in names {
            let column_type = self.profile(name)?.decide(self.rules.choice(name));
            if let Ok(ColumnType { unit: Some(unit), categorical: false, .. }) = column_type {
                units.push((name.clone(), unit));
            }
        }
        Ok(units)
    }

    /// A column as numbers.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        self.numbers_where(name, |cells, i| Err(cells.refuse(i, self.rules.missing_remedy)))
    }

    /// A column as numbers, with NaN for missing cells.
    pub fn numbers_or_missing(&self, name: &str) -> Result<Vec<f64>> {
        self.numbers_where(name, |cells, i| match cells.is_missing(i) {
            true => Ok(f64::NAN),
            false => Err(cells.refuse(i, "")),
        })
    }

    /// A column as numbers, whatever its profile says. `substitute` gives the number for a cell that is not a
    /// number.
    fn numbers_where(
        &self,
        name: &str,
        mut substitute: impl FnMut(&ColumnCells<'_>, usize) -> Result<f64>,
    ) -> Result<Vec<f64>> {
        let profile = self.profile(name)?;
        let choice = self.rules.choice(name);
        let as_numbers = || profile.decide(Some(Choice::Number));
        let decision = match profile.decide(choice.filter(|c| *c == Choice::Number)) {
            Ok(column_type) if !column_type.categorical => Ok(column_type),
            // A cell that is not a number is reported by `substitute`, with its row.
            Ok(_) => as_numbers().or_else(|_| {
                Ok(ColumnType { categorical: false, reason: String::new(), remark: None, unit: None })
            }),
            Err(problem) => Err(problem),
        };
        match decision {
            Ok(column_type) => self.print_remark(name, &column_type),
            Err(problem) if problem.is_about_notation() => {
                let row = self.describe_row(usize::try_from(problem.row).unwrap_or(usize::MAX));
                return Err(Failure::input(format!(
                    "{}: {}",
                    self.name,
                    problem.sentence(name, &row, FRONT_END, false)
                )));
            }
            // Other problems are reported by `substitute`, too.
            Err(_) => {}
        }
        let mut out = Vec::with_capacity(self.rows);
        for cells in self.cells(name)? {
            cells.numbers(&mut out, |i| substitute(&cells, i))?;
        }
        Ok(out)
    }

    /// The sorted levels of a column, and the code of each cell.
    pub fn levels(&self, name: &str) -> Result<(Vec<String>, Vec<f64>)> {
        self.levels_where(name, |cells, i| Err(cells.refuse(i, self.rules.missing_remedy)))
    }

    /// The sorted levels of a column, and the code of each cell: NaN for a missing one.
    pub fn levels_or_missing(&self, name: &str) -> Result<(Vec<String>, Vec<f64>)> {
        self.levels_where(name, |cells, i| match cells.is_missing(i) {
            true => Ok(()),
            false => Err(cells.refuse(i, "")),
        })
    }

    /// The sorted levels of a column, and the code of each cell: NaN for a missing or infinite cell that
    /// `check` accepts.
    fn levels_where(
        &self,
        name: &str,
        check: impl Fn(&ColumnCells<'_>, usize) -> Result<()>,
    ) -> Result<(Vec<String>, Vec<f64>)> {
        // Every spelling is stored once; each row has the index of its spelling.
        let (mut spellings, mut index_of_spelling) = (Vec::new(), HashMap::new());
        let mut spelling_of_row: Vec<Option<usize>> = Vec::with_capacity(self.rows);
        for cells in self.cells(name)? {
            for i in 0..cells.chunk.rows {
                let infinite = matches!(&cells.chunk.columns[cells.j], Raw::Numbers(v) if v[i].is_infinite());
                if infinite || cells.is_missing(i) {
                    check(&cells, i)?;
                    spelling_of_row.push(None);
                    continue;
                }
                let cell = cells.text(i);
                let index = index_of_spelling.get(cell.as_ref()).copied().unwrap_or_else(|| {
                    spellings.push(cell.to_string());
                    index_of_spelling.insert(cell.into_owned(), spellings.len() - 1);
                    spellings.len() - 1
                });
                spelling_of_row.push(Some(index));
            }
        }
        self.unify_spellings(name, &mut spellings);
        let levels = sorted_levels(spellings.clone());
        let code: HashMap<&str, f64> =
            levels.iter().enumerate().map(|(k, l)| (l.as_str(), k as f64)).collect();
        let code_of_spelling: Vec<f64> = spellings.iter().map(|l| code[l.as_str()]).collect();
        let codes = spelling_of_row
            .into_iter()
            .map(|index| index.map_or(f64::NAN, |index| code_of_spelling[index]))
            .collect();
        Ok((levels, codes))
    }

    /// Gives all spellings of one level the same name, and prints a note if that is not obvious.
    fn unify_spellings(&self, name: &str, spellings: &mut [String]) {
        // 2 and 2.0 are one level, spelled 2; codes such as 02139 keep their zeros.
        let padded = |l: &String| l.len() > 1 && l.starts_with('0') && !l.starts_with("0.");
        let exact = |l: &String| l.parse::<f64>().is_ok_and(|v| v.abs() < 9e15 || v.to_string() == *l);
        if spellings.iter().all(exact) {
            for level in spellings.iter_mut().filter(|l| !padded(l)) {
                *level = level.parse::<f64>().map_or_else(|_| level.clone(), |v| v.to_string());
            }
            let number = |l: &String| l.parse::<f64>().ok();
            let pair = spellings.iter().filter(|l| padded(l)).find_map(|code| {
                Some((code, spellings.iter().find(|other| *other != code && number(other) == number(code))?))
            });
            if let Some((code, other)) = pair {
                note_once(&format!(
                    "warning: {}: column '{name}': '{code}' and '{other}' are two categories, because \
                     numbers with leading zeros are codes: correct the table if they are the same",
                    self.name
                ));
            }
            return;
        }
        let mut folded: Vec<String> = spellings.iter().map(|l| l.to_lowercase()).collect();
        folded.sort_unstable();
        folded.dedup();
        if folded.len() == spellings.len() {
            return;
        }
        if spellings.iter().all(|l| is_boolean(l)) {
            note_once(&format!(
                "{}: column '{name}': spellings of true and false that differ in case are one level each",
                self.name
            ));
            spellings.iter_mut().for_each(|l| *l = l.to_lowercase());
            return;
        }
        let pair = spellings.iter().enumerate().find_map(|(i, level)| {
            let other = spellings[..i].iter().find(|other| other.to_lowercase() == level.to_lowercase())?;
            Some((other, level))
        });
        if let Some((first, other)) = pair {
            note_once(&format!(
                "warning: {}: column '{name}': '{first}' and '{other}' differ in case only and are two \
                 categories: correct the table if they are the same",
                self.name
            ));
        }
    }

    /// A table of the columns `names`. Columns of text and those in `categorical` become categories. Warns of
    /// numbers that are probably not measurements, and refuses texts that are labels of rows.
    pub fn table(&self, names: &[String], categorical: &[String], console: &Console) -> Result<Table> {
        let table = self.table_as_given(names, categorical)?;
        self.check(&table, categorical, console)?;
        Ok(table)
    }

    /// Warns of numbers of a table that are probably not measurements, and refuses texts that are labels of
    /// rows. Columns in `stated` are exempt, since the user declared them categories.
    pub fn check(&self, table: &Table, stated: &[String], console: &Console) -> Result<()> {
        let mut labels = Vec::new();
        for (j, column) in table.columns().iter().enumerate() {
            match &column.kind {
                ColumnKind::Numeric => self.print_suspicions(&column.name, table.column(j), true),
                ColumnKind::Categorical { levels } => {
                    let chosen = stated.contains(&column.name) || self.rules.choice(&column.name).is_some();
                    if chosen || self.rows < FEW_ROWS {
                        continue;
                    }
                    if 10 * levels.len() >= 9 * self.rows {
                        labels.push((column.name.as_str(), levels.len()));
                    } else if self.rows > 20 && 2 * levels.len() > self.rows {
                        console.warn(format!(
                            "column '{0}' has {1} different texts in {2} rows; leave it out with --ignore \
                             '{0}' if it is a label",
                            column.name,
                            levels.len(),
                            self.rows
                        ));
                    }
                }
            }
        }
        match &labels[..] {
            [] => Ok(()),
            [(name, levels), ..] => {
                let names: Vec<&str> = labels.iter().map(|(name, _)| *name).collect();
                let further_text = match names.len() {
                    1 => String::new(),
                    n => format!(", and {} more columns are similar", n - 1),
                };
                Err(Failure::input(format!(
                    "{}: column '{name}' has {levels} different texts in {} rows{further_text}: leave {} out \
                     with {}, or give {} if its texts are categories",
                    self.name,
                    self.rows,
                    if names.len() == 1 { "it" } else { "them" },
                    FRONT_END.left_out(&names),
                    FRONT_END.choice(name, "text"),
                )))
            }
        }
    }

    /// Warns of numbers of a column that are probably not measurements; NaN is a missing value.
    pub fn print_suspicions(&self, column: &str, values: &[f64], can_ignore: bool) {
        let rows: Vec<usize> = (0..values.len()).filter(|&row| !values[row].is_nan()).collect();
        let present: Vec<f64> = rows.iter().map(|&row| values[row]).collect();
        for suspicion in suspicions(&present) {
            let sentence = suspicion.sentence(column, |k| self.describe_row(rows[k]), FRONT_END, can_ignore);
            note_once(&format!("warning: {}: {sentence}", self.name));
        }
    }

    /// A table in the columns of a model, with the policy for missing cells and for categories that the model
    /// has not seen. Also returns provenance entries about such cells.
    pub fn table_for_model(
        &self,
        model_columns: &[Column],
        policy: &CellPolicy,
    ) -> Result<(Table, Vec<CardEntry>)> {
        let mut values = Vec::with_capacity(model_columns.len() * self.rows);
        let mut counts = vec![Substitutions::default(); model_columns.len()];
        for (j, (column, counts)) in model_columns.iter().zip(&mut counts).enumerate() {
            match &column.kind {
                ColumnKind::Numeric => values
                    .extend(self.numbers_where(&column.name, |cells, i| policy.number(cells, i, j, counts))?),
                ColumnKind::Categorical { levels } => {
                    for cells in self.cells(&column.name)? {
                        let substitute = |i| policy.code(&cells, i, (j, levels), counts);
                        cells.codes(policy.known_levels(levels), &mut values, substitute)?;
                    }
                }
            }
        }
        let table = Table::from_column_major(model_columns.to_vec(), self.rows, values)?;
        Ok((table, policy.facts(&self.name, model_columns, &counts)))
    }

    /// A table of the columns `names` without the checks of [`table`](Self::table).
    pub fn table_as_given(&self, names: &[String], categorical: &[String]) -> Result<Table> {
        let mut columns = Vec::with_capacity(names.len());
        let mut values = Vec::with_capacity(names.len() * self.rows);
        for name in names {
            if !categorical.contains(name) && !self.is_categorical(name, true)? {
                columns.push(Column::numeric(name));
                values.extend(self.numbers(name)?);
                continue;
            }
            let (levels, codes) = self.levels(name)?;
            columns.push(Column { name: name.clone(), kind: ColumnKind::Categorical { levels } });
            values.extend(codes);
        }
        Ok(Table::from_column_major(columns, self.rows, values)?)
    }
}

/// The distinct levels: sorted as numbers if all are numbers, else by name.
pub fn sorted_levels(mut levels: Vec<String>) -> Vec<String> {
    if levels.iter().all(|l| l.parse::<f64>().is_ok()) {
        let value = |s: &String| s.parse::<f64>().unwrap_or(f64::NAN);
        levels.sort_by(|a, b| value(a).total_cmp(&value(b)).then_with(|| a.cmp(b)));
    } else {
        levels.sort_unstable();
    }
    levels.dedup();
    levels
}

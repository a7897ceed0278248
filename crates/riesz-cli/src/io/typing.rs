//! From what a file holds to a [`Table`]: cells become numbers or codes of categories, as [`riesz::columns`] decides, and
//! whatever is neither is refused.

use std::borrow::Cow;
use std::collections::HashMap;

use riesz::columns::{
    Choice, ColumnType, FEW_ROWS, FrontEnd, Profile, Suspicion, WrittenNumber, is_boolean, is_missing,
    parse_number, suspicions,
};
use riesz::explanation::Fact;
use riesz::table::{level_of_number, level_of_text};
use riesz::{Column, ColumnKind, Table};

use crate::console::{Console, note_once};
use crate::failure::{Failure, Result};
use crate::io::chunk::{Chunk, Raw};
use crate::io::input::{CellRules, OpenTable};

/// Rows read at a time, where the width does not ask for fewer.
pub const CHUNK: usize = 4096;

/// The front end in whose options remedies are spelled.
const FRONT: FrontEnd = FrontEnd::CommandLine;

/// Reads whole columns of one table and decides what they hold.
pub struct Columns {
    /// The table's name, for messages.
    pub name: String,
    rules: CellRules,
    chunks: Vec<Chunk>,
    /// Where each stands in the chunks.
    wanted: HashMap<String, usize>,
    rows: usize,
}

impl Columns {
    /// Reads the columns `wanted` of all rows.
    pub fn read(mut rows: OpenTable, wanted: &[String]) -> Result<Self> {
        let indices = rows.places(wanted)?;
        rows.check_dense(wanted.len())?;
        let mut chunks = Vec::new();
        while let Some(chunk) = rows.next(&indices, CHUNK)? {
            chunks.push(chunk);
        }
        Self::of(rows.name, rows.rules, chunks, wanted)
    }

    /// Of chunks of a table that have these columns.
    pub fn of(name: String, rules: CellRules, chunks: Vec<Chunk>, wanted: &[String]) -> Result<Self> {
        let rows = chunks.iter().map(|c| c.rows).sum();
        if rows == 0 {
            return Err(Failure::input(format!("{name} has names of columns but no rows")));
        }
        let wanted = wanted.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
        let all = Self { name, rules, chunks, wanted, rows };
        if all.rules.drop_missing { all.without_missing() } else { Ok(all) }
    }

    /// The rows that have a value in every column.
    fn without_missing(self) -> Result<Self> {
        let mut complete = vec![true; self.rows];
        for name in self.wanted.keys() {
            let cells =
                self.places(name)?.flat_map(|place| (0..place.chunk.rows).map(move |i| place.is_missing(i)));
            complete.iter_mut().zip(cells).for_each(|(complete, missing)| *complete &= !missing);
        }
        let dropped = complete.iter().filter(|complete| !**complete).count();
        if dropped == 0 {
            return Ok(self);
        }
        let (name, rows) = (self.name.clone(), self.rows);
        if dropped == rows {
            return Err(Failure::input(format!(
                "{name}: every row has a missing cell, and none is left: leave the columns out that lack values"
            )));
        }
        note_once(&format!(
            "{name}: {dropped} of {rows} rows with missing cells were left out (first {})",
            self.row_words(complete.iter().position(|complete| !complete).unwrap_or(0))
        ));
        Ok(self.select(&complete))
    }

    /// The rows of which `kept` says so.
    pub fn select(mut self, kept: &[bool]) -> Self {
        let mut before = 0;
        for chunk in &mut self.chunks {
            let own: Vec<usize> = (0..chunk.rows).filter(|i| kept[before + i]).collect();
            before += chunk.rows;
            if own.len() < chunk.rows {
                *chunk = chunk.select(&own);
            }
        }
        self.rows = self.chunks.iter().map(|chunk| chunk.rows).sum();
        self
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn at(&self, name: &str) -> Result<usize> {
        self.wanted
            .get(name)
            .copied()
            .ok_or_else(|| Failure::input(format!("{}: there is no column '{name}'", self.name)))
    }

    fn places<'a>(&'a self, name: &'a str) -> Result<impl Iterator<Item = Place<'a>>> {
        let j = self.at(name)?;
        let (table, rules) = (self.name.as_str(), &self.rules);
        Ok(self.chunks.iter().map(move |chunk| Place { chunk, j, column: name, name: table, rules }))
    }

    /// The first cell that is not missing, as the file has it; empty if all are.
    pub fn example(&self, name: &str) -> Result<String> {
        let cell = |place: Place<'_>| {
            (0..place.chunk.rows).find(|&i| !place.is_missing(i)).map(|i| place.text(i).into_owned())
        };
        Ok(self.places(name)?.find_map(cell).unwrap_or_default())
    }

    /// Where row `row` is, for the user.
    pub fn row_words(&self, row: usize) -> String {
        let mut before = 0;
        for chunk in &self.chunks {
            if row < before + chunk.rows {
                return chunk.place(row - before);
            }
            before += chunk.rows;
        }
        format!("row {}", row + 1)
    }

    /// Counts the cells of a column by their notation.
    pub fn profile(&self, name: &str) -> Result<Profile> {
        let mut profile = Profile::new(self.rules.format, &self.rules.missing);
        for place in self.places(name)? {
            match &place.chunk.columns[place.j] {
                Raw::Numbers(numbers) => numbers.iter().for_each(|v| profile.add_number(*v)),
                Raw::Texts(texts) => texts.iter().for_each(|text| profile.add_text(text)),
            }
        }
        Ok(profile)
    }

    /// Decides a column's type; `can_ignore` says whether the command can do without it.
    pub fn kind(&self, name: &str, can_ignore: bool) -> Result<ColumnType> {
        let found = self.profile(name)?.decide(self.rules.choice(name));
        found.map_err(|problem| {
            let row = self.row_words(usize::try_from(problem.row).unwrap_or(usize::MAX));
            Failure::input(format!("{}: {}", self.name, problem.sentence(name, &row, FRONT, can_ignore)))
        })
    }

    /// Whether the column holds categories. The user is told where its cells are not taken as they are written.
    pub fn is_categorical(&self, name: &str, can_ignore: bool) -> Result<bool> {
        let kind = self.kind(name, can_ignore)?;
        self.remark(name, &kind);
        Ok(kind.categorical)
    }

    fn remark(&self, name: &str, kind: &ColumnType) {
        if let Some(remark) = &kind.remark {
            note_once(&format!("{}: column '{name}': {remark}", self.name));
        }
    }

    /// The column as numbers.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        self.numbers_where(name, |place, i| Err(place.refuse(i, self.rules.missing_remedy)))
    }

    /// The column as numbers, NaN where a cell is missing.
    pub fn numbers_or_missing(&self, name: &str) -> Result<Vec<f64>> {
        self.numbers_where(name, |place, i| match place.is_missing(i) {
            true => Ok(f64::NAN),
            false => Err(place.refuse(i, "")),
        })
    }

    /// The column as numbers, which it must have whatever it looks like, with those of `stray` where a cell is none.
    fn numbers_where(
        &self,
        name: &str,
        stray: impl Fn(&Place<'_>, usize) -> Result<f64>,
    ) -> Result<Vec<f64>> {
        let profile = self.profile(name)?;
        let choice = self.rules.choice(name);
        let as_numbers = || profile.decide(Some(Choice::Number));
        let kind = match profile.decide(choice.filter(|c| *c == Choice::Number)) {
            Ok(kind) if !kind.categorical => Ok(kind),
            // A cell that is no number is named below, with its row.
            Ok(_) => as_numbers()
                .or_else(|_| Ok(ColumnType { categorical: false, reason: String::new(), remark: None })),
            Err(problem) => Err(problem),
        };
        match kind {
            Ok(kind) => self.remark(name, &kind),
            Err(problem) if problem.is_about_notation() => {
                let row = self.row_words(usize::try_from(problem.row).unwrap_or(usize::MAX));
                return Err(Failure::input(format!(
                    "{}: {}",
                    self.name,
                    problem.sentence(name, &row, FRONT, false)
                )));
            }
            // As above.
            Err(_) => {}
        }
        let mut out = Vec::with_capacity(self.rows);
        for place in self.places(name)? {
            place.numbers(&mut out, |i| stray(&place, i))?;
        }
        Ok(out)
    }

    /// The column as codes of sorted levels.
    pub fn levels(&self, name: &str) -> Result<(Vec<String>, Vec<f64>)> {
        self.levels_where(name, |place, i| Err(place.refuse(i, self.rules.missing_remedy)))
    }

    /// The column as codes of sorted levels, NaN where a cell is missing.
    pub fn levels_or_missing(&self, name: &str) -> Result<(Vec<String>, Vec<f64>)> {
        self.levels_where(name, |place, i| match place.is_missing(i) {
            true => Ok(()),
            false => Err(place.refuse(i, "")),
        })
    }

    /// The column as codes of sorted levels, NaN where `stray` lets a cell pass that is none.
    fn levels_where(
        &self,
        name: &str,
        stray: impl Fn(&Place<'_>, usize) -> Result<()>,
    ) -> Result<(Vec<String>, Vec<f64>)> {
        // Each spelling once, and of every row which it is: rows are many.
        let (mut spelled, mut known) = (Vec::new(), HashMap::new());
        let mut cells: Vec<Option<usize>> = Vec::with_capacity(self.rows);
        for place in self.places(name)? {
            for i in 0..place.chunk.rows {
                let infinite = matches!(&place.chunk.columns[place.j], Raw::Numbers(v) if v[i].is_infinite());
                if infinite || place.is_missing(i) {
                    stray(&place, i)?;
                    cells.push(None);
                    continue;
                }
                let cell = place.text(i);
                let at = known.get(cell.as_ref()).copied().unwrap_or_else(|| {
                    spelled.push(cell.to_string());
                    known.insert(cell.into_owned(), spelled.len() - 1);
                    spelled.len() - 1
                });
                cells.push(Some(at));
            }
        }
        self.unify(name, &mut spelled);
        let levels = in_order(spelled.clone());
        let code: HashMap<&str, f64> =
            levels.iter().enumerate().map(|(k, l)| (l.as_str(), k as f64)).collect();
        let of_spelled: Vec<f64> = spelled.iter().map(|l| code[l.as_str()]).collect();
        let codes = cells.into_iter().map(|at| at.map_or(f64::NAN, |at| of_spelled[at])).collect();
        Ok((levels, codes))
    }

    /// Gives different spellings of one level one name, and says so where that is not obvious.
    fn unify(&self, name: &str, spelled: &mut [String]) {
        // 2 and 2.0 are one level, spelled 2; codes such as 02139 keep their zeros.
        let padded = |l: &String| l.len() > 1 && l.starts_with('0') && !l.starts_with("0.");
        let exact = |l: &String| l.parse::<f64>().is_ok_and(|v| v.abs() < 9e15 || v.to_string() == *l);
        if spelled.iter().all(exact) && !spelled.iter().any(padded) {
            spelled
                .iter_mut()
                .for_each(|l| *l = l.parse::<f64>().map_or_else(|_| l.clone(), |v| v.to_string()));
            return;
        }
        let mut folded: Vec<String> = spelled.iter().map(|l| l.to_lowercase()).collect();
        folded.sort_unstable();
        folded.dedup();
        if folded.len() == spelled.len() {
            return;
        }
        if spelled.iter().all(|l| is_boolean(l)) {
            note_once(&format!(
                "{}: column '{name}': spellings of true and false that differ in case are one level each",
                self.name
            ));
            spelled.iter_mut().for_each(|l| *l = l.to_lowercase());
            return;
        }
        let pair = spelled.iter().enumerate().find_map(|(i, one)| {
            let other = spelled[..i].iter().find(|other| other.to_lowercase() == one.to_lowercase())?;
            Some((other, one))
        });
        if let Some((one, other)) = pair {
            note_once(&format!(
                "warning: {}: column '{name}': '{one}' and '{other}' differ in case only and are two categories: \
                 correct the table if they are one",
                self.name
            ));
        }
    }

    /// A table of the columns `names`; those that hold text, and those in `categorical`, become levels. Warns of
    /// numbers that are probably no measurements, and refuses texts that are labels of rows.
    pub fn table(&self, names: &[String], categorical: &[String], console: &Console) -> Result<Table> {
        let table = self.table_as_given(names, categorical)?;
        self.check(&table, categorical, console)?;
        Ok(table)
    }

    /// Warns of numbers of a table that are probably no measurements, and refuses texts that are labels of rows, but for
    /// the columns `stated` that the user calls categories.
    pub fn check(&self, table: &Table, stated: &[String], console: &Console) -> Result<()> {
        let mut labels = Vec::new();
        for (j, column) in table.columns().iter().enumerate() {
            match &column.kind {
                ColumnKind::Numeric => {
                    for suspicion in suspicions(table.column(j)) {
                        self.warn_of(&suspicion, &column.name);
                    }
                }
                ColumnKind::Categorical { levels } => {
                    let chosen = stated.contains(&column.name) || self.rules.choice(&column.name).is_some();
                    if chosen || self.rows < FEW_ROWS {
                        continue;
                    }
                    if 10 * levels.len() >= 9 * self.rows {
                        labels.push((column.name.as_str(), levels.len()));
                    } else if self.rows > 20 && 2 * levels.len() > self.rows {
                        console.warn(format!(
                            "column '{0}' has {1} different texts in {2} rows; leave it out with --ignore '{0}' if \
                             it is a label",
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
                let others = match names.len() {
                    1 => String::new(),
                    n => format!(", and so have {} more columns", n - 1),
                };
                Err(Failure::input(format!(
                    "{}: column '{name}' has {levels} different texts in {} rows{others}: leave {} out with {}, or \
                     give {} if its texts are categories",
                    self.name,
                    self.rows,
                    if names.len() == 1 { "it" } else { "them" },
                    FRONT.left_out(&names),
                    FRONT.choice(name, "text"),
                )))
            }
        }
    }

    fn warn_of(&self, suspicion: &Suspicion, column: &str) {
        let sentence = suspicion.sentence(column, |row| self.row_words(row), FRONT);
        note_once(&format!("warning: {}: {sentence}", self.name));
    }

    /// A table of columns that are known: numbers, or levels, which need not be those that are known.
    pub fn table_like(&self, known: &[Column]) -> Result<Table> {
        let mut columns = Vec::with_capacity(known.len());
        let mut values = Vec::with_capacity(known.len() * self.rows);
        for column in known {
            if column.kind == ColumnKind::Numeric {
                columns.push(column.clone());
                values.extend(self.numbers(&column.name)?);
                continue;
            }
            let (levels, codes) = self.levels(&column.name)?;
            columns.push(Column { name: column.name.clone(), kind: ColumnKind::Categorical { levels } });
            values.extend(codes);
        }
        Ok(Table::from_column_major(columns, self.rows, values)?)
    }

    /// A table of the columns `names` without a second look at what they hold.
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

/// Levels, each once: by their numbers if all are numbers, else by name.
pub fn in_order(mut levels: Vec<String>) -> Vec<String> {
    if levels.iter().all(|l| l.parse::<f64>().is_ok()) {
        let value = |s: &String| s.parse::<f64>().unwrap_or(f64::NAN);
        levels.sort_by(|a, b| value(a).total_cmp(&value(b)).then_with(|| a.cmp(b)));
    } else {
        levels.sort_unstable();
    }
    levels.dedup();
    levels
}

/// Where a cell is that cannot be taken.
struct Place<'a> {
    chunk: &'a Chunk,
    /// Its column in the chunk.
    j: usize,
    /// The column's name.
    column: &'a str,
    /// The table's name.
    name: &'a str,
    /// The rules for its cells.
    rules: &'a CellRules,
}

impl Place<'_> {
    /// Why the cell of row `i` cannot be a number; `remedy` is a further one for missing cells.
    fn refuse(&self, i: usize, remedy: &str) -> Failure {
        let cell = self.text(i);
        let problem = if cell.is_empty() {
            format!("is empty: fill the value in or remove the row{remedy}")
        } else if self.is_missing(i) {
            format!("is missing ('{cell}'): fill the value in or remove the row{remedy}")
        } else if cell.parse::<f64>().is_ok() {
            format!("is '{cell}', which is not a finite number: correct it or remove the row")
        } else if riesz::columns::has_decimal_comma(&cell) {
            format!("is '{cell}', which has a decimal comma: give --decimal ,")
        } else if cell.starts_with(['<', '>', '\u{2264}', '\u{2265}']) {
            format!(
                "is '{cell}', which is a bound and not a number: write a number in its place (the middle of what it \
                 can be), or give {} to take it for a missing value, which leaves out rows of one kind",
                FRONT.missing_mark(&cell)
            )
        } else {
            format!(
                "is '{cell}', which is not a number: correct it, or give {} if it stands for a missing value",
                FRONT.missing_mark(&cell)
            )
        };
        self.failure(i, &problem)
    }

    fn failure(&self, i: usize, problem: &str) -> Failure {
        Failure::input(format!(
            "{}: {} of column '{}' {problem}",
            self.name,
            self.chunk.place(i),
            self.column
        ))
    }

    /// The cell of row `i` as text.
    fn text(&self, i: usize) -> Cow<'_, str> {
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) => Cow::Owned(v[i].to_string()),
            Raw::Texts(t) => Cow::Borrowed(riesz::columns::trimmed(t.get(i))),
        }
    }

    /// Whether the cell of row `i` holds no value.
    fn is_missing(&self, i: usize) -> bool {
        let marks = &self.rules.missing;
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) => v[i].is_nan() || !marks.is_empty() && marks.has_number(v[i]),
            Raw::Texts(_) => {
                let text = self.text(i);
                is_missing(&text) || !marks.is_empty() && marks.has_text(&text)
            }
        }
    }

    /// The number in the cell of row `i`, and how it is written, if it is one and finite.
    fn number(&self, i: usize) -> Option<WrittenNumber<'_>> {
        let number = match &self.chunk.columns[self.j] {
            Raw::Numbers(v) => WrittenNumber::plain(v[i]),
            Raw::Texts(t) => parse_number(t.get(i), self.rules.format.mark)?,
        };
        let marked = !self.rules.missing.is_empty() && self.is_missing(i);
        (number.value.is_finite() && !marked).then_some(number)
    }

    /// Hands every cell that is a finite number on as such, and the rows of others to `stray`, for a number in its place.
    fn numbers(&self, out: &mut Vec<f64>, mut stray: impl FnMut(usize) -> Result<f64>) -> Result<()> {
        match &self.chunk.columns[self.j] {
            Raw::Numbers(v) if self.rules.missing.is_empty() && v.iter().all(|v| v.is_finite()) => {
                out.extend_from_slice(v);
            }
            _ => {
                for i in 0..self.chunk.rows {
                    out.push(match self.number(i) {
                        Some(number) => number.value,
                        None => stray(i)?,
                    });
                }
            }
        }
        Ok(())
    }

    /// The same for codes of `levels`.
    fn codes(
        &self,
        levels: &[String],
        out: &mut Vec<f64>,
        mut stray: impl FnMut(usize) -> Result<f64>,
    ) -> Result<()> {
        for i in 0..self.chunk.rows {
            let code = match &self.chunk.columns[self.j] {
                _ if self.is_missing(i) => None,
                Raw::Numbers(v) => level_of_number(levels, v[i]),
                Raw::Texts(_) => level_of_text(levels, &self.text(i)).or_else(|| {
                    let written = self.number(i).filter(|number| !number.plain)?;
                    level_of_number(levels, written.value)
                }),
            };
            out.push(code.map_or_else(|| stray(i), |code| Ok(code as f64))?);
        }
        Ok(())
    }

    /// Tells the user of the first cell that is a number in a notation of its own, and refuses one that can be read in
    /// two ways where no other cell says which is right.
    fn check_notation(&self) -> Result<()> {
        let Raw::Texts(texts) = &self.chunk.columns[self.j] else { return Ok(()) };
        let mark = self.rules.format.mark;
        let unusual =
            |text: &str| parse_number(text, mark).is_some_and(|n| !n.plain && text.parse::<f64>().is_err());
        if !texts.iter().any(unusual) {
            return Ok(());
        }
        let mut profile = Profile::new(self.rules.format, &self.rules.missing);
        texts.iter().for_each(|text| profile.add_text(text));
        match profile.decide(self.rules.choice(self.column)) {
            Ok(ColumnType { remark: Some(remark), categorical: false, .. }) => {
                note_once(&format!("{}: column '{}': {remark}", self.name, self.column));
                Ok(())
            }
            Err(problem) if problem.is_about_notation() => {
                let row = self.chunk.place(usize::try_from(problem.row).unwrap_or(0));
                Err(Failure::input(format!(
                    "{}: {}",
                    self.name,
                    problem.sentence(self.column, &row, FRONT, false)
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Appends column `j` of a chunk to `out`; `column` and `name` are what to call it and its table in messages.
pub fn numbers(chunk: &Chunk, j: usize, column: &str, name: &str, out: &mut Vec<f64>) -> Result<()> {
    let rules = CellRules::default();
    let place = Place { chunk, j, column, name, rules: &rules };
    place.numbers(out, |i| Err(place.refuse(i, "")))
}

/// What stands for column `j` of a table where a cell is missing: the median of its numbers, its most frequent level (of equals the first). The table has rows.
pub fn typical(table: &Table, j: usize) -> f64 {
    let mut values = table.column(j).to_vec();
    values.sort_unstable_by(f64::total_cmp);
    match table.columns()[j].kind {
        ColumnKind::Numeric => {
            let count = values.len();
            values[(count - 1) / 2] / 2.0 + values[count / 2] / 2.0
        }
        ColumnKind::Categorical { .. } => {
            let runs = values.chunk_by(|a, b| a == b);
            runs.fold(&values[..1], |most, run| if run.len() > most.len() { run } else { most })[0]
        }
    }
}

/// What becomes of cells that a model's columns cannot take.
#[derive(Debug, Clone)]
pub struct Strays {
    /// Missing ones.
    pub missing: WhenMissing,
    /// Those of levels that are not known.
    pub unseen: WhenUnseen,
}

impl Strays {
    /// The levels that cells can have: the one for those that are not known is nobody's own.
    fn known<'l>(&self, levels: &'l [String]) -> &'l [String] {
        match self.unseen {
            WhenUnseen::Refused(_) => levels,
            WhenUnseen::Last => &levels[..levels.len().saturating_sub(1)],
        }
    }
}

/// What becomes of missing cells.
#[derive(Debug, Clone)]
pub enum WhenMissing {
    /// They are refused, with this further remedy.
    Refused(&'static str),
    /// They are filled in.
    Filled {
        /// With what, by column.
        values: Vec<f64>,
        /// Whose typical values these are.
        of: &'static str,
    },
}

/// What becomes of cells of levels that are not known.
#[derive(Debug, Clone)]
pub enum WhenUnseen {
    /// They are refused, with this remedy.
    Refused(&'static str),
    /// They are the last level of their column.
    Last,
}

/// Names of unseen levels that are told one by one.
const TOLD: usize = 5;

/// Cells of one column that were not taken as they are.
#[derive(Debug, Clone, Default)]
struct Treated {
    filled: usize,
    unseen: usize,
    /// The first different ones.
    levels: Vec<String>,
}

/// The rows of a table in a model's columns, chunk by chunk. Other columns are not looked at.
pub struct Conforming {
    rows: OpenTable,
    columns: Vec<Column>,
    wanted: Vec<usize>,
    strays: Strays,
    treated: Vec<Treated>,
    limit: usize,
    any: bool,
}

impl Conforming {
    /// Finds the model's columns in the table. `numbers_a_row` is how many numbers a row will take further on; wide
    /// rows come in smaller chunks.
    pub fn new(rows: OpenTable, columns: &[Column], strays: Strays, numbers_a_row: usize) -> Result<Self> {
        const NUMBERS: usize = 1 << 21;
        let wanted = rows.places(columns.iter().map(|c| &c.name))?;
        let limit = (NUMBERS / numbers_a_row.max(1)).clamp(1, CHUNK);
        let treated = vec![Treated::default(); columns.len()];
        Ok(Self { rows, columns: columns.to_vec(), wanted, strays, treated, limit, any: false })
    }

    /// The table's name, for messages.
    pub fn name(&self) -> &str {
        &self.rows.name
    }

    /// The next rows; `None` after the last. A table without rows is an error.
    pub fn next(&mut self) -> Result<Option<Table>> {
        let Some(chunk) = self.next_chunk()? else {
            if !self.any {
                return Err(Failure::input(format!("{} has names of columns but no rows", self.rows.name)));
            }
            return Ok(None);
        };
        self.any = true;
        let mut values = Vec::with_capacity(chunk.rows * self.columns.len());
        for (j, (column, treated)) in self.columns.iter().zip(&mut self.treated).enumerate() {
            let (name, rules) = (&self.rows.name, &self.rows.rules);
            let place = Place { chunk: &chunk, j, column: &column.name, name, rules };
            let filled = |i: usize, treated: &mut Treated| match &self.strays.missing {
                WhenMissing::Refused(remedy) => Err(place.refuse(i, remedy)),
                WhenMissing::Filled { values, .. } => {
                    treated.filled += 1;
                    Ok(values[j])
                }
            };
            match &column.kind {
                ColumnKind::Numeric => {
                    place.check_notation()?;
                    place.numbers(&mut values, |i| match place.is_missing(i) {
                        true => filled(i, treated),
                        false => Err(place.refuse(i, "")),
                    })?;
                }
                ColumnKind::Categorical { levels } => {
                    place.codes(self.strays.known(levels), &mut values, |i| {
                        if place.is_missing(i) {
                            return filled(i, treated);
                        }
                        let cell = place.text(i).into_owned();
                        match self.strays.unseen {
                            WhenUnseen::Refused(remedy) => {
                                let known = riesz::error::listed(levels);
                                // What a program has seen, only it knows.
                                let who = if remedy.is_empty() { "background" } else { "model" };
                                let problem = format!(
                                    "is '{cell}', which the {who} has not seen; it knows: {known}{remedy}"
                                );
                                Err(place.failure(i, &problem))
                            }
                            WhenUnseen::Last => {
                                treated.unseen += 1;
                                if treated.levels.len() <= TOLD && !treated.levels.contains(&cell) {
                                    treated.levels.push(cell);
                                }
                                Ok((levels.len() - 1) as f64)
                            }
                        }
                    })?
                }
            }
        }
        Ok(Some(Table::from_column_major(self.columns.clone(), chunk.rows, values)?))
    }

    /// The next rows, without those that have missing cells if that is asked for.
    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        while let Some(chunk) = self.rows.next(&self.wanted, self.limit)? {
            if !self.rows.rules.drop_missing {
                return Ok(Some(chunk));
            }
            let (name, rules) = (self.rows.name.as_str(), &self.rows.rules);
            let place = |j| Place { chunk: &chunk, j, column: "", name, rules };
            let complete = |i: &usize| (0..chunk.columns.len()).all(|j| !place(j).is_missing(*i));
            let kept: Vec<usize> = (0..chunk.rows).filter(complete).collect();
            if kept.len() < chunk.rows {
                note_once(&format!("{name}: rows with missing cells are left out"));
            }
            if !kept.is_empty() {
                return Ok(Some(chunk.select(&kept)));
            }
        }
        Ok(None)
    }

    /// What is to be said of the rows so far: cells that were not taken as they are.
    pub fn facts(&self) -> Vec<Fact> {
        let cells = |count: usize, column: &Column| {
            format!("{count} cell{} of column '{}'", if count == 1 { "" } else { "s" }, column.name)
        };
        let (mut unseen, mut filled) = (Vec::new(), Vec::new());
        for (j, (column, treated)) in self.columns.iter().zip(&self.treated).enumerate() {
            if treated.unseen > 0 {
                let mut levels = treated.levels.clone();
                if levels.len() > TOLD {
                    levels[TOLD] = "…".into();
                }
                let (cells, levels) = (cells(treated.unseen, column), levels.join(", "));
                unseen.push(format!("{cells} taken for none of the known categories ({levels})"));
            }
            if let WhenMissing::Filled { values, of } = &self.strays.missing
                && treated.filled > 0
            {
                let what = match column.kind {
                    ColumnKind::Numeric => "median",
                    ColumnKind::Categorical { .. } => "most frequent category",
                };
                let (cells, value) = (cells(treated.filled, column), column.format(values[j]));
                filled.push(format!("{cells} filled in with {value}, the {what} of {of}"));
            }
        }
        let said = [("unseen categories", unseen), ("missing cells", filled)];
        let fact = |(name, of): (&str, Vec<String>)| {
            Fact::new(name, format!("{}: {}", self.rows.name, of.join("; ")))
        };
        said.into_iter().filter(|(_, of)| !of.is_empty()).map(fact).collect()
    }

    /// All rows at once.
    pub fn all(&mut self) -> Result<Table> {
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::args::Format;
    use crate::io::input::{ReadOptions, TableFile};
    use crate::io::write::{Cells, TableWriter};

    fn csv(bytes: Vec<u8>) -> Result<OpenTable> {
        OpenTable::csv(Box::new(std::io::Cursor::new(bytes)), b',', "t")
    }

    fn fit_table(bytes: Vec<u8>) -> Result<Table> {
        let rows = csv(bytes)?;
        let names = rows.header().to_vec();
        Columns::read(rows, &names)?.table(&names, &[], &Console::new(true))
    }

    fn conform(rows: OpenTable) -> Result<Table> {
        let levels = ColumnKind::Categorical { levels: vec!["x".into(), "1".into()] };
        let columns = [Column::numeric("a"), Column { name: "b".into(), kind: levels }];
        let strays = Strays { missing: WhenMissing::Refused(""), unseen: WhenUnseen::Refused("") };
        Conforming::new(rows, &columns, strays, 1 << 20)?.all()
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
        // The same level however it is spelled.
        let table = conform(csv(b"b,a\n1.0,2\nx,3\n".to_vec()).unwrap()).unwrap();
        assert_eq!(table.column(1), [1.0, 0.0]);
    }

    #[test]
    fn what_is_typical_of_a_column() {
        let of = |kind: ColumnKind, values: &[f64]| {
            let columns = vec![Column { name: "c".into(), kind }];
            typical(&Table::from_column_major(columns, values.len(), values.to_vec()).unwrap(), 0)
        };
        let levels = || ColumnKind::Categorical { levels: ["a", "b", "c"].map(String::from).to_vec() };
        assert_eq!(of(ColumnKind::Numeric, &[3.0, -1.0, 8.0]), 3.0);
        assert_eq!(of(ColumnKind::Numeric, &[3.0, f64::MAX, 8.0, f64::MAX]), f64::MAX / 2.0 + 4.0);
        assert_eq!(of(levels(), &[2.0, 0.0, 2.0, 1.0, 1.0]), 1.0);
        assert_eq!(of(levels(), &[2.0]), 2.0);
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

    /// Files of one column in every format that can be written here, by name.
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
        let wide =
            format!("a;b\n{}", written.iter().map(|cell| format!("\"{cell}\";x\n")).collect::<String>());
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

        /// Random numbers, written in a notation of people's, are read back with the same bits from every format.
        #[test]
        fn numbers_are_read_back_from_every_format(
            // Amounts with cents, so that groups of three digits are not the only ones that a cell has.
            cents in prop::collection::vec(-99_999_999_999i64..99_999_999_999, 1..40),
            notation in 0..7,
        ) {
            let numbers: Vec<f64> =
                cents.iter().map(|c| format!("{}.{:02}", c / 100, (c % 100).abs()).parse().unwrap()).collect();
            let grouped = |whole: i64, separator: &str| {
                let digits = whole.to_string();
                let parts: Vec<&str> = digits.as_bytes().rchunks(3).rev()
                    .map(|part| std::str::from_utf8(part).unwrap()).collect();
                parts.join(separator)
            };
            let written: Vec<String> = cents.iter().map(|c| {
                // Cents of less than a unit have lost their sign.
                let (sign, whole, rest) = (if c / 100 < 0 { "-" } else { "" }, (c / 100).abs(), (c % 100).abs());
                match notation {
                    0 => format!("{sign}{whole}.{rest:02}"),
                    1 => format!("{sign}{}.{rest:02}", grouped(whole, ",")),
                    2 => format!("{sign}{}.{rest:02}", grouped(whole, "\u{202f}")),
                    3 => format!("{sign}${}.{rest:02}", grouped(whole, ",")),
                    4 => format!("{}{whole}.{rest:02} %", sign.replace('-', "\u{2212}")),
                    5 if sign == "-" => format!("({whole}.{rest:02})"),
                    _ => format!("{sign}{whole}.{rest:02} kg").replace(if notation == 5 { " kg" } else { "\0" }, ""),
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
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = fit_table(bytes);
        }

        #[test]
        fn almost_tables_are_answered(
            parts in proptest::collection::vec(
                prop::sample::select(vec![
                    "a", "b", ",", "\n", "\r\n", "\"", "1", "-2.5", "x", "nan", "inf", "1e999", "é", " ", "\u{feff}", "",
                ]),
                0..40,
            )
        ) {
            let text = format!("a,b\n{}", parts.concat());
            if let Ok(table) = fit_table(text.clone().into_bytes()) {
                prop_assert!(table.column_major().iter().all(|v| v.is_finite()) && table.rows() > 0);
            }
            let _ = csv(text.into_bytes()).and_then(conform);
        }

        #[test]
        fn damaged_parquet_is_answered(hits in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4), cut: usize) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.parquet");
            let mut bytes = parquet(&path);
            let source = TableFile::from_path(&path);
            let table = conform(source.open().unwrap()).unwrap();
            prop_assert_eq!(table.column(1), [0.0, 1.0, 0.0]);
            let n = bytes.len();
            for (at, byte) in hits {
                bytes[at % n] = byte;
            }
            std::fs::write(&path, &bytes).unwrap();
            let _ = source.open().and_then(conform);
            bytes.truncate(cut % n);
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(source.open().and_then(conform).is_err());
        }
    }
}

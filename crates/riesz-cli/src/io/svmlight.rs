//! LIBSVM's data files (also called svmlight files): one line per row, `label index:value index:value …`.
//! Cells that a line leaves out are 0.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};

use crate::exit::{Failure, Result};
use crate::io::chunk::{Chunk, Raw};
use crate::io::reader::TableReader;

/// The column of the labels.
pub const LABEL: &str = "label";

/// Largest number of cells of a dense table: 8 GB of numbers.
const MOST_CELLS: usize = 1_000_000_000;

/// Largest index of a feature.
const MOST_FEATURES: usize = 1 << 20;

/// A LIBSVM data file in memory, in sparse form.
pub struct SvmlightRows {
    name: String,
    /// The column names: `label`, then the features.
    header: Vec<String>,
    /// Whether the features have given names; otherwise they are x0, x1, …, without an upper limit.
    named: bool,
    /// The index of the first feature: 1, or 0 if the file has an index 0.
    base: u64,
    /// Whether a line has a query number (`qid:3`), which is not a feature.
    queries: bool,
    labels: Vec<f64>,
    /// The end of each row's cells in `cells`.
    ends: Vec<usize>,
    cells: Vec<(u32, f64)>,
    lines: Vec<u64>,
    next: usize,
}

/// Whether a file begins like a LIBSVM data file: a number, then `index:value`.
pub fn recognises(start: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(start).or_else(|e| std::str::from_utf8(&start[..e.valid_up_to()]))
    else {
        return false;
    };
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(without_comment);
    let Some(line) = lines.find(|line| !line.trim().is_empty()) else { return false };
    let mut fields = line.split_ascii_whitespace();
    let label = fields.next().is_some_and(|field| field.parse::<f64>().is_ok());
    let is_cell = |field: &str| {
        field.split_once(':').is_some_and(|(index, _)| index == "qid" || index.parse::<u64>().is_ok())
    };
    label && fields.next().is_some_and(is_cell)
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or(line)
}

impl SvmlightRows {
    /// Reads the whole file, which takes memory in proportion to its cells. `names` are the names of the
    /// features 1, 2, …
    pub fn open(source: Box<dyn Read>, names: &[String], name: &str) -> Result<Self> {
        let mut rows = Self {
            name: name.to_string(),
            header: Vec::new(),
            named: !names.is_empty(),
            base: 1,
            queries: false,
            labels: Vec::new(),
            ends: Vec::new(),
            cells: Vec::new(),
            lines: Vec::new(),
            next: 0,
        };
        let mut reader = BufReader::new(source);
        let (mut bytes, mut line) = (Vec::new(), 0);
        loop {
            bytes.clear();
            line += 1;
            let read = reader.read_until(b'\n', &mut bytes).map_err(|e| Failure::reading(name, &e))?;
            if read == 0 {
                break;
            }
            let text = std::str::from_utf8(&bytes).map_err(|_| rows.problem(line, "this is not text"))?;
            rows.add(line, without_comment(text.trim_start_matches('\u{feff}')))?;
        }
        if rows.labels.is_empty() {
            return Err(Failure::input(format!("{name} holds no rows")));
        }
        let max_index = rows.cells.iter().map(|(index, _)| u64::from(*index)).max().unwrap_or(0);
        let width = (max_index + 1).saturating_sub(rows.base) as usize;
        if rows.named && width > names.len() {
            return Err(Failure::input(format!(
                "{name} has features up to {max_index}, counted from {}, but --columns names {}",
                rows.base,
                names.len()
            )));
        }
        let features: Vec<String> = match rows.named {
            true => names.to_vec(),
            false => (0..width).map(|j| format!("x{j}")).collect(),
        };
        rows.header = std::iter::once(LABEL.to_string()).chain(features).collect();
        Ok(rows)
    }

    fn problem(&self, line: u64, problem: impl std::fmt::Display) -> Failure {
        Failure::input(format!("{}, line {line}: {problem}", self.name))
    }

    fn add(&mut self, line: u64, text: &str) -> Result<()> {
        let mut fields = text.split_ascii_whitespace();
        let Some(label) = fields.next() else { return Ok(()) };
        let number = |field: &str| field.parse::<f64>().ok().filter(|value| value.is_finite());
        let Some(value) = number(label) else {
            let problem = match label {
                list if list.contains(',') => "has several labels: write one per row".to_string(),
                cell if cell.contains(':') => {
                    "has no label: begin each row with a label, 0 if it is unknown".into()
                }
                other => format!("has the label '{other}', which is not a finite number"),
            };
            return Err(self.problem(line, problem));
        };
        let mut previous_index = None;
        for field in fields {
            let Some((index, value)) = field.split_once(':') else {
                return Err(self.problem(line, format!("'{field}' is not of the form index:value")));
            };
            if index == "qid" {
                self.queries = true;
                continue;
            }
            let Ok(index) = index.parse::<u32>() else {
                return Err(self.problem(line, format!("'{index}' is not the number of a feature")));
            };
            if index as usize > MOST_FEATURES {
                let problem = format!("the index {index} is too large: {MOST_FEATURES} features can be read");
                return Err(self.problem(line, problem));
            }
            if previous_index.is_some_and(|previous_index| previous_index >= index) {
                let problem = match previous_index == Some(index) {
                    true => format!("the index {index} occurs twice: a feature has one value"),
                    false => format!("the index {index} is out of place: indices ascend within a line"),
                };
                return Err(self.problem(line, problem));
            }
            let Some(value) = number(value) else {
                let problem = format!("feature {index} is '{value}', which is not a finite number");
                return Err(self.problem(line, problem));
            };
            previous_index = Some(index);
            self.base = self.base.min(u64::from(index));
            self.cells.push((index, value));
        }
        self.labels.push(value);
        self.lines.push(line);
        self.ends.push(self.cells.len());
        Ok(())
    }

    /// Notes for the user about how the file was read.
    pub fn notes(&self) -> Vec<String> {
        let first = self.header.get(1).map_or("x0", String::as_str);
        let queries = "queries (qid) are ignored: rows are treated one by one";
        std::iter::once(format!("{}: features count from {}, which is column {first}", self.name, self.base))
            .chain(self.queries.then(|| format!("{}: {queries}", self.name)))
            .collect()
    }
}

impl TableReader for SvmlightRows {
    fn header(&self) -> &[String] {
        &self.header
    }

    fn next(&mut self, selected: &[usize], limit: usize) -> Result<Option<Chunk>> {
        let rows = self.next..(self.next + limit).min(self.labels.len());
        if rows.is_empty() {
            return Ok(None);
        }
        self.next = rows.end;
        let position_of: HashMap<usize, usize> =
            selected.iter().enumerate().map(|(position, &j)| (j, position)).collect();
        let mut columns = vec![vec![0.0; rows.len()]; selected.len()];
        for (position, row) in rows.clone().enumerate() {
            if let Some(&label) = position_of.get(&0) {
                columns[label][position] = self.labels[row];
            }
            let from = if row == 0 { 0 } else { self.ends[row - 1] };
            for &(index, value) in &self.cells[from..self.ends[row]] {
                if let Some(&column) = position_of.get(&((u64::from(index) - self.base) as usize + 1)) {
                    columns[column][position] = value;
                }
            }
        }
        let lines = self.lines[rows.clone()].to_vec();
        let columns = columns.into_iter().map(Raw::Numbers).collect();
        Ok(Some(Chunk { rows: rows.len(), first: 0, lines, offsets: Vec::new(), columns }))
    }

    fn is_sparse(&self) -> bool {
        true
    }

    /// The column of a feature beyond the largest index, which is 0 in every row.
    fn hidden_column_index(&self, column: &str) -> Option<usize> {
        let j: usize = column.strip_prefix('x')?.parse().ok()?;
        (!self.named && j < MOST_FEATURES && column == format!("x{j}")).then_some(j + 1)
    }

    fn check_dense(&self, columns: usize) -> Result<()> {
        let rows = self.labels.len();
        if rows.saturating_mul(columns) <= MOST_CELLS {
            return Ok(());
        }
        Err(Failure::input(format!(
            "{}: {rows} rows of {columns} columns take {:.1} GB as a dense table, and the limit is {:.0} GB: \
             choose fewer rows, or fewer features",
            self.name,
            rows as f64 * columns as f64 * 8e-9,
            MOST_CELLS as f64 * 8e-9
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str, names: &[&str]) -> Result<SvmlightRows> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
        SvmlightRows::open(Box::new(std::io::Cursor::new(text.as_bytes().to_vec())), &names, "d")
    }

    #[test]
    fn cells_are_where_the_file_says() {
        let mut rows = open("# a comment\n+1 1:0.5 3:-2 # more\n\n-1 qid:3 2:1e-3\r\n0\n", &[]).unwrap();
        assert_eq!(rows.header(), ["label", "x0", "x1", "x2"]);
        assert_eq!(rows.hidden_column_index("x7"), Some(8));
        assert!(rows.notes()[0].contains("from 1") && rows.notes()[1].contains("qid"));
        let chunk = rows.next(&[0, 3, 1, 8], 2).unwrap().unwrap();
        assert_eq!(chunk.lines, [2, 4]);
        let numbers: Vec<Vec<f64>> = chunk
            .columns
            .into_iter()
            .map(|column| match column {
                Raw::Numbers(numbers) => numbers,
                Raw::Texts(_) => Vec::new(),
            })
            .collect();
        assert_eq!(numbers, [vec![1.0, -1.0], vec![-2.0, 0.0], vec![0.5, 0.0], vec![0.0, 0.0]]);
        assert_eq!(rows.next(&[0], 9).unwrap().unwrap().rows, 1);
        assert!(rows.next(&[0], 9).unwrap().is_none());
        let zero = open("1 0:5 1:6\n", &["a", "b", "c"]).unwrap();
        assert_eq!(zero.header(), ["label", "a", "b", "c"]);
        assert!(
            zero.notes()[0].contains("from 0, which is column a") && zero.hidden_column_index("x7").is_none()
        );
    }

    #[test]
    fn wrong_lines_are_refused_by_line() {
        for (text, culprit) in [
            ("1 1:1\n1 2:1 1:1\n", "line 2: the index 1 is out of place"),
            ("1 1:1 1:2\n", "line 1: the index 1 occurs twice"),
            ("1 1:x\n", "line 1: feature 1 is 'x'"),
            ("1 1:nan\n", "line 1: feature 1 is 'nan'"),
            ("1 1:1\n1,2 1:1\n", "line 2: has several labels"),
            ("1 1:1\n1:1\n", "line 2: has no label"),
            ("1 1:1\na 1:1\n", "line 2: has the label 'a'"),
            ("1 1:1 7\n", "line 1: '7' is not of the form index:value"),
            ("1 -1:1\n", "'-1' is not the number of a feature"),
            ("1 4000000:1\n", "too large"),
            ("# nothing\n", "holds no rows"),
        ] {
            let refused = open(text, &[]).err().unwrap();
            assert!(matches!(&refused, Failure::Input(m) if m.contains(culprit)), "{refused:?}");
        }
        let refused = open("1 3:1\n", &["a", "b"]).err().unwrap();
        assert!(matches!(&refused, Failure::Input(m) if m.contains("--columns names 2")), "{refused:?}");
    }

    #[test]
    fn files_are_recognised_by_their_first_row() {
        for (text, expected) in [
            ("+1 1:0.5 2:3\n", true),
            ("# comment\n\n-1 3:1\n", true),
            ("3 qid:1 1:0\n", true),
            ("a,b\n1,2\n", false),
            ("1:2 3:4\n", false),
            ("label 1:2\n", false),
            ("1\n2\n", false),
            ("1 2 3\n", false),
            ("1 12:30 x\n", true),
        ] {
            assert_eq!(recognises(text.as_bytes()), expected, "{text}");
        }
    }
}

//! The contents of a table: the detected type of every column, and the reason for it.

use riesz::columns::{FrontEnd, suspicions};
use serde_json::{Value, json};

use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::input::OpenTable;

/// Number of levels that are shown by name: in text, and in JSON.
const SHOWN: usize = 4;
const LISTED: usize = 100;

/// The contents of a table.
pub struct TableContents {
    file: String,
    format: &'static str,
    rows: usize,
    columns: Vec<Contents>,
}

/// The contents of a column.
struct Contents {
    name: String,
    /// `numbers`, `categories`, or `refused`.
    kind: &'static str,
    missing: u64,
    /// Number of different values.
    distinct: Option<usize>,
    /// The smallest and the largest number.
    range: Option<(f64, f64)>,
    /// The first categories.
    levels: Vec<String>,
    example: String,
    reason: String,
    /// Remarks about doubtful cells, as sentences.
    remarks: Vec<String>,
}

impl Contents {
    /// The range of numbers, or the first categories.
    fn values(&self) -> String {
        match self.range {
            Some((lowest, highest)) if lowest == highest => short(lowest),
            Some((lowest, highest)) => format!("{} to {}", short(lowest), short(highest)),
            None => {
                let ending = if self.levels.len() > SHOWN { ", …" } else { "" };
                format!("{}{ending}", self.levels.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn short(value: f64) -> String {
    if value.abs() >= 1e16 || value != 0.0 && value.abs() < 1e-5 {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

impl TableContents {
    /// Reads a whole table; `reopen` opens it again, if that is possible. A column that cannot be read, such
    /// as one of lists, is shown as refused among the others.
    pub fn read(rows: OpenTable, reopen: Option<&dyn Fn() -> Result<OpenTable>>) -> Result<Self> {
        let (header, format) = (rows.header().to_vec(), rows.format);
        let columns = match (Columns::read(rows, &header), reopen) {
            (Ok(columns), _) => columns,
            (Err(failure), None) => return Err(failure),
            // A text file with an unreadable column is damaged as a whole.
            (Err(failure), Some(_)) if format == "CSV" => return Err(failure),
            (Err(failure), Some(reopen)) => return Self::read_each(&header, format, reopen, failure),
        };
        let contents_of_columns =
            header.iter().map(|name| contents(&columns, name)).collect::<Result<_>>()?;
        Ok(Self { file: columns.name.clone(), format, rows: columns.rows(), columns: contents_of_columns })
    }

    /// Reads the columns one by one, and shows unreadable ones as refused. `failure` is the error of reading
    /// all at once, which is returned if no column can be read.
    fn read_each(
        header: &[String],
        format: &'static str,
        reopen: &dyn Fn() -> Result<OpenTable>,
        failure: Failure,
    ) -> Result<Self> {
        let (mut columns, mut size) = (Vec::new(), None);
        for name in header {
            match Columns::read(reopen()?, std::slice::from_ref(name)) {
                Ok(column) => {
                    columns.push(contents(&column, name)?);
                    size = Some((column.name.clone(), column.rows()));
                }
                Err(failure) => columns.push(Contents {
                    name: name.clone(),
                    kind: "refused",
                    missing: 0,
                    distinct: None,
                    range: None,
                    levels: Vec::new(),
                    example: String::new(),
                    reason: String::new(),
                    remarks: vec![failure.to_string()],
                }),
            }
        }
        // If no column can be read, the error is about the file.
        let Some((file, rows)) = size else { return Err(failure) };
        Ok(Self { file, format, rows, columns })
    }

    /// The contents as text.
    pub fn text(&self) -> String {
        let mut lines = vec![format!(
            "{}: {}, {} rows, {} columns",
            self.file,
            self.format,
            self.rows,
            self.columns.len()
        )];
        let titles = ["column", "taken for", "missing", "distinct", "values", "example", "because"];
        let mut cells = vec![titles.map(String::from)];
        for column in &self.columns {
            cells.push([
                column.name.clone(),
                column.kind.to_string(),
                column.missing.to_string(),
                column.distinct.map_or_else(|| "-".into(), |n| n.to_string()),
                column.values(),
                column.example.clone(),
                column.reason.clone(),
            ]);
        }
        let widths: Vec<usize> = (0..titles.len())
            .map(|k| cells.iter().map(|c| c[k].chars().count()).max().unwrap_or(0))
            .collect();
        lines.push(String::new());
        for row in &cells {
            let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            lines.push(padded.collect::<Vec<_>>().join("  ").trim_end().to_string());
        }
        let remarks = self.columns.iter().flat_map(|c| c.remarks.iter().map(|r| format!("{}: {r}", c.name)));
        let remarks: Vec<String> = remarks.collect();
        if !remarks.is_empty() {
            lines.push(String::new());
            lines.extend(remarks);
        }
        lines.iter().map(|line| format!("{}\n", crate::console::printable(line))).collect()
    }

    /// The contents as JSON.
    pub fn record(&self) -> Value {
        let column = |c: &Contents| {
            json!({
                "name": c.name,
                "taken_for": c.kind,
                "missing": c.missing,
                "distinct": c.distinct,
                "range": c.range.map(|(lowest, highest)| [lowest, highest]),
                "levels": c.levels,
                "example": c.example,
                "reason": c.reason,
                "remarks": c.remarks,
            })
        };
        let columns: Vec<Value> = self.columns.iter().map(column).collect();
        json!({ "file": self.file, "format": self.format, "rows": self.rows, "columns": columns })
    }
}

fn contents(columns: &Columns, name: &str) -> Result<Contents> {
    let profile = columns.profile(name)?;
    let mut contents = Contents {
        name: name.to_string(),
        kind: "numbers",
        missing: profile.missing(),
        distinct: None,
        range: None,
        levels: Vec::new(),
        example: columns.example(name)?,
        reason: String::new(),
        remarks: Vec::new(),
    };
    match columns.column_type(name, true) {
        Err(failure) => {
            contents.kind = "refused";
            contents
                .remarks
                .push(failure.to_string().trim_start_matches(&format!("{}: ", columns.name)).to_string());
            return Ok(contents);
        }
        Ok(kind) => {
            contents.reason = kind.reason;
            contents.remarks.extend(kind.remark);
            if !kind.categorical {
                let numbers = columns.numbers_or_missing(name);
                let mut numbers = match numbers {
                    Ok(numbers) => numbers,
                    Err(failure) => {
                        contents.remarks.push(failure.to_string());
                        return Ok(contents);
                    }
                };
                let present: Vec<f64> = numbers.iter().copied().filter(|v| !v.is_nan()).collect();
                let location = |row: usize| columns.describe_row(present_row(&numbers, row));
                contents.remarks.extend(
                    suspicions(&present)
                        .iter()
                        .map(|s| s.sentence(name, location, FrontEnd::CommandLine, true)),
                );
                contents.range = profile.range();
                numbers.retain(|v| !v.is_nan());
                numbers.sort_unstable_by(f64::total_cmp);
                numbers.dedup();
                contents.distinct = Some(numbers.len());
                return Ok(contents);
            }
            contents.kind = "categories";
        }
    }
    let (levels, _) = columns.levels_or_missing(name)?;
    contents.distinct = Some(levels.len());
    contents.levels = levels.iter().take(LISTED).cloned().collect();
    if 10 * levels.len() >= 9 * columns.rows() && columns.rows() >= riesz::columns::FEW_ROWS {
        contents.remarks.push(format!(
            "nearly every row has a different text, so it is refused as a feature: leave it out with \
             --ignore '{name}'"
        ));
    }
    Ok(contents)
}

/// The row of the `k`-th number that is present (not NaN).
fn present_row(numbers: &[f64], k: usize) -> usize {
    numbers.iter().enumerate().filter(|(_, v)| !v.is_nan()).nth(k).map_or(k, |(row, _)| row)
}

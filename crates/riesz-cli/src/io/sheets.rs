//! Spreadsheets: `.xlsx` workbooks, and the other formats of calamine (`.xls`, `.xlsb`, `.ods`).

use std::io::Cursor;

use calamine::{Data, Reader, Sheets, open_workbook_auto_from_rs};

use crate::exit::{Failure, Result};
use crate::io::arrow::guarded;
use crate::io::csv::Decimal;
use crate::io::memory::MemoryRows;

/// Reads a sheet, by default the only one that is not empty. Its first row that is not empty holds the column
/// names.
pub fn read(bytes: Vec<u8>, sheet: Option<&str>, decimal: Decimal, name: &str) -> Result<MemoryRows> {
    guarded(|| Ok(read_sheet(bytes, sheet, decimal, name)))
        .unwrap_or_else(|e| Err(Failure::input(format!("cannot read {name} as a workbook: {e}"))))
}

fn read_sheet(bytes: Vec<u8>, sheet: Option<&str>, decimal: Decimal, name: &str) -> Result<MemoryRows> {
    let fail = |e: calamine::Error| Failure::input(format!("cannot read {name} as a workbook: {e}"));
    let mut workbook: Sheets<Cursor<Vec<u8>>> =
        open_workbook_auto_from_rs(Cursor::new(bytes)).map_err(fail)?;
    let names = workbook.sheet_names();
    let sheet_list = riesz::error::listed(&names);
    let range = match sheet {
        Some(requested) if !names.iter().any(|n| n == requested) => {
            return Err(Failure::input(format!(
                "{name} has no sheet '{requested}'; its sheets are: {sheet_list}"
            )));
        }
        Some(requested) => workbook.worksheet_range(requested).map_err(fail)?,
        None => {
            let mut filled = Vec::new();
            for sheet_name in &names {
                let range = workbook.worksheet_range(sheet_name).map_err(fail)?;
                if !range.is_empty() {
                    filled.push(range);
                }
            }
            match filled.len() {
                0 => return Err(Failure::input(format!("{name} is empty: no sheet has cells"))),
                1 => filled.remove(0),
                _ => {
                    return Err(Failure::input(format!(
                        "{name} has several sheets ({sheet_list}): choose one with --sheet"
                    )));
                }
            }
        }
    };
    let first = range.start().map_or(0, |(row, _)| row as usize);
    let mut rows = range.rows().enumerate().filter(|(_, cells)| cells.iter().any(|c| *c != Data::Empty));
    let Some((title_row, titles)) = rows.next() else {
        return Err(Failure::input(format!("{name} is empty: the sheet has no cells")));
    };
    let mut header = Vec::with_capacity(titles.len());
    for (j, title) in titles.iter().enumerate() {
        match text(title, decimal) {
            Ok(title) if !title.trim().is_empty() => header.push(title.trim().to_string()),
            _ => {
                return Err(Failure::input(format!(
                    "{name}: column {} has no name in row {} of the sheet: name it, or remove the cells \
                     above or beside the table",
                    j + 1,
                    first + title_row + 1
                )));
            }
        }
    }
    let mut table = MemoryRows::new(header.clone());
    for (position, cells) in rows {
        let line = (first + position + 1) as u64;
        let mut row = Vec::with_capacity(cells.len());
        for (j, cell) in cells.iter().enumerate().take(table.width()) {
            let cell = text(cell, decimal).map_err(|problem| {
                Failure::input(format!("{name}: row {line} of the sheet, column '{}' {problem}", header[j]))
            })?;
            row.push((j, cell));
        }
        table.add(&row, Some(line));
    }
    table.finished(name)
}

/// A cell as text; a cell with an error of the spreadsheet is missing.
fn text(cell: &Data, decimal: Decimal) -> std::result::Result<String, String> {
    Ok(match cell {
        Data::Empty | Data::Error(_) => String::new(),
        Data::String(text) => text.clone(),
        Data::Float(value) => decimal.written(&value.to_string()),
        Data::Int(value) => value.to_string(),
        Data::Bool(value) => value.to_string(),
        // Dates are written in one form; columns of features refuse them with a remedy.
        Data::DateTime(moment) => match moment.is_datetime() {
            true => {
                let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
                format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
            }
            // A duration is stored as a number of days.
            false => {
                let seconds = (moment.as_f64() * 86400.0).round() as i64;
                format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
            }
        },
        Data::DateTimeIso(text) | Data::DurationIso(text) => text.clone(),
        #[allow(unreachable_patterns)]
        _ => return Err("holds neither a number nor text".into()),
    })
}

//! Areas of the rows of a table from GeoJSON files.

use std::path::Path;

use riesz_report::RowAreas;

use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::duels::names_of;
use crate::io::input::{name_of, read_file};

/// The area of each row of a table: the one whose property `id` is the cell of the column of this name.
pub fn areas_of_rows(path: &Path, rows: &Columns, id: &str, console: &Console) -> Result<RowAreas> {
    let file = name_of(path);
    let row_areas = RowAreas::new(&read_file(path)?, id, &names_of(rows, id)?)
        .map_err(|error| Failure::from(error).about(&file))?;
    if row_areas.undrawn > 0 {
        console.note(format!("note: {} areas of {file} have no row and are not drawn", row_areas.undrawn));
    }
    if !row_areas.degrees {
        console.note(format!(
            "note: the coordinates of {file} are not degrees, and are drawn as distances in a plane"
        ));
    }
    Ok(row_areas)
}

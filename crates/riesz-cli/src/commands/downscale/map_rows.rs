//! The rows for which a map is drawn and explained, and their bags.

use std::path::{Path, PathBuf};

use riesz::aggregate::TargetUnit;
use riesz::format::model::SavedModel;
use riesz::kernel_model::Link;
use riesz::model_card::CardEntry;
use riesz::{KernelExpansion, Table};
use riesz_report::{Area, NamedBags, Places};

use super::shared_fit::{TARGETS_ARE, WEIGHTS};
use crate::args::{CellArgs, TableArgs};
use crate::commands::importance::rows_for_model;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::aggregates::weights;
use crate::io::columns::Columns;
use crate::io::duels::names_of;
use crate::io::input::{OpenTable, described};
use crate::io::write::{Cells, row_labels};

/// The data of a map.
pub struct MapData {
    /// Columns of the rows, including those that the model does not use.
    pub columns: Columns,
    /// Rows, in the model's columns.
    pub table: Table,
    /// The points or areas of the rows.
    pub locations: Locations,
    /// The names of the horizontal and the vertical coordinate.
    pub axes: [String; 2],
    /// Background rows, from which absent features take their values.
    pub background: Option<Table>,
    /// Provenance entries about cells that the model cannot use.
    pub facts: Vec<CardEntry>,
}

/// The points or areas of rows.
pub enum Locations {
    /// Horizontal and vertical coordinates of the rows.
    Points([Vec<f64>; 2]),
    /// The area of each row.
    Areas(Vec<Area>),
}

impl Locations {
    /// The places of a map.
    pub fn places(&self) -> Places<'_> {
        match self {
            Self::Points([x, y]) => Places::Points([x, y]),
            Self::Areas(areas) => Places::Areas(areas),
        }
    }
}

/// Options for reading rows: of the table, and for cells that the model cannot use.
#[derive(Clone, Copy)]
pub struct RowOptions<'a> {
    /// Options for reading tables.
    pub table: &'a TableArgs,
    /// Treatment of cells that the model cannot use.
    pub cells: CellArgs,
    /// Receives notes about such cells.
    pub console: &'a Console,
}

/// Reads rows in the columns of the model, and keeps the columns `further`. Also returns provenance entries
/// about cells that the model cannot use.
pub fn rows_of(
    saved: &SavedModel,
    rows: OpenTable,
    (further, weight): (&[&String], Option<&String>),
    options: RowOptions<'_>,
) -> Result<(Columns, Table, Vec<CardEntry>)> {
    let model_columns = saved.model.columns();
    let mut column_names: Vec<String> = model_columns.iter().map(|c| c.name.clone()).collect();
    for name in further.iter().copied().chain(weight) {
        if !column_names.contains(name) {
            column_names.push(name.clone());
        }
    }
    let columns = Columns::read(rows, &column_names)?.without_zero_weights(weight)?;
    let (table, facts) = rows_for_model(&columns, saved, options.cells, options.console)?;
    Ok((columns, table, facts))
}

/// The column that labels rows in results, its title and its cells: the rows' names in the column `id`, or
/// their numbers from 0.
pub fn labels(columns: &Columns, id: Option<&String>, rows: usize) -> Result<(String, Cells)> {
    let names = id.map(|id| Ok::<_, Failure>((id, names_of(columns, id)?))).transpose()?;
    Ok(row_labels(names, 0..rows))
}

/// Reads the background rows, if there is a file of them.
pub fn background_of(
    saved: &SavedModel,
    path: Option<&Path>,
    options: RowOptions<'_>,
) -> Result<Option<Table>> {
    let read = |path: &Path| Ok(rows_of(saved, options.table.source(path).open()?, (&[], None), options)?.1);
    path.map(read).transpose()
}

/// Provenance entries for the files that an explanation was computed from.
pub fn facts(model: &Path, rows: &Path, background: Option<&PathBuf>) -> Result<Vec<CardEntry>> {
    let files =
        [("model file", Some(model)), ("rows", Some(rows)), ("background", background.map(PathBuf::as_path))];
    files
        .into_iter()
        .filter_map(|(name, path)| Some(described(path?).map(|file| CardEntry::new(name, file))))
        .collect()
}

/// Reads the assignment of rows to bags from the column `bag`, and weights from the column `weight`; without
/// it all weights are 1.
pub fn read_bags(columns: &Columns, bag: &str, weight: Option<&String>) -> Result<NamedBags> {
    let (names, codes) = columns.levels(bag)?;
    let bag_of_row: Vec<usize> = codes.iter().map(|code| *code as usize).collect();
    let row_weights = weight.map(|name| weights(columns, name, |i| &names[bag_of_row[i]])).transpose()?;
    Ok(NamedBags::new(names, &bag_of_row, weight.cloned(), row_weights.as_deref())?)
}

/// Whether bags are explained by sums or means of their rows: by sums if the model file or `sum` says so.
/// Models of counts explain log rates and log odds, for which bags have means only.
pub fn unit_of(model: &KernelExpansion, sum: bool) -> Result<TargetUnit> {
    let counts = matches!(model.link, Link::Log | Link::Logit);
    if counts && sum {
        return Err(Failure::input(
            "--sum cannot be used with counts, whose explanations are means of the log rate or of log odds: \
             leave it out",
        ));
    }
    let fitted_to_sums =
        model.model_card.iter().any(|fact| fact.name == TARGETS_ARE && fact.value.contains("weighted sums"));
    Ok(if sum || fitted_to_sums { TargetUnit::Sum } else { TargetUnit::Mean })
}

/// Warns if the model was fitted with weights of rows and these rows have different weights.
pub fn warn_of_weights(model: &KernelExpansion, weight: Option<&String>, console: &Console) {
    let fitted = model.model_card.iter().find(|fact| fact.name == WEIGHTS);
    if let Some(fitted) = fitted.filter(|fact| weight != Some(&fact.value)) {
        let weighting =
            weight.map_or_else(|| "have weight 1".into(), |name| format!("are weighted by '{name}'"));
        console.warn(format!(
            "the map was learnt from rows weighted by '{}', but these rows {weighting}",
            fitted.value
        ));
    }
}

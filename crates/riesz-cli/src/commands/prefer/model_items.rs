//! The items of a saved model of duels: from its columns of names, from its support points, or from a table.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use riesz::format::model::SavedModel;
use riesz::preference::{ABILITY, HOME, LeftRightColumns, UNSEEN_RIGHT};
use riesz::table::UNKNOWN_LEVEL;
use riesz::{Column, ColumnKind, KernelExpansion, Table};

use crate::args::{CellArgs, FeatureArgs, TableArgs};
use crate::exit::{Failure, Result};
use crate::io::duels::{ItemArgs, Items};
use crate::io::models::{ModelOrAverage, read_average};

/// Reads a model of duels, or an average of such models, and the columns of its two sides.
pub fn read_duel_model(path: &Path, cells: &CellArgs) -> Result<(ModelOrAverage, LeftRightColumns)> {
    let model = read_average(path, None, &FeatureArgs::default())?.admitted(cells)?;
    let sides = LeftRightColumns::from_columns(model.best.model.columns())
        .map_err(|error| Failure::from(error).about(&path.display().to_string()))?;
    Ok((model, sides))
}

/// The column with the item's name in a model of abilities.
pub const ITEM: &str = "item";

/// A table of one row without columns.
fn nothing() -> Result<Table> {
    Ok(Table::from_column_major(Vec::new(), 1, Vec::new())?)
}

/// The names that a model was fitted to, if items have no other columns.
pub fn known_names(model: &KernelExpansion, sides: &LeftRightColumns) -> Option<Vec<String>> {
    let columns = sides.items(model.columns());
    let is_bradley_terry =
        model.model_card.iter().any(|fact| fact.name == "model" && fact.value == "Bradley-Terry");
    let names = columns.iter().find_map(|c| match &c.kind {
        ColumnKind::Categorical { levels }
            if (c.name == ITEM && is_bradley_terry) || (c.name == ABILITY && has_unknown_level(levels)) =>
        {
            Some(levels.iter().filter(|level| !is_unknown_level(level)).cloned().collect())
        }
        _ => None,
    });
    names.filter(|_| columns.iter().all(|c| [ITEM, ABILITY, HOME].contains(&c.name.as_str())))
}

/// Whether a level is that of new items, which the model was not fitted to.
pub fn is_unknown_level(level: &str) -> bool {
    level == UNKNOWN_LEVEL || level == UNSEEN_RIGHT
}

/// Whether levels are those of items' names, among which there is a level for new items.
fn has_unknown_level(levels: &[String]) -> bool {
    levels.iter().any(|level| level == UNSEEN_RIGHT)
}

/// The code of a level that exists.
pub fn code_of(levels: &[String], level: &str) -> f64 {
    levels.iter().position(|name| name == level).unwrap_or(0) as f64
}

/// The left items of a model's support points, which determine the types of cells; without the columns for
/// home and names.
fn item_points(saved: &SavedModel, sides: &LeftRightColumns) -> Result<Table> {
    let points = &saved.model.support_points;
    let holds_names =
        |c: &Column| matches!(&c.kind, ColumnKind::Categorical { levels } if has_unknown_level(levels));
    let item_columns = sides.left.iter().zip(sides.items(points.columns()));
    let (column_indices, columns): (Vec<&usize>, Vec<Column>) =
        item_columns.filter(|(_, c)| c.name != HOME && !(c.name == ABILITY && holds_names(c))).unzip();
    let values = column_indices.iter().flat_map(|j| points.column(**j)).copied().collect();
    Ok(Table::from_column_major(columns, points.rows(), values)?)
}

/// The items of a table in the model's columns, or without a table those of the model; `None` if the model
/// holds no names.
pub fn items_of_model(
    (file, saved): (&Path, &SavedModel),
    sides: &LeftRightColumns,
    table: Option<&PathBuf>,
    options: (&ItemArgs, &TableArgs, CellArgs),
) -> Result<Option<Items>> {
    let model = file.display().to_string();
    let Some(item_names) = known_names(&saved.model, sides) else {
        let model_items = item_points(saved, sides)?;
        return match table {
            Some(path) => Items::for_model(path, options, &model_items).map(Some),
            None => items_with_abilities(model, saved, sides, &model_items),
        };
    };
    let mut items = match table {
        Some(path) => Items::for_model(path, options, &nothing()?)?,
        None => Items::names_only(model.clone(), item_names.clone())?,
    };
    // In such a model the item's name is a column.
    if let Some(column) = sides.items(saved.model.columns()).into_iter().find(|c| c.name == ITEM) {
        let indices: HashMap<&String, usize> = item_names.iter().zip(0..).collect();
        let code = |id: &String| {
            let index = indices.get(id).map(|index| *index as f64);
            index.ok_or_else(|| Failure::input(format!("{model}: the model has no item '{id}'")))
        };
        let codes = items.names.ids.iter().map(code).collect::<Result<Vec<f64>>>()?;
        items.table = Table::from_column_major(vec![column], codes.len(), codes)?;
    }
    Ok(Some(items))
}

/// The items of the duels to which a model with abilities was fitted: names and columns of its support
/// points. `None` for a model without abilities.
fn items_with_abilities(
    model: String,
    saved: &SavedModel,
    sides: &LeftRightColumns,
    columns: &Table,
) -> Result<Option<Items>> {
    let points = &saved.model.support_points;
    let id = sides.left.iter().zip(sides.items(points.columns())).find(|(_, c)| c.name == ABILITY);
    let Some((&j, Column { kind: ColumnKind::Categorical { levels }, .. })) =
        id.as_ref().map(|(j, column)| (*j, column))
    else {
        return Ok(None);
    };
    if !has_unknown_level(levels) {
        return Ok(None);
    }
    // Each pair is a support point in both orders, so all items occur on the left.
    let row_of_code: BTreeMap<usize, usize> =
        points.column(j).iter().enumerate().map(|(row, code)| (*code as usize, row)).collect();
    let ids = row_of_code.keys().map(|&code| levels[code].clone()).collect();
    let rows: Vec<usize> = row_of_code.into_values().collect();
    let mut items = Items::names_only(model, ids)?;
    items.table = columns.select_rows(&rows);
    Ok(Some(items))
}

/// The items in all columns of a model of duels: names have their codes, other names are those of new items,
/// and nobody is at home.
pub fn rows_of_items(items: &Items, model: &KernelExpansion) -> Result<Table> {
    let columns = LeftRightColumns::from_columns(model.columns())?.items(model.columns());
    let n = items.names.ids.len();
    let mut values = Vec::with_capacity(n * columns.len());
    for column in &columns {
        match (items.table.index_of(&column.name), &column.kind) {
            (Ok(j), _) => values.extend_from_slice(items.table.column(j)),
            (Err(_), ColumnKind::Numeric) => values.extend(std::iter::repeat_n(0.0, n)),
            (Err(_), ColumnKind::Categorical { levels }) => {
                let codes: HashMap<&String, usize> = levels.iter().zip(0..).collect();
                let code = |id| codes.get(id).map_or_else(|| code_of(levels, UNKNOWN_LEVEL), |&c| c as f64);
                values.extend(items.names.ids.iter().map(code));
            }
        }
    }
    // The columns of the items' own table may have other levels.
    let columns = columns.into_iter().map(|column| match items.table.index_of(&column.name) {
        Ok(j) => items.table.columns()[j].clone(),
        Err(_) => column,
    });
    Ok(Table::from_column_major(columns.collect(), n, values)?)
}

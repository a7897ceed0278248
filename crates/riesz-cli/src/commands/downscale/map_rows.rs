//! The rows for which a map is drawn and explained, and their bags.

use std::path::{Path, PathBuf};

use riesz::aggregate::{Bags, TargetUnit};
use riesz::format::model::SavedModel;
use riesz::kernel_model::Link;
use riesz::linalg::Sparse;
use riesz::model_card::CardEntry;
use riesz::{Exactness, Explainer, Explanation, KernelExpansion, Table};
use riesz_report::{Area, Places};

use super::shared_fit::{TARGETS_ARE, WEIGHTS};
use crate::args::{CellArgs, TableArgs};
use crate::commands::importance::rows_for_model;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::aggregates::weights;
use crate::io::columns::Columns;
use crate::io::input::{OpenTable, described};

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

/// Reads the background rows, if there is a file of them.
pub fn background_of(
    saved: &SavedModel,
    path: Option<&Path>,
    options: RowOptions<'_>,
) -> Result<Option<Table>> {
    let read = |path: &Path| Ok(rows_of(saved, options.table.source(path).open()?, (&[], None), options)?.1);
    path.map(read).transpose()
}

/// Explainer of the interventional game if there is a background, else of the functional game.
pub fn explainer<'m>(model: &'m KernelExpansion, background: Option<&Table>) -> Result<Explainer<'m>> {
    Ok(match background {
        Some(background) => Explainer::interventional(model, background)?,
        None => Explainer::functional(model)?,
    })
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

/// Assignment of rows to bags.
pub struct Members {
    /// The bags' names.
    pub names: Vec<String>,
    /// The column of the rows' weights, if there is one.
    pub weight: Option<String>,
    /// The bags, with weights as they were given.
    bags: Bags,
}

impl Members {
    /// Reads the column `bag`, and weights from the column `weight`; without it all weights are 1.
    pub fn read(columns: &Columns, bag: &str, weight: Option<&String>) -> Result<Self> {
        let (names, codes) = columns.levels(bag)?;
        let bag_of_row: Vec<usize> = codes.iter().map(|code| *code as usize).collect();
        let row_weights = weight.map(|name| weights(columns, name, |i| &names[bag_of_row[i]])).transpose()?;
        let bags = Bags::new(&bag_of_row, names.len(), row_weights.as_deref(), TargetUnit::Sum)?;
        Ok(Self { names, weight: weight.cloned(), bags })
    }

    /// The sum of the rows' weights in each bag.
    pub fn mass(&self) -> &[f64] {
        self.bags.weight_sums()
    }

    /// The number of rows of each bag.
    pub fn sizes(&self) -> Vec<usize> {
        (0..self.names.len()).map(|b| self.bags.weights().column(b).count()).collect()
    }

    /// Weighted means or sums of `values` (one per row): by bag, and over all rows.
    pub fn aggregate(&self, values: &[f64], unit: TargetUnit) -> (Vec<f64>, f64) {
        let sum = |b: usize| self.bags.weights().column(b).map(|(i, w)| w * values[i]).sum();
        let sums: Vec<f64> = (0..self.names.len()).map(sum).collect();
        let (total, mass) = (sums.iter().sum::<f64>(), self.mass());
        match unit {
            TargetUnit::Sum => (sums, total),
            TargetUnit::Mean => {
                let means = sums.iter().zip(mass).map(|(sum, mass)| sum / mass).collect();
                (means, total / mass.iter().sum::<f64>())
            }
        }
    }

    /// Weighted means or sums of the explanations of rows, one row per bag: values are linear in the
    /// prediction.
    pub fn explained(&self, rows: &Explanation, unit: TargetUnit) -> Result<Explanation> {
        let means = rows.average(self.bags.weights())?;
        Ok(if unit == TargetUnit::Sum { times(means, self.mass()) } else { means })
    }

    /// The average explanation over all rows.
    pub fn explain_all(&self, rows: &Explanation, unit: TargetUnit) -> Result<Explanation> {
        let (_, rows_of_bags, weights) = self.bags.weights().raw_parts();
        let all_rows =
            Sparse::from_columns(rows.rows(), [rows_of_bags.iter().copied().zip(weights.iter().copied())])?;
        let mean = rows.average(&all_rows)?;
        Ok(if unit == TargetUnit::Sum { times(mean, &[self.mass().iter().sum()]) } else { mean })
    }
}

/// The explanation with everything in row `i` multiplied by `factors[i]`.
fn times(mut e: Explanation, factors: &[f64]) -> Explanation {
    let (m, s) = (e.outputs(), e.sets());
    if let Exactness::Exact { bound } = &mut e.exactness {
        for (g, bound) in bound.iter_mut().enumerate() {
            let values: f64 = e.values[g * s..(g + 1) * s].iter().map(|v| v.abs()).sum();
            // Each product adds one rounding error.
            let size = values + e.predictions[g].abs() + e.base_values[g].abs();
            *bound = factors[g / m] * (*bound + f64::EPSILON * size);
        }
    }
    if let Exactness::Estimated { std_error, .. } = &mut e.exactness {
        std_error.iter_mut().enumerate().for_each(|(k, error)| *error *= factors[k / (m * s)]);
    }
    e.values.iter_mut().enumerate().for_each(|(k, value)| *value *= factors[k / (m * s)]);
    for list in [&mut e.base_values, &mut e.predictions] {
        list.iter_mut().enumerate().for_each(|(g, number)| *number *= factors[g / m]);
    }
    e
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

//! Rows that a map is drawn and explained of, and the bags that they make.

use std::path::{Path, PathBuf};

use riesz::aggregate::{Bags, TargetUnit};
use riesz::explanation::Fact;
use riesz::format::model::SavedModel;
use riesz::kernel_model::Link;
use riesz::linalg::Sparse;
use riesz::{Exactness, Explainer, Explanation, KernelExpansion, Table};

use super::learn::{TARGETS_ARE, WEIGHTS};
use crate::args::TableArgs;
use crate::commands::importance::typed;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::aggregates::weights;
use crate::io::columns::Columns;
use crate::io::input::{OpenTable, described};

/// What is drawn.
pub struct Given {
    /// Columns of rows besides the model's.
    pub columns: Columns,
    /// Rows, in the model's columns.
    pub table: Table,
    /// Their places.
    pub places: [Vec<f64>; 2],
    /// Where absent features take their values from.
    pub background: Option<Table>,
}

/// The rows in the columns of the model, and what columns there are `beside`.
pub fn rows_of(
    saved: &SavedModel,
    rows: OpenTable,
    beside: &[&String],
    weight: Option<&String>,
) -> Result<(Columns, Table)> {
    let own = saved.model.columns();
    let mut wanted: Vec<String> = own.iter().map(|c| c.name.clone()).collect();
    for name in beside.iter().copied().chain(weight) {
        if !wanted.contains(name) {
            wanted.push(name.clone());
        }
    }
    let columns = Columns::read(rows, &wanted)?.without_zero_weights(weight)?;
    let table = typed(&columns, saved)?.align_to(own)?;
    Ok((columns, table))
}

/// Rows from which absent features take their values, if there are some.
pub fn background_of(saved: &SavedModel, path: Option<&Path>, table: &TableArgs) -> Result<Option<Table>> {
    let read = |path: &Path| Ok(rows_of(saved, table.source(path).open()?, &[], None)?.1);
    path.map(read).transpose()
}

/// In the interventional game where there is a background, else in the functional one.
pub fn explainer<'m>(model: &'m KernelExpansion, background: Option<&Table>) -> Result<Explainer<'m>> {
    Ok(match background {
        Some(background) => Explainer::interventional(model, background)?,
        None => Explainer::functional(model)?,
    })
}

/// What files an explanation is of.
pub fn facts(model: &Path, rows: &Path, background: Option<&PathBuf>) -> Result<Vec<Fact>> {
    let files =
        [("model file", Some(model)), ("rows", Some(rows)), ("background", background.map(PathBuf::as_path))];
    files
        .into_iter()
        .filter_map(|(name, path)| Some(described(path?).map(|file| Fact::new(name, file))))
        .collect()
}

/// Rows in bags.
pub struct Members {
    /// The bags' names.
    pub names: Vec<String>,
    /// The column of the rows' weights, if they have some.
    pub weight: Option<String>,
    /// With weights as they are.
    bags: Bags,
}

impl Members {
    /// By the column `bag`, and weights of the column `weight`, 1 by default.
    pub fn read(columns: &Columns, bag: &str, weight: Option<&String>) -> Result<Self> {
        let (names, codes) = columns.levels(bag)?;
        let of: Vec<usize> = codes.iter().map(|code| *code as usize).collect();
        let own = weight.map(|name| weights(columns, name, |i| &names[of[i]])).transpose()?;
        let bags = Bags::new(&of, names.len(), own.as_deref(), TargetUnit::Sum)?;
        Ok(Self { names, weight: weight.cloned(), bags })
    }

    /// By bag the sum of its rows' weights.
    pub fn mass(&self) -> &[f64] {
        self.bags.weight_sums()
    }

    /// By bag how many rows it has.
    pub fn sizes(&self) -> Vec<usize> {
        (0..self.names.len()).map(|b| self.bags.weights().column(b).count()).collect()
    }

    /// By bag the weighted means or sums of numbers of rows, and that of all rows.
    pub fn of(&self, values: &[f64], unit: TargetUnit) -> (Vec<f64>, f64) {
        let sum = |b: usize| self.bags.weights().column(b).map(|(i, w)| w * values[i]).sum();
        let sums: Vec<f64> = (0..self.names.len()).map(sum).collect();
        let (all, mass) = (sums.iter().sum::<f64>(), self.mass());
        match unit {
            TargetUnit::Sum => (sums, all),
            TargetUnit::Mean => {
                let means = sums.iter().zip(mass).map(|(sum, mass)| sum / mass).collect();
                (means, all / mass.iter().sum::<f64>())
            }
        }
    }

    /// Weighted means or sums of explained rows, a row a bag: values are linear in what is explained.
    pub fn explained(&self, rows: &Explanation, unit: TargetUnit) -> Result<Explanation> {
        let means = rows.average(self.bags.weights())?;
        Ok(if unit == TargetUnit::Sum { times(means, self.mass()) } else { means })
    }

    /// The same of all rows together.
    pub fn together(&self, rows: &Explanation, unit: TargetUnit) -> Result<Explanation> {
        let (_, places, weights) = self.bags.weights().raw_parts();
        let all = Sparse::from_columns(rows.rows(), [places.iter().copied().zip(weights.iter().copied())])?;
        let mean = rows.average(&all)?;
        Ok(if unit == TargetUnit::Sum { times(mean, &[self.mass().iter().sum()]) } else { mean })
    }
}

/// Rows of an explanation, so many times each.
fn times(mut e: Explanation, by: &[f64]) -> Explanation {
    let (m, s) = (e.outputs(), e.sets());
    if let Exactness::Exact { bound } = &mut e.exactness {
        for (g, bound) in bound.iter_mut().enumerate() {
            let values: f64 = e.values[g * s..(g + 1) * s].iter().map(|v| v.abs()).sum();
            // Each product is rounded once more.
            let size = values + e.predictions[g].abs() + e.base_values[g].abs();
            *bound = by[g / m] * (*bound + f64::EPSILON * size);
        }
    }
    if let Exactness::Estimated { std_error, .. } = &mut e.exactness {
        std_error.iter_mut().enumerate().for_each(|(k, own)| *own *= by[k / (m * s)]);
    }
    e.values.iter_mut().enumerate().for_each(|(k, own)| *own *= by[k / (m * s)]);
    for list in [&mut e.base_values, &mut e.predictions] {
        list.iter_mut().enumerate().for_each(|(g, own)| *own *= by[g / m]);
    }
    e
}

/// Whether what is explained of bags are means or sums of their rows: sums if that is said, by the model's
/// file or by `sum`. What counts are learnt through, logarithms of rates and log odds, has means alone.
pub fn unit_of(model: &KernelExpansion, sum: bool) -> Result<TargetUnit> {
    let counts = matches!(model.link, Link::Log | Link::Logit);
    if counts && sum {
        return Err(Failure::input(
            "--sum: explanations of counts are of the logarithm of the rate or of log odds, of which bags \
             have means: leave it out",
        ));
    }
    let own =
        model.model_card.iter().any(|fact| fact.name == TARGETS_ARE && fact.value.contains("weighted sums"));
    Ok(if sum || own { TargetUnit::Sum } else { TargetUnit::Mean })
}

/// Warns where the model was learnt from weighted rows, and these are not.
pub fn warn_of_weights(model: &KernelExpansion, given: Option<&String>, console: &Console) {
    let own = model.model_card.iter().find(|fact| fact.name == WEIGHTS);
    if let Some(own) = own.filter(|own| given != Some(&own.value)) {
        let now = given.map_or_else(|| "count one each".into(), |name| format!("are weighted by '{name}'"));
        console
            .warn(format!("the map was learnt from rows weighted by '{}', and here they {now}", own.value));
    }
}

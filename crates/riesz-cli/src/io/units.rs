//! The units of columns that several tables of one command share.

use std::collections::{BTreeMap, HashMap};

use riesz::Column;
use riesz::columns::same_unit;

use super::columns::Columns;
use crate::exit::{Failure, Result};

/// The unit of each column (`None` for numbers without one), with the name of the table where it was found.
#[derive(Debug, Default)]
pub struct Units(BTreeMap<String, (Option<String>, String)>);

impl Units {
    /// Adds the columns `names` of a table.
    ///
    /// # Errors
    /// A column whose numbers have a different unit in a table that was added before.
    pub fn add(&mut self, columns: &Columns, names: &[String]) -> Result<()> {
        let units: HashMap<String, String> = columns.units(names)?.into_iter().collect();
        for name in names {
            let unit = units.get(name).cloned();
            let (earlier, table) =
                self.0.entry(name.clone()).or_insert_with(|| (unit.clone(), columns.name.clone()));
            let is_same = match (&*earlier, &unit) {
                (Some(earlier), Some(unit)) => same_unit(earlier, unit),
                (earlier, unit) => *earlier == *unit,
            };
            if !is_same {
                return Err(Failure::input(format!(
                    "column '{name}' has numbers {} in {table} and {} in {}: write all numbers in one unit",
                    describe(earlier.as_deref()),
                    describe(unit.as_deref()),
                    columns.name
                )));
            }
        }
        Ok(())
    }

    /// The unit of each of these columns.
    pub fn units_of_columns(&self, columns: &[Column]) -> Vec<Option<String>> {
        columns.iter().map(|column| self.0.get(&column.name).and_then(|(unit, _)| unit.clone())).collect()
    }
}

fn describe(unit: Option<&str>) -> String {
    unit.map_or_else(|| "without a unit".into(), |unit| format!("in {unit}"))
}

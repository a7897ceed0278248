//! Tables of choices from sets of items.

use std::collections::HashMap;
use std::path::Path;

use riesz::preference::{Choices, Places, SetRows, rows_of_sets};

use super::columns::{Columns, sorted_levels};
use super::duels::{Items, Names, names_of};
use crate::args::TableArgs;
use crate::exit::{Failure, Result};

/// The columns of choices.
pub const COLUMNS: &str = "set,item,chosen";

/// Reads a table with a column of sets and one of items. Returns the names of the sets in the order in which
/// they first occur, and the items of each.
pub fn read_sets(path: &Path, columns: &str, table: &TableArgs) -> Result<Vec<(String, Vec<String>)>> {
    let named: Vec<String> = columns.split(',').map(|name| name.trim().to_string()).collect();
    let [set, item] = &named[..] else {
        return Err(Failure::input(format!("--columns {columns}: give two columns: of sets and of items")));
    };
    let columns = Columns::read(table.source(path).open()?, &named)?;
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut sets: Vec<(String, Vec<String>)> = Vec::new();
    for (name, item) in names_of(&columns, set)?.into_iter().zip(names_of(&columns, item)?) {
        let position = *positions.entry(name.clone()).or_insert(sets.len());
        if position == sets.len() {
            sets.push((name, Vec::new()));
        }
        sets[position].1.push(item);
    }
    Ok(sets)
}

/// A table of choices: the name of its file, and for each row its set, its item, and the item's place.
pub struct ChoiceTable {
    source: String,
    sets: Vec<String>,
    items: Vec<String>,
    chosen: Vec<f64>,
}

impl ChoiceTable {
    /// Reads a table with these three columns: sets, items, and 1 for each chosen item (2, … for later
    /// places).
    pub fn read(path: &Path, columns: &str, table: &TableArgs) -> Result<Self> {
        let named: Vec<String> = columns.split(',').map(|name| name.trim().to_string()).collect();
        let [set, item, chosen] = &named[..] else {
            let reason = format!("--choices={columns}: give three columns: of sets, items and chosen items");
            return Err(Failure::input(reason));
        };
        let columns = Columns::read(table.source(path).open()?, &named)?;
        Ok(Self {
            source: columns.name.clone(),
            sets: names_of(&columns, set)?,
            items: names_of(&columns, item)?,
            chosen: columns.numbers_or_missing(chosen)?,
        })
    }

    /// The items that occur, with names only.
    pub fn names_only(&self) -> Result<Items> {
        Items::names_only(self.source.clone(), sorted_levels(self.items.clone()))
    }

    /// The choices between these items.
    pub fn choices(&self, names: &Names) -> Result<Choices> {
        let about = |e: riesz::Error| Failure::from(e).about(&self.source);
        let rows = rows_of_sets(&self.sets, &self.chosen).map_err(about)?;
        let numbers = |rows: &Vec<usize>| -> Result<Vec<usize>> {
            rows.iter().map(|&row| names.index_of(&self.items[row])).collect()
        };
        let sets = rows.iter().map(|set| numbers(&set.items)).collect::<Result<Vec<_>>>()?;
        let by_place = |set: &SetRows| set.chosen.iter().map(numbers).collect::<Result<Places>>();
        let chosen = rows.iter().map(by_place).collect::<Result<Vec<_>>>()?;
        Choices::new(names.ids.len(), &sets, &chosen, None).map_err(about)
    }
}

//! Bags of items: a table of the membership of items in bags, with weights.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::error::listed;
use riesz::preference::ItemBags;

use super::columns::Columns;
use super::duels::{Items, Names, first_of, names_of};
use crate::args::TableArgs;
use crate::exit::{Failure, Result};

/// Which items make bags.
#[derive(Debug, Clone, clap::Args)]
pub struct BagArgs {
    /// Duels are between bags of items (teams, baskets): a table with the columns bag and item, and weight if
    /// items of a bag count differently. The log odds of two bags are the mean of those of their members
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub members: Option<PathBuf>,
}

/// Bags of items, and what they are called.
pub struct Teams {
    /// Their names.
    pub names: Names,
    /// Their members.
    pub bags: ItemBags,
}

impl BagArgs {
    /// Reads them, if they are given.
    pub fn read(&self, items: &Items, table: &TableArgs) -> Result<Option<Teams>> {
        self.members.as_deref().map(|path| read(path, items, table)).transpose()
    }
}

fn read(path: &Path, items: &Items, table: &TableArgs) -> Result<Teams> {
    let rows = table.source(path).open()?;
    let (source, header) = (rows.name.clone(), rows.header().to_vec());
    let has = |name: &str| header.iter().any(|column| column == name);
    if !(has("bag") && has("item")) {
        return Err(Failure::input(format!(
            "{source}: members have the columns 'bag' and 'item', and 'weight' if they count differently; \
             the columns are: {}",
            listed(&header)
        )));
    }
    let wanted: Vec<String> =
        ["bag", "item", "weight"].into_iter().filter(|name| has(name)).map(String::from).collect();
    let columns = Columns::read(rows, &wanted)?;
    let (called, members) = (names_of(&columns, "bag")?, names_of(&columns, "item")?);
    let weight = has("weight").then(|| columns.numbers("weight")).transpose()?;
    let mut ids: Vec<String> = called.clone();
    ids.sort_unstable();
    ids.dedup();
    let names = Names::new("bag", source.clone(), ids)?;
    let unknown: Vec<String> = members.iter().filter(|id| items.names.find(id).is_none()).cloned().collect();
    if !unknown.is_empty() {
        return Err(Failure::input(format!(
            "{source}: members name items that {} does not have: {}; add them, or leave them out",
            items.names.source,
            first_of(&unknown)
        )));
    }
    let bag: Vec<usize> = called.iter().filter_map(|id| names.find(id)).collect();
    let item: Vec<usize> = members.iter().filter_map(|id| items.names.find(id)).collect();
    let bags = ItemBags::new(items.table.rows(), names.ids.len(), &bag, &item, weight.as_deref());
    Ok(Teams { bags: bags.map_err(|e| Failure::from(e).about(&source))?, names })
}

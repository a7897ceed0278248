//! Bags of items: a table of the items in each bag, with weights.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::error::listed;
use riesz::preference::ItemBags;

use super::columns::Columns;
use super::duels::{Items, Names, first_of, names_of};
use crate::args::TableArgs;
use crate::exit::{Failure, Result};

/// Options for duels between bags of items.
#[derive(Debug, Clone, clap::Args)]
pub struct BagArgs {
    /// Duels are between bags of items (teams, baskets): a table with the columns bag and item, and weight if
    /// items of a bag have different weights. The log odds of two bags are the mean over pairs of their
    /// members
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub members: Option<PathBuf>,
}

/// Bags of items with their names.
pub struct Teams {
    /// The names of the bags.
    pub names: Names,
    /// The members of the bags.
    pub bags: ItemBags,
}

impl BagArgs {
    /// Reads the bags, if a table of members is given.
    pub fn read(&self, items: &Items, table: &TableArgs) -> Result<Option<Teams>> {
        self.members.as_deref().map(|path| read(path, items, table)).transpose()
    }
}

fn read(path: &Path, items: &Items, table: &TableArgs) -> Result<Teams> {
    let rows = table.source(path).open()?;
    let (source, header) = (rows.name.clone(), rows.header().to_vec());
    let has_column = |name: &str| header.iter().any(|column| column == name);
    if !(has_column("bag") && has_column("item")) {
        return Err(Failure::input(format!(
            "{source}: a table of members needs the columns 'bag' and 'item', and may have 'weight'; the \
             columns are: {}",
            listed(&header)
        )));
    }
    let column_names: Vec<String> =
        ["bag", "item", "weight"].into_iter().filter(|name| has_column(name)).map(String::from).collect();
    let columns = Columns::read(rows, &column_names)?;
    let (bag_ids, members) = (names_of(&columns, "bag")?, names_of(&columns, "item")?);
    let weight = has_column("weight").then(|| columns.numbers("weight")).transpose()?;
    let mut ids: Vec<String> = bag_ids.clone();
    ids.sort_unstable();
    ids.dedup();
    let names = Names::new("bag", source.clone(), ids)?;
    let unknown: Vec<String> = members.iter().filter(|id| items.names.find(id).is_none()).cloned().collect();
    if !unknown.is_empty() {
        return Err(Failure::input(format!(
            "{source}: members include items that {} lacks: {}; add the items, or leave the members out",
            items.names.source,
            first_of(&unknown)
        )));
    }
    let bag: Vec<usize> = bag_ids.iter().filter_map(|id| names.find(id)).collect();
    let item: Vec<usize> = members.iter().filter_map(|id| items.names.find(id)).collect();
    let bags = ItemBags::new(items.table.rows(), names.ids.len(), &bag, &item, weight.as_deref());
    Ok(Teams { bags: bags.map_err(|e| Failure::from(e).about(&source))?, names })
}

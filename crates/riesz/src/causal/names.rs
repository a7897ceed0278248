//! Lists of names of variables.

use std::collections::BTreeSet;

/// Returns the names in alphabetical order.
pub(super) fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}

/// Returns the names in the order in which they first occur, each once.
pub(super) fn distinct<'n>(names: impl IntoIterator<Item = &'n String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(*name)).cloned().collect()
}

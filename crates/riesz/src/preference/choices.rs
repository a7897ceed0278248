//! Choices from sets of items: `P(a is chosen from C) = exp f_a / Σ_{b ∈ C} exp f_b` with a utility f (the
//! multinomial logit model, Luce 1959; McFadden 1974). A ranking of a set is a sequence of choices from the
//! remaining items (Plackett 1975). A duel is a choice from two items.

use std::collections::{BTreeMap, BTreeSet};

use super::duel_sides::prepare_entries;
use super::duels::Duels;
use super::pair_kernel::Pair;
use crate::error::{Error, Result, sized};
use crate::gp::likelihood::choices::{ChoiceLikelihood, OptionSet};
use crate::kernel::Kernel;
use crate::table::Table;

/// The rows of a set in a table of choices, which has one row for each item of a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetRows {
    /// The rows of the set's items.
    pub items: Vec<usize>,
    /// The rows of the chosen items, the best first.
    pub chosen: Vec<usize>,
}

/// Returns the rows of each set, in the order in which sets first occur, from the set of each row and its
/// cell in the column of chosen items: 1 for the chosen item, 2 for the second place, and so on, 0 or NaN for
/// the others.
///
/// # Errors
/// [`Error::Shape`]; [`Error::Parameter`] for a cell that is not a whole number, for two items of a set in
/// the same place, and for a set without a chosen item.
pub fn rows_of_sets(sets: &[String], chosen: &[f64]) -> Result<Vec<SetRows>> {
    sized("the column of chosen items", "cells", sets.len(), chosen.len(), "one per row")?;
    let mut position: BTreeMap<&String, usize> = BTreeMap::new();
    let mut names: Vec<&String> = Vec::new();
    let mut items: Vec<Vec<usize>> = Vec::new();
    let mut places: Vec<BTreeMap<u64, usize>> = Vec::new();
    for (row, (set, cell)) in sets.iter().zip(chosen).enumerate() {
        let k = *position.entry(set).or_insert(names.len());
        if k == names.len() {
            names.push(set);
            items.push(Vec::new());
            places.push(BTreeMap::new());
        }
        items[k].push(row);
        if cell.is_nan() || *cell == 0.0 {
            continue;
        }
        if !(*cell >= 1.0 && cell.fract() == 0.0 && *cell < 1e15) {
            let allowed = "it is 1 for the chosen item, 2 for the second place, …, and 0 for the others";
            return Err(Error::parameter(format!("chosen of row {}", row + 1), cell, allowed));
        }
        if places[k].insert(*cell as u64, row).is_some() {
            let allowed = "one item is chosen; several items have the places 1, 2, …";
            return Err(Error::parameter(format!("chosen of set '{set}'"), format!("{cell} twice"), allowed));
        }
    }
    if let Some(k) = places.iter().position(BTreeMap::is_empty) {
        let allowed = "each set has a chosen item: leave the set out";
        return Err(Error::parameter(format!("chosen of set '{}'", names[k]), "nothing", allowed));
    }
    let rows = items.into_iter().zip(places);
    Ok(rows.map(|(items, places)| SetRows { items, chosen: places.into_values().collect() }).collect())
}

/// Choices between rows of a table of items, with a column of names for abilities.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceEntries {
    /// The items' columns, and with names the column [`ABILITY`](super::ABILITY) for the items in sets.
    pub table: Table,
    /// The choices between the rows of the table.
    pub choices: Choices,
    /// The kernel of abilities; `None` without names.
    pub extra_utility_kernel: Option<Kernel>,
}

/// Returns the rows of choices with `names` of the items (one per item), as [`prepare_entries`] does for
/// duels.
///
/// # Errors
/// As [`prepare_entries`].
pub fn prepare_choices(items: &Table, choices: &Choices, names: Option<&[String]>) -> Result<ChoiceEntries> {
    if names.is_none() {
        return Ok(ChoiceEntries {
            table: items.clone(),
            choices: choices.clone(),
            extra_utility_kernel: None,
        });
    }
    let (used, choices) = choices.without_unused_items();
    let pairs = choices.reference_pairs();
    let (left, right): (Vec<usize>, Vec<usize>) = pairs.iter().map(|(l, r)| (used[*l], used[*r])).unzip();
    let entries = prepare_entries(items, (&left, &right), &vec![0.5; left.len()], None, names)?;
    // The entries have one row for each item in a set, ascending.
    Ok(ChoiceEntries { table: entries.table, choices, extra_utility_kernel: entries.extra_utility_kernel })
}

/// Choices between items with numbers from 0. All choices from a set are one entry, with the weight of the
/// choices of each of its items.
///
/// ```
/// use riesz::preference::Choices;
///
/// // 2 was chosen from {0, 1, 2}, and {1, 2, 3} was ranked: 3 first, then 1.
/// let sets = [vec![0, 1, 2], vec![1, 2, 3]];
/// let choices = Choices::new(4, &sets, &[vec![2], vec![3, 1]], None)?;
/// assert_eq!(choices.count(), 3); // the second place is a choice from {1, 2}
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    items: usize,
    /// For each set, ascending, the weight of the choices of each of its items.
    sets: BTreeMap<Vec<usize>, Vec<f64>>,
    count: usize,
}

impl Choices {
    /// Creates choices from the sets and the chosen items of each set: one item, or several in the order of
    /// their places, the best first. Weights are by default 1, one per set.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::TooFew`] without sets; [`Error::Parameter`] for an item that does not
    /// exist or is twice in its set, a set of fewer than two items, chosen items that are not in their set or
    /// chosen twice, and a weight that is not positive.
    pub fn new(
        items: usize,
        sets: &[Vec<usize>],
        chosen: &[Vec<usize>],
        weight: Option<&[f64]>,
    ) -> Result<Self> {
        sized("the list of chosen items", "entries", sets.len(), chosen.len(), "one per set")?;
        if let Some(weight) = weight {
            sized("weight", "numbers", sets.len(), weight.len(), "one per set")?;
        }
        if sets.is_empty() {
            return Err(Error::too_few("the table of choices", 1, "set is"));
        }
        let mut choices = Self { items, sets: BTreeMap::new(), count: 0 };
        for (i, (set, chosen)) in sets.iter().zip(chosen).enumerate() {
            let weight = weight.map_or(1.0, |w| w[i]);
            choices
                .add(set, chosen, weight)
                .map_err(|(value, allowed)| Error::parameter(format!("set {}", i + 1), value, allowed))?;
        }
        Ok(choices)
    }

    /// Adds the choices from a set; the error has the wrong value and what is allowed.
    fn add(
        &mut self,
        set: &[usize],
        chosen: &[usize],
        weight: f64,
    ) -> std::result::Result<(), (String, String)> {
        let refuse = |value: String, allowed: String| Err((value, allowed));
        let mut remaining: BTreeSet<usize> = set.iter().copied().collect();
        if let Some(item) = set.iter().find(|item| **item >= self.items) {
            return refuse(
                format!("item {item}"),
                format!("there are {} items, numbered from 0", self.items),
            );
        }
        if remaining.len() < set.len() {
            return refuse("an item twice".into(), "each item of a set is listed once".into());
        }
        if set.len() < 2 {
            let allowed = "a choice is from two or more items: leave the set out";
            return refuse(format!("{} items", set.len()), allowed.into());
        }
        if chosen.is_empty() {
            return refuse("nothing chosen".into(), "one item or more are chosen: leave the set out".into());
        }
        if !(weight.is_finite() && weight > 0.0) {
            return refuse(format!("weight {weight}"), "weights are positive numbers".into());
        }
        for item in chosen {
            if !remaining.contains(item) {
                let allowed = "chosen items are items of their set, each chosen once";
                return refuse(format!("chosen item {item}"), allowed.into());
            }
            // The last item of a full ranking has no alternatives.
            if remaining.len() > 1 {
                let options: Vec<usize> = remaining.iter().copied().collect();
                let position = options.partition_point(|option| option < item);
                let weights = self.sets.entry(options).or_insert_with(|| vec![0.0; remaining.len()]);
                weights[position] += weight;
                self.count += 1;
            }
            remaining.remove(item);
        }
        Ok(())
    }

    /// Returns the number of items, some of which may be in no set.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Returns the number of choices; a ranking has one for each place.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of distinct sets.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Returns the items that are in a set, ascending, and the choices with the numbers of these items.
    pub(super) fn without_unused_items(&self) -> (Vec<usize>, Self) {
        let used: BTreeSet<usize> = self.sets.keys().flatten().copied().collect();
        let new_index: BTreeMap<usize, usize> = used.iter().copied().zip(0..).collect();
        let renumbered = |(set, weights): (&Vec<usize>, &Vec<f64>)| {
            (set.iter().map(|item| new_index[item]).collect(), weights.clone())
        };
        let sets = self.sets.iter().map(renumbered).collect();
        (used.iter().copied().collect(), Self { items: used.len(), sets, count: self.count })
    }

    /// Returns the pairs of each item but the last with the last one. Their log odds determine the
    /// probabilities of choices.
    pub(super) fn reference_pairs(&self) -> Vec<Pair> {
        let reference = self.items - 1;
        (0..reference).map(|item| (item, reference)).collect()
    }

    /// Returns the pairs of [`reference_pairs`](Self::reference_pairs) in the form of duels. Their outcomes
    /// have no meaning.
    pub(super) fn reference_duels(&self) -> Result<Duels> {
        let (left, right): (Vec<usize>, Vec<usize>) = self.reference_pairs().into_iter().unzip();
        Ok(Duels::new(self.items, &left, &right, &vec![0.5; left.len()], None)?.with_count(self.count))
    }

    /// Returns the likelihood of the choices given the log odds of the
    /// [`reference_pairs`](Self::reference_pairs).
    pub(super) fn likelihood(&self) -> ChoiceLikelihood {
        let reference = self.items - 1;
        let option_set = |(set, weights): (&Vec<usize>, &Vec<f64>)| OptionSet {
            latents: set.iter().map(|item| (*item != reference).then_some(*item)).collect(),
            weights: weights.clone(),
        };
        ChoiceLikelihood { latents: reference, sets: self.sets.iter().map(option_set).collect() }
    }
}

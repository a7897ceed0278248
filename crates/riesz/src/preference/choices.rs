//! Choices from sets of items. An item a of a set C with m items has the score
//! `v_a = Σ_{b ∈ C} g(a, b) / m`, where g are the log odds of duels, and is chosen with the probability
//! `exp v_a / Σ_{b ∈ C} exp v_b`. A duel is a choice from two items.
//!
//! With a utility f, scores are f plus a constant, and this is the multinomial logit model (Luce 1959;
//! McFadden 1974). With a generalised part the ratio of two probabilities depends on the other items of the
//! set, as in the context-dependent model of Seshadri, Peysakhovich and Ugander (2019), with interactions
//! that are skew-symmetric.
//!
//! A ranking of a set is a sequence of choices from the remaining items (Plackett 1975). If k items are
//! chosen without an order, a subset S has a probability proportional to `exp Σ_{a ∈ S} v_a`, given k.

use std::collections::{BTreeMap, BTreeSet};

use super::duel_sides::prepare_entries;
use super::duels::Duels;
use super::pair_kernel::Pair;
use crate::error::{Error, Result, sized};
use crate::gp::likelihood::choices::{ChoiceLikelihood, LinearForm, OptionSet};
use crate::kernel::Kernel;
use crate::table::Table;

/// The rows of a set in a table of choices, which has one row for each item of a set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetRows {
    /// The rows of the set's items.
    pub items: Vec<usize>,
    /// The rows of the chosen items by place, the best first.
    pub chosen: Places,
}

/// The chosen items of a set by place, the best first. Items that share a place have no order.
pub type Places = Vec<Vec<usize>>;

/// Returns the rows of each set, in the order in which sets first occur, from the set of each row and its
/// cell in the column of chosen items: 1 for each chosen item, 2 for the second place, and so on, 0 or NaN
/// for the others.
///
/// # Errors
/// [`Error::Shape`]; [`Error::Parameter`] for a cell that is not a whole number, and for a set without a
/// chosen item.
pub fn rows_of_sets(sets: &[String], chosen: &[f64]) -> Result<Vec<SetRows>> {
    sized("the column of chosen items", "cells", sets.len(), chosen.len(), "one per row")?;
    let mut position: BTreeMap<&String, usize> = BTreeMap::new();
    let mut names: Vec<&String> = Vec::new();
    let mut items: Vec<Vec<usize>> = Vec::new();
    let mut places: Vec<BTreeMap<u64, Vec<usize>>> = Vec::new();
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
            let allowed = "it is 1 for the chosen items, 2 for the second place, …, and 0 for the others";
            return Err(Error::parameter(format!("chosen of row {}", row + 1), cell, allowed));
        }
        places[k].entry(*cell as u64).or_default().push(row);
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

/// Choices between items with numbers from 0. All choices of the same number of items from a set are one
/// entry, with the weight of the choices that include each of its items.
///
/// ```
/// use riesz::preference::Choices;
///
/// // 2 was chosen from {0, 1, 2}; {1, 2, 3} was ranked, 3 first, then 1; and 0 and 3 were chosen together.
/// let sets = [vec![0, 1, 2], vec![1, 2, 3], vec![0, 1, 2, 3]];
/// let chosen = [vec![vec![2]], vec![vec![3], vec![1]], vec![vec![0, 3]]];
/// let choices = Choices::new(4, &sets, &chosen, None)?;
/// assert_eq!(choices.count(), 4); // the second place is a choice from {1, 2}
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    items: usize,
    /// For each set, ascending, and each number of items that are chosen together, the weight of the choices
    /// that include each of its items.
    sets: BTreeMap<(Vec<usize>, usize), Vec<f64>>,
    count: usize,
}

/// Choices as observations of the log odds of pairs of items.
pub(super) struct PairChoices {
    /// The pairs, in the form of duels whose outcomes have no meaning.
    pub duels: Duels,
    /// The likelihood given the log odds of the pairs.
    pub likelihood: ChoiceLikelihood,
}

impl Choices {
    /// Creates choices from the sets and the chosen items of each set. Weights are by default 1, one per set.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::TooFew`] without sets; [`Error::Parameter`] for an item that does not
    /// exist or is twice in its set, a set of fewer than two items, chosen items that are not in their set or
    /// chosen twice, a set of which no item or every item is chosen, and a weight that is not positive.
    pub fn new(items: usize, sets: &[Vec<usize>], chosen: &[Places], weight: Option<&[f64]>) -> Result<Self> {
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
        chosen: &Places,
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
        if chosen.iter().any(Vec::is_empty) || chosen.is_empty() {
            return refuse("nothing chosen".into(), "one item or more are chosen: leave the set out".into());
        }
        if chosen[0].len() >= set.len() {
            let allowed = "a choice of all items gives no information: leave the set out";
            return refuse("every item chosen".into(), allowed.into());
        }
        if !(weight.is_finite() && weight > 0.0) {
            return refuse(format!("weight {weight}"), "weights are positive numbers".into());
        }
        for place in chosen {
            let options: Vec<usize> = remaining.iter().copied().collect();
            for item in place {
                if !remaining.remove(item) {
                    let allowed = "chosen items are items of their set, each chosen once";
                    return refuse(format!("chosen item {item}"), allowed.into());
                }
            }
            // The last place of a full ranking has no alternatives.
            if place.len() < options.len() {
                let positions = place.iter().map(|item| options.partition_point(|option| option < item));
                let positions: Vec<usize> = positions.collect();
                let no_weights = vec![0.0; options.len()];
                let weights = self.sets.entry((options, place.len())).or_insert(no_weights);
                positions.iter().for_each(|position| weights[*position] += weight);
                self.count += 1;
            }
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

    /// Returns the number of distinct sets; those with different numbers of chosen items are distinct.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Returns the items that are in a set, ascending, and the choices with the numbers of these items.
    pub(super) fn without_unused_items(&self) -> (Vec<usize>, Self) {
        let used: BTreeSet<usize> = self.sets.keys().flat_map(|(set, _)| set.iter().copied()).collect();
        let new_index: BTreeMap<usize, usize> = used.iter().copied().zip(0..).collect();
        let renumbered = |((set, count), weights): (&(Vec<usize>, usize), &Vec<f64>)| {
            ((set.iter().map(|item| new_index[item]).collect(), *count), weights.clone())
        };
        let sets = self.sets.iter().map(renumbered).collect();
        (used.iter().copied().collect(), Self { items: used.len(), sets, count: self.count })
    }

    /// Returns the pairs of each item but the last with the last one. With a utility alone, their log odds
    /// determine the probabilities of choices.
    fn reference_pairs(&self) -> Vec<Pair> {
        let reference = self.items - 1;
        (0..reference).map(|item| (item, reference)).collect()
    }

    /// Returns the choices as observations of the log odds of pairs: those of each item with the last one for
    /// a model with a utility alone, and otherwise all pairs of items of a set. Every item is in a set.
    pub(super) fn of_pairs(&self, has_cycles: bool) -> Result<PairChoices> {
        let pairs: BTreeMap<Pair, usize> = if has_cycles {
            let distinct: BTreeSet<Pair> = self.sets.keys().flat_map(|(set, _)| pairs_of_set(set)).collect();
            distinct.into_iter().zip(0..).collect()
        } else {
            self.reference_pairs().into_iter().zip(0..).collect()
        };
        let reference = self.items - 1;
        let against_reference =
            |item: &usize| if *item == reference { Vec::new() } else { vec![(*item, 1.0)] };
        let option_set = |((set, count), weights): (&(Vec<usize>, usize), &Vec<f64>)| OptionSet {
            scores: match has_cycles {
                true => mean_log_odds(set, |pair| pairs[&pair]),
                false => set.iter().map(against_reference).collect(),
            },
            count: *count,
            weights: weights.clone(),
        };
        let sets = self.sets.iter().map(option_set).collect();
        let likelihood = ChoiceLikelihood { latents: pairs.len(), sets };
        let (left, right): (Vec<usize>, Vec<usize>) = pairs.into_keys().unzip();
        let duels = Duels::new(self.items, &left, &right, &vec![0.5; left.len()], None)?;
        Ok(PairChoices { duels: duels.with_count(self.count), likelihood })
    }
}

/// Returns the score of each item of a set, its log odds against the others divided by the number of items.
/// `index` returns the index of the log odds of a pair, which has the lower number first.
pub(super) fn mean_log_odds(set: &[usize], index: impl Fn(Pair) -> usize) -> Vec<LinearForm> {
    let share = 1.0 / set.len() as f64;
    let term = |a: usize, b: usize| if a < b { (index((a, b)), share) } else { (index((b, a)), -share) };
    let score = |&a: &usize| set.iter().filter(|b| **b != a).map(|&b| term(a, b)).collect();
    set.iter().map(score).collect()
}

/// Returns the pairs of items of a set, whose items are ascending.
pub(super) fn pairs_of_set(set: &[usize]) -> impl Iterator<Item = Pair> + '_ {
    set.iter().enumerate().flat_map(|(i, a)| set[i + 1..].iter().map(|b| (*a, *b)))
}

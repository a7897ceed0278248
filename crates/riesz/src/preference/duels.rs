//! Duels in the form for model fitting: each compared pair of items once, with the share of its duels that
//! the left item won.

use std::collections::BTreeMap;

use super::comparison_graph::Adjacency;
use crate::error::{Error, Result, sized};
use crate::kernel_model::parts::key;
use crate::random::sorted_sample;
use crate::table::Table;

/// The largest total weight of all duels; larger weights would overflow covariances.
const MAX_TOTAL_WEIGHT: f64 = 1e100;

/// Duels between items with numbers from 0.
///
/// The order of the two items has no meaning. All duels of a pair (in the same [context](Self::in_contexts))
/// become one entry. Its weight is the sum of their weights, and its outcome is the weighted share that the
/// item with the lower number won. A tie is half a win for each item. The likelihood is preserved up to a
/// constant.
///
/// ```
/// use riesz::preference::Duels;
///
/// let duels = Duels::new(3, &[0, 1, 2], &[1, 0, 1], &[1.0, 1.0, 0.5], None)?;
/// assert_eq!(duels.pairs(), [(0, 1), (1, 2)]);
/// assert_eq!(duels.outcome(), [0.5, 0.5]); // each of 0 and 1 won once, and 1 and 2 tied
/// assert_eq!(duels.weight(), [2.0, 1.0]);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Duels {
    items: usize,
    pairs: Vec<(usize, usize)>,
    outcome: Vec<f64>,
    weight: Vec<f64>,
    ties: Vec<f64>,
    has_fractions: bool,
    contexts: Option<Contexts>,
    count: usize,
}

/// The contexts of the compared pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct Contexts {
    /// The distinct contexts.
    pub table: Table,
    /// For each compared pair, the row of its context.
    pub rows: Vec<usize>,
}

/// A duel with the item of the lower number first.
#[derive(Clone, Copy)]
struct OrientedDuel {
    first: usize,
    second: usize,
    context: usize,
    /// The share that the first item won, times the weight.
    won: f64,
    weight: f64,
    /// The weight of a tie; 0 for other outcomes.
    ties: f64,
}

impl OrientedDuel {
    /// Returns the pair and the context, which the duels of one entry share.
    fn entry(&self) -> (usize, usize, usize) {
        (self.first, self.second, self.context)
    }
}

/// Checks duel `i` of a list, from 0, whose weight was given or is 1.
fn check_duel(i: usize, items: usize, (l, r): (usize, usize), won: f64, weight: f64) -> Result<()> {
    let error = |quantity: &str, value: String, allowed: &str| {
        Err(Error::parameter(format!("{quantity} of duel {}", i + 1), value, allowed))
    };
    if let Some(item) = [l, r].into_iter().find(|item| *item >= items) {
        return error("item", item.to_string(), &format!("there are {items} items, numbered from 0"));
    }
    if l == r {
        let allowed = "an item that meets itself gives no information: leave the duel out";
        return error("item", l.to_string(), allowed);
    }
    if !(0.0..=1.0).contains(&won) {
        let allowed = "it must be 1 if the left item won, 0 if the right item won, and 0.5 for a tie";
        return error("outcome", won.to_string(), allowed);
    }
    if !(weight.is_finite() && weight > 0.0) {
        return error("weight", weight.to_string(), "weights are positive numbers");
    }
    Ok(())
}

/// Sorts duels by a key below `bound`; duels with equal keys keep their order (counting sort).
fn sorted_by_key(
    duels: Vec<OrientedDuel>,
    bound: usize,
    key: impl Fn(&OrientedDuel) -> usize,
) -> Vec<OrientedDuel> {
    let mut positions = vec![0; bound + 1];
    duels.iter().for_each(|duel| positions[key(duel) + 1] += 1);
    (0..bound).for_each(|k| positions[k + 1] += positions[k]);
    let mut sorted = duels.clone();
    for duel in duels {
        let position = &mut positions[key(&duel)];
        sorted[*position] = duel;
        *position += 1;
    }
    sorted
}

impl Duels {
    /// Creates duels from the items on the left and on the right, the outcomes (1: the left item won, 0: the
    /// right one, ½: a tie), and the weights, by default 1.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::TooFew`] without duels; [`Error::Parameter`] for an item that does not
    /// exist or meets itself, an error outcome, or a weight that is not positive.
    pub fn new(
        items: usize,
        left: &[usize],
        right: &[usize],
        outcome: &[f64],
        weight: Option<&[f64]>,
    ) -> Result<Self> {
        Self::pairs_in_contexts(items, (left, right), outcome, weight, None)
    }

    /// Creates duels in contexts (surfaces, seasons, judges), with one row of `contexts` per duel. A pair
    /// then has one entry for each of its distinct contexts.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_contexts(
        items: usize,
        left: &[usize],
        right: &[usize],
        outcome: &[f64],
        weight: Option<&[f64]>,
        contexts: &Table,
    ) -> Result<Self> {
        sized("the table of contexts", "rows", left.len(), contexts.rows(), "one per duel")?;
        // The index of each row among the distinct rows, which are in the order of their first duels; -0
        // equals 0.
        let mut row_indices: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        let (mut first_rows, mut rows) = (Vec::new(), Vec::new());
        for i in 0..contexts.rows() {
            let index = *row_indices.entry(key(&contexts.row(i))).or_insert(first_rows.len());
            if index == first_rows.len() {
                first_rows.push(i);
            }
            rows.push(index);
        }
        let contexts = Some((contexts.select_rows(&first_rows), rows));
        Self::pairs_in_contexts(items, (left, right), outcome, weight, contexts)
    }

    fn pairs_in_contexts(
        items: usize,
        (left, right): (&[usize], &[usize]),
        outcome: &[f64],
        weight: Option<&[f64]>,
        contexts: Option<(Table, Vec<usize>)>,
    ) -> Result<Self> {
        let count = left.len();
        let lengths = [("right", right.len()), ("outcome", outcome.len())];
        for (list, length) in lengths.into_iter().chain(weight.map(|w| ("weight", w.len()))) {
            sized(list, "numbers", count, length, "one per duel")?;
        }
        if count == 0 {
            return Err(Error::too_few("the table of duels", 1, "duel is"));
        }
        let mut oriented_duels = Vec::with_capacity(count);
        let mut has_fractions = false;
        for (i, ((&l, &r), &won)) in left.iter().zip(right).zip(outcome).enumerate() {
            let weight = weight.map_or(1.0, |w| w[i]);
            check_duel(i, items, (l, r), won, weight)?;
            let ((first, second), share) = if l < r { ((l, r), won) } else { ((r, l), 1.0 - won) };
            let context = contexts.as_ref().map_or(0, |(_, rows)| rows[i]);
            let ties = if won == 0.5 { weight } else { 0.0 };
            oriented_duels.push(OrientedDuel { first, second, context, won: weight * share, weight, ties });
            has_fractions |= ![0.0, 0.5, 1.0].contains(&won);
        }
        let context_count = contexts.as_ref().map_or(1, |(table, _)| table.rows());
        let mut duels = Self {
            items,
            pairs: Vec::new(),
            outcome: Vec::new(),
            weight: Vec::new(),
            ties: Vec::new(),
            has_fractions,
            contexts: None,
            count,
        };
        let context_rows = duels.add_pair_sums(oriented_duels, context_count);
        if duels.weight.iter().sum::<f64>() > MAX_TOTAL_WEIGHT {
            let allowed =
                format!("their sum must be less than {MAX_TOTAL_WEIGHT:e}: divide them by a common number");
            return Err(Error::parameter("weight", "too large", allowed));
        }
        duels.contexts = contexts.map(|(table, _)| Contexts { table, rows: context_rows });
        Ok(duels)
    }

    /// Adds one entry for each pair and context of `duels`, in ascending order, and returns the entries'
    /// contexts. The duels of an entry are summed in their given order. Cost O(duels + items + contexts).
    fn add_pair_sums(&mut self, mut duels: Vec<OrientedDuel>, context_count: usize) -> Vec<usize> {
        if context_count > 1 {
            duels = sorted_by_key(duels, context_count, |duel| duel.context);
        }
        duels = sorted_by_key(duels, self.items, |duel| duel.second);
        duels = sorted_by_key(duels, self.items, |duel| duel.first);
        let mut contexts = Vec::new();
        for entry in duels.chunk_by(|a, b| a.entry() == b.entry()) {
            let sum = |number: fn(&OrientedDuel) -> f64| entry.iter().map(number).fold(0.0, |sum, v| sum + v);
            let (won, weight) = (sum(|duel| duel.won), sum(|duel| duel.weight));
            self.pairs.push((entry[0].first, entry[0].second));
            self.outcome.push((won / weight).clamp(0.0, 1.0));
            self.weight.push(weight);
            self.ties.push(sum(|duel| duel.ties));
            contexts.push(entry[0].context);
        }
        contexts
    }

    /// Returns the duels with another count, where the weight of an entry represents several duels.
    pub fn with_count(self, count: usize) -> Self {
        Self { count, ..self }
    }

    /// Returns the number of items, some of which may have no duels.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Returns the number of duels.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the compared pairs, ascending, with the lower number of each first. A pair occurs once per
    /// context.
    pub fn pairs(&self) -> &[(usize, usize)] {
        &self.pairs
    }

    /// Returns, for each pair, the share of its duels that its first item won.
    pub fn outcome(&self) -> &[f64] {
        &self.outcome
    }

    /// Returns, for each pair, the total weight of its duels.
    pub fn weight(&self) -> &[f64] {
        &self.weight
    }

    /// Returns, for each pair, the weight of its ties.
    pub fn ties(&self) -> &[f64] {
        &self.ties
    }

    /// Returns the margin at which equal items tie as often as in these duels, `2 artanh(share of ties)`,
    /// from 0.02 to 3: a starting value for tuning.
    pub fn margin(&self) -> f64 {
        let share = self.ties.iter().sum::<f64>() / self.weight.iter().sum::<f64>();
        (2.0 * share.min(0.9).atanh()).max(0.02)
    }

    /// Whether some outcomes are neither wins nor ties.
    pub(super) fn has_fractions(&self) -> bool {
        self.has_fractions
    }

    /// Returns the contexts of the pairs, if the duels have contexts.
    pub fn contexts(&self) -> Option<&Contexts> {
        self.contexts.as_ref()
    }

    /// Returns the items of each connected component of the comparison graph, the largest component first,
    /// without items that have no duels. Only covariates relate items of different components.
    pub fn components(&self) -> Vec<Vec<usize>> {
        let neighbours = self.neighbours();
        let mut visited = vec![false; self.items];
        let mut components: Vec<Vec<usize>> = Vec::new();
        for start in 0..self.items {
            if !visited[start] && !neighbours.ends(start).is_empty() {
                let component = neighbours.reachable(start);
                component.iter().for_each(|&item| visited[item] = true);
                components.push(component);
            }
        }
        components.sort_by_key(|component| std::cmp::Reverse(component.len()));
        components
    }

    /// Whether every item with duels is reachable from every other one along wins. Otherwise abilities
    /// without a penalty are infinite (Ford 1957).
    pub fn is_strongly_connected(&self) -> bool {
        let mut has_duels = vec![false; self.items];
        self.pairs.iter().for_each(|&(l, r)| (has_duels[l], has_duels[r]) = (true, true));
        let Some(start) = has_duels.iter().position(|has| *has) else { return false };
        let count = has_duels.iter().filter(|has| **has).count();
        let reaches_all = |edges: &Adjacency| edges.reachable(start).len() == count;
        reaches_all(&Adjacency::new(self.items, || self.wins()))
            && reaches_all(&Adjacency::new(self.items, || self.wins().map(|(winner, loser)| (loser, winner))))
    }

    /// Returns items of one component that never beat the other items of it, if there are such items.
    pub(super) fn winless_items(&self) -> Option<Vec<usize>> {
        let component = self.components().into_iter().next()?;
        let losers_of = Adjacency::new(self.items, || self.wins());
        // The items that one item reaches along wins beat only each other. The component is not strongly
        // connected exactly if one of these groups is smaller than the component.
        component.iter().map(|&item| losers_of.reachable(item)).find(|group| group.len() < component.len())
    }

    /// Returns the winner and the loser of each pair, in both orders if each item won a share.
    fn wins(&self) -> impl Iterator<Item = (usize, usize)> {
        let wins_of_pair = |(&(l, r), &share): (&(usize, usize), &f64)| {
            let left_won = (share > 0.0).then_some((l, r));
            left_won.into_iter().chain((share < 1.0).then_some((r, l)))
        };
        self.pairs.iter().zip(&self.outcome).flat_map(wins_of_pair)
    }

    /// Returns the duels of `pairs` random compared pairs, or all duels if there are no more pairs.
    pub fn sample(&self, pairs: usize, seed: u64) -> Self {
        if pairs >= self.pairs.len() {
            return self.clone();
        }
        let chosen_pairs = sorted_sample(self.pairs.len(), pairs, seed);
        let select = |values: &[f64]| chosen_pairs.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        Self {
            items: self.items,
            pairs: chosen_pairs.iter().map(|&i| self.pairs[i]).collect(),
            outcome: select(&self.outcome),
            weight: select(&self.weight),
            ties: select(&self.ties),
            has_fractions: self.has_fractions,
            contexts: self.contexts.as_ref().map(|c| Contexts {
                table: c.table.clone(),
                rows: chosen_pairs.iter().map(|&i| c.rows[i]).collect(),
            }),
            count: pairs,
        }
    }

    /// Returns the items that have duels, ascending, and the duels with the numbers of these items and of the
    /// contexts that occur.
    pub(super) fn without_unused_items(&self) -> (Vec<usize>, Self) {
        let renumber = |used: &[bool]| -> (Vec<usize>, Vec<usize>) {
            let used_indices: Vec<usize> = (0..used.len()).filter(|&i| used[i]).collect();
            let mut new_indices = vec![0; used.len()];
            used_indices.iter().enumerate().for_each(|(index, &i)| new_indices[i] = index);
            (used_indices, new_indices)
        };
        let mut has_duels = vec![false; self.items];
        self.pairs.iter().for_each(|&(l, r)| (has_duels[l], has_duels[r]) = (true, true));
        let (used_items, new_indices) = renumber(&has_duels);
        let contexts = self.contexts.as_ref().map(|c| {
            let mut used = vec![false; c.table.rows()];
            c.rows.iter().for_each(|&row| used[row] = true);
            let (used_rows, new_indices) = renumber(&used);
            let rows = c.rows.iter().map(|&row| new_indices[row]).collect();
            Contexts { table: c.table.select_rows(&used_rows), rows }
        });
        let pairs = self.pairs.iter().map(|&(l, r)| (new_indices[l], new_indices[r])).collect();
        (used_items.clone(), Self { items: used_items.len(), pairs, contexts, ..self.clone() })
    }

    /// Returns the opponents of each item, once per pair.
    pub(super) fn neighbours(&self) -> Adjacency {
        Adjacency::new(self.items, || self.pairs.iter().flat_map(|&(l, r)| [(l, r), (r, l)]))
    }
}

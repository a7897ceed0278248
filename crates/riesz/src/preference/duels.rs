//! Duels in the form that models learn from: each compared pair of items once, with the share of its duels
//! that the left item won.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::random::{Random, SeedableRng, index};
use crate::table::Table;

/// Largest total weight of all duels: beyond it, covariances leave the range of doubles.
const MAX_TOTAL_WEIGHT: f64 = 1e100;

/// Duels between items that are numbered from 0.
///
/// Which item stands left means nothing. All duels of a pair (in the same [context](Self::in_contexts))
/// become one: its weight is the sum of theirs, and its outcome the weighted share that was won by the item
/// with the lower number. Nothing of the likelihood is lost, up to a constant, nor of ties, which are half a
/// win for either.
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

/// The contexts in which pairs met.
#[derive(Debug, Clone, PartialEq)]
pub struct Contexts {
    /// The different ones.
    pub table: Table,
    /// One a pair that met: the row of its context.
    pub rows: Vec<usize>,
}

/// Sums over the duels of a pair.
#[derive(Default)]
struct Sums {
    won: f64,
    weight: f64,
    ties: f64,
}

impl Duels {
    /// Duels given by the items on the left and on the right, the outcome (1: the left item won, 0: the right
    /// one; ½: a tie), and the weight of each, by default 1.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::TooFew`] without duels; [`Error::Parameter`] for an item that is not there,
    /// one that meets itself, an outcome that is none, or a weight that is not positive.
    pub fn new(
        items: usize,
        left: &[usize],
        right: &[usize],
        outcome: &[f64],
        weight: Option<&[f64]>,
    ) -> Result<Self> {
        Self::pairs_in_contexts(items, (left, right), outcome, weight, None)
    }

    /// Duels in contexts, with one row of `contexts` per duel: surfaces, seasons, judges. A pair is then
    /// counted once in each different context.
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
        if contexts.rows() != left.len() {
            let (expected, rows_of_contexts, why) = (left.len(), contexts.rows(), "one a duel".into());
            return Err(Error::Shape {
                subject: "the table of contexts".into(),
                unit: "rows",
                expected,
                actual: rows_of_contexts,
                why,
            });
        }
        // The index of each row among the distinct ones, which are in the order of their first duels. (-0 is
        // 0.)
        let mut known: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        let (mut first, mut rows) = (Vec::new(), Vec::new());
        for i in 0..contexts.rows() {
            let cells = contexts.row(i).iter().map(|v| (v + 0.0).to_bits()).collect();
            let place = *known.entry(cells).or_insert(first.len());
            if place == first.len() {
                first.push(i);
            }
            rows.push(place);
        }
        Self::pairs_in_contexts(
            items,
            (left, right),
            outcome,
            weight,
            Some((contexts.select_rows(&first), rows)),
        )
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
            if length != count {
                let why = "one a duel".into();
                return Err(Error::Shape {
                    subject: list.into(),
                    unit: "numbers",
                    expected: count,
                    actual: length,
                    why,
                });
            }
        }
        if count == 0 {
            return Err(Error::TooFew { subject: "the table of duels".into(), needed: 1, unit: "duel is" });
        }
        let mut sums_by_pair: BTreeMap<((usize, usize), usize), Sums> = BTreeMap::new();
        let mut has_shares = false;
        for (i, ((&l, &r), &won)) in left.iter().zip(right).zip(outcome).enumerate() {
            let weight = weight.map_or(1.0, |w| w[i]);
            let bad = |quantity: &str, value: String, allowed: String| {
                Err(Error::parameter(format!("{quantity} of duel {}", i + 1), value, allowed))
            };
            if let Some(item) = [l, r].into_iter().find(|item| *item >= items) {
                return bad("item", item.to_string(), format!("there are {items} items, from 0"));
            }
            if l == r {
                return bad(
                    "item",
                    l.to_string(),
                    "an item that meets itself tells nothing: leave the duel out".into(),
                );
            }
            if !(0.0..=1.0).contains(&won) {
                let allowed =
                    "it is 1 where the left item won, 0 where the right one, and 0.5 for a tie".into();
                return bad("outcome", won.to_string(), allowed);
            }
            if !(weight.is_finite() && weight > 0.0) {
                return bad("weight", weight.to_string(), "weights are positive numbers".into());
            }
            let (pair, share) = if l < r { ((l, r), won) } else { ((r, l), 1.0 - won) };
            let sums =
                sums_by_pair.entry((pair, contexts.as_ref().map_or(0, |(_, rows)| rows[i]))).or_default();
            sums.won += weight * share;
            sums.weight += weight;
            sums.ties += if won == 0.5 { weight } else { 0.0 };
            has_shares |= ![0.0, 0.5, 1.0].contains(&won);
        }
        if sums_by_pair.values().map(|sums| sums.weight).sum::<f64>() > MAX_TOTAL_WEIGHT {
            let allowed =
                format!("together they count less than {MAX_TOTAL_WEIGHT:e}: divide them by a common number");
            return Err(Error::parameter("weight", "too large", allowed));
        }
        let (pairs_and_contexts, sums): (Vec<_>, Vec<_>) = sums_by_pair.into_iter().unzip();
        let (pairs, rows) = pairs_and_contexts.into_iter().unzip();
        Ok(Self {
            items,
            pairs,
            outcome: sums.iter().map(|s| (s.won / s.weight).clamp(0.0, 1.0)).collect(),
            weight: sums.iter().map(|s| s.weight).collect(),
            ties: sums.iter().map(|s| s.ties).collect(),
            has_fractions: has_shares,
            contexts: contexts.map(|(table, _)| Contexts { table, rows }),
            count,
        })
    }

    /// The duels with another count, where an entry represents several duels by its weight.
    pub fn with_count(self, count: usize) -> Self {
        Self { count, ..self }
    }

    /// Number of items, of which some may be in no duel.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Number of duels.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The pairs that met, each with its lower number first, ascending; more than once where they met in
    /// different contexts.
    pub fn pairs(&self) -> &[(usize, usize)] {
        &self.pairs
    }

    /// One a pair: the share that was won by its first item.
    pub fn outcome(&self) -> &[f64] {
        &self.outcome
    }

    /// One a pair: how much its duels count together.
    pub fn weight(&self) -> &[f64] {
        &self.weight
    }

    /// One a pair: how much of its weight is that of ties.
    pub fn ties(&self) -> &[f64] {
        &self.ties
    }

    /// The margin with which items that are alike tie as often as these duels did, `2 artanh(share of ties)`,
    /// where tuning may start; from 0.02 to 3.
    pub fn margin(&self) -> f64 {
        let share = self.ties.iter().sum::<f64>() / self.weight.iter().sum::<f64>();
        (2.0 * share.min(0.9).atanh()).max(0.02)
    }

    /// Whether some outcomes are neither wins nor ties.
    pub(super) fn has_fractions(&self) -> bool {
        self.has_fractions
    }

    /// Where the pairs met, if that was said.
    pub fn contexts(&self) -> Option<&Contexts> {
        self.contexts.as_ref()
    }

    /// The items of each connected component of the comparison graph, largest first; items without duels are
    /// left out. Only covariates relate items of different components.
    pub fn components(&self) -> Vec<Vec<usize>> {
        let neighbours = self.neighbours();
        let mut seen = vec![false; self.items];
        let mut components: Vec<Vec<usize>> = Vec::new();
        for start in 0..self.items {
            if !seen[start] && !neighbours[start].is_empty() {
                let component = reachable(start, &neighbours);
                component.iter().for_each(|&item| seen[item] = true);
                components.push(component);
            }
        }
        components.sort_by_key(|component| std::cmp::Reverse(component.len()));
        components
    }

    /// Whether every item with duels can be reached from every other along wins; otherwise abilities without
    /// a penalty are infinite (Ford 1957).
    pub fn is_strongly_connected(&self) -> bool {
        let [component] = &self.components()[..] else { return false };
        // From one item along wins and against them.
        let along = |won: bool| {
            let mut wins = vec![Vec::new(); self.items];
            for (&(l, r), &share) in self.pairs.iter().zip(&self.outcome) {
                for (winner, loser, has_won) in [(l, r, share > 0.0), (r, l, share < 1.0)] {
                    if has_won {
                        let (from, to) = if won { (winner, loser) } else { (loser, winner) };
                        wins[from].push(to);
                    }
                }
            }
            reachable(component[0], &wins).len() == component.len()
        };
        along(true) && along(false)
    }

    /// Items of one component that never beat any other item of it, if there are some.
    pub(super) fn winless_items(&self) -> Option<Vec<usize>> {
        let component = self.components().into_iter().next()?;
        let mut beaten = vec![Vec::new(); self.items];
        for (&(l, r), &share) in self.pairs.iter().zip(&self.outcome) {
            if share > 0.0 {
                beaten[l].push(r);
            }
            if share < 1.0 {
                beaten[r].push(l);
            }
        }
        // The items reached along wins from one item beat only one another. If all items are reached, this
        // holds for those from which that item is not reached.
        component.iter().map(|&item| reachable(item, &beaten)).find(|group| group.len() < component.len())
    }

    /// The duels of `pairs` compared pairs, drawn at random; all duels if there are no more pairs.
    pub fn sample(&self, pairs: usize, seed: u64) -> Self {
        if pairs >= self.pairs.len() {
            return self.clone();
        }
        let mut chosen = index::sample(&mut Random::seed_from_u64(seed), self.pairs.len(), pairs).into_vec();
        chosen.sort_unstable();
        let select = |values: &[f64]| chosen.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        Self {
            items: self.items,
            pairs: chosen.iter().map(|&i| self.pairs[i]).collect(),
            outcome: select(&self.outcome),
            weight: select(&self.weight),
            ties: select(&self.ties),
            has_fractions: self.has_fractions,
            contexts: self.contexts.as_ref().map(|c| Contexts {
                table: c.table.clone(),
                rows: chosen.iter().map(|&i| c.rows[i]).collect(),
            }),
            count: pairs,
        }
    }

    /// The items that have duels, in ascending order, and the duels renumbered to these items and to the
    /// contexts that occur.
    pub(super) fn without_idle_items(&self) -> (Vec<usize>, Self) {
        let numbered = |used: &[bool]| -> (Vec<usize>, Vec<usize>) {
            let kept: Vec<usize> = (0..used.len()).filter(|&i| used[i]).collect();
            let mut places = vec![0; used.len()];
            kept.iter().enumerate().for_each(|(place, &i)| places[i] = place);
            (kept, places)
        };
        let mut has_duels = vec![false; self.items];
        self.pairs.iter().for_each(|&(l, r)| (has_duels[l], has_duels[r]) = (true, true));
        let (kept, places) = numbered(&has_duels);
        let contexts = self.contexts.as_ref().map(|c| {
            let mut used = vec![false; c.table.rows()];
            c.rows.iter().for_each(|&row| used[row] = true);
            let (kept, places) = numbered(&used);
            let rows = c.rows.iter().map(|&row| places[row]).collect();
            Contexts { table: c.table.select_rows(&kept), rows }
        });
        let pairs = self.pairs.iter().map(|&(l, r)| (places[l], places[r])).collect();
        (kept.clone(), Self { items: kept.len(), pairs, contexts, ..self.clone() })
    }

    fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut neighbours = vec![Vec::new(); self.items];
        for &(l, r) in &self.pairs {
            neighbours[l].push(r);
            neighbours[r].push(l);
        }
        neighbours
    }
}

/// The items that can be reached, ascending.
fn reachable(start: usize, neighbours: &[Vec<usize>]) -> Vec<usize> {
    let (mut seen, mut open) = (vec![false; neighbours.len()], vec![start]);
    seen[start] = true;
    while let Some(item) = open.pop() {
        for &next in &neighbours[item] {
            if !std::mem::replace(&mut seen[next], true) {
                open.push(next);
            }
        }
    }
    (0..seen.len()).filter(|&item| seen[item]).collect()
}

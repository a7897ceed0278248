//! Who beat whom, in the form that models learn from: each pair of items once, with what share of its duels was won by whom.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::random::{Random, SeedableRng, index};

/// Duels between items that are numbered from 0.
///
/// Which item stands left means nothing. All duels of a pair become one: its weight is the sum of theirs, and its outcome the weighted share that was won by the
/// item with the lower number. Nothing of the likelihood is lost, up to a constant, nor of ties, which are half a win for either.
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
    count: usize,
}

impl Duels {
    /// Of each duel the items on either side, how it ended (1: the left item won, 0: the right one; ½: a tie), and how much it counts, by default 1.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::TooFew`] without duels; [`Error::Parameter`] for an item that is not there, one that meets itself, an outcome that is none, or a
    /// weight that is not positive.
    pub fn new(
        items: usize,
        left: &[usize],
        right: &[usize],
        outcome: &[f64],
        weight: Option<&[f64]>,
    ) -> Result<Self> {
        let count = left.len();
        let lengths = [("right", right.len()), ("outcome", outcome.len())];
        for (what, found) in lengths.into_iter().chain(weight.map(|w| ("weight", w.len()))) {
            if found != count {
                let why = "one a duel".into();
                return Err(Error::Shape { what: what.into(), unit: "numbers", expected: count, found, why });
            }
        }
        if count == 0 {
            return Err(Error::TooFew { what: "the table of duels".into(), needed: 1, unit: "duel is" });
        }
        let mut all: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
        for (i, ((&l, &r), &won)) in left.iter().zip(right).zip(outcome).enumerate() {
            let weight = weight.map_or(1.0, |w| w[i]);
            let bad = |what: &str, value: String, allowed: String| {
                Err(Error::parameter(format!("{what} of duel {}", i + 1), value, allowed))
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
            let (sum, total) = all.entry(pair).or_default();
            *sum += weight * share;
            *total += weight;
        }
        let (pairs, sums): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let outcome = sums.iter().map(|(won, weight)| (won / weight).clamp(0.0, 1.0)).collect();
        Ok(Self { items, pairs, outcome, weight: sums.iter().map(|(_, weight)| *weight).collect(), count })
    }

    /// Number of items, of which some may be in no duel.
    pub fn items(&self) -> usize {
        self.items
    }

    /// Number of duels.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The pairs that met, each with its lower number first, ascending.
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

    /// The items of each connected component of the graph of pairs, largest first; items that never met anybody are left out. Between components only covariates
    /// tell who is better.
    pub fn components(&self) -> Vec<Vec<usize>> {
        let neighbours = self.neighbours();
        let mut seen = vec![false; self.items];
        let mut all: Vec<Vec<usize>> = Vec::new();
        for start in 0..self.items {
            if !seen[start] && !neighbours[start].is_empty() {
                let own = reached(start, &neighbours);
                own.iter().for_each(|&item| seen[item] = true);
                all.push(own);
            }
        }
        all.sort_by_key(|own| std::cmp::Reverse(own.len()));
        all
    }

    /// Whether every item that met anybody can be reached from every other along wins: without it abilities without a penalty are infinite (Ford 1957).
    pub fn is_strongly_connected(&self) -> bool {
        let [component] = &self.components()[..] else { return false };
        // From one item along wins and against them.
        let along = |won: bool| {
            let mut wins = vec![Vec::new(); self.items];
            for (&(l, r), &share) in self.pairs.iter().zip(&self.outcome) {
                for (winner, loser, there) in [(l, r, share > 0.0), (r, l, share < 1.0)] {
                    if there {
                        let (from, to) = if won { (winner, loser) } else { (loser, winner) };
                        wins[from].push(to);
                    }
                }
            }
            reached(component[0], &wins).len() == component.len()
        };
        along(true) && along(false)
    }

    /// Items of one component that never beat any of the others of it, if there are some.
    pub(super) fn without_wins(&self) -> Option<Vec<usize>> {
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
        // Whoever is reached along wins from one item beat only one another; so did, if all are, those from whom it is not reached.
        component.iter().map(|&item| reached(item, &beaten)).find(|own| own.len() < component.len())
    }

    /// The duels of so many of the pairs that met, drawn at random; of all where there are no more.
    pub fn sample(&self, pairs: usize, seed: u64) -> Self {
        if pairs >= self.pairs.len() {
            return self.clone();
        }
        let mut chosen = index::sample(&mut Random::seed_from_u64(seed), self.pairs.len(), pairs).into_vec();
        chosen.sort_unstable();
        let of = |all: &[f64]| chosen.iter().map(|&i| all[i]).collect::<Vec<f64>>();
        Self {
            items: self.items,
            pairs: chosen.iter().map(|&i| self.pairs[i]).collect(),
            outcome: of(&self.outcome),
            weight: of(&self.weight),
            count: pairs,
        }
    }

    fn neighbours(&self) -> Vec<Vec<usize>> {
        let mut all = vec![Vec::new(); self.items];
        for &(l, r) in &self.pairs {
            all[l].push(r);
            all[r].push(l);
        }
        all
    }
}

/// The items that can be reached, ascending.
fn reached(start: usize, neighbours: &[Vec<usize>]) -> Vec<usize> {
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

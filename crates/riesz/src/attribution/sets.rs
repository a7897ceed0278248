//! Sets of players, and the order in which everybody lists them: by size, and those of one size as words in a
//! dictionary.

use std::ops::Range;

use super::interaction_weights::binomial;

/// The sets of up to so many players, by size, those of one size in lexicographic order.
pub(crate) struct Sets {
    players: usize,
    order: usize,
    /// By size, from 1: the number of smaller sets.
    first: Vec<usize>,
    /// `ranks[r][v]`: how many sets of r + 1 players begin before v.
    ranks: Vec<Vec<usize>>,
}

impl Sets {
    pub(crate) fn new(players: usize, order: usize) -> Self {
        let order = order.min(players);
        let ranks = |r: usize| {
            let mut all = vec![0; players + 1];
            for u in 0..players {
                all[u + 1] = all[u] + binomial(players - 1 - u, r) as usize;
            }
            all
        };
        let ranks: Vec<Vec<usize>> = (0..order).map(ranks).collect();
        let sizes = ranks.iter().map(|rank| rank[players]);
        let first = std::iter::once(0).chain(sizes.scan(0, |all, n| {
            *all += n;
            Some(*all)
        }));
        Self { players, order, first: first.collect(), ranks }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.first.last().copied().unwrap_or(0)
    }

    /// How many players there are.
    pub(crate) fn players(&self) -> usize {
        self.players
    }

    /// How many pairs of players from `next` on begin before l.
    pub(crate) fn pairs_before(&self, next: usize, l: usize) -> usize {
        self.ranks[1][l] - self.ranks[1][next]
    }

    /// How many players the largest have.
    pub(crate) fn order(&self) -> usize {
        self.order
    }

    /// Where those of a size stand.
    pub(crate) fn of_size(&self, size: usize) -> Range<usize> {
        self.first[size - 1]..self.first[size]
    }

    /// Where a set stands, whose players ascend.
    pub(crate) fn index_of(&self, set: &[usize]) -> usize {
        let (mut at, mut next) = (self.first[set.len() - 1], 0);
        for (i, &j) in set.iter().enumerate() {
            let ranks = &self.ranks[set.len() - 1 - i];
            at += ranks[j] - ranks[next];
            next = j + 1;
        }
        at
    }

    /// Calls `each` with all sets in order.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&[usize])) {
        for size in 1..=self.order {
            let mut set: Vec<usize> = (0..size).collect();
            loop {
                each(&set);
                // The last player that can move on.
                let Some(i) = (0..size).rev().find(|&i| set[i] < self.players - size + i) else { break };
                set[i] += 1;
                (i + 1..size).for_each(|l| set[l] = set[l - 1] + 1);
            }
        }
    }
}

/// Position of the pair j < l among the pairs of `players` in the order (0, 1), (0, 2), …, (1, 2), ….
pub(crate) fn index_of(players: usize, j: usize, l: usize) -> usize {
    j * players - j * (j + 1) / 2 + l - j - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_stand_where_they_are_said_to() {
        for (players, order) in [(1, 1), (1, 3), (5, 2), (6, 4), (4, 4), (9, 3)] {
            let sets = Sets::new(players, order);
            let mut all: Vec<Vec<usize>> = Vec::new();
            sets.for_each(|set| all.push(set.to_vec()));
            assert_eq!(all.len(), sets.len());
            let mut sorted = all.clone();
            sorted.sort_by_key(|set| (set.len(), set.clone()));
            assert_eq!(all, sorted);
            for (k, set) in all.iter().enumerate() {
                assert_eq!(sets.index_of(set), k);
                assert!(sets.of_size(set.len()).contains(&k));
                if let [j, l] = set[..] {
                    assert_eq!(sets.of_size(2).start + index_of(players, j, l), k);
                }
            }
        }
    }
}

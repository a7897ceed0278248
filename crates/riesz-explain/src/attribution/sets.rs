//! Sets of players in the order in which all modules list them: by size, and lexicographically within a size.

use std::ops::Range;

use super::interaction_weights::binomial;

/// Sets of up to `order` of `players` players, by size, and in lexicographic order within a size.
pub struct Sets {
    /// The number of players.
    pub(crate) players: usize,
    /// The size of the largest sets.
    pub(crate) order: usize,
    /// For each size, from 1: the number of smaller sets.
    first: Vec<usize>,
    /// `ranks[r][v]` is the number of sets of r + 1 players whose first player is below v.
    ranks: Vec<Vec<usize>>,
}

impl Sets {
    /// Enumerates the sets of up to `order` players.
    pub fn new(players: usize, order: usize) -> Self {
        let order = order.min(players);
        let ranks = |r: usize| {
            let mut counts = vec![0; players + 1];
            for u in 0..players {
                counts[u + 1] = counts[u] + binomial(players - 1 - u, r) as usize;
            }
            counts
        };
        let ranks: Vec<Vec<usize>> = (0..order).map(ranks).collect();
        let sizes = ranks.iter().map(|rank| rank[players]);
        let first = std::iter::once(0).chain(sizes.scan(0, |total, n| {
            *total += n;
            Some(*total)
        }));
        Self { players, order, first: first.collect(), ranks }
    }

    /// The number of sets.
    pub(crate) fn len(&self) -> usize {
        self.first.last().copied().unwrap_or(0)
    }

    /// The number of pairs of players from `next` on whose first player is below l.
    pub(crate) fn pairs_before(&self, next: usize, l: usize) -> usize {
        self.ranks[1][l] - self.ranks[1][next]
    }

    /// Indices of the sets of a size.
    pub fn of_size(&self, size: usize) -> Range<usize> {
        self.first[size - 1]..self.first[size]
    }

    /// The index of a set with ascending players.
    pub(crate) fn index_of(&self, set: &[usize]) -> usize {
        let (mut index, mut next) = (self.first[set.len() - 1], 0);
        for (i, &j) in set.iter().enumerate() {
            let ranks = &self.ranks[set.len() - 1 - i];
            index += ranks[j] - ranks[next];
            next = j + 1;
        }
        index
    }

    /// Calls `visit` with all sets in order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[usize])) {
        for size in 1..=self.order {
            let mut set: Vec<usize> = (0..size).collect();
            visit(&set);
            while advance(&mut set, self.players) {
                visit(&set);
            }
        }
    }
}

/// Position of the pair j < l among the pairs of `players` in the order (0, 1), (0, 2), …, (1, 2), ….
pub fn index_of(players: usize, j: usize, l: usize) -> usize {
    j * players - j * (j + 1) / 2 + l - j - 1
}

/// Replaces an ascending set of players by the next one of the same size in lexicographic order; returns
/// false after the last set.
pub(crate) fn advance(set: &mut [usize], players: usize) -> bool {
    let size = set.len();
    let Some(i) = (0..size).rev().find(|&i| set[i] < players - size + i) else { return false };
    set[i] += 1;
    (i + 1..size).for_each(|l| set[l] = set[l - 1] + 1);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_stated_indices() {
        for (players, order) in [(1, 1), (1, 3), (5, 2), (6, 4), (4, 4), (9, 3)] {
            let sets = Sets::new(players, order);
            let mut listed: Vec<Vec<usize>> = Vec::new();
            sets.for_each(|set| listed.push(set.to_vec()));
            assert_eq!(listed.len(), sets.len());
            let mut sorted = listed.clone();
            sorted.sort_by_key(|set| (set.len(), set.clone()));
            assert_eq!(listed, sorted);
            for (k, set) in listed.iter().enumerate() {
                assert_eq!(sets.index_of(set), k);
                assert!(sets.of_size(set.len()).contains(&k));
                if let [j, l] = set[..] {
                    assert_eq!(sets.of_size(2).start + index_of(players, j, l), k);
                }
            }
        }
    }
}

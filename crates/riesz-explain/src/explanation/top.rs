//! The largest pair interactions, where there are too many pairs to list.

use std::cmp::Ordering;

use super::{Exactness, Explanation, Provenance};
use crate::error::{Error, Result};
use crate::index::ValueIndex;
use crate::table::Player;

/// The pair interactions with the largest absolute values in each row, from
/// [`Explainer::top_interactions`](crate::Explainer::top_interactions).
#[derive(Debug, Clone, PartialEq)]
pub struct TopInteractions {
    /// The interaction index.
    pub index: ValueIndex,
    /// The players of the game.
    pub players: Vec<Player>,
    /// Names of the model's outputs.
    pub output_names: Vec<String>,
    /// Strongest pairs, rows × outputs.
    pub by_game: Vec<Strongest>,
    /// The number of each row in its source, from 0.
    pub row_numbers: Vec<usize>,
    /// Model card and run.
    pub provenance: Provenance,
}

/// The strongest pairs of one row and output.
#[derive(Debug, Clone, PartialEq)]
pub struct Strongest {
    /// Pairs by decreasing absolute value, ties by their players. There are fewer pairs than requested if all
    /// others are 0.
    pub pairs: Vec<Pair>,
    /// A proved bound on the error of each value.
    pub bound: f64,
    /// A proved bound on the absolute value of the true interaction of every unlisted pair.
    pub left_out: f64,
    /// The number of pairs that the search examined.
    pub searched: usize,
}

/// Two players and their interaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Indices of the two players, ascending.
    pub players: [usize; 2],
    /// Interaction of the two players.
    pub value: f64,
}

impl Pair {
    /// Order by decreasing absolute value, then by increasing players.
    fn order(&self, other: &Self) -> Ordering {
        let by_size = other.value.abs().total_cmp(&self.value.abs());
        by_size.then_with(|| self.players.cmp(&other.players))
    }

    /// The `count` largest of `pairs`, in order.
    pub(crate) fn largest(mut pairs: Vec<Self>, count: usize) -> Vec<Self> {
        if pairs.len() > count {
            pairs.select_nth_unstable_by(count, Self::order);
            pairs.truncate(count);
        }
        pairs.sort_unstable_by(Self::order);
        pairs
    }
}

impl Strongest {
    /// Lists the first `count` of `pairs`, the largest pairs in order of a game with this number of players.
    /// The next pair, if there is one, and `unvalued_bound` on the absolute values of unevaluated pairs bound
    /// the unlisted pairs.
    pub(crate) fn new(
        mut pairs: Vec<Pair>,
        count: usize,
        (players, bound): (usize, f64),
        unvalued_bound: f64,
    ) -> Self {
        let next = pairs.get(count).map_or(0.0, |pair| pair.value.abs());
        pairs.truncate(count);
        let total = players * players.saturating_sub(1) / 2;
        let left_out = if pairs.len() == total { 0.0 } else { next.max(unvalued_bound) + bound };
        Self { pairs, bound, left_out, searched: total }
    }

    /// Whether no unlisted pair is larger than a listed one, up to the error of values. This holds unless the
    /// search had a limit.
    pub fn is_complete(&self) -> bool {
        let smallest = self.pairs.last().map_or(0.0, |pair| pair.value.abs());
        self.left_out <= smallest + 2.0 * self.bound
    }
}

impl TopInteractions {
    /// The `count` largest pairs of each row and output of an explanation that has values of all pairs.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the explanation lacks exact values of all pairs, or `count` is 0.
    pub fn from_explanation(explanation: &Explanation, count: usize) -> Result<Self> {
        check(explanation.index, count)?;
        let (Exactness::Exact { bound }, true) = (&explanation.exactness, explanation.is_complete()) else {
            let allowed = "the strongest pairs require exact values of all pairs";
            return Err(Error::parameter("index", explanation.index, allowed));
        };
        let (m, players) = (explanation.outputs(), explanation.players.len());
        let by_game = (0..explanation.rows() * m).zip(bound).map(|(g, bound)| {
            let values = explanation.row_values(g / m, g % m).iter();
            let pairs =
                explanation.subsets.iter().flatten().zip(values).filter_map(|(set, &value)| match set[..] {
                    [j, l] if value != 0.0 => Some(Pair { players: [j, l], value }),
                    _ => None,
                });
            let largest = Pair::largest(pairs.collect(), count.saturating_add(1));
            Strongest::new(largest, count, (players, *bound), 0.0)
        });
        Ok(Self {
            index: explanation.index,
            players: explanation.players.clone(),
            output_names: explanation.output_names.clone(),
            by_game: by_game.collect(),
            row_numbers: explanation.row_numbers.clone(),
            provenance: explanation.provenance.clone(),
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.row_numbers.len()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.output_names.len()
    }

    /// The largest pairs of row `i`, output `o`.
    pub fn of_row(&self, i: usize, o: usize) -> &Strongest {
        &self.by_game[i * self.outputs() + o]
    }
}

/// Checks that pairs are the largest sets of the index, and that `count` is positive.
///
/// # Errors
/// [`Error::Parameter`].
pub(crate) fn check(index: ValueIndex, count: usize) -> Result<()> {
    if index.order() != 2 {
        let allowed = "the strongest pairs are those of sii, k-sii, stii, fsii, bii, fbii or moebius, \
                       without larger sets";
        return Err(Error::parameter("index", index, allowed));
    }
    if count == 0 {
        return Err(Error::parameter("top interactions", count, "request at least one pair"));
    }
    Ok(())
}

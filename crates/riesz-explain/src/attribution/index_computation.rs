//! Computation of a value index from a product game: averages of players' values over an
//! [`InclusionMeasure`], or [`SizeWeightings`] of interactions of sets.
//!
//! Let `I_T(t) = Σ_p w_p Π_{j∈T}(a_pj - b_pj) Π_{l∉T}((1-t) b_pl + t a_pl)` be the interaction of the set T
//! if every other player is present with probability t. It equals `Σ_{S⊇T} t^(|S|-|T|) m(S)` with the game's
//! Möbius transform m. Each index is an integral of `I_T`, whose density follows from the index's weights of
//! m(S). For sets T of up to k players:
//!
//! | index | smaller sets | sets of k players |
//! |---|---|---|
//! | SII | `∫ I dt` | `∫ I dt` |
//! | k-SII | `∫ I dt`, plus `B(r) ∫ I dt` of each larger set with r more players | `∫ I dt` |
//! | Shapley–Taylor | `I(0)` | `∫ k (1 - t)^(k-1) I dt` |
//! | faithful Shapley | `∫ ρ I dt`, see [`SizeWeighting::Faithful`] | `∫ ρ I dt` |
//! | Banzhaf | `I(½)` | `I(½)` |
//! | faithful Banzhaf | `I(½)`, plus `(-½)^r I(½)` of each larger set with r more players | `I(½)` |
//! | Möbius | `I(0)` | `I(0)` |
//!
//! The faithful Banzhaf index has the Möbius coefficients of `Σ_U I_U(½) Π_{j∈U} (x_j - ½)` over sets U of up
//! to k players. This sum is the least-squares approximation of the game by a polynomial of degree k (Hammer
//! and Holzman 1992). B are the Bernoulli numbers `-½, 1/6, 0, -1/30, …` (Bordt and von Luxburg 2023).

use super::interaction_weights::{SizeWeighting, SizeWeightings, binomial};
use super::interactions::Interactions;
use super::owen::OwenValues;
use super::product::{PlayerValues, ProductGame, accumulate};
use super::rule::InclusionMeasure;
use super::set_error_bounds::SetErrorBounds;
use super::sets::Sets;
use crate::coalition_structure::CoalitionTree;
use crate::control::RunControl;
use crate::error::Result;
use crate::index::{Interaction, ValueIndex};
use crate::simd::Isa;

/// Computation of an index.
pub(crate) enum IndexComputation {
    /// Values of players.
    Players(InclusionMeasure),
    /// Values of players under a coalition structure (Owen values).
    Unions(CoalitionTree),
    /// Interactions of sets of players.
    Sets {
        /// Weighting of interactions for each set size.
        averages: SizeWeightings,
        /// Share of each larger set's value that a set receives, by the number of additional players, from 1.
        shares: Vec<f64>,
        /// Whether all values sum to the prediction minus the base value.
        adds_up: bool,
    },
}

/// Values of an index with their error bounds.
#[derive(Default)]
pub(crate) struct IndexValues {
    /// Rows × outputs × sets: single players first, then larger sets (see [`Sets`]).
    pub(crate) values: Vec<f64>,
    /// Rows × outputs: a bound on the error of each value and, for an efficient index, of their sum.
    pub(crate) error: Vec<f64>,
}

impl IndexComputation {
    /// The computation for an index, with its tree of unions if there is one.
    pub(crate) fn new(index: ValueIndex, unions: Option<&CoalitionTree>) -> Self {
        match unions {
            Some(tree) => Self::Unions(tree.clone()),
            None => index.into(),
        }
    }
}

impl IndexValues {
    /// Joins the results of consecutive parts of the rows.
    pub(crate) fn join(parts: impl IntoIterator<Item = (Vec<f64>, Vec<f64>)>) -> Self {
        let (values, error): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        Self { values: values.concat(), error: error.concat() }
    }
}

impl From<ValueIndex> for IndexComputation {
    fn from(index: ValueIndex) -> Self {
        let (kind, order) = match index {
            ValueIndex::Shapley | ValueIndex::Owen => return Self::Players(InclusionMeasure::Uniform),
            ValueIndex::Banzhaf { inclusion_probability } => {
                return Self::Players(InclusionMeasure::point(inclusion_probability));
            }
            ValueIndex::BetaShapley { alpha, beta } => {
                return Self::Players(InclusionMeasure::beta(beta, alpha));
            }
            ValueIndex::Semivalue(inclusion_distribution) => {
                return Self::Players(InclusionMeasure::discrete(
                    inclusion_distribution.weighted_probabilities(),
                ));
            }
            ValueIndex::Interaction { kind, order } => (kind, order),
        };
        let average = |size: usize| match kind {
            Interaction::Sii | Interaction::KSii => SizeWeighting::Uniform,
            Interaction::Stii if size == order => SizeWeighting::First(order),
            Interaction::Stii | Interaction::Moebius => SizeWeighting::At(0.0),
            Interaction::Fsii => SizeWeighting::Faithful { size, order },
            Interaction::Bii | Interaction::Fbii => SizeWeighting::At(0.5),
        };
        let shares = match kind {
            Interaction::KSii => bernoulli(order - 1),
            Interaction::Fbii => (1..order).map(|r| (-0.5_f64).powi(r as i32)).collect(),
            _ => Vec::new(),
        };
        let averages = SizeWeightings::new((1..=order).map(average).collect());
        Self::Sets { averages, shares, adds_up: index.is_efficient() }
    }
}

/// The first `count` Bernoulli numbers, from -½ on.
fn bernoulli(count: usize) -> Vec<f64> {
    let mut numbers = vec![1.0];
    for m in 1..=count {
        let sum: f64 = numbers.iter().enumerate().map(|(k, b)| binomial(m + 1, k) * b).sum();
        numbers.push(-sum / (m + 1) as f64);
    }
    numbers.split_off(1)
}

impl IndexComputation {
    /// The size of the largest sets that get a value.
    pub(crate) fn order(&self) -> usize {
        if let Self::Sets { averages, .. } = self { averages.order() } else { 1 }
    }

    /// A bound on the error of each value in a game of `players` players, and of the sum of an efficient
    /// index, if the values of all coalitions have errors of at most 1. A player's value is a mean of
    /// differences of two coalitions' values, and an interaction of s players one of `2^s` values.
    pub(crate) fn coalition_error_factor(&self, players: usize) -> f64 {
        let Self::Sets { averages, shares, .. } = self else { return 2.0 };
        let heights = averages.heights.iter().enumerate();
        let by_size: Vec<f64> = heights.map(|(s, height)| height * 2.0_f64.powi(s as i32 + 1)).collect();
        let with_shares = |size: usize| {
            let larger = by_size[size..].iter().zip(shares).enumerate();
            let received = larger.map(|(more, (factor, share))| {
                binomial(players.saturating_sub(size), more + 1) * share.abs() * factor
            });
            by_size[size - 1] + received.sum::<f64>()
        };
        (1..=by_size.len()).map(with_shares).fold(2.0, f64::max)
    }

    /// Weighting of pairs, if pairs are the largest sets with a value. Shares, which only smaller sets
    /// receive, do not change it.
    pub(crate) fn pair_weighting(&self) -> Option<SizeWeightings> {
        match self {
            Self::Sets { averages, .. } if averages.order() == 2 => Some(averages.of_largest()),
            _ => None,
        }
    }

    /// The sets that get a value in a game of `players` players; `None` if only single players do.
    pub(crate) fn subsets(&self, players: usize) -> Option<Vec<Vec<usize>>> {
        if self.order() == 1 {
            return None;
        }
        let mut sets = Vec::new();
        Sets::new(players, self.order()).for_each(|set| sets.push(set.to_vec()));
        Some(sets)
    }

    /// Computes the index in all rows of a game with these numbers of players and outputs.
    ///
    /// # Errors
    /// Errors of the game.
    pub(crate) fn compute<G: ProductGame>(
        &self,
        game: &G,
        isa: Isa,
        control: RunControl<'_>,
        (players, outputs): (usize, usize),
    ) -> Result<IndexValues> {
        match self {
            Self::Players(measure) => {
                let parts =
                    accumulate(game, (isa, measure), control, || PlayerValues::new(players, outputs))?;
                Ok(IndexValues::join(parts.into_iter().map(|part| (part.values, part.error))))
            }
            Self::Unions(tree) => {
                let parts = accumulate(game, (isa, &InclusionMeasure::Uniform), control, || {
                    OwenValues::new(tree, players, outputs)
                })?;
                Ok(IndexValues::join(parts.into_iter().map(|part| (part.values, part.error))))
            }
            Self::Sets { averages, .. } => {
                let sets = Sets::new(players, averages.order());
                let new = || Interactions::new(averages, &sets, outputs);
                let parts = accumulate(game, (isa, &InclusionMeasure::Uniform), control, new)?;
                let mut result = IndexValues::default();
                for mut part in parts {
                    for (g, values) in part.indices.chunks_exact_mut(sets.len()).enumerate() {
                        result.error.push(self.finish((&part.errors, g), values, &sets));
                    }
                    result.values.append(&mut part.indices);
                }
                Ok(result)
            }
        }
    }

    /// Turns interactions of one row and output into values of the index. Returns a bound on the error of
    /// each value and, for an efficient index, of their sum.
    pub(crate) fn finish(
        &self,
        (errors, game): (&SetErrorBounds, usize),
        values: &mut [f64],
        sets: &Sets,
    ) -> f64 {
        let (shares, adds_up) = match self {
            Self::Players(measure) => (&[][..], matches!(measure, InclusionMeasure::Uniform)),
            Self::Unions(_) => (&[][..], true),
            Self::Sets { shares, adds_up, .. } => (&shares[..], *adds_up),
        };
        let bound = errors.bound(game, (shares, adds_up), values, sets);
        distribute_to_subsets(shares, values, sets);
        bound
    }
}

/// Adds to each set its shares of larger sets' values.
fn distribute_to_subsets(shares: &[f64], values: &mut [f64], sets: &Sets) {
    if shares.is_empty() {
        return;
    }
    let (original, mut part, mut position) = (values.to_vec(), Vec::new(), 0);
    sets.for_each(|set| {
        // All proper non-empty subsets, by their bits.
        for mask in 1..(1_usize << set.len()) - 1 {
            part.clear();
            part.extend(set.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, j)| *j));
            values[sets.index_of(&part)] += shares[set.len() - part.len() - 1] * original[position];
        }
        position += 1;
    });
}

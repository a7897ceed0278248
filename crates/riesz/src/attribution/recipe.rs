//! What an index asks of a product game: averages over [`Measure`]s, of values of players and of interactions of pairs.
//!
//! With `I_T(t) = Σ_p w_p Π_{j∈T}(a_pj - b_pj) Π_{l∉T}((1-t) b_pl + t a_pl)`, which is `Σ_{S⊇T} t^(|S|-|T|) m(S)` in terms of the game's Möbius transform m, each
//! index is an integral of `I_T`, whose density follows from its weights of m(S):
//!
//! | index | of players | of pairs |
//! |---|---|---|
//! | SII | `∫ I dt` | `∫ I dt` |
//! | k-SII | `∫ I dt`, less half of the player's pairs | `∫ I dt` |
//! | Shapley–Taylor | `I(0)` | `∫ 2 (1 - t) I dt` |
//! | faithful Shapley | `∫ (4 - 6 t) I dt` | `∫ 6 t (1 - t) I dt` |
//! | Banzhaf | `I(½)` | `I(½)` |
//! | faithful Banzhaf | `I(½)`, less half of the player's pairs | `I(½)` |
//! | Möbius | `I(0)` | `I(0)` |
//!
//! For the faithful ones Tsai, Yeh and Ravikumar 2023 (theorems 17 and 19) give m(S) of a player, with s = |S| > 2, the weight
//! `-2 (s - 2) / (s (s + 1)) = 4/s - 6/(s + 1)`, which is 1 for s = 1 and 0 for s = 2; and `-(s - 2) 2^(1-s)`, likewise, whose part `(s - 1) 2^(1-s)` is that of
//! half of the player's pairs.

use super::product::{Pairs, ProductGame, Values, read};
use super::rule::Measure;
use crate::error::Result;
use crate::index::{self, Index};
use crate::simd::Isa;
use crate::stop::Watch;

/// What is averaged.
pub(crate) struct Recipe {
    /// What values of players are the sum of: averages over measures, with their coefficients.
    players: Vec<(f64, Measure)>,
    pairs: Option<OfPairs>,
    /// Whether all values add up to the prediction less the base value, and a bound on how the error of that depends on the errors of players and pairs.
    sums: bool,
}

/// The interactions of pairs.
struct OfPairs {
    measure: Measure,
    /// How much of the values of players under the same measure belongs to the players' values.
    players: f64,
    /// How much of each pair does.
    shared: f64,
}

/// What is found.
pub(crate) struct Found {
    /// Rows × outputs × sets: players, and then pairs (see [`place`](super::product::place)).
    pub(crate) values: Vec<f64>,
    /// Rows × outputs: a bound on the error of each value, and of their sum if they are to add up (so that of k-SII is that of Shapley values).
    pub(crate) error: Vec<f64>,
}

impl From<Index> for Recipe {
    fn from(index: Index) -> Self {
        let alone = |measure| Self { players: vec![(1.0, measure)], pairs: None, sums: false };
        let kind = match index {
            Index::Shapley => return alone(Measure::Lebesgue),
            Index::Banzhaf { chance } => return alone(Measure::at(chance)),
            Index::BetaShapley { alpha, beta } => return alone(Measure::beta(beta, alpha)),
            Index::Pairs(kind) => kind,
        };
        let same = |measure, shared| (Vec::new(), OfPairs { measure, players: 1.0, shared });
        let other = |players, measure| (players, OfPairs { measure, players: 0.0, shared: 0.0 });
        let (players, pairs) = match kind {
            index::Pairs::Sii => same(Measure::Lebesgue, 0.0),
            index::Pairs::KSii => same(Measure::Lebesgue, -0.5),
            index::Pairs::Stii => other(vec![(1.0, Measure::at(0.0))], Measure::beta(1.0, 2.0)),
            index::Pairs::Fsii => {
                let players = vec![(4.0, Measure::Lebesgue), (-3.0, Measure::beta(2.0, 1.0))];
                other(players, Measure::beta(2.0, 2.0))
            }
            index::Pairs::Bii => same(Measure::at(0.5), 0.0),
            index::Pairs::Fbii => same(Measure::at(0.5), -0.5),
            index::Pairs::Moebius => same(Measure::at(0.0), 0.0),
        };
        // What k-SII takes from players it gives to pairs, to the last error.
        let sums = index.is_efficient() && pairs.shared == 0.0;
        Self { players, pairs: Some(pairs), sums }
    }
}

impl Recipe {
    /// How often the game is read.
    pub(crate) fn passes(&self) -> usize {
        self.players.len() + usize::from(self.pairs.is_some())
    }

    /// The sets of so many players that get a value; `None` for players alone.
    pub(crate) fn subsets(&self, players: usize) -> Option<Vec<Vec<usize>>> {
        let pairs = (0..players).flat_map(|j| (j + 1..players).map(move |l| vec![j, l]));
        self.pairs.as_ref().map(|_| (0..players).map(|j| vec![j]).chain(pairs).collect())
    }

    /// The values of so many players, and outputs, of all rows of a game.
    ///
    /// # Errors
    /// Those of the game.
    pub(crate) fn find<G: ProductGame>(
        &self,
        game: &G,
        isa: Isa,
        watch: Watch<'_>,
        (players, outputs): (usize, usize),
    ) -> Result<Found> {
        let (mut values, mut error) = (Vec::new(), Vec::new());
        let mut add = |parts: &mut dyn Iterator<Item = Values>, coefficient: f64| {
            let mut at = 0;
            for part in parts {
                values.resize(values.len().max(at * players + part.values.len()), 0.0);
                error.resize(error.len().max(at + part.error.len()), 0.0);
                let own = values[at * players..].iter_mut().zip(&part.values);
                own.for_each(|(sum, value): (&mut f64, _)| *sum += coefficient * value);
                let own = error[at..].iter_mut().zip(&part.error);
                own.for_each(|(sum, error): (&mut f64, _)| *sum += coefficient.abs() * error);
                at += part.error.len();
            }
        };
        for (coefficient, measure) in &self.players {
            let parts = read(game, (isa, measure), watch, || Values::new(players, outputs))?;
            add(&mut parts.into_iter(), *coefficient);
        }
        let Some(OfPairs { measure, players: own, shared }) = &self.pairs else {
            return Ok(Found { values, error });
        };
        let parts = read(game, (isa, measure), watch, || Pairs::new(players, outputs))?;
        let of_pairs = |part: &Pairs| -> Vec<f64> {
            part.error.iter().zip(&part.values.error).map(|(own, of_value)| own + 2.0 * of_value).collect()
        };
        let (pairs, off): (Vec<_>, Vec<_>) =
            parts.iter().map(|part| (part.indices.as_slice(), of_pairs(part))).unzip();
        let (pairs, off) = (pairs.concat(), off.concat());
        add(&mut parts.into_iter().map(|part| part.values), *own);
        let count = players * (players - 1) / 2;
        let mut all = Vec::with_capacity(values.len() + pairs.len());
        for (g, (mut own, error)) in values.chunks(players).map(<[f64]>::to_vec).zip(&mut error).enumerate() {
            let pairs = &pairs[g * count..(g + 1) * count];
            let both = (0..players).flat_map(|j| (j + 1..players).map(move |l| [j, l]));
            for (both, value) in both.zip(pairs) {
                both.into_iter().for_each(|j| own[j] += shared * value);
            }
            let size = pairs.iter().map(|v| v.abs()).sum::<f64>();
            let (p, off) = (players as f64, off[g]);
            *error += shared.abs() * (p * off + p * f64::EPSILON * size);
            // The pairs of one player are a derivative by t, whose average is off by no more than four times what its ends are.
            *error = if self.sums { p * (*error + 2.0 * off) } else { error.max(off) };
            all.extend(own);
            all.extend(pairs);
        }
        Ok(Found { values: all, error })
    }
}

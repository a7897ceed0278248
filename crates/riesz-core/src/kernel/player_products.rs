//! A kernel written as a sum of products with one factor for each player.

use super::{ColumnRanges, Columns, Factor, Kernel, RoundingBound, Structure, Term};
use crate::error::{Error, Result};
use crate::simd::Isa;
use crate::table::{Column, Players};

/// Maximum number of products into which products of sums may be multiplied out; more would exhaust memory.
const MAX_PRODUCTS: usize = 100_000;

/// A part of a player's factor: one column of a separable or additive factor, or, if `slot` is `None`, a
/// factor all of whose columns belong to the player.
#[derive(Debug, Clone, Copy)]
struct Piece<'k> {
    factor: &'k Factor,
    slot: Option<usize>,
}

/// One product of the sum.
#[derive(Debug, Clone)]
pub struct PlayerProduct<'k> {
    /// Scale that multiplies the product.
    pub scale: f64,
    /// The players that have a factor in this product, ascending; the factor of every other player is 1.
    pub players: Vec<usize>,
    pieces: Vec<Vec<Piece<'k>>>,
}

impl PlayerProduct<'_> {
    /// The number of pieces that may exceed 1.
    pub fn unbounded(&self) -> usize {
        self.pieces.iter().flatten().filter(|piece| !piece.factor.bounded()).count()
    }

    /// Whether a factor can be a sum whose terms cancel, or, if `averaged`, a mean of numbers of both signs.
    /// Then rounding errors are relative to the factors' [`size`](Self::size).
    pub fn cancels(&self, averaged: bool) -> bool {
        let piece_cancels = |piece: &Piece<'_>| match piece.slot {
            Some(_) if piece.factor.columns().len() > 1 => piece.factor.cancels_by_column(),
            _ => piece.factor.cancels(),
        };
        self.pieces.iter().flatten().any(piece_cancels) || averaged && self.unbounded() > 0
    }

    /// Whether every factor is 1 plus a kernel of functions orthogonal to 1, and no column is read twice.
    /// Then replacing an absent player's factor by 1 is an orthogonal projection of the product's functions.
    pub fn projects(&self) -> bool {
        let mut seen: Vec<usize> = Vec::new();
        self.pieces.iter().flatten().all(|Piece { factor, slot }| {
            let columns = slot.map_or(factor.columns(), |slot| &factor.columns()[slot..=slot]);
            let new = columns.iter().all(|j| !seen.contains(j));
            seen.extend(columns);
            new && factor.projects()
        })
    }

    /// Bounds of rounding errors: one for each factor, and one for their product.
    pub fn precision(&self, ranges: &ColumnRanges) -> (Vec<RoundingBound>, RoundingBound) {
        let bound_of = |Piece { factor, slot }: &Piece<'_>| {
            let precision = slot
                .map_or_else(|| factor.precision_of_all(ranges), |slot| factor.precision(&[slot], ranges));
            (precision, factor.bounded())
        };
        let bounds = self.pieces.iter().map(|pieces| RoundingBound::product(pieces.iter().map(bound_of)));
        let factor_bounds: Vec<RoundingBound> = bounds.collect();
        let mut total = RoundingBound { units: 0.0, per_log: 0.0, deepest: 0.0, top: 1.0, tiny: 0.0 };
        for factor in &factor_bounds {
            total.units += factor.units;
            total.per_log = total.per_log.max(factor.per_log);
            total.top *= factor.top;
            total.tiny = total.tiny.max(factor.tiny);
        }
        (factor_bounds, total)
    }

    /// Writes to `out[i]` the size of the factor of `players[k]` between row i of `u` and the row `v`: an
    /// upper bound in which the terms of sums do not cancel.
    pub fn size(&self, isa: Isa, k: usize, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        out.fill(1.0);
        for &Piece { factor, slot } in &self.pieces[k] {
            match slot {
                Some(slot) if factor.columns().len() > 1 => {
                    let j = factor.columns()[slot];
                    factor.multiply_column_size(isa, slot, u.column(j), v[j], out);
                }
                _ => factor.multiply_size(isa, u, v, out),
            }
        }
        out.iter_mut().for_each(|size| *size = size.abs());
    }

    /// The index of the first factor that is not finite between some row of `u` and `v`, and the factor's
    /// formula.
    pub fn lost(&self, isa: Isa, u: Columns<'_>, v: &[f64]) -> Option<(usize, String)> {
        let mut out = vec![1.0; u.len()];
        (0..self.players.len()).find_map(|k| {
            self.factor(isa, k, u, v, &mut out);
            let formulas = self.pieces[k].iter().map(|piece| piece.factor.formula());
            let overflows = out.iter().any(|f| !f.is_finite());
            overflows.then(|| (k, formulas.collect::<Vec<_>>().join(" * ")))
        })
    }

    /// The factors as separate kernels, one for each of `players` players; a player without a factor has the
    /// kernel 1.
    pub fn kernels(&self, players: usize) -> Vec<Kernel> {
        let mut kernels = vec![Kernel::constant(1.0); players];
        let restricted_piece = |&Piece { factor, slot }: &Piece<'_>| match slot {
            Some(slot) => factor.restricted(&|j| j == factor.columns()[slot]),
            None => Some(factor.clone()),
        };
        for (&player, pieces) in self.players.iter().zip(&self.pieces) {
            kernels[player].terms[0].factors.extend(pieces.iter().filter_map(restricted_piece));
        }
        kernels
    }

    /// Writes to `out[i]` the factor of `players[k]` between row i of `u` and the row `v`.
    #[inline]
    pub fn factor(&self, isa: Isa, k: usize, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        out.fill(1.0);
        for &Piece { factor, slot } in &self.pieces[k] {
            match slot {
                Some(slot) => {
                    let j = factor.columns()[slot];
                    factor.multiply_column(isa, slot, u.column(j), v[j], out);
                }
                None => factor.multiply_all(isa, u, v, out),
            }
        }
    }
}

impl Kernel {
    /// Splits the kernel among the players.
    ///
    /// # Errors
    /// [`Error::NotProduct`] if a factor is a joint function of columns of different players.
    pub fn products(&self, columns: &[Column], groups: &Players) -> Result<Vec<PlayerProduct<'_>>> {
        self.split(columns, &groups.player_of_column(columns.len()))
    }

    /// The kernel as a sum of products over players; `owner` gives the player of each column.
    pub fn split(&self, columns: &[Column], owner: &[usize]) -> Result<Vec<PlayerProduct<'_>>> {
        let products: Result<Vec<_>> = self.terms.iter().map(|term| term.split(columns, owner)).collect();
        Ok(products?.into_iter().flatten().collect())
    }
}

impl Term {
    /// The products over players whose sum is this term; `owner` gives the player of each column.
    pub(super) fn split(&self, columns: &[Column], owner: &[usize]) -> Result<Vec<PlayerProduct<'_>>> {
        // Separable factors and factors of one player extend each partial product; additive factors multiply
        // their number by the number of columns.
        let mut partial: Vec<Vec<(usize, Piece<'_>)>> = vec![Vec::new()];
        for factor in &self.factors {
            let column_players: Vec<usize> = factor.columns().iter().map(|&j| owner[j]).collect();
            let one_player = column_players.iter().all(|&p| p == column_players[0]);
            let by_column = || {
                column_players.iter().enumerate().map(|(slot, &p)| (p, Piece { factor, slot: Some(slot) }))
            };
            match factor.structure() {
                _ if one_player && column_players.len() > 1 => {
                    let joint_piece = (column_players[0], Piece { factor, slot: None });
                    partial.iter_mut().for_each(|list| list.push(joint_piece));
                }
                Structure::Separable => partial.iter_mut().for_each(|list| list.extend(by_column())),
                Structure::Additive => {
                    if partial.len().saturating_mul(column_players.len()) > MAX_PRODUCTS {
                        return Err(Error::parameter(
                            "kernel",
                            Kernel { terms: vec![self.clone()] }.formula(),
                            format!(
                                "multiplied out it has more than {MAX_PRODUCTS} products; multiply fewer \
                                 linear factors, or group their columns"
                            ),
                        ));
                    }
                    let extended = |list: &Vec<_>| {
                        let list = list.clone();
                        by_column().map(move |piece| [&list[..], &[piece]].concat())
                    };
                    partial = partial.iter().flat_map(extended).collect();
                }
                Structure::Joint => {
                    let (factor, columns) = factor.describe(columns);
                    return Err(Error::NotProduct { factor, columns });
                }
            }
        }
        let mut products = Vec::with_capacity(partial.len());
        for mut list in partial {
            list.sort_by_key(|(player, _)| *player);
            let (players, pieces) = list
                .chunk_by(|(p, _), (q, _)| p == q)
                .map(|pieces_of_player| {
                    (pieces_of_player[0].0, pieces_of_player.iter().map(|(_, piece)| *piece).collect())
                })
                .unzip();
            products.push(PlayerProduct { scale: self.scale, players, pieces });
        }
        Ok(products)
    }
}

//! A kernel written as a sum of products with one factor for each player.

use std::borrow::Cow;

use super::gaussian_mixture::{MIN_TOLERANCE, RadialFactor};
use super::{ColumnRanges, Columns, Factor, Kernel, RoundingBound, Stationary, Structure, Term};
use crate::error::{Error, Result};
use crate::simd::Isa;
use crate::table::{Column, Players};

/// Maximum number of products into which products of sums may be multiplied out; more would exhaust memory.
const MAX_PRODUCTS: usize = 100_000;

/// Factors of players in approximations are 0 below this, so that their products do not underflow.
const SMALLEST_FACTOR: f64 = 1e-20;

/// A part of a player's factor: one column of a separable or additive factor, or, if `slot` is `None`, a
/// factor all of whose columns belong to the player.
#[derive(Debug, Clone)]
struct Piece<'k> {
    factor: Cow<'k, Factor>,
    slot: Option<usize>,
}

/// The accuracy to which radial factors over several players are replaced by sums of Gaussians.
#[derive(Debug, Clone)]
pub struct RadialApproximation {
    /// For each column, the largest difference between two rows of the data. The approximation holds for rows
    /// that are some times farther apart.
    pub column_widths: Vec<f64>,
    /// The error of a factor, which is at most 1, that is aimed at; at least 1e-12.
    pub tolerance: f64,
}

impl RadialApproximation {
    /// The approximation with the smallest error, for these rows of `width` columns.
    pub fn most_accurate(rows: Columns<'_>, width: usize) -> Self {
        let ranges = ColumnRanges::per_column(rows, width);
        let column_widths = ranges.iter().map(|[low, high]| (high - low).max(0.0)).collect();
        Self { column_widths, tolerance: MIN_TOLERANCE }
    }
}

/// The approximated factors of a term of a kernel.
#[derive(Debug, Clone)]
struct ApproximatedTerm {
    scale: f64,
    radial: Vec<RadialFactor>,
}

/// One product of the sum.
#[derive(Debug, Clone)]
pub struct PlayerProduct<'k> {
    /// Scale that multiplies the product.
    pub scale: f64,
    /// The players that have a factor in this product, ascending; the factor of every other player is 1.
    pub players: Vec<usize>,
    pieces: Vec<Vec<Piece<'k>>>,
    /// Whether this is one of the products that approximate a term of the kernel.
    pub is_approximate: bool,
    /// In the first of the products that approximate a term: the approximated factors.
    approximated: Option<ApproximatedTerm>,
}

impl PlayerProduct<'_> {
    /// A bound on the absolute error of the kernel's term that this product approximates together with the
    /// products that follow it, between rows in these ranges; 0 if they are equal to the term, and for all
    /// but the first of these products.
    pub fn approximation_error(&self, ranges: &ColumnRanges) -> f64 {
        let Some(ApproximatedTerm { scale, radial }) = &self.approximated else { return 0.0 };
        // Each factor and its approximation are at most 1, and 1 plus the error: the product of `1 + e` less
        // 1. Factors that are set to 0 are far below the rounding errors that each of these errors includes.
        let relative = radial.iter().map(|factor| factor.error(ranges)).fold(0.0, |sum, e| sum + e + sum * e);
        scale * relative * self.precision(ranges).1.top.max(1.0)
    }

    /// The number of Gaussians and the error, for rows about as far apart as the data's, of each approximated
    /// factor; of the first of the products that approximate a term.
    pub fn approximations(&self) -> impl Iterator<Item = (usize, f64)> {
        let factors = self.approximated.iter().flat_map(|term| &term.radial);
        factors.map(|factor| (factor.mixture.terms.len(), factor.mixture.error))
    }

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
        for Piece { factor, slot } in &self.pieces[k] {
            match *slot {
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
        let restricted_piece = |Piece { factor, slot }: &Piece<'_>| match *slot {
            Some(slot) => factor.restricted(&|j| j == factor.columns()[slot]),
            None => Some(factor.clone().into_owned()),
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
        for Piece { factor, slot } in &self.pieces[k] {
            match *slot {
                Some(slot) => {
                    let j = factor.columns()[slot];
                    factor.multiply_column(isa, slot, u.column(j), v[j], out);
                }
                None => factor.multiply_all(isa, u, v, out),
            }
        }
        if self.is_approximate && self.unbounded() == 0 {
            for value in out {
                *value = if *value < SMALLEST_FACTOR { 0.0 } else { *value };
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
        self.split(columns, &groups.player_of_column(columns.len()), None)
    }

    /// Splits the kernel among the players as [`products`](Self::products) does, with sums of Gaussians in
    /// place of radial factors over columns of different players.
    ///
    /// # Errors
    /// [`Error::NotProduct`] if another factor is a joint function of columns of different players.
    pub fn approximate_products(
        &self,
        columns: &[Column],
        groups: &Players,
        approximation: &RadialApproximation,
    ) -> Result<Vec<PlayerProduct<'_>>> {
        self.split(columns, &groups.player_of_column(columns.len()), Some(approximation))
    }

    /// The kernel as a sum of products over players; `owner` gives the player of each column.
    pub fn split(
        &self,
        columns: &[Column],
        owner: &[usize],
        approximation: Option<&RadialApproximation>,
    ) -> Result<Vec<PlayerProduct<'_>>> {
        let products: Result<Vec<_>> =
            self.terms.iter().map(|term| term.split(columns, owner, approximation)).collect();
        Ok(products?.into_iter().flatten().collect())
    }
}

/// The pieces of some factors of a term, by player, and their weight in the term.
struct WeightedPieces<'k> {
    weight: f64,
    pieces: Vec<(usize, Piece<'k>)>,
}

impl RadialFactor {
    /// The Gaussians that approximate the factor; `players` gives the player of each of its columns.
    fn weighted_pieces<'k>(&self, players: &[usize]) -> Vec<WeightedPieces<'k>> {
        let by_gaussian = |(weight, length_scales): (f64, Vec<f64>)| {
            let columns = self.columns.iter().zip(length_scales).zip(players);
            let piece = |((&j, length_scale), &player): ((&usize, f64), &usize)| {
                let gaussian = Stationary::gaussian_of_column(j, length_scale).into();
                (player, Piece { factor: Cow::Owned(gaussian), slot: Some(0) })
            };
            WeightedPieces { weight, pieces: columns.map(piece).collect() }
        };
        self.gaussians().map(by_gaussian).collect()
    }
}

/// The products of pieces whose sum is a factor that belongs to one player, or is separable or additive.
/// `None` for other factors. `players` gives the player of each of the factor's columns.
fn exact_pieces<'k>(factor: &'k Factor, players: &[usize]) -> Option<Vec<WeightedPieces<'k>>> {
    let piece = |slot| Piece { factor: Cow::Borrowed(factor), slot };
    let by_column = || players.iter().enumerate().map(|(slot, &player)| (player, piece(Some(slot))));
    let product = |pieces| WeightedPieces { weight: 1.0, pieces };
    let is_one_player = players.len() > 1 && players.iter().all(|&player| player == players[0]);
    match factor.structure() {
        _ if is_one_player => Some(vec![product(vec![(players[0], piece(None))])]),
        Structure::Separable => Some(vec![product(by_column().collect())]),
        Structure::Additive => Some(by_column().map(|column| product(vec![column])).collect()),
        Structure::Joint => None,
    }
}

impl Term {
    /// The products over players whose sum is this term, or approximates it; `owner` gives the player of each
    /// column.
    pub(super) fn split(
        &self,
        columns: &[Column],
        owner: &[usize],
        approximation: Option<&RadialApproximation>,
    ) -> Result<Vec<PlayerProduct<'_>>> {
        // Separable factors and factors of one player extend each product. Additive factors multiply the
        // number of products by the number of columns, and radial factors by the number of Gaussians.
        let mut products = vec![WeightedPieces { weight: 1.0, pieces: Vec::new() }];
        let mut radial = Vec::new();
        for factor in &self.factors {
            let players: Vec<usize> = factor.columns().iter().map(|&j| owner[j]).collect();
            let approximate = || {
                let radial_factor = factor.radial(approximation?)?;
                let pieces = radial_factor.weighted_pieces(&players);
                radial.push(radial_factor);
                Some(pieces)
            };
            let Some(extensions) = exact_pieces(factor, &players).or_else(approximate) else {
                let (factor, columns) = factor.describe(columns);
                return Err(Error::NotProduct { factor, columns });
            };
            products = self.multiplied_out(&products, &extensions)?;
        }
        let is_approximate = !radial.is_empty();
        let mut products: Vec<PlayerProduct<'_>> = products
            .into_iter()
            .map(|WeightedPieces { weight, mut pieces }| {
                pieces.sort_by_key(|(player, _)| *player);
                let by_player = pieces.chunk_by(|(p, _), (q, _)| p == q);
                let (players, pieces) = by_player
                    .map(|pieces| (pieces[0].0, pieces.iter().map(|(_, piece)| piece.clone()).collect()))
                    .unzip();
                let scale = self.scale * weight;
                PlayerProduct { scale, players, pieces, is_approximate, approximated: None }
            })
            .collect();
        if let (Some(first), true) = (products.first_mut(), is_approximate) {
            first.approximated = Some(ApproximatedTerm { scale: self.scale, radial });
        }
        Ok(products)
    }

    /// All products of one of `products` and one of `extensions`.
    fn multiplied_out<'k>(
        &self,
        products: &[WeightedPieces<'k>],
        extensions: &[WeightedPieces<'k>],
    ) -> Result<Vec<WeightedPieces<'k>>> {
        if products.len().saturating_mul(extensions.len()) > MAX_PRODUCTS {
            return Err(Error::parameter(
                "kernel",
                Kernel { terms: vec![self.clone()] }.formula(),
                format!(
                    "multiplied out it has more than {MAX_PRODUCTS} products; multiply fewer linear or \
                     radial factors, or group their columns"
                ),
            ));
        }
        let extended = |product: &WeightedPieces<'k>, extension: &WeightedPieces<'k>| WeightedPieces {
            weight: product.weight * extension.weight,
            pieces: [&product.pieces[..], &extension.pieces[..]].concat(),
        };
        let pairs = products.iter().flat_map(|p| extensions.iter().map(move |e| (p, e)));
        Ok(pairs.map(|(product, extension)| extended(product, extension)).collect())
    }
}

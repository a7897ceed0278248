//! Covariance of players' values under a Gaussian process whose covariance function is a sum of products.
//!
//! A value is a linear functional of f. With absent players from the reference row b, it is `φ_j = ∫ ∂_j f(t
//! x + (1-t) b) dμ(t)`. Here f is extended to mixtures player by player, and ∂_j is the difference between
//! player j's present and absent side. For a product kernel with one factor k_q per player q, rows x and x',
//! and reference rows b and b' with weights π, therefore
//!
//! `cov(φ_j(x), φ_l(x')) = Σ_{b,b'} π_b π_b' ∫∫ u_j(t') v_l(t) Π_{q≠j,l} h_q(t, t') dμ(t) dμ(t')`, where
//!
//! `h_q = t t' k_q(x,x') + t (1-t') k_q(x,b') + (1-t) t' k_q(b,x') + (1-t)(1-t') k_q(b,b')`,
//!
//! u_j is the difference of h_j with respect to t, and v_l the difference of h_l with respect to t'. For j =
//! l the mixed difference takes the place of their product. Each integrand is a polynomial of degree
//! players - 1, so a tensor Gauss rule is exact. If leaving out a factor is a projection, as in the
//! functional ANOVA, the three other corners of h are 1. Sources: our own; for regression and coalitions,
//! Chau, Muandet and Sejdinovic 2023.

use rayon::prelude::*;

use super::coalition_covariance::{RowPairs, player_covariance};
use super::rule::{ERROR_TAU, InclusionMeasure, Node};
use crate::control::{RunControl, check_cancelled};
use crate::error::Result;
use crate::game::{AbsentSide, ReferenceRows};
use crate::kernel::Columns;
use crate::kernel::player_products::PlayerProduct;
use crate::linalg::{Matrix, add_multiple};
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};

/// One factor between present and absent rows: `k(x,x')`, `k(x,b')`, `k(b,x')`, `k(b,b')`, by lanes of b'.
type FourCorners = [Lanes; 4];

/// Covariance of the values of players at rows. The absent side of the game consists of reference rows, or
/// takes out factors by projecting f.
pub(crate) struct ValueCovariance<'g> {
    products: &'g [PlayerProduct<'g>],
    absent: &'g AbsentSide,
    players: usize,
    /// Reference rows, column by column, padded by repeating the last row.
    columns: Vec<f64>,
    len: usize,
    /// For a skew-symmetric f: the columns in swapped order, and the reference rows with swapped columns.
    mirrored: Option<(&'g [usize], Vec<f64>)>,
    measure: InclusionMeasure,
    isa: Isa,
}

impl<'g> ValueCovariance<'g> {
    /// Prepares the covariance. Returns `None` if f without an absent player is not in the kernel's function
    /// space: if there are no reference rows, and some factors do not [project](PlayerProduct::projects).
    pub(crate) fn new(
        products: &'g [PlayerProduct<'g>],
        absent: &'g AbsentSide,
        players: usize,
        mirror: Option<&'g [usize]>,
        (measure, isa): (InclusionMeasure, Isa),
    ) -> Option<Self> {
        let rows = match absent.reference() {
            Some(reference) => &reference.rows[..],
            None if products.iter().all(PlayerProduct::projects) => &[],
            None => return None,
        };
        let (len, width) = (rows.len().next_multiple_of(LANES), rows.first().map_or(0, Vec::len));
        let column = |j: usize| (0..len).map(move |i| rows[i.min(rows.len() - 1)][j]);
        let columns = (0..width).flat_map(column).collect();
        let other = |mirror: &'g [usize]| (mirror, (0..width).flat_map(|j| column(mirror[j])).collect());
        let mirrored = mirror.map(other);
        Some(Self { products, absent, players, columns, len, mirrored, measure, isa })
    }

    /// The prior covariance of all values at all rows; player j in row r has the index `r * players + j`.
    /// Cost per pair of rows: O(reference² · players² · nodes²), where nodes is at most half the number of
    /// players.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(crate) fn covariance(&self, rows: &[Vec<f64>], control: RunControl<'_>) -> Result<Matrix> {
        let pairs = RowPairs::All.row_pairs(rows.len());
        let pair_block = |&(r, s): &(usize, usize)| {
            check_cancelled(control.stop)?;
            let block = self.row_pair_covariance(&rows[r], &rows[s], r == s, control)?;
            control.step();
            Ok(block)
        };
        let blocks: Vec<Matrix> = pairs.par_iter().map(pair_block).collect::<Result<_>>()?;
        Ok(player_covariance(rows.len(), self.players, pairs.into_iter().zip(blocks)))
    }

    /// Covariance between the values of the players at `x` and at `other`, players × players. For the same
    /// row only half of the pairs of reference rows are computed, so the mean of the block and its transpose
    /// is the covariance.
    fn row_pair_covariance(
        &self,
        x: &[f64],
        other: &[f64],
        same_row: bool,
        control: RunControl<'_>,
    ) -> Result<Matrix> {
        let mut out = Matrix::zeros(self.players, self.players);
        // For a skew-symmetric f, the covariance with the other row with swapped columns is subtracted.
        let mirrored = self.mirrored.as_ref().map(|(mirror, columns)| {
            let other: Vec<f64> = mirror.iter().map(|&j| other[j]).collect();
            (other, columns)
        });
        let taken = mirrored.iter().map(|(other, columns)| (-1.0, &other[..], &columns[..]));
        let passes: Vec<(f64, &[f64], &[f64])> =
            std::iter::once((1.0, other, &self.columns[..])).chain(taken).collect();
        for product in self.products {
            let m = product.players.len();
            let mut scratch = Scratch::default();
            for (sign, other, other_columns) in &passes {
                let mut sums = vec![Lanes::ZERO; m * m];
                let mut add = |corners: &[FourCorners], weights: &[Lanes]| {
                    let nodes = self.measure.rule(self.nodes(corners, m, weights.len()));
                    for (block, weight) in
                        weights.iter().enumerate().filter(|(_, w)| w.0.iter().any(|w| *w != 0.0))
                    {
                        let block_corners = corners.iter().skip(block).step_by(weights.len());
                        scratch.corners.clear();
                        scratch.corners.extend(block_corners);
                        integrate(self.isa, *weight, nodes, &mut scratch, &mut sums);
                    }
                };
                self.for_each_block(product, (x, other, other_columns), same_row, control, &mut add)?;
                for (index, sum) in sums.iter().enumerate() {
                    let (j, l) = (product.players[index / m], product.players[index % m]);
                    out[(j, l)] += sign * product.scale * sum.sum();
                }
            }
        }
        Ok(out)
    }

    /// Calls `add` with the factors of blocks and the weights of blocks, for one batch of pairs of reference
    /// rows after another. The pairs consist of a reference row for `x`, and a row of `others`, the reference
    /// rows for `other`.
    fn for_each_block(
        &self,
        product: &PlayerProduct<'_>,
        (x, other, others): (&[f64], &[f64], &[f64]),
        same_row: bool,
        control: RunControl<'_>,
        add: &mut impl FnMut(&[FourCorners], &[Lanes]),
    ) -> Result<()> {
        let (m, len) = (product.players.len(), self.len);
        let [reference, other_reference] =
            [&self.columns, others].map(|columns| Columns::new(columns, len, 0, len));
        let factors = |u: Columns<'_>, v: &[f64]| -> Vec<f64> {
            let mut out = vec![1.0; m * u.len()];
            let player_factors = out.chunks_exact_mut(u.len()).enumerate();
            player_factors.for_each(|(k, factor)| product.factor(self.isa, k, u, v, factor));
            out
        };
        let present = factors(Columns::new(x, 1, 0, 1), other);
        let mut unit_lane = Lanes::ZERO;
        unit_lane.0[0] = 1.0;
        let Some(ReferenceRows { rows, weights }) = self.absent.reference() else {
            let corners: Vec<FourCorners> =
                present.iter().map(|f| [*f, 1.0, 1.0, 1.0].map(Lanes::splat)).collect();
            add(&corners, &[unit_lane]);
            return Ok(());
        };
        let (reference_to_x, reference_to_other) = (factors(other_reference, x), factors(reference, other));

        if matches!(self.absent, AbsentSide::Means(_)) {
            let mean = |factors: &[f64]| -> Vec<f64> {
                let weighted_mean = |f: &[f64]| f.iter().zip(weights).map(|(f, w)| f * w).sum();
                factors.chunks_exact(len).map(weighted_mean).collect()
            };
            let mut absent = vec![0.0; m];
            for (row, weight) in rows.iter().zip(weights) {
                check_cancelled(control.stop)?;
                add_multiple(&mut absent, *weight, &mean(&factors(other_reference, row)));
            }
            let (reference_to_x, reference_to_other) = (mean(&reference_to_x), mean(&reference_to_other));
            let corners: Vec<FourCorners> = (0..m)
                .map(|k| [present[k], reference_to_x[k], reference_to_other[k], absent[k]].map(Lanes::splat))
                .collect();
            add(&corners, &[unit_lane]);
            return Ok(());
        }
        let blocks = len / LANES;
        let mut corners = Vec::with_capacity(m * blocks);
        for (b, row) in rows.iter().enumerate() {
            check_cancelled(control.stop)?;
            let absent = factors(other_reference, row);
            corners.clear();
            for k in 0..m {
                let splat = [present[k], reference_to_other[k * len + b]].map(Lanes::splat);
                corners.extend((0..blocks).map(|block| {
                    let start = k * len + block * LANES;
                    [splat[0], Lanes::load(&reference_to_x, start), splat[1], Lanes::load(&absent, start)]
                }));
            }
            let weight = |c: usize| match weights.get(c) {
                Some(weight) if same_row && c > b => 2.0 * weights[b] * weight,
                Some(weight) if !same_row || c == b => weights[b] * weight,
                _ => 0.0,
            };
            let weights: Vec<f64> = (0..len).map(weight).collect();
            add(&corners, &(0..blocks).map(|block| Lanes::load(&weights, block * LANES)).collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Number of nodes that is accurate for all these factors on both sides.
    fn nodes(&self, corners: &[FourCorners], players: usize, blocks: usize) -> usize {
        let choices = self.measure.candidate_rules(players);
        let mut ratio = 1.0;
        for factor in corners.chunks(blocks.max(1)) {
            let mut error_ratio = 1.0_f64;
            for l in factor.iter().flat_map(|corner| (0..LANES).map(move |l| corner.map(|c| c.0[l]))) {
                let [xx, xb, bx, bb] = l;
                if !(l.iter().all(|c| *c > 0.0)) {
                    return choices.exact.nodes;
                }
                let difference =
                    [xx - bx, xb - bb, xx - xb, bx - bb].iter().fold(0.0, |g: f64, d| g.max(d.abs()));
                let top = (xx.max(bx).min(xb.max(bb))).min(xx.max(xb).min(bx.max(bb)));
                error_ratio = error_ratio.max(1.0 + ERROR_TAU * difference / top);
            }
            ratio *= error_ratio;
        }
        choices.smallest_accurate(ratio).nodes
    }
}

/// Scratch memory that is kept between blocks.
#[derive(Default)]
struct Scratch {
    corners: Vec<FourCorners>,
    /// Six rows with one number per factor.
    rows: [Vec<Lanes>; 6],
}

dispatch! {
    /// Adds the integrals of a block of pairs of reference rows to `out`: players of x × players of the other
    /// row.
    fn integrate<V: Simd>(weight: Lanes, nodes: &[Node], scratch: &mut Scratch, out: &mut [Lanes]) {
        let Scratch { corners, rows } = scratch;
        let m = corners.len();
        rows.iter_mut().for_each(|row| row.resize(m, Lanes::ZERO));
        let [first, second, by_other, h, by_own, after] = rows;
        for node in nodes {
            let (t, s) = (Lanes::splat(node.t), Lanes::splat(node.s));
            for (q, [xx, xb, bx, bb]) in corners.iter().enumerate() {
                first[q] = V::fma(t, *xx, V::mul(s, *bx));
                second[q] = V::fma(t, *xb, V::mul(s, *bb));
                by_other[q] = V::sub(first[q], second[q]);
            }
            for two in nodes {
                let (t, s) = (Lanes::splat(two.t), Lanes::splat(two.s));
                for (q, [xx, xb, bx, bb]) in corners.iter().enumerate() {
                    h[q] = V::fma(t, first[q], V::mul(s, second[q]));
                    by_own[q] = V::fma(t, V::sub(*xx, *bx), V::mul(s, V::sub(*xb, *bb)));
                }
                let mut suffix = Lanes::UNIT;
                for q in (0..m).rev() {
                    after[q] = suffix;
                    suffix = V::mul(suffix, h[q]);
                }
                let mut before = V::mul(weight, Lanes::splat(node.weight * two.weight));
                for j in 0..m {
                    let [xx, xb, bx, bb] = corners[j];
                    let mixed = V::sub(V::sub(xx, xb), V::sub(bx, bb));
                    out[j * m + j] = V::fma(mixed, V::mul(before, after[j]), out[j * m + j]);
                    let mut inner_product = before;
                    for l in j + 1..m {
                        let outer_product = V::mul(inner_product, after[l]);
                        out[j * m + l] =
                            V::fma(V::mul(by_own[j], by_other[l]), outer_product, out[j * m + l]);
                        out[l * m + j] =
                            V::fma(V::mul(by_own[l], by_other[j]), outer_product, out[l * m + j]);
                        inner_product = V::mul(inner_product, h[l]);
                    }
                    before = V::mul(before, h[j]);
                }
            }
        }
    }
}

//! Orthogonal kernel factors, with which no feature hides another.
//!
//! With plain product kernels, a feature that differs strongly makes all others look equal: its factor is
//! small between the samples, and multiplies their factors. So each player's factor k is replaced by
//! `1 + k̃`, with
//!
//! `k̃(u, v) = (k(u, v) - m(u) - m(v) + M) / s`, `m(u) = E k(u, ·)`, `M = E m`, `s = E k(u, u) - M`,
//!
//! where expectations are over rows whose set is the same in all draws. Then
//! `Π_j (1 + k̃_j) = Σ_T Π_{j∈T} k̃_j`, with sets T of players, and replacing an absent factor by 1 is an
//! orthogonal projection. The contribution of a set T to MMD² or HSIC is a squared norm. A test uses single
//! players and pairs only. Sets of three or more would give values to features that are equally distributed
//! in both samples but depend on each other. With the weights W of pairs of rows, the value of player j is
//!
//! `φ_j = Σ W (k̃_j + ½ k̃_j Σ_{l≠j} k̃_l)`, and these values sum to the statistic
//! `Σ W (Σ_j k̃_j + Σ_{j<l} k̃_j k̃_l)`.
//!
//! The rest, `Σ W (Π_j (1 + k̃_j) - 1)` minus the statistic, is reported as one number. Sources: Durrande,
//! Ginsbourger, Roustant and Carraro 2013 (§3, centered kernels as a functional ANOVA); the restriction to
//! orders one and two is riesz's own.

use std::ops::Range;

use rayon::prelude::*;

use super::points::Points;
use crate::attribution::product::{PlayerFunctionals, ProductTerms, TermAccumulator};
use crate::attribution::quadrature::QuadratureEngine;
use crate::attribution::sets::index_of;
use crate::control::RunControl;
use crate::error::Result;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel::rounding_bounds::RoundingBound;
use crate::linalg::add_to;
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};

/// The number of rows whose means are computed together, and the number of rows that are summed before their
/// sums are added to each other.
const TILE: usize = 512;
const BATCH_ROWS: usize = 64;

/// The centered, scaled factors of a kernel's products.
pub(super) struct OrthogonalKernel {
    /// For each product and factor.
    factors: Vec<Vec<CenteredFactor>>,
    /// The error of each k̃ is at most this times `1 + |k̃|`.
    pub(super) error: f64,
}

struct CenteredFactor {
    /// The means m of the module's documentation, by row, padding included; `mean` is M.
    means: Vec<f64>,
    mean: f64,
    /// The scale 1/s; 0 for a factor that is constant up to rounding.
    scale: f64,
    error: f64,
}

impl OrthogonalKernel {
    /// Creates the factors, with expectations over the rows with the indices `reference`. Cost O(rows ·
    /// references) for each factor.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(super) fn new(
        points: &Points,
        (products, precisions): (&[PlayerProduct<'_>], &[(Vec<RoundingBound>, RoundingBound)]),
        reference: &[usize],
        isa: Isa,
        control: RunControl<'_>,
    ) -> Result<Self> {
        let rows: Vec<Vec<f64>> = reference.iter().map(|&i| points.row(i)).collect();
        let factors = products
            .iter()
            .zip(precisions)
            .map(|(product, (factor_precisions, _))| {
                let centered = |k| {
                    CenteredFactor::new(
                        points,
                        (product, &factor_precisions[k]),
                        k,
                        (reference, &rows),
                        isa,
                        control,
                    )
                };
                (0..product.players.len()).map(centered).collect::<Result<Vec<_>>>()
            })
            .collect::<Result<Vec<_>>>()?;
        let error = factors.iter().flatten().map(|f| f.error).fold(0.0, f64::max);
        Ok(Self { factors, error })
    }

    /// Replaces factor k of a product between row i and the rows of `columns` by its centered factor k̃.
    pub(super) fn centre(
        &self,
        (product, k): (usize, usize),
        i: usize,
        columns: &Range<usize>,
        factor: &mut [f64],
    ) {
        let CenteredFactor { means, mean, scale, .. } = &self.factors[product][k];
        let offset = mean - means[i];
        for (factor, mean) in factor.iter_mut().zip(&means[columns.clone()]) {
            *factor = ((*factor - mean) + offset) * scale;
        }
    }
}

impl CenteredFactor {
    fn new(
        points: &Points,
        (product, precision): (&PlayerProduct<'_>, &RoundingBound),
        k: usize,
        (reference, rows): (&[usize], &[Vec<f64>]),
        isa: Isa,
        control: RunControl<'_>,
    ) -> Result<Self> {
        let stride = points.stride();
        // For a tile: the mean of each row, `k(u, u)` for the reference rows in it, and the largest |k|.
        let tile = |from: usize| -> Result<(Vec<f64>, Vec<f64>, f64)> {
            let columns = from..(from + TILE).min(stride);
            let (mut sums, mut batch_sums) = (vec![0.0; columns.len()], vec![0.0; columns.len()]);
            let (mut factor, mut diagonal, mut largest) = (vec![0.0; columns.len()], Vec::new(), 0.0_f64);
            for (rows, indices) in rows.chunks(BATCH_ROWS).zip(reference.chunks(BATCH_ROWS)) {
                control.check_cancelled()?;
                batch_sums.fill(0.0);
                for (row, i) in rows.iter().zip(indices) {
                    product.factor(isa, k, points.columns(&columns), row, &mut factor);
                    for (sum, v) in batch_sums.iter_mut().zip(&factor) {
                        *sum += v;
                        largest = if v.abs() > largest { v.abs() } else { largest };
                    }
                    if columns.contains(i) {
                        diagonal.push(factor[i - from]);
                    }
                }
                add_to(&mut sums, &batch_sums);
            }
            sums.iter_mut().for_each(|sum| *sum /= rows.len() as f64);
            Ok((sums, diagonal, largest))
        };
        let tiles: Vec<_> =
            (0..stride).into_par_iter().step_by(TILE).map(tile).collect::<Result<Vec<_>>>()?;
        let means = tiles.iter().flat_map(|(means, _, _)| means.iter().copied()).collect::<Vec<_>>();
        let count = reference.len() as f64;
        let mean = reference.iter().map(|&i| means[i]).sum::<f64>() / count;
        let mean_diagonal = tiles.iter().flat_map(|(_, diagonal, _)| diagonal).sum::<f64>() / count;
        let largest = tiles.iter().map(|(_, _, largest)| *largest).fold(0.0, f64::max);
        // The error of a factor is some roundings, where those per unit of `-ln f` count `-f ln f ≤ 1/e`
        // times. A sum has as many roundings as it has sequential additions.
        let roundings = precision.units + precision.per_log;
        let additions = BATCH_ROWS + reference.len() / BATCH_ROWS + reference.len() / 4;
        let error =
            f64::EPSILON * (roundings + additions as f64) * largest.max(precision.top) + precision.tiny;
        let s = mean_diagonal - mean;
        let scale = if s <= 4.0 * error { 0.0 } else { 1.0 / s };
        Ok(Self { means, mean, scale, error: 6.0 * error * scale })
    }
}

/// Channels of the sums with orthogonal factors: the sum of the players' values, then the value of each
/// player, the marginal statistic of each player, and the higher-order statistic.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeatureChannels {
    pub(super) players: usize,
}

impl FeatureChannels {
    pub(super) fn count(self) -> usize {
        2 * self.players + 2
    }

    pub(super) fn value(self, player: usize) -> usize {
        1 + player
    }

    pub(super) fn marginal(self, player: usize) -> usize {
        1 + self.players + player
    }

    pub(super) fn higher_order(self) -> usize {
        1 + 2 * self.players
    }
}

dispatch! {
    /// Adds the terms' channels to `out`, with a bound on the error of a value and of the statistic.
    pub(super) fn order_channels<V: Simd>(
        terms: &ProductTerms<'_>,
        channels: FeatureChannels,
        error: f64,
        out: &mut PlayerFunctionals,
    ) {
        let run = &terms.run;
        let active = &run.active[..run.players];
        let size = out.size();
        for (block, weight) in run.weights.iter().enumerate() {
            let from = out.place(terms.row, terms.point) + block * LANES;
            let mut add = |channel: usize, value: Lanes| {
                let out = &mut out.values[channel * size + from..][..LANES];
                out.iter_mut().zip(V::mul(value, *weight).0).for_each(|(out, v)| *out += v);
            };
            // Elementary symmetric sums of orders one, two, and three or more; and the first-order sum of
            // absolute values.
            let (mut first_order, mut second_order, mut higher_order, mut absolute_sum) =
                (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
            for &k in active {
                let (f, _) = run.side(k, block);
                higher_order = V::add(higher_order, V::mul(f, V::add(second_order, higher_order)));
                second_order = V::fma(f, first_order, second_order);
                first_order = V::add(first_order, f);
                absolute_sum = V::add(absolute_sum, V::abs(f));
            }
            add(0, V::add(first_order, second_order));
            add(channels.higher_order(), higher_order);
            for &k in active {
                let ((f, _), player) = (run.side(k, block), terms.players[k as usize]);
                let half_rest = V::mul(Lanes::splat(0.5), V::sub(first_order, f));
                add(channels.marginal(player), f);
                add(channels.value(player), V::fma(f, half_rest, f));
            }
            // The error of each k̃ is at most δ (1 + |k̃|), and that of their products at most this times 1 +
            // Σ|k̃|. Rounding is added.
            let errors = V::mul(Lanes::splat(error), V::add(Lanes::splat(active.len() as f64), absolute_sum));
            let rounding =
                V::mul(Lanes::splat(f64::EPSILON * (active.len() + 8) as f64 + out.summing), absolute_sum);
            let bound = V::mul(V::mul(V::add(Lanes::UNIT, absolute_sum), V::add(errors, rounding)), *weight);
            let out = &mut out.error[from..from + LANES];
            out.iter_mut().zip(bound.0).for_each(|(out, v)| *out += v);
        }
    }
}

/// Accumulates the interactions of pairs of players, `Σ W k̃_j k̃_l`. With sets of at most two players these
/// are Shapley interaction indices.
pub(super) struct PairChannels {
    players: usize,
    /// The relative error of a product of two factors k̃ and of sums of such products.
    relative_error: f64,
    /// For each pair, its interaction, at the position [`index_of`].
    pub(super) indices: Vec<f64>,
    /// A bound on the error of each interaction.
    pub(super) error: f64,
}

impl PairChannels {
    /// Creates an accumulator. `error` is that of [`OrthogonalKernel`], and `summing` the relative rounding
    /// error of sums over all pairs of rows.
    pub(super) fn new(players: usize, error: f64, summing: f64) -> Self {
        let relative_error = 2.0 * error + summing;
        let indices = vec![0.0; players * players.saturating_sub(1) / 2];
        Self { players, relative_error, indices, error: 0.0 }
    }
}

impl TermAccumulator for PairChannels {
    fn begin_tile(&mut self, _rows: &Range<usize>, _points: &Range<usize>) {}

    fn add_terms(&mut self, terms: &ProductTerms<'_>, _engine: &mut QuadratureEngine) {
        let run = &terms.run;
        let active = &run.active[..run.players];
        for (block, (multiplicity, coef)) in run.weights.iter().zip(&terms.coef[0]).enumerate() {
            let weight = multiplicity.map2(*coef, |m, c| m * c);
            let mut largest = 0.0_f64;
            for (position, &j) in active.iter().enumerate() {
                let (factor, _) = run.side(j, block);
                let weighted = factor.map2(weight, |f, w| f * w);
                for &l in &active[position + 1..] {
                    let sum = weighted.map2(run.side(l, block).0, |a, b| a * b).sum();
                    self.indices
                        [index_of(self.players, terms.players[j as usize], terms.players[l as usize])] += sum;
                }
                largest = largest.max(factor.0.iter().fold(0.0, |m, f| m.max(f.abs())));
            }
            // A bound for a product of two factors, both at most `largest`.
            let total_weight = weight.0.iter().map(|w| w.abs()).sum::<f64>();
            self.error += self.relative_error * total_weight * (1.0 + largest).powi(2);
        }
    }
}

//! Error bounds of values of sets, accumulated block by block or from the values of coalitions, and combined
//! for an index.

use super::interaction_weights::binomial;
use super::sets::Sets;
use crate::simd::{Lanes, Plain, Simd};

/// Error bounds of the values of one set size.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SizeErrorBound {
    /// The error of each value per unit of error of the coalition values.
    pub(crate) error_factor: f64,
    /// Largest error of one value from rounding of differences, weights and sums; and the sum of all such
    /// errors.
    pub(crate) max_rounding: f64,
    pub(crate) total_rounding: f64,
    /// The number of values.
    pub(crate) count: f64,
}

/// Error bounds of interactions by row, output and size.
pub struct SetErrorBounds {
    order: usize,
    sizes: Vec<SizeError>,
}

/// Error bounds of the interactions of one size.
#[derive(Debug, Clone, Copy, Default)]
struct SizeError {
    /// A bound on the error of each interaction.
    per_value: f64,
    /// A bound on the sum of all errors.
    total: f64,
    /// A bound on the sum of all errors except those of factors, which leave the sum of an efficient index
    /// unchanged.
    engine_total: f64,
    /// Only for the first size: a bound on the error of the game's values with all players present and
    /// absent.
    ends: f64,
}

impl SetErrorBounds {
    pub(crate) fn new(games: usize, order: usize) -> Self {
        Self { order, sizes: vec![SizeError::default(); games * order] }
    }

    /// Resizes to this number of rows × outputs; new entries have no errors yet.
    pub(crate) fn resize(&mut self, games: usize) {
        self.sizes.resize(games * self.order, SizeError::default());
    }

    /// Adds an error of the game's values with all players present and absent.
    pub(crate) fn add_end_errors(&mut self, game: usize, error: f64) {
        self.sizes[game * self.order].ends += error;
    }

    /// Adds the errors of one more rounding of all sums of values.
    pub(crate) fn add_rounding(&mut self, game: usize, values: &[f64], sets: &Sets) {
        for (s, error) in self.sizes[game * self.order..][..self.order].iter_mut().enumerate() {
            let (mut largest, mut sum) = (0.0_f64, 0.0);
            for value in &values[sets.of_size(s + 1)] {
                largest = largest.max(value.abs());
                sum += value.abs();
            }
            error.per_value += 0.51 * f64::EPSILON * largest;
            error.engine_total += 0.51 * f64::EPSILON * sum;
            error.total += 0.51 * f64::EPSILON * sum;
        }
    }

    /// Adds the errors of values that are sums over coalition values, each of which has an error of at most
    /// `error`.
    pub(crate) fn add_coalition_errors(&mut self, game: usize, error: f64, bounds: &[SizeErrorBound]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += 2.0 * error;
        for (size_error, bound) in sizes.iter_mut().zip(bounds) {
            size_error.per_value += bound.error_factor * error + bound.max_rounding;
            size_error.total += bound.count * bound.error_factor * error + bound.total_rounding;
            size_error.engine_total += bound.total_rounding;
        }
    }

    /// Adds the errors of a block whose values have an error of at most `error`. Let M be the product of the
    /// larger sides of all factors, and `γ_j = |a_j - b_j| / max(|a_j|, |b_j|) ≤ 2`. If one factor has an
    /// error δ relative to the larger of its sides, the interaction of T has an error of `δ M Π_{j∈T} γ_j`.
    /// If this factor belongs to T, its γ is replaced by 2.
    pub(crate) fn add_block(&mut self, game: usize, error: Lanes, symmetric: &[Lanes], heights: &[f64]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += error.sum();
        for (s, (size_error, height)) in sizes.iter_mut().zip(heights).enumerate() {
            // The engine's own errors are counted relative to the sum of all γ.
            let share =
                symmetric[s].map2(
                    symmetric[0],
                    |polynomial, constant| if constant > 0.0 { polynomial / constant } else { 0.0 },
                );
            let fewer = if s == 0 { Lanes::UNIT } else { symmetric[s - 1] };
            let factors = symmetric[s].map2(fewer, |polynomial, fewer| polynomial + 2.0 * fewer);
            let engine = 3.0 * height * Plain::mul(share, error).sum();
            size_error.per_value += per_set_error(s + 1, *height, error);
            size_error.engine_total += engine;
            size_error.total += engine + height * Plain::mul(factors, error).sum();
        }
    }

    /// Adds the errors of powers whose values have an error of at most `error`. With `Σ |δ_j| ≤ 2 M^{1/p}`,
    /// the interactions of size s sum to at most `2^s C(p, s) M`, half of it for each side.
    pub(crate) fn add_powers(&mut self, game: usize, error: f64, degree: usize, heights: &[f64]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += error;
        for (s, (size_error, height)) in sizes.iter_mut().zip(heights).enumerate() {
            let total = height * 2.0_f64.powi(s as i32 + 1) * binomial(degree, s + 1).max(1.0) * error;
            size_error.per_value += 0.5 * total;
            size_error.engine_total += total;
            size_error.total += total;
        }
    }

    /// The errors of one game, by size.
    fn game(&self, game: usize) -> &[SizeError] {
        &self.sizes[game * self.order..][..self.order]
    }

    /// The bound on each interaction of a size in a game.
    pub fn per_value(&self, game: usize, size: usize) -> f64 {
        self.game(game).get(size - 1).map_or(0.0, |size_error| size_error.per_value)
    }

    /// A bound on the error of each value and, if the index `adds_up`, of their sum, where sets receive
    /// `shares` of the larger sets' `values`.
    pub(crate) fn bound(
        &self,
        game: usize,
        (shares, adds_up): (&[f64], bool),
        values: &[f64],
        sets: &Sets,
    ) -> f64 {
        let sizes = self.game(game);
        let size = |s: usize| values[sets.of_size(s + 1)].iter().map(|v| v.abs()).sum::<f64>();
        let sums: Vec<f64> = (0..sizes.len()).map(size).collect();
        let value_bound = |s: usize| {
            let larger = sizes[s + 1..].iter().zip(&sums[s + 1..]).zip(shares);
            // Each term of the sum is rounded once.
            let rounded = |sum: f64| f64::EPSILON * values.len() as f64 * sum;
            sizes[s].per_value
                + larger
                    .map(|((size_error, sum), share)| share.abs() * (size_error.total + rounded(*sum)))
                    .sum::<f64>()
        };
        let max_value_bound = (0..sizes.len()).map(value_bound).fold(0.0, f64::max);
        let ends = sizes.first().map_or(0.0, |size_error| size_error.ends);
        // With shares, a gain of one set is a loss of another set with the same error.
        let counted_sizes = if shares.is_empty() { sizes.len() } else { 1 };
        let engine_total: f64 =
            sizes.iter().take(counted_sizes).map(|size_error| size_error.engine_total).sum();
        if adds_up { max_value_bound.max(ends + engine_total) } else { max_value_bound }
    }
}

/// The error of each set of this size in a block whose values have an error of at most `error`, see
/// [`SetErrorBounds::add_block`].
pub(super) fn per_set_error(size: usize, height: f64, error: Lanes) -> f64 {
    1.5 * height * 2.0_f64.powi(size as i32) * error.sum()
}

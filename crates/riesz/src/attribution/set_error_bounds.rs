//! Bounds on what values of sets are off, gathered block by block or from worths of coalitions, and what an
//! index makes of them.

use super::interaction_weights::binomial;
use super::sets::Sets;
use crate::simd::{Lanes, Plain};

/// What the values of a size are off.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SizeErrorBound {
    /// Each, where worths are off by 1.
    pub(crate) worths: f64,
    /// The most that one is off for roundings of differences, weights and sums, and what all are together.
    pub(crate) each: f64,
    pub(crate) together: f64,
    /// How many there are.
    pub(crate) count: f64,
}

/// What interactions are off, by row and output, and by size.
pub(crate) struct SetErrorBounds {
    order: usize,
    sizes: Vec<SizeError>,
}

/// Of the interactions of one size.
#[derive(Debug, Clone, Copy, Default)]
struct SizeError {
    /// A bound on the error of each.
    each: f64,
    /// On the sum of all errors.
    apart: f64,
    /// On the sum of all errors but for what factors are off, which leaves the sum of an index that adds up
    /// as it is.
    together: f64,
    /// With the first size: on what the game is off with all players present and absent.
    ends: f64,
}

impl SetErrorBounds {
    pub(crate) fn new(games: usize, order: usize) -> Self {
        Self { order, sizes: vec![SizeError::default(); games * order] }
    }

    /// Of so many rows and outputs; more than there were have no errors yet.
    pub(crate) fn resize(&mut self, games: usize) {
        self.sizes.resize(games * self.order, SizeError::default());
    }

    /// What the game is off besides with all players present and absent.
    pub(crate) fn add_end_errors(&mut self, game: usize, error: f64) {
        self.sizes[game * self.order].ends += error;
    }

    /// All sums of values were rounded once more.
    pub(crate) fn add_rounding(&mut self, game: usize, values: &[f64], sets: &Sets) {
        for (s, error) in self.sizes[game * self.order..][..self.order].iter_mut().enumerate() {
            let (mut largest, mut sum) = (0.0_f64, 0.0);
            for value in &values[sets.of_size(s + 1)] {
                largest = largest.max(value.abs());
                sum += value.abs();
            }
            error.each += 0.51 * f64::EPSILON * largest;
            error.together += 0.51 * f64::EPSILON * sum;
            error.apart += 0.51 * f64::EPSILON * sum;
        }
    }

    /// Of values that are made of worths of coalitions, each of which is off by `error`.
    pub(crate) fn add_coalition_errors(&mut self, game: usize, error: f64, off: &[SizeErrorBound]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += 2.0 * error;
        for (own, off) in sizes.iter_mut().zip(off) {
            own.each += off.worths * error + off.each;
            own.apart += off.count * off.worths * error + off.together;
            own.together += off.together;
        }
    }

    /// Of a block whose values are off by `error`. Of a factor that is off by δ relative to the larger of its
    /// two sides, and of roundings, an interaction of T in a product M of these sides is off by
    /// `δ M Π_{j∈T} γ_j`, where j, if it is that factor, is left out and counts twice; and no γ is larger
    /// than 2.
    pub(crate) fn add_block(&mut self, game: usize, error: Lanes, symmetric: &[Lanes], heights: &[f64]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += error.sum();
        for (s, (own, height)) in sizes.iter_mut().zip(heights).enumerate() {
            // The engine's own errors are counted relative to the sum of all γ.
            let share = symmetric[s].map2(symmetric[0], |own, one| if one > 0.0 { own / one } else { 0.0 });
            let fewer = if s == 0 { Lanes::ONE } else { symmetric[s - 1] };
            let factors = symmetric[s].map2(fewer, |own, fewer| own + 2.0 * fewer);
            let engine = 3.0 * height * share.mul::<Plain>(error).sum();
            own.each += per_set_error(s + 1, *height, error);
            own.together += engine;
            own.apart += engine + height * factors.mul::<Plain>(error).sum();
        }
    }

    /// Of powers whose values are off by `error`: with `Σ |δ_j| ≤ 2 M^{1/p}` what sets of some size do
    /// together is `2^s C(p, s) M` at most, of each half as much.
    pub(crate) fn add_powers(&mut self, game: usize, error: f64, degree: usize, heights: &[f64]) {
        let sizes = &mut self.sizes[game * self.order..][..self.order];
        sizes[0].ends += error;
        for (s, (own, height)) in sizes.iter_mut().zip(heights).enumerate() {
            let all = height * 2.0_f64.powi(s as i32 + 1) * binomial(degree, s + 1).max(1.0) * error;
            own.each += 0.5 * all;
            own.together += all;
            own.apart += all;
        }
    }

    /// Of one row and output.
    pub(crate) fn of(&self, game: usize) -> RowErrorBounds<'_> {
        RowErrorBounds { sizes: &self.sizes[game * self.order..][..self.order] }
    }
}

/// What each set of this size is off in a block whose values are off by `error`, see [`Errors::add_block`].
pub(super) fn per_set_error(size: usize, height: f64, error: Lanes) -> f64 {
    1.5 * height * 2.0_f64.powi(size as i32) * error.sum()
}

/// Of one row and output.
pub(crate) struct RowErrorBounds<'e> {
    sizes: &'e [SizeError],
}

impl RowErrorBounds<'_> {
    /// Of interactions of a size.
    pub(crate) fn each(&self, size: usize) -> f64 {
        self.sizes.get(size - 1).map_or(0.0, |own| own.each)
    }

    /// A bound on the error of each value, and of their sum if it `adds_up`, where sets get `shares` of the
    /// larger ones among `values`.
    pub(crate) fn bound(&self, shares: &[f64], adds_up: bool, values: &[f64], sets: &Sets) -> f64 {
        let size = |s: usize| values[sets.of_size(s + 1)].iter().map(|v| v.abs()).sum::<f64>();
        let sums: Vec<f64> = (0..self.sizes.len()).map(size).collect();
        let of = |s: usize| {
            let larger = self.sizes[s + 1..].iter().zip(&sums[s + 1..]).zip(shares);
            // Summing them rounds as often as there are some.
            let rounded = |sum: f64| f64::EPSILON * values.len() as f64 * sum;
            self.sizes[s].each
                + larger.map(|((own, sum), share)| share.abs() * (own.apart + rounded(*sum))).sum::<f64>()
        };
        let each = (0..self.sizes.len()).map(of).fold(0.0, f64::max);
        let ends = self.sizes.first().map_or(0.0, |own| own.ends);
        // What one set gets of another, this loses, to the last error.
        let own = if shares.is_empty() { self.sizes.len() } else { 1 };
        let together: f64 = self.sizes.iter().take(own).map(|own| own.together).sum();
        if adds_up { each.max(ends + together) } else { each }
    }
}

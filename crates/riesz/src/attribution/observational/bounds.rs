//! A coalition's value from the weights of the reference rows, and a bound on its error.

use super::ObservationalGame;
use crate::expansion::Expansion;
use crate::linalg::dot;

/// What is known of the weights of the reference rows at one row, in the coordinates of the system that they solve.
pub(super) struct WeightsAt {
    /// A bound on the length of their error, in those coordinates.
    pub(super) off: f64,
    /// The sum of their sizes.
    pub(super) total: f64,
    /// A bound on the sum of their sizes, reference row by reference row.
    pub(super) largest: f64,
    /// What their sum lacks to 1.
    pub(super) missing: f64,
    /// The length of what ones by reference row are in those coordinates.
    pub(super) ones: f64,
}

/// What the model would say with the absent players of each reference row, less the intercept, for one row and output.
pub(super) struct AveragedAt {
    /// Its product with the weights.
    pub(super) product: f64,
    /// Its length, in the coordinates of the system.
    pub(super) length: f64,
    /// `Σ_i |coef_i| |present factors|` times the largest absent factor.
    pub(super) size: f64,
}

/// The value of a coalition, and a bound on its error, for output `o`. `terms` roundings are behind each number.
pub(super) fn by_factors(
    game: &ObservationalGame<'_>,
    o: usize,
    weights: &WeightsAt,
    averaged: &AveragedAt,
    terms: f64,
) -> (f64, f64) {
    let u = f64::EPSILON / 2.0;
    let (intercept, base) = (game.model.intercept[o], game.base[o]);
    let center = game.centre(o) - intercept;
    let value = intercept + averaged.product + center * weights.missing;
    let solving = weights.off * (averaged.length + center.abs() * weights.ones);
    let summing = terms * u * (averaged.size * weights.largest + center.abs() * (1.0 + weights.total));
    (value, solving + summing + 8.0 * u * (intercept.abs() + base.abs()))
}

/// The value of a coalition, and a bound on its error, for output `o` of a kernel without factors: the product of a right side of length
/// `right` with a solution of length `length`, of `size` numbers, that is off by at most `solving`.
pub(super) fn by_outputs(
    game: &ObservationalGame<'_>,
    o: usize,
    product: f64,
    right: f64,
    solving: f64,
    length: f64,
    size: usize,
) -> (f64, f64) {
    let (u, centre) = (f64::EPSILON / 2.0, game.centre(o));
    let summing = (size as f64 + 2.0 * game.units) * u * length;
    (centre + product, right * (solving + summing) + 4.0 * u * centre.abs())
}

/// What rounding can do to a prediction, or to a mean of some, relative to the sum of its terms' sizes.
pub(super) fn rounding(model: &Expansion, reference: usize) -> f64 {
    let terms = model.points.rows() + reference + 12 * model.columns().len() + 16;
    f64::EPSILON / 2.0 * terms as f64
}

pub(super) fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

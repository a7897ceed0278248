//! A coalition's value from the weights of the reference rows, and a bound on its error.

use super::ObservationalGame;
use crate::kernel::Columns;
use crate::kernel::rounding_bounds::{ColumnRanges, TINY};
use crate::kernel_model::KernelExpansion;
use crate::linalg::dot;
use crate::table::Table;

/// Properties of the weights of the reference rows at one row, in the coordinates of the system that they
/// solve.
pub(super) struct WeightVector {
    /// A bound on the length of their error in those coordinates.
    pub(super) rounding_error: f64,
    /// The sum of their sizes.
    pub(super) total: f64,
    /// A bound on the sum of their sizes, reference row by reference row.
    pub(super) largest: f64,
    /// One minus their sum.
    pub(super) missing: f64,
    /// The length of the vector of ones over the reference rows in those coordinates.
    pub(super) ones_length: f64,
}

/// The model's output, less the intercept, with the absent players of each reference row, for one row and
/// output.
pub(super) struct AbsentAverages {
    /// Its product with the weights.
    pub(super) product: f64,
    /// Its length, in the coordinates of the system.
    pub(super) length: f64,
    /// `Σ_i |coef_i| |present factors|` times the largest absent factor.
    pub(super) size: f64,
}

/// The value of a coalition, and a bound on its error, for output `o`. `terms` roundings are behind each
/// number, besides those of kernels.
pub(super) fn value_by_factors(
    game: &ObservationalGame<'_>,
    rounds: &KernelRounding,
    o: usize,
    weights: &WeightVector,
    averaged: &AbsentAverages,
    terms: f64,
) -> (f64, f64) {
    let u = f64::EPSILON / 2.0;
    let (intercept, base) = (game.model.intercept[o], game.base[o]);
    let center = game.centre(o) - intercept;
    let value = intercept + averaged.product + center * weights.missing;
    let solving = weights.rounding_error * (averaged.length + center.abs() * weights.ones_length);
    let summing = rounds.rounding_error(o, averaged.size, terms) * weights.largest
        + terms * u * center.abs() * (1.0 + weights.total);
    (value, solving + summing + 8.0 * u * (intercept.abs() + base.abs()))
}

/// The value of a coalition, and a bound on its error, for output `o` of a kernel without factors: the
/// product of a right side of length `right` with a solution of length `length`, of `size` numbers, that is
/// off by at most `solving`.
pub(super) fn value_by_outputs(
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

/// Rounding of a model's kernel between given rows.
pub(super) struct KernelRounding {
    units: f64,
    per_log: f64,
    /// Whether no factor is larger than 1: what a term is off is relative to itself, and grows with its
    /// logarithm. Else it is relative to `√(k(u, u) k(v, v))`.
    pub(super) bounded: bool,
    /// `Σ |coef|` times the scales of the kernel's terms, by output.
    coef: Vec<f64>,
}

impl KernelRounding {
    /// Rounding between support points and these rows.
    pub(super) fn new(model: &KernelExpansion, tables: &[&Table]) -> Self {
        let (width, points) = (model.columns().len(), &model.support_points);
        let point_ranges = ColumnRanges::per_column(Columns::from_row(points, 0), width);
        let mut reach = ColumnRanges { u: point_ranges.clone(), v: point_ranges };
        for table in tables {
            for (a, b) in reach.v.iter_mut().zip(ColumnRanges::per_column(Columns::from_row(table, 0), width))
            {
                *a = [a[0].min(b[0]), a[1].max(b[1])];
            }
        }
        let (mut units, mut per_log) = (0.0_f64, 0.0_f64);
        for term in &model.kernel.terms {
            let precisions = || term.factors.iter().map(|f| f.precision_of_all(&reach));
            units = units.max(precisions().map(|p| 1.0 + p.units).sum());
            per_log = precisions().map(|p| p.per_log).fold(per_log, f64::max);
        }
        units += model.kernel.terms.len() as f64;
        // Squared distances may be summed up over all columns.
        per_log += if per_log > 0.0 { 2.0 + width as f64 } else { 0.0 };
        let bounded = model.kernel.terms.iter().flat_map(|term| &term.factors).all(|f| f.bounded());
        let scale: f64 = model.kernel.terms.iter().map(|term| term.scale).sum();
        let total = |o| model.coef.column(o).iter().map(|c| c.abs()).sum::<f64>();
        let coef = (0..model.outputs()).map(|o| scale * total(o)).collect();
        Self { units, per_log, bounded, coef }
    }

    /// A bound on the rounding of a sum over the support points, for output `o`, of terms whose sizes sum to
    /// `size`, with `extra_units` further roundings. As `z ln(1/z)` is concave, the terms' logarithms
    /// contribute no more than the logarithm of their average.
    pub(super) fn rounding_error(&self, o: usize, size: f64, extra_units: f64) -> f64 {
        let far = if self.bounded && size > 0.0 { (self.coef[o] / size).ln().max(0.0) } else { 0.0 };
        let units = self.units + extra_units + self.per_log * (far + 0.368);
        f64::EPSILON / 2.0 * units * size + TINY * self.coef[o]
    }
}

pub(super) fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

//! Value of a coalition from the weights of the reference rows, and a bound on its error.

use super::ObservationalGame;
use crate::kernel::Columns;
use crate::kernel::rounding_bounds::{ColumnRanges, TINY};
use crate::kernel_model::KernelExpansion;
use crate::linalg::dot;
use crate::table::Table;

/// Properties of the weights of the reference rows at one row, in the coordinates of the linear system that
/// they solve.
pub(super) struct WeightVector {
    /// Bound on the norm of the weights' error in those coordinates.
    pub(super) rounding_error: f64,
    /// Sum of the absolute weights.
    pub(super) total: f64,
    /// Bound on the sum of the absolute weights, reference row by reference row.
    pub(super) largest: f64,
    /// One minus the sum of the weights.
    pub(super) missing: f64,
    /// Norm of the vector of ones over the reference rows in those coordinates.
    pub(super) ones_length: f64,
}

/// The model's output without the intercept, with the absent players of each reference row, for one explained
/// row and output.
pub(super) struct AbsentAverages {
    /// Inner product of these outputs and the weights.
    pub(super) product: f64,
    /// Norm of these outputs in the coordinates of the system.
    pub(super) length: f64,
    /// `Σ_i |coef_i| |present factors|` times the largest absent factor.
    pub(super) size: f64,
}

/// Value of a coalition and a bound on its error, for output `o`, if players have factors. Each number has
/// `terms` roundings in addition to those of kernels.
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

/// Value of a coalition and a bound on its error, for output `o` of a kernel without factors. The value is
/// the inner product of a right-hand side of norm `right` and a solution of norm `length` with `size`
/// entries. The error of the solution has a norm of at most `solving`.
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

/// Rounding errors of a model's kernel between given rows.
pub(super) struct KernelRounding {
    units: f64,
    per_log: f64,
    /// Whether no factor is larger than 1. The error of a term is then relative to the term, and grows with
    /// its logarithm. Otherwise the error is relative to `√(k(u, u) k(v, v))`.
    pub(super) bounded: bool,
    /// For each output, `Σ |coef|` times the sum of the scales of the kernel's terms.
    coef: Vec<f64>,
}

impl KernelRounding {
    /// Rounding errors between support points and the rows of these tables.
    pub(super) fn new(model: &KernelExpansion, tables: &[&Table]) -> Self {
        let (width, points) = (model.columns().len(), &model.support_points);
        let point_ranges = ColumnRanges::per_column(Columns::from_row(points, 0), width);
        let mut ranges = ColumnRanges { u: point_ranges.clone(), v: point_ranges };
        for table in tables {
            for (a, b) in
                ranges.v.iter_mut().zip(ColumnRanges::per_column(Columns::from_row(table, 0), width))
            {
                *a = [a[0].min(b[0]), a[1].max(b[1])];
            }
        }
        let (mut units, mut per_log) = (0.0_f64, 0.0_f64);
        for term in &model.kernel.terms {
            let precisions = || term.factors.iter().map(|f| f.precision_of_all(&ranges));
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

    /// Bound on the rounding error of a sum over the support points, for output `o`. The absolute values of
    /// the terms sum to `size`, and there are `extra_units` further roundings. As `z ln(1/z)` is concave, the
    /// terms' logarithms contribute at most the logarithm of their average.
    pub(super) fn rounding_error(&self, o: usize, size: f64, extra_units: f64) -> f64 {
        let log_ratio = if self.bounded && size > 0.0 { (self.coef[o] / size).ln().max(0.0) } else { 0.0 };
        let units = self.units + extra_units + self.per_log * (log_ratio + 0.368);
        f64::EPSILON / 2.0 * units * size + TINY * self.coef[o]
    }
}

pub(super) fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

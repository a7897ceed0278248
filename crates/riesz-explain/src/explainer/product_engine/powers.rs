//! The polynomial terms of a model, panel by panel.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::super::panel::PointPanel;
use crate::attribution::polynomial_games::{AbsentSums, PowerEngine, RowSums};
use crate::attribution::power_series::mean_exponential_series;
use crate::attribution::rule::InclusionMeasure;
use crate::control::check_cancelled;
use crate::error::Result;
use crate::game::{AbsentSide, TERMS};
use crate::kernel::ColumnRanges;
use crate::kernel::polynomial_terms::PolynomialTerm;
use crate::kernel_model::KernelExpansion;
use crate::linalg::dot_roundings;
use crate::simd::{Isa, LANES, Lanes};

/// A polynomial term with the quantities that all rows share.
pub(super) struct PanelPolynomial<'m> {
    pub(super) power: PolynomialTerm<'m>,
    /// For each panel, the coefficients of the distances from the centre in the polynomial's argument.
    slopes: Vec<Vec<f64>>,
    /// The distances of absent players from the centre.
    absent: AbsentSums,
    units: f64,
    sums: f64,
}

impl<'m> PanelPolynomial<'m> {
    /// Creates a term of a model whose kernel has `terms` terms. Returns `None` if absent factors are all 1.
    pub(super) fn new(
        power: PolynomialTerm<'m>,
        (model, terms): (&KernelExpansion, usize),
        absent: &AbsentSide,
        panels: &[PointPanel],
        stop: &AtomicBool,
    ) -> Result<Option<Self>> {
        let Some(reference) = absent.reference() else { return Ok(None) };
        let centered: Vec<f64> = reference.rows.iter().flat_map(|row| power.centered(row)).collect();
        let weights = reference.weights.clone();
        let slopes: Vec<Vec<f64>> = panels.iter().map(|panel| power.slopes(panel.columns())).collect();
        let absent_polynomial = if let AbsentSide::Rows(_) = absent {
            AbsentSums::Rows { centered, weights }
        } else {
            let panel_means = |slopes: &Vec<f64>| {
                check_cancelled(stop)?;
                Ok(means(&power, slopes, &centered, &weights))
            };
            let series = slopes.par_iter().map(panel_means).collect::<Result<_>>()?;
            let degree = power.degree() as f64;
            let norm = |column: usize| {
                let rows = centered.iter().skip(column).step_by(power.columns());
                // The largest is divided out, so that powers do not overflow.
                let top = rows.clone().fold(0.0, |top: f64, v| top.max(v.abs()));
                let part = |(v, w): (&f64, &f64)| w * (v.abs() / top).powf(degree);
                let mean: f64 = rows.zip(&weights).map(part).sum();
                if top > 0.0 { 1.000_001 * top * mean.powf(1.0 / degree) } else { 0.0 }
            };
            let norms = (0..power.columns()).map(norm).collect();
            AbsentSums::Means { series, norms, roundings: absent.mean_roundings().unwrap_or(0) }
        };
        let width = model.support_points.width();
        let ranges = ColumnRanges { u: vec![[0.0; 2]; width], v: vec![[0.0; 2]; width] };
        let (degree, columns, players) = (power.degree(), power.columns(), power.players.len());
        let longest = panels.iter().map(|panel| panel.len).max().unwrap_or(0);
        let tiles = panels.len() * terms;
        // A slope has four roundings, a distance one, and their product one.
        let inputs = degree * (8 + columns);
        let variants = absent.weights().len();
        let base = degree * (2 * players + 8 + columns)
            + match absent.mean_roundings() {
                Some(roundings) => players * (degree + 8) + degree * roundings,
                None => TERMS + variants.div_ceil(TERMS),
            }
            + dot_roundings(longest)
            + tiles;
        let predicted =
            terms + dot_roundings(model.support_points.rows()) + base + 2 * absent.normalised() + 32;
        let units = power.precision(&ranges).units + (2 * inputs + predicted) as f64;
        let sums = (longest / LANES + tiles) as f64;
        Ok(Some(Self { power, slopes, absent: absent_polynomial, units, sums }))
    }

    /// Returns the sums of a row whose distances from the centre are `present`, in panel `index`.
    pub(super) fn sums<'a>(&'a self, index: usize, panel: &PointPanel, present: &'a [f64]) -> RowSums<'a> {
        RowSums {
            scale: self.power.scale,
            degree: self.power.degree(),
            constant: self.power.constant(),
            slopes: &self.slopes[index],
            len: panel.len,
            ends: &self.power.ends,
            present,
            absent: &self.absent,
            panel: index,
            units: self.units,
            sums: self.sums,
        }
    }

    /// Adds the term's value for the empty coalition in a panel, for each output.
    pub(super) fn add_base(&self, isa: Isa, index: usize, panel: &PointPanel, out: &mut [f64]) {
        let empty_coalition = vec![0.0; self.power.columns()];
        let (sums, mut engine) =
            (self.sums(index, panel, &empty_coalition), PowerEngine::new(isa, InclusionMeasure::default()));
        let empty_values: Vec<f64> =
            (0..panel.len / LANES).flat_map(|block| engine.empty_coalition_value(&sums, block).0).collect();
        panel.add_outputs(&empty_values, out);
    }
}

/// Returns the power series of `E e^{vz}` in z, where v is each player's sum at a reference row, block by
/// block.
fn means(power: &PolynomialTerm<'_>, slopes: &[f64], centered: &[f64], weights: &[f64]) -> Vec<Lanes> {
    let (size, columns) = (power.degree() + 1, power.columns());
    let len = slopes.len() / columns;
    let mut out = vec![Lanes::ZERO; len / LANES * power.ends.len() * size];
    for (place, series) in out.chunks_exact_mut(size).enumerate() {
        let (block, player) = (place / power.ends.len(), place % power.ends.len());
        let columns_of_player = if player == 0 { 0 } else { power.ends[player - 1] }..power.ends[player];
        let sum = |row: &[f64]| {
            let mut sum = Lanes::ZERO;
            for column in columns_of_player.clone() {
                for (l, sum) in sum.0.iter_mut().enumerate() {
                    *sum += slopes[column * len + block * LANES + l] * row[column];
                }
            }
            sum
        };
        mean_exponential_series(centered.chunks_exact(columns).map(sum), weights, TERMS, series);
    }
    out
}

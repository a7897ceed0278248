//! Coalitions whose systems are solved iteratively, in batches over tiles of rows. Memory stays below the
//! order of reference × reference. The threads share the rows of each tile.

use super::bounds::{AbsentAverages, KernelRounding, WeightVector, value_by_factors, value_by_outputs};
use super::{FunctionalValuation, ObservationalGame, Product, Valuation, ValueRule};
use crate::attribution::sampled_shapley::Coalition;
use crate::embedding::{
    CgSolution, IterativeEmbeddings, Products, RightHandSides, Tiles, blocks, scale_rows,
};
use crate::error::Result;
use crate::linalg::block_cg::lengths;
use crate::linalg::{add_multiple, dot, max_abs, small_dense};
use crate::table::Table;

/// Largest count of numbers that a batch of coalitions stores: half a gigabyte.
const NUMBERS: usize = 1 << 26;

/// Largest number of coalitions in a batch. The factors are computed once per batch, which costs little at
/// this size.
const BATCH: usize = 32;

/// Largest number of rows that are explained together. More rows take more memory, and fewer but wider steps.
const ROWS: usize = 512;

/// The number of rows to explain together, for these numbers of reference rows and support points.
pub(super) fn rows_at_once(reference: usize, points: usize) -> usize {
    (NUMBERS / 2 / (5 * reference.max(points))).clamp(1, ROWS)
}

/// Rows whose coalitions are evaluated iteratively.
pub(super) struct IterativeRows<'e, 'm> {
    game: &'e ObservationalGame<'m>,
    means: &'e IterativeEmbeddings,
    rounds: KernelRounding,
    rows: Table,
}

/// Values and bounds on their errors, rows × outputs.
type Bounded = (Vec<f64>, Vec<f64>);

impl<'e, 'm> IterativeRows<'e, 'm> {
    pub(super) fn new(game: &'e ObservationalGame<'m>, means: &'e IterativeEmbeddings, rows: Table) -> Self {
        let rounds = KernelRounding::new(game.model, &[&means.learnt.rows, &rows]);
        Self { game, means, rounds, rows }
    }

    /// Number of coalitions that are solved together.
    fn batch(&self) -> usize {
        let count = match self.game.averaged {
            ValueRule::Factors(_) => self.rows.rows(),
            ValueRule::Outputs(..) => self.game.model.outputs(),
        };
        let points = 2 * count * self.game.model.support_points.rows();
        (NUMBERS / (self.means.numbers(count) + points).max(1)).clamp(1, BATCH)
    }

    /// Weights of the reference rows for all rows, in the coordinates of the systems.
    fn weights(&self, coalitions: &[&[bool]]) -> Result<Vec<CgSolution>> {
        self.means.solve(coalitions, RightHandSides::Kernel(&self.rows), self.game.units, &self.game.stop)
    }

    /// For each coalition, the products of the present factors between rows and support points. The numbers
    /// of all rows at one support point are contiguous.
    fn present(&self, product: &Product, coalitions: &[&[bool]]) -> Result<Vec<Vec<f64>>> {
        let products = &Products::new(&product.kernels, coalitions, true);
        Tiles { products, u: &self.rows, v: &self.game.model.support_points }.full_products(&self.game.stop)
    }

    /// Values of a batch of coalitions, if players have factors.
    fn by_factors(&self, products: &[Product], coalitions: &[&[bool]]) -> Result<Vec<Bounded>> {
        let (count, m) = (self.rows.rows(), self.game.model.outputs());
        let reference = self.means.roots.len();
        let terms = (self.game.model.support_points.rows() + 2 * reference) as f64 + 2.0 * self.game.units;
        let solved = self.weights(coalitions)?;
        let weights: Vec<Vec<WeightVector>> = solved.iter().map(|solved| self.summed(solved)).collect();
        let mut results = vec![(vec![0.0; count * m], vec![0.0; count * m]); coalitions.len()];
        for o in 0..m {
            let averaged = self.averaged(products, coalitions, o)?;
            for (c, (mut averaged, sizes)) in averaged.into_iter().enumerate() {
                let mut product = vec![0.0; count];
                let rows = averaged.chunks_exact_mut(count).zip(solved[c].solution.chunks_exact(count));
                for ((averaged, solved), root) in rows.zip(&self.means.roots) {
                    for (i, (a, s)) in averaged.iter_mut().zip(solved).enumerate() {
                        *a *= root;
                        product[i] += *a * s;
                    }
                }
                for (i, length) in lengths(&averaged, count).into_iter().enumerate() {
                    let averaged = AbsentAverages { product: product[i], length, size: sizes[i] };
                    let (value, error) =
                        value_by_factors(self.game, &self.rounds, o, &weights[c][i], &averaged, terms);
                    (results[c].0[i * m + o], results[c].1[i * m + o]) = (value, error);
                }
            }
        }
        Ok(results)
    }

    /// Properties of the weights at each row.
    fn summed(&self, solved: &CgSolution) -> Vec<WeightVector> {
        let count = self.rows.rows();
        let (mut sum, mut total) = (vec![0.0; count], vec![0.0; count]);
        for (solved, root) in solved.solution.chunks_exact(count).zip(&self.means.roots) {
            for (i, s) in solved.iter().enumerate() {
                sum[i] += s * root;
                total[i] += (s * root).abs();
            }
        }
        let ones_length = dot(&self.means.roots, &self.means.roots).sqrt();
        let row_weights = |i: usize| {
            let (error, total, missing) = (solved.errors[i], total[i], 1.0 - sum[i]);
            WeightVector {
                rounding_error: error,
                total,
                largest: total.max(1.5 * solved.lengths[i]),
                missing,
                ones_length,
            }
        };
        (0..count).map(row_weights).collect()
    }

    /// For each coalition, `Σ_i coef_i k_S(x_i, x) k_rest(x_i, x_b)` of output `o` (rows × reference rows),
    /// and for each row `Σ_i |coef_i| |present factors|` times the largest absent factor.
    fn averaged(
        &self,
        products: &[Product],
        coalitions: &[&[bool]],
        o: usize,
    ) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        let (model, stop, count) = (self.game.model, &self.game.stop, self.rows.rows());
        let (reference, coef) = (&self.means.learnt.rows, model.coef.column(o));
        let mut averaged = vec![vec![0.0; count * reference.rows()]; coalitions.len()];
        let mut sizes = vec![vec![0.0; count]; coalitions.len()];
        for product in products {
            let mut scaled = self.present(product, coalitions)?;
            for (scaled, coef) in
                scaled.iter_mut().flat_map(|factors| factors.chunks_exact_mut(count).zip(&coef))
            {
                scaled.iter_mut().for_each(|v| *v *= coef * product.scale);
            }
            let absent = &Products::new(&product.kernels, coalitions, false);
            let tiles = Tiles { products: absent, u: &model.support_points, v: reference };
            let parts = blocks(&mut averaged, |_| count)
                .into_iter()
                .map(|sums| (sums, vec![0.0_f64; coalitions.len()]));
            let finished = tiles.for_each_tile(stop, parts.collect(), |(sums, largest), tile| {
                largest[tile.product] = largest[tile.product].max(max_abs(tile.numbers));
                let scaled = &scaled[tile.product][tile.u.start * count..tile.u.end * count];
                small_dense::add_product(sums[tile.product], scaled, tile.numbers, count);
            })?;
            for (c, sizes) in sizes.iter_mut().enumerate() {
                let largest = finished.iter().fold(0.0, |a: f64, (_, largest)| a.max(largest[c]));
                for row in scaled[c].chunks_exact(count) {
                    sizes.iter_mut().zip(row).for_each(|(s, v)| *s += largest * v.abs());
                }
            }
        }
        Ok(averaged.into_iter().zip(sizes).collect())
    }

    /// Values of a batch of coalitions, if the outputs at the reference rows are averaged. `outputs` is
    /// column-major.
    fn by_outputs(&self, outputs: &[f64], coalitions: &[&[bool]]) -> Result<Vec<Bounded>> {
        let ObservationalGame { model, stop, output_rounding: output_error, units, .. } = self.game;
        let (means, count, m) = (self.means, self.rows.rows(), model.outputs());
        let (learnt, roots) = (&means.learnt, &means.roots);
        let n = roots.len();
        let right: Vec<f64> = (0..n * m).map(|t| outputs[t / m + t % m * n] * roots[t / m]).collect();
        let mut solved = means.solve(coalitions, RightHandSides::Numbers(&right), *units, stop)?;
        solved.iter_mut().for_each(|solved| scale_rows(&mut solved.solution, roots));
        let mut sums = vec![vec![0.0; m * count]; coalitions.len()];
        // Squared norms of the right-hand sides of the weights.
        let mut squares = vec![vec![0.0; count]; coalitions.len()];
        let parts = blocks(&mut sums, |_| m).into_iter().zip(blocks(&mut squares, |_| 1)).collect();
        let tiles =
            Tiles { products: &learnt.kernel.restricted_to(coalitions), u: &learnt.rows, v: &self.rows };
        tiles.for_each_tile(stop, parts, |(sums, squares), tile| {
            let solved = &solved[tile.product].solution[tile.u.start * m..tile.u.end * m];
            small_dense::add_product(sums[tile.product], solved, tile.numbers, m);
            let columns = tile.numbers.chunks_exact(tile.u.len());
            for (square, column) in squares[tile.product].iter_mut().zip(columns) {
                let terms = column.iter().zip(&learnt.weights[tile.u.clone()]).map(|(k, w)| w * k * k);
                *square += terms.sum::<f64>();
            }
        })?;
        let output_errors: Vec<f64> =
            (0..m).map(|o| lengths(&output_error[o * n..(o + 1) * n], 1)[0] / learnt.ridge).collect();
        let value = |(c, solved): (usize, &CgSolution)| {
            let length = |square: &f64| square.sqrt() * (1.0 + f64::EPSILON * n as f64);
            let kernel_lengths =
                learnt.kernel.trace_lengths(coalitions[c], means.trace(coalitions[c]), &self.rows);
            let right = kernel_lengths.unwrap_or_else(|| squares[c].iter().map(length).collect());
            let bounded_value = |t: usize| {
                let (i, o) = (t / m, t % m);
                let solving = solved.errors[o] + output_errors[o];
                value_by_outputs(self.game, o, sums[c][t], right[i], solving, solved.lengths[o], n)
            };
            (0..count * m).map(bounded_value).unzip()
        };
        Ok(solved.iter().enumerate().map(value).collect())
    }

    /// Adds to `out` the functionals of a batch, each times its weight, with support point i and row r at
    /// `[i + n r]`.
    fn add_functionals(
        &self,
        products: &[Product],
        coalitions: &[&[bool]],
        weights: &[f64],
        empty_value: &[f64],
        out: &mut [f64],
    ) -> Result<()> {
        let (points, stop, count) = (&self.game.model.support_points, &self.game.stop, self.rows.rows());
        let (n, roots) = (points.rows(), &self.means.roots);
        let mut solved = self.weights(coalitions)?;
        solved.iter_mut().for_each(|solved| scale_rows(&mut solved.solution, roots));
        for product in products {
            let present = self.present(product, coalitions)?;
            let mut averaged = vec![vec![0.0; count * n]; coalitions.len()];
            let absent = &Products::new(&product.kernels, coalitions, false);
            let tiles = Tiles { products: absent, u: &self.means.learnt.rows, v: points };
            tiles.for_each_tile(stop, blocks(&mut averaged, |_| count), |sums, tile| {
                let solved = &solved[tile.product].solution[tile.u.start * count..tile.u.end * count];
                small_dense::add_product(sums[tile.product], solved, tile.numbers, count);
            })?;
            for ((averaged, present), weight) in averaged.iter().zip(&present).zip(weights) {
                let scale = weight * product.scale;
                for (t, (a, f)) in averaged.iter().zip(present).enumerate() {
                    out[t / count + t % count * n] += scale * a * f;
                }
            }
        }
        if self.game.centered {
            for (solved, weight) in solved.iter().zip(weights) {
                let mut missing = vec![*weight; count];
                for row in solved.solution.chunks_exact(count) {
                    missing.iter_mut().zip(row).for_each(|(m, w)| *m -= weight * w);
                }
                for (missing, out) in missing.iter().zip(out.chunks_exact_mut(n.max(1))) {
                    add_multiple(out, *missing, empty_value);
                }
            }
        }
        Ok(())
    }
}

impl Valuation for IterativeRows<'_, '_> {
    fn values(&self, coalitions: &[Coalition]) -> Result<Vec<Bounded>> {
        let mut results = Vec::with_capacity(coalitions.len());
        for batch in coalitions.chunks(self.batch()) {
            let present: Vec<&[bool]> = batch.iter().map(Coalition::present).collect();
            results.extend(match &self.game.averaged {
                ValueRule::Factors(products) => self.by_factors(products, &present)?,
                ValueRule::Outputs(outputs, _) => self.by_outputs(outputs, &present)?,
            });
        }
        Ok(results)
    }
}

impl FunctionalValuation for IterativeRows<'_, '_> {
    fn functionals(
        &self,
        products: &[Product],
        coalitions: &[(Coalition, f64)],
        empty_value: &[f64],
    ) -> Result<Vec<f64>> {
        let (n, count) = (self.game.model.support_points.rows(), self.rows.rows());
        let mut out = vec![0.0; n * count];
        if count == 0 {
            return Ok(out);
        }
        for batch in coalitions.chunks(self.batch()) {
            let present: Vec<&[bool]> = batch.iter().map(|(coalition, _)| coalition.present()).collect();
            let weights: Vec<f64> = batch.iter().map(|(_, weight)| *weight).collect();
            self.add_functionals(products, &present, &weights, empty_value, &mut out)?;
        }
        Ok(out)
    }
}

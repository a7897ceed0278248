//! Coalitions whose systems are factored. One factorisation serves all rows and outputs, and one thread
//! evaluates each coalition.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::bounds::{AbsentAverages, KernelRounding, WeightVector, norm, value_by_factors, value_by_outputs};
use super::{FunctionalValuation, ObservationalGame, Product, Valuation, ValueRule};
use crate::attribution::sampled_shapley::Coalition;
use crate::control;
use crate::embedding::{
    ConditioningRows, DirectEmbeddings, Products, System, factor_tables, multiply, split,
};
use crate::error::Result;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{add_multiple, add_to, dot, small_dense};
use crate::memory::refill;
use crate::table::Table;

/// Number of parts in which coalitions are summed.
const PARTS: usize = 16;

/// Source of a product's factors of absent players between support points and reference rows.
pub(super) enum AbsentFactors {
    /// The factors of the embedding.
    Own,
    /// Stored factors for each player: all support points at the first reference row, then at the second, …
    Kept(Vec<Vec<f64>>),
    /// Factors that are computed for each coalition, since the embedding does not store its own factors
    /// either.
    Computed,
}

impl AbsentFactors {
    /// `same` says whether the embedding's factors between reference rows equal the product's factors between
    /// support points and reference rows.
    pub(super) fn new(
        means: &DirectEmbeddings,
        model: &KernelExpansion,
        product: &Product,
        same_factors: bool,
        stop: &AtomicBool,
    ) -> Result<Self> {
        Ok(match means.grams() {
            Some(_) if same_factors => Self::Own,
            _ if means.exact() && means.learnt.blocks > 1 => {
                Self::Kept(factor_tables(&product.kernels, &model.support_points, &means.learnt.rows, stop)?)
            }
            _ => Self::Computed,
        })
    }
}

/// Rows whose coalitions are evaluated with factored systems.
pub(super) struct FactoredRows<'e, 'm> {
    pub(super) game: &'e ObservationalGame<'m>,
    pub(super) means: &'e DirectEmbeddings,
    rounds: KernelRounding,
    /// The number of rows.
    pub(super) count: usize,
    pub(super) conditions: ConditioningRows,
    /// For each product and player, the factor between support points and rows; `None` if `conditions` has
    /// it.
    present: Vec<Option<Vec<Vec<f64>>>>,
}

/// Scratch memory that a thread keeps between coalitions.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) system: System,
    /// The right-hand sides and then the solutions of the system, size × rows.
    pub(super) weights: Vec<f64>,
    pub(super) absent: Vec<f64>,
    present: Vec<f64>,
    /// The present factors times the coefficients, support points × (outputs × rows).
    pub(super) scaled: Vec<f64>,
    averaged: Vec<f64>,
}

impl<'e, 'm> FactoredRows<'e, 'm> {
    pub(super) fn new(
        game: &'e ObservationalGame<'m>,
        means: &'e DirectEmbeddings,
        rows: &Table,
    ) -> Result<Self> {
        let present_factors = |(product, absent): (&Product, &AbsentFactors)| match absent {
            AbsentFactors::Own => Ok(None),
            _ => factor_tables(&product.kernels, &game.model.support_points, rows, &game.stop).map(Some),
        };
        let present = match &game.averaged {
            ValueRule::Outputs(..) => Vec::new(),
            ValueRule::Factors(products) => {
                products.iter().zip(&game.absent).map(present_factors).collect::<Result<_>>()?
            }
        };
        let conditions = means.conditions(rows.clone(), &game.stop)?;
        let rounds = KernelRounding::new(game.model, &[&means.learnt.rows, rows]);
        Ok(Self { game, means, rounds, count: rows.rows(), conditions, present })
    }

    /// Factors the coalition's system, and writes its right-hand sides to `weights`; returns their norms by
    /// row.
    pub(super) fn factor(&self, coalition: &Coalition, memory: &mut Memory) -> Result<Vec<f64>> {
        let (means, present, stop) = (self.means, coalition.present(), &self.game.stop);
        means.prepare(present, &mut memory.system, stop)?;
        memory.weights.resize(means.size() * self.count, 0.0);
        means.right_hand_side(&self.conditions, present, &memory.system, &mut memory.weights, stop)
    }

    /// Adds to `out[i + n r]` `weight` times the coalition's functional `k_S(x_i, x) Σ_b k_rest(x_i, x_b)
    /// W_S(x)_b` of support point i and row r.
    fn add_functional(
        &self,
        products: &[Product],
        coalition: &Coalition,
        weight: f64,
        empty_value: &[f64],
        memory: &mut Memory,
        out: &mut [f64],
    ) -> Result<()> {
        let (means, stop) = (self.means, &self.game.stop);
        let n = self.game.model.support_points.rows();
        self.factor(coalition, memory)?;
        means.solve(&memory.system, &mut memory.weights, stop)?;
        let mut missing = vec![weight; self.count];
        for (t, product) in products.iter().enumerate() {
            self.present_factors(t, coalition.present(), memory);
            refill(&mut memory.averaged, n * self.count, 0.0);
            for rows in means.blocks() {
                let weights = means.weights(&memory.system, rows.clone(), &memory.weights);
                self.absent_factors(t, product, coalition.present(), rows.clone(), memory);
                let (length, absent, averaged) = (rows.len(), &memory.absent, &mut memory.averaged);
                control::for_each_chunk(self.count, n * length, stop, |part| {
                    let weights = &weights[part.start * length..part.end * length];
                    small_dense::add_product(&mut averaged[part.start * n..part.end * n], absent, weights, n);
                })?;
                if t == 0 {
                    let sums = weights.chunks_exact(length).map(|weights| weights.iter().sum::<f64>());
                    missing.iter_mut().zip(sums).for_each(|(m, sum)| *m -= weight * sum);
                }
            }
            let scale = weight * product.scale;
            let terms = memory.averaged.iter().zip(&memory.present);
            out.iter_mut().zip(terms).for_each(|(out, (a, f))| *out += scale * a * f);
        }
        if self.game.centered {
            for (missing, out) in missing.iter().zip(out.chunks_exact_mut(n.max(1))) {
                add_multiple(out, *missing, empty_value);
            }
        }
        Ok(())
    }

    /// Values and bounds on their errors, rows × outputs.
    fn value(&self, coalition: &Coalition, memory: &mut Memory) -> Result<(Vec<f64>, Vec<f64>)> {
        let right = self.factor(coalition, memory)?;
        let m = self.game.model.outputs();
        let mut result = (vec![0.0; self.count * m], vec![0.0; self.count * m]);
        match &self.game.averaged {
            ValueRule::Outputs(outputs, _) => self.value_by_outputs(outputs, &right, memory, &mut result)?,
            ValueRule::Factors(products) => {
                self.value_by_factors(products, coalition.present(), &right, memory, &mut result)?;
            }
        }
        Ok(result)
    }

    /// Values if outputs at the reference rows are averaged; `outputs` is column-major.
    fn value_by_outputs(
        &self,
        outputs: &[f64],
        right: &[f64],
        memory: &Memory,
        (values, errors): &mut (Vec<f64>, Vec<f64>),
    ) -> Result<()> {
        let (game, means, system) = (self.game, self.means, &memory.system);
        let (size, m, reference) = (means.size(), game.model.outputs(), means.learnt.rows.rows());
        let mut projected = vec![0.0; size * m];
        for rows in means.blocks() {
            let columns = outputs.chunks_exact(reference);
            let block_outputs: Vec<f64> = columns.flat_map(|column| &column[rows.clone()]).copied().collect();
            means.project(system, rows, &block_outputs, &mut projected);
        }
        let mut solved = projected.clone();
        means.solve(system, &mut solved, &game.stop)?;
        for o in 0..m {
            let solved = &solved[o * size..(o + 1) * size];
            let output_error = norm(&game.output_rounding[o * reference..(o + 1) * reference]);
            let length = norm(&projected[o * size..(o + 1) * size]);
            let solving = means.solution_error(system, length, norm(solved), game.units)
                + output_error / means.learnt.ridge;
            for (i, weights) in memory.weights.chunks_exact(size).enumerate() {
                let product = dot(weights, solved);
                (values[i * m + o], errors[i * m + o]) =
                    value_by_outputs(game, o, product, right[i], solving, norm(solved), size);
            }
        }
        Ok(())
    }

    /// Values if absent factors are averaged.
    fn value_by_factors(
        &self,
        products: &[Product],
        present: &[bool],
        right: &[f64],
        memory: &mut Memory,
        (values, errors): &mut (Vec<f64>, Vec<f64>),
    ) -> Result<()> {
        let (game, means) = (self.game, self.means);
        let (size, m, reference) = (means.size(), game.model.outputs(), means.learnt.rows.rows());
        means.solve(&memory.system, &mut memory.weights, &game.stop)?;
        refill(&mut memory.averaged, size * self.count * m, 0.0);
        // Σ_i |coef_i| |present factors| times the largest absent factor, by row and output.
        let mut sizes = vec![0.0; self.count * m];
        for (t, product) in products.iter().enumerate() {
            self.average(t, product, present, memory, &mut sizes)?;
        }
        let mut unit_sums = vec![0.0; size];
        for rows in means.blocks() {
            let block_ones = vec![1.0; rows.len()];
            means.project(&memory.system, rows, &block_ones, &mut unit_sums);
        }
        // If the embedding's kernel is at most 1, a projection is at most as long as its vector, up to the
        // features' √2.
        let bounded = means.learnt.kernel.factors().is_some();
        let error_factor = if bounded { 1.5 } else { means.error_amplification(&memory.system).max(1.5) };
        let terms = game.model.support_points.rows() as f64 + (size + reference) as f64 + 2.0 * game.units;
        for i in 0..self.count {
            let solved = &memory.weights[i * size..(i + 1) * size];
            let length = norm(solved);
            let total: f64 = solved.iter().zip(&unit_sums).map(|(w, unit)| (w * unit).abs()).sum();
            let units =
                game.units + means.learnt.kernel.small_value_units(game.model.columns().len(), right[i]);
            let weights = WeightVector {
                rounding_error: means.solution_error(&memory.system, right[i], length, units),
                total,
                largest: total.max(error_factor * length),
                missing: 1.0 - dot(solved, &unit_sums),
                ones_length: norm(&unit_sums),
            };
            for o in 0..m {
                let from = (o * self.count + i) * size;
                let averaged = &memory.averaged[from..from + size];
                let (product, length, size) = (dot(averaged, solved), norm(averaged), sizes[i * m + o]);
                (values[i * m + o], errors[i * m + o]) = value_by_factors(
                    game,
                    &self.rounds,
                    o,
                    &weights,
                    &AbsentAverages { product, length, size },
                    terms,
                );
            }
        }
        Ok(())
    }

    /// Adds the contribution of product `t` to `averaged`: `Σ_i coef_i k_S(x_i, x) k_rest(x_i, x_b)`,
    /// reference rows × (outputs × rows), in the system's coordinates.
    fn average(
        &self,
        t: usize,
        product: &Product,
        present: &[bool],
        memory: &mut Memory,
        sizes: &mut [f64],
    ) -> Result<()> {
        let (model, means, stop) = (self.game.model, self.means, &self.game.stop);
        let (n, m) = (model.support_points.rows(), model.outputs());
        if n == 0 {
            // A model without support points is its intercept.
            return Ok(());
        }
        self.present_factors(t, present, memory);
        self.scale_present(product, memory);
        let mut largest = 0.0_f64;
        let (size, columns) = (means.size(), self.count * m);
        // Projecting the absent factors of all support points first takes fewer operations if there are many
        // columns.
        let factors_first = !means.exact() && columns * (n + size) > n * size;
        let mut projected_factors = vec![0.0; if factors_first { size * n } else { 0 }];
        for rows in means.blocks() {
            control::check_cancelled(stop)?;
            self.absent_factors(t, product, present, rows.clone(), memory);
            largest = memory.absent.iter().fold(largest, |a: f64, v| a.max(v.abs()));
            let Memory { system, absent: absent_factors, scaled, averaged, .. } = memory;
            if factors_first {
                means.project_rows(system, rows, absent_factors, &mut projected_factors);
                continue;
            }
            control::for_each_chunk(columns, (n + size) * rows.len(), stop, |part| {
                let mut absent_sums = vec![0.0; rows.len() * part.len()];
                small_dense::add_transposed_product(
                    &mut absent_sums,
                    absent_factors,
                    &scaled[part.start * n..part.end * n],
                    n,
                );
                means.project(
                    system,
                    rows.clone(),
                    &absent_sums,
                    &mut averaged[part.start * size..part.end * size],
                );
            })?;
        }
        if factors_first {
            let Memory { scaled, averaged, .. } = memory;
            control::for_each_chunk(columns, size * n, stop, |part| {
                let scaled = &scaled[part.start * n..part.end * n];
                small_dense::add_product(
                    &mut averaged[part.start * size..part.end * size],
                    &projected_factors,
                    scaled,
                    size,
                );
            })?;
        }
        for (t, scaled) in memory.scaled.chunks_exact(n).enumerate() {
            let (o, i) = (t / self.count, t % self.count);
            sizes[i * m + o] += largest * scaled.iter().map(|v| v.abs()).sum::<f64>();
        }
        Ok(())
    }

    /// Multiplies the present factors by the coefficients and the product's scale, into `scaled`.
    pub(super) fn scale_present(&self, product: &Product, memory: &mut Memory) {
        let model = self.game.model;
        memory.scaled.clear();
        for o in 0..model.outputs() {
            let coef = model.coef.column(o);
            for factors in memory.present.chunks_exact(model.support_points.rows()) {
                let scaled = factors.iter().zip(&coef).map(|(f, c)| f * c * product.scale);
                memory.scaled.extend(scaled);
            }
        }
    }

    /// Computes product `t`'s products of absent factors into `absent`: support points × a block of reference
    /// rows.
    pub(super) fn absent_factors(
        &self,
        t: usize,
        product: &Product,
        present: &[bool],
        rows: Range<usize>,
        memory: &mut Memory,
    ) {
        let points = &self.game.model.support_points;
        let n = points.rows();
        memory.absent.resize(n * rows.len(), 0.0);
        let factors = match &self.game.absent[t] {
            AbsentFactors::Own => split(self.means.grams().unwrap_or_default(), present, false),
            AbsentFactors::Kept(factors) => split(factors, present, false),
            AbsentFactors::Computed => {
                let products = Products::new(&product.kernels, &[present], false);
                return products.fill(0, points, &self.means.learnt.rows, rows, &mut memory.absent);
            }
        };
        multiply(&factors, n * rows.start..n * rows.end, &mut memory.absent);
    }

    /// Computes product `t`'s products of present factors into `present`: support points × rows.
    pub(super) fn present_factors(&self, t: usize, present: &[bool], memory: &mut Memory) {
        memory.present.resize(self.game.model.support_points.rows() * self.count, 0.0);
        match &self.present[t] {
            // The embedding's factors are the model's, and its reference rows the support points.
            None => self.conditions.kernel_products(present, &mut memory.present),
            Some(factors) => {
                multiply(&split(factors, present, true), 0..memory.present.len(), &mut memory.present)
            }
        }
    }
}

impl Valuation for FactoredRows<'_, '_> {
    fn values(&self, coalitions: &[Coalition]) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        coalitions
            .par_iter()
            .map_init(Memory::default, |memory, coalition| self.value(coalition, memory))
            .collect()
    }
}

impl FunctionalValuation for FactoredRows<'_, '_> {
    fn functionals(
        &self,
        products: &[Product],
        coalitions: &[(Coalition, f64)],
        empty_value: &[f64],
    ) -> Result<Vec<f64>> {
        let size = self.game.model.support_points.rows() * self.count;
        // A fixed number of parts, each summed in order, makes results independent of the number of threads.
        let parts: Vec<Vec<f64>> = coalitions
            .par_chunks(coalitions.len().div_ceil(PARTS).max(1))
            .map(|coalitions| {
                let mut memory = Memory::default();
                let mut sum = vec![0.0; size];
                for (coalition, weight) in coalitions {
                    self.add_functional(products, coalition, *weight, empty_value, &mut memory, &mut sum)?;
                }
                Ok(sum)
            })
            .collect::<Result<_>>()?;
        let mut total = vec![0.0; size];
        parts.iter().for_each(|part| add_to(&mut total, part));
        Ok(total)
    }
}

//! Coalitions whose systems are factored: one factorisation serves all rows and outputs, and each coalition is valued by one thread.

use std::ops::Range;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use super::bounds::{Averaged, Weights, by_factors, by_outputs, norm, rounding, units};
use super::{ByConditioning, Form, Valuation, shares_factors};
use crate::attribution::coalitions::Coalition;
use crate::embedding::{ConditionalMean, System, between, multiply, products, split};
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::kernel::products::PlayerProduct;
use crate::linalg::{dot, sequential};
use crate::simd::Isa;
use crate::table::Table;

/// Parts in which coalitions are summed up.
const PARTS: usize = 16;

/// An embedding, and what coalitions need of the model's kernel.
pub(super) struct Factored {
    pub(super) embedding: ConditionalMean,
    /// For each product of the model's kernel; empty for kernels without factors.
    absent: Vec<Absent>,
}

/// Where the factors of absent players between support points and reference rows come from.
enum Absent {
    /// They are the embedding's.
    Own,
    /// For each player of the product: all support points at the first reference row, then at the second, …
    Kept(Vec<Vec<f64>>),
    /// They are computed for each coalition: the embedding does not keep its own either.
    Computed,
}

impl Factored {
    pub(super) fn new(embedding: ConditionalMean, model: &Expansion, form: &Form<'_>) -> Self {
        let Form::Factors(products) = form else { return Self { embedding, absent: Vec::new() } };
        let learnt = &embedding.learnt;
        let of = |product: &PlayerProduct<'_>| {
            let same = shares_factors(model, &learnt.rows, &learnt.kernel);
            match embedding.grams() {
                None => Absent::Computed,
                Some(_) if same => Absent::Own,
                Some(_) => Absent::Kept(factors(product, &model.points, &learnt.rows)),
            }
        };
        Self { absent: products.iter().map(of).collect(), embedding }
    }
}

/// For each player of a product its factor between the rows of `u` and each row of `x`.
fn factors(product: &PlayerProduct<'_>, u: &Table, x: &Table) -> Vec<Vec<f64>> {
    let isa = Isa::detect();
    let players = 0..product.players.len();
    players.map(|k| between(u, x, |u, v, out| product.factor(isa, k, u, v, out))).collect()
}

/// Some rows.
pub(super) struct FactoredRows<'e, 'm> {
    explainer: &'e ByConditioning<'m>,
    engine: &'e Factored,
    count: usize,
    /// By player, the embedding's factor between each reference row and each of the rows.
    given: Vec<Vec<f64>>,
    /// For each product and each of its players, the factor between support points and rows; `None` if it is `given`.
    present: Vec<Option<Vec<Vec<f64>>>>,
}

/// What one thread keeps between coalitions.
#[derive(Default)]
struct Memory {
    system: System,
    /// What the system is solved for and to, size × rows.
    weights: Vec<f64>,
    /// The lengths of what it is solved for, row by row.
    right: Vec<f64>,
    rest: Vec<f64>,
    present: Vec<f64>,
    scaled: Vec<f64>,
    averaged: Vec<f64>,
}

impl<'e, 'm> FactoredRows<'e, 'm> {
    pub(super) fn new(explainer: &'e ByConditioning<'m>, engine: &'e Factored, rows: &Table) -> Result<Self> {
        let present = match &explainer.form {
            Form::Outputs(_) => Vec::new(),
            Form::Factors(products) => {
                let points = &explainer.model.points;
                let both = products.iter().zip(&engine.absent);
                let kept = |absent: &Absent| !matches!(absent, Absent::Own);
                both.map(|(product, absent)| kept(absent).then(|| factors(product, points, rows))).collect()
            }
        };
        let given = engine.embedding.given(rows)?;
        Ok(Self { explainer, engine, count: rows.rows(), given, present })
    }

    /// Factors the coalition's system, and puts what it is solved for into `weights`.
    fn factor(&self, coalition: &Coalition, memory: &mut Memory) -> Result<()> {
        let embedding = &self.engine.embedding;
        if self.explainer.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let (size, present) = (embedding.size(), coalition.present());
        embedding.prepare(present, &mut memory.system)?;
        memory.weights.resize(size * self.count, 0.0);
        embedding.right(&self.given, present, &memory.system, &mut memory.weights);
        memory.right.clear();
        memory.right.extend(memory.weights.chunks_exact(size).map(norm));
        Ok(())
    }

    /// Adds `weight` times the coalition's functional: `k_S(x_i, x) Σ_b k_rest(x_i, x_b) W_S(x)_b` at `out[i + n r]`.
    fn add_functional(
        &self,
        products: &[PlayerProduct<'_>],
        coalition: &Coalition,
        weight: f64,
        nobody: &[f64],
        memory: &mut Memory,
        out: &mut [f64],
    ) -> Result<()> {
        let embedding = &self.engine.embedding;
        let n = self.explainer.model.points.rows();
        self.factor(coalition, memory)?;
        embedding.solve(&memory.system, &mut memory.weights);
        let mut missing = vec![weight; self.count];
        for (t, product) in products.iter().enumerate() {
            self.present_factors(t, product, coalition.present(), memory);
            memory.averaged.clear();
            memory.averaged.resize(n * self.count, 0.0);
            for rows in embedding.blocks() {
                let weights = embedding.weights(&memory.system, rows.clone(), &memory.weights);
                self.absent_factors(t, product, coalition.present(), rows.clone(), memory);
                sequential::add_product(&mut memory.averaged, &memory.rest, &weights, n);
                if t == 0 {
                    let sums = weights.chunks_exact(rows.len()).map(|weights| weights.iter().sum::<f64>());
                    missing.iter_mut().zip(sums).for_each(|(m, sum)| *m -= weight * sum);
                }
            }
            let scale = weight * product.scale;
            let both = memory.averaged.iter().zip(&memory.present);
            out.iter_mut().zip(both).for_each(|(out, (a, f))| *out += scale * a * f);
        }
        if self.explainer.centred {
            for (missing, out) in missing.iter().zip(out.chunks_exact_mut(n)) {
                out.iter_mut().zip(nobody).for_each(|(out, mean)| *out += missing * mean);
            }
        }
        Ok(())
    }

    /// Values and bounds on their errors, rows × outputs.
    fn value(&self, coalition: &Coalition, memory: &mut Memory) -> Result<(Vec<f64>, Vec<f64>)> {
        let ByConditioning { model, form, .. } = self.explainer;
        let embedding = &self.engine.embedding;
        let (size, m) = (embedding.size(), model.outputs());
        let present = coalition.present();
        self.factor(coalition, memory)?;
        let right = std::mem::take(&mut memory.right);
        let units = units(self.explainer);
        let reference = embedding.learnt.rows.rows();
        let mut values = vec![0.0; self.count * m];
        let mut errors = vec![0.0; self.count * m];
        match form {
            Form::Outputs(outputs) => {
                let mut projected = vec![0.0; size * m];
                for rows in embedding.blocks() {
                    let columns = outputs.chunks_exact(reference);
                    let own: Vec<f64> = columns.flat_map(|column| &column[rows.clone()]).copied().collect();
                    embedding.project(&memory.system, rows, &own, &mut projected);
                }
                let mut solved = projected.clone();
                embedding.solve(&memory.system, &mut solved);
                for o in 0..m {
                    let solved = &solved[o * size..(o + 1) * size];
                    let off = rounding(model, reference)
                        * norm(&self.explainer.sizes[o * reference..(o + 1) * reference]);
                    let length = norm(&projected[o * size..(o + 1) * size]);
                    let solving = embedding.solution_error(&memory.system, length, norm(solved), units)
                        + off / embedding.learnt.ridge;
                    for (i, weights) in memory.weights.chunks_exact(size).enumerate() {
                        (values[i * m + o], errors[i * m + o]) = by_outputs(
                            self.explainer,
                            o,
                            dot(weights, solved),
                            right[i],
                            solving,
                            norm(solved),
                            size,
                        );
                    }
                }
            }
            Form::Factors(products) => {
                embedding.solve(&memory.system, &mut memory.weights);
                memory.averaged.clear();
                memory.averaged.resize(size * self.count * m, 0.0);
                // Σ_i |coef_i| |present factors| times the largest absent factor, by row and output.
                let mut sizes = vec![0.0; self.count * m];
                for (t, product) in products.iter().enumerate() {
                    self.average(t, product, present, memory, &mut sizes);
                }
                let averaged = &memory.averaged;
                let mut ones = vec![0.0; size];
                for rows in embedding.blocks() {
                    let own = vec![1.0; rows.len()];
                    embedding.project(&memory.system, rows, &own, &mut ones);
                }
                let terms = model.points.rows() as f64 + (size + reference) as f64 + 2.0 * units;
                for i in 0..self.count {
                    let solved = &memory.weights[i * size..(i + 1) * size];
                    let weights = Weights {
                        length: norm(solved),
                        off: embedding.solution_error(&memory.system, right[i], norm(solved), units),
                        total: solved.iter().zip(&ones).map(|(w, one)| (w * one).abs()).sum(),
                        missing: 1.0 - dot(solved, &ones),
                        ones: norm(&ones),
                    };
                    for o in 0..m {
                        let from = (o * self.count + i) * size;
                        let averaged = &averaged[from..from + size];
                        let averaged = Averaged {
                            product: dot(averaged, solved),
                            length: norm(averaged),
                            size: sizes[i * m + o],
                        };
                        (values[i * m + o], errors[i * m + o]) =
                            by_factors(self.explainer, o, &weights, &averaged, terms);
                    }
                }
            }
        }
        memory.right = right;
        Ok((values, errors))
    }

    /// Adds what product `t` contributes to `averaged`: `Σ_i coef_i k_S(x_i, x) k_rest(x_i, x_b)`, reference rows × (outputs × rows), as
    /// it is worth in the system.
    fn average(
        &self,
        t: usize,
        product: &PlayerProduct<'_>,
        present: &[bool],
        memory: &mut Memory,
        sizes: &mut [f64],
    ) {
        let (model, embedding) = (self.explainer.model, &self.engine.embedding);
        let (n, m) = (model.points.rows(), model.outputs());
        self.present_factors(t, product, present, memory);
        memory.scaled.clear();
        for o in 0..m {
            let coef = model.coef.column(o);
            for factors in memory.present.chunks_exact(n) {
                let scaled = factors.iter().zip(&coef).map(|(f, c)| f * c * product.scale);
                memory.scaled.extend(scaled);
            }
        }
        let mut largest = 0.0_f64;
        let (size, columns) = (embedding.size(), self.count * m);
        // The absent factors are many columns as well: what they are worth in the system is less to multiply if there are more rows.
        let factors_first = embedding.grams().is_none() && columns * (n + size) > n * size;
        let mut worth = vec![0.0; if factors_first { size * n } else { 0 }];
        for rows in embedding.blocks() {
            self.absent_factors(t, product, present, rows.clone(), memory);
            largest = memory.rest.iter().fold(largest, |a: f64, v| a.max(v.abs()));
            if factors_first {
                embedding.project_rows(&memory.system, rows, &memory.rest, &mut worth);
            } else {
                let mut own = vec![0.0; rows.len() * columns];
                sequential::add_transposed_product(&mut own, &memory.rest, &memory.scaled, n);
                embedding.project(&memory.system, rows, &own, &mut memory.averaged);
            }
        }
        if factors_first {
            sequential::add_product(&mut memory.averaged, &worth, &memory.scaled, size);
        }
        for (t, scaled) in memory.scaled.chunks_exact(n).enumerate() {
            let (o, i) = (t / self.count, t % self.count);
            sizes[i * m + o] += largest * scaled.iter().map(|v| v.abs()).sum::<f64>();
        }
    }

    /// Product `t`'s products of absent factors, in `rest`: support points × a block of reference rows.
    fn absent_factors(
        &self,
        t: usize,
        product: &PlayerProduct<'_>,
        present: &[bool],
        rows: Range<usize>,
        memory: &mut Memory,
    ) {
        let (points, embedding) = (&self.explainer.model.points, &self.engine.embedding);
        let n = points.rows();
        memory.rest.resize(n * rows.len(), 0.0);
        let kept = match &self.engine.absent[t] {
            Absent::Own => split(embedding.grams().unwrap_or_default(), 0.., present, false),
            Absent::Kept(own) => split(own, product.players.iter().copied(), present, false),
            Absent::Computed => {
                let reference = &embedding.learnt.rows;
                return products(product, present, false, points, reference, rows, &mut memory.rest);
            }
        };
        multiply(&kept, n * rows.start..n * rows.end, &mut memory.rest);
    }

    /// Product `t`'s products of present factors, in `present`: support points × rows.
    fn present_factors(&self, t: usize, product: &PlayerProduct<'_>, present: &[bool], memory: &mut Memory) {
        let (n, players) = (self.explainer.model.points.rows(), &product.players);
        let embedding = &self.engine.embedding;
        memory.present.resize(n * self.count, 0.0);
        match &self.present[t] {
            // The embedding's factors are the model's, and its reference rows the support points.
            None => embedding.plain(&self.given, present, &mut memory.present),
            Some(own) => {
                let own = split(own, players.iter().copied(), present, true);
                multiply(&own, 0..n * self.count, &mut memory.present);
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

    fn functionals(&self, coalitions: &[(Coalition, f64)], nobody: &[f64]) -> Result<Vec<f64>> {
        let size = self.explainer.model.points.rows() * self.count;
        let Form::Factors(products) = &self.explainer.form else { return Ok(vec![0.0; size]) };
        // A fixed number of parts, each summed in order, whatever the number of threads.
        let parts: Vec<Vec<f64>> = coalitions
            .par_chunks(coalitions.len().div_ceil(PARTS).max(1))
            .map(|coalitions| {
                let mut memory = Memory::default();
                let mut sum = vec![0.0; size];
                for (coalition, weight) in coalitions {
                    self.add_functional(products, coalition, *weight, nobody, &mut memory, &mut sum)?;
                }
                Ok(sum)
            })
            .collect::<Result<_>>()?;
        let mut total = vec![0.0; size];
        for part in &parts {
            total.iter_mut().zip(part).for_each(|(t, v)| *t += v);
        }
        Ok(total)
    }
}

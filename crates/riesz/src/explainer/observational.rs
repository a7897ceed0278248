//! The observational game, coalition by coalition. With `W_S(x) = (K_S + η diag(1/w))⁻¹ k_S(x)` the weights of the reference rows
//! given the players S at x, support points `x_i` and reference rows `x_b`, a coalition's value is
//!
//! `intercept + Σ_i coef_i k_S(x_i, x) Σ_b k_rest(x_i, x_b) W_S(x)_b`
//!
//! around the mean over the reference, term by term of the model's kernel (Chau, Hu, Gonzalez and Sejdinovic 2022, Proposition 3). A kernel that ties players together has no
//! such factors; then the model's outputs at the reference rows are averaged, `Σ_b W_S(x)_b f(x_b)` around their mean (their equation
//! C.5). One factorisation serves all rows and outputs. Threads share coalitions, each valued by one of them, so
//! results do not depend on their number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::robustness;
use crate::attribution::coalitions::{Budget, Coalition, CoalitionGame, Part, Sample, Valued, solve_from};
use crate::attribution::contributions::contributions;
use crate::embedding::{
    Approximation, ConditionalMean, Conditioning, System, between, default_kernel, multiply, split,
};
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::explanation::{Exactness, Explanation, Fact, Provenance};
use crate::game::{Background, Game, Reference};
use crate::kernel::Kernel;
use crate::kernel::products::PlayerProduct;
use crate::linalg::{Matrix, dot, sequential};
use crate::simd::Isa;
use crate::table::{Groups, Table};

/// Rows times outputs that share the factorisation of a coalition.
const GAMES: usize = 4096;

/// Parts in which coalitions are summed up.
const PARTS: usize = 16;

/// Explains rows of one model under its observational game.
pub(super) struct ByConditioning<'m> {
    model: &'m Expansion,
    pub(super) groups: Groups,
    pub(super) base: Vec<f64>,
    pub(super) budget: Budget,
    pub(super) stop: Arc<AtomicBool>,
    embedding: ConditionalMean,
    form: Form<'m>,
    centred: bool,
    /// `Σ_i |coef_i k(x_i, x_b)|`, a bound on which rounding of the outputs at the reference rows depends; column-major.
    sizes: Vec<f64>,
}

/// How a coalition's value follows from the weights of the reference rows.
enum Form<'m> {
    /// Players have factors: the absent ones' are averaged.
    Factors(Vec<TermFactors<'m>>),
    /// They do not: the outputs at the reference rows are averaged. Column-major, less their mean.
    Outputs(Vec<f64>),
}

/// A product of the model's kernel.
struct TermFactors<'m> {
    product: PlayerProduct<'m>,
    /// For each of its players the factor between support points and reference rows: all support points at the first
    /// reference row, then at the second, … `None` if these are the embedding's own.
    absent: Option<Vec<Vec<f64>>>,
}

impl<'m> ByConditioning<'m> {
    pub(super) fn new(
        model: &'m Expansion,
        reference: Background,
        conditioning: &Conditioning,
        groups: Groups,
    ) -> Result<Self> {
        let reference = Reference::new(&reference, model.columns())?;
        let rows = reference.table(model.columns())?;
        let kernel = match &conditioning.kernel {
            Some(kernel) => kernel.clone(),
            None => default_kernel(&model.kernel, &rows)?,
        };
        let budget = Budget::default();
        // Kernel values of support points and reference rows, and their factors by player.
        let pairs = model.points.rows() as f64 * rows.rows() as f64;
        let exact = conditioning.approximation == Approximation::Exact;
        let own = if exact && shares_factors(model, &rows, &kernel) { 0 } else { model.kernel.terms.len() };
        let players = groups.players().len();
        conditioning.check_memory(rows.rows(), players, pairs * (1 + own * players) as f64)?;
        let embedding = ConditionalMean::new(rows, reference.weights.clone(), kernel, &groups, conditioning)?;
        let outputs = model.predict(embedding.rows())?;
        let (n, m) = (outputs.rows(), outputs.cols());
        let base: Vec<f64> = (0..m).map(|o| dot(&outputs.column(o), &reference.weights)).collect();
        let form = match model.kernel.products(model.columns(), &groups) {
            Ok(products) => {
                let factors =
                    products.into_iter().map(|product| TermFactors::new(product, model, &embedding));
                Form::Factors(factors.collect())
            }
            Err(Error::NotProduct { .. }) => {
                Form::Outputs((0..n * m).map(|t| outputs[(t % n, t / n)] - base[t / n]).collect())
            }
            Err(error) => return Err(error),
        };
        let sizes = sizes(model, embedding.rows());
        let centred = conditioning.centred;
        Ok(Self { model, groups, base, budget, stop: Arc::default(), embedding, form, centred, sizes })
    }

    pub(super) fn absent(&self) -> String {
        let reference = self.embedding.rows().clone().into();
        let game = Game::Observational { reference, conditioning: Conditioning::default() };
        game.absent()
    }

    pub(super) fn robustness(&self, delta: &[f64]) -> Result<Vec<f64>> {
        if let Form::Outputs(_) = self.form {
            // The kernel ties players together, and says so.
            self.model.kernel.products(self.model.columns(), &self.groups)?;
        }
        let (kernel, ridge) = (self.embedding.kernel(), self.embedding.ridge());
        robustness::bound(self.model, &robustness::Absent::Embedding { kernel, ridge }, delta)
    }

    pub(super) fn rows_at_once(&self) -> usize {
        (GAMES / self.model.outputs().max(1)).max(1)
    }

    /// `out[i][r]`: what a coefficient 1 of support point i would add to the value of `player` in row r.
    pub(super) fn functionals(&self, rows: &Table, player: usize) -> Result<Matrix> {
        let data = rows.conform(self.model.columns())?;
        let Form::Factors(terms) = &self.form else {
            // The kernel ties players together, and says so.
            self.model.kernel.products(self.model.columns(), &self.groups)?;
            return Err(Error::parameter(
                "kernel",
                self.model.kernel.formula(),
                "it has no factors by player",
            ));
        };
        let (n, count, p) = (self.model.points.rows(), data.rows(), self.groups.players().len());
        let coalitions = contributions(p, player, &self.budget)?;
        let predictions = Matrix::zeros(count, self.model.outputs());
        let game = Rows::new(self, data.clone(), &predictions, 0)?;
        // Everybody is worth k(x_i, x), nobody the mean of k(x_i, x_b).
        let share = 1.0 / p as f64;
        let everybody = self.model.kernel.cross_gram(&self.model.points, &data);
        let reference = self.model.kernel.cross_gram(&self.model.points, self.embedding.rows());
        let nobody: Vec<f64> = (0..n).map(|i| self.embedding.mean(reference.row(i))).collect();
        let mut total: Vec<f64> =
            (0..n * count).map(|t| share * (everybody[(t % n, t / n)] - nobody[t % n])).collect();
        // A fixed number of parts, each summed in order, whatever the number of threads.
        let parts: Vec<Vec<f64>> = coalitions
            .par_chunks(coalitions.len().div_ceil(PARTS).max(1))
            .map(|coalitions| {
                let mut memory = Memory::default();
                let mut sum = vec![0.0; n * count];
                for (coalition, weight) in coalitions {
                    game.add_functional(terms, coalition, *weight, &nobody, &mut memory, &mut sum)?;
                }
                Ok(sum)
            })
            .collect::<Result<_>>()?;
        for part in &parts {
            total.iter_mut().zip(part).for_each(|(t, v)| *t += v);
        }
        Ok(Matrix::from_row_major(count, n, total).transpose())
    }

    /// Goes on from `sample` and keeps what was valued in it, if there is one.
    pub(super) fn explain(
        &self,
        rows: &Table,
        budget: Budget,
        mut sample: Option<&mut Sample>,
    ) -> Result<Explanation> {
        let data = rows.conform(self.model.columns())?;
        let predictions = self.model.predict(&data)?;
        let (n, m, p) = (data.rows(), self.model.outputs(), self.groups.players().len());
        let mut values = Vec::with_capacity(n * m * p);
        let (mut std_error, mut bound) = (Vec::new(), Vec::new());
        let (mut sampled, mut coalitions) = (false, 0);
        for (number, start) in (0..n).step_by(self.rows_at_once()).enumerate() {
            let mut own = Part::default();
            let part = sample.as_mut().map_or(&mut own, |sample| sample.part(number));
            let chunk: Vec<usize> = (start..n.min(start + self.rows_at_once())).collect();
            let mut game = Rows::new(self, data.select_rows(&chunk), &predictions, start)?;
            let found = solve_from(&mut game, budget, &mut part.regression)?;
            part.merge([&mut game.error, &mut game.largest]);
            values.extend_from_slice(found.values.data());
            coalitions = found.coalitions;
            match found.std_error {
                Some(errors) => {
                    sampled = true;
                    std_error.extend_from_slice(errors.data());
                }
                // The weights of all coalitions add up to 2 at most; the rest is rounding of the sum.
                None => bound.extend(game.error.iter().zip(&game.largest).map(|(error, largest)| {
                    2.0 * error + f64::EPSILON * (found.coalitions + 8 * p + 8) as f64 * largest
                })),
            }
        }
        let base_values: Vec<f64> = (0..n).flat_map(|_| self.base.iter().copied()).collect();
        let exactness = if sampled {
            let evaluations = (coalitions + 2) * n;
            Exactness::Estimated { std_error, evaluations, seed: budget.seed }
        } else {
            let gap = |g: usize| {
                let sum: f64 = values[g * p..(g + 1) * p].iter().sum();
                predictions.data()[g] - base_values[g] - sum
            };
            Exactness::Exact { residual: (0..n * m).map(gap).collect(), bound }
        };
        Ok(Explanation {
            players: self.groups.players().to_vec(),
            output_names: self.model.output_names.clone(),
            values,
            base_values,
            predictions: predictions.data().to_vec(),
            data,
            row_numbers: (0..n).collect(),
            exactness,
            provenance: Provenance {
                game: Game::NAMES[4].into(),
                absent: self.absent(),
                model: self.model.facts(),
                run: vec![
                    Fact::new("riesz", env!("CARGO_PKG_VERSION")),
                    Fact::new("conditioning kernel", self.embedding.kernel().formula()),
                    Fact::measured("ridge", self.embedding.ridge()),
                    Fact::new("approximation", self.embedding.approximation()),
                    Fact::new("coalitions valued", coalitions + 2),
                ],
            },
        })
    }
}

impl<'m> TermFactors<'m> {
    fn new(product: PlayerProduct<'m>, model: &Expansion, embedding: &ConditionalMean) -> Self {
        let same = embedding.grams().is_some() && shares_factors(model, embedding.rows(), embedding.kernel());
        let absent = (!same).then(|| factors(&product, &model.points, embedding.rows()));
        Self { product, absent }
    }
}

/// Whether the factors of the model between its support points and the reference rows are those of the embedding.
fn shares_factors(model: &Expansion, reference: &Table, embedding: &Kernel) -> bool {
    let ([term], [own]) = (model.kernel.terms.as_slice(), embedding.terms.as_slice()) else { return false };
    term.factors == own.factors && model.points.column_major() == reference.column_major()
}

/// For each player of a product its factor between the rows of `u` and each row of `x`.
fn factors(product: &PlayerProduct<'_>, u: &Table, x: &Table) -> Vec<Vec<f64>> {
    let isa = Isa::detect();
    let players = 0..product.players.len();
    players.map(|k| between(u, x, |u, v, out| product.factor(isa, k, u, v, out))).collect()
}

/// `Σ_i |coef_i k(x_i, x)|` for each row of `x`, output by output.
fn sizes(model: &Expansion, x: &Table) -> Vec<f64> {
    let mut gram = model.kernel.cross_gram(x, &model.points);
    gram.data_mut().iter_mut().for_each(|k| *k = k.abs());
    let absolute = |o| model.coef.column(o).iter().map(|c: &f64| c.abs()).collect::<Vec<f64>>();
    (0..model.outputs()).flat_map(|o| gram.matvec(&absolute(o))).collect()
}

/// Some rows under the observational game.
struct Rows<'e, 'm> {
    explainer: &'e ByConditioning<'m>,
    count: usize,
    /// By player, the embedding's factor between each reference row and each of the rows.
    given: Vec<Vec<f64>>,
    /// For each term and each of its players, the factor between support points and rows; `None` if it is `given`.
    present: Vec<Option<Vec<Vec<f64>>>>,
    ends: [Vec<f64>; 2],
    /// By row and output: the largest bound on the error of a coalition's value, and the largest value.
    error: Vec<f64>,
    largest: Vec<f64>,
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

impl<'e, 'm> Rows<'e, 'm> {
    /// `first` is the number of the first of them in `predictions`.
    fn new(
        explainer: &'e ByConditioning<'m>,
        rows: Table,
        predictions: &Matrix,
        first: usize,
    ) -> Result<Self> {
        let (count, m) = (rows.rows(), explainer.model.outputs());
        // The ends are predictions, and a mean of some.
        let (own, reference) = (sizes(explainer.model, &rows), explainer.embedding.rows().rows());
        let mut error = Vec::with_capacity(count * m);
        let mut largest = Vec::with_capacity(count * m);
        for i in 0..count {
            for o in 0..m {
                let mean = explainer.embedding.mean(&explainer.sizes[o * reference..(o + 1) * reference]);
                let size = own[o * count + i].max(mean) + explainer.model.intercept[o].abs();
                error.push(rounding(explainer.model, reference) * size);
                largest.push(predictions[(first + i, o)].abs().max(explainer.base[o].abs()));
            }
        }
        let present = match &explainer.form {
            Form::Outputs(_) => Vec::new(),
            Form::Factors(terms) => {
                let of = |term: &TermFactors<'_>| {
                    term.absent.as_ref().map(|_| factors(&term.product, &explainer.model.points, &rows))
                };
                terms.iter().map(of).collect()
            }
        };
        Ok(Self {
            explainer,
            count,
            given: explainer.embedding.given(&rows)?,
            present,
            ends: [
                (0..count).flat_map(|_| explainer.base.iter().copied()).collect(),
                predictions.data()[first * m..(first + count) * m].to_vec(),
            ],
            error,
            largest,
        })
    }

    /// Factors the coalition's system, and puts what it is solved for into `weights`.
    fn factor(&self, coalition: &Coalition, memory: &mut Memory) -> Result<()> {
        let ByConditioning { embedding, stop, .. } = self.explainer;
        if stop.load(Ordering::Relaxed) {
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
        terms: &[TermFactors<'_>],
        coalition: &Coalition,
        weight: f64,
        nobody: &[f64],
        memory: &mut Memory,
        out: &mut [f64],
    ) -> Result<()> {
        let embedding = &self.explainer.embedding;
        let n = self.explainer.model.points.rows();
        self.factor(coalition, memory)?;
        embedding.solve(&memory.system, &mut memory.weights);
        let weights = embedding.weights(&memory.system, &memory.weights);
        for (t, term) in terms.iter().enumerate() {
            self.multiply_factors(t, term, coalition.present(), memory);
            memory.averaged.clear();
            memory.averaged.resize(n * self.count, 0.0);
            sequential::add_product(&mut memory.averaged, &memory.rest, &weights, n);
            let scale = weight * term.product.scale;
            let both = memory.averaged.iter().zip(&memory.present);
            out.iter_mut().zip(both).for_each(|(out, (a, f))| *out += scale * a * f);
        }
        if self.explainer.centred {
            let reference = embedding.rows().rows();
            for (weights, out) in weights.chunks_exact(reference).zip(out.chunks_exact_mut(n)) {
                let missing = weight * (1.0 - weights.iter().sum::<f64>());
                out.iter_mut().zip(nobody).for_each(|(out, mean)| *out += missing * mean);
            }
        }
        Ok(())
    }

    /// Values and bounds on their errors, rows × outputs.
    fn value(&self, coalition: &Coalition, memory: &mut Memory) -> Result<(Vec<f64>, Vec<f64>)> {
        let ByConditioning { model, embedding, form, base, .. } = self.explainer;
        let (size, m, u) = (embedding.size(), model.outputs(), f64::EPSILON / 2.0);
        let present = coalition.present();
        self.factor(coalition, memory)?;
        let right = std::mem::take(&mut memory.right);
        let units = self.units();
        let reference = embedding.rows().rows();
        let mut values = vec![0.0; self.count * m];
        let mut errors = vec![0.0; self.count * m];
        match form {
            Form::Outputs(outputs) => {
                let projected = embedding.project(&memory.system, outputs);
                let mut solved = projected.clone();
                embedding.solve(&memory.system, &mut solved);
                for o in 0..m {
                    let solved = &solved[o * size..(o + 1) * size];
                    let off = rounding(model, reference)
                        * norm(&self.explainer.sizes[o * reference..(o + 1) * reference]);
                    let length = norm(&projected[o * size..(o + 1) * size]);
                    let solving = embedding.solution_error(&memory.system, length, norm(solved), units)
                        + off / embedding.ridge();
                    for (i, weights) in memory.weights.chunks_exact(size).enumerate() {
                        values[i * m + o] = base[o] + dot(weights, solved);
                        let summing = (size as f64 + 2.0 * units) * u * norm(solved);
                        errors[i * m + o] = right[i] * (solving + summing) + 4.0 * u * base[o].abs();
                    }
                }
            }
            Form::Factors(terms) => {
                embedding.solve(&memory.system, &mut memory.weights);
                memory.averaged.clear();
                memory.averaged.resize(reference * self.count * m, 0.0);
                // Σ_i |coef_i| |present factors| times the largest absent factor, by row and output.
                let mut sizes = vec![0.0; self.count * m];
                for (t, term) in terms.iter().enumerate() {
                    self.average(t, term, present, memory, &mut sizes);
                }
                let averaged = embedding.project(&memory.system, &memory.averaged);
                let ones = embedding.project(&memory.system, &vec![1.0; reference]);
                let terms = model.points.rows() as f64 + (size + reference) as f64 + 2.0 * units;
                for i in 0..self.count {
                    let weights = &memory.weights[i * size..(i + 1) * size];
                    let off = embedding.solution_error(&memory.system, right[i], norm(weights), units);
                    let total: f64 = weights.iter().zip(&ones).map(|(w, one)| (w * one).abs()).sum();
                    let missing = 1.0 - dot(weights, &ones);
                    for o in 0..m {
                        let from = (o * self.count + i) * size;
                        let averaged = &averaged[from..from + size];
                        let center = if self.explainer.centred { base[o] - model.intercept[o] } else { 0.0 };
                        values[i * m + o] = model.intercept[o] + dot(averaged, weights) + center * missing;
                        let solving = off * (norm(averaged) + center.abs() * norm(&ones));
                        // A projection is no longer than what it is made of, so weights by features are as long as those by rows.
                        let summing = terms
                            * u
                            * (sizes[i * m + o] * total.max(1.5 * norm(weights))
                                + center.abs() * (1.0 + total));
                        errors[i * m + o] =
                            solving + summing + 8.0 * u * (model.intercept[o].abs() + base[o].abs());
                    }
                }
            }
        }
        memory.right = right;
        Ok((values, errors))
    }

    /// Adds what term `t` contributes to `averaged`: `Σ_i coef_i k_S(x_i, x) k_rest(x_i, x_b)`, reference rows × (outputs × rows).
    fn average(
        &self,
        t: usize,
        term: &TermFactors<'_>,
        present: &[bool],
        memory: &mut Memory,
        sizes: &mut [f64],
    ) {
        let model = self.explainer.model;
        let (n, m) = (model.points.rows(), model.outputs());
        self.multiply_factors(t, term, present, memory);
        let largest = memory.rest.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
        memory.scaled.clear();
        for o in 0..m {
            let coef = model.coef.column(o);
            for (i, factors) in memory.present.chunks_exact(n).enumerate() {
                let scaled = factors.iter().zip(&coef).map(|(f, c)| f * c * term.product.scale);
                let from = memory.scaled.len();
                memory.scaled.extend(scaled);
                sizes[i * m + o] += largest * memory.scaled[from..].iter().map(|v| v.abs()).sum::<f64>();
            }
        }
        sequential::add_transposed_product(&mut memory.averaged, &memory.rest, &memory.scaled, n);
    }

    /// Term `t`'s products of absent factors, in `rest` (support points × reference rows), and of present ones, in `present` (support
    /// points × rows), unless these are the embedding's.
    fn multiply_factors(&self, t: usize, term: &TermFactors<'_>, present: &[bool], memory: &mut Memory) {
        let ByConditioning { model, embedding, .. } = self.explainer;
        let (n, b, players) = (model.points.rows(), embedding.rows().rows(), &term.product.players);
        let rest: Vec<&[f64]> = match &term.absent {
            Some(own) => split(own, players.iter().copied(), present, false),
            None => split(embedding.grams().unwrap_or_default(), 0.., present, false),
        };
        memory.rest.resize(n * b, 0.0);
        multiply(&rest, 0..n * b, &mut memory.rest);
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

    /// Units of rounding that a product of factors may be off.
    fn units(&self) -> f64 {
        let pieces = self.explainer.model.columns().len() + self.given.len();
        (12 * pieces + 8) as f64
    }
}

impl CoalitionGame for Rows<'_, '_> {
    type Error = Error;

    fn players(&self) -> usize {
        self.explainer.groups.players().len()
    }

    fn ends(&mut self) -> Result<[Vec<f64>; 2]> {
        Ok(self.ends.clone())
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<Valued> {
        let games = self.error.len();
        let found: Vec<(Vec<f64>, Vec<f64>)> = coalitions
            .par_iter()
            .map_init(Memory::default, |memory, coalition| self.value(coalition, memory))
            .collect::<Result<_>>()?;
        let mut all = Vec::with_capacity(coalitions.len() * games);
        for (values, errors) in &found {
            for g in 0..games {
                self.error[g] = self.error[g].max(errors[g]);
                self.largest[g] = self.largest[g].max(values[g].abs());
            }
            all.extend_from_slice(values);
        }
        Ok(Matrix::from_row_major(coalitions.len(), games, all).into())
    }
}

/// What rounding can do to a prediction, or to a mean of some, relative to the sum of its terms' sizes.
fn rounding(model: &Expansion, reference: usize) -> f64 {
    let terms = model.points.rows() + reference + 12 * model.columns().len() + 16;
    f64::EPSILON / 2.0 * terms as f64
}

fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

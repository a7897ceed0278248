//! The observational game, coalition by coalition. With `W_S(x) = (K_S + η diag(1/w))⁻¹ k_S(x)` the weights of the reference rows
//! given the players S at x, support points `x_i` and reference rows `x_b`, a coalition's value is
//!
//! `intercept + Σ_i coef_i k_S(x_i, x) Σ_b k_rest(x_i, x_b) W_S(x)_b`
//!
//! around the mean over the reference, term by term of the model's kernel (Chau, Hu, Gonzalez and Sejdinovic 2022, Proposition 3). A kernel that ties players together has no
//! such factors; then the model's outputs at the reference rows are averaged, `Σ_b W_S(x)_b f(x_b)` around their mean (their equation
//! C.5). The systems are factored one by one, or solved by iteration a batch at a time; results do not depend on the number of
//! threads.

mod bounds;
mod factored;
mod iterative;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::robustness;
use crate::attribution::coalitions::{Budget, Coalition, CoalitionGame, Part, Sample, Valued, solve_from};
use crate::attribution::contributions::contributions;
use crate::embedding::{Approximation, ConditionalMean, Conditioning, IterativeMean, Learnt, default_kernel};
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::explanation::{Exactness, Explanation, Fact, Index, Provenance, Sampling};
use crate::game::{Background, Game, Reference};
use crate::kernel::products::PlayerProduct;
use crate::kernel::{Columns, Kernel};
use crate::linalg::{Matrix, dot};
use crate::simd::Isa;
use crate::table::{Groups, Table};
use bounds::rounding;
use factored::{Factored, FactoredRows};
use iterative::IterativeRows;

/// Rows times outputs that share the factorisation of a coalition.
const GAMES: usize = 4096;

/// Explains rows of one model under its observational game.
pub(super) struct ByConditioning<'m> {
    pub(super) groups: Groups,
    pub(super) base: Vec<f64>,
    pub(super) budget: Budget,
    pub(super) stop: Arc<AtomicBool>,
    model: &'m Expansion,
    form: Form<'m>,
    centred: bool,
    /// `Σ_i |coef_i k(x_i, x_b)|`, a bound on which rounding of the outputs at the reference rows depends; column-major.
    sizes: Vec<f64>,
    engine: Engine,
}

/// How a coalition's value follows from the weights of the reference rows.
enum Form<'m> {
    /// Players have factors in these products of the model's kernel: the absent ones' are averaged.
    Factors(Vec<PlayerProduct<'m>>),
    /// They do not: the outputs at the reference rows are averaged. Column-major, less their mean.
    Outputs(Vec<f64>),
}

/// How the weights are found.
enum Engine {
    Factored(Factored),
    Iterative(IterativeMean),
}

/// Values coalitions for some rows.
trait Valuation {
    /// For each coalition the values and bounds on their errors, rows × outputs.
    fn values(&self, coalitions: &[Coalition]) -> Result<Vec<(Vec<f64>, Vec<f64>)>>;

    /// The sum of the coalitions' functionals `k_S(x_i, x) Σ_b k_rest(x_i, x_b) W_S(x)_b`, each times its weight, at `[i + n r]`;
    /// `nobody` is worth the mean of `k(x_i, x_b)`.
    fn functionals(&self, coalitions: &[(Coalition, f64)], nobody: &[f64]) -> Result<Vec<f64>>;
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
        // Where all factors are kept, those between support points and reference rows are too, unless they are the same.
        let players = groups.players().len();
        let kept = match conditioning.approximation {
            Approximation::Exact if !shares_factors(model, &rows, &kernel) => {
                model.kernel.terms.len() * players
            }
            _ => 0,
        };
        let pairs = model.points.rows() as f64 * rows.rows() as f64;
        conditioning.check_memory(rows.rows(), players, pairs * kept as f64)?;
        let learnt = Learnt::new(rows, reference.weights.clone(), kernel, &groups, conditioning)?;
        let outputs = model.predict(&learnt.rows)?;
        let (n, m) = (outputs.rows(), outputs.cols());
        let base: Vec<f64> = (0..m).map(|o| dot(&outputs.column(o), &reference.weights)).collect();
        let form = match model.kernel.products(model.columns(), &groups) {
            Ok(products) => Form::Factors(products),
            Err(Error::NotProduct { .. }) => {
                Form::Outputs((0..n * m).map(|t| outputs[(t % n, t / n)] - base[t / n]).collect())
            }
            Err(error) => return Err(error),
        };
        let sizes = sizes(model, &learnt.rows);
        let engine = match conditioning.approximation {
            Approximation::ConjugateGradients(settings) => {
                Engine::Iterative(IterativeMean::new(learnt, settings, conditioning.seed)?)
            }
            _ => Engine::Factored(Factored::new(ConditionalMean::new(learnt, conditioning)?, model, &form)),
        };
        let (budget, centred) = (Budget::default(), conditioning.centred);
        Ok(Self { model, groups, base, budget, stop: Arc::default(), form, centred, sizes, engine })
    }

    fn learnt(&self) -> &Learnt {
        match &self.engine {
            Engine::Factored(engine) => &engine.embedding.learnt,
            Engine::Iterative(embedding) => &embedding.learnt,
        }
    }

    pub(super) fn absent(&self) -> String {
        let reference = self.learnt().rows.clone().into();
        let game = Game::Observational { reference, conditioning: Conditioning::default() };
        game.absent()
    }

    pub(super) fn robustness(&self, delta: &[f64]) -> Result<Vec<f64>> {
        if let Form::Outputs(_) = self.form {
            // The kernel ties players together, and says so.
            self.model.kernel.products(self.model.columns(), &self.groups)?;
        }
        let (kernel, ridge) = (&self.learnt().kernel, self.learnt().ridge);
        robustness::bound(self.model, &robustness::Absent::Embedding { kernel, ridge }, delta)
    }

    pub(super) fn rows_at_once(&self) -> usize {
        let games = (GAMES / self.model.outputs().max(1)).max(1);
        match (&self.engine, &self.form) {
            (Engine::Iterative(embedding), Form::Factors(_)) => {
                let reference = embedding.learnt.rows.rows();
                games.min(iterative::rows_at_once(reference, self.model.points.rows()))
            }
            _ => games,
        }
    }

    fn valuation(&self, rows: &Table) -> Result<Box<dyn Valuation + '_>> {
        Ok(match &self.engine {
            Engine::Factored(engine) => Box::new(FactoredRows::new(self, engine, rows)?),
            Engine::Iterative(embedding) => Box::new(IterativeRows::new(self, embedding, rows.clone())),
        })
    }

    fn approximation(&self) -> String {
        match &self.engine {
            Engine::Factored(engine) => engine.embedding.approximation(),
            Engine::Iterative(embedding) => embedding.approximation(),
        }
    }

    /// `out[i][r]`: what a coefficient 1 of support point i would add to the value of `player` in row r.
    pub(super) fn functionals(&self, rows: &Table, player: usize) -> Result<Matrix> {
        let data = rows.conform(self.model.columns())?;
        if let Form::Outputs(_) = &self.form {
            // The kernel ties players together, and says so.
            self.model.kernel.products(self.model.columns(), &self.groups)?;
        }
        let (n, count, p) = (self.model.points.rows(), data.rows(), self.groups.players().len());
        let coalitions = contributions(p, player, &self.budget)?;
        // Everybody is worth k(x_i, x), nobody the mean of k(x_i, x_b).
        let share = 1.0 / p as f64;
        let everybody = self.model.kernel.cross_gram(&self.model.points, &data);
        let nobody = by_row(self.model, &self.learnt().rows, &self.model.points, |k| self.learnt().mean(k));
        let mut total: Vec<f64> =
            (0..n * count).map(|t| share * (everybody[(t % n, t / n)] - nobody[t % n])).collect();
        let proper = self.valuation(&data)?.functionals(&coalitions, &nobody)?;
        total.iter_mut().zip(&proper).for_each(|(t, v)| *t += v);
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
        let (mut sampled, mut coalitions, mut off) = (false, 0, 0.0);
        for (number, start) in (0..n).step_by(self.rows_at_once()).enumerate() {
            let mut own = Part::default();
            let part = sample.as_mut().map_or(&mut own, |sample| sample.part(number));
            let chunk: Vec<usize> = (start..n.min(start + self.rows_at_once())).collect();
            let mut game = Rows::new(self, &data.select_rows(&chunk), &predictions, start)?;
            let found = solve_from(&mut game, budget, &mut part.regression)?;
            part.merge([&mut game.error, &mut game.largest]);
            values.extend_from_slice(found.values.data());
            coalitions = found.coalitions;
            off = game.error.iter().copied().fold(off, f64::max);
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
        let exactness = if sampled {
            let sampling = Some(Sampling { evaluations: (coalitions + 2) * n, seed: budget.seed });
            Exactness::Estimated { std_error, sampling }
        } else {
            Exactness::Exact { bound }
        };
        Ok(Explanation {
            index: Index::Shapley,
            players: self.groups.players().to_vec(),
            subsets: None,
            output_names: self.model.output_names.clone(),
            values,
            base_values: (0..n).flat_map(|_| self.base.iter().copied()).collect(),
            predictions: predictions.data().to_vec(),
            data,
            row_numbers: (0..n).collect(),
            exactness,
            provenance: Provenance {
                game: Game::NAMES[4].into(),
                absent: self.absent(),
                model: self.model.facts(),
                run: self.run(coalitions, off),
            },
        })
    }

    /// What was done, where so many proper coalitions were valued, none of them off by more than `off`.
    fn run(&self, coalitions: usize, off: f64) -> Vec<Fact> {
        let mut facts = vec![
            Fact::new("riesz", env!("CARGO_PKG_VERSION")),
            Fact::new("conditioning kernel", self.learnt().kernel.formula()),
            Fact::measured("ridge", self.learnt().ridge),
            Fact::new("approximation", self.approximation()),
            Fact::new("coalitions valued", coalitions + 2),
        ];
        // Standard errors of sampled coalitions do not tell what the iteration left open.
        if let Engine::Iterative(_) = &self.engine {
            facts.push(Fact::measured("bound on the error of a coalition's value", off));
        }
        facts
    }
}

/// Whether the factors of the model between its support points and the reference rows are those of the embedding.
fn shares_factors(model: &Expansion, reference: &Table, embedding: &Kernel) -> bool {
    let ([term], [own]) = (model.kernel.terms.as_slice(), embedding.terms.as_slice()) else { return false };
    term.factors == own.factors && model.points.column_major() == reference.column_major()
}

/// What `read` makes of the kernel between all rows of `u` and each row of `x`, one row of `x` at a time.
fn by_row<T: Send>(model: &Expansion, u: &Table, x: &Table, read: impl Fn(&[f64]) -> T + Sync) -> Vec<T> {
    let isa = Isa::detect();
    let memory = || (Vec::new(), vec![0.0; u.rows()]);
    let rows = (0..x.rows()).into_par_iter();
    rows.map_init(memory, |(buffer, out), i| {
        model.kernel.row(isa, Columns::of(u, 0), &x.row(i), buffer, out);
        read(out)
    })
    .collect()
}

/// `Σ_i |coef_i k(x_i, x)|` for each row of `x`, output by output.
fn sizes(model: &Expansion, x: &Table) -> Vec<f64> {
    let total = |k: &[f64], o: usize| k.iter().enumerate().map(|(i, k)| (k * model.coef[(i, o)]).abs()).sum();
    let outputs = |k: &[f64]| (0..model.outputs()).map(|o| total(k, o)).collect::<Vec<f64>>();
    let all = by_row(model, &model.points, x, outputs);
    (0..model.outputs()).flat_map(|o| all.iter().map(move |row| row[o])).collect()
}

/// Some rows under the observational game.
struct Rows<'e> {
    players: usize,
    valuation: Box<dyn Valuation + 'e>,
    ends: [Vec<f64>; 2],
    /// By row and output: the largest bound on the error of a coalition's value, and the largest value.
    error: Vec<f64>,
    largest: Vec<f64>,
}

impl<'e> Rows<'e> {
    /// `first` is the number of the first of them in `predictions`.
    fn new(
        explainer: &'e ByConditioning<'_>,
        rows: &Table,
        predictions: &Matrix,
        first: usize,
    ) -> Result<Self> {
        let (count, m) = (rows.rows(), explainer.model.outputs());
        // The ends are predictions, and a mean of some.
        let (own, reference) = (sizes(explainer.model, rows), explainer.learnt().rows.rows());
        let mut error = Vec::with_capacity(count * m);
        let mut largest = Vec::with_capacity(count * m);
        for i in 0..count {
            for o in 0..m {
                let mean = explainer.learnt().mean(&explainer.sizes[o * reference..(o + 1) * reference]);
                let size = own[o * count + i].max(mean) + explainer.model.intercept[o].abs();
                error.push(rounding(explainer.model, reference) * size);
                largest.push(predictions[(first + i, o)].abs().max(explainer.base[o].abs()));
            }
        }
        Ok(Self {
            players: explainer.groups.players().len(),
            valuation: explainer.valuation(rows)?,
            ends: [
                (0..count).flat_map(|_| explainer.base.iter().copied()).collect(),
                predictions.data()[first * m..(first + count) * m].to_vec(),
            ],
            error,
            largest,
        })
    }
}

impl CoalitionGame for Rows<'_> {
    type Error = Error;

    fn players(&self) -> usize {
        self.players
    }

    fn ends(&mut self) -> Result<[Vec<f64>; 2]> {
        Ok(self.ends.clone())
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<Valued> {
        let games = self.error.len();
        let mut all = Vec::with_capacity(coalitions.len() * games);
        for (values, errors) in self.valuation.values(coalitions)? {
            for g in 0..games {
                self.error[g] = self.error[g].max(errors[g]);
                self.largest[g] = self.largest[g].max(values[g].abs());
            }
            all.extend_from_slice(&values);
        }
        Ok(Matrix::from_row_major(coalitions.len(), games, all).into())
    }
}

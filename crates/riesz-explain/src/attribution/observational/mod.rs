//! The observational game, evaluated coalition by coalition. Let x be the explained row, `x_i` the support
//! points, and `x_b` the reference rows with weights w. Let `k_S` and `k_rest` be the products of the kernel
//! factors of the present players S and of the absent players. Let `K_S` (reference × reference) be the Gram
//! matrix of `k_S`, and η the ridge. The weights of the reference rows are `W_S(x) = (K_S + η diag(1/w))⁻¹
//! k_S(x)`, and a coalition's value is
//!
//! `intercept + Σ_i coef_i k_S(x_i, x) Σ_b k_rest(x_i, x_b) W_S(x)_b`
//!
//! centered at the mean over the reference, for each term of the model's kernel (Chau, Hu, Gonzalez and
//! Sejdinovic 2022, Proposition 3). A kernel that ties players together has no such factors. The model's
//! outputs at the reference rows are then averaged, `Σ_b W_S(x)_b f(x_b)`, centered at their mean (their
//! equation C.5). The systems are factored one by one, or solved iteratively in batches. Results do not
//! depend on the number of threads.
//!
//! For a black-box function, which has no kernel, [`imputation`] fills in absent features.

mod bounds;
pub(crate) mod causal;
mod conditioning;
pub(crate) mod covariance;
mod factored;
pub(crate) mod imputation;
mod iterative;
mod normal;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::player_contributions::weighted_coalitions;
use super::player_order::{OrderedGroup, ordered_groups, ordering_entry};
use super::row_batches;
use super::sampled_shapley::{Budget, Coalition, CoalitionGame, CoalitionValues, SamplePart, SampleState};
use crate::control;
use crate::embedding::{
    Approximation, ConditionalMeanEmbeddings, Conditioning, EmbeddingData, EmbeddingSolver,
};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Provenance, Sampling};
use crate::game::{Background, Game, ReferenceRows};
use crate::kernel::player_products::PlayerProduct;
use crate::kernel::{Columns, Kernel};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, add_to, dot};
use crate::model_card::CardEntry;
use crate::simd::Isa;
use crate::table::{Players, Table};
use bounds::KernelRounding;
use factored::{AbsentFactors, FactoredRows};
use iterative::IterativeRows;

/// Largest number of rows times outputs that share the factorisation of a coalition.
const MAX_GAMES: usize = 4096;

/// The observational game of one model.
pub(crate) struct ObservationalGame<'m> {
    pub(crate) model: &'m KernelExpansion,
    pub(crate) groups: Players,
    pub(crate) base: Vec<f64>,
    pub(crate) budget: Budget,
    pub(crate) stop: Arc<AtomicBool>,
    /// The groups of an ordering of the players; one group of all players for Shapley values.
    pub(crate) ordering: Vec<OrderedGroup>,
    averaged: ValueRule,
    centered: bool,
    /// Bounds on the rounding errors of the outputs at the reference rows; column-major.
    output_rounding: Vec<f64>,
    /// Rounding error of a kernel between rows, in units of ε/2.
    units: f64,
    means: ConditionalMeanEmbeddings,
    /// For each product of the model's kernel, its factors of absent players, if systems are factored.
    absent: Vec<AbsentFactors>,
}

/// The rule by which a coalition's value follows from the weights of the reference rows.
enum ValueRule {
    /// Players have factors in these products of the model's kernel, and the absent players' factors are
    /// averaged.
    Factors(Vec<Product>),
    /// Players have no factors, for the reason in this error, and the outputs at the reference rows are
    /// averaged. The outputs are column-major, minus the centre of their shrinkage.
    Outputs(Vec<f64>, Error),
}

/// A product of the model's kernel.
struct Product {
    scale: f64,
    /// One kernel per player.
    kernels: Vec<Kernel>,
}

/// Evaluates coalitions for some rows.
trait Valuation: Sync {
    /// For each coalition, the values and bounds on their errors, rows × outputs.
    fn values(&self, coalitions: &[Coalition]) -> Result<Vec<(Vec<f64>, Vec<f64>)>>;
}

/// Evaluates coalitions as linear functionals of the coefficients.
trait FunctionalValuation: Valuation {
    /// Sum of the coalitions' functionals `k_S(x_i, x) Σ_b k_rest(x_i, x_b) W_S(x)_b`, each times its weight,
    /// with support point i and row r at `[i + n r]`. `empty_value` is the mean of `k(x_i, x_b)`, the value
    /// of the empty coalition.
    fn functionals(
        &self,
        products: &[Product],
        coalitions: &[(Coalition, f64)],
        empty_value: &[f64],
    ) -> Result<Vec<f64>>;
}

impl<'m> ObservationalGame<'m> {
    /// Prepares the evaluation of coalitions of `groups`. This and later calls fail with
    /// [`Error::Interrupted`] soon after `stop` becomes true.
    pub(crate) fn new(
        model: &'m KernelExpansion,
        reference: Background,
        conditioning: &Conditioning,
        groups: Players,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let reference = ReferenceRows::new(&reference, model.columns())?;
        let rows = reference.table(model.columns())?;
        let blocks: Vec<Vec<usize>> = groups.players().iter().map(|player| player.columns.clone()).collect();
        // If all factors are stored, so are those between support points and reference rows, unless they are
        // the same.
        let extra = |kernel: &Kernel, rows: &Table| match conditioning.approximation {
            Approximation::Exact if !shares_factors(model, rows, kernel) => {
                let factors = model.kernel.terms.len() * blocks.len();
                (model.support_points.rows() * rows.rows()) as f64 * factors as f64
            }
            _ => 0.0,
        };
        let (names, weights) = (("the observational game", Some(&model.kernel)), reference.weights);
        let means =
            ConditionalMeanEmbeddings::learn(rows, weights, &blocks, names, conditioning, extra, &stop)?;
        let EmbeddingData { rows, weights, kernel, .. } = means.learnt();
        let outputs = model.predict_until(rows, &stop)?;
        let (n, m) = (outputs.rows(), outputs.cols());
        let base: Vec<f64> = (0..m).map(|o| dot(&outputs.column(o), weights)).collect();
        let centered = conditioning.centered;
        let centre = if centered { &base } else { &model.intercept };
        let averaged = match model.kernel.products(model.columns(), &groups) {
            Ok(products) => {
                let to_product =
                    |p: PlayerProduct<'_>| Product { scale: p.scale, kernels: p.kernels(blocks.len()) };
                ValueRule::Factors(products.into_iter().map(to_product).collect())
            }
            Err(tied @ Error::NotProduct { .. }) => {
                let less = |t: usize| outputs[(t % n, t / n)] - centre[t / n];
                ValueRule::Outputs((0..n * m).map(less).collect(), tied)
            }
            Err(error) => return Err(error),
        };
        let absent = match (&means.solver, &averaged) {
            (EmbeddingSolver::Factored(means), ValueRule::Factors(products)) => {
                let same_factors = shares_factors(model, rows, &kernel.kernel);
                let absent_factors = |product| AbsentFactors::new(means, model, product, same_factors, &stop);
                products.iter().map(absent_factors).collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        let units = kernel.rounding_units(model.columns().len() + blocks.len());
        let rounding = output_rounding(model, rows, &KernelRounding::new(model, &[rows]), n, &stop)?;
        let budget = Budget::default();
        Ok(Self {
            model,
            ordering: ordered_groups(&[], &groups)?,
            groups,
            base,
            budget,
            stop,
            averaged,
            centered,
            output_rounding: rounding,
            units,
            means,
            absent,
        })
    }

    /// The embedding's kernel, which is a single product of factors, and its ridge.
    ///
    /// # Errors
    /// [`Error::NotProduct`] if the model's kernel ties players together; [`Error::Parameter`] if the
    /// embedding's does.
    pub(crate) fn conditioning(&self) -> Result<(&Kernel, f64, bool)> {
        self.products()?;
        let kernel = self.means.kernel();
        if self.means.learnt().kernel.factors().is_none() {
            let (name, allowed) =
                ("kernel of the conditional mean embedding", "it must be one product of factors");
            return Err(Error::parameter(name, kernel.formula(), allowed));
        }
        Ok((kernel, self.means.ridge(), self.centered))
    }

    fn products(&self) -> Result<&[Product]> {
        match &self.averaged {
            ValueRule::Factors(products) => Ok(products),
            ValueRule::Outputs(_, tied) => Err(tied.clone()),
        }
    }

    /// The centre of the shrinkage of output `o`.
    fn centre(&self, o: usize) -> f64 {
        if self.centered { self.base[o] } else { self.model.intercept[o] }
    }

    pub(crate) fn observational_game(&self) -> Game {
        let reference = self.means.learnt().rows.clone().into();
        Game::Observational { reference, conditional: Conditioning::default().into() }
    }

    pub(crate) fn rows_at_once(&self) -> usize {
        let games = (MAX_GAMES / self.model.outputs().max(1)).max(1);
        match (&self.means.solver, &self.averaged) {
            (EmbeddingSolver::Iterative(means), ValueRule::Factors(_)) => {
                games.min(iterative::rows_at_once(means.learnt.rows.rows(), self.model.support_points.rows()))
            }
            _ => games,
        }
    }

    fn valuation(&self, rows: &Table) -> Result<Box<dyn FunctionalValuation + '_>> {
        Ok(match &self.means.solver {
            EmbeddingSolver::Factored(means) => Box::new(FactoredRows::new(self, means, rows)?),
            EmbeddingSolver::Iterative(means) => Box::new(IterativeRows::new(self, means, rows.clone())),
        })
    }

    /// Functionals, support points × rows: `out[i][r]` is the contribution of support point i, with a
    /// coefficient of 1, to the value of `player` in row r.
    pub(crate) fn functionals(&self, rows: &Table, player: usize) -> Result<Matrix> {
        let (data, products) = (rows.align_to(self.model.columns())?, self.products()?);
        let points = &self.model.support_points;
        let (n, count, p) = (points.rows(), data.rows(), self.groups.players().len());
        let coalitions = weighted_coalitions(p, player, &self.budget)?;
        let share = 1.0 / p as f64;
        let (empty_value, everybody) = self.end_functionals(&data)?;
        let mut total: Vec<f64> =
            (0..n * count).map(|t| share * (everybody[t % n][t / n] - empty_value[t % n])).collect();
        let proper = self.valuation(&data)?.functionals(products, &coalitions, &empty_value)?;
        add_to(&mut total, &proper);
        Ok(Matrix::from_row_major(count, n, total).transpose())
    }

    /// For each support point, the functionals of the empty coalition, the mean of k(x_i, x_b), and of the
    /// grand coalition, k(x_i, x) for each row.
    fn end_functionals(&self, data: &Table) -> Result<(Vec<f64>, Vec<Vec<f64>>)> {
        let (learnt, points) = (self.means.learnt(), &self.model.support_points);
        let mean = |k: &[f64]| learnt.mean(k);
        let empty_value = map_kernel_rows(self.model, &learnt.rows, points, mean, &self.stop)?;
        Ok((empty_value, map_kernel_rows(self.model, data, points, <[f64]>::to_vec, &self.stop)?))
    }

    /// Explains rows. If there is a `sample`, continues from it and stores the new coalition values in it.
    pub(crate) fn explain(
        &self,
        rows: &Table,
        budget: Budget,
        sample: Option<&mut SampleState>,
    ) -> Result<Explanation> {
        let data = rows.align_to(self.model.columns())?;
        let predictions = self.model.predict_until(&data, &self.stop)?;
        let batches = row_batches(data.rows(), self.rows_at_once());
        let SolvedRows { values, exactness, coalitions, max_error } =
            solve_rows(batches, &self.ordering, budget, sample, |chunk| {
                RowGame::new(self, &data.select_rows(chunk), &predictions, chunk[0])
            })?;
        Ok(Explanation {
            values,
            base_values: self.base.repeat(data.rows()),
            predictions: predictions.into_data(),
            exactness,
            provenance: Provenance::of_run(
                Game::NAMES[4],
                self.observational_game().absent(),
                self.model.facts(),
                self.exactness(coalitions, max_error),
            ),
            ..Explanation::of_rows(self.groups.players(), &self.model.output_names, data)
        })
    }

    /// Provenance of a run that evaluated this number of proper coalitions, each with an error of at most
    /// `max_error`.
    fn exactness(&self, coalitions: usize, max_error: f64) -> Vec<CardEntry> {
        let tied = self.means.learnt().kernel.factors().is_none();
        let family = if tied { ", restricted to the present columns" } else { "" };
        let mut facts = vec![
            CardEntry::new("conditioning kernel", self.means.kernel().formula() + family),
            CardEntry::measured("ridge", self.means.ridge()),
            CardEntry::new("approximation", self.means.approximation()),
            CardEntry::new("coalitions valued", coalitions + 2),
        ];
        facts.extend(ordering_entry(&self.ordering, &self.groups));
        // Standard errors of sampled coalitions do not include the error of the iteration.
        if let EmbeddingSolver::Iterative(_) = &self.means.solver {
            facts.push(CardEntry::measured("bound on the error of a coalition's value", max_error));
        }
        facts
    }
}

/// Whether the factors of the model between its support points and the reference rows equal the factors of
/// the embedding.
fn shares_factors(model: &KernelExpansion, reference: &Table, embedding: &Kernel) -> bool {
    let ([term], [embedding_term]) = (model.kernel.terms.as_slice(), embedding.terms.as_slice()) else {
        return false;
    };
    term.factors == embedding_term.factors && model.support_points.column_major() == reference.column_major()
}

/// Applies `read` to the kernel between all rows of `u` and each row of `x`, one row of `x` at a time.
fn map_kernel_rows<T: Send>(
    model: &KernelExpansion,
    u: &Table,
    x: &Table,
    read: impl Fn(&[f64]) -> T + Sync,
    stop: &AtomicBool,
) -> Result<Vec<T>> {
    let isa = Isa::detect();
    let memory = || (Vec::new(), vec![0.0; u.rows()]);
    let rows = (0..x.rows()).into_par_iter();
    rows.map_init(memory, |(buffer, out), i| {
        control::check_cancelled(stop)?;
        model.kernel.row(isa, Columns::from_row(u, 0), &x.row(i), buffer, out);
        Ok(read(out))
    })
    .collect()
}

/// Bounds on the rounding errors of the outputs at each row of `x`, or of their mean over `reference` rows,
/// output by output.
fn output_rounding(
    model: &KernelExpansion,
    x: &Table,
    rounds: &KernelRounding,
    reference: usize,
    stop: &AtomicBool,
) -> Result<Vec<f64>> {
    let terms = (model.support_points.rows() + reference + 16) as f64;
    let rounding_of = |o: usize, size: f64| rounds.rounding_error(o, size, terms);
    let outputs = 0..model.outputs();
    let bounds = if rounds.bounded {
        let total =
            |k: &[f64], o| k.iter().enumerate().map(|(i, k)| (k * model.coef[(i, o)]).abs()).sum::<f64>();
        let row = |k: &[f64]| outputs.clone().map(|o| rounding_of(o, total(k, o))).collect::<Vec<f64>>();
        map_kernel_rows(model, &model.support_points, x, row, stop)?
    } else {
        let diagonal = model.kernel.diagonal(&model.support_points);
        let total =
            |o| diagonal.iter().enumerate().map(|(i, k)| k.sqrt() * model.coef[(i, o)].abs()).sum::<f64>();
        let total: Vec<f64> = outputs.clone().map(total).collect();
        let row = |k: f64| outputs.clone().map(|o| rounding_of(o, k.sqrt() * total[o])).collect();
        model.kernel.diagonal(x).into_iter().map(row).collect()
    };
    Ok(outputs.flat_map(|o| bounds.iter().map(move |row| row[o])).collect())
}

/// Values of rows from the values of their coalitions.
struct SolvedRows {
    /// Rows × outputs × players.
    values: Vec<f64>,
    exactness: Exactness,
    /// Number of proper coalitions that were valued.
    coalitions: usize,
    /// Bound on the error of a coalition's value.
    max_error: f64,
}

/// Computes the values of batches of rows, group by group of an ordering of the players; `row_game` returns
/// the game of a batch. If there is a `sample`, continues from it and stores the new coalition values in it.
fn solve_rows<'g>(
    batches: impl Iterator<Item = Vec<usize>>,
    ordering: &[OrderedGroup],
    budget: Budget,
    mut sample: Option<&mut SampleState>,
    row_game: impl Fn(&[usize]) -> Result<RowGame<'g>>,
) -> Result<SolvedRows> {
    let mut solved =
        SolvedRows { values: Vec::new(), exactness: Exactness::Unknown, coalitions: 0, max_error: 0.0 };
    let (mut std_error, mut bound) = (Vec::new(), Vec::new());
    let (mut sampled, mut count) = (false, 0);
    for (number, batch) in batches.enumerate() {
        let mut game = row_game(&batch)?;
        let (p, from) = (game.players, solved.values.len());
        solved.values.resize(from + game.error.len() * p, 0.0);
        std_error.resize(solved.values.len(), 0.0);
        let mut coalitions = 0;
        for (k, group) in ordering.iter().enumerate() {
            let mut fresh_part = SamplePart::default();
            let part =
                sample.as_mut().map_or(&mut fresh_part, |sample| sample.part(number * ordering.len() + k));
            let solution = group.solve(&mut game, budget, &mut part.regression)?;
            part.merge([&mut game.error, &mut game.largest]);
            sampled |= solution.std_error.is_some();
            coalitions += solution.coalitions;
            for g in 0..game.error.len() {
                for (position, player) in group.members.iter().enumerate() {
                    let t = from + g * p + player;
                    solved.values[t] = solution.values[(g, position)];
                    std_error[t] = solution.std_error.as_ref().map_or(0.0, |errors| errors[(g, position)]);
                }
            }
        }
        solved.coalitions = coalitions;
        solved.max_error = game.error.iter().copied().fold(solved.max_error, f64::max);
        count += batch.len();
        // The absolute weights of all coalitions sum to at most 2; the rest is rounding of the sum.
        bound.extend(
            game.error.iter().zip(&game.largest).map(|(error, largest)| {
                2.0 * error + f64::EPSILON * (coalitions + 8 * p + 8) as f64 * largest
            }),
        );
    }
    solved.exactness = if sampled {
        let sampling = Some(Sampling { evaluations: (solved.coalitions + 2) * count, seed: budget.seed });
        Exactness::Estimated { std_error, sampling }
    } else {
        Exactness::Exact { bound }
    };
    Ok(solved)
}

/// Some rows in a game whose coalitions are valued one by one.
struct RowGame<'e> {
    players: usize,
    valuation: Box<dyn Valuation + 'e>,
    ends: [Vec<f64>; 2],
    /// For each row and output, the largest bound on the error of a coalition's value, and the largest
    /// absolute value.
    error: Vec<f64>,
    largest: Vec<f64>,
}

impl<'e> RowGame<'e> {
    /// `first` is the position of the first row in `predictions`.
    fn new(
        game: &'e ObservationalGame<'_>,
        rows: &Table,
        predictions: &Matrix,
        first: usize,
    ) -> Result<Self> {
        let (count, m) = (rows.rows(), game.model.outputs());
        // The grand coalition's value is a prediction, and the empty coalition's value a mean of predictions.
        let reference = &game.means.learnt().rows;
        let rounds = KernelRounding::new(game.model, &[reference, rows]);
        let reference = reference.rows();
        let row_rounding = output_rounding(game.model, rows, &rounds, reference, &game.stop)?;
        let mut error = Vec::with_capacity(count * m);
        let mut largest = Vec::with_capacity(count * m);
        for i in 0..count {
            for o in 0..m {
                let mean =
                    game.means.learnt().mean(&game.output_rounding[o * reference..(o + 1) * reference]);
                let intercept = game.model.intercept[o].abs();
                let ends = f64::EPSILON * (predictions[(first + i, o)].abs() + reference as f64 * intercept);
                error.push(row_rounding[o * count + i].max(mean) + ends);
                largest.push(predictions[(first + i, o)].abs().max(game.base[o].abs()));
            }
        }
        Ok(Self {
            players: game.groups.players().len(),
            valuation: game.valuation(rows)?,
            ends: [game.base.repeat(count), predictions.data()[first * m..(first + count) * m].to_vec()],
            error,
            largest,
        })
    }
}

impl CoalitionGame for RowGame<'_> {
    type Error = Error;

    fn players(&self) -> usize {
        self.players
    }

    fn empty_and_grand_values(&mut self) -> Result<[Vec<f64>; 2]> {
        Ok(self.ends.clone())
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues> {
        let games = self.error.len();
        let mut flat_values = Vec::with_capacity(coalitions.len() * games);
        for (values, errors) in self.valuation.values(coalitions)? {
            for g in 0..games {
                self.error[g] = self.error[g].max(errors[g]);
                self.largest[g] = self.largest[g].max(values[g].abs());
            }
            flat_values.extend_from_slice(&values);
        }
        Ok(Matrix::from_row_major(coalitions.len(), games, flat_values).into())
    }
}

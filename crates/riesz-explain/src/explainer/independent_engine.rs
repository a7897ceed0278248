//! The engine for games of independent parts. The absent columns of a part are drawn from its reference, or
//! from their distribution given the present columns of the same part, independently of the other parts.
//!
//! If no factor of the kernel ties columns of several parts together, a coalition's value is a sum over
//! [sparse terms](crate::kernel_model::part_decomposition::SparseTerm) of support points' parts. Each summand
//! is a product of means, one for each part. All coalitions are valued. The cost grows with the sum of the
//! numbers of reference rows of the parts, whereas all combinations of reference rows would cost their
//! product. A fast exact algorithm for many players is not known and unlikely: for two parts whose columns
//! belong to the same players it would count orthogonal pairs of bit vectors faster than the
//! orthogonal-vectors conjecture allows. [`sampled`] estimates values of many players.

mod absent_means;
mod conditional_means;
mod part_game;
mod prior_covariance;
mod sampled;
mod uncertainty;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use self::absent_means::{DomainMeans, ViewSide};
use self::conditional_means::ConditionalMeans;
use self::part_game::{PartGame, RowSizes, absent_players};
use self::sampled::SampledPartsEngine;
use super::engine::GameEngine;
use super::value_covariance::{check_finite, player_measure};
use crate::attribution::coalition_covariance::RowPairs;
use crate::attribution::coalition_tables::CoalitionPlan;
use crate::attribution::index_computation::IndexComputation;
use crate::attribution::part_coalition_values::{add_block, blocks, sum_over_tuples};
use crate::attribution::row_batches;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::coalition_structure::CoalitionTree;
use crate::control::Progress;
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation};
use crate::game::Game;
use crate::index::ValueIndex;
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::{KernelView, key};
use crate::linalg::{Matrix, add_to};
use crate::posterior::{Functionals, Posterior};
use crate::question::Question;
use crate::simd::{Isa, LANES, Lanes};
use crate::table::{Players, Table};

/// The largest number of players whose coalitions are all valued.
const PLAYERS: usize = 16;

/// The largest number of conditional means that are held at once, where they depend on the row.
const AT_ONCE: usize = 1 << 23;

/// Returns the engine for a game of independent parts: that of all coalitions, or, for Shapley values of
/// players whose coalitions exceed the question's budget, that of sampled coalitions.
///
/// # Errors
/// As the engines.
pub(super) fn independent_engine<'m>(
    model: &'m KernelExpansion,
    question: Question,
    groups: Players,
    unions: Option<&CoalitionTree>,
    stop: Arc<AtomicBool>,
) -> Result<Box<dyn GameEngine + 'm>> {
    let Game::Independent { parts } = &question.game else {
        return Err(Error::parameter("game", question.game.name(), "it has no parts"));
    };
    let players = absent_players(model, &groups, parts)?;
    let is_sampled = question.index == ValueIndex::Shapley
        && !question.covariance
        && question.budget.sampled_because(players).is_some();
    if is_sampled {
        return Ok(Box::new(SampledPartsEngine::new(model, question, groups, stop)?));
    }
    if players > PLAYERS {
        let allowed = format!(
            "the game of independent parts has interactions, covariances and values other than Shapley \
             values for at most {PLAYERS} features: group columns"
        );
        return Err(Error::parameter("number of features", players, allowed));
    }
    Ok(Box::new(IndependentPartsEngine::new(model, question, groups, unions, stop)?))
}

/// Explains rows of one model under a game of independent parts.
pub(super) struct IndependentPartsEngine<'m> {
    game: PartGame<'m>,
    /// The computation of values; its owners are the players that can be absent.
    plan: CoalitionPlan,
}

/// The values of one row, with their bounds.
struct RowResult {
    /// Outputs × sets.
    values: Vec<f64>,
    /// For each output, a bound on the error of its values.
    bound: Vec<f64>,
    /// For each output, the value of the empty coalition.
    base: Vec<f64>,
    /// For each output, the prediction at the row.
    prediction: Vec<f64>,
}

/// The quantities of one row that all coalitions share.
struct RowEvaluation<'g> {
    sides: Vec<ViewSide>,
    /// For each view, the means of each product over the absent columns, and their errors.
    means: Vec<Vec<&'g [Lanes]>>,
    mean_errors: Vec<[f64; 2]>,
    /// For each view and row of its domain: the averaged kernel for the coalitions of the block that
    /// [`average`](IndependentPartsEngine::average) computed last.
    numbers: Vec<Vec<Lanes>>,
}

impl GameEngine for IndependentPartsEngine<'_> {
    fn players(&self) -> &Players {
        &self.game.groups
    }

    fn game(&self) -> (ValueIndex, Cow<'_, Game>) {
        (self.game.question.index, Cow::Borrowed(&self.game.question.game))
    }

    fn base_values(&self) -> &[f64] {
        &self.game.base
    }

    fn explain(&self, rows: &Table, _: Budget, _: Option<&mut SampleState>) -> Result<Explanation> {
        let data = rows.align_to(self.game.model.columns())?;
        let (n, m) = (data.rows(), self.game.model.outputs());
        let control = self.game.control();
        control.progress.start(n);
        let mut values = Vec::with_capacity(n * m * self.plan.sets.len());
        let (mut bound, mut base_values, mut predictions) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in row_batches(n, self.rows_at_once()) {
            let chunk = data.row_vectors(chunk);
            let conditional = self.conditional_means_of_rows(&chunk)?;
            let row = |x: &Vec<f64>| {
                control.check_cancelled()?;
                let result = self.row(x, &conditional)?;
                control.step();
                Ok(result)
            };
            for result in chunk.par_iter().map(row).collect::<Result<Vec<_>>>()? {
                values.extend(result.values);
                bound.extend(result.bound);
                base_values.extend(result.base);
                predictions.extend(result.prediction);
            }
        }
        if let Some(position) = values.iter().position(|v| !v.is_finite()) {
            let subject = format!("a value of row {}", position / (m * self.plan.sets.len()) + 1);
            return Err(Error::overflow(
                subject,
                "its numbers are too far from the data the model was fitted on",
            ));
        }
        Ok(Explanation {
            index: self.game.question.index,
            subsets: self.plan.recipe.subsets(self.game.groups.players().len()),
            values,
            base_values,
            predictions,
            exactness: Exactness::Exact { bound },
            provenance: self.game.question.provenance(self.game.model.facts(), self.game.ridges()),
            ..Explanation::of_rows(self.game.groups.players(), &self.game.model.output_names, data)
        })
    }

    fn unsupported(&self, request: &str) -> Error {
        let allowed = format!(
            "{request} need a background of all columns: give combinations of the parts' rows as one \
             background"
        );
        Error::parameter("game", "independent parts", allowed)
    }

    fn set_isa(&mut self, isa: Isa) {
        self.game.isa = isa;
    }

    fn set_progress(&mut self, progress: Arc<Progress>) {
        self.game.progress = progress;
    }

    fn max_batch_rows(&self, _: bool) -> usize {
        self.rows_at_once()
    }

    fn functionals(&self, rows: &Table, players: &[usize]) -> Result<Vec<Matrix>> {
        self.player_functionals(rows, players)
    }

    fn posterior_functionals(&self, rows: &Table, mirror: Option<&[usize]>) -> Result<Functionals> {
        check_finite(self.value_functionals(rows, mirror, RowPairs::All)?)
    }

    fn check_covariances(&self, posterior: &Posterior<'_>) -> Result<()> {
        player_measure(self.game.question.index, &self.plan.recipe)?;
        if posterior.prior_scale() > 0.0 { self.check_prior(posterior.mirror()) } else { Ok(()) }
    }

    fn covariances(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<f64>> {
        self.row_covariances(rows, posterior)
    }
}

impl<'m> IndependentPartsEngine<'m> {
    /// Prepares the values of all coalitions.
    ///
    /// # Errors
    /// As [`PartGame::new`]; [`Error::Parameter`] for too many players.
    pub(super) fn new(
        model: &'m KernelExpansion,
        question: Question,
        groups: Players,
        unions: Option<&CoalitionTree>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let recipe = IndexComputation::new(question.index, unions);
        let players = groups.players().len();
        let game = PartGame::new(model, question, groups, true, stop)?;
        let plan = CoalitionPlan::new(recipe, players, game.active.clone());
        Ok(Self { game, plan })
    }

    /// The number of rows to pass at once. If means depend on the row, the memory for the conditional means
    /// limits it.
    fn rows_at_once(&self) -> usize {
        let is_conditional =
            |g: &&DomainMeans| g.source.is_some_and(|s| self.game.sources[s].conditional.is_some());
        let numbers_per_row: usize = self
            .game
            .domain_means
            .iter()
            .filter(is_conditional)
            .map(|g| g.size(self.game.domain(g), self.game.active_players()))
            .sum();
        AT_ONCE.checked_div(numbers_per_row).map_or(4096, |rows| rows.clamp(1, 1024))
    }

    /// Evaluates the quantities of one row that all coalitions share.
    fn evaluate<'g>(
        &'g self,
        x: &[f64],
        conditional: &'g [Option<ConditionalMeans>],
    ) -> Result<RowEvaluation<'g>> {
        let players = self.game.active_players();
        let views = || self.game.parts.views.iter().zip(&self.game.means_of_view);
        let side = |(view, &on): (&KernelView, &usize)| {
            let view_values: Vec<f64> = view.columns.iter().map(|&j| x[j]).collect();
            let (ground, isa) = (&self.game.domain_means[on], self.game.isa);
            let domain = self.game.domain(ground);
            let mut side = ground.side(domain, &view_values, players, isa)?;
            ground.fill_present(domain, &view_values, players, isa, &mut side)?;
            Ok(side)
        };
        let sides: Vec<ViewSide> = views().map(side).collect::<Result<_>>()?;
        let means_and_error = |(view, &on): (&KernelView, &usize)| {
            let row_means = self.game.domain_means[on].source.and_then(|s| conditional[s].as_ref()).and_then(
                |conditional| {
                    let part_values: Vec<f64> = self.game.columns[view.part].iter().map(|&j| x[j]).collect();
                    Some((conditional, *conditional.numbers.get(&key(&part_values))?))
                },
            );
            match row_means {
                Some((conditional, r)) => (
                    conditional.means[on].iter().map(|product_means| &product_means[r][..]).collect(),
                    conditional.mean_errors[r],
                ),
                None => (
                    self.game.domain_means[on].drawn.iter().map(|product_means| &product_means[..]).collect(),
                    [1.0, 0.0],
                ),
            }
        };
        let (means, mean_errors) = views().map(means_and_error).unzip();
        let numbers = sides.iter().map(|side| vec![Lanes::ZERO; side.tops.len()]).collect();
        Ok(RowEvaluation { sides, means, mean_errors, numbers })
    }

    /// Averages the kernels of all views over absent columns, for the coalitions of a block.
    fn average(&self, evaluation: &mut RowEvaluation<'_>, block: usize) {
        for ((side, means), out) in
            evaluation.sides.iter().zip(&evaluation.means).zip(&mut evaluation.numbers)
        {
            if let Some(always) = &side.always {
                out.iter_mut().zip(always).for_each(|(out, v)| *out = Lanes::splat(*v));
                continue;
            }
            out.fill(Lanes::ZERO);
            let rows = out.len();
            for ((present, means), scale) in side.present.iter().zip(means).zip(&side.scales) {
                let block_means = &means[block * rows..(block + 1) * rows];
                add_block(self.game.isa, present, block, block_means, *scale, out);
            }
        }
    }

    /// Returns the values of a row, with their bounds.
    fn row(&self, x: &[f64], conditional: &[Option<ConditionalMeans>]) -> Result<RowResult> {
        let (players, outputs) = (self.game.active_players(), self.game.model.outputs());
        let mut evaluation = self.evaluate(x, conditional)?;
        let blocks = blocks(players);
        let mut coalition_values = vec![0.0; outputs * blocks * LANES];
        for block in 0..blocks {
            self.average(&mut evaluation, block);
            for term in &self.game.parts.terms {
                let averaged: Vec<&[Lanes]> =
                    term.sides.iter().map(|view| &evaluation.numbers[*view][..]).collect();
                for (o, coef) in term.coef.iter().enumerate() {
                    let sum = match averaged.is_empty() {
                        true => Lanes::splat(coef.iter().sum()),
                        false => sum_over_tuples(self.game.isa, term, coef, &averaged),
                    };
                    let start = (o * blocks + block) * LANES;
                    add_to(&mut coalition_values[start..start + LANES], &sum.0);
                }
            }
        }
        let RowEvaluation { sides, mean_errors, .. } = &evaluation;
        let errors = self.game.errors(RowSizes { sides, mean_errors });
        let sets = self.plan.sets.len();
        let mut values = vec![0.0; outputs * sets];
        let (mut bound, mut base) = (Vec::with_capacity(outputs), Vec::with_capacity(outputs));
        for (o, (output_values, error)) in values.chunks_exact_mut(sets).zip(errors).enumerate() {
            let output_coalitions = &coalition_values[o * blocks * LANES..][..1 << players];
            let empty_value = if self.game.base[o].is_nan() {
                self.game.model.intercept[o] + output_coalitions[0]
            } else {
                self.game.base[o]
            };
            base.push(empty_value);
            bound.push(self.plan.values(output_coalitions, error, empty_value.abs(), output_values));
        }
        // The prediction is computed independently of the value of the grand coalition.
        let outputs_at_row = self.game.parts.outputs_at(self.game.isa, x);
        let prediction = outputs_at_row.iter().zip(&self.game.model.intercept).map(|(v, b)| v + b).collect();
        Ok(RowResult { values, bound, base, prediction })
    }
}

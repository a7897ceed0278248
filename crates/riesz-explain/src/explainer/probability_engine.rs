//! The engine for the probabilities of classes. The link from a classifier's outputs to probabilities is not
//! linear, so a product game of outputs becomes a general game of probabilities, whose coalitions are valued
//! one by one. For few players, tables like those of [product games](super::product_engine) value all
//! coalitions, for any index; for more players, a sample of coalitions is valued.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::engine::GameEngine;
use super::product_engine::ProductEngine;
use crate::attribution::coalition_tables::CoalitionPlan;
use crate::attribution::index_computation::{IndexComputation, IndexValues};
use crate::attribution::kernel_shap::kernel_shap_from;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::attribution::weighted_mean;
use crate::coalition_structure::CoalitionTree;
use crate::control::Progress;
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation};
use crate::game::Game;
use crate::index::ValueIndex;
use crate::kernel_model::{KernelExpansion, ProbabilityLink};
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::question::Question;
use crate::simd::Isa;
use crate::table::{Players, Table};

/// The largest number of players whose coalitions are all valued whatever the budget.
const MAX_EXACT_PLAYERS: usize = 13;

/// The number of rows that the model predicts at once when coalitions are sampled.
const BATCH_ROWS: usize = 4096;

/// Explains the probabilities of one classifier.
pub(super) struct ProbabilityEngine<'m> {
    products: ProductEngine<'m>,
    question: Question,
    /// The link from outputs to probabilities.
    link: ProbabilityLink,
    /// The weights of all coalitions, if tables value them.
    coalitions: Option<CoalitionPlan>,
    /// The numbers of the classes whose probabilities are explained.
    classes: Vec<usize>,
    base: Vec<f64>,
    stop: Arc<AtomicBool>,
}

impl GameEngine for ProbabilityEngine<'_> {
    fn players(&self) -> &Players {
        &self.products.groups
    }

    fn game(&self) -> (ValueIndex, Cow<'_, Game>) {
        (self.question.index, Cow::Borrowed(&self.question.game))
    }

    fn base_values(&self) -> &[f64] {
        &self.base
    }

    fn explain(&self, rows: &Table, budget: Budget, sample: Option<&mut SampleState>) -> Result<Explanation> {
        let model = self.products.model;
        let data = rows.align_to(model.columns())?;
        let mut explanation = if let Some(coalitions) = &self.coalitions {
            self.by_tables(coalitions, &data)?
        } else {
            let outputs = model.outputs();
            let question = self.question.clone().with_budget(budget);
            let question = question.with_players(Some(self.products.groups.clone()));
            let (fresh_sample, mut rounding) = (&mut SampleState::default(), 0.0_f64);
            let mut explanation = kernel_shap_from(
                |rows: &Table| {
                    let answers = model.predict_until(rows, &self.stop)?;
                    let roundings = (0..answers.rows()).map(|i| self.link.rounding(answers.row(i)));
                    rounding = roundings.fold(rounding, f64::max);
                    Ok(self.linked(&answers))
                },
                &data,
                &question,
                BATCH_ROWS,
                sample.unwrap_or(fresh_sample),
                &self.stop,
            )?;
            // Predictions are rounded too: outputs by at most the bound on values, and probabilities by that
            // times the link's steepness. Coupled probabilities are defined as the result of LIBSVM's
            // iteration.
            if let Exactness::Exact { bound } = &mut explanation.exactness
                && let Some(steepness) = self.link.steepness()
                && let Exactness::Exact { bound: off } = self.products.explain_rows(&data)?.exactness
            {
                for (bound, row_bounds) in bound.chunks_mut(self.classes.len()).zip(off.chunks(outputs)) {
                    let max_bound = row_bounds.iter().fold(0.0, |m: f64, e| m.max(*e));
                    let probability_bound = 2.0 * (steepness * max_bound + rounding) + 16.0 * f64::EPSILON;
                    bound.iter_mut().for_each(|value| *value += probability_bound);
                }
            }
            explanation
        };
        explanation.output_names = self.classes.iter().map(|&k| model.classes[k].clone()).collect();
        explanation.provenance.model = model.facts();
        explanation.provenance.run.push(CardEntry::new("explained", "probabilities"));
        Ok(explanation)
    }

    fn unsupported(&self, request: &str) -> Error {
        not_linear(request)
    }

    fn set_isa(&mut self, isa: Isa) {
        self.products.isa = isa;
    }

    fn set_progress(&mut self, progress: Arc<Progress>) {
        self.products.progress = progress;
    }

    fn samples_coalitions(&self) -> bool {
        self.coalitions.is_none()
    }
}

impl<'m> ProbabilityEngine<'m> {
    pub(super) fn new(
        model: &'m KernelExpansion,
        question: Question,
        groups: Players,
        unions: Option<&CoalitionTree>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let Some(link) = ProbabilityLink::of_model(model) else {
            let allowed = "this model's outputs do not determine probabilities, as those of logistic \
                           regression and of LIBSVM models with probA and probB do: explain a function that \
                           returns probabilities";
            return Err(Error::parameter("probabilities", true, allowed));
        };
        let rows = match &question.game {
            Game::Baseline { point } => point.clone().into(),
            Game::Interventional { background } => background.clone(),
            game => {
                let allowed = "probabilities are explained in the baseline and the interventional game only";
                return Err(Error::parameter("game", game.name(), allowed));
            }
        };
        // With two classes, one probability determines the other.
        let classes = explained_classes(model);
        let products =
            ProductEngine::new(model, question.game.clone(), question.index, groups.clone(), stop.clone())?;
        // Probabilities that an iteration couples are explained as a black box.
        let few_players = groups.players().len() <= MAX_EXACT_PLAYERS
            && products.has_tame_factors()
            && link.steepness().is_some();
        let recipe = IndexComputation::new(question.index, unions);
        let count = groups.players().len();
        let coalitions = few_players.then(|| CoalitionPlan::new(recipe, count, (0..count).collect()));
        if coalitions.is_none() && question.index != ValueIndex::Shapley {
            let allowed = "only Shapley values are available for probabilities of more than 13 features, of \
                           kernels with linear, polynomial or exponential factors, and of three or more \
                           classes by pairwise coupling";
            return Err(Error::parameter("index", question.index, allowed));
        }
        let mut engine = Self { products, link, coalitions, classes, base: Vec::new(), stop, question };
        let answers = engine.class_probabilities(&rows.rows.align_to(model.columns())?)?;
        let weights = crate::embedding::normalised(rows.weights.as_deref(), rows.rows.rows(), "background")?;
        engine.base = weighted_mean(&weights, &answers);
        Ok(engine)
    }

    /// Returns the probabilities of the explained classes in `rows`.
    fn class_probabilities(&self, rows: &Table) -> Result<Matrix> {
        Ok(self.linked(&self.products.model.predict_until(rows, &self.stop)?))
    }

    /// Returns the probabilities of the explained classes, from outputs.
    fn linked(&self, outputs: &Matrix) -> Matrix {
        let mut probabilities = Vec::with_capacity(outputs.rows() * self.classes.len());
        (0..outputs.rows()).for_each(|i| self.link(outputs.row(i), &mut probabilities));
        Matrix::from_row_major(outputs.rows(), self.classes.len(), probabilities)
    }

    fn link(&self, outputs: &[f64], out: &mut Vec<f64>) {
        let probabilities = self.link.probabilities(outputs);
        out.extend(self.classes.iter().map(|&k| probabilities.get(k).copied().unwrap_or(f64::NAN)));
    }

    fn by_tables(&self, coalitions: &CoalitionPlan, data: &Table) -> Result<Explanation> {
        let (players, n) = (self.products.groups.players(), data.rows());
        let predictions = self.class_probabilities(data)?;
        let IndexValues { values, error } =
            self.products.in_batches(data, |rows| self.batch(rows, coalitions))?;
        Ok(Explanation {
            index: self.question.index,
            subsets: coalitions.recipe.subsets(players.len()),
            values,
            base_values: self.base.repeat(n),
            predictions: predictions.into_data(),
            exactness: Exactness::Exact { bound: error },
            provenance: self.question.provenance(Vec::new(), Vec::new()),
            ..Explanation::of_rows(players, &[], data.clone())
        })
    }

    /// Returns the values of a batch of rows, with their bounds.
    fn batch(&self, rows: &[Vec<f64>], plan: &CoalitionPlan) -> Result<IndexValues> {
        let (players, classes) = (self.products.groups.players().len(), self.classes.len());
        let (coalitions, outputs) = (1_usize << players, self.products.model.outputs());
        let steepness = self.link.steepness().unwrap_or(f64::NAN);
        let mut probabilities = vec![0.0; rows.len() * classes * coalitions];
        let mut error = vec![0.0; rows.len()];
        let (mut outputs_of_coalition, mut linked) = (vec![0.0; outputs], Vec::new());
        let weights = self.products.absent.weights();
        for (b, weight) in weights.iter().enumerate() {
            // Outputs of all coalitions, rows × outputs × coalitions.
            let (values, output_bounds) = self.products.mixtures(b, rows)?;
            for (r, (row_probabilities, error)) in
                probabilities.chunks_exact_mut(classes * coalitions).zip(&mut error).enumerate()
            {
                let row_values = &values[r * outputs * coalitions..][..outputs * coalitions];
                let mut rounding = 0.0_f64;
                for s in 0..coalitions {
                    (0..outputs).for_each(|o| outputs_of_coalition[o] = row_values[o * coalitions + s]);
                    rounding = rounding.max(self.link.rounding(&outputs_of_coalition));
                    linked.clear();
                    self.link(&outputs_of_coalition, &mut linked);
                    linked
                        .iter()
                        .enumerate()
                        .for_each(|(k, p)| row_probabilities[k * coalitions + s] += weight * p);
                }
                // The change of a probability is at most the link's steepness times the change of the
                // outputs.
                let output_bound =
                    output_bounds[r * outputs..][..outputs].iter().fold(0.0, |m: f64, e| m.max(*e));
                *error += weight * (steepness * output_bound + rounding);
            }
        }
        // Roundings of the exponentials, their sum, and the mean over the background; all these numbers are
        // at most 1.
        let roundings = (outputs + 8 + 3 * weights.len()) as f64;
        let sets = plan.sets.len();
        let (mut values, mut bounds) = (vec![0.0; rows.len() * classes * sets], Vec::new());
        let games = probabilities.chunks_exact(coalitions).zip(values.chunks_exact_mut(sets));
        for (g, (game_values, index_values)) in games.enumerate() {
            let error = error[g / classes] + f64::EPSILON * roundings;
            bounds.push(plan.values(game_values, error, 1.0, index_values));
        }
        Ok(IndexValues { values, error: bounds })
    }
}

/// The classes whose probabilities are explained: the second of two classes, otherwise all.
pub(super) fn explained_classes(model: &KernelExpansion) -> Vec<usize> {
    let count = model.classes.len();
    if count == 2 { vec![1] } else { (0..count).collect() }
}

/// The error for a request that needs values that are linear functionals of the model.
pub(super) fn not_linear(request: &str) -> Error {
    Error::parameter(
        "probabilities",
        true,
        format!("{request} are available for values of the model's outputs only"),
    )
}

//! Explainers: they turn a model and a [`Question`] into an [`Explanation`].

mod coalition_outputs;
mod engine;
mod independent_engine;
mod observational_engine;
mod panel;
mod predictions;
mod probability_engine;
mod product_engine;
mod robustness;
mod top_interactions;
mod value_covariance;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::attribution::observational::ObservationalGame;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::coalition_structure::CoalitionStructure;
use crate::control::Progress;
use crate::error::{Error, Result};
use crate::explanation::{Dispersion, Explanation, Uncertainty};
use crate::game::{ConditionalModel, Game};
use crate::index::ValueIndex;
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::posterior::{Functionals, Posterior, PosteriorCovariance};
use crate::question::Question;
use crate::simd::Isa;
use crate::table::{Players, Table};
pub(crate) use coalition_outputs::CoalitionOutputs;
use engine::GameEngine;
use independent_engine::IndependentPartsEngine;
pub use predictions::PredictionFunction;
use probability_engine::ProbabilityEngine;
use product_engine::ProductEngine;

/// The largest number of sets that get values in a row.
const MAX_SETS: usize = 1 << 24;

/// Answers one question about rows of one model.
pub struct Explainer<'m> {
    engine: Box<dyn GameEngine + 'm>,
    model: &'m KernelExpansion,
    /// The budget of the question, for engines that sample coalitions.
    budget: Budget,
    /// Whether values are to come with their covariance.
    with_covariance: bool,
    posterior: Option<Posterior<'m>>,
}

/// The reason why the covariance that was requested cannot be computed.
const NO_POSTERIOR: &str = "this model holds no posterior, which says how sure values are: fit a Gaussian \
                            process and save it with its posterior ('riesz fit --model gp --posterior', in \
                            Python save(path, posterior=True)), or ridge or logistic regression or a \
                            support vector machine with bootstrap";

impl<'m> Explainer<'m> {
    /// Prepares to ask `question` of `model`; a [`Game`] alone is the question for one player a column. Cost
    /// O(n · background · d) for games with a background; for the observational game O(reference² · d), and
    /// that of choosing a ridge where none is given.
    ///
    /// # Errors
    /// [`Error::NotProduct`] if the kernel ties columns of different players together, which the
    /// observational game allows, as do the others that take rows where a polynomial of degree 20 at most is
    /// a term of its own, for which the functional game is an
    /// [`Error::Parameter`]; and whatever is wrong with the background, baseline or reference.
    pub fn new(model: &'m KernelExpansion, question: impl Into<Question>) -> Result<Self> {
        Self::new_with_control(model, question, Arc::default())
    }

    /// An explainer whose preparation and later work fail with [`Error::Interrupted`] soon after `stop`
    /// becomes true, however many rows are passed.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Interrupted`].
    pub fn new_with_control(
        model: &'m KernelExpansion,
        question: impl Into<Question>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        model.validate()?;
        let question = question.into();
        let groups = question.players_of(model.columns());
        let Question { index, budget, covariance, .. } = question;
        index.validate()?;
        let covered: usize = groups.players().iter().map(|p| p.columns.len()).sum();
        if covered != model.support_points.width()
            || groups.player_of_column(model.support_points.width()).contains(&usize::MAX)
        {
            return Err(Error::Shape {
                subject: "the list of players".into(),
                unit: "columns",
                expected: model.support_points.width(),
                actual: covered,
                why: "every column of the model belongs to one player".into(),
            });
        }
        // The strongest of too many pairs can be found.
        if index.order() > 2 {
            check_sets(index, groups.players().len())?;
        }
        if question.probabilities && covariance {
            return Err(probability_engine::not_linear("covariances"));
        }
        let unions = match index {
            ValueIndex::Owen if question.unions.is_empty() => {
                return Err(Error::parameter("index", index, "it takes unions"));
            }
            ValueIndex::Owen => Some(CoalitionStructure::tree(&question.unions, &groups)?),
            _ => None,
        };
        let engine: Box<dyn GameEngine + 'm> = match question.game {
            _ if question.probabilities => {
                Box::new(ProbabilityEngine::new(model, question, groups, unions.as_ref(), stop)?)
            }
            Game::Observational { reference, conditional: ConditionalModel::Embedding(conditioning) } => {
                index.of_coalitions()?;
                let mut engine = ObservationalGame::new(model, reference, &conditioning, groups, stop)?;
                engine.budget = budget;
                Box::new(engine)
            }
            Game::Observational { .. } => {
                let why =
                    "the conditional distributions of a model whose kernel is known come from an embedding";
                return Err(Error::parameter("conditional", "gaussian or copula", why));
            }
            Game::Independent { .. } => {
                Box::new(IndependentPartsEngine::new(model, question, groups, unions.as_ref(), stop)?)
            }
            game => {
                let mut engine = ProductEngine::new(model, game, index, groups, stop)?;
                engine.unions = unions;
                Box::new(engine)
            }
        };
        Ok(Self { engine, model, budget, with_covariance: covariance, posterior: None })
    }

    /// Adds the posterior of the model, which a question for the covariance of values
    /// ([`Question::covariance`](crate::Question::covariance)) needs; other questions ignore it.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a question that takes one where there is none, in the functional game under a
    /// prior, in the observational game where values are estimated or f is skew, in that and the game of
    /// independent parts of more than 12 players, and for an index of sets or unions; as
    /// [`Posterior::new`].
    pub fn with_posterior(mut self, covariance: Option<&'m PosteriorCovariance>) -> Result<Self> {
        if self.with_covariance {
            let covariance = covariance.ok_or_else(|| Error::parameter("covariance", true, NO_POSTERIOR))?;
            let posterior = Posterior::new(self.model, covariance)?;
            self.engine.check_covariances(&posterior)?;
            self.posterior = Some(posterior);
        }
        Ok(self)
    }

    /// The functional game: an absent feature's kernel factor is 1.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn functional(model: &'m KernelExpansion) -> Result<Self> {
        Self::new(model, Game::Functional)
    }

    /// Against one reference row, a table of one row.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn baseline(model: &'m KernelExpansion, point: &Table) -> Result<Self> {
        Self::new(model, Game::Baseline { point: point.clone() })
    }

    /// Against background rows, equally weighted.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn interventional(model: &'m KernelExpansion, background: &Table) -> Result<Self> {
        Self::new(model, Game::Interventional { background: background.clone().into() })
    }

    /// Given the present features, with conditional distributions learnt from the model's own support points.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn observational(model: &'m KernelExpansion) -> Result<Self> {
        Self::new(model, Game::observational(model))
    }

    /// This explainer on another instruction set, for comparisons.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.engine.set_isa(isa);
        self
    }

    /// This explainer, which reports in `progress` how many of the rows of the last call are done. Games that
    /// value coalitions do not report it.
    pub fn with_progress(mut self, progress: Arc<Progress>) -> Self {
        self.engine.set_progress(progress);
        self
    }

    /// The players.
    pub fn groups(&self) -> &Players {
        self.engine.players()
    }

    /// The game's value with all players absent, one an output.
    pub fn base_values(&self) -> &[f64] {
        self.engine.base_values()
    }

    /// Describes the meaning of an absent feature in a sentence.
    pub fn describe_absence(&self) -> String {
        self.engine.describe_absence()
    }

    /// Whether values are found from coalitions, as many as a [`Budget`] allows.
    pub fn samples_coalitions(&self) -> bool {
        self.engine.samples_coalitions()
    }

    /// The number of rows to pass in one call: more rows only use more memory, and fewer rows, in games that
    /// value coalitions, repeat work.
    pub fn max_batch_rows(&self) -> usize {
        self.engine.max_batch_rows(self.with_covariance)
    }

    /// The values of `players`, each named once by its number, in each of `rows` as linear functions of the
    /// model's coefficients: for each of the players a matrix (support points × rows) whose entry (i, r) is
    /// the contribution of a coefficient 1 of support point i to the player's value in row r, for every
    /// output alike. For regularisers, posterior covariances and all other uses of the functional rather than
    /// its value.
    ///
    /// Cost: that of explaining the rows, whatever the number of players, and 8 bytes for each player,
    /// support point and row; in the game of independent parts O(2^players · players) for each support point
    /// and row. Under the observational game that of explaining the rows and a matrix product of the
    /// reference with the support points for each coalition, once a player. It takes all coalitions of up to
    /// 16 players whatever the [`Budget`], and of more players if they fit; else it is estimated from a
    /// sample as large as the budget (its standard error is not looked at), see
    /// [`sampled_functionals`](Self::sampled_functionals).
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] for a player that is not there or named twice, or
    /// a budget that is too small for a sample;
    /// [`Error::NotProduct`].
    pub fn functionals(&self, rows: &Table, players: &[usize]) -> Result<Vec<Matrix>> {
        let count = self.groups().players().len();
        for (position, &player) in players.iter().enumerate() {
            if player >= count || players[..position].contains(&player) {
                let allowed = format!("there are {count} players, from 0, each of which is named once");
                return Err(Error::parameter("player", player, allowed));
            }
        }
        self.engine.functionals(rows, players)
    }

    /// The values of all players in each of `rows` (Shapley's, Banzhaf's or Beta-Shapley values, as the
    /// question's index says) as functionals of f, for a [`Posterior`] of the same model: that of player j in
    /// row r is number `r * players + j`. Their joint covariance under the posterior says how sure values
    /// are, which of two is larger, and more by
    /// [`sampling`](crate::Posterior::sample); their means are the values. Exact to rounding, of which there
    /// is no bound here.
    ///
    /// Cost that of [`functionals`](Self::functionals), and O(reference² · players² · nodes²) for each pair
    /// of rows, where nodes is at most half the number of players: hand over one row at a time where rows are
    /// not compared.
    ///
    /// ```
    /// use riesz::fit::GaussianProcess;
    /// use riesz::{Explainer, Kernel, Matrix, Table};
    ///
    /// let rows: Vec<[f64; 2]> = (0..40).map(|i| [f64::from(i % 7), f64::from(i % 5)]).collect();
    /// let x = Table::from_rows(&rows)?;
    /// let y = Matrix::column_vector(rows.iter().map(|r| r[0].sin() + r[1]).collect());
    /// let fit = GaussianProcess::new(Kernel::gaussian(&[2.0, 2.0]), 0.1).fit(&x, &y)?;
    /// let explainer = Explainer::interventional(&fit.model, &x)?;
    /// let row = x.select_rows(&[3]);
    /// let values = explainer.posterior_functionals(&row)?;
    /// let covariance = &fit.posterior().covariance(&values)[0];
    /// let sd = [0, 1].map(|j| covariance[(j, j)].sqrt());
    /// assert!(sd.iter().all(|sd| *sd > 0.0 && *sd < 0.3));
    /// # Ok::<(), riesz::Error>(())
    /// ```
    ///
    /// Of a skew f, whose [covariance](crate::PosteriorCovariance::skew_swap) says which columns change
    /// places, they are told by an explainer [with its posterior](Self::with_posterior).
    ///
    /// Under the observational game they are sums of values of f, by the
    /// [weights](crate::embedding::ConditionalMeanEmbeddings::weights) of the reference rows given each
    /// coalition (for a kernel without a factor a player f at the reference rows, else at these with the
    /// players that are given taken from the row): for up to 12 players, all of whose coalitions the
    /// [`Budget`] holds, at O(3^players · reference²) a pair of rows, and 2^players times the cost of
    /// weights. Weights are those that values are found with: what landmarks, random features and conjugate
    /// gradients leave open is no part of what f does not know. In the game of independent parts, likewise,
    /// they are sums over all combinations of the parts' rows, for up to 12 players at O(3^players ·
    /// reference² + 4^players) a pair of rows, part and term of the kernel, with 8 · 4^players bytes; twice
    /// these for a skew f.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] for the functional game, for observational values
    /// that are estimated, for those of more players, and for an index of sets or unions.
    pub fn posterior_functionals(&self, rows: &Table) -> Result<Functionals> {
        let mirror = self.posterior.as_ref().and_then(Posterior::skew_swap);
        self.engine.posterior_functionals(rows, mirror)
    }

    /// The effect of knowing each player on the posterior variance of f(x), for each output a matrix rows ×
    /// (players + 1): Shapley values of the variance game, in which the value of a coalition is the posterior
    /// variance of its own value in the explainer's game, `Var(E_b f(x_S, b_-S))`; and in the last column the
    /// variance of the base value, of the empty coalition. A row sums to the [variance](Posterior::variance)
    /// of f(x). Negative values reduce the uncertainty: features that move the row towards the data. Exact up
    /// to rounding, relative to the prior's variance.
    ///
    /// Cost a row O((n · reference)² · players²) for each product of the kernel's sum with each other (in the
    /// marginal-product game the reference counts once), and n³/3 once: for a baseline or few background
    /// rows.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] without a [posterior](Self::with_posterior), for
    /// refits, in the functional and the observational game, and for an index other than Shapley's.
    pub fn variance_shares(&self, rows: &Table) -> Result<Vec<Matrix>> {
        let posterior = self
            .posterior
            .ok_or_else(|| Error::parameter("covariance", self.with_covariance, NO_POSTERIOR))?;
        self.engine.variance_shares(rows, &posterior)
    }

    /// The largest number of coalitions that [`functionals`](Self::functionals) samples; `None` where values
    /// are not estimated.
    pub fn sampled_functionals(&self) -> Option<usize> {
        self.engine.sampled_functionals()
    }

    /// For each output, a bound on how far any Shapley value, or other semivalue, of any row moves if each
    /// column j of the row moves by at most `delta[j]` (for a categorical column: if it changes at all).
    /// Proved, from the norm of the model in the space of its kernel, and therefore often far larger than
    /// what happens. Cost O(n² d).
    ///
    /// Source: Chau, Hu, Gonzalez and Sejdinovic 2022, Theorem 6, with the constants that the triangle
    /// inequality gives.
    ///
    /// # Errors
    /// [`Error::Parameter`] for kernels that are not bounded, and for values of pairs and the functional and
    /// marginal-product games, to which the theorem does not speak; [`Error::Shape`] unless there is one
    /// number a column.
    pub fn robustness(&self, delta: &[f64]) -> Result<Vec<f64>> {
        self.engine.robustness(delta)
    }

    /// The values of every row of `rows`, whose columns are matched to the model's by name: those of the
    /// question's index, Shapley values by default.
    ///
    /// Product games are exact: each value comes with a proved bound on quadrature and rounding error, and
    /// the gap to the prediction. Cost a row O(reference rows · n · players · nodes), where nodes depends on
    /// how unlike present and absent factors are (usually 5 to 30) and never exceeds half the number of
    /// players; of a polynomial that ties players together it is half the degree, and from degree 5 on the
    /// cost grows with the degree squared.
    ///
    /// If the question asks for them, values come with their covariance under the model's posterior: a row at
    /// a time, at O(reference² · players² · nodes²) and O(n² · players) each; in the observational game and
    /// that of independent parts at what [`posterior_functionals`](Self::posterior_functionals) says.
    ///
    /// The observational game is exact if its [`Budget`] holds all coalitions, and is estimated with standard
    /// errors otherwise. Cost for each coalition O(reference³) once, and O(reference · (reference + n)) a
    /// row; by conjugate gradients O(reference²) a row and step.
    ///
    /// Work is shared by the threads of the ambient pool; results do not depend on their number.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Overflow`] if a value is not finite; [`Error::NotPositiveDefinite`]
    /// for a ridge that is too small; [`Error::NotConverged`] for conjugate gradients that do not reach their
    /// tolerance; [`Error::Parameter`] for a budget that is too small, and for a question for covariances
    /// without a [posterior](Self::with_posterior).
    pub fn explain(&self, rows: &Table) -> Result<Explanation> {
        self.attach_covariance(self.engine.explain(rows, self.budget, None)?, rows)
    }

    /// Adds the covariance of values, where the question requests it.
    fn attach_covariance(&self, mut explanation: Explanation, rows: &Table) -> Result<Explanation> {
        if self.with_covariance {
            let posterior =
                self.posterior.ok_or_else(|| Error::parameter("covariance", true, NO_POSTERIOR))?;
            let covariances = self.engine.covariances(rows, &posterior)?;
            let dispersion = Dispersion::Covariance(covariances);
            explanation.uncertainty = Some(Uncertainty { dispersion, source: Some(posterior.source()) });
        }
        Ok(explanation)
    }

    /// Explains as [`explain`](Self::explain) with a budget, continuing from the coalitions that an earlier
    /// call on the same rows valued, and storing them for a later call: the result is that of one call with
    /// the larger budget. Product games, which value no coalitions, are explained anew.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Format`] for a sample of other rows or another explainer.
    pub fn explain_from(
        &self,
        rows: &Table,
        budget: Budget,
        sample: &mut SampleState,
    ) -> Result<Explanation> {
        self.attach_covariance(self.engine.explain(rows, budget, Some(sample))?, rows)
    }
}

/// Checks that a row has no more values than can be held.
fn check_sets(index: ValueIndex, players: usize) -> Result<()> {
    let order = index.order();
    if order > 1 && index.sets(players).is_none_or(|sets| sets > MAX_SETS) {
        let allowed = match order {
            2 => format!(
                "{players} players have more than {MAX_SETS} pairs: ask for the strongest alone, or group \
                 them"
            ),
            _ => format!(
                "{players} players have more than {MAX_SETS} sets of up to {order}: group them, or take \
                 smaller sets"
            ),
        };
        return Err(Error::parameter("index", index, allowed));
    }
    Ok(())
}

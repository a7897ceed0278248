//! From a model and a [`Question`] to an [`Explanation`].

mod coalition_outputs;
mod independent_engine;
mod panel;
mod predictions;
mod probability_engine;
mod product_engine;
mod robustness;
mod top_interactions;
mod value_covariance;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::attribution::coalition_covariance::RowPairs;
use crate::attribution::observational::ObservationalGame;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::coalition_structure::CoalitionStructure;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::explanation::{Explanation, Spread, Uncertainty};
use crate::game::{ConditionalModel, Game};
use crate::index::ValueIndex;
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::posterior::{Functionals, Posterior, PosteriorCovariance};
use crate::question::Question;
use crate::simd::Isa;
use crate::table::{Players, Table};
pub(crate) use coalition_outputs::CoalitionOutputs;
use independent_engine::IndependentPartsEngine;
pub use predictions::PredictionFunction;
use probability_engine::ProbabilityEngine;
use product_engine::ProductEngine;

/// The largest number of sets that get values in a row.
const MAX_SETS: usize = 1 << 24;

/// Answers one question about rows of one model.
pub struct Explainer<'m> {
    engine: GameEngine<'m>,
    model: &'m KernelExpansion,
    /// Whether values are to come with their covariance.
    with_covariance: bool,
    posterior: Option<Posterior<'m>>,
}

/// Which games have variance games.
const NO_VARIANCE_GAME: &str =
    "the variance game is that of exact games that take a background or a baseline";
/// Why the covariance that was asked for cannot be found.
const NO_POSTERIOR: &str = "this model holds no posterior, which says how sure values are: fit a Gaussian \
                            process and save it with its posterior ('riesz fit --model gp --posterior', in \
                            Python save(path, posterior=True)), or ridge or logistic regression or a \
                            support vector machine with bootstrap";

enum GameEngine<'m> {
    Products(Box<ProductEngine<'m>>),
    Conditioning(Box<ObservationalGame<'m>>),
    Probabilities(Box<ProbabilityEngine<'m>>),
    Independent(Box<IndependentPartsEngine<'m>>),
}

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

    /// As [`new`](Self::new), but preparing and whatever is asked later are given up with
    /// [`Error::Interrupted`] soon after `stop` becomes true, however many rows are handed over.
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
                what: "the list of players".into(),
                unit: "columns",
                expected: model.support_points.width(),
                found: covered,
                why: "every column of the model belongs to one player".into(),
            });
        }
        // The strongest of too many pairs can be found.
        if index.order() > 2 {
            check_sets(index, groups.players().len())?;
        }
        if question.probabilities && covariance {
            return Err(not_linear("covariances"));
        }
        let unions = match index {
            ValueIndex::Owen if question.unions.is_empty() => {
                return Err(Error::parameter("index", index, "it takes unions"));
            }
            ValueIndex::Owen => Some(CoalitionStructure::tree(&question.unions, &groups)?),
            _ => None,
        };
        let engine = match question.game {
            _ if question.probabilities => GameEngine::Probabilities(Box::new(ProbabilityEngine::new(
                model,
                question,
                groups,
                unions.as_ref(),
                stop,
            )?)),
            Game::Observational { reference, conditional: ConditionalModel::Embedding(conditioning) } => {
                index.of_coalitions()?;
                let mut engine = ObservationalGame::new(model, reference, &conditioning, groups, stop)?;
                engine.budget = budget;
                GameEngine::Conditioning(Box::new(engine))
            }
            Game::Observational { .. } => {
                let why =
                    "the conditional distributions of a model whose kernel is known come from an embedding";
                return Err(Error::parameter("conditional", "gaussian or copula", why));
            }
            Game::Independent { .. } => GameEngine::Independent(Box::new(IndependentPartsEngine::new(
                model,
                question,
                groups,
                unions.as_ref(),
                stop,
            )?)),
            game => {
                let mut engine = ProductEngine::new(model, game, index, groups, stop)?;
                engine.unions = unions;
                GameEngine::Products(Box::new(engine))
            }
        };
        Ok(Self { engine, model, with_covariance: covariance, posterior: None })
    }

    /// The same explainer of a model with a posterior, which a question for the covariance of values
    /// ([`Question::covariance`](crate::Question::covariance)) takes; other questions leave it alone.
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
            match &self.engine {
                GameEngine::Products(engine) => engine.check_covariances(&posterior)?,
                GameEngine::Conditioning(engine) => {
                    value_covariance::reject_skew(posterior.skew_swap())?;
                    engine.check_covariances()?;
                }
                GameEngine::Independent(engine) => engine.check_covariances(&posterior)?,
                GameEngine::Probabilities(_) => {}
            }
            self.posterior = Some(posterior);
        }
        Ok(self)
    }

    /// What the model has learnt: an absent feature's kernel factor is 1.
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

    /// The same explainer on another instruction set, to compare them.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        match &mut self.engine {
            GameEngine::Products(engine) => engine.isa = isa,
            GameEngine::Probabilities(engine) => engine.products.isa = isa,
            GameEngine::Independent(engine) => engine.isa = isa,
            GameEngine::Conditioning(_) => {}
        }
        self
    }

    /// The same explainer, which says in `progress` how far it is with the rows that it was given last. Games
    /// that value coalitions do not say it.
    pub fn with_progress(mut self, progress: Arc<Progress>) -> Self {
        match &mut self.engine {
            GameEngine::Products(engine) => engine.progress = progress,
            GameEngine::Probabilities(engine) => engine.products.progress = progress,
            GameEngine::Independent(engine) => engine.progress = progress,
            GameEngine::Conditioning(_) => {}
        }
        self
    }

    /// The players.
    pub fn groups(&self) -> &Players {
        match &self.engine {
            GameEngine::Products(engine) => &engine.groups,
            GameEngine::Conditioning(engine) => &engine.groups,
            GameEngine::Probabilities(engine) => &engine.products.groups,
            GameEngine::Independent(engine) => &engine.groups,
        }
    }

    /// The game's value with all players absent, one an output.
    pub fn base_values(&self) -> &[f64] {
        match &self.engine {
            GameEngine::Products(engine) => &engine.base,
            GameEngine::Conditioning(engine) => &engine.base,
            GameEngine::Probabilities(engine) => &engine.base,
            GameEngine::Independent(engine) => &engine.base,
        }
    }

    /// What an absent feature means, in a sentence for people.
    pub fn describe_absence(&self) -> String {
        match &self.engine {
            GameEngine::Products(engine) => engine.game.absent(),
            GameEngine::Conditioning(engine) => engine.absent(),
            GameEngine::Probabilities(engine) => engine.products.game.absent(),
            GameEngine::Independent(engine) => engine.absent(),
        }
    }

    /// Whether values are found from coalitions, as many as a [`Budget`] allows.
    pub fn samples_coalitions(&self) -> bool {
        match &self.engine {
            GameEngine::Products(_) | GameEngine::Independent(_) => false,
            GameEngine::Conditioning(_) => true,
            GameEngine::Probabilities(engine) => engine.by_coalitions(),
        }
    }

    /// How many rows to hand over at once: more only take memory, and fewer, in games that value coalitions,
    /// repeat work.
    pub fn max_batch_rows(&self) -> usize {
        match &self.engine {
            // Values of pairs take memory.
            GameEngine::Products(engine) => {
                let sets = engine.index.sets(engine.groups.players().len()).unwrap_or(usize::MAX);
                let width = if self.with_covariance { sets.saturating_mul(sets) } else { sets };
                let few = ((1 << 24) / width.max(1)).clamp(1, 4096);
                if engine.index.order() == 1 && !self.with_covariance { 4096 } else { few }
            }
            GameEngine::Conditioning(engine) => engine.rows_at_once(),
            GameEngine::Probabilities(_) => 256,
            GameEngine::Independent(engine) => engine.rows_at_once(),
        }
    }

    /// The values of `players`, each named once by its number, in each of `rows` as linear functions of the
    /// model's coefficients: for each of the players a matrix (support points × rows) whose entry (i, r) is
    /// what a coefficient 1 of support point i adds to the player's value in row r, for every output alike.
    /// For regularisers, posterior covariances and whatever else needs the functional rather than its value.
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
        for (at, &player) in players.iter().enumerate() {
            if player >= count || players[..at].contains(&player) {
                let allowed = format!("there are {count} players, from 0, each of which is named once");
                return Err(Error::parameter("player", player, allowed));
            }
        }
        match &self.engine {
            GameEngine::Products(engine) => engine.functionals(rows, players, engine.watch()),
            GameEngine::Conditioning(engine) => {
                players.iter().map(|&p| engine.functionals(rows, p)).collect()
            }
            GameEngine::Probabilities(_) => Err(not_linear("functionals")),
            GameEngine::Independent(engine) => engine.functionals(rows, players),
        }
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
        match &self.engine {
            GameEngine::Products(engine) => engine.posterior_functionals(rows, mirror),
            GameEngine::Conditioning(engine) => {
                value_covariance::check_finite(engine.posterior_functionals(rows, RowPairs::All)?)
            }
            GameEngine::Probabilities(_) => Err(not_linear("covariances")),
            GameEngine::Independent(engine) => {
                value_covariance::check_finite(engine.posterior_functionals(rows, mirror, RowPairs::All)?)
            }
        }
    }

    /// What each player's being known does to how sure the model is of f(x), for each output a matrix rows ×
    /// (players + 1): Shapley values of the variance game, in which a coalition is worth the posterior
    /// variance of its own value in the explainer's game, `Var(E_b f(x_S, b_-S))`; and in the last column the
    /// variance of the base value, with nobody known. A row sums up to the [variance](Posterior::variance) of
    /// f(x). Negative values make it surer: features that move the row to where there were data. Exact to
    /// rounding, relative to the prior's variance.
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
        match &self.engine {
            GameEngine::Products(engine) => engine.variances(rows, &posterior),
            GameEngine::Conditioning(_) => Err(Error::parameter("game", "observational", NO_VARIANCE_GAME)),
            GameEngine::Probabilities(_) => Err(not_linear("covariances")),
            GameEngine::Independent(_) => Err(unsupported_for_independent_parts("shares of the variance")),
        }
    }

    /// How many coalitions [`functionals`](Self::functionals) samples at most; `None` where they are not
    /// estimated.
    pub fn sampled_functionals(&self) -> Option<usize> {
        match &self.engine {
            GameEngine::Conditioning(engine) => engine.sampled_functionals(),
            GameEngine::Products(_) | GameEngine::Probabilities(_) | GameEngine::Independent(_) => None,
        }
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
        match &self.engine {
            GameEngine::Products(engine) if engine.index.order() > 1 => {
                let allowed =
                    "the bound holds for values of single features that are averages of what these add";
                Err(Error::parameter("index", engine.index, allowed))
            }
            GameEngine::Products(engine) => match &engine.game {
                Game::Baseline { .. } | Game::Interventional { .. } => {
                    robustness::bound(engine.model, None, delta)
                }
                game => Err(Error::parameter(
                    "game",
                    game.name(),
                    "the bound holds for the baseline, interventional and observational games",
                )),
            },
            GameEngine::Conditioning(engine) => {
                let (kernel, ridge) = engine.conditioning()?;
                robustness::bound(engine.model, Some((kernel, ridge)), delta)
            }
            GameEngine::Probabilities(_) => Err(not_linear("such bounds")),
            GameEngine::Independent(_) => Err(unsupported_for_independent_parts("such bounds")),
        }
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
        match &self.engine {
            GameEngine::Products(engine) => self.by_products(engine, rows),
            GameEngine::Conditioning(engine) => {
                self.attach_covariance(engine.explain(rows, engine.budget, None)?, rows)
            }
            GameEngine::Probabilities(engine) => engine.explain(rows, engine.question.budget, None),
            GameEngine::Independent(engine) => self.attach_covariance(engine.explain(rows)?, rows),
        }
    }

    fn by_products(&self, engine: &ProductEngine<'_>, rows: &Table) -> Result<Explanation> {
        check_sets(engine.index, engine.groups.players().len())?;
        self.attach_covariance(engine.explain(rows)?, rows)
    }

    /// With how sure values are, where that is asked for.
    fn attach_covariance(&self, mut explanation: Explanation, rows: &Table) -> Result<Explanation> {
        if self.with_covariance {
            let posterior =
                self.posterior.ok_or_else(|| Error::parameter("covariance", true, NO_POSTERIOR))?;
            let covariances = match &self.engine {
                GameEngine::Products(engine) => engine.covariances(rows, &posterior)?,
                GameEngine::Conditioning(engine) => {
                    let counts = (engine.groups.players().len(), engine.rows_with_covariances());
                    let watch = RunControl::nobody();
                    value_covariance::by_coalitions(rows, counts, &posterior, watch, |rows, pairs| {
                        engine.posterior_functionals(rows, pairs)
                    })?
                }
                GameEngine::Probabilities(_) => return Err(not_linear("covariances")),
                GameEngine::Independent(engine) => engine.covariances(rows, &posterior)?,
            };
            let spread = Spread::Covariance(covariances);
            explanation.uncertainty = Some(Uncertainty { spread, source: Some(posterior.source()) });
        }
        Ok(explanation)
    }

    /// As [`explain`](Self::explain) within a budget of its own, going on from the coalitions that an earlier
    /// call on the same rows valued, and leaving them for a later call: the result is that of one call with
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
        match &self.engine {
            GameEngine::Products(engine) => self.by_products(engine, rows),
            GameEngine::Conditioning(engine) => {
                self.attach_covariance(engine.explain(rows, budget, Some(sample))?, rows)
            }
            GameEngine::Probabilities(engine) => engine.explain(rows, budget, Some(sample)),
            GameEngine::Independent(engine) => self.attach_covariance(engine.explain(rows)?, rows),
        }
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

/// What is asked of values that are no linear functionals of the model.
fn not_linear(what: &str) -> Error {
    Error::parameter("probabilities", true, format!("{what} are those of values of the model's outputs"))
}

/// What is asked of the game of independent parts, and is not there.
fn unsupported_for_independent_parts(what: &str) -> Error {
    let allowed = format!(
        "{what} are those of a background of all columns: give combinations of the parts' rows as one"
    );
    Error::parameter("game", "independent parts", allowed)
}

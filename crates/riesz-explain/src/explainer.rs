//! Explainers, which compute the [`Explanation`] that a [`Question`] asks for, from a model.

mod causal_engine;
mod coalition_outputs;
mod engine;
mod independent_engine;
mod observational_engine;
mod panel;
mod predictions;
mod probability_engine;
mod product_engine;
mod robustness;
mod value_covariance;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::attribution::observational::ObservationalGame;
use crate::attribution::observational::causal::CausalGame;
use crate::attribution::player_order::ordered_groups;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::attribution::top_pair_search::SearchLimits;
use crate::coalition_structure::CoalitionStructure;
use crate::control::Progress;
use crate::error::{Error, Result};
use crate::explanation::{Explanation, TopInteractions, Uncertainty};
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
pub use predictions::PredictionFunction;
use probability_engine::ProbabilityEngine;
use product_engine::ProductEngine;

/// The largest number of sets of players whose values a row may have.
const MAX_SETS: usize = 1 << 24;

/// Computes the answer to one question about rows of one model.
pub struct Explainer<'m> {
    engine: Box<dyn GameEngine + 'm>,
    model: &'m KernelExpansion,
    /// The question's budget of coalitions, for engines that sample them.
    budget: Budget,
    /// Whether values come with their covariance.
    with_covariance: bool,
    /// Whether values come with the uncertainty of the conditional distributions.
    conditional_uncertainty: bool,
    posterior: Option<Posterior<'m>>,
}

/// The reason why the covariance that was requested cannot be computed.
const NO_POSTERIOR: &str = "this model holds no posterior, from which the uncertainty of values is \
                            computed: fit a Gaussian process and save it with its posterior ('riesz fit \
                            --model gp --posterior', in Python save(path, posterior=True)), or fit ridge or \
                            logistic regression or a support vector machine with bootstrap";

impl<'m> Explainer<'m> {
    /// Creates an explainer of `model` for `question`; a [`Game`] converts to a question with one player per
    /// column. Cost O(n · background · d) for games with a background. For the observational game
    /// O(reference² · d), plus the choice of the ridge where none is given.
    ///
    /// # Errors
    /// [`Error::NotProduct`] if a factor of the kernel ties columns of different players together. The
    /// observational game allows this; so do the games with a background or a baseline for polynomials of
    /// degree at most 20 that are a term alone, for which the functional game is an [`Error::Parameter`].
    /// Also the errors of an invalid background, baseline, reference or causal structure.
    pub fn new(model: &'m KernelExpansion, question: impl Into<Question>) -> Result<Self> {
        Self::new_with_control(model, question, Arc::default())
    }

    /// Creates an explainer whose preparation and later work fail with [`Error::Interrupted`] soon after
    /// `stop` becomes true, for any number of rows.
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
        let Question { index, budget, covariance, conditional_uncertainty, .. } = question;
        index.validate()?;
        let covered: usize = groups.players().iter().map(|p| p.columns.len()).sum();
        if covered != model.support_points.width()
            || groups.player_of_column(model.support_points.width()).contains(&usize::MAX)
        {
            return Err(Error::shape(
                "the list of features",
                "columns",
                model.support_points.width(),
                covered,
                "every column of the model belongs to one feature",
            ));
        }
        // For more pairs than a row can hold, the strongest ones can still be found.
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
        if !question.values_model_coalitions() {
            question.reject_ordering()?;
        }
        let engine: Box<dyn GameEngine + 'm> = match question.game {
            _ if question.probabilities => {
                Box::new(ProbabilityEngine::new(model, question, groups, unions.as_ref(), stop)?)
            }
            Game::Observational { reference, conditional: ConditionalModel::Embedding(conditioning) } => {
                index.of_coalitions()?;
                let mut engine = ObservationalGame::new(model, reference, &conditioning, groups, stop)?;
                engine.budget = budget;
                engine.ordering = ordered_groups(&question.ordering, &engine.groups)?;
                Box::new(engine)
            }
            Game::Observational { .. } => {
                let why =
                    "the conditional distributions of a model whose kernel is known come from an embedding";
                return Err(Error::parameter("conditional", "gaussian or copula", why));
            }
            Game::Causal { reference, structure, conditioning } => {
                index.of_coalitions()?;
                let data = (&reference, structure);
                let mut engine = CausalGame::new(model, data, &conditioning, groups, stop)?;
                engine.ordering = ordered_groups(&question.ordering, &engine.groups)?;
                Box::new(engine)
            }
            Game::Independent { .. } => {
                independent_engine::independent_engine(model, question, groups, unions.as_ref(), stop)?
            }
            game => {
                let mut engine = ProductEngine::new(model, game, index, groups, stop)?;
                engine.unions = unions;
                Box::new(engine)
            }
        };
        Ok(Self {
            engine,
            model,
            budget,
            with_covariance: covariance,
            conditional_uncertainty,
            posterior: None,
        })
    }

    /// Adds the posterior of the model, which questions with covariances of values
    /// ([`Question::covariance`](crate::Question::covariance)) need; other questions ignore it.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the question needs covariances and `covariance` is `None`, or if they do not
    /// exist: in the functional game under a prior; in the observational game for estimated values or a skew
    /// f; in the observational game and the game of independent parts for more than 12 players; and for an
    /// index of sets or unions. Also as [`Posterior::new`].
    pub fn with_posterior(mut self, covariance: Option<&'m PosteriorCovariance>) -> Result<Self> {
        if self.with_covariance {
            let covariance = covariance.ok_or_else(|| Error::parameter("covariance", true, NO_POSTERIOR))?;
            let posterior = Posterior::new(self.model, covariance)?;
            self.engine.check_covariances(&posterior)?;
            self.posterior = Some(posterior);
        }
        Ok(self)
    }

    /// Creates an explainer for the functional game: an absent feature's kernel factor is 1.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn functional(model: &'m KernelExpansion) -> Result<Self> {
        Self::new(model, Game::Functional)
    }

    /// Creates an explainer for the baseline game: absent features have the values of `point`, a table of one
    /// row.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn baseline(model: &'m KernelExpansion, point: &Table) -> Result<Self> {
        Self::new(model, Game::Baseline { point: point.clone() })
    }

    /// Creates an explainer for the interventional game: absent features have the values of the rows of
    /// `background`, equally weighted.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn interventional(model: &'m KernelExpansion, background: &Table) -> Result<Self> {
        Self::new(model, Game::Interventional { background: background.clone().into() })
    }

    /// Creates an explainer for the observational game, with conditional distributions learnt from the
    /// model's own support points.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn observational(model: &'m KernelExpansion) -> Result<Self> {
        Self::new(model, Game::observational(model))
    }

    /// Sets the instruction set, for comparisons.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        self.engine.set_isa(isa);
        self
    }

    /// Sets the counter that reports how many rows of the last call are done. Games that value coalitions do
    /// not report it.
    pub fn with_progress(mut self, progress: Arc<Progress>) -> Self {
        self.engine.set_progress(progress);
        self
    }

    /// The players.
    pub fn groups(&self) -> &Players {
        self.engine.players()
    }

    /// The game's value with all players absent, for each output.
    pub fn base_values(&self) -> &[f64] {
        self.engine.base_values()
    }

    /// Describes the meaning of an absent feature in a sentence.
    pub fn describe_absence(&self) -> String {
        self.engine.describe_absence()
    }

    /// Whether values are computed from coalitions, whose number a [`Budget`] limits.
    pub fn samples_coalitions(&self) -> bool {
        self.engine.samples_coalitions()
    }

    /// The largest number of players whose coalitions are valued together: all players, or the largest group
    /// of the question's ordering. A [`Budget`] limits the number of these coalitions.
    pub fn largest_group(&self) -> usize {
        self.engine.largest_group()
    }

    /// The number of rows to pass in one call. More rows only use more memory; fewer rows repeat work in
    /// games that value coalitions.
    pub fn max_batch_rows(&self) -> usize {
        self.engine.max_batch_rows(self.with_covariance)
    }

    /// Returns the values of `players` (distinct player numbers) in each of `rows` as linear functions of the
    /// model's coefficients. For each of these players a matrix (support points × rows) has at (i, r) the
    /// contribution of a coefficient 1 of support point i to the player's value in row r, the same for every
    /// output. Regularisers and posterior covariances need this functional rather than its value.
    ///
    /// Cost that of explaining the rows, for any number of players, and 8 bytes for each player, support
    /// point and row. In the game of independent parts O(2^players · players) for each support point and row.
    /// In the observational game that of explaining the rows, and for each player and coalition a matrix
    /// product of the reference with the support points. The observational game uses all coalitions of up to
    /// 16 players whatever the [`Budget`], and of more players if the budget holds them. Otherwise the
    /// functionals are estimated from a sample of the size of the budget, which ignores the requested
    /// standard error; see [`sampled_functionals`](Self::sampled_functionals).
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] for a player that does not exist or is repeated,
    /// or a budget that is too small for a sample; [`Error::NotProduct`].
    pub fn functionals(&self, rows: &Table, players: &[usize]) -> Result<Vec<Matrix>> {
        let count = self.groups().players().len();
        for (position, &player) in players.iter().enumerate() {
            if player >= count || players[..position].contains(&player) {
                let allowed = format!(
                    "features are numbered from 0, there are {count} of them, and each may occur once"
                );
                return Err(Error::parameter("feature", player, allowed));
            }
        }
        self.engine.functionals(rows, players)
    }

    /// Returns the values of all players in each of `rows` (Shapley, Banzhaf or Beta-Shapley values, by the
    /// question's index) as functionals of f, for a [`Posterior`] of the same model. Player j in row r has
    /// the functional number `r * players + j`. The joint covariance of these functionals under the posterior
    /// is the uncertainty of the values and of their differences; [`sampling`](riesz_core::Posterior::sample)
    /// gives any other statistic. Their means are the values, exact up to rounding, for which there is no
    /// bound.
    ///
    /// Cost that of [`functionals`](Self::functionals), and O(reference² · players² · nodes²) for each pair
    /// of rows, where nodes is at most half the number of players. Pass one row at a time where rows are not
    /// compared.
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
    /// For a skew f, whose [covariance](riesz_core::PosteriorCovariance::mirror) lists the columns to
    /// swap, the explainer must have [its posterior](Self::with_posterior).
    ///
    /// In the observational game the functionals are sums of values of f, with the
    /// [weights](crate::embedding::ConditionalMeanEmbeddings::weights) of the reference rows given each
    /// coalition. Where the kernel has no factor of a player, f is taken at the reference rows, otherwise at
    /// these rows with the present players' values of the explained row. Allowed are up to 12 players, whose
    /// coalitions must all fit the [`Budget`]. Cost O(3^players · reference²) for each pair of rows, and
    /// 2^players times that of the weights. The weights are those of the values; errors of landmarks, random
    /// features and conjugate gradients are not part of the posterior uncertainty. In the game of independent
    /// parts the functionals are sums over all combinations of the parts' rows, for up to 12 players. Cost
    /// O(3^players · reference² + 4^players) for each pair of rows, part and term of the kernel, with 8 ·
    /// 4^players bytes; twice as much for a skew f.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] for the functional game, for estimated
    /// observational values, for too many players, and for an index of sets or unions.
    pub fn posterior_functionals(&self, rows: &Table) -> Result<Functionals> {
        let mirror = self.posterior.as_ref().and_then(Posterior::mirror);
        self.engine.posterior_functionals(rows, mirror)
    }

    /// Returns the effect of each player's presence on the posterior variance of f(x), for each output a
    /// matrix rows × (players + 1). Columns 0 to players - 1 have the Shapley values of the variance game, in
    /// which a coalition S has the posterior variance of its value in the explainer's game,
    /// `Var(E_b f(x_S, b_-S))`. The last column has the variance of the base value, that of the empty
    /// coalition. Each row sums to the [variance](Posterior::variance) of f(x). A feature with a negative
    /// value reduces the uncertainty: it moves the row towards the data. Exact up to rounding, relative to
    /// the prior's variance.
    ///
    /// Cost for each row O((n · reference)² · players²) for each pair of the kernel's products, where the
    /// marginal-product game counts the reference once, and n³/3 once. Suited to a baseline or few background
    /// rows.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] without a [posterior](Self::with_posterior), for
    /// refits, in the functional and the observational game, and for an index other than Shapley's.
    pub fn variance_shares(&self, rows: &Table) -> Result<Vec<Matrix>> {
        self.engine.variance_shares(rows, &self.posterior()?)
    }

    /// The largest number of coalitions that [`functionals`](Self::functionals) samples; `None` where it does
    /// not estimate.
    pub fn sampled_functionals(&self) -> Option<usize> {
        self.engine.sampled_functionals()
    }

    /// Returns, for each output, a bound on the change of any Shapley value or other semivalue of any row if
    /// each column j of the row moves by at most `delta[j]` (for a categorical column: if it changes at all).
    /// The bound follows from the norm of the model in the space of its kernel, and is often far larger than
    /// actual changes. Cost O(n² d).
    ///
    /// Source: Chau, Hu, Gonzalez and Sejdinovic 2022, Theorem 6, with the constants that the triangle
    /// inequality gives.
    ///
    /// # Errors
    /// [`Error::Parameter`] for unbounded kernels, for values of pairs, and for the functional and
    /// marginal-product games, which the theorem does not cover; [`Error::Shape`] unless `delta` has one
    /// number per column.
    pub fn robustness(&self, delta: &[f64]) -> Result<Vec<f64>> {
        self.engine.robustness(delta)
    }

    /// Returns the values of every row of `rows`, by the question's index (Shapley values by default).
    /// Columns are matched to the model's by name.
    ///
    /// Product games are exact: each value has a proved bound on its quadrature and rounding error, and the
    /// residual to the prediction is reported. Cost per row O(reference rows · n · players · nodes). The
    /// number of nodes depends on how much present and absent factors differ; it is usually 5 to 30, and at
    /// most half the number of players. For a polynomial that ties players together it is half the degree,
    /// and from degree 5 on the cost grows with the degree squared.
    ///
    /// If the question asks for covariances, values come with their covariance under the model's posterior.
    /// Each row costs O(reference² · players² · nodes²) and O(n² · players). For the observational game and
    /// the game of independent parts see [`posterior_functionals`](Self::posterior_functionals).
    ///
    /// The observational game is exact if its [`Budget`] holds all coalitions; otherwise values are
    /// estimated, with standard errors. Cost for each coalition O(reference³) once, and O(reference ·
    /// (reference + n)) per row; by conjugate gradients O(reference²) per row and step.
    ///
    /// Work is shared by the threads of the ambient pool; results do not depend on their number.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Overflow`] if a value is not finite; [`Error::NotPositiveDefinite`]
    /// if the ridge is too small; [`Error::NotConverged`] if conjugate gradients do not reach their
    /// tolerance; [`Error::Parameter`] if the budget is too small, or if covariances are requested without a
    /// [posterior](Self::with_posterior).
    pub fn explain(&self, rows: &Table) -> Result<Explanation> {
        self.attach_covariance(self.engine.explain(rows, self.budget, None)?, rows)
    }

    /// The posterior, which the request needs.
    fn posterior(&self) -> Result<Posterior<'m>> {
        self.posterior.ok_or_else(|| Error::parameter("covariance", self.with_covariance, NO_POSTERIOR))
    }

    /// Adds the covariance of the values if the question requests it: under the posterior, from the
    /// estimation of conditional distributions, or the sum of both, whose errors are independent.
    fn attach_covariance(&self, mut explanation: Explanation, rows: &Table) -> Result<Explanation> {
        if self.with_covariance {
            let posterior = self.posterior()?;
            let covariances = self.engine.covariances(rows, &posterior)?;
            explanation.uncertainty = Some(Uncertainty::of_model(covariances, posterior.source()));
        }
        if self.conditional_uncertainty {
            let (part, reference) = self.engine.conditioning_covariance(rows)?;
            let model = explanation.uncertainty.take();
            explanation.uncertainty = Some(Uncertainty::with_conditioning(model, part, reference));
        }
        Ok(explanation)
    }

    /// Returns the `count` strongest pairs of each of `rows` by the absolute values of their interactions,
    /// for an index of pairs. The result is exact, with a bound on the interactions of all unlisted pairs,
    /// although most values are not computed. It serves any number of players; [`explain`](Self::explain)
    /// would list 50 million pairs per row for 10,000 players.
    ///
    /// An interaction is at most the product of two numbers, one per player, that cost as much as Shapley
    /// values. The search visits pairs in decreasing order of this product, until no other pair can be among
    /// the strongest, or it has visited `limit` pairs. It visits few pairs if some players matter more than
    /// others, or if a row differs from its reference in few columns, and all pairs if all players matter
    /// equally. A visit costs O(reference rows · n); the value of a pair that may be among the strongest
    /// costs that times the number of nodes. The search needs about 20 MB per thread besides the result, for
    /// any number of pairs. For a polynomial that ties columns together, and for probabilities, the values of
    /// all pairs are computed.
    ///
    /// ```
    /// use riesz::{KernelExpansion, Explainer, Game, Kernel, Matrix, Question, Table};
    ///
    /// let points: Vec<Vec<f64>> = (0..20).map(|i| (0..300).map(|j| f64::from((i * j + i) % 7)).collect()).collect();
    /// let length_scales: Vec<f64> = (0..300).map(|j| 3.0 + f64::from(j)).collect();
    /// let coef = Matrix::column_vector((0..20).map(|i| f64::from(i % 3) - 1.0).collect());
    /// let kernel = Kernel::gaussian(&length_scales);
    /// let model = KernelExpansion::new(kernel, Table::from_rows(&points)?, coef, vec![0.0])?;
    /// let question = Question::from(Game::Functional).with_index("k-sii".parse()?);
    /// let top = Explainer::new(&model, question)?.top_interactions(&model.support_points.select_rows(&[3]), 5, None)?;
    /// let strongest = top.of_row(0, 0);
    /// assert!(strongest.pairs.len() == 5 && strongest.is_complete() && strongest.searched < 300 * 299 / 4);
    /// # Ok::<(), riesz::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] for an index of single
    /// players or of larger sets, and for 0 pairs.
    pub fn top_interactions(
        &self,
        rows: &Table,
        count: usize,
        limit: Option<usize>,
    ) -> Result<TopInteractions> {
        self.engine.check_pairs(count)?;
        let limits = SearchLimits { count, limit: limit.unwrap_or(usize::MAX) };
        if let Some(interactions) = self.engine.strongest_pairs(rows, limits)? {
            return Ok(interactions);
        }
        TopInteractions::from_explanation(&self.explain(rows)?, count)
    }

    /// Explains as [`explain`](Self::explain) with `budget`. It continues from the coalitions in `sample`
    /// that an earlier call on the same rows valued, and stores the new ones there. The result is that of one
    /// call with the larger budget. Product games, which value no coalitions, start anew.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Format`] if `sample` is of other rows or another explainer.
    pub fn explain_from(
        &self,
        rows: &Table,
        budget: Budget,
        sample: &mut SampleState,
    ) -> Result<Explanation> {
        self.attach_covariance(self.engine.explain(rows, budget, Some(sample))?, rows)
    }
}

/// Checks that the number of values of a row does not exceed [`MAX_SETS`].
fn check_sets(index: ValueIndex, players: usize) -> Result<()> {
    let order = index.order();
    if order > 1 && index.sets(players).is_none_or(|sets| sets > MAX_SETS) {
        let allowed = match order {
            2 => format!(
                "{players} features have more than {MAX_SETS} pairs: ask for the strongest alone, or group \
                 them"
            ),
            _ => format!(
                "{players} features have more than {MAX_SETS} sets of up to {order}: group them, or take \
                 smaller sets"
            ),
        };
        return Err(Error::parameter("index", index, allowed));
    }
    Ok(())
}

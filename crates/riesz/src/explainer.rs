//! From a model and a [`Question`] to an [`Explanation`].

mod independent;
mod panel;
mod predictions;
mod probabilities;
mod product;
mod robustness;
mod top;
mod uncertainty;
mod worths;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::attribution::coalitions::{Budget, Sample};
use crate::attribution::mixtures::Pairs;
use crate::attribution::observational::ObservationalGame;
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::explanation::{Explanation, Spread, Uncertainty};
use crate::game::{Conditional, Game};
use crate::index::Index;
use crate::linalg::Matrix;
use crate::posterior::{Covariance, Functionals, Posterior};
use crate::question::Question;
use crate::simd::Isa;
use crate::stop::{Progress, Watch};
use crate::table::{Groups, Table};
use crate::unions::Union;
use independent::Independent;
pub use predictions::PredictionFunction;
use probabilities::Probabilities;
use product::ByProducts;
pub(crate) use worths::Worths;

/// The largest number of sets that get values in a row.
const SETS: usize = 1 << 24;

/// Answers one question about rows of one model.
pub struct Explainer<'m> {
    engine: Engine<'m>,
    model: &'m Expansion,
    /// Whether values are to come with their covariance.
    sure: bool,
    posterior: Option<Posterior<'m>>,
}

/// Which games have variance games.
const WITHOUT: &str = "the variance game is that of exact games that take a background or a baseline";
/// Why the covariance that was asked for cannot be found.
const NO_POSTERIOR: &str = "this model holds no posterior, which says how sure values are: fit a Gaussian \
                            process and save it with its posterior ('riesz fit --model gp --posterior', in \
                            Python save(path, posterior=True)), or ridge or logistic regression or a \
                            support vector machine with bootstrap";

enum Engine<'m> {
    Products(Box<ByProducts<'m>>),
    Conditioning(Box<ObservationalGame<'m>>),
    Probabilities(Box<Probabilities<'m>>),
    Independent(Box<Independent<'m>>),
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
    pub fn new(model: &'m Expansion, question: impl Into<Question>) -> Result<Self> {
        Self::until(model, question, Arc::default())
    }

    /// As [`new`](Self::new), but preparing and whatever is asked later are given up with
    /// [`Error::Interrupted`] soon after `stop` becomes true, however many rows are handed over.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Interrupted`].
    pub fn until(model: &'m Expansion, question: impl Into<Question>, stop: Arc<AtomicBool>) -> Result<Self> {
        model.validate()?;
        let question = question.into();
        let groups = question.players_of(model.columns());
        let Question { index, budget, covariance, .. } = question;
        index.validate()?;
        let covered: usize = groups.players().iter().map(|p| p.columns.len()).sum();
        if covered != model.points.width() || groups.owners(model.points.width()).contains(&usize::MAX) {
            return Err(Error::Shape {
                what: "the list of players".into(),
                unit: "columns",
                expected: model.points.width(),
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
            Index::Owen if question.unions.is_empty() => {
                return Err(Error::parameter("index", index, "it takes unions"));
            }
            Index::Owen => Some(Union::tree(&question.unions, &groups)?),
            _ => None,
        };
        let engine = match question.game {
            _ if question.probabilities => Engine::Probabilities(Box::new(Probabilities::new(
                model,
                question,
                groups,
                unions.as_ref(),
                stop,
            )?)),
            Game::Observational { reference, conditional: Conditional::Embedding(conditioning) } => {
                index.of_coalitions()?;
                let mut engine = ObservationalGame::new(model, reference, &conditioning, groups, stop)?;
                engine.budget = budget;
                Engine::Conditioning(Box::new(engine))
            }
            Game::Observational { .. } => {
                let why =
                    "the conditional distributions of a model whose kernel is known come from an embedding";
                return Err(Error::parameter("conditional", "gaussian or copula", why));
            }
            Game::Independent { .. } => Engine::Independent(Box::new(Independent::new(
                model,
                question,
                groups,
                unions.as_ref(),
                stop,
            )?)),
            game => {
                let mut engine = ByProducts::new(model, game, index, groups, stop)?;
                engine.unions = unions;
                Engine::Products(Box::new(engine))
            }
        };
        Ok(Self { engine, model, sure: covariance, posterior: None })
    }

    /// The same explainer of a model with a posterior, which a question for the covariance of values
    /// ([`Question::covariance`](crate::Question::covariance)) takes; other questions leave it alone.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a question that takes one where there is none, in the functional game under a
    /// prior, in the observational game where values are estimated or f is skew, in that and the game of
    /// independent parts of more than 12 players, and for an index of sets or unions; as
    /// [`Posterior::new`].
    pub fn with_posterior(mut self, covariance: Option<&'m Covariance>) -> Result<Self> {
        if self.sure {
            let covariance = covariance.ok_or_else(|| Error::parameter("covariance", true, NO_POSTERIOR))?;
            let posterior = Posterior::new(self.model, covariance)?;
            match &self.engine {
                Engine::Products(engine) => engine.check_covariances(&posterior)?,
                Engine::Conditioning(engine) => {
                    uncertainty::check_one_sided(posterior.mirror())?;
                    engine.check_covariances()?;
                }
                Engine::Independent(engine) => engine.check_covariances(&posterior)?,
                Engine::Probabilities(_) => {}
            }
            self.posterior = Some(posterior);
        }
        Ok(self)
    }

    /// What the model has learnt: an absent feature's kernel factor is 1.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn functional(model: &'m Expansion) -> Result<Self> {
        Self::new(model, Game::Functional)
    }

    /// Against one reference row, a table of one row.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn baseline(model: &'m Expansion, point: &Table) -> Result<Self> {
        Self::new(model, Game::Baseline { point: point.clone() })
    }

    /// Against background rows, equally weighted.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn interventional(model: &'m Expansion, background: &Table) -> Result<Self> {
        Self::new(model, Game::Interventional { background: background.clone().into() })
    }

    /// Given the present features, with conditional distributions learnt from the model's own support points.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn observational(model: &'m Expansion) -> Result<Self> {
        Self::new(model, Game::observational(model))
    }

    /// The same explainer on another instruction set, to compare them.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        match &mut self.engine {
            Engine::Products(engine) => engine.isa = isa,
            Engine::Probabilities(engine) => engine.products.isa = isa,
            Engine::Independent(engine) => engine.isa = isa,
            Engine::Conditioning(_) => {}
        }
        self
    }

    /// The same explainer, which says in `progress` how far it is with the rows that it was given last. Games
    /// that value coalitions do not say it.
    pub fn with_progress(mut self, progress: Arc<Progress>) -> Self {
        match &mut self.engine {
            Engine::Products(engine) => engine.progress = progress,
            Engine::Probabilities(engine) => engine.products.progress = progress,
            Engine::Independent(engine) => engine.progress = progress,
            Engine::Conditioning(_) => {}
        }
        self
    }

    /// The players.
    pub fn groups(&self) -> &Groups {
        match &self.engine {
            Engine::Products(engine) => &engine.groups,
            Engine::Conditioning(engine) => &engine.groups,
            Engine::Probabilities(engine) => &engine.products.groups,
            Engine::Independent(engine) => &engine.groups,
        }
    }

    /// The game's value with all players absent, one an output.
    pub fn base(&self) -> &[f64] {
        match &self.engine {
            Engine::Products(engine) => &engine.base,
            Engine::Conditioning(engine) => &engine.base,
            Engine::Probabilities(engine) => &engine.base,
            Engine::Independent(engine) => &engine.base,
        }
    }

    /// What an absent feature means, in a sentence for people.
    pub fn absent(&self) -> String {
        match &self.engine {
            Engine::Products(engine) => engine.game.absent(),
            Engine::Conditioning(engine) => engine.absent(),
            Engine::Probabilities(engine) => engine.products.game.absent(),
            Engine::Independent(engine) => engine.absent(),
        }
    }

    /// Whether values are found from coalitions, as many as a [`Budget`] allows.
    pub fn by_coalitions(&self) -> bool {
        match &self.engine {
            Engine::Products(_) | Engine::Independent(_) => false,
            Engine::Conditioning(_) => true,
            Engine::Probabilities(engine) => engine.by_coalitions(),
        }
    }

    /// How many rows to hand over at once: more only take memory, and fewer, in games that value coalitions,
    /// repeat work.
    pub fn rows_at_once(&self) -> usize {
        match &self.engine {
            // Values of pairs take memory.
            Engine::Products(engine) => {
                let sets = engine.index.sets(engine.groups.players().len()).unwrap_or(usize::MAX);
                let width = if self.sure { sets.saturating_mul(sets) } else { sets };
                let few = ((1 << 24) / width.max(1)).clamp(1, 4096);
                if engine.index.order() == 1 && !self.sure { 4096 } else { few }
            }
            Engine::Conditioning(engine) => engine.rows_at_once(),
            Engine::Probabilities(_) => 256,
            Engine::Independent(engine) => engine.rows_at_once(),
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
            Engine::Products(engine) => engine.functionals(rows, players, engine.watch()),
            Engine::Conditioning(engine) => players.iter().map(|&p| engine.functionals(rows, p)).collect(),
            Engine::Probabilities(_) => Err(not_linear("functionals")),
            Engine::Independent(engine) => engine.functionals(rows, players),
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
    /// Of a skew f, whose [covariance](crate::Covariance::mirror) says which columns change places, they are
    /// told by an explainer [with its posterior](Self::with_posterior).
    ///
    /// Under the observational game they are sums of values of f, by the
    /// [weights](crate::embedding::ConditionalMeans::weights) of the reference rows given each coalition (for
    /// a kernel without a factor a player f at the reference rows, else at these with the players that are
    /// given taken from the row): for up to 12 players, all of whose coalitions the [`Budget`] holds, at
    /// O(3^players · reference²) a pair of rows, and 2^players times the cost of weights. Weights are those
    /// that values are found with: what landmarks, random features and conjugate gradients leave open is no
    /// part of what f does not know. In the game of independent parts, likewise, they are sums over all
    /// combinations of the parts' rows, for up to 12 players at O(3^players · reference² + 4^players) a pair
    /// of rows, part and term of the kernel, with 8 · 4^players bytes; twice these for a skew f.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] for the functional game, for observational values
    /// that are estimated, for those of more players, and for an index of sets or unions.
    pub fn posterior_functionals(&self, rows: &Table) -> Result<Functionals> {
        let mirror = self.posterior.as_ref().and_then(Posterior::mirror);
        match &self.engine {
            Engine::Products(engine) => engine.posterior_functionals(rows, mirror),
            Engine::Conditioning(engine) => {
                uncertainty::finite(engine.posterior_functionals(rows, Pairs::All)?)
            }
            Engine::Probabilities(_) => Err(not_linear("covariances")),
            Engine::Independent(engine) => {
                uncertainty::finite(engine.posterior_functionals(rows, mirror, Pairs::All)?)
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
        let posterior =
            self.posterior.ok_or_else(|| Error::parameter("covariance", self.sure, NO_POSTERIOR))?;
        match &self.engine {
            Engine::Products(engine) => engine.variances(rows, &posterior),
            Engine::Conditioning(_) => Err(Error::parameter("game", "observational", WITHOUT)),
            Engine::Probabilities(_) => Err(not_linear("covariances")),
            Engine::Independent(_) => Err(apart("shares of the variance")),
        }
    }

    /// How many coalitions [`functionals`](Self::functionals) samples at most; `None` where they are not
    /// estimated.
    pub fn sampled_functionals(&self) -> Option<usize> {
        match &self.engine {
            Engine::Conditioning(engine) => engine.sampled_functionals(),
            Engine::Products(_) | Engine::Probabilities(_) | Engine::Independent(_) => None,
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
            Engine::Products(engine) if engine.index.order() > 1 => {
                let allowed =
                    "the bound holds for values of single features that are averages of what these add";
                Err(Error::parameter("index", engine.index, allowed))
            }
            Engine::Products(engine) => match &engine.game {
                Game::Baseline { .. } | Game::Interventional { .. } => {
                    robustness::bound(engine.model, None, delta)
                }
                game => Err(Error::parameter(
                    "game",
                    game.name(),
                    "the bound holds for the baseline, interventional and observational games",
                )),
            },
            Engine::Conditioning(engine) => {
                let (kernel, ridge) = engine.conditioning()?;
                robustness::bound(engine.model, Some((kernel, ridge)), delta)
            }
            Engine::Probabilities(_) => Err(not_linear("such bounds")),
            Engine::Independent(_) => Err(apart("such bounds")),
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
    /// As [`Table::conform`]; [`Error::Overflow`] if a value is not finite; [`Error::NotPositiveDefinite`]
    /// for a ridge that is too small; [`Error::NotConverged`] for conjugate gradients that do not reach their
    /// tolerance; [`Error::Parameter`] for a budget that is too small, and for a question for covariances
    /// without a [posterior](Self::with_posterior).
    pub fn explain(&self, rows: &Table) -> Result<Explanation> {
        match &self.engine {
            Engine::Products(engine) => self.by_products(engine, rows),
            Engine::Conditioning(engine) => self.surely(engine.explain(rows, engine.budget, None)?, rows),
            Engine::Probabilities(engine) => engine.explain(rows, engine.question.budget, None),
            Engine::Independent(engine) => self.surely(engine.explain(rows)?, rows),
        }
    }

    fn by_products(&self, engine: &ByProducts<'_>, rows: &Table) -> Result<Explanation> {
        check_sets(engine.index, engine.groups.players().len())?;
        self.surely(engine.explain(rows)?, rows)
    }

    /// With how sure values are, where that is asked for.
    fn surely(&self, mut explanation: Explanation, rows: &Table) -> Result<Explanation> {
        if self.sure {
            let posterior =
                self.posterior.ok_or_else(|| Error::parameter("covariance", true, NO_POSTERIOR))?;
            let covariances = match &self.engine {
                Engine::Products(engine) => engine.covariances(rows, &posterior)?,
                Engine::Conditioning(engine) => {
                    let counts = (engine.groups.players().len(), engine.rows_with_covariances());
                    let watch = Watch::nobody();
                    uncertainty::by_coalitions(rows, counts, &posterior, watch, |rows, pairs| {
                        engine.posterior_functionals(rows, pairs)
                    })?
                }
                Engine::Probabilities(_) => return Err(not_linear("covariances")),
                Engine::Independent(engine) => engine.covariances(rows, &posterior)?,
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
    pub fn explain_from(&self, rows: &Table, budget: Budget, sample: &mut Sample) -> Result<Explanation> {
        match &self.engine {
            Engine::Products(engine) => self.by_products(engine, rows),
            Engine::Conditioning(engine) => self.surely(engine.explain(rows, budget, Some(sample))?, rows),
            Engine::Probabilities(engine) => engine.explain(rows, budget, Some(sample)),
            Engine::Independent(engine) => self.surely(engine.explain(rows)?, rows),
        }
    }
}

/// Checks that a row has no more values than can be held.
fn check_sets(index: Index, players: usize) -> Result<()> {
    let order = index.order();
    if order > 1 && index.sets(players).is_none_or(|sets| sets > SETS) {
        let allowed = match order {
            2 => format!(
                "{players} players have more than {SETS} pairs: ask for the strongest alone, or group them"
            ),
            _ => format!(
                "{players} players have more than {SETS} sets of up to {order}: group them, or take smaller \
                 sets"
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
fn apart(what: &str) -> Error {
    let allowed = format!(
        "{what} are those of a background of all columns: give combinations of the parts' rows as one"
    );
    Error::parameter("game", "independent parts", allowed)
}

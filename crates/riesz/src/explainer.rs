//! From a model, a game and players to an [`Explanation`].

mod observational;
mod panel;
mod product;
mod robustness;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::attribution::coalitions::{Budget, Sample};
use crate::attribution::{Progress, contributions};
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::explanation::Explanation;
use crate::game::Game;
use crate::linalg::Matrix;
use crate::simd::Isa;
use crate::table::{Groups, Table};
use observational::ByConditioning;
use product::ByProducts;

/// Explains rows of one model under one game.
pub struct Explainer<'m> {
    engine: Engine<'m>,
}

enum Engine<'m> {
    Products(Box<ByProducts<'m>>),
    Conditioning(Box<ByConditioning<'m>>),
}

impl<'m> Explainer<'m> {
    /// Prepares to explain `model` under `game`; `groups` are the players, by default one a column.
    /// Cost O(n · background · d) for games with a background; for the observational game O(reference² · d), and that of choosing
    /// a ridge where none is given.
    ///
    /// # Errors
    /// [`Error::NotProduct`] if the kernel ties columns of different players together, which the observational game
    /// allows, and whatever is wrong with the background, baseline or reference.
    pub fn new(model: &'m Expansion, game: Game, groups: Option<Groups>) -> Result<Self> {
        model.validate()?;
        let groups = groups.unwrap_or_else(|| Groups::singletons(model.columns()));
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
        let engine = match game {
            Game::Observational { reference, conditioning } => {
                let engine = ByConditioning::new(model, reference, &conditioning, groups)?;
                Engine::Conditioning(Box::new(engine))
            }
            game => Engine::Products(Box::new(ByProducts::new(model, game, groups)?)),
        };
        Ok(Self { engine })
    }

    /// The same explainer on another instruction set, to compare them.
    pub fn with_isa(mut self, isa: Isa) -> Self {
        if let Engine::Products(engine) = &mut self.engine {
            engine.isa = isa;
        }
        self
    }

    /// The same explainer, valuing at most so many coalitions. Games that are exact without valuing any do not look at it.
    pub fn with_budget(mut self, budget: Budget) -> Self {
        if let Engine::Conditioning(engine) = &mut self.engine {
            engine.budget = budget;
        }
        self
    }

    /// The same explainer, which gives up with [`Error::Interrupted`] soon after `stop` becomes true, however many rows it was given.
    pub fn with_stop(mut self, stop: Arc<AtomicBool>) -> Self {
        match &mut self.engine {
            Engine::Products(engine) => engine.stop = stop,
            Engine::Conditioning(engine) => engine.stop = stop,
        }
        self
    }

    /// The same explainer, which says in `progress` how far it is with the rows that it was given last. Games that value coalitions
    /// do not say it.
    pub fn with_progress(mut self, progress: Arc<Progress>) -> Self {
        if let Engine::Products(engine) = &mut self.engine {
            engine.progress = progress;
        }
        self
    }

    /// The players.
    pub fn groups(&self) -> &Groups {
        match &self.engine {
            Engine::Products(engine) => &engine.groups,
            Engine::Conditioning(engine) => &engine.groups,
        }
    }

    /// The game's value with all players absent, one an output.
    pub fn base(&self) -> &[f64] {
        match &self.engine {
            Engine::Products(engine) => &engine.base,
            Engine::Conditioning(engine) => &engine.base,
        }
    }

    /// What an absent feature means, in a sentence for people.
    pub fn absent(&self) -> String {
        match &self.engine {
            Engine::Products(engine) => engine.game.absent(),
            Engine::Conditioning(engine) => engine.absent(),
        }
    }

    /// How many rows to hand over at once: more only take memory, and fewer, in games that value coalitions, repeat work.
    pub fn rows_at_once(&self) -> usize {
        match &self.engine {
            Engine::Products(_) => 4096,
            Engine::Conditioning(engine) => engine.rows_at_once(),
        }
    }

    /// The values of `players`, each named once by its number, in each of `rows` as linear functions of the model's coefficients: for
    /// each of the players a matrix (support points × rows) whose entry (i, r) is what a coefficient 1 of support point i adds to the
    /// player's value in row r, for every output alike. For regularisers, posterior covariances and whatever else needs the functional
    /// rather than its value.
    ///
    /// Cost: that of explaining the rows, whatever the number of players, and 8 bytes for each player, support point and row. Under the
    /// observational game that of explaining the rows and a matrix product of the reference with the support points for each coalition,
    /// once a player. It takes all coalitions of up to 16 players whatever the [`Budget`], and of more players if they fit; else
    /// it is estimated from a sample as large as the budget (its standard error is not looked at), see
    /// [`sampled_functionals`](Self::sampled_functionals).
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] for a player that is not there or named twice, or a budget that is too small for a sample;
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
            Engine::Products(engine) => engine.functionals(rows, players),
            Engine::Conditioning(engine) => players.iter().map(|&p| engine.functionals(rows, p)).collect(),
        }
    }

    /// How many coalitions [`functionals`](Self::functionals) samples at most; `None` where they are not estimated.
    pub fn sampled_functionals(&self) -> Option<usize> {
        match &self.engine {
            Engine::Conditioning(engine)
                if !contributions::whole(engine.groups.players().len(), &engine.budget) =>
            {
                Some(engine.budget.coalitions)
            }
            _ => None,
        }
    }

    /// For each output, a bound on how far any Shapley value of any row moves if each column j of the row moves by at most `delta[j]`
    /// (for a categorical column: if it changes at all). Proved, from the norm of the model in the space of its kernel, and
    /// therefore often far larger than what happens. Cost O(n² d).
    ///
    /// Source: Chau, Hu, Gonzalez and Sejdinovic 2022, Theorem 6, with the constants that the triangle inequality gives.
    ///
    /// # Errors
    /// [`Error::Parameter`] for kernels that are not bounded, and for the functional and marginal-product games, to which the theorem does
    /// not speak; [`Error::Shape`] unless there is one number a column.
    pub fn robustness(&self, delta: &[f64]) -> Result<Vec<f64>> {
        match &self.engine {
            Engine::Products(engine) => match &engine.game {
                Game::Baseline { .. } | Game::Interventional { .. } => {
                    robustness::bound(engine.model, &robustness::Absent::Rows, delta)
                }
                game => Err(Error::parameter(
                    "game",
                    game.name(),
                    "the bound holds for the baseline, interventional and observational games",
                )),
            },
            Engine::Conditioning(engine) => engine.robustness(delta),
        }
    }

    /// Shapley values of every row of `rows`, whose columns are matched to the model's by name.
    ///
    /// Product games are exact: each value comes with a proved bound on quadrature and rounding error, and the gap to the
    /// prediction. Cost a row O(reference rows · n · players · nodes), where nodes depends on how unlike present and
    /// absent factors are (usually 5 to 30) and never exceeds half the number of players.
    ///
    /// The observational game is exact if its [`Budget`] holds all coalitions, and is estimated with standard errors otherwise.
    /// Cost for each coalition O(reference³) once, and O(reference · (reference + n)) a row; by conjugate gradients O(reference²) a row and step.
    ///
    /// Work is shared by the threads of the ambient pool; results do not depend on their number.
    ///
    /// # Errors
    /// As [`Table::conform`]; [`Error::Overflow`] if a value is not finite; [`Error::NotPositiveDefinite`] for a ridge that is too
    /// small; [`Error::NotConverged`] for conjugate gradients that do not reach their tolerance; [`Error::Parameter`] for a budget
    /// that is too small.
    pub fn explain(&self, rows: &Table) -> Result<Explanation> {
        match &self.engine {
            Engine::Products(engine) => engine.explain(rows),
            Engine::Conditioning(engine) => engine.explain(rows, engine.budget, None),
        }
    }

    /// As [`explain`](Self::explain) within a budget of its own, going on from the coalitions that an earlier call on the same rows
    /// valued, and leaving them for a later call: the result is that of one call with the larger budget. Product games, which
    /// value no coalitions, are explained anew.
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Format`] for a sample of other rows or another explainer.
    pub fn explain_from(&self, rows: &Table, budget: Budget, sample: &mut Sample) -> Result<Explanation> {
        match &self.engine {
            Engine::Products(engine) => engine.explain(rows),
            Engine::Conditioning(engine) => engine.explain(rows, budget, Some(sample)),
        }
    }
}

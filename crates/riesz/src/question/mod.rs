//! Questions: what is asked of a model.
//!
//! A [`Question`] says what it means that a player is absent ([`Game`]), who the players are, how much may be evaluated where values
//! have to be estimated, and the seed. It is plain data: what an explanation is reproduced from, and what is sent to whoever
//! computes it. Front ends make questions from named [`Settings`], so that a setting's name, range, default and help stand in one place.

mod settings;

use serde::{Deserialize, Serialize};

pub use settings::{Kind, SETTINGS, Setting, Settings, Source, Subject};

pub use crate::attribution::coalitions::Budget;
use crate::game::Game;
use crate::table::{Column, Groups};

/// How the values of a function are found. Models whose kernel is known have no use for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// From the values of coalitions, within the [`Budget`].
    KernelShap,
    /// Along random orders of the players: the interventional and the baseline game.
    Permutation {
        /// Orders for each background row, each with its reverse; at least 2, which a standard error takes.
        per_reference: usize,
    },
}

/// A question about a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What it means that a player is absent.
    pub game: Game,
    /// The players; `None` for one a column.
    pub players: Option<Groups>,
    /// How a function's values are found.
    pub estimator: Estimator,
    /// How many coalitions are valued, in games that value any.
    pub budget: Budget,
    /// Seed of everything random.
    pub seed: u64,
}

impl Question {
    /// The players among these columns.
    pub fn players_of(&self, columns: &[Column]) -> Groups {
        self.players.clone().unwrap_or_else(|| Groups::singletons(columns))
    }

    /// The same question for other players.
    #[must_use]
    pub fn with_players(self, players: Option<Groups>) -> Self {
        Self { players, ..self }
    }

    /// The same question within another budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }
}

impl From<Game> for Question {
    /// For one player a column, within the default budget.
    fn from(game: Game) -> Self {
        Self { game, players: None, estimator: Estimator::KernelShap, budget: Budget::default(), seed: 0 }
    }
}

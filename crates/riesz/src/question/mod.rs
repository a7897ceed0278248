//! Questions: the game, the index, the players, and the budget of an explanation.
//!
//! A [`Question`] says what a player's absence means ([`Game`]), which value index is computed, who the
//! players are, how many evaluations are allowed where values are estimated, and the seed. It is plain data:
//! an explanation can be reproduced from it, and it can be sent to another process. Front ends build
//! questions from named [`Settings`], so that a setting's name, range, default and help are defined in one
//! place.

mod settings;

use serde::{Deserialize, Serialize};

pub use settings::{QuestionSetting, SETTINGS, Settings, Source, Subject};

pub use crate::attribution::sampled_shapley::Budget;
use crate::coalition_structure::CoalitionStructure;
use crate::explanation::Provenance;
use crate::game::Game;
use crate::index::ValueIndex;
use crate::model_card::CardEntry;
use crate::table::{Column, Players};

/// The estimator of a black-box function's values. Models with a known kernel do not use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueEstimator {
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
    /// The meaning of a player's absence.
    pub game: Game,
    /// The value index to compute.
    pub index: ValueIndex,
    /// The players; `None` for one a column.
    pub players: Option<Players>,
    /// The estimator of a function's values.
    pub estimator: ValueEstimator,
    /// The number of coalitions to value, in games that value coalitions, and the seed.
    pub budget: Budget,
    /// For [`ValueIndex::Owen`]: the players that form a union, and unions of unions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unions: Vec<CoalitionStructure>,
    /// Whether a classifier's probabilities are explained, and not the outputs that they are made of.
    #[serde(default)]
    pub probabilities: bool,
    /// Whether values are to say how sure they are: by their covariance under the model's posterior, in exact
    /// games.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub covariance: bool,
}

impl Question {
    /// The players among these columns.
    pub fn players_of(&self, columns: &[Column]) -> Players {
        self.players.clone().unwrap_or_else(|| Players::singletons(columns))
    }

    /// Where an explanation that answers it comes from, with facts about the model and the run.
    pub(crate) fn provenance(&self, model: Vec<CardEntry>, run: Vec<CardEntry>) -> Provenance {
        let version = CardEntry::new("riesz", env!("CARGO_PKG_VERSION"));
        Provenance {
            game: self.game.name().into(),
            absent: self.game.absent(),
            model,
            run: std::iter::once(version).chain(run).collect(),
        }
    }

    /// This question for other players.
    #[must_use]
    pub fn with_players(self, players: Option<Players>) -> Self {
        Self { players, ..self }
    }

    /// This question for another value index.
    #[must_use]
    pub fn with_index(self, index: ValueIndex) -> Self {
        Self { index, ..self }
    }

    /// This question, with the posterior covariance of values.
    #[must_use]
    pub fn with_covariance(self) -> Self {
        Self { covariance: true, ..self }
    }

    /// This question for Owen values under this coalition structure.
    #[must_use]
    pub fn with_unions(self, unions: Vec<CoalitionStructure>) -> Self {
        Self { index: ValueIndex::Owen, unions, ..self }
    }

    /// This question with another budget.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }
}

impl From<Game> for Question {
    /// For one player a column, within the default budget.
    fn from(game: Game) -> Self {
        Self {
            game,
            index: ValueIndex::default(),
            players: None,
            estimator: ValueEstimator::KernelShap,
            budget: Budget::default(),
            unions: Vec::new(),
            probabilities: false,
            covariance: false,
        }
    }
}

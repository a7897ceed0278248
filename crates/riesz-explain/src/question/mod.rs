//! Questions: the game, the index, the players, and the budget of an explanation.
//!
//! A [`Question`] holds the [`Game`], the value index, the players, the maximum number of evaluations for
//! estimated values, and the seed. It is plain data: an explanation can be reproduced from it, and it can be
//! sent to another process. Front ends build questions from named [`Settings`], so that the name, range,
//! default and help of a setting are defined in one place.

mod settings;

use serde::{Deserialize, Serialize};

pub use settings::{QuestionSetting, SETTINGS, Settings, Source, Subject};

pub use crate::attribution::sampled_shapley::Budget;
use crate::coalition_structure::CoalitionStructure;
use crate::error::{Error, Result};
use crate::explanation::Provenance;
use crate::game::Game;
use crate::index::ValueIndex;
use crate::model_card::CardEntry;
use crate::table::{Column, Players};

/// The estimator of a black-box function's values. Models with a known kernel do not use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueEstimator {
    /// Estimates from the values of coalitions, within the [`Budget`].
    KernelShap,
    /// Estimates along random orders of the players, for the interventional and the baseline game.
    Permutation {
        /// Number of orders for each background row, each with its reverse; at least 2, as a standard error
        /// needs.
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
    /// The players; `None` for one player per column.
    pub players: Option<Players>,
    /// The estimator of a function's values.
    pub estimator: ValueEstimator,
    /// The maximum number of coalitions, for games that value coalitions, and the seed.
    pub budget: Budget,
    /// For [`ValueIndex::Owen`]: unions of players, which may contain unions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unions: Vec<CoalitionStructure>,
    /// Groups of players, by name, in causal order, for asymmetric Shapley values (Frye, Rowat and Feige
    /// 2020): the average is over the orders of players in which earlier groups come first. Every player is
    /// in a group. Empty for Shapley values. For the observational and the causal game of kernel models;
    /// the budget of coalitions is that of each group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ordering: Vec<Vec<String>>,
    /// Whether to explain a classifier's probabilities instead of the outputs from which they are computed.
    #[serde(default)]
    pub probabilities: bool,
    /// Whether to compute the covariance of the values under the model's posterior, in exact games.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub covariance: bool,
    /// Whether to compute the covariance of the values from the estimation of the conditional distributions,
    /// in the observational game.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub conditional_uncertainty: bool,
}

impl Question {
    /// The players over these columns.
    pub fn players_of(&self, columns: &[Column]) -> Players {
        self.players.clone().unwrap_or_else(|| Players::singletons(columns))
    }

    /// The provenance of an explanation that answers this question, with entries about the model and the run.
    pub(crate) fn provenance(&self, model: Vec<CardEntry>, run: Vec<CardEntry>) -> Provenance {
        Provenance::of_run(self.game.name(), self.game.absent(), model, run)
    }

    /// Whether the game values the coalitions of a kernel model one by one.
    pub(crate) fn values_model_coalitions(&self) -> bool {
        !self.probabilities && matches!(self.game, Game::Observational { .. } | Game::Causal { .. })
    }

    /// Checks that the question has no ordering of the players.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub(crate) fn reject_ordering(&self) -> Result<()> {
        if self.ordering.is_empty() {
            return Ok(());
        }
        let names = self.ordering.iter().map(|group| group.join(", ")).collect::<Vec<_>>().join("; ");
        let allowed = "asymmetric values are those of a kernel model in the observational or the causal \
                       game; the causal game with one confounded component is the interventional game";
        Err(Error::parameter("ordering", names, allowed))
    }

    /// This question with asymmetric Shapley values for this ordering of the players.
    #[must_use]
    pub fn with_ordering(self, ordering: Vec<Vec<String>>) -> Self {
        Self { ordering, ..self }
    }

    /// This question with other players.
    #[must_use]
    pub fn with_players(self, players: Option<Players>) -> Self {
        Self { players, ..self }
    }

    /// This question with another value index.
    #[must_use]
    pub fn with_index(self, index: ValueIndex) -> Self {
        Self { index, ..self }
    }

    /// This question with the posterior covariance of the values.
    #[must_use]
    pub fn with_covariance(self) -> Self {
        Self { covariance: true, ..self }
    }

    /// This question with the uncertainty of the conditional distributions.
    #[must_use]
    pub fn with_conditional_uncertainty(self) -> Self {
        Self { conditional_uncertainty: true, ..self }
    }

    /// This question with Owen values under this coalition structure.
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
    /// The question with one player per column and the default budget.
    fn from(game: Game) -> Self {
        Self {
            game,
            index: ValueIndex::default(),
            players: None,
            estimator: ValueEstimator::KernelShap,
            budget: Budget::default(),
            unions: Vec::new(),
            ordering: Vec::new(),
            probabilities: false,
            covariance: false,
            conditional_uncertainty: false,
        }
    }
}

//! Questions: what is asked of a model.
//!
//! A [`Question`] says what it means that a player is absent ([`Game`]), which value they get, who the
//! players are, how much may be evaluated where values have to be estimated, and the seed. It is plain data:
//! what an explanation is reproduced from, and what is sent to whoever computes it. Front ends make questions
//! from named [`Settings`], so that a setting's name, range, default and help stand in one place.

mod settings;

use serde::{Deserialize, Serialize};

pub use settings::{QuestionSetting, SETTINGS, Settings, Source, Subject};

pub use crate::attribution::sampled_shapley::Budget;
use crate::coalition_structure::CoalitionStructure;
use crate::explanation::{Fact, Provenance};
use crate::game::Game;
use crate::index::ValueIndex;
use crate::table::{Column, Players};

/// How the values of a function are found. Models whose kernel is known have no use for it.
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
    /// What it means that a player is absent.
    pub game: Game,
    /// Which value is asked for.
    pub index: ValueIndex,
    /// The players; `None` for one a column.
    pub players: Option<Players>,
    /// How a function's values are found.
    pub estimator: ValueEstimator,
    /// How many coalitions are valued, in games that value any, and the seed of what is drawn.
    pub budget: Budget,
    /// For [`ValueIndex::Owen`]: which players stand together, and which unions of them.
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
    pub(crate) fn provenance(&self, model: Vec<Fact>, run: Vec<Fact>) -> Provenance {
        let version = Fact::new("riesz", env!("CARGO_PKG_VERSION"));
        Provenance {
            game: self.game.name().into(),
            absent: self.game.absent(),
            model,
            run: std::iter::once(version).chain(run).collect(),
        }
    }

    /// The same question for other players.
    #[must_use]
    pub fn with_players(self, players: Option<Players>) -> Self {
        Self { players, ..self }
    }

    /// The same question for another value.
    #[must_use]
    pub fn with_index(self, index: ValueIndex) -> Self {
        Self { index, ..self }
    }

    /// The same question, which also asks how sure values are.
    #[must_use]
    pub fn with_covariance(self) -> Self {
        Self { covariance: true, ..self }
    }

    /// The same question for Owen values, where these players and unions of them stand together.
    #[must_use]
    pub fn with_unions(self, unions: Vec<CoalitionStructure>) -> Self {
        Self { index: ValueIndex::Owen, unions, ..self }
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

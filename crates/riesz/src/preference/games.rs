//! Games of duels: the question, and the description of the game in explanations.

use crate::attribution::sampled_shapley::Budget;
use crate::embedding::Conditioning;
use crate::explanation::{Exactness, Explanation};
use crate::game::{Background, Part};
use crate::index::ValueIndex;
use crate::model_card::CardEntry;
use crate::table::Table;

/// The values of absent columns of both items. Tables of items have the items' columns, with names without
/// `left_` and `right_`.
#[derive(Debug, Clone)]
pub enum DuelGame {
    /// The left item takes it from one of these items, and the right item from another one, drawn
    /// independently. The value of a coalition is the log odds of two random items with its present columns.
    /// For more than 13 players, batches of pairs of items are drawn, see [`DuelQuestion::shifts`].
    Independent(Background),
    /// Both items take it from the same one of these items: all else equal.
    Paired(Background),
    /// The two items take it from those of a duel in these rows, in either order. The table has the form of
    /// the explained duels. In contrast to independent items, these items did meet.
    Matches(Table),
    /// Both items take it from this item, a table of one row.
    Baseline(Table),
    /// Its factor is 1 for both items.
    Functional,
    /// The column of each item follows its distribution given the item's present columns, learnt from these
    /// items.
    Observational(Background, Conditioning),
}

/// A question about duels.
#[derive(Debug, Clone)]
pub struct DuelQuestion {
    /// The values of absent columns of items; `None` if items are always present and contexts are the
    /// players.
    pub game: Option<DuelGame>,
    /// The distribution of absent columns of contexts, which is independent of the items: that of background
    /// rows, or given the present columns of the context (Pref-SHAP, proposition 4). `None` if contexts are
    /// always present.
    pub contexts: Option<Part>,
    /// The players, as lists of names of items' and contexts' columns; a column in no list is a player of its
    /// own.
    pub groups: Vec<(String, Vec<String>)>,
    /// The index of the values.
    pub index: ValueIndex,
    /// Whether values come with their covariance under the posterior, see
    /// [`Question::covariance`](crate::Question::covariance).
    pub covariance: bool,
    /// The number of batches of pairs of items that are drawn, for independent items of more than 13 players
    /// and too many pairs.
    pub shifts: usize,
    /// The number of random orders of the players, at least 16, from which values are estimated. Each order
    /// is also used in reverse, and has its own draw of items for absent columns. This is for models of many
    /// columns and landmarks, whose exact values are expensive; it estimates Shapley values of items, in
    /// games with a background. `None` for exact values, or those of batches (`shifts`).
    pub permutations: Option<usize>,
    /// The budget of coalitions, for Shapley values in the observational game and in games with absent
    /// contexts. With `None` all coalitions of up to 16 players are valued, and 4096 of more players.
    pub budget: Option<Budget>,
    /// The seed of all random draws.
    pub seed: u64,
}

impl DuelQuestion {
    /// Creates the question for Shapley values of all columns, with contexts always present.
    pub fn new(game: DuelGame) -> Self {
        Self {
            game: Some(game),
            contexts: None,
            groups: Vec::new(),
            index: ValueIndex::default(),
            covariance: false,
            shifts: 16,
            permutations: None,
            budget: None,
            seed: 0,
        }
    }
}

impl DuelGame {
    /// Returns the game's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Independent(_) => "independent",
            Self::Paired(_) => "paired",
            Self::Matches(_) => "matches",
            Self::Baseline(_) => "baseline",
            Self::Functional => "functional",
            Self::Observational(..) => "observational",
        }
    }

    /// Returns a sentence that describes absent features.
    fn describe_absence(&self) -> String {
        match self {
            Self::Independent(items) => format!(
                "absent features of the two items are those of two random ones of {} items, drawn \
                 independently",
                items.rows.rows()
            ),
            Self::Paired(items) => format!(
                "absent features of both items are those of the same random one of {} items, all else equal",
                items.rows.rows()
            ),
            Self::Matches(duels) => format!(
                "absent features of the two items are those of the items in a random one of {} duels, in \
                 either order",
                duels.rows()
            ),
            Self::Baseline(_) => "absent features of both items are those of one given item".into(),
            Self::Functional => "the kernel factors of absent features are 1 for both items".into(),
            Self::Observational(items, _) => format!(
                "absent features of either item follow their distribution given its present ones, learnt \
                 from {} items",
                items.rows.rows()
            ),
        }
    }
}

/// Replaces the description of the game of rows by that of the game of duels.
pub(super) fn relabel(explanation: &mut Explanation, question: &DuelQuestion) {
    let contexts = question.contexts.as_ref().map(|Part { background, conditional }| {
        let count = background.rows.rows();
        match conditional {
            None => format!("absent columns of contexts are those of a random one of {count} contexts"),
            Some(_) => format!(
                "absent columns of contexts follow their distribution given the present ones, learnt from \
                 {count} contexts"
            ),
        }
    });
    let name = question.game.as_ref().map_or("contexts", DuelGame::name);
    let context_text = if question.game.is_some() && contexts.is_some() { " and contexts" } else { "" };
    // A sampled explanation already describes its share of all pairs.
    let is_sampled = matches!(explanation.exactness, Exactness::Estimated { .. })
        && matches!(question.game, Some(DuelGame::Independent(_)));
    let absence = if is_sampled {
        Some(std::mem::take(&mut explanation.provenance.absent))
    } else {
        question.game.as_ref().map(DuelGame::describe_absence)
    };
    explanation.provenance.game = format!("Pref-SHAP, {name}{context_text}");
    explanation.provenance.absent = absence.into_iter().chain(contexts).collect::<Vec<_>>().join("; ");
    let explained = "the log odds that the left item wins its duel";
    explanation.provenance.run.push(CardEntry::new("explained", explained));
}

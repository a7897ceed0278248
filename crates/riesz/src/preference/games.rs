//! Games of duels: the question, and its description in explanations, whichever game of rows computes them.

use crate::embedding::Conditioning;
use crate::explanation::{Exactness, Explanation};
use crate::game::Background;
use crate::index::ValueIndex;
use crate::model_card::CardEntry;
use crate::table::Table;

/// The values that absent columns of both items take. Tables of items have the items' columns, under their
/// names without `left_` and `right_`.
#[derive(Debug, Clone)]
pub enum DuelGame {
    /// The left item takes it from one of these items, and the right one from another, drawn on its own: the
    /// odds of two random items of whom no more is known than the present columns. Of more than 13 players in
    /// portions of pairs of items, see [`DuelQuestion::shifts`].
    Independent(Background),
    /// Both take it from the same one of these items: all else equal.
    Paired(Background),
    /// The items take it from the two of a duel among these rows, a table as that of the explained duels,
    /// either way round: as independent, among items who do meet.
    Matches(Table),
    /// Both take it from this item, a table of one row.
    Baseline(Table),
    /// Its factor is 1 for both items.
    Functional,
    /// Either item's follows its distribution given the item's present columns, learnt from these items.
    Observational(Background, Conditioning),
}

/// A question about duels.
#[derive(Debug, Clone)]
pub struct DuelQuestion {
    /// The values that absent columns of items take; `None` where items are always present, and contexts are
    /// the players.
    pub game: Option<DuelGame>,
    /// The values that absent columns of contexts take; `None` where they are always present. Contexts are
    /// drawn independently of the items.
    pub contexts: Option<Background>,
    /// The players, as lists of names of items' and contexts' columns; a column in no list is a player of its
    pub groups: Vec<(String, Vec<String>)>,
    /// Which value.
    pub index: ValueIndex,
    /// Whether values are to come with their covariance under the posterior, see
    /// [`Question::covariance`](crate::Question::covariance).
    pub covariance: bool,
    /// Independent items of more than 13 players: how many portions of pairs of items are drawn, where all
    /// are too many.
    pub shifts: usize,
    /// Along how many random orders of the players, at least 16, values are estimated, each with its reverse,
    /// and with items that absent columns are taken from drawn for each: for models of many columns and
    /// landmarks, whose exact values take long. `None` for exact values, or as `shifts` says. Shapley values
    /// of items, in games with a background.
    pub permutations: Option<usize>,
    /// Seed of what is drawn.
    pub seed: u64,
}

impl DuelQuestion {
    /// For Shapley values of all columns, contexts always present.
    pub fn new(game: DuelGame) -> Self {
        Self {
            game: Some(game),
            contexts: None,
            groups: Vec::new(),
            index: ValueIndex::default(),
            covariance: false,
            shifts: 16,
            permutations: None,
            seed: 0,
        }
    }
}

impl DuelGame {
    /// Its name.
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

    /// A sentence that describes absent features.
    fn describe_absence(&self) -> String {
        match self {
            Self::Independent(items) => format!(
                "absent features of the two items are those of two random ones of {} items, drawn one a side",
                items.rows.rows()
            ),
            Self::Paired(items) => format!(
                "in absent features both items are like the same random one of {} items, all else equal",
                items.rows.rows()
            ),
            Self::Matches(duels) => format!(
                "absent features of the two items are those of the two in a random one of {} duels, either \
                 way round",
                duels.rows()
            ),
            Self::Baseline(_) => "in absent features both items are like one given item".into(),
            Self::Functional => "the kernel factors of absent features are 1 for both items".into(),
            Self::Observational(items, _) => format!(
                "absent features of either item are what they are like given its present ones, learnt from \
                 {} items",
                items.rows.rows()
            ),
        }
    }
}

/// Replaces the description of the game of rows by that of the game of duels.
pub(super) fn relabel(explanation: &mut Explanation, question: &DuelQuestion) {
    let contexts = question.contexts.as_ref().map(|background| {
        format!("absent columns of contexts are those of a random one of {} contexts", background.rows.rows())
    });
    let name = question.game.as_ref().map_or("contexts", DuelGame::name);
    let context_text = if question.game.is_some() && contexts.is_some() { " and contexts" } else { "" };
    // A sampled explanation already describes its share of all pairs.
    let drawn = matches!(explanation.exactness, Exactness::Estimated { .. })
        && matches!(question.game, Some(DuelGame::Independent(_)));
    let items = if drawn {
        Some(std::mem::take(&mut explanation.provenance.absent))
    } else {
        question.game.as_ref().map(DuelGame::describe_absence)
    };
    explanation.provenance.game = format!("Pref-SHAP, {name}{context_text}");
    explanation.provenance.absent = items.into_iter().chain(contexts).collect::<Vec<_>>().join("; ");
    let explained = "the log odds that the left item wins its duel";
    explanation.provenance.run.push(CardEntry::new("explained", explained));
}

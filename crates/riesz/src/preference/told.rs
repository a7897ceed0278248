//! What explanations of duels say of themselves: the game as it is played with duels, whatever game of rows it takes to compute it.

use super::explain::{DuelGame, DuelQuestion};
use crate::explanation::{Exactness, Explanation, Fact};

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

    /// What absent features are, in a sentence.
    fn absent(&self) -> String {
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
                "absent features of the two items are those of the two in a random one of {} duels, either way round",
                duels.rows()
            ),
            Self::Baseline(_) => "in absent features both items are like one given item".into(),
            Self::Functional => "the kernel factors of absent features are 1 for both items".into(),
            Self::Observational(items, _) => format!(
                "absent features of either item are what they are like given its present ones, learnt from {} items",
                items.rows.rows()
            ),
        }
    }
}

/// Puts the game of duels in the place of the one of rows.
pub(super) fn described(found: &mut Explanation, question: &DuelQuestion) {
    let contexts = question.contexts.as_ref().map(|own| {
        format!("absent columns of contexts are those of a random one of {} contexts", own.rows.rows())
    });
    let name = question.game.as_ref().map_or("contexts", DuelGame::name);
    let beside = if question.game.is_some() && contexts.is_some() { " and contexts" } else { "" };
    // What is drawn says how much of all pairs it is.
    let drawn = matches!(found.exactness, Exactness::Estimated { .. })
        && matches!(question.game, Some(DuelGame::Independent(_)));
    let items = if drawn {
        Some(std::mem::take(&mut found.provenance.absent))
    } else {
        question.game.as_ref().map(DuelGame::absent)
    };
    found.provenance.game = format!("Pref-SHAP, {name}{beside}");
    found.provenance.absent = items.into_iter().chain(contexts).collect::<Vec<_>>().join("; ");
    let explained = "the log odds that the left item wins its duel";
    found.provenance.run.push(Fact::new("explained", explained));
}

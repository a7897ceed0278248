//! Reasons why a causal question has no answer. Each names the culprit and a remedy.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name_lists::{and, listed};

/// The reason why a graph cannot be used, or why an effect does not follow from the graph and the measured
/// variables. Fields count studies from 0, messages from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentificationError {
    /// A cycle of arrows.
    #[error(
        "the graph has a cycle, {}: causes come before their effects, so remove one of these arrows",
        cycle.join(" -> ")
    )]
    CyclicGraph {
        /// The variables in the order of the cycle; the first variable is repeated at the end.
        cycle: Vec<String>,
    },
    /// A variable with an arrow to itself.
    #[error("'{name}' has an arrow to itself: remove it")]
    SelfLoop {
        /// The variable.
        name: String,
    },
    /// A name that is not a variable of the graph.
    #[error("the graph has no variable '{name}'; {}", suggest_similar(near, variables))]
    UnknownVariable {
        /// The name.
        name: String,
        /// Variables with a similar spelling.
        near: Vec<String>,
        /// All names.
        variables: Vec<String>,
    },
    /// A treatment that is also the outcome.
    #[error("'{name}' cannot be the treatment and the outcome: give two variables")]
    TreatmentIsOutcome {
        /// The variable.
        name: String,
    },
    /// A required column that a study does not have.
    #[error("study {} has no column '{name}', {role}: {}", study + 1, suggest_similar(near, columns))]
    Unmeasured {
        /// The column.
        name: String,
        /// The role of the column.
        role: &'static str,
        /// The index of the study.
        study: usize,
        /// Columns with a similar spelling.
        near: Vec<String>,
        /// All of the study's columns.
        columns: Vec<String>,
    },
    /// Two successive studies without a shared column through which an effect could pass.
    #[error(
        "studies {} and {} share no column that could carry the effect: study {} has {}, study {} has {}",
        study + 1, study + 2, study + 1, and(columns1), study + 2, and(columns2)
    )]
    NoBridge {
        /// The first of the two studies.
        study: usize,
        /// The usable columns of this study.
        columns1: Vec<String>,
        /// The usable columns of the next study.
        columns2: Vec<String>,
    },
    /// An effect that does not pass only through the columns that the studies share.
    #[error(
        "{outcome} depends on {} beyond what studies {} and {} share{}: {open_path} stays open{}",
        and(on), study + 1, study + 2, describe_held(conditions), suggest_fix(would_help, " in both studies")
    )]
    Unmediated {
        /// The first of the two studies.
        study: usize,
        /// The outcome.
        outcome: String,
        /// The variables on which the outcome depends: the treatments, or columns that earlier studies share.
        on: Vec<String>,
        /// The columns that the two studies share and on which the outcome depends.
        conditions: Vec<String>,
        /// A path that carries the dependence.
        open_path: String,
        /// Lists of variables; measuring the variables of any list in both studies would close all paths.
        would_help: Vec<Vec<String>>,
    },
    /// A distribution that cannot be transported, because the populations differ in a relevant mechanism.
    #[error(
        "study {}'s distribution of {} given {} does not hold in study {}, as they differ in {variable}: \
         {open_path} stays open",
        from + 1, and(outcome), describe_given(conditions), to + 1
    )]
    NotTransportable {
        /// The study whose distribution would be used elsewhere.
        from: usize,
        /// The study in which it would be used.
        to: usize,
        /// The outcome of the distribution.
        outcome: Vec<String>,
        /// The variables on which the distribution conditions.
        conditions: Vec<String>,
        /// The variable whose mechanism differs.
        variable: String,
        /// A path from the difference to the outcome.
        open_path: String,
    },
    /// An effect that no formula identifies from the variables of the first study.
    #[error(
        "the effect of {} on {} is not identified in study 1, {why} nor by any other formula, because {}: \
         {} {} open{}{}",
        and(treatments), and(outcomes), hedge_words(hedge), and(open_paths),
        if open_paths.len() == 1 { "stays" } else { "stay" }, suggest_fix(would_help, " in study 1"),
        instrument_words(instrument.as_ref(), treatments)
    )]
    NotIdentified {
        /// The treatments.
        treatments: Vec<String>,
        /// The variables that the treatments may affect: the mediators, or the outcome of a single study.
        outcomes: Vec<String>,
        /// Description of the adjustment sets that were tried.
        why: String,
        /// Open paths other than the causal ones.
        open_paths: Vec<String>,
        /// Lists of variables; measuring the variables of any list would make an adjustment set available.
        would_help: Vec<Vec<String>>,
        /// The hedge that proves that no formula exists.
        hedge: Hedge,
        /// An instrument, which would identify the effect under further assumptions.
        instrument: Option<Instrument>,
    },
    /// An effect that is identified, but by no adjustment that riesz estimates.
    #[error(
        "the effect of {} on {outcome} is identified, but not by an adjustment that riesz estimates: \
         {formula}{}",
        and(treatments),
        suggest_fix(would_help, " in study 1")
    )]
    NotEstimated {
        /// The treatments.
        treatments: Vec<String>,
        /// The outcome.
        outcome: String,
        /// The formula, in words and symbols.
        formula: String,
        /// Lists of variables; measuring the variables of any list would make an adjustment available.
        would_help: Vec<Vec<String>>,
    },
    /// A set of variables, given by the user, that contradicts the graph.
    #[error(
        "{role} {} does not give the effect of {} on {}: {open_path} stays open{}",
        and(set),
        and(treatments),
        and(outcomes),
        suggest_alternative(instead)
    )]
    UnfitSet {
        /// The set.
        set: Vec<String>,
        /// The role of the set ("adjusting for", "a front door through").
        role: &'static str,
        /// The treatments.
        treatments: Vec<String>,
        /// The variables that the treatments may affect.
        outcomes: Vec<String>,
        /// An open path: not a causal one, or for a front door a causal one that avoids the set.
        open_path: String,
        /// A set for the same purpose that the graph allows, if there is one.
        instead: Option<Vec<String>>,
    },
    /// A variable that the user's set must not contain.
    #[error("{name} cannot be {role}: {why}")]
    UnfitVariable {
        /// The variable.
        name: String,
        /// The role of the set.
        role: &'static str,
        /// The reason why the variable is invalid.
        why: String,
    },
    /// Treatments that do not affect the outcome.
    #[error(
        "{finding}: there is no effect to estimate; the mean of {outcome} in the last study is the answer"
    )]
    NoEffect {
        /// Description of the finding.
        finding: String,
        /// The outcome.
        outcome: String,
    },
    /// An effect that is identified, but not implemented.
    #[error(
        "the effect is identified, but {outcome} depends on {} beside the mediators, which the treatments \
         do not affect: with {way} this is not computed yet",
        and(passive)
    )]
    NotComputed {
        /// The outcome.
        outcome: String,
        /// Shared columns, other than the mediators, on which the outcome depends.
        passive: Vec<String>,
        /// The option with which such an effect is not implemented.
        way: &'static str,
    },
    /// A study with too few usable rows.
    #[error("study {} has {rows} rows{}: at least {needed} are \
             needed", study + 1, each_words(complete_columns))]
    FewRows {
        /// The study.
        study: usize,
        /// The number of usable rows.
        rows: usize,
        /// The columns that must all have a value; empty if no column has missing values.
        complete_columns: Vec<String>,
        /// The number of rows that are needed.
        needed: usize,
    },
    /// A column without variation.
    #[error(
        "{name} is the same in all {rows} rows of study {} that can be used: give rows in which it varies",
        study + 1
    )]
    Constant {
        /// The column.
        name: String,
        /// The number of usable rows.
        rows: usize,
        /// The study.
        study: usize,
    },
    /// An outcome that holds text.
    #[error("the outcome {name} is text in study {}: give numbers", study + 1)]
    TextOutcome {
        /// The outcome.
        name: String,
        /// The study.
        study: usize,
    },
    /// A mediator whose values in two successive studies do not overlap.
    #[error(
        "no common support in {name}: {description}: {}, or rows of study {} that resemble rows of study {}",
        if *levels { "name the same levels \
                      alike" } else { "give both in the same \
                                                            units" }, study + 2, study + 1
    )]
    NoCommonSupport {
        /// The mediator.
        name: String,
        /// Description of the column in each study.
        description: String,
        /// Whether the mediator is categorical.
        levels: bool,
        /// The first of the two studies.
        study: usize,
    },
}

impl IdentificationError {
    /// The refusal of an effect that is not identified as JSON, with the hedge and the instrument; `None` for
    /// other refusals.
    pub fn not_identified_record(&self) -> Option<serde_json::Value> {
        let Self::NotIdentified { treatments, outcomes, open_paths, would_help, hedge, instrument, .. } =
            self
        else {
            return None;
        };
        Some(serde_json::json!({
            "identified": false,
            "treatments": treatments,
            "outcomes": outcomes,
            "hedge": hedge,
            "instrument": instrument,
            "open_paths": open_paths,
            "would_help": would_help,
            "description": self.to_string(),
        }))
    }
}

/// The reason why no formula identifies an effect: two sets of measured variables, each connected by hidden
/// common causes. The larger set contains treatments, the smaller one does not. All members of the larger set
/// are causes, within it, of members of the smaller one. The members of the smaller set cause the outcomes
/// when the treatments are set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hedge {
    /// The larger set F.
    pub larger: Vec<String>,
    /// The smaller set F'.
    pub smaller: Vec<String>,
    /// The treatments in the larger set.
    pub treatments: Vec<String>,
    /// Pairs of the larger set with a hidden common cause, which may be an unmeasured variable of the graph.
    pub confounded: Vec<(String, String)>,
}

/// A variable Z that is an instrument for the effect of a treatment X on an outcome Y given covariates W.
/// Neither Z nor any of W is an effect of X. Z is independent of Y given W in the graph without arrows out of
/// X, and Z and X are dependent given W.
///
/// An instrument identifies the effect only under further assumptions: a linear effect, for example, is
/// cov(Z, Y | W) / cov(Z, X | W) (two-stage least squares). Source: Pearl 2009, section 7.4; Brito and Pearl
/// 2002.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instrument {
    /// The instrument Z.
    pub variable: String,
    /// The covariates W, all of which are necessary.
    #[serde(rename = "given")]
    pub conditioning: Vec<String>,
}

impl Instrument {
    /// Returns a sentence that describes the instrument and the conclusion that it allows.
    pub(crate) fn sentence(&self, treatment: &str) -> String {
        let condition = if self.conditioning.is_empty() {
            String::new()
        } else {
            format!(" given {}", and(&self.conditioning))
        };
        format!(
            "{} is an instrument for {treatment}{condition}, which gives the effect if that is linear \
             (two-stage least squares), but riesz does not estimate this",
            self.variable
        )
    }
}

fn describe_given(conditions: &[String]) -> String {
    if conditions.is_empty() { "nothing else".into() } else { and(conditions) }
}

fn each_words(columns: &[String]) -> String {
    if columns.is_empty() {
        String::new()
    } else {
        format!(" with a value in each of {}", columns.join(", "))
    }
}

fn describe_held(conditions: &[String]) -> String {
    if conditions.is_empty() { String::new() } else { format!(" ({})", and(conditions)) }
}

fn suggest_similar(near: &[String], available: &[String]) -> String {
    if near.is_empty() {
        format!("there are: {}", listed(available))
    } else {
        format!("did you mean {}?", near.join(" or "))
    }
}

fn suggest_alternative(alternative: &Option<Vec<String>>) -> String {
    match alternative {
        None => String::new(),
        Some(set) if set.is_empty() => "; the empty set would do".into(),
        Some(set) => format!("; {} would do", and(set)),
    }
}

fn hedge_words(hedge: &Hedge) -> String {
    let pairs: Vec<String> = hedge.confounded.iter().map(|(a, b)| format!("{a} <-> {b}")).collect();
    format!(
        "the hidden common causes {} connect {} with {} (a hedge: {{{}}} and {{{}}})",
        and(&pairs),
        and(&hedge.treatments),
        and(&hedge.smaller),
        hedge.larger.join(", "),
        hedge.smaller.join(", ")
    )
}

fn instrument_words(instrument: Option<&Instrument>, treatments: &[String]) -> String {
    instrument.map_or_else(String::new, |tool| format!("; {}", tool.sentence(&and(treatments))))
}

fn suggest_fix(would_help: &[Vec<String>], place: &str) -> String {
    const SHOWN: usize = 5;
    if would_help.is_empty() {
        return "; measuring more of the graph's variables does not help".into();
    }
    let suggestions: Vec<String> = would_help.iter().take(SHOWN).map(|names| and(names)).collect();
    format!("; measuring {}{place} would help", suggestions.join(", or "))
}

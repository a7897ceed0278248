//! Reasons why a causal question has no answer, each with the culprit and a remedy.

use thiserror::Error;

use crate::causal::{Hedge, Instrument};

/// Why a graph cannot be used, or an effect cannot be had from it and what was measured. Studies are counted
/// from 0 in the fields, from 1 in messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentificationError {
    /// Arrows that lead back to where they began.
    #[error(
        "the graph has a cycle, {}: causes come before their effects, so take one of these arrows out",
        cycle.join(" -> ")
    )]
    CyclicGraph {
        /// The variables in order, the first again as the last.
        cycle: Vec<String>,
    },
    /// A variable that is its own cause.
    #[error("'{name}' has an arrow to itself: take it out")]
    SelfLoop {
        /// The variable.
        name: String,
    },
    /// A name that the graph has not.
    #[error("the graph has no variable '{name}'; {}", suggest_similar(near, variables))]
    UnknownVariable {
        /// The name.
        name: String,
        /// Names that are spelt much like it.
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
    /// A column that a study must have.
    #[error("study {} has no column '{name}', {role}: {}", study + 1, suggest_similar(near, columns))]
    Unmeasured {
        /// The column.
        name: String,
        /// The role of the column.
        role: &'static str,
        /// The study.
        study: usize,
        /// Columns that are spelt much like it.
        near: Vec<String>,
        /// All of the study's columns.
        columns: Vec<String>,
    },
    /// Studies that share no column through which an effect could pass.
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
    /// An effect that does not pass through what the studies share alone.
    #[error(
        "{outcome} depends on {} beyond what studies {} and {} share{}: {open_path} stays open{}",
        and(on), study + 1, study + 2, describe_held(conditions), suggest_fix(would_help, " in both studies")
    )]
    Unmediated {
        /// The first of the two studies.
        study: usize,
        /// The outcome.
        outcome: String,
        /// On what it depends: the treatments, or what earlier studies share.
        on: Vec<String>,
        /// The columns that the two studies share and on which the outcome depends.
        conditions: Vec<String>,
        /// A path that carries the dependence.
        open_path: String,
        /// Lists of variables each of which, in both studies, would close all paths.
        would_help: Vec<Vec<String>>,
    },
    /// Populations that differ in what matters.
    #[error(
        "what study {} says of {} given {} does not hold in study {}, as they differ in {variable}: \
         {open_path} stays open",
        from + 1, and(outcome), describe_given(conditions), to + 1
    )]
    NotTransportable {
        /// The study whose finding is to be used elsewhere.
        from: usize,
        /// Where it is to be used.
        to: usize,
        /// The outcome of the finding.
        outcome: Vec<String>,
        /// The variables that the finding conditions on.
        conditions: Vec<String>,
        /// The variable whose mechanism differs.
        variable: String,
        /// A path from the difference to the outcome.
        open_path: String,
    },
    /// An effect that no formula of what the first study measured gives.
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
        /// The variables that they should affect: the mediators, or the outcome of a single study.
        outcomes: Vec<String>,
        /// Description of the sets that were tried.
        why: String,
        /// Paths that carry more than the effect.
        open_paths: Vec<String>,
        /// Lists of variables each of which, measured too, would give a set.
        would_help: Vec<Vec<String>>,
        /// The proof that there is no formula.
        hedge: Hedge,
        /// An instrument, which would give the effect under further assumptions.
        instrument: Option<Instrument>,
    },
    /// An effect that a formula gives, but no adjustment that riesz estimates.
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
        /// The formula in words and signs.
        formula: String,
        /// Lists of variables each of which, measured too, would give an adjustment.
        would_help: Vec<Vec<String>>,
    },
    /// A given set that the graph contradicts.
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
        /// The variables that they should affect.
        outcomes: Vec<String>,
        /// A path that carries more than the effect, or part of it past a front door.
        open_path: String,
        /// A set for the same use that the graph allows, if there is one.
        instead: Option<Vec<String>>,
    },
    /// A variable that cannot be in a given set.
    #[error("{name} cannot be {role}: {why}")]
    UnfitVariable {
        /// The variable.
        name: String,
        /// The role of the set.
        role: &'static str,
        /// The reason why it is invalid.
        why: String,
    },
    /// Treatments that do not affect the outcome.
    #[error("{finding}: there is no effect to learn, and the mean of {outcome} in the last study says it")]
    NoEffect {
        /// Description of the finding.
        finding: String,
        /// The outcome.
        outcome: String,
    },
    /// An effect that follows from the studies, but is not learnt yet.
    #[error(
        "the effect is identified, but {outcome} depends on {} beside the mediators, which the treatments \
         do not affect: with {way} this is not computed yet",
        and(passive)
    )]
    NotComputed {
        /// The outcome.
        outcome: String,
        /// Shared columns that it depends on beside the mediators.
        passive: Vec<String>,
        /// The option with which it cannot be combined.
        way: &'static str,
    },
    /// A study of which too little can be used.
    #[error("study {} has {rows} rows{}: at least {needed} are \
             needed", study + 1, each_words(complete_columns))]
    FewRows {
        /// The study.
        study: usize,
        /// Rows that can be used.
        rows: usize,
        /// The columns that must all have a value; none if none is missing.
        complete_columns: Vec<String>,
        /// The number of rows that are needed.
        needed: usize,
    },
    /// A column that says nothing.
    #[error(
        "{name} is the same in all {rows} rows of study {} that have all that is needed: nothing can be \
         learnt of it; give rows in which it varies",
        study + 1
    )]
    Constant {
        /// The column.
        name: String,
        /// Rows.
        rows: usize,
        /// The study.
        study: usize,
    },
    /// An outcome of text.
    #[error("the outcome {name} is text in study {}: give numbers", study + 1)]
    TextOutcome {
        /// The outcome.
        name: String,
        /// The study.
        study: usize,
    },
    /// A mediator of which a study and the next have no value in common.
    #[error(
        "no common support in {name}: {description}: {}, or rows of study {} that are like those of study {}",
        if *levels { "name the same levels \
                      alike" } else { "give both in the same \
                                                            units" }, study + 2, study + 1
    )]
    NoCommonSupport {
        /// The mediator.
        name: String,
        /// Description of the column in each study.
        description: String,
        /// Whether it is categorical.
        levels: bool,
        /// The first of the two studies.
        study: usize,
    },
}

impl IdentificationError {
    /// Why an effect is not identified, as JSON with the hedge and the instrument; `None` for other refusals.
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
            "says": self.to_string(),
        }))
    }
}

/// Names as in a sentence: "age, bmi and sex".
pub(crate) fn and<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => "nothing".into(),
        [one] => one.as_ref().into(),
        [most @ .., last_name] => {
            let first_names: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", first_names.join(", "), last_name.as_ref())
        }
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
    const SHOWN: usize = 20;
    if !near.is_empty() {
        return format!("did you mean {}?", near.join(" or "));
    }
    let remaining =
        if available.len() > SHOWN { format!(", … ({} in all)", available.len()) } else { String::new() };
    format!(
        "there are: {}{remaining}",
        available.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ")
    )
}

fn suggest_alternative(instead: &Option<Vec<String>>) -> String {
    match instead {
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

#[cfg(test)]
mod tests {
    use super::and;

    #[test]
    fn names_make_a_sentence() {
        assert_eq!(and(&["a"]), "a");
        assert_eq!(and(&["a", "b", "c"]), "a, b and c");
        assert_eq!(and::<&str>(&[]), "nothing");
    }
}

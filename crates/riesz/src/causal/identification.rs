//! Causal queries and their identification, as plain data with a description in words.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::formula::EffectFormula;
use super::graph::similar_names;
use super::sequential::SequentialStep;
use crate::error::{Error, IdentificationError, Result};
use crate::refusal::and;

/// An effect across studies: which, and what was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CausalQuery {
    /// The treatments: variables that are set, one or several at once.
    pub treatments: Vec<String>,
    /// The outcome.
    pub outcome: String,
    /// The columns of each study. The first has the treatments, the last the outcome; each shares columns
    /// with the next.
    pub studies: Vec<Vec<String>>,
    /// The strategy by which the first study's effect is identified.
    pub strategy: Strategy,
    /// Variables that come about differently in a study (from 0) than in the others. What is not named is
    /// assumed to be the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub differs: BTreeMap<usize, Vec<String>>,
}

impl CausalQuery {
    /// [`IdentificationError::Unmeasured`](crate::causal::IdentificationError::Unmeasured) unless a study has
    /// a column.
    pub(super) fn measured(&self, study: usize, name: &str, role: &'static str) -> Result<()> {
        let columns = &self.studies[study];
        if columns.iter().any(|column| column == name) {
            return Ok(());
        }
        Err(Error::causal(IdentificationError::Unmeasured {
            name: name.into(),
            role,
            study,
            near: similar_names(name, columns),
            columns: columns.clone(),
        }))
    }
}

/// The strategy by which the effect of the treatments in the first study is to be identified.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Strategy {
    /// Derive it from the graph: back-door, else front-door.
    #[default]
    Derive,
    /// The treatments were assigned by chance in the first study, whatever arrows lead into them elsewhere.
    Randomized,
    /// Adjust for these columns.
    Adjust(Vec<String>),
    /// Use the front door through these columns.
    FrontDoor(Vec<String>),
}

/// The way in which an effect is identified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "way", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EffectStrategy {
    /// The treatments do not affect the outcome: its mean is the same whatever they are.
    Constant,
    /// The treatments were randomised. Passive columns of the bridge are adjusted for, as the next study
    /// conditions on them.
    Randomized {
        /// The passive columns.
        adjust: Vec<String>,
    },
    /// Adjustment for columns that are causes, not effects.
    BackDoor {
        /// The columns, passive columns of the bridge among them; of all minimal sets the one nearest to the
        /// outcome, unless given.
        adjust: Vec<String>,
        /// Other inclusion-minimal sets that serve.
        #[serde(rename = "others")]
        alternatives: Vec<Vec<String>>,
        /// Whether these are all; with many candidates they are not listed.
        listed: bool,
    },
    /// Through columns that carry the whole effect in the first study.
    FrontDoor {
        /// The columns.
        #[serde(rename = "through")]
        mediators: Vec<String>,
        /// Passive columns of the bridge, within each value of which this holds.
        #[serde(rename = "given")]
        conditioning: Vec<String>,
        /// Other minimal sets that serve.
        #[serde(rename = "others")]
        alternatives: Vec<Vec<String>>,
        /// Whether these are all.
        listed: bool,
    },
    /// A formula of what the first study measured that is no adjustment. riesz does not estimate it.
    Formula {
        /// The formula in words and signs, such as `P(Y | do(X)) = …`.
        formula: String,
        /// The formula as a tree.
        expression: EffectFormula,
        /// Lists of variables each of which, measured too, would give an adjustment.
        would_help: Vec<Vec<String>>,
    },
    /// One treatment after the other, each by adjusting for covariates that are measured before it and may be
    /// effects of earlier treatments (the g-formula).
    Sequential {
        /// The treatments in causal order, each with the covariates that are added before it.
        steps: Vec<SequentialStep>,
    },
}

/// The columns that link a study to the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bridge {
    /// Shared columns that the treatments affect, and that carry their effect.
    pub mediators: Vec<String>,
    /// Shared columns that the treatments do not affect, and that the outcome depends on beside the
    /// mediators.
    pub passive: Vec<String>,
    /// Shared columns of no use: given the others, they say nothing more of the outcome.
    pub unused: Vec<String>,
}

impl Bridge {
    /// All columns of use, mediators first.
    pub fn columns(&self) -> Vec<String> {
        self.mediators.iter().chain(&self.passive).cloned().collect()
    }
}

/// Who says that the way leads to the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// The strategy follows from the graph.
    Graph,
    /// The user gave the strategy, and the graph confirms it.
    Confirmed,
    /// The user gave the strategy, and there is no graph to check it.
    User,
}

/// The identification of an effect across studies from what was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identification {
    /// The treatments that affect the outcome when all are set.
    pub treatments: Vec<String>,
    /// The treatments that then have no effect.
    pub without_effect: Vec<String>,
    /// The outcome.
    pub outcome: String,
    /// The way in which the treatments' effect on the first bridge, or with one study on the outcome, is
    /// identified from the first study.
    #[serde(rename = "how")]
    pub strategy: EffectStrategy,
    /// Who says so.
    pub source: Provenance,
    /// Between each study and the next.
    pub bridges: Vec<Bridge>,
    /// The assumptions, in sentences.
    pub assumptions: Vec<String>,
    /// Columns that are not used because the graph does not contain them.
    pub unknown: Vec<String>,
}

impl Identification {
    /// The columns of the first study that are adjusted for, of all treatments at once; a sequential
    /// adjustment has [`steps`](EffectStrategy::Sequential) instead.
    pub fn adjustment(&self) -> &[String] {
        match &self.strategy {
            EffectStrategy::Constant | EffectStrategy::Formula { .. } | EffectStrategy::Sequential { .. } => {
                &[]
            }
            EffectStrategy::Randomized { adjust } | EffectStrategy::BackDoor { adjust, .. } => adjust,
            EffectStrategy::FrontDoor { conditioning: given, .. } => given,
        }
    }

    /// Whether riesz estimates an effect that follows in this way.
    ///
    /// # Errors
    /// [`IdentificationError::NotEstimated`] with the formula.
    pub fn estimable(&self) -> Result<()> {
        let EffectStrategy::Formula { formula, would_help, .. } = &self.strategy else { return Ok(()) };
        Err(Error::causal(IdentificationError::NotEstimated {
            treatments: self.treatments.clone(),
            outcome: self.outcome.clone(),
            formula: formula.clone(),
            would_help: would_help.clone(),
        }))
    }

    /// Whether the effect is the same at every value of the treatments.
    pub fn is_constant(&self) -> bool {
        self.strategy == EffectStrategy::Constant
    }
}

/// One sentence, without its full stop.
impl fmt::Display for Identification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let treatments = and(&self.treatments);
        match &self.strategy {
            EffectStrategy::Constant => {
                let verb = if self.without_effect.len() == 1 { "does" } else { "do" };
                return write!(
                    f,
                    "{} {verb} not affect {}: its mean is the same whatever is done",
                    and(&self.without_effect),
                    self.outcome
                );
            }
            EffectStrategy::Randomized { adjust } if adjust.is_empty() => write!(f, "randomized")?,
            EffectStrategy::Randomized { adjust } => write!(f, "randomized, adjusting for {}", and(adjust))?,
            EffectStrategy::BackDoor { adjust, .. } if adjust.is_empty() => {
                write!(f, "back-door, with nothing to adjust for")?
            }
            EffectStrategy::BackDoor { adjust, .. } => write!(f, "back-door, adjusting for {}", and(adjust))?,
            EffectStrategy::FrontDoor { mediators: through, conditioning: given, .. } => {
                write!(f, "front-door through {}", and(through))?;
                if !given.is_empty() {
                    write!(f, ", within each value of {}", and(given))?;
                }
            }
            EffectStrategy::Formula { formula, .. } => {
                write!(f, "identified, but not by an adjustment that riesz estimates: {formula}")?;
            }
            EffectStrategy::Sequential { steps } => {
                let parts =
                    steps.iter().map(|SequentialStep { treatment, adjust }| match adjust.is_empty() {
                        true => treatment.clone(),
                        false => format!("{} before {treatment}", and(adjust)),
                    });
                write!(
                    f,
                    "sequential back-door, adjusting for {}",
                    parts.collect::<Vec<_>>().join(", then ")
                )?;
            }
        }
        if self.source == Provenance::User {
            f.write_str(" (given by the user, not derived)")?;
        }
        let stages: Vec<String> = self.bridges.iter().map(|bridge| and(&bridge.columns())).collect();
        if !stages.is_empty() {
            let verb = if self.treatments.is_empty() { "the treatment" } else { &treatments };
            write!(f, "; {} depends on {verb} only through {}", self.outcome, stages.join(", then "))?;
        }
        if !self.without_effect.is_empty() {
            let verb = if self.without_effect.len() == 1 { "does" } else { "do" };
            write!(f, "; {} {verb} nothing beside {treatments}", and(&self.without_effect))?;
        }
        Ok(())
    }
}

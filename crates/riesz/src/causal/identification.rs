//! Causal queries and their identification, as plain data with a description in words.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::formula::EffectFormula;
use super::graph::similar_names;
use super::sequential::SequentialStep;
use crate::error::{Error, IdentificationError, Result};
use crate::name_lists::and;

/// A query for an effect across studies: treatments, outcome, and the columns that each study measured.
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
    /// Variables whose mechanism in a study (from 0) differs from that in the others. All other mechanisms
    /// are assumed to be the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub differs: BTreeMap<usize, Vec<String>>,
}

impl CausalQuery {
    /// Checks that a study has a column.
    ///
    /// # Errors
    /// [`IdentificationError::Unmeasured`](crate::causal::IdentificationError::Unmeasured) if it does not.
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
    /// Derive the strategy from the graph: back-door if possible, otherwise front-door.
    #[default]
    Derive,
    /// The treatments were assigned by chance in the first study, whatever their causes are elsewhere.
    Randomized,
    /// Adjust for these columns.
    Adjust(Vec<String>),
    /// Use the front door through these columns.
    FrontDoor(Vec<String>),
}

/// The strategy by which an effect is identified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EffectStrategy {
    /// The treatments do not affect the outcome, whose mean is the same for all their values.
    Constant,
    /// The treatments were randomised. Passive columns of the bridge are adjusted for, as the next study
    /// conditions on them.
    Randomized {
        /// The passive columns.
        adjust: Vec<String>,
    },
    /// Adjustment for columns that are not effects of the treatments.
    BackDoor {
        /// The columns, including passive columns of the bridge. Unless the user gives them, they are the
        /// minimal set nearest to the outcome.
        adjust: Vec<String>,
        /// Other inclusion-minimal sets that are valid.
        alternatives: Vec<Vec<String>>,
        /// Whether these are all sets; with many candidates not all are listed.
        #[serde(rename = "alternatives_complete")]
        listed: bool,
    },
    /// The front door: columns that carry the whole effect in the first study.
    FrontDoor {
        /// The columns.
        mediators: Vec<String>,
        /// Passive columns of the bridge; the front-door criterion holds within each of their values.
        conditioning: Vec<String>,
        /// Other minimal sets that are valid.
        alternatives: Vec<Vec<String>>,
        /// Whether these are all sets.
        #[serde(rename = "alternatives_complete")]
        listed: bool,
    },
    /// A formula of the first study's columns that is not an adjustment. riesz does not estimate it.
    Formula {
        /// The formula as text, such as `P(Y | do(X)) = …`.
        formula: String,
        /// The formula as a tree.
        expression: EffectFormula,
        /// Lists of variables, each of which would give an adjustment if it were measured too.
        would_help: Vec<Vec<String>>,
    },
    /// Sequential adjustment (the g-formula): each treatment is adjusted for covariates that are measured
    /// before it and may be effects of earlier treatments.
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
    /// Shared columns that the treatments do not affect, and on which the outcome depends in addition to the
    /// mediators.
    pub passive: Vec<String>,
    /// Shared columns without use: given the others, the outcome does not depend on them.
    pub unused: Vec<String>,
}

impl Bridge {
    /// Returns all columns in use, mediators first.
    pub fn columns(&self) -> Vec<String> {
        self.mediators.iter().chain(&self.passive).cloned().collect()
    }
}

/// The source of the strategy: the graph, the user, or both.
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

/// The identification of an effect across studies from the measured columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identification {
    /// The treatments that affect the outcome when all are set.
    pub treatments: Vec<String>,
    /// The treatments that have no effect when all are set.
    pub without_effect: Vec<String>,
    /// The outcome.
    pub outcome: String,
    /// The strategy by which the first study identifies the treatments' effect on the first bridge, or on the
    /// outcome if there is one study.
    pub strategy: EffectStrategy,
    /// The source of the strategy.
    pub source: Provenance,
    /// The bridges between each study and the next.
    pub bridges: Vec<Bridge>,
    /// Sentences that state the assumptions.
    pub assumptions: Vec<String>,
    /// Columns that are not used because the graph does not contain them.
    pub unknown: Vec<String>,
}

impl Identification {
    /// Returns the columns of the first study that are adjusted for, for all treatments at once; a sequential
    /// adjustment has [`steps`](EffectStrategy::Sequential) instead.
    pub fn adjustment(&self) -> &[String] {
        match &self.strategy {
            EffectStrategy::Constant | EffectStrategy::Formula { .. } | EffectStrategy::Sequential { .. } => {
                &[]
            }
            EffectStrategy::Randomized { adjust } | EffectStrategy::BackDoor { adjust, .. } => adjust,
            EffectStrategy::FrontDoor { conditioning, .. } => conditioning,
        }
    }

    /// Checks that riesz can estimate an effect that is identified in this way.
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

/// Writes one sentence, without its full stop.
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
            EffectStrategy::FrontDoor { mediators, conditioning, .. } => {
                write!(f, "front-door through {}", and(mediators))?;
                if !conditioning.is_empty() {
                    write!(f, ", within each value of {}", and(conditioning))?;
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
            let verb = if self.without_effect.len() == 1 { "has" } else { "have" };
            write!(f, "; {} {verb} no effect in addition to {treatments}", and(&self.without_effect))?;
        }
        Ok(())
    }
}

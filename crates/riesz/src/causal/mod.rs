//! Causal data fusion: effects across studies of which none measured both the treatment and the outcome.
//!
//! [`Graph`] says what causes what. [`identify`] says whether, how and under which assumptions an effect
//! follows from it and the columns that studies have, or refuses with the path that is open and what would
//! help ([`Refusal`]). A graph is never learnt from data. [`gather`] makes [`Studies`] of tables, [`Fusion`]
//! learns the effect from these, and [`Effect`] says it with a joint band, by what leaves it unsure, of all
//! people or of others ([`Whom`]); an [`Estimand`] is what is asked of it. [`Search`] says which treatments
//! to try next, and [`Updated`] what is believed after some were.
//! [`effect_formula`] decides by the complete algorithm whether any formula of what was measured gives an
//! effect, [`sequential_adjustment`] finds covariates for treatments in time, and [`instrument`] instruments.
//! Source: Chau 2023 (thesis), chapter 4; Pearl 2009; van der Zander, Liśkiewicz and Textor 2019.

mod acquisition;
mod adjustment;
mod answer;
mod arrived;
mod asked;
mod assumptions;
mod blocks;
mod bridge;
mod decided;
mod domain;
mod doubts;
mod draws;
mod effect;
mod estimand;
mod formula;
mod gather;
mod general;
mod given;
mod graph;
mod identify;
mod instrument;
mod iterated;
mod landmarks;
mod link;
mod low_rank;
mod measure;
mod normal;
mod optimise;
mod overlap;
mod parse;
mod parts;
mod people;
mod pointwise;
mod prior;
mod process;
mod projection;
mod published;
mod reading;
mod regression;
mod separation;
mod sequential;
mod shared;
mod solver;
mod stages;
mod standing;
mod start;
mod steps;
mod studies;
mod through;
mod tune;
mod tune_stages;
mod updated;
mod worth;

pub use crate::error::Refusal;
pub use acquisition::{Acquisition, log_expected_improvement};
pub use answer::{Bridge, How, Identification, Query, Source, Strategy};
pub use domain::Domain;
pub use doubts::{Doubt, doubts};
pub use effect::{Effect, Told};
pub use estimand::{Estimand, Sums};
pub use formula::{EffectFormula, Formula};
pub use gather::{Gathered, Measured, gather};
pub use general::{Hedge, effect_formula};
pub use graph::Graph;
pub use identify::identify;
pub use instrument::{Instrument, instrument};
pub use measure::Measure;
pub use optimise::{Arm, Best, Search, Suggestion};
pub use parts::Cause;
pub use people::Whom;
pub use pointwise::{Pointwise, USUAL_DOSES, usual_combinations, usual_doses};
pub use prior::Prior;
pub use process::ProcessParameters;
pub use published::{Form, Published};
pub use sequential::{SequentialStep, sequential_adjustment};
pub use stages::{SingleTable, Stage, StageParameters};
pub use standing::Standing;
pub use studies::{Parameters, Route, Studies, Study, StudyParameters};
pub use through::Through;
pub use tune::Fusion;
pub use updated::{Discrepancy, Outlook, Trials, Updated};

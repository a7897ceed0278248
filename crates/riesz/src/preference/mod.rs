//! Preferences: who beats whom, learnt from duels between items with properties.
//!
//! A model of duels is an [`Expansion`](crate::Expansion) over wide rows, the left item's columns beside the
//! right one's, that changes its sign when the two change places. Behind them stand the columns of the duels'
//! contexts, which stay where they are. So whatever predicts or explains expansions does so here; a player is
//! a column of *both* items. Source: Chau 2023 (thesis), chapters 6 and 7.

mod bags;
mod bradley_terry;
pub mod clusters;
mod data;
mod differences;
mod duels;
mod entrants;
mod evaluation;
mod explain;
mod flow;
mod games;
mod graph;
mod landmarks;
mod logistic;
mod low_rank;
mod odds;
mod orders;
mod outcomes;
mod pairs;
mod process;
mod rankability;
mod sides;
mod skew;
mod tuned;

pub use bags::Bags;
pub use bradley_terry::{AbilityRidge, BradleyTerry, BradleyTerryFit};
pub use differences::differences;
pub use duels::{Contexts, Duels};
pub use entrants::{Entrants, HOME, Home, ID, UNSEEN_RIGHT, entrants};
pub use evaluation::{Bin, Scores, Split, calibration, split};
pub use explain::{explain, superiority};
pub use flow::{Draws, Flow};
pub use games::{DuelGame, DuelQuestion};
pub use graph::{Reference, SpecR, average_clustering, spec_r};
pub use landmarks::{LandmarkFit, LandmarkFunction, LandmarkProcess, LandmarkState};
pub use odds::Odds;
pub use outcomes::{MissingOutcome, OUTCOME_WORDS, Outcomes, Record, read_homes};
pub use pairs::{ContextKernel, Pair, PairKernel, wide_columns, wide_rows, wide_rows_in};
pub use process::{Inference, PreferenceFit, PreferenceProcess};
pub use rankability::{Evidence, Hodge, Rankability, Ranking, Triangle};
pub use sides::Sides;

//! Preferences: who beats whom, learnt from duels between items with properties.
//!
//! A model of duels is an [`Expansion`](crate::Expansion) over wide rows, the left item's columns beside the right one's, that changes its sign when the two change
//! places. So whatever predicts or explains expansions does so here; a player is a column of *both* items. Source: Chau 2023 (thesis), chapters 6 and 7.

pub mod clusters;
mod duels;
mod flow;
mod graph;
mod pairs;
mod process;
mod rankability;

pub use duels::Duels;
pub use flow::{Draws, Flow};
pub use graph::{Reference, SpecR, average_clustering, spec_r};
pub use pairs::{Pair, PairKernel, wide_columns, wide_rows};
pub use process::{PreferenceFit, PreferenceProcess};
pub use rankability::{Evidence, Hodge, Rankability, Ranking, Triangle};

//! Preferences: who beats whom, learnt from duels between items with properties.
//!
//! A model of duels is an [`Expansion`](crate::Expansion) over wide rows, the left item's columns beside the right one's, that changes its sign when the two change
//! places. So whatever predicts or explains expansions does so here; a player is a column of *both* items. Source: Chau 2023 (thesis), chapters 6 and 7.

mod differences;
mod duels;
mod evaluation;
mod explain;
mod pairs;
mod process;

pub use differences::differences;
pub use duels::Duels;
pub use evaluation::{Bin, Scores, Split, calibration, split};
pub use explain::{DuelGame, DuelQuestion, Sides, explain, superiority};
pub use pairs::{Pair, PairKernel, wide_columns, wide_rows};
pub use process::{PreferenceFit, PreferenceProcess};

//! Causal data fusion: what treatments do to an outcome that another study measured.

mod asked;
mod blocks;
mod effect;
mod link;
mod normal;
mod process;
mod reading;
mod studies;
mod tune;

pub use asked::Whom;
pub use effect::{Effect, Told};
pub use link::{Cause, Standing};
pub use process::ProcessParameters;
pub use studies::{Parameters, Route, Studies, Study, StudyParameters};
pub use tune::Fusion;

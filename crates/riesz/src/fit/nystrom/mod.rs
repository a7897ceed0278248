//! Fits of more rows than memory holds, through landmarks. Rows are read in parts of any size, in any order
//! and on any number of machines. What is kept of them are integers, whose sums have the same bits however
//! the work was divided.
//!
//! ```text
//! rows → Survey (a sample, ranges) → Plan (kernel, landmarks, rounding)
//! rows, Plan → Statistics                       the data that a FitState begins with, unless it needs none
//! rows, Plan, Coefficients → Pass               as often as it requests one
//! FitState → KernelExpansion of the landmarks
//! ```
//!
//! Results for parts of the rows are [`DataSurvey`], [`Statistics`] and [`DataPass`]: each can be merged with
//! others of its kind and written to a file. A [`FitState`] is the only part of the fit that the reader of
//! the rows has to know.

mod certificate;
mod equations;
mod fitting;
mod gradients;
mod job;
mod landmarks;
mod nested;
mod newton;
mod parts;
mod pass;
mod plan;
mod process;
mod residual;
mod ridge;
mod rows;
mod run;
mod sample;
mod slope;
mod statistics;
mod survey;
#[cfg(test)]
mod tests;

pub use certificate::Certificate;
pub use equations::{RidgeSpec, RidgeTrials};
pub use fitting::{FitState, InitialData, InitialInput};
pub use job::{Classifier, Job, Kind, Solver};
pub use landmarks::Landmarks;
pub use nested::LandmarkErrorEstimate;
pub use newton::StreamingNewton;
pub use pass::{DataPass, PassBuilder};
pub use plan::{FitPlan, FixedPointScale, GpPrior, LandmarkChoice, LatentFunction, Model};
pub use process::{GpTuning, fit_gp};
pub use residual::{Coefficients, ResidualPass};
pub use ridge::RidgeSolution;
pub use rows::LabelledRows;
pub(crate) use run::fit_rows;
pub use run::{
    FitControl, NoStore, ResultStore, RowSource, expected_passes, fit, kept_survey, names, pass, statistics,
};
pub use slope::{LogisticGradient, LogisticGradientBuilder};
pub use statistics::{Accumulator, Statistics};
pub use survey::DataSurvey;

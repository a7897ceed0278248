//! Fits of more rows than memory holds, through landmarks: rows are read in parts of any size, in any order,
//! on any number of machines, and what is learnt of them are whole numbers, whose sums are the same to the
//! last bit however the work was divided.
//!
//! ```text
//! rows → Survey (a sample, ranges) → Plan (kernel, landmarks, rounding)
//! rows, Plan → Statistics                       what a Fitting begins with, unless it needs none
//! rows, Plan, Coefficients → Pass               as often as it wants
//! Fitting → KernelExpansion of the landmarks
//! ```
//!
//! What is computed of parts are [`DataSurvey`], [`Statistics`] and [`DataPass`]: each can be merged with
//! others of its kind, and written to a file. A [`FitState`] is all that whoever reads the rows has to know
//! of what is fitted.

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

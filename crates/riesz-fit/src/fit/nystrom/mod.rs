//! Fits through landmarks of more rows than memory holds. The rows are read in parts of any size, in any
//! order and on any number of machines. All results are sums of integers, so they have the same bits however
//! the work was divided.
//!
//! ```text
//! rows → Survey (a sample, ranges) → Plan (kernel, landmarks, rounding)
//! rows, Plan → Statistics                       the initial data of a FitState, where it needs them
//! rows, Plan, Coefficients → Pass               repeated as long as the FitState requests one
//! FitState → KernelExpansion of the landmarks
//! ```
//!
//! Results for parts of the rows are [`DataSurvey`], [`Statistics`] and [`DataPass`]: each can be merged with
//! others of its kind and written to a file. Code that reads the rows only has to know [`FitState`].

mod certificate;
mod coefficients;
mod equations;
mod fitting;
mod gradients;
mod job;
mod landmarks;
mod nested;
mod newton;
mod parts;
mod pass;
mod pass_sums;
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
pub use coefficients::Coefficients;
pub use equations::{RidgeSpec, RidgeTrials};
pub use fitting::{FitState, InitialData, InitialInput};
pub use job::{Classifier, Job, Kind, Solver};
pub use landmarks::Landmarks;
pub use nested::LandmarkErrorEstimate;
pub use newton::StreamingNewton;
pub use pass::{DataPass, PassBuilder};
pub use plan::{FitPlan, FixedPointScale, GpPrior, LandmarkChoice, LatentFunction, Model};
pub use process::{GpTuning, fit_gp};
pub use residual::ResidualPass;
pub use ridge::RidgeSolution;
pub use rows::LabelledRows;
pub(crate) use run::fit_rows;
pub use run::{
    FitControl, NoStore, ResultStore, RowSource, expected_passes, fit, kept_survey, names, pass, statistics,
};
pub use slope::{LogisticGradient, LogisticGradientBuilder};
pub use statistics::{Accumulator, Statistics};
pub use survey::DataSurvey;

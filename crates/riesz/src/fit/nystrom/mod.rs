//! Fits of more rows than memory holds, through landmarks: rows are read in parts of any size, in any order,
//! on any number of machines, and what is learnt of them are whole numbers, whose sums are the same to the
//! last bit however the work was divided.
//!
//! ```text
//! rows → Survey (a sample, ranges) → Plan (kernel, landmarks, rounding)
//! rows, Plan → Statistics                       what a Fitting begins with, unless it needs none
//! rows, Plan, Coefficients → Pass               as often as it wants
//! Fitting → Expansion of the landmarks
//! ```
//!
//! What is computed of parts are [`Survey`], [`Statistics`] and [`Pass`]: each can be merged with others of
//! its kind, and written to a file. A [`Fitting`] is all that whoever reads the rows has to know of what is
//! fitted.

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
pub use equations::{Penalties, Tried};
pub use fitting::{Beginning, Fitting, Needs};
pub use job::{Classifier, Job, Kind, Solver};
pub use landmarks::Landmarks;
pub use nested::Missing;
pub use newton::Newton;
pub use pass::{Measuring, Pass};
pub use plan::{Choice, Latent, Model, Plan, Prior, Scale};
pub use process::{Learning, process};
pub use residual::{Coefficients, Residual};
pub use ridge::Solution;
pub use rows::Rows;
pub(crate) use run::fit_rows;
pub use run::{Heed, Nowhere, Source, Store, fit, kept_survey, names, pass, statistics, usual_passes};
pub use slope::{Slope, Sloping};
pub use statistics::{Accumulator, Statistics};
pub use survey::Survey;

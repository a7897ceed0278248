//! Tables, kernels, kernel expansions and Gaussian posteriors: what the other crates of riesz share.
//!
//! Use the crate `riesz`, which re-exports the public modules of this one. This crate also offers what only
//! its siblings need, and its interface changes with theirs.

pub mod checks;
pub mod coalition_structure;
pub mod columns;
pub mod control;
pub mod error;
pub mod identification_error;
pub mod index;
pub mod kernel;
pub mod kernel_model;
pub mod kmeans;
pub mod lbfgsb;
pub mod linalg;
pub mod memory;
pub mod model_average;
pub mod model_card;
pub mod name_lists;
pub mod posterior;
pub mod prediction;
pub mod random;
pub mod setting_schema;
pub mod simd;
pub mod table;

pub use coalition_structure::CoalitionStructure;
pub use control::Progress;
pub use error::{Error, Result};
pub use index::ValueIndex;
pub use kernel::Kernel;
pub use kernel_model::{KernelExpansion, Link};
pub use linalg::Matrix;
pub use posterior::{Posterior, PosteriorCovariance};
pub use prediction::{AggregatePrediction, ClassDecisions, NaturalScalePrediction, Prediction};
pub use simd::Isa;
pub use table::{Column, ColumnKind, Players, Table};

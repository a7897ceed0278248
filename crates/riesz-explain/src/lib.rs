//! Explanations of kernel models: games, the algorithms that compute their values, global importance, and the
//! files of models and explanations.
//!
//! Use the crate `riesz`, which re-exports the modules of this one. Its code names modules of
//! `riesz-core` as its own.

pub mod attribution;
pub mod embedding;
pub mod explainer;
pub mod explanation;
pub mod format;
pub mod game;
pub mod global;
pub mod question;

pub(crate) use riesz_core::{
    coalition_structure, control, error, index, kernel, kernel_model, linalg, memory, model_average,
    model_card, posterior, prediction, random, setting_schema, simd, table,
};

pub use embedding::{Approximation, Conditioning, ConditioningKernel, ConjugateGradients, Ridge};
pub use explainer::Explainer;
pub use explanation::{Exactness, Explanation};
pub use game::{Background, CausalComponent, CausalStructure, ConditionalModel, Game};
pub use global::{Sensitivity, SobolIndices};
pub use question::Question;

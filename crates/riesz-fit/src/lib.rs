//! Estimators of kernel models, and the latent Gaussian model that the probabilistic ones share.
//!
//! Use the crate `riesz`, which re-exports [`fit`]. Its code names modules of `riesz-core` as its own.

pub mod fit;
pub mod gp;

pub(crate) use riesz_core::{
    checks, control, error, kernel, kernel_model, kmeans, lbfgsb, linalg, memory, model_average, model_card,
    posterior, random, setting_schema, simd, table,
};

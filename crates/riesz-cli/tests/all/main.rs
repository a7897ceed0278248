//! All integration tests, in one program so that it is linked once.

mod areas;
mod cases;
mod causal_check;
mod causal_effect;
mod causal_studies;
mod causal_suggest;
mod commands;
mod common;
mod contributing;
mod covariance;
mod discrepancy;
mod downscale;
mod downscale_bags;
mod downscale_operators;
mod importance;
mod indices;
mod landmarks;
mod libsvm;
mod malformed_input;
mod matrix;
mod memory;
mod prefer;
mod tables;
mod unknown_cells;
mod verify;

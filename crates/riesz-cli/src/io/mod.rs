//! Tables and models in, results out. Nothing here knows what is computed.

pub mod aggregates;
pub mod bags;
pub mod checkpoint;
pub mod chunk;
pub mod csv;
pub mod dataset;
pub mod duels;
pub mod input;
pub mod models;
pub mod names;
pub mod output;
pub mod parquet;
pub mod picture;
pub mod svmlight;
pub mod typing;
pub mod values;
pub mod write;

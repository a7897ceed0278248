//! Input of tables and models, and output of results, independent of any computation.

pub mod aggregates;
pub mod arrow;
pub mod arrow_ipc;
pub mod bags;
pub mod cells;
pub mod checkpoint;
pub mod choices;
pub mod chunk;
pub mod columns;
pub mod csv;
pub mod dataset;
pub mod duels;
pub mod geojson;
pub mod input;
pub mod json;
pub mod memory;
pub mod model_rows;
pub mod models;
pub mod names;
pub mod output;
pub mod parquet;
pub mod picture;
pub mod reader;
pub mod sheets;
pub mod svmlight;
pub mod units;
pub mod values;
pub mod write;

#[cfg(test)]
mod tests;

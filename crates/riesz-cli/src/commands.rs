//! The commands, one file each: its arguments, and the function that runs it. A new command needs its file, a
//! line here, and a line each of `Command` and `run` in `main.rs`.

pub mod anova;
pub mod compare;
pub mod completions;
pub mod convert;
pub mod demo;
pub mod depend;
pub mod downscale;
pub mod explain;
pub mod fit;
pub mod fuse;
pub mod graph;
pub mod importance;
pub mod inspect;
pub mod merge;
pub mod plot;
pub mod predict;
pub mod prefer;
pub mod report;
pub mod select;
pub mod solve;
pub mod statistics;
pub mod verify;

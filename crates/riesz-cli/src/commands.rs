//! The commands, one file each: its arguments, and the function that runs it. A new command needs its file, a
//! line here, and a line each of `Command` and `run` in `main.rs`.

pub mod causal;
pub mod completions;
pub mod convert;
pub mod demo;
pub mod distributed;
pub mod downscale;
pub mod effects;
pub mod explain;
pub mod fit;
pub mod importance;
pub mod inspect;
pub mod man;
pub mod plot;
pub mod predict;
pub mod prefer;
pub mod report;
pub mod test;
pub mod verify;

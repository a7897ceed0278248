//! `riesz distributed`: the steps of a large fit, for any machines that can read the files.

mod merge;
mod solve;
mod statistics;

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

/// The commands of `distributed`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Compute the statistics of units of a large fit
    Statistics(statistics::Args),
    /// Add up the statistics of units, or subtract some of them
    Merge(merge::Args),
    /// Solve a large fit from its statistics
    Solve(solve::Args),
}

/// Runs a subcommand.
pub fn run(command: &Command, global: &Global, console: Console) -> Result<()> {
    match command {
        Command::Statistics(args) => statistics::run(args, global, console),
        Command::Merge(args) => merge::run(args, global, console),
        Command::Solve(args) => solve::run(args, global, console),
    }
}

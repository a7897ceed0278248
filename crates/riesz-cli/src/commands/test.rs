//! `riesz test`: kernel tests of two samples and of independence, with attribution to features, and the
//! selection of features.

mod independence;
mod output;
mod select;
mod two_sample;

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

/// The commands of `test`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Test whether two samples differ, and in which features (MMD)
    TwoSample(Box<two_sample::Args>),
    /// Test whether a target depends on the other columns, and on which (HSIC)
    Independence(Box<independence::Args>),
    /// Rank features by the dependence of a target on them
    Select(Box<select::Args>),
}

/// Runs a subcommand.
pub fn run(command: &Command, global: &Global, console: Console) -> Result<()> {
    match command {
        Command::TwoSample(args) => two_sample::run(args, global, console),
        Command::Independence(args) => independence::run(args, global, console),
        Command::Select(args) => select::run(args, global, console),
    }
}

//! `riesz graph`: identification of an effect by a causal graph.

pub(super) mod check;

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

/// Arguments of `graph`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check whether an effect is identified by what studies measured, how, and under which assumptions
    Check(check::Args),
}

/// Runs a subcommand.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    match &args.command {
        Command::Check(args) => check::run(args, global, console),
    }
}

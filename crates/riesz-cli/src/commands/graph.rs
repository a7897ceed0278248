//! `riesz graph`: what a causal graph says of an effect.

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
    /// Say whether and how an effect follows from what studies measured, and what it rests on
    Check(check::Args),
}

/// Runs one of them.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    match &args.command {
        Command::Check(args) => check::run(args, global, console),
    }
}

//! `riesz prefer`: who beats whom, and why.

mod explain;
mod fit;
mod predict;

use crate::args::Global;
use crate::console::Console;
use crate::failure::Result;

/// Arguments of `prefer`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Learn who beats whom from duels between items with properties
    Fit(fit::Args),
    /// Say who is likely to win, and how sure that is
    Predict(predict::Args),
    /// Say which properties decide duels
    Explain(explain::Args),
}

/// Runs one of them.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    match &args.command {
        Command::Fit(args) => fit::run(args, global, console),
        Command::Predict(args) => predict::run(args, global, console),
        Command::Explain(args) => explain::run(args, global, console),
    }
}

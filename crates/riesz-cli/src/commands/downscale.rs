//! `riesz downscale`: a map of single rows from averages or totals over bags of them.

mod check;
mod counts;
mod explain;
mod fit;
mod map;
mod map_rows;
mod predict;
mod report;
mod shared_fit;

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

/// Arguments of `downscale`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Learn the map from two tables, of rows and of bags
    Fit(fit::Args),
    /// Say what the map is at rows, and how sure that is
    Predict(predict::Args),
    /// Draw the map, how sure it is, or what a feature does to it; or all of that and bags on one page
    Map(map::Args),
    /// Say what features make of each bag, exactly
    Explain(explain::Args),
    /// Say how well each bag is met, and what all others say of it
    Check(check::Args),
}

/// Runs one of them.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    match &args.command {
        Command::Fit(args) => fit::run(args, global, console),
        Command::Predict(args) => predict::run(args, global, console),
        Command::Map(args) => map::run(args, console),
        Command::Explain(args) => explain::run(args, global, console),
        Command::Check(args) => check::run(args, global, console),
    }
}

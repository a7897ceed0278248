//! `riesz prefer`: models of duels between items, and explanations of them.

mod cluster;
mod evaluate;
mod explain;
mod fit;
mod predict;
mod rank;

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

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
    /// Say whether there is a ranking, who stands where, and who beats whom in a circle
    Rank(rank::Args),
    /// Find out which items can be compared at all
    Cluster(cluster::Args),
    /// Compare models on duels that they have not seen
    Evaluate(evaluate::Args),
}

/// Runs one of them.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    match &args.command {
        Command::Fit(args) => fit::run(args, global, console),
        Command::Predict(args) => predict::run(args, global, console),
        Command::Explain(args) => explain::run(args, global, console),
        Command::Rank(args) => rank::run(args, global, console),
        Command::Cluster(args) => cluster::run(args, global, console),
        Command::Evaluate(args) => evaluate::run(args, global, console),
    }
}

//! `riesz prefer`: models of duels between items, and explanations of them.

mod choose;
mod cluster;
mod evaluate;
mod explain;
mod fit;
mod model_items;
mod predict;
mod rank;
mod rank_output;
mod shared_fit;
mod suggest;

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

/// The commands of `prefer`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Learn from duels between items with properties who beats whom
    Fit(fit::Args),
    /// Predict who wins, with probabilities and intervals
    Predict(predict::Args),
    /// Predict which item of a set is chosen, with probabilities
    Choose(choose::Args),
    /// Explain which properties decide duels
    Explain(Box<explain::Args>),
    /// Test whether there is a ranking, give the ranks, and list cycles
    Rank(rank::Args),
    /// Suggest the duels to hold next, to find the best item, the ranking or cycles
    Suggest(suggest::Args),
    /// Find clusters of items that can be compared with each other
    Cluster(cluster::Args),
    /// Compare models on held-out duels
    Evaluate(evaluate::Args),
}

/// Runs a subcommand.
pub fn run(command: &Command, global: &Global, console: Console) -> Result<()> {
    match command {
        Command::Fit(args) => fit::run(args, global, console),
        Command::Predict(args) => predict::run(args, global, console),
        Command::Choose(args) => choose::run(args, global, console),
        Command::Explain(args) => explain::run(args, global, console),
        Command::Rank(args) => rank::run(args, global, console),
        Command::Suggest(args) => suggest::run(args, global, console),
        Command::Cluster(args) => cluster::run(args, global, console),
        Command::Evaluate(args) => evaluate::run(args, global, console),
    }
}

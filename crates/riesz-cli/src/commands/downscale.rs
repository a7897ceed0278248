//! `riesz downscale`: predictions for single rows from averages or totals over bags of rows.

mod benchmark;
mod check;
mod counts;
mod estimate;
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

/// The commands of `downscale`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Learn the map from two tables, of rows and of bags, or from one table of areas
    Fit(fit::Args),
    /// Fit and predict rows at once, averaged over the posterior of the hyper-parameters
    Estimate(estimate::Args),
    /// Predict the map at rows, with standard deviations and intervals
    Predict(predict::Args),
    /// Draw the map, its standard deviation or a feature's contribution to it; or write all of these and the
    /// bags on one page
    Map(map::Args),
    /// Explain each bag by exact Shapley values of the features
    Explain(explain::Args),
    /// Compare each bag's target with the fit, and with its prediction from all other bags
    Check(check::Args),
}

/// Runs a subcommand.
pub fn run(command: &Command, global: &Global, console: Console) -> Result<()> {
    match command {
        Command::Fit(args) => fit::run(args, global, console),
        Command::Estimate(args) => estimate::run(args, global, console),
        Command::Predict(args) => predict::run(args, global, console),
        Command::Map(args) => map::run(args, console),
        Command::Explain(args) => explain::run(args, global, console),
        Command::Check(args) => check::run(args, global, console),
    }
}

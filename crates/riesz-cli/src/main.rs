//! The command line of riesz: arguments, files, messages and exit codes. All computations are in the library.

mod args;
mod commands;
mod console;
mod exit;
mod explain_run;
mod io;
mod output_format;
mod program;
mod question_args;
mod rates;
mod test_output;
mod top;

use std::cell::Cell;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use args::Global;
use commands::{
    anova, compare, completions, convert, demo, depend, downscale, explain, fit, fuse, graph, importance,
    inspect, merge, plot, predict, prefer, report, select, solve, statistics, verify,
};
use console::Console;
use exit::{Failure, Result};

const EXAMPLES: &str = "\
Examples:
  riesz demo -o report.html                                   see it at work on bundled data
  riesz fit train.csv --target price --model gp -o m.riesz    fit a Gaussian process
  riesz predict m.riesz new.csv                               predictions as CSV
  riesz explain m.riesz new.csv -o why.csv                    one exact value a row and feature
  riesz explain m.riesz new.csv --background train.csv -o why.parquet
  riesz explain libsvm.model new.csv --game baseline --baseline typical.csv
  riesz explain m.riesz new.csv -o why.json && riesz plot beeswarm why.json -o why.svg
  riesz importance m.riesz train.csv                          which features matter overall
  riesz anova m.riesz train.csv --of age -o age.svg           what a feature does alone
  riesz compare a.csv b.csv -o differ.html                    what makes two samples differ
  riesz depend data.csv --target price                        what a column depends on
  riesz effect data.csv --graph 'age -> dose; age -> y; dose -> y' --treatment dose --outcome y
  riesz inspect m.riesz                                       what is in the file";

/// Kernel machines that explain themselves with exact Shapley values.
#[derive(Debug, Parser)]
#[command(name = "riesz", version, before_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fit a model to a table
    Fit(Box<fit::Args>),
    /// Predict the rows of a table
    Predict(predict::Args),
    /// Explain the predictions for the rows of a table
    Explain(explain::Args),
    /// Say which features matter overall: to what the model says, or to how right it is
    Importance(importance::Args),
    /// Take a model apart into what each feature does alone, and two together: curves and surfaces
    Anova(anova::Args),
    /// Test whether two samples differ, and say in which features
    Compare(Box<compare::Args>),
    /// Test whether a target depends on the other columns, and say on which
    Depend(Box<depend::Args>),
    /// Rank features by what a target depends on
    Select(select::Args),
    /// Learn from duels who beats whom, and say why
    Prefer(Box<prefer::Args>),
    /// Learn a map of single rows from averages or totals over groups of them
    Downscale(Box<downscale::Args>),
    /// Ask a causal graph whether an effect follows from what studies measured
    Graph(Box<graph::Args>),
    /// Estimate the causal effect of a treatment on an outcome, from one table or across studies
    #[command(visible_alias = "fuse")]
    Effect(Box<fuse::Args>),
    /// Draw an explanation
    Plot(plot::Args),
    /// Write a page about an explanation that opens in any browser, offline
    Report(report::Args),
    /// Show what a model or explanation file holds
    Inspect(inspect::Args),
    /// Check somebody else's explanation against the model and the rows
    Verify(Box<verify::Args>),
    /// Turn a model file into a LIBSVM model file, or back
    Convert(convert::Args),
    /// Fit, explain and report on bundled diabetes data
    Demo(demo::Args),
    /// Add up statistics of units of a large fit, or take some away again
    Merge(merge::Args),
    /// Solve a large fit whose statistics are there
    Solve(solve::Args),
    /// Work on a unit of a large fit, on any machine that sees the files
    Statistics(statistics::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

thread_local! {
    /// Whether a panic on this thread is expected and handled.
    static HUSHED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `step`, whose panics are caught by the caller, without a word about them.
fn hushed<T>(step: impl FnOnce() -> T) -> T {
    HUSHED.set(true);
    let result = step();
    HUSHED.set(false);
    result
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        if !HUSHED.get() {
            let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
            console::error(&format!(
                "this is a bug in riesz{place}; please report it with the command you ran"
            ));
        }
    }));
    io::output::clean_up_on_interrupt();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let outcome = std::panic::catch_unwind(|| run(cli));
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            match &failure {
                Failure::Input(message) | Failure::Check(message) => console::error(message),
                Failure::ClosedPipe => {}
            }
            ExitCode::from(failure.code())
        }
        // The hook has said what happened.
        Err(_) => ExitCode::from(2),
    }
}

fn run(cli: Cli) -> Result<()> {
    let global = &cli.global;
    let console = Console::new(global.quiet);
    if let Some(threads) = global.threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .map_err(|e| Failure::input(format!("cannot start {threads} threads: {e}")))?;
    }
    match cli.command {
        Command::Fit(args) => fit::run(&args, global, console),
        Command::Predict(args) => predict::run(&args, global, console),
        Command::Explain(args) => explain::run(&args, global, console),
        Command::Importance(args) => importance::run(&args, global, console),
        Command::Anova(args) => anova::run(&args, global, console),
        Command::Compare(args) => compare::run(&args, global, console),
        Command::Depend(args) => depend::run(&args, global, console),
        Command::Select(args) => select::run(&args, global, console),
        Command::Prefer(args) => prefer::run(&args, global, console),
        Command::Downscale(args) => downscale::run(&args, global, console),
        Command::Graph(args) => graph::run(&args, global, console),
        Command::Effect(args) => fuse::run(&args, global, console),
        Command::Plot(args) => plot::run(&args, global),
        Command::Report(args) => report::run(&args, global, console),
        Command::Inspect(args) => inspect::run(&args, global),
        Command::Verify(args) => verify::run(&args, global, console),
        Command::Convert(args) => convert::run(&args),
        Command::Demo(args) => demo::run(&args, global, console),
        Command::Merge(args) => merge::run(&args, global, console),
        Command::Solve(args) => solve::run(&args, global, console),
        Command::Statistics(args) => statistics::run(&args, global, console),
        Command::Completions(args) => completions::run(&args, Cli::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}

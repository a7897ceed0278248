//! The command line of riesz: arguments, files, messages and exit codes. All computations are in the library.

mod args;
mod commands;
mod consecutive_rows;
mod console;
mod exit;
mod explain_run;
mod explanation_summary;
mod help;
mod io;
mod output_format;
mod program;
mod question_args;
mod rates;
mod top;

use std::cell::Cell;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use args::{Format, Global};
use commands::{
    causal, completions, convert, demo, distributed, downscale, effects, explain, fit, importance, inspect,
    man, plot, predict, prefer, report, test, verify,
};
use console::Console;
use exit::{Failure, Result};

const EXAMPLES: &str = "\
Examples:
  riesz demo -o report.html                                   a demonstration on bundled data
  riesz fit train.csv --target price --model gp -o m.riesz    fit a Gaussian process
  riesz predict m.riesz new.csv                               predictions as CSV
  riesz explain m.riesz new.csv -o why.csv                    one exact value per row and feature
  riesz explain m.riesz new.csv --background train.csv -o why.parquet
  riesz explain libsvm.model new.csv --game baseline --baseline typical.csv
  riesz explain m.riesz new.csv -o why.json && riesz plot beeswarm why.json -o why.svg
  riesz importance m.riesz train.csv                          which features matter overall
  riesz effects m.riesz train.csv --of age -o age.svg         the component of a single feature
  riesz test two-sample a.csv b.csv -o differ.html            the features in which two samples differ
  riesz test independence data.csv --target price             the features on which a column depends
  riesz causal effect data.csv --graph 'age -> dose; age -> y; dose -> y' --treatment dose --outcome y
  riesz inspect m.riesz                                       the contents of a file";

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

impl Cli {
    /// The command line in which `--json` is replaced by `--format json`.
    fn with_json_format(mut self) -> Self {
        self.global.format = self.global.json.then_some(Format::Json).or(self.global.format);
        self
    }
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
    /// Compute the importance of features: their shares of the output's variance, or of the reduction of the
    /// loss
    Importance(importance::Args),
    /// Draw the effects of single features and pairs: curves and surfaces (functional ANOVA)
    Effects(effects::Args),
    /// Test two samples for a difference, or columns for dependence, with attribution; select features
    #[command(subcommand)]
    Test(test::Command),
    /// Learn preferences from duels, and predict, rank and explain them
    #[command(subcommand)]
    Prefer(Box<prefer::Command>),
    /// Learn a map of single rows from averages or totals over groups of rows
    #[command(subcommand)]
    Downscale(Box<downscale::Command>),
    /// Estimate causal effects of treatments from one table or across studies, and check causal graphs
    #[command(subcommand)]
    Causal(causal::Command),
    /// Draw an explanation
    Plot(plot::Args),
    /// Write a page about an explanation that opens in any browser, offline
    Report(report::Args),
    /// Show the contents of a model, an explanation or a table
    Inspect(inspect::Args),
    /// Check an explanation, made by any program, against the model and the rows
    Verify(Box<verify::Args>),
    /// Convert a model file to a LIBSVM model file, or back
    Convert(convert::Args),
    /// Fit, explain and report on bundled diabetes data
    Demo(demo::Args),
    /// Run the steps of a large fit on several machines
    #[command(subcommand)]
    Distributed(distributed::Command),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Write manual pages
    Man(man::Args),
}

thread_local! {
    /// Whether a panic on this thread is expected and handled.
    static NO_PANIC_MESSAGE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `step` without the message of a panic, which the caller catches.
fn without_panic_message<T>(step: impl FnOnce() -> T) -> T {
    NO_PANIC_MESSAGE.set(true);
    let result = step();
    NO_PANIC_MESSAGE.set(false);
    result
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| {
        if !NO_PANIC_MESSAGE.get() {
            let location =
                info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
            console::error(&format!(
                "this is a bug in riesz{location}; please report it with the command you ran"
            ));
        }
    }));
    io::output::clean_up_on_interrupt();
    let parsed = help::in_two_lengths(Cli::command()).try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli.with_json_format(),
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
        // The panic hook has printed a message.
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
        Command::Effects(args) => effects::run(&args, global, console),
        Command::Test(command) => test::run(&command, global, console),
        Command::Prefer(command) => prefer::run(&command, global, console),
        Command::Downscale(command) => downscale::run(&command, global, console),
        Command::Causal(command) => causal::run(&command, global, console),
        Command::Plot(args) => plot::run(&args, global),
        Command::Report(args) => report::run(&args, global, console),
        Command::Inspect(args) => inspect::run(&args, global),
        Command::Verify(args) => verify::run(&args, global, console),
        Command::Convert(args) => convert::run(&args, console),
        Command::Demo(args) => demo::run(&args, global, console),
        Command::Distributed(command) => distributed::run(&command, global, console),
        Command::Completions(args) => completions::run(&args, help::in_two_lengths(Cli::command())),
        Command::Man(args) => man::run(&args, help::in_two_lengths(Cli::command())),
    }
}

#[cfg(test)]
mod tests {
    use super::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::help::in_two_lengths(super::Cli::command()).debug_assert();
    }
}

//! riesz on the command line: arguments, files, words and exit codes. What is computed is in the library.

mod args;
mod compare;
mod completions;
mod console;
mod convert;
mod demo;
mod depend;
mod explain;
mod failure;
mod finding;
mod fit;
mod games;
mod inspect;
mod io;
mod plot;
mod predict;
mod program;
mod report;
mod select;

use std::cell::Cell;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use console::Console;
use failure::{Failure, Result};

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
            let at = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
            console::error(&format!("this is a bug in riesz{at}; please report it with the command you ran"));
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
        Command::Fit(args) => fit::run(args, global, console),
        Command::Predict(args) => predict::run(&args, global, console),
        Command::Explain(args) => explain::run(&args, global, console),
        Command::Compare(args) => compare::run(&args, global, console),
        Command::Depend(args) => depend::run(&args, global, console),
        Command::Select(args) => select::run(&args, global, console),
        Command::Plot(args) => plot::run(&args, global, console),
        Command::Report(args) => report::run(&args, global, console),
        Command::Inspect(args) => inspect::run(&args, global),
        Command::Convert(args) => convert::run(&args),
        Command::Demo(args) => demo::run(&args, global, console),
        Command::Completions(args) => completions::run(&args),
    }
}

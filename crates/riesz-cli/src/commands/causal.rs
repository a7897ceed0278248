//! `riesz causal`: effects of treatments from one table or across studies, and causal graphs.

mod check;
mod effect;
mod effect_analysis;
mod effect_output;
mod query_rows;
mod studies;
mod suggest;

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

/// The commands of `causal`.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Check whether an effect is identified by what studies measured, how, and under which assumptions
    Check(Box<check::Args>),
    /// Estimate the effect of a treatment on an outcome, from one table or across studies
    Effect(Box<effect::EffectArgs>),
    /// Suggest the treatments to try next, to find the best outcome
    Suggest(Box<suggest::SuggestArgs>),
}

/// Runs a subcommand.
pub fn run(command: &Command, global: &Global, console: Console) -> Result<()> {
    match command {
        Command::Check(args) => check::run(args, global, console),
        Command::Effect(args) => effect::run(args, global, console),
        Command::Suggest(args) => suggest::run(args, global, console),
    }
}

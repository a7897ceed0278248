//! `riesz effect`, also called `riesz fuse`: the causal effect of a treatment on an outcome, from one table
//! that has both or across studies, and which treatment to try next.

mod effect;
mod effect_output;
mod query_rows;
mod studies;
mod suggest;

use clap::{ArgMatches, Command, FromArgMatches};

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

/// Arguments of `effect`, whose files may be studies or, first of all, `suggest`.
#[derive(Debug)]
pub enum Args {
    /// Say the effect.
    Effect(Box<effect::EffectArgs>),
    /// Say what to try next.
    Suggest(Box<suggest::SuggestArgs>),
}

/// The word that is no study.
const SUGGEST: &str = "suggest";

// Written out, as a derived one would take what an effect requires to be required of suggestions, too.
impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        // What it is about is set last, in place of that of the arguments.
        let suggest = suggest::SuggestArgs::augment_args(Command::new(SUGGEST))
            .about("Say which treatments to try next, to find those with the best outcome");
        effect::EffectArgs::augment_args(command)
            .subcommand(suggest)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .disable_help_subcommand(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        Ok(match matches.subcommand() {
            Some((_, suggest)) => Self::Suggest(Box::new(suggest::SuggestArgs::from_arg_matches(suggest)?)),
            None => Self::Effect(Box::new(effect::EffectArgs::from_arg_matches(matches)?)),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs one of them.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    match args {
        Args::Effect(args) => effect::run(args, global, console),
        Args::Suggest(args) => suggest::run(args, global, console),
    }
}

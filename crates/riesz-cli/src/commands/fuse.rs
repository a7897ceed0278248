//! `riesz effect`, also called `riesz fuse`: the causal effect of a treatment on an outcome, from one table
//! with both or across several studies, and the treatments to try next.

mod effect;
mod effect_output;
mod query_rows;
mod studies;
mod suggest;

use clap::{ArgMatches, Command, FromArgMatches};

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;

/// Arguments of `effect`: tables of studies, or the subcommand `suggest`.
#[derive(Debug)]
pub enum Args {
    /// Estimate the effect.
    Effect(Box<effect::EffectArgs>),
    /// Suggest treatments to try next.
    Suggest(Box<suggest::SuggestArgs>),
}

/// The subcommand that takes the place of the studies.
const SUGGEST: &str = "suggest";

// Implemented by hand: the derived implementation would require an effect's required options of `suggest`,
// too.
impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        // `about` is set last, since it replaces the text that the arguments set.
        let suggest = suggest::SuggestArgs::augment_args(Command::new(SUGGEST))
            .about("Suggest the treatments to try next, to find the best outcome");
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

/// Estimates an effect or suggests treatments.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    match args {
        Args::Effect(args) => effect::run(args, global, console),
        Args::Suggest(args) => suggest::run(args, global, console),
    }
}

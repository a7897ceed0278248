//! `riesz man`.

use std::path::PathBuf;

use crate::exit::{Failure, Result};

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz man ~/.local/share/man/man1      afterwards: man riesz, man riesz-explain")]
pub struct Args {
    /// Folder of the pages, one per command; it is created if it does not exist
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub folder: PathBuf,
}

/// Writes the manual pages of `command` and its subcommands.
pub fn run(args: &Args, command: clap::Command) -> Result<()> {
    let failed = |e| Failure::input(format!("{}: cannot write the manual pages: {e}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(with_examples_last(command), &args.folder).map_err(failed)
}

/// `command` with its examples after the options, as in manual pages.
fn with_examples_last(command: clap::Command) -> clap::Command {
    let command = match command.get_before_long_help().map(ToString::to_string) {
        None => command,
        Some(text) => command.after_long_help(text),
    };
    command.mut_subcommands(with_examples_last)
}

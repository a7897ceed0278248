//! `riesz completions`.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Result;
use crate::io::output::write_all;

/// Prints the script.
pub fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "riesz", &mut script);
    write_all(None, &script)
}

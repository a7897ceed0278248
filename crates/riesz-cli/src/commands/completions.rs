//! `riesz completions`.

use crate::exit::Result;
use crate::io::output::write_all;

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz completions bash > ~/.local/share/bash-completion/completions/riesz
  riesz completions zsh > ~/.zfunc/_riesz
  riesz completions fish > ~/.config/fish/completions/riesz.fish")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Prints the script that completes `command`.
pub fn run(args: &Args, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "riesz", &mut script);
    write_all(None, &script)
}

//! `riesz distributed merge`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::fit::nystrom::Statistics;

use crate::args::Global;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::checkpoint::planned;
use crate::io::input::{name_of, read_file};
use crate::io::output::write_all;

const EXAMPLES: &str = "\
Examples:
  riesz distributed merge DIR/PLAN a.stat b.stat -o ab.stat    sums of both; the order does not change a byte
  riesz distributed merge DIR/PLAN all.stat --without c.stat -o rest.stat    without these rows";

/// Arguments of `distributed merge`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = EXAMPLES)]
pub struct Args {
    /// Folder of the plan by which the statistics were computed
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub plan: PathBuf,
    /// Files of statistics from different units of work
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Files of statistics to subtract
    #[arg(long = "without", value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub removed: Vec<PathBuf>,
    /// File to write
    #[arg(long, short, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
}

/// Adds and subtracts statistics, and writes the result.
pub fn run(args: &Args, _: &Global, console: Console) -> Result<()> {
    let (_, _, plan) = planned(&args.plan)?;
    let mut total = Statistics::empty(&plan);
    let read = |path: &PathBuf| {
        let about = |e: riesz::Error| Failure::from(e).about(&name_of(path));
        Statistics::from_bytes(&plan, &read_file(path)?).map_err(about)
    };
    for path in &args.files {
        total.merge(&read(path)?).map_err(|e| Failure::from(e).about(&name_of(path)))?;
    }
    for path in &args.removed {
        total.remove(&read(path)?).map_err(|e| Failure::from(e).about(&name_of(path)))?;
    }
    write_all(Some(&args.output), &total.to_bytes())?;
    console.note(format!("{} rows of {} units", total.rows(), total.units().len()));
    Ok(())
}

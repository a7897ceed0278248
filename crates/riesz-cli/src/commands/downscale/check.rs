//! `riesz downscale check`.

use std::path::PathBuf;

use clap::ValueHint;

use super::shared_fit::Learn;
use crate::args::Global;
use crate::console::{Console, aligned};
use crate::exit::Result;
use crate::io::write::{Cells, TableWriter};

/// Arguments of `downscale check`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz downscale check areas.csv --target cases --exposure population --family poisson
  riesz downscale check rows.csv bags.csv --bag district --target rate --weight people
  riesz downscale check rows.csv bags.csv --bag district --target rate --kernel matern32 -o check.csv

Fits as 'riesz downscale fit' does, since a model file does not hold the targets. The table has one
line per target. Column observed is the target, fitted its estimate by the map, and residual their
difference, which is attributed to noise. Columns left_out and left_out_std are the prediction from
all other targets and its standard deviation, noise included, by the same hyper-parameters. Column
score is the error in these standard deviations (for counts, which are skewed, the normal score of
the count under its predictive distribution). Left-out targets can rank kernels; they rank
mediators by targets only, not by the accuracy at single rows.")]
pub struct Args {
    /// The training data and the settings of the fit.
    #[command(flatten)]
    pub learn: Learn,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Fits the map and writes the comparison of targets.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let fit = args.learn.fitted(global.seed, &console)?;
    console.note(aligned(&fit.model.facts()));
    let observed = &fit.aggregated.data.targets;
    let residual = observed.iter().zip(&fit.fitted).map(|(z, estimate)| z - estimate).collect();
    let missing_values = || vec![f64::NAN; observed.len()];
    let [left_out, std, score] = match &fit.left_out {
        Some(predictions) => [
            predictions.mean.clone(),
            predictions.variance.iter().map(|v| v.sqrt()).collect(),
            predictions.scores.clone(),
        ],
        None => [missing_values(), missing_values(), missing_values()],
    };
    let columns = vec![
        ("bag", Cells::Texts(fit.aggregated.targets)),
        ("observed", Cells::Numbers(fit.aggregated.data.targets.clone())),
        ("fitted", Cells::Numbers(fit.fitted)),
        ("residual", Cells::Numbers(residual)),
        ("left_out", Cells::Numbers(left_out)),
        ("left_out_std", Cells::Numbers(std)),
        ("score", Cells::Numbers(score)),
    ];
    TableWriter::write_columns(args.output.as_deref(), format, columns)
}

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
  riesz downscale check rows.csv bags.csv --bag district --target rate --weight people
  riesz downscale check rows.csv bags.csv --bag district --target rate --kernel matern32 -o check.csv

Fits as 'riesz downscale fit' does, since a model file does not hold the targets. The table has a
line a target: observed; fitted, what the map makes of it; residual, which is taken for noise;
left_out and left_out_std, what all other targets say of it by the same hyper-parameters, noise
included; and score, how many of these standard deviations it is off (of counts, which are skew,
the normal score of where the count is among those expected). Left-out targets rank kernels;
mediators they do not rank by what single rows are like.")]
pub struct Args {
    /// The training data and the settings of the fit.
    #[command(flatten)]
    pub learn: Learn,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Reads, fits and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let fit = args.learn.fitted(global.seed, &console)?;
    console.note(aligned(&fit.model.facts()));
    let observed = &fit.aggregated.data.targets;
    let residual = observed.iter().zip(&fit.fitted).map(|(z, estimate)| z - estimate).collect();
    let nothing = || vec![f64::NAN; observed.len()];
    let [left_out, std, score] = match &fit.left_out {
        Some(predictions) => [
            predictions.mean.clone(),
            predictions.variance.iter().map(|v| v.sqrt()).collect(),
            predictions.scores.clone(),
        ],
        None => [nothing(), nothing(), nothing()],
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

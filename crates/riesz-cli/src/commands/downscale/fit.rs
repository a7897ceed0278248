//! `riesz downscale fit`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::format::model::SavedModel;
use riesz::model_card::CardEntry;

use super::shared_fit::Learn;
use crate::args::Global;
use crate::commands::fit::written;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::output::Output;

/// Arguments of `downscale fit`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz downscale fit rows.csv bags.csv --bag district --target rate --weight people -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target cases --weight people --sum -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target cases --weight people --family poisson -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target rate --mediators latitude,year -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target rate --inducing 500 -o m.riesz

The map is a Gaussian process f of single rows, and a target the mean (or with --sum the sum) of f
over the rows of its bag, and noise. Of counts f is the logarithm of a rate (--family poisson) or
the log odds of a success (binomial), and a target counts what these give all rows of its bag. The
file holds it with its posterior, by the best hyper-parameters: 'predict --std', 'explain
--covariance', 'importance' and 'anova' take it as they take others. Where targets are few, these
hyper-parameters are too sure of themselves: Python's riesz.AggregateGaussianProcess averages over
draws of them.")]
pub struct Args {
    /// The training data and the settings of the fit.
    #[command(flatten)]
    pub learn: Learn,
    /// Model file to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Reads, fits and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.json_words()?;
    let Some(path) = args.output.as_deref() else {
        return Err(Failure::input("say where to write the model: -o FILE"));
    };
    // Opened before the work, so that a place that cannot be written to is found out first.
    let output = Output::open(Some(path))?;
    let fitted = args.learn.fitted(global.seed, &console)?;
    let mut model = fitted.model;
    model.model_card.push(CardEntry::new("data", fitted.aggregated.source));
    model
        .model_card
        .push(CardEntry::new("standardised", if args.learn.no_standardise { "no" } else { "yes" }));
    model.model_card.push(CardEntry::new("kernel expression", &args.learn.kernel));
    model.model_card.push(CardEntry::new("riesz", env!("CARGO_PKG_VERSION")));
    let summary = model.facts();
    let saved = SavedModel { model, covariance: Some(fitted.covariance), groups: None };
    written(&saved, output, &summary, as_json, console)
}

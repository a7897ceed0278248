//! `riesz downscale fit`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::format::model::SavedModel;
use riesz::model_card::CardEntry;

use super::estimate;
use super::shared_fit::Learn;
use crate::args::Global;
use crate::commands::fit::written;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::models::ModelOrAverage;
use crate::io::output::Output;

/// Arguments of `downscale fit`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz downscale fit areas.csv --target cases --exposure population --family poisson -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target rate --weight people -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target cases --weight people --sum -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target cases --weight people --family poisson -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target rate --mediators latitude,year -o m.riesz
  riesz downscale fit rows.csv bags.csv --bag district --target rate --inducing 500 -o m.riesz

The map is a Gaussian process f of single rows. A target is the mean (with --sum the sum) of f over
the rows of its bag, plus noise. For counts f is the log rate (--family poisson) or the log odds of
a success (binomial), and a target is the count over all rows of its bag.

With a single table each line is an area with its covariates, its target and its population
(--exposure). With the expected number of events as exposure the map is a standardised ratio.

The file holds the map with its posterior, at the best hyper-parameters; 'predict --std', 'explain
--covariance', 'importance' and 'effects' read it like any other model. With few targets, one set
of hyper-parameters understates the uncertainty: --hyperparameter-samples averages over samples of
them, and so does 'riesz downscale estimate'.")]
pub struct Args {
    /// The training data and the settings of the fit.
    #[command(flatten)]
    pub learn: Learn,
    /// Number of samples of the hyper-parameters over which the map is averaged; the file then holds all of
    /// them, and all commands for models read it
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub hyperparameter_samples: usize,
    /// Model file to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Fits the map and writes the model file.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.is_json_requested()?;
    let Some(path) = args.output.as_deref() else {
        return Err(Failure::input("no output file is given for the model: give -o FILE"));
    };
    // The output is opened before the work, so that an unwritable path is reported first.
    let output = Output::open(Some(path))?;
    let samples = args.hyperparameter_samples;
    estimate::check_samples(&args.learn, samples)?;
    let fitted = args.learn.fitted(global.seed, &console)?;
    let mut model = fitted.model;
    let average = match samples {
        0 => None,
        _ => {
            let data = (&fitted.aggregated, &model.output_names[..]);
            Some(estimate::average(&args.learn, samples, data, global.seed, &console)?)
        }
    };
    model.model_card.push(CardEntry::new("data", fitted.aggregated.source));
    model
        .model_card
        .push(CardEntry::new("standardised", if args.learn.no_standardise { "no" } else { "yes" }));
    model.model_card.push(CardEntry::new("kernel expression", args.learn.kernel_expression()));
    model.model_card.push(CardEntry::new("riesz", env!("CARGO_PKG_VERSION")));
    let summary = model.facts();
    let best = SavedModel { model, covariance: Some(fitted.covariance), groups: None };
    written(&ModelOrAverage { best, average }.into_bytes()?, output, &summary, as_json, console)
}

//! `riesz convert`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::error::listed;
use riesz::format::model::SavedModel;
use riesz::format::{libsvm, model};

use crate::args::FeatureArgs;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::models::{ModelOrAverage, read_average};
use crate::io::output::write_all;

/// Arguments of `convert`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz convert m.riesz m.libsvm        for svm-predict and other readers of LIBSVM models
  riesz convert svm.model m.riesz
  riesz convert svm.model m.riesz --columns age,bmi,bp --scale range.txt

A file whose name ends in .riesz becomes a riesz model, any other a LIBSVM model. An average over
hyper-parameters becomes the model with the best ones. LIBSVM's files hold kernels of the form
exp(-γ|x - x'|²), x·x', (γ x·x' + c)^p and tanh(γ x·x' + c) in features 1 … d; names, groups and
the model card are lost. Only models fitted with one length scale and --no-standardise can be
written as LIBSVM models.")]
pub struct Args {
    /// Model file (riesz, or LIBSVM, whose features 1, 2, … are the columns x0, x1, …)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Model file to write
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Information that LIBSVM files do not contain.
    #[command(flatten)]
    pub features: FeatureArgs,
}

/// Reads a model in one format and writes it in the other.
pub fn run(args: &Args, console: Console) -> Result<()> {
    let ModelOrAverage { best: saved, average } = read_average(&args.model, None, &args.features)?;
    if let Some(average) = average {
        console.note(format!(
            "note: {} is an average of {} models; the new file has the model of the best hyper-parameters",
            args.model.display(),
            average.models.len()
        ));
    }
    let about = |failure: Failure| failure.about(&args.model.display().to_string());
    let is_riesz = args.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("riesz"));
    let bytes = if is_riesz {
        model::to_bytes(&saved).map_err(|error| about(error.into()))?
    } else {
        libsvm::write(&saved.model).map_err(|error| about(with_remedy(error, &saved)))?.into_bytes()
    };
    write_all(Some(&args.output), &bytes)?;
    let columns = listed(saved.model.columns().iter().map(|column| &column.name));
    match (is_riesz, &args.features.scale) {
        (true, None) => console.note(format!("columns: {columns}")),
        (true, Some(scale)) => console.note(format!(
            "columns: {columns}, in the units before scaling: the model contains the scaling of {}, which is \
             not needed any more",
            scale.display()
        )),
        (false, _) => console.note(format!(
            "features 1, 2, … of the file are the columns {columns}, in the units of the table: it needs no \
             range file, and must be given rows that svm-scale has not changed"
        )),
    }
    Ok(())
}

/// The reason why a model cannot be a LIBSVM file, with the remedy if its columns are standardised.
fn with_remedy(error: riesz::Error, saved: &SavedModel) -> Failure {
    let is_standardised =
        saved.model.model_card.iter().any(|entry| entry.name == "standardised" && entry.value == "yes");
    match is_standardised {
        true => Failure::input(format!(
            "{error}; the model was fitted to standardised columns: fit it with --no-standardise and one \
             length scale, such as --kernel 'rbf(length_scale=2)'"
        )),
        false => error.into(),
    }
}

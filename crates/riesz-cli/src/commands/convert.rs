//! `riesz convert`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::format::{libsvm, model};

use crate::args::FeatureArgs;
use crate::exit::{Failure, Result};
use crate::io::models::read_model;
use crate::io::output::write_all;

/// Arguments of `convert`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz convert m.riesz m.libsvm        for svm-predict and other readers of LIBSVM models
  riesz convert svm.model m.riesz
  riesz convert svm.model m.riesz --columns age,bmi,bp --scale range.txt

A file whose name ends in .riesz becomes a riesz model, any other a LIBSVM model. LIBSVM's files
hold kernels of the form exp(-γ|x - x'|²), x·x', (γ x·x' + c)^p and tanh(γ x·x' + c) in features
1 … d; names, groups and the model card are lost. Only models fitted with one length scale and
--no-standardise can be written as LIBSVM models.")]
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
pub fn run(args: &Args) -> Result<()> {
    let saved = read_model(&args.model, None, &args.features)?;
    let about = |e| Failure::from(e).about(&args.model.display().to_string());
    let bytes = if args.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("riesz")) {
        model::to_bytes(&saved).map_err(about)?
    } else {
        libsvm::write(&saved.model).map_err(about)?.into_bytes()
    };
    write_all(Some(&args.output), &bytes)
}

//! `riesz convert`.

use riesz::format::{libsvm, model};

use crate::args::ConvertArgs;
use crate::failure::{Failure, Result};
use crate::io::models::read_model;
use crate::io::output::write_all;

/// Reads a model in one format and writes it in the other.
pub fn run(args: &ConvertArgs) -> Result<()> {
    let saved = read_model(&args.model, &[])?;
    let about = |e| Failure::from(e).about(&args.model.display().to_string());
    let bytes = if args.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("riesz")) {
        model::to_bytes(&saved).map_err(about)?
    } else {
        libsvm::write(&saved.model).map_err(about)?.into_bytes()
    };
    write_all(Some(&args.output), &bytes)
}

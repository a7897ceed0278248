//! Files that hold a model or an explanation.

use std::collections::HashSet;
use std::path::Path;

use riesz::Explanation;
use riesz::format::model::SavedModel;
use riesz::format::{explanation, libsvm, model};

use crate::failure::{Failure, Result};
use crate::io::input::read_file;

/// What a file turned out to hold.
pub enum Found {
    /// A model and the name of its file format.
    Model(Box<SavedModel>, &'static str),
    /// An explanation.
    Explanation(Box<Explanation>),
}

/// Reads a model or an explanation, whichever it is. `header` names the columns of the rows that the model is to meet, if
/// any: a LIBSVM file leaves out zeros, so a feature that is zero in all support vectors shows in the rows only.
pub fn read_any(path: &Path, header: &[String]) -> Result<Found> {
    let bytes = read_file(path)?;
    let name = path.display().to_string();
    let about = |e: riesz::Error| Failure::from(e).about(&name);
    if bytes.is_empty() {
        return Err(Failure::input(format!("{name} is empty")));
    }
    if model::recognises(&bytes) {
        return Ok(Found::Model(Box::new(model::from_bytes(&bytes).map_err(about)?), "riesz model"));
    }
    if explanation::recognises(&bytes) {
        return Ok(Found::Explanation(Box::new(explanation::read(&bytes).map_err(about)?)));
    }
    if libsvm::recognises(&bytes) {
        let mut model = libsvm::read(&bytes, None).map_err(about)?;
        let names: HashSet<&str> = header.iter().map(String::as_str).collect();
        let width =
            (model.columns().len()..).take_while(|j| names.contains(format!("x{}", j + 1).as_str())).count()
                + model.columns().len();
        if width > model.columns().len() {
            model = libsvm::read(&bytes, Some(width)).map_err(about)?;
        }
        return Ok(Found::Model(Box::new(SavedModel { model, groups: None }), "LIBSVM model"));
    }
    Err(Failure::input(format!(
        "{name} is neither a riesz model, a LIBSVM model nor an explanation; models are written by 'riesz fit'"
    )))
}

/// Reads a model; `header` as for [`read_any`].
pub fn read_model(path: &Path, header: &[String]) -> Result<SavedModel> {
    match read_any(path, header)? {
        Found::Model(model, _) => Ok(*model),
        Found::Explanation(_) => {
            Err(Failure::input(format!("{} is an explanation, and a model is needed here", path.display())))
        }
    }
}

/// Reads an explanation.
pub fn read_explanation(path: &Path) -> Result<Explanation> {
    match read_any(path, &[])? {
        Found::Explanation(explanation) => Ok(*explanation),
        Found::Model(..) => Err(Failure::input(format!(
            "{} is a model, and an explanation is needed here: make one with 'riesz explain … -o FILE.json'",
            path.display()
        ))),
    }
}

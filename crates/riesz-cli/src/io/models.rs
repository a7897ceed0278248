//! Files that hold a model or an explanation.

use std::collections::HashSet;
use std::io::Cursor;
use std::path::Path;

use riesz::Explanation;
use riesz::format::model::SavedModel;
use riesz::format::{explanation, libsvm, model};

use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::input::{Rows, Source, read_file};
use crate::io::values;

/// What a file turned out to hold.
pub enum Found {
    /// A model and the name of its file format.
    Model(Box<SavedModel>, &'static str),
    /// An explanation and the name of its file format.
    Explanation(Box<Explanation>, &'static str),
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
        let explanation = explanation::read(&bytes).map_err(about)?;
        return Ok(Found::Explanation(Box::new(explanation), "riesz explanation"));
    }
    if bytes.starts_with(b"PAR1") {
        return table(
            Source { path: path.to_path_buf(), delimiter: None }.open()?,
            "table of values (Parquet)",
        );
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
        return Ok(Found::Model(
            Box::new(SavedModel { model, covariance: None, groups: None }),
            "LIBSVM model",
        ));
    }
    // The line of names is enough to tell, and cheap even if the file is something else.
    let first = &bytes[..bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len())];
    if std::str::from_utf8(first).is_ok_and(|line| line.contains("base_value")) {
        return table(Rows::csv(Box::new(Cursor::new(bytes)), b',', &name)?, "table of values (CSV)");
    }
    Err(Failure::input(format!(
        "{name} is neither a riesz model, a LIBSVM model nor an explanation; models are written by 'riesz fit', explanations by 'riesz explain'"
    )))
}

fn table(rows: Rows, format: &'static str) -> Result<Found> {
    if !values::recognises(rows.header()) {
        return Err(Failure::input(format!(
            "{} is a table, but not one of values: the columns row, output, base_value, prediction and residual are needed",
            rows.name
        )));
    }
    Ok(Found::Explanation(Box::new(values::read(rows)?), format))
}

/// Reads a model; `header` as for [`read_any`].
pub fn read_model(path: &Path, header: &[String]) -> Result<SavedModel> {
    match read_any(path, header)? {
        Found::Model(model, _) => Ok(*model),
        Found::Explanation(..) => {
            Err(Failure::input(format!("{} is an explanation, and a model is needed here", path.display())))
        }
    }
}

/// Reads an explanation; `rows` are for the feature values that a table of values lacks.
pub fn read_explanation(path: &Path, rows: Option<Rows>, console: &Console) -> Result<Explanation> {
    match read_any(path, &[])? {
        Found::Explanation(explanation, _) => complete(*explanation, path, rows, console),
        Found::Model(..) => Err(Failure::input(format!(
            "{} is a model, and an explanation is needed here: make one with 'riesz explain … -o FILE'",
            path.display()
        ))),
    }
}

/// An explanation from `path` with the feature values in `rows`, if it has none of its own.
pub fn complete(
    mut explanation: Explanation,
    path: &Path,
    rows: Option<Rows>,
    console: &Console,
) -> Result<Explanation> {
    match rows {
        Some(_) if explanation.data.width() > 0 => {
            let name = path.display();
            return Err(Failure::input(format!(
                "{name} holds its feature values already: leave the rows out"
            )));
        }
        Some(rows) => values::add_data(&mut explanation, rows, console)?,
        None => {}
    }
    Ok(explanation)
}

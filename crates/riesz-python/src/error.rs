//! Conversion of the library's errors to Python exceptions.

use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use riesz::Error;

pyo3::create_exception!(
    riesz,
    UnsupportedModelError,
    PyTypeError,
    "The model, or a part of it that the message names, has no exact values."
);

/// Converts an error of the library to an exception, with the names of arguments in the Python classes.
pub(crate) fn raise(error: Error) -> PyErr {
    match error {
        Error::NotProduct { .. } => UnsupportedModelError::new_err(error.to_string()),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Parameter { name, value, allowed } => {
            let name = match name.as_str() {
                "period" => "periodicity".into(),
                "tolerance" => "tol".into(),
                _ => name,
            };
            PyValueError::new_err(Error::Parameter { name, value, allowed }.to_string())
        }
        other => PyValueError::new_err(other.to_string()),
    }
}

/// An exception for an argument that is wrong before it reaches the library.
pub(crate) fn refuse(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

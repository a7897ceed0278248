//! Engines: from a game to its values.

pub(crate) mod averages;
pub(crate) mod block;
pub mod coalitions;
pub(crate) mod contributions;
pub(crate) mod covariance;
mod cumulants;
pub mod enumeration;
mod gram;
pub(crate) mod interactions;
mod jacobi;
pub mod kernel_shap;
pub(crate) mod mixtures;
pub(crate) mod observational;
mod owen;
mod owen_series;
mod pairs;
pub(crate) mod parts;
pub mod permutation;
pub(crate) mod powers;
pub(crate) mod product;
pub(crate) mod quadrature;
pub(crate) mod recipe;
pub(crate) mod rule;
pub(crate) mod series;
pub(crate) mod set_errors;
pub(crate) mod sets;
pub(crate) mod std_error;
mod strengths;
pub(crate) mod strongest;
pub(crate) mod tables;

use crate::error::{Error, Result};
use crate::linalg::Matrix;

/// Checks what a model that is known by its answers alone answers about `rows` rows; `outputs` is how many
/// outputs it had before.
fn check_answer(out: &Matrix, rows: usize, outputs: Option<usize>) -> Result<()> {
    for (unit, expected, found, why) in [
        ("rows", rows, out.rows(), "one for each row that it was asked about"),
        ("outputs", outputs.unwrap_or(out.cols()), out.cols(), "as many as in its first answer"),
    ] {
        if expected != found {
            let (what, why) = ("the model's answer".into(), why.into());
            return Err(Error::Shape { what, unit, expected, found, why });
        }
    }
    if !out.data().iter().all(|v| v.is_finite()) {
        return Err(Error::Overflow {
            what: "a prediction between a row and a background row".into(),
            remedy: "the model must answer with finite numbers for every mixture of the two",
        });
    }
    Ok(())
}

//! Engines: they compute the values of a game.

pub(crate) mod coalition_covariance;
pub(crate) mod coalition_tables;
mod cumulants;
pub mod enumeration;
pub(crate) mod factor_block;
pub(crate) mod index_computation;
mod interaction_bounds;
pub(crate) mod interaction_weights;
pub(crate) mod interactions;
mod jacobi;
pub mod kernel_shap;
pub(crate) mod observational;
mod owen;
mod owen_series;
mod pair_interactions;
pub(crate) mod part_coalition_values;
pub mod permutation;
pub(crate) mod player_contributions;
pub(crate) mod polynomial_games;
pub(crate) mod power_series;
pub(crate) mod prior_value_covariance;
pub(crate) mod product;
pub(crate) mod quadrature;
pub(crate) mod rule;
pub mod sampled_shapley;
pub(crate) mod set_error_bounds;
mod set_products;
pub(crate) mod sets;
pub(crate) mod std_error;
pub(crate) mod top_pair_search;

use crate::error::{Error, Result};
use crate::linalg::Matrix;

/// Checks a black-box model's answer for `rows` rows; `outputs` is the number of outputs of its earlier
/// answers.
fn check_answer(out: &Matrix, rows: usize, outputs: Option<usize>) -> Result<()> {
    for (unit, expected, actual, why) in [
        ("rows", rows, out.rows(), "one for each row that it was asked about"),
        ("outputs", outputs.unwrap_or(out.cols()), out.cols(), "as many as in its first answer"),
    ] {
        if expected != actual {
            let (subject, why) = ("the model's answer".into(), why.into());
            return Err(Error::Shape { subject, unit, expected, actual, why });
        }
    }
    if !out.data().iter().all(|v| v.is_finite()) {
        return Err(Error::Overflow {
            subject: "a prediction between a row and a background row".into(),
            remedy: "the model must answer with finite numbers for every mixture of the two",
        });
    }
    Ok(())
}

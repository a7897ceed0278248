//! Engines that compute the values of a game.

pub mod antithetic_orders;
pub mod coalition_covariance;
pub(crate) mod coalition_tables;
mod cumulants;
pub mod enumeration;
pub(crate) mod factor_block;
pub(crate) mod index_computation;
mod interaction_bounds;
pub mod interaction_weights;
pub mod interactions;
mod jacobi;
pub mod kernel_shap;
pub(crate) mod observational;
mod owen;
mod owen_series;
mod pair_interactions;
pub(crate) mod part_coalition_values;
pub mod permutation;
pub(crate) mod player_contributions;
pub(crate) mod player_order;
pub(crate) mod polynomial_games;
pub(crate) mod power_series;
pub(crate) mod prior_value_covariance;
pub mod product;
pub mod quadrature;
pub mod rule;
pub mod sampled_shapley;
pub(crate) mod set_error_bounds;
mod set_products;
pub mod sets;
pub mod std_error;
pub(crate) mod top_pair_search;

use crate::error::{Error, Result};
use crate::linalg::Matrix;

/// The numbers of `rows` rows in consecutive batches of at most `size`.
pub(crate) fn row_batches(rows: usize, size: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..rows).step_by(size).map(move |start| (start..rows.min(start + size)).collect())
}

/// The weighted mean of a matrix's rows.
pub(crate) fn weighted_mean(weights: &[f64], matrix: &Matrix) -> Vec<f64> {
    let entry = |o: usize| weights.iter().enumerate().map(|(b, w)| w * matrix[(b, o)]).sum();
    (0..matrix.cols()).map(entry).collect()
}

/// Checks the shape of a black-box model's predictions for `rows` rows, and that they are finite; `outputs`
/// is the number of outputs of earlier predictions.
fn check_answer(out: &Matrix, rows: usize, outputs: Option<usize>) -> Result<()> {
    for (unit, expected, actual, why) in [
        ("rows", rows, out.rows(), "one for each row that it received"),
        ("outputs", outputs.unwrap_or(out.cols()), out.cols(), "as many as in its first answer"),
    ] {
        if expected != actual {
            let (subject, why) = ("the model's answer", why);
            return Err(Error::shape(subject, unit, expected, actual, why));
        }
    }
    if !out.data().iter().all(|v| v.is_finite()) {
        return Err(Error::overflow(
            "a prediction between a row and a background row",
            "the model must predict finite numbers for every mixture of the two",
        ));
    }
    Ok(())
}

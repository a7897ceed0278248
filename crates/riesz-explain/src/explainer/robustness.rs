//! Bounds on the change of values when a row moves a little, the same for all rows, from the norm of the
//! model.
//!
//! A coalition's value is the inner product of the model's function f with `ψ_S(x) ⊗ μ`, where `ψ_S(x)` is
//! the feature map of the present features S at the row x, and μ the mean embedding of the absent ones. If x
//! moves to x', then `|v_x(S) - v_x'(S)| ≤ ‖f‖ ‖ψ_S(x) - ψ_S(x')‖ ‖μ‖`. A Shapley value averages differences
//! of two coalitions' values with weights that sum to 1, so it moves by at most twice as much. In the
//! observational game μ depends on x too, through an operator of norm at most `1/(2√η)`, where η is the
//! ridge. Centered values add `(1 - Σ_b W_S(x)_b)` times the mean of f over the reference rows, which is at
//! most `‖f‖`; the sum of weights moves by at most `‖ψ_S(x) - ψ_S(x')‖ / (2√η)` as well. The constants are
//! those of the triangle inequality. The paper's (Chau, Hu, Gonzalez and Sejdinovic 2022, Theorem 6) are
//! smaller by √2 and rest on a step that does not hold.

use crate::error::{Error, Result, listed};
use crate::kernel::rounding_bounds::union_probability;
use crate::kernel::{ColumnRanges, Columns, Kernel, Term};
use crate::kernel_model::KernelExpansion;
use crate::linalg::dot;

/// Returns, for each output, a bound on the change of any Shapley value if each column j of a row moves by at
/// most `delta[j]`. `embedding` has the kernel and ridge of the conditional distributions, and whether values
/// are centered; if it is `None`, absent features do not depend on the row.
pub(super) fn bound(
    model: &KernelExpansion,
    embedding: Option<(&Kernel, f64, bool)>,
    delta: &[f64],
) -> Result<Vec<f64>> {
    let columns = model.columns();
    if delta.len() != columns.len() {
        return Err(Error::shape(
            "the list of perturbations",
            "numbers",
            columns.len(),
            delta.len(),
            format!("one number per column: {}", listed(columns.iter().map(|c| &c.name))),
        ));
    }
    if let Some(bad) = delta.iter().find(|d| d.is_nan() || **d < 0.0) {
        return Err(Error::parameter("perturbation", bad, "perturbations must be 0 or more"));
    }
    let hull = ColumnRanges::per_column(Columns::from_row(&model.support_points, 0), columns.len());
    let ranges = ColumnRanges { u: hull.clone(), v: hull };
    let mut total = vec![0.0; model.outputs()];
    for term in &model.kernel.terms {
        let model_distance = feature_map_distance(term, delta)?;
        let distance = match embedding {
            None => model_distance,
            Some((kernel, ridge, centered)) => {
                let conditioning_distance = feature_map_distance(&kernel.terms[0], delta)?;
                let distance_of_weights = if centered { conditioning_distance } else { 0.0 };
                let total_distance = model_distance + conditioning_distance + distance_of_weights;
                // With all players present the value is f(x) for any ridge.
                model_distance.max(total_distance / (2.0 * ridge.sqrt()))
            }
        };
        let gram = Kernel { terms: vec![Term { scale: 1.0, ..term.clone() }] }.gram(&model.support_points);
        // The absolute value of an entry is at most 1, its error at most `units` roundings, and so are the
        // errors of the sums of products with coefficients.
        let units =
            rounding_units(term, &ranges, columns.len()) + 2.0 * (model.support_points.rows() + 8) as f64;
        for (o, total) in total.iter_mut().enumerate() {
            let coef = model.coef.column(o);
            let size: f64 = coef.iter().map(|c| c.abs()).sum();
            let rounding = f64::EPSILON / 2.0 * units * size;
            // The square roots are multiplied, not their squares: coefficients can be large.
            let norm = dot(&coef, &gram.matvec(&coef)).max(0.0).sqrt() + rounding.sqrt() * size.sqrt();
            *total += 2.0 * norm * term.scale.sqrt() * distance;
        }
    }
    Ok(total)
}

/// The number of roundings in a product of factors of at most 1, as kernels compute it.
fn rounding_units(term: &Term, reach: &ColumnRanges, width: usize) -> f64 {
    let mut units = 0.0;
    for factor in &term.factors {
        let precision = factor.precision_of_all(reach);
        // `z ln(1/z)` is 1/e at most.
        units += 1.0 + precision.units + 0.368 * (precision.per_log + 2.0 + width as f64);
    }
    units
}

/// The largest feature-map distance `‖ψ(x) - ψ(x')‖ = √(2 - 2 k(x, x'))`, for a kernel k that is a product of
/// factors with value 1 at distance 0.
fn feature_map_distance(term: &Term, delta: &[f64]) -> Result<f64> {
    let mut total_decrease = 0.0;
    for factor in &term.factors {
        let decrease = factor.fall(delta).ok_or_else(|| {
            let allowed = "the bound needs factors with bounded values, and this one is unbounded";
            Error::parameter("kernel", factor.formula(), allowed)
        })?;
        total_decrease = union_probability(total_decrease, decrease);
    }
    // The factor covers a few roundings.
    Ok((2.0 * total_decrease).sqrt() * (1.0 + 1e-12))
}

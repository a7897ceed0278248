//! The gradient of Laplace's approximation of the evidence in the kernel's parameters and the dispersions.
//!
//! The mode changes with the kernel, so the gradient has an explicit and an implicit part. The symbols are
//! those of `laplace.rs`. Let `e_i` be the derivative of `-½ log det Λ` in f_i, and `E = Fᵀe` (one number per
//! point). H is minus the matrix of second derivatives of J, and `(y_β, y)` solves `H y = E`. Then the
//! derivatives in row i of F are
//!
//! ```text
//! -D_i (B ω Λ⁻¹ψ)_i + (s + e + p)_i vᵀ + s_i yᵀ        s = ∂ log p/∂f,   p = ∂² log p/∂f² (y_β + F y)
//! ```
//!
//! The approximation depends on F only through FFᵀ. The derivatives in K(W, W) are therefore
//! `-½ L⁻ᵀ(vvᵀ + vyᵀ + yvᵀ - (I - Λ⁻¹))L⁻¹`.

use super::laplace::{CountObservations, LatentState, Mode};
use crate::error::Result;
use crate::linalg::add_to;

/// Returns the gradient in the kernel's parameters, and for each target the derivative in the logarithm of
/// its dispersion. Cost: some passes over the kernel, one of them with derivatives, and O(points³).
pub(super) fn evidence_gradient(
    observed: &CountObservations<'_>,
    mode: &Mode,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let CountObservations { points, cross, operator, .. } = observed;
    let (evaluation, local, rows) = (&mode.evaluation, &mode.local, cross.rows);
    let (m, terms) = (cross.points.rows(), &evaluation.likelihood_terms);
    // Λ⁻¹ψ; then ω Λ⁻¹ψ, in the coordinates of K.
    let mut solved_psi = local.precision.solve(local.jacobian.clone());
    let leverages = solved_psi.column_dots(&local.jacobian);
    solved_psi.scale_columns(terms.iter().map(|s| s.information));
    points.factor.solve_upper_in_place(&mut solved_psi);
    let bag_vectors = operator.times(&solved_psi.transpose());
    let d_information =
        operator.times_vector(terms.iter().zip(&leverages).map(|(s, u)| s.d_information * u).collect());
    // e and E.
    let mut by_f = cross.row_dots(&bag_vectors)?;
    for (i, &b) in rows.bag.iter().enumerate() {
        by_f[i] = -0.5 * d_information[b] * local.slopes[i] - local.second_derivatives[i] * by_f[i];
    }
    let (by_points, by_mean) = cross.weighted_products(&by_f, 1.0, &vec![0.0; m])?;
    let beta = if observed.given_mean.is_some() { 0.0 } else { by_mean };
    let by_state = LatentState { beta, v: observed.lower(by_points) };
    let (y, _) = observed.solve((evaluation, local), &by_state)?;
    // s and s + e + p.
    let alpha = observed.upper(&y.v);
    let f_change = cross.latent_values(y.beta, &alpha)?;
    let sum_changes = local.sum_derivatives(&y);
    let dispersion_derivatives = terms.iter().zip(&sum_changes).zip(&leverages).map(|((s, q), u)| {
        let [value, derivative, information] = s.parameter_derivatives;
        value + derivative * q - 0.5 * information * u
    });
    let dispersion_derivatives = dispersion_derivatives.collect();
    let second_order = terms.iter().zip(&sum_changes).map(|(s, q)| s.second_derivative * q).collect();
    let second_order = operator.times_vector(second_order);
    let bag_scores = operator.times_vector(terms.iter().map(|s| s.first_derivative).collect());
    let mut scores = vec![0.0; by_f.len()];
    for (i, &b) in rows.bag.iter().enumerate() {
        scores[i] = bag_scores[b] * local.slopes[i];
        by_f[i] += scores[i]
            + bag_scores[b] * local.second_derivatives[i] * f_change[i]
            + second_order[b] * local.slopes[i];
    }
    let negated: Vec<f64> = local.slopes.iter().map(|d| -d).collect();
    let mut gradient =
        cross.gradient(&negated, &bag_vectors, [(&by_f, &evaluation.alpha), (&scores, &alpha)])?;
    // ½ (I - Λ⁻¹ - vvᵀ - vyᵀ - yvᵀ).
    let (mut inner, v) = (local.precision.inverse(), &evaluation.state.v);
    for i in 0..m {
        let row = inner.row_mut(i).iter_mut().zip(v).zip(&y.v);
        row.for_each(|((l, vj), yj)| *l = -0.5 * (*l + v[i] * vj + v[i] * yj + y.v[i] * vj));
    }
    inner.add_diagonal(|_| 0.5);
    let gram_gradient = points.gram_gradient(cross.kernel, cross.points, inner);
    add_to(&mut gradient, &gram_gradient);
    Ok((gradient, dispersion_derivatives))
}

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
    let solved = local.precision.solve(local.jacobian.clone());
    let leverages = solved.column_dots(&local.jacobian);
    let mut by_psi = solved;
    by_psi.scale_columns(terms.iter().map(|s| s.information));
    points.factor.solve_upper_in_place(&mut by_psi);
    let by_psi = operator.times(&by_psi.transpose());
    let turn =
        operator.times_vector(terms.iter().zip(&leverages).map(|(s, u)| s.d_information * u).collect());
    // e and E.
    let mut by_f = cross.row_dots(&by_psi)?;
    for (i, &b) in rows.bag.iter().enumerate() {
        by_f[i] = -0.5 * turn[b] * local.slopes[i] - local.second_derivatives[i] * by_f[i];
    }
    let (weighted_latent, total_weight) = cross.weighted_products(&by_f, 1.0, &vec![0.0; m])?;
    let beta = if observed.given_mean.is_some() { 0.0 } else { total_weight };
    let by_place = LatentState { beta, v: observed.lower(weighted_latent) };
    let (y, _) = observed.solve((evaluation, local), &by_place)?;
    // s and s + e + p.
    let alpha = observed.upper(&y.v);
    let moved = cross.latent_values(y.beta, &alpha)?;
    let along = local.moved(&y);
    let dispersed = terms.iter().zip(&along).zip(&leverages).map(|((s, q), u)| {
        let [value, slope, information] = s.parameter_derivatives;
        value + slope * q - 0.5 * information * u
    });
    let dispersed = dispersed.collect();
    let second_order = terms.iter().zip(&along).map(|(s, q)| s.second_derivative * q).collect();
    let second_order = operator.times_vector(second_order);
    let pull = operator.times_vector(terms.iter().map(|s| s.first_derivative).collect());
    let mut pulls = vec![0.0; by_f.len()];
    for (i, &b) in rows.bag.iter().enumerate() {
        pulls[i] = pull[b] * local.slopes[i];
        by_f[i] +=
            pulls[i] + pull[b] * local.second_derivatives[i] * moved[i] + second_order[b] * local.slopes[i];
    }
    let less: Vec<f64> = local.slopes.iter().map(|d| -d).collect();
    let mut total = cross.gradient(&less, &by_psi, [(&by_f, &evaluation.alpha), (&pulls, &alpha)])?;
    // ½ (I - Λ⁻¹ - vvᵀ - vyᵀ - yvᵀ).
    let (mut inner, v) = (local.precision.inverse(), &evaluation.state.v);
    for i in 0..m {
        let row = inner.row_mut(i).iter_mut().zip(v).zip(&y.v);
        row.for_each(|((l, vj), yj)| *l = -0.5 * (*l + v[i] * vj + v[i] * yj + y.v[i] * vj));
    }
    inner.add_diagonal(|_| 0.5);
    let of_gram = points.gram_gradient(cross.kernel, cross.points, inner);
    add_to(&mut total, &of_gram);
    Ok((total, dispersed))
}

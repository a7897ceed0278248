//! The slopes of Laplace's approximation of the evidence by the kernel's parameters, and by dispersions.
//!
//! The mode moves with the kernel, so that both parts count: with `e_i` what `-½ log det Λ` moves with f_i,
//! `E = Fᵀe`, and `H y = E` for minus the second derivatives H of J, the slopes by F are
//!
//! ```text
//! -D_i (B ω Λ⁻¹ψ)_i + (s + e + p)_i vᵀ + s_i yᵀ        s = ∂ log p/∂f,   p = ∂² log p/∂f² (y_β + F y)
//! ```
//!
//! and, because all of it depends on F through FFᵀ alone, those by K(W, W) are
//! `-½ L⁻ᵀ(vvᵀ + vyᵀ + yvᵀ - (I - Λ⁻¹))L⁻¹`.

use super::cross::Cross;
use super::mode::{Mode, Observed, Place, lower, to_bags, upper};
use crate::error::Result;
use crate::fit::whitening::WhitenedInducing;

/// By the kernel's parameters, and of each target by the logarithm of its dispersion. Cost some passes over
/// the kernel, one with slopes, and O(points³).
pub(super) fn slopes(
    observed: &Observed<'_>,
    cross: &Cross<'_>,
    points: &WhitenedInducing,
    mode: &Mode,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (here, bend, rows) = (&mode.here, &mode.bend, cross.rows);
    let (m, said) = (cross.points.rows(), &here.said);
    // Λ⁻¹ψ, then ω times that, in the space of K.
    let solved = bend.lambda.solve(bend.psi.clone());
    let mut own = vec![0.0; said.len()];
    for k in 0..m {
        let each = own.iter_mut().zip(solved.row(k)).zip(bend.psi.row(k));
        each.for_each(|((o, u), p)| *o += u * p);
    }
    let mut by_psi = solved;
    for k in 0..m {
        by_psi.row_mut(k).iter_mut().zip(said).for_each(|(v, s)| *v *= s.information);
    }
    points.factor.solve_upper_in_place(&mut by_psi);
    let by_psi = observed.operator.times(&by_psi.transpose());
    let turn = to_bags(observed.operator, said.iter().zip(&own).map(|(s, u)| s.turn * u).collect());
    // e, and E.
    let mut by_f = cross.dots(&by_psi)?;
    for (b, turn) in turn.iter().enumerate() {
        for i in rows.range(b) {
            by_f[i] = -0.5 * turn * bend.slopes[i] - bend.bends[i] * by_f[i];
        }
    }
    let (through, all) = cross.weigh(&by_f, 1.0, &vec![0.0; m])?;
    let beta = if observed.given.is_some() { 0.0 } else { all };
    let by_place = Place { beta, v: lower(&points.factor, &through) };
    let (y, _) = observed.solve(cross, &points.factor, (here, bend), &by_place)?;
    // s, and s + e + p.
    let alpha = upper(&points.factor, &y.v);
    let moved = cross.values(y.beta, &alpha)?;
    let along = bend.moved(&y);
    let dispersed = said.iter().zip(&along).zip(&own).map(|((s, q), u)| {
        let [value, slope, information] = s.by_dispersion;
        value + slope * q - 0.5 * information * u
    });
    let dispersed = dispersed.collect();
    let bent = said.iter().zip(&along).map(|(s, q)| s.bend * q).collect();
    let bent = to_bags(observed.operator, bent);
    let pull = to_bags(observed.operator, said.iter().map(|s| s.slope).collect());
    let mut pulls = vec![0.0; by_f.len()];
    for b in 0..rows.bags() {
        for i in rows.range(b) {
            pulls[i] = pull[b] * bend.slopes[i];
            by_f[i] += pulls[i] + pull[b] * bend.bends[i] * moved[i] + bent[b] * bend.slopes[i];
        }
    }
    let less: Vec<f64> = bend.slopes.iter().map(|d| -d).collect();
    let mut total = cross.contract(&less, &by_psi, [(&by_f, &here.alpha), (&pulls, &alpha)])?;
    // I - Λ⁻¹ less the rest, halved.
    let (mut inner, v) = (bend.lambda.inverse(), &here.place.v);
    for i in 0..m {
        let row = inner.row_mut(i).iter_mut().zip(v).zip(&y.v);
        row.for_each(|((l, vj), yj)| *l = -0.5 * (*l + v[i] * vj + v[i] * yj + y.v[i] * vj));
    }
    inner.add_diagonal(|_| 0.5);
    let of_gram = points.gram_gradient(cross.kernel, cross.points, inner);
    total.iter_mut().zip(&of_gram).for_each(|(t, g)| *t += g);
    Ok((total, dispersed))
}

//! Values of games of small [powers](super::polynomial_games) p, by coefficients that all players share.
//!
//! Player j has the summands u_j (present) and v_j (absent), and the series `A_j = e^{u_j z}` and `B_j =
//! e^{v_j z}`. With `δ_j = u_j - v_j`, `F_j = (1 - t) B_j + t A_j = e^{v_j z} (1 - t + t e^{δ_j z})`, and
//! `(A_j - B_j) / F_j = ∂/∂t ln (1 - t + t e^{δ_j z}) = Σ_k κ_k'(t) (δ_j z)^k / k!` with the cumulants κ of
//! the Bernoulli distribution. Therefore `φ_j = Σ_k C_k δ_j^k` with `C_k = p!/k! ∫ κ_k' h_{p-k} dμ`, where h
//! are the coefficients of `Π_l F_l e^{cz} = exp((c + Σ v + t Σ δ) z + Σ_{k≥2} κ_k Σ_l δ_l^k z^k / k!)`.
//! Likewise, pairs have the interactions `I_jl = Σ_{k,m} C_km δ_j^k δ_l^m`. There is no division by numbers
//! of the game. The κ alternate in sign, which loses digits as p grows.

use super::rule::Node;
use crate::simd::{Lanes, Simd};

/// Largest power for which all players share coefficients.
pub(super) const MAX_SHARED_POWER: usize = 4;

/// Bounds on `Σ_k |C_k| Σ_j |δ_j|^k` relative to M, by power. `Σ_j |δ_j|^k ≤ 2^k M^{k/p}`, so that every h is
/// at most 1 relative to M. With the absolute values of the terms of κ', the bound is `p! Σ_k 2^k κ_k' / k!`,
/// or half of the same sum for pairs if that is larger.
pub(super) const COEFFICIENT_BOUNDS: [f64; MAX_SHARED_POWER] = [2.0, 8.0, 44.0, 352.0];

/// The polynomial `c_1 x + c_2 x² + …`.
#[inline(always)]
fn horner<V: Simd>(coefficients: &[Lanes], x: Lanes) -> Lanes {
    let mut sum = Lanes::ZERO;
    for c in coefficients.iter().rev() {
        sum = V::fma(sum, x, *c);
    }
    V::mul(sum, x)
}

/// Adds to `out` the values and, with `pairs`, the pair interactions of one game with a small power, times
/// its weight.
#[inline(always)]
pub(super) fn values_by_shared_coefficients<V: Simd, const P: usize>(
    (constant, present, absent): (f64, &[Lanes], &[Lanes]),
    weight: f64,
    nodes: &[Node],
    pairs: bool,
    out: &mut [Lanes],
) {
    let number = Lanes::splat;
    // Σ v + c, and Σ δ^k.
    let (mut base, mut sums) = (number(constant), [Lanes::ZERO; MAX_SHARED_POWER + 1]);
    for (u, v) in present.iter().zip(absent) {
        let delta = V::sub(*u, *v);
        base = V::add(base, *v);
        let mut power = delta;
        for sum in &mut sums[1..P] {
            *sum = V::add(*sum, power);
            power = V::mul(power, delta);
        }
    }
    let mut single = [Lanes::ZERO; MAX_SHARED_POWER + 1];
    let mut double = [[Lanes::ZERO; MAX_SHARED_POWER + 1]; MAX_SHARED_POWER + 1];
    let factorial = (1..=P).map(|k| k as f64).product::<f64>() * weight;
    for node in nodes {
        let (t, s) = (node.t, node.s);
        let (variance, skewness) = (t * s, s - t);
        // Cumulants divided by (k-1)!, and their derivatives divided by k!.
        let cumulants = [0.0, 0.0, variance, 0.5 * variance * skewness, 0.0];
        let slopes = [
            0.0,
            1.0,
            0.5 * skewness,
            (1.0 - 6.0 * variance) / 6.0,
            skewness * (1.0 - 12.0 * variance) / 24.0,
        ];
        let mut e = [Lanes::ZERO; MAX_SHARED_POWER + 1];
        e[1] = if P > 1 { V::fma(sums[1], number(t), base) } else { base };
        for k in 2..P {
            e[k] = V::mul(sums[k], number(cumulants[k]));
        }
        let mut h = [Lanes::UNIT; MAX_SHARED_POWER + 1];
        for m in 1..P {
            let mut sum = Lanes::ZERO;
            for k in 1..=m {
                sum = V::fma(e[k], h[m - k], sum);
            }
            h[m] = V::mul(sum, number(1.0 / m as f64));
        }
        let scale = factorial * node.weight;
        for k in 1..=P {
            single[k] = V::fma(h[P - k], number(scale * slopes[k]), single[k]);
            if pairs {
                for m in 1..=P - k {
                    double[k][m] = V::fma(h[P - k - m], number(scale * slopes[k] * slopes[m]), double[k][m]);
                }
            }
        }
    }
    let players = present.len();
    let (values, pair_values) = out.split_at_mut(players);
    for ((u, v), value) in present.iter().zip(absent).zip(values) {
        *value = V::add(*value, horner::<V>(&single[1..=P], V::sub(*u, *v)));
    }
    if pairs {
        let mut remaining = pair_values.iter_mut();
        for j in 0..players {
            let delta = V::sub(present[j], absent[j]);
            let mut powers = [Lanes::ZERO; MAX_SHARED_POWER];
            for m in 1..P {
                let column: [Lanes; MAX_SHARED_POWER] = std::array::from_fn(|k| double[k + 1][m]);
                powers[m - 1] = horner::<V>(&column[..P - m], delta);
            }
            for l in j + 1..players {
                if let Some(pair) = remaining.next() {
                    *pair = V::add(*pair, horner::<V>(&powers[..P - 1], V::sub(present[l], absent[l])));
                }
            }
        }
    }
}

//! Shapley interaction indices of pairs of players in a product game, from the blocks that the values come from.
//!
//! `I_jl = Σ_p w_p (a_pj - b_pj)(a_pl - b_pl) ∫_0^1 Π_{q≠j,l} ((1-t) b_pq + t a_pq) dt` (Grabisch and Roubens 1999, for product games). The
//! integrand has lower degree than that of the values, so their rules serve.

use super::quadrature::{Run, load, relative_error};
use super::rule::{TAU, choose, exact_nodes, rule};
use crate::simd::{LANES, Lanes, Simd, dispatch};

/// Position of the pair j < l among the pairs of `players` in the order (0, 1), (0, 2), …, (1, 2), ….
pub(crate) fn place(players: usize, j: usize, l: usize) -> usize {
    j * players - j * (j + 1) / 2 + l - j - 1
}

dispatch! {
    /// Adds the indices of all pairs of the run's active players to `sums`, see [`place`]; returns a bound on the error that
    /// each gains. For factors whose products stay within the range of doubles.
    pub(crate) fn add_pairs(run: &Run<'_>, sums: &mut [Lanes]) -> f64 = body::<V>
}

#[inline(always)]
fn body<V: Simd>(run: &Run<'_>, sums: &mut [Lanes]) -> f64 {
    let players = run.players;
    let (mut factors, mut gaps) = (vec![Lanes::ONE; players], vec![Lanes::ONE; players]);
    let mut suffix = vec![Lanes::ONE; players + 1];
    let exact = exact_nodes(players);
    let mut error = 0.0;
    for (at, weight) in run.weights.iter().enumerate() {
        let offset = run.offset + at * LANES;
        let side = |i: usize| {
            let from = run.active[i] as usize * run.stride + offset;
            (load(run.a, from), run.b.map_or(Lanes::ONE, |b| load(b, from)))
        };
        let (mut magnitude, mut spread) = (Lanes::ONE, Lanes::ONE);
        let mut decay = 0.0;
        for i in 0..players {
            let (a, b) = side(i);
            let gap = V::abs(a.sub::<V>(b));
            let top = V::max(V::abs(a), V::abs(b));
            magnitude = magnitude.mul::<V>(top);
            spread = spread.mul::<V>(gap.fma::<V>(Lanes::splat(TAU), top));
            decay += (-top.smallest().ln()).max(0.0);
            gaps[i] = a.sub::<V>(b);
        }
        let choice = choose(V::div(spread, magnitude).largest(), exact);
        for node in rule(choice.nodes) {
            for i in 0..players {
                let (a, b) = side(i);
                factors[i] =
                    a.mul::<V>(Lanes::splat(node.t)).add::<V>(b.mul::<V>(Lanes::splat(1.0 - node.t)));
            }
            for i in (0..players).rev() {
                suffix[i] = suffix[i + 1].mul::<V>(factors[i]);
            }
            let mut before = weight.mul::<V>(Lanes::splat(node.weight));
            let mut next = 0;
            for j in 0..players {
                let mut others = before.mul::<V>(gaps[j]);
                for l in j + 1..players {
                    let without = others.mul::<V>(suffix[l + 1]);
                    sums[next] = gaps[l].fma::<V>(without, sums[next]);
                    others = others.mul::<V>(factors[l]);
                    next += 1;
                }
                before = before.mul::<V>(factors[j]);
            }
        }
        // Twice that of a value: |a - b| ≤ 2 max(|a|, |b|) once more.
        let bound = 2.0 * relative_error(players, &choice, &run.rounding, decay);
        error += V::abs(*weight).mul::<V>(magnitude).mul::<V>(Lanes::splat(bound)).sum();
    }
    error
}

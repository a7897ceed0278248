//! Sequential minimal optimisation of pairs of variables whose gram matrix is in memory.
//!
//! Pairs are chosen by second-order information (Fan, Chen and Lin, JMLR 2005, WSS 2).

use std::sync::atomic::AtomicBool;

use super::variables::Variables;
use crate::control::check_cancelled;
use crate::error::Result;
use crate::simd::{Isa, LANES, Simd, dispatch, fma};

/// Replaces a curvature that is not positive, as in LIBSVM.
const TAU: f64 = 1e-12;

/// Moves pairs of variables with gram matrix `gram` until no pair violates optimality by `target`, or for
/// `limit` steps. Returns the number of steps. Cost O(steps · n).
///
/// # Errors
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub(super) fn solve_smo(
    variables: &mut Variables,
    gram: &[f64],
    target: f64,
    limit: usize,
    stop: &AtomicBool,
) -> Result<usize> {
    let (isa, n) = (Isa::detect(), variables.len());
    let row = |r: usize| &gram[r * n..(r + 1) * n];
    let (mut value, mut i) = min_with_index(isa, &variables.gradient, &variables.up_gain);
    for steps in 0..limit {
        check_cancelled(stop)?;
        let diagonal_entry = variables.diagonal[i];
        let choice = best_partner(
            isa,
            &variables.gradient,
            &variables.down_gain,
            &variables.diagonal,
            row(i),
            value,
            diagonal_entry,
        );
        let violated = choice.violation >= target && choice.violation < f64::INFINITY;
        if value == f64::INFINITY || !violated {
            return Ok(steps);
        }
        let j = choice.row;
        let (change_i, change_j) = step(variables, i, j, row(i)[j]);
        (value, i) =
            update(isa, &mut variables.gradient, &variables.up_gain, row(i), row(j), change_i, change_j);
    }
    Ok(limit)
}

/// Moves β_i up and β_j down as far as the pair's problem allows, given their kernel value `cross`; returns
/// the two changes.
fn step(variables: &mut Variables, i: usize, j: usize, cross: f64) -> (f64, f64) {
    let slope =
        (variables.gradient[j] + variables.down_gain[j]) - (variables.gradient[i] + variables.up_gain[i]);
    let curvature = variables.diagonal[i] + variables.diagonal[j] - 2.0 * cross;
    let newton_step = slope / if curvature > 0.0 { curvature } else { TAU };
    let kink = variables.epsilon > 0.0;
    let (old_i, old_j) = (variables.beta[i], variables.beta[j]);
    let end_i = if kink && old_i < 0.0 { variables.upper[i].min(0.0) } else { variables.upper[i] };
    let end_j = if kink && old_j > 0.0 { variables.lower[j].max(0.0) } else { variables.lower[j] };
    let step = newton_step.min(end_i - old_i).min(old_j - end_j);
    variables.set_value(i, if step == end_i - old_i { end_i } else { old_i + step });
    variables.set_value(j, if step == old_j - end_j { end_j } else { old_j - step });
    (variables.beta[i] - old_i, variables.beta[j] - old_j)
}

/// The partner that steps down, and the largest violation of all pairs.
#[derive(Clone, Copy)]
struct Choice {
    row: usize,
    violation: f64,
}

// A search for the index of an extreme value doesn't vectorise, but a search for the value does. These loops
// find the value block by block, and then search one block for the index.
const BLOCK: usize = 256;

#[inline(always)]
fn track_min(best: &mut [f64; LANES], l: usize, v: f64) {
    best[l] = if v < best[l] { v } else { best[l] };
}

#[inline(always)]
fn least_of(lanes: [f64; LANES]) -> f64 {
    lanes.into_iter().fold(f64::INFINITY, |a, b| if b < a { b } else { a })
}

#[inline(always)]
fn first_equal(gradient: &[f64], up: &[f64], block: usize, value: f64) -> usize {
    let from = block * BLOCK;
    let offset = gradient[from..].iter().zip(&up[from..]).position(|(g, u)| g + u == value);
    from + offset.unwrap_or(0)
}

dispatch! {
    /// The smallest `gradient + up`, and the first index that attains it.
    fn min_with_index<V: Simd>(gradient: &[f64], up: &[f64]) -> (f64, usize) {
        let (mut value, mut min_block) = (f64::INFINITY, 0);
        for (block, (g, u)) in gradient.chunks(BLOCK).zip(up.chunks(BLOCK)).enumerate() {
            let block_min = g.iter().zip(u).fold(f64::INFINITY, |a, (g, u)| a.min(g + u));
            if block_min < value {
                (value, min_block) = (block_min, block);
            }
        }
        (value, first_equal(gradient, up, min_block, value))
    }

    /// `gradient += change_i row_i + change_j row_j`, and [`min_with_index`] of the result in the same pass.
    fn update<V: Simd>(
        gradient: &mut [f64],
        up: &[f64],
        row_i: &[f64],
        row_j: &[f64],
        change_i: f64,
        change_j: f64,
    ) -> (f64, usize) {
        let (mut value, mut min_block) = (f64::INFINITY, 0);
        let blocks = gradient.chunks_mut(BLOCK).zip(up.chunks(BLOCK));
        let blocks = blocks.zip(row_i.chunks(BLOCK).zip(row_j.chunks(BLOCK)));
        for (block, ((g, u), (ki, kj))) in blocks.enumerate() {
            let n = g.len();
            let mut best = [f64::INFINITY; LANES];
            let (g8, g_rest) = g.as_chunks_mut::<LANES>();
            let (u8, u_rest) = u[..n].as_chunks::<LANES>();
            let (i8, i_rest) = ki[..n].as_chunks::<LANES>();
            let (j8, j_rest) = kj[..n].as_chunks::<LANES>();
            for (((g, u), ki), kj) in g8.iter_mut().zip(u8).zip(i8).zip(j8) {
                for l in 0..LANES {
                    g[l] = fma::<V>(change_j, kj[l], fma::<V>(change_i, ki[l], g[l]));
                    track_min(&mut best, l, g[l] + u[l]);
                }
            }
            for l in 0..g_rest.len() {
                g_rest[l] = fma::<V>(change_j, j_rest[l], fma::<V>(change_i, i_rest[l], g_rest[l]));
                track_min(&mut best, l, g_rest[l] + u_rest[l]);
            }
            let block_min = least_of(best);
            if block_min < value {
                (value, min_block) = (block_min, block);
            }
        }
        (value, first_equal(gradient, up, min_block, value))
    }

    /// The row with the largest `violation² / curvature` as a partner of the step up with gradient `value`,
    /// and the largest violation.
    fn best_partner<V: Simd>(
        gradient: &[f64],
        down: &[f64],
        diagonal: &[f64],
        row_i: &[f64],
        value: f64,
        diagonal_i: f64,
    ) -> Choice {
        // Gains and violations are negated, so the best ones are the smallest.
        let gain = |g: f64, d: f64, k: f64, r: f64| {
            let excess = value - (g + d);
            let curvature = (diagonal_i + k) - 2.0 * r;
            let curvature = if curvature > 0.0 { curvature } else { TAU };
            let negative = if excess < 0.0 { excess } else { 0.0 };
            (excess, -(negative * negative) / curvature)
        };
        let (mut best_gain, mut best_block, mut violation) = (0.0, None, f64::INFINITY);
        let blocks = gradient.chunks(BLOCK).zip(down.chunks(BLOCK));
        let blocks = blocks.zip(diagonal.chunks(BLOCK).zip(row_i.chunks(BLOCK)));
        for (block, ((g, d), (k, r))) in blocks.enumerate() {
            let n = g.len();
            let mut best = [0.0; LANES];
            let mut best_excess = [f64::INFINITY; LANES];
            let (g8, g_rest) = g.as_chunks::<LANES>();
            let (d8, d_rest) = d[..n].as_chunks::<LANES>();
            let (k8, k_rest) = k[..n].as_chunks::<LANES>();
            let (r8, r_rest) = r[..n].as_chunks::<LANES>();
            for (((g, d), k), r) in g8.iter().zip(d8).zip(k8).zip(r8) {
                for l in 0..LANES {
                    let (excess, gain) = gain(g[l], d[l], k[l], r[l]);
                    track_min(&mut best_excess, l, excess);
                    track_min(&mut best, l, gain);
                }
            }
            for l in 0..g_rest.len() {
                let (excess, gain) = gain(g_rest[l], d_rest[l], k_rest[l], r_rest[l]);
                track_min(&mut best_excess, l, excess);
                track_min(&mut best, l, gain);
            }
            violation = least_of(best_excess).min(violation);
            let best = least_of(best);
            if best < best_gain {
                (best_gain, best_block) = (best, Some(block));
            }
        }
        let parts =
            |from: usize| (from..gradient.len()).map(|s| (s, gradient[s], down[s], diagonal[s], row_i[s]));
        let row = match best_block {
            Some(block) => parts(block * BLOCK).find(|&(_, g, d, k, r)| gain(g, d, k, r).1 == best_gain),
            // There is no violation, or the gains underflow: the largest violation decides.
            None => parts(0).find(|&(_, g, d, k, r)| gain(g, d, k, r).0 == violation),
        };
        Choice { row: row.map_or(0, |part| part.0), violation: -violation }
    }
}

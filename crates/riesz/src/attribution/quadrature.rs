//! The engine for product games: exact values by Gauss quadrature.
//!
//! A product game is `v(S) = Σ_p w_p Π_{j∈S} a_pj Π_{j∉S} b_pj`, and
//! `φ_j = Σ_p w_p (a_pj - b_pj) ∫_0^1 Π_{l≠j} ((1-t) b_pl + t a_pl) dμ(t)` with a [`Measure`] μ: Lebesgue's for Shapley values.
//! Everything that is asked of a product game is read off blocks of eight rows p, one a SIMD lane; nobody else contains the integral.
//!
//! Factors go in groups of four. For a group, the coefficients of `Π ((1-t) b + t a)` in the Bernstein basis
//! `t^i (1-t)^{4-i}` are made once; a node then costs five multiply-adds a group forward (prefix products)
//! and four backward (suffix products, accumulating the four moments `∫ rest · t^i (1-t)^{3-i}`), and the
//! four values follow from the moments. There is no division, so factors may be 0, and for factors of one
//! sign there is no cancellation.

use super::rule::{Choice, Measure, Node, TAU};
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};

/// Largest number of nodes carried through the groups together.
const CHUNK: usize = 4;

/// If the product of `min(1, max(|a|, |b|))` falls below, factors are rescaled before multiplying.
const LOWEST: f64 = 1e-100;
/// Likewise if a partial product of `max(|a|, |b|) + τ₀ |a - b|` rises above.
const HIGHEST: f64 = 1e300;

/// A run of rows of a product game, eight a block. `a` and `b` hold, for factor k, the rows at
/// `k * stride..(k + 1) * stride`; after the last factor stands one more, all 1, as padding.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) a: &'a [f64],
    /// `None` where every b is 1.
    pub(crate) b: Option<&'a [f64]>,
    pub(crate) stride: usize,
    /// The first row.
    pub(crate) offset: usize,
    /// The factors that matter, padded to a multiple of four with the index of the padding. Where `a = b` in
    /// all rows a factor may be left out (its value multiplied into the weights).
    pub(crate) active: &'a [u32],
    /// How many of `active` are not padding.
    pub(crate) players: usize,
    /// The rows' weights w; 1 to get the functionals.
    pub(crate) weights: &'a [Lanes],
    /// What the bound must know of rounding outside the engine.
    pub(crate) rounding: Rounding,
}

impl<'a> Run<'a> {
    /// One of its blocks.
    pub(crate) fn block(self, at: usize) -> Self {
        Self { weights: &self.weights[at..=at], offset: self.offset + at * LANES, ..self }
    }

    /// Factor k in a block, for those who are present and absent.
    pub(crate) fn side(&self, k: u32, block: usize) -> (Lanes, Lanes) {
        let at = k as usize * self.stride + self.offset + block * LANES;
        (load(self.a, at), self.b.map_or(Lanes::ONE, |b| load(b, at)))
    }
}

/// Errors that factors and weights bring along, in units of rounding (ε/2) relative to what they are part of.
///
/// A factor is a product of a few pieces. Each piece f errs by at most `10 + per_log · max(0, -ln f)` units: a piece is
/// at most a polynomial times an exponential, and errors of the exponent grow with it. Two kinds of piece can err by
/// more, which no bound here covers: a periodic one by `4π turns/ℓ²` units, with the number of periods between its
/// arguments; and a polynomial or inner product of several columns within one player, whose units are relative to its
/// terms and not to a sum in which they cancel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounding {
    /// Units per unit of `-ln f`.
    pub(crate) per_log: f64,
    /// Units besides one piece for each active factor: further pieces, factors folded into the weights, means.
    pub(crate) fixed: f64,
    /// A bound on `Σ max(0, -ln f)` over factors folded into the weights.
    pub(crate) decay: f64,
}

impl Rounding {
    /// Of factors of kernels of so many columns, of whose pieces the active factors take one each.
    pub(crate) fn of(pieces: usize, active: usize, width: usize) -> Self {
        // Predictions sum squares over all columns before they take an exponential.
        Self { per_log: 8.0 + width as f64, fixed: 12.0 * (pieces - active) as f64, decay: 0.0 }
    }
}

/// What is summed over a run, lane by lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    /// A bound on the error of each value, and of their sum; includes |w|.
    pub(crate) error: Lanes,
    /// A bound on |value of any coalition|; includes |w|.
    pub(crate) magnitude: Lanes,
}

/// The engine with its memory.
pub(crate) struct Engine {
    isa: Isa,
    measure: Measure,
    groups: Vec<Group>,
    /// Values of the active factors, in the order of `active`, summed over the run.
    pub(crate) values: Vec<Lanes>,
}

#[derive(Clone, Copy)]
struct Group {
    bernstein: [Lanes; 5],
    moments: [Lanes; 4],
    prefix: [Lanes; CHUNK],
    value: [Lanes; CHUNK],
}

impl Group {
    const EMPTY: Self = Self {
        bernstein: [Lanes::ZERO; 5],
        moments: [Lanes::ZERO; 4],
        prefix: [Lanes::ZERO; CHUNK],
        value: [Lanes::ZERO; CHUNK],
    };
}

impl Engine {
    pub(crate) fn new(isa: Isa, measure: Measure) -> Self {
        Self { isa, measure, groups: Vec::new(), values: Vec::new() }
    }

    /// Sums the values of a run into `self.values`, block by block in order.
    pub(crate) fn run(&mut self, run: Run<'_>) -> Totals {
        debug_assert!(run.active.len().is_multiple_of(4) && run.players <= run.active.len());
        let count = run.active.len() / 4;
        self.groups.resize(self.groups.len().max(count), Group::EMPTY);
        self.values.clear();
        self.values.resize(4 * count, Lanes::ZERO);
        let mut totals = Totals { error: Lanes::ZERO, magnitude: Lanes::ZERO };
        let mut at = 0;
        while at < run.weights.len() {
            // Stops at a block whose partial products leave the safe range.
            at = blocks(self.isa, &run, at, false, self, &mut totals);
            if at < run.weights.len() {
                self.rescaled(&run, at, &mut totals);
                at += 1;
            }
        }
        totals
    }

    /// Block `at` with each factor pair divided by its larger magnitude, for games whose products leave the
    /// range of doubles on the way although their values may not. Slow and rare.
    fn rescaled(&mut self, run: &Run<'_>, at: usize, totals: &mut Totals) {
        let players = run.players;
        let count = run.active.len();
        let mut sides = vec![1.0; 2 * count * LANES];
        let (a, b) = sides.split_at_mut(count * LANES);
        let active: Vec<u32> = (0..count as u32).collect();
        // The product of the magnitudes as mantissa and binary exponent.
        let (mut mantissa, mut exponent) = ([1.0_f64; LANES], [0_i64; LANES]);
        let mut decay = [0.0_f64; LANES];
        for (i, &k) in run.active[..players].iter().enumerate() {
            let side = run.side(k, at);
            for l in 0..LANES {
                let top = side.0.0[l].abs().max(side.1.0[l].abs());
                // A player whose factors are both 0 zeroes the whole game.
                if top > 0.0 {
                    (a[i * LANES + l], b[i * LANES + l]) = (side.0.0[l] / top, side.1.0[l] / top);
                    decay[l] += (-top.ln()).max(0.0);
                }
                mantissa[l] *= top;
                if mantissa[l] != 0.0 {
                    let (fraction, power) = split(mantissa[l]);
                    (mantissa[l], exponent[l]) = (fraction, exponent[l] + power);
                }
            }
        }
        let rounding =
            Rounding { decay: run.rounding.decay + decay.iter().fold(0.0, |m, &d| d.max(m)), ..run.rounding };
        let mut scale = Lanes::ZERO;
        for l in 0..LANES {
            scale.0[l] = times_power_of_two(run.weights[at].0[l] * mantissa[l], exponent[l]);
        }
        let weights = &[scale];
        let inner =
            Run { a, b: Some(b), stride: LANES, offset: 0, active: &active, players, weights, rounding };
        // All larger sides are ±1 now. Only the spread can still leave the range (a mass in the thousands).
        blocks(self.isa, &inner, 0, true, self, totals);
    }
}

dispatch! {
    /// Works through the blocks from `from` on; returns the first that it could not do, or the number of blocks. With `wide` it does
    /// them all, by the exact rule where the spread is too large.
    fn blocks(run: &Run<'_>, from: usize, wide: bool, engine: &mut Engine, totals: &mut Totals) -> usize = body::<V>
}

#[inline(always)]
fn body<V: Simd>(run: &Run<'_>, from: usize, wide: bool, engine: &mut Engine, totals: &mut Totals) -> usize {
    match run.b {
        None => sides::<V, true>(run, from, wide, engine, totals),
        Some(_) => sides::<V, false>(run, from, wide, engine, totals),
    }
}

#[inline(always)]
fn load(values: &[f64], at: usize) -> Lanes {
    let mut out = Lanes::ZERO;
    out.0.copy_from_slice(&values[at..at + LANES]);
    out
}

/// The factors of one group.
#[inline(always)]
fn load_group<const ONES: bool>(
    run: &Run<'_>,
    offset: usize,
    members: &[u32; 4],
) -> ([Lanes; 4], [Lanes; 4]) {
    let (mut a, mut b) = ([Lanes::ONE; 4], [Lanes::ONE; 4]);
    for i in 0..4 {
        let at = members[i] as usize * run.stride + offset;
        a[i] = load(run.a, at);
        if !ONES && let Some(values) = run.b {
            b[i] = load(values, at);
        }
    }
    (a, b)
}

/// Coefficients of `((1-t) b0 + t a0)((1-t) b1 + t a1)` in `(1-t)²`, `t (1-t)`, `t²`.
#[inline(always)]
fn pair<V: Simd, const ONES: bool>(a: [Lanes; 2], b: [Lanes; 2]) -> [Lanes; 3] {
    if ONES {
        return [Lanes::ONE, a[0].add::<V>(a[1]), a[0].mul::<V>(a[1])];
    }
    [b[0].mul::<V>(b[1]), a[0].fma::<V>(b[1], b[0].mul::<V>(a[1])), a[0].mul::<V>(a[1])]
}

/// See [`blocks`]; with `ONES` every b is 1.
#[inline(always)]
fn sides<V: Simd, const ONES: bool>(
    run: &Run<'_>,
    from: usize,
    wide: bool,
    engine: &mut Engine,
    totals: &mut Totals,
) -> usize {
    let (members, _) = run.active.as_chunks::<4>();
    let groups = &mut engine.groups[..members.len()];
    let (sums, _) = engine.values.as_chunks_mut::<4>();
    let measure = engine.measure;
    let exact = measure.exact(run.players);
    for at in from..run.weights.len() {
        let offset = run.offset + at * LANES;
        let weight = run.weights[at];

        // Group polynomials; M = Π max(|a|, |b|) and P = Π (max + τ₀ |a - b|) of `rule`, and Π min(1, max(|a|, |b|)).
        let (mut magnitude, mut spread) = (Lanes::ONE, Lanes::ONE);
        let (mut small, mut highest) = (Lanes::ONE, Lanes::ONE);
        for (group, members) in groups.iter_mut().zip(members) {
            let (a, b) = load_group::<ONES>(run, offset, members);
            let p = pair::<V, ONES>([a[0], a[1]], [b[0], b[1]]);
            let q = pair::<V, ONES>([a[2], a[3]], [b[2], b[3]]);
            group.bernstein = [
                p[0].mul::<V>(q[0]),
                p[0].fma::<V>(q[1], p[1].mul::<V>(q[0])),
                p[0].fma::<V>(q[2], p[1].fma::<V>(q[1], p[2].mul::<V>(q[0]))),
                p[1].fma::<V>(q[2], p[2].mul::<V>(q[1])),
                p[2].mul::<V>(q[2]),
            ];
            group.moments = [Lanes::ZERO; 4];
            for i in 0..4 {
                let gap = V::abs(a[i].sub::<V>(b[i]));
                let top = V::max(V::abs(a[i]), V::abs(b[i]));
                magnitude = magnitude.mul::<V>(top);
                if !ONES {
                    small = small.mul::<V>(V::min(Lanes::ONE, top));
                }
                spread = spread.mul::<V>(gap.fma::<V>(Lanes::splat(TAU), top));
            }
            highest = V::max(highest, spread);
        }
        let mut safe = true;
        for l in 0..LANES {
            safe &= (small.0[l] >= LOWEST) & (highest.0[l] <= HIGHEST);
        }
        if !safe && !wide {
            return at;
        }

        let choice = if safe { measure.choose(V::div(spread, magnitude).largest(), exact) } else { exact };
        let mut rest = measure.rule(choice.nodes);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(match rest.len() {
                5 => 3,
                n => n.min(CHUNK),
            });
            match now.len() {
                1 => sweep::<V, 1>(groups, now, weight),
                2 => sweep::<V, 2>(groups, now, weight),
                3 => sweep::<V, 3>(groups, now, weight),
                _ => sweep::<V, CHUNK>(groups, now, weight),
            }
            rest = later;
        }

        for ((group, members), sum) in groups.iter().zip(members).zip(sums.iter_mut()) {
            let (a, b) = load_group::<ONES>(run, offset, members);
            let m = &group.moments;
            for side in [0, 2] {
                // The pair that stays whole while one of the other two is left out.
                let other = 2 - side;
                let q = pair::<V, ONES>([a[other], a[other + 1]], [b[other], b[other + 1]]);
                let low = q[0].fma::<V>(m[0], q[1].fma::<V>(m[1], q[2].mul::<V>(m[2])));
                let high = q[0].fma::<V>(m[1], q[1].fma::<V>(m[2], q[2].mul::<V>(m[3])));
                for (i, j) in [(side, side + 1), (side + 1, side)] {
                    let others = b[j].fma::<V>(low, a[j].mul::<V>(high));
                    sum[i] = a[i].sub::<V>(b[i]).fma::<V>(others, sum[i]);
                }
            }
        }

        let decay = if ONES { 0.0 } else { falls(small.smallest()) };
        let bound = relative_error(run.players, &choice, &run.rounding, decay);
        let size = V::abs(weight).mul::<V>(magnitude);
        totals.magnitude = totals.magnitude.add::<V>(size);
        totals.error = size.fma::<V>(Lanes::splat(bound), totals.error);
    }
    run.weights.len()
}

/// A bound on the error of a value, of the sum of all values, and of what that sum is compared with (the game with all players
/// present and absent), relative to M.
///
/// With factors that err by δ units each, a value errs by at most `2 M (quadrature + rounding)`, the sum of all by at most
/// `c M (…)` with c the mass, and each end of the game by `M (…)`. The engine itself takes six operations a factor and two a
/// node. A factor errs by `10 + per_log · max(0, -ln |f|)` units; relative to the larger side t of its pair that is at most
/// `10 + per_log (max(0, -ln t) + 1/e)`. `decay` bounds `Σ max(0, -ln t)` over the active factors.
#[inline(always)]
fn relative_error(players: usize, choice: &Choice, outside: &Rounding, decay: f64) -> f64 {
    let unit = f64::EPSILON / 2.0;
    let factors = players as f64 * (16.0 + 0.368 * outside.per_log) + outside.fixed;
    let logs = outside.per_log * (decay + outside.decay);
    (choice.mass + 2.0) * (unit * (factors + logs + 2.0 * choice.nodes as f64 + 64.0) + choice.quadrature)
}

/// A bound on `-ln x` for a normal x in (0, 1], from its exponent.
#[inline(always)]
fn falls(x: f64) -> f64 {
    (1023.0 - (x.to_bits() >> 52) as f64) * std::f64::consts::LN_2
}

/// Carries K nodes through all groups, forward and back.
#[inline(always)]
fn sweep<V: Simd, const K: usize>(groups: &mut [Group], nodes: &[Node], weight: Lanes) {
    let nodes: &[Node; K] = match nodes.try_into() {
        Ok(nodes) => nodes,
        Err(_) => return,
    };
    let mut prefix = [Lanes::ONE; K];
    for group in groups.iter_mut() {
        let e = group.bernstein;
        for k in 0..K {
            let t = &nodes[k].quartic;
            let mut value = e[0].mul::<V>(Lanes::splat(t[0]));
            for i in 1..5 {
                value = e[i].fma::<V>(Lanes::splat(t[i]), value);
            }
            group.prefix[k] = prefix[k];
            group.value[k] = value;
            prefix[k] = prefix[k].mul::<V>(value);
        }
    }
    let mut suffix = [Lanes::ZERO; K];
    for k in 0..K {
        suffix[k] = weight.mul::<V>(Lanes::splat(nodes[k].weight));
    }
    for group in groups.iter_mut().rev() {
        let mut moments = group.moments;
        for k in 0..K {
            let rest = group.prefix[k].mul::<V>(suffix[k]);
            for i in 0..4 {
                moments[i] = rest.fma::<V>(Lanes::splat(nodes[k].cubic[i]), moments[i]);
            }
            suffix[k] = suffix[k].mul::<V>(group.value[k]);
        }
        group.moments = moments;
    }
}

/// `x = fraction · 2^power` with |fraction| in [1, 2).
fn split(x: f64) -> (f64, i64) {
    let scaled = if x.abs() < f64::MIN_POSITIVE { x * 2.0_f64.powi(64) } else { x };
    let power = ((scaled.to_bits() >> 52) & 0x7ff) as i64 - 1023;
    let fraction = f64::from_bits(scaled.to_bits() & !(0x7ff << 52) | (1023 << 52));
    (fraction, if scaled == x { power } else { power - 64 })
}

/// `x · 2^power` without overflow on the way.
fn times_power_of_two(x: f64, power: i64) -> f64 {
    let step = |x: f64, p: i64| x * 2.0_f64.powi(p as i32);
    let power = power.clamp(-4000, 4000);
    let third = power / 4;
    step(step(step(step(x, third), third), third), power - 3 * third)
}

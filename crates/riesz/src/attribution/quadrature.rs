//! The engine for product games: exact Shapley values by Gauss–Legendre quadrature.
//!
//! A product game is `v(S) = Σ_p w_p Π_{j∈S} a_pj Π_{j∉S} b_pj`, and
//! `φ_j = Σ_p w_p (a_pj - b_pj) ∫_0^1 Π_{l≠j} ((1-t) b_pl + t a_pl) dt`. Everything that is asked of a
//! product game is read off blocks of eight rows p, one a SIMD lane; nobody else contains the integral.
//!
//! Factors go in groups of four. For a group, the coefficients of `Π ((1-t) b + t a)` in the Bernstein basis
//! `t^i (1-t)^{4-i}` are made once; a node then costs five multiply-adds a group forward (prefix products)
//! and four backward (suffix products, accumulating the four moments `∫ rest · t^i (1-t)^{3-i}`), and the
//! four values follow from the moments. There is no division, so factors may be 0, and for factors of one
//! sign there is no cancellation.

use super::rule::{Node, TAU, nodes_for, rule};
use crate::simd::{LANES, Lanes, dispatch, fma};

/// Largest number of nodes carried through the groups together.
const CHUNK: usize = 4;

/// If a partial product of `max(|a|, |b|)` falls below, factors are rescaled before multiplying.
const LOWEST: f64 = 1e-100;
/// Likewise if a partial product of `max(|a|, |b|) + τ₀ |a - b|` rises above.
const HIGHEST: f64 = 1e300;

/// Eight rows of a product game. `a` and `b` hold, for factor k, the eight rows at `k * stride + offset..`.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) a: &'a [f64],
    /// `None` where every b is 1.
    pub(crate) b: Option<&'a [f64]>,
    pub(crate) stride: usize,
    pub(crate) offset: usize,
    /// The factors that matter: where `a = b` in all eight rows a factor may be left out (its value
    /// multiplied into the weights).
    pub(crate) active: &'a [u32],
    /// Multiplies the values; `Lanes::ONE` to get the functionals.
    pub(crate) weight: Lanes,
}

/// What the engine says of a block besides its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockFacts {
    /// A bound on the error of each value, and of their sum, a row; includes |weight|.
    pub(crate) error: Lanes,
    /// A bound on |value of any coalition|, a row; includes |weight|.
    pub(crate) magnitude: Lanes,
    /// Nodes used.
    pub(crate) nodes: usize,
}

/// Reusable memory of the engine.
#[derive(Default)]
pub(crate) struct Scratch {
    groups: Vec<Group>,
    /// Values of the active factors, in the order of `active`.
    pub(crate) values: Vec<Lanes>,
    rescaled: Vec<f64>,
    rescaled_active: Vec<u32>,
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

/// Computes the values of a block into `scratch.values`.
pub(crate) fn block(isa: crate::simd::Isa, block: Block<'_>, scratch: &mut Scratch) -> BlockFacts {
    let facts = match block.b {
        None => block_ones(isa, block, scratch),
        Some(_) => block_pairs(isa, block, scratch),
    };
    // NaN or a partial product that left the safe range.
    match facts {
        Some(facts) => facts,
        None => block_rescaled(isa, block, scratch),
    }
}

dispatch! { fn block_ones(block: Block<'_>, scratch: &mut Scratch) -> Option<BlockFacts> = block_ones_body::<FUSED> }
dispatch! { fn block_pairs(block: Block<'_>, scratch: &mut Scratch) -> Option<BlockFacts> = block_pairs_body::<FUSED> }

#[inline(always)]
fn block_ones_body<const FUSED: bool>(block: Block<'_>, scratch: &mut Scratch) -> Option<BlockFacts> {
    block_body::<FUSED, true>(block, scratch)
}

#[inline(always)]
fn block_pairs_body<const FUSED: bool>(block: Block<'_>, scratch: &mut Scratch) -> Option<BlockFacts> {
    block_body::<FUSED, false>(block, scratch)
}

#[inline(always)]
fn load(values: &[f64], at: usize) -> Lanes {
    let mut out = Lanes::ZERO;
    out.0.copy_from_slice(&values[at..at + LANES]);
    out
}

/// The factors of one group: a and b of up to four players, padded with 1.
#[inline(always)]
fn load_group<const ONES: bool>(block: &Block<'_>, members: &[u32]) -> ([Lanes; 4], [Lanes; 4]) {
    let (mut a, mut b) = ([Lanes::ONE; 4], [Lanes::ONE; 4]);
    for (i, &k) in members.iter().enumerate() {
        let at = k as usize * block.stride + block.offset;
        a[i] = load(block.a, at);
        if !ONES && let Some(values) = block.b {
            b[i] = load(values, at);
        }
    }
    (a, b)
}

/// Coefficients of `((1-t) b0 + t a0)((1-t) b1 + t a1)` in `(1-t)²`, `t (1-t)`, `t²`.
#[inline(always)]
fn pair<const FUSED: bool>(a: [Lanes; 2], b: [Lanes; 2]) -> [Lanes; 3] {
    [b[0].mul(b[1]), a[0].fma::<FUSED>(b[1], b[0].mul(a[1])), a[0].mul(a[1])]
}

#[inline(always)]
fn block_body<const FUSED: bool, const ONES: bool>(
    block: Block<'_>,
    scratch: &mut Scratch,
) -> Option<BlockFacts> {
    let players = block.active.len();
    let count = players.div_ceil(4);
    if scratch.groups.len() < count {
        scratch.groups.resize(count, Group::EMPTY);
    }
    if scratch.values.len() < 4 * count {
        scratch.values.resize(4 * count, Lanes::ZERO);
    }
    let groups = &mut scratch.groups[..count];

    // Group polynomials; M = Π max(|a|, |b|) and P = Π (max + τ₀ |a - b|) of `rule`.
    let (mut magnitude, mut spread) = (Lanes::ONE, Lanes::ONE);
    let (mut lowest, mut highest) = (Lanes::ONE, Lanes::ONE);
    for (group, members) in groups.iter_mut().zip(block.active.chunks(4)) {
        let (a, b) = load_group::<ONES>(&block, members);
        let p = pair::<FUSED>([a[0], a[1]], [b[0], b[1]]);
        let q = pair::<FUSED>([a[2], a[3]], [b[2], b[3]]);
        group.bernstein = [
            p[0].mul(q[0]),
            p[0].fma::<FUSED>(q[1], p[1].mul(q[0])),
            p[0].fma::<FUSED>(q[2], p[1].fma::<FUSED>(q[1], p[2].mul(q[0]))),
            p[1].fma::<FUSED>(q[2], p[2].mul(q[1])),
            p[2].mul(q[2]),
        ];
        group.moments = [Lanes::ZERO; 4];
        for i in 0..4 {
            let gap = a[i].map2(b[i], |a, b| (a - b).abs());
            let top = a[i].map2(b[i], |a, b| if a.abs() > b.abs() { a.abs() } else { b.abs() });
            magnitude = magnitude.mul(top);
            spread = spread.mul(gap.map2(top, |gap, top| fma::<FUSED>(TAU, gap, top)));
        }
        lowest = lowest.map2(magnitude, |a, b| if a < b { a } else { b });
        highest = highest.map2(spread, |a, b| if a > b { a } else { b });
    }
    let mut safe = true;
    for l in 0..LANES {
        safe &= lowest.0[l] >= LOWEST && highest.0[l] <= HIGHEST;
    }
    if !safe {
        return None;
    }

    let ratio = spread.map2(magnitude, |p, m| p / m);
    let nodes = nodes_for(ratio.max(), players);
    let rule = rule(nodes);
    let mut rest = rule;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(match rest.len() {
            5 => 3,
            n => n.min(CHUNK),
        });
        match now.len() {
            1 => sweep::<FUSED, 1>(groups, now, block.weight),
            2 => sweep::<FUSED, 2>(groups, now, block.weight),
            3 => sweep::<FUSED, 3>(groups, now, block.weight),
            _ => sweep::<FUSED, CHUNK>(groups, now, block.weight),
        }
        rest = later;
    }

    for ((group, members), out) in
        groups.iter().zip(block.active.chunks(4)).zip(scratch.values.chunks_exact_mut(4))
    {
        let (a, b) = load_group::<ONES>(&block, members);
        let m = &group.moments;
        for side in [0, 2] {
            // The pair that stays whole while one of the other two is left out.
            let other = 2 - side;
            let q = pair::<FUSED>([a[other], a[other + 1]], [b[other], b[other + 1]]);
            let low = q[0].fma::<FUSED>(m[0], q[1].fma::<FUSED>(m[1], q[2].mul(m[2])));
            let high = q[0].fma::<FUSED>(m[1], q[1].fma::<FUSED>(m[2], q[2].mul(m[3])));
            for (i, j) in [(side, side + 1), (side + 1, side)] {
                out[i] = a[i].sub(b[i]).mul(b[j].fma::<FUSED>(low, a[j].mul(high)));
            }
        }
    }

    // The error of a value is at most 2 M (tolerance + rounding), that of the sum of all values at most
    // c M (…) with c the mass; ln P/M bounds c from above (see `rule`). Rounding: 8 operations a factor, 2 a
    // node. A factor's own error is relative 5 (1 + |ln factor|) ulps, and M |ln M| ≤ √M.
    let unit = f64::EPSILON / 2.0;
    let rounding = unit * (13.0 * players as f64 + 2.0 * nodes as f64 + 64.0);
    let quadrature = if nodes == players.div_ceil(2).max(1) { 0.0 } else { super::rule::TOLERANCE };
    let per_log = 2.0 / (1.0 + 2.0 * TAU).ln();
    let worst = (per_log * ratio.max().ln()).max(2.0);
    let bound = worst * (rounding + quadrature);
    let mut error = Lanes::ZERO;
    let mut size = Lanes::ZERO;
    for l in 0..LANES {
        size.0[l] = block.weight.0[l].abs() * magnitude.0[l];
        error.0[l] =
            size.0[l] * bound + block.weight.0[l].abs() * (worst * 5.0 * unit) * magnitude.0[l].sqrt();
    }
    Some(BlockFacts { error, magnitude: size, nodes })
}

/// Carries K nodes through all groups, forward and back.
#[inline(always)]
fn sweep<const FUSED: bool, const K: usize>(groups: &mut [Group], nodes: &[Node], weight: Lanes) {
    let nodes: &[Node; K] = match nodes.try_into() {
        Ok(nodes) => nodes,
        Err(_) => return,
    };
    let mut prefix = [Lanes::ONE; K];
    for group in groups.iter_mut() {
        let e = group.bernstein;
        for k in 0..K {
            let t = &nodes[k].quartic;
            let mut value = e[0].mul(Lanes::splat(t[0]));
            for i in 1..5 {
                value = e[i].fma::<FUSED>(Lanes::splat(t[i]), value);
            }
            group.prefix[k] = prefix[k];
            group.value[k] = value;
            prefix[k] = prefix[k].mul(value);
        }
    }
    let mut suffix = [Lanes::ZERO; K];
    for k in 0..K {
        suffix[k] = weight.mul(Lanes::splat(nodes[k].weight));
    }
    for group in groups.iter_mut().rev() {
        let mut moments = group.moments;
        for k in 0..K {
            let rest = group.prefix[k].mul(suffix[k]);
            for i in 0..4 {
                moments[i] = rest.fma::<FUSED>(Lanes::splat(nodes[k].cubic[i]), moments[i]);
            }
            suffix[k] = suffix[k].mul(group.value[k]);
        }
        group.moments = moments;
    }
}

/// The same block with each factor pair divided by its larger magnitude, for games whose products leave the
/// range of doubles on the way although their values may not. Slow and rare.
fn block_rescaled(isa: crate::simd::Isa, block: Block<'_>, scratch: &mut Scratch) -> BlockFacts {
    let players = block.active.len();
    let mut pairs = std::mem::take(&mut scratch.rescaled);
    let mut active = std::mem::take(&mut scratch.rescaled_active);
    pairs.clear();
    pairs.resize(2 * players * LANES, 0.0);
    active.clear();
    active.extend(0..players as u32);
    // The product of the magnitudes as mantissa and binary exponent.
    let (mut mantissa, mut exponent) = ([1.0_f64; LANES], [0_i64; LANES]);
    for (i, &k) in block.active.iter().enumerate() {
        for l in 0..LANES {
            let at = k as usize * block.stride + block.offset + l;
            let (a, b) = (block.a[at], block.b.map_or(1.0, |b| b[at]));
            let top = a.abs().max(b.abs());
            // A player whose factors are both 0 zeroes the whole game.
            let (a, b) = if top > 0.0 { (a / top, b / top) } else { (1.0, 1.0) };
            pairs[i * LANES + l] = a;
            pairs[(players + i) * LANES + l] = b;
            mantissa[l] *= top;
            if mantissa[l] != 0.0 {
                let (fraction, power) = split(mantissa[l]);
                (mantissa[l], exponent[l]) = (fraction, exponent[l] + power);
            }
        }
    }
    let (a, b) = pairs.split_at(players * LANES);
    let inner = Block { a, b: Some(b), stride: LANES, offset: 0, active: &active, weight: Lanes::ONE };
    // All larger sides are ±1 now, so the products cannot leave the range from above; the spread may.
    let facts = match block_pairs(isa, inner, scratch) {
        Some(facts) => facts,
        None => wide(inner, scratch),
    };
    let mut scale = Lanes::ZERO;
    for l in 0..LANES {
        scale.0[l] = times_power_of_two(block.weight.0[l] * mantissa[l], exponent[l]);
    }
    for value in &mut scratch.values[..players] {
        *value = value.mul(scale);
    }
    let size = scale.map2(Lanes::ONE, |s, _| s.abs());
    let facts =
        BlockFacts { error: facts.error.mul(size), magnitude: facts.magnitude.mul(size), nodes: facts.nodes };
    scratch.rescaled = pairs;
    scratch.rescaled_active = active;
    facts
}

/// A block whose spread overflows even after rescaling (a mass in the thousands): plain prefix and suffix
/// products with the exact rule.
fn wide(block: Block<'_>, scratch: &mut Scratch) -> BlockFacts {
    let players = block.active.len();
    let nodes = players.div_ceil(2).max(1);
    scratch.values.resize(scratch.values.len().max(players), Lanes::ZERO);
    scratch.values[..players].fill(Lanes::ZERO);
    let mut prefix = vec![Lanes::ONE; players + 1];
    let at = |i: usize| block.active[i] as usize * block.stride + block.offset;
    let side = |i: usize| (load(block.a, at(i)), block.b.map_or(Lanes::ONE, |b| load(b, at(i))));
    for node in rule(nodes) {
        let (t, s) = (node.t, 1.0 - node.t);
        let mix = |a: Lanes, b: Lanes| a.map2(b, |a, b| t * a + s * b);
        for i in 0..players {
            let (a, b) = side(i);
            prefix[i + 1] = prefix[i].mul(mix(a, b));
        }
        let mut suffix = block.weight.mul(Lanes::splat(node.weight));
        for i in (0..players).rev() {
            let (a, b) = side(i);
            scratch.values[i] = scratch.values[i].add(prefix[i].mul(suffix).mul(a.sub(b)));
            suffix = suffix.mul(mix(a, b));
        }
    }
    let unit = f64::EPSILON / 2.0;
    let size = block.weight.map2(Lanes::ONE, |w, _| w.abs());
    let worst = 2.0 * players as f64;
    let bound = worst * unit * (18.0 * players as f64 + 2.0 * nodes as f64 + 64.0);
    BlockFacts { error: size.mul(Lanes::splat(bound)), magnitude: size, nodes }
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

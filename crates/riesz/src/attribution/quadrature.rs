//! The engine for product games: exact values by Gauss quadrature.
//!
//! A product game is `v(S) = Σ_p w_p Π_{j∈S} a_pj Π_{j∉S} b_pj`, and `φ_j = Σ_p w_p (a_pj - b_pj) ∫_0^1
//! Π_{l≠j} ((1-t) b_pl + t a_pl) dμ(t)` with a [`Measure`] μ: Lebesgue's for Shapley values. Everything that
//! is asked of a product game is read off blocks of eight rows p, one a SIMD lane; nobody else contains the
//! integral.
//!
//! Factors go in groups of four. For a group, the coefficients of `Π ((1-t) b + t a)` in the Bernstein basis
//! `t^i (1-t)^{4-i}` are made once; a node then costs five multiply-adds a group forward (prefix products)
//! and four backward (suffix products, accumulating the four moments `∫ rest · t^i (1-t)^{3-i}`), and the
//! four values follow from the moments. There is no division, so factors may be 0, and for factors of one
//! sign there is no cancellation.

use super::rule::{ERROR_TAU, InclusionMeasure, MASS, Node, RuleChoice};
use crate::kernel::rounding_bounds::TINY;
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};

/// Largest number of nodes carried through the groups together.
const CHUNK: usize = 4;

/// Groups whose memory a core's cache holds. Games of more are worked through segment by segment: what is
/// kept of every group would else come from main memory for every few nodes.
const SEGMENT: usize = 384;
/// Nodes for which the products before each segment are kept.
const KEPT_NODES: usize = 64;

/// If the product of `min(1, max(|a|, |b|))` falls below, factors are rescaled before multiplying.
pub(super) const LOWEST: f64 = 1e-100;
/// Likewise if a partial product of `max(|a|, |b|) + τ₀ |a - b|` rises above.
pub(super) const HIGHEST: f64 = 1e300;
/// However light its weight, a block may rise to this; and otherwise as much higher as its weight is heavier
/// than the smallest.
pub(super) const RESCALE_LIMIT: f64 = 1e20;
pub(super) const MIN_WEIGHT: f64 = 1e-300;
/// What is lost below the smallest normal number is more than this never, whatever multiplies it in a block
/// that is not rescaled.
pub(crate) const FLOOR: f64 = 1e-300;
/// Factors that are off by more than this besides are rescaled.
pub(crate) const TINIEST: f64 = 1e-250;

/// A run of rows of a product game, eight a block. `a` and `b` hold, for factor k, the rows at `k *
/// stride..(k + 1) * stride`; after the last factor stands one more, all 1, as padding.
#[derive(Clone, Copy)]
pub(crate) struct TermBatch<'a> {
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
    /// Where errors are not relative to the factors but to their sizes: block by block the products of the
    /// larger ones and of |w|.
    pub(crate) sizes: Option<&'a [Lanes]>,
    /// What each factor can be off besides, absolutely; nobody by more than rounding's `tiny`.
    pub(crate) tinies: &'a [f64],
    /// What the bound must know of rounding outside the engine.
    pub(crate) rounding: RoundingUnits,
}

impl<'a> TermBatch<'a> {
    /// One of its blocks.
    pub(crate) fn block(self, at: usize) -> Self {
        let sizes = self.sizes.map(|sizes| &sizes[at..=at]);
        Self { weights: &self.weights[at..=at], sizes, offset: self.offset + at * LANES, ..self }
    }

    /// Factor k in a block, for those who are present and absent.
    pub(crate) fn side(&self, k: u32, block: usize) -> (Lanes, Lanes) {
        let at = k as usize * self.stride + self.offset + block * LANES;
        (Lanes::load(self.a, at), self.b.map_or(Lanes::ONE, |b| Lanes::load(b, at)))
    }
}

/// Block by block the products of the larger sizes of both sides, times the weights: [`Run::sizes`]. Without
/// an absent side its factors are 1.
pub(crate) fn max_products(present: &[f64], absent: Option<&[f64]>, weights: &[Lanes], out: &mut Vec<Lanes>) {
    let len = weights.len() * LANES;
    out.clear();
    out.extend(weights.iter().map(|w| w.map2(Lanes::ZERO, |w, _| w.abs())));
    for (k, own) in present.chunks_exact(len).enumerate() {
        for (i, size) in own.iter().enumerate() {
            out[i / LANES].0[i % LANES] *= size.max(absent.map_or(1.0, |b| b[k * len + i]));
        }
    }
}

/// Errors that factors and weights bring along, in units of rounding (ε/2).
///
/// With all factors off by `units + per_log · (-ln f)` relative to their [sizes](crate::kernel::rounding), a
/// game with some players present is off by as much, relative to M: of `Σ per_log · s_l exp(-Σ s_l)` no more
/// is left than `per_log · (D + 1/e)`, where exp(-D) is M.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundingUnits {
    /// Of a game with some players present and one with others; and what else is rounded once for all values
    /// together.
    pub(crate) units: f64,
    /// Units per unit of `-ln M`.
    pub(crate) per_log: f64,
    /// Units of the sums that a value ends up in, relative to its own part of the game.
    pub(crate) sums: f64,
    /// A bound on `Σ max(0, -ln f)` over factors folded into the weights.
    pub(crate) decay: f64,
    /// What a factor can be off besides, absolutely: the largest.
    pub(crate) tiny: f64,
    /// What a value can be off, absolutely, because weights leave the range of doubles.
    pub(crate) floor: f64,
}

impl RoundingUnits {
    /// Of factors that are all together off by so many units.
    pub(crate) fn new(units: f64, per_log: f64, width: usize) -> Self {
        // Predictions sum squares over all columns before they take an exponential.
        let predicted = if per_log > 0.0 { per_log + 2.0 + width as f64 } else { 0.0 };
        Self { units: 2.0 * units, per_log: per_log + predicted, ..Self::default() }
    }
}

/// What is summed over a run, lane by lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchTotals {
    /// A bound on the error of each value, and of their sum; includes |w|.
    pub(crate) error: Lanes,
    /// A bound on |value of any coalition|; includes |w|.
    pub(crate) magnitude: Lanes,
}

/// The engine with its memory.
pub(crate) struct QuadratureEngine {
    pub(crate) isa: Isa,
    measure: InclusionMeasure,
    groups: Vec<Group>,
    /// How many groups are held at a time.
    segment: usize,
    /// Where there are several segments, for each and each node the product of the factors before it.
    prefixes: Vec<Lanes>,
    /// By node the product of the factors behind those that are worked on, with the weights.
    suffixes: Vec<Lanes>,
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

    /// Takes these factors, of which nothing is known yet.
    #[inline(always)]
    fn begin<V: Simd, const ONES: bool>(&mut self, a: [Lanes; 4], b: [Lanes; 4]) {
        let p = pair::<V, ONES>([a[0], a[1]], [b[0], b[1]]);
        let q = pair::<V, ONES>([a[2], a[3]], [b[2], b[3]]);
        self.bernstein = [
            p[0].mul::<V>(q[0]),
            p[0].fma::<V>(q[1], p[1].mul::<V>(q[0])),
            p[0].fma::<V>(q[2], p[1].fma::<V>(q[1], p[2].mul::<V>(q[0]))),
            p[1].fma::<V>(q[2], p[2].mul::<V>(q[1])),
            p[2].mul::<V>(q[2]),
        ];
        self.moments = [Lanes::ZERO; 4];
    }

    /// The product of its factors at a node.
    #[inline(always)]
    fn at<V: Simd>(&self, node: &Node) -> Lanes {
        let (e, t) = (&self.bernstein, &node.quartic);
        let mut value = e[0].mul::<V>(Lanes::splat(t[0]));
        for i in 1..5 {
            value = e[i].fma::<V>(Lanes::splat(t[i]), value);
        }
        value
    }
}

impl QuadratureEngine {
    pub(crate) fn new(isa: Isa, measure: InclusionMeasure) -> Self {
        let (groups, prefixes, suffixes, values) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { isa, measure, groups, segment: SEGMENT, prefixes, suffixes, values }
    }

    /// Sums the values of a run into `self.values`, block by block in order.
    pub(crate) fn run(&mut self, run: TermBatch<'_>) -> BatchTotals {
        debug_assert!(run.active.len().is_multiple_of(4) && run.players <= run.active.len());
        let count = run.active.len() / 4;
        self.groups.resize(self.groups.len().max(count.min(self.segment)), Group::EMPTY);
        self.values.clear();
        self.values.resize(4 * count, Lanes::ZERO);
        let floor = Lanes::splat(run.rounding.floor * run.weights.len() as f64);
        let mut totals = BatchTotals { error: floor, magnitude: Lanes::ZERO };
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
    fn rescaled(&mut self, run: &TermBatch<'_>, at: usize, totals: &mut BatchTotals) {
        let players = run.players;
        let count = run.active.len();
        let mut sides = vec![1.0; 2 * count * LANES];
        let (a, b) = sides.split_at_mut(count * LANES);
        let active: Vec<u32> = (0..count as u32).collect();
        // The product of the magnitudes as mantissa and binary exponent.
        let (mut mantissa, mut exponent) = ([1.0_f64; LANES], [0_i64; LANES]);
        let mut decay = [0.0_f64; LANES];
        // The product of the magnitudes, or of what they can be off if that is more, and the sum of the
        // shares that they can be off.
        let mut more = [(1.0_f64, 0_i64, 0.0_f64); LANES];
        for (i, &k) in run.active[..players].iter().enumerate() {
            let side = run.side(k, at);
            let tiny = run.tinies.get(k as usize).copied().unwrap_or(0.0).max(TINY);
            for l in 0..LANES {
                let top = side.0.0[l].abs().max(side.1.0[l].abs());
                // A player whose factors are both 0 zeroes the whole game.
                if top > 0.0 {
                    (a[i * LANES + l], b[i * LANES + l]) = (side.0.0[l] / top, side.1.0[l] / top);
                    decay[l] += (-top.ln()).max(0.0);
                }
                if top == 0.0 {
                    mantissa[l] = 0.0;
                } else if mantissa[l] != 0.0 {
                    (mantissa[l], exponent[l]) = scaled_mul((mantissa[l], exponent[l]), top);
                }
                let (fraction, power, share) = more[l];
                let (fraction, power) = scaled_mul((fraction, power), top.max(tiny));
                let share = share + tiny / top.max(tiny);
                more[l] = (fraction, power, share);
            }
        }
        let rounding = RoundingUnits {
            decay: run.rounding.decay + decay.iter().fold(0.0, |m, &d| d.max(m)),
            ..run.rounding
        };
        // Factors are divided, and their magnitudes multiplied.
        let rounding = RoundingUnits { units: rounding.units + 4.0 * players as f64, tiny: 0.0, ..rounding };
        let mut scale = Lanes::ZERO;
        for l in 0..LANES {
            let weight = run.weights[at].0[l];
            scale.0[l] = ldexp(weight * mantissa[l], exponent[l]);
            let (fraction, power, share) = more[l];
            // `Π (top + tiny) - Π top`, of which more than a few shares are more than all there is.
            let lost = 4.0 * share.min(600.0).exp_m1();
            totals.error.0[l] += ldexp(weight.abs() * lost * fraction, power)
                + ldexp(run.rounding.floor * mantissa[l], exponent[l]);
        }
        let (weights, sizes) = (&[scale], run.sizes.map(|sizes| &sizes[at..=at]));
        let (b, tinies) = (Some(&*b), &[][..]);
        let inner = TermBatch {
            a,
            b,
            stride: LANES,
            offset: 0,
            active: &active,
            players,
            weights,
            sizes,
            tinies,
            rounding,
        };
        // All larger sides are ±1 now. Only the spread can still leave the range (a mass in the thousands).
        blocks(self.isa, &inner, 0, true, self, totals);
    }
}

dispatch! {
    /// Works through the blocks from `from` on; returns the first that it could not do, or the number of
    /// blocks. With `wide` it does them all, by the exact rule where the spread is too large.
    fn blocks(
        run: &TermBatch<'_>, from: usize, wide: bool, engine: &mut QuadratureEngine,
        totals: &mut BatchTotals
    ) -> usize = body::<V>
}

#[inline(always)]
fn body<V: Simd>(
    run: &TermBatch<'_>,
    from: usize,
    wide: bool,
    engine: &mut QuadratureEngine,
    totals: &mut BatchTotals,
) -> usize {
    match run.b {
        None => two_pass_products::<V, true>(run, from, wide, engine, totals),
        Some(_) => two_pass_products::<V, false>(run, from, wide, engine, totals),
    }
}

/// The factors of one group.
#[inline(always)]
fn load_group<const ONES: bool>(
    run: &TermBatch<'_>,
    offset: usize,
    members: &[u32; 4],
) -> ([Lanes; 4], [Lanes; 4]) {
    let (mut a, mut b) = ([Lanes::ONE; 4], [Lanes::ONE; 4]);
    for i in 0..4 {
        let at = members[i] as usize * run.stride + offset;
        a[i] = Lanes::load(run.a, at);
        if !ONES && let Some(values) = run.b {
            b[i] = Lanes::load(values, at);
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
fn two_pass_products<V: Simd, const ONES: bool>(
    run: &TermBatch<'_>,
    from: usize,
    wide: bool,
    engine: &mut QuadratureEngine,
    totals: &mut BatchTotals,
) -> usize {
    let (members, _) = run.active.as_chunks::<4>();
    let QuadratureEngine { groups, values, measure, segment, prefixes, suffixes, .. } = engine;
    let whole = members.len() <= *segment;
    let groups = &mut groups[..members.len().min(*segment)];
    let (sums, _) = values.as_chunks_mut::<4>();
    let choices = measure.choices(run.players);
    let plain = run.rounding.tiny <= TINIEST;
    let errors = ErrorBounds::of(run);
    for at in from..run.weights.len() {
        let offset = run.offset + at * LANES;
        let weight = run.weights[at];

        // Group polynomials; M = Π max(|a|, |b|) and P = Π (max + τ₀ |a - b|) of `rule`, and Π min(1,
        // max(|a|, |b|)).
        let (mut magnitude, mut spread) = (Lanes::ONE, Lanes::ONE);
        let (mut small, mut highest) = (Lanes::ONE, Lanes::ONE);
        for (at, members) in members.iter().enumerate() {
            let (a, b) = load_group::<ONES>(run, offset, members);
            if whole {
                groups[at].begin::<V, ONES>(a, b);
            }
            for i in 0..4 {
                let gap = V::abs(a[i].sub::<V>(b[i]));
                let top = V::max(V::abs(a[i]), V::abs(b[i]));
                magnitude = magnitude.mul::<V>(top);
                if !ONES {
                    small = small.mul::<V>(V::min(Lanes::ONE, top));
                }
                spread = spread.mul::<V>(gap.fma::<V>(Lanes::splat(ERROR_TAU), top));
            }
            highest = V::max(highest, spread);
        }
        let heavy = V::abs(weight);
        let most = V::max(
            Lanes::splat(RESCALE_LIMIT),
            V::min(heavy.mul::<V>(Lanes::splat(1.0 / MIN_WEIGHT)), Lanes::splat(HIGHEST)),
        );
        let mut safe = plain;
        for l in 0..LANES {
            safe &= (small.0[l] >= LOWEST) & (highest.0[l] <= most.0[l]);
        }
        if !safe && !wide {
            return at;
        }

        let ratio = V::div(spread, magnitude).largest();
        let choice = if safe { choices.at(ratio) } else { choices.exact };
        let rule = measure.rule(choice.nodes);
        if whole {
            prefixes.clear();
            prefixes.resize(rule.len(), Lanes::ONE);
            behind::<V>(rule, weight, suffixes);
            sweeps::<V>(groups, rule, prefixes, suffixes);
            finish::<V, ONES>(run, offset, groups, members, sums);
        } else {
            for nodes in rule.chunks(KEPT_NODES) {
                let count = nodes.len();
                prefixes.clear();
                prefixes.resize(count, Lanes::ONE);
                for members in members.chunks(*segment).take(members.len().div_ceil(*segment) - 1) {
                    begin::<V, ONES>(run, offset, groups, members);
                    let from = prefixes.len() - count;
                    prefixes.extend_from_within(from..);
                    forwards::<V>(&groups[..members.len()], nodes, &mut prefixes[from + count..]);
                }
                behind::<V>(nodes, weight, suffixes);
                let segments = members.chunks(*segment).zip(sums.chunks_mut(*segment));
                for ((members, sums), prefixes) in segments.zip(prefixes.chunks(count)).rev() {
                    begin::<V, ONES>(run, offset, groups, members);
                    let groups = &mut groups[..members.len()];
                    sweeps::<V>(groups, nodes, prefixes, suffixes);
                    finish::<V, ONES>(run, offset, groups, members, sums);
                }
            }
        }

        let decay = if ONES { 0.0 } else { neg_log_bound(small.smallest()) };
        let size = run.sizes.map_or_else(|| heavy.mul::<V>(magnitude), |sizes| sizes[at]);
        totals.magnitude = totals.magnitude.add::<V>(size);
        totals.error = size.fma::<V>(Lanes::splat(errors.at(&choice, ratio, decay)), totals.error);
    }
    run.weights.len()
}

/// A bound on the error of a value, of the sum of all values, and of what that sum is compared with (the game
/// with all players present and absent), relative to M.
///
/// A value is a mean of differences of two ends of the game, and all Shapley values (but not those of other
/// measures) sum up to one, whatever the factors are: where Δ bounds the factors' errors, all together,
/// either is off by at most `2 (exp(Δ) - 1) M` for them. What the engine itself does is relative to the
/// values, which sum up to the mass times M at most: seventeen roundings a group of factors, one a node, and
/// those of the rule's weights (its nodes are off by one rounding of 1, measured against 40 digits, which
/// moves a product by the mass at most).
pub(super) struct ErrorBounds {
    /// Of the factors, and what of it each unit of `-ln M` adds.
    factors: f64,
    per_log: f64,
    /// Of the engine, for each unit of the mass.
    own: f64,
    /// The most that the mass can be, and what makes the ratio `P(τ₀)/M` less 1 of the ratio, rounded up.
    most: f64,
    less: f64,
}

impl ErrorBounds {
    /// A rounding, and a percent for what is left of the series, and for rounding of the bound itself.
    const UNIT: f64 = 1.01 * f64::EPSILON / 2.0;

    pub(super) fn of(run: &TermBatch<'_>) -> Self {
        let (outside, players) = (&run.rounding, run.players as f64);
        let logs = outside.per_log * (outside.decay + 0.368);
        Self {
            factors: Self::UNIT * (outside.units + logs),
            per_log: Self::UNIT * outside.per_log,
            own: Self::UNIT * (17.0 * run.players.div_ceil(4) as f64 + 24.0 + outside.sums),
            most: 2.0 * players,
            less: 8.0 * f64::EPSILON * players - 1.0,
        }
    }

    /// In a block where `P(τ₀)/M` is at most `ratio`, and `decay` bounds `Σ max(0, -ln t)` over the active
    /// factors' larger sides t.
    #[inline(always)]
    pub(super) fn at(&self, choice: &RuleChoice, ratio: f64, decay: f64) -> f64 {
        // `ln (1 + x) ≤ x - x²/2 + x³/3`, which is close where x is not large, and there is a limit for
        // others.
        let x = ratio + self.less;
        let mass = (MASS * x * (1.0 - x * (0.5 - x * (1.0 / 3.0)))).min(choice.mass).min(self.most);
        let mut factors = self.factors + self.per_log * decay;
        if factors > 0.01 {
            factors = factors.min(600.0).exp_m1();
        }
        factors + mass * (self.own + Self::UNIT * (1.25 * choice.nodes as f64 + mass) + choice.quadrature)
    }
}

/// A bound on `-ln x` for a normal x in (0, 1], from its exponent.
#[inline(always)]
pub(crate) fn neg_log_bound(x: f64) -> f64 {
    (1023.0 - (x.to_bits() >> 52) as f64) * std::f64::consts::LN_2
}

/// How many of the nodes that are left go next.
#[inline(always)]
fn together(left: usize) -> usize {
    if left == 5 { 3 } else { left.min(CHUNK) }
}

/// By node the product of the factors behind all groups: none, but the weights.
#[inline(always)]
fn behind<V: Simd>(nodes: &[Node], weight: Lanes, out: &mut Vec<Lanes>) {
    out.clear();
    for node in nodes {
        out.push(weight.mul::<V>(Lanes::splat(node.weight)));
    }
}

/// Makes the polynomials of some groups.
#[inline(always)]
fn begin<V: Simd, const ONES: bool>(
    run: &TermBatch<'_>,
    offset: usize,
    groups: &mut [Group],
    members: &[[u32; 4]],
) {
    for (group, members) in groups.iter_mut().zip(members) {
        let (a, b) = load_group::<ONES>(run, offset, members);
        group.begin::<V, ONES>(a, b);
    }
}

/// Adds the values that follow from the moments of some groups.
#[inline(always)]
fn finish<V: Simd, const ONES: bool>(
    run: &TermBatch<'_>,
    offset: usize,
    groups: &[Group],
    members: &[[u32; 4]],
    sums: &mut [[Lanes; 4]],
) {
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
}

/// Multiplies, by node, the products of the factors before some groups by theirs.
#[inline(always)]
fn forwards<V: Simd>(groups: &[Group], nodes: &[Node], prefixes: &mut [Lanes]) {
    let mut at = 0;
    while at < nodes.len() {
        let some = at..at + together(nodes.len() - at);
        let (now, prefixes) = (&nodes[some.clone()], &mut prefixes[some.clone()]);
        match now.len() {
            1 => forward::<V, 1>(groups, now, prefixes),
            2 => forward::<V, 2>(groups, now, prefixes),
            3 => forward::<V, 3>(groups, now, prefixes),
            _ => forward::<V, CHUNK>(groups, now, prefixes),
        }
        at = some.end;
    }
}

#[inline(always)]
fn forward<V: Simd, const K: usize>(groups: &[Group], nodes: &[Node], prefixes: &mut [Lanes]) {
    let (Ok(nodes), Ok(prefix)) = (<&[Node; K]>::try_from(nodes), <&mut [Lanes; K]>::try_from(prefixes))
    else {
        return;
    };
    for group in groups {
        for k in 0..K {
            prefix[k] = prefix[k].mul::<V>(group.at::<V>(&nodes[k]));
        }
    }
}

/// Carries nodes through some groups, forward from the products of the factors before them and back from
/// those of the factors behind, which afterwards include theirs.
#[inline(always)]
fn sweeps<V: Simd>(groups: &mut [Group], nodes: &[Node], prefixes: &[Lanes], suffixes: &mut [Lanes]) {
    let mut at = 0;
    while at < nodes.len() {
        let some = at..at + together(nodes.len() - at);
        let (now, prefixes) = (&nodes[some.clone()], &prefixes[some.clone()]);
        let suffixes = &mut suffixes[some.clone()];
        match now.len() {
            1 => node_sweep::<V, 1>(groups, now, prefixes, suffixes),
            2 => node_sweep::<V, 2>(groups, now, prefixes, suffixes),
            3 => node_sweep::<V, 3>(groups, now, prefixes, suffixes),
            _ => node_sweep::<V, CHUNK>(groups, now, prefixes, suffixes),
        }
        at = some.end;
    }
}

/// Carries K nodes.
#[inline(always)]
fn node_sweep<V: Simd, const K: usize>(
    groups: &mut [Group],
    nodes: &[Node],
    prefixes: &[Lanes],
    suffixes: &mut [Lanes],
) {
    let (Ok(nodes), Ok(start), Ok(suffix)) = (
        <&[Node; K]>::try_from(nodes),
        <&[Lanes; K]>::try_from(prefixes),
        <&mut [Lanes; K]>::try_from(suffixes),
    ) else {
        return;
    };
    let mut prefix = *start;
    for group in groups.iter_mut() {
        for k in 0..K {
            let value = group.at::<V>(&nodes[k]);
            group.prefix[k] = prefix[k];
            group.value[k] = value;
            prefix[k] = prefix[k].mul::<V>(value);
        }
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

/// Mantissa and binary exponent, times x.
pub(super) fn scaled_mul((fraction, power): (f64, i64), x: f64) -> (f64, i64) {
    let (own, exponent) = split(x);
    let (fraction, more) = split(fraction * own);
    (fraction, power + exponent + more)
}

/// The same where either may be 0, infinite or NaN, which then is all that is left.
pub(crate) fn scaled_mul_nonfinite((fraction, power): (f64, i64), x: f64) -> (f64, i64) {
    let usual = |v: f64| v != 0.0 && v.is_finite();
    if usual(fraction) && usual(x) { scaled_mul((fraction, power), x) } else { (fraction * x, 0) }
}

/// `x = fraction · 2^power` with |fraction| in [1, 2).
fn split(x: f64) -> (f64, i64) {
    let scaled = if x.abs() < f64::MIN_POSITIVE { x * 2.0_f64.powi(64) } else { x };
    let power = ((scaled.to_bits() >> 52) & 0x7ff) as i64 - 1023;
    let fraction = f64::from_bits(scaled.to_bits() & !(0x7ff << 52) | (1023 << 52));
    (fraction, if scaled == x { power } else { power - 64 })
}

/// `x · 2^power` without overflow on the way.
pub(crate) fn ldexp(x: f64, power: i64) -> f64 {
    let step = |x: f64, p: i64| x * 2.0_f64.powi(p as i32);
    let power = power.clamp(-4000, 4000);
    let third = power / 4;
    step(step(step(step(x, third), third), third), power - 3 * third)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values are the same to the last bit however many groups are held at a time.
    #[test]
    fn segments_change_nothing() {
        let (players, rows) = (50_usize, 2 * LANES);
        let number = |k: usize| 0.55 + 0.45 * (0.7 * k as f64 + (k * k % 17) as f64).sin();
        let side = |from: usize| (0..(players + 1) * rows).map(|k| number(from + k)).collect::<Vec<_>>();
        let (mut a, mut b) = (side(0), side(31));
        a[players * rows..].fill(1.0);
        b[players * rows..].fill(1.0);
        let mut active: Vec<u32> = (0..players as u32).collect();
        active.resize(players.next_multiple_of(4), players as u32);
        let weights = [Lanes::splat(0.3), Lanes::splat(-1.7)];
        for b in [Some(&b[..]), None] {
            let run = TermBatch {
                a: &a,
                b,
                stride: rows,
                offset: 0,
                active: &active,
                players,
                weights: &weights,
                sizes: None,
                tinies: &[],
                rounding: RoundingUnits::default(),
            };
            let values = |segment: usize| {
                let mut engine = QuadratureEngine {
                    segment,
                    ..QuadratureEngine::new(Isa::detect(), InclusionMeasure::Lebesgue)
                };
                let totals = engine.run(run);
                assert!(totals.error.largest() < 1e-10);
                engine.values
            };
            let whole = values(SEGMENT);
            assert!(whole[0].largest() != 0.0);
            for segment in [1, 2, 5, 12] {
                let parts = values(segment);
                assert!(whole.iter().zip(&parts).all(|(a, b)| a.0 == b.0), "{segment}");
            }
        }
    }
}

//! Engine for product games: exact values by Gauss quadrature.
//!
//! A product game has the values `v(S) = Σ_p w_p Π_{j∈S} a_pj Π_{j∉S} b_pj` of coalitions S, with a weight
//! w_p per term p and, for each player j, the factors a_pj (present) and b_pj (absent). The value of player j
//! is `φ_j = Σ_p w_p (a_pj - b_pj) ∫_0^1 Π_{l≠j} ((1-t) b_pl + t a_pl) dμ(t)` with an [`InclusionMeasure`] μ,
//! for Shapley values the uniform measure. Every statistic of a product game is computed from blocks of eight
//! terms p, one per SIMD lane.
//!
//! The nodes and their number are chosen in `rule.rs`; this module computes the integrals.
//!
//! Factors are processed in groups of four. For each group, the coefficients of `Π ((1-t) b + t a)` in the
//! Bernstein basis `t^i (1-t)^{4-i}` are computed once. At each node the forward pass takes five
//! multiply-adds per group and computes prefix products. The backward pass takes four per group; it computes
//! suffix products and accumulates the four moments `∫ rest · t^i (1-t)^{3-i}`, where `rest` is the product
//! of all other groups. The four values follow from the moments. There is no division, so factors may be 0,
//! and factors of one sign cause no cancellation.

use super::rule::{ERROR_TAU, InclusionMeasure, MASS, Node, RuleChoice};
use crate::kernel::rounding_bounds::TINY;
use crate::memory::refill;
use crate::simd::{Isa, LANES, Lanes, Plain, Simd, dispatch};

/// Largest number of nodes that are processed together.
const CHUNK: usize = 4;

/// Number of groups whose memory fits into a core's cache. Larger games are processed in segments; otherwise
/// the data of every group would be read from main memory for every few nodes.
const SEGMENT: usize = 384;
/// Number of nodes for which the products before each segment are stored.
const KEPT_NODES: usize = 64;

/// Blocks are rescaled before multiplying if the product of `min(1, max(|a|, |b|))` is below this.
pub(super) const LOWEST: f64 = 1e-100;
/// Blocks are rescaled if a partial product of `max(|a|, |b|) + τ₀ |a - b|` is above this. The threshold of
/// light blocks is lower, see [`RESCALE_LIMIT`].
pub(super) const HIGHEST: f64 = 1e300;
/// Lower limit on the threshold for rescaling. The threshold is `|w| / MIN_WEIGHT`, at least this and at most
/// [`HIGHEST`].
pub(super) const RESCALE_LIMIT: f64 = 1e20;
pub(super) const MIN_WEIGHT: f64 = 1e-300;
/// Bound on the loss to underflow in a block that is not rescaled, including all factors that multiply it.
pub(crate) const FLOOR: f64 = 1e-300;
/// Blocks whose factors have a larger absolute error than this are rescaled.
pub(crate) const TINIEST: f64 = 1e-250;

/// Consecutive terms of a product game in blocks of eight. `a` and `b` hold factor k of the terms at `k *
/// stride..(k + 1) * stride`. One more factor after the last, all 1, is padding.
#[derive(Clone, Copy)]
pub struct TermBatch<'a> {
    /// Factors of present players.
    pub a: &'a [f64],
    /// Factors of absent players; `None` if all are 1.
    pub b: Option<&'a [f64]>,
    /// The distance between the factors of successive players.
    pub stride: usize,
    /// Index of the first term.
    pub offset: usize,
    /// Indices of the factors that enter, padded to a multiple of four with the index of the padding factor.
    /// A factor with `a = b` in all terms may be left out, with its value multiplied into the weights.
    pub active: &'a [u32],
    /// The number of entries of `active` that are not padding.
    pub players: usize,
    /// Weights w of the terms; 1 for the functionals.
    pub weights: &'a [Lanes],
    /// For each block, the product of |w| and the larger sizes of all factors, if errors are relative to the
    /// sizes of factors instead of the factors.
    pub sizes: Option<&'a [Lanes]>,
    /// Absolute error of each factor in addition to rounding; none exceeds the `tiny` of `rounding`.
    pub tinies: &'a [f64],
    /// Rounding errors outside the engine that the bound includes.
    pub rounding: RoundingUnits,
}

impl<'a> TermBatch<'a> {
    /// Block `index` of the batch.
    pub(crate) fn block(self, index: usize) -> Self {
        let sizes = self.sizes.map(|sizes| &sizes[index..=index]);
        Self { weights: &self.weights[index..=index], sizes, offset: self.offset + index * LANES, ..self }
    }

    /// Factor k in a block, for present and absent players.
    pub fn side(&self, k: u32, block: usize) -> (Lanes, Lanes) {
        let start = k as usize * self.stride + self.offset + block * LANES;
        (Lanes::load(self.a, start), self.b.map_or(Lanes::UNIT, |b| Lanes::load(b, start)))
    }
}

/// Computes [`TermBatch::sizes`]: for each block, |w| times the product over factors of the larger size of
/// both sides. If `absent` is `None`, absent factors are 1.
pub fn max_products(present: &[f64], absent: Option<&[f64]>, weights: &[Lanes], out: &mut Vec<Lanes>) {
    let len = weights.len() * LANES;
    out.clear();
    out.extend(weights.iter().map(|w| Plain::abs(*w)));
    for (k, player_factors) in present.chunks_exact(len).enumerate() {
        for (i, size) in player_factors.iter().enumerate() {
            out[i / LANES].0[i % LANES] *= size.max(absent.map_or(1.0, |b| b[k * len + i]));
        }
    }
}

/// Errors of factors and weights before they enter the engine, in units of ε/2.
///
/// Let every factor f have the error `units + per_log · (-ln f)` relative to its
/// [size](crate::kernel::rounding_bounds). The value of a coalition then has an error of this form relative
/// to M, the product of the larger factors. For `M = exp(-D)` and factors `exp(-s_l)` with `Σ_l s_l ≥ D`,
/// `Σ_l per_log · s_l exp(-Σ_l s_l)` is at most `per_log · (D + 1/e)` times M.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundingUnits {
    /// Relative error in units of ε/2 of a coalition's value, and of all numbers that are rounded once for
    /// all values together.
    pub units: f64,
    /// Increase of the error in units per unit of `-ln M`.
    pub(crate) per_log: f64,
    /// Error in units of the sums to which a value is added, relative to the value's part of the game.
    pub sums: f64,
    /// A bound on `Σ max(0, -ln f)` over factors folded into the weights.
    pub(crate) decay: f64,
    /// Largest absolute error of a factor in addition to rounding.
    pub(crate) tiny: f64,
    /// Absolute error of a value from weights that leave the range of doubles.
    pub(crate) floor: f64,
    /// Terms whose factors are at most 1 and whose product M is below this are left out. Their largest
    /// possible value is added to the error.
    pub(crate) negligible: f64,
}

impl RoundingUnits {
    /// Errors of factors with a total relative error of `units`, for rows of `width` columns.
    pub fn new(units: f64, per_log: f64, width: usize) -> Self {
        // Predictions sum squares over all columns before they compute an exponential.
        let predicted = if per_log > 0.0 { per_log + 2.0 + width as f64 } else { 0.0 };
        Self { units: 2.0 * units, per_log: per_log + predicted, ..Self::default() }
    }
}

/// Sums over a batch, lane by lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchTotals {
    /// Bound on the error of each value and of the sum of the values, including the factor |w|.
    pub(crate) error: Lanes,
    /// Bound on |value of any coalition|, including the factor |w|.
    pub(crate) magnitude: Lanes,
}

/// Quadrature engine with its working memory.
pub struct QuadratureEngine {
    pub(crate) isa: Isa,
    measure: InclusionMeasure,
    groups: Vec<Group>,
    /// Number of groups per segment.
    segment: usize,
    /// If there are several segments: for each segment and node, the product of the factors before the
    /// segment.
    prefixes: Vec<Lanes>,
    /// For each node, the product of the weights and the factors after the current segment.
    suffixes: Vec<Lanes>,
    /// Values of the active factors, in the order of `active`, summed over the batch.
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

    /// Initialises the group with these factors.
    #[inline(always)]
    fn begin<V: Simd, const ABSENT_IS_ONE: bool>(&mut self, a: [Lanes; 4], b: [Lanes; 4]) {
        let p = pair::<V, ABSENT_IS_ONE>([a[0], a[1]], [b[0], b[1]]);
        let q = pair::<V, ABSENT_IS_ONE>([a[2], a[3]], [b[2], b[3]]);
        self.bernstein = [
            V::mul(p[0], q[0]),
            V::fma(p[0], q[1], V::mul(p[1], q[0])),
            V::fma(p[0], q[2], V::fma(p[1], q[1], V::mul(p[2], q[0]))),
            V::fma(p[1], q[2], V::mul(p[2], q[1])),
            V::mul(p[2], q[2]),
        ];
        self.moments = [Lanes::ZERO; 4];
    }

    /// The product of the group's factors at a node.
    #[inline(always)]
    fn value_at<V: Simd>(&self, node: &Node) -> Lanes {
        let (e, t) = (&self.bernstein, &node.quartic);
        let mut value = V::mul(e[0], Lanes::splat(t[0]));
        for i in 1..5 {
            value = V::fma(e[i], Lanes::splat(t[i]), value);
        }
        value
    }
}

impl QuadratureEngine {
    pub(crate) fn new(isa: Isa, measure: InclusionMeasure) -> Self {
        let (groups, prefixes, suffixes, values) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { isa, measure, groups, segment: SEGMENT, prefixes, suffixes, values }
    }

    /// Sums the values of a batch into `self.values`, block by block in order.
    pub(crate) fn run(&mut self, run: TermBatch<'_>) -> BatchTotals {
        debug_assert!(run.active.len().is_multiple_of(4) && run.players <= run.active.len());
        let count = run.active.len() / 4;
        self.groups.resize(self.groups.len().max(count.min(self.segment)), Group::EMPTY);
        refill(&mut self.values, 4 * count, Lanes::ZERO);
        let floor = Lanes::splat(run.rounding.floor * run.weights.len() as f64);
        let mut totals = BatchTotals { error: floor, magnitude: Lanes::ZERO };
        let mut index = 0;
        while index < run.weights.len() {
            // Stops at a block whose partial products leave the safe range.
            index = blocks(self.isa, &run, index, false, self, &mut totals);
            if index < run.weights.len() {
                self.rescaled(&run, index, &mut totals);
                index += 1;
            }
        }
        totals
    }

    /// Computes block `index` with each factor pair divided by its larger magnitude, for games whose partial
    /// products leave the range of doubles although their values may not. Slow and rare.
    fn rescaled(&mut self, run: &TermBatch<'_>, index: usize, totals: &mut BatchTotals) {
        let players = run.players;
        let count = run.active.len();
        let mut sides = vec![1.0; 2 * count * LANES];
        let (a, b) = sides.split_at_mut(count * LANES);
        let active: Vec<u32> = (0..count as u32).collect();
        // The product of the magnitudes as mantissa and binary exponent.
        let (mut mantissa, mut exponent) = ([1.0_f64; LANES], [0_i64; LANES]);
        let mut decay = [0.0_f64; LANES];
        // Product of the magnitudes, each at least its absolute error, as mantissa and binary exponent; and
        // the sum of the relative errors.
        let mut magnitudes = [(1.0_f64, 0_i64, 0.0_f64); LANES];
        for (i, &k) in run.active[..players].iter().enumerate() {
            let side = run.side(k, index);
            let tiny = run.tinies.get(k as usize).copied().unwrap_or(0.0).max(TINY);
            for l in 0..LANES {
                let top = side.0.0[l].abs().max(side.1.0[l].abs());
                // If both factors of a player are 0, the whole term is 0.
                if top > 0.0 {
                    (a[i * LANES + l], b[i * LANES + l]) = (side.0.0[l] / top, side.1.0[l] / top);
                    decay[l] += (-top.ln()).max(0.0);
                }
                if top == 0.0 {
                    mantissa[l] = 0.0;
                } else if mantissa[l] != 0.0 {
                    (mantissa[l], exponent[l]) = scaled_mul((mantissa[l], exponent[l]), top);
                }
                let (fraction, power, share) = magnitudes[l];
                let (fraction, power) = scaled_mul((fraction, power), top.max(tiny));
                let share = share + tiny / top.max(tiny);
                magnitudes[l] = (fraction, power, share);
            }
        }
        let rounding = RoundingUnits {
            decay: run.rounding.decay + decay.iter().fold(0.0, |m, &d| d.max(m)),
            // Dividing the factors and multiplying their magnitudes adds four roundings per player.
            units: run.rounding.units + 4.0 * players as f64,
            tiny: 0.0,
            ..run.rounding
        };
        let mut scale = Lanes::ZERO;
        for l in 0..LANES {
            let weight = run.weights[index].0[l];
            scale.0[l] = ldexp(weight * mantissa[l], exponent[l]);
            let (fraction, power, share) = magnitudes[l];
            // Bound on `Π (top + tiny) - Π top`, relative to `Π max(top, tiny)`. The cap on the exponent
            // keeps it finite.
            let tiny_share = 4.0 * share.min(600.0).exp_m1();
            totals.error.0[l] += ldexp(weight.abs() * tiny_share * fraction, power)
                + ldexp(run.rounding.floor * mantissa[l], exponent[l]);
        }
        let inner = TermBatch {
            a,
            b: Some(&*b),
            stride: LANES,
            offset: 0,
            active: &active,
            weights: &[scale],
            tinies: &[],
            rounding,
            ..run.block(index)
        };
        // All larger sides are ±1 now. Only `P(τ₀)` can still leave the range of doubles, for a mass in the
        // thousands.
        blocks(self.isa, &inner, 0, true, self, totals);
    }
}

dispatch! {
    /// Processes the blocks from `from` on. Returns the index of the first block that must be rescaled, or
    /// the number of blocks. With `wide`, it processes all blocks, those with too large products by the exact
    /// rule.
    fn blocks<V: Simd>(
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
}

/// The factors of one group.
#[inline(always)]
fn load_group<const ABSENT_IS_ONE: bool>(
    run: &TermBatch<'_>,
    offset: usize,
    members: &[u32; 4],
) -> ([Lanes; 4], [Lanes; 4]) {
    let (mut a, mut b) = ([Lanes::UNIT; 4], [Lanes::UNIT; 4]);
    for i in 0..4 {
        let start = members[i] as usize * run.stride + offset;
        a[i] = Lanes::load(run.a, start);
        if !ABSENT_IS_ONE && let Some(values) = run.b {
            b[i] = Lanes::load(values, start);
        }
    }
    (a, b)
}

/// Coefficients of `((1-t) b0 + t a0)((1-t) b1 + t a1)` in `(1-t)²`, `t (1-t)`, `t²`.
#[inline(always)]
fn pair<V: Simd, const ABSENT_IS_ONE: bool>(a: [Lanes; 2], b: [Lanes; 2]) -> [Lanes; 3] {
    if ABSENT_IS_ONE {
        return [Lanes::UNIT, V::add(a[0], a[1]), V::mul(a[0], a[1])];
    }
    [V::mul(b[0], b[1]), V::fma(a[0], b[1], V::mul(b[0], a[1])), V::mul(a[0], a[1])]
}

// Long: this is the innermost loop of all product games, whose four running products stay in registers.
/// See [`blocks`]; with `ABSENT_IS_ONE` every b is 1.
#[inline(always)]
fn two_pass_products<V: Simd, const ABSENT_IS_ONE: bool>(
    run: &TermBatch<'_>,
    from: usize,
    wide: bool,
    engine: &mut QuadratureEngine,
    totals: &mut BatchTotals,
) -> usize {
    let (members, _) = run.active.as_chunks::<4>();
    let QuadratureEngine { groups, values, measure, segment, prefixes, suffixes, .. } = engine;
    let in_one_segment = members.len() <= *segment;
    let groups = &mut groups[..members.len().min(*segment)];
    let (sums, _) = values.as_chunks_mut::<4>();
    let choices = measure.candidate_rules(run.players);
    let plain = run.rounding.tiny <= TINIEST;
    let errors = ErrorBounds::for_batch(run);
    for index in from..run.weights.len() {
        let offset = run.offset + index * LANES;
        let mut weight = run.weights[index];

        // Group polynomials; `M = Π max(|a|, |b|)` and `P = Π (max(|a|, |b|) + τ₀ |a - b|)` of `rule.rs`, and
        // `Π min(1, max(|a|, |b|))`.
        let (mut magnitude, mut ratio_product) = (Lanes::UNIT, Lanes::UNIT);
        let (mut small, mut highest) = (Lanes::UNIT, Lanes::UNIT);
        for (position, members) in members.iter().enumerate() {
            let (a, b) = load_group::<ABSENT_IS_ONE>(run, offset, members);
            if in_one_segment {
                groups[position].begin::<V, ABSENT_IS_ONE>(a, b);
            }
            for i in 0..4 {
                let difference = V::abs(V::sub(a[i], b[i]));
                let top = V::max(V::abs(a[i]), V::abs(b[i]));
                magnitude = V::mul(magnitude, top);
                if !ABSENT_IS_ONE {
                    small = V::mul(small, V::min(Lanes::UNIT, top));
                }
                ratio_product = V::mul(ratio_product, V::fma(difference, Lanes::splat(ERROR_TAU), top));
            }
            highest = V::max(highest, ratio_product);
        }
        if magnitude.smallest() < run.rounding.negligible {
            for l in 0..LANES {
                if magnitude.0[l] >= run.rounding.negligible {
                    continue;
                }
                let tiny = FLOOR + 2.0 * run.players as f64 * run.rounding.tiny;
                totals.error.0[l] += weight.0[l].abs() * (2.0 * magnitude.0[l] + tiny);
                (weight.0[l], highest.0[l]) = (0.0, 0.0);
                (magnitude.0[l], ratio_product.0[l], small.0[l]) = (1.0, 1.0, 1.0);
            }
            if weight.0.iter().all(|w| *w == 0.0) {
                continue;
            }
        }
        let heavy = V::abs(weight);
        let max_product = V::max(
            Lanes::splat(RESCALE_LIMIT),
            V::min(V::mul(heavy, Lanes::splat(1.0 / MIN_WEIGHT)), Lanes::splat(HIGHEST)),
        );
        let mut safe = plain;
        for l in 0..LANES {
            safe &= (small.0[l] >= LOWEST) & (highest.0[l] <= max_product.0[l]);
        }
        if !safe && !wide {
            return index;
        }

        let ratio = V::div(ratio_product, magnitude).largest();
        let choice = if safe { choices.smallest_accurate(ratio) } else { choices.exact };
        let rule = measure.rule(choice.nodes);
        if in_one_segment {
            refill(prefixes, rule.len(), Lanes::UNIT);
            begin_suffixes::<V>(rule, weight, suffixes);
            sweeps::<V>(groups, rule, prefixes, suffixes);
            finish::<V, ABSENT_IS_ONE>(run, offset, groups, members, sums);
        } else {
            for nodes in rule.chunks(KEPT_NODES) {
                let count = nodes.len();
                refill(prefixes, count, Lanes::UNIT);
                for members in members.chunks(*segment).take(members.len().div_ceil(*segment) - 1) {
                    begin::<V, ABSENT_IS_ONE>(run, offset, groups, members);
                    let from = prefixes.len() - count;
                    prefixes.extend_from_within(from..);
                    forwards::<V>(&groups[..members.len()], nodes, &mut prefixes[from + count..]);
                }
                begin_suffixes::<V>(nodes, weight, suffixes);
                let segments = members.chunks(*segment).zip(sums.chunks_mut(*segment));
                for ((members, sums), prefixes) in segments.zip(prefixes.chunks(count)).rev() {
                    begin::<V, ABSENT_IS_ONE>(run, offset, groups, members);
                    let groups = &mut groups[..members.len()];
                    sweeps::<V>(groups, nodes, prefixes, suffixes);
                    finish::<V, ABSENT_IS_ONE>(run, offset, groups, members, sums);
                }
            }
        }

        let decay = if ABSENT_IS_ONE { 0.0 } else { neg_log_bound(small.smallest()) };
        let size = run.sizes.map_or_else(|| V::mul(heavy, magnitude), |sizes| sizes[index]);
        totals.magnitude = V::add(totals.magnitude, size);
        totals.error = V::fma(size, Lanes::splat(errors.relative_error(&choice, ratio, decay)), totals.error);
    }
    run.weights.len()
}

/// Bound, relative to M, on the error of a value and of the sum of all values. It also bounds the error of
/// v(all) - v(∅), which is the sum that the values should have.
///
/// A value is a mean of differences of two coalitions' values. Shapley values, but not those of other
/// measures, sum to such a difference for any factors. If Δ bounds the errors of all factors together, the
/// factors therefore add at most `2 (exp(Δ) - 1) M` to either error. The engine's own errors are relative to
/// the values, which sum to at most the mass times M. They are seventeen roundings per group of factors, one
/// per node, and those of the rule's weights. Nodes have an error of at most one rounding of 1 (measured
/// against 40 digits), which changes a product by at most the mass.
pub(super) struct ErrorBounds {
    /// Relative error of the factors, and its increase per unit of `-ln M`.
    factors: f64,
    per_log: f64,
    /// Relative error of the engine per unit of the mass.
    engine_error: f64,
    /// Largest possible mass, and the number that added to the ratio `P(τ₀)/M` gives the ratio minus 1,
    /// rounded up.
    max_mass: f64,
    less: f64,
}

impl ErrorBounds {
    /// One rounding, plus one percent for the higher terms of the series and for rounding of the bound
    /// itself.
    const UNIT: f64 = 1.01 * f64::EPSILON / 2.0;

    pub(super) fn for_batch(run: &TermBatch<'_>) -> Self {
        let (units_of_run, players) = (&run.rounding, run.players as f64);
        let logs = units_of_run.per_log * (units_of_run.decay + 0.368);
        Self {
            factors: Self::UNIT * (units_of_run.units + logs),
            per_log: Self::UNIT * units_of_run.per_log,
            engine_error: Self::UNIT * (17.0 * run.players.div_ceil(4) as f64 + 24.0 + units_of_run.sums),
            max_mass: 2.0 * players,
            less: 8.0 * f64::EPSILON * players - 1.0,
        }
    }

    /// Relative error in a block where `P(τ₀)/M` is at most `ratio`, and `decay` bounds `Σ max(0, -ln t)`
    /// over the larger sides t of the active factors.
    #[inline(always)]
    pub(super) fn relative_error(&self, choice: &RuleChoice, ratio: f64, decay: f64) -> f64 {
        // `ln (1 + x) ≤ x - x²/2 + x³/3` is sharp for small x; for other x the mass has two more upper
        // limits.
        let x = ratio + self.less;
        let mass = (MASS * x * (1.0 - x * (0.5 - x * (1.0 / 3.0)))).min(choice.mass).min(self.max_mass);
        let mut factors = self.factors + self.per_log * decay;
        if factors > 0.01 {
            factors = factors.min(600.0).exp_m1();
        }
        factors
            + mass
                * (self.engine_error
                    + Self::UNIT * (1.25 * choice.nodes as f64 + mass)
                    + choice.quadrature_error)
    }
}

/// A bound on `-ln x` for a normal x in (0, 1], from its exponent.
#[inline(always)]
pub(crate) fn neg_log_bound(x: f64) -> f64 {
    (1023.0 - (x.to_bits() >> 52) as f64) * std::f64::consts::LN_2
}

/// Number of nodes to process next, out of `remaining` ones.
#[inline(always)]
fn chunk_len(remaining: usize) -> usize {
    if remaining == 5 { 3 } else { remaining.min(CHUNK) }
}

/// Initialises the suffix products: for each node, the product of its weight and the terms' weights.
#[inline(always)]
fn begin_suffixes<V: Simd>(nodes: &[Node], weight: Lanes, out: &mut Vec<Lanes>) {
    out.clear();
    for node in nodes {
        out.push(V::mul(weight, Lanes::splat(node.weight)));
    }
}

/// Initialises the polynomials of consecutive groups.
#[inline(always)]
fn begin<V: Simd, const ABSENT_IS_ONE: bool>(
    run: &TermBatch<'_>,
    offset: usize,
    groups: &mut [Group],
    members: &[[u32; 4]],
) {
    for (group, members) in groups.iter_mut().zip(members) {
        let (a, b) = load_group::<ABSENT_IS_ONE>(run, offset, members);
        group.begin::<V, ABSENT_IS_ONE>(a, b);
    }
}

/// Adds to `sums` the values that follow from the moments of consecutive groups.
#[inline(always)]
fn finish<V: Simd, const ABSENT_IS_ONE: bool>(
    run: &TermBatch<'_>,
    offset: usize,
    groups: &[Group],
    members: &[[u32; 4]],
    sums: &mut [[Lanes; 4]],
) {
    for ((group, members), sum) in groups.iter().zip(members).zip(sums.iter_mut()) {
        let (a, b) = load_group::<ABSENT_IS_ONE>(run, offset, members);
        let m = &group.moments;
        for side in [0, 2] {
            // Polynomial of the pair that stays complete while one factor of the other pair is left out.
            let other = 2 - side;
            let q = pair::<V, ABSENT_IS_ONE>([a[other], a[other + 1]], [b[other], b[other + 1]]);
            let low = V::fma(q[0], m[0], V::fma(q[1], m[1], V::mul(q[2], m[2])));
            let high = V::fma(q[0], m[1], V::fma(q[1], m[2], V::mul(q[2], m[3])));
            for (i, j) in [(side, side + 1), (side + 1, side)] {
                let complement = V::fma(b[j], low, V::mul(a[j], high));
                sum[i] = V::fma(V::sub(a[i], b[i]), complement, sum[i]);
            }
        }
    }
}

/// Multiplies the prefix product of each node by the factors of these groups.
#[inline(always)]
fn forwards<V: Simd>(groups: &[Group], nodes: &[Node], prefixes: &mut [Lanes]) {
    let mut first = 0;
    while first < nodes.len() {
        let chunk = first..first + chunk_len(nodes.len() - first);
        let (now, prefixes) = (&nodes[chunk.clone()], &mut prefixes[chunk.clone()]);
        match now.len() {
            1 => forward::<V, 1>(groups, now, prefixes),
            2 => forward::<V, 2>(groups, now, prefixes),
            3 => forward::<V, 3>(groups, now, prefixes),
            _ => forward::<V, CHUNK>(groups, now, prefixes),
        }
        first = chunk.end;
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
            prefix[k] = V::mul(prefix[k], group.value_at::<V>(&nodes[k]));
        }
    }
}

/// Runs the forward and the backward pass of all nodes over these groups. `prefixes` are the products of the
/// factors before the groups. `suffixes` are the products of the factors after them, and include the groups'
/// factors afterwards.
#[inline(always)]
fn sweeps<V: Simd>(groups: &mut [Group], nodes: &[Node], prefixes: &[Lanes], suffixes: &mut [Lanes]) {
    let mut first = 0;
    while first < nodes.len() {
        let chunk = first..first + chunk_len(nodes.len() - first);
        let (now, prefixes) = (&nodes[chunk.clone()], &prefixes[chunk.clone()]);
        let suffixes = &mut suffixes[chunk.clone()];
        match now.len() {
            1 => node_sweep::<V, 1>(groups, now, prefixes, suffixes),
            2 => node_sweep::<V, 2>(groups, now, prefixes, suffixes),
            3 => node_sweep::<V, 3>(groups, now, prefixes, suffixes),
            _ => node_sweep::<V, CHUNK>(groups, now, prefixes, suffixes),
        }
        first = chunk.end;
    }
}

/// Runs both passes for K nodes.
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
            let value = group.value_at::<V>(&nodes[k]);
            group.prefix[k] = prefix[k];
            group.value[k] = value;
            prefix[k] = V::mul(prefix[k], value);
        }
    }
    for group in groups.iter_mut().rev() {
        let mut moments = group.moments;
        for k in 0..K {
            let complement = V::mul(group.prefix[k], suffix[k]);
            for i in 0..4 {
                moments[i] = V::fma(complement, Lanes::splat(nodes[k].cubic[i]), moments[i]);
            }
            suffix[k] = V::mul(suffix[k], group.value[k]);
        }
        group.moments = moments;
    }
}

/// Product of x and a number given as mantissa and binary exponent.
pub(super) fn scaled_mul((fraction, power): (f64, i64), x: f64) -> (f64, i64) {
    let (mantissa, exponent) = split(x);
    let (fraction, carry) = split(fraction * mantissa);
    (fraction, power + exponent + carry)
}

/// Product as in [`scaled_mul`], for numbers that may be 0, infinite or NaN. The product then is 0, infinite
/// or NaN, too.
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

/// `x · 2^power` without intermediate overflow.
pub(crate) fn ldexp(x: f64, power: i64) -> f64 {
    let step = |x: f64, p: i64| x * 2.0_f64.powi(p as i32);
    let power = power.clamp(-4000, 4000);
    let third = power / 4;
    step(step(step(step(x, third), third), third), power - 3 * third)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values have the same bits for any number of groups per segment.
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
                    ..QuadratureEngine::new(Isa::detect(), InclusionMeasure::Uniform)
                };
                let totals = engine.run(run);
                assert!(totals.error.largest() < 1e-10);
                engine.values
            };
            let expected = values(SEGMENT);
            assert!(expected[0].largest() != 0.0);
            for segment in [1, 2, 5, 12] {
                let parts = values(segment);
                assert!(expected.iter().zip(&parts).all(|(a, b)| a.0 == b.0), "{segment}");
            }
        }
    }
}

//! Measures on [0, 1] with their quadrature rules, and the number of nodes that a block of product games
//! needs.
//!
//! For Lebesgue's measure these are Gauss–Legendre rules. For a product `F(t) = Π_l ((1-t) b_l + t a_l)`
//! write `M = Π_l max(|a_l|, |b_l|)` and `P(τ) = Π_l (max(|a_l|, |b_l|) + τ |a_l - b_l|)`. On the Bernstein
//! ellipse of parameter ρ > 1 over
//! [0, 1], with `τ = (ρ + 1/ρ - 2)/4`, `|F| ≤ P(τ)`; so m nodes err by at most
//! `κ_m ρ^{-2m} / (1 - ρ^{-2}) P(τ)` with `κ_m = 2 (1 + 1/(4m² - 1))` (Trefethen, *Approximation Theory
//! and Approximation Practice*, theorem 19.3, halved for the shorter interval).
//!
//! `ln(P(τ)/M)/τ` falls with τ, hence `P(τ)/M ≤ (P(τ₀)/M)^{τ/τ₀}` for every `τ ≥ τ₀`: one product at the
//! fixed τ₀ = [`ERROR_TAU`] bounds all ellipses at once, without a division or a logarithm a factor. The
//! number `ln(P(τ₀)/M)/τ₀` is at most the mass `Σ_l |a_l - b_l| / max(|a_l|, |b_l|)`, and it is what decides
//! the number of nodes. Leaving factors out only makes it smaller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::jacobi::gauss_jacobi;

/// τ₀ of the module's head.
pub(crate) const ERROR_TAU: f64 = 0.0625;

/// Quadrature errors are kept below this, relative to `M`.
const TOLERANCE: f64 = 1e-16;

/// Rules with up to this many nodes are tabulated with their limits; beyond, only exact rules are used.
const TABULATED: usize = 512;

/// A player's value is what it adds, on average, to the others, each of whom is there with chance t; t has
/// this measure on [0, 1], whose mass is 1 (a semivalue: Dubey, Neyman and Weber 1981).
#[derive(Debug, Clone, Default)]
pub(crate) enum InclusionMeasure {
    /// Every t alike: Shapley values (Owen 1972).
    #[default]
    Lebesgue,
    /// Some t alone, each with a weight; one of them for Banzhaf's values.
    Some(Arc<[Node]>),
    /// Beta's distribution.
    Beta(Arc<Jacobi>),
}

impl InclusionMeasure {
    /// The measure that has all its mass at one t in [0, 1].
    pub(crate) fn point(t: f64) -> Self {
        Self::discrete(&[[t, 1.0]])
    }

    /// A discrete measure: several t in [0, 1], with weights that sum to 1.
    pub(crate) fn discrete(weighted_points: &[[f64; 2]]) -> Self {
        Self::Some(weighted_points.iter().map(|&[t, weight]| Node::new(t, 1.0 - t, weight)).collect())
    }

    /// The distribution of t whose density is proportional to `t^(first - 1) (1 - t)^(second - 1)`, for
    /// positive numbers.
    pub(crate) fn beta(first: f64, second: f64) -> Self {
        if first == 1.0 && second == 1.0 {
            Self::Lebesgue
        } else {
            Self::Beta(Arc::new(Jacobi::new(first, second)))
        }
    }

    /// The rule with `m ≥ 1` nodes.
    pub(crate) fn rule(&self, m: usize) -> &[Node] {
        match self {
            Self::Lebesgue => rule(m),
            Self::Some(nodes) => nodes,
            Self::Beta(rules) => rules.rule(m),
        }
    }

    /// The rules for `players` factors with one left out.
    pub(crate) fn choices(&self, players: usize) -> RuleTable {
        let half_count = players.div_ceil(2).max(1);
        let (nodes, limits) = match self {
            Self::Lebesgue => (half_count, error_limits()),
            Self::Beta(_) => (half_count, limits_of_any()),
            // There is but one rule.
            Self::Some(nodes) => (nodes.len(), &[][..]),
        };
        RuleTable {
            exact: RuleChoice { nodes, quadrature: 0.0, mass: 2.0 * players as f64 },
            error_limits: limits,
        }
    }
}

/// Rules to choose from.
#[derive(Clone, Copy)]
pub(crate) struct RuleTable {
    /// The one that is exact.
    pub(crate) exact: RuleChoice,
    error_limits: &'static [(f64, f64)],
}

impl RuleTable {
    /// The smallest rule that serves blocks whose `P(τ₀)/M` is at most `ratio`.
    #[inline(always)]
    pub(crate) fn choose(&self, ratio: f64) -> RuleChoice {
        // Most games need few nodes: search from below.
        for (nodes, &(limit, mass)) in self.error_limits.iter().enumerate().take(self.exact.nodes).skip(1) {
            if ratio <= limit {
                return RuleChoice { nodes, quadrature: TOLERANCE, mass };
            }
        }
        self.exact
    }
}

/// The rules of a Beta distribution, made when they are asked for.
#[derive(Debug)]
pub(crate) struct Jacobi {
    shape: [f64; 2],
    short: Vec<OnceLock<Vec<Node>>>,
    long: Mutex<BTreeMap<usize, &'static [Node]>>,
}

impl Jacobi {
    fn new(first: f64, second: f64) -> Self {
        let short = (0..=TABULATED).map(|_| OnceLock::new()).collect();
        Self { shape: [first, second], short, long: Mutex::default() }
    }

    fn rule(&self, m: usize) -> &[Node] {
        let [first, second] = self.shape;
        let make = || -> Vec<Node> {
            gauss_jacobi(m, first, second).into_iter().map(|[t, s, w]| Node::new(t, s, w)).collect()
        };
        match self.short.get(m) {
            Some(rule) => rule.get_or_init(make),
            // As those of Lebesgue's measure.
            None => {
                let mut long = self.long.lock().unwrap_or_else(|e| e.into_inner());
                long.entry(m).or_insert_with(|| make().leak())
            }
        }
    }
}

/// One node of a rule, with the powers that the engine multiplies by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    /// t and `1 - t`.
    pub(crate) t: f64,
    pub(crate) s: f64,
    /// The weight.
    pub(crate) weight: f64,
    /// `t^i (1-t)^{4-i}`.
    pub(crate) quartic: [f64; 5],
    /// `t^i (1-t)^{3-i}`.
    pub(crate) cubic: [f64; 4],
}

impl Node {
    /// At t, with `s = 1 - t`.
    pub(crate) const fn new(t: f64, s: f64, weight: f64) -> Self {
        let (t2, s2) = (t * t, s * s);
        Self {
            t,
            s,
            weight,
            quartic: [s2 * s2, t * s2 * s, t2 * s2, t2 * t * s, t2 * t2],
            cubic: [s2 * s, t * s2, t2 * s, t2 * t],
        }
    }
}

/// The rule with `m ≥ 1` nodes, exact for polynomials of degree `2m - 1`. Cost O(m²) once.
// Our own, measured against 40 digits: nodes are right to half an ulp of 1, and weights sum to 1 within two,
// for m to 500. The crate gauss-quad 0.3.2 is as good for Legendre's rules, but not for Jacobi's: for odd m
// it puts the middle node at 0, off by up to 0.36.
fn gauss_legendre(m: usize) -> Vec<Node> {
    let mut nodes = Vec::with_capacity(m);
    for k in 0..m {
        // Newton's method on the Legendre polynomial from Tricomi's estimate; symmetric nodes are mirrored.
        let mirrored = k >= m.div_ceil(2);
        let index = if mirrored { m - 1 - k } else { k };
        let n = m as f64;
        let theta = std::f64::consts::PI * (index as f64 + 0.75) / (n + 0.5);
        let mut x = (1.0 - (n - 1.0) / (8.0 * n * n * n)) * theta.cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut previous, mut current) = (1.0, x);
            for j in 2..=m {
                let j = j as f64;
                (previous, current) = (current, ((2.0 * j - 1.0) * x * current - (j - 1.0) * previous) / j);
            }
            slope = if m == 1 { 1.0 } else { n * (x * current - previous) / (x * x - 1.0) };
            let step = current / slope;
            x -= step;
            if step.abs() < 1e-16 {
                break;
            }
        }
        let weight = 1.0 / ((1.0 - x * x) * slope * slope);
        let t = if mirrored { 0.5 * (1.0 - x) } else { 0.5 * (1.0 + x) };
        nodes.push(Node::new(t, 1.0 - t, weight));
    }
    nodes
}

/// The Gauss–Legendre rule with `m` nodes, kept for good.
fn rule(m: usize) -> &'static [Node] {
    static RULES: [OnceLock<Vec<Node>>; TABULATED + 1] = [const { OnceLock::new() }; TABULATED + 1];
    static LONG: OnceLock<Mutex<BTreeMap<usize, &'static [Node]>>> = OnceLock::new();
    if m <= TABULATED {
        return RULES[m].get_or_init(|| gauss_legendre(m));
    }
    // Rules this long serve a handful of sizes in a process; they are kept for good.
    let mut long = LONG.get_or_init(Default::default).lock().unwrap_or_else(|e| e.into_inner());
    long.entry(m).or_insert_with(|| gauss_legendre(m).leak())
}

/// A rule, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleChoice {
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// Bound on the quadrature error, relative to `M`.
    pub(crate) quadrature: f64,
    /// Bound on the mass `Σ_l |a_l - b_l| / max(|a_l|, |b_l|)`.
    pub(crate) mass: f64,
}

/// The mass is at most this times `ln(P(τ₀)/M)`: a factor's share of it is at most 2, so by concavity
/// `ln(1 + τ₀ c) ≥ c ln(1 + 2 τ₀) / 2`.
pub(crate) const MASS: f64 = 16.981;

/// Entry m: the largest `P(τ₀)/M` for which m nodes err by at most [`TOLERANCE`]` · M`, and the largest mass
/// that goes with it.
fn error_limits() -> &'static [(f64, f64)] {
    static LIMITS: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    LIMITS.get_or_init(|| {
        limits_where(|m, rho| {
            let nodes = m as f64;
            let kappa = 2.0 * (1.0 + 1.0 / (4.0 * nodes * nodes - 1.0));
            kappa / (1.0 - rho.powi(-2))
        })
    })
}

/// Limits for the Gauss rules of any measure whose mass is 1: m nodes have an error of at most `4 ρ^{-2m} /
/// (1 - 1/ρ) P(τ)`, as both they and the measure integrate each Chebyshev polynomial from degree 2m on to at
/// most 1, and its coefficients are at most `2 ρ^{-k} P(τ)`.
fn limits_of_any() -> &'static [(f64, f64)] {
    static LIMITS: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    LIMITS.get_or_init(|| limits_where(|_, rho| 4.0 / (1.0 - 1.0 / rho)))
}

/// The limits where m nodes err by at most `constant(m, ρ) ρ^{-2m} P(τ)`.
fn limits_where(constant: impl Fn(usize, f64) -> f64) -> Vec<(f64, f64)> {
    let limit = |m: usize| {
        // Any ρ gives a valid bound, so a grid over ρ loses sharpness, never truth.
        (1..4000)
            .map(|k| (k as f64 * 0.005).exp())
            .map(|rho: f64| (rho, (rho + 1.0 / rho - 2.0) / 4.0))
            .filter(|(_, tau)| *tau >= ERROR_TAU)
            .map(|(rho, tau)| ((TOLERANCE / constant(m, rho)).ln() + 2.0 * m as f64 * rho.ln()) / tau)
            .fold(0.0, f64::max)
    };
    let mass = |effective: f64| MASS * ERROR_TAU * effective;
    (0..=TABULATED)
        .map(|m| if m == 0 { 0.0 } else { limit(m) })
        .map(|effective| ((ERROR_TAU * effective).exp(), mass(effective)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_integrate_polynomials() {
        for m in [1, 2, 3, 5, 8, 25, 64, 200, 700] {
            let nodes = rule(m);
            assert_eq!(nodes.len(), m);
            let total: f64 = nodes.iter().map(|n| n.weight).sum();
            assert!((total - 1.0).abs() < 1e-13, "m={m}: {total}");
            // ∫ t^i (1-t)^{3-i} dt = i! (3-i)! / 4!; the rule is exact from m = 2 on.
            if m > 1 {
                for (i, truth) in [0.25, 1.0 / 12.0, 1.0 / 12.0, 0.25].into_iter().enumerate() {
                    let value: f64 = nodes.iter().map(|n| n.weight * n.cubic[i]).sum();
                    assert!((value - truth).abs() < 1e-14, "m={m} i={i}: {value}");
                }
            }
        }
    }

    /// With d equal players: ∫ ((1-t) + t a)^{d-1} dt = (1 + a + … + a^{d-1}) / d.
    #[test]
    fn node_counts_keep_their_promise() {
        for d in [3, 10, 40, 200, 1000] {
            for mass in [0.01, 0.5, 2.0, 8.0, 30.0, 100.0, 400.0] {
                if mass >= d as f64 {
                    continue;
                }
                let a: f64 = 1.0 - mass / d as f64;
                let ratio = (1.0 + ERROR_TAU * (1.0 - a)).powi(d);
                let m = InclusionMeasure::Lebesgue.choices(d as usize).choose(ratio).nodes;
                // A node itself is not kept.
                let nodes = rule(m).iter().map(|n| (n.weight, n.cubic[3].cbrt()));
                let value: f64 = nodes.map(|(w, t)| w * (1.0 - t + t * a).powi(d - 1)).sum();
                let truth = (0..d).map(|k| a.powi(k)).sum::<f64>() / f64::from(d);
                assert!(
                    (value - truth).abs() < 2e-15 + 4.0 * f64::from(d) * f64::EPSILON * truth,
                    "{d} {mass} {m}"
                );
            }
        }
    }

    #[test]
    fn mass_decides_and_the_exact_rule_caps() {
        let choose = |ratio, players| InclusionMeasure::Lebesgue.choices(players).choose(ratio).nodes;
        assert_eq!(choose(1e300, 10), 5);
        let nodes = |mass: f64| choose((ERROR_TAU * mass).exp(), 100_000);
        assert!(
            nodes(1.0) <= 8 && nodes(14.0) <= 16 && nodes(77.0) <= 31 && nodes(210.0) <= 50,
            "{} {} {} {}",
            nodes(1.0),
            nodes(14.0),
            nodes(77.0),
            nodes(210.0)
        );
    }
}

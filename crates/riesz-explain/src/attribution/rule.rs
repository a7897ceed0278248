//! Inclusion measures on [0, 1], their quadrature rules, and the number of nodes that a block of product
//! games needs.
//!
//! For the uniform measure the rules are Gauss–Legendre rules. For the product `F(t) = Π_l ((1-t) b_l + t
//! a_l)` over factors l, let `M = Π_l max(|a_l|, |b_l|)` and `P(τ) = Π_l (max(|a_l|, |b_l|) + τ |a_l -
//! b_l|)`. On the Bernstein ellipse of parameter ρ > 1 around [0, 1], `|F| ≤ P(τ)` with `τ = (ρ + 1/ρ -
//! 2)/4`. Therefore m nodes have an error of at most `κ_m ρ^{-2m} / (1 - ρ^{-2}) P(τ)` with `κ_m = 2 (1 +
//! 1/(4m² - 1))` (Trefethen, *Approximation Theory and Approximation Practice*, theorem 19.3, halved for the
//! shorter interval).
//!
//! `ln(P(τ)/M)/τ` decreases with τ, hence `P(τ)/M ≤ (P(τ₀)/M)^{τ/τ₀}` for every `τ ≥ τ₀`. One product at the
//! fixed τ₀ = `ERROR_TAU` thus bounds the error on all ellipses, without a division or a logarithm per
//! factor. The number of nodes depends on `ln(P(τ₀)/M)/τ₀` only, which is at most the mass `Σ_l |a_l - b_l| /
//! max(|a_l|, |b_l|)`. Leaving out factors only decreases it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::jacobi::gauss_jacobi;

/// Parameter τ₀ of the error bound in the documentation of this module.
pub(crate) const ERROR_TAU: f64 = 0.0625;

/// Upper bound on quadrature errors, relative to `M`.
const TOLERANCE: f64 = 1e-16;

/// Rules with up to this number of nodes are tabulated with their limits; for more nodes, only exact rules
/// are used.
const TABULATED: usize = 512;

/// Distribution on [0, 1] of the probability t with which each other player is present. A player's value is
/// its mean marginal contribution to the present players: a semivalue (Dubey, Neyman and Weber 1981).
#[derive(Debug, Clone, Default)]
pub enum InclusionMeasure {
    /// The uniform distribution, for Shapley values (Owen 1972).
    #[default]
    Uniform,
    /// A discrete distribution: nodes t with weights; a single node for Banzhaf values.
    Discrete(Arc<[Node]>),
    /// A Beta distribution.
    Beta(Arc<Jacobi>),
}

impl InclusionMeasure {
    /// The point mass at t in [0, 1].
    pub fn point(t: f64) -> Self {
        Self::discrete(&[[t, 1.0]])
    }

    /// The discrete distribution on points t in [0, 1] with weights that sum to 1.
    pub(crate) fn discrete(weighted_points: &[[f64; 2]]) -> Self {
        Self::Discrete(weighted_points.iter().map(|&[t, weight]| Node::new(t, 1.0 - t, weight)).collect())
    }

    /// The Beta distribution, whose density is proportional to `t^(first - 1) (1 - t)^(second - 1)`, for
    /// positive parameters.
    pub(crate) fn beta(first: f64, second: f64) -> Self {
        if first == 1.0 && second == 1.0 {
            Self::Uniform
        } else {
            Self::Beta(Arc::new(Jacobi { shape: [first, second], rules: RuleStore::new() }))
        }
    }

    /// The rule with `m ≥ 1` nodes.
    pub(crate) fn rule(&self, m: usize) -> &[Node] {
        match self {
            Self::Uniform => rule(m),
            Self::Discrete(nodes) => nodes,
            Self::Beta(rules) => rules.rule(m),
        }
    }

    /// The rules to choose from for products of `players` factors with one factor left out.
    pub(crate) fn candidate_rules(&self, players: usize) -> RuleTable {
        let half_count = players.div_ceil(2).max(1);
        let (nodes, limits) = match self {
            Self::Uniform => (half_count, error_limits()),
            Self::Beta(_) => (half_count, limits_of_any()),
            // A discrete distribution is its own exact rule.
            Self::Discrete(nodes) => (nodes.len(), &[][..]),
        };
        RuleTable {
            exact: RuleChoice { nodes, quadrature_error: 0.0, mass: 2.0 * players as f64 },
            error_limits: limits,
        }
    }
}

/// Quadrature rules to choose from.
#[derive(Clone, Copy)]
pub(crate) struct RuleTable {
    /// The exact rule.
    pub(crate) exact: RuleChoice,
    error_limits: &'static [(f64, f64)],
}

impl RuleTable {
    /// The smallest rule that is accurate for blocks whose `P(τ₀)/M` is at most `ratio`.
    #[inline(always)]
    pub(crate) fn smallest_accurate(&self, ratio: f64) -> RuleChoice {
        // Most games need few nodes: search from below.
        for (nodes, &(limit, mass)) in self.error_limits.iter().enumerate().take(self.exact.nodes).skip(1) {
            if ratio <= limit {
                return RuleChoice { nodes, quadrature_error: TOLERANCE, mass };
            }
        }
        self.exact
    }
}

/// Gauss rules of one distribution by their number of nodes, computed on first use.
#[derive(Debug)]
struct RuleStore {
    short: [OnceLock<Vec<Node>>; TABULATED + 1],
    /// Rules with more nodes, which are never freed.
    long: Mutex<BTreeMap<usize, &'static [Node]>>,
}

impl RuleStore {
    const fn new() -> Self {
        Self { short: [const { OnceLock::new() }; TABULATED + 1], long: Mutex::new(BTreeMap::new()) }
    }

    fn rule(&self, m: usize, make: impl FnOnce() -> Vec<Node>) -> &[Node] {
        match self.short.get(m) {
            Some(rule) => rule.get_or_init(make),
            None => {
                let mut long = self.long.lock().unwrap_or_else(|e| e.into_inner());
                long.entry(m).or_insert_with(|| make().leak())
            }
        }
    }
}

/// Gauss rules of a Beta distribution.
#[derive(Debug)]
pub struct Jacobi {
    shape: [f64; 2],
    rules: RuleStore,
}

impl Jacobi {
    fn rule(&self, m: usize) -> &[Node] {
        let [first, second] = self.shape;
        let node = |[t, s, weight]: [f64; 3]| Node::new(t, s, weight);
        self.rules.rule(m, || gauss_jacobi(m, first, second).into_iter().map(node).collect())
    }
}

/// One node of a rule, with the powers by which the engine multiplies.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// The node t.
    pub t: f64,
    /// `1 - t`.
    pub s: f64,
    /// Weight of the node.
    pub weight: f64,
    /// `t^i (1-t)^{4-i}`.
    pub quartic: [f64; 5],
    /// `t^i (1-t)^{3-i}`.
    pub cubic: [f64; 4],
}

impl Node {
    /// The node at t, with `s = 1 - t`.
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

/// The Gauss–Legendre rule with `m ≥ 1` nodes, exact for polynomials of degree `2m - 1`. Cost O(m²).
// Compared with 40 digits for m up to 500, nodes are accurate to half an ulp of 1, and weights sum to 1
// within two ulps. The crate gauss-quad 0.3.2 is as accurate for Legendre rules. Its Jacobi rules with odd m
// have the middle node at 0, with an error of up to 0.36.
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

/// The Gauss–Legendre rule with `m` nodes, computed once per process.
fn rule(m: usize) -> &'static [Node] {
    static RULES: RuleStore = RuleStore::new();
    RULES.rule(m, || gauss_legendre(m))
}

/// A quadrature rule with its error bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleChoice {
    /// Number of nodes.
    pub(crate) nodes: usize,
    /// Bound on the quadrature error, relative to `M`.
    pub(crate) quadrature_error: f64,
    /// Bound on the mass `Σ_l |a_l - b_l| / max(|a_l|, |b_l|)`.
    pub(crate) mass: f64,
}

/// Factor in the bound `mass ≤ MASS · ln(P(τ₀)/M)`. A factor contributes c ≤ 2 to the mass, and by concavity
/// `ln(1 + τ₀ c) ≥ c ln(1 + 2 τ₀) / 2`.
pub(crate) const MASS: f64 = 16.981;

/// Limits of the Gauss–Legendre rules. Entry m holds the largest `P(τ₀)/M` for which m nodes have an error of
/// at most [`TOLERANCE`]` · M`, and a bound on the mass at this limit.
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

/// Limits of the Gauss rules of any probability measure. Here m nodes have an error of at most `4 ρ^{-2m} /
/// (1 - 1/ρ) P(τ)`. The reason is that the rule and the measure both integrate each Chebyshev polynomial of
/// degree k ≥ 2m to at most 1, and that its coefficient is at most `2 ρ^{-k} P(τ)`.
fn limits_of_any() -> &'static [(f64, f64)] {
    static LIMITS: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    LIMITS.get_or_init(|| limits_where(|_, rho| 4.0 / (1.0 - 1.0 / rho)))
}

/// Limits of rules whose error with m nodes is at most `constant(m, ρ) ρ^{-2m} P(τ)`.
fn limits_where(constant: impl Fn(usize, f64) -> f64) -> Vec<(f64, f64)> {
    let limit = |m: usize| {
        // Every ρ gives a valid bound, so a grid over ρ makes the limits at worst too cautious.
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
    fn node_counts_bound_the_quadrature_error() {
        for d in [3, 10, 40, 200, 1000] {
            for mass in [0.01, 0.5, 2.0, 8.0, 30.0, 100.0, 400.0] {
                if mass >= d as f64 {
                    continue;
                }
                let a: f64 = 1.0 - mass / d as f64;
                let ratio = (1.0 + ERROR_TAU * (1.0 - a)).powi(d);
                let m = InclusionMeasure::Uniform.candidate_rules(d as usize).smallest_accurate(ratio).nodes;
                // The cube root of t³.
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
    fn node_counts_grow_with_the_mass_up_to_the_exact_rule() {
        let count = |ratio, players| {
            InclusionMeasure::Uniform.candidate_rules(players).smallest_accurate(ratio).nodes
        };
        assert_eq!(count(1e300, 10), 5);
        let nodes = |mass: f64| count((ERROR_TAU * mass).exp(), 100_000);
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

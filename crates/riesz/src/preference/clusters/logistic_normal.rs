//! Expectations of logistic functions under a normal distribution, by quadrature.

use std::sync::LazyLock;

/// Expectations of logistic functions of `g ~ N(m, v)`.
pub(super) struct LogisticNormalMoments {
    /// The expectation of log σ(g).
    pub log_probability: f64,
    /// The expectation of σ(g).
    pub probability: f64,
    /// The expectation of σ(g) σ(-g), minus the second derivative of log σ.
    pub curvature: f64,
}

/// The distance of nodes, in standard deviations, and the number of nodes on each side of the mean.
const STEP: f64 = 0.5;
const NODES_PER_SIDE: i32 = 12;

/// Nodes and weights of the trapezoidal rule against a standard normal density. It converges exponentially
/// for functions that are analytic around the real line (Trefethen and Weideman 2014). The poles of σ have a
/// distance of π, so errors are of the order of `exp(-2π² / 0.5 sd)`: 3e-9 for a standard deviation of 2,
/// 4e-4 for one of 5.
static RULE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    let node = |k: i32| f64::from(k) * STEP;
    let total: f64 = (-NODES_PER_SIDE..=NODES_PER_SIDE).map(|k| (-0.5 * node(k) * node(k)).exp()).sum();
    (-NODES_PER_SIDE..=NODES_PER_SIDE).map(|k| (node(k), (-0.5 * node(k) * node(k)).exp() / total)).collect()
});

/// Returns the expectations. Cost 25 evaluations of σ.
pub(super) fn moments(m: f64, v: f64) -> LogisticNormalMoments {
    let sd = v.max(0.0).sqrt();
    let mut out = LogisticNormalMoments { log_probability: 0.0, probability: 0.0, curvature: 0.0 };
    for &(node, weight) in RULE.iter() {
        let g = m + sd * node;
        // With e = exp(-|g|), all three are numerically stable.
        let e = (-g.abs()).exp();
        let smaller = e / (1.0 + e);
        out.log_probability += weight * (g.min(0.0) - e.ln_1p());
        out.probability += weight * if g < 0.0 { smaller } else { 1.0 - smaller };
        out.curvature += weight * smaller * (1.0 - smaller);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moments equal sums over a fine grid.
    #[test]
    fn moments_equal_integrals() {
        for (m, sd) in [(0.0, 0.0), (0.7, 0.3), (-2.0, 1.0), (3.0, 2.0), (-40.0, 0.1)] {
            let integral = |f: &dyn Fn(f64) -> f64| -> f64 {
                let nodes = (-40_000..=40_000).map(|k| f64::from(k) * 2.5e-4);
                let weight = |z: f64| (-0.5 * z * z).exp() * 2.5e-4 / std::f64::consts::TAU.sqrt();
                nodes.map(|z| weight(z) * f(m + sd * z)).sum()
            };
            let sigma = |g: f64| 1.0 / (1.0 + (-g).exp());
            let actual = moments(m, sd * sd);
            assert!((actual.log_probability - integral(&|g| -((-g).exp().ln_1p()))).abs() < 1e-7);
            assert!((actual.probability - integral(&sigma)).abs() < 1e-7);
            assert!((actual.curvature - integral(&|g| sigma(g) * sigma(-g))).abs() < 1e-7);
        }
    }
}

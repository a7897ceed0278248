//! Density over t by which the interaction of a set is averaged, for each set size: point masses, and
//! densities that are polynomials. All sizes share one quadrature rule.

use std::sync::Arc;

use super::rule::{InclusionMeasure, RuleChoice};

/// A distribution of t on [0, 1] with mass 1, whose density may change sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SizeWeighting {
    /// A point mass at t.
    At(f64),
    /// The uniform distribution.
    Uniform,
    /// The density `k (1 - t)^(k-1)` of the time t at which the first of k players joins in a random order.
    First(usize),
    /// The density of sets of `size` players in the faithful Shapley index, see `faithful_density`.
    Faithful {
        /// Size of the set.
        size: usize,
        /// Size of the largest sets of the index.
        order: usize,
    },
}

impl SizeWeighting {
    /// The density at t, with `s = 1 - t`; `None` for a point mass.
    fn density(self, t: f64, s: f64) -> Option<f64> {
        match self {
            Self::At(_) => None,
            Self::Uniform => Some(1.0),
            Self::First(k) => Some(k as f64 * s.powi(k as i32 - 1)),
            Self::Faithful { size, order } => Some(faithful_density(size, order, t, s)),
        }
    }

    /// The degree of the density.
    fn degree(self) -> usize {
        match self {
            Self::At(_) | Self::Uniform => 0,
            Self::First(k) => k - 1,
            Self::Faithful { size, order } => size + order - 2,
        }
    }

    /// A bound on |density| that is at least 1.
    fn largest(self) -> f64 {
        match self {
            Self::At(_) | Self::Uniform => 1.0,
            Self::First(k) => k as f64,
            // By Markov's inequality, a polynomial exceeds its largest value on a grid as fine as this by at
            // most a twentieth of its largest value.
            Self::Faithful { size, order } => {
                let steps = 20 * self.degree().pow(2);
                let density_at = |k: usize| {
                    faithful_density(size, order, k as f64 / steps as f64, 1.0 - k as f64 / steps as f64)
                };
                (0..=steps).map(|k| 1.06 * density_at(k).abs()).fold(1.0, f64::max)
            }
        }
    }
}

/// Density by which the faithful Shapley index of this order averages interactions of `size` players (Tsai,
/// Yeh and Ravikumar 2023, theorem 19). The index weights m(S), with s = |S| > order, by `(-1)^(order - size)
/// size/(order + size) C(order, size) C(s - 1, order) / C(s + order - 1, order + size)`, and by 0 for `size <
/// s ≤ order`. This weight equals `∫ t^(s - size) ρ(t) dt` for the density ρ that makes tρ orthogonal to all
/// polynomials of a degree less than `order - size`. Hence ρ is `t^(size-1) (1-t)^(size-1)` times the Jacobi
/// polynomial of degree `order - size` for the density `t^size (1-t)^(size-1)`, scaled to mass 1.
fn faithful_density(size: usize, order: usize, t: f64, s: f64) -> f64 {
    let (n, alpha, beta) = (order - size, size - 1, size);
    let terms = |term: &dyn Fn(usize) -> f64| -> f64 {
        (0..=n)
            .map(|k| {
                let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
                sign * binomial(n + alpha, n - k) * binomial(n + beta, k) * term(k)
            })
            .sum()
    };
    let powers = |k: usize| t.powi((n - k + size - 1) as i32) * s.powi((k + size - 1) as i32);
    // ∫ t^a (1-t)^b dt = a! b! / (a + b + 1)!
    let integral = |k: usize| {
        let (a, b) = (n - k + size - 1, k + size - 1);
        1.0 / ((a + b + 1) as f64 * binomial(a + b, a))
    };
    terms(&powers) / terms(&integral)
}

/// The binomial coefficient C(n, k).
pub(crate) fn binomial(n: usize, k: usize) -> f64 {
    if k > n { 0.0 } else { (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64) }
}

/// One node of a rule that several weightings share.
#[derive(Debug, Clone)]
pub(crate) struct SharedNode {
    /// The node t, and `s = 1 - t`.
    pub(crate) t: f64,
    pub(crate) s: f64,
    /// Weight for each set size, from 1.
    pub(crate) weights: Vec<f64>,
}

/// Weightings of interactions for each set size.
#[derive(Debug, Clone)]
pub struct SizeWeightings {
    sizes: Vec<SizeWeighting>,
    /// For each set size, a bound on |density|, including the effect of rounding t.
    pub(crate) heights: Vec<f64>,
}

impl SizeWeightings {
    /// Weightings of sets of 1, 2, … players.
    pub fn new(sizes: Vec<SizeWeighting>) -> Self {
        // By Markov's inequality, the derivative of a density is at most twice the square of its degree times
        // its largest value.
        let height = |a: &SizeWeighting| a.largest() * (1.0 + (a.degree() * a.degree()) as f64 / 12.0);
        let heights = sizes.iter().map(height).collect();
        Self { sizes, heights }
    }

    /// The size of the largest sets.
    pub(crate) fn order(&self) -> usize {
        self.sizes.len()
    }

    /// The weighting of the largest sets alone.
    pub(crate) fn of_largest(&self) -> Self {
        Self::new(self.sizes.last().copied().into_iter().collect())
    }

    /// Whether all weightings are point masses.
    pub(crate) fn is_point(&self) -> bool {
        self.sizes.iter().all(|average| matches!(average, SizeWeighting::At(_)))
    }

    /// The rule for blocks for which `choice` is accurate under a uniform weighting. The other densities are
    /// bounded. They reach the same accuracy relative to their bound with additional nodes, half as many as
    /// their degree. The reason is that on an ellipse of parameter ρ, a polynomial of degree q is at most
    /// `ρ^q` times its largest value on [0, 1].
    pub(crate) fn rule(&self, choice: &RuleChoice) -> Vec<SharedNode> {
        let degree = self.sizes.iter().map(|average| average.degree()).max().unwrap_or(0);
        let order = self.order();
        let mut out: Vec<SharedNode> = Vec::new();
        for (size, average) in self.sizes.iter().enumerate() {
            let SizeWeighting::At(t) = *average else { continue };
            let position = out.iter().position(|node| node.t == t).unwrap_or_else(|| {
                out.push(SharedNode { t, s: 1.0 - t, weights: vec![0.0; order] });
                out.len() - 1
            });
            out[position].weights[size] = 1.0;
        }
        if self.sizes.iter().any(|average| !matches!(average, SizeWeighting::At(_))) {
            let nodes = InclusionMeasure::Uniform;
            out.extend(nodes.rule(choice.nodes + degree.div_ceil(2)).iter().map(|node| {
                let weight =
                    |average: &SizeWeighting| node.weight * average.density(node.t, node.s).unwrap_or(0.0);
                SharedNode { t: node.t, s: node.s, weights: self.sizes.iter().map(weight).collect() }
            }));
        }
        out
    }
}

/// Rules that have been requested, by the number of nodes.
pub(crate) struct RuleCache<'a> {
    /// The weightings that the cached rules belong to.
    pub(crate) averages: &'a SizeWeightings,
    cached: Vec<Option<Arc<[SharedNode]>>>,
}

impl<'a> RuleCache<'a> {
    pub(crate) fn new(averages: &'a SizeWeightings) -> Self {
        Self { averages, cached: Vec::new() }
    }

    /// The cached [`SizeWeightings::rule`].
    pub(crate) fn rule(&mut self, choice: &RuleChoice) -> Arc<[SharedNode]> {
        if self.cached.len() <= choice.nodes {
            self.cached.resize(choice.nodes + 1, None);
        }
        let averages = self.averages;
        self.cached[choice.nodes].get_or_insert_with(|| averages.rule(choice).into()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The densities give the weights of m(S) in the theorem.
    #[test]
    fn faithful_densities_give_the_published_weights() {
        for order in 2..=8_usize {
            for size in 1..=order {
                let sign = if (order - size) % 2 == 0 { 1.0 } else { -1.0 };
                for s in size..20 {
                    let rule = InclusionMeasure::Uniform;
                    let integrand = |n: &super::super::rule::Node| {
                        n.weight * faithful_density(size, order, n.t, n.s) * n.t.powi((s - size) as i32)
                    };
                    let actual: f64 = rule.rule(24).iter().map(integrand).sum();
                    let published = if s <= order {
                        f64::from(u8::from(s == size))
                    } else {
                        sign * size as f64 / (order + size) as f64
                            * binomial(order, size)
                            * binomial(s - 1, order)
                            / binomial(s + order - 1, order + size)
                    };
                    assert!((actual - published).abs() < 1e-9, "{order} {size} {s}: {actual} {published}");
                }
            }
        }
        assert!((faithful_density(1, 2, 0.3, 0.7) - 2.2).abs() < 1e-14);
        assert!((faithful_density(2, 2, 0.3, 0.7) - 6.0 * 0.21).abs() < 1e-14);
    }
}

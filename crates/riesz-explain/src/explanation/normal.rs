//! Univariate and bivariate normal probabilities, for the probability that one value exceeds another.

use statrs::distribution::ContinuousCDF;

use crate::attribution::rule::{InclusionMeasure, Node};

/// P(Z ≤ x) for a standard normal Z.
pub(super) fn cdf(x: f64) -> f64 {
    // The complementary error function keeps the digits of small tails. The function of statrs 0.19 is
    // accurate to ten digits only.
    libm::erfc(-x / std::f64::consts::SQRT_2) / 2.0
}

/// The number z with P(Z ≤ z) = p for a standard normal Z.
pub fn quantile(p: f64) -> f64 {
    statrs::distribution::Normal::standard().inverse_cdf(p)
}

/// P(X > 0) for a normal X; 1/2 if X is 0 with certainty.
pub fn positive(mean: f64, sd: f64) -> f64 {
    match () {
        () if sd > 0.0 => cdf(mean / sd),
        () if mean == 0.0 => 0.5,
        () => f64::from(u8::from(mean > 0.0)),
    }
}

/// P(X Y > 0) for jointly normal X and Y with these means, variances and covariance.
pub(super) fn same_sign(means: [f64; 2], variances: [f64; 2], covariance: f64) -> f64 {
    let sd = variances.map(|v| v.max(0.0).sqrt());
    if sd.contains(&0.0) {
        let [p, q] = [0, 1].map(|k| positive(means[k], sd[k]));
        return p * q + (1.0 - p) * (1.0 - q);
    }
    let [h, k] = [0, 1].map(|j| means[j] / sd[j]);
    let correlation = (covariance / (sd[0] * sd[1])).clamp(-1.0, 1.0);
    (above(-h, -k, correlation) + above(h, k, correlation)).clamp(0.0, 1.0)
}

/// P(X > h, Y > k) for standard normal X and Y with correlation r, to about 1e-15. Source: Drezner and
/// Wesolowsky 1990, with the correction of Genz 2004 for correlations near 1.
fn above(h: f64, k: f64, r: f64) -> f64 {
    const TURN: f64 = 2.0 * std::f64::consts::PI;
    let nodes = InclusionMeasure::Uniform.rule(20);
    if r.abs() < 0.925 {
        let (mean_square, angle) = ((h * h + k * k) / 2.0, r.asin());
        let term = |Node { t, weight, .. }: &Node| {
            let s = (angle * t).sin();
            weight * ((s * h * k - mean_square) / (1.0 - s * s)).exp()
        };
        return nodes.iter().map(term).sum::<f64>() * angle / TURN + cdf(-h) * cdf(-k);
    }
    // Expansion around the limit r = 1 or r = -1.
    let k = if r < 0.0 { -k } else { k };
    let hk = h * k;
    let mut expansion = 0.0;
    if r.abs() < 1.0 {
        let one_minus_square = (1.0 - r) * (1.0 + r);
        let (a, squared_difference) = (one_minus_square.sqrt(), (h - k) * (h - k));
        let (c, d) = ((4.0 - hk) / 8.0, (12.0 - hk) / 16.0);
        let power = -(squared_difference / one_minus_square + hk) / 2.0;
        if power > -100.0 {
            expansion = a
                * power.exp()
                * (1.0
                    - c * (squared_difference - one_minus_square) * (1.0 - d * squared_difference / 5.0)
                        / 3.0
                    + c * d * one_minus_square * one_minus_square / 5.0);
        }
        if -hk < 100.0 {
            let b = squared_difference.sqrt();
            expansion -= (-hk / 2.0).exp()
                * TURN.sqrt()
                * cdf(-b / a)
                * b
                * (1.0 - c * squared_difference * (1.0 - d * squared_difference / 5.0) / 3.0);
        }
        let term = |Node { t, weight, .. }: &Node| {
            let x = (a * t) * (a * t);
            let (root, power) = ((1.0 - x).sqrt(), -(squared_difference / x + hk) / 2.0);
            if power <= -100.0 {
                return 0.0;
            }
            let exact = (-hk * x / (2.0 * (1.0 + root) * (1.0 + root))).exp() / root;
            a * weight * power.exp() * (exact - (1.0 + c * x * (1.0 + d * x)))
        };
        expansion = -(expansion + nodes.iter().map(term).sum::<f64>()) / TURN;
    }
    if r > 0.0 {
        expansion + cdf(-h.max(k))
    } else if k > h {
        // The difference of the smaller tails keeps more digits.
        (if h < 0.0 { cdf(k) - cdf(h) } else { cdf(-h) - cdf(-k) }) - expansion
    } else {
        -expansion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quadrant probabilities agree with closed forms, and with adaptive quadrature with 40 digits (mpmath).
    #[test]
    fn quadrant_probabilities_agree_with_closed_forms() {
        for r in [-1.0, -0.99, -0.93, -0.5, 0.0, 0.3, 0.92, 0.93, 0.999, 1.0_f64] {
            let origin = 0.25 + r.asin() / (2.0 * std::f64::consts::PI);
            assert!((above(0.0, 0.0, r) - origin).abs() < 1e-15, "{r}");
            for (h, k) in [(0.3, -1.2), (2.0, 1.9), (-0.7, 0.7), (-3.0, -2.5)] {
                // The four quadrants have probability 1 together; two of them have the correlation -r.
                let total = above(h, k, r) + above(-h, k, -r) + above(h, -k, -r) + above(-h, -k, r);
                assert!((total - 1.0).abs() < 1e-14, "{h} {k} {r}: {total}");
            }
        }
        for (h, k, r, truth) in KNOWN {
            assert!((above(h, k, r) - truth).abs() < 2e-15, "{h} {k} {r}: {} {truth}", above(h, k, r));
        }
    }

    #[test]
    fn probabilities_without_variance_are_zero_or_one() {
        assert_eq!([positive(1.0, 0.0), positive(-1.0, 0.0), positive(0.0, 0.0)], [1.0, 0.0, 0.5]);
        assert_eq!(same_sign([1.0, -2.0], [0.0, 0.0], 0.0), 0.0);
        assert!((same_sign([1.0, -2.0], [0.0, 4.0], 0.0) - cdf(-1.0)).abs() < 1e-15);
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-12);
    }

    const KNOWN: [(f64, f64, f64, f64); 8] = [
        (0.5, -0.25, 0.5, 0.25237404372665647),
        (1.5, 1.25, -0.75, 3.4496218936109383e-6),
        (-2.0, 0.5, 0.9375, 0.30853753872597567),
        (0.75, 0.8125, 0.984375, 0.19541353921786504),
        (-1.0, 1.25, -0.96875, 0.004407152033484877),
        (2.5, -3.0, -0.9990234375, 0.00485976729414604),
        (0.25, 0.25, 0.9999847412109375, 0.40044150875515827),
        (4.0, 3.5, 0.875, 2.0421731831628136e-5),
    ];
}

//! Radial functions as sums of Gaussians with a proved error.
//!
//! Every radial kernel of all dimensions is a mixture of Gaussians, `F(s) = ∫ exp(-u s) dμ(u)` of the squared
//! distance s with a positive measure μ (Schoenberg 1938). A short sum `Σ_k w_k exp(-u_k s)` with weights
//! `w_k > 0` therefore approximates it well. Unlike F, each Gaussian is a product over the columns, so that
//! players' values under a radial kernel are sums of values under products.
//!
//! The largest error `|F - Σ_k w_k exp(-u_k s)|` is bounded by a proof, up to the rounding of F itself. Both
//! functions are decreasing, so that their values at a small and at a large s bound the error beyond these.
//! Between them, intervals `[a, 5a/3]` are considered. There both functions are analytic, and at most F(Re s)
//! and k(Re s) in size for complex s. So the error differs from a polynomial of degree 20 by at most
//! [`INTERPOLATION_ERROR`] (Trefethen 2013, theorem 8.2), and the largest absolute value of a polynomial
//! follows from its values at more Chebyshev points than its degree (Ehlich and Zeller 1964).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::ColumnRanges;
use super::mixture_fit::{Target, shortest_mixture};
use crate::linalg::{Matrix, symmetric_eigen};

/// A Gaussian `weight · exp(-rate s)` of the squared distance s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GaussianTerm {
    pub(super) weight: f64,
    pub(super) rate: f64,
}

/// A sum of Gaussians that approximates a radial function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GaussianMixture {
    pub(super) terms: Vec<GaussianTerm>,
    /// A bound on the absolute error for squared distances up to `max_square`.
    pub(super) error: f64,
    pub(super) max_square: f64,
}

/// The measure μ of a radial function: the distribution of the rate u.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MixingMeasure {
    /// `u = scale · t`, where t has the gamma distribution with this shape.
    Gamma { shape: f64, scale: f64 },
    /// `u = scale / t`, where t has the gamma distribution with this shape. Such functions decrease
    /// exponentially.
    InverseGamma { shape: f64, scale: f64 },
}

impl MixingMeasure {
    fn shape(self) -> f64 {
        let (Self::Gamma { shape, .. } | Self::InverseGamma { shape, .. }) = self;
        shape
    }

    fn rate(self, t: f64) -> f64 {
        match self {
            Self::Gamma { scale, .. } => scale * t,
            Self::InverseGamma { scale, .. } => scale / t,
        }
    }
}

/// A radial function whose mixing measure is known.
#[derive(Clone, Copy)]
pub(super) struct RadialMixture<'f> {
    /// The function of the squared distance; 1 at 0.
    pub(super) function: &'f dyn Fn(f64) -> f64,
    pub(super) measure: MixingMeasure,
    /// The number of roundings of the function, relative to its value.
    pub(super) rounding: f64,
    /// The name and the parameter, which identify the function.
    pub(super) identity: (&'static str, u64),
}

/// The number of points in an interval, and the largest absolute value of a polynomial of degree 20 relative
/// to that at the points, which is at most `1 / cos(π 20 / (2 POINTS))`.
const POINTS: usize = 80;
const BETWEEN_POINTS: f64 = 1.0824;

/// `4 M ρ^-20 / (ρ - 1)` with `M = 2.1` for the ellipse with `ρ = 6.854` around an interval `[a, 5a/3]`,
/// which reaches down to an eighth of the interval's centre.
const INTERPOLATION_ERROR: f64 = 3e-17;

/// The largest squared distance of functions that decrease exponentially, which is no restriction.
const UNBOUNDED: f64 = 1e60;

/// Squared distances up to which other functions are approximated at least.
const SMALLEST_RANGE: f64 = 2500.0;

/// The largest number of Gaussians.
const MAX_GAUSSIANS: usize = 1000;

/// From this shape on the gamma distribution is so concentrated that its Gauss rules are short.
const CONCENTRATED: f64 = 100.0;
const MAX_NODES: usize = 16;

/// The smallest tolerance. The rounding of sums of Gaussians is of the order of 1e-14.
pub(super) const MIN_TOLERANCE: f64 = 1e-12;

type MixtureKey = ((&'static str, u64), u64, i32);

/// The mixtures that have been computed so far. A mixture takes up to half a second.
static MIXTURES: LazyLock<Mutex<HashMap<MixtureKey, Option<Arc<GaussianMixture>>>>> =
    LazyLock::new(Mutex::default);

impl GaussianMixture {
    /// A short sum of Gaussians with an error of at most `tolerance`, rounded down to a power of ten from
    /// 1e-12 on, for squared distances up to at least `max_square`. `None` if the sum would be too long.
    pub(super) fn of_function(
        radial: RadialMixture<'_>,
        max_square: f64,
        tolerance: f64,
    ) -> Option<Arc<Self>> {
        let max_square = match radial.measure {
            MixingMeasure::InverseGamma { .. } => UNBOUNDED,
            // Powers of four, so that data of similar extent share their mixtures.
            MixingMeasure::Gamma { .. } if max_square > SMALLEST_RANGE => {
                4.0_f64.powf((max_square.min(UNBOUNDED).ln() / 4.0_f64.ln()).ceil())
            }
            MixingMeasure::Gamma { .. } => SMALLEST_RANGE,
        };
        let decade = (tolerance.clamp(MIN_TOLERANCE, 0.1).log10().floor() as i32).max(-12);
        let key = (radial.identity, max_square.to_bits(), decade);
        let known = MIXTURES.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let mixture = Self::new(radial, max_square, 10.0_f64.powi(decade)).map(Arc::new);
            MIXTURES.lock().unwrap_or_else(PoisonError::into_inner).insert(key, mixture.clone());
            mixture
        })
    }

    /// The shortest fit with an error of at most `tolerance`. If the fits do not reach this accuracy, a
    /// trapezoidal rule for the mixture's integral, which has several times more terms.
    fn new(radial: RadialMixture<'_>, max_square: f64, tolerance: f64) -> Option<Self> {
        let target = Target { function: radial.function, max_square, rounding: radial.rounding };
        let proved = |terms: Vec<GaussianTerm>| {
            let error = error_bound(&target, &terms, tolerance);
            (error <= tolerance).then_some(Self { terms, error, max_square })
        };
        if radial.measure.shape() >= CONCENTRATED {
            let rules = (1..=MAX_NODES).filter_map(|count| gauss_rule(radial.measure, count));
            if let Some(rule) = rules.filter_map(proved).next() {
                return Some(rule);
            }
        }
        // A function without a derivative at 0 takes more terms than the fits have.
        let is_rough = matches!(radial.measure, MixingMeasure::InverseGamma { shape, .. } if shape < 0.9);
        let fit =
            if is_rough && tolerance < 5e-9 { None } else { shortest_mixture(&target, tolerance, proved) };
        fit.or_else(|| Self::trapezoidal(radial.measure, &target, tolerance))
    }

    /// The trapezoidal rule in `ln t` with the largest step whose error is at most `tolerance`. The tail of
    /// small t is added to its last node. `None` if it has more than [`MAX_GAUSSIANS`] nodes, as for shapes
    /// near 0.
    fn trapezoidal(measure: MixingMeasure, target: &Target<'_>, tolerance: f64) -> Option<Self> {
        let shape = measure.shape();
        let log_density = |log_t: f64| shape * log_t - log_t.exp();
        let negligible = (0.3 * tolerance).ln() + log_density(shape.ln());
        // The mass below t is about t^shape / shape, that above it about the density.
        let start = (negligible + shape.ln()) / shape;
        let mut step = 1.0;
        loop {
            let nodes = (0..MAX_GAUSSIANS).map(|k| start + step * k as f64);
            let nodes: Vec<f64> =
                nodes.take_while(|log_t| *log_t < shape.ln() || log_density(*log_t) > negligible).collect();
            if nodes.len() == MAX_GAUSSIANS {
                return None;
            }
            let mut weights: Vec<f64> = nodes.iter().map(|log_t| log_density(*log_t).exp()).collect();
            // A geometric series: the terms below the first node.
            weights[0] /= 1.0 - (-shape * step).exp();
            let total: f64 = weights.iter().sum();
            let term = |(log_t, weight): (&f64, &f64)| GaussianTerm {
                weight: weight / total,
                rate: measure.rate(log_t.exp()),
            };
            let terms: Vec<GaussianTerm> = nodes.iter().zip(&weights).map(term).collect();
            let error = error_bound(target, &terms, tolerance);
            if error <= tolerance || step < 0.05 {
                return Some(Self { terms, error, max_square: target.max_square });
            }
            step *= 0.97;
        }
    }

    /// A bound on the absolute error up to the squared distance `square`, which may be beyond the range.
    /// There the function and the sum are at most as large as at the range's end.
    pub(super) fn error_up_to(&self, square: f64) -> f64 {
        if square <= self.max_square { self.error } else { self.error + sum(&self.terms, self.max_square) }
    }
}

/// A radial function of the distance over several columns, and its approximation.
#[derive(Debug, Clone)]
pub struct RadialFactor {
    pub(super) columns: Vec<usize>,
    pub(super) length_scales: Vec<f64>,
    pub(super) mixture: Arc<GaussianMixture>,
}

impl RadialFactor {
    /// For each Gaussian `weight · Π_j exp(-(u_j - v_j)² / (2 ℓ_j²))`, its weight and length scales `ℓ_j`.
    pub(super) fn gaussians(&self) -> impl Iterator<Item = (f64, Vec<f64>)> {
        self.mixture.terms.iter().map(|term| {
            let shrinkage = (2.0 * term.rate).sqrt();
            (term.weight, self.length_scales.iter().map(|l| l / shrinkage).collect())
        })
    }

    /// A bound on the error between rows in these ranges.
    pub(super) fn error(&self, ranges: &ColumnRanges) -> f64 {
        let columns = self.columns.iter().zip(&self.length_scales);
        let square = columns.map(|(&j, l)| (ranges.max_difference(j) / l).powi(2)).sum();
        self.mixture.error_up_to(square)
    }
}

/// The Gauss rule of the gamma distribution: nodes and weights are the eigenvalues, and the squares of the
/// eigenvectors' first entries, of the Jacobi matrix of the generalised Laguerre polynomials (Golub and
/// Welsch 1969). The mean is subtracted, so that large shapes do not round the differences away.
fn gauss_rule(measure: MixingMeasure, count: usize) -> Option<Vec<GaussianTerm>> {
    let shape = measure.shape();
    let entry = |i: usize, j: usize| match (i.min(j), i.abs_diff(j)) {
        (k, 0) => 2.0 * k as f64,
        (k, 1) => ((k + 1) as f64 * (k as f64 + shape)).sqrt(),
        _ => 0.0,
    };
    let (values, vectors) = symmetric_eigen(&Matrix::from_fn(count, count, entry)).ok()?;
    let term = |(k, value): (usize, &f64)| GaussianTerm {
        weight: vectors[(0, k)].powi(2),
        rate: measure.rate(shape + value),
    };
    Some(values.iter().enumerate().map(term).collect())
}

fn sum(terms: &[GaussianTerm], square: f64) -> f64 {
    terms.iter().map(|term| term.weight * (-term.rate * square).exp()).sum()
}

/// A bound on the absolute error of a sum of Gaussians; a part of `tolerance` decides where the intervals
/// begin and end.
fn error_bound(target: &Target<'_>, terms: &[GaussianTerm], tolerance: f64) -> f64 {
    let function = target.function;
    let sum = |s: f64| sum(terms, s);
    let at_zero = (function(0.0) - sum(0.0)).abs();
    // Both functions decrease.
    let near = |s: f64| (function(0.0) - sum(s)).max(sum(0.0) - function(s));
    let far = |s: f64| function(s).max(sum(s));
    let mut low = 1.0;
    while near(low) > at_zero + 0.02 * tolerance && low > 1e-60 {
        low *= 0.25;
    }
    let mut high = 1.0;
    while high < target.max_square && far(high) > 0.5 * tolerance && high < 1e60 {
        high *= 2.0;
    }
    let mut error = near(low);
    if high < target.max_square {
        error = error.max(far(high));
    }
    let points: Vec<f64> =
        (0..POINTS).map(|i| (std::f64::consts::PI * (i as f64 + 0.5) / POINTS as f64).cos()).collect();
    let end = high.min(target.max_square);
    let mut start = low.min(0.6 * end);
    loop {
        let (center, half) = (start * (4.0 / 3.0), start / 3.0);
        let error_at = |x: &f64| {
            let s = center + half * x;
            (function(s) - sum(s)).abs()
        };
        let largest = points.iter().map(error_at).fold(0.0, f64::max);
        error = error.max(BETWEEN_POINTS * (largest + INTERPOLATION_ERROR) + INTERPOLATION_ERROR);
        if start >= 0.6 * end {
            break;
        }
        start = (start * (5.0 / 3.0)).min(0.6 * end);
    }
    // Roundings of the sum and of the function, here and where the Gaussians are evaluated.
    error + (terms.len() as f64 + 20.0 + target.rounding) * f64::EPSILON
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::matern::MaternShape;
    use crate::kernel::stationary_functions::{
        CauchyShape, ExponentialShape, InverseMultiquadricShape, Matern32Shape, Matern52Shape,
        RadialFunction, RationalQuadraticShape,
    };
    use crate::simd::Plain;

    /// The mixture of a shape, and the largest error on a fine grid of squared distances.
    fn mixture(
        shape: impl RadialFunction,
        name: &'static str,
        tolerance: f64,
    ) -> (Arc<GaussianMixture>, f64) {
        let function = |s: f64| shape.at_squared_distance::<Plain>(s);
        let radial = RadialMixture {
            function: &function,
            measure: shape.mixing_measure().unwrap(),
            rounding: shape.precision().0,
            identity: (name, 0),
        };
        let mixture = GaussianMixture::of_function(radial, 1.0, tolerance).unwrap();
        let grid = (-15_000..=10_000).map(|k| 10.0_f64.powf(f64::from(k) / 1000.0));
        let squares = std::iter::once(0.0).chain(grid.filter(|s| *s <= mixture.max_square));
        let error = squares.map(|s| (function(s) - sum(&mixture.terms, s)).abs()).fold(0.0, f64::max);
        (mixture, error)
    }

    /// The lengths are those of the best sums (Remez' algorithm in 192 bits) up to a few terms.
    #[test]
    fn sums_are_short_and_their_errors_are_proved() {
        let check = |(mixture, error): (Arc<GaussianMixture>, f64), tolerance: f64, terms: usize| {
            assert!(mixture.terms.len() <= terms, "{} > {terms} {tolerance}", mixture.terms.len());
            assert!(error <= mixture.error && mixture.error <= tolerance, "{error} {}", mixture.error);
            assert!(mixture.terms.iter().all(|term| term.weight > 0.0 && term.rate > 0.0));
        };
        for (tolerance, rough, smooth, rational, cauchy) in [
            (1e-4, 6, 5, 9, 9),
            (1e-6, 12, 9, 13, 13),
            (1e-8, 19, 14, 18, 18),
            (1e-10, 27, 19, 23, 23),
            (1e-12, 37, 26, 27, 27),
        ] {
            check(mixture(Matern32Shape, "3/2", tolerance), tolerance, rough);
            check(mixture(Matern52Shape, "5/2", tolerance), tolerance, smooth);
            check(mixture(InverseMultiquadricShape, "imq", tolerance), tolerance, rational);
            check(mixture(CauchyShape, "cauchy", tolerance), tolerance, cauchy);
            check(mixture(RationalQuadraticShape { alpha: 10.0 }, "rq", tolerance), tolerance, 12);
            check(mixture(MaternShape { nu: 3.5 }, "7/2", tolerance), tolerance, 21);
            check(mixture(RationalQuadraticShape { alpha: 150.0 }, "rq 150", tolerance), tolerance, 8);
            check(mixture(RationalQuadraticShape { alpha: 7e4 }, "rq 7e4", tolerance), tolerance, 4);
            check(mixture(RationalQuadraticShape { alpha: 1e150 }, "rq 1e150", tolerance), tolerance, 1);
            check(mixture(RationalQuadraticShape { alpha: 0.001 }, "rq 0.001", tolerance), tolerance, 36);
            check(mixture(MaternShape { nu: 100.0 }, "100", tolerance), tolerance, 10);
            check(mixture(ExponentialShape, "1/2", tolerance), tolerance, 200);
            check(mixture(MaternShape { nu: 0.8 }, "0.8", tolerance), tolerance, 140);
        }
    }
}

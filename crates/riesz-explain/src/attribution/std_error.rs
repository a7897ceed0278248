//! Standard errors of sampled values. The value ± 1.96 standard errors covers the truth in about 95 % of
//! samples or more, even with few draws.
//!
//! The root of the estimated variance is too small in two cases, which are corrected here:
//!
//! - *Few draws* make the variance itself uncertain. Student's quantile replaces the normal quantile, with as
//!   many degrees of freedom as the variance's parts have together (Satterthwaite 1946; with his correction
//!   for parts of few degrees of freedom). The standard error is larger by the ratio of the two quantiles.
//! - *Rare values* may be missing from all draws, which then agree. An event that none of n draws shows has a
//!   rate of less than 3/n with 95 % confidence (the rule of three, Hanley and Lippman-Hand 1983). Therefore
//!   the variance includes `RULE_OF_THREE` additional draws that deviate as far as any observed draw. If
//!   draws are equal up to rounding, their absolute value replaces this deviation. If that is 0, the range of
//!   all evaluations does; if all evaluations are equal, their absolute value, at least 1. A standard error
//!   is thus never 0, which would claim certainty.

/// Number of additional draws that a variance includes: the rule of three.
const RULE_OF_THREE: f64 = 3.0;

/// Differences below this share of the numbers count as rounding errors.
const ROUNDING: f64 = 1e-12;

/// The standard normal distribution's .975 quantile.
pub const NORMAL: f64 = 1.959_963_984_540_054;

/// Variance of a value, composed of parts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Variance {
    observed: f64,
    /// Root of `Σ v² / (f + 2)` over the parts v with f degrees of freedom each.
    parts: f64,
    unseen: f64,
}

impl Variance {
    /// Adds a part of the variance that was estimated with `freedom` degrees of freedom.
    pub fn add(&mut self, variance: f64, freedom: f64) {
        self.observed += variance;
        self.parts = self.parts.hypot(variance / (freedom + 2.0).sqrt());
    }

    /// Adds the variance of draws that were not made, each of which could move the value by up to `step`.
    pub fn inflate(&mut self, step: f64) {
        self.unseen += RULE_OF_THREE * step * step;
    }

    /// The standard error of the value.
    pub fn std_error(self) -> f64 {
        let variance = self.observed + self.unseen;
        // The variance of additional draws is not estimated, so it is no part of `parts`. NaN, from 0 / 0,
        // becomes 1.
        let freedom = ((variance / self.parts).powi(2) - 2.0).max(1.0);
        variance.sqrt() * student_quantile(freedom) / NORMAL
    }
}

/// Range of a set of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueRange {
    lowest: f64,
    highest: f64,
}

impl ValueRange {
    pub(crate) const EMPTY: Self = Self { lowest: f64::INFINITY, highest: f64::NEG_INFINITY };

    /// The range of numbers.
    pub fn over(numbers: impl IntoIterator<Item = f64>) -> Self {
        numbers.into_iter().fold(Self::EMPTY, |range, number| range.with(number))
    }

    pub(crate) fn with(self, number: f64) -> Self {
        self.and(Self { lowest: number, highest: number })
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }

    /// Width of the range; 0 if there are no numbers.
    pub fn width(self) -> f64 {
        (self.highest - self.lowest).max(0.0)
    }

    /// The smallest number.
    pub fn lowest(&self) -> f64 {
        self.lowest
    }

    /// The largest number.
    pub fn highest(&self) -> f64 {
        self.highest
    }

    /// Largest absolute value.
    pub fn largest(self) -> f64 {
        self.highest.abs().max(self.lowest.abs())
    }

    /// Largest plausible deviation of a draw that was not made: the first of the `observed` ones, followed
    /// by the width, that exceeds rounding.
    pub fn max_deviation<const N: usize>(self, observed: [f64; N]) -> f64 {
        let rounding = ROUNDING * self.largest();
        let mut candidates = observed.into_iter().chain([self.width()]);
        candidates.find(|size| *size > rounding).unwrap_or_else(|| self.largest().max(1.0))
    }
}

/// Student's .975 quantile, from the expansion in 1/freedom (Abramowitz and Stegun 26.7.5) with a fifth term
/// that makes it exact for 1 degree of freedom. Its relative error is below .8 % from 1 degree of freedom on.
pub(crate) fn student_quantile(freedom: f64) -> f64 {
    let inverse = 1.0 / freedom;
    let terms = [1.4061, 1.5895, 2.5558, 2.8225, 2.3723, NORMAL];
    terms.into_iter().fold(0.0, |sum, term| sum * inverse + term)
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, StudentsT};

    use super::*;

    #[test]
    fn quantiles_are_students() {
        for freedom in [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 7.5, 15.0, 60.0, 1e3, 1e6] {
            let exact = StudentsT::new(0.0, 1.0, freedom).unwrap().inverse_cdf(0.975);
            assert!(
                (student_quantile(freedom) / exact - 1.0).abs() < 0.008,
                "{freedom}: {} {exact}",
                student_quantile(freedom)
            );
        }
        assert_eq!(student_quantile(f64::INFINITY), NORMAL);
    }

    /// A mean of n numbers, in one part or in several of the same variance.
    #[test]
    fn a_mean_has_students_interval() {
        for parts in [1, 4] {
            let mut variance = Variance::default();
            (0..parts).for_each(|_| variance.add(0.5 / parts as f64, 6.0));
            let freedom = if parts == 1 { 6.0 } else { 30.0 };
            let expected = 0.5_f64.sqrt() * student_quantile(freedom) / NORMAL;
            assert!((variance.std_error() - expected).abs() < 1e-12, "{parts}");
        }
    }

    /// The rule of three, for an event that none of n draws shows.
    #[test]
    fn unseen_events_widen_the_standard_error() {
        let (n, mut variance) = (50.0, Variance::default());
        variance.add(0.0, n - 1.0);
        variance.inflate(ValueRange::over([0.0, 7.0]).max_deviation([]) / n);
        let half_width = 1.96 * variance.std_error();
        assert!((7.0 * 3.0 / n..7.0 * 3.5 / n).contains(&half_width), "{half_width}");
        assert_eq!(ValueRange::over([2.0, 7.0]).max_deviation([3.0]), 3.0);
        assert_eq!(ValueRange::over([1e6, 1e6 + 4.0]).max_deviation([1e-9]), 4.0);
        assert_eq!(ValueRange::over([-5.0, -5.0]).max_deviation([]), 5.0);
        assert_eq!(ValueRange::over([0.0, 0.0]).max_deviation([]), 1.0);
        assert_eq!(ValueRange::EMPTY.width(), 0.0);
    }
}

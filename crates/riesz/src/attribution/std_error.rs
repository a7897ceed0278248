//! Standard errors of sampled values, such that the value ± 1.96 of them holds the truth about 95 times in
//! 100 or more, at few draws too.
//!
//! The root of the estimated variance falls short of that in two ways, and both are mended here, for all
//! estimators:
//!
//! - *Few draws* make the variance itself uncertain. Student's quantile takes the place of the normal one,
//!   with as many degrees of freedom as the variance's parts have together (Satterthwaite 1946; with his
//!   correction for parts of few degrees of freedom), and the standard error is larger by the ratio of the
//!   two.
//! - *What is rare* is not seen at all, by draws that then agree. What none of n draws shows has a rate of
//!   less than 3/n, with 95 % confidence (the rule of three, Hanley and Lippman-Hand 1983). So the variance
//!   counts [`RULE_OF_THREE`] draws that were not made, which lie as far off as any that were made. Where no
//!   draws differ by more than rounding, it is as far as they are from 0 or any two answers from one another,
//!   and where all answers are one number, that number's size, at least 1: a standard error is never 0,
//!   because that would be the claim that nothing was left open.

/// The number of draws that are allowed for without having been made: the rule of three.
const RULE_OF_THREE: f64 = 3.0;

/// Differences of less than this share of the numbers are rounding.
const ROUNDING: f64 = 1e-12;

/// The standard normal distribution's .975 quantile.
pub(crate) const NORMAL: f64 = 1.959_963_984_540_054;

/// The variance of a value, from its parts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Variance {
    seen: f64,
    /// The root of the sum of the squared parts, each over two more than its degrees of freedom.
    parts: f64,
    unseen: f64,
}

impl Variance {
    /// Adds an estimated variance with its degrees of freedom.
    pub(crate) fn add(&mut self, variance: f64, freedom: f64) {
        self.seen += variance;
        self.parts = self.parts.hypot(variance / (freedom + 2.0).sqrt());
    }

    /// Allows for draws that were not made, each of which would have moved the value by up to `step`.
    pub(crate) fn inflate(&mut self, step: f64) {
        self.unseen += RULE_OF_THREE * step * step;
    }

    /// The standard error.
    pub(crate) fn std_error(self) -> f64 {
        let variance = self.seen + self.unseen;
        // Draws that are allowed for have no uncertain variance. NaN, of 0 over 0, becomes 1.
        let freedom = ((variance / self.parts).powi(2) - 2.0).max(1.0);
        variance.sqrt() * student_quantile(freedom) / NORMAL
    }
}

/// The numbers between which some numbers lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ValueRange {
    lowest: f64,
    highest: f64,
}

impl ValueRange {
    pub(crate) const EMPTY: Self = Self { lowest: f64::INFINITY, highest: f64::NEG_INFINITY };

    pub(crate) fn over(numbers: impl IntoIterator<Item = f64>) -> Self {
        numbers.into_iter().fold(Self::EMPTY, |range, number| range.with(number))
    }

    pub(crate) fn with(self, number: f64) -> Self {
        self.and(Self { lowest: number, highest: number })
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { lowest: self.lowest.min(other.lowest), highest: self.highest.max(other.highest) }
    }

    /// From end to end; 0 if there are no numbers.
    pub(crate) fn width(self) -> f64 {
        (self.highest - self.lowest).max(0.0)
    }

    pub(crate) fn lowest(&self) -> f64 {
        self.lowest
    }

    pub(crate) fn highest(&self) -> f64 {
        self.highest
    }

    /// The largest size.
    pub(crate) fn largest(self) -> f64 {
        self.highest.abs().max(self.lowest.abs())
    }

    /// The largest plausible distance of a draw that was not made: the first of the observed distances
    /// `seen`, each measured in another way, that is more than rounding.
    pub(crate) fn max_deviation<const N: usize>(self, seen: [f64; N]) -> f64 {
        let rounding = ROUNDING * self.largest();
        let mut ways = seen.into_iter().chain([self.width()]);
        ways.find(|size| *size > rounding).unwrap_or_else(|| self.largest().max(1.0))
    }
}

/// Student's .975 quantile, from the expansion in 1/freedom (Abramowitz and Stegun 26.7.5) and a fifth term
/// that makes it right at 1: within .8 % from 1 degree of freedom.
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

    /// The rule of three: of an event with rate p, of which n draws show none.
    #[test]
    fn what_is_not_seen_is_allowed_for() {
        let (n, mut variance) = (50.0, Variance::default());
        variance.add(0.0, n - 1.0);
        variance.inflate(ValueRange::over([0.0, 7.0]).max_deviation([]) / n);
        let reach = 1.96 * variance.std_error();
        assert!((7.0 * 3.0 / n..7.0 * 3.5 / n).contains(&reach), "{reach}");
        assert_eq!(ValueRange::over([2.0, 7.0]).max_deviation([3.0]), 3.0);
        assert_eq!(ValueRange::over([1e6, 1e6 + 4.0]).max_deviation([1e-9]), 4.0);
        assert_eq!(ValueRange::over([-5.0, -5.0]).max_deviation([]), 5.0);
        assert_eq!(ValueRange::over([0.0, 0.0]).max_deviation([]), 1.0);
        assert_eq!(ValueRange::EMPTY.width(), 0.0);
    }
}

//! What a count says of the sum that it is a count of.

use statrs::function::beta::checked_beta_reg;
use statrs::function::gamma::{checked_gamma_lr, checked_gamma_ur, ln_gamma};

use super::dispersion::{beta_binomial, beta_binomial_tails, negative_binomial, negative_binomial_tails};
use super::said::Said;
use crate::error::{Error, Result};
use crate::kernel_model::{Link, logistic};

/// How counts come about, and what of f makes a row's part of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Family {
    /// Of events: a Poisson variable of mean `Σ_i w_i exp(f_i)`, with weights that say how many there are to
    /// have them (people, person-years). f is the logarithm of a rate.
    Poisson,
    /// Of successes among trials: binomial, each of probability `Σ_i w_i σ(f_i)` with weights that add up
    /// to 1. f is the log odds of a success.
    Binomial {
        /// Of each target how many.
        trials: Vec<f64>,
    },
}

/// What a row adds to sums, and its derivatives by f.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub of: f64,
    /// Of a probability, 1 less that; else 0.
    pub rest: f64,
    pub slope: f64,
    pub bend: f64,
}

impl Family {
    /// From f to what rates are.
    pub fn link(&self) -> Link {
        match self {
            Self::Poisson => Link::Log,
            Self::Binomial { .. } => Link::Logit,
        }
    }

    /// Checks the counts of bags.
    pub(super) fn check(&self, counts: &[f64]) -> Result<()> {
        let whole = |z: &f64| z.is_finite() && *z >= 0.0 && z.fract() == 0.0;
        if let Some(t) = counts.iter().position(|z| !whole(z)) {
            let allowed = "counts are whole numbers, 0 or more";
            return Err(Error::parameter(format!("count of target {}", t + 1), counts[t], allowed));
        }
        let wrong = |problem: &str| Err(Error::Target { name: "of bags".into(), problem: problem.into() });
        match self {
            Self::Poisson if counts.iter().all(|z| *z == 0.0) => {
                wrong("has counts of 0 alone, which say nothing of a rate but that it is small")
            }
            Self::Poisson => Ok(()),
            Self::Binomial { trials } => {
                crate::error::sized(
                    "the list of trials",
                    "numbers",
                    counts.len(),
                    trials.len(),
                    "one a target",
                )?;
                for (t, (n, z)) in trials.iter().zip(counts).enumerate() {
                    if !(whole(n) && *n >= z.max(1.0)) {
                        let allowed = format!("they are a whole number, at least 1 and the count, {z}");
                        return Err(Error::parameter(format!("trials of target {}", t + 1), n, allowed));
                    }
                }
                let successes: f64 = counts.iter().sum();
                if successes == 0.0 || successes == trials.iter().sum::<f64>() {
                    return wrong(
                        "has the same outcome in all trials, which says nothing of how likely it is",
                    );
                }
                Ok(())
            }
        }
    }

    /// The rate that all rows would have if they had the same, as f.
    pub(super) fn level(&self, counts: &[f64], exposures: &[f64]) -> f64 {
        let successes: f64 = counts.iter().sum();
        match self {
            Self::Poisson => (successes / exposures.iter().sum::<f64>()).ln(),
            Self::Binomial { trials } => (successes / (trials.iter().sum::<f64>() - successes)).ln(),
        }
    }

    /// Of a row.
    pub(super) fn part(&self, f: f64) -> Part {
        match self {
            Self::Poisson => {
                let rate = f.exp();
                Part { of: rate, rest: 0.0, slope: rate, bend: rate }
            }
            Self::Binomial { .. } => {
                let (of, rest) = (logistic(f), logistic(-f));
                let slope = of * rest;
                Part { of, rest, slope, bend: slope * (rest - of) }
            }
        }
    }

    /// Of target t, whose count is z and more dispersed than its family by so much, where the sum is g and
    /// the sum of rests `rest`.
    pub(super) fn said(&self, t: usize, z: f64, dispersion: f64, g: f64, rest: f64) -> Said {
        // 0 · log 0 is 0 here.
        let times_log = |a: f64, x: f64| if a > 0.0 { a * x.ln() } else { 0.0 };
        let over = |a: f64, x: f64| if a > 0.0 { a / x } else { 0.0 };
        match self {
            Self::Poisson if dispersion > 0.0 => negative_binomial(z, dispersion, g),
            Self::Poisson => Said {
                value: times_log(z, g) - g - ln_gamma(z + 1.0),
                slope: over(z, g) - 1.0,
                bend: -over(z, g) / g,
                information: 1.0 / g,
                turn: -1.0 / (g * g),
                mean: g,
                variance: g,
                by_link: g,
                by_dispersion: [0.0; 3],
            },
            Self::Binomial { trials } if dispersion > 0.0 => beta_binomial(trials[t], z, dispersion, g, rest),
            Self::Binomial { trials } => {
                let n = trials[t];
                let ways = ln_gamma(n + 1.0) - ln_gamma(z + 1.0) - ln_gamma(n - z + 1.0);
                let information = n / (g * rest);
                Said {
                    value: times_log(z, g) + times_log(n - z, rest) + ways,
                    slope: over(z, g) - over(n - z, rest),
                    bend: -over(z, g) / g - over(n - z, rest) / rest,
                    information,
                    turn: -information * (rest - g) / (g * rest),
                    mean: n * g,
                    variance: n * g * rest,
                    by_link: g * rest,
                    by_dispersion: [0.0; 3],
                }
            }
        }
    }

    /// The link of the sum of target t: log g, or the log odds.
    pub(super) fn of_sum(&self, g: f64, rest: f64) -> f64 {
        match self {
            Self::Poisson => g.ln(),
            Self::Binomial { .. } => (g / rest).ln(),
        }
    }

    /// The logarithms of `P(Z = z)`, and `P(Z < z)` and `P(Z > z)`, for a count of target t whose sum has
    /// this link; its mean and its variance.
    pub(super) fn count(&self, t: usize, z: f64, dispersion: f64, link: f64) -> Chances {
        let part = self.part(link);
        let said = self.said(t, z, dispersion, part.of, part.rest);
        let (below, above) = match self {
            Self::Poisson if dispersion > 0.0 => negative_binomial_tails(z, dispersion, part.of),
            Self::Poisson => (
                // Fewer than 0 there are not, and of a mean of 0 none.
                if z > 0.0 { checked_gamma_ur(z, part.of).unwrap_or(1.0) } else { 0.0 },
                checked_gamma_lr(z + 1.0, part.of).unwrap_or(0.0),
            ),
            Self::Binomial { trials } if dispersion > 0.0 => {
                beta_binomial_tails(trials[t], z, dispersion, (part.of, part.rest), said.value)
            }
            Self::Binomial { trials } => {
                let n = trials[t];
                // P(Z ≥ k) = I_p(k, n - k + 1).
                let from = |k: f64| match k {
                    _ if k <= 0.0 => 1.0,
                    _ if k > n => 0.0,
                    _ => checked_beta_reg(k, n - k + 1.0, part.of).unwrap_or(0.0),
                };
                (1.0 - from(z), from(z + 1.0))
            }
        };
        Chances { log: said.value, below, above, mean: said.mean, variance: said.variance }
    }
}

/// What is expected of a count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chances {
    /// The logarithm of the probability of the count itself.
    pub log: f64,
    /// The probabilities of fewer, and of more.
    pub below: f64,
    pub above: f64,
    pub mean: f64,
    pub variance: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64, within: f64) {
        assert!((found - wanted).abs() <= within * (1.0 + wanted.abs()), "{found} is not {wanted}");
    }

    /// Both families with their dispersions, counts and sums.
    fn cases() -> Vec<(Family, f64, f64, f64)> {
        let mut all = Vec::new();
        for family in [Family::Poisson, Family::Binomial { trials: vec![23.0] }] {
            for dispersion in [1e-3, 0.1, 0.7, 4.0] {
                for (z, link) in [(0.0, -2.0), (3.0, 0.4), (23.0, 1.7), (9.0, -0.2)] {
                    all.push((family.clone(), dispersion, z, link));
                }
            }
        }
        all
    }

    #[test]
    fn probabilities_add_up_to_one_and_have_the_mean_and_variance_they_say() {
        for (family, dispersion, z, link) in cases() {
            let most = if family == Family::Poisson { 20_000 } else { 23 };
            let each: Vec<(f64, f64)> = (0..=most)
                .map(|k| (f64::from(k), family.count(0, f64::from(k), dispersion, link).log.exp()))
                .collect();
            let own = family.count(0, z, dispersion, link);
            near(each.iter().map(|(_, p)| p).sum(), 1.0, 1e-10);
            near(each.iter().map(|(k, p)| k * p).sum(), own.mean, 1e-9);
            near(each.iter().map(|(k, p)| (k - own.mean).powi(2) * p).sum(), own.variance, 1e-7);
            near(each.iter().filter(|(k, _)| *k < z).map(|(_, p)| p).sum(), own.below, 1e-9);
            near(each.iter().filter(|(k, _)| *k > z).map(|(_, p)| p).sum(), own.above, 1e-9);
        }
    }

    #[test]
    fn slopes_are_those_of_differences() {
        let step = 1e-5;
        for (family, dispersion, z, link) in cases() {
            let part = family.part(link);
            let rest = |g: f64| if family == Family::Poisson { 0.0 } else { 1.0 - g };
            let at = |g: f64, by: f64| family.said(0, z, dispersion * by.exp(), g, rest(g));
            let own = at(part.of, 0.0);
            let by_g = |of: fn(&Said) -> f64| {
                (of(&at(part.of + step, 0.0)) - of(&at(part.of - step, 0.0))) / (2.0 * step)
            };
            near(own.slope, by_g(|s| s.value), 1e-7);
            near(own.bend, by_g(|s| s.slope), 1e-7);
            near(own.turn, by_g(|s| s.information), 1e-7);
            let by_dispersion =
                |of: fn(&Said) -> f64| (of(&at(part.of, step)) - of(&at(part.of, -step))) / (2.0 * step);
            near(own.by_dispersion[0], by_dispersion(|s| s.value), 1e-6);
            near(own.by_dispersion[1], by_dispersion(|s| s.slope), 1e-6);
            near(own.by_dispersion[2], by_dispersion(|s| s.information), 1e-6);
        }
    }

    #[test]
    fn without_dispersion_it_is_the_family() {
        for (family, _, z, link) in cases() {
            let (own, near_it) = (family.count(0, z, 0.0, link), family.count(0, z, 1e-7, link));
            near(near_it.log, own.log, 1e-4);
            near(near_it.below, own.below, 1e-4);
            near(near_it.above, own.above, 1e-4);
            near(near_it.variance, own.variance, 1e-4);
        }
    }
}

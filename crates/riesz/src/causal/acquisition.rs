//! Acquisition functions: the value of trying a treatment next, given the posterior of its effect.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::error::{Error, Result, listed};

/// The acquisition function; the untried treatment with its largest value is tried next.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Acquisition {
    /// The logarithm of [`Ei`](Self::Ei): the same order, and no underflow where an improvement is all but
    /// ruled out (Ament et al. 2023).
    #[default]
    LogEi,
    /// The expected improvement on the best effect so far (Močkus 1975).
    Ei,
    /// The mean plus a number of standard deviations in the good direction (Srinivas et al. 2010).
    Ucb {
        /// The number of standard deviations.
        deviations: f64,
    },
}

impl Acquisition {
    /// Names of the acquisition functions.
    pub const NAMES: [&str; 3] = ["log-ei", "ei", "ucb"];

    /// The acquisition function with this name; `ucb` uses two standard deviations.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "log-ei" => Ok(Self::LogEi),
            "ei" => Ok(Self::Ei),
            "ucb" => Ok(Self::Ucb { deviations: 2.0 }),
            _ => Err(Error::parameter("acquisition", name, format!("it is one of {}", listed(Self::NAMES)))),
        }
    }

    /// Returns the name of the acquisition function.
    pub fn name(self) -> &'static str {
        match self {
            Self::LogEi => "log-ei",
            Self::Ei => "ei",
            Self::Ucb { .. } => "ucb",
        }
    }

    /// Returns the value of a trial whose effect is normal. `better` is its mean minus that of the best so
    /// far, `sd` its standard deviation, and `cost` the cost of the trial.
    pub(super) fn value(self, better: f64, sd: f64, cost: f64) -> f64 {
        match self {
            Self::LogEi => log_expected_improvement(better, sd) - cost.ln(),
            Self::Ei => log_expected_improvement(better, sd).exp() / cost,
            Self::Ucb { deviations } => better + deviations * sd,
        }
    }
}

/// Returns `log E[max(better + sd ε, 0)]` with ε standard normal; it is `-∞` if `better ≤ 0` and `sd = 0`.
///
/// The result has full relative precision, however unlikely an improvement is. For `t = -better / sd` far
/// above 0 it is `log sd + log(φ(t) (1 - t M(t)))`. Here φ is the normal density and M is the Mills ratio,
/// computed by Laplace's continued fraction, which avoids the cancellation.
///
/// ```
/// use riesz::causal::log_expected_improvement;
///
/// assert!((log_expected_improvement(0.0, 1.0).exp() - 0.3989422804014327).abs() < 1e-15);
/// assert!((log_expected_improvement(-40.0, 1.0) + 808.29856835662).abs() < 1e-10);
/// ```
pub fn log_expected_improvement(better: f64, sd: f64) -> f64 {
    if sd <= 0.0 {
        return better.max(0.0).ln();
    }
    let z = better / sd;
    let log_density = -0.5 * z * z - 0.5 * (2.0 * PI).ln();
    if z > -3.0 {
        let below = 0.5 * libm::erfc(-z * FRAC_1_SQRT_2);
        return sd.ln() + (log_density.exp() + z * below).ln();
    }
    let t = -z;
    // The truncation error is below rounding for every t ≥ 3.
    let terms = (600.0 / (t * t)).ceil() as usize + 20;
    let fraction = (1..=terms).rev().fold(0.0, |fraction, k| k as f64 / (t + fraction));
    sd.ln() + log_density + (fraction / (t + fraction)).ln()
}

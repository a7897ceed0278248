//! Priors of an effect before any treatment is tried, by name.

use super::effect::EffectEstimate;
use super::uncertainty_parts::UncertaintyCause;
use crate::error::{Error, Result, listed};
use crate::linalg::Matrix;

/// The prior of the effect before any trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EffectPrior {
    /// The posterior given all studies, plus a discrepancy.
    #[default]
    Effect,
    /// The mean of the effect, with the last study's part of the covariance only (IMP).
    LastStudy,
    /// The mean of the effect, with the first study's part of the covariance only (BayesIME).
    FirstStudy,
    /// The mean of the effect, with covariance `√(v(x) v(x')) + s² exp(-r²/2ℓ²)`, where v is the variance of
    /// the effect.
    RankOne,
    /// [`RankOne`](Self::RankOne) with the variance v of the last study's part: causal Bayesian optimisation
    /// (Aglietti et al. 2020), which takes the treatments' effect on mediators as known.
    Cbo,
    /// A constant mean, which without trials is the mean outcome, with covariance `s² exp(-r²/2ℓ²)`. Only the
    /// scale comes from the studies.
    Flat,
}

impl EffectPrior {
    /// Names of the priors, in the order of the variants.
    pub const NAMES: [&str; 6] = ["effect", "imp", "bayesime", "rank-one", "cbo", "none"];

    /// Returns the prior with this name.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another name.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "effect" => Self::Effect,
            "imp" => Self::LastStudy,
            "bayesime" => Self::FirstStudy,
            "rank-one" => Self::RankOne,
            "cbo" => Self::Cbo,
            "none" => Self::Flat,
            _ => {
                let allowed = format!("it is one of {}", listed(Self::NAMES));
                return Err(Error::parameter("prior", name, allowed));
            }
        })
    }

    /// Returns the name of the prior.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the mean and the covariance of the effect under this prior, without the stationary part;
    /// `constant` is the mean outcome.
    pub(super) fn moments(self, estimate: &EffectEstimate, constant: f64) -> (Vec<f64>, Matrix) {
        let q = estimate.mean.len();
        let studies = estimate.causes.iter().filter(|(cause, _)| matches!(cause, UncertaintyCause::Study(_)));
        let part_of = |cause: Option<UncertaintyCause>| {
            let existing = estimate.causes.iter().find(|(other_cause, _)| Some(*other_cause) == cause);
            existing.map_or_else(|| Matrix::zeros(q, q), |(_, part)| part.clone())
        };
        let last_study = studies.map(|(cause, _)| *cause).max();
        let covariance = match self {
            Self::Effect => estimate.covariance.clone(),
            Self::LastStudy => part_of(last_study),
            Self::FirstStudy => part_of(Some(UncertaintyCause::Study(0))),
            Self::RankOne => outer_product(&estimate.covariance),
            Self::Cbo => outer_product(&part_of(last_study)),
            Self::Flat => return (vec![constant; q], Matrix::zeros(q, q)),
        };
        (estimate.mean.clone(), covariance)
    }

    /// Whether the stationary part is a small discrepancy, rather than the main source of uncertainty.
    pub(super) fn is_causal(self) -> bool {
        matches!(self, Self::Effect | Self::LastStudy | Self::FirstStudy)
    }
}

fn outer_product(covariance: &Matrix) -> Matrix {
    let sd = covariance.standard_deviations();
    Matrix::from_fn(sd.len(), sd.len(), |i, j| sd[i] * sd[j])
}

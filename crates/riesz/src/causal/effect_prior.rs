//! What is believed of an effect before any treatment is tried, by name.

use super::effect::Told;
use super::uncertainty_parts::UncertaintyCause;
use crate::error::{Error, Result, listed};
use crate::linalg::Matrix;

/// What is believed of the effect before any trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EffectPrior {
    /// What all studies tell, and a discrepancy.
    #[default]
    Effect,
    /// The same with what the last study leaves open alone (IMP).
    LastStudy,
    /// The same with what the first study leaves open alone (BayesIME).
    FirstStudy,
    /// The mean, and `√(v(x) v(x')) + s² exp(-r²/2ℓ²)` with the variance v of the effect.
    RankOne,
    /// As [`RankOne`](Self::RankOne), with the variance v that the last study leaves open: causal Bayesian
    /// optimisation (Aglietti et al. 2020), which takes what treatments do to mediators as known.
    Cbo,
    /// A constant, which without trials is the mean outcome, and `s² exp(-r²/2ℓ²)`: nothing of the studies
    /// but the scale.
    Flat,
}

impl EffectPrior {
    /// The names that there are, in the order of the variants.
    pub const NAMES: [&str; 6] = ["effect", "imp", "bayesime", "rank-one", "cbo", "none"];

    /// By its name.
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

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Mean and covariance of the effect by it, without the stationary part; `constant` is the mean outcome.
    pub(super) fn moments(self, told: &Told, constant: f64) -> (Vec<f64>, Matrix) {
        let q = told.mean.len();
        let studies = told.causes.iter().filter(|(cause, _)| matches!(cause, UncertaintyCause::Study(_)));
        let of = |cause: Option<UncertaintyCause>| {
            let found = told.causes.iter().find(|(own, _)| Some(*own) == cause);
            found.map_or_else(|| Matrix::zeros(q, q), |(_, part)| part.clone())
        };
        let last = studies.map(|(cause, _)| *cause).max();
        let covariance = match self {
            Self::Effect => told.covariance.clone(),
            Self::LastStudy => of(last),
            Self::FirstStudy => of(Some(UncertaintyCause::Study(0))),
            Self::RankOne => outer_product(&told.covariance),
            Self::Cbo => outer_product(&of(last)),
            Self::Flat => return (vec![constant; q], Matrix::zeros(q, q)),
        };
        (told.mean.clone(), covariance)
    }

    /// Whether the stationary part is a small discrepancy, or carries what is unknown.
    pub(super) fn is_causal(self) -> bool {
        matches!(self, Self::Effect | Self::LastStudy | Self::FirstStudy)
    }
}

fn outer_product(covariance: &Matrix) -> Matrix {
    let q = covariance.rows();
    let sd: Vec<f64> = (0..q).map(|i| covariance[(i, i)].max(0.0).sqrt()).collect();
    Matrix::from_row_major(q, q, sd.iter().flat_map(|a| sd.iter().map(move |b| a * b)).collect())
}

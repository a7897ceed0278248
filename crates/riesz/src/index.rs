//! Which value of a game a player gets.
//!
//! A semivalue is what a player adds, on average, to a coalition of others, each of whom is there with chance t, where t is drawn from a distribution on
//! [0, 1] (Dubey, Neyman and Weber 1981): Shapley's from the uniform one, for which alone the values of all players add up to the prediction
//! less the base value.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Which value of a game a set of players gets. As text it is one of `shapley`, `banzhaf`, `banzhaf(T)`, `beta-shapley(ALPHA, BETA)`, `leave-one-out` and
/// `first-order`.
///
/// ```
/// use riesz::Index;
///
/// assert_eq!("banzhaf(0.5)".parse::<Index>()?, "banzhaf".parse()?);
/// assert_eq!("leave-one-out".parse::<Index>()?, Index::Banzhaf { chance: 1.0 });
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Index {
    /// The Shapley value (Shapley 1953): what a player adds on average over all orders in which players can join.
    #[default]
    Shapley,
    /// The weighted Banzhaf value (Marichal and Mathonet 2011): what a player adds on average if each of the others is there with this chance. That of Banzhaf
    /// (1965) has the chance ½; with 1 it is what is lost without the player, with 0 what the player adds to nobody.
    Banzhaf {
        /// From 0 to 1.
        chance: f64,
    },
    /// The Beta-Shapley value (Kwon and Zou 2022): the chance with which each of the others is there has the density `t^(beta - 1) (1 - t)^(alpha - 1)`, up to
    /// a constant. With a large alpha small coalitions count most; (1, 1) are Shapley values.
    BetaShapley {
        /// From 0.01 to 1000.
        alpha: f64,
        /// From 0.01 to 1000.
        beta: f64,
    },
}

/// How an index can be written.
pub(crate) const FORMS: &str = "it is shapley, banzhaf, banzhaf(T) with T from 0 to 1, beta-shapley(ALPHA, BETA) with numbers from 0.01 to 1000, leave-one-out or first-order";

impl Index {
    /// Its name, for people.
    pub fn name(self) -> String {
        match self {
            Self::Shapley => "Shapley value".into(),
            Self::Banzhaf { chance: 0.0 } => "first-order value".into(),
            Self::Banzhaf { chance: 0.5 } => "Banzhaf value".into(),
            Self::Banzhaf { chance: 1.0 } => "leave-one-out value".into(),
            Self::Banzhaf { chance } => format!("Banzhaf({chance}) value"),
            Self::BetaShapley { alpha, beta } => format!("Beta({alpha}, {beta})-Shapley value"),
        }
    }

    /// What it says, in a sentence for people: "it says …".
    pub fn meaning(self) -> String {
        match self {
            Self::Shapley => {
                "how much of the difference between the prediction and the base value is due to the feature"
                    .into()
            }
            Self::Banzhaf { chance: 0.0 } => {
                "by how much the base value changes when the feature alone is present".into()
            }
            Self::Banzhaf { chance: 1.0 } => {
                "by how much the prediction changes when the feature is absent".into()
            }
            Self::Banzhaf { chance } => format!(
                "what the feature adds on average, where each of the others is present with chance {chance}"
            ),
            Self::BetaShapley { alpha, beta } => format!(
                "what the feature adds on average, where each of the others is present with a chance whose mean is {}",
                beta / (alpha + beta)
            ),
        }
    }

    /// The size of the largest sets that get a value: 1 for players alone, 2 for pairs too.
    pub fn order(self) -> usize {
        1
    }

    /// Whether the values of all sets add up to the prediction less the base value.
    pub fn is_efficient(self) -> bool {
        match self {
            Self::Shapley => true,
            Self::Banzhaf { .. } => false,
            Self::BetaShapley { alpha, beta } => alpha == 1.0 && beta == 1.0,
        }
    }

    /// Checks its numbers.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn validate(self) -> Result<()> {
        let shape = |v: f64| (0.01..=1000.0).contains(&v);
        let valid = match self {
            Self::Shapley => true,
            Self::Banzhaf { chance } => (0.0..=1.0).contains(&chance),
            Self::BetaShapley { alpha, beta } => shape(alpha) && shape(beta),
        };
        if valid { Ok(()) } else { Err(Error::parameter("index", self, FORMS)) }
    }

    /// Checks that it is one that games have whose coalitions are valued one by one.
    pub(crate) fn of_coalitions(self) -> Result<()> {
        match self {
            Self::Shapley => Ok(()),
            other => {
                let allowed = "functions, programs and the observational game have Shapley values; others are those of models whose kernel is \
                               known, in games other than the observational one";
                Err(Error::parameter("index", other, allowed))
            }
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shapley => write!(f, "shapley"),
            Self::Banzhaf { chance: 0.0 } => write!(f, "first-order"),
            Self::Banzhaf { chance: 0.5 } => write!(f, "banzhaf"),
            Self::Banzhaf { chance: 1.0 } => write!(f, "leave-one-out"),
            Self::Banzhaf { chance } => write!(f, "banzhaf({chance})"),
            Self::BetaShapley { alpha, beta } => write!(f, "beta-shapley({alpha}, {beta})"),
        }
    }
}

impl FromStr for Index {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::parameter("index", format!("'{text}'"), FORMS);
        let lower = text.trim().to_lowercase().replace('_', "-");
        let (name, numbers) = match lower.split_once('(') {
            Some((name, rest)) => {
                let numbers = rest.strip_suffix(')').ok_or_else(wrong)?.split(',');
                let numbers = numbers.map(|v| v.trim().parse::<f64>()).collect::<Result<Vec<_>, _>>();
                (name.trim_end(), numbers.map_err(|_| wrong())?)
            }
            None => (lower.as_str(), Vec::new()),
        };
        let index = match (name, numbers.as_slice()) {
            ("shapley", []) => Self::Shapley,
            ("banzhaf", []) => Self::Banzhaf { chance: 0.5 },
            ("banzhaf", [chance]) => Self::Banzhaf { chance: *chance },
            ("leave-one-out", []) => Self::Banzhaf { chance: 1.0 },
            ("first-order", []) => Self::Banzhaf { chance: 0.0 },
            ("beta-shapley", [alpha, beta]) => Self::BetaShapley { alpha: *alpha, beta: *beta },
            _ => return Err(wrong()),
        };
        index.validate()?;
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in
            ["shapley", "banzhaf", "banzhaf(0.3)", "leave-one-out", "first-order", "beta-shapley(4, 1)"]
        {
            let index: Index = text.parse().unwrap();
            assert_eq!(index.to_string(), text);
            assert_eq!(
                serde_json::from_str::<Index>(&serde_json::to_string(&index).unwrap()).unwrap(),
                index
            );
        }
        assert_eq!(
            "Beta_Shapley( 16,1 )".parse::<Index>().unwrap(),
            Index::BetaShapley { alpha: 16.0, beta: 1.0 }
        );
        for text in [
            "",
            "shap",
            "banzhaf(",
            "banzhaf(2)",
            "banzhaf(nan)",
            "banzhaf()",
            "beta-shapley(1)",
            "beta-shapley(0, 1)",
        ] {
            assert!(text.parse::<Index>().is_err(), "{text}");
        }
    }
}

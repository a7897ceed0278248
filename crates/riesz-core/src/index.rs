//! Value indices: the kind of value that a player, or a set of players, gets in a game.
//!
//! A semivalue is the average contribution of a player to a random coalition of the others (Dubey, Neyman and
//! Weber 1981). Each of the others is present with probability t, where t is drawn from a distribution on [0,
//! 1]. Shapley values have the uniform distribution. Only then do the values of all players add up to the
//! prediction minus the base value. An interaction index also gives values to pairs, or to all sets up to a
//! given size: their joint contribution beyond the contributions of smaller sets, averaged over the other
//! players.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::inclusion_weights::InclusionDistribution;
use crate::error::{Error, Result};

mod inclusion_weights;

/// The kind of value that players, or sets of players, get in a game.
///
/// As text it is `shapley`, `owen`, `banzhaf`, `banzhaf(T)`, `beta-shapley(ALPHA, BETA)`,
/// `semivalue(T: WEIGHT, …)`, `leave-one-out` or `first-order`, which give a value to each player. The
/// interaction indices are `sii`, `k-sii`, `stii`, `fsii`, `bii`, `fbii` and `moebius`, which give a value to
/// each player and each pair. With a number K, as in `k-sii(3)`, they give a value to each set of up to K
/// players.
///
/// ```
/// use riesz::ValueIndex;
///
/// assert_eq!("banzhaf(0.5)".parse::<ValueIndex>()?, "banzhaf".parse()?);
/// assert_eq!("leave-one-out".parse::<ValueIndex>()?, ValueIndex::Banzhaf { inclusion_probability: 1.0 });
/// assert!("semivalue(0.2: 0.5, 0.8: 0.4)".parse::<ValueIndex>().is_err(), "weights sum to 1");
/// assert_eq!("stii(3)".parse::<ValueIndex>()?.sets(50), Some(50 + 1225 + 19_600));
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ValueIndex {
    /// The Shapley value (Shapley 1953): the player's contribution, averaged over all orders in which players
    /// can join.
    #[default]
    Shapley,
    /// The weighted Banzhaf value (Marichal and Mathonet 2011): the player's average contribution if each of
    /// the others is present with this probability. Banzhaf (1965) uses ½. With 1 it is the loss without the
    /// player (leave one out), with 0 the player's contribution to the empty coalition.
    Banzhaf {
        /// The probability, from 0 to 1.
        inclusion_probability: f64,
    },
    /// The Beta-Shapley value (Kwon and Zou 2022): the probability with which each of the others is present
    /// has the density `t^(beta - 1) (1 - t)^(alpha - 1)`, up to a constant. With a large alpha small
    /// coalitions have most weight; (1, 1) are Shapley values.
    BetaShapley {
        /// Number from 0.01 to 1000.
        alpha: f64,
        /// Number from 0.01 to 1000.
        beta: f64,
    },
    /// The semivalue (Dubey, Neyman and Weber 1981) of a discrete distribution: the player's average
    /// contribution if each of the others is present with a probability drawn from this distribution.
    Semivalue(InclusionDistribution),
    /// The Owen value (Owen 1977; for several levels, Winter 1989): the player's contribution, averaged over
    /// all orders in which the members of a union join one after the other. It needs unions
    /// (`Question::unions`).
    Owen,
    /// Interactions of all sets of players up to a given size.
    Interaction {
        /// The kind of interaction index.
        kind: Interaction,
        /// The size of the largest sets, from 2 (pairs) to 8.
        order: usize,
    },
}

/// The largest order of interactions.
pub const HIGHEST: usize = 8;

/// Interaction indices. S ⊂ T are sets of players; the order is the size of the largest sets that get a
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interaction {
    /// The Shapley interaction index (Grabisch and Roubens 1999); players get Shapley values.
    Sii,
    /// Shapley interaction values, or n-Shapley values (Lundberg, Erion and Lee 2018; Bordt and von Luxburg
    /// 2023). To the Shapley interaction index of a set S they add the indices of its supersets T times the
    /// Bernoulli number `B(|T| - |S|)`. For pairs, half of the pair's index is subtracted from each of its
    /// players.
    KSii,
    /// The Shapley–Taylor index (Sundararajan, Dhamdhere and Agarwal 2020): smaller sets get their Möbius
    /// values, and the largest sets share the remainder of the prediction.
    Stii,
    /// The faithful Shapley index (Tsai, Yeh and Ravikumar 2023): the sum over sets up to this size that is
    /// nearest to the game, with the weights of Shapley values.
    Fsii,
    /// The Banzhaf interaction index (Grabisch and Roubens 1999); players get Banzhaf values.
    Bii,
    /// The faithful Banzhaf index (Hammer and Holzman 1992; Tsai, Yeh and Ravikumar 2023): the sum over sets
    /// up to this size that is nearest to the game, with equal weights for all coalitions.
    Fbii,
    /// The Möbius transform, or Harsanyi dividends: the contribution of a player alone, of two players beyond
    /// their single contributions, and so on.
    Moebius,
}

impl Interaction {
    /// The kinds with their text and their name.
    const KINDS: [(Self, &'static str, &'static str); 7] = [
        (Self::Sii, "sii", "Shapley interaction index"),
        (Self::KSii, "k-sii", "Shapley interaction value"),
        (Self::Stii, "stii", "Shapley–Taylor value"),
        (Self::Fsii, "fsii", "faithful Shapley value"),
        (Self::Bii, "bii", "Banzhaf interaction index"),
        (Self::Fbii, "fbii", "faithful Banzhaf value"),
        (Self::Moebius, "moebius", "Möbius value"),
    ];

    fn names(self) -> (&'static str, &'static str) {
        let entry = Self::KINDS.iter().find(|(kind, _, _)| *kind == self);
        entry.map_or(("", ""), |(_, text, name)| (text, name))
    }
}

/// The forms of an index as text.
pub(crate) const FORMS: &str = "it is shapley, owen, banzhaf, banzhaf(T) with T from 0 to 1, \
                                beta-shapley(ALPHA, BETA) with numbers from 0.01 to 1000, semivalue(T: \
                                WEIGHT, …) with weights that sum to 1, leave-one-out or first-order; with \
                                pairs of features sii, k-sii, stii, fsii, bii, fbii or moebius; with sets \
                                of up to K features, from 2 to 8, sii(K), k-sii(K) and so on";

impl ValueIndex {
    /// The index's name in reports.
    pub fn name(self) -> String {
        match self {
            Self::Shapley => "Shapley value".into(),
            Self::Banzhaf { inclusion_probability: 0.0 } => "first-order value".into(),
            Self::Banzhaf { inclusion_probability: 0.5 } => "Banzhaf value".into(),
            Self::Banzhaf { inclusion_probability: 1.0 } => "leave-one-out value".into(),
            Self::Banzhaf { inclusion_probability: chance } => format!("Banzhaf({chance}) value"),
            Self::BetaShapley { alpha, beta } => format!("Beta({alpha}, {beta})-Shapley value"),
            Self::Semivalue(distribution) => distribution.name(),
            Self::Owen => "Owen value".into(),
            Self::Interaction { kind, .. } => kind.names().1.into(),
        }
    }

    /// The plural of the name.
    pub fn names(self) -> String {
        let name = self.name();
        match name.split_once("semivalue") {
            Some((_, suffix)) => format!("semivalues{suffix}"),
            None => name
                .strip_suffix("index")
                .map_or_else(|| format!("{name}s"), |first| format!("{first}indices")),
        }
    }

    /// The meaning of the value, which completes the sentence "the value says …".
    pub fn meaning(self) -> String {
        match self {
            Self::Shapley => {
                "how much of the difference between the prediction and the base value is due to the feature"
                    .into()
            }
            Self::Owen => {
                "how much of the difference between the prediction and the base value is due to the \
                 feature, where unions of features share it out first"
                    .into()
            }
            Self::Banzhaf { inclusion_probability: 0.0 } => {
                "by how much the base value changes when the feature alone is present".into()
            }
            Self::Banzhaf { inclusion_probability: 1.0 } => {
                "by how much the prediction changes when the feature is absent".into()
            }
            Self::Banzhaf { inclusion_probability: chance } => format!(
                "how much the feature adds on average if each other one is present with probability {chance}"
            ),
            Self::BetaShapley { alpha, beta } => format!(
                "how much the feature adds on average if each other one is present with a probability whose \
                 mean is {}",
                beta / (alpha + beta)
            ),
            Self::Semivalue(distribution) => {
                format!(
                    "how much the feature adds on average if each other feature is present {}",
                    distribution.meaning()
                )
            }
            Self::Interaction { kind, order: 2 } => match kind {
                Interaction::Moebius => {
                    "by how much the base value changes when the feature alone is present, and for a pair, \
                     by how much more when both are"
                }
                Interaction::Stii => {
                    "by how much the base value changes when the feature alone is present, and for a pair, \
                     how much the two add together beyond that, on average over the others"
                }
                Interaction::Sii | Interaction::Bii => {
                    "how much the feature adds on average over the others, and for a pair, how much more the \
                     one adds if the other is present"
                }
                Interaction::KSii => {
                    "how much the feature adds on average over the others, minus its share of what \
                     pairs add together, and for a pair, how much the two add beyond their single values"
                }
                Interaction::Fsii | Interaction::Fbii => {
                    "how much the feature, or the pair of features, adds in the sum over features and \
                     pairs that is nearest to the model’s outputs with some features absent"
                }
            }
            .into(),
            Self::Interaction { kind, order } => match kind {
                Interaction::Moebius => {
                    "how much the set of features changes the base value when it alone is present, beyond \
                     its subsets"
                        .into()
                }
                Interaction::Stii => format!(
                    "how much the set of features changes the base value when it alone is present, beyond \
                     its subsets; and for {order} features, how much they add on average over the others"
                ),
                Interaction::Sii | Interaction::Bii => {
                    "how much the features of the set add together beyond its subsets, on average over \
                     the others"
                        .into()
                }
                Interaction::KSii => format!(
                    "how much the features of the set add together beyond its subsets, on average over \
                     the others, minus the share of larger sets of up to {order} features"
                ),
                Interaction::Fsii | Interaction::Fbii => format!(
                    "how much the set of features adds in the sum over sets of up to {order} features that \
                     is nearest to the model’s outputs with some features absent"
                ),
            },
        }
    }

    /// The size of the largest sets that get a value: 1 if only players do, 2 with pairs.
    pub fn order(self) -> usize {
        if let Self::Interaction { order, .. } = self { order } else { 1 }
    }

    /// The number of sets of players that get a value; `None` on overflow.
    pub fn sets(self, players: usize) -> Option<usize> {
        let (mut of_size, mut total) = (1_usize, 0_usize);
        for size in 1..=self.order().min(players) {
            of_size = of_size.checked_mul(players + 1 - size)? / size;
            total = total.checked_add(of_size)?;
        }
        Some(total)
    }

    /// Whether the values of all sets add up to the prediction minus the base value.
    pub fn is_efficient(self) -> bool {
        match self {
            Self::Shapley | Self::Owen => true,
            Self::Banzhaf { .. } | Self::Semivalue(_) => false,
            Self::BetaShapley { alpha, beta } => alpha == 1.0 && beta == 1.0,
            Self::Interaction { kind, .. } => {
                matches!(kind, Interaction::KSii | Interaction::Stii | Interaction::Fsii)
            }
        }
    }

    /// Checks the ranges of the numbers.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn validate(self) -> Result<()> {
        let shape = |v: f64| (0.01..=1000.0).contains(&v);
        let valid = match self {
            Self::Shapley | Self::Owen | Self::Semivalue(_) => true,
            Self::Interaction { order, .. } => (2..=HIGHEST).contains(&order),
            Self::Banzhaf { inclusion_probability: chance } => (0.0..=1.0).contains(&chance),
            Self::BetaShapley { alpha, beta } => shape(alpha) && shape(beta),
        };
        if valid { Ok(()) } else { Err(Error::parameter("index", self, FORMS)) }
    }

    /// Checks that games whose coalitions are valued one by one support this index.
    pub fn of_coalitions(self) -> Result<()> {
        match self {
            Self::Shapley => Ok(()),
            other => {
                let allowed = "functions, programs and the observational game have Shapley values only; \
                               other indices need a model whose kernel is known, and a game other than the \
                               observational one";
                Err(Error::parameter("index", other, allowed))
            }
        }
    }
}

impl fmt::Display for ValueIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shapley => write!(f, "shapley"),
            Self::Owen => write!(f, "owen"),
            Self::Banzhaf { inclusion_probability: 0.0 } => write!(f, "first-order"),
            Self::Banzhaf { inclusion_probability: 0.5 } => write!(f, "banzhaf"),
            Self::Banzhaf { inclusion_probability: 1.0 } => write!(f, "leave-one-out"),
            Self::Banzhaf { inclusion_probability: chance } => write!(f, "banzhaf({chance})"),
            Self::BetaShapley { alpha, beta } => write!(f, "beta-shapley({alpha}, {beta})"),
            Self::Semivalue(distribution) => write!(f, "semivalue({distribution})"),
            Self::Interaction { kind, order: 2 } => write!(f, "{}", kind.names().0),
            Self::Interaction { kind, order } => write!(f, "{}({order})", kind.names().0),
        }
    }
}

impl From<ValueIndex> for String {
    fn from(index: ValueIndex) -> Self {
        index.to_string()
    }
}

impl TryFrom<String> for ValueIndex {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl FromStr for ValueIndex {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::parameter("index", format!("'{text}'"), FORMS);
        let lower = text.trim().to_lowercase().replace('_', "-");
        if let Some(distribution) = lower.strip_prefix("semivalue") {
            return distribution.trim().parse().map(Self::Semivalue);
        }
        let (name, numbers) = match lower.split_once('(') {
            Some((name, arguments)) => {
                let numbers = arguments.strip_suffix(')').ok_or_else(invalid)?.split(',');
                let numbers = numbers.map(|v| v.trim().parse::<f64>()).collect::<Result<Vec<_>, _>>();
                (name.trim_end(), numbers.map_err(|_| invalid())?)
            }
            None => (lower.as_str(), Vec::new()),
        };
        let index = match (name, numbers.as_slice()) {
            ("shapley", []) => Self::Shapley,
            ("owen", []) => Self::Owen,
            ("banzhaf", []) => Self::Banzhaf { inclusion_probability: 0.5 },
            ("banzhaf", [chance]) => Self::Banzhaf { inclusion_probability: *chance },
            ("leave-one-out", []) => Self::Banzhaf { inclusion_probability: 1.0 },
            ("first-order", []) => Self::Banzhaf { inclusion_probability: 0.0 },
            ("beta-shapley", [alpha, beta]) => Self::BetaShapley { alpha: *alpha, beta: *beta },
            (name, order) => {
                let (kind, ..) =
                    Interaction::KINDS.iter().find(|(_, text, _)| *text == name).ok_or_else(invalid)?;
                let order = match order {
                    [] => 2,
                    [order] if order.fract() == 0.0 && *order >= 0.0 => *order as usize,
                    _ => return Err(invalid()),
                };
                Self::Interaction { kind: *kind, order }
            }
        };
        index.validate()?;
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        for text in [
            "shapley",
            "banzhaf",
            "banzhaf(0.3)",
            "leave-one-out",
            "first-order",
            "beta-shapley(4, 1)",
            "semivalue(0.2: 0.5, 0.8: 0.5)",
            "k-sii",
            "moebius",
            "fsii(3)",
        ] {
            let index: ValueIndex = text.parse().unwrap();
            assert_eq!(index.to_string(), text);
            assert_eq!(
                serde_json::from_str::<ValueIndex>(&serde_json::to_string(&index).unwrap()).unwrap(),
                index
            );
        }
        assert_eq!(
            "Beta_Shapley( 16,1 )".parse::<ValueIndex>().unwrap(),
            ValueIndex::BetaShapley { alpha: 16.0, beta: 1.0 }
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
            "k-sii(1)",
            "k-sii(2.5)",
            "k-sii(9)",
            "k-sii(2, 3)",
        ] {
            assert!(text.parse::<ValueIndex>().is_err(), "{text}");
        }
    }
}

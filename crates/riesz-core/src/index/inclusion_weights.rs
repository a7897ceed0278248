//! Discrete distributions of the inclusion probability of a semivalue: probabilities and their weights, given
//! by the user. A [`ValueIndex`](crate::ValueIndex) is `Copy`, so each distinct list is stored once and never
//! freed.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use super::FORMS;
use crate::error::{Error, Result};

/// Tolerance for the sum of the weights, which are rounded.
const SLACK: f64 = 1e-9;

/// The largest number of probabilities in a distribution.
const MAX_PROBABILITIES: usize = 1000;

/// The number of probabilities that the name of an index lists.
const MAX_LISTED: usize = 3;

/// Probabilities from 0 to 1 with their weights, which are not negative and sum to 1. As text:
/// `0.2: 0.5, 0.8: 0.5`.
#[derive(Clone, Copy, PartialEq)]
pub struct InclusionDistribution(&'static [[f64; 2]]);

impl InclusionDistribution {
    /// Builds the distribution from pairs of a probability and its weight. Weights are not normalised.
    ///
    /// # Errors
    /// [`Error::Parameter`] for no pairs or more than 1000, for a probability outside [0, 1], for negative
    /// weights, and for weights whose sum differs from 1 by more than 1e-9.
    pub fn new(weighted_probabilities: &[[f64; 2]]) -> Result<Self> {
        let refuse =
            |allowed: String| Err(Error::parameter("index", format_list(weighted_probabilities), allowed));
        if weighted_probabilities.is_empty() || weighted_probabilities.len() > MAX_PROBABILITIES {
            return refuse(format!("it takes 1 to {MAX_PROBABILITIES} probabilities with their weights"));
        }
        if let Some([t, _]) = weighted_probabilities.iter().find(|[t, _]| !(0.0..=1.0).contains(t)) {
            return refuse(format!("{t} is not a probability from 0 to 1"));
        }
        let sum: f64 = weighted_probabilities.iter().map(|[_, weight]| weight).sum();
        if let Some([_, weight]) =
            weighted_probabilities.iter().find(|[_, weight]| !(0.0..=1.0 + SLACK).contains(weight))
        {
            return refuse(format!("the weight {weight} is not a number from 0 to 1"));
        }
        if (sum - 1.0).abs() > SLACK {
            return refuse(format!("the weights must sum to 1, but sum to {sum}: divide each by the sum"));
        }
        // Adding 0 turns -0 into 0.
        let pairs: Vec<[f64; 2]> =
            weighted_probabilities.iter().map(|[t, weight]| [t + 0.0, weight + 0.0]).collect();
        Ok(Self(kept(pairs)))
    }

    /// The probabilities with their weights.
    pub fn weighted_probabilities(self) -> &'static [[f64; 2]] {
        self.0
    }

    /// The name of the semivalue in reports.
    pub(super) fn name(self) -> String {
        if self.0.len() > MAX_LISTED {
            format!("semivalue by {} probabilities", self.0.len())
        } else {
            format!("semivalue({self})")
        }
    }

    /// Completes the sentence "if each other feature is present …".
    pub(super) fn meaning(self) -> String {
        if self.0.len() > MAX_LISTED {
            let mean: f64 = self.0.iter().map(|[t, weight]| t * weight).sum();
            return format!("with one of {} probabilities, whose mean is {mean}", self.0.len());
        }
        let describe = |[t, weight]: &[f64; 2]| format!("probability {t} (weight {weight})");
        format!("with {}", self.0.iter().map(describe).collect::<Vec<_>>().join(" or "))
    }
}

impl FromStr for InclusionDistribution {
    type Err = Error;

    /// Parses `(0.2: 0.5, 0.8: 0.5)`.
    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::parameter("index", format!("'semivalue{text}'"), FORMS);
        let list =
            text.strip_prefix('(').and_then(|stripped| stripped.strip_suffix(')')).ok_or_else(invalid)?;
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let parse_pair = |text: &str| {
            let (t, weight) = text.split_once(':')?;
            Some([number(t)?, number(weight)?])
        };
        let pairs: Option<Vec<_>> = list.split(',').map(parse_pair).collect();
        Self::new(&pairs.ok_or_else(invalid)?)
    }
}

/// The stored list that equals this one.
fn kept(pairs: Vec<[f64; 2]>) -> &'static [[f64; 2]] {
    static LISTS: Mutex<Vec<&'static [[f64; 2]]>> = Mutex::new(Vec::new());
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stored) = lists.iter().find(|list| ***list == pairs[..]) {
        return stored;
    }
    let list: &'static [[f64; 2]] = pairs.leak();
    lists.push(list);
    list
}

/// Formats the list, shortened if it is long.
fn format_list(weighted_probabilities: &[[f64; 2]]) -> String {
    let mut terms: Vec<String> = weighted_probabilities.iter().take(MAX_LISTED).map(written).collect();
    if weighted_probabilities.len() > MAX_LISTED {
        terms.push("…".into());
    }
    format!("semivalue({})", terms.join(", "))
}

fn written([t, weight]: &[f64; 2]) -> String {
    format!("{t}: {weight}")
}

impl fmt::Display for InclusionDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(written).collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for InclusionDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_list_is_kept_once() {
        let two_points = |t: f64| InclusionDistribution::new(&[[t, 0.25], [0.5, 0.75]]).unwrap();
        let (a, b) = (two_points(0.125), two_points(0.125));
        assert!(std::ptr::eq(a.0, b.0) && a == b && two_points(0.25) != a);
        assert_eq!(
            (a.to_string(), two_points(-0.0).to_string()),
            ("0.125: 0.25, 0.5: 0.75".into(), "0: 0.25, 0.5: 0.75".into())
        );
        let long: Vec<[f64; 2]> = (0..4).map(|k| [f64::from(k) / 4.0, 0.25]).collect();
        let long = InclusionDistribution::new(&long).unwrap();
        assert_eq!(long.name(), "semivalue by 4 probabilities");
        assert_eq!(long.meaning(), "with one of 4 probabilities, whose mean is 0.375");
    }

    #[test]
    fn invalid_inclusion_distributions_are_refused() {
        for (distribution, words) in [
            (&[][..], "1 to 1000 probabilities"),
            (&[[1.5, 1.0]], "1.5 is not a probability from 0 to 1"),
            (&[[f64::NAN, 1.0]], "NaN is not a probability"),
            (&[[0.5, 0.5], [0.6, 0.4]], "sum to 0.9"),
            (&[[0.5, 1.5], [0.6, -0.5]], "the weight 1.5 is not"),
            (&[[0.5, f64::NAN]], "the weight NaN is not"),
        ] {
            let message = InclusionDistribution::new(distribution).unwrap_err().to_string();
            assert!(message.contains(words) && message.starts_with("index = semivalue("), "{message}");
        }
        assert!(InclusionDistribution::new(&[[0.5, 0.0]; 1001]).is_err());
    }
}

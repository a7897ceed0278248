//! The duels of an explanation's rows. Pages, plots and tables call rows by these names.

use serde::{Deserialize, Serialize};

use super::Explanation;
use crate::error::{Error, Result};

/// A duel, or a mean of some.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Duel {
    /// Who stands on the left; values say what makes this one win.
    pub left: String,
    /// Who stands on the right.
    pub right: String,
    /// Who is likely to win; `None` where the model has no posterior, and of a mean over several duels.
    #[serde(rename = "chance", default, skip_serializing_if = "Option::is_none")]
    pub win_probability: Option<WinProbability>,
}

/// Who is likely to win a duel, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WinProbability {
    /// The probability that the left item wins, averaged over the posterior.
    pub probability: f64,
    /// A 95 % interval of the probability that the left one wins: that at either end of the central interval
    /// of the log odds. Where `probability`, a mean, lies beyond one of them, the interval reaches to it.
    pub interval: [f64; 2],
    /// The probability of a tie, averaged over the posterior; `None` where ties are no outcome of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<f64>,
    /// The posterior probability that the left item's advantage is positive.
    pub superiority: f64,
}

impl Duel {
    /// "C26 against C02".
    pub fn name(&self) -> String {
        format!("{} against {}", self.left, self.right)
    }

    /// Who wins, in a sentence; `None` where it is not said.
    pub fn words(&self) -> Option<String> {
        let WinProbability { probability, interval: [low, high], tie, superiority } = self.win_probability?;
        let tied = tie.map_or_else(String::new, |tie| format!("they tie with probability {tie:.2}; "));
        Some(format!(
            "{} beats {} with probability {probability:.2} (95 % {low:.2} to {high:.2}; {tied}it is the \
             better one with probability {superiority:.2})",
            self.left, self.right
        ))
    }
}

impl Explanation {
    /// The words for one row and for several: "duel" and "duels" where rows are duels.
    pub fn row_words(&self) -> [&'static str; 2] {
        if self.duels.is_some() { ["duel", "duels"] } else { ["row", "rows"] }
    }

    /// The name of row `i`, by its number or by who meets whom.
    pub fn row_name(&self, i: usize) -> String {
        match &self.duels {
            Some(duels) => duels[i].name(),
            None => format!("row {}", self.row_numbers[i]),
        }
    }
}

/// Checks that these are `rows` duels with valid probabilities.
pub(super) fn validate(duels: &[Duel], rows: usize) -> Result<()> {
    let broken = |problem: String| Err(Error::Format { problem });
    if duels.len() != rows {
        return broken(format!("the explanation names {} duels and has {rows} rows", duels.len()));
    }
    let win_probabilities = duels.iter().filter_map(|duel| duel.win_probability);
    for WinProbability { probability, interval: [low, high], tie, superiority } in win_probabilities {
        let probabilities = [probability, low, high, superiority, tie.unwrap_or(0.0)];
        if probabilities.iter().any(|p| !(0.0..=1.0).contains(p)) {
            return broken("the explanation has a probability of a duel that is not from 0 to 1".into());
        }
    }
    Ok(())
}

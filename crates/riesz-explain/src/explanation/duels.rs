//! Duels of an explanation's rows, which name the rows in pages, plots and tables.

use serde::{Deserialize, Serialize};

use super::Explanation;
use crate::error::{Error, Result};

/// A duel of two items, or a mean over several duels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Duel {
    /// The item on the left, whose advantage the values explain.
    pub left: String,
    /// The item on the right.
    pub right: String,
    /// Probability that the left item wins; `None` if the model has no posterior, and for a mean over several
    /// duels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub win_probability: Option<WinProbability>,
}

/// Posterior probabilities of the outcome of a duel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WinProbability {
    /// The probability that the left item wins, averaged over the posterior.
    pub probability: f64,
    /// A 95 % interval of the probability that the left item wins. Its ends are the probabilities at the ends
    /// of the central interval of the log odds. It is extended to contain `probability`, a mean that may lie
    /// outside.
    pub interval: [f64; 2],
    /// The probability of a tie, averaged over the posterior; `None` if ties are not a separate outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<f64>,
    /// The posterior probability that the left item's advantage is positive.
    pub probability_better: f64,
}

impl Duel {
    /// Name of the duel, for example "C26 against C02".
    pub fn name(&self) -> String {
        format!("{} against {}", self.left, self.right)
    }

    /// A sentence about the probability that the left item wins; `None` if it is unknown.
    pub fn words(&self) -> Option<String> {
        let WinProbability { probability, interval: [low, high], tie, probability_better } =
            self.win_probability?;
        let tied = tie.map_or_else(String::new, |tie| format!("they tie with probability {tie:.2}; "));
        Some(format!(
            "{} beats {} with probability {probability:.2} (95 % {low:.2} to {high:.2}; {tied}it is the \
             better one with probability {probability_better:.2})",
            self.left, self.right
        ))
    }
}

impl Explanation {
    /// The words for one row and for several: "duel" and "duels" where rows are duels.
    pub fn row_words(&self) -> [&'static str; 2] {
        if self.duels.is_some() { ["duel", "duels"] } else { ["row", "rows"] }
    }

    /// The name of row `i`: its duel if rows are duels, else its number.
    pub fn row_name(&self, i: usize) -> String {
        match &self.duels {
            Some(duels) => duels[i].name(),
            None => format!("row {}", self.row_numbers[i]),
        }
    }
}

/// Checks that these are `rows` duels with valid probabilities.
pub(super) fn validate(duels: &[Duel], rows: usize) -> Result<()> {
    let broken = |problem: String| Err(Error::format(problem));
    if duels.len() != rows {
        return broken(format!("the explanation names {} duels and has {rows} rows", duels.len()));
    }
    let win_probabilities = duels.iter().filter_map(|duel| duel.win_probability);
    for WinProbability { probability, interval: [low, high], tie, probability_better } in win_probabilities {
        let probabilities = [probability, low, high, probability_better, tie.unwrap_or(0.0)];
        if probabilities.iter().any(|p| !(0.0..=1.0).contains(p)) {
            return broken("the explanation has a probability of a duel that is not from 0 to 1".into());
        }
    }
    Ok(())
}

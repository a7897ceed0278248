//! Comparison of models of the same duels by their marginal likelihoods: whether there are cycles, and
//! whether users differ.

use super::duels::Duels;
use super::gp_preference::{PreferenceFit, PreferenceProcess};
use super::pair_kernel::ContextKernel;
use crate::error::{Error, Result};
use crate::table::Table;

/// Log Bayes factors above these are evidence, and strong evidence (Kass and Raftery 1995).
const EVIDENCE: f64 = 1.0;
const STRONG_EVIDENCE: f64 = 3.0;

/// The marginal likelihoods of the same duels under three priors: a utility, the generalised part, and both.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEvidence {
    /// The log marginal likelihood of a utility and a generalised part together.
    pub nested: f64,
    /// The log marginal likelihood of a utility alone.
    pub utility: f64,
    /// The log marginal likelihood of the generalised part alone.
    pub generalised: f64,
}

impl ModelEvidence {
    /// Returns the log Bayes factor of the nested model against the utility alone, as if tuned parameters
    /// were known. If it is negative, a ranking is sufficient.
    pub fn cycles(&self) -> f64 {
        self.nested - self.utility
    }

    /// Returns what [`cycles`](Self::cycles) says as a sentence.
    pub fn verdict(&self) -> String {
        let conclusion = by_strength(
            self.cycles(),
            ["a ranking explains these duels", "there may be cycles", "there are cycles"],
        );
        format!(
            "{conclusion}: the log Bayes factor of cycles against a utility alone is {:.1}",
            self.cycles()
        )
    }

    /// Fits `process` in three forms: with both parts, and with each part alone. In the nested form a part
    /// without a variance takes that of the other part. Cost of three fits.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`].
    pub fn compare(process: &PreferenceProcess, items: &Table, duels: &Duels) -> Result<Self> {
        let prior = &process.prior;
        let variance_or = |variance: f64, other: f64| if variance > 0.0 { variance } else { other };
        let utility = variance_or(prior.utility_variance, prior.generalised_variance);
        let generalised = variance_or(prior.generalised_variance, prior.utility_variance);
        let mut nested = process.clone();
        (nested.prior.utility_variance, nested.prior.generalised_variance) = (utility, generalised);
        Self::from_nested_evidence(nested.fit(items, duels)?.log_marginal_likelihood, &nested, items, duels)
    }

    /// Returns the evidence, given the log marginal likelihood of the nested `process`. Further utilities
    /// belong to the nested model and to the ranking, not to the generalised part alone. Cost of two fits.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`].
    pub fn from_nested_evidence(
        nested: f64,
        process: &PreferenceProcess,
        items: &Table,
        duels: &Duels,
    ) -> Result<Self> {
        let value =
            |process: &PreferenceProcess| process.fit(items, duels).map(|fit| fit.log_marginal_likelihood);
        let [mut ranking, mut cycles] = [process.clone(), process.clone()];
        ranking.prior.generalised_variance = 0.0;
        (cycles.prior.utility_variance, cycles.prior.extra_utility_kernel) = (0.0, None);
        Ok(Self { nested, utility: value(&ranking)?, generalised: value(&cycles)? })
    }
}

/// The marginal likelihoods of the same duels under two priors of utilities: with a utility for each user,
/// and with one utility for all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UserEvidence {
    /// The log marginal likelihood of a utility for each user, which have a tuned part in common.
    pub per_user: f64,
    /// The log marginal likelihood of one utility for all users.
    pub shared: f64,
}

impl UserEvidence {
    /// Returns the log Bayes factor of utilities per user against one utility, as if tuned parameters were
    /// known. If it is negative, one ranking for all users is sufficient.
    pub fn log_bayes_factor(&self) -> f64 {
        self.per_user - self.shared
    }

    /// Returns what the log Bayes factor says as a sentence.
    pub fn verdict(&self) -> String {
        let factor = self.log_bayes_factor();
        let conclusion = by_strength(
            factor,
            ["there is no evidence that users differ", "users may differ", "users differ"],
        );
        format!("{conclusion}: the log Bayes factor of a utility per user against one for all is {factor:.1}")
    }

    /// Fits the utility of `process`, without its generalised part, to duels in contexts: the users. Returns
    /// the evidence, and the fit with a utility per user. Cost of two fits.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`]; [`Error::Parameter`] for a process without contexts.
    pub fn compare(
        process: &PreferenceProcess,
        items: &Table,
        duels: &Duels,
    ) -> Result<(Self, PreferenceFit)> {
        let mut per_user = process.clone();
        if per_user.prior.utility_variance == 0.0 && per_user.prior.extra_utility_kernel.is_none() {
            per_user.prior.utility_variance = per_user.prior.generalised_variance;
        }
        per_user.prior.generalised_variance = 0.0;
        let Some(contexts) = per_user.prior.contexts.clone() else {
            return Err(Error::parameter("users", "none", "a comparison of users needs duels with users"));
        };
        let mut shared = per_user.clone();
        shared.prior.contexts = Some(ContextKernel { shared: 1.0, ..contexts });
        let shared = shared.fit(items, duels)?.log_marginal_likelihood;
        let fit = per_user.fit(items, duels)?;
        Ok((Self { per_user: fit.log_marginal_likelihood, shared }, fit))
    }
}

/// Returns the conclusion for no evidence, weak evidence or strong evidence.
fn by_strength(log_bayes_factor: f64, [none, weak, strong]: [&str; 3]) -> &str {
    match log_bayes_factor {
        factor if factor >= STRONG_EVIDENCE => strong,
        factor if factor >= EVIDENCE => weak,
        _ => none,
    }
}

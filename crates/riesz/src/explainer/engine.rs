//! The interface of the engines that compute the values of a game: what each can do, and how one that cannot
//! says so. A new game is one implementation, and one arm where an [`Explainer`](super::Explainer) chooses.

use std::sync::Arc;

use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::attribution::top_pair_search::SearchLimits;
use crate::control::Progress;
use crate::error::{Error, Result};
use crate::explanation::{Explanation, TopInteractions, check_top};
use crate::index::ValueIndex;
use crate::linalg::Matrix;
use crate::posterior::{Functionals, Posterior};
use crate::simd::Isa;
use crate::table::{Players, Table};

/// An engine for the values of one game of one model. What an engine does not implement is refused by
/// [`unsupported`](Self::unsupported). The methods of [`Explainer`](super::Explainer) of the same names say
/// what each computes.
pub(super) trait GameEngine: Send + Sync {
    /// The players.
    fn players(&self) -> &Players;

    /// The index of the values.
    fn index(&self) -> ValueIndex;

    /// The name of the game.
    fn game_name(&self) -> &'static str;

    /// Describes the meaning of an absent feature in a sentence.
    fn describe_absence(&self) -> String;

    /// The value of the empty coalition, for each output.
    fn base_values(&self) -> &[f64];

    /// The values of every row. An engine that samples coalitions values as many as `budget` allows,
    /// continues from those in `sample`, and stores there what it adds.
    fn explain(&self, rows: &Table, budget: Budget, sample: Option<&mut SampleState>) -> Result<Explanation>;

    /// The error for a request that the engine does not support; `request` is the noun of a sentence.
    fn unsupported(&self, request: &str) -> Error {
        Error::parameter("game", self.game_name(), format!("it has no {request}: take another game"))
    }

    /// Sets the instruction set.
    fn set_isa(&mut self, _: Isa) {}

    /// Sets where progress is reported. Engines that value coalitions do not report it.
    fn set_progress(&mut self, _: Arc<Progress>) {}

    /// Whether values are estimated from coalitions, as many as a budget allows.
    fn samples_coalitions(&self) -> bool {
        false
    }

    /// The number of rows to pass in one call.
    fn max_batch_rows(&self, _with_covariance: bool) -> usize {
        256
    }

    /// The values of `players` as linear functionals of the coefficients, for each a matrix points × rows.
    fn functionals(&self, _rows: &Table, _players: &[usize]) -> Result<Vec<Matrix>> {
        Err(self.unsupported("functionals"))
    }

    /// The largest number of coalitions that [`functionals`](Self::functionals) samples; `None` where it
    /// takes all.
    fn sampled_functionals(&self) -> Option<usize> {
        None
    }

    /// The values of all players in all rows as functionals of f, whose columns `mirror` swaps if it is skew.
    fn posterior_functionals(&self, _rows: &Table, _mirror: Option<&[usize]>) -> Result<Functionals> {
        Err(self.unsupported("covariances"))
    }

    /// Checks that values have covariances under `posterior`, before any is computed.
    fn check_covariances(&self, _: &Posterior<'_>) -> Result<()> {
        Err(self.unsupported("covariances"))
    }

    /// The covariance of the values of each row under `posterior`, rows × outputs × players × players.
    fn covariances(&self, _rows: &Table, _: &Posterior<'_>) -> Result<Vec<f64>> {
        Err(self.unsupported("covariances"))
    }

    /// For each output, rows × (players + 1): Shapley values of the variance game.
    fn variance_shares(&self, _rows: &Table, _: &Posterior<'_>) -> Result<Vec<Matrix>> {
        Err(self.unsupported("shares of the variance"))
    }

    /// For each output, a bound on the change of any value if each column j moves by at most `delta[j]`.
    fn robustness(&self, _delta: &[f64]) -> Result<Vec<f64>> {
        Err(self.unsupported("such bounds"))
    }

    /// Checks that `count` strongest pairs can be found.
    fn check_pairs(&self, count: usize) -> Result<()> {
        check_top(self.index(), count)
    }

    /// The strongest pairs of each row by a search; `None` where they are picked from the values of all
    /// pairs.
    fn strongest_pairs(&self, _rows: &Table, _limits: SearchLimits) -> Result<Option<TopInteractions>> {
        Ok(None)
    }
}

//! The interface of the engines that compute the values of a game, with an error as default for what an
//! engine cannot compute. A new game needs one implementation, and one arm in the constructor of
//! [`Explainer`](super::Explainer).

use std::borrow::Cow;
use std::sync::Arc;

use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::attribution::top_pair_search::SearchLimits;
use crate::control::Progress;
use crate::error::{Error, Result};
use crate::explanation::{ConditioningPart, Explanation, TopInteractions, check_top};
use crate::game::Game;
use crate::index::ValueIndex;
use crate::linalg::Matrix;
use crate::posterior::{Functionals, Posterior};
use crate::simd::Isa;
use crate::table::{Players, Table};

/// An engine for the values of one game of one model. Methods that an engine does not implement fail with
/// [`unsupported`](Self::unsupported). The methods of [`Explainer`](super::Explainer) of the same names
/// document what each computes.
pub(super) trait GameEngine: Send + Sync {
    /// The players.
    fn players(&self) -> &Players;

    /// The index of the values, and the game.
    fn game(&self) -> (ValueIndex, Cow<'_, Game>);

    /// The name of the game.
    fn game_name(&self) -> &'static str {
        self.game().1.name()
    }

    /// Describes the meaning of an absent feature in a sentence.
    fn describe_absence(&self) -> String {
        self.game().1.absent()
    }

    /// The value of the empty coalition, for each output.
    fn base_values(&self) -> &[f64];

    /// Returns the values of every row. An engine that samples coalitions values at most as many as `budget`
    /// allows, continues from those in `sample`, and adds its own there.
    fn explain(&self, rows: &Table, budget: Budget, sample: Option<&mut SampleState>) -> Result<Explanation>;

    /// The error for a request that the engine does not support; `request` is a noun phrase.
    fn unsupported(&self, request: &str) -> Error {
        Error::parameter("game", self.game_name(), format!("this game has no {request}: take another game"))
    }

    /// Sets the instruction set.
    fn set_isa(&mut self, _: Isa) {}

    /// Sets the counter of progress. Engines that value coalitions do not report it.
    fn set_progress(&mut self, _: Arc<Progress>) {}

    /// Whether values are estimated from coalitions, whose number a budget limits.
    fn samples_coalitions(&self) -> bool {
        false
    }

    /// The largest number of players whose coalitions are valued together: of a group, if the players are
    /// ordered in groups.
    fn largest_group(&self) -> usize {
        self.players().players().len()
    }

    /// The number of rows to pass in one call.
    fn max_batch_rows(&self, _with_covariance: bool) -> usize {
        256
    }

    /// Returns the values of `players` as linear functionals of the coefficients, for each a matrix points ×
    /// rows.
    fn functionals(&self, _rows: &Table, _players: &[usize]) -> Result<Vec<Matrix>> {
        Err(self.unsupported("functionals"))
    }

    /// The largest number of coalitions that [`functionals`](Self::functionals) samples; `None` where it uses
    /// all.
    fn sampled_functionals(&self) -> Option<usize> {
        None
    }

    /// Returns the values of all players in all rows as functionals of f. If f is skew, `mirror` swaps its
    /// columns.
    fn posterior_functionals(&self, _rows: &Table, _mirror: Option<&[usize]>) -> Result<Functionals> {
        Err(self.unsupported("covariances"))
    }

    /// Checks that values have covariances under `posterior`, before any is computed.
    fn check_covariances(&self, _: &Posterior<'_>) -> Result<()> {
        Err(self.unsupported("covariances"))
    }

    /// Returns the covariance of the values of each row under `posterior`, rows × outputs × players ×
    /// players.
    fn covariances(&self, _rows: &Table, _: &Posterior<'_>) -> Result<Vec<f64>> {
        Err(self.unsupported("covariances"))
    }

    /// Returns the part of the uncertainty of values that comes from the estimation of conditional
    /// distributions, and the number of reference rows.
    fn conditioning_covariance(&self, _rows: &Table) -> Result<(ConditioningPart, usize)> {
        Err(self.unsupported("uncertainty of conditional distributions"))
    }

    /// Returns, for each output, the Shapley values of the variance game, rows × (players + 1).
    fn variance_shares(&self, _rows: &Table, _: &Posterior<'_>) -> Result<Vec<Matrix>> {
        Err(self.unsupported("shares of the variance"))
    }

    /// Returns, for each output, a bound on the change of any value if each column j moves by at most
    /// `delta[j]`.
    fn robustness(&self, _delta: &[f64]) -> Result<Vec<f64>> {
        Err(self.unsupported("bounds on the change of values"))
    }

    /// Checks that the `count` strongest pairs can be found.
    fn check_pairs(&self, count: usize) -> Result<()> {
        check_top(self.game().0, count)
    }

    /// Returns the strongest pairs of each row by a search; `None` if they are to be selected from the values
    /// of all pairs.
    fn strongest_pairs(&self, _rows: &Table, _limits: SearchLimits) -> Result<Option<TopInteractions>> {
        Ok(None)
    }
}

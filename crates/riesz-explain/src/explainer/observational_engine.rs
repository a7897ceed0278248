//! The engine for the observational game: it passes the interface on to [`ObservationalGame`].

use std::borrow::Cow;

use super::engine::GameEngine;
use super::{robustness, value_covariance};
use crate::attribution::coalition_covariance::RowPairs;
use crate::attribution::observational::ObservationalGame;
use crate::attribution::player_contributions::uses_all_coalitions;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::explanation::{ConditioningPart, Explanation};
use crate::game::Game;
use crate::index::ValueIndex;
use crate::linalg::Matrix;
use crate::posterior::{Functionals, Posterior};
use crate::table::{Players, Table};

/// Checks that values are those of all orders, which `request` needs.
fn reject_asymmetric(game: &ObservationalGame<'_>, request: &str) -> Result<()> {
    if game.ordering.len() < 2 {
        return Ok(());
    }
    let allowed = format!("asymmetric values have no {request}: leave the ordering out");
    Err(Error::parameter("ordering", format!("{} groups", game.ordering.len()), allowed))
}

impl GameEngine for ObservationalGame<'_> {
    fn players(&self) -> &Players {
        &self.groups
    }

    fn game(&self) -> (ValueIndex, Cow<'_, Game>) {
        (ValueIndex::Shapley, Cow::Owned(self.observational_game()))
    }

    fn game_name(&self) -> &'static str {
        Game::NAMES[4]
    }

    fn base_values(&self) -> &[f64] {
        &self.base
    }

    fn explain(&self, rows: &Table, budget: Budget, sample: Option<&mut SampleState>) -> Result<Explanation> {
        ObservationalGame::explain(self, rows, budget, sample)
    }

    fn samples_coalitions(&self) -> bool {
        true
    }

    fn largest_group(&self) -> usize {
        self.ordering.iter().map(|group| group.members.len()).max().unwrap_or(0)
    }

    fn max_batch_rows(&self, _: bool) -> usize {
        self.rows_at_once()
    }

    fn functionals(&self, rows: &Table, players: &[usize]) -> Result<Vec<Matrix>> {
        reject_asymmetric(self, "functionals")?;
        players.iter().map(|&player| ObservationalGame::functionals(self, rows, player)).collect()
    }

    fn sampled_functionals(&self) -> Option<usize> {
        (!uses_all_coalitions(self.groups.players().len(), &self.budget)).then_some(self.budget.coalitions)
    }

    fn posterior_functionals(&self, rows: &Table, _: Option<&[usize]>) -> Result<Functionals> {
        reject_asymmetric(self, "covariances")?;
        value_covariance::check_finite(ObservationalGame::posterior_functionals(self, rows, RowPairs::All)?)
    }

    fn check_covariances(&self, posterior: &Posterior<'_>) -> Result<()> {
        reject_asymmetric(self, "covariances")?;
        value_covariance::reject_skew(posterior.mirror())?;
        ObservationalGame::check_covariances(self)
    }

    fn covariances(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<f64>> {
        let counts = (self.groups.players().len(), self.rows_with_covariances());
        value_covariance::by_coalitions(rows, counts, posterior, RunControl::none(), |rows, pairs| {
            ObservationalGame::posterior_functionals(self, rows, pairs)
        })
    }

    fn conditioning_covariance(&self, rows: &Table) -> Result<(ConditioningPart, usize)> {
        reject_asymmetric(self, "uncertainty of conditional distributions")?;
        ObservationalGame::conditioning_covariance(self, rows)
    }

    fn variance_shares(&self, _: &Table, _: &Posterior<'_>) -> Result<Vec<Matrix>> {
        let allowed = "shares of the variance need an exact game with a background or a baseline";
        Err(Error::parameter("game", "observational", allowed))
    }

    fn robustness(&self, delta: &[f64]) -> Result<Vec<f64>> {
        reject_asymmetric(self, "bounds on their change")?;
        robustness::bound(self.model, Some(self.conditioning()?), delta)
    }

    fn check_pairs(&self, count: usize) -> Result<()> {
        let allowed = "the observational game has values of single features only: take another game";
        Err(Error::parameter("top interactions", count, allowed))
    }
}

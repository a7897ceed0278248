//! The engine for the causal game: it passes the interface on to [`CausalGame`].

use std::borrow::Cow;

use super::engine::GameEngine;
use crate::attribution::observational::causal::CausalGame;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::error::Result;
use crate::explanation::Explanation;
use crate::game::Game;
use crate::index::ValueIndex;
use crate::table::{Players, Table};

impl GameEngine for CausalGame<'_> {
    fn players(&self) -> &Players {
        &self.groups
    }

    fn game(&self) -> (ValueIndex, Cow<'_, Game>) {
        (ValueIndex::Shapley, Cow::Owned(self.causal_game()))
    }

    fn game_name(&self) -> &'static str {
        Game::NAMES[5]
    }

    fn base_values(&self) -> &[f64] {
        &self.base
    }

    fn explain(&self, rows: &Table, budget: Budget, sample: Option<&mut SampleState>) -> Result<Explanation> {
        CausalGame::explain(self, rows, budget, sample)
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
}

//! Outputs of all coalitions of few players, from [tables](super::product_engine), for statistics of
//! coalitions that are no value of an output.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::product_engine::ProductEngine;
use crate::error::{Error, Result};
use crate::game::{Background, Game};
use crate::index::ValueIndex;
use crate::kernel_model::KernelExpansion;
use crate::table::Players;

/// The largest number of players whose coalitions are all valued.
const MAX_PLAYERS: usize = 13;

/// The outputs of all coalitions of a model's players in the interventional game.
pub(crate) struct CoalitionOutputs<'m> {
    products: ProductEngine<'m>,
    players: usize,
}

impl<'m> CoalitionOutputs<'m> {
    /// Makes the tables. `None` for models without such tables: of more than 13 players, of kernels that are
    /// no sums of products with factors of 1 at most, or so many support points that tables take too much
    /// memory.
    ///
    /// # Errors
    /// Whatever is wrong with the background; [`Error::Interrupted`].
    pub(crate) fn new(
        model: &'m KernelExpansion,
        background: &Background,
        groups: &Players,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Self>> {
        let players = groups.players().len();
        if players > MAX_PLAYERS {
            return Ok(None);
        }
        let game = Game::Interventional { background: background.clone() };
        let products =
            match ProductEngine::new(model, game, ValueIndex::Shapley, groups.clone(), stop.clone()) {
                Ok(products) => products,
                Err(Error::NotProduct { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
        if !(products.has_tame_factors() && products.has_room_for_tables()) {
            return Ok(None);
        }
        // Before threads ask for them.
        products.tables()?;
        Ok(Some(Self { products, players }))
    }

    /// The number of coalitions.
    pub(crate) fn coalition_count(&self) -> usize {
        1 << self.players
    }

    /// Outputs of rows of the model's columns: rows × outputs × coalitions, by the bits of those who are
    /// present.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub(crate) fn outputs(&self, rows: &[Vec<f64>]) -> Result<Vec<f64>> {
        Ok(self.products.outputs_of_all(rows)?.0)
    }
}

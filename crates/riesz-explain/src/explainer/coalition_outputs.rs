//! Outputs of all coalitions of a few players, from the [tables](super::product_engine), for statistics of
//! coalitions that are not values of one output.

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
    /// Creates the tables. Returns `None` for models that have none: with more than 13 players, with a kernel
    /// that is not a sum of products with factors of at most 1, or with so many support points that the
    /// tables need too much memory.
    ///
    /// # Errors
    /// The errors of an invalid background; [`Error::Interrupted`].
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
        // The tables are computed here, before several threads need them.
        products.tables()?;
        Ok(Some(Self { products, players }))
    }

    /// The number of coalitions.
    pub(crate) fn coalition_count(&self) -> usize {
        1 << self.players
    }

    /// Returns the outputs of `rows`, in the order of the model's columns: rows × outputs × coalitions. The
    /// bits of a coalition's number are its present players.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub(crate) fn outputs(&self, rows: &[Vec<f64>]) -> Result<Vec<f64>> {
        Ok(self.products.outputs_of_all(rows)?.0)
    }
}

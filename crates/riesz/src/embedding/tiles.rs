//! Products of factors between the rows of two tables, tile by tile, for several coalitions at once: what does not fit into memory.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::{multiply, split};
use crate::error::{Error, Result};
use crate::kernel::Columns;
use crate::kernel::products::PlayerProduct;
use crate::simd::Isa;
use crate::table::Table;

/// Rows of the second table in a tile: those that one thread works on.
pub(crate) const BLOCK: usize = 128;

/// Rows of the first table in a tile. Tiles of all players together stay near the second-level cache.
const DEPTH: usize = 256;

/// The product `product` between the rows of `u` and those of `v`, for these coalitions: that of the factors of the players who are
/// present, or of those who are absent.
pub(crate) struct Tiles<'t> {
    pub(crate) product: &'t PlayerProduct<'t>,
    pub(crate) u: &'t Table,
    pub(crate) v: &'t Table,
    pub(crate) coalitions: &'t [&'t [bool]],
    pub(crate) present: bool,
}

/// A tile of one coalition.
pub(crate) struct Tile<'t> {
    /// The number of the coalition.
    pub(crate) coalition: usize,
    /// Rows of the first table.
    pub(crate) u: Range<usize>,
    /// All rows of the first table with the first of the second, then with the second, …
    pub(crate) products: &'t mut [f64],
}

impl Tiles<'_> {
    /// Hands each tile to `visit`, with what belongs to its block of [`BLOCK`] rows of `v`: `own` has one for each, and comes back.
    /// Each factor is computed once for all coalitions. Threads share blocks; a block's tiles come in order, coalition after coalition
    /// and `u` from its start, whatever the number of threads.
    ///
    /// # Errors
    /// [`Error::Interrupted`] soon after `stop` becomes true.
    pub(crate) fn visit<T: Send>(
        &self,
        stop: &AtomicBool,
        own: Vec<T>,
        visit: impl Fn(&mut T, Tile<'_>) + Sync,
    ) -> Result<Vec<T>> {
        let used: Vec<bool> = self.product.players.iter().map(|&p| self.used(p)).collect();
        let memory = || (vec![Vec::new(); used.len()], Vec::new());
        let work = |(factors, products): &mut (Vec<Vec<f64>>, Vec<f64>), (block, mut own): (usize, T)| {
            let v = block * BLOCK..self.v.rows().min((block + 1) * BLOCK);
            let rows: Vec<Vec<f64>> = v.clone().map(|i| self.v.row(i)).collect();
            for start in (0..self.u.rows()).step_by(DEPTH) {
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::Interrupted);
                }
                let u = start..self.u.rows().min(start + DEPTH);
                let numbers = u.len() * v.len();
                self.factors(&used, u.clone(), &rows, factors);
                products.resize(numbers, 0.0);
                for (coalition, on) in self.coalitions.iter().enumerate() {
                    let players = self.product.players.iter().copied();
                    multiply(&split(factors, players, on, self.present), 0..numbers, products);
                    visit(&mut own, Tile { coalition, u: u.clone(), products });
                }
            }
            Ok(own)
        };
        own.into_par_iter().enumerate().map_init(memory, work).collect()
    }

    /// Whether any coalition needs the player's factor.
    fn used(&self, player: usize) -> bool {
        self.coalitions.iter().any(|on| on[player] == self.present)
    }

    fn factors(&self, used: &[bool], u: Range<usize>, rows: &[Vec<f64>], factors: &mut [Vec<f64>]) {
        let columns = Columns::new(self.u.column_major(), self.u.rows(), u.start, u.len());
        for (k, factor) in factors.iter_mut().enumerate() {
            factor.resize(if used[k] { u.len() * rows.len() } else { 0 }, 0.0);
            for (row, out) in rows.iter().zip(factor.chunks_exact_mut(u.len())) {
                self.product.factor(Isa::detect(), k, columns, row, out);
            }
        }
    }

    /// For each coalition its products, all rows of the first table with the first of the second, then with the second, …
    pub(crate) fn whole(&self, stop: &AtomicBool) -> Result<Vec<Vec<f64>>> {
        let m = self.u.rows();
        let mut out = vec![vec![0.0; m * self.v.rows()]; self.coalitions.len()];
        self.visit(stop, blocks(&mut out, |_| m), |own, tile| {
            let columns =
                own[tile.coalition].chunks_exact_mut(m).zip(tile.products.chunks_exact(tile.u.len()));
            columns.for_each(|(out, products)| out[tile.u.clone()].copy_from_slice(products));
        })?;
        Ok(out)
    }
}

/// For each block of rows its part of every coalition's numbers, of which a row has `width(coalition)` next to one another.
pub(crate) fn blocks<N: AsMut<Vec<f64>>>(
    all: &mut [N],
    width: impl Fn(usize) -> usize,
) -> Vec<Vec<&mut [f64]>> {
    let mut blocks: Vec<Vec<&mut [f64]>> = Vec::new();
    for (coalition, numbers) in all.iter_mut().enumerate() {
        for (b, part) in numbers.as_mut().chunks_mut(BLOCK * width(coalition)).enumerate() {
            if blocks.len() <= b {
                blocks.push(Vec::new());
            }
            blocks[b].push(part);
        }
    }
    blocks
}

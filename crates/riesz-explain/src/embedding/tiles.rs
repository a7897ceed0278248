//! Products of kernels between the rows of two tables, computed in tiles and several at once, for matrices
//! that exceed the memory.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::blockwise_kernel::{Products, multiply};
use crate::control;
use crate::error::Result;
use crate::kernel::Columns;
use crate::simd::Isa;
use crate::table::Table;

/// Number of rows of the second table in a tile, which one thread processes.
const BLOCK: usize = 128;

/// Number of rows of the first table in a tile. The tiles of all kernels together fit roughly in the
/// second-level cache.
const DEPTH: usize = 256;

/// Products of kernels between the rows of `u` and the rows of `v`.
pub(crate) struct Tiles<'t> {
    pub(crate) products: &'t Products<'t>,
    pub(crate) u: &'t Table,
    pub(crate) v: &'t Table,
}

/// A tile of one product.
pub(crate) struct Tile<'t> {
    /// The index of the product.
    pub(crate) product: usize,
    /// The tile's rows of the first table.
    pub(crate) u: Range<usize>,
    /// The values of the first row of the second table with the tile's rows of the first table, then of the
    /// second row, and so on.
    pub(crate) numbers: &'t mut [f64],
}

impl Tiles<'_> {
    /// Passes each tile to `for_each_tile`, with the state of its block of [`BLOCK`] rows of `v`. `states`
    /// has one state for each block and is returned. Each kernel is computed once for all products. Threads
    /// share blocks. The tiles of a block come in a fixed order, whatever the number of threads: by rows of
    /// `u`, and for each by product.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted) soon after `stop` becomes true.
    pub(crate) fn for_each_tile<T: Send>(
        &self,
        stop: &AtomicBool,
        states: Vec<T>,
        for_each_tile: impl Fn(&mut T, Tile<'_>) + Sync,
    ) -> Result<Vec<T>> {
        let Products { kernels, chosen } = self.products;
        let used: Vec<bool> = (0..kernels.len()).map(|k| chosen.iter().any(|c| c.contains(&k))).collect();
        let memory = || (vec![Vec::new(); kernels.len()], Vec::new(), Vec::new());
        type Memory = (Vec<Vec<f64>>, Vec<f64>, Vec<f64>);
        let work = |(factors, numbers, buffer): &mut Memory, (block, mut state): (usize, T)| {
            let rows = self.v.row_vectors(block * BLOCK..self.v.rows().min((block + 1) * BLOCK));
            for start in (0..self.u.rows()).step_by(DEPTH) {
                control::check_cancelled(stop)?;
                let u = start..self.u.rows().min(start + DEPTH);
                let size = u.len() * rows.len();
                let columns = Columns::new(self.u.column_major(), self.u.rows(), u.start, u.len());
                for (k, factor) in factors.iter_mut().enumerate().filter(|(k, _)| used[*k]) {
                    factor.resize(size, 0.0);
                    for (row, out) in rows.iter().zip(factor.chunks_exact_mut(u.len())) {
                        kernels[k].row(Isa::detect(), columns, row, buffer, out);
                    }
                }
                numbers.resize(size, 0.0);
                for (product, chosen) in chosen.iter().enumerate() {
                    let own_factors: Vec<&[f64]> = chosen.iter().map(|&k| factors[k].as_slice()).collect();
                    multiply(&own_factors, 0..size, numbers);
                    for_each_tile(&mut state, Tile { product, u: u.clone(), numbers });
                }
            }
            Ok(state)
        };
        states.into_par_iter().enumerate().map_init(memory, work).collect()
    }

    /// All values of each product: the first row of the second table with all rows of the first table, then
    /// the second row, and so on.
    pub(crate) fn full_products(&self, stop: &AtomicBool) -> Result<Vec<Vec<f64>>> {
        let m = self.u.rows();
        let mut out = vec![vec![0.0; m * self.v.rows()]; self.products.chosen.len()];
        self.for_each_tile(stop, blocks(&mut out, |_| m), |columns_by_product, tile| {
            let columns = columns_by_product[tile.product]
                .chunks_exact_mut(m)
                .zip(tile.numbers.chunks_exact(tile.u.len()));
            columns.for_each(|(out, numbers)| out[tile.u.clone()].copy_from_slice(numbers));
        })?;
        Ok(out)
    }
}

/// For each block of rows, its part of every product's numbers. A row has `width(product)` contiguous
/// numbers.
pub(crate) fn blocks<N: AsMut<Vec<f64>>>(
    numbers_by_product: &mut [N],
    width: impl Fn(usize) -> usize,
) -> Vec<Vec<&mut [f64]>> {
    let mut blocks: Vec<Vec<&mut [f64]>> = Vec::new();
    for (product, numbers) in numbers_by_product.iter_mut().enumerate() {
        for (b, part) in numbers.as_mut().chunks_mut(BLOCK * width(product)).enumerate() {
            if blocks.len() <= b {
                blocks.push(Vec::new());
            }
            blocks[b].push(part);
        }
    }
    blocks
}

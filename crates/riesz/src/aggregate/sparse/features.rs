//! Sums over bags of what a kernel makes of rows and inducing points. They are all that is seen of the rows, however many there are, and made of some at a time.

use std::ops::Range;

use rayon::prelude::*;

use crate::aggregate::rows::Rows;
use crate::error::Result;
use crate::kernel::{Columns, Kernel, Scratch};
use crate::linalg::{Matrix, dot};
use crate::simd::Isa;
use crate::stop::Watch;
use crate::table::Table;

/// Points at a time, so that the sums of all parameters stay in the nearest cache.
const TILE: usize = 256;

/// Slopes are kept from the values to the gradient if they are not more numbers than that (256 MB), and else made anew.
const KEPT: usize = 1 << 25;

/// Of bags and points.
pub(super) struct Features {
    /// `PᵀK(X, W)`, bags × points.
    pub phi: Matrix,
    /// Bags × (1 + parameters): the diagonal of `PᵀK(X, X)P`, and its slopes if they were asked for.
    pub own: Matrix,
    /// By bag and tile of points, the slopes of `phi`.
    slopes: Option<Vec<Vec<f64>>>,
}

fn tiles(points: usize) -> Vec<Range<usize>> {
    (0..points).step_by(TILE).map(|start| start..points.min(start + TILE)).collect()
}

fn of<'t>(table: &'t Table, range: &Range<usize>) -> Columns<'t> {
    Columns::new(table.column_major(), table.rows(), range.start, range.len())
}

impl Rows {
    /// The sums of a bag's rows with these points: of values, and of each slope.
    fn part(
        &self,
        kernel: &Kernel,
        points: Columns<'_>,
        bag: usize,
        count: usize,
        scratch: &mut Scratch,
    ) -> Vec<f64> {
        let (isa, stride) = (Isa::detect(), points.len());
        let (mut sums, mut v) = (vec![0.0; (1 + count) * stride], vec![0.0; self.table.width()]);
        for row in self.range(bag) {
            self.table.copy_row(row, &mut v);
            let weights = [self.weights[row]; 2];
            kernel.add_slopes(isa, points, &v, weights, count > 0, scratch, (&mut sums, stride));
        }
        sums
    }

    /// The prior variance of a bag's sum, and its slopes: the same of pairs of its rows, each pair once.
    fn own(&self, kernel: &Kernel, bag: usize, count: usize, scratch: &mut Scratch) -> Vec<f64> {
        let (isa, all) = (Isa::detect(), self.range(bag));
        let (mut own, mut v) = (vec![0.0; 1 + count], vec![0.0; self.table.width()]);
        for start in all.clone().step_by(TILE) {
            let tile = start..all.end.min(start + TILE);
            let stride = tile.len();
            let mut sums = vec![0.0; (1 + count) * stride];
            for row in all.start..tile.end {
                self.table.copy_row(row, &mut v);
                let weight = self.weights[row];
                let (from, first) = if row < start { (start, 2.0 * weight) } else { (row, weight) };
                let with = of(&self.table, &(from..tile.end));
                kernel.add_slopes(
                    isa,
                    with,
                    &v,
                    [first, 2.0 * weight],
                    count > 0,
                    scratch,
                    (&mut sums, stride),
                );
            }
            let weights = &self.weights[tile];
            own.iter_mut().zip(sums.chunks_exact(stride)).for_each(|(o, part)| *o += dot(part, weights));
        }
        own
    }

    /// The sums of all bags, and with `slopes` what their gradient takes. Cost O(rows points columns) and O(rows² columns) of each bag; memory O(bags points).
    pub(super) fn features(
        &self,
        kernel: &Kernel,
        points: &Table,
        slopes: bool,
        watch: Watch<'_>,
    ) -> Result<Features> {
        let count = if slopes { kernel.parameters().len() } else { 0 };
        let (bags, m, tiles) = (self.bags(), points.rows(), tiles(points.rows()));
        let kept = slopes && (1 + count) * bags * m <= KEPT;
        let in_pass = if kept { count } else { 0 };
        let part = |scratch: &mut Scratch, task: usize| {
            watch.check()?;
            let (bag, tile) = (task / tiles.len(), &tiles[task % tiles.len()]);
            Ok(self.part(kernel, of(points, tile), bag, in_pass, scratch))
        };
        let tasks = (0..bags * tiles.len()).into_par_iter();
        let parts = tasks.map_init(|| Scratch::of(kernel), part).collect::<Result<Vec<Vec<f64>>>>()?;
        let mut phi = Matrix::zeros(bags, m);
        for (task, part) in parts.iter().enumerate() {
            let tile = tiles[task % tiles.len()].clone();
            phi.row_mut(task / tiles.len())[tile.clone()].copy_from_slice(&part[..tile.len()]);
        }
        let own = |scratch: &mut Scratch, bag: usize| {
            watch.check()?;
            Ok(self.own(kernel, bag, count, scratch))
        };
        let own = (0..bags).into_par_iter().map_init(|| Scratch::of(kernel), own);
        let own = own.collect::<Result<Vec<Vec<f64>>>>()?.concat();
        let own = Matrix::from_row_major(bags, 1 + count, own);
        Ok(Features { phi, own, slopes: kept.then_some(parts) })
    }

    /// `Σ_bj weights[b, j] ∂phi[b, j]/∂θ_p`, where `features` has these weights' slopes or they are made anew.
    pub(super) fn contract(
        &self,
        features: &Features,
        kernel: &Kernel,
        points: &Table,
        weights: &Matrix,
        watch: Watch<'_>,
    ) -> Result<Vec<f64>> {
        let (tiles, count) = (tiles(points.rows()), kernel.parameters().len());
        let of_task = |scratch: &mut Scratch, task: usize| {
            watch.check()?;
            let (bag, tile) = (task / tiles.len(), &tiles[task % tiles.len()]);
            let made;
            let sums = match &features.slopes {
                Some(kept) => &kept[task],
                None => {
                    made = self.part(kernel, of(points, tile), bag, count, scratch);
                    &made
                }
            };
            let weights = &weights.row(bag)[tile.clone()];
            Ok(sums.chunks_exact(tile.len()).skip(1).map(|part| dot(part, weights)).collect())
        };
        let tasks = (0..self.bags() * tiles.len()).into_par_iter();
        let each = tasks.map_init(|| Scratch::of(kernel), of_task).collect::<Result<Vec<Vec<f64>>>>()?;
        // In the order of the bags, so that the sums do not depend on the number of threads.
        let mut total = vec![0.0; count];
        each.iter().for_each(|part| total.iter_mut().zip(part).for_each(|(t, v)| *t += v));
        Ok(total)
    }
}

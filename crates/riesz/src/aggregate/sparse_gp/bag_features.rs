//! Sums over bags of kernel values between rows and inducing points, computed for one part of the rows at a
//! time. The fit uses the rows only through these sums.

use std::ops::Range;

use rayon::prelude::*;

use crate::aggregate::bag_gram::BagRows;
use crate::control::RunControl;
use crate::error::Result;
use crate::kernel::{Columns, GradientScratch, Kernel};
use crate::linalg::{Matrix, dot, sum_vectors};
use crate::simd::Isa;
use crate::table::Table;

/// The number of points in a tile: the sums of all parameters stay in the first-level cache.
const TILE: usize = 256;

/// The largest number of derivatives that are kept for the gradient (256 MB); more are computed again.
const CACHE_LIMIT: usize = 1 << 25;

/// Sums of kernel values between bags, or targets that an operator computes from bags, and points.
pub(super) struct BagFeatures {
    /// `PᵀK(X, W)` (bags × points), or `BᵀPᵀK(X, W)` (targets × points) with an operator B.
    pub phi: Matrix,
    /// The prior variance of each target; and, with an operator, the prior variances under each sample of
    /// rows, of which `prior` is the mean.
    pub prior: Vec<f64>,
    pub priors: Vec<Vec<f64>>,
    /// The diagonal of `PᵀK(X, X)P` and its derivatives, if they were requested: bags × (1 + parameters).
    pub bag_variances: Matrix,
    /// The values of `phi` and their derivatives for each bag and tile of points, if they fit into the cache.
    pub cached: Option<Vec<f64>>,
}

fn point_tiles(points: usize) -> Vec<Range<usize>> {
    (0..points).step_by(TILE).map(|start| start..points.min(start + TILE)).collect()
}

fn columns_in<'t>(table: &'t Table, range: &Range<usize>) -> Columns<'t> {
    Columns::new(table.column_major(), table.rows(), range.start, range.len())
}

impl BagRows {
    /// Adds the kernel values of a bag's rows with these points to `sums`, and with `slopes` their
    /// derivatives.
    fn add_kernel_sums(
        &self,
        kernel: &Kernel,
        points: Columns<'_>,
        bag: usize,
        slopes: bool,
        scratch: &mut GradientScratch,
        sums: &mut [f64],
    ) {
        let (isa, stride, mut v) = (Isa::detect(), points.len(), vec![0.0; self.table.width()]);
        for row in self.range(bag) {
            self.table.copy_row(row, &mut v);
            let weights = [self.weights[row]; 2];
            kernel.add_value_and_gradient(isa, points, &v, weights, slopes, scratch, (&mut *sums, stride));
        }
    }

    /// Returns the prior variance of a bag's sum and its derivatives, as sums over pairs of its rows. Each
    /// pair is evaluated once.
    fn bag_variance(
        &self,
        kernel: &Kernel,
        bag: usize,
        count: usize,
        scratch: &mut GradientScratch,
    ) -> Vec<f64> {
        let (isa, bag_range) = (Isa::detect(), self.range(bag));
        let (mut bag_sums, mut v) = (vec![0.0; 1 + count], vec![0.0; self.table.width()]);
        for start in bag_range.clone().step_by(TILE) {
            let tile = start..bag_range.end.min(start + TILE);
            let stride = tile.len();
            let mut sums = vec![0.0; (1 + count) * stride];
            for row in bag_range.start..tile.end {
                self.table.copy_row(row, &mut v);
                let weight = self.weights[row];
                let (from, first_weight) = if row < start { (start, 2.0 * weight) } else { (row, weight) };
                let tile_columns = columns_in(&self.table, &(from..tile.end));
                kernel.add_value_and_gradient(
                    isa,
                    tile_columns,
                    &v,
                    [first_weight, 2.0 * weight],
                    count > 0,
                    scratch,
                    (&mut sums, stride),
                );
            }
            let weights = &self.weights[tile];
            bag_sums
                .iter_mut()
                .zip(sums.chunks_exact(stride))
                .for_each(|(sum, part)| *sum += dot(part, weights));
        }
        bag_sums
    }

    /// Returns the sums of all bags, and with `slopes` also the terms of their gradient. Cost: O(rows points
    /// columns), and O(rows² columns) for the rows of each bag. Memory: O(bags points).
    pub(super) fn features(
        &self,
        kernel: &Kernel,
        points: &Table,
        slopes: bool,
        control: RunControl<'_>,
    ) -> Result<BagFeatures> {
        let count = if slopes { kernel.parameters().len() } else { 0 };
        let (bags, m, tiles) = (self.bags(), points.rows(), point_tiles(points.rows()));
        let cached = slopes && (1 + count) * bags * m <= CACHE_LIMIT;
        let channels = 1 + if cached { count } else { 0 };
        let mut sums = vec![0.0; channels * bags * m];
        let (mut tasks, mut remaining) = (Vec::with_capacity(bags * tiles.len()), &mut sums[..]);
        for task in 0..bags * tiles.len() {
            let (task_sums, following) = remaining.split_at_mut(channels * tiles[task % tiles.len()].len());
            tasks.push((task, task_sums));
            remaining = following;
        }
        let sum_task = |scratch: &mut GradientScratch, (task, sums): (usize, &mut [f64])| {
            control.check_cancelled()?;
            let (bag, tile) = (task / tiles.len(), &tiles[task % tiles.len()]);
            self.add_kernel_sums(kernel, columns_in(points, tile), bag, cached, scratch, sums);
            Ok(())
        };
        tasks.into_par_iter().try_for_each_init(|| GradientScratch::for_kernel(kernel), sum_task)?;
        let (phi, cached) = if cached {
            let mut phi = Matrix::zeros(bags, m);
            for (bag, bag_sums) in sums.chunks_exact(channels * m).enumerate() {
                for tile in &tiles {
                    let from = channels * tile.start;
                    phi.row_mut(bag)[tile.clone()].copy_from_slice(&bag_sums[from..from + tile.len()]);
                }
            }
            (phi, Some(sums))
        } else {
            (Matrix::from_row_major(bags, m, sums), None)
        };
        let variance_of_bag = |scratch: &mut GradientScratch, bag: usize| {
            control.check_cancelled()?;
            Ok(self.bag_variance(kernel, bag, count, scratch))
        };
        let variances =
            (0..bags).into_par_iter().map_init(|| GradientScratch::for_kernel(kernel), variance_of_bag);
        let variances = variances.collect::<Result<Vec<Vec<f64>>>>()?.concat();
        let bag_variances = Matrix::from_row_major(bags, 1 + count, variances);
        let prior = bag_variances.column(0);
        Ok(BagFeatures { phi, prior, priors: Vec::new(), bag_variances, cached })
    }

    /// Returns `Σ_bj weights[b, j] ∂phi[b, j]/∂θ_p` for each parameter θ_p of the kernel. Derivatives that
    /// `features` does not hold are computed again.
    pub(super) fn gradient_of_features(
        &self,
        features: &BagFeatures,
        kernel: &Kernel,
        points: &Table,
        weights: &Matrix,
        control: RunControl<'_>,
    ) -> Result<Vec<f64>> {
        let (tiles, count) = (point_tiles(points.rows()), kernel.parameters().len());
        let task_gradient = |(scratch, recomputed): &mut (GradientScratch, Vec<f64>), task: usize| {
            control.check_cancelled()?;
            let (bag, tile) = (task / tiles.len(), &tiles[task % tiles.len()]);
            let size = (1 + count) * tile.len();
            let parts = if let Some(cached) = &features.cached {
                let from = (1 + count) * (bag * points.rows() + tile.start);
                &cached[from..from + size]
            } else {
                recomputed.clear();
                recomputed.resize(size, 0.0);
                self.add_kernel_sums(kernel, columns_in(points, tile), bag, true, scratch, recomputed);
                recomputed
            };
            let tile_weights = &weights.row(bag)[tile.clone()];
            Ok(parts.chunks_exact(tile.len()).skip(1).map(|part| dot(part, tile_weights)).collect())
        };
        let tasks = (0..self.bags() * tiles.len()).into_par_iter();
        let scratch = || (GradientScratch::for_kernel(kernel), Vec::new());
        let gradients = tasks.map_init(scratch, task_gradient).collect::<Result<Vec<Vec<f64>>>>()?;
        // The order of the bags makes the sums independent of the number of threads.
        Ok(sum_vectors(count, &gradients))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Profile, Stationary};
    use crate::linalg::Sparse;

    /// Cached and recomputed derivatives agree for more points than one tile holds.
    #[test]
    fn cached_and_recomputed_derivatives_agree() {
        let value = |i: usize| ((i * 7919) % 1013) as f64 / 500.0;
        let rows = |from: usize, n: usize| {
            let rows: Vec<[f64; 2]> = (from..from + n).map(|i| [value(2 * i), value(2 * i + 1)]).collect();
            Table::from_rows(&rows).unwrap()
        };
        let (x, points) = (rows(0, 90), rows(500, 300));
        let columns = (0..3).map(|b| (30 * b..30 * b + 30).map(|i| (i, 0.5 + value(i))));
        let bags = BagRows::new(&x, &Sparse::from_columns(90, columns).unwrap());
        let (profile, columns, length_scale) = (Profile::Matern32, vec![0, 1], vec![0.8, 1.1]);
        let joint: Kernel = Stationary { profile, columns, length_scale, ard: true, isotropic: true }.into();
        let kernel = 0.7 * joint + Kernel::gaussian(&[0.6, 0.9]);
        let mut features = bags.features(&kernel, &points, true, RunControl::none()).unwrap();
        let cotangent = Matrix::from_row_major(3, 300, (0..900).map(|i| value(i) - 1.0).collect());
        let [cached, recomputed] = [true, false].map(|use_cache| {
            features.cached = features.cached.take().filter(|_| use_cache);
            bags.gradient_of_features(&features, &kernel, &points, &cotangent, RunControl::none()).unwrap()
        });
        for (cached, recomputed) in cached.iter().zip(&recomputed) {
            assert!((cached - recomputed).abs() < 1e-11 * cached.abs().max(1.0), "{cached} {recomputed}");
        }
        let phi = bags.features(&kernel, &points, false, RunControl::none()).unwrap().phi;
        assert_eq!(phi, features.phi);
    }
}

//! The kernel between rows and inducing points, seen through sums: kept where there is room, and else made
//! again for each pass.

use std::ops::Range;

use rayon::prelude::*;

use crate::aggregate::bag_gram::BagRows;
use crate::control::RunControl;
use crate::error::Result;
use crate::kernel::{Columns, GradientScratch, Kernel};
use crate::linalg::{Matrix, dot};
use crate::simd::Isa;
use crate::table::Table;

/// Rows of one bag at a time.
const BLOCK: usize = 256;

/// It is kept if it is not more numbers than that (512 MB).
const KEPT: usize = 1 << 26;

/// `K(X, W)`, a row for each membership of a row in a bag, in the order of the bags.
pub(super) struct Cross<'a> {
    pub rows: &'a BagRows,
    pub kernel: &'a Kernel,
    pub points: &'a Table,
    kept: Option<Matrix>,
    blocks: Vec<(usize, Range<usize>)>,
    watch: RunControl<'a>,
}

fn add(to: &mut [f64], times: f64, what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(t, w)| *t += times * w);
}

impl<'a> Cross<'a> {
    /// Cost a kernel for each row and point.
    pub fn new(
        rows: &'a BagRows,
        kernel: &'a Kernel,
        points: &'a Table,
        watch: RunControl<'a>,
    ) -> Result<Self> {
        watch.check_cancelled()?;
        let blocks = (0..rows.bags()).flat_map(|b| {
            let Range { start, end } = rows.range(b);
            (start..end).step_by(BLOCK).map(move |from| (b, from..end.min(from + BLOCK)))
        });
        let kept = rows.weights.len() * points.rows() <= KEPT;
        let kept = kept.then(|| kernel.cross_gram(&rows.table, points));
        Ok(Self { rows, kernel, points, kept, blocks: blocks.collect(), watch })
    }

    /// What `work` makes of each block, of a bag, rows and their part of the matrix, in order: which threads
    /// work on what makes no difference.
    fn visit<T: Send>(&self, work: impl Fn(usize, Range<usize>, &[f64]) -> T + Sync) -> Result<Vec<T>> {
        let (isa, m) = (Isa::detect(), self.points.rows());
        let of_block = |memory: &mut (Vec<f64>, Vec<f64>, Vec<f64>), (bag, range): &(usize, Range<usize>)| {
            self.watch.check_cancelled()?;
            if let Some(all) = &self.kept {
                return Ok(work(*bag, range.clone(), &all.data()[range.start * m..range.end * m]));
            }
            let (made, v, buffer) = memory;
            made.resize(range.len() * m, 0.0);
            v.resize(self.rows.table.width(), 0.0);
            for (row, out) in range.clone().zip(made.chunks_exact_mut(m)) {
                self.rows.table.copy_row(row, v);
                self.kernel.row(isa, Columns::of(self.points, 0), v, buffer, out);
            }
            Ok(work(*bag, range.clone(), made))
        };
        self.blocks.par_iter().map_init(Default::default, of_block).collect()
    }

    /// `shift + K alpha`.
    pub fn values(&self, shift: f64, alpha: &[f64]) -> Result<Vec<f64>> {
        let m = alpha.len();
        let each = |_, _, block: &[f64]| -> Vec<f64> {
            block.chunks_exact(m).map(|row| shift + dot(row, alpha)).collect()
        };
        Ok(self.visit(each)?.concat())
    }

    /// By bag the sum of its rows of K, each times its weight, bags × points.
    pub fn sums(&self, weights: &[f64]) -> Result<Matrix> {
        let m = self.points.rows();
        let each = self.visit(|bag, range, block| {
            let mut sum = vec![0.0; m];
            weights[range].iter().zip(block.chunks_exact(m)).for_each(|(w, row)| add(&mut sum, *w, row));
            (bag, sum)
        })?;
        let mut out = Matrix::zeros(self.rows.bags(), m);
        each.iter().for_each(|(bag, sum)| add(out.row_mut(*bag), 1.0, sum));
        Ok(out)
    }

    /// The product of each row of K with that of its bag.
    pub fn dots(&self, of_bags: &Matrix) -> Result<Vec<f64>> {
        let m = self.points.rows();
        let each = |bag: usize, _, block: &[f64]| -> Vec<f64> {
            block.chunks_exact(m).map(|row| dot(row, of_bags.row(bag))).collect()
        };
        Ok(self.visit(each)?.concat())
    }

    /// With `d = shift + K alpha` of rows and their weights w, `Kᵀ(w d)` and `Σ w d`, in a pass.
    pub fn weigh(&self, weights: &[f64], shift: f64, alpha: &[f64]) -> Result<(Vec<f64>, f64)> {
        let m = alpha.len();
        let each = self.visit(|_, range, block| {
            let (mut sum, mut all) = (vec![0.0; m], 0.0);
            for (w, row) in weights[range].iter().zip(block.chunks_exact(m)) {
                let d = w * (shift + dot(row, alpha));
                add(&mut sum, d, row);
                all += d;
            }
            (sum, all)
        })?;
        let mut total = (vec![0.0; m], 0.0);
        for (sum, all) in &each {
            add(&mut total.0, 1.0, sum);
            total.1 += all;
        }
        Ok(total)
    }

    /// `Σ_ij G_ij ∂K_ij/∂θ_p`, where row i of G, of bag b, is `of_rows_i of_bags_b + Σ_k times_ki with_k`.
    pub fn contract(
        &self,
        of_rows: &[f64],
        of_bags: &Matrix,
        parts: [(&[f64], &[f64]); 2],
    ) -> Result<Vec<f64>> {
        let (isa, count) = (Isa::detect(), self.kernel.parameters().len());
        let of_block = |(weights, scratch): &mut (Vec<f64>, GradientScratch),
                        (bag, range): &(usize, Range<usize>)| {
            self.watch.check_cancelled()?;
            let mut sums = vec![0.0; count];
            for row in range.clone() {
                weights.clear();
                weights.extend(of_bags.row(*bag).iter().map(|r| of_rows[row] * r));
                parts.iter().for_each(|(times, with)| add(weights, times[row], with));
                let (points, v) = (Columns::of(self.points, 0), self.rows.table.row(row));
                self.kernel.add_gradient(isa, points, &v, weights, None, scratch, &mut sums);
            }
            Ok(sums)
        };
        let memory = || (Vec::new(), GradientScratch::of(self.kernel));
        let each = self.blocks.par_iter().map_init(memory, of_block);
        let each = each.collect::<Result<Vec<Vec<f64>>>>()?;
        let mut total = vec![0.0; count];
        each.iter().for_each(|sums| add(&mut total, 1.0, sums));
        Ok(total)
    }
}

//! Sufficient statistics of the rows as integers: sums of products of kernel values with landmarks, and of
//! products of kernel values with targets. Statistics of parts can be added in any order, and subtracted
//! again.

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::parts::{add_integers, add_units, decode, encode};
use super::plan::FitPlan;
use super::rows::LabelledRows;
use crate::error::{Error, Result};
use crate::kernel::Columns;
use crate::linalg::Matrix;
use crate::linalg::exact_gram::{
    self, BLOCK, ExactGram, FRACTION_BITS, UNIT, nearest, packed_len, split_high_low,
};
use crate::random::hash;
use crate::simd::Isa;
use crate::table::Table;

/// Number of landmarks whose kernel values are computed together.
const LANDMARK_GROUP: usize = 16;

/// Constant that makes the hashes of folds independent of the hashes of the sample.
const FOLDS: u64 = 0x1f0c_ad53;

/// Sufficient statistics of the rows of some units of work.
///
/// Let `k(x)` (size m + 1) hold the kernel values between a row and the m landmarks and a constant 1, each
/// times the square root of the row's weight. The statistics of each fold are `Σ k kᵀ`, `Σ k y`, `Σ y²` and
/// `Σ k(x, x)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// The digest of the plan with which they were computed.
    plan: String,
    size: usize,
    targets: usize,
    /// The units whose rows the sums contain.
    units: BTreeSet<u64>,
    pub(super) folds: Vec<Fold>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fold {
    rows: u64,
    /// The lower triangle of `Σ k kᵀ`, column by column.
    gram: Vec<i128>,
    /// `Σ k y`: the targets of the first landmark, then those of the next one.
    cross: Vec<i128>,
    squares: Vec<i128>,
    diagonal: [i128; 1],
}

impl Fold {
    /// All sums, in the order of a file.
    fn lists(&self) -> [&[i128]; 4] {
        [&self.gram, &self.cross, &self.squares, &self.diagonal]
    }

    /// All sums in the order of [`lists`](Self::lists), mutable.
    fn lists_mut(&mut self) -> [&mut [i128]; 4] {
        [&mut self.gram, &mut self.cross, &mut self.squares, &mut self.diagonal]
    }
}

/// The first line of a file of statistics.
#[derive(Serialize, Deserialize)]
struct Record {
    statistics: String,
    size: usize,
    targets: usize,
    units: BTreeSet<u64>,
    rows: Vec<u64>,
}

/// Sums over some of the folds, in the units of the kernel and of the centered targets.
pub struct Sums {
    /// The number of rows.
    pub rows: u64,
    /// `Σ k kᵀ`.
    pub gram: Matrix,
    /// `Σ k y`, (landmarks and constant) × targets.
    pub cross: Matrix,
    /// `Σ y²`.
    pub squares: Vec<f64>,
    /// `Σ k(x, x)`.
    pub diagonal: f64,
}

impl Statistics {
    /// Statistics of no rows.
    pub fn empty(plan: &FitPlan) -> Self {
        let (size, targets) = (plan.size(), plan.targets.len());
        let fold = Fold {
            rows: 0,
            gram: vec![0; packed_len(size)],
            cross: vec![0; size * targets],
            squares: vec![0; targets],
            diagonal: [0],
        };
        Self { plan: plan.digest(), size, targets, units: BTreeSet::new(), folds: vec![fold; plan.folds] }
    }

    /// Statistics of these rows as one unit. Cost O(rows landmarks (landmarks + columns)).
    ///
    /// # Errors
    /// As [`Accumulator::add`].
    pub fn from_rows(plan: &FitPlan, rows: &LabelledRows, unit: u64) -> Result<Self> {
        let mut accumulator = Accumulator::new(plan);
        accumulator.add(rows)?;
        Ok(accumulator.finish(unit))
    }

    /// The units whose rows the sums contain.
    pub fn units(&self) -> &BTreeSet<u64> {
        &self.units
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.folds.iter().map(|fold| fold.rows).sum()
    }

    /// Checks that there are enough rows for a fit.
    pub(super) fn check_two_rows(&self) -> Result<()> {
        if self.rows() < 2 {
            return Err(Error::too_few(format!("a table of {} row(s)", self.rows()), 2, "rows are"));
        }
        Ok(())
    }

    /// Adds the statistics of other units.
    ///
    /// # Errors
    /// [`Error::Format`] if they were computed with another plan, or both contain the same unit.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.check_plan(&other.plan)?;
        add_units(&mut self.units, &other.units, "statistics")?;
        self.merge_with(other, 1);
        Ok(())
    }

    /// Subtracts the statistics of some of its units. The result has the same bits as if their rows had never
    /// been added.
    ///
    /// # Errors
    /// [`Error::Format`] if they were computed with another plan, or contain a unit that is not in `self`.
    pub fn remove(&mut self, other: &Self) -> Result<()> {
        self.check_plan(&other.plan)?;
        if let Some(missing) = other.units.difference(&self.units).next() {
            return Err(Error::format(format!(
                "unit {missing} is not in these statistics, so it can't be removed"
            )));
        }
        self.units.retain(|unit| !other.units.contains(unit));
        self.merge_with(other, -1);
        Ok(())
    }

    /// Checks that the digest of another plan is that of this plan.
    fn check_plan(&self, other: &str) -> Result<()> {
        if self.plan == other {
            return Ok(());
        }
        let (own_digest, other_digest) = (&self.plan[..12], &other[..12.min(other.len())]);
        Err(Error::format(format!(
            "these statistics were computed with another plan ({other_digest}… instead of {own_digest}…)"
        )))
    }

    fn merge_with(&mut self, other: &Self, sign: i128) {
        for (fold, other) in self.folds.iter_mut().zip(&other.folds) {
            fold.rows = if sign > 0 { fold.rows + other.rows } else { fold.rows - other.rows };
            for (sums, other) in fold.lists_mut().into_iter().zip(other.lists()) {
                sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += sign * other);
            }
        }
    }

    /// The bytes of the statistics as a file. Equal statistics have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let record = Record {
            statistics: self.plan.clone(),
            size: self.size,
            targets: self.targets,
            units: self.units.clone(),
            rows: self.folds.iter().map(|fold| fold.rows).collect(),
        };
        encode(&record, &self.folds.iter().flat_map(Fold::lists).collect::<Vec<_>>())
    }

    /// Reads a file of statistics that was computed with this plan.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of another plan.
    pub fn from_bytes(plan: &FitPlan, bytes: &[u8]) -> Result<Self> {
        let (record, numbers) = decode::<Record>(bytes, "statistics")?;
        let mut loaded = Self::empty(plan);
        loaded.check_plan(&record.statistics)?;
        let expected: usize = loaded.folds.iter().flat_map(Fold::lists).map(<[i128]>::len).sum();
        let sizes = (record.size, record.targets, record.rows.len(), numbers.len());
        if sizes != (loaded.size, loaded.targets, loaded.folds.len(), expected) {
            let problem = "the size of these statistics differs from that of their plan: remove the file, \
                           and riesz makes it again";
            return Err(Error::format(problem));
        }
        loaded.units = record.units;
        let mut numbers = numbers.into_iter();
        for (fold, rows) in loaded.folds.iter_mut().zip(record.rows) {
            fold.rows = rows;
            let sums = fold.lists_mut().into_iter().flatten();
            sums.zip(&mut numbers).for_each(|(sum, number)| *sum = number);
        }
        Ok(loaded)
    }

    /// Sums over the folds for which `is_included` is true.
    pub fn sums(&self, plan: &FitPlan, is_included: impl Fn(usize) -> bool) -> Sums {
        let folds: Vec<&Fold> =
            self.folds.iter().enumerate().filter(|(k, _)| is_included(*k)).map(|(_, fold)| fold).collect();
        let sum =
            |entry_of: &dyn Fn(&Fold) -> i128| folds.iter().map(|fold| entry_of(fold)).sum::<i128>() as f64;
        let (p, t) = (self.size, self.targets);
        let weight = plan.largest_weight.unwrap_or(1.0);
        let step = 0.5_f64.powi(2 * FRACTION_BITS) * weight;
        let mut gram = Matrix::zeros(p, p);
        let mut index = 0;
        for j in 0..p {
            for i in j..p {
                gram[(j, i)] =
                    sum(&|fold| fold.gram[index]) * step * plan.feature_bound(i) * plan.feature_bound(j);
                index += 1;
            }
        }
        gram.mirror_upper();
        let step = 0.5_f64.powi(3 * FRACTION_BITS) * weight;
        let cross_value = |k: usize| {
            sum(&|fold| fold.cross[k]) * step * plan.feature_bound(k / t) * plan.targets[k % t].unit
        };
        let cross = Matrix::from_row_major(p, t, (0..p * t).map(cross_value).collect());
        let step = 0.5_f64.powi(4 * FRACTION_BITS) * weight;
        Sums {
            rows: folds.iter().map(|fold| fold.rows).sum(),
            gram,
            cross,
            squares: (0..t)
                .map(|o| sum(&|fold| fold.squares[o]) * step * plan.targets[o].unit.powi(2))
                .collect(),
            diagonal: sum(&|fold| fold.diagonal[0]) * 0.5_f64.powi(2 * FRACTION_BITS) * weight * plan.bound,
        }
    }
}

/// The gram matrix of one fold, and its rows that wait until a block is full.
struct FoldBuffer {
    gram: ExactGram,
    rows: usize,
    /// Features, column by column, [`BLOCK`] apart.
    features: Vec<f64>,
    /// Targets in fixed point: two slices per target, [`BLOCK`] apart.
    targets: Vec<f64>,
    /// Square roots of the weights relative to the largest; empty for equal weights.
    roots: Vec<f64>,
}

/// Accumulates statistics of rows that come in parts. The size of the parts doesn't change the result.
pub struct Accumulator<'p> {
    plan: &'p FitPlan,
    points: Vec<Vec<f64>>,
    /// The sums without the gram matrices.
    statistics: Statistics,
    buffers: Vec<FoldBuffer>,
    block: Vec<f64>,
}

impl<'p> Accumulator<'p> {
    /// An accumulator without rows. Memory: O(landmarks²), twice for every fold, and blocks of 2,048 rows.
    pub fn new(plan: &'p FitPlan) -> Self {
        let mut statistics = Statistics::empty(plan);
        statistics.folds.iter_mut().for_each(|fold| fold.gram = Vec::new());
        let buffer = |_| FoldBuffer {
            gram: ExactGram::new(plan.size()),
            rows: 0,
            features: vec![0.0; plan.landmarks.width() * BLOCK],
            targets: vec![0.0; 2 * plan.targets.len() * BLOCK],
            roots: vec![0.0; if plan.largest_weight.is_some() { BLOCK } else { 0 }],
        };
        Self {
            plan,
            points: (0..plan.landmarks.rows()).map(|i| plan.landmarks.row(i)).collect(),
            statistics,
            buffers: (0..plan.folds).map(buffer).collect(),
            block: Vec::new(),
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Those of [`Table::align_to`] for other columns; [`Error::Parameter`] for
    /// weights where the plan has none (or the other way round), and for rows outside the ranges of the plan.
    pub fn add(&mut self, rows: &LabelledRows) -> Result<()> {
        let t = self.plan.targets.len();
        let scaled = self.plan.scaled(rows)?;
        let x = &scaled.x;
        let folds = self.plan.folds_of(rows);
        for i in 0..rows.len() {
            let k = folds.get(i).copied().unwrap_or(0);
            let (fold, waiting) = (&mut self.statistics.folds[k], &mut self.buffers[k]);
            let position = waiting.rows;
            for j in 0..x.width() {
                waiting.features[j * BLOCK + position] = x.get(i, j);
            }
            let root = scaled.root(i);
            if let Some(root_slot) = waiting.roots.get_mut(position) {
                *root_slot = root;
            }
            for o in 0..t {
                let (first, second) = split_high_low(scaled.targets[i * t + o] * root * UNIT);
                waiting.targets[2 * o * BLOCK + position] = first;
                waiting.targets[(2 * o + 1) * BLOCK + position] = second;
                let target_integer = join_slices(first, second);
                fold.squares[o] += target_integer * target_integer;
            }
            fold.diagonal[0] += nearest(scaled.diagonal[i] * root * root * UNIT * UNIT) as i128;
            fold.rows += 1;
            waiting.rows += 1;
            if waiting.rows == BLOCK {
                self.flush(k);
            }
        }
        Ok(())
    }

    /// Adds the waiting rows of a fold to its sums.
    fn flush(&mut self, k: usize) {
        let Self { plan, points, statistics, buffers, block } = self;
        let (waiting, p, t) = (&mut buffers[k], plan.size(), plan.targets.len());
        let rows = std::mem::take(&mut waiting.rows);
        if rows == 0 {
            return;
        }
        let isa = Isa::detect();
        let features = Columns::new(&waiting.features, BLOCK, 0, rows);
        block.resize(rows * p, 0.0);
        // Kernel values of a group of landmarks.
        let kernels = |j: usize, kernel_block: &mut [f64]| {
            let group: Vec<&[f64]> = points[j.min(points.len())..points.len().min(j + LANDMARK_GROUP)]
                .iter()
                .map(Vec::as_slice)
                .collect();
            plan.kernel.tile(isa, features, &group, kernel_block, rows);
            kernel_block[group.len() * rows..].fill(plan.bound);
        };
        let (scale, roots) = (UNIT / plan.bound, waiting.roots.get(..rows).unwrap_or(&[]));
        // Rounds one column and returns its products with the targets.
        let column = |kernel_column: &mut [f64]| {
            exact_gram::round(isa, kernel_column, scale, roots);
            let with = |o: usize, s: usize| {
                exact_gram::product(isa, kernel_column, &waiting.targets[(2 * o + s) * BLOCK..][..rows])
            };
            (0..t).map(|o| join_slices(with(o, 0), with(o, 1))).collect::<Vec<i128>>()
        };
        let parts = block.par_chunks_mut(rows * LANDMARK_GROUP).enumerate();
        let sums: Vec<Vec<i128>> = parts
            .map(|(part, kernel_block)| {
                kernels(part * LANDMARK_GROUP, kernel_block);
                kernel_block.chunks_mut(rows).flat_map(column).collect()
            })
            .collect();
        add_integers(&mut statistics.folds[k].cross, &sums.concat());
        waiting.gram.add(block, rows);
    }

    /// The statistics of all rows that were added, as those of one unit.
    pub fn finish(mut self, unit: u64) -> Statistics {
        (0..self.buffers.len()).for_each(|k| self.flush(k));
        drop(self.block);
        let mut statistics = self.statistics;
        statistics.units = BTreeSet::from([unit]);
        for (fold, buffer) in statistics.folds.iter_mut().zip(self.buffers) {
            fold.gram = buffer.gram.into_sums();
        }
        statistics
    }
}

/// The integer that consists of these two slices, or of sums of slices, which are at most 2⁵³.
pub(super) fn join_slices(first: f64, second: f64) -> i128 {
    (i128::from(first as i64) << FRACTION_BITS) + i128::from(second as i64)
}

/// Targets, kernel values and weights of rows in the plan's units.
pub(super) struct FixedPointRows {
    /// Features, with the columns of the landmarks.
    pub x: Table,
    /// Rows × targets.
    pub targets: Vec<f64>,
    /// `k(x, x)` divided by the kernel's bound.
    diagonal: Vec<f64>,
    roots: Option<Vec<f64>>,
}

impl FixedPointRows {
    /// The square root of the weight of row `i`, relative to the largest weight.
    pub fn root(&self, i: usize) -> f64 {
        self.roots.as_ref().map_or(1.0, |roots| roots[i])
    }

    /// The square roots of the weights of `count` rows from `start` on; empty where all weights are 1.
    pub fn roots(&self, start: usize, count: usize) -> &[f64] {
        self.roots.as_ref().map_or(&[], |roots| &roots[start..start + count])
    }
}

impl FitPlan {
    /// The fold of each row, which follows from the row's contents; empty if there is only one fold.
    pub(super) fn folds_of(&self, rows: &LabelledRows) -> Vec<usize> {
        if self.folds < 2 {
            return Vec::new();
        }
        let fold = |h: u64| (hash([h]) % self.folds as u64) as usize;
        rows.hashes(self.seed ^ FOLDS).into_iter().map(fold).collect()
    }

    /// Divides targets, weights and kernel values of the rows by the plan's units, so that all are at most 1.
    pub(super) fn scaled(&self, rows: &LabelledRows) -> Result<FixedPointRows> {
        let x = rows.x.align_to(self.landmarks.columns())?;
        let t = self.targets.len();
        if rows.y.cols() != t {
            return Err(Error::shape("the target", "columns", t, rows.y.cols(), "as many as in the plan"));
        }
        let out_of_range = |name: &str, value: f64| {
            let allowed = "it is outside the range of the rows of the plan's survey: make a plan from a \
                           survey of all rows";
            Err(Error::parameter(name, value, allowed))
        };
        let targets: Vec<f64> = rows
            .y
            .data()
            .iter()
            .zip(self.targets.iter().cycle())
            .map(|(v, target)| target.to_unit(*v))
            .collect();
        if let Some(position) = targets.iter().position(|v| v.abs() > 1.0) {
            return out_of_range("target", rows.y.data()[position]);
        }
        let roots = match (&rows.weights, self.largest_weight) {
            (None, None) => None,
            (Some(weights), Some(largest)) => {
                if let Some(bad) = weights.iter().find(|w| **w > largest) {
                    return out_of_range("sample_weight", *bad);
                }
                Some(weights.iter().map(|w| (w / largest).sqrt()).collect())
            }
            (given_weights, _) => {
                let value = if given_weights.is_some() { "given" } else { "not given" };
                return Err(Error::parameter(
                    "sample_weight",
                    value,
                    "give weights for all rows or for none, as in the plan",
                ));
            }
        };
        let diagonal: Vec<f64> = match self.kernel.max_value() {
            Some(largest) => vec![largest / self.bound; rows.len()],
            None => self.kernel.diagonal(&x).iter().map(|k| k / self.bound).collect(),
        };
        if let Some(largest) = diagonal.iter().find(|k| k.is_nan() || **k > 1.0) {
            return out_of_range("kernel of a row with itself", largest * self.bound);
        }
        Ok(FixedPointRows { x, targets, diagonal, roots })
    }
}

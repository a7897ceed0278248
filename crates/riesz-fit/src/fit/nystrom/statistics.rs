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
    folds: Vec<Fold>,
}

#[derive(Debug, Clone, PartialEq)]
struct Fold {
    rows: u64,
    /// The lower triangle of `Σ k kᵀ`, column by column.
    gram: Vec<i128>,
    /// `Σ k y`: the targets of the first landmark, then those of the next one.
    cross: Vec<i128>,
    squares: Vec<i128>,
    diagonal: i128,
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

/// Sums over some of the folds, in the units of the kernel and of the centred targets.
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
            diagonal: 0,
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

    /// Adds the statistics of other units.
    ///
    /// # Errors
    /// [`Error::Format`] if they were computed with another plan, or both contain the same unit.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.check_plan(other)?;
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
        self.check_plan(other)?;
        if let Some(missing) = other.units.difference(&self.units).next() {
            return Err(Error::format(format!(
                "unit {missing} is not in these statistics, so it can't be removed"
            )));
        }
        self.units.retain(|unit| !other.units.contains(unit));
        self.merge_with(other, -1);
        Ok(())
    }

    fn check_plan(&self, other: &Self) -> Result<()> {
        if self.plan == other.plan {
            return Ok(());
        }
        let (own_digest, other_digest) = (&self.plan[..12], &other.plan[..12.min(other.plan.len())]);
        Err(Error::format(format!(
            "these statistics were computed with another plan ({other_digest}… instead of {own_digest}…)"
        )))
    }

    fn merge_with(&mut self, other: &Self, sign: i128) {
        for (fold, other) in self.folds.iter_mut().zip(&other.folds) {
            fold.rows = if sign > 0 { fold.rows + other.rows } else { fold.rows - other.rows };
            for (sums, other) in [
                (&mut fold.gram, &other.gram),
                (&mut fold.cross, &other.cross),
                (&mut fold.squares, &other.squares),
            ] {
                sums.iter_mut().zip(other).for_each(|(sum, other)| *sum += sign * other);
            }
            fold.diagonal += sign * other.diagonal;
        }
    }

    /// The bytes of the sums, without the set of units.
    #[cfg(test)]
    pub(super) fn folds_bytes(&self) -> Vec<u8> {
        let folds = self.folds.iter();
        folds
            .flat_map(|f| {
                format!("{} {:?} {:?} {:?} {}", f.rows, f.gram, f.cross, f.squares, f.diagonal).into_bytes()
            })
            .collect()
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
        let diagonals: Vec<[i128; 1]> = self.folds.iter().map(|fold| [fold.diagonal]).collect();
        let parts = self.folds.iter().zip(&diagonals);
        let parts = parts.flat_map(|(fold, diagonal)| [&fold.gram[..], &fold.cross, &fold.squares, diagonal]);
        encode(&record, &parts.collect::<Vec<_>>())
    }

    /// Reads a file of statistics that was computed with this plan.
    ///
    /// # Errors
    /// [`Error::Format`] for a damaged file or one of another plan.
    pub fn from_bytes(plan: &FitPlan, bytes: &[u8]) -> Result<Self> {
        let (record, numbers) = decode::<Record>(bytes, "statistics")?;
        let mut loaded = Self::empty(plan);
        loaded.check_plan(&Self {
            plan: record.statistics.clone(),
            folds: Vec::new(),
            units: BTreeSet::new(),
            ..loaded
        })?;
        let (p, t) = (loaded.size, loaded.targets);
        let numbers_per_fold = packed_len(p) + p * t + t + 1;
        let sound = record.size == p && record.targets == t && record.rows.len() == loaded.folds.len();
        if !sound || numbers.len() != numbers_per_fold * loaded.folds.len() {
            let problem = "the size of these statistics differs from that of their plan: remove the file, \
                           and riesz makes it again";
            return Err(Error::format(problem));
        }
        loaded.units = record.units;
        for ((fold, rows), numbers) in
            loaded.folds.iter_mut().zip(record.rows).zip(numbers.chunks_exact(numbers_per_fold))
        {
            let (gram, after_gram) = numbers.split_at(packed_len(p));
            let (cross, after_cross) = after_gram.split_at(p * t);
            *fold = Fold {
                rows,
                gram: gram.to_vec(),
                cross: cross.to_vec(),
                squares: after_cross[..t].to_vec(),
                diagonal: after_cross[t],
            };
        }
        Ok(loaded)
    }

    /// Sums over the folds for which `counts` is true.
    pub fn sums(&self, plan: &FitPlan, counts: impl Fn(usize) -> bool) -> Sums {
        let folds: Vec<&Fold> =
            self.folds.iter().enumerate().filter(|(k, _)| counts(*k)).map(|(_, fold)| fold).collect();
        let sum =
            |entry_of: &dyn Fn(&Fold) -> i128| folds.iter().map(|fold| entry_of(fold)).sum::<i128>() as f64;
        let (p, t) = (self.size, self.targets);
        let (bound, weight) = (plan.bound, plan.largest_weight.unwrap_or(1.0));
        // The kernel's bound doesn't apply to the constant's column.
        let unit = |j: usize| if j + 1 < p { bound } else { 1.0 };
        let step = 0.5_f64.powi(2 * FRACTION_BITS) * weight;
        let mut gram = Matrix::zeros(p, p);
        let mut index = 0;
        for j in 0..p {
            for i in j..p {
                gram[(j, i)] = sum(&|fold| fold.gram[index]) * step * unit(i) * unit(j);
                index += 1;
            }
        }
        gram.mirror_upper();
        let step = 0.5_f64.powi(3 * FRACTION_BITS) * weight;
        let mut cross = Matrix::zeros(p, t);
        for j in 0..p {
            for o in 0..t {
                cross[(j, o)] = sum(&|fold| fold.cross[j * t + o]) * step * unit(j) * plan.targets[o].unit;
            }
        }
        let step = 0.5_f64.powi(4 * FRACTION_BITS) * weight;
        Sums {
            rows: folds.iter().map(|fold| fold.rows).sum(),
            gram,
            cross,
            squares: (0..t)
                .map(|o| sum(&|fold| fold.squares[o]) * step * plan.targets[o].unit.powi(2))
                .collect(),
            diagonal: sum(&|fold| fold.diagonal) * 0.5_f64.powi(2 * FRACTION_BITS) * weight * bound,
        }
    }
}

/// Rows of one fold that wait until a block is full.
struct FoldBuffer {
    rows: usize,
    /// Features, column by column, [`BLOCK`] apart.
    features: Vec<f64>,
    /// Targets in fixed point: two slices per target, [`BLOCK`] apart.
    targets: Vec<f64>,
    /// Square roots of the weights relative to the largest; empty for equal weights.
    roots: Vec<f64>,
}

struct ThreadSum {
    rows: u64,
    gram: ExactGram,
    cross: Vec<i128>,
    squares: Vec<i128>,
    diagonal: i128,
    waiting: FoldBuffer,
}

/// Accumulates statistics of rows that come in parts. The size of the parts doesn't change the result.
pub struct Accumulator<'p> {
    plan: &'p FitPlan,
    points: Vec<Vec<f64>>,
    folds: Vec<ThreadSum>,
    block: Vec<f64>,
}

impl<'p> Accumulator<'p> {
    /// An accumulator without rows. Memory: O(landmarks²), twice for every fold, and blocks of 2,048 rows.
    pub fn new(plan: &'p FitPlan) -> Self {
        let (p, t, d) = (plan.size(), plan.targets.len(), plan.landmarks.width());
        let sum = || ThreadSum {
            rows: 0,
            gram: ExactGram::new(p),
            cross: vec![0; p * t],
            squares: vec![0; t],
            diagonal: 0,
            waiting: FoldBuffer {
                rows: 0,
                features: vec![0.0; d * BLOCK],
                targets: vec![0.0; 2 * t * BLOCK],
                roots: vec![0.0; if plan.largest_weight.is_some() { BLOCK } else { 0 }],
            },
        };
        Self {
            plan,
            points: (0..plan.landmarks.rows()).map(|i| plan.landmarks.row(i)).collect(),
            folds: (0..plan.folds).map(|_| sum()).collect(),
            block: Vec::new(),
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// Those of [`Table::align_to`](riesz_core::Table::align_to) for other columns; [`Error::Parameter`] for
    /// weights where the plan has none (or the other way round), and for rows outside the ranges of the plan.
    pub fn add(&mut self, rows: &LabelledRows) -> Result<()> {
        let x = rows.x.align_to(self.plan.landmarks.columns())?;
        let t = self.plan.targets.len();
        let scaled = self.plan.scaled(rows)?;
        let folds = self.plan.folds_of(rows);
        for i in 0..rows.len() {
            let k = folds.get(i).copied().unwrap_or(0);
            let fold = &mut self.folds[k];
            let waiting = &mut fold.waiting;
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
            fold.diagonal += nearest(scaled.diagonal[i] * root * root * UNIT * UNIT) as i128;
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
        let Self { plan, points, folds, block } = self;
        let (fold, p, t) = (&mut folds[k], plan.size(), plan.targets.len());
        let rows = std::mem::take(&mut fold.waiting.rows);
        if rows == 0 {
            return;
        }
        let (isa, waiting) = (Isa::detect(), &fold.waiting);
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
        add_integers(&mut fold.cross, &sums.concat());
        fold.gram.add(block, rows);
    }

    /// The statistics of all rows that were added, as those of one unit.
    pub fn finish(mut self, unit: u64) -> Statistics {
        (0..self.folds.len()).for_each(|k| self.flush(k));
        drop(self.block);
        let join = |fold: ThreadSum| Fold {
            rows: fold.rows,
            gram: fold.gram.into_sums(),
            cross: fold.cross,
            squares: fold.squares,
            diagonal: fold.diagonal,
        };
        Statistics {
            plan: self.plan.digest(),
            size: self.plan.size(),
            targets: self.plan.targets.len(),
            units: BTreeSet::from([unit]),
            folds: self.folds.into_iter().map(join).collect(),
        }
    }
}

/// The integer that consists of these two slices, or of sums of slices, which are at most 2⁵³.
pub(super) fn join_slices(first: f64, second: f64) -> i128 {
    (i128::from(first as i64) << FRACTION_BITS) + i128::from(second as i64)
}

/// Targets, kernel values and weights of rows in the plan's units.
pub(super) struct FixedPointRows {
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
            .enumerate()
            .map(|(position, v)| self.targets[position % t].to_unit(*v))
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
            None => self
                .kernel
                .diagonal(&rows.x.align_to(self.landmarks.columns())?)
                .iter()
                .map(|k| k / self.bound)
                .collect(),
        };
        if let Some(largest) = diagonal.iter().find(|k| k.is_nan() || **k > 1.0) {
            return out_of_range("kernel of a row with itself", largest * self.bound);
        }
        Ok(FixedPointRows { targets, diagonal, roots })
    }
}

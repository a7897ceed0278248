//! Squared distances computed from inner products, `‖u - v‖² = ‖u‖² + ‖v‖² - 2 u·v`, in a third of the
//! operations that differences take. They are used for kernels that are a profile of the joint distance.
//!
//! If more than half of a column's values are equal, as in one-hot columns, this majority value is subtracted
//! from the column. Most numbers are then 0, and an inner product takes one multiplication for each non-zero
//! number of v. The squared differences of the other columns are added. If the rounding errors of inner
//! products could affect the result, this layout is not used.

use super::stationary::DistanceBounds;
use super::{Columns, Factor, Kernel, Stationary};
use crate::linalg::{dot, min_max};
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};
use crate::table::Table;

/// Rows per block. A block of up to 64 columns fits in a first-level cache of 32 KB.
pub(super) const BLOCK: usize = 64;
/// Number of rows whose squared distances are stored at a time.
const RUN: usize = 2 * BLOCK;
/// Largest relative error that rounding may cause in a kernel value.
const PRECISION: f64 = 1e-11;

/// Layout of rows: for each column its index, the number that is subtracted, and the inverse of its length
/// scale. The first `sparse` columns have a majority value; in a dense layout these are all columns.
#[derive(Clone)]
pub(super) struct ColumnShift {
    columns: Vec<(usize, f64, f64)>,
    sparse: usize,
}

/// Rows in the layout of `frame`: in blocks, and column by column within a block.
pub(super) struct DistanceByProducts {
    frame: ColumnShift,
    rows: usize,
    values: Vec<f64>,
    /// `‖u‖²` over the columns with a majority value, for each row u.
    norms: Vec<f64>,
}

/// Largest magnitudes of the numbers of a set of rows in a layout.
#[derive(Clone)]
pub(super) struct ValueRange {
    /// The largest magnitude in each column that has no majority value.
    numbers: Vec<f64>,
    /// The largest `‖u‖²` over the columns with a majority value.
    norm: f64,
    /// The largest number of non-zero entries of a row in the columns with a majority value.
    terms: usize,
}

/// A row may have this many times as many non-zero entries as the rows with which it is multiplied.
const LONGER: usize = 2;

/// A row in the layout of a [`ColumnShift`].
pub(super) struct Row {
    /// Offset in a block, and value, of each non-zero entry in the columns with a majority value.
    pub(super) nonzeros: Vec<(usize, f64)>,
    /// Values of the columns that have no majority value.
    pub(super) numbers: Vec<f64>,
    /// `‖v‖²` over the columns with a majority value.
    pub(super) norm: f64,
}

/// The value that more than half of the entries have, if there is one (Boyer and Moore 1991), and the number
/// of the other entries.
fn majority_value(column: &[f64]) -> Option<(f64, usize)> {
    let (mut majority, mut lead) = (f64::NAN, 0_usize);
    for &x in column {
        match lead {
            0 => (majority, lead) = (x, 1),
            _ if x == majority => lead += 1,
            _ => lead -= 1,
        }
    }
    let n_other = column.iter().filter(|x| **x != majority).count();
    (2 * n_other < column.len()).then_some((majority, n_other))
}

/// The mean of the smallest and the largest number.
fn mid_range(column: &[f64]) -> f64 {
    let (minimum, maximum) = min_max(column);
    minimum + 0.5 * (maximum - minimum)
}

impl ColumnShift {
    /// The layout for the rows of `x`. `None` if the kernel is not a profile of one joint distance, or if few
    /// entries equal their column's majority value.
    pub(super) fn for_rows(kernel: &Kernel, x: &Table) -> Option<Self> {
        let (factor, _) = joint_distance(kernel)?;
        let n = x.rows();
        let (mut first, mut without_majority, mut n_nonzero) = (Vec::new(), Vec::new(), 0);
        for (&j, l) in factor.columns.iter().zip(&factor.length_scale) {
            let column = x.column(j);
            match majority_value(column) {
                Some((majority, n_other)) => {
                    first.push((j, majority, 1.0 / l));
                    n_nonzero += n_other;
                }
                None => without_majority.push((j, mid_range(column), 1.0 / l)),
            }
        }
        let (sparse, width) = (first.len(), factor.columns.len());
        first.extend(without_majority);
        (2 * ((width - sparse) * n + n_nonzero) <= width * n).then_some(Self { columns: first, sparse })
    }

    /// The layout that subtracts the middle of its range from every column. `None` if the kernel is not a
    /// profile of one joint distance.
    pub(super) fn dense(kernel: &Kernel, x: &Table) -> Option<Self> {
        let (factor, _) = joint_distance(kernel)?;
        let slots = factor.columns.iter().zip(&factor.length_scale);
        let columns: Vec<_> = slots.map(|(&j, l)| (j, mid_range(x.column(j)), 1.0 / l)).collect();
        Some(Self { sparse: columns.len(), columns })
    }

    /// Puts rows into this layout.
    pub(super) fn lay(&self, x: Columns<'_>) -> DistanceByProducts {
        let mut out = DistanceByProducts::zeros(self.clone(), x.len());
        for (slot, &(j, center, inverse)) in self.columns.iter().enumerate() {
            for (i, x) in x.column(j).iter().enumerate() {
                let (position, value) = (out.offset(i, slot), (x - center) * inverse);
                out.values[position] = value;
                if slot < self.sparse {
                    // Norms are summed in the order of the inner products, so that equal rows have distance
                    // 0.
                    out.norms[i] = value.mul_add(value, out.norms[i]);
                }
            }
        }
        out
    }
}

impl ValueRange {
    /// The range of rows that are `factor` times as large.
    pub(super) fn times(&self, factor: f64) -> Self {
        let numbers = self.numbers.iter().map(|v| v * factor).collect();
        Self { numbers, norm: self.norm * factor.powi(2), terms: self.terms }
    }

    /// Bound of the difference between these kernel values and the values of [`Kernel::row`], relative to the
    /// largest kernel value. The rows are within this range; one has at most `terms` non-zero entries, the
    /// other at most twice as many. `None` if the difference exceeds [`PRECISION`].
    ///
    /// The error of the squared distance has these parts, in units of ε/2. N is the largest `‖u‖²` over the
    /// columns with a majority value, and M the sum of the squares of the largest other numbers:
    /// - Each number is rounded twice, which adds `8 (‖u‖² + ‖v‖²)`.
    /// - `‖u‖²`, `‖v‖²` and the inner product, which counts twice, are sums with one term per non-zero entry.
    /// - Three sums are at most 2 N and 4 N.
    /// - Differences of the other columns have relative errors, `8 M`, and each of their sums is at most
    ///   `4 (N + M)`.
    ///
    /// [`Kernel::row`] has an error of `(4 + columns) s` in a squared distance s. A convex profile that is at
    /// most 1 falls by at most 1 over s. Both ways round the profile and one product.
    pub(super) fn precision(&self, kernel: &Kernel) -> Option<f64> {
        let (factor, bounds) = joint_distance(kernel)?;
        let (n, m) = (self.norm, dot(&self.numbers, &self.numbers));
        let (terms, n_dense) = (self.terms as f64, self.numbers.len() as f64);
        let square = (22.0 + (3 + LONGER) as f64 * terms) * n + 24.0 * m + 4.0 * n_dense * (n + m);
        let difference_error = 4.0 + factor.columns.len() as f64 + 2.0 * (bounds.roundings + 1.0);
        let precision = f64::EPSILON / 2.0 * (bounds.steepest * square + difference_error);
        (precision <= PRECISION).then_some(precision)
    }
}

impl DistanceByProducts {
    /// The rows of `x` in the layout of [`ColumnShift::for_rows`]. `None` if there is no such layout, or if
    /// rounding errors could exceed [`PRECISION`].
    pub(super) fn new(kernel: &Kernel, x: &Table) -> Option<Self> {
        let out = ColumnShift::for_rows(kernel, x)?.lay(Columns::from_row(x, 0));
        out.extent().precision(kernel).map(|_| out)
    }

    /// The range of these rows.
    pub(super) fn extent(&self) -> ValueRange {
        let ColumnShift { columns, sparse } = &self.frame;
        let largest =
            |slot: usize| (0..self.rows).fold(0.0, |maximum: f64, i| maximum.max(self.number(i, slot).abs()));
        ValueRange {
            numbers: (*sparse..columns.len()).map(largest).collect(),
            norm: self.norms[..self.rows].iter().fold(0.0, |maximum, norm| maximum.max(*norm)),
            terms: (0..self.rows).map(|i| self.count_nonzero(i)).max().unwrap_or(0),
        }
    }

    /// Indices of the rows that are larger, or have more non-zero entries, than the range allows.
    pub(super) fn exceeds_range(&self, extent: &ValueRange) -> Vec<usize> {
        let sparse = self.frame.sparse;
        let large = |i: usize| {
            let mut numbers = (sparse..).zip(&extent.numbers);
            self.norms[i] > extent.norm
                || numbers.any(|(slot, maximum)| self.number(i, slot).abs() > *maximum)
                || sparse > LONGER * extent.terms && self.count_nonzero(i) > LONGER * extent.terms
        };
        (0..self.rows).filter(|&i| large(i)).collect()
    }

    /// The number of non-zero entries of row i in the columns with a majority value.
    fn count_nonzero(&self, i: usize) -> usize {
        (0..self.frame.sparse).filter(|&slot| self.number(i, slot) != 0.0).count()
    }

    fn zeros(frame: ColumnShift, rows: usize) -> Self {
        let padded = rows.next_multiple_of(BLOCK);
        Self { rows, values: vec![0.0; padded * frame.columns.len()], norms: vec![0.0; padded], frame }
    }

    fn offset(&self, i: usize, slot: usize) -> usize {
        (i / BLOCK * self.frame.columns.len() + slot) * BLOCK + i % BLOCK
    }

    fn number(&self, i: usize, slot: usize) -> f64 {
        self.values[self.offset(i, slot)]
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn row(&self, i: usize) -> Row {
        let ColumnShift { columns, sparse } = &self.frame;
        let nonzeros =
            (0..*sparse).map(|slot| (slot * BLOCK, self.number(i, slot))).filter(|(_, x)| *x != 0.0);
        Row {
            nonzeros: nonzeros.collect(),
            numbers: (*sparse..columns.len()).map(|slot| self.number(i, slot)).collect(),
            norm: self.norms[i],
        }
    }

    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let mut out = Self::zeros(self.frame.clone(), rows.len());
        for (to, &from) in rows.iter().enumerate() {
            out.norms[to] = self.norms[from];
            for slot in 0..self.frame.columns.len() {
                let position = out.offset(to, slot);
                out.values[position] = self.number(from, slot);
            }
        }
        out
    }

    /// Kernel values as [`Kernel::tile`] computes them, between the rows `v` and `len` of these rows from
    /// `start` on. The rows `v` have the same layout, and `start` is the beginning of a block.
    #[allow(clippy::too_many_arguments, reason = "the arguments of a kernel's tile")]
    pub(super) fn tile(
        &self,
        isa: Isa,
        kernel: &Kernel,
        start: usize,
        len: usize,
        v: &[Row],
        out: &mut [f64],
        stride: usize,
    ) {
        let Some((factor, _)) = joint_distance(kernel) else { return };
        let (width, sparse) = (self.frame.columns.len(), self.frame.sparse);
        let mut squares = [0.0; RUN];
        for from in (0..len).step_by(RUN) {
            let (first, count) = (start + from, RUN.min(len - from));
            let padded = count.next_multiple_of(BLOCK);
            let (values, norms) =
                (&self.values[first * width..][..padded * width], &self.norms[first..][..padded]);
            for (r, v) in v.iter().enumerate() {
                run_squares(isa, values, (width, sparse), v, norms, &mut squares);
                let out = &mut out[r * stride + from..][..count];
                out.fill(kernel.terms[0].scale);
                factor.multiply_squares(isa, &squares[..count], out);
            }
        }
    }
}

/// The factor of a kernel that is a profile of one joint distance, with the bounds of the profile.
fn joint_distance(kernel: &Kernel) -> Option<(&Stationary, DistanceBounds)> {
    let [term] = &kernel.terms[..] else { return None };
    let [Factor::Stationary(factor)] = &term.factors[..] else { return None };
    Some((factor, factor.distance_bounds()?))
}

dispatch! {
    /// The squared distances between `v` and the rows of some blocks. `columns` is the number of columns and
    /// the number of columns with a majority value.
    fn run_squares<V: Simd>(
        values: &[f64],
        columns: (usize, usize),
        v: &Row,
        norms: &[f64],
        out: &mut [f64; RUN],
    ) {
        let (width, sparse) = columns;
        let blocks = values.chunks_exact(BLOCK * width).zip(norms.chunks_exact(BLOCK));
        for ((values, norms), out) in blocks.zip(out.chunks_exact_mut(BLOCK)) {
            // A part of the block at a time, whose sums stay in registers.
            for part in (0..BLOCK).step_by(V::SUMS * LANES) {
                let mut sums = [Lanes::ZERO; BLOCK / LANES];
                let sums = &mut sums[..V::SUMS];
                for &(offset, v) in &v.nonzeros {
                    let u = &values[offset + part..][..V::SUMS * LANES];
                    for (l, sum) in sums.iter_mut().enumerate() {
                        *sum = V::fma(Lanes::load(u, l * LANES), Lanes::splat(v), *sum);
                    }
                }
                for (l, sum) in sums.iter_mut().enumerate() {
                    let norms = V::add(Lanes::load(norms, part + l * LANES), Lanes::splat(v.norm));
                    *sum = V::max(V::fma(*sum, Lanes::splat(-2.0), norms), Lanes::ZERO);
                }
                for (u, &v) in values[sparse * BLOCK..].chunks_exact(BLOCK).zip(&v.numbers) {
                    for (l, sum) in sums.iter_mut().enumerate() {
                        let r = V::sub(Lanes::load(u, part + l * LANES), Lanes::splat(v));
                        *sum = V::fma(r, r, *sum);
                    }
                }
                for (out, sum) in out[part..].chunks_exact_mut(LANES).zip(sums) {
                    out.copy_from_slice(&sum.0);
                }
            }
        }
    }
}

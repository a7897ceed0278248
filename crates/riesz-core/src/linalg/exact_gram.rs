//! Exact products of rounded numbers, summed as integers. The results do not depend on the order of the sums,
//! and so not on the number of threads, files or machines.
//!
//! Numbers are rounded to multiples of 2⁻²¹ of their bound and stored as integers of at most 2²¹. The sum of
//! 2,048 products of two such numbers is at most 2⁵³. So a product of matrices in double precision is exact
//! in any order of its sums. All further sums are sums of integers.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::BlockStructure::TriangularLower;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use super::small_dense::triangular_matmul;
use crate::simd::{LANES, Lanes, Simd, dispatch};

/// The integer that represents 1.
pub const UNIT: f64 = 2_097_152.0;
/// The logarithm of [`UNIT`] to base 2.
pub const FRACTION_BITS: i32 = 21;
/// Maximum number of rows of a block.
pub const BLOCK: usize = 2048;
/// Number of rows whose sums of products fit into 63 bits.
const MAX_ROWS_I64: usize = 1 << 20;

/// The number whose addition and subtraction rounds a number to an integer.
const ROUND_SHIFT: f64 = 6_755_399_441_055_744.0;

/// The nearest integer of a number of at most 2⁵¹ in magnitude; ties go to the even integer.
#[inline(always)]
pub fn nearest(v: f64) -> f64 {
    (v + ROUND_SHIFT) - ROUND_SHIFT
}

/// Splits `v` into `a + b 2⁻²¹` with integers a and b; the error is at most 2⁻²².
#[inline(always)]
pub fn split_high_low(v: f64) -> (f64, f64) {
    let first = nearest(v);
    (first, nearest((v - first) * UNIT))
}

/// The last, incomplete lane of `v`, from `start` on; missing entries are 0.
#[inline(always)]
fn last_lane(v: &[f64], start: usize) -> Lanes {
    let mut lane = Lanes::ZERO;
    let end = v.len().min(start + LANES);
    lane.0[..end - start].copy_from_slice(&v[start..end]);
    lane
}

/// Splits numbers into a high and a low integer part, as [`split_high_low`] does.
#[inline(always)]
fn slices<V: Simd>(v: Lanes) -> (Lanes, Lanes) {
    let shift = Lanes::splat(ROUND_SHIFT);
    let first = V::sub(V::add(v, shift), shift);
    let left = V::mul(V::sub(v, first), Lanes::splat(UNIT));
    (first, V::sub(V::add(left, shift), shift))
}

dispatch! {
    /// Rounds each number times `scale` and its root to an integer. Empty `roots` mean that all roots are 1.
    pub fn round<V: Simd>(column: &mut [f64], scale: f64, roots: &[f64]) {
        if roots.is_empty() {
            for v in column {
                *v = nearest(*v * scale);
            }
        } else {
            for (v, root) in column.iter_mut().zip(roots) {
                *v = nearest(*v * scale * root);
            }
        }
    }

    /// The sum of products of integers. All partial sums are below 2⁵³, so the sum is exact in any order.
    pub fn product<V: Simd>(a: &[f64], b: &[f64]) -> f64 {
        let (mut sum, mut other) = (Lanes::ZERO, Lanes::ZERO);
        let full_len = a.len() / LANES * LANES;
        for start in (0..full_len).step_by(LANES) {
            (sum, other) = (other, V::fma(Lanes::load(a, start), Lanes::load(b, start), sum));
        }
        if full_len < a.len() {
            sum = V::fma(last_lane(a, full_len), last_lane(b, full_len), sum);
        }
        V::add(sum, other).sum()
    }

    /// Splits each number times `scale` and its root into two integer parts, and returns the [`product`] of
    /// both parts with each of two vectors of integers.
    pub fn sliced_products<V: Simd>(
        column: &[f64],
        scale: f64,
        roots: &[f64],
        with: [&[f64]; 2],
    ) -> [(f64, f64); 2] {
        let (mut s, mut t, mut u, mut w) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
        let scale = Lanes::splat(scale);
        let full_len = column.len() / LANES * LANES;
        for start in (0..column.len()).step_by(LANES) {
            let (mut v, a, b) = if start < full_len {
                (Lanes::load(column, start), Lanes::load(with[0], start), Lanes::load(with[1], start))
            } else {
                (last_lane(column, start), last_lane(with[0], start), last_lane(with[1], start))
            };
            v = V::mul(v, scale);
            if !roots.is_empty() {
                v = V::mul(v, if start < full_len {
                    Lanes::load(roots, start)
                } else {
                    last_lane(roots, start)
                });
            }
            let (first, second) = slices::<V>(v);
            (s, t) = (V::fma(first, a, s), V::fma(second, a, t));
            (u, w) = (V::fma(first, b, u), V::fma(second, b, w));
        }
        [(s.sum(), t.sum()), (u.sum(), w.sum())]
    }
}

/// Maximum number of rows and of columns of a part of a product: a multiple of [`KERNEL`], so that the fast
/// loops leave no remainder.
const PART: usize = 20 * KERNEL;
/// A multiple of the block sizes of matrix products for registers of any width.
const KERNEL: usize = 24;

/// The number of columns of the sums that one thread computes at a time. There are four times as many tasks
/// as threads, because tasks have different sizes.
fn panel(size: usize) -> usize {
    (size / (4 * rayon::current_num_threads())).clamp(3 * KERNEL, PART) / KERNEL * KERNEL
}

/// Adds the lower triangle of `AᵀA`, in the `count` columns from `first` on, to these columns' packed sums.
/// It works in parts that fit in the cache.
fn add_lower(sums: &mut [i64], a: MatRef<'_, f64>, first: usize, count: usize, scratch: &mut Vec<f64>) {
    let p = a.ncols();
    let columns = a.subcols(first, count);
    scratch.resize(PART.max(count) * count, 0.0);
    let diagonal = MatMut::from_column_major_slice_mut(&mut scratch[..count * count], count, count);
    triangular_matmul(diagonal, TriangularLower, Accum::Replace, columns.transpose(), columns, Par::Seq);
    add_part(sums, (first, p), first, &scratch[..count * count], count);
    for from in (first + count..p).step_by(PART) {
        let rows = PART.min(p - from);
        let part = &mut scratch[..rows * count];
        let out = MatMut::from_column_major_slice_mut(part, rows, count);
        matmul(out, Accum::Replace, a.subcols(from, rows).transpose(), columns, 1.0, Par::Seq);
        add_part(sums, (first, p), from, part, rows);
    }
}

/// Adds a part of a product, whose first row is `from`, to the packed sums of the columns from `first` on of
/// a matrix with p rows.
fn add_part(sums: &mut [i64], (first, p): (usize, usize), from: usize, part: &[f64], rows: usize) {
    let mut remaining = sums;
    for (j, column) in part.chunks_exact(rows).enumerate() {
        let diagonal = first + j;
        let (packed_column, later_columns) = remaining.split_at_mut(p - diagonal);
        let top = from.max(diagonal);
        let entries = &mut packed_column[top - diagonal..from + rows - diagonal];
        entries.iter_mut().zip(&column[top - from..]).for_each(|(sum, v)| *sum += *v as i64);
        remaining = later_columns;
    }
}

/// The sum of `AᵀA` over blocks A of integers: the packed lower triangle, column by column.
#[derive(Debug, Clone)]
pub struct ExactGram {
    size: usize,
    narrow: Vec<i64>,
    /// Number of rows whose products are in `narrow`.
    rows: usize,
    /// Sums that exceed the range of `narrow`; empty if no sum does.
    wide: Vec<i128>,
}

impl ExactGram {
    /// Creates a sum over no rows, of `size` × `size` numbers.
    pub fn new(size: usize) -> Self {
        Self { size, narrow: vec![0; packed_len(size)], rows: 0, wide: Vec::new() }
    }

    /// Adds a block of at most [`BLOCK`] rows, stored column by column.
    pub fn add(&mut self, block: &[f64], rows: usize) {
        let p = self.size;
        if self.rows + rows > MAX_ROWS_I64 {
            self.widen();
        }
        self.rows += rows;
        let block = MatRef::from_column_major_slice(block, rows, p);
        let (width, mut remaining, mut panels) = (panel(p), &mut self.narrow[..], Vec::new());
        for first in (0..p).step_by(width) {
            let count = width.min(p - first);
            let (panel_sums, later_panels) =
                remaining.split_at_mut(packed_len(p - first) - packed_len(p - first - count));
            panels.push((first, count, panel_sums));
            remaining = later_panels;
        }
        panels.into_par_iter().for_each_init(Vec::new, |scratch, (first, count, sums)| {
            add_lower(sums, block, first, count, scratch);
        });
    }

    fn widen(&mut self) {
        self.wide.resize(self.narrow.len(), 0);
        self.wide
            .iter_mut()
            .zip(&mut self.narrow)
            .for_each(|(wide, narrow)| *wide += i128::from(std::mem::take(narrow)));
        self.rows = 0;
    }

    /// Returns the packed sums.
    pub fn into_sums(self) -> Vec<i128> {
        if self.wide.is_empty() {
            return self.narrow.into_iter().map(i128::from).collect();
        }
        self.wide.into_iter().zip(self.narrow).map(|(wide, narrow)| wide + i128::from(narrow)).collect()
    }
}

/// The number of entries of a packed lower triangle.
pub fn packed_len(size: usize) -> usize {
    size * (size + 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, RngExt, SeedableRng};
    use crate::simd::Isa;

    /// Sums are exact for the largest numbers, in blocks of any size, with one thread or several.
    #[test]
    fn sums_are_exact() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for (p, rows) in [(7, 3 * BLOCK + 11), (2 * PART + 77, 45)] {
            let mut random = Random::seed_from_u64(1);
            for extreme in [true, false] {
                let mut draw = || if extreme { 1 << 21 } else { random.random_range(-(1 << 21)..=1 << 21) };
                let a: Vec<i64> = (0..rows * p).map(|_| draw()).collect();
                let block = |from: usize, to: usize| -> Vec<f64> {
                    let a = &a;
                    (0..p).flat_map(|j| (from..to).map(move |i| a[i * p + j] as f64)).collect()
                };
                let summed = |step: usize| {
                    let mut gram = ExactGram::new(p);
                    for from in (0..rows).step_by(step) {
                        let to = rows.min(from + step);
                        gram.add(&block(from, to), to - from);
                        if from > 2 * BLOCK {
                            gram.widen();
                        }
                    }
                    gram.into_sums()
                };
                let sums = summed(BLOCK);
                assert!(sums == summed(1000) && sums == pool.install(|| summed(20 + rows / 10)));
                let mut index = 0;
                for j in 0..p {
                    for i in j..p {
                        let integer = |r: usize, c: usize| a[r * p + c];
                        assert_eq!(
                            sums[index],
                            (0..rows).map(|r| i128::from(integer(r, i) * integer(r, j))).sum::<i128>()
                        );
                        index += 1;
                    }
                }
            }
        }
    }

    /// Products agree with integer arithmetic on every instruction set, for any length, with and without
    /// roots.
    #[test]
    fn products_are_those_of_whole_numbers() {
        let mut random = Random::seed_from_u64(3);
        for isa in Isa::available() {
            for len in [1, 7, 8, 9, 64, 511] {
                let mut draw = |size: f64| -> Vec<f64> {
                    (0..len).map(|_| (2.0 * random.random::<f64>() - 1.0) * size).collect()
                };
                let (column, roots) = (draw(1.0), draw(1.0));
                let with = [draw(UNIT), draw(UNIT)].map(|v| v.into_iter().map(nearest).collect::<Vec<_>>());
                for roots in [&[][..], &roots] {
                    let value = |i: usize| column[i] * UNIT * roots.get(i).copied().unwrap_or(1.0);
                    let sum =
                        |product_at: &dyn Fn(usize) -> i128| (0..len).map(product_at).sum::<i128>() as f64;
                    let products = sliced_products(isa, &column, UNIT, roots, [&with[0], &with[1]]);
                    for (with, actual) in with.iter().zip(products) {
                        let first = sum(&|i| split_high_low(value(i)).0 as i128 * with[i] as i128);
                        let second = sum(&|i| split_high_low(value(i)).1 as i128 * with[i] as i128);
                        assert_eq!(actual, (first, second), "{} {len}", isa.name());
                    }
                    let mut rounded = column.clone();
                    round(isa, &mut rounded, UNIT, roots);
                    assert!((0..len).all(|i| rounded[i] == nearest(value(i))));
                    let product = product(isa, &rounded, &with[0]);
                    assert_eq!(product, sum(&|i| rounded[i] as i128 * with[0][i] as i128));
                }
            }
        }
    }

    #[test]
    fn slices_make_up_a_number() {
        let mut random = Random::seed_from_u64(2);
        for _ in 0..10_000 {
            let v = (2.0 * random.random::<f64>() - 1.0) * UNIT;
            let (first, second) = split_high_low(v);
            assert!(first.fract() == 0.0 && second.fract() == 0.0 && second.abs() <= UNIT / 2.0);
            assert!((v - first - second / UNIT).abs() <= 0.5 / UNIT);
        }
        assert_eq!((nearest(2.5), nearest(-3.5), nearest(-0.4)), (2.0, -4.0, 0.0));
    }
}

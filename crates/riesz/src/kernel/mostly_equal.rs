//! Rows most of whose numbers are the commonest of their column, as those of one-hot columns are, under one profile of the joint distance.
//!
//! Counted from the commonest number most are 0, and `‖u - v‖² = ‖u‖² + ‖v‖² - 2 u·v` takes as many multiplications as v has others. Columns
//! that have no such number are summed up by their differences. Where rounding could show, there is no such layout.

use super::{FactorKind, Kernel};
use crate::linalg::dot;
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch};
use crate::table::Table;

/// Rows of a block: with all their columns they fit a core's first cache.
pub(super) const BLOCK: usize = 32;
/// How far rounding may take a kernel value of 1.
const PRECISION: f64 = 1e-11;

/// The layout: in blocks of rows, by column, in length scales; first the columns with a commonest number.
pub(super) struct MostlyEqual {
    rows: usize,
    sparse: usize,
    width: usize,
    values: Vec<f64>,
    /// `‖u‖²` over the first columns.
    norms: Vec<f64>,
}

/// A row as a layout reads it.
pub(super) struct Row {
    /// Where its numbers that are not the commonest stand in a block, and they.
    pub(super) own: Vec<(usize, f64)>,
    /// Those of the other columns.
    pub(super) numbers: Vec<f64>,
    /// `‖v‖²` over the first columns.
    pub(super) norm: f64,
}

/// The number that more than half of them are, if there is one (Boyer and Moore 1991), and how many are not.
fn majority(column: &[f64]) -> Option<(f64, usize)> {
    let (mut most, mut lead) = (f64::NAN, 0_usize);
    for &x in column {
        match lead {
            0 => (most, lead) = (x, 1),
            _ if x == most => lead += 1,
            _ => lead -= 1,
        }
    }
    let others = column.iter().filter(|x| **x != most).count();
    (2 * others < column.len()).then_some((most, others))
}

impl MostlyEqual {
    /// `None` if the kernel is another one, if few numbers are the commonest, or if digits would be lost.
    pub(super) fn new(kernel: &Kernel, x: &Table) -> Option<Self> {
        let distance = factor(kernel)?.distance()?;
        let n = x.rows();
        let (mut first, mut last, mut own) = (Vec::new(), Vec::new(), 0);
        for (&j, l) in distance.columns.iter().zip(distance.lengthscale) {
            let column = x.column(j);
            match majority(column) {
                Some((most, others)) => {
                    first.push((j, most, 1.0 / l));
                    own += others;
                }
                None => {
                    let (least, most) = (column.iter())
                        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
                    last.push((j, least + 0.5 * (most - least), 1.0 / l));
                }
            }
        }
        let width = distance.columns.len();
        if 2 * (last.len() * n + own) > width * n {
            return None;
        }
        let sparse = first.len();
        let mut out = Self::zeros(n, sparse, width);
        for (slot, &(j, center, inverse)) in first.iter().chain(&last).enumerate() {
            x.column(j).iter().enumerate().for_each(|(i, x)| {
                let at = out.place(i, slot);
                out.values[at] = (x - center) * inverse;
            });
        }
        // A bound of what rounding adds to a squared distance: three roundings of every number, those of the sums.
        let (mut largest, mut terms, mut most) = (vec![0.0_f64; width - sparse], 0, 0.0_f64);
        for i in 0..n {
            // In the order of the inner products, so that equal rows are at distance 0.
            let mut row = out.row(i);
            row.norm = row.own.iter().fold(0.0, |sum: f64, (_, x)| x.mul_add(*x, sum));
            largest.iter_mut().zip(&row.numbers).for_each(|(a, b)| *a = a.max(b.abs()));
            (terms, most) = (terms.max(row.own.len()), most.max(row.norm));
            out.norms[i] = row.norm;
        }
        let off = f64::EPSILON / 2.0 * (32.0 * dot(&largest, &largest) + (32 + 4 * terms) as f64 * most);
        (distance.steepest * off <= PRECISION).then_some(out)
    }

    fn zeros(rows: usize, sparse: usize, width: usize) -> Self {
        let padded = rows.next_multiple_of(BLOCK);
        Self { rows, sparse, width, values: vec![0.0; padded * width], norms: vec![0.0; padded] }
    }

    fn place(&self, i: usize, slot: usize) -> usize {
        (i / BLOCK * self.width + slot) * BLOCK + i % BLOCK
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn row(&self, i: usize) -> Row {
        let number = |slot: usize| self.values[self.place(i, slot)];
        let own = (0..self.sparse).map(|slot| (slot * BLOCK, number(slot))).filter(|(_, x)| *x != 0.0);
        Row {
            own: own.collect(),
            numbers: (self.sparse..self.width).map(number).collect(),
            norm: self.norms[i],
        }
    }

    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let mut out = Self::zeros(rows.len(), self.sparse, self.width);
        for (to, &from) in rows.iter().enumerate() {
            out.norms[to] = self.norms[from];
            for slot in 0..self.width {
                let at = out.place(to, slot);
                out.values[at] = self.values[self.place(from, slot)];
            }
        }
        out
    }

    /// As [`Kernel::tile`] between `len` rows from `start` on, which is at the beginning of a block, and rows of the same layout.
    #[allow(clippy::too_many_arguments, reason = "those of a kernel's tile")]
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
        let Some(factor) = factor(kernel) else { return };
        let mut squares = [0.0; BLOCK];
        for from in (0..len).step_by(BLOCK) {
            let block = (start + from) / BLOCK;
            let values = &self.values[block * BLOCK * self.width..][..BLOCK * self.width];
            let norms = &self.norms[block * BLOCK..][..BLOCK];
            let count = BLOCK.min(len - from);
            for (r, v) in v.iter().enumerate() {
                let rest = &values[self.sparse * BLOCK..];
                block_squares(isa, values, &v.own, rest, &v.numbers, norms, v.norm, &mut squares);
                let out = &mut out[r * stride + from..][..count];
                out.fill(kernel.terms[0].scale);
                factor.multiply_squares(isa, &squares[..count], out);
            }
        }
    }
}

/// The only factor of the only term.
fn factor(kernel: &Kernel) -> Option<&dyn FactorKind> {
    match &kernel.terms[..] {
        [term] if term.factors.len() == 1 => Some(&*term.factors[0]),
        _ => None,
    }
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn block_squares_body<V: Simd>(
    values: &[f64],
    own: &[(usize, f64)],
    rest: &[f64],
    differences: &[f64],
    norms: &[f64],
    norm: f64,
    out: &mut [f64; BLOCK],
) {
    let mut sums = [Lanes::ZERO; BLOCK / LANES];
    for &(at, v) in own {
        let u = &values[at..at + BLOCK];
        for (l, sum) in sums.iter_mut().enumerate() {
            *sum = Lanes::load(u, l * LANES).fma::<V>(Lanes::splat(v), *sum);
        }
    }
    for (l, sum) in sums.iter_mut().enumerate() {
        let norms = Lanes::load(norms, l * LANES).add::<V>(Lanes::splat(norm));
        *sum = V::max(sum.fma::<V>(Lanes::splat(-2.0), norms), Lanes::ZERO);
    }
    for (u, &v) in rest.chunks_exact(BLOCK).zip(differences) {
        for (l, sum) in sums.iter_mut().enumerate() {
            let r = Lanes::load(u, l * LANES).sub::<V>(Lanes::splat(v));
            *sum = r.fma::<V>(r, *sum);
        }
    }
    for (out, sum) in out.chunks_exact_mut(LANES).zip(&sums) {
        out.copy_from_slice(&sum.0);
    }
}

dispatch! {
    /// The squared distances of a block's rows from one.
    fn block_squares(
        values: &[f64],
        own: &[(usize, f64)],
        rest: &[f64],
        differences: &[f64],
        norms: &[f64],
        norm: f64,
        out: &mut [f64; BLOCK],
    ) = block_squares_body::<V>
}

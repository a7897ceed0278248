//! Kernels that are known given any of some blocks of columns.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::control;
use crate::error::Result;
use crate::kernel::rounding_bounds::MIN_EXPONENT;
use crate::kernel::{Columns, Kernel};
use crate::simd::{Isa, Simd, dispatch};
use crate::table::{Column, Table};

/// How alike rows are in some blocks of their columns, whichever of them are given.
pub(crate) struct BlockKernel {
    kernel: Kernel,
    /// For each column the block that it is in, if any.
    owner: Vec<Option<usize>>,
    /// One a block, 1 for blocks that it does not read, if the kernel is their product: given some blocks it
    /// is the product of theirs. Else it ties blocks together, and given some of them it is taken to their
    /// columns.
    factors: Option<Vec<Kernel>>,
}

impl BlockKernel {
    /// Takes a valid kernel apart, as far as it goes. Columns that are in no block are never given.
    pub(crate) fn new(kernel: &Kernel, columns: &[Column], blocks: &[Vec<usize>]) -> Self {
        let mut owner = vec![None; columns.len()];
        for (b, block) in blocks.iter().enumerate() {
            block.iter().for_each(|&j| owner[j] = Some(b));
        }
        let kernel = kernel.restricted(&|j| owner[j].is_some());
        let numbers: Vec<usize> = owner.iter().map(|block| block.unwrap_or(usize::MAX)).collect();
        let factors = match kernel.split(columns, &numbers).as_deref() {
            Ok([one]) if one.scale == 1.0 => Some(one.kernels(blocks.len())),
            _ => None,
        };
        Self { kernel, owner, factors }
    }

    /// The kernel given all blocks.
    pub(crate) fn whole(&self) -> &Kernel {
        &self.kernel
    }

    /// Its factors, one a block, if it is their product.
    pub(crate) fn factors(&self) -> Option<&[Kernel]> {
        self.factors.as_deref()
    }

    /// The block of a column, if it is in any.
    pub(super) fn block(&self, column: usize) -> Option<usize> {
        self.owner[column]
    }

    /// The blocks that it reads, ascending.
    pub(super) fn read(&self) -> Vec<usize> {
        let factors = self.kernel.terms.iter().flat_map(|term| &term.factors);
        let mut read: Vec<usize> = factors.flat_map(|f| f.columns()).filter_map(|&j| self.block(j)).collect();
        read.sort_unstable();
        read.dedup();
        read
    }

    /// The kernels given each of some sets of blocks.
    pub(crate) fn given(&self, sets: &[&[bool]]) -> Products<'_> {
        if let Some(factors) = &self.factors {
            return Products::new(factors, sets, true);
        }
        let of = |set: &&[bool]| self.kernel.restricted(&|j| self.owner[j].is_some_and(|b| set[b]));
        let chosen = (0..sets.len()).map(|set| vec![set]).collect();
        Products { kernels: sets.iter().map(of).map(Cow::Owned).collect(), chosen }
    }

    /// By block, its factor between the rows of `u` and each row of `x`, empty where it is 1; none if the
    /// kernel is no product of them.
    pub(crate) fn kept(&self, u: &Table, x: &Table, stop: &AtomicBool) -> Result<Option<Vec<Vec<f64>>>> {
        self.factors.as_ref().map(|kernels| kept(kernels, u, x, stop)).transpose()
    }

    /// The kernel given some blocks, between the rows of `u` and each row of `x`, from what was
    /// [`kept`](Self::kept) of it.
    pub(crate) fn between(
        &self,
        kept: Option<&[Vec<f64>]>,
        given: &[bool],
        u: &Table,
        x: &Table,
        out: &mut [f64],
    ) {
        match kept {
            Some(factors) => multiply(&split(factors, given, true), 0..out.len(), out),
            None => self.given(&[given]).fill(0, u, x, 0..x.rows(), out),
        }
    }

    /// Units of rounding that it may be off, where its factors read so many columns and are so many.
    pub(crate) fn units(&self, pieces: usize) -> f64 {
        let own = if self.factors.is_none() { self.kernel.roundings() } else { 0.0 };
        own.max((12 * pieces + 8) as f64)
    }

    /// Units of rounding that the kernel between a row of so many columns and the reference may be off
    /// besides, relative to its length: where all of it is small, exponentials have large exponents.
    pub(crate) fn far(&self, width: usize, length: f64) -> f64 {
        if self.factors.is_none() {
            0.0
        } else {
            (14 + width) as f64 * (-length.ln()).clamp(0.0, MIN_EXPONENT)
        }
    }

    /// `√(t k(x, x))` for each row of `x`, which rounding of the kernel between rows is relative to where it
    /// sums up terms that may cancel, and t is such a number of the other rows (Cauchy and Schwarz). None for
    /// products of factors, which are rounded relative to themselves.
    pub(crate) fn reach(&self, given: &[bool], t: f64, x: &Table) -> Option<Vec<f64>> {
        self.factors.is_none().then(|| self.given(&[given]).diagonal(0, x).map(|k| (t * k).sqrt()).collect())
    }
}

/// Whether a kernel is anything but 1.
pub(crate) fn speaks(kernel: &Kernel) -> bool {
    !matches!(kernel.terms.as_slice(), [term] if term.factors.is_empty() && term.scale == 1.0)
}

/// Some kernels, of which several products are made.
pub(crate) struct Products<'k> {
    pub(super) kernels: Vec<Cow<'k, Kernel>>,
    /// For each product, the numbers of those that it is made of.
    pub(super) chosen: Vec<Vec<usize>>,
}

impl<'k> Products<'k> {
    /// For each set the product of those kernels that are in it, or of those that are not.
    pub(crate) fn new(kernels: &'k [Kernel], sets: &[&[bool]], on: bool) -> Self {
        let own = |set: &&[bool]| (0..set.len()).filter(|&k| set[k] == on && speaks(&kernels[k])).collect();
        Self { kernels: kernels.iter().map(Cow::Borrowed).collect(), chosen: sets.iter().map(own).collect() }
    }

    /// A product between each row of `u` and the row `v`, in memory that is kept.
    pub(crate) fn row(
        &self,
        product: usize,
        u: Columns<'_>,
        v: &[f64],
        memory: &mut [Vec<f64>; 2],
        out: &mut [f64],
    ) {
        let (isa, [buffer, factor]) = (Isa::detect(), memory);
        let Some((&first, others)) = self.chosen[product].split_first() else { return out.fill(1.0) };
        self.kernels[first].row(isa, u, v, buffer, out);
        factor.resize(out.len(), 0.0);
        for &k in others {
            self.kernels[k].row(isa, u, v, buffer, factor);
            out.iter_mut().zip(&*factor).for_each(|(o, f)| *o *= f);
        }
    }

    /// A product between all rows of `u` and some of `v`: all rows of `u` with the first of `v`, then with
    /// the second, …
    pub(crate) fn fill(&self, product: usize, u: &Table, v: &Table, rows: Range<usize>, out: &mut [f64]) {
        let mut memory = Default::default();
        for (i, out) in rows.zip(out.chunks_exact_mut(u.rows().max(1))) {
            self.row(product, Columns::of(u, 0), &v.row(i), &mut memory, out);
        }
    }

    /// A product between each row and itself.
    pub(crate) fn diagonal(&self, product: usize, x: &Table) -> impl Iterator<Item = f64> {
        let mut memory = Default::default();
        (0..x.rows()).map(move |i| {
            let (own, mut out) = (Columns::new(x.column_major(), x.rows(), i, 1), [0.0]);
            self.row(product, own, &x.row(i), &mut memory, &mut out);
            out[0]
        })
    }
}

/// Each kernel between the rows of `u` and each row of `x`, one row after the other; empty where it is 1.
pub(crate) fn kept(kernels: &[Kernel], u: &Table, x: &Table, stop: &AtomicBool) -> Result<Vec<Vec<f64>>> {
    let of = |kernel: &Kernel| {
        let mut out = vec![0.0; if speaks(kernel) { u.rows() * x.rows() } else { 0 }];
        out.par_chunks_mut(u.rows().max(1)).enumerate().try_for_each_init(Vec::new, |buffer, (i, out)| {
            kernel.row(Isa::detect(), Columns::of(u, 0), &x.row(i), buffer, out);
            control::check_cancelled(stop)
        })?;
        Ok(out)
    };
    kernels.iter().map(of).collect()
}

/// Those factors that are in a set, or those that are not; empty ones are 1.
pub(crate) fn split<'f>(factors: &'f [Vec<f64>], set: &[bool], on: bool) -> Vec<&'f [f64]> {
    let own = factors.iter().zip(set).filter(|(factor, is)| **is == on && !factor.is_empty());
    own.map(|(factor, _)| factor.as_slice()).collect()
}

/// The products of the factors' entries in a range; 1 without factors.
pub(crate) fn multiply(factors: &[&[f64]], range: Range<usize>, out: &mut [f64]) {
    multiply_in(Isa::detect(), factors, range, out);
}

dispatch! {
    fn multiply_in(factors: &[&[f64]], range: Range<usize>, out: &mut [f64]) = multiply_body::<V>
}

#[inline(always)]
fn multiply_body<V: Simd>(factors: &[&[f64]], range: Range<usize>, out: &mut [f64]) {
    // A piece of this length stays in the first-level cache while all factors pass over it.
    const PIECE: usize = 1024;
    for (at, out) in out.chunks_mut(PIECE).enumerate() {
        let from = range.start + at * PIECE;
        match factors {
            [] => out.fill(1.0),
            [one] => out.copy_from_slice(&one[from..from + out.len()]),
            [one, two, more @ ..] => {
                let both = one[from..].iter().zip(&two[from..]);
                out.iter_mut().zip(both).for_each(|(o, (a, b))| *o = a * b);
                for factor in more {
                    out.iter_mut().zip(&factor[from..]).for_each(|(o, f)| *o *= f);
                }
            }
        }
    }
}

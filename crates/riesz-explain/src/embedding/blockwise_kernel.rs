//! Kernels restricted to any subset of blocks of columns.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::control;
use crate::error::Result;
use crate::kernel::rounding_bounds::MIN_EXPONENT;
use crate::kernel::{Columns, Kernel};
use crate::simd::{Isa, Simd, dispatch};
use crate::table::{Column, Table};

/// A kernel that can be restricted to any subset of blocks of columns.
pub(crate) struct BlockKernel {
    /// The kernel of all blocks.
    pub(crate) kernel: Kernel,
    /// The block of each column, if it belongs to one.
    owner: Vec<Option<usize>>,
    /// One factor per block if the kernel is a product over the blocks; 1 for blocks that it does not read.
    /// Restricted to some blocks, the kernel is the product of their factors. `None` for other kernels, which
    /// are restricted to the columns of the blocks.
    factors: Option<Vec<Kernel>>,
}

impl BlockKernel {
    /// Splits a valid kernel into factors if possible. Columns outside all blocks are never conditioned on.
    pub(crate) fn new(kernel: &Kernel, columns: &[Column], blocks: &[Vec<usize>]) -> Self {
        let mut owner = vec![None; columns.len()];
        for (b, block) in blocks.iter().enumerate() {
            block.iter().for_each(|&j| owner[j] = Some(b));
        }
        let kernel = kernel.restricted(&|j| owner[j].is_some());
        let numbers: Vec<usize> = owner.iter().map(|block| block.unwrap_or(usize::MAX)).collect();
        let factors = match kernel.split(columns, &numbers, None).as_deref() {
            Ok([one]) if one.scale == 1.0 => Some(one.kernels(blocks.len())),
            _ => None,
        };
        Self { kernel, owner, factors }
    }

    /// The factors, one per block, if the kernel is their product.
    pub(crate) fn factors(&self) -> Option<&[Kernel]> {
        self.factors.as_deref()
    }

    /// The block of a column, if it belongs to one.
    pub(super) fn block(&self, column: usize) -> Option<usize> {
        self.owner[column]
    }

    /// The blocks that the kernel reads, ascending.
    pub(super) fn read(&self) -> Vec<usize> {
        let read: BTreeSet<usize> = self.kernel.columns_read().filter_map(|j| self.block(j)).collect();
        read.into_iter().collect()
    }

    /// The kernels restricted to each of these sets of blocks.
    pub(crate) fn restricted_to(&self, sets: &[&[bool]]) -> Products<'_> {
        if let Some(factors) = &self.factors {
            return Products::new(factors, sets, true);
        }
        let restricted = |set: &&[bool]| self.kernel.restricted(&|j| self.owner[j].is_some_and(|b| set[b]));
        let chosen = (0..sets.len()).map(|set| vec![set]).collect();
        Products { kernels: sets.iter().map(restricted).map(Cow::Owned).collect(), chosen }
    }

    /// For each block, its factor between the rows of `u` and each row of `x`; empty if the factor is 1.
    /// `None` if the kernel is not a product of factors.
    pub(crate) fn cached_factors(
        &self,
        u: &Table,
        x: &Table,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<Vec<f64>>>> {
        self.factors.as_ref().map(|kernels| factor_tables(kernels, u, x, stop)).transpose()
    }

    /// Writes the kernel restricted to the blocks in `set`, between the rows of `u` and each row of `x`. It
    /// uses the [`cached_factors`](Self::cached_factors) if there are any.
    pub(crate) fn fill(
        &self,
        cached_factors: Option<&[Vec<f64>]>,
        set: &[bool],
        u: &Table,
        x: &Table,
        out: &mut [f64],
    ) {
        match cached_factors {
            Some(factors) => multiply(&split(factors, set, true), 0..out.len(), out),
            None => self.restricted_to(&[set]).fill(0, u, x, 0..x.rows(), out),
        }
    }

    /// The rounding error of the kernel in units of ε/2; its factors read `pieces` columns and blocks in
    /// total.
    pub(crate) fn rounding_units(&self, pieces: usize) -> f64 {
        let kernel_roundings = if self.factors.is_none() { self.kernel.roundings() } else { 0.0 };
        kernel_roundings.max((12 * pieces + 8) as f64)
    }

    /// Additional rounding units of the kernel between a row of `width` columns and the reference rows,
    /// relative to its norm `length`: if all values are small, the exponentials have large exponents.
    pub(crate) fn small_value_units(&self, width: usize, length: f64) -> f64 {
        if self.factors.is_none() {
            0.0
        } else {
            (14 + width) as f64 * (-length.ln()).clamp(0.0, MIN_EXPONENT)
        }
    }

    /// `√(t k(x, x))` for each row of `x`, where t is the trace, or a bound, of the other rows' kernel matrix
    /// (Cauchy-Schwarz). If the kernel sums terms that may cancel, its rounding errors are relative to this
    /// number. `None` for products of factors, whose errors are relative to themselves.
    pub(crate) fn trace_lengths(&self, set: &[bool], t: f64, x: &Table) -> Option<Vec<f64>> {
        self.factors
            .is_none()
            .then(|| self.restricted_to(&[set]).diagonal(0, x).map(|k| (t * k).sqrt()).collect())
    }
}

/// Whether a kernel is not the constant 1.
pub(crate) fn is_nonconstant(kernel: &Kernel) -> bool {
    !matches!(kernel.terms.as_slice(), [term] if term.factors.is_empty() && term.scale == 1.0)
}

/// Several products of some kernels.
pub(crate) struct Products<'k> {
    pub(super) kernels: Vec<Cow<'k, Kernel>>,
    /// For each product, the indices of its kernels.
    pub(super) chosen: Vec<Vec<usize>>,
}

impl<'k> Products<'k> {
    /// For each set, the product of the kernels in it (`on` true) or of the kernels not in it (`on` false).
    pub(crate) fn new(kernels: &'k [Kernel], sets: &[&[bool]], on: bool) -> Self {
        let selected =
            |set: &&[bool]| (0..set.len()).filter(|&k| set[k] == on && is_nonconstant(&kernels[k])).collect();
        Self {
            kernels: kernels.iter().map(Cow::Borrowed).collect(),
            chosen: sets.iter().map(selected).collect(),
        }
    }

    /// Computes a product between each row of `u` and the row `v`, with scratch memory.
    pub(crate) fn row(
        &self,
        product: usize,
        u: Columns<'_>,
        v: &[f64],
        memory: &mut [Vec<f64>; 2],
        out: &mut [f64],
    ) {
        let (isa, [buffer, factor]) = (Isa::detect(), memory);
        let Some((&first, remaining)) = self.chosen[product].split_first() else { return out.fill(1.0) };
        self.kernels[first].row(isa, u, v, buffer, out);
        factor.resize(out.len(), 0.0);
        for &k in remaining {
            self.kernels[k].row(isa, u, v, buffer, factor);
            out.iter_mut().zip(&*factor).for_each(|(o, f)| *o *= f);
        }
    }

    /// Computes a product between all rows of `u` and the given rows of `v`: the values of the first row of
    /// `v` with all rows of `u`, then of the second, and so on.
    pub(crate) fn fill(&self, product: usize, u: &Table, v: &Table, rows: Range<usize>, out: &mut [f64]) {
        let mut memory = Default::default();
        for (i, out) in rows.zip(out.chunks_exact_mut(u.rows().max(1))) {
            self.row(product, Columns::from_row(u, 0), &v.row(i), &mut memory, out);
        }
    }

    /// The value of a product between each row and itself.
    pub(crate) fn diagonal(&self, product: usize, x: &Table) -> impl Iterator<Item = f64> {
        let mut memory = Default::default();
        (0..x.rows()).map(move |i| {
            let (row_columns, mut out) = (Columns::new(x.column_major(), x.rows(), i, 1), [0.0]);
            self.row(product, row_columns, &x.row(i), &mut memory, &mut out);
            out[0]
        })
    }
}

/// Each kernel between the rows of `u` and each row of `x`, row by row of `x`; empty if the kernel is 1.
pub(crate) fn factor_tables(
    kernels: &[Kernel],
    u: &Table,
    x: &Table,
    stop: &AtomicBool,
) -> Result<Vec<Vec<f64>>> {
    let factor_values = |kernel: &Kernel| {
        let mut out = vec![0.0; if is_nonconstant(kernel) { u.rows() * x.rows() } else { 0 }];
        out.par_chunks_mut(u.rows().max(1)).enumerate().try_for_each_init(Vec::new, |buffer, (i, out)| {
            kernel.row(Isa::detect(), Columns::from_row(u, 0), &x.row(i), buffer, out);
            control::check_cancelled(stop)
        })?;
        Ok(out)
    };
    kernels.iter().map(factor_values).collect()
}

/// The factors in a set (`on` true) or outside it (`on` false); empty factors are 1 and are left out.
pub(crate) fn split<'f>(factors: &'f [Vec<f64>], set: &[bool], on: bool) -> Vec<&'f [f64]> {
    let selected = factors.iter().zip(set).filter(|(factor, is)| **is == on && !factor.is_empty());
    selected.map(|(factor, _)| factor.as_slice()).collect()
}

/// The products of the factors' entries in a range; 1 without factors.
pub(crate) fn multiply(factors: &[&[f64]], range: Range<usize>, out: &mut [f64]) {
    multiply_in(Isa::detect(), factors, range, out);
}

dispatch! {
    fn multiply_in<V: Simd>(factors: &[&[f64]], range: Range<usize>, out: &mut [f64]) {
        // A piece of this length stays in the first-level cache while all factors pass over it.
        const PIECE: usize = 1024;
        for (index, out) in out.chunks_mut(PIECE).enumerate() {
            let from = range.start + index * PIECE;
            match factors {
                [] => out.fill(1.0),
                [one] => out.copy_from_slice(&one[from..from + out.len()]),
                [one, two, further @ ..] => {
                    let pairs = one[from..].iter().zip(&two[from..]);
                    out.iter_mut().zip(pairs).for_each(|(o, (a, b))| *o = a * b);
                    for factor in further {
                        out.iter_mut().zip(&factor[from..]).for_each(|(o, f)| *o *= f);
                    }
                }
            }
        }
    }
}

//! The prior of duels between items, from the kernel over wide rows of a fitted model: files hold this
//! kernel, but not the [`PairKernel`](super::PairKernel) from which it was made.

use super::left_right_columns::LeftRightColumns;
use crate::error::{Error, Result};
use crate::kernel::{Factor, Kernel, Term};
use crate::kernel_model::KernelExpansion;

/// Relative difference up to which two scales are equal, because scales are rounded products.
const TOLERANCE: f64 = 1e-9;

/// The kernels of the prior. Constants in the kernel of items are left out or become part of the utility,
/// which does not change the covariance of duels.
pub(super) struct WideRowPrior {
    /// The kernel of the utility between items, with all its parts and variances.
    pub utility: Option<Kernel>,
    /// The kernel between items of the generalised part, whose variance is 1.
    pub generalised: Option<Kernel>,
    /// The kernel between contexts, with the part that all contexts share.
    pub contexts: Option<Kernel>,
    /// The number of columns of an item.
    pub width: usize,
}

/// A term of the kernel over wide rows: its scale, and its factors by the columns that they read.
struct SideTerm {
    scale: f64,
    left: Vec<Factor>,
    right: Vec<Factor>,
    contexts: Vec<Factor>,
}

impl SideTerm {
    fn from_term(term: &Term, width: usize) -> Self {
        let mut split = Self { scale: term.scale, left: Vec::new(), right: Vec::new(), contexts: Vec::new() };
        for factor in &term.factors {
            let first = kernel_of(1.0, std::slice::from_ref(factor)).columns_read().min().unwrap_or(0);
            let part = match first / width {
                0 => &mut split.left,
                1 => &mut split.right,
                _ => &mut split.contexts,
            };
            part.push(factor.clone());
        }
        split
    }
}

fn kernel_of(scale: f64, factors: &[Factor]) -> Kernel {
    Kernel { terms: vec![Term { scale, factors: factors.to_vec() }] }
}

fn nearly_equal(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

/// Whether the right item's factors are those of the left item at the right item's columns.
fn mirrored(left: &[Factor], right: &[Factor], width: usize) -> bool {
    kernel_of(1.0, left).shift_columns(width) == kernel_of(1.0, right)
}

/// The sum of terms; `None` without terms.
fn sum(terms: Vec<Term>) -> Option<Kernel> {
    (!terms.is_empty()).then_some(Kernel { terms })
}

impl WideRowPrior {
    /// Returns the prior of a model of duels between items.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another model.
    pub fn from_model(model: &KernelExpansion) -> Result<Self> {
        let sides = LeftRightColumns::from_columns(model.columns())?;
        let width = sides.left.len();
        let in_order = sides.left.iter().chain(&sides.right).chain(&sides.contexts).copied();
        let prior = in_order.eq(0..model.columns().len()).then(|| Self::from_kernel(&model.kernel, width));
        prior.flatten().ok_or_else(|| {
            let allowed =
                "it must be a model of duels, whose kernel is that of a utility or of pairs of items";
            Error::parameter("model", model.kernel.formula(), allowed)
        })
    }

    fn from_kernel(kernel: &Kernel, width: usize) -> Option<Self> {
        let terms: Vec<SideTerm> = kernel.terms.iter().map(|term| SideTerm::from_term(term, width)).collect();
        let (contexts, terms) = without_contexts(terms)?;
        let has = |term: &SideTerm| (!term.left.is_empty(), !term.right.is_empty());
        let (mut left, mut right, mut both) = (Vec::new(), Vec::new(), Vec::new());
        for term in terms {
            match has(&term) {
                (true, true) => both.push(term),
                (true, false) => left.push(term),
                (false, true) => right.push(term),
                (false, false) => {}
            }
        }
        let is_difference = left.len() == right.len()
            && left
                .iter()
                .zip(&right)
                .all(|(l, r)| nearly_equal(l.scale, r.scale) && mirrored(&l.left, &r.right, width));
        let utility = left.into_iter().map(|term| Term { scale: term.scale, factors: term.left }).collect();
        let generalised = item_terms(both, width)?;
        is_difference.then_some(Self {
            utility: sum(utility),
            generalised: sum(generalised),
            contexts,
            width,
        })
    }
}

/// Returns the kernel between contexts, and the terms without it: each term of items occurs once per term of
/// contexts, one after another.
fn without_contexts(terms: Vec<SideTerm>) -> Option<(Option<Kernel>, Vec<SideTerm>)> {
    let first = &terms.first()?.contexts;
    let period = (1..terms.len()).find(|&t| terms[t].contexts == *first).unwrap_or(terms.len());
    let total = |chunk: &[SideTerm]| chunk.iter().map(|term| term.scale).sum::<f64>();
    let pattern = &terms[..period];
    let is_product = terms.chunks(period).all(|chunk| {
        chunk.len() == period
            && chunk.iter().zip(pattern).all(|(term, first)| {
                let shares = (term.scale / total(chunk), first.scale / total(pattern));
                let same_items = term.left == chunk[0].left && term.right == chunk[0].right;
                same_items && term.contexts == first.contexts && nearly_equal(shares.0, shares.1)
            })
    });
    let has_contexts = pattern.iter().any(|term| !term.contexts.is_empty());
    let context_terms = pattern
        .iter()
        .map(|term| Term { scale: term.scale / total(pattern), factors: term.contexts.clone() })
        .collect();
    let contexts = has_contexts.then_some(Kernel { terms: context_terms });
    let totals: Vec<f64> = terms.chunks(period).map(total).collect();
    let item_terms = terms.into_iter().step_by(period).zip(totals);
    is_product.then(|| (contexts, item_terms.map(|(term, scale)| SideTerm { scale, ..term }).collect()))
}

/// Returns the terms of the kernel k between items from those of the product `k(l, l') k(r, r')`.
fn item_terms(products: Vec<SideTerm>, width: usize) -> Option<Vec<Term>> {
    let count = products.len().isqrt();
    let diagonal = |a: usize| &products[a * count + a];
    let is_product = count * count == products.len()
        && (0..count).all(|a| mirrored(&diagonal(a).left, &diagonal(a).right, width))
        && products.iter().enumerate().all(|(index, term)| {
            let (row, column) = (diagonal(index / count), diagonal(index % count));
            term.left == row.left
                && term.right == column.right
                && nearly_equal(term.scale, (row.scale * column.scale).sqrt())
        });
    let term = |a: usize| Term { scale: diagonal(a).scale.sqrt(), factors: diagonal(a).left.clone() };
    is_product.then(|| (0..count).map(term).collect())
}

//! The prior of duels: the covariance of the log odds of two pairs of items, from a kernel of items.
//!
//! Let k be a kernel of items, `g(l, r)` the log odds that l beats r, and `p = (l, r)` and `p' = (l', r')`
//! two pairs. Then
//!
//! ```text
//! cov(g(p), g(p')) = utility [k(l,l') + k(r,r') - k(l,r') - k(r,l')]
//!                    + generalised [k(l,l') k(r,r') - k(l,r') k(r,l')]
//! ```
//!
//! The first part is that of a difference of utilities, `g = f(l) - f(r)`, which is a ranking (preferential
//! Gaussian processes, Chu and Ghahramani 2005). The second part is that of any skew function of two items,
//! including rock, paper, scissors (the generalised kernel of Chau, Gonzalez and Sejdinovic 2022). Their sum
//! is the generalised kernel of `c + k`, so one family contains both. The first part may include further
//! utilities with their own kernels: ability that an item's covariates do not explain, and the advantage of
//! the side at home. If duels have contexts, the covariance is multiplied by a kernel between contexts.
//!
//! Each part is the skew half of a product kernel over *wide* rows, which have the left item's columns, then
//! the right item's, then the contexts': `(u (k_left + k_right) + c k_left k_right) k_contexts`, with the
//! variances u of the utility and c of the generalised part. A model of duels is therefore a
//! [`KernelExpansion`](crate::KernelExpansion) with this kernel.

use rayon::prelude::*;

use super::duel_sides::{ABILITY, HOME};
use super::duels::{Contexts, Duels};
use crate::error::{Error, Result, sized};
use crate::kernel::{ColumnScaling, Kernel, KernelExpression, Term};
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::table::{Column, Table};

/// The prior of duels: kernels, and the variances of its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct PairKernel {
    /// The kernel between items.
    pub items: Kernel,
    /// The variance of the utility part, ≥ 0, in squared log odds.
    pub utility_variance: f64,
    /// The variance of the generalised part, which may be cyclic, ≥ 0, in squared log odds.
    pub generalised_variance: f64,
    /// The kernel between items of further utilities; the scales of its terms are their variances.
    pub extra_utility_kernel: Option<Kernel>,
    /// The kernel between contexts, if there are contexts.
    pub contexts: Option<ContextKernel>,
}

/// The covariance of the log odds of the same pair in two contexts u and u', relative to their variance:
/// `shared + (1 - shared) k(u, u')`.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextKernel {
    /// The kernel k between contexts.
    pub kernel: Kernel,
    /// The share of the variance that all contexts have in common, from 0 to 1.
    pub shared: f64,
}

/// A pair of items by their numbers, left and right.
pub type Pair = (usize, usize);

/// The matrices from which a covariance of duels is computed.
pub(super) struct ItemGrams {
    /// The kernel matrix of items, or of bags of items.
    pub items: Matrix,
    pub extra_utility_kernel: Option<Matrix>,
    /// The kernel matrix of the distinct contexts.
    pub contexts: Option<Matrix>,
}

/// The derivatives of a function in these matrices, and in the variances of a prior.
pub(super) struct PairKernelGradient {
    pub grams: ItemGrams,
    pub utility_variance: f64,
    pub generalised_variance: f64,
    pub shared: f64,
}

/// The entries of a matrix between items for two pairs.
#[derive(Clone, Copy)]
struct ItemQuad {
    ll: f64,
    rr: f64,
    lr: f64,
    rl: f64,
}

impl ItemQuad {
    fn from_gram(k: &Matrix, (l, r): Pair, (a, b): Pair) -> Self {
        let (left, right) = (k.row(l), k.row(r));
        Self { ll: left[a], rr: right[b], lr: left[b], rl: right[a] }
    }

    fn utility_covariance(self) -> f64 {
        (self.ll + self.rr) - (self.lr + self.rl)
    }

    fn generalised_covariance(self) -> f64 {
        self.ll * self.rr - self.lr * self.rl
    }
}

/// The default kernel between items, and between contexts, as an expression: Gaussian with a length scale for
/// each column, which starts from the median distance; categories are equal or not.
pub const DEFAULT_KERNEL: &str = "rbf(ard)";

/// Returns the default kernel for items or contexts, whose columns have these units. If most rows are equal,
/// so that the median distance is 0, length scales start from the median or the standard deviation of each
/// column.
///
/// # Errors
/// As [`KernelExpression::resolve`].
pub fn default_kernel(rows: &Table, units: &ColumnScaling) -> Result<Kernel> {
    let resolve = |expression: &str| KernelExpression::parse(expression)?.resolve(rows, units);
    resolve(DEFAULT_KERNEL).or_else(|_| resolve("rbf(length_scale=median_per_feature, ard)"))
}

impl ContextKernel {
    /// Returns the default kernel of contexts: half of the variance is common to all contexts where tuning
    /// starts.
    ///
    /// # Errors
    /// As [`default_kernel`].
    pub fn from_contexts(contexts: &Table) -> Result<Self> {
        Ok(Self { kernel: default_kernel(contexts, &ColumnScaling::standardised(contexts))?, shared: 0.5 })
    }
}

impl PairKernel {
    /// Creates a prior without further utilities and contexts.
    pub fn new(items: Kernel, utility: f64, generalised: f64) -> Self {
        Self {
            items,
            utility_variance: utility,
            generalised_variance: generalised,
            extra_utility_kernel: None,
            contexts: None,
        }
    }

    /// Checks the prior against the columns of items and of contexts.
    pub(super) fn check(&self, width: usize, duels: &Duels) -> Result<()> {
        self.items.validate(width)?;
        self.extra_utility_kernel.iter().try_for_each(|k| k.validate(width))?;
        let variances = [("utility", self.utility_variance), ("generalised", self.generalised_variance)];
        for (name, variance) in variances {
            crate::checks::not_negative(name, variance, "variances must be finite and 0 or more")?;
        }
        if self.utility_variance + self.generalised_variance == 0.0 && self.extra_utility_kernel.is_none() {
            let allowed = "the variances of the utility and of the generalised part cannot both be 0: make \
                           one positive";
            return Err(Error::parameter("utility", 0, allowed));
        }
        match (&self.contexts, duels.contexts()) {
            (Some(context_kernel), Some(contexts)) => {
                context_kernel.kernel.validate(contexts.table.width())?;
                if (0.0..=1.0).contains(&context_kernel.shared) {
                    return Ok(());
                }
                let allowed = "the share of the prior that all contexts have in common is from 0 to 1";
                Err(Error::parameter("shared", context_kernel.shared, allowed))
            }
            (None, None) => Ok(()),
            (Some(_), None) => {
                let allowed = "the prior has a kernel of contexts: give the duels their contexts";
                Err(Error::parameter("contexts", "none", allowed))
            }
            (None, Some(_)) => {
                let allowed = "these duels have contexts: give the prior a kernel of contexts, or leave the \
                               contexts out";
                Err(Error::parameter("kernel of contexts", "none", allowed))
            }
        }
    }

    /// Returns the entries of a model card about the prior variances of the parts, for items with these
    /// columns.
    pub(super) fn card_entries(&self, columns: &[Column]) -> Vec<CardEntry> {
        let mut card = vec![
            CardEntry::measured("prior variance of the utility", self.utility_variance),
            CardEntry::measured("prior variance of the generalised part", self.generalised_variance),
        ];
        let terms = self.extra_utility_kernel.iter().flat_map(|k| &k.terms);
        card.extend(terms.map(|term| {
            let kernel = Kernel { terms: vec![term.clone()] };
            let column = kernel.columns_read().next().and_then(|j| columns.get(j));
            let part = match column.map(|c| &c.name[..]) {
                Some(HOME) => "the home advantage",
                Some(ABILITY) => "the abilities",
                _ => "a further utility",
            };
            CardEntry::measured(format!("prior variance of {part}"), term.scale)
        }));
        card
    }

    /// Returns the covariance of two pairs, without the factor of their contexts.
    pub(super) fn pair_covariance(&self, grams: &ItemGrams, p: Pair, q: Pair) -> f64 {
        let quad = ItemQuad::from_gram(&grams.items, p, q);
        let extra_utility = grams
            .extra_utility_kernel
            .as_ref()
            .map_or(0.0, |k| ItemQuad::from_gram(k, p, q).utility_covariance());
        self.utility_variance * quad.utility_covariance()
            + self.generalised_variance * quad.generalised_covariance()
            + extra_utility
    }

    /// Returns the covariance of the compared pairs. Cost O(pairs²).
    pub(super) fn gram(&self, grams: &ItemGrams, duels: &Duels) -> Matrix {
        let (pairs, n) = (duels.pairs(), duels.pairs().len());
        let context_parts = self.contexts.as_ref().zip(grams.contexts.as_ref()).zip(duels.contexts());
        let mut out = Matrix::zeros(n, n);
        out.data_mut().par_chunks_mut(n.max(1)).enumerate().for_each(|(i, row)| {
            row.iter_mut().zip(pairs).for_each(|(out, q)| *out = self.pair_covariance(grams, pairs[i], *q));
            if let Some(((ContextKernel { shared, .. }, k), Contexts { rows, .. })) = &context_parts {
                let context_row = k.row(rows[i]);
                row.iter_mut()
                    .zip(rows)
                    .for_each(|(out, j)| *out *= shared + (1.0 - shared) * context_row[*j]);
            }
        });
        out
    }

    /// Returns the derivatives of a function in all parts of the prior, from its derivatives in
    /// [`gram`](Self::gram), a symmetric matrix over pairs. Cost O(pairs²).
    pub(super) fn gradient(&self, grams: &ItemGrams, duels: &Duels, gradient: &Matrix) -> PairKernelGradient {
        let pairs = duels.pairs();
        let zeros = |matrix: &Matrix| Matrix::zeros(matrix.rows(), matrix.cols());
        let mut out = PairKernelGradient {
            grams: ItemGrams {
                items: zeros(&grams.items),
                extra_utility_kernel: grams.extra_utility_kernel.as_ref().map(zeros),
                contexts: grams.contexts.as_ref().map(zeros),
            },
            utility_variance: 0.0,
            generalised_variance: 0.0,
            shared: 0.0,
        };
        let add_quad = |out: &mut Matrix, (l, r): Pair, (a, b): Pair, quad: ItemQuad| {
            out[(l, a)] += quad.ll;
            out[(r, b)] += quad.rr;
            out[(l, b)] += quad.lr;
            out[(r, a)] += quad.rl;
        };
        for (i, &p) in pairs.iter().enumerate() {
            for (j, (slope, &q)) in gradient.row(i).iter().zip(pairs).enumerate() {
                let mut slope = *slope;
                if let (Some(context_kernel), Some(k), Some(contexts)) =
                    (&self.contexts, &grams.contexts, duels.contexts())
                {
                    let context_pair = (contexts.rows[i], contexts.rows[j]);
                    let weight = slope * self.pair_covariance(grams, p, q);
                    out.shared += weight * (1.0 - k[context_pair]);
                    if let Some(out) = &mut out.grams.contexts {
                        out[context_pair] += weight * (1.0 - context_kernel.shared);
                    }
                    slope *= context_kernel.shared + (1.0 - context_kernel.shared) * k[context_pair];
                }
                let quad = ItemQuad::from_gram(&grams.items, p, q);
                out.utility_variance += slope * quad.utility_covariance();
                out.generalised_variance += slope * quad.generalised_covariance();
                let (u, c) = (slope * self.utility_variance, slope * self.generalised_variance);
                let weights = ItemQuad {
                    ll: u + c * quad.rr,
                    rr: u + c * quad.ll,
                    lr: -(u + c * quad.rl),
                    rl: -(u + c * quad.lr),
                };
                add_quad(&mut out.grams.items, p, q, weights);
                if let Some(out) = &mut out.grams.extra_utility_kernel {
                    add_quad(out, p, q, ItemQuad { ll: slope, rr: slope, lr: -slope, rl: -slope });
                }
            }
        }
        out
    }

    /// Returns the product kernel over wide rows, for items with `width` columns.
    pub fn wide_row_kernel(&self, width: usize) -> Kernel {
        let right = self.items.shift_columns(width);
        let mut terms = scaled_terms(self.utility_variance, self.items.clone());
        terms.extend(scaled_terms(self.utility_variance, right.clone()));
        if let Some(extra_utility) = &self.extra_utility_kernel {
            terms.extend(extra_utility.terms.iter().cloned().chain(extra_utility.shift_columns(width).terms));
        }
        terms.extend(scaled_terms(self.generalised_variance, self.items.clone() * right));
        match &self.contexts {
            Some(contexts) => Kernel { terms } * contexts.with_shared_part().shift_columns(2 * width),
            None => Kernel { terms },
        }
    }
}

impl ContextKernel {
    /// Returns the kernel of contexts, including the shared part.
    pub(super) fn with_shared_part(&self) -> Kernel {
        let shared = scaled_terms(self.shared, Kernel::constant(1.0));
        Kernel { terms: [shared, scaled_terms(1.0 - self.shared, self.kernel.clone())].concat() }
    }
}

/// Returns the terms of a kernel times a number; none if the number is 0.
fn scaled_terms(scale: f64, kernel: Kernel) -> Vec<Term> {
    if scale > 0.0 { (scale * kernel).terms } else { Vec::new() }
}

/// Returns the columns of wide rows: those of the left item, then those of the right item.
pub fn wide_columns(columns: &[Column]) -> Vec<Column> {
    let side = |side: &str| -> Vec<Column> {
        columns.iter().map(|c| Column { name: format!("{side}_{}", c.name), kind: c.kind.clone() }).collect()
    };
    [side("left"), side("right")].concat()
}

/// Returns the wide rows of pairs of items.
///
/// # Errors
/// Only those of a table with equal column names.
pub fn wide_rows(items: &Table, pairs: &[Pair]) -> Result<Table> {
    wide_rows_in(items, pairs, None)
}

/// Returns the wide rows of pairs of items, each with its context if there are contexts. The columns of
/// `contexts`, which has one row per pair, follow those of the items.
///
/// # Errors
/// As [`wide_rows`]; [`Error::Shape`] unless there is one context per pair; [`Error::Parameter`] for a column
/// of contexts with the name of a column of the items.
pub fn wide_rows_in(items: &Table, pairs: &[Pair], contexts: Option<&Table>) -> Result<Table> {
    check_contexts(contexts, pairs)?;
    let is_reserved = |c: &&Column| {
        let has_prefix = c.name.starts_with("left_") || c.name.starts_with("right_");
        has_prefix || items.columns().iter().any(|column| column.name == c.name)
    };
    if let Some(column) = contexts.and_then(|c| c.columns().iter().find(is_reserved)) {
        let allowed = "it must not be a column of the items, nor begin with left_ or right_, as the columns \
                       of the two items do: rename it";
        return Err(Error::parameter("column of contexts", &column.name, allowed));
    }
    let select_side =
        |side: fn(&Pair) -> usize| items.select_rows(&pairs.iter().map(side).collect::<Vec<_>>());
    let sides = [select_side(|p| p.0), select_side(|p| p.1)];
    let parts = sides.iter().chain(contexts);
    let values = parts.flat_map(|part| part.column_major().iter().copied()).collect();
    let mut columns = wide_columns(items.columns());
    columns.extend(contexts.into_iter().flat_map(|c| c.columns().iter().cloned()));
    Table::from_column_major(columns, pairs.len(), values)
}

/// Checks that there is one context per pair if there are contexts.
pub(super) fn check_contexts(contexts: Option<&Table>, pairs: &[Pair]) -> Result<()> {
    contexts.map_or(Ok(()), |contexts| {
        sized("the table of contexts", "rows", pairs.len(), contexts.rows(), "one per pair")
    })
}

/// Returns the link of log odds with this margin of ties. Its probabilities are averaged over the posterior.
pub(super) fn latent_link(margin: Option<f64>) -> Link {
    margin.map_or(Link::LatentLogistic, |margin| Link::LatentRaoKupper { margin })
}

/// Creates a model of the log odds that the left item of wide rows wins; with a margin of ties it has a third
/// class.
///
/// # Errors
/// As [`KernelExpansion::validate`].
pub(super) fn model(
    kernel: Kernel,
    points: Table,
    coef: Vec<f64>,
    link: Link,
    card: Vec<CardEntry>,
) -> Result<KernelExpansion> {
    let classes = ["right", "left", "tie"].map(String::from);
    let model = KernelExpansion {
        kernel,
        support_points: points,
        coef: Matrix::column_vector(coef),
        intercept: vec![0.0],
        output_names: vec!["left vs right".into()],
        link,
        classes: classes[..if matches!(link, Link::LatentRaoKupper { .. }) { 3 } else { 2 }].to_vec(),
        model_card: card,
    };
    model.validate()?;
    Ok(model)
}

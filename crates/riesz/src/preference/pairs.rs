//! What is believed beforehand of duels: the covariance of the log odds of two pairs of items, made of a
//! kernel of items.
//!
//! With `k` between items, `g(l, r)` the log odds that l beats r, and pairs `p = (l, r)` and `p' = (l', r')`,
//!
//! ```text
//! cov(g(p), g(p')) = utility [k(l,l') + k(r,r') - k(l,r') - k(r,l')] + generalised [k(l,l') k(r,r') - k(l,r') k(r,l')]
//! ```
//!
//! The first part is that of a difference of utilities, `g = f(l) - f(r)` (preferential Gaussian processes,
//! Chu and Ghahramani 2005), with which there is a ranking; the second that of any skew function of two
//! items, rock, paper and scissors included (the generalised kernel of Chau, Gonzalez and Sejdinovic 2022).
//! Their sum is the generalised kernel of `c + k`, so one family holds both. To the first part belong further
//! utilities with kernels of their own: ability that is not in an item's covariates, the advantage of the
//! side at home. Where duels have contexts, all is multiplied by a kernel between contexts.
//!
//! Each part is the skew half of a product kernel over *wide* rows, the left item's columns, then the right
//! one's, then the contexts': `(u (k_left + k_right) + c k_left k_right) k_contexts`, of which a model of
//! duels is therefore an [`Expansion`](crate::Expansion).

use rayon::prelude::*;

use super::duels::{Contexts, Duels};
use crate::error::{Error, Result};
use crate::expansion::{Expansion, Link};
use crate::explanation::Fact;
use crate::kernel::{Kernel, Term};
use crate::linalg::Matrix;
use crate::table::{Column, Table};

/// The prior of duels.
#[derive(Debug, Clone, PartialEq)]
pub struct PairKernel {
    /// Between items.
    pub items: Kernel,
    /// The share of a utility, ≥ 0, in squared log odds.
    pub utility: f64,
    /// The share of what may be cyclic, ≥ 0, in squared log odds.
    pub generalised: f64,
    /// Between items, of further utilities; the scales of its terms are their shares.
    pub alone: Option<Kernel>,
    /// Between contexts, where there are some.
    pub contexts: Option<ContextKernel>,
}

/// The covariance of the log odds of the same pair in two contexts u and u', relative to that in one:
/// `shared + (1 - shared) k(u, u')`.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextKernel {
    /// Between contexts.
    pub kernel: Kernel,
    /// The share of what is the same in all contexts, from 0 to 1.
    pub shared: f64,
}

/// A pair of items by their numbers, left and right.
pub type Pair = (usize, usize);

/// The matrices that a covariance of duels is made of.
pub(super) struct Grams {
    /// Between what meets: items, or bags of them.
    pub items: Matrix,
    pub alone: Option<Matrix>,
    /// Between the different contexts.
    pub contexts: Option<Matrix>,
}

/// How something changes with these matrices, and with the numbers of a prior.
pub(super) struct PriorSlopes {
    pub grams: Grams,
    pub utility: f64,
    pub generalised: f64,
    pub shared: f64,
}

/// The entries of a matrix between items that belong to two pairs.
#[derive(Clone, Copy)]
struct Four {
    ll: f64,
    rr: f64,
    lr: f64,
    rl: f64,
}

impl Four {
    fn of(k: &Matrix, (l, r): Pair, (a, b): Pair) -> Self {
        let (left, right) = (k.row(l), k.row(r));
        Self { ll: left[a], rr: right[b], lr: left[b], rl: right[a] }
    }

    fn utility(self) -> f64 {
        (self.ll + self.rr) - (self.lr + self.rl)
    }

    fn generalised(self) -> f64 {
        self.ll * self.rr - self.lr * self.rl
    }
}

impl PairKernel {
    /// Without further utilities and contexts.
    pub fn new(items: Kernel, utility: f64, generalised: f64) -> Self {
        Self { items, utility, generalised, alone: None, contexts: None }
    }

    /// Checks it against the columns of items and of contexts.
    pub(super) fn check(&self, width: usize, duels: &Duels) -> Result<()> {
        self.items.validate(width)?;
        self.alone.iter().try_for_each(|k| k.validate(width))?;
        let shares = [("utility", self.utility), ("generalised", self.generalised)];
        if let Some((name, bad)) = shares.iter().find(|(_, s)| !(s.is_finite() && *s >= 0.0)) {
            return Err(Error::parameter(*name, bad, "shares are finite and not negative"));
        }
        if self.utility + self.generalised == 0.0 && self.alone.is_none() {
            let allowed = "with generalised = 0 too nothing can be learnt: one is positive";
            return Err(Error::parameter("utility", 0, allowed));
        }
        match (&self.contexts, duels.contexts()) {
            (Some(own), Some(contexts)) => {
                own.kernel.validate(contexts.table.width())?;
                let fits = (0.0..=1.0).contains(&own.shared);
                let bad = || {
                    Error::parameter("shared", own.shared, "what contexts share is from 0 to 1 of the prior")
                };
                if fits { Ok(()) } else { Err(bad()) }
            }
            (None, None) => Ok(()),
            (Some(_), None) => {
                let allowed = "the prior has a kernel of contexts: give the duels their contexts";
                Err(Error::parameter("contexts", "none", allowed))
            }
            (None, Some(_)) => {
                let allowed = "these duels have contexts: give the prior a kernel of them, or the duels none";
                Err(Error::parameter("kernel of contexts", "none", allowed))
            }
        }
    }

    /// What the covariance of two pairs is but for their contexts.
    fn between(&self, grams: &Grams, p: Pair, q: Pair) -> f64 {
        let four = Four::of(&grams.items, p, q);
        let alone = grams.alone.as_ref().map_or(0.0, |k| Four::of(k, p, q).utility());
        self.utility * four.utility() + self.generalised * four.generalised() + alone
    }

    /// The covariance of the pairs that met. Cost O(pairs²).
    pub(super) fn gram(&self, grams: &Grams, duels: &Duels) -> Matrix {
        let (pairs, n) = (duels.pairs(), duels.pairs().len());
        let places = self.contexts.as_ref().zip(grams.contexts.as_ref()).zip(duels.contexts());
        let mut out = Matrix::zeros(n, n);
        out.data_mut().par_chunks_mut(n.max(1)).enumerate().for_each(|(i, row)| {
            row.iter_mut().zip(pairs).for_each(|(out, q)| *out = self.between(grams, pairs[i], *q));
            if let Some(((ContextKernel { shared, .. }, k), Contexts { rows, .. })) = &places {
                let own = k.row(rows[i]);
                row.iter_mut().zip(rows).for_each(|(out, j)| *out *= shared + (1.0 - shared) * own[*j]);
            }
        });
        out
    }

    /// Of a function of [`gram`](Self::gram) with these slopes, a symmetric matrix over pairs: its slopes by
    /// everything. Cost O(pairs²).
    pub(super) fn slopes(&self, grams: &Grams, duels: &Duels, slopes: &Matrix) -> PriorSlopes {
        let pairs = duels.pairs();
        let zeros = |like: &Matrix| Matrix::zeros(like.rows(), like.cols());
        let mut out = PriorSlopes {
            grams: Grams {
                items: zeros(&grams.items),
                alone: grams.alone.as_ref().map(zeros),
                contexts: grams.contexts.as_ref().map(zeros),
            },
            utility: 0.0,
            generalised: 0.0,
            shared: 0.0,
        };
        let add = |out: &mut Matrix, (l, r): Pair, (a, b): Pair, four: Four| {
            out[(l, a)] += four.ll;
            out[(r, b)] += four.rr;
            out[(l, b)] += four.lr;
            out[(r, a)] += four.rl;
        };
        let both = |by: f64| Four { ll: by, rr: by, lr: -by, rl: -by };
        for (i, &p) in pairs.iter().enumerate() {
            for (j, (slope, &q)) in slopes.row(i).iter().zip(pairs).enumerate() {
                let mut slope = *slope;
                if let (Some(own), Some(k), Some(contexts)) =
                    (&self.contexts, &grams.contexts, duels.contexts())
                {
                    let at = (contexts.rows[i], contexts.rows[j]);
                    let by = slope * self.between(grams, p, q);
                    out.shared += by * (1.0 - k[at]);
                    if let Some(out) = &mut out.grams.contexts {
                        out[at] += by * (1.0 - own.shared);
                    }
                    slope *= own.shared + (1.0 - own.shared) * k[at];
                }
                let four = Four::of(&grams.items, p, q);
                out.utility += slope * four.utility();
                out.generalised += slope * four.generalised();
                let (u, c) = (slope * self.utility, slope * self.generalised);
                let by = Four {
                    ll: u + c * four.rr,
                    rr: u + c * four.ll,
                    lr: -(u + c * four.rl),
                    rl: -(u + c * four.lr),
                };
                add(&mut out.grams.items, p, q, by);
                if let Some(out) = &mut out.grams.alone {
                    add(out, p, q, both(slope));
                }
            }
        }
        out
    }

    /// The product kernel over wide rows, of items with so many columns.
    pub fn wide(&self, width: usize) -> Kernel {
        let right = self.items.moved(width);
        let scaled = |scale: f64, kernel: Kernel| -> Vec<Term> {
            if scale > 0.0 { (scale * kernel).terms } else { Vec::new() }
        };
        let mut terms = scaled(self.utility, self.items.clone());
        terms.extend(scaled(self.utility, right.clone()));
        if let Some(alone) = &self.alone {
            terms.extend(alone.terms.iter().cloned().chain(alone.moved(width).terms));
        }
        terms.extend(scaled(self.generalised, self.items.clone() * right));
        match &self.contexts {
            Some(contexts) => Kernel { terms } * contexts.whole().moved(2 * width),
            None => Kernel { terms },
        }
    }
}

impl ContextKernel {
    /// With what is shared.
    pub(super) fn whole(&self) -> Kernel {
        let scaled =
            |scale: f64, kernel: Kernel| if scale > 0.0 { (scale * kernel).terms } else { Vec::new() };
        let shared = scaled(self.shared, Kernel::constant(1.0));
        Kernel { terms: [shared, scaled(1.0 - self.shared, self.kernel.clone())].concat() }
    }
}

/// The columns of wide rows: those of the left item, then those of the right one.
pub fn wide_columns(columns: &[Column]) -> Vec<Column> {
    let side = |side: &str| -> Vec<Column> {
        columns.iter().map(|c| Column { name: format!("{side}_{}", c.name), kind: c.kind.clone() }).collect()
    };
    [side("left"), side("right")].concat()
}

/// Wide rows of pairs of items.
///
/// # Errors
/// None but those of a table whose columns have names that become one.
pub fn wide_rows(items: &Table, pairs: &[Pair]) -> Result<Table> {
    wide_rows_in(items, pairs, None)
}

/// Wide rows of pairs of items, each in its context if there are some: the columns of `contexts`, a row a
/// pair, stand behind the items'.
///
/// # Errors
/// As [`wide_rows`]; [`Error::Shape`] unless there is a context a pair; [`Error::Parameter`] for a column of
/// contexts that could be taken for one of the items.
pub fn wide_rows_in(items: &Table, pairs: &[Pair], contexts: Option<&Table>) -> Result<Table> {
    if let Some(found) = contexts.map(Table::rows).filter(|rows| *rows != pairs.len()) {
        let why = "one a pair".into();
        return Err(Error::Shape {
            what: "the table of contexts".into(),
            unit: "rows",
            expected: pairs.len(),
            found,
            why,
        });
    }
    let taken = |c: &&Column| {
        let side = c.name.starts_with("left_") || c.name.starts_with("right_");
        side || items.columns().iter().any(|own| own.name == c.name)
    };
    if let Some(column) = contexts.and_then(|c| c.columns().iter().find(taken)) {
        let allowed = "it is none of the items' columns, and does not begin with left_ or right_, as those \
                       of the two items do: rename it";
        return Err(Error::parameter("column of contexts", &column.name, allowed));
    }
    let of = |side: fn(&Pair) -> usize| {
        let numbers = pairs.iter().map(side).collect::<Vec<_>>();
        (0..items.width()).flat_map(move |j| {
            let column = items.column(j);
            numbers.iter().map(|&i| column[i]).collect::<Vec<_>>()
        })
    };
    let behind = contexts.into_iter().flat_map(|c| c.column_major().iter().copied());
    let values = of(|p| p.0).chain(of(|p| p.1)).chain(behind).collect();
    let mut columns = wide_columns(items.columns());
    columns.extend(contexts.into_iter().flat_map(|c| c.columns().iter().cloned()));
    Table::from_column_major(columns, pairs.len(), values)
}

/// A model of the log odds that the left item of wide rows wins; with a margin of ties there is a third
/// class.
///
/// # Errors
/// As [`Expansion::validate`].
pub(super) fn model(
    kernel: Kernel,
    points: Table,
    coef: Vec<f64>,
    link: Link,
    card: Vec<Fact>,
) -> Result<Expansion> {
    let classes = ["right", "left", "tie"].map(String::from);
    let model = Expansion {
        kernel,
        points,
        coef: Matrix::column_vector(coef),
        intercept: vec![0.0],
        output_names: vec!["left vs right".into()],
        link,
        classes: classes[..if matches!(link, Link::LatentTies { .. }) { 3 } else { 2 }].to_vec(),
        card,
    };
    model.validate()?;
    Ok(model)
}

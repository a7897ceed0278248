//! What is believed beforehand of duels: the covariance of the log odds of two pairs of items, made of a kernel of items.
//!
//! With `k` between items, `g(l, r)` the log odds that l beats r, and pairs `p = (l, r)` and `p' = (l', r')`,
//!
//! ```text
//! cov(g(p), g(p')) = utility [k(l,l') + k(r,r') - k(l,r') - k(r,l')] + generalised [k(l,l') k(r,r') - k(l,r') k(r,l')]
//! ```
//!
//! The first part is that of a difference of utilities, `g = f(l) - f(r)` (preferential Gaussian processes, Chu and Ghahramani 2005), with which there is a ranking; the
//! second that of any skew function of two items, rock, paper and scissors included (the generalised kernel of Chau, Gonzalez and Sejdinovic 2022). Their sum is the
//! generalised kernel of `c + k`, so one family holds both. Each part is the skew half of a product kernel over *wide* rows, the left item's columns and
//! then the right one's: `u(k_left + k_right) + c k_left k_right`, of which a model of duels is therefore an [`Expansion`](crate::Expansion).

use rayon::prelude::*;

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
}

/// A pair of items by their numbers, left and right.
pub type Pair = (usize, usize);

impl PairKernel {
    /// The covariance of pairs, from the matrix `k` between items. Cost O(pairs²).
    pub(super) fn gram(&self, k: &Matrix, pairs: &[Pair]) -> Matrix {
        let n = pairs.len();
        let mut out = Matrix::zeros(n, n);
        out.data_mut().par_chunks_mut(n.max(1)).zip(pairs).for_each(|(row, &(l, r))| {
            let (left, right) = (k.row(l), k.row(r));
            for (out, &(a, b)) in row.iter_mut().zip(pairs) {
                let (ll, rr, lr, rl) = (left[a], right[b], left[b], right[a]);
                *out = self.utility * ((ll + rr) - (lr + rl)) + self.generalised * (ll * rr - lr * rl);
            }
        });
        out
    }

    /// Of a function of [`gram`](Self::gram) with these slopes, a symmetric matrix over pairs: the slopes by `k`, a symmetric matrix over items, and by the two
    /// shares. Cost O(pairs²).
    pub(super) fn slopes(&self, k: &Matrix, pairs: &[Pair], slopes: &Matrix) -> (Matrix, [f64; 2]) {
        let items = k.rows();
        let (mut out, mut shares) = (Matrix::zeros(items, items), [0.0; 2]);
        for (i, &(l, r)) in pairs.iter().enumerate() {
            let (left, right) = (k.row(l), k.row(r));
            for (slope, &(a, b)) in slopes.row(i).iter().zip(pairs) {
                let (ll, rr, lr, rl) = (left[a], right[b], left[b], right[a]);
                shares[0] += slope * ((ll + rr) - (lr + rl));
                shares[1] += slope * (ll * rr - lr * rl);
                let (u, c) = (slope * self.utility, slope * self.generalised);
                out[(l, a)] += u + c * rr;
                out[(r, b)] += u + c * ll;
                out[(l, b)] -= u + c * rl;
                out[(r, a)] -= u + c * lr;
            }
        }
        (out, shares)
    }

    /// The product kernel over wide rows.
    pub fn wide(&self, width: usize) -> Kernel {
        let right = self.items.moved(width);
        let scaled = |scale: f64, kernel: Kernel| -> Vec<Term> {
            if scale > 0.0 { (scale * kernel).terms } else { Vec::new() }
        };
        let mut terms = scaled(self.utility, self.items.clone());
        terms.extend(scaled(self.utility, right.clone()));
        terms.extend(scaled(self.generalised, self.items.clone() * right));
        Kernel { terms }
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
pub fn wide_rows(items: &Table, pairs: &[Pair]) -> crate::Result<Table> {
    let of = |side: fn(&Pair) -> usize| {
        let numbers = pairs.iter().map(side).collect::<Vec<_>>();
        (0..items.width()).flat_map(move |j| {
            let column = items.column(j);
            numbers.iter().map(|&i| column[i]).collect::<Vec<_>>()
        })
    };
    let values = of(|p| p.0).chain(of(|p| p.1)).collect();
    Table::from_column_major(wide_columns(items.columns()), pairs.len(), values)
}

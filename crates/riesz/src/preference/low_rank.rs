//! The prior covariance of many duels between few items, as inner products of features.
//!
//! N items have a covariance of utilities `U = V Vᵀ` (the utility's share and all further ones), and `k = L
//! Lᵀ` with r columns between them. The covariance of n pairs is `K = Φ Φᵀ`, where the row of the pair (l, r)
//! is
//!
//! ```text
//! V_l - V_r,   and for all columns a < b of L:   √generalised (L_la L_rb - L_lb L_ra).
//! ```
//!
//! With p columns of Φ, Newton's method takes O(n p²) a step instead of O(n³), by `B⁻¹ = I - W^½ Φ C⁻¹ Φᵀ
//! W^½` for `C = I + Φᵀ W Φ`, and the gradient in the matrices between items never makes a matrix between
//! pairs. All is exact to rounding.

use super::pair_kernel::{ItemGrams, Pair, PairKernel, PairKernelGradient};
use crate::error::Result;
use crate::fit::laplace::{LaplaceMode, LogisticLikelihood, PriorCovariance};
use crate::linalg::{Cholesky, Matrix, dot, low_rank_factor};

/// The share of the trace that the columns between items leave out: less than rounding does in a covariance
/// of duels.
const LEFT_OUT: f64 = 1e-14;

/// A prior covariance of duels by its features.
pub(super) struct PairFeatures<'a> {
    prior: &'a PairKernel,
    grams: &'a ItemGrams,
    pairs: &'a [Pair],
    /// L, items × r.
    columns: Matrix,
    /// Φ, pairs × p.
    features: Matrix,
}

impl<'a> PairFeatures<'a> {
    /// The features of a prior without contexts; `None` if there are more than `max_features`, or if a matrix
    /// is not finite.
    pub fn from_grams(
        prior: &'a PairKernel,
        grams: &'a ItemGrams,
        pairs: &'a [Pair],
        max_features: usize,
    ) -> Option<Self> {
        let mut utilities = grams.items.clone();
        utilities.data_mut().iter_mut().for_each(|v| *v *= prior.utility_variance);
        if let Some(extra_utility) = &grams.extra_utility_kernel {
            utilities.data_mut().iter_mut().zip(extra_utility.data()).for_each(|(v, a)| *v += a);
        }
        if utilities.data().iter().chain(grams.items.data()).any(|v| !v.is_finite()) {
            return None;
        }
        let utilities = low_rank_factor(&utilities, LEFT_OUT);
        let columns = match prior.generalised_variance > 0.0 {
            true => low_rank_factor(&grams.items, LEFT_OUT),
            false => Matrix::zeros(grams.items.rows(), 0),
        };
        let (v, r) = (utilities.cols(), columns.cols());
        let count = v + r * r.saturating_sub(1) / 2;
        if count > max_features {
            return None;
        }
        let root = prior.generalised_variance.sqrt();
        let mut features = Matrix::zeros(pairs.len(), count);
        for (i, &(left, right)) in pairs.iter().enumerate() {
            let (utility_features, cyclic) = features.row_mut(i).split_at_mut(v);
            let ends = utilities.row(left).iter().zip(utilities.row(right));
            utility_features.iter_mut().zip(ends).for_each(|(out, (l, r))| *out = l - r);
            let (l, r) = (columns.row(left), columns.row(right));
            let column_pairs = (0..l.len()).flat_map(|a| (a + 1..l.len()).map(move |b| (a, b)));
            cyclic
                .iter_mut()
                .zip(column_pairs)
                .for_each(|(out, (a, b))| *out = root * (l[a] * r[b] - l[b] * r[a]));
        }
        Some(Self { prior, grams, pairs, columns, features })
    }

    /// `Φᵀ v`.
    fn transpose_times(&self, v: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.features.cols()];
        for (i, v) in v.iter().enumerate() {
            out.iter_mut().zip(self.features.row(i)).for_each(|(o, f)| *o += v * f);
        }
        out
    }

    /// The derivatives of the log marginal likelihood in all parts of the prior and in the margin of ties:
    /// those that [`PairKernel::gradient`] computes from `M = ½ [αα' + u α' + α u' - W + H H']`, with `H = W
    /// Φ C⁻ᵀᐟ²`.
    pub fn slopes(
        &self,
        mode: &LaplaceMode<Cholesky>,
        likelihood: &LogisticLikelihood,
    ) -> (PairKernelGradient, f64) {
        let n = self.pairs.len();
        let weight: Vec<f64> = mode.root_weight.iter().map(|r| r * r).collect();
        let mut h = self.features.clone();
        mode.factor.solve_lower_right(&mut h);
        let precision_share: Vec<f64> = (0..n).map(|i| weight[i] * dot(h.row(i), h.row(i))).collect();
        let (u, margin) = mode.response(self, likelihood, &precision_share);
        for (i, w) in weight.iter().enumerate() {
            h.row_mut(i).iter_mut().for_each(|h| *h *= w);
        }
        // M = ½ (HH' + first first' - second second' - W): αα' + uα' + αu' = (α + u)(α + u)' - uu'.
        let first: Vec<f64> = mode.alpha.iter().zip(&u).map(|(a, u)| a + u).collect();
        let by_utility = self.between_items(&h, &first, &u, &weight);
        let k = &self.grams.items;
        let inner = |a: &Matrix, b: &Matrix| a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum::<f64>();
        let utility = inner(&by_utility, k);
        let mut items = by_utility.clone();
        items.data_mut().iter_mut().for_each(|v| *v *= self.prior.utility_variance);
        let mut generalised = 0.0;
        if self.columns.cols() > 0 {
            let by_cycles = self.between_sides(&h, &first, &u, &weight);
            // A quadratic form in k, whose slope times k is twice its value.
            generalised = 0.5 * inner(&by_cycles, k);
            let c = self.prior.generalised_variance;
            items.data_mut().iter_mut().zip(by_cycles.data()).for_each(|(v, s)| *v += c * s);
        }
        let grams = ItemGrams {
            items,
            extra_utility_kernel: self.grams.extra_utility_kernel.as_ref().map(|_| by_utility),
            contexts: None,
        };
        (
            PairKernelGradient {
                grams,
                utility_variance: utility,
                generalised_variance: generalised,
                shared: 0.0,
            },
            margin,
        )
    }

    /// `Dᵀ M D`, with `D v` the differences of a vector v over items.
    fn between_items(&self, h: &Matrix, first: &[f64], second: &[f64], weight: &[f64]) -> Matrix {
        let (items, p) = (self.grams.items.rows(), h.cols());
        let mut sums = Matrix::zeros(items, p + 2);
        for (i, &(l, r)) in self.pairs.iter().enumerate() {
            let numbers = h.row(i).iter().copied().chain([first[i], second[i]]);
            for (column, v) in numbers.enumerate() {
                sums[(l, column)] += v;
                sums[(r, column)] -= v;
            }
        }
        let mut out = signed_square(&sums, p + 1);
        for (&(l, r), w) in self.pairs.iter().zip(weight) {
            for (entry, sign) in [((l, l), -0.5), ((r, r), -0.5), ((l, r), 0.5), ((r, l), 0.5)] {
                out[entry] += sign * w;
            }
        }
        out
    }

    /// `½ Σ_t ± A_t k A_tᵀ - …W`, where A_t is the skew matrix between items that a column of H, or one of
    /// the two vectors, defines.
    fn between_sides(&self, h: &Matrix, first: &[f64], second: &[f64], weight: &[f64]) -> Matrix {
        let (items, p, width) = (self.grams.items.rows(), h.cols(), self.columns.cols());
        let mut sums = Matrix::zeros(items, (p + 2) * width);
        for (i, &(l, r)) in self.pairs.iter().enumerate() {
            let numbers: Vec<f64> = h.row(i).iter().copied().chain([first[i], second[i]]).collect();
            for (item, other, sign) in [(l, r, 1.0), (r, l, -1.0)] {
                let side = self.columns.row(other);
                for (out, v) in sums.row_mut(item).chunks_exact_mut(width).zip(&numbers) {
                    out.iter_mut().zip(side).for_each(|(o, k)| *o += sign * v * k);
                }
            }
        }
        let mut out = signed_square(&sums, (p + 1) * width);
        let k = &self.grams.items;
        for (&(l, r), w) in self.pairs.iter().zip(weight) {
            out[(l, l)] -= 0.5 * w * k[(r, r)];
            out[(r, r)] -= 0.5 * w * k[(l, l)];
            out[(l, r)] += 0.5 * w * k[(r, l)];
            out[(r, l)] += 0.5 * w * k[(l, r)];
        }
        out
    }
}

/// `½ (A Aᵀ - B Bᵀ)`, where A are the first `plus` columns and B the others.
fn signed_square(columns: &Matrix, plus: usize) -> Matrix {
    let mut right = columns.transpose();
    for (row_index, row) in right.data_mut().chunks_exact_mut(columns.rows()).enumerate() {
        let sign = if row_index < plus { 0.5 } else { -0.5 };
        row.iter_mut().for_each(|v| *v *= sign);
    }
    columns.matmul(&right)
}

impl PriorCovariance for PairFeatures<'_> {
    /// Cholesky factor of C.
    type Factor = Cholesky;

    fn times(&self, v: &[f64]) -> Vec<f64> {
        self.features.matvec(&self.transpose_times(v))
    }

    fn factor_b(&self, root_weight: &[f64]) -> Result<Cholesky> {
        let mut scaled = self.features.clone();
        for (i, root) in root_weight.iter().enumerate() {
            scaled.row_mut(i).iter_mut().for_each(|f| *f *= root);
        }
        let mut c = scaled.gram_of_columns();
        c.add_diagonal(|_| 1.0);
        Cholesky::new(c, "matrix of the approximate posterior")
    }

    fn log_det(&self, factor: &Cholesky) -> f64 {
        factor.log_det()
    }

    fn apply_reduction(&self, factor: &Cholesky, root_weight: &[f64], v: &[f64]) -> Vec<f64> {
        let weighted: Vec<f64> = v.iter().zip(root_weight).map(|(v, r)| v * r * r).collect();
        let known = self.features.matvec(&factor.solve_vector(&self.transpose_times(&weighted)));
        weighted.iter().zip(&known).zip(root_weight).map(|((v, k), r)| v - r * r * k).collect()
    }
}

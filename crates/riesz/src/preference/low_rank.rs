//! The prior covariance of many duels between few items, as inner products of features.
//!
//! The covariance of the utilities of N items (all utilities' shares) is `U = V Vᵀ` (N × N), and their kernel
//! matrix is `k = L Lᵀ`, where L has r columns. Write `V_l` and `L_l` for the rows of item l. The covariance
//! of n pairs is `K = Φ Φᵀ`, where Φ (n × p) has the following row for the pair (l, r):
//!
//! ```text
//! V_l - V_r,   and for all columns a < b of L:   √generalised (L_la L_rb - L_lb L_ra).
//! ```
//!
//! So a step of Newton's method costs O(n p²) instead of O(n³), by `B⁻¹ = I - W^½ Φ C⁻¹ Φᵀ W^½`, where W (n ×
//! n) is the diagonal of curvatures and `C = I + Φᵀ W Φ` (p × p). The gradient in the matrices between items
//! needs no matrix between pairs. All results are exact up to rounding.

use super::pair_kernel::{ItemGrams, Pair, PairKernel, PairKernelGradient};
use crate::error::Result;
use crate::gp::laplace::{LaplaceMode, PriorCovariance};
use crate::gp::likelihood::Likelihood;
use crate::linalg::{Cholesky, Matrix, add_multiple, dot, index_pairs, low_rank_factor};

/// The share of the trace that low-rank factors leave out, which is less than the rounding errors of a
/// covariance of duels.
const LEFT_OUT: f64 = 1e-14;

/// The prior covariance of duels as inner products of features.
pub(super) struct PairFeatures<'a> {
    prior: &'a PairKernel,
    grams: &'a ItemGrams,
    pairs: &'a [Pair],
    /// The factor L, items × r.
    columns: Matrix,
    /// The features Φ, pairs × p.
    features: Matrix,
}

impl<'a> PairFeatures<'a> {
    /// Computes the features of a prior without contexts; `None` if there are more than `max_features`, or if
    /// a matrix is not finite.
    pub fn from_grams(
        prior: &'a PairKernel,
        grams: &'a ItemGrams,
        pairs: &'a [Pair],
        max_features: usize,
    ) -> Option<Self> {
        let mut utilities = grams.items.clone();
        utilities.scale(prior.utility_variance);
        if let Some(extra_utility) = &grams.extra_utility_kernel {
            utilities.add_times(1.0, extra_utility);
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
            cyclic
                .iter_mut()
                .zip(index_pairs(l.len()))
                .for_each(|(out, (a, b))| *out = root * (l[a] * r[b] - l[b] * r[a]));
        }
        Some(Self { prior, grams, pairs, columns, features })
    }

    /// Returns the derivatives of the log marginal likelihood in all parts of the prior and in the margin of
    /// ties. They equal those of [`PairKernel::gradient`] with the matrix
    /// `M = ½ [αα' + u α' + α u' - W + H H']` (n × n), where α and u are the vectors of
    /// [`LaplaceMode::gradient`], and `H = W Φ C⁻ᵀᐟ²` (n × p).
    pub fn slopes(
        &self,
        mode: &LaplaceMode,
        likelihood: &impl Likelihood<Latent = f64>,
    ) -> (PairKernelGradient, f64) {
        let n = self.pairs.len();
        let weight: Vec<f64> = mode.root_weight.iter().map(|r| r * r).collect();
        let mut h = self.features.clone();
        mode.factor.solve_lower_right(&mut h);
        let precision_share: Vec<f64> = (0..n).map(|i| weight[i] * dot(h.row(i), h.row(i))).collect();
        let (u, margin) = mode.response(self, likelihood, &precision_share);
        h.scale_rows(weight.iter().copied());
        // M = ½ (HH' + first first' - second second' - W): αα' + uα' + αu' = (α + u)(α + u)' - uu'.
        let first: Vec<f64> = mode.alpha.iter().zip(&u).map(|(a, u)| a + u).collect();
        let (k, n_items) = (&self.grams.items, self.grams.items.rows());
        let vectors = [&first[..], &u, &weight];
        let all_ones = |columns: usize| Matrix::filled(n_items, columns, 1.0);
        let by_utility = self.between_items((&all_ones(n_items), &all_ones(1)), &h, vectors);
        let inner = |a: &Matrix, b: &Matrix| a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum::<f64>();
        let utility_variance = inner(&by_utility, k);
        let mut items = by_utility.clone();
        items.scale(self.prior.utility_variance);
        let mut generalised_variance = 0.0;
        if self.columns.cols() > 0 {
            let by_cycles = self.between_items((k, &self.columns), &h, vectors);
            // The value is a quadratic form in k, so its derivative times k is twice the value.
            generalised_variance = 0.5 * inner(&by_cycles, k);
            items.add_times(self.prior.generalised_variance, &by_cycles);
        }
        let grams = ItemGrams {
            items,
            extra_utility_kernel: self.grams.extra_utility_kernel.as_ref().map(|_| by_utility),
            contexts: None,
        };
        (PairKernelGradient { grams, utility_variance, generalised_variance, shared: 0.0 }, margin)
    }

    /// Returns `½ Σ_t ± A_t k A_tᵀ` minus the terms of W, where A_t is the skew matrix between items that a
    /// column of H, or one of the two vectors, defines, and `k = S Sᵀ` with S = `sides`. If k is all ones,
    /// this is `Dᵀ M D` (items × items), where the matrix D (pairs × items) takes differences over items.
    fn between_items(
        &self,
        (k, sides): (&Matrix, &Matrix),
        h: &Matrix,
        [first, second, weight]: [&[f64]; 3],
    ) -> Matrix {
        let (p, width) = (h.cols(), sides.cols());
        let mut sums = Matrix::zeros(k.rows(), (p + 2) * width);
        for (i, &(l, r)) in self.pairs.iter().enumerate() {
            let numbers: Vec<f64> = h.row(i).iter().copied().chain([first[i], second[i]]).collect();
            for (item, other, sign) in [(l, r, 1.0), (r, l, -1.0)] {
                let side = sides.row(other);
                for (out, v) in sums.row_mut(item).chunks_exact_mut(width).zip(&numbers) {
                    add_multiple(out, sign * v, side);
                }
            }
        }
        let mut out = signed_square(&sums, (p + 1) * width);
        for (&(l, r), w) in self.pairs.iter().zip(weight) {
            out[(l, l)] -= 0.5 * w * k[(r, r)];
            out[(r, r)] -= 0.5 * w * k[(l, l)];
            out[(l, r)] += 0.5 * w * k[(r, l)];
            out[(r, l)] += 0.5 * w * k[(l, r)];
        }
        out
    }
}

/// Returns `½ (A Aᵀ - B Bᵀ)`, where A are the first `plus` columns and B the others.
fn signed_square(columns: &Matrix, plus: usize) -> Matrix {
    let mut right = columns.transpose();
    right.scale_rows((0..columns.cols()).map(|row| if row < plus { 0.5 } else { -0.5 }));
    columns.matmul(&right)
}

impl PriorCovariance for PairFeatures<'_> {
    fn times(&self, v: &[f64]) -> Vec<f64> {
        self.features.matvec(&self.features.transpose_matvec(v))
    }

    /// Returns the Cholesky factor of C.
    fn factor_b(&self, root_weight: &[f64]) -> Result<Cholesky> {
        let mut scaled = self.features.clone();
        scaled.scale_rows(root_weight.iter().copied());
        let mut c = scaled.gram_of_columns();
        c.add_diagonal(|_| 1.0);
        Cholesky::new(c, "matrix of the approximate posterior")
    }

    fn apply_reduction(&self, factor: &Cholesky, root_weight: &[f64], v: &[f64]) -> Vec<f64> {
        let weighted: Vec<f64> = v.iter().zip(root_weight).map(|(v, r)| v * r * r).collect();
        let known = self.features.matvec(&factor.solve_vector(&self.features.transpose_matvec(&weighted)));
        weighted.iter().zip(&known).zip(root_weight).map(|((v, k), r)| v - r * r * k).collect()
    }
}

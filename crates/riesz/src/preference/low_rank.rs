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
use crate::gp::laplace::{GaussianApproximation, PriorCovariance};
use crate::gp::likelihood::Likelihood;
use crate::linalg::{Cholesky, Matrix, add_multiple, dot, index_pairs, low_rank_factor};

/// The share of the trace that low-rank factors omit, which is less than the rounding errors of a
/// covariance of duels.
const TRUNCATION_TOLERANCE: f64 = 1e-14;

/// The prior covariance of duels as inner products of features.
pub(super) struct PairFeatures<'a> {
    prior: &'a PairKernel,
    grams: &'a ItemGrams,
    pairs: &'a [Pair],
    /// The factor L, items × r.
    item_factor: Matrix,
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
        let mut utility_covariance = grams.items.clone();
        utility_covariance.scale(prior.utility_variance);
        if let Some(extra_utility) = &grams.extra_utility_kernel {
            utility_covariance.add_times(1.0, extra_utility);
        }
        if utility_covariance.data().iter().chain(grams.items.data()).any(|v| !v.is_finite()) {
            return None;
        }
        let utility_factor = low_rank_factor(&utility_covariance, TRUNCATION_TOLERANCE);
        let item_factor = match prior.generalised_variance > 0.0 {
            true => low_rank_factor(&grams.items, TRUNCATION_TOLERANCE),
            false => Matrix::zeros(grams.items.rows(), 0),
        };
        let (v, r) = (utility_factor.cols(), item_factor.cols());
        let count = v + r * r.saturating_sub(1) / 2;
        if count > max_features {
            return None;
        }
        let root = prior.generalised_variance.sqrt();
        let mut features = Matrix::zeros(pairs.len(), count);
        for (i, &(left, right)) in pairs.iter().enumerate() {
            let (utility_features, cyclic) = features.row_mut(i).split_at_mut(v);
            let sides = utility_factor.row(left).iter().zip(utility_factor.row(right));
            utility_features.iter_mut().zip(sides).for_each(|(out, (l, r))| *out = l - r);
            let (l, r) = (item_factor.row(left), item_factor.row(right));
            cyclic
                .iter_mut()
                .zip(index_pairs(l.len()))
                .for_each(|(out, (a, b))| *out = root * (l[a] * r[b] - l[b] * r[a]));
        }
        Some(Self { prior, grams, pairs, item_factor, features })
    }

    /// Returns the derivatives of the log marginal likelihood in all parts of the prior and in the margin of
    /// ties. They equal those of [`PairKernel::gradient`] with the matrix
    /// `M = ½ [αα' + u α' + α u' - W + H H']` (n × n), where α and u are the vectors of
    /// [`GaussianApproximation::gradient`], and `H = W Φ C⁻ᵀᐟ²` (n × p).
    pub fn gradient(
        &self,
        mode: &GaussianApproximation,
        likelihood: &impl Likelihood<Latent = f64>,
    ) -> (PairKernelGradient, f64) {
        let n = self.pairs.len();
        let weight: Vec<f64> = mode.root_weight.iter().map(|r| r * r).collect();
        let mut h = self.features.clone();
        mode.factor.solve_lower_right(&mut h);
        let precision_share: Vec<f64> = (0..n).map(|i| weight[i] * dot(h.row(i), h.row(i))).collect();
        let (u, margin) = mode.response(self, likelihood, &precision_share);
        h.scale_rows(weight.iter().copied());
        // M = ½ (HH' + (α + u)(α + u)' - uu' - W), because αα' + uα' + αu' = (α + u)(α + u)' - uu'.
        let alpha_plus_u: Vec<f64> = mode.alpha.iter().zip(&u).map(|(a, u)| a + u).collect();
        let (k, n_items) = (&self.grams.items, self.grams.items.rows());
        let vectors = [&alpha_plus_u[..], &u, &weight];
        let all_ones = |columns: usize| Matrix::filled(n_items, columns, 1.0);
        let utility_gradient = self.gradient_between_items((&all_ones(n_items), &all_ones(1)), &h, vectors);
        let inner_product =
            |a: &Matrix, b: &Matrix| a.data().iter().zip(b.data()).map(|(a, b)| a * b).sum::<f64>();
        let utility_variance = inner_product(&utility_gradient, k);
        let mut items = utility_gradient.clone();
        items.scale(self.prior.utility_variance);
        let mut generalised_variance = 0.0;
        if self.item_factor.cols() > 0 {
            let generalised_gradient = self.gradient_between_items((k, &self.item_factor), &h, vectors);
            // The value is a quadratic form in k, so its derivative times k is twice the value.
            generalised_variance = 0.5 * inner_product(&generalised_gradient, k);
            items.add_times(self.prior.generalised_variance, &generalised_gradient);
        }
        let grams = ItemGrams {
            items,
            extra_utility_kernel: self.grams.extra_utility_kernel.as_ref().map(|_| utility_gradient),
            contexts: None,
        };
        (PairKernelGradient { grams, utility_variance, generalised_variance, shared: 0.0 }, margin)
    }

    /// Returns `½ Σ_t ± A_t k A_tᵀ` minus the terms of W, where A_t is the skew matrix between items that a
    /// column of H, `α + u` or u defines, and `k = S Sᵀ` with S = `root`. If all entries of k are 1,
    /// this is `Dᵀ M D` (items × items), where the matrix D (pairs × items) takes differences over items.
    fn gradient_between_items(
        &self,
        (k, root): (&Matrix, &Matrix),
        h: &Matrix,
        [alpha_plus_u, u, weight]: [&[f64]; 3],
    ) -> Matrix {
        let (p, width) = (h.cols(), root.cols());
        let mut sums = Matrix::zeros(k.rows(), (p + 2) * width);
        for (i, &(l, r)) in self.pairs.iter().enumerate() {
            let pair_values: Vec<f64> = h.row(i).iter().copied().chain([alpha_plus_u[i], u[i]]).collect();
            for (item, opponent, sign) in [(l, r, 1.0), (r, l, -1.0)] {
                for (out, v) in sums.row_mut(item).chunks_exact_mut(width).zip(&pair_values) {
                    add_multiple(out, sign * v, root.row(opponent));
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

/// Returns `½ (A Aᵀ - B Bᵀ)`, where A are the first `n_positive` columns and B the others.
fn signed_square(columns: &Matrix, n_positive: usize) -> Matrix {
    let mut signed_transpose = columns.transpose();
    signed_transpose.scale_rows((0..columns.cols()).map(|row| if row < n_positive { 0.5 } else { -0.5 }));
    columns.matmul(&signed_transpose)
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
        let smoothed = self.features.matvec(&factor.solve_vector(&self.features.transpose_matvec(&weighted)));
        weighted.iter().zip(&smoothed).zip(root_weight).map(|((v, k), r)| v - r * r * k).collect()
    }
}

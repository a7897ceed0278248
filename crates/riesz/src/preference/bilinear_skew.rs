//! Skew-symmetric functions of two items in a context that are linear in features of each. With the features
//! f (q) and h (p) of items and φ (c) of contexts, l and r the left and the right item and u the context,
//!
//! ```text
//! g(l, r, u) = Σ_c φ_c(u) [f_lᵀ V_c f_r + (h_l - h_r)ᵀ w_c],   V_c = -V_cᵀ,
//! ```
//!
//! where the w_c (p) and the upper triangles of the V_c (q × q) are standard normal a priori. The prior
//! covariance of two pairs is that of the [nested prior](super::PairKernel), with `f_lᵀ f_r` for its
//! generalised part, `h_lᵀ h_r` for all its utilities and `φ(u)ᵀ φ(u')` for its contexts. The posterior needs
//! no matrix over duels: it is computed by Newton's method with conjugate gradients, whose products cost O(c
//! (items q² + pairs q)).

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::duels::Duels;
use super::pair_kernel::Pair;
use super::teams::ItemBags;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::gp::likelihood::{Likelihood, LikelihoodTerms};
use crate::gp::newton::halved_step;
use crate::linalg::conjugate_gradients::{
    CgOutcome, InnerProductSpace, ResidualNorm, StoppingRule, conjugate_gradients,
};
use crate::linalg::{Matrix, Sparse, add_multiple, dot, multiply_entries, squared_distance};
use crate::random::{Random, RngExt, StandardNormal};
use crate::simd::{Isa, LANES, Lanes, Simd, add_scaled, dispatch, fma};

/// Maximal number of Newton steps, and of conjugate gradient products in each.
const MAX_NEWTON: usize = 60;
const MAX_PRODUCTS: usize = 2000;
/// Tolerance of the linear solve for a posterior draw. Its error is smaller than the differences between
/// draws.
const DRAW_TOLERANCE: f64 = 1e-2;

/// Features of items and contexts. With bags in place of items, each feature of a bag is the mean of those of
/// its members, weighted by their shares.
pub(super) struct SkewFeatures {
    /// f, items × q; q is 0 without a generalised part.
    pub items: Matrix,
    /// h, items × p.
    pub utilities: Matrix,
    /// Further features h, levels × items with one column per item, for effects of single items.
    pub item_effects: Sparse,
    /// φ, contexts × c; a single 1 without contexts.
    pub contexts: Matrix,
}

/// Pairs of items and their contexts, both given by row indices.
#[derive(Debug, Clone)]
pub(super) struct ComparedPairs {
    pub pairs: Vec<Pair>,
    pub contexts: Vec<usize>,
}

impl ComparedPairs {
    /// Returns the compared pairs of duels.
    pub fn of_duels(duels: &Duels) -> Self {
        let pairs = duels.pairs().to_vec();
        let contexts = duels.contexts().map_or_else(|| vec![0; pairs.len()], |c| c.rows.clone());
        Self { pairs, contexts }
    }
}

/// The weights of a skew-symmetric function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SkewWeights {
    /// V_c for each feature of contexts, q × q each.
    pub pairs: Vec<Matrix>,
    /// w_c as columns, p × c.
    pub utilities: Matrix,
    /// The weights of `item_effects`, levels × c.
    pub item_effects: Matrix,
}

impl SkewWeights {
    /// Returns all entries, each with its factor in inner products.
    fn parts(&self) -> impl Iterator<Item = (f64, &[f64])> {
        let pairs = self.pairs.iter().map(|v| (0.5, v.data()));
        pairs.chain([(1.0, self.utilities.data()), (1.0, self.item_effects.data())])
    }

    fn parts_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        let pairs = self.pairs.iter_mut().map(Matrix::data_mut);
        pairs.chain([self.utilities.data_mut(), self.item_effects.data_mut()])
    }

    fn multiply(&mut self, other: &Self) {
        for (a, (_, b)) in self.parts_mut().zip(other.parts()) {
            multiply_entries(a, b);
        }
    }
}

impl InnerProductSpace for SkewWeights {
    /// Returns the inner product in which each pair of entries (i, j), (j, i) of a V_c counts once.
    fn inner_product(&self, other: &Self) -> f64 {
        self.parts().zip(other.parts()).map(|((count, a), (_, b))| count * dot(a, b)).sum()
    }

    fn add_scaled(&mut self, factor: f64, other: &Self) {
        for (a, (_, b)) in self.parts_mut().zip(other.parts()) {
            add_multiple(a, factor, b);
        }
    }
}

dispatch! {
    /// Returns the inner product of two feature vectors.
    fn inner<V: Simd>(a: &[f64], b: &[f64]) -> f64 {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        let (mut even, mut odd) = (Lanes::ZERO, Lanes::ZERO);
        for (t, (a, b)) in a.iter().zip(b).enumerate() {
            let sum = if t % 2 == 0 { &mut even } else { &mut odd };
            *sum = V::fma(Lanes(*a), Lanes(*b), *sum);
        }
        let tail = a_rest.iter().zip(b_rest).fold(0.0, |sum, (a, b)| fma::<V>(*a, *b, sum));
        V::add(even, odd).sum() + tail
    }
}

impl SkewFeatures {
    /// Returns the features of bags of these items. Cost O(memberships (q + p)).
    pub fn of_bags(self, bags: &ItemBags) -> Result<Self> {
        Ok(Self {
            items: bags.means(&self.items),
            utilities: bags.means(&self.utilities),
            item_effects: bags.mean_columns(&self.item_effects)?,
            contexts: self.contexts,
        })
    }

    /// Returns weights of 0.
    pub fn zeros(&self) -> SkewWeights {
        let (q, contexts) = (self.items.cols(), self.contexts.cols());
        SkewWeights {
            pairs: vec![Matrix::zeros(q, q); contexts],
            utilities: Matrix::zeros(self.utilities.cols(), contexts),
            item_effects: Matrix::zeros(self.item_effects.rows(), contexts),
        }
    }

    /// Returns g of each pair. The result is exactly skew-symmetric in floating-point arithmetic too.
    pub fn log_odds(&self, weights: &SkewWeights, compared: &ComparedPairs) -> Vec<f64> {
        let isa = Isa::detect();
        let mut scores = self.item_effects.transpose_times(&weights.item_effects);
        if self.utilities.cols() > 0 {
            scores.add_times(1.0, &self.utilities.matmul(&weights.utilities));
        }
        let ordered = |(l, r): Pair| if l <= r { (l, r, 1.0) } else { (r, l, -1.0) };
        let pairs_in_contexts = || compared.pairs.par_iter().zip(&compared.contexts);
        let utility_difference = |(&pair, &context): (&Pair, &usize)| {
            let (a, b, _) = ordered(pair);
            let terms = scores.row(a).iter().zip(scores.row(b)).zip(self.contexts.row(context));
            terms.map(|((a, b), phi)| phi * (a - b)).sum()
        };
        let mut log_odds: Vec<f64> = pairs_in_contexts().map(utility_difference).collect();
        if self.items.cols() > 0 {
            for (c, pairs) in weights.pairs.iter().enumerate() {
                let transformed = self.items.matmul(pairs);
                log_odds.par_iter_mut().zip(pairs_in_contexts()).for_each(|(sum, (&pair, &context))| {
                    let ((a, b, _), phi) = (ordered(pair), self.contexts[(context, c)]);
                    *sum += phi * inner(isa, transformed.row(a), self.items.row(b));
                });
            }
        }
        log_odds.par_iter_mut().zip(&compared.pairs).for_each(|(g, &pair)| {
            let (a, b, sign) = ordered(pair);
            *g = if a == b { 0.0 } else { *g * sign };
        });
        log_odds
    }

    /// Returns the prior variance of g of a pair in a context, the squared norm of its
    /// [evaluation](Self::evaluation).
    pub fn variance(&self, (l, r): Pair, context: usize) -> f64 {
        let (left, right, phi) = (self.items.row(l), self.items.row(r), self.contexts.row(context));
        let generalised = dot(left, left) * dot(right, right) - dot(left, right).powi(2);
        let utility_distance = squared_distance(self.utilities.row(l), self.utilities.row(r));
        let mut level_differences: BTreeMap<usize, f64> = self.item_effects.column(l).collect();
        self.item_effects.column(r).for_each(|(k, h)| *level_differences.entry(k).or_default() -= h);
        let utilities = utility_distance + level_differences.values().map(|h| h * h).sum::<f64>();
        dot(phi, phi) * (generalised + utilities)
    }

    /// Returns the weights whose inner product with a function's weights is g of this pair in this context.
    pub fn evaluation(&self, (l, r): Pair, context: usize) -> SkewWeights {
        let mut out = self.zeros();
        let (left, right, phi) = (self.items.row(l), self.items.row(r), self.contexts.row(context));
        for (pairs, phi) in out.pairs.iter_mut().zip(phi) {
            for i in 0..left.len() {
                for (j, v) in pairs.row_mut(i).iter_mut().enumerate() {
                    *v = phi * (left[i] * right[j] - left[j] * right[i]);
                }
            }
        }
        for (item, sign) in [(l, 1.0), (r, -1.0)] {
            let add = |sums: &mut [f64], h: f64| add_multiple(sums, sign * h, phi);
            self.utilities.row(item).iter().enumerate().for_each(|(k, h)| add(out.utilities.row_mut(k), *h));
            self.item_effects.column(item).for_each(|(k, h)| add(out.item_effects.row_mut(k), h));
        }
        out
    }
}

/// A model of duels between items with features.
pub(super) struct SkewModel<'d> {
    features: &'d SkewFeatures,
    /// Transposes of `items` and `utilities` of the features.
    transposed: [Matrix; 2],
    compared: &'d ComparedPairs,
    /// For each item, the index of the first pair in which it is the first item. Pairs are sorted by their
    /// first items.
    pair_starts: Vec<usize>,
}

/// The mode of the posterior of the weights.
pub(super) struct WeightMode {
    pub weights: SkewWeights,
    /// For each pair, the first derivative of the log likelihood.
    pub alpha: Vec<f64>,
    /// For each pair, minus the second derivative of the log likelihood.
    pub curvature: Vec<f64>,
    pub log_likelihood: f64,
    /// Number of Newton steps, and of products with the Hessian.
    pub steps: usize,
    pub products: usize,
}

impl<'d> SkewModel<'d> {
    /// Creates a model of pairs that are sorted by their first items.
    pub fn new(features: &'d SkewFeatures, compared: &'d ComparedPairs) -> Self {
        let items = features.items.rows();
        let mut pair_starts = vec![0; items + 1];
        compared.pairs.iter().for_each(|p| pair_starts[p.0 + 1] += 1);
        (0..items).for_each(|i| pair_starts[i + 1] += pair_starts[i]);
        let transposed = [features.items.transpose(), features.utilities.transpose()];
        Self { features, transposed, compared, pair_starts }
    }

    fn log_odds(&self, weights: &SkewWeights) -> Vec<f64> {
        self.features.log_odds(weights, self.compared)
    }

    /// Returns `Σ_p v_p φ_c f_l f_rᵀ` minus its transpose, and `Σ_p v_p φ_c (h_l - h_r)`, where v are the
    /// numbers `pair_values`. This is the adjoint of [`log_odds`](Self::log_odds).
    fn apply_transpose(&self, pair_values: &[f64]) -> SkewWeights {
        let (f, phi, compared) = (&self.features.items, &self.features.contexts, self.compared);
        let (q, contexts) = (f.cols(), phi.cols());
        let isa = Isa::detect();
        let mut out = self.features.zeros();
        if q > 0 {
            for (c, out) in out.pairs.iter_mut().enumerate() {
                let mut sums = Matrix::zeros(f.rows(), q);
                sums.data_mut().par_chunks_mut(q).enumerate().for_each(|(l, row)| {
                    for p in self.pair_starts[l]..self.pair_starts[l + 1] {
                        add_scaled(
                            isa,
                            row,
                            pair_values[p] * phi[(compared.contexts[p], c)],
                            f.row(compared.pairs[p].1),
                        );
                    }
                });
                let products = self.transposed[0].matmul(&sums);
                out.data_mut().par_chunks_mut(q).enumerate().for_each(|(i, row)| {
                    row.iter_mut().enumerate().for_each(|(j, v)| *v = products[(i, j)] - products[(j, i)]);
                });
            }
        }
        let mut sums = Matrix::zeros(f.rows(), contexts);
        for ((&(l, r), &context), v) in compared.pairs.iter().zip(&compared.contexts).zip(pair_values) {
            for (item, sign) in [(l, 1.0), (r, -1.0)] {
                add_multiple(sums.row_mut(item), sign * v, phi.row(context));
            }
        }
        if self.features.utilities.cols() > 0 {
            out.utilities = self.transposed[1].matmul(&sums);
        }
        out.item_effects = self.features.item_effects.matmul(&sums);
        out
    }

    /// Computes the mode, at which the norm of the gradient is at most `tolerance` times its norm at 0.
    ///
    /// # Errors
    /// [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn mode(
        &self,
        likelihood: &impl Likelihood<Latent = f64>,
        tolerance: f64,
        stop: &AtomicBool,
    ) -> Result<WeightMode> {
        let n = self.compared.pairs.len();
        let mut weights = self.features.zeros();
        let mut g = vec![0.0; n];
        let mut value = likelihood.log_likelihood(&g);
        let mut objective = value;
        let (mut initial_norm, mut relative_norm, mut products) = (None, f64::INFINITY, 0);
        for steps in 0..MAX_NEWTON {
            check_cancelled(stop)?;
            let terms: Vec<LikelihoodTerms> = (0..n).map(|i| likelihood.terms(i, g[i])).collect();
            let alpha: Vec<f64> = terms.iter().map(|terms| terms.first_derivative).collect();
            let curvature: Vec<f64> = terms.iter().map(|terms| terms.information).collect();
            let target = self.apply_transpose(&alpha);
            let mut gradient = target.clone();
            gradient.add_scaled(-1.0, &weights);
            let gradient_norm = gradient.inner_product(&gradient).sqrt();
            let first_norm = *initial_norm.get_or_insert(gradient_norm.max(1e-300));
            relative_norm = gradient_norm / first_norm;
            if relative_norm <= tolerance {
                return Ok(WeightMode {
                    weights: target,
                    alpha,
                    curvature,
                    log_likelihood: value,
                    steps,
                    products,
                });
            }
            let (step, n_products) =
                self.solve(&curvature, &gradient, relative_norm.sqrt().min(0.1), stop)?;
            products += n_products;
            let step_g = self.log_odds(&step);
            let (square, step_square, product) =
                (weights.inner_product(&weights), step.inner_product(&step), weights.inner_product(&step));
            let (next_objective, (t, next_g, next_value)) = halved_step(objective, |t| {
                let next_g: Vec<f64> = g.iter().zip(&step_g).map(|(g, s)| g + t * s).collect();
                let value = likelihood.log_likelihood(&next_g);
                (value - 0.5 * (square + 2.0 * t * product + t * t * step_square), (t, next_g, value))
            });
            weights.add_scaled(t, &step);
            (g, value, objective) = (next_g, next_value, next_objective);
        }
        Err(Error::NotConverged {
            method: "Newton's method for preferences with landmarks",
            iterations: MAX_NEWTON,
            change: relative_norm,
            remedy: "lower the kernel's scale",
        })
    }

    /// Solves `(I + ΨᵀWΨ) x = b` by conjugate gradients, where Ψ maps weights to log odds and W is the
    /// diagonal matrix of `curvature`. The norm of the residual is at most `tolerance` times that of b.
    /// Returns x and the number of products with the matrix.
    ///
    /// # Errors
    /// As [`mode`](Self::mode).
    pub fn solve(
        &self,
        curvature: &[f64],
        b: &SkewWeights,
        tolerance: f64,
        stop: &AtomicBool,
    ) -> Result<(SkewWeights, usize)> {
        let inverse_diagonal = self.preconditioner(curvature);
        let product = |v: &SkewWeights| {
            check_cancelled(stop)?;
            let mut g = self.log_odds(v);
            multiply_entries(&mut g, curvature);
            let mut out = self.apply_transpose(&g);
            out.add_scaled(1.0, v);
            Ok(out)
        };
        let precondition = |r: &SkewWeights| {
            let mut z = r.clone();
            z.multiply(&inverse_diagonal);
            z
        };
        let rule = StoppingRule { norm: ResidualNorm::Euclidean, tolerance, max_products: MAX_PRODUCTS };
        let solution = conjugate_gradients(product, precondition, b, self.features.zeros(), rule)?;
        let change = match solution.outcome {
            CgOutcome::Converged => return Ok((solution.x, solution.products)),
            CgOutcome::NotPositiveDefinite => f64::NAN,
            CgOutcome::TooManyProducts { residual } => residual,
        };
        Err(Error::NotConverged {
            method: "the method of conjugate gradients for preferences with landmarks",
            iterations: MAX_PRODUCTS,
            change,
            remedy: "lower the kernel's scale, or take fewer landmarks",
        })
    }

    /// Returns `bᵀ H⁻¹ b` for the Hessian `H = I + ΨᵀWΨ`, from the solution x of `H x = b` as `2 bᵀx - xᵀHx`.
    /// This never exceeds the exact value and is at most `tolerance² bᵀb` below it: the difference is the
    /// squared error of x in the norm of the Hessian, whose eigenvalues are at least 1. (That of `bᵀx` would
    /// be larger, because conjugate gradients lose their orthogonality to rounding errors.)
    ///
    /// # Errors
    /// As [`mode`](Self::mode).
    pub fn inverse_quadratic_form(
        &self,
        curvature: &[f64],
        b: &SkewWeights,
        tolerance: f64,
        stop: &AtomicBool,
    ) -> Result<f64> {
        let (x, _) = self.solve(curvature, b, tolerance, stop)?;
        let weighted_squares: f64 = self.log_odds(&x).iter().zip(curvature).map(|(g, w)| w * g * g).sum();
        Ok((2.0 * b.inner_product(&x) - x.inner_product(&x) - weighted_squares).max(0.0))
    }

    /// Returns the inverse of the Hessian's diagonal under two independence assumptions. Contexts are
    /// independent of pairs; for the V_c the two items of a pair are independent and have uncorrelated
    /// features.
    fn preconditioner(&self, curvature: &[f64]) -> SkewWeights {
        let SkewFeatures { items, utilities, item_effects: levels, contexts } = self.features;
        let mut out = self.features.zeros();
        let (mut moments, mut context_squares) = (vec![0.0; items.cols()], vec![0.0; contexts.cols()]);
        let (mut squares, mut level_squares) = (vec![0.0; utilities.cols()], vec![0.0; levels.rows()]);
        let mut total = 0.0;
        for ((&(l, r), &context), w) in self.compared.pairs.iter().zip(&self.compared.contexts).zip(curvature)
        {
            total += w;
            context_squares.iter_mut().zip(contexts.row(context)).for_each(|(a, phi)| *a += w * phi * phi);
            for ((m, l), r) in moments.iter_mut().zip(items.row(l)).zip(items.row(r)) {
                *m += 0.5 * w * (l * l + r * r);
            }
            for ((a, l), r) in squares.iter_mut().zip(utilities.row(l)).zip(utilities.row(r)) {
                *a += w * (l - r) * (l - r);
            }
            levels.column(l).chain(levels.column(r)).for_each(|(k, h)| level_squares[k] += w * h * h);
        }
        let total = f64::max(total, 1e-300);
        context_squares.iter_mut().for_each(|a| *a /= total);
        for ((c, pairs), context_square) in out.pairs.iter_mut().enumerate().zip(&context_squares) {
            let inverse = |moment: f64| 1.0 / (1.0 + context_square * moment);
            for (i, first_moment) in moments.iter().enumerate() {
                let row = pairs.row_mut(i).iter_mut().zip(&moments);
                row.for_each(|(out, m)| *out = inverse(2.0 / total * (first_moment * m)));
            }
            squares.iter().enumerate().for_each(|(k, a)| out.utilities[(k, c)] = inverse(*a));
            level_squares.iter().enumerate().for_each(|(k, a)| out.item_effects[(k, c)] = inverse(*a));
        }
        out
    }

    /// Returns a draw from the posterior minus its mean: `H⁻¹(Ψᵀ W^½ ε + ε₀)` with standard normal ε and ε₀.
    /// Its covariance is H⁻¹ for the Hessian H.
    ///
    /// # Errors
    /// As [`mode`](Self::mode).
    pub fn posterior_draw(
        &self,
        curvature: &[f64],
        random: &mut Random,
        stop: &AtomicBool,
    ) -> Result<SkewWeights> {
        let mut normal = || random.sample::<f64, _>(StandardNormal);
        let noise: Vec<f64> = curvature.iter().map(|w| w.sqrt() * normal()).collect();
        let mut b = self.apply_transpose(&noise);
        for pairs in &mut b.pairs {
            for (i, j) in (0..pairs.rows()).flat_map(|i| (0..i).map(move |j| (i, j))) {
                let v = normal();
                pairs[(i, j)] -= v;
                pairs[(j, i)] += v;
            }
        }
        b.utilities.data_mut().iter_mut().chain(b.item_effects.data_mut()).for_each(|u| *u += normal());
        Ok(self.solve(curvature, &b, DRAW_TOLERANCE, stop)?.0)
    }
}

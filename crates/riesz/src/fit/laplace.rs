//! Laplace's approximation for logistic outcomes: a normal distribution around the mode of the posterior of f
//! (Rasmussen and Williams 2006, sections 3.4 and 5.5.1). It is shared by all Gaussian process models of
//! probabilities, which provide the prior covariance of f as a matrix.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::kernel_model::logistic;
use crate::linalg::{Cholesky, Matrix, dot};

/// Newton steps allowed.
const MAX_NEWTON: usize = 100;
/// At the mode α_i is the slope of the log likelihood; the largest difference that is accepted, for a weight
/// of 1.
const NEWTON_TOLERANCE: f64 = 1e-10;
/// Tolerance of the mode where rounding keeps the change from getting smaller.
const ROUNDING_TOLERANCE: f64 = 1e-6;

/// Likelihood of the outcomes given f: `log P = Σ_i [up_i log σ(f_i - m) + down_i log σ(-f_i - m)] +
/// constant`.
///
/// With a margin m of 0 this is logistic regression. With m > 0 it is the model of ties of Rao and Kupper
/// (1967): a tie, of probability `(e^2m - 1) σ(f - m) σ(-f - m)`, counts for both sides and adds `log(e^2m -
/// 1)` to the constant. The log likelihood is concave in f.
pub(crate) struct LogisticLikelihood {
    /// For each observation, the weight of the outcomes that favour a large f.
    pub up: Vec<f64>,
    /// For each observation, the weight of the outcomes that favour a small f.
    pub down: Vec<f64>,
    /// The margin m by which a side must be ahead.
    pub margin: f64,
    /// Total weight of the ties: the constant is `ties log(e^2m - 1)`.
    pub ties: f64,
}

/// `log σ(x)`, stable for large x.
pub(crate) fn log_logistic(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}

impl LogisticLikelihood {
    /// The likelihood of outcomes from 0 to 1 (shares of 1). Each counts as often as its weight says (`None`:
    /// once).
    pub fn from_fractions(y: &[f64], weights: Option<&[f64]>) -> Self {
        let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
        let weighted =
            |share: fn(f64) -> f64| y.iter().enumerate().map(|(i, &y)| weight(i) * share(y)).collect();
        Self { up: weighted(|y| y), down: weighted(|y| 1.0 - y), margin: 0.0, ties: 0.0 }
    }

    /// The total weight of observation i.
    pub fn weight(&self, i: usize) -> f64 {
        self.up[i] + self.down[i]
    }

    /// The log likelihood at f, up to a constant.
    pub fn value(&self, f: &[f64]) -> f64 {
        let (m, sides) = (self.margin, self.up.iter().zip(&self.down));
        // 0 · -∞ is 0 here.
        let times = |weight: f64, x: f64| if weight > 0.0 { weight * log_logistic(x) } else { 0.0 };
        let terms = sides.zip(f).map(|((up, down), f)| times(*up, f - m) + times(*down, -f - m));
        terms.sum::<f64>() + if self.ties > 0.0 { self.ties * (2.0 * m).exp_m1().ln() } else { 0.0 }
    }

    /// The derivatives of the log likelihood of observation i at f.
    pub fn derivatives(&self, i: usize, f: f64) -> Derivatives {
        let (up, down, m) = (self.up[i], self.down[i], self.margin);
        let (won, lost) = (logistic(f - m), logistic(-f - m));
        let (not_won, not_lost) = (logistic(m - f), logistic(f + m));
        let (for_up, for_down) = (up * won * not_won, down * lost * not_lost);
        let asymmetry = (not_won - won, not_lost - lost);
        let curve = for_up + for_down;
        let ratio = |numerator: f64| if curve > 0.0 { numerator / curve } else { 0.0 };
        Derivatives {
            first: up * not_won - down * not_lost,
            curvature: curve,
            third_over_w: ratio(for_down * asymmetry.1 - for_up * asymmetry.0),
            margin_derivative: -up * not_won - down * not_lost,
            first_by_margin: for_up - for_down,
            curvature_by_margin: ratio(-for_up * asymmetry.0 - for_down * asymmetry.1),
        }
    }
}

/// Derivatives of the log likelihood of one observation.
pub(crate) struct Derivatives {
    /// First derivative in f.
    pub first: f64,
    /// Second derivative in f with the opposite sign, W ≥ 0.
    pub curvature: f64,
    /// Third derivative in f divided by W; from -1 to 1.
    third_over_w: f64,
    /// First derivative in the margin, without that of the constant.
    margin_derivative: f64,
    first_by_margin: f64,
    /// Derivative of W in the margin, divided by W.
    curvature_by_margin: f64,
}

/// A prior covariance K of f, as Newton's method uses it: products, and the matrix `B = I + W^½ K W^½` for a
/// diagonal W.
pub(crate) trait PriorCovariance {
    /// A factor of B, or of a matrix that stands in for it.
    type Factor;

    /// `K v`.
    fn times(&self, v: &[f64]) -> Vec<f64>;

    /// The factor of B, where `root_weight` is the diagonal of `W^½`.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`].
    fn factor_b(&self, root_weight: &[f64]) -> Result<Self::Factor>;

    /// `log det B`.
    fn log_det(&self, factor: &Self::Factor) -> f64;

    /// `W^½ B⁻¹ W^½ v`.
    fn apply_reduction(&self, factor: &Self::Factor, root_weight: &[f64], v: &[f64]) -> Vec<f64>;
}

/// A covariance as a whole matrix.
impl PriorCovariance for Matrix {
    type Factor = Cholesky;

    fn times(&self, v: &[f64]) -> Vec<f64> {
        self.matvec(v)
    }

    fn factor_b(&self, root_weight: &[f64]) -> Result<Cholesky> {
        factor_b(self, root_weight)
    }

    fn log_det(&self, factor: &Cholesky) -> f64 {
        factor.log_det()
    }

    fn apply_reduction(&self, factor: &Cholesky, root_weight: &[f64], v: &[f64]) -> Vec<f64> {
        apply_reduction(factor, root_weight, v)
    }
}

/// A normal distribution in place of the posterior: `α = K⁻¹ E f`, and a precision of `K⁻¹ + W`.
pub(crate) struct LaplaceMode<F = Cholesky> {
    /// The factor of `B = I + W^½ K W^½`.
    pub factor: F,
    /// The diagonal of `W^½`.
    pub root_weight: Vec<f64>,
    /// The coefficients; at the mode the slopes of the log likelihood, `w (y - π)`.
    pub alpha: Vec<f64>,
    /// f at the observations.
    pub f: Vec<f64>,
    /// The approximate log marginal likelihood (equation 3.32).
    pub value: f64,
    /// Half of the third derivatives divided by W, through which W changes with f; 0 for a bound that is a
    /// maximum in W.
    pub half_third_over_w: Vec<f64>,
}

/// Gradient of the approximate evidence.
pub(crate) struct EvidenceGradient {
    /// Gradient in the prior covariance: `∂ value/∂θ = Σ_ii' gram_ii' ∂K_ii'/∂θ`.
    pub gram: Matrix,
    /// With the likelihood's margin.
    pub margin: f64,
}

/// `Σ_i w_i (y_i log σ(f_i) + (1 - y_i) log σ(-f_i))`, stable for large f.
pub(crate) fn log_likelihood(y: &[f64], weight: impl Fn(usize) -> f64, f: &[f64]) -> f64 {
    let term = |(i, (&y, &f)): (usize, (&f64, &f64))| {
        // log σ(-f) is f less than log σ(f).
        weight(i) * (f.min(0.0) - (1.0 - y) * f - (-f.abs()).exp().ln_1p())
    };
    y.iter().zip(f).enumerate().map(term).sum()
}

/// The factor of `I + R K R`, with R a diagonal.
pub(super) fn factor_b(gram: &Matrix, root_weight: &[f64]) -> Result<Cholesky> {
    let mut b = gram.clone();
    b.data_mut().par_chunks_mut(root_weight.len()).zip(root_weight).for_each(|(row, r)| {
        row.iter_mut().zip(root_weight).for_each(|(b, s)| *b *= r * s);
    });
    b.add_diagonal(|_| 1.0);
    Cholesky::new(b, "matrix of the approximate posterior")
}

/// `R B⁻¹ R v`.
pub(super) fn apply_reduction(factor: &Cholesky, root_weight: &[f64], v: &[f64]) -> Vec<f64> {
    let scaled: Vec<f64> = v.iter().zip(root_weight).map(|(v, r)| v * r).collect();
    factor.solve_vector(&scaled).iter().zip(root_weight).map(|(v, r)| v * r).collect()
}

/// The mode by Newton's method (algorithm 3.1). A step that would lower `log P(y|f) - ½ fᵀK⁻¹f` is halved
/// until it does not. Cost n³/3 a step (some ten).
///
/// # Errors
/// [`Error::NotPositiveDefinite`]; [`Error::NotConverged`]; [`Error::Interrupted`].
pub(crate) fn mode(gram: &Matrix, likelihood: &LogisticLikelihood, stop: &AtomicBool) -> Result<LaplaceMode> {
    mode_from(gram, likelihood, None, stop)
}

/// The mode, searched from coefficients near it, such as those under a similar prior. They are used where
/// their objective is larger than that of zero coefficients, and then save steps.
///
/// # Errors
/// As [`mode`].
pub(crate) fn mode_from<K: PriorCovariance>(
    gram: &K,
    likelihood: &LogisticLikelihood,
    start: Option<&[f64]>,
    stop: &AtomicBool,
) -> Result<LaplaceMode<K::Factor>> {
    let n = likelihood.up.len();
    let (mut alpha, mut f) = (vec![0.0; n], vec![0.0; n]);
    let mut objective = likelihood.value(&f);
    if let Some(start) = start {
        let f_start = gram.times(start);
        let value = likelihood.value(&f_start) - 0.5 * dot(start, &f_start);
        if value > objective {
            (alpha, f, objective) = (start.to_vec(), f_start, value);
        }
    }
    let mut change = f64::INFINITY;
    for _ in 0..MAX_NEWTON {
        check_cancelled(stop)?;
        let local: Vec<Derivatives> = (0..n).map(|i| likelihood.derivatives(i, f[i])).collect();
        let root_weight: Vec<f64> = local.iter().map(|d| d.curvature.sqrt()).collect();
        let factor = gram.factor_b(&root_weight)?;
        let violation = |i: usize| (local[i].first - alpha[i]).abs() / likelihood.weight(i).max(1.0);
        let before = std::mem::replace(&mut change, (0..n).fold(0.0_f64, |a, i| a.max(violation(i))));
        // Near the mode a step squares what is off; where it no longer halves it, rounding is what is left,
        // as of kernels of large scale.
        if change <= NEWTON_TOLERANCE || change <= ROUNDING_TOLERANCE && change > 0.5 * before {
            let value = objective - 0.5 * gram.log_det(&factor);
            let half_third_over_w = local.iter().map(|d| 0.5 * d.third_over_w).collect();
            return Ok(LaplaceMode { factor, root_weight, alpha, f, value, half_third_over_w });
        }
        let right: Vec<f64> = (0..n).map(|i| local[i].curvature * f[i] + local[i].first).collect();
        let known = gram.apply_reduction(&factor, &root_weight, &gram.times(&right));
        let step: Vec<f64> = (0..n).map(|i| right[i] - known[i] - alpha[i]).collect();
        let step_f = gram.times(&step);
        let mut t = 1.0;
        loop {
            let next_alpha: Vec<f64> = alpha.iter().zip(&step).map(|(a, s)| a + t * s).collect();
            let next_f: Vec<f64> = f.iter().zip(&step_f).map(|(f, s)| f + t * s).collect();
            let next = likelihood.value(&next_f) - 0.5 * dot(&next_alpha, &next_f);
            // Near the mode the objective changes by less than its rounding error.
            if next >= objective - 1e-12 * objective.abs().max(1.0) || t < 1e-10 {
                (alpha, f, objective) = (next_alpha, next_f, next);
                break;
            }
            t *= 0.5;
        }
    }
    Err(Error::NotConverged {
        method: "Newton's method for the mode of the posterior",
        iterations: MAX_NEWTON,
        change,
        remedy: "lower the kernel's scale",
    })
}

impl<F> LaplaceMode<F> {
    /// The vector `u` and the derivative in the margin, see [`gradient`](LaplaceMode::gradient).
    /// `precision_share` is, for each observation, the share of the likelihood in the posterior precision, `1
    /// - (B⁻¹)_ii`.
    pub(crate) fn response<K>(
        &self,
        gram: &K,
        likelihood: &LogisticLikelihood,
        precision_share: &[f64],
    ) -> (Vec<f64>, f64)
    where
        K: PriorCovariance<Factor = F>,
    {
        let n = self.alpha.len();
        let s: Vec<f64> = self.half_third_over_w.iter().zip(precision_share).map(|(t, v)| t * v).collect();
        let known = gram.apply_reduction(&self.factor, &self.root_weight, &gram.times(&s));
        let u: Vec<f64> = s.iter().zip(&known).map(|(s, k)| s - k).collect();
        if likelihood.margin <= 0.0 {
            return (u, 0.0);
        }
        let moved = gram.times(&u);
        let margin_term = |i: usize| {
            let d = likelihood.derivatives(i, self.f[i]);
            d.margin_derivative - 0.5 * precision_share[i] * d.curvature_by_margin
                + moved[i] * d.first_by_margin
        };
        let constant = 2.0 * likelihood.ties / (-2.0 * likelihood.margin).exp_m1();
        (u, (0..n).map(margin_term).sum::<f64>() - constant)
    }
}

impl LaplaceMode {
    /// Gradient of the approximate evidence in the prior covariance and the margin (algorithm 5.1):
    ///
    /// ```text
    /// gradient = ½ αα' - ½ R + ½ (u α' + α u'),   R = W^½ B⁻¹ W^½,   u = (I - R K) s,
    /// s_i = ½ v_i ∂³ log P_i,   v_i = the posterior variance of f_i, (1 - (B⁻¹)_ii) / W_ii,
    /// margin = ∂ log P - ½ Σ v_i ∂W_i + (K u)ᵀ ∂(first derivatives of log P).
    /// ```
    ///
    /// Cost n³.
    pub(crate) fn gradient(self, gram: &Matrix, likelihood: &LogisticLikelihood) -> EvidenceGradient {
        let n = self.alpha.len();
        let mut slopes = self.factor.inverse();
        let precision_share: Vec<f64> = (0..n).map(|i| 1.0 - slopes[(i, i)]).collect();
        let (u, margin) = self.response(gram, likelihood, &precision_share);
        let Self { root_weight, alpha, .. } = self;
        slopes.data_mut().par_chunks_mut(n).enumerate().for_each(|(i, row)| {
            for (j, w) in row.iter_mut().enumerate() {
                let r = root_weight[i] * *w * root_weight[j];
                *w = 0.5 * (alpha[i] * alpha[j] - r + u[i] * alpha[j] + alpha[i] * u[j]);
            }
        });
        EvidenceGradient { gram: slopes, margin }
    }
}

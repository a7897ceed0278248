//! Laplace's approximation for a log-concave [likelihood](Likelihood): a normal distribution around the
//! posterior mode of f (Rasmussen and Williams 2006, sections 3.4 and 5.5.1). All Gaussian process models of
//! probabilities use it; they provide the prior covariance K (n × n) of f at the n observations. Likelihoods
//! whose observations depend on several values of f, such as choices, implement [`JointLikelihood`].

use std::borrow::Borrow;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::likelihood::choices::ChoiceLikelihood;
use super::likelihood::{Factorised, JointLikelihood, Likelihood, LocalCurvature};
use super::newton::halved_step;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix, Sparse, differences, dot, plus_multiple, products};

/// Maximal number of Newton steps.
const MAX_NEWTON: usize = 100;
/// Largest difference between α_i and the derivative of the log likelihood in f_i that is accepted as the
/// mode, per unit of weight. The two are equal at the exact mode.
const NEWTON_TOLERANCE: f64 = 1e-10;
/// Tolerance of the mode if rounding errors prevent a further decrease.
const ROUNDING_TOLERANCE: f64 = 1e-6;

/// A prior covariance K (n × n) of f with the operations that Newton's method uses: products with K, and the
/// matrix `B = I + Sᵀ K S` for a matrix S with `S Sᵀ = W`. S is diagonal, `W^½`, unless another type is
/// given.
pub trait PriorCovariance<Root: ?Sized = [f64]> {
    /// Returns `K v`.
    fn times(&self, v: &[f64]) -> Vec<f64>;

    /// Returns the Cholesky factor of B, or of a smaller matrix of the same determinant that replaces it.
    /// `root` is S, or the diagonal of a diagonal S.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`].
    fn factor_b(&self, root: &Root) -> Result<Cholesky>;

    /// Returns `S B⁻¹ Sᵀ v`, given that factor.
    fn apply_reduction(&self, factor: &Cholesky, root: &Root, v: &[f64]) -> Vec<f64>;
}

/// A covariance that is stored as a dense matrix.
impl PriorCovariance for Matrix {
    fn times(&self, v: &[f64]) -> Vec<f64> {
        self.matvec(v)
    }

    fn factor_b(&self, root_weight: &[f64]) -> Result<Cholesky> {
        let mut b = self.clone();
        b.data_mut().par_chunks_mut(root_weight.len()).zip(root_weight).for_each(|(row, r)| {
            row.iter_mut().zip(root_weight).for_each(|(b, s)| *b *= r * s);
        });
        b.add_diagonal(|_| 1.0);
        Cholesky::new(b, "matrix of the approximate posterior")
    }

    fn apply_reduction(&self, factor: &Cholesky, root_weight: &[f64], v: &[f64]) -> Vec<f64> {
        products(&factor.solve_vector(&products(v, root_weight)), root_weight)
    }
}

/// A dense covariance K of latent quantities whose likelihood has a sparse S.
pub struct JointCovariance<'k>(pub &'k Matrix);

impl PriorCovariance<Sparse> for JointCovariance<'_> {
    fn times(&self, v: &[f64]) -> Vec<f64> {
        self.0.matvec(v)
    }

    fn factor_b(&self, root: &Sparse) -> Result<Cholesky> {
        let mut b = root.transpose_times(&root.transpose_times(self.0).transpose());
        b.add_diagonal(|_| 1.0);
        Cholesky::new(b, "matrix of the approximate posterior")
    }

    fn apply_reduction(&self, factor: &Cholesky, root: &Sparse, v: &[f64]) -> Vec<f64> {
        let projected = root.transpose_times(&Matrix::column_vector(v.to_vec())).column(0);
        root.matmul(&Matrix::column_vector(factor.solve_vector(&projected))).column(0)
    }
}

/// The posterior mode of f with `α = K⁻¹ f` and the precision matrix `K⁻¹ + S Sᵀ`.
pub struct PosteriorMode<Root: ToOwned + ?Sized> {
    /// The factor of `B = I + Sᵀ K S`.
    pub factor: Cholesky,
    /// The matrix S, or its diagonal.
    pub root: Root::Owned,
    /// The coefficients α, which equal the first derivatives of the log likelihood.
    pub alpha: Vec<f64>,
    /// The mode.
    pub f: Vec<f64>,
    /// The approximate log marginal likelihood (equation 3.32).
    pub value: f64,
}

/// A normal approximation of the posterior of f, with `α = K⁻¹ E f` and the precision matrix `K⁻¹ + W`.
pub struct GaussianApproximation {
    /// The factor of `B = I + W^½ K W^½`.
    pub factor: Cholesky,
    /// The diagonal of `W^½`.
    pub root_weight: Vec<f64>,
    /// The coefficients α; at the mode they equal the first derivatives of the log likelihood.
    pub alpha: Vec<f64>,
    /// The mean of f at the observations.
    pub f: Vec<f64>,
    /// The approximate log marginal likelihood (equation 3.32).
    pub value: f64,
    /// Half of the third derivatives of the log likelihood, divided by W. They determine how W changes with
    /// f, and are 0 for a lower bound whose W was maximised.
    pub half_third_over_w: Vec<f64>,
}

/// Gradient of the approximate evidence.
pub struct EvidenceGradient {
    /// Gradient in the prior covariance: `∂ value/∂θ = Σ_ii' gram_ii' ∂K_ii'/∂θ`.
    pub gram: Matrix,
    /// Derivative in the likelihood's own parameter, 0 without one.
    pub parameter: f64,
}

/// Returns `numerator / information`, and 0 where the observation has no information.
fn per_information(numerator: f64, information: f64) -> f64 {
    if information > 0.0 { numerator / information } else { 0.0 }
}

/// Computes the mode of a likelihood whose observations depend on one value of f each, as
/// [`joint_mode`] does.
///
/// # Errors
/// As [`joint_mode`].
pub fn mode(
    gram: &impl PriorCovariance,
    likelihood: &impl Likelihood<Latent = f64>,
    warm_start: Option<&[f64]>,
    stop: &AtomicBool,
) -> Result<GaussianApproximation> {
    let mode = joint_mode(gram, &Factorised(likelihood), warm_start, stop)?;
    let PosteriorMode { factor, root: root_weight, alpha, f, value } = mode;
    let half_third_over_w = |(i, f): (usize, &f64)| {
        let terms = likelihood.terms(i, *f);
        0.5 * per_information(-terms.d_information, terms.information)
    };
    let half_third_over_w = f.iter().enumerate().map(half_third_over_w).collect();
    Ok(GaussianApproximation { factor, root_weight, alpha, f, value, half_third_over_w })
}

/// Computes the mode by Newton's method (algorithm 3.1). A step that would lower `log P(y|f) - ½ fᵀK⁻¹f` is
/// halved until it does not. Cost n³/3 for each of about ten steps. The search starts at the coefficients
/// `warm_start`, such as the mode under a similar prior, if their objective exceeds that of zero
/// coefficients.
///
/// # Errors
/// [`Error::NotPositiveDefinite`]; [`Error::NotConverged`]; [`Error::Interrupted`].
pub fn joint_mode<L: JointLikelihood>(
    gram: &impl PriorCovariance<L::Root>,
    likelihood: &L,
    warm_start: Option<&[f64]>,
    stop: &AtomicBool,
) -> Result<PosteriorMode<L::Root>> {
    let n = likelihood.latents();
    let weights: Vec<f64> = (0..n).map(|i| likelihood.weight(i).max(1.0)).collect();
    let (mut alpha, mut f) = (vec![0.0; n], vec![0.0; n]);
    let mut objective = likelihood.log_likelihood(&f);
    if let Some(start) = warm_start {
        let f_start = gram.times(start);
        let value = likelihood.log_likelihood(&f_start) - 0.5 * dot(start, &f_start);
        if value > objective {
            (alpha, f, objective) = (start.to_vec(), f_start, value);
        }
    }
    let mut change = f64::INFINITY;
    for _ in 0..MAX_NEWTON {
        check_cancelled(stop)?;
        let LocalCurvature { gradient, target, root } = likelihood.local(&f)?;
        let factor = gram.factor_b(root.borrow())?;
        let violation = |i: usize| (gradient[i] - alpha[i]).abs() / weights[i];
        let previous_change =
            std::mem::replace(&mut change, (0..n).fold(0.0_f64, |a, i| a.max(violation(i))));
        // Near the mode Newton's method converges quadratically. If a step no longer halves the difference,
        // the difference is rounding error, for example for kernels of large scale.
        if change <= NEWTON_TOLERANCE || change <= ROUNDING_TOLERANCE && change > 0.5 * previous_change {
            let value = objective - 0.5 * factor.log_det();
            return Ok(PosteriorMode { factor, root, alpha, f, value });
        }
        let correction = gram.apply_reduction(&factor, root.borrow(), &gram.times(&target));
        let step: Vec<f64> = (0..n).map(|i| target[i] - correction[i] - alpha[i]).collect();
        let step_f = gram.times(&step);
        (objective, (alpha, f)) = halved_step(objective, |t| {
            let (alpha, f) = (plus_multiple(&alpha, t, &step), plus_multiple(&f, t, &step_f));
            (likelihood.log_likelihood(&f) - 0.5 * dot(&alpha, &f), (alpha, f))
        });
    }
    Err(Error::NotConverged {
        method: "Newton's method for the mode of the posterior",
        iterations: MAX_NEWTON,
        change,
        remedy: "lower the kernel's scale",
    })
}

impl PosteriorMode<Sparse> {
    /// Returns the gradient of the approximate evidence of choices in the prior covariance K (n × n), as
    /// [`GaussianApproximation::gradient`] does: `½ αα' - ½ R + ½ (u α' + α u')` with `R = S B⁻¹ Sᵀ`,
    /// `u = (I - R K) s`, and s the derivatives of `-½ tr(C W)` in f at the posterior covariance
    /// `C = K - K R K`. Cost n³.
    pub fn gradient(&self, gram: &Matrix, likelihood: &ChoiceLikelihood) -> Matrix {
        let n = self.alpha.len();
        // S L⁻ᵀ, whose square is R.
        let mut scaled = Matrix::zeros(self.root.cols(), n);
        for j in 0..self.root.cols() {
            self.root.column(j).for_each(|(i, weight)| scaled[(j, i)] += weight);
        }
        self.factor.solve_lower_in_place(&mut scaled);
        let times_gram = scaled.matmul(gram);
        let mut covariance = gram.clone();
        covariance.subtract_product(&times_gram, &times_gram);
        let s = likelihood.curvature_trace_gradient(&self.f, &covariance);
        let correction = scaled.transpose_matvec(&times_gram.matvec(&s));
        let u = differences(&s, &correction);
        let mut out = Matrix::zeros(n, n);
        out.subtract_product(&scaled, &scaled);
        Matrix::from_fn(n, n, |i, j| {
            0.5 * (self.alpha[i] * self.alpha[j] + out[(i, j)] + u[i] * self.alpha[j] + self.alpha[i] * u[j])
        })
    }
}

impl GaussianApproximation {
    /// Returns the vector `u` and the derivative in the likelihood's own parameter, see
    /// [`gradient`](Self::gradient).
    /// `precision_share` holds, for each observation, the share `1 - (B⁻¹)_ii` of the likelihood in the
    /// posterior precision.
    pub fn response(
        &self,
        gram: &impl PriorCovariance,
        likelihood: &impl Likelihood<Latent = f64>,
        precision_share: &[f64],
    ) -> (Vec<f64>, f64) {
        let n = self.alpha.len();
        let s = products(&self.half_third_over_w, precision_share);
        let correction = gram.apply_reduction(&self.factor, &self.root_weight, &gram.times(&s));
        let u = differences(&s, &correction);
        if !likelihood.has_parameter() {
            return (u, 0.0);
        }
        let latent_response = gram.times(&u);
        let term = |i: usize| {
            let terms = likelihood.terms(i, self.f[i]);
            let [value, first_derivative, information] = terms.parameter_derivatives;
            value - 0.5 * precision_share[i] * per_information(information, terms.information)
                + latent_response[i] * first_derivative
        };
        (u, (0..n).map(term).sum::<f64>() + likelihood.constant_by_parameter())
    }

    /// Returns the gradient of the approximate evidence in the prior covariance and in the likelihood's own
    /// parameter (algorithm 5.1). All matrices are n × n, all vectors have n entries, and ∂ is the derivative
    /// in that parameter unless a variable is named:
    ///
    /// ```text
    /// gradient = ½ αα' - ½ R + ½ (u α' + α u'),   R = W^½ B⁻¹ W^½,   u = (I - R K) s,
    /// s_i = ½ v_i ∂³ log P_i,   v_i = the posterior variance of f_i, (1 - (B⁻¹)_ii) / W_ii,
    /// parameter = ∂ log P - ½ Σ v_i ∂W_i + (K u)ᵀ ∂(first derivatives of log P).
    /// ```
    ///
    /// Cost n³.
    pub fn gradient(self, gram: &Matrix, likelihood: &impl Likelihood<Latent = f64>) -> EvidenceGradient {
        let n = self.alpha.len();
        let mut slopes = self.factor.inverse();
        let precision_share: Vec<f64> = (0..n).map(|i| 1.0 - slopes[(i, i)]).collect();
        let (u, parameter) = self.response(gram, likelihood, &precision_share);
        let Self { root_weight, alpha, .. } = self;
        slopes.data_mut().par_chunks_mut(n).enumerate().for_each(|(i, row)| {
            for (j, w) in row.iter_mut().enumerate() {
                let r = root_weight[i] * *w * root_weight[j];
                *w = 0.5 * (alpha[i] * alpha[j] - r + u[i] * alpha[j] + alpha[i] * u[j]);
            }
        });
        EvidenceGradient { gram: slopes, parameter }
    }
}

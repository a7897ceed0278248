//! Posterior covariance of a model, a quadratic form over its support points.
//!
//! Given the data, f is a Gaussian process with the mean of a [`KernelExpansion`] and the covariance
//!
//! ```text
//! cov(f(x), f(x')) = s k(x, x') - k(x, X) Q k(X, x')
//! ```
//!
//! where X (n rows) are the support points and k the kernel of the expansion, s ≥ 0 is a number and Q a
//! symmetric matrix (n × n). All models with uncertainty have this form. Gaussian process regression has
//! `s = 1` and `Q = (K + σ²I)⁻¹`, Laplace's approximation of a classifier has `Q = W^½ B⁻¹ W^½`, and observed
//! sums `Aᵀf` have `Q = A V⁻¹ Aᵀ`. This module computes variances, joint covariances and samples for all of
//! them.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::checks::not_negative;
use crate::control::{RunControl, check_cancelled};
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::kernel_model::{KernelExpansion, check_overflow};
use crate::linalg::{Cholesky, Matrix, Sparse, add_multiple};
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::table::Table;

/// The matrix Q (n × n) of a posterior over the n support points, which determines the reduction of the prior
/// variance.
#[derive(Debug, Clone)]
pub enum VarianceReduction {
    /// `A V⁻¹ Aᵀ`.
    CholeskyInverse {
        /// A (n × m): the m observations were `Aᵀf` plus noise. `None` for the identity, one observation per
        /// support point.
        operator: Option<Sparse>,
        /// V (m × m), the covariance of the observations.
        factor: Cholesky,
    },
    /// `F Fᵀ`, where F (n × r) has few columns.
    LowRank(Matrix),
    /// `P F Fᵀ Pᵀ`, for observed aggregates: the operator P relates the n rows to bags.
    ThroughOperator {
        /// P (n × bags).
        operator: Sparse,
        /// F (bags × r).
        factor: Matrix,
    },
    /// `-A V⁻¹ Aᵀ`, with a prior scale of 0, for a function of m parameters with the posterior precision V.
    /// A kernel column c has the variance `cᵀA V⁻¹ Aᵀc`.
    Precision {
        /// A (n × m).
        operator: Sparse,
        /// V (m × m).
        factor: Cholesky,
    },
    /// Any symmetric matrix, n × n.
    Dense(Matrix),
    /// `-F Fᵀ`, with a prior scale of 0, for the differences between refits of the model, `k(x, X) F + g`.
    /// This is not a posterior.
    RefitDifferences {
        /// F (n × refits): differences of coefficients, scaled so that the sum of their squares is a
        /// variance.
        coef: Matrix,
        /// g: differences of intercepts, scaled likewise.
        intercept: Vec<f64>,
        /// The kind of refits.
        method: Refitted,
    },
}

/// The kind of refits of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refitted {
    /// Refits to rows that are resampled with a seed; differences are from the mean of the refits.
    Drawn {
        /// The seed.
        seed: u64,
    },
    /// Refits that leave out one row each; differences are from the mean of the refits, scaled for the
    /// jackknife.
    Jackknife,
    /// Refits with m, m/2, m/4, … landmarks. Differences are between successive refits,
    /// scaled to estimate the change when all rows are support points.
    LandmarkDoubling,
}

/// The covariance of a posterior. Outputs are independent of one another.
#[derive(Debug, Clone)]
pub struct PosteriorCovariance {
    /// The number s ≥ 0; 1 if the kernel is the prior covariance.
    pub prior_scale: f64,
    /// The exchange of columns for a skew-symmetric f, which changes its sign under it: entry j is the column
    /// that column j changes places with. The prior covariance is then `s (k(x, x') - k(x, swapped x'))`. The
    /// kernel must not change if the columns of both arguments are exchanged. `None` for an f that is not
    /// skew-symmetric.
    pub mirror: Option<Vec<usize>>,
    /// The matrix Q: one for all outputs, or one per output.
    pub reduction: Vec<VarianceReduction>,
    /// Factor of the standard deviations, one per output; 1 unless the outputs were fitted in different
    /// units.
    pub scale: Vec<f64>,
}

/// The posterior of f: a mean and its covariance.
///
/// ```
/// use riesz::fit::GaussianProcess;
/// use riesz::{Kernel, Matrix, Table};
///
/// let rows: Vec<[f64; 1]> = (0..30).map(|i| [f64::from(i) / 5.0]).collect();
/// let y = Matrix::column_vector(rows.iter().map(|r| r[0].sin()).collect());
/// let fit = GaussianProcess::new(Kernel::gaussian(&[1.0]), 0.1).fit(&Table::from_rows(&rows)?, &y)?;
/// let posterior = fit.posterior();
/// // Far from the data both values have a large variance, and they are strongly correlated.
/// let far = posterior.functionals_at(&Table::from_rows(&[[20.0], [20.1]])?)?;
/// let covariance = &posterior.covariance(&far)[0];
/// assert!(covariance[(0, 0)] > 0.1 && covariance[(0, 1)] > 0.9 * covariance[(0, 0)]);
/// let samples = posterior.sample(&far, 1000, 0)?;
/// assert_eq!((samples.values[0].rows(), samples.values[0].cols()), (2, 1000));
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Posterior<'m> {
    mean: &'m KernelExpansion,
    covariance: &'m PosteriorCovariance,
    stop: &'m AtomicBool,
}

/// Linear functionals ℓ_1 … ℓ_m of f, with the quantities that determine their posterior.
/// [`Posterior::functionals_at`] and [`Posterior::weighted_sum_functionals`] return them for values of f and
/// for sums of values.
#[derive(Debug, Clone)]
pub struct Functionals {
    /// `ℓ_j k(x_i, ·)`, n × m for n support points.
    pub columns: Matrix,
    /// The prior covariance `ℓ_j ℓ_j' k`, m × m.
    pub prior_covariance: Matrix,
    /// `ℓ_j 1`, the values for the constant function 1, which multiply an intercept.
    pub constants: Vec<f64>,
}

/// Draws from a posterior.
#[derive(Debug, Clone)]
pub struct Samples {
    /// The draws, functionals × draws for each output.
    pub values: Vec<Matrix>,
    /// For each output, the jitter that was added to the variance of every functional for the factorisation;
    /// 0 if none.
    pub jitter: Vec<f64>,
}

/// Minimal number of rows per block; blocks limit the memory.
const BLOCK: usize = 128;

/// Number of kernel values between rows and support points per block, if this is more than one minimal block.
/// Large blocks save the start-up cost of matrix products.
const KERNEL_VALUES_AT_ONCE: usize = 1 << 20;

impl VarianceReduction {
    /// Checks that the matrix fits an expansion over this number of support points.
    fn validate(&self, points: usize) -> Result<()> {
        let (size, numbers): (usize, [&[f64]; 2]) = match self {
            Self::CholeskyInverse { operator: None, factor } => (factor.size(), [&[], &[]]),
            Self::CholeskyInverse { operator: Some(a), factor } | Self::Precision { operator: a, factor } => {
                sized("the factor of a posterior", "rows", a.cols(), factor.size(), "one per observation")?;
                (a.rows(), [&[], &[]])
            }
            Self::LowRank(factor) => (factor.rows(), [factor.data(), &[]]),
            Self::ThroughOperator { operator, factor } => {
                let subject = "the low-rank factor of a posterior";
                sized(subject, "rows", operator.cols(), factor.rows(), "one per bag")?;
                (operator.rows(), [factor.data(), &[]])
            }
            Self::RefitDifferences { coef, intercept, .. } => {
                let subject = "the list of intercepts of refits";
                sized(subject, "rows", coef.cols(), intercept.len(), "one per refit")?;
                (coef.rows(), [coef.data(), intercept])
            }
            Self::Dense(q) => {
                sized("the matrix of a posterior", "rows", q.rows(), q.cols(), "it is square")?;
                (q.rows(), [q.data(), &[]])
            }
        };
        if numbers.into_iter().flatten().any(|v| !v.is_finite()) {
            return Err(Error::parameter("posterior", "NaN or infinite", "its numbers are finite"));
        }
        sized("the posterior", "rows", points, size, "one per support point")
    }

    /// Returns `(L, R)` with `cᵀ Q c = Lᵀ R`, up to the [sign](Self::sign), where c is n × m. R is `None` if
    /// it equals L.
    fn sqrt_factors(&self, c: &Matrix, constants: &[f64]) -> (Matrix, Option<Matrix>) {
        match self {
            Self::RefitDifferences { coef, intercept, .. } => {
                let mut left_factor = coef.transpose_matmul(c);
                left_factor.add_outer(intercept.iter().copied(), constants);
                (left_factor, None)
            }
            Self::CholeskyInverse { operator: None, factor } => {
                let mut left_factor = c.clone();
                factor.solve_lower_in_place(&mut left_factor);
                (left_factor, None)
            }
            Self::CholeskyInverse { operator: Some(operator), factor }
            | Self::Precision { operator, factor } => {
                let mut left_factor = operator.transpose_times(c);
                factor.solve_lower_in_place(&mut left_factor);
                (left_factor, None)
            }
            Self::LowRank(f) => (f.transpose_matmul(c), None),
            Self::ThroughOperator { operator, factor: half } => {
                (half.transpose_matmul(&operator.transpose_times(c)), None)
            }
            Self::Dense(q) => (c.clone(), Some(q.matmul(c))),
        }
    }

    /// Returns F (n × r) with `Q = F Fᵀ`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for refits, and for a matrix that is not known to be positive semi-definite.
    pub fn root(&self) -> Result<Matrix> {
        let lower_inverse = |factor: &Cholesky| {
            let mut inverse = Matrix::identity(factor.size());
            factor.solve_upper_in_place(&mut inverse);
            inverse
        };
        match self {
            Self::CholeskyInverse { operator: None, factor } => Ok(lower_inverse(factor)),
            Self::CholeskyInverse { operator: Some(a), factor } => Ok(a.matmul(&lower_inverse(factor))),
            Self::LowRank(f) => Ok(f.clone()),
            Self::ThroughOperator { operator, factor } => Ok(operator.matmul(factor)),
            Self::Dense(_) | Self::Precision { .. } | Self::RefitDifferences { .. } => {
                let allowed = "only the posterior of a process that is fitted to all rows can be penalised";
                Err(Error::parameter("posterior", "dense or of refits", allowed))
            }
        }
    }

    fn sign(&self) -> f64 {
        if matches!(self, Self::RefitDifferences { .. } | Self::Precision { .. }) { -1.0 } else { 1.0 }
    }

    /// Returns the diagonal of `cᵀ Q c`, where `constants` (m) are the functionals of the constant 1.
    fn quadratic_diagonal(&self, c: &Matrix, constants: &[f64]) -> Vec<f64> {
        let (left, right) = self.sqrt_factors(c, constants);
        let right = right.as_ref().unwrap_or(&left);
        let mut sums = vec![0.0; left.cols()];
        for i in 0..left.rows() {
            sums.iter_mut().zip(left.row(i)).zip(right.row(i)).for_each(|((s, l), r)| *s += l * r);
        }
        sums.iter_mut().for_each(|s| *s *= self.sign());
        sums
    }

    /// Returns `cᵀ Q c`, m × m, where `constants` (m) are the functionals of the constant 1.
    fn quadratic_form(&self, c: &Matrix, constants: &[f64]) -> Matrix {
        let (left, right) = self.sqrt_factors(c, constants);
        let mut out = left.transpose().matmul(right.as_ref().unwrap_or(&left));
        out.scale(self.sign());
        out
    }
}

impl PosteriorCovariance {
    /// Returns the posterior covariance if the kernel is the prior covariance. There is one Q for all outputs
    /// or one per output, and one scale per output.
    pub fn new(reduction: Vec<VarianceReduction>, scale: Vec<f64>) -> Self {
        Self { prior_scale: 1.0, mirror: None, reduction, scale }
    }

    /// Returns the covariance of refits, which have no prior covariance. There is one reduction and one scale
    /// per output.
    pub fn of_refits(reduction: Vec<VarianceReduction>, scale: Vec<f64>) -> Self {
        Self { prior_scale: 0.0, mirror: None, reduction, scale }
    }

    /// Returns the covariance of one output: `prior_scale` times the kernel, less a matrix between support
    /// points.
    pub fn dense(prior_scale: f64, reduction: Matrix) -> Self {
        Self { prior_scale, ..Self::new(vec![VarianceReduction::Dense(reduction)], vec![1.0]) }
    }

    /// Returns the covariance of weighted sums of outputs, where `weights` is outputs × sums. Refits
    /// determine the joint variation of outputs. Posteriors do not, and the result is then `None`.
    pub fn of_sums(&self, weights: &Matrix) -> Option<Self> {
        let sum = |s: usize| {
            let mut sum: Option<(Matrix, Vec<f64>, Refitted)> = None;
            for o in 0..weights.rows() {
                let VarianceReduction::RefitDifferences { coef, intercept, method } =
                    &self.reduction[self.reduction(o)]
                else {
                    return None;
                };
                let times = weights[(o, s)] * self.scale[o];
                let none = (Matrix::zeros(coef.rows(), coef.cols()), vec![0.0; intercept.len()], *method);
                let (coef_sum, shifts, _) = sum.get_or_insert(none);
                coef_sum.add_times(times, coef);
                add_multiple(shifts, times, intercept);
            }
            let (coef, intercept, method) = sum?;
            Some(VarianceReduction::RefitDifferences { coef, intercept, method })
        };
        let reduction: Vec<VarianceReduction> = (0..weights.cols()).map(sum).collect::<Option<_>>()?;
        let (prior_scale, mirror) = (self.prior_scale, self.mirror.clone());
        Some(Self { prior_scale, mirror, scale: vec![1.0; reduction.len()], reduction })
    }

    /// Whether the covariance describes how the model depends on its data, as for posteriors and refits to
    /// other rows. It is false for differences between fits with different numbers of landmarks.
    pub fn is_of_data(&self) -> bool {
        !matches!(
            self.reduction.first(),
            Some(VarianceReduction::RefitDifferences { method: Refitted::LandmarkDoubling, .. })
        )
    }

    /// Returns the index of the matrix Q of output `o`.
    fn reduction(&self, o: usize) -> usize {
        if self.reduction.len() == 1 { 0 } else { o }
    }
}

impl<'m> Posterior<'m> {
    /// Combines a mean with its covariance.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Parameter`] if the mean and the covariance are inconsistent.
    pub fn new(mean: &'m KernelExpansion, covariance: &'m PosteriorCovariance) -> Result<Self> {
        let outputs = mean.outputs();
        let PosteriorCovariance { prior_scale, reduction, scale, .. } = covariance;
        sized("the list of scales of a posterior", "rows", outputs, scale.len(), "one per output")?;
        if reduction.len() != 1 {
            let (subject, why) = ("the list of matrices of a posterior", "one per output, or one for all");
            sized(subject, "rows", outputs, reduction.len(), why)?;
        }
        for scale in scale.iter().chain([prior_scale]) {
            not_negative("scale of a posterior", *scale, "scales are finite and not negative")?;
        }
        reduction.iter().try_for_each(|reduction| reduction.validate(mean.support_points.rows()))?;
        if let Some(mirror) = &covariance.mirror {
            let d = mean.support_points.width();
            if mirror.len() != d || (0..d).any(|j| mirror.get(mirror[j]) != Some(&j)) {
                let allowed = "it exchanges pairs of columns and keeps the other columns";
                return Err(Error::parameter("mirror of a posterior", format!("{mirror:?}"), allowed));
            }
        }
        if *prior_scale != 0.0 && reduction.iter().any(|reduction| reduction.sign() < 0.0) {
            let allowed = "refits and posterior precisions have no prior covariance: set it to 0";
            return Err(Error::parameter("prior", prior_scale, allowed));
        }
        Ok(Self::new_unchecked(mean, covariance))
    }

    /// Combines a mean with its covariance without checks.
    pub fn new_unchecked(mean: &'m KernelExpansion, covariance: &'m PosteriorCovariance) -> Self {
        Self { mean, covariance, stop: RunControl::none().stop }
    }

    /// Returns this posterior with a flag for cancellation: computations fail with [`Error::Interrupted`]
    /// soon after another thread sets `stop`.
    pub fn with_cancel(self, stop: &'m AtomicBool) -> Self {
        Self { stop, ..self }
    }

    /// Returns the source of the uncertainty.
    pub fn source(&self) -> UncertaintySource {
        match self.covariance.reduction.first() {
            Some(VarianceReduction::RefitDifferences { coef, method, .. }) => match *method {
                Refitted::Drawn { seed } => UncertaintySource::Bootstrap { draws: coef.cols(), seed },
                Refitted::Jackknife => UncertaintySource::Jackknife { rows: coef.cols() },
                Refitted::LandmarkDoubling => UncertaintySource::Landmarks { doublings: coef.cols() },
            },
            _ => UncertaintySource::Posterior,
        }
    }

    /// Returns the exchange of columns of a skew-symmetric f.
    pub fn mirror(&self) -> Option<&'m [usize]> {
        self.covariance.mirror.as_deref()
    }

    /// Returns the factor s of the prior covariance.
    pub fn prior_scale(&self) -> f64 {
        self.covariance.prior_scale
    }

    /// Returns the matrices Q, each n × n. Cost n³/3 if Q is given as an inverse.
    ///
    /// # Errors
    /// [`Error::Parameter`] for refits, because their intercepts vary too.
    pub fn reduction_matrices(&self) -> Result<Vec<Matrix>> {
        let n = self.mean.support_points.rows();
        let identity = Matrix::identity(n);
        let matrix_of = |reduction: &VarianceReduction| match reduction {
            VarianceReduction::RefitDifferences { .. } => {
                let allowed = "the variance game needs the posterior of a Gaussian process, not refits";
                Err(Error::parameter("posterior", self.source(), allowed))
            }
            reduction => Ok(reduction.quadratic_form(&identity, &vec![0.0; n])),
        };
        self.covariance.reduction.iter().map(matrix_of).collect()
    }

    /// Returns the outputs that share the k-th matrix Q, with the factors of their standard deviations.
    pub fn scales(&self, k: usize) -> impl Iterator<Item = (usize, f64)> {
        let scales = self.covariance.scale.iter().copied().enumerate();
        scales.filter(move |(o, _)| self.covariance.reduction(*o) == k)
    }

    /// Returns the mean of f.
    pub fn mean(&self) -> &'m KernelExpansion {
        self.mean
    }

    /// Returns the posterior variances of f at the rows of `x`, rows × outputs (Rasmussen and Williams 2006,
    /// equations 2.26 and 3.24). They do not include the noise of a new observation. Cost O(n² + n d) per row
    /// for n support points of d columns, and n² for each further matrix Q.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Overflow`] if a variance is not finite.
    pub fn variance(&self, x: &Table) -> Result<Matrix> {
        self.marginal_variances(x, |scale, variance| scale * scale * variance)
    }

    /// Returns the posterior standard deviations, the square roots of [`variance`](Self::variance).
    ///
    /// # Errors
    /// As [`variance`](Self::variance).
    pub fn sd(&self, x: &Table) -> Result<Matrix> {
        self.marginal_variances(x, |scale, variance| scale * variance.sqrt())
    }

    fn marginal_variances(&self, x: &Table, to_output: impl Fn(f64, f64) -> f64) -> Result<Matrix> {
        let Self { mean: KernelExpansion { kernel, support_points: points, .. }, covariance, stop } = self;
        let x = x.align_to(points.columns())?;
        let mut out = Matrix::zeros(x.rows(), covariance.scale.len());
        let step = BLOCK.max(KERNEL_VALUES_AT_ONCE / points.rows().max(1));
        for start in (0..x.rows()).step_by(step) {
            check_cancelled(stop)?;
            let block = x.select_rows(&(start..x.rows().min(start + step)).collect::<Vec<_>>());
            let mut prior = kernel.diagonal(&block);
            if let Some(other) = self.mirrored(&block)? {
                for (r, prior_variance) in prior.iter_mut().enumerate() {
                    *prior_variance -= kernel.eval(&block.row(r), &other.row(r));
                }
            }
            let cross = kernel.cross_gram(points, &block);
            let constants = vec![1.0; block.rows()];
            let square = |reduction: &VarianceReduction| reduction.quadratic_diagonal(&cross, &constants);
            let squares: Vec<Vec<f64>> = covariance.reduction.iter().map(square).collect();
            for (r, prior) in prior.iter().enumerate() {
                for (o, (out, scale)) in out.row_mut(start + r).iter_mut().zip(&covariance.scale).enumerate()
                {
                    let unscaled_variance =
                        covariance.prior_scale * prior - squares[covariance.reduction(o)][r];
                    // Rounding may make a variance of 0 negative; NaN remains NaN.
                    *out = to_output(*scale, if unscaled_variance < 0.0 { 0.0 } else { unscaled_variance });
                }
            }
        }
        check_overflow(&out, "variance")?;
        Ok(out)
    }

    /// Returns the functionals that evaluate f at the rows of `x`. Cost O((n + rows) rows d).
    ///
    /// # Errors
    /// As [`Table::align_to`].
    pub fn functionals_at(&self, x: &Table) -> Result<Functionals> {
        let x = x.align_to(self.mean.columns())?;
        let kernel = &self.mean.kernel;
        let columns = kernel.cross_gram(&self.mean.support_points, &x);
        check_cancelled(self.stop)?;
        let mut prior = kernel.gram(&x);
        if let Some(other) = self.mirrored(&x)? {
            prior.add_times(-1.0, &kernel.cross_gram(&x, &other));
        }
        Ok(Functionals { columns, prior_covariance: prior, constants: vec![1.0; x.rows()] })
    }

    /// Returns the rows with their columns exchanged, for a skew-symmetric f.
    fn mirrored(&self, x: &Table) -> Result<Option<Table>> {
        self.covariance.mirror.as_ref().map(|mirror| x.permute_columns(mirror)).transpose()
    }

    /// Returns the functionals of weighted sums of values of f: column j of `weights` (rows of `x` × m)
    /// defines `Σ_r weights[r, j] f(x_r)`. Cost O((n + rows) rows d), memory O((n + rows) m) and m².
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Shape`] unless `weights` has one row per row of `x`.
    pub fn weighted_sum_functionals(&self, x: &Table, weights: &Sparse) -> Result<Functionals> {
        let x = x.align_to(self.mean.columns())?;
        sized("the matrix of weights", "rows", x.rows(), weights.rows(), "one per row of the table")?;
        let kernel = &self.mean.kernel;
        let mut prior = prior_covariance_of_sums(kernel, &x, weights);
        if let Some(other) = self.mirrored(&x)? {
            let cross = cross_covariance_of_sums(kernel, &x, &other, weights);
            prior.add_times(-1.0, &weights.transpose_times(&cross));
        }
        Ok(Functionals {
            columns: cross_covariance_of_sums(kernel, &self.mean.support_points, &x, weights),
            prior_covariance: prior,
            constants: weights.column_sums(),
        })
    }

    /// Returns the posterior means of functionals, m × outputs.
    ///
    /// # Panics
    /// If they are not over the points of this model.
    pub fn mean_of(&self, functionals: &Functionals) -> Matrix {
        let mut out = functionals.columns.transpose().matmul(&self.mean.coef);
        out.add_outer(functionals.constants.iter().copied(), &self.mean.intercept);
        out
    }

    /// Returns the joint covariance of functionals, m × m for each output. Cost O(n² m + n m²) for each
    /// matrix Q.
    ///
    /// # Panics
    /// If they are not over the points of this model.
    pub fn covariance(&self, functionals: &Functionals) -> Vec<Matrix> {
        let unscaled = self.unscaled(functionals);
        let scaled = |(o, scale): (usize, &f64)| {
            let mut covariance = unscaled[self.covariance.reduction(o)].clone();
            covariance.scale(scale * scale);
            covariance
        };
        self.covariance.scale.iter().enumerate().map(scaled).collect()
    }

    /// Returns the covariances for scale 1, one for each matrix Q.
    fn unscaled(&self, functionals: &Functionals) -> Vec<Matrix> {
        let unscaled_covariance = |reduction: &VarianceReduction| {
            let mut out = reduction.quadratic_form(&functionals.columns, &functionals.constants);
            out.data_mut()
                .iter_mut()
                .zip(functionals.prior_covariance.data())
                .for_each(|(e, p)| *e = self.covariance.prior_scale * p - *e);
            out
        };
        self.covariance.reduction.iter().map(unscaled_covariance).collect()
    }

    /// Draws functionals jointly: the means plus `L z`, where L (m × m) is the Cholesky factor of the
    /// covariance and z (m) is standard normal and depends only on the seed. Cost of
    /// [`covariance`](Self::covariance), plus m³/3, plus m² for each draw.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] if the factorisation would need more jitter than 1e-7 of the mean prior
    /// variance; [`Error::Parameter`] if the draws do not fit into memory.
    ///
    /// # Panics
    /// If they are not over the points of this model.
    pub fn sample(&self, functionals: &Functionals, draws: usize, seed: u64) -> Result<Samples> {
        let means = self.mean_of(functionals);
        let m = means.rows();
        // The normal numbers, their products with a factor, and the values of all outputs.
        crate::memory::check_allocation(
            "number of draws",
            draws,
            m.saturating_mul(2 + self.covariance.scale.len()),
        )?;
        // Rounding errors of a covariance are proportional to the prior variance, even if the posterior
        // variance is small.
        let prior = self.covariance.prior_scale * functionals.prior_covariance.trace();
        check_cancelled(self.stop)?;
        let factor = |matrix: Matrix| {
            let scale = (prior.max(matrix.trace()) / m.max(1) as f64).max(1e-200);
            Cholesky::with_jitter_scale(matrix, scale, "covariance of the posterior")
        };
        let factors: Vec<Cholesky> =
            self.unscaled(functionals).into_iter().map(factor).collect::<Result<_>>()?;
        let mut random = Random::seed_from_u64(seed);
        let (mut values, mut jitter) = (Vec::new(), Vec::new());
        for (o, scale) in self.covariance.scale.iter().enumerate() {
            let factor = &factors[self.covariance.reduction(o)];
            let normal = (0..m * draws).map(|_| random.sample(StandardNormal)).collect();
            let mut draws_of_output = factor.lower_times(&Matrix::from_row_major(m, draws, normal));
            for j in 0..m {
                draws_of_output.row_mut(j).iter_mut().for_each(|v| *v = means[(j, o)] + scale * *v);
            }
            values.push(draws_of_output);
            jitter.push(scale * scale * factor.jitter);
        }
        Ok(Samples { values, jitter })
    }
}

/// Returns `K(a, b) W`, rows of `a` × columns of W, where `weights` is W.
pub fn cross_covariance_of_sums(kernel: &Kernel, a: &Table, b: &Table, weights: &Sparse) -> Matrix {
    let m = weights.cols();
    let mut out = Matrix::zeros(a.rows(), m);
    // The entries of W are sorted by rows of b; rows without entries are skipped.
    let mut entries: Vec<(usize, usize, f64)> =
        (0..m).flat_map(|j| weights.column(j).map(move |(r, w)| (r, j, w))).collect();
    entries.sort_by_key(|(r, ..)| *r);
    for block in entries.chunk_by(|entry, next| entry.0 / BLOCK == next.0 / BLOCK) {
        let mut rows: Vec<usize> = block.iter().map(|(r, ..)| *r).collect();
        rows.dedup();
        let cross = kernel.cross_gram(a, &b.select_rows(&rows));
        out.data_mut().par_chunks_mut(m).enumerate().for_each(|(i, sums)| {
            let (kernel_row, mut position) = (cross.row(i), 0);
            for (r, j, w) in block {
                position += usize::from(rows[position] != *r);
                sums[*j] += w * kernel_row[position];
            }
        });
    }
    out
}

/// Returns `Wᵀ K(x, x) W`, the prior covariance of weighted sums, where `weights` is W.
pub fn prior_covariance_of_sums(kernel: &Kernel, x: &Table, weights: &Sparse) -> Matrix {
    let mut out = weights.transpose_times(&cross_covariance_of_sums(kernel, x, x, weights));
    out.mirror_upper();
    out
}

/// Source of an uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UncertaintySource {
    /// The posterior of a Gaussian process, or its normal approximation.
    Posterior,
    /// Refits on resampled rows: the variation of values between samples of the training rows.
    Bootstrap {
        /// Number of refits.
        draws: usize,
        /// Seed of the resampling.
        seed: u64,
    },
    /// Refits that leave out one row each: also the variation between samples of the training rows.
    Jackknife {
        /// Number of rows.
        rows: usize,
    },
    /// Fits with fewer landmarks: an estimate of the distance to the values of a model with all rows as
    /// support points.
    Landmarks {
        /// Number of doublings of the landmarks that the estimate uses.
        doublings: usize,
    },
    /// The estimation of conditional distributions from reference rows, in the observational game.
    Conditioning {
        /// Number of reference rows.
        rows: usize,
    },
}

impl std::fmt::Display for UncertaintySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Posterior => write!(f, "posterior of a Gaussian process"),
            Self::Bootstrap { draws, seed } => write!(f, "bootstrap of {draws} refits (seed {seed})"),
            Self::Jackknife { rows } => write!(f, "jackknife of {rows} rows"),
            Self::Landmarks { doublings } => {
                write!(f, "approximation by landmarks, estimated from their last {doublings} doublings")
            }
            Self::Conditioning { rows } => {
                write!(f, "conditional distributions, estimated from {rows} reference rows")
            }
        }
    }
}

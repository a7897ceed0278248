//! Posterior covariance of a model: a quadratic form over its support points.
//!
//! Given the data, f is a Gaussian process whose mean is an [`KernelExpansion`] and whose covariance is
//!
//! ```text
//! cov(f(x), f(x')) = s k(x, x') - k(x, X) Q k(X, x')
//! ```
//!
//! with the points X and the kernel k of the expansion, one number s and one symmetric matrix Q. Every method
//! that knows how sure it is has this form: Gaussian process regression with `s = 1`, `Q = (K + σ²I)⁻¹`;
//! Laplace's approximation of a classifier with `Q = W^½ B⁻¹ W^½`; observed sums `Aᵀf` with `Q = A V⁻¹ Aᵀ`.
//! So variances, joint covariances and samples are computed here, once.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::control::{RunControl, check_cancelled};
use crate::error::{Error, Result, sized};
use crate::explanation::UncertaintySource;
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix, Sparse};
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::table::Table;

/// The matrix Q of a posterior, over the n points of its expansion: what is known, as against the prior.
#[derive(Debug, Clone)]
pub enum VarianceReduction {
    /// `A V⁻¹ Aᵀ`.
    CholeskyInverse {
        /// A (n × m): the m observations were `Aᵀf` plus noise. `None` for the identity, one observation a
        /// point.
        operator: Option<Sparse>,
        /// V (m × m), the covariance of the observations.
        factor: Cholesky,
    },
    /// `F Fᵀ`, where F (n × r) has few columns.
    LowRank(Matrix),
    /// `P F Fᵀ Pᵀ`: what aggregates say, through the bags that rows make.
    ThroughOperator {
        /// P (n × bags).
        operator: Sparse,
        /// F (bags × r).
        factor: Matrix,
    },
    /// Any symmetric matrix, n × n.
    Dense(Matrix),
    /// `-F Fᵀ`, with a prior of 0: no posterior, but how far refits of the model differ, which is by
    /// `k(x, X) F + g`.
    RefitDifferences {
        /// F (n × refits): differences of coefficients, scaled so that the sum of their squares is a
        /// variance.
        coef: Matrix,
        /// g: intercepts, likewise.
        intercept: Vec<f64>,
        /// The kind of refits.
        method: Refitted,
    },
}

/// The kind of refits of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refitted {
    /// Rows, drawn anew by a seed: differences are from their mean.
    Drawn {
        /// The seed.
        seed: u64,
    },
    /// All rows but one, one after the other: likewise, scaled for the jackknife.
    Jackknife,
    /// Landmarks, half as many with each: differences are between one and the next, scaled to what all rows
    /// as support points would change.
    LandmarkDoubling,
}

/// A posterior without its mean. Outputs are independent of one another.
#[derive(Debug, Clone)]
pub struct PosteriorCovariance {
    /// The number s ≥ 0: 1 where the kernel is the prior covariance.
    pub prior_scale: f64,
    /// For an f that changes its sign where columns change places: where each column goes. The prior
    /// covariance is then the skew half of the kernel, `s (k(x, x') - k(x, mirrored x'))`, of a kernel to
    /// which the exchange in both of its arguments makes no difference.
    pub skew_swap: Option<Vec<usize>>,
    /// The matrix Q: one for all outputs, or one each.
    pub reduction: Vec<VarianceReduction>,
    /// One an output: standard deviations are multiplied by it. 1 unless the outputs were learnt in units of
    /// their own.
    pub scale: Vec<f64>,
}

/// A model that knows how sure it is.
///
/// ```
/// use riesz::fit::GaussianProcess;
/// use riesz::{Kernel, Matrix, Table};
///
/// let rows: Vec<[f64; 1]> = (0..30).map(|i| [f64::from(i) / 5.0]).collect();
/// let y = Matrix::column_vector(rows.iter().map(|r| r[0].sin()).collect());
/// let fit = GaussianProcess::new(Kernel::gaussian(&[1.0]), 0.1).fit(&Table::from_rows(&rows)?, &y)?;
/// let posterior = fit.posterior();
/// // Two rows far from the data: little is known of either, and less of their sum than of their difference.
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

/// Linear functionals ℓ_1 … ℓ_m of f, by all that a posterior needs to know of them. Those that are sums of
/// values of f come from
/// [`Posterior::functionals_at`] and [`Posterior::weighted_sum_functionals`].
#[derive(Debug, Clone)]
pub struct Functionals {
    /// `ℓ_j k(x_i, ·)`, points × m.
    pub columns: Matrix,
    /// `ℓ_j ℓ_j' k`, m × m: their prior covariance.
    pub prior_scale: Matrix,
    /// `ℓ_j 1`: what they make of an intercept.
    pub constants: Vec<f64>,
}

/// Draws from a posterior.
#[derive(Debug, Clone)]
pub struct Samples {
    /// One an output, functionals × draws.
    pub values: Vec<Matrix>,
    /// One an output: the variance that was added to every functional so that the covariance could be
    /// factored; 0 if none was.
    pub jitter: Vec<f64>,
}

/// Rows at a time, which bounds memory.
const BLOCK: usize = 128;

/// The number of kernel values between rows and points that are computed at a time, if there are more rows
/// than one block: matrix products have a start-up cost.
const KERNEL_VALUES_AT_ONCE: usize = 1 << 20;

impl VarianceReduction {
    /// Checks that it fits an expansion over so many points.
    fn validate(&self, points: usize) -> Result<()> {
        let size = match self {
            Self::CholeskyInverse { operator: None, factor } => factor.size(),
            Self::CholeskyInverse { operator: Some(a), factor } => {
                sized("the factor of a posterior", "rows", a.cols(), factor.size(), "one an observation")?;
                a.rows()
            }
            Self::LowRank(f) => f.rows(),
            Self::ThroughOperator { operator, factor: half } => {
                sized(
                    "the low-rank factor of a posterior",
                    "rows",
                    operator.cols(),
                    half.rows(),
                    "one a bag",
                )?;
                operator.rows()
            }
            Self::RefitDifferences { coef, intercept, .. } => {
                sized(
                    "the list of intercepts of refits",
                    "rows",
                    coef.cols(),
                    intercept.len(),
                    "one a refit",
                )?;
                if intercept.iter().any(|v| !v.is_finite()) {
                    return Err(Error::parameter("posterior", "NaN or infinite", "its numbers are finite"));
                }
                coef.rows()
            }
            Self::Dense(q) => {
                sized("the matrix of a posterior", "rows", q.rows(), q.cols(), "it is square")?;
                q.rows()
            }
        };
        if let Self::LowRank(numbers)
        | Self::Dense(numbers)
        | Self::RefitDifferences { coef: numbers, .. }
        | Self::ThroughOperator { factor: numbers, .. } = self
            && numbers.data().iter().any(|v| !v.is_finite())
        {
            return Err(Error::parameter("posterior", "NaN or infinite", "its numbers are finite"));
        }
        sized("the posterior", "rows", points, size, "one a support point")
    }

    /// `(L, R)` with `cᵀ Q c = Lᵀ R`, except for the [sign](Self::sign); R is L if `None`.
    fn sqrt_factors(&self, c: &Matrix, constants: &[f64]) -> (Matrix, Option<Matrix>) {
        match self {
            Self::RefitDifferences { coef, intercept, .. } => {
                let mut left_factor = coef.transpose_matmul(c);
                for (b, shift) in intercept.iter().enumerate() {
                    left_factor
                        .row_mut(b)
                        .iter_mut()
                        .zip(constants)
                        .for_each(|(v, constant)| *v += shift * constant);
                }
                (left_factor, None)
            }
            Self::CholeskyInverse { operator, factor } => {
                let mut left_factor = operator.as_ref().map_or_else(|| c.clone(), |a| a.transpose_times(c));
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

    fn sign(&self) -> f64 {
        if matches!(self, Self::RefitDifferences { .. }) { -1.0 } else { 1.0 }
    }

    /// The diagonal of `cᵀ Q c`, for functionals that make so much of a constant.
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

    /// `cᵀ Q c`, likewise.
    fn quadratic_form(&self, c: &Matrix, constants: &[f64]) -> Matrix {
        let (left, right) = self.sqrt_factors(c, constants);
        let mut out = left.transpose().matmul(right.as_ref().unwrap_or(&left));
        out.data_mut().iter_mut().for_each(|v| *v *= self.sign());
        out
    }
}

impl PosteriorCovariance {
    /// The covariance of sums of outputs, with `weights` outputs × sums. Refits determine the joint variation
    /// of outputs; `None` for posteriors, which do not.
    pub fn of_sums(&self, weights: &Matrix) -> Option<Self> {
        let sum = |s: usize| {
            let mut sum: Option<(Matrix, Vec<f64>, Refitted)> = None;
            for o in 0..weights.rows() {
                let VarianceReduction::RefitDifferences { coef, intercept, method: of } =
                    &self.reduction[self.reduction(o)]
                else {
                    return None;
                };
                let times = weights[(o, s)] * self.scale[o];
                let none = (Matrix::zeros(coef.rows(), coef.cols()), vec![0.0; intercept.len()], *of);
                let (coef_sum, shifts, _) = sum.get_or_insert(none);
                coef_sum
                    .data_mut()
                    .iter_mut()
                    .zip(coef.data())
                    .for_each(|(coef_total, increment)| *coef_total += times * increment);
                shifts
                    .iter_mut()
                    .zip(intercept)
                    .for_each(|(shift_total, shift)| *shift_total += times * shift);
            }
            sum.map(|(coef, intercept, kind)| VarianceReduction::RefitDifferences {
                coef,
                intercept,
                method: kind,
            })
        };
        let known = (0..weights.cols()).map(sum).collect::<Option<Vec<VarianceReduction>>>()?;
        Some(Self {
            prior_scale: self.prior_scale,
            skew_swap: self.skew_swap.clone(),
            scale: vec![1.0; known.len()],
            reduction: known,
        })
    }

    /// Whether it says how the model depends on its data, as posteriors and refits to other rows do, and not
    /// how far a fit through landmarks is from the one with all rows as support points.
    pub fn is_of_data(&self) -> bool {
        !matches!(
            self.reduction.first(),
            Some(VarianceReduction::RefitDifferences { method: Refitted::LandmarkDoubling, .. })
        )
    }

    /// Which Q is that of output `o`.
    fn reduction(&self, o: usize) -> usize {
        if self.reduction.len() == 1 { 0 } else { o }
    }
}

impl<'m> Posterior<'m> {
    /// Joins a mean and its covariance.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Parameter`] if they do not fit together.
    pub fn new(mean: &'m KernelExpansion, covariance: &'m PosteriorCovariance) -> Result<Self> {
        let outputs = mean.outputs();
        sized("the list of scales of a posterior", "rows", outputs, covariance.scale.len(), "one an output")?;
        if covariance.reduction.len() != 1 {
            sized(
                "the list of matrices of a posterior",
                "rows",
                outputs,
                covariance.reduction.len(),
                "one an output, or one",
            )?;
        }
        if let Some(bad) =
            covariance.scale.iter().chain([&covariance.prior_scale]).find(|s| !(s.is_finite() && **s >= 0.0))
        {
            return Err(Error::parameter("scale of a posterior", bad, "scales are finite and not negative"));
        }
        covariance.reduction.iter().try_for_each(|known| known.validate(mean.support_points.rows()))?;
        if let Some(mirror) = &covariance.skew_swap {
            let d = mean.support_points.width();
            if mirror.len() != d || (0..d).any(|j| mirror.get(mirror[j]) != Some(&j)) {
                let allowed = "pairs of columns that change places, and columns that stay";
                return Err(Error::parameter("mirror of a posterior", format!("{mirror:?}"), allowed));
            }
        }
        if covariance.prior_scale != 0.0 && covariance.reduction.iter().any(|known| known.sign() < 0.0) {
            return Err(Error::parameter(
                "prior",
                covariance.prior_scale,
                "refits know of no prior: it is 0",
            ));
        }
        Ok(Self { mean, covariance, stop: RunControl::none().stop })
    }

    /// From a mean and a covariance that belong together, without a check.
    pub(crate) fn new_unchecked(mean: &'m KernelExpansion, covariance: &'m PosteriorCovariance) -> Self {
        Self { mean, covariance, stop: RunControl::none().stop }
    }

    /// This posterior, whose work fails with [`Error::Interrupted`] soon after another thread sets `stop`.
    pub fn with_cancel(self, stop: &'m AtomicBool) -> Self {
        Self { stop, ..self }
    }

    /// Where it comes from.
    pub fn source(&self) -> UncertaintySource {
        match self.covariance.reduction.first() {
            Some(VarianceReduction::RefitDifferences { coef, method: of, .. }) => match *of {
                Refitted::Drawn { seed } => UncertaintySource::Bootstrap { draws: coef.cols(), seed },
                Refitted::Jackknife => UncertaintySource::Jackknife { rows: coef.cols() },
                Refitted::LandmarkDoubling => UncertaintySource::Landmarks { doublings: coef.cols() },
            },
            _ => UncertaintySource::Posterior,
        }
    }

    /// Which columns change places for a skew f.
    pub(crate) fn skew_swap(&self) -> Option<&'m [usize]> {
        self.covariance.skew_swap.as_deref()
    }

    /// The share s of the prior covariance; nothing of it counts where it is 0.
    pub(crate) fn prior_scale(&self) -> f64 {
        self.covariance.prior_scale
    }

    /// The matrices Q, each n × n. Cost n³/3 where Q is an inverse.
    ///
    /// # Errors
    /// [`Error::Parameter`] for refits, which vary by their intercepts too.
    pub(crate) fn reduction_matrices(&self) -> Result<Vec<Matrix>> {
        let n = self.mean.support_points.rows();
        let mut identity = Matrix::zeros(n, n);
        identity.add_diagonal(|_| 1.0);
        let matrix_of = |known: &VarianceReduction| match known {
            VarianceReduction::RefitDifferences { .. } => {
                let allowed = "the variance game is that of a Gaussian process, which refits are not";
                Err(Error::parameter("posterior", self.source(), allowed))
            }
            known => Ok(known.quadratic_form(&identity, &vec![0.0; n])),
        };
        self.covariance.reduction.iter().map(matrix_of).collect()
    }

    /// The outputs with the k-th matrix Q, and the factors of their standard deviations.
    pub(crate) fn scales(&self, k: usize) -> impl Iterator<Item = (usize, f64)> {
        let scales = self.covariance.scale.iter().copied().enumerate();
        scales.filter(move |(o, _)| self.covariance.reduction(*o) == k)
    }

    /// The mean of f.
    pub fn mean(&self) -> &'m KernelExpansion {
        self.mean
    }

    /// Variances of f at the rows of `x`, rows × outputs (Rasmussen and Williams 2006, equations 2.26 and
    /// 3.24); the noise of a new observation is not included. Cost O(n² + n d) a row, and n² for every
    /// further matrix Q.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Overflow`] if a variance is not finite.
    pub fn variance(&self, x: &Table) -> Result<Matrix> {
        self.marginal_variances(x, |scale, variance| scale * scale * variance)
    }

    /// Standard deviations, the roots of [`variance`](Self::variance).
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
            let squares: Vec<Vec<f64>> = {
                let constants = vec![1.0; block.rows()];
                covariance
                    .reduction
                    .iter()
                    .map(|known| known.quadratic_diagonal(&cross, &constants))
                    .collect()
            };
            for (r, prior) in prior.iter().enumerate() {
                for (o, (out, scale)) in out.row_mut(start + r).iter_mut().zip(&covariance.scale).enumerate()
                {
                    let unscaled_variance =
                        covariance.prior_scale * prior - squares[covariance.reduction(o)][r];
                    // Rounding may leave a variance of 0 below it; NaN stays what it is.
                    *out = to_output(*scale, if unscaled_variance < 0.0 { 0.0 } else { unscaled_variance });
                }
            }
        }
        match out.data().iter().position(|v| !v.is_finite()) {
            None => Ok(out),
            Some(position) => Err(Error::Overflow {
                subject: format!("the variance of row {}", position / out.cols() + 1),
                remedy: "its values are too far from the data the model was fitted on",
            }),
        }
    }

    /// The values of f at the rows of `x`. Cost O((n + rows) rows d).
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
            subtract(&mut prior, &kernel.cross_gram(&x, &other));
        }
        Ok(Functionals { columns, prior_scale: prior, constants: vec![1.0; x.rows()] })
    }

    /// The rows with their columns exchanged, for a skew f.
    fn mirrored(&self, x: &Table) -> Result<Option<Table>> {
        self.covariance.skew_swap.as_ref().map(|mirror| x.permute_columns(mirror)).transpose()
    }

    /// Weighted sums of values of f: column j of `weights` (rows of `x` × m) makes
    /// `Σ_r weights[r, j] f(x_r)`. Cost O((n + rows) rows d), memory O((n + rows) m) and m².
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Shape`] unless there is a row of weights a row of `x`.
    pub fn weighted_sum_functionals(&self, x: &Table, weights: &Sparse) -> Result<Functionals> {
        let x = x.align_to(self.mean.columns())?;
        sized("the matrix of weights", "rows", x.rows(), weights.rows(), "one a row of the table")?;
        let kernel = &self.mean.kernel;
        let mut prior = prior_covariance_of_sums(kernel, &x, weights);
        if let Some(other) = self.mirrored(&x)? {
            subtract(
                &mut prior,
                &weights.transpose_times(&cross_covariance_of_sums(kernel, &x, &other, weights)),
            );
        }
        Ok(Functionals {
            columns: cross_covariance_of_sums(kernel, &self.mean.support_points, &x, weights),
            prior_scale: prior,
            constants: (0..weights.cols()).map(|j| weights.column(j).map(|(_, w)| w).sum()).collect(),
        })
    }

    /// The means of functionals, m × outputs.
    ///
    /// # Panics
    /// If they are not over the points of this model.
    pub fn mean_of(&self, functionals: &Functionals) -> Matrix {
        let mut out = functionals.columns.transpose().matmul(&self.mean.coef);
        for (j, constant) in functionals.constants.iter().enumerate() {
            out.row_mut(j).iter_mut().zip(&self.mean.intercept).for_each(|(v, b)| *v += constant * b);
        }
        out
    }

    /// The joint covariance of functionals, m × m, for each output. Cost O(n² m + n m²) for every matrix Q.
    ///
    /// # Panics
    /// If they are not over the points of this model.
    pub fn covariance(&self, functionals: &Functionals) -> Vec<Matrix> {
        let unscaled = self.unscaled(functionals);
        let scaled = |(o, scale): (usize, &f64)| {
            let mut covariance = unscaled[self.covariance.reduction(o)].clone();
            covariance.data_mut().iter_mut().for_each(|c| *c *= scale * scale);
            covariance
        };
        self.covariance.scale.iter().enumerate().map(scaled).collect()
    }

    /// The covariances for scale 1, one for each matrix Q.
    fn unscaled(&self, functionals: &Functionals) -> Vec<Matrix> {
        let unscaled_covariance = |known: &VarianceReduction| {
            let mut out = known.quadratic_form(&functionals.columns, &functionals.constants);
            out.data_mut()
                .iter_mut()
                .zip(functionals.prior_scale.data())
                .for_each(|(e, p)| *e = self.covariance.prior_scale * p - *e);
            out
        };
        self.covariance.reduction.iter().map(unscaled_covariance).collect()
    }

    /// Joint draws of functionals: their means plus `L z` with L the Cholesky factor of their covariance and
    /// z standard normal numbers, which depend only on the seed. Cost of [`covariance`](Self::covariance),
    /// m³/3, and m² for each draw.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] if more jitter than 1e-7 of the prior's mean variance would be needed;
    /// [`Error::Parameter`] for more draws than memory holds.
    ///
    /// # Panics
    /// If they are not over the points of this model.
    pub fn sample(&self, functionals: &Functionals, draws: usize, seed: u64) -> Result<Samples> {
        let means = self.mean_of(functionals);
        let m = means.rows();
        // Normal numbers, their products with a factor, and the values of all outputs.
        crate::memory::check_allocation(
            "number of draws",
            draws,
            m.saturating_mul(2 + self.covariance.scale.len()),
        )?;
        // Rounding errors of a covariance are of the size of the prior, however little of it is left.
        let prior: f64 = (0..m).map(|j| functionals.prior_scale[(j, j)]).sum();
        let prior = self.covariance.prior_scale * prior;
        check_cancelled(self.stop)?;
        let factor = |matrix: Matrix| {
            let trace: f64 = (0..m).map(|j| matrix[(j, j)]).sum();
            let scale = (prior.max(trace) / m.max(1) as f64).max(1e-200);
            Cholesky::with_jitter_scale(matrix, scale, "covariance of the posterior")
        };
        let factors =
            self.unscaled(functionals).into_iter().map(factor).collect::<Result<Vec<Cholesky>>>()?;
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

fn subtract(from: &mut Matrix, other: &Matrix) {
    from.data_mut().iter_mut().zip(other.data()).for_each(|(minuend, other)| *minuend -= other);
}

/// `K(a, b) W`, rows of `a` × columns of W.
pub(crate) fn cross_covariance_of_sums(kernel: &Kernel, a: &Table, b: &Table, weights: &Sparse) -> Matrix {
    let m = weights.cols();
    let mut out = Matrix::zeros(a.rows(), m);
    // By rows of b, of which only those that count are looked at.
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

/// `Wᵀ K(x, x) W`, the prior covariance of sums.
pub(crate) fn prior_covariance_of_sums(kernel: &Kernel, x: &Table, weights: &Sparse) -> Matrix {
    let mut out = weights.transpose_times(&cross_covariance_of_sums(kernel, x, x, weights));
    out.mirror_upper();
    out
}

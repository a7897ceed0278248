//! The conditional mean embedding as a Gaussian process (BayesCME): expectations `E[f(Y) | X = x]` of any f,
//! with their uncertainty, and hyper-parameters that a marginal likelihood chooses.
//!
//! Let K (n × n) be the gram matrix of the training rows of X with the kernel k, `k_x` (n) its values at x,
//! and λ = nη the ridge. The prior of the embedding is a Gaussian process of x whose values are functions of
//! y, with covariance `s² k(x, x') C`. Each training row observes the whole function `ℓ(y_i, ·)` of the
//! kernel ℓ of Y, with noise of covariance `s² λ C`. The posterior mean is the ridge regression
//! `Σ_i w_i(x) ℓ(y_i, ·)`, so for the values `f_i = f(y_i)`:
//!
//! ```text
//! w(x) = (K + λ)⁻¹ k_x,       R(x, x') = s² (k(x, x') - k_xᵀ(K + λ)⁻¹k_x')
//! E[f | x] = Σ_i w_i(x) f_i,  cov = R(x, x') V,    V = Σ_i f_i² / n
//! ```
//!
//! C is the mean of `ℓ(u, ·) ⊗ ℓ(u, ·)` over the training rows u of Y, so that V is the mean of f². This is
//! proposition 4.3.2 of Chau 2023 with the training rows as the measure of its nuclear dominant kernel, where
//! `r_yY R_YY⁻¹ r_Yy` equals `r_yy`, and no inverse of R is left. By default embeddings are centred: the
//! mean embedding of all rows is subtracted from the observations and added to the result, so that
//! `w + (1 - Σw)/n` are the weights and V is the variance of f. A random f with posterior covariance K̄
//! (n × n) at the training rows adds `w(x)ᵀK̄ w(x')` to the covariance, and its mean variance to V.
//!
//! The source's marginal likelihood (4.13) gives every direction of the functions of y the same weight. With
//! this C its data term is `n tr (K + λ)⁻¹` for any Y, so it cannot choose hyper-parameters. Here each
//! direction counts by its size in Y: with the gram matrix T (n × n) of Y, centred if the embedding is,
//!
//! ```text
//! log p = -½ log|K + λ| - n/2 log(tr((K + λ)⁻¹T) / n) - n/2 (1 + log 2π),    s² = tr((K + λ)⁻¹T) / tr T
//! ```
//!
//! For a linear kernel of one column of Y this is the marginal likelihood of a Gaussian process for Y with
//! the best variance. The profile likelihood and s² are ours; the source has s² = 1.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::checks::{check_overflow, check_range, not_negative, positive};
use crate::control::{Progress, RunControl};
use crate::discrepancy::default_kernel;
use crate::error::{Error, Result, sized};
use crate::gp::hyperparameters::{HyperParameter, log_values};
use crate::gp::search::{best_search, maximise_posterior};
use crate::kernel::{ColumnScaling, Kernel, Parameter};
use crate::linalg::{Cholesky, Matrix, add_multiple, dot, mean};
use crate::table::Table;

/// The ridge λ at which tuning starts.
const START_RIDGE: f64 = 0.3;

/// Maximum number of rows from which hyper-parameters are chosen; evenly spaced ones if there are more.
const MAX_TUNING_ROWS: usize = 1000;

/// The smallest ratio of tr T to the sum of the diagonal of the gram matrix of Y for which Y varies.
const MIN_SPREAD: f64 = 1e-12;

/// The ridge of a conditional mean process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum RidgeChoice {
    /// A given η > 0, which is multiplied by the number of rows.
    Fixed(f64),
    /// The ridge with the largest marginal likelihood times its prior.
    #[default]
    Evidence,
    /// The ridge that best predicts left-out rows, as in
    /// [`Ridge::CrossValidated`](crate::Ridge::CrossValidated); the kernel of X stays fixed.
    LeaveOneOut,
}

/// Prior and settings of a conditional mean embedding.
///
/// ```
/// use riesz::conditional_mean::BayesianConditionalMean;
/// use riesz::{Matrix, Table};
///
/// // E[y² | x] where y = x + noise.
/// let x: Vec<[f64; 1]> = (0..100).map(|i| [f64::from(i) / 25.0 - 2.0]).collect();
/// let y: Vec<[f64; 1]> = (0..100).map(|i| [x[i][0] + 0.3 * (i as f64 * 7.3).sin()]).collect();
/// let fit = BayesianConditionalMean::default().fit(&Table::from_rows(&x)?, &Table::from_rows(&y)?)?;
/// let squares = Matrix::column_vector(y.iter().map(|y| y[0] * y[0]).collect());
/// let at = Table::from_rows(&[[1.0]])?;
/// let expectation = fit.expectation(&squares, None, &at)?;
/// let error = expectation.means[(0, 0)] - (1.0 + 0.045);
/// assert!(error.abs() < 3.0 * expectation.standard_deviations()[(0, 0)]);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BayesianConditionalMean {
    /// The kernel k of X, at which tuning starts. `None` for a product of Gaussians with the columns'
    /// standard deviations as length scales, and factors for categories.
    pub kernel_x: Option<Kernel>,
    /// The kernel ℓ of Y; `None` for [`default_kernel`].
    pub kernel_y: Option<Kernel>,
    /// The ridge.
    pub ridge: RidgeChoice,
    /// Whether the parameters of `kernel_x` are tuned (default), except for its first scale, because s² has
    /// the same effect.
    pub tune_kernel: bool,
    /// The factor s² > 0 of the prior covariance; `None` for the one with the largest marginal likelihood.
    pub scale: Option<f64>,
    /// Whether the embedding is centred (default); in the source it is not.
    pub centered: bool,
    /// Another thread sets this flag to stop the fit.
    pub stop: Arc<AtomicBool>,
    /// The number of evaluations so far, which another thread may read.
    pub progress: Arc<Progress>,
}

impl Default for BayesianConditionalMean {
    fn default() -> Self {
        Self {
            kernel_x: None,
            kernel_y: None,
            ridge: RidgeChoice::default(),
            tune_kernel: true,
            scale: None,
            centered: true,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }
}

/// A fitted conditional mean embedding.
#[derive(Debug, Clone)]
pub struct ConditionalMeanFit {
    /// The kernel k of X.
    pub kernel_x: Kernel,
    /// The kernel ℓ of Y.
    pub kernel_y: Kernel,
    /// The ridge η; λ is η times the number of rows.
    pub ridge: f64,
    /// The factor s² of the prior covariance.
    pub scale: f64,
    /// The profile log marginal likelihood of one direction of Y.
    pub log_evidence: f64,
    /// The training rows of X and of Y.
    pub rows: [Table; 2],
    /// Warnings for the user.
    pub warnings: Vec<String>,
    centered: bool,
    /// Cholesky factor of K + λ.
    factor: Cholesky,
}

/// Posterior of the expectations of one or several functions.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionalExpectation {
    /// Means, rows × functions.
    pub means: Matrix,
    /// R (rows × rows), which the variance V of each function multiplies.
    pub residual: Matrix,
    /// V of each function.
    pub variances: Vec<f64>,
    /// The part of the covariance from the uncertainty of the functions (rows × rows), if they are uncertain.
    pub of_functions: Option<Matrix>,
}

impl ConditionalExpectation {
    /// Standard deviations, rows × functions.
    pub fn standard_deviations(&self) -> Matrix {
        let of_functions = |i| self.of_functions.as_ref().map_or(0.0, |part| part[(i, i)]);
        let variance = |i, c: usize| self.variances[c] * self.residual[(i, i)] + of_functions(i);
        let rows = self.residual.rows();
        Matrix::from_fn(rows, self.variances.len(), |i, c| variance(i, c).max(0.0).sqrt())
    }

    /// Covariance between rows (rows × rows) of the expectation of function `c`.
    ///
    /// # Panics
    /// If there is no function `c`.
    pub fn covariance(&self, c: usize) -> Matrix {
        let mut covariance = self.residual.clone();
        covariance.scale(self.variances[c]);
        if let Some(part) = &self.of_functions {
            covariance.add_times(1.0, part);
        }
        covariance
    }
}

/// The marginal likelihood of a ridge λ and of the terms that both need.
struct Evidence {
    factor: Cholesky,
    /// `tr((K + λ)⁻¹T)`.
    trace: f64,
    value: f64,
}

impl Evidence {
    fn new(mut gram: Matrix, ridge: f64, target_gram: &Matrix) -> Result<Self> {
        let n = gram.rows() as f64;
        gram.add_diagonal(|_| ridge);
        let factor = Cholesky::new(gram, "kernel matrix of X plus ridge")?;
        let trace = factor.solve(target_gram.clone()).trace();
        let log_variance = (trace / n).ln() + 1.0 + std::f64::consts::TAU.ln();
        let value = -0.5 * factor.log_det() - 0.5 * n * log_variance;
        check_overflow(&[value], "the log marginal likelihood", "use a larger ridge")?;
        Ok(Self { factor, trace, value })
    }

    /// Derivatives of the value in K + λ: `½ (n/tr · (K + λ)⁻¹T(K + λ)⁻¹ - (K + λ)⁻¹)`.
    fn covariance_gradient(&self, target_gram: &Matrix) -> Matrix {
        let inverse = self.factor.inverse();
        let mut gradient = inverse.matmul(target_gram).matmul(&inverse);
        gradient.scale(inverse.rows() as f64 / self.trace);
        gradient.add_times(-1.0, &inverse);
        gradient.scale(0.5);
        gradient
    }
}

impl BayesianConditionalMean {
    /// Fits to rows of X (n × d) and of Y (n × e). Cost O(n³), and some tens of times O(m³) for tuning with
    /// m ≤ 1000 rows.
    ///
    /// # Errors
    /// [`Error::Shape`] if the numbers of rows differ; [`Error::TooFew`] for fewer than 3 rows;
    /// [`Error::Parameter`] for settings out of range; [`Error::Target`] if all rows of Y are equal by
    /// `kernel_y`; [`Error::Overflow`]; [`Error::NotPositiveDefinite`] for a ridge that is too small;
    /// [`Error::Interrupted`].
    pub fn fit(&self, x: &Table, y: &Table) -> Result<ConditionalMeanFit> {
        let n = x.rows();
        sized("Y", "rows", n, y.rows(), "one for each row of X")?;
        if n < 3 {
            return Err(Error::too_few("X", 3, "rows are"));
        }
        self.scale.map_or(Ok(()), |scale| positive("scale", scale))?;
        let kernel_x = self.kernel_x.clone().unwrap_or_else(|| default_kernel_x(x));
        let kernel_y = self.kernel_y.clone().map_or_else(|| default_kernel(y), Ok)?;
        for (kernel, rows) in [(&kernel_x, x), (&kernel_y, y)] {
            kernel.validate(rows.width())?;
            check_range(kernel, rows)?;
        }
        let (kernel_x, ridge, warnings) = self.hyperparameters(kernel_x, &kernel_y, (x, y))?;
        let target_gram = self.target_gram(&kernel_y, y)?;
        let evidence = Evidence::new(kernel_x.gram(x), ridge, &target_gram)?;
        let scale = self.scale.unwrap_or(evidence.trace / target_gram.trace());
        Ok(ConditionalMeanFit {
            kernel_x,
            kernel_y,
            ridge: ridge / n as f64,
            scale,
            log_evidence: evidence.value,
            rows: [x.clone(), y.clone()],
            warnings,
            centered: self.centered,
            factor: evidence.factor,
        })
    }

    /// The log marginal likelihood of the parameters of `kernel_x` and of the logarithm of λ, and its
    /// gradient. `theta` has the order and scale of [`Kernel::parameters`], then log λ. Cost O(n³).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    ///
    /// # Panics
    /// If `theta` does not have one number for each parameter.
    pub fn log_evidence(&self, x: &Table, y: &Table, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        let kernel_y = self.kernel_y.clone().map_or_else(|| default_kernel(y), Ok)?;
        let kernel_x = self.kernel_x.clone().unwrap_or_else(|| default_kernel_x(x));
        evidence_and_gradient(&kernel_x, x, &self.target_gram(&kernel_y, y)?, theta)
    }

    /// Chooses the kernel of X and λ. Returns these, and warnings.
    fn hyperparameters(
        &self,
        kernel_x: Kernel,
        kernel_y: &Kernel,
        (x, y): (&Table, &Table),
    ) -> Result<(Kernel, f64, Vec<String>)> {
        let n = x.rows() as f64;
        let fixed_ridge = match self.ridge {
            RidgeChoice::Fixed(ridge) => Some(n * ridge),
            RidgeChoice::Evidence => None,
            RidgeChoice::LeaveOneOut => Some(n * self.ridge_by_leaving_out(&kernel_x, kernel_y, (x, y))?),
        };
        fixed_ridge.map_or(Ok(()), |ridge| positive("ridge", ridge))?;
        let keeps_kernel = !self.tune_kernel || self.ridge == RidgeChoice::LeaveOneOut;
        if let (Some(ridge), true) = (fixed_ridge, keeps_kernel) {
            return Ok((kernel_x, ridge, Vec::new()));
        }
        let rows: Vec<usize> = {
            let count = x.rows().min(MAX_TUNING_ROWS);
            (0..count).map(|i| i * x.rows() / count).collect()
        };
        let (x, y) = (x.select_rows(&rows), y.select_rows(&rows));
        let target_gram = self.target_gram(kernel_y, &y)?;
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let ridge = Parameter::logarithm("ridge", fixed_ridge.unwrap_or(START_RIDGE));
        let tunes_ridge = fixed_ridge.is_none();
        let parameters = kernel_x.parameters().into_iter().enumerate();
        let mut coordinates: Vec<HyperParameter> = parameters
            .map(|(p, parameter)| match keeps_kernel || p == 0 {
                true => HyperParameter::fixed(parameter),
                false => HyperParameter::with_default_prior(parameter),
            })
            .collect();
        coordinates.push(match tunes_ridge {
            true => HyperParameter::with_default_prior(ridge.clone()),
            false => HyperParameter::fixed(ridge.clone()),
        });
        let starts = [(&kernel_x, 1.0), (&kernel_x, 3.0)].map(|(kernel, multiple)| {
            let smoother = kernel.with_length_scales_times(multiple).filter(|_| !keeps_kernel);
            let noise = if tunes_ridge { multiple.powi(2).ln() } else { 0.0 };
            let mut start = log_values(&smoother.unwrap_or_else(|| kernel.clone()).parameters());
            start.push(ridge.log_value + noise);
            start
        });
        let [first, second] = &starts;
        let (run, ()) = best_search(first, [second], |start| {
            let run = maximise_posterior(&coordinates, start, control, |theta| {
                evidence_and_gradient(&kernel_x, &x, &target_gram, theta)
            })?;
            Ok((run, ()))
        })?;
        let (log_ridge, kernel_values) = run.theta.split_last().expect("the ridge is a parameter");
        Ok((kernel_x.with_parameters(kernel_values), log_ridge.exp(), run.warnings))
    }

    /// The η of a grid that best predicts left-out rows of Y.
    fn ridge_by_leaving_out(
        &self,
        kernel_x: &Kernel,
        kernel_y: &Kernel,
        (x, y): (&Table, &Table),
    ) -> Result<f64> {
        let grid: Vec<f64> = (0..13).map(|i| 10f64.powf(-6.0 + 0.5 * f64::from(i))).collect();
        let n = x.rows();
        let (gram, target_gram) = (kernel_x.gram(x), kernel_y.gram(y));
        let shares = vec![1.0 / n as f64; n];
        let losses = crate::embedding::leave_one_out(&gram, &target_gram, &shares, &grid, &self.stop)?;
        let best = (0..grid.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b]));
        Ok(grid[best.unwrap_or(grid.len() / 2)])
    }

    /// T: the gram matrix of Y, centred if the embedding is.
    fn target_gram(&self, kernel_y: &Kernel, y: &Table) -> Result<Matrix> {
        let mut gram = kernel_y.gram(y);
        let total: f64 = gram.trace();
        if self.centered {
            center(&mut gram);
        }
        if gram.trace() <= MIN_SPREAD * total.abs() {
            return Err(Error::target(
                "Y",
                "is the same in all rows by its kernel: there is nothing to learn",
            ));
        }
        Ok(gram)
    }
}

/// The default kernel of X, at which tuning starts.
fn default_kernel_x(x: &Table) -> Kernel {
    let (numbers, levels) = x.columns_by_kind();
    let scale = ColumnScaling::standardised(x).scale;
    let length_scale = numbers.iter().map(|&j| scale[j]).collect();
    Kernel::gaussian_and_categorical(numbers, length_scale, true, levels)
}

/// The log marginal likelihood and its gradient, by the parameters of the kernel of X and log λ.
fn evidence_and_gradient(
    kernel_x: &Kernel,
    x: &Table,
    target_gram: &Matrix,
    theta: &[f64],
) -> Result<(f64, Vec<f64>)> {
    let (log_ridge, kernel_values) = theta.split_last().expect("the ridge is a parameter");
    let (kernel, ridge) = (kernel_x.with_parameters(kernel_values), log_ridge.exp());
    let evidence = Evidence::new(kernel.gram(x), ridge, target_gram)?;
    let by_covariance = evidence.covariance_gradient(target_gram);
    let mut gradient = kernel.gradient(x, &by_covariance);
    gradient.push(ridge * by_covariance.trace());
    Ok((evidence.value, gradient))
}

/// Subtracts the means of rows and columns from a symmetric matrix.
fn center(gram: &mut Matrix) {
    let means: Vec<f64> = (0..gram.rows()).map(|i| mean(gram.row(i))).collect();
    let total = mean(&means);
    for (i, row_mean) in means.iter().enumerate() {
        gram.row_mut(i).iter_mut().zip(&means).for_each(|(v, m)| *v += total - m - row_mean);
    }
}

/// The mean of the squares in a column.
fn mean_of_squares(matrix: &Matrix, column: usize) -> f64 {
    (0..matrix.rows()).map(|i| matrix[(i, column)].powi(2)).sum::<f64>() / matrix.rows() as f64
}

impl ConditionalMeanFit {
    /// The weights of the training rows at each row of `x`, rows × n. Columns are matched by name. Cost
    /// O(n²) per row.
    ///
    /// # Errors
    /// The errors of [`Table::align_to`]; [`Error::Overflow`].
    pub fn weights(&self, x: &Table) -> Result<Matrix> {
        Ok(self.centered_weights(self.factor.solve(self.cross_gram(x)?.1)))
    }

    /// R (rows × rows) at the rows of `x`: the covariance of the expectation of a function with V = 1.
    ///
    /// # Errors
    /// As [`weights`](Self::weights).
    pub fn residual_covariance(&self, x: &Table) -> Result<Matrix> {
        Ok(self.weights_and_residual(x)?.1)
    }

    /// The expectations of functions with the given `values` at the training rows of Y (n × functions).
    /// `covariance` (n × n) is the posterior covariance of uncertain functions there, which are independent
    /// of the training rows.
    ///
    /// # Errors
    /// As [`weights`](Self::weights); [`Error::Shape`] unless there is one value for each training row;
    /// [`Error::NotFinite`].
    pub fn expectation(
        &self,
        values: &Matrix,
        covariance: Option<&Matrix>,
        x: &Table,
    ) -> Result<ConditionalExpectation> {
        let n = self.rows[0].rows();
        let why = "one for each training row";
        sized("the values of the function", "rows", n, values.rows(), why)?;
        crate::checks::check_targets(values)?;
        if let Some(covariance) = covariance {
            sized("the covariance of the function", "entries", n * n, covariance.data().len(), why)?;
        }
        let (weights, residual) = self.weights_and_residual(x)?;
        let of_functions =
            covariance.map(|covariance| weights.matmul(covariance).matmul(&weights.transpose()));
        let uncertainty = covariance.map_or(0.0, |covariance| {
            let mut covariance = covariance.clone();
            if self.centered {
                center(&mut covariance);
            }
            covariance.mean_diagonal()
        });
        let variance = |c: usize| {
            let column = values.column(c);
            let middle = if self.centered { mean(&column) } else { 0.0 };
            column.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / n as f64 + uncertainty
        };
        Ok(ConditionalExpectation {
            means: weights.matmul(values),
            residual,
            variances: (0..values.cols()).map(variance).collect(),
            of_functions,
        })
    }

    /// The training rows of Y at which to evaluate an expensive f next, for its expectations at the rows of
    /// `x`: Bayesian quadrature with respect to conditional distributions. f is a Gaussian process with the
    /// posterior `covariance` at the training rows (n × n), and a new evaluation has an error of variance
    /// `noise` ≥ 0. Each choice reduces the mean of `w(x)ᵀK̄ w(x)` over the rows of `x` the most, given those
    /// before it, and comes with the mean that remains. The reduction needs no values of f. Cost
    /// O(n² (rows + count)).
    ///
    /// # Errors
    /// As [`weights`](Self::weights); [`Error::Shape`]; [`Error::Parameter`] for negative noise;
    /// [`Error::TooFew`] without rows.
    pub fn next_evaluations(
        &self,
        x: &Table,
        covariance: &Matrix,
        noise: f64,
        count: usize,
    ) -> Result<Vec<(usize, f64)>> {
        let n = self.rows[0].rows();
        sized("the covariance of the function", "entries", n * n, covariance.data().len(), "one per pair")?;
        not_negative("noise", noise, "a variance is not negative")?;
        if x.rows() == 0 {
            return Err(Error::too_few("the table of rows of X", 1, "row is"));
        }
        let weights = self.weights(x)?;
        let products = weights.matmul(covariance);
        let square = |i: usize| dot(products.row(i), weights.row(i));
        let mut variance = mean(&(0..x.rows()).map(square).collect::<Vec<_>>());
        // Rows: the covariances of the expectations, and of f at the chosen rows, with f at all rows.
        let (mut of_expectations, mut prior_variances) =
            (products, covariance.diagonal().map(|v| v.max(0.0)).collect::<Vec<f64>>());
        let smallest = 1e-12 * prior_variances.iter().fold(0.0, |largest: f64, v| largest.max(*v));
        let mut directions: Vec<Vec<f64>> = Vec::new();
        let mut chosen = Vec::new();
        for _ in 0..count {
            let reduction = |j: usize| match prior_variances[j] + noise {
                v if v > smallest => mean_of_squares(&of_expectations, j) / v,
                _ => 0.0,
            };
            let reductions: Vec<f64> = (0..n).map(reduction).collect();
            let Some(best) = (0..n).max_by(|i, j| reductions[*i].total_cmp(&reductions[*j])) else { break };
            if reductions[best] <= 0.0 {
                break;
            }
            // A step of the Cholesky factorisation with pivot `best`.
            let scale = 1.0 / (prior_variances[best] + noise).sqrt();
            let mut direction = covariance.row(best).to_vec();
            directions.iter().for_each(|d| add_multiple(&mut direction, -d[best], d));
            direction.iter_mut().for_each(|v| *v *= scale);
            for i in 0..of_expectations.rows() {
                let factor = of_expectations[(i, best)] * scale;
                add_multiple(of_expectations.row_mut(i), -factor, &direction);
            }
            prior_variances.iter_mut().zip(&direction).for_each(|(v, d)| *v = (*v - d * d).max(0.0));
            variance -= reductions[best];
            chosen.push((best, variance.max(0.0)));
            directions.push(direction);
        }
        Ok(chosen)
    }

    /// The maximum mean discrepancy `‖μ(x) - μ(x')‖` between the embeddings at each row of `x` and at each
    /// row of `other`, in the function space of `kernel_y`: rows × other rows. Cost O(n²) per row.
    ///
    /// # Errors
    /// As [`weights`](Self::weights).
    pub fn discrepancy(&self, x: &Table, other: &Table) -> Result<Matrix> {
        let gram = self.kernel_y.gram(&self.rows[1]);
        let (left, right) = (self.weights(x)?, self.weights(other)?);
        let (left_gram, right_gram) = (left.matmul(&gram), right.matmul(&gram));
        let squares = |weights: &Matrix, products: &Matrix, i| dot(weights.row(i), products.row(i));
        let left_squares: Vec<f64> = (0..left.rows()).map(|i| squares(&left, &left_gram, i)).collect();
        let right_squares: Vec<f64> = (0..right.rows()).map(|j| squares(&right, &right_gram, j)).collect();
        let inner = left_gram.matmul(&right.transpose());
        let square = |i: usize, j: usize| left_squares[i] - 2.0 * inner[(i, j)] + right_squares[j];
        Ok(Matrix::from_fn(left.rows(), right.rows(), |i, j| square(i, j).max(0.0).sqrt()))
    }

    /// The maximum mean discrepancy between the embedding at each row of `x` and the mean embedding of the
    /// rows of `sample`, which has the columns of Y.
    ///
    /// # Errors
    /// As [`weights`](Self::weights); [`Error::TooFew`] for a sample without rows.
    pub fn discrepancy_from_sample(&self, x: &Table, sample: &Table) -> Result<Vec<f64>> {
        let y = &self.rows[1];
        let sample = sample.align_to(y.columns())?;
        if sample.rows() == 0 {
            return Err(Error::too_few("the sample", 1, "row is"));
        }
        let weights = self.weights(x)?;
        let products = weights.matmul(&self.kernel_y.gram(y));
        let cross = self.kernel_y.cross_gram(y, &sample);
        let witness: Vec<f64> = (0..y.rows()).map(|i| mean(cross.row(i))).collect();
        let sample_square = mean(self.kernel_y.gram(&sample).data());
        let square = |i: usize| {
            dot(weights.row(i), products.row(i)) - 2.0 * dot(weights.row(i), &witness) + sample_square
        };
        Ok((0..weights.rows()).map(|i| square(i).max(0.0).sqrt()).collect())
    }

    /// The rows in the columns of X, and the kernel between training rows and these (n × rows).
    fn cross_gram(&self, x: &Table) -> Result<(Table, Matrix)> {
        let x = x.align_to(self.rows[0].columns())?;
        let cross = self.kernel_x.cross_gram(&self.rows[0], &x);
        check_overflow(cross.data(), "the kernel of X", "standardise the columns")?;
        Ok((x, cross))
    }

    /// The weights as rows, from those as columns before centring.
    fn centered_weights(&self, weights: Matrix) -> Matrix {
        let n = weights.rows() as f64;
        let mut weights = weights.transpose();
        for i in (0..weights.rows()).filter(|_| self.centered) {
            let remainder = (1.0 - weights.row(i).iter().sum::<f64>()) / n;
            weights.row_mut(i).iter_mut().for_each(|w| *w += remainder);
        }
        weights
    }

    fn weights_and_residual(&self, x: &Table) -> Result<(Matrix, Matrix)> {
        let (x, cross) = self.cross_gram(x)?;
        let mut residual = self.kernel_x.gram(&x);
        residual.add_times(-1.0, &self.factor.inverse_quadratic_form(cross.clone()));
        residual.scale(self.scale);
        Ok((self.centered_weights(self.factor.solve(cross)), residual))
    }
}

//! The process of the outcome in the last study: Gaussian process regression around an unknown constant.
//!
//! `t_i = β₀ + f₀(ỹ_i) + ε_i` with `f₀ ~ GP(0, k)`, `β₀ ~ N(mean of t, intercept_variance)` and ε of variance
//! `noise`. The constant is kept apart from f₀, because an effect averages f₀ with weights that need not add
//! up to 1, and returns to β₀ without data.

use super::kernel_regression::KernelRegression;
use super::normal_draws::{mean_diagonal, normal_draws};
use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::posterior::Functionals;
use crate::random::Random;
use crate::table::Table;

/// Its numbers.
#[derive(Debug, Clone)]
pub struct OutcomeGpParameters {
    /// The prior covariance of f₀, in squared units of the outcome.
    pub kernel: Kernel,
    /// Variance of the noise, > 0.
    pub noise: f64,
    /// Variance ≥ 0 of the constant; 0 where it is taken for known.
    pub intercept_variance: f64,
}

/// A process that has seen its study.
#[derive(Debug, Clone)]
pub(super) struct OutcomeGp {
    /// The number of its study.
    pub study: usize,
    /// Its rows, or landmarks.
    points: Table,
    parameters: OutcomeGpParameters,
    solver: KernelRegression,
    coef: Vec<f64>,
    /// The posterior mean of β₀.
    pub constant: f64,
}

impl OutcomeGpParameters {
    fn covariance(&self, x: &Table) -> Matrix {
        let mut out = self.kernel.gram(x);
        out.data_mut().iter_mut().for_each(|v| *v += self.intercept_variance);
        out.add_diagonal(|_| self.noise);
        out
    }

    /// `log p(t)`, with the factor and the coefficients that the gradient needs.
    fn likelihood(&self, x: &Table, t: &[f64]) -> Result<(f64, Cholesky, Vec<f64>)> {
        let factor = Cholesky::new(self.covariance(x), "covariance of the outcome")?;
        let centred_targets = centred(t).1;
        let coef = factor.solve_vector(&centred_targets);
        let value = -0.5
            * (dot(&coef, &centred_targets) + factor.log_det() + t.len() as f64 * std::f64::consts::TAU.ln());
        Ok((value, factor, coef))
    }

    /// `log p(t)`. Cost n³/3.
    pub(super) fn log_evidence(&self, x: &Table, t: &[f64]) -> Result<f64> {
        Ok(self.likelihood(x, t)?.0)
    }

    /// `log p(t)` and its derivatives in the logarithms of the kernel's parameters and the noise; the
    /// variance of the constant is fixed. Cost n³.
    pub(super) fn log_evidence_and_gradient(&self, x: &Table, t: &[f64]) -> Result<(f64, Vec<f64>)> {
        let (value, factor, coef) = self.likelihood(x, t)?;
        let mut weights = factor.inverse();
        for i in 0..t.len() {
            weights.row_mut(i).iter_mut().zip(&coef).for_each(|(v, a)| *v = 0.5 * (coef[i] * a - *v));
        }
        let mut slopes = self.kernel.gradient(x, &weights);
        slopes.push(self.noise * (0..t.len()).map(|i| weights[(i, i)]).sum::<f64>());
        Ok((value, slopes))
    }
}

/// The mean, and what is left of each.
fn centred(t: &[f64]) -> (f64, Vec<f64>) {
    let mean = t.iter().sum::<f64>() / t.len() as f64;
    (mean, t.iter().map(|v| v - mean).collect())
}

impl OutcomeGp {
    /// Fits the process to rows, through landmarks if there are any.
    pub fn new(
        study: usize,
        (x, t): (&Table, &[f64]),
        parameters: OutcomeGpParameters,
        landmarks: Option<&Table>,
    ) -> Result<Self> {
        crate::fit::check(x, t.len(), 2)?;
        parameters.kernel.validate(x.width())?;
        crate::fit::positive("noise", parameters.noise)?;
        if !(parameters.intercept_variance.is_finite() && parameters.intercept_variance >= 0.0) {
            return Err(Error::parameter(
                "level",
                parameters.intercept_variance,
                "variances are not negative",
            ));
        }
        sized("the outcome", "numbers", x.rows(), t.len(), "one a row of the table")?;
        let (kernel, level) = (&parameters.kernel, parameters.intercept_variance);
        let solver = match landmarks {
            None => KernelRegression::rows(parameters.covariance(x), "covariance of the outcome")?,
            Some(points) => {
                let with_level = |mut gram: Matrix| {
                    gram.data_mut().iter_mut().for_each(|v| *v += level);
                    gram
                };
                let diagonal: Vec<f64> = kernel.diagonal(x).iter().map(|v| v + level).collect();
                let with_rows = with_level(kernel.cross_gram(points, x));
                KernelRegression::landmarks(
                    with_level(kernel.gram(points)),
                    with_rows,
                    &diagonal,
                    parameters.noise,
                )?
            }
        };
        let (mean, centred_targets) = centred(t);
        let coef = solver.solve(&centred_targets);
        let constant = mean + level * coef.iter().sum::<f64>();
        Ok(Self { study, points: landmarks.unwrap_or(x).clone(), parameters, solver, coef, constant })
    }

    pub fn points(&self) -> &Table {
        &self.points
    }

    pub fn kernel(&self) -> &Kernel {
        &self.parameters.kernel
    }

    /// Whether it sees all rows, and not landmarks alone.
    pub fn uses_all_rows(&self) -> bool {
        matches!(self.solver, KernelRegression::Rows(_))
    }

    /// The mean share of the noise of rows that comes from what landmarks leave unexplained, if there are
    /// landmarks.
    pub fn unexplained_share(&self) -> Option<f64> {
        self.solver.unexplained()
    }

    /// Over points: `V⁻¹(t - mean)` where these are the rows, V the covariance of the outcome.
    pub fn coef(&self) -> &[f64] {
        &self.coef
    }

    /// The prior variance of β₀.
    pub fn intercept_variance(&self) -> f64 {
        self.parameters.intercept_variance
    }

    /// The variance of the outcome around it.
    pub fn noise(&self) -> f64 {
        self.parameters.noise
    }

    /// Whether its noise has less than this share of the variance.
    pub fn has_no_noise(&self, share: f64) -> bool {
        let scale = self.kernel().diagonal(&self.points().select_rows(&[0]))[0];
        self.noise() < share * scale
    }

    /// The outcome less its mean, where all rows are seen.
    pub fn targets(&self) -> Vec<f64> {
        self.parameters.covariance(&self.points).matvec(&self.coef)
    }

    /// The outcome's mean in the study.
    pub fn mean_of_targets(&self) -> f64 {
        self.constant - self.parameters.intercept_variance * self.coef.iter().sum::<f64>()
    }

    /// `V⁻¹`, or Q of its landmarks.
    pub fn inverse(&self) -> Matrix {
        self.solver.inverse()
    }

    /// The mean squared leave-one-out error of the outcome, where all rows are used: residuals are `(V⁻¹t)_i
    /// / (V⁻¹)_ii`.
    pub fn loo_mse(&self) -> f64 {
        let inverse = self.solver.inverse();
        let squared_errors =
            self.coef.iter().enumerate().map(|(i, coefficient)| (coefficient / inverse[(i, i)]).powi(2));
        squared_errors.sum::<f64>() / self.coef.len() as f64
    }

    /// The means of f₀ by columns over its points.
    pub fn centred_means(&self, columns: &Matrix) -> Vec<f64> {
        columns.transpose().matvec(&self.coef)
    }

    /// The covariance of functionals with the outcome at points.
    pub fn with_points(&self, columns: &Matrix, constants: &[f64]) -> Matrix {
        let mut out = columns.clone();
        if self.parameters.intercept_variance > 0.0 {
            for i in 0..out.rows() {
                let row = out.row_mut(i).iter_mut().zip(constants);
                row.for_each(|(v, c)| *v += self.parameters.intercept_variance * c);
            }
        }
        out
    }

    pub fn solver(&self) -> &KernelRegression {
        &self.solver
    }

    /// The posterior covariance of functionals.
    pub fn covariance(&self, functionals: &Functionals) -> Matrix {
        let with_points = self.with_points(&functionals.columns, &functionals.constants);
        let mut out = self.solver.explained_covariance(&with_points);
        for (j, c) in functionals.constants.iter().enumerate() {
            let prior = functionals.prior_scale.row(j).iter().zip(&functionals.constants);
            let prior = prior.map(|(p, other)| p + self.parameters.intercept_variance * c * other);
            out.row_mut(j).iter_mut().zip(prior).for_each(|(entry, prior)| *entry = prior - *entry);
        }
        out
    }

    /// The posterior variances of f₀, by columns over its points and prior variances.
    pub fn variances(&self, columns: &Matrix, prior: &[f64]) -> Vec<f64> {
        let known = self.solver.explained_variances(columns);
        prior.iter().zip(known).map(|(prior, known)| (prior - known).max(0.0)).collect()
    }

    /// Joint draws of functionals, one a column.
    pub fn sample(&self, functionals: &Functionals, draws: usize, random: &mut Random) -> Result<Matrix> {
        let scale = mean_diagonal(&functionals.prior_scale) + self.parameters.intercept_variance;
        let mut drawn =
            normal_draws(self.covariance(functionals), scale, draws, "covariance of the outcome", random)?;
        let means = self.centred_means(&functionals.columns).into_iter().zip(&functionals.constants);
        for (i, (mean, constant)) in means.enumerate() {
            drawn.row_mut(i).iter_mut().for_each(|v| *v += mean + constant * self.constant);
        }
        Ok(drawn)
    }
}

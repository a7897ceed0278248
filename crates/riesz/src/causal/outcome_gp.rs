//! Gaussian process of the outcome in the last study, around an unknown constant.
//!
//! The outcome of row i with mediators ỹ_i is `t_i = β₀ + f₀(ỹ_i) + ε_i`, with `f₀ ~ GP(0, k)`,
//! `β₀ ~ N(mean of t, intercept_variance)` and ε of variance `noise`. The constant is separate from f₀,
//! because an effect averages f₀ with weights that need not add up to 1. Far from data, the effect returns to
//! β₀.

use super::kernel_regression::KernelRegression;
use super::normal_draws::normal_draws;
use crate::error::{Result, sized};
use crate::gp::exact::NormalEvidence;
use crate::kernel::Kernel;
use crate::linalg::{Matrix, dot, mean};
use crate::posterior::Functionals;
use crate::random::Random;
use crate::table::Table;

/// Hyper-parameters of the Gaussian process of the outcome.
#[derive(Debug, Clone)]
pub struct OutcomeGpParameters {
    /// The prior covariance of f₀, in squared units of the outcome.
    pub kernel: Kernel,
    /// The variance > 0 of the noise.
    pub noise: f64,
    /// The prior variance ≥ 0 of the constant β₀; 0 for a fixed constant.
    pub intercept_variance: f64,
}

/// Fitted Gaussian process of the outcome.
#[derive(Debug, Clone)]
pub(super) struct OutcomeGp {
    /// The index of the study of the outcome.
    pub study: usize,
    /// The mediators of the rows, or landmarks.
    pub points: Table,
    pub parameters: OutcomeGpParameters,
    pub solver: KernelRegression,
    /// The coefficients over the points. Where the points are all rows, these are `V⁻¹(t - mean)` with the
    /// covariance V (n × n) of the outcome.
    pub coef: Vec<f64>,
    /// The posterior mean of β₀.
    pub constant: f64,
    /// The variance of the outcome over the rows.
    pub target_variance: f64,
}

impl OutcomeGpParameters {
    fn covariance(&self, x: &Table) -> Matrix {
        let mut out = self.kernel.gram(x);
        out.map_in_place(|v| v + self.intercept_variance);
        out.add_diagonal(|_| self.noise);
        out
    }

    fn normal_evidence(&self, x: &Table, t: &[f64]) -> Result<NormalEvidence> {
        let centered_targets = Matrix::column_vector(centered(t).1);
        NormalEvidence::new(self.covariance(x), "covariance of the outcome", &centered_targets)
    }

    /// Returns `log p(t)`. Cost n³/3.
    pub(super) fn log_evidence(&self, x: &Table, t: &[f64]) -> Result<f64> {
        Ok(self.normal_evidence(x, t)?.value)
    }

    /// Returns `log p(t)` and its gradient in the logarithms of the kernel's parameters and the noise. The
    /// variance of the constant is fixed. Cost n³.
    pub(super) fn log_evidence_and_gradient(&self, x: &Table, t: &[f64]) -> Result<(f64, Vec<f64>)> {
        let evidence = self.normal_evidence(x, t)?;
        let weights = evidence.covariance_gradient();
        let mut gradient = self.kernel.gradient(x, &weights);
        gradient.push(self.noise * weights.trace());
        Ok((evidence.value, gradient))
    }
}

/// Checks the prior variance of a constant.
pub(super) fn check_level(level: f64) -> Result<()> {
    crate::checks::not_negative("level", level, "variances are not negative")
}

/// Returns the mean of `t` and the deviations from it.
fn centered(t: &[f64]) -> (f64, Vec<f64>) {
    let mean = mean(t);
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
        crate::checks::check_rows(x, t.len(), 2)?;
        parameters.kernel.validate(x.width())?;
        crate::checks::positive("noise", parameters.noise)?;
        check_level(parameters.intercept_variance)?;
        sized("the outcome", "numbers", x.rows(), t.len(), "one per row of the table")?;
        let (kernel, intercept_variance) = (&parameters.kernel, parameters.intercept_variance);
        let solver = match landmarks {
            None => KernelRegression::rows(parameters.covariance(x), "covariance of the outcome")?,
            Some(points) => {
                let (mut gram, mut with_rows) = (kernel.gram(points), kernel.cross_gram(points, x));
                gram.map_in_place(|v| v + intercept_variance);
                with_rows.map_in_place(|v| v + intercept_variance);
                let diagonal: Vec<f64> = kernel.diagonal(x).iter().map(|v| v + intercept_variance).collect();
                KernelRegression::landmarks(gram, with_rows, &diagonal, parameters.noise)?
            }
        };
        let (mean, centered_targets) = centered(t);
        let coef = solver.solve(&centered_targets);
        let constant = mean + intercept_variance * coef.iter().sum::<f64>();
        let target_variance = dot(&centered_targets, &centered_targets) / t.len() as f64;
        let points = landmarks.unwrap_or(x).clone();
        Ok(Self { study, points, parameters, solver, coef, constant, target_variance })
    }

    /// Returns whether the noise is less than `share` times the prior variance of f₀.
    pub fn has_no_noise(&self, share: f64) -> bool {
        let scale = self.parameters.kernel.diagonal(&self.points.select_rows(&[0]))[0];
        self.parameters.noise < share * scale
    }

    /// Returns the outcome minus its mean. Valid where the points are all rows.
    pub fn targets(&self) -> Vec<f64> {
        self.parameters.covariance(&self.points).matvec(&self.coef)
    }

    /// Returns the outcome's mean in the study.
    pub fn mean_of_targets(&self) -> f64 {
        self.constant - self.parameters.intercept_variance * self.coef.iter().sum::<f64>()
    }

    /// Returns the mean squared leave-one-out error of the outcome. Valid where the points are all rows; the
    /// residuals are `(V⁻¹(t - mean))_i / (V⁻¹)_ii`.
    pub fn loo_mse(&self) -> f64 {
        let inverse = self.solver.inverse();
        let squared_errors =
            self.coef.iter().enumerate().map(|(i, coefficient)| (coefficient / inverse[(i, i)]).powi(2));
        squared_errors.sum::<f64>() / self.coef.len() as f64
    }

    /// Returns the posterior means of functionals of f₀. A column of `columns` holds a functional's
    /// covariances with f₀ at the points.
    pub fn centered_means(&self, columns: &Matrix) -> Vec<f64> {
        columns.transpose().matvec(&self.coef)
    }

    /// Returns the prior covariance of functionals with the outcome at the points (points × functionals).
    pub fn with_points(&self, columns: &Matrix, constants: &[f64]) -> Matrix {
        let mut out = columns.clone();
        if self.parameters.intercept_variance > 0.0 {
            out.add_outer(std::iter::repeat(self.parameters.intercept_variance), constants);
        }
        out
    }

    /// Returns the posterior covariance of functionals.
    pub fn covariance(&self, functionals: &Functionals) -> Matrix {
        let with_points = self.with_points(&functionals.columns, &functionals.constants);
        let mut out = self.solver.explained_covariance(&with_points);
        for (j, c) in functionals.constants.iter().enumerate() {
            let prior = functionals.prior_covariance.row(j).iter().zip(&functionals.constants);
            let prior = prior.map(|(p, other)| p + self.parameters.intercept_variance * c * other);
            out.row_mut(j).iter_mut().zip(prior).for_each(|(entry, prior)| *entry = prior - *entry);
        }
        out
    }

    /// Returns the posterior variances of functionals of f₀, given their covariances with f₀ at the points
    /// (points × functionals) and their prior variances.
    pub fn variances(&self, columns: &Matrix, prior: &[f64]) -> Vec<f64> {
        let explained = self.solver.explained_variances(columns);
        prior.iter().zip(explained).map(|(prior, explained)| (prior - explained).max(0.0)).collect()
    }

    /// Returns joint draws of functionals from the posterior (functionals × draws).
    pub fn sample(&self, functionals: &Functionals, draws: usize, random: &mut Random) -> Result<Matrix> {
        let scale = functionals.prior_covariance.mean_diagonal() + self.parameters.intercept_variance;
        let mut drawn =
            normal_draws(self.covariance(functionals), scale, draws, "covariance of the outcome", random)?;
        let centered = self.centered_means(&functionals.columns).into_iter().zip(&functionals.constants);
        let means = centered.map(|(mean, constant)| mean + constant * self.constant);
        drawn.add_outer(means, &vec![1.0; draws]);
        Ok(drawn)
    }
}

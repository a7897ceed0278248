//! Logistic regression on differences: `P(l beats r) = σ(s_l - s_r)`, where each item has a score s, either
//! one parameter per item or linear in its features. Each compared pair is a row of the design matrix, which
//! is never formed: sums over pairs are accumulated per item.

use std::sync::atomic::AtomicBool;

use super::comparison_graph::{add_differences, add_laplacian_product, add_to_both, laplacian};
use super::duels::Duels;
use super::pair_kernel::Pair;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::gp::newton::halved_step;
use crate::kernel_model::logistic;
use crate::linalg::conjugate_gradients::{CgOutcome, ResidualNorm, StoppingRule, conjugate_gradients};
use crate::linalg::{Cholesky, Matrix, dot, mean, symmetric_eigen};

/// Maximal number of Newton steps.
const MAX_NEWTON: usize = 100;
/// Largest component of the gradient at convergence, per unit of weight.
const TOLERANCE: f64 = 1e-10;
/// Relative tolerance of conjugate gradients, and of the first Newton steps.
const CG_TOLERANCE: f64 = 1e-11;
const FIRST_CG_TOLERANCE: f64 = 1e-2;
/// Number of parameters above which systems with the Hessian are solved by conjugate gradients.
const MAX_DENSE_PARAMETERS: usize = 3000;
/// Share of the curvature along a direction below which the likelihood is considered to increase without
/// bound along it.
const SEPARATION_TOLERANCE: f64 = 1e-7;
/// Ratio of the smallest to the largest squared length below which columns are considered linearly dependent.
const COLLINEARITY_TOLERANCE: f64 = 1e-12;

/// The pairs, their outcomes and weights, and the features of the scores.
#[derive(Debug, Clone)]
pub(super) struct PairedLogistic {
    items: usize,
    pairs: Vec<Pair>,
    outcome: Vec<f64>,
    weight: Vec<f64>,
    /// Items × features; `None` for one parameter per item.
    features: Option<Matrix>,
}

/// The maximum of the penalised likelihood.
#[derive(Debug, Clone)]
pub(super) struct PairedLogisticMode {
    pub theta: Vec<f64>,
    ridge: f64,
    /// For each pair, minus the second derivative of the log likelihood.
    curvature: Vec<f64>,
    pub log_likelihood: f64,
    pub steps: usize,
}

/// An iterate of Newton's method.
struct NewtonIterate {
    theta: Vec<f64>,
    /// For each pair, the log odds and the probability that its first item wins.
    log_odds: Vec<f64>,
    probabilities: Vec<f64>,
    log_likelihood: f64,
    /// The penalised log likelihood.
    objective: f64,
}

/// Laplace's approximation of the log marginal likelihood under the prior N(0, 1/λ) of each parameter.
pub(super) struct RidgeEvidence {
    pub value: f64,
    /// The derivative of the value in log λ.
    pub derivative: f64,
    pub mode: PairedLogisticMode,
    /// The derivative of the mode in log λ.
    pub mode_derivative: Vec<f64>,
}

impl PairedLogistic {
    pub fn from_items(items: usize, pairs: Vec<Pair>, duels: &Duels) -> Self {
        let (outcome, weight) = (duels.outcome().to_vec(), duels.weight().to_vec());
        Self { items, pairs, outcome, weight, features: None }
    }

    pub fn from_features(features: Matrix, duels: &Duels) -> Self {
        let differences = Self::from_items(features.rows(), duels.pairs().to_vec(), duels);
        Self { features: Some(features), ..differences }
    }

    pub fn items(&self) -> usize {
        self.items
    }

    fn parameters(&self) -> usize {
        self.features.as_ref().map_or(self.items, Matrix::cols)
    }

    /// Returns the score of each item.
    pub fn linear_predictor(&self, theta: &[f64]) -> Vec<f64> {
        self.features.as_ref().map_or_else(|| theta.to_vec(), |x| x.matvec(theta))
    }

    fn log_odds(&self, theta: &[f64]) -> Vec<f64> {
        let s = self.linear_predictor(theta);
        self.pairs.iter().map(|&(l, r)| s[l] - s[r]).collect()
    }

    /// Returns the adjoint of [`log_odds`](Self::log_odds) applied to one number per pair.
    fn apply_transpose(&self, pair_values: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut sums = vec![0.0; self.items];
        add_differences(&mut sums, &self.pairs, pair_values);
        self.features.as_ref().map_or_else(|| sums.clone(), |x| x.transpose_matvec(&sums))
    }

    /// Returns the Hessian of the negative log likelihood without the ridge: the Laplacian of the comparison
    /// graph G, or `XᵀGX` with features X.
    fn hessian(&self, curvature: &[f64]) -> Matrix {
        let Some(x) = &self.features else { return laplacian(self.items, &self.pairs, curvature) };
        let mut products = Matrix::zeros(self.items, x.cols());
        for (&(l, r), w) in self.pairs.iter().zip(curvature) {
            for j in 0..x.cols() {
                let v = w * (x[(l, j)] - x[(r, j)]);
                products[(l, j)] += v;
                products[(r, j)] -= v;
            }
        }
        x.transpose().matmul(&products)
    }

    /// Returns an iterate of Newton's method from the parameters and the log odds of the pairs.
    fn iterate(&self, ridge: f64, theta: Vec<f64>, log_odds: Vec<f64>) -> NewtonIterate {
        let (mut log_likelihood, mut probabilities) = (0.0, Vec::with_capacity(log_odds.len()));
        for ((&g, y), weight) in log_odds.iter().zip(&self.outcome).zip(&self.weight) {
            let e = (-g.abs()).exp();
            // log σ(-g) = log σ(g) - g.
            log_likelihood += weight * (g.min(0.0) - (1.0 - y) * g - e.ln_1p());
            probabilities.push(if g >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) });
        }
        let objective = log_likelihood - 0.5 * ridge * dot(&theta, &theta);
        NewtonIterate { theta, log_odds, probabilities, log_likelihood, objective }
    }

    /// Computes the mode by Newton's method from `start`, by default 0. Steps are halved until they raise the
    /// penalised likelihood. The first steps are solved inaccurately and the last one accurately.
    ///
    /// # Errors
    /// [`Error::Target`] if there are features but no ridge and the likelihood has no maximum, or several;
    /// [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn mode(&self, ridge: f64, start: Option<Vec<f64>>, stop: &AtomicBool) -> Result<PairedLogisticMode> {
        let unpenalised = self.features.is_some() && ridge == 0.0;
        if unpenalised {
            self.check_rank()?;
        }
        let n = self.pairs.len();
        let scale = self.gradient_scale();
        let start = start.unwrap_or_else(|| vec![0.0; self.parameters()]);
        let start_log_odds = self.log_odds(&start);
        let mut iterate = self.iterate(ridge, start, start_log_odds);
        let (mut first_change, mut change) = (0.0_f64, f64::INFINITY);
        for steps in 0..MAX_NEWTON {
            check_cancelled(stop)?;
            let NewtonIterate { theta, log_odds, probabilities: p, log_likelihood, objective } = iterate;
            let curvature: Vec<f64> = (0..n).map(|i| self.weight[i] * p[i] * (1.0 - p[i])).collect();
            let mut gradient =
                self.apply_transpose((0..n).map(|i| self.weight[i] * (self.outcome[i] - p[i])));
            gradient.iter_mut().zip(&theta).for_each(|(s, t)| *s -= ridge * t);
            change = gradient.iter().fold(0.0_f64, |a, s| a.max(s.abs()));
            if change <= TOLERANCE * scale {
                let mode = PairedLogisticMode { theta, ridge, curvature, log_likelihood, steps };
                if unpenalised {
                    self.check_maximum(&mode)?;
                }
                return Ok(mode);
            }
            // The error of a Newton step is of the order of the squared gradient.
            first_change = first_change.max(change);
            let tolerance = (change / first_change).powi(2).clamp(CG_TOLERANCE, FIRST_CG_TOLERANCE);
            let step = self.solve(&curvature, ridge, &gradient, tolerance, stop)?;
            let step_g = self.log_odds(&step);
            (_, iterate) = halved_step(objective, |t| {
                let theta = theta.iter().zip(&step).map(|(a, s)| a + t * s).collect();
                let log_odds = log_odds.iter().zip(&step_g).map(|(a, s)| a + t * s).collect();
                let next = self.iterate(ridge, theta, log_odds);
                (next.objective, next)
            });
        }
        Err(Error::NotConverged {
            method: "Newton's method for a Bradley-Terry model",
            iterations: MAX_NEWTON,
            change,
            remedy: "raise the ridge",
        })
    }

    /// Returns the largest sum of weights that contributes to a component of the gradient, and at least 1.
    fn gradient_scale(&self) -> f64 {
        let Some(x) = &self.features else {
            let mut sums = vec![0.0; self.items];
            add_to_both(&mut sums, &self.pairs, &self.weight);
            return sums.iter().fold(1.0_f64, |a, &s| a.max(s));
        };
        let largest_contribution = |(&(l, r), w): (&Pair, &f64)| {
            w * x.row(l).iter().zip(x.row(r)).fold(0.0_f64, |a, (u, v)| a.max((u - v).abs()))
        };
        self.pairs.iter().zip(&self.weight).map(largest_contribution).sum::<f64>().max(1.0)
    }

    /// Returns the [`hessian`](Self::hessian) for even odds in all duels.
    fn hessian_at_even_odds(&self) -> Matrix {
        self.hessian(&self.weight.iter().map(|w| 0.25 * w).collect::<Vec<f64>>())
    }

    /// Checks, for features without a ridge, that no weighted sum of features is equal for all compared
    /// items.
    fn check_rank(&self) -> Result<()> {
        let (values, _) = symmetric_eigen(&self.hessian_at_even_odds())?;
        if values.first() <= values.last().map(|largest| largest * COLLINEARITY_TOLERANCE).as_ref() {
            let problem = "among the compared items some columns are constant or weighted sums of others";
            return Err(no_maximum("linear Bradley-Terry model", problem));
        }
        Ok(())
    }

    /// Checks, for features without a ridge, that the likelihood does not increase without bound along a
    /// direction in which its curvature vanishes.
    fn check_maximum(&self, mode: &PairedLogisticMode) -> Result<()> {
        let factor = Cholesky::new(self.hessian_at_even_odds(), "matrix of differences")?;
        let mut half_scaled = self.hessian(&mode.curvature);
        factor.solve_lower_in_place(&mut half_scaled);
        let mut scaled = half_scaled.transpose();
        factor.solve_lower_in_place(&mut scaled);
        if symmetric_eigen(&scaled)?.0.first().is_some_and(|smallest| *smallest < SEPARATION_TOLERANCE) {
            let problem = "a weighted sum of the columns predicts all winners without exception";
            return Err(no_maximum("linear Bradley-Terry model", problem));
        }
        Ok(())
    }

    /// Solves the system of the Hessian with the ridge; for items without a ridge, returns the solution that
    /// sums to 0.
    fn solve(
        &self,
        curvature: &[f64],
        ridge: f64,
        b: &[f64],
        tolerance: f64,
        stop: &AtomicBool,
    ) -> Result<Vec<f64>> {
        if self.features.is_some() {
            return Ok(self.penalised_factor(curvature, ridge)?.solve_vector(b));
        }
        let multiply_hessian = |v: &[f64]| {
            let mut out: Vec<f64> = v.iter().map(|v| ridge * v).collect();
            add_laplacian_product(&mut out, &self.pairs, curvature, v);
            out
        };
        let mut diagonal = vec![ridge; self.items];
        add_to_both(&mut diagonal, &self.pairs, curvature);
        if ridge > 0.0 {
            return solve_by_diagonal(multiply_hessian, &diagonal, b.to_vec(), tolerance, stop);
        }
        // Without rounding errors b sums to 0, which the singular system requires.
        let centered = |v: &[f64]| -> Vec<f64> {
            let mean = mean(v);
            v.iter().map(|v| v - mean).collect()
        };
        Ok(centered(&solve_by_diagonal(multiply_hessian, &diagonal, centered(b), tolerance, stop)?))
    }

    /// Returns the factor of the Hessian with the ridge. For items without a ridge a constant is added to all
    /// entries, which does not affect vectors that sum to 0.
    fn penalised_factor(&self, curvature: &[f64], ridge: f64) -> Result<Cholesky> {
        let mut hessian = self.hessian(curvature);
        hessian.add_diagonal(|_| ridge);
        if ridge == 0.0 && self.features.is_none() {
            let mean = curvature.iter().sum::<f64>() / (self.items * self.items) as f64;
            hessian.map_in_place(|h| h + mean);
        }
        Cholesky::new(hessian, "Hessian of a Bradley-Terry model")
    }

    /// Returns the covariance of the parameters; for items without a ridge, of parameters that sum to 0.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`].
    pub fn covariance(&self, mode: &PairedLogisticMode) -> Result<Matrix> {
        let mut covariance = self.penalised_factor(&mode.curvature, mode.ridge)?.inverse();
        if mode.ridge == 0.0 && self.features.is_none() {
            // The added constant contributes 1/(n² mean), where mean is that of `penalised_factor`.
            let mean_part = mean(covariance.data());
            covariance.map_in_place(|v| v - mean_part);
        }
        Ok(covariance)
    }

    /// Returns the factor of the posterior precision of the abilities of all items except the first, relative
    /// to the mean of all abilities. The first ability is then minus the sum of these abilities.
    /// The precision is `Bᵀ(H + λI)B` for the Hessian H and `B = [-1; I]` (items × (items - 1)). Cost
    /// items³/3.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`].
    pub fn centred_precision(&self, mode: &PairedLogisticMode) -> Result<Cholesky> {
        let hessian = laplacian(self.items, &self.pairs, &mode.curvature);
        let first = hessian.row(0);
        let mut precision = Matrix::from_fn(self.items - 1, self.items - 1, |i, j| {
            hessian[(i + 1, j + 1)] - first[i + 1] - first[j + 1] + first[0] + mode.ridge
        });
        precision.add_diagonal(|_| mode.ridge);
        Cholesky::new(precision, "precision of Bradley-Terry abilities")
    }

    /// Returns the variances of all abilities from their [`centred_precision`](Self::centred_precision). They
    /// are relative to a mean ability of 0, unless a ridge fixes the origin. Cost items³/3.
    pub fn ability_variances(&self, precision: &Cholesky, ridge: f64) -> Vec<f64> {
        let mut sum = Matrix::column_vector(vec![1.0; precision.size()]);
        precision.solve_lower_in_place(&mut sum);
        let first = dot(sum.data(), sum.data());
        let mean_variance = if ridge > 0.0 { 1.0 / (ridge * self.items as f64) } else { 0.0 };
        std::iter::once(first).chain(precision.inverse_diagonal()).map(|v| v + mean_variance).collect()
    }

    /// Returns the standard deviations of the log odds of pairs of items.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`]; [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn standard_deviations(
        &self,
        mode: &PairedLogisticMode,
        pairs: &[Pair],
        stop: &AtomicBool,
    ) -> Result<Vec<f64>> {
        if self.parameters() <= MAX_DENSE_PARAMETERS {
            let covariance = self.covariance(mode)?;
            return Ok(self.variances(&covariance, pairs).map(|v| v.max(0.0).sqrt()).collect());
        }
        let sd_by_solve = |&(l, r): &Pair| {
            let mut b = vec![0.0; self.items];
            if l != r {
                (b[l], b[r]) = (1.0, -1.0);
            }
            let x = self.solve(&mode.curvature, mode.ridge, &b, CG_TOLERANCE, stop)?;
            Ok((x[l] - x[r]).max(0.0).sqrt())
        };
        pairs.iter().map(sd_by_solve).collect()
    }

    fn variances(&self, covariance: &Matrix, pairs: &[Pair]) -> impl Iterator<Item = f64> {
        let products = self.features.as_ref().map(|x| x.matmul(covariance));
        pairs.iter().map(move |&(l, r)| match (&products, &self.features) {
            (Some(products), Some(x)) => {
                let difference = |m: &Matrix, j: usize| m[(l, j)] - m[(r, j)];
                (0..x.cols()).map(|j| difference(products, j) * difference(x, j)).sum()
            }
            _ => covariance[(l, l)] + covariance[(r, r)] - 2.0 * covariance[(l, r)],
        })
    }

    /// Returns the evidence of a ridge; `start` is where Newton's method starts. Cost O(parameters³).
    ///
    /// # Errors
    /// As [`mode`](Self::mode).
    pub fn evidence(&self, ridge: f64, start: Option<Vec<f64>>, stop: &AtomicBool) -> Result<RidgeEvidence> {
        let mode = self.mode(ridge, start, stop)?;
        let p = self.parameters();
        let factor = self.penalised_factor(&mode.curvature, ridge)?;
        let square = dot(&mode.theta, &mode.theta);
        let value =
            mode.log_likelihood - 0.5 * ridge * square + 0.5 * p as f64 * ridge.ln() - 0.5 * factor.log_det();
        // The Hessian depends on the mode, which changes by dθ/d log λ = -λ H⁻¹θ.
        let mode_derivative: Vec<f64> = factor.solve_vector(&mode.theta).iter().map(|v| -ridge * v).collect();
        let direction = self.log_odds(&mode_derivative);
        let inverse = factor.inverse();
        let g = self.log_odds(&mode.theta);
        let mode_term: f64 =
            (self.variances(&inverse, &self.pairs).zip(&mode.curvature).zip(&g).zip(&direction))
                .map(|(((c, w), g), direction)| c * w * (1.0 - 2.0 * logistic(*g)) * direction)
                .sum();
        let derivative = 0.5 * (p as f64 - ridge * (square + inverse.trace()) - mode_term);
        Ok(RidgeEvidence { value, derivative, mode, mode_derivative })
    }
}

/// Returns the error for duels that determine none of these quantities without a ridge.
pub(super) fn no_maximum(quantities: &str, problem: &str) -> Error {
    let problem = format!("have no {quantities} without a ridge: {problem}; set a ridge above 0");
    Error::target("duels", problem)
}

/// Solves a positive definite system, or a consistent semidefinite one, by conjugate gradients with the
/// diagonal as preconditioner.
fn solve_by_diagonal(
    multiply_hessian: impl Fn(&[f64]) -> Vec<f64>,
    diagonal: &[f64],
    b: Vec<f64>,
    tolerance: f64,
    stop: &AtomicBool,
) -> Result<Vec<f64>> {
    let stopping_rule =
        StoppingRule { norm: ResidualNorm::Preconditioned, tolerance, max_products: 10 * b.len() + 100 };
    let precondition = |r: &Vec<f64>| {
        r.iter().zip(diagonal).map(|(r, d)| if *d > 0.0 { r / d } else { 0.0 }).collect::<Vec<f64>>()
    };
    let product = |v: &Vec<f64>| {
        check_cancelled(stop)?;
        Ok(multiply_hessian(v))
    };
    let solution = conjugate_gradients(product, precondition, &b, vec![0.0; b.len()], stopping_rule)?;
    match solution.outcome {
        // If a semidefinite matrix is not positive along a direction, the residual is a rounding error.
        CgOutcome::Converged | CgOutcome::NotPositiveDefinite => Ok(solution.x),
        CgOutcome::TooManyProducts { residual } => Err(Error::NotConverged {
            method: "the method of conjugate gradients for a Bradley-Terry model",
            iterations: stopping_rule.max_products,
            change: residual,
            remedy: "raise the ridge",
        }),
    }
}

//! Exact inference for normal observations: the log marginal likelihood of `z ~ N(0, V)` and its gradient.
//!
//! With `V` (n × n) the covariance of the observations, noise included, `z` (n × t) the targets minus their
//! prior mean and `α = V⁻¹z` (n × t),
//!
//! ```text
//! log p(z) = -½ [tr zᵀα + t (log det V + n log 2π)]        ∂ log p(z)/∂V = ½ (ααᵀ - t V⁻¹)
//! ```
//!
//! (Rasmussen and Williams 2006, equations 2.30 and 5.9). Callers differ in how `V` depends on their
//! hyper-parameters; they contract the gradient with `∂V/∂θ` themselves.

use rayon::prelude::*;

use crate::checks::check_overflow;
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix, dot};

/// The log marginal likelihood of normal observations, with the quantities that its gradient and the
/// posterior use.
pub struct NormalEvidence {
    /// Cholesky factor of `V`.
    pub factor: Cholesky,
    /// `α = V⁻¹z`, n × t.
    pub alpha: Matrix,
    /// The log marginal likelihood.
    pub value: f64,
    /// t, or 1 for an observation that is given by its second moments.
    n_targets: f64,
    /// The scalar that multiplies `V`; 1 unless the observation is given by its second moments.
    scale: f64,
    /// The number of observations on which the likelihood is conditional; they come first.
    n_conditioning: usize,
}

impl NormalEvidence {
    /// Computes the log marginal likelihood of the columns of `z`, which are independent given `V`. Cost
    /// n³/3. `subject` names `V` in error messages.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`].
    pub fn new(covariance: Matrix, subject: &'static str, z: &Matrix) -> Result<Self> {
        Ok(Self::from_factor(Cholesky::new(covariance, subject)?, z))
    }

    /// Computes the log marginal likelihood as [`new`](Self::new) does, from the factor of `V`. Cost n² per
    /// target.
    pub fn from_factor(factor: Cholesky, z: &Matrix) -> Self {
        Self::build(factor, z, z.cols() as f64, 1.0, 0)
    }

    /// Computes the log likelihood of one target, as [`from_factor`](Self::from_factor) does, conditional on
    /// its first `n_conditioning` observations, which are 0.
    pub fn conditional(factor: Cholesky, z: &Matrix, n_conditioning: usize) -> Self {
        Self::build(factor, z, 1.0, 1.0, n_conditioning)
    }

    /// Computes `E log N(h; 0, scale V)` over one uncertain observation h (n) with the second moments
    /// `E hhᵀ = Σ_c h_c h_cᵀ`, whose terms `h_c` are the columns of `roots`. These second moments include the
    /// uncertainty of h.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn expected(covariance: Matrix, subject: &'static str, roots: &Matrix, scale: f64) -> Result<Self> {
        Ok(Self::build(Cholesky::new(covariance, subject)?, roots, 1.0, scale, 0))
    }

    fn build(factor: Cholesky, z: &Matrix, n_targets: f64, scale: f64, n_conditioning: usize) -> Self {
        let n = (z.rows() - n_conditioning) as f64;
        let alpha = factor.solve(z.clone());
        let square = dot(alpha.data(), z.data()) / scale;
        // The factor of the covariance of the conditioning observations is the leading block of the factor.
        let log_det = 2.0 * (n_conditioning..z.rows()).map(|i| factor.lower()[(i, i)].ln()).sum::<f64>();
        let volume = n * scale.ln() + log_det + n * std::f64::consts::TAU.ln();
        let value = -0.5 * (square + n_targets * volume);
        Self { factor, alpha, value, n_targets, scale, n_conditioning }
    }

    /// Returns the gradient in the entries of `V`: `½ (ααᵀ/scale - t V⁻¹)`, n × n and symmetric. Where the
    /// likelihood is conditional, `V⁻¹` is reduced by the inverse of the covariance of the conditioning
    /// observations. Cost n³.
    pub fn covariance_gradient(&self) -> Matrix {
        let (n, n_conditioning) = (self.alpha.rows(), self.n_conditioning);
        let mut gradient = match n_conditioning {
            0 => self.factor.inverse(),
            _ => {
                // This difference is `RᵀR`, where R are the rows of `L⁻¹` after those of the conditioning
                // observations.
                let mut lower_inverse = Matrix::identity(n);
                self.factor.solve_lower_in_place(&mut lower_inverse);
                let rows = lower_inverse.data()[n_conditioning * n..].to_vec();
                let rows = Matrix::from_row_major(n - n_conditioning, n, rows);
                rows.transpose_matmul(&rows)
            }
        };
        let outer = (self.alpha.cols() > 1).then(|| self.alpha.matmul(&self.alpha.transpose()));
        gradient.data_mut().par_chunks_mut(n).enumerate().for_each(|(i, row)| {
            let alpha_i = self.alpha[(i, 0)];
            for (j, w) in row.iter_mut().enumerate() {
                let product = outer.as_ref().map_or_else(|| alpha_i * self.alpha[(j, 0)], |o| o[(i, j)]);
                *w = 0.5 * (product / self.scale - self.n_targets * *w);
            }
        });
        gradient
    }
}

/// Checks that a log marginal likelihood is finite; `subject` names it in the error message.
pub fn check_evidence(value: f64, subject: &str) -> Result<()> {
    check_overflow(&[value], subject, "check the kernel's parameters and the noise")
}

/// A constant prior mean, estimated by generalised least squares.
pub struct LeastSquaresMean {
    /// The maximum-likelihood estimate of the mean, `cᵀV⁻¹z / cᵀV⁻¹c`; 0 if the observations do not depend on
    /// it.
    pub mean: f64,
    /// `V⁻¹c`, where `c` (n) holds the observations of a constant function 1.
    pub solved_response: Vec<f64>,
    /// `cᵀV⁻¹c`, the precision of the mean.
    pub precision: f64,
}

impl LeastSquaresMean {
    /// Estimates the mean from the observations `z` (n). `response` (n) is c, the observations of a constant
    /// function 1, and `solve` multiplies by `V⁻¹`.
    pub fn new(solve: impl FnOnce(&[f64]) -> Vec<f64>, response: &[f64], z: &[f64]) -> Self {
        let solved_response = solve(response);
        let precision = dot(&solved_response, response);
        let mean = if precision > 0.0 { dot(&solved_response, z) / precision } else { 0.0 };
        Self { mean, solved_response, precision }
    }
}

/// Returns the prior mean and the residuals of the observations `z` (n) from it. The mean is estimated by
/// [`LeastSquaresMean`] unless it is given. `factor` is that of `V`, and `response` (n) as there.
pub fn mean_and_residuals(
    factor: &Cholesky,
    response: &[f64],
    z: &[f64],
    given_mean: Option<f64>,
) -> (f64, Vec<f64>) {
    let estimate = || LeastSquaresMean::new(|v| factor.solve_vector(v), response, z).mean;
    let mean = given_mean.unwrap_or_else(estimate);
    (mean, z.iter().zip(response).map(|(z, c)| z - mean * c).collect())
}

/// Checks that a prior mean is finite, if it is given.
pub fn check_mean(name: &str, given_mean: Option<f64>) -> Result<()> {
    match given_mean.filter(|mean| !mean.is_finite()) {
        Some(mean) => Err(Error::parameter(name, mean, "it is a finite number")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value for two observations equals the formula for a 2 × 2 inverse; the gradient equals finite
    /// differences.
    #[test]
    fn value_and_gradient_are_those_of_the_density() {
        let covariance = |c: f64| Matrix::from_row_major(2, 2, vec![2.0, c, c, 1.5]);
        let z = Matrix::from_row_major(2, 2, vec![0.3, -1.0, 0.8, 0.4]);
        let evidence = |c: f64| NormalEvidence::new(covariance(c), "covariance", &z).unwrap();
        let log_density = |a: f64, b: f64, c: f64| {
            let det = 3.0 - c * c;
            let square = (1.5 * a * a - 2.0 * c * a * b + 2.0 * b * b) / det;
            -0.5 * (square + det.ln() + 2.0 * std::f64::consts::TAU.ln())
        };
        let expected = log_density(0.3, 0.8, 0.7) + log_density(-1.0, 0.4, 0.7);
        assert!((evidence(0.7).value - expected).abs() < 1e-13);
        let gradient = evidence(0.7).covariance_gradient();
        let difference = (evidence(0.7 + 1e-5).value - evidence(0.7 - 1e-5).value) / 2e-5;
        assert!((gradient[(0, 1)] + gradient[(1, 0)] - difference).abs() < 1e-8);
        // One observation that is given by two roots has one determinant.
        let roots = NormalEvidence::expected(covariance(0.7), "covariance", &z, 1.0).unwrap();
        let volume = (3.0_f64 - 0.49).ln() + 2.0 * std::f64::consts::TAU.ln();
        assert!((roots.value - expected - 0.5 * volume).abs() < 1e-13);
    }

    #[test]
    fn the_mean_has_the_largest_likelihood() {
        let covariance = Matrix::from_row_major(2, 2, vec![2.0, 0.7, 0.7, 1.5]);
        let (response, z) = ([1.0, 2.0], [0.3, 0.8]);
        let factor = Cholesky::new(covariance.clone(), "covariance").unwrap();
        let estimate = LeastSquaresMean::new(|v| factor.solve_vector(v), &response, &z);
        let value = |mean: f64| {
            let residual = response.iter().zip(&z).map(|(c, z)| z - mean * c).collect();
            NormalEvidence::new(covariance.clone(), "covariance", &Matrix::column_vector(residual))
                .unwrap()
                .value
        };
        assert!(
            value(estimate.mean) > value(estimate.mean + 1e-3)
                && value(estimate.mean) > value(estimate.mean - 1e-3)
        );
    }
}

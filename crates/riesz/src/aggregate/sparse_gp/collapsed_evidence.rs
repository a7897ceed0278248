//! Collapsed evidence of sums over bags: the values of f at the inducing points are integrated out.
//!
//! Let `Φ = PᵀK(X, W)` (bags × points), `K(W, W) = LLᵀ` and `Ψ = L⁻¹Φᵀ` (points × bags). C is the diagonal
//! matrix of noise variances (bags × bags). The residuals are `r = z - β s`, where s are the sums of weights.
//! The points leave the variances `g = diag(PᵀK(X, X)P - ΨᵀΨ)` of the sums unexplained:
//!
//! ```text
//! VFE   = log N(r; 0, ΨᵀΨ + C) - ½ tr C⁻¹ g         (Titsias 2009)
//! FITC  = log N(r; 0, ΨᵀΨ + C + g)                  (Snelson and Ghahramani 2006, of sums instead of rows)
//! ```
//!
//! Both are `log N(r; 0, ΨᵀΨ + D)` minus a penalty, which is 0 for FITC. With `Λ = I + ΨD⁻¹Ψᵀ` (points ×
//! points), no matrix is larger than bags × points or points × points. The constant mean β maximises the
//! evidence, by generalised least squares, unless it is given.

use super::bag_features::BagFeatures;
use super::{Approximation, SparseTargets};
use crate::control::RunControl;
use crate::error::Result;
use crate::gp::exact::{LeastSquaresMean, check_evidence};
use crate::gp::whitened_inducing::{WhitenedInducing, posterior_precision};
use crate::kernel::Kernel;
use crate::linalg::{Matrix, add_multiple, add_to, dot, mean, products, squared_deviations};

/// The evidence, the posterior and the terms of their gradients at one kernel and noise.
pub(super) struct CollapsedEvidence {
    pub value: f64,
    /// β.
    pub mean: f64,
    /// `V⁻¹r` with `V = ΨᵀΨ + D`, one number per target.
    pub solved_residual: Vec<f64>,
    /// Coefficients of the points.
    pub alpha: Vec<f64>,
    /// The coefficients of the whitened points, `Lᵀα`.
    whitened: Vec<f64>,
    /// The Cholesky factor L of `K(W, W)`.
    pub points: WhitenedInducing,
    /// `ΨD⁻¹Ψᵀ`, which is `Λ - I`.
    pub information: Matrix,
    /// `Λ⁻¹`.
    posterior_covariance: Matrix,
    /// `D^-½ Ψᵀ` (targets × points), and its product with `I - Λ⁻¹`.
    whitened_features: Matrix,
    scaled_features: Matrix,
    /// The diagonal of D.
    total_variances: Vec<f64>,
    /// Derivatives of the value in the unexplained variances and in the noise variances.
    grad_residual_variance: Vec<f64>,
    pub grad_noise: Vec<f64>,
    /// The diagonal of `V⁻¹`.
    pub precision: Vec<f64>,
    /// The unexplained variances of sums that V does not include, and half the sum of all unexplained
    /// variances in units of the noise variances.
    pub uncounted_variance: Vec<f64>,
    pub unexplained: f64,
    /// `V⁻¹s` and `sᵀV⁻¹s`, if the mean is estimated.
    pub gls_mean_terms: Option<(Vec<f64>, f64)>,
}

impl CollapsedEvidence {
    /// Computes the evidence of the targets. The mean is estimated unless it is given. Cost O(bags points² +
    /// points³).
    pub fn new(
        kernel: &Kernel,
        targets: &SparseTargets,
        features: &BagFeatures,
        approximation: Approximation,
        noise: &[f64],
        given_mean: Option<f64>,
    ) -> Result<Self> {
        // The sums of weights s are the targets of a constant f = 1.
        let (values, weight_sums) = (&targets.values, &targets.weight_sums);
        let bags = values.len();
        let whitening = WhitenedInducing::new(kernel, &targets.points)?;
        let factor = &whitening.factor;
        let mut psi = features.phi.clone();
        factor.solve_lower_right(&mut psi);
        // Negative values are due to rounding, or to the error of sampled rows.
        let g = |b: usize| (features.prior[b] - dot(psi.row(b), psi.row(b))).max(0.0);
        let g: Vec<f64> = (0..bags).map(g).collect();
        let is_fitc = approximation == Approximation::Fitc;
        let total_variance = |(c, g): (&f64, &f64)| if is_fitc { c + g } else { *c };
        let total_variances: Vec<f64> = noise.iter().zip(&g).map(total_variance).collect();
        let inverse_sds: Vec<f64> = total_variances.iter().map(|d| 1.0 / d.sqrt()).collect();
        psi.scale_rows(inverse_sds.iter().copied());
        let information = psi.gram_of_columns();
        let lambda = posterior_precision(&information, "posterior precision of the inducing points")?;
        // V⁻¹v, and the intermediate result Λ⁻¹ΨD⁻¹v.
        let solve = |v: &[f64]| {
            let scaled = products(v, &inverse_sds);
            let whitened = lambda.solve_vector(&psi.transpose_matvec(&scaled));
            let explained = psi.matvec(&whitened);
            let out: Vec<f64> = (0..bags).map(|b| (scaled[b] - explained[b]) * inverse_sds[b]).collect();
            (out, whitened)
        };
        let (mean, gls_mean_terms) = match given_mean {
            Some(mean) => (mean, None),
            None => {
                let estimate = LeastSquaresMean::new(|v| solve(v).0, weight_sums, values);
                (estimate.mean, Some((estimate.solved_response, estimate.precision)))
            }
        };
        let r: Vec<f64> = values.iter().zip(weight_sums).map(|(z, s)| z - mean * s).collect();
        let (solved, whitened) = solve(&r);
        let mut alpha = Matrix::column_vector(whitened.clone());
        factor.solve_upper_in_place(&mut alpha);
        let posterior_covariance = lambda.inverse();
        let mut shrinkage = posterior_covariance.clone();
        shrinkage.scale(-1.0);
        shrinkage.add_diagonal(|_| 1.0);
        let scaled_features = psi.matmul(&shrinkage);
        let precision = |b: usize| {
            (1.0 - dot(psi.row(b), psi.row(b)) + dot(psi.row(b), scaled_features.row(b))) / total_variances[b]
        };
        let precision: Vec<f64> = (0..bags).map(precision).collect();
        let log_det_d: f64 = total_variances.iter().map(|d| d.ln()).sum();
        let unexplained = 0.5 * g.iter().zip(noise).map(|(g, c)| g / c).sum::<f64>();
        let value = -0.5
            * (dot(&r, &solved) + lambda.log_det() + log_det_d + bags as f64 * std::f64::consts::TAU.ln())
            - if is_fitc { 0.0 } else { unexplained };
        let evidence_derivative = |b: usize| 0.5 * (solved[b].powi(2) - precision[b]);
        let grad_residual_variance = |b: usize| match approximation {
            _ if g[b] == 0.0 => 0.0,
            Approximation::Fitc => evidence_derivative(b),
            Approximation::Vfe => -0.5 / noise[b],
        };
        let grad_residual_variance = (0..bags).map(grad_residual_variance).collect();
        let penalty_derivative = |b: usize| if is_fitc { 0.0 } else { 0.5 * g[b] / noise[b].powi(2) };
        let grad_noise = (0..bags).map(|b| evidence_derivative(b) + penalty_derivative(b)).collect();
        let uncounted_variance = if is_fitc { vec![0.0; bags] } else { g };
        check_evidence(value, "the log marginal likelihood through inducing points")?;
        Ok(Self {
            value,
            mean,
            solved_residual: solved,
            alpha: alpha.data().to_vec(),
            whitened,
            points: whitening,
            information,
            posterior_covariance,
            whitened_features: psi,
            scaled_features,
            total_variances,
            grad_residual_variance,
            grad_noise,
            precision,
            uncounted_variance,
            unexplained,
            gls_mean_terms,
        })
    }

    /// Returns the standard error of the value, from the prior variances of targets under each sample of
    /// rows; 0 if rows are not sampled.
    pub fn standard_error(&self, priors: &[Vec<f64>]) -> f64 {
        let sample_values: Vec<f64> =
            priors.iter().map(|prior_variances| dot(prior_variances, &self.grad_residual_variance)).collect();
        if sample_values.len() < 2 {
            return 0.0;
        }
        let (count, mean) = (sample_values.len() as f64, mean(&sample_values));
        (squared_deviations(&sample_values, mean) / (count * (count - 1.0))).sqrt()
    }

    /// Returns the gradient in the kernel's parameters. Let `G = K(W, W)⁻¹Φᵀ` (points × targets) and
    /// `T = V⁻¹rrᵀV⁻¹ - V⁻¹` (targets × targets). γ is the diagonal matrix of the derivatives in the
    /// unexplained variances, and `W = T - 2γ`. The gradient is
    /// `Σ dΦ∘WGᵀ - ½ tr GWGᵀdK(W, W) + Σ_b γ_b d(PᵀKP)_bb`. With `ε = 1 + 2γD`, which is 0 for the VFE,
    /// `WGᵀ = V⁻¹r αᵀ + D⁻¹Ψᵀ(I - Λ⁻¹ - ε)L⁻¹` and `GWGᵀ = ααᵀ + L⁻ᵀ(Λ - 2I + Λ⁻¹ - ΨεD⁻¹Ψᵀ)L⁻¹`.
    pub fn kernel_gradient(
        &self,
        kernel: &Kernel,
        targets: &SparseTargets,
        features: &BagFeatures,
        control: RunControl<'_>,
    ) -> Result<Vec<f64>> {
        let (rows, points, bags) = (&targets.rows, &targets.points, self.total_variances.len());
        // This order of operations makes ε exactly 0 for the VFE.
        let epsilon = self
            .grad_residual_variance
            .iter()
            .zip(&self.total_variances)
            .map(|(g, d)| (1.0 / d + 2.0 * g) * d);
        let epsilon: Vec<f64> = epsilon.collect();
        let mut inner = self.information.clone();
        inner.add_times(1.0, &self.posterior_covariance);
        inner.add_diagonal(|_| -1.0);
        let mut by_phi = self.scaled_features.clone();
        if epsilon.iter().any(|e| *e != 0.0) {
            let mut scaled = self.whitened_features.clone();
            scaled.scale_rows(epsilon);
            by_phi.add_times(-1.0, &scaled);
            let product = self.whitened_features.transpose().matmul(&scaled);
            inner.add_times(-1.0, &product);
        }
        self.points.factor.solve_upper_right(&mut by_phi);
        for b in 0..bags {
            let (a, scale) = (self.solved_residual[b], 1.0 / self.total_variances[b].sqrt());
            by_phi.row_mut(b).iter_mut().zip(&self.alpha).for_each(|(h, alpha)| *h = a * alpha + scale * *h);
        }
        control.check_cancelled()?;
        let mut by_bag_variance = self.grad_residual_variance.clone();
        let mut pair_gradient = Vec::new();
        if let Some(mediated) = &targets.mediated {
            by_phi = mediated.operator.times(&by_phi);
            let bag_weights = mediated.grad_bag_covariance(&self.grad_residual_variance);
            by_bag_variance = (0..bag_weights.rows()).map(|b| bag_weights[(b, b)]).collect();
            pair_gradient = mediated.gradient(rows, kernel, bag_weights, control.stop)?;
        }
        let mut gradient = rows.gradient_of_features(features, kernel, points, &by_phi, control)?;
        inner.add_outer(self.whitened.iter().copied(), &self.whitened);
        inner.scale(-0.5);
        let gram_gradient = self.points.gram_gradient(kernel, points, inner);
        add_to(&mut gradient, &gram_gradient);
        for (b, weight) in by_bag_variance.iter().enumerate() {
            let variance_derivatives = &features.bag_variances.row(b)[1..];
            add_multiple(&mut gradient, *weight, variance_derivatives);
        }
        add_to(&mut gradient, &pair_gradient);
        Ok(gradient)
    }
}

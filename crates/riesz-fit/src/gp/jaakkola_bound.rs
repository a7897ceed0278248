//! A lower bound of the marginal likelihood of logistic outcomes, and the normal distribution that attains
//! it. Each logistic function is replaced by a Gaussian function below it (Jaakkola and Jordan 2000). This is
//! equivalent to a mean-field approximation under Pólya–Gamma augmentation (Polson, Scott and Windle 2013).
//! The error of [Laplace's approximation](super::laplace) may have either sign, whereas the bound never
//! exceeds the true value. As a rule the bound is further from the true value.

use std::sync::atomic::AtomicBool;

use super::laplace::{GaussianApproximation, PriorCovariance};
use super::likelihood::Likelihood;
use super::likelihood::logistic::{LogisticLikelihood, log_logistic};
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::linalg::{Matrix, differences, dot};

/// Maximal number of evaluations of the bound.
const MAX_STEPS: usize = 1000;
/// Largest change of a variational parameter c, relative to max(1, c), at convergence. The bound is
/// stationary in c, so that its error is of the order of the square of this tolerance.
const TOLERANCE: f64 = 1e-9;

/// Maximises the bound over the variational parameters c (n), and returns it as a
/// [`GaussianApproximation`]. `K` (n × n) is the prior covariance, `w_i` the weight of observation i,
/// `λ_i = w_i tanh(c_i / 2) / 4c_i`, `κ = (up - down) / 2`, `Λ = diag(λ)` and `V = (K⁻¹ + 2Λ)⁻¹`:
///
/// ```text
/// bound = Σ [w (log σ(c) - c/2) + λ c²] + ½ κᵀVκ - ½ log|I + 2 Λ^½ K Λ^½|,
/// ```
///
/// At the maximum `c_i² = (Vκ)_i² + V_ii`, which is solved by fixed-point iteration. After every two
/// fixed-point steps an extrapolated point is tried (squared extrapolation, Varadhan and Roland 2008) and
/// accepted if it raises the bound. Cost n³ for each of some tens of steps.
///
/// # Errors
/// [`Error::Parameter`] for a positive margin; [`Error::NotPositiveDefinite`]; [`Error::NotConverged`];
/// [`Error::Interrupted`].
pub fn maximise_bound(
    gram: &Matrix,
    likelihood: &LogisticLikelihood,
    stop: &AtomicBool,
) -> Result<GaussianApproximation> {
    if likelihood.margin > 0.0 {
        let allowed =
            "the bound has no margin: omit it (a tie is then half a win) or use Laplace's inference";
        return Err(Error::parameter("margin", likelihood.margin, allowed));
    }
    let n = likelihood.up.len();
    let half_difference: Vec<f64> = (0..n).map(|i| 0.5 * (likelihood.up[i] - likelihood.down[i])).collect();
    // The bound and its normal distribution for given variational parameters c.
    let state_at = |variational: &[f64]| -> Result<GaussianApproximation> {
        check_cancelled(stop)?;
        // tanh(c/2)/4c has the limit 1/8 at 0.
        let lambda = |c: f64| if c < 1e-4 { 0.125 - c * c / 96.0 } else { (0.5 * c).tanh() / (4.0 * c) };
        let root_weight: Vec<f64> =
            (0..n).map(|i| (2.0 * likelihood.weight(i) * lambda(variational[i])).sqrt()).collect();
        let factor = gram.factor_b(&root_weight)?;
        let correction = gram.apply_reduction(&factor, &root_weight, &gram.matvec(&half_difference));
        let alpha = differences(&half_difference, &correction);
        let f = gram.matvec(&alpha);
        let log_bound = |i: usize| {
            let (c, w) = (variational[i], likelihood.weight(i));
            w * (log_logistic(c) - 0.5 * c) + 0.5 * root_weight[i].powi(2) * c * c
        };
        let value =
            (0..n).map(log_bound).sum::<f64>() + 0.5 * dot(&half_difference, &f) - 0.5 * factor.log_det();
        Ok(GaussianApproximation { factor, root_weight, alpha, f, value, half_third_over_w: vec![0.0; n] })
    };
    let next = |state: &GaussianApproximation| -> Vec<f64> {
        let inverse = state.factor.inverse();
        let variance = |i: usize| (1.0 - inverse[(i, i)]).max(0.0) / state.root_weight[i].powi(2);
        (0..n).map(|i| (state.f[i].powi(2) + variance(i)).sqrt()).collect()
    };
    let mut variational: Vec<f64> = (0..n).map(|i| gram[(i, i)].max(0.0).sqrt()).collect();
    let mut state = state_at(&variational)?;
    let mut change = f64::INFINITY;
    for _ in 0..MAX_STEPS / 3 {
        let first = next(&state);
        let relative_change = first.iter().zip(&variational).map(|(a, b)| (a - b).abs() / b.max(1.0));
        change = relative_change.fold(0.0, f64::max);
        if change <= TOLERANCE {
            return state_at(&first);
        }
        let first_state = state_at(&first)?;
        let second = next(&first_state);
        let step = differences(&first, &variational);
        let curvature: Vec<f64> = (0..n).map(|i| second[i] - first[i] - step[i]).collect();
        let step_length =
            (dot(&step, &step) / dot(&curvature, &curvature).max(f64::MIN_POSITIVE)).sqrt().max(1.0);
        let extrapolated: Vec<f64> = (0..n)
            .map(|i| {
                (variational[i] + 2.0 * step_length * step[i] + step_length * step_length * curvature[i])
                    .max(0.0)
            })
            .collect();
        let tried =
            if extrapolated.iter().all(|c| c.is_finite()) { Some(state_at(&extrapolated)?) } else { None };
        (variational, state) = match tried {
            Some(tried) if tried.value >= first_state.value => (extrapolated, tried),
            _ => {
                let state = state_at(&second)?;
                (second, state)
            }
        };
    }
    Err(Error::NotConverged {
        method: "the variational bound",
        iterations: MAX_STEPS,
        change,
        remedy: "lower the kernel's scale, or use Laplace's approximation",
    })
}

//! A lower bound of the marginal likelihood of logistic outcomes, and the normal distribution that attains
//! it. The logistic function is bounded by the best Gaussian below it at each observation (Jaakkola and
//! Jordan 2000), which is the mean field of Pólya–Gamma augmentation (Polson, Scott and Windle 2013). Unlike
//! [Laplace's approximation](super::laplace), whose error may have either sign, the bound never exceeds the
//! true value; as a rule it is further from it.

use std::sync::atomic::AtomicBool;

use super::laplace::{LaplaceMode, LogisticLikelihood, apply_reduction, factor_b, log_logistic};
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix, dot};

/// Steps allowed.
const MAX_STEPS: usize = 1000;
/// The largest change of a place where a bound touches, relative to 1 or its size, after which it is left
/// there. The bound is a maximum in these places, so it is off by the square of this.
const TOLERANCE: f64 = 1e-9;

/// Everything for given places.
struct BoundState {
    root_weight: Vec<f64>,
    factor: Cholesky,
    alpha: Vec<f64>,
    mean: Vec<f64>,
    value: f64,
}

/// The best bound, as a [`Mode`]: with places c, `λ_i = w_i tanh(c_i / 2) / 4c_i`, `κ = (up - down) / 2` and
/// `V = (K⁻¹ + 2Λ)⁻¹`,
///
/// ```text
/// bound = Σ [w (log σ(c) - c/2) + λ c²] + ½ κᵀVκ - ½ log|I + 2 Λ^½ K Λ^½|,
/// ```
///
/// at its maximum `c_i² = (Vκ)_i² + V_ii`, which repeated substitution finds, each second step of which goes
/// further along its way (Varadhan and Roland 2008) if that raises the bound. Cost n³ a step (tens).
///
/// # Errors
/// [`Error::Parameter`] for a margin; [`Error::NotPositiveDefinite`]; [`Error::NotConverged`];
/// [`Error::Interrupted`].
pub(crate) fn maximise_bound(
    gram: &Matrix,
    likelihood: &LogisticLikelihood,
    stop: &AtomicBool,
) -> Result<LaplaceMode> {
    if likelihood.margin > 0.0 {
        let allowed = "the bound has no margin of ties: a tie is half a win, or the inference Laplace's";
        return Err(Error::parameter("margin", likelihood.margin, allowed));
    }
    let n = likelihood.up.len();
    let half_difference: Vec<f64> = (0..n).map(|i| 0.5 * (likelihood.up[i] - likelihood.down[i])).collect();
    let state_at = |places: &[f64]| -> Result<BoundState> {
        check_cancelled(stop)?;
        // tanh(c/2)/4c is 1/8 at 0.
        let lambda = |c: f64| if c < 1e-4 { 0.125 - c * c / 96.0 } else { (0.5 * c).tanh() / (4.0 * c) };
        let root_weight: Vec<f64> =
            (0..n).map(|i| (2.0 * likelihood.weight(i) * lambda(places[i])).sqrt()).collect();
        let factor = factor_b(gram, &root_weight)?;
        let known = apply_reduction(&factor, &root_weight, &gram.matvec(&half_difference));
        let alpha: Vec<f64> = half_difference.iter().zip(&known).map(|(k, d)| k - d).collect();
        let mean = gram.matvec(&alpha);
        let log_bound = |i: usize| {
            let (c, w) = (places[i], likelihood.weight(i));
            w * (log_logistic(c) - 0.5 * c) + 0.5 * root_weight[i].powi(2) * c * c
        };
        let value =
            (0..n).map(log_bound).sum::<f64>() + 0.5 * dot(&half_difference, &mean) - 0.5 * factor.log_det();
        Ok(BoundState { root_weight, factor, alpha, mean, value })
    };
    let next = |state: &BoundState| -> Vec<f64> {
        let inverse = state.factor.inverse();
        let variance = |i: usize| (1.0 - inverse[(i, i)]).max(0.0) / state.root_weight[i].powi(2);
        (0..n).map(|i| (state.mean[i].powi(2) + variance(i)).sqrt()).collect()
    };
    let mut places: Vec<f64> = (0..n).map(|i| gram[(i, i)].max(0.0).sqrt()).collect();
    let mut state = state_at(&places)?;
    let mut change = f64::INFINITY;
    for _ in 0..MAX_STEPS / 3 {
        let first = next(&state);
        let moved = first.iter().zip(&places).map(|(a, b)| (a - b).abs() / b.max(1.0));
        change = moved.fold(0.0, f64::max);
        if change <= TOLERANCE {
            let BoundState { root_weight, factor, alpha, mean, value } = state_at(&first)?;
            return Ok(LaplaceMode {
                factor,
                root_weight,
                alpha,
                f: mean,
                value,
                half_third_over_w: vec![0.0; n],
            });
        }
        let between = state_at(&first)?;
        let second = next(&between);
        let step: Vec<f64> = (0..n).map(|i| first[i] - places[i]).collect();
        let curvature: Vec<f64> = (0..n).map(|i| second[i] - first[i] - step[i]).collect();
        let reach = (dot(&step, &step) / dot(&curvature, &curvature).max(f64::MIN_POSITIVE)).sqrt().max(1.0);
        let ahead: Vec<f64> = (0..n)
            .map(|i| (places[i] + 2.0 * reach * step[i] + reach * reach * curvature[i]).max(0.0))
            .collect();
        let tried = if ahead.iter().all(|c| c.is_finite()) { Some(state_at(&ahead)?) } else { None };
        (places, state) = match tried {
            Some(tried) if tried.value >= between.value => (ahead, tried),
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
        remedy: "lower the kernel's scale, or take Laplace's approximation",
    })
}

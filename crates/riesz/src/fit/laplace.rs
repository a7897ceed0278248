//! Laplace's approximation for logistic outcomes: a normal distribution around the mode of the posterior of f (Rasmussen and Williams 2006, sections 3.4 and
//! 5.5.1). Shared by all models of probabilities with a Gaussian process behind, who bring their prior covariance of f as a matrix.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::expansion::logistic;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::stop::check;

/// Newton steps allowed.
const MAX_NEWTON: usize = 100;
/// At the mode α_i = w_i (y_i - π_i); the largest difference that is accepted, for a weight of 1.
const NEWTON_TOLERANCE: f64 = 1e-10;

/// The mode of the posterior.
pub(crate) struct Mode {
    /// The factor of `B = I + W^½ K W^½`, with W what the likelihood curves by: `w π (1 - π)`.
    pub factor: Cholesky,
    /// The diagonal of `W^½`.
    pub root_weight: Vec<f64>,
    /// The coefficients, `w (y - π)`.
    pub alpha: Vec<f64>,
    /// f at the observations.
    pub f: Vec<f64>,
    /// Laplace's approximation of the log marginal likelihood (equation 3.32).
    pub value: f64,
}

/// `Σ_i w_i (y_i log σ(f_i) + (1 - y_i) log σ(-f_i))`, stable for large f.
pub(crate) fn log_likelihood(y: &[f64], weight: impl Fn(usize) -> f64, f: &[f64]) -> f64 {
    let term = |(i, (&y, &f)): (usize, (&f64, &f64))| {
        // log σ(-f) is f less than log σ(f).
        weight(i) * (f.min(0.0) - (1.0 - y) * f - (-f.abs()).exp().ln_1p())
    };
    y.iter().zip(f).enumerate().map(term).sum()
}

/// The mode for outcomes from 0 to 1 (shares of 1), each of which counts as often as its weight says (`None`: once), by Newton's method (algorithm 3.1). A step that would lower
/// `log P(y|f) - ½ fᵀK⁻¹f` is halved until it does not. Cost n³/3 a step (some ten).
///
/// # Errors
/// [`Error::NotPositiveDefinite`]; [`Error::NotConverged`]; [`Error::Interrupted`].
pub(crate) fn mode(gram: &Matrix, y: &[f64], weights: Option<&[f64]>, stop: &AtomicBool) -> Result<Mode> {
    mode_from(gram, y, weights, None, stop)
}

/// The same mode, from coefficients near those that are looked for, as of a prior that is nearly the same: where they are worth more than none, they save steps.
///
/// # Errors
/// As [`mode`].
pub(crate) fn mode_from(
    gram: &Matrix,
    y: &[f64],
    weights: Option<&[f64]>,
    start: Option<&[f64]>,
    stop: &AtomicBool,
) -> Result<Mode> {
    let n = y.len();
    let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
    let (mut alpha, mut f) = (vec![0.0; n], vec![0.0; n]);
    let mut objective = log_likelihood(y, weight, &f);
    if let Some(start) = start {
        let at = gram.matvec(start);
        let value = log_likelihood(y, weight, &at) - 0.5 * dot(start, &at);
        if value > objective {
            (alpha, f, objective) = (start.to_vec(), at, value);
        }
    }
    let mut change = f64::INFINITY;
    for _ in 0..MAX_NEWTON {
        check(stop)?;
        let p: Vec<f64> = f.iter().map(|&f| logistic(f)).collect();
        let root_weight: Vec<f64> =
            p.iter().enumerate().map(|(i, p)| (weight(i) * p * (1.0 - p)).sqrt()).collect();
        let mut b = gram.clone();
        b.data_mut().par_chunks_mut(n).zip(&root_weight).for_each(|(row, r)| {
            row.iter_mut().zip(&root_weight).for_each(|(b, s)| *b *= r * s);
        });
        b.add_diagonal(|_| 1.0);
        let factor = Cholesky::new(b, "matrix of Laplace's approximation")?;
        let slope: Vec<f64> = (0..n).map(|i| weight(i) * (y[i] - p[i])).collect();
        change = (0..n).fold(0.0_f64, |a, i| a.max((slope[i] - alpha[i]).abs() / weight(i).max(1.0)));
        if change <= NEWTON_TOLERANCE {
            let value = objective - 0.5 * factor.log_det();
            return Ok(Mode { factor, root_weight, alpha, f, value });
        }
        let right: Vec<f64> = (0..n).map(|i| root_weight[i] * root_weight[i] * f[i] + slope[i]).collect();
        let scaled: Vec<f64> = gram.matvec(&right).iter().zip(&root_weight).map(|(v, r)| v * r).collect();
        let solved = factor.solve_vector(&scaled);
        let step: Vec<f64> = (0..n).map(|i| right[i] - root_weight[i] * solved[i] - alpha[i]).collect();
        let step_f = gram.matvec(&step);
        let mut t = 1.0;
        loop {
            let next_alpha: Vec<f64> = alpha.iter().zip(&step).map(|(a, s)| a + t * s).collect();
            let next_f: Vec<f64> = f.iter().zip(&step_f).map(|(f, s)| f + t * s).collect();
            let next = log_likelihood(y, weight, &next_f) - 0.5 * dot(&next_alpha, &next_f);
            // Near the mode the objective changes by less than its rounding error.
            if next >= objective - 1e-12 * objective.abs().max(1.0) || t < 1e-10 {
                (alpha, f, objective) = (next_alpha, next_f, next);
                break;
            }
            t *= 0.5;
        }
    }
    Err(Error::NotConverged {
        method: "Newton's method for the mode of the posterior",
        iterations: MAX_NEWTON,
        change,
        remedy: "lower the kernel's scale",
    })
}

impl Mode {
    /// How the value changes with the prior covariance: `∂ value/∂θ = Σ_ii' slopes_ii' ∂K_ii'/∂θ` (algorithm 5.1), with
    ///
    /// ```text
    /// slopes = ½ αα' - ½ R + ½ (u α' + α u'),   R = W^½ B⁻¹ W^½,   u = (I - R K) s,
    /// s_i = -½ (1 - 2π_i) (1 - (B⁻¹)_ii),
    /// ```
    ///
    /// where `(1 - (B⁻¹)_ii) = W_ii` times the posterior variance of f_i. Cost n³.
    pub(crate) fn slopes(self, gram: &Matrix) -> Matrix {
        let Self { factor, root_weight, alpha, f, .. } = self;
        let n = alpha.len();
        let mut slopes = factor.inverse();
        let s: Vec<f64> =
            (0..n).map(|i| -0.5 * (1.0 - 2.0 * logistic(f[i])) * (1.0 - slopes[(i, i)])).collect();
        let scaled: Vec<f64> = gram.matvec(&s).iter().zip(&root_weight).map(|(v, r)| v * r).collect();
        let solved = factor.solve_vector(&scaled);
        let u: Vec<f64> = (0..n).map(|i| s[i] - root_weight[i] * solved[i]).collect();
        slopes.data_mut().par_chunks_mut(n).enumerate().for_each(|(i, row)| {
            for (j, w) in row.iter_mut().enumerate() {
                let r = root_weight[i] * *w * root_weight[j];
                *w = 0.5 * (alpha[i] * alpha[j] - r + u[i] * alpha[j] + alpha[i] * u[j]);
            }
        });
        slopes
    }
}

//! The logistic likelihood of wins and losses given latent log odds, with the margin of ties of Rao and
//! Kupper (1967).

use super::{Likelihood, LikelihoodTerms};
use crate::kernel_model::logistic;

/// Likelihood of the outcomes given f (n):
/// `log P = Σ_i [up_i log σ(f_i - m) + down_i log σ(-f_i - m)] + constant`.
///
/// With a margin m of 0 this is logistic regression. With m > 0 it is the model of ties of Rao and Kupper
/// (1967). A tie has the probability `(e^2m - 1) σ(f - m) σ(-f - m)`; it counts for both sides and adds
/// `log(e^2m - 1)` to the constant. The log likelihood is concave in f.
pub struct LogisticLikelihood {
    /// For each observation, the weight of the outcomes that favour a large f.
    pub up: Vec<f64>,
    /// For each observation, the weight of the outcomes that favour a small f.
    pub down: Vec<f64>,
    /// The margin of ties m ≥ 0, in log odds.
    pub margin: f64,
    /// Total weight of the ties: the constant is `ties log(e^2m - 1)`.
    pub ties: f64,
}

/// Returns `log σ(x)`, stable for large |x|.
pub(crate) fn log_logistic(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}

impl LogisticLikelihood {
    /// Returns the likelihood of outcomes `y` between 0 and 1, the shares of wins. `weights` holds the weight
    /// of each outcome; `None` for 1.
    pub fn from_fractions(y: &[f64], weights: Option<&[f64]>) -> Self {
        let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
        let weighted =
            |share: fn(f64) -> f64| y.iter().enumerate().map(|(i, &y)| weight(i) * share(y)).collect();
        Self { up: weighted(|y| y), down: weighted(|y| 1.0 - y), margin: 0.0, ties: 0.0 }
    }
}

impl Likelihood for LogisticLikelihood {
    type Latent = f64;

    fn observations(&self) -> usize {
        self.up.len()
    }

    fn terms(&self, i: usize, f: f64) -> LikelihoodTerms {
        let (up, down, m) = (self.up[i], self.down[i], self.margin);
        let (win, loss) = (logistic(f - m), logistic(-f - m));
        let (no_win, no_loss) = (logistic(m - f), logistic(f + m));
        let (up_information, down_information) = (up * win * no_win, down * loss * no_loss);
        let (up_asymmetry, down_asymmetry) = (no_win - win, no_loss - loss);
        let information = up_information + down_information;
        LikelihoodTerms {
            value: weighted_log(up, f - m) + weighted_log(down, -f - m),
            first_derivative: up * no_win - down * no_loss,
            second_derivative: -information,
            information,
            d_information: up_information * up_asymmetry - down_information * down_asymmetry,
            parameter_derivatives: [
                -up * no_win - down * no_loss,
                up_information - down_information,
                -up_information * up_asymmetry - down_information * down_asymmetry,
            ],
        }
    }

    fn log_likelihood(&self, f: &[f64]) -> f64 {
        let (m, sides) = (self.margin, self.up.iter().zip(&self.down));
        let terms =
            sides.zip(f).map(|((up, down), f)| weighted_log(*up, f - m) + weighted_log(*down, -f - m));
        terms.sum::<f64>() + if self.ties > 0.0 { self.ties * (2.0 * m).exp_m1().ln() } else { 0.0 }
    }

    fn weight(&self, i: usize) -> f64 {
        self.up[i] + self.down[i]
    }

    fn has_parameter(&self) -> bool {
        self.margin > 0.0
    }

    fn constant_by_parameter(&self) -> f64 {
        -2.0 * self.ties / (-2.0 * self.margin).exp_m1()
    }
}

/// Returns `weight log σ(x)`, where 0 · -∞ is defined as 0.
fn weighted_log(weight: f64, x: f64) -> f64 {
    if weight > 0.0 { weight * log_logistic(x) } else { 0.0 }
}

/// Returns `Σ_i w_i (y_i log σ(f_i) + (1 - y_i) log σ(-f_i))`, stable for large |f|.
pub fn log_likelihood(y: &[f64], weight: impl Fn(usize) -> f64, f: &[f64]) -> f64 {
    let term = |(i, (&y, &f)): (usize, (&f64, &f64))| {
        // log σ(-f) = log σ(f) - f.
        weight(i) * (f.min(0.0) - (1.0 - y) * f - (-f.abs()).exp().ln_1p())
    };
    y.iter().zip(f).enumerate().map(term).sum()
}

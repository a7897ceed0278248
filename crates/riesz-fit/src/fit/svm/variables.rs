//! The variables β of a dual problem, with the gradients of steps up and down.

use crate::linalg::select;

/// Variables of a dual problem, one entry per variable in each vector.
pub(super) struct Variables {
    /// Half-width ε of the insensitive tube.
    pub epsilon: f64,
    pub lower: Vec<f64>,
    pub upper: Vec<f64>,
    pub beta: Vec<f64>,
    /// The gradient `Σ_s K_rs β_s + q_r` without the kink.
    pub gradient: Vec<f64>,
    /// Number to add to the gradient for a step up: ±ε, or ∞ if β_r can't increase.
    pub up_gain: Vec<f64>,
    /// Number to add to the gradient for a step down: ±ε, or -∞ if β_r can't decrease.
    pub down_gain: Vec<f64>,
    /// Diagonal of the gram matrix, `K_rr`.
    pub diagonal: Vec<f64>,
}

impl Variables {
    pub fn len(&self) -> usize {
        self.beta.len()
    }

    /// A subset of the variables, in the order of `rows`.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self {
            epsilon: self.epsilon,
            lower: select(&self.lower, rows),
            upper: select(&self.upper, rows),
            beta: select(&self.beta, rows),
            gradient: select(&self.gradient, rows),
            up_gain: select(&self.up_gain, rows),
            down_gain: select(&self.down_gain, rows),
            diagonal: select(&self.diagonal, rows),
        }
    }

    /// Sets β_r and the gains of its steps up and down.
    pub fn set_value(&mut self, r: usize, beta: f64) {
        self.beta[r] = beta;
        self.up_gain[r] = if beta >= self.upper[r] {
            f64::INFINITY
        } else if beta >= 0.0 {
            self.epsilon
        } else {
            -self.epsilon
        };
        self.down_gain[r] = if beta <= self.lower[r] {
            f64::NEG_INFINITY
        } else if beta > 0.0 {
            self.epsilon
        } else {
            -self.epsilon
        };
    }

    /// The gradient of a step up.
    pub fn up_gradient(&self, r: usize) -> f64 {
        self.gradient[r] + self.up_gain[r]
    }

    /// The gradient of a step down.
    pub fn down_gradient(&self, r: usize) -> f64 {
        self.gradient[r] + self.down_gain[r]
    }

    /// Whether β_r can move in both directions with the same gradient.
    pub fn is_free(&self, r: usize) -> bool {
        self.up_gain[r].is_finite() && self.up_gain[r] == self.down_gain[r]
    }

    /// The smallest gradient of a step up and the largest of a step down, among `rows`.
    pub fn violation_bounds(&self, rows: &[usize]) -> (f64, f64) {
        rows.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &r| {
            (low.min(self.up_gradient(r)), high.max(self.down_gradient(r)))
        })
    }
}

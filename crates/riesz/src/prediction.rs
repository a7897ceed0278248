//! What a fitted model says of rows: outputs, classes, probabilities.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::error::Result;
use crate::expansion::{Expansion, Link, first_max, logistic, shares};
use crate::linalg::Matrix;
use crate::posterior::{Covariance, Posterior};
use crate::table::Table;

/// Everything that a model predicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Rows × outputs.
    pub outputs: Matrix,
    /// The number of each row's class. `None` for regression, and where the most probable of several classes depends on a
    /// posterior that is not there.
    pub classes: Option<Vec<usize>>,
    /// Rows × classes; `None` for regression and support vector machines, and where they depend on a posterior that is not there.
    pub probabilities: Option<Matrix>,
}

impl Prediction {
    /// Predicts the rows of `x`. The probabilities of a Gaussian process classifier are averages over its posterior,
    /// `∫ σ(f) p(f | data) df`, nearer to ½ than the logistic function of the mean; for more than two classes divided by their sum.
    /// The integral is exact to rounding (scikit-learn's, a sum of five error functions, differs by up to 5e-4, measured). The class is
    /// the most probable one.
    ///
    /// # Errors
    /// As [`Expansion::predict`], [`Posterior::new`] and [`Posterior::variance`].
    pub fn of(model: &Expansion, covariance: Option<&Covariance>, x: &Table) -> Result<Self> {
        Self::until(model, covariance, x, &AtomicBool::new(false))
    }

    /// As [`of`](Self::of), unless another thread sets `stop` to give up.
    ///
    /// # Errors
    /// As [`of`](Self::of); [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn until(
        model: &Expansion,
        covariance: Option<&Covariance>,
        x: &Table,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let outputs = model.predict_until(x, stop)?;
        let averages = match (model.link, covariance) {
            (Link::LatentLogistic | Link::LatentOneVsRest, Some(covariance)) => {
                Some(averages(&outputs, &Posterior::new(model, covariance)?.heeding(stop).variance(x)?))
            }
            _ => None,
        };
        let rows = || (0..outputs.rows()).map(|i| outputs.row(i));
        let classes = match &averages {
            Some(each) => Some(each.iter().map(|p| first_max(p)).collect()),
            None => rows().map(|row| model.class_of(row)).collect(),
        };
        let probabilities = averages
            .or_else(|| rows().map(|row| model.probabilities(row)).collect())
            .map(|p| Matrix::from_row_major(p.len(), model.classes.len(), p.concat()));
        Ok(Self { outputs, classes, probabilities })
    }
}

/// The classes' probabilities in every row, from means and variances of latent functions.
fn averages(mean: &Matrix, variance: &Matrix) -> Vec<Vec<f64>> {
    let latent = mean.data().par_iter().zip(variance.data());
    let each: Vec<f64> = latent.map(|(mean, variance)| mean_logistic(*mean, *variance)).collect();
    match mean.cols() {
        1 => each.iter().map(|p| vec![1.0 - p, *p]).collect(),
        m => each.chunks(m).map(shares).collect(),
    }
}

/// `E σ(f)` for normal f, by the trapezoidal rule, whose error for functions analytic in a strip around the real line
/// falls like `exp(-2π · half-width of the strip / step)` (Trefethen and Weideman 2014): the poles of σ(mean + s z)
/// lie π/s from it, and the normal density alone asks for steps of at most 0.7.
fn mean_logistic(mean: f64, variance: f64) -> f64 {
    const REACH: f64 = 8.5;
    const MOST: f64 = 1e6;
    let s = variance.sqrt();
    let count = (REACH / (0.6 / s).min(0.7)).ceil().min(MOST);
    let step = REACH / count;
    let (mut sum, mut total) = (0.0, 0.0);
    for k in -(count as i64)..=count as i64 {
        let z = k as f64 * step;
        let density = (-0.5 * z * z).exp();
        sum += density * logistic(mean + s * z);
        total += density;
    }
    sum / total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symmetry, the limit of no variance, and the limit of much variance, a probit of the mean.
    #[test]
    fn the_average_of_the_logistic_function() {
        for (mean, variance) in [(0.0, 3.0), (1.3, 0.2), (-4.0, 17.0), (2.0, 1e4)] {
            let (p, q) = (mean_logistic(mean, variance), mean_logistic(-mean, variance));
            assert!((p + q - 1.0).abs() < 1e-14, "{p} {q}");
        }
        assert!((mean_logistic(1.3, 0.0) - logistic(1.3)).abs() < 1e-15);
        // E σ(f) = ∫ σ'(t) Φ((m - t)/s) dt, and Φ is nearly ½ + φ(0)(m - t)/s.
        let expected = 0.5 + 2.0 / (std::f64::consts::TAU * 1e10).sqrt();
        assert!((mean_logistic(2.0, 1e10) - expected).abs() < 1e-12);
    }
}

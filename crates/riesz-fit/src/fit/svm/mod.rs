//! Support vector machines: classification, regression and one-class, by sequential minimal optimisation on
//! working sets.
//!
//! The optimum is that of LIBSVM (Chang and Lin, ACM TIST 2011), with the same dual problems, stopping rule
//! and intercept. Any [`Kernel`](crate::Kernel) works, and only support vectors are kept.

mod one_class;
mod smo;
mod solver;
mod svc;
mod svr;
mod variables;
mod working_set;

pub use one_class::{OneClassFit, OneClassSupportVector};
pub(super) use svc::SVC;
pub use svc::{SupportVectorClassifier, SvcFit};
pub(super) use svr::SVR;
pub use svr::{SupportVectorRegressor, SvrFit};

use crate::error::{Error, Result};
use crate::linalg::Matrix;

/// The remedy for a fit that stopped early.
const UNCONVERGED_REMEDY: &str = "standardise the columns, lower C, raise tol or raise max_iter";
/// LIBSVM's default stopping tolerance.
const TOLERANCE: f64 = 1e-3;
/// Default memory for working sets: 200 MB, the default cache of LIBSVM and scikit-learn.
const CACHE_BYTES: usize = 200 << 20;

/// Checks the tolerance. Below 1e-12, rounding errors of the gradient would count as violations.
fn check_tolerance(tolerance: f64) -> Result<()> {
    if tolerance.is_finite() && tolerance >= 1e-12 {
        return Ok(());
    }
    Err(Error::parameter("tolerance", tolerance, "it must be at least 1e-12"))
}

/// The bounds of the coefficients, `c` times the weights, after a check that they are finite.
fn weighted_bounds(c: f64, weights: &[f64]) -> Result<Vec<f64>> {
    let bounds: Vec<f64> = weights.iter().map(|w| c * w).collect();
    match bounds.iter().find(|b| !b.is_finite()) {
        Some(bad) => Err(Error::parameter("C times weight", bad, "lower C or the weights")),
        None => Ok(bounds),
    }
}

/// Coefficients of one output: indices of rows and their β.
type DualOutput = (Vec<usize>, Vec<f64>);

/// The rows with a nonzero coefficient in some output, ascending, and their coefficients (rows × outputs).
fn support_vectors(rows: usize, outputs: &[DualOutput]) -> (Vec<usize>, Matrix) {
    let mut used = vec![false; rows];
    for (rows, beta) in outputs {
        rows.iter().zip(beta).filter(|(_, b)| **b != 0.0).for_each(|(&r, _)| used[r] = true);
    }
    let support: Vec<usize> = (0..rows).filter(|&r| used[r]).collect();
    let mut position = vec![0; rows];
    support.iter().enumerate().for_each(|(p, &r)| position[r] = p);
    let mut coef = Matrix::zeros(support.len(), outputs.len());
    for (o, (rows, beta)) in outputs.iter().enumerate() {
        for (&r, &b) in rows.iter().zip(beta).filter(|(_, b)| **b != 0.0) {
            coef[(position[r], o)] = b;
        }
    }
    (support, coef)
}

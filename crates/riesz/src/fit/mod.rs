//! Estimators. Each is a struct of its settings with a `fit` that yields an
//! [`KernelExpansion`](crate::KernelExpansion) in the user's units, and whatever else the method knows (a
//! [`Posterior`](crate::Posterior), evidence, support vectors, leave-one-out error).
//!
//! | estimator | loss | solver |
//! |---|---|---|
//! | [`KernelRidge`] | squared | Cholesky; ridge by leave-one-out from one eigendecomposition |
//! | [`GaussianProcess`] | Gaussian likelihood | Cholesky; kernel and noise by marginal likelihood |
//! | [`SparseGaussianProcess`] | Gaussian likelihood | sums over rows, Cholesky of inducing points; kernel and noise by a lower bound of the marginal likelihood |
//! | [`GaussianProcessClassifier`] | logistic | Laplace's approximation |
//! | [`KernelLogisticRegression`] | logarithmic | damped Newton |
//! | [`SupportVectorClassifier`], [`SupportVectorRegressor`], [`OneClassSupportVector`] | hinge, ε-insensitive, one-class | sequential minimal optimisation on working sets |
//!
//! A [`Penalty`] on functionals of the model, such as Shapley values, can be added to ridge and logistic
//! regression. Settings are chosen with [`cross_validation`].

mod bootstrap;
mod class_weights;
pub mod cross_validation;
mod gp;
mod gpc;
mod grid_search;
pub(crate) mod hyperparameter_average;
pub(crate) mod hyperparameter_search;
mod hyperparameters;
pub(crate) mod inducing;
pub(crate) mod jaakkola_bound;
mod jackknife;
mod klr;
pub(crate) mod laplace;
mod logistic;
mod logistic_landmarks;
pub mod models;
pub mod nystrom;
mod penalty;
mod ridge;
mod sparse_gp;
mod svm;
mod target_scaling;
mod task;
mod through_landmarks;
pub(crate) mod whitening;

pub use class_weights::ClassWeight;
pub use gp::{GaussianProcess, GpFit};
pub use gpc::{GaussianProcessClassifier, GpcFit};
pub use hyperparameters::TunedParameters;
pub use inducing::inducing_points;
pub use logistic::{KernelLogisticRegression, KlrFit, WarmStart};
pub use models::MODELS;
pub use penalty::Penalty;
pub use ridge::{KernelRidge, RidgeFit};
pub(crate) use sparse_gp::InducingLaplace;
pub use sparse_gp::{KernelSums, Landmarks, SparseGaussianProcess, SparseGpFit, SparsePosterior};
pub use svm::{
    OneClassFit, OneClassSupportVector, SupportVectorClassifier, SupportVectorRegressor, SvcFit, SvrFit,
};
pub(crate) use target_scaling::mean_variance_of_sums;
pub use task::{FitTask, FittedModel, ModelKind, OptionalInput, OutputType, PenaltyOf, Target};

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::table::Table;

/// Checks the common requirements of all estimators: rows, columns and one target per row.
pub(crate) fn check(x: &Table, targets: usize, minimum: usize) -> Result<()> {
    if x.width() == 0 {
        return Err(Error::TooFew { subject: "the table".into(), needed: 1, unit: "feature column is" });
    }
    if x.rows() < minimum {
        let unit = if minimum == 1 { "row is" } else { "rows are" };
        return Err(Error::TooFew {
            subject: format!("a table of {} row(s)", x.rows()),
            needed: minimum,
            unit,
        });
    }
    if targets != x.rows() {
        return Err(Error::Shape {
            subject: "the target".into(),
            unit: "numbers",
            expected: x.rows(),
            actual: targets,
            why: "one a row of the table".into(),
        });
    }
    Ok(())
}

/// Checks what every classifier needs: rows, columns, one label a row, distinct classes and rows of each.
pub(crate) fn check_labels(x: &Table, labels: &[usize], classes: &[String]) -> Result<()> {
    check(x, labels.len(), 2)?;
    let target = |problem: String| Err(Error::Target { name: "labels".into(), problem });
    if let Some(r) = labels.iter().position(|&l| l >= classes.len()) {
        let (label, row, count) = (labels[r], r + 1, classes.len());
        return target(format!(
            "is class number {label} (from 0) in row {row}, but there are {count} classes"
        ));
    }
    let mut names: Vec<&String> = classes.iter().collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::DuplicateName { name: pair[0].clone() });
    }
    if labels.iter().all(|l| *l == labels[0]) {
        let only = &classes[labels[0]];
        return target(format!("is '{only}' in every row: a classifier needs rows of at least two classes"));
    }
    if let Some(k) = (0..classes.len()).find(|k| !labels.contains(k)) {
        let name = &classes[k];
        return target(format!(
            "has no rows for the class '{name}': a classifier needs some for every class"
        ));
    }
    Ok(())
}

/// Checks that the kernel does not overflow on its diagonal, where positive definite kernels are largest.
pub(crate) fn check_range(kernel: &Kernel, x: &Table) -> Result<()> {
    let diagonal = kernel.diagonal(x);
    match diagonal.iter().position(|k| !k.is_finite()) {
        None => Ok(()),
        Some(row) => Err(Error::Overflow {
            subject: format!("the kernel at row {}", row + 1),
            remedy: "standardise the columns or change the kernel's parameters",
        }),
    }
}

/// Refuses a fit that sees every pair of rows where so many kernel matrices do not fit into memory; `remedy`
/// is what else there is.
pub(crate) fn check_dense(rows: usize, matrices: f64, remedy: &str) -> Result<()> {
    let needed = matrices * (rows as f64).powi(2);
    crate::memory::ensure_free(needed as usize).map_err(|free| {
        let (needed, free) = (8e-9 * needed, 8e-9 * free as f64);
        let allowed = format!(
            "a fit that sees every pair of rows takes {needed:.1} GB of memory, and {free:.1} GB are free: \
             {remedy}fit to fewer rows"
        );
        Error::parameter("number of rows", rows, allowed)
    })
}

/// Advice of the kinds of model that can learn through landmarks, for error messages.
pub(crate) const THROUGH_LANDMARKS: &str =
    "learn through landmarks (landmarks = 2000; --landmarks 2000 on the command line), or ";

/// Checks a parameter that must be positive.
pub(crate) fn positive(name: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::parameter(name, value, "it is a positive number"))
}

/// The given weights after checks, or ones.
pub(crate) fn sample_weights(given_weights: Option<&[f64]>, x: &Table) -> Result<Vec<f64>> {
    let Some(given_weights) = given_weights else { return Ok(vec![1.0; x.rows()]) };
    if given_weights.len() != x.rows() {
        return Err(Error::Shape {
            subject: "sample_weight".into(),
            unit: "numbers",
            expected: x.rows(),
            actual: given_weights.len(),
            why: "one a row of the table".into(),
        });
    }
    if let Some(bad) = given_weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
        return Err(Error::parameter("sample_weight", bad, "weights are not negative; 0 leaves the row out"));
    }
    Ok(given_weights.to_vec())
}

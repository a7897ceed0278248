//! Estimators. Each is a struct of settings with a `fit` method. It returns a
//! [`KernelExpansion`](riesz_core::KernelExpansion) in the user's units, with further results of the method
//! (a [`Posterior`](riesz_core::Posterior), evidence, support vectors, leave-one-out error).
//!
//! | estimator | loss | solver |
//! |---|---|---|
//! | [`KernelRidge`] | squared | Cholesky; ridge by leave-one-out from one eigendecomposition |
//! | [`GaussianProcess`] | Gaussian likelihood | Cholesky; kernel and noise by marginal likelihood |
//! | [`SparseGaussianProcess`] | Gaussian likelihood | Cholesky of inducing points; lower evidence bound |
//! | [`GaussianProcessClassifier`] | logistic | Laplace's approximation |
//! | [`KernelLogisticRegression`] | logarithmic | damped Newton |
//! | [`SupportVectorClassifier`] | hinge | sequential minimal optimisation on working sets |
//! | [`SupportVectorRegressor`] | ε-insensitive | sequential minimal optimisation on working sets |
//! | [`OneClassSupportVector`] | one-class | sequential minimal optimisation on working sets |
//!
//! A [`Penalty`] on functionals of the model, such as Shapley values, can be added to ridge and logistic
//! regression, support vector machines and the exact Gaussian process. Settings are chosen with
//! [`cross_validation`].

mod bootstrap;
mod class_weights;
pub mod cross_validation;
mod gp;
mod gpc;
mod grid_search;
mod jackknife;
mod klr;
mod logistic;
pub mod models;
pub mod nystrom;
mod penalty;
mod ridge;
mod sparse_gp;
mod svm;
mod target_scaling;
mod task;
mod through_landmarks;

pub use crate::gp::average::{PosteriorMixture, WithPosterior};
pub use crate::gp::hyperparameters::TunedParameters;
pub use crate::gp::inducing_points::inducing_points;
pub use crate::gp::inference::Inference;
pub use crate::gp::leave_one_out::LeaveOneOut;
pub use class_weights::ClassWeight;
pub use gp::{GaussianProcess, GpFit};
pub use gpc::{GaussianProcessClassifier, GpcFit};
pub use logistic::{KernelLogisticRegression, KlrFit, WarmStart};
pub use models::MODELS;
pub use penalty::{DualFit, PenalisedGram, Penalty};
pub use ridge::{KernelRidge, RidgeFit};
pub(crate) use sparse_gp::InducingLaplace;
pub use sparse_gp::{InducingPoints, KernelSums, SparseGaussianProcess, SparseGpFit, SparsePosterior};
pub use svm::{
    OneClassFit, OneClassSupportVector, SupportVectorClassifier, SupportVectorRegressor, SvcFit, SvrFit,
};
pub use target_scaling::mean_variance_of_sums;
pub use task::{FitTask, FittedModel, ModelKind, OptionalInput, OutputType, PenaltyOf, Target};

use crate::checks::{check_rows, not_negative};
use crate::error::{Error, Result, check_distinct, sized};
use crate::table::Table;

/// Checks the requirements of all classifiers: rows, columns, one label per row, distinct classes and rows of
/// each class.
pub(crate) fn check_labels(x: &Table, labels: &[usize], classes: &[String]) -> Result<()> {
    check_rows(x, labels.len(), 2)?;
    let target = |problem: String| Err(Error::target("labels", problem));
    check_label_range(labels, classes)?;
    check_distinct(classes)?;
    if labels.iter().all(|l| *l == labels[0]) {
        let only = &classes[labels[0]];
        return target(format!("is '{only}' in every row: a classifier needs rows of at least two classes"));
    }
    if let Some(k) = (0..classes.len()).find(|k| !labels.contains(k)) {
        let name = &classes[k];
        return target(format!("has no rows for the class '{name}': a classifier needs rows of every class"));
    }
    Ok(())
}

/// Checks that all labels are indices into `classes`.
fn check_label_range(labels: &[usize], classes: &[String]) -> Result<()> {
    let Some(r) = labels.iter().position(|&l| l >= classes.len()) else { return Ok(()) };
    let (label, row, count) = (labels[r], r + 1, classes.len());
    let problem = format!("is class number {label} (from 0) in row {row}, but there are {count} classes");
    Err(Error::target("labels", problem))
}

/// Checks that `matrices` kernel matrices of all pairs of rows fit into memory. `remedy` names alternatives
/// for the error message.
pub(crate) fn check_dense(rows: usize, matrices: f64, remedy: &str) -> Result<()> {
    let needed = matrices * (rows as f64).powi(2);
    crate::memory::ensure_free(needed as usize).map_err(|free| {
        let (needed, free) = (8e-9 * needed, 8e-9 * free as f64);
        let allowed = format!(
            "the kernel matrix of all rows takes {needed:.1} GB of memory, but {free:.1} GB are free: \
             {remedy}fit to fewer rows"
        );
        Error::parameter("number of rows", rows, allowed)
    })
}

/// Advice for error messages of models that can be fitted through landmarks.
pub(crate) const THROUGH_LANDMARKS: &str =
    "fit through landmarks (n_landmarks = 2000; --landmarks 2000 on the command line), or ";

/// Returns the given weights after checks, or ones.
pub(crate) fn sample_weights(given_weights: Option<&[f64]>, x: &Table) -> Result<Vec<f64>> {
    let Some(given_weights) = given_weights else { return Ok(vec![1.0; x.rows()]) };
    sized("sample_weight", "numbers", x.rows(), given_weights.len(), "one for each row of the table")?;
    let allowed = "weights must not be negative (0 omits the row)";
    given_weights.iter().try_for_each(|w| not_negative("sample_weight", *w, allowed))?;
    Ok(given_weights.to_vec())
}

/// The places of the positive weights.
pub(crate) fn positive_places(weights: &[f64]) -> Vec<usize> {
    (0..weights.len()).filter(|&i| weights[i] > 0.0).collect()
}

//! Fitting: arrays in, a fitted model out.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::fit::{
    ClassWeight, GaussianProcess, GaussianProcessClassifier, KernelLogisticRegression, KernelRidge,
    NewtonState, Penalty, SupportVectorClassifier, SupportVectorRegressor, Tune,
};
use riesz::question::Subject;
use riesz::{Column, Covariance, Kernel, Matrix, Table};

use crate::question::Settings;
use crate::{Expansion, matrix, raise, refuse, table};

/// A kernel in riesz's JSON form.
pub(crate) fn kernel(json: &str) -> PyResult<Kernel> {
    serde_json::from_str(json).map_err(refuse)
}

/// Rows under the names of their columns.
fn named(names: Vec<String>, rows: &PyReadonlyArray2<'_, f64>) -> PyResult<Table> {
    let columns: Vec<Column> = names.into_iter().map(Column::numeric).collect();
    table(&columns, rows.as_array()).map_err(refuse)
}

fn targets(y: &PyReadonlyArray2<'_, f64>) -> Matrix {
    let y = y.as_array();
    Matrix::from_row_major(y.nrows(), y.ncols(), y.iter().copied().collect())
}

fn weights_of_classes(weights: Option<Vec<f64>>) -> ClassWeight {
    weights.map_or(ClassWeight::None, ClassWeight::PerClass)
}

fn expansion(model: riesz::Expansion) -> Expansion {
    Expansion { model: Arc::new(model), covariance: None, groups: None }
}

/// Kernel ridge regression.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python class")]
pub fn kernel_ridge(
    py: Python<'_>,
    kernel: &str,
    names: Vec<String>,
    x: PyReadonlyArray2<'_, f64>,
    y: PyReadonlyArray2<'_, f64>,
    alpha: f64,
    fit_intercept: bool,
    sample_weight: Option<Vec<f64>>,
    penalty: Option<Penalising<'_>>,
) -> PyResult<Expansion> {
    let mut estimator = KernelRidge::new(self::kernel(kernel)?, alpha);
    estimator.sample_weight = sample_weight;
    estimator.center = fit_intercept;
    estimator.penalty = penalty.map(self::penalty);
    let (x, y) = (named(names, &x)?, targets(&y));
    py.detach(|| estimator.fit(&x, &y)).map(|fit| expansion(fit.model)).map_err(raise)
}

/// Functionals, strength, and of how many coalitions they are estimates.
type Penalising<'py> = (PyReadonlyArray2<'py, f64>, f64, Option<usize>);

fn penalty((functionals, strength, sampled): Penalising<'_>) -> Penalty {
    Penalty { functionals: targets(&functionals), strength, sampled }
}

/// The Shapley values of players at the rows of `x` as functionals of a model's coefficients: rows × (players · rows), and of how many
/// coalitions they are estimates, if they are.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn functionals<'py>(
    py: Python<'py>,
    kernel: &str,
    names: Vec<String>,
    x: PyReadonlyArray2<'_, f64>,
    settings: &Settings,
    background: PyReadonlyArray2<'_, f64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
    groups: Vec<(String, Vec<usize>)>,
    protected: Vec<String>,
) -> PyResult<(Bound<'py, PyArray2<f64>>, Option<usize>)> {
    let kernel = self::kernel(kernel)?;
    let x = named(names, &x)?;
    let question =
        settings.ask(Subject::Protection, x.columns(), Some(&background), weights.as_ref(), None)?;
    let question = question.with_players(Some(crate::players(x.columns(), groups)?));
    let found =
        py.detach(|| riesz::regularised::penalty(&kernel, &x, question, &protected, 0.0)).map_err(raise)?;
    let Penalty { functionals: z, sampled, .. } = found;
    Ok((crate::matrix(z.rows(), z.cols(), z.data().to_vec())?.into_pyarray(py), sampled))
}

/// Coefficients (rows × outputs) and intercepts that Newton's method starts from.
type Start<'py> = (PyReadonlyArray2<'py, f64>, Vec<f64>);

/// Where Newton's method ended.
type End<'py> = (Bound<'py, PyArray2<f64>>, Vec<f64>);

/// Kernel logistic regression: the model, its Newton steps, whether they converged, and where they ended.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python class")]
pub fn kernel_logistic_regression<'py>(
    py: Python<'py>,
    kernel: &str,
    names: Vec<String>,
    x: PyReadonlyArray2<'_, f64>,
    labels: Vec<usize>,
    classes: Vec<String>,
    alpha: f64,
    class_weight: Option<Vec<f64>>,
    sample_weight: Option<Vec<f64>>,
    max_iter: usize,
    penalty: Option<Penalising<'_>>,
    start: Option<Start<'_>>,
) -> PyResult<(Expansion, usize, bool, End<'py>)> {
    let mut estimator = KernelLogisticRegression::new(self::kernel(kernel)?, alpha);
    estimator.penalty = penalty.map(self::penalty);
    estimator.class_weight = weights_of_classes(class_weight);
    estimator.sample_weight = sample_weight;
    estimator.max_iterations = max_iter;
    estimator.keep_unfinished = true;
    estimator.start = start.map(|(coef, intercept)| NewtonState { coef: targets(&coef), intercept });
    let x = named(names, &x)?;
    let fit = py.detach(|| estimator.fit(&x, &labels, &classes)).map_err(raise)?;
    let NewtonState { coef, intercept } = fit.end;
    let coef = matrix(coef.rows(), coef.cols(), coef.data().to_vec())?.into_pyarray(py);
    Ok((expansion(fit.model), fit.iterations, fit.converged, (coef, intercept)))
}

/// Support vector classification: the model, the support vectors' rows, the iterations of each pair, and
/// whether all converged.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python class")]
pub fn svc(
    py: Python<'_>,
    kernel: &str,
    names: Vec<String>,
    x: PyReadonlyArray2<'_, f64>,
    labels: Vec<usize>,
    classes: Vec<String>,
    c: f64,
    class_weight: Option<Vec<f64>>,
    sample_weight: Option<Vec<f64>>,
    tol: f64,
    max_iter: Option<usize>,
) -> PyResult<(Expansion, Vec<usize>, Vec<usize>, bool)> {
    let mut estimator = SupportVectorClassifier::new(self::kernel(kernel)?, c);
    estimator.class_weight = weights_of_classes(class_weight);
    estimator.sample_weight = sample_weight;
    estimator.tolerance = tol;
    estimator.max_iterations = max_iter;
    // Without a limit of the user's own, not to converge is an error.
    estimator.keep_unfinished = max_iter.is_some();
    let x = named(names, &x)?;
    let fit = py.detach(|| estimator.fit(&x, &labels, &classes)).map_err(raise)?;
    Ok((expansion(fit.model), fit.support, fit.iterations, fit.converged))
}

/// Support vector regression: the model, the support vectors' rows, the iterations, and whether they converged.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python class")]
pub fn svr(
    py: Python<'_>,
    kernel: &str,
    names: Vec<String>,
    x: PyReadonlyArray2<'_, f64>,
    y: Vec<f64>,
    c: f64,
    epsilon: f64,
    sample_weight: Option<Vec<f64>>,
    tol: f64,
    max_iter: Option<usize>,
) -> PyResult<(Expansion, Vec<usize>, usize, bool)> {
    let mut estimator = SupportVectorRegressor::new(self::kernel(kernel)?, c, epsilon);
    estimator.sample_weight = sample_weight;
    estimator.tolerance = tol;
    estimator.max_iterations = max_iter;
    // Without a limit of the user's own, not to converge is an error.
    estimator.keep_unfinished = max_iter.is_some();
    let x = named(names, &x)?;
    let fit = py.detach(|| estimator.fit(&x, &y)).map_err(raise)?;
    Ok((expansion(fit.model), fit.support, fit.iterations, fit.converged))
}

/// A fitted Gaussian process: its mean, which knows how sure it is, and what was found by maximising the evidence.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct Tuned {
    model: Py<Expansion>,
    log_marginal_likelihood: f64,
    noise: Option<f64>,
    warnings: Vec<String>,
}

impl Tuned {
    fn new(
        py: Python<'_>,
        model: riesz::Expansion,
        covariance: Covariance,
        log_marginal_likelihood: f64,
        noise: Option<f64>,
        warnings: Vec<String>,
    ) -> PyResult<Self> {
        let model = Expansion { covariance: Some(Arc::new(covariance)), ..expansion(model) };
        Ok(Self { model: Py::new(py, model)?, log_marginal_likelihood, noise, warnings })
    }
}

/// Gaussian process regression.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python class")]
pub fn gaussian_process(
    py: Python<'_>,
    kernel: &str,
    names: Vec<String>,
    x: PyReadonlyArray2<'_, f64>,
    y: PyReadonlyArray2<'_, f64>,
    noise: f64,
    tune_kernel: bool,
    tune_noise: bool,
    normalize_y: bool,
    restarts: usize,
    seed: u64,
) -> PyResult<Tuned> {
    let mut estimator = GaussianProcess::new(self::kernel(kernel)?, noise);
    estimator.tune = match (tune_kernel, tune_noise) {
        (true, true) => Tune::KernelAndNoise,
        (true, false) => Tune::Kernel,
        (false, _) => Tune::Nothing,
    };
    estimator.normalize_y = normalize_y;
    estimator.restarts = restarts;
    estimator.seed = seed;
    let (x, y) = (named(names, &x)?, targets(&y));
    let fit = py.detach(|| estimator.fit(&x, &y)).map_err(raise)?;
    Tuned::new(py, fit.model, fit.covariance, fit.log_marginal_likelihood, Some(fit.noise), fit.warnings)
}

/// Gaussian process classification.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of the Python class")]
pub fn gaussian_process_classifier(
    py: Python<'_>,
    kernel: &str,
    names: Vec<String>,
    x: PyReadonlyArray2<'_, f64>,
    labels: Vec<usize>,
    classes: Vec<String>,
    tune: bool,
    restarts: usize,
    seed: u64,
) -> PyResult<Tuned> {
    let mut estimator = GaussianProcessClassifier::new(self::kernel(kernel)?);
    estimator.tune = tune;
    estimator.restarts = restarts;
    estimator.seed = seed;
    let x = named(names, &x)?;
    let fit = py.detach(|| estimator.fit(&x, &labels, &classes)).map_err(raise)?;
    Tuned::new(py, fit.model, fit.covariance, fit.log_marginal_likelihood, None, fit.warnings)
}

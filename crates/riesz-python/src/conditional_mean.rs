//! Conditional mean embeddings for Python; see [`riesz::conditional_mean`].

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::conditional_mean::{BayesianConditionalMean, ConditionalMeanFit, RidgeChoice};
use riesz::{Error, Matrix, Table};

use crate::thread_pools::{Threads, interruptible};
use crate::{NamedRows, fit, matrix, raise, refuse, sample};

/// The settings of a fit.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ConditionalMeanInput {
    /// The kernels of X and of Y in JSON; `None` for the default kernels.
    kernel_x: Option<String>,
    kernel_y: Option<String>,
    /// The ridge η; `None` to choose it.
    ridge: Option<f64>,
    scale: Option<f64>,
    centered: bool,
    /// Whether the marginal likelihood chooses the kernel of X, and the ridge if it is not given; otherwise
    /// left-out rows choose the ridge.
    tune: bool,
}

/// A fitted conditional mean embedding.
#[pyclass(frozen, module = "riesz._core")]
pub struct ConditionalMeanModel {
    fit: Arc<ConditionalMeanFit>,
}

/// A matrix as an array.
fn array<'py>(py: Python<'py>, numbers: Matrix) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (rows, cols) = (numbers.rows(), numbers.cols());
    Ok(matrix(rows, cols, numbers.into_data())?.into_pyarray(py))
}

fn from_array(numbers: &PyReadonlyArray2<'_, f64>) -> Matrix {
    let numbers = numbers.as_array();
    Matrix::from_row_major(numbers.nrows(), numbers.ncols(), numbers.iter().copied().collect())
}

impl ConditionalMeanModel {
    /// The result of `work` for the fit at some rows.
    fn evaluate<T: Send + 'static>(
        &self,
        py: Python<'_>,
        rows: NamedRows<'_>,
        work: impl FnOnce(&ConditionalMeanFit, &Table) -> Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let (fit, rows) = (Arc::clone(&self.fit), sample(rows)?);
        interruptible(py, &Threads::per_core(), &Arc::default(), move || work(&fit, &rows))?.map_err(raise)
    }
}

/// Means (rows × functions), the covariance R (rows × rows), the variance of each function, and the part of
/// the covariance from the uncertainty of the functions.
type Expectation<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Vec<f64>, Option<Bound<'py, PyArray2<f64>>>);

#[pymethods]
impl ConditionalMeanModel {
    #[new]
    fn new(
        py: Python<'_>,
        x: NamedRows<'_>,
        y: NamedRows<'_>,
        settings: ConditionalMeanInput,
    ) -> PyResult<Self> {
        let (x, y) = (sample(x)?, sample(y)?);
        let kernel = |json: Option<String>| json.as_deref().map(fit::kernel).transpose();
        let prior = BayesianConditionalMean {
            kernel_x: kernel(settings.kernel_x)?,
            kernel_y: kernel(settings.kernel_y)?,
            ridge: match (settings.ridge, settings.tune) {
                (Some(ridge), _) => RidgeChoice::Fixed(ridge),
                (None, true) => RidgeChoice::Evidence,
                (None, false) => RidgeChoice::LeaveOneOut,
            },
            tune_kernel: settings.tune,
            scale: settings.scale,
            centered: settings.centered,
            ..BayesianConditionalMean::default()
        };
        let stop = Arc::clone(&prior.stop);
        let fit = interruptible(py, &Threads::per_core(), &stop, move || prior.fit(&x, &y))?;
        Ok(Self { fit: Arc::new(fit.map_err(raise)?) })
    }

    /// The kernels of X and of Y in JSON.
    #[getter]
    fn kernels(&self) -> PyResult<[String; 2]> {
        let json = |kernel| serde_json::to_string(kernel).map_err(refuse);
        Ok([json(&self.fit.kernel_x)?, json(&self.fit.kernel_y)?])
    }

    #[getter]
    fn ridge(&self) -> f64 {
        self.fit.ridge
    }

    #[getter]
    fn scale(&self) -> f64 {
        self.fit.scale
    }

    #[getter]
    fn log_evidence(&self) -> f64 {
        self.fit.log_evidence
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.fit.warnings.clone()
    }

    /// The weights of the training rows, rows × training rows.
    fn weights<'py>(&self, py: Python<'py>, x: NamedRows<'_>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        array(py, self.evaluate(py, x, |fit, x| fit.weights(x))?)
    }

    /// The covariance R, rows × rows.
    fn residual_covariance<'py>(
        &self,
        py: Python<'py>,
        x: NamedRows<'_>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        array(py, self.evaluate(py, x, |fit, x| fit.residual_covariance(x))?)
    }

    /// The expectations of functions with `values` at the training rows (training rows × functions), and with
    /// a posterior covariance there if they are uncertain.
    fn expectation<'py>(
        &self,
        py: Python<'py>,
        values: PyReadonlyArray2<'_, f64>,
        covariance: Option<PyReadonlyArray2<'_, f64>>,
        x: NamedRows<'_>,
    ) -> PyResult<Expectation<'py>> {
        let (values, covariance) = (from_array(&values), covariance.as_ref().map(from_array));
        let result = self.evaluate(py, x, move |fit, x| fit.expectation(&values, covariance.as_ref(), x))?;
        let of_functions = result.of_functions.map(|part| array(py, part)).transpose()?;
        Ok((array(py, result.means)?, array(py, result.residual)?, result.variances, of_functions))
    }

    /// The training rows of Y at which to evaluate a function next, each with the mean variance that remains.
    fn next_evaluations(
        &self,
        py: Python<'_>,
        x: NamedRows<'_>,
        covariance: PyReadonlyArray2<'_, f64>,
        noise: f64,
        count: usize,
    ) -> PyResult<Vec<(usize, f64)>> {
        let covariance = from_array(&covariance);
        self.evaluate(py, x, move |fit, x| fit.next_evaluations(x, &covariance, noise, count))
    }

    /// The discrepancies between embeddings, rows × other rows.
    fn discrepancy<'py>(
        &self,
        py: Python<'py>,
        x: NamedRows<'_>,
        other: NamedRows<'_>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let other = sample(other)?;
        array(py, self.evaluate(py, x, move |fit, x| fit.discrepancy(x, &other))?)
    }

    /// The discrepancy between each embedding and a sample of Y.
    fn discrepancy_from_sample<'py>(
        &self,
        py: Python<'py>,
        x: NamedRows<'_>,
        y: NamedRows<'_>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let y = sample(y)?;
        Ok(self.evaluate(py, x, move |fit, x| fit.discrepancy_from_sample(x, &y))?.into_pyarray(py))
    }
}

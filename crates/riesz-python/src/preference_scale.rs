//! Models of many duels for Python: Bradley and Terry's, and preferences through landmarks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::Table;
use riesz::preference::{
    AbilityRidge, BradleyTerry, LandmarkFunction, LandmarkProcess, PairKernel, PreferenceProcess,
};
use riesz::table::ColumnKind;

use crate::fit::Fitted;
use crate::preference::{Given, duels as duels_of};
use crate::threads::{Threads, interruptible};
use crate::{Expansion, NamedRows, raise, refuse, sample};

/// Fits Bradley and Terry's model to items with these names, or a linear one to their rows; a ridge of `None` is chosen. Returns the fit, coefficients, their
/// standard deviations (`None` if there are more than 1,000), and notes.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "called by name from one place in Python")]
pub fn fit_bradley_terry(
    py: Python<'_>,
    names: Vec<String>,
    items: Option<NamedRows<'_>>,
    duels: Given,
    ridge: Option<f64>,
) -> PyResult<(Fitted, Vec<f64>, Option<Vec<f64>>, Vec<String>)> {
    let items = items.map(sample).transpose()?;
    let duels = duels_of(names.len(), duels)?;
    let model = BradleyTerry::new(ridge.map_or(AbilityRidge::Evidence, AbilityRidge::Fixed));
    let stop = model.stop.clone();
    let work = move || {
        let fit = match &items {
            Some(items) => model.fit_linear(items, &duels),
            None => model.fit(&names, &duels),
        }?;
        let errors = fit.covariance.is_some().then(|| fit.std_errors()).transpose()?;
        Ok((fit, errors))
    };
    let (fit, errors) = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    let covariance = fit.covariance.map(Arc::new);
    let fitted = Fitted {
        model: Py::new(py, Expansion { model: Arc::new(fit.model), covariance, groups: None })?,
        warnings: Vec::new(),
        iterations: vec![fit.steps],
        chosen: Some(fit.ridge),
        support: None,
        noise: None,
        log_marginal_likelihood: fit.log_marginal_likelihood,
        end: None,
    };
    Ok((fitted, fit.coef, errors, fit.notes))
}

/// The log odds of two items, known through landmarks.
#[pyclass(frozen, module = "riesz._core")]
pub struct PairFunction(Arc<LandmarkFunction>);

/// Names and levels of columns, as rows take them, and the rows themselves.
type Columns<'py> = (Vec<String>, Vec<Option<Vec<String>>>, Bound<'py, PyArray2<f64>>);
/// A kernel in JSON, shares, landmarks, basis and weights.
type State<'py> = (String, [f64; 2], Columns<'py>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>);

/// Means, and standard deviations where they were asked for.
type Moments<'py> = (Bound<'py, PyArray1<f64>>, Option<Bound<'py, PyArray1<f64>>>);

fn array<'py>(py: Python<'py>, m: &riesz::Matrix) -> PyResult<Bound<'py, PyArray2<f64>>> {
    Ok(crate::matrix(m.rows(), m.cols(), m.data().to_vec())?.into_pyarray(py))
}

fn own(m: &PyReadonlyArray2<'_, f64>) -> riesz::Matrix {
    let m = m.as_array();
    riesz::Matrix::from_row_major(m.nrows(), m.ncols(), m.iter().copied().collect())
}

#[pymethods]
impl PairFunction {
    #[new]
    fn new(
        kernel: &str,
        shares: [f64; 2],
        landmarks: NamedRows<'_>,
        basis: PyReadonlyArray2<'_, f64>,
        weights: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Self> {
        let [utility, generalised] = shares;
        let prior = PairKernel::new(crate::fit::kernel(kernel)?, utility, generalised);
        let found = LandmarkFunction::from_packed(prior, sample(landmarks)?, own(&basis), &own(&weights));
        Ok(Self(Arc::new(found.map_err(raise)?)))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, State<'py>)> {
        let (py, this) = (slf.py(), &slf.get().0);
        let kernel = serde_json::to_string(&this.prior.items).map_err(refuse)?;
        let (basis, weights) = this.packed();
        let rows = &this.landmarks;
        let mut names = Vec::new();
        let mut levels = Vec::new();
        for column in rows.columns() {
            names.push(column.name.clone());
            levels.push(match &column.kind {
                ColumnKind::Numeric => None,
                ColumnKind::Categorical { levels } => Some(levels.clone()),
            });
        }
        let numbers: Vec<f64> = (0..rows.rows()).flat_map(|i| rows.row(i)).collect();
        let numbers = crate::matrix(rows.rows(), rows.width(), numbers)?.into_pyarray(py);
        let shares = [this.prior.utility, this.prior.generalised];
        let state = (kernel, shares, (names, levels, numbers), array(py, &basis)?, array(py, &weights)?);
        Ok((slf.get_type().into_any(), state))
    }

    /// How many items are landmarks.
    #[getter]
    fn landmarks(&self) -> usize {
        self.0.landmarks.rows()
    }

    /// The mean of the log odds of pairs of rows of `items`, and with `spread` their standard deviations.
    fn log_odds<'py>(
        &self,
        py: Python<'py>,
        items: NamedRows<'_>,
        pairs: Vec<(usize, usize)>,
        spread: bool,
    ) -> PyResult<Moments<'py>> {
        let (mean, sd) = self.work(py, items, move |function, items| {
            if spread {
                function.moments(items, &pairs).map(|(mean, sd)| (mean, Some(sd)))
            } else {
                Ok((function.log_odds(items, &pairs)?, None))
            }
        })?;
        Ok((mean.into_pyarray(py), sd.map(|sd| sd.into_pyarray(py))))
    }

    /// The probabilities that the left items win.
    fn probability<'py>(
        &self,
        py: Python<'py>,
        items: NamedRows<'_>,
        pairs: Vec<(usize, usize)>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let found = self.work(py, items, move |function, items| function.probability(items, &pairs))?;
        Ok(found.into_pyarray(py))
    }
}

impl PairFunction {
    fn work<T: Send + 'static>(
        &self,
        py: Python<'_>,
        items: NamedRows<'_>,
        work: impl FnOnce(&LandmarkFunction, &Table) -> riesz::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let (items, function) = (sample(items)?, self.0.clone());
        let stop = Arc::new(AtomicBool::new(false));
        interruptible(py, &Threads::all(), &stop, move || work(&function, &items))?.map_err(raise)
    }
}

/// Settings of a fit through landmarks: how many, pairs that tuning looks at, draws, tolerance.
type Sizes = (usize, usize, usize, f64);

/// Fits duels among items through landmarks; returns the function, the expansion if there is one, the kernel in JSON, shares, warnings, the log marginal likelihood of
/// the duels that were tuned on, and the share of the items' variance that landmarks do not know.
#[pyfunction]
#[allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "called by name from one place in Python"
)]
pub fn fit_landmarks(
    py: Python<'_>,
    kernel: &str,
    items: NamedRows<'_>,
    duels: Given,
    shares: [f64; 2],
    tune: bool,
    restarts: usize,
    seed: u64,
    sizes: Sizes,
) -> PyResult<(PairFunction, Option<Py<Expansion>>, String, [f64; 2], Vec<String>, Option<f64>, f64)> {
    let (items, kernel) = (sample(items)?, crate::fit::kernel(kernel)?);
    let duels = duels_of(items.rows(), duels)?;
    let mut process = PreferenceProcess::new(kernel);
    [process.prior.utility, process.prior.generalised] = shares;
    (process.tune, process.restarts, process.seed) = (tune, restarts, seed);
    let stop = process.stop.clone();
    let (landmarks, tuning_pairs, draws, tolerance) = sizes;
    let process = LandmarkProcess { process, landmarks, tuning_pairs, draws, tolerance };
    let fit =
        interruptible(py, &Threads::all(), &stop, move || process.fit(&items, &duels))?.map_err(raise)?;
    let prior = &fit.function.prior;
    let kernel = serde_json::to_string(&prior.items).map_err(refuse)?;
    let shares = [prior.utility, prior.generalised];
    let expansion = |model| Py::new(py, Expansion { model: Arc::new(model), covariance: None, groups: None });
    let model = fit.model.map(expansion).transpose()?;
    let function = PairFunction(Arc::new(fit.function));
    Ok((function, model, kernel, shares, fit.warnings, fit.log_marginal_likelihood, fit.unknown))
}

/// Laplace's approximation of the log marginal likelihood of duels under a prior, and its gradient in the logarithms of the shares and the kernel's parameters.
#[pyfunction]
pub fn preference_evidence(
    py: Python<'_>,
    kernel: &str,
    items: NamedRows<'_>,
    duels: Given,
    shares: [f64; 2],
) -> PyResult<(f64, Vec<f64>)> {
    let (items, kernel) = (sample(items)?, crate::fit::kernel(kernel)?);
    let duels = duels_of(items.rows(), duels)?;
    let mut process = PreferenceProcess::new(kernel);
    [process.prior.utility, process.prior.generalised] = shares;
    let stop = process.stop.clone();
    let work = move || {
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        process.log_marginal_likelihood(&items, &duels, &theta)
    };
    interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)
}

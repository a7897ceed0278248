//! Fits in units of rows: bytes and arrays in, bytes out. What travels between machines are bytes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::fit::nystrom::{self, Coefficients, Job, Model, Plan, Residual, Rows, Statistics, Survey, fitted};
use riesz::kernel::{KernelExpression, Units};
use riesz::{Kernel, Matrix};

use crate::threads::{Threads, interruptible};
use crate::{Expansion, NamedRows, matrix, raise, refuse, sample};

/// Features with their names and levels, targets (rows × targets), and weights.
type UnitRows<'py> = (NamedRows<'py>, PyReadonlyArray2<'py, f64>, Option<Vec<f64>>);

fn rows((x, y, weights): UnitRows<'_>) -> PyResult<Rows> {
    let y = y.as_array();
    let y = Matrix::from_row_major(y.nrows(), y.ncols(), y.iter().copied().collect());
    Rows::new(sample(x)?, y, weights).map_err(raise)
}

fn job(json: &str) -> PyResult<Job> {
    serde_json::from_str(json).map_err(refuse)
}

fn survey(bytes: &[u8]) -> PyResult<Survey> {
    serde_json::from_slice(bytes).map_err(refuse)
}

fn plan(bytes: &[u8]) -> PyResult<Plan> {
    Plan::from_bytes(bytes).map_err(raise)
}

/// What `work` makes, as bytes; with so many threads, `None` for one a core.
fn made<'py>(
    py: Python<'py>,
    threads: Option<usize>,
    work: impl FnOnce() -> riesz::Result<Vec<u8>> + Send + 'static,
) -> PyResult<Bound<'py, PyBytes>> {
    let stop = Arc::new(AtomicBool::new(false));
    let bytes = interruptible(py, &Threads::new(threads), &stop, work)?.map_err(raise)?;
    Ok(PyBytes::new(py, &bytes))
}

/// What a first look learns of some rows.
#[pyfunction]
pub fn survey_rows<'py>(
    py: Python<'py>,
    job: &str,
    unit: UnitRows<'py>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (job, rows) = (self::job(job)?, self::rows(unit)?);
    made(py, threads, move || {
        let mut survey = job.survey(rows.x.columns(), rows.y.cols(), rows.weights.is_some());
        survey.add(&rows)?;
        Ok(serde_json::to_vec(&survey).unwrap_or_default())
    })
}

/// What looks at several parts learn together.
#[pyfunction]
pub fn merge_surveys<'py>(py: Python<'py>, parts: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
    let mut parts = parts.iter().map(|bytes| self::survey(bytes));
    let mut all = parts.next().ok_or_else(|| refuse("there are no rows"))??;
    for part in parts {
        all.merge(part?).map_err(raise)?;
    }
    Ok(PyBytes::new(py, &serde_json::to_vec(&all).map_err(refuse)?))
}

/// The kernel, tuned, and what is fitted, as bytes; and whether how large the kernel is does not depend on the rows.
#[pyfunction]
pub fn tune_fit<'py>(
    py: Python<'py>,
    job: &str,
    survey: &[u8],
    kernel: &str,
    standardise: bool,
) -> PyResult<(Bound<'py, PyBytes>, bool)> {
    let (job, survey) = (self::job(job)?, self::survey(survey)?);
    let expression = KernelExpression::parse(kernel).map_err(raise)?;
    let stop = Arc::new(AtomicBool::new(false));
    let work = move || {
        let sample = survey.sample()?;
        let units = if standardise { Units::standardised(&sample.x) } else { Units::raw(sample.x.width()) };
        job.tuned(&survey, expression.resolve(&sample.x, &units)?)
    };
    let tuned = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    Ok((PyBytes::new(py, &serde_json::to_vec(&tuned).map_err(refuse)?), tuned.0.is_bounded()))
}

/// A survey of some rows that says how large the kernel is at them.
#[pyfunction]
pub fn survey_kernel<'py>(
    py: Python<'py>,
    job: &str,
    tuned: &[u8],
    unit: UnitRows<'py>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (kernel, _): (Kernel, Model) = serde_json::from_slice(tuned).map_err(refuse)?;
    let (job, rows) = (self::job(job)?, self::rows(unit)?);
    made(py, Some(1), move || {
        let mut survey = job.survey(rows.x.columns(), rows.y.cols(), rows.weights.is_some());
        survey.add(&rows)?;
        survey.add_kernel(&kernel, &rows.x);
        Ok(serde_json::to_vec(&survey).unwrap_or_default())
    })
}

/// Landmarks.
#[pyfunction]
pub fn plan_fit<'py>(
    py: Python<'py>,
    job: &str,
    survey: &[u8],
    tuned: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let (job, survey) = (self::job(job)?, self::survey(survey)?);
    let tuned: (Kernel, Model) = serde_json::from_slice(tuned).map_err(refuse)?;
    made(py, None, move || Ok(job.plan(&survey, tuned)?.to_bytes()))
}

/// The statistics of a unit.
#[pyfunction]
pub fn unit_statistics<'py>(
    py: Python<'py>,
    plan: &[u8],
    rows: UnitRows<'py>,
    unit: u64,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (plan, rows) = (self::plan(plan)?, self::rows(rows)?);
    made(py, threads, move || Ok(Statistics::of(&plan, &rows, unit)?.to_bytes()))
}

/// Statistics of several units together, without those of others.
#[pyfunction]
pub fn merge_statistics<'py>(
    py: Python<'py>,
    plan: &[u8],
    parts: Vec<Vec<u8>>,
    without: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let plan = self::plan(plan)?;
    made(py, Some(1), move || {
        let mut all = Statistics::empty(&plan);
        parts.iter().try_for_each(|bytes| all.merge(&Statistics::from_bytes(&plan, bytes)?))?;
        without.iter().try_for_each(|bytes| all.remove(&Statistics::from_bytes(&plan, bytes)?))?;
        Ok(all.to_bytes())
    })
}

/// The units that statistics count, after all checks of a file.
#[pyfunction]
pub fn counted_units(plan: &[u8], statistics: &[u8]) -> PyResult<Vec<u64>> {
    let all = Statistics::from_bytes(&self::plan(plan)?, statistics).map_err(raise)?;
    Ok(all.units().iter().copied().collect())
}

/// What coefficients leave of a unit.
#[pyfunction]
pub fn unit_residual<'py>(
    py: Python<'py>,
    plan: &[u8],
    coefficients: &[u8],
    rows: UnitRows<'py>,
    unit: u64,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (plan, rows) = (self::plan(plan)?, self::rows(rows)?);
    let coefficients = Coefficients::from_bytes(&plan, coefficients).map_err(raise)?;
    made(py, threads, move || {
        let mut all = Residual::empty(&plan, &coefficients);
        all.add(&plan, &coefficients, &rows)?;
        Ok(all.of_unit(unit).to_bytes())
    })
}

/// What they leave of several units together.
#[pyfunction]
pub fn merge_residuals<'py>(
    py: Python<'py>,
    plan: &[u8],
    coefficients: &[u8],
    parts: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let plan = self::plan(plan)?;
    let coefficients = Coefficients::from_bytes(&plan, coefficients).map_err(raise)?;
    made(py, Some(1), move || {
        let mut all = Residual::empty(&plan, &coefficients);
        parts.iter().try_for_each(|bytes| all.merge(&Residual::from_bytes(&plan, &coefficients, bytes)?))?;
        Ok(all.to_bytes())
    })
}

/// A solution, which residuals correct.
#[pyclass(module = "riesz._core")]
pub struct Solution {
    plan: Plan,
    solution: nystrom::Solution,
}

#[pymethods]
impl Solution {
    #[new]
    fn new(py: Python<'_>, plan: &[u8], statistics: &[u8], job: &str) -> PyResult<Self> {
        let (plan, job) = (self::plan(plan)?, self::job(job)?);
        let statistics = Statistics::from_bytes(&plan, statistics).map_err(raise)?;
        let stop = Arc::new(AtomicBool::new(false));
        let work = move || Ok((nystrom::Solution::new(&plan, &statistics, &job.penalties())?, plan));
        let (solution, plan) = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
        Ok(Self { plan, solution })
    }

    /// The coefficients, as bytes.
    #[getter]
    fn coefficients<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.solution.coefficients.to_bytes())
    }

    /// Whether a pass over all rows, after so many, has something to do.
    fn wants_pass(&self, corrections: usize, passes: usize) -> bool {
        self.solution.wants_pass(corrections, passes)
    }

    /// Does what that pass was for, with what coefficients leave of all rows.
    fn take(&mut self, residual: &[u8], corrections: usize, passes: usize) -> PyResult<()> {
        let residual =
            Residual::from_bytes(&self.plan, &self.solution.coefficients, residual).map_err(raise)?;
        self.solution.take(&residual, corrections, passes).map_err(raise)
    }

    /// Proved bounds at rows, rows × targets; `None` if there are none.
    fn bounds<'py>(&self, py: Python<'py>, x: NamedRows<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let bounds = self.solution.bounds(&sample(x)?).map_err(raise)?;
        let array = |m: Matrix| Ok(matrix(m.rows(), m.cols(), m.data().to_vec())?.into_pyarray(py));
        bounds.map(array).transpose()
    }

    /// (landmarks, ridge, held-out mean squared error) of all that was tried.
    #[getter]
    fn tried(&self) -> Vec<(usize, f64, f64)> {
        self.solution.tried.iter().map(|t| (t.landmarks, t.ridge, t.error)).collect()
    }

    /// The model, what to look at, and the ridge.
    fn fitted(&self, py: Python<'_>, names: Vec<String>) -> PyResult<(Py<Expansion>, Vec<String>, f64)> {
        let mut fitted = fitted(&self.solution).map_err(raise)?;
        if names.len() == fitted.model.outputs() {
            fitted.model.output_names = names;
        }
        let covariance = fitted.covariance.map(Arc::new);
        let model = Expansion { model: Arc::new(fitted.model), covariance, groups: None };
        Ok((Py::new(py, model)?, fitted.warnings, self.solution.ridge))
    }
}

/// The Gaussian process that all rows make, with its posterior.
#[pyfunction]
pub fn landmark_process(
    py: Python<'_>,
    plan: &[u8],
    statistics: &[u8],
    name: String,
) -> PyResult<(Py<Expansion>, f64)> {
    let plan = self::plan(plan)?;
    let statistics = Statistics::from_bytes(&plan, statistics).map_err(raise)?;
    let stop = Arc::new(AtomicBool::new(false));
    let work = move || nystrom::process(&plan, &statistics);
    let mut fitted = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    fitted.model.output_names = vec![name];
    let covariance = fitted.covariance.map(Arc::new);
    let model = Expansion { model: Arc::new(fitted.model), covariance, groups: None };
    Ok((Py::new(py, model)?, fitted.noise.unwrap_or(f64::NAN)))
}

/// A name for a plan, and how many landmarks it has.
#[pyfunction]
pub fn plan_facts(plan: &[u8]) -> PyResult<(String, usize)> {
    let plan = self::plan(plan)?;
    Ok((plan.digest(), plan.landmarks.rows()))
}

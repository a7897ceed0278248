//! Fits through landmarks in units of rows. Surveys, plans and statistics are bytes, which can be sent
//! between machines.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::fit::nystrom::{
    Coefficients, DataPass, DataSurvey, FitPlan, InitialData, InitialInput, Job, LabelledRows, Model,
    Statistics,
};
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::{Kernel, Matrix, fit::nystrom};

use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NamedRows, matrix, raise, refuse, sample};

/// The rows of a unit: features with their names and levels, targets (rows × targets), and weights.
type UnitRows<'py> = (NamedRows<'py>, PyReadonlyArray2<'py, f64>, Option<Vec<f64>>);

fn rows((x, y, weights): UnitRows<'_>) -> PyResult<LabelledRows> {
    let y = y.as_array();
    let y = Matrix::from_row_major(y.nrows(), y.ncols(), y.iter().copied().collect());
    LabelledRows::new(sample(x)?, y, weights).map_err(raise)
}

fn job(json: &str) -> PyResult<Job> {
    serde_json::from_str(json).map_err(refuse)
}

fn survey(bytes: &[u8]) -> PyResult<DataSurvey> {
    DataSurvey::from_bytes(bytes).map_err(raise)
}

fn plan(bytes: &[u8]) -> PyResult<FitPlan> {
    FitPlan::from_bytes(bytes).map_err(raise)
}

/// Runs `work` in a pool of `threads` threads (`None` for one per core), and returns its bytes.
fn bytes_of<'py>(
    py: Python<'py>,
    threads: Option<usize>,
    work: impl FnOnce() -> riesz::Result<Vec<u8>> + Send + 'static,
) -> PyResult<Bound<'py, PyBytes>> {
    let stop = Arc::new(AtomicBool::new(false));
    let bytes = interruptible(py, &Threads::new(threads), &stop, work)?.map_err(raise)?;
    Ok(PyBytes::new(py, &bytes))
}

/// Surveys the rows of a unit; a plan is made from the surveys.
#[pyfunction]
pub fn survey_rows<'py>(
    py: Python<'py>,
    job: &str,
    unit: UnitRows<'py>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (job, rows) = (self::job(job)?, self::rows(unit)?);
    bytes_of(py, threads, move || {
        let mut survey = job.survey(rows.x.columns(), rows.y.cols(), rows.weights.is_some());
        survey.add(&rows)?;
        Ok(survey.to_bytes())
    })
}

/// Adds several surveys.
#[pyfunction]
pub fn merge_surveys<'py>(py: Python<'py>, parts: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
    let mut parts = parts.iter().map(|bytes| self::survey(bytes));
    let mut total = parts.next().ok_or_else(|| refuse("there are no surveys to merge"))??;
    for part in parts {
        total.merge(part?).map_err(raise)?;
    }
    Ok(PyBytes::new(py, &total.to_bytes()))
}

/// The tuned kernel and the model to fit, as bytes; and whether the kernel is bounded, so that its size does
/// not depend on the rows.
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
        let units = if standardise {
            ColumnScaling::standardised(&sample.x)
        } else {
            ColumnScaling::raw(sample.x.width())
        };
        job.tuned(&survey, expression.resolve(&sample.x, &units)?)
    };
    let tuned = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    Ok((PyBytes::new(py, &serde_json::to_vec(&tuned).map_err(refuse)?), tuned.0.is_bounded()))
}

/// Surveys the rows of a unit together with the size of the kernel at them.
#[pyfunction]
pub fn survey_kernel<'py>(
    py: Python<'py>,
    job: &str,
    tuned: &[u8],
    unit: UnitRows<'py>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (kernel, _): (Kernel, Model) = serde_json::from_slice(tuned).map_err(refuse)?;
    let (job, rows) = (self::job(job)?, self::rows(unit)?);
    bytes_of(py, Some(1), move || {
        let mut survey = job.survey(rows.x.columns(), rows.y.cols(), rows.weights.is_some());
        survey.add(&rows)?;
        survey.add_kernel(&kernel, &rows.x);
        Ok(survey.to_bytes())
    })
}

/// Makes the plan of a fit, with its landmarks.
#[pyfunction]
pub fn plan_fit<'py>(
    py: Python<'py>,
    job: &str,
    survey: &[u8],
    tuned: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let (job, survey) = (self::job(job)?, self::survey(survey)?);
    let tuned: (Kernel, Model) = serde_json::from_slice(tuned).map_err(refuse)?;
    bytes_of(py, None, move || Ok(job.plan(&survey, tuned)?.to_bytes()))
}

/// Computes the sufficient statistics of a unit.
#[pyfunction]
pub fn unit_statistics<'py>(
    py: Python<'py>,
    plan: &[u8],
    rows: UnitRows<'py>,
    unit: u64,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (plan, rows) = (self::plan(plan)?, self::rows(rows)?);
    bytes_of(py, threads, move || Ok(Statistics::from_rows(&plan, &rows, unit)?.to_bytes()))
}

/// Adds the statistics `parts` of several units, and subtracts the statistics `removed` of others.
#[pyfunction]
pub fn merge_statistics<'py>(
    py: Python<'py>,
    plan: &[u8],
    parts: Vec<Vec<u8>>,
    removed: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let plan = self::plan(plan)?;
    bytes_of(py, Some(1), move || {
        let mut total = Statistics::empty(&plan);
        parts.iter().try_for_each(|bytes| total.merge(&Statistics::from_bytes(&plan, bytes)?))?;
        removed.iter().try_for_each(|bytes| total.remove(&Statistics::from_bytes(&plan, bytes)?))?;
        Ok(total.to_bytes())
    })
}

/// The units that the statistics include, after all checks of the bytes.
#[pyfunction]
pub fn counted_units(plan: &[u8], statistics: &[u8]) -> PyResult<Vec<u64>> {
    let total = Statistics::from_bytes(&self::plan(plan)?, statistics).map_err(raise)?;
    Ok(total.units().iter().copied().collect())
}

/// Computes the pass over a unit at some coefficients.
#[pyfunction]
pub fn unit_pass<'py>(
    py: Python<'py>,
    plan: &[u8],
    coefficients: &[u8],
    rows: UnitRows<'py>,
    unit: u64,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (plan, rows) = (self::plan(plan)?, self::rows(rows)?);
    let coefficients = Coefficients::from_bytes(&plan, coefficients).map_err(raise)?;
    bytes_of(py, threads, move || Ok(DataPass::from_rows(&plan, &coefficients, &rows, unit)?.to_bytes()))
}

/// Adds several passes.
#[pyfunction]
pub fn merge_passes<'py>(
    py: Python<'py>,
    plan: &[u8],
    coefficients: &[u8],
    parts: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let plan = self::plan(plan)?;
    let coefficients = Coefficients::from_bytes(&plan, coefficients).map_err(raise)?;
    bytes_of(py, Some(1), move || {
        let mut total = DataPass::empty(&plan, &coefficients);
        parts
            .iter()
            .try_for_each(|bytes| total.merge(&DataPass::from_bytes(&plan, &coefficients, bytes)?))?;
        Ok(total.to_bytes())
    })
}

/// The state of an iterative fit. It starts from the statistics of all rows, from a survey, or from its plan.
#[pyclass(module = "riesz._core")]
pub struct Fitting {
    plan: FitPlan,
    fitting: nystrom::FitState,
}

#[pymethods]
impl Fitting {
    #[new]
    fn new(py: Python<'_>, plan: &[u8], job: &str, beginning: &[u8]) -> PyResult<Self> {
        let (plan, job) = (self::plan(plan)?, self::job(job)?);
        let (statistics, survey) = match plan.needs() {
            InitialData::Statistics => (Some(Statistics::from_bytes(&plan, beginning).map_err(raise)?), None),
            InitialData::Survey => (None, Some(self::survey(beginning)?)),
            InitialData::Nothing => (None, None),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let work = move || {
            let beginning = match (statistics, &survey) {
                (Some(initial), _) => InitialInput::Statistics(initial),
                (_, Some(initial)) => InitialInput::Survey(initial),
                _ => InitialInput::Nothing,
            };
            Ok((nystrom::FitState::new(&plan, &job, beginning)?, plan))
        };
        let (fitting, plan) = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
        Ok(Self { plan, fitting })
    }

    /// The coefficients at which the next pass over all rows is needed, as bytes; `None` at the end.
    fn wants<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.fitting.next_coefficients().map(|coefficients| PyBytes::new(py, &coefficients.to_bytes()))
    }

    /// Continues with the pass over all rows at the coefficients of `wants`.
    fn take(&mut self, py: Python<'_>, pass: &[u8]) -> PyResult<()> {
        let Some(coefficients) = self.fitting.next_coefficients() else { return Ok(()) };
        let pass = DataPass::from_bytes(&self.plan, coefficients, pass).map_err(raise)?;
        let fitting = &mut self.fitting;
        py.detach(|| fitting.apply_pass(&pass)).map_err(raise)
    }

    /// Proved error bounds at the rows of `x`, rows × targets; `None` if the fit has none.
    fn bounds<'py>(&self, py: Python<'py>, x: NamedRows<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let x = sample(x)?;
        let bounds =
            self.fitting.solution().map(|solution| solution.bounds(&x)).transpose().map_err(raise)?;
        let array = |m: Matrix| Ok(matrix(m.rows(), m.cols(), m.data().to_vec())?.into_pyarray(py));
        bounds.flatten().map(array).transpose()
    }

    /// All tried settings as (landmarks, ridge, held-out mean squared error).
    #[getter]
    fn tried(&self) -> Vec<(usize, f64, f64)> {
        let candidates = self.fitting.solution().map_or(&[][..], |solution| &solution.tried);
        candidates.iter().map(|t| (t.landmarks, t.ridge, t.error)).collect()
    }

    /// The model, warnings, and the ridge or the noise variance.
    fn fitted(&self, py: Python<'_>, names: Vec<String>) -> PyResult<(Py<Expansion>, Vec<String>, f64)> {
        let mut fitted = self.fitting.fitted().map_err(raise)?;
        if names.len() == fitted.model.outputs() && fitted.model.classes.is_empty() {
            fitted.model.output_names = names;
        }
        let covariance = fitted.covariance.map(Arc::new);
        let model = Expansion { model: Arc::new(fitted.model), covariance, groups: None };
        Ok((Py::new(py, model)?, fitted.warnings, fitted.chosen.or(fitted.noise).unwrap_or(f64::NAN)))
    }
}

/// The digest of a plan, its number of landmarks, and the data with which its fit starts.
#[pyfunction]
pub fn plan_facts(plan: &[u8]) -> PyResult<(String, usize, &'static str)> {
    let plan = self::plan(plan)?;
    let needs = match plan.needs() {
        InitialData::Statistics => "statistics",
        InitialData::Survey => "survey",
        InitialData::Nothing => "nothing",
    };
    Ok((plan.digest(), plan.landmarks.rows(), needs))
}

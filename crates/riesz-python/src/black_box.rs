//! Estimated Shapley values of functions that are written in Python.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::attribution::kernel_shap::kernel_shap_from;
use riesz::attribution::permutation::estimate;
use riesz::{Error, Exactness, Matrix, Table};

use crate::explanation::Explanation;
use crate::question::{Budget, Question};
use crate::thread_pools::{Threads, with_callback};
use crate::{Sample, explained, fits_in_memory, join, matrix, raise, table};

/// An error of the library, or of the Python function.
pub(crate) enum Failure {
    Here(Error),
    There(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::There(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Here(error) => raise(error),
            Failure::There(error) => error,
        }
    }
}

/// The outputs of `function` (rows × outputs) for some rows.
pub(crate) fn call(py: Python<'_>, function: &Bound<'_, PyAny>, rows: &Table) -> Result<Matrix, Failure> {
    let column_major = matrix(rows.width(), rows.rows(), rows.column_major().to_vec())?;
    let outputs = function.call1((column_major.reversed_axes().into_pyarray(py),))?;
    let outputs: PyReadonlyArray2<'_, f64> = outputs.extract()?;
    let outputs = outputs.as_array();
    Ok(Matrix::from_row_major(outputs.nrows(), outputs.ncols(), outputs.iter().copied().collect()))
}

/// Converts rows to a table with the columns of the background.
fn rows_of(question: &riesz::Question, rows: &PyReadonlyArray2<'_, f64>) -> PyResult<Table> {
    let columns = question.game.rows().map_or(&[][..], Table::columns);
    table(columns, rows.as_array()).map_err(raise)
}

/// Maximum number of rows in one call of a function.
const BATCH: usize = 1 << 16;

/// Explains `function` by values of coalitions (Kernel SHAP).
#[pyfunction]
#[pyo3(signature = (function, rows, question, budget=None, sample=None))]
pub(crate) fn kernel_shap<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rows: PyReadonlyArray2<'py, f64>,
    question: &Question,
    budget: Option<Budget>,
    sample: Option<&Sample>,
) -> PyResult<Explanation> {
    let question = question.with_budget(budget);
    let rows = rows_of(&question, &rows)?;
    let mut state = sample.cloned().unwrap_or_default();
    let stop = Arc::new(AtomicBool::new(false));
    let worker_stop = stop.clone();
    let evaluate = |batch: Table| Ok(call(py, function, &batch)?);
    let (result, mut state) =
        with_callback(py, &Threads::separate(), &stop, true, evaluate, move |callback| {
            let evaluate = |batch: &Table| callback(batch.clone());
            (kernel_shap_from(evaluate, &rows, &question, BATCH, &mut state.sample, &worker_stop), state)
        })?;
    let mut explanation = result.map_err(raise)?;
    if let Exactness::Estimated { sampling: Some(sampling), .. } = &mut explanation.exactness {
        sampling.evaluations += state.evaluations;
        state.evaluations = sampling.evaluations;
    }
    let keep = fits_in_memory(state.sample.coalitions(), explanation.rows() * explanation.outputs());
    explained(py, Some(explanation), keep.then_some(state))
}

/// Number of explained rows that are estimated together.
const CHUNK: usize = 64;

/// Estimates the values of `function`, from arrays (rows, columns) to arrays (rows, outputs), along random
/// orders of the players.
#[pyfunction]
pub(crate) fn permutation<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rows: PyReadonlyArray2<'py, f64>,
    question: &Question,
) -> PyResult<Explanation> {
    let question = &question.question;
    let rows = rows_of(question, &rows)?;
    let mut explanation = None;
    for start in (0..rows.rows().max(1)).step_by(CHUNK) {
        let chunk: Vec<usize> = (start..rows.rows().min(start + CHUNK)).collect();
        let evaluate = |batch: &Table| call(py, function, batch);
        join(&mut explanation, estimate(evaluate, &rows.select_rows(&chunk), start, question)?)?;
    }
    explained(py, explanation, None)
}

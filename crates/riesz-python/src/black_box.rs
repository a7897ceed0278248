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
use crate::thread_pools::{Threads, asking};
use crate::{Sample, explained, join, matrix, may_keep, raise, table};

/// An error of the library, or of the Python function.
enum Failure {
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
fn call(py: Python<'_>, function: &Bound<'_, PyAny>, rows: &Table) -> Result<Matrix, Failure> {
    let by_column = matrix(rows.width(), rows.rows(), rows.column_major().to_vec())?;
    let answer = function.call1((by_column.reversed_axes().into_pyarray(py),))?;
    let answer: PyReadonlyArray2<'_, f64> = answer.extract()?;
    let answer = answer.as_array();
    Ok(Matrix::from_row_major(answer.nrows(), answer.ncols(), answer.iter().copied().collect()))
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
    let mut kept = sample.cloned().unwrap_or_default();
    let stop = Arc::new(AtomicBool::new(false));
    let heeded = stop.clone();
    let answer = |batch: Table| Ok(call(py, function, &batch)?);
    let (result, mut kept) = asking(py, &Threads::separate(), &stop, true, answer, move |ask| {
        let ask = |batch: &Table| ask(batch.clone());
        (kernel_shap_from(ask, &rows, &question, BATCH, &mut kept.sample, &heeded), kept)
    })?;
    let mut explanation = result.map_err(raise)?;
    if let Exactness::Estimated { sampling: Some(sampling), .. } = &mut explanation.exactness {
        sampling.evaluations += kept.evaluations;
        kept.evaluations = sampling.evaluations;
    }
    let keep = may_keep(kept.sample.coalitions(), explanation.rows() * explanation.outputs());
    explained(py, Some(explanation), keep.then_some(kept))
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
        let ask = |batch: &Table| call(py, function, batch);
        join(&mut explanation, estimate(ask, &rows.select_rows(&chunk), start, question)?)?;
    }
    explained(py, explanation, None)
}

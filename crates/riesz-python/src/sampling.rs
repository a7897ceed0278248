//! Estimates for functions that are written in Python.

use std::sync::atomic::AtomicBool;

use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::attribution::kernel_shap::kernel_shap_from;
use riesz::attribution::permutation::estimate;
use riesz::{Error, Matrix, Table};

use crate::question::{Budget, Question};
use crate::{Sample, matrix, may_keep, refuse, table};

/// Values and standard errors (rows, outputs, players), base values (outputs), predictions (rows, outputs), evaluations, and what an absent
/// feature means.
type Estimated<'py> = (
    Bound<'py, PyArray3<f64>>,
    Bound<'py, PyArray3<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray2<f64>>,
    usize,
    String,
);

/// Values and, if they are estimated, standard errors (rows, outputs, players); base values (outputs); predictions and bounds on the
/// rounding (rows, outputs); evaluations, coalitions, what an absent feature means; and if values are estimated, the coalitions from which
/// a larger budget goes on.
type ByCoalitions<'py> = (
    Bound<'py, PyArray3<f64>>,
    Option<Bound<'py, PyArray3<f64>>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray2<f64>>,
    usize,
    usize,
    String,
    Option<Sample>,
);

/// What went wrong: here, or in the function that was called.
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
            Failure::Here(error) => refuse(error),
            Failure::There(error) => error,
        }
    }
}

/// What `function` answers about some rows.
fn call(py: Python<'_>, function: &Bound<'_, PyAny>, asked: &Table) -> Result<Matrix, Failure> {
    let by_column = matrix(asked.width(), asked.rows(), asked.column_major().to_vec())?;
    let answer = function.call1((by_column.reversed_axes().into_pyarray(py),))?;
    let answer: PyReadonlyArray2<'_, f64> = answer.extract()?;
    let answer = answer.as_array();
    Ok(Matrix::from_row_major(answer.nrows(), answer.ncols(), answer.iter().copied().collect()))
}

/// Rows in the columns of the background.
fn rows_of(question: &riesz::Question, rows: &PyReadonlyArray2<'_, f64>) -> PyResult<Table> {
    let columns = question.game.rows().map_or(&[][..], Table::columns);
    table(columns, rows.as_array()).map_err(refuse)
}

/// Rows that a function is asked about at once.
const BATCH: usize = 1 << 16;

/// Values of `function` by coalitions.
#[pyfunction]
#[pyo3(signature = (function, rows, question, budget=None, sample=None))]
pub(crate) fn kernel_shap<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rows: PyReadonlyArray2<'py, f64>,
    question: &Question,
    budget: Option<Budget>,
    sample: Option<&Sample>,
) -> PyResult<ByCoalitions<'py>> {
    let question = question.within(budget);
    let rows = rows_of(&question, &rows)?;
    let ask = |asked: &Table| call(py, function, asked);
    let mut kept = sample.cloned().unwrap_or_default();
    let stop = AtomicBool::new(false);
    let found = kernel_shap_from(ask, &rows, &question, BATCH, &mut kept.sample, &stop)?;
    let groups = question.players_of(rows.columns());
    let (n, m, p) = (rows.rows(), found.base.len(), groups.players().len());
    let cube = |numbers: Vec<f64>| Array3::from_shape_vec((n, m, p), numbers).map_err(refuse);
    let keep = found.std_error.is_some() && may_keep(found.coalitions, n * m);
    Ok((
        cube(found.values)?.into_pyarray(py),
        found.std_error.map(cube).transpose()?.map(|errors| errors.into_pyarray(py)),
        found.base.into_pyarray(py),
        matrix(n, m, found.predictions.data().to_vec())?.into_pyarray(py),
        matrix(n, m, found.rounding)?.into_pyarray(py),
        found.evaluations,
        found.coalitions,
        question.game.absent(),
        keep.then_some(kept),
    ))
}

/// Estimates the values of `function`, from arrays (rows, columns) to arrays (rows, outputs), along random orders.
#[pyfunction]
pub(crate) fn permutation<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rows: PyReadonlyArray2<'py, f64>,
    first_row: usize,
    question: &Question,
) -> PyResult<Estimated<'py>> {
    let question = &question.question;
    let rows = rows_of(question, &rows)?;
    let ask = |asked: &Table| call(py, function, asked);
    let found = estimate(ask, &rows, first_row, question)?;
    let groups = question.players_of(rows.columns());
    let (n, m, p) = (rows.rows(), found.base.len(), groups.players().len());
    let cube = |numbers: Vec<f64>| Array3::from_shape_vec((n, m, p), numbers).map_err(refuse);
    Ok((
        cube(found.values)?.into_pyarray(py),
        cube(found.std_error)?.into_pyarray(py),
        found.base.into_pyarray(py),
        matrix(n, m, found.predictions.data().to_vec())?.into_pyarray(py),
        found.evaluations,
        question.game.absent(),
    ))
}

//! Estimates for functions that are written in Python.

use std::sync::atomic::AtomicBool;

use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::attribution::coalitions::Budget;
use riesz::attribution::kernel_shap::kernel_shap_from;
use riesz::attribution::permutation::{Permutations, estimate};
use riesz::game::Absence;
use riesz::{Background, Column, Error, Game, Matrix, Table};

use crate::{Sample, approximation, conditioning, matrix, may_keep, players, refuse, table};

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

/// Rows under numbered names, and the background.
fn tables(
    rows: &PyReadonlyArray2<'_, f64>,
    background: &PyReadonlyArray2<'_, f64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
) -> PyResult<(Table, Background)> {
    let columns: Vec<Column> =
        (0..background.as_array().ncols()).map(|j| Column::numeric(format!("x{j}"))).collect();
    let background = Background {
        rows: table(&columns, background.as_array()).map_err(refuse)?,
        weights: weights.map(|w| w.as_array().to_vec()),
    };
    Ok((table(&columns, rows.as_array()).map_err(refuse)?, background))
}

/// Rows that a function is asked about at once.
const BATCH: usize = 1 << 16;

/// Values of `function` by coalitions; `absence` is background, gaussian, copula or kernel.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn kernel_shap<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rows: PyReadonlyArray2<'py, f64>,
    background: PyReadonlyArray2<'py, f64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    groups: Vec<(String, Vec<usize>)>,
    absence: &str,
    draws: usize,
    ridge: Option<f64>,
    landmarks: Option<usize>,
    random_features: Option<usize>,
    coalitions: usize,
    std_error: Option<f64>,
    seed: u64,
    sample: Option<&Sample>,
) -> PyResult<ByCoalitions<'py>> {
    let (rows, reference) = tables(&rows, &background, weights)?;
    let groups = players(rows.columns(), groups)?;
    let absence = match absence {
        "background" => Absence::Background(reference),
        "gaussian" => Absence::Gaussian { reference, draws },
        "copula" => Absence::Copula { reference, draws },
        "kernel" => Absence::Embedding {
            reference,
            conditioning: conditioning(ridge, approximation(landmarks, random_features, None), seed),
        },
        other => return Err(refuse(format!("there is no way '{other}' of filling in absent features"))),
    };
    let budget = Budget { coalitions, std_error, seed };
    let ask = |asked: &Table| call(py, function, asked);
    let mut kept = sample.cloned().unwrap_or_default();
    let found = kernel_shap_from(
        ask,
        &rows,
        &absence,
        &groups,
        budget,
        BATCH,
        &mut kept.sample,
        &AtomicBool::new(false),
    )?;
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
        absence.absent(),
        keep.then_some(kept),
    ))
}

/// Estimates the interventional game of `function`, from arrays (rows, columns) to arrays (rows, outputs).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn permutation<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rows: PyReadonlyArray2<'py, f64>,
    first_row: usize,
    background: PyReadonlyArray2<'py, f64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    groups: Vec<(String, Vec<usize>)>,
    permutations: usize,
    seed: u64,
) -> PyResult<Estimated<'py>> {
    let (rows, background) = tables(&rows, &background, weights)?;
    let groups = players(rows.columns(), groups)?;
    let ask = |asked: &Table| call(py, function, asked);
    let settings = Permutations { per_reference: permutations, seed };
    let found = estimate(ask, &rows, first_row, &background, &groups, settings)?;
    let (n, m, p) = (rows.rows(), found.base.len(), groups.players().len());
    let cube = |numbers: Vec<f64>| Array3::from_shape_vec((n, m, p), numbers).map_err(refuse);
    Ok((
        cube(found.values)?.into_pyarray(py),
        cube(found.std_error)?.into_pyarray(py),
        found.base.into_pyarray(py),
        matrix(n, m, found.predictions.data().to_vec())?.into_pyarray(py),
        found.evaluations,
        Game::Interventional { background }.absent(),
    ))
}

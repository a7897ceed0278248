//! Estimates for functions that are written in Python.

use numpy::{IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::attribution::coalitions::Budget;
use riesz::attribution::kernel_shap::kernel_shap_from;
use riesz::attribution::permutation::{Permutations, estimate};
use riesz::game::Absence;
use riesz::{Background, Column, Error, Exactness, Matrix, Table};

use crate::explanation::Explanation;
use crate::{Sample, approximation, conditioning, explained, join, matrix, may_keep, players, refuse, table};

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
) -> PyResult<Explanation> {
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
    let mut found = kernel_shap_from(ask, &rows, &absence, &groups, budget, BATCH, &mut kept.sample)?;
    if let Exactness::Estimated { sampling: Some(sampling), .. } = &mut found.exactness {
        sampling.evaluations += kept.evaluations;
        kept.evaluations = sampling.evaluations;
    }
    let keep = may_keep(kept.sample.coalitions(), found.rows() * found.outputs());
    explained(py, Some(found), keep.then_some(kept))
}

/// Explained rows whose estimates are made together.
const CHUNK: usize = 64;

/// Estimates the interventional game of `function`, from arrays (rows, columns) to arrays (rows, outputs).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn permutation<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rows: PyReadonlyArray2<'py, f64>,
    background: PyReadonlyArray2<'py, f64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    groups: Vec<(String, Vec<usize>)>,
    permutations: usize,
    seed: u64,
) -> PyResult<Explanation> {
    let (rows, background) = tables(&rows, &background, weights)?;
    let groups = players(rows.columns(), groups)?;
    let settings = Permutations { per_reference: permutations, seed };
    let mut whole = None;
    for start in (0..rows.rows().max(1)).step_by(CHUNK) {
        let own: Vec<usize> = (start..rows.rows().min(start + CHUNK)).collect();
        let ask = |asked: &Table| call(py, function, asked);
        let found = estimate(ask, &rows.select_rows(&own), start, &background, &groups, settings)?;
        join(&mut whole, found)?;
    }
    explained(py, whole, None)
}

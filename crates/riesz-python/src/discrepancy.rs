//! Two-sample and independence tests: tables in, what was found out as JSON.

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::discrepancy::selection::{Method, rank_until};
use riesz::discrepancy::{
    self, Attribute, Estimator, Null, Settings, default_kernel, lengthscale_grid, residuals,
};
use riesz::{Column, ColumnKind, Error, IndependenceTest, Kernel, Table, TwoSampleTest};

use crate::{fit, interruptible, players, pool, raise, refuse, table};

/// Names of columns, their levels (`None` for numbers), and the rows.
type Rows<'py> = (Vec<String>, Vec<Option<Vec<String>>>, PyReadonlyArray2<'py, f64>);

/// What is said of features ("nothing", "values" or "significance"), groups of them, whether pairs are looked at, draws, their seed.
type Options = (String, Option<Vec<(String, Vec<usize>)>>, bool, usize, u64);

fn sample((names, levels, rows): Rows<'_>) -> PyResult<Table> {
    let kind = |levels: Option<Vec<String>>| match levels {
        Some(levels) => ColumnKind::Categorical { levels },
        None => ColumnKind::Numeric,
    };
    let columns: Vec<Column> =
        names.into_iter().zip(levels).map(|(name, levels)| Column { name, kind: kind(levels) }).collect();
    table(&columns, rows.as_array()).map_err(refuse)
}

fn settings(columns: &[Column], options: Options) -> PyResult<Settings> {
    let (attribute, groups, interactions, permutations, seed) = options;
    let attribute = match attribute.as_str() {
        "nothing" => Attribute::Nothing,
        "values" => Attribute::Values,
        _ => Attribute::Significance,
    };
    let groups = groups.map(|groups| players(columns, groups)).transpose()?;
    Ok(Settings { attribute, groups, interactions, permutations, seed, ..Settings::default() })
}

/// The kernels of a test: those given, or the default one, at each multiple of their length scales.
fn kernels(given: &[String], multiples: Option<&[f64]>, sample: &Table) -> PyResult<Vec<Kernel>> {
    let mut kernels = given.iter().map(|json| fit::kernel(json)).collect::<PyResult<Vec<_>>>()?;
    let Some(multiples) = multiples else { return Ok(kernels) };
    if kernels.is_empty() {
        kernels.push(default_kernel(sample).map_err(raise)?);
    }
    Ok(kernels.iter().flat_map(|kernel| lengthscale_grid(kernel, multiples)).collect())
}

/// A refusal in the words of the Python functions.
fn refuse_test(error: Error) -> PyErr {
    match &error {
        Error::NotProduct { .. } => {
            refuse(format!("{error}; or give attribute=False for the statistic alone"))
        }
        Error::TooFew { what, needed, unit } => {
            let what = match what.as_str() {
                "the first sample" => "X",
                "the second sample" => "Z",
                other => other,
            };
            refuse(Error::TooFew { what: what.into(), needed: *needed, unit })
        }
        _ => raise(error),
    }
}

fn json<'py>(py: Python<'py>, found: serde_json::Result<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &found.map_err(refuse)?))
}

/// Compares two samples with the same columns. `block_size` is None, or the rows of a block.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn mmd_test<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    z: Rows<'py>,
    kernels: Vec<String>,
    multiples: Option<Vec<f64>>,
    biased: bool,
    block_size: Option<usize>,
    options: Options,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (x, z) = (sample(x)?, sample(z)?);
    let pooled = x.stack(&z).map_err(refuse)?;
    let estimator = match block_size {
        Some(rows) => Estimator::Block(rows),
        None if biased => Estimator::Biased,
        None => Estimator::Unbiased,
    };
    let settings = settings(x.columns(), options)?;
    let stop = settings.stop.clone();
    let kernels = self::kernels(&kernels, multiples.as_deref(), &pooled)?;
    let test = TwoSampleTest { kernels, estimator, settings };
    let found = interruptible(py, &pool(threads)?, &stop, || test.run(&x, &z))?.map_err(refuse_test)?;
    json(py, serde_json::to_vec(&found))
}

/// Asks whether the rows of two tables depend on each other, beyond a third one if it is given. `decay` is None for permutations, or the rows
/// over which a wild bootstrap forgets.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn hsic_test<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    y: Rows<'py>,
    given: Option<Rows<'py>>,
    kernels: Vec<String>,
    multiples: Option<Vec<f64>>,
    target_kernel: Option<&str>,
    unbiased: bool,
    decay: Option<f64>,
    options: Options,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (mut x, mut y) = (sample(x)?, sample(y)?);
    let (pool, settings) = (pool(threads)?, settings(x.columns(), options)?);
    let stop = settings.stop.clone();
    if let Some(given) = given {
        let given = sample(given)?;
        let both = || Ok((residuals(&x, &given)?, residuals(&y, &given)?));
        (x, y) = interruptible(py, &pool, &stop, both)?.map_err(refuse_test)?;
    }
    let test = IndependenceTest {
        kernels: self::kernels(&kernels, multiples.as_deref(), &x)?,
        target_kernel: target_kernel.map(fit::kernel).transpose()?,
        unbiased,
        null: decay.map_or(Null::Permutation, Null::WildBootstrap),
        settings,
    };
    let found = interruptible(py, &pool, &stop, || test.run(&x, &y))?.map_err(refuse_test)?;
    json(py, serde_json::to_vec(&found))
}

/// The witness function of two samples along a column.
#[pyfunction]
pub(crate) fn witness<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    z: Rows<'py>,
    kernel: &str,
    column: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let (x, z, kernel) = (sample(x)?, sample(z)?, fit::kernel(kernel)?);
    let found = py.detach(|| discrepancy::witness(&x, &z, Some(&kernel), column)).map_err(refuse)?;
    json(py, serde_json::to_vec(&found))
}

/// Columns of `x` from the most to the least relevant for `y`, and their scores.
#[pyfunction]
pub(crate) fn rank_features(
    py: Python<'_>,
    x: Rows<'_>,
    y: Rows<'_>,
    method: &str,
    kernel: Option<&str>,
    target_kernel: Option<&str>,
    wanted: usize,
) -> PyResult<(Vec<usize>, Vec<f64>)> {
    let (x, y) = (sample(x)?, sample(y)?);
    let method = Method::named(method).ok_or_else(|| refuse(format!("there is no method '{method}'")))?;
    let kernel = kernel.map(fit::kernel).transpose()?;
    let target = target_kernel.map(fit::kernel).transpose()?;
    let stop = Settings::default().stop;
    let rank = || rank_until(&x, &y, method, kernel.as_ref(), target.as_ref(), wanted, &stop);
    let found = interruptible(py, &pool(None)?, &stop, rank)?.map_err(refuse_test)?;
    Ok((found.order, found.scores))
}

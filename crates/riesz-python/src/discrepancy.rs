//! Two-sample and independence tests: tables in, what was found out.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::discrepancy::feature_ranking::{Method, rank_until};
use riesz::discrepancy::{
    self, AttributionRequest, FactorKind, MmdEstimator, Null, TestSettings, lengthscale_grid, residuals,
};
use riesz::explanation::Fact;
use riesz::{Column, Error, IndependenceTest, Kernel, Table, TwoSampleTest};

use crate::explanation::Explanation;
use crate::threads::{Threads, interruptible};
use crate::{NamedRows, fit, matrix, players, raise, refuse, sample};

/// Factors, what is said of features ("nothing", "values" or "significance"), groups of them, whether pairs
/// are looked at, draws, their seed.
type Options = (String, String, Option<Vec<(String, Vec<usize>)>>, bool, usize, u64);

fn settings(columns: &[Column], options: Options) -> PyResult<TestSettings> {
    let (factors, attribute, groups, interactions, permutations, seed) = options;
    let factors = self::factors(&factors)?;
    let attribute = match attribute.as_str() {
        "nothing" => AttributionRequest::Nothing,
        "values" => AttributionRequest::Values,
        _ => AttributionRequest::Significance,
    };
    let groups = groups.map(|groups| players(columns, groups)).transpose()?;
    Ok(TestSettings {
        factors,
        attribute,
        groups,
        interactions,
        permutations,
        seed,
        ..TestSettings::default()
    })
}

fn factors(name: &str) -> PyResult<FactorKind> {
    FactorKind::named(name)
        .ok_or_else(|| refuse(format!("factors = '{name}': they are 'orthogonal' or 'product'")))
}

/// Kernels in riesz's JSON form.
fn given(kernels: &[String]) -> PyResult<Vec<Kernel>> {
    kernels.iter().map(|json| fit::kernel(json)).collect()
}

/// The kernels of a test: those given, or the default one, at each multiple of their length scales.
fn kernels(
    mut kernels: Vec<Kernel>,
    multiples: Option<&[f64]>,
    sample: &Table,
    settings: &TestSettings,
) -> riesz::Result<Vec<Kernel>> {
    let Some(multiples) = multiples else { return Ok(kernels) };
    if kernels.is_empty() {
        kernels.push(settings.factors.default_kernel(sample, settings.groups.as_ref())?);
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

/// What a test found; `None` for what was not asked for.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub(crate) struct TestResult {
    statistic: f64,
    pvalue: Option<f64>,
    null_distribution: Py<PyArray1<f64>>,
    /// Kernel in its JSON form, statistic and p-value.
    by_kernel: Vec<(String, f64, Option<f64>)>,
    chosen: usize,
    attributions: Option<Py<Explanation>>,
    pvalues: Option<Py<PyArray1<f64>>>,
    adjusted_pvalues: Option<Py<PyArray1<f64>>>,
    bands: Option<Py<PyArray2<f64>>>,
    interactions: Option<Py<PyArray2<f64>>>,
    interactions_bound: Option<f64>,
    alone: Option<Py<PyArray1<f64>>>,
    alone_pvalues: Option<Py<PyArray1<f64>>>,
    /// Statistic and p-value.
    beyond: Option<(f64, Option<f64>)>,
}

impl TestResult {
    fn new(py: Python<'_>, found: discrepancy::TestResult) -> PyResult<Self> {
        let list = |numbers: Vec<f64>| numbers.into_pyarray(py).unbind();
        let grid = |rows: usize, numbers: Vec<f64>| -> PyResult<_> {
            let cols = numbers.len() / rows.max(1);
            Ok(matrix(rows, cols, numbers)?.into_pyarray(py).unbind())
        };
        let kernel = |of: discrepancy::PerKernelResult| {
            Ok((serde_json::to_string(&of.kernel).map_err(refuse)?, of.statistic, of.pvalue))
        };
        let (mut explanation, mut significance, mut interactions) = (None, None, None);
        let (mut alone, mut alone_pvalues, mut beyond) = (None, None, None);
        if let Some(found) = found.attributions {
            if let Some(own) = found.alone {
                (alone, alone_pvalues) = (Some(list(own.values)), own.pvalues.map(list));
            }
            beyond = found.beyond.map(|beyond| (beyond.statistic, beyond.pvalue));
            explanation = Some(Py::new(py, Explanation::new(found.explanation, None))?);
            (significance, interactions) = (found.significance, found.interactions);
        }
        let (mut pvalues, mut adjusted_pvalues, mut bands) = (None, None, None);
        if let Some(found) = significance {
            (pvalues, adjusted_pvalues) = (Some(list(found.pvalues)), Some(list(found.adjusted)));
            bands = Some(grid(found.bands.len(), found.bands.concat())?);
        }
        Ok(Self {
            statistic: found.statistic,
            pvalue: found.pvalue,
            null_distribution: list(found.null),
            by_kernel: found.by_kernel.into_iter().map(kernel).collect::<PyResult<_>>()?,
            chosen: found.chosen,
            attributions: explanation,
            pvalues,
            adjusted_pvalues,
            bands,
            interactions_bound: interactions.as_ref().map(|i| i.bound),
            interactions: interactions
                .map(|i| grid(i.values.rows(), i.values.data().to_vec()))
                .transpose()?,
            alone,
            alone_pvalues,
            beyond,
        })
    }
}

/// Compares two samples with the same columns. `block_size` is None, or the rows of a block.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn mmd_test<'py>(
    py: Python<'py>,
    x: NamedRows<'py>,
    z: NamedRows<'py>,
    kernels: Vec<String>,
    multiples: Option<Vec<f64>>,
    biased: bool,
    block_size: Option<usize>,
    options: Options,
    threads: Option<usize>,
) -> PyResult<TestResult> {
    let (x, z) = (sample(x)?, sample(z)?);
    let pooled = x.stack(&z).map_err(refuse)?;
    let estimator = match block_size {
        Some(rows) => MmdEstimator::Block(rows),
        None if biased => MmdEstimator::Biased,
        None => MmdEstimator::Unbiased,
    };
    let settings = settings(x.columns(), options)?;
    let stop = settings.stop.clone();
    let given = given(&kernels)?;
    let work = move || {
        let kernels = self::kernels(given, multiples.as_deref(), &pooled, &settings)?;
        TwoSampleTest { kernels, estimator, settings }.run(&x, &z)
    };
    let found = interruptible(py, &Threads::new(threads), &stop, work)?.map_err(refuse_test)?;
    TestResult::new(py, found)
}

/// Asks whether the rows of two tables depend on each other, beyond a third one if it is given. `decay` is
/// None for permutations, or the rows over which a wild bootstrap forgets.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn hsic_test<'py>(
    py: Python<'py>,
    x: NamedRows<'py>,
    y: NamedRows<'py>,
    given: Option<NamedRows<'py>>,
    kernels: Vec<String>,
    multiples: Option<Vec<f64>>,
    target_kernel: Option<&str>,
    unbiased: bool,
    decay: Option<f64>,
    options: Options,
    threads: Option<usize>,
) -> PyResult<TestResult> {
    let (mut x, mut y) = (sample(x)?, sample(y)?);
    let settings = settings(x.columns(), options)?;
    let stop = settings.stop.clone();
    let beyond = given.as_ref().map(|given| Fact::new("given", given.0.join(", ")));
    let (given, kernels) = (given.map(sample).transpose()?, self::given(&kernels)?);
    let target_kernel = target_kernel.map(fit::kernel).transpose()?;
    let work = move || {
        if let Some(given) = given {
            (x, y) = (residuals(&x, &given)?, residuals(&y, &given)?);
        }
        let null = decay.map_or(Null::Permutation, Null::WildBootstrap);
        let kernels = self::kernels(kernels, multiples.as_deref(), &x, &settings)?;
        IndependenceTest { kernels, target_kernel, unbiased, null, settings }.run(&x, &y)
    };
    let mut found = interruptible(py, &Threads::new(threads), &stop, work)?.map_err(refuse_test)?;
    if let Some(attributions) = &mut found.attributions {
        attributions.explanation.provenance.model.extend(beyond);
    }
    TestResult::new(py, found)
}

/// The witness function of two samples along a column.
#[pyfunction]
pub(crate) fn witness<'py>(
    py: Python<'py>,
    x: NamedRows<'py>,
    z: NamedRows<'py>,
    kernel: &str,
    column: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let (x, z, kernel) = (sample(x)?, sample(z)?, fit::kernel(kernel)?);
    let (stop, column) = (Arc::default(), column.to_string());
    let work = move || discrepancy::witness(&x, &z, Some(&kernel), &column);
    let found = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    Ok(PyBytes::new(py, &serde_json::to_vec(&found).map_err(refuse)?))
}

/// Columns of `x` from the most to the least relevant for `y`, and their scores.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn rank_features(
    py: Python<'_>,
    x: NamedRows<'_>,
    y: NamedRows<'_>,
    method: &str,
    factors: &str,
    kernel: Option<&str>,
    target_kernel: Option<&str>,
    wanted: usize,
) -> PyResult<(Vec<usize>, Vec<f64>)> {
    let (x, y) = (sample(x)?, sample(y)?);
    let method = Method::named(method).ok_or_else(|| refuse(format!("there is no method '{method}'")))?;
    let kernel = kernel.map(fit::kernel).transpose()?;
    let target = target_kernel.map(fit::kernel).transpose()?;
    let stop = TestSettings::default().stop;
    let (factors, heeded) = (self::factors(factors)?, stop.clone());
    let rank = move || rank_until(&x, &y, method, factors, kernel.as_ref(), target.as_ref(), wanted, &heeded);
    let found = interruptible(py, &Threads::all(), &stop, rank)?.map_err(refuse_test)?;
    Ok((found.order, found.scores))
}

//! Two-sample and independence tests for Python.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::discrepancy::feature_ranking::{Method, rank_until};
use riesz::discrepancy::{
    self, AttributionRequest, FactorKind, MmdEstimator, Null, TestSettings, length_scale_grid, residuals,
};
use riesz::model_card::CardEntry;
use riesz::{Column, Error, IndependenceTest, Kernel, Table, TwoSampleTest};
use riesz_report::{TestPage, TestSubject};

use crate::explanation::Explanation;
use crate::thread_pools::{Threads, interruptible};
use crate::{NamedRows, fit, matrix, players, raise, refuse, sample};

/// Options of a test: the kind of factors, the attribution to features ("nothing", "values" or
/// "significance"), groups of features, whether pairs are attributed too, the number of permutations, and the
/// seed.
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
        .ok_or_else(|| refuse(format!("kernel_factors = '{name}': it must be 'orthogonal' or 'product'")))
}

/// Parses kernels in riesz's JSON form.
fn parse_kernels(kernels: &[String]) -> PyResult<Vec<Kernel>> {
    kernels.iter().map(|json| fit::kernel(json)).collect()
}

/// The kernels of a test: the given kernels, or the default one, at each multiple of their length scales.
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
    Ok(kernels.iter().flat_map(|kernel| length_scale_grid(kernel, multiples)).collect())
}

/// The exception for an error of a test, with the names of the Python arguments.
fn refuse_test(error: Error) -> PyErr {
    match &error {
        Error::NotProduct { .. } => {
            refuse(format!("{error}; or give attribution=None for the statistic alone"))
        }
        Error::TooFew { subject, needed, unit } => {
            let name = match subject.as_str() {
                "the first sample" => "X",
                "the second sample" => "Z",
                other => other,
            };
            refuse(Error::TooFew { subject: name.into(), needed: *needed, unit })
        }
        _ => raise(error),
    }
}

/// The result of a test; `None` for parts that were not requested.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub(crate) struct TestResult {
    statistic: f64,
    pvalue: Option<f64>,
    null_distribution: Py<PyArray1<f64>>,
    /// The kernel in JSON, the statistic and the p-value of each kernel.
    by_kernel: Vec<(String, f64, Option<f64>)>,
    chosen: usize,
    attributions: Option<Py<Explanation>>,
    pvalues: Option<Py<PyArray1<f64>>>,
    adjusted_pvalues: Option<Py<PyArray1<f64>>>,
    bands: Option<Py<PyArray2<f64>>>,
    interactions: Option<Py<PyArray2<f64>>>,
    interactions_bound: Option<f64>,
    marginal: Option<Py<PyArray1<f64>>>,
    marginal_pvalues: Option<Py<PyArray1<f64>>>,
    /// The statistic and the p-value of the higher-order term.
    higher_order: Option<(f64, Option<f64>)>,
    /// The whole result as JSON, for files and pages.
    record: String,
}

impl TestResult {
    fn new(py: Python<'_>, result: discrepancy::TestResult) -> PyResult<Self> {
        let record = serde_json::to_string(&result).map_err(refuse)?;
        let list = |numbers: Vec<f64>| numbers.into_pyarray(py).unbind();
        let grid = |rows: usize, numbers: Vec<f64>| -> PyResult<_> {
            let cols = numbers.len() / rows.max(1);
            Ok(matrix(rows, cols, numbers)?.into_pyarray(py).unbind())
        };
        let kernel = |entry: discrepancy::PerKernelResult| {
            Ok((serde_json::to_string(&entry.kernel).map_err(refuse)?, entry.statistic, entry.pvalue))
        };
        let (mut explanation, mut significance, mut interactions) = (None, None, None);
        let (mut marginal, mut marginal_pvalues, mut higher_order) = (None, None, None);
        if let Some(attributions) = result.attributions {
            if let Some(marginal_values) = attributions.marginal {
                (marginal, marginal_pvalues) =
                    (Some(list(marginal_values.values)), marginal_values.pvalues.map(list));
            }
            higher_order = attributions.higher_order.map(|term| (term.statistic, term.pvalue));
            explanation = Some(Py::new(py, Explanation::new(attributions.explanation, None))?);
            (significance, interactions) = (attributions.significance, attributions.interactions);
        }
        let (mut pvalues, mut adjusted_pvalues, mut bands) = (None, None, None);
        if let Some(feature_tests) = significance {
            (pvalues, adjusted_pvalues) =
                (Some(list(feature_tests.pvalues)), Some(list(feature_tests.adjusted)));
            bands = Some(grid(feature_tests.bands.len(), feature_tests.bands.concat())?);
        }
        Ok(Self {
            statistic: result.statistic,
            pvalue: result.pvalue,
            null_distribution: list(result.null),
            by_kernel: result.by_kernel.into_iter().map(kernel).collect::<PyResult<_>>()?,
            chosen: result.chosen,
            attributions: explanation,
            pvalues,
            adjusted_pvalues,
            bands,
            interactions_bound: interactions.as_ref().map(|i| i.bound),
            interactions: interactions
                .map(|i| grid(i.values.rows(), i.values.data().to_vec()))
                .transpose()?,
            marginal,
            marginal_pvalues,
            higher_order,
            record,
        })
    }
}

/// Compares two samples with the same columns. `block_size` is the number of rows of a block, or `None`.
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
    let parsed = parse_kernels(&kernels)?;
    let work = move || {
        let kernels = self::kernels(parsed, multiples.as_deref(), &pooled, &settings)?;
        TwoSampleTest { kernels, estimator, settings }.run(&x, &z)
    };
    let result = interruptible(py, &Threads::new(threads), &stop, work)?.map_err(refuse_test)?;
    TestResult::new(py, result)
}

/// Tests whether the rows of two tables depend on each other, given the rows of a third table if there is
/// one. `decay` is the number of rows over which a wild bootstrap decorrelates, or `None` for permutations.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn hsic_test<'py>(
    py: Python<'py>,
    x: NamedRows<'py>,
    y: NamedRows<'py>,
    conditioning: Option<NamedRows<'py>>,
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
    let condition = conditioning.as_ref().map(|table| CardEntry::new("given", table.0.join(", ")));
    let (condition_rows, kernels) = (conditioning.map(sample).transpose()?, self::parse_kernels(&kernels)?);
    let target_kernel = target_kernel.map(fit::kernel).transpose()?;
    let work = move || {
        if let Some(condition_rows) = condition_rows {
            (x, y) = (residuals(&x, &condition_rows)?, residuals(&y, &condition_rows)?);
        }
        let null = decay.map_or(Null::Permutation, Null::WildBootstrap);
        let kernels = self::kernels(kernels, multiples.as_deref(), &x, &settings)?;
        IndependenceTest { kernels, target_kernel, unbiased, null, settings }.run(&x, &y)
    };
    let mut result = interruptible(py, &Threads::new(threads), &stop, work)?.map_err(refuse_test)?;
    if let Some(attributions) = &mut result.attributions {
        attributions.explanation.provenance.model.extend(condition);
    }
    TestResult::new(py, result)
}

/// The names of the two samples, or the target and the columns that are given (which may be empty).
type SubjectInput = (bool, String, String);

fn subject((of_samples, first, second): &SubjectInput) -> TestSubject<'_> {
    match of_samples {
        true => TestSubject::Samples([first, second]),
        false => TestSubject::Dependence { target: first, conditions: second },
    }
}

fn read_record(record: &str) -> PyResult<discrepancy::TestResult> {
    serde_json::from_str(record).map_err(refuse)
}

/// The result of a test as the text of a JSON file, from its JSON.
#[pyfunction]
pub(crate) fn test_record(record: &str, subject_names: SubjectInput) -> PyResult<String> {
    let record = subject(&subject_names).record(&read_record(record)?).map_err(refuse)?;
    Ok(format!("{record:#}\n"))
}

/// The page of a test, from its result as JSON and the two samples, if it has two.
#[pyfunction]
pub(crate) fn test_page(
    record: &str,
    subject_names: SubjectInput,
    title: Option<String>,
    samples: Option<(NamedRows<'_>, NamedRows<'_>)>,
    facts: Vec<(String, String)>,
    max_display: usize,
) -> PyResult<String> {
    let (mut result, subject) = (read_record(record)?, subject(&subject_names));
    if let Some(attributions) = &mut result.attributions {
        let facts = facts.iter().map(|(name, value)| CardEntry::new(name, value));
        attributions.explanation.provenance.run.extend(facts);
    }
    let witnesses = match samples {
        Some((x, z)) => riesz_report::largest_witnesses(&sample(x)?, &sample(z)?, &result).map_err(raise)?,
        None => Vec::new(),
    };
    let (title, verdict) = (title.unwrap_or_else(|| subject.title()), subject.verdict(&result));
    let (result, witnesses) = (&result, &witnesses[..]);
    let page = TestPage { title: &title, verdict: &verdict, result, witnesses, max_display };
    riesz_report::test_report(&page).map_err(raise)
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
    let witness = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    Ok(PyBytes::new(py, &serde_json::to_vec(&witness).map_err(refuse)?))
}

/// Ranks the columns of `x` from the most to the least relevant for `y`, and returns their scores.
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
    let (factors, worker_stop) = (self::factors(factors)?, stop.clone());
    let rank =
        move || rank_until(&x, &y, method, factors, kernel.as_ref(), target.as_ref(), wanted, &worker_stop);
    let ranking = interruptible(py, &Threads::per_core(), &stop, rank)?.map_err(refuse_test)?;
    Ok((ranking.order, ranking.scores))
}

//! Global importance of features: decompositions of variances and losses.

use std::sync::Arc;

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::global::{AverageComponents, Curve, Labels, Sage, SampledSensitivity, Sensitivity, Shares};
use riesz::model_average::ModelPart;
use riesz::model_card::CardEntry;
use riesz::{Background, Matrix, PosteriorCovariance, Table};
use riesz_report::{ImportancePage, Overall};

use crate::black_box::{Failure, call};
use crate::error::{raise, refuse};
use crate::explanation::Explanation;
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NO_POSTERIOR, NamedRows, matrix, players, sample, table};

fn background(
    model: &riesz::KernelExpansion,
    rows: &PyReadonlyArray2<'_, f64>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
) -> PyResult<Background> {
    let rows = table(model.columns(), rows.as_array()).map_err(refuse)?;
    Ok(Background { rows, weights: weights.map(|weights| weights.as_array().to_vec()) })
}

type Array<'py> = Bound<'py, PyArray2<f64>>;

/// A model with its weight in an average; a single model has the weight 1.
type WeightedExpansion<'py> = (f64, PyRef<'py, Expansion>);

/// The models of an average, or one model, shared with other threads.
struct Models(Vec<(f64, Arc<riesz::KernelExpansion>, Option<Arc<PosteriorCovariance>>)>);

impl Models {
    fn new(models: &[WeightedExpansion<'_>]) -> PyResult<Self> {
        let shared = |(weight, expansion): &WeightedExpansion<'_>| {
            (*weight, expansion.model.clone(), expansion.covariance.clone())
        };
        match models {
            [] => Err(refuse(riesz::Error::too_few("the list of models", 1, "model is"))),
            models => Ok(Self(models.iter().map(shared).collect())),
        }
    }

    fn first(&self) -> &riesz::KernelExpansion {
        &self.0[0].1
    }

    fn parts(&self) -> Vec<ModelPart<'_>> {
        let parts = self.0.iter().map(|(weight, model, covariance)| ModelPart {
            weight: *weight,
            model,
            covariance: covariance.as_deref(),
        });
        parts.collect()
    }
}

/// The decomposition of the variance of each output: the explanation, whose predictions are the variances;
/// the first-order parts, Shapley effects and total parts, outputs × players; and the error bound of each
/// output.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub(crate) struct SobolIndices {
    explanation: Py<Explanation>,
    first_order: Py<PyArray2<f64>>,
    effects: Py<PyArray2<f64>>,
    total_order: Py<PyArray2<f64>>,
    bound: Vec<f64>,
    /// The whole result as JSON, for files and pages.
    record: String,
}

/// Decomposes the variance of each output.
///
/// `draws` are the number of posterior draws and their seed: each draw is then an output, output after
/// output. Without `draws`, `posterior` gives posterior means.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn sobol_indices<'py>(
    py: Python<'py>,
    models: Vec<WeightedExpansion<'py>>,
    rows: PyReadonlyArray2<'py, f64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    groups: Vec<(String, Vec<usize>)>,
    index: &str,
    posterior: bool,
    draws: Option<(usize, u64)>,
    threads: Option<usize>,
) -> PyResult<SobolIndices> {
    let models = Models::new(&models)?;
    let inputs = background(models.first(), &rows, weights)?;
    let sensitivity = Sensitivity {
        groups: Some(players(models.first().columns(), groups)?),
        index: index.parse().map_err(refuse)?,
        ..Sensitivity::default()
    };
    if posterior && models.parts().iter().any(|part| part.covariance.is_none()) {
        return Err(refuse(NO_POSTERIOR));
    }
    let stop = sensitivity.stop.clone();
    let work = move || {
        let indices_of = |part: ModelPart<'_>| {
            let covariance = part.covariance.filter(|_| posterior);
            let indices = match (covariance, draws) {
                (Some(covariance), Some(draws)) => {
                    sensitivity.indices_of_draws(part.model, covariance, &inputs, draws)
                }
                (Some(covariance), None) => {
                    sensitivity.posterior_mean_indices(part.model, covariance, &inputs)
                }
                (None, _) => sensitivity.run(part.model, &inputs),
            };
            Ok((part.weight, indices?))
        };
        let indices = models.parts().into_iter().map(indices_of).collect::<riesz::Result<_>>()?;
        riesz::SobolIndices::mixed(indices)
    };
    let indices = interruptible(py, &Threads::new(threads), &stop, work)?.map_err(raise)?;
    let (m, p) = (indices.explanation.outputs(), indices.explanation.players.len());
    let array = |read: &dyn Fn(usize) -> Vec<f64>| -> PyResult<Py<PyArray2<f64>>> {
        Ok(matrix(m, p, (0..m).flat_map(read).collect())?.into_pyarray(py).unbind())
    };
    Ok(SobolIndices {
        record: serde_json::to_string(&indices).map_err(refuse)?,
        first_order: array(&|o| indices.first_order(o).to_vec())?,
        effects: array(&|o| indices.effects(o).to_vec())?,
        total_order: array(&|o| indices.total_order(o).to_vec())?,
        bound: (0..m).map(|o| indices.bound(o)).collect(),
        explanation: Py::new(py, Explanation::new(indices.explanation, None))?,
    })
}

fn read_indices(record: &str) -> PyResult<riesz::SobolIndices> {
    serde_json::from_str(record).map_err(refuse)
}

fn read_values(record: &str) -> PyResult<riesz::global::SageValues> {
    serde_json::from_str(record).map_err(refuse)
}

/// Importance as the text of a JSON file, from its JSON: SAGE values if `of_loss`, or Sobol indices.
#[pyfunction]
pub(crate) fn importance_record(record: &str, of_loss: bool) -> PyResult<String> {
    let record = match of_loss {
        true => riesz_report::sage_record(&read_values(record)?),
        false => riesz_report::sobol_record(&read_indices(record)?),
    };
    Ok(format!("{:#}\n", record.map_err(refuse)?))
}

/// The models, their input rows with their weights, and the players, for the curves of a page.
type CurveInput<'py> = (
    Vec<WeightedExpansion<'py>>,
    PyReadonlyArray2<'py, f64>,
    Option<PyReadonlyArray1<'py, f64>>,
    Vec<(String, Vec<usize>)>,
);

/// The page of Sobol indices with their curves, or of SAGE values with their explanation, from the JSON of
/// the indices or values.
#[pyfunction]
pub(crate) fn importance_page(
    record: &str,
    title: Option<String>,
    target: Option<String>,
    curves: Option<CurveInput<'_>>,
    explanation: Option<&Explanation>,
    facts: Vec<(String, String)>,
    max_display: usize,
) -> PyResult<String> {
    let title = title.unwrap_or_else(|| riesz_report::importance_title(target.as_slice()));
    let facts = facts.iter().map(|(name, value)| CardEntry::new(name, value));
    let page = |ranking: Overall<'_>, curves: &[Curve]| {
        let page = ImportancePage { title: &title, ranking, curves, max_display };
        riesz_report::importance_report(&page).map_err(raise)
    };
    if let Some(explanation) = explanation {
        let values = read_values(record)?;
        let mut explanation = explanation.inner.clone();
        explanation.provenance.run.extend(facts);
        return page(Overall::Loss { values: &values, explanation: &explanation }, &[]);
    }
    let mut indices = read_indices(record)?;
    indices.explanation.provenance.run.extend(facts);
    let curves = match curves {
        None => Vec::new(),
        Some((models, rows, weights, groups)) => {
            let models = Models::new(&models)?;
            let inputs = background(models.first(), &rows, weights)?;
            let groups = players(models.first().columns(), groups)?;
            riesz_report::importance_curves(&models.parts(), &inputs, Some(&groups), &indices)
                .map_err(raise)?
        }
    };
    page(Overall::Variance(&indices), &curves)
}

/// SAGE values with their errors.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub(crate) struct SageValues {
    explanation: Py<Explanation>,
    values: Py<PyArray1<f64>>,
    std_error: Option<Py<PyArray1<f64>>>,
    sampling_error: Option<Py<PyArray1<f64>>>,
    base_loss: f64,
    loss: f64,
    measure: String,
    coalitions: usize,
    /// The whole result as JSON, for files and pages.
    record: String,
}

/// Computes SAGE values, the players' parts in reducing the loss on labelled rows. Labels are codes of
/// classes, or numbers (rows × outputs).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn sage_values<'py>(
    py: Python<'py>,
    model: &Expansion,
    x: PyReadonlyArray2<'py, f64>,
    numbers: Option<PyReadonlyArray2<'py, f64>>,
    classes: Option<Vec<usize>>,
    rows: PyReadonlyArray2<'py, f64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    groups: Vec<(String, Vec<usize>)>,
    permutations: usize,
    seed: u64,
    threads: Option<usize>,
) -> PyResult<SageValues> {
    let model = model.model.clone();
    let (x, background) =
        (table(model.columns(), x.as_array()).map_err(refuse)?, background(&model, &rows, weights)?);
    let labels = labels(numbers, classes)?;
    let groups = Some(players(model.columns(), groups)?);
    let sage = Sage { groups, permutations, seed, ..Sage::default() };
    let stop = sage.stop.clone();
    let work = move || {
        let values = sage.run(&model, &x, &labels, &background)?;
        let explanation = values.explanation(&model, &x, seed)?;
        Ok::<_, riesz::Error>((values, explanation))
    };
    let (sage_values, explanation) =
        interruptible(py, &Threads::new(threads), &stop, work)?.map_err(raise)?;
    SageValues::new(py, sage_values, explanation)
}

impl SageValues {
    fn new(
        py: Python<'_>,
        sage_values: riesz::global::SageValues,
        explanation: riesz::Explanation,
    ) -> PyResult<Self> {
        let list = |numbers: Vec<f64>| numbers.into_pyarray(py).unbind();
        Ok(SageValues {
            record: serde_json::to_string(&sage_values).map_err(refuse)?,
            explanation: Py::new(py, Explanation::new(explanation, None))?,
            values: list(sage_values.values),
            std_error: sage_values.std_error.map(list),
            sampling_error: sage_values.sampling_error.map(list),
            base_loss: sage_values.base_loss,
            loss: sage_values.loss,
            measure: sage_values.measure,
            coalitions: sage_values.coalitions,
        })
    }
}

/// The labels of rows: codes of classes, or numbers (rows × outputs).
fn labels(numbers: Option<PyReadonlyArray2<'_, f64>>, classes: Option<Vec<usize>>) -> PyResult<Labels> {
    match (numbers, classes) {
        (_, Some(classes)) => Ok(Labels::Classes(classes)),
        (Some(numbers), None) => {
            let targets: Array2<f64> = numbers.as_array().to_owned();
            let (rows, columns) = (targets.nrows(), targets.ncols());
            Ok(Labels::Numbers(Matrix::from_row_major(rows, columns, targets.iter().copied().collect())))
        }
        (None, None) => Err(refuse("the labels are missing: give classes or numbers")),
    }
}

/// A table of background rows and their weights.
type WeightedRows<'py> = (NamedRows<'py>, Option<Vec<f64>>);

fn weighted((rows, weights): WeightedRows<'_>) -> PyResult<Background> {
    Ok(Background { rows: sample(rows)?, weights })
}

/// Computes SAGE values of `function`, from arrays (rows, columns) to arrays (rows, outputs).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn sage_of_function<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    x: NamedRows<'py>,
    numbers: Option<PyReadonlyArray2<'py, f64>>,
    classes: Option<Vec<usize>>,
    rows: WeightedRows<'py>,
    groups: Vec<(String, Vec<usize>)>,
    permutations: usize,
    seed: u64,
) -> PyResult<SageValues> {
    let (x, background, labels) = (sample(x)?, weighted(rows)?, labels(numbers, classes)?);
    let groups = Some(players(x.columns(), groups)?);
    let sage = Sage { groups, permutations, seed, ..Sage::default() };
    let predict = |rows: &Table| -> Result<Matrix, Failure> { call(py, function, rows) };
    let values = sage.run_function(predict, &x, &labels, &background)?;
    let explanation = values.explanation_of_function(&x, seed);
    SageValues::new(py, values, explanation)
}

/// Estimated shares and their standard errors, outputs × players.
type EstimatedShares<'py> = (Array<'py>, Array<'py>);

/// Estimates the decomposition of the variance of each output of `function`, from arrays (rows, columns) to
/// arrays (rows, outputs). Returns the explanation, first-order indices, Shapley effects and total indices,
/// and the number of evaluated rows.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "called by name from one place in Python")]
pub(crate) fn sobol_of_function<'py>(
    py: Python<'py>,
    function: &Bound<'py, PyAny>,
    rows: WeightedRows<'py>,
    groups: Vec<(String, Vec<usize>)>,
    samples: usize,
    seed: u64,
) -> PyResult<(Explanation, [EstimatedShares<'py>; 3], usize)> {
    let inputs = weighted(rows)?;
    let groups = Some(players(inputs.rows.columns(), groups)?);
    let sensitivity = SampledSensitivity { groups, samples, seed, ..SampledSensitivity::default() };
    let predict = |rows: &Table| -> Result<Matrix, Failure> { call(py, function, rows) };
    let indices = sensitivity.run(&inputs, predict)?;
    let (m, p) = (indices.variance.len(), indices.explanation.players.len());
    let array = |numbers: Vec<f64>| -> PyResult<Array<'py>> { Ok(matrix(m, p, numbers)?.into_pyarray(py)) };
    let shares = |shares: Shares| -> PyResult<EstimatedShares<'py>> {
        Ok((array(shares.values)?, array(shares.std_error)?))
    };
    let shares = [shares(indices.first_order)?, shares(indices.effects)?, shares(indices.total_order)?];
    Ok((Explanation::new(indices.explanation, None), shares, indices.evaluations))
}

/// A component of the functional ANOVA of a model or of an average at some rows, rows × outputs, and its
/// posterior standard deviations if there are posteriors.
#[pyfunction]
#[allow(
    clippy::too_many_arguments,
    clippy::type_complexity,
    reason = "called by name from one place in Python"
)]
pub(crate) fn component<'py>(
    py: Python<'py>,
    models: Vec<WeightedExpansion<'py>>,
    rows: PyReadonlyArray2<'py, f64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    groups: Vec<(String, Vec<usize>)>,
    set: Vec<usize>,
    points: PyReadonlyArray2<'py, f64>,
) -> PyResult<(Array<'py>, Option<Array<'py>>)> {
    let models = Models::new(&models)?;
    let inputs = background(models.first(), &rows, weights)?;
    let columns = models.first().columns();
    let (groups, points) = (players(columns, groups)?, table(columns, points.as_array()).map_err(refuse)?);
    let stop = Arc::default();
    let work =
        move || AverageComponents::new(&models.parts(), &inputs, Some(&groups))?.evaluate(&set, &points);
    let (values, sd) = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let array = |m: Matrix| -> PyResult<Array<'py>> {
        Ok(matrix(m.rows(), m.cols(), m.data().to_vec())?.into_pyarray(py))
    };
    Ok((array(values)?, sd.map(array).transpose()?))
}

//! The compiled part of the Python package `riesz`. It only converts between numpy arrays and the library's
//! types; the public classes are written in Python, in `python/riesz`.

mod aggregate;
mod aggregate_counts;
mod bayesian_optimisation;
mod black_box;
mod causal;
mod choices;
mod columns;
mod conditional_mean;
mod discrepancy;
mod duel_tables;
mod error;
mod explanation;
mod fit;
mod fusion;
mod global;
mod kernel;
mod map_pages;
mod nystrom;
mod preference;
mod preference_scale;
mod question;
mod ranking;
mod thread_pools;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use numpy::ndarray::{Array2, Array3, ArrayView2};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::attribution::sampled_shapley;
use riesz::explanation::Strongest;
use riesz::format::libsvm;
use riesz::format::model::{self, SavedModel};
use riesz::kernel_model::{Link, ProbabilityLink};
use riesz::linalg::{Cholesky, Sparse};
use riesz::model_card::CardEntry;
use riesz::posterior::VarianceReduction;
use riesz::question::{Budget, Subject};
use riesz::table::{Players, level_of_number, level_of_text};
use riesz::{
    Column, ColumnKind, Exactness, Matrix, NaturalScalePrediction, Posterior, PosteriorCovariance,
    Prediction, Table,
};
use self_cell::self_cell;

use crate::error::{raise, refuse};
use crate::explanation::Explanation;
use crate::question::{Question, Settings};
use crate::thread_pools::{PATIENCE, Threads, interruptible, interruptible_to_the_end};

fn table(columns: &[Column], rows: ArrayView2<'_, f64>) -> riesz::Result<Table> {
    Table::from_column_major(columns.to_vec(), rows.nrows(), rows.t().iter().copied().collect())
}

/// Names of columns, their levels (`None` for numeric columns), and the rows (rows × columns).
pub(crate) type NamedRows<'py> = (Vec<String>, Vec<Option<Vec<String>>>, PyReadonlyArray2<'py, f64>);

/// Converts rows with named columns to a table.
pub(crate) fn sample((names, levels, rows): NamedRows<'_>) -> PyResult<Table> {
    let kind = |levels: Option<Vec<String>>| match levels {
        Some(levels) => ColumnKind::Categorical { levels },
        None => ColumnKind::Numeric,
    };
    let columns: Vec<Column> =
        names.into_iter().zip(levels).map(|(name, levels)| Column { name, kind: kind(levels) }).collect();
    table(&columns, rows.as_array()).map_err(refuse)
}

/// Row-major numbers as an array (rows × cols); there must be `rows · cols` numbers.
fn matrix(rows: usize, cols: usize, numbers: Vec<f64>) -> PyResult<Array2<f64>> {
    Array2::from_shape_vec((rows, cols), numbers).map_err(refuse)
}

/// Whether an explanation keeps the values of `coalitions` coalitions in `games` games, one for each row and
/// output: up to 1 GB.
fn fits_in_memory(coalitions: usize, games: usize) -> bool {
    4.0 * coalitions as f64 * games as f64 <= 1e9
}

/// The coalitions evaluated for an explanation, from which a larger budget continues.
#[pyclass(frozen, module = "riesz._core")]
#[derive(Clone, Default)]
pub(crate) struct Sample {
    sample: sampled_shapley::SampleState,
    /// The number of evaluations of the function for each row.
    evaluations: usize,
}

#[pymethods]
impl Sample {
    /// The number of coalitions other than the empty and the full one.
    #[getter]
    fn coalitions(&self) -> usize {
        self.sample.coalitions()
    }
}

/// Players from their names and the positions of their columns.
fn players(columns: &[Column], groups: Vec<(String, Vec<usize>)>) -> PyResult<Players> {
    let mut named = Vec::with_capacity(groups.len());
    for (name, columns_of_group) in groups {
        let names: Option<Vec<String>> =
            columns_of_group.iter().map(|&j| columns.get(j).map(|c| c.name.clone())).collect();
        let names =
            names.ok_or_else(|| refuse(format!("group '{name}' names a column that does not exist")))?;
        named.push((name, names));
    }
    Players::named(columns, &named).map_err(refuse)
}

const NO_POSTERIOR: &str = "this model holds no posterior, which standard deviations, covariances and samples \
                            need: fit a GaussianProcessRegressor and save it with posterior=True ('riesz fit \
                            --model gp --posterior')";

/// A fitted kernel model.
#[pyclass(frozen, module = "riesz._core")]
struct Expansion {
    model: Arc<riesz::KernelExpansion>,
    covariance: Option<Arc<PosteriorCovariance>>,
    groups: Option<Players>,
}

impl Expansion {
    /// The result of `work` for the posterior at some rows.
    fn evaluate_posterior<T: Send + 'static>(
        &self,
        py: Python<'_>,
        rows: &PyReadonlyArray2<'_, f64>,
        work: impl FnOnce(&Posterior<'_>, &Table) -> riesz::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let covariance = self.covariance.clone().ok_or_else(|| refuse(NO_POSTERIOR))?;
        self.evaluate_model(py, rows, move |model, rows, stop| {
            work(&Posterior::new(model, &covariance)?.with_cancel(stop), rows)
        })
    }

    fn predicted(&self, py: Python<'_>, rows: &PyReadonlyArray2<'_, f64>) -> PyResult<Prediction> {
        let covariance = self.covariance.clone();
        self.evaluate_model(py, rows, move |model, rows, stop| {
            Prediction::new_with_control(model, covariance.as_deref(), rows, stop)
        })
    }

    /// The result of `work` for the model at some rows.
    fn evaluate_model<T: Send + 'static>(
        &self,
        py: Python<'_>,
        rows: &PyReadonlyArray2<'_, f64>,
        work: impl FnOnce(&riesz::KernelExpansion, &Table, &AtomicBool) -> riesz::Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let (model, stop) = (self.model.clone(), Arc::new(AtomicBool::new(false)));
        let rows = table(model.columns(), rows.as_array()).map_err(refuse)?;
        let worker_stop = stop.clone();
        interruptible(py, &Threads::per_core(), &stop, move || work(&model, &rows, &worker_stop))?
            .map_err(raise)
    }
}

/// Matrices of one size as an array (matrices × rows × cols).
fn stack<'py>(py: Python<'py>, matrices: &[Matrix]) -> PyResult<Bound<'py, PyArray3<f64>>> {
    let (rows, cols) = (matrices[0].rows(), matrices[0].cols());
    let numbers = matrices.iter().flat_map(|m| m.data().iter().copied()).collect();
    let array = Array3::from_shape_vec((matrices.len(), rows, cols), numbers).map_err(refuse)?;
    Ok(array.into_pyarray(py))
}

#[pymethods]
impl Expansion {
    #[new]
    fn new(
        kernel: &str,
        points: NamedRows<'_>,
        coef: PyReadonlyArray2<'_, f64>,
        intercept: Vec<f64>,
        output_names: Vec<String>,
    ) -> PyResult<Self> {
        let (kernel, points) = (fit::kernel(kernel)?, sample(points)?);
        let coef = coef.as_array();
        let coef = Matrix::from_row_major(coef.nrows(), coef.ncols(), coef.iter().copied().collect());
        let mut model = riesz::KernelExpansion::new(kernel, points, coef, intercept).map_err(raise)?;
        model.output_names = output_names;
        model.validate().map_err(refuse)?;
        Ok(Self { model: Arc::new(model), covariance: None, groups: None })
    }

    /// Reads a riesz model or a LIBSVM model. A LIBSVM model takes its number of features, their names, and
    /// the scaling of a range file from the arguments.
    #[staticmethod]
    #[pyo3(signature = (bytes, width = None, names = None, ranges = None))]
    fn from_bytes(
        bytes: &[u8],
        width: Option<usize>,
        names: Option<Vec<String>>,
        ranges: Option<&[u8]>,
    ) -> PyResult<Self> {
        if model::recognises(bytes) {
            let options =
                [("n_features", width.is_some()), ("columns", names.is_some()), ("scale", ranges.is_some())];
            if let Some((name, _)) = options.iter().find(|(_, is_given)| *is_given) {
                return Err(refuse(format!("a riesz file defines its columns: leave {name} out")));
            }
            let SavedModel { model, covariance, groups } = model::from_bytes(bytes).map_err(refuse)?;
            return Ok(Self { model: Arc::new(model), covariance: covariance.map(Arc::new), groups });
        }
        if libsvm::recognises(bytes) {
            let ranges = ranges.map(libsvm::read_ranges).transpose().map_err(refuse)?;
            let names = names.unwrap_or_default();
            let features = libsvm::Features { names: &names, ranges: ranges.as_ref() };
            let model = libsvm::read_with(bytes, width, features).map_err(refuse)?;
            return Ok(Self { model: Arc::new(model), covariance: None, groups: None });
        }
        Err(PyValueError::new_err("this is neither a riesz model nor a LIBSVM model"))
    }

    /// The model as a riesz model file, with its posterior if `posterior` is true.
    fn to_bytes<'py>(&self, py: Python<'py>, posterior: bool) -> PyResult<Bound<'py, PyBytes>> {
        let covariance = self.covariance.as_deref().filter(|_| posterior).cloned();
        let saved = SavedModel { model: (*self.model).clone(), covariance, groups: self.groups.clone() };
        Ok(PyBytes::new(py, &model::to_bytes(&saved).map_err(refuse)?))
    }

    /// This model with the posterior of a Gaussian process. `factor` (n × n, lower) is the Cholesky factor of
    /// the covariance of the observations, which are the values of f at the n support points times `weights`.
    /// `scale` multiplies the standard deviations of each output.
    fn with_posterior(
        &self,
        factor: PyReadonlyArray2<'_, f64>,
        weights: Option<Vec<f64>>,
        scale: Vec<f64>,
    ) -> PyResult<Self> {
        let (factor, n) = (factor.as_array(), self.model.support_points.rows());
        if factor.dim() != (n, n) {
            return Err(refuse(format!(
                "the factor of the posterior is {:?}: it needs a row for each support point",
                factor.dim()
            )));
        }
        let packed: Vec<f64> = (0..n).flat_map(|i| (0..=i).map(move |j| factor[[i, j]])).collect();
        let factor = Cholesky::from_packed(n, &packed, 0.0)
            .ok_or_else(|| refuse("the factor of the posterior is not a Cholesky factor"))?;
        let diagonal =
            |weights: Vec<f64>| Sparse::from_columns(n, weights.into_iter().enumerate().map(|entry| [entry]));
        let operator = weights.map(diagonal).transpose().map_err(refuse)?;
        let covariance = PosteriorCovariance {
            prior_scale: 1.0,
            mirror: None,
            reduction: vec![VarianceReduction::CholeskyInverse { operator, factor }],
            scale,
        };
        Posterior::new(&self.model, &covariance).map_err(refuse)?;
        Ok(Self {
            model: self.model.clone(),
            covariance: Some(Arc::new(covariance)),
            groups: self.groups.clone(),
        })
    }

    /// This model with the refits of `other`, if it has any, for sums of its outputs. `weights` (outputs ×
    /// sums) are the weights of the outputs in the sums.
    fn with_refits_of(&self, other: &Self, weights: PyReadonlyArray2<'_, f64>) -> PyResult<Self> {
        let weights = weights.as_array();
        let weights =
            Matrix::from_row_major(weights.nrows(), weights.ncols(), weights.iter().copied().collect());
        let covariance = other.covariance.as_ref().and_then(|covariance| covariance.of_sums(&weights));
        if let Some(covariance) = &covariance {
            Posterior::new(&self.model, covariance).map_err(refuse)?;
        }
        Ok(Self {
            model: self.model.clone(),
            covariance: covariance.map(Arc::new),
            groups: self.groups.clone(),
        })
    }

    /// Whether `bytes` are a LIBSVM model.
    #[staticmethod]
    fn is_libsvm(bytes: &[u8]) -> bool {
        !model::recognises(bytes) && libsvm::recognises(bytes)
    }

    /// This model with a further last level in categorical columns, for unknown cells.
    fn with_unseen(&self) -> PyResult<Self> {
        let model = (*self.model).clone().with_unknown_level().map_err(raise)?;
        Ok(Self { model: Arc::new(model), covariance: self.covariance.clone(), groups: self.groups.clone() })
    }

    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.model.columns().iter().map(|c| c.name.clone()).collect()
    }

    /// The names of the levels of each column, in the order of their codes; `None` for numeric columns.
    #[getter]
    fn levels(&self) -> Vec<Option<Vec<String>>> {
        let levels = |column: &Column| match &column.kind {
            ColumnKind::Categorical { levels } => Some(levels.clone()),
            ColumnKind::Numeric => None,
        };
        self.model.columns().iter().map(levels).collect()
    }

    /// The unit of each column in the training data; `None` for columns without a unit.
    #[getter]
    fn units(&self) -> Vec<Option<String>> {
        self.model.columns().iter().map(|c| self.model.unit_of(&c.name).map(String::from)).collect()
    }

    /// This model with these units of columns in its model card.
    fn with_units(&self, units: Vec<(String, String)>) -> Self {
        let mut model = (*self.model).clone();
        units.iter().for_each(|(column, unit)| model.set_unit(column, unit));
        Self { model: Arc::new(model), covariance: self.covariance.clone(), groups: self.groups.clone() }
    }

    /// The posterior with a penalty on functionals of the model.
    fn penalised(&self, penalty: fit::Penalising<'_>, noise: f64) -> PyResult<Self> {
        let (mut model, posterior) = ((*self.model).clone(), self.covariance.as_deref());
        let mut covariance = posterior.ok_or_else(|| refuse(NO_POSTERIOR))?.clone();
        fit::penalty(penalty).condition(&mut model, &mut covariance, noise).map_err(raise)?;
        let covariance = Some(Arc::new(covariance));
        Ok(Self { model: Arc::new(model), covariance, groups: self.groups.clone() })
    }

    #[getter]
    fn output_names(&self) -> Vec<String> {
        self.model.output_names.clone()
    }

    /// The kernel in riesz's JSON form.
    #[getter]
    fn kernel(&self) -> PyResult<String> {
        serde_json::to_string(&self.model.kernel).map_err(refuse)
    }

    /// Whether the model has class probabilities.
    #[getter]
    fn has_probabilities(&self) -> bool {
        ProbabilityLink::of_model(&self.model).is_some()
    }

    /// The quantity that a count model predicts: ``"rate"`` if the output is its logarithm, ``"probability"``
    /// if the output is its log odds; `None` for other models.
    #[getter]
    fn counted(&self) -> Option<&'static str> {
        match self.model.link {
            Link::Log => Some("rate"),
            Link::Logit => Some("probability"),
            _ => None,
        }
    }

    /// The outputs of a model of counts on their natural scale, rows × 1. These are posterior means; for a
    /// model without a posterior, they are the inverse link of the latent mean, which is the median.
    fn natural<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let predictions = match self.covariance {
            Some(_) => {
                self.evaluate_posterior(py, &rows, |posterior, rows| {
                    NaturalScalePrediction::new(posterior, rows, 0.0)
                })?
                .mean
            }
            None => self.evaluate_model(py, &rows, |model, rows, stop| {
                let latent = model.predict_until(rows, stop)?.column(0);
                Ok(latent.into_iter().map(|f| model.link.inverse_link(f)).collect())
            })?,
        };
        Ok(matrix(predictions.len(), 1, predictions)?.into_pyarray(py))
    }

    /// The names of the classes; empty for regression.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.model.classes.clone()
    }

    /// Whether the model has a posterior covariance.
    #[getter]
    fn has_posterior(&self) -> bool {
        self.covariance.is_some()
    }

    /// Posterior standard deviations, rows × outputs.
    fn std<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let sd = self.evaluate_posterior(py, &rows, |posterior, rows| posterior.sd(rows))?;
        Ok(matrix(sd.rows(), sd.cols(), sd.data().to_vec())?.into_pyarray(py))
    }

    /// Means, medians, and lower and upper ends of intervals for the rates of a count model. Intervals reach
    /// `sds` standard deviations of the latent function to either side.
    #[allow(clippy::type_complexity, reason = "four lists")]
    fn rates(
        &self,
        py: Python<'_>,
        rows: PyReadonlyArray2<'_, f64>,
        sds: f64,
    ) -> PyResult<(Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>)> {
        let prediction = self.evaluate_posterior(py, &rows, move |posterior, rows| {
            NaturalScalePrediction::new(posterior, rows, sds)
        })?;
        Ok((prediction.mean, prediction.median, prediction.low, prediction.high))
    }

    /// Joint posterior covariances, outputs × rows × rows.
    fn covariance<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let joint = |posterior: &Posterior<'_>, rows: &Table| {
            Ok(posterior.covariance(&posterior.functionals_at(rows)?))
        };
        stack(py, &self.evaluate_posterior(py, &rows, joint)?)
    }

    /// Joint posterior draws, outputs × rows × draws.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
        draws: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let draw = move |posterior: &Posterior<'_>, rows: &Table| {
            posterior.sample(&posterior.functionals_at(rows)?, draws, seed)
        };
        stack(py, &self.evaluate_posterior(py, &rows, draw)?.values)
    }

    /// The index of the predicted class of each row; `None` for a model that predicts no classes.
    fn classify(&self, py: Python<'_>, rows: PyReadonlyArray2<'_, f64>) -> PyResult<Option<Vec<usize>>> {
        self.predicted(py, &rows).map(|prediction| prediction.classes)
    }

    /// Class probabilities, rows × classes; `None` for a model without them.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let Some(class_probabilities) = self.predicted(py, &rows)?.probabilities else { return Ok(None) };
        Ok(Some(
            matrix(
                class_probabilities.rows(),
                class_probabilities.cols(),
                class_probabilities.data().to_vec(),
            )?
            .into_pyarray(py),
        ))
    }

    #[getter]
    fn formula(&self) -> String {
        self.model.kernel.formula()
    }

    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let points = &self.model.support_points;
        let column_major = matrix(points.width(), points.rows(), points.column_major().to_vec())?;
        Ok(column_major.reversed_axes().into_pyarray(py))
    }

    #[getter]
    fn coef<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let coef = &self.model.coef;
        Ok(matrix(coef.rows(), coef.cols(), coef.data().to_vec())?.into_pyarray(py))
    }

    #[getter]
    fn intercept(&self) -> Vec<f64> {
        self.model.intercept.clone()
    }

    /// The players of the model file, as (name, columns); empty if it has none.
    #[getter]
    fn groups(&self) -> Vec<(String, Vec<usize>)> {
        let players = self.groups.as_ref().map_or(&[][..], |groups| groups.players());
        players.iter().map(|p| (p.name.clone(), p.columns.clone())).collect()
    }

    /// This model with these players, and with further facts in its model card.
    fn with_groups(&self, groups: Vec<(String, Vec<usize>)>, facts: Vec<(String, String)>) -> PyResult<Self> {
        let mut model = (*self.model).clone();
        model.model_card.extend(facts.iter().map(|(name, value)| CardEntry::new(name, value)));
        let groups = Some(players(model.columns(), groups)?);
        Ok(Self { model: Arc::new(model), covariance: self.covariance.clone(), groups })
    }

    /// The margin of ties of a model of duels; 0 without one.
    #[getter]
    fn tie_margin(&self) -> f64 {
        match self.model.link {
            Link::LatentRaoKupper { margin } => margin,
            _ => 0.0,
        }
    }

    /// Facts about the model, for model cards.
    #[getter]
    fn card(&self) -> Vec<(String, String)> {
        self.model.facts().into_iter().map(|fact| (fact.name, fact.value)).collect()
    }

    fn predict<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let out = self.evaluate_model(py, &rows, riesz::KernelExpansion::predict_until)?;
        Ok(matrix(out.rows(), out.cols(), out.data().to_vec())?.into_pyarray(py))
    }
}

type Borrowed<'m> = riesz::Explainer<'m>;

/// A model, and the covariance of its posterior if it has one.
struct ModelWithCovariance {
    model: Arc<riesz::KernelExpansion>,
    covariance: Option<Arc<PosteriorCovariance>>,
}

self_cell!(
    struct Owned {
        owner: ModelWithCovariance,
        #[covariant]
        dependent: Borrowed,
    }
);

/// Explains rows of one model under one game.
#[pyclass(frozen, module = "riesz._core")]
struct Explainer {
    owned: Arc<Owned>,
    threads: Py<Threads>,
    /// The budget without the rows of the game.
    budget: Budget,
    /// Whether values are computed from values of coalitions, which a budget can limit.
    samples_coalitions: bool,
    stop: Arc<AtomicBool>,
}

#[pymethods]
impl Explainer {
    #[new]
    fn new(
        py: Python<'_>,
        model: &Expansion,
        settings: &Settings,
        background: Option<PyReadonlyArray2<'_, f64>>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        groups: Vec<(String, Vec<usize>)>,
        threads: Py<Threads>,
    ) -> PyResult<Self> {
        let columns = model.model.columns();
        let support_points = Some(&model.model.support_points);
        let question = settings.question(
            Subject::Model,
            columns,
            background.as_ref(),
            weights.as_ref(),
            support_points,
        )?;
        let question = question.with_players(Some(players(columns, groups)?));
        let model = ModelWithCovariance { model: model.model.clone(), covariance: model.covariance.clone() };
        let budget = question.budget;
        let stop = Arc::new(AtomicBool::new(false));
        let worker_stop = stop.clone();
        let prepare = move || {
            Owned::try_new(model, |ModelWithCovariance { model, covariance }| {
                riesz::Explainer::new_with_control(model, question, worker_stop)?
                    .with_posterior(covariance.as_deref())
            })
        };
        let owned = interruptible(py, threads.get(), &stop, prepare)?.map_err(raise)?;
        let samples_coalitions = owned.borrow_dependent().samples_coalitions();
        Ok(Self { owned: Arc::new(owned), threads, budget, samples_coalitions, stop })
    }

    /// The reason why values are estimated within a budget; `None` if they are exact.
    #[pyo3(signature = (budget=None))]
    fn sampled_because(&self, budget: Option<question::Budget>) -> Option<String> {
        let players = self.owned.borrow_dependent().largest_group();
        self.budget_or_default(budget).sampled_because(players).filter(|_| self.samples_coalitions)
    }

    /// The players and their columns.
    #[getter]
    fn players(&self) -> Vec<(String, Vec<usize>)> {
        let players = self.owned.borrow_dependent().groups().players();
        players.iter().map(|p| (p.name.clone(), p.columns.clone())).collect()
    }

    /// For each output, a bound on the change of values if the columns of a row change by `delta`.
    fn robustness(&self, delta: Vec<f64>) -> PyResult<Vec<f64>> {
        self.owned.borrow_dependent().robustness(&delta).map_err(refuse)
    }

    /// Explains the posterior variance of each row by the Shapley values of the variance game.
    fn explain_variance(&self, py: Python<'_>, rows: PyReadonlyArray2<'_, f64>) -> PyResult<Explanation> {
        let columns = self.owned.borrow_owner().model.columns();
        let (rows, owned) = (table(columns, rows.as_array()).map_err(refuse)?, self.owned.clone());
        let work = move || owned.borrow_dependent().explain_variance(&rows);
        let explanation =
            interruptible_to_the_end(py, self.threads.get(), &self.stop, work)?.map_err(raise)?;
        explained(py, Some(explanation), None)
    }

    /// Explains rows within a budget of coalitions. It continues from the coalitions of `sample`, which comes
    /// from an earlier call on the same rows.
    #[pyo3(signature = (rows, budget=None, sample=None))]
    fn explain(
        &self,
        py: Python<'_>,
        rows: PyReadonlyArray2<'_, f64>,
        budget: Option<question::Budget>,
        sample: Option<&Sample>,
    ) -> PyResult<Explanation> {
        let rows = rows.as_array();
        let explainer = self.owned.borrow_dependent();
        let columns = self.owned.borrow_owner().model.columns();
        let (n, m, p) = (rows.nrows(), explainer.base_values().len(), explainer.largest_group());
        let mut explanation: Option<riesz::Explanation> = None;
        let budget = self.budget_or_default(budget);
        let sampled = self.samples_coalitions && budget.sampled_because(p).is_some();
        let max_coalitions = if p < 60 { (1_usize << p).saturating_sub(2) } else { usize::MAX };
        // Sampled coalitions are kept in one piece, so that the rows are not split into chunks.
        let keeps_state =
            sampled && fits_in_memory(budget.coalitions.min(max_coalitions), n * m) || sample.is_some();
        let mut state = keeps_state.then(|| sample.cloned().unwrap_or_default());
        let (mut done, mut chunk) = (0, if keeps_state { n } else { explainer.max_batch_rows() });
        while explanation.is_none() || done < n {
            let until = (done + chunk).min(n);
            let part = table(columns, rows.slice(numpy::ndarray::s![done..until, ..])).map_err(refuse)?;
            let (start, owned, mut state_before) = (Instant::now(), self.owned.clone(), state.take());
            let (result, state_after) =
                interruptible_to_the_end(py, self.threads.get(), &self.stop, move || {
                    let sample = &mut state_before.get_or_insert_default().sample;
                    let result = owned.borrow_dependent().explain_from(&part, budget, sample);
                    (result, state_before)
                })?;
            state = state_after.filter(|_| keeps_state);
            let mut part = result.map_err(raise)?;
            part.row_numbers.iter_mut().for_each(|row| *row += done);
            join(&mut explanation, part)?;
            done = until;
            // Chunks do not change the result. They grow only while they are fast, so that Ctrl-C is checked
            // often.
            if start.elapsed() < PATIENCE {
                chunk = (2 * chunk).min(1 << 16);
            }
        }
        explained(py, explanation, state)
    }

    /// For each row and output the strongest pairs of players, their error bound, and facts about the search.
    fn top_interactions<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
        count: usize,
        limit: Option<usize>,
    ) -> PyResult<Vec<Top<'py>>> {
        let columns = self.owned.borrow_owner().model.columns();
        let (rows, owned) = (table(columns, rows.as_array()).map_err(refuse)?, self.owned.clone());
        let search = move || owned.borrow_dependent().top_interactions(&rows, count, limit);
        let interactions =
            interruptible_to_the_end(py, self.threads.get(), &self.stop, search)?.map_err(raise)?;
        let arrays = |strongest: &Strongest| {
            let players = strongest.pairs.iter().flat_map(|pair| pair.players).map(|j| j as i64).collect();
            let values: Vec<f64> = strongest.pairs.iter().map(|pair| pair.value).collect();
            let players = Array2::from_shape_vec((strongest.pairs.len(), 2), players).map_err(refuse)?;
            Ok((
                players.into_pyarray(py),
                values.into_pyarray(py),
                strongest.bound,
                strongest.left_out,
                strongest.searched,
                strongest.is_complete(),
            ))
        };
        interactions.by_game.iter().map(arrays).collect()
    }
}

/// The strongest pairs of one game: players (pairs × 2), their values, the error bound of the values, an
/// upper bound on |value| of the other pairs, the number of searched pairs, and whether no stronger pair can
/// be missing.
type Top<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray1<f64>>, f64, f64, usize, bool);

impl Explainer {
    /// The budget of a call, or by default the explainer's budget.
    fn budget_or_default(&self, budget: Option<question::Budget>) -> Budget {
        budget.map_or(self.budget, |(coalitions, std_error)| Budget { coalitions, std_error, ..self.budget })
    }
}

/// Appends the rows of `part` to `explanation`.
fn join(explanation: &mut Option<riesz::Explanation>, part: riesz::Explanation) -> PyResult<()> {
    match explanation {
        Some(existing) => existing.concat_rows(part).map_err(refuse),
        None => {
            *explanation = Some(part);
            Ok(())
        }
    }
}

/// The explanation with the coalitions to continue from, if values are estimated.
fn explained(
    py: Python<'_>,
    explanation: Option<riesz::Explanation>,
    state: Option<Sample>,
) -> PyResult<Explanation> {
    let explanation = explanation.ok_or_else(|| refuse("there are no rows to explain"))?;
    let state = state.filter(|_| matches!(explanation.exactness, Exactness::Estimated { .. }));
    Ok(Explanation::new(explanation, state.map(|state| Py::new(py, state)).transpose()?))
}

/// A cell of a categorical column.
#[derive(FromPyObject)]
enum Cell {
    Text(String),
    Number(f64),
}

/// The code of each cell among `levels`; `None` for cells that are none of the levels.
#[pyfunction]
fn codes(levels: Vec<String>, cells: Vec<Cell>) -> Vec<Option<usize>> {
    let code = |cell: &Cell| match cell {
        Cell::Text(text) => level_of_text(&levels, text),
        Cell::Number(value) => level_of_number(&levels, *value),
    };
    cells.iter().map(code).collect()
}

/// The instruction set of the engine on this machine, and whether this is a release build; benchmarks record
/// the first and refuse other builds.
#[pyfunction]
fn build_facts() -> (&'static str, bool) {
    (riesz::Isa::detect().name(), !cfg!(debug_assertions))
}

/// The compiled part of riesz.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::error::UnsupportedModelError;

    #[pymodule_export]
    use super::explanation::Explanation;

    #[pymodule_export]
    use super::{Expansion, Explainer, Question, Sample, Settings, Threads, build_facts, codes};

    #[pymodule_export]
    use super::kernel::{factors, kernel, kernel_help, kernel_terms, length_scales};

    #[pymodule_export]
    use super::discrepancy::{
        TestResult, hsic_test, mmd_test, rank_features, test_page, test_record, witness,
    };

    #[pymodule_export]
    use super::global::{
        SageValues, SobolIndices, component, importance_page, importance_record, sage_of_function,
        sage_values, sobol_indices, sobol_of_function,
    };

    #[pymodule_export]
    use super::black_box::{kernel_shap, permutation};

    #[pymodule_export]
    use super::fit::{
        Fitted, average_from_bytes, average_to_bytes, few_samples_warning, fit, functionals, is_average,
        sample_average,
    };

    #[pymodule_export]
    use super::nystrom::{
        Fitting, counted_units, merge_passes, merge_statistics, merge_surveys, plan_facts, plan_fit,
        survey_kernel, survey_rows, tune_fit, unit_pass, unit_statistics,
    };

    #[pymodule_export]
    use super::fusion::{
        CausalEffect, effect_caveats, effect_page, effect_stages, fuse, gather_studies, needed_columns,
        usual_doses,
    };

    #[pymodule_export]
    use super::bayesian_optimisation::{suggest_trials, trial_candidates, update_effect};

    #[pymodule_export]
    use super::preference::{
        FittedPrior, explain_duels, fit_preferences, predict_sums, read_homes, read_outcomes,
    };

    #[pymodule_export]
    use super::preference_scale::{
        FittedLandmarks, PairFunction, fit_bradley_terry, fit_landmarks, preference_evidence,
    };

    #[pymodule_export]
    use super::aggregate::{
        AggregatePart, Aggregates, FittedAggregates, aggregate_evidence, conditional_means, fit_aggregates,
        fit_sparse_aggregates, join_bags,
    };

    #[pymodule_export]
    use super::aggregate_counts::{CountPart, FittedCounts, fit_counts};

    #[pymodule_export]
    use super::causal::{
        causal_components, find_instrument, find_sequence, formula_of_effect, graph_parts, identify_effect,
        open_path,
    };

    #[pymodule_export]
    use super::choices::{fit_choices, predict_choices, rows_of_sets};

    #[pymodule_export]
    use super::columns::{column_suspicions, column_type, column_unit, read_numbers, same_unit};

    #[pymodule_export]
    use super::conditional_mean::ConditionalMeanModel;

    #[pymodule_export]
    use super::map_pages::{map_page, map_picture};

    #[pymodule_export]
    use super::duel_tables::{duel_columns, evaluate_duels, times_of_levels};

    #[pymodule_export]
    use super::ranking::{cluster_preferences, compare_preferences, rank_preferences, spec_r, suggest_duels};

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

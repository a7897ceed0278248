//! Models of many duels for Python: the Bradley-Terry model, and preference models through landmarks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::Table;
use riesz::preference::{
    AbilityRidge, BradleyTerry, Competitors, ContextKernel, ItemBags, LandmarkFunction, LandmarkParameters,
    LandmarkProcess, PairKernel, PreferenceProcess,
};
use riesz::table::ColumnKind;

use crate::fit::Fitted;
use crate::preference::{
    Circumstances, DuelInput, FittedPrior, Memberships, PreparedDuels, bags_of, duels as duels_of, process,
};
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NamedRows, raise, refuse, sample};

/// Fits a Bradley-Terry model to items with these names, or a linear one to their rows. A ridge of `None` is
/// chosen by the evidence. Returns the fit, the coefficients, their standard deviations (`None` for more than
/// 1,000 coefficients), and notes.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "called by name from one place in Python")]
pub fn fit_bradley_terry(
    py: Python<'_>,
    names: Vec<String>,
    items: Option<NamedRows<'_>>,
    duels: DuelInput,
    ridge: Option<f64>,
) -> PyResult<(Fitted, Vec<f64>, Option<Vec<f64>>, Vec<String>)> {
    let items = items.map(sample).transpose()?;
    let duels = duels_of(names.len(), duels)?;
    let model = BradleyTerry::new(ridge.map_or(AbilityRidge::Evidence, AbilityRidge::Fixed));
    let stop = model.stop.clone();
    let work = move || {
        let fit = match &items {
            Some(items) => model.fit_linear(items, &duels),
            None => model.fit(&names, &duels),
        }?;
        let errors = fit.covariance.is_some().then(|| fit.std_errors()).transpose()?;
        Ok((fit, errors))
    };
    let (fit, errors) = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let covariance = fit.covariance.map(Arc::new);
    let fitted = Fitted {
        model: Py::new(py, Expansion { model: Arc::new(fit.model), covariance, groups: None })?,
        warnings: Vec::new(),
        iterations: vec![fit.steps],
        chosen: Some(fit.ridge),
        support: None,
        noise: None,
        log_marginal_likelihood: fit.log_marginal_likelihood,
        average: None,
        end: None,
    };
    Ok((fitted, fit.coef, errors, fit.notes))
}

/// The fitted function from two items to their log odds, through landmarks.
#[pyclass(frozen, module = "riesz._core")]
pub struct PairFunction(Arc<LandmarkFunction>);

/// A table for Python: the names and levels of columns, and the rows.
type Columns<'py> = (Vec<String>, Vec<Option<Vec<String>>>, Bound<'py, PyArray2<f64>>);
/// A prior: the kernel of items in JSON, the variances of the utility and the generalised part, the kernel of
/// further utilities, the kernel of contexts with the part `shared` of all contexts, and the margin of ties.
type Prior = (String, [f64; 2], Option<String>, Option<(String, f64)>, Option<f64>);
/// The landmarks with their bases, and the weights.
type Fields<'py> = (Vec<(Columns<'py>, Bound<'py, PyArray2<f64>>)>, Bound<'py, PyArray2<f64>>);
/// The training data with tables of type `T`: items, bags, contexts, pairs, the context of each pair, and
/// curvatures.
type TrainingData<T> = (T, Option<Memberships>, Option<T>, Vec<(usize, usize)>, Vec<usize>, Vec<f64>);
/// [`Fields`] as Python passes them.
type FieldsInput<'py> = (Vec<(NamedRows<'py>, PyReadonlyArray2<'py, f64>)>, PyReadonlyArray2<'py, f64>);
/// Items, and the bags of them if duels are between bags, as Python passes them.
type CompetitorsInput<'py> = (NamedRows<'py>, Option<Memberships>);

/// Means, and standard deviations if they were requested.
type Moments<'py> = (Bound<'py, PyArray1<f64>>, Option<Bound<'py, PyArray1<f64>>>);

fn array<'py>(py: Python<'py>, m: &riesz::Matrix) -> PyResult<Bound<'py, PyArray2<f64>>> {
    Ok(crate::matrix(m.rows(), m.cols(), m.data().to_vec())?.into_pyarray(py))
}

fn matrix_of(m: &PyReadonlyArray2<'_, f64>) -> riesz::Matrix {
    let m = m.as_array();
    riesz::Matrix::from_row_major(m.nrows(), m.ncols(), m.iter().copied().collect())
}

/// Converts a table for Python.
fn columns<'py>(py: Python<'py>, rows: &Table) -> PyResult<Columns<'py>> {
    let levels = |column: &riesz::Column| match &column.kind {
        ColumnKind::Numeric => None,
        ColumnKind::Categorical { levels } => Some(levels.clone()),
    };
    let numbers: Vec<f64> = (0..rows.rows()).flat_map(|i| rows.row(i)).collect();
    let numbers = crate::matrix(rows.rows(), rows.width(), numbers)?.into_pyarray(py);
    let names = rows.columns().iter().map(|column| column.name.clone()).collect();
    Ok((names, rows.columns().iter().map(levels).collect(), numbers))
}

/// Reads items and their bags.
fn items_and_bags((items, members): CompetitorsInput<'_>) -> PyResult<(Table, Option<ItemBags>)> {
    let items = sample(items)?;
    let bags = members.map(|members| bags_of(items.rows(), members)).transpose()?;
    Ok((items, bags))
}

/// Converts bags for Python, with shares as weights.
fn memberships_of(bags: &ItemBags) -> Memberships {
    let memberships =
        (0..bags.count()).flat_map(|bag| bags.members(bag).map(move |(item, share)| (bag, (item, share))));
    let (bag, (item, share)) = memberships.unzip();
    (bags.count(), bag, item, Some(share))
}

#[pymethods]
impl PairFunction {
    #[new]
    fn new(prior: Prior, fields: FieldsInput<'_>, state: TrainingData<NamedRows<'_>>) -> PyResult<Self> {
        let (kernel, [utility, generalised], further, context_kernel, margin) = prior;
        let mut prior = PairKernel::new(crate::fit::kernel(&kernel)?, utility, generalised);
        prior.extra_utility_kernel = further.map(|kernel| crate::fit::kernel(&kernel)).transpose()?;
        let context_kernel = context_kernel.map(|(kernel, shared)| {
            Ok::<_, PyErr>(ContextKernel { kernel: crate::fit::kernel(&kernel)?, shared })
        });
        prior.contexts = context_kernel.transpose()?;
        let (bases, weights) = fields;
        let bases = bases.into_iter().map(|(rows, basis)| Ok::<_, PyErr>((sample(rows)?, matrix_of(&basis))));
        let (items, members, contexts, pairs, rows, curve) = state;
        let (items, bags) = items_and_bags((items, members))?;
        let state = LandmarkParameters {
            bases: bases.collect::<PyResult<_>>()?,
            weights: matrix_of(&weights),
            items,
            bags,
            contexts: contexts.map(sample).transpose()?,
            pairs,
            rows,
            curve,
        };
        Ok(Self(Arc::new(LandmarkFunction::from_state(prior, margin, state).map_err(raise)?)))
    }

    #[allow(clippy::type_complexity, reason = "as pickle has it")]
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Prior, Fields<'py>, TrainingData<Columns<'py>>))> {
        let (py, function) = (slf.py(), &slf.get().0);
        let json = |kernel: &riesz::Kernel| serde_json::to_string(kernel).map_err(refuse);
        let PairKernel {
            items,
            utility_variance: utility,
            generalised_variance: generalised,
            extra_utility_kernel: extra_kernel,
            contexts,
        } = &function.prior;
        let context_kernel =
            contexts.as_ref().map(|context| Ok::<_, PyErr>((json(&context.kernel)?, context.shared)));
        let further = extra_kernel.as_ref().map(json).transpose()?;
        let prior =
            (json(items)?, [*utility, *generalised], further, context_kernel.transpose()?, function.margin);
        let LandmarkParameters { bases, weights, items, bags, contexts, pairs, rows, curve } =
            function.state();
        let bases = bases.iter().map(|(rows, basis)| Ok((columns(py, rows)?, array(py, basis)?)));
        let fields = (bases.collect::<PyResult<_>>()?, array(py, &weights)?);
        let context_rows = contexts.as_ref().map(|table| columns(py, table)).transpose()?;
        let members = bags.as_ref().map(memberships_of);
        let state = (columns(py, &items)?, members, context_rows, pairs, rows, curve);
        Ok((slf.get_type().into_any(), (prior, fields, state)))
    }

    /// The number of landmarks among items.
    #[getter]
    fn landmarks(&self) -> usize {
        self.0.landmarks().rows()
    }

    /// The number of landmarks among contexts, if there are contexts.
    #[getter]
    fn context_landmarks(&self) -> Option<usize> {
        self.0.context_landmarks().map(Table::rows)
    }

    /// The mean log odds of pairs of items or of bags, each in its context. If `std` is given, also their
    /// standard deviations, estimated from draws ("draws") or computed exactly ("exact").
    fn log_odds<'py>(
        &self,
        py: Python<'py>,
        competitors: CompetitorsInput<'_>,
        pairs: Vec<(usize, usize)>,
        contexts: Option<NamedRows<'_>>,
        std: Option<String>,
    ) -> PyResult<Moments<'py>> {
        let (mean, sd) =
            self.work(py, competitors, contexts, move |function, competitors, contexts, stop| {
                let (mean, sd) = match std.as_deref() {
                    None => return Ok((function.log_odds(competitors, &pairs, contexts)?, None)),
                    Some("exact") => function.exact_moments(competitors, &pairs, contexts, stop)?,
                    Some(_) => function.moments(competitors, &pairs, contexts)?,
                };
                Ok((mean, Some(sd)))
            })?;
        Ok((mean.into_pyarray(py), sd.map(|sd| sd.into_pyarray(py))))
    }

    /// The probabilities of the classes, pairs × classes.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        competitors: CompetitorsInput<'_>,
        pairs: Vec<(usize, usize)>,
        contexts: Option<NamedRows<'_>>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let work = move |function: &LandmarkFunction,
                         competitors: Competitors<'_>,
                         contexts: Option<&Table>,
                         _: &_| { function.probabilities(competitors, &pairs, contexts) };
        array(py, &self.work(py, competitors, contexts, work)?)
    }
}

impl PairFunction {
    fn work<T: Send + 'static>(
        &self,
        py: Python<'_>,
        competitors: CompetitorsInput<'_>,
        contexts: Option<NamedRows<'_>>,
        work: impl FnOnce(&LandmarkFunction, Competitors<'_>, Option<&Table>, &AtomicBool) -> riesz::Result<T>
        + Send
        + 'static,
    ) -> PyResult<T> {
        let ((items, bags), contexts) = (items_and_bags(competitors)?, contexts.map(sample).transpose()?);
        let (function, stop) = (self.0.clone(), Arc::new(AtomicBool::new(false)));
        let worker_stop = stop.clone();
        let work = move || {
            let competitors = Competitors { items: &items, bags: bags.as_ref() };
            work(&function, competitors, contexts.as_ref(), &worker_stop)
        };
        interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)
    }
}

/// Settings of a fit through landmarks: the numbers of landmarks of items and of contexts, the number of
/// pairs for tuning, the number of draws, and the tolerance.
type Sizes = (usize, usize, usize, usize, f64);

/// A fit through landmarks.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct FittedLandmarks {
    function: Py<PairFunction>,
    /// The mean as a kernel expansion; `None` with a reason in `no_model_reason` if it has no such form.
    model: Option<Py<Expansion>>,
    no_model_reason: Option<String>,
    prior: Py<FittedPrior>,
    warnings: Vec<String>,
    /// The log marginal likelihood of the duels that the tuning used.
    log_marginal_likelihood: Option<f64>,
    /// The share of the items' prior variance that landmarks do not explain, and the same share for contexts.
    unknown: f64,
    unknown_contexts: f64,
}

/// Fits a model to duels among items or bags through landmarks.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn fit_landmarks(
    py: Python<'_>,
    kernel: Option<&str>,
    items: NamedRows<'_>,
    duels: DuelInput,
    circumstances: Circumstances<'_>,
    form: &str,
    tune: bool,
    restarts: usize,
    seed: u64,
    sizes: Sizes,
) -> PyResult<FittedLandmarks> {
    let items = sample(items)?;
    let mut process = process(kernel, form, &items)?;
    (process.tune, process.restarts, process.seed) = (tune, restarts, seed);
    let PreparedDuels { items, bags, duels } = circumstances.prepare(&mut process, items, duels)?;
    let stop = process.stop.clone();
    let (landmarks, context_landmarks, tuning_pairs, draws, tolerance) = sizes;
    let process = LandmarkProcess { process, landmarks, context_landmarks, tuning_pairs, draws, tolerance };
    let work = move || match &bags {
        Some(bags) => process.fit_bags(&items, bags, &duels),
        None => process.fit(&items, &duels),
    };
    let fit = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let prior = FittedPrior::from_kernel(&fit.function.prior, fit.function.margin)?;
    let (model, no_model_reason) = match fit.model {
        Ok(model) => {
            (Some(Py::new(py, Expansion { model: Arc::new(model), covariance: None, groups: None })?), None)
        }
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(FittedLandmarks {
        function: Py::new(py, PairFunction(Arc::new(fit.function)))?,
        model,
        no_model_reason,
        prior: Py::new(py, prior)?,
        warnings: fit.warnings,
        log_marginal_likelihood: fit.log_marginal_likelihood,
        unknown: fit.unknown,
        unknown_contexts: fit.unknown_contexts,
    })
}

/// Laplace's approximation of the log marginal likelihood of duels under a prior, and its gradient by the
/// logarithms of the shares and the kernel's parameters.
#[pyfunction]
pub fn preference_evidence(
    py: Python<'_>,
    kernel: &str,
    items: NamedRows<'_>,
    duels: DuelInput,
    shares: [f64; 2],
) -> PyResult<(f64, Vec<f64>)> {
    let (items, kernel) = (sample(items)?, crate::fit::kernel(kernel)?);
    let duels = duels_of(items.rows(), duels)?;
    let mut process = PreferenceProcess::new(kernel);
    [process.prior.utility_variance, process.prior.generalised_variance] = shares;
    let stop = process.stop.clone();
    let work = move || {
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        process.log_marginal_likelihood(&items, &duels, &theta)
    };
    interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)
}

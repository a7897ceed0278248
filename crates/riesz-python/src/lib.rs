//! The compiled half of the Python package `riesz`: conversion between numpy arrays and the library's types, and
//! nothing else. The public classes are written in Python, in `python/riesz`.

mod discrepancy;
mod fit;
mod sampling;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use numpy::ndarray::{Array2, Array3, ArrayView2};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use riesz::attribution::coalitions::{self, Budget};
use riesz::format::model::{self, SavedModel};
use riesz::format::{explanation, libsvm};
use riesz::table::{Groups, level_of_number, level_of_text};
use riesz::{
    Approximation, Background, Column, ColumnKind, Conditioning, ConjugateGradients, Covariance, Exactness,
    Explanation, Game, Kernel, Matrix, Posterior, Prediction, Ridge, Table,
};
use riesz_report::{PlotOptions, ReportOptions, Theme};
use self_cell::self_cell;

/// Values, base values, predictions and residuals; bounds, or else standard errors and evaluations; facts about the run; the coalitions
/// that a larger budget goes on from.
type Parts<'py> = (
    Bound<'py, PyArray3<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray2<f64>>,
    Bound<'py, PyArray2<f64>>,
    Option<Bound<'py, PyArray2<f64>>>,
    Option<(Bound<'py, PyArray3<f64>>, usize)>,
    Vec<(String, String)>,
    Option<Sample>,
);

/// How long to compute before looking whether the user pressed Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(200);

fn refuse(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A refusal of the library in the words of the Python classes, whose arguments have scikit-learn's names.
fn refuse_in_python(error: riesz::Error) -> PyErr {
    let words = [
        ("lengthscale = ", "length_scale = "),
        ("period = ", "periodicity = "),
        ("tolerance = ", "tol = "),
        ("c times weight = ", "C times weight = "),
        ("lower c or", "lower C or"),
        ("raise c or", "raise C or"),
        ("lower c, raise the tolerance or raise max_iterations", "lower C, raise tol or raise max_iter"),
        ("raise the ridge, the tolerance or the number of iterations", "raise alpha or max_iter"),
        ("raise the ridge, or", "raise alpha, or"),
        ("raise the ridge or noise", "raise alpha"),
        ("and the noise", "and alpha"),
    ];
    refuse(words.iter().fold(error.to_string(), |text, (ours, theirs)| text.replace(ours, theirs)))
}

fn table(columns: &[Column], rows: ArrayView2<'_, f64>) -> riesz::Result<Table> {
    Table::from_column_major(columns.to_vec(), rows.nrows(), rows.t().iter().copied().collect())
}

/// Row-major numbers as an array; their number is the product of the sizes.
fn matrix(rows: usize, cols: usize, numbers: Vec<f64>) -> PyResult<Array2<f64>> {
    Array2::from_shape_vec((rows, cols), numbers).map_err(refuse)
}

/// What conditional distributions are learnt through; Python lets at most one of them through.
pub(crate) fn approximation(
    landmarks: Option<usize>,
    random_features: Option<usize>,
    conjugate_gradients: Option<f64>,
) -> Approximation {
    match (landmarks, random_features, conjugate_gradients) {
        (Some(count), ..) => Approximation::Landmarks(count),
        (_, Some(count), _) => Approximation::RandomFeatures(count),
        (.., Some(tolerance)) => {
            Approximation::ConjugateGradients(ConjugateGradients { tolerance, ..Default::default() })
        }
        _ => Approximation::Exact,
    }
}

/// How conditional distributions are learnt.
pub(crate) fn conditioning(ridge: Option<f64>, approximation: Approximation, seed: u64) -> Conditioning {
    let ridge = ridge.map_or(Ridge::CrossValidated, Ridge::Fixed);
    Conditioning { ridge, approximation, seed, memory: free_memory(), ..Conditioning::default() }
}

/// Bytes of memory that are free, in the machine and in what of it this process may use; `None` where it is not known.
fn free_memory() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    // What a container's limit counts as used holds files that were read, which make way.
    let own =
        system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    Some(system.available_memory().min(own)).filter(|bytes| *bytes > 0)
}

/// Whether the values of so many coalitions of so many rows and outputs are few enough to be kept with an explanation: 1 GB.
fn may_keep(coalitions: usize, games: usize) -> bool {
    4.0 * coalitions as f64 * games as f64 <= 1e9
}

/// Coalitions that were valued in an explanation, from which a larger budget goes on.
#[pyclass(frozen, module = "riesz._core")]
#[derive(Clone, Default)]
pub(crate) struct Sample {
    pub(crate) sample: coalitions::Sample,
}

#[pymethods]
impl Sample {
    /// How many they are, not counting the empty and the whole one.
    #[getter]
    fn coalitions(&self) -> usize {
        self.sample.coalitions()
    }
}

/// A thread pool; `None` for one thread a core.
fn pool(threads: Option<usize>) -> PyResult<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build().map_err(refuse)
}

/// Players from their names and columns.
fn players(columns: &[Column], groups: Vec<(String, Vec<usize>)>) -> PyResult<Groups> {
    let mut named = Vec::with_capacity(groups.len());
    for (name, own) in groups {
        let names: Option<Vec<String>> =
            own.iter().map(|&j| columns.get(j).map(|c| c.name.clone())).collect();
        let names =
            names.ok_or_else(|| refuse(format!("group '{name}' names a column that is not there")))?;
        named.push((name, names));
    }
    Groups::named(columns, &named).map_err(refuse)
}

/// A fitted kernel model.
#[pyclass(frozen, module = "riesz._core")]
struct Expansion {
    model: Arc<riesz::Expansion>,
    covariance: Option<Arc<Covariance>>,
    groups: Option<Groups>,
}

impl Expansion {
    fn posterior(&self) -> PyResult<Posterior<'_>> {
        let covariance = self.covariance.as_ref().ok_or_else(|| {
            refuse(
                "this model holds no posterior, from which standard deviations, covariances and samples follow: fit a \
                 GaussianProcessRegressor and save it with posterior=True ('riesz fit --model gp --posterior')",
            )
        })?;
        Posterior::new(&self.model, covariance).map_err(refuse)
    }

    fn predicted(&self, py: Python<'_>, rows: ArrayView2<'_, f64>) -> PyResult<Prediction> {
        let rows = table(self.model.columns(), rows).map_err(refuse)?;
        py.detach(|| Prediction::of(&self.model, self.covariance.as_deref(), &rows)).map_err(refuse)
    }
}

/// Matrices of one size as an array, the first axis over them.
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
        points: PyReadonlyArray2<'_, f64>,
        coef: PyReadonlyArray2<'_, f64>,
        intercept: Vec<f64>,
        feature_names: Vec<String>,
        output_names: Vec<String>,
    ) -> PyResult<Self> {
        let kernel: Kernel = serde_json::from_str(kernel).map_err(refuse)?;
        let columns: Vec<Column> = feature_names.into_iter().map(Column::numeric).collect();
        let points = table(&columns, points.as_array()).map_err(refuse)?;
        let coef = coef.as_array();
        let coef = Matrix::from_row_major(coef.nrows(), coef.ncols(), coef.iter().copied().collect());
        let mut model = riesz::Expansion::new(kernel, points, coef, intercept).map_err(refuse_in_python)?;
        model.output_names = output_names;
        model.validate().map_err(refuse)?;
        Ok(Self { model: Arc::new(model), covariance: None, groups: None })
    }

    /// Reads a riesz model or a LIBSVM model.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Self> {
        if model::recognises(bytes) {
            let SavedModel { model, covariance, groups } = model::from_bytes(bytes).map_err(refuse)?;
            return Ok(Self { model: Arc::new(model), covariance: covariance.map(Arc::new), groups });
        }
        if libsvm::recognises(bytes) {
            let model = libsvm::read(bytes, None).map_err(refuse)?;
            return Ok(Self { model: Arc::new(model), covariance: None, groups: None });
        }
        Err(PyValueError::new_err("this is neither a riesz model nor a LIBSVM model"))
    }

    /// The model as a riesz model file, with its posterior or without.
    fn to_bytes<'py>(&self, py: Python<'py>, posterior: bool) -> PyResult<Bound<'py, PyBytes>> {
        let covariance = self.covariance.as_deref().filter(|_| posterior).cloned();
        let saved = SavedModel { model: (*self.model).clone(), covariance, groups: self.groups.clone() };
        Ok(PyBytes::new(py, &model::to_bytes(&saved).map_err(refuse)?))
    }

    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.model.columns().iter().map(|c| c.name.clone()).collect()
    }

    /// For each column the names of its levels in the order of their codes; `None` for numeric columns.
    #[getter]
    fn levels(&self) -> Vec<Option<Vec<String>>> {
        let levels = |column: &Column| match &column.kind {
            ColumnKind::Categorical { levels } => Some(levels.clone()),
            ColumnKind::Numeric => None,
        };
        self.model.columns().iter().map(levels).collect()
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

    /// The names of the classes; empty for regression.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.model.classes.clone()
    }

    /// Whether it knows how sure it is.
    #[getter]
    fn has_posterior(&self) -> bool {
        self.covariance.is_some()
    }

    /// Standard deviations, rows × outputs.
    fn std<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let posterior = self.posterior()?;
        let rows = table(self.model.columns(), rows.as_array()).map_err(refuse)?;
        let sd = py.detach(|| posterior.sd(&rows)).map_err(refuse)?;
        Ok(matrix(sd.rows(), sd.cols(), sd.data().to_vec())?.into_pyarray(py))
    }

    /// Joint covariances, outputs × rows × rows.
    fn covariance<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let posterior = self.posterior()?;
        let rows = table(self.model.columns(), rows.as_array()).map_err(refuse)?;
        let all = py.detach(|| posterior.at(&rows).map(|at| posterior.covariance(&at))).map_err(refuse)?;
        stack(py, &all)
    }

    /// Joint draws, outputs × rows × draws.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
        draws: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let posterior = self.posterior()?;
        let rows = table(self.model.columns(), rows.as_array()).map_err(refuse)?;
        let draw = || posterior.at(&rows).and_then(|at| posterior.sample(&at, draws, seed));
        stack(py, &py.detach(draw).map_err(refuse)?.values)
    }

    /// For each row the index of the class that the model predicts; `None` where it predicts none.
    fn classify(&self, py: Python<'_>, rows: PyReadonlyArray2<'_, f64>) -> PyResult<Option<Vec<usize>>> {
        self.predicted(py, rows.as_array()).map(|found| found.classes)
    }

    /// Class probabilities, rows × classes; `None` where the model has none.
    fn probabilities<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let Some(each) = self.predicted(py, rows.as_array())?.probabilities else { return Ok(None) };
        Ok(Some(matrix(each.rows(), each.cols(), each.data().to_vec())?.into_pyarray(py)))
    }

    #[getter]
    fn formula(&self) -> String {
        self.model.kernel.formula()
    }

    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let points = &self.model.points;
        let by_column = matrix(points.width(), points.rows(), points.column_major().to_vec())?;
        Ok(by_column.reversed_axes().into_pyarray(py))
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

    /// The players that the model file names, as (name, columns); empty if it names none.
    #[getter]
    fn groups(&self) -> Vec<(String, Vec<usize>)> {
        let players = self.groups.as_ref().map_or(&[][..], |groups| groups.players());
        players.iter().map(|p| (p.name.clone(), p.columns.clone())).collect()
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
        let rows = table(self.model.columns(), rows.as_array()).map_err(refuse)?;
        let out = py.detach(|| self.model.predict(&rows)).map_err(refuse)?;
        Ok(matrix(out.rows(), out.cols(), out.data().to_vec())?.into_pyarray(py))
    }
}

type Borrowed<'m> = riesz::Explainer<'m>;

self_cell!(
    struct Owned {
        owner: Arc<riesz::Expansion>,
        #[covariant]
        dependent: Borrowed,
    }
);

/// Explains rows of one model under one game.
#[pyclass(frozen, module = "riesz._core")]
struct Explainer {
    owned: Owned,
    pool: rayon::ThreadPool,
    seed: u64,
    /// Whether the game values coalitions.
    by_coalitions: bool,
    absent: String,
    stop: Arc<AtomicBool>,
}

#[pymethods]
impl Explainer {
    #[new]
    #[pyo3(signature = (model, game, background, weights, groups, threads, ridge, landmarks, random_features, conjugate_gradients, seed))]
    #[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
    fn new(
        py: Python<'_>,
        model: &Expansion,
        game: &str,
        background: Option<PyReadonlyArray2<'_, f64>>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        groups: Option<Vec<(String, Vec<usize>)>>,
        threads: Option<usize>,
        ridge: Option<f64>,
        landmarks: Option<usize>,
        random_features: Option<usize>,
        conjugate_gradients: Option<f64>,
        seed: u64,
    ) -> PyResult<Self> {
        let columns = model.model.columns();
        let rows = || -> PyResult<Background> {
            let rows = background.as_ref().ok_or_else(|| refuse("this game needs a background"))?;
            let rows = table(columns, rows.as_array()).map_err(refuse)?;
            Ok(Background { rows, weights: weights.as_ref().map(|w| w.as_array().to_vec()) })
        };
        let game = match game {
            "functional" => Game::Functional,
            "baseline" => Game::Baseline { point: rows()?.rows },
            "interventional" => Game::Interventional { background: rows()? },
            "marginal-product" => Game::MarginalProduct { background: rows()? },
            "observational" => Game::Observational {
                reference: match &background {
                    Some(_) => rows()?,
                    None => model.model.points.clone().into(),
                },
                conditioning: conditioning(
                    ridge,
                    approximation(landmarks, random_features, conjugate_gradients),
                    seed,
                ),
            },
            other => return Err(refuse(format!("there is no game '{other}'"))),
        };
        let groups = groups.map(|groups| players(columns, groups)).transpose()?;
        let absent = game.absent();
        let by_coalitions = matches!(game, Game::Observational { .. });
        let pool = pool(threads)?;
        let owner = model.model.clone();
        let stop = Arc::new(AtomicBool::new(false));
        let prepare = || {
            Owned::try_new(owner, |model| {
                let explainer = riesz::Explainer::new(model, game, groups)?;
                Ok::<_, riesz::Error>(explainer.with_stop(stop.clone()))
            })
        };
        let owned = py.detach(|| pool.install(prepare)).map_err(refuse)?;
        Ok(Self { owned, pool, seed, by_coalitions, absent, stop })
    }

    /// What an absent feature means, in a sentence.
    #[getter]
    fn absent(&self) -> String {
        self.absent.clone()
    }

    /// The players and their columns.
    #[getter]
    fn players(&self) -> Vec<(String, Vec<usize>)> {
        let players = self.owned.borrow_dependent().groups().players();
        players.iter().map(|p| (p.name.clone(), p.columns.clone())).collect()
    }

    /// For each output, how far values may move if the columns of a row move by these numbers.
    fn robustness(&self, delta: Vec<f64>) -> PyResult<Vec<f64>> {
        self.owned.borrow_dependent().robustness(&delta).map_err(refuse)
    }

    /// Values (rows, outputs, players), base values (outputs), predictions and residuals (rows, outputs); bounds (rows, outputs), or
    /// else standard errors (as values) and evaluations; facts about the run; if values are estimated, their coalitions, from which
    /// another call on the same rows goes on within a budget of its own.
    #[pyo3(signature = (rows, coalitions, std_error, sample))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'_, f64>,
        coalitions: usize,
        std_error: Option<f64>,
        sample: Option<&Sample>,
    ) -> PyResult<Parts<'py>> {
        let rows = rows.as_array();
        let explainer = self.owned.borrow_dependent();
        let columns = self.owned.borrow_owner().columns();
        let (n, m, p) = (rows.nrows(), explainer.base().len(), explainer.groups().players().len());
        let mut whole: Option<Explanation> = None;
        let budget = Budget { coalitions, std_error, seed: self.seed };
        let all = if p < 60 { (1_usize << p).saturating_sub(2) } else { usize::MAX };
        // What is sampled is kept, and kept in one piece.
        let sampled = self.by_coalitions && (std_error.is_some() || coalitions < all);
        let mut kept = (sampled && may_keep(coalitions.min(all), n * m) || sample.is_some())
            .then(|| sample.cloned().unwrap_or_default());
        let (mut done, mut chunk) = (0, if kept.is_some() { n } else { explainer.rows_at_once() });
        loop {
            let until = (done + chunk).min(n);
            let part = table(columns, rows.slice(numpy::ndarray::s![done..until, ..])).map_err(refuse)?;
            let start = Instant::now();
            let part = interruptible(py, &self.pool, &self.stop, || match &mut kept {
                Some(kept) => explainer.explain_from(&part, budget, &mut kept.sample),
                None => explainer.explain_from(&part, budget, &mut coalitions::Sample::default()),
            })?
            .map_err(refuse)?;
            match &mut whole {
                Some(whole) => whole.append(part).map_err(refuse)?,
                none => *none = Some(part),
            }
            done = until;
            if done == n {
                break;
            }
            // Chunks do not change a bit of the result, but where each is as dear as the next one they stay as they are.
            if start.elapsed() < PATIENCE {
                chunk = (2 * chunk).min(1 << 16);
            }
        }
        if matches!(whole.as_ref().map(|e| &e.exactness), Some(Exactness::Exact { .. })) {
            kept = None;
        }
        let Explanation { values, predictions, exactness, provenance, .. } =
            whole.ok_or_else(|| refuse("nothing was explained"))?;
        let cube = |numbers| {
            Ok::<_, PyErr>(Array3::from_shape_vec((n, m, p), numbers).map_err(refuse)?.into_pyarray(py))
        };
        let pair = |numbers| Ok::<_, PyErr>(matrix(n, m, numbers)?.into_pyarray(py));
        let gap = |values: &[f64]| -> Vec<f64> {
            let sum = |g: usize| values[g * p..(g + 1) * p].iter().sum::<f64>();
            (0..n * m).map(|g| predictions[g] - explainer.base()[g % m] - sum(g)).collect()
        };
        let (residual, bound, estimated) = match exactness {
            Exactness::Exact { residual, bound } => (residual, Some(pair(bound)?), None),
            Exactness::Estimated { std_error, evaluations, .. } => {
                (gap(&values), None, Some((cube(std_error)?, evaluations)))
            }
            Exactness::Unstated => return Err(refuse("the explanation does not say how exact it is")),
        };
        Ok((
            cube(values)?,
            explainer.base().to_vec().into_pyarray(py),
            pair(predictions)?,
            pair(residual)?,
            bound,
            estimated,
            provenance.run.into_iter().map(|fact| (fact.name, fact.value)).collect(),
            kept,
        ))
    }
}

/// Runs `work` in the pool while this thread looks whether the user pressed Ctrl-C, and then sets `stop`, which `work` is to heed.
fn interruptible<T: Send>(
    py: Python<'_>,
    pool: &rayon::ThreadPool,
    stop: &AtomicBool,
    work: impl FnOnce() -> riesz::Result<T> + Send,
) -> PyResult<riesz::Result<T>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let receiver = std::sync::Mutex::new(receiver);
    let mut interrupted = Ok(());
    let result = std::thread::scope(|scope| {
        scope.spawn(move || sender.send(pool.install(work)));
        loop {
            let answer = py.detach(|| {
                let receiver = receiver.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
                receiver.recv_timeout(PATIENCE)
            });
            match answer {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupted.is_ok() {
                interrupted = py.check_signals();
                stop.store(interrupted.is_err(), Ordering::Relaxed);
            }
        }
    });
    stop.store(false, Ordering::Relaxed);
    interrupted?;
    result.ok_or_else(|| refuse("the computation broke off"))
}

/// A cell of a categorical column.
#[derive(FromPyObject)]
enum Cell {
    Text(String),
    Number(f64),
}

/// The code of each cell among `levels`; `None` for what is none of them.
#[pyfunction]
fn codes(levels: Vec<String>, cells: Vec<Cell>) -> Vec<Option<usize>> {
    let code = |cell: &Cell| match cell {
        Cell::Text(text) => level_of_text(&levels, text),
        Cell::Number(value) => level_of_number(&levels, *value),
    };
    cells.iter().map(code).collect()
}

/// Whether an explanation's JSON form can be read.
#[pyfunction]
fn check(py: Python<'_>, json: &[u8]) -> PyResult<()> {
    py.detach(|| explanation::read(json)).map(|_| ()).map_err(refuse)
}

/// The HTML report of an explanation in its JSON form.
#[pyfunction]
fn report(py: Python<'_>, json: &[u8], title: &str) -> PyResult<String> {
    let options = ReportOptions { title: title.into(), ..ReportOptions::default() };
    py.detach(|| explanation::read(json).and_then(|e| riesz_report::report(&e, &options))).map_err(refuse)
}

/// One plot of an explanation in its JSON form, as SVG.
#[pyfunction]
fn svg(
    py: Python<'_>,
    json: &[u8],
    plot: &str,
    output: usize,
    row: usize,
    max_display: usize,
) -> PyResult<String> {
    let options = PlotOptions { output, row, max_display, theme: Theme::Auto, ..PlotOptions::default() };
    let draw = || riesz_report::render(&explanation::read(json)?, plot.parse()?, &options);
    py.detach(draw).map(|svg| svg.text).map_err(refuse)
}

/// The compiled half of riesz.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::{Expansion, Explainer, Sample, check, codes, report, svg};

    #[pymodule_export]
    use super::discrepancy::{hsic_test, mmd_test, rank_features, witness};

    #[pymodule_export]
    use super::sampling::{kernel_shap, permutation};

    #[pymodule_export]
    use super::fit::{
        Tuned, functionals, gaussian_process, gaussian_process_classifier, kernel_logistic_regression,
        kernel_ridge, svc, svr,
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

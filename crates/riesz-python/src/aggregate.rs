//! Downscaling for Python: fits processes to tables of rows, bags and targets.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use riesz::aggregate::{
    AggregateFit, AggregateGaussianProcess, Approximation, BagWeighting, Bags, Conventions, Mediation,
    Mediators, SparseAggregateFit, SparseAggregateProcess, TargetUnit, Tuning, inducing_points, join,
};
use riesz::fit::TunedParameters;
use riesz::kernel::Profile;
use riesz::{Error, Kernel, Matrix, PosteriorCovariance, Table};

use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NamedRows, matrix, raise, refuse, sample};

/// The result of a join: the used rows and the bag of each; the bags with rows and the targets, as positions
/// in the table of bags; the bag of each target among the bags with rows; notes.
type Places = (Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>, Vec<Option<usize>>, Vec<String>);

/// Joins rows and bags by the names of the bags.
#[pyfunction]
pub fn join_bags(
    rows: Vec<String>,
    bags: Vec<String>,
    has_target: Vec<bool>,
    mediators: bool,
    drop_unmatched: bool,
) -> PyResult<Places> {
    let joined = join(&rows, &bags, &has_target, mediators, drop_unmatched).map_err(raise)?;
    Ok((joined.rows, joined.bag, joined.with_rows, joined.targets, joined.matched, joined.notes))
}

/// The mediators of bags with rows, the mediators of targets, and for targets that are sums their total
/// weights.
type Coarse<'py> = (NamedRows<'py>, NamedRows<'py>, Option<Vec<f64>>);

/// Rows, bags and targets.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct AggregateInput<'py> {
    rows: NamedRows<'py>,
    /// The row of each membership; `bag` and `weight` are its bag and its weight, `bags` is the number of
    /// bags.
    row: Vec<usize>,
    bag: Vec<usize>,
    bags: usize,
    weight: Option<Vec<f64>>,
    /// Whether targets are sums.
    sums: bool,
    /// The name of the targets.
    name: String,
    targets: Vec<f64>,
    bag_of_target: Vec<Option<usize>>,
    /// Known variances of the targets' errors.
    known: Option<Vec<f64>>,
    mediators: Option<Coarse<'py>>,
}

/// The training data.
#[pyclass(frozen, module = "riesz._core")]
pub struct Aggregates {
    pub(crate) data: Arc<riesz::aggregate::Aggregates>,
    pub(crate) name: String,
}

#[pymethods]
impl Aggregates {
    #[new]
    fn new(input: AggregateInput<'_>) -> PyResult<Self> {
        let unit = if input.sums { TargetUnit::Sum } else { TargetUnit::Mean };
        let mediators = input.mediators.map(|(bags, targets, totals)| {
            Ok::<_, PyErr>(Mediators { bags: sample(bags)?, targets: sample(targets)?, totals })
        });
        let (rows, weight) = (sample(input.rows)?, input.weight.as_deref());
        let bags = Bags::from_memberships(&input.row, rows.rows(), &input.bag, input.bags, weight, unit);
        let data = riesz::aggregate::Aggregates {
            bags: bags.map_err(raise)?,
            rows,
            targets: input.targets,
            bag_of_target: input.bag_of_target,
            target_noise: input.known,
            mediators: mediators.transpose()?,
        };
        Ok(Self { data: Arc::new(data), name: input.name })
    }

    /// The default number of inducing points; `None` if the exact fit is the default.
    #[getter]
    fn usual_points(&self) -> Option<usize> {
        self.data.usual_points()
    }

    /// A warning if hardly any target has rows of its own.
    #[getter]
    fn hardly_matched(&self) -> Option<String> {
        self.data.few_matched_warning()
    }

    /// Whether targets look like means: their magnitudes fall as the weights of their rows grow.
    #[getter]
    fn look_like_means(&self) -> bool {
        self.data.targets_look_like_means()
    }

    /// The target with the largest error beyond rounding, and this error; `None` if there is no such target.
    fn unmet(&self, fitted: Vec<f64>) -> Option<(usize, f64)> {
        self.data.largest_mismatch(&fitted)
    }

    /// A warning if the mediators of targets without rows differ in distribution from those of bags.
    fn mediator_shift(&self, py: Python<'_>, seed: u64) -> PyResult<Option<String>> {
        let (data, stop) = (Arc::clone(&self.data), Arc::<AtomicBool>::default());
        let worker_stop = stop.clone();
        let work = move || data.mediator_shift_warning(seed, worker_stop);
        interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)
    }

    /// The targets whose mediators are far from the mediators of all bags with rows, by `kernel` in JSON.
    fn far(&self, kernel: &str) -> PyResult<Vec<usize>> {
        Ok(self.data.distant_mediators(&crate::fit::kernel(kernel)?))
    }
}

/// The process at which tuning starts.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Start {
    /// The kernel in JSON; `None` for the default kernel.
    kernel: Option<String>,
    noise: f64,
    /// `None` for the value of the conventions, here and in `mediation_noise`.
    row_noise: Option<f64>,
    mediation_noise: Option<f64>,
    /// The mediators' kernel in JSON, the ridge and whether the embedding is centered (`None` for the values
    /// of the conventions), and whether every row is an example.
    mediation: Option<(String, Option<f64>, Option<bool>, bool)>,
    /// For a regression of targets on mediators instead of rows: whether bags are tied to it by a variance
    /// (true), or its predictions are pseudo-targets (false).
    tied: Option<bool>,
    prior_mean: Option<f64>,
    normalize_y: bool,
    /// Whether a fit with inducing points maximises the variational bound (VFE) instead of using FITC.
    bound: bool,
    /// Whether the conventions are those of the published models.
    published: bool,
    /// Whether targets have no errors.
    exact: bool,
}

impl Start {
    fn conventions(&self) -> Conventions {
        if self.published { Conventions::Published } else { Conventions::Regularised }
    }

    /// The profiles that tuning compares with that of the default kernel.
    fn profiles(&self) -> Vec<Profile> {
        if self.kernel.is_none() { self.conventions().rougher_profiles() } else { Vec::new() }
    }

    fn process(&self, data: &riesz::aggregate::Aggregates) -> PyResult<AggregateGaussianProcess> {
        let mediators = self.mediation.as_ref().map(|(kernel, ..)| crate::fit::kernel(kernel)).transpose()?;
        let kernel = start_kernel(self.kernel.as_deref(), data)?;
        let default_process = self.conventions().start(kernel, mediators, data);
        let default_process = AggregateGaussianProcess { noise: self.noise, ..default_process };
        let default_process = match self.tied {
            Some(tied) => default_process.regressing_targets(tied, data),
            None => default_process,
        };
        let mediation = self.mediation.as_ref().zip(default_process.mediation).map(
            |((_, ridge, centered, rows), default_mediation)| Mediation {
                ridge: ridge.unwrap_or(default_mediation.ridge),
                centered: centered.unwrap_or(default_mediation.centered),
                counts: if *rows { BagWeighting::Mass } else { BagWeighting::One },
                ..default_mediation
            },
        );
        let process = AggregateGaussianProcess {
            kernel: default_process.kernel,
            noise: default_process.noise,
            row_noise: self.row_noise.unwrap_or(default_process.row_noise),
            mediation_noise: self.mediation_noise.unwrap_or(default_process.mediation_noise),
            mediation,
            prior_mean: self.prior_mean,
            normalize_y: self.normalize_y,
        };
        Ok(if self.exact { process.with_exact_targets() } else { process })
    }
}

/// The kernel given in JSON, or else the default kernel for the data.
pub(crate) fn start_kernel(json: Option<&str>, data: &riesz::aggregate::Aggregates) -> PyResult<Kernel> {
    json.map_or_else(|| data.default_kernel().map_err(raise), crate::fit::kernel)
}

/// Means and variances.
type Moments = (Vec<f64>, Vec<f64>);

/// Hyper-parameters of an exact process, as [`Start`] takes them: the kernel in JSON, the noises of targets,
/// of rows and of mediation, and the mediators' kernel in JSON with the ridge.
type Hyperparameters = (String, f64, f64, f64, Option<(String, f64)>);

/// The fit for one set of hyperparameters.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct AggregatePart {
    /// The weight in the average; weights add up to 1.
    weight: f64,
    model: Py<Expansion>,
    /// The estimates of the targets.
    fitted: Vec<f64>,
    /// Moments of the bags' aggregates, without noise; `None` for a sparse fit.
    bags: Option<Moments>,
    /// The prediction of each target from the others, with noise; `None` for a single target.
    left_out: Option<Moments>,
    /// The derivatives of the weights of bags by the targets, bags × targets, and the estimates for targets
    /// that are all 1; `None` for a sparse fit.
    sensitivities: Option<(Py<PyArray2<f64>>, Vec<f64>)>,
    /// The hyper-parameters; `None` for a sparse fit.
    hyperparameters: Option<Hyperparameters>,
}

/// A fitted process; see [`riesz::aggregate`].
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct FittedAggregates {
    /// The fit at the best hyper-parameters.
    best: Py<AggregatePart>,
    /// Draws of hyper-parameters; empty without an average.
    parts: Vec<Py<AggregatePart>>,
    /// The effective sample size of the draws.
    effective: Option<f64>,
    /// The noise variances of targets, rows and mediation, in squared units of the target.
    noise: (f64, f64, f64),
    /// The mediators' kernel in JSON, and the ridge; for regressed targets in their squared units.
    mediation: Option<(String, f64)>,
    log_marginal_likelihood: f64,
    warnings: Vec<String>,
}

/// An [`AggregatePart`] before the conversion to Python objects.
struct Part {
    weight: f64,
    model: riesz::KernelExpansion,
    covariance: PosteriorCovariance,
    fitted: Vec<f64>,
    bags: Option<Moments>,
    left_out: Option<Moments>,
    sensitivities: Option<(Matrix, Vec<f64>)>,
    process: Option<AggregateGaussianProcess>,
}

impl Part {
    fn exact(weight: f64, data: &riesz::aggregate::Aggregates, fit: AggregateFit) -> Result<Self, Error> {
        let left_out = (data.targets.len() > 1).then(|| fit.leave_one_out()).transpose()?;
        let (mean, covariance) = fit.bag_posterior();
        let variance = (0..mean.len()).map(|b| covariance[(b, b)].max(0.0)).collect();
        Ok(Self {
            weight,
            fitted: fit.fitted(),
            bags: Some((mean, variance)),
            left_out: left_out.map(|predictions| (predictions.mean, predictions.variance)),
            sensitivities: Some((fit.weight_sensitivities(), fit.constants().to_vec())),
            process: Some(fit.process),
            model: fit.model,
            covariance: fit.covariance,
        })
    }

    fn sparse(weight: f64, fit: SparseAggregateFit) -> Self {
        let SparseAggregateFit { model, covariance, fitted, left_out, .. } = fit;
        let left_out = Some((left_out.mean, left_out.variance));
        Self { weight, model, covariance, fitted, bags: None, left_out, sensitivities: None, process: None }
    }

    fn into_python(self, py: Python<'_>, name: &str) -> PyResult<Py<AggregatePart>> {
        let Self { weight, mut model, covariance, fitted, bags, left_out, sensitivities, process } = self;
        model.output_names = vec![name.into()];
        let array = |(sensitivities, constants): (Matrix, Vec<f64>)| {
            let sensitivities =
                matrix(sensitivities.rows(), sensitivities.cols(), sensitivities.data().to_vec())?
                    .into_pyarray(py);
            Ok::<_, PyErr>((sensitivities.unbind(), constants))
        };
        let sensitivities = sensitivities.map(array).transpose()?;
        let covariance = Some(Arc::new(covariance));
        let model = Py::new(py, Expansion { model: Arc::new(model), covariance, groups: None })?;
        let hyperparameters = process.map(hyperparameters).transpose()?;
        let part = AggregatePart { weight, model, fitted, bags, left_out, sensitivities, hyperparameters };
        Py::new(py, part)
    }
}

/// The mediators' kernel in JSON, and the ridge.
fn in_json(mediation: Mediation) -> PyResult<(String, f64)> {
    Ok((serde_json::to_string(&mediation.kernel).map_err(refuse)?, mediation.ridge))
}

fn hyperparameters(process: AggregateGaussianProcess) -> PyResult<Hyperparameters> {
    let kernel = serde_json::to_string(&process.kernel).map_err(refuse)?;
    let mediation = process.mediation.map(in_json).transpose()?;
    Ok((kernel, process.noise, process.row_noise, process.mediation_noise, mediation))
}

/// Posterior mean (q) and covariance (q × q) of the mean of f given each row of mediators, for a process with
/// fixed hyper-parameters.
#[pyfunction]
pub fn conditional_means<'py>(
    py: Python<'py>,
    start: Start,
    aggregates: &Aggregates,
    mediators: NamedRows<'_>,
) -> PyResult<(Vec<f64>, Bound<'py, PyArray2<f64>>)> {
    let (process, data) = (start.process(&aggregates.data)?, Arc::clone(&aggregates.data));
    let mediators = sample(mediators)?;
    let work = move || process.fit(&data)?.conditional_means(&mediators);
    let (means, covariance) =
        interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)?;
    let (rows, cols) = (covariance.rows(), covariance.cols());
    Ok((means, matrix(rows, cols, covariance.into_data())?.into_pyarray(py)))
}

/// Fits the exact process, with or without tuning. If `draws` is given, averages over this number of draws of
/// hyper-parameters.
#[pyfunction]
pub fn fit_aggregates(
    py: Python<'_>,
    start: Start,
    aggregates: &Aggregates,
    tune: bool,
    draws: Option<usize>,
    seed: u64,
) -> PyResult<FittedAggregates> {
    let (process, data) = (start.process(&aggregates.data)?, Arc::clone(&aggregates.data));
    let profiles = start.profiles();
    let tuning = Tuning { conventions: start.conventions(), profiles, ..Tuning::default() };
    let stop = tuning.stop.clone();
    let work = move || -> Result<_, Error> {
        let (processes, fit, warnings) = if tune {
            let tuned = tuning.tune(&process, &data)?;
            if start.exact {
                let best = tuned.process.with_exact_targets();
                let fit = best.fit(&data)?;
                (vec![best], fit, tuned.warnings)
            } else {
                (tuned.processes(), tuned.fit, tuned.warnings)
            }
        } else {
            (vec![process.clone()], process.fit(&data)?, Vec::new())
        };
        let averaged =
            draws.map(|draws| tuning.average(&process, &processes, &data, draws, seed)).transpose()?;
        let best = &processes[0];
        let effective = averaged.as_ref().map(|average| average.effective_sample_size);
        let draws = averaged.into_iter().flat_map(|average| average.fits);
        let parts =
            draws.map(|(weight, fit)| Part::exact(weight, &data, fit)).collect::<Result<Vec<_>, _>>()?;
        let noise =
            [best.noise, best.row_noise, best.mediation_noise].map(|relative| fit.variance * relative);
        let evidence = fit.log_marginal_likelihood;
        let mediation = best.mediation.clone().map(|relative| relative.scale_units(fit.variance));
        Ok((mediation, noise, evidence, Part::exact(1.0, &data, fit)?, parts, effective, warnings))
    };
    let (mediation, noise, log_marginal_likelihood, best, parts, effective, warnings) =
        interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    Ok(FittedAggregates {
        best: best.into_python(py, &aggregates.name)?,
        parts: parts
            .into_iter()
            .map(|part| part.into_python(py, &aggregates.name))
            .collect::<PyResult<_>>()?,
        effective,
        noise: noise.into(),
        mediation: mediation.map(in_json).transpose()?,
        log_marginal_likelihood,
        warnings,
    })
}

/// The exact log marginal likelihood of the start, and its gradient by the logarithms of its parameters.
#[pyfunction]
pub fn aggregate_evidence(
    py: Python<'_>,
    start: Start,
    aggregates: &Aggregates,
) -> PyResult<(f64, Vec<f64>)> {
    let (process, data) = (start.process(&aggregates.data)?, Arc::clone(&aggregates.data));
    let work = move || {
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        process.log_marginal_likelihood(&data, &theta)
    };
    interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)
}

/// Inducing points: their number, or their rows.
#[derive(FromPyObject)]
pub enum Points<'py> {
    Count(usize),
    Rows(NamedRows<'py>),
}

/// Fits the sparse process with inducing points. If `draws` is given, averages over this number of draws of
/// hyper-parameters.
#[pyfunction]
pub fn fit_sparse_aggregates(
    py: Python<'_>,
    start: Start,
    aggregates: &Aggregates,
    points: Points<'_>,
    tune: bool,
    draws: Option<usize>,
    seed: u64,
) -> PyResult<FittedAggregates> {
    let (start_process, data) = (start.process(&aggregates.data)?, Arc::clone(&aggregates.data));
    let (rows, count) = match points {
        Points::Rows(rows) => (Some(sample(rows)?), 0),
        Points::Count(count) => (None, count),
    };
    let stop: Arc<AtomicBool> = Arc::default();
    let worker_stop = stop.clone();
    let work = move || -> Result<_, Error> {
        let rows: Table = rows.map_or_else(|| inducing_points(&data.rows, count, seed), Ok)?;
        let process = SparseAggregateProcess {
            noise: start_process.noise,
            row_noise: Some(start_process.row_noise).filter(|noise| *noise > 0.0),
            mediation_noise: Some(start_process.mediation_noise).filter(|noise| *noise > 0.0),
            mediation: start_process.mediation,
            mean: start_process.prior_mean,
            normalize: start_process.normalize_y,
            tune: if tune { TunedParameters::KernelAndNoise } else { TunedParameters::Nothing },
            profiles: start.profiles(),
            priors: !start.published,
            approximation: if start.bound { Approximation::Vfe } else { Approximation::Fitc },
            seed,
            stop: worker_stop,
            ..SparseAggregateProcess::new(start_process.kernel, rows)
        };
        let fit = process.fit_data(&data)?;
        let average = draws.map(|draws| process.average_data(&fit, &data, draws)).transpose()?;
        Ok((fit, average))
    };
    let (mut fit, average) = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let effective = average.as_ref().map(|average| average.effective_sample_size);
    let parts = average.into_iter().flat_map(|average| average.fits);
    let parts = parts.map(|(weight, fit)| Part::sparse(weight, fit).into_python(py, &aggregates.name));
    Ok(FittedAggregates {
        parts: parts.collect::<PyResult<_>>()?,
        effective,
        noise: (fit.noise, fit.row_noise, fit.mediation_noise),
        mediation: fit.mediation.take().map(in_json).transpose()?,
        log_marginal_likelihood: fit.log_marginal_likelihood,
        warnings: std::mem::take(&mut fit.warnings),
        best: Part::sparse(1.0, fit).into_python(py, &aggregates.name)?,
    })
}

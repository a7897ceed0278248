//! Gaussian process regression (Rasmussen and Williams 2006, chapters 2 and 5).
//!
//! The observations are values of f, or weighted sums of values such as mean temperatures of regions or
//! totals of districts: `z = Aᵀf(X) + ε`, with `A` (rows × observations) and `ε` normal.

use super::Penalty;
use super::grid_search::{tuning_entries, tuning_sample};
use super::nystrom::{GpTuning, Job, Kind};
use super::sparse_gp::{SparseGaussianProcess, SparseGpFit};
use super::target_scaling::{ScaledTargets, check_noise, check_row_noise, noise_entries};
use super::task::{
    FIXED_KERNEL, FitTask, FittedModel, HYPERPARAMETER_SAMPLES, LANDMARKS, ModelKind, NORMALIZE_Y,
    OptionalInput, OutputType, RESTARTS, ROUGHER_PROFILES, SEARCH_ROWS,
};
use crate::control::RunControl;
use crate::error::{Error, Result, sized, unused};
use crate::gp::average::{HyperPosterior, PosteriorMixture, WithPosterior};
use crate::gp::exact::{NormalEvidence, check_evidence};
use crate::gp::hyperparameters::{ThetaReader, TunedParameters, with_default_priors};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::search::{self, SearchOptions, SearchResult};
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, Sparse, select};
use crate::memory::ensure_free;
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction, prior_covariance_of_sums};
use crate::setting_schema::{self, Setting, SettingValues};
use crate::table::Table;

/// Starting value of the noise for tuning, in units of the normalised target.
const START_NOISE: f64 = 0.1;

/// Maximum number of rows on which hyper-parameters are tuned, unless the setting `search_rows` is given.
const TUNING_ROWS: usize = 2000;

const NOISE: Setting = Setting::new(
    "noise",
    "X",
    setting_schema::Range::Positive { share: false },
    "Variance of the noise, in units of the standardised target [default: tuned]",
);

/// Gaussian process regression as a named model; parameters that are not set are tuned.
pub(super) static KIND: ModelKind = ModelKind {
    name: "gp",
    help: "Gaussian process regression, one or several targets",
    predicts: OutputType::Numbers,
    settings: &[
        &NOISE,
        &LANDMARKS,
        &RESTARTS,
        &SEARCH_ROWS,
        &FIXED_KERNEL,
        &NORMALIZE_Y,
        &HYPERPARAMETER_SAMPLES,
        &ROUGHER_PROFILES,
    ],
    takes: &[OptionalInput::RowNoise, OptionalInput::Penalty],
    posterior: true,
    fit: fit_task,
    job: landmark_job,
};

fn fit_task(task: &FitTask<'_>) -> Result<FittedModel> {
    let noise = task.settings.number(NOISE.name);
    let tune = tuned_by_settings(&task.settings);
    let (start, y) = (noise.unwrap_or(START_NOISE), task.numbers()?);
    let constant = |o: &usize| (1..y.rows()).all(|i| y[(i, *o)] == y[(0, *o)]);
    if let Some(o) = (0..y.cols()).find(constant).filter(|_| task.normalize_y() && y.rows() > 0) {
        let name = task.target_names.get(o).map_or_else(|| format!("target {}", o + 1), String::clone);
        return Err(Error::target(name, format!("is {} in every row: there is nothing to learn", y[(0, o)])));
    }
    let (normalize_y, restarts, seed, control) =
        (task.normalize_y(), task.restarts(), task.seed, task.control());
    let fitted = |model: KernelExpansion, covariance, warnings, steps, noise, evidence| FittedModel {
        covariance: Some(covariance),
        warnings,
        iterations: vec![steps],
        noise: Some(noise),
        log_marginal_likelihood: Some(evidence),
        ..model.into()
    };
    if let (Some(samples @ 1..), true) =
        (task.settings.count(HYPERPARAMETER_SAMPLES.name), task.penalty.is_some())
    {
        let allowed = "an average over hyper-parameters has no penalty: set it to 0 to protect features";
        return Err(Error::parameter(HYPERPARAMETER_SAMPLES.name, samples, allowed));
    }
    if let Some(landmarks) = task.settings.count(LANDMARKS.name) {
        let dense = [
            (OptionalInput::Penalty.name(), task.penalty.is_some()),
            (SEARCH_ROWS.name, task.settings.get(SEARCH_ROWS.name).is_some()),
        ];
        if let Some((name, _)) = dense.into_iter().find(|(_, is_given)| *is_given) {
            return Err(unused(name, "fits without landmarks"));
        }
        let estimator = |kernel| {
            let (row_noise, standard) =
                (task.row_noise.clone(), SparseGaussianProcess::new(kernel, start, landmarks));
            SparseGaussianProcess { tune, normalize_y, row_noise, restarts, seed, ..standard }
        };
        let (fit, average) = task.fit_profiles(
            estimator,
            |process| process.fit_until(task.x, y, control),
            |fit| fit.lower,
            |process, fit, draws| process.average_until(fit, task.x, y, draws, control),
        )?;
        let SparseGpFit { model, covariance, warnings, steps, noise, lower, .. } = fit;
        return Ok(fitted(model, covariance, warnings, steps, noise, lower).averaged(average));
    }
    let estimator = |kernel| {
        let (row_noise, standard) = (task.row_noise.clone(), GaussianProcess::new(kernel, start));
        GaussianProcess { tune, normalize_y, row_noise, restarts, seed, ..standard }
    };
    let (fit, average) = task.fit_profiles(
        estimator,
        |process| process.fit_in_two_steps(task, y),
        |fit| fit.log_marginal_likelihood,
        |process, fit, draws| process.average_until(fit, task.x, y, draws, control),
    )?;
    let fit = match task.penalty_for(&fit.model.kernel)? {
        Some(penalty) => fit.with_penalty(&penalty)?,
        None => fit,
    };
    let GpFit { model, covariance, warnings, steps, noise, log_marginal_likelihood: evidence, .. } = fit;
    Ok(fitted(model, covariance, warnings, steps, noise, evidence).averaged(average))
}

/// Returns the parameters that the settings do not fix.
fn tuned_by_settings(settings: &SettingValues) -> TunedParameters {
    let fixed = settings.switch(FIXED_KERNEL.name).unwrap_or(false);
    match (fixed, settings.number(NOISE.name)) {
        (true, Some(_)) => TunedParameters::Nothing,
        (true, None) => TunedParameters::Noise,
        (false, Some(_)) => TunedParameters::Kernel,
        (false, None) => TunedParameters::KernelAndNoise,
    }
}

fn landmark_job(settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
    let Some(landmarks) = settings.count(LANDMARKS.name) else { return Ok(None) };
    if settings.get(SEARCH_ROWS.name).is_some() {
        return Err(unused(SEARCH_ROWS.name, "fits without landmarks"));
    }
    if settings.count(HYPERPARAMETER_SAMPLES.name).is_some_and(|samples| samples > 0)
        || settings.switch(ROUGHER_PROFILES.name).unwrap_or(false)
    {
        // These need all rows at once.
        return Ok(None);
    }
    let noise = settings.number(NOISE.name);
    let learning = GpTuning {
        noise: noise.unwrap_or(START_NOISE),
        tune: tuned_by_settings(settings),
        normalize_y: settings.switch(NORMALIZE_Y.name).unwrap_or(true),
        restarts: settings.count(RESTARTS.name).unwrap_or(0),
    };
    Ok(Some(Job { kind: Kind::Process(learning), corrections: 0, seed, ..Job::new(landmarks) }))
}

/// Gaussian process regression: `y_i = f(x_i) + ε_i`, where `f` is a Gaussian process and `ε_i` is normal
/// with variance `noise + row_noise_i`. With [`operator`](Self::operator) the observations are
/// `y_j = Σ_i A_ij f(x_i) + ε_j`.
///
/// Several targets are independent processes with the same kernel and noise, as in scikit-learn.
///
/// ```
/// use riesz::fit::GaussianProcess;
/// use riesz::{Kernel, Matrix, Table};
///
/// let rows: Vec<[f64; 1]> = (0..30).map(|i| [f64::from(i) / 5.0]).collect();
/// let y = Matrix::column_vector(rows.iter().map(|r| 10.0 + r[0].sin()).collect());
/// let fit = GaussianProcess::new(Kernel::gaussian(&[1.0]), 0.1).fit(&Table::from_rows(&rows)?, &y)?;
/// let new = Table::from_rows(&[[3.3], [60.0]])?;
/// let (mean, sd) = (fit.model.predict(&new)?, fit.posterior().sd(&new)?);
/// assert!((mean[(0, 0)] - (10.0 + 3.3_f64.sin())).abs() < 0.01);
/// assert!(sd[(0, 0)] < 0.01 && sd[(1, 0)] > 0.1); // far from the data it knows little
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GaussianProcess {
    /// The prior covariance, from which tuning starts. With `normalize_y` in units of the normalised target.
    pub kernel: Kernel,
    /// Variance of the noise, > 0, from which tuning starts. With `normalize_y` in units of the normalised
    /// target.
    pub noise: f64,
    /// Known error variances ≥ 0 of single observations, in addition to `noise`, always in squared units of
    /// the original target. `None` for none.
    pub row_noise: Option<Vec<f64>>,
    /// A (rows × observations): observation j is the sum of f over the rows with the weights of column j.
    /// `None` for the identity, one observation per row. With A, `normalize_y` subtracts the constant mean of
    /// f that fits the observations best by least squares. The unit of f is then the spread of the
    /// observations around this mean, after division by the sum of their absolute weights.
    pub operator: Option<Sparse>,
    /// Whether the process models `(y - mean) / standard deviation` (with divisor n) instead of y. The fit is
    /// in the original units in both cases.
    pub normalize_y: bool,
    /// The parameters that are tuned.
    pub tune: TunedParameters,
    /// Lower and upper bounds for [`parameters`](Self::parameters), in their order and on their scale. Equal
    /// bounds fix a parameter. `None` for 10⁻⁵ to 10⁵ times the start.
    pub bounds: Option<Vec<(f64, f64)>>,
    /// Number of runs of the optimiser from random points within the bounds, in addition to the run from the
    /// start.
    pub restarts: usize,
    /// Seed of these random points. The result depends on the seed, but not on the number of threads.
    pub seed: u64,
}

/// A fitted Gaussian process.
#[derive(Debug, Clone)]
pub struct GpFit {
    /// The posterior mean in the targets' units. With one target its kernel and [`noise`](Self::noise) are in
    /// these (squared) units too. Several normalised targets have one [`scale`](PosteriorCovariance::scale)
    /// each.
    pub model: KernelExpansion,
    /// Variance reduction relative to the prior: `Q = (K + noise)⁻¹`, or `A (Aᵀ K A + noise)⁻¹ Aᵀ` with an
    /// operator A; K (rows × rows) is the gram matrix of the rows.
    pub covariance: PosteriorCovariance,
    /// Variance of the noise, in the kernel's units.
    pub noise: f64,
    /// `log p(y)`, the log density of the targets in their original units. scikit-learn reports it for the
    /// normalised targets, which is larger by `n log(standard deviation)` per target.
    pub log_marginal_likelihood: f64,
    /// Jitter on the diagonal in addition to the noise, in the kernel's units.
    pub jitter: f64,
    /// The parameters used, in the order and on the scale of [`GaussianProcess::parameters`].
    pub theta: Vec<f64>,
    /// Total number of optimiser steps over all runs.
    pub steps: usize,
    /// Total number of evaluations of the marginal likelihood over all runs.
    pub evaluations: usize,
    /// Warnings: parameters that ended at a bound, runs that failed.
    pub warnings: Vec<String>,
}

/// Kernel, noise and log marginal likelihood at one set of parameters, in the target's units.
struct GpState {
    kernel: Kernel,
    noise: f64,
    evidence: NormalEvidence,
}

impl GaussianProcess {
    /// Returns a process on normalised targets. Kernel and noise are tuned from these values, without
    /// restarts.
    pub fn new(kernel: Kernel, noise: f64) -> Self {
        Self {
            kernel,
            noise,
            row_noise: None,
            operator: None,
            normalize_y: true,
            tune: TunedParameters::KernelAndNoise,
            bounds: None,
            restarts: 0,
            seed: 0,
        }
    }

    /// Returns names and starting values of the tunable parameters, on the tuning scale: the kernel's
    /// parameters, then the logarithm of the noise.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = self.kernel.parameters();
        parameters.push(Parameter::logarithm("noise", self.noise));
        parameters
    }

    /// Fits the process to `y` (observations × targets). The cost for n observations of rows with d columns
    /// is n³/3, and O(rows² d) for the gram matrix. Each evaluation of tuning costs n³ and O(rows²
    /// parameters). Memory n² numbers, rows² more for tuning, and rows · n more with an operator.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`]; [`Error::Target`] if
    /// a target to be normalised is constant; [`Error::Overflow`] if the kernel overflows;
    /// [`Error::NotPositiveDefinite`].
    pub fn fit(&self, x: &Table, y: &Matrix) -> Result<GpFit> {
        self.fit_until(x, y, RunControl::none())
    }

    /// Fits as [`fit`](Self::fit) does; each evaluation of the marginal likelihood counts as one step of
    /// progress.
    pub(super) fn fit_until(&self, x: &Table, y: &Matrix, control: RunControl<'_>) -> Result<GpFit> {
        let targets = self.check(x, y)?;
        self.check_memory(x.rows(), y.rows())?;
        let parameters = self.parameters();
        let free = self.tune.free(parameters.len() - 1, parameters.len());
        let tuned = !free.is_empty();
        let objective = |theta: &[f64]| {
            let (kernel, noise) = self.hyperparameters(theta);
            let state = self.state(x, &targets, kernel, noise)?;
            control.check_cancelled()?;
            Ok((state.evidence.value, self.gradient(x, &state)))
        };
        let search = SearchOptions {
            bounds: self.bounds.as_deref(),
            restarts: self.restarts,
            seed: self.seed,
            ..SearchOptions::default()
        };
        let optimum = search::maximise(&parameters, free, search, control, objective)?;
        let (kernel, noise) =
            if tuned { self.hyperparameters(&optimum.theta) } else { (self.kernel.clone(), self.noise) };
        let GpState { kernel, noise, evidence } = self.state(x, &targets, kernel, noise)?;
        let NormalEvidence { factor, mut alpha, value, .. } = evidence;
        let jitter = factor.jitter;
        alpha.scale_columns(targets.per_output_scale.iter().copied());
        let coef = match &self.operator {
            None => alpha,
            Some(a) => a.matmul(&alpha),
        };
        let mut model = KernelExpansion::new(kernel, x.clone(), coef, targets.center)?;
        model.model_card = vec![CardEntry::new("model", "Gaussian process regression")];
        model.model_card.extend(noise_entries(noise, targets.unit_variance));
        if let Some(a) = &self.operator {
            model.model_card.push(CardEntry::new("observed sums of rows", a.cols()));
        }
        if self.row_noise.is_some() {
            model.model_card.push(CardEntry::new("noise of single rows", "given"));
        }
        model.model_card.extend([
            CardEntry::measured("log marginal likelihood", value),
            CardEntry::measured("jitter", jitter),
        ]);
        model.model_card.extend(optimum.facts(tuned.then_some(self.restarts)));
        let SearchResult { theta, steps, evaluations, warnings, .. } = optimum;
        Ok(GpFit {
            model,
            covariance: PosteriorCovariance::new(
                vec![VarianceReduction::CholeskyInverse { operator: self.operator.clone(), factor }],
                targets.per_output_scale,
            ),
            noise,
            log_marginal_likelihood: value,
            jitter,
            theta,
            steps,
            evaluations,
            warnings,
        })
    }

    /// Fits as [`fit_until`](Self::fit_until) does, but tunes the hyper-parameters on a sample of the rows if
    /// there are more than [`TUNING_ROWS`], or than the setting `search_rows`.
    fn fit_in_two_steps(&self, task: &FitTask<'_>, y: &Matrix) -> Result<GpFit> {
        let tuned = self.tune != TunedParameters::Nothing;
        let Some(sample) = tuning_sample(task, tuned, TUNING_ROWS, None)? else {
            return self.fit_until(task.x, y, task.control());
        };
        let row_noise = self.row_noise.as_ref().map(|noise| select(noise, &sample.rows));
        let tuning = Self { row_noise, ..self.clone() };
        let tuned = tuning.fit_until(&sample.x, &y.select_rows(&sample.rows), task.control())?;
        let (kernel, noise) = self.hyperparameters(&tuned.theta);
        let process = Self { kernel, noise, tune: TunedParameters::Nothing, ..self.clone() };
        task.progress.start_stage("fitting to all rows", 0);
        let mut fit = process.fit_until(task.x, y, task.control())?;
        fit.model.model_card.extend(tuning_entries(
            task,
            &sample,
            self.restarts,
            tuned.steps,
            &tuned.warnings,
        ));
        let GpFit { theta, steps, evaluations, warnings, .. } = tuned;
        Ok(GpFit { theta, steps, evaluations, warnings, ..fit })
    }

    /// Returns `log p(y)` and its gradient in `theta`, which has the order and scale of
    /// [`parameters`](Self::parameters). K (n × n) is the gram matrix and N (n × n, diagonal) holds the noise
    /// variances:
    ///
    /// ```text
    /// log p(y) = -½ yᵀα - ½ log det(K + N) - n/2 log 2π,   α = (K + N)⁻¹ y
    /// ∂ log p(y)/∂θ = ½ Σ_ii' (αα' - (K + N)⁻¹)_ii' ∂(K + N)_ii'/∂θ
    /// ```
    ///
    /// (Rasmussen and Williams 2006, equations 2.30 and 5.9), summed over targets. With an operator A, `AᵀKA`
    /// replaces K. Cost n³ and O(rows² parameters).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood(&self, x: &Table, y: &Matrix, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        let targets = self.check(x, y)?;
        search::check("theta", "numbers", theta.len(), &self.parameters())?;
        let (kernel, noise) = self.hyperparameters(theta);
        self.state(x, &targets, kernel, noise).map(|state| (state.evidence.value, self.gradient(x, &state)))
    }

    /// Returns the posterior averaged over `draws` draws of the tuned parameters, by importance sampling from
    /// their [posterior](crate::gp::average) under the default priors around the start. Cost: that of
    /// [`fit`](Self::fit) with tuning, and one fit without tuning for each draw.
    ///
    /// ```
    /// use riesz::fit::GaussianProcess;
    /// use riesz::{Kernel, Matrix, Table};
    ///
    /// let x = Table::from_rows(&[[0.0], [0.4], [1.1], [1.9], [2.2]])?;
    /// let y = Matrix::column_vector(vec![0.1, 0.5, 0.8, 0.9, 0.7]);
    /// let process = GaussianProcess::new(Kernel::gaussian(&[1.0]), 0.1);
    /// let new = Table::from_rows(&[[3.0]])?;
    /// let tuned = process.fit(&x, &y)?;
    /// let (_, averaged_sd) = process.average(&tuned, &x, &y, 200)?.predict(&new)?;
    /// assert!(averaged_sd[(0, 0)] > tuned.posterior().sd(&new)?[(0, 0)]);
    /// # Ok::<(), riesz::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::Parameter`] for fewer than 2 draws, and if nothing is tuned.
    pub fn average(
        &self,
        tuned: &GpFit,
        x: &Table,
        y: &Matrix,
        draws: usize,
    ) -> Result<PosteriorMixture<GpFit>> {
        self.average_until(tuned, x, y, draws, RunControl::none())
    }

    /// Averages as [`average`](Self::average) does; each evaluation of the marginal likelihood counts as one
    /// step of progress.
    pub(super) fn average_until(
        &self,
        tuned: &GpFit,
        x: &Table,
        y: &Matrix,
        draws: usize,
        control: RunControl<'_>,
    ) -> Result<PosteriorMixture<GpFit>> {
        let parameters = self.parameters();
        let free = self.tune.free(parameters.len() - 1, parameters.len());
        let fit = |theta: &[f64]| {
            let (kernel, noise) = self.hyperparameters(theta);
            let process = Self { kernel, noise, tune: TunedParameters::Nothing, ..self.clone() };
            let fit = process.fit(x, y)?;
            Ok((fit.log_marginal_likelihood, fit))
        };
        let coordinates = with_default_priors(parameters, &free);
        HyperPosterior { coordinates: &coordinates, from: &tuned.theta, control }.average(
            |theta| self.log_marginal_likelihood(x, y, theta),
            fit,
            draws,
            self.seed,
        )
    }

    /// Checks that the matrices fit into memory: the covariance of the observations, with an operator also
    /// the covariance of rows with observations, and for tuning the matrix of the gradient.
    fn check_memory(&self, rows: usize, observations: usize) -> Result<()> {
        let covariance_size = observations.saturating_mul(observations);
        let sums = self.operator.as_ref().map_or(0, |_| rows.saturating_mul(observations));
        let slopes = match (self.tune, &self.operator) {
            (TunedParameters::Nothing, _) => 0,
            (_, None) => covariance_size,
            (_, Some(_)) => rows.saturating_mul(rows),
        };
        let needed = covariance_size.saturating_add(sums).saturating_add(slopes);
        ensure_free(needed).map_err(|free_memory| {
            let remedy = if self.operator.is_some() {
                "fit through inducing points"
            } else {
                "set landmarks, say 500"
            };
            let allowed = format!(
                "a Gaussian process of all of them takes {:.0} GB of memory, of which {:.0} are free: \
                 {remedy}, or fit to fewer rows",
                8e-9 * needed as f64,
                8e-9 * free_memory as f64
            );
            Error::parameter("rows", rows, allowed)
        })
    }

    fn hyperparameters(&self, theta: &[f64]) -> (Kernel, f64) {
        let mut reader = ThetaReader::new(theta);
        (reader.kernel(&self.kernel), reader.exp())
    }

    fn check(&self, x: &Table, y: &Matrix) -> Result<ScaledTargets> {
        match &self.operator {
            None => crate::checks::check_rows(x, y.rows(), 2)?,
            Some(a) => {
                crate::checks::check_rows(x, x.rows(), 1)?;
                sized("a column of the operator", "numbers", x.rows(), a.rows(), "one per row of the table")?;
                sized("the target", "numbers", a.cols(), y.rows(), "one per column of the operator")?;
                if let Some(j) = (0..a.cols()).find(|&j| a.column(j).all(|(_, weight)| weight == 0.0)) {
                    let allowed = "an observation is the sum of one row or more";
                    return Err(Error::parameter(format!("column {} of the operator", j + 1), 0, allowed));
                }
            }
        }
        self.kernel.validate(x.width())?;
        check_noise(self.noise)?;
        let operator = self.operator.as_ref();
        if let Some(row_noise) = &self.row_noise {
            let why = if operator.is_some() { "one per observation" } else { "one per row of the table" };
            check_row_noise(row_noise, y, self.normalize_y, why)?;
        }
        ScaledTargets::new(y, operator, self.normalize_y)
    }

    /// Computes the factorisation, the coefficients and the log marginal likelihood at given hyper-parameters
    /// (Rasmussen and Williams 2006, algorithm 2.1).
    fn state(&self, x: &Table, targets: &ScaledTargets, kernel: Kernel, noise: f64) -> Result<GpState> {
        let kernel = if targets.unit_variance == 1.0 { kernel } else { targets.unit_variance * kernel };
        let noise = targets.unit_variance * noise;
        crate::checks::check_range(&kernel, x)?;
        let mut covariance = match &self.operator {
            None => kernel.gram(x),
            Some(a) => prior_covariance_of_sums(&kernel, x, a),
        };
        covariance.add_diagonal(|i| noise + self.row_noise.as_ref().map_or(0.0, |r| r[i]));
        let mut evidence = NormalEvidence::new(covariance, "gram matrix plus noise", &targets.values)?;
        evidence.value -= targets.log_density_shift();
        check_evidence(evidence.value, "the log marginal likelihood")?;
        Ok(GpState { kernel, noise, evidence })
    }

    /// Returns the gradient of the log marginal likelihood in the kernel's parameters and the logarithm of
    /// the noise.
    fn gradient(&self, x: &Table, state: &GpState) -> Vec<f64> {
        let mut weights = state.evidence.covariance_gradient();
        let noise_derivative = state.noise * weights.trace();
        if let Some(a) = &self.operator {
            weights = a.matmul(&a.matmul(&weights).transpose());
        }
        let mut gradient = state.kernel.gradient(x, &weights);
        gradient.push(noise_derivative);
        gradient
    }
}

impl GpFit {
    /// Adds a penalty on functionals of the model, for example on Shapley values for its tuned kernel. In
    /// Bayesian terms the functionals of the interpolant of f at the rows, `k(x, X) K⁻¹ f(X)`, are further
    /// observations: equal to 0, or to their targets, up to normal errors of variance `n noise / strength`.
    /// The mean is that of penalised [ridge regression](super::KernelRidge) with the ridge `noise`, and the
    /// posterior covariance accounts for the additional observations. Hyper-parameters and marginal
    /// likelihood stay those without the penalty. Cost O(n² functionals + functionals³).
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Parameter`] for a penalty that does not fit the model, or with ranges
    /// that are not targets; [`Error::NotPositiveDefinite`] for the gram matrix.
    pub fn with_penalty(mut self, penalty: &Penalty) -> Result<Self> {
        penalty.condition(&mut self.model, &mut self.covariance, self.noise)?;
        Ok(self)
    }

    /// Returns the posterior of f.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }

    /// Returns the predictions of each observation from all others, for each target, with the same kernel,
    /// noise and scaling of the targets. `y` (observations × targets) are the targets of the fit. Cost n³.
    ///
    /// # Errors
    /// [`Error::Shape`] unless `y` has the shape of the fit's targets.
    pub fn leave_one_out(&self, y: &Matrix) -> Result<Vec<LeaveOneOut>> {
        let [VarianceReduction::CholeskyInverse { operator, factor }] = &self.covariance.reduction[..] else {
            return Err(Error::format("the posterior is not that of a fit to observations"));
        };
        sized("the target", "numbers", factor.size(), y.rows(), "one per observation of the fit")?;
        let outputs = self.model.intercept.len();
        sized("a row of the target", "numbers", outputs, y.cols(), "one per target of the fit")?;
        let inverse = factor.inverse();
        let constants = operator.as_ref().map_or_else(|| vec![1.0; y.rows()], Sparse::column_sums);
        let predictions = self.model.intercept.iter().zip(&self.covariance.scale).enumerate();
        let predict = |(o, (center, scale)): (usize, (&f64, &f64))| {
            let targets = y.column(o);
            let residuals: Vec<f64> = targets.iter().zip(&constants).map(|(y, c)| y - center * c).collect();
            let precision: Vec<f64> = (0..y.rows()).map(|i| inverse[(i, i)] / (scale * scale)).collect();
            let weights: Vec<f64> =
                factor.solve_vector(&residuals).iter().map(|a| a / (scale * scale)).collect();
            LeaveOneOut::from_precision(targets, &weights, &precision)
        };
        Ok(predictions.map(predict).collect())
    }
}

impl WithPosterior for GpFit {
    fn posterior(&self) -> Posterior<'_> {
        Self::posterior(self)
    }

    fn into_parts(self) -> (KernelExpansion, PosteriorCovariance) {
        (self.model, self.covariance)
    }
}

//! Common parts of all kinds of model: their declaration, the task with the inputs of a fit, and the result
//! of a fit.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::bootstrap::{BOOTSTRAP, PENALTY_CONFLICT};
use super::nystrom::Job;
use super::{ClassWeight, Penalty, WarmStart};
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result, listed};
use crate::gp::average::{PosteriorMixture, WithPosterior, draws_per_profile};
use crate::gp::search::plausible_profiles;
use crate::kernel::{ColumnScaling, Kernel, Profile};
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::model_average::{ModelAverage, few_samples_warning};
use crate::model_card::CardEntry;
use crate::posterior::PosteriorCovariance;
use crate::setting_schema::{Range, Setting, SettingValues};
use crate::table::{Column, Table};

/// A kind of model, with its name, settings and fit function.
#[derive(Debug)]
pub struct ModelKind {
    /// Its name on the command line.
    pub name: &'static str,
    /// A one-line description for help.
    pub help: &'static str,
    /// The kind of output that the model predicts.
    pub predicts: OutputType,
    /// The settings that the kind of model uses.
    pub settings: &'static [&'static Setting],
    /// Optional inputs that the kind of model uses.
    pub takes: &'static [OptionalInput],
    /// Whether the fit includes a posterior covariance, in [`FittedModel::covariance`].
    pub posterior: bool,
    pub(super) fit: fn(&FitTask<'_>) -> Result<FittedModel>,
    /// The job of a fit through landmarks for these settings and this seed; `None` if the settings don't
    /// request one.
    pub(super) job: fn(&SettingValues, u64) -> Result<Option<Job>>,
}

/// Landmark job of the kinds of model that need all rows at once: always `None`.
pub(super) fn no_job(_: &SettingValues, _: u64) -> Result<Option<Job>> {
    Ok(None)
}

/// Output of a kind of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputType {
    /// One number.
    Number,
    /// One or several numbers.
    Numbers,
    /// One of two or more classes.
    Class,
}

/// Inputs besides the settings that only some kinds of model accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionalInput {
    /// [`FitTask::sample_weight`].
    SampleWeight,
    /// [`FitTask::row_noise`].
    RowNoise,
    /// [`FitTask::penalty`].
    Penalty,
}

impl OptionalInput {
    /// The name of the input in front ends.
    pub fn name(self) -> &'static str {
        match self {
            Self::SampleWeight => "sample_weight",
            Self::RowNoise => "row_noise",
            Self::Penalty => "protect",
        }
    }
}

/// The target of a fit.
#[derive(Debug, Clone)]
pub enum Target {
    /// Numbers, rows × targets.
    Numbers(Matrix),
    /// Indices into `classes`, one per row.
    Classes {
        /// The indices.
        labels: Vec<usize>,
        /// Names of the classes.
        classes: Vec<String>,
    },
}

/// A function that returns the penalty on a model with the given kernel.
pub type PenaltyOf<'a> = dyn Fn(&Kernel) -> Result<Penalty> + Sync + 'a;

/// All inputs of a fit.
#[derive(Clone)]
pub struct FitTask<'a> {
    /// The rows.
    pub x: &'a Table,
    /// The target, one value or class per row.
    pub target: Target,
    /// Names of numeric targets, which become the names of the outputs; may be empty.
    pub target_names: Vec<String>,
    /// The kernel, or the starting point of its tuning.
    pub kernel: Kernel,
    /// The settings; see [`ModelKind::values`].
    pub settings: SettingValues,
    /// One weight per row.
    pub sample_weight: Option<Vec<f64>>,
    /// Known variances of the errors of single rows.
    pub row_noise: Option<Vec<f64>>,
    /// A further penalty, which depends on the model's kernel.
    pub penalty: Option<&'a PenaltyOf<'a>>,
    /// Starting values of Newton's method.
    pub start: Option<WarmStart>,
    /// Seed of folds, restarts and the sample of rows that a search uses.
    pub seed: u64,
    /// Another thread sets this flag to make the fit return [`Error::Interrupted`] soon.
    pub stop: Arc<AtomicBool>,
    /// Progress of the fit: the share of a search, or the number of steps taken where their total is unknown.
    pub progress: Arc<Progress>,
}

/// A fitted model with further results of the fit.
#[derive(Debug, Clone)]
pub struct FittedModel {
    /// The model.
    pub model: KernelExpansion,
    /// Posterior covariance, if the model has one.
    pub covariance: Option<PosteriorCovariance>,
    /// Warnings, one sentence each.
    pub warnings: Vec<String>,
    /// Whether the optimiser reached its tolerance. If not, there is a warning.
    pub converged: bool,
    /// Iterations of the optimiser, one number per problem.
    pub iterations: Vec<usize>,
    /// The ridge or the penalty parameter C, given or chosen.
    pub chosen: Option<f64>,
    /// Indices of the rows that are support vectors.
    pub support: Option<Vec<usize>>,
    /// Variance of the noise, in the kernel's units.
    pub noise: Option<f64>,
    /// The logarithm of the marginal likelihood.
    pub log_marginal_likelihood: Option<f64>,
    /// The average over hyper-parameters, if the settings request one.
    pub average: Option<ModelAverage>,
    /// Result for [`FitTask::start`] of a fit with other settings.
    pub end: Option<WarmStart>,
}

impl From<KernelExpansion> for FittedModel {
    /// A fitted model without further results.
    fn from(model: KernelExpansion) -> Self {
        Self {
            model,
            covariance: None,
            warnings: Vec::new(),
            converged: true,
            iterations: Vec::new(),
            chosen: None,
            support: None,
            noise: None,
            log_marginal_likelihood: None,
            average: None,
            end: None,
        }
    }
}

impl FittedModel {
    /// Adds an average over hyper-parameters, with a warning if it is rough.
    pub(super) fn averaged<F: WithPosterior>(mut self, average: Option<PosteriorMixture<F>>) -> Self {
        self.average = average.map(PosteriorMixture::into_models);
        let size = self.average.as_ref().map(|average| average.effective_sample_size);
        self.warnings.extend(size.and_then(few_samples_warning));
        self
    }

    /// Records the convergence of the optimiser, with a warning if it stopped early.
    pub(super) fn stopped(mut self, converged: bool, iterations: Vec<usize>, remedy: &str) -> Self {
        if !converged {
            let steps = iterations.iter().max().copied().unwrap_or(0);
            self.warnings.push(format!("stopped at max_iter = {steps}, before it converged: {remedy}"));
        }
        Self { converged, iterations, ..self }
    }
}

/// The value `auto` of [`RIDGE`] and [`C`], which requests a search.
pub(super) const AUTO: &str = "auto";

pub(super) const RIDGE: Setting = Setting::new(
    "ridge",
    "X",
    Range::Tuned,
    "Penalty: a positive number, or 'auto' for the smallest leave-one-out error (krr), or the smallest \
     squared error (krr with folds) or log loss (klr) on held-out folds [default: auto]",
);
pub(super) const C: Setting = Setting::new(
    "c",
    "X",
    Range::Tuned,
    "Cost of an error: a positive number, or 'auto' for the best accuracy or squared error on \
     held-out folds [default: 1]",
);
pub(super) const CLASS_WEIGHT: Setting = Setting::new(
    "class_weight",
    "WEIGHTS",
    Range::ClassWeight,
    "Relative cost of errors in each class: 'balanced', or 'class=2,other=0.5' [default: the same]",
);
pub(super) const FIT_INTERCEPT: Setting = Setting::new(
    "fit_intercept",
    "BOOL",
    Range::Switch,
    "Whether outputs have an intercept, which is not penalised [default: true]",
);
pub(super) const NORMALIZE_Y: Setting = Setting::new(
    "normalize_y",
    "BOOL",
    Range::Switch,
    "Whether the target is standardised for the fit; settings are then in units of the standardised \
     target [default: true]",
);
pub(super) const TOL: Setting = Setting::new(
    "tol",
    "X",
    Range::Positive { share: false },
    "The largest accepted violation of the optimality conditions [default: 0.001]",
);
pub(super) const MAX_ITER: Setting = Setting::new(
    "max_iter",
    "N",
    Range::Count(1),
    "Stop after this number of steps, with a warning [default: an error without convergence]",
);
pub(super) const RESTARTS: Setting = Setting::new(
    "restarts",
    "N",
    Range::Count(0),
    "Number of further starting points of the tuning, drawn with the seed [default: 0]",
);
pub(super) const FIXED_KERNEL: Setting = Setting::new(
    "fixed_kernel",
    "BOOL",
    Range::Switch,
    "Keep the kernel's parameters. By default Gaussian processes tune them, and 'auto' also tries \
     multiples of the length scales",
)
.with_bare("true");
/// Default number of draws of hyper-parameters, and the numbers of rows with draws by default.
const DEFAULT_DRAWS: usize = 64;
const AVERAGED_ROWS: RangeInclusive<usize> = 5..=300;
pub(super) const HYPERPARAMETER_SAMPLES: Setting = Setting::new(
    "n_hyperparameter_samples",
    "N",
    Range::Count(0),
    "Average over N samples of the hyper-parameters from their posterior, under weakly informative priors \
     around the values at the start, instead of the best ones alone; 0 for none [default: 64 for 5 to 300 \
     rows with --rougher-profiles, otherwise 0]",
);
pub(super) const ROUGHER_PROFILES: Setting = Setting::new(
    "rougher_profiles",
    "BOOL",
    Range::Switch,
    "Also fit with rougher profiles in place of the kernel's own (Matérn of order 5/2 and 3/2, and \
     Laplacian), for functions that are not smooth: the most likely one is used, and averages include those \
     that are nearly as likely [default: for the default kernel, if predictions are averaged, or with \
     --posterior and at most 300 rows]",
)
.with_bare("true");
pub(super) const FOLDS: Setting = Setting::new(
    "folds",
    "K",
    Range::Count(2),
    "Number of folds of 'auto', drawn with the seed [default: 5]",
);
pub(super) const LANDMARKS: Setting = Setting::new(
    "n_landmarks",
    "M",
    Range::Count(1),
    "Fit through at most this number of landmarks, which represent all rows: memory doesn't grow with \
     the number of rows, and the cost is proportional to it",
);
pub(super) const CORRECTIONS: Setting = Setting::new(
    "corrections",
    "N",
    Range::Count(0),
    "With landmarks, number of passes over all rows that correct the solution and bound its error; \
     there is one more if the bound is wide and can be narrowed [default: 1]",
);
pub(super) const SOLVER: Setting = Setting::new(
    "solver",
    "NAME",
    Range::Choice(&["auto", "direct", "cg"]),
    "With landmarks: 'direct' reads all rows once for a square matrix of landmarks, and solves; 'cg' \
     takes about twenty passes of conjugate gradients, which are much cheaper with thousands of \
     landmarks; 'auto' takes the faster one [default: auto]",
);
pub(super) const TOLERANCE: Setting = Setting::new(
    "tolerance",
    "T",
    Range::Positive { share: true },
    "Conjugate gradients end when the error of every prediction at a landmark is proved to be at most \
     this multiple of the root mean squared error [default: 1e-3]",
);
pub(super) const SEARCH_ROWS: Setting = Setting::new(
    "search_rows",
    "N",
    Range::Count(10),
    "Maximum number of rows for 'auto' and for tuning; if there are more, this number is drawn with the seed \
     [default: 2000 for leave-one-out and gp, 1500 for gpc, 1000 for folds]",
);

impl<'a> FitTask<'a> {
    /// A task without settings.
    pub fn new(x: &'a Table, target: Target, kernel: Kernel) -> Self {
        Self {
            x,
            target,
            target_names: Vec::new(),
            kernel,
            settings: SettingValues::default(),
            sample_weight: None,
            row_noise: None,
            penalty: None,
            start: None,
            seed: 0,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Cancellation and progress of the fit.
    pub(super) fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// Whether the kernel's parameters stay as given.
    pub(super) fn fixed_kernel(&self) -> bool {
        self.settings.switch(FIXED_KERNEL.name).unwrap_or(false)
    }

    pub(super) fn normalize_y(&self) -> bool {
        self.settings.switch(NORMALIZE_Y.name).unwrap_or(true)
    }

    pub(super) fn restarts(&self) -> usize {
        self.settings.count(RESTARTS.name).unwrap_or(0)
    }

    /// The default number of draws of hyper-parameters for an average over profiles: few rows contain little
    /// information about hyper-parameters.
    pub fn default_draws(&self) -> usize {
        let is_dense = self.settings.count(LANDMARKS.name).is_none();
        let is_averaged = is_dense && !self.fixed_kernel() && AVERAGED_ROWS.contains(&self.x.rows());
        if is_averaged { DEFAULT_DRAWS } else { 0 }
    }

    /// Fits the model with the task's kernel, and with [`ROUGHER_PROFILES`] also with other profiles of this
    /// kernel. Returns the most likely fit, and the average over hyper-parameters and plausible profiles if
    /// the settings request one.
    pub(super) fn fit_profiles<E, F: WithPosterior>(
        &self,
        estimator: impl Fn(Kernel) -> E,
        fit: impl Fn(&E) -> Result<F>,
        log_likelihood: impl Fn(&F) -> f64,
        average: impl Fn(&E, &F, usize) -> Result<PosteriorMixture<F>>,
    ) -> Result<(F, Option<PosteriorMixture<F>>)> {
        let fitted = |kernel: Kernel| {
            let estimator = estimator(kernel);
            let fit = fit(&estimator)?;
            Ok((estimator, fit))
        };
        let has_profiles = self.settings.switch(ROUGHER_PROFILES.name).unwrap_or(false);
        let profiles = if has_profiles { &Profile::ROUGHER[..] } else { &[] };
        let (first, likelihood) = (fitted(self.kernel.clone())?, |(_, fit): &(E, F)| log_likelihood(fit));
        let mut fits = plausible_profiles(first, &self.kernel, profiles, likelihood, fitted)?;
        let draws = self.settings.count(HYPERPARAMETER_SAMPLES.name);
        let draws = draws.unwrap_or(if has_profiles { self.default_draws() } else { 0 });
        let mixture = (draws > 0).then(|| {
            let share = draws_per_profile(draws, fits.len());
            let mixtures = fits.iter().map(|(estimator, fit)| average(estimator, fit, share));
            Ok(PosteriorMixture::combined(mixtures.collect::<Result<_>>()?))
        });
        let mixture = mixture.transpose()?;
        Ok((fits.swap_remove(0).1, mixture))
    }

    /// The maximum number of iterations, if it is given.
    pub(super) fn max_iter(&self) -> Option<usize> {
        self.settings.count(MAX_ITER.name)
    }

    /// The targets as numbers, rows × targets.
    pub(super) fn numbers(&self) -> Result<&Matrix> {
        match &self.target {
            Target::Numbers(values) => Ok(values),
            Target::Classes { .. } => {
                Err(wrong_target_error("holds classes, but this model predicts numbers"))
            }
        }
    }

    /// The targets as indices of classes.
    pub(super) fn labels(&self) -> Result<(&[usize], &[String])> {
        match &self.target {
            Target::Classes { labels, classes } => Ok((labels, classes)),
            Target::Numbers(_) => Err(wrong_target_error("holds numbers, but this model predicts classes")),
        }
    }

    /// The target in the fit's units, with `center` and `scale`: the target is `values · scale + center`.
    pub(super) fn standardised(&self) -> Result<(Vec<f64>, f64, f64)> {
        let y = self.numbers()?;
        if y.cols() != 1 {
            return Err(wrong_target_error("has several columns, but this model predicts a single one"));
        }
        let values = y.data().to_vec();
        if !self.normalize_y() {
            return Ok((values, 0.0, 1.0));
        }
        let column = Table::from_column_major(vec![Column::numeric("target")], values.len(), values)?;
        let units = ColumnScaling::standardised(&column);
        let (center, scale) = (units.center[0], units.scale[0]);
        Ok((y.data().iter().map(|v| (v - center) / scale).collect(), center, scale))
    }

    /// The class weights from the settings.
    pub(super) fn class_weight(&self, classes: &[String]) -> Result<ClassWeight> {
        let Some(class_weights) = self.settings.get(CLASS_WEIGHT.name) else { return Ok(ClassWeight::None) };
        let Some(weights) = class_weights.as_object() else { return Ok(ClassWeight::Balanced) };
        if let Some(unknown) = weights.keys().find(|class| !classes.contains(class)) {
            let allowed = format!("it is not a class of the target; classes: {}", listed(classes));
            return Err(Error::parameter(CLASS_WEIGHT.name, format!("'{unknown}'"), allowed));
        }
        let weight = |class: &String| weights.get(class).and_then(Value::as_f64).unwrap_or(1.0);
        Ok(ClassWeight::PerClass(classes.iter().map(weight).collect()))
    }

    /// Checks that no refits to drawn rows are requested together with a penalty.
    pub(super) fn refuse_refits_with_penalty(&self) -> Result<()> {
        match (self.settings.count(BOOTSTRAP.name), self.penalty.is_some()) {
            (Some(draws), true) => Err(Error::parameter(BOOTSTRAP.name, draws, PENALTY_CONFLICT)),
            _ => Ok(()),
        }
    }

    /// The penalty on a model with this kernel.
    pub(super) fn penalty_for(&self, kernel: &Kernel) -> Result<Option<Penalty>> {
        self.penalty.map(|penalty| penalty(kernel)).transpose()
    }
}

fn wrong_target_error(problem: &str) -> Error {
    Error::target("target", problem)
}

/// Adds entries to a model's card.
pub(super) fn with_card_entries(
    mut model: KernelExpansion,
    facts: impl IntoIterator<Item = CardEntry>,
) -> KernelExpansion {
    model.model_card.extend(facts);
    model
}

//! Common parts of all kinds of model: their declaration, the task that they are fitted from, and the result
//! of a fit.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::nystrom::Job;
use super::{ClassWeight, Penalty, WarmStart};
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result, listed};
use crate::kernel::{ColumnScaling, Kernel};
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::posterior::PosteriorCovariance;
use crate::setting_schema::{Range, Setting, SettingValues};
use crate::table::{Column, Table};

/// A kind of model.
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
    /// The fit by units of rows that settings ask for, with a seed, if they do.
    pub(super) job: fn(&SettingValues, u64) -> Result<Option<Job>>,
}

/// The landmark job of kinds of model that need all rows at once: none.
pub(super) fn no_job(_: &SettingValues, _: u64) -> Result<Option<Job>> {
    Ok(None)
}

/// Outputs of a kind of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputType {
    /// One number.
    Number,
    /// One or several numbers.
    Numbers,
    /// One of two or more classes.
    Class,
}

/// Inputs besides settings that some kinds of model take and the others refuse.
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
    /// One index into `classes` a row.
    Classes {
        /// The indices.
        labels: Vec<usize>,
        /// Names of the classes.
        classes: Vec<String>,
    },
}

/// The penalty on a model with the kernel that it is given.
pub type PenaltyOf<'a> = dyn Fn(&Kernel) -> Result<Penalty> + Sync + 'a;

/// Everything that a model is fitted from.
#[derive(Clone)]
pub struct FitTask<'a> {
    /// The rows.
    pub x: &'a Table,
    /// One a row.
    pub target: Target,
    /// Names of targets that are numbers, which become those of the outputs; empty for none.
    pub target_names: Vec<String>,
    /// The kernel, or where its tuning starts.
    pub kernel: Kernel,
    /// The settings; see [`ModelKind::values`].
    pub settings: SettingValues,
    /// One weight per row.
    pub sample_weight: Option<Vec<f64>>,
    /// Known variances of the errors of single rows.
    pub row_noise: Option<Vec<f64>>,
    /// A further penalty, on a model with the kernel that is given to it.
    pub penalty: Option<&'a PenaltyOf<'a>>,
    /// Where Newton's method starts.
    pub start: Option<WarmStart>,
    /// Seed of folds, restarts and the sample of rows that a search uses.
    pub seed: u64,
    /// Another thread sets this flag to make the fit return [`Error::Interrupted`] soon.
    pub stop: Arc<AtomicBool>,
    /// Progress of the fit: the share of a search, or the number of steps taken where their total is unknown.
    pub progress: Arc<Progress>,
}

/// A fitted model, and what is known of the fit.
#[derive(Debug, Clone)]
pub struct FittedModel {
    /// The model.
    pub model: KernelExpansion,
    /// Posterior covariance, if the model has one.
    pub covariance: Option<PosteriorCovariance>,
    /// Warnings, one sentence each.
    pub warnings: Vec<String>,
    /// Whether the optimiser reached its tolerance. If not, a warning says so.
    pub converged: bool,
    /// Steps of the optimiser, one number a problem that was solved.
    pub iterations: Vec<usize>,
    /// The ridge or the price of errors, given or chosen.
    pub chosen: Option<f64>,
    /// Rows that are support vectors.
    pub support: Option<Vec<usize>>,
    /// Variance of the noise, in the kernel's units.
    pub noise: Option<f64>,
    /// The logarithm of the marginal likelihood.
    pub log_marginal_likelihood: Option<f64>,
    /// Where [`FitTask::start`] may start a fit with other settings.
    pub end: Option<WarmStart>,
}

impl From<KernelExpansion> for FittedModel {
    /// A model of which nothing else is known.
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
            end: None,
        }
    }
}

impl FittedModel {
    /// The model of an optimiser, which may have stopped early.
    pub(super) fn stopped(mut self, converged: bool, iterations: Vec<usize>, remedy: &str) -> Self {
        if !converged {
            let steps = iterations.iter().max().copied().unwrap_or(0);
            self.warnings.push(format!("stopped at max_iter = {steps}, before it converged: {remedy}"));
        }
        Self { converged, iterations, ..self }
    }
}

/// `auto` of [`RIDGE`] and [`C`].
pub(super) const AUTO: &str = "auto";

pub(super) const RIDGE: Setting = Setting {
    name: "ridge",
    placeholder: "X",
    range: Range::Tuned,
    bare: None,
    help: "Penalty: a positive number, or 'auto' for the best leave-one-out error (krr), or squared error \
           (krr with folds) or log loss (klr) on held-out folds [default: auto]",
};
pub(super) const C: Setting = Setting {
    name: "c",
    placeholder: "X",
    range: Range::Tuned,
    bare: None,
    help: "Price of an error: a positive number, or 'auto' for the best accuracy or squared error on \
           held-out folds [default: 1]",
};
pub(super) const CLASS_WEIGHT: Setting = Setting {
    name: "class_weight",
    placeholder: "WEIGHTS",
    range: Range::ClassWeight,
    bare: None,
    help: "Relative price of each class's errors: 'balanced', or 'class=2,other=0.5' [default: the same]",
};
pub(super) const FIT_INTERCEPT: Setting = Setting {
    name: "fit_intercept",
    placeholder: "BOOL",
    range: Range::Switch,
    bare: None,
    help: "Whether outputs have an intercept, which is not penalised [default: true]",
};
pub(super) const NORMALIZE_Y: Setting = Setting {
    name: "normalize_y",
    placeholder: "BOOL",
    range: Range::Switch,
    bare: None,
    help: "Whether the target is standardised for the fit, in whose units settings then are [default: true]",
};
pub(super) const TOL: Setting = Setting {
    name: "tol",
    placeholder: "X",
    range: Range::Positive { share: false },
    bare: None,
    help: "The largest violation of the optimality conditions that is accepted [default: 0.001]",
};
pub(super) const MAX_ITER: Setting = Setting {
    name: "max_iter",
    placeholder: "N",
    range: Range::Count(1),
    bare: None,
    help: "Stop after so many steps, with a warning [default: not to converge is an error]",
};
pub(super) const RESTARTS: Setting = Setting {
    name: "restarts",
    placeholder: "N",
    range: Range::Count(0),
    bare: None,
    help: "Further starts of the tuning, drawn with the seed [default: 0]",
};
pub(super) const FIXED_KERNEL: Setting = Setting {
    name: "fixed_kernel",
    placeholder: "BOOL",
    range: Range::Switch,
    bare: Some("true"),
    help: "Keep the kernel's parameters. By default Gaussian processes tune them, and 'auto' tries \
           multiples of the length scales",
};
pub(super) const FOLDS: Setting = Setting {
    name: "folds",
    placeholder: "K",
    range: Range::Count(2),
    bare: None,
    help: "Folds of 'auto', drawn with the seed [default: 5]",
};
pub(super) const LANDMARKS: Setting = Setting {
    name: "landmarks",
    placeholder: "M",
    range: Range::Count(1),
    bare: None,
    help: "Learn through at most so many rows that stand for all: memory no longer grows with the number of \
           rows, and cost only in proportion to it",
};
pub(super) const CORRECTIONS: Setting = Setting {
    name: "corrections",
    placeholder: "N",
    range: Range::Count(0),
    bare: None,
    help: "With landmarks, passes over all rows that correct the solution and prove how near it is; one \
           more where that is little and can be mended [default: 1]",
};
pub(super) const SOLVER: Setting = Setting {
    name: "solver",
    placeholder: "NAME",
    range: Range::Choice(&["auto", "direct", "cg"]),
    bare: None,
    help: "With landmarks: 'direct' reads all rows once for a square matrix of landmarks, and solves; 'cg' \
           takes a score of passes by conjugate gradients, each far cheaper where landmarks are many \
           thousands; 'auto' takes what needs less time [default: auto]",
};
pub(super) const TOLERANCE: Setting = Setting {
    name: "tolerance",
    placeholder: "T",
    range: Range::Positive { share: true },
    bare: None,
    help: "Conjugate gradients end where no prediction at a landmark is farther from the exact one than so \
           much of the root mean squared error, which is proved [default: 1e-3]",
};
pub(super) const SEARCH_ROWS: Setting = Setting {
    name: "search_rows",
    placeholder: "N",
    range: Range::Count(10),
    bare: None,
    help: "Of more rows than these, 'auto' looks at so many, drawn with the seed [default: 2000 for \
           leave-one-out, 1000 for folds]",
};

impl<'a> FitTask<'a> {
    /// A task without settings.
    pub fn new(x: &'a Table, target: Target, kernel: Kernel) -> Self {
        let settings = SettingValues::default();
        let (sample_weight, row_noise, penalty, start) = (None, None, None, None);
        let target_names = Vec::new();
        let (seed, stop, progress) = (0, Arc::default(), Arc::default());
        Self {
            x,
            target,
            target_names,
            kernel,
            settings,
            sample_weight,
            row_noise,
            penalty,
            start,
            seed,
            stop,
            progress,
        }
    }

    /// Where the fit looks whether it is to go on.
    pub(super) fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// Whether the kernel's parameters are to be kept.
    pub(super) fn fixed_kernel(&self) -> bool {
        self.settings.switch(FIXED_KERNEL.name).unwrap_or(false)
    }

    pub(super) fn normalize_y(&self) -> bool {
        self.settings.switch(NORMALIZE_Y.name).unwrap_or(true)
    }

    pub(super) fn restarts(&self) -> usize {
        self.settings.count(RESTARTS.name).unwrap_or(0)
    }

    /// The number of landmarks through which the model is learnt, if it does not use all rows.
    pub(super) fn landmarks(&self) -> Option<usize> {
        self.settings.count(LANDMARKS.name)
    }

    /// Steps allowed, if a limit is given.
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

    /// The one target as the fit takes it, and how to come back: `values · scale + center`.
    pub(super) fn standardised(&self) -> Result<(Vec<f64>, f64, f64)> {
        let y = self.numbers()?;
        if y.cols() != 1 {
            return Err(wrong_target_error("has several columns, but this model predicts one"));
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
            let allowed = format!("it is no class of the target; classes: {}", listed(classes));
            return Err(Error::parameter(CLASS_WEIGHT.name, format!("'{unknown}'"), allowed));
        }
        let weight = |class: &String| weights.get(class).and_then(Value::as_f64).unwrap_or(1.0);
        Ok(ClassWeight::PerClass(classes.iter().map(weight).collect()))
    }

    /// The weights of the given rows.
    pub(super) fn weights_of(&self, rows: &[usize]) -> Option<Vec<f64>> {
        self.sample_weight.as_ref().map(|weights| rows.iter().map(|&i| weights[i]).collect())
    }

    /// The penalty on a model with this kernel.
    pub(super) fn penalty_for(&self, kernel: &Kernel) -> Result<Option<Penalty>> {
        self.penalty.map(|penalty| penalty(kernel)).transpose()
    }
}

fn wrong_target_error(problem: &str) -> Error {
    Error::Target { name: "target".into(), problem: problem.into() }
}

/// Adds facts to a model's card.
pub(super) fn with_card_entries(
    mut model: KernelExpansion,
    facts: impl IntoIterator<Item = CardEntry>,
) -> KernelExpansion {
    model.model_card.extend(facts);
    model
}

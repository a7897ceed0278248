//! All kinds of model of the front ends, by name, with named settings and a rule for every setting that is
//! not given.
//!
//! A kind of model is declared in its own file as a [`ModelKind`], and listed in [`MODELS`]. The command
//! line's `--model`, its flags and its help, and the compiled part of the Python package are derived from
//! this list.
//!
//! ```
//! use riesz::fit::{ModelKind, Target, FitTask};
//! use riesz::{Kernel, Matrix, Table};
//!
//! let rows: Vec<[f64; 1]> = (0..30).map(|i| [f64::from(i) / 5.0]).collect();
//! let x = Table::from_rows(&rows)?;
//! let y = Matrix::column_vector(rows.iter().map(|r| r[0].sin()).collect());
//! let task = FitTask::new(&x, Target::Numbers(y), Kernel::gaussian(&[1.0]));
//! // The ridge has the smallest leave-one-out error.
//! let fitted = ModelKind::named("krr").unwrap().fit(&task)?;
//! assert!((fitted.model.predict(&Table::from_rows(&[[2.1]])?)?[(0, 0)] - 2.1_f64.sin()).abs() < 0.01);
//! # Ok::<(), riesz::Error>(())
//! ```

use serde_json::Value;

use super::nystrom::Job;
use super::task::{FitTask, FittedModel, ModelKind, OptionalInput};
use super::{gp, gpc, klr, ridge, svm};
use crate::error::{Error, Result, listed, unused};
use crate::setting_schema::{Setting, SettingValues};

/// All kinds of model. A new kind needs a file in `fit/` and an entry here.
pub static MODELS: [&ModelKind; 6] = [&ridge::KIND, &klr::KIND, &svm::SVC, &svm::SVR, &gp::KIND, &gpc::KIND];

impl ModelKind {
    /// The kind of model with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.into_iter().find(|kind| kind.name == name)
    }

    /// The settings of all kinds of model, without repetitions.
    pub fn all_settings() -> Vec<&'static Setting> {
        let mut settings: Vec<&Setting> = Vec::new();
        for setting in MODELS.iter().flat_map(|kind| kind.settings) {
            if !settings.contains(setting) {
                settings.push(setting);
            }
        }
        settings
    }

    /// Checks settings for this kind of model, given by names and values; null values are left out.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an unknown setting or a value outside its range; [`Error::Unused`] for a
    /// setting of other kinds of model.
    pub fn values(&self, named_values: impl IntoIterator<Item = (String, Value)>) -> Result<SettingValues> {
        let values = SettingValues::new(&Self::all_settings(), named_values)?;
        for name in values.names() {
            self.require(name, |kind| kind.settings.iter().any(|setting| setting.name == name))?;
        }
        Ok(values)
    }

    /// Fits a model of this kind. Cost and memory are those of its estimator, times the number of candidates
    /// if settings are chosen by a search.
    ///
    /// # Errors
    /// [`Error::Unused`] for an input of other kinds of model; [`Error::Target`] for a target of another
    /// type; those of the estimator.
    pub fn fit(&self, task: &FitTask<'_>) -> Result<FittedModel> {
        let inputs = [
            (OptionalInput::SampleWeight, task.sample_weight.is_some()),
            (OptionalInput::RowNoise, task.row_noise.is_some()),
            (OptionalInput::Penalty, task.penalty.is_some()),
        ];
        inputs
            .into_iter()
            .filter(|(_, is_given)| *is_given)
            .try_for_each(|(input, _)| self.check_input(input))?;
        let mut factors = task.kernel.terms.iter().flat_map(|term| &term.factors);
        if self.posterior
            && let Some(factor) = factors.find(|factor| !factor.positive_definite())
        {
            let allowed = "it is not positive definite, so it can't be the covariance of a Gaussian process: \
                           use it with a support vector machine (svr, svc)";
            return Err(Error::parameter("kernel", factor.formula(), allowed));
        }
        let mut fitted = (self.fit)(task)?;
        if task.target_names.len() == fitted.model.outputs() && fitted.model.classes.is_empty() {
            fitted.model.output_names.clone_from(&task.target_names);
        }
        Ok(fitted)
    }

    /// The job of a fit through landmarks, which reads rows by units of work that need not be in memory;
    /// `None` if the settings don't request one.
    ///
    /// # Errors
    /// [`Error::Unused`] for settings that exclude each other.
    pub fn job(&self, settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
        (self.job)(settings, seed)
    }

    /// Checks that this kind of model uses an input.
    ///
    /// # Errors
    /// [`Error::Unused`].
    pub fn check_input(&self, input: OptionalInput) -> Result<()> {
        self.require(input.name(), |kind| kind.takes.contains(&input))
    }

    /// Checks that this kind of model is one of those for which `used` is true; `name` is the name for the
    /// error.
    ///
    /// # Errors
    /// [`Error::Unused`].
    pub fn require(&self, name: &str, used: impl Fn(&Self) -> bool) -> Result<()> {
        if used(self) {
            return Ok(());
        }
        let belongs = listed(MODELS.into_iter().filter(|kind| used(kind)).map(|kind| kind.name));
        Err(unused(name, &format!("{belongs}, not to {}", self.name)))
    }
}

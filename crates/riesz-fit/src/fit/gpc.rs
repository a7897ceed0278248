//! Gaussian process classification by [Laplace's approximation](crate::gp::laplace) or a
//! [lower bound](crate::gp::jaakkola_bound).

use std::sync::atomic::AtomicBool;

use super::grid_search::{tuning_entries, tuning_sample};
use super::nystrom::{Classifier, Job, Kind};
use super::task::{
    FIXED_KERNEL, FitTask, FittedModel, HYPERPARAMETER_SAMPLES, LANDMARKS, ModelKind, OutputType, RESTARTS,
    ROUGHER_PROFILES, SEARCH_ROWS,
};
use super::through_landmarks;
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::gp::average::{HyperPosterior, PosteriorMixture, WithPosterior};
use crate::gp::hyperparameters::with_default_priors;
use crate::gp::inference::Inference;
use crate::gp::laplace::GaussianApproximation;
use crate::gp::likelihood::logistic::LogisticLikelihood;
use crate::gp::search::{self, SearchOptions, SearchResult};
use crate::kernel::Kernel;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, Sparse, add_to, select};
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::setting_schema::SettingValues;
use crate::table::Table;

/// Gaussian process classification as a named model.
pub(super) static KIND: ModelKind = ModelKind {
    name: "gpc",
    help: "Gaussian process classification, two or more classes",
    predicts: OutputType::Class,
    settings: &[
        &LANDMARKS,
        &RESTARTS,
        &SEARCH_ROWS,
        &FIXED_KERNEL,
        &HYPERPARAMETER_SAMPLES,
        &ROUGHER_PROFILES,
    ],
    takes: &[],
    posterior: true,
    fit: fit_task,
    job: landmark_job,
};

/// Maximum number of rows on which the kernel is tuned, unless the setting `search_rows` is given.
const TUNING_ROWS: usize = 1500;

/// Returns the fit through landmarks if the settings request one.
fn landmark_job(settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
    let job = through_landmarks::job(settings, seed, &[SEARCH_ROWS.name])?;
    if let Some(samples) = settings.count(HYPERPARAMETER_SAMPLES.name).filter(|n| job.is_some() && *n > 0) {
        let why = "classifiers through landmarks are not averaged over hyper-parameters: leave it out";
        return Err(Error::parameter(HYPERPARAMETER_SAMPLES.name, samples, why));
    }
    if job.is_some() && settings.switch(ROUGHER_PROFILES.name).unwrap_or(false) {
        let why = "classifiers through landmarks have the kernel's own profile: leave it out";
        return Err(Error::parameter(ROUGHER_PROFILES.name, true, why));
    }
    let classifier = Classifier::Process { restarts: settings.count(RESTARTS.name).unwrap_or(0) };
    let kind = Kind::Classes { names: Vec::new(), classifier };
    Ok(job.map(|job| Job { corrections: 0, intercept: false, kind, ..job }))
}

fn fit_task(task: &FitTask<'_>) -> Result<FittedModel> {
    if let Some(job) = landmark_job(&task.settings, task.seed)? {
        return through_landmarks::fit_classes(task, job);
    }
    let (labels, classes) = task.labels()?;
    let (tune, restarts, seed) = (!task.fixed_kernel(), task.restarts(), task.seed);
    let estimator = |kernel| {
        let standard = GaussianProcessClassifier::new(kernel);
        GaussianProcessClassifier { tune, restarts, seed, ..standard }
    };
    let (fit, average) = task.fit_profiles(
        estimator,
        |process| process.fit_in_two_steps(task, labels, classes),
        |fit| fit.log_marginal_likelihood,
        |process, fit, draws| process.average_until(fit, task.x, (labels, classes), draws, task.control()),
    )?;
    let fitted = FittedModel {
        covariance: Some(fit.covariance),
        warnings: fit.warnings,
        iterations: vec![fit.steps],
        log_marginal_likelihood: Some(fit.log_marginal_likelihood),
        ..fit.model.into()
    };
    Ok(fitted.averaged(average))
}

/// Gaussian process classification: `P(y_i = 1) = σ(f(x_i))`, where `f` is a Gaussian process and σ the
/// logistic function.
///
/// The posterior of f is approximated by a normal distribution, by default around its mode. With more than
/// two classes,
/// each class has its own f, which separates it from all other classes. All f share one kernel, whereas
/// scikit-learn by default tunes one kernel per class.
#[derive(Debug, Clone)]
pub struct GaussianProcessClassifier {
    /// The prior covariance, from which tuning starts.
    pub kernel: Kernel,
    /// The approximation of the posterior.
    pub inference: Inference,
    /// Whether the kernel's parameters are tuned by maximising the approximate marginal likelihood.
    pub tune: bool,
    /// Lower and upper bounds for the kernel's [`parameters`](Kernel::parameters), in their order and on
    /// their scale. Equal bounds fix a parameter. `None` for 10⁻⁵ to 10⁵ times the start.
    pub bounds: Option<Vec<(f64, f64)>>,
    /// Number of runs of the optimiser from random points within the bounds, in addition to the run from the
    /// start.
    pub restarts: usize,
    /// Seed of these random points. The result depends on the seed, but not on the number of threads.
    pub seed: u64,
}

/// A fitted Gaussian process classifier.
#[derive(Debug, Clone)]
pub struct GpcFit {
    /// The posterior mode of f, with coefficients `y_i - π_i`, where `π_i` is the probability at row i. Two
    /// classes have one output, which is positive for the second class; more classes have one output each.
    pub model: KernelExpansion,
    /// Variance reduction relative to the prior: `Q = W^½ B⁻¹ W^½` (n × n) for each output, with
    /// `W_ii = π_i (1 - π_i)` and `B = I + W^½ K W^½`. [`Prediction::new`](riesz_core::Prediction::new)
    /// averages probabilities over the posterior.
    pub covariance: PosteriorCovariance,
    /// Laplace's approximation of the log marginal likelihood (Rasmussen and Williams 2006, equation 3.32),
    /// or its lower bound, summed over outputs. scikit-learn reports the mean over outputs.
    pub log_marginal_likelihood: f64,
    /// The parameters used, in the order and on the scale of [`Kernel::parameters`].
    pub theta: Vec<f64>,
    /// Total number of optimiser steps over all runs.
    pub steps: usize,
    /// Total number of evaluations of the marginal likelihood over all runs.
    pub evaluations: usize,
    /// Warnings: parameters that ended at a bound, runs that failed.
    pub warnings: Vec<String>,
}

impl GaussianProcessClassifier {
    /// Returns a classifier whose kernel is tuned from this start, without restarts.
    pub fn new(kernel: Kernel) -> Self {
        Self { kernel, inference: Inference::Laplace, tune: true, bounds: None, restarts: 0, seed: 0 }
    }

    /// Fits the classifier to `labels`, one index into `classes` per row. Cost n³/3 for each of about ten
    /// Newton steps, per output. Each evaluation of tuning costs n³ and O(n² parameters) more. Memory n²
    /// numbers and n² per output, 2 n² more for tuning.
    ///
    /// # Errors
    /// [`Target`](riesz_core::Error::Target) unless there are at least two classes and rows of each class;
    /// [`Overflow`](riesz_core::Error::Overflow);
    /// [`NotPositiveDefinite`](riesz_core::Error::NotPositiveDefinite);
    /// [`NotConverged`](riesz_core::Error::NotConverged).
    pub fn fit(&self, x: &Table, labels: &[usize], classes: &[String]) -> Result<GpcFit> {
        self.fit_until(x, labels, classes, RunControl::none())
    }

    /// Fits as [`fit`](Self::fit) does; each evaluation of the marginal likelihood counts as one step of
    /// progress.
    pub(super) fn fit_until(
        &self,
        x: &Table,
        labels: &[usize],
        classes: &[String],
        control: RunControl<'_>,
    ) -> Result<GpcFit> {
        let y = self.check(x, labels, classes)?;
        let parameters = self.kernel.parameters();
        let free = 0..if self.tune { parameters.len() } else { 0 };
        let mut warm_starts = vec![None; y.len()];
        let objective = |theta: &[f64]| self.value_and_gradient(theta, x, &y, &mut warm_starts, control.stop);
        let search = SearchOptions {
            bounds: self.bounds.as_deref(),
            restarts: self.restarts,
            seed: self.seed,
            ..SearchOptions::default()
        };
        let optimum = search::maximise(&parameters, free, search, control, objective)?;
        let kernel =
            if self.tune { self.kernel.with_parameters(&optimum.theta) } else { self.kernel.clone() };
        crate::checks::check_range(&kernel, x)?;
        let gram = kernel.gram(x);
        let approximate = |y| self.inference.approximate(&gram, y, None, control.stop);
        let modes = y.iter().map(approximate).collect::<Result<Vec<GaussianApproximation>>>()?;
        let value: f64 = modes.iter().map(|m| m.value).sum();
        let mut coef = Matrix::zeros(x.rows(), y.len());
        for (o, mode) in modes.iter().enumerate() {
            mode.alpha.iter().enumerate().for_each(|(i, a)| coef[(i, o)] = *a);
        }
        let two = y.len() == 1;
        let method = match self.inference {
            Inference::Laplace => "Gaussian process classifier (Laplace approximation)",
            Inference::JaakkolaBound => "Gaussian process classifier (variational bound)",
        };
        let mut card =
            vec![CardEntry::new("model", method), CardEntry::measured("log marginal likelihood", value)];
        card.extend(optimum.facts(self.tune.then_some(self.restarts)));
        let SearchResult { theta, steps, evaluations, warnings, .. } = optimum;
        let model = KernelExpansion {
            kernel,
            support_points: x.clone(),
            coef,
            intercept: vec![0.0; y.len()],
            output_names: match two {
                true => vec![format!("{} vs {}", classes[1], classes[0])],
                false => classes.iter().map(|c| format!("{c} vs rest")).collect(),
            },
            link: if two { Link::LatentLogistic } else { Link::LatentOneVsRest },
            classes: classes.to_vec(),
            model_card: card,
        };
        model.validate()?;
        let reduction = |mode: GaussianApproximation| VarianceReduction::CholeskyInverse {
            operator: Some(Sparse::diagonal(mode.root_weight)),
            factor: mode.factor,
        };
        let scale = vec![1.0; modes.len()];
        let covariance = PosteriorCovariance::new(modes.into_iter().map(reduction).collect(), scale);
        Ok(GpcFit { model, covariance, log_marginal_likelihood: value, theta, steps, evaluations, warnings })
    }

    /// Fits as [`fit_until`](Self::fit_until) does, but tunes the kernel on a sample of the rows if there are
    /// more than [`TUNING_ROWS`], or than the setting `search_rows`.
    fn fit_in_two_steps(&self, task: &FitTask<'_>, labels: &[usize], classes: &[String]) -> Result<GpcFit> {
        let Some(sample) = tuning_sample(task, self.tune, TUNING_ROWS, Some(labels))? else {
            return self.fit_until(task.x, labels, classes, task.control());
        };
        let tuned = self.fit_until(&sample.x, &select(labels, &sample.rows), classes, task.control())?;
        let kernel = self.kernel.with_parameters(&tuned.theta);
        let process = Self { kernel, tune: false, ..self.clone() };
        task.progress.start_stage("fitting to all rows", 0);
        let mut fit = process.fit_until(task.x, labels, classes, task.control())?;
        fit.model.model_card.extend(tuning_entries(
            task,
            &sample,
            self.restarts,
            tuned.steps,
            &tuned.warnings,
        ));
        let GpcFit { theta, steps, evaluations, warnings, .. } = tuned;
        Ok(GpcFit { theta, steps, evaluations, warnings, ..fit })
    }

    /// Returns the approximation of the log marginal likelihood and its gradient in `theta`, summed over
    /// outputs (Rasmussen and Williams 2006, algorithm 5.1). `theta` has the order and scale of the
    /// kernel's [`parameters`](Kernel::parameters). Cost about ten times n³/3, plus n³ and O(n² parameters),
    /// per output.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood(
        &self,
        x: &Table,
        labels: &[usize],
        classes: &[String],
        theta: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        let y = self.check(x, labels, classes)?;
        search::check("theta", "numbers", theta.len(), &self.kernel.parameters())?;
        self.value_and_gradient(theta, x, &y, &mut vec![None; y.len()], RunControl::none().stop)
    }

    /// Returns the approximate log marginal likelihood and its gradient in `theta`, summed over outputs. The
    /// search for the mode of each output starts at its entry of `warm_starts`, which the mode replaces.
    fn value_and_gradient(
        &self,
        theta: &[f64],
        x: &Table,
        outputs: &[LogisticLikelihood],
        warm_starts: &mut [Option<Vec<f64>>],
        stop: &AtomicBool,
    ) -> Result<(f64, Vec<f64>)> {
        let kernel = self.kernel.with_parameters(theta);
        crate::checks::check_range(&kernel, x)?;
        let gram = kernel.gram(x);
        let mut total = 0.0;
        let mut gradient = vec![0.0; theta.len()];
        for (y, warm_start) in outputs.iter().zip(warm_starts) {
            let mode = self.inference.approximate(&gram, y, warm_start.as_deref(), stop)?;
            total += mode.value;
            *warm_start = Some(mode.alpha.clone());
            add_to(&mut gradient, &kernel.gradient(x, &mode.gradient(&gram, y).gram));
        }
        Ok((total, gradient))
    }

    /// Returns the posterior averaged over `draws` draws of the kernel's parameters, as
    /// [`GaussianProcess::average`](super::GaussianProcess::average) does, with Laplace's approximation of
    /// the marginal likelihood. Probabilities are the
    /// [`expectation`](PosteriorMixture::expectation) of those of the fits.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`TooFew`](riesz_core::Error::TooFew) without draws;
    /// [`Parameter`](riesz_core::Error::Parameter) if nothing is tuned.
    pub fn average(
        &self,
        tuned: &GpcFit,
        x: &Table,
        (labels, classes): (&[usize], &[String]),
        draws: usize,
    ) -> Result<PosteriorMixture<GpcFit>> {
        self.average_until(tuned, x, (labels, classes), draws, RunControl::none())
    }

    /// Averages as [`average`](Self::average) does; each evaluation of the marginal likelihood counts as one
    /// step of progress.
    pub(super) fn average_until(
        &self,
        tuned: &GpcFit,
        x: &Table,
        (labels, classes): (&[usize], &[String]),
        draws: usize,
        control: RunControl<'_>,
    ) -> Result<PosteriorMixture<GpcFit>> {
        let parameters = self.kernel.parameters();
        let free = 0..if self.tune { parameters.len() } else { 0 };
        let fit = |theta: &[f64]| {
            let kernel = self.kernel.with_parameters(theta);
            let fit = Self { kernel, tune: false, ..self.clone() }.fit(x, labels, classes)?;
            Ok((fit.log_marginal_likelihood, fit))
        };
        let coordinates = with_default_priors(parameters, &free);
        HyperPosterior { coordinates: &coordinates, from: &tuned.theta, control }.average(
            |theta| self.log_marginal_likelihood(x, labels, classes, theta),
            fit,
            draws,
            self.seed,
        )
    }

    /// Checks the inputs and returns the likelihood of each output.
    fn check(&self, x: &Table, labels: &[usize], classes: &[String]) -> Result<Vec<LogisticLikelihood>> {
        super::check_labels(x, labels, classes)?;
        self.kernel.validate(x.width())?;
        let outputs = if classes.len() == 2 { 1..2 } else { 0..classes.len() };
        let is_class =
            |c: usize| -> Vec<f64> { labels.iter().map(|&l| f64::from(u8::from(l == c))).collect() };
        Ok(outputs.map(|c| LogisticLikelihood::from_fractions(&is_class(c), None)).collect())
    }
}

impl GpcFit {
    /// Returns the posterior of the latent functions.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }
}

impl WithPosterior for GpcFit {
    fn posterior(&self) -> Posterior<'_> {
        Self::posterior(self)
    }

    fn into_parts(self) -> (KernelExpansion, PosteriorCovariance) {
        (self.model, self.covariance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_it_cannot_learn() {
        let x = Table::from_rows(&[[0.0], [1.0], [2.0]]).unwrap();
        let names = |names: &[&str]| names.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        let gpc = GaussianProcessClassifier::new(Kernel::gaussian(&[1.0]));
        let message = |labels: &[usize], classes: &[&str]| {
            gpc.fit(&x, labels, &names(classes)).unwrap_err().to_string()
        };
        assert!(message(&[0, 0, 0], &["a", "b"]).contains("'a' in every row"));
        assert!(message(&[0, 1, 1], &["a", "b", "c"]).contains("no rows for the class 'c'"));
        assert!(message(&[0, 0, 0], &["a"]).contains("at least two classes"));
        assert!(message(&[0, 1, 2], &["a", "b"]).contains("class number 2 (from 0) in row 3"));
        assert!(message(&[0, 1], &["a", "b"]).contains("the target has 2 numbers"));
        assert!(message(&[0, 1, 1], &["a", "a"]).contains("used twice"));
    }
}

//! Sparse Gaussian processes with aggregated observations of many rows, through inducing points and in closed
//! form.
//!
//! Rows enter only through `Φ = PᵀK(X, W)` (bags × points), the sums over bags of kernel values at the
//! inducing points W. Time is therefore linear in the number of rows, and memory does not depend on it. For
//! normal targets the optimal distribution of the values at W has a closed form. So has the evidence, which
//! is maximised over kernel and noise without minibatches.
//!
//! Sources: Titsias 2009; for sums over bags Law et al. 2018, and Chau, Bouabid and Sejdinovic 2021
//! (appendix), who optimise that distribution by gradient steps. The default approximation is ours: the
//! variance of a sum that the points leave unexplained is additional noise of this sum (as in Snelson and
//! Ghahramani 2006 for rows). The variational bound subtracts a penalty for this variance instead. With many
//! bags, it selects kernels that are smoother than f, and the intervals are too narrow.

mod alternating_tuning;
mod average;
mod bag_features;
mod collapsed_evidence;
mod mediated_features;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bag_features::BagFeatures;
use collapsed_evidence::CollapsedEvidence;
use mediated_features::MediatedFeatures;

use super::Bags;
use super::aggregate_data::aligned_points;
use super::bag_gram::BagRows;
use super::mediation::Mediation;
use super::observation_operator::ObservationOperator;
use super::row_bags::bag_overlaps;
use crate::checks::{check_finite, has_spread, not_negative};
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result, sized};
use crate::fit::TunedParameters;
use crate::gp::exact::check_mean;
use crate::gp::hyperparameters::{HyperParameter, ThetaReader, add_log_priors};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::search::{self, SearchOptions, SearchResult};
use crate::kernel::{Kernel, Parameter, Profile};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, dot, select};
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::random::{Random, SeedableRng, index};
use crate::table::Table;

/// The approximation of the covariance of sums through inducing points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approximation {
    /// Fully independent training conditional, for sums: the unexplained variance of a sum is additional
    /// noise.
    #[default]
    Fitc,
    /// Variational free energy: a lower bound of the evidence, which the unexplained variance reduces. The
    /// distribution of the values at the points maximises the bound.
    Vfe,
}

/// Sparse Gaussian process of weighted sums over bags, through inducing points.
///
/// The model is `z_b = Σ_i w_i f(x_i) + ε_b` over the rows i of bag b with weights w_i. f is a Gaussian
/// process around a constant, represented by its values at the inducing points. The variance of `ε_b` is
/// `noise + row_noise Σ_i w_i² + known_noise_b`.
///
/// ```
/// use riesz::aggregate::{Bags, SparseAggregateProcess, TargetUnit, inducing_points};
/// use riesz::{Kernel, Table};
///
/// let rows: Vec<[f64; 1]> = (0..400).map(|i| [f64::from(i) / 100.0]).collect();
/// let (x, bag) = (Table::from_rows(&rows)?, (0..400).map(|i| i / 20).collect::<Vec<_>>());
/// let bags = Bags::new(&bag, 20, None, TargetUnit::Mean)?;
/// let means: Vec<f64> = rows.chunks(20).map(|b| b.iter().map(|r| r[0].sin()).sum::<f64>() / 20.0).collect();
/// let points = inducing_points(&x, 15, 0)?;
/// let fit = SparseAggregateProcess::new(Kernel::gaussian(&[1.0]), points).fit(&x, &bags, &means)?;
/// let (mean, sd) = (fit.model.predict(&x)?, fit.posterior().sd(&x)?);
/// assert!((0..400).all(|i| (mean[(i, 0)] - rows[i][0].sin()).abs() < 0.02 + 3.0 * sd[(i, 0)]));
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SparseAggregateProcess {
    /// The prior covariance of f in units of the [standardised](Self::normalize) target; tuning starts here.
    pub kernel: Kernel,
    /// The inducing points W: distinct rows of the same columns, for example those of
    /// [`inducing_points`](super::inducing_points) or centroids of bags.
    pub points: Table,
    /// The variance > 0 of the noise of every target, in squared units of the standardised target. Tuning
    /// starts here.
    pub noise: f64,
    /// The variance > 0 of independent noise of single rows, in the same units. Tuning starts here. Targets
    /// of an operator share this noise; each target then has its variance as independent noise. `None` for
    /// no noise of rows.
    pub row_noise: Option<f64>,
    /// The factor > 0 of the covariance of the regression on mediators, for [`fit_data`](Self::fit_data), in
    /// the units of the noise. The diagonal of the product is independent noise of each target. Tuning starts
    /// here. `None` for a regression without uncertainty, and without mediated targets.
    pub mediation_noise: Option<f64>,
    /// Known variances ≥ 0 of the errors of single targets, in squared units of the target. `None` for no
    /// such errors.
    pub known_noise: Option<Vec<f64>>,
    /// The regression on mediators for targets without rows, for [`fit_data`](Self::fit_data). Its tuning
    /// starts here.
    pub mediation: Option<Mediation>,
    /// The constant prior mean of f; `None` for the constant with the largest evidence (generalised least
    /// squares).
    pub mean: Option<f64>,
    /// Whether kernel and noise are in units of the spread of the targets around a constant f. Where targets
    /// are means over rows, the spread is their standard deviation.
    pub normalize: bool,
    /// The approximation through the points.
    pub approximation: Approximation,
    /// The parameters that are tuned: kernel, noise (including the noise of rows), both or none.
    pub tune: TunedParameters,
    /// Profiles of stationary kernels that are compared with that of the kernel by their evidences, where the
    /// kernel is tuned; none by default.
    pub profiles: Vec<Profile>,
    /// Whether tuned parameters have weakly informative priors around their starts, as under
    /// [`Conventions::Regularised`](super::Conventions::Regularised).
    pub priors: bool,
    /// Bounds for [`parameters`](Self::parameters), as in
    /// [`GaussianProcess::bounds`](crate::fit::GaussianProcess::bounds).
    pub bounds: Option<Vec<(f64, f64)>>,
    /// The number of additional runs of the optimiser from random points within the bounds.
    pub restarts: usize,
    /// The seed of these points and of samples of bags and rows.
    pub seed: u64,
    /// The number of sampled bags for the first stage of tuning, where there are at least twice as many bags.
    /// The second stage starts at the best result and uses all bags, until a step adds less than 0.01 to the
    /// evidence. 1,000 by default.
    pub tuning_bags: usize,
    /// Another thread sets this flag to stop the fit.
    pub stop: Arc<AtomicBool>,
    /// The number of evaluations so far, which another thread may read.
    pub progress: Arc<Progress>,
}

/// A fitted sparse process of sums over bags.
#[derive(Debug, Clone)]
pub struct SparseAggregateFit {
    /// The posterior mean as an expansion over the inducing points. It, its kernel and the noises below are
    /// in the target's units. Its intercept is the constant mean.
    pub model: KernelExpansion,
    /// The posterior covariance, with the variance reduction `Q = K⁻¹ - (K + ΦᵀD⁻¹Φ)⁻¹` over the points. K is
    /// the gram matrix of the points, and D holds the targets' variances given the values of f at the points.
    pub covariance: PosteriorCovariance,
    /// The variance of the noise of every target.
    pub noise: f64,
    /// The variance of the noise of rows; 0 without this noise.
    pub row_noise: f64,
    /// The factor of the covariance of the regression on mediators; 0 without mediators.
    pub mediation_noise: f64,
    /// The log density of the targets under the approximation; under [`Approximation::Vfe`], a lower bound of
    /// the log density.
    pub log_marginal_likelihood: f64,
    /// `½ tr C⁻¹(PᵀKP - ΨᵀΨ)`: half the variance of the sums that the points leave unexplained, in units of
    /// the noise variances C. The VFE bound is smaller by this number. If it is about 1 or more, more points
    /// improve the predictions.
    pub unexplained: f64,
    /// The posterior mean of each target.
    pub fitted: Vec<f64>,
    /// Predictions of each target from all others, with the same kernel, noise and points. They equal the
    /// predictions of a refit, but include the uncertainty of an estimated mean.
    pub left_out: LeaveOneOut,
    /// The standard error of the evidence where pairs of rows are sampled; 0 otherwise.
    pub evidence_error: f64,
    /// The regression on mediators for targets without rows.
    pub mediation: Option<Mediation>,
    /// Jitter added to the diagonal of the gram matrix of the points.
    pub jitter: f64,
    /// The kernel of the process with the profile of the fit, where tuning started.
    pub start_kernel: Kernel,
    /// The parameters of the fit, in the order and on the scale of [`SparseAggregateProcess::parameters`].
    pub theta: Vec<f64>,
    /// The other profiles whose evidence times priors, where profiles are compared, is smaller by a factor of
    /// at most e³.
    pub alternatives: Vec<TunedProfile>,
    /// The number of optimiser steps in all runs.
    pub steps: usize,
    /// The number of evaluations of the evidence in all runs.
    pub evaluations: usize,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A tuned process whose kernel has another profile.
#[derive(Debug, Clone)]
pub struct TunedProfile {
    /// The kernel where tuning started.
    pub start_kernel: Kernel,
    /// The parameters, in the order and on the scale of [`SparseAggregateProcess::parameters`].
    pub theta: Vec<f64>,
}

/// The starting value of the noise.
const START_NOISE: f64 = 0.03;

/// The smallest gain of evidence for which tuning with many bags continues: smaller gains do not distinguish
/// parameters.
const MIN_EVIDENCE_GAIN: f64 = 0.01;

/// Targets, their rows and points, and everything about them that does not depend on the parameters.
struct SparseTargets {
    values: Vec<f64>,
    /// Known variances of the targets' errors.
    known_noise: Vec<f64>,
    /// For each target the sum of its weights.
    weight_sums: Vec<f64>,
    /// For each target the factors of the row noise and of the mediation noise in its noise variance: the sum
    /// of squared weights of rows, and the variance of the regression at the target.
    noise_factors: [Vec<f64>; 2],
    /// The squared unit of kernel and noise.
    variance: f64,
    rows: BagRows,
    points: Table,
    /// The map from bags to targets, where targets are not the bags.
    mediated: Option<MediatedFeatures>,
}

impl SparseTargets {
    /// Returns the targets of these bags, in the same units.
    fn select_bags(&self, bags: &[usize]) -> Self {
        Self {
            values: select(&self.values, bags),
            known_noise: select(&self.known_noise, bags),
            weight_sums: select(&self.weight_sums, bags),
            noise_factors: self.noise_factors.each_ref().map(|factors| select(factors, bags)),
            variance: self.variance,
            rows: self.rows.select_bags(bags),
            points: self.points.clone(),
            mediated: None,
        }
    }

    /// Returns the sums of kernel values with the points, and with `slopes` also the terms of their gradient.
    fn features(&self, kernel: &Kernel, slopes: bool, control: RunControl<'_>) -> Result<BagFeatures> {
        let bag_features = self.rows.features(kernel, &self.points, slopes, control)?;
        match &self.mediated {
            None => Ok(bag_features),
            Some(mediated) => mediated.features(bag_features, &self.rows, kernel, control.stop),
        }
    }
}

impl SparseAggregateProcess {
    /// Creates a process with this starting kernel, standardised targets and an estimated constant mean,
    /// whose kernel and noise are tuned.
    pub fn new(kernel: Kernel, points: Table) -> Self {
        Self {
            kernel,
            points,
            noise: START_NOISE,
            row_noise: None,
            mediation_noise: None,
            known_noise: None,
            mediation: None,
            mean: None,
            normalize: true,
            approximation: Approximation::default(),
            tune: TunedParameters::KernelAndNoise,
            profiles: Vec::new(),
            priors: true,
            bounds: None,
            restarts: 0,
            seed: 0,
            tuning_bags: 1000,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Returns the names and starts of the tunable parameters: the kernel's parameters, then the logarithms
    /// of the noise, the row noise and the mediation noise, as far as these are set.
    pub fn parameters(&self) -> Vec<Parameter> {
        let noises = self.noises().into_iter().filter_map(|(name, value)| Some((name, value?)));
        let noises = noises.map(|(name, value)| Parameter::logarithm(name, value));
        self.kernel.parameters().into_iter().chain(noises).collect()
    }

    /// Returns the names and values of the noise variances; `None` for those that are not set.
    fn noises(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("noise", Some(self.noise)),
            ("row noise", self.row_noise),
            ("mediation noise", self.mediation_noise),
        ]
    }

    fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// Fits the process to targets that are sums over bags of rows of `x`, one per bag. Cost of an
    /// evaluation: O(rows points columns), O(rows² columns) for the rows of each bag, O(bags points²) and
    /// O(points³). Memory: O(bags points), times the number of parameters where this needs at most 256 MB.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`]; [`Error::Target`] if
    /// targets to be standardised are constant; [`Error::Overflow`];
    /// [`Error::NotPositiveDefinite`] where points are too near each other; [`Error::Interrupted`].
    pub fn fit(&self, x: &Table, bags: &Bags, targets: &[f64]) -> Result<SparseAggregateFit> {
        self.fit_targets(&self.check(x, bags, None, targets)?, self.parameters())
    }

    /// Fits the process to targets that the observation operator B (J × M) computes from bags.
    ///
    /// Additional cost of an evaluation for J bags and M targets: J²M, and N²/2 kernel values for N ≤ 50,000
    /// rows. With more rows, covariances of different bags are estimated from 4 samples of 10,000 rows. The
    /// standard error of the evidence is then [`evidence_error`](SparseAggregateFit::evidence_error). Memory:
    /// JM and J².
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_through(
        &self,
        x: &Table,
        bags: &Bags,
        operator: &ObservationOperator,
        targets: &[f64],
    ) -> Result<SparseAggregateFit> {
        self.fit_targets(&self.check(x, bags, Some(operator), targets)?, self.parameters())
    }

    /// Fits the process, with tuning that starts at `parameters`.
    fn fit_targets(
        &self,
        targets: &SparseTargets,
        mut parameters: Vec<Parameter>,
    ) -> Result<SparseAggregateFit> {
        let control = self.control();
        let (kernel_parameters, count) = (self.kernel.parameters().len(), parameters.len());
        let free = self.tune.free(kernel_parameters, count);
        let tuned = !free.is_empty();
        let tune_on_subset =
            tuned && targets.mediated.is_none() && targets.values.len() / 2 >= self.tuning_bags.max(1);
        let (bounds, restarts, seed) = (self.bounds.as_deref(), self.restarts, self.seed);
        // Where rows are sampled, the error of the evidence is at least this large.
        let samples_rows = targets.mediated.as_ref().is_some_and(|mediated| !mediated.samples.0.is_empty());
        let min_gain = if tune_on_subset || samples_rows { MIN_EVIDENCE_GAIN } else { 0.0 };
        let search = SearchOptions { bounds, restarts, seed, min_gain, ..SearchOptions::default() };
        let subset = tune_on_subset.then(|| {
            let mut random = Random::seed_from_u64(seed);
            let mut subset = index::sample(&mut random, targets.values.len(), self.tuning_bags).into_vec();
            subset.sort_unstable();
            targets.select_bags(&subset)
        });
        let first_targets = subset.as_ref().unwrap_or(targets);
        let (first, process, alternatives) =
            self.best_profile(first_targets, &parameters, free.clone(), search, control)?;
        let mut optimum = match subset {
            None => first,
            Some(_) => {
                parameters.iter_mut().zip(&first.theta).for_each(|(p, value)| p.log_value = *value);
                // The evidence is a sum over bags, except for the priors.
                let scale = targets.values.len() as f64 / self.tuning_bags as f64;
                let curvature = first.curvature.clone().times(scale);
                let search = SearchOptions { bounds, min_gain, curvature, ..SearchOptions::default() };
                let mut optimum = process.tune(targets, &parameters, free, search, control)?;
                optimum.count(&first);
                optimum.warnings.extend(first.warnings);
                optimum
            }
        };
        optimum.warnings.dedup();
        Ok(SparseAggregateFit { alternatives, ..process.fit_at(targets, optimum, tuned)? })
    }

    /// Fits the process with the parameters of an optimum.
    fn fit_at(
        &self,
        targets: &SparseTargets,
        optimum: SearchResult,
        tuned: bool,
    ) -> Result<SparseAggregateFit> {
        let (kernel, noises) = self.hyperparameters(targets, &optimum.theta);
        let features = targets.features(&kernel, false, self.control())?;
        let state = self.state(targets, &kernel, noises, &features)?;
        self.result(targets, (kernel, noises), &features, &state, optimum, tuned)
    }

    /// Tunes the process with each of the [`profiles`](Self::profiles). Returns the best optimum, the process
    /// with its profile, and kernels and parameters of profiles that are nearly as likely.
    fn best_profile(
        &self,
        targets: &SparseTargets,
        start: &[Parameter],
        free: Range<usize>,
        search: SearchOptions<'_>,
        control: RunControl<'_>,
    ) -> Result<(SearchResult, Self, Vec<TunedProfile>)> {
        let tune = |process: Self| {
            let optimum = process.tune(targets, start, free.clone(), search.clone(), control)?;
            let theta = optimum.theta.clone();
            Ok((optimum, (process, theta)))
        };
        let profiles = if free.contains(&0) { &self.profiles[..] } else { &[] };
        let first = tune(self.clone())?;
        let (optimum, mut processes) = search::best_profile(first, &self.kernel, profiles, |kernel| {
            tune(Self { kernel, ..self.clone() })
        })?;
        let (process, _) = processes.remove(0);
        let alternatives = processes
            .into_iter()
            .map(|(process, theta)| TunedProfile { start_kernel: process.kernel, theta });
        Ok((optimum, process, alternatives.collect()))
    }

    /// Returns the priors of all parameters, around their starts.
    fn hyperparameter_priors(&self) -> Vec<HyperParameter> {
        let parameters = self.parameters();
        let free = self.tune.free(self.kernel.parameters().len(), parameters.len());
        let hyperparameter = |(i, parameter): (usize, Parameter)| match self.priors && free.contains(&i) {
            true => HyperParameter::with_default_prior(parameter),
            false => HyperParameter::fixed(parameter),
        };
        parameters.into_iter().enumerate().map(hyperparameter).collect()
    }

    /// Maximises the evidence times the priors of the `free` parameters, starting at `start`.
    fn tune(
        &self,
        targets: &SparseTargets,
        start: &[Parameter],
        free: Range<usize>,
        search: SearchOptions<'_>,
        control: RunControl<'_>,
    ) -> Result<SearchResult> {
        let slopes = free.contains(&0);
        let coordinates = self.hyperparameter_priors();
        let mut cached_features = None;
        let objective = |theta: &[f64]| {
            let evaluation =
                self.value_and_gradient(targets, theta, slopes, &mut cached_features, control)?;
            Ok(add_log_priors(&coordinates, theta, evaluation))
        };
        search::maximise(start, free, search, control, objective)
    }

    /// Returns the evidence under the approximation and its gradient in `theta`, without the priors of
    /// parameters. `theta` has the order and scale of [`parameters`](Self::parameters).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood(
        &self,
        x: &Table,
        bags: &Bags,
        targets: &[f64],
        theta: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        let targets = self.check(x, bags, None, targets)?;
        search::check("theta", "numbers", theta.len(), &self.parameters())?;
        self.value_and_gradient(&targets, theta, true, &mut None, RunControl::none())
    }

    /// Returns the evidence and its gradient, with zeros for the kernel's parameters unless `slopes` is true.
    /// Without slopes the kernel stays as it is, and the sums, which do not depend on the noise, are kept in
    /// `cached_features`.
    fn value_and_gradient(
        &self,
        targets: &SparseTargets,
        theta: &[f64],
        slopes: bool,
        cached_features: &mut Option<BagFeatures>,
        control: RunControl<'_>,
    ) -> Result<(f64, Vec<f64>)> {
        let (kernel, noises) = self.hyperparameters(targets, theta);
        let features = match cached_features.take() {
            Some(features) => features,
            None => targets.features(&kernel, slopes, control)?,
        };
        let state = self.state(targets, &kernel, noises, &features)?;
        control.check_cancelled()?;
        let mut gradient = match slopes {
            true => state.kernel_gradient(&kernel, targets, &features, control)?,
            false => vec![0.0; self.kernel.parameters().len()],
        };
        gradient.push(noises[0] * state.grad_noise.iter().sum::<f64>());
        for (noise, factors) in noises[1..].iter().zip(&targets.noise_factors) {
            if *noise > 0.0 {
                gradient.push(noise * dot(&state.grad_noise, factors));
            }
        }
        *cached_features = (!slopes).then_some(features);
        Ok((state.value, gradient))
    }

    /// Returns the kernel, and the noise variances of targets, of rows and of mediation, in the target's
    /// units.
    fn hyperparameters(&self, targets: &SparseTargets, theta: &[f64]) -> (Kernel, [f64; 3]) {
        let mut reader = ThetaReader::new(theta);
        let kernel = reader.kernel(&self.kernel);
        let noises = self.noises().map(|(_, noise)| noise.map_or(0.0, |_| targets.variance * reader.exp()));
        reader.finish();
        (targets.variance * kernel, noises)
    }

    fn state(
        &self,
        targets: &SparseTargets,
        kernel: &Kernel,
        [noise, row_noise, mediation_noise]: [f64; 3],
        features: &BagFeatures,
    ) -> Result<CollapsedEvidence> {
        let [row_factors, mediation_factors] = &targets.noise_factors;
        let factors = row_factors.iter().zip(mediation_factors).zip(&targets.known_noise);
        let noise: Vec<f64> = factors
            .map(|((rows, mediation), known)| noise + row_noise * rows + mediation_noise * mediation + known)
            .collect();
        CollapsedEvidence::new(kernel, targets, features, self.approximation, &noise, self.mean)
    }

    /// Checks that variances and the mean are usable with this number of targets.
    fn check_parameters(&self, targets: usize) -> Result<()> {
        for (name, value) in self.noises() {
            if let Some(bad) = value.filter(|v| !(v.is_finite() && *v > 0.0)) {
                let allowed = "it is a positive number (a variance)";
                return Err(Error::parameter(name.replace(' ', "_"), bad, allowed));
            }
        }
        check_mean("mean", self.mean)?;
        if let Some(known) = &self.known_noise {
            sized("known_noise", "numbers", targets, known.len(), "one per bag")?;
            known.iter().try_for_each(|v| not_negative("known_noise", *v, "variances are not negative"))?;
        }
        Ok(())
    }

    fn check(
        &self,
        x: &Table,
        bags: &Bags,
        operator: Option<&ObservationOperator>,
        values: &[f64],
    ) -> Result<SparseTargets> {
        crate::checks::check_rows(x, x.rows(), 1)?;
        sized(
            "a column of the bags' weights",
            "numbers",
            x.rows(),
            bags.weights().rows(),
            "one per row of the table",
        )?;
        let (count, why) = operator
            .map_or((bags.count(), "one per bag"), |b| (b.targets(), "one per column of the operator"));
        sized("the list of targets", "numbers", count, values.len(), why)?;
        if let Some(operator) = operator {
            sized("the operator", "rows", bags.count(), operator.bags(), "one per bag")?;
        }
        if let Some(noise) = self.mediation_noise.filter(|_| operator.is_none()) {
            let allowed = "targets that are bags with rows have no mediation: leave it out";
            return Err(Error::parameter("mediation_noise", noise, allowed));
        }
        self.kernel.validate(x.width())?;
        let points = aligned_points(&self.points, x)?;
        let min_targets = if self.mean.is_none() || self.normalize { 2 } else { 1 };
        if values.len() < min_targets {
            return Err(Error::too_few(
                format!("a list of {} target(s)", values.len()),
                min_targets,
                "targets are",
            ));
        }
        check_finite(values, 1)?;
        self.check_parameters(values.len())?;
        let numbers_per_point = values.len().max(bags.count()).saturating_add(4 * points.rows());
        crate::memory::check_allocation("number of inducing points", points.rows(), numbers_per_point)?;
        let weights = bags.weights();
        let mut weight_sums = weights.column_sums();
        let mut row_factors: Vec<f64> =
            (0..bags.count()).map(|b| weights.column(b).map(|(_, w)| w * w).sum()).collect();
        let mut mediation_factors = vec![0.0; values.len()];
        if let Some(operator) = operator {
            weight_sums = operator.transpose_times_vector(weight_sums);
            row_factors = match self.row_noise {
                Some(_) => operator.matrix().column_dots(&bag_overlaps(weights)?.matmul(&operator.matrix())),
                None => vec![0.0; values.len()],
            };
            if let Some(covariance) = operator.regression_covariance() {
                mediation_factors = covariance.diagonal().map(|variance| variance.max(0.0)).collect();
            }
        }
        let variance = if self.normalize { target_variance(values, &weight_sums, self.mean)? } else { 1.0 };
        let known_noise = self.known_noise.clone().unwrap_or_else(|| vec![0.0; values.len()]);
        let rows = BagRows::new(x, bags.weights());
        let mediated = operator.map(|operator| MediatedFeatures::new(operator, &rows, self.seed));
        Ok(SparseTargets {
            values: values.to_vec(),
            known_noise,
            weight_sums,
            noise_factors: [row_factors, mediation_factors],
            variance,
            rows,
            points,
            mediated,
        })
    }

    fn result(
        &self,
        targets: &SparseTargets,
        (kernel, [noise, row_noise, mediation_noise]): (Kernel, [f64; 3]),
        features: &BagFeatures,
        state: &CollapsedEvidence,
        optimum: SearchResult,
        tuned: bool,
    ) -> Result<SparseAggregateFit> {
        let bags = targets.values.len();
        let fitted =
            (0..bags).map(|b| state.mean * targets.weight_sums[b] + dot(features.phi.row(b), &state.alpha));
        let (mut left_out_mean, mut left_out_variance) = (Vec::new(), Vec::new());
        for (b, precision) in state.precision.iter().enumerate() {
            // The mean is estimated again without the target, and its uncertainty is included (Dubrule 1983).
            let mean_correction = state
                .gls_mean_terms
                .as_ref()
                .map_or(0.0, |(solved_ones, square)| solved_ones[b] * solved_ones[b] / square);
            left_out_mean.push(targets.values[b] - state.solved_residual[b] / (precision - mean_correction));
            left_out_variance.push(1.0 / (precision - mean_correction) + state.uncounted_variance[b]);
        }
        let left_out = LeaveOneOut::normal(targets.values.clone(), left_out_mean, left_out_variance);
        let (points, alpha) = (targets.points.clone(), Matrix::column_vector(state.alpha.clone()));
        let mut model = KernelExpansion::new(kernel, points, alpha, vec![state.mean])?;
        model.model_card = vec![
            CardEntry::new("model", "Gaussian process of sums over bags, through inducing points"),
            CardEntry::measured("noise, in squared units of the target", noise),
            CardEntry::new("bags", bags),
            CardEntry::new("inducing points", targets.points.rows()),
            CardEntry::measured(
                match self.approximation {
                    Approximation::Fitc => "log marginal likelihood (FITC)",
                    Approximation::Vfe => "bound of the log marginal likelihood",
                },
                state.value,
            ),
            CardEntry::measured("half the unexplained variance, in units of the noise", state.unexplained),
            CardEntry::measured("jitter", state.points.jitter),
        ];
        let evidence_error = state.standard_error(&features.priors);
        if evidence_error > 0.0 {
            let entry_name = "standard error of the log marginal likelihood, from samples of rows";
            model.model_card.push(CardEntry::measured(entry_name, evidence_error));
        }
        if self.row_noise.is_some() {
            model
                .model_card
                .insert(2, CardEntry::measured("noise of rows, in squared units of the target", row_noise));
        }
        if self.mediation_noise.is_some() {
            let entry_name = "noise of mediation, in squared units of the target";
            model.model_card.insert(2, CardEntry::measured(entry_name, mediation_noise));
        }
        model.model_card.extend(optimum.facts(tuned.then_some(self.restarts)));
        let SearchResult { theta, steps, evaluations, warnings, .. } = optimum;
        Ok(SparseAggregateFit {
            model,
            // Its variance reduction is L⁻ᵀ(I - Λ⁻¹)L⁻¹ = K(W, W)⁻¹ - (K(W, W) + ΦᵀD⁻¹Φ)⁻¹.
            covariance: state.points.posterior_covariance(&state.information, 1)?,
            noise,
            row_noise,
            mediation_noise,
            log_marginal_likelihood: state.value,
            unexplained: state.unexplained,
            fitted: fitted.collect(),
            left_out,
            evidence_error,
            mediation: None,
            jitter: state.points.jitter,
            start_kernel: self.kernel.clone(),
            alternatives: Vec::new(),
            theta,
            steps,
            evaluations,
            warnings,
        })
    }
}

/// Returns the variance of the targets around a constant f, per squared sum of weights. The constant is
/// `mean`, or the one with the smallest squared error.
fn target_variance(values: &[f64], weight_sums: &[f64], mean: Option<f64>) -> Result<f64> {
    let square = dot(weight_sums, weight_sums);
    let mean = mean.unwrap_or_else(|| dot(values, weight_sums) / square);
    let variance = values.iter().zip(weight_sums).map(|(z, s)| (z - s * mean).powi(2)).sum::<f64>() / square;
    if has_spread(mean, variance) {
        return Ok(variance);
    }
    let problem =
        format!("has no spread around {mean:.4e} per row: check the targets, or set normalize to false");
    Err(Error::target("target", problem))
}

impl SparseAggregateFit {
    /// Returns the posterior of f.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }
}

#[cfg(test)]
mod tests {
    use super::mediated_features::RowSamples;
    use super::*;
    use crate::aggregate::{Mediators, TargetUnit};

    /// The gradient of the evidence for targets with an operator agrees with finite differences, for all
    /// pairs of rows and for samples of them.
    #[test]
    fn gradients_through_mediators_match_finite_differences() {
        let value = |i: usize| ((i * 7919) % 1013) as f64 / 400.0;
        let rows: Vec<[f64; 2]> = (0..80).map(|i| [value(2 * i), value(2 * i + 1)]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let bags = Bags::new(&(0..80).map(|i| i % 9).collect::<Vec<_>>(), 9, None, TargetUnit::Mean).unwrap();
        let coarse = |from: usize, n: usize| {
            Table::from_rows(&(from..from + n).map(|i| [value(i)]).collect::<Vec<_>>()).unwrap()
        };
        let mediators = Mediators { bags: coarse(3, 9), targets: coarse(40, 7), totals: None };
        let mediation = Mediation::new(Kernel::gaussian(&[0.7]), 1e-2);
        let bag_of_target = [Some(4), None, None, None, None, Some(0), None];
        let operator =
            ObservationOperator::new(&bags, &bag_of_target, Some((&mediation, &mediators))).unwrap();
        let points = x.select_rows(&(0..12).map(|i| 6 * i).collect::<Vec<_>>());
        let mut process = SparseAggregateProcess::new(Kernel::gaussian(&[0.8, 1.3]), points);
        (process.row_noise, process.mediation_noise) = (Some(0.3), Some(0.2));
        let z: Vec<f64> = (0..7).map(|t| value(11 * t).sin()).collect();
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let mut targets = process.check(&x, &bags, Some(&operator), &z).unwrap();
        let approximations = [Approximation::Fitc, Approximation::Vfe];
        for (sampled, approximation) in
            approximations.into_iter().flat_map(|kind| [(false, kind), (true, kind)])
        {
            let process = SparseAggregateProcess { approximation, ..process.clone() };
            targets.mediated.as_mut().unwrap().samples = RowSamples(Vec::new());
            if sampled {
                let mut random = Random::seed_from_u64(1);
                let samples = (0..3).map(|_| targets.rows.sample(30, &mut random)).collect();
                targets.mediated.as_mut().unwrap().samples = RowSamples(samples);
            }
            let value_and_gradient = |theta: &[f64]| {
                process.value_and_gradient(&targets, theta, true, &mut None, RunControl::none()).unwrap()
            };
            let (value, gradient) = value_and_gradient(&theta);
            for i in 0..theta.len() {
                let evidence = |step: f64| {
                    let mut shifted = theta.clone();
                    shifted[i] += step;
                    value_and_gradient(&shifted).0
                };
                let difference = (evidence(1e-5) - evidence(-1e-5)) / 2e-5;
                assert!(
                    (difference - gradient[i]).abs() < 1e-5 * value.abs().max(1.0),
                    "{i}: {difference} {}",
                    gradient[i]
                );
            }
        }
    }

    /// Sampled rows give unbiased estimates of the covariances of bags, with correct standard errors.
    #[test]
    fn sampled_covariances_are_unbiased() {
        let value = |i: usize| ((i * 7919) % 1013) as f64 / 400.0;
        let rows: Vec<[f64; 2]> = (0..300).map(|i| [value(2 * i), value(2 * i + 1)]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let (bag, weights): (Vec<usize>, Vec<f64>) = (0..300).map(|i| (i % 5, 0.2 + value(i))).unzip();
        let bags = Bags::new(&bag, 5, Some(&weights), TargetUnit::Mean).unwrap();
        let (bag_rows, kernel) = (BagRows::new(&x, bags.weights()), Kernel::gaussian(&[0.8, 1.3]));
        let (mut random, control) = (Random::seed_from_u64(3), RunControl::none());
        let exact = bag_rows.gram(&kernel, control.stop).unwrap();
        let draws: Vec<Matrix> =
            (0..400).map(|_| bag_rows.sample(60, &mut random).gram(&kernel, control.stop).unwrap()).collect();
        for (b, c) in [(0, 1), (2, 4), (3, 1)] {
            let mean = draws.iter().map(|draw| draw[(b, c)]).sum::<f64>() / 400.0;
            let square = draws.iter().map(|draw| (draw[(b, c)] - mean).powi(2)).sum::<f64>() / 400.0;
            let standardised_error = (mean - exact[(b, c)]) / (square / 400.0).sqrt();
            assert!(standardised_error.abs() < 4.0 && square > 0.0, "{standardised_error}");
        }
    }
}

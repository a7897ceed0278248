//! Choice of the hyper-parameters of a process with aggregated observations.
//!
//! Few targets hold little information about many parameters. Weakly informative priors therefore keep the
//! parameters near their start.
//!
//! The ridge of the mediators is never tuned by the marginal likelihood alone. Where the operator shrinks, a
//! larger ridge with a larger scale of f has nearly the same likelihood, but predictions differ by a factor.
//! Ridge and kernel of the mediators belong to stage 1, the regression on mediators. They minimise the loss
//! of stage 1 on left-out bags. This alternates with the marginal likelihood, which chooses all other
//! parameters.
//!
//! Where targets are regressed on mediators, there are two cases. For pseudo-targets, stage 1 maximises the
//! marginal likelihood of that regression. Where bags are tied to the regression with a variance, all
//! parameters are chosen at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::aggregate_data::Aggregates;
use super::aggregate_fit::AggregateFit;
use super::bag_gram::BagRows;
use super::exact_gp::AggregateGaussianProcess;
use super::mediation::{Mediation, MediationTarget, Mediators, regresses_targets};
use super::mediator_regression;
use crate::control::{Progress, RunControl};
use crate::error::Result;
use crate::gp::average::{HyperPosterior, PosteriorMixture, draws_per_profile};
use crate::gp::hyperparameters::{HyperParameter, add_log_priors, log_values};
use crate::gp::search::{
    SearchResult, best_profile, best_search, maximise_posterior, maximise_within_priors, minimise_loo_loss,
};
use crate::kernel::{ColumnScaling, Kernel, KernelExpression, Parameter, Profile};
use crate::linalg::Matrix;

/// The smallest number of targets for which parameters are tuned.
pub(super) const MIN_TARGETS: usize = 5;

/// Alternations stop when no logarithm of a parameter changes by more than this.
pub(super) const CONVERGED: f64 = 1e-3;

/// Starting values of the noise variances, in units of the targets' variance.
const TARGET_NOISE: f64 = 0.03;
const ROW_NOISE: f64 = 0.1;
const MEDIATION_NOISE: f64 = 0.1;

/// Row noise is added where the largest bag has more than this number of times the rows of the smallest bag.
const MAX_SIZE_RATIO: usize = 4;

/// Conventions of the tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conventions {
    /// Weakly informative priors around the start. They are log-normal with one standard deviation a factor
    /// of e for scales, e^1.5 for noises and the ridge, and e^0.8 for length scales of mediators. Other
    /// length scales have a penalised complexity prior, under which the probability falls quickly below the
    /// start and slowly above it (Fuglstad et al. 2019). The parameters of mediators minimise the loss of
    /// stage 1 on left-out bags (ours).
    #[default]
    Regularised,
    /// The conventions of the source's experiments: the ridge stays fixed, and the marginal likelihood alone
    /// chooses all other parameters.
    Published,
}

/// Expression of the default kernel of rows, at which tuning starts, for standardised columns.
pub const DEFAULT_KERNEL: &str = "rbf(length_scale=1, ard)";

impl Aggregates {
    /// Returns the default kernel of the rows, [`DEFAULT_KERNEL`] in units of their standard deviations.
    ///
    /// # Errors
    /// As [`KernelExpression::resolve`].
    pub fn default_kernel(&self) -> Result<Kernel> {
        let units = ColumnScaling::standardised(&self.rows);
        KernelExpression::parse(DEFAULT_KERNEL)?.resolve(&self.rows, &units)
    }
}

impl Conventions {
    /// Returns the profiles that tuning compares with the Gaussian profile of the default kernel. With a
    /// Gaussian kernel intervals are too narrow if f is not as smooth as its functions. The published
    /// conventions compare none.
    pub fn rougher_profiles(self) -> Vec<Profile> {
        match self {
            Self::Regularised => Profile::MATERN.to_vec(),
            Self::Published => Vec::new(),
        }
    }

    /// Returns the regression on mediators at which tuning starts, for standardised mediators. It is S-CMP,
    /// centered with a ridge of 0.001; under the published conventions not centered, with a ridge of 0.01.
    pub fn mediation(self, kernel: Kernel) -> Mediation {
        match self {
            Self::Regularised => Mediation::new(kernel, 1e-3),
            Self::Published => Mediation { centered: false, ..Mediation::new(kernel, 0.01) },
        }
    }

    /// Returns the process at which tuning starts for these data, with a kernel of rows and, if there are
    /// mediators, a kernel of mediators. Its noise is 0.03 of the targets' variance. With
    /// [`Regularised`](Self::Regularised), it also has noise of rows (0.1) where the largest bag has more
    /// than four times as many rows as the smallest, and noise of mediation (0.1) where targets are mediated.
    pub fn start(
        self,
        kernel: Kernel,
        mediators: Option<Kernel>,
        data: &Aggregates,
    ) -> AggregateGaussianProcess {
        let weights = data.bags.weights();
        let sizes = || (0..weights.cols()).map(|b| weights.column(b).count());
        let unequal = sizes().max().unwrap_or(0) > MAX_SIZE_RATIO * sizes().min().unwrap_or(0);
        let regularised = self == Self::Regularised;
        AggregateGaussianProcess {
            row_noise: if regularised && unequal { ROW_NOISE } else { 0.0 },
            mediation_noise: if regularised && data.mediated() > 0 { MEDIATION_NOISE } else { 0.0 },
            mediation: mediators.map(|kernel| self.mediation(kernel)),
            ..AggregateGaussianProcess::new(kernel, TARGET_NOISE)
        }
    }
}

impl AggregateGaussianProcess {
    /// Returns the process in which targets instead of row embeddings are
    /// [regressed](MediationTarget::Targets) on mediators. The variance around the regression starts at 0.1
    /// of the targets' variance. With `tied`, bags are tied to the regression with a variance of 0.1 (the
    /// two-sided model); otherwise the predictions of the regression are pseudo-targets. The noise of targets
    /// is 0 where no target has rows. Without [`mediation`](Self::mediation) the process is unchanged.
    pub fn regressing_targets(mut self, tied: bool, data: &Aggregates) -> Self {
        if let Some(mediation) = &mut self.mediation {
            (mediation.regressed, mediation.ridge) = (MediationTarget::Targets, MEDIATION_NOISE);
            self.mediation_noise = if tied { MEDIATION_NOISE } else { 0.0 };
            self.noise = if data.mediated() < data.targets.len() { self.noise } else { 0.0 };
        }
        self
    }
}

/// Options of the tuning.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// The conventions.
    pub conventions: Conventions,
    /// Profiles of stationary kernels that are compared with that of the kernel of rows by their marginal
    /// likelihoods; none by default.
    pub profiles: Vec<Profile>,
    /// The maximum number of alternations of stage 1 and the marginal likelihood; 3 by default.
    pub rounds: usize,
    /// Another thread sets this flag to stop the tuning.
    pub stop: Arc<AtomicBool>,
    /// The number of evaluations so far, which another thread may read.
    pub progress: Arc<Progress>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            conventions: Conventions::default(),
            profiles: Vec::new(),
            rounds: 3,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }
}

/// A process with tuned hyper-parameters, and its fit to the data.
#[derive(Debug, Clone)]
pub struct TunedAggregate {
    /// The process.
    pub process: AggregateGaussianProcess,
    /// Tuned processes with other [`profiles`](Tuning::profiles), whose log marginal likelihood, with priors,
    /// is at most 3 smaller.
    pub alternatives: Vec<AggregateGaussianProcess>,
    /// The fit of the process.
    pub fit: AggregateFit,
    /// The number of optimiser steps in all searches.
    pub steps: usize,
    /// The number of evaluations of the marginal likelihood in all searches.
    pub evaluations: usize,
    /// Warnings: parameters that ended at a bound, too few targets.
    pub warnings: Vec<String>,
}

/// Returns all parameters of a process with their priors, and the number of parameters that do not belong to
/// the mediation. These come first.
pub(super) fn hyperparameters(process: &AggregateGaussianProcess) -> (Vec<HyperParameter>, usize) {
    let mediation: Vec<HyperParameter> = process.mediation.iter().flat_map(mediation_priors).collect();
    let parameters = process.parameters();
    let n_process = parameters.len() - mediation.len();
    (
        parameters
            .into_iter()
            .take(n_process)
            .map(HyperParameter::with_default_prior)
            .chain(mediation)
            .collect(),
        n_process,
    )
}

/// Returns all parameters of a regression on mediators with their priors.
pub(super) fn mediation_priors(mediation: &Mediation) -> Vec<HyperParameter> {
    let with_prior = |p: Parameter| match p.is_length_scale() {
        true => HyperParameter::with_normal_prior(p, 0.8),
        false => HyperParameter::with_default_prior(p),
    };
    let mut coordinates: Vec<HyperParameter> = mediation.parameters().into_iter().map(with_prior).collect();
    // Where rows are regressed, the scale of the mediators' kernel has the same effect as the ridge.
    if mediation.regressed == MediationTarget::Rows {
        coordinates[0].prior = None;
    }
    coordinates
}

impl Tuning {
    pub(super) fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// Tunes from two starts, `start` and a smoother and noisier one, and returns the better optimum. Cost:
    /// some tens of evaluations of the marginal likelihood per start.
    ///
    /// # Errors
    /// As [`AggregateGaussianProcess::fit`]; [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn tune(&self, start: &AggregateGaussianProcess, data: &Aggregates) -> Result<TunedAggregate> {
        let control = self.control();
        if data.targets.len() < MIN_TARGETS {
            let fit = start.fit_until(data, control)?;
            let warning = format!("fewer than {MIN_TARGETS} targets: nothing was tuned");
            return Ok(TunedAggregate {
                process: start.clone(),
                alternatives: Vec::new(),
                fit,
                steps: 0,
                evaluations: 0,
                warnings: vec![warning],
            });
        }
        let smoother = start.kernel.with_length_scales_times(3.0).unwrap_or_else(|| start.kernel.clone());
        let mut noisier =
            AggregateGaussianProcess { kernel: smoother, noise: 10.0 * start.noise, ..start.clone() };
        if let Some(mediation) =
            noisier.mediation.as_mut().filter(|mediation| mediation.regressed == MediationTarget::Targets)
        {
            mediation.ridge *= 10.0;
        }
        let first = best_search(start, [&noisier], |from| self.run(start, from, data, control))?;
        let (run, mut processes) = best_profile(first, &start.kernel, &self.profiles, |kernel| {
            self.run(start, &AggregateGaussianProcess { kernel, ..start.clone() }, data, control)
        })?;
        let process = processes.remove(0);
        let mut fit = process.fit_until(data, control)?;
        fit.model.model_card.extend(run.tuning_facts());
        let SearchResult { steps, evaluations, warnings, .. } = run;
        Ok(TunedAggregate { process, alternatives: processes, fit, steps, evaluations, warnings })
    }

    /// Returns the posterior averaged over hyper-parameters by importance sampling, under weakly informative
    /// priors around `start`. The first draws are around the mode, which is searched from `tuned`. With
    /// several tuned processes, whose kernels have different profiles, the draws are divided among these, and
    /// weighted by their evidences. All hyper-parameters vary, also those of mediators, except for the scale
    /// of the mediators' kernel. Cost:
    /// some tens of evaluations of the marginal likelihood and two for each parameter, again where one draw
    /// outweighs the others, and one fit per draw.
    ///
    /// # Errors
    /// As [`AggregateGaussianProcess::fit`]; [`Error::Parameter`](crate::Error::Parameter) for fewer than 2
    /// draws; [`Error::Overflow`](crate::Error::Overflow) if no draw has a likelihood;
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    ///
    /// # Panics
    /// If `tuned` is empty, or `tuned` and `start` do not have the same parameters.
    pub fn average(
        &self,
        start: &AggregateGaussianProcess,
        tuned: &[AggregateGaussianProcess],
        data: &Aggregates,
        draws: usize,
        seed: u64,
    ) -> Result<PosteriorMixture<AggregateFit>> {
        let (control, (coordinates, _)) = (self.control(), hyperparameters(start));
        let mixtures = tuned.iter().map(|process| {
            let from = log_parameters(process);
            let surface = HyperPosterior { coordinates: &coordinates, from: &from, control };
            let posterior =
                |theta: &[f64]| process.with_parameters(theta).value_and_gradient(data, true, control);
            let fit = |theta: &[f64]| {
                let fit = process.with_parameters(theta).fit_until(data, control)?;
                Ok((fit.log_marginal_likelihood, fit))
            };
            surface.average(posterior, fit, draws_per_profile(draws, tuned.len()), seed)
        });
        Ok(PosteriorMixture::combined(mixtures.collect::<Result<_>>()?))
    }

    /// Runs one search from `from`, with the priors around `start`.
    fn run(
        &self,
        start: &AggregateGaussianProcess,
        from: &AggregateGaussianProcess,
        data: &Aggregates,
        control: RunControl<'_>,
    ) -> Result<(SearchResult, AggregateGaussianProcess)> {
        let (mut coordinates, n_process) = hyperparameters(start);
        let mut process = from.clone();
        let mut run = SearchResult::unchanged(log_parameters(&process));
        let mediated = process.mediation.is_some() && data.bag_of_target.contains(&None);
        let published = self.conventions == Conventions::Published;
        let targets_are_regressed = regresses_targets(start.mediation.as_ref());
        let ridge_is_fixed = published && process.mediation.is_some() && !targets_are_regressed;
        if let Some(ridge) = coordinates.last_mut().filter(|_| ridge_is_fixed) {
            ridge.prior = None;
        }
        let jointly = if targets_are_regressed { start.mediation_noise > 0.0 } else { published };
        let alternates = mediated && !jointly;
        // The regression of targets does not depend on the kernel of rows.
        let rounds = if alternates && !targets_are_regressed { self.rounds.max(1) } else { 1 };
        let free = if mediated && jointly { coordinates.len() } else { n_process };
        for _ in 0..rounds {
            let before = log_parameters(&process);
            if alternates {
                let mediation_optimum = tune_mediation(&process, &coordinates[n_process..], data, control)?;
                run.count(&mediation_optimum);
                process.mediation = process.mediation.map(|m| m.with_parameters(&mediation_optimum.theta));
                run.warnings = mediation_optimum.warnings;
            } else {
                run.warnings.clear();
            }
            let fixed_values = log_parameters(&process).split_off(free);
            let objective =
                |theta: &[f64]| {
                    let theta_and_fixed = [theta, &fixed_values[..]].concat();
                    let (value, mut gradient) = process
                        .with_parameters(&theta_and_fixed)
                        .value_and_gradient(data, free > n_process, control)?;
                    gradient.truncate(free);
                    let priors: &[HyperParameter] = if published { &[] } else { &coordinates };
                    Ok(add_log_priors(priors, theta, (value, gradient)))
                };
            let optimum = maximise_within_priors(
                &coordinates[..free],
                &log_parameters(&process)[..free],
                control,
                objective,
            )?;
            run.count(&optimum);
            run.value = optimum.value;
            run.warnings.extend(optimum.warnings);
            process = process.with_parameters(&[&optimum.theta[..], &fixed_values].concat());
            if largest_change(&before, &log_parameters(&process)) < CONVERGED {
                break;
            }
        }
        Ok((run, process))
    }
}

impl TunedAggregate {
    /// Returns the process and its alternatives, over which [`Tuning::average`] averages.
    pub fn processes(&self) -> Vec<AggregateGaussianProcess> {
        std::iter::once(&self.process).chain(&self.alternatives).cloned().collect()
    }
}

/// Returns the largest absolute difference between entries of two vectors.
pub(super) fn largest_change(before: &[f64], after: &[f64]) -> f64 {
    before.iter().zip(after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn log_parameters(process: &AggregateGaussianProcess) -> Vec<f64> {
    log_values(&process.parameters())
}

/// Tunes the parameters of the regression on mediators. They maximise their prior times `loss^(-J/2)`, the
/// profile likelihood of normal errors of the J bags with an unknown variance. Where targets are regressed,
/// they maximise their prior times the marginal likelihood of that regression alone.
fn tune_mediation(
    process: &AggregateGaussianProcess,
    hyperparameters: &[HyperParameter],
    data: &Aggregates,
    control: RunControl<'_>,
) -> Result<SearchResult> {
    let (Some(mediation), Some(mediators)) = (&process.mediation, &data.mediators) else {
        return Ok(SearchResult::unchanged(Vec::new()));
    };
    if mediation.regressed == MediationTarget::Targets {
        let start = log_values(&mediation.parameters());
        let variance = if process.normalize_y { data.target_variance()? } else { 1.0 };
        return maximise_posterior(hyperparameters, &start, control, |theta| {
            let candidate = mediation.with_parameters(theta);
            mediator_regression::log_evidence_and_gradient(&candidate, data, variance, process.prior_mean)
        });
    }
    let gram = bag_mean_gram(&process.kernel, data, control)?;
    tune_mediation_by_loo((mediation, mediators), hyperparameters, &gram, data, control)
}

/// Returns the parameters of the mediation with the smallest loss on left-out bags. `gram` (J × J) is the
/// gram matrix of the bags' means.
pub(super) fn tune_mediation_by_loo(
    (mediation, mediators): (&Mediation, &Mediators),
    hyperparameters: &[HyperParameter],
    gram: &Matrix,
    data: &Aggregates,
    control: RunControl<'_>,
) -> Result<SearchResult> {
    let start = log_values(&mediation.parameters());
    minimise_loo_loss(hyperparameters, &start, data.bags.count(), control, |theta| {
        mediation.with_parameters(theta).loo_loss(&data.bags, &mediators.bags, gram)
    })
}

/// Returns the gram matrix (J × J) of the bags' means, also where targets are sums.
pub(super) fn bag_mean_gram(kernel: &Kernel, data: &Aggregates, control: RunControl<'_>) -> Result<Matrix> {
    Ok(mean_gram(BagRows::new(&data.rows, data.bags.weights()).gram(kernel, control.stop)?, data))
}

/// Returns the gram matrix of the bags' means, given the covariance U (J × J) of the bags' sums.
pub(super) fn mean_gram(mut gram: Matrix, data: &Aggregates) -> Matrix {
    let sums = data.bags.weights().column_sums();
    for b in 0..sums.len() {
        gram.row_mut(b).iter_mut().zip(&sums).for_each(|(u, sum)| *u /= sum * sums[b]);
    }
    gram
}

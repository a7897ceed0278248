//! Choice of the hyper-parameters of a process with aggregated observations.
//!
//! Few targets hold little information about many parameters, so weakly informative priors hold these near
//! their start. The ridge of the mediators is never tuned by the marginal likelihood alone: where the
//! operator shrinks, a larger ridge and a larger scale of f have nearly the same likelihood, and predictions
//! that differ by a factor. Ridge and kernel of the mediators belong to stage 1, and are chosen by its
//! predictions of left-out bags; this alternates with the marginal likelihood, which chooses all other
//! parameters. Where targets are regressed on mediators, pseudo-targets have the marginal likelihood of that
//! regression for stage 1, and where bags are tied to the regression with a variance, all parameters are
//! chosen at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::aggregate_data::Aggregates;
use super::aggregate_fit::AggregateFit;
use super::bag_gram::BagRows;
use super::exact_gp::AggregateGaussianProcess;
use super::mediation::{Mediation, MediationTarget, Mediators};
use super::mediator_regression;
use crate::control::{Progress, RunControl};
use crate::error::Result;
use crate::fit::hyperparameter_search::{self, HyperParameter, SearchResult, add_log_priors};
use crate::kernel::{Kernel, Parameter};
use crate::linalg::Matrix;
use crate::model_card::CardEntry;

/// Fewer targets than this tune nothing.
pub(super) const MIN_TARGETS: usize = 5;

/// Turns stop when no parameter moves by more, in logarithms.
pub(super) const CONVERGED: f64 = 1e-3;

/// Where the tuning of noises starts, in units of the targets' variance.
const TARGET_NOISE: f64 = 0.03;
const ROW_NOISE: f64 = 0.1;
const MEDIATION_NOISE: f64 = 0.1;

/// Rows have noise of their own where the largest bag has more than so many times the rows of the smallest.
const UNEQUAL: usize = 4;

/// Conventions of the tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conventions {
    /// Weak priors around the start: log-normal ones by a factor of e (one standard deviation) for scales,
    /// e^1.5 for noises and the ridge, e^0.8 for length scales of mediators; for other length scales one that
    /// penalises complexity, which makes shorter ones than the start less and less probable and longer ones
    /// hardly (Fuglstad et al. 2019). Mediators by what stage 1 loses on bags that are left out (ours).
    #[default]
    Regularised,
    /// The conventions of the source's experiments: the ridge stays fixed, and the marginal likelihood alone
    /// chooses all other parameters.
    Published,
}

impl Conventions {
    /// The regression on mediators that these begin with, for standardised mediators: S-CMP, centred with a
    /// ridge of 0.001; as published not centred, with 0.01.
    pub fn mediation(self, kernel: Kernel) -> Mediation {
        match self {
            Self::Regularised => Mediation::new(kernel, 1e-3),
            Self::Published => Mediation { centred: false, ..Mediation::new(kernel, 0.01) },
        }
    }

    /// The process at which tuning begins for these data, with kernels of rows and of mediators, if there are
    /// some. Its noise is 0.03 of the targets' variance. Unless the conventions are the published ones, it
    /// also has noise of rows (0.1) where the largest bag has more than four times as many rows as the
    /// smallest, and of mediation (0.1) where targets are mediated.
    pub fn start(
        self,
        kernel: Kernel,
        mediators: Option<Kernel>,
        data: &Aggregates,
    ) -> AggregateGaussianProcess {
        let weights = data.bags.weights();
        let sizes = || (0..weights.cols()).map(|b| weights.column(b).count());
        let unequal = sizes().max().unwrap_or(0) > UNEQUAL * sizes().min().unwrap_or(0);
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
    /// The process with targets instead of row embeddings [regressed](MediationTarget::Targets) on mediators,
    /// where the variance around the regression begins with 0.1 of the targets' variance. With `tied`, bags
    /// are tied to the regression by a variance of 0.1, the two-sided model; without, its predictions are
    /// pseudo-targets. The noise of targets is 0 where none has rows of its own. Unchanged without
    /// [`mediation`](Self::mediation).
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
    /// The maximum number of alternations of stage 1 and the marginal likelihood; 3 by default.
    pub rounds: usize,
    /// Another thread sets this flag to stop the tuning.
    pub stop: Arc<AtomicBool>,
    /// Read by another thread to see how far it is: evaluations.
    pub progress: Arc<Progress>,
}

impl Default for Tuning {
    fn default() -> Self {
        let (stop, progress) = (Arc::default(), Arc::default());
        Self { conventions: Conventions::default(), rounds: 3, stop, progress }
    }
}

/// A process with the hyper-parameters that were chosen, and what it makes of the data.
#[derive(Debug, Clone)]
pub struct TunedAggregate {
    /// The process.
    pub process: AggregateGaussianProcess,
    /// Its fit.
    pub fit: AggregateFit,
    /// Steps of the optimiser, all together.
    pub steps: usize,
    /// Evaluations of the marginal likelihood, all together.
    pub evaluations: usize,
    /// Warnings: parameters that ended at a bound, too few targets.
    pub warnings: Vec<String>,
}

fn is_length(parameter: &Parameter) -> bool {
    parameter.name.starts_with("lengthscale")
}

/// A parameter around its start.
pub(super) fn default_prior(parameter: Parameter) -> HyperParameter {
    match &parameter.name[..] {
        _ if is_length(&parameter) => HyperParameter::with_lengthscale_prior(parameter),
        "scale" => HyperParameter::with_normal_prior(parameter, 1.0),
        _ => HyperParameter::with_normal_prior(parameter, 1.5),
    }
}

fn regresses_targets(process: &AggregateGaussianProcess) -> bool {
    process.mediation.as_ref().is_some_and(|mediation| mediation.regressed == MediationTarget::Targets)
}

/// All parameters of a process with their priors, and the number of them, which come first, that are not of
/// the mediation.
pub(super) fn hyperparameters(process: &AggregateGaussianProcess) -> (Vec<HyperParameter>, usize) {
    let mediation: Vec<HyperParameter> = process.mediation.iter().flat_map(of_mediation).collect();
    let parameters = process.parameters();
    let n_process = parameters.len() - mediation.len();
    (parameters.into_iter().take(n_process).map(default_prior).chain(mediation).collect(), n_process)
}

/// All parameters of a regression on mediators.
fn of_mediation(mediation: &Mediation) -> Vec<HyperParameter> {
    let near = |p: Parameter| {
        if is_length(&p) { HyperParameter::with_normal_prior(p, 0.8) } else { default_prior(p) }
    };
    let mut coordinates: Vec<HyperParameter> = mediation.parameters().into_iter().map(near).collect();
    // Where rows are regressed the scale of the mediators' kernel is the ridge in disguise.
    if mediation.regressed == MediationTarget::Rows {
        coordinates[0].weak = None;
    }
    coordinates
}

impl Tuning {
    pub(super) fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// Tunes from two starts, `start` and one that is smoother and noisier, and returns the better. Cost:
    /// some tens of evaluations of the marginal likelihood each.
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
                fit,
                steps: 0,
                evaluations: 0,
                warnings: vec![warning],
            });
        }
        let smoother = start.kernel.with_lengthscales_times(3.0).unwrap_or_else(|| start.kernel.clone());
        let mut noisier =
            AggregateGaussianProcess { kernel: smoother, noise: 10.0 * start.noise, ..start.clone() };
        if let Some(mediation) =
            noisier.mediation.as_mut().filter(|mediation| mediation.regressed == MediationTarget::Targets)
        {
            mediation.ridge *= 10.0;
        }
        let mut best: Option<(TuningRun, AggregateGaussianProcess)> = None;
        let (mut steps, mut evaluations) = (0, 0);
        for from in [start, &noisier] {
            let (run, process) = self.run(start, from, data, control)?;
            (steps, evaluations) = (steps + run.steps, evaluations + run.evaluations);
            if best.as_ref().is_none_or(|(best, _)| run.value > best.value) {
                best = Some((run, process));
            }
        }
        let (warnings, process) = match best {
            Some((run, process)) => (run.warnings, process),
            None => (Vec::new(), start.clone()),
        };
        let mut fit = process.fit_until(data, control)?;
        fit.model.model_card.push(CardEntry::new("optimiser steps", steps));
        fit.model.model_card.extend(warnings.iter().map(|w| CardEntry::new("warning", w)));
        Ok(TunedAggregate { process, fit, steps, evaluations, warnings })
    }

    /// One search from `from`, with the priors around `start`.
    fn run(
        &self,
        start: &AggregateGaussianProcess,
        from: &AggregateGaussianProcess,
        data: &Aggregates,
        control: RunControl<'_>,
    ) -> Result<(TuningRun, AggregateGaussianProcess)> {
        let (mut coordinates, n_process) = hyperparameters(start);
        let mut process = from.clone();
        let mut run = TuningRun { value: f64::NEG_INFINITY, steps: 0, evaluations: 0, warnings: Vec::new() };
        let mediated = process.mediation.is_some() && data.bag_of_target.contains(&None);
        let published = self.conventions == Conventions::Published;
        let of_targets = regresses_targets(start);
        let keeps_ridge = published && process.mediation.is_some() && !of_targets;
        if let Some(ridge) = coordinates.last_mut().filter(|_| keeps_ridge) {
            ridge.weak = None;
        }
        let at_once = if of_targets { start.mediation_noise > 0.0 } else { published };
        let by_turns = mediated && !at_once;
        // The regression of targets does not depend on the kernel of rows.
        let rounds = if by_turns && !of_targets { self.rounds.max(1) } else { 1 };
        let free = if mediated && at_once { coordinates.len() } else { n_process };
        for _ in 0..rounds {
            let before = log_parameters(&process);
            if by_turns {
                let mediation_optimum = tune_mediation(&process, &coordinates[n_process..], data, control)?;
                (run.steps, run.evaluations) =
                    (run.steps + mediation_optimum.steps, run.evaluations + mediation_optimum.evaluations);
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
                    let believed: &[HyperParameter] = if published { &[] } else { &coordinates };
                    Ok(add_log_priors(believed, theta, (value, gradient)))
                };
            let optimum = hyperparameter_search::maximise_within_priors(
                &coordinates[..free],
                &log_parameters(&process)[..free],
                control,
                objective,
            )?;
            (run.steps, run.evaluations) = (run.steps + optimum.steps, run.evaluations + optimum.evaluations);
            run.value = optimum.value;
            run.warnings.extend(optimum.warnings);
            process = process.with_parameters(&[&optimum.theta[..], &fixed_values].concat());
            let moved = before
                .iter()
                .zip(log_parameters(&process))
                .fold(0.0, |a: f64, (a0, b)| a.max((a0 - b).abs()));
            if moved < CONVERGED {
                break;
            }
        }
        Ok((run, process))
    }
}

struct TuningRun {
    value: f64,
    steps: usize,
    evaluations: usize,
    warnings: Vec<String>,
}

pub(super) fn log_parameters(process: &AggregateGaussianProcess) -> Vec<f64> {
    process.parameters().iter().map(|p| p.log_value).collect()
}

/// The mediators' parameters: the largest of the weak prior times `loss^(-J/2)`, as if errors of bags were
/// normal with a variance that is not known; where targets are regressed, times their density by that
/// regression alone.
fn tune_mediation(
    process: &AggregateGaussianProcess,
    hyperparameters: &[HyperParameter],
    data: &Aggregates,
    control: RunControl<'_>,
) -> Result<SearchResult> {
    let (Some(mediation), Some(mediators)) = (&process.mediation, &data.mediators) else {
        return hyperparameter_search::maximise_within_priors(&[], &[], control, |_| Ok((0.0, Vec::new())));
    };
    if mediation.regressed == MediationTarget::Targets {
        let start: Vec<f64> = mediation.parameters().iter().map(|p| p.log_value).collect();
        let variance = if process.normalize_y { data.target_variance()? } else { 1.0 };
        return hyperparameter_search::maximise_within_priors(hyperparameters, &start, control, |theta| {
            let candidate = mediation.with_parameters(theta);
            let evidence = mediator_regression::log_evidence(&candidate, data, variance, process.prior_mean)?;
            Ok(add_log_priors(hyperparameters, theta, evidence))
        });
    }
    let gram = bag_mean_gram(&process.kernel, data, control)?;
    tune_mediation_by_loo((mediation, mediators), hyperparameters, &gram, data, control)
}

/// The mediation with the smallest loss on left-out bags; `gram` is between the bags' means.
fn tune_mediation_by_loo(
    (mediation, mediators): (&Mediation, &Mediators),
    hyperparameters: &[HyperParameter],
    gram: &Matrix,
    data: &Aggregates,
    control: RunControl<'_>,
) -> Result<SearchResult> {
    let start: Vec<f64> = mediation.parameters().iter().map(|p| p.log_value).collect();
    maximise_loo_likelihood(hyperparameters, &start, data.bags.count(), control, |theta| {
        mediation.with_parameters(theta).loo_loss(&data.bags, &mediators.bags, gram)
    })
}

/// The largest of the weak priors times `loss^(-J/2)`, as if errors of J bags were normal with a variance
/// that is not known.
pub(super) fn maximise_loo_likelihood(
    hyperparameters: &[HyperParameter],
    start: &[f64],
    bags: usize,
    control: RunControl<'_>,
    loss: impl Fn(&[f64]) -> Result<(f64, Vec<f64>)>,
) -> Result<SearchResult> {
    let half_count = 0.5 * bags as f64;
    hyperparameter_search::maximise_within_priors(hyperparameters, start, control, |theta| {
        let (loss, mut gradient) = loss(theta)?;
        gradient.iter_mut().for_each(|slope| *slope = -half_count * *slope / loss);
        Ok(add_log_priors(hyperparameters, theta, (-half_count * loss.ln(), gradient)))
    })
}

/// The kernel between means of bags, J × J, whatever targets are.
pub(super) fn bag_mean_gram(kernel: &Kernel, data: &Aggregates, control: RunControl<'_>) -> Result<Matrix> {
    Ok(of_means(BagRows::new(&data.rows, data.bags.weights()).gram(kernel, control.stop)?, data))
}

/// The gram matrix of the bags' means, from the covariances U of the bags' sums.
fn of_means(mut gram: Matrix, data: &Aggregates) -> Matrix {
    let j = data.bags.count();
    let sums: Vec<f64> = (0..j).map(|b| data.bags.weights().column(b).map(|(_, w)| w).sum::<f64>()).collect();
    for b in 0..j {
        gram.row_mut(b).iter_mut().zip(&sums).for_each(|(u, sum)| *u /= sum * sums[b]);
    }
    gram
}

/// The regression on mediators as [`Tuning`] chooses it in its turn, by the covariances U of the bags' sums,
/// with what is believed around the first mediation and from where the second is; and what to look at.
pub(super) fn tune_mediators(
    mediation: Option<(&Mediation, &Mediation)>,
    gram: Matrix,
    data: &Aggregates,
    control: RunControl<'_>,
) -> Result<Option<(Mediation, Vec<String>)>> {
    let (Some((start, from)), Some(mediators)) = (mediation, &data.mediators) else { return Ok(None) };
    let coordinates = of_mediation(start);
    let optimum =
        tune_mediation_by_loo((from, mediators), &coordinates, &of_means(gram, data), data, control)?;
    Ok(Some((from.with_parameters(&optimum.theta), optimum.warnings)))
}

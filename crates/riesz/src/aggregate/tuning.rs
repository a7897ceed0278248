//! How the hyper-parameters of a process known by aggregates are chosen.
//!
//! Few targets say little of many parameters, so weak priors hold these near their start. The ridge of
//! mediators is never tuned by the marginal likelihood alone: where the operator shrinks, a larger ridge and
//! a larger scale of f have nearly the same likelihood, and predictions that differ by a factor. Ridge and
//! kernel of the mediators belong to stage 1, and are chosen by how well it predicts bags that it has not
//! seen; that takes turns with the marginal likelihood, which chooses all others. Where it is targets that
//! are regressed on mediators, pseudo-targets have the marginal likelihood of that regression for stage 1,
//! and where bags are tied to it by more than that, all are chosen at once.

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
use crate::explanation::Fact;
use crate::fit::hyperparameter_search::{self, HyperParameter, SearchResult, add_log_priors};
use crate::kernel::{Kernel, Parameter};
use crate::linalg::Matrix;

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

/// Whose conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conventions {
    /// Weak priors around the start: log-normal ones by a factor of e (one standard deviation) for scales,
    /// e^1.5 for noises and the ridge, e^0.8 for length scales of mediators; for other length scales one that
    /// penalises complexity, which makes shorter ones than the start less and less probable and longer ones
    /// hardly (Fuglstad et al. 2019). Mediators by what stage 1 loses on bags that are left out (ours).
    #[default]
    Regularised,
    /// As the source's experiments: the ridge stays as it is, and the marginal likelihood alone chooses all
    /// others.
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

    /// The process that tuning begins with for these data, by kernels of rows and of mediators, if there are
    /// some: with a noise of 0.03 of the targets' variance; not as published, also with noise of rows (0.1)
    /// where the largest bag has more than four times those of the smallest, and of mediation (0.1) where
    /// targets are mediated.
    pub fn start(
        self,
        kernel: Kernel,
        mediators: Option<Kernel>,
        data: &Aggregates,
    ) -> AggregateGaussianProcess {
        let weights = data.bags.weights();
        let sizes = || (0..weights.cols()).map(|b| weights.column(b).count());
        let unequal = sizes().max().unwrap_or(0) > UNEQUAL * sizes().min().unwrap_or(0);
        let own = self == Self::Regularised;
        AggregateGaussianProcess {
            row_noise: if own && unequal { ROW_NOISE } else { 0.0 },
            mediation_noise: if own && data.mediated() > 0 { MEDIATION_NOISE } else { 0.0 },
            mediation: mediators.map(|kernel| self.mediation(kernel)),
            ..AggregateGaussianProcess::new(kernel, TARGET_NOISE)
        }
    }
}

impl AggregateGaussianProcess {
    /// The same with targets [regressed](MediationTarget::Targets) on mediators instead of rows, whose
    /// variance around that begins with 0.1 of the targets'. With `tied` bags are tied to the regression by a
    /// variance of 0.1, the two-sided model; without, its predictions are pseudo-targets. The noise of
    /// targets is 0 where none has rows of its own. Unchanged without
    /// [`mediation`](Self::mediation).
    pub fn regressing_targets(mut self, tied: bool, data: &Aggregates) -> Self {
        if let Some(own) = &mut self.mediation {
            (own.regressed, own.ridge) = (MediationTarget::Targets, MEDIATION_NOISE);
            self.mediation_noise = if tied { MEDIATION_NOISE } else { 0.0 };
            self.noise = if data.mediated() < data.targets.len() { self.noise } else { 0.0 };
        }
        self
    }
}

/// What is tuned, and how long.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// Whose conventions.
    pub conventions: Conventions,
    /// How often stage 1 and the marginal likelihood take turns, at most; 3 by default.
    pub rounds: usize,
    /// Set by another thread to give up.
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
    /// What to look at: parameters that ended at a bound, too few targets.
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
    process.mediation.as_ref().is_some_and(|own| own.regressed == MediationTarget::Targets)
}

/// All parameters of a process, and how many of them, the first, are not the mediation's.
pub(super) fn hyperparameters(process: &AggregateGaussianProcess) -> (Vec<HyperParameter>, usize) {
    let mediation: Vec<HyperParameter> = process.mediation.iter().flat_map(of_mediation).collect();
    let all = process.parameters();
    let own = all.len() - mediation.len();
    (all.into_iter().take(own).map(default_prior).chain(mediation).collect(), own)
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
    pub(super) fn watch(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// Tunes from two starts, `start` and one that is smoother and noisier, and takes the better. Cost: some
    /// tens of evaluations of the marginal likelihood each.
    ///
    /// # Errors
    /// As [`AggregateGaussianProcess::fit`]; [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn tune(&self, start: &AggregateGaussianProcess, data: &Aggregates) -> Result<TunedAggregate> {
        let watch = self.watch();
        if data.targets.len() < MIN_TARGETS {
            let fit = start.fit_until(data, watch)?;
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
        if let Some(own) = noisier.mediation.as_mut().filter(|own| own.regressed == MediationTarget::Targets)
        {
            own.ridge *= 10.0;
        }
        let mut best: Option<(TuningRun, AggregateGaussianProcess)> = None;
        let (mut steps, mut evaluations) = (0, 0);
        for from in [start, &noisier] {
            let (run, process) = self.run(start, from, data, watch)?;
            (steps, evaluations) = (steps + run.steps, evaluations + run.evaluations);
            if best.as_ref().is_none_or(|(best, _)| run.value > best.value) {
                best = Some((run, process));
            }
        }
        let (warnings, process) = match best {
            Some((run, process)) => (run.warnings, process),
            None => (Vec::new(), start.clone()),
        };
        let mut fit = process.fit_until(data, watch)?;
        fit.model.model_card.push(Fact::new("optimiser steps", steps));
        fit.model.model_card.extend(warnings.iter().map(|w| Fact::new("warning", w)));
        Ok(TunedAggregate { process, fit, steps, evaluations, warnings })
    }

    /// From `from`, with the priors around `start`.
    fn run(
        &self,
        start: &AggregateGaussianProcess,
        from: &AggregateGaussianProcess,
        data: &Aggregates,
        watch: RunControl<'_>,
    ) -> Result<(TuningRun, AggregateGaussianProcess)> {
        let (mut coordinates, own) = hyperparameters(start);
        let mut process = from.clone();
        let mut run = TuningRun { value: f64::NEG_INFINITY, steps: 0, evaluations: 0, warnings: Vec::new() };
        let mediated = process.mediation.is_some() && data.own.contains(&None);
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
        let free = if mediated && at_once { coordinates.len() } else { own };
        for _ in 0..rounds {
            let before = log_parameters(&process);
            if by_turns {
                let found = tune_mediation(&process, &coordinates[own..], data, watch)?;
                (run.steps, run.evaluations) = (run.steps + found.steps, run.evaluations + found.evaluations);
                process.mediation = process.mediation.map(|m| m.with_parameters(&found.theta));
                run.warnings = found.warnings;
            } else {
                run.warnings.clear();
            }
            let rest = log_parameters(&process).split_off(free);
            let objective = |theta: &[f64]| {
                let all = [theta, &rest[..]].concat();
                let (value, mut gradient) =
                    process.with_parameters(&all).value_and_gradient(data, free > own, watch)?;
                gradient.truncate(free);
                let believed: &[HyperParameter] = if published { &[] } else { &coordinates };
                Ok(add_log_priors(believed, theta, (value, gradient)))
            };
            let found = hyperparameter_search::maximise_within_priors(
                &coordinates[..free],
                &log_parameters(&process)[..free],
                watch,
                objective,
            )?;
            (run.steps, run.evaluations) = (run.steps + found.steps, run.evaluations + found.evaluations);
            run.value = found.value;
            run.warnings.extend(found.warnings);
            process = process.with_parameters(&[&found.theta[..], &rest].concat());
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
    watch: RunControl<'_>,
) -> Result<SearchResult> {
    let (Some(mediation), Some(mediators)) = (&process.mediation, &data.mediators) else {
        return hyperparameter_search::maximise_within_priors(&[], &[], watch, |_| Ok((0.0, Vec::new())));
    };
    if mediation.regressed == MediationTarget::Targets {
        let start: Vec<f64> = mediation.parameters().iter().map(|p| p.log_value).collect();
        let variance = if process.normalize_y { data.spread()? } else { 1.0 };
        return hyperparameter_search::maximise_within_priors(hyperparameters, &start, watch, |theta| {
            let own = mediation.with_parameters(theta);
            let found = mediator_regression::log_evidence(&own, data, variance, process.prior_mean)?;
            Ok(add_log_priors(hyperparameters, theta, found))
        });
    }
    let gram = bag_mean_gram(&process.kernel, data, watch)?;
    tune_mediation_by_loo((mediation, mediators), hyperparameters, &gram, data, watch)
}

/// By what stage 1 loses on bags that are left out; `gram` is between their means.
fn tune_mediation_by_loo(
    (mediation, mediators): (&Mediation, &Mediators),
    hyperparameters: &[HyperParameter],
    gram: &Matrix,
    data: &Aggregates,
    watch: RunControl<'_>,
) -> Result<SearchResult> {
    let start: Vec<f64> = mediation.parameters().iter().map(|p| p.log_value).collect();
    maximise_loo_likelihood(hyperparameters, &start, data.bags.count(), watch, |theta| {
        mediation.with_parameters(theta).loo_loss(&data.bags, &mediators.bags, gram)
    })
}

/// The largest of the weak priors times `loss^(-J/2)`, as if errors of J bags were normal with a variance
/// that is not known.
pub(super) fn maximise_loo_likelihood(
    hyperparameters: &[HyperParameter],
    start: &[f64],
    bags: usize,
    watch: RunControl<'_>,
    loss: impl Fn(&[f64]) -> Result<(f64, Vec<f64>)>,
) -> Result<SearchResult> {
    let half = 0.5 * bags as f64;
    hyperparameter_search::maximise_within_priors(hyperparameters, start, watch, |theta| {
        let (loss, mut gradient) = loss(theta)?;
        gradient.iter_mut().for_each(|slope| *slope = -half * *slope / loss);
        Ok(add_log_priors(hyperparameters, theta, (-half * loss.ln(), gradient)))
    })
}

/// The kernel between means of bags, J × J, whatever targets are.
pub(super) fn bag_mean_gram(kernel: &Kernel, data: &Aggregates, watch: RunControl<'_>) -> Result<Matrix> {
    Ok(of_means(BagRows::new(&data.rows, data.bags.weights()).gram(kernel, watch.stop)?, data))
}

/// The same of the covariances U of the bags' sums.
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
    watch: RunControl<'_>,
) -> Result<Option<(Mediation, Vec<String>)>> {
    let (Some((start, from)), Some(mediators)) = (mediation, &data.mediators) else { return Ok(None) };
    let coordinates = of_mediation(start);
    let found = tune_mediation_by_loo((from, mediators), &coordinates, &of_means(gram, data), data, watch)?;
    Ok(Some((from.with_parameters(&found.theta), found.warnings)))
}

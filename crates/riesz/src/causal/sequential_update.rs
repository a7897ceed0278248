//! The posterior of an effect after trials of some treatments. The posterior given the studies is the prior,
//! which is conditioned on the trials.
//!
//! Let m and κ be the mean and the covariance function of the effect given the studies. The outcome of a
//! trial with treatments x is `y = g(x) + e`, where g is the effect plus a discrepancy of the causal model,
//! and e is noise:
//!
//! ```text
//! g ~ GP(m, κ + δ² exp(-r²/2ℓ²))        e ~ N(0, σ²)
//! ```
//!
//! The conditioning on trials is exact. For a mixture over hyper-parameters, m and κ are the moments of the
//! mixture, and trials change the means linearly. Draws could be weighted by the likelihood of the trials
//! instead. With few draws, however, one draw soon has all the weight, and the variance ignores the
//! uncertainty of hyper-parameters.
//!
//! Distances r are in ranges of the first study's treatments, with 1 between two levels. δ² is 5 % of the
//! variance of the effect over these treatments. From the fourth trial on, ℓ, δ² and σ² maximise the evidence
//! of all trials times weakly informative log-normal priors, over a grid. δ² can only grow, and a given σ² is
//! fixed.
//!
//! Source: Chau 2023 (thesis), section 4.4; the discrepancy (Kennedy and O'Hagan 2001) is ours. Published
//! priors are available for comparison.

use super::effect::{Effect, EffectEstimate};
use super::effect_prior::EffectPrior;
use super::uncertainty_parts::DataSupport;
use crate::error::{Error, Result, sized};
use crate::gp::exact::LeastSquaresMean;
use crate::linalg::{Cholesky, Matrix, dot, mean, min_max};
use crate::table::{Column, ColumnKind, Table};

/// Trials: treatments and their measured outcomes.
#[derive(Debug, Clone)]
pub struct Trials {
    /// The columns of the effect's treatments, one row per trial.
    pub treatments: Table,
    /// The measured outcomes, one number per trial.
    pub outcomes: Vec<f64>,
    /// The noise variance of each outcome, 0 for exact outcomes; `None` for a common variance that is
    /// estimated.
    pub noise: Option<Vec<f64>>,
}

/// Hyper-parameters of the discrepancy and the noise of trials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscrepancyParameters {
    /// The variance of the stationary part: δ² of the discrepancy, or s² of a flat prior.
    pub variance: f64,
    /// The length scale ℓ, in ranges of the first study's treatments.
    pub length_scale: f64,
    /// The noise variance σ², used where the trials do not give variances.
    pub noise: f64,
}

/// The posterior of an effect after some trials.
#[derive(Debug, Clone)]
pub struct UpdatedEffect<'a> {
    effect: &'a Effect,
    prior: EffectPrior,
    trials: Trials,
    /// The ranges of the treatments, infinite for categorical treatments.
    ranges: Vec<f64>,
    parameters: DiscrepancyParameters,
    trial_fit: Option<TrialFit>,
}

/// The factorisation and the evidence of the trials at one set of parameters.
#[derive(Debug, Clone)]
struct TrialFit {
    factor: Cholesky,
    /// The estimated constant of a flat prior's mean, 0 for other priors.
    constant: f64,
    coefficients: Vec<f64>,
    evidence: f64,
}

/// The posterior of the effect of some treatments.
#[derive(Debug, Clone)]
pub struct EffectPosterior {
    /// The posterior mean, one number per row of treatments.
    pub mean: Vec<f64>,
    /// The joint posterior covariance (rows × rows).
    pub covariance: Matrix,
    /// The support of each row by the studies.
    pub support: Vec<DataSupport>,
}

/// δ² as a share of the variance of the effect.
const DISCREPANCY_SHARE: f64 = 0.05;
/// Length scale and noise until there are enough trials to estimate them: a quarter of the range, and 1 % of
/// the variance of the effect.
const LENGTH_SCALE: f64 = 0.25;
const START_NOISE: f64 = 0.01;
/// The number of trials from which hyper-parameters are estimated.
const MIN_TUNING_TRIALS: usize = 4;
/// The grid of the estimation: factors of the variance (`DISCREPANCY_FACTORS` where the stationary part is a
/// discrepancy, and `VARIANCE_FACTORS` otherwise), length scales and noises.
const DISCREPANCY_FACTORS: [f64; 3] = [1.0, 4.0, 16.0];
const VARIANCE_FACTORS: [f64; 5] = [1.0, 0.25, 4.0, 0.0625, 16.0];
const LENGTH_SCALES: [f64; 9] = [0.25, 0.05, 0.075, 0.11, 0.17, 0.37, 0.55, 0.8, 1.2];
const NOISES: [f64; 6] = [0.01, 1e-4, 1e-3, 0.05, 0.2, 0.8];
/// The prior standard deviations of the logarithms of factor, length scale and noise.
const PRIOR_SDS: [f64; 3] = [2.0, 1.0, 2.0];
/// The number of rows of the first study that determine the effect's variance, and of rows evaluated at a
/// time.
const CHUNK_ROWS: usize = 64;

impl<'a> UpdatedEffect<'a> {
    /// Conditions the prior on trials. Cost: n³ for n trials and each point of the grid, in addition to the
    /// cost of evaluating the effect.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Shape`]; [`Error::Parameter`] for outcomes that are not finite
    /// numbers, noises that are not variances, and exact outcomes of one treatment that differ.
    pub fn new(effect: &'a Effect, trials: &Trials, prior: EffectPrior) -> Result<Self> {
        let points = effect.treatments();
        let treatments = trials.treatments.align_to(points.columns())?;
        let n = treatments.rows();
        sized("outcomes", "numbers", n, trials.outcomes.len(), "one per trial")?;
        if let Some(outcome) = trials.outcomes.iter().find(|v| !v.is_finite()) {
            return Err(Error::parameter(
                "outcome of a trial",
                outcome,
                "it is a finite number: leave the trial out",
            ));
        }
        if let Some(noise) = &trials.noise {
            sized("noises", "numbers", n, noise.len(), "one per trial")?;
            let allowed = "it is a variance, 0 or more";
            noise.iter().try_for_each(|v| crate::checks::not_negative("noise of a trial", *v, allowed))?;
            let exact: Vec<usize> = (0..n).filter(|&i| noise[i] == 0.0).collect();
            let differs = |i: usize, j: usize| {
                treatments.row(i) == treatments.row(j) && trials.outcomes[i] != trials.outcomes[j]
            };
            let pair = exact.iter().enumerate().find_map(|(k, &i)| {
                exact[..k].iter().find(|&&j| differs(i, j)).map(|&j| (trials.outcomes[j], trials.outcomes[i]))
            });
            if let Some((first_outcome, other)) = pair {
                let allowed = "they are given as exact, and differ: give them a noise variance above 0";
                let both_outcomes = format!("{first_outcome} and {other}");
                return Err(Error::parameter("outcomes of trials of one treatment", both_outcomes, allowed));
            }
        }
        let ranges = points.columns().iter().enumerate().map(|(j, column)| match column.kind {
            ColumnKind::Numeric => {
                let (low, high) = min_max(points.column(j));
                if high > low { high - low } else { 1.0 }
            }
            ColumnKind::Categorical { .. } => f64::INFINITY,
        });
        let studied_estimate =
            effect.evaluate(&points.select_rows(&points.sample_rows(CHUNK_ROWS.min(points.rows()), 0)))?;
        let scale = effect_variance(&studied_estimate);
        let share = if prior.is_causal() { DISCREPANCY_SHARE } else { 1.0 };
        let start = DiscrepancyParameters {
            variance: share * scale,
            length_scale: LENGTH_SCALE,
            noise: START_NOISE * scale,
        };
        let trials = Trials { treatments, ..trials.clone() };
        let mut updated =
            Self { effect, prior, trials, ranges: ranges.collect(), parameters: start, trial_fit: None };
        if n > 0 {
            updated.estimate_parameters()?;
        }
        Ok(updated)
    }

    /// Returns the hyper-parameters.
    pub fn parameters(&self) -> DiscrepancyParameters {
        self.parameters
    }

    /// Returns the treatments of the trials.
    pub fn trials(&self) -> &Table {
        &self.trials.treatments
    }

    /// Returns the columns of the treatments.
    pub(super) fn columns(&self) -> &[Column] {
        self.trials.treatments.columns()
    }

    /// Returns the posterior of the effect of these treatments. Cost for n trials and q rows: O(n q (n + q)),
    /// in addition to the cost of evaluating the effect.
    ///
    /// # Errors
    /// As [`Effect::evaluate`].
    pub fn evaluate(&self, treatments: &Table) -> Result<EffectPosterior> {
        let rows = treatments.align_to(self.columns())?;
        let trials_and_rows = self.trials.treatments.stack(&rows)?;
        let estimate = self.effect.evaluate(&trials_and_rows)?;
        let (prior_mean, covariance) = self.prior.moments(&estimate, self.effect.constant());
        let (n, q) = (self.trials.outcomes.len(), rows.rows());
        let prior_covariance = self.with_stationary(&trials_and_rows, &covariance, self.parameters);
        let mut mean = prior_mean[n..].to_vec();
        let mut posterior_covariance = prior_covariance.block(n..n + q, n..n + q);
        if let Some(trial_fit) = &self.trial_fit {
            let mut whitened = prior_covariance.block(0..n, n..n + q);
            let mean_shift = whitened.transpose().matvec(&trial_fit.coefficients);
            mean.iter_mut().zip(mean_shift).for_each(|(m, v)| *m += trial_fit.constant + v);
            trial_fit.factor.solve_lower_in_place(&mut whitened);
            posterior_covariance.add_times(-1.0, &whitened.transpose().matmul(&whitened));
        }
        Ok(EffectPosterior {
            mean,
            covariance: posterior_covariance,
            support: estimate.support[n..].to_vec(),
        })
    }

    /// Returns the posterior mean, standard deviation and support of each of these treatments. Suited to many
    /// treatments, because it computes no joint covariance of all rows.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate).
    pub fn marginals(&self, treatments: &Table) -> Result<(Vec<f64>, Vec<f64>, Vec<DataSupport>)> {
        let (mut mean, mut sd, mut support) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in treatments.chunks(CHUNK_ROWS) {
            let posterior = self.evaluate(&chunk)?;
            mean.extend(posterior.mean);
            sd.extend(posterior.covariance.standard_deviations());
            support.extend(posterior.support);
        }
        Ok((mean, sd, support))
    }

    /// Returns the posterior means at the trials; empty without trials.
    pub(super) fn means_at_trials(&self) -> Vec<f64> {
        let Some(trial_fit) = &self.trial_fit else { return Vec::new() };
        let noises = self.noises(self.parameters);
        let outcomes = self.trials.outcomes.iter();
        outcomes
            .zip(noises)
            .zip(&trial_fit.coefficients)
            .map(|((y, noise), coefficient)| y - noise * coefficient)
            .collect()
    }

    /// Returns the posterior after a further trial of `row` with the fantasised `outcome`. Its noise variance
    /// is the mean of the given variances.
    pub(super) fn fantasy_update(&self, row: &Table, outcome: f64) -> Result<Self> {
        let mut next = self.clone();
        next.trials.treatments = self.trials.treatments.stack(row)?;
        next.trials.outcomes.push(outcome);
        if let Some(noise) = &mut next.trials.noise {
            let mean_noise = noise.iter().sum::<f64>() / noise.len().max(1) as f64;
            noise.push(mean_noise);
        }
        let trial_fit = next.condition(&next.prior_at_trials()?, next.parameters)?;
        next.trial_fit = Some(trial_fit);
        Ok(next)
    }

    /// Returns the prior mean and covariance of the effect at the trials.
    fn prior_at_trials(&self) -> Result<(Vec<f64>, Matrix)> {
        Ok(self.prior.moments(&self.effect.evaluate(&self.trials.treatments)?, self.effect.constant()))
    }

    /// Estimates the hyper-parameters if there are enough trials, and conditions on the trials.
    fn estimate_parameters(&mut self) -> Result<()> {
        let prior = self.prior_at_trials()?;
        let start = self.parameters;
        let start_fit = self.condition(&prior, start)?;
        let mut best = (start_fit.evidence, start, start_fit);
        if self.trials.outcomes.len() >= MIN_TUNING_TRIALS {
            let factors: &[f64] =
                if self.prior.is_causal() { &DISCREPANCY_FACTORS } else { &VARIANCE_FACTORS };
            let noises: &[f64] = if self.trials.noise.is_none() { &NOISES } else { &NOISES[..1] };
            let log_prior = |value: f64, from: f64, sd: f64| -0.5 * ((value / from).ln() / sd).powi(2);
            for &factor in factors {
                for &length_scale in &LENGTH_SCALES {
                    for &noise in noises {
                        let parameters = DiscrepancyParameters {
                            variance: factor * start.variance,
                            length_scale,
                            noise: noise / START_NOISE * start.noise,
                        };
                        let Ok(trial_fit) = self.condition(&prior, parameters) else { continue };
                        let log_posterior = trial_fit.evidence
                            + log_prior(factor, 1.0, PRIOR_SDS[0])
                            + log_prior(length_scale, LENGTH_SCALE, PRIOR_SDS[1])
                            + log_prior(noise, START_NOISE, PRIOR_SDS[2]);
                        if log_posterior > best.0 {
                            best = (log_posterior, parameters, trial_fit);
                        }
                    }
                }
            }
        }
        (self.parameters, self.trial_fit) = (best.1, Some(best.2));
        Ok(())
    }

    fn condition(
        &self,
        (mean, covariance): &(Vec<f64>, Matrix),
        parameters: DiscrepancyParameters,
    ) -> Result<TrialFit> {
        let mut gram = self.with_stationary(&self.trials.treatments, covariance, parameters);
        let noises = self.noises(parameters);
        gram.add_diagonal(|i| noises[i]);
        let factor = Cholesky::new(gram, "covariance of the trials")?;
        let mut residual: Vec<f64> = self.trials.outcomes.iter().zip(mean).map(|(y, m)| y - m).collect();
        let mut constant = 0.0;
        if self.prior == EffectPrior::Flat {
            // Generalised least squares.
            let constant_response = vec![1.0; residual.len()];
            constant = LeastSquaresMean::new(|v| factor.solve_vector(v), &constant_response, &residual).mean;
            residual.iter_mut().for_each(|entry| *entry -= constant);
        }
        let coefficients = factor.solve_vector(&residual);
        let evidence = -0.5 * (dot(&residual, &coefficients) + factor.log_det());
        Ok(TrialFit { factor, constant, coefficients, evidence })
    }

    fn noises(&self, parameters: DiscrepancyParameters) -> Vec<f64> {
        let n = self.trials.outcomes.len();
        self.trials.noise.clone().unwrap_or_else(|| vec![parameters.noise; n])
    }

    /// Returns `covariance` of these rows plus the covariance of the stationary part.
    fn with_stationary(
        &self,
        rows: &Table,
        covariance: &Matrix,
        parameters: DiscrepancyParameters,
    ) -> Matrix {
        let mut gram = covariance.clone();
        for i in 0..rows.rows() {
            for j in 0..rows.rows() {
                let square: f64 = (0..rows.width())
                    .map(|c| {
                        let (a, b) = (rows.get(i, c), rows.get(j, c));
                        let range = self.ranges[c];
                        if range.is_finite() {
                            ((a - b) / range).powi(2)
                        } else {
                            f64::from(u8::from(a != b))
                        }
                    })
                    .sum();
                gram[(i, j)] += parameters.variance * (-0.5 * square / parameters.length_scale.powi(2)).exp();
            }
        }
        gram
    }
}

/// Returns the variance of an effect over rows: the variance of its mean plus its mean posterior variance.
fn effect_variance(estimate: &EffectEstimate) -> f64 {
    let n = estimate.mean.len() as f64;
    let overall_mean = mean(&estimate.mean);
    let variance_of_means = estimate.mean.iter().map(|m| (m - overall_mean).powi(2)).sum::<f64>() / n;
    variance_of_means + estimate.covariance.trace() / n
}

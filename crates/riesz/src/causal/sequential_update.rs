//! What is believed of an effect once some treatments were tried: the effect that studies tell is the prior,
//! and trials are what it is conditioned on.
//!
//! With mean m and covariance κ of the effect, a discrepancy of the causal model, and noise of trials,
//! `y = g(x) + e`,
//!
//! ```text
//! g ~ GP(m, κ + δ² exp(-r²/2ℓ²))        e ~ N(0, σ²)
//! ```
//!
//! which is conditioned exactly. Of a mixture over hyper-parameters m and κ are the moments, so that trials
//! move the draws' means as far as a linear predictor does. Each draw could instead be weighed by the
//! likelihood of the trials; among a few draws one soon has all weight, and is as sure as if its numbers were
//! known. Distances r are in ranges of the first study's treatments, with 1 between two levels. δ² is 5 % of
//! the variance of the effect there; from the fourth trial on ℓ, a larger δ² and σ², where it is not given,
//! maximise the evidence of all trials with weak log-normal priors, over a grid. Source: Chau 2023 (thesis),
//! section 4.4; the discrepancy (Kennedy and O'Hagan 2001) is ours. Beside it are published priors, to be
//! compared with.

use super::effect::{Effect, Told};
use super::effect_prior::EffectPrior;
use super::support::DataSupport;
use crate::error::{Error, Result, sized};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::{Column, ColumnKind, Table};

/// Treatments that were tried.
#[derive(Debug, Clone)]
pub struct Trials {
    /// A row each, of the columns of the effect's treatments.
    pub treatments: Table,
    /// What was measured, one number each.
    pub outcomes: Vec<f64>,
    /// The variance of each about the effect, 0 for exact ones; `None` for one of all that is estimated.
    pub noise: Option<Vec<f64>>,
}

/// The numbers of the process beside the effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiscrepancyParameters {
    /// δ² or s².
    pub variance: f64,
    /// ℓ, in ranges of the first study's treatments.
    pub lengthscale: f64,
    /// σ² where it is estimated.
    pub noise: f64,
}

/// What is believed of an effect after some trials.
#[derive(Debug, Clone)]
pub struct UpdatedEffect<'a> {
    effect: &'a Effect,
    prior: EffectPrior,
    trials: Trials,
    /// Ranges of treatments, infinite for categorical ones.
    ranges: Vec<f64>,
    parameters: DiscrepancyParameters,
    known: Option<TrialFit>,
}

/// What trials say.
#[derive(Debug, Clone)]
struct TrialFit {
    factor: Cholesky,
    /// Constant of the mean that is estimated.
    constant: f64,
    solved: Vec<f64>,
    evidence: f64,
}

/// What is believed of the effect of some treatments.
#[derive(Debug, Clone)]
pub struct EffectPosterior {
    /// Its mean.
    pub mean: Vec<f64>,
    /// The covariance of that, jointly.
    pub covariance: Matrix,
    /// How the studies stand to each.
    pub standing: Vec<DataSupport>,
}

/// δ² of the variance of the effect.
const DISCREPANCY: f64 = 0.05;
/// What is taken before there are trials to tell: a quarter of the range, and 1 % of the variance of the
/// effect.
const LENGTHSCALE: f64 = 0.25;
const START_NOISE: f64 = 0.01;
/// Trials from which on numbers are estimated.
const ENOUGH: usize = 4;
/// What is estimated: factors of the variances, by whether the stationary part is a discrepancy; length
/// scales; noises.
const LARGER: [f64; 3] = [1.0, 4.0, 16.0];
const VARIANCES: [f64; 5] = [1.0, 0.25, 4.0, 0.0625, 16.0];
const LENGTHSCALES: [f64; 9] = [0.25, 0.05, 0.075, 0.11, 0.17, 0.37, 0.55, 0.8, 1.2];
const NOISES: [f64; 6] = [0.01, 1e-4, 1e-3, 0.05, 0.2, 0.8];
/// Standard deviations of the logarithms of these by their priors.
const SPREADS: [f64; 3] = [2.0, 1.0, 2.0];
/// Rows of the first study by which the effect's variance is taken, and rows that are told at a time.
const ROWS: usize = 64;

impl<'a> UpdatedEffect<'a> {
    /// Conditions the prior on trials. Cost for n of these and each number of the grid n³ besides that of the
    /// effect.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Shape`]; [`Error::Parameter`] for outcomes that are not finite
    /// numbers and noises that are no variances.
    pub fn new(effect: &'a Effect, trials: &Trials, prior: EffectPrior) -> Result<Self> {
        let points = effect.treatments();
        let treatments = trials.treatments.align_to(points.columns())?;
        let n = treatments.rows();
        sized("outcomes", "numbers", n, trials.outcomes.len(), "one a trial")?;
        if let Some(bad) = trials.outcomes.iter().find(|v| !v.is_finite()) {
            return Err(Error::parameter(
                "outcome of a trial",
                bad,
                "it is a finite number: leave the trial out",
            ));
        }
        if let Some(noise) = &trials.noise {
            sized("noises", "numbers", n, noise.len(), "one a trial")?;
            if let Some(bad) = noise.iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
                return Err(Error::parameter("noise of a trial", bad, "it is a variance, 0 or more"));
            }
            let exact: Vec<usize> = (0..n).filter(|&i| noise[i] == 0.0).collect();
            let differs = |i: usize, j: usize| {
                treatments.row(i) == treatments.row(j) && trials.outcomes[i] != trials.outcomes[j]
            };
            let pair = exact.iter().enumerate().find_map(|(k, &i)| {
                exact[..k].iter().find(|&&j| differs(i, j)).map(|&j| (trials.outcomes[j], trials.outcomes[i]))
            });
            if let Some((one, other)) = pair {
                let allowed = "they are given as exact, and differ: say how far outcomes are from the effect";
                let both = format!("{one} and {other}");
                return Err(Error::parameter("outcomes of trials of one treatment", both, allowed));
            }
        }
        let ranges = points.columns().iter().enumerate().map(|(j, column)| match column.kind {
            ColumnKind::Numeric => {
                let (low, high) = min_max(points.column(j));
                if high > low { high - low } else { 1.0 }
            }
            ColumnKind::Categorical { .. } => f64::INFINITY,
        });
        let seen = effect.at(&points.select_rows(&points.sample_rows(ROWS.min(points.rows()), 0)))?;
        let scale = effect_variance(&seen);
        let share = if prior.is_causal() { DISCREPANCY } else { 1.0 };
        let start = DiscrepancyParameters {
            variance: share * scale,
            lengthscale: LENGTHSCALE,
            noise: START_NOISE * scale,
        };
        let trials = Trials { treatments, ..trials.clone() };
        let mut own =
            Self { effect, prior, trials, ranges: ranges.collect(), parameters: start, known: None };
        if n > 0 {
            own.estimate_parameters()?;
        }
        Ok(own)
    }

    /// The numbers of the process.
    pub fn parameters(&self) -> DiscrepancyParameters {
        self.parameters
    }

    /// The treatments that were tried.
    pub fn trials(&self) -> &Table {
        &self.trials.treatments
    }

    /// The columns of treatments.
    pub(super) fn columns(&self) -> &[Column] {
        self.trials.treatments.columns()
    }

    /// What is believed of these treatments. Cost for n trials and q rows O(n q (n + q)) besides that of the
    /// effect.
    ///
    /// # Errors
    /// As [`Effect::at`].
    pub fn at(&self, treatments: &Table) -> Result<EffectPosterior> {
        let rows = treatments.align_to(self.columns())?;
        let both = self.trials.treatments.stack(&rows)?;
        let told = self.effect.at(&both)?;
        let (prior, covariance) = self.prior.moments(&told, self.effect.constant());
        let (n, q) = (self.trials.outcomes.len(), rows.rows());
        let all = self.with_stationary(&both, &covariance, self.parameters);
        let mut mean = prior[n..].to_vec();
        let mut left = Matrix::zeros(q, q);
        for i in 0..q {
            left.row_mut(i).copy_from_slice(&all.row(n + i)[n..]);
        }
        if let Some(known) = &self.known {
            let mut half = Matrix::zeros(n, q);
            for i in 0..n {
                half.row_mut(i).copy_from_slice(&all.row(i)[n..]);
            }
            let moved = half.transpose().matvec(&known.solved);
            mean.iter_mut().zip(moved).for_each(|(m, v)| *m += known.constant + v);
            known.factor.solve_lower_in_place(&mut half);
            let taken = half.transpose().matmul(&half);
            left.data_mut().iter_mut().zip(taken.data()).for_each(|(all, own)| *all -= own);
        }
        Ok(EffectPosterior { mean, covariance: left, standing: told.standing[n..].to_vec() })
    }

    /// Means, standard deviations, and how the studies stand to each of these treatments, of which there may
    /// be many.
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub fn marginals(&self, treatments: &Table) -> Result<(Vec<f64>, Vec<f64>, Vec<DataSupport>)> {
        let (mut mean, mut sd, mut standing) = (Vec::new(), Vec::new(), Vec::new());
        let rows: Vec<usize> = (0..treatments.rows()).collect();
        for chunk in rows.chunks(ROWS) {
            let own = self.at(&treatments.select_rows(chunk))?;
            mean.extend(own.mean);
            sd.extend((0..chunk.len()).map(|i| own.covariance[(i, i)].max(0.0).sqrt()));
            standing.extend(own.standing);
        }
        Ok((mean, sd, standing))
    }

    /// The means at the trials; none if there are none.
    pub(super) fn means_at_trials(&self) -> Vec<f64> {
        let Some(known) = &self.known else { return Vec::new() };
        let noises = self.noises(self.parameters);
        let outcomes = self.trials.outcomes.iter();
        outcomes.zip(noises).zip(&known.solved).map(|((y, noise), own)| y - noise * own).collect()
    }

    /// After a trial that turns out as it is expected to.
    pub(super) fn fantasy_update(&self, row: &Table, outcome: f64) -> Result<Self> {
        let mut next = self.clone();
        next.trials.treatments = self.trials.treatments.stack(row)?;
        next.trials.outcomes.push(outcome);
        if let Some(noise) = &mut next.trials.noise {
            let typical = noise.iter().sum::<f64>() / noise.len().max(1) as f64;
            noise.push(typical);
        }
        let known = next.condition(&next.tried_prior()?, next.parameters)?;
        next.known = Some(known);
        Ok(next)
    }

    /// Mean and covariance of the trials by the effect.
    fn tried_prior(&self) -> Result<(Vec<f64>, Matrix)> {
        Ok(self.prior.moments(&self.effect.at(&self.trials.treatments)?, self.effect.constant()))
    }

    /// Estimates what is not given, and conditions.
    fn estimate_parameters(&mut self) -> Result<()> {
        let prior = self.tried_prior()?;
        let start = self.parameters;
        let mut best = (start, self.condition(&prior, start)?);
        if self.trials.outcomes.len() >= ENOUGH {
            let factors: &[f64] = if self.prior.is_causal() { &LARGER } else { &VARIANCES };
            let noises: &[f64] = if self.trials.noise.is_none() { &NOISES } else { &NOISES[..1] };
            let away = |value: f64, from: f64, spread: f64| -0.5 * ((value / from).ln() / spread).powi(2);
            let mut highest = best.1.evidence;
            for (&factor, &lengthscale, &noise) in factors
                .iter()
                .flat_map(|a| LENGTHSCALES.iter().flat_map(move |b| noises.iter().map(move |c| (a, b, c))))
            {
                let numbers = DiscrepancyParameters {
                    variance: factor * start.variance,
                    lengthscale,
                    noise: noise / START_NOISE * start.noise,
                };
                let Ok(known) = self.condition(&prior, numbers) else { continue };
                let height = known.evidence
                    + away(factor, 1.0, SPREADS[0])
                    + away(lengthscale, LENGTHSCALE, SPREADS[1])
                    + away(noise, START_NOISE, SPREADS[2]);
                if height > highest {
                    (highest, best) = (height, (numbers, known));
                }
            }
        }
        (self.parameters, self.known) = (best.0, Some(best.1));
        Ok(())
    }

    fn condition(
        &self,
        (mean, covariance): &(Vec<f64>, Matrix),
        numbers: DiscrepancyParameters,
    ) -> Result<TrialFit> {
        let mut all = self.with_stationary(&self.trials.treatments, covariance, numbers);
        let noises = self.noises(numbers);
        all.add_diagonal(|i| noises[i]);
        let factor = Cholesky::new(all, "covariance of the trials")?;
        let mut off: Vec<f64> = self.trials.outcomes.iter().zip(mean).map(|(y, m)| y - m).collect();
        let mut constant = 0.0;
        if self.prior == EffectPrior::Flat {
            // By generalised least squares.
            let ones = factor.solve_vector(&vec![1.0; off.len()]);
            constant = dot(&ones, &off) / ones.iter().sum::<f64>();
            off.iter_mut().for_each(|own| *own -= constant);
        }
        let solved = factor.solve_vector(&off);
        let evidence = -0.5 * (dot(&off, &solved) + factor.log_det());
        Ok(TrialFit { factor, constant, solved, evidence })
    }

    fn noises(&self, numbers: DiscrepancyParameters) -> Vec<f64> {
        let n = self.trials.outcomes.len();
        self.trials.noise.clone().unwrap_or_else(|| vec![numbers.noise; n])
    }

    /// The covariance of rows with the stationary part.
    fn with_stationary(&self, rows: &Table, covariance: &Matrix, numbers: DiscrepancyParameters) -> Matrix {
        let mut all = covariance.clone();
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
                all[(i, j)] += numbers.variance * (-0.5 * square / numbers.lengthscale.powi(2)).exp();
            }
        }
        all
    }
}

/// The least and the largest.
pub(super) fn min_max(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
}

/// The variance of an effect over rows: of its mean, and what is open on average.
fn effect_variance(told: &Told) -> f64 {
    let n = told.mean.len() as f64;
    let middle = told.mean.iter().sum::<f64>() / n;
    let moved = told.mean.iter().map(|m| (m - middle).powi(2)).sum::<f64>() / n;
    moved + (0..told.mean.len()).map(|i| told.covariance[(i, i)]).sum::<f64>() / n
}

//! How the numbers of an effect are chosen: by what the last study's rows say of its own, and then, study by
//! study, by how well rows tell what the outcome is at their mediators.
//!
//! The best numbers are too sure of themselves, and an effect is a mixture over draws of them: as few rows
//! tell length scales apart, that widens bands by a sixth and more where rows are few.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::conditional_regression::EmbeddingRegression;
use super::defaults::{
    MAX_TUNING_ROWS, START_RIDGE, default_kernel, default_prior, evenly_spaced, gp_hyperparameters,
    start_rows,
};
use super::effect::{Effect, Model};
use super::outcome_gp::OutcomeGpParameters;
use super::positivity::{Positivity, TreatmentOverlap};
use super::product_kernel::{self, Block};
use super::studies::{IdentificationRoute, Studies, Study, StudyParameters};
use super::study_chain::{Link, Outcome};
use super::study_landmarks::StudyLandmarks;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::fit::hyperparameter_average::HyperPosterior;
use crate::fit::hyperparameter_search::{self, HyperParameter, SearchResult, add_log_priors};
use crate::kernel::mean_variance;
use crate::linalg::Matrix;
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, hash};
use crate::table::Table;

/// How an effect is learnt.
#[derive(Debug, Clone)]
pub struct Fusion {
    /// The effect is a mixture over so many draws of all kernels, noises and ridges; 0 for the best ones
    /// alone.
    pub draws: usize,
    /// Seed of these.
    pub seed: u64,
    /// Variance of the outcome's constant, in units of the outcome's own.
    pub level: f64,
    /// Whether it counts who happens to be in the studies.
    pub adjustment: bool,
    /// Studies of more rows are known through so many landmarks, and so is the study after such a one; `None`
    /// for 500 where there are more than 3,000. Studies that share covariates that the outcome depends on
    /// take all rows.
    pub landmarks: Option<usize>,
    /// Set by another thread to give up.
    pub stop: Arc<AtomicBool>,
    /// Read by another thread to see how far it is: evaluations.
    pub progress: Arc<Progress>,
}

impl Default for Fusion {
    fn default() -> Self {
        let (stop, progress) = (Arc::default(), Arc::default());
        Self { draws: 16, seed: 0, level: 1.0, adjustment: true, landmarks: None, stop, progress }
    }
}

/// Tuning starts at the columns' standard deviations as length scales, and at these divided by 2, 4 and 8:
/// rough outcomes have several modes.
const STARTS: [f64; 4] =
    [0.0, std::f64::consts::LN_2, 2.0 * std::f64::consts::LN_2, 3.0 * std::f64::consts::LN_2];

/// Draws from the mixture of which one in so many is taken, and at least how many.
const EACH: usize = 4;
const LEAST: usize = 64;

/// An evidence and its slopes.
type Evidence<'a> = &'a dyn Fn(&[f64]) -> Result<(f64, Vec<f64>)>;

/// What hyper-parameters are chosen by.
struct Likelihood<'a> {
    of_all: Evidence<'a>,
    /// Of some of the rows.
    of_few: Evidence<'a>,
    /// Without slopes, of all.
    value: &'a dyn Fn(&[f64]) -> Result<f64>,
    /// Whether these are fewer.
    few: bool,
}

impl Fusion {
    /// Learns the effect.
    ///
    /// Cost some hundred evaluations n³ for n rows of a study, at most 1,000 of which hyper-parameters are
    /// learnt from, and n³ a draw, or n m² through m landmarks; memory four n² numbers a draw and study, or n
    /// m.
    ///
    /// # Errors
    /// As [`Studies::effect`]; [`Error::Target`] for an outcome that is constant; [`Error::Parameter`] for
    /// more draws than memory holds; [`Error::Interrupted`].
    pub fn fit(&self, studies: &Studies) -> Result<Effect> {
        studies.check()?;
        if !(self.level.is_finite() && self.level >= 0.0) {
            return Err(Error::parameter("level", self.level, "variances are not negative"));
        }
        let landmarks = StudyLandmarks::new(studies, self.landmarks)?;
        crate::memory::check_allocation("draws", self.draws.max(1), landmarks.memory_numbers(studies))?;
        let (found, mut effective) = self.of_outcome(&studies.points, &studies.outcome)?;
        let mut outcomes: Vec<Outcome> =
            found.iter().map(|own| studies.fit_outcome(own, &landmarks)).collect::<Result<_>>()?;
        let mut links: Vec<Link> = Vec::new();
        for (s, study) in studies.studies.iter().enumerate().rev() {
            // By the first draw of what comes after; draws of both go together by chance.
            let next = studies.studies.get(s + 1).map_or(&studies.points, |next| &next.treatments);
            let seed = hash([self.seed, 1 + s as u64]);
            let (chosen, own) = self.of_study((study, next), &outcomes[0], seed)?;
            effective = effective.min(own);
            let each = std::mem::take(&mut outcomes).into_iter().zip(chosen.iter().cycle());
            links = each
                .map(|(outcome, own)| {
                    self.watch().check_cancelled()?;
                    studies.fit_link(s, own, self.adjustment, outcome, &landmarks)
                })
                .collect::<Result<_>>()?;
            if s > 0 {
                outcomes = links.drain(..).map(|link| Outcome::Link(Box::new(link))).collect();
            }
        }
        let overlap = match &studies.studies[0] {
            Study { treatments, route: IdentificationRoute::BackDoor(others), .. } => {
                let columns = (0..treatments.width()).collect();
                let overlap = TreatmentOverlap::new(treatments, others, self.watch())?;
                vec![Positivity { overlap, columns, rows: None, mediators: None }]
            }
            _ => Vec::new(),
        };
        let weight = 1.0 / links.len() as f64;
        let parts = links.into_iter().map(|own| (weight, Model::Link(Box::new(own))));
        Ok(Effect::new(parts.collect()).with_diagnostics(overlap, effective))
    }

    pub(super) fn watch(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    pub(super) fn of_outcome(
        &self,
        points: &Table,
        outcome: &[f64],
    ) -> Result<(Vec<OutcomeGpParameters>, f64)> {
        let (_, variance) = mean_variance(outcome);
        if variance == 0.0 {
            let problem = "is the same in every row: there is nothing to learn".into();
            return Err(Error::Target { name: "outcome".into(), problem });
        }
        let (coordinates, at) = gp_hyperparameters(points, variance, self.level * variance);
        let some = evenly_spaced(MAX_TUNING_ROWS, outcome.len());
        let (x, t) = (&points.select_rows(&some), some.iter().map(|i| outcome[*i]));
        let t = &t.collect::<Vec<_>>();
        let few = start_rows(t.len());
        let (few_x, few_t) = (x.select_rows(&few), few.iter().map(|i| t[*i]).collect::<Vec<_>>());
        let likelihood = Likelihood {
            of_all: &|theta| at(theta).log_evidence_and_gradient(x, t),
            of_few: &|theta| at(theta).log_evidence_and_gradient(&few_x, &few_t),
            value: &|theta| at(theta).log_evidence(x, t),
            few: few.len() < t.len(),
        };
        let (found, effective) = self.drawn(&coordinates, hash([self.seed, 0]), &likelihood)?;
        Ok((found.iter().map(|theta| at(theta)).collect(), effective))
    }

    /// Kernels and ridges of a study by how well its rows tell what the outcome is at their mediators: the
    /// best, or draws.
    fn of_study(
        &self,
        (study, next): (&Study, &Table),
        outcome: &Outcome,
        seed: u64,
    ) -> Result<(Vec<StudyParameters>, f64)> {
        let some = evenly_spaced(MAX_TUNING_ROWS, study.treatments.rows());
        let arrived = study.mediator_table(outcome.points().columns())?.select_rows(&some);
        let h = outcome.guesses(&arrived);
        let next = next.select_rows(&evenly_spaced(MAX_TUNING_ROWS, next.rows()));
        let (square, variance) = outcome.squares(&arrived.stack(&next)?);
        let scale = square + variance;
        let others = match &study.route {
            IdentificationRoute::Direct => None,
            IdentificationRoute::BackDoor(own) | IdentificationRoute::FrontDoor(own) => {
                Some(default_kernel(own))
            }
        };
        let treatments = default_kernel(&study.treatments);
        let start = StudyParameters { treatments, others, ridge: START_RIDGE, intercepting: None };
        let mut blocks = study.column_blocks(&start)?;
        blocks.iter_mut().for_each(|own| own.rows = own.rows.select_rows(&some));
        let (found, effective) = self.of_blocks(&blocks, &h, scale, seed)?;
        let of = |theta: &Vec<f64>| {
            let (blocks, ridge) = product_kernel::with_parameters(&blocks, theta);
            let intercepting = match &study.route {
                IdentificationRoute::FrontDoor(_) => {
                    let of = blocks[1].kernel.gram(&blocks[1].rows);
                    let found = EmbeddingRegression::new(&blocks[0].rows, &of, self.watch())?;
                    Some((found.kernel, found.ridge))
                }
                _ => None,
            };
            let mut kernels = blocks.into_iter().map(|own| own.kernel);
            let treatments = kernels.next().unwrap_or_else(|| start.treatments.clone());
            Ok(StudyParameters { treatments, others: kernels.next(), ridge, intercepting })
        };
        Ok((found.iter().map(of).collect::<Result<_>>()?, effective))
    }

    /// Parameters of kernels over blocks of columns, and of the ridge, by how well rows predict `h`, which
    /// has columns as of [`blocks::evidence`].
    pub(super) fn of_blocks(
        &self,
        blocks: &[Block],
        h: &Matrix,
        scale: f64,
        seed: u64,
    ) -> Result<(Vec<Vec<f64>>, f64)> {
        let all = product_kernel::parameters(blocks, START_RIDGE).into_iter();
        let coordinates: Vec<HyperParameter> = all.map(|p| default_prior(p, false)).collect();
        let few = start_rows(h.rows());
        let few_h = h.select_rows(&few);
        let few_blocks: Vec<Block> =
            blocks.iter().map(|own| Block { rows: own.rows.select_rows(&few), ..own.clone() }).collect();
        let likelihood = Likelihood {
            of_all: &|theta| {
                let (blocks, ridge) = product_kernel::with_parameters(blocks, theta);
                product_kernel::evidence(&blocks, ridge, h, scale)
            },
            of_few: &|theta| {
                let (blocks, ridge) = product_kernel::with_parameters(&few_blocks, theta);
                product_kernel::evidence(&blocks, ridge, &few_h, scale)
            },
            value: &|theta| {
                let (blocks, ridge) = product_kernel::with_parameters(blocks, theta);
                product_kernel::log_evidence(&blocks, ridge, h, scale)
            },
            few: few.len() < h.rows(),
        };
        self.drawn(&coordinates, seed, &likelihood)
    }

    /// Hyper-parameters by an evidence and weak priors, the best, or draws in no order; and how many draws of
    /// their posterior itself would say as much.
    fn drawn(
        &self,
        coordinates: &[HyperParameter],
        seed: u64,
        likelihood: &Likelihood<'_>,
    ) -> Result<(Vec<Vec<f64>>, f64)> {
        let watch = self.watch();
        let search = |from: &[f64], of: Evidence<'_>| {
            hyperparameter_search::maximise_within_priors(coordinates, from, watch, |theta| {
                Ok(add_log_priors(coordinates, theta, of(theta)?))
            })
        };
        let mut found: Option<SearchResult> = None;
        for shorter in STARTS {
            let start = |c: &HyperParameter| {
                let length = c.parameter.name.starts_with("lengthscale");
                c.parameter.log_value - if length { shorter } else { 0.0 }
            };
            let from: Vec<f64> = coordinates.iter().map(start).collect();
            let own = search(&from, likelihood.of_few)?;
            if found.as_ref().is_none_or(|best| own.value > best.value) {
                found = Some(own);
            }
        }
        let Some(mut found) = found else { return Ok((Vec::new(), f64::INFINITY)) };
        if likelihood.few {
            found = search(&found.theta, likelihood.of_all)?;
        }
        if self.draws == 0 {
            return Ok((vec![found.theta], f64::INFINITY));
        }
        let surface = HyperPosterior { coordinates, from: &found.theta, watch };
        let fit = |theta: &[f64]| Ok(((likelihood.value)(theta)?, theta.to_vec()));
        let averaged = surface.average(likelihood.of_all, fit, (EACH * self.draws).max(LEAST), seed)?;
        let mut random = Random::seed_from_u64(hash([seed, 1]));
        let mut drawn = resampled(averaged.fits, self.draws, random.random());
        drawn.shuffle(&mut random);
        Ok((drawn, averaged.effective_sample_size))
    }
}

/// So many of weighted ones, each as often as its weight says, rounded up or down by chance (systematic
/// resampling).
fn resampled<F: Clone>(fits: Vec<(f64, F)>, count: usize, shift: f64) -> Vec<F> {
    let (mut out, mut sum, mut k) = (Vec::new(), fits[0].0, 0);
    for place in 0..count {
        while sum < (place as f64 + shift) / count as f64 && k + 1 < fits.len() {
            k += 1;
            sum += fits[k].0;
        }
        out.push(fits[k].1.clone());
    }
    out
}

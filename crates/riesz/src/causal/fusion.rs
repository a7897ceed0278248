//! Learning an effect with its hyper-parameters. They maximise the marginal likelihood of the outcome in the
//! last study's rows first. Then, study by study, they are chosen by how well the rows predict the outcome at
//! their mediators.
//!
//! The best hyper-parameters alone give variances that are too small, so an effect is a mixture over draws of
//! hyper-parameters. Few rows hold little information about length scales: there the mixture widens bands by
//! a sixth or more.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::conditional_regression::embedding_parameters;
use super::defaults::{
    MAX_TUNING_ROWS, START_RIDGE, default_kernel, evenly_spaced, start_rows, with_fixed_scale,
};
use super::effect::{Effect, Model};
use super::outcome_gp::{OutcomeGpParameters, check_level};
use super::outcome_prior::OutcomePrior;
use super::positivity::{Positivity, treatment_models};
use super::product_kernel::{self, ColumnBlock};
use super::studies::{IdentificationRoute, Studies, Study, StudyParameters};
use super::study_chain::{ChainedOutcome, StudyLink};
use super::study_landmarks::StudyLandmarks;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::gp::average::{HyperPosterior, PosteriorMixture};
use crate::gp::hyperparameters::HyperParameter;
use crate::gp::search::{best_search, maximise_posterior};
use crate::kernel::mean_variance;
use crate::linalg::Matrix;
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, hash};
use crate::table::Table;

/// Options for learning an effect.
#[derive(Debug, Clone)]
pub struct CausalFusion {
    /// Number of draws of all kernels, noises and ridges, of which the effect is a mixture; 0 for the best
    /// hyper-parameters alone.
    pub draws: usize,
    /// Seed of the draws.
    pub seed: u64,
    /// Variance of the outcome's constant, in units of the variance of the outcome.
    pub level: f64,
    /// Whether the uncertainty includes the sampling of the people in the studies.
    pub adjustment: bool,
    /// Number of landmarks that represent a study with more rows than this number; the study after it has
    /// landmarks too. `None` means 500 landmarks for studies of more than 3,000 rows. Studies use all rows if
    /// they share covariates on which the outcome depends.
    pub landmarks: Option<usize>,
    /// Flag that another thread sets to cancel the fit.
    pub stop: Arc<AtomicBool>,
    /// Progress that another thread can read: the number of evaluations.
    pub progress: Arc<Progress>,
}

impl Default for CausalFusion {
    fn default() -> Self {
        let (stop, progress) = (Arc::default(), Arc::default());
        Self { draws: 16, seed: 0, level: 1.0, adjustment: true, landmarks: None, stop, progress }
    }
}

/// Starts of tuning: the columns' standard deviations as length scales, and these divided by 2, 4 and 8,
/// because rough outcomes have several modes.
const STARTS: [f64; 4] =
    [0.0, std::f64::consts::LN_2, 2.0 * std::f64::consts::LN_2, 3.0 * std::f64::consts::LN_2];

/// Number of draws of hyper-parameters per component of the mixture, and the minimum number of draws.
const DRAWS_PER_COMPONENT: usize = 4;
const MIN_DRAWS: usize = 64;

/// A function that returns the evidence and its gradient.
type Evidence<'a> = &'a dyn Fn(&[f64]) -> Result<(f64, Vec<f64>)>;

/// The objective by which hyper-parameters are chosen.
struct Objective<'a> {
    on_all_rows: Evidence<'a>,
    /// The objective on a subset of the rows.
    on_subset: Evidence<'a>,
    /// The objective on all rows, without its gradient.
    value: &'a (dyn Fn(&[f64]) -> Result<f64> + Sync),
    /// Whether the subset has fewer rows.
    has_subset: bool,
}

impl CausalFusion {
    /// Learns the effect and its hyper-parameters.
    ///
    /// The cost is some hundred evaluations of n³ for n rows of a study, at most 1,000 of which are used to
    /// learn hyper-parameters. Each draw adds n³, or n m² with m landmarks. The memory is four n² numbers per
    /// draw and study, or n m.
    ///
    /// # Errors
    /// Errors of [`Studies::effect`]; [`Error::Target`] for a constant outcome; [`Error::Parameter`] for more
    /// draws than fit in memory; [`Error::Interrupted`].
    pub fn fit(&self, studies: &Studies) -> Result<Effect> {
        studies.check()?;
        check_level(self.level)?;
        let landmarks = StudyLandmarks::new(studies, self.landmarks)?;
        crate::memory::check_allocation("draws", self.draws.max(1), landmarks.memory_numbers(studies))?;
        let prior = |variance, level| vec![OutcomePrior::product(&studies.points, variance, level)];
        let (outcome_parameters, mut effective) =
            self.tune_outcome(&studies.points, &studies.outcome, prior)?;
        let mut outcomes: Vec<ChainedOutcome> = outcome_parameters
            .iter()
            .map(|parameters| studies.fit_outcome(parameters, &landmarks))
            .collect::<Result<_>>()?;
        let mut links: Vec<StudyLink> = Vec::new();
        for (s, study) in studies.studies.iter().enumerate().rev() {
            // Given the first draw of the later studies; draws of both are paired at random.
            let next = studies.studies.get(s + 1).map_or(&studies.points, |next| &next.treatments);
            let seed = hash([self.seed, 1 + s as u64]);
            let (chosen, effective_draws) = self.tune_study((study, next), &outcomes[0], seed)?;
            effective = effective.min(effective_draws);
            let outcomes_with_parameters =
                std::mem::take(&mut outcomes).into_iter().zip(chosen.iter().cycle());
            links = outcomes_with_parameters
                .map(|(outcome, parameters)| {
                    self.control().check_cancelled()?;
                    studies.fit_link(s, parameters, self.adjustment, outcome, &landmarks)
                })
                .collect::<Result<_>>()?;
            if s > 0 {
                outcomes = links.drain(..).map(|link| ChainedOutcome::Link(Box::new(link))).collect();
            }
        }
        let overlap = match &studies.studies[0] {
            Study { treatments, route: IdentificationRoute::BackDoor(covariates), .. } => {
                let columns = (0..treatments.width()).collect();
                let models = treatment_models(treatments, covariates, self.control())?;
                vec![Positivity { models, columns, rows: None, mediators: None }]
            }
            _ => Vec::new(),
        };
        let weight = 1.0 / links.len() as f64;
        let parts = links.into_iter().map(|link| (weight, Model::Link(Box::new(link))));
        Ok(Effect::new(parts.collect()).with_diagnostics(overlap, effective))
    }

    pub(super) fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// Returns parameters of the process of the outcome, the best ones or draws, and the effective sample
    /// size of the draws. `priors` returns the alternative priors, given the variance of the outcome and that
    /// of its constant. Draws are shared among the priors in proportion to their evidences.
    pub(super) fn tune_outcome(
        &self,
        points: &Table,
        outcome: &[f64],
        priors: impl Fn(f64, f64) -> Vec<OutcomePrior>,
    ) -> Result<(Vec<OutcomeGpParameters>, f64)> {
        let (_, variance) = mean_variance(outcome);
        if variance == 0.0 {
            return Err(Error::target("outcome", "is the same in every row: there is nothing to learn"));
        }
        let tuning_rows = evenly_spaced(MAX_TUNING_ROWS, outcome.len());
        let (x, t) = (&points.select_rows(&tuning_rows), tuning_rows.iter().map(|i| outcome[*i]));
        let t = &t.collect::<Vec<_>>();
        let start_subset = start_rows(t.len());
        let (subset_x, subset_t) =
            (x.select_rows(&start_subset), start_subset.iter().map(|i| t[*i]).collect::<Vec<_>>());
        let seed = hash([self.seed, 0]);
        let posterior_draws = priors(variance, self.level * variance).into_iter().map(|prior| {
            let objective = Objective {
                on_all_rows: &|theta| prior.parameters_at(theta).log_evidence_and_gradient(x, t),
                on_subset: &|theta| {
                    prior.parameters_at(theta).log_evidence_and_gradient(&subset_x, &subset_t)
                },
                value: &|theta| prior.parameters_at(theta).log_evidence(x, t),
                has_subset: start_subset.len() < t.len(),
            };
            let draws = self.draw_hyperparameters(&prior.hyperparameters, seed, &objective)?;
            Ok(draws.map(|theta| prior.parameters_at(&theta)))
        });
        let posterior_draws = posterior_draws.collect::<Result<Vec<_>>>()?;
        let draws = match self.draws {
            0 => best(posterior_draws),
            _ => PosteriorMixture::combined(posterior_draws),
        };
        let effective = draws.effective_sample_size;
        Ok((self.resampled(draws, seed), effective))
    }

    /// Chooses kernels and ridges of a study by how well its rows predict the outcome at their mediators.
    /// Returns the best ones or draws, and the effective sample size.
    fn tune_study(
        &self,
        (study, next_mediators): (&Study, &Table),
        outcome: &ChainedOutcome,
        seed: u64,
    ) -> Result<(Vec<StudyParameters>, f64)> {
        let tuning_rows = evenly_spaced(MAX_TUNING_ROWS, study.treatments.rows());
        let mediators = study.mediator_table(outcome.points().columns())?.select_rows(&tuning_rows);
        let h = outcome.mean_and_root(&mediators);
        let next_mediators =
            next_mediators.select_rows(&evenly_spaced(MAX_TUNING_ROWS, next_mediators.rows()));
        let (mean_square, mean_variance) = outcome.second_moment(&mediators.stack(&next_mediators)?);
        let scale = mean_square + mean_variance;
        let start = StudyParameters {
            treatments: default_kernel(&study.treatments),
            covariates: study.covariates().map(default_kernel),
            ridge: START_RIDGE,
            intercepting: None,
        };
        let mut blocks = study.column_blocks(&start)?;
        blocks.iter_mut().for_each(|block| block.rows = block.rows.select_rows(&tuning_rows));
        let (draws, effective) = self.tune_blocks(&blocks, &h, scale, seed)?;
        let study_parameters = |theta: &Vec<f64>| {
            let (blocks, ridge) = product_kernel::with_parameters(&blocks, theta);
            let intercepting = match &study.route {
                IdentificationRoute::FrontDoor(_) => {
                    let mediator_gram = blocks[1].kernel.gram(&blocks[1].rows);
                    Some(embedding_parameters(&blocks[0].rows, &mediator_gram, self.control())?)
                }
                _ => None,
            };
            let mut kernels = blocks.into_iter().map(|block| block.kernel);
            let treatments = kernels.next().unwrap_or_else(|| start.treatments.clone());
            Ok(StudyParameters { treatments, covariates: kernels.next(), ridge, intercepting })
        };
        Ok((draws.iter().map(study_parameters).collect::<Result<_>>()?, effective))
    }

    /// Chooses parameters of kernels over blocks of columns, and the ridge, by how well rows predict `h`,
    /// whose columns are as in [`product_kernel::log_evidence_and_gradient`].
    pub(super) fn tune_blocks(
        &self,
        blocks: &[ColumnBlock],
        h: &Matrix,
        scale: f64,
        seed: u64,
    ) -> Result<(Vec<Vec<f64>>, f64)> {
        let parameters = product_kernel::parameters(blocks, START_RIDGE).into_iter();
        let coordinates: Vec<HyperParameter> = parameters.map(with_fixed_scale).collect();
        let start_subset = start_rows(h.rows());
        let subset_h = h.select_rows(&start_subset);
        let subset_blocks: Vec<ColumnBlock> = blocks
            .iter()
            .map(|block| ColumnBlock { rows: block.rows.select_rows(&start_subset), ..block.clone() })
            .collect();
        let evidence = |blocks: &[ColumnBlock], h: &Matrix, theta: &[f64]| {
            let (blocks, ridge) = product_kernel::with_parameters(blocks, theta);
            product_kernel::log_evidence_and_gradient(&blocks, ridge, h, scale)
        };
        let objective = Objective {
            on_all_rows: &|theta| evidence(blocks, h, theta),
            on_subset: &|theta| evidence(&subset_blocks, &subset_h, theta),
            value: &|theta| {
                let (blocks, ridge) = product_kernel::with_parameters(blocks, theta);
                product_kernel::log_evidence(&blocks, ridge, h, scale)
            },
            has_subset: start_subset.len() < h.rows(),
        };
        let draws = self.draw_hyperparameters(&coordinates, seed, &objective)?;
        let effective = draws.effective_sample_size;
        Ok((self.resampled(draws, seed), effective))
    }

    /// Returns weighted draws of hyper-parameters under an evidence and weakly informative priors, or the
    /// best ones alone.
    fn draw_hyperparameters(
        &self,
        coordinates: &[HyperParameter],
        seed: u64,
        objective: &Objective<'_>,
    ) -> Result<PosteriorMixture<Vec<f64>>> {
        let control = self.control();
        let search =
            |from: &[f64], evidence: Evidence<'_>| maximise_posterior(coordinates, from, control, evidence);
        let [first, others @ ..] = STARTS;
        let (mut optimum, ()) = best_search(first, others, |log_divisor| {
            let start = |c: &HyperParameter| {
                c.parameter.log_value - if c.parameter.is_length_scale() { log_divisor } else { 0.0 }
            };
            let from: Vec<f64> = coordinates.iter().map(start).collect();
            Ok((search(&from, objective.on_subset)?, ()))
        })?;
        if objective.has_subset {
            optimum = search(&optimum.theta, objective.on_all_rows)?;
        }
        if self.draws == 0 {
            return Ok(PosteriorMixture {
                fits: vec![(1.0, optimum.theta)],
                effective_sample_size: f64::INFINITY,
                log_evidence: optimum.value,
            });
        }
        let posterior = HyperPosterior { coordinates, from: &optimum.theta, control };
        let fit = |theta: &[f64]| Ok(((objective.value)(theta)?, theta.to_vec()));
        let count = (DRAWS_PER_COMPONENT * self.draws).max(MIN_DRAWS);
        posterior.average(objective.on_all_rows, fit, count, seed)
    }

    /// Returns as many draws as the effect has components, with equal weights and in random order; without
    /// draws, the best hyper-parameters.
    fn resampled<F: Clone>(&self, mixture: PosteriorMixture<F>, seed: u64) -> Vec<F> {
        if self.draws == 0 {
            return mixture.fits.into_iter().map(|(_, fit)| fit).collect();
        }
        let mut random = Random::seed_from_u64(hash([seed, 1]));
        let mut drawn = resampled(mixture.fits, self.draws, random.random());
        drawn.shuffle(&mut random);
        drawn
    }
}

/// Returns the mixture with the largest evidence.
fn best<F>(mixtures: Vec<PosteriorMixture<F>>) -> PosteriorMixture<F> {
    let best = mixtures.into_iter().max_by(|a, b| a.log_evidence.total_cmp(&b.log_evidence));
    best.unwrap_or_else(|| unreachable!("there is at least one prior"))
}

/// Resamples `count` fits by their weights (systematic resampling): the number of copies of a fit is `count`
/// times its weight, rounded up or down at random.
fn resampled<F: Clone>(fits: Vec<(f64, F)>, count: usize, shift: f64) -> Vec<F> {
    let (mut resampled_fits, mut sum, mut k) = (Vec::new(), fits[0].0, 0);
    for draw in 0..count {
        while sum < (draw as f64 + shift) / count as f64 && k + 1 < fits.len() {
            k += 1;
            sum += fits[k].0;
        }
        resampled_fits.push(fits[k].1.clone());
    }
    resampled_fits
}

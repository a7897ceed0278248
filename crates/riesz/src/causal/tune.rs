//! How the numbers of an effect are chosen: by what the last study's rows say of its own, and then, study by study, by how well rows tell what the outcome is at their mediators.
//!
//! The best numbers are too sure of themselves, and an effect is a mixture over draws of them: as few rows tell length scales apart, that widens bands by a sixth and more where rows are few.

use super::blocks::{self, Block};
use super::effect::Effect;
use super::link::Outcome;
use super::process::ProcessParameters;
use super::studies::{Route, Studies, Study, StudyParameters};
use crate::error::{Error, Result};
use crate::fit::average::Surface;
use crate::fit::evidence::{self, Coordinate, Maximum, with_priors};
use crate::kernel::{Categorical, Kernel, Parameter, Profile, Stationary, Units, mean_variance};
use crate::linalg::Matrix;
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, hash};
use crate::stop::Watch;
use crate::table::{ColumnKind, Table};

/// How an effect is learnt.
#[derive(Debug, Clone)]
pub struct Fusion {
    /// The effect is a mixture over so many draws of all kernels, noises and ridges; 0 for the best ones alone.
    pub draws: usize,
    /// Seed of these.
    pub seed: u64,
    /// Variance of the outcome's constant, in units of the outcome's own.
    pub level: f64,
    /// Whether it counts who happens to be in the studies.
    pub adjustment: bool,
}

impl Default for Fusion {
    fn default() -> Self {
        Self { draws: 16, seed: 0, level: 1.0, adjustment: true }
    }
}

/// Where tuning starts: noise of the outcome in units of its variance, and ridges.
const START_NOISE: f64 = 0.1;
const START_RIDGE: f64 = 0.1;

/// Tuning starts at the columns' standard deviations as length scales, and at these divided by 2, 4 and 8: rough outcomes have several modes.
const STARTS: [f64; 4] =
    [0.0, std::f64::consts::LN_2, 2.0 * std::f64::consts::LN_2, 3.0 * std::f64::consts::LN_2];

/// Draws from the mixture of which one in so many is taken, and at least how many.
const EACH: usize = 4;
const LEAST: usize = 64;

/// A product over columns: Gaussian, with a length scale each that starts at the column's standard deviation, and for categories how alike two different ones are.
fn usual(x: &Table) -> Kernel {
    let numeric = |j: &usize| x.columns()[*j].kind == ColumnKind::Numeric;
    let (numbers, levels): (Vec<usize>, Vec<usize>) = (0..x.width()).partition(numeric);
    let mut kernel = Kernel::constant(1.0);
    if !numbers.is_empty() {
        let scale = Units::standardised(x).scale;
        let lengthscale = numbers.iter().map(|&j| scale[j]).collect();
        let gaussian = Profile::Gaussian;
        kernel = Stationary { profile: gaussian, columns: numbers, lengthscale, ard: true, isotropic: false }
            .into();
    }
    levels.into_iter().fold(kernel, |kernel, j| kernel * Categorical::over(j).into())
}

fn believed(parameter: Parameter, scale_is_free: bool) -> Coordinate {
    match &parameter.name[..] {
        name if name.starts_with("lengthscale") => Coordinate::length(parameter),
        "scale" if !scale_is_free => Coordinate { parameter, weak: None },
        "scale" => Coordinate::near(parameter, 1.0),
        _ => Coordinate::near(parameter, 1.5),
    }
}

impl Fusion {
    /// Learns the effect.
    ///
    /// # Errors
    /// As [`Studies::effect`]; [`Error::Target`] for an outcome that is constant.
    pub fn fit(&self, studies: &Studies) -> Result<Effect> {
        studies.check()?;
        if !(self.level.is_finite() && self.level >= 0.0) {
            return Err(Error::parameter("level", self.level, "variances are not negative"));
        }
        let mut outcomes: Vec<Outcome> = self
            .of_outcome(studies)?
            .iter()
            .map(|parameters| studies.last(parameters))
            .collect::<Result<_>>()?;
        for (s, study) in studies.studies.iter().enumerate().rev() {
            // By the first draw of what comes after; draws of both go together by chance.
            let chosen = self.of_study(study, &outcomes[0], hash([self.seed, 1 + s as u64]))?;
            let each = outcomes.into_iter().zip(chosen.iter().cycle());
            outcomes = each
                .map(|(outcome, own)| studies.step(s, own, self.adjustment, outcome))
                .collect::<Result<_>>()?;
        }
        let weight = 1.0 / outcomes.len() as f64;
        Ok(Effect::new(outcomes.into_iter().map(|own| (weight, own)).collect()))
    }

    fn of_outcome(&self, studies: &Studies) -> Result<Vec<ProcessParameters>> {
        let (_, variance) = mean_variance(&studies.outcome);
        if variance == 0.0 {
            let problem = "is the same in every row: there is nothing to learn".into();
            return Err(Error::Target { name: "outcome".into(), problem });
        }
        let (kernel, level) = (variance * usual(&studies.points), self.level * variance);
        let at = |theta: &[f64]| {
            let (own, noise) = theta.split_at(theta.len() - 1);
            ProcessParameters { kernel: kernel.with_parameters(own), noise: noise[0].exp(), level }
        };
        let noise = Parameter { name: "noise".into(), log_value: (START_NOISE * variance).ln() };
        let all = kernel.parameters().into_iter().chain([noise]);
        let coordinates: Vec<Coordinate> = all.map(|p| believed(p, true)).collect();
        let found = self.drawn(&coordinates, hash([self.seed, 0]), |theta| {
            at(theta).evidence(&studies.points, &studies.outcome)
        })?;
        Ok(found.iter().map(|theta| at(theta)).collect())
    }

    /// Kernels and ridges of a study by how well its rows tell what the outcome is at their mediators: the best, or draws.
    fn of_study(&self, study: &Study, outcome: &Outcome, seed: u64) -> Result<Vec<StudyParameters>> {
        let arrived = study.arrived(outcome.points().columns())?;
        let h = outcome.centred_means(&outcome.kernel().cross_gram(outcome.points(), &arrived));
        let scale = outcome.mean_square(&arrived.stack(outcome.points())?);
        let others = match &study.route {
            Route::Direct => None,
            Route::BackDoor(own) | Route::FrontDoor(own) => Some(usual(own)),
        };
        let treatments = usual(&study.treatments);
        let start = StudyParameters { treatments, others, ridge: START_RIDGE, intercepting: None };
        let blocks = study.blocks(&start)?;
        let all = blocks::parameters(&blocks, START_RIDGE).into_iter();
        let coordinates: Vec<Coordinate> = all.map(|p| believed(p, false)).collect();
        let found = self.drawn(&coordinates, seed, |theta| {
            let (blocks, ridge) = blocks::with_parameters(&blocks, theta);
            blocks::evidence(&blocks, ridge, &h, scale)
        })?;
        let of = |theta: &Vec<f64>| {
            let (blocks, ridge) = blocks::with_parameters(&blocks, theta);
            let intercepting = match &study.route {
                Route::FrontDoor(_) => {
                    let of = blocks[1].kernel.gram(&blocks[1].rows);
                    Some(regression(&study.treatments, &of)?)
                }
                _ => None,
            };
            let mut kernels = blocks.into_iter().map(|own| own.kernel);
            let treatments = kernels.next().unwrap_or_else(|| start.treatments.clone());
            Ok(StudyParameters { treatments, others: kernels.next(), ridge, intercepting })
        };
        found.iter().map(of).collect()
    }

    /// Hyper-parameters by an evidence and weak priors: the best, or draws in no order.
    fn drawn(
        &self,
        coordinates: &[Coordinate],
        seed: u64,
        evidence: impl Fn(&[f64]) -> Result<(f64, Vec<f64>)>,
    ) -> Result<Vec<Vec<f64>>> {
        let watch = Watch::nobody();
        let mut found: Option<Maximum> = None;
        for shorter in STARTS {
            let start = |c: &Coordinate| {
                let length = c.parameter.name.starts_with("lengthscale");
                c.parameter.log_value - if length { shorter } else { 0.0 }
            };
            let from: Vec<f64> = coordinates.iter().map(start).collect();
            let own = evidence::search(coordinates, &from, watch, |theta| {
                Ok(with_priors(coordinates, theta, evidence(theta)?))
            })?;
            if found.as_ref().is_none_or(|best| own.value > best.value) {
                found = Some(own);
            }
        }
        let Some(found) = found else { return Ok(Vec::new()) };
        if self.draws == 0 {
            return Ok(vec![found.theta]);
        }
        let surface = Surface { coordinates, from: &found.theta, watch };
        let fit = |theta: &[f64]| Ok((evidence(theta)?.0, theta.to_vec()));
        let averaged = surface.average(&evidence, fit, (EACH * self.draws).max(LEAST), seed)?;
        let mut random = Random::seed_from_u64(hash([seed, 1]));
        let mut drawn = resampled(averaged.fits, self.draws, random.random());
        drawn.shuffle(&mut random);
        Ok(drawn)
    }
}

/// The regression of functions, by their kernel with each other, on rows: kernel and ridge by how far it is off for rows that are left out.
pub(super) fn regression(rows: &Table, of: &Matrix) -> Result<(Kernel, f64)> {
    let block = [Block { kernel: usual(rows), rows: rows.clone() }];
    let all = blocks::parameters(&block, START_RIDGE).into_iter();
    let coordinates: Vec<Coordinate> = all.map(|p| believed(p, false)).collect();
    let from: Vec<f64> = coordinates.iter().map(|c| c.parameter.log_value).collect();
    // As if errors were normal with a variance that is not known.
    let half = 0.5 * rows.rows() as f64;
    let found = evidence::search(&coordinates, &from, Watch::nobody(), |theta| {
        let (block, ridge) = blocks::with_parameters(&block, theta);
        let (loss, mut slopes) = blocks::left_out_loss(&block, ridge, of)?;
        slopes.iter_mut().for_each(|slope| *slope *= -half / loss);
        Ok(with_priors(&coordinates, theta, (-half * loss.ln(), slopes)))
    })?;
    let (mut block, ridge) = blocks::with_parameters(&block, &found.theta);
    Ok((block.remove(0).kernel, ridge))
}

/// So many of weighted ones, each as often as its weight says, rounded up or down by chance (systematic resampling).
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

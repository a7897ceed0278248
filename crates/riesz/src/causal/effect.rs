//! The effect of treatments on the outcome, with its uncertainty by cause.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::iterated::Iterated;
use super::positivity::Positivity;
use super::study_chain::StudyLink;
use super::target_population::PopulationWeights;
use super::uncertainty_parts::{CovarianceParts, DataSupport, UncertaintyCause, add_part, sum_parts};
use crate::error::Result;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, add_multiple};
use crate::posterior::{Functionals, PosteriorCovariance};
use crate::random::{Random, RngExt, SeedableRng, SliceRandom};
use crate::table::Table;

/// Model of an effect for given hyper-parameters.
#[derive(Debug, Clone)]
pub(super) enum Model {
    /// A chain of studies.
    Link(Box<StudyLink>),
    /// The stages of a single table.
    Iterated(Box<Iterated>),
}

/// An effect: a mixture over hyper-parameters.
#[derive(Debug, Clone)]
pub struct Effect {
    parts: Vec<(f64, Model)>,
    /// The population over which the effect is averaged, where it is averaged over covariates.
    population: Option<PopulationWeights>,
    /// Models of the treatments given covariates, if they were learnt.
    positivity: Arc<Vec<Positivity>>,
    /// Effective sample size of the draws of hyper-parameters in the stage where it is smallest; infinite
    /// without draws.
    effective_sample_size: f64,
    /// See [`interaction_factor`](Self::interaction_factor).
    interaction_factor: Option<f64>,
}

/// The posterior of an effect at some treatments.
#[derive(Debug, Clone)]
pub struct EffectEstimate {
    /// `E[outcome | do(treatments)]`.
    pub mean: Vec<f64>,
    /// Joint covariance of the means.
    pub covariance: Matrix,
    /// The covariance by cause; the parts add up to the covariance.
    pub causes: Vec<(UncertaintyCause, Matrix)>,
    /// The support of each query by the studies.
    pub support: Vec<DataSupport>,
}

impl Effect {
    pub(super) fn new(parts: Vec<(f64, Model)>) -> Self {
        let population = parts.first().and_then(|(_, model)| match model {
            Model::Link(link) => link.averaged_covariates.as_ref().map(PopulationWeights::uniform),
            Model::Iterated(iterated) => iterated.covariates().map(|averaged| averaged.population.clone()),
        });
        let (positivity, effective_sample_size) = (Arc::default(), f64::INFINITY);
        Self { parts, population, positivity, effective_sample_size, interaction_factor: None }
    }

    /// Adds the diagnostics that were learnt with the model.
    pub(super) fn with_diagnostics(self, positivity: Vec<Positivity>, effective_sample_size: f64) -> Self {
        Self { positivity: Arc::new(positivity), effective_sample_size, ..self }
    }

    /// Adds the factor that [`interaction_factor`](Self::interaction_factor) returns.
    pub(super) fn with_interaction_factor(self, interaction_factor: Option<f64>) -> Self {
        Self { interaction_factor, ..self }
    }

    /// The effect with other component models, on another population.
    pub(super) fn with_components(&self, parts: Vec<(f64, Model)>, population: PopulationWeights) -> Self {
        let positivity = Arc::clone(&self.positivity);
        Self {
            parts,
            population: Some(population),
            positivity,
            effective_sample_size: self.effective_sample_size,
            interaction_factor: self.interaction_factor,
        }
    }

    pub(super) fn models(&self) -> impl Iterator<Item = (f64, &Model)> {
        self.parts.iter().map(|(weight, model)| (*weight, model))
    }

    /// The first study's treatments.
    pub fn treatments(&self) -> &Table {
        match &self.parts[0].1 {
            Model::Link(link) => &link.treatments,
            Model::Iterated(iterated) => &iterated.treatments,
        }
    }

    /// Returns the mean over the models of β₀, the mean outcome, to which effects return far from the data.
    pub(super) fn constant(&self) -> f64 {
        let constant_of = |model: &Model| match model {
            Model::Link(link) => link.outcome.process().constant,
            Model::Iterated(iterated) => iterated.process().constant,
        };
        self.models().map(|(weight, model)| weight * constant_of(model)).sum()
    }

    /// Returns how many times as large standard deviations of contrasts are if treatments and covariates may
    /// interact, for an effect whose model assumes that they do not.
    pub fn interaction_factor(&self) -> Option<f64> {
        self.interaction_factor
    }

    pub(super) fn population(&self) -> Option<&PopulationWeights> {
        self.population.as_ref()
    }

    /// Returns the effective sample size of the draws of hyper-parameters, in the study where it is smallest.
    /// It is infinite where hyper-parameters are maximised or given.
    pub fn effective_draws(&self) -> f64 {
        self.effective_sample_size
    }

    /// Returns the mean share of the rows' noise variance that landmarks leave unexplained, from 0 to 1, for
    /// each study that is represented by landmarks. If the share of the later studies at their mediators is
    /// larger, it is that share. The larger the share, the more information is lost compared with all rows.
    pub fn unexplained(&self) -> Vec<(usize, f64)> {
        let mut shares = BTreeMap::new();
        for (weight, model) in self.models() {
            let study_shares = match model {
                Model::Link(link) => link.unexplained(),
                Model::Iterated(iterated) => {
                    iterated.unexplained().map(|share| (0, share)).into_iter().collect()
                }
            };
            for (study, share) in study_shares {
                *shares.entry(study).or_insert(0.0) += weight * share;
            }
        }
        shares.into_iter().collect()
    }

    /// Returns the effect of each row of treatments. Cost O(n² rows + n rows²) for each study and draw.
    ///
    /// # Errors
    /// Errors of [`Table::align_to`].
    pub fn evaluate(&self, treatments: &Table) -> Result<EffectEstimate> {
        self.mixture_moments(treatments, |model, treatments| match model {
            Model::Link(link) => Ok(link.estimate(&link.queries(treatments)?)),
            Model::Iterated(iterated) => Ok(iterated.estimate(treatments)),
        })
    }

    /// Returns the moments of the mixture of the models' estimates: means, covariance by cause, and support.
    pub(super) fn mixture_moments(
        &self,
        treatments: &Table,
        estimate: impl Fn(&Model, &Table) -> Result<(Vec<f64>, CovarianceParts, Vec<DataSupport>)>,
    ) -> Result<EffectEstimate> {
        let q = treatments.rows();
        let (mut mean, mut means, mut causes) = (vec![0.0; q], Vec::new(), CovarianceParts::new());
        let treatments = &treatments.align_to(self.treatments().columns())?;
        let mut support = vec![DataSupport::default(); q];
        for (weight, model) in self.models() {
            let (model_mean, parts, model_support) = estimate(model, treatments)?;
            add_multiple(&mut mean, weight, &model_mean);
            means.push((weight, model_mean));
            for (cause, part) in parts {
                add_part(&mut causes, cause, weight, part);
            }
            support
                .iter_mut()
                .zip(model_support)
                .for_each(|(total, part)| *total = total.combined(part, |sum, v| sum + weight * v));
        }
        let unexplained_share =
            self.population.as_ref().and_then(|population| population.unexplained_share).unwrap_or(0.0);
        support.iter_mut().for_each(|query_support| {
            (query_support.population_explained, query_support.overlap) = (1.0 - unexplained_share, 1.0)
        });
        for positivity in self.positivity.iter() {
            let near_shares = positivity.supported_shares(self.population.as_ref(), treatments)?;
            support.iter_mut().zip(near_shares).for_each(|(query_support, near_share)| {
                query_support.overlap = query_support.overlap.min(near_share)
            });
        }
        if means.len() > 1 {
            let mut between_models = Matrix::zeros(q, q);
            for (weight, model_mean) in &means {
                let deviations: Vec<f64> = model_mean.iter().zip(&mean).map(|(v, m)| v - m).collect();
                between_models.add_outer(deviations.iter().map(|a| weight * a), &deviations);
            }
            add_part(&mut causes, UncertaintyCause::Hyperparameters, 1.0, between_models);
        }
        let covariance = sum_parts(&causes, q);
        Ok(EffectEstimate { mean, covariance, causes, support })
    }

    /// Draws jointly from the posterior of the effect of each row of treatments; returns rows × draws.
    ///
    /// Drawn are the hyper-parameters, the outcome at the possible mediators, and the distribution of the
    /// mediators. The tails are heavier than those of a normal distribution with the same covariance, with
    /// two exceptions. If studies share covariates, or if the effect comes from one table, draws are normal
    /// given the hyper-parameters. The cost in addition to [`evaluate`](Self::evaluate) is (2n + m)³ for n
    /// rows of a study and m of the next.
    ///
    /// # Errors
    /// Errors of [`Table::align_to`]; [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite);
    /// [`Error::Parameter`](crate::Error::Parameter) for more draws than fit in memory.
    pub fn sample(&self, treatments: &Table, draws: usize, seed: u64) -> Result<Matrix> {
        let point_counts = self.models().map(|(_, model)| match model {
            Model::Link(link) => link.drawn_point_count(),
            Model::Iterated(_) => 0,
        });
        let max_point_count = point_counts.max().unwrap_or(0);
        let joint_size = max_point_count + treatments.rows();
        crate::memory::check_allocation(
            "number of draws",
            draws,
            joint_size + treatments.rows() + 3 * joint_size * joint_size / draws.max(1),
        )?;
        let mut random = Random::seed_from_u64(seed);
        let mut counts = vec![0; self.parts.len()];
        for _ in 0..draws {
            let (threshold, mut sum) = (random.random::<f64>(), 0.0);
            let part = self.parts.iter().position(|(weight, _)| {
                sum += weight;
                threshold < sum
            });
            counts[part.unwrap_or(self.parts.len() - 1)] += 1;
        }
        let mut columns = Vec::new();
        let treatments = &treatments.align_to(self.treatments().columns())?;
        for ((_, model), count) in self.models().zip(counts).filter(|(_, count)| *count > 0) {
            let drawn = match model {
                Model::Link(link) => link.sample(&link.queries(treatments)?, count, &mut random)?,
                Model::Iterated(iterated) => iterated.sample(treatments, count, &mut random)?,
            };
            columns.extend((0..count).map(|j| drawn.column(j)));
        }
        columns.shuffle(&mut random);
        Ok(Matrix::from_columns(treatments.rows(), &columns))
    }

    /// Returns the weighted posteriors of the mixture as models to explain: means are expansions over the
    /// first study's treatments. Standard deviations of predictions omit the part of the constant, which does
    /// not affect Shapley values. Cost n³ each.
    ///
    /// # Errors
    /// Errors of [`KernelExpansion::new`].
    pub fn posteriors(&self) -> Result<Vec<(f64, KernelExpansion, PosteriorCovariance)>> {
        let posteriors = self.models().map(|(weight, model)| {
            let (model, covariance) = match model {
                Model::Link(link) => link.posterior()?,
                Model::Iterated(iterated) => iterated.posterior()?,
            };
            Ok((weight, model, covariance))
        });
        posteriors.collect()
    }
}

impl StudyLink {
    /// Returns the evaluations at treatments as functionals of the effect.
    pub(super) fn queries(&self, treatments: &Table) -> Result<Functionals> {
        let x = treatments.align_to(self.points.columns())?;
        Ok(Functionals {
            columns: self.kernel.cross_gram(&self.points, &x),
            prior_covariance: self.kernel.gram(&x),
            constants: vec![1.0; x.rows()],
        })
    }
}

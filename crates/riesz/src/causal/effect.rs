//! What treatments do to the outcome, how sure that is, and what leaves it unsure.

use std::sync::Arc;

use super::iterated::Iterated;
use super::positivity::Positivity;
use super::study_chain::Link;
use super::support::DataSupport;
use super::target_population::PopulationWeights;
use super::uncertainty_parts::{CovarianceParts, UncertaintyCause, add_part, sum_parts};
use crate::error::Result;
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::posterior::{Functionals, PosteriorCovariance};
use crate::random::{Random, RngExt, SeedableRng, SliceRandom};
use crate::table::Table;

/// An effect by given parameters.
#[derive(Debug, Clone)]
pub(super) enum Model {
    /// Through studies that lead to one another.
    Link(Box<Link>),
    /// By the stages of one table.
    Iterated(Box<Iterated>),
}

/// An effect: a mixture over hyper-parameters.
#[derive(Debug, Clone)]
pub struct Effect {
    parts: Vec<(f64, Model)>,
    /// Whom it is on, where it is averaged over covariates.
    population: Option<PopulationWeights>,
    /// Where it was learnt what treatments covariates lead one to expect.
    positivity: Arc<Vec<Positivity>>,
    /// Of the stage whose draws say least, as many draws of its hyper-parameters' posterior itself would say
    /// as much; infinite where none are drawn.
    effective: f64,
}

/// An effect at some treatments.
#[derive(Debug, Clone)]
pub struct Told {
    /// `E[outcome | do(treatments)]`.
    pub mean: Vec<f64>,
    /// The covariance of that, jointly.
    pub covariance: Matrix,
    /// By cause; these add up to the covariance.
    pub causes: Vec<(UncertaintyCause, Matrix)>,
    /// How each query stands to the studies.
    pub standing: Vec<DataSupport>,
}

impl Effect {
    pub(super) fn new(parts: Vec<(f64, Model)>) -> Self {
        let people = parts.first().and_then(|(_, model)| match model {
            Model::Link(link) => link.people.as_ref().map(PopulationWeights::all),
            Model::Iterated(own) => own.covariates().map(|averaged| averaged.people.clone()),
        });
        Self { parts, population: people, positivity: Arc::default(), effective: f64::INFINITY }
    }

    /// With what was learnt beside its numbers.
    pub(super) fn with_diagnostics(self, positivity: Vec<Positivity>, effective: f64) -> Self {
        Self { positivity: Arc::new(positivity), effective, ..self }
    }

    /// The same effect on other people.
    pub(super) fn on_components(&self, parts: Vec<(f64, Model)>, people: PopulationWeights) -> Self {
        let positivity = Arc::clone(&self.positivity);
        Self { parts, population: Some(people), positivity, effective: self.effective }
    }

    pub(super) fn models(&self) -> impl Iterator<Item = (f64, &Model)> {
        self.parts.iter().map(|(weight, model)| (*weight, model))
    }

    /// The first study's treatments.
    pub fn treatments(&self) -> &Table {
        match &self.parts[0].1 {
            Model::Link(link) => &link.treatments,
            Model::Iterated(own) => &own.treatments,
        }
    }

    /// β₀, on average: the mean outcome, to which effects return where nothing is known.
    pub(super) fn constant(&self) -> f64 {
        let of = |model: &Model| match model {
            Model::Link(link) => link.outcome.constant(),
            Model::Iterated(own) => own.process().constant,
        };
        self.models().map(|(weight, model)| weight * of(model)).sum()
    }

    pub(super) fn population(&self) -> Option<&PopulationWeights> {
        self.population.as_ref()
    }

    /// As many draws of the hyper-parameters' posterior itself would say as much as those that this is a
    /// mixture of: of the study where these are fewest. Infinite where they are the best, or given.
    pub fn effective_draws(&self) -> f64 {
        self.effective
    }

    /// Of each study that is known through landmarks, by number: of what counts as noise of its rows the mean
    /// share that landmarks leave unexplained, from 0 to 1; or of what comes after at their mediators, if
    /// that is more. The more, the less is known than by all rows.
    pub fn unexplained(&self) -> Vec<(usize, f64)> {
        let mut all: Vec<(usize, f64)> = Vec::new();
        for (weight, model) in self.models() {
            let each = match model {
                Model::Link(link) => link.unexplained(),
                Model::Iterated(own) => own.unexplained().map(|own| (0, own)).into_iter().collect(),
            };
            for (study, own) in each {
                match all.iter_mut().find(|(other, _)| *other == study) {
                    Some((_, sum)) => *sum += weight * own,
                    None => all.push((study, weight * own)),
                }
            }
        }
        all
    }

    /// The effect of each row of treatments. Cost O(n² rows + n rows²) for each study and draw.
    ///
    /// # Errors
    /// As [`Table::align_to`].
    pub fn at(&self, treatments: &Table) -> Result<Told> {
        self.mixture_moments(treatments, |model, treatments| match model {
            Model::Link(link) => Ok(link.told(&link.queries(treatments)?)),
            Model::Iterated(own) => Ok(own.told(treatments)),
        })
    }

    /// The mixture of what models tell: means, what is left open by cause, and how queries stand to the
    /// studies.
    pub(super) fn mixture_moments(
        &self,
        treatments: &Table,
        told: impl Fn(&Model, &Table) -> Result<(Vec<f64>, CovarianceParts, Vec<DataSupport>)>,
    ) -> Result<Told> {
        let q = treatments.rows();
        let (mut mean, mut means, mut causes) = (vec![0.0; q], Vec::new(), CovarianceParts::new());
        let treatments = &treatments.align_to(self.treatments().columns())?;
        let mut standing = vec![DataSupport::default(); q];
        for (weight, model) in self.models() {
            let (own, parts, stands) = told(model, treatments)?;
            mean.iter_mut().zip(&own).for_each(|(m, v)| *m += weight * v);
            means.push((weight, own));
            for (cause, part) in parts {
                add_part(&mut causes, cause, weight, &part);
            }
            standing.iter_mut().zip(stands).for_each(|(all, own)| all.add(weight, own));
        }
        let open = self.population.as_ref().and_then(|people| people.unexplained_share).unwrap_or(0.0);
        standing.iter_mut().for_each(|own| (own.population_explained, own.overlap) = (1.0 - open, 1.0));
        for positivity in self.positivity.iter() {
            let near = positivity.supported_shares(self.population.as_ref(), treatments)?;
            standing.iter_mut().zip(near).for_each(|(own, near)| own.overlap = own.overlap.min(near));
        }
        if means.len() > 1 {
            let mut spread = Matrix::zeros(q, q);
            for (weight, own) in &means {
                let off: Vec<f64> = own.iter().zip(&mean).map(|(v, m)| v - m).collect();
                for (i, a) in off.iter().enumerate() {
                    spread.row_mut(i).iter_mut().zip(&off).for_each(|(s, b)| *s += weight * a * b);
                }
            }
            add_part(&mut causes, UncertaintyCause::Hyperparameters, 1.0, &spread);
        }
        let covariance = sum_parts(&causes, q);
        Ok(Told { mean, covariance, causes, standing })
    }

    /// Joint draws of the effect of each row of treatments, rows × draws: of hyper-parameters, of the outcome
    /// where studies may lead, and of where they lead. Their tails are heavier than those of a normal
    /// distribution with the covariance, but where studies share covariates, and of an effect from one table:
    /// given hyper-parameters these draws are normal. Cost besides that of [`at`](Self::at) (2n + m)³ for n
    /// rows of a study and m of the next.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite);
    /// [`Error::Parameter`](crate::Error::Parameter) for more draws than memory holds.
    pub fn sample(&self, treatments: &Table, draws: usize, seed: u64) -> Result<Matrix> {
        let places = self.models().map(|(_, model)| match model {
            Model::Link(link) => link.places(),
            Model::Iterated(_) => 0,
        });
        let places = places.max().unwrap_or(0);
        let joint = places + treatments.rows();
        crate::memory::check_allocation(
            "number of draws",
            draws,
            joint + treatments.rows() + 3 * joint * joint / draws.max(1),
        )?;
        let mut random = Random::seed_from_u64(seed);
        let mut counts = vec![0; self.parts.len()];
        for _ in 0..draws {
            let (at, mut sum) = (random.random::<f64>(), 0.0);
            let part = self.parts.iter().position(|(weight, _)| {
                sum += weight;
                at < sum
            });
            counts[part.unwrap_or(self.parts.len() - 1)] += 1;
        }
        let mut columns = Vec::new();
        let treatments = &treatments.align_to(self.treatments().columns())?;
        for ((_, model), count) in self.models().zip(counts).filter(|(_, count)| *count > 0) {
            let drawn = match model {
                Model::Link(link) => link.sample(&link.queries(treatments)?, count, &mut random)?,
                Model::Iterated(own) => own.sample(treatments, count, &mut random)?,
            };
            columns.extend((0..count).map(|j| drawn.column(j)));
        }
        columns.shuffle(&mut random);
        let values = (0..treatments.rows()).flat_map(|i| columns.iter().map(move |own| own[i])).collect();
        Ok(Matrix::from_row_major(treatments.rows(), draws, values))
    }

    /// By weight the posteriors that this is a mixture of, to be explained: means are expansions over the
    /// first study's treatments. Standard deviations of predictions lack that of the constant, which makes no
    /// difference to Shapley values. Cost n³ each.
    ///
    /// # Errors
    /// As [`KernelExpansion::new`].
    pub fn posteriors(&self) -> Result<Vec<(f64, KernelExpansion, PosteriorCovariance)>> {
        let each = self.models().map(|(weight, model)| {
            let (model, covariance) = match model {
                Model::Link(link) => link.posterior()?,
                Model::Iterated(own) => own.posterior()?,
            };
            Ok((weight, model, covariance))
        });
        each.collect()
    }
}

impl Link {
    /// Treatments as functionals of the effect.
    pub(super) fn queries(&self, treatments: &Table) -> Result<Functionals> {
        let x = treatments.align_to(self.points.columns())?;
        Ok(Functionals {
            columns: self.kernel.cross_gram(&self.points, &x),
            prior_scale: self.kernel.gram(&x),
            constants: vec![1.0; x.rows()],
        })
    }
}

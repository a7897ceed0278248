//! What treatments do to the outcome, how sure that is, and what leaves it unsure.

use std::sync::Arc;

use super::link::Link;
use super::overlap::Overlap;
use super::parts::{Cause, Parts, add, total};
use super::people::People;
use super::standing::Standing;
use crate::error::Result;
use crate::expansion::Expansion;
use crate::linalg::Matrix;
use crate::posterior::{Covariance, Functionals};
use crate::random::{Random, RngExt, SeedableRng, SliceRandom};
use crate::table::Table;

/// An effect: a mixture over hyper-parameters.
#[derive(Debug, Clone)]
pub struct Effect {
    parts: Vec<(f64, Link)>,
    /// Whom it is on, where it is averaged over covariates.
    people: Option<People>,
    /// Where it was learnt what treatments these lead one to expect.
    overlap: Option<Arc<Overlap>>,
    /// Of the stage whose draws say least, as many draws of its hyper-parameters' posterior itself would say as much; infinite where none are drawn.
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
    pub causes: Vec<(Cause, Matrix)>,
    /// How each query stands to the studies.
    pub standing: Vec<Standing>,
}

impl Effect {
    pub(super) fn new(parts: Vec<(f64, Link)>) -> Self {
        let people = parts.first().and_then(|(_, link)| link.people.as_ref()).map(People::all);
        Self { parts, people, overlap: None, effective: f64::INFINITY }
    }

    /// With what was learnt beside its numbers.
    pub(super) fn knowing(self, overlap: Option<Overlap>, effective: f64) -> Self {
        Self { overlap: overlap.map(Arc::new), effective, ..self }
    }

    /// The same effect on other people.
    pub(super) fn on(&self, parts: Vec<(f64, Link)>, people: People) -> Self {
        Self { parts, people: Some(people), overlap: self.overlap.clone(), effective: self.effective }
    }

    pub(super) fn links(&self) -> impl Iterator<Item = (f64, &Link)> {
        self.parts.iter().map(|(weight, link)| (*weight, link))
    }

    /// The first study's treatments.
    pub fn treatments(&self) -> &Table {
        &self.parts[0].1.treatments
    }

    /// β₀, on average: the mean outcome, to which effects return where nothing is known.
    pub(super) fn constant(&self) -> f64 {
        self.links().map(|(weight, link)| weight * link.outcome.constant()).sum()
    }

    pub(super) fn people(&self) -> Option<&People> {
        self.people.as_ref()
    }

    /// As many draws of the hyper-parameters' posterior itself would say as much as those that this is a mixture of: of the study where these are fewest. Infinite where they are the best, or given.
    pub fn effective_draws(&self) -> f64 {
        self.effective
    }

    /// Of each study that is known through landmarks, by number: of what counts as noise of its rows the mean share that landmarks leave unexplained, from 0 to 1; or of what comes after at their mediators,
    /// if that is more. The more, the less is known than by all rows.
    pub fn unexplained(&self) -> Vec<(usize, f64)> {
        let mut all: Vec<(usize, f64)> = Vec::new();
        for (weight, link) in self.links() {
            for (study, own) in link.unexplained() {
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
    /// As [`Table::conform`].
    pub fn at(&self, treatments: &Table) -> Result<Told> {
        self.mixture(treatments, |link, given| Ok(link.told(given)))
    }

    /// The mixture of what links tell: means, what is left open by cause, and how queries stand to the studies.
    pub(super) fn mixture(
        &self,
        treatments: &Table,
        told: impl Fn(&Link, &Functionals) -> Result<(Vec<f64>, Parts, Vec<Standing>)>,
    ) -> Result<Told> {
        let q = treatments.rows();
        let (mut mean, mut means, mut causes) = (vec![0.0; q], Vec::new(), Parts::new());
        let treatments = &treatments.conform(self.parts[0].1.points.columns())?;
        let mut standing = vec![Standing::default(); q];
        for (weight, link) in self.links() {
            let (own, parts, stands) = told(link, &self.queries(link, treatments)?)?;
            mean.iter_mut().zip(&own).for_each(|(m, v)| *m += weight * v);
            means.push((weight, own));
            for (cause, part) in parts {
                add(&mut causes, cause, weight, &part);
            }
            standing.iter_mut().zip(stands).for_each(|(all, own)| all.add(weight, own));
        }
        if let Some(people) = &self.people {
            let near = self.overlap.as_ref();
            let near = near.map(|own| own.shares(&people.covariates, &people.weights, treatments));
            for (q, own) in standing.iter_mut().enumerate() {
                own.people = 1.0 - people.open.unwrap_or(0.0);
                own.overlap = near.as_ref().map_or(1.0, |near| near[q]);
            }
        }
        if means.len() > 1 {
            let mut spread = Matrix::zeros(q, q);
            for (weight, own) in &means {
                let off: Vec<f64> = own.iter().zip(&mean).map(|(v, m)| v - m).collect();
                for (i, a) in off.iter().enumerate() {
                    spread.row_mut(i).iter_mut().zip(&off).for_each(|(s, b)| *s += weight * a * b);
                }
            }
            add(&mut causes, Cause::Hyperparameters, 1.0, &spread);
        }
        let covariance = total(&causes, q);
        Ok(Told { mean, covariance, causes, standing })
    }

    /// Joint draws of the effect of each row of treatments, rows × draws: of hyper-parameters, of the outcome where studies may lead, and of where they lead. Their tails are heavier than those of a
    /// normal distribution with the covariance, but where studies share covariates, of which draws are normal. Cost besides that of [`at`](Self::at) (2n + m)³ for n rows of a study and m of the next.
    ///
    /// # Errors
    /// As [`Table::conform`]; [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite); [`Error::Parameter`](crate::Error::Parameter) for more draws than memory holds.
    pub fn sample(&self, treatments: &Table, draws: usize, seed: u64) -> Result<Matrix> {
        let places = self.links().map(|(_, link)| link.places()).max().unwrap_or(0);
        let joint = places + treatments.rows();
        crate::memory::check(
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
        for ((_, link), count) in self.links().zip(counts).filter(|(_, count)| *count > 0) {
            let drawn = link.sample(&self.queries(link, treatments)?, count, &mut random)?;
            columns.extend((0..count).map(|j| drawn.column(j)));
        }
        columns.shuffle(&mut random);
        let values = (0..treatments.rows()).flat_map(|i| columns.iter().map(move |own| own[i])).collect();
        Ok(Matrix::from_row_major(treatments.rows(), draws, values))
    }

    /// By weight the posteriors that this is a mixture of, to be explained: means are expansions over the first study's treatments. Standard deviations of predictions lack that of the constant, which
    /// makes no difference to Shapley values. Cost n³ each.
    ///
    /// # Errors
    /// As [`Expansion::new`].
    pub fn posteriors(&self) -> Result<Vec<(f64, Expansion, Covariance)>> {
        let each = self.links().map(|(weight, link)| {
            let (model, covariance) = link.posterior()?;
            Ok((weight, model, covariance))
        });
        each.collect()
    }

    pub(super) fn queries(&self, link: &Link, treatments: &Table) -> Result<Functionals> {
        let x = treatments.conform(link.points.columns())?;
        Ok(Functionals {
            columns: link.kernel.cross_gram(&link.points, &x),
            prior: link.kernel.gram(&x),
            constants: vec![1.0; x.rows()],
        })
    }
}

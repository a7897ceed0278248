//! What a model of duels says of who wins, and how sure that is.

use super::explain::superiority;
use super::sides::Sides;
use crate::error::Result;
use crate::expansion::Expansion;
use crate::explanation::{Chance, Duel};
use crate::linalg::{Matrix, Sparse};
use crate::posterior::{Covariance, Posterior};
use crate::prediction::{Prediction, SumPrediction};
use crate::table::Table;

/// The log odds of duels, one each.
#[derive(Debug, Clone, PartialEq)]
pub struct Odds {
    /// Their means.
    pub mean: Vec<f64>,
    /// Their standard deviations; none without a posterior.
    pub sd: Option<Vec<f64>>,
    /// That the left item wins, averaged over the posterior.
    pub probability: Option<Vec<f64>>,
}

impl Odds {
    /// Of duels as wide rows. Cost O(n²) a duel for n pairs that met, where there is a posterior.
    ///
    /// # Errors
    /// As [`Prediction::of`]; [`Error::Parameter`](crate::Error::Parameter) for a model that is none of duels.
    pub fn of(model: &Expansion, covariance: Option<&Covariance>, rows: &Table) -> Result<Self> {
        let sides = Sides::of(model.columns())?;
        let rows = rows.conform(model.columns())?;
        let found = Prediction::of(model, covariance, &rows)?;
        let posterior = covariance.map(|own| Posterior::new(model, own)).transpose()?;
        let sd = posterior.map(|own| own.sd(&rows)).transpose()?;
        // Of two alike nothing is unknown, and rounding means nothing.
        let alike =
            |i: usize| sides.left.iter().zip(&sides.right).all(|(l, r)| rows.get(i, *l) == rows.get(i, *r));
        let settled = |all: &Matrix| -> Vec<f64> {
            (0..rows.rows()).map(|i| if alike(i) { 0.0 } else { all[(i, 0)] }).collect()
        };
        Ok(Self {
            mean: settled(&found.outputs),
            sd: sd.as_ref().map(settled),
            probability: found.probabilities.as_ref().map(of_left),
        })
    }

    /// Of weighted sums of the log odds of duels: those of bags, with what [`Bags::duels`](super::Bags::duels) makes. Means alone without a posterior.
    ///
    /// # Errors
    /// As [`SumPrediction::of`].
    pub fn of_sums(
        model: &Expansion,
        covariance: Option<&Covariance>,
        rows: &Table,
        weights: &Sparse,
    ) -> Result<Self> {
        let Some(covariance) = covariance else {
            let mean = weights.transpose_times(&model.predict(rows)?);
            return Ok(Self { mean: mean.column(0), sd: None, probability: None });
        };
        let found = SumPrediction::of(model, covariance, rows, weights)?;
        Ok(Self {
            mean: found.outputs.column(0),
            sd: Some(found.variance.column(0).into_iter().map(f64::sqrt).collect()),
            probability: found.probabilities.as_ref().map(of_left),
        })
    }

    /// Who wins duel i; `None` without a posterior.
    pub fn chance(&self, i: usize) -> Option<Chance> {
        let (mean, sd, probability) = (self.mean[i], self.sd.as_ref()?[i], self.probability.as_ref()?[i]);
        let interval = [-1.96, 1.96].map(|z| 1.0 / (1.0 + (-(mean + z * sd)).exp()));
        Some(Chance { probability, interval, superiority: superiority(mean, sd) })
    }

    /// The duels by name.
    ///
    /// # Panics
    /// Unless there are as many names on either side as duels.
    pub fn duels(&self, left: &[String], right: &[String]) -> Vec<Duel> {
        assert!(left.len() == self.mean.len() && right.len() == self.mean.len(), "one name a duel");
        let duel = |(i, (left, right)): (usize, (&String, &String))| Duel {
            left: left.clone(),
            right: right.clone(),
            chance: self.chance(i),
        };
        left.iter().zip(right).enumerate().map(duel).collect()
    }
}

/// Probabilities that the left item wins: classes are right, left, and perhaps a tie.
fn of_left(all: &Matrix) -> Vec<f64> {
    all.column(1)
}

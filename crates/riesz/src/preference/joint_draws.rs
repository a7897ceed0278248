//! Joint draws from a mixture of posteriors of models of duels: of the utilities of items, and of the log
//! odds of all pairs. Each posterior has a share of the draws that is its weight, up to rounding.

use super::pairwise_log_odds::{PairwiseLogOdds, PosteriorDraws, psd_root};
use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::random::{Random, RngExt, SeedableRng, StandardNormal, hash};

/// The default number of draws of the log odds of all pairs, each of which costs N³ for N items.
pub(super) const LOG_ODDS_DRAWS: usize = 512;

/// Returns the default number of draws of the utilities of n items: 10,000, so that standard errors of
/// probabilities are at most 0.005; for more than 1,000 items fewer, at least 1,000, as each draw costs n².
pub(super) fn default_utility_draws(n: usize) -> usize {
    (10_000_000_000 / (n * n).max(1)).clamp(1000, 10_000)
}

/// A stream of draws that differs from that of the pairs' log odds.
const UTILITY_STREAM: u64 = 1;

/// A normal posterior of utilities with its weight in a mixture.
pub(super) struct UtilityPosterior {
    pub weight: f64,
    pub mean: Vec<f64>,
    pub covariance: Matrix,
}

impl UtilityPosterior {
    /// Returns the posteriors of the utilities of each model of a mixture.
    ///
    /// # Errors
    /// As [`PairwiseLogOdds::utilities`].
    pub fn from_log_odds(parts: &[(f64, &PairwiseLogOdds<'_>)]) -> Result<Vec<Self>> {
        let posterior = |(weight, flow): &(f64, &PairwiseLogOdds<'_>)| {
            let (mean, covariance) = flow.utilities()?;
            Ok(Self { weight: *weight, mean, covariance })
        };
        parts.iter().map(posterior).collect()
    }
}

/// Returns the part of a mixture with these weights to which draw t of `draws` belongs.
fn part_of_draw(weights: &[f64], t: usize, draws: usize) -> usize {
    let position = (t as f64 + 0.5) / draws as f64;
    let mut total = 0.0;
    let ends = weights.iter().map(|weight| {
        total += weight;
        total
    });
    ends.take_while(|end| *end < position).count().min(weights.len() - 1)
}

/// Draws of the utilities of all items.
pub(super) struct UtilityDraws<'p> {
    posteriors: &'p [UtilityPosterior],
    roots: Vec<Matrix>,
    weights: Vec<f64>,
    /// The number of draws.
    pub count: usize,
    seed: u64,
}

impl<'p> UtilityDraws<'p> {
    /// Prepares `count` draws with a seed. Cost N³ for N items and each posterior.
    ///
    /// # Errors
    /// As [`psd_root`].
    pub fn new(posteriors: &'p [UtilityPosterior], count: usize, seed: u64) -> Result<Self> {
        let roots = posteriors.iter().map(|part| psd_root(&part.covariance, f64::EPSILON));
        let weights = posteriors.iter().map(|part| part.weight).collect();
        Ok(Self { posteriors, roots: roots.collect::<Result<_>>()?, weights, count, seed })
    }

    /// Returns the index of the posterior to which draw t belongs.
    pub fn part(&self, t: usize) -> usize {
        part_of_draw(&self.weights, t, self.count)
    }

    /// Returns draw t, one utility per item. Cost N².
    pub fn draw(&self, t: usize) -> Vec<f64> {
        let mut random = Random::seed_from_u64(hash([self.seed, t as u64, UTILITY_STREAM]));
        let k = self.part(t);
        let z: Vec<f64> = (0..self.roots[k].cols()).map(|_| random.sample(StandardNormal)).collect();
        self.posteriors[k].mean.iter().zip(self.roots[k].matvec(&z)).map(|(m, v)| m + v).collect()
    }
}

/// Draws of the log odds of all pairs of items.
pub(super) struct LogOddsDraws<'f> {
    parts: Vec<PosteriorDraws<'f>>,
    weights: Vec<f64>,
    /// The number of draws.
    pub count: usize,
    seed: u64,
}

impl<'f> LogOddsDraws<'f> {
    /// Prepares `count` draws with a seed from a mixture of posteriors with these weights.
    ///
    /// # Errors
    /// As [`PairwiseLogOdds::draws`]; [`Error::TooFew`] without posteriors.
    pub fn new(parts: &[(f64, &'f PairwiseLogOdds<'f>)], count: usize, seed: u64) -> Result<Self> {
        if parts.is_empty() {
            return Err(Error::too_few("the list of posteriors", 1, "posterior is"));
        }
        let (weights, draws): (Vec<f64>, Vec<Result<PosteriorDraws<'f>>>) =
            parts.iter().map(|(weight, flow)| (*weight, flow.draws())).unzip();
        Ok(Self { parts: draws.into_iter().collect::<Result<_>>()?, weights, count, seed })
    }

    /// Returns the index of the posterior to which draw t belongs.
    pub fn part(&self, t: usize) -> usize {
        part_of_draw(&self.weights, t, self.count)
    }

    /// Returns draw t, N × N for N items. Cost as [`PosteriorDraws::draw`].
    pub fn draw(&self, t: usize) -> Matrix {
        self.parts[self.part(t)].draw(hash([self.seed, t as u64]))
    }
}

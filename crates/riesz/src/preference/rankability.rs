//! Rankability under the posterior of a fitted model of duels: the share of the log odds that no utility
//! explains, the ranks of the items, and cyclic triads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::duels::Duels;
use super::gp_preference::PreferenceProcess;
use super::pairwise_log_odds::{PairwiseLogOdds, psd_root};
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result, sized};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, mean, sorted};
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::prediction::reaching;
use crate::random::{Random, RngExt, SeedableRng, StandardNormal, hash};
use crate::table::{ColumnKind, Table};

/// The decomposition of the log odds of all pairs into differences of utilities and a cyclic rest: HodgeRank
/// on the complete graph (Jiang, Lim, Yao and Ye 2011).
#[derive(Debug, Clone, PartialEq)]
pub struct Hodge {
    /// The utilities, whose differences are nearest to the log odds in least squares: row means, which sum to
    /// 0.
    pub utility: Vec<f64>,
    /// The share of the sum of squares that no utility explains, from 0 for a utility to 1 for rock, paper,
    /// scissors; 0 if all log odds are 0. It can be positive for a ranking: if each item beats all lower ones
    /// with the same log odds, it approaches 1/3, because no utility has such steps. Cyclic triads show
    /// whether there is a ranking.
    pub cyclic_share: f64,
}

impl Hodge {
    /// Returns the decomposition of a skew matrix, whose entry (l, r) is the log odds that l beats r.
    pub fn decompose(flow: &Matrix) -> Self {
        let utility: Vec<f64> = (0..flow.rows()).map(|i| mean(flow.row(i))).collect();
        let (mut total, mut cyclic) = (0.0, 0.0);
        for i in 0..flow.rows() {
            for j in 0..i {
                total += flow[(i, j)].powi(2);
                cyclic += (flow[(i, j)] - (utility[i] - utility[j])).powi(2);
            }
        }
        Self { utility, cyclic_share: if total > 0.0 { (cyclic / total).min(1.0) } else { 0.0 } }
    }
}

/// Three items of which each beats the next one, and the last beats the first.
#[derive(Debug, Clone, PartialEq)]
pub struct CyclicTriad {
    /// The items, the one with the lowest number first.
    pub items: [usize; 3],
    /// The share of posterior draws in which they form this cycle.
    pub probability: f64,
}

/// Posterior summary of a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Rankability {
    /// For each item, the posterior mean of its mean log odds against all items.
    pub utility: Vec<f64>,
    /// For each item, the ends of the credible interval of its utility, from quantiles of the draws. These
    /// intervals, and those of ranks, are extended to the estimate if it lies outside. The rank by the mean
    /// utility may lie outside if a different item exceeds this one in each draw.
    pub utility_interval: Vec<(f64, f64)>,
    /// For each item, its rank by the posterior mean of its utility, 1 for the best.
    pub rank: Vec<usize>,
    /// For each item, the ends of the credible interval of its rank.
    pub rank_interval: Vec<(usize, usize)>,
    /// For each item, the probability that it is the best one.
    pub best: Vec<f64>,
    /// The share of the squared posterior mean log odds that no utility explains.
    pub cyclic_share: f64,
    /// The cyclic share over posterior draws: lower end, median and upper end. A posterior from few data
    /// allows cycles that its mean does not have.
    pub cyclic_share_interval: (f64, f64, f64),
    /// The most probable cyclic triads.
    pub triangles: Vec<CyclicTriad>,
    /// The level of the intervals.
    pub level: f64,
    /// The number of draws from which the intervals are estimated.
    pub draws: usize,
}

/// Points of the Elo scale per unit of log odds: 400 / ln 10, so that a difference of 400 points means odds
/// of 10 to 1.
pub const ELO_PER_LOG_ODDS: f64 = 400.0 / std::f64::consts::LN_10;

/// The usual mean of Elo ratings.
pub const ELO_MEAN: f64 = 1500.0;

/// The rating of an item on the Elo scale, with its credible interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EloRating {
    /// The rating.
    pub rating: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Rankability {
    /// Returns the utilities on the Elo scale, `mean + 400 / ln 10 · utility`. Utilities sum to 0, so `mean`
    /// is the mean rating of the ranked items. The expected score of an item with a rating R against one with
    /// a rating S is `1 / (1 + 10^((S - R) / 400))`, if there are no cycles.
    pub fn elo(&self, mean: f64) -> Vec<EloRating> {
        let on_scale = |utility: f64| mean + ELO_PER_LOG_ODDS * utility;
        let rating = |(utility, (low, high)): (&f64, &(f64, f64))| EloRating {
            rating: on_scale(*utility),
            low: on_scale(*low),
            high: on_scale(*high),
        };
        self.utility.iter().zip(&self.utility_interval).map(rating).collect()
    }
}

/// The settings of a posterior summary of a ranking.
#[derive(Debug, Clone)]
pub struct RankingRequest {
    /// The number of joint draws from the posterior, at least 2.
    pub draws: usize,
    /// The level of the intervals, between 0 and 1.
    pub level: f64,
    /// The number of cyclic triads to return.
    pub triangles: usize,
    /// The seed of the draws.
    pub seed: u64,
    /// A flag that another thread sets to cancel the run.
    pub stop: Arc<AtomicBool>,
    /// The progress of the run in draws, for other threads to read.
    pub progress: Arc<Progress>,
}

impl Default for RankingRequest {
    /// The defaults are 512 draws, 95 % intervals and ten cyclic triads.
    fn default() -> Self {
        Self {
            draws: 512,
            level: 0.95,
            triangles: 10,
            seed: 0,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }
}

/// The summary of a draw.
struct DrawSummary {
    hodge: Hodge,
    rank: Vec<u32>,
    /// For each pair (l, r), one bit: whether l beats r.
    wins: Vec<u64>,
}

impl RankingRequest {
    /// Returns the summary of a posterior of log odds. Cost O(N³) per draw for N items, and N³/64 per draw
    /// for the triads. Results do not depend on the number of threads.
    ///
    /// # Errors
    /// As [`PairwiseLogOdds::draws`]; [`Error::TooFew`] for fewer than two items; [`Error::Parameter`];
    /// [`Error::Interrupted`].
    pub fn summarise_log_odds(&self, flow: &PairwiseLogOdds<'_>) -> Result<Rankability> {
        self.check(flow.items())?;
        let draws = flow.draws()?;
        self.summarise(&flow.mean(), |seed| draws.draw(seed))
    }

    /// Returns the summary of a normal posterior of abilities, one per item, with this mean and covariance.
    /// It has no cycles. Cost O(N³), and O(N²) per draw.
    ///
    /// # Errors
    /// As [`summarise_log_odds`](Self::summarise_log_odds); [`Error::Shape`].
    pub fn of_abilities(&self, mean: &[f64], covariance: &Matrix) -> Result<Rankability> {
        self.check(mean.len())?;
        sized("the covariance of abilities", "rows", mean.len(), covariance.rows(), "one per item")?;
        let root = psd_root(covariance, f64::EPSILON)?;
        let differences = |abilities: &[f64]| {
            Matrix::from_fn(abilities.len(), abilities.len(), |l, r| abilities[l] - abilities[r])
        };
        let draw = |seed: u64| {
            let mut random = Random::seed_from_u64(seed);
            let z: Vec<f64> = (0..root.cols()).map(|_| random.sample(StandardNormal)).collect();
            differences(&mean.iter().zip(root.matvec(&z)).map(|(m, v)| m + v).collect::<Vec<f64>>())
        };
        let without_triads = Self { triangles: 0, ..self.clone() };
        without_triads.summarise(&differences(mean), draw)
    }

    /// Returns the summary of the abilities of all items of a [Bradley-Terry model](super::BradleyTerry),
    /// from the model and the covariance in its file. Cost as [`of_abilities`](Self::of_abilities).
    ///
    /// # Errors
    /// As [`of_abilities`](Self::of_abilities); [`Error::Parameter`] for another model.
    pub fn of_ability_model(
        &self,
        model: &KernelExpansion,
        covariance: &PosteriorCovariance,
    ) -> Result<Rankability> {
        let columns = model.columns();
        let count = match columns.first().map(|column| &column.kind) {
            Some(ColumnKind::Categorical { levels }) if columns.len() == 2 => levels.len(),
            _ => {
                let allowed = "abilities of items are those of a Bradley-Terry model";
                return Err(Error::parameter("model", model.kernel.formula(), allowed));
            }
        };
        // Each item against the first one, since only differences of abilities matter.
        let values = (0..count).map(|i| i as f64).chain(std::iter::repeat_n(0.0, count)).collect();
        let rows = Table::from_column_major(columns.to_vec(), count, values)?;
        let posterior = Posterior::new(model, covariance)?;
        let items = posterior.functionals_at(&rows)?;
        self.of_abilities(&posterior.mean_of(&items).column(0), &posterior.covariance(&items)[0])
    }

    fn check(&self, n: usize) -> Result<()> {
        if n < 2 {
            return Err(Error::too_few("the table of items", 2, "rows are"));
        }
        if self.draws < 2 {
            return Err(Error::parameter("n_samples", self.draws, "intervals need 2 or more samples"));
        }
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Error::parameter("level", self.level, "it lies between 0 and 1"));
        }
        crate::memory::check_allocation("draws", self.draws, n.saturating_mul(n).div_ceil(32))
    }

    /// Summarises the log odds of all pairs, from their mean and from draws, each with its own seed.
    fn summarise(&self, mean: &Matrix, draw: impl Fn(u64) -> Matrix + Sync) -> Result<Rankability> {
        let (n, words) = (mean.rows(), self.draws.div_ceil(64));
        let mean = Hodge::decompose(mean);
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        self.progress.start(self.draws);
        let summarise_draw = |t: usize| {
            control.check_cancelled()?;
            let log_odds = draw(hash([self.seed, t as u64]));
            control.step();
            Ok(DrawSummary::from_log_odds(&log_odds))
        };
        let summaries =
            (0..self.draws).into_par_iter().map(summarise_draw).collect::<Result<Vec<DrawSummary>>>()?;
        let shares: Vec<f64> = summaries.iter().map(|s| s.hodge.cyclic_share).collect();
        let (low, high) = (0.5 * (1.0 - self.level), 0.5 * (1.0 + self.level));
        let quantiles = |values: Vec<f64>| {
            let sorted = sorted(&values);
            (quantile(&sorted, low), quantile(&sorted, 0.5), quantile(&sorted, high))
        };
        let utility_interval = |i: usize| {
            let (lower, _, upper) = quantiles(summaries.iter().map(|s| s.hodge.utility[i]).collect());
            reaching([lower, upper], mean.utility[i]).into()
        };
        let rank: Vec<usize> = ranks(&mean.utility).into_iter().map(|r| r as usize).collect();
        let rank_interval = |i: usize| {
            let mut sorted_ranks: Vec<u32> = summaries.iter().map(|s| s.rank[i]).collect();
            sorted_ranks.sort_unstable();
            let last_index = (sorted_ranks.len() - 1) as f64;
            // The bounds are rounded outwards to whole ranks, so that the interval has at least its level.
            let interval = [(low * last_index).floor(), (high * last_index).ceil()]
                .map(|position| sorted_ranks[position as usize] as usize);
            (interval[0].min(rank[i]), interval[1].max(rank[i]))
        };
        let best = |i: usize| summaries.iter().filter(|s| s.rank[i] == 1).count() as f64 / self.draws as f64;
        Ok(Rankability {
            utility_interval: (0..n).map(utility_interval).collect(),
            rank_interval: (0..n).map(rank_interval).collect(),
            rank,
            best: (0..n).map(best).collect(),
            cyclic_share: mean.cyclic_share,
            cyclic_share_interval: quantiles(shares),
            triangles: self.cyclic_triads(n, &win_bits(n, words, &summaries), words, control)?,
            utility: mean.utility,
            level: self.level,
            draws: self.draws,
        })
    }

    /// Returns the most probable cyclic triads; `win_bits` has one bit per draw for each pair.
    fn cyclic_triads(
        &self,
        n: usize,
        win_bits: &[u64],
        words: usize,
        control: RunControl<'_>,
    ) -> Result<Vec<CyclicTriad>> {
        let bits = |l: usize, r: usize| &win_bits[(l * n + r) * words..(l * n + r + 1) * words];
        let count = |a: usize, b: usize, c: usize| -> u32 {
            let words_of_pairs = bits(a, b).iter().zip(bits(b, c)).zip(bits(c, a));
            words_of_pairs.map(|((x, y), z)| (x & y & z).count_ones()).sum()
        };
        let n_triads = self.triangles;
        let best_triads_from = |a: usize| {
            control.check_cancelled()?;
            let mut best: Vec<(u32, [usize; 3])> = Vec::new();
            let mut min_count = 1;
            for b in a + 1..n {
                for c in b + 1..n {
                    for (y, z) in [(b, c), (c, b)] {
                        let n_draws = count(a, y, z);
                        if n_draws >= min_count {
                            best.push((n_draws, [a, y, z]));
                        }
                    }
                }
                if best.len() > n_triads.saturating_mul(4) {
                    keep_top(&mut best, n_triads);
                    min_count = best.last().map_or(1, |(n_draws, _)| *n_draws);
                }
            }
            keep_top(&mut best, n_triads);
            Ok(best)
        };
        if n_triads == 0 {
            return Ok(Vec::new());
        }
        let best_triads = (0..n).into_par_iter().map(best_triads_from).collect::<Result<Vec<_>>>()?;
        let mut best_triads: Vec<(u32, [usize; 3])> = best_triads.into_iter().flatten().collect();
        keep_top(&mut best_triads, n_triads);
        let triangle =
            |(n_draws, items)| CyclicTriad { items, probability: f64::from(n_draws) / self.draws as f64 };
        Ok(best_triads.into_iter().map(triangle).collect())
    }
}

/// Keeps the `n_triads` triads with the most draws; ties are resolved by their items.
fn keep_top(best: &mut Vec<(u32, [usize; 3])>, n_triads: usize) {
    best.sort_by(|triad, other| other.0.cmp(&triad.0).then(triad.1.cmp(&other.1)));
    best.truncate(n_triads);
}

impl DrawSummary {
    fn from_log_odds(flow: &Matrix) -> Self {
        let hodge = Hodge::decompose(flow);
        let mut wins = vec![0; flow.data().len().div_ceil(64)];
        for (entry, _) in flow.data().iter().enumerate().filter(|(_, v)| **v > 0.0) {
            wins[entry / 64] |= 1_u64 << (entry % 64);
        }
        Self { rank: ranks(&hodge.utility), wins, hodge }
    }
}

/// Returns for each pair one bit per draw, from one bit per pair of each draw.
fn win_bits(n: usize, words: usize, summaries: &[DrawSummary]) -> Vec<u64> {
    let mut out = vec![0; n * n * words];
    out.par_chunks_mut(words).enumerate().for_each(|(entry, bits)| {
        for (t, summary) in summaries.iter().enumerate() {
            bits[t / 64] |= (summary.wins[entry / 64] >> (entry % 64) & 1) << (t % 64);
        }
    });
    out
}

/// Returns ranks by utility, 1 for the best; equal utilities share their best rank.
fn ranks(utility: &[f64]) -> Vec<u32> {
    let sorted = sorted(utility);
    let n_better = |u: &f64| sorted.len() - sorted.partition_point(|other| other <= u);
    utility.iter().map(|u| n_better(u) as u32 + 1).collect()
}

/// Returns a quantile of sorted values by linear interpolation.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    low + position.fract() * (high - low)
}

/// The marginal likelihoods of the same duels under three priors: a utility, the generalised part, and both.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEvidence {
    /// The log marginal likelihood of a utility and a generalised part together.
    pub nested: f64,
    /// The log marginal likelihood of a utility alone.
    pub utility: f64,
    /// The log marginal likelihood of the generalised part alone.
    pub generalised: f64,
}

impl ModelEvidence {
    /// Returns the log Bayes factor of the nested model against the utility alone, as if tuned parameters
    /// were known. If it is negative, a ranking is sufficient.
    pub fn cycles(&self) -> f64 {
        self.nested - self.utility
    }

    /// Fits `process` in three forms: with both parts, and with each part alone. In the nested form a part
    /// without a variance takes that of the other part. Cost of three fits.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`].
    pub fn compare(process: &PreferenceProcess, items: &Table, duels: &Duels) -> Result<Self> {
        let prior = &process.prior;
        let variance_or = |variance: f64, other: f64| if variance > 0.0 { variance } else { other };
        let utility = variance_or(prior.utility_variance, prior.generalised_variance);
        let generalised = variance_or(prior.generalised_variance, prior.utility_variance);
        let mut nested = process.clone();
        (nested.prior.utility_variance, nested.prior.generalised_variance) = (utility, generalised);
        Self::from_nested_evidence(nested.fit(items, duels)?.log_marginal_likelihood, &nested, items, duels)
    }

    /// Returns the evidence, given the log marginal likelihood of the nested `process`. Further utilities
    /// belong to the nested model and to the ranking, not to the generalised part alone. Cost of two fits.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`].
    pub fn from_nested_evidence(
        nested: f64,
        process: &PreferenceProcess,
        items: &Table,
        duels: &Duels,
    ) -> Result<Self> {
        let value =
            |process: &PreferenceProcess| process.fit(items, duels).map(|fit| fit.log_marginal_likelihood);
        let [mut ranking, mut cycles] = [process.clone(), process.clone()];
        ranking.prior.generalised_variance = 0.0;
        (cycles.prior.utility_variance, cycles.prior.extra_utility_kernel) = (0.0, None);
        Ok(Self { nested, utility: value(&ranking)?, generalised: value(&cycles)? })
    }
}

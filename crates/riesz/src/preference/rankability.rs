//! Rankability under the posterior of a fitted model of duels: the share of the log odds that no utility
//! explains, the ranks of the items, and cyclic triads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::joint_draws::{
    LOG_ODDS_DRAWS, LogOddsDraws, UtilityDraws, UtilityPosterior, default_utility_draws,
};
use super::pairwise_log_odds::{PairwiseLogOdds, relative_to_mean};
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result, sized};
use crate::explanation::normal;
use crate::linalg::{Matrix, mean, sorted};
use crate::model_average::ModelPart;
use crate::table::Table;

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
    /// For each item, the ends of the credible interval of its utility, from a normal distribution with the
    /// posterior's mean and variance.
    pub utility_interval: Vec<(f64, f64)>,
    /// For each item, its rank by the posterior mean of its utility, 1 for the best.
    pub rank: Vec<usize>,
    /// For each item, the ends of the credible interval of its rank, from quantiles of the draws, extended to
    /// the rank if this lies outside. That is possible if a different item exceeds this one in each draw.
    pub rank_interval: Vec<(usize, usize)>,
    /// For each item, the probability that it is the best one, estimated from the draws. It need not be
    /// largest for the item of rank 1, because an uncertain utility exceeds the others more often.
    pub best: Vec<f64>,
    /// For each item, the probability that it is the Condorcet winner, which beats each of the other items
    /// with a probability above one half. It is estimated from the draws of all pairs. With cycles there may
    /// be no such item, so the probabilities add up to at most 1. Without cycles it is [`best`](Self::best).
    pub condorcet: Vec<f64>,
    /// The share of the squared posterior mean log odds that no utility explains.
    pub cyclic_share: f64,
    /// The cyclic share over posterior draws: lower end, median and upper end. A posterior from few data
    /// allows cycles that its mean does not have.
    pub cyclic_share_interval: (f64, f64, f64),
    /// The most probable cyclic triads.
    pub triangles: Vec<CyclicTriad>,
    /// The level of the intervals.
    pub level: f64,
    /// The number of draws from which ranks and probabilities of being the best are estimated.
    pub draws: usize,
    /// The number of draws from which cycles are estimated; 0 for a model without cycles.
    pub cycle_draws: usize,
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
    /// Returns the standard error of each probability of being the best, `√(p (1 - p) / draws)`.
    pub fn best_std_error(&self) -> Vec<f64> {
        std_errors(&self.best, self.draws)
    }

    /// Returns the standard error of each probability of being the Condorcet winner.
    pub fn condorcet_std_error(&self) -> Vec<f64> {
        std_errors(&self.condorcet, if self.cycle_draws > 0 { self.cycle_draws } else { self.draws })
    }

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

/// Returns the standard errors `√(p (1 - p) / draws)` of probabilities that are shares of draws.
fn std_errors(probabilities: &[f64], draws: usize) -> Vec<f64> {
    probabilities.iter().map(|p| (p * (1.0 - p) / draws as f64).sqrt()).collect()
}

/// The settings of a posterior summary of a ranking.
#[derive(Debug, Clone)]
pub struct RankingRequest {
    /// The number of joint draws from the posterior, at least 2. `None`: 10,000 draws of the utilities, or
    /// fewer if there are more than 1,000 items; and 512 draws of the log odds of all pairs, which cycles
    /// need.
    pub draws: Option<usize>,
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
    /// The defaults are 95 % intervals and ten cyclic triads.
    fn default() -> Self {
        Self {
            draws: None,
            level: 0.95,
            triangles: 10,
            seed: 0,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }
}

/// The summary of a draw of the log odds of all pairs.
struct DrawSummary {
    cyclic_share: f64,
    /// The item that beats all others, if there is one.
    condorcet_winner: Option<usize>,
    /// For each pair (l, r), one bit: whether l beats r.
    wins: Vec<u64>,
}

impl RankingRequest {
    /// Returns the summary of a posterior of log odds. Cost O(N³) for N items, O(N²) per draw of the
    /// utilities, and if the model allows cycles O(N³) per draw of the log odds. Results do not depend on the
    /// number of threads.
    ///
    /// # Errors
    /// As [`PairwiseLogOdds::draws`]; [`Error::TooFew`] for fewer than two items; [`Error::Parameter`];
    /// [`Error::Interrupted`].
    pub fn summarise_log_odds(&self, flow: &PairwiseLogOdds<'_>) -> Result<Rankability> {
        self.summarise_mixture(&[(1.0, flow)])
    }

    /// Returns the summary of a mixture of models of duels, with weights that add up to 1, for the rows of
    /// `items`; `context` as for [`PairwiseLogOdds::new`]. Each model has its share of the draws. Intervals
    /// of utilities are those of normal distributions with the mixture's means and variances.
    ///
    /// # Errors
    /// Errors of [`PairwiseLogOdds::new`] and [`summarise_log_odds`](Self::summarise_log_odds).
    pub fn summarise_models(
        &self,
        parts: &[ModelPart<'_>],
        items: &Table,
        context: Option<&[f64]>,
    ) -> Result<Rankability> {
        let log_odds = parts.iter().map(|part| {
            Ok((part.weight, PairwiseLogOdds::new(part.model, part.covariance, items, context)?))
        });
        let log_odds = log_odds.collect::<Result<Vec<_>>>()?;
        let weighted: Vec<_> = log_odds.iter().map(|(weight, flow)| (*weight, flow)).collect();
        self.summarise_mixture(&weighted)
    }

    fn summarise_mixture(&self, parts: &[(f64, &PairwiseLogOdds<'_>)]) -> Result<Rankability> {
        let Some((_, first)) = parts.first() else {
            return Err(Error::too_few("the list of posteriors", 1, "posterior is"));
        };
        self.check(first.items())?;
        let utilities = UtilityPosterior::from_log_odds(parts)?;
        let cycle_draws = if first.allows_cycles() { self.draws.unwrap_or(LOG_ODDS_DRAWS) } else { 0 };
        let summary = self.summarise_utilities(&utilities, cycle_draws)?;
        if cycle_draws == 0 {
            return Ok(summary);
        }
        let mut mean = Matrix::zeros(first.items(), first.items());
        parts.iter().for_each(|(weight, flow)| mean.add_times(*weight, &flow.mean()));
        self.with_cycles(summary, &mean, &LogOddsDraws::new(parts, cycle_draws, self.seed)?)
    }

    /// Returns the summary of a normal posterior of abilities, one per item, with this mean and covariance.
    /// It has no cycles. Cost O(N³), and O(N²) per draw.
    ///
    /// # Errors
    /// As [`summarise_log_odds`](Self::summarise_log_odds); [`Error::Shape`].
    pub fn of_abilities(&self, abilities: &[f64], covariance: &Matrix) -> Result<Rankability> {
        let n = abilities.len();
        self.check(n)?;
        sized("the covariance of abilities", "rows", n, covariance.rows(), "one per item")?;
        // The mean log odds against all items are the ability without the mean ability.
        let (mean, covariance) = relative_to_mean(abilities, covariance);
        self.summarise_utilities(&[UtilityPosterior { weight: 1.0, mean, covariance }], 0)
    }

    fn check(&self, n: usize) -> Result<()> {
        if n < 2 {
            return Err(Error::too_few("the table of items", 2, "rows are"));
        }
        let draws = self.draws.unwrap_or_else(|| default_utility_draws(n));
        if draws < 2 {
            return Err(Error::parameter("n_samples", draws, "ranks need 2 or more samples"));
        }
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Error::parameter("level", self.level, "it lies between 0 and 1"));
        }
        crate::memory::check_allocation("draws", draws, n)?;
        let cycle_draws = self.draws.unwrap_or(LOG_ODDS_DRAWS);
        crate::memory::check_allocation("draws", cycle_draws, n.saturating_mul(n).div_ceil(32))
    }

    /// The tails on either side of the intervals.
    fn tails(&self) -> (f64, f64) {
        (0.5 * (1.0 - self.level), 0.5 * (1.0 + self.level))
    }

    /// Summarises utilities from a mixture of normal posteriors: intervals in closed form, ranks from draws.
    /// `cycle_draws` follow, for the progress.
    fn summarise_utilities(&self, parts: &[UtilityPosterior], cycle_draws: usize) -> Result<Rankability> {
        let n = parts[0].mean.len();
        let draws = self.draws.unwrap_or_else(|| default_utility_draws(n));
        let source = UtilityDraws::new(parts, draws, self.seed)?;
        let weighted_sum = |term: &dyn Fn(&UtilityPosterior) -> f64| -> f64 {
            parts.iter().map(|part| part.weight * term(part)).sum()
        };
        let utility: Vec<f64> = (0..n).map(|i| weighted_sum(&|part| part.mean[i])).collect();
        let variance = |i: usize| {
            weighted_sum(&|part| part.covariance[(i, i)].max(0.0) + (part.mean[i] - utility[i]).powi(2))
        };
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        self.progress.start(draws + cycle_draws);
        let ranks_of_draw = |t: usize| {
            control.check_cancelled()?;
            let draw_ranks = ranks(&source.draw(t));
            control.step();
            Ok(draw_ranks)
        };
        let drawn_ranks = (0..draws).into_par_iter().map(ranks_of_draw).collect::<Result<Vec<Vec<u32>>>>()?;
        let (low, high) = self.tails();
        let quantile = normal::quantile(high);
        let utility_interval = |i: usize| {
            let half_width = quantile * variance(i).sqrt();
            (utility[i] - half_width, utility[i] + half_width)
        };
        let rank: Vec<usize> = ranks(&utility).into_iter().map(|r| r as usize).collect();
        let rank_interval = |i: usize| {
            let mut sorted_ranks: Vec<u32> = drawn_ranks.iter().map(|ranks| ranks[i]).collect();
            sorted_ranks.sort_unstable();
            let last_index = (draws - 1) as f64;
            // The bounds are rounded outwards to whole ranks, so that the interval has at least its level.
            let interval = [(low * last_index).floor(), (high * last_index).ceil()]
                .map(|position| sorted_ranks[position as usize] as usize);
            (interval[0].min(rank[i]), interval[1].max(rank[i]))
        };
        let best = |i: usize| drawn_ranks.iter().filter(|ranks| ranks[i] == 1).count() as f64 / draws as f64;
        let best: Vec<f64> = (0..n).into_par_iter().map(best).collect();
        Ok(Rankability {
            utility_interval: (0..n).map(utility_interval).collect(),
            rank_interval: (0..n).into_par_iter().map(rank_interval).collect(),
            condorcet: best.clone(),
            best,
            rank,
            cyclic_share: 0.0,
            cyclic_share_interval: (0.0, 0.0, 0.0),
            triangles: Vec::new(),
            utility,
            level: self.level,
            draws,
            cycle_draws,
        })
    }

    /// Adds the cyclic share, cyclic triads and Condorcet winners to a summary, from the log odds of all
    /// pairs: their mean and draws.
    fn with_cycles(
        &self,
        summary: Rankability,
        mean: &Matrix,
        source: &LogOddsDraws<'_>,
    ) -> Result<Rankability> {
        let (n, draws) = (mean.rows(), summary.cycle_draws);
        let words = draws.div_ceil(64);
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let summarise_draw = |t: usize| {
            control.check_cancelled()?;
            let draw_summary = DrawSummary::from_log_odds(&source.draw(t));
            control.step();
            Ok(draw_summary)
        };
        let summaries =
            (0..draws).into_par_iter().map(summarise_draw).collect::<Result<Vec<DrawSummary>>>()?;
        let shares = sorted(&summaries.iter().map(|s| s.cyclic_share).collect::<Vec<f64>>());
        let (low, high) = self.tails();
        let [low, middle, high] = [low, 0.5, high].map(|share| quantile(&shares, share));
        let mut condorcet = vec![0.0; n];
        for winner in summaries.iter().filter_map(|summary| summary.condorcet_winner) {
            condorcet[winner] += 1.0 / draws as f64;
        }
        Ok(Rankability {
            condorcet,
            cyclic_share: Hodge::decompose(mean).cyclic_share,
            cyclic_share_interval: (low, middle, high),
            triangles: self.cyclic_triads(n, &win_bits(n, words, &summaries), draws, control)?,
            ..summary
        })
    }

    /// Returns the most probable cyclic triads; `win_bits` has one bit per draw for each pair.
    fn cyclic_triads(
        &self,
        n: usize,
        win_bits: &[u64],
        draws: usize,
        control: RunControl<'_>,
    ) -> Result<Vec<CyclicTriad>> {
        let words = draws.div_ceil(64);
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
            |(n_draws, items)| CyclicTriad { items, probability: f64::from(n_draws) / draws as f64 };
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
        let condorcet_winner = condorcet_winner(&numbers_of_wins(flow));
        Self { cyclic_share: hodge.cyclic_share, condorcet_winner, wins }
    }
}

/// Returns the number of other items that each item beats, from the log odds of all pairs.
pub(super) fn numbers_of_wins(flow: &Matrix) -> Vec<usize> {
    (0..flow.rows()).map(|i| flow.row(i).iter().filter(|log_odds| **log_odds > 0.0).count()).collect()
}

/// Returns the item that beats all others, if there is one.
pub(super) fn condorcet_winner(wins: &[usize]) -> Option<usize> {
    wins.iter().position(|count| count + 1 == wins.len())
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

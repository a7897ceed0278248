//! The next duel to hold: the expected information of its outcome about the best item, about all log odds, or
//! about cycles.
//!
//! Let y be the outcome of a duel with probabilities P(y | g) given its log odds g, and z the quantity of
//! interest, a function of the log odds of all pairs. The information is their mutual information under the
//! posterior, `I(y; z) = Σ_z P(z) Σ_y P(y | z) log [P(y | z) / P(y)]`: by how much the outcome is expected to
//! reduce the entropy of z (Lindley 1956; MacKay 1992). It is estimated from joint draws of all log odds. If
//! z is all log odds, it is `H(E p) - E H(p)` with the entropy H of the outcome probabilities p (Houlsby,
//! Huszár, Ghahramani and Lengyel 2011).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::joint_draws::{
    LOG_ODDS_DRAWS, LogOddsDraws, UtilityDraws, UtilityPosterior, default_utility_draws,
};
use super::pair_kernel::Pair;
use super::pairwise_log_odds::PairwiseLogOdds;
use super::rankability::{condorcet_winner, numbers_of_wins};
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::kernel_model::{Link, logistic};
use crate::linalg::index_pairs;
use crate::model_average::ModelPart;
use crate::table::Table;

/// Classes with fewer draws are merged, because information about them would be mostly error.
const MIN_CLASS_DRAWS: usize = 8;

/// The number of classes of the number of cyclic triads, besides the class without cycles.
const CYCLE_CLASSES: usize = 8;

/// The quantity about which a duel shall inform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InformationGoal {
    /// The best item. If the model allows cycles, it is the Condorcet winner, which beats each other item
    /// with a probability above one half, or the fact that there is none.
    Best,
    /// The log odds of all pairs, which determine the ranking.
    Ranking,
    /// The number of cyclic triads among the items, in classes: no cycle, and eight classes of about equal
    /// probability. It needs a model that allows cycles.
    Cycles,
}

impl InformationGoal {
    /// The names of the goals, the default first.
    pub const NAMES: [&'static str; 3] = ["best", "ranking", "cycles"];

    /// Returns the goal with this name.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another name.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "best" => Ok(Self::Best),
            "ranking" => Ok(Self::Ranking),
            "cycles" => Ok(Self::Cycles),
            _ => Err(Error::parameter("goal", name, "it is best, ranking or cycles")),
        }
    }
}

/// A duel with its expected information.
#[derive(Debug, Clone, PartialEq)]
pub struct DuelSuggestion {
    /// The left and the right item.
    pub pair: Pair,
    /// The expected information of the outcome in bits, at least 0. A duel without ties has at most 1 bit.
    pub information: f64,
    /// The Monte Carlo standard error of the information.
    pub std_error: f64,
    /// The probability that the left item wins.
    pub probability: f64,
}

/// The settings of suggestions.
#[derive(Debug, Clone)]
pub struct SuggestionRequest {
    /// The quantity about which duels shall inform.
    pub goal: InformationGoal,
    /// The number of duels to return.
    pub count: usize,
    /// The duels that can be held; `None` for all pairs of items.
    pub candidates: Option<Vec<Pair>>,
    /// The number of joint draws from the posterior, at least 2. `None`: 10,000 draws of utilities, or fewer
    /// if there are more than 1,000 items, and 512 draws of all log odds if the model allows cycles.
    pub draws: Option<usize>,
    /// The seed of the draws.
    pub seed: u64,
    /// A flag that another thread sets to cancel the run.
    pub stop: Arc<AtomicBool>,
    /// The progress of the run in draws, for other threads to read.
    pub progress: Arc<Progress>,
}

impl SuggestionRequest {
    /// Returns a request for one duel.
    pub fn new(goal: InformationGoal) -> Self {
        Self {
            goal,
            count: 1,
            candidates: None,
            draws: None,
            seed: 0,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Returns the duels between the rows of `items` with the largest information about the goal, the most
    /// informative first. The information is that of each duel alone. `parts` is a model of duels or a
    /// mixture of models, with weights that add up to 1; `context` as for [`PairwiseLogOdds::new`]. Results
    /// do not depend on the number of threads. Cost as [`RankingRequest`](super::RankingRequest), and
    /// O(draws) for each candidate.
    ///
    /// # Errors
    /// Errors of [`PairwiseLogOdds::new`] and [`PairwiseLogOdds::draws`]; [`Error::TooFew`] for fewer than
    /// two items or without models; [`Error::Parameter`] for a candidate that is not a pair of two items, for
    /// fewer than two draws, and for cycles of a model without them; [`Error::Interrupted`].
    pub fn suggest(
        &self,
        parts: &[ModelPart<'_>],
        items: &Table,
        context: Option<&[f64]>,
    ) -> Result<Vec<DuelSuggestion>> {
        let pairs = self.candidate_pairs(items.rows())?;
        let log_odds = parts.iter().map(|part| {
            Ok((part.weight, PairwiseLogOdds::new(part.model, part.covariance, items, context)?))
        });
        let log_odds = log_odds.collect::<Result<Vec<_>>>()?;
        let weighted: Vec<_> = log_odds.iter().map(|(weight, flow)| (*weight, flow)).collect();
        let margins: Vec<f64> = parts.iter().map(|part| margin(part.model.link)).collect();
        let draws = self.draw_outcomes(&weighted, &margins, &pairs)?;
        let suggestion = |(k, pair): (usize, &Pair)| {
            RunControl { stop: &self.stop, progress: &self.progress }.check_cancelled()?;
            Ok(draws.suggestion(k, *pair))
        };
        let mut suggestions =
            pairs.par_iter().enumerate().map(suggestion).collect::<Result<Vec<DuelSuggestion>>>()?;
        suggestions.sort_by(|a, b| b.information.total_cmp(&a.information));
        suggestions.truncate(self.count);
        Ok(suggestions)
    }

    /// Returns the duels that can be held between n items.
    fn candidate_pairs(&self, n: usize) -> Result<Vec<Pair>> {
        if n < 2 {
            return Err(Error::too_few("the table of items", 2, "rows are"));
        }
        if self.count == 0 {
            return Err(Error::parameter("count", 0, "at least one duel is suggested"));
        }
        let Some(candidates) = &self.candidates else {
            return Ok(index_pairs(n).collect());
        };
        if candidates.is_empty() {
            return Err(Error::too_few("the list of candidates", 1, "duel is"));
        }
        match candidates.iter().find(|(l, r)| l == r || *l.max(r) >= n) {
            None => Ok(candidates.clone()),
            Some((l, r)) => {
                let allowed = format!("a candidate is a pair of two of the {n} items");
                Err(Error::parameter("candidates", format!("({l}, {r})"), allowed))
            }
        }
    }

    /// Draws log odds of the candidates with the goal's value, from a mixture of posteriors.
    fn draw_outcomes(
        &self,
        parts: &[(f64, &PairwiseLogOdds<'_>)],
        margins: &[f64],
        pairs: &[Pair],
    ) -> Result<OutcomeDraws> {
        let Some((_, first)) = parts.first() else {
            return Err(Error::too_few("the list of models", 1, "model is"));
        };
        let (n, has_cycles) = (first.items(), first.allows_cycles());
        if self.goal == InformationGoal::Cycles && !has_cycles {
            let allowed = "a model with a utility alone has no cycles: fit the nested model to items with \
                           properties, or take the goal best or ranking";
            return Err(Error::parameter("goal", "cycles", allowed));
        }
        let default_draws = if has_cycles { LOG_ODDS_DRAWS } else { default_utility_draws(n) };
        let count = self.draws.unwrap_or(default_draws);
        if count < 2 {
            return Err(Error::parameter("n_samples", count, "information needs 2 or more samples"));
        }
        crate::memory::check_allocation("draws", count, if has_cycles { pairs.len() } else { n })?;
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        self.progress.start(count);
        if has_cycles {
            let source = LogOddsDraws::new(parts, count, self.seed)?;
            let drawn = (0..count).into_par_iter().map(|t| {
                control.check_cancelled()?;
                let flow = source.draw(t);
                control.step();
                let value = self.goal.value_of_wins(&numbers_of_wins(&flow));
                Ok((pairs.iter().map(|pair| flow[*pair]).collect::<Vec<f64>>(), value))
            });
            let (log_odds, values): (Vec<_>, Vec<_>) = drawn.collect::<Result<Vec<_>>>()?.into_iter().unzip();
            let margins = (0..count).map(|t| margins[source.part(t)]).collect();
            return Ok(OutcomeDraws::new(DrawnLogOdds::Pairs(log_odds), margins, self.goal, &values));
        }
        let posteriors = UtilityPosterior::from_log_odds(parts)?;
        let source = UtilityDraws::new(&posteriors, count, self.seed)?;
        let drawn = (0..count).into_par_iter().map(|t| {
            control.check_cancelled()?;
            control.step();
            Ok(source.draw(t))
        });
        let utilities = drawn.collect::<Result<Vec<_>>>()?;
        let best = |utility: &Vec<f64>| (0..n).max_by(|i, j| utility[*i].total_cmp(&utility[*j]));
        let values: Vec<usize> = utilities.iter().map(|utility| best(utility).unwrap_or(n)).collect();
        let margins = (0..count).map(|t| margins[source.part(t)]).collect();
        Ok(OutcomeDraws::new(DrawnLogOdds::Utilities(utilities), margins, self.goal, &values))
    }
}

impl InformationGoal {
    /// Returns the goal's value from the number of others that each item beats: the Condorcet winner, or the
    /// number of items if there is none; the number of cyclic triads.
    fn value_of_wins(self, wins: &[usize]) -> usize {
        let n = wins.len();
        match self {
            Self::Best => condorcet_winner(wins).unwrap_or(n),
            Self::Ranking => 0,
            // Each triad without a cycle has one item that beats both others.
            Self::Cycles => {
                n * (n - 1) * (n - 2) / 6 - wins.iter().map(|w| w * w.saturating_sub(1) / 2).sum::<usize>()
            }
        }
    }
}

/// Returns the margin of ties of a model.
fn margin(link: Link) -> f64 {
    if let Link::LatentRaoKupper { margin } = link { margin } else { 0.0 }
}

/// Draws of the log odds of the candidates.
enum DrawnLogOdds {
    /// For each draw, the utilities of all items.
    Utilities(Vec<Vec<f64>>),
    /// For each draw, the log odds of each candidate.
    Pairs(Vec<Vec<f64>>),
}

/// Probabilities of the outcomes of a duel: the left item wins, the right item wins, a tie.
type OutcomeProbabilities = [f64; 3];

/// Joint draws of the outcome probabilities of the candidates and the goal's value.
struct OutcomeDraws {
    log_odds: DrawnLogOdds,
    /// For each draw, the margin of ties.
    margins: Vec<f64>,
    /// For each draw, the class of the goal's value; `None` if the goal is all log odds.
    classes: Option<Vec<usize>>,
}

impl OutcomeDraws {
    fn new(log_odds: DrawnLogOdds, margins: Vec<f64>, goal: InformationGoal, values: &[usize]) -> Self {
        let classes = match goal {
            InformationGoal::Best => Some(merge_rare_classes(values)),
            InformationGoal::Ranking => None,
            InformationGoal::Cycles => Some(merge_rare_classes(&classes_of_counts(values))),
        };
        Self { log_odds, margins, classes }
    }

    /// Returns the outcome probabilities of candidate k in each draw.
    fn probabilities(&self, k: usize, (l, r): Pair) -> Vec<OutcomeProbabilities> {
        let log_odds = |t: usize| match &self.log_odds {
            DrawnLogOdds::Utilities(utilities) => utilities[t][l] - utilities[t][r],
            DrawnLogOdds::Pairs(pairs) => pairs[t][k],
        };
        self.margins
            .iter()
            .enumerate()
            .map(|(t, margin)| outcome_probabilities(log_odds(t), *margin))
            .collect()
    }

    /// Returns candidate k with its information. The plug-in estimate is too large by
    /// `(Σ_z c_z - c) / (2 draws)` in expectation, up to terms of higher order, where c is the sum over
    /// outcomes of the variance of their probability divided by its mean, over all draws and over those of
    /// class z; this is subtracted. The standard error is that of the mean of
    /// `Σ_y P(y | g) log [P(y | z) / P(y)]`.
    fn suggestion(&self, k: usize, pair: Pair) -> DuelSuggestion {
        let drawn = self.probabilities(k, pair);
        let mut total = Moments::default();
        drawn.iter().for_each(|p| total.add(p));
        let mean = total.mean();
        let log_ratio = |p: &OutcomeProbabilities, conditional: &OutcomeProbabilities| -> f64 {
            let terms = p.iter().zip(conditional).zip(&mean).filter(|((p, _), _)| **p > 0.0);
            terms.map(|((p, conditional), mean)| p * (conditional / mean).ln()).sum()
        };
        let (terms, excess): (Vec<f64>, f64) = match &self.classes {
            None => (drawn.iter().map(|p| log_ratio(p, p)).collect(), 0.0),
            Some(classes) => {
                let n_classes = classes.iter().max().map_or(0, |class| class + 1);
                let mut moments = vec![Moments::default(); n_classes];
                drawn.iter().zip(classes).for_each(|(p, class)| moments[*class].add(p));
                let means: Vec<_> = moments.iter().map(Moments::mean).collect();
                let terms = drawn.iter().zip(classes).map(|(p, class)| log_ratio(p, &means[*class]));
                (terms.collect(), moments.iter().map(Moments::relative_variance).sum())
            }
        };
        let count = terms.len() as f64;
        let plug_in = terms.iter().sum::<f64>() / count;
        let bias = (excess - total.relative_variance()) / (2.0 * count);
        let variance = terms.iter().map(|term| (term - plug_in).powi(2)).sum::<f64>() / (count - 1.0);
        let nats_per_bit = std::f64::consts::LN_2;
        DuelSuggestion {
            pair,
            information: (plug_in - bias).max(0.0) / nats_per_bit,
            std_error: (variance / count).sqrt() / nats_per_bit,
            probability: mean[0],
        }
    }
}

/// Returns the probabilities of outcomes with a margin of ties (Rao and Kupper 1967).
fn outcome_probabilities(log_odds: f64, margin: f64) -> OutcomeProbabilities {
    let (win, loss) = (logistic(log_odds - margin), logistic(-log_odds - margin));
    [win, loss, (2.0 * margin).exp_m1() * win * loss]
}

/// Sums over draws of outcome probabilities.
#[derive(Clone, Default)]
struct Moments {
    count: f64,
    sum: OutcomeProbabilities,
    squares: OutcomeProbabilities,
}

impl Moments {
    fn add(&mut self, probabilities: &OutcomeProbabilities) {
        self.count += 1.0;
        for (y, p) in probabilities.iter().enumerate() {
            self.sum[y] += p;
            self.squares[y] += p * p;
        }
    }

    fn mean(&self) -> OutcomeProbabilities {
        self.sum.map(|sum| sum / self.count)
    }

    /// Returns the sum over outcomes of the variance of their probability divided by its mean.
    fn relative_variance(&self) -> f64 {
        let term = |(sum, squares): (&f64, &f64)| {
            let variance = (squares - sum * sum / self.count).max(0.0) / (self.count - 1.0);
            if *sum > 0.0 && self.count > 1.0 { variance * self.count / sum } else { 0.0 }
        };
        self.sum.iter().zip(&self.squares).map(term).sum()
    }
}

/// Returns classes 0, 1, … of equal values. Values with few draws are in one class.
fn merge_rare_classes(values: &[usize]) -> Vec<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    values.iter().for_each(|value| *counts.entry(*value).or_default() += 1);
    let frequent = counts.iter().filter(|(_, count)| **count >= MIN_CLASS_DRAWS).map(|(value, _)| *value);
    let class_of_value: BTreeMap<usize, usize> = frequent.zip(0..).collect();
    values.iter().map(|value| class_of_value.get(value).copied().unwrap_or(class_of_value.len())).collect()
}

/// Returns classes of counts: 0 is a class, and other counts have classes with about the same number of
/// draws.
fn classes_of_counts(counts: &[usize]) -> Vec<usize> {
    let mut positive: Vec<usize> = counts.iter().copied().filter(|count| *count > 0).collect();
    positive.sort_unstable();
    let class = |count: &usize| {
        let n_smaller = positive.partition_point(|other| other < count);
        if *count == 0 { 0 } else { 1 + CYCLE_CLASSES * n_smaller / positive.len() }
    };
    counts.iter().map(class).collect()
}

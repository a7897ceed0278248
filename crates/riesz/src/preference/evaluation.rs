//! Evaluation of predicted probabilities of duels: splits that keep all duels of a pair together, and scores
//! that do not depend on the order of the items.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result, sized};
use crate::random::sorted_sample;

/// The unit by which duels are held out for testing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Split<'a> {
    /// Pairs of items, with all their duels. Duels of the same pair on both sides would show the model its
    /// test data.
    #[default]
    Pairs,
    /// Single duels at random. Other duels of the same pair are then known, as if a leaderboard receives
    /// further votes.
    Duels,
    /// Items: the test is on duels between two items that the model has not seen. The model learns from duels
    /// between two of the other items.
    Items,
    /// The last duels by their times: the model learns from the earlier ones. Duels at the same time stay
    /// together, and nothing is random.
    Time(&'a [f64]),
    /// Whole contexts, by the number of each duel's context: seasons, courts or users that the model has not
    /// seen.
    Contexts(&'a [usize]),
}

/// Returns for each duel `Some(true)` if it is for testing, `Some(false)` if it is for training, and `None`
/// if it is for neither.
///
/// # Errors
/// [`Error::Shape`] unless there is one time or context per duel; [`Error::Parameter`] for a share that
/// leaves no duels for testing or for training.
pub fn split(
    left: &[usize],
    right: &[usize],
    unit: Split<'_>,
    share: f64,
    seed: u64,
) -> Result<Vec<Option<bool>>> {
    let check_length = |name: &str, length: usize| sized(name, "entries", left.len(), length, "one per duel");
    let pair = |i: usize| (left[i].min(right[i]), left[i].max(right[i]));
    let for_test: Vec<Option<bool>> = match unit {
        Split::Pairs => {
            let test = draw_units((0..left.len()).map(pair), share, seed);
            (0..left.len()).map(|i| Some(test.contains(&pair(i)))).collect()
        }
        Split::Duels => {
            let test = draw_units(0..left.len(), share, seed);
            (0..left.len()).map(|i| Some(test.contains(&i))).collect()
        }
        Split::Items => {
            let test = draw_units(left.iter().chain(right), share, seed);
            let is_test = |item: usize| test.contains(&item);
            let assignment = |i: usize| (is_test(left[i]) == is_test(right[i])).then(|| is_test(left[i]));
            (0..left.len()).map(assignment).collect()
        }
        Split::Time(times) => {
            check_length("the list of times", times.len())?;
            let sorted = crate::linalg::sorted(times);
            // The test has this number of duels or fewer, so that duels at the same time stay together.
            let n_test = (share * sorted.len() as f64).round() as usize;
            let n_training = sorted.len().saturating_sub(n_test);
            let last_training_time = n_training.checked_sub(1).map(|index| sorted[index]);
            times.iter().map(|time| Some(last_training_time.is_none_or(|latest| *time > latest))).collect()
        }
        Split::Contexts(contexts) => {
            check_length("the list of contexts", contexts.len())?;
            let test = draw_units(contexts, share, seed);
            contexts.iter().map(|context| Some(test.contains(context))).collect()
        }
    };
    if share.is_nan() || !for_test.contains(&Some(true)) || !for_test.contains(&Some(false)) {
        let allowed = "the test and the training set both need duels: give a share between 0 and 1, and \
                       enough duels";
        return Err(Error::parameter("share of the test", share, allowed));
    }
    Ok(for_test)
}

/// Draws this share of the distinct units.
fn draw_units<T: Ord>(units: impl IntoIterator<Item = T>, share: f64, seed: u64) -> BTreeSet<T> {
    let distinct: BTreeSet<T> = units.into_iter().collect();
    let n_test = (share * distinct.len() as f64).round() as usize;
    let chosen_indices = sorted_sample(distinct.len(), n_test.min(distinct.len()), seed);
    distinct
        .into_iter()
        .enumerate()
        .filter(|(i, _)| chosen_indices.binary_search(i).is_ok())
        .map(|(_, u)| u)
        .collect()
}

/// Probabilities that differ by less than the inverse of this power of 2 are equal in accuracy and AUC.
const EQUAL_PROBABILITIES: f64 = (1_u64 << 40) as f64;

/// Scores of predicted probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbabilityScores {
    /// The share of decided duels won by the more probable winner; a probability of ½ counts as half.
    pub accuracy: f64,
    /// The area under the ROC curve of decided duels, each from both sides.
    pub auc: f64,
    /// The mean of minus the log probability of the outcome; ties count half for each side. A fair coin has
    /// ln 2 = 0.693.
    pub log_loss: f64,
    /// The number of duels.
    pub duels: usize,
}

impl ProbabilityScores {
    /// Returns the scores of the probabilities that left items win, given the outcomes of the duels: 1, 0, or
    /// ½ for ties.
    pub fn from_probabilities(probability: &[f64], outcome: &[f64]) -> Self {
        // Every duel counts from both sides, so that scores do not depend on the order of the items.
        let duels = probability.iter().zip(outcome);
        let both_sides: Vec<(f64, f64)> = duels.flat_map(|(p, y)| [(*p, *y), (1.0 - p, 1.0 - y)]).collect();
        // A duel and the same duel with its sides exchanged have equal probabilities but for rounding errors,
        // which must not decide accuracy and AUC.
        let on_grid = |p: f64| (p * EQUAL_PROBABILITIES).round() / EQUAL_PROBABILITIES;
        let without_ties = both_sides.iter().filter(|(_, y)| *y != 0.5);
        let untied: Vec<(f64, f64)> = without_ties.map(|(p, y)| (on_grid(*p), *y)).collect();
        let correctness = |(p, y): &(f64, f64)| match p.total_cmp(&0.5) {
            std::cmp::Ordering::Equal => 0.5,
            side => f64::from(u8::from(side.is_gt() == (*y > 0.5))),
        };
        let loss = |(p, y): &(f64, f64)| log_loss(*p, *y);
        Self {
            accuracy: untied.iter().map(correctness).sum::<f64>() / untied.len() as f64,
            auc: auc(&untied),
            log_loss: both_sides.iter().map(loss).sum::<f64>() / both_sides.len() as f64,
            duels: probability.len(),
        }
    }
}

/// Returns minus the log probability of an outcome, where a tie counts half for each side.
fn log_loss(p: f64, y: f64) -> f64 {
    // 0 ln 0 is defined as 0.
    let cross_entropy_term = |p: f64, y: f64| if y > 0.0 { -y * p.ln() } else { 0.0 };
    cross_entropy_term(p, y) + cross_entropy_term(1.0 - p, 1.0 - y)
}

/// Returns the probability that a winner has a larger predicted probability than a loser; ties count half.
fn auc(untied: &[(f64, f64)]) -> f64 {
    let mut sorted = untied.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut losers_below, mut sum) = (0.0, 0.0);
    for tied_predictions in sorted.chunk_by(|a, b| a.0 == b.0) {
        let won = tied_predictions.iter().filter(|(_, y)| *y > 0.5).count() as f64;
        let lost = tied_predictions.len() as f64 - won;
        sum += won * (losers_below + 0.5 * lost);
        losers_below += lost;
    }
    sum / (losers_below * (untied.len() as f64 - losers_below))
}

/// A comparison of models of duels by their predictions for duels that are held out.
#[derive(Debug, Clone, Copy)]
pub struct Evaluation<'a> {
    /// The left item of each duel.
    pub left: &'a [usize],
    /// The right item of each duel.
    pub right: &'a [usize],
    /// The outcome of each duel: 1 if the left item won, 0 if the right one did, ½ for a tie.
    pub outcome: &'a [f64],
    /// The number of duels that each entry represents; `None` if it is one.
    pub counts: Option<&'a [f64]>,
    /// The unit that is held out.
    pub unit: Split<'a>,
    /// The share of units that is held out.
    pub share: f64,
    /// The number of splits, each with the next seed. A split by time is the only one of its kind.
    pub repeats: usize,
    /// The seed of the first split.
    pub seed: u64,
}

/// The duels of one split, by their indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestDuels {
    /// The number of the split, from 0.
    pub repeat: usize,
    /// The seed of the split.
    pub seed: u64,
    /// The training duels.
    pub training: Vec<usize>,
    /// The duels whose outcomes are predicted.
    pub test: Vec<usize>,
}

impl Evaluation<'_> {
    /// Returns the number of splits.
    pub fn splits(&self) -> usize {
        if matches!(self.unit, Split::Time(_)) { 1 } else { self.repeats }
    }

    /// Returns the scores of each model over all splits. `probabilities` fits a model to the training duels
    /// and returns the probabilities that the left items win the test duels; a tie counts half.
    ///
    /// # Errors
    /// As [`split`]; [`Error::Parameter`] without repeats; the errors of `probabilities`.
    pub fn run<M, E: From<Error>>(
        &self,
        models: &[M],
        mut probabilities: impl FnMut(&M, &TestDuels) -> std::result::Result<Vec<f64>, E>,
    ) -> std::result::Result<Vec<ScoreSummary>, E> {
        if self.repeats == 0 {
            return Err(Error::parameter("repeats", 0, "give a number of at least 1").into());
        }
        let mut scores: Vec<Vec<ProbabilityScores>> = vec![Vec::new(); models.len()];
        let mut losses: Vec<Vec<f64>> = vec![Vec::new(); models.len()];
        let mut tested: Vec<TestedDuel> = Vec::new();
        for repeat in 0..self.splits() {
            let seed = self.seed.wrapping_add(repeat as u64);
            let parts = split(self.left, self.right, self.unit, self.share, seed)?;
            let indices =
                |test: bool| (0..parts.len()).filter(|&i| parts[i] == Some(test)).collect::<Vec<usize>>();
            let duels = TestDuels { repeat, seed, training: indices(false), test: indices(true) };
            let outcome_of: Vec<f64> = duels.test.iter().map(|&i| self.outcome[i]).collect();
            let outcomes = self.repeated(&duels.test, &outcome_of);
            let total = (self.splits() * outcomes.len()) as f64;
            tested.extend(
                duels
                    .test
                    .iter()
                    .map(|&i| TestedDuel { group: self.group(i), weight: self.times(i) as f64 / total }),
            );
            for (model, (scores, losses)) in models.iter().zip(scores.iter_mut().zip(&mut losses)) {
                let predicted = probabilities(model, &duels)?;
                sized(
                    "the list of probabilities",
                    "entries",
                    duels.test.len(),
                    predicted.len(),
                    "one per duel",
                )?;
                losses.extend(predicted.iter().zip(&outcome_of).map(|(p, y)| log_loss(*p, *y)));
                let predicted = self.repeated(&duels.test, &predicted);
                scores.push(ProbabilityScores::from_probabilities(&predicted, &outcomes));
            }
        }
        let mut summaries: Vec<ScoreSummary> =
            scores.iter().map(|scores| ScoreSummary::from_scores(scores)).collect();
        let log_loss_of = |m: &usize| summaries[*m].mean.log_loss;
        let best = (0..models.len()).min_by(|a, b| log_loss_of(a).total_cmp(&log_loss_of(b)));
        for (m, summary) in summaries.iter_mut().enumerate() {
            summary.difference = best
                .filter(|best| *best != m)
                .map(|best| LossDifference::from_losses(&tested, &losses[m], &losses[best]));
        }
        Ok(summaries)
    }

    /// The number of duels that an entry represents.
    fn times(&self, i: usize) -> usize {
        self.counts.map_or(1, |counts| counts[i].round().max(1.0) as usize)
    }

    /// The group of duels whose losses depend on each other: those of a pair, or of a context that is held
    /// out.
    fn group(&self, i: usize) -> (usize, usize) {
        match self.unit {
            Split::Contexts(contexts) => (contexts[i], contexts[i]),
            _ => (self.left[i].min(self.right[i]), self.left[i].max(self.right[i])),
        }
    }

    /// Returns the number of each entry of `test` for each duel that the entry represents.
    fn repeated(&self, test: &[usize], numbers: &[f64]) -> Vec<f64> {
        test.iter()
            .zip(numbers)
            .flat_map(|(&i, number)| std::iter::repeat_n(*number, self.times(i)))
            .collect()
    }
}

/// Scores of a model over several splits: means and standard deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreSummary {
    /// The means over the splits.
    pub mean: ProbabilityScores,
    /// The standard deviations over the splits; `None` for a single split.
    pub std: Option<ProbabilityScores>,
    /// The difference of the log loss from that of the best model; `None` for the best model.
    pub difference: Option<LossDifference>,
}

/// A duel in the test set of a split.
struct TestedDuel {
    /// The group of duels whose losses depend on each other.
    group: (usize, usize),
    /// The share of the duel in the mean over all splits.
    weight: f64,
}

/// The mean difference of two models' log losses of the same duels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossDifference {
    /// The mean over the tested duels of all splits; positive if the other model is better.
    pub mean: f64,
    /// The standard error of the mean from differences of single duels. Duels of the same pair (or context,
    /// if contexts are held out) depend on each other, also in several splits, so their sum counts once. NaN
    /// for a single pair.
    pub std_error: f64,
}

impl LossDifference {
    fn from_losses(tested: &[TestedDuel], losses: &[f64], best: &[f64]) -> Self {
        let differences = tested.iter().zip(losses.iter().zip(best).map(|(a, b)| a - b));
        let mean: f64 = differences.clone().map(|(duel, d)| duel.weight * d).sum();
        let mut sums: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (duel, d) in differences {
            *sums.entry(duel.group).or_default() += duel.weight * (d - mean);
        }
        let count = sums.len() as f64;
        let squares: f64 = sums.values().map(|sum| sum * sum).sum();
        Self { mean, std_error: (count / (count - 1.0) * squares).sqrt() }
    }
}

impl ScoreSummary {
    /// Returns the summary of the scores of all splits. The number of duels in it is that of all splits.
    fn from_scores(scores: &[ProbabilityScores]) -> Self {
        let moments = |read: fn(&ProbabilityScores) -> f64| {
            let numbers: Vec<f64> = scores.iter().map(read).collect();
            let first = numbers.first().copied().unwrap_or(f64::NAN);
            // Differences from the first value are summed, so that equal values have exactly no spread.
            let mean = numbers.iter().map(|v| v - first).sum::<f64>() / numbers.len() as f64;
            let squares: f64 = numbers.iter().map(|v| (v - first - mean).powi(2)).sum();
            (first + mean, (squares / (numbers.len() as f64 - 1.0)).sqrt())
        };
        let duels = scores.iter().map(|score| score.duels).sum();
        let [accuracy, auc, log_loss] =
            [moments(|s| s.accuracy), moments(|s| s.auc), moments(|s| s.log_loss)];
        let mean = ProbabilityScores { accuracy: accuracy.0, auc: auc.0, log_loss: log_loss.0, duels };
        let std = ProbabilityScores { accuracy: accuracy.1, auc: auc.1, log_loss: log_loss.1, duels };
        Self { mean, std: (scores.len() > 1).then_some(std), difference: None }
    }
}

/// Returns the time of each level of a column of times: its number, or the rank of its date such as
/// 2024-05-01. `column` names the column in errors.
///
/// # Errors
/// [`Error::Parameter`] for a level that is neither a number nor a date, if not all are numbers.
pub fn times_of_levels(column: &str, levels: &[String]) -> Result<Vec<f64>> {
    if let Some(numbers) = levels.iter().map(|level| level.parse().ok()).collect() {
        return Ok(numbers);
    }
    // ISO dates sort as their texts do.
    if let Some(other) = levels.iter().find(|level| !is_date(level)) {
        let name = format!("column '{column}'");
        return Err(Error::parameter(name, other, "times are numbers, or dates such as 2024-05-01"));
    }
    let sorted: BTreeSet<&String> = levels.iter().collect();
    let ranks: BTreeMap<&String, f64> =
        sorted.into_iter().enumerate().map(|(rank, level)| (level, rank as f64)).collect();
    Ok(levels.iter().map(|level| ranks[level]).collect())
}

/// Returns whether a text begins with a date such as 2024-05-01.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    digits(0..4) && digits(5..7) && digits(8..10) && bytes[4] == b'-' && bytes[7] == b'-'
}

/// Duels in a range of the favourite's probability, with the frequency of the favourite's wins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// The mean probability of the favourites.
    pub probability: f64,
    /// The share of duels that they won; ties count half.
    pub won: f64,
    /// The number of duels.
    pub duels: usize,
}

/// Returns the calibration: duels in `bins` ranges of equal width from ½ to 1, by the probability of the
/// favourite. Ranges without duels are left out.
pub fn calibration(probability: &[f64], outcome: &[f64], bins: usize) -> Vec<Bin> {
    let mut sums = vec![(0.0, 0.0, 0); bins.max(1)];
    for (&p, &y) in probability.iter().zip(outcome) {
        let (p, y) = if p >= 0.5 { (p, y) } else { (1.0 - p, 1.0 - y) };
        let bin = (((p - 0.5) * 2.0 * sums.len() as f64) as usize).min(sums.len() - 1);
        sums[bin] = (sums[bin].0 + p, sums[bin].1 + y, sums[bin].2 + 1);
    }
    let nonempty = sums.into_iter().filter(|(_, _, n)| *n > 0);
    nonempty.map(|(p, y, n)| Bin { probability: p / n as f64, won: y / n as f64, duels: n }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_match_hand_computed_values() {
        let scores = ProbabilityScores::from_probabilities(&[0.8, 0.3, 0.6, 0.5], &[1.0, 0.0, 0.0, 1.0]);
        // Favourites of .8 and .7 won, one of .6 lost, and one duel had no favourite.
        assert_eq!(scores.accuracy, 2.5 / 4.0);
        // Winners had .8, .7, .4, .5; losers .2, .3, .6, .5. Of 16 pairs, 4 + 4 + 2 + 2½ are in the right
        // order.
        assert_eq!(scores.auc, 12.5 / 16.0);
        let loss = -(0.8_f64.ln() + 0.7_f64.ln() + 0.4_f64.ln() + 0.5_f64.ln()) / 4.0;
        assert!((scores.log_loss - loss).abs() < 1e-15);
        let swapped = ProbabilityScores::from_probabilities(&[0.2, 0.7, 0.4, 0.5], &[0.0, 1.0, 1.0, 0.0]);
        assert!((swapped.log_loss - scores.log_loss).abs() < 1e-15 && swapped.auc == scores.auc);
        // Rounding errors do not change the order: with exchanged sides, both duels are equally probable.
        let noisy = ProbabilityScores::from_probabilities(&[0.7, 0.3 - 1e-16, 0.5 + 1e-16], &[1.0, 1.0, 1.0]);
        assert_eq!((noisy.accuracy, noisy.auc), (0.5, 0.5));
        let coin_scores = ProbabilityScores::from_probabilities(&[0.5; 6], &[1.0, 0.0, 0.5, 1.0, 1.0, 0.0]);
        assert_eq!((coin_scores.accuracy, coin_scores.auc), (0.5, 0.5));
        assert!((coin_scores.log_loss - std::f64::consts::LN_2).abs() < 1e-15);
        // An outcome of probability 0 has an infinite loss, one of probability 1 has none.
        assert_eq!(ProbabilityScores::from_probabilities(&[1.0], &[1.0]).log_loss, 0.0);
        assert_eq!(ProbabilityScores::from_probabilities(&[1.0], &[0.0]).log_loss, f64::INFINITY);
        let bins = calibration(&[0.9, 0.15, 0.55], &[1.0, 1.0, 0.5], 2);
        assert_eq!(bins.len(), 2);
        assert_eq!((bins[0].won, bins[0].duels, bins[1].won, bins[1].duels), (0.5, 1, 0.5, 2));
        assert!((bins[1].probability - 0.875).abs() < 1e-15);
    }

    #[test]
    fn splits_separate_pairs_items_times_and_contexts() {
        let left: Vec<usize> = (0..60).map(|i| i % 7).collect();
        let right: Vec<usize> = (0..60).map(|i| (i % 7 + 1 + i % 3) % 8).collect();
        for seed in 0..5 {
            let parts = split(&left, &right, Split::Pairs, 0.3, seed).unwrap();
            for i in 0..60 {
                for j in 0..60 {
                    let is_same_pair =
                        [(left[j], right[j]), (right[j], left[j])].contains(&(left[i], right[i]));
                    assert!(!is_same_pair || parts[i] == parts[j]);
                }
            }
            // Single duels: the share of duels, whatever their pairs.
            let parts = split(&left, &right, Split::Duels, 0.3, seed).unwrap();
            assert_eq!(parts.iter().filter(|part| **part == Some(true)).count(), 18);
            assert!(!parts.contains(&None));
            let parts = split(&left, &right, Split::Items, 0.4, seed).unwrap();
            let items = |test: bool| -> BTreeSet<usize> {
                (0..60).filter(|&i| parts[i] == Some(test)).flat_map(|i| [left[i], right[i]]).collect()
            };
            assert!(items(true).is_disjoint(&items(false)));
        }
        // Times: all training duels are earlier than all test duels.
        let times: Vec<f64> = (0..60).map(|i| f64::from(i * 7 % 20)).collect();
        let parts = split(&left, &right, Split::Time(&times), 0.3, 0).unwrap();
        let times_of =
            |test: bool| (0..60).filter(|&i| parts[i] == Some(test)).map(|i| times[i]).collect::<Vec<_>>();
        let (earlier, later) = (times_of(false), times_of(true));
        assert!(earlier.iter().all(|a| later.iter().all(|b| a < b)) && later.len() == 18);
        // Duels at the time of the boundary are for training: 20 % of 60 are 12, of which only 9 are later.
        let tied_times: Vec<f64> = (0..60).map(|i| if i < 51 { f64::from(i / 20) } else { 3.0 }).collect();
        let parts = split(&left, &right, Split::Time(&tied_times), 0.2, 0).unwrap();
        assert_eq!(
            (0..60).filter(|&i| parts[i] == Some(true)).collect::<Vec<_>>(),
            (51..60).collect::<Vec<_>>()
        );
        // Contexts: no context is in both the training and the test set.
        let contexts: Vec<usize> = (0..60).map(|i| i % 9).collect();
        for seed in 0..5 {
            let parts = split(&left, &right, Split::Contexts(&contexts), 0.3, seed).unwrap();
            let contexts_of = |test: bool| -> BTreeSet<usize> {
                (0..60).filter(|&i| parts[i] == Some(test)).map(|i| contexts[i]).collect()
            };
            assert!(contexts_of(true).is_disjoint(&contexts_of(false)) && contexts_of(true).len() == 3);
        }
        assert!(split(&left, &right, Split::Time(&times[..3]), 0.3, 0).is_err());
        assert!(split(&left, &right, Split::Time(&[1.0; 60]), 0.3, 0).is_err(), "all at once");
        assert!(split(&left, &right, Split::Pairs, 0.0, 0).is_err());
        assert!(split(&left, &right, Split::Pairs, f64::NAN, 0).is_err());
    }

    #[test]
    fn evaluation_scores_the_held_out_duels_of_each_split() {
        let left: Vec<usize> = (0..40).map(|i| i % 5).collect();
        let right: Vec<usize> = (0..40).map(|i| (i % 5 + 1 + i % 3) % 6).collect();
        let outcome: Vec<f64> = (0..40).map(|i| f64::from(u8::from(i % 3 != 0))).collect();
        let evaluation = Evaluation {
            left: &left,
            right: &right,
            outcome: &outcome,
            counts: None,
            unit: Split::Pairs,
            share: 0.3,
            repeats: 4,
            seed: 7,
        };
        let summary =
            evaluation.run::<f64, Error>(&[0.5, 0.9], |p, duels| Ok(vec![*p; duels.test.len()])).unwrap();
        assert_eq!(summary[0].mean.accuracy, 0.5);
        assert!(summary[0].std.unwrap().log_loss < 1e-14);
        // The scores of a constant follow from the wins among the held out duels of each split.
        let losses: Vec<f64> = (0..4)
            .map(|repeat| {
                let parts = split(&left, &right, Split::Pairs, 0.3, 7 + repeat).unwrap();
                let tested: Vec<f64> =
                    (0..40).filter(|&i| parts[i] == Some(true)).map(|i| outcome[i]).collect();
                let won = tested.iter().sum::<f64>() / tested.len() as f64;
                -(won * 0.9_f64.ln() + (1.0 - won) * 0.1_f64.ln())
            })
            .collect();
        let mean = losses.iter().sum::<f64>() / 4.0;
        let std = (losses.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
        assert!((summary[1].mean.log_loss - mean).abs() < 1e-14);
        assert!((summary[1].std.unwrap().log_loss - std).abs() < 1e-14);
        // Entries that represent several duels count as often.
        let counts: Vec<f64> = (0..40).map(|i| f64::from(1 + i % 2)).collect();
        let counted = Evaluation { counts: Some(&counts), ..evaluation };
        let summary = counted.run::<f64, Error>(&[0.5], |p, duels| Ok(vec![*p; duels.test.len()])).unwrap();
        let tested = |repeat: u64| {
            let parts = split(&left, &right, Split::Pairs, 0.3, 7 + repeat).unwrap();
            (0..40).filter(|&i| parts[i] == Some(true)).map(|i| 1 + i % 2).sum::<usize>()
        };
        assert_eq!(summary[0].mean.duels, (0..4).map(tested).sum::<usize>());
        assert!(
            Evaluation { repeats: 0, ..evaluation }.run::<f64, Error>(&[], |_, _| Ok(Vec::new())).is_err()
        );
    }

    #[test]
    fn times_are_numbers_or_dates() {
        let times = |texts: &[&str]| {
            times_of_levels("played", &texts.iter().map(|text| text.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(times(&["3", "1.5"]).unwrap(), [3.0, 1.5]);
        assert_eq!(times(&["2024-05-01", "2023-12-31", "2024-05-01"]).unwrap(), [1.0, 0.0, 1.0]);
        let error = times(&["2024-05-01", "May"]).unwrap_err().to_string();
        assert!(error.contains("column 'played'") && error.contains("May"), "{error}");
    }
}

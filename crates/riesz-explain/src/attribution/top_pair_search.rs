//! Pairs with the largest interactions of a game, without evaluating all pairs: a branch-and-bound search
//! with a proved bound on the pairs that it leaves out.
//!
//! No absolute interaction of a pair exceeds the product of its players' [bounds](PlayerBound). If players
//! are ranked by their bounds, the pairs whose products exceed a threshold form a staircase: each player is
//! paired with some of the players directly after it. The search evaluates pairs in rounds, the largest
//! products first, and each round multiplies the number of evaluated pairs. It ends when no remaining product
//! exceeds the interactions found, which is early if the bounds of players differ as much as their relevance.
//! From the second round on, a pair is evaluated only if its [approximation by means](Samples::Means) over
//! nodes shows that it can be among the strongest. The approximation costs a tenth of the evaluation.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::interaction_bounds::{InteractionBounds, PlayerBound};
use super::interaction_weights::SizeWeightings;
use super::pair_interactions::{ColumnSet, PairInteractions, PairRows, Samples};
use super::product::{ProductGame, TermAccumulator, accumulate};
use super::rule::InclusionMeasure;
use crate::control::{Progress, RunControl};
use crate::error::Result;
use crate::explanation::{Pair, Strongest};
use crate::simd::Isa;

/// Smallest number of pairs in the first round; factor by which each round multiplies the number of evaluated
/// pairs; and largest number of pairs that are summed together.
const FIRST: usize = 4096;
const GROWTH: usize = 4;
const MAX_BATCH_PAIRS: usize = 1 << 20;

/// Number of progress steps of a search.
pub(crate) const STEPS: usize = 100;

/// The limits of the search.
#[derive(Clone, Copy)]
pub(crate) struct SearchLimits {
    /// Number of pairs to find.
    pub(crate) count: usize,
    /// Largest number of pairs to evaluate.
    pub(crate) limit: usize,
}

/// Reports the progress of a search, from 0 to [`STEPS`].
struct SearchProgress<'w> {
    control: RunControl<'w>,
    steps: AtomicUsize,
}

impl SearchProgress<'_> {
    fn report(&self, done: usize, total: usize) {
        let steps_done = (done as f64 / total.max(1) as f64 * STEPS as f64).min(STEPS as f64) as usize;
        let previous = self.steps.fetch_max(steps_done, Ordering::Relaxed);
        (previous..steps_done).for_each(|_| self.control.step());
    }
}

/// Finds the strongest pairs of a game of one row and one part.
///
/// # Errors
/// Errors of the game, and [`Error::Interrupted`](crate::Error::Interrupted).
pub(crate) fn top_pairs<G: ProductGame>(
    game: &G,
    (isa, averages): (Isa, &SizeWeightings),
    control: RunControl<'_>,
    (players, output): (usize, usize),
    limits: SearchLimits,
) -> Result<Strongest> {
    let progress = SearchProgress { control, steps: AtomicUsize::new(0) };
    let query = GameQuery { game, isa, averages, control, output };
    let ranked = RankedPlayers::new(query.strengths(players)?);
    let mut frontier = SearchFrontier::new(&ranked.interaction);
    let mut best: Vec<Pair> = Vec::new();
    let (mut searched, mut rounded, mut passed_over) = (0, 0, 0.0);
    let mut goal = FIRST.max(limits.count.saturating_mul(4));
    // The caller, which knows the row, reports an overflow.
    while ranked.upper_bound().is_finite() {
        let size = |position: usize| best.get(position).map_or(0.0, |pair| pair.value.abs());
        // Pairs that do not exceed this are not among the strongest, or are 0 within their error.
        let floor = size(limits.count - 1).max(ranked.error);
        let remaining = frontier.count_above(floor);
        let parts = frontier.next(floor, goal.min(limits.limit).saturating_sub(searched));
        if parts.is_empty() {
            break;
        }
        let (total, done) = (searched + remaining, AtomicUsize::new(searched));
        // The next pair after the requested ones is kept as well.
        let (threshold, sieve) =
            (size(limits.count), (searched > 0 && !averages.is_point()).then_some(floor));
        let part = |stairs: &PairRows| {
            let mut batch = query.part(&ranked, stairs, sieve)?;
            batch.pairs.retain(|pair| pair.value.abs() >= threshold);
            batch.pairs = Pair::largest(batch.pairs, limits.count.saturating_add(1));
            progress.report(done.fetch_add(stairs.len(), Ordering::Relaxed) + stairs.len(), total);
            Ok(batch)
        };
        for batch in parts.par_iter().map(part).collect::<Result<Vec<PairBatch>>>()? {
            best.extend(batch.pairs);
            rounded = rounded.max(batch.rounded);
            passed_over = batch.passed_over.max(passed_over);
        }
        best = Pair::largest(best, limits.count.saturating_add(1));
        searched += parts.iter().map(PairRows::len).sum::<usize>();
        goal = searched.saturating_mul(GROWTH);
    }
    progress.report(1, 1);
    // Partial sums are within the same bound, and each was rounded.
    let bound =
        ranked.error + 0.51 * f64::EPSILON * rounded as f64 * ranked.upper_bound() + f64::MIN_POSITIVE;
    let largest_remaining = frontier.largest().max(passed_over);
    let strongest = Strongest::new(best, limits.count, (players, bound), largest_remaining);
    Ok(Strongest { searched, ..strongest })
}

/// A game and the interactions to search.
struct GameQuery<'a, G> {
    game: &'a G,
    isa: Isa,
    averages: &'a SizeWeightings,
    control: RunControl<'a>,
    output: usize,
}

/// Result of one batch of pairs.
#[derive(Default)]
struct PairBatch {
    /// The evaluated pairs that are not 0.
    pairs: Vec<Pair>,
    /// The number of roundings of their sums.
    rounded: usize,
    /// Upper bound on the other pairs, without the error of values.
    passed_over: f64,
}

impl<G: ProductGame> GameQuery<'_, G> {
    fn read<R: TermAccumulator>(&self, new: impl Fn() -> R + Sync) -> Result<Option<R>> {
        let progress = Progress::default();
        let silent_control = RunControl { progress: &progress, ..self.control };
        Ok(accumulate(self.game, (self.isa, &InclusionMeasure::Uniform), silent_control, new)?.pop())
    }

    fn strengths(&self, players: usize) -> Result<PlayerBound> {
        let accumulator = self.read(|| InteractionBounds::new(self.averages, players, self.output))?;
        Ok(accumulator.map_or_else(PlayerBound::default, InteractionBounds::finish))
    }

    /// Sums of these pairs, and the number of their roundings.
    fn pair_sums(
        &self,
        samples: Samples,
        ranked: &RankedPlayers,
        stairs: &PairRows,
    ) -> Result<(Vec<f64>, usize)> {
        let accumulator = self.read(|| {
            PairInteractions::new((self.averages, samples), &ranked.ranks, stairs, (self.isa, self.output))
        })?;
        Ok(accumulator.map_or_else(Default::default, |sums| (sums.values, sums.rounded)))
    }

    /// Evaluates these pairs; with a sieve, only pairs that can exceed it.
    fn part(&self, ranked: &RankedPlayers, stairs: &PairRows, sieve: Option<f64>) -> Result<PairBatch> {
        let mut batch = PairBatch::default();
        let mut sieved = None;
        if let Some(floor) = sieve {
            let (means, rounded) = self.pair_sums(Samples::Means, ranked, stairs)?;
            batch.rounded = rounded;
            let mut left = PairRows { first: stairs.first, steps: Vec::new() };
            for (row, step) in (stairs.first..).zip(&stairs.steps) {
                let mut columns = Vec::new();
                for (column, mean) in step.columns.iter().zip(&means[step.start..]) {
                    let upper_bound = mean.abs() + ranked.deviation[row] * ranked.deviation[column];
                    if upper_bound > floor {
                        columns.push(column);
                    } else {
                        batch.passed_over = upper_bound.max(batch.passed_over);
                    }
                }
                left.push(ColumnSet::Listed(columns));
            }
            // If many pairs remain, it is faster to evaluate all of them in ranges.
            if left.len() < stairs.len() / 4 {
                sieved = Some(left);
            }
        }
        let stairs = sieved.as_ref().unwrap_or(stairs);
        if stairs.len() == 0 {
            return Ok(batch);
        }
        let (values, rounded) = self.pair_sums(Samples::Nodes, ranked, stairs)?;
        batch.rounded = rounded.max(batch.rounded);
        for (row, step) in (stairs.first..).zip(&stairs.steps) {
            for (column, &value) in step.columns.iter().zip(&values[step.start..]) {
                let (j, l) = (ranked.order[row], ranked.order[column]);
                if value != 0.0 {
                    batch.pairs.push(Pair { players: [j.min(l), j.max(l)], value });
                }
            }
        }
        Ok(batch)
    }
}

/// Players that have interactions, in decreasing order of their bounds.
struct RankedPlayers {
    order: Vec<usize>,
    /// For each player, its rank.
    ranks: Vec<usize>,
    /// Bounds by rank, see [`PlayerBound`].
    interaction: Vec<f64>,
    deviation: Vec<f64>,
    error: f64,
}

impl RankedPlayers {
    fn new(strength: PlayerBound) -> Self {
        let PlayerBound { interaction, deviation, error } = strength;
        let mut order: Vec<usize> = (0..interaction.len()).filter(|&j| interaction[j] != 0.0).collect();
        order.sort_by(|&j, &l| interaction[l].total_cmp(&interaction[j]));
        let mut ranks = vec![usize::MAX; interaction.len()];
        order.iter().zip(0..).for_each(|(&j, rank)| ranks[j] = rank);
        let by_rank = |values: &[f64]| order.iter().map(|&j| values[j]).collect();
        Self { interaction: by_rank(&interaction), deviation: by_rank(&deviation), order, ranks, error }
    }

    /// Upper bound on all interactions.
    fn upper_bound(&self) -> f64 {
        if let [first, second, ..] = self.interaction[..] { first * second } else { 0.0 }
    }
}

/// Evaluated pairs of ranked players: in each row, the columns before its `row_ends`.
struct SearchFrontier<'r> {
    strengths: &'r [f64],
    row_ends: Vec<usize>,
}

impl<'r> SearchFrontier<'r> {
    fn new(strengths: &'r [f64]) -> Self {
        Self { strengths, row_ends: (1..=strengths.len()).collect() }
    }

    /// Largest product of bounds of a pair that has not been evaluated.
    fn largest(&self) -> f64 {
        let next_pairs = self.strengths.iter().zip(&self.row_ends);
        next_pairs
            .map(|(strength, &column)| self.strengths.get(column).map_or(0.0, |other| strength * other))
            .fold(0.0, f64::max)
    }

    /// Calls `visit` with each row that has unevaluated pairs above `floor`, and with the end of their
    /// columns.
    fn rows(&self, floor: f64, mut visit: impl FnMut(usize, usize)) {
        let mut end = self.strengths.len();
        for (row, (strength, &from)) in self.strengths.iter().zip(&self.row_ends).enumerate() {
            while end > row + 1 && strength * self.strengths[end - 1] <= floor {
                end -= 1;
            }
            if end <= row + 1 {
                return;
            }
            if from < end {
                visit(row, end);
            }
        }
    }

    /// Number of pairs that have not been evaluated and are above `floor`.
    fn count_above(&self, floor: f64) -> usize {
        let mut count = 0;
        self.rows(floor, |row, end| count += end - self.row_ends[row]);
        count
    }

    /// The next pairs to evaluate, at most `max_pairs`, all above `floor`, in batches that are summed
    /// together.
    fn next(&mut self, floor: f64, max_pairs: usize) -> Vec<PairRows> {
        let (mut low, mut high) = (floor, self.largest());
        if self.count_above(low) > max_pairs {
            // More than `max_pairs` pairs are above `low`, and at most `max_pairs` are above `high`.
            for _ in 0..64 {
                let middle = 0.5 * (low + high);
                *(if self.count_above(middle) > max_pairs { &mut low } else { &mut high }) = middle;
            }
        }
        let mut ends = Vec::new();
        self.rows(low, |row, end| ends.push((row, end)));
        let (mut parts, mut left): (Vec<PairRows>, usize) = (Vec::new(), max_pairs);
        for (row, end) in ends {
            let from = self.row_ends[row];
            let to = end.min(from.saturating_add(left));
            if from == to {
                break;
            }
            left -= to - from;
            self.row_ends[row] = to;
            let follows = |part: &PairRows| {
                part.first + part.steps.len() == row && part.len() + to - from <= MAX_BATCH_PAIRS
            };
            if !parts.last().is_some_and(follows) {
                parts.push(PairRows { first: row, steps: Vec::new() });
            }
            if let Some(part) = parts.last_mut() {
                part.push(ColumnSet::Range(from..to));
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::super::interaction_weights::SizeWeighting;
    use super::super::product::{ProductTerms, TermSink};
    use super::super::quadrature::{RoundingUnits, TermBatch};
    use super::*;
    use crate::simd::{LANES, Lanes};

    /// Given factors, factors × points, with the engine's padding.
    struct FactorGame {
        a: Vec<f64>,
        b: Vec<f64>,
        weights: Vec<Lanes>,
    }

    const POINTS: usize = 2 * LANES;

    impl ProductGame for FactorGame {
        type Memory = ();

        fn parts(&self) -> usize {
            1
        }

        fn terms(&self, _part: usize, _memory: &mut (), reader: &mut TermSink<'_>) -> Result<()> {
            let players: Vec<usize> = (0..self.a.len() / POINTS - 1).collect();
            let active: Vec<u32> =
                (0..players.len().next_multiple_of(4)).map(|k| k.min(players.len()) as u32).collect();
            reader.begin_tile(&(0..1), &(0..POINTS));
            reader.add_terms(&ProductTerms {
                row: 0,
                point: 0,
                players: &players,
                run: TermBatch {
                    a: &self.a,
                    b: Some(&self.b),
                    stride: POINTS,
                    offset: 0,
                    active: &active,
                    players: players.len(),
                    weights: &[Lanes::UNIT; POINTS / LANES],
                    sizes: None,
                    tinies: &[],
                    rounding: RoundingUnits::default(),
                },
                coef: std::slice::from_ref(&self.weights),
                is_last: true,
            })?;
            reader.finish_tile()
        }
    }

    /// Interactions, and their distances from the approximation by means, are within the bounds for any sizes
    /// and signs of factors; and skipped pairs are below the stated bound.
    #[test]
    fn interactions_are_within_their_bounds() {
        let players = 20;
        let mut state = 7_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut close = 0;
        for round in 0..120 {
            // From factors close to 1 to arbitrary factors.
            let far = [0.05, 0.5, 1.0][round % 3];
            let mut side = || -> Vec<f64> {
                let mut factor = || match uniform() {
                    u if far == 1.0 && u < 0.02 => 0.0,
                    u if far == 1.0 && u < 0.04 => 1e-9 * uniform(),
                    u if far == 1.0 && u < 0.1 => -uniform(),
                    _ => 1.0 - far * uniform(),
                };
                (0..(players + 1) * POINTS)
                    .map(|index| if index < players * POINTS { factor() } else { 1.0 })
                    .collect()
            };
            let (a, b) = (side(), side());
            let weights =
                (0..POINTS / LANES).map(|_| Lanes(std::array::from_fn(|_| uniform() - 0.5))).collect();
            let game = FactorGame { a, b, weights };
            for average in [
                SizeWeighting::Uniform,
                SizeWeighting::First(2),
                SizeWeighting::Faithful { size: 2, order: 2 },
                SizeWeighting::At(0.0),
            ] {
                let averages = SizeWeightings::new(vec![average]);
                let query = GameQuery {
                    game: &game,
                    isa: Isa::detect(),
                    averages: &averages,
                    control: RunControl::none(),
                    output: 0,
                };
                let ranked = RankedPlayers::new(query.strengths(players).unwrap());
                let mut stairs = PairRows::default();
                (0..ranked.order.len())
                    .for_each(|row| stairs.push(ColumnSet::Range(row + 1..ranked.order.len())));
                let sums = |samples| query.pair_sums(samples, &ranked, &stairs).unwrap().0;
                let (values, means) = (sums(Samples::Nodes), sums(Samples::Means));
                let mut sizes: Vec<f64> = values.iter().map(|v| v.abs()).collect();
                sizes.sort_by(f64::total_cmp);
                let floor = sizes[9 * sizes.len() / 10];
                let part = query.part(&ranked, &stairs, Some(floor)).unwrap();
                for (row, step) in stairs.steps.iter().enumerate() {
                    for (column, index) in step.columns.iter().zip(step.start..) {
                        let product = |bounds: &[f64]| bounds[row] * bounds[column] + ranked.error;
                        let (value, deviation) = (values[index], (values[index] - means[index]).abs());
                        assert!(value.abs() <= product(&ranked.interaction), "{round} {average:?} {value}");
                        assert!(
                            deviation <= product(&ranked.deviation),
                            "{round} {average:?} {value} {deviation}"
                        );
                        close +=
                            usize::from(product(&ranked.deviation) < 1e-2 * product(&ranked.interaction));
                        let players = [ranked.order[row], ranked.order[column]];
                        let players = [players[0].min(players[1]), players[0].max(players[1])];
                        match part.pairs.iter().find(|pair| pair.players == players) {
                            Some(pair) => assert_eq!(pair.value, value),
                            None => assert!(value.abs() <= part.passed_over.min(floor) + ranked.error),
                        }
                    }
                }
            }
        }
        // The sharper bounds often are much smaller.
        assert!(close > 5000, "{close}");
    }

    /// A search evaluates every pair above the floor exactly once, for any batch sizes.
    #[test]
    fn searches_evaluate_every_pair_once() {
        let players = 1600;
        let falling: Vec<f64> = (0..players).map(|j| 0.997_f64.powi(j)).collect();
        for (strengths, floor, step) in [
            (falling.clone(), 0.0, 1_200_000),
            (falling.clone(), 0.2, 7_000),
            (vec![1.0; players as usize], 0.0, 100_000),
            (vec![2.0], 0.0, 5),
        ] {
            let mut frontier = SearchFrontier::new(&strengths);
            let (mut valued, mut bound) = (std::collections::HashSet::new(), f64::INFINITY);
            loop {
                let remaining = frontier.count_above(floor);
                let parts = frontier.next(floor, step);
                let count: usize = parts.iter().map(PairRows::len).sum();
                assert_eq!(count, step.min(remaining));
                if count == 0 {
                    break;
                }
                for part in &parts {
                    assert!(part.len() <= MAX_BATCH_PAIRS);
                    let mut start = 0;
                    for (row, step) in (part.first..).zip(&part.steps) {
                        assert_eq!(step.start, start);
                        for column in step.columns.iter() {
                            assert!(row < column && valued.insert((row, column)));
                            assert!(strengths[row] * strengths[column] <= bound);
                            start += 1;
                        }
                    }
                }
                bound = frontier.largest();
            }
            let count_above = |j: usize| {
                strengths[j + 1..].iter().filter(|strength| strengths[j] * **strength > floor).count()
            };
            assert_eq!(valued.len(), (0..strengths.len()).map(count_above).sum::<usize>());
            assert!(frontier.largest() <= floor);
        }
    }
}

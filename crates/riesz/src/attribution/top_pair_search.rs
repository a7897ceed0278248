//! The strongest pairs of a game, by the size of their interactions, without valuing all: a search with a
//! proved bound on what it leaves out.
//!
//! No pair's interaction is larger than the product of its players' [strengths](Strengths). With players
//! ranked by strength the pairs whose products are above some number are stairs: of each player those with
//! the next so many. The search goes through them in rounds, the most promising first, some times as many as
//! before in each, and ends where no product is above the interactions found: soon, where strengths differ as
//! relevance does. From the second round on a pair is valued only if it can still be among the strongest by
//! its [means](Samples::Means) over nodes, which cost a tenth of its value.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::interaction_bounds::{InteractionBounds, PlayerBound};
use super::interaction_weights::SizeWeightings;
use super::pair_interactions::{ColumnSet, PairInteractions, PairRows, Samples};
use super::product::{ProductGame, TermAccumulator, read};
use super::rule::InclusionMeasure;
use crate::control::{Progress, RunControl};
use crate::error::Result;
use crate::explanation::{Pair, Strongest};
use crate::simd::Isa;

/// Pairs of the first round, if not more are wanted; how many times as many the next end with; and pairs that
/// are summed up together.
const FIRST: usize = 4096;
const GROWTH: usize = 4;
const TOGETHER: usize = 1 << 20;

/// Steps of progress in a search.
pub(crate) const STEPS: usize = 100;

/// What is searched for.
#[derive(Clone, Copy)]
pub(crate) struct SearchLimits {
    /// How many pairs.
    pub(crate) count: usize,
    /// The most that are looked at.
    pub(crate) limit: usize,
}

/// What a search tells of its progress: how far it is, from 0 to [`STEPS`].
struct SearchProgress<'w> {
    watch: RunControl<'w>,
    steps: AtomicUsize,
}

impl SearchProgress<'_> {
    fn report(&self, done: usize, of: usize) {
        let now = (done as f64 / of.max(1) as f64 * STEPS as f64).min(STEPS as f64) as usize;
        let before = self.steps.fetch_max(now, Ordering::Relaxed);
        (before..now).for_each(|_| self.watch.step());
    }
}

/// The strongest pairs of a game of one row and part.
///
/// # Errors
/// Those of the game, and [`Error::Interrupted`](crate::Error::Interrupted).
pub(crate) fn top_pairs<G: ProductGame>(
    game: &G,
    (isa, averages): (Isa, &SizeWeightings),
    watch: RunControl<'_>,
    (players, output): (usize, usize),
    wanted: SearchLimits,
) -> Result<Strongest> {
    let told = SearchProgress { watch, steps: AtomicUsize::new(0) };
    let asked = GameQuery { game, isa, averages, watch, output };
    let ranked = RankedPlayers::new(asked.strengths(players)?);
    let mut frontier = SearchFrontier::new(&ranked.whole);
    let mut best: Vec<Pair> = Vec::new();
    let (mut searched, mut rounded, mut passed_over) = (0, 0, 0.0);
    let mut goal = FIRST.max(wanted.count.saturating_mul(4));
    // An overflow is told by whoever knows the row.
    while ranked.most().is_finite() {
        let size = |at: usize| best.get(at).map_or(0.0, |pair| pair.value.abs());
        // What is no larger is not wanted, or as good as nothing.
        let floor = size(wanted.count - 1).max(ranked.error);
        let left = frontier.count_above(floor);
        let parts = frontier.next(floor, goal.min(wanted.limit).saturating_sub(searched));
        if parts.is_empty() {
            break;
        }
        let (total, done) = (searched + left, AtomicUsize::new(searched));
        // Beside those that are wanted the next is.
        let (least, sieve) = (size(wanted.count), (searched > 0 && !averages.is_point()).then_some(floor));
        let part = |stairs: &PairRows| {
            let mut found = asked.part(&ranked, stairs, sieve)?;
            found.pairs.retain(|pair| pair.value.abs() >= least);
            found.pairs = Pair::largest(found.pairs, wanted.count.saturating_add(1));
            told.report(done.fetch_add(stairs.len(), Ordering::Relaxed) + stairs.len(), total);
            Ok(found)
        };
        for found in parts.par_iter().map(part).collect::<Result<Vec<PairBatch>>>()? {
            best.extend(found.pairs);
            rounded = rounded.max(found.rounded);
            passed_over = found.passed_over.max(passed_over);
        }
        best = Pair::largest(best, wanted.count.saturating_add(1));
        searched += parts.iter().map(PairRows::len).sum::<usize>();
        goal = searched.saturating_mul(GROWTH);
    }
    told.report(1, 1);
    // No sum is larger on its way, and each was rounded.
    let bound = ranked.error + 0.51 * f64::EPSILON * rounded as f64 * ranked.most() + f64::MIN_POSITIVE;
    let rest = frontier.largest().max(passed_over);
    let found = Strongest::new(best, wanted.count, (players, bound), rest);
    Ok(Strongest { searched, ..found })
}

/// What is asked of a game.
struct GameQuery<'a, G> {
    game: &'a G,
    isa: Isa,
    averages: &'a SizeWeightings,
    watch: RunControl<'a>,
    output: usize,
}

/// What some pairs come to.
#[derive(Default)]
struct PairBatch {
    /// Those that were valued and are not 0.
    pairs: Vec<Pair>,
    /// How often their sums were rounded.
    rounded: usize,
    /// What the others are at most, but for the error.
    passed_over: f64,
}

impl<G: ProductGame> GameQuery<'_, G> {
    fn read<R: TermAccumulator>(&self, new: impl Fn() -> R + Sync) -> Result<Option<R>> {
        let progress = Progress::default();
        let within = RunControl { progress: &progress, ..self.watch };
        Ok(read(self.game, (self.isa, &InclusionMeasure::Lebesgue), within, new)?.pop())
    }

    fn strengths(&self, players: usize) -> Result<PlayerBound> {
        let found = self.read(|| InteractionBounds::new(self.averages, players, self.output))?;
        Ok(found.map_or_else(PlayerBound::default, InteractionBounds::finish))
    }

    /// The sums of these pairs, and how often they were rounded.
    fn pair_sums(
        &self,
        samples: Samples,
        ranked: &RankedPlayers,
        stairs: &PairRows,
    ) -> Result<(Vec<f64>, usize)> {
        let found = self
            .read(|| PairInteractions::new((self.averages, samples), &ranked.ranks, stairs, self.output))?;
        Ok(found.map_or_else(Default::default, |sums| (sums.values, sums.rounded)))
    }

    /// The values of these pairs; with a sieve of those alone that can be larger than this.
    fn part(&self, ranked: &RankedPlayers, stairs: &PairRows, sieve: Option<f64>) -> Result<PairBatch> {
        let mut found = PairBatch::default();
        let mut sieved = None;
        if let Some(floor) = sieve {
            let (means, rounded) = self.pair_sums(Samples::Means, ranked, stairs)?;
            found.rounded = rounded;
            let mut left = PairRows { first: stairs.first, steps: Vec::new() };
            for (row, step) in (stairs.first..).zip(&stairs.steps) {
                let mut columns = Vec::new();
                for (column, mean) in step.columns.each().zip(&means[step.start..]) {
                    let most = mean.abs() + ranked.apart[row] * ranked.apart[column];
                    if most > floor {
                        columns.push(column);
                    } else {
                        found.passed_over = most.max(found.passed_over);
                    }
                }
                left.push(ColumnSet::Listed(columns));
            }
            // Many are valued faster together with the others.
            if left.len() < stairs.len() / 4 {
                sieved = Some(left);
            }
        }
        let stairs = sieved.as_ref().unwrap_or(stairs);
        if stairs.len() == 0 {
            return Ok(found);
        }
        let (values, rounded) = self.pair_sums(Samples::Nodes, ranked, stairs)?;
        found.rounded = rounded.max(found.rounded);
        for (row, step) in (stairs.first..).zip(&stairs.steps) {
            for (column, &value) in step.columns.each().zip(&values[step.start..]) {
                let (j, l) = (ranked.order[row], ranked.order[column]);
                if value != 0.0 {
                    found.pairs.push(Pair { players: [j.min(l), j.max(l)], value });
                }
            }
        }
        Ok(found)
    }
}

/// Players that have interactions, from the strongest.
struct RankedPlayers {
    order: Vec<usize>,
    /// By player, its rank.
    ranks: Vec<usize>,
    /// By rank, see [`PlayerBound`].
    whole: Vec<f64>,
    apart: Vec<f64>,
    error: f64,
}

impl RankedPlayers {
    fn new(strength: PlayerBound) -> Self {
        let PlayerBound { whole, apart, error } = strength;
        let mut order: Vec<usize> = (0..whole.len()).filter(|&j| whole[j] != 0.0).collect();
        order.sort_by(|&j, &l| whole[l].total_cmp(&whole[j]));
        let mut ranks = vec![usize::MAX; whole.len()];
        order.iter().zip(0..).for_each(|(&j, rank)| ranks[j] = rank);
        let by_rank = |own: &[f64]| order.iter().map(|&j| own[j]).collect();
        Self { whole: by_rank(&whole), apart: by_rank(&apart), order, ranks, error }
    }

    /// No interaction is larger than this.
    fn most(&self) -> f64 {
        if let [first, second, ..] = self.whole[..] { first * second } else { 0.0 }
    }
}

/// Which pairs of players, ranked from the strongest, have been valued: of each row the columns before some.
struct SearchFrontier<'r> {
    strengths: &'r [f64],
    reach: Vec<usize>,
}

impl<'r> SearchFrontier<'r> {
    fn new(strengths: &'r [f64]) -> Self {
        Self { strengths, reach: (1..=strengths.len()).collect() }
    }

    /// The largest product of strengths of a pair that has not been valued.
    fn largest(&self) -> f64 {
        let own = self.strengths.iter().zip(&self.reach);
        own.map(|(own, &column)| self.strengths.get(column).map_or(0.0, |other| own * other))
            .fold(0.0, f64::max)
    }

    /// Calls `each` with rows that have pairs that have not been valued and are above `floor`, and the end of
    /// their columns.
    fn rows(&self, floor: f64, mut each: impl FnMut(usize, usize)) {
        let mut end = self.strengths.len();
        for (row, (own, &from)) in self.strengths.iter().zip(&self.reach).enumerate() {
            while end > row + 1 && own * self.strengths[end - 1] <= floor {
                end -= 1;
            }
            if end <= row + 1 {
                return;
            }
            if from < end {
                each(row, end);
            }
        }
    }

    /// How many pairs have not been valued and are above `floor`.
    fn count_above(&self, floor: f64) -> usize {
        let mut count = 0;
        self.rows(floor, |row, end| count += end - self.reach[row]);
        count
    }

    /// The next pairs to value, so many at most, none of them at `floor` or below, in parts that are summed
    /// up together.
    fn next(&mut self, floor: f64, most: usize) -> Vec<PairRows> {
        let (mut low, mut high) = (floor, self.largest());
        if self.count_above(low) > most {
            // Those above `low` are more, and those above `high` are not.
            for _ in 0..64 {
                let middle = 0.5 * (low + high);
                *(if self.count_above(middle) > most { &mut low } else { &mut high }) = middle;
            }
        }
        let mut ends = Vec::new();
        self.rows(low, |row, end| ends.push((row, end)));
        let (mut parts, mut left): (Vec<PairRows>, usize) = (Vec::new(), most);
        for (row, end) in ends {
            let from = self.reach[row];
            let to = end.min(from.saturating_add(left));
            if from == to {
                break;
            }
            left -= to - from;
            self.reach[row] = to;
            let follows =
                |part: &PairRows| part.first + part.steps.len() == row && part.len() + to - from <= TOGETHER;
            match parts.last_mut().filter(|part| follows(part)) {
                Some(part) => part.push(ColumnSet::Range(from..to)),
                None => {
                    let mut part = PairRows { first: row, steps: Vec::new() };
                    part.push(ColumnSet::Range(from..to));
                    parts.push(part);
                }
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

    /// Factors as they are, factors × points, and the engine's padding.
    struct Given {
        a: Vec<f64>,
        b: Vec<f64>,
        weights: Vec<Lanes>,
    }

    const POINTS: usize = 2 * LANES;

    impl ProductGame for Given {
        type Memory = ();

        fn parts(&self) -> usize {
            1
        }

        fn terms(&self, _part: usize, _memory: &mut (), reader: &mut TermSink<'_>) -> Result<()> {
            let players: Vec<usize> = (0..self.a.len() / POINTS - 1).collect();
            let active: Vec<u32> =
                (0..players.len().next_multiple_of(4)).map(|k| k.min(players.len()) as u32).collect();
            reader.begin(&(0..1), &(0..POINTS));
            reader.read(&ProductTerms {
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
                    weights: &[Lanes::ONE; POINTS / LANES],
                    sizes: None,
                    tinies: &[],
                    rounding: RoundingUnits::default(),
                },
                coef: std::slice::from_ref(&self.weights),
                last: true,
            })?;
            reader.end()
        }
    }

    /// No interaction is larger than its players' strengths say, nor farther from that of means, whatever the
    /// sizes and signs of factors; and what a sieve passes over is no larger than it says.
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
            // From factors close to 1 to any.
            let far = [0.05, 0.5, 1.0][round % 3];
            let mut side = || -> Vec<f64> {
                let mut factor = || match uniform() {
                    u if far == 1.0 && u < 0.02 => 0.0,
                    u if far == 1.0 && u < 0.04 => 1e-9 * uniform(),
                    u if far == 1.0 && u < 0.1 => -uniform(),
                    _ => 1.0 - far * uniform(),
                };
                (0..(players + 1) * POINTS)
                    .map(|at| if at < players * POINTS { factor() } else { 1.0 })
                    .collect()
            };
            let (a, b) = (side(), side());
            let weights =
                (0..POINTS / LANES).map(|_| Lanes(std::array::from_fn(|_| uniform() - 0.5))).collect();
            let game = Given { a, b, weights };
            for average in [
                SizeWeighting::Uniform,
                SizeWeighting::First(2),
                SizeWeighting::Faithful { size: 2, order: 2 },
                SizeWeighting::At(0.0),
            ] {
                let averages = SizeWeightings::new(vec![average]);
                let asked = GameQuery {
                    game: &game,
                    isa: Isa::detect(),
                    averages: &averages,
                    watch: RunControl::nobody(),
                    output: 0,
                };
                let ranked = RankedPlayers::new(asked.strengths(players).unwrap());
                let mut stairs = PairRows::default();
                (0..ranked.order.len())
                    .for_each(|row| stairs.push(ColumnSet::Range(row + 1..ranked.order.len())));
                let sums = |samples| asked.pair_sums(samples, &ranked, &stairs).unwrap().0;
                let (values, means) = (sums(Samples::Nodes), sums(Samples::Means));
                let mut sizes: Vec<f64> = values.iter().map(|v| v.abs()).collect();
                sizes.sort_by(f64::total_cmp);
                let floor = sizes[9 * sizes.len() / 10];
                let part = asked.part(&ranked, &stairs, Some(floor)).unwrap();
                for (row, step) in stairs.steps.iter().enumerate() {
                    for (column, at) in step.columns.each().zip(step.start..) {
                        let product = |own: &[f64]| own[row] * own[column] + ranked.error;
                        let (value, gap) = (values[at], (values[at] - means[at]).abs());
                        assert!(value.abs() <= product(&ranked.whole), "{round} {average:?} {value}");
                        assert!(gap <= product(&ranked.apart), "{round} {average:?} {value} {gap}");
                        close += usize::from(product(&ranked.apart) < 1e-2 * product(&ranked.whole));
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
        // The bounds are worth having.
        assert!(close > 5000, "{close}");
    }

    /// Whatever is asked for next, in the end all pairs above the floor have been valued once, and no other.
    #[test]
    fn frontiers_come_to_all_pairs_once() {
        let players = 1600;
        let falling: Vec<f64> = (0..players).map(|j| 0.997_f64.powi(j)).collect();
        for (strengths, floor, step) in [
            (falling.clone(), 0.0, 1_200_000),
            (falling.clone(), 0.2, 7_000),
            (vec![1.0; players as usize], 0.0, 100_000),
            (vec![2.0], 0.0, 5),
        ] {
            let mut frontier = SearchFrontier::new(&strengths);
            let (mut valued, mut last) = (std::collections::HashSet::new(), f64::INFINITY);
            loop {
                let left = frontier.count_above(floor);
                let parts = frontier.next(floor, step);
                let count: usize = parts.iter().map(PairRows::len).sum();
                assert_eq!(count, step.min(left));
                if count == 0 {
                    break;
                }
                for part in &parts {
                    assert!(part.len() <= TOGETHER);
                    let mut places = 0;
                    for (row, step) in (part.first..).zip(&part.steps) {
                        assert_eq!(step.start, places);
                        for column in step.columns.each() {
                            assert!(row < column && valued.insert((row, column)));
                            assert!(strengths[row] * strengths[column] <= last);
                            places += 1;
                        }
                    }
                }
                last = frontier.largest();
            }
            let of = |j: usize| strengths[j + 1..].iter().filter(|own| strengths[j] * **own > floor).count();
            assert_eq!(valued.len(), (0..strengths.len()).map(of).sum::<usize>());
            assert!(frontier.largest() <= floor);
        }
    }
}

//! Shapley values of a game whose coalitions are evaluated one by one: all coalitions, or a sample of them.
//!
//! The estimate from a sample is a regression: the values φ minimise `Σ_S w(S) (v(S) - v(∅) - Σ_{j∈S} φ_j)²`
//! with the Shapley kernel `w`, subject to `Σ_j φ_j = v(all) - v(∅)`. Every coalition is drawn with its
//! complement. Pairs are grouped by size. The outer sizes, which have most of the weight, are taken
//! completely while the budget lasts. Pairs of the other sizes are drawn without replacement, so that a
//! growing sample ends with all coalitions.
//!
//! Standard errors come from the regression residual of each pair's difference (`std_error.rs`). The value ±
//! 1.96 standard errors covers the truth in about 95 % of samples or more: the variance includes three
//! additional pairs with the largest observed residual. Sources: Lundberg and Lee 2017 (the regression);
//! Covert and Lee 2021 (pairs, the constraint, its variance).

use std::collections::HashSet;

use super::std_error::{ValueRange, Variance};
use super::{interaction_weights, sets};
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix, raise_to_abs};
use crate::random::{Random, SeedableRng, SliceRandom, hash};

/// A coalition: for each player, whether it is present.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coalition(Vec<bool>);

impl Coalition {
    /// The coalition of the players marked as present.
    pub fn new(present: Vec<bool>) -> Self {
        Self(present)
    }

    /// The coalition of the players whose bits are set.
    pub(crate) fn from_mask(mask: usize, players: usize) -> Self {
        Self((0..players).map(|j| mask >> j & 1 == 1).collect())
    }

    /// For each player, whether it is present.
    pub fn present(&self) -> &[bool] {
        &self.0
    }

    /// Hash of the present players, the same on every machine.
    pub(crate) fn hash(&self) -> u64 {
        hash(self.0.iter().map(|on| u64::from(*on)))
    }

    pub(super) fn complement(&self) -> Self {
        Self(self.0.iter().map(|on| !on).collect())
    }
}

/// Several games with the same players whose coalitions are evaluated together, for example one game per
/// explained row and output.
pub trait CoalitionGame {
    /// Error of evaluating a coalition.
    type Error: From<Error>;

    /// Number of players.
    fn players(&self) -> usize;

    /// Values of the empty and of the grand coalition, one number per game each.
    ///
    /// # Errors
    /// Errors of the game.
    fn empty_and_grand_values(&mut self) -> Result<[Vec<f64>; 2], Self::Error>;

    /// Values of coalitions other than the empty and the grand one.
    ///
    /// # Errors
    /// Errors of the game.
    fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues, Self::Error>;
}

/// Values of coalitions.
#[derive(Debug, Clone, PartialEq)]
pub struct CoalitionValues {
    /// Values, coalitions × games.
    pub values: Matrix,
    /// Sampling error of the values, if they are estimates themselves.
    pub noise: Option<SamplingNoise>,
}

/// Sampling error of values that are means of independent draws.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingNoise {
    /// Variance of each value around the truth, coalitions × games.
    pub variance: Matrix,
    /// Number of draws for each value, at least 2.
    pub draws: usize,
    /// The lowest and the highest draw of each game.
    pub draw_range: [Vec<f64>; 2],
}

impl From<Matrix> for CoalitionValues {
    fn from(values: Matrix) -> Self {
        Self { values, noise: None }
    }
}

/// Budget of coalitions to evaluate, with the seed of the sample.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Budget {
    /// Largest number of coalitions, not counting the empty and the grand one. Values are exact if all
    /// coalitions are within it.
    pub coalitions: usize,
    /// If set, sampling stops as soon as no standard error exceeds this. Values then always have standard
    /// errors, which are 0 if all coalitions were evaluated exactly.
    pub std_error: Option<f64>,
    /// Seed of the sample.
    pub seed: u64,
}

impl Budget {
    /// The reason why the values of this number of players are sampled; `None` if all coalitions are
    /// evaluated.
    pub fn sampled_because(&self, players: usize) -> Option<String> {
        let coalitions = self.coalitions;
        if self.std_error.is_some() {
            return Some("a standard error was requested".into());
        }
        (proper_coalitions(players) > coalitions)
            .then(|| format!("{players} features have more than {coalitions} coalitions"))
    }
}

impl Default for Budget {
    /// 4096 coalitions, which are all coalitions of up to 12 players.
    fn default() -> Self {
        Self { coalitions: 4096, std_error: None, seed: 0 }
    }
}

/// Shapley values of several games.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Values, games × players.
    pub values: Matrix,
    /// Standard errors of the values, games × players. The value ± 1.96 standard errors covers the truth in
    /// about 95 % of samples or more. `None` if all coalitions were evaluated exactly.
    pub std_error: Option<Matrix>,
    /// Values of the empty and of the grand coalition, one number per game each.
    pub empty_and_grand_values: [Vec<f64>; 2],
    /// Number of evaluated coalitions, not counting the empty and the grand one.
    pub coalitions: usize,
}

/// Pairs of complementary coalitions whose smaller coalition has a given size.
#[derive(Clone)]
pub(super) struct SizeStratum {
    pub(super) size: usize,
    players: usize,
    /// The total weight of all pairs under the Shapley kernel.
    mass: f64,
    /// Number of pairs, or `usize::MAX`.
    pub(super) count: usize,
    /// The pairs drawn so far, by the coalition of this size.
    drawn: Vec<Coalition>,
    /// Number of pairs that have been evaluated.
    valued: usize,
    /// The differences `v(S) - v(all \ S)`, drawn × games.
    differences: Vec<f64>,
    /// Variances of the differences, if values are estimates.
    noise: Vec<f64>,
    /// All pairs in random order, if they are at most [`LISTED`].
    shuffled: Option<Vec<Coalition>>,
    /// For more pairs: the coalitions drawn so far, and the players in the order after the last draw.
    drawn_coalitions: HashSet<Coalition>,
    order: Vec<usize>,
    random: Random,
}

/// Strata with at most this number of pairs are listed and shuffled.
const LISTED: usize = 1 << 16;

impl SizeStratum {
    pub(super) fn new(size: usize, players: usize, seed: u64) -> Self {
        let self_complementary = 2 * size == players;
        let kernel = (players - 1) as f64 / (size * (players - size)) as f64;
        let count = binomial(players, size);
        Self {
            size,
            players,
            mass: if self_complementary { kernel } else { 2.0 * kernel },
            count: if self_complementary { count.div_ceil(2) } else { count },
            drawn: Vec::new(),
            valued: 0,
            differences: Vec::new(),
            noise: Vec::new(),
            shuffled: None,
            drawn_coalitions: HashSet::new(),
            order: (0..players).collect(),
            random: Random::seed_from_u64(hash([seed, size as u64])),
        }
    }

    /// Draws up to `number` pairs in total; returns the pairs that have not been evaluated.
    pub(super) fn draw(&mut self, number: usize) -> &[Coalition] {
        let from = self.drawn.len();
        let number = number.min(self.count);
        if self.count <= LISTED {
            if self.shuffled.is_none() {
                let mut coalitions = subsets(self.players, self.size);
                if 2 * self.size == self.players {
                    // Keeps one of each two complementary coalitions.
                    coalitions.retain(|s| s.0[0]);
                }
                coalitions.shuffle(&mut self.random);
                self.shuffled = Some(coalitions);
            }
            self.drawn.extend(self.shuffled.iter().flatten().take(number).skip(from).cloned());
        } else {
            while self.drawn.len() < number {
                let mut present = vec![false; self.players];
                let (chosen, _) = self.order.partial_shuffle(&mut self.random, self.size);
                chosen.iter().for_each(|j| present[*j] = true);
                if 2 * self.size == self.players && !present[0] {
                    present.iter_mut().for_each(|on| *on = !*on);
                }
                let coalition = Coalition(present);
                if self.drawn_coalitions.insert(coalition.clone()) {
                    self.drawn.push(coalition);
                }
            }
        }
        &self.drawn[self.valued..]
    }

    fn is_exhaustive(&self) -> bool {
        self.drawn.len() == self.count
    }
}

/// Coefficient of a coalition's value in the Shapley value of a player, for a coalition of s of p players:
/// `(s-1)! (p-s)! / p!` if the player is a member, else `-s! (p-s-1)! / p!`.
pub(crate) fn definition_weight(coalition: &Coalition, player: usize) -> f64 {
    let (p, s) = (coalition.0.len(), coalition.0.iter().filter(|on| **on).count());
    let choose = interaction_weights::binomial;
    let size = if coalition.0[player] { choose(p - 1, s - 1) } else { -choose(p - 1, s) };
    1.0 / (p as f64 * size)
}

/// The number of coalitions other than the empty and the grand one, or `usize::MAX` for many players.
fn proper_coalitions(players: usize) -> usize {
    if players < 60 { (1_usize << players).saturating_sub(2) } else { usize::MAX }
}

/// `C(n, k)`, or `usize::MAX` if it is larger.
fn binomial(n: usize, k: usize) -> usize {
    let mut result: u128 = 1;
    for i in 0..k.min(n - k) {
        result = result * (n - i) as u128 / (i + 1) as u128;
        if result > usize::MAX as u128 {
            return usize::MAX;
        }
    }
    result as usize
}

/// All coalitions of a size, in lexicographic order.
fn subsets(players: usize, size: usize) -> Vec<Coalition> {
    let mut chosen: Vec<usize> = (0..size).collect();
    let mut coalitions = Vec::new();
    loop {
        let mut present = vec![false; players];
        chosen.iter().for_each(|&j| present[j] = true);
        coalitions.push(Coalition(present));
        if !sets::advance(&mut chosen, players) {
            return coalitions;
        }
    }
}

/// A sample of pairs that can grow: call [`extend`](Self::extend) until [`solution`](Self::solution) is
/// precise enough.
#[derive(Clone)]
pub struct CoalitionRegression {
    players: usize,
    empty_and_grand_values: [Vec<f64>; 2],
    strata: Vec<SizeStratum>,
    /// For each game, the range of the coalitions' values or, if values are means, of the draws.
    ranges: Vec<ValueRange>,
    /// Number of draws for each value, if values are means.
    draws: usize,
}

impl CoalitionRegression {
    /// An empty sample for the players of `game`.
    ///
    /// # Errors
    /// Errors of the game.
    pub fn new<G: CoalitionGame>(game: &mut G, seed: u64) -> Result<Self, G::Error> {
        let players = game.players();
        let strata = (1..=players / 2).map(|size| SizeStratum::new(size, players, seed)).collect();
        let end_values = game.empty_and_grand_values()?;
        let ranges = end_values[0]
            .iter()
            .zip(&end_values[1])
            .map(|(none, grand)| ValueRange::over([*none, *grand]))
            .collect();
        Ok(Self { players, empty_and_grand_values: end_values, strata, ranges, draws: 0 })
    }

    /// Size of the smallest sample that has a solution with standard errors.
    pub fn smallest(players: usize) -> usize {
        2 * (players + 2 * (players / 2).saturating_sub(1))
    }

    /// Checks that `other`, a new regression, belongs to the same game.
    fn check(&self, other: &Self) -> Result<()> {
        let sizes = |r: &Self| (r.players, r.empty_and_grand_values[0].len());
        let end_values = || {
            self.empty_and_grand_values.iter().flatten().zip(other.empty_and_grand_values.iter().flatten())
        };
        let largest = end_values().map(|(a, b)| a.abs().max(b.abs())).fold(0.0, f64::max);
        // Small differences are allowed, since a model may compute values in another order.
        if sizes(self) == sizes(other) && end_values().all(|(a, b)| (a - b).abs() <= 1e-6 * largest) {
            return Ok(());
        }
        Err(Error::format(
            "the given coalitions were evaluated for other rows, or with another model or background: \
             continue with the inputs of the first call",
        ))
    }

    /// Number of coalitions evaluated so far.
    pub fn coalitions(&self) -> usize {
        2 * self.strata.iter().map(|s| s.valued).sum::<usize>()
    }

    /// Whether all coalitions have been evaluated.
    pub fn is_exhaustive(&self) -> bool {
        self.strata.iter().all(SizeStratum::is_exhaustive)
    }

    /// Allocates a number of pairs to the sizes. Outer sizes are taken completely while their share of the
    /// weight justifies it. The others get numbers in proportion to their weight, but at least two, which a
    /// standard error needs.
    fn allocate(&self, pairs: usize) -> Vec<usize> {
        let mut drawn_counts: Vec<usize> = self.strata.iter().map(|s| s.drawn.len()).collect();
        let mut remaining_pairs = pairs;
        let mut mass: f64 = self.strata.iter().map(|s| s.mass).sum();
        let mut inner = 0;
        for (t, stratum) in self.strata.iter().enumerate() {
            // Without all pairs of the first size the regression may have no solution; the inner sizes keep
            // two pairs each.
            let reserved = 2 * (self.strata.len() - t - 1);
            let share = remaining_pairs.saturating_sub(reserved) as f64 * stratum.mass / mass;
            if t > 0 && stratum.count as f64 > share * (1.0 + 1e-12) {
                break;
            }
            drawn_counts[t] = stratum.count;
            remaining_pairs = remaining_pairs.saturating_sub(stratum.count);
            mass -= stratum.mass;
            inner = t + 1;
        }
        let available = remaining_pairs.saturating_sub(2 * (self.strata.len() - inner));
        for (t, stratum) in self.strata.iter().enumerate().skip(inner) {
            let share = (available as f64 * stratum.mass / mass) as usize;
            drawn_counts[t] = drawn_counts[t].max(2 + share).min(stratum.count);
        }
        drawn_counts
    }

    /// Extends the sample to about `coalitions` in total, and evaluates the new ones.
    ///
    /// # Errors
    /// Errors of the game, which leave the evaluated sample unchanged; [`Error::Overflow`] if a value is not
    /// finite.
    pub fn extend<G: CoalitionGame>(&mut self, game: &mut G, coalitions: usize) -> Result<(), G::Error> {
        let target_counts = self.allocate(coalitions / 2);
        let mut new_coalitions = Vec::new();
        for (stratum, number) in self.strata.iter_mut().zip(target_counts) {
            new_coalitions.extend(stratum.draw(number).iter().flat_map(|s| [s.clone(), s.complement()]));
        }
        if new_coalitions.is_empty() {
            return Ok(());
        }
        let CoalitionValues { values, noise } = game.values(&new_coalitions)?;
        if !values.data().iter().all(|v| v.is_finite()) {
            return Err(Error::overflow(
                "the value of a coalition",
                "the model must predict finite numbers, also near the data",
            )
            .into());
        }
        let games = self.ranges.len();
        for (g, range) in self.ranges.iter_mut().enumerate() {
            *range = match &noise {
                Some(noise) => noise.draw_range.iter().fold(*range, |range, ends| range.with(ends[g])),
                None => values.data()[g..].iter().step_by(games).fold(*range, |range, v| range.with(*v)),
            };
        }
        self.draws = noise.as_ref().map_or(0, |noise| noise.draws);
        let mut pair = 0;
        for stratum in &mut self.strata {
            for _ in std::mem::replace(&mut stratum.valued, stratum.drawn.len())..stratum.drawn.len() {
                let (first, other) = (values.row(2 * pair), values.row(2 * pair + 1));
                stratum.differences.extend(first.iter().zip(other).map(|(a, b)| a - b));
                if let Some(noise) = &noise {
                    let (first, other) = (noise.variance.row(2 * pair), noise.variance.row(2 * pair + 1));
                    stratum.noise.extend(first.iter().zip(other).map(|(a, b)| a + b));
                }
                pair += 1;
            }
        }
        Ok(())
    }

    /// Computes the values from the current sample. Cost O(pairs · (players² + players · games)).
    ///
    /// # Errors
    /// [`Error::TooFew`] before the sample has the [`smallest`](Self::smallest) size.
    pub fn solution(&self) -> Result<Solution> {
        let (p, games) = (self.players, self.empty_and_grand_values[0].len());
        let [none, grand] = &self.empty_and_grand_values;
        let total: Vec<f64> = grand.iter().zip(none).map(|(grand, none)| grand - none).collect();
        let solved = |values, std_error| {
            Ok(Solution {
                values,
                std_error,
                empty_and_grand_values: self.empty_and_grand_values.clone(),
                coalitions: self.coalitions(),
            })
        };
        if p < 2 {
            return solved(Matrix::from_row_major(games, p, if p == 1 { total } else { Vec::new() }), None);
        }
        if self.strata.iter().any(|s| s.valued < 2.min(s.count)) || !self.strata[0].is_exhaustive() {
            let needed = Self::smallest(p);
            return Err(Error::too_few("the sample of coalitions", needed, "coalitions are"));
        }
        let (z, weights, normal) = self.design();
        let pairs = weights.len();
        let differences = self.strata.iter().flat_map(|s| s.differences.iter().copied()).collect();
        let mut differences = Matrix::from_row_major(pairs, games, differences);
        let noisy = self.strata.iter().any(|s| !s.noise.is_empty());
        if self.is_exhaustive() {
            // The coefficients of complements have the opposite sign.
            let mut values = differences.transpose().matmul(&self.definition_coefficients());
            for (g, total) in total.iter().enumerate() {
                values.row_mut(g).iter_mut().for_each(|v| *v += total / p as f64);
            }
            return solved(values, noisy.then(|| self.definition_error()));
        }
        // Let A be the normal matrix (players × players), b the right-hand side of the regression, and 1 the
        // vector of ones. The solution is H b + c (v(all) - v(∅)) with c = A⁻¹1 / 1ᵀA⁻¹1 and H = A⁻¹ - A⁻¹1
        // 1ᵀA⁻¹ / 1ᵀA⁻¹1. Since H 1 = 0, a coalition and its complement enter only through the difference of
        // their values.
        let inverse = Cholesky::new(normal, "normal matrix of the regression")?.inverse();
        let sums: Vec<f64> = (0..p).map(|j| inverse.row(j).iter().sum()).collect();
        let total_sum: f64 = sums.iter().sum();
        let mut h = inverse;
        for i in 0..p {
            for j in 0..p {
                h[(i, j)] -= sums[i] * sums[j] / total_sum;
            }
        }
        // Row q is the pair's weight times H z_q: the coefficients of the pair's difference in the values.
        let mut coefficients = z.matmul(&h);
        coefficients.scale_rows(weights.iter().copied());
        let mut values = coefficients.transpose().matmul(&differences).transpose();
        for (g, total) in total.iter().enumerate() {
            values.row_mut(g).iter_mut().zip(&sums).for_each(|(v, s)| *v += s / total_sum * total);
        }
        // Jackknife residuals: the residual of each difference, divided by 1 - leverage.
        let mut signs = z;
        signs.data_mut().iter_mut().for_each(|v| *v = 2.0 * *v - 1.0);
        let fitted = signs.matmul(&values.transpose());
        for q in 0..pairs {
            let present_leverage: f64 =
                coefficients.row(q).iter().zip(signs.row(q)).filter(|(_, s)| **s > 0.0).map(|(c, _)| c).sum();
            let leverage = (2.0 * present_leverage).min(0.9);
            let row = differences.row_mut(q).iter_mut().zip(fitted.row(q));
            row.for_each(|(d, f)| *d = (*d - f) / (1.0 - leverage));
        }
        solved(values, Some(std_errors(self.variances(&differences, &coefficients, noisy), p)))
    }

    /// Weighted regression of values on coalitions, one observation per pair of a coalition and its
    /// complement. Returns the matrix Z (pairs × players), which is 1 for the players of the coalition; the
    /// weight of each pair; and the normal matrix `Zᵀ W Z` over coalitions and complements (players ×
    /// players).
    fn design(&self) -> (Matrix, Vec<f64>, Matrix) {
        let p = self.players;
        let pairs: usize = self.strata.iter().map(|s| s.drawn.len()).sum();
        let mut z = Matrix::zeros(pairs, p);
        let mut weights = Vec::with_capacity(pairs);
        let mut normal = Matrix::zeros(p, p);
        for stratum in &self.strata {
            let weight = stratum.mass / (2 * stratum.drawn.len()) as f64;
            for coalition in &stratum.drawn {
                for j in (0..p).filter(|&j| coalition.0[j]) {
                    z[(weights.len(), j)] = 1.0;
                }
                for i in 0..p {
                    for j in (0..p).filter(|&j| coalition.0[j] == coalition.0[i]) {
                        normal[(i, j)] += weight;
                    }
                }
                weights.push(weight);
            }
        }
        (z, weights, normal)
    }

    /// Variances of values, games × players. `residuals` (pairs × games) are the jackknife residuals of the
    /// pairs' differences; `coefficients` (pairs × players) are those of the differences in the values.
    fn variances(&self, residuals: &Matrix, coefficients: &Matrix, noisy: bool) -> Vec<Variance> {
        let (p, games) = (self.players, residuals.cols());
        let mut variances = vec![Variance::default(); games * p];
        // Number of pairs in strata that were not taken completely, and per player the sum of their squared
        // coefficients.
        let (mut n_sampled, mut square_count) = (0.0, vec![0.0; p]);
        let mut from = 0;
        for stratum in &self.strata {
            let n = stratum.drawn.len();
            let rows = from..from + n;
            from += n;
            let part = |m: &Matrix, power| {
                let data = m.data()[rows.start * m.cols()..rows.end * m.cols()].iter().map(|v| v.powi(power));
                Matrix::from_row_major(n, m.cols(), data.collect())
            };
            // Pairs are drawn without replacement. The noise of single values enters with the share of the
            // stratum that was drawn; the variance between pairs covers the rest.
            let sampling_fraction = n as f64 / stratum.count as f64;
            if noisy {
                let noise = Matrix::from_row_major(n, games, stratum.noise.clone());
                let noise_sums = noise.transpose().matmul(&part(coefficients, 2));
                for (variance, noise_sum) in variances.iter_mut().zip(noise_sums.data()) {
                    variance.add(sampling_fraction * noise_sum, (n * (self.draws - 1)) as f64);
                }
            }
            if stratum.is_exhaustive() {
                continue;
            }
            let mean = part(residuals, 1).transpose().matmul(&part(coefficients, 1));
            let squares = part(residuals, 2).transpose().matmul(&part(coefficients, 2));
            let (n, undrawn_fraction) = (n as f64, 1.0 - sampling_fraction);
            for ((variance, square), mean) in variances.iter_mut().zip(squares.data()).zip(mean.data()) {
                variance.add(undrawn_fraction * n / (n - 1.0) * (square - mean * mean / n).max(0.0), n - 1.0);
            }
            n_sampled += n;
            for q in rows {
                square_count
                    .iter_mut()
                    .zip(coefficients.row(q))
                    .for_each(|(s, c)| *s += undrawn_fraction * c * c);
            }
        }
        for (g, range) in self.ranges.iter().enumerate() {
            let largest_residual = (0..residuals.rows()).map(|q| residuals[(q, g)].abs()).fold(0.0, f64::max);
            let farthest = range.max_deviation([largest_residual]);
            for (variance, square) in variances[g * p..].iter_mut().zip(&square_count) {
                variance.inflate(farthest * (square / n_sampled).sqrt());
            }
        }
        if noisy {
            self.inflate_for_undrawn(coefficients, &mut variances);
        }
        variances
    }

    /// Inflates variances for draws that were not made, by the pair with the largest coefficient.
    /// `coefficients` (pairs × players) are the coefficients of the pairs' differences in the values.
    fn inflate_for_undrawn(&self, coefficients: &Matrix, variances: &mut [Variance]) {
        let p = self.players;
        let mut max_coefficients = vec![0.0; p];
        (0..coefficients.rows()).for_each(|q| raise_to_abs(&mut max_coefficients, coefficients.row(q)));
        for (range, variances) in self.ranges.iter().zip(variances.chunks_mut(p)) {
            let farthest = range.max_deviation([]) / self.draws as f64;
            variances
                .iter_mut()
                .zip(&max_coefficients)
                .for_each(|(variance, max_count)| variance.inflate(farthest * max_count));
        }
    }

    /// Coefficient of each pair's difference in each player's value by definition, pairs × players.
    fn definition_coefficients(&self) -> Matrix {
        let p = self.players;
        let drawn: Vec<&Coalition> = self.strata.iter().flat_map(|s| &s.drawn).collect();
        let weights = drawn.iter().flat_map(|s| (0..p).map(|j| definition_weight(s, j)));
        Matrix::from_row_major(drawn.len(), p, weights.collect())
    }

    /// Standard errors of values from all coalitions, if the coalitions' values are estimates.
    fn definition_error(&self) -> Matrix {
        let noise: Vec<f64> = self.strata.iter().flat_map(|s| s.noise.iter().copied()).collect();
        let games = self.empty_and_grand_values[0].len();
        let noise = Matrix::from_row_major(noise.len() / games.max(1), games, noise);
        let coefficients = self.definition_coefficients();
        let mut variances = vec![Variance::default(); games * self.players];
        for q in 0..coefficients.rows() {
            let parts = noise.row(q).iter().flat_map(|v| coefficients.row(q).iter().map(move |c| c * c * v));
            variances.iter_mut().zip(parts).for_each(|(v, part)| v.add(part, (self.draws - 1) as f64));
        }
        self.inflate_for_undrawn(&coefficients, &mut variances);
        std_errors(variances, self.players)
    }
}

/// Standard errors, games × players.
fn std_errors(variances: Vec<Variance>, players: usize) -> Matrix {
    let std_errors: Vec<f64> = variances.into_iter().map(Variance::std_error).collect();
    Matrix::from_row_major(std_errors.len() / players, players, std_errors)
}

/// Evaluated coalitions of some rows, from which a later explanation of these rows can continue with a larger
/// budget. It takes 8 bytes for each pair of coalitions, row and output.
#[derive(Clone, Default)]
pub struct SampleState {
    pub(crate) parts: Vec<SamplePart>,
}

/// State of rows that are explained together.
#[derive(Clone, Default)]
pub(crate) struct SamplePart {
    pub(crate) regression: Option<CoalitionRegression>,
    /// The two terms of the bound on rounding, one number per game each.
    pub(crate) rounding: [Vec<f64>; 2],
}

impl SampleState {
    /// Number of coalitions evaluated so far, not counting the empty and the grand one.
    pub fn coalitions(&self) -> usize {
        let valued = self.parts.iter().flat_map(|part| &part.regression).map(CoalitionRegression::coalitions);
        valued.max().unwrap_or(0)
    }

    /// The part with this number. Missing parts up to this number are created.
    pub(crate) fn part(&mut self, number: usize) -> &mut SamplePart {
        if self.parts.len() <= number {
            self.parts.resize_with(number + 1, SamplePart::default);
        }
        &mut self.parts[number]
    }
}

impl SamplePart {
    /// Sets both the stored and the new rounding terms to the larger of the two.
    pub(crate) fn merge(&mut self, new_rounding: [&mut Vec<f64>; 2]) {
        for (stored, new_rounding) in self.rounding.iter_mut().zip(new_rounding) {
            new_rounding
                .iter_mut()
                .zip(stored.iter())
                .for_each(|(new_rounding, stored)| *new_rounding = new_rounding.max(*stored));
            stored.clone_from(new_rounding);
        }
    }
}

/// Shapley values of `game` within a budget. All coalitions are evaluated if they are within the budget and
/// no standard error is requested.
///
/// # Errors
/// Errors of the game; [`Error::Parameter`] for a budget below [`CoalitionRegression::smallest`].
pub fn solve<G: CoalitionGame>(game: &mut G, budget: Budget) -> Result<Solution, G::Error> {
    solve_from(game, budget, &mut None)
}

/// Continues [`solve`] from the regression of an earlier call on the same game, if there is one, and stores
/// it for a later call. The coalitions of the regression count towards the budget and are not evaluated
/// again; the seed of the first call applies. The result equals the result of a single call with the larger
/// budget.
///
/// # Errors
/// As [`solve`]; [`Error::Format`] for the regression of another game.
pub fn solve_from<G: CoalitionGame>(
    game: &mut G,
    budget: Budget,
    stored: &mut Option<CoalitionRegression>,
) -> Result<Solution, G::Error> {
    let players = game.players();
    let total = proper_coalitions(players);
    let smallest = CoalitionRegression::smallest(players).min(total);
    if budget.coalitions < smallest {
        let allowed = format!("{players} features take at least {smallest}");
        return Err(Error::parameter("n_coalitions", budget.coalitions, allowed).into());
    }
    if let Some(target) = budget.std_error.filter(|e| e.is_nan() || *e <= 0.0) {
        return Err(Error::parameter("target_std_error", target, "it is a positive number").into());
    }
    let fresh = CoalitionRegression::new(game, budget.seed)?;
    if let Some(stored) = stored {
        stored.check(&fresh)?;
    }
    let regression = stored.get_or_insert(fresh);
    if players < 2 {
        return Ok(regression.solution()?);
    }
    let max_coalitions = budget.coalitions.min(total);
    let mut size = match budget.std_error {
        Some(_) => regression.coalitions().max(8 * smallest).min(max_coalitions),
        None => max_coalitions,
    };
    loop {
        regression.extend(game, size)?;
        let mut solution = regression.solution()?;
        if budget.std_error.is_some() && solution.std_error.is_none() {
            solution.std_error = Some(Matrix::zeros(solution.values.rows(), players));
        }
        let largest = solution.std_error.iter().flat_map(|e| e.data()).copied().fold(0.0, f64::max);
        if size == max_coalitions || budget.std_error.is_none_or(|target| largest <= target) {
            return Ok(solution);
        }
        size = (size + size / 2).min(max_coalitions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_and_listed() {
        assert_eq!(
            [binomial(5, 2), binomial(60, 30), binomial(200, 100)],
            [10, 118264581564861424, usize::MAX]
        );
        for (players, size) in [(5, 2), (6, 3), (1, 1), (20, 1)] {
            let coalitions = subsets(players, size);
            assert_eq!(coalitions.len(), binomial(players, size));
            assert!(coalitions.iter().all(|s| s.0.iter().filter(|on| **on).count() == size));
            assert_eq!(coalitions.iter().collect::<HashSet<_>>().len(), coalitions.len());
        }
    }

    /// The allocation never shrinks as the budget grows.
    #[test]
    fn larger_budgets_contain_smaller_ones() {
        for players in [3, 7, 10, 12, 13, 20, 31, 64] {
            let strata = (1..=players / 2).map(|size| SizeStratum::new(size, players, 0)).collect();
            let regression = CoalitionRegression {
                players,
                strata,
                empty_and_grand_values: Default::default(),
                ranges: Vec::new(),
                draws: 0,
            };
            let mut before = vec![0; players / 2];
            for pairs in CoalitionRegression::smallest(players) / 2..6000 {
                let now = regression.allocate(pairs);
                assert!(
                    before.iter().zip(&now).all(|(a, b)| a <= b),
                    "{players} {pairs}: {before:?} {now:?}"
                );
                before = now;
            }
        }
    }

    #[test]
    fn draws_are_distinct_and_grow_from_one_another() {
        for (players, size) in [(6, 3), (9, 2), (40, 20), (40, 7)] {
            let mut stepwise = SizeStratum::new(size, players, 3);
            let mut two = SizeStratum::new(size, players, 3);
            stepwise.draw(5);
            stepwise.draw(60);
            assert!(stepwise.drawn == two.draw(60), "{players} {size}");
            let mut pairs: HashSet<Coalition> = stepwise.drawn.iter().cloned().collect();
            assert_eq!(pairs.len(), 60.min(stepwise.count));
            pairs.extend(stepwise.drawn.iter().map(Coalition::complement));
            assert_eq!(pairs.len(), 2 * stepwise.drawn.len());
        }
    }
}

//! Model-free indices of the comparison graph and of its outcomes: SpecR and the clustering coefficient.
//!
//! Both have been used to measure whether there is a ranking, but they mostly depend on the set of compared
//! pairs. A perfect ranking and fair coins have nearly the same values on the same graph. Therefore each
//! index is returned with these two references.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::duels::Duels;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::linalg::{Matrix, eigenvalues, mean};
use crate::random::{Random, RngExt, SeedableRng, SliceRandom, StandardNormal, hash};

/// The distribution of an index on the same comparison graph with simulated outcomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// The mean over draws.
    pub mean: f64,
    /// The standard deviation over draws.
    pub sd: f64,
}

/// The SpecR index, with reference distributions on the same graph.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecR {
    /// The index of the duels, at most 1, its value for a complete and perfect ranking.
    pub value: f64,
    /// Reference distribution: a perfect ranking in random order, on the same graph.
    pub ranking: Reference,
    /// Reference distribution: a fair coin for each duel, on the same graph.
    pub coins: Reference,
    /// The average clustering coefficient of the graph, which does not depend on outcomes.
    pub average_clustering: f64,
    /// The number of draws of rankings, and of coin sequences.
    pub draws: usize,
}

impl SpecR {
    /// Returns the index of the duels, with references from `draws` seeded draws each. Cost: 2 draws + 1
    /// times the eigenvalues of a matrix, about 10 N³ for N items.
    ///
    /// # Errors
    /// [`Error::Parameter`] for fewer than 2 draws; [`Error::Interrupted`].
    pub fn from_duels(duels: &Duels, draws: usize, seed: u64, stop: &AtomicBool) -> Result<Self> {
        if draws < 2 {
            return Err(Error::parameter("n_samples", draws, "a standard deviation needs 2 or more samples"));
        }
        let value = spec_r(&win_shares(duels, duels.outcome()))?;
        let reference = |stream: u64, outcomes: fn(&Duels, &mut Random) -> Vec<f64>| {
            let draw = |t: usize| {
                check_cancelled(stop)?;
                let mut random = Random::seed_from_u64(hash([seed, stream, t as u64]));
                spec_r(&win_shares(duels, &outcomes(duels, &mut random)))
            };
            let draws_of_index = (0..draws).into_par_iter().map(draw).collect::<Result<Vec<f64>>>()?;
            let mean = mean(&draws_of_index);
            let squares: f64 = draws_of_index.iter().map(|v| (v - mean).powi(2)).sum();
            Ok(Reference { mean, sd: (squares / (draws - 1) as f64).sqrt() })
        };
        Ok(Self {
            value,
            ranking: reference(0, random_ranking_outcomes)?,
            coins: reference(1, coin_flip_outcomes)?,
            average_clustering: average_clustering(duels),
            draws,
        })
    }
}

/// Returns the matrix whose entry (l, r) is the share of duels of this pair that l won; 0 for pairs without
/// duels.
fn win_shares(duels: &Duels, outcome: &[f64]) -> Matrix {
    let mut out = Matrix::zeros(duels.items(), duels.items());
    for (&(l, r), &won) in duels.pairs().iter().zip(outcome) {
        (out[(l, r)], out[(r, l)]) = (won, 1.0 - won);
    }
    out
}

/// Returns the outcomes of the pairs under a random order of the items.
fn random_ranking_outcomes(duels: &Duels, random: &mut Random) -> Vec<f64> {
    let mut rank: Vec<usize> = (0..duels.items()).collect();
    rank.shuffle(random);
    duels.pairs().iter().map(|&(l, r)| f64::from(u8::from(rank[l] < rank[r]))).collect()
}

/// The largest number of coins of a pair that are drawn one by one.
const MAX_COINS: f64 = 4096.0;

/// Returns the outcomes of the pairs if a fair coin decided each duel. The number of a pair's duels is its
/// rounded weight, at least 1.
fn coin_flip_outcomes(duels: &Duels, random: &mut Random) -> Vec<f64> {
    let win_share = |&weight: &f64| {
        let count = weight.round().max(1.0);
        if count > MAX_COINS {
            // The normal approximation of the binomial distribution.
            let z: f64 = random.sample(StandardNormal);
            return (0.5 + 0.5 * z / count.sqrt()).clamp(0.0, 1.0);
        }
        let count = count as u64;
        let won = (0..count).filter(|_| random.random::<bool>()).count();
        won as f64 / count as f64
    };
    duels.weight().iter().map(win_share).collect()
}

/// Returns the SpecR index `1 - [H(λ(L), {0 … N-1}) + H(deg⁺, {0 … N-1})] / 2(N-1)` of a matrix A (N × N) of
/// shares of wins. H is the Hausdorff distance, deg⁺ are the row sums of A, `L = diag(deg⁺) - A`, and λ are
/// its eigenvalues (Cameron, Langville and Smith 2020). Cost about 10 N³.
///
/// # Errors
/// As [`eigenvalues`].
pub fn spec_r(wins: &Matrix) -> Result<f64> {
    let n = wins.rows();
    let degrees: Vec<f64> = (0..n).map(|i| wins.row(i).iter().sum()).collect();
    let mut laplacian = wins.clone();
    laplacian.map_in_place(|v| -v);
    laplacian.add_diagonal(|i| degrees[i]);
    let perfect_ranking: Vec<(f64, f64)> = (0..n).map(|i| (i as f64, 0.0)).collect();
    let degrees: Vec<(f64, f64)> = degrees.into_iter().map(|d| (d, 0.0)).collect();
    let distance =
        hausdorff(&eigenvalues(&laplacian)?, &perfect_ranking) + hausdorff(&degrees, &perfect_ranking);
    Ok(1.0 - distance / (2.0 * (n as f64 - 1.0)))
}

/// Returns the Hausdorff distance of two sets of complex numbers: the largest distance of a number in either
/// set from the other set.
fn hausdorff(a: &[(f64, f64)], b: &[(f64, f64)]) -> f64 {
    let largest_distance = |from: &[(f64, f64)], to: &[(f64, f64)]| {
        let nearest =
            |p: &(f64, f64)| to.iter().map(|q| (p.0 - q.0).hypot(p.1 - q.1)).fold(f64::INFINITY, f64::min);
        from.iter().map(nearest).fold(0.0, f64::max)
    };
    largest_distance(a, b).max(largest_distance(b, a))
}

/// Returns the clustering coefficient (Watts and Strogatz 1998), averaged over items: the share of pairs of
/// an item's opponents that were compared with each other. It is 0 for an item with fewer than two opponents.
/// Cost O(Σ degree²).
pub fn average_clustering(duels: &Duels) -> f64 {
    let neighbours = duels.neighbours();
    let opponents: Vec<Vec<usize>> = (0..duels.items())
        .map(|item| {
            let mut ends = neighbours.ends(item).to_vec();
            ends.sort_unstable();
            ends
        })
        .collect();
    let clustering_of = |neighbours: &Vec<usize>| {
        let k = neighbours.len();
        if k < 2 {
            return 0.0;
        }
        let n_compared = |a: usize| {
            neighbours[a + 1..].iter().filter(|c| opponents[neighbours[a]].binary_search(c).is_ok()).count()
        };
        2.0 * (0..k).map(n_compared).sum::<usize>() as f64 / (k * (k - 1)) as f64
    };
    opponents.iter().map(clustering_of).sum::<f64>() / duels.items() as f64
}

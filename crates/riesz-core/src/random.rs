//! Random numbers, which depend on a seed only and are the same on every machine.
//!
//! The generator is xoshiro256++ (Blackman and Vigna 2021). Unlike rand's standard generator, it will not
//! change between versions. Positions and orders are drawn by rand, as 32-bit numbers wherever they fit, so
//! that 32-bit and 64-bit machines agree.

pub use rand::seq::{SliceRandom, index};
pub use rand::{Rng, RngExt, SeedableRng};
pub use rand_distr::{Exp1, StandardNormal, StudentT};
use rand_xoshiro::SplitMix64;

/// The generator; create it with `Random::seed_from_u64`.
pub type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// Draws `count` of the numbers below n without replacement, in ascending order.
pub fn sorted_sample(n: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut drawn = index::sample(&mut Random::seed_from_u64(seed), n, count).into_vec();
    drawn.sort_unstable();
    drawn
}

/// A hash of `numbers` and their order: each number is mixed in by SplitMix64's seeding (Steele, Lea and
/// Flood 2014).
pub fn hash(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0x243F_6A88_85A3_08D3, |h, n| SplitMix64::seed_from_u64(h ^ n).next_u64())
}

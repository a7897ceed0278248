//! Random numbers: they follow from a seed, and are the same on every machine.
//!
//! The generator is xoshiro256++ (Blackman and Vigna 2021), which will not change, unlike rand's standard
//! one. Positions and orders are rand's, which draws them as 32 bits wherever they fit, so that 32- and
//! 64-bit machines agree.

pub(crate) use rand::seq::{SliceRandom, index};
pub(crate) use rand::{Rng, RngExt, SeedableRng};
pub(crate) use rand_distr::{Exp1, StandardNormal, StudentT};
use rand_xoshiro::SplitMix64;

/// The generator, made by `Random::seed_from_u64`.
pub(crate) type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// A number that depends on all of `numbers` and their order: each is mixed in by what SplitMix64 (Steele,
/// Lea and Flood 2014) does to a seed.
pub(crate) fn hash(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0x243F_6A88_85A3_08D3, |h, n| SplitMix64::seed_from_u64(h ^ n).next_u64())
}

//! The coalitions of which one player's Shapley value is a weighted sum: all of them, or a sample.
//!
//! The value is the mean of what the player adds to a set S of the others, drawn with
//! `p(S) = 1/(d C(d-1, |S|))`: every size alike, and every set of a size alike. A sample takes each size's
//! share of the sets, without replacement and each with its complement, so that it is unbiased and grows into
//! the whole. Nobody and everybody, whose values are known, are not among the coalitions; they weigh `-1/d`
//! and `1/d`.

use super::sampled_shapley::{Budget, Coalition, SizeStratum, definition_weight};
use crate::error::{Error, Result};

/// Players up to which all coalitions are taken, whatever the budget.
const MOST_PLAYERS: usize = 16;

/// Whether all coalitions are taken.
pub(crate) fn uses_all_coalitions(players: usize, budget: &Budget) -> bool {
    players <= MOST_PLAYERS || players < 60 && (1_usize << players) - 2 <= budget.coalitions
}

/// The coalitions, with their weights in the value of `player`.
///
/// # Errors
/// [`Error::Parameter`] for a budget that does not hold a pair of each size.
pub(crate) fn weighted_coalitions(
    players: usize,
    player: usize,
    budget: &Budget,
) -> Result<Vec<(Coalition, f64)>> {
    if uses_all_coalitions(players, budget) {
        let all = (1..(1_usize << players) - 1).map(|mask| {
            let coalition = Coalition::new((0..players).map(|j| mask >> j & 1 == 1).collect());
            let weight = definition_weight(&coalition, player);
            (coalition, weight)
        });
        return Ok(all.collect());
    }
    let others = players - 1;
    let strata: Vec<SizeStratum> =
        (1..=others / 2).map(|size| SizeStratum::new(size, others, budget.seed)).collect();
    // The player alone and everybody else, then four coalitions for each pair: with and without the player.
    let smallest = 2 + 4 * strata.len();
    if budget.coalitions < smallest {
        let allowed = format!("a value among {players} players takes at least {smallest}");
        return Err(Error::parameter("coalitions", budget.coalitions, allowed));
    }
    let share = 1.0 / players as f64;
    let only = |on: bool| Coalition::new((0..players).map(|j| (j == player) == on).collect());
    let mut all = vec![(only(true), share), (only(false), -share)];
    // Pairs of half the others are of one size, all other pairs of two.
    let sizes = |stratum: &SizeStratum| if 2 * stratum.size == others { 1.0 } else { 2.0 };
    let mut left = (budget.coalitions - 2) / 4;
    let mut mass: f64 = strata.iter().map(sizes).sum();
    let numbers = strata.iter().enumerate().map(|(t, stratum)| {
        // Every size that is still to come keeps a pair.
        let free = left - (strata.len() - t);
        let number = (1 + (free as f64 * sizes(stratum) / mass) as usize).min(stratum.count);
        left -= number;
        mass -= sizes(stratum);
        number
    });
    let numbers: Vec<usize> = numbers.collect();
    for (mut stratum, number) in strata.into_iter().zip(numbers) {
        let weight = share * sizes(&stratum) / (2 * number) as f64;
        for set in stratum.draw(number) {
            for set in [set.clone(), set.complement()] {
                for (on, weight) in [(true, weight), (false, -weight)] {
                    let mut present = set.present().to_vec();
                    present.insert(player, on);
                    all.push((Coalition::new(present), weight));
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn budget(coalitions: usize, seed: u64) -> Budget {
        Budget { coalitions, std_error: None, seed }
    }

    #[test]
    fn weights_are_those_of_the_value_on_average() {
        let (players, player) = (17, 5);
        let all = weighted_coalitions(players, player, &budget(1 << 17, 0)).unwrap();
        assert_eq!(all.len(), (1 << 17) - 2);
        // With almost all coalitions, those of sizes that are taken whole weigh what they do in the value.
        let most: HashMap<Coalition, f64> =
            weighted_coalitions(players, player, &budget(131_000, 1)).unwrap().into_iter().collect();
        for (coalition, weight) in &all {
            let size = coalition.present().iter().filter(|on| **on).count();
            if !(6..=11).contains(&size) {
                assert!((most[coalition] - weight).abs() < 1e-15, "{size}");
            }
        }
        for coalitions in [34, 100, 4096] {
            let some = weighted_coalitions(players, player, &budget(coalitions, 2)).unwrap();
            assert!(some.len() <= coalitions && some.len() + 40 > coalitions, "{coalitions} {}", some.len());
            let of = |on: bool| some.iter().filter(move |(s, _)| s.present()[player] == on);
            assert!(of(true).all(|(_, w)| *w > 0.0) && of(false).all(|(_, w)| *w < 0.0));
            // Together with nobody and everybody, additions of the player and of nobody else count 1.
            let total: f64 = 1.0 / 17.0 + of(true).map(|(_, w)| w).sum::<f64>();
            assert!((total - 1.0).abs() < 1e-12);
            for other in (0..players).filter(|j| *j != player) {
                let credit: f64 = some.iter().filter(|(s, _)| s.present()[other]).map(|(_, w)| w).sum();
                assert!((credit + 1.0 / 17.0).abs() < 1e-12, "{other}");
            }
        }
        assert!(weighted_coalitions(players, player, &budget(33, 0)).is_err());
    }
}

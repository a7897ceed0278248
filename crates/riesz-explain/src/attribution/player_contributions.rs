//! Coalitions of which one player's Shapley value is a weighted sum: all of them, or a sample.
//!
//! Among d players, the value of a player is the mean of its contributions to random sets S of the other
//! players, drawn with the probability `p(S) = 1/(d C(d-1, |S|))`. Every size is equally likely, and so is
//! every set of a size. A sample draws each size's share of the sets without replacement, each set with its
//! complement. It is therefore unbiased, and a growing sample ends with all sets. The empty and the grand
//! coalition, whose values are known, are not included; they have the weights `-1/d` and `1/d`.

use super::sampled_shapley::{Budget, Coalition, SizeStratum, definition_weight};
use crate::error::{Error, Result};

/// Largest number of players for which all coalitions are used, for any budget.
const MOST_PLAYERS: usize = 16;

/// Whether all coalitions are used.
pub(crate) fn uses_all_coalitions(players: usize, budget: &Budget) -> bool {
    players <= MOST_PLAYERS || players < 60 && (1_usize << players) - 2 <= budget.coalitions
}

/// Coalitions with their weights in the value of `player`.
///
/// # Errors
/// [`Error::Parameter`] for a budget that is too small for a pair of each size.
pub(crate) fn weighted_coalitions(
    players: usize,
    player: usize,
    budget: &Budget,
) -> Result<Vec<(Coalition, f64)>> {
    if uses_all_coalitions(players, budget) {
        let coalitions = (1..(1_usize << players) - 1).map(|mask| {
            let coalition = Coalition::from_mask(mask, players);
            let weight = definition_weight(&coalition, player);
            (coalition, weight)
        });
        return Ok(coalitions.collect());
    }
    let remaining = players - 1;
    let strata: Vec<SizeStratum> =
        (1..=remaining / 2).map(|size| SizeStratum::new(size, remaining, budget.seed)).collect();
    // The player alone and all other players, then four coalitions for each pair: with and without the
    // player.
    let smallest = 2 + 4 * strata.len();
    if budget.coalitions < smallest {
        let allowed = format!("a value among {players} features takes at least {smallest}");
        return Err(Error::parameter("n_coalitions", budget.coalitions, allowed));
    }
    let share = 1.0 / players as f64;
    let only = |on: bool| Coalition::new((0..players).map(|j| (j == player) == on).collect());
    let mut coalitions = vec![(only(true), share), (only(false), -share)];
    // A pair of complementary halves covers one size, every other pair covers two.
    let sizes = |stratum: &SizeStratum| if 2 * stratum.size == remaining { 1.0 } else { 2.0 };
    let mut remaining_pairs = (budget.coalitions - 2) / 4;
    let mut mass: f64 = strata.iter().map(sizes).sum();
    let numbers = strata.iter().enumerate().map(|(t, stratum)| {
        // Every remaining size keeps a pair.
        let available = remaining_pairs - (strata.len() - t);
        let number = (1 + (available as f64 * sizes(stratum) / mass) as usize).min(stratum.count);
        remaining_pairs -= number;
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
                    coalitions.push((Coalition::new(present), weight));
                }
            }
        }
    }
    Ok(coalitions)
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
        let exact = weighted_coalitions(players, player, &budget(1 << 17, 0)).unwrap();
        assert_eq!(exact.len(), (1 << 17) - 2);
        // With almost all coalitions, sizes that are taken completely have the weights of the exact value.
        let nearly_all: HashMap<Coalition, f64> =
            weighted_coalitions(players, player, &budget(131_000, 1)).unwrap().into_iter().collect();
        for (coalition, weight) in &exact {
            let size = coalition.present().iter().filter(|on| **on).count();
            if !(6..=11).contains(&size) {
                assert!((nearly_all[coalition] - weight).abs() < 1e-15, "{size}");
            }
        }
        for coalitions in [34, 100, 4096] {
            let sampled = weighted_coalitions(players, player, &budget(coalitions, 2)).unwrap();
            assert!(
                sampled.len() <= coalitions && sampled.len() + 40 > coalitions,
                "{coalitions} {}",
                sampled.len()
            );
            let with_player = |on: bool| sampled.iter().filter(move |(s, _)| s.present()[player] == on);
            assert!(with_player(true).all(|(_, w)| *w > 0.0) && with_player(false).all(|(_, w)| *w < 0.0));
            // With the empty and the grand coalition, the weights with the player sum to 1, and those with
            // any other player to 0.
            let total: f64 = 1.0 / 17.0 + with_player(true).map(|(_, w)| w).sum::<f64>();
            assert!((total - 1.0).abs() < 1e-12);
            for other in (0..players).filter(|j| *j != player) {
                let credit: f64 = sampled.iter().filter(|(s, _)| s.present()[other]).map(|(_, w)| w).sum();
                assert!((credit + 1.0 / 17.0).abs() < 1e-12, "{other}");
            }
        }
        assert!(weighted_coalitions(players, player, &budget(33, 0)).is_err());
    }
}

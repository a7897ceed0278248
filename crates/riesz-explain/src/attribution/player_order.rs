//! Asymmetric Shapley values: averages over the orders of players in which the groups of an ordering follow
//! one another, such as causes before their effects.
//!
//! A player of a group is averaged over the coalitions of all earlier groups and any other players of its own
//! group. Within a group the values are therefore the Shapley values of the game of its players in which
//! earlier groups are always present and later groups always absent. Source: Frye, Rowat and Feige 2020.

use super::sampled_shapley::{
    Budget, Coalition, CoalitionGame, CoalitionRegression, CoalitionValues, Solution, solve_from,
};
use crate::error::{Error, Result, listed};
use crate::model_card::CardEntry;
use crate::table::Players;

/// A group of players of an ordering.
pub(crate) struct OrderedGroup {
    /// The players of the group, ascending.
    pub(crate) members: Vec<usize>,
    /// For each player, whether it belongs to an earlier group.
    earlier: Vec<bool>,
}

/// The groups of an ordering, by name; one group of all players for an empty ordering.
///
/// # Errors
/// [`Error::Parameter`] for an unknown player, for a player in two groups or in none, and for an empty group.
pub(crate) fn ordered_groups(ordering: &[Vec<String>], players: &Players) -> Result<Vec<OrderedGroup>> {
    let names: Vec<&String> = players.players().iter().map(|player| &player.name).collect();
    if ordering.is_empty() {
        let earlier = vec![false; names.len()];
        return Ok(vec![OrderedGroup { members: (0..names.len()).collect(), earlier }]);
    }
    let mut seen = vec![false; names.len()];
    let mut groups = Vec::with_capacity(ordering.len());
    for group in ordering {
        let (earlier, mut members) = (seen.clone(), Vec::with_capacity(group.len()));
        for name in group {
            let Some(player) = names.iter().position(|known| *known == name) else {
                let allowed = format!("it is a feature; the features are {}", listed(names.iter()));
                return Err(Error::parameter("ordering", format!("'{name}'"), allowed));
            };
            if std::mem::replace(&mut seen[player], true) {
                let allowed = "a feature belongs to one group of the ordering only";
                return Err(Error::parameter("ordering", format!("'{name}'"), allowed));
            }
            members.push(player);
        }
        if members.is_empty() {
            return Err(Error::parameter("ordering", "[]", "a group of the ordering has a feature"));
        }
        members.sort_unstable();
        groups.push(OrderedGroup { members, earlier });
    }
    if let Some(player) = seen.iter().position(|seen| !seen) {
        let allowed = "every feature belongs to a group of the ordering: add it to one";
        return Err(Error::parameter("ordering", format!("a list without '{}'", names[player]), allowed));
    }
    Ok(groups)
}

/// The entry of a provenance for asymmetric values; none for a single group.
pub(crate) fn ordering_entry(ordering: &[OrderedGroup], players: &Players) -> Option<CardEntry> {
    let group_names = |group: &OrderedGroup| {
        let names = group.members.iter().map(|&player| players.players()[player].name.as_str());
        names.collect::<Vec<&str>>().join(", ")
    };
    let groups: Vec<String> = ordering.iter().map(group_names).collect();
    (groups.len() > 1).then(|| CardEntry::new("asymmetric, in the order", groups.join("; ")))
}

impl OrderedGroup {
    /// Shapley values of the group's players, as [`solve_from`] computes them.
    pub(crate) fn solve<G: CoalitionGame>(
        &self,
        game: &mut G,
        budget: Budget,
        stored: &mut Option<CoalitionRegression>,
    ) -> Result<Solution, G::Error> {
        if self.members.len() == game.players() {
            return solve_from(game, budget, stored);
        }
        solve_from(&mut GroupGame { game, group: self }, budget, stored)
    }

    /// A coalition of the group's players, with all players of earlier groups.
    fn extended(&self, coalition: &[bool]) -> Coalition {
        let mut present = self.earlier.clone();
        self.members.iter().zip(coalition).for_each(|(&player, on)| present[player] = *on);
        Coalition::new(present)
    }
}

/// The game of a group's players.
struct GroupGame<'g, G> {
    game: &'g mut G,
    group: &'g OrderedGroup,
}

impl<G: CoalitionGame> CoalitionGame for GroupGame<'_, G> {
    type Error = G::Error;

    fn players(&self) -> usize {
        self.group.members.len()
    }

    fn empty_and_grand_values(&mut self) -> Result<[Vec<f64>; 2], G::Error> {
        let [empty, grand] = self.game.empty_and_grand_values()?;
        let mut value = |on: bool| -> Result<Vec<f64>, G::Error> {
            let coalition = self.group.extended(&vec![on; self.players()]);
            if !coalition.present().contains(&true) {
                return Ok(empty.clone());
            }
            if !coalition.present().contains(&false) {
                return Ok(grand.clone());
            }
            Ok(self.game.values(&[coalition])?.values.into_data())
        };
        Ok([value(false)?, value(true)?])
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues, G::Error> {
        let extended: Vec<Coalition> =
            coalitions.iter().map(|coalition| self.group.extended(coalition.present())).collect();
        self.game.values(&extended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::Matrix;

    /// A game that is given by a function of the coalition.
    struct FunctionGame<F>(usize, F);

    impl<F: Fn(&[bool]) -> f64> CoalitionGame for FunctionGame<F> {
        type Error = Error;

        fn players(&self) -> usize {
            self.0
        }

        fn empty_and_grand_values(&mut self) -> Result<[Vec<f64>; 2]> {
            Ok([false, true].map(|on| vec![(self.1)(&vec![on; self.0])]))
        }

        fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues> {
            let values = coalitions.iter().map(|coalition| (self.1)(coalition.present())).collect();
            Ok(Matrix::from_row_major(coalitions.len(), 1, values).into())
        }
    }

    /// Adds the marginal contributions over all orders that extend `order` by the groups after `group`.
    fn visit_orders(
        groups: &[Vec<usize>],
        group: usize,
        order: &mut Vec<usize>,
        visit: &mut dyn FnMut(&[usize]),
    ) {
        let Some(members) = groups.get(group) else { return visit(order) };
        let remaining: Vec<usize> = members.iter().copied().filter(|j| !order.contains(j)).collect();
        if remaining.is_empty() {
            return visit_orders(groups, group + 1, order, visit);
        }
        for j in remaining {
            order.push(j);
            visit_orders(groups, group, order, visit);
            order.pop();
        }
    }

    #[test]
    fn values_are_means_over_all_consistent_orders() {
        let d = 6;
        let value = |present: &[bool]| {
            let sum: f64 = (0..d).filter(|&j| present[j]).map(|j| (j as f64 + 1.0).sin()).sum();
            sum.exp() + if present[1] && !present[4] { 2.5 } else { 0.0 }
        };
        let names: Vec<String> = (0..d).map(|j| format!("x{j}")).collect();
        let players = Players::singletons(&crate::table::Column::numbered(d));
        for groups in [vec![vec![3], vec![5, 0, 1], vec![2, 4]], vec![(0..d).collect()]] {
            let (mut expected, mut count) = (vec![0.0; d], 0.0);
            visit_orders(&groups, 0, &mut Vec::new(), &mut |order| {
                let mut present = vec![false; d];
                for &j in order {
                    let before = value(&present);
                    present[j] = true;
                    expected[j] += value(&present) - before;
                }
                count += 1.0;
            });
            let ordering: Vec<Vec<String>> =
                groups.iter().map(|group| group.iter().map(|&j| names[j].clone()).collect()).collect();
            let mut game = FunctionGame(d, value);
            for group in ordered_groups(&ordering, &players).unwrap() {
                let solution = group.solve(&mut game, Budget::default(), &mut None).unwrap();
                for (k, &j) in group.members.iter().enumerate() {
                    let error = (solution.values[(0, k)] - expected[j] / count).abs();
                    assert!(error < 1e-12, "{groups:?}, player {j}: {error}");
                }
            }
        }
    }
}

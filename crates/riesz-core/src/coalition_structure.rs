//! Coalition structures: unions of players, and unions of unions, as in Owen values.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::table::Players;

/// A player, given by its name, or a union of players and unions. As JSON, names and lists of lists:
/// `[["s1", "s2", "s3"], ["age", "sex"]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CoalitionStructure {
    /// A player.
    Player(String),
    /// A union, given by its members.
    Of(Vec<CoalitionStructure>),
}

/// A coalition structure with players given by their indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoalitionTree {
    /// The index of a player.
    Player(usize),
    /// Players and coalitions that form a coalition.
    CoalitionStructure(Vec<CoalitionTree>),
}

impl CoalitionStructure {
    /// The tree of `unions` over all players of `groups`. Every player that no union names is a union on its
    /// own.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name that is no player's or occurs twice, and for an empty union.
    pub fn tree(unions: &[Self], groups: &Players) -> Result<CoalitionTree> {
        let mut seen = HashSet::new();
        let mut top =
            unions.iter().map(|union| union.resolve(groups, &mut seen)).collect::<Result<Vec<_>>>()?;
        top.extend((0..groups.players().len()).filter(|j| !seen.contains(j)).map(CoalitionTree::Player));
        Ok(CoalitionTree::CoalitionStructure(top))
    }

    fn resolve(&self, groups: &Players, seen: &mut HashSet<usize>) -> Result<CoalitionTree> {
        match self {
            Self::Player(name) => {
                let player = groups.players().iter().position(|p| p.name == *name);
                let Some(player) = player else {
                    let names: Vec<&str> =
                        groups.players().iter().take(10).map(|p| p.name.as_str()).collect();
                    let allowed = format!("unions consist of features, such as {}", names.join(", "));
                    return Err(Error::parameter("unions", format!("'{name}'"), allowed));
                };
                if !seen.insert(player) {
                    return Err(Error::parameter(
                        "unions",
                        format!("'{name}'"),
                        "a feature belongs to one union only",
                    ));
                }
                Ok(CoalitionTree::Player(player))
            }
            Self::Of(members) if members.is_empty() => {
                Err(Error::parameter("unions", "[]", "a union needs at least one member"))
            }
            Self::Of(members) => {
                let subtrees = members.iter().map(|member| member.resolve(groups, seen));
                Ok(CoalitionTree::CoalitionStructure(subtrees.collect::<Result<_>>()?))
            }
        }
    }
}

impl CoalitionTree {
    /// The tree restricted to the players for which `active` returns a position; `None` if there are none.
    pub fn restricted(&self, active: &dyn Fn(usize) -> Option<usize>) -> Option<Self> {
        match self {
            Self::Player(player) => active(*player).map(Self::Player),
            Self::CoalitionStructure(members) => {
                let mut subtrees: Vec<Self> =
                    members.iter().filter_map(|member| member.restricted(active)).collect();
                // A union of one member is replaced by the member.
                if subtrees.len() > 1 { Some(Self::CoalitionStructure(subtrees)) } else { subtrees.pop() }
            }
        }
    }

    /// The players as a bit set; for at most as many players as a `usize` has bits.
    pub fn bits(&self) -> usize {
        match self {
            Self::Player(player) => 1 << player,
            Self::CoalitionStructure(members) => {
                members.iter().fold(0, |union, member| union | member.bits())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    #[test]
    fn unions_are_of_players() {
        let columns: Vec<Column> = ["a", "b", "c", "d"].map(Column::numeric).into();
        let groups = Players::singletons(&columns);
        let parse = |text: &str| {
            CoalitionStructure::tree(&serde_json::from_str::<Vec<CoalitionStructure>>(text).unwrap(), &groups)
        };
        let player = CoalitionTree::Player;
        let tree = parse(r#"[["c", ["a", "d"]]]"#).unwrap();
        let inner = CoalitionTree::CoalitionStructure(vec![player(0), player(3)]);
        assert_eq!(
            tree,
            CoalitionTree::CoalitionStructure(vec![
                CoalitionTree::CoalitionStructure(vec![player(2), inner]),
                player(1)
            ])
        );
        assert_eq!(
            tree.restricted(&|j| (j == 3 || j == 1).then_some(j / 2)),
            Some(CoalitionTree::CoalitionStructure(vec![player(1), player(0)]))
        );
        assert_eq!(tree.restricted(&|_| None), None);
        for (text, word) in [(r#"["x"]"#, "'x'"), (r#"[["a", "a"]]"#, "one union"), ("[[]]", "member")] {
            assert!(parse(text).unwrap_err().to_string().contains(word), "{text}");
        }
    }
}

//! Side effects of duels: playing at home, and the identity of an item in addition to its columns. Both
//! become further columns of the items, so that a model of duels needs no special case. An item that played
//! at home and away has two rows in the table to which the model is fitted.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result, sized};
use crate::kernel::{Categorical, Kernel, Linear};
use crate::table::{Column, ColumnKind, Table, UNKNOWN_LEVEL};

/// The initial variance of a further utility in tuning, in squared log odds.
const VARIANCE: f64 = 2.25;

/// The column that is 1 for the item at home.
pub const HOME: &str = "home";
/// The column of the item's name, on which its ability depends.
pub const ABILITY: &str = "ability";
/// The level of the right item if the model was not fitted to it; that of the left item is [`UNKNOWN_LEVEL`].
/// The two levels differ.
pub const UNSEEN_RIGHT: &str = "(unseen, right)";

/// The side that is at home in a duel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeSide {
    /// The left side.
    Left,
    /// The right side.
    Right,
    /// Neither side.
    Nobody,
}

/// Duels between rows of a table of items, with columns for side effects.
#[derive(Debug, Clone, PartialEq)]
pub struct DuelEntries {
    /// The items' columns, then [`HOME`] and [`ABILITY`]; one row per item and role (at home or not) that
    /// occurs.
    pub table: Table,
    /// For each duel, the row on the left.
    pub left: Vec<usize>,
    /// For each duel, the row on the right.
    pub right: Vec<usize>,
    /// The kernel of the further utilities, `s_h² home home' + s_id² δ(id, id')`: the advantage of being at
    /// home, and ability that the items' columns do not explain (random effects, as in Bradley and Terry's
    /// model). `None` without home and names.
    pub extra_utility_kernel: Option<Kernel>,
}

/// Returns the rows of duels with sides at `home`, or with `names` of the items (one per item). Without both,
/// the items stay as they are.
///
/// # Errors
/// [`Error::Shape`]; [`Error::Parameter`] for an item that does not exist or meets itself, for a repeated
/// name, and if the duels do not determine the advantage of being at home: no duel has a side at home, or the
/// side at home won all or lost all of them; the errors of a table with equal column names.
pub fn prepare_entries(
    items: &Table,
    (left, right): (&[usize], &[usize]),
    outcome: &[f64],
    home: Option<&[HomeSide]>,
    names: Option<&[String]>,
) -> Result<DuelEntries> {
    let lengths = [("right", left.len(), right.len(), "one per duel")]
        .into_iter()
        .chain(home.map(|h| ("home", left.len(), h.len(), "one per duel")))
        .chain(names.map(|n| ("the list of names", items.rows(), n.len(), "one per item")));
    for (list, expected, length, why) in lengths {
        sized(list, "entries", expected, length, why)?;
    }
    for (i, (l, r)) in left.iter().zip(right).enumerate() {
        let allowed = match l.max(r) {
            larger if *larger >= items.rows() => format!("there are {} items, numbered from 0", items.rows()),
            _ if l == r => "an item that meets itself gives no information: leave the duel out".into(),
            _ => continue,
        };
        return Err(Error::parameter(format!("item of duel {}", i + 1), l.max(r), allowed));
    }
    if let Some(home) = home {
        home_is_informative(home, outcome)?;
    }
    let mut taken_names = BTreeSet::from([UNKNOWN_LEVEL, UNSEEN_RIGHT]);
    if let Some(repeated_name) = names.and_then(|names| names.iter().find(|name| !taken_names.insert(name))) {
        let allowed =
            format!("each item needs a name of its own, other than {UNKNOWN_LEVEL} and {UNSEEN_RIGHT}");
        return Err(Error::parameter("name of an item", repeated_name, allowed));
    }
    let is_home = |i: usize, side: HomeSide| home.is_some_and(|home| home[i] == side);
    if home.is_none() && names.is_none() {
        let (left, right) = (left.to_vec(), right.to_vec());
        return Ok(DuelEntries { table: items.clone(), left, right, extra_utility_kernel: None });
    }
    let roles = |side_items: &[usize], side: HomeSide| -> Vec<(usize, bool)> {
        side_items.iter().enumerate().map(|(i, item)| (*item, is_home(i, side))).collect()
    };
    let (left, right) = (roles(left, HomeSide::Left), roles(right, HomeSide::Right));
    let distinct: BTreeSet<(usize, bool)> = left.iter().chain(&right).copied().collect();
    let row_of_role: BTreeMap<(usize, bool), usize> = distinct.into_iter().zip(0..).collect();
    let item_of_row: Vec<usize> = row_of_role.keys().map(|(item, _)| *item).collect();
    let item_rows = items.select_rows(&item_of_row);
    let mut columns = items.columns().to_vec();
    let mut values = item_rows.column_major().to_vec();
    let mut extra_kernels: Vec<Kernel> = Vec::new();
    if home.is_some() {
        let column = columns.len();
        let linear = Linear { columns: vec![column], center: vec![0.0], scale: vec![1.0] };
        extra_kernels.push(VARIANCE * Kernel::from(linear));
        columns.push(Column::numeric(HOME));
        values.extend(row_of_role.keys().map(|(_, home)| f64::from(u8::from(*home))));
    }
    if let Some(names) = names {
        let column = columns.len();
        extra_kernels.push(VARIANCE * Kernel::from(Categorical { columns: [column], similarity: 0.0 }));
        let mut levels = names.to_vec();
        levels.extend([UNKNOWN_LEVEL, UNSEEN_RIGHT].map(String::from));
        columns.push(Column { name: ABILITY.into(), kind: ColumnKind::Categorical { levels } });
        values.extend(item_of_row.iter().map(|&item| item as f64));
    }
    let rows_of = |roles: &[(usize, bool)]| roles.iter().map(|role| row_of_role[role]).collect();
    Ok(DuelEntries {
        table: Table::from_column_major(columns, item_of_row.len(), values)?,
        left: rows_of(&left),
        right: rows_of(&right),
        extra_utility_kernel: extra_kernels.into_iter().reduce(|a, b| a + b),
    })
}

/// Checks that the duels determine the advantage of playing at home.
fn home_is_informative(home: &[HomeSide], outcome: &[f64]) -> Result<()> {
    let home_outcome = |(home, outcome): (&HomeSide, &f64)| match home {
        HomeSide::Left => Some(*outcome),
        HomeSide::Right => Some(1.0 - outcome),
        HomeSide::Nobody => None,
    };
    let home_outcomes: Vec<f64> = home.iter().zip(outcome).filter_map(home_outcome).collect();
    let all_equal = |value: f64| home_outcomes.iter().all(|outcome| *outcome == value);
    let (value, allowed) = match home_outcomes.len() {
        0 => (
            "nobody in all duels".to_string(),
            "an advantage of being at home needs duels with a side at home: leave it out",
        ),
        n if all_equal(1.0) || all_equal(0.0) => {
            let verb = if all_equal(1.0) { "won" } else { "lost" };
            let allowed = "duels that all end the same way do not determine the advantage of being at home: \
                           leave it out";
            (format!("a side that {verb} all {n} duels"), allowed)
        }
        _ => return Ok(()),
    };
    Err(Error::parameter(HOME, value, allowed))
}

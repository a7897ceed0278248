//! Explained duels by what tells their items apart: one column a property, for plots that colour by it and
//! labels that name it.

use std::collections::BTreeSet;

use super::left_right_columns::LeftRightColumns;
use crate::error::Result;
use crate::explanation::Explanation;
use crate::table::{Column, ColumnKind, Player, Table};

/// What is added to the name of a column whose numbers are differences.
const DIFFERENCE_SUFFIX: &str = ", left − right";

/// The same explanation, whose data are the differences of the items: the left item's number less the right
/// one's, under the column's name and `, left − right`; for categories `left / right`; and the contexts as
/// they are.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter) for rows that are no duels.
pub fn differences(explanation: &Explanation) -> Result<Explanation> {
    let data = &explanation.data;
    let sides = LeftRightColumns::of(data.columns())?;
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    // Of each old column the new one.
    let mut place = vec![0; data.width()];
    let items = sides.items(data.columns());
    for ((mut column, &l), &r) in items.into_iter().zip(&sides.left).zip(&sides.right) {
        (place[l], place[r]) = (columns.len(), columns.len());
        let both = || data.column(l).iter().zip(data.column(r));
        match &column.kind {
            ColumnKind::Numeric => {
                // It would look like a number of one item.
                column.name += DIFFERENCE_SUFFIX;
                values.extend(both().map(|(l, r)| l - r));
            }
            ColumnKind::Categorical { levels } => {
                let name =
                    |(l, r): (&f64, &f64)| format!("{} / {}", levels[*l as usize], levels[*r as usize]);
                let met: BTreeSet<String> = both().map(name).collect();
                let met: Vec<String> = met.into_iter().collect();
                let code = |own: String| met.binary_search(&own).map_or(0.0, |at| at as f64);
                values.extend(both().map(name).map(code));
                column.kind = ColumnKind::Categorical { levels: met };
            }
        }
        columns.push(column);
    }
    for &j in &sides.contexts {
        place[j] = columns.len();
        columns.push(Column { ..data.columns()[j].clone() });
        values.extend(data.column(j));
    }
    let players = explanation.players.iter().map(|player| {
        let columns: BTreeSet<usize> = player.columns.iter().map(|&j| place[j]).collect();
        Player { name: player.name.clone(), columns: columns.into_iter().collect() }
    });
    let players = players.collect();
    let data = Table::from_column_major(columns, data.rows(), values)?;
    Ok(Explanation { players, data, ..explanation.clone() })
}

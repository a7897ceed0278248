//! Explained duels as differences of their items: one column per property, for the colours and labels of
//! plots.

use std::collections::BTreeSet;

use super::left_right_columns::LeftRightColumns;
use crate::error::Result;
use crate::explanation::Explanation;
use crate::table::{Column, ColumnKind, Player, Table};

/// The suffix of the names of columns whose numbers are differences.
const DIFFERENCE_SUFFIX: &str = ", left − right";

/// Returns the explanation with the differences of the items as data. A numeric column has the left item's
/// number minus the right one's, and its name has the suffix `, left − right`; a categorical column has
/// `left / right`. Contexts are unchanged.
///
/// # Errors
/// [`Error::Parameter`](crate::Error::Parameter) if the rows are not duels.
pub fn differences(explanation: &Explanation) -> Result<Explanation> {
    let data = &explanation.data;
    let sides = LeftRightColumns::from_columns(data.columns())?;
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    // For each old column, the index of the new one.
    let mut new_column = vec![0; data.width()];
    let items = sides.items(data.columns());
    for ((mut column, &l), &r) in items.into_iter().zip(&sides.left).zip(&sides.right) {
        (new_column[l], new_column[r]) = (columns.len(), columns.len());
        let both_sides = || data.column(l).iter().zip(data.column(r));
        match &column.kind {
            ColumnKind::Numeric => {
                // Without the suffix the number would look like that of one item.
                column.name += DIFFERENCE_SUFFIX;
                values.extend(both_sides().map(|(l, r)| l - r));
            }
            ColumnKind::Categorical { levels } => {
                let name =
                    |(l, r): (&f64, &f64)| format!("{} / {}", levels[*l as usize], levels[*r as usize]);
                let labels: BTreeSet<String> = both_sides().map(name).collect();
                let labels: Vec<String> = labels.into_iter().collect();
                let code = |label: String| labels.binary_search(&label).map_or(0.0, |index| index as f64);
                values.extend(both_sides().map(name).map(code));
                column.kind = ColumnKind::Categorical { levels: labels };
            }
        }
        columns.push(column);
    }
    for &j in &sides.contexts {
        new_column[j] = columns.len();
        columns.push(Column { ..data.columns()[j].clone() });
        values.extend(data.column(j));
    }
    let players = explanation.players.iter().map(|player| {
        let columns: BTreeSet<usize> = player.columns.iter().map(|&j| new_column[j]).collect();
        Player { name: player.name.clone(), columns: columns.into_iter().collect() }
    });
    let players = players.collect();
    let data = Table::from_column_major(columns, data.rows(), values)?;
    Ok(Explanation { players, data, ..explanation.clone() })
}

//! A component along its columns: places, and what it is there, as it is drawn and written down.

use super::components::Components;
use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::posterior::Posterior;
use crate::table::{ColumnKind, Table};

/// Places along a column that stands alone, and along each of two.
const CURVE_POINTS: usize = 101;
const SURFACE_POINTS: usize = 41;

/// Rows of which posterior variances are found together.
const TOGETHER: usize = 256;

/// A [component](Components) of one or two columns, along them.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Whose component it is: one player, or two.
    pub players: Vec<String>,
    /// One column, or two.
    pub axes: Vec<Axis>,
    /// The model's outputs.
    pub output_names: Vec<String>,
    /// Places × outputs, where the last axis runs fastest: first the values at the first place of the first
    /// axis and all places of the second.
    pub values: Matrix,
    /// Posterior standard deviations in the same shape, of a model with a posterior.
    pub sd: Option<Matrix>,
}

/// Places along a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The column's name.
    pub column: String,
    /// Ascending: all that the table has, if they are few; else evenly spaced over its range. Of a
    /// categorical column, codes.
    pub at: Vec<f64>,
    /// Their names, of a categorical column.
    pub levels: Option<Vec<String>>,
}

impl Axis {
    fn new(table: &Table, j: usize, most: usize) -> Self {
        let mut at = table.column(j).to_vec();
        at.sort_by(f64::total_cmp);
        at.dedup();
        let column = &table.columns()[j];
        let levels = match &column.kind {
            ColumnKind::Categorical { .. } => Some(at.iter().map(|v| column.format(*v)).collect()),
            ColumnKind::Numeric => None,
        };
        if let (None, [low, .., high]) = (&levels, &at[..])
            && at.len() > most / 4
        {
            let (low, high) = (*low, *high);
            let place = |k: usize| {
                let share = k as f64 / (most - 1) as f64;
                low * (1.0 - share) + high * share
            };
            at = (0..most).map(place).collect();
        }
        Self { column: column.name.clone(), at, levels }
    }
}

impl Components<'_> {
    /// The component of a set of players, ascending, along its columns, over the range that these have in
    /// `table`; with its posterior standard deviations if there is a `posterior`.
    ///
    /// # Errors
    /// As [`at`](Self::at); [`Error::Parameter`] for players of no column, or of more than two together;
    /// [`Error::TooFew`] for a table without rows.
    pub fn curve_along(
        &self,
        set: &[usize],
        table: &Table,
        posterior: Option<&Posterior<'_>>,
    ) -> Result<Curve> {
        let table = table.align_to(self.model().columns())?;
        let players = set.iter().filter_map(|&j| self.players().get(j));
        let columns: Vec<usize> = players.flat_map(|player| player.columns.iter().copied()).collect();
        if columns.is_empty() || columns.len() > 2 {
            let allowed = format!(
                "features of one or two columns, which make a curve or a surface: these have {}",
                columns.len()
            );
            return Err(Error::parameter("component", format!("{set:?}"), allowed));
        }
        if table.rows() == 0 {
            return Err(Error::TooFew { what: "the table".into(), needed: 1, unit: "row is" });
        }
        let most = if columns.len() == 1 { CURVE_POINTS } else { SURFACE_POINTS };
        let axes: Vec<Axis> = columns.iter().map(|&j| Axis::new(&table, j, most)).collect();
        let count: usize = axes.iter().map(|axis| axis.at.len()).product();
        let mut values = Vec::with_capacity(count * table.width());
        for j in 0..table.width() {
            match columns.iter().position(|c| *c == j) {
                None => values.extend(std::iter::repeat_n(table.get(0, j), count)),
                Some(axis) => {
                    // Each place as often as there are places of later axes.
                    let each: usize = axes[axis + 1..].iter().map(|axis| axis.at.len()).product();
                    values.extend((0..count).map(|r| axes[axis].at[r / each % axes[axis].at.len()]));
                }
            }
        }
        let rows = Table::from_column_major(table.columns().to_vec(), count, values)?;
        let sd = posterior.map(|posterior| self.sd(set, &rows, posterior)).transpose()?;
        let players = set.iter().map(|&j| self.players()[j].name.clone()).collect();
        Ok(Curve {
            players,
            axes,
            output_names: self.model().output_names.clone(),
            values: self.at(set, &rows)?,
            sd,
        })
    }

    /// The posterior standard deviations of a component at some rows, rows × outputs.
    ///
    /// # Errors
    /// As [`functionals`](Self::functionals).
    pub fn sd(&self, set: &[usize], rows: &Table, posterior: &Posterior<'_>) -> Result<Matrix> {
        let mut sd = Matrix::zeros(rows.rows(), self.model().outputs());
        // Only variances are asked for.
        for from in (0..rows.rows()).step_by(TOGETHER) {
            let own: Vec<usize> = (from..(from + TOGETHER).min(rows.rows())).collect();
            let functionals = self.functionals(set, &rows.select_rows(&own))?;
            for (o, joint) in posterior.covariance(&functionals).iter().enumerate() {
                own.iter().enumerate().for_each(|(k, &r)| sd[(r, o)] = joint[(k, k)].max(0.0).sqrt());
            }
        }
        Ok(sd)
    }
}

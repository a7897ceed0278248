//! Curves and surfaces of components: grid points and values, for plots and tables.

use super::components::Components;
use crate::attribution::row_batches;
use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::posterior::Posterior;
use crate::table::{ColumnKind, Table};

/// The number of grid points of a curve, and of each axis of a surface.
const CURVE_POINTS: usize = 101;
const SURFACE_POINTS: usize = 41;

/// The number of rows whose posterior variances are computed together.
const BATCH_ROWS: usize = 256;

/// A [component](Components) of one or two columns on a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The names of the component's players: one or two.
    pub players: Vec<String>,
    /// The axes: one or two.
    pub axes: Vec<Axis>,
    /// The names of the model's outputs.
    pub output_names: Vec<String>,
    /// Values on the grid, grid points × outputs. The last axis varies fastest: the first rows are the first
    /// grid point of the first axis with all grid points of the second.
    pub values: Matrix,
    /// Posterior standard deviations in the same shape, if there is a posterior.
    pub sd: Option<Matrix>,
}

/// Grid points along a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The column's name.
    pub column: String,
    /// The grid, ascending: all values of the table if they are few, otherwise evenly spaced over its range.
    /// Codes for a categorical column.
    pub grid: Vec<f64>,
    /// The names of the grid points of a categorical column.
    pub levels: Option<Vec<String>>,
}

impl Axis {
    fn new(table: &Table, j: usize, max_points: usize) -> Self {
        let mut grid = table.column(j).to_vec();
        grid.sort_by(f64::total_cmp);
        grid.dedup();
        let column = &table.columns()[j];
        let levels = match &column.kind {
            ColumnKind::Categorical { .. } => Some(grid.iter().map(|v| column.format(*v)).collect()),
            ColumnKind::Numeric => None,
        };
        if let (None, [low, .., high]) = (&levels, &grid[..])
            && grid.len() > max_points / 4
        {
            let (low, high) = (*low, *high);
            let grid_point = |k: usize| {
                let share = k as f64 / (max_points - 1) as f64;
                low * (1.0 - share) + high * share
            };
            grid = (0..max_points).map(grid_point).collect();
        }
        Self { column: column.name.clone(), grid, levels }
    }
}

impl Components<'_> {
    /// Returns the component of a set of players (ascending) on a grid over the range of its columns in
    /// `table`, with posterior standard deviations if there is a `posterior`.
    ///
    /// # Errors
    /// As [`evaluate`](Self::evaluate); [`Error::Parameter`] for players with no column or more than two
    /// columns in total; [`Error::TooFew`] for a table without rows.
    pub fn curve_along(
        &self,
        set: &[usize],
        table: &Table,
        posterior: Option<&Posterior<'_>>,
    ) -> Result<Curve> {
        let table = table.align_to(self.model.columns())?;
        let players = set.iter().filter_map(|&j| self.players().get(j));
        let columns: Vec<usize> = players.flat_map(|player| player.columns.iter().copied()).collect();
        if columns.is_empty() || columns.len() > 2 {
            let allowed = format!(
                "take features of one or two columns, for a curve or a surface: these have {}",
                columns.len()
            );
            return Err(Error::parameter("component", format!("{set:?}"), allowed));
        }
        if table.rows() == 0 {
            return Err(Error::too_few("the table", 1, "row is"));
        }
        let max_points = if columns.len() == 1 { CURVE_POINTS } else { SURFACE_POINTS };
        let axes: Vec<Axis> = columns.iter().map(|&j| Axis::new(&table, j, max_points)).collect();
        let count: usize = axes.iter().map(|axis| axis.grid.len()).product();
        let mut values = Vec::with_capacity(count * table.width());
        for j in 0..table.width() {
            match columns.iter().position(|c| *c == j) {
                None => values.extend(std::iter::repeat_n(table.get(0, j), count)),
                Some(axis) => {
                    // Each grid point is repeated for all grid points of later axes.
                    let repeats: usize = axes[axis + 1..].iter().map(|axis| axis.grid.len()).product();
                    values.extend((0..count).map(|r| axes[axis].grid[r / repeats % axes[axis].grid.len()]));
                }
            }
        }
        let rows = Table::from_column_major(table.columns().to_vec(), count, values)?;
        let sd = posterior.map(|posterior| self.sd(set, &rows, posterior)).transpose()?;
        let players = set.iter().map(|&j| self.players()[j].name.clone()).collect();
        Ok(Curve {
            players,
            axes,
            output_names: self.model.output_names.clone(),
            values: self.evaluate(set, &rows)?,
            sd,
        })
    }

    /// Returns the posterior standard deviations of a component at given rows, rows × outputs.
    ///
    /// # Errors
    /// As [`functionals`](Self::functionals).
    pub fn sd(&self, set: &[usize], rows: &Table, posterior: &Posterior<'_>) -> Result<Matrix> {
        let mut sd = Matrix::zeros(rows.rows(), self.model.outputs());
        // Batches suffice, because only variances are needed.
        for batch in row_batches(rows.rows(), BATCH_ROWS) {
            let functionals = self.functionals(set, &rows.select_rows(&batch))?;
            for (o, joint) in posterior.covariance(&functionals).iter().enumerate() {
                batch.iter().enumerate().for_each(|(k, &r)| sd[(r, o)] = joint[(k, k)].max(0.0).sqrt());
            }
        }
        Ok(sd)
    }
}

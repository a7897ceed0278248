//! The columns of the left item, the right item and the contexts in a model of duels, and the check that it
//! is one.

use crate::error::{Error, Result};
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::PartDecomposition;
use crate::simd::Isa;
use crate::table::{Column, Table};

/// Where the items of a model of duels stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftRightColumns {
    /// The left item's columns.
    pub left: Vec<usize>,
    /// The right item's, in the same order.
    pub right: Vec<usize>,
    /// Columns of the contexts.
    pub contexts: Vec<usize>,
}

impl LeftRightColumns {
    /// From the names of columns: `left_x` and `right_x` are column x of the items.
    ///
    /// # Errors
    /// [`Error::Parameter`] for columns that are no wide rows of duels.
    pub fn from_columns(columns: &[Column]) -> Result<Self> {
        let place = |name: &str| columns.iter().position(|c| c.name == name);
        let mut sides = Self { left: Vec::new(), right: Vec::new(), contexts: Vec::new() };
        for (j, column) in columns.iter().enumerate() {
            let other = |from: &str, to: &str| {
                column.name.strip_prefix(from).and_then(|name| place(&format!("{to}{name}")))
            };
            match (other("left_", "right_"), other("right_", "left_")) {
                (Some(right), _) if columns[right].kind == column.kind => {
                    sides.left.push(j);
                    sides.right.push(right);
                }
                (_, Some(_)) => {}
                _ => sides.contexts.push(j),
            }
        }
        if sides.left.is_empty() {
            let allowed = "a model of duels has columns left_x and right_x for each column x of the items";
            return Err(Error::parameter("model", "without items", allowed));
        }
        Ok(sides)
    }

    /// The items' columns.
    pub fn items(&self, columns: &[Column]) -> Vec<Column> {
        let left_columns = self.left.iter().map(|&j| &columns[j]);
        left_columns.map(|c| Column { name: c.name["left_".len()..].into(), kind: c.kind.clone() }).collect()
    }

    /// The row with left and right changed.
    pub(super) fn swapped(&self, row: &[f64]) -> Vec<f64> {
        let mut out = row.to_vec();
        for (&l, &r) in self.left.iter().zip(&self.right) {
            (out[l], out[r]) = (row[r], row[l]);
        }
        out
    }

    /// The model split by sides, or unsplit if the kernel is no product over the sides.
    pub(super) fn parts(&self, model: &KernelExpansion) -> Result<PartDecomposition> {
        let apart = [self.left.clone(), self.right.clone(), self.contexts.clone()];
        let unsplit = || PartDecomposition::new(model, &[(0..model.support_points.width()).collect()]);
        PartDecomposition::new(model, &apart).or_else(|_| unsplit())
    }
}

/// Refuses models whose output does not change its sign when the sides are exchanged.
pub(super) fn check_skew(model: &KernelExpansion, sides: &LeftRightColumns, data: &Table) -> Result<()> {
    let parts = sides.parts(model)?;
    let (isa, size) = (Isa::detect(), model.coef.data().iter().map(|c| c.abs()).sum::<f64>());
    let outputs = |row: &[f64]| -> Vec<f64> {
        parts.outputs_at(isa, row).iter().zip(&model.intercept).map(|(v, b)| v + b).collect()
    };
    for i in 0..data.rows() {
        let row = data.row(i);
        for (a, b) in outputs(&row).iter().zip(outputs(&sides.swapped(&row))) {
            if (a + b).abs() > 1e-9 * (size + a.abs()) {
                let allowed = "the log odds of a duel change their sign with the sides";
                let values = format!("{a} one way round and {b} the other");
                return Err(Error::parameter("model", values, allowed));
            }
        }
    }
    Ok(())
}

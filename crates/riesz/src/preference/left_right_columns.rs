//! The columns of the left item, the right item and the contexts in a model of duels, and the check that a
//! model is one of duels.

use crate::error::{Error, Result};
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::PartDecomposition;
use crate::simd::Isa;
use crate::table::{Column, Table};

/// The columns of the two items and of the contexts in a model of duels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftRightColumns {
    /// The left item's columns.
    pub left: Vec<usize>,
    /// The right item's columns, in the same order.
    pub right: Vec<usize>,
    /// The columns of the contexts.
    pub contexts: Vec<usize>,
}

impl LeftRightColumns {
    /// Determines the columns from their names: `left_x` and `right_x` are column x of the items.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is no such pair of columns.
    pub fn from_columns(columns: &[Column]) -> Result<Self> {
        let index_of = |name: &str| columns.iter().position(|c| c.name == name);
        let mut sides = Self { left: Vec::new(), right: Vec::new(), contexts: Vec::new() };
        for (j, column) in columns.iter().enumerate() {
            let partner = |prefix: &str, partner_prefix: &str| {
                column.name.strip_prefix(prefix).and_then(|name| index_of(&format!("{partner_prefix}{name}")))
            };
            match (partner("left_", "right_"), partner("right_", "left_")) {
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

    /// Returns the items' columns.
    pub fn items(&self, columns: &[Column]) -> Vec<Column> {
        let left_columns = self.left.iter().map(|&j| &columns[j]);
        left_columns.map(|c| Column { name: c.name["left_".len()..].into(), kind: c.kind.clone() }).collect()
    }

    /// Returns the row with left and right swapped.
    pub(super) fn swapped(&self, row: &[f64]) -> Vec<f64> {
        let mut out = row.to_vec();
        for (&l, &r) in self.left.iter().zip(&self.right) {
            (out[l], out[r]) = (row[r], row[l]);
        }
        out
    }

    /// Decomposes the model by sides, or returns it whole if the kernel is not a product over the sides.
    pub(super) fn parts(&self, model: &KernelExpansion) -> Result<PartDecomposition> {
        let sides = [self.left.clone(), self.right.clone(), self.contexts.clone()];
        let whole_model = || PartDecomposition::new(model, &[(0..model.support_points.width()).collect()]);
        PartDecomposition::new(model, &sides).or_else(|_| whole_model())
    }
}

/// Rejects models whose output does not change its sign when the sides are swapped.
pub(super) fn check_skew(model: &KernelExpansion, sides: &LeftRightColumns, data: &Table) -> Result<()> {
    let parts = sides.parts(model)?;
    let (isa, coef_sum) = (Isa::detect(), model.coef.data().iter().map(|c| c.abs()).sum::<f64>());
    let outputs = |row: &[f64]| -> Vec<f64> {
        parts.outputs_at(isa, row).iter().zip(&model.intercept).map(|(v, b)| v + b).collect()
    };
    for i in 0..data.rows() {
        let row = data.row(i);
        for (a, b) in outputs(&row).iter().zip(outputs(&sides.swapped(&row))) {
            if (a + b).abs() > 1e-9 * (coef_sum + a.abs()) {
                let allowed = "the log odds of a duel must change their sign when the sides are swapped";
                let values = format!("{a} in one order and {b} in the other");
                return Err(Error::parameter("model", values, allowed));
            }
        }
    }
    Ok(())
}

//! Estimators. Each is a struct of its settings with a `fit` that yields an
//! [`Expansion`](crate::Expansion) in the user's units, and whatever else the method knows (evidence, support vectors, leave-one-out error).
//!
//! | estimator | loss | solver |
//! |---|---|---|
//! | [`KernelRidge`] | squared | Cholesky; ridge by leave-one-out from one eigendecomposition |
//! | [`SupportVectorClassifier`], [`SupportVectorRegressor`], [`OneClassSupportVector`] | hinge, ε-insensitive, one-class | sequential minimal optimisation |

mod ridge;
mod svm;

pub use ridge::{KernelRidge, RidgeFit};
pub use svm::{
    ClassWeight, OneClassFit, OneClassSupportVector, SupportVectorClassifier, SupportVectorRegressor, SvcFit,
    SvrFit,
};

use crate::error::{Error, Result};
use crate::table::Table;

/// Checks what every estimator needs of its inputs: rows, columns and one target a row.
pub(crate) fn check(x: &Table, targets: usize, minimum: usize) -> Result<()> {
    if x.width() == 0 {
        return Err(Error::TooFew { what: "the table".into(), needed: 1, unit: "feature column is" });
    }
    if x.rows() < minimum {
        let unit = if minimum == 1 { "row is" } else { "rows are" };
        return Err(Error::TooFew { what: format!("a table of {} row(s)", x.rows()), needed: minimum, unit });
    }
    if targets != x.rows() {
        return Err(Error::Shape {
            what: "the target".into(),
            unit: "numbers",
            expected: x.rows(),
            found: targets,
            why: "one a row of the table".into(),
        });
    }
    Ok(())
}

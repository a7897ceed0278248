//! Column types of a table: numbers or categories. The command line, Python and every file format decide them
//! here.
//!
//! [`Profile`] counts the notations of a column's cells, [`Profile::decide`] determines the type of the
//! column with the reason, and [`parse_number`] reads numbers in common notations. A cell that is not taken
//! literally comes with a [`remark`](ColumnType::remark) for the user. A doubtful column is refused as a
//! [`Problem`].

mod checks;
mod missing;
mod notation;
mod number;
mod problem;
mod profile;

pub use checks::{FEW_ROWS, Suspicion, suspicions};
pub use missing::{MissingMarks, is_missing};
pub use notation::is_boolean;
pub use number::{DecimalMark, WrittenNumber, has_decimal_comma, parse_number, same_unit, trimmed};
pub use problem::{FrontEnd, Problem, ProblemKind};
pub use profile::{Choice, ColumnType, NumberFormat, Profile};

//! Column types of a table: numbers or categories. This is the one place that decides it, for the command
//! line, Python and every file format.
//!
//! [`Profile`] counts what the cells of a column look like, [`Profile::decide`] says what the column is and
//! why, and
//! [`parse_number`] reads numbers as people write them. Whatever is not taken as it is written comes with a
//! [`remark`](ColumnType::remark) for the user, and whatever is doubtful is refused as a [`Problem`].

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

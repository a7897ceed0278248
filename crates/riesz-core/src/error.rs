//! The error type of the library. Every variant holds the data that identify the culprit. Its message says
//! what is wrong, where, and how to fix it.

use thiserror::Error;

pub use crate::identification_error::{Hedge, IdentificationError, Instrument};
pub use crate::name_lists::listed;

/// The result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors of the library. Fields count rows and columns from 0; messages count rows from 1.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// An input that is empty or too small.
    #[error("{subject} is {}: at least {needed} {unit} \
             needed", if *needed == 1 { "empty" } else { "too small" })]
    TooFew {
        /// The subject that was too small.
        subject: String,
        /// The smallest size that works.
        needed: usize,
        /// The unit of `needed`, with its verb ("row is", "columns are").
        unit: &'static str,
    },
    /// A number that is NaN or infinite.
    #[error("row {} of column '{column}' is {value}: remove the row or fill the value in", row + 1)]
    NotFinite {
        /// Row, from 0.
        row: usize,
        /// Column name.
        column: String,
        /// The offending number.
        value: f64,
    },
    /// A size that differs from the expected one.
    #[error("{subject} has {actual} {unit}, but {expected} are expected ({why})")]
    Shape {
        /// The subject with the wrong size.
        subject: String,
        /// The unit in which the size is counted.
        unit: &'static str,
        /// The right size.
        expected: usize,
        /// The actual size.
        actual: usize,
        /// The reason for the expected size.
        why: String,
    },
    /// A name that is not among the columns.
    #[error("there is no column '{name}'; the columns are: {known}")]
    UnknownColumn {
        /// The unknown name.
        name: String,
        /// The existing names, joined by commas.
        known: String,
    },
    /// Two columns, players or outputs share a name.
    #[error("the name '{name}' is used twice: rename one of them")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A categorical level that was not in the training data.
    #[error("row {}: column '{column}' is '{level}', which the model has not seen; it knows: \
             {known}", row + 1)]
    UnseenLevel {
        /// Row, from 0.
        row: usize,
        /// Column name.
        column: String,
        /// The new level.
        level: String,
        /// The known levels, joined by commas.
        known: String,
    },
    /// A column of text where numbers are needed, or of numbers where text is needed.
    #[error("column '{column}' holds {actual}, but the model was fitted on {expected} there")]
    WrongKind {
        /// Column name.
        column: String,
        /// The actual content.
        actual: &'static str,
        /// The expected content.
        expected: &'static str,
    },
    /// A cell that cannot be used.
    #[error("row {} of column '{column}' is {}: {problem}", row + 1, quoted(value))]
    Cell {
        /// Row, from 0.
        row: usize,
        /// Column name.
        column: String,
        /// The cell; empty if it is missing.
        value: String,
        /// The problem and its remedy.
        problem: String,
    },
    /// A parameter outside its range.
    #[error("{name} = {value} is not allowed: {allowed}")]
    Parameter {
        /// The parameter's name as users spell it.
        name: String,
        /// The value given.
        value: String,
        /// The allowed values, in words.
        allowed: String,
    },
    /// A setting that has no effect in the question for which it is given.
    #[error("{setting} belongs to {belongs}: leave it out")]
    Unused {
        /// The setting's name.
        setting: String,
        /// The kind of question that the setting belongs to.
        belongs: String,
    },
    /// A matrix that is not positive definite, even with the largest jitter.
    #[error(
        "the {size}x{size} {matrix} is not positive definite, even with {jitter:.1e} added to its diagonal: \
         raise the ridge, noise or alpha, remove duplicate rows, or check the kernel's parameters"
    )]
    NotPositiveDefinite {
        /// The name of the matrix.
        matrix: &'static str,
        /// Its number of rows.
        size: usize,
        /// The largest jitter tried.
        jitter: f64,
    },
    /// A factor that is a joint function of columns of different players, so that the product-game formulas
    /// do not hold.
    #[error(
        "no exact values: the factor {factor} ties the columns {columns} together, and they belong to \
         different features; make them one feature (a group), or use a kernel that is a product over columns \
         (Matérn and rational quadratic kernels are, unless they are isotropic)"
    )]
    NotProduct {
        /// The factor, as a formula.
        factor: String,
        /// The columns that the factor reads.
        columns: String,
    },
    /// A target from which a model cannot be learnt.
    #[error("the target '{name}' {problem}")]
    Target {
        /// The target's name.
        name: String,
        /// The problem and its remedy.
        problem: String,
    },
    /// An iterative method that did not reach its tolerance.
    #[error("{method} did not converge in {iterations} iterations (last change {change:.2e}): {remedy}")]
    NotConverged {
        /// The method.
        method: &'static str,
        /// Iterations done.
        iterations: usize,
        /// The last measure of progress.
        change: f64,
        /// The remedy.
        remedy: &'static str,
    },
    /// File content that cannot be parsed.
    #[error("{format}, line {line}: {problem}")]
    Parse {
        /// The file format.
        format: &'static str,
        /// Line, from 1.
        line: usize,
        /// The problem and its remedy.
        problem: String,
    },
    /// A model or explanation file that another program or a newer version wrote.
    #[error("{problem}")]
    Format {
        /// The problem and its remedy.
        problem: String,
    },
    /// Work that needs more memory than is free.
    #[error(
        "{subject} needs {:.1} GB of memory, but only {:.1} GB are free: use fewer reference rows, or learn \
         through landmarks or random features",
        needed / 1e9, *available as f64 / 1e9
    )]
    Memory {
        /// The subject that needs the memory.
        subject: String,
        /// Bytes needed.
        needed: f64,
        /// Bytes available.
        available: u64,
    },
    /// A causal question that the graph and the measured variables do not identify.
    #[error("{0}")]
    Causal(Box<IdentificationError>),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A number left the range of double precision.
    #[error("{subject} overflowed: {remedy}")]
    Overflow {
        /// The subject that overflowed.
        subject: String,
        /// The remedy.
        remedy: &'static str,
    },
}

impl Error {
    /// The error for a causal question that is not identified.
    pub fn causal(refusal: IdentificationError) -> Self {
        Self::Causal(Box::new(refusal))
    }

    /// Creates [`Error::TooFew`].
    pub fn too_few(subject: impl Into<String>, needed: usize, unit: &'static str) -> Self {
        Self::TooFew { subject: subject.into(), needed, unit }
    }

    /// Creates [`Error::NotFinite`].
    pub fn not_finite(row: usize, column: impl Into<String>, value: f64) -> Self {
        Self::NotFinite { row, column: column.into(), value }
    }

    /// Creates [`Error::Shape`].
    pub fn shape(
        subject: impl Into<String>,
        unit: &'static str,
        expected: usize,
        actual: usize,
        why: impl Into<String>,
    ) -> Self {
        Self::Shape { subject: subject.into(), unit, expected, actual, why: why.into() }
    }

    /// Creates [`Error::Target`].
    pub fn target(name: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Target { name: name.into(), problem: problem.into() }
    }

    /// Creates [`Error::Format`].
    pub fn format(problem: impl Into<String>) -> Self {
        Self::Format { problem: problem.into() }
    }

    /// Creates [`Error::Overflow`].
    pub fn overflow(subject: impl Into<String>, remedy: &'static str) -> Self {
        Self::Overflow { subject: subject.into(), remedy }
    }

    /// The error for a parameter outside its range.
    pub fn parameter(name: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::Parameter { name: name.into(), value: value.to_string(), allowed: allowed.into() }
    }
}

/// A cell in quotation marks for a message.
fn quoted(cell: &str) -> String {
    if cell.is_empty() { "empty".into() } else { format!("'{cell}'") }
}

/// Checks a size: [`Error::Shape`] if it differs from the expected size.
pub fn sized(subject: &str, unit: &'static str, expected: usize, actual: usize, why: &str) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::shape(subject, unit, expected, actual, why))
}

/// The smallest of the items that are in the list more than once.
pub fn first_repeated<T: Ord + Copy>(items: &[T]) -> Option<T> {
    let mut sorted = items.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Checks that no name is used twice.
pub fn check_distinct<'n>(names: impl IntoIterator<Item = &'n String>) -> Result<()> {
    let names: Vec<&String> = names.into_iter().collect();
    match first_repeated(&names) {
        Some(name) => Err(Error::DuplicateName { name: name.clone() }),
        None => Ok(()),
    }
}

/// The error for a setting that has no effect here; `belongs` names the questions in which it has an effect.
pub fn unused(setting: &str, belongs: &str) -> Error {
    Error::Unused { setting: setting.into(), belongs: belongs.into() }
}

//! One error type for the library. Every variant carries the data that names the culprit, and its message
//! says what is wrong, where, and what to do about it.

use thiserror::Error;

pub use crate::refusal::IdentificationError;

/// The result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors of the library. Rows and columns are counted from 0 in the fields; messages count rows from 1.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to work on.
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
    /// Two things whose sizes must agree do not.
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
        /// Where the expectation comes from.
        why: String,
    },
    /// A column that is needed is not there.
    #[error("there is no column '{name}'; the columns are: {known}")]
    UnknownColumn {
        /// The name that was asked for.
        name: String,
        /// The names there are, joined by commas.
        known: String,
    },
    /// Two columns, players or outputs share a name.
    #[error("the name '{name}' is used twice: rename one of them")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A categorical value that was not there when the model was fitted.
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
    /// A column holds text where numbers are needed, or the reverse.
    #[error("column '{column}' holds {actual}, but the model was fitted on {expected} there")]
    WrongKind {
        /// Column name.
        column: String,
        /// The actual content.
        actual: &'static str,
        /// The expected content.
        expected: &'static str,
    },
    /// A cell of a column that cannot be used.
    #[error("row {} of column '{column}' is {}: {problem}", row + 1, quoted(value))]
    Cell {
        /// Row, from 0.
        row: usize,
        /// Column name.
        column: String,
        /// The cell; empty where it is missing.
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
        /// The range that is allowed, in words.
        allowed: String,
    },
    /// A setting that has no use in the question that it is given for.
    #[error("{setting} belongs to {belongs}: leave it out")]
    Unused {
        /// The setting's name.
        setting: String,
        /// The kind of question that the setting belongs to.
        belongs: String,
    },
    /// A matrix that should be positive definite is not, even after the largest jitter.
    #[error(
        "the {size}x{size} {matrix} is not positive definite, even with {jitter:.1e} added to its diagonal: \
         raise the ridge, noise or alpha, remove duplicate rows, or check the kernel's parameters"
    )]
    NotPositiveDefinite {
        /// The name of the matrix.
        matrix: &'static str,
        /// Its size.
        size: usize,
        /// The largest jitter tried.
        jitter: f64,
    },
    /// The kernel ties several players together, so the product-game formulas do not hold.
    #[error(
        "no exact values: the factor {factor} ties the columns {columns} together, and they belong to \
         different players; make them one player (a group), or use a kernel that is a product over columns \
         (Matérn and rational quadratic kernels are, unless they are isotropic)"
    )]
    NotProduct {
        /// The factor, as a formula.
        factor: String,
        /// The columns it ties together.
        columns: String,
    },
    /// A target that cannot be learnt from.
    #[error("the target '{name}' {problem}")]
    Target {
        /// The target's name.
        name: String,
        /// The problem and its remedy.
        problem: String,
    },
    /// An iterative method did not reach its tolerance.
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
    /// A file's content that cannot be understood.
    #[error("{format}, line {line}: {problem}")]
    Parse {
        /// The file format.
        format: &'static str,
        /// Line, from 1.
        line: usize,
        /// The problem and its remedy.
        problem: String,
    },
    /// A model or explanation file written by another program or a newer version.
    #[error("{problem}")]
    Format {
        /// The problem and its remedy.
        problem: String,
    },
    /// More memory would be taken than there is.
    #[error(
        "{subject} takes {:.1} GB of memory, and {:.1} GB are free: use fewer reference rows, or learn \
         through landmarks or random features",
        needed / 1e9, *available as f64 / 1e9
    )]
    Memory {
        /// The subject that takes the memory.
        subject: String,
        /// Bytes that are needed.
        needed: f64,
        /// Bytes that there are.
        available: u64,
    },
    /// A causal question that the graph and what was measured do not answer.
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
    /// A causal question without an answer.
    pub(crate) fn causal(refusal: IdentificationError) -> Self {
        Self::Causal(Box::new(refusal))
    }

    /// A parameter outside its range.
    pub fn parameter(name: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::Parameter { name: name.into(), value: value.to_string(), allowed: allowed.into() }
    }
}

/// A cell for a message.
fn quoted(cell: &str) -> String {
    if cell.is_empty() { "empty".into() } else { format!("'{cell}'") }
}

/// Checks a size: [`Error::Shape`] unless it is the expected one.
pub(crate) fn sized(
    subject: &str,
    unit: &'static str,
    expected: usize,
    actual: usize,
    why: &str,
) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::Shape { subject: subject.into(), unit, expected, actual, why: why.into() })
}

/// The error for a setting that has no effect with what it was given for; `belongs` says with what it has
/// one.
pub(crate) fn unused(setting: &str, belongs: &str) -> Error {
    Error::Unused { setting: setting.into(), belongs: belongs.into() }
}

/// Names for a message, separated by commas: the first twenty, and how many there are.
pub fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    const SHOWN: usize = 20;
    let mut text = String::new();
    let mut count = 0;
    for name in names {
        if count < SHOWN {
            text += if count > 0 { ", " } else { "" };
            text += name.as_ref();
        }
        count += 1;
    }
    if count > SHOWN {
        text += &format!(", … ({count} in all)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(["a", "b"]), "a, b");
        assert_eq!(listed::<&str>([]), "");
        let hundred: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        assert!(listed(&hundred).ends_with("18, 19, … (100 in all)"));
    }
}

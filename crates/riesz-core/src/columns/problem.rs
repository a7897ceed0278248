//! Reasons why a column is neither clearly numeric nor categorical, each as one sentence with the remedy.

/// The front end, which determines how options are spelled in remedies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontEnd {
    /// `--column zip=text`
    CommandLine,
    /// `columns={"zip": "text"}`
    Python,
}

impl FrontEnd {
    /// The option that sets the type of a column: `text` or `number`.
    pub fn choice(self, column: &str, kind: &str) -> String {
        match self {
            Self::CommandLine => format!("--column '{column}={kind}'"),
            Self::Python => format!("columns={{'{column}': '{kind}'}}"),
        }
    }

    /// The option that leaves columns out.
    pub fn left_out(self, columns: &[&str]) -> String {
        match self {
            Self::CommandLine => format!("--ignore '{}'", columns.join(",")),
            Self::Python => format!("X.drop(columns={columns:?})").replace('"', "'"),
        }
    }

    /// The option that names a mark of missing values.
    pub fn missing_mark(self, mark: &str) -> String {
        match self {
            Self::CommandLine => format!("--na-values '{mark}'"),
            Self::Python => format!("X.replace({mark}, float('nan'))"),
        }
    }

    fn decimal(self, mark: char) -> String {
        match self {
            Self::CommandLine => format!("--decimal {mark}"),
            Self::Python => format!("decimal='{mark}' when the file is read"),
        }
    }
}

/// A cell that makes the type of its column doubtful.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The row of the cell, from 0.
    pub row: u64,
    /// The text of the cell.
    pub cell: String,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// A reason why the type of a column is doubtful.
#[derive(Debug, Clone, PartialEq)]
pub enum ProblemKind {
    /// Numbers with decimal commas where points are expected.
    DecimalComma,
    /// Thousands separated by commas, or decimal points, although the decimal mark is set to a comma.
    NoDecimalComma,
    /// A mark that could be a decimal mark or a thousands separator everywhere in the column; the two
    /// readings of the cell.
    AmbiguousMark {
        /// The value if the mark is a decimal mark.
        fraction: f64,
        /// The value if the mark separates thousands.
        thousands: f64,
    },
    /// Dates or times.
    Dates,
    /// A bound instead of a number: `<5`.
    Bound,
    /// Mostly numbers, with a few other cells.
    MostlyNumbers,
    /// Numbers with different units, or some with and some without a unit.
    MixedUnits {
        /// Another cell of the column, with another unit.
        other: String,
    },
    /// A cell that is not a number, in a column that must be numeric.
    NotANumber,
}

impl Problem {
    /// Whether the doubt concerns the notation of numbers; such a column is refused even if it must be
    /// numeric.
    pub fn is_about_notation(&self) -> bool {
        use ProblemKind::{AmbiguousMark, DecimalComma, MixedUnits, NoDecimalComma};
        matches!(self.kind, DecimalComma | NoDecimalComma | AmbiguousMark { .. } | MixedUnits { .. })
    }

    /// One sentence about the column called `column`; `place` describes the position of the cell.
    /// `can_ignore` tells whether leaving the column out is a remedy.
    pub fn sentence(&self, column: &str, place: &str, front: FrontEnd, can_ignore: bool) -> String {
        let cell = &self.cell;
        let as_text = front.choice(column, "text");
        let ignored = match can_ignore {
            true => format!(", or leave it out with {}", front.left_out(&[column])),
            false => String::new(),
        };
        match &self.kind {
            ProblemKind::DecimalComma => format!(
                "column '{column}' holds numbers with {} ({place} is '{cell}'): give {} (or {as_text} if \
                 they are names)",
                if cell.contains(',') { "decimal commas" } else { "points between thousands" },
                front.decimal(',')
            ),
            ProblemKind::NoDecimalComma => format!(
                "column '{column}' holds numbers that are written without decimal commas ({place} is \
                 '{cell}'): give {}",
                front.decimal('.')
            ),
            ProblemKind::AmbiguousMark { fraction, thousands } => format!(
                "column '{column}' holds numbers that can be read in two ways ({place} is '{cell}', which \
                 is {fraction} or {thousands}): give {} and {}, or write the numbers without separators of \
                 thousands",
                front.decimal(if cell.contains(',') { ',' } else { '.' }),
                front.choice(column, "number"),
            ),
            ProblemKind::Dates => format!(
                "column '{column}' holds dates or times ({place} is '{cell}'): write them as numbers, days \
                 since some date for example{ignored} (or {as_text} if they are names)"
            ),
            ProblemKind::Bound => format!(
                "column '{column}' holds bounds beside numbers ({place} is '{cell}'): replace each by a \
                 number (the middle of its range), give {} to treat them as missing values, which leaves out \
                 rows of one kind, or {as_text}{ignored}",
                front.missing_mark(cell)
            ),
            ProblemKind::MostlyNumbers => format!(
                "column '{column}' holds numbers, but its {place} is '{cell}': correct it, give {} if it \
                 marks a missing value, or {as_text}{ignored}",
                front.missing_mark(cell)
            ),
            ProblemKind::MixedUnits { other } => format!(
                "column '{column}' holds numbers in different units ({place} is '{cell}', another cell is \
                 '{other}'): write all in one unit, or give {as_text}{ignored}"
            ),
            ProblemKind::NotANumber => {
                format!(
                    "{place} of column '{column}' is '{cell}', which is not a number: correct it{ignored}"
                )
            }
        }
    }
}

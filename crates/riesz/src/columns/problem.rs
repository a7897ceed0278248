//! Why a column can be neither numbers nor categories as it stands, in one sentence with the remedy.

/// Where options are given, so that a remedy is spelled as the user can type it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontEnd {
    /// `--column zip=text`
    CommandLine,
    /// `columns={"zip": "text"}`
    Python,
}

impl FrontEnd {
    /// The option by which the user says what the column is: `text` or `number`.
    pub fn choice(self, column: &str, kind: &str) -> String {
        match self {
            Self::CommandLine => format!("--column '{column}={kind}'"),
            Self::Python => format!("columns={{'{column}': '{kind}'}}"),
        }
    }

    /// The option by which columns are left out.
    pub fn left_out(self, columns: &[&str]) -> String {
        match self {
            Self::CommandLine => format!("--ignore '{}'", columns.join(",")),
            Self::Python => format!("X.drop(columns={columns:?})").replace('"', "'"),
        }
    }

    /// The option by which marks of missing values are named.
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

/// A cell by which a column is doubtful.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The row of the cell, from 0.
    pub row: u64,
    /// The cell.
    pub cell: String,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// A reason for which a column is doubtful.
#[derive(Debug, Clone, PartialEq)]
pub enum ProblemKind {
    /// Numbers with decimal commas where points are expected.
    DecimalComma,
    /// Commas that separate thousands, or decimal points, where commas are said to be decimal marks.
    NoDecimalComma,
    /// Every mark could be a decimal mark and a separator of thousands; the two readings of the cell.
    AmbiguousMark {
        /// The number that it is if the mark is a decimal mark.
        fraction: f64,
        /// The number that it is if the mark separates thousands.
        thousands: f64,
    },
    /// Dates or times.
    Dates,
    /// A bound in place of a number: `<5`.
    Bound,
    /// Numbers, but for some cells.
    MostlyNumbers,
    /// Numbers of which some have a unit and some none, or another one.
    MixedUnits {
        /// Another cell of the column, whose unit is another one.
        other: String,
    },
    /// A cell that is no number, in a column that must have numbers.
    NotANumber,
}

impl Problem {
    /// Whether the doubt is how numbers are written, so that even a column that must have numbers is refused.
    pub fn is_about_notation(&self) -> bool {
        use ProblemKind::{AmbiguousMark, DecimalComma, MixedUnits, NoDecimalComma};
        matches!(self.kind, DecimalComma | NoDecimalComma | AmbiguousMark { .. } | MixedUnits { .. })
    }

    /// One sentence about the column called `column`; `place` says where the cell is. `can_ignore` says
    /// whether leaving the column out is a remedy.
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
                "column '{column}' holds dates or times ({place} is '{cell}'): write it as numbers, days \
                 since some date for example{ignored} (or {as_text} if they are names)"
            ),
            ProblemKind::Bound => format!(
                "column '{column}' holds bounds beside numbers ({place} is '{cell}'): write a number in \
                 place of each (the middle of what it can be), give {} to take them for missing values, \
                 which leaves out rows of one kind, or {as_text}{ignored}",
                front.missing_mark(cell)
            ),
            ProblemKind::MostlyNumbers => format!(
                "column '{column}' holds numbers, but its {place} is '{cell}': correct it, give {} if it \
                 stands for a missing value, or {as_text}{ignored}",
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

//! Counts of the notations in a column's cells, and the column type that follows from them.

use super::missing::{MissingMarks, is_missing};
use super::notation::{is_boolean, is_bound, is_date, is_mark_like, is_number_like, loses_digits};
use super::number::{DecimalMark, has_decimal_comma, parse_number, same_unit, trimmed};
use super::problem::{Problem, ProblemKind};

/// The notation of a table's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NumberFormat {
    /// The decimal mark.
    pub mark: DecimalMark,
    /// Whether a comma could be a decimal mark although `mark` is a point, as in files whose columns are
    /// separated by semicolons.
    pub comma_is_doubtful: bool,
}

/// The user's choice of a column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Numeric; a cell that is not a number is an error.
    Number,
    /// Categorical, even if the levels look like numbers.
    Text,
}

/// The type of a column, with the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnType {
    /// Whether the column is categorical; otherwise it is numeric.
    pub categorical: bool,
    /// The reason, in a few words, for `riesz inspect`.
    pub reason: String,
    /// A note for the user if cells are not taken literally.
    pub remark: Option<String>,
    /// The common currency or unit of all numbers, `$` or `kg`.
    pub unit: Option<String>,
}

fn categorical(reason: &str, remark: Option<String>) -> ColumnType {
    ColumnType { categorical: true, reason: reason.into(), remark, unit: None }
}

/// The first cell of some kind.
#[derive(Debug, Clone, PartialEq)]
struct Example {
    row: u64,
    cell: String,
    value: f64,
}

/// The number of cells of one kind, and the first such cell.
#[derive(Debug, Clone, Default, PartialEq)]
struct Count {
    cells: u64,
    first: Option<Example>,
}

/// A cell with its number; 0 if it is not a number. Its text is empty if the column stores numbers.
#[derive(Clone, Copy)]
struct Cell<'t> {
    row: u64,
    text: &'t str,
    value: f64,
}

impl Example {
    /// The cell as text; the formatted number if the column stores numbers.
    fn shown(&self) -> String {
        if self.cell.is_empty() { self.value.to_string() } else { self.cell.clone() }
    }
}

impl Count {
    fn add(&mut self, Cell { row, text, value }: Cell<'_>) {
        self.cells += 1;
        self.first.get_or_insert_with(|| Example { row, cell: text.to_string(), value });
    }

    fn problem(&self, kind: ProblemKind) -> Option<Problem> {
        self.first.as_ref().map(|example| Problem { row: example.row, cell: example.shown(), kind })
    }
}

/// Maximum number of different units that are counted separately.
const UNITS: usize = 4;

/// The whole numbers up to this one are doubles.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Counts of a column's cells by their notation.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    format: NumberFormat,
    marks: MissingMarks,
    rows: u64,
    missing: u64,
    numbers: Count,
    /// Counts of cells by unit, and of numbers without a unit.
    units: Vec<(String, Count)>,
    unitless: Count,
    /// Cells with thousands separators, another minus sign, or parentheses.
    rewritten: Count,
    /// Cells whose marks have two readings; `settling` counts cells that decide between them.
    ambiguous: Count,
    settling: u64,
    grouped: u64,
    padded: Count,
    /// Whole numbers that are not doubles.
    large: Count,
    fractions: u64,
    /// Cells without the bytes of value 0 at their ends.
    trimmed: u64,
    /// Cells that are not numbers. Separate counts below are for decimal commas, numbers with a decimal
    /// point, dates, and truth values.
    texts: Count,
    /// Texts other than usual marks of missing values (`?`, `unknown`).
    words: Count,
    /// Bounds (`<5`).
    bounds: Count,
    /// Texts that are mostly digits, but are neither numbers nor ranges of numbers: `120/80`, `'12`.
    number_like: Count,
    decimal_commas: u64,
    written_with_points: Count,
    dates: u64,
    booleans: u64,
    lowest: f64,
    highest: f64,
}

impl Profile {
    /// An empty profile.
    pub fn new(format: NumberFormat, marks: &MissingMarks) -> Self {
        let (lowest, highest) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { format, marks: marks.clone(), lowest, highest, ..Self::default() }
    }

    /// Number of missing cells.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The smallest and the largest number, if there are numbers.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.lowest <= self.highest).then_some((self.lowest, self.highest))
    }

    /// Counts a cell that is stored as a number.
    pub fn add_number(&mut self, value: f64) {
        let cell = Cell { row: self.rows, text: "", value };
        self.rows += 1;
        if value.is_nan() || self.marks.has_number(value) {
            self.missing += 1;
            return;
        }
        self.unitless.add(cell);
        self.add_value(cell);
    }

    fn add_value(&mut self, cell: Cell<'_>) {
        self.numbers.add(cell);
        self.fractions += u64::from(cell.value.fract() != 0.0);
        (self.lowest, self.highest) = (self.lowest.min(cell.value), self.highest.max(cell.value));
    }

    /// Counts a cell of text.
    pub fn add_text(&mut self, cell: &str) {
        let row = self.rows;
        self.rows += 1;
        let text = trimmed(cell);
        if is_missing(text) || self.marks.has_text(text) {
            self.missing += 1;
            return;
        }
        self.trimmed += u64::from(text.len() < cell.len() && cell.contains('\0'));
        let Some(number) = parse_number(text, self.format.mark) else {
            // `inf` is a number, but not a valid value.
            match text.parse::<f64>() {
                Ok(value) if value.is_infinite() => self.numbers.add(Cell { row, text, value }),
                _ => self.add_word(Cell { row, text, value: 0.0 }),
            }
            return;
        };
        let cell = Cell { row, text, value: number.value };
        self.add_value(cell);
        if number.value.abs() >= LARGEST_WHOLE && loses_digits(text, number.value, self.format.mark) {
            self.large.add(cell);
        }
        match number.unit {
            Some(unit) => self.add_unit(unit, cell),
            None => self.unitless.add(cell),
        }
        if !number.plain && number.unit.is_none() && text.parse::<f64>().is_err() {
            self.rewritten.add(cell);
        }
        self.grouped += u64::from(number.grouped);
        if number.ambiguous {
            self.ambiguous.add(cell);
        } else {
            self.settling += u64::from(text.contains(['.', ',']));
        }
        if number.padded {
            self.padded.add(cell);
        }
    }

    fn add_unit(&mut self, unit: &str, cell: Cell<'_>) {
        if let Some((_, count)) = self.units.iter_mut().find(|(recorded, _)| same_unit(recorded, unit)) {
            count.add(cell);
        } else if self.units.len() < UNITS {
            let mut count = Count::default();
            count.add(cell);
            self.units.push((unit.to_string(), count));
        }
    }

    fn add_word(&mut self, cell: Cell<'_>) {
        let text = cell.text;
        self.texts.add(cell);
        if !is_mark_like(text) {
            self.words.add(cell);
        }
        if is_bound(text) {
            self.bounds.add(cell);
        }
        if is_number_like(text) {
            self.number_like.add(cell);
        }
        self.dates += u64::from(is_date(text));
        self.booleans += u64::from(is_boolean(text));
        match self.format.mark {
            DecimalMark::Point => {
                let comma = has_decimal_comma(text) || parse_number(text, DecimalMark::Comma).is_some();
                self.decimal_commas += u64::from(comma);
            }
            DecimalMark::Comma => {
                if parse_number(text, DecimalMark::Point).is_some() {
                    self.written_with_points.add(cell);
                }
            }
        }
    }

    /// Decides the column's type, unless it is doubtful; `choice` is the user's choice.
    ///
    /// # Errors
    /// A [`Problem`] with the first cell that makes the type doubtful.
    pub fn decide(&self, choice: Option<Choice>) -> Result<ColumnType, Problem> {
        match choice {
            Some(Choice::Text) => return Ok(categorical("as the user says", None)),
            Some(Choice::Number) => {
                return match self.texts.problem(ProblemKind::NotANumber) {
                    Some(problem) => Err(problem),
                    None => Ok(self.numeric("as the user says")),
                };
            }
            None => {}
        }
        let mut decision = if self.texts.cells > 0 { self.decide_text()? } else { self.decide_numbers()? };
        if self.trimmed > 0 {
            let trimming = || format!("bytes of value 0 at the ends of {} cells were left out", self.trimmed);
            decision.remark.get_or_insert_with(trimming);
        }
        Ok(decision)
    }

    fn decide_text(&self) -> Result<ColumnType, Problem> {
        let count = self.texts.cells;
        // Marks of missing values do not count as evidence for the other texts.
        let words = self.words.cells;
        let caveat = if words > 0 && self.decimal_commas == words {
            self.words.problem(ProblemKind::DecimalComma)
        } else if self.written_with_points.cells > 0 && 2 * self.written_with_points.cells >= count {
            self.written_with_points.problem(ProblemKind::NoDecimalComma)
        } else if words > 0 && self.dates == words {
            self.words.problem(ProblemKind::Dates)
        } else if self.bounds.cells > 0 && self.bounds.cells == words && self.numbers.cells > 0 {
            self.bounds.problem(ProblemKind::Bound)
        } else if count < self.numbers.cells || words == 0 && self.numbers.cells > 0 {
            self.texts.problem(ProblemKind::MostlyNumbers)
        } else {
            None
        };
        if let Some(problem) = caveat {
            return Err(problem);
        }
        if self.booleans == self.rows - self.missing {
            return Ok(categorical("truth values", None));
        }
        let with_unit = self.units.first().and_then(|(_, count)| count.first.as_ref());
        let number_like = self.number_like.first.as_ref().filter(|_| 2 * self.number_like.cells >= count);
        let remark = with_unit.or(number_like).map(|example| {
            format!("texts that hold numbers, such as '{}', are taken as categories", example.cell)
        });
        let mixed = || {
            let (number, text) = (self.numbers.first.as_ref()?, self.texts.first.as_ref()?);
            Some(format!(
                "numbers ('{}') and texts ('{}') are taken as categories",
                number.shown(),
                text.cell
            ))
        };
        let remark = remark.or_else(mixed);
        Ok(categorical("text", remark))
    }

    fn decide_numbers(&self) -> Result<ColumnType, Problem> {
        let present = self.rows - self.missing;
        if present == 0 {
            return Ok(self.numeric("every cell is missing"));
        }
        if let Some(example) = &self.large.first {
            let remark = format!(
                "whole numbers such as {} are larger than 2^53 and would lose digits, so they are taken as \
                 categories",
                example.cell
            );
            return Ok(categorical("whole numbers above 2^53, which would lose digits", Some(remark)));
        }
        if let Some(example) = &self.padded.first
            && self.fractions == 0
            && self.units.is_empty()
        {
            let remark =
                format!("codes with leading zeros, such as {}, are taken as categories", example.cell);
            return Ok(categorical("codes with leading zeros", Some(remark)));
        }
        if let [(_, first), further @ ..] = &self.units[..] {
            let other = self.unitless.first.as_ref().or(further.first().and_then(|(_, c)| c.first.as_ref()));
            let other = other.map(|example| example.shown());
            match (other, self.unitless.cells) {
                (None, _) => {}
                (Some(other), 0) => {
                    let first = first.first.as_ref().map_or(String::new(), Example::shown);
                    let remark = format!(
                        "numbers with different words behind them ('{first}', '{other}') are taken as \
                         categories"
                    );
                    return Ok(categorical("numbers in different units", Some(remark)));
                }
                (Some(other), _) => {
                    if let Some(problem) = first.problem(ProblemKind::MixedUnits { other }) {
                        return Err(problem);
                    }
                }
            }
        }
        match (self.ambiguity(), self.rewriting()) {
            (Some(problem), _) => Err(problem),
            (None, Some(_)) => Ok(self.numeric("numbers with units or marks")),
            (None, None) => Ok(self.numeric("numbers")),
        }
    }

    fn numeric(&self, reason: &str) -> ColumnType {
        let (remark, unit) = (self.rewriting(), self.unit().map(String::from));
        ColumnType { categorical: false, reason: reason.into(), remark, unit }
    }

    /// The common unit of all numbers, if there is one.
    pub fn unit(&self) -> Option<&str> {
        match &self.units[..] {
            [(unit, _)] if self.unitless.cells == 0 => Some(unit),
            _ => None,
        }
    }

    /// The first two different units of the numbers.
    pub fn different_units(&self) -> Option<(&str, &str)> {
        match &self.units[..] {
            [(first, _), (second, _), ..] => Some((first, second)),
            _ => None,
        }
    }

    /// The problem of a mark before three digits whose meaning no other cell decides.
    fn ambiguity(&self) -> Option<Problem> {
        let example = self.ambiguous.first.as_ref()?;
        let doubtful = self.format.mark == DecimalMark::Comma || self.format.comma_is_doubtful;
        if !doubtful || self.settling > 0 {
            return None;
        }
        let read = parse_number(&example.cell, self.format.mark.other())?.value;
        let (fraction, thousands) =
            if read.abs() < example.value.abs() { (read, example.value) } else { (example.value, read) };
        self.ambiguous.problem(ProblemKind::AmbiguousMark { fraction, thousands })
    }

    /// A note on numbers that are not in the notation of programming languages.
    fn rewriting(&self) -> Option<String> {
        if let Some((unit, count)) = self.units.first() {
            let example = count.first.as_ref()?;
            let description = match unit.as_str() {
                "%" => "percentages are read as numbers of per cent".to_string(),
                unit => format!("amounts in {unit} are read as numbers"),
            };
            return Some(format!("{description}: '{}' as {}", example.cell, example.value));
        }
        let example = self.rewritten.first.as_ref()?;
        let description = if self.grouped > 0 {
            "separators of thousands are left out"
        } else if self.format.mark == DecimalMark::Comma {
            return None;
        } else {
            "other notations of numbers are read"
        };
        Some(format!("{description}: '{}' is {}", example.cell, example.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(cells: &[&str], mark: DecimalMark, choice: Option<Choice>) -> Result<ColumnType, Problem> {
        let format = NumberFormat { mark, comma_is_doubtful: false };
        let mut profile = Profile::new(format, &MissingMarks::default());
        cells.iter().for_each(|cell| profile.add_text(cell));
        profile.decide(choice)
    }

    fn numbers(cells: &[&str]) -> Option<String> {
        let column_type = decide(cells, DecimalMark::Point, None).unwrap();
        assert!(!column_type.categorical, "{cells:?}: {column_type:?}");
        column_type.remark
    }

    fn categories(cells: &[&str]) -> Option<String> {
        let column_type = decide(cells, DecimalMark::Point, None).unwrap();
        assert!(column_type.categorical, "{cells:?}: {column_type:?}");
        column_type.remark
    }

    fn refused(cells: &[&str], mark: DecimalMark) -> ProblemKind {
        decide(cells, mark, None).unwrap_err().kind
    }

    #[test]
    fn plain_numbers_and_texts_need_no_remark() {
        for cells in [&["1", "2.5", "-3e4"][..], &["", "NA", "7"], &["0", "0.5"], &["9007199254740992"]] {
            assert_eq!(numbers(cells), None, "{cells:?}");
        }
        for cells in [&["a", "b"][..], &["true", "FALSE", ""], &["18-24", "65+"]] {
            assert_eq!(categories(cells), None, "{cells:?}");
        }
        assert_eq!(categories(&["<18", "18-24", "65+"]), None);
    }

    #[test]
    fn texts_that_hold_numbers_come_with_a_remark() {
        let mixed = categories(&["A", "1", "B"]).unwrap();
        assert_eq!(mixed, "numbers ('1') and texts ('A') are taken as categories");
        for cells in [
            &["120/80", "130/85"][..],
            &["'12", "'13"],
            &["1h30", "2h15"],
            &["\u{661}\u{665}", "\u{662}"],
            &["2\u{bd}", "1\u{bd}"],
            &["4111 1111", "4111 1112"],
        ] {
            let remark = categories(cells).unwrap_or_else(|| panic!("{cells:?}"));
            assert!(remark.contains("texts that hold numbers"), "{remark}");
        }
    }

    #[test]
    fn other_notations_are_read_with_a_remark() {
        for (cells, remark) in [
            (&["1,234", "12"][..], "separators of thousands are left out: '1,234' is 1234"),
            (
                &["1\u{202f}234", "1\u{202f}235"],
                "separators of thousands are left out: '1\u{202f}234' is 1234",
            ),
            (&["$6674", "$1,200"], "amounts in $ are read as numbers: '$6674' as 6674"),
            (&["6.1%", "8.5 %"], "percentages are read as numbers of per cent: '6.1%' as 6.1"),
            (&["62 kg", "63kg"], "amounts in kg are read as numbers: '62 kg' as 62"),
            (&["(5)", "3"], "other notations of numbers are read: '(5)' is -5"),
            (&["\u{2212}5", "3"], "other notations of numbers are read: '\u{2212}5' is -5"),
            (&["3-", "4"], "other notations of numbers are read: '3-' is -3"),
            (&["CHF 1'020.-", "CHF 20.-"], "amounts in CHF are read as numbers: 'CHF 1'020.-' as 1020"),
            (&["1.5D+3", "2.5D-1"], "other notations of numbers are read: '1.5D+3' is 1500"),
            (&["0.1\0", "0.2\0"], "bytes of value 0 at the ends of 2 cells were left out"),
        ] {
            assert_eq!(numbers(cells).as_deref(), Some(remark));
        }
    }

    #[test]
    fn names_that_look_like_numbers_are_categories() {
        assert!(categories(&["02139", "10001"]).unwrap().contains("leading zeros"));
        assert!(categories(&["9007199254740993", "1"]).unwrap().contains("2^53"));
        assert!(categories(&["12345678901234563.0", "1.0"]).unwrap().contains("2^53"));
        assert!(categories(&["1st", "2nd", "3rd"]).unwrap().contains("different words"));
        // A fraction shows that the column is a measurement.
        assert_eq!(numbers(&["007", "1.5"]), None);
    }

    #[test]
    fn doubtful_columns_are_refused() {
        use DecimalMark::{Comma, Point};
        assert_eq!(refused(&["1,5", "2,25"], Point), ProblemKind::DecimalComma);
        for cells in
            [&["1.234,50", "0,5"][..], &["1.234.567", "12.345"], &["1.234,50 \u{20ac}", "7,25 \u{20ac}"]]
        {
            assert_eq!(refused(cells, Point), ProblemKind::DecimalComma, "{cells:?}");
        }
        assert_eq!(refused(&["$1,234.50", "$0.25"], Comma), ProblemKind::NoDecimalComma);
        assert_eq!(refused(&["2024-01-05", "2024-02-05"], Point), ProblemKind::Dates);
        assert_eq!(refused(&["1", "2", "?"], Point), ProblemKind::MostlyNumbers);
        // The number of missing cells does not matter.
        assert_eq!(refused(&["?", "?", "?", "2"], Point), ProblemKind::MostlyNumbers);
        assert_eq!(refused(&["unknown", "-", "5"], Point), ProblemKind::MostlyNumbers);
        assert_eq!(refused(&["<5", "<5", "<10", "7"], Point), ProblemKind::Bound);
        assert_eq!(refused(&["0,5", "1,5", "-"], Point), ProblemKind::DecimalComma);
        assert_eq!(refused(&["2024-01-05", "unknown", "2024-02-05"], Point), ProblemKind::Dates);
        assert!(matches!(refused(&["5%", "0.07"], Point), ProblemKind::MixedUnits { .. }));
        let ambiguous = ProblemKind::AmbiguousMark { fraction: 83.425, thousands: 83425.0 };
        assert_eq!(refused(&["83,425", "83,675"], Comma), ambiguous);
        assert_eq!(refused(&["83.425", "83.675"], Comma), ambiguous);
        assert_eq!(refused(&["1,234,567", "2,345,678"], Comma), ProblemKind::NoDecimalComma);
        assert_eq!(refused(&["0.5", "1.25"], Comma), ProblemKind::NoDecimalComma);
        // One unambiguous cell decides the meaning of the others.
        assert!(decide(&["83,425", "0,5"], Comma, None).is_ok());
        assert!(decide(&["83.425", "1.234,5"], Comma, None).is_ok());
        let doubtful = NumberFormat { mark: Point, comma_is_doubtful: true };
        let mut profile = Profile::new(doubtful, &MissingMarks::default());
        profile.add_text("83,425");
        assert_eq!(profile.decide(None).unwrap_err().kind, ambiguous);
        profile.add_text("1.5");
        assert!(profile.decide(None).is_ok());
    }

    #[test]
    fn stated_types_override_detected_ones() {
        let text = decide(&["1", "2"], DecimalMark::Point, Some(Choice::Text)).unwrap();
        assert!(text.categorical);
        let number = decide(&["02139", "10001"], DecimalMark::Point, Some(Choice::Number)).unwrap();
        assert!(!number.categorical);
        let number = decide(&["83,425"], DecimalMark::Comma, Some(Choice::Number)).unwrap();
        assert!(!number.categorical);
        let problem = decide(&["1", "x"], DecimalMark::Point, Some(Choice::Number)).unwrap_err();
        assert_eq!((problem.row, problem.cell.as_str()), (1, "x"));
    }

    #[test]
    fn marks_of_missing_values_are_missing() {
        let mut profile = Profile::new(NumberFormat::default(), &MissingMarks::new(&["-9999", "?"]));
        ["1", "-9999", "?", "2"].iter().for_each(|cell| profile.add_text(cell));
        profile.add_number(-9999.0);
        assert_eq!((profile.missing(), profile.range()), (3, Some((1.0, 2.0))));
        assert!(!profile.decide(None).unwrap().categorical);
    }
}

//! Cells that hold no value.

use super::number::{DecimalMark, parse_number, trimmed};

/// Texts that mark a missing value in every table, in upper or lower case.
const MARKS: [&str; 15] = [
    "na", "n/a", "nan", "-nan", "null", "#n/a", "<na>", "nat", "\\n", "#null!", "#div/0!", "#value!",
    "#ref!", "#num!", "#name?",
];

/// Whether a text marks a missing value: an empty cell, `NA`, `N/A`, `NaN`, `null`, or an error of a
/// spreadsheet.
pub fn is_missing(text: &str) -> bool {
    text.is_empty() || text.len() <= 8 && MARKS.iter().any(|mark| text.eq_ignore_ascii_case(mark))
}

/// The user's marks of missing values, in addition to the marks of [`is_missing`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MissingMarks {
    texts: Vec<String>,
    numbers: Vec<f64>,
}

impl MissingMarks {
    /// Marks as written: `-9999`, `?`, `<5`. A number also matches other spellings of the same number, and
    /// its value rounded to single precision, as in rasters.
    pub fn new<S: AsRef<str>>(marks: &[S]) -> Self {
        let texts: Vec<String> = marks.iter().map(|mark| trimmed(mark.as_ref()).to_string()).collect();
        let numbers =
            texts.iter().filter_map(|text| Some(parse_number(text, DecimalMark::Point)?.value)).collect();
        Self { texts, numbers }
    }

    /// Whether there are no marks.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Whether a text is one of the marks.
    pub fn has_text(&self, text: &str) -> bool {
        self.texts.iter().any(|mark| mark == text)
            || !self.numbers.is_empty()
                && parse_number(text, DecimalMark::Point)
                    .is_some_and(|n| n.unit.is_none() && self.has_number(n.value))
    }

    /// Whether a number is one of the marks.
    pub fn has_number(&self, value: f64) -> bool {
        self.numbers.iter().any(|mark| *mark == value || *mark as f32 == value as f32 && mark.abs() > 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_have_many_spellings() {
        assert!(["", "NA", "nan", "Null", "<NA>", "\\N", "#DIV/0!"].iter().all(|text| is_missing(text)));
        assert!(!["none", "-", "?", "0", "nana"].iter().any(|text| is_missing(text)));
        let marks = MissingMarks::new(&["-9999", "?", "-3.4e38", "<5"]);
        assert!(["-9999", "-9999.0", "?", "<5", "-3.4e+38"].iter().all(|text| marks.has_text(text)));
        assert!(!["9999", "", "5", "-9998"].iter().any(|text| marks.has_text(text)));
        assert!(marks.has_number(f64::from(-3.4e38_f32)));
    }
}

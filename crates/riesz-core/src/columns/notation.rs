//! Recognises texts that are not numbers: dates and times, truth values, bounds such as `<5`, and marks of
//! missing values.

use super::number::{DecimalMark, parse_number};

/// Whether a text usually marks a missing value: punctuation alone, or a word such as `unknown`.
pub(super) fn is_mark_like(text: &str) -> bool {
    const WORDS: [&str; 17] = [
        "unknown",
        "missing",
        "none",
        "nil",
        "n.a.",
        "n.a",
        "nd",
        "n.d.",
        "tbd",
        "undefined",
        "undef",
        "void",
        "(null)",
        "not available",
        "not applicable",
        "no data",
        "k.a.",
    ];
    !text.contains(char::is_alphanumeric) || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a text is a number with a comparison sign: `<5`, `>= 100`, `≤ 0.1`.
pub(super) fn is_bound(text: &str) -> bool {
    let number = text.trim_start_matches(['<', '>', '\u{2264}', '\u{2265}', '=', ' ']);
    number.len() < text.len()
        && text.starts_with(['<', '>', '\u{2264}', '\u{2265}'])
        && parse_number(number, DecimalMark::Point).is_some()
}

/// Whether a text consists mostly of digits. Ranges such as `18-24` and bounds such as `<18` and `65+` are
/// excluded, since they usually name groups.
pub(super) fn is_number_like(text: &str) -> bool {
    let is_range = |c: char| "-\u{2010}\u{2011}\u{2012}\u{2013}".contains(c);
    let bound = text.starts_with(['<', '>', '\u{2264}', '\u{2265}']) || text.ends_with('+');
    let range = text.split_once(is_range).is_some_and(|(a, b)| {
        let number = |part: &str| part.trim().parse::<f64>().is_ok();
        number(a) && number(b)
    });
    let digits = text.chars().filter(|c| c.is_numeric()).count();
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    let first = text.trim_start_matches(|c: char| !c.is_alphanumeric()).chars().next();
    !bound && !range && first.is_some_and(char::is_numeric) && digits > letters
}

/// Whether a whole number has digits that its double does not represent.
pub(super) fn loses_digits(text: &str, value: f64, mark: DecimalMark) -> bool {
    let (integer_part, fraction) = text.split_once(mark.character()).unwrap_or((text, ""));
    let digits: String = integer_part.chars().filter(char::is_ascii_digit).collect();
    !text.contains(['e', 'E', 'd', 'D'])
        && fraction.chars().all(|c| c == '0' || !c.is_ascii_digit())
        && digits.trim_start_matches('0') != value.abs().to_string()
}

/// Whether a text is a truth value: `true` or `false` in any case.
pub fn is_boolean(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
}

/// Whether a text is a date, a time of day, or both.
pub(super) fn is_date(text: &str) -> bool {
    // `2026-11-22T10:30:00Z` and `11/22/26 10:30`.
    let date_and_time = || {
        let (date, time) = text.split_once(['T', ' '])?;
        Some(is_day(date) && is_time_of_day(time))
    };
    is_day(text) || is_month(text) || is_time_of_day(text) || date_and_time() == Some(true)
}

fn is_digits(text: &str, lengths: std::ops::RangeInclusive<usize>) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text is a day: `2026-11-22`, `22.11.2026`, `11/22/26`, `22 Nov 2026`, `22-Nov-26`,
/// `November 22, 2026`.
fn is_day(text: &str) -> bool {
    let parts: Vec<&str> = text.split(['-', '/', '.', ' ', ',']).filter(|part| !part.is_empty()).collect();
    let [a, b, c] = parts[..] else { return false };
    let number = |part: &str| is_digits(part, 1..=4);
    let day_or_month =
        |part: &str| is_digits(part, 1..=2) && part.parse().is_ok_and(|n: u8| (1..=31).contains(&n));
    let month = |part: &str| day_or_month(part) && part.parse().is_ok_and(|n: u8| n <= 12);
    let year = |part: &str| is_digits(part, 2..=2) || is_digits(part, 4..=4);
    let day_and_month = |a: &str, b: &str| day_or_month(a) && day_or_month(b) && (month(a) || month(b));
    let in_digits = (is_digits(a, 4..=4) && day_and_month(b, c) || day_and_month(a, b) && year(c))
        && !text.contains([' ', ',']);
    let in_words = is_digits(c, 2..=4) || is_digits(a, 4..=4) && number(c);
    in_digits || in_words && (is_month_name(b) && number(a) || is_month_name(a) && number(b))
}

/// Whether a text is a month, quarter or week of a year: `2026-11`, `11/2026`, `Nov 2026`, `2026-Q4`,
/// `Q4 2026`, `2026-W47`.
fn is_month(text: &str) -> bool {
    let Some((a, b)) = text.split_once(['-', '/', ' ']) else { return false };
    let year = |part: &str| is_digits(part, 4..=4) && (part.starts_with("19") || part.starts_with("20"));
    let month = |part: &str| {
        let number = part.strip_prefix(['Q', 'q', 'W', 'w']).unwrap_or(part);
        let is_number = is_digits(number, 1..=2);
        let largest = match part.chars().next() {
            Some('Q' | 'q') => 4,
            Some('W' | 'w') => 53,
            _ => 12,
        };
        is_month_name(part) || is_number && number.parse().is_ok_and(|n: u8| (1..=largest).contains(&n))
    };
    year(a) && month(b) || year(b) && month(a)
}

fn is_month_name(text: &str) -> bool {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let text = text.to_lowercase();
    text.len() >= 3 && MONTHS.iter().any(|month| month.starts_with(&text) || text == "sept")
}

/// Whether a text is a time of day or a duration: `10:30`, `10:30:15.5`, `10:30 AM`, `10:30:00+01:00`,
/// `10:30Z`.
fn is_time_of_day(text: &str) -> bool {
    let time = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ' || c == '.');
    let suffix = text[time.len()..].trim().to_lowercase().replace('.', "");
    let time = time.split_once(['+', '-']).map_or(time, |(time, _offset)| time);
    let known_suffix = ["", "z", "am", "pm", "utc", "gmt", "h"].contains(&suffix.as_str());
    let mut parts: Vec<&str> = time.split(':').collect();
    let last_part = parts.pop().unwrap_or_default();
    let seconds = last_part.split_once('.').map_or(last_part, |(seconds, _fraction)| seconds);
    known_suffix
        && (1..=2).contains(&parts.len())
        && is_digits(parts[0], 1..=3)
        && parts[1..].iter().all(|part| is_digits(part, 2..=2))
        && is_digits(seconds, 2..=2)
}

#[cfg(test)]
mod tests {
    use super::is_date;

    #[test]
    fn dates_and_times_are_recognised() {
        for text in [
            "2026-11-22",
            "22.11.2026",
            "11/22/26",
            "22 Nov 2026",
            "22-Nov-26",
            "November 22, 2026",
            "2026-11-22T10:30:00Z",
            "11/22/26 10:30",
            "2026-11-22 10:30:00+01:00",
            "2026-11",
            "2026/11",
            "11/2026",
            "Nov 2026",
            "2026-Q4",
            "Q4 2026",
            "2026-W47",
            "10:30",
            "10:30:15.25",
            "1:05 pm",
            "10:30 a.m.",
        ] {
            assert!(is_date(text), "{text}");
        }
        for text in [
            "18-24",
            "1/2",
            "a:b",
            "1:2",
            "2026",
            "1990-2000",
            "2026-13",
            "12-2a",
            "may",
            "March",
            "a-b-c",
            "192.168.0.1",
            "555-12345-1",
            "Q4",
            "1:100000",
            "H 10:30",
        ] {
            assert!(!is_date(text), "{text}");
        }
    }
}

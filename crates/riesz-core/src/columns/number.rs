//! Numbers in the notations of tables: `1,234.50`, `1 234,5`, `−5`, `(5)`, `12 %`, `$3`, `62 kg`.

/// The character between the integer and the fractional part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecimalMark {
    /// 0.5
    #[default]
    Point,
    /// 0,5
    Comma,
}

impl DecimalMark {
    pub(super) fn character(self) -> char {
        match self {
            Self::Point => '.',
            Self::Comma => ',',
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Point => Self::Comma,
            Self::Comma => Self::Point,
        }
    }
}

/// A number that was read from text, with details of its notation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WrittenNumber<'t> {
    /// The number; infinite if it exceeds the range of doubles.
    pub value: f64,
    /// The currency or unit next to the digits, `$` or `kg`. A percentage has the unit `%` and is not divided
    /// by 100.
    pub unit: Option<&'t str>,
    /// Whether thousands separators were removed.
    pub grouped: bool,
    /// Whether a single mark before three digits, as in `83,425`, could be a thousands separator or a decimal
    /// mark.
    pub ambiguous: bool,
    /// Whether a whole number has leading zeros, as in the code `02139`.
    pub padded: bool,
    /// Whether programming languages use the same notation.
    pub plain: bool,
}

impl WrittenNumber<'_> {
    /// A number that does not come from text.
    pub fn plain(value: f64) -> Self {
        Self { value, unit: None, grouped: false, ambiguous: false, padded: false, plain: true }
    }
}

/// Spaces and apostrophes (used in Switzerland) that separate thousands.
const SPACES: [char; 5] = [' ', '\u{a0}', '\u{2007}', '\u{2009}', '\u{202f}'];
const APOSTROPHES: [char; 2] = ['\'', '\u{2019}'];

/// Characters that are printed as a minus sign.
const MINUS: [char; 8] =
    ['-', '\u{2212}', '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{fe63}', '\u{ff0d}'];

/// Currencies before the number that are not a single symbol.
const CURRENCY_CODES: [&str; 17] = [
    "US$", "A$", "C$", "R$", "NZ$", "HK$", "USD", "EUR", "GBP", "JPY", "CHF", "AUD", "CAD", "CNY", "INR",
    "Rs.", "kr",
];

/// Maximum length of a unit after a number, in characters.
const LONGEST_UNIT: usize = 12;

/// The text of a cell without surrounding white space, zero bytes and byte order marks, which some programs
/// write.
pub fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0' || c == '\u{feff}')
}

/// Reads a number; `None` if the text is not a number. Words such as `inf` and `nan` are not numbers.
///
/// Accepted are several minus signs, parentheses for negative amounts, one currency before the digits or one
/// unit after them, and thousands separators. These are the other mark, spaces or apostrophes before groups
/// of three digits (or of two digits before a last group of three, as in India).
pub fn parse_number(text: &str, mark: DecimalMark) -> Option<WrittenNumber<'_>> {
    let text = trimmed(text);
    let starts_like_number = |c: char| c.is_ascii_digit() || "+-.".contains(c);
    if mark == DecimalMark::Point
        && text.starts_with(starts_like_number)
        && text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
        && let Ok(value) = text.parse()
    {
        let padded = is_padded(text.trim_start_matches(['+', '-']));
        return Some(WrittenNumber { padded, ..WrittenNumber::plain(value) });
    }
    let (mut remaining, mut negative, mut signed, mut unit) = (text, false, false, None);
    let mut parenthesised = false;
    // A sign, a currency and a parenthesis may occur in any order, each once.
    loop {
        let unsigned = !signed && !parenthesised;
        if let Some(remainder) = remaining.strip_prefix('(').filter(|_| unsigned) {
            (remaining, parenthesised, negative) = (remainder.trim_start(), true, true);
        } else if let Some(remainder) = remaining.strip_prefix(MINUS).filter(|_| unsigned) {
            (remaining, signed, negative) = (remainder.trim_start(), true, true);
        } else if let Some(remainder) = remaining.strip_prefix('+').filter(|_| unsigned) {
            (remaining, signed) = (remainder.trim_start(), true);
        } else if let Some(remainder) = unit.is_none().then(|| after_currency(remaining)).flatten() {
            unit = Some(remaining[..remaining.len() - remainder.len()].trim_end());
            remaining = remainder;
        } else {
            break;
        }
    }
    if parenthesised {
        remaining = remaining.strip_suffix(')')?.trim_end();
    }
    let (mut number, length) = read_digits(remaining, mark)?;
    let (digits, remainder) = remaining.split_at(length);
    let mut remainder = remainder.trim_start_matches(|c: char| c.is_whitespace());
    let is_minus = |text: &str| text.strip_prefix(MINUS).is_some_and(str::is_empty);
    if is_minus(remainder) || remainder.starts_with('\u{2014}') && digits.ends_with(mark.character()) {
        // `20.-` is an amount without cents; `20-` is negative, as in accounting programs.
        if !digits.ends_with(mark.character()) {
            if signed || parenthesised {
                return None;
            }
            negative = true;
        }
        remainder = "";
    }
    if !remainder.is_empty() {
        if unit.is_some() || !is_unit(remainder) {
            return None;
        }
        unit = Some(remainder);
    }
    if negative {
        number.value = -number.value;
    }
    number.padded &= unit.is_none() && !parenthesised;
    Some(WrittenNumber { unit, ..number })
}

/// Whether a text is a number if its comma is a decimal mark.
pub fn has_decimal_comma(text: &str) -> bool {
    text.contains(',') && !text.contains('.') && trimmed(text).replacen(',', ".", 1).parse::<f64>().is_ok()
}

fn is_padded(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The text after a leading currency; `None` if there is no currency.
fn after_currency(text: &str) -> Option<&str> {
    let code = CURRENCY_CODES.iter().find_map(|code| text.strip_prefix(code));
    let remainder = code.or_else(|| text.strip_prefix(is_currency_symbol))?.trim_start();
    // Letters that begin a word are not a currency.
    remainder
        .starts_with(|c: char| c.is_ascii_digit() || c == '(' || c == '.' || MINUS.contains(&c))
        .then_some(remainder)
}

fn is_currency_symbol(c: char) -> bool {
    matches!(c, '$' | '\u{a2}'..='\u{a5}' | '\u{20a0}'..='\u{20cf}' | '\u{e3f}' | '\u{fdfc}')
}

/// Whether two currencies or units are the same: in the plural (`year`, `years`), in capital letters (`KG`,
/// `kg`), or as symbol and code of a currency (`$`, `USD`).
pub fn same_unit(a: &str, b: &str) -> bool {
    const CODES: [(&str, &str); 6] = [
        ("US$", "$"),
        ("USD", "$"),
        ("EUR", "\u{20ac}"),
        ("GBP", "\u{a3}"),
        ("JPY", "\u{a5}"),
        ("INR", "\u{20b9}"),
    ];
    let symbol = |unit| CODES.iter().find(|(code, _)| *code == unit).map_or(unit, |(_, symbol)| *symbol);
    let capitals = |x: &str, y: &str| x.len() > 1 && *x == y.to_uppercase() && *y == x.to_lowercase();
    let plural = |x: &str, y: &str| y.len() > 2 && x.strip_suffix('s') == Some(y);
    let (a, b) = (symbol(a), symbol(b));
    a == b || capitals(a, b) || capitals(b, a) || plural(a, b) || plural(b, a)
}

fn is_unit(text: &str) -> bool {
    let starts = |c: char| c.is_alphabetic() || is_currency_symbol(c) || "%\u{2030}\u{b0}".contains(c);
    // `m2` and `tCO2e` are units; the `h30` of `1h30` is not.
    let belongs = |c: char| {
        c.is_alphabetic() || is_currency_symbol(c) || "23%\u{2030}\u{b0}\u{b2}\u{b3}/.\u{b7}^*'\"".contains(c)
    };
    let digit = |c: u8| c.is_ascii_digit();
    text.starts_with(starts)
        && text.chars().count() <= LONGEST_UNIT
        && text.chars().all(belongs)
        && !text.as_bytes().windows(2).any(|pair| digit(pair[0]) && digit(pair[1]))
}

/// The number in the digits at the start of a text, and the number of bytes that belong to it.
fn read_digits(text: &str, mark: DecimalMark) -> Option<(WrittenNumber<'_>, usize)> {
    let run = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let character = |start: usize| text[start..].chars().next();
    let first = run(0);
    let mut plain = text[..first].to_string();
    let (mut end, mut separator, mut groups) = (first, None, Vec::new());
    while let Some(c) = character(end) {
        let separates = c == mark.other().character() || SPACES.contains(&c) || APOSTROPHES.contains(&c);
        let next = end + c.len_utf8();
        let size = run(next);
        if !separates || separator.is_some_and(|s| s != c) || !(2..=3).contains(&size) {
            break;
        }
        (separator, end) = (Some(c), next + size);
        plain.push_str(&text[next..end]);
        groups.push(size);
    }
    if !groups.is_empty() {
        let thousands = groups.iter().all(|size| *size == 3) && first <= 3;
        let lakhs = groups.len() > 1
            && groups.last() == Some(&3)
            && groups[..groups.len() - 1].iter().all(|size| *size == 2)
            && first <= 2;
        if first == 0 || text.starts_with('0') || !(thousands || lakhs) {
            return None;
        }
    }
    let integer_len = plain.len();
    if character(end) == Some(mark.character()) {
        let size = run(end + 1);
        plain.push('.');
        plain.push_str(&text[end + 1..end + 1 + size]);
        end += 1 + size;
    }
    let fraction = plain.len() - integer_len;
    if integer_len == 0 && fraction < 2 {
        return None;
    }
    let exponent = exponent_length(&text[end..]);
    plain.push_str(&text[end..end + exponent].replace(['d', 'D'], "e"));
    end += exponent;
    // A number is not followed by more digits or another mark.
    let marks = [mark, mark.other()].map(DecimalMark::character);
    if character(end).is_some_and(|c| c.is_ascii_digit() || marks.contains(&c)) {
        return None;
    }
    let single_group = groups.len() == 1 && separator == Some(mark.other().character()) && fraction == 0;
    let three_decimals = mark == DecimalMark::Comma
        && groups.is_empty()
        && fraction == 4
        && (1..=3).contains(&integer_len)
        && !text.starts_with('0');
    let number = WrittenNumber {
        value: plain.parse().ok()?,
        unit: None,
        grouped: !groups.is_empty(),
        ambiguous: exponent == 0 && (single_group || three_decimals),
        padded: fraction == 0 && exponent == 0 && groups.is_empty() && is_padded(&plain),
        plain: false,
    };
    Some((number, end))
}

/// The number of bytes of an exponent at the start of the text: `e3`, `E-12`, and Fortran's `D+03`, whose
/// sign distinguishes it from a unit.
fn exponent_length(text: &str) -> usize {
    let Some(exponent) = text.strip_prefix(['e', 'E', 'd', 'D']) else { return 0 };
    let sign = usize::from(exponent.starts_with(['+', '-']));
    if sign == 0 && text.starts_with(['d', 'D']) {
        return 0;
    }
    match exponent[sign..].bytes().take_while(u8::is_ascii_digit).count() {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Option<f64> {
        parse_number(text, DecimalMark::Point).map(|n| n.value)
    }

    #[test]
    fn numbers_in_many_notations() {
        for (text, expected) in [
            ("1", 1.0),
            ("-2.5", -2.5),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("1e3", 1e3),
            ("1E-3", 1e-3),
            ("1,234", 1234.0),
            ("1,234.56", 1234.56),
            ("-12,345,678.9", -12_345_678.9),
            ("12,34,567", 1_234_567.0),
            ("1 234", 1234.0),
            ("1\u{a0}234.5", 1234.5),
            ("1\u{202f}234\u{202f}567", 1_234_567.0),
            ("1'234.50", 1234.5),
            ("1\u{2019}234", 1234.0),
            ("\u{2212}5", -5.0),
            ("\u{2013}5.5", -5.5),
            ("(5)", -5.0),
            ("(1,234.50)", -1234.5),
            ("$1,234", 1234.0),
            ("$ 5", 5.0),
            ("-$5", -5.0),
            ("$-5", -5.0),
            ("($5)", -5.0),
            ("$(5)", -5.0),
            ("5 \u{20ac}", 5.0),
            ("\u{20ac}5.25", 5.25),
            ("USD 12", 12.0),
            ("12 USD", 12.0),
            ("6.1%", 6.1),
            ("6.1 %", 6.1),
            ("62 kg", 62.0),
            ("62kg", 62.0),
            ("3.5 km/h", 3.5),
            ("21 \u{b0}C", 21.0),
            ("  7\0", 7.0),
            ("0.123\0", 0.123),
            ("02139", 2139.0),
            ("1e999", f64::INFINITY),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_numbers() {
        for text in [
            "",
            "-",
            ".",
            "x",
            "nan",
            "inf",
            "-inf",
            "infinity",
            "1,5",
            "0,125",
            "1,23",
            "12,3456",
            "1,234,5",
            "1.2.3",
            "1 2",
            "12 34",
            "1,234 567",
            "2024-01-05",
            "10:30",
            "18-24",
            "<5",
            "1/2",
            "5'11",
            "--5",
            "((5))",
            "(5",
            "5)",
            "-(5)",
            "Q1",
            "A12",
            "1 two three",
            "kr",
            "$",
            "$x",
            "5 $ 6",
            "$5 %",
            "(-5)",
            "1.234,5",
            "0x1f",
            "١٢",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn commas_as_decimal_marks() {
        let value = |text| parse_number(text, DecimalMark::Comma).map(|n| (n.value, n.ambiguous));
        assert_eq!(value("1,5"), Some((1.5, false)));
        assert_eq!(value("1.234,5"), Some((1234.5, false)));
        assert_eq!(value("1 234,5 \u{20ac}"), Some((1234.5, false)));
        assert_eq!(value("83,425"), Some((83.425, true)));
        assert_eq!(value("83.425"), Some((83425.0, true)));
        assert_eq!(value("0,125"), Some((0.125, false)));
        assert_eq!(value("1,234,567"), None);
        assert_eq!(value("1.5"), None);
    }

    #[test]
    fn notations_of_numbers_are_detected() {
        let read = |text| parse_number(text, DecimalMark::Point).unwrap();
        assert!(read("02139").padded && read("02139").plain && !read("0.5").padded && !read("0").padded);
        assert!(read("1,234").ambiguous && !read("1,234.5").ambiguous && !read("1 234").ambiguous);
        assert_eq!(read("$5").unit, Some("$"));
        assert_eq!(read("US$ 5").unit, Some("US$"));
        assert_eq!(read("6.1 %").unit, Some("%"));
    }

    proptest! {
        /// Every double in every notation of this module is read back with the same bits.
        #[test]
        fn written_numbers_are_read_back(
            whole in 0u64..1_000_000_000_000,
            fraction in 0u32..1000,
            negative: bool,
            separator in prop::sample::select(vec!["", "G", " ", "\u{a0}", "\u{202f}", "'", "\u{2019}"]),
            unit in prop::sample::select(vec![("", ""), ("$", ""), ("\u{20ac} ", ""), ("", "%"), ("", " kg")]),
            minus in prop::sample::select(vec!["-", "\u{2212}", "\u{2013}", "("]),
            comma: bool,
        ) {
            let mark = if comma { DecimalMark::Comma } else { DecimalMark::Point };
            let digits = whole.to_string();
            let mut grouped = String::new();
            for (i, c) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i) % 3 == 0 {
                    let mark = mark.other().character();
                    if separator == "G" { grouped.push(mark) } else { grouped.push_str(separator) }
                }
                grouped.push(c);
            }
            let body = format!("{}{grouped}{}{fraction:03}5{}", unit.0, mark.character(), unit.1);
            let text = match (negative, minus) {
                (false, _) => body,
                (true, "(") => format!("({body})"),
                (true, minus) => format!("{minus}{body}"),
            };
            let expected: f64 = format!("{}{whole}.{fraction:03}5", if negative { "-" } else { "" }).parse().unwrap();
            let read = parse_number(&text, mark);
            prop_assert_eq!(read.map(|n| n.value.to_bits()), Some(expected.to_bits()), "{}", text);
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = parse_number(&text, DecimalMark::Point);
            let _ = parse_number(&text, DecimalMark::Comma);
        }
    }
}

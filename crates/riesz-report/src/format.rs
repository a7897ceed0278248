//! Short texts for numbers, with a true minus sign, and the widths of texts in pictures.

use riesz::explanation::Explanation;
use riesz::table::ColumnKind;

/// Writes a number with four significant digits and a true minus sign; whole numbers below a million in full.
pub fn number(x: f64) -> String {
    let size = x.abs();
    if !x.is_finite() {
        return if x.is_nan() {
            "not a number".into()
        } else {
            if x > 0.0 { "∞" } else { "−∞" }.into()
        };
    }
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        return scientific(x, 3);
    }
    let text = fixed(x, if size == 0.0 { 0 } else { (3 - size.log10().floor() as i32).max(0) as usize });
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Writes a p-value with three decimals, or with significant digits if it is below 0.0005.
pub(crate) fn pvalue(p: f64) -> String {
    if p >= 0.0005 { fixed(p, 3) } else { number(p) }
}

/// [`number`] with its sign in front, also if it is positive.
pub(crate) fn signed(x: f64) -> String {
    let text = number(x);
    if x > 0.0 { format!("+{text}") } else { text }
}

/// [`signed`] with `± reach`, half the length of an interval, to two digits; without it for `None`.
pub(crate) fn signed_within(x: f64, half_width: Option<f64>) -> String {
    match half_width {
        Some(half_width) => {
            format!("{} ± {}", signed(x), number(format!("{half_width:.1e}").parse().unwrap_or(half_width)))
        }
        None => signed(x),
    }
}

/// Scientific notation with `digits` digits after the point, for errors and bounds.
pub(crate) fn scientific(x: f64, digits: usize) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !x.is_finite() {
        return number(x);
    }
    format!("{x:.digits$e}").replace('-', "−")
}

/// Writes `x` with `decimals` digits after the point and a true minus sign; never "−0".
pub(crate) fn fixed(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|b| b == b'0' || b == b'.') => digits.to_string(),
        Some(digits) => format!("−{digits}"),
        None => text,
    }
}

/// About `count` round numbers in `lo..=hi`, with their labels of equal decimals.
pub(crate) fn ticks(lo: f64, hi: f64, count: usize) -> Vec<(f64, String)> {
    let raw = (hi - lo) / count.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    if !(raw > 0.0 && power.is_finite() && power > 0.0) {
        return Vec::new();
    }
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw * 0.999).unwrap_or(raw);
    let decimals = (-(step * 1.0001).log10().floor()).max(0.0) as usize;
    let is_plain = step >= 1e-4 && lo.abs().max(hi.abs()) < 1e6;
    let first = (lo / step - 1e-9).ceil();
    (0..=2 * count + 2)
        .map(|k| (first + k as f64) * step)
        .take_while(|t| *t <= hi + step * 1e-9)
        .map(|t| {
            (
                t,
                if is_plain {
                    fixed(t, decimals)
                } else {
                    scientific(if t.abs() < step / 2.0 { 0.0 } else { t }, 1)
                },
            )
        })
        .collect()
}

/// The smallest and the largest number; infinite if there are none.
pub(crate) fn range(values: impl IntoIterator<Item = f64>) -> [f64; 2] {
    values.into_iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)])
}

/// Positions of the values, the largest in magnitude first; ties keep their order.
pub(crate) fn order_by_magnitude(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
    order
}

/// Widths of the printable ASCII characters of DejaVu Sans in hundredths of the font size.
const WIDTHS: [u8; 95] = [
    31, 40, 45, 83, 63, 95, 77, 27, 39, 39, 50, 83, 31, 36, 31, 33, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    33, 33, 83, 83, 83, 53, 100, 68, 68, 69, 77, 63, 57, 77, 75, 29, 29, 65, 55, 86, 74, 78, 60, 78, 69, 63,
    61, 73, 68, 98, 68, 61, 68, 39, 33, 39, 83, 50, 50, 61, 63, 54, 63, 61, 35, 63, 63, 27, 27, 57, 27, 97,
    63, 61, 63, 63, 41, 52, 39, 63, 59, 81, 59, 59, 52, 63, 33, 63, 83,
];

/// Width of `text` at font size `size`; approximate outside ASCII.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| char_width(c) * size).sum()
}

fn char_width(c: char) -> f64 {
    match c as u32 {
        code @ 32..=126 => WIDTHS[code as usize - 32] as f64 / 100.0,
        0..=0x10ff => 0.66,
        0x2190..=0x2212 => 0.84,
        _ => 1.0,
    }
}

/// `text` cut to `width` at font size `size`; it ends in an ellipsis if it was cut.
pub(crate) fn shorten(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_string();
    }
    let mut used = size;
    let prefix: String = text
        .chars()
        .take_while(|&c| {
            used += char_width(c) * size;
            used <= width
        })
        .collect();
    format!("{}…", prefix.trim_end())
}

/// The column of a set of players that has one column; only such a set has a feature value to show.
pub(crate) fn single_column(explanation: &Explanation, set: usize) -> Option<usize> {
    if let [column] = explanation.set_columns(set)[..] { Some(column) } else { None }
}

/// The value of a row in a column: the name of a level, or a short number.
pub(crate) fn cell(explanation: &Explanation, row: usize, column: usize) -> String {
    let value = explanation.data.get(row, column);
    let column = &explanation.data.columns()[column];
    match column.kind {
        ColumnKind::Numeric => number(value),
        ColumnKind::Categorical { .. } => column.format(value),
    }
}

/// The label of a set of players: "bmi = 32.1", or only the name if it has no single column.
pub(crate) fn label(explanation: &Explanation, row: usize, set: usize) -> String {
    let name = explanation.set_name(set);
    match single_column(explanation, set) {
        Some(column) => format!("{name} = {}", cell(explanation, row, column)),
        None => name,
    }
}

/// Returns the fields of `head` and then those of `content`, which is the form of all result files.
pub(crate) fn record(
    mut head: serde_json::Value,
    content: &impl serde::Serialize,
) -> serde_json::Result<serde_json::Value> {
    if let (Some(fields), serde_json::Value::Object(content)) =
        (head.as_object_mut(), serde_json::to_value(content)?)
    {
        fields.extend(content);
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (32.1, "32.1"),
            (-1.0 / 3.0, "−0.3333"),
            (123456.7, "123457"),
            (1.5e-9, "1.500e−9"),
            (f64::NAN, "not a number"),
            (f64::INFINITY, "∞"),
        ];
        for (x, text) in cases {
            assert_eq!(number(x), text);
        }
        assert_eq!(signed(2.0), "+2");
        assert_eq!(fixed(-0.001, 2), "0.00");
    }

    #[test]
    fn ticks_are_round_and_few() {
        let labels: Vec<String> = ticks(-1.3, 2.2, 4).into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["−1", "0", "1", "2"]);
        assert!(ticks(1.0, 1.0, 5).is_empty());
        for (lo, hi) in [(-1e300, 1e300), (0.0, 1e-300), (1e6, 1e6 + 1e-3)] {
            assert!(ticks(lo, hi, 5).len() <= 13);
        }
    }

    #[test]
    fn long_names_end_in_an_ellipsis() {
        assert!(text_width(&shorten(&"W".repeat(500), 12.0, 90.0), 12.0) <= 90.0);
        assert_eq!(shorten("bmi", 12.0, 90.0), "bmi");
    }
}

//! Checks for numbers that are probably not measurements: labels of rows, and marks for missing values.

use super::problem::FrontEnd;

/// Minimum number of rows for suspicions; fewer numbers can look like anything by chance.
pub const FEW_ROWS: usize = 10;

/// Distance from the median, in interquartile ranges, beyond which every number is suspected.
const FAR: f64 = 1000.0;

/// Maximum number of different suspected marks in the warnings.
const NAMED_MARKS: usize = 3;

/// Minimum number of rows for suspecting that increasing whole numbers are row numbers.
const RISING_ROWS: usize = 20;

/// Distance from the median, in interquartile ranges, beyond which a usual mark of a missing value is
/// suspected.
const FAR_FOR_MARKS: f64 = 5.0;

/// Numbers that programs write for missing values, in rasters, surveys and instruments.
const USUAL_MARKS: [f64; 27] = [
    -9.0,
    -99.0,
    -999.0,
    -9999.0,
    -99999.0,
    -999_999.0,
    -9_999_999.0,
    -9999.9,
    -999.9,
    -99.9,
    -888.0,
    -8888.0,
    -777.0,
    -7777.0,
    -32768.0,
    88.0,
    99.0,
    888.0,
    999.0,
    9999.0,
    99999.0,
    999_999.0,
    65535.0,
    32767.0,
    1e20,
    1e30,
    2_147_483_647.0,
];

/// Pairs of a minimum number of rows and a maximum ratio of the range to the number of rows. Distinct whole
/// numbers within these limits are suspected to be row numbers. Random numbers would contain repetitions with
/// a probability of more than 0.99.
const DENSE_LABELS: [(usize, f64); 2] = [(FEW_ROWS, 1.0), (50, 5.0)];

/// The reason why the numbers of a column are probably not measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Suspicion {
    /// Distinct whole numbers, one for each row, such as row numbers and identifiers.
    CountsRows {
        /// The smallest number.
        first: f64,
        /// The second smallest number.
        second: f64,
    },
    /// Dates written as whole numbers: `20260131`, or `202601` for a month.
    Dates {
        /// The first date.
        first: f64,
    },
    /// A number that is far away from all others and may mark a missing value.
    FarAway {
        /// Its row, from 0.
        row: usize,
        /// The number.
        value: f64,
        /// The number of rows with this number.
        cells: usize,
        /// Its distance from the median, in interquartile ranges.
        distance: f64,
    },
}

/// Suspicions about the finite numbers of a column. Cost O(n log n).
pub fn suspicions(values: &[f64]) -> Vec<Suspicion> {
    let n = values.len();
    if n < FEW_ROWS {
        return Vec::new();
    }
    let sorted = crate::linalg::sorted(values);
    if sorted.iter().all(|value| is_written_date(*value)) && sorted[0] < sorted[n - 1] {
        return vec![Suspicion::Dates { first: values[0] }];
    }
    if number_rows(values, &sorted) {
        return vec![Suspicion::CountsRows { first: sorted[0], second: sorted[1] }];
    }
    // Usual marks are excluded from the estimate of the spread, since there can be many.
    let is_mark = |value: &f64| USUAL_MARKS.contains(value) || value.abs() > 1e30;
    let measurements: Vec<f64> = sorted.iter().copied().filter(|value| !is_mark(value)).collect();
    let m = measurements.len();
    if m < FEW_ROWS / 2 {
        return Vec::new();
    }
    let (lowest, highest, median) = (measurements[0], measurements[m - 1], measurements[m / 2]);
    let quartiles = measurements[3 * m / 4] - measurements[m / 4];
    let scale = if quartiles > 0.0 { quartiles } else { highest - lowest };
    if !(scale > 0.0 && scale.is_finite()) {
        return Vec::new();
    }
    let distance = |value: f64| ((value - median) / scale).abs();
    let outside = |value: f64| value < lowest || value > highest;
    let suspect = |value: f64| {
        quartiles > 0.0 && distance(value) > FAR
            || is_mark(&value) && outside(value) && distance(value) > FAR_FOR_MARKS
    };
    let mut marks: Vec<f64> = sorted.iter().copied().filter(|value| suspect(*value)).collect();
    marks.dedup();
    marks.sort_by(|a, b| distance(*b).total_cmp(&distance(*a)));
    let about = |value: f64| Suspicion::FarAway {
        row: values.iter().position(|v| *v == value).unwrap_or(0),
        value,
        cells: values.iter().filter(|v| **v == value).count(),
        distance: distance(value),
    };
    marks.into_iter().take(NAMED_MARKS).map(about).collect()
}

/// Whether numbers are probably labels of rows: distinct whole numbers that are dense, that increase from row
/// to row, or that have a constant difference.
fn number_rows(values: &[f64], sorted: &[f64]) -> bool {
    let n = sorted.len();
    let different = sorted.windows(2).all(|pair| pair[0] < pair[1]);
    if !different || sorted.iter().any(|value| value.fract() != 0.0) {
        return false;
    }
    let (step, range) = (sorted[1] - sorted[0], sorted[n - 1] - sorted[0] + 1.0);
    let steady = sorted.windows(2).all(|pair| pair[1] - pair[0] == step);
    let rising =
        n >= RISING_ROWS && range <= 10.0 * n as f64 && values.windows(2).all(|pair| pair[0] < pair[1]);
    let dense = DENSE_LABELS.iter().any(|(rows, ratio)| n >= *rows && range <= ratio * n as f64);
    steady || rising || dense
}

/// Whether a number is a date `YYYYMMDD` or `YYYYMM` in the years 1900 to 2099.
fn is_written_date(value: f64) -> bool {
    if value.fract() != 0.0 || !(190_000.0..21_000_000.0).contains(&value) {
        return false;
    }
    let digits = value as u32;
    let (year, month, day) = match digits {
        190_000..210_000 => (digits / 100, digits % 100, 1),
        _ => (digits / 10_000, digits / 100 % 100, digits % 100),
    };
    (1900..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day)
}

impl Suspicion {
    /// A warning about the column called `column`; `place` names a row, from 0. `can_ignore` tells whether
    /// leaving the column out is a remedy.
    pub fn sentence(
        &self,
        column: &str,
        place: impl Fn(usize) -> String,
        front: FrontEnd,
        can_ignore: bool,
    ) -> String {
        match self {
            Self::CountsRows { first, second } => {
                let remedy = match can_ignore {
                    true => format!("leave it out with {} if it is a label", front.left_out(&[column])),
                    false => "check that it is a measurement and no label".into(),
                };
                format!("column '{column}' numbers the rows ({first}, {second}, …): {remedy}")
            }
            Self::Dates { first } => format!(
                "column '{column}' looks like dates written as whole numbers ({first}), whose differences \
                 are not lengths of time: write days or months since some date, or give {} if they are \
                 names",
                front.choice(column, "text")
            ),
            Self::FarAway { row, value, cells, distance } => {
                let value = if value.abs() >= 1e16 { format!("{value:e}") } else { value.to_string() };
                let distance =
                    if *distance >= 1e6 { format!("{distance:.0e}") } else { format!("{distance:.0}") };
                let other_cells = match cells {
                    1 => String::new(),
                    cells => format!(", as are {} more cells", cells - 1),
                };
                format!(
                    "column '{column}': {} is {value}{other_cells}, {distance} interquartile ranges away \
                     from the median: if it marks a missing value, give {}",
                    place(*row),
                    front.missing_mark(&value)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_marks_are_suspected() {
        let count: Vec<f64> = (0..60).map(|i| f64::from((i * 7) % 60 + 100)).collect();
        assert_eq!(suspicions(&count), [Suspicion::CountsRows { first: 100.0, second: 101.0 }]);
        let wave = |i: i32| (f64::from(i) * 0.7).sin();
        let mut values: Vec<f64> = (0..60).map(wave).collect();
        assert_eq!(suspicions(&values), []);
        values[7] = -3.4e38;
        assert!(matches!(suspicions(&values)[..], [Suspicion::FarAway { row: 7, cells: 1, .. }]));
        let mut heights: Vec<f64> = (0..60).map(|i| 600.0 + 500.0 * wave(i)).collect();
        heights[3] = -9999.0;
        heights[9] = -9999.0;
        let suspected = suspicions(&heights);
        assert!(matches!(suspected[..], [Suspicion::FarAway { row: 3, cells: 2, .. }]));
        let sentence =
            suspected[0].sentence("height", |row| format!("row {}", row + 1), FrontEnd::CommandLine, true);
        assert!(sentence.contains("row 4 is -9999, as are 1 more cells"), "{sentence}");
        assert!(sentence.contains("--na-values '-9999'"), "{sentence}");
        let days: Vec<f64> = (0..60).map(|i| f64::from(20_260_101 + i % 28 + 100 * (i / 28))).collect();
        assert_eq!(suspicions(&days), [Suspicion::Dates { first: 20_260_101.0 }]);
        let months: Vec<f64> = (0..60).map(|i| f64::from(202_001 + i % 12 + 100 * (i / 12))).collect();
        assert_eq!(suspicions(&months), [Suspicion::Dates { first: 202_001.0 }]);
        // House prices are not months.
        let prices: Vec<f64> = (0..60).map(|i| f64::from(195_000 + i * i * 37 % 9973)).collect();
        assert_eq!(suspicions(&prices), []);
        // Identifiers of a sample of rows, and row numbers with gaps or another step.
        let labels = |row: fn(i32) -> i32| -> Vec<f64> { (0..60).map(|i| f64::from(row(i))).collect() };
        for row in [|i| (i * 37) % 60 * 2 + i % 2, |i| i + i / 7, |i| i * 1000, |i| 8 * i + i % 3] {
            assert!(
                matches!(suspicions(&labels(row))[..], [Suspicion::CountsRows { .. }]),
                "{:?}",
                labels(row)
            );
        }
        let incomes = labels(|i| 20_000 + 1000 * i + i * i * 37 % 977);
        assert_eq!(suspicions(&incomes), []);
        let counts = labels(|i| 1000 + i * i * 37 % 977);
        assert_eq!(suspicions(&counts), []);
        // Marks can be a third of the cells, there can be several, and most other numbers can be 0.
        let with_marks = |value: fn(i32) -> f64| -> Vec<f64> { (0..60).map(value).collect() };
        let sea = with_marks(|i| if i % 3 == 0 { -9999.0 } else { f64::from(i % 17) });
        let rain = with_marks(|i| if i % 20 == 1 { -9999.0 } else { f64::from(i % 10 / 9) });
        let survey = with_marks(|i| {
            if i % 9 == 0 {
                99.0
            } else if i % 9 == 1 {
                88.0
            } else {
                f64::from(1 + i % 5)
            }
        });
        for (values, marks) in [(sea, 1), (rain, 1), (survey, 2)] {
            assert_eq!(suspicions(&values).len(), marks, "{values:?}");
        }
        let ages = labels(|i| 20 + i * 7 % 80);
        assert_eq!(suspicions(&[ages, vec![99.0; 5]].concat()), []);
        // Few rows, and columns of two values, raise no suspicion.
        assert_eq!(suspicions(&count[..5]), []);
        assert_eq!(suspicions(&[vec![0.0; 30], vec![1.0; 3]].concat()), []);
    }
}

//! Numbers that are probably no measurements: labels of rows, and marks for "no data".

use super::problem::FrontEnd;

/// Below so many rows nothing is suspected, since a few numbers can look like anything.
pub const FEW_ROWS: usize = 10;

/// Distance from the median, in interquartile ranges, from which any number is suspected.
const FAR: f64 = 1000.0;

/// The distance from which a number is suspected that programs write where there is no value.
const FAR_FOR_MARKS: f64 = 5.0;

/// Numbers that programs write where there is no value, in rasters, surveys and instruments.
const USUAL_MARKS: [f64; 15] = [
    -9999.0,
    -999.0,
    -99.0,
    -99999.0,
    -999_999.0,
    -9_999_999.0,
    -32768.0,
    9999.0,
    999.0,
    99999.0,
    999_999.0,
    1e20,
    1e30,
    65535.0,
    32767.0,
];

/// Why the numbers of a column are probably no measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Suspicion {
    /// They are consecutive whole numbers, one a row, beginning with this one.
    CountsRows {
        /// The smallest of them.
        least: f64,
    },
    /// They are dates written as whole numbers: `20260131`, or `202601` for a month.
    Dates {
        /// The first of them.
        first: f64,
    },
    /// One of them is far away from all others, and may mark a missing value.
    FarAway {
        /// Its row, from 0.
        row: usize,
        /// The number.
        value: f64,
        /// The number of rows that have it.
        cells: usize,
        /// Its distance from the median, in interquartile ranges.
        distance: f64,
    },
}

/// Suspicions about the finite numbers of a column. Costs O(n log n).
pub fn suspicions(values: &[f64]) -> Vec<Suspicion> {
    let n = values.len();
    if n < FEW_ROWS {
        return Vec::new();
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let consecutive = sorted.windows(2).all(|pair| pair[1] - pair[0] == 1.0) && sorted[0].fract() == 0.0;
    if consecutive {
        return vec![Suspicion::CountsRows { least: sorted[0] }];
    }
    if sorted.iter().all(|value| is_written_date(*value)) && sorted[0] < sorted[n - 1] {
        return vec![Suspicion::Dates { first: values[0] }];
    }
    let median = sorted[n / 2];
    let range = sorted[3 * n / 4] - sorted[n / 4];
    if range <= 0.0 || !range.is_finite() {
        return Vec::new();
    }
    let distance = |value: f64| ((value - median) / range).abs();
    let mark = |value: f64| USUAL_MARKS.contains(&value) && distance(value) > FAR_FOR_MARKS;
    let suspect = |value: f64| distance(value) > FAR || mark(value);
    // The farthest one on either side; a mark that is not the farthest is looked for in the other rows.
    let ends = [sorted[0], sorted[n - 1]];
    let value = ends.into_iter().filter(|v| suspect(*v)).max_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    let Some(value) = value else { return Vec::new() };
    let row = values.iter().position(|v| *v == value).unwrap_or(0);
    let cells = values.iter().filter(|v| **v == value).count();
    vec![Suspicion::FarAway { row, value, cells, distance: distance(value) }]
}

/// Whether a number is `YYYYMMDD` or `YYYYMM` of the years 1900 to 2099.
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
    /// A warning about the column called `column`; `place` names a row, from 0.
    pub fn sentence(&self, column: &str, place: impl Fn(usize) -> String, front: FrontEnd) -> String {
        match self {
            Self::CountsRows { least } => format!(
                "column '{column}' numbers the rows ({least}, {}, …): leave it out with {} if it is a label",
                least + 1.0,
                front.left_out(&[column])
            ),
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
                let more = match cells {
                    1 => String::new(),
                    cells => format!(", as are {} more cells", cells - 1),
                };
                format!(
                    "column '{column}': {} is {value}{more}, {distance} interquartile ranges away from the \
                     median: if it stands for a missing value, give {}",
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
        assert_eq!(suspicions(&count), [Suspicion::CountsRows { least: 100.0 }]);
        let wave = |i: i32| (f64::from(i) * 0.7).sin();
        let mut values: Vec<f64> = (0..60).map(wave).collect();
        assert_eq!(suspicions(&values), []);
        values[7] = -3.4e38;
        assert!(matches!(suspicions(&values)[..], [Suspicion::FarAway { row: 7, cells: 1, .. }]));
        let mut heights: Vec<f64> = (0..60).map(|i| 600.0 + 500.0 * wave(i)).collect();
        heights[3] = -9999.0;
        heights[9] = -9999.0;
        let found = suspicions(&heights);
        assert!(matches!(found[..], [Suspicion::FarAway { row: 3, cells: 2, .. }]));
        let sentence = found[0].sentence("height", |row| format!("row {}", row + 1), FrontEnd::CommandLine);
        assert!(sentence.contains("row 4 is -9999, as are 1 more cells"), "{sentence}");
        assert!(sentence.contains("--na-values '-9999'"), "{sentence}");
        let days: Vec<f64> = (0..60).map(|i| f64::from(20_260_101 + i % 28 + 100 * (i / 28))).collect();
        assert_eq!(suspicions(&days), [Suspicion::Dates { first: 20_260_101.0 }]);
        let months: Vec<f64> = (0..60).map(|i| f64::from(202_001 + i % 12 + 100 * (i / 12))).collect();
        assert_eq!(suspicions(&months), [Suspicion::Dates { first: 202_001.0 }]);
        // Prices of houses are no months.
        let prices: Vec<f64> = (0..60).map(|i| f64::from(195_000 + 250 * i)).collect();
        assert_eq!(suspicions(&prices), []);
        // Too few rows, and columns of two values, say nothing.
        assert_eq!(suspicions(&count[..5]), []);
        assert_eq!(suspicions(&[vec![0.0; 30], vec![1.0; 3]].concat()), []);
    }
}

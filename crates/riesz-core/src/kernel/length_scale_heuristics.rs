//! Rules that compute length scales from the data if none are given.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::table::{ColumnKind, Table};

/// The centre and the scale with which each column is standardised.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnScaling {
    /// Number that is subtracted from each column.
    pub center: Vec<f64>,
    /// Number by which each column is divided; 1 for constant and categorical columns.
    pub scale: Vec<f64>,
}

impl ColumnScaling {
    /// Leaves all columns unchanged: centre 0 and scale 1.
    pub fn raw(width: usize) -> Self {
        Self { center: vec![0.0; width], scale: vec![1.0; width] }
    }

    /// The mean and the standard deviation of each numeric column. The divisor is n, as in scikit-learn's
    /// `StandardScaler`.
    pub fn standardised(x: &Table) -> Self {
        let mut units = Self::raw(x.width());
        for (j, column) in x.columns().iter().enumerate() {
            if column.kind == ColumnKind::Numeric {
                (units.center[j], units.scale[j]) = mean_and_scale(x.column(j));
            }
        }
        units
    }
}

/// The mean and the standard deviation, which is replaced by 1 if it is within the rounding error of the
/// mean, as in a constant column.
fn mean_and_scale(x: &[f64]) -> (f64, f64) {
    let (mean, variance) = mean_variance(x);
    let sd = variance.sqrt();
    (mean, if sd > 1e-12 * mean.abs() { sd } else { 1.0 })
}

/// Mean and variance with divisor n; every term is divided by n, so that sums do not overflow.
pub fn mean_variance(x: &[f64]) -> (f64, f64) {
    let n = x.len().max(1) as f64;
    let mean = x.iter().map(|v| v / n).sum::<f64>();
    (mean, x.iter().map(|v| (v - mean) * ((v - mean) / n)).sum())
}

/// Rule that computes a length scale if none is given.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthScale {
    /// The median distance between two rows.
    Median,
    /// The median distance between two values of the column, column by column.
    MedianPerFeature,
    /// scikit-learn's `gamma="scale"`: `γ = 1/(d · variance of all entries)`, `ℓ = 1/√(2γ)`.
    Scale,
    /// scikit-learn's `gamma="auto"`: `γ = 1/d`.
    Auto,
    /// A given length scale, in units of the columns' scale.
    Fixed(f64),
}

/// The rules and their names in expressions.
pub(super) const RULES: [(&str, LengthScale); 4] = [
    ("median", LengthScale::Median),
    ("median_per_feature", LengthScale::MedianPerFeature),
    ("scale", LengthScale::Scale),
    ("auto", LengthScale::Auto),
];

/// Maximum number of rows, evenly spaced in the table, between which the median rules take distances.
const MEDIAN_ROWS: usize = 1000;

/// A length scale for each of `columns`, in the column's own units.
///
/// # Errors
/// [`Error::Parameter`] if the data do not determine a positive length scale (all rows equal).
pub fn length_scales(
    x: &Table,
    columns: &[usize],
    units: &ColumnScaling,
    rule: LengthScale,
) -> Result<Vec<f64>> {
    let d = columns.len() as f64;
    let scaled = |j: usize| x.column(j).iter().map(move |v| (v - units.center[j]) / units.scale[j]);
    let common = match rule {
        LengthScale::Fixed(value) => value,
        LengthScale::Auto => (d / 2.0).sqrt(),
        LengthScale::Scale => {
            let numbers: Vec<f64> = columns.iter().flat_map(|&j| scaled(j)).collect();
            let (_, variance) = mean_variance(&numbers);
            // As in scikit-learn, gamma is 1 if the variance is 0.
            if variance == 0.0 { 0.5_f64.sqrt() } else { (d * variance / 2.0).sqrt() }
        }
        LengthScale::Median => {
            let data: Vec<Vec<f64>> = columns.iter().map(|&j| subsample_rows(scaled(j).collect())).collect();
            let n = data.first().map_or(0, Vec::len);
            let mut distances = Vec::with_capacity(n * n / 2);
            for i in 0..n {
                for k in 0..i {
                    distances.push(data.iter().map(|c| (c[i] - c[k]).powi(2)).sum::<f64>().sqrt());
                }
            }
            median(distances)
        }
        LengthScale::MedianPerFeature => {
            let scale_of = |&j: &usize| {
                let c = subsample_rows(x.column(j).to_vec());
                let distances = |(i, &u): (usize, &f64)| c[..i].iter().map(move |v| (u - v).abs());
                let median_distance = median(c.iter().enumerate().flat_map(distances).collect());
                // If more than half of the pairs are ties, the standard deviation is used instead.
                if median_distance > 0.0 { median_distance } else { mean_and_scale(&c).1 }
            };
            return Ok(columns.iter().map(scale_of).collect());
        }
    };
    if !(common.is_finite() && common > 0.0) {
        return Err(Error::parameter(
            "length_scale",
            common,
            "the rows do not determine a positive length scale (are they all equal?); give one",
        ));
    }
    Ok(columns.iter().map(|&j| common * units.scale[j]).collect())
}

fn subsample_rows(values: Vec<f64>) -> Vec<f64> {
    let n = values.len();
    if n <= MEDIAN_ROWS {
        return values;
    }
    (0..MEDIAN_ROWS).map(|k| values[k * n / MEDIAN_ROWS]).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let middle = values.len() / 2;
    let upper = *values.select_nth_unstable_by(middle, f64::total_cmp).1;
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = values[..middle].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (lower + upper) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    #[test]
    fn constant_columns_have_no_spread() {
        // The mean of 20 ones, summed as twentieths, differs from 1 by rounding.
        for value in [0.0, 1.0, -0.3, 1e9, 1e-9] {
            for n in [1, 3, 20, 49, 1500] {
                let x = Table::from_column_major(vec![Column::numeric("a")], n, vec![value; n]).unwrap();
                let lengths =
                    length_scales(&x, &[0], &ColumnScaling::raw(1), LengthScale::MedianPerFeature).unwrap();
                assert_eq!(lengths, [1.0], "{n} times {value}");
            }
        }
    }
}

//! Choice of inducing points: a few points that represent many rows.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::kernel::ColumnScaling;
use crate::kmeans::KMeans;
use crate::linalg::Matrix;
use crate::table::{ColumnKind, Table};

/// Number of sampled rows per inducing point.
const ROWS_PER_POINT: usize = 20;

/// Number of steps of Lloyd's algorithm; most of the improvement is in the first few.
const LLOYD_STEPS: usize = 10;

/// Returns `count` inducing points for `x`, or as many as it has distinct rows. They are cluster means from
/// k-means on standardised columns, on a seeded sample of 20 rows per point. If a column is categorical,
/// means are undefined: the row of each cluster that is nearest to its mean is used. Two different levels are
/// then as far apart as two rows that differ by one standard deviation of a numeric column. Cost O(count²
/// columns).
///
/// # Errors
/// [`Error::Parameter`] if `count` is 0; [`Error::TooFew`] without rows or columns.
pub fn inducing_points(x: &Table, count: usize, seed: u64) -> Result<Table> {
    crate::checks::check_rows(x, x.rows(), 1)?;
    if count == 0 {
        return Err(Error::parameter("number of inducing points", count, "there is at least one"));
    }
    let rows = x.sample_rows(ROWS_PER_POINT.saturating_mul(count), seed);
    let sample = distinct(&x.select_rows(&rows));
    if sample.rows() <= count {
        return Ok(sample);
    }
    let (units, n) = (ColumnScaling::standardised(x), sample.rows());
    let encoded: Vec<Vec<f64>> = (0..x.width()).flat_map(|j| encode(&sample, j, &units)).collect();
    let data = (0..n).flat_map(|i| encoded.iter().map(move |column| column[i])).collect();
    let features = Matrix::from_row_major(n, encoded.len(), data);
    let labels = KMeans::with_max_steps(&features, count, 1, seed, LLOYD_STEPS).labels;
    let mut clusters = vec![Vec::new(); count];
    labels.iter().enumerate().for_each(|(i, &label)| clusters[label].push(i));
    clusters.retain(|members| !members.is_empty());
    let mean = |column: &[f64], members: &[usize]| {
        members.iter().map(|&i| column[i]).sum::<f64>() / members.len() as f64
    };
    if x.columns().iter().all(|column| column.kind == ColumnKind::Numeric) {
        let values = (0..x.width()).flat_map(|j| clusters.iter().map(move |members| (j, members)));
        let values = values.map(|(j, members)| mean(sample.column(j), members)).collect();
        return Table::from_column_major(x.columns().to_vec(), clusters.len(), values)
            .map(|points| distinct(&points));
    }
    let nearest = |members: &Vec<usize>| {
        let center: Vec<f64> = encoded.iter().map(|column| mean(column, members)).collect();
        let distance =
            |i: usize| features.row(i).iter().zip(&center).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        members.iter().copied().min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or(members[0])
    };
    Ok(sample.select_rows(&clusters.iter().map(nearest).collect::<Vec<_>>()))
}

/// Returns the columns that encode column j for squared distances: the standardised column, or one scaled
/// indicator column per level.
fn encode(x: &Table, j: usize, units: &ColumnScaling) -> Vec<Vec<f64>> {
    let column = x.column(j);
    match &x.columns()[j].kind {
        ColumnKind::Categorical { levels } => {
            let is = |level: usize| {
                column.iter().map(|&v| if v == level as f64 { 0.5_f64.sqrt() } else { 0.0 }).collect()
            };
            (0..levels.len()).map(is).collect()
        }
        _ => vec![column.iter().map(|v| (v - units.center[j]) / units.scale[j]).collect()],
    }
}

/// Returns the distinct rows of `x`, in the order of their first occurrences.
pub fn distinct(x: &Table) -> Table {
    x.select_rows(&distinct_rows_except(x, &[], x.rows()))
}

/// Returns the first `count` rows that are equal to no row in `chosen` and to no earlier row.
pub(crate) fn distinct_rows_except(x: &Table, chosen: &[usize], count: usize) -> Vec<usize> {
    let bits = |i: usize| x.row(i).iter().map(|v| (v + 0.0).to_bits()).collect::<Vec<u64>>();
    let mut seen: HashSet<Vec<u64>> = chosen.iter().map(|&i| bits(i)).collect();
    (0..x.rows()).filter(|&i| seen.insert(bits(i))).take(count).collect()
}

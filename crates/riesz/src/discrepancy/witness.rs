//! The witness function: the difference of two samples along a feature.

use serde::{Deserialize, Serialize};

use super::kernels::kernel_or_default;
use super::{check_sizes, pooled};
use crate::attribution::std_error::{ValueRange, Variance};
use crate::error::Result;
use crate::kernel::{Columns, Kernel};
use crate::linalg::add_multiple;
use crate::simd::Isa;
use crate::table::{ColumnKind, Players, Table};

/// The number of grid points of a numeric column.
const POINTS: usize = 101;

/// The difference of two samples along a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// The name of the column.
    pub column: String,
    /// Grid points along the column: 101 numbers from the smallest to the largest, or the codes of all
    /// levels.
    #[serde(rename = "at")]
    pub grid: Vec<f64>,
    /// The names of the levels, for a categorical column.
    pub levels: Option<Vec<String>>,
    /// The witness function at the grid points: positive where the first sample has more mass.
    pub values: Vec<f64>,
    /// The standard error of each value: ± 1.96 standard errors cover the true value with a probability of
    /// about 95 % or more, in small samples too.
    pub std_error: Vec<f64>,
}

/// Returns the witness function of MMD along one column: the mean of `k_j(x, t)` over the first sample minus
/// that over the second (Gretton, Borgwardt, Rasch, Schölkopf and Smola 2012, §2.3). All other factors of the
/// kernel (by default [`default_kernel`](super::default_kernel)) are 1. Cost O(n + m) for each grid point.
///
/// # Errors
/// [`Error::UnknownColumn`](crate::Error::UnknownColumn), [`Error::TooFew`](crate::Error::TooFew) for a
/// sample of one row, and as [`TwoSampleTest::run`](super::TwoSampleTest::run) for tables and kernels.
pub fn witness(x: &Table, z: &Table, kernel: Option<&Kernel>, column: &str) -> Result<Witness> {
    check_sizes([x.rows(), z.rows()], 2)?;
    let pooled = pooled(x, z)?;
    let j = pooled.index_of(column)?;
    let kernel = kernel_or_default(kernel, &pooled)?;
    let groups = Players::singletons(pooled.columns());
    let products = kernel.products(pooled.columns(), &groups)?;
    let (n, isa) = (x.rows(), Isa::detect());
    let (grid, levels): (Vec<f64>, _) = match &pooled.columns()[j].kind {
        ColumnKind::Categorical { levels } => {
            ((0..levels.len()).map(|k| k as f64).collect(), Some(levels.clone()))
        }
        ColumnKind::Numeric => {
            let range = ValueRange::over(pooled.column(j).iter().copied());
            let (low, high) = (range.lowest(), range.highest());
            let step = |k: usize| low + (high - low) * (k as f64 / (POINTS - 1) as f64);
            ((0..POINTS).map(step).collect(), None)
        }
    };
    let (mut values, mut std_error) = (Vec::new(), Vec::new());
    let (mut factor, mut total) = (vec![0.0; pooled.rows()], vec![0.0; pooled.rows()]);
    let mut point = pooled.row(0);
    for &t in &grid {
        point[j] = t;
        total.fill(0.0);
        for product in &products {
            if let Some(k) = product.players.iter().position(|&p| p == j) {
                product.factor(isa, k, Columns::from_row(&pooled, 0), &point, &mut factor);
                add_multiple(&mut total, product.scale, &factor);
            }
        }
        let range = ValueRange::over(total.iter().copied()).width();
        let mut variance = Variance::default();
        let [mean_x, mean_z] = [&total[..n], &total[n..]].map(|part| mean(part, range, &mut variance));
        values.push(mean_x - mean_z);
        std_error.push(variance.std_error());
    }
    Ok(Witness { column: column.into(), grid, levels, values, std_error })
}

/// Returns the mean of two or more numbers, and adds its variance to `variance`. Further draws may differ by
/// up to `range`.
fn mean(values: &[f64], range: f64, variance: &mut Variance) -> f64 {
    let n = values.len() as f64;
    let mean = crate::linalg::mean(values);
    variance.add(values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0) / n, n - 1.0);
    variance.inflate(range / n);
    mean
}

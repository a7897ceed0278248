//! Where along a feature two samples differ.

use serde::{Deserialize, Serialize};

use super::{default_kernel, pooled};
use crate::error::Result;
use crate::kernel::Columns;
use crate::kernel::Kernel;
use crate::simd::Isa;
use crate::table::{ColumnKind, Groups, Table};

/// Points of the line.
const POINTS: usize = 101;

/// The difference of two samples along a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// The column.
    pub column: String,
    /// Places along it: 101 numbers from the least to the largest, or the codes of all levels.
    pub at: Vec<f64>,
    /// The levels' names, for a categorical column.
    pub levels: Option<Vec<String>>,
    /// The witness function there: positive where the first sample has more mass.
    pub values: Vec<f64>,
    /// Its standard error.
    pub std_error: Vec<f64>,
}

/// The witness function of MMD along one column alone: the mean of `k_j(x, t)` over the first sample less that over the second (Gretton, Borgwardt, Rasch,
/// Schölkopf and Smola 2012, §2.3), where all other factors of the kernel, by default [`default_kernel`], are 1. Cost O(n + m) a place.
///
/// # Errors
/// [`Error::UnknownColumn`](crate::Error::UnknownColumn) and what [`TwoSampleTest::run`](super::TwoSampleTest::run) says of tables and kernels.
pub fn witness(x: &Table, z: &Table, kernel: Option<&Kernel>, column: &str) -> Result<Witness> {
    let pooled = pooled(x, z)?;
    let j = pooled.index_of(column)?;
    let kernel = match kernel {
        Some(kernel) => kernel.clone(),
        None => default_kernel(&pooled)?,
    };
    kernel.validate(pooled.width())?;
    let groups = Groups::singletons(pooled.columns());
    let products = kernel.products(pooled.columns(), &groups)?;
    let (n, isa) = (x.rows(), Isa::detect());
    let (at, levels): (Vec<f64>, _) = match &pooled.columns()[j].kind {
        ColumnKind::Categorical { levels } => {
            ((0..levels.len()).map(|k| k as f64).collect(), Some(levels.clone()))
        }
        ColumnKind::Numeric => {
            let values = pooled.column(j);
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let step = |k: usize| low + (high - low) * (k as f64 / (POINTS - 1) as f64);
            ((0..POINTS).map(step).collect(), None)
        }
    };
    let (mut values, mut std_error) = (Vec::new(), Vec::new());
    let (mut factor, mut total) = (vec![0.0; pooled.rows()], vec![0.0; pooled.rows()]);
    let mut place = pooled.row(0);
    for &t in &at {
        place[j] = t;
        total.fill(0.0);
        for product in &products {
            if let Some(k) = product.players.iter().position(|&p| p == j) {
                product.factor(isa, k, Columns::of(&pooled, 0), &place, &mut factor);
                total.iter_mut().zip(&factor).for_each(|(t, f)| *t += product.scale * f);
            }
        }
        let [first, second] = [&total[..n], &total[n..]].map(mean_and_error);
        values.push(first.0 - second.0);
        std_error.push(first.1.hypot(second.1));
    }
    Ok(Witness { column: column.into(), at, levels, values, std_error })
}

/// The mean, and its standard error.
fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, (variance / n).sqrt())
}

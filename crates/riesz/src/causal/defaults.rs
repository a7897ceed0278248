//! Default kernels of studies, starting values of tuning, and priors of hyper-parameters.

use crate::gp::hyperparameters::HyperParameter;
use crate::kernel::{ColumnScaling, Kernel, Parameter};
use crate::table::Table;

/// Initial value of noises in tuning, in units of the variance of the response.
pub(super) const START_NOISE: f64 = 0.1;

/// Initial value of ridges in tuning.
pub(super) const START_RIDGE: f64 = 0.1;

/// Returns a product kernel over columns. Numeric columns have a Gaussian factor, with length scales that
/// start at the columns' standard deviations. Categorical columns have a factor for the similarity of
/// different levels.
pub(super) fn default_kernel(x: &Table) -> Kernel {
    let (numbers, levels) = x.columns_by_kind();
    let scale = ColumnScaling::standardised(x).scale;
    let length_scale = numbers.iter().map(|&j| scale[j]).collect();
    Kernel::gaussian_and_categorical(numbers, length_scale, true, levels)
}

/// Returns the hyper-parameter with its default prior, where a scale stays fixed.
pub(super) fn with_fixed_scale(parameter: Parameter) -> HyperParameter {
    match &parameter.name[..] {
        "scale" => HyperParameter::fixed(parameter),
        _ => HyperParameter::with_default_prior(parameter),
    }
}

/// Number of rows with which starts are searched in studies with more than twice as many rows.
const START_ROWS: usize = 150;

/// Returns the rows with which starts are searched: all, or some evenly spaced ones.
pub(super) fn start_rows(rows: usize) -> Vec<usize> {
    if rows <= 2 * START_ROWS {
        return (0..rows).collect();
    }
    evenly_spaced(START_ROWS, rows)
}

/// Maximum number of rows of a study from which hyper-parameters are learnt.
pub(super) const MAX_TUNING_ROWS: usize = 1000;

/// Returns the indices of all rows, or of `count` evenly spaced ones.
pub(super) fn evenly_spaced(count: usize, rows: usize) -> Vec<usize> {
    let count = count.min(rows);
    (0..count).map(|k| k * rows / count).collect()
}

//! Checks of tables and parameters that all estimators share.

use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::Table;

/// Checks the common requirements of all estimators: at least one column, at least `minimum` rows and one
/// target per row.
pub fn check_rows(x: &Table, n_targets: usize, minimum: usize) -> Result<()> {
    if x.width() == 0 {
        return Err(Error::too_few("the table", 1, "feature column is"));
    }
    if x.rows() < minimum {
        let unit = if minimum == 1 { "row is" } else { "rows are" };
        return Err(Error::too_few(format!("a table of {} row(s)", x.rows()), minimum, unit));
    }
    sized("the target", "numbers", x.rows(), n_targets, "one per row of the table")
}

/// Checks that all targets are finite.
pub fn check_targets(y: &Matrix) -> Result<()> {
    check_finite(y.data(), y.cols())
}

/// Checks that the values of `columns` targets, row by row, are finite.
pub fn check_finite(targets: &[f64], columns: usize) -> Result<()> {
    match targets.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(position) => Err(Error::not_finite(position / columns, "target", targets[position])),
    }
}

/// Checks weights of rows, which must be positive.
pub fn check_positive_weights(x: &Table, weights: Option<&[f64]>, minimum: usize) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    check_rows(x, weights.len(), minimum)?;
    match weights.iter().find(|w| !(w.is_finite() && **w > 0.0)) {
        None => Ok(()),
        Some(bad) => Err(Error::parameter("sample_weight", bad, "weights are positive numbers")),
    }
}

/// Checks that the kernel does not overflow on its diagonal, where a positive definite kernel is largest.
pub fn check_range(kernel: &Kernel, x: &Table) -> Result<()> {
    let diagonal = kernel.diagonal(x);
    match diagonal.iter().position(|k| !k.is_finite()) {
        None => Ok(()),
        Some(row) => Err(Error::overflow(
            format!("the kernel at row {}", row + 1),
            "standardise the columns or change the kernel's parameters",
        )),
    }
}

/// Checks that computed numbers are finite: [`Error::Overflow`] of `subject` if one of them is not.
pub fn check_overflow(numbers: &[f64], subject: &str, remedy: &'static str) -> Result<()> {
    if numbers.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    Err(Error::overflow(subject, remedy))
}

/// Checks that the parameter `name` is finite and positive.
pub fn positive(name: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::parameter(name, value, "it is a positive number"))
}

/// Checks that the parameter `name` is finite and not negative; `allowed` is the rule for the message.
pub fn not_negative(name: &str, value: f64, allowed: &str) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::parameter(name, value, allowed))
}

/// Whether a target varies by more than the rounding error of its mean.
pub fn has_spread(mean: f64, variance: f64) -> bool {
    variance.sqrt() > 1e-12 * mean.abs() && variance > 0.0 && variance.is_finite()
}

/// Checks that a target can be normalised: [`Error::Target`] if it is constant up to rounding errors.
pub fn check_spread(target: &str, mean: f64, variance: f64) -> Result<()> {
    if has_spread(mean, variance) {
        return Ok(());
    }
    Err(Error::target(
        target,
        format!(
            "has no spread to normalise by (mean {mean:.4e}, variance {variance:.1e}): there is nothing to \
             learn, or set normalize_y to false"
        ),
    ))
}

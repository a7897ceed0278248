//! Importance of features over rows, with standard errors.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::explanation::Explanation;

/// The importance of each set of players over the rows of an [`Explanation`], for one output.
///
/// The rows are treated as an independent random sample of the population of rows; standard errors measure
/// the variation between such samples. If values are estimated, their own errors are included: they increase
/// the standard errors, and increase |value| on average.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Importance {
    /// The number of rows.
    pub rows: usize,
    /// For each set: the mean of |value|, the usual measure of global importance.
    pub mean_abs: Vec<f64>,
    /// For each set: the mean value.
    pub mean: Vec<f64>,
    /// For each set: the standard error of `mean_abs` over rows, the standard deviation of |value| over the
    /// root of the number of rows; `None` for a single row.
    pub std_error: Option<Vec<f64>>,
    /// For each set: the .05, .5 and .95 quantiles of |value| over rows, linear between order statistics.
    pub quantiles: Vec<[f64; 3]>,
    /// The sets, from the most to the least important; ties keep their order.
    pub order: Vec<usize>,
    /// For each position in `order` but the last, the probability that this set and the next are in this
    /// order, by the normal approximation of the mean of their paired differences; `None` for a single row.
    pub in_order: Option<Vec<f64>>,
}

impl Importance {
    /// Returns, for each set, the confidence interval of the mean of |value| over all rows at this level, by
    /// Student's distribution (exact for normal values, asymptotic for others). `None` for a single row, or
    /// unless the level is between 0 and 1.
    pub fn interval(&self, level: f64) -> Option<Vec<[f64; 2]>> {
        let errors = self.std_error.as_ref()?;
        let student = StudentsT::new(0.0, 1.0, (self.rows - 1) as f64).ok()?;
        let quantile = (level > 0.0 && level < 1.0).then(|| student.inverse_cdf(0.5 + level / 2.0))?;
        let ends =
            |(mean, error): (&f64, &f64)| [(mean - quantile * error).max(0.0), mean + quantile * error];
        Some(self.mean_abs.iter().zip(errors).map(ends).collect())
    }
}

/// Returns the standard error of the mean of at least two numbers.
pub(super) fn std_error(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let squares: f64 = numbers.iter().map(|v| (v - mean) * (v - mean)).sum();
    (squares / (n - 1.0) / n).sqrt()
}

/// Returns a quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan 1996,
/// numpy's default); 0 for an empty list.
fn quantile(sorted: &[f64], level: f64) -> f64 {
    let position = level * sorted.len().saturating_sub(1) as f64;
    let (low, share) = (position.floor() as usize, position.fract());
    let order_statistic = |k: usize| sorted.get(k).copied().unwrap_or(0.0);
    if share == 0.0 {
        order_statistic(low)
    } else {
        order_statistic(low) + share * (order_statistic(low + 1) - order_statistic(low))
    }
}

impl Explanation {
    /// Returns the importance of sets for output `output` over the rows, with standard errors. Cost O(rows ·
    /// sets · ln rows).
    ///
    /// ```
    /// use riesz::{Explainer, KernelExpansion, Kernel, Matrix, Table};
    ///
    /// let x = Table::from_rows(&(0..30).map(|i| [f64::from(i % 7), f64::from(i % 5) / 9.0]).collect::<Vec<_>>())?;
    /// let coef = Matrix::column_vector((0..30).map(|i| f64::from(i).cos()).collect());
    /// let model = KernelExpansion::new(Kernel::gaussian(&[3.0, 3.0]), x.clone(), coef, vec![0.0])?;
    /// let importance = Explainer::interventional(&model, &x)?.explain(&x)?.importance(0);
    /// assert_eq!(importance.order, [0, 1]);
    /// let (errors, sure) = (importance.std_error.unwrap(), importance.in_order.unwrap());
    /// assert!(errors[0] < importance.mean_abs[0] && sure[0] > 0.99);
    /// # Ok::<(), riesz::Error>(())
    /// ```
    pub fn importance(&self, output: usize) -> Importance {
        let (n, sets) = (self.rows(), self.sets());
        let sizes: Vec<Vec<f64>> =
            (0..sets).map(|k| (0..n).map(|i| self.row_values(i, output)[k].abs()).collect()).collect();
        let mean = |k: usize| (0..n).map(|i| self.row_values(i, output)[k]).sum::<f64>() / n.max(1) as f64;
        let order = self.ranking(output);
        let after = |pair: &[usize]| {
            let differences: Vec<f64> =
                sizes[pair[0]].iter().zip(&sizes[pair[1]]).map(|(a, b)| a - b).collect();
            let (mean, error) = (differences.iter().sum::<f64>() / n as f64, std_error(&differences));
            // Differences that are the same in all rows have no error; equal importances have no order.
            if error > 0.0 {
                Normal::standard().cdf(mean / error)
            } else {
                if mean > 0.0 { 1.0 } else { 0.5 }
            }
        };
        let quantiles = |set_sizes: &Vec<f64>| {
            let mut sorted = set_sizes.clone();
            sorted.sort_by(f64::total_cmp);
            [0.05, 0.5, 0.95].map(|level| quantile(&sorted, level))
        };
        Importance {
            rows: n,
            mean_abs: self.mean_abs(output),
            mean: (0..sets).map(mean).collect(),
            std_error: (n > 1).then(|| sizes.iter().map(|set_sizes| std_error(set_sizes)).collect()),
            quantiles: sizes.iter().map(quantiles).collect(),
            in_order: (n > 1).then(|| order.windows(2).map(after).collect()),
            order,
        }
    }
}

//! Joint normal distribution of the columns of a reference, or of their normal scores (a Gaussian copula),
//! and its conditional distributions.

use statrs::distribution::ContinuousCDF;

use crate::error::{Error, Result};
use crate::game::ReferenceRows;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::random::{Random, RngExt, StandardNormal};
use crate::table::{Column, ColumnKind};

/// Joint normal distribution of all columns.
pub(super) struct JointNormal {
    mean: Vec<f64>,
    /// Standard deviations; 1 for constant columns.
    scale: Vec<f64>,
    /// Correlations; 0 for constant columns.
    correlation: Matrix,
    /// For each column, its sorted values and their normal scores; empty without scores.
    scores: Vec<(Vec<f64>, Vec<f64>)>,
}

/// Conditional distribution of the absent columns given the present ones.
pub(super) struct ConditionalNormal<'n> {
    normal: &'n JointNormal,
    conditioned: Vec<usize>,
    absent: Vec<usize>,
    /// Regression coefficients of the absent columns on the known ones (absent × known), in standard units.
    slope: Matrix,
    /// Cholesky factor of the conditional covariance of the absent columns (absent × absent).
    lower: Matrix,
}

impl JointNormal {
    /// Fits the distribution of the columns or, with `with_scores`, of their normal scores.
    ///
    /// # Errors
    /// [`Error::TooFew`] for fewer than two rows; [`Error::WrongKind`] for categories.
    pub(super) fn new(reference: &ReferenceRows, columns: &[Column], with_scores: bool) -> Result<Self> {
        let (n, d) = (reference.rows.len(), columns.len());
        if n < 2 {
            return Err(Error::too_few("the reference", 2, "rows are"));
        }
        if let Some(column) = columns.iter().find(|c| c.kind != ColumnKind::Numeric) {
            let expected = "numbers, which a normal distribution needs: use the kernel instead,";
            return Err(Error::WrongKind { column: column.name.clone(), actual: "categories", expected });
        }
        let mut scores = Vec::new();
        let mut rows = reference.rows.clone();
        if with_scores {
            for j in 0..d {
                let table = score_table(reference, j);
                rows.iter_mut().for_each(|row| row[j] = interpolate(&table.0, &table.1, row[j]));
                scores.push(table);
            }
        }
        let weights = &reference.weights;
        let mean: Vec<f64> =
            (0..d).map(|j| rows.iter().zip(weights).map(|(row, w)| w * row[j]).sum()).collect();
        // The unbiased covariance for reliability weights.
        let correction = 1.0 / (1.0 - weights.iter().map(|w| w * w).sum::<f64>());
        let mut covariance = Matrix::zeros(d, d);
        for (row, w) in rows.iter().zip(weights) {
            for i in 0..d {
                for j in 0..d {
                    covariance[(i, j)] += correction * w * (row[i] - mean[i]) * (row[j] - mean[j]);
                }
            }
        }
        // Columns are scaled to unit variance, so that the constant added to a diagonal is small for every
        // column.
        let sd = |i: usize| covariance[(i, i)].sqrt();
        let scale: Vec<f64> = (0..d).map(|i| if sd(i) > 0.0 { sd(i) } else { 1.0 }).collect();
        for i in 0..d {
            for j in 0..d {
                covariance[(i, j)] /= scale[i] * scale[j];
            }
        }
        Ok(Self { mean, scale, correlation: covariance, scores })
    }

    /// The conditional distribution given the columns that `present` marks.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`].
    pub(super) fn condition_on(&self, present: &[bool]) -> Result<ConditionalNormal<'_>> {
        let (conditioned, absent): (Vec<usize>, Vec<usize>) = (0..present.len()).partition(|&j| present[j]);
        // Constant and linearly dependent columns make the matrix singular, so a small constant is added to
        // its diagonal.
        let regular = |mut m: Matrix| {
            m.add_diagonal(|_| 1e-10);
            m
        };
        let cross = self.correlation.select(&conditioned, &absent);
        let slope = if conditioned.is_empty() {
            Matrix::zeros(absent.len(), 0)
        } else {
            Cholesky::new(
                regular(self.correlation.select(&conditioned, &conditioned)),
                "covariance of the present columns",
            )?
            .solve(cross.clone())
            .transpose()
        };
        let mut remainder = self.correlation.select(&absent, &absent);
        let explained = slope.matmul(&cross);
        remainder.data_mut().iter_mut().zip(explained.data()).for_each(|(r, e)| *r -= e);
        let lower = Cholesky::new(regular(remainder), "covariance of the absent columns")?.lower().clone();
        Ok(ConditionalNormal { normal: self, conditioned, absent, slope, lower })
    }

    fn normal_score(&self, column: usize, value: f64) -> f64 {
        self.scores.get(column).map_or(value, |(values, scores)| interpolate(values, scores, value))
    }

    fn value(&self, column: usize, score: f64) -> f64 {
        self.scores.get(column).map_or(score, |(values, scores)| interpolate(scores, values, score))
    }
}

impl ConditionalNormal<'_> {
    /// Draws `draws` rows that equal `x` in the present columns.
    pub(super) fn draw(&self, x: &[f64], draws: usize, random: &mut Random) -> Vec<Vec<f64>> {
        let normal = self.normal;
        let centered: Vec<f64> = (self.conditioned.iter())
            .map(|&j| (normal.normal_score(j, x[j]) - normal.mean[j]) / normal.scale[j])
            .collect();
        let mean = self.slope.matvec(&centered);
        let mut draw_row = || {
            let noise: Vec<f64> = self.absent.iter().map(|_| random.sample(StandardNormal)).collect();
            let mut row = x.to_vec();
            for (a, &j) in self.absent.iter().enumerate() {
                let deviation = dot(&self.lower.row(a)[..=a], &noise[..=a]);
                row[j] = normal.value(j, normal.mean[j] + normal.scale[j] * (mean[a] + deviation));
            }
            row
        };
        (0..draws).map(|_| draw_row()).collect()
    }
}

/// Distinct values of a column in order, and their normal scores. The score of a value is the normal quantile
/// at the middle of the value's weight.
fn score_table(reference: &ReferenceRows, j: usize) -> (Vec<f64>, Vec<f64>) {
    let mut order: Vec<usize> = (0..reference.rows.len()).collect();
    order.sort_by(|&a, &b| reference.rows[a][j].total_cmp(&reference.rows[b][j]));
    let (mut values, mut scores): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut below = 0.0;
    for group in order.chunk_by(|&a, &b| reference.rows[a][j] == reference.rows[b][j]) {
        let group_weight: f64 = group.iter().map(|&b| reference.weights[b]).sum();
        values.push(reference.rows[group[0]][j]);
        scores.push(normal_quantile((below + group_weight / 2.0).clamp(1e-12, 1.0 - 1e-12)));
        below += group_weight;
    }
    (values, scores)
}

/// The value at `x` of the piecewise linear function through ascending points; constant beyond the first and
/// last point.
fn interpolate(from: &[f64], to: &[f64], x: f64) -> f64 {
    let index = from.partition_point(|v| *v < x);
    if index == 0 {
        return to[0];
    }
    if index == from.len() {
        return to[index - 1];
    }
    let share = (x - from[index - 1]) / (from[index] - from[index - 1]);
    to[index - 1] + share * (to[index] - to[index - 1])
}

/// The standard normal quantile.
fn normal_quantile(p: f64) -> f64 {
    statrs::distribution::Normal::standard().inverse_cdf(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // scipy.stats.norm.ppf
        for (p, x) in [
            (0.5, 0.0),
            (0.025, -1.959963984540054),
            (0.9, 1.2815515655446004),
            (1e-4, -3.719016485455709),
            (1e-9, -5.9978070150076865),
            (0.3, -0.5244005127080409),
        ] {
            assert!((normal_quantile(p) - x).abs() < 1e-10, "{p}: {}", normal_quantile(p));
        }
    }

    #[test]
    fn lines_are_followed_and_ends_kept() {
        let (from, to) = ([1.0, 2.0, 4.0], [10.0, 20.0, 0.0]);
        for (x, y) in [(0.0, 10.0), (1.0, 10.0), (1.5, 15.0), (3.0, 10.0), (9.0, 0.0)] {
            assert_eq!(interpolate(&from, &to, x), y);
        }
    }
}

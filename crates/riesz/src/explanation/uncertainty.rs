//! Posterior uncertainty of values: the part that comes from the model's uncertainty about f, in contrast to
//! the error of the computation ([`Exactness`](super::Exactness)).
//!
//! Values are linear in f, so where f is a Gaussian process they are jointly normal: their means are the
//! values, and their covariance gives the standard deviation of each and the probability that one exceeds
//! another.

use serde::{Deserialize, Serialize};

use super::{Exactness, Explanation, interleave, normal};
use crate::error::{Error, Result};
use crate::linalg::Matrix;
use crate::random::{Random, RngExt, SeedableRng, StandardNormal, hash};

/// Posterior uncertainty of values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Uncertainty {
    /// The covariance or the standard deviations.
    #[serde(rename = "spread")]
    pub dispersion: Dispersion,
    /// The source of the uncertainty; `None` if a table does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<UncertaintySource>,
}

/// Covariance or standard deviations of values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispersion {
    /// The covariance of the values of all sets, in each row and output: rows × outputs × sets × sets.
    Covariance(Vec<f64>),
    /// Standard deviations alone, in the layout of [`Explanation::values`]: what a table holds.
    Sd(Vec<f64>),
}

/// Where an uncertainty comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UncertaintySource {
    /// The posterior of a Gaussian process, or its normal approximation.
    Posterior,
    /// Refits on rows drawn anew: how values vary from sample to sample.
    Bootstrap {
        /// Number of refits.
        draws: usize,
        /// Their seed.
        seed: u64,
    },
    /// Refits without one row after the other: likewise.
    Jackknife {
        /// Number of rows.
        rows: usize,
    },
    /// Fits with fewer landmarks: how far values may be from those of the model with all rows as support
    /// points, by an estimate.
    Landmarks {
        /// Doublings of landmarks that were looked at.
        doublings: usize,
    },
}

impl std::fmt::Display for UncertaintySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Posterior => write!(f, "posterior of a Gaussian process"),
            Self::Bootstrap { draws, seed } => write!(f, "bootstrap of {draws} refits (seed {seed})"),
            Self::Jackknife { rows } => write!(f, "jackknife of {rows} rows"),
            Self::Landmarks { doublings } => {
                write!(f, "what landmarks leave out, by the last {doublings} doublings of them")
            }
        }
    }
}

/// A probability, estimated from draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proportion {
    /// The share of draws.
    pub value: f64,
    /// Its standard error, after two draws more on either side (Agresti and Coull 1998), so that it is not 0
    /// where all draws agree.
    pub std_error: f64,
}

impl Uncertainty {
    /// Its numbers, and how many of them a value has, of so many sets.
    fn numbers(&self, sets: usize) -> (&[f64], usize) {
        match &self.dispersion {
            Dispersion::Covariance(numbers) => (numbers, sets),
            Dispersion::Sd(numbers) => (numbers, 1),
        }
    }

    fn map(&self, numbers: Vec<f64>) -> Self {
        let dispersion = match self.dispersion {
            Dispersion::Covariance(_) => Dispersion::Covariance(numbers),
            Dispersion::Sd(_) => Dispersion::Sd(numbers),
        };
        Self { dispersion, ..*self }
    }

    /// Whether both are of one kind and source.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.dispersion) == std::mem::discriminant(&other.dispersion)
            && self.source == other.source
    }

    /// The uncertainty of a selection of games (row and output) and sets; `set_count` is the number of sets.
    pub(super) fn select(&self, games: &[usize], sets: &[usize], set_count: usize) -> Self {
        let (numbers, width) = self.numbers(set_count);
        let across = |game: usize, k: usize| -> Vec<f64> {
            let row = &numbers[(game * set_count + k) * width..(game * set_count + k + 1) * width];
            match self.dispersion {
                Dispersion::Covariance(_) => sets.iter().map(|l| row[*l]).collect(),
                Dispersion::Sd(_) => row.to_vec(),
            }
        };
        self.map(games.iter().flat_map(|game| sets.iter().flat_map(|k| across(*game, *k))).collect())
    }

    /// Appends the rows of an uncertainty of the [same kind](Self::is_like).
    pub(super) fn append(&mut self, other: Self) {
        let (Dispersion::Covariance(new_numbers) | Dispersion::Sd(new_numbers)) = other.dispersion;
        let (Dispersion::Covariance(numbers) | Dispersion::Sd(numbers)) = &mut self.dispersion;
        numbers.extend(new_numbers);
    }

    /// Appends k outputs of an uncertainty of the [same kind](Self::is_like) to its own m; `sets` is the
    /// number of sets.
    pub(super) fn concat_outputs(&mut self, m: usize, other: &Self, k: usize, sets: usize) {
        let ((left, width), (right, _)) = (self.numbers(sets), other.numbers(sets));
        *self = self.map(interleave(left, m * sets * width, right, k * sets * width));
    }

    /// Checks that it belongs to these games and sets.
    pub(super) fn validate(&self, games: usize, sets: usize) -> Result<()> {
        let broken = |problem: String| Err(Error::Format { problem });
        let (numbers, width) = self.numbers(sets);
        let name = match self.dispersion {
            Dispersion::Covariance(_) => "covariance of values",
            Dispersion::Sd(_) => "list of standard deviations",
        };
        let expected = games.saturating_mul(sets).saturating_mul(width);
        if numbers.len() != expected {
            return Err(Error::Shape {
                subject: format!("the explanation's {name}"),
                unit: "numbers",
                expected,
                actual: numbers.len(),
                why: format!("{games} rows and outputs, {sets} sets of players"),
            });
        }
        if numbers.iter().any(|v| !v.is_finite()) {
            return broken(format!("the explanation's {name} holds numbers that are not finite"));
        }
        let size = sets * width;
        for (game, game_numbers) in numbers.chunks_exact(size.max(1)).enumerate() {
            for k in 0..sets {
                if game_numbers[k * width + k % width] < 0.0 {
                    return broken(format!("the explanation's {name} has a variance or deviation below 0"));
                }
                if (0..width).any(|l| width > 1 && game_numbers[k * width + l] != game_numbers[l * width + k])
                {
                    return broken(format!("the explanation's {name} number {game} is not symmetric"));
                }
            }
        }
        Ok(())
    }
}

const NONE: &str =
    "nothing is said of how sure values are: ask a Gaussian process for the covariance of its values";

/// A difference of values that varies by less than this, relative to what these do, is left by rounding of
/// equals.
const ROUNDING: f64 = 1e-12;

impl Explanation {
    /// The standard deviation of each value, in the layout of [`values`](Self::values); `None` where it is
    /// unknown.
    pub fn sd(&self) -> Option<Vec<f64>> {
        let s = self.sets();
        Some(match &self.uncertainty.as_ref()?.dispersion {
            Dispersion::Sd(sd) => sd.clone(),
            Dispersion::Covariance(covariance) => {
                (0..self.values.len()).map(|v| covariance[v * s + v % s].sqrt()).collect()
            }
        })
    }

    /// The covariance of the values of row `i`, output `o`, sets × sets; `None` where it is unknown.
    pub fn covariance(&self, i: usize, o: usize) -> Option<&[f64]> {
        let size = self.sets() * self.sets();
        match &self.uncertainty.as_ref()?.dispersion {
            Dispersion::Covariance(covariance) => {
                Some(&covariance[(i * self.outputs() + o) * size..][..size])
            }
            Dispersion::Sd(_) => None,
        }
    }

    /// The central interval of each value that holds it with probability `level`, in the layout of
    /// [`values`](Self::values).
    ///
    /// # Errors
    /// [`Error::Parameter`] where nothing is said of how sure values are, and unless `level` is between 0
    /// and 1.
    pub fn interval(&self, level: f64) -> Result<Vec<[f64; 2]>> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::parameter("level", level, "it is a probability between 0 and 1"));
        }
        let sd = self.sd().ok_or_else(|| Error::parameter("level", level, NONE))?;
        let reach = normal::quantile((1.0 + level) / 2.0);
        Ok(self.values.iter().zip(sd).map(|(v, sd)| [v - reach * sd, v + reach * sd]).collect())
    }

    /// The standard deviation of the sum of some values of row `i`, output `o`; `None` where it is not known,
    /// as that of several values in a table.
    pub fn sd_of_sum(&self, i: usize, o: usize, sets: &[usize]) -> Option<f64> {
        let s = self.sets();
        if let (Dispersion::Sd(sd), [k]) = (&self.uncertainty.as_ref()?.dispersion, sets) {
            return Some(sd[(i * self.outputs() + o) * s + k]);
        }
        let covariance = self.covariance(i, o)?;
        let sum: f64 = sets.iter().flat_map(|k| sets.iter().map(move |l| covariance[k * s + l])).sum();
        Some(sum.max(0.0).sqrt())
    }

    /// For each set an upper bound on the standard deviation of its [`mean_abs`](Self::mean_abs), whatever
    /// the rows' correlation: the mean of its standard deviations. `None` where these are unknown.
    pub fn mean_abs_sd(&self, output: usize) -> Option<Vec<f64>> {
        let (sd, s, n) = (self.sd()?, self.sets(), self.rows());
        let entry = |i: usize, k: usize| sd[(i * self.outputs() + output) * s + k];
        Some((0..s).map(|k| (0..n).map(|i| entry(i, k)).sum::<f64>() / n.max(1) as f64).collect())
    }

    /// The probability that in row `i`, output `o`, the value of set `a` is larger than that of `b`: a
    /// difference of normal numbers is normal. A half where both are known and equal.
    ///
    /// # Errors
    /// [`Error::Parameter`] where the covariance is not known.
    pub fn probability_greater(&self, (i, o): (usize, usize), a: usize, b: usize) -> Result<f64> {
        let (mean, covariance) = self.normal(i, o)?;
        let s = mean.len();
        let [aa, bb] = [a, b].map(|k| covariance[k * s + k]);
        let variance = aa + bb - 2.0 * covariance[a * s + b];
        let known = variance <= ROUNDING * (aa + bb);
        let gap = mean[a] - mean[b];
        let gap = if known && gap.abs() <= 2.0 * self.rounding_bound(i, o, a, b) { 0.0 } else { gap };
        Ok(normal::positive(gap, if known { 0.0 } else { variance.sqrt() }))
    }

    /// The probability that in row `i`, output `o`, the value of set `a` is larger in magnitude than that of
    /// set `b`. `|a| > |b|` if and only if `a - b` and `a + b` have the same sign, which is the probability
    /// of two quadrants of a bivariate normal distribution, exact up to rounding.
    ///
    /// # Errors
    /// [`Error::Parameter`] where the covariance is not known.
    pub fn probability_larger_magnitude(&self, (i, o): (usize, usize), a: usize, b: usize) -> Result<f64> {
        let (mean, covariance) = self.normal(i, o)?;
        if a == b {
            return Ok(0.5);
        }
        let s = mean.len();
        let [aa, bb, ab] = [covariance[a * s + a], covariance[b * s + b], covariance[a * s + b]];
        let (means, variances) =
            ([mean[a] - mean[b], mean[a] + mean[b]], [-2.0, 2.0].map(|t| aa + bb + t * ab));
        let rounding = 2.0 * self.rounding_bound(i, o, a, b);
        let variances = variances.map(|v| if v > ROUNDING * (aa + bb) { v } else { 0.0 });
        let means =
            [0, 1].map(|k| if variances[k] == 0.0 && means[k].abs() <= rounding { 0.0 } else { means[k] });
        Ok(normal::same_sign(means, variances, aa - bb))
    }

    /// A bound on the rounding of the values of row `i`, output `o`.
    fn rounding_bound(&self, i: usize, o: usize, a: usize, b: usize) -> f64 {
        let values = self.row_values(i, o);
        let size = 4.0 * f64::EPSILON * (values[a].abs() + values[b].abs());
        match &self.exactness {
            Exactness::Exact { bound } => size.max(bound[i * self.outputs() + o]),
            _ => size,
        }
    }

    /// The mean over rows of [`probability_larger_magnitude`](Self::probability_larger_magnitude): the
    /// probability that set `a` is larger in magnitude than `b` in a random row.
    ///
    /// # Errors
    /// As there.
    pub fn mean_probability_stronger(&self, output: usize, a: usize, b: usize) -> Result<f64> {
        let probabilities = (0..self.rows()).map(|i| self.probability_larger_magnitude((i, output), a, b));
        Ok(probabilities.sum::<Result<f64>>()? / self.rows().max(1) as f64)
    }

    /// The probability that in row `i`, output `o`, the `count` sets with the largest absolute values are
    /// these, estimated from posterior draws: the certainty of the top of the row's ranking. Cost O(sets²)
    /// for each draw and O(sets³) once.
    ///
    /// # Errors
    /// [`Error::Parameter`] where the covariance is not known, without draws, and unless `count` is from 1 to
    /// the number of sets.
    pub fn probability_of_top(
        &self,
        (i, o): (usize, usize),
        count: usize,
        draws: usize,
        seed: u64,
    ) -> Result<Proportion> {
        if !(1..=self.sets()).contains(&count) {
            return Err(Error::parameter("count", count, format!("from 1 to {}", self.sets())));
        }
        if draws == 0 {
            return Err(Error::parameter("draws", draws, "at least 1"));
        }
        let top = |values: &[f64]| -> Vec<usize> {
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
            order.truncate(count);
            order.sort_unstable();
            order
        };
        let expected = top(self.row_values(i, o));
        let drawn = self.draws((i, o), draws, seed)?.transpose();
        let agree = (0..draws).filter(|&d| top(drawn.row(d)) == expected).count() as f64;
        let total = draws as f64;
        let share = (agree + 2.0) / (total + 4.0);
        Ok(Proportion { value: agree / total, std_error: (share * (1.0 - share) / (total + 4.0)).sqrt() })
    }

    /// Joint draws of the values of row `i`, output `o`, sets × draws: normal numbers with their means and
    /// covariance, which depend on the seed, the row's number and the output's name alone. Cost O(sets²) a
    /// draw and sets³ once.
    ///
    /// # Errors
    /// [`Error::Parameter`] where the covariance is not known, and for more draws than memory holds.
    pub fn draws(&self, (i, o): (usize, usize), draws: usize, seed: u64) -> Result<Matrix> {
        let (mean, covariance) = self.normal(i, o)?;
        // Normal numbers, and what becomes of them, once more for those who count tops.
        crate::memory::check_allocation("number of draws", draws, mean.len().saturating_mul(3))?;
        let root = root(covariance, mean.len());
        // Rows and outputs have draws of their own, the same in every selection of them.
        let name = self.output_names[o].bytes().map(u64::from);
        let mut random =
            Random::seed_from_u64(hash([seed, self.row_numbers[i] as u64].into_iter().chain(name)));
        let normal = (0..mean.len() * draws).map(|_| random.sample(StandardNormal)).collect();
        let mut out = root.matmul(&Matrix::from_row_major(mean.len(), draws, normal));
        for (k, mean) in mean.iter().enumerate() {
            out.row_mut(k).iter_mut().for_each(|v| *v += mean);
        }
        Ok(out)
    }

    /// [Draws](Self::draws) for all rows and outputs, row by row.
    ///
    /// # Errors
    /// As [`draws`](Self::draws).
    pub fn draws_of_all(&self, draws: usize, seed: u64) -> Result<Vec<Matrix>> {
        let (games, m) = (self.rows() * self.outputs(), self.outputs());
        // They are handed on as one array, too.
        crate::memory::check_allocation("number of draws", draws, (2 * games).saturating_mul(self.sets()))?;
        (0..games).map(|g| self.draws((g / m, g % m), draws, seed)).collect()
    }

    fn normal(&self, i: usize, o: usize) -> Result<(&[f64], &[f64])> {
        match self.covariance(i, o) {
            Some(covariance) => Ok((self.row_values(i, o), covariance)),
            None if self.uncertainty.is_some() => Err(Error::parameter(
                "covariance",
                "standard deviations alone",
                "how values vary together stands in explanations as JSON, not in tables",
            )),
            None => Err(Error::parameter("covariance", "none", NONE)),
        }
    }
}

/// A lower triangular L with `L Lᵀ` the n × n covariance, which may be singular: a column whose pivot is
/// rounding is 0.
fn root(covariance: &[f64], n: usize) -> Matrix {
    const PIVOT: f64 = 1e-13;
    let mut out = Matrix::zeros(n, n);
    for j in 0..n {
        let left = |row: usize, out: &Matrix| -> f64 {
            covariance[row * n + j] - (0..j).map(|k| out[(row, k)] * out[(j, k)]).sum::<f64>()
        };
        let pivot = left(j, &out);
        if pivot <= PIVOT * covariance[j * n + j] {
            continue;
        }
        for row in j..n {
            out[(row, j)] = left(row, &out) / pivot.sqrt();
        }
    }
    out
}

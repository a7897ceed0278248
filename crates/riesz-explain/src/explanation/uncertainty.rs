//! Posterior uncertainty of values: the uncertainty that comes from the model's uncertainty about f. The
//! error of the computation is separate ([`Exactness`](super::Exactness)).
//!
//! Values are linear in f, so they are jointly normal if f is a Gaussian process. Their means are the
//! explanation's values. Their covariance gives each standard deviation, and the probability that one value
//! exceeds another.

use serde::{Deserialize, Serialize};

use super::{Exactness, Explanation, interleave, normal};
use crate::error::{Error, Result};
use crate::linalg::{Matrix, add_to};
use crate::posterior::UncertaintySource;
use crate::random::{Random, RngExt, SeedableRng, StandardNormal, hash};

/// Posterior uncertainty of values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Uncertainty {
    /// The covariance or the standard deviations.
    #[serde(flatten)]
    pub dispersion: Dispersion,
    /// The source of the uncertainty; `None` if a table does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<UncertaintySource>,
    /// The part that comes from the estimation of conditional distributions; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditioning: Option<ConditioningPart>,
}

/// The part of the uncertainty of observational values that comes from the estimation of the conditional
/// distributions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConditioningPart {
    /// The covariance of the values, in the layout of [`Dispersion::Covariance`].
    pub covariance: Vec<f64>,
    /// For each row and output, the largest share over coalitions of the prior variance of a conditional mean
    /// that the reference rows leave unexplained. Above
    /// [`MAX_UNEXPLAINED`](Self::MAX_UNEXPLAINED), few reference rows are similar to the row, and the
    /// uncertainty is too small.
    pub unexplained_share: Vec<f64>,
}

/// Covariance or standard deviations of values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dispersion {
    /// The covariance of the values of all sets, in each row and output: rows × outputs × sets × sets.
    Covariance(Vec<f64>),
    /// Standard deviations without covariances, as in tables, in the layout of [`Explanation::values`].
    #[serde(rename = "std")]
    Sd(Vec<f64>),
}

/// Probability estimated from draws.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proportion {
    /// The share of draws.
    pub value: f64,
    /// Standard error of `value`, after adding two successes and two failures (Agresti and Coull 1998). It is
    /// therefore positive even if all draws agree.
    pub std_error: f64,
}

impl ConditioningPart {
    /// The largest unexplained share with which intervals are reliable. `experiments/conditioning.py`
    /// measures the coverage of rows below it.
    pub const MAX_UNEXPLAINED: f64 = 0.3;
}

impl Uncertainty {
    /// The uncertainty from a model's posterior or refits, with these covariances.
    pub(crate) fn of_model(covariances: Vec<f64>, source: UncertaintySource) -> Self {
        Self { dispersion: Dispersion::Covariance(covariances), source: Some(source), conditioning: None }
    }

    /// The sum of the covariances of a model's uncertainty, if there is one, and of estimated conditional
    /// distributions.
    pub(crate) fn with_conditioning(model: Option<Self>, part: ConditioningPart, rows: usize) -> Self {
        let mut total = part.covariance.clone();
        let mut source = Some(UncertaintySource::Conditioning { rows });
        if let Some(Self { dispersion: Dispersion::Covariance(of_model), source: model_source, .. }) = model {
            add_to(&mut total, &of_model);
            source = model_source;
        }
        Self { dispersion: Dispersion::Covariance(total), source, conditioning: Some(part) }
    }

    /// The numbers of the dispersion, and their count per value: `sets` for covariances, 1 for standard
    /// deviations.
    fn numbers(&self, sets: usize) -> (&[f64], usize) {
        match &self.dispersion {
            Dispersion::Covariance(numbers) => (numbers, sets),
            Dispersion::Sd(numbers) => (numbers, 1),
        }
    }

    /// Applies a change to the numbers of the dispersion and of its part, given whether they are covariances.
    fn map(&self, change: impl Fn(&[f64], bool) -> Vec<f64>) -> Self {
        let dispersion = match &self.dispersion {
            Dispersion::Covariance(numbers) => Dispersion::Covariance(change(numbers, true)),
            Dispersion::Sd(numbers) => Dispersion::Sd(change(numbers, false)),
        };
        let conditioning = self.conditioning.as_ref().map(|part| ConditioningPart {
            covariance: change(&part.covariance, true),
            unexplained_share: part.unexplained_share.clone(),
        });
        Self { dispersion, source: self.source, conditioning }
    }

    /// Whether both have the same kind of dispersion, the same source and the same parts.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.dispersion) == std::mem::discriminant(&other.dispersion)
            && self.source == other.source
            && self.conditioning.is_some() == other.conditioning.is_some()
    }

    /// The uncertainty of a selection of games (row and output) and sets; `set_count` is the number of sets.
    pub(super) fn select(&self, games: &[usize], sets: &[usize], set_count: usize) -> Self {
        let selected = |numbers: &[f64], are_covariances: bool| {
            let numbers_of_set = |game: usize, k: usize| -> Vec<f64> {
                let index = game * set_count + k;
                match are_covariances {
                    true => sets.iter().map(|l| numbers[index * set_count + l]).collect(),
                    false => vec![numbers[index]],
                }
            };
            games.iter().flat_map(|game| sets.iter().flat_map(|k| numbers_of_set(*game, *k))).collect()
        };
        let mut selection = self.map(selected);
        if let Some(part) = &mut selection.conditioning {
            part.unexplained_share = games.iter().map(|game| part.unexplained_share[*game]).collect();
        }
        selection
    }

    /// Appends the rows of an uncertainty of the [same kind](Self::is_like).
    pub(super) fn append(&mut self, other: Self) {
        let (Dispersion::Covariance(new_numbers) | Dispersion::Sd(new_numbers)) = other.dispersion;
        let (Dispersion::Covariance(numbers) | Dispersion::Sd(numbers)) = &mut self.dispersion;
        numbers.extend(new_numbers);
        if let (Some(part), Some(new_part)) = (&mut self.conditioning, other.conditioning) {
            part.covariance.extend(new_part.covariance);
            part.unexplained_share.extend(new_part.unexplained_share);
        }
    }

    /// Appends the k outputs of an uncertainty of the [same kind](Self::is_like) to the m outputs of this
    /// one; `sets` is the number of sets.
    pub(super) fn concat_outputs(&mut self, m: usize, other: &Self, k: usize, sets: usize) {
        let ((left, width), (right, _)) = (self.numbers(sets), other.numbers(sets));
        let joined = interleave(left, m * sets * width, right, k * sets * width);
        if let (Some(part), Some(new_part)) = (&mut self.conditioning, &other.conditioning) {
            let width = sets * sets;
            part.covariance = interleave(&part.covariance, m * width, &new_part.covariance, k * width);
            part.unexplained_share = interleave(&part.unexplained_share, m, &new_part.unexplained_share, k);
        }
        let (Dispersion::Covariance(numbers) | Dispersion::Sd(numbers)) = &mut self.dispersion;
        *numbers = joined;
    }

    /// Checks that the dispersion has the size for these numbers of games (rows × outputs) and sets, is
    /// finite, and has symmetric covariances without negative variances.
    pub(super) fn validate(&self, games: usize, sets: usize) -> Result<()> {
        let broken = |problem: String| Err(Error::format(problem));
        let (numbers, width) = self.numbers(sets);
        let name = match self.dispersion {
            Dispersion::Covariance(_) => "covariance of values",
            Dispersion::Sd(_) => "list of standard deviations",
        };
        let expected = games.saturating_mul(sets).saturating_mul(width);
        if numbers.len() != expected {
            return Err(Error::shape(
                format!("the explanation's {name}"),
                "numbers",
                expected,
                numbers.len(),
                format!("{games} rows and outputs, {sets} sets of features"),
            ));
        }
        if let Some(ConditioningPart { covariance, unexplained_share }) = &self.conditioning {
            let lists = [(covariance, games * sets * sets), (unexplained_share, games)];
            if let Some((list, expected)) = lists.into_iter().find(|(list, expected)| list.len() != *expected)
            {
                let subject = "the explanation's uncertainty of conditional distributions";
                let reason = format!("{games} rows and outputs, {sets} sets of features");
                return Err(Error::shape(subject, "numbers", expected, list.len(), reason));
            }
            if covariance.iter().chain(unexplained_share).any(|v| !v.is_finite()) {
                return broken(
                    "the uncertainty of conditional distributions has numbers that are not finite".into(),
                );
            }
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
    "the explanation has no uncertainty: explain a Gaussian process with the covariance of its values";

/// Relative tolerance: a difference of two values counts as known if its variance is at most this times the
/// sum of their variances, since that may be rounding error.
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

    /// The central interval that contains each value with probability `level`, in the layout of
    /// [`values`](Self::values).
    ///
    /// # Errors
    /// [`Error::Parameter`] if the explanation has no uncertainty, or `level` is not between 0 and 1.
    pub fn interval(&self, level: f64) -> Result<Vec<[f64; 2]>> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::parameter("level", level, "it is a probability between 0 and 1"));
        }
        let sd = self.sd().ok_or_else(|| Error::parameter("level", level, NONE))?;
        let quantile = normal::quantile((1.0 + level) / 2.0);
        Ok(self.values.iter().zip(sd).map(|(v, sd)| [v - quantile * sd, v + quantile * sd]).collect())
    }

    /// The standard deviation of the sum of the values of `sets` in row `i`, output `o`. `None` where it is
    /// unknown, for example for several sets without covariances.
    pub fn sd_of_sum(&self, i: usize, o: usize, sets: &[usize]) -> Option<f64> {
        let s = self.sets();
        if let (Dispersion::Sd(sd), [k]) = (&self.uncertainty.as_ref()?.dispersion, sets) {
            return Some(sd[(i * self.outputs() + o) * s + k]);
        }
        let covariance = self.covariance(i, o)?;
        let sum: f64 = sets.iter().flat_map(|k| sets.iter().map(move |l| covariance[k * s + l])).sum();
        Some(sum.max(0.0).sqrt())
    }

    /// Upper bound on the standard deviation of each set's [`mean_abs`](Self::mean_abs), for any correlation
    /// between rows: the mean of the set's standard deviations. `None` where these are unknown.
    pub fn mean_abs_sd(&self, output: usize) -> Option<Vec<f64>> {
        let (sd, s, n) = (self.sd()?, self.sets(), self.rows());
        let entry = |i: usize, k: usize| sd[(i * self.outputs() + output) * s + k];
        Some((0..s).map(|k| (0..n).map(|i| entry(i, k)).sum::<f64>() / n.max(1) as f64).collect())
    }

    /// The probability that the value of set `a` exceeds the value of set `b` in row `i`, output `o`, from
    /// the normal distribution of their difference. It is 1/2 if both are known and equal.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the covariance is unknown.
    pub fn probability_greater(&self, (i, o): (usize, usize), a: usize, b: usize) -> Result<f64> {
        let (mean, covariance) = self.normal(i, o)?;
        let s = mean.len();
        let [aa, bb] = [a, b].map(|k| covariance[k * s + k]);
        let variance = aa + bb - 2.0 * covariance[a * s + b];
        let is_certain = variance <= ROUNDING * (aa + bb);
        let difference = mean[a] - mean[b];
        let difference = if is_certain && difference.abs() <= 2.0 * self.rounding_bound(i, o, a, b) {
            0.0
        } else {
            difference
        };
        Ok(normal::positive(difference, if is_certain { 0.0 } else { variance.sqrt() }))
    }

    /// The probability that the value of set `a` is larger in magnitude than the value of set `b` in row `i`,
    /// output `o`. `|a| > |b|` if and only if `a - b` and `a + b` have the same sign. The result is therefore
    /// the probability of two quadrants of a bivariate normal distribution, exact up to rounding.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the covariance is unknown.
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

    /// Bound on the rounding error of the values of sets `a` and `b` in row `i`, output `o`.
    fn rounding_bound(&self, i: usize, o: usize, a: usize, b: usize) -> f64 {
        let values = self.row_values(i, o);
        let size = 4.0 * f64::EPSILON * (values[a].abs() + values[b].abs());
        match &self.exactness {
            Exactness::Exact { bound } => size.max(bound[i * self.outputs() + o]),
            _ => size,
        }
    }

    /// The mean over rows of [`probability_larger_magnitude`](Self::probability_larger_magnitude): the
    /// probability that set `a` is larger in magnitude than set `b` in a random row.
    ///
    /// # Errors
    /// As [`probability_larger_magnitude`](Self::probability_larger_magnitude).
    pub fn mean_probability_stronger(&self, output: usize, a: usize, b: usize) -> Result<f64> {
        let probabilities = (0..self.rows()).map(|i| self.probability_larger_magnitude((i, output), a, b));
        Ok(probabilities.sum::<Result<f64>>()? / self.rows().max(1) as f64)
    }

    /// The posterior probability that the `count` sets with the largest absolute values in row `i`, output
    /// `o` are the true ones, estimated from draws. It measures the certainty of the top of the row's
    /// ranking. Cost O(sets²) per draw and O(sets³) once.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the covariance is unknown, there are no draws, or `count` is not from 1 to the
    /// number of sets.
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
            return Err(Error::parameter("n_samples", draws, "at least 1"));
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

    /// Joint draws of the values of row `i`, output `o`, sets × draws, from the normal distribution with
    /// their means and covariance. They depend only on the seed, the row's number and the output's name. Cost
    /// O(sets²) per draw and O(sets³) once.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the covariance is unknown, or there are more draws than memory holds.
    pub fn draws(&self, (i, o): (usize, usize), draws: usize, seed: u64) -> Result<Matrix> {
        let (mean, covariance) = self.normal(i, o)?;
        // Memory for standard normal numbers, for the draws, and for their transpose in `probability_of_top`.
        crate::memory::check_allocation("number of draws", draws, mean.len().saturating_mul(3))?;
        let root = root(covariance, mean.len());
        // Each row and output has its own draws, which are the same in every selection.
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
        // Callers copy all draws into one array, which doubles the memory.
        crate::memory::check_allocation("number of draws", draws, (2 * games).saturating_mul(self.sets()))?;
        (0..games).map(|g| self.draws((g / m, g % m), draws, seed)).collect()
    }

    fn normal(&self, i: usize, o: usize) -> Result<(&[f64], &[f64])> {
        match self.covariance(i, o) {
            Some(covariance) => Ok((self.row_values(i, o), covariance)),
            None if self.uncertainty.is_some() => Err(Error::parameter(
                "covariance",
                "standard deviations alone",
                "tables have no covariances: read the explanation from its JSON file",
            )),
            None => Err(Error::parameter("covariance", "none", NONE)),
        }
    }
}

/// Lower triangular L (n × n) with `L Lᵀ` equal to the covariance (n × n), which may be singular. A column of
/// L is 0 if its pivot is only rounding error.
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

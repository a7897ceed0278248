//! Sobol indices and Shapley effects of any function, from random samples of independent features.
//!
//! For independent copies x and y of the features, `½ E (f(x) - f(y_S, x_-S))²` is the total variance of the
//! features S (Jansen 1999). Its increments along a random order of the features, from f(x) to f(y), have the
//! Shapley effects as their expectation (Goda 2021, "A simple algorithm for global sensitivity analysis with
//! Shapley effects"). In each sample they sum to `½ (f(x) - f(y))²`, whose expectation is the variance, so
//! that the estimated shares sum to 1.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::attribution::std_error::{NORMAL, student_quantile};
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Provenance, Sampling, VARIANCE_GAME};
use crate::game::{Background, ReferenceRows};
use crate::linalg::Matrix;
use crate::random::{Random, RngExt, SeedableRng, SliceRandom};
use crate::table::{Player, Players, Table};

/// The number of rows of one call of the function.
const BLOCK: usize = 1 << 16;

/// Estimates Sobol indices and Shapley effects of a function. Features are independent, and each player has
/// the distribution of the rows of a background. Cost: `3 p + 1` rows per sample for p players.
#[derive(Debug, Clone)]
pub struct SampledSensitivity {
    /// The players, by default one per column. Dependent features belong in one player.
    pub groups: Option<Players>,
    /// The number of samples, at least 2.
    pub samples: usize,
    /// The seed of the samples.
    pub seed: u64,
    /// A flag that another thread sets to cancel the run.
    pub stop: Arc<AtomicBool>,
    /// The progress of the run in samples, for other threads to read.
    pub progress: Arc<Progress>,
}

impl Default for SampledSensitivity {
    /// The default is 4,096 samples.
    fn default() -> Self {
        Self { groups: None, samples: 4096, seed: 0, stop: Arc::default(), progress: Arc::default() }
    }
}

/// Estimated shares of a variance, outputs × players, with their standard errors. They are NaN for an output
/// that was constant in all samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// The shares.
    pub values: Vec<f64>,
    /// Their standard errors.
    pub std_error: Vec<f64>,
}

/// Estimated Sobol indices and Shapley effects of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampledIndices {
    /// Parts of the variance, not divided by it: Shapley effects as an explanation of one row, whose
    /// predictions are variances.
    pub explanation: Explanation,
    /// The variance of each output.
    pub variance: Vec<f64>,
    /// First-order indices, `Var E[f | X_j] / Var f`.
    pub first_order: Shares,
    /// Shapley effects divided by the variance; those of an output sum to 1.
    pub effects: Shares,
    /// Total indices, `E Var[f | all other players] / Var f`.
    pub total_order: Shares,
    /// The number of rows for which the function was evaluated.
    pub evaluations: usize,
}

/// The contributions of each sample, for each output: to the variance, and for each player to the three
/// indices.
struct Contributions {
    variance: Vec<Vec<f64>>,
    /// Outputs × players, each with one number per sample: first order, Shapley effect, total order.
    parts: [Vec<Vec<f64>>; 3],
}

impl SampledSensitivity {
    /// Returns the indices of a function; `predict` returns its outputs for some rows, rows × outputs.
    ///
    /// # Errors
    /// [`Error::Parameter`] for fewer than 2 samples; [`Error::Shape`] unless the function has one row of
    /// outputs per row; [`Error::Overflow`] for outputs that are not finite; [`Error::Interrupted`]; the
    /// errors of `predict` and of the background.
    pub fn run<E: From<Error>>(
        &self,
        inputs: &Background,
        predict: impl Fn(&Table) -> std::result::Result<Matrix, E>,
    ) -> std::result::Result<SampledIndices, E> {
        if !(2..=100_000_000).contains(&self.samples) {
            let allowed = "take from 2, which a standard error needs, to 100000000";
            return Err(Error::parameter("n_evaluations", self.samples, allowed).into());
        }
        let columns = inputs.rows.columns();
        let groups = self.groups.clone().unwrap_or_else(|| Players::singletons(columns));
        let reference = ReferenceRows::new(inputs, columns)?;
        let sampler = Sampler::new(&reference, groups.players());
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        self.progress.start(self.samples);
        let mut random = Random::seed_from_u64(self.seed);
        let batch = (BLOCK / sampler.rows_per_sample()).max(1);
        let mut contributions: Option<Contributions> = None;
        let mut drawn = 0;
        while drawn < self.samples {
            control.check_cancelled()?;
            let orders: Vec<Vec<usize>> =
                (drawn..self.samples.min(drawn + batch)).map(|_| sampler.order(&mut random)).collect();
            let rows = sampler.rows(&orders, &mut random);
            let rows = Table::from_named_rows(columns.to_vec(), &rows)?;
            let outputs = predict(&rows)?;
            check_outputs(&outputs, rows.rows())?;
            let contributions = contributions.get_or_insert_with(|| {
                let lists = |count: usize| vec![Vec::with_capacity(self.samples); count];
                let parts = outputs.cols() * groups.players().len();
                Contributions { variance: lists(outputs.cols()), parts: [(); 3].map(|()| lists(parts)) }
            });
            sampler.add(&orders, &outputs, contributions);
            drawn += orders.len();
            orders.iter().for_each(|_| control.step());
        }
        let Some(contributions) = contributions else {
            return Err(Error::too_few("the list of samples", 2, "samples are").into());
        };
        Ok(self.summarise(&contributions, groups.players(), &inputs.rows))
    }

    fn summarise(&self, contributions: &Contributions, players: &[Player], inputs: &Table) -> SampledIndices {
        let m = contributions.variance.len();
        let variance: Vec<f64> = contributions.variance.iter().map(|list| mean(list)).collect();
        // The standard errors of few samples are themselves uncertain.
        let inflation = student_quantile(self.samples as f64 - 1.0) / NORMAL;
        let shares = |parts: &[Vec<f64>]| {
            let share = |(k, list): (usize, &Vec<f64>)| {
                let (total, variances) =
                    (variance[k / players.len()], &contributions.variance[k / players.len()]);
                let (value, error) = ratio(list, variances, total);
                (value, inflation * error)
            };
            let (values, std_error) = parts.iter().enumerate().map(share).unzip();
            Shares { values, std_error }
        };
        let [first_order, effects, total_order] = contributions.parts.each_ref().map(|parts| shares(parts));
        let effect_parts = &contributions.parts[1];
        let evaluations = self.samples * (3 * players.len() + 1);
        let absent = "features are independent, each distributed as in the rows: the value of present \
                      features is the variance that they explain, estimated from random samples";
        let output_names: Vec<String> = match m {
            1 => vec!["function".into()],
            _ => (0..m).map(|o| format!("function {o}")).collect(),
        };
        let std_error =
            effect_parts.iter().map(|list| inflation * super::importance::std_error(list)).collect();
        let explanation = Explanation {
            values: effect_parts.iter().map(|list| mean(list)).collect(),
            base_values: vec![0.0; m],
            predictions: variance.clone(),
            exactness: Exactness::Estimated {
                std_error,
                sampling: Some(Sampling { evaluations, seed: self.seed }),
            },
            provenance: Provenance::of_run(VARIANCE_GAME, absent.into(), Vec::new(), []),
            ..Explanation::of_rows(players, &output_names, inputs.mean_row())
        };
        SampledIndices { explanation, variance, first_order, effects, total_order, evaluations }
    }
}

fn check_outputs(outputs: &Matrix, rows: usize) -> Result<()> {
    if outputs.rows() != rows || outputs.cols() == 0 {
        let why = "one row of outputs per row";
        return Err(Error::shape("the function's outputs", "rows", rows, outputs.rows(), why));
    }
    if outputs.data().iter().any(|v| !v.is_finite()) {
        return Err(Error::overflow("the function", "its outputs are not finite for some mixed rows"));
    }
    Ok(())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// Returns the ratio of the means of two lists, the second of which is `total`, and its standard error by the
/// delta method.
fn ratio(numerator: &[f64], denominator: &[f64], total: f64) -> (f64, f64) {
    if total <= 0.0 {
        return (f64::NAN, f64::NAN);
    }
    let value = mean(numerator) / total;
    let residuals: Vec<f64> =
        numerator.iter().zip(denominator).map(|(a, v)| (a - value * v) / total).collect();
    (value, super::importance::std_error(&residuals))
}

/// Draws two independent rows per sample, whose players are mixed.
struct Sampler<'a> {
    reference: &'a ReferenceRows,
    players: &'a [Player],
    /// Cumulative weights of the reference rows.
    cumulative: Vec<f64>,
}

impl<'a> Sampler<'a> {
    fn new(reference: &'a ReferenceRows, players: &'a [Player]) -> Self {
        let sums = reference.weights.iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { reference, players, cumulative: sums.collect() }
    }

    /// Returns the number of rows that a sample needs: f(x), f(y), p - 1 mixtures along the order, and for
    /// each player y with this player's x, and x with this player's y.
    fn rows_per_sample(&self) -> usize {
        3 * self.players.len() + 1
    }

    fn order(&self, random: &mut Random) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.players.len()).collect();
        order.shuffle(random);
        order
    }

    /// Returns a row in which each player is drawn independently of the others.
    fn draw(&self, random: &mut Random) -> Vec<f64> {
        let mut row = vec![0.0; self.reference.rows[0].len()];
        for player in self.players {
            let level = random.random::<f64>() * self.cumulative.last().copied().unwrap_or(1.0);
            let index = self.cumulative.partition_point(|sum| *sum <= level).min(self.cumulative.len() - 1);
            player.columns.iter().for_each(|&j| row[j] = self.reference.rows[index][j]);
        }
        row
    }

    fn replace(&self, row: &mut [f64], player: usize, source: &[f64]) {
        self.players[player].columns.iter().for_each(|&j| row[j] = source[j]);
    }

    /// Returns the rows of the samples, one sample after the other, in the order of
    /// [`rows_per_sample`](Self::rows_per_sample).
    fn rows(&self, orders: &[Vec<usize>], random: &mut Random) -> Vec<Vec<f64>> {
        let mut rows = Vec::with_capacity(orders.len() * self.rows_per_sample());
        for order in orders {
            let (x, y) = (self.draw(random), self.draw(random));
            let mut mixed = x.clone();
            rows.extend([x.clone(), y.clone()]);
            for &j in &order[..order.len() - 1] {
                self.replace(&mut mixed, j, &y);
                rows.push(mixed.clone());
            }
            for (base, other) in [(&y, &x), (&x, &y)] {
                for j in 0..self.players.len() {
                    let mut row = base.clone();
                    self.replace(&mut row, j, other);
                    rows.push(row);
                }
            }
        }
        rows
    }

    /// Adds the contributions of the samples from the outputs of their rows.
    fn add(&self, orders: &[Vec<usize>], outputs: &Matrix, contributions: &mut Contributions) {
        let (p, step) = (self.players.len(), self.rows_per_sample());
        let half_square = |a: f64, b: f64| 0.5 * (a - b) * (a - b);
        for (sample, order) in orders.iter().enumerate() {
            for o in 0..outputs.cols() {
                let f = |k: usize| outputs[(sample * step + k, o)];
                let (at_x, at_y) = (f(0), f(1));
                let variance = half_square(at_x, at_y);
                contributions.variance[o].push(variance);
                let [first, effects, total] = &mut contributions.parts;
                let mut previous = 0.0;
                for (position, &j) in order.iter().enumerate() {
                    let at_mixture = if position + 1 == p { at_y } else { f(2 + position) };
                    let current = half_square(at_x, at_mixture);
                    effects[o * p + j].push(current - previous);
                    previous = current;
                }
                for j in 0..p {
                    first[o * p + j].push(variance - half_square(at_x, f(p + 1 + j)));
                    total[o * p + j].push(half_square(at_x, f(2 * p + 1 + j)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fair signs x, and f(x) = 2 x₀ + x₁ x₂ with the variance 4 + 1.
    #[test]
    fn indices_match_the_closed_form() {
        let signs: Vec<[f64; 3]> =
            (0..8_u8).map(|k| [0, 1, 2].map(|j| f64::from(k >> j & 1) * 2.0 - 1.0)).collect();
        let inputs = Background::from(Table::from_rows(&signs).unwrap());
        let function = |rows: &Table| -> Result<Matrix> {
            let value = |i: usize| 2.0 * rows.get(i, 0) + rows.get(i, 1) * rows.get(i, 2);
            Ok(Matrix::column_vector((0..rows.rows()).map(value).collect()))
        };
        let indices =
            SampledSensitivity { samples: 4000, ..Default::default() }.run(&inputs, function).unwrap();
        assert!((indices.effects.values.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((indices.variance[0] - 5.0).abs() < 0.5 && indices.evaluations == 40_000);
        for (shares, expected) in [
            (&indices.first_order, [0.8, 0.0, 0.0]),
            (&indices.effects, [0.8, 0.1, 0.1]),
            (&indices.total_order, [0.8, 0.2, 0.2]),
        ] {
            for (j, expected) in expected.into_iter().enumerate() {
                let (value, error) = (shares.values[j], shares.std_error[j]);
                assert!((value - expected).abs() < 4.0 * error && error < 0.03, "{j}: {value} ± {error}");
            }
        }
        let constant = |rows: &Table| -> Result<Matrix> { Ok(Matrix::zeros(rows.rows(), 1)) };
        let indices =
            SampledSensitivity { samples: 10, ..Default::default() }.run(&inputs, constant).unwrap();
        assert!(indices.effects.values.iter().all(|share| share.is_nan()));
        let wrong = |_: &Table| -> Result<Matrix> { Ok(Matrix::zeros(3, 1)) };
        assert!(SampledSensitivity::default().run(&inputs, wrong).is_err());
        let single_sample = SampledSensitivity { samples: 1, ..Default::default() };
        assert!(single_sample.run(&inputs, function).is_err());
    }
}

//! SAGE values: the contribution of each feature to reducing a model's loss (Covert, Lundberg and Lee 2020).
//!
//! The value of a coalition S is `v(S) = E ℓ(E f(B), y) - E ℓ(E_B f(x_S, B), y)`, with absent features taken
//! from background rows B (the marginal imputation of the paper's implementation). A coalition is valued
//! exactly, over all labelled rows with all background rows. Only orders of features are sampled, and only if
//! there are too many features for all coalitions.
//!
//! The squared error with few features needs no predictions of mixed rows. For a kernel that is a sum of
//! products, the mean outputs of all coalitions come from tables, which are computed once from all background
//! rows.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::importance::std_error;
use crate::attribution::antithetic_orders::antithetic_orders;
use crate::attribution::enumeration::shapley_weights;
use crate::attribution::sampled_shapley::Coalition;
use crate::attribution::std_error::{NORMAL, student_quantile};
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::explainer::CoalitionOutputs;
use crate::explanation::{Exactness, Explanation, LOSS_GAME, Provenance, Sampling};
use crate::game::{Background, ReferenceRows};
use crate::kernel_model::{KernelExpansion, ProbabilityLink};
use crate::linalg::{Matrix, add_multiple};
use crate::model_card::CardEntry;
use crate::random::{Random, SeedableRng};
use crate::table::{Player, Players, Table};

/// The number of cells of mixed rows that are predicted at a time.
const BLOCK: usize = 1 << 20;

/// The labels of rows, which determine the loss.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// Numbers, rows × outputs. The loss is the squared error, summed over outputs.
    Numbers(Matrix),
    /// The index of each row's class. The loss is the log loss of the model's class probabilities, averaged
    /// over the background.
    Classes(Vec<usize>),
}

/// The number of rows whose coalitions are valued together by tables.
const BATCH: usize = 16;

/// Attributes a model's loss on labelled rows to features. Cost: at most 2^features coalitions, each with the
/// predictions for rows times background rows. Squared errors for up to 13 features, and kernels that are
/// sums of products with factors of at most 1, cost 2^features products per row and support point, for any
/// number of background rows.
#[derive(Debug, Clone)]
pub struct Sage {
    /// The players, by default one per column.
    pub groups: Option<Players>,
    /// The number of random orders in which features join; each is also used in reverse. If all coalitions
    /// are not more than these orders would value, they are all valued, and the values are exact for these
    /// rows.
    pub permutations: usize,
    /// The seed of the orders.
    pub seed: u64,
    /// A flag that another thread sets to cancel the run.
    pub stop: Arc<AtomicBool>,
    /// The progress of the run, for other threads to read.
    pub progress: Arc<Progress>,
}

impl Default for Sage {
    fn default() -> Self {
        Self { groups: None, permutations: 256, seed: 0, stop: Arc::default(), progress: Arc::default() }
    }
}

/// SAGE values of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SageValues {
    /// The players.
    pub players: Vec<Player>,
    /// The value of each player; the sum is `base_loss - loss`.
    pub values: Vec<f64>,
    /// For each player, the standard error over rows as a random sample; `None` for a single row.
    pub std_error: Option<Vec<f64>>,
    /// For each player, the standard error over orders of features; `None` if all coalitions were valued.
    pub sampling_error: Option<Vec<f64>>,
    /// The mean loss of the mean prediction, with all features absent.
    pub base_loss: f64,
    /// The mean loss of the model.
    pub loss: f64,
    /// The name of the loss: `squared error` or `log loss`.
    pub measure: String,
    /// The number of labelled rows.
    pub rows: usize,
    /// The number of coalitions that were valued.
    pub coalitions: usize,
}

impl SageValues {
    /// Returns the values as an explanation of one row, for plots and files; its prediction is the reduction
    /// of the loss. Its standard errors combine those over rows and over orders.
    ///
    /// # Errors
    /// As [`Table::align_to`].
    pub fn explanation(&self, model: &KernelExpansion, x: &Table, seed: u64) -> Result<Explanation> {
        Ok(self.explanation_of(x.align_to(model.columns())?.mean_row(), model.facts(), seed))
    }

    /// Returns the values of a [function](Sage::run_function) as an explanation of one row, as
    /// [`explanation`](Self::explanation) does for a model. `x` has the labelled rows.
    pub fn explanation_of_function(&self, x: &Table, seed: u64) -> Explanation {
        self.explanation_of(x.mean_row(), Vec::new(), seed)
    }

    fn explanation_of(&self, data: Table, facts: Vec<CardEntry>, seed: u64) -> Explanation {
        // The errors are inflated so that ± 1.96 standard errors cover the true value in 95 % of cases with
        // few rows too.
        let inflation = student_quantile((self.rows as f64 - 1.0).max(1.0)) / NORMAL;
        let inflated = |errors: &Option<Vec<f64>>, j: usize| {
            errors.as_ref().map_or(0.0, |errors_by_player| inflation * errors_by_player[j])
        };
        let absent = format!(
            "absent features are averaged over background rows: the value of present features is the \
             reduction of the mean {} of {} rows",
            self.measure, self.rows
        );
        let p = self.players.len();
        let std_error =
            (0..p).map(|j| inflated(&self.std_error, j).hypot(inflated(&self.sampling_error, j))).collect();
        Explanation {
            values: self.values.clone(),
            base_values: vec![0.0],
            predictions: vec![self.base_loss - self.loss],
            // A single row has no standard error over rows.
            exactness: match self.std_error {
                Some(_) => Exactness::Estimated {
                    std_error,
                    sampling: Some(Sampling { evaluations: self.coalitions, seed }),
                },
                None => Exactness::Unknown,
            },
            provenance: Provenance::of_run(LOSS_GAME, absent, facts, []),
            ..Explanation::of_rows(&self.players, std::slice::from_ref(&self.measure), data)
        }
    }
}

impl Sage {
    /// Returns the SAGE values for the labelled rows of `x` and a background, whose columns are matched by
    /// name.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Shape`] unless there is one label per row; [`Error::Parameter`] for
    /// classes for which the model has no probabilities, and for fewer than 2 permutations;
    /// [`Error::TooFew`]; [`Error::Interrupted`].
    pub fn run(
        &self,
        model: &KernelExpansion,
        x: &Table,
        labels: &Labels,
        background: &Background,
    ) -> Result<SageValues> {
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let x = x.align_to(model.columns())?;
        labels.check(model, x.rows())?;
        self.check()?;
        let groups = self.groups.clone().unwrap_or_else(|| Players::singletons(model.columns()));
        let tables = match labels {
            Labels::Numbers(y) => {
                CoalitionOutputs::new(model, background, &groups, &self.stop)?.map(|outputs| (outputs, y))
            }
            Labels::Classes(_) => None,
        };
        let game = RowLosses {
            predict: |rows: &Table| model.predict_until(rows, &self.stop),
            x: &x,
            labels,
            reference: &ReferenceRows::new(background, model.columns())?,
            players: groups.players(),
            link: ProbabilityLink::of_model(model),
            control,
        };
        let Some((outputs, y)) = tables else { return self.values_of(&game) };
        let (n, p) = (x.rows(), groups.players().len());
        self.progress.start(n.div_ceil(BATCH) + 2);
        let (grand, none) = (game.losses(&vec![true; p])?, game.losses(&vec![false; p])?);
        let contributions = exact_by_tables(&outputs, (&x, y), p, control)?;
        let contributions = Contributions { contributions, none, grand, sampling_error: None };
        self.summarise(&game, contributions, outputs.coalition_count())
    }

    /// Returns the SAGE values of a function for the labelled rows of `x` and a background with the same
    /// columns. `predict` returns the outputs of the function for some rows, rows × outputs; for labels that
    /// are classes these are the classes' probabilities.
    ///
    /// # Errors
    /// As [`run`](Self::run); the errors of `predict`.
    pub fn run_function<E: From<Error>>(
        &self,
        predict: impl Fn(&Table) -> std::result::Result<Matrix, E>,
        x: &Table,
        labels: &Labels,
        background: &Background,
    ) -> std::result::Result<SageValues, E> {
        check_count(x.rows(), labels)?;
        self.check()?;
        let groups = self.groups.clone().unwrap_or_else(|| Players::singletons(x.columns()));
        let game = RowLosses {
            predict: |rows: &Table| checked_outputs(predict(rows)?, rows.rows(), labels),
            x,
            labels,
            reference: &ReferenceRows::new(background, x.columns())?,
            players: groups.players(),
            link: None,
            control: RunControl { stop: &self.stop, progress: &self.progress },
        };
        self.values_of(&game)
    }

    fn check(&self) -> Result<()> {
        if (2..=1_000_000).contains(&self.permutations) {
            return Ok(());
        }
        let allowed = "take from 2, which a standard error needs, to 1000000";
        Err(Error::parameter("n_orders", self.permutations, allowed))
    }

    /// Returns the values from the losses of all coalitions, or of those along random orders if there are too
    /// many.
    fn values_of<E, F>(&self, game: &RowLosses<'_, F>) -> std::result::Result<SageValues, E>
    where
        E: From<Error>,
        F: Fn(&Table) -> std::result::Result<Matrix, E>,
    {
        let p = game.players.len();
        let everything = p < 24 && (1_usize << p) <= 2 * self.permutations * p;
        self.progress.start(if everything { 1 << p } else { 2 * self.permutations * (p - 1) + 2 });
        let (grand, none) = (game.losses(&vec![true; p])?, game.losses(&vec![false; p])?);
        let (contributions, sampling_error, coalitions) = if everything {
            (exact_by_enumeration(game, &none, &grand)?, None, 1 << p)
        } else {
            let (contributions, error, valued) = self.by_permutations(game, &none, &grand)?;
            (contributions, Some(error), valued)
        };
        let contributions = Contributions { contributions, none, grand, sampling_error };
        Ok(self.summarise(game, contributions, coalitions)?)
    }

    fn summarise<F>(
        &self,
        game: &RowLosses<'_, F>,
        Contributions { contributions, none, grand, sampling_error }: Contributions,
        coalitions: usize,
    ) -> Result<SageValues> {
        let n = game.x.rows();
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / n as f64;
        let measure = match game.labels {
            Labels::Numbers(_) => "squared error",
            Labels::Classes(_) => "log loss",
        };
        let result = SageValues {
            players: game.players.to_vec(),
            values: contributions.iter().map(|row_values| mean(row_values)).collect(),
            std_error: (n > 1)
                .then(|| contributions.iter().map(|row_values| std_error(row_values)).collect()),
            sampling_error,
            base_loss: mean(&none),
            loss: mean(&grand),
            measure: measure.into(),
            rows: n,
            coalitions,
        };
        let numbers = result.values.iter().chain([&result.base_loss, &result.loss]);
        if numbers.into_iter().any(|v| !v.is_finite()) {
            return Err(Error::overflow(
                "the loss",
                "a row has a label with probability 0 under the model, or its numbers are too far \
                 from the data",
            ));
        }
        Ok(result)
    }

    /// Returns the values by player and row, their standard errors over orders, and the number of valued
    /// coalitions.
    fn by_permutations<E, F>(
        &self,
        game: &RowLosses<'_, F>,
        none: &[f64],
        grand: &[f64],
    ) -> std::result::Result<SampledContributions, E>
    where
        E: From<Error>,
        F: Fn(&Table) -> std::result::Result<Matrix, E>,
    {
        let (p, n) = (game.players.len(), none.len());
        let mut random = Random::seed_from_u64(self.seed);
        let mut sums = vec![vec![0.0; n]; p];
        // For each player, the mean contribution in each order and its reverse; different orders are
        // independent.
        let mut means = vec![Vec::with_capacity(self.permutations); p];
        let mut cached_losses: HashMap<Vec<bool>, Vec<f64>> = HashMap::new();
        let mut evaluations = 2;
        for _ in 0..self.permutations {
            let mut pair = vec![0.0; p];
            for order in antithetic_orders(&mut random, p) {
                let mut mask = vec![false; p];
                let mut previous_losses = none.to_vec();
                for (position, j) in order.into_iter().enumerate() {
                    mask[j] = true;
                    // Small coalitions recur.
                    let losses = if position + 1 == p {
                        grand.to_vec()
                    } else if let Some(cached) = cached_losses.get(&mask) {
                        cached.clone()
                    } else {
                        let new_losses = game.losses(&mask)?;
                        evaluations += 1;
                        if cached_losses.len() < 4096 {
                            cached_losses.insert(mask.clone(), new_losses.clone());
                        }
                        new_losses
                    };
                    for ((sum, previous_losses), loss) in
                        sums[j].iter_mut().zip(&previous_losses).zip(&losses)
                    {
                        *sum += previous_losses - loss;
                        pair[j] += (previous_losses - loss) / (2 * n) as f64;
                    }
                    previous_losses = losses;
                }
            }
            means
                .iter_mut()
                .zip(pair)
                .for_each(|(player_means, contribution)| player_means.push(contribution));
        }
        let count = (2 * self.permutations) as f64;
        sums.iter_mut().flatten().for_each(|sum| *sum /= count);
        // With few orders the error itself is uncertain.
        let inflation = student_quantile(self.permutations as f64 - 1.0) / NORMAL;
        let error = |player_means: &Vec<f64>| inflation * std_error(player_means);
        Ok((sums, means.iter().map(error).collect(), evaluations))
    }
}

/// The values by player and row, their standard errors over orders, and the number of valued coalitions.
type SampledContributions = (Vec<Vec<f64>>, Vec<f64>, usize);

/// The values by player and row, with the losses from which they are computed.
struct Contributions {
    contributions: Vec<Vec<f64>>,
    /// The loss of each row without features.
    none: Vec<f64>,
    /// The loss of each row with all features.
    grand: Vec<f64>,
    /// The standard errors over orders.
    sampling_error: Option<Vec<f64>>,
}

/// Checks that a function has an output for each row and each column of labels, or for each class.
fn checked_outputs<E: From<Error>>(
    outputs: Matrix,
    rows: usize,
    labels: &Labels,
) -> std::result::Result<Matrix, E> {
    if outputs.rows() != rows {
        return Err(
            Error::shape("the function's outputs", "rows", rows, outputs.rows(), "one per row").into()
        );
    }
    let needed = match labels {
        Labels::Numbers(y) => y.cols(),
        Labels::Classes(classes) => classes.iter().max().map_or(0, |largest| largest + 1),
    };
    let fits = match labels {
        Labels::Numbers(_) => outputs.cols() == needed,
        Labels::Classes(_) => outputs.cols() >= needed,
    };
    if !fits {
        let why = "one per column of labels, or one probability per class";
        return Err(Error::shape("the function's outputs", "columns", needed, outputs.cols(), why).into());
    }
    Ok(outputs)
}

/// Checks that there is one label per row.
fn check_count(rows: usize, labels: &Labels) -> Result<()> {
    let actual = match labels {
        Labels::Numbers(y) => y.rows(),
        Labels::Classes(y) => y.len(),
    };
    if rows == 0 {
        return Err(Error::too_few("the table of labelled rows", 1, "row is"));
    }
    if actual != rows {
        return Err(Error::shape("the labels", "rows", rows, actual, "one per row"));
    }
    Ok(())
}

impl Labels {
    /// Checks that these are labels of `rows` rows for this model.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there is one label per row and output; [`Error::Parameter`] for classes for
    /// which the model has no probabilities.
    pub fn check(&self, model: &KernelExpansion, rows: usize) -> Result<()> {
        check_count(rows, self)?;
        match self {
            Self::Numbers(y) if y.cols() != model.outputs() => {
                Err(Error::shape("the labels", "columns", model.outputs(), y.cols(), "one per output"))
            }
            Self::Numbers(_) => Ok(()),
            Self::Classes(classes) => {
                if ProbabilityLink::of_model(model).is_none() {
                    let allowed = "labels of classes need a model with class probabilities, such as logistic \
                                   regression";
                    return Err(Error::parameter("labels", "classes", allowed));
                }
                match classes.iter().find(|c| **c >= model.classes.len()) {
                    Some(bad) => {
                        let allowed = format!("from 0 to {}", model.classes.len() - 1);
                        Err(Error::parameter("class", bad, allowed))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// The loss of each row, given some of its features.
struct RowLosses<'a, F> {
    /// Returns the outputs for some rows, rows × outputs.
    predict: F,
    x: &'a Table,
    labels: &'a Labels,
    reference: &'a ReferenceRows,
    players: &'a [Player],
    /// The link from outputs to probabilities, if labels are classes.
    link: Option<ProbabilityLink>,
    control: RunControl<'a>,
}

impl<F> RowLosses<'_, F> {
    /// Returns the loss of each row with the players of `mask` present.
    fn losses<E>(&self, mask: &[bool]) -> std::result::Result<Vec<f64>, E>
    where
        E: From<Error>,
        F: Fn(&Table) -> std::result::Result<Matrix, E>,
    {
        let Self { x, reference, .. } = self;
        let (n, d) = (x.rows(), x.width());
        let mut present = vec![false; d];
        for (player, is_present) in self.players.iter().zip(mask) {
            player.columns.iter().for_each(|&j| present[j] = *is_present);
        }
        let (all_present, empty) =
            (present.iter().all(|is_present| *is_present), present.iter().all(|is_present| !*is_present));
        let mixed_rows = if all_present { 1 } else { reference.rows.len() };
        let step = (BLOCK / (mixed_rows * d).max(1)).max(1);
        let mut losses = Vec::with_capacity(n);
        for from in (0..if empty { 1 } else { n }).step_by(step) {
            self.control.check_cancelled()?;
            let rows = from..(from + step).min(if empty { 1 } else { n });
            let mut values = Vec::with_capacity(rows.len() * mixed_rows * d);
            for (j, is_present) in present.iter().enumerate() {
                for i in rows.clone() {
                    values.extend(
                        (0..mixed_rows).map(|b| if *is_present { x.get(i, j) } else { reference.rows[b][j] }),
                    );
                }
            }
            let mixed = Table::from_column_major(x.columns().to_vec(), rows.len() * mixed_rows, values)?;
            let outputs = (self.predict)(&mixed)?;
            for (position, i) in rows.enumerate() {
                let weights = if all_present { &[1.0][..] } else { &reference.weights };
                let weighted_outputs =
                    weights.iter().enumerate().map(|(b, w)| (*w, outputs.row(position * mixed_rows + b)));
                let mean = self.mean(weighted_outputs);
                losses.extend((if empty { 0..n } else { i..i + 1 }).map(|i| self.loss(i, &mean)));
            }
        }
        self.control.step();
        Ok(losses)
    }

    /// Returns the weighted mean of outputs, or of probabilities.
    fn mean<'o>(&self, outputs: impl Iterator<Item = (f64, &'o [f64])>) -> Vec<f64> {
        let mut mean = Vec::new();
        for (weight, outputs) in outputs {
            let numbers = match self.labels {
                Labels::Numbers(_) => outputs.to_vec(),
                Labels::Classes(_) => {
                    self.link.as_ref().map_or_else(|| outputs.to_vec(), |link| link.probabilities(outputs))
                }
            };
            mean.resize(numbers.len(), 0.0);
            add_multiple(&mut mean, weight, &numbers);
        }
        mean
    }

    fn loss(&self, i: usize, prediction: &[f64]) -> f64 {
        match self.labels {
            Labels::Numbers(y) => y.row(i).iter().zip(prediction).map(|(y, f)| (y - f) * (y - f)).sum(),
            Labels::Classes(classes) => -prediction[classes[i]].ln(),
        }
    }
}

/// Returns the exact values of the squared error by player and row, from the mean outputs of all coalitions.
fn exact_by_tables(
    coalition_outputs: &CoalitionOutputs<'_>,
    (x, y): (&Table, &Matrix),
    p: usize,
    control: RunControl<'_>,
) -> Result<Vec<Vec<f64>>> {
    let (weights, outputs, coalitions) = (shapley_weights(p), y.cols(), coalition_outputs.coalition_count());
    let indices: Vec<usize> = (0..x.rows()).collect();
    let chunk_values = |rows: &[usize]| {
        control.check_cancelled()?;
        let outputs_by_row = coalition_outputs.outputs(&x.row_vectors(rows.iter().copied()))?;
        let mut values = vec![0.0; rows.len() * p];
        for ((&i, row_outputs), values) in
            rows.iter().zip(outputs_by_row.chunks_exact(outputs * coalitions)).zip(values.chunks_exact_mut(p))
        {
            let mut losses = vec![0.0; coalitions];
            for (y, coalition_outputs) in y.row(i).iter().zip(row_outputs.chunks_exact(coalitions)) {
                losses.iter_mut().zip(coalition_outputs).for_each(|(loss, f)| *loss += (y - f) * (y - f));
            }
            for (mask, loss) in losses.iter().enumerate() {
                let size = mask.count_ones() as usize;
                for (j, value) in values.iter_mut().enumerate() {
                    // The value of a coalition is the reduction of the loss, hence the signs.
                    *value +=
                        if mask >> j & 1 == 1 { -weights[size - 1] * loss } else { weights[size] * loss };
                }
            }
        }
        control.step();
        Ok(values)
    };
    let values: Vec<f64> =
        indices.par_chunks(BATCH).with_max_len(1).map(chunk_values).collect::<Result<Vec<_>>>()?.concat();
    Ok((0..p).map(|j| values.iter().skip(j).step_by(p).copied().collect()).collect())
}

/// Returns the exact values by player and row, from all coalitions.
fn exact_by_enumeration<E, F>(
    game: &RowLosses<'_, F>,
    none: &[f64],
    grand: &[f64],
) -> std::result::Result<Vec<Vec<f64>>, E>
where
    E: From<Error>,
    F: Fn(&Table) -> std::result::Result<Matrix, E>,
{
    let (p, n) = (game.players.len(), none.len());
    let weights = shapley_weights(p);
    let mut sums = vec![vec![0.0; n]; p];
    for mask in 0..1_usize << p {
        let coalition = Coalition::from_mask(mask, p);
        let size = mask.count_ones() as usize;
        let losses = match size {
            0 => none.to_vec(),
            s if s == p => grand.to_vec(),
            _ => game.losses(coalition.present())?,
        };
        for (j, sum) in sums.iter_mut().enumerate() {
            // The value of a coalition is the reduction of the loss, hence the signs.
            let weight = if coalition.present()[j] { -weights[size - 1] } else { weights[size] };
            add_multiple(sum, weight, &losses);
        }
    }
    Ok(sums)
}

//! Kernel SHAP: Shapley values of any model from its predictions alone, by the values of coalitions (Lundberg
//! and Lee 2017). The [`Game`](crate::Game) decides how absent features are filled in. All coalitions are
//! evaluated if they are within the budget, otherwise a sample of them, which is the same for all rows.

use std::sync::atomic::AtomicBool;

use super::observational::imputation::{Imputer, PreparedRow};
use super::sampled_shapley::{
    Coalition, CoalitionGame, CoalitionValues, SampleState, SamplingNoise, solve_from,
};
use super::std_error::ValueRange;
use super::weighted_mean;
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Sampling};
use crate::kernel_model::default_names;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::question::Question;
use crate::random::{Random, SeedableRng, hash};
use crate::table::{Column, Table};

/// Explains the function `f` at `rows`, as `question` requests. `f` maps a table of rows to a matrix of
/// outputs (rows × outputs), and is called on at most `batch` rows at a time.
///
/// Values are exact if all coalitions were evaluated and no absent feature was drawn at random. The bounds
/// then cover rounding, and treat predictions as exact. Outputs are called `y` or `y1 … ym`, and the
/// provenance contains nothing about the model.
///
/// # Errors
/// Errors of `f`, of the reference or of the budget. [`Error::Parameter`] for a game that requires a kernel.
/// [`Error::Overflow`] if `f` returns numbers that are not finite. [`Error::Shape`] unless `f` returns one
/// row of outputs per row, and the same number of outputs in each call.
pub fn kernel_shap<E: From<Error>>(
    f: impl FnMut(&Table) -> Result<Matrix, E>,
    rows: &Table,
    question: &Question,
    batch: usize,
) -> Result<Explanation, E> {
    kernel_shap_from(f, rows, question, batch, &mut SampleState::default(), &AtomicBool::new(false))
}

/// Continues [`kernel_shap`] from the coalitions that an earlier call on the same rows evaluated, and stores
/// all coalitions for a later call. The result equals the result of a single call with the larger budget,
/// except that `evaluations` counts this call alone.
///
/// # Errors
/// As [`kernel_shap`]; [`Error::Format`] for a sample of other rows or another function;
/// [`Error::Interrupted`] soon after `stop` becomes true.
#[allow(clippy::too_many_arguments, reason = "a question and how it is asked")]
pub fn kernel_shap_from<E: From<Error>>(
    f: impl FnMut(&Table) -> Result<Matrix, E>,
    rows: &Table,
    question: &Question,
    batch: usize,
    sample: &mut SampleState,
    stop: &AtomicBool,
) -> Result<Explanation, E> {
    question.index.of_coalitions()?;
    question.reject_ordering()?;
    let columns = rows.columns();
    let (budget, groups) = (question.budget, &question.players_of(columns));
    let filling = Imputer::new(&question.game, columns, groups, stop)?;
    let (mut model, batch) = (CountingFunction { f, evaluations: 0, outputs: None }, batch.max(1));
    let at_reference = model.evaluate_in_batches(&filling.reference.rows, columns, batch)?;
    let m = at_reference.cols();
    let base = weighted_mean(&filling.reference.weights, &at_reference);
    let row_list = rows.row_vectors(0..rows.rows());
    let predictions = match &row_list[..] {
        [] => Matrix::zeros(0, m),
        rows => model.evaluate_in_batches(rows, columns, batch)?,
    };
    // Predictions at the reference rows always enter the rounding bound, since the base value is their mean.
    let references: Vec<ValueRange> = (0..m).map(|o| ValueRange::over(at_reference.column(o))).collect();
    let largest = predictions.data().iter().enumerate();
    let largest = largest.map(|(k, v)| references[k % m].largest().max(v.abs())).collect();
    let mut game = FunctionGame {
        model,
        columns,
        batch,
        filling: &filling,
        rows: row_list.into_iter().map(|x| filling.prepare_row(x, stop)).collect::<Result<_>>()?,
        base: &base,
        predictions: &predictions,
        references,
        largest,
        weighing: vec![0.0; predictions.data().len()],
        seed: budget.seed,
        stop,
    };
    let (n, p) = (rows.rows(), groups.players().len());
    let (mut values, mut std_error, mut coalitions) = (Vec::new(), None, 0);
    if n > 0 {
        let part = sample.part(0);
        let solution = solve_from(&mut game, budget, &mut part.regression)?;
        part.merge([&mut game.largest, &mut game.weighing]);
        values = solution.values.into_data();
        std_error = solution.std_error.map(Matrix::into_data);
        coalitions = solution.coalitions + 2;
    }
    let terms = coalitions + 8 * p + filling.reference.rows.len() + 14;
    let exactness = match std_error {
        Some(std_error) => {
            let sampling = Sampling { evaluations: game.model.evaluations, seed: budget.seed };
            Exactness::Estimated { std_error, sampling: Some(sampling) }
        }
        // The absolute weights of all coalitions sum to at most 2.
        None => Exactness::Exact {
            bound: (game.largest.iter().zip(&game.weighing))
                .map(|(largest, weighing)| f64::EPSILON * terms as f64 * largest + 2.0 * weighing)
                .collect(),
        },
    };
    Ok(Explanation {
        index: question.index,
        values,
        base_values: base.repeat(n),
        predictions: predictions.data().to_vec(),
        exactness,
        provenance: question.provenance(Vec::new(), vec![CardEntry::new("coalitions valued", coalitions)]),
        ..Explanation::of_rows(groups.players(), &default_names(m), rows.clone())
    })
}

/// A function with a count of its evaluations.
pub(super) struct CountingFunction<F> {
    pub(super) f: F,
    pub(super) evaluations: usize,
    pub(super) outputs: Option<usize>,
}

impl<E: From<Error>, F: FnMut(&Table) -> Result<Matrix, E>> CountingFunction<F> {
    /// Evaluates the function at the rows of a table.
    pub(super) fn evaluate(&mut self, table: &Table) -> Result<Matrix, E> {
        self.evaluations += table.rows();
        let out = (self.f)(table)?;
        super::check_answer(&out, table.rows(), self.outputs)?;
        self.outputs = Some(out.cols());
        Ok(out)
    }

    /// Evaluates the function at any number of rows, `batch` rows at a time.
    fn evaluate_in_batches(
        &mut self,
        rows: &[Vec<f64>],
        columns: &[Column],
        batch: usize,
    ) -> Result<Matrix, E> {
        let mut answers = Vec::new();
        for rows in rows.chunks(batch) {
            let table = Table::from_named_rows(columns.to_vec(), rows)?;
            answers.extend_from_slice(self.evaluate(&table)?.data());
        }
        Ok(Matrix::from_row_major(rows.len(), self.outputs.unwrap_or(0), answers))
    }
}

struct FunctionGame<'a, F> {
    model: CountingFunction<F>,
    columns: &'a [Column],
    /// Number of rows to evaluate at a time.
    batch: usize,
    filling: &'a Imputer,
    rows: Vec<PreparedRow>,
    base: &'a [f64],
    predictions: &'a Matrix,
    /// For each output, the range of predictions at the reference rows.
    references: Vec<ValueRange>,
    /// For each row and output, the largest absolute prediction.
    largest: Vec<f64>,
    /// For each row and output, a bound on the effect of errors of an embedding's weights on a coalition's
    /// value.
    weighing: Vec<f64>,
    seed: u64,
    stop: &'a AtomicBool,
}

impl<E: From<Error>, F: FnMut(&Table) -> Result<Matrix, E>> CoalitionGame for FunctionGame<'_, F> {
    type Error = E;

    fn players(&self) -> usize {
        self.filling.groups.players().len()
    }

    fn empty_and_grand_values(&mut self) -> Result<[Vec<f64>; 2], E> {
        Ok([self.base.repeat(self.rows.len()), self.predictions.data().to_vec()])
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues, E> {
        let (n, m) = (self.rows.len(), self.base.len());
        let mut values = Matrix::zeros(coalitions.len(), n * m);
        let mut variance = Matrix::zeros(coalitions.len(), n * m);
        // If absent features are drawn at random: the number of draws per coalition, and the range of
        // predictions so far.
        let mut draws = None;
        let mut answered = self.references.repeat(n);
        // Rows to evaluate, and for each coalition and explained row the weights of these rows with their
        // error bound.
        let (mut queued, mut meant) = (Vec::new(), Vec::new());
        for (c, coalition) in coalitions.iter().enumerate() {
            let conditioned = self.filling.for_coalition(coalition.present(), self.stop)?;
            for i in 0..n {
                // The seed comes from the row's values, so that its draws do not depend on its position.
                let row = hash(self.rows[i].x.iter().map(|v| v.to_bits()));
                let mut random = Random::seed_from_u64(hash([self.seed, row, coalition.hash()]));
                let mixtures = conditioned.mixtures(&self.rows[i], &mut random, self.stop)?;
                draws = mixtures.drawn.then_some(mixtures.rows.len());
                meant.push((c, i, mixtures.weights, mixtures.error));
                queued.extend(mixtures.rows);
                let is_last = c + 1 == coalitions.len() && i + 1 == n;
                if queued.len() < self.batch && !is_last {
                    continue;
                }
                let answers = self.model.evaluate_in_batches(&queued, self.columns, self.batch)?;
                queued.clear();
                let mut first = 0;
                for (c, i, weights, error) in meant.drain(..) {
                    for o in 0..m {
                        let g = i * m + o;
                        let coalition_answers = (0..weights.len()).map(|k| answers[(first + k, o)]);
                        // Weights of an embedding need not sum to 1, so they apply to deviations from the
                        // mean.
                        let center = if self.filling.centered { self.base[o] } else { 0.0 };
                        let value = center
                            + coalition_answers
                                .clone()
                                .zip(&weights)
                                .map(|(a, w)| w * (a - center))
                                .sum::<f64>();
                        values[(c, g)] = value;
                        let size = coalition_answers.clone().map(f64::abs).fold(value.abs(), f64::max);
                        self.largest[g] = self.largest[g].max(size);
                        let sum_of_squares: f64 =
                            coalition_answers.clone().map(|a| (a - center).powi(2)).sum();
                        self.weighing[g] = self.weighing[g].max(error * sum_of_squares.sqrt());
                        if draws.is_some() {
                            let range = &mut answered[g];
                            *range = range.and(ValueRange::over(coalition_answers.clone()));
                            let k = weights.len() as f64;
                            let sum_of_squares: f64 = coalition_answers.map(|a| (a - value).powi(2)).sum();
                            variance[(c, g)] = sum_of_squares / (k * (k - 1.0));
                        }
                    }
                    first += weights.len();
                }
            }
        }
        let noise = draws.map(|draws| {
            let end_values =
                [ValueRange::lowest, ValueRange::highest].map(|end| answered.iter().map(end).collect());
            SamplingNoise { variance, draws, draw_range: end_values }
        });
        Ok(CoalitionValues { values, noise })
    }
}

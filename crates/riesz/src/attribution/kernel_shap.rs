//! KernelSHAP: values of any model, known by its answers alone, from the values of coalitions (Lundberg and
//! Lee 2017). What absent features are filled in with is the [`Game`](crate::Game); all coalitions are valued
//! while the budget lasts, and else a sample of them, the same for all rows.

use std::sync::atomic::AtomicBool;

use super::observational::filling::{Imputer, PreparedRow};
use super::sampled_shapley::{
    Coalition, CoalitionGame, CoalitionValues, SampleState, SamplingNoise, solve_from,
};
use super::std_error::ValueRange;
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Fact, Sampling};
use crate::kernel_model::default_names;
use crate::linalg::Matrix;
use crate::question::Question;
use crate::random::{Random, SeedableRng, hash};
use crate::table::{Column, Table};

/// Asks `question` about `rows` of the function `f`, from rows of a table to rows of outputs, which is asked
/// about at most `batch` rows at a time.
///
/// Values are exact if all coalitions were valued and no absent feature was drawn: then what is bounded is
/// rounding, where answers are taken as they are. Of the model, whose outputs are called `y` or `y1 … ym`,
/// the provenance says nothing.
///
/// # Errors
/// Those of `f`; what is wrong with the reference or the budget; [`Error::Parameter`] for a game that takes a
/// kernel; [`Error::Overflow`] if `f` answers with numbers that are not finite, [`Error::Shape`] if not with
/// one row of outputs for each row, and as many outputs each time.
pub fn kernel_shap<E: From<Error>>(
    f: impl FnMut(&Table) -> Result<Matrix, E>,
    rows: &Table,
    question: &Question,
    batch: usize,
) -> Result<Explanation, E> {
    kernel_shap_from(f, rows, question, batch, &mut SampleState::default(), &AtomicBool::new(false))
}

/// As [`kernel_shap`], going on from the coalitions that an earlier call on the same rows valued, and leaving
/// them for a later call: the result is that of one call with the larger budget, but for `evaluations`, which
/// are those of this call.
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
    let columns = rows.columns();
    let (budget, groups) = (question.budget, &question.players_of(columns));
    let filling = Imputer::new(&question.game, columns, groups, stop)?;
    let mut model = CountingFunction { f, columns, batch: batch.max(1), evaluations: 0, outputs: None };
    let at_reference = model.evaluate(filling.reference.rows.clone())?;
    let m = at_reference.cols();
    let weights = &filling.reference.weights;
    let base: Vec<f64> =
        (0..m).map(|o| weights.iter().enumerate().map(|(b, w)| w * at_reference[(b, o)]).sum()).collect();
    let all: Vec<Vec<f64>> = (0..rows.rows()).map(|i| rows.row(i)).collect();
    let predictions = if all.is_empty() { Matrix::zeros(0, m) } else { model.evaluate(all.clone())? };
    // All answers enter: the base value is the mean of those at the reference rows, however small the others
    // are.
    let references: Vec<ValueRange> = (0..m).map(|o| ValueRange::of(at_reference.column(o))).collect();
    let largest = predictions.data().iter().enumerate();
    let largest = largest.map(|(k, v)| references[k % m].largest().max(v.abs())).collect();
    let mut game = FunctionGame {
        model,
        filling: &filling,
        rows: all.into_iter().map(|x| filling.prepare_row(x, stop)).collect::<Result<_>>()?,
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
        let found = solve_from(&mut game, budget, &mut part.regression)?;
        part.merge([&mut game.largest, &mut game.weighing]);
        values = found.values.data().to_vec();
        std_error = found.std_error.map(|e| e.data().to_vec());
        coalitions = found.coalitions + 2;
    }
    let terms = coalitions + 8 * p + filling.reference.rows.len() + 14;
    let exactness = match std_error {
        Some(std_error) => {
            let sampling = Sampling { evaluations: game.model.evaluations, seed: budget.seed };
            Exactness::Estimated { std_error, sampling: Some(sampling) }
        }
        // The weights of all coalitions add up to 2 at most.
        None => Exactness::Exact {
            bound: (game.largest.iter().zip(&game.weighing))
                .map(|(largest, weighing)| f64::EPSILON * terms as f64 * largest + 2.0 * weighing)
                .collect(),
        },
    };
    Ok(Explanation {
        index: question.index,
        players: groups.players().to_vec(),
        subsets: None,
        output_names: default_names(m),
        values,
        base_values: (0..n).flat_map(|_| base.iter().copied()).collect(),
        predictions: predictions.data().to_vec(),
        data: rows.clone(),
        row_numbers: (0..n).collect(),
        exactness,
        uncertainty: None,
        duels: None,
        provenance: question.provenance(Vec::new(), vec![Fact::new("coalitions valued", coalitions)]),
    })
}

/// A function, and how often it was asked.
struct CountingFunction<'c, F> {
    f: F,
    columns: &'c [Column],
    batch: usize,
    evaluations: usize,
    outputs: Option<usize>,
}

impl<E: From<Error>, F: FnMut(&Table) -> Result<Matrix, E>> CountingFunction<'_, F> {
    /// The answers at some rows, however many.
    fn evaluate(&mut self, rows: Vec<Vec<f64>>) -> Result<Matrix, E> {
        let mut all = Vec::new();
        let n = rows.len();
        for rows in rows.chunks(self.batch) {
            let by_column =
                (0..self.columns.len()).flat_map(|j| rows.iter().map(move |row| row[j])).collect();
            let table = Table::from_column_major(self.columns.to_vec(), rows.len(), by_column)?;
            self.evaluations += rows.len();
            let out = (self.f)(&table)?;
            super::check_answer(&out, rows.len(), self.outputs)?;
            self.outputs = Some(out.cols());
            all.extend_from_slice(out.data());
        }
        Ok(Matrix::from_row_major(n, self.outputs.unwrap_or(0), all))
    }
}

struct FunctionGame<'a, F> {
    model: CountingFunction<'a, F>,
    filling: &'a Imputer,
    rows: Vec<PreparedRow>,
    base: &'a [f64],
    predictions: &'a Matrix,
    /// By output, the answers at the reference rows.
    references: Vec<ValueRange>,
    /// By row and output, the largest answer.
    largest: Vec<f64>,
    /// By row and output, a bound on what the error of an embedding's weights does to a coalition's value.
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
        let nobody = self.rows.iter().flat_map(|_| self.base.iter().copied()).collect();
        Ok([nobody, self.predictions.data().to_vec()])
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues, E> {
        let (n, m) = (self.rows.len(), self.base.len());
        let mut values = Matrix::zeros(coalitions.len(), n * m);
        let mut variance = Matrix::zeros(coalitions.len(), n * m);
        // Where absent features are drawn: how often for each coalition, and the answers so far.
        let mut draws = None;
        let mut answered: Vec<ValueRange> = (0..n).flat_map(|_| self.references.iter().copied()).collect();
        // Rows to ask about, for each of which coalition and row it stands, and its weight.
        let (mut asked, mut meant) = (Vec::new(), Vec::new());
        for (c, coalition) in coalitions.iter().enumerate() {
            let given = self.filling.given(coalition.present(), self.stop)?;
            for i in 0..n {
                // Of the row itself, so that its draws do not depend on where it stands.
                let row = hash(self.rows[i].x.iter().map(|v| v.to_bits()));
                let mut random = Random::seed_from_u64(hash([self.seed, row, coalition.hash()]));
                let mixtures = given.mixtures(&self.rows[i], &mut random, self.stop)?;
                draws = mixtures.drawn.then_some(mixtures.rows.len());
                meant.push((c, i, mixtures.weights, mixtures.error));
                asked.extend(mixtures.rows);
                let last = c + 1 == coalitions.len() && i + 1 == n;
                if asked.len() < self.model.batch && !last {
                    continue;
                }
                let answers = self.model.evaluate(std::mem::take(&mut asked))?;
                let mut at = 0;
                for (c, i, weights, error) in meant.drain(..) {
                    for o in 0..m {
                        let own = (0..weights.len()).map(|k| answers[(at + k, o)]);
                        // Weights of an embedding need not sum to 1; around the mean it does not matter.
                        let center = if self.filling.centred { self.base[o] } else { 0.0 };
                        let value =
                            center + own.clone().zip(&weights).map(|(a, w)| w * (a - center)).sum::<f64>();
                        values[(c, i * m + o)] = value;
                        let size = own.clone().map(f64::abs).fold(value.abs(), f64::max);
                        self.largest[i * m + o] = self.largest[i * m + o].max(size);
                        let spread: f64 = own.clone().map(|a| (a - center).powi(2)).sum();
                        self.weighing[i * m + o] = self.weighing[i * m + o].max(error * spread.sqrt());
                        if draws.is_some() {
                            let range = &mut answered[i * m + o];
                            *range = range.and(ValueRange::of(own.clone()));
                            let k = weights.len() as f64;
                            let spread: f64 = own.map(|a| (a - value).powi(2)).sum();
                            variance[(c, i * m + o)] = spread / (k * (k - 1.0));
                        }
                    }
                    at += weights.len();
                }
            }
        }
        let noise = draws.map(|draws| {
            let ends =
                [ValueRange::lowest, ValueRange::highest].map(|end| answered.iter().map(end).collect());
            SamplingNoise { variance, draws, empty_and_grand_values: ends }
        });
        Ok(CoalitionValues { values, noise })
    }
}

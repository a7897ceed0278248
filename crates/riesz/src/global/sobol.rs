//! Sobol indices and Shapley effects: what a model's output varies with, exactly for independent inputs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::marginals::InputMarginals;
use super::variance::{PosteriorTerms, VarianceGame};
use crate::attribution::index_computation::{IndexComputation, IndexValues};
use crate::attribution::product::{PlayerValues, ProductGame, ProductTerms, TermAccumulator, read};
use crate::attribution::quadrature::QuadratureEngine;
use crate::attribution::rule::InclusionMeasure;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Fact, Provenance, VARIANCE_GAME};
use crate::game::Background;
use crate::index::ValueIndex;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, symmetric_eigen};
use crate::posterior::{Functionals, Posterior, PosteriorCovariance};
use crate::simd::{Isa, Lanes, Plain};
use crate::table::Players;

/// Takes the variance of a model's output apart: a coalition S of features is worth `Var E[f(X) | X_S]`,
/// where features are independent of each other and each is distributed as in a table (groups: jointly so).
///
/// First-order and total Sobol indices (Sobol 1993; Homma and Saltelli 1996) are what a feature explains
/// alone and what is left unexplained without it; its Shapley effect (Owen 2014; Song, Nelson and Staum 2016)
/// lies between the two, and Shapley effects add up to the variance. All are exact: the game is a product
/// game over pairs of support points. Cost O(n² features · inputs), where n is the number of support points
/// times the products of the kernel, and inputs that of different values a feature has in the table; memory
/// O(n features · inputs).
#[derive(Debug, Clone, Default)]
pub struct Sensitivity {
    /// The players, by default one a column. Features that depend on each other belong in one.
    pub groups: Option<Players>,
    /// Which value [`SobolIndices::explanation`] holds, by default the Shapley effect; `moebius` are first-
    /// and second-order Sobol indices.
    pub index: ValueIndex,
    /// Set by another thread to give up.
    pub stop: Arc<AtomicBool>,
    /// Read by another thread to see how far the work is.
    pub progress: Arc<Progress>,
}

/// What a model's output varies with, in units of its variance. Outputs are before the link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SobolIndices {
    /// The game: one row, whose data are means and most frequent levels. Its predictions are variances,
    /// summed up without the values (whose sum they check), and its base values 0.
    pub explanation: Explanation,
    /// Outputs × players: `Var E[f | X_j]`.
    first_order: Vec<f64>,
    /// Outputs × players: `E Var[f | all others]`.
    total_order: Vec<f64>,
    /// Outputs × players: Shapley effects.
    effects: Vec<f64>,
    /// One an output: a bound on the error of each of these numbers.
    bound: Vec<f64>,
}

/// The most numbers that the sums of all parts may be: 2 GB.
const NUMBERS: usize = 1 << 28;

/// Directions of the kernel matrix that are smaller than this relative to the largest are left out of draws.
const SMALLEST: f64 = 1e-9;

impl SobolIndices {
    fn row<'a>(&self, list: &'a [f64], o: usize) -> &'a [f64] {
        let p = self.explanation.players.len();
        &list[o * p..(o + 1) * p]
    }

    /// The variance of output `o`.
    pub fn variance(&self, o: usize) -> f64 {
        self.explanation.predictions[o]
    }

    /// What each player explains alone: its first-order Sobol index times the variance.
    pub fn first_order(&self, o: usize) -> &[f64] {
        self.row(&self.first_order, o)
    }

    /// What is left without each player: its total Sobol index times the variance.
    pub fn total_order(&self, o: usize) -> &[f64] {
        self.row(&self.total_order, o)
    }

    /// Each player's Shapley effect, which add up to the variance.
    pub fn effects(&self, o: usize) -> &[f64] {
        self.row(&self.effects, o)
    }

    /// A proved bound on the error of each of these numbers of output `o`, quadrature and rounding.
    pub fn bound(&self, o: usize) -> f64 {
        self.bound[o]
    }

    /// What parts of the variance are multiplied by to be shares of it; `None` for an output that does not
    /// vary by more than its error.
    pub fn scale(&self, o: usize) -> Option<f64> {
        let variance = self.variance(o);
        (variance > self.bound[o]).then_some(1.0 / variance)
    }
}

fn not_skew(covariance: &PosteriorCovariance) -> Result<()> {
    match covariance.skew_swap {
        None => Ok(()),
        Some(_) => {
            let allowed = "the items of a duel are alike, and indices are those of its log odds: ask \
                           without the posterior";
            Err(Error::parameter("posterior", "of duels", allowed))
        }
    }
}

impl Sensitivity {
    /// Of a model whose inputs are as in the rows of `inputs`, whose columns are matched by name.
    ///
    /// # Errors
    /// As [`Table::align_to`](crate::Table::align_to); [`Error::TooFew`]; [`Error::NotProduct`] for a kernel
    /// that ties columns of different players together;
    /// [`Error::Overflow`]; [`Error::Interrupted`].
    pub fn run(&self, model: &KernelExpansion, inputs: &Background) -> Result<SobolIndices> {
        self.of(model, inputs, None)
    }

    /// The mean, over the posterior, of what [`run`](Self::run) finds of each function that the posterior
    /// thinks possible. Exact, too: `Var E[f | X_S]` is quadratic in f, so its mean takes the covariance of f
    /// beside its mean function. Larger than of the mean function, because what is not known of f varies.
    /// Cost and memory besides: O(n³) and O(n²).
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Posterior::new`].
    pub fn expected(
        &self,
        model: &KernelExpansion,
        covariance: &PosteriorCovariance,
        inputs: &Background,
    ) -> Result<SobolIndices> {
        let posterior = Posterior::new(model, covariance)?.with_cancel(&self.stop);
        not_skew(covariance)?;
        let n = model.support_points.rows();
        let mut columns = Matrix::zeros(n, n);
        (0..n).for_each(|i| columns[(i, i)] = 1.0);
        let own = Functionals { columns, prior_scale: Matrix::zeros(n, n), constants: vec![0.0; n] };
        let prior = covariance.scale.iter().map(|scale| covariance.prior_scale * scale * scale).collect();
        self.of(model, inputs, Some(&PosteriorTerms { prior_term: prior, known: posterior.covariance(&own) }))
    }

    /// The same of functions drawn from the posterior, to see how sure indices are: the outputs of the result
    /// are the draws of the first output, then those of the second, and so on.
    ///
    /// What is drawn is f at the support points, jointly; between them a draw is the mean of the process
    /// given what it is there. That is exact where inputs are support points or near them. Elsewhere draws
    /// are smoother than the process: by how much their variance falls short on average of
    /// [`expected`](Self::expected), which is exact. Directions in which the prior's variance at the support
    /// points is less than 1e-9 of the largest are left out, where draws are the mean: of a variance of 1
    /// they hold n · 1e-9 at most. Cost besides: O(n³ + n² draws).
    ///
    /// # Errors
    /// As [`expected`](Self::expected); [`Error::Parameter`] for no draws, and for more than memory holds;
    /// [`Error::NotPositiveDefinite`] as [`Posterior::sample`].
    pub fn indices_of_draws(
        &self,
        model: &KernelExpansion,
        covariance: &PosteriorCovariance,
        inputs: &Background,
        (draws, seed): (usize, u64),
    ) -> Result<SobolIndices> {
        if draws == 0 {
            return Err(Error::parameter("draws", draws, "at least 1"));
        }
        // Coefficients of all outputs, those of one on their way, and what all parts sum up.
        let points = model.support_points.rows().saturating_mul(4 + 2 * model.outputs());
        crate::memory::check_allocation(
            "number of draws",
            draws,
            points.saturating_add(64 * model.support_points.width()),
        )?;
        let posterior = Posterior::new(model, covariance)?.with_cancel(&self.stop);
        not_skew(covariance)?;
        let at = posterior.functionals_at(&model.support_points)?;
        let (means, samples) = (posterior.mean_of(&at), posterior.sample(&at, draws, seed)?);
        let n = model.support_points.rows();
        if posterior.prior_scale() <= 0.0 {
            return Err(Error::parameter(
                "draws",
                draws,
                "they are draws from the posterior of a Gaussian process",
            ));
        }
        // Coefficients in directions in which the process hardly varies would be huge and add up to nothing:
        // of a variance of 1 a draw leaves out n times the smallest direction at most.
        let (sizes, directions) = symmetric_eigen(&at.prior_scale)?;
        let least = SMALLEST * sizes.iter().fold(0.0, |m: f64, v| m.max(*v));
        let solve = |off: Matrix| {
            let mut along = directions.transpose().matmul(&off);
            for (i, size) in sizes.iter().enumerate() {
                let scale = if *size > least { 1.0 / size } else { 0.0 };
                along.row_mut(i).iter_mut().for_each(|v| *v *= scale);
            }
            directions.matmul(&along)
        };
        let (mut coef, mut output_names) = (Matrix::zeros(n, draws * model.outputs()), Vec::new());
        for (o, values) in samples.values.into_iter().enumerate() {
            let mut off = values;
            (0..n).for_each(|i| off.row_mut(i).iter_mut().for_each(|v| *v -= means[(i, o)]));
            let off = solve(off);
            for i in 0..n {
                let own = &mut coef.row_mut(i)[o * draws..(o + 1) * draws];
                own.iter_mut().zip(off.row(i)).for_each(|(c, v)| *c = model.coef[(i, o)] + v);
            }
            output_names.extend((0..draws).map(|k| format!("{} #{k}", model.output_names[o])));
        }
        let drawn = KernelExpansion {
            kernel: model.kernel.clone(),
            support_points: model.support_points.clone(),
            intercept: vec![0.0; draws * model.outputs()],
            coef,
            output_names,
            link: Link::Identity,
            classes: Vec::new(),
            model_card: model.model_card.clone(),
        };
        self.of(&drawn, inputs, None)
    }

    fn of(
        &self,
        model: &KernelExpansion,
        inputs: &Background,
        unsure: Option<&PosteriorTerms>,
    ) -> Result<SobolIndices> {
        let groups = self.groups.clone().unwrap_or_else(|| Players::singletons(model.columns()));
        let watch = RunControl { stop: &self.stop, progress: &self.progress };
        let (isa, p, m) = (Isa::detect(), groups.players().len(), model.outputs());
        let marginals = InputMarginals::new(inputs, model, &groups)?;
        let game = VarianceGame::new(model, &groups, &marginals, unsure, isa, watch)?;
        self.index.validate()?;
        if self.index == ValueIndex::Owen {
            return Err(Error::parameter("index", self.index, "variances are shared out without unions"));
        }
        // Each part has its own sums.
        let sets = self.index.sets(p).and_then(|sets| sets.checked_mul(game.parts() * m));
        if self.index.order() > 1 && sets.is_none_or(|sets| sets > NUMBERS) {
            let allowed =
                format!("{p} players have too many sets of so many: group them, or take smaller sets");
            return Err(Error::parameter("index", self.index, allowed));
        }
        let recipe = (self.index != ValueIndex::Shapley).then(|| IndexComputation::from(self.index));
        self.progress.start(game.parts() * (1 + usize::from(recipe.is_some())));
        let new = || Effects::new(isa, p, m);
        let mut all = Effects::new(isa, p, m);
        all.begin(&(0..1), &(0..0));
        for part in read(&game, (isa, &InclusionMeasure::Lebesgue), watch, new)? {
            all.add(&part);
        }
        let [shapley, first, total] = &all.values;
        let bound = |o: usize, own: &[f64], error: f64| {
            let sum: f64 = own.iter().map(|v| v.abs()).sum();
            error
                + f64::EPSILON * ((own.len() + 2) as f64 * sum + 2.0 * all.variance[o].abs())
                + f64::MIN_POSITIVE
        };
        let of_output = |o: usize| {
            let own = |values: &PlayerValues| bound(o, &values.values[o * p..(o + 1) * p], values.error[o]);
            own(shapley).max(own(first)).max(own(total))
        };
        let bounds: Vec<f64> = (0..m).map(of_output).collect();
        let (values, exact) = match &recipe {
            None => (shapley.values.clone(), bounds.clone()),
            Some(recipe) => {
                let IndexValues { values, error } = recipe.compute(&game, isa, watch, (p, m))?;
                // Parts add up.
                let sets = recipe.subsets(p).map_or(p, |sets| sets.len());
                let (mut sums, mut errors) = (vec![0.0; m * sets], vec![0.0; m]);
                for (part, error) in values.chunks_exact(m * sets).zip(error.chunks_exact(m)) {
                    sums.iter_mut().zip(part).for_each(|(sum, v)| *sum += v);
                    errors.iter_mut().zip(error).for_each(|(sum, e)| *sum += e);
                }
                let exact = (0..m).map(|o| bound(o, &sums[o * sets..(o + 1) * sets], errors[o])).collect();
                (sums, exact)
            }
        };
        let numbers =
            [&values, &shapley.values, &first.values, &total.values, &all.variance, &bounds, &exact];
        if numbers.iter().any(|list| list.iter().any(|v| !v.is_finite())) {
            return Err(Error::Overflow {
                what: "the variance of the output".into(),
                remedy: "the inputs are too far from the data the model was fitted on",
            });
        }
        let of = if unsure.is_some() {
            "functions that the posterior thinks possible"
        } else {
            "the model's outputs"
        };
        let explanation = Explanation {
            index: self.index,
            players: groups.players().to_vec(),
            subsets: recipe.and_then(|recipe| recipe.subsets(p)),
            output_names: model.output_names.clone(),
            values,
            base_values: vec![0.0; m],
            predictions: all.variance.clone(),
            data: inputs.rows.align_to(model.columns())?.mean_row(),
            row_numbers: vec![0],
            uncertainty: None,
            duels: None,
            exactness: Exactness::Exact { bound: exact },
            provenance: Provenance {
                game: VARIANCE_GAME.into(),
                absent: format!(
                    "outputs are averaged over an absent feature: features that are present are worth the \
                     variance of the mean that is left, where all are independent; of {of}, over {} rows",
                    inputs.rows.rows()
                ),
                model: model.facts(),
                run: vec![Fact::new("riesz", env!("CARGO_PKG_VERSION"))],
            },
        };
        let [shapley, first, total] = all.values;
        Ok(SobolIndices {
            explanation,
            first_order: first.values,
            total_order: total.values,
            effects: shapley.values,
            bound: bounds,
        })
    }
}

/// Reads the values of players under the three measures at once, and what all of them are worth together.
struct Effects {
    /// Shapley, all others absent, all others present.
    values: [PlayerValues; 3],
    engines: [QuadratureEngine; 2],
    /// By output.
    variance: Vec<f64>,
}

impl Effects {
    fn new(isa: Isa, players: usize, outputs: usize) -> Self {
        Self {
            values: [0; 3].map(|_| PlayerValues::new(players, outputs)),
            engines: [0.0, 1.0].map(|t| QuadratureEngine::new(isa, InclusionMeasure::at(t))),
            variance: vec![0.0; outputs],
        }
    }

    fn add(&mut self, other: &Self) {
        let sum = |all: &mut [f64], more: &[f64]| all.iter_mut().zip(more).for_each(|(all, v)| *all += v);
        for (all, more) in self.values.iter_mut().zip(&other.values) {
            sum(&mut all.values, &more.values);
            sum(&mut all.error, &more.error);
        }
        sum(&mut self.variance, &other.variance);
    }
}

impl TermAccumulator for Effects {
    fn begin(&mut self, rows: &std::ops::Range<usize>, points: &std::ops::Range<usize>) {
        self.values.iter_mut().for_each(|values| values.begin(rows, points));
    }

    fn read(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        let [shapley, first, total] = &mut self.values;
        shapley.read(terms, engine);
        first.read(terms, &mut self.engines[0]);
        total.read(terms, &mut self.engines[1]);
        // All present less all absent, whose error is within that of Shapley values.
        let run = &terms.run;
        let mut sums = vec![Lanes::ZERO; self.variance.len()];
        for (block, weight) in run.weights.iter().enumerate() {
            let (mut present, mut absent) = (*weight, *weight);
            for &k in &run.active[..run.players] {
                let (a, b) = run.side(k, block);
                (present, absent) = (present.mul::<Plain>(a), absent.mul::<Plain>(b));
            }
            let worth = present.sub::<Plain>(absent);
            for (sum, coef) in sums.iter_mut().zip(terms.coef) {
                *sum = worth.fma::<Plain>(coef[block], *sum);
            }
        }
        self.variance.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum.sum());
    }

    fn end(&mut self) {
        self.values.iter_mut().for_each(TermAccumulator::end);
    }
}

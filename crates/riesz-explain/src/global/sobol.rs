//! Sobol indices and Shapley effects: the decomposition of the variance of a model's output, exact for
//! independent inputs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::marginals::InputMarginals;
use super::variance::{PosteriorTerms, VarianceGame};
use crate::attribution::index_computation::{IndexComputation, IndexValues};
use crate::attribution::product::{PlayerValues, ProductGame, ProductTerms, TermAccumulator, accumulate};
use crate::attribution::quadrature::QuadratureEngine;
use crate::attribution::rule::InclusionMeasure;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Provenance, VARIANCE_GAME};
use crate::game::Background;
use crate::index::ValueIndex;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, add_to, symmetric_eigen};
use crate::posterior::{Functionals, Posterior, PosteriorCovariance};
use crate::simd::{Isa, Lanes, Plain, Simd};
use crate::table::Players;

/// Decomposes the variance of a model's output. The value of a coalition S of features is
/// `Var E[f(X) | X_S]`, where features are independent and each is distributed as in a table (a group's
/// features jointly).
///
/// The first-order Sobol index of a feature (Sobol 1993) is the variance that it explains alone. Its total
/// index (Homma and Saltelli 1996) is the variance that remains unexplained without it. Its Shapley effect
/// (Owen 2014; Song, Nelson and Staum 2016) lies between the two, and Shapley effects sum to the variance.
/// All are exact: the game is a product game over pairs of support points.
///
/// Cost O(n² features · inputs), where n is the number of support points times the number of products of the
/// kernel, and inputs the number of distinct values of a feature in the table; memory O(n features · inputs).
#[derive(Debug, Clone, Default)]
pub struct Sensitivity {
    /// The players, by default one per column. Dependent features belong in one player.
    pub groups: Option<Players>,
    /// The index of the values in [`SobolIndices::explanation`], by default the Shapley effect. `moebius`
    /// gives first- and second-order Sobol indices.
    pub index: ValueIndex,
    /// A flag that another thread sets to cancel the run.
    pub stop: Arc<AtomicBool>,
    /// The progress of the run, for other threads to read.
    pub progress: Arc<Progress>,
}

/// The decomposition of the variance of a model's output, in squared units of the output, before the link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SobolIndices {
    /// The game as an explanation of one row, whose data are means and most frequent levels. Its predictions
    /// are variances, which are summed independently of the values and so check their sum, and its base
    /// values are 0.
    pub explanation: Explanation,
    /// Outputs × players: `Var E[f | X_j]`.
    pub(super) first_order: Vec<f64>,
    /// Outputs × players: `E Var[f | all other players]`.
    pub(super) total_order: Vec<f64>,
    /// Outputs × players: Shapley effects.
    pub(super) effects: Vec<f64>,
    /// For each output, a bound on the error of each of these numbers.
    pub(super) bound: Vec<f64>,
}

/// The largest number of doubles in the sums of all parts: 2 GB.
const NUMBERS: usize = 1 << 28;

/// The threshold for eigenvalues of the kernel matrix, relative to the largest; directions below it are left
/// out of draws.
const SMALLEST: f64 = 1e-9;

impl SobolIndices {
    fn row<'a>(&self, list: &'a [f64], o: usize) -> &'a [f64] {
        let p = self.explanation.players.len();
        &list[o * p..(o + 1) * p]
    }

    /// Returns the variance of output `o`.
    pub fn variance(&self, o: usize) -> f64 {
        self.explanation.predictions[o]
    }

    /// Returns the variance that each player explains alone: its first-order Sobol index times the variance.
    pub fn first_order(&self, o: usize) -> &[f64] {
        self.row(&self.first_order, o)
    }

    /// Returns, for each player, the variance that the other players leave unexplained: its total Sobol index
    /// times the variance.
    pub fn total_order(&self, o: usize) -> &[f64] {
        self.row(&self.total_order, o)
    }

    /// Returns each player's Shapley effect; their sum is the variance.
    pub fn effects(&self, o: usize) -> &[f64] {
        self.row(&self.effects, o)
    }

    /// Returns a proved bound on the quadrature and rounding error of each of these numbers of output `o`.
    pub fn bound(&self, o: usize) -> f64 {
        self.bound[o]
    }

    /// Returns the factor that turns parts of the variance into shares; `None` for an output whose variance
    /// does not exceed its error bound.
    pub fn scale(&self, o: usize) -> Option<f64> {
        let variance = self.variance(o);
        (variance > self.bound[o]).then_some(1.0 / variance)
    }
}

fn not_skew(covariance: &PosteriorCovariance) -> Result<()> {
    match covariance.mirror {
        None => Ok(()),
        Some(_) => {
            let allowed = "Sobol indices of duels are those of the mean log odds: leave the posterior out";
            Err(Error::parameter("posterior", "of duels", allowed))
        }
    }
}

impl Sensitivity {
    /// Returns the indices of a model whose inputs are distributed as the rows of `inputs`, with columns
    /// matched by name.
    ///
    /// # Errors
    /// As [`Table::align_to`](riesz_core::Table::align_to); [`Error::TooFew`]; [`Error::NotProduct`] for a
    /// kernel that ties columns of different players together; [`Error::Overflow`]; [`Error::Interrupted`].
    pub fn run(&self, model: &KernelExpansion, inputs: &Background) -> Result<SobolIndices> {
        self.decompose(model, inputs, None)
    }

    /// Returns the posterior mean of the indices that [`run`](Self::run) computes for one function. It is
    /// exact: `Var E[f | X_S]` is quadratic in f, so its mean follows from the mean function and the
    /// covariance of f. It exceeds the value for the mean function, because deviations from the mean function
    /// add variance. Additional cost O(n³) and memory O(n²).
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`Posterior::new`].
    pub fn posterior_mean_indices(
        &self,
        model: &KernelExpansion,
        covariance: &PosteriorCovariance,
        inputs: &Background,
    ) -> Result<SobolIndices> {
        let posterior = Posterior::new(model, covariance)?.with_cancel(&self.stop);
        not_skew(covariance)?;
        let n = model.support_points.rows();
        let (columns, prior_covariance) = (Matrix::identity(n), Matrix::zeros(n, n));
        let point_functionals = Functionals { columns, prior_covariance, constants: vec![0.0; n] };
        let prior = covariance.scale.iter().map(|scale| covariance.prior_scale * scale * scale).collect();
        self.decompose(
            model,
            inputs,
            Some(&PosteriorTerms {
                prior_term: prior,
                negated_reductions: posterior.covariance(&point_functionals),
            }),
        )
    }

    /// Returns the indices of functions drawn from the posterior, which show the uncertainty of the indices.
    /// The outputs of the result are the draws of the first output, then those of the second, and so on.
    ///
    /// A draw is a joint draw of f at the support points; elsewhere it is the mean of the process given these
    /// values. That is exact where inputs are support points or near them. Elsewhere draws are smoother than
    /// the process; the difference of their mean variance from the exact
    /// [`posterior_mean_indices`](Self::posterior_mean_indices) measures this effect. Directions whose prior
    /// variance at the support points is less than 1e-9 of the largest are left out, and draws equal the mean
    /// there: these directions have at most n · 1e-9 of a variance of 1. Additional cost O(n³ + n² draws).
    ///
    /// # Errors
    /// As [`posterior_mean_indices`](Self::posterior_mean_indices); [`Error::Parameter`] for 0 draws, and for
    /// more than fit the memory; [`Error::NotPositiveDefinite`] as [`Posterior::sample`].
    pub fn indices_of_draws(
        &self,
        model: &KernelExpansion,
        covariance: &PosteriorCovariance,
        inputs: &Background,
        (draws, seed): (usize, u64),
    ) -> Result<SobolIndices> {
        if draws == 0 {
            return Err(Error::parameter("n_samples", draws, "at least 1"));
        }
        // Memory for the coefficients of all outputs, intermediate ones of one output, and the sums of all
        // parts.
        let points = model.support_points.rows().saturating_mul(4 + 2 * model.outputs());
        crate::memory::check_allocation(
            "number of draws",
            draws,
            points.saturating_add(64 * model.support_points.width()),
        )?;
        let posterior = Posterior::new(model, covariance)?.with_cancel(&self.stop);
        not_skew(covariance)?;
        let point_functionals = posterior.functionals_at(&model.support_points)?;
        let (means, samples) =
            (posterior.mean_of(&point_functionals), posterior.sample(&point_functionals, draws, seed)?);
        let n = model.support_points.rows();
        if posterior.prior_scale() <= 0.0 {
            return Err(Error::parameter(
                "n_samples",
                draws,
                "samples need the posterior of a Gaussian process",
            ));
        }
        // Coefficients along directions in which the process hardly varies would be huge and cancel each
        // other. Of a variance of 1, a draw leaves out at most n times the smallest eigenvalue.
        let (sizes, directions) = symmetric_eigen(&point_functionals.prior_covariance)?;
        let min_variance = SMALLEST * sizes.iter().fold(0.0, |m: f64, v| m.max(*v));
        let solve = |deviations: Matrix| {
            let mut coordinates = directions.transpose().matmul(&deviations);
            coordinates
                .scale_rows(sizes.iter().map(|size| if *size > min_variance { 1.0 / size } else { 0.0 }));
            directions.matmul(&coordinates)
        };
        let (mut coef, mut output_names) = (Matrix::zeros(n, draws * model.outputs()), Vec::new());
        for (o, values) in samples.values.into_iter().enumerate() {
            let mut deviations = values;
            (0..n).for_each(|i| deviations.row_mut(i).iter_mut().for_each(|v| *v -= means[(i, o)]));
            let coefficients = solve(deviations);
            for i in 0..n {
                let output_coef = &mut coef.row_mut(i)[o * draws..(o + 1) * draws];
                output_coef
                    .iter_mut()
                    .zip(coefficients.row(i))
                    .for_each(|(c, v)| *c = model.coef[(i, o)] + v);
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
        self.decompose(&drawn, inputs, None)
    }

    /// Checks that the index applies to variances and has not too many values; `sums` numbers are held for
    /// each set.
    fn check_index(&self, players: usize, sums: usize) -> Result<()> {
        self.index.validate()?;
        if self.index == ValueIndex::Owen {
            return Err(Error::parameter(
                "index",
                self.index,
                "variances are decomposed without unions: take another index",
            ));
        }
        let sets = self.index.sets(players).and_then(|sets| sets.checked_mul(sums));
        if self.index.order() > 1 && sets.is_none_or(|sets| sets > NUMBERS) {
            let allowed = format!(
                "{players} features have too many sets of this size: group them, or take smaller sets"
            );
            return Err(Error::parameter("index", self.index, allowed));
        }
        Ok(())
    }

    fn decompose(
        &self,
        model: &KernelExpansion,
        inputs: &Background,
        posterior_terms: Option<&PosteriorTerms>,
    ) -> Result<SobolIndices> {
        let groups = self.groups.clone().unwrap_or_else(|| Players::singletons(model.columns()));
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let (isa, p, m) = (Isa::detect(), groups.players().len(), model.outputs());
        let marginals = InputMarginals::new(inputs, model, &groups)?;
        let game = VarianceGame::new(model, &groups, &marginals, posterior_terms, isa, control)?;
        self.check_index(p, game.parts() * m)?;
        let recipe = (self.index != ValueIndex::Shapley).then(|| IndexComputation::from(self.index));
        self.progress.start(game.parts() * (1 + usize::from(recipe.is_some())));
        let new = || Effects::new(isa, p, m);
        let mut totals = Effects::new(isa, p, m);
        totals.begin_tile(&(0..1), &(0..0));
        for part in accumulate(&game, (isa, &InclusionMeasure::Uniform), control, new)? {
            totals.add(&part);
        }
        let [shapley, first, total] = &totals.values;
        let approximation_errors = game.approximation_errors(&marginals.reach, &totals.variance);
        let bounds: Vec<f64> = (0..m).map(|o| totals.bound(o, p) + 2.0 * approximation_errors[o]).collect();
        let (values, exact) = match &recipe {
            None => (shapley.values.clone(), bounds.clone()),
            Some(recipe) => {
                let sets = recipe.subsets(p).map_or(p, |sets| sets.len());
                let (sums, errors) =
                    sums_over_parts(&recipe.compute(&game, isa, control, (p, m))?, (m, sets));
                let output_sums = |o: usize| &sums[o * sets..(o + 1) * sets];
                let factor = recipe.coalition_error_factor(p);
                let bound = |o: usize| {
                    let error = errors[o] + factor * approximation_errors[o];
                    totals.sum_bound(o, output_sums(o), error)
                };
                let exact = (0..m).map(bound).collect();
                (sums, exact)
            }
        };
        let numbers =
            [&values, &shapley.values, &first.values, &total.values, &totals.variance, &bounds, &exact];
        if numbers.iter().any(|list| list.iter().any(|v| !v.is_finite())) {
            return Err(Error::overflow(
                "the variance of the output",
                "the inputs are too far from the data the model was fitted on",
            ));
        }
        let functions = match posterior_terms {
            Some(_) => "functions drawn from the posterior",
            None => "the model's outputs",
        };
        let absent = format!(
            "outputs are averaged over absent features: the value of present features is the variance of \
             the remaining mean, where all are independent; of {functions}, over {} rows",
            inputs.rows.rows()
        );
        let explanation = Explanation {
            index: self.index,
            subsets: recipe.and_then(|recipe| recipe.subsets(p)),
            values,
            base_values: vec![0.0; m],
            predictions: totals.variance.clone(),
            exactness: Exactness::Exact { bound: exact },
            provenance: Provenance::of_run(VARIANCE_GAME, absent, model.facts(), []),
            ..Explanation::of_rows(
                groups.players(),
                &model.output_names,
                inputs.rows.align_to(model.columns())?.mean_row(),
            )
        };
        let [shapley, first, total] = totals.values;
        Ok(SobolIndices {
            explanation,
            first_order: first.values,
            total_order: total.values,
            effects: shapley.values,
            bound: bounds,
        })
    }
}

/// Returns the sums of values (outputs × sets) and of errors (outputs) over the parts of a game.
fn sums_over_parts(
    IndexValues { values, error }: &IndexValues,
    (outputs, sets): (usize, usize),
) -> (Vec<f64>, Vec<f64>) {
    let (mut sums, mut errors) = (vec![0.0; outputs * sets], vec![0.0; outputs]);
    for (part, error) in values.chunks_exact(outputs * sets).zip(error.chunks_exact(outputs)) {
        add_to(&mut sums, part);
        add_to(&mut errors, error);
    }
    (sums, errors)
}

/// Accumulates the values of players under three measures at once, and the difference between grand and empty
/// coalition.
struct Effects {
    /// Values of the Shapley measure, and those with all other players absent, and present.
    values: [PlayerValues; 3],
    engines: [QuadratureEngine; 2],
    /// For each output, the variance.
    variance: Vec<f64>,
}

impl Effects {
    fn new(isa: Isa, players: usize, outputs: usize) -> Self {
        Self {
            values: [0; 3].map(|_| PlayerValues::new(players, outputs)),
            engines: [0.0, 1.0].map(|t| QuadratureEngine::new(isa, InclusionMeasure::point(t))),
            variance: vec![0.0; outputs],
        }
    }

    fn add(&mut self, other: &Self) {
        for (sums, terms) in self.values.iter_mut().zip(&other.values) {
            add_to(&mut sums.values, &terms.values);
            add_to(&mut sums.error, &terms.error);
        }
        add_to(&mut self.variance, &other.variance);
    }

    /// Returns a bound on the errors of all values of output o.
    fn bound(&self, o: usize, players: usize) -> f64 {
        let output_bound = |values: &PlayerValues| {
            self.sum_bound(o, &values.values[o * players..(o + 1) * players], values.error[o])
        };
        let [shapley, first, total] = &self.values;
        output_bound(shapley).max(output_bound(first)).max(output_bound(total))
    }

    /// Returns a bound on the errors of some values of output o, and of their sum: `error`, which bounds the
    /// errors of their parts, plus the roundings of sums.
    fn sum_bound(&self, o: usize, output_values: &[f64], error: f64) -> f64 {
        let sum: f64 = output_values.iter().map(|v| v.abs()).sum();
        error
            + f64::EPSILON * ((output_values.len() + 2) as f64 * sum + 2.0 * self.variance[o].abs())
            + f64::MIN_POSITIVE
    }
}

impl TermAccumulator for Effects {
    fn begin_tile(&mut self, rows: &std::ops::Range<usize>, points: &std::ops::Range<usize>) {
        self.values.iter_mut().for_each(|values| values.begin_tile(rows, points));
    }

    fn add_terms(&mut self, terms: &ProductTerms<'_>, engine: &mut QuadratureEngine) {
        let [shapley, first, total] = &mut self.values;
        shapley.add_terms(terms, engine);
        first.add_terms(terms, &mut self.engines[0]);
        total.add_terms(terms, &mut self.engines[1]);
        // The value with all players present minus that with all absent; its error is within that of Shapley
        // values.
        let run = &terms.run;
        let mut sums = vec![Lanes::ZERO; self.variance.len()];
        for (block, weight) in run.weights.iter().enumerate() {
            let (mut present, mut absent) = (*weight, *weight);
            for &k in &run.active[..run.players] {
                let (a, b) = run.side(k, block);
                (present, absent) = (Plain::mul(present, a), Plain::mul(absent, b));
            }
            let change = Plain::sub(present, absent);
            for (sum, coef) in sums.iter_mut().zip(terms.coef) {
                *sum = Plain::fma(change, coef[block], *sum);
            }
        }
        self.variance.iter_mut().zip(sums).for_each(|(variance, sum)| *variance += sum.sum());
    }

    fn finish_tile(&mut self) {
        self.values.iter_mut().for_each(TermAccumulator::finish_tile);
    }
}

//! The engine for games of independent parts. The absent columns of a part are drawn from its reference, or
//! from their distribution given the present columns of the same part, independently of the other parts.
//!
//! If no factor of the kernel ties columns of several parts together, a coalition's value is a sum over
//! [sparse terms](crate::kernel_model::part_decomposition::SparseTerm) of support points' parts. Each summand
//! is a product of means, one for each part. All coalitions are valued. The cost grows with the sum of the
//! numbers of reference rows of the parts, whereas all combinations of reference rows would cost their
//! product. A fast exact algorithm for many players is not known and unlikely: for two parts whose columns
//! belong to the same players it would count orthogonal pairs of bit vectors faster than the
//! orthogonal-vectors conjecture allows.

mod absent_means;
mod conditional_means;
mod prior_covariance;
mod uncertainty;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use self::absent_means::{DomainMeans, Source, ViewSide, columns_of_parts, conditional_means};
use self::conditional_means::ConditionalMeans;
use super::engine::GameEngine;
use super::value_covariance::{check_finite, player_measure};
use crate::attribution::coalition_covariance::RowPairs;
use crate::attribution::coalition_tables::CoalitionPlan;
use crate::attribution::index_computation::IndexComputation;
use crate::attribution::part_coalition_values::{add_block, blocks, sum_over_tuples};
use crate::attribution::quadrature::{FLOOR, neg_log_bound};
use crate::attribution::row_batches;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::coalition_structure::CoalitionTree;
use crate::control::{Progress, RunControl, check_cancelled};
use crate::embedding::Conditioning;
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation};
use crate::game::{Background, Game, ReferenceRows, TERMS};
use crate::index::ValueIndex;
use crate::kernel::{Columns, Kernel};
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::{DistinctRows, KernelView, PartDecomposition, key};
use crate::linalg::{Matrix, add_multiple, add_to, dot_roundings};
use crate::model_card::CardEntry;
use crate::posterior::{Functionals, Posterior};
use crate::question::Question;
use crate::simd::{Isa, LANES, Lanes};
use crate::table::{Players, Table};

/// The largest number of players whose coalitions are all valued.
const PLAYERS: usize = 16;

/// The largest number of conditional means that are held at once, where they depend on the row.
const AT_ONCE: usize = 1 << 23;

/// Explains rows of one model under a game of independent parts.
pub(super) struct IndependentPartsEngine<'m> {
    model: &'m KernelExpansion,
    question: Question,
    groups: Players,
    parts: PartDecomposition,
    sources: Vec<Source>,
    /// For each part, the index of its source; `None` if its columns are always present.
    source_of_part: Vec<Option<usize>>,
    /// For each part, the indices of its columns.
    columns: Vec<Vec<usize>>,
    domain_means: Vec<DomainMeans>,
    /// For each view, the index of its means in `domain_means`.
    means_of_view: Vec<usize>,
    /// The computation of values; its owners are the players that can be absent.
    plan: CoalitionPlan,
    /// The outputs with all players absent; NaN if some columns are always present, because it then depends
    /// on the row.
    base: Vec<f64>,
    isa: Isa,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
}

/// The values of one row, with their bounds.
struct RowResult {
    /// Outputs × sets.
    values: Vec<f64>,
    /// For each output, a bound on the error of its values.
    bound: Vec<f64>,
    /// For each output, the value of the empty coalition.
    base: Vec<f64>,
    /// For each output, the prediction at the row.
    prediction: Vec<f64>,
}

/// The quantities of one row that all coalitions share.
struct RowEvaluation<'g> {
    sides: Vec<ViewSide>,
    /// For each view, the means of each product over the absent columns, and their errors.
    means: Vec<Vec<&'g [Lanes]>>,
    mean_errors: Vec<[f64; 2]>,
    /// For each view and row of its domain: the averaged kernel for the coalitions of the block that
    /// [`average`](IndependentPartsEngine::average) computed last.
    numbers: Vec<Vec<Lanes>>,
}

impl GameEngine for IndependentPartsEngine<'_> {
    fn players(&self) -> &Players {
        &self.groups
    }

    fn game(&self) -> (ValueIndex, Cow<'_, Game>) {
        (self.question.index, Cow::Borrowed(&self.question.game))
    }

    fn base_values(&self) -> &[f64] {
        &self.base
    }

    fn explain(&self, rows: &Table, _: Budget, _: Option<&mut SampleState>) -> Result<Explanation> {
        let data = rows.align_to(self.model.columns())?;
        let (n, m) = (data.rows(), self.model.outputs());
        let control = self.control();
        control.progress.start(n);
        let mut values = Vec::with_capacity(n * m * self.plan.sets.len());
        let (mut bound, mut base_values, mut predictions) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in row_batches(n, self.rows_at_once()) {
            let chunk = data.row_vectors(chunk);
            let conditional = self.conditional_means_of_rows(&chunk)?;
            let row = |x: &Vec<f64>| {
                control.check_cancelled()?;
                let result = self.row(x, &conditional)?;
                control.step();
                Ok(result)
            };
            for result in chunk.par_iter().map(row).collect::<Result<Vec<_>>>()? {
                values.extend(result.values);
                bound.extend(result.bound);
                base_values.extend(result.base);
                predictions.extend(result.prediction);
            }
        }
        if let Some(position) = values.iter().position(|v| !v.is_finite()) {
            let subject = format!("a value of row {}", position / (m * self.plan.sets.len()) + 1);
            return Err(Error::overflow(
                subject,
                "its numbers are too far from the data the model was fitted on",
            ));
        }
        let learnt = self.sources.iter().filter_map(|source| source.conditional.as_ref());
        let ridges = learnt.map(|means| CardEntry::measured("ridge", means.ridge()));
        Ok(Explanation {
            index: self.question.index,
            subsets: self.plan.recipe.subsets(self.groups.players().len()),
            values,
            base_values,
            predictions,
            exactness: Exactness::Exact { bound },
            provenance: self.question.provenance(self.model.facts(), ridges.collect()),
            ..Explanation::of_rows(self.groups.players(), &self.model.output_names, data)
        })
    }

    fn unsupported(&self, request: &str) -> Error {
        let allowed = format!(
            "{request} need a background of all columns: give combinations of the parts' rows as one \
             background"
        );
        Error::parameter("game", "independent parts", allowed)
    }

    fn set_isa(&mut self, isa: Isa) {
        self.isa = isa;
    }

    fn set_progress(&mut self, progress: Arc<Progress>) {
        self.progress = progress;
    }

    fn max_batch_rows(&self, _: bool) -> usize {
        self.rows_at_once()
    }

    fn functionals(&self, rows: &Table, players: &[usize]) -> Result<Vec<Matrix>> {
        self.player_functionals(rows, players)
    }

    fn posterior_functionals(&self, rows: &Table, mirror: Option<&[usize]>) -> Result<Functionals> {
        check_finite(self.value_functionals(rows, mirror, RowPairs::All)?)
    }

    fn check_covariances(&self, posterior: &Posterior<'_>) -> Result<()> {
        player_measure(self.question.index, &self.plan.recipe)?;
        if posterior.prior_scale() > 0.0 { self.check_prior(posterior.mirror()) } else { Ok(()) }
    }

    fn covariances(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<f64>> {
        self.row_covariances(rows, posterior)
    }
}

/// Returns the players with columns in some background, which can be absent.
///
/// # Errors
/// [`Error::Parameter`] if a player has both columns in backgrounds and `fixed` columns, and for too many
/// players.
fn active_players(
    model: &KernelExpansion,
    groups: &Players,
    owners: &[usize],
    fixed: &[usize],
) -> Result<Vec<usize>> {
    let active: Vec<usize> = (0..groups.players().len())
        .filter(|p| groups.players()[*p].columns.iter().any(|j| !fixed.contains(j)))
        .collect();
    if let Some(&j) = fixed.iter().find(|&&j| active.contains(&owners[j])) {
        let (player, column) = (&groups.players()[owners[j]].name, &model.columns()[j].name);
        let allowed = format!(
            "its column '{column}' is in no background but its other columns are: give all of them or none"
        );
        return Err(Error::parameter("feature", player, allowed));
    }
    if active.len() > PLAYERS {
        let allowed = format!(
            "the game of independent parts values all coalitions of at most {PLAYERS} features: group \
             columns, or give combinations of the parts' rows as one background of all columns"
        );
        return Err(Error::parameter("number of features", active.len(), allowed));
    }
    Ok(active)
}

/// A model split by the parts of a game, whose absent columns have sources.
struct SplitModel<'a> {
    model: &'a KernelExpansion,
    parts: &'a PartDecomposition,
    /// For each part, the indices of its columns; a last part without background is always present.
    columns: &'a [Vec<usize>],
    /// For each column of the model, the position of its player among those that can be absent.
    player_of_column: &'a [Option<usize>],
    /// The number of players that can be absent.
    players: usize,
    stop: &'a AtomicBool,
}

impl SplitModel<'_> {
    /// Returns the distinct sources of absent columns, and the index of each part's source.
    fn sources(
        &self,
        backgrounds: &[Background],
        conditioning: Option<&Conditioning>,
    ) -> Result<(Vec<Source>, Vec<Option<usize>>)> {
        let (mut sources, mut source_of_part): (Vec<Source>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
        for (part, part_columns) in self.columns.iter().enumerate() {
            let Some(background) = backgrounds.get(part) else {
                source_of_part.push(None);
                continue;
            };
            let names: Vec<_> = part_columns.iter().map(|&j| self.model.columns()[j].clone()).collect();
            let reference = ReferenceRows::new(background, &names)?;
            let owner: Vec<usize> = part_columns.iter().filter_map(|&j| self.player_of_column[j]).collect();
            // Parts without a kernel factor, or with other factors, learn their own conditional
            // distributions.
            let kernels = |p: usize| -> Vec<usize> {
                self.parts.views.iter().filter(|view| view.part == p).map(|view| view.domain).collect()
            };
            let same_source = |(s, source): (usize, &Source)| {
                let first = source_of_part.iter().position(|f| *f == Some(s)).unwrap_or(0);
                source.owner == owner
                    && (&source.reference.rows, &source.reference.weights)
                        == (&reference.rows, &reference.weights)
                    && (conditioning.is_none() || kernels(first) == kernels(part))
            };
            let existing = sources.iter().enumerate().find(|s| same_source(*s)).map(|(s, _)| s);
            source_of_part.push(Some(existing.unwrap_or(sources.len())));
            if existing.is_none() {
                let whole_kernels: Vec<&Kernel> = kernels(part)
                    .iter()
                    .map(|&d| &self.parts.domains[d])
                    .filter(|d| d.rows.width() == owner.len())
                    .map(|d| &d.kernel)
                    .collect();
                let (players, stop) = (self.players, self.stop);
                let learn = |conditioning| {
                    conditional_means(conditioning, &reference, &names, &owner, &whole_kernels, players, stop)
                };
                let conditional = conditioning.map(learn).transpose()?.map(Box::new);
                sources.push(Source { owner, reference, conditional });
            }
        }
        Ok((sources, source_of_part))
    }

    /// Returns the distinct means of domains over their sources, and the index of each view's means.
    fn domain_means(
        &self,
        sources: &[Source],
        source_of_part: &[Option<usize>],
    ) -> Result<(Vec<DomainMeans>, Vec<usize>)> {
        let (mut domain_means, mut means_of_view): (Vec<DomainMeans>, Vec<usize>) = (Vec::new(), Vec::new());
        for view in &self.parts.views {
            let source = source_of_part[view.part];
            let part_columns = &self.columns[view.part];
            let places: Vec<usize> =
                view.columns.iter().filter_map(|j| part_columns.iter().position(|k| k == j)).collect();
            let owner = match source {
                Some(s) => places.iter().map(|&k| sources[s].owner[k]).collect(),
                None => vec![0; places.len()],
            };
            let select_columns = |row: &Vec<f64>| places.iter().map(|&k| row[k]).collect();
            let rows: Vec<Vec<f64>> =
                source.map_or(Vec::new(), |s| sources[s].reference.rows.iter().map(select_columns).collect());
            let weights = |s: Option<usize>| s.map(|s| &sources[s].reference.weights);
            let is_conditional = |s: Option<usize>| s.is_some_and(|s| sources[s].conditional.is_some());
            let same_means = |g: &DomainMeans| {
                (g.domain, &g.owner, &g.rows) == (view.domain, &owner, &rows)
                    && weights(g.source) == weights(source)
                    && (!is_conditional(source) || g.source == source && g.places == places)
            };
            let existing = domain_means.iter().position(same_means);
            means_of_view.push(existing.unwrap_or(domain_means.len()));
            if existing.is_none() {
                let (domain, largest, drawn) = (view.domain, Vec::new(), Vec::new());
                let ground = DomainMeans { domain, source, places, owner, rows, largest, drawn };
                let rows = &self.parts.domains[domain];
                domain_means.push(ground.precomputed(rows, sources, self.players, self.stop)?);
            }
        }
        Ok((domain_means, means_of_view))
    }
}

impl<'m> IndependentPartsEngine<'m> {
    pub(super) fn new(
        model: &'m KernelExpansion,
        question: Question,
        groups: Players,
        unions: Option<&CoalitionTree>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let Game::Independent { parts: backgrounds, conditional } = &question.game else {
            return Err(Error::parameter("game", question.game.name(), "it has no parts"));
        };
        let (mut columns, fixed) = columns_of_parts(model, backgrounds)?;
        let owners = groups.player_of_column(model.support_points.width());
        let active = active_players(model, &groups, &owners, &fixed)?;
        if !fixed.is_empty() {
            columns.push(fixed);
        }
        let parts = PartDecomposition::new(model, &columns)?;
        let player_of_column: Vec<Option<usize>> =
            owners.iter().map(|owner| active.iter().position(|p| p == owner)).collect();
        let split = SplitModel {
            model,
            parts: &parts,
            columns: &columns,
            player_of_column: &player_of_column,
            players: active.len(),
            stop: &stop,
        };
        let (sources, source_of_part) = split.sources(backgrounds, conditional.as_ref())?;
        let (domain_means, means_of_view) = split.domain_means(&sources, &source_of_part)?;
        let recipe = IndexComputation::new(question.index, unions);
        let plan = CoalitionPlan::new(recipe, groups.players().len(), active);
        let (isa, progress) = (Isa::detect(), Arc::default());
        let mut game = Self {
            model,
            question,
            groups,
            parts,
            sources,
            source_of_part,
            columns,
            domain_means,
            means_of_view,
            plan,
            base: Vec::new(),
            isa,
            stop,
            progress,
        };
        game.base = game.base_values()?;
        Ok(game)
    }

    fn domain(&self, ground: &DomainMeans) -> &DistinctRows {
        &self.parts.domains[ground.domain]
    }

    /// The number of rows to pass at once. If means depend on the row, the memory for the conditional means
    /// limits it.
    fn rows_at_once(&self) -> usize {
        let is_conditional =
            |g: &&DomainMeans| g.source.is_some_and(|s| self.sources[s].conditional.is_some());
        let numbers_per_row: usize = self
            .domain_means
            .iter()
            .filter(is_conditional)
            .map(|g| g.size(self.domain(g), self.active_players()))
            .sum();
        AT_ONCE.checked_div(numbers_per_row).map_or(4096, |rows| rows.clamp(1, 1024))
    }

    fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    fn active_players(&self) -> usize {
        self.plan.owners.len()
    }

    /// Returns the outputs of the empty coalition: means over the reference rows.
    fn base_values(&self) -> Result<Vec<f64>> {
        if self.source_of_part.contains(&None) {
            return Ok(vec![f64::NAN; self.model.outputs()]);
        }
        let domain_mean = |ground: &DomainMeans| -> Result<Vec<f64>> {
            let DistinctRows { rows, kernel } = self.domain(ground);
            let (mut out, mut buffer) = (vec![0.0; rows.rows()], Vec::new());
            let mut sums = vec![0.0; out.len()];
            let weights = ground.source.map_or(&[][..], |s| &self.sources[s].reference.weights);
            for (row, weight) in ground.rows.iter().zip(weights) {
                check_cancelled(&self.stop)?;
                kernel.row(self.isa, Columns::from_row(rows, 0), row, &mut buffer, &mut out);
                add_multiple(&mut sums, *weight, &out);
            }
            Ok(sums)
        };
        let domain_means: Vec<_> = self.domain_means.iter().map(domain_mean).collect::<Result<_>>()?;
        let mut base = self.model.intercept.clone();
        for term in &self.parts.terms {
            for (base, coef) in base.iter_mut().zip(&term.coef) {
                *base += term.sum(coef, |s, row| domain_means[self.means_of_view[term.sides[s]]][row]);
            }
        }
        if base.iter().any(|v| !v.is_finite()) {
            return Err(Error::overflow(
                "the base value",
                "the reference rows are too far from the data the model was fitted on",
            ));
        }
        Ok(base)
    }

    /// Evaluates the quantities of one row that all coalitions share.
    fn evaluate<'g>(
        &'g self,
        x: &[f64],
        conditional: &'g [Option<ConditionalMeans>],
    ) -> Result<RowEvaluation<'g>> {
        let players = self.active_players();
        let views = || self.parts.views.iter().zip(&self.means_of_view);
        let side = |(view, &on): (&KernelView, &usize)| {
            let view_values: Vec<f64> = view.columns.iter().map(|&j| x[j]).collect();
            self.domain_means[on].side(self.domain(&self.domain_means[on]), &view_values, players, self.isa)
        };
        let sides: Vec<ViewSide> = views().map(side).collect::<Result<_>>()?;
        let means_and_error = |(view, &on): (&KernelView, &usize)| {
            let row_means =
                self.domain_means[on].source.and_then(|s| conditional[s].as_ref()).and_then(|conditional| {
                    let part_values: Vec<f64> = self.columns[view.part].iter().map(|&j| x[j]).collect();
                    Some((conditional, *conditional.numbers.get(&key(&part_values))?))
                });
            match row_means {
                Some((conditional, r)) => (
                    conditional.means[on].iter().map(|product_means| &product_means[r][..]).collect(),
                    conditional.mean_errors[r],
                ),
                None => (
                    self.domain_means[on].drawn.iter().map(|product_means| &product_means[..]).collect(),
                    [1.0, 0.0],
                ),
            }
        };
        let (means, mean_errors) = views().map(means_and_error).unzip();
        let numbers = sides.iter().map(|side| vec![Lanes::ZERO; side.tops.len()]).collect();
        Ok(RowEvaluation { sides, means, mean_errors, numbers })
    }

    /// Averages the kernels of all views over absent columns, for the coalitions of a block.
    fn average(&self, evaluation: &mut RowEvaluation<'_>, block: usize) {
        for ((side, means), out) in
            evaluation.sides.iter().zip(&evaluation.means).zip(&mut evaluation.numbers)
        {
            if let Some(always) = &side.always {
                out.iter_mut().zip(always).for_each(|(out, v)| *out = Lanes::splat(*v));
                continue;
            }
            out.fill(Lanes::ZERO);
            let rows = out.len();
            for ((present, means), scale) in side.present.iter().zip(means).zip(&side.scales) {
                let block_means = &means[block * rows..(block + 1) * rows];
                add_block(self.isa, present, block, block_means, *scale, out);
            }
        }
    }

    /// Returns the values of a row, with their bounds.
    fn row(&self, x: &[f64], conditional: &[Option<ConditionalMeans>]) -> Result<RowResult> {
        let (players, outputs) = (self.active_players(), self.model.outputs());
        let mut evaluation = self.evaluate(x, conditional)?;
        let blocks = blocks(players);
        let mut coalition_values = vec![0.0; outputs * blocks * LANES];
        for block in 0..blocks {
            self.average(&mut evaluation, block);
            for term in &self.parts.terms {
                let averaged: Vec<&[Lanes]> =
                    term.sides.iter().map(|view| &evaluation.numbers[*view][..]).collect();
                for (o, coef) in term.coef.iter().enumerate() {
                    let sum = match averaged.is_empty() {
                        true => Lanes::splat(coef.iter().sum()),
                        false => sum_over_tuples(self.isa, term, coef, &averaged),
                    };
                    let start = (o * blocks + block) * LANES;
                    add_to(&mut coalition_values[start..start + LANES], &sum.0);
                }
            }
        }
        let errors = self.errors(&evaluation);
        let sets = self.plan.sets.len();
        let mut values = vec![0.0; outputs * sets];
        let (mut bound, mut base) = (Vec::with_capacity(outputs), Vec::with_capacity(outputs));
        for (o, (output_values, error)) in values.chunks_exact_mut(sets).zip(errors).enumerate() {
            let output_coalitions = &coalition_values[o * blocks * LANES..][..1 << players];
            let empty_value = if self.base[o].is_nan() {
                self.model.intercept[o] + output_coalitions[0]
            } else {
                self.base[o]
            };
            base.push(empty_value);
            bound.push(self.plan.values(output_coalitions, error, empty_value.abs(), output_values));
        }
        // The prediction is computed independently of the value of the grand coalition.
        let outputs_at_row = self.parts.outputs_at(self.isa, x);
        let prediction = outputs_at_row.iter().zip(&self.model.intercept).map(|(v, b)| v + b).collect();
        Ok(RowResult { values, bound, base, prediction })
    }

    /// Returns, for each output, a bound on the error of a coalition's value.
    fn errors(&self, RowEvaluation { sides, mean_errors: off, .. }: &RowEvaluation<'_>) -> Vec<f64> {
        let reference = self.sources.iter().map(|s| s.reference.weights.len()).max().unwrap_or(1);
        let summed = TERMS + reference.div_ceil(TERMS) + 2 + reference.min(dot_roundings(reference));
        let predicted = self.model.support_points.width() + self.parts.terms.len();
        let error_bound = |o: usize| {
            let mut error = 0.0;
            for term in &self.parts.terms {
                let tops = |s: usize, row: usize| sides[term.sides[s]].tops[row];
                let magnitude = &term.sizes[o];
                let size = term.sum(magnitude, tops);
                // The decay of a product of sides is the sum of the decays of each side.
                let falling = |side: usize| {
                    term.sum(magnitude, |s, row| {
                        let top = tops(s, row);
                        if s == side { top * neg_log_bound(top.clamp(f64::MIN_POSITIVE, 1.0)) } else { top }
                    })
                };
                let decay: f64 = (0..term.sides.len()).map(falling).sum();
                let longest = term.runs().map(|(_, run)| run.len()).max().unwrap_or(0);
                let runs = term.runs().count();
                let sides_and_errors = || term.sides.iter().map(|&view| (&sides[view], off[view]));
                let units: f64 = sides_and_errors().map(|(side, _)| side.units).sum();
                let per_log = sides_and_errors().map(|(side, _)| side.per_log).fold(0.0, f64::max);
                let tiny: f64 = sides_and_errors().map(|(side, _)| side.tiny).sum();
                // Coefficients of support points that coincide were summed and scaled.
                let units = units + (2 * (summed + longest + runs) + term.merged + predicted + 34) as f64;
                let lengths: f64 =
                    sides_and_errors().map(|(_, mean_error)| mean_error[0] + mean_error[1]).product();
                let excess: f64 =
                    lengths - sides_and_errors().map(|(_, mean_error)| mean_error[0]).product::<f64>();
                let relative = units * size + per_log * (decay + 0.368 * size);
                error += lengths * 0.51 * f64::EPSILON * relative
                    + excess.max(0.0) * size
                    + (tiny + FLOOR) * magnitude.iter().sum::<f64>()
                    + FLOOR;
            }
            error + f64::EPSILON * self.parts.terms.len() as f64 * self.model.intercept[o].abs()
        };
        (0..self.model.outputs()).map(error_bound).collect()
    }
}

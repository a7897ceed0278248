//! The engine for games of independent parts: absent columns of each part are drawn, or follow their
//! distribution given the present columns of the same part, whatever the other parts are.
//!
//! Where no factor ties columns of several parts together, a coalition's value is a sum, over [sparse
//! terms](crate::kernel_model::part_decomposition::SparseTerm) of support points' parts, of products of
//! means, one for each part. All coalitions are valued, at a cost of the sum over parts of their reference
//! rows, where every combination of reference rows would cost their product. No fast exact algorithm with
//! many players is known, nor is one likely: with two parts whose columns belong to the same players it would
//! count orthogonal pairs of bit vectors faster than the orthogonal-vectors conjecture allows.

mod absent_means;
mod conditional_means;
mod prior_covariance;
mod uncertainty;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use self::absent_means::{DomainMeans, Source, ViewSide, columns_of_parts, conditional_means};
use self::conditional_means::ConditionalMeans;
use super::engine::GameEngine;
use super::value_covariance::{check_finite, player_measure};
use crate::attribution::coalition_covariance::RowPairs;
use crate::attribution::coalition_tables::CoalitionWeights;
use crate::attribution::index_computation::IndexComputation;
use crate::attribution::part_coalition_values::{add_block, blocks, sum_over_tuples};
use crate::attribution::quadrature::{FLOOR, neg_log_bound};
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::attribution::set_error_bounds::SetErrorBounds;
use crate::attribution::sets::Sets;
use crate::coalition_structure::CoalitionTree;
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation};
use crate::game::{Game, ReferenceRows, TERMS};
use crate::index::ValueIndex;
use crate::kernel::{Columns, Kernel};
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::{DistinctRows, KernelView, PartDecomposition, key};
use crate::linalg::{Matrix, dot_roundings};
use crate::model_card::CardEntry;
use crate::posterior::{Functionals, Posterior};
use crate::question::Question;
use crate::simd::{Isa, LANES, Lanes};
use crate::table::{Players, Table};

/// Players of whom all coalitions are valued.
const PLAYERS: usize = 16;

/// Numbers of means that are found for some rows together, where they depend on the row.
const AT_ONCE: usize = 1 << 23;

/// Explains rows of one model by parts.
pub(super) struct IndependentPartsEngine<'m> {
    model: &'m KernelExpansion,
    question: Question,
    groups: Players,
    parts: PartDecomposition,
    sources: Vec<Source>,
    /// For each part, its source; none where its columns are always present.
    source_of_part: Vec<Option<usize>>,
    /// For each part, its columns.
    columns: Vec<Vec<usize>>,
    domain_means: Vec<DomainMeans>,
    /// For each view, its means.
    means_of_view: Vec<usize>,
    /// The players that can be absent.
    active: Vec<usize>,
    /// The outputs with nobody present; no numbers where columns are always present, and it depends on the
    /// row.
    base: Vec<f64>,
    recipe: IndexComputation,
    sets: Sets,
    weighing: CoalitionWeights,
    isa: Isa,
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
}

/// The result of one row.
struct RowResult {
    /// Outputs × sets.
    values: Vec<f64>,
    /// For each output, a bound on the error of each value.
    bound: Vec<f64>,
    /// For each output, its value for the empty coalition.
    base: Vec<f64>,
    /// For each output.
    prediction: Vec<f64>,
}

/// The quantities of one row that all coalitions share.
struct RowEvaluation<'g> {
    sides: Vec<ViewSide>,
    /// For each view, the means of each product, and their errors.
    means: Vec<Vec<&'g [Lanes]>>,
    mean_errors: Vec<[f64; 2]>,
    /// For each view and row of its domain: the averaged kernel for the coalitions of the block that was
    /// [averaged](IndependentPartsEngine::average) last.
    numbers: Vec<Vec<Lanes>>,
}

impl GameEngine for IndependentPartsEngine<'_> {
    fn players(&self) -> &Players {
        &self.groups
    }

    fn index(&self) -> ValueIndex {
        self.question.index
    }

    fn game_name(&self) -> &'static str {
        self.question.game.name()
    }

    fn describe_absence(&self) -> String {
        self.question.game.absent()
    }

    fn base_values(&self) -> &[f64] {
        &self.base
    }

    fn explain(&self, rows: &Table, _: Budget, _: Option<&mut SampleState>) -> Result<Explanation> {
        self.explain_rows(rows)
    }

    fn unsupported(&self, request: &str) -> Error {
        let allowed = format!(
            "{request} are those of a background of all columns: give combinations of the parts' rows as one"
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
        player_measure(self.question.index, &self.recipe)?;
        if posterior.prior_scale() > 0.0 { self.check_prior(posterior.skew_swap()) } else { Ok(()) }
    }

    fn covariances(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<f64>> {
        self.row_covariances(rows, posterior)
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
        let active: Vec<usize> = (0..groups.players().len())
            .filter(|p| groups.players()[*p].columns.iter().any(|j| !fixed.contains(j)))
            .collect();
        if let Some(&j) = fixed.iter().find(|&&j| active.contains(&owners[j])) {
            let (player, column) = (&groups.players()[owners[j]].name, &model.columns()[j].name);
            let allowed = format!(
                "its column '{column}' is in no background, and others are: give all of them or none"
            );
            return Err(Error::parameter("player", player, allowed));
        }
        let players = active.len();
        if players > PLAYERS {
            let allowed = format!(
                "the game of independent parts values all coalitions of up to {PLAYERS} players: group \
                 columns, or give rows of all columns, combinations of the parts' rows, as one background"
            );
            return Err(Error::parameter("number of players", players, allowed));
        }
        if !fixed.is_empty() {
            columns.push(fixed);
        }
        let parts = PartDecomposition::new(model, &columns)?;
        let place = |j: &usize| active.iter().position(|p| *p == owners[*j]);
        let (mut sources, mut from): (Vec<Source>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
        for (part_columns, background) in columns.iter().zip(backgrounds.iter().map(Some).chain([None])) {
            let Some(background) = background else {
                from.push(None);
                continue;
            };
            let names: Vec<_> = part_columns.iter().map(|&j| model.columns()[j].clone()).collect();
            let reference = ReferenceRows::new(background, &names)?;
            let owner: Vec<usize> = part_columns.iter().filter_map(place).collect();
            // Parts that read no kernel, or other ones, learn conditional distributions of their own.
            let kernels = |p: usize| -> Vec<usize> {
                parts.views.iter().filter(|view| view.part == p).map(|view| view.domain).collect()
            };
            let same_source = |(s, source): (usize, &Source)| {
                let first = from.iter().position(|f| *f == Some(s)).unwrap_or(0);
                source.owner == owner
                    && (&source.reference.rows, &source.reference.weights)
                        == (&reference.rows, &reference.weights)
                    && (conditional.is_none() || kernels(first) == kernels(from.len()))
            };
            let known = sources.iter().enumerate().find(|s| same_source(*s)).map(|(s, _)| s);
            from.push(Some(known.unwrap_or(sources.len())));
            if known.is_none() {
                let whole_kernels: Vec<&Kernel> = kernels(from.len() - 1)
                    .iter()
                    .map(|&d| &parts.domains[d])
                    .filter(|d| d.rows.width() == owner.len())
                    .map(|d| &d.kernel)
                    .collect();
                let learn = |conditioning| {
                    conditional_means(
                        conditioning,
                        &reference,
                        &names,
                        &owner,
                        &whole_kernels,
                        players,
                        &stop,
                    )
                };
                let conditional = conditional.as_ref().map(learn).transpose()?.map(Box::new);
                sources.push(Source { owner, reference, conditional });
            }
        }
        let (mut grounds, mut on): (Vec<DomainMeans>, Vec<usize>) = (Vec::new(), Vec::new());
        for view in &parts.views {
            let source = from[view.part];
            let of_part = &columns[view.part];
            let places: Vec<usize> =
                view.columns.iter().filter_map(|j| of_part.iter().position(|k| k == j)).collect();
            let owner = match source {
                Some(s) => places.iter().map(|&k| sources[s].owner[k]).collect(),
                None => vec![0; places.len()],
            };
            let of_row = |row: &Vec<f64>| places.iter().map(|&k| row[k]).collect();
            let rows: Vec<Vec<f64>> =
                source.map_or(Vec::new(), |s| sources[s].reference.rows.iter().map(of_row).collect());
            let weights = |s: Option<usize>| s.map(|s| &sources[s].reference.weights);
            let learnt = |s: Option<usize>| s.is_some_and(|s| sources[s].conditional.is_some());
            let same_means = |g: &DomainMeans| {
                (g.domain, &g.owner, &g.rows) == (view.domain, &owner, &rows)
                    && weights(g.source) == weights(source)
                    && (!learnt(source) || g.source == source && g.places == places)
            };
            let known = grounds.iter().position(same_means);
            on.push(known.unwrap_or(grounds.len()));
            if known.is_none() {
                let (domain, largest, drawn) = (view.domain, Vec::new(), Vec::new());
                let ground = DomainMeans { domain, source, places, owner, rows, largest, drawn };
                grounds.push(ground.precomputed(&parts.domains[domain], &sources, players, &stop)?);
            }
        }
        let recipe = IndexComputation::new(question.index, unions);
        let sets = Sets::new(groups.players().len(), recipe.order());
        let weighing = CoalitionWeights::new(&recipe, &active);
        let (isa, progress) = (Isa::detect(), Arc::default());
        let mut game = Self {
            model,
            question,
            groups,
            parts,
            sources,
            source_of_part: from,
            columns,
            domain_means: grounds,
            means_of_view: on,
            active,
            base: Vec::new(),
            recipe,
            sets,
            weighing,
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

    /// The number of rows to pass at once: where means depend on the row, limited by those of a coalition's
    /// system.
    fn rows_at_once(&self) -> usize {
        let learnt = |g: &&DomainMeans| g.source.is_some_and(|s| self.sources[s].conditional.is_some());
        let numbers_per_row: usize = self
            .domain_means
            .iter()
            .filter(learnt)
            .map(|g| g.size(self.domain(g), self.active_players()))
            .sum();
        AT_ONCE.checked_div(numbers_per_row).map_or(4096, |rows| rows.clamp(1, 1024))
    }

    fn active_players(&self) -> usize {
        self.active.len()
    }

    /// The outputs of the empty coalition: means over the reference rows.
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
                sums.iter_mut().zip(&out).for_each(|(sum, v)| *sum += weight * v);
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
            let remedy = "the reference rows are too far from the data the model was fitted on";
            return Err(Error::Overflow { subject: "the base value".into(), remedy });
        }
        Ok(base)
    }

    /// The values of every row of `rows`.
    fn explain_rows(&self, rows: &Table) -> Result<Explanation> {
        let data = rows.align_to(self.model.columns())?;
        let (n, m) = (data.rows(), self.model.outputs());
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        control.progress.start(n);
        let mut values = Vec::with_capacity(n * m * self.sets.len());
        let (mut bound, mut base_values, mut predictions) = (Vec::new(), Vec::new(), Vec::new());
        for start in (0..n).step_by(self.rows_at_once()) {
            let chunk: Vec<Vec<f64>> =
                (start..n.min(start + self.rows_at_once())).map(|i| data.row(i)).collect();
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
            let subject = format!("a value of row {}", position / (m * self.sets.len()) + 1);
            let remedy = "its numbers are too far from the data the model was fitted on";
            return Err(Error::Overflow { subject, remedy });
        }
        let learnt = self.sources.iter().filter_map(|source| source.conditional.as_ref());
        let ridges = learnt.map(|means| CardEntry::measured("ridge", means.ridge()));
        Ok(Explanation {
            index: self.question.index,
            players: self.groups.players().to_vec(),
            subsets: self.recipe.subsets(self.groups.players().len()),
            output_names: self.model.output_names.clone(),
            values,
            base_values,
            predictions,
            data,
            row_numbers: (0..n).collect(),
            uncertainty: None,
            duels: None,
            exactness: Exactness::Exact { bound },
            provenance: self.question.provenance(self.model.facts(), ridges.collect()),
        })
    }

    /// Evaluates the quantities of one row that all coalitions share.
    fn seen<'g>(
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
            let of_row =
                self.domain_means[on].source.and_then(|s| conditional[s].as_ref()).and_then(|conditional| {
                    let part_values: Vec<f64> = self.columns[view.part].iter().map(|&j| x[j]).collect();
                    Some((conditional, *conditional.numbers.get(&key(&part_values))?))
                });
            match of_row {
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

    /// Averages the kernels of all views for the coalitions of a block.
    fn average(&self, seen: &mut RowEvaluation<'_>, block: usize) {
        for ((side, means), out) in seen.sides.iter().zip(&seen.means).zip(&mut seen.numbers) {
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

    /// The values of a row.
    fn row(&self, x: &[f64], conditional: &[Option<ConditionalMeans>]) -> Result<RowResult> {
        let (players, outputs) = (self.active_players(), self.model.outputs());
        let mut seen = self.seen(x, conditional)?;
        let blocks = blocks(players);
        let mut coalition_values = vec![0.0; outputs * blocks * LANES];
        for block in 0..blocks {
            self.average(&mut seen, block);
            for term in &self.parts.terms {
                let averaged: Vec<&[Lanes]> =
                    term.sides.iter().map(|view| &seen.numbers[*view][..]).collect();
                for (o, coef) in term.coef.iter().enumerate() {
                    let sum = match averaged.is_empty() {
                        true => Lanes::splat(coef.iter().sum()),
                        false => sum_over_tuples(self.isa, term, coef, &averaged),
                    };
                    let start = (o * blocks + block) * LANES;
                    coalition_values[start..start + LANES].iter_mut().zip(sum.0).for_each(|(w, v)| *w += v);
                }
            }
        }
        let errors = self.errors(&seen);
        let mut values = vec![0.0; outputs * self.sets.len()];
        let (mut bound, mut base) = (Vec::with_capacity(outputs), Vec::with_capacity(outputs));
        for (o, (output_values, error)) in values.chunks_exact_mut(self.sets.len()).zip(errors).enumerate() {
            let output_coalitions = &coalition_values[o * blocks * LANES..][..1 << players];
            let mut error_bounds = SetErrorBounds::new(1, self.sets.order());
            let size_bounds = self.weighing.add(output_coalitions, &self.active, &self.sets, output_values);
            error_bounds.add_coalition_errors(0, error, &size_bounds);
            let bounded = self.recipe.finish(&error_bounds.row_bounds(0), output_values, &self.sets);
            let empty_value = if self.base[o].is_nan() {
                self.model.intercept[o] + output_coalitions[0]
            } else {
                self.base[o]
            };
            base.push(empty_value);
            // Their sum is rounded too.
            let sum: f64 = output_values.iter().map(|v| v.abs()).sum();
            bound.push(bounded + f64::EPSILON * (self.sets.len() + 4) as f64 * (sum + empty_value.abs()));
        }
        // Computed independently of the value of the grand coalition.
        let outputs_at_row = self.parts.outputs_at(self.isa, x);
        let prediction = outputs_at_row.iter().zip(&self.model.intercept).map(|(v, b)| v + b).collect();
        Ok(RowResult { values, bound, base, prediction })
    }

    /// For each output, a bound on the error of a coalition's value.
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
                // The decrease of all sides together is the sum of the decreases of each.
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
                // Coefficients of points that are one were summed, and scaled.
                let units = units + (2 * (summed + longest + runs) + term.merged + predicted + 34) as f64;
                let lengths: f64 =
                    sides_and_errors().map(|(_, mean_error)| mean_error[0] + mean_error[1]).product();
                let open: f64 =
                    lengths - sides_and_errors().map(|(_, mean_error)| mean_error[0]).product::<f64>();
                let relative = units * size + per_log * (decay + 0.368 * size);
                error += lengths * 0.51 * f64::EPSILON * relative
                    + open.max(0.0) * size
                    + (tiny + FLOOR) * magnitude.iter().sum::<f64>()
                    + FLOOR;
            }
            error + f64::EPSILON * self.parts.terms.len() as f64 * self.model.intercept[o].abs()
        };
        (0..self.model.outputs()).map(error_bound).collect()
    }
}

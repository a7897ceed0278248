//! A model split by the parts of a game, with the sources of its absent columns. The exact and the sampled
//! engine of independent parts share it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::absent_means::{DomainMeans, Source, ViewSide, columns_of_parts, conditional_means};
use crate::attribution::quadrature::{FLOOR, neg_log_bound};
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result};
use crate::game::{Game, Part, ReferenceRows, TERMS};
use crate::kernel::{Columns, Kernel};
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::{DistinctRows, PartDecomposition, key};
use crate::linalg::{add_multiple, dot_roundings};
use crate::model_card::CardEntry;
use crate::question::Question;
use crate::simd::Isa;
use crate::table::Players;

/// A model split by the parts of a game of independent parts.
pub(super) struct PartGame<'m> {
    pub(super) model: &'m KernelExpansion,
    pub(super) question: Question,
    pub(super) groups: Players,
    pub(super) parts: PartDecomposition,
    pub(super) sources: Vec<Source>,
    /// For each part, the index of its source; `None` if its columns are always present.
    pub(super) source_of_part: Vec<Option<usize>>,
    /// For each part, the indices of its columns.
    pub(super) columns: Vec<Vec<usize>>,
    pub(super) domain_means: Vec<DomainMeans>,
    /// For each view, the index of its means in `domain_means`.
    pub(super) means_of_view: Vec<usize>,
    /// The players that can be absent.
    pub(super) active: Vec<usize>,
    /// The outputs with all players absent; NaN if some columns are always present, because it then depends
    /// on the row.
    pub(super) base: Vec<f64>,
    pub(super) isa: Isa,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) progress: Arc<Progress>,
}

/// The sizes of the quantities of one row that bound the errors of its coalitions' values.
pub(super) struct RowSizes<'e> {
    /// For each view, its quantities at the row.
    pub(super) sides: &'e [ViewSide],
    /// For each view, the largest sum of absolute weights of a mean, and the largest absolute error of a mean
    /// of factors 1.
    pub(super) mean_errors: &'e [[f64; 2]],
}

impl<'m> PartGame<'m> {
    /// Splits the model. With `tables`, means over absent columns that do not depend on the explained row are
    /// computed for all coalitions.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a game without parts; errors of the parts' backgrounds and of their
    /// conditional distributions; [`Error::NotProduct`] for a kernel that ties columns of several parts.
    pub(super) fn new(
        model: &'m KernelExpansion,
        question: Question,
        groups: Players,
        tables: bool,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let Game::Independent { parts: game_parts } = &question.game else {
            return Err(Error::parameter("game", question.game.name(), "it has no parts"));
        };
        let (mut columns, fixed) = columns_of_parts(model, game_parts)?;
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
        let (sources, source_of_part) = split.sources(game_parts)?;
        let (domain_means, means_of_view) = split.domain_means(&sources, &source_of_part, tables)?;
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
            active,
            base: Vec::new(),
            isa,
            stop,
            progress,
        };
        game.base = game.base_values()?;
        Ok(game)
    }

    pub(super) fn domain(&self, ground: &DomainMeans) -> &DistinctRows {
        &self.parts.domains[ground.domain]
    }

    pub(super) fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// The number of players that can be absent.
    pub(super) fn active_players(&self) -> usize {
        self.active.len()
    }

    /// Returns the distinct rows of `rows` in the columns of the parts with source `s`, and their numbers by
    /// [`key`].
    pub(super) fn distinct_rows(
        &self,
        s: usize,
        rows: &[Vec<f64>],
    ) -> (HashMap<Vec<u64>, usize>, Vec<Vec<f64>>) {
        let (mut numbers, mut distinct) = (HashMap::new(), Vec::new());
        for x in rows {
            for (columns, _) in
                self.columns.iter().zip(&self.source_of_part).filter(|(_, from)| **from == Some(s))
            {
                let part_values: Vec<f64> = columns.iter().map(|&j| x[j]).collect();
                numbers.entry(key(&part_values)).or_insert_with(|| {
                    distinct.push(part_values);
                    distinct.len() - 1
                });
            }
        }
        (numbers, distinct)
    }

    /// The ridges of the sources' conditional distributions, for the provenance.
    pub(super) fn ridges(&self) -> Vec<CardEntry> {
        let learnt = self.sources.iter().filter_map(|source| source.conditional.as_ref());
        learnt.map(|means| CardEntry::measured("ridge", means.ridge())).collect()
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

    /// Returns, for each output, a bound on the error of a coalition's value.
    pub(super) fn errors(&self, RowSizes { sides, mean_errors: off }: RowSizes<'_>) -> Vec<f64> {
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
                // The error of one side, with the others as large as they can be.
                let approximated = |side: usize| {
                    let error = sides[term.sides[side]].approximation_error;
                    let size = |s, row| if s == side { 1.0 } else { tops(s, row) };
                    if error > 0.0 { error * term.sum(magnitude, size) } else { 0.0 }
                };
                error += lengths * 1.01 * (0..term.sides.len()).map(approximated).sum::<f64>();
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

/// Returns the number of players that can be absent in a game of these parts.
///
/// # Errors
/// As [`PartGame::new`] for the columns of the parts.
pub(super) fn absent_players(model: &KernelExpansion, groups: &Players, parts: &[Part]) -> Result<usize> {
    let (_, fixed) = columns_of_parts(model, parts)?;
    let owners = groups.player_of_column(model.support_points.width());
    Ok(active_players(model, groups, &owners, &fixed)?.len())
}

/// Returns the players with columns in some background, which can be absent.
///
/// # Errors
/// [`Error::Parameter`] if a player has both columns in backgrounds and `fixed` columns.
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
    fn sources(&self, game_parts: &[Part]) -> Result<(Vec<Source>, Vec<Option<usize>>)> {
        let (mut sources, mut source_of_part): (Vec<Source>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
        for (part, part_columns) in self.columns.iter().enumerate() {
            let Some(Part { background, conditional }) = game_parts.get(part) else {
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
                    && game_parts[first].conditional == *conditional
                    && (conditional.is_none() || kernels(first) == kernels(part))
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
                let conditional = conditional.as_ref().map(learn).transpose()?.map(Box::new);
                sources.push(Source { names, owner, reference, conditional });
            }
        }
        Ok((sources, source_of_part))
    }

    /// Returns the distinct means of domains over their sources, and the index of each view's means.
    fn domain_means(
        &self,
        sources: &[Source],
        source_of_part: &[Option<usize>],
        tables: bool,
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
                domain_means.push(ground.precomputed(rows, sources, (self.players, tables), self.stop)?);
            }
        }
        Ok((domain_means, means_of_view))
    }
}

//! Pref-SHAP: the contribution of each property to the outcome of a duel. A player is a column of *both*
//! items, so that swapping the items of a duel changes the sign of the values.
//!
//! Games differ in the values of absent columns. In all games except those with absent contexts, the empty
//! coalition has the value 0 and the grand coalition the log odds. Absent columns of both items have the same
//! distribution, so values change their sign with the sides for every model of duels. Duels are explained in
//! one order of the items and the sign is applied afterwards, so that the antisymmetry is exact despite
//! rounding. Source: Hu, Chau, Ferrando Huertas and Sejdinovic 2022 (Pref-SHAP).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::games::{DuelGame, DuelQuestion, relabel};
use super::left_right_columns::{LeftRightColumns, check_skew};
use super::pair_kernel::wide_rows;
use super::permutation_values::{ReplacementPool, ReplacementSource, estimate};
use crate::attribution::coalition_covariance::MOST_PLAYERS;
use crate::attribution::sampled_shapley::Budget;
use crate::attribution::std_error::{ValueRange, Variance};
use crate::control::{Progress, RunControl};
use crate::embedding::Conditioning;
use crate::error::{Error, Result, listed};
use crate::explainer::Explainer;
use crate::explanation::{Dispersion, Exactness, Explanation, Provenance, Sampling, Uncertainty};
use crate::game::{Background, Game, Part, ReferenceRows};
use crate::index::ValueIndex;
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::model_average::ModelPart;
use crate::model_card::CardEntry;
use crate::posterior::PosteriorCovariance;
use crate::question::Question;
use crate::random::sorted_sample;
use crate::table::{Column, Players, Table};

/// The largest number of players for tables of all coalitions.
const MAX_PLAYERS: usize = 13;

/// The largest number of players whose coalitions are all valued by default.
const ALL_COALITIONS: usize = 16;

/// The largest number of entries in a table of all coalitions.
const MAX_ENTRIES: usize = 1 << 25;

/// The smallest number of background rows for which tables of all coalitions are faster.
const SMALL_BACKGROUND: usize = 16;

/// The largest number of pairs of items in one background.
const MAX_PAIRS: usize = 10_000;

/// Returns the values of duels under an average of models, as [`explain`] does for one model.
///
/// # Errors
/// As [`explain`]; [`Error::TooFew`] without models.
pub fn explain_average(
    parts: &[ModelPart<'_>],
    rows: &Table,
    question: &DuelQuestion,
    stop: &Arc<AtomicBool>,
    progress: &Arc<Progress>,
) -> Result<Explanation> {
    let explain = |part: &ModelPart<'_>| explain(part.model, part.covariance, rows, question, stop, progress);
    if let [part] = parts {
        return explain(part);
    }
    let explained = parts.iter().map(|part| Ok((part.weight, explain(part)?)));
    Explanation::mixed(explained.collect::<Result<_>>()?)
}

/// Returns the values of duels, which are rows of [`wide_rows`](super::wide_rows), under a model of duels.
///
/// Values are exact, with a bound, except for independent items of many players and for observational games
/// of more than 16 players, which sample coalitions ([`DuelQuestion::budget`]). Cost for D players, N items
/// of the model and B background items: independent items O(N B 2^D) once and O((N + pairs) 2^D) per duel;
/// paired items as the interventional game with B rows; observational O(B³ + N B items) for all duels, for
/// each of the 2^D or the sampled coalitions. Covariances add O(B² 3^D + 4^D) per duel if items, or items
/// and contexts, are drawn independently.
///
/// # Errors
/// [`Error::Parameter`] for a model that is not one of duels, and for requests that the game does not
/// support; as [`Explainer::explain`].
pub fn explain(
    model: &KernelExpansion,
    covariance: Option<&PosteriorCovariance>,
    rows: &Table,
    question: &DuelQuestion,
    stop: &Arc<AtomicBool>,
    progress: &Arc<Progress>,
) -> Result<Explanation> {
    let sides = LeftRightColumns::from_columns(model.columns())?;
    let data = rows.align_to(model.columns())?;
    check_skew(model, &sides, &data)?;
    // All duels are explained in one order of their items. The sign is -1 for duels in the other order, and 0
    // for duels between equal items.
    let sign = |i: usize| {
        let side =
            |columns: &[usize]| -> Vec<f64> { columns.iter().map(|&j| data.get(i, j) + 0.0).collect() };
        side(&sides.right).partial_cmp(&side(&sides.left)).map_or(0.0, |order| f64::from(order as i8))
    };
    let signs: Vec<f64> = (0..data.rows()).map(sign).collect();
    let ordered: Vec<Vec<f64>> = (0..data.rows())
        .map(|i| if signs[i] < 0.0 { sides.swapped(&data.row(i)) } else { data.row(i) })
        .collect();
    let ordered = Table::from_named_rows(data.columns().to_vec(), &ordered)?;
    let request = DuelRequest { model, covariance, sides: &sides, question, stop, progress };
    let mut explanation = request.without_fixed_players(request.explain(&ordered)?);
    // Without a game of items, only contexts are players, and the base value need not be 0.
    let is_skew = question.game.is_some();
    let (m, sets) = (model.outputs(), explanation.values.len() / (data.rows() * model.outputs()).max(1));
    for (i, sign) in signs.into_iter().enumerate() {
        let range = i * m * sets..(i + 1) * m * sets;
        explanation.values[range.clone()].iter_mut().for_each(|v| *v *= sign);
        if let (Exactness::Estimated { std_error, .. }, true) = (&mut explanation.exactness, sign == 0.0) {
            std_error[range].fill(0.0);
        }
        if let (Some(Uncertainty { dispersion: Dispersion::Covariance(covariance), .. }), true) =
            (&mut explanation.uncertainty, sign == 0.0)
        {
            covariance[i * m * sets * sets..(i + 1) * m * sets * sets].fill(0.0);
        }
        explanation.predictions[i * m..(i + 1) * m].iter_mut().for_each(|v| *v *= sign);
        let base = &mut explanation.base_values[i * m..(i + 1) * m];
        base.iter_mut().for_each(|v| *v = if is_skew { 0.0 } else { *v * sign });
    }
    explanation.values.iter_mut().chain(&mut explanation.predictions).for_each(|v| *v += 0.0);
    explanation.data = data;
    relabel(&mut explanation, question);
    Ok(explanation)
}

/// A question about duels, with its model and run.
pub(super) struct DuelRequest<'a> {
    model: &'a KernelExpansion,
    covariance: Option<&'a PosteriorCovariance>,
    sides: &'a LeftRightColumns,
    question: &'a DuelQuestion,
    stop: &'a Arc<AtomicBool>,
    progress: &'a Arc<Progress>,
}

impl DuelRequest<'_> {
    /// Returns, for each of `players`, the contribution of a coefficient 1 of each support point to the
    /// player's value at `rows`, points × rows.
    ///
    /// # Errors
    /// As [`explain`](super::explain); [`Error::UnknownColumn`] for a name that is no player's;
    /// [`Error::Parameter`] for games other than the observational one and that of independent items.
    pub(super) fn functionals(
        model: &KernelExpansion,
        rows: &Table,
        question: &DuelQuestion,
        players: &[String],
        (stop, progress): (&Arc<AtomicBool>, &Arc<Progress>),
    ) -> Result<Vec<Matrix>> {
        let sides = LeftRightColumns::from_columns(model.columns())?;
        let request = DuelRequest { model, covariance: None, sides: &sides, question, stop, progress };
        let (items, conditional) = match &question.game {
            Some(DuelGame::Independent(items)) => (items, None),
            Some(DuelGame::Observational(items, conditioning)) => (items, Some(conditioning.clone())),
            game => {
                let name = game.as_ref().map_or("contexts", DuelGame::name);
                let allowed =
                    "features of duels are protected in the games 'independent' and 'observational'";
                return Err(Error::parameter("game", name, allowed));
            }
        };
        let sides = [request.side(items, &sides.left)?, request.side(items, &sides.right)?];
        let parts = sides.map(|background| Part { background, conditional: conditional.clone() }).to_vec();
        let groups = request.groups()?;
        let number = |name: &String| {
            groups.players().iter().position(|player| player.name == *name).ok_or_else(|| {
                let known = listed(groups.players().iter().map(|player| &player.name));
                Error::UnknownColumn { name: name.clone(), known }
            })
        };
        let players = players.iter().map(number).collect::<Result<Vec<_>>>()?;
        let question = Question::from(Game::Independent { parts }).with_players(Some(groups));
        Explainer::new_with_control(model, question, stop.clone())?.functionals(rows, &players)
    }

    fn explain(&self, rows: &Table) -> Result<Explanation> {
        self.check_budget()?;
        let contexts = self.question.contexts.iter().map(|part| self.context_part(part));
        let contexts = contexts.collect::<Result<Vec<_>>>()?;
        let (left, right) = (&self.sides.left, &self.sides.right);
        let independent_game = |items: &Background, conditional: Option<Conditioning>| -> Result<Game> {
            let sides = [self.side(items, left)?, self.side(items, right)?];
            let sides = sides.map(|background| Part { background, conditional: conditional.clone() });
            Ok(Game::Independent { parts: sides.into_iter().chain(contexts.iter().cloned()).collect() })
        };
        if let Some(orders) = self.question.permutations {
            return self.explain_by_permutations(orders, rows, self.question.contexts.as_slice());
        }
        let Some(game) = &self.question.game else {
            if contexts.is_empty() {
                let allowed = "there are no features if items and contexts are always present: give a \
                               background of items or of contexts";
                return Err(Error::parameter("game", "none", allowed));
            }
            return self.explain_wide_rows(Game::Independent { parts: contexts }, rows);
        };
        match game {
            DuelGame::Functional if contexts.is_empty() => self.explain_wide_rows(Game::Functional, rows),
            DuelGame::Functional => {
                let allowed = "the functional game has no background of contexts: leave the contexts out";
                Err(Error::parameter("game", "functional", allowed))
            }
            DuelGame::Observational(items, conditioning) => {
                self.explain_wide_rows(independent_game(items, Some(conditioning.clone()))?, rows)
            }
            DuelGame::Independent(items) if self.uses_coalitions()? => {
                self.explain_wide_rows(independent_game(items, None)?, rows)
            }
            DuelGame::Independent(items) => self.explain_in_batches(items, rows, &contexts),
            DuelGame::Paired(items) => self.against_pairs(self.same_items(items)?, rows, contexts),
            DuelGame::Baseline(item) => {
                let item = crate::game::baseline_row(item)?;
                self.against_pairs(self.pairs(&item, &[(0, 0)], None)?, rows, contexts)
            }
            DuelGame::Matches(duels) => {
                let duels = duels.align_to(self.model.columns())?;
                let both_orders = |i: usize| [duels.row(i), self.sides.swapped(&duels.row(i))];
                let both_orders: Vec<Vec<f64>> = (0..duels.rows()).flat_map(both_orders).collect();
                let pairs = Table::from_named_rows(self.model.columns().to_vec(), &both_orders)?;
                let background = pairs.align_to(&self.columns_of_items())?.into();
                self.against_pairs(background, rows, contexts)
            }
        }
    }

    /// Returns the indices of the players that can be absent.
    fn removable_players(&self) -> Result<Vec<usize>> {
        let groups = self.groups()?;
        let can_be_absent = |&p: &usize| !self.is_fixed(&groups.players()[p].columns);
        Ok((0..groups.players().len()).filter(can_be_absent).collect())
    }

    /// Whether coalitions are valued in the independent game, instead of batches of pairs of items.
    fn uses_coalitions(&self) -> Result<bool> {
        Ok(self.question.budget.is_some() || self.removable_players()?.len() <= self.max_players())
    }

    /// Returns the largest number of players for which the independent game uses tables of all coalitions.
    fn max_players(&self) -> usize {
        if self.question.covariance { MOST_PLAYERS } else { MAX_PLAYERS }
    }

    /// Checks that the game values coalitions if there is a budget for them.
    fn check_budget(&self) -> Result<()> {
        let Some(budget) = self.question.budget else { return Ok(()) };
        let is_of_coalitions = match self.question.game {
            None | Some(DuelGame::Independent(_) | DuelGame::Observational(..)) => true,
            _ => self.question.contexts.is_some(),
        };
        let why = match self.question.permutations {
            Some(_) => "random orders take no coalitions: give one of the two",
            None if self.question.index != ValueIndex::Shapley => {
                "only Shapley values are estimated from coalitions: leave the number out"
            }
            None if !is_of_coalitions => {
                "only the observational and the independent game and games with absent contexts value \
                 coalitions: leave the number out"
            }
            None => return Ok(()),
        };
        Err(Error::parameter("n_coalitions", budget.coalitions, why))
    }

    /// Returns the budget of coalitions: by default all coalitions of up to [`ALL_COALITIONS`] players.
    fn budget(&self) -> Result<Budget> {
        let all_coalitions = (1 << ALL_COALITIONS) - 2;
        let few_players = self.removable_players()?.len() <= ALL_COALITIONS;
        let default = Budget { seed: self.question.seed, ..Budget::default() };
        let default = if few_players { Budget { coalitions: all_coalitions, ..default } } else { default };
        Ok(self.question.budget.unwrap_or(default))
    }

    /// Whether all of these columns are always present.
    fn is_fixed(&self, columns: &[usize]) -> bool {
        let is_fixed_column = |j: &usize| match self.sides.contexts.contains(j) {
            true => self.question.contexts.is_none(),
            false => self.question.game.is_none(),
        };
        !self.is_functional() && columns.iter().all(is_fixed_column)
    }

    fn is_functional(&self) -> bool {
        matches!(self.question.game, Some(DuelGame::Functional))
    }

    /// Returns the explanation without players that are always present.
    fn without_fixed_players(&self, explanation: Explanation) -> Explanation {
        let can_be_absent = |&k: &usize| !explanation.members(k).any(|p| self.is_fixed(&p.columns));
        let removable_sets: Vec<usize> = (0..explanation.sets()).filter(can_be_absent).collect();
        if removable_sets.len() == explanation.sets() {
            return explanation;
        }
        let (rows, outputs): (Vec<_>, Vec<_>) =
            ((0..explanation.rows()).collect(), (0..explanation.outputs()).collect());
        let mut selected = explanation.select(&rows, &removable_sets, &outputs);
        if explanation.subsets.is_none() {
            selected.players = removable_sets.iter().map(|&k| explanation.players[k].clone()).collect();
            selected.subsets = None;
        }
        selected
    }

    /// Returns the players; a column of both items is one player.
    fn groups(&self) -> Result<Players> {
        let columns = self.model.columns();
        let items = self.sides.items(columns);
        let is_item_column = |name: &String| items.iter().any(|c| c.name == *name);
        let has_fixed =
            !self.is_functional() && (self.question.contexts.is_none() || self.question.game.is_none());
        let is_mixed =
            |names: &Vec<String>| names.iter().any(is_item_column) && !names.iter().all(is_item_column);
        if let Some((name, _)) = self.question.groups.iter().find(|(_, names)| has_fixed && is_mixed(names)) {
            let allowed = "it has columns of items and of contexts, and one of these is always present: \
                           make separate groups";
            return Err(Error::parameter("group", name, allowed));
        }
        let side_columns = |name: &String| match is_item_column(name) {
            true => vec![format!("left_{name}"), format!("right_{name}")],
            false => vec![name.clone()],
        };
        let grouped: Vec<&String> = self.question.groups.iter().flat_map(|(_, names)| names).collect();
        let mut named_groups: Vec<(String, Vec<String>)> = self
            .question
            .groups
            .iter()
            .map(|(name, names)| (name.clone(), names.iter().flat_map(side_columns).collect()))
            .collect();
        let ungrouped = items.iter().map(|c| &c.name).filter(|name| !grouped.contains(name));
        named_groups.extend(ungrouped.map(|name| (name.clone(), side_columns(name))));
        Players::named(columns, &named_groups)
    }

    /// Explains rows of the model's columns under a game of rows.
    fn explain_wide_rows(&self, game: Game, rows: &Table) -> Result<Explanation> {
        let mut question = Question::from(game).with_players(Some(self.groups()?));
        (question.index, question.covariance) = (self.question.index, self.question.covariance);
        question.budget = self.budget()?;
        Explainer::new_with_control(self.model, question, self.stop.clone())?
            .with_posterior(self.covariance)?
            .with_progress(self.progress.clone())
            .explain(rows)
    }

    /// Explains against pairs of items, as rows of the items' columns. The contexts of the explained rows are
    /// always present unless `contexts` gives a background for them.
    fn against_pairs(&self, pairs: Background, rows: &Table, contexts: Vec<Part>) -> Result<Explanation> {
        // Tables of all coalitions cost less than one game per background row, unless there are few rows.
        let players = self.removable_players()?.len();
        let tables_fit = players <= MAX_PLAYERS && self.model.support_points.rows() << players <= MAX_ENTRIES;
        let use_tables = pairs.rows.rows() >= SMALL_BACKGROUND && tables_fit && !self.question.covariance;
        if !contexts.is_empty() || use_tables {
            let parts = [vec![pairs.into()], contexts].concat();
            return self.explain_wide_rows(Game::Independent { parts }, rows);
        }
        if self.sides.contexts.is_empty() {
            return self.explain_wide_rows(Game::Interventional { background: pairs }, rows);
        }
        // Rows with the same context are explained together, because the background's rows have this context
        // too.
        let mut rows_by_context: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
        for i in 0..rows.rows() {
            let context = self.sides.contexts.iter().map(|&j| (rows.get(i, j) + 0.0).to_bits()).collect();
            rows_by_context.entry(context).or_default().push(i);
        }
        let mut parts = Vec::new();
        for row_indices in rows_by_context.values() {
            let count = pairs.rows.rows();
            let values = |j: usize| match pairs.rows.index_of(&rows.columns()[j].name) {
                Ok(column) => pairs.rows.column(column).to_vec(),
                Err(_) => vec![rows.get(row_indices[0], j); count],
            };
            let values = (0..rows.width()).flat_map(values).collect();
            let table = Table::from_column_major(rows.columns().to_vec(), count, values)?;
            let background = Background { rows: table, weights: pairs.weights.clone() };
            parts.push((
                row_indices,
                self.explain_wide_rows(Game::Interventional { background }, &rows.select_rows(row_indices))?,
            ));
        }
        concat(parts, rows)
    }

    /// Explains against all pairs of these items, or against a sample of batches of pairs. A batch contains
    /// the pairs whose indices differ by a given number (a shift), cyclically.
    fn explain_in_batches(&self, items: &Background, rows: &Table, contexts: &[Part]) -> Result<Explanation> {
        let b = items.rows.rows();
        if b.saturating_mul(b) <= MAX_PAIRS {
            let pairs = pairs_with_shifts(b, &(0..b).collect::<Vec<_>>());
            let weight = |item_weights: &Vec<f64>| {
                pairs.iter().map(|&(l, r)| item_weights[l] * item_weights[r]).collect()
            };
            let background = self.pairs(&items.rows, &pairs, items.weights.as_ref().map(weight))?;
            return self.against_pairs(background, rows, contexts.to_vec());
        }
        if items.weights.is_some() || self.question.covariance || self.question.shifts < 2 {
            let max_players = self.max_players();
            let allowed = format!(
                "{b} items make more than {MAX_PAIRS} pairs, which are sampled for more than {max_players} \
                 features; this needs 2 or more shifts, equal weights and no covariances: take fewer items, \
                 group columns, or take paired items"
            );
            return Err(Error::parameter("number of background items", b, allowed));
        }
        let sample = BatchSample::new(b, self.question.shifts, self.question.seed);
        let explain = |shifts: &[usize]| {
            let background = self.pairs(&items.rows, &pairs_with_shifts(b, shifts), None)?;
            self.against_pairs(background, rows, contexts.to_vec())
        };
        let mut explanation = explain(&sample.self_mirrored)?;
        let batches: Vec<Explanation> =
            sample.drawn.iter().map(|s| explain(&[s + 1, b - s - 1])).collect::<Result<_>>()?;
        let std_error = sample.average_values(&mut explanation.values, &batches);
        let evaluations = (sample.self_mirrored.len() + 2 * sample.drawn.len()) * b;
        if sample.drawn.len() < sample.n_batches {
            let sampling = Some(Sampling { evaluations, seed: self.question.seed });
            explanation.exactness = Exactness::Estimated { std_error, sampling };
        } else if let Exactness::Exact { bound } = &mut explanation.exactness {
            sample.average_bounds(bound, explanation.values.len(), &batches);
        }
        explanation.provenance.absent = format!(
            "absent features of the two items are those of two of {b} items, averaged over {evaluations} of \
             {} pairs",
            b * b
        );
        Ok(explanation)
    }

    /// Estimates the values along random orders.
    fn explain_by_permutations(&self, orders: usize, rows: &Table, contexts: &[Part]) -> Result<Explanation> {
        let allowed = "random orders estimate only Shapley values of items without covariances, in games \
                       with background rows: leave n_orders out";
        let unsupported = || Error::parameter("n_orders", orders, allowed);
        let has_conditional_contexts = contexts.iter().any(|part| part.conditional.is_some());
        if self.question.index != ValueIndex::Shapley || self.question.covariance || has_conditional_contexts
        {
            return Err(unsupported());
        }
        let (model, sides) = (self.model, self.sides);
        let columns = model.columns();
        let items = |rows: &Background| ReferenceRows::new(rows, &sides.items(columns));
        let (pool, name) = match &self.question.game {
            Some(DuelGame::Independent(rows)) => {
                (ReplacementPool::Independent(items(rows)?), "two of the background's items")
            }
            Some(DuelGame::Paired(rows)) => {
                (ReplacementPool::Paired(items(rows)?), "one of the background's items")
            }
            Some(DuelGame::Baseline(item)) => (
                ReplacementPool::Paired(items(&crate::game::baseline_row(item)?.into())?),
                "the reference item",
            ),
            Some(DuelGame::Matches(duels)) => {
                let reference = ReferenceRows::new(&duels.clone().into(), columns)?;
                (ReplacementPool::Matches(reference), "the items of a duel of the background")
            }
            _ => return Err(unsupported()),
        };
        let contexts = contexts
            .first()
            .map(|part| ReferenceRows::new(&part.background, &self.select_columns(&sides.contexts)));
        let source = ReplacementSource { pool, contexts: contexts.transpose()?, sides };
        let (groups, removable) = (self.groups()?, self.removable_players()?);
        let (parts, control) = (sides.parts(model)?, RunControl { stop: self.stop, progress: self.progress });
        let estimates =
            estimate(&parts, &groups, &removable, rows, &source, (orders, self.question.seed), control)?;
        let (n, m) = (rows.rows(), model.outputs());
        let sampling = Some(Sampling { evaluations: estimates.evaluations, seed: self.question.seed });
        let version = CardEntry::new("riesz", env!("CARGO_PKG_VERSION"));
        Ok(Explanation {
            index: self.question.index,
            values: estimates.values,
            base_values: vec![0.0; n * m],
            predictions: estimates.predictions,
            exactness: Exactness::Estimated { std_error: estimates.std_error, sampling },
            provenance: Provenance {
                game: Game::NAMES[2].into(),
                absent: format!(
                    "absent features of the two items are those of {name}, drawn for each of {orders} \
                     random orders"
                ),
                model: model.facts(),
                run: vec![version],
            },
            ..Explanation::of_rows(groups.players(), &model.output_names, rows.clone())
        })
    }

    /// Returns pairs of items as background rows of the columns of both items.
    fn pairs(
        &self,
        items: &Table,
        pairs: &[(usize, usize)],
        weights: Option<Vec<f64>>,
    ) -> Result<Background> {
        let items = items.align_to(&self.sides.items(self.model.columns()))?;
        let rows = wide_rows(&items, pairs)?.align_to(&self.columns_of_items())?;
        Ok(Background { rows, weights })
    }

    /// Returns pairs of each item with itself as background rows.
    fn same_items(&self, items: &Background) -> Result<Background> {
        let pairs: Vec<(usize, usize)> = (0..items.rows.rows()).map(|i| (i, i)).collect();
        self.pairs(&items.rows, &pairs, items.weights.clone())
    }

    /// Returns a background of items in the columns of one side.
    fn side(&self, items: &Background, side: &[usize]) -> Result<Background> {
        let both_sides = self.same_items(items)?;
        Ok(Background { rows: both_sides.rows.align_to(&self.select_columns(side))?, ..both_sides })
    }

    /// Returns some of the model's columns.
    fn select_columns(&self, columns: &[usize]) -> Vec<Column> {
        columns.iter().map(|&j| self.model.columns()[j].clone()).collect()
    }

    /// Returns the model's columns without those of contexts.
    fn columns_of_items(&self) -> Vec<Column> {
        let is_item_column = |j: &usize| !self.sides.contexts.contains(j);
        self.select_columns(&(0..self.model.columns().len()).filter(is_item_column).collect::<Vec<_>>())
    }

    /// Returns the part of the contexts, in the model's columns.
    fn context_part(&self, Part { background, conditional }: &Part) -> Result<Part> {
        let columns = self.select_columns(&self.sides.contexts);
        if columns.is_empty() {
            let allowed = "the model of duels was fitted without contexts";
            return Err(Error::parameter("contexts", background.rows.rows(), allowed));
        }
        let rows = background.rows.align_to(&columns)?;
        let background = Background { rows, weights: background.weights.clone() };
        Ok(Part { background, conditional: conditional.clone() })
    }
}

/// Returns the probability that an item is better than another one: that the log odds of its win, with this
/// posterior mean and standard deviation, are positive. This is not the probability of winning the next duel.
/// It is ½ for two equal items.
pub fn probability_better(mean: f64, sd: f64) -> f64 {
    crate::explanation::normal::positive(mean, sd)
}

/// Returns the pairs of b items whose indices differ by one of these shifts, cyclically.
fn pairs_with_shifts(b: usize, shifts: &[usize]) -> Vec<(usize, usize)> {
    shifts.iter().flat_map(|s| (0..b).map(move |i| (i, (i + s) % b))).collect()
}

/// A sample of the batches of pairs of items. Batches that are their own mirror image are always used. Others
/// are used together with their mirror image, so that the empty coalition has the value 0 in every batch.
struct BatchSample {
    /// The shifts of the batches that are their own mirror image.
    self_mirrored: Vec<usize>,
    /// The indices of the drawn batches among the `n_batches` others.
    drawn: Vec<usize>,
    n_batches: usize,
    /// The share of the self-mirrored batches in all pairs, and that of the others.
    fixed_share: f64,
    sampled_share: f64,
}

impl BatchSample {
    fn new(b: usize, shifts: usize, seed: u64) -> Self {
        let self_mirrored: Vec<usize> = [0].into_iter().chain(b.is_multiple_of(2).then_some(b / 2)).collect();
        let n_batches = (b - self_mirrored.len()) / 2;
        let drawn = sorted_sample(n_batches, shifts.min(n_batches), seed);
        let fixed_share = self_mirrored.len() as f64 / b as f64;
        Self { self_mirrored, drawn, n_batches, fixed_share, sampled_share: 1.0 - fixed_share }
    }

    /// Replaces the values of the self-mirrored batches by the estimates for all pairs, and returns their
    /// standard errors. `batches` are the explanations by the drawn batches.
    fn average_values(&self, values: &mut [f64], batches: &[Explanation]) -> Vec<f64> {
        let n = batches.len() as f64;
        let unsampled = 1.0 - n / self.n_batches as f64;
        let average = |(k, value): (usize, &mut f64)| {
            let batch_values: Vec<f64> = batches.iter().map(|p| p.values[k]).collect();
            let mean = crate::linalg::mean(&batch_values);
            let sample_variance = batch_values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let mut variance = Variance::default();
            variance.add(self.sampled_share * self.sampled_share * unsampled * sample_variance / n, n - 1.0);
            if unsampled > 0.0 {
                let range = ValueRange::over(batch_values.iter().copied());
                variance.inflate(self.sampled_share * unsampled.sqrt() * range.max_deviation([]) / n);
            }
            *value = self.fixed_share * *value + self.sampled_share * mean;
            variance.std_error()
        };
        values.iter_mut().enumerate().map(average).collect()
    }

    /// Replaces the bounds of the self-mirrored batches by the mean of all batches' bounds, plus the rounding
    /// error of the mean of `n_values` values.
    fn average_bounds(&self, bounds: &mut [f64], n_values: usize, batches: &[Explanation]) {
        let n = batches.len() as f64;
        let sets = n_values / bounds.len().max(1);
        for (k, bound) in bounds.iter_mut().enumerate() {
            let bound_of = |p: &Explanation| {
                if let Exactness::Exact { bound } = &p.exactness { bound[k] } else { 0.0 }
            };
            let abs_sum =
                |p: &Explanation| -> f64 { p.values[k * sets..(k + 1) * sets].iter().map(|v| v.abs()).sum() };
            let largest_sum = batches.iter().map(abs_sum).fold(0.0, f64::max);
            let mean_bound = batches.iter().map(bound_of).sum::<f64>() / n;
            *bound = self.fixed_share * *bound
                + self.sampled_share * mean_bound
                + f64::EPSILON * (n + 8.0) * largest_sum;
        }
    }
}

/// Joins explanations of disjoint subsets of `rows`.
fn concat(parts: Vec<(&Vec<usize>, Explanation)>, rows: &Table) -> Result<Explanation> {
    // For each row, its index in the joined explanation.
    let mut joined_indices = vec![0; rows.rows()];
    let joined_rows = parts.iter().flat_map(|(row_indices, _)| *row_indices);
    joined_rows.enumerate().for_each(|(index, &row)| joined_indices[row] = index);
    let mut joined: Option<Explanation> = None;
    for (_, part) in parts {
        match &mut joined {
            None => joined = Some(part),
            Some(joined) => joined.concat_rows(part)?,
        }
    }
    let joined = joined.ok_or_else(|| Error::too_few("the table of duels", 1, "row is"))?;
    let mut sorted = joined.select_rows(&joined_indices);
    (sorted.data, sorted.row_numbers) = (rows.clone(), (0..rows.rows()).collect());
    Ok(sorted)
}

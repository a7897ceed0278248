//! Pref-SHAP: which property decided a duel. A player is a column of *both* items, so that values of the duel
//! the other way round are the same with the opposite sign.
//!
//! Games differ in what absent columns become. All but those in which contexts are absent are worth nothing
//! with nobody present, and everything with everybody; and values change their sign with the sides, for every
//! model of duels, because what absent columns become is the same for either side: duels are explained in one
//! order of the items, and the sign put on afterwards, so that this holds to the last bit. Source: Hu, Chau,
//! Ferrando Huertas and Sejdinovic 2022 (Pref-SHAP).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::games::{DuelGame, DuelQuestion, described};
use super::left_right_columns::{LeftRightColumns, check_skew};
use super::permutation_values::{ReplacementPool, ReplacementSource, estimate};
use crate::attribution::coalition_covariance::MOST_PLAYERS;
use crate::attribution::std_error::{ValueRange, Variance};
use crate::control::{Progress, RunControl};
use crate::embedding::Conditioning;
use crate::error::{Error, Result};
use crate::explainer::Explainer;
use crate::explanation::{Exactness, Explanation, Fact, Provenance, Sampling, Spread, Uncertainty};
use crate::game::{Background, Game, ReferenceRows};
use crate::index::ValueIndex;
use crate::kernel_model::KernelExpansion;
use crate::posterior::PosteriorCovariance;
use crate::question::Question;
use crate::random::{Random, SeedableRng, index};
use crate::table::{Column, Players, Table};

/// Players of whom tables of all coalitions are made in the independent game.
const PLAYERS: usize = 13;

/// The most numbers in a table of pairs of items.
const NUMBERS: usize = 1 << 25;

/// Background rows that are few.
const FEW: usize = 16;

/// The most pairs of items that are one background.
const PAIRS: usize = 10_000;

/// The values of duels: rows as [`wide_rows`](super::wide_rows) makes them, of a model of duels.
///
/// Exact with a bound, but for independent items of many players and the observational game of coalitions
/// that are sampled. Cost for D players, N items of the model and B of the background: independent O(N B 2^D)
/// once and O((N + pairs) 2^D) a duel; paired as the interventional game of B rows; observational O(B³ 2^D)
/// once for all duels. Covariances take O(B² 3^D + 4^D) a duel more where items, or items and contexts, are
/// absent apart.
///
/// # Errors
/// [`Error::Parameter`] for a model that is none of duels, and what a game has not; those of
/// [`Explainer::explain`].
pub fn explain(
    model: &KernelExpansion,
    covariance: Option<&PosteriorCovariance>,
    rows: &Table,
    question: &DuelQuestion,
    stop: &Arc<AtomicBool>,
    progress: &Arc<Progress>,
) -> Result<Explanation> {
    let sides = LeftRightColumns::of(model.columns())?;
    let data = rows.align_to(model.columns())?;
    check_skew(model, &sides, &data)?;
    // In one order of the items.
    let turned: Vec<std::cmp::Ordering> = (0..data.rows())
        .map(|i| {
            let side =
                |columns: &[usize]| -> Vec<f64> { columns.iter().map(|&j| data.get(i, j) + 0.0).collect() };
            side(&sides.left).partial_cmp(&side(&sides.right)).unwrap_or(std::cmp::Ordering::Equal)
        })
        .collect();
    let ordered: Vec<Vec<f64>> = (0..data.rows())
        .map(|i| if turned[i].is_gt() { sides.swapped(&data.row(i)) } else { data.row(i) })
        .collect();
    let values = (0..data.width()).flat_map(|j| ordered.iter().map(move |row| row[j])).collect();
    let ordered = Table::from_column_major(data.columns().to_vec(), data.rows(), values)?;
    let asked = DuelRequest { model, covariance, sides: &sides, question, stop, progress };
    let mut found = asked.without_fixed(asked.explain(&ordered)?);
    // Only the contexts tell one duel from its mirror.
    let skew = question.game.is_some();
    let (m, sets) = (model.outputs(), found.values.len() / (data.rows() * model.outputs()).max(1));
    for (i, turned) in turned.iter().enumerate() {
        let sign = match turned {
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => -1.0,
        };
        let own = i * m * sets..(i + 1) * m * sets;
        found.values[own.clone()].iter_mut().for_each(|v| *v *= sign);
        if let (Exactness::Estimated { std_error, .. }, true) = (&mut found.exactness, sign == 0.0) {
            std_error[own].fill(0.0);
        }
        if let (Some(Uncertainty { spread: Spread::Covariance(all), .. }), true) =
            (&mut found.uncertainty, sign == 0.0)
        {
            all[i * m * sets * sets..(i + 1) * m * sets * sets].fill(0.0);
        }
        found.predictions[i * m..(i + 1) * m].iter_mut().for_each(|v| *v *= sign);
        let base = &mut found.base_values[i * m..(i + 1) * m];
        base.iter_mut().for_each(|v| *v = if skew { 0.0 } else { *v * sign });
    }
    found.values.iter_mut().chain(&mut found.predictions).for_each(|v| *v += 0.0);
    found.data = data;
    described(&mut found, question);
    Ok(found)
}

/// What is asked, of what.
struct DuelRequest<'a> {
    model: &'a KernelExpansion,
    covariance: Option<&'a PosteriorCovariance>,
    sides: &'a LeftRightColumns,
    question: &'a DuelQuestion,
    stop: &'a Arc<AtomicBool>,
    progress: &'a Arc<Progress>,
}

impl DuelRequest<'_> {
    fn explain(&self, rows: &Table) -> Result<Explanation> {
        let contexts = self.question.contexts.iter().map(|own| self.context_part(own));
        let contexts = contexts.collect::<Result<Vec<_>>>()?;
        let (left, right) = (&self.sides.left, &self.sides.right);
        let apart = |items: &Background, conditional: Option<Conditioning>| -> Result<Game> {
            let mut parts = vec![self.side(items, left)?, self.side(items, right)?];
            parts.extend(contexts.iter().cloned());
            Ok(Game::Independent { parts, conditional })
        };
        if let Some(orders) = self.question.permutations {
            return self.explain_by_permutations(orders, rows, self.question.contexts.as_slice());
        }
        let Some(game) = &self.question.game else {
            if contexts.is_empty() {
                let allowed = "with items and contexts always present there are no players: give a \
                               background of items, or of contexts";
                return Err(Error::parameter("game", "none", allowed));
            }
            return self.explain_wide_rows(Game::Independent { parts: contexts, conditional: None }, rows);
        };
        match game {
            DuelGame::Functional if contexts.is_empty() => self.explain_wide_rows(Game::Functional, rows),
            DuelGame::Functional => {
                let allowed = "it has no background, of contexts neither: leave them out";
                Err(Error::parameter("game", "functional", allowed))
            }
            DuelGame::Observational(items, conditioning) => {
                self.explain_wide_rows(apart(items, Some(conditioning.clone()))?, rows)
            }
            DuelGame::Independent(items) if self.players()? <= self.most_players() => {
                self.explain_wide_rows(apart(items, None)?, rows)
            }
            DuelGame::Independent(items) => self.explain_in_batches(items, rows, &contexts),
            DuelGame::Paired(items) => {
                let pairs = (0..items.rows.rows()).map(|i| (i, i)).collect::<Vec<_>>();
                let background = self.pairs(&items.rows, &pairs, items.weights.clone())?;
                self.against_pairs(background, rows, contexts)
            }
            DuelGame::Baseline(item) => {
                let item = crate::game::baseline_row(item)?;
                self.against_pairs(self.pairs(&item, &[(0, 0)], None)?, rows, contexts)
            }
            DuelGame::Matches(duels) => {
                let duels = duels.align_to(self.model.columns())?;
                let of = |i: usize| [duels.row(i), self.sides.swapped(&duels.row(i))];
                let both: Vec<Vec<f64>> = (0..duels.rows()).flat_map(of).collect();
                self.against_pairs(self.pair_table(&both, None)?, rows, contexts)
            }
        }
    }

    /// The number of players of items and, if they can be absent, contexts.
    fn players(&self) -> Result<usize> {
        let groups = self.groups()?;
        let fixed = |j: &usize| self.question.contexts.is_none() && self.sides.contexts.contains(j);
        Ok(groups.players().iter().filter(|p| !p.columns.iter().all(fixed)).count())
    }

    /// The most of whom tables of all coalitions are made in the independent game.
    fn most_players(&self) -> usize {
        if self.question.covariance { MOST_PLAYERS } else { PLAYERS }
    }

    /// Whether all of these columns are always present.
    fn is_fixed(&self, columns: &[usize]) -> bool {
        columns.iter().all(|j| match self.sides.contexts.contains(j) {
            true => self.question.contexts.is_none(),
            false => self.question.game.is_none(),
        })
    }

    /// The explanation without the players who are always present.
    fn without_fixed(&self, found: Explanation) -> Explanation {
        let functional = matches!(self.question.game, Some(DuelGame::Functional));
        let player = |k: usize| found.members(k).any(|p| self.is_fixed(&p.columns));
        let kept: Vec<usize> = (0..found.sets()).filter(|&k| functional || !player(k)).collect();
        if kept.len() == found.sets() {
            return found;
        }
        let (rows, outputs): (Vec<_>, Vec<_>) = ((0..found.rows()).collect(), (0..found.outputs()).collect());
        let mut own = found.select(&rows, &kept, &outputs);
        if found.subsets.is_none() {
            own.players = kept.iter().map(|&k| found.players[k].clone()).collect();
            own.subsets = None;
        }
        own
    }

    /// A column of both items is one player.
    fn groups(&self) -> Result<Players> {
        let columns = self.model.columns();
        let items = self.sides.items(columns);
        let of_items = |name: &String| items.iter().any(|c| c.name == *name);
        let functional = matches!(self.question.game, Some(DuelGame::Functional));
        let fixed = !functional && (self.question.contexts.is_none() || self.question.game.is_none());
        let mixed = |own: &Vec<String>| own.iter().any(of_items) && !own.iter().all(of_items);
        if let Some((name, _)) = self.question.groups.iter().find(|(_, own)| fixed && mixed(own)) {
            let allowed = "it holds columns of items and of contexts, of which one kind is always present: \
                           take them apart";
            return Err(Error::parameter("group", name, allowed));
        }
        let known = |name: &String| items.iter().any(|c| c.name == *name);
        let both = |name: &String| match known(name) {
            true => vec![format!("left_{name}"), format!("right_{name}")],
            false => vec![name.clone()],
        };
        let grouped: Vec<&String> = self.question.groups.iter().flat_map(|(_, own)| own).collect();
        let mut all: Vec<(String, Vec<String>)> = self
            .question
            .groups
            .iter()
            .map(|(name, own)| (name.clone(), own.iter().flat_map(both).collect()))
            .collect();
        let alone = items.iter().map(|c| &c.name).filter(|name| !grouped.contains(name));
        all.extend(alone.map(|name| (name.clone(), both(name))));
        Players::named(columns, &all)
    }

    /// Asks a question about rows of the model's columns.
    fn explain_wide_rows(&self, game: Game, rows: &Table) -> Result<Explanation> {
        let mut question = Question::from(game).with_players(Some(self.groups()?));
        (question.index, question.covariance) = (self.question.index, self.question.covariance);
        Explainer::new_with_control(self.model, question, self.stop.clone())?
            .with_posterior(self.covariance)?
            .with_progress(self.progress.clone())
            .explain(rows)
    }

    /// Against pairs of items as rows of the items' columns; contexts of rows are always present, or absent
    /// on their own.
    fn against_pairs(
        &self,
        pairs: Background,
        rows: &Table,
        contexts: Vec<Background>,
    ) -> Result<Explanation> {
        // Tables of all coalitions take less work than one background row after the other, unless these are
        // few.
        let players = self.players()?;
        let small = players <= PLAYERS && self.model.support_points.rows() << players <= NUMBERS;
        let many = pairs.rows.rows() >= FEW && small && !self.question.covariance;
        if !contexts.is_empty() || many {
            let parts = [vec![pairs], contexts].concat();
            return self.explain_wide_rows(Game::Independent { parts, conditional: None }, rows);
        }
        if self.sides.contexts.is_empty() {
            return self.explain_wide_rows(Game::Interventional { background: pairs }, rows);
        }
        // Context by context, which the background's rows share with the row.
        let mut alike: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
        for i in 0..rows.rows() {
            let key = self.sides.contexts.iter().map(|&j| (rows.get(i, j) + 0.0).to_bits()).collect();
            alike.entry(key).or_default().push(i);
        }
        let mut parts = Vec::new();
        for own in alike.values() {
            let values = (0..rows.width()).flat_map(|j| {
                let name = &rows.columns()[j].name;
                let column = pairs.rows.index_of(name).ok();
                let at = rows.get(own[0], j);
                (0..pairs.rows.rows()).map(move |b| (column, b, at)).collect::<Vec<_>>()
            });
            let values =
                values.map(|(column, b, at)| column.map_or(at, |column| pairs.rows.get(b, column))).collect();
            let table = Table::from_column_major(rows.columns().to_vec(), pairs.rows.rows(), values)?;
            let background = Background { rows: table, weights: pairs.weights.clone() };
            parts.push((
                own,
                self.explain_wide_rows(Game::Interventional { background }, &rows.select_rows(own))?,
            ));
        }
        concat(parts, rows)
    }

    /// All pairs of these items, or portions of them: those whose places differ by so many, around.
    fn explain_in_batches(
        &self,
        items: &Background,
        rows: &Table,
        contexts: &[Background],
    ) -> Result<Explanation> {
        let b = items.rows.rows();
        let all = |shifts: &[usize]| -> Vec<(usize, usize)> {
            shifts.iter().flat_map(|s| (0..b).map(move |i| (i, (i + s) % b))).collect()
        };
        if b.saturating_mul(b) <= PAIRS {
            let pairs = all(&(0..b).collect::<Vec<_>>());
            let weight = |own: &Vec<f64>| pairs.iter().map(|&(l, r)| own[l] * own[r]).collect();
            let background = self.pairs(&items.rows, &pairs, items.weights.as_ref().map(weight))?;
            return self.against_pairs(background, rows, contexts.to_vec());
        }
        if items.weights.is_some() || self.question.covariance || self.question.shifts < 2 {
            let most = self.most_players();
            let allowed = format!(
                "{b} items make more than {PAIRS} pairs, which with more than {most} players are drawn, at \
                 least 2 portions, with equal weights and without covariances: take fewer items, group \
                 columns, or ask for paired items"
            );
            return Err(Error::parameter("number of background items", b, allowed));
        }
        // Those that are their own mirror are taken whole; others with their mirrors, so that every portion
        // is worth nothing with nobody present.
        let own: Vec<usize> = [0].into_iter().chain(b.is_multiple_of(2).then_some(b / 2)).collect();
        let others = (b - own.len()) / 2;
        let count = self.question.shifts.min(others);
        let mut random = Random::seed_from_u64(self.question.seed);
        let mut drawn = index::sample(&mut random, others, count).into_vec();
        drawn.sort_unstable();
        let portion = |shifts: &[usize]| {
            let background = self.pairs(&items.rows, &all(shifts), None)?;
            self.against_pairs(background, rows, contexts.to_vec())
        };
        let mut found = portion(&own)?;
        let portions: Vec<Explanation> =
            drawn.iter().map(|s| portion(&[s + 1, b - s - 1])).collect::<Result<_>>()?;
        let (whole, rest) = (own.len() as f64 / b as f64, 1.0 - own.len() as f64 / b as f64);
        let n = count as f64;
        let left = 1.0 - n / others as f64;
        let mut std_error = Vec::with_capacity(found.values.len());
        for (k, value) in found.values.iter_mut().enumerate() {
            let each: Vec<f64> = portions.iter().map(|p| p.values[k]).collect();
            let mean = each.iter().sum::<f64>() / n;
            let spread = each.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let mut variance = Variance::default();
            variance.add(rest * rest * left * spread / n, n - 1.0);
            if left > 0.0 {
                let range = ValueRange::of(each.iter().copied());
                variance.inflate(rest * left.sqrt() * range.max_deviation([]) / n);
            }
            *value = whole * *value + rest * mean;
            std_error.push(variance.std_error());
        }
        if count < others {
            let evaluations = (own.len() + 2 * count) * b;
            let sampling = Some(Sampling { evaluations, seed: self.question.seed });
            found.exactness = Exactness::Estimated { std_error, sampling };
        } else if let Exactness::Exact { bound } = &mut found.exactness {
            // What portions are off, and what their mean is rounded.
            let sets = found.values.len() / bound.len().max(1);
            for (game, bound) in bound.iter_mut().enumerate() {
                let of = |p: &Explanation| {
                    if let Exactness::Exact { bound } = &p.exactness { bound[game] } else { 0.0 }
                };
                let size = |p: &Explanation| -> f64 {
                    p.values[game * sets..(game + 1) * sets].iter().map(|v| v.abs()).sum()
                };
                let largest = portions.iter().map(size).fold(0.0, f64::max);
                let off = portions.iter().map(of).sum::<f64>() / n;
                *bound = whole * *bound + rest * off + f64::EPSILON * (n + 8.0) * largest;
            }
        }
        found.provenance.absent = format!(
            "absent features of the two items are those of two of {b} items, averaged over {} of {} pairs",
            (own.len() + 2 * count) * b,
            b * b
        );
        Ok(found)
    }

    /// Estimates along random orders.
    fn explain_by_permutations(
        &self,
        orders: usize,
        rows: &Table,
        contexts: &[Background],
    ) -> Result<Explanation> {
        let allowed = "random orders estimate Shapley values of items without covariances, in games with a \
                       background whose rows are drawn: leave them out";
        let refused = || Error::parameter("permutations", orders, allowed);
        if self.question.index != ValueIndex::Shapley || self.question.covariance {
            return Err(refused());
        }
        let (model, sides) = (self.model, self.sides);
        let columns = model.columns();
        let items = |own: &Background| ReferenceRows::new(own, &sides.items(columns));
        let (pool, name) = match &self.question.game {
            Some(DuelGame::Independent(own)) => {
                (ReplacementPool::Apart(items(own)?), "two of the background's items")
            }
            Some(DuelGame::Paired(own)) => {
                (ReplacementPool::Same(items(own)?), "one of the background's items")
            }
            Some(DuelGame::Baseline(item)) => (
                ReplacementPool::Same(items(&crate::game::baseline_row(item)?.into())?),
                "the reference item",
            ),
            Some(DuelGame::Matches(duels)) => {
                let own = ReferenceRows::new(&duels.clone().into(), columns)?;
                (ReplacementPool::Met(own), "the items of a duel of the background")
            }
            _ => return Err(refused()),
        };
        let contexts = contexts.first().map(|own| {
            let columns: Vec<Column> = sides.contexts.iter().map(|&j| columns[j].clone()).collect();
            ReferenceRows::new(own, &columns)
        });
        let replacements = ReplacementSource { pool, contexts: contexts.transpose()?, sides };
        let groups = self.groups()?;
        let playing: Vec<usize> =
            (0..groups.players().len()).filter(|&p| !self.is_fixed(&groups.players()[p].columns)).collect();
        let (parts, watch) = (sides.parts(model)?, RunControl { stop: self.stop, progress: self.progress });
        let found =
            estimate(&parts, &groups, &playing, rows, &replacements, (orders, self.question.seed), watch)?;
        let (n, m) = (rows.rows(), model.outputs());
        let sampling = Some(Sampling { evaluations: found.evaluations, seed: self.question.seed });
        let version = Fact::new("riesz", env!("CARGO_PKG_VERSION"));
        Ok(Explanation {
            index: self.question.index,
            players: groups.players().to_vec(),
            subsets: None,
            output_names: model.output_names.clone(),
            values: found.values,
            base_values: vec![0.0; n * m],
            predictions: found.predictions,
            data: rows.clone(),
            row_numbers: (0..n).collect(),
            exactness: Exactness::Estimated { std_error: found.std_error, sampling },
            uncertainty: None,
            duels: None,
            provenance: Provenance {
                game: Game::NAMES[2].into(),
                absent: format!(
                    "absent features of the two items are those of {name}, drawn for each of {orders} \
                     random orders"
                ),
                model: model.facts(),
                run: vec![version],
            },
        })
    }

    /// Pairs of items as rows of the columns of both.
    fn pairs(
        &self,
        items: &Table,
        pairs: &[(usize, usize)],
        weights: Option<Vec<f64>>,
    ) -> Result<Background> {
        let items = items.align_to(&self.sides.items(self.model.columns()))?;
        let mut rows = vec![vec![0.0; self.model.support_points.width()]; pairs.len()];
        for (row, &(l, r)) in rows.iter_mut().zip(pairs) {
            for (k, (&left, &right)) in self.sides.left.iter().zip(&self.sides.right).enumerate() {
                (row[left], row[right]) = (items.get(l, k), items.get(r, k));
            }
        }
        self.pair_table(&rows, weights)
    }

    /// Rows of the model's columns without contexts.
    fn pair_table(&self, rows: &[Vec<f64>], weights: Option<Vec<f64>>) -> Result<Background> {
        let kept: Vec<usize> =
            (0..self.model.support_points.width()).filter(|j| !self.sides.contexts.contains(j)).collect();
        let columns = kept.iter().map(|&j| self.model.columns()[j].clone()).collect();
        let values = kept.iter().flat_map(|&j| rows.iter().map(move |row| row[j])).collect();
        Ok(Background { rows: Table::from_column_major(columns, rows.len(), values)?, weights })
    }

    /// Items as rows of one side's columns.
    fn side(&self, items: &Background, side: &[usize]) -> Result<Background> {
        let own = items.rows.align_to(&self.sides.items(self.model.columns()))?;
        let columns = side.iter().map(|&j| self.model.columns()[j].clone()).collect();
        let rows = Table::from_column_major(columns, own.rows(), own.column_major().to_vec())?;
        Ok(Background { rows, weights: items.weights.clone() })
    }

    /// Contexts in the model's columns.
    fn context_part(&self, contexts: &Background) -> Result<Background> {
        let columns: Vec<Column> =
            self.sides.contexts.iter().map(|&j| self.model.columns()[j].clone()).collect();
        if columns.is_empty() {
            let allowed = "the model of duels was fitted without contexts";
            return Err(Error::parameter("contexts", contexts.rows.rows(), allowed));
        }
        Ok(Background { rows: contexts.rows.align_to(&columns)?, weights: contexts.weights.clone() })
    }
}

/// How sure it is that an item is the better one, where the log odds that it wins have this posterior mean
/// and standard deviation: the probability that they are positive. Not that it wins the next duel; ½ for two
/// alike.
pub fn superiority_over_field(mean: f64, sd: f64) -> f64 {
    crate::explanation::normal::positive(mean, sd)
}

/// Explanations of some of `rows` each, as one.
fn concat(parts: Vec<(&Vec<usize>, Explanation)>, rows: &Table) -> Result<Explanation> {
    let mut order: Vec<usize> = parts.iter().flat_map(|(own, _)| own.iter().copied()).collect();
    let mut all: Option<Explanation> = None;
    for (_, part) in parts {
        match &mut all {
            None => all = Some(part),
            Some(all) => all.concat_rows(part)?,
        }
    }
    let all =
        all.ok_or_else(|| Error::TooFew { what: "the table of duels".into(), needed: 1, unit: "row is" })?;
    // Back into the order of the rows.
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &row)| place[row] = at);
    order = place;
    let mut sorted = all.select_rows(&order);
    (sorted.data, sorted.row_numbers) = (rows.clone(), (0..rows.rows()).collect());
    Ok(sorted)
}

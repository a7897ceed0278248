//! Explanations: values, their sum, their exactness, and their provenance. All tables, plots and pages are
//! made from an [`Explanation`].

mod average;
mod duels;
mod mixture;
pub mod normal;
mod top;
mod uncertainty;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::index::ValueIndex;
use crate::linalg::max_abs;
use crate::model_card::CardEntry;
use crate::table::{Player, Table};

pub use crate::posterior::UncertaintySource;
pub use duels::{Duel, WinProbability};
pub(crate) use top::check as check_top;
pub use top::{Pair, Strongest, TopInteractions};
pub use uncertainty::{ConditioningPart, Dispersion, Proportion, Uncertainty};

/// The error of the values with respect to the game's true values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exactness {
    /// Exact up to rounding.
    Exact {
        /// Proved bounds, rows × outputs, on the error of each value and on the
        /// [residual](Explanation::residuals). They cover quadrature and rounding, including that of the
        /// kernel factors, for any distance between rows and any cancellation.
        #[serde(rename = "error_bound")]
        bound: Vec<f64>,
    },
    /// Estimated from samples.
    Estimated {
        /// Standard error of each value, in the layout of [`Explanation::values`]. The value ± 1.96 standard
        /// errors covers the true value in about 95 % of samples or more. Standard errors allow for few draws
        /// by Student's quantile, and for extreme draws that may have been missed.
        std_error: Vec<f64>,
        /// The sampling; `None` if the values come from a table that does not state it.
        #[serde(flatten)]
        sampling: Option<Sampling>,
    },
    /// No bound is known: the values come from a file that states none, or are exact up to rounding errors
    /// without a bound.
    Unknown,
}

impl Exactness {
    /// Replaces the bounds (rows × outputs) or the standard errors (one per value).
    fn map(&self, bounds: impl FnOnce(&[f64]) -> Vec<f64>, errors: impl FnOnce(&[f64]) -> Vec<f64>) -> Self {
        match self {
            Self::Exact { bound } => Self::Exact { bound: bounds(bound) },
            Self::Estimated { std_error, sampling } => {
                Self::Estimated { std_error: errors(std_error), sampling: *sampling }
            }
            Self::Unknown => Self::Unknown,
        }
    }
}

/// The sampling of estimated values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Number of evaluations of the game: rows passed to a prediction function, or coalitions evaluated for
    /// all rows together.
    pub evaluations: usize,
    /// Seed of the sampler.
    pub seed: u64,
}

/// Provenance of an explanation: its game, model and run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Provenance {
    /// The game's name, for example `interventional`.
    pub game: String,
    /// Meaning of an absent feature in this game, as a sentence.
    pub absent: String,
    /// The model card: kind, kernel, number of support points, settings of the fit.
    pub model: Vec<CardEntry>,
    /// Inputs (files, background), seed, version.
    pub run: Vec<CardEntry>,
}

impl Provenance {
    /// The provenance of a run of this version, with further entries about the run.
    pub(crate) fn of_run(
        game: &str,
        absent: String,
        model: Vec<CardEntry>,
        run: impl IntoIterator<Item = CardEntry>,
    ) -> Self {
        let version = CardEntry::new("riesz", env!("CARGO_PKG_VERSION"));
        Self { game: game.into(), absent, model, run: std::iter::once(version).chain(run).collect() }
    }
}

/// Names of the games that divide the variance of a model's output (Shapley effects) and the reduction of its
/// loss (SAGE values).
pub(crate) const VARIANCE_GAME: &str = "variance";
pub(crate) const LOSS_GAME: &str = "sage";

/// Values of `n` rows, `m` outputs and `s` sets of players. Every player alone is a set, unless
/// [`subsets`](Self::subsets) lists other sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The value index, for example the Shapley value.
    #[serde(default)]
    pub index: ValueIndex,
    /// The players of the game: features, or groups of them.
    #[serde(rename = "features")]
    pub players: Vec<Player>,
    /// The sets of players that have values, each in ascending order; `None` if the sets are the single
    /// players in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsets: Option<Vec<Vec<usize>>>,
    /// Names of the model's outputs.
    pub output_names: Vec<String>,
    /// Values, rows × outputs × sets: set `k` of output `o` in row `i` is `values[(i * m + o) * s + k]`.
    pub values: Vec<f64>,
    /// The game's value with all players absent, rows × outputs.
    pub base_values: Vec<f64>,
    /// The model's prediction, rows × outputs.
    pub predictions: Vec<f64>,
    /// The explained rows in the user's units.
    pub data: Table,
    /// The number of each explained row in its source, from 0.
    pub row_numbers: Vec<usize>,
    /// Exactness of the values, with error bounds or standard errors.
    pub exactness: Exactness,
    /// The posterior uncertainty of values; `None` where it is not stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<Uncertainty>,
    /// The duel of each row; `None` if rows are not duels, or their items have no names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duels: Option<Vec<Duel>>,
    /// Model card and run.
    pub provenance: Provenance,
}

impl Explanation {
    /// Shapley values of all rows of `data` before numbers and provenance are set.
    pub fn of_rows(players: &[Player], output_names: &[String], data: Table) -> Self {
        Self {
            index: ValueIndex::Shapley,
            players: players.to_vec(),
            subsets: None,
            output_names: output_names.to_vec(),
            values: Vec::new(),
            base_values: Vec::new(),
            predictions: Vec::new(),
            row_numbers: (0..data.rows()).collect(),
            data,
            exactness: Exactness::Unknown,
            uncertainty: None,
            duels: None,
            provenance: Provenance::default(),
        }
    }

    /// Number of explained rows.
    pub fn rows(&self) -> usize {
        self.data.rows()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.output_names.len()
    }

    /// Number of sets that have values.
    pub fn sets(&self) -> usize {
        self.subsets.as_ref().map_or(self.players.len(), Vec::len)
    }

    /// The players of set `k`.
    pub fn members(&self, k: usize) -> impl Iterator<Item = &Player> {
        let single = self.subsets.is_none().then_some(k);
        let listed = self.subsets.iter().flat_map(move |sets| &sets[k]).copied();
        single.into_iter().chain(listed).map(|j| &self.players[j])
    }

    /// The name of set `k`: its player, or its players joined by ×.
    pub fn set_name(&self, k: usize) -> String {
        self.members(k).map(|player| player.name.as_str()).collect::<Vec<_>>().join(" × ")
    }

    /// The columns of the players of set `k`.
    pub fn set_columns(&self, k: usize) -> Vec<usize> {
        self.members(k).flat_map(|player| &player.columns).copied().collect()
    }

    /// The values of row `i`, output `o`, one per set.
    pub fn row_values(&self, i: usize, o: usize) -> &[f64] {
        let s = self.sets();
        let start = (i * self.outputs() + o) * s;
        &self.values[start..start + s]
    }

    /// Mean of |value| over rows for each set, the usual measure of global importance; zeros if there are no
    /// rows.
    pub fn mean_abs(&self, output: usize) -> Vec<f64> {
        let mut mean = vec![0.0; self.sets()];
        for i in 0..self.rows() {
            for (m, v) in mean.iter_mut().zip(self.row_values(i, output)) {
                *m += v.abs() / self.rows() as f64;
            }
        }
        mean
    }

    /// Sets from the most to the least important by [`mean_abs`](Self::mean_abs); ties keep their order.
    pub fn ranking(&self, output: usize) -> Vec<usize> {
        let mean = self.mean_abs(output);
        let mut order: Vec<usize> = (0..mean.len()).collect();
        order.sort_by(|&a, &b| mean[b].total_cmp(&mean[a]));
        order
    }

    /// Residuals `prediction - base_value - sum of values` per row and output (rows × outputs). The
    /// prediction is computed independently of the values, so the residual checks them. If some sets have no
    /// values, the residual includes the sum of the missing values.
    pub fn residuals(&self) -> Vec<f64> {
        let m = self.outputs();
        // A fixed order of summation gives the same bits for any order of the sets.
        let order = self.subsets.as_ref().map(|sets| {
            let mut order: Vec<usize> = (0..sets.len()).collect();
            order.sort_by_key(|&k| &sets[k]);
            order
        });
        let sum = |values: &[f64]| match &order {
            None => values.iter().sum::<f64>(),
            Some(order) => order.iter().map(|&k| values[k]).sum(),
        };
        (0..self.rows() * m)
            .map(|g| self.predictions[g] - self.base_values[g] - sum(self.row_values(g / m, g % m)))
            .collect()
    }

    /// Name of the values in reports: the name of the index, or of the quantity that the values divide if
    /// this is the variance or the loss.
    pub fn value_name(&self) -> String {
        match (self.provenance.game.as_str(), self.index) {
            (VARIANCE_GAME, ValueIndex::Shapley) => "Shapley effect".into(),
            (VARIANCE_GAME, index) => format!("{} of the variance", index.name()),
            (LOSS_GAME, _) => "SAGE value".into(),
            (_, index) => index.name(),
        }
    }

    /// Whether all sets of the index have a value. The values of an efficient index then sum to the
    /// prediction minus the base value.
    pub fn is_complete(&self) -> bool {
        let Some(sets) = &self.subsets else { return self.index.order() == 1 };
        let (set_count, order) = (self.index.sets(self.players.len()), self.index.order());
        let distinct: HashSet<&Vec<usize>> = sets.iter().collect();
        set_count == Some(sets.len())
            && set_count == Some(distinct.len())
            && sets.iter().all(|set| set.len() <= order)
    }

    /// Certificate of the explanation: the largest |residual|, the largest bound, and whether every residual
    /// is within its own bound. `None` unless the values are exact with bounds, complete, and of an efficient
    /// index.
    pub fn certificate(&self) -> Option<Certificate> {
        let Exactness::Exact { bound } = &self.exactness else { return None };
        if !(self.index.is_efficient() && self.is_complete()) {
            return None;
        }
        let residuals = self.residuals();
        Some(Certificate {
            residual: max_abs(&residuals),
            bound: bound.iter().fold(0.0, |m, &b| b.max(m)),
            // Written so that NaN fails.
            holds: residuals.iter().zip(bound).all(|(r, b)| r.abs() <= *b),
        })
    }

    /// Appends the rows of `other`, an explanation of further rows by the same explainer.
    ///
    /// # Errors
    /// [`Error::Format`] if the two explanations are incompatible.
    pub fn concat_rows(&mut self, other: Self) -> Result<()> {
        let is_compatible = self.is_compatible(&other)
            && self.output_names == other.output_names
            && self.data.columns() == other.data.columns();
        match (&mut self.exactness, other.exactness) {
            (Exactness::Exact { bound }, Exactness::Exact { bound: more }) if is_compatible => {
                bound.extend(more)
            }
            (
                Exactness::Estimated { std_error, sampling: Some(sampling) },
                Exactness::Estimated { std_error: errors, sampling: Some(more) },
            ) if is_compatible && sampling.seed == more.seed => {
                std_error.extend(errors);
                sampling.evaluations += more.evaluations;
            }
            _ => {
                return Err(Error::format(
                    "only explanations by the same explainer can be joined, both exact or both estimated",
                ));
            }
        }
        self.data = self.data.stack(&other.data)?;
        if let (Some(uncertainty), Some(new_uncertainty)) = (&mut self.uncertainty, other.uncertainty) {
            uncertainty.append(new_uncertainty);
        }
        if let (Some(duels), Some(new_duels)) = (&mut self.duels, other.duels) {
            duels.extend(new_duels);
        }
        self.row_numbers.extend(other.row_numbers);
        self.values.extend(other.values);
        self.base_values.extend(other.base_values);
        self.predictions.extend(other.predictions);
        Ok(())
    }

    /// Appends the outputs of `other`, an explanation of the same rows, players and game, for example of
    /// another model. The model card of `other` is appended as well.
    ///
    /// # Errors
    /// [`Error::Format`] if the two explanations are incompatible.
    pub fn concat_outputs(&mut self, other: Self) -> Result<()> {
        let is_compatible =
            self.is_compatible(&other) && self.row_numbers == other.row_numbers && self.data == other.data;
        let (m, k, s) = (self.outputs(), other.outputs(), self.sets());
        match (&mut self.exactness, other.exactness) {
            (Exactness::Exact { bound }, Exactness::Exact { bound: b }) if is_compatible => {
                *bound = interleave(bound, m, &b, k);
            }
            _ => {
                return Err(Error::format(
                    "only exact explanations of the same rows, features and game can be combined",
                ));
            }
        }
        if let (Some(uncertainty), Some(other_uncertainty)) = (&mut self.uncertainty, &other.uncertainty) {
            uncertainty.concat_outputs(m, other_uncertainty, k, s);
        }
        self.values = interleave(&self.values, m * s, &other.values, k * s);
        self.base_values = interleave(&self.base_values, m, &other.base_values, k);
        self.predictions = interleave(&self.predictions, m, &other.predictions, k);
        self.output_names.extend(other.output_names);
        self.provenance.model.extend(other.provenance.model);
        Ok(())
    }

    /// Whether both explanations have the same index, sets, game and kind of uncertainty, and both or neither
    /// name duels.
    fn is_compatible(&self, other: &Self) -> bool {
        self.index == other.index
            && self.players == other.players
            && self.subsets == other.subsets
            && self.provenance.game == other.provenance.game
            && self.duels.is_some() == other.duels.is_some()
            && match (&self.uncertainty, &other.uncertainty) {
                (Some(uncertainty), Some(other_uncertainty)) => uncertainty.is_like(other_uncertainty),
                (uncertainty, other_uncertainty) => uncertainty.is_none() && other_uncertainty.is_none(),
            }
    }

    /// The rows with the given indices, in that order.
    pub fn select_rows(&self, indices: &[usize]) -> Self {
        let indices_up_to = |count: usize| (0..count).collect::<Vec<usize>>();
        self.select(indices, &indices_up_to(self.sets()), &indices_up_to(self.outputs()))
    }

    /// The explanation of a selection of rows, sets and outputs, in the order of these indices, which may
    /// repeat.
    pub fn select(&self, rows: &[usize], sets: &[usize], outputs: &[usize]) -> Self {
        let games: Vec<usize> =
            rows.iter().flat_map(|i| outputs.iter().map(move |o| i * self.outputs() + o)).collect();
        let pick = |list: &[f64], width: usize, indices: &[usize]| -> Vec<f64> {
            games.iter().flat_map(|game| indices.iter().map(move |k| list[game * width + k])).collect()
        };
        let cube = |list: &[f64]| pick(list, self.sets(), sets);
        let pair = |list: &[f64]| pick(list, 1, &[0]);
        let set_members = |&k: &usize| self.subsets.as_ref().map_or_else(|| vec![k], |sets| sets[k].clone());
        let subsets: Vec<Vec<usize>> = sets.iter().map(set_members).collect();
        let only_players =
            subsets.len() == self.players.len() && subsets.iter().enumerate().all(|(k, s)| s == &[k]);
        Self {
            index: self.index,
            players: self.players.clone(),
            subsets: (!only_players).then_some(subsets),
            output_names: outputs.iter().map(|&o| self.output_names[o].clone()).collect(),
            values: cube(&self.values),
            base_values: pair(&self.base_values),
            predictions: pair(&self.predictions),
            data: self.data.select_rows(rows),
            row_numbers: rows.iter().map(|&i| self.row_numbers[i]).collect(),
            exactness: self.exactness.map(pair, cube),
            uncertainty: self.uncertainty.as_ref().map(|u| u.select(&games, sets, self.sets())),
            duels: self.duels.as_ref().map(|duels| rows.iter().map(|&i| duels[i].clone()).collect()),
            provenance: self.provenance.clone(),
        }
    }

    /// Checks that all parts have matching sizes, and that numbers are finite.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Format`].
    pub fn validate(&self) -> Result<()> {
        let (n, m, p, s) = (self.rows(), self.outputs(), self.players.len(), self.sets());
        let broken = |problem: String| Err(Error::format(problem));
        let check = |name: &str, list: &[f64], expected: usize| {
            if !list.iter().all(|v| v.is_finite()) {
                return broken("the explanation holds numbers that are not finite".into());
            }
            if list.len() == expected {
                return Ok(());
            }
            Err(Error::shape(
                format!("the explanation's {name}"),
                "numbers",
                expected,
                list.len(),
                format!("{n} rows, {m} outputs, {s} sets of features"),
            ))
        };
        // A file may state any number of rows, so the products saturate.
        let games = n.saturating_mul(m);
        let value_count = games.saturating_mul(s);
        check("values", &self.values, value_count)?;
        check("base values", &self.base_values, games)?;
        check("predictions", &self.predictions, games)?;
        let errors = match &self.exactness {
            Exactness::Exact { bound } => check("bounds", bound, games).map(|()| &bound[..])?,
            Exactness::Estimated { std_error, .. } => {
                check("standard errors", std_error, value_count).map(|()| &std_error[..])?
            }
            Exactness::Unknown => &[],
        };
        if errors.iter().any(|e| *e < 0.0) {
            return broken("the explanation has a bound or standard error below 0".into());
        }
        self.uncertainty.iter().try_for_each(|u| u.validate(games, s))?;
        self.duels.iter().try_for_each(|duels| duels::validate(duels, n))?;
        if self.row_numbers.len() != n {
            return broken(format!(
                "the explanation has {} row numbers and {n} rows",
                self.row_numbers.len()
            ));
        }
        // Files and numpy store row numbers as signed 64-bit integers.
        if let Some(row) = self.row_numbers.iter().find(|row| i64::try_from(**row).is_err()) {
            return broken(format!("the explanation has a row number {row}: rows are numbered below 2^63"));
        }
        for player in &self.players {
            if player.columns.iter().any(|&j| j >= self.data.width()) {
                return broken(format!(
                    "feature '{}' refers to a column that is not in the data",
                    player.name
                ));
            }
        }
        self.index.validate()?;
        if let Some(set) = self.subsets.iter().flatten().find(|set| set.len() > self.index.order()) {
            return broken(format!("{set:?} has no {}", self.index.name()));
        }
        let fits = |set: &Vec<usize>| {
            !set.is_empty() && set.windows(2).all(|w| w[0] < w[1]) && set.iter().all(|&j| j < p)
        };
        match self.subsets.iter().flatten().find(|set| !fits(set)) {
            Some(set) => broken(format!("{set:?} is not an ascending set of the explanation's {p} features")),
            None => Ok(()),
        }
    }
}

/// Interleaves blocks of `m` numbers of `a` with blocks of `k` numbers of `b`.
fn interleave(a: &[f64], m: usize, b: &[f64], k: usize) -> Vec<f64> {
    a.chunks(m.max(1)).zip(b.chunks(k.max(1))).flat_map(|(a, b)| a.iter().chain(b)).copied().collect()
}

/// Certificate of a whole exact explanation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Certificate {
    /// The largest |residual|.
    pub residual: f64,
    /// The largest proved bound.
    pub bound: f64,
    /// Whether every residual is within its bound.
    pub holds: bool,
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::{Column, Players};

    /// Any consistent explanation: numbers of all sizes, which need not add up, and names of all kinds.
    pub(crate) fn any_explanation() -> impl Strategy<Value = Explanation> {
        let number = prop_oneof![any::<f64>().prop_filter("finite", |v| v.is_finite()), -3.0..3.0];
        let sizes = (1_usize..4, 1_usize..4, 1_usize..5, 0..3, 0..3);
        let numbers = prop::collection::vec(number, 4 * 4 * 5 * 3);
        (sizes, numbers, "[a-z :\"<,×]{0,9}", any::<(u32, u64)>()).prop_map(
            |((n, m, p, kind, how_sure), numbers, name, (row, seed))| {
                let mut number_source = numbers.iter().cycle().copied();
                let mut take = |count: usize| number_source.by_ref().take(count).collect::<Vec<f64>>();
                let sizes = |list: Vec<f64>| list.into_iter().map(f64::abs).collect();
                let columns: Vec<Column> = (0..p).map(|j| Column::numeric(format!("{j}{name}{j}"))).collect();
                let sampling = Some(Sampling { evaluations: row as usize, seed });
                Explanation {
                    index: ValueIndex::Shapley,
                    players: Players::singletons(&columns).players().to_vec(),
                    subsets: None,
                    output_names: (0..m).map(|o| format!("{name}{o}")).collect(),
                    values: take(n * m * p),
                    base_values: take(n * m),
                    predictions: take(n * m),
                    data: Table::from_column_major(columns, n, take(n * p)).unwrap(),
                    row_numbers: (0..n).map(|i| row as usize + 7 * i).collect(),
                    exactness: match kind {
                        0 => Exactness::Exact { bound: sizes(take(n * m)) },
                        1 => Exactness::Estimated { std_error: sizes(take(n * m * p)), sampling },
                        _ => Exactness::Unknown,
                    },
                    uncertainty: match how_sure {
                        0 => None,
                        1 => Some(Uncertainty {
                            dispersion: Dispersion::Sd(sizes(take(n * m * p))),
                            source: Some(UncertaintySource::Bootstrap { draws: row as usize, seed }),
                            conditioning: None,
                        }),
                        _ => {
                            let numbers = sizes(take(n * m * p));
                            let bounded_entry =
                                |v: usize, l: usize| numbers[v - v % p + l].min(numbers[v]) / 2.0;
                            let covariance =
                                (0..n * m * p * p).map(|c| bounded_entry(c / p, c % p)).collect();
                            Some(Uncertainty {
                                dispersion: Dispersion::Covariance(covariance),
                                source: Some(UncertaintySource::Posterior),
                                conditioning: None,
                            })
                        }
                    },
                    duels: (kind == 1).then(|| {
                        let win_probability = (how_sure == 1).then_some(WinProbability {
                            probability: 0.1,
                            interval: [0.0, 1.0],
                            tie: None,
                            probability_better: 1.0 / 3.0,
                        });
                        let duel =
                            |i| Duel { left: format!("{i}{name}"), right: name.clone(), win_probability };
                        (0..n).map(duel).collect()
                    }),
                    provenance: Provenance {
                        game: name,
                        run: vec![CardEntry::new("a", 1)],
                        ..Default::default()
                    },
                }
            },
        )
    }

    /// Two rows, two outputs and three players, whose values add up.
    pub(crate) fn example() -> Explanation {
        let data = Table::from_rows(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).unwrap();
        let values: Vec<f64> = (0..12).map(|k| 1.0 / f64::from(k + 3)).collect();
        let predictions = values.chunks(3).map(|v| 0.7 + v.iter().sum::<f64>()).collect();
        Explanation {
            values,
            base_values: vec![0.7; 4],
            predictions,
            exactness: Exactness::Exact { bound: vec![1e-15; 4] },
            ..Explanation::of_rows(
                Players::singletons(data.columns()).players(),
                &["a".into(), "b".into()],
                data,
            )
        }
    }

    #[test]
    fn the_check_of_identity_can_fail() {
        let good = example();
        assert!(good.certificate().is_some_and(|c| c.holds && c.residual <= 1e-15 && c.bound == 1e-15));
        for part in 0..3 {
            for wrong in [1e-9, f64::NAN, f64::INFINITY] {
                let mut bad = good.clone();
                [&mut bad.values, &mut bad.base_values, &mut bad.predictions][part][3] += wrong;
                assert!(bad.certificate().is_some_and(|c| !c.holds), "{part} {wrong}");
            }
        }
        let unstated = Explanation { exactness: Exactness::Unknown, ..good };
        assert_eq!(unstated.certificate(), None);
    }

    #[test]
    fn selections_state_whether_they_are_complete() {
        let explanation = example();
        let permuted = explanation.select(&[1, 0], &[2, 0, 1], &[1]);
        assert!(permuted.is_complete() && permuted.validate().is_ok() && permuted.row_numbers == [1, 0]);
        assert_eq!(
            permuted.row_values(0, 0),
            [explanation.values[11], explanation.values[9], explanation.values[10]]
        );
        assert_eq!((permuted.set_name(0), permuted.set_columns(2)), ("x2".into(), vec![1]));
        // The same bits in another order.
        assert_eq!(permuted.residuals(), [explanation.residuals()[3], explanation.residuals()[1]]);
        assert_eq!(permuted.select(&[1, 0], &[1, 2, 0], &[0]), explanation.select(&[0, 1], &[0, 1, 2], &[1]));
        let [a, b, c] = [1.0 / 3.0, 1.0 / 4.0, 1.0 / 5.0];
        for (sets, left) in [(&[0, 1][..], c), (&[0, 0, 1], c - a), (&[], a + b + c)] {
            let subset = explanation.select(&[0], sets, &[0]);
            assert!(!subset.is_complete() && subset.certificate().is_none() && subset.validate().is_ok());
            assert!((subset.residuals()[0] - left).abs() < 1e-15, "{sets:?}");
        }
        let mut pairs = explanation.select(&[0], &[0, 1], &[0]);
        pairs.subsets = Some(vec![vec![0], vec![0, 2]]);
        assert_eq!((pairs.set_name(1), pairs.set_columns(1)), ("x0 × x2".into(), vec![0, 2]));
        assert!(pairs.validate().is_err(), "pairs have no Shapley value");
        pairs.index = "k-sii".parse().unwrap();
        assert!(pairs.validate().is_ok() && !pairs.is_complete());
        for wrong in [vec![], vec![3], vec![1, 1], vec![2, 0]] {
            pairs.subsets = Some(vec![vec![0], wrong]);
            assert!(pairs.validate().is_err());
        }
    }

    #[test]
    fn rows_and_outputs_are_put_together() {
        let explanation = example();
        let mut rows = explanation.select_rows(&[0]);
        rows.concat_rows(explanation.select_rows(&[1])).unwrap();
        assert_eq!(rows, explanation);
        let output = |o| explanation.select(&[0, 1], &[0, 1, 2], &[o]);
        let mut outputs = output(0);
        outputs.concat_outputs(output(1)).unwrap();
        assert_eq!(outputs, explanation);
        assert!(
            rows.concat_rows(output(1)).is_err()
                && outputs.concat_outputs(explanation.select_rows(&[1, 0])).is_err()
        );
    }

    /// The [`example`] with covariances of rank 2, with different scales for its outputs.
    fn uncertain_example() -> Explanation {
        let factors = [[1.0, 0.2], [0.5, -0.4], [1.5, -0.2_f64]];
        let entry = |j: usize, l: usize| factors[j][0] * factors[l][0] + factors[j][1] * factors[l][1];
        let game_covariance =
            |game: usize| (0..9).map(move |c| 0.01 * f64::from(game as u32 + 1) * entry(c / 3, c % 3));
        let covariances = (0..4).flat_map(game_covariance).collect();
        let uncertainty = Uncertainty {
            dispersion: Dispersion::Covariance(covariances),
            source: Some(UncertaintySource::Posterior),
            conditioning: None,
        };
        Explanation { uncertainty: Some(uncertainty), ..example() }
    }

    #[test]
    fn covariances_are_selected_with_their_values() {
        let explanation = uncertain_example();
        explanation.validate().unwrap();
        let permuted = explanation.select(&[1, 0], &[2, 0], &[1]);
        permuted.validate().unwrap();
        let covariance = explanation.covariance(1, 1).unwrap();
        assert_eq!(
            permuted.covariance(0, 0).unwrap(),
            [covariance[8], covariance[6], covariance[2], covariance[0]]
        );
        let mut rows = explanation.select_rows(&[0]);
        rows.concat_rows(explanation.select_rows(&[1])).unwrap();
        assert_eq!(rows, explanation);
        let output = |e: &Explanation, o| e.select(&[0, 1], &[0, 1, 2], &[o]);
        let mut outputs = output(&explanation, 0);
        outputs.concat_outputs(output(&explanation, 1)).unwrap();
        assert_eq!(outputs, explanation);
        // Explanations with and without uncertainty cannot be joined, and a failed call changes nothing.
        assert!(
            outputs.concat_outputs(output(&example(), 1)).is_err() && rows.concat_rows(example()).is_err()
        );
        assert!(outputs == explanation && rows == explanation);
        let deviations = Uncertainty {
            dispersion: Dispersion::Sd(explanation.sd().unwrap()),
            source: Some(UncertaintySource::Posterior),
            conditioning: None,
        };
        let sd_only = Explanation { uncertainty: Some(deviations), ..explanation.clone() };
        sd_only.validate().unwrap();
        assert_eq!(
            sd_only.select(&[1], &[2, 1], &[0, 1]).sd(),
            explanation.select(&[1], &[2, 1], &[0, 1]).sd()
        );
        assert!(rows.concat_rows(sd_only.clone()).is_err() && sd_only.draws((0, 0), 3, 0).is_err());
        assert_eq!(
            (sd_only.sd_of_sum(0, 0, &[0, 1]), explanation.sd_of_sum(0, 0, &[1])),
            (None, Some(explanation.sd().unwrap()[1]))
        );
    }

    /// Closed forms agree with shares of draws, and draws agree with the covariance.
    #[test]
    fn probabilities_are_shares_of_draws() {
        let explanation = uncertain_example();
        let (count, game) = (200_000, (1, 1));
        let draws = explanation.draws(game, count, 3).unwrap();
        assert_eq!(draws, explanation.draws(game, count, 3).unwrap());
        let share =
            |holds: &dyn Fn(usize) -> bool| (0..count).filter(|&d| holds(d)).count() as f64 / count as f64;
        let close = |p: f64, q: f64| assert!((p - q).abs() < 4.5 * (0.25 / count as f64).sqrt(), "{p} {q}");
        let (mean, covariance) = (explanation.row_values(1, 1), explanation.covariance(1, 1).unwrap());
        let sd: Vec<f64> = (0..3).map(|j| covariance[j * 4].sqrt()).collect();
        for (a, b) in [(0, 1), (1, 0), (0, 2), (2, 1)] {
            let dot = (0..count).map(|d| (draws[(a, d)] - mean[a]) * (draws[(b, d)] - mean[b])).sum::<f64>();
            let sample_covariance = dot / count as f64;
            assert!(
                (sample_covariance - covariance[a * 3 + b]).abs()
                    < 7.0 * sd[a] * sd[b] / (count as f64).sqrt()
            );
            close(
                explanation.probability_greater(game, a, b).unwrap(),
                share(&|d| draws[(a, d)] > draws[(b, d)]),
            );
            let stronger = explanation.probability_larger_magnitude(game, a, b).unwrap();
            close(stronger, share(&|d| draws[(a, d)].abs() > draws[(b, d)].abs()));
            let other = explanation.probability_larger_magnitude(game, b, a).unwrap();
            assert!((stronger + other - 1.0).abs() < 1e-14);
        }
        // One of three is the top one: it is stronger than both others.
        let first = (0..3).max_by(|&a, &b| mean[a].abs().total_cmp(&mean[b].abs())).unwrap();
        let top = explanation.probability_of_top(game, 1, 20_000, 5).unwrap();
        let truth = share(&|d| (0..3).all(|j| draws[(j, d)].abs() <= draws[(first, d)].abs()));
        assert!(
            (top.value - truth).abs() < 4.5 * top.std_error && (0.1..0.9).contains(&truth),
            "{top:?} {truth}"
        );
        let all_sets = explanation.probability_of_top(game, 3, 100, 5).unwrap();
        assert!(all_sets.value == 1.0 && all_sets.std_error > 0.01);
        for (j, [low, high]) in explanation.interval(0.9).unwrap()[9..12].iter().enumerate() {
            close(0.9, share(&|d| (*low..*high).contains(&draws[(j, d)])));
        }
        let sum: f64 = covariance.iter().sum();
        assert!((explanation.sd_of_sum(1, 1, &[0, 1, 2]).unwrap() - sum.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn questions_without_uncertainty_are_refused() {
        let (none, uncertain) = (example(), uncertain_example());
        assert!(none.interval(0.9).unwrap_err().to_string().contains("Gaussian process"));
        assert!(none.probability_greater((0, 0), 0, 1).is_err() && none.sd().is_none());
        assert!(uncertain.interval(95.0).unwrap_err().to_string().contains("between 0 and 1"));
        assert!(
            uncertain.probability_of_top((0, 0), 4, 9, 0).is_err()
                && uncertain.probability_of_top((0, 0), 1, 0, 0).is_err()
        );
        // Values without variance compare like numbers.
        let mut certain = uncertain;
        if let Some(Uncertainty { dispersion: Dispersion::Covariance(covariances), .. }) =
            &mut certain.uncertainty
        {
            covariances.fill(0.0);
        }
        assert_eq!(certain.probability_larger_magnitude((0, 0), 0, 1).unwrap(), 1.0);
        assert_eq!(certain.draws((0, 0), 2, 0).unwrap().column(1), certain.row_values(0, 0));
    }

    #[test]
    fn row_numbers_are_those_of_files() {
        let mut explanation = example();
        explanation.row_numbers[1] = (1 << 63) - 1;
        assert!(explanation.validate().is_ok());
        explanation.row_numbers[1] += 1;
        assert!(explanation.validate().unwrap_err().to_string().contains("9223372036854775808"));
    }

    #[test]
    fn measured_numbers_are_short() {
        let text = |v: f64| CardEntry::measured("", v).value;
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (0.177_827_941, "0.1778279"),
            (-2_405.738_241, "-2405.738"),
            (77.0, "77"),
            (1e-9, "1e-9"),
            (123_456_789.0, "1.234568e8"),
            (100.0, "100"),
            (0.000_123_456_789, "0.0001234568"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(value), expected);
        }
    }
}

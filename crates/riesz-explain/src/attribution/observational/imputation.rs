//! Imputation of absent features for black-box functions: weighted rows whose mean prediction is a
//! coalition's value at a row.

use std::sync::atomic::AtomicBool;

use super::normal::{ConditionalNormal, JointNormal};
use crate::embedding::{
    ConditionalMeanEmbeddings, ConditioningRows, DirectEmbeddings, EmbeddingSolver, System,
};
use crate::error::{Error, Result};
use crate::game::{ConditionalModel, Game, ReferenceRows};
use crate::linalg::dot;
use crate::random::Random;
use crate::table::{Column, Players, Table};

/// Largest number of draws, which fit into memory with a wide margin.
const MOST_DRAWS: usize = 1_000_000;

/// Imputation of absent features in a game, prepared for a function.
pub(crate) struct Imputer {
    pub(crate) reference: ReferenceRows,
    pub(crate) groups: Players,
    /// Whether predictions are shrunk towards the mean, for weights that need not sum to 1.
    pub(crate) centered: bool,
    source: Source,
}

enum Source {
    Background,
    Normal { normal: JointNormal, draws: usize },
    Embedding(Box<DirectEmbeddings>),
}

/// Imputation for one coalition, at any row.
pub(crate) struct CoalitionImputer<'f> {
    filling: &'f Imputer,
    /// For each player, whether it is present.
    players: Vec<bool>,
    /// For each column, whether it is present.
    present: Vec<bool>,
    source: SourceGiven<'f>,
}

enum SourceGiven<'f> {
    Background,
    Normal { normal: ConditionalNormal<'f>, draws: usize },
    Embedding { means: &'f DirectEmbeddings, system: System },
}

/// A row with the data that all coalitions use.
pub(crate) struct PreparedRow {
    pub(crate) x: Vec<f64>,
    conditions: Option<ConditioningRows>,
}

/// Weighted rows that represent a coalition at a row.
pub(crate) struct ImputedRows {
    pub(crate) rows: Vec<Vec<f64>>,
    pub(crate) weights: Vec<f64>,
    /// Whether the rows are a random sample.
    pub(crate) drawn: bool,
    /// Bound on the norm of the error of the weights.
    pub(crate) error: f64,
}

impl Imputer {
    /// Fits the distribution or the embedding that the game requires to the reference.
    ///
    /// # Errors
    /// As [`Game::function_background`]; errors of the reference and of the fit.
    pub(crate) fn new(game: &Game, columns: &[Column], groups: &Players, stop: &AtomicBool) -> Result<Self> {
        let reference = ReferenceRows::new(&game.function_background()?, columns)?;
        let mut centered = false;
        let conditional = match game {
            Game::Observational { conditional, .. } => Some(conditional),
            _ => None,
        };
        let source = match conditional {
            None => Source::Background,
            Some(ConditionalModel::Gaussian { draws } | ConditionalModel::Copula { draws }) => {
                if !(2..=MOST_DRAWS).contains(draws) {
                    let allowed = format!("from 2, for a standard error, to {MOST_DRAWS}");
                    return Err(Error::parameter("n_conditional_samples", draws, allowed));
                }
                let scores = matches!(conditional, Some(ConditionalModel::Copula { .. }));
                Source::Normal { normal: JointNormal::new(&reference, columns, scores)?, draws: *draws }
            }
            Some(ConditionalModel::Embedding(conditioning)) => {
                centered = conditioning.centered;
                let (rows, weights) = (reference.table(columns)?, reference.weights.clone());
                let blocks: Vec<Vec<usize>> = groups.players().iter().map(|p| p.columns.clone()).collect();
                let (names, extra) = (("the observational game", None), |_: &_, _: &_| 0.0);
                let means = ConditionalMeanEmbeddings::learn(
                    rows,
                    weights,
                    &blocks,
                    names,
                    conditioning,
                    extra,
                    stop,
                )?;
                match means.solver {
                    EmbeddingSolver::Factored(means) => Source::Embedding(Box::new(means)),
                    EmbeddingSolver::Iterative(_) => {
                        let allowed =
                            "conjugate gradients require a model with a known kernel: use landmarks instead";
                        return Err(Error::parameter("approximation", "conjugate gradients", allowed));
                    }
                }
            }
        };
        Ok(Self { reference, groups: groups.clone(), centered, source })
    }

    /// Prepares a row for all coalitions.
    pub(crate) fn prepare_row(&self, x: Vec<f64>, stop: &AtomicBool) -> Result<PreparedRow> {
        let conditions = match &self.source {
            Source::Embedding(means) => {
                let columns = means.learnt.rows.columns().to_vec();
                Some(means.conditions(Table::from_column_major(columns, 1, x.clone())?, stop)?)
            }
            Source::Background | Source::Normal { .. } => None,
        };
        Ok(PreparedRow { x, conditions })
    }

    /// Prepares a coalition of players.
    pub(crate) fn for_coalition(&self, players: &[bool], stop: &AtomicBool) -> Result<CoalitionImputer<'_>> {
        let mut present = vec![false; self.reference.rows[0].len()];
        for (player, _) in self.groups.players().iter().zip(players).filter(|(_, on)| **on) {
            player.columns.iter().for_each(|&j| present[j] = true);
        }
        let source = match &self.source {
            Source::Background => SourceGiven::Background,
            Source::Normal { normal, draws } => {
                SourceGiven::Normal { normal: normal.condition_on(&present)?, draws: *draws }
            }
            Source::Embedding(means) => {
                let mut system = System::default();
                means.prepare(players, &mut system, stop)?;
                SourceGiven::Embedding { means, system }
            }
        };
        Ok(CoalitionImputer { filling: self, players: players.to_vec(), present, source })
    }
}

impl CoalitionImputer<'_> {
    /// The weighted rows of the coalition at a row.
    pub(crate) fn mixtures(
        &self,
        row: &PreparedRow,
        random: &mut Random,
        stop: &AtomicBool,
    ) -> Result<ImputedRows> {
        let x = &row.x;
        let reference = &self.filling.reference;
        let mix = |other: &[f64]| -> Vec<f64> {
            (0..x.len()).map(|j| if self.present[j] { x[j] } else { other[j] }).collect()
        };
        let rows = || reference.rows.iter().map(|row| mix(row)).collect();
        Ok(match (&self.source, &row.conditions) {
            (SourceGiven::Normal { normal, draws }, _) => ImputedRows {
                rows: normal.draw(x, *draws, random),
                weights: vec![1.0 / *draws as f64; *draws],
                drawn: true,
                error: 0.0,
            },
            (SourceGiven::Embedding { means, system }, Some(conditions)) => {
                let mut solved = vec![0.0; means.size()];
                let right = means.right_hand_side(conditions, &self.players, system, &mut solved, stop)?;
                means.solve(system, &mut solved, stop)?;
                let units = means.learnt.kernel.rounding_units(x.len());
                let error = means.solution_error(system, right[0], dot(&solved, &solved).sqrt(), units);
                // If the kernel is at most 1, the norm of the reference rows' weights is at most that of the
                // solution.
                let bounded = means.learnt.kernel.factors().is_some();
                let error = if bounded { error } else { error * means.error_amplification(system) };
                let weights = means.weights(system, 0..reference.rows.len(), &solved);
                ImputedRows { rows: rows(), weights, drawn: false, error }
            }
            _ => ImputedRows { rows: rows(), weights: reference.weights.clone(), drawn: false, error: 0.0 },
        })
    }
}

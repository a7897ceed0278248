//! Values as functionals of f in the game of independent parts, and their covariances.

use rayon::prelude::*;

use super::IndependentPartsEngine;
use crate::attribution::coalition_covariance::{MOST_PLAYERS, RowPairs, player_covariance};
use crate::attribution::part_coalition_values::blocks;
use crate::attribution::row_batches;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::explainer::value_covariance::{by_coalitions, check_mirror, player_measure};
use crate::linalg::{Matrix, multiply_entries};
use crate::posterior::{Functionals, Posterior};
use crate::simd::{LANES, Lanes};
use crate::table::Table;

impl IndependentPartsEngine<'_> {
    /// Checks that values have a covariance under the prior of f.
    pub(super) fn check_prior(&self, mirror: Option<&[usize]>) -> Result<()> {
        let players = self.game.active_players();
        if players > MOST_PLAYERS {
            let allowed = format!(
                "the game of independent parts has covariances for at most {MOST_PLAYERS} features, and \
                 there are {players}: group them"
            );
            return Err(Error::parameter("covariance", true, allowed));
        }
        check_mirror(&self.game.groups, mirror)?;
        let Some(mirror) = mirror else { return Ok(()) };
        for columns in &self.game.columns {
            let mut other: Vec<usize> = columns.iter().map(|&j| mirror[j]).collect();
            other.sort_unstable();
            if !self.game.columns.contains(&other) {
                let names: Vec<&str> =
                    columns.iter().map(|&j| &self.game.model.columns()[j].name[..]).collect();
                let allowed = "covariances of values of duels need parts whose columns swap with those of \
                               one part: give each item its own background, or both items one background";
                return Err(Error::parameter("part", names.join(", "), allowed));
            }
        }
        Ok(())
    }

    /// Returns a matrix (points × rows) for each of `players`: the contribution of a coefficient 1 of each
    /// support point to the player's value.
    pub(super) fn player_functionals(&self, rows: &Table, players: &[usize]) -> Result<Vec<Matrix>> {
        player_measure(self.game.question.index, &self.plan.recipe)?;
        let data = rows.align_to(self.game.model.columns())?;
        let (columns, count) = (self.columns(&data)?, self.game.groups.players().len());
        let points: Vec<usize> = (0..columns.rows()).collect();
        let player_columns = |player: &usize| (*player..columns.cols()).step_by(count).collect::<Vec<_>>();
        Ok(players.iter().map(|player| columns.select(&points, &player_columns(player))).collect())
    }

    /// Returns the covariance of the values of each row under `posterior`, rows × outputs × players ×
    /// players.
    pub(super) fn row_covariances(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<f64>> {
        let players = self.game.groups.players().len();
        let batch_size = self.rows_with_covariances(posterior.mirror());
        by_coalitions(rows, (players, batch_size), posterior, self.game.control(), |rows, pairs| {
            self.value_functionals(rows, posterior.mirror(), pairs)
        })
    }

    /// Returns the values of all players in all rows as functionals of f, in the order of rows, then players.
    /// `pairs` selects their prior covariance: all of it, that within each row, or none. Cost O(3^players ·
    /// reference² + 4^players) for each pair of rows and factor of a term, with 8 · 4^players bytes.
    pub(super) fn value_functionals(
        &self,
        rows: &Table,
        mirror: Option<&[usize]>,
        pairs: RowPairs,
    ) -> Result<Functionals> {
        player_measure(self.game.question.index, &self.plan.recipe)?;
        let data = rows.align_to(self.game.model.columns())?;
        let (n, count) = (data.rows(), self.game.groups.players().len());
        let pairs = pairs.row_pairs(n);
        let blocks = match pairs.is_empty() {
            true => Vec::new(),
            false => {
                self.check_prior(mirror)?;
                self.prior_covariance(&data, mirror, &pairs)?
            }
        };
        // Players that cannot be absent have the value 0.
        let with_all_players = |block: Matrix| {
            let mut out = Matrix::zeros(count, count);
            for (k, &j) in self.plan.owners.iter().enumerate() {
                self.plan
                    .owners
                    .iter()
                    .enumerate()
                    .for_each(|(position, &l)| out[(j, l)] = block[(k, position)]);
            }
            out
        };
        let prior =
            player_covariance(n, count, pairs.into_iter().zip(blocks.into_iter().map(with_all_players)));
        // The intercept is part of every coalition's value.
        Ok(Functionals {
            columns: self.columns(&data)?,
            prior_covariance: prior,
            constants: vec![0.0; n * count],
        })
    }

    /// Returns the functionals at support points, points × (rows × players).
    fn columns(&self, data: &Table) -> Result<Matrix> {
        let (n, coefficient, points) =
            (data.rows(), self.game.groups.players().len(), self.game.model.support_points.rows());
        let coefficients = self.plan.weighing.coalition_coefficients();
        // The coefficients of each block's coalitions, by block and player.
        let lane_coefficients = |block: usize, j: usize| -> [f64; LANES] {
            std::array::from_fn(|l| {
                coefficients.get(block * LANES + l).map_or(0.0, |coefficients| coefficients[j])
            })
        };
        let blocks = blocks(self.game.active_players());
        let block_coefficients: Vec<Vec<[f64; LANES]>> = (0..blocks)
            .map(|block| (0..self.game.active_players()).map(|j| lane_coefficients(block, j)).collect())
            .collect();
        let mut out = Matrix::zeros(points, n * coefficient);
        for chunk in row_batches(n, self.rows_at_once()) {
            let rows = data.row_vectors(chunk.iter().copied());
            let conditional = self.conditional_means_of_rows(&rows)?;
            let row_functionals = |x: &Vec<f64>| {
                check_cancelled(&self.game.stop)?;
                let (mut evaluation, mut sums) =
                    (self.evaluate(x, &conditional)?, Matrix::zeros(points, self.game.active_players()));
                for (block, coefficients) in block_coefficients.iter().enumerate() {
                    self.average(&mut evaluation, block);
                    for (term, sparse_term) in self.game.model.kernel.terms.iter().zip(&self.game.parts.terms)
                    {
                        // A term without factors is the same for all coalitions, so it does not contribute to
                        // values.
                        let Some((first, remaining)) = sparse_term.sides.split_first() else { continue };
                        let number = |view: usize, i: usize| -> &Lanes {
                            &evaluation.numbers[view][self.game.parts.views[view].rows[i] as usize]
                        };
                        for i in 0..points {
                            let mut product = number(*first, i).0.map(|v| term.scale * v);
                            for &view in remaining {
                                multiply_entries(&mut product, &number(view, i).0);
                            }
                            for (sum, coefficients) in sums.row_mut(i).iter_mut().zip(coefficients) {
                                *sum += product
                                    .iter()
                                    .zip(coefficients)
                                    .map(|(v, coefficient)| v * coefficient)
                                    .sum::<f64>();
                            }
                        }
                    }
                }
                Ok(sums)
            };
            let functionals = rows.par_iter().map(row_functionals).collect::<Result<Vec<Matrix>>>()?;
            for (r, sums) in chunk.into_iter().zip(&functionals) {
                for i in 0..points {
                    let player_values = self.plan.owners.iter().zip(sums.row(i));
                    player_values.for_each(|(player, v)| out[(i, r * coefficient + player)] = *v);
                }
            }
        }
        Ok(out)
    }
}

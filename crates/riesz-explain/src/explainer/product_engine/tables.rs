//! Values of all coalitions at once, for the interventional game with few players and many background rows;
//! see [`coalition_tables`](crate::attribution::coalition_tables).

use std::borrow::Cow;

use rayon::prelude::*;

use super::{BATCH, ProductEngine, ProductRounding};
use crate::attribution::coalition_tables::{
    CoalitionWeights, LaneRange, absent_means, add_coalition_values, padded, products, restricted_coalition,
};
use crate::attribution::index_computation::{IndexComputation, IndexValues};
use crate::attribution::interaction_weights::binomial;
use crate::attribution::quadrature::{FLOOR, RoundingUnits, TINIEST, neg_log_bound};
use crate::attribution::rule::InclusionMeasure;
use crate::attribution::set_error_bounds::SetErrorBounds;
use crate::attribution::sets::Sets;
use crate::error::Result;
use crate::game::{AbsentSide, TERMS};
use crate::kernel::player_products::PlayerProduct;
use crate::linalg::{add_to, max_abs, raise_to_abs};
use crate::simd::{LANES, Lanes};
use crate::table::Table;

/// The largest number of doubles in tables: 512 MB.
const NUMBERS: usize = 1 << 26;

/// The computation of tables may cost as much as this number of rows without tables.
const ROWS: usize = 80;

/// The means of the products of absent factors, for each coalition, in a panel.
#[derive(Clone)]
pub(in super::super) struct PanelTable {
    /// Runs of lanes × coalitions × lanes: scaled means over the reference rows.
    means: Vec<Lanes>,
    /// Factors × points: the largest factor of a reference row.
    largest: Vec<f64>,
}

/// The number of lanes in a run: the part of the table that it reads stays in the cache for a batch of rows.
fn run(players: usize) -> usize {
    if players > 10 { 4 } else { 8 }
}

impl ProductEngine<'_> {
    /// Whether no factor exceeds 1, all factors have relative rounding errors only (so that their products
    /// cannot lose accuracy), and there are no polynomial terms.
    pub(in super::super) fn has_tame_factors(&self) -> bool {
        let is_tame = |product: &ProductRounding| {
            product.always.as_ref().is_some_and(|(rounding, _)| rounding.tiny <= TINIEST)
        };
        self.powers.is_empty()
            && self
                .rounded
                .iter()
                .all(|rounding| rounding.bounded && !rounding.relative_to_size && is_tame(rounding))
    }

    /// Returns the index's coalition weights for each product, if tables save work.
    pub(super) fn index_weights(&self, recipe: &IndexComputation) -> Option<Vec<CoalitionWeights>> {
        let weights_of_product =
            |product: &PlayerProduct<'_>| CoalitionWeights::new(recipe, &product.players);
        self.tables_pay_off(recipe).then(|| self.products.iter().map(weights_of_product).collect())
    }

    /// Whether tables need less work per row than the engine, at an acceptable initial cost. The decision
    /// does not depend on the rows, so a row has the same values, bit for bit, whatever rows are explained
    /// with it.
    fn tables_pay_off(&self, recipe: &IndexComputation) -> bool {
        let AbsentSide::Rows(reference) = &self.absent else { return false };
        let (mut row, mut engine, mut making) = (0, 0, 0);
        for product in &self.products {
            let m = product.players.len();
            if m > 16 {
                return false;
            }
            // Approximate numbers of multiplications and additions of lanes.
            let (nodes, larger) = match recipe {
                IndexComputation::Players(InclusionMeasure::Discrete(nodes)) => (nodes.len(), 0),
                IndexComputation::Players(_) | IndexComputation::Unions(_) => (m.div_ceil(2).min(8), 0),
                IndexComputation::Sets { averages, .. } => {
                    (m.div_ceil(2).min(8), binomial(m, averages.order()) as usize)
                }
            };
            row += (1 << m) * 5 / 2;
            making += (1 << m) * 5 / 2 * reference.rows.len();
            engine += (m * (5 * nodes / 2 + 6) + nodes * larger) * reference.rows.len();
        }
        self.has_tame_factors() && 2 * row < engine && making < ROWS * engine && self.has_room_for_tables()
    }

    /// Whether the tables are small enough.
    pub(in super::super) fn has_room_for_tables(&self) -> bool {
        let points: usize = self.panels.iter().map(|panel| panel.len).sum();
        self.products.iter().map(|product| points << product.players.len()).sum::<usize>() < NUMBERS
    }

    /// Returns the tables of all products. Cost O(n · reference · 2^players).
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(in super::super) fn tables(&self) -> Result<&[Vec<PanelTable>]> {
        if let Some(tables) = self.tables.get() {
            return Ok(tables);
        }
        // Concurrent callers may compute the tables twice. A caller that waited for another would block a
        // thread that the other one needs.
        let weights = self.absent.weights();
        let tables_of_product = |t: usize| {
            let panels = (0..self.panels.len()).into_par_iter();
            panels.map(|index| self.panel_table(t, index, 0, weights)).collect()
        };
        let tables = (0..self.products.len()).map(tables_of_product).collect::<Result<_>>()?;
        Ok(self.tables.get_or_init(|| tables))
    }

    /// Returns the table of the reference rows from `first` on, one for each of these weights.
    fn panel_table(&self, t: usize, index: usize, first: usize, weights: &[f64]) -> Result<PanelTable> {
        let (product, panel) = (&self.products[t], &self.panels[index]);
        let (m, len) = (product.players.len(), panel.len);
        let mut largest = vec![0.0_f64; m * len];
        let scaled: Vec<f64> = weights.iter().map(|weight| weight * product.scale).collect();
        let means = absent_means(self.isa, (m, len, run(m)), &scaled, &self.stop, |b, factors| {
            let (columns, variant) = (panel.columns(), first + b);
            self.absent.fill_factors(self.isa, product, columns, variant, false, factors);
            raise_to_abs(&mut largest, factors);
        })?;
        Ok(PanelTable { means, largest })
    }

    /// Returns the outputs of mixtures of reference row `b` with each of `rows`: rows × outputs × coalitions,
    /// where a coalition's players have the values of the row and the others those of row `b`. Also returns
    /// an error bound for each row and output.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(in super::super) fn mixtures(&self, b: usize, rows: &[Vec<f64>]) -> Result<(Vec<f64>, Vec<f64>)> {
        let tables_of_product = |t: usize| {
            let panels = (0..self.panels.len()).map(|index| self.panel_table(t, index, b, &[1.0]));
            panels.collect::<Result<Vec<_>>>().map(Cow::Owned)
        };
        self.mixed_outputs(tables_of_product, rows)
    }

    /// Returns the outputs of all coalitions, averaged over the reference rows, in the form of
    /// [`mixtures`](Self::mixtures).
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(in super::super) fn outputs_of_all(&self, rows: &[Vec<f64>]) -> Result<(Vec<f64>, Vec<f64>)> {
        let tables = self.tables()?;
        self.mixed_outputs(|t| Ok(Cow::Borrowed(&tables[t][..])), rows)
    }

    /// Returns outputs and their error bounds, where `tables` gives the tables of each product.
    fn mixed_outputs<'t>(
        &self,
        tables: impl Fn(usize) -> Result<Cow<'t, [PanelTable]>>,
        rows: &[Vec<f64>],
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let (outputs, coalitions) = (self.model.outputs(), 1_usize << self.groups.players().len());
        let intercept =
            |_: usize| self.model.intercept.iter().flat_map(|v| std::iter::repeat_n(*v, coalitions));
        let mut totals: Vec<f64> = (0..rows.len()).flat_map(intercept).collect();
        let mut error = vec![0.0; rows.len() * outputs];
        for (t, product) in self.products.iter().enumerate() {
            let (coalition_values, errors) = self.coalition_values(t, &tables(t)?, rows)?;
            // For each coalition, the product's players in it.
            let product_coalition: Vec<usize> =
                (0..coalitions).map(|s| restricted_coalition(s, &product.players)).collect();
            for (total, product_values) in totals
                .chunks_exact_mut(coalitions)
                .zip(coalition_values.chunks_exact(1 << product.players.len()))
            {
                total.iter_mut().zip(&product_coalition).for_each(|(sum, &s)| *sum += product_values[s]);
            }
            add_to(&mut error, &errors);
        }
        add_to(&mut error, &rows.iter().flat_map(|x| self.approximation_errors(x)).collect::<Vec<_>>());
        for (totals, error) in totals.chunks_exact(coalitions).zip(&mut error) {
            // Outputs are sums over products that start from the intercept.
            let largest = max_abs(totals) + max_abs(&self.model.intercept);
            *error += f64::EPSILON * (self.products.len() + 1) as f64 * largest;
        }
        Ok((totals, error))
    }

    /// Returns the values of the index from tables, as [`IndexComputation::compute`] defines them.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(super) fn find_by_tables(
        &self,
        recipe: &IndexComputation,
        weighings: &[CoalitionWeights],
        data: &Table,
    ) -> Result<IndexValues> {
        let (tables, sets) = (self.tables()?, Sets::new(self.groups.players().len(), recipe.order()));
        self.in_batches(data, |rows| {
            let games = rows.len() * self.model.outputs();
            let mut values = vec![0.0; games * sets.len()];
            let mut errors = SetErrorBounds::new(games, sets.order);
            for (t, weighing) in weighings.iter().enumerate() {
                let (coalition_values, value_errors) = self.coalition_values(t, &tables[t], rows)?;
                let coalitions = coalition_values.len() / games;
                for (g, (game_values, error)) in
                    coalition_values.chunks_exact(coalitions).zip(value_errors).enumerate()
                {
                    let index_values = &mut values[g * sets.len()..(g + 1) * sets.len()];
                    let size_bounds =
                        weighing.add(game_values, &self.products[t].players, &sets, index_values);
                    errors.add_coalition_errors(g, error, &size_bounds);
                }
            }
            let error = values.chunks_exact_mut(sets.len()).enumerate();
            let error =
                error.map(|(g, index_values)| recipe.finish((&errors, g), index_values, &sets)).collect();
            Ok(IndexValues { values, error })
        })
    }

    /// Applies `find` to batches of rows, which share the reading of tables. Batches are distributed over
    /// threads, and progress counts them.
    ///
    /// # Errors
    /// The errors of `find`.
    pub(in super::super) fn in_batches(
        &self,
        data: &Table,
        find: impl Fn(&[Vec<f64>]) -> Result<IndexValues> + Sync,
    ) -> Result<IndexValues> {
        let rows = data.row_vectors(0..data.rows());
        let batch = rows.len().div_ceil(rayon::current_num_threads()).clamp(1, BATCH);
        self.progress.start(rows.len().div_ceil(batch));
        let batch_result = |rows: &[Vec<f64>]| {
            let result = find(rows)?;
            self.control().step();
            Ok((result.values, result.error))
        };
        let parts: Vec<_> =
            rows.par_chunks(batch).with_max_len(1).map(batch_result).collect::<Result<_>>()?;
        Ok(IndexValues::join(parts))
    }

    /// Returns the values of all coalitions in the given rows under product `t` (rows × outputs ×
    /// coalitions), and a bound on their error for each row and output.
    fn coalition_values(
        &self,
        t: usize,
        tables: &[PanelTable],
        rows: &[Vec<f64>],
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let (product, outputs) = (&self.products[t], self.model.outputs());
        let m = product.players.len();
        let (low, lanes, coalitions) = (m / 2, run(m), 1_usize << m);
        let mut coalition_values = vec![0.0; rows.len() * outputs * coalitions];
        let mut sizes = vec![[0.0; 2]; rows.len() * outputs];
        let (mut first, mut remaining) = (Vec::new(), vec![Vec::new(); outputs]);
        let mut present: Vec<Vec<f64>> = vec![Vec::new(); rows.len()];
        for (panel, table) in self.panels.iter().zip(tables) {
            self.control().check_cancelled()?;
            let runs = (panel.len / LANES).div_ceil(lanes);
            let mut row_factors = vec![0.0; m * panel.len];
            for ((x, present), sizes) in rows.iter().zip(&mut present).zip(sizes.chunks_exact_mut(outputs)) {
                for (k, factor) in row_factors.chunks_exact_mut(panel.len).enumerate() {
                    product.factor(self.isa, k, panel.columns(), x, factor);
                }
                padded(&row_factors, panel.len, runs * lanes * LANES, present);
                let larger: Vec<f64> =
                    row_factors.iter().zip(&table.largest).map(|(a, b)| a.abs().max(*b)).collect();
                for i in 0..panel.len {
                    let top: f64 = (0..m).map(|k| larger[k * panel.len + i]).product();
                    let decay = top * neg_log_bound(top.clamp(f64::MIN_POSITIVE, 1.0));
                    for (size, coef) in sizes.iter_mut().zip(&panel.coef) {
                        let coef = coef[i / LANES].0[i % LANES].abs();
                        *size = [size[0] + coef * top, size[1] + coef * decay];
                    }
                }
            }
            for (run, means) in table.means.chunks_exact(lanes << m).enumerate() {
                let blocks = run * lanes..((run + 1) * lanes).min(panel.len / LANES);
                for (present, row_values) in
                    present.iter().zip(coalition_values.chunks_exact_mut(outputs * coalitions))
                {
                    let lane_range =
                        LaneRange { factors: present, lanes_per_player: runs * lanes, from: run * lanes };
                    products(self.isa, lane_range, 0..low, &[Lanes::UNIT; 8][..lanes], &mut first);
                    for (coef, remaining) in panel.coef.iter().zip(&mut remaining) {
                        let mut weights = [Lanes::ZERO; 8];
                        weights[..blocks.len()].copy_from_slice(&coef[blocks.clone()]);
                        products(self.isa, lane_range, low..m, &weights[..lanes], remaining);
                    }
                    add_coalition_values(self.isa, lanes, means, &first, &remaining, row_values);
                }
            }
        }
        // Roundings of products of factors, means over the reference and sums over points; and half of those
        // in the engine's bound, which is for a difference of two products.
        let sums = TERMS + self.absent.weights().len().div_ceil(TERMS) + self.absent.normalised();
        let points = self.panels.iter().map(|panel| panel.len.div_ceil(lanes * LANES)).sum::<usize>();
        let rounding =
            self.rounded[t].always.as_ref().map_or_else(RoundingUnits::default, |(units, _)| *units);
        let units = 0.5 * rounding.units + (2 * m + sums + points + lanes + 24) as f64;
        // The error of numbers below the range of doubles.
        let tiny_error = m as f64 * rounding.tiny + FLOOR;
        let coef =
            |o: usize| self.panels.iter().flat_map(move |panel| &panel.coef[o]).flat_map(|lanes| lanes.0);
        let tiny_error: Vec<f64> =
            (0..outputs).map(|o| tiny_error * coef(o).map(f64::abs).sum::<f64>()).collect();
        let error = |([size, decay], tiny_error): (&[f64; 2], &f64)| {
            let relative =
                0.51 * f64::EPSILON * (units * size + 0.5 * rounding.per_log * (decay + 0.368 * size));
            product.scale * (relative + tiny_error)
        };
        let errors = sizes.iter().zip(tiny_error.iter().cycle()).map(error).collect();
        Ok((coalition_values, errors))
    }
}

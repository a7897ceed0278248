//! The causal game, evaluated coalition by coalition, for kernels that are sums of products over columns.
//!
//! Let `x_i` be the support points, `x_b` the reference rows, x the explained row and S the present columns.
//! A product of the kernel has the factors `k_j(x_i, ·)`. Their mean under the intervention `do(x_S)` is
//! computed by iterated conditional means (g-computation), from the last component to the first:
//!
//! 1. `g(x_i, x_b)` is the product of the factors of the component's absent columns and of the means of later
//!    components that depend on these columns.
//! 2. `h(x_i, z) = Σ_b W(z)_b g(x_i, x_b)` is its mean given the component's conditioning columns, with the
//!    weights W of a [conditional mean embedding](crate::embedding). Present columns in z have the values of
//!    x, absent ones those of each reference row, at which earlier components need h.
//!
//! The value of S is `intercept + Σ_i coef_i Π_{j∈S} k_j(x_i, x) Π h(x_i)` over the means that depend on no
//! absent column. Centred weights add the share `1 - Σ_b W(z)_b` of the mean of g over the reference. In a
//! component of interacting columns this g includes the component's present factors, so that one such
//! component is the observational game.
//!
//! Sources: Heskes, Sijben, Bucur and Claassen 2020 (the game); Robins 1986 (the g-formula).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::bounds::KernelRounding;
use super::{MAX_GAMES, Product, RowGame, SolvedRows, Valuation, output_rounding, solve_rows};
use crate::attribution::player_order::{OrderedGroup, ordered_groups, ordering_entry};
use crate::attribution::row_batches;
use crate::attribution::sampled_shapley::{Budget, Coalition, SampleState};
use crate::control::check_cancelled;
use crate::embedding::{
    ConditionalMeanEmbeddings, Conditioning, System, Weights, factor_tables, multiply, split,
};
use crate::error::Result;
use crate::explanation::{Explanation, Provenance};
use crate::game::{Background, CausalStructure, ComponentColumns, Game, ReferenceRows};
use crate::kernel::player_products::PlayerProduct;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, small_dense};
use crate::model_card::CardEntry;
use crate::table::{Player, Players, Table};

/// The causal game of one model.
pub(crate) struct CausalGame<'m> {
    pub(crate) groups: Players,
    pub(crate) base: Vec<f64>,
    /// The groups of an ordering of the players; one group of all players for Shapley values.
    pub(crate) ordering: Vec<OrderedGroup>,
    model: &'m KernelExpansion,
    structure: CausalStructure,
    stop: Arc<AtomicBool>,
    cells: Vec<Player>,
    /// The player of each cell.
    owners: Vec<usize>,
    components: Vec<Component>,
    products: Vec<ProductFactors>,
    means: ConditionalMeanEmbeddings,
    centered: bool,
    /// Bounds on the errors of the base values.
    base_error: Vec<f64>,
}

/// A component of the causal structure. Its columns are split into cells: the columns of one player that are
/// parents of the same components.
struct Component {
    /// For each cell, whether it belongs to the component.
    members: Vec<bool>,
    /// For each cell, whether its columns are parents of the component.
    parents: Vec<bool>,
    confounded: bool,
}

/// A product of the model's kernel, with one factor per cell.
struct ProductFactors {
    product: Product,
    /// For each cell, its factor between all support points and each reference row; empty if it is 1.
    reference: Vec<Vec<f64>>,
    /// For each cell, the largest absolute factor of each support point over the reference; empty if it is 1.
    largest: Vec<Vec<f64>>,
}

/// The mean over the absent columns of one component in a coalition. Lists have one entry per cell.
struct Step {
    /// The absent cells of the component.
    absent: Vec<bool>,
    /// The present cells of the component, if its columns interact.
    interacting: Vec<bool>,
    /// The cells that the mean is conditioned on.
    conditions: Vec<bool>,
    /// The absent cells that the mean is conditioned on.
    scope: Vec<bool>,
    /// The earlier steps whose means depend on the absent cells.
    absorbed: Vec<usize>,
    /// Whether the mean is the same for all explained rows.
    fixed: bool,
}

/// The mean of a step for one explained row.
struct StepMean {
    /// For each product of the kernel, support points × reference rows, or support points alone for a step
    /// without scope.
    by_product: Vec<Vec<f64>>,
    /// The largest sum of the absolute weights.
    total_weight: f64,
    /// Bound on the error of that sum.
    weight_error: f64,
}

fn intersects(a: &[bool], b: &[bool]) -> bool {
    a.iter().zip(b).any(|(a, b)| *a && *b)
}

/// The cells, the player of each, and the components over cells.
fn split_into_cells(
    components: &[ComponentColumns],
    groups: &Players,
    width: usize,
) -> (Vec<Player>, Vec<usize>, Vec<Component>) {
    let (mut cells, mut owners) = (Vec::new(), Vec::new());
    let mut cell_keys: Vec<(usize, usize, Vec<bool>)> = Vec::new();
    let player_of_column = groups.player_of_column(width);
    for j in 0..width {
        let component = components.iter().position(|component| component.columns.contains(&j));
        let children = components.iter().map(|component| component.parents.contains(&j)).collect();
        let key = (player_of_column[j], component.unwrap_or(usize::MAX), children);
        let position = cell_keys.iter().position(|other| *other == key).unwrap_or_else(|| {
            let name = groups.players()[player_of_column[j]].name.clone();
            cells.push(Player { name, columns: Vec::new() });
            owners.push(player_of_column[j]);
            cell_keys.push(key);
            cells.len() - 1
        });
        cells[position].columns.push(j);
    }
    let over_cells = |(k, component): (usize, &ComponentColumns)| Component {
        members: cell_keys.iter().map(|(_, of_component, _)| *of_component == k).collect(),
        parents: cell_keys.iter().map(|(_, _, children)| children[k]).collect(),
        confounded: component.confounded,
    };
    let components = components.iter().enumerate().map(over_cells).collect();
    (cells, owners, components)
}

impl ProductFactors {
    fn new(product: Product, points: &Table, reference: &Table, stop: &AtomicBool) -> Result<Self> {
        let factors = factor_tables(&product.kernels, points, reference, stop)?;
        let largest_of = |factor: &Vec<f64>| {
            let mut largest = vec![0.0_f64; if factor.is_empty() { 0 } else { points.rows() }];
            for row in factor.chunks_exact(points.rows().max(1)) {
                largest.iter_mut().zip(row).for_each(|(largest, v)| *largest = largest.max(v.abs()));
            }
            largest
        };
        let largest = factors.iter().map(largest_of).collect();
        Ok(Self { product, reference: factors, largest })
    }
}

impl<'m> CausalGame<'m> {
    /// Prepares the evaluation of coalitions of `groups`. This and later calls fail with
    /// [`Error::Interrupted`](crate::error::Error::Interrupted) soon after `stop` becomes true.
    pub(crate) fn new(
        model: &'m KernelExpansion,
        (reference, structure): (&Background, CausalStructure),
        conditioning: &Conditioning,
        groups: Players,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let (columns, points) = (model.columns(), &model.support_points);
        let resolved = structure.resolve(columns)?;
        let (cells, owners, components) = split_into_cells(&resolved, &groups, columns.len());
        let blocks: Vec<Vec<usize>> = cells.iter().map(|cell| cell.columns.clone()).collect();
        let mut owner_of_column = vec![0; columns.len()];
        blocks.iter().enumerate().for_each(|(c, block)| block.iter().for_each(|&j| owner_of_column[j] = c));
        let products = model.kernel.split(columns, &owner_of_column, None)?;
        let reference = ReferenceRows::new(reference, columns)?;
        let rows = reference.table(columns)?;
        let extra = |_: &_, rows: &Table| {
            let (n, reference) = (points.rows() as f64, rows.rows() as f64);
            let threads = rayon::current_num_threads() as f64;
            let kept = (products.len() * cells.len()) as f64 * n * reference;
            // Each thread keeps a system and a mean of each component, and the weights of one.
            let means = components.len() as f64 * (reference + n * products.len() as f64);
            kept + threads * reference * (means + 2.0 * reference + n)
        };
        let (names, weights) = (("the causal game", Some(&model.kernel)), reference.weights);
        let means =
            ConditionalMeanEmbeddings::learn(rows, weights, &blocks, names, conditioning, extra, &stop)?;
        let with_factors = |p: PlayerProduct<'_>| {
            let product = Product { scale: p.scale, kernels: p.kernels(blocks.len()) };
            ProductFactors::new(product, points, &means.learnt().rows, &stop)
        };
        let products = products.into_iter().map(with_factors).collect::<Result<_>>()?;
        let mut game = Self {
            ordering: ordered_groups(&[], &groups)?,
            groups,
            base: Vec::new(),
            model,
            structure,
            stop,
            cells,
            owners,
            components,
            products,
            means,
            centered: conditioning.centered,
            base_error: Vec::new(),
        };
        // The value of the empty coalition is the same for any row.
        let any_row = game.means.learnt().rows.select_rows(&[0]);
        let empty = Coalition::new(vec![false; game.groups.players().len()]);
        (game.base, game.base_error) = CausalRows::new(&game, any_row)?.value(&empty)?;
        Ok(game)
    }

    pub(crate) fn causal_game(&self) -> Game {
        Game::Causal {
            reference: self.means.learnt().rows.clone().into(),
            structure: self.structure.clone(),
            conditioning: Conditioning::default(),
        }
    }

    pub(crate) fn rows_at_once(&self) -> usize {
        (MAX_GAMES / self.model.outputs().max(1)).max(1)
    }

    /// The means to compute for a coalition of present cells, from the last component to the first, and the
    /// numbers of the means that no other one depends on.
    fn steps(&self, present: &[bool]) -> (Vec<Step>, Vec<usize>) {
        let mut steps: Vec<Step> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let by_cell = |test: &dyn Fn(usize) -> bool| (0..present.len()).map(test).collect::<Vec<bool>>();
        for component in self.components.iter().rev() {
            let absent = by_cell(&|c| component.members[c] && !present[c]);
            if !absent.contains(&true) {
                continue;
            }
            let (absorbed, remaining): (Vec<usize>, Vec<usize>) =
                open.into_iter().partition(|&k| intersects(&steps[k].scope, &absent));
            let interacting = by_cell(&|c| component.members[c] && present[c] && !component.confounded);
            let conditions = by_cell(&|c| {
                let is_needed = component.parents[c] || absorbed.iter().any(|&k| steps[k].scope[c]);
                interacting[c] || is_needed && !absent[c]
            });
            let scope = by_cell(&|c| conditions[c] && !present[c]);
            let fixed = !intersects(&conditions, present) && absorbed.iter().all(|&k| steps[k].fixed);
            open = remaining;
            open.push(steps.len());
            steps.push(Step { absent, interacting, conditions, scope, absorbed, fixed });
        }
        (steps, open)
    }

    /// Explains rows. If there is a `sample`, continues from it and stores the new coalition values in it.
    pub(crate) fn explain(
        &self,
        rows: &Table,
        budget: Budget,
        sample: Option<&mut SampleState>,
    ) -> Result<Explanation> {
        let data = rows.align_to(self.model.columns())?;
        let predictions = self.model.predict_until(&data, &self.stop)?;
        let batches = row_batches(data.rows(), self.rows_at_once());
        let SolvedRows { values, exactness, coalitions, .. } =
            solve_rows(batches, &self.ordering, budget, sample, |chunk| {
                self.row_game(data.select_rows(chunk), &predictions, chunk[0])
            })?;
        let mut facts = vec![
            CardEntry::new("conditioning kernel", self.means.kernel().formula()),
            CardEntry::measured("ridge", self.means.ridge()),
            CardEntry::new("approximation", self.means.approximation()),
            CardEntry::new("coalitions valued", coalitions + 2),
        ];
        facts.extend(ordering_entry(&self.ordering, &self.groups));
        let (name, absent) = (Game::NAMES[5], self.causal_game().absent());
        Ok(Explanation {
            values,
            base_values: self.base.repeat(data.rows()),
            predictions: predictions.into_data(),
            exactness,
            provenance: Provenance::of_run(name, absent, self.model.facts(), facts),
            ..Explanation::of_rows(self.groups.players(), &self.model.output_names, data)
        })
    }

    /// The game of some rows; `first` is the position of the first row in `predictions`.
    fn row_game(&self, rows: Table, predictions: &Matrix, first: usize) -> Result<RowGame<'_>> {
        let (count, m) = (rows.rows(), self.model.outputs());
        let grand = predictions.data()[first * m..(first + count) * m].to_vec();
        let valuation = CausalRows::new(self, rows)?;
        let rounding = output_rounding(self.model, &valuation.rows, &valuation.rounds, 0, &self.stop)?;
        let error = |g: usize| {
            let (i, o) = (g / m, g % m);
            self.base_error[o].max(rounding[o * count + i] + f64::EPSILON * grand[g].abs())
        };
        Ok(RowGame {
            players: self.groups.players().len(),
            error: (0..count * m).map(error).collect(),
            largest: (0..count * m).map(|g| grand[g].abs().max(self.base[g % m].abs())).collect(),
            ends: [self.base.repeat(count), grand],
            valuation: Box::new(valuation),
        })
    }
}

/// Rows to explain in the causal game.
struct CausalRows<'e, 'm> {
    game: &'e CausalGame<'m>,
    rows: Table,
    rounds: KernelRounding,
    /// For each product and cell, the factor between all support points and each row; empty if it is 1.
    factors: Vec<Vec<Vec<f64>>>,
}

impl<'e, 'm> CausalRows<'e, 'm> {
    fn new(game: &'e CausalGame<'m>, rows: Table) -> Result<Self> {
        let points = &game.model.support_points;
        let factors_of =
            |product: &ProductFactors| factor_tables(&product.product.kernels, points, &rows, &game.stop);
        let factors = game.products.iter().map(factors_of).collect::<Result<_>>()?;
        let rounds = KernelRounding::new(game.model, &[&game.means.learnt().rows, &rows]);
        Ok(Self { game, rows, rounds, factors })
    }

    /// The factor of a cell in a product between all support points and row r; `None` if it is 1.
    fn factor(&self, product: usize, cell: usize, r: usize) -> Option<&[f64]> {
        let n = self.game.model.support_points.rows();
        let factor = &self.factors[product][cell];
        (!factor.is_empty()).then(|| &factor[r * n..(r + 1) * n])
    }

    /// The values at which a step conditions for row r: the reference rows with the present columns of r, or
    /// row r alone for a step without scope.
    fn conditioning_rows(&self, step: &Step, present: &[bool], r: usize) -> Result<Table> {
        if !step.scope.contains(&true) {
            return Ok(self.rows.select_rows(&[r]));
        }
        let reference = &self.game.means.learnt().rows;
        let (mut values, count) = (reference.column_major().to_vec(), reference.rows());
        for (cell, present) in self.game.cells.iter().zip(present) {
            for &j in cell.columns.iter().filter(|_| *present) {
                values[j * count..(j + 1) * count].fill(self.rows.get(r, j));
            }
        }
        Table::from_column_major(reference.columns().to_vec(), count, values)
    }

    /// The mean of a step for row r, given the means of earlier steps.
    fn step_mean(
        &self,
        step: &Step,
        system: &System,
        earlier: &[StepMean],
        present: &[bool],
        r: usize,
    ) -> Result<StepMean> {
        let (game, stop) = (self.game, &self.game.stop);
        check_cancelled(stop)?;
        let (n, learnt) = (game.model.support_points.rows(), game.means.learnt());
        let reference = learnt.rows.rows();
        let query = self.conditioning_rows(step, present, r)?;
        let Weights { matrix, error } =
            game.means.raw_weights_of_system(system, &step.conditions, &query, stop)?;
        let weights = matrix.transpose();
        let centered = game.centered && step.conditions.contains(&true);
        let missing = |row: &[f64]| if centered { 1.0 - row.iter().sum::<f64>() } else { 0.0 };
        let missing: Vec<f64> = (0..weights.rows()).map(|a| missing(weights.row(a))).collect();
        let total = |a: usize| weights.row(a).iter().map(|w| w.abs()).sum::<f64>() + missing[a].abs();
        let total_weight = (0..weights.rows()).map(total).fold(0.0, f64::max);
        // Centring adds the error of the sum of the weights.
        let largest_error = error.iter().copied().fold(0.0, f64::max) * (reference as f64).sqrt();
        let weight_error = if centered { 2.0 * largest_error } else { largest_error };

        let mut by_product = Vec::with_capacity(game.products.len());
        for (t, product) in game.products.iter().enumerate() {
            let mut averaged = vec![1.0; n * reference];
            multiply(&split(&product.reference, &step.absent, true), 0..n * reference, &mut averaged);
            for mean in step.absorbed.iter().map(|&k| &earlier[k].by_product[t]) {
                averaged.iter_mut().zip(mean).for_each(|(v, mean)| *v *= mean);
            }
            let mut mean = vec![0.0; n * weights.rows()];
            small_dense::add_product(&mut mean, &averaged, weights.data(), n);
            for cell in (0..present.len()).filter(|&c| step.interacting[c]) {
                if let Some(factor) = self.factor(t, cell, r) {
                    mean.iter_mut().zip(factor.iter().cycle()).for_each(|(v, factor)| *v *= factor);
                }
            }
            if centered {
                for factor in split(&product.reference, &step.interacting, true) {
                    averaged.iter_mut().zip(factor).for_each(|(v, factor)| *v *= factor);
                }
                let mut centre = vec![0.0; n];
                small_dense::add_product(&mut centre, &averaged, &learnt.weights, n);
                for (mean, missing) in mean.chunks_exact_mut(n.max(1)).zip(&missing) {
                    mean.iter_mut().zip(&centre).for_each(|(v, centre)| *v += missing * centre);
                }
            }
            by_product.push(mean);
        }
        Ok(StepMean { by_product, total_weight, weight_error })
    }

    /// Values of a coalition and bounds on their errors, rows × outputs.
    fn value(&self, coalition: &Coalition) -> Result<(Vec<f64>, Vec<f64>)> {
        let game = self.game;
        let present: Vec<bool> = game.owners.iter().map(|&player| coalition.present()[player]).collect();
        let (steps, open) = game.steps(&present);
        let systems: Vec<System> = steps
            .iter()
            .map(|step| game.means.system(&step.conditions, &game.stop))
            .collect::<Result<_>>()?;
        let mut means: Vec<StepMean> = Vec::with_capacity(steps.len());
        let (mut values, mut errors) = (Vec::new(), Vec::new());
        for r in 0..self.rows.rows() {
            for (k, step) in steps.iter().enumerate() {
                if k < means.len() && step.fixed {
                    continue;
                }
                let mean = self.step_mean(step, &systems[k], &means[..k], &present, r)?;
                if k < means.len() {
                    means[k] = mean;
                } else {
                    means.push(mean);
                }
            }
            let contributions = self.contributions(&steps, &open, &means, &present, r);
            for o in 0..game.model.outputs() {
                let (value, error) = self.output(o, &contributions, &means);
                values.push(value);
                errors.push(error);
            }
        }
        Ok((values, errors))
    }

    /// For each support point, the mean of its kernel under the intervention for row r, and a bound on the
    /// mean of the products' absolute factors for weights that sum to 1.
    fn contributions(
        &self,
        steps: &[Step],
        open: &[usize],
        means: &[StepMean],
        present: &[bool],
        r: usize,
    ) -> Vec<[f64; 2]> {
        let mut sums = vec![[0.0; 2]; self.game.model.support_points.rows()];
        for (t, product) in self.game.products.iter().enumerate() {
            let mut terms = vec![[product.product.scale; 2]; sums.len()];
            for mean in open.iter().map(|&k| &means[k].by_product[t]) {
                terms.iter_mut().zip(mean).for_each(|([term, _], mean)| *term *= mean);
            }
            for (cell, is_present) in present.iter().enumerate() {
                let is_averaged = steps.iter().any(|step| step.interacting[cell]);
                if let (true, Some(factor)) = (is_present, self.factor(t, cell, r)) {
                    for (i, ([term, size], factor)) in terms.iter_mut().zip(factor).enumerate() {
                        if is_averaged {
                            *size *= factor.abs().max(product.largest[cell][i]);
                        } else {
                            *term *= factor;
                            *size *= factor.abs();
                        }
                    }
                } else if !is_present {
                    let factors = terms.iter_mut().zip(&product.largest[cell]);
                    factors.for_each(|([_, size], largest)| *size *= largest);
                }
            }
            for (sum, term) in sums.iter_mut().zip(&terms) {
                sum[0] += term[0];
                sum[1] += term[1];
            }
        }
        sums
    }

    /// The value of output `o` from the support points' contributions, and a bound on its error.
    fn output(&self, o: usize, contributions: &[[f64; 2]], means: &[StepMean]) -> (f64, f64) {
        let model = self.game.model;
        let (mut value, mut size) = (0.0, 0.0);
        for (i, [mean, largest]) in contributions.iter().enumerate() {
            value += model.coef[(i, o)] * mean;
            size += model.coef[(i, o)].abs() * largest;
        }
        // Sums of absolute weights multiply over the steps, and so do these sums with their errors.
        let (mut total, mut error) = (1.0, 0.0);
        for mean in means {
            error = error * (mean.total_weight + mean.weight_error) + total * mean.weight_error;
            total *= mean.total_weight;
        }
        let reference = self.game.means.learnt().rows.rows();
        let terms = (contributions.len() + means.len() * (2 * reference + 16)) as f64;
        let intercept = model.intercept[o];
        let rounding = self.rounds.rounding_error(o, (total + error) * size, terms)
            + 4.0 * f64::EPSILON * (intercept.abs() + value.abs());
        (intercept + value, error * size + rounding)
    }
}

impl Valuation for CausalRows<'_, '_> {
    fn values(&self, coalitions: &[Coalition]) -> Result<Vec<(Vec<f64>, Vec<f64>)>> {
        coalitions.par_iter().map(|coalition| self.value(coalition)).collect()
    }
}

//! The engine for the product games of a model.
//!
//! Support points are cut into panels that fit the cache. For each panel the absent side is computed once for
//! all rows of a batch, and for each row the present side is computed once for all reference rows. Every row
//! is summed in the same order for any batch size and number of threads, so results are the same bit for bit.

mod powers;
mod tables;
mod terms;
mod uncertainty;
mod variance;

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use self::powers::PanelPolynomial;
use self::tables::PanelTable;
use self::terms::RowBatches;
use super::engine::GameEngine;
use super::panel::{PanelSide, PointPanel, panels};
use super::{MAX_SETS, check_sets, robustness};
use crate::attribution::index_computation::{IndexComputation, IndexValues};
use crate::attribution::product::{PlayerFunctionals, ProductGame, accumulate};
use crate::attribution::quadrature::{FLOOR, RoundingUnits, ldexp, scaled_mul_nonfinite};
use crate::attribution::row_batches;
use crate::attribution::sampled_shapley::{Budget, SampleState};
use crate::attribution::top_pair_search::{STEPS, SearchLimits, top_pairs};
use crate::coalition_structure::CoalitionTree;
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Pair, Provenance, TopInteractions};
use crate::game::{AbsentSide, Game, TERMS};
use crate::index::ValueIndex;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel::polynomial_terms::PolynomialTerm;
use crate::kernel::{ColumnRanges, Columns};
use crate::kernel_model::{KernelExpansion, VANISHING_REFERENCE_FACT};
use crate::linalg::{Matrix, add_to, dot_roundings, max_abs, multiply_entries};
use crate::model_card::CardEntry;
use crate::posterior::{Functionals, Posterior};
use crate::simd::{Isa, LANES};
use crate::table::{Players, Table};

/// Rows explained together by one thread.
const BATCH: usize = 16;

/// The number of doubles of functionals that one thread holds at a time, and the number of batches that are
/// computed before their results are copied to the output.
const FUNCTIONALS: usize = 1 << 20;
const BATCHES_PER_CHUNK: usize = 64;

/// The error of a value, relative to the spread of the model's outputs, that the approximation of radial
/// factors aims at.
pub(super) const APPROXIMATION_ERROR: f64 = 1e-9;

/// Products that approximate a radial factor are left out where they are smaller than this, which is far less
/// than the error of the approximation.
const NEGLIGIBLE: f64 = 1e-17;

/// The number of doubles that one panel's present side may hold: a share of the second-level cache.
const PANEL: usize = 16384;

/// The number of doubles that the absent side of a panel may hold; more reference rows are processed in
/// portions.
const ABSENT: usize = 1 << 19;

/// Explains rows of one model under one product game.
pub(super) struct ProductEngine<'m> {
    pub(super) model: &'m KernelExpansion,
    pub(super) game: Game,
    pub(super) groups: Players,
    products: Vec<PlayerProduct<'m>>,
    /// The terms of the kernel that are powers.
    powers: Vec<PanelPolynomial<'m>>,
    /// For each product, its rounding.
    rounded: Vec<ProductRounding>,
    /// For each column, its least and largest number among the support points, and among the reference rows.
    column_ranges: (Vec<[f64; 2]>, Option<Vec<[f64; 2]>>),
    pub(super) absent: AbsentSide,
    panels: Vec<PointPanel>,
    /// The absent side of each product and panel, if it is the same for all rows: for one reference row, or
    /// for means.
    cached_absent_sides: Vec<Vec<PanelSide>>,
    /// If the absent side is all 1, for each product and panel: the indices of the factors that are not 1 for
    /// a row of zeros. `None` if there are too many of them for a list to save work.
    nonunit_factors: Vec<Vec<Option<Vec<u32>>>>,
    pub(super) base: Vec<f64>,
    /// Tables of the coalitions' values, computed at first use, if they save work.
    tables: OnceLock<Vec<Vec<PanelTable>>>,
    pub(super) isa: Isa,
    pub(super) index: ValueIndex,
    /// The unions of Owen values.
    pub(super) unions: Option<CoalitionTree>,
    stop: Arc<AtomicBool>,
    pub(super) progress: Arc<Progress>,
}

/// The rounding of a product of factors.
struct ProductRounding {
    /// Whether no factor is larger than 1.
    bounded: bool,
    /// Whether errors are relative to the sizes of factors.
    relative_to_size: bool,
    /// The rounding if it is the same for all rows; `None` if it depends on the row.
    always: Option<(RoundingUnits, Vec<f64>)>,
}

impl GameEngine for ProductEngine<'_> {
    fn players(&self) -> &Players {
        &self.groups
    }

    fn game(&self) -> (ValueIndex, Cow<'_, Game>) {
        (self.index, Cow::Borrowed(&self.game))
    }

    fn base_values(&self) -> &[f64] {
        &self.base
    }

    fn explain(&self, rows: &Table, _: Budget, _: Option<&mut SampleState>) -> Result<Explanation> {
        check_sets(self.index, self.groups.players().len())?;
        self.explain_rows(rows)
    }

    fn set_isa(&mut self, isa: Isa) {
        self.isa = isa;
    }

    fn set_progress(&mut self, progress: Arc<Progress>) {
        self.progress = progress;
    }

    fn max_batch_rows(&self, with_covariance: bool) -> usize {
        if self.index.order() == 1 && !with_covariance {
            return 4096;
        }
        // Values of pairs, and covariances, take memory.
        let sets = self.index.sets(self.groups.players().len()).unwrap_or(usize::MAX);
        let width = if with_covariance { sets.saturating_mul(sets) } else { sets };
        ((1 << 24) / width.max(1)).clamp(1, 4096)
    }

    fn functionals(&self, rows: &Table, players: &[usize]) -> Result<Vec<Matrix>> {
        self.player_functionals(rows, players, self.control())
    }

    fn posterior_functionals(&self, rows: &Table, mirror: Option<&[usize]>) -> Result<Functionals> {
        self.value_functionals(rows, mirror)
    }

    fn check_covariances(&self, posterior: &Posterior<'_>) -> Result<()> {
        self.prior_covariance(posterior).map(|_| ())
    }

    fn covariances(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<f64>> {
        self.row_covariances(rows, posterior)
    }

    fn variance_shares(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<Matrix>> {
        self.variances(rows, posterior)
    }

    fn robustness(&self, delta: &[f64]) -> Result<Vec<f64>> {
        if self.index.order() > 1 {
            let allowed = "the bound holds only for values of single features that average the features' \
                           marginal contributions";
            return Err(Error::parameter("index", self.index, allowed));
        }
        match &self.game {
            Game::Baseline { .. } | Game::Interventional { .. } => robustness::bound(self.model, None, delta),
            game => {
                let allowed = "the bound holds only for the baseline, interventional and observational games";
                Err(Error::parameter("game", game.name(), allowed))
            }
        }
    }

    fn strongest_pairs(&self, rows: &Table, limits: SearchLimits) -> Result<Option<TopInteractions>> {
        // The search needs an index that gives values to pairs only, and a kernel that is a sum of products.
        let weighting = IndexComputation::from(self.index).pair_weighting();
        let Some(averages) = weighting.filter(|_| self.powers.is_empty()) else {
            let players = self.groups.players().len();
            if check_sets(self.index, players).is_err() {
                let allowed = format!(
                    "for a polynomial that ties columns together all pairs are valued, but {players} \
                     features have more than {MAX_SETS} pairs: group them"
                );
                return Err(Error::parameter("index", self.index, allowed));
            }
            return Ok(None);
        };
        let data = rows.align_to(self.model.columns())?;
        self.check_base()?;
        let (n, m, p) = (data.rows(), self.model.outputs(), self.groups.players().len());
        self.progress.start(n * m * STEPS);
        let search = |game: usize| {
            let row = data.select_rows(&[game / m]);
            let batch = RowBatches { explainer: self, data: &row, batch: 1 };
            let mut strongest =
                top_pairs(&batch, (self.isa, &averages), self.control(), (p, game % m), limits)?;
            let approximation_error = self.approximation_errors(&row.row(0))[game % m];
            strongest.bound += 4.0 * averages.heights[0] * approximation_error;
            let finite = strongest.bound.is_finite()
                && strongest.pairs.iter().all(|Pair { value, .. }| value.is_finite());
            if finite { Ok(strongest) } else { Err(self.overflow_error(&data, game / m)) }
        };
        let strongest = (0..n * m).into_par_iter().with_max_len(1).map(search).collect::<Result<_>>()?;
        Ok(Some(TopInteractions {
            index: self.index,
            players: self.groups.players().to_vec(),
            output_names: self.model.output_names.clone(),
            by_game: strongest,
            row_numbers: (0..n).collect(),
            provenance: self.provenance(),
        }))
    }
}

impl<'m> ProductEngine<'m> {
    /// Prepares to explain `model` under `game` for players that together cover its columns.
    pub(super) fn new(
        model: &'m KernelExpansion,
        game: Game,
        index: ValueIndex,
        groups: Players,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        if matches!(game, Game::Functional)
            && model.model_card.iter().any(|fact| fact.name == VANISHING_REFERENCE_FACT)
        {
            let allowed = "the model has support points where its kernel vanishes, like a utility that was \
                           learnt through landmarks: take a game with a background, or fit without landmarks";
            return Err(Error::parameter("game", game.name(), allowed));
        }
        let absent = game.absent_side(model.columns())?;
        let absent_ranges = absent.column_ranges(model.support_points.width());
        let approximation =
            model.radial_approximation(APPROXIMATION_ERROR, absent_ranges.as_deref(), &stop)?;
        let (products, powers) =
            model.kernel.products_and_powers(model.columns(), &groups, &approximation)?;
        let widest =
            products.iter().map(|p| p.players.len()).max().unwrap_or(0).max(model.support_points.width());
        let panels = panels(model, (PANEL / widest.max(1) / LANES * LANES).clamp(LANES, 256));
        let terms = products.len() + powers.len();
        let keep_term = |power: PolynomialTerm<'m>| {
            let (factor, columns) = power.describe(model.columns());
            let exact = &Game::NAMES[1..4].join(", ");
            let allowed = format!(
                "the factor {factor} ties the columns {columns} together, so an absent column has no factor \
                 of 1: take a game with a background or a baseline, where values are exact ({exact}), or \
                 put these columns in one group"
            );
            let not_functional = Error::parameter("game", game.name(), allowed);
            PanelPolynomial::new(power, (model, terms), &absent, &panels, &stop)?.ok_or(not_functional)
        };
        let powers = powers.into_iter().map(keep_term).collect::<Result<_>>()?;
        let mut explainer = Self {
            model,
            game,
            groups,
            products,
            powers,
            rounded: Vec::new(),
            column_ranges: (
                ColumnRanges::per_column(
                    Columns::from_row(&model.support_points, 0),
                    model.support_points.width(),
                ),
                absent_ranges,
            ),
            absent,
            panels,
            cached_absent_sides: Vec::new(),
            nonunit_factors: Vec::new(),
            base: Vec::new(),
            tables: OnceLock::new(),

            isa: Isa::detect(),
            index,
            unions: None,
            stop,
            progress: Arc::default(),
        };
        explainer.rounded = (0..explainer.products.len()).map(|t| explainer.rounded(t)).collect();
        if explainer.absent.weights().len() == 1 && !matches!(explainer.absent, AbsentSide::Ones) {
            let sides = |t| explainer.panels.iter().map(|panel| explainer.side(t, panel)).collect();
            explainer.cached_absent_sides =
                (0..explainer.products.len()).map(sides).collect::<Result<_>>()?;
        }
        if matches!(explainer.absent, AbsentSide::Ones) {
            let lists =
                |p| explainer.panels.iter().map(|panel| explainer.nonunit_factors(p, panel)).collect();
            explainer.nonunit_factors = explainer.products.iter().map(lists).collect();
        }
        explainer.base = explainer.base_values()?;
        Ok(explainer)
    }

    fn side(&self, t: usize, panel: &PointPanel) -> Result<PanelSide> {
        check_cancelled(&self.stop)?;
        let product = &self.products[t];
        let size = product.players.len() * panel.len;
        let fill = |sizes: bool| {
            let mut out = vec![1.0; size + panel.len];
            self.absent.fill_factors(self.isa, product, panel.columns(), 0, sizes, &mut out[..size]);
            out
        };
        let sizes = self.rounded[t].relative_to_size.then(|| fill(true));
        Ok(PanelSide::new(fill(false), sizes, panel.len, matches!(self.absent, AbsentSide::Rows(_))))
    }

    /// Returns the rounding of product `t`.
    fn rounded(&self, t: usize) -> ProductRounding {
        let product = &self.products[t];
        let relative_to_size = product.cancels(self.absent.mean_roundings().is_some());
        // A rounding that is the same for near and far rows is the same for all rows.
        let rounding_at =
            |far: f64| self.rounding(t, &self.column_ranges.0.iter().map(|_| far).collect::<Vec<_>>());
        let (near_rounding, far) = (rounding_at(0.0), rounding_at(1e9));
        let is_constant = (near_rounding.0.units, near_rounding.0.per_log, &near_rounding.1)
            == (far.0.units, far.0.per_log, &far.1);
        ProductRounding {
            bounded: product.unbounded() == 0,
            relative_to_size,
            always: is_constant.then_some(far),
        }
    }

    /// Returns the rounding of product `t` between support points, reference rows and the row `x`, and the
    /// absolute error of each factor.
    fn rounding(&self, t: usize, x: &[f64]) -> (RoundingUnits, Vec<f64>) {
        let (product, width) = (&self.products[t], self.model.support_points.width());
        let (factor_precisions, precision) = product.precision(&self.ranges(x));
        let (factors, variants) = (product.players.len(), self.absent.weights().len());
        let means = self.absent.mean_roundings().map_or(0, |roundings| factors * roundings);
        let mut rounding = RoundingUnits::new(precision.units + means as f64, precision.per_log, width);
        if product.is_approximate && product.unbounded() == 0 {
            // Gaussians with short length scales are 0 up to underflow at most points.
            rounding.negligible = NEGLIGIBLE;
        }
        let longest = self.panels.iter().map(|panel| panel.len).max().unwrap_or(0);
        let terms = self.products.len() + self.powers.len();
        let tiles = self.panels.len() * terms;
        // The prediction: inner products over all columns, products of factors, and their sum.
        let kernel_roundings = product.unbounded() * width + factors + terms;
        let predicted = kernel_roundings + dot_roundings(self.model.support_points.rows());
        // The base value: products, means over the reference, and sums.
        let base = factors + variants.min(TERMS) + variants.div_ceil(TERMS) + dot_roundings(longest) + tiles;
        // Weights of reference rows are normalised, and multiplied by factors that both sides share.
        rounding.units += (predicted + base + 2 * (self.absent.normalised() + factors) + 32) as f64;
        rounding.sums = (longest / LANES + tiles * variants.div_ceil(self.portion(t, longest)) + 8) as f64;
        rounding.tiny = precision.tiny;
        let coef = max_abs(self.model.coef.data()).max(1.0);
        // With several outputs the coefficients are applied afterwards.
        rounding.floor = FLOOR * product.scale.max(1.0) * if self.model.outputs() == 1 { coef } else { 1.0 };
        (rounding, factor_precisions.iter().map(|factor| factor.tiny).collect())
    }

    /// The ranges of the columns in the support points, and in the reference rows and the row `x`.
    fn ranges(&self, x: &[f64]) -> ColumnRanges {
        let mut ranges =
            ColumnRanges { u: self.column_ranges.0.clone(), v: x.iter().map(|v| [*v; 2]).collect() };
        for ([low, high], other) in ranges.v.iter_mut().zip(self.column_ranges.1.iter().flatten()) {
            (*low, *high) = (low.min(other[0]), high.max(other[1]));
        }
        ranges
    }

    /// For each output, a bound on the error of the coalitions' values in row `x` that comes from radial
    /// factors' approximation.
    fn approximation_errors(&self, x: &[f64]) -> Vec<f64> {
        let ranges = self.ranges(x);
        let error: f64 = self.products.iter().map(|product| product.approximation_error(&ranges)).sum();
        (0..self.model.outputs()).map(|o| error * self.model.absolute_coefficients(o)).collect()
    }

    /// The number of reference rows whose factors of product `t` are held together.
    fn portion(&self, t: usize, len: usize) -> usize {
        (ABSENT / ((self.products[t].players.len() + 1) * len.max(1))).max(1)
    }

    /// Returns the error for `row`, with the description `name`, if a factor there is not a finite number.
    fn non_finite_factor_error(&self, row: &[f64], name: &str) -> Option<Error> {
        let panel_error = |panel: &PointPanel| {
            self.products.iter().find_map(|product| {
                let (k, formula) = product.lost(self.isa, panel.columns(), row)?;
                let player = &self.groups.players()[product.players[k]].name;
                Some(Error::overflow(
                    format!("the factor {formula} of {player} at {name}"),
                    "its numbers are too far apart: scale them, or leave out numbers that are not \
                     measurements",
                ))
            })
        };
        self.panels.iter().find_map(panel_error)
    }

    /// Returns the error for row `i` of a table, if a factor there is not a finite number.
    fn lost_of_row(&self, data: &Table, i: usize) -> Option<Error> {
        self.non_finite_factor_error(&data.row(i), &format!("row {}", i + 1))
    }

    /// Returns the error for row `i`, one of whose values is not a finite number.
    fn overflow_error(&self, data: &Table, i: usize) -> Error {
        self.lost_of_row(data, i).unwrap_or_else(|| {
            Error::overflow(
                format!("a value of row {}", i + 1),
                "its numbers are too far from the data the model was fitted on",
            )
        })
    }

    /// Checks that the base values are finite.
    fn check_base(&self) -> Result<()> {
        if self.base.iter().all(|v| v.is_finite()) {
            return Ok(());
        }
        let row = |variant| {
            self.absent.row(variant).and_then(|row| self.non_finite_factor_error(row, "a reference row"))
        };
        let overflow = (0..self.absent.weights().len()).find_map(row);
        Err(overflow.unwrap_or_else(|| {
            Error::overflow(
                "the base value",
                "the reference rows are too far from the data the model was fitted on",
            )
        }))
    }

    /// Returns the provenance of the run.
    fn provenance(&self) -> Provenance {
        let entry = |(gaussians, error): (usize, f64)| {
            let value = format!("sum of {gaussians} Gaussians with an error of at most {error:.1e}");
            CardEntry::new("radial factor", value)
        };
        let approximations = self.products.iter().flat_map(PlayerProduct::approximations).map(entry);
        Provenance::of_run(self.game.name(), self.game.absent(), self.model.facts(), approximations)
    }

    fn nonunit_factors(&self, product: &PlayerProduct<'_>, panel: &PointPanel) -> Option<Vec<u32>> {
        let zeros = vec![0.0; self.model.support_points.width()];
        let mut factor = vec![1.0; panel.len];
        let mut is_one = |k: u32| {
            product.factor(self.isa, k as usize, panel.columns(), &zeros, &mut factor);
            factor.iter().all(|f| *f == 1.0)
        };
        let count = product.players.len();
        let list: Vec<u32> = (0..count as u32).filter(|&k| !is_one(k)).collect();
        (2 * list.len() < count).then_some(list)
    }

    /// Returns `intercept + Σ_p w_p Π_j b_pj` without the engine, with p over weighted reference rows and j
    /// over factors.
    fn base_values(&self) -> Result<Vec<f64>> {
        let m = self.model.outputs();
        let per_panel: Vec<Vec<f64>> = (0..self.panels.len())
            .into_par_iter()
            .map(|index| {
                let panel = &self.panels[index];
                let mut sums = vec![0.0; m];
                for (t, product) in self.products.iter().enumerate() {
                    let mut factors = vec![1.0; product.players.len() * panel.len];
                    let (mut mean, mut batch_sum) = (vec![0.0; panel.len], vec![0.0; panel.len]);
                    let variants = self.absent.weights().len();
                    for (variant, weight) in self.absent.weights().iter().enumerate() {
                        check_cancelled(&self.stop)?;
                        match self.cached_absent_sides.get(t) {
                            Some(kept) => factors
                                .copy_from_slice(&kept[index].factors[..product.players.len() * panel.len]),
                            None => {
                                let columns = panel.columns();
                                self.absent.fill_factors(
                                    self.isa,
                                    product,
                                    columns,
                                    variant,
                                    false,
                                    &mut factors,
                                );
                            }
                        }
                        let mut value = vec![weight * product.scale; panel.len];
                        let factor_rows = factors.chunks_exact(panel.len);
                        if self.rounded[t].bounded {
                            factor_rows.for_each(|factor| multiply_entries(&mut value, factor));
                        } else {
                            // Partial products may leave the range of doubles although the product does not.
                            let mut wide: Vec<(f64, i64)> =
                                value.iter().map(|v| scaled_mul_nonfinite((1.0, 0), *v)).collect();
                            factor_rows.for_each(|factor| {
                                wide.iter_mut()
                                    .zip(factor)
                                    .for_each(|(v, f)| *v = scaled_mul_nonfinite(*v, *f));
                            });
                            value =
                                wide.into_iter().map(|(fraction, power)| ldexp(fraction, power)).collect();
                        }
                        add_to(&mut batch_sum, &value);
                        if (variant + 1) % TERMS == 0 || variant + 1 == variants {
                            mean.iter_mut().zip(&mut batch_sum).for_each(|(m, s)| *m += std::mem::take(s));
                        }
                    }
                    panel.add_outputs(&mean, &mut sums);
                }
                for power in &self.powers {
                    check_cancelled(&self.stop)?;
                    power.add_base(self.isa, index, panel, &mut sums);
                }
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let mut base = self.model.intercept.clone();
        per_panel.iter().for_each(|sums| add_to(&mut base, sums));
        Ok(base)
    }

    /// Returns the values of every row of `rows`.
    pub(super) fn explain_rows(&self, rows: &Table) -> Result<Explanation> {
        let data = rows.align_to(self.model.columns())?;
        let overflow_of_row = |i: usize| self.lost_of_row(&data, i);
        let predictions = self.model.predict_until(&data, &self.stop).map_err(|error| match error {
            Error::Overflow { .. } => (0..data.rows()).find_map(overflow_of_row).unwrap_or(error),
            error => error,
        })?;
        self.check_base()?;
        let (n, m, p) = (data.rows(), self.model.outputs(), self.groups.players().len());
        // Batches are as large as possible while every thread has work.
        let batch = n.div_ceil(rayon::current_num_threads()).clamp(1, BATCH);
        let game = RowBatches { explainer: self, data: &data, batch };
        let recipe = IndexComputation::new(self.index, self.unions.as_ref());
        let IndexValues { values, error: mut bound } = match self.index_weights(&recipe) {
            Some(weighings) => self.find_by_tables(&recipe, &weighings, &data)?,
            None => {
                self.progress.start(game.parts());
                recipe.compute(&game, self.isa, self.control(), (p, m))?
            }
        };
        let subsets = recipe.subsets(p);
        let sets = subsets.as_ref().map_or(p, Vec::len);
        if self.products.iter().any(|product| product.is_approximate) {
            let errors = (0..n).flat_map(|i| self.approximation_errors(&data.row(i)));
            let per_value = recipe.coalition_error_factor(p);
            bound.iter_mut().zip(errors).for_each(|(bound, error)| *bound += per_value * error);
        }
        for (g, (bound, game_values)) in bound.iter_mut().zip(values.chunks_exact(sets)).enumerate() {
            // The base value begins with the intercept and the prediction ends with it. The residual sums all
            // values.
            let ends = predictions.data()[g].abs() + self.base[g % m].abs();
            let intercept = (self.panels.len() + 4) as f64 * self.model.intercept[g % m].abs();
            let sum = (sets + 2) as f64 * game_values.iter().map(|v| v.abs()).sum::<f64>();
            *bound += f64::EPSILON * (sum + 2.0 * ends + intercept) + f64::MIN_POSITIVE;
        }
        let numbers = values.chunks_exact(m * sets).zip(bound.chunks_exact(m));
        let finite = |(v, b): (&[f64], &[f64])| v.iter().chain(b).all(|v| v.is_finite());
        if let Some(i) = numbers.map(finite).position(|finite| !finite) {
            return Err(self.overflow_error(&data, i));
        }
        Ok(Explanation {
            index: self.index,
            subsets,
            values,
            base_values: self.base.repeat(n),
            predictions: predictions.into_data(),
            exactness: Exactness::Exact { bound },
            provenance: self.provenance(),
            ..Explanation::of_rows(self.groups.players(), &self.model.output_names, data)
        })
    }

    /// Returns a matrix for each of `players`, whose entry (i, r) is the contribution of a coefficient 1 of
    /// support point i to the player's value in row r.
    fn player_functionals(
        &self,
        rows: &Table,
        players: &[usize],
        control: RunControl<'_>,
    ) -> Result<Vec<Matrix>> {
        let data = rows.align_to(self.model.columns())?;
        let (n, count, measure) = (self.model.support_points.rows(), data.rows(), self.measure()?);
        let mut out = vec![Matrix::zeros(n, count); players.len()];
        if players.is_empty() {
            return Ok(out);
        }
        let mut slots = vec![None; self.groups.players().len()];
        players.iter().enumerate().for_each(|(slot, &player)| slots[player] = Some(slot));
        let padded: usize = self.panels.iter().map(|panel| panel.len).sum();
        // A model may have no support points.
        let batch = (FUNCTIONALS / (padded * players.len()).max(1)).clamp(1, BATCH);
        control.progress.start(count.div_ceil(batch));
        for chunk in row_batches(count, batch * BATCHES_PER_CHUNK) {
            let game = RowBatches { explainer: self, data: &data.select_rows(&chunk), batch };
            let new = || PlayerFunctionals::new(slots.clone());
            let parts = accumulate(&game, (self.isa, &measure), control, new)?;
            for (part, rows) in parts.iter().zip(chunk.chunks(batch)) {
                for (position, padded_values) in part.values.chunks_exact(padded.max(1)).enumerate() {
                    let (slot, r) = (position / rows.len(), rows[position % rows.len()]);
                    let mut unpadded_values = self
                        .panels
                        .iter()
                        .flat_map(|panel| &padded_values[panel.from..panel.from + panel.unpadded_len]);
                    (0..n).zip(&mut unpadded_values).for_each(|(i, value)| out[slot][(i, r)] = *value);
                }
            }
        }
        Ok(out)
    }

    fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }
}

//! The product games of a model.
//!
//! Support points are cut into panels that fit the cache. For each panel the absent side is made once and
//! shared by the rows of a batch; for each row the present side is made once and shared by all reference
//! rows. Every row is summed in the same order whatever the batch and the number of threads, so results are
//! bit for bit the same.

mod powers;
mod strongest;
mod tables;
mod terms;
mod uncertainty;
mod variance;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use self::powers::PanelPower;
use self::tables::Tables;
use self::terms::Batches;
use super::panel::{PanelSide, PointPanel, panels};
use crate::attribution::index_computation::{IndexComputation, IndexValues};
use crate::attribution::product::{PlayerFunctionals, ProductGame, read};
use crate::attribution::quadrature::{FLOOR, RoundingUnits, ldexp, scaled_mul_nonfinite};
use crate::coalition_structure::CoalitionTree;
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Fact, Provenance};
use crate::game::{AbsentSide, Game, TERMS};
use crate::index::ValueIndex;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel::polynomial_terms::PolynomialTerm;
use crate::kernel::{ColumnRanges, Columns};
use crate::kernel_model::{KernelExpansion, VANISHING_REFERENCE_FACT};
use crate::linalg::{Matrix, dot, dot_roundings};
use crate::simd::{Isa, LANES};
use crate::table::{Players, Table};

/// Rows explained together by one thread.
const BATCH: usize = 16;

/// Doubles of functionals that one thread has at a time, and parts of them that are done before they are put
/// where they belong.
const FUNCTIONALS: usize = 1 << 20;
const TOGETHER: usize = 64;

/// Doubles that one panel's present side may hold: a share of the second-level cache.
const PANEL: usize = 16384;

/// Doubles that the absent side of a panel may hold before its reference rows are taken in portions.
const ABSENT: usize = 1 << 19;

/// Explains rows of one model under one product game.
pub(super) struct ProductEngine<'m> {
    pub(super) model: &'m KernelExpansion,
    pub(super) game: Game,
    pub(super) groups: Players,
    products: Vec<PlayerProduct<'m>>,
    /// The terms of the kernel that are powers.
    powers: Vec<PanelPower<'m>>,
    /// For each product how it is rounded.
    rounded: Vec<ProductRounding>,
    /// The least and largest numbers of support points, and of reference rows, column by column.
    column_ranges: (Vec<[f64; 2]>, Option<Vec<[f64; 2]>>),
    absent: AbsentSide,
    panels: Vec<PointPanel>,
    /// The absent side of each product and panel, where it is the same for all rows: one reference row, or
    /// means.
    cached_absent_sides: Vec<Vec<PanelSide>>,
    /// Where the absent side is all 1, for each product and panel: the factors that are not 1 for a row of
    /// zeros. `None` if they are so many that a list saves nothing.
    nonunit_factors: Vec<Vec<Option<Vec<u32>>>>,
    pub(super) base: Vec<f64>,
    /// Made when they are first asked for, where they save work.
    tables: OnceLock<Tables>,
    /// What the model says of itself. Writing the kernel's numbers takes longer than copying them written.
    facts: Vec<Fact>,
    pub(super) isa: Isa,
    pub(super) index: ValueIndex,
    /// For Owen values.
    pub(super) unions: Option<CoalitionTree>,
    stop: Arc<AtomicBool>,
    pub(super) progress: Arc<Progress>,
}

/// How a product is rounded.
struct ProductRounding {
    /// Whether no factor is larger than 1.
    bounded: bool,
    /// Whether errors are relative to sizes.
    by_size: bool,
    /// For all rows alike; `None` where it depends on the row.
    always: Option<(RoundingUnits, Vec<f64>)>,
}

impl<'m> ProductEngine<'m> {
    /// Prepares to explain `model` under `game` for players that cover its columns.
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
            let allowed = "the model has support points where its kernel vanishes, as a utility that was \
                           learnt through landmarks has: ask for a game with a background, or fit without \
                           landmarks";
            return Err(Error::parameter("game", game.name(), allowed));
        }
        let (products, powers) = model.kernel.products_and_powers(model.columns(), &groups)?;
        let absent = game.absent_side(model.columns())?;
        let widest =
            products.iter().map(|p| p.players.len()).max().unwrap_or(0).max(model.support_points.width());
        let panels = panels(model, (PANEL / widest.max(1) / LANES * LANES).clamp(LANES, 256));
        let terms = products.len() + powers.len();
        let kept = |power: PolynomialTerm<'m>| {
            let (factor, columns) = power.describe(model.columns());
            let exact = &Game::NAMES[1..4].join(", ");
            let allowed = format!(
                "the factor {factor} ties the columns {columns} together, and an absent factor of 1 means \
                 nothing to it; given a background or a baseline its values are exact (the games {exact}), \
                 and so they are here with these columns in one group"
            );
            let told = Error::parameter("game", game.name(), allowed);
            PanelPower::new(power, (model, terms), &absent, &panels, &stop)?.ok_or(told)
        };
        let powers = powers.into_iter().map(kept).collect::<Result<_>>()?;
        let mut explainer = Self {
            model,
            game,
            groups,
            products,
            powers,
            rounded: Vec::new(),
            column_ranges: (
                ColumnRanges::of(Columns::of(&model.support_points, 0), model.support_points.width()),
                None,
            ),
            absent,
            panels,
            cached_absent_sides: Vec::new(),
            nonunit_factors: Vec::new(),
            base: Vec::new(),
            tables: OnceLock::new(),
            facts: model.facts(),
            isa: Isa::detect(),
            index,
            unions: None,
            stop,
            progress: Arc::default(),
        };
        explainer.column_ranges.1 = explainer.absent.column_ranges(model.support_points.width());
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
        let sizes = self.rounded[t].by_size.then(|| fill(true));
        Ok(PanelSide::new(fill(false), sizes, panel.len, matches!(self.absent, AbsentSide::Rows(_))))
    }

    /// How product `t` is rounded.
    fn rounded(&self, t: usize) -> ProductRounding {
        let product = &self.products[t];
        let by_size = product.cancels(self.absent.mean_roundings().is_some());
        // The same for rows close by and far away is the same for all.
        let at = |far: f64| self.rounding(t, &self.column_ranges.0.iter().map(|_| far).collect::<Vec<_>>());
        let (near, far) = (at(0.0), at(1e9));
        let same = (near.0.units, near.0.per_log, &near.1) == (far.0.units, far.0.per_log, &far.1);
        ProductRounding { bounded: product.unbounded() == 0, by_size, always: same.then_some(far) }
    }

    /// How product `t` is rounded between support points, reference rows and the row `x`, and what each
    /// factor is off besides.
    fn rounding(&self, t: usize, x: &[f64]) -> (RoundingUnits, Vec<f64>) {
        let (product, width) = (&self.products[t], self.model.support_points.width());
        let mut reach =
            ColumnRanges { u: self.column_ranges.0.clone(), v: x.iter().map(|v| [*v; 2]).collect() };
        for ([low, high], other) in reach.v.iter_mut().zip(self.column_ranges.1.iter().flatten()) {
            (*low, *high) = (low.min(other[0]), high.max(other[1]));
        }
        let (own, precision) = product.precision(&reach);
        let (factors, variants) = (product.players.len(), self.absent.weights().len());
        let means = self.absent.mean_roundings().map_or(0, |roundings| factors * roundings);
        let mut rounding = RoundingUnits::new(precision.units + means as f64, precision.per_log, width);
        let longest = self.panels.iter().map(|panel| panel.len).max().unwrap_or(0);
        let terms = self.products.len() + self.powers.len();
        let tiles = self.panels.len() * terms;
        // The prediction: inner products over all columns, products of factors, and their sum.
        let of_kernel = product.unbounded() * width + factors + terms;
        let predicted = of_kernel + dot_roundings(self.model.support_points.rows());
        // The base value: products, means over the reference, and sums.
        let base = factors + variants.min(TERMS) + variants.div_ceil(TERMS) + dot_roundings(longest) + tiles;
        // Weights of reference rows are normalised, and multiplied by factors that both sides share.
        rounding.units += (predicted + base + 2 * (self.absent.normalised() + factors) + 32) as f64;
        rounding.sums = (longest / LANES + tiles * variants.div_ceil(self.portion(t, longest)) + 8) as f64;
        rounding.tiny = precision.tiny;
        let coef = self.model.coef.data().iter().fold(1.0, |a: f64, c| a.max(c.abs()));
        // Several outputs are weighed afterwards.
        rounding.floor = FLOOR * product.scale.max(1.0) * if self.model.outputs() == 1 { coef } else { 1.0 };
        (rounding, own.iter().map(|factor| factor.tiny).collect())
    }

    /// How many reference rows' factors of product `t` are kept together.
    fn portion(&self, t: usize, len: usize) -> usize {
        (ABSENT / ((self.products[t].players.len() + 1) * len.max(1))).max(1)
    }

    /// What is wrong with `row`, called by this name, if a factor there is no finite number.
    fn non_finite_factor_error(&self, row: &[f64], name: &str) -> Option<Error> {
        let of = |panel: &PointPanel| {
            self.products.iter().find_map(|product| {
                let (k, formula) = product.lost(self.isa, panel.columns(), row)?;
                let player = &self.groups.players()[product.players[k]].name;
                Some(Error::Overflow {
                    what: format!("the factor {formula} of {player} at {name}"),
                    remedy: "its numbers are too far apart: scale them, or leave out what is no measurement",
                })
            })
        };
        self.panels.iter().find_map(of)
    }

    /// The same of row `i`.
    fn lost_of_row(&self, data: &Table, i: usize) -> Option<Error> {
        self.non_finite_factor_error(&data.row(i), &format!("row {}", i + 1))
    }

    /// What is wrong with row `i`, a value of which is no finite number.
    fn overflow_error(&self, data: &Table, i: usize) -> Error {
        self.lost_of_row(data, i).unwrap_or_else(|| Error::Overflow {
            what: format!("a value of row {}", i + 1),
            remedy: "its numbers are too far from the data the model was fitted on",
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
        let lost = (0..self.absent.weights().len()).find_map(row);
        Err(lost.unwrap_or_else(|| Error::Overflow {
            what: "the base value".into(),
            remedy: "the reference rows are too far from the data the model was fitted on",
        }))
    }

    /// What is said of the run.
    fn provenance(&self) -> Provenance {
        Provenance {
            game: self.game.name().into(),
            absent: self.game.absent(),
            model: self.facts.clone(),
            run: vec![Fact::new("riesz", env!("CARGO_PKG_VERSION"))],
        }
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

    /// `intercept + Σ_p w_p Π_j b_pj`, without the engine.
    fn base_values(&self) -> Result<Vec<f64>> {
        let m = self.model.outputs();
        let per_panel: Vec<Vec<f64>> = (0..self.panels.len())
            .into_par_iter()
            .map(|at| {
                let panel = &self.panels[at];
                let mut sums = vec![0.0; m];
                for (t, product) in self.products.iter().enumerate() {
                    let mut factors = vec![1.0; product.players.len() * panel.len];
                    let (mut mean, mut some) = (vec![0.0; panel.len], vec![0.0; panel.len]);
                    let variants = self.absent.weights().len();
                    for (variant, weight) in self.absent.weights().iter().enumerate() {
                        check_cancelled(&self.stop)?;
                        match self.cached_absent_sides.get(t) {
                            Some(kept) => factors
                                .copy_from_slice(&kept[at].factors[..product.players.len() * panel.len]),
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
                        let each = factors.chunks_exact(panel.len);
                        if self.rounded[t].bounded {
                            each.for_each(|own| value.iter_mut().zip(own).for_each(|(v, f)| *v *= f));
                        } else {
                            // On its way it may leave the range of doubles, and come back.
                            let mut wide: Vec<(f64, i64)> =
                                value.iter().map(|v| scaled_mul_nonfinite((1.0, 0), *v)).collect();
                            each.for_each(|own| {
                                wide.iter_mut().zip(own).for_each(|(v, f)| *v = scaled_mul_nonfinite(*v, *f));
                            });
                            let narrow = wide.iter().map(|(fraction, power)| ldexp(*fraction, *power));
                            value.iter_mut().zip(narrow).for_each(|(v, narrow)| *v = narrow);
                        }
                        some.iter_mut().zip(&value).for_each(|(m, v)| *m += v);
                        if (variant + 1) % TERMS == 0 || variant + 1 == variants {
                            mean.iter_mut().zip(&mut some).for_each(|(m, s)| *m += std::mem::take(s));
                        }
                    }
                    for (sum, coef) in sums.iter_mut().zip(&panel.coef) {
                        let coef: Vec<f64> = coef.iter().flat_map(|c| c.0).collect();
                        *sum += dot(&mean, &coef);
                    }
                }
                for power in &self.powers {
                    check_cancelled(&self.stop)?;
                    power.add_base(self.isa, at, panel, &mut sums);
                }
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let mut base = self.model.intercept.clone();
        for sums in &per_panel {
            base.iter_mut().zip(sums).for_each(|(b, s)| *b += s);
        }
        Ok(base)
    }

    /// The values of every row of `rows`.
    pub(super) fn explain(&self, rows: &Table) -> Result<Explanation> {
        let data = rows.align_to(self.model.columns())?;
        let lost = |i: usize| self.lost_of_row(&data, i);
        let predictions = self.model.predict_until(&data, &self.stop).map_err(|error| match error {
            Error::Overflow { .. } => (0..data.rows()).find_map(lost).unwrap_or(error),
            error => error,
        })?;
        self.check_base()?;
        let (n, m, p) = (data.rows(), self.model.outputs(), self.groups.players().len());
        // Small enough that every thread has work, and no smaller than that.
        let batch = n.div_ceil(rayon::current_num_threads()).clamp(1, BATCH);
        let game = Batches { explainer: self, data: &data, batch };
        let recipe = IndexComputation::new(self.index, self.unions.as_ref());
        let IndexValues { values, error: mut bound } = match self.weighings(&recipe) {
            Some(weighings) => self.find_by_tables(self.tables()?, &recipe, &weighings, &data)?,
            None => {
                self.progress.start(game.parts());
                recipe.compute(&game, self.isa, self.watch(), (p, m))?
            }
        };
        let subsets = recipe.subsets(p);
        let sets = subsets.as_ref().map_or(p, Vec::len);
        for (g, (bound, own)) in bound.iter_mut().zip(values.chunks_exact(sets)).enumerate() {
            // The base value begins with the intercept, the prediction ends with it; and the residual sums up
            // the values.
            let ends = predictions.data()[g].abs() + self.base[g % m].abs();
            let intercept = (self.panels.len() + 4) as f64 * self.model.intercept[g % m].abs();
            let sum = (sets + 2) as f64 * own.iter().map(|v| v.abs()).sum::<f64>();
            *bound += f64::EPSILON * (sum + 2.0 * ends + intercept) + f64::MIN_POSITIVE;
        }
        let numbers = values.chunks_exact(m * sets).zip(bound.chunks_exact(m));
        let finite = |(v, b): (&[f64], &[f64])| v.iter().chain(b).all(|v| v.is_finite());
        if let Some(i) = numbers.map(finite).position(|finite| !finite) {
            return Err(self.overflow_error(&data, i));
        }
        Ok(Explanation {
            index: self.index,
            players: self.groups.players().to_vec(),
            subsets,
            output_names: self.model.output_names.clone(),
            values,
            base_values: (0..n).flat_map(|_| self.base.iter().copied()).collect(),
            predictions: predictions.data().to_vec(),
            data,
            row_numbers: (0..n).collect(),
            exactness: Exactness::Exact { bound },
            uncertainty: None,
            duels: None,
            provenance: self.provenance(),
        })
    }

    /// For each of `players`, `out[i][r]`: what a coefficient 1 of support point i would add to its value in
    /// row r.
    pub(super) fn functionals(
        &self,
        rows: &Table,
        players: &[usize],
        watch: RunControl<'_>,
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
        watch.progress.start(count.div_ceil(batch));
        for start in (0..count).step_by(batch * TOGETHER) {
            let chunk: Vec<usize> = (start..(start + batch * TOGETHER).min(count)).collect();
            let game = Batches { explainer: self, data: &data.select_rows(&chunk), batch };
            let new = || PlayerFunctionals::new(slots.clone());
            let parts = read(&game, (self.isa, &measure), watch, new)?;
            for (part, rows) in parts.iter().zip(chunk.chunks(batch)) {
                for (at, all) in part.values.chunks_exact(padded.max(1)).enumerate() {
                    let (slot, r) = (at / rows.len(), rows[at % rows.len()]);
                    let mut own =
                        self.panels.iter().flat_map(|panel| &all[panel.from..panel.from + panel.own]);
                    (0..n).zip(&mut own).for_each(|(i, value)| out[slot][(i, r)] = *value);
                }
            }
        }
        Ok(out)
    }

    pub(super) fn watch(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }
}
